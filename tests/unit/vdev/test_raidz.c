#include "vdev_fixture.h"

static struct nvlist *nv_raidz(unsigned width, unsigned parity, unsigned ashift)
{
	struct nvlist *nv = nv_vdev("raidz", 0, 50);

	nv_make_top(nv, ashift, ROUND_DOWN((LEAF_SIZE - (9 << 19)) * width, UINT64_C(1) << 24));
	nvlist_add_u64(nv, "nparity", parity);
	nv_add_leaves(nv, 0, width);
	return nv;
}

static struct fixture *raidz(unsigned width, unsigned parity, unsigned ashift)
{
	struct nvlist *nv = nv_raidz(width, parity, ashift);

	return fixture_create(&nv, 1);
}

/* "P:0@0+1 D0:1@0+1" as in the tables of 5.7 */
static void expect_map(struct fixture *f, uint64_t offset, unsigned sectors, unsigned asize, const char *want)
{
	char got[512] = "";
	struct vdev_io io = {.offset = offset, .size = (uint64_t)sectors << 12, .data = f->want};
	struct stripe *s = vdev_raidz_map(f->top, &io);

	assert_int_equal(vdev_psize_to_asize(f->top, io.size, 0), (uint64_t)asize << 12);
	for (unsigned i = 0; i < s->row[0].ncols; i++) {
		const struct stripe_col *c = &s->row[0].col[i];
		char name[16];
		if (i < s->nparity)
			snprintf(name, sizeof(name), "%c", "PQR"[i]);
		else
			snprintf(name, sizeof(name), "D%u", i - s->nparity);
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s:%u@%lx+%u", i ? " " : "", name, c->child,
			 (unsigned long)c->offset, c->size >> 12);
	}
	assert_string_equal(got, want);
	stripe_free(s);
}

static void maps_of_raidz1_are_those_of_the_chapter(void **state)
{
	struct fixture *f = raidz(3, 1, 12);

	(void)state;
	expect_map(f, 0x0, 1, 2, "P:0@0+1 D0:1@0+1");
	expect_map(f, 0x2000, 1, 2, "P:2@0+1 D0:0@1000+1");
	expect_map(f, 0x4000, 2, 4, "P:1@1000+1 D0:2@1000+1 D1:0@2000+1");
	expect_map(f, 0x6000, 4, 6, "P:0@2000+2 D0:1@2000+2 D1:2@2000+2");
	expect_map(f, 0x9000, 5, 8, "P:0@3000+3 D0:1@3000+3 D1:2@3000+2");
	expect_map(f, 0x30000, 32, 48, "P:0@10000+16 D0:1@10000+16 D1:2@10000+16");
	expect_map(f, 0x100000, 1, 2, "P:2@55000+1 D0:1@55000+1");
	expect_map(f, 0x100000, 2, 4, "P:2@55000+1 D0:1@55000+1 D1:0@56000+1");
	expect_map(f, 0x102000, 4, 6, "P:1@56000+2 D0:0@56000+2 D1:2@56000+2");
	expect_map(f, 0x1fe000, 32, 48, "P:1@aa000+16 D0:0@aa000+16 D1:2@aa000+16");
	fixture_destroy(f);
}

