#include "dmu/traverse.h"
#include "testpool.h"

#define BLOCK       4096u
#define FILE_BLOCKS 100u

/* A file of 100 blocks (indirect blocks of 8 pointers: three levels) with holes where i % 10 is 3 to 5, and from 64 to
 * 79. */
struct file {
	struct bp bp[FILE_BLOCKS];
	uint8_t data[FILE_BLOCKS * BLOCK];
};

static bool is_hole(uint64_t i)
{
	return (i % 10 >= 3 && i % 10 <= 5) || (i >= 64 && i < 80) || i >= FILE_BLOCKS;
}

struct world {
	struct testpool *tp;
	struct file file;
	struct objset *os;
	struct dnode *dn;
};

/* Objects: 1 the file, 5 a large dnode (4 slots) with bonus, 40 a small file of one block, the rest free. */
static struct world *world_create(bool swap, size_t header)
{
	struct world *w = xcalloc(1, sizeof(*w));
	static uint8_t slot[70][512];
	struct err e = ERR_INIT;
	struct bp root;

	w->tp = tp_create(9, 64u << 20);
	w->tp->swap = swap;
	memset(slot, 0, sizeof(slot));
	for (unsigned i = 0; i < FILE_BLOCKS; i++) {
		if (is_hole(i))
			continue;
		tp_pattern(w->file.data + i * BLOCK, BLOCK, i + 1);
		w->file.bp[i] = tp_write(w->tp, w->file.data + i * BLOCK, BLOCK, TP_FILE, 0);
	}
	tp_dnode(w->tp, slot[0], TP_FILE, w->file.bp, FILE_BLOCKS, BLOCK, 10, 1);
	tp_dnode(w->tp, slot[4], TP_FILE, w->file.bp, 0, BLOCK, 17, 1);
	slot[4][4] = 44;
	slot[4][12] = 3;
	tp_store16(w->tp, slot[4] + 10, 1000);
	memset(slot[5], 0x13, 2 * 512); /* bonus bytes that look like dnodes */
	memcpy(&slot[4][192], "bonus", 5);
	tp_dnode(w->tp, slot[39], TP_FILE, w->file.bp, 1, BLOCK, 17, 3);
	root = tp_objset(w->tp, slot, ARRAY_LEN(slot), header);
	w->tp->swap = false;
	w->tp->dp.zp = &w->tp->zp;
	if (objset_open(&w->tp->dp, 9, &root, NULL, &w->os, &e))
		fail_msg("%s", e.text);
	assert_int_equal(dnode_hold(w->os, 1, &w->dn, &e), 0);
	return w;
}

static int setup(void **state)
{
	*state = world_create(false, 4096);
	return 0;
}

static int setup_swapped(void **state)
{
	*state = world_create(true, 2048);
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	dnode_release(w->dn);
	objset_release(w->os);
	tp_destroy(w->tp);
	free(w);
	return 0;
}

/* --- dnodes --- */

static void objects_are_found_and_free_slots_are_not(void **state)
{
	struct world *w = *state;
	uint64_t object = 0;
	struct dnode *dn, *again;

	assert_int_equal(w->os->type, OBJSET_ZFS);
	assert_int_equal(dnode_hold(w->os, 5, &dn, NULL), 0);
	assert_int_equal(dn->slots, 4);
	assert_int_equal(dn->bonuslen, 1000);
	assert_memory_equal(dn->bonus, "bonus", 5);
	assert_int_equal(dnode_hold(w->os, 5, &again, NULL), 0);
	assert_ptr_equal(dn, again);
	dnode_release(dn);
	dnode_release(again);
	for (uint64_t i = 6; i < 9; i++) /* interior slots */
		assert_int_equal(dnode_hold(w->os, i, &dn, NULL), -ENOENT);
	assert_int_equal(dnode_hold(w->os, 0, &dn, NULL), -ENOENT);
	assert_int_equal(dnode_hold(w->os, 2, &dn, NULL), -ENOENT);
	assert_int_equal(dnode_hold(w->os, 70, &dn, NULL), -ENOENT);
	assert_int_equal(dnode_hold(w->os, 1000, &dn, NULL), -ENOENT);
	assert_int_equal(dnode_hold(w->os, UINT64_C(1) << 60, &dn, NULL), -ENOENT);
	assert_int_equal(dnode_hold(w->os, DMU_OBJECT_USERUSED, &dn, NULL), -ENOENT);
	assert_int_equal(dnode_next(w->os, &object, NULL), 0);
	assert_int_equal(object, 1);
	assert_int_equal(dnode_next(w->os, &object, NULL), 0);
	assert_int_equal(object, 5);
	assert_int_equal(dnode_next(w->os, &object, NULL), 0);
	assert_int_equal(object, 40);
	assert_int_equal(dnode_next(w->os, &object, NULL), -ESRCH);
}

