/*
 * Object sets that are written and synced over a test pool, and a check of what was synced: read anew from its root,
 * its fills and used bytes are right, and the blocks in use are those that it reaches.
 */
#ifndef SYNCPOOL_H
#define SYNCPOOL_H

#include "testpool.h"

#include "dmu/traverse.h"

#define SP_FIRST 11u /* the first group */
#define SP_ARC   (UINT64_C(32) << 20)

static inline uint64_t sp_born(struct objset *os, const struct bp *bp, struct tx *tx)
{
	return bp_asize(bp);
}

static inline uint64_t sp_kill(struct objset *os, const struct bp *bp, struct tx *tx)
{
	assert_false(bp_is_hole(bp));
	assert_true(bp_birth(bp) <= tx->txg);
	assert_int_equal(zio_free(os->dp->zp, bp, tx->txg), 0);
	return bp_asize(bp);
}

static const struct objset_ops sp_ops = {.born = sp_born, .kill = sp_kill};

static inline struct testpool *sp_pool_create(unsigned ashift)
{
	struct testpool *tp = tp_create(ashift, SP_ARC);

	tp_set_writable(tp);
	tp->dp.lz4_compress = tp->dp.embedded_data = tp->dp.project_quota = true;
	tp->dp.txgs = txgs_create(SP_FIRST, NULL, NULL);
	return tp;
}

static inline void sp_pool_destroy(struct testpool *tp)
{
	assert_int_equal(txg_dirty_bytes(tp->dp.txgs), 0);
	assert_int_equal(tp->bad_frees, 0);
	txgs_destroy(tp->dp.txgs);
	arc_flush_pool(tp->dp.arc, tp->zp.guid);
	zio_writer_destroy(&tp->zp);
	tp_destroy(tp);
}

static inline struct tx sp_open_tx(struct testpool *tp, uint64_t txg)
{
	return (struct tx){.txgs = tp->dp.txgs, .txg = txg};
}

static inline void sp_sync_group(struct objset *os, uint64_t txg, unsigned pass)
{
	struct tx tx = {.txgs = os->dp->txgs, .txg = txg, .syncing = true, .pass = pass};

	assert_int_equal(objset_sync(os, &tx), 0);
	assert_false(objset_is_dirty(os, txg));
	objset_sync_done(os, txg);
}

/* --- checking a synced tree --- */

struct sp_census {
	struct traverse t;
	struct objset *os;
	uint64_t asize, own; /* all; of the object being counted */
};

static inline int sp_census_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb,
				  const struct dnode *dn)
{
	struct sp_census *c = container_of(t, struct sp_census, t);

	if (!bp_is_hole(bp) && !bp_is_embedded(bp)) {
		assert_int_equal(bp_check(bp), 0);
		c->asize += bp_asize(bp);
	}
	return 0;
}

static inline void sp_census_error(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	fail_msg("object %lu level %ld block %lu: %d", zb->object, zb->level, zb->blkid, err);
}

/* Fill of a subtree as its pointers say below. */
static inline uint64_t sp_fill_check(struct objset *os, uint64_t object, const struct bp *bp, uint64_t blkid)
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
		fill += sp_fill_check(os, object, &child, blkid * n + i);
	}
	buf_release(buf);
	assert_true(fill > 0);
	assert_int_equal(fill, bp_fill(bp));
	return fill;
}

static inline void sp_dnode_check(struct objset *os, struct dnode *dn)
{
	struct sp_census c = {.t = {.visit = sp_census_visit, .error = sp_census_error}, .os = os};

	for (unsigned i = 0; i < dn->nblkptr; i++)
		sp_fill_check(os, dn->object, &dn->blkptr[i], i);
	assert_int_equal(traverse_dnode(dn, &c.t), 0);
	if (dn->object)
		assert_int_equal(c.asize, dn->used);
}

/* Reads the set anew from its root and checks its inner order. The blocks in use are those that it reaches. */
static inline struct objset *sp_reopen(struct testpool *tp, struct objset *os)
{
	struct sp_census c = {.t = {.visit = sp_census_visit, .error = sp_census_error}};
	struct objset *again;
	uint64_t object = 0, n = 0;
	struct err e = ERR_INIT;

	if (objset_open(&tp->dp, os->id, &os->rootbp, NULL, &again, &e))
		fail_msg("%s", e.text);
	sp_dnode_check(again, again->meta);
	while (dnode_next(again, &object, NULL) == 0) {
		struct dnode *dn;

		n++;
		assert_int_equal(dnode_hold(again, object, &dn, NULL), 0);
		sp_dnode_check(again, dn);
		dnode_release(dn);
	}
	assert_int_equal(bp_fill(&os->rootbp), n);
	assert_int_equal(traverse_objset(again, &c.t), 0);
	assert_int_equal(c.asize, tp_in_use(tp));
	return again;
}

#endif
