#include "vdev_fixture.h"

#define TOP_ASIZE (UINT64_C(240) << 20)

static struct nvlist *nv_mirror(unsigned id, unsigned first, unsigned n)
{
	struct nvlist *nv = nv_vdev("mirror", id, 50 + id);

	nv_make_top(nv, 12, TOP_ASIZE);
	nv_add_leaves(nv, first, n);
	return nv;
}

static struct fixture *mirror(unsigned n)
{
	struct nvlist *nv = nv_mirror(0, 0, n);

	return fixture_create(&nv, 1);
}

static void write_leaf(struct fixture *f, unsigned i, uint64_t offset, const uint8_t *data, size_t size)
{
	if (f->leaf[i].disk)
		assert_int_equal(disk_write(f->leaf[i].disk, offset + VDEV_LABEL_START_SIZE, data, size), 0);
}

static void reads_survive_while_one_side_is_right(void **state)
{
	struct fixture *f = mirror(3);

	(void)state;
	fixture_open(f);
	for (unsigned i = 0; i < 3; i++)
		write_leaf(f, i, 0x10000, f->want, 0x20000);
	for (unsigned fail = 0; fail < 8; fail++)
		for (unsigned lie = 0; lie < 8; lie++) {
			for (unsigned i = 0; i < 3; i++) {
				f->leaf[i].fails = fail >> i & 1;
				f->leaf[i].lies = lie >> i & 1;
			}
			int want = (fail | lie) != 7 ? 0 : fail == 7 ? -EIO : -ECKSUM;
			assert_int_equal(fixture_read(f, f->top, 0x10000, 0x20000, 10, 0), want);
		}
	fixture_destroy(f);
}

static void absent_sides_degrade_and_the_last_one_ends_it(void **state)
{
	struct fixture *f = mirror(2);

	(void)state;
	f->leaf[0].absent = true;
	fixture_open(f);
	write_leaf(f, 1, 0, f->want, 4096);
	assert_int_equal(f->top->state, VDEV_STATE_DEGRADED);
	assert_int_equal(f->top->child[0]->state, VDEV_STATE_CANT_OPEN);
	assert_int_equal(f->top->child[0]->aux, VDEV_AUX_OPEN_FAILED);
	assert_int_equal(fixture_read(f, f->top, 0, 4096, 10, 0), 0);
	vdev_set_state(f->top->child[1], VDEV_STATE_FAULTED, VDEV_AUX_IO_FAILURE);
	assert_int_equal(f->top->state, VDEV_STATE_CANT_OPEN);
	assert_int_equal(f->root->aux, VDEV_AUX_NO_REPLICAS);
	assert_int_equal(fixture_read(f, f->top, 0, 4096, 10, 0), -ENXIO);
	fixture_destroy(f);
}

static void a_side_that_lacks_the_txg_is_the_last_resort(void **state)
{
	struct fixture *f = mirror(2);

	(void)state;
	fixture_open(f);
	write_leaf(f, 1, 0, f->want, 4096);
	write_leaf(f, 0, 8192, f->want, 4096);
	vdev_dtl_add(f->top->child[0], 10, 20);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(fixture_read(f, f->top, 0, 4096, 15, 0), 0);
	assert_int_equal(f->leaf[0].reads, 0);
	assert_int_equal(fixture_read(f, f->top, 8192, 4096, 15, 0), 0);
	assert_int_equal(leaf_checksum_errors(f, 0), 0);
	assert_int_equal(leaf_checksum_errors(f, 1), 1);
	fixture_destroy(f);
}

static void a_scrub_reads_every_side(void **state)
{
	struct fixture *f = mirror(3);

	(void)state;
	fixture_open(f);
	for (unsigned i = 0; i < 3; i++)
		write_leaf(f, i, 0, f->want, 8192);
	for (unsigned lie = 0; lie < 7; lie++) {
		uint64_t before[3];
		for (unsigned i = 0; i < 3; i++) {
			f->leaf[i].lies = lie >> i & 1;
			before[i] = leaf_checksum_errors(f, i);
		}
		assert_int_equal(fixture_read(f, f->top, 0, 8192, 10, VDEV_READ_SCRUB), 0);
		assert_int_equal(f->verified, 3);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(leaf_checksum_errors(f, i) - before[i], lie >> i & 1);
	}
	fixture_destroy(f);
}