static void damaged_dnodes_are_refused(void **state)
{
	/* offset, value: each makes a good dnode bad */
	static const struct {
		uint8_t at, value;
	} bad[] = {{0, 0}, {0, 60}, {0, 0x8a}, {1, 9},    {1, 18}, {2, 0},  {2, 13},
		   {3, 0}, {3, 4},  {4, 54},   {9, 0x80}, {11, 9}, {12, 2}, {12, 255}};
	uint8_t good[1024] = {19, 17, 2, 1, 44, 0, 0, 1, 8, 0, 64, 0, 1}, phys[1024];
	struct dnode *dn;

	assert_int_equal(dnode_decode(good, sizeof(good), false, &dn), 0);
	assert_int_equal(dn->slots, 2);
	assert_int_equal(dn->datablksz, 4096);
	dnode_release(dn);
	assert_int_equal(dnode_decode(good, 512, false, &dn), -EINVAL);
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		memcpy(phys, good, sizeof(phys));
		phys[bad[i].at] = bad[i].value;
		if (bad[i].at == 9)
			phys[8] = 1; /* 32769 sectors */
		if (dnode_decode(phys, sizeof(phys), false, &dn) != -EINVAL)
			fail_msg("byte %u = %u was accepted", bad[i].at, bad[i].value);
	}
	/* three pointers and a spill pointer do not fit into 512 bytes */
	memset(phys, 0, sizeof(phys));
	memcpy(phys, "\023\021\001\003\000\000\000\005\010", 9);
	assert_int_equal(dnode_decode(phys, 512, false, &dn), -EINVAL);
}

static void the_examples_of_the_chapter_decode(void **state)
{
	/* docs/format/02, 6.6 */
	static const uint8_t object1[32] = {0x01, 0x11, 0x01, 0x03, 0, 0, 0, 0x01, 0x20, 0, 0, 0, 0,
					    0,    0,    0,    0x01, 0, 0, 0, 0,    0,    0, 0, 0, 0x36};
	uint8_t phys[512] = {0};
	struct dnode *dn;

	memcpy(phys, object1, sizeof(object1));
	assert_int_equal(dnode_decode(phys, sizeof(phys), !HOST_IS_LITTLE, &dn), 0);
	assert_int_equal(dn->type, 1);
	assert_int_equal(dn->nblkptr, 3);
	assert_int_equal(dn->datablksz, 16384);
	assert_int_equal(dn->maxblkid, 1);
	assert_int_equal(dn->used, 0x3600);
	dnode_release(dn);
}

/* --- reading --- */

static void expect_bytes(struct world *w, uint64_t offset, size_t len)
{
	autofree uint8_t *got = xmalloc(len), *want = xcalloc(1, len);
	size_t have = offset < sizeof(w->file.data) ? MIN(len, sizeof(w->file.data) - offset) : 0;

	memcpy(want, w->file.data + offset, have);
	memset(got, 0xee, len);
	assert_int_equal(dmu_read(w->dn, offset, got, len, 0), 0);
	assert_memory_equal(got, want, len);
}

