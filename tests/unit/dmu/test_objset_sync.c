/* What is synced is what was written: trees read back from their root, nothing leaked, nothing freed twice. */
#include "syncpool.h"

#define BS     1024u
#define WINDOW (96u * BS)
#define HIGH   (UINT64_C(1) << 40) /* where the second window is */
#define FIRST  SP_FIRST

/* --- tests --- */

static void test_empty_set(void **state)
{
	struct testpool *tp = sp_pool_create(9);
	struct tx tx = sp_open_tx(tp, FIRST);
	struct objset *os, *again;

	assert_int_equal(objset_create(&tp->dp, 5, OBJSET_ZFS, &sp_ops, NULL, NULL, &tx, &os), 0);
	sp_sync_group(os, FIRST, 1);
	again = sp_reopen(tp, os);
	assert_int_equal(again->type, OBJSET_ZFS);
	assert_int_equal(again->meta->nlevels, 6);
	assert_int_equal(bp_lsize(&os->rootbp), 4096);
	assert_int_equal(bp_ndvas(&os->rootbp), 2);
	objset_release(again);
	/* Nothing dirty: nothing is written. */
	struct bp root = os->rootbp;
	sp_sync_group(os, FIRST + 1, 1);
	assert_memory_equal(&root, &os->rootbp, sizeof(root));
	objset_release(os);
	sp_pool_destroy(tp);
}

static void test_one_file(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .bonustype = 44, .bonuslen = 40, .blocksize = 4096};
	struct testpool *tp = sp_pool_create(9);
	struct tx tx = sp_open_tx(tp, FIRST), tx2 = sp_open_tx(tp, FIRST + 1);
	struct objset *os, *again;
	struct dnode *dn, *got;
	uint64_t object;
	uint8_t data[10000], back[10000], bonus[40];

	tp_pattern(data, sizeof(data), 3);
	tp_pattern(bonus, sizeof(bonus), 4);
	assert_int_equal(objset_create(&tp->dp, 5, OBJSET_ZFS, &sp_ops, NULL, NULL, &tx, &os), 0);
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &object), 0);
	assert_int_equal(dnode_hold(os, object, &dn, NULL), 0);
	assert_int_equal(dmu_bonus_write(dn, 0, bonus, 40, &tx), 0);
	assert_int_equal(dmu_write(dn, 5000, data, sizeof(data), &tx), 0);
	sp_sync_group(os, FIRST, 1);
	again = sp_reopen(tp, os);
	assert_int_equal(dnode_hold(again, object, &got, NULL), 0);
	assert_int_equal(got->nlevels, 2);
	assert_int_equal(got->nblkptr, 1);
	assert_int_equal(got->maxblkid, 3);
	assert_true(bp_is_hole(&dn->blkptr[1]));
	assert_int_equal(dmu_bonus_read(got, 0, back, 40), 0);
	assert_memory_equal(back, bonus, 40);
	assert_int_equal(dmu_read(got, 5000, back, sizeof(back), 0), 0);
	assert_memory_equal(back, data, sizeof(data));
	dnode_release(got);
	objset_release(again);
	/* The next group changes a part of it, and frees the rest. */
	assert_int_equal(dmu_write(dn, 5010, "changed", 7, &tx2), 0);
	assert_int_equal(dmu_free_range(dn, 8192, UINT64_MAX, &tx2), 0);
	memcpy(data + 10, "changed", 7);
	sp_sync_group(os, FIRST + 1, 1);
	again = sp_reopen(tp, os);
	assert_int_equal(dnode_hold(again, object, &got, NULL), 0);
	assert_int_equal(got->maxblkid, 1);
	assert_int_equal(dmu_read(got, 5000, back, 5000, 0), 0);
	memset(data + 3192, 0, sizeof(data) - 3192);
	assert_memory_equal(back, data, 5000);
	dnode_release(got);
	objset_release(again);
	dnode_release(dn);
	objset_release(os);
	sp_pool_destroy(tp);
}

