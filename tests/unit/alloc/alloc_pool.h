/*
 * The smallest pool that can be written: a MOS whose blocks the allocator places, groups that are synced in passes as
 * spa does it, data blocks that are only a table. After each group every sector can be checked: it is allocated in the
 * space maps if and only if a block of the MOS or of the table has it.
 */
#ifndef ALLOC_POOL_H
#define ALLOC_POOL_H

#include "testpool.h"

#include "alloc/alloc.h"
#include "base/tunable.h"
#include "dmu/traverse.h"

#define POOL_ASHIFT     9
#define POOL_SECTORS(p) ((p)->size >> POOL_ASHIFT)
#define DIRECTORY       1

struct block {
	struct dva dva;
	uint64_t birth;
};

struct killed {
	struct bp bp;
	struct killed *next;
};

struct alloc_pool {
	struct testpool *tp;
	struct alloc *a;
	struct objset *mos;
	struct txgs *txgs;
	struct alloc_features features;
	uint64_t size; /* of each device */
	uint64_t txg;  /* open */
	uint64_t checkpoint_txg;
	uint64_t zap_top[TP_TOPS];
	int64_t histograms; /* feature counts */
	bool log_active;
	pthread_mutex_t lock; /* of killed */
	struct killed *killed;
	struct block *block;
	size_t nblocks, room;
	uint32_t seed;
	bool strict;              /* there is always room: frees rest for two groups */
	uint64_t *freed[TP_TOPS]; /* by sector: the last group that freed it */
	uint64_t synced;
	unsigned passes; /* of the last group */
};

static inline uint32_t pool_rnd(struct alloc_pool *p, uint32_t below)
{
	p->seed = p->seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(p->seed >> 4) * below >> 28);
}

static inline void pool_activate(void *arg, const char *feature, int64_t delta, struct tx *tx)
{
	struct alloc_pool *p = arg;

	if (strcmp(feature, "com.delphix:spacemap_histogram") == 0)
		p->histograms += delta;
	if (strcmp(feature, "com.delphix:log_spacemap") == 0)
		p->log_active = delta > 0;
}

static inline void pool_config_dirty(void *arg, struct vdev *top, struct tx *tx)
{
	assert_true(top->ms_array != 0);
}

static inline void pool_dirtied(struct objset *os, uint64_t txg)
{
}

static inline uint64_t pool_born(struct objset *os, const struct bp *bp, struct tx *tx)
{
	return bp_asize(bp);
}

/* Freed once the pass has ended. */
static inline uint64_t pool_kill(struct objset *os, const struct bp *bp, struct tx *tx)
{
	struct alloc_pool *p = os->ops_arg;
	struct killed *k = xmalloc(sizeof(*k));

	k->bp = *bp;
	SCOPED_LOCK(&p->lock);
	k->next = p->killed;
	p->killed = k;
	return bp_asize(bp);
}

static const struct objset_ops pool_ops = {.dirtied = pool_dirtied, .born = pool_born, .kill = pool_kill};

static const struct objset_props pool_props = {.checksum = CHECKSUM_FLETCHER_4, .compress = COMPRESS_LZ4, .copies = 3};

static inline void pool_mark_freed(struct alloc_pool *p, const struct dva *d, uint64_t txg)
{
	for (uint64_t s = 0; s < d->asize >> POOL_ASHIFT; s++)
		p->freed[d->vdev][(d->offset >> POOL_ASHIFT) + s] = txg;
}

static inline void pool_free_killed(struct alloc_pool *p, uint64_t txg)
{
	struct killed *k, *next;

	pthread_mutex_lock(&p->lock);
	k = p->killed;
	p->killed = NULL;
	pthread_mutex_unlock(&p->lock);
	for (; k; k = next) {
		next = k->next;
		for (unsigned i = 0; i < bp_ndvas(&k->bp); i++) {
			struct dva d = bp_dva(&k->bp, i);

			if (!d.gang)
				pool_mark_freed(p, &d, txg);
		}
		assert_int_equal(zio_free(&p->tp->zp, &k->bp, txg), 0);
		free(k);
	}
}

static inline struct tx pool_tx(struct alloc_pool *p, uint64_t txg)
{
	return (struct tx){.txgs = p->txgs, .txg = txg, .syncing = true, .pass = 1};
}

/* All passes of group tx->txg. */
static inline void pool_passes(struct alloc_pool *p, struct tx *tx, bool flush)
{
	do {
		assert_int_equal(objset_sync(p->mos, tx), 0);
		pool_free_killed(p, tx->txg);
		assert_int_equal(alloc_sync(p->a, tx, flush), 0);
		assert_true(tx->pass < 20);
		tx->pass++;
	} while (objset_is_dirty(p->mos, tx->txg) || !alloc_is_clean(p->a, tx->txg));
	p->passes = tx->pass - 1;
	alloc_sync_done(p->a, tx->txg);
	objset_sync_done(p->mos, tx->txg);
	p->synced = tx->txg;
}