static void any_range_reads_as_written(void **state)
{
	struct world *w = *state;
	uint32_t seed = 4711;

	assert_int_equal(w->dn->nlevels, 4);
	expect_bytes(w, 0, sizeof(w->file.data));
	expect_bytes(w, 0, 1);
	expect_bytes(w, sizeof(w->file.data) - 5, 100);
	expect_bytes(w, 10 * sizeof(w->file.data), 100000);
	for (unsigned i = 0; i < 200; i++) {
		seed = seed * 1664525 + 1013904223;
		expect_bytes(w, (seed >> 8) % sizeof(w->file.data), 1 + (seed >> 4) % 30000);
	}
}

static void read_done(struct dmu_read *r, int err)
{
	waiter_done(r->arg, err);
}

static int submit_and_wait(struct dmu_read *r)
{
	struct waiter w;

	waiter_init(&w);
	r->done = read_done;
	r->arg = &w;
	dmu_read_submit(r);
	return waiter_wait(&w);
}

static void slices_are_the_cached_blocks_themselves(void **state)
{
	struct world *w = *state;
	struct dmu_read a = {.dn = w->dn, .offset = BLOCK / 2, .length = 4 * BLOCK}, b = a;
	uint64_t sum = 0;

	assert_int_equal(submit_and_wait(&a), 0);
	assert_int_equal(submit_and_wait(&b), 0);
	assert_int_equal(a.nslices, 5);
	for (unsigned i = 0; i < a.nslices; i++) {
		assert_ptr_equal(a.slice[i].data, b.slice[i].data);
		assert_true((a.slice[i].buf == NULL) == is_hole(i));
		sum += a.slice[i].len;
	}
	assert_int_equal(a.slice[0].len, BLOCK / 2);
	assert_int_equal(sum, 4 * BLOCK);
	dmu_read_finish(&a);
	dmu_read_finish(&b);
	a = (struct dmu_read){.dn = w->dn, .offset = UINT64_MAX - 10, .length = 100};
	assert_int_equal(submit_and_wait(&a), -EINVAL);
	a = (struct dmu_read){.dn = w->dn, .length = (64 << 20) + 1};
	assert_int_equal(submit_and_wait(&a), -EINVAL);
	a = (struct dmu_read){.dn = w->dn};
	assert_int_equal(submit_and_wait(&a), 0);
}

static void one_bad_block_does_not_hide_the_others(void **state)
{
	struct world *w = *state;
	struct dmu_read r = {.dn = w->dn, .length = 3 * BLOCK, .flags = DMU_READ_CONTINUE};
	uint8_t byte;

	tp_damage(w->tp, &w->file.bp[1], 0);
	assert_int_equal(submit_and_wait(&r), 0);
	assert_int_equal(r.slice[0].err, 0);
	assert_int_equal(r.slice[1].err, -ECKSUM);
	assert_null(r.slice[1].buf);
	assert_memory_equal(r.slice[2].data, w->file.data + 2 * BLOCK, BLOCK);
	dmu_read_finish(&r);
	assert_int_equal(dmu_read(w->dn, BLOCK, &byte, 1, 0), -ECKSUM);
}

/* --- holes --- */

static void next_offset_agrees_with_the_data(void **state)
{
	struct world *w = *state;

	for (uint64_t i = 0; i < FILE_BLOCKS; i++) {
		for (unsigned hole = 0; hole < 2; hole++) {
			uint64_t offset = i * BLOCK + 7, want = i;
			int err = dmu_next_offset(w->dn, &offset, hole);

			while (want < FILE_BLOCKS && is_hole(want) != hole)
				want++;
			assert_int_equal(err, want < FILE_BLOCKS ? 0 : -ESRCH);
			if (!err)
				assert_int_equal(offset, want == i ? i * BLOCK + 7 : want * BLOCK);
		}
	}
}

static void pointers_of_all_levels_are_given_out(void **state)
{
	struct world *w = *state;
	struct bp bp;

	for (uint64_t i = 0; i < FILE_BLOCKS; i++) {
		assert_int_equal(dmu_block_pointer(w->dn, 0, i, &bp), 0);
		assert_memory_equal(&bp, &w->file.bp[i], sizeof(bp));
	}
	assert_int_equal(dmu_block_pointer(w->dn, 1, 0, &bp), 0);
	assert_int_equal(bp_level(&bp), 1);
	assert_int_equal(dmu_block_pointer(w->dn, 1, 8, &bp), 0); /* blocks 64 .. 71 */
	assert_true(bp_is_hole(&bp));
	assert_int_equal(dmu_block_pointer(w->dn, 4, 0, &bp), -EINVAL);
	assert_int_equal(dmu_block_pointer(w->dn, 0, UINT64_MAX, &bp), 0);
	assert_true(bp_is_hole(&bp));
}