static void prefetch_errors_are_not_counted(void **state)
{
	struct fixture *f = mirror(1);

	(void)state;
	fixture_open(f);
	assert_int_equal(fixture_read(f, f->top, 0, 4096, 10, VDEV_READ_SPECULATIVE), -ECKSUM);
	assert_int_equal(leaf_checksum_errors(f, 0), 0);
	f->leaf[0].fails = true;
	assert_int_equal(fixture_read(f, f->top, 0, 4096, 10, VDEV_READ_SPECULATIVE), -EIO);
	assert_int_equal(counter_read(&f->top->child[0]->stats.read_errors), 0);
	assert_int_equal(fixture_read(f, f->top, 0, 4096, 10, 0), -EIO);
	assert_int_equal(counter_read(&f->top->child[0]->stats.read_errors), 1);
	fixture_destroy(f);
}

static void reads_outside_the_vdev_are_refused(void **state)
{
	struct fixture *f = mirror(2);
	static const uint64_t bad[][2] = {
	    {TOP_ASIZE, 4096},
	    {TOP_ASIZE - 4096, 8192},
	    {UINT64_MAX - 511, 512},
	    {UINT64_MAX - 4095, 8192},
	    {0, 0},
	    {1, 512},
	    {0, 513},
	    {0, UINT64_C(1) << 40},
	};

	(void)state;
	fixture_open(f);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct sync_read r = {.io = {.offset = bad[i][0], .size = bad[i][1], .done = sync_done}};
		waiter_init(&r.w);
		vdev_read(f->top, &r.io);
		assert_int_equal(waiter_wait(&r.w), -EINVAL);
	}
	fixture_destroy(f);
}

/* Many reads at once, of which neighbours are merged. */
#define MANY 400

static void check_many(struct fixture *f, uint64_t step, unsigned failing)
{
	static struct sync_read r[MANY];
	static struct buf *buf[MANY];
	static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

	f->leaf[0].gate = &gate;
	pthread_mutex_lock(&gate); /* all are waiting before the first is done */

	for (unsigned i = 0; i < MANY; i++) {
		unsigned k = i * 7 % MANY;
		r[i] = (struct sync_read){.io = {.offset = k * step, .size = 4096, .done = sync_done}, .f = f};
		buf[i] = buf_alloc(4096);
		r[i].io.data = buf[i]->data;
		waiter_init(&r[i].w);
	}
	for (unsigned i = 0; i < MANY; i++)
		vdev_read(f->top, &r[i].io);
	pthread_mutex_unlock(&gate);
	for (unsigned i = 0; i < MANY; i++) {
		unsigned k = i * 7 % MANY;
		assert_int_equal(waiter_wait(&r[i].w), k == failing ? -EIO : 0);
		if (k != failing)
			assert_memory_equal(r[i].io.data, f->want + k * step, 4096);
		buf_release(buf[i]);
	}
}

static void neighbours_are_read_together(void **state)
{
	struct nvlist *nv = nv_vdev("disk", 0, 100);

	(void)state;
	nv_make_top(nv, 12, TOP_ASIZE);
	struct fixture *f = fixture_create(&nv, 1);
	fixture_open(f);
	write_leaf(f, 0, 0, f->want, sizeof(f->want));
	check_many(f, 4096, UINT32_MAX);
	assert_in_range(f->leaf[0].reads, 2, 50);
	check_many(f, 8192, UINT32_MAX);
	unsigned reads = f->leaf[0].reads;
	f->leaf[0].fail_from = VDEV_LABEL_START_SIZE + 200 * 4096;
	f->leaf[0].fail_to = f->leaf[0].fail_from + 1;
	check_many(f, 4096, 200);
	assert_true(f->leaf[0].reads > reads);
	assert_int_equal(counter_read(&f->top->stats.read_errors), 1);
	fixture_destroy(f);
}