static void maps_of_raidz2_and_raidz3_are_those_of_the_chapter(void **state)
{
	struct fixture *f = raidz(5, 2, 12);

	(void)state;
	expect_map(f, 0x0, 1, 3, "P:0@0+1 Q:1@0+1 D0:2@0+1");
	expect_map(f, 0x3000, 2, 6, "P:3@0+1 Q:4@0+1 D0:0@1000+1 D1:1@1000+1");
	expect_map(f, 0x6000, 3, 6, "P:1@1000+1 Q:2@1000+1 D0:3@1000+1 D1:4@1000+1 D2:0@2000+1");
	expect_map(f, 0xf000, 4, 9, "P:0@3000+2 Q:1@3000+2 D0:2@3000+2 D1:3@3000+1 D2:4@3000+1");
	expect_map(f, 0x12000, 6, 12, "P:3@3000+2 Q:4@3000+2 D0:0@4000+2 D1:1@4000+2 D2:2@4000+2");
	expect_map(f, 0x1e000, 32, 54, "P:0@6000+11 Q:1@6000+11 D0:2@6000+11 D1:3@6000+11 D2:4@6000+10");
	expect_map(f, 0x100000, 2, 6, "P:1@33000+1 Q:2@33000+1 D0:3@33000+1 D1:4@33000+1");
	fixture_destroy(f);
	f = raidz(6, 3, 12);
	expect_map(f, 0x0, 1, 4, "P:0@0+1 Q:1@0+1 R:2@0+1 D0:3@0+1");
	expect_map(f, 0x4000, 2, 8, "P:4@0+1 Q:5@0+1 R:0@1000+1 D0:1@1000+1 D1:2@1000+1");
	expect_map(f, 0x8000, 3, 8, "P:2@1000+1 Q:3@1000+1 R:4@1000+1 D0:5@1000+1 D1:0@2000+1 D2:1@2000+1");
	expect_map(f, 0x10000, 5, 12, "P:4@2000+2 Q:5@2000+2 R:0@3000+2 D0:1@3000+2 D1:2@3000+2 D2:3@3000+1");
	expect_map(f, 0x1c000, 7, 16, "P:4@4000+3 Q:5@4000+3 R:0@5000+3 D0:1@5000+3 D1:2@5000+2 D2:3@5000+2");
	expect_map(f, 0x24000, 32, 68, "P:0@6000+11 Q:1@6000+11 R:2@6000+11 D0:3@6000+11 D1:4@6000+11 D2:5@6000+10");
	fixture_destroy(f);
}

static void allocated_sizes_are_those_of_the_chapter(void **state)
{
	static const struct {
		unsigned n, p;
		uint64_t a[12], ratio; /* sectors for 1-8, 16, 32, 256; deflate ratio at ashift 12 */
	} t[] = {
	    {3, 1, {2, 4, 6, 6, 8, 10, 12, 12, 24, 48, 384}, 341},
	    {4, 1, {2, 4, 4, 6, 8, 8, 10, 12, 22, 44, 342}, 372},
	    {5, 2, {3, 6, 6, 9, 9, 12, 15, 15, 30, 54, 429}, 303},
	    {6, 2, {3, 6, 6, 6, 9, 12, 12, 12, 24, 48, 384}, 341},
	    {8, 2, {3, 6, 6, 6, 9, 9, 12, 12, 24, 45, 342}, 364},
	    {6, 3, {4, 8, 8, 12, 12, 12, 16, 20, 36, 68, 516}, 240},
	    {11, 3, {4, 8, 8, 8, 8, 12, 12, 12, 24, 44, 352}, 0},
	};
	static const unsigned s[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 256};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct fixture *f = raidz(t[i].n, t[i].p, 12);
		for (size_t k = 0; k < ARRAY_LEN(s); k++)
			assert_int_equal(vdev_psize_to_asize(f->top, (uint64_t)s[k] << 12, 0) >> 12, t[i].a[k]);
		if (t[i].ratio)
			assert_int_equal(vdev_deflate_ratio(f->top), t[i].ratio);
		fixture_destroy(f);
	}
}

static const struct {
	uint64_t offset;
	unsigned sectors;
} blocks[] = {{0, 1}, {0x4000, 2}, {0x24000, 5}, {0x100000, 7}, {0x124000, 32}, {0x400000, 256}};

static void write_block(struct fixture *f, uint64_t offset, uint64_t size, uint64_t txg)
{
	struct vdev_io io = {.offset = offset, .size = size, .txg = txg, .data = f->want};
	struct stripe *s = vdev_raidz_map(f->top, &io);

	fixture_write_stripe(f, s);
	stripe_free(s);
}