/* A dnode that claims a size nobody can have must not keep us searching. */
static void enormous_files_of_holes_end_at_once(void **state)
{
	struct world *w = *state;
	struct dnode dn = *w->dn;
	uint64_t offset = 0;

	dn.prefetch = NULL;
	dn.maxblkid = UINT64_MAX;
	for (dn.nlevels = 1; dn.nlevels < 12; dn.nlevels++) {
		memset(dn.blkptr, 0, sizeof(dn.blkptr));
		offset = 0;
		assert_int_equal(dmu_next_offset(&dn, &offset, false), -ESRCH);
		assert_int_equal(dmu_next_offset(&dn, &offset, true), 0);
		assert_int_equal(offset, 0);
	}
}

/* Any bytes in a dnode: every way to read it ends, without harm. */
static void hostile_dnodes_do_no_harm(void **state)
{
	struct world *w = *state;
	uint8_t good[512], phys[512];
	unsigned accepted = 0;
	uint32_t seed = 99;

	tp_dnode(w->tp, good, TP_FILE, w->file.bp, FILE_BLOCKS, BLOCK, 10, 1);
	for (unsigned i = 0; i < 3000; i++) {
		uint8_t byte[100];
		uint64_t offset;
		struct dnode *dn;
		struct bp bp;

		memcpy(phys, good, sizeof(phys));
		for (unsigned j = 0; j < 1 + i % 4; j++) {
			seed = seed * 1664525 + 1013904223;
			phys[(seed >> 8) % (j % 2 ? 192 : 32)] = (uint8_t)(seed >> 24);
		}
		if (dnode_decode(phys, sizeof(phys), false, &dn))
			continue;
		accepted++;
		dn->os = w->os;
		offset = (uint64_t)seed << (seed % 32);
		dmu_read(dn, offset, byte, sizeof(byte), 0);
		dmu_next_offset(dn, &offset, i % 2);
		dmu_block_pointer(dn, i % 5, offset, &bp);
		dnode_release(dn);
	}
	assert_true(accepted > 100);
}

/* --- read-ahead --- */

static unsigned device_blocks_of(struct world *w, const uint64_t *block, unsigned n)
{
	uint8_t byte;
	struct arc_stats st;

	arc_flush_pool(w->tp->dp.arc, w->tp->zp.guid);
	dnode_release(w->dn);
	objset_hold(w->os);
	struct objset *os;
	assert_int_equal(objset_open(&w->tp->dp, 9, &w->os->rootbp, NULL, &os, NULL), 0);
	objset_release(w->os);
	objset_release(w->os);
	w->os = os;
	assert_int_equal(dnode_hold(w->os, 1, &w->dn, NULL), 0);
	arc_stats(w->tp->dp.arc, &st);
	uint64_t before = st.prefetch_issued;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(dmu_read(w->dn, block[i] * BLOCK, &byte, 1, 0), 0);
	arc_flush_pool(w->tp->dp.arc, w->tp->zp.guid); /* waits for read-ahead under way */
	arc_stats(w->tp->dp.arc, &st);
	return (unsigned)(st.prefetch_issued - before);
}

static void streams_of_all_kinds_are_read_ahead(void **state)
{
	static const uint64_t forward[] = {20, 21, 22, 26}, backward[] = {99, 98, 97, 96}, strided[] = {10, 20, 30, 40},
			      random[] = {50, 7, 91, 30}, two[] = {20, 60, 21, 61};
	struct world *w = *state;

	assert_true(device_blocks_of(w, forward, 4) > 20);
	assert_true(device_blocks_of(w, backward, 4) > 20);
	assert_in_range(device_blocks_of(w, strided, 4), 3, 6);
	assert_true(device_blocks_of(w, two, 4) > 20);
	assert_int_equal(device_blocks_of(w, random, 4), 0);
}

