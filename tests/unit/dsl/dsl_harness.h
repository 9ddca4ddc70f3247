/*
 * tests/unit/dsl/dsl_harness.h: a pool in memory with a real MOS and real groups, but no spa: the passes are run here,
 * space comes from the test pool's allocator, features are counts in a table.
 */
#ifndef TESTS_DSL_HARNESS_H
#define TESTS_DSL_HARNESS_H

#include "testpool.h"

#include "base/hash.h"
#include "base/log.h"
#include "dmu/traverse.h"
#include "dsl/dsl_write_impl.h"

#define HW_FIRST_TXG 4
#define HW_ARC       (UINT64_C(64) << 20)
#define HW_USABLE    (UINT64_C(256) << 20)
#define HW_PASSES    20

struct hw_feature {
	const char *guid;
	bool enabled;
	int64_t refs;
};

struct harness {
	struct testpool *tp;
	struct objset *mos;
	struct dsl_pool *p;
	uint64_t usable[4], deferred;
	uint64_t groups;
	bool freeing;  /* some of the background work is left */
	bool no_free;  /* the background work is not done */
	bool may_fail; /* writing a group may fail: the pool is given up then */
	unsigned failed;
	int64_t mos_lost; /* what the last group of a closed pool did not charge to $MOS any more */
	struct hw_feature f[24];
};

static const char *const hw_features[] = {"com.delphix:async_destroy",
					  "com.delphix:empty_bpobj",
					  "com.delphix:extensible_dataset",
					  "com.delphix:bookmarks",
					  "com.datto:bookmark_v2",
					  "com.delphix:bookmark_written",
					  "com.joyent:filesystem_limits",
					  "org.open-zfs:large_blocks",
					  "org.zfsonlinux:large_dnode",
					  "org.illumos:sha512",
					  "org.illumos:skein",
					  "org.illumos:edonr",
					  "org.openzfs:blake3",
					  "org.freebsd:zstd_compress",
					  "org.zfsonlinux:userobj_accounting",
					  "org.zfsonlinux:project_quota",
					  "com.delphix:livelist",
					  "org.illumos:lz4_compress",
					  "com.delphix:redaction_bookmarks"};

static inline struct hw_feature *hw_feature(struct harness *h, const char *guid)
{
	for (size_t i = 0; i < ARRAY_LEN(h->f) && h->f[i].guid; i++)
		if (strcmp(h->f[i].guid, guid) == 0)
			return &h->f[i];
	return NULL;
}

static inline void hw_feature_count(void *arg, const char *guid, int64_t delta, struct tx *tx)
{
	struct hw_feature *f = hw_feature(arg, guid);

	assert_non_null(f);
	assert_true(tx->syncing);
	f->refs += delta;
	assert_true(f->refs >= 0);
}

static inline bool hw_feature_enabled(void *arg, const char *guid)
{
	const struct hw_feature *f = hw_feature(arg, guid);

	return f && f->enabled;
}

static inline uint64_t hw_feature_refs(void *arg, const char *guid)
{
	const struct hw_feature *f = hw_feature(arg, guid);

	return f ? (uint64_t)f->refs : 0;
}

static inline uint64_t hw_usable(void *arg, enum dsl_space_policy policy)
{
	return ((struct harness *)arg)->usable[policy];
}

static inline uint64_t hw_deferred(void *arg)
{
	return ((struct harness *)arg)->deferred;
}

static inline void hw_free(void *arg, const struct bp *bp, struct tx *tx)
{
	struct harness *h = arg;

	assert_int_equal(zio_free(&h->tp->zp, bp, tx->txg), 0);
}

static const struct dsl_write_ops hw_ops = {.feature_count = hw_feature_count,
					    .feature_enabled = hw_feature_enabled,
					    .feature_refs = hw_feature_refs,
					    .usable = hw_usable,
					    .deferred = hw_deferred,
					    .free = hw_free};

/* --- the MOS --- */

static inline uint64_t hw_mos_born(struct objset *os, const struct bp *bp, struct tx *tx)
{
	struct harness *h = os->ops_arg;
	struct dsl_space s;

	if (bp_is_hole(bp) || !h->p)
		return bp_is_hole(bp) ? 0 : bp_asize(bp);
	s = dsl_bp_space(h->p, bp);
	dsl_pool_mos_space(h->p, (int64_t)s.used, (int64_t)s.comp, (int64_t)s.uncomp);
	return s.used;
}