static void names_are_those_of_zpool_status(void **state)
{
	static const struct {
		const char *type, *path;
		uint64_t whole;
		unsigned flags;
		const char *name;
	} t[] = {
	    {"disk", "/dev/sda", 0, 0, "sda"},
	    {"disk", "/dev/sda1", 1, 0, "sda"},
	    {"disk", "/dev/sda1", 0, 0, "sda1"},
	    {"disk", "/dev/nvme0n1p1", 1, 0, "nvme0n1"},
	    {"disk", "/dev/disk/by-id/ata-X_12-part1", 1, 0, "ata-X_12"},
	    {"disk", "/dev/mapper/crypt", 0, 0, "crypt"},
	    {"disk", "/dev/sda1", 1, VDEV_NAME_PATH, "/dev/sda1"},
	    {"disk", "/dev/sda", 0, VDEV_NAME_GUID, "100"},
	    {"file", "/var/tmp/disk0", 0, 0, "/var/tmp/disk0"},
	    {"indirect", NULL, 0, 0, "indirect-0"},
	    {"hole", NULL, 0, 0, "hole-0"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct nvlist *nv = nv_vdev(t[i].type, 0, 100);
		if (t[i].path)
			nvlist_add_string(nv, "path", t[i].path);
		nvlist_add_u64(nv, "whole_disk", t[i].whole);
		nv_make_top(nv, 9, TOP_ASIZE);
		struct fixture *f = fixture_create(&nv, 1);
		autofree char *name = vdev_name(f->top, t[i].flags);
		assert_string_equal(name, t[i].name);
		fixture_destroy(f);
	}
}

static void damaged_trees_are_refused(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 7; i++) {
		autonv struct nvlist *nv = nv_mirror(0, 0, 2);
		struct vdev *vd = NULL;
		struct err e = ERR_INIT;
		if (i == 0)
			nvlist_add_u64(nv, "ashift", 40);
		if (i == 1)
			nvlist_add_u64(nv, "guid", 0);
		if (i == 2)
			nvlist_remove(nv, "children");
		if (i == 3)
			nvlist_add_string(nv, "type", "l2cache");
		if (i == 4)
			nvlist_add_u64(nv, "asize", UINT64_MAX);
		if (i == 5)
			nvlist_add_u64(nv, "metaslab_shift", 64);
		if (i == 6) {
			struct nvlist *inner = nv_mirror(0, 0, 2);
			nvlist_add_lists(nv, "children", &inner, 1);
			nvlist_destroy(inner);
		}
		assert_int_equal(vdev_tree_create(nv, &vd, &e), i == 3 ? -ENOTSUP : -EINVAL);
		assert_true(e.text[0] != '\0');
		assert_null(vd);
	}
}

/* Removed devices: top 0 is indirect, 1 and 2 mirrors, 3 indirect too. */

static struct fixture *removed(void)
{
	struct nvlist *top[4] = {nv_vdev("indirect", 0, 40), nv_mirror(1, 0, 2), nv_mirror(2, 2, 2),
				 nv_vdev("indirect", 3, 41)};

	nv_make_top(top[0], 12, TOP_ASIZE);
	nv_make_top(top[3], 12, TOP_ASIZE);
	struct fixture *f = fixture_create(top, 4);
	fixture_open(f);
	return f;
}