static inline void pool_sync(struct alloc_pool *p, bool flush)
{
	struct tx tx = pool_tx(p, p->txg++);

	pool_passes(p, &tx, flush);
}

static inline void pool_open_alloc(struct alloc_pool *p)
{
	struct alloc_args args = {
	    .mos = p->mos,
	    .root = p->tp->root,
	    .zp = &p->tp->zp,
	    .directory = DIRECTORY,
	    .checkpoint_txg = p->checkpoint_txg,
	    .features = p->features,
	    .activate = pool_activate,
	    .config_dirty = pool_config_dirty,
	    .arg = p,
	};
	struct err e = ERR_INIT;

	if (alloc_open(&args, &p->a, &e))
		fail_msg("%s", e.text);
}

static inline void pool_create(struct alloc_pool *p, unsigned ntops, uint64_t size, struct alloc_features features)
{
	struct err e = ERR_INIT;

	*p = (struct alloc_pool){.features = features, .size = size, .txg = 4, .seed = 5, .strict = true};
	pthread_mutex_init(&p->lock, NULL);
	p->tp = tp_create(POOL_ASHIFT, UINT64_C(32) << 20);
	for (unsigned i = 0; i < TP_TOPS; i++) {
		struct vdev *vd = p->tp->root->child[i];

		vd->asize = size;
		vd->ms_shift = 22;
		vd->noalloc = i >= ntops;
		p->freed[i] = xcalloc(POOL_SECTORS(p), 8);
	}
	p->txgs = txgs_create(4, NULL, NULL);
	p->tp->dp.txgs = p->txgs;
	zio_writer_create(&p->tp->zp);
	struct tx tx = pool_tx(p, p->txg++);
	struct zap_spec spec = {.type = DMU_OT_OBJECT_DIRECTORY};
	assert_int_equal(objset_create(&p->tp->dp, 0, OBJSET_META, &pool_ops, p, NULL, &tx, &p->mos), 0);
	p->mos->props = pool_props;
	assert_int_equal(zap_create_claim(p->mos, DIRECTORY, &spec, &tx), 0);
	pool_open_alloc(p);
	spec.type = DMU_OTN_ZAP_METADATA;
	for (unsigned i = 0; i < ntops; i++) {
		assert_int_equal(zap_create(p->mos, &spec, &tx, &p->zap_top[i]), 0);
		p->tp->root->child[i]->zap_top = p->zap_top[i];
		assert_int_equal(alloc_add_top(p->a, p->tp->root->child[i], &e), 0);
	}
	assert_int_equal(alloc_sync(p->a, &tx, false), 0);
	pool_passes(p, &tx, false);
}

static inline void pool_close_set(struct alloc_pool *p)
{
	alloc_close(p->a);
	objset_abandon(p->mos);
	objset_release(p->mos);
}

static inline void pool_destroy(struct alloc_pool *p)
{
	pool_close_set(p);
	zio_writer_destroy(&p->tp->zp);
	txgs_destroy(p->txgs);
	for (unsigned i = 0; i < TP_TOPS; i++)
		free(p->freed[i]);
	free(p->block);
	tp_destroy(p->tp);
	pthread_mutex_destroy(&p->lock);
}

/* As after an export and import: all that is known comes from the devices. */
static inline void pool_reopen(struct alloc_pool *p)
{
	struct bp root = p->mos->rootbp;
	struct err e = ERR_INIT;

	pool_close_set(p);
	arc_flush_pool(p->tp->dp.arc, p->tp->zp.guid);
	if (objset_open(&p->tp->dp, 0, &root, NULL, &p->mos, &e))
		fail_msg("%s", e.text);
	objset_set_writable(p->mos, &pool_ops, p);
	p->mos->props = pool_props;
	pool_open_alloc(p);
	p->strict = false; /* nothing rests after an import */
}

/* --- blocks of the table --- */

static inline void pool_check_rested(struct alloc_pool *p, const struct dva *d)
{
	for (uint64_t s = 0; s < d->asize >> POOL_ASHIFT; s++) {
		uint64_t freed = p->freed[d->vdev][(d->offset >> POOL_ASHIFT) + s];

		if (freed && freed + (p->strict ? 2 : 0) > p->synced)
			fail_msg("handed out in group %llu, freed in %llu, synced %llu", (unsigned long long)p->txg,
				 (unsigned long long)freed, (unsigned long long)p->synced);
	}
}