/* Holes that were blocks have births, those that never were have not. */
static void test_hole_births(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .blocksize = 1024, .indblkshift = 12};
	struct testpool *tp = sp_pool_create(9);
	struct tx tx = sp_open_tx(tp, FIRST), tx2 = sp_open_tx(tp, FIRST + 1), tx3 = sp_open_tx(tp, FIRST + 2);
	uint8_t data[1024];
	struct objset *os;
	struct dnode *dn;
	uint64_t object;
	struct bp bp;

	tp_pattern(data, sizeof(data), 3);
	assert_int_equal(objset_create(&tp->dp, 5, OBJSET_ZFS, &sp_ops, NULL, NULL, &tx, &os), 0);
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &object), 0);
	assert_int_equal(dnode_hold(os, object, &dn, NULL), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(dmu_write(dn, i * 1024, data, 1024, &tx), 0);
	sp_sync_group(os, FIRST, 1);
	/* Blocks 32 - 63 are all of an indirect block. */
	assert_int_equal(dmu_free_range(dn, 30 * 1024, 40 * 1024, &tx2), 0);
	sp_sync_group(os, FIRST + 1, 1);
	assert_int_equal(dmu_block_pointer(dn, 0, 30, &bp), 0);
	assert_true(bp_is_hole(&bp));
	assert_int_equal(bp_birth(&bp), FIRST + 1);
	assert_int_equal(bp_lsize(&bp), 1024);
	assert_int_equal(dmu_block_pointer(dn, 1, 1, &bp), 0);
	assert_true(bp_is_hole(&bp));
	assert_int_equal(bp_birth(&bp), FIRST + 1);
	assert_int_equal(bp_level(&bp), 1);
	assert_int_equal(bp_lsize(&bp), 4096);
	assert_int_equal(dmu_block_pointer(dn, 0, 110, &bp), 0);
	assert_int_equal(bp_birth(&bp), 0);
	/* Beneath that hole a block comes back: its neighbours keep the birth. */
	assert_int_equal(dmu_write(dn, 40 * 1024, data, 1024, &tx3), 0);
	sp_sync_group(os, FIRST + 2, 1);
	assert_int_equal(dmu_block_pointer(dn, 0, 41, &bp), 0);
	assert_true(bp_is_hole(&bp));
	assert_int_equal(bp_birth(&bp), FIRST + 1);
	assert_int_equal(dmu_block_pointer(dn, 0, 40, &bp), 0);
	assert_int_equal(bp_birth(&bp), FIRST + 2);
	objset_release(sp_reopen(tp, os));
	dnode_release(dn);
	objset_release(os);
	sp_pool_destroy(tp);
}

/* --- random --- */

#define FILES  3u
#define FLIGHT 3u

struct file {
	struct dnode *dn;
	uint64_t object;
};
struct world {
	struct testpool *tp;
	struct objset *os;
	struct file file[FILES];
	uint8_t *model[FLIGHT][FILES]; /* by txg % FLIGHT: as the group leaves it */
	uint64_t open;
	uint32_t seed;
};

static uint32_t rnd(struct world *w, uint32_t n)
{
	w->seed = w->seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)w->seed * n) >> 32);
}

/* Two windows of each file: at its start and far behind. */
static uint64_t file_offset(size_t at)
{
	return at < WINDOW ? at : HIGH + at - WINDOW;
}

static void world_write(struct world *w, unsigned f, uint64_t txg, size_t at, size_t len)
{
	struct tx tx = sp_open_tx(w->tp, txg);
	autofree uint8_t *data = xmalloc(len);

	tp_pattern(data, len, rnd(w, UINT32_MAX));
	if (rnd(w, 8) == 0)
		memset(data, 0, len);
	assert_int_equal(dmu_write(w->file[f].dn, file_offset(at), data, len, &tx), 0);
	for (uint64_t g = txg; g <= w->open; g++)
		memcpy(w->model[g % FLIGHT][f] + at, data, len);
}

static void world_free(struct world *w, unsigned f, uint64_t txg, size_t at, size_t len, bool to_end)
{
	struct tx tx = sp_open_tx(w->tp, txg);

	assert_int_equal(dmu_free_range(w->file[f].dn, file_offset(at), to_end ? UINT64_MAX : len, &tx), 0);
	for (uint64_t g = txg; g <= w->open; g++)
		memset(w->model[g % FLIGHT][f] + at, 0, to_end ? 2 * WINDOW - at : len);
}

