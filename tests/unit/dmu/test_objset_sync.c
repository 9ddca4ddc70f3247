/* What is synced is what was written: trees read back from their root, nothing leaked, nothing freed twice. */
#include "testpool.h"

#include "dmu/traverse.h"

#define ARC_BYTES (UINT64_C(32) << 20)
#define BS        1024u
#define WINDOW    (96u * BS)
#define HIGH      (UINT64_C(1) << 40) /* where the second window is */
#define FIRST     11u

static uint64_t on_born(struct objset *os, const struct bp *bp, struct tx *tx)
{
	return bp_asize(bp);
}

static uint64_t on_kill(struct objset *os, const struct bp *bp, struct tx *tx)
{
	assert_false(bp_is_hole(bp));
	assert_true(bp_birth(bp) <= tx->txg);
	assert_int_equal(zio_free(os->dp->zp, bp, tx->txg), 0);
	return bp_asize(bp);
}

static const struct objset_ops ops = {.born = on_born, .kill = on_kill};

static struct testpool *pool_create(unsigned ashift)
{
	struct testpool *tp = tp_create(ashift, ARC_BYTES);

	tp_set_writable(tp);
	tp->dp.lz4_compress = tp->dp.embedded_data = tp->dp.project_quota = true;
	tp->dp.txgs = txgs_create(FIRST, NULL, NULL);
	return tp;
}

static void pool_destroy(struct testpool *tp)
{
	assert_int_equal(txg_dirty_bytes(tp->dp.txgs), 0);
	assert_int_equal(tp->bad_frees, 0);
	txgs_destroy(tp->dp.txgs);
	arc_flush_pool(tp->dp.arc, tp->zp.guid);
	zio_writer_destroy(&tp->zp);
	tp_destroy(tp);
}

static struct tx open_tx(struct testpool *tp, uint64_t txg)
{
	return (struct tx){.txgs = tp->dp.txgs, .txg = txg};
}

static void sync_group(struct objset *os, uint64_t txg, unsigned pass)
{
	struct tx tx = {.txgs = os->dp->txgs, .txg = txg, .syncing = true, .pass = pass};

	assert_int_equal(objset_sync(os, &tx), 0);
	assert_false(objset_is_dirty(os, txg));
	objset_sync_done(os, txg);
}

/* --- checking a synced tree --- */

struct census {
	struct traverse t;
	struct objset *os;
	uint64_t asize, own; /* all; of the object being counted */
};

static int census_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct census *c = container_of(t, struct census, t);

	if (!bp_is_hole(bp) && !bp_is_embedded(bp)) {
		assert_int_equal(bp_check(bp), 0);
		c->asize += bp_asize(bp);
	}
	return 0;
}

static void census_error(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	fail_msg("object %lu level %ld block %lu: %d", zb->object, zb->level, zb->blkid, err);
}

/* Fill of a subtree as its pointers say below. */
static uint64_t fill_check(struct objset *os, uint64_t object, const struct bp *bp, uint64_t blkid)
{
	struct zbookmark zb = {os->id, object, bp_level(bp), blkid};
	struct buf *buf;
	uint64_t fill = 0;

	if (bp_is_hole(bp))
		return 0;
	if (bp_level(bp) == 0)
		return bp_fill(bp);
	assert_int_equal(arc_read_wait(os->dp->arc, os->dp->zp, bp, &zb, NULL, 0, &buf), 0);
	unsigned n = buf->size / BP_SIZE;
	for (unsigned i = 0; i < n; i++) {
		struct bp child;

		bp_decode(&child, buf->data + i * BP_SIZE, false);
		if (!bp_is_hole(&child) || bp_birth(&child))
			assert_int_equal(bp_level(&child), bp_level(bp) - 1);
		assert_true(bp_birth(&child) <= bp_birth(bp));
		fill += fill_check(os, object, &child, blkid * n + i);
	}
	buf_release(buf);
	assert_true(fill > 0);
	assert_int_equal(fill, bp_fill(bp));
	return fill;
}

static void dnode_check(struct objset *os, struct dnode *dn)
{
	struct census c = {.t = {.visit = census_visit, .error = census_error}, .os = os};

	for (unsigned i = 0; i < dn->nblkptr; i++)
		fill_check(os, dn->object, &dn->blkptr[i], i);
	assert_int_equal(traverse_dnode(dn, &c.t), 0);
	if (dn->object)
		assert_int_equal(c.asize, dn->used);
}

/* Reads the set anew from its root and checks its inner order. The blocks in use are those that it reaches. */
static struct objset *reopen(struct testpool *tp, struct objset *os)
{
	struct census c = {.t = {.visit = census_visit, .error = census_error}};
	struct objset *again;
	uint64_t object = 0, n = 0;
	struct err e = ERR_INIT;

	if (objset_open(&tp->dp, os->id, &os->rootbp, NULL, &again, &e))
		fail_msg("%s", e.text);
	dnode_check(again, again->meta);
	while (dnode_next(again, &object, NULL) == 0) {
		struct dnode *dn;

		n++;
		assert_int_equal(dnode_hold(again, object, &dn, NULL), 0);
		dnode_check(again, dn);
		dnode_release(dn);
	}
	assert_int_equal(bp_fill(&os->rootbp), n);
	assert_int_equal(traverse_objset(again, &c.t), 0);
	assert_int_equal(c.asize, tp_in_use(tp));
	return again;
}

