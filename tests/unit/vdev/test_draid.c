#include "vdev_fixture.h"

static struct nvlist *nv_draid(unsigned width, unsigned parity, unsigned data, unsigned spares, unsigned groups,
			       unsigned domain)
{
	struct nvlist *nv = nv_vdev("draid", 0, 50);

	nv_make_top(nv, 12, UINT64_C(1) << 40); /* no metaslabs: any size of device will do */
	nvlist_remove(nv, "metaslab_shift");
	nvlist_add_u64(nv, "nparity", parity);
	nvlist_add_u64(nv, "draid_ndata", data);
	nvlist_add_u64(nv, "draid_nspares", spares);
	nvlist_add_u64(nv, "draid_ngroups", groups);
	if (domain != width)
		nvlist_add_u64(nv, "draid_nchildren", domain);
	nv_add_leaves(nv, 0, width);
	return nv;
}

static struct fixture *draid(unsigned width, unsigned parity, unsigned data, unsigned spares, unsigned groups,
			     unsigned domain)
{
	struct nvlist *nv = nv_draid(width, parity, data, spares, groups, domain);

	return fixture_create(&nv, 1);
}

static void all_maps_have_the_checksums_of_the_chapter(void **state)
{
	(void)state;
	for (unsigned c = 2; c <= 255; c++)
		assert_int_equal(draid_map_checksum(c, true), draid_map_checksum(c, false));
}

static void expect_permutation(unsigned children, unsigned row, const uint16_t *want)
{
	unsigned nrows;
	autofree uint16_t *map = draid_map_generate(children, 1, &nrows);

	assert_true(row < nrows);
	assert_memory_equal(map + (size_t)row * children, want, children * sizeof(*want));
}

static void permutations_are_those_of_the_chapter(void **state)
{
	(void)state;
	expect_permutation(2, 0, (uint16_t[]){0, 1});
	expect_permutation(2, 255, (uint16_t[]){1, 0});
	expect_permutation(5, 0, (uint16_t[]){2, 3, 1, 4, 0});
	expect_permutation(9, 1, (uint16_t[]){8, 1, 5, 2, 3, 7, 0, 6, 4});
	expect_permutation(14, 1, (uint16_t[]){7, 2, 10, 8, 5, 6, 1, 9, 0, 12, 11, 13, 4, 3});
}

static void spread_maps_place_every_device_once_in_a_block(void **state)
{
	const unsigned children = 7, domains = 3;
	unsigned nrows;
	autofree uint16_t *map = draid_map_generate(children, domains, &nrows);

	(void)state;
	assert_int_equal(nrows, 255);
	for (unsigned i = 0; i < nrows; i += domains) {
		bool seen[21] = {false};
		for (unsigned j = 0; j < domains * children; j++) {
			unsigned v = map[i * children + j];
			assert_true(v < 21 && !seen[v]);
			seen[v] = true;
		}
	}
}

static void expect_parts(struct fixture *f, uint64_t offset, uint64_t size, uint64_t asize, const char *want)
{
	char got[512] = "";
	struct vdev_io io = {.offset = offset, .size = size, .data = f->want};
	struct stripe *s = vdev_draid_map(f->top, &io);

	assert_int_equal(vdev_psize_to_asize(f->top, size, 0), asize);
	for (unsigned k = 0; k < s->nrows; k++)
		for (unsigned i = 0; i < s->row[k].ncols; i++) {
			const struct stripe_col *c = &s->row[k].col[i];
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%u@%lx+%u",
				 i   ? " "
				 : k ? " then "
				     : "",
				 c->child, (unsigned long)c->offset, c->size >> 12);
		}
	assert_string_equal(got, want);
	stripe_free(s);
}