/* `quiescing`: the group before the open one is not being synced yet; its transactions may come late. */
static void world_op(struct world *w, bool quiescing)
{
	unsigned f = rnd(w, FILES), what = rnd(w, 20);
	uint64_t txg = quiescing && rnd(w, 3) == 0 ? w->open - 1 : w->open;
	size_t window = rnd(w, 3) == 0 ? WINDOW : 0, at = rnd(w, WINDOW),
	       len = rnd(w, rnd(w, 4) ? 3 * BS : 20 * BS) + 1;

	if (what < 2)
		at = ROUND_DOWN(at, BS);
	len = MIN(len, WINDOW - at);
	if (what == 19 && rnd(w, 4) == 0)
		world_free(w, f, txg, window + at, len, true);
	else if (what >= 15)
		world_free(w, f, txg, window + at, len, false);
	else
		world_write(w, f, txg, window + at, len);
}

static void files_compare(struct world *w, struct objset *os, uint64_t txg)
{
	autofree uint8_t *got = xmalloc(WINDOW);

	for (unsigned f = 0; f < FILES; f++) {
		struct dnode *dn;

		assert_int_equal(dnode_hold(os, w->file[f].object, &dn, NULL), 0);
		for (unsigned half = 0; half < 2; half++) {
			const uint8_t *want = w->model[txg % FLIGHT][f] + half * WINDOW;

			assert_int_equal(dmu_read(dn, half * HIGH, got, WINDOW, 0), 0);
			for (size_t i = 0; i < WINDOW; i++)
				if (got[i] != want[i])
					fail_msg("txg %lu file %u window %u block %zu byte %zu: %02x, not %02x", txg, f,
						 half, i / BS, i % BS, got[i], want[i]);
		}
		dnode_release(dn);
	}
}

static void world_open_group(struct world *w)
{
	w->open++;
	for (unsigned f = 0; f < FILES; f++)
		memcpy(w->model[w->open % FLIGHT][f], w->model[(w->open - 1) % FLIGHT][f], 2 * WINDOW);
}

static void world_create(struct world *w, uint32_t seed)
{
	/* Shapes: one pointer with small indirect blocks, three pointers, usual indirect blocks. */
	struct dmu_object spec[FILES] = {{.type = TP_FILE, .blocksize = BS, .indblkshift = 12, .bonustype = 44},
					 {.type = TP_FILE, .blocksize = BS, .indblkshift = 12},
					 {.type = TP_FILE, .blocksize = BS}};
	struct tx tx;

	memset(w, 0, sizeof(*w));
	w->tp = sp_pool_create(9);
	w->seed = seed;
	w->open = FIRST;
	tx = sp_open_tx(w->tp, FIRST);
	assert_int_equal(objset_create(&w->tp->dp, 5, OBJSET_ZFS, &sp_ops, NULL, NULL, &tx, &w->os), 0);
	w->os->props.compress = COMPRESS_LZ4;
	for (unsigned f = 0; f < FILES; f++) {
		assert_int_equal(dmu_object_alloc(w->os, &spec[f], &tx, &w->file[f].object), 0);
		assert_int_equal(dnode_hold(w->os, w->file[f].object, &w->file[f].dn, NULL), 0);
		for (unsigned g = 0; g < FLIGHT; g++)
			w->model[g][f] = xcalloc(2, WINDOW);
	}
}

static void world_destroy(struct world *w)
{
	for (unsigned f = 0; f < FILES; f++) {
		dnode_release(w->file[f].dn);
		for (unsigned g = 0; g < FLIGHT; g++)
			free(w->model[g][f]);
	}
	objset_release(w->os);
	sp_pool_destroy(w->tp);
}

static void test_random(void **state)
{
	struct world w;

	world_create(&w, 20260801);
	for (unsigned round = 0; round < 60; round++) {
		for (unsigned i = rnd(&w, 60); i > 0; i--)
			world_op(&w, false);
		files_compare(&w, w.os, w.open);
		world_open_group(&w);
		for (unsigned i = rnd(&w, 30); i > 0; i--)
			world_op(&w, true);
		sp_sync_group(w.os, w.open - 1, 1);
		files_compare(&w, w.os, w.open);
		struct objset *again = sp_reopen(w.tp, w.os);
		files_compare(&w, again, w.open - 1);
		objset_release(again);
	}
	sp_sync_group(w.os, w.open, 1);
	objset_release(sp_reopen(w.tp, w.os));
	world_destroy(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_empty_set),
	    cmocka_unit_test(test_one_file),
	    cmocka_unit_test(test_hole_births),
	    cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