/* --- traversal --- */

struct seen {
	struct world *w;
	unsigned blocks, indirect, dnode_blocks, file_blocks, errors, skip_object;
	uint64_t last;
};

static int see(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct seen *s = t->arg;

	s->blocks++;
	if (dn && dn->object == s->skip_object)
		return TRAVERSE_SKIP;
	if (zb->level > 0)
		s->indirect++;
	else if (zb->level == 0 && !dn)
		s->dnode_blocks++;
	else if (zb->level == 0) {
		assert_int_equal(zb->object, dn->object);
		if (zb->object == 1) {
			assert_true(s->file_blocks == 0 || zb->blkid > s->last);
			assert_memory_equal(bp, &s->w->file.bp[zb->blkid], sizeof(*bp));
			s->last = zb->blkid;
			s->file_blocks++;
		}
	}
	return 0;
}

static void see_error(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	((struct seen *)t->arg)->errors++;
}

static void traversal_visits_every_block_once_in_order(void **state)
{
	struct seen s = {.w = *state};
	struct traverse t = {.visit = see, .error = see_error, .arg = &s};
	unsigned data = 0;

	for (unsigned i = 0; i < FILE_BLOCKS; i++)
		data += !is_hole(i);
	assert_int_equal(traverse_objset(s.w->os, &t), 0);
	assert_int_equal(s.file_blocks, data);
	assert_int_equal(s.dnode_blocks, 2);
	assert_int_equal(s.errors, 0);
	assert_int_equal(s.blocks, 1 + s.indirect + s.dnode_blocks + data + 1);
	t.min_txg = TP_TXG;
	s.blocks = 0;
	assert_int_equal(traverse_objset(s.w->os, &t), 0);
	assert_int_equal(s.blocks, 0);
}

static void traversal_goes_on_after_damage(void **state)
{
	struct seen s = {.w = *state};
	struct traverse t = {.visit = see, .error = see_error, .arg = &s};
	struct bp l1;

	assert_int_equal(dmu_block_pointer(s.w->dn, 1, 0, &l1), 0);
	arc_flush_pool(s.w->tp->dp.arc, s.w->tp->zp.guid);
	tp_damage(s.w->tp, &l1, 0);
	assert_int_equal(traverse_objset(s.w->os, &t), 0);
	assert_int_equal(s.errors, 1);
	assert_true(s.last == FILE_BLOCKS - 1);
	s = (struct seen){.w = *state, .skip_object = 1};
	assert_int_equal(traverse_objset(s.w->os, &t), 0);
	assert_int_equal(s.file_blocks, 0);
	assert_int_equal(s.errors, 0);
}

int main(void)
{
#define TEST(f)         cmocka_unit_test_setup_teardown(f, setup, teardown)
#define TEST_SWAPPED(f) cmocka_unit_test_setup_teardown(f, setup_swapped, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(objects_are_found_and_free_slots_are_not),
	    TEST_SWAPPED(objects_are_found_and_free_slots_are_not),
	    cmocka_unit_test(damaged_dnodes_are_refused),
	    cmocka_unit_test(the_examples_of_the_chapter_decode),
	    TEST(any_range_reads_as_written),
	    TEST_SWAPPED(any_range_reads_as_written),
	    TEST(slices_are_the_cached_blocks_themselves),
	    TEST(one_bad_block_does_not_hide_the_others),
	    TEST(next_offset_agrees_with_the_data),
	    TEST_SWAPPED(next_offset_agrees_with_the_data),
	    TEST(pointers_of_all_levels_are_given_out),
	    TEST(enormous_files_of_holes_end_at_once),
	    TEST(hostile_dnodes_do_no_harm),
	    TEST(streams_of_all_kinds_are_read_ahead),
	    TEST(traversal_visits_every_block_once_in_order),
	    TEST_SWAPPED(traversal_visits_every_block_once_in_order),
	    TEST(traversal_goes_on_after_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