static void mappings_are_those_of_the_chapter(void **state)
{
	struct fixture *f = draid(14, 1, 8, 2, 4, 14);

	(void)state;
	expect_parts(f, 0x0, 131072, 0x24000, "1@0+4 7@0+4 3@0+4 13@0+4 9@0+4 0@0+4 12@0+4 5@0+4 6@0+4");
	expect_parts(f, 0x9000000, 32768, 0x9000,
		     "10@0+1 4@0+1 11@0+1 1@1000000+1 7@1000000+1 3@1000000+1 13@1000000+1 9@1000000+1 0@1000000+1");
	expect_parts(f, 0x12000000, 4096, 0x9000,
		     "12@1000000+1 5@1000000+1 6@1000000+0 10@1000000+0 4@1000000+0 11@1000000+0 1@2000000+0 "
		     "7@2000000+0 3@2000000+0");
	expect_parts(f, 0x12000000, 36864, 0x12000,
		     "12@1000000+2 5@1000000+2 6@1000000+1 10@1000000+1 4@1000000+1 11@1000000+1 1@2000000+1 "
		     "7@2000000+1 3@2000000+1");
	expect_parts(f, 0x8fee000, 131072, 0x24000,
		     "1@ffe000+2 7@ffe000+2 3@ffe000+2 13@ffe000+2 9@ffe000+2 0@ffe000+2 12@ffe000+2 5@ffe000+2 "
		     "6@ffe000+2 then 10@0+2 4@0+2 11@0+2 1@1000000+2 7@1000000+2 3@1000000+2 13@1000000+2 "
		     "9@1000000+2 0@1000000+2");
	expect_parts(f, 0x24000000, 65536, 0x12000,
		     "2@3000000+2 8@3000000+2 4@3000000+2 0@3000000+2 10@3000000+2 1@3000000+2 13@3000000+2 "
		     "6@3000000+2 7@3000000+2");
	fixture_destroy(f);

	f = draid(9, 1, 4, 2, 7, 9);
	expect_parts(f, 0x0, 16384, 0x5000, "7@0+1 3@0+1 6@0+1 5@0+1 0@0+1");
	expect_parts(f, 0x5000000, 16384, 0x5000, "2@0+1 8@0+1 7@1000000+1 3@1000000+1 6@1000000+1");
	expect_parts(f, 0xa000000, 16384, 0x5000, "5@1000000+1 0@1000000+1 2@1000000+1 8@1000000+1 7@2000000+1");
	expect_parts(f, 0x23000000, 16384, 0x5000, "8@5000000+1 4@5000000+1 7@5000000+1 6@5000000+1 1@5000000+1");
	expect_parts(f, 0x2022e000, 16384, 0x5000, "6@46d6000+1 5@46d6000+1 0@46d6000+1 2@46d6000+1 8@46d6000+1");
	fixture_destroy(f);
}

static void write_block(struct fixture *f, uint64_t offset, uint64_t size)
{
	struct vdev_io io = {.offset = offset, .size = size, .txg = 10, .data = f->want};
	struct stripe *s = vdev_draid_map(f->top, &io);

	fixture_write_stripe(f, s);
	stripe_free(s);
}

static void check_survival(struct fixture *f, uint64_t offset, uint64_t size)
{
	unsigned width = f->top->nchildren, parity = (unsigned)f->top->nparity;

	write_block(f, offset, size);
	for (unsigned mask = 0; mask < 1u << width; mask++) {
		if ((unsigned)__builtin_popcount(mask) > parity)
			continue;
		for (int lie = 0; lie < 2; lie++) {
			for (unsigned i = 0; i < width; i++) {
				f->leaf[i].lies = lie && mask >> i & 1;
				f->leaf[i].fails = !lie && mask >> i & 1;
			}
			int err = fixture_read(f, f->top, offset, size, 10, 0);
			if (err)
				fail_msg("block %lx, devices %x %s: %d", (unsigned long)offset, mask,
					 lie ? "lie" : "fail", err);
		}
	}
	for (unsigned i = 0; i < width; i++)
		f->leaf[i].lies = f->leaf[i].fails = false;
}

static void reads_survive_as_many_bad_disks_as_there_is_parity(void **state)
{
	(void)state;
	for (unsigned parity = 1; parity <= 3; parity++) {
		struct fixture *f = draid(8, parity, 3, 1, 7, 8);
		uint64_t row = (3 + parity) << 12, group = (uint64_t)(3 + parity) << 24;
		fixture_open(f);
		check_survival(f, 0, 4096);
		check_survival(f, row * 7, 4096 * 5);
		check_survival(f, group * 2 - row * 2, 131072); /* crosses groups */
		for (unsigned i = 0; i < 8; i++)
			f->leaf[i].lies = true;
		assert_int_equal(fixture_read(f, f->top, group * 2 - row * 2, 131072, 10, 0), -ECKSUM);
		fixture_destroy(f);
	}
}