static inline int pool_alloc(struct alloc_pool *p, uint64_t size, unsigned copies, uint64_t txg, unsigned flags)
{
	struct dva dva[BP_DVAS];
	int err = p->tp->zp.alloc->alloc(p->a, ZIO_CLASS_NORMAL, size, copies, txg, flags, NULL, dva);

	for (unsigned i = 0; err == 0 && i < copies; i++) {
		pool_check_rested(p, &dva[i]);
		if (p->nblocks == p->room) {
			p->room = MAX(2 * p->room, 1024);
			p->block = xrealloc(p->block, p->room * sizeof(*p->block));
		}
		p->block[p->nblocks++] = (struct block){dva[i], txg};
	}
	return err;
}

static inline void pool_free_block(struct alloc_pool *p, size_t i, uint64_t txg)
{
	struct block b = p->block[i];

	p->tp->zp.alloc->free(p->a, &b.dva, txg, b.birth);
	pool_mark_freed(p, &b.dva, txg);
	p->block[i] = p->block[--p->nblocks];
}

/* --- the check --- */

struct sectors {
	struct alloc_pool *p;
	uint8_t *in_use[TP_TOPS];
};

static inline void sectors_mark(struct sectors *s, const struct dva *d, const char *what)
{
	uint64_t asize = d->gang ? UINT64_C(1) << POOL_ASHIFT : d->asize;

	for (uint64_t i = d->offset >> POOL_ASHIFT; i < (d->offset + asize) >> POOL_ASHIFT; i++)
		if (s->in_use[d->vdev][i]++)
			fail_msg("%s: sector %llu of device %llu has two users", what, (unsigned long long)i,
				 (unsigned long long)d->vdev);
}

static inline int mark_bp(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	for (unsigned i = 0; !bp_is_embedded(bp) && !bp_is_hole(bp) && i < bp_ndvas(bp); i++) {
		struct dva d = bp_dva(bp, i);

		sectors_mark(t->arg, &d, "a block of the MOS");
	}
	return 0;
}

static inline void mark_error(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	fail_msg("object %llu: %s", (unsigned long long)zb->object, err_words(err));
}

/* Blocks of groups up to `synced`. What the checkpoint keeps is in the maps, but in no block: `kept` sectors. */
static inline void pool_check(struct alloc_pool *p, uint64_t kept)
{
	struct sectors s = {.p = p};
	struct traverse t = {.visit = mark_bp, .error = mark_error, .arg = &s};
	struct spacemap_pool sm;
	struct objset *mos;
	struct err e = ERR_INIT;
	uint64_t log = 0, extra = 0, sum[TP_TOPS] = {0};

	for (unsigned i = 0; i < TP_TOPS; i++)
		s.in_use[i] = xcalloc(POOL_SECTORS(p), 1);
	for (size_t i = 0; i < p->nblocks; i++)
		if (p->block[i].birth <= p->synced)
			sectors_mark(&s, &p->block[i].dva, "a data block");
	if (objset_open(&p->tp->dp, 0, &p->mos->rootbp, NULL, &mos, &e))
		fail_msg("%s", e.text);
	assert_int_equal(traverse_objset(mos, &t), 0);
	zap_lookup_u64(mos, DIRECTORY, "com.delphix:log_spacemap_zap", &log);
	if (spacemap_load_pool(mos, p->tp->root, log, &sm, &e))
		fail_msg("%s", e.text);
	for (size_t m = 0; m < sm.n; m++) {
		const struct metaslab_info *ms = &sm.ms[m];

		for (struct range *r = rangetree_first(&ms->allocated); r; r = rangetree_next(r))
			for (uint64_t i = r->start >> POOL_ASHIFT; i < r->end >> POOL_ASHIFT; i++) {
				extra += s.in_use[ms->vdev][i] == 0;
				s.in_use[ms->vdev][i] = 2;
			}
		sum[ms->vdev] += ms->allocated.space;
	}
	for (unsigned v = 0; v < TP_TOPS; v++)
		for (uint64_t i = 0; i < POOL_SECTORS(p); i++)
			if (s.in_use[v][i] == 1)
				fail_msg("sector %llu of device %u is in use and free in its map",
					 (unsigned long long)i, v);
	assert_int_equal(extra, kept);
	for (unsigned v = 0; v < TP_TOPS; v++) {
		struct alloc_space sp;

		alloc_top_space(p->a, p->tp->root->child[v], &sp);
		assert_int_equal(sp.allocated, sum[v]);
		free(s.in_use[v]);
	}
	spacemap_free_pool(&sm);
	objset_release(mos);
}

#endif