static void set_leaves(struct fixture *f, uint64_t mask, bool lie)
{
	for (unsigned i = 0; i < f->top->nchildren; i++) {
		f->leaf[i].lies = lie && mask >> i & 1;
		f->leaf[i].fails = !lie && mask >> i & 1;
	}
}

/* Every set of at most `parity` bad devices, failing or lying, leaves every block readable; one more does not. */
static void check_survival(unsigned width, unsigned parity, unsigned ashift)
{
	struct fixture *f = raidz(width, parity, ashift);

	fixture_open(f);
	assert_int_equal(f->top->state, VDEV_STATE_HEALTHY);
	for (size_t b = 0; b < ARRAY_LEN(blocks); b++) {
		uint64_t size = (uint64_t)blocks[b].sectors << ashift;
		write_block(f, blocks[b].offset, size, 10);
		for (uint64_t mask = 0; mask < 1u << width; mask++) {
			if ((unsigned)__builtin_popcountll(mask) > parity)
				continue;
			for (int lie = 0; lie < 2; lie++) {
				set_leaves(f, mask, lie);
				int err = fixture_read(f, f->top, blocks[b].offset, size, 10, 0);
				if (err)
					fail_msg("raidz%u of %u: block %zu, devices %lx %s: %d", parity, width, b,
						 (unsigned long)mask, lie ? "lie" : "fail", err);
			}
		}
	}
	/* The largest block is on every device. */
	set_leaves(f, (1u << (parity + 1)) - 1, true);
	assert_int_equal(fixture_read(f, f->top, 0x400000, 256u << ashift, 10, 0), -ECKSUM);
	set_leaves(f, (1u << (parity + 1)) - 1, false);
	assert_int_equal(fixture_read(f, f->top, 0x400000, 256u << ashift, 10, 0), -EIO);
	fixture_destroy(f);
}

static void reads_survive_one_bad_raidz1_disk(void **state)
{
	(void)state;
	check_survival(3, 1, 12);
	check_survival(5, 1, 9);
	check_survival(2, 1, 12);
}

static void reads_survive_each_pair_of_bad_raidz2_disks(void **state)
{
	(void)state;
	check_survival(5, 2, 12);
	check_survival(3, 2, 9);
}

static void reads_survive_each_triple_of_bad_raidz3_disks(void **state)
{
	(void)state;
	check_survival(6, 3, 12);
}

static void failing_and_lying_disks_together_are_survived(void **state)
{
	struct fixture *f = raidz(6, 3, 12);

	(void)state;
	fixture_open(f);
	write_block(f, 0x24000, 32 << 12, 10);
	for (unsigned a = 0; a < 6; a++) {
		for (unsigned b = 0; b < 6; b++) {
			for (unsigned c = 0; c < 6; c++) {
				set_leaves(f, 0, false);
				f->leaf[a].fails = true;
				f->leaf[b].lies = f->leaf[c].lies = true;
				assert_int_equal(fixture_read(f, f->top, 0x24000, 32 << 12, 10, 0), 0);
			}
		}
	}
	fixture_destroy(f);
}

static void absent_disks_degrade_and_are_survived(void **state)
{
	(void)state;
	for (unsigned a = 0; a < 5; a++) {
		struct fixture *f = raidz(5, 2, 12);
		f->leaf[a].absent = true;
		f->leaf[(a + 2) % 5].absent = true;
		fixture_open(f);
		assert_int_equal(f->top->state, VDEV_STATE_DEGRADED);
		assert_int_equal(f->root->state, VDEV_STATE_DEGRADED);
		write_block(f, 0x6000, 20 << 12, 10);
		assert_int_equal(fixture_read(f, f->top, 0x6000, 20 << 12, 10, 0), 0);
		f->leaf[(a + 1) % 5].lies = true;
		assert_int_equal(fixture_read(f, f->top, 0x6000, 20 << 12, 10, 0), -ECKSUM);
		vdev_set_state(vdev_by_guid(f->root, 100 + (a + 1) % 5), VDEV_STATE_FAULTED, VDEV_AUX_ERR_EXCEEDED);
		assert_int_equal(f->top->state, VDEV_STATE_CANT_OPEN);
		assert_int_equal(f->top->aux, VDEV_AUX_NO_REPLICAS);
		assert_int_equal(fixture_read(f, f->top, 0x6000, 20 << 12, 10, 0), -ENXIO);
		fixture_destroy(f);
	}
}