static inline uint64_t hw_mos_kill(struct objset *os, const struct bp *bp, struct tx *tx)
{
	struct harness *h = os->ops_arg;
	struct dsl_space s;

	if (bp_is_hole(bp))
		return 0;
	s = dsl_bp_space(h->p, bp);
	dsl_pool_mos_space(h->p, -(int64_t)s.used, -(int64_t)s.comp, -(int64_t)s.uncomp);
	assert_int_equal(zio_free(&h->tp->zp, bp, tx->txg), 0);
	return s.used;
}

static const struct objset_ops hw_mos_ops = {.born = hw_mos_born, .kill = hw_mos_kill};

static inline void hw_sync(void *arg, uint64_t txg)
{
	struct harness *h = arg;
	struct tx tx = {.txgs = h->tp->dp.txgs, .txg = txg, .syncing = true};

	do {
		tx.pass++;
		assert_true(tx.pass < HW_PASSES);
		if (dsl_pool_sync(h->p, &tx)) {
			h->failed++;
			assert_true(h->may_fail);
			txgs_abandon(tx.txgs);
			return;
		}
		if (tx.pass == 1 && !h->no_free)
			h->freeing = dsl_pool_free_some(h->p, &tx);
		if (objset_sync(h->mos, &tx))
			h->failed++;
	} while (objset_is_dirty(h->mos, txg) || dsl_pool_needs_pass(h->p, txg));
	objset_sync_done(h->mos, txg);
	dsl_pool_sync_done(h->p, txg);
	h->groups++;
	assert_int_equal(h->failed, 0);
}

static inline void hw_wait(struct harness *h)
{
	assert_int_equal(txg_wait_synced(h->tp->dp.txgs, 0), 0);
}

/* Until nothing is left to be freed in the background. */
static inline void hw_drain(struct harness *h)
{
	do
		hw_wait(h);
	while (h->freeing);
	hw_wait(h);
}

static inline void hw_root_init(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	struct dmu_object spec = {.type = DMU_OT_PLAIN, .blocksize = 4096};

	assert_int_equal(dmu_object_claim(os, 1, &spec, tx), 0);
}

static inline void hw_mos_create(struct harness *h, struct tx *tx)
{
	struct zap_spec spec = {.type = DMU_OT_OBJECT_DIRECTORY};

	assert_int_equal(objset_create(&h->tp->dp, 0, OBJSET_META, &hw_mos_ops, h, NULL, tx, &h->mos), 0);
	h->mos->props = (struct objset_props){.checksum = CHECKSUM_FLETCHER_4, .compress = COMPRESS_LZ4, .copies = 3};
	assert_int_equal(zap_create_claim(h->mos, MOS_DIRECTORY, &spec, tx), 0);
	assert_int_equal(zap_add_u64(h->mos, MOS_DIRECTORY, "deflate", 1, tx), 0);
}

/* An empty pool "p" with a root file system. Features named in `off` are not enabled. */
static inline struct harness *hw_create(const char *const *off, size_t noff)
{
	struct harness *h = xcalloc(1, sizeof(*h));
	struct dsl_create root = {.name = "p", .type = DSL_FILESYSTEM, .init = hw_root_init};
	struct tx tx = {.txg = HW_FIRST_TXG, .syncing = true, .pass = 1};

	log_set_level(LOG_LEVEL_ERROR);
	h->tp = tp_create(9, HW_ARC);
	tp_set_writable(h->tp);
	h->tp->dp.lz4_compress = h->tp->dp.embedded_data = true;
	for (size_t i = 0; i < ARRAY_LEN(hw_features); i++)
		h->f[i] = (struct hw_feature){hw_features[i], true, 0};
	for (size_t i = 0; i < noff; i++)
		hw_feature(h, off[i])->enabled = false;
	hw_feature(h, "org.illumos:lz4_compress")->refs = 1;
	for (unsigned i = 0; i < 4; i++)
		h->usable[i] = HW_USABLE;
	h->tp->dp.txgs = tx.txgs = txgs_create(HW_FIRST_TXG, hw_sync, h);
	hw_mos_create(h, &tx);
	assert_int_equal(dsl_pool_create(&h->tp->dp, h->mos, "p", &tx, &h->p), 0);
	assert_int_equal(dsl_pool_set_writable(h->p, &hw_ops, h), 0);
	assert_int_equal(dsl_create_root(h->p, &root, &tx), 0);
	txgs_start(h->tp->dp.txgs);
	hw_wait(h);
	return h;
}