/* --- tests --- */

static void test_empty_set(void **state)
{
	struct testpool *tp = pool_create(9);
	struct tx tx = open_tx(tp, FIRST);
	struct objset *os, *again;

	assert_int_equal(objset_create(&tp->dp, 5, OBJSET_ZFS, &ops, NULL, NULL, &tx, &os), 0);
	sync_group(os, FIRST, 1);
	again = reopen(tp, os);
	assert_int_equal(again->type, OBJSET_ZFS);
	assert_int_equal(again->meta->nlevels, 6);
	assert_int_equal(bp_lsize(&os->rootbp), 4096);
	assert_int_equal(bp_ndvas(&os->rootbp), 2);
	objset_release(again);
	/* Nothing dirty: nothing is written. */
	struct bp root = os->rootbp;
	sync_group(os, FIRST + 1, 1);
	assert_memory_equal(&root, &os->rootbp, sizeof(root));
	objset_release(os);
	pool_destroy(tp);
}

static void test_one_file(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .bonustype = 44, .bonuslen = 40, .blocksize = 4096};
	struct testpool *tp = pool_create(9);
	struct tx tx = open_tx(tp, FIRST), tx2 = open_tx(tp, FIRST + 1);
	struct objset *os, *again;
	struct dnode *dn, *got;
	uint64_t object;
	uint8_t data[10000], back[10000], bonus[40];

	tp_pattern(data, sizeof(data), 3);
	tp_pattern(bonus, sizeof(bonus), 4);
	assert_int_equal(objset_create(&tp->dp, 5, OBJSET_ZFS, &ops, NULL, NULL, &tx, &os), 0);
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &object), 0);
	assert_int_equal(dnode_hold(os, object, &dn, NULL), 0);
	assert_int_equal(dmu_bonus_write(dn, 0, bonus, 40, &tx), 0);
	assert_int_equal(dmu_write(dn, 5000, data, sizeof(data), &tx), 0);
	sync_group(os, FIRST, 1);
	again = reopen(tp, os);
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
	sync_group(os, FIRST + 1, 1);
	again = reopen(tp, os);
	assert_int_equal(dnode_hold(again, object, &got, NULL), 0);
	assert_int_equal(got->maxblkid, 1);
	assert_int_equal(dmu_read(got, 5000, back, 5000, 0), 0);
	memset(data + 3192, 0, sizeof(data) - 3192);
	assert_memory_equal(back, data, 5000);
	dnode_release(got);
	objset_release(again);
	dnode_release(dn);
	objset_release(os);
	pool_destroy(tp);
}

/* Holes that were blocks have births, those that never were have not. */
static void test_hole_births(void **state)
{
	struct dmu_object spec = {.type = TP_FILE, .blocksize = 1024, .indblkshift = 12};
	struct testpool *tp = pool_create(9);
	struct tx tx = open_tx(tp, FIRST), tx2 = open_tx(tp, FIRST + 1), tx3 = open_tx(tp, FIRST + 2);
	uint8_t data[1024];
	struct objset *os;
	struct dnode *dn;
	uint64_t object;
	struct bp bp;

	tp_pattern(data, sizeof(data), 3);
	assert_int_equal(objset_create(&tp->dp, 5, OBJSET_ZFS, &ops, NULL, NULL, &tx, &os), 0);
	assert_int_equal(dmu_object_alloc(os, &spec, &tx, &object), 0);
	assert_int_equal(dnode_hold(os, object, &dn, NULL), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(dmu_write(dn, i * 1024, data, 1024, &tx), 0);
	sync_group(os, FIRST, 1);
	/* Blocks 32 - 63 are all of an indirect block. */
	assert_int_equal(dmu_free_range(dn, 30 * 1024, 40 * 1024, &tx2), 0);
	sync_group(os, FIRST + 1, 1);
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
	sync_group(os, FIRST + 2, 1);
	assert_int_equal(dmu_block_pointer(dn, 0, 41, &bp), 0);
	assert_true(bp_is_hole(&bp));
	assert_int_equal(bp_birth(&bp), FIRST + 1);
	assert_int_equal(dmu_block_pointer(dn, 0, 40, &bp), 0);
	assert_int_equal(bp_birth(&bp), FIRST + 2);
	objset_release(reopen(tp, os));
	dnode_release(dn);
	objset_release(os);
	pool_destroy(tp);
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
	struct tx tx = open_tx(w->tp, txg);
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
	struct tx tx = open_tx(w->tp, txg);

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
	w->tp = pool_create(9);
	w->seed = seed;
	w->open = FIRST;
	tx = open_tx(w->tp, FIRST);
	assert_int_equal(objset_create(&w->tp->dp, 5, OBJSET_ZFS, &ops, NULL, NULL, &tx, &w->os), 0);
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
	pool_destroy(w->tp);
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
		sync_group(w.os, w.open - 1, 1);
		files_compare(&w, w.os, w.open);
		struct objset *again = reopen(w.tp, w.os);
		files_compare(&w, again, w.open - 1);
		objset_release(again);
	}
	sync_group(w.os, w.open, 1);
	objset_release(reopen(w.tp, w.os));
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