static void removed_devices_are_read_through_their_mapping(void **state)
{
	struct fixture *f = removed();
	static const struct vdev_indirect_entry map0[] = {
	    {0x0, 0x4000, 1, 0x100000},
	    {0x4000, 0x4000, 3, 0x2000},
	    {0x10000, 0x8000, 2, 0x300000},
	};
	static const struct vdev_indirect_entry map3[] = {
	    {0x0, 0x3000, 1, 0x500000},
	    {0x3000, 0x9000, 2, 0x600000},
	};

	(void)state;
	assert_int_equal(vdev_indirect_set_mapping(f->root->child[0], map0, 3), 0);
	assert_int_equal(vdev_indirect_set_mapping(f->root->child[3], map3, 2), 0);
	for (unsigned i = 0; i < 2; i++) {
		write_leaf(f, i, 0x100000, f->want, 0x4000);
		write_leaf(f, i, 0x502000, f->want + 0x4000, 0x1000);
		write_leaf(f, 2 + i, 0x600000, f->want + 0x5000, 0x3000);
		write_leaf(f, 2 + i, 0x301000, f->want, 0x1000);
	}
	assert_int_equal(fixture_read(f, f->top, 0x11000, 0x1000, 10, 0), 0); /* one piece */
	assert_int_equal(fixture_read(f, f->top, 0x0, 0x8000, 10, 0), 0);     /* three, two of them nested */
	assert_int_equal(fixture_read(f, f->top, 0x0, 0x8000, 10, VDEV_READ_SCRUB), 0);
	assert_int_equal(fixture_read(f, f->top, 0x6000, 0x4000, 10, 0), -ENXIO); /* not mapped */
	/* Each mirror has a side that lies: only a combination is right. */
	for (unsigned lie = 0; lie < 4; lie++) {
		f->leaf[lie & 1].lies = true;
		f->leaf[2 + (lie >> 1)].lies = true;
		assert_int_equal(fixture_read(f, f->top, 0x11000, 0x1000, 10, 0), 0);
		assert_int_equal(fixture_read(f, f->top, 0x0, 0x8000, 10, 0), 0);
		f->leaf[lie & 1].lies = false;
		f->leaf[2 + (lie >> 1)].lies = false;
	}
	f->leaf[0].fails = f->leaf[2].fails = true;
	assert_int_equal(fixture_read(f, f->top, 0x0, 0x8000, 10, 0), 0);
	f->leaf[3].lies = true;
	assert_int_equal(fixture_read(f, f->top, 0x0, 0x8000, 10, 0), -ECKSUM);
	f->leaf[3].fails = true;
	assert_int_equal(fixture_read(f, f->top, 0x0, 0x8000, 10, 0), -EIO);
	fixture_destroy(f);
}

static void mappings_that_go_in_circles_end(void **state)
{
	struct fixture *f = removed();
	struct vdev_indirect_entry there = {0, 0x10000, 3, 0}, back = {0, 0x10000, 0, 0};

	(void)state;
	assert_int_equal(vdev_indirect_set_mapping(f->root->child[0], &there, 1), 0);
	assert_int_equal(vdev_indirect_set_mapping(f->root->child[3], &back, 1), 0);
	assert_int_equal(fixture_read(f, f->top, 0, 0x1000, 10, 0), -EIO);
	back.dst_vdev = 4;
	assert_int_equal(vdev_indirect_set_mapping(f->root->child[3], &back, 1), -EINVAL);
	back.dst_vdev = 1;
	back.size = 0;
	assert_int_equal(vdev_indirect_set_mapping(f->root->child[3], &back, 1), -EINVAL);
	fixture_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_survive_while_one_side_is_right),
	    cmocka_unit_test(absent_sides_degrade_and_the_last_one_ends_it),
	    cmocka_unit_test(a_side_that_lacks_the_txg_is_the_last_resort),
	    cmocka_unit_test(a_scrub_reads_every_side),
	    cmocka_unit_test(prefetch_errors_are_not_counted),
	    cmocka_unit_test(reads_outside_the_vdev_are_refused),
	    cmocka_unit_test(neighbours_are_read_together),
	    cmocka_unit_test(names_are_those_of_zpool_status),
	    cmocka_unit_test(damaged_trees_are_refused),
	    cmocka_unit_test(removed_devices_are_read_through_their_mapping),
	    cmocka_unit_test(mappings_that_go_in_circles_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