static void a_healthy_read_leaves_parity_alone(void **state)
{
	struct fixture *f = raidz(3, 1, 12);

	(void)state;
	fixture_open(f);
	write_block(f, 0x6000, 4 << 12, 10); /* parity on device 0 */
	assert_int_equal(fixture_read(f, f->top, 0x6000, 4 << 12, 10, 0), 0);
	assert_int_equal(f->leaf[0].reads, 0);
	assert_int_equal(fixture_read(f, f->top, 0x6000, 4 << 12, 10, VDEV_READ_SCRUB), 0);
	assert_int_equal(f->leaf[0].reads, 1);
	fixture_destroy(f);
}

static void the_lying_disk_is_the_one_blamed(void **state)
{
	struct fixture *f = raidz(5, 2, 12);

	(void)state;
	fixture_open(f);
	write_block(f, 0x1e000, 32 << 12, 10);
	f->leaf[3].lies = true;
	assert_int_equal(fixture_read(f, f->top, 0x1e000, 32 << 12, 10, 0), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(leaf_checksum_errors(f, i), i == 3);
	f->leaf[3].lies = false;
	f->leaf[1].lies = true; /* Q: only a scrub sees it */
	assert_int_equal(fixture_read(f, f->top, 0x1e000, 32 << 12, 10, 0), 0);
	assert_int_equal(leaf_checksum_errors(f, 1), 0);
	assert_int_equal(fixture_read(f, f->top, 0x1e000, 32 << 12, 10, VDEV_READ_SCRUB), 0);
	assert_int_equal(leaf_checksum_errors(f, 1), 1);
	fixture_destroy(f);
}

static void a_disk_that_lacks_the_txg_is_the_last_resort(void **state)
{
	struct fixture *f = raidz(3, 1, 12);

	(void)state;
	fixture_open(f);
	write_block(f, 0x6000, 4 << 12, 10);
	vdev_dtl_add(vdev_by_guid(f->root, 101), 5, 15);
	assert_int_equal(fixture_read(f, f->top, 0x6000, 4 << 12, 10, 0), 0);
	assert_int_equal(f->leaf[1].reads, 0);
	f->leaf[2].fails = true;
	assert_int_equal(fixture_read(f, f->top, 0x6000, 4 << 12, 10, 0), 0);
	assert_int_equal(f->leaf[1].reads, 1);
	fixture_destroy(f);
}

static void hopeless_damage_ends_in_bounded_time(void **state)
{
	struct fixture *f = raidz(40, 3, 12);

	(void)state;
	fixture_open(f);
	write_block(f, 0x24000, 37 << 12, 10);
	set_leaves(f, 0xff, true);
	uint64_t start = now_ns();
	assert_int_equal(fixture_read(f, f->top, 0x24000, 37 << 12, 10, 0), -ECKSUM);
	assert_true(now_ns() - start < UINT64_C(60) * 1000000000);
	fixture_destroy(f);
}

/* Expansion */

static struct fixture *expanded(unsigned width, unsigned parity, bool expanding, const uint64_t *txgs, size_t n)
{
	struct nvlist *nv = nv_raidz(width, parity, 12);

	if (expanding)
		nvlist_add_boolean(nv, "raidz_expanding");
	if (n)
		nvlist_add_u64s(nv, "raidz_expand_txgs", txgs, n);
	return fixture_create(&nv, 1);
}

static void expect_rows(struct fixture *f, uint64_t offset, unsigned sectors, uint64_t txg, const char *want)
{
	char got[512] = "";
	struct vdev_io io = {.offset = offset, .size = (uint64_t)sectors << 12, .data = f->want, .txg = txg};
	struct stripe *s = vdev_raidz_map(f->top, &io);

	for (unsigned k = 0; k < s->nrows; k++)
		for (unsigned i = 0; i < s->row[k].ncols; i++) {
			const struct stripe_col *c = &s->row[k].col[i];
			char name[16] = "P";
			if (i >= s->nparity)
				snprintf(name, sizeof(name), "D%u", (unsigned)((c->data - io.data) >> 12));
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s %u@%lx",
				 i   ? ", "
				 : k ? " | "
				     : "",
				 name, c->child, (unsigned long)c->offset);
		}
	assert_string_equal(got, want);
	stripe_free(s);
}