static void failure_groups_can_be_read(void **state)
{
	/* two groups of 6; 2 spares; N1 = 5, g = 4, G0 = 5 */
	struct fixture *f = draid(12, 1, 3, 2, 10, 6);

	(void)state;
	fixture_open(f);
	for (uint64_t group = 0; group < 20; group++)
		check_survival(f, group * (UINT64_C(4) << 24) + (4 << 12), 5 << 12);
	fixture_destroy(f);
}

/* Child 3 is gone and distributed spare 0 sits in its place. */
static struct fixture *draid_with_spare(void)
{
	struct nvlist *child[8], *nv = nv_draid(8, 1, 3, 1, 7, 8);
	struct nvlist *pair[2] = {nv_vdev("disk", 0, 103), nv_vdev("dspare", 1, 60)};

	nvlist_add_u64(pair[1], "top_guid", 50);
	nvlist_add_u64(pair[1], "spareid", 0);
	nvlist_add_string(pair[1], "path", "draid1-0-0");
	for (unsigned i = 0; i < 8; i++)
		child[i] = nv_vdev(i == 3 ? "spare" : "disk", i, 100 + i + (i == 3 ? 900 : 0));
	nvlist_add_lists(child[3], "children", pair, 2);
	nvlist_add_lists(nv, "children", child, 8);
	for (unsigned i = 0; i < 8; i++)
		nvlist_destroy(child[i]);
	nvlist_destroy(pair[0]);
	nvlist_destroy(pair[1]);
	struct fixture *f = fixture_create(&nv, 1);
	f->leaf[3].absent = true;
	fixture_open(f);
	return f;
}

static void distributed_spares_stand_in_for_a_disk(void **state)
{
	struct fixture *f = draid_with_spare();
	struct vdev *spare = vdev_by_guid(f->root, 60);

	(void)state;
	assert_int_equal(f->top->state, VDEV_STATE_DEGRADED);
	assert_int_equal(spare->state, VDEV_STATE_HEALTHY);
	for (uint64_t group = 0; group < 21; group++) {
		uint64_t offset = group * (UINT64_C(4) << 24), size = 3 << 12;
		struct vdev_io io = {.offset = offset, .size = size, .txg = 10, .data = f->want};
		struct stripe *s = vdev_draid_map(f->top, &io);
		for (unsigned i = 1; i < 4; i++) {
			struct stripe_col *c = &s->row[0].col[i];
			const struct vdev *at = s->vd->child[c->child];
			if (at->kind == VDEV_SPARE)
				at = vdev_dspare_child(spare, c->offset);
			assert_int_equal(at->kind, VDEV_DISK);
			disk_write(f->leaf[at->guid - 100].disk, c->offset + (4 << 20), c->data, c->size);
		}
		stripe_free(s);
		assert_int_equal(fixture_read(f, f->top, offset, size, 10, 0), 0);
		assert_int_equal(f->verified, 1); /* without parity, which was never written */
	}
	fixture_destroy(f);
}

static void impossible_layouts_are_refused(void **state)
{
	static const unsigned wrong[][6] = {
	    {8, 0, 3, 1, 7, 8}, {8, 4, 3, 1, 7, 8},   {8, 1, 0, 1, 7, 8}, {8, 1, 3, 1, 6, 8}, {8, 1, 3, 1, 0, 8},
	    {8, 1, 7, 1, 7, 8}, {8, 1, 3, 255, 7, 8}, {8, 1, 3, 1, 7, 3}, {8, 1, 3, 1, 7, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		const unsigned *w = wrong[i];
		autonv struct nvlist *nv = nv_draid(w[0], w[1], w[2], w[3], w[4], w[5]);
		struct vdev *vd = NULL;
		assert_int_equal(vdev_tree_create(nv, &vd, NULL), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_maps_have_the_checksums_of_the_chapter),
	    cmocka_unit_test(permutations_are_those_of_the_chapter),
	    cmocka_unit_test(spread_maps_place_every_device_once_in_a_block),
	    cmocka_unit_test(mappings_are_those_of_the_chapter),
	    cmocka_unit_test(reads_survive_as_many_bad_disks_as_there_is_parity),
	    cmocka_unit_test(failure_groups_can_be_read),
	    cmocka_unit_test(distributed_spares_stand_in_for_a_disk),
	    cmocka_unit_test(impossible_layouts_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