static inline void hw_destroy(struct harness *h)
{
	txgs_destroy(h->tp->dp.txgs);
	dsl_pool_close(h->p);
	objset_release(h->mos);
	arc_flush_pool(h->tp->dp.arc, h->tp->zp.guid);
	zio_writer_destroy(&h->tp->zp);
	tp_destroy(h->tp);
	free(h);
}

/* The same pool as an import would find it. */
static inline void hw_reopen(struct harness *h)
{
	struct bp root;
	struct err e = ERR_INIT;
	uint64_t next;

	hw_wait(h);
	next = txg_open(h->tp->dp.txgs);
	txgs_destroy(h->tp->dp.txgs);
	next += TXG_SIZE;
	h->mos_lost += atomic_load(&h->p->write->mos_space[0]);
	dsl_pool_close(h->p);
	root = h->mos->rootbp;
	objset_release(h->mos);
	if (objset_open(&h->tp->dp, 0, &root, NULL, &h->mos, &e))
		fail_msg("%s", e.text);
	objset_set_writable(h->mos, &hw_mos_ops, h);
	h->mos->props = (struct objset_props){.checksum = CHECKSUM_FLETCHER_4, .compress = COMPRESS_LZ4, .copies = 3};
	if (dsl_pool_open(&h->tp->dp, h->mos, "p", &h->p, &e))
		fail_msg("%s", e.text);
	h->tp->dp.txgs = txgs_create(next, hw_sync, h);
	assert_int_equal(dsl_pool_set_writable(h->p, &hw_ops, h), 0);
	txgs_start(h->tp->dp.txgs);
}

/* --- counting blocks --- */

/* Everything that a pointer tree refers to. Embedded pointers have their place in the tree for one on a device. */
struct hw_block {
	uint64_t vdev, offset, birth, asize;
	struct dsl_space space;
};

struct hw_blocks {
	struct hw_block *b;
	size_t n, cap;
	struct harness *h;
};

static inline int hw_block_cmp(const void *va, const void *vb)
{
	const struct hw_block *a = va, *b = vb;

	if (a->vdev != b->vdev)
		return a->vdev < b->vdev ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->birth < b->birth ? -1 : a->birth > b->birth;
}

static inline void hw_block_add(struct hw_blocks *l, const struct hw_block *b)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 256;
		l->b = xrealloc(l->b, l->cap * sizeof(*l->b));
	}
	l->b[l->n++] = *b;
}

static inline int hw_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct hw_blocks *l = t->arg;
	struct dva d = bp_dva(bp, 0);
	struct hw_block b = {d.vdev, d.offset, dsl_bp_birth(bp), bp_asize(bp), dsl_bp_space(l->h->p, bp)};

	if (bp_is_hole(bp))
		return 0;
	if (bp_is_embedded(bp)) {
		b.vdev = (UINT64_C(1) << 32) + zb->object;
		b.offset = ((uint64_t)zb->level << 48) + zb->blkid;
		b.asize = 0;
	}
	hw_block_add(l, &b);
	return 0;
}

static inline void hw_visit_error(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	fail_msg("object %lu level %ld block %lu: %s", zb->object, zb->level, zb->blkid, err_words(err));
}

static inline void hw_count_root(struct harness *h, const struct bp *root, struct hw_blocks *l)
{
	struct traverse t = {.visit = hw_visit, .error = hw_visit_error, .arg = l};
	struct objset *os;

	l->h = h;
	if (bp_is_hole(root))
		return;
	assert_int_equal(objset_open(&h->tp->dp, 1000000, root, NULL, &os, NULL), 0);
	assert_int_equal(traverse_objset(os, &t), 0);
	objset_release(os);
	qsort(l->b, l->n, sizeof(*l->b), hw_block_cmp);
}

static inline void hw_blocks_sort(struct hw_blocks *l)
{
	size_t n = 0;

	if (l->n)
		qsort(l->b, l->n, sizeof(*l->b), hw_block_cmp);
	for (size_t i = 0; i < l->n; i++)
		if (i == 0 || hw_block_cmp(&l->b[i], &l->b[n - 1]) != 0)
			l->b[n++] = l->b[i];
	l->n = n;
}

static inline bool hw_blocks_have(const struct hw_blocks *l, const struct hw_block *b)
{
	return l->n && bsearch(b, l->b, l->n, sizeof(*l->b), hw_block_cmp);
}

static inline void hw_blocks_free(struct hw_blocks *l)
{
	free(l->b);
	memset(l, 0, sizeof(*l));
}

#endif