static void expansion_moves_rows_as_the_chapter_says(void **state)
{
	struct fixture *f = expanded(4, 1, true, NULL, 0);

	(void)state;
	vdev_raidz_set_reflow(f->root, UINT64_C(4) << 55);
	/* Nothing of the block has moved: two rows that are still one piece on each child. */
	expect_rows(f, 0x6000, 4, 10, "P 0@2000, D0 1@2000, D2 2@2000");
	vdev_raidz_set_reflow(f->root, UINT64_C(4) << 55 | 0x100000 >> 9);
	expect_rows(f, 0x6000, 4, 10, "P 2@1000, D0 3@1000, D2 0@2000 | P 1@2000, D1 2@2000, D3 3@2000");
	vdev_raidz_set_reflow(f->root, UINT64_C(4) << 55 | 0x9000 >> 9); /* between the rows */
	expect_rows(f, 0x6000, 4, 10, "P 2@1000, D0 3@1000, D2 0@2000 | P 0@3000, D1 1@3000, D3 2@3000");
	fixture_destroy(f);

	uint64_t txg = 100;
	f = expanded(4, 1, false, &txg, 1);
	expect_rows(f, 0x6000, 4, 99, "P 2@1000, D0 3@1000, D2 0@2000 | P 1@2000, D1 2@2000, D3 3@2000");
	expect_rows(f, 0x8000, 3, 100, "P 0@2000, D0 1@2000, D1 2@2000, D2 3@2000");
	assert_int_equal(vdev_psize_to_asize(f->top, 3 << 12, 99), 6 << 12);
	assert_int_equal(vdev_psize_to_asize(f->top, 3 << 12, 100), 4 << 12);
	assert_int_equal(vdev_deflate_ratio(f->top), 341);
	fixture_destroy(f);
}

static void check_expanded_survival(struct fixture *f, unsigned parity, uint64_t txg)
{
	unsigned width = f->top->nchildren;

	for (size_t b = 0; b < ARRAY_LEN(blocks); b++) {
		uint64_t size = (uint64_t)blocks[b].sectors << 12;
		write_block(f, blocks[b].offset, size, txg);
		for (unsigned i = 0; i < width * 2; i++) {
			set_leaves(f, 1u << i / 2, i % 2);
			int err = fixture_read(f, f->top, blocks[b].offset, size, txg, 0);
			if (err)
				fail_msg("block %zu, device %u %s: %d", b, i / 2, i % 2 ? "lies" : "fails", err);
		}
		set_leaves(f, 5, false);
		if (parity > 1)
			assert_int_equal(fixture_read(f, f->top, blocks[b].offset, size, txg, 0), 0);
	}
	set_leaves(f, (1u << (parity + 2)) - 1, true);
	assert_int_equal(fixture_read(f, f->top, 0x400000, 256 << 12, txg, 0), -ECKSUM);
	set_leaves(f, 0, true);
}

static void expanded_vdevs_survive_each_bad_disk(void **state)
{
	static const uint64_t txgs[] = {100, 200};

	(void)state;
	for (unsigned parity = 1; parity <= 2; parity++) {
		struct fixture *f = expanded(6, parity, false, txgs, 2);
		fixture_open(f);
		for (uint64_t txg = 50; txg < 300; txg += 100)
			check_expanded_survival(f, parity, txg);
		fixture_destroy(f);
		f = expanded(6, parity, true, txgs, 1);
		fixture_open(f);
		vdev_raidz_set_reflow(f->root, UINT64_C(4) << 55 | (0x400000 + 0x84000) >> 9);
		for (uint64_t txg = 50; txg < 300; txg += 100)
			check_expanded_survival(f, parity, txg);
		fixture_destroy(f);
	}
}

static void the_scratch_area_is_read_while_it_is_valid(void **state)
{
	struct fixture *f = expanded(4, 1, true, NULL, 0);
	struct vdev_io io = {.offset = 0x6000, .size = 4 << 12, .data = f->want};

	(void)state;
	fixture_open(f);
	vdev_raidz_set_reflow(f->root, UINT64_C(1) << 55 | (14 << 20) >> 9);
	struct stripe *s = vdev_raidz_map(f->top, &io);
	for (unsigned k = 0; k < s->nrows; k++)
		for (unsigned i = 1; i < s->row[k].ncols; i++) {
			struct stripe_col *c = &s->row[k].col[i];
			assert_int_equal(disk_write(f->leaf[c->child].disk, c->offset + (512 << 10), c->data, c->size),
					 0);
		}
	stripe_free(s);
	assert_int_equal(fixture_read(f, f->top, 0x6000, 4 << 12, 10, 0), 0);
	fixture_destroy(f);
}

static void impossible_layouts_are_refused(void **state)
{
	static const uint64_t wrong[] = {200, 100};
	struct err e = ERR_INIT;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		autonv struct nvlist *nv = nv_raidz(4, 1, 12);
		struct vdev *vd = NULL;
		if (i == 0)
			nvlist_add_u64(nv, "nparity", 4);
		if (i == 1)
			nvlist_add_u64(nv, "nparity", UINT64_MAX);
		if (i == 2)
			nvlist_add_u64s(nv, "raidz_expand_txgs", wrong, 2);
		if (i == 3) {
			nvlist_add_u64(nv, "nparity", 3);
			nvlist_add_boolean(nv, "raidz_expanding");
		}
		assert_int_equal(vdev_tree_create(nv, &vd, &e), -EINVAL);
		assert_null(vd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(maps_of_raidz1_are_those_of_the_chapter),
	    cmocka_unit_test(maps_of_raidz2_and_raidz3_are_those_of_the_chapter),
	    cmocka_unit_test(allocated_sizes_are_those_of_the_chapter),
	    cmocka_unit_test(reads_survive_one_bad_raidz1_disk),
	    cmocka_unit_test(reads_survive_each_pair_of_bad_raidz2_disks),
	    cmocka_unit_test(reads_survive_each_triple_of_bad_raidz3_disks),
	    cmocka_unit_test(failing_and_lying_disks_together_are_survived),
	    cmocka_unit_test(absent_disks_degrade_and_are_survived),
	    cmocka_unit_test(a_healthy_read_leaves_parity_alone),
	    cmocka_unit_test(the_lying_disk_is_the_one_blamed),
	    cmocka_unit_test(a_disk_that_lacks_the_txg_is_the_last_resort),
	    cmocka_unit_test(hopeless_damage_ends_in_bounded_time),
	    cmocka_unit_test(expansion_moves_rows_as_the_chapter_says),
	    cmocka_unit_test(expanded_vdevs_survive_each_bad_disk),
	    cmocka_unit_test(the_scratch_area_is_read_while_it_is_valid),
	    cmocka_unit_test(impossible_layouts_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
