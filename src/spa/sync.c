/*
 * Writing one transaction group (docs/format/01-pool.md, 8.2): passes, until one leaves the MOS clean, then the commit.
 *
 * A group in which nothing changed leaves no trace, except with multihost on. Blocks that were written in an earlier
 * pass of the same group are overwritten in place by the dmu, so that describing the space that the description takes
 * comes to an end; blocks are freed at once in every pass, and nothing is put on `sync_bplist`, which other software
 * may have left filled.
 */
#include <stdarg.h>

#include "base/log.h"
#include "dmu/bpobj.h"
#include "dsl/dsl_deadlist.h"
#include "spa/spa_write.h"

/* --- failures that must not be --- */
void spa_sync_failed(struct spa *spa, const char *fmt, ...)
{
	struct spa_writer *w = spa_writer(spa);
	char text[sizeof(w->failed)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_error("pool '%s': %s", spa->name, text);
	SCOPED_LOCK(&w->suspend_lock);
	if (!w->failed[0])
		memcpy(w->failed, text, sizeof(text));
}

static bool has_failed(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);
	SCOPED_LOCK(&w->suspend_lock);

	return w->failed[0] || w->lost;
}

/* --- the MOS's place in the books --- */
static void mos_account(struct spa *spa, const struct bp *bp, int sign, uint64_t *dsize)
{
	uint64_t psize = bp_is_embedded(bp) ? 0 : bp_psize(bp);
	bool metadata = bp_level(bp) > 0 || bp_is_metadata(bp);
	uint64_t lsize = metadata ? psize : bp_lsize(bp);

	*dsize = dsl_bp_dsize(spa->dsl, bp);
	dsl_pool_mos_space(spa->dsl, sign * (int64_t)*dsize, sign * (int64_t)psize, sign * (int64_t)lsize);
}

static uint64_t mos_born(struct objset *os, const struct bp *bp, struct tx *tx)
{
	struct spa *spa = os->ops_arg;
	uint64_t dsize = 0;

	if (!bp_is_hole(bp))
		mos_account(spa, bp, 1, &dsize);
	return dsize;
}

static uint64_t mos_kill(struct objset *os, const struct bp *bp, struct tx *tx)
{
	struct spa *spa = os->ops_arg;
	uint64_t dsize = 0;

	if (bp_is_hole(bp))
		return 0;
	mos_account(spa, bp, -1, &dsize);
	spa_free(spa, bp, tx);
	return dsize;
}

const struct objset_ops spa_mos_ops = {.born = mos_born, .kill = mos_kill};

void spa_mos_props_set(struct spa *spa)
{
	struct objset_props *p = spa->mos ? &spa->mos->props : NULL;

	if (!p)
		return;
	p->checksum = CHECKSUM_FLETCHER_4;
	p->compress = spa_feature_is_active(spa, "org.illumos:lz4_compress") ? COMPRESS_LZ4 : COMPRESS_LZJB;
	p->copies = BP_DVAS;
}

void spa_free(struct spa *spa, const struct bp *bp, struct tx *tx)
{
	int err = zio_free(&spa->zp, bp, tx->txg);

	/* Its space is lost, nothing else: the header of a gang block that cannot be read. */
	if (err)
		log_warn("pool '%s': a block cannot be freed: %s", spa->name, err_words(err));
}

/* --- frees that were put off --- */
static int deferred_free(void *arg, const struct bp *bp, bool freed, struct tx *tx)
{
	spa_free(arg, bp, tx);
	return 0;
}

static uint64_t deferred_size(void *arg, const struct bp *bp)
{
	struct spa *spa = arg;

	return dsl_bp_dsize(spa->dsl, bp);
}

static void deferred_frees_do(struct spa *spa, struct tx *tx)
{
	const struct bpobj_consumer c = {deferred_free, deferred_size, spa};
	struct spa_writer *w = spa_writer(spa);
	struct bpobj *b;
	int err;

	if (!w->has_deferred)
		return;
	err = bpobj_open(spa->mos, w->sync_bplist, &b);
	if (!err) {
		err = bpobj_consume(b, &c, tx);
		bpobj_close(b);
	}
	if (err)
		spa_sync_failed(spa, "freeing what was put off: %s", err_words(err));
	w->has_deferred = false;
}

/* --- passes --- */
static void spa_pending_sync(struct spa *spa, struct tx *tx)
{
	spa_errlog_sync(spa, tx);
	spa_works_sync(spa, tx);
	spa_checkpoint_sync(spa, tx);
}

static void pass_once(struct spa *spa, struct tx *tx)
{
	struct spa_writer *w = spa_writer(spa);
	int err;

	if (w->new_tops_txg && tx->txg >= w->new_tops_txg) {
		w->new_tops_txg = 0;
		spa_new_tops_take(spa);
	}
	spa_config_sync(spa, tx);
	spa_history_sync(spa, tx);
	if (tx->pass == 1)
		spa_pending_sync(spa, tx);
	err = dsl_pool_sync(spa->dsl, tx);
	if (err)
		spa_sync_failed(spa, "changing data sets: %s", err_words(err));
	if (tx->pass == 1) {
		deferred_frees_do(spa, tx);
		w->more_to_free = dsl_pool_free_some(spa->dsl, tx);
	}
	if (has_failed(spa))
		return;
	spa_config_sync(spa, tx); /* what tasks of this pass made dirty */
	spa_dtl_sync(spa, tx);
	err = objset_sync(spa->mos, tx);
	if (!err)
		err = alloc_sync(w->alloc, tx, atomic_load(&w->flush_metaslabs));
	if (err)
		spa_sync_failed(spa, "writing the pool's metadata: %s", err_words(err));
}

static bool pass_is_needed(struct spa *spa, uint64_t txg)
{
	struct spa_writer *w = spa_writer(spa);

	return atomic_load(&w->config_dirty) || atomic_load(&w->dtl_dirty) || spa_history_is_pending(spa) ||
	       objset_is_dirty(spa->mos, txg) || !alloc_is_clean(w->alloc, txg) || dsl_pool_needs_pass(spa->dsl, txg);
}

/* Data sets count as dirty for the whole group. */
static bool group_is_dirty(struct spa *spa, uint64_t txg)
{
	return pass_is_needed(spa, txg) || dsl_pool_is_dirty(spa->dsl, txg) || spa_errlog_is_pending(spa) ||
	       spa_works_are_pending(spa);
}

/* What makes a group worth writing although nobody changed anything. */
static bool group_is_wanted(struct spa *spa, uint64_t txg)
{
	struct spa_writer *w = spa_writer(spa);

	return w->more_to_free || (w->new_tops_txg && txg >= w->new_tops_txg) || w->has_deferred || w->discarding ||
	       atomic_load(&w->multihost) || atomic_load(&w->flush_metaslabs);
}

static void group_done(struct spa *spa, uint64_t txg)
{
	struct spa_writer *w = spa_writer(spa);

	alloc_sync_done(w->alloc, txg);
	spa_new_tops_use(spa);
	objset_sync_done(spa->mos, txg);
	dsl_pool_sync_done(spa->dsl, txg);
	spa_space_update(spa);
	if (w->more_to_free || w->discarding)
		txg_kick(w->txgs);
}

/* A group that had something to look at, and changed nothing: the uberblock there is says it all. */
static bool leaves_trace(const struct spa *spa)
{
	const struct spa_writer *w = spa_writer(spa);

	return w->labels_due || atomic_load(&w->multihost) ||
	       memcmp(spa->uberblock.rootbp, &spa->mos->rootbp, sizeof(spa->uberblock.rootbp)) != 0;
}

void spa_sync(void *arg, uint64_t txg)
{
	struct spa *spa = arg;
	struct spa_writer *w = spa_writer(spa);
	struct tx tx = {.txgs = w->txgs, .txg = txg, .syncing = true, .os = spa->mos};

	if (has_failed(spa)) {
		spa_lost_wait(spa);
		return;
	}
	w->labels_due = false;
	if (!group_is_dirty(spa, txg) && !group_is_wanted(spa, txg)) {
		group_done(spa, txg);
		return;
	}
	do {
		tx.pass++;
		BUG_ON(tx.pass > PASSES_MAX);
		pass_once(spa, &tx);
	} while (!has_failed(spa) && pass_is_needed(spa, txg));
	if (has_failed(spa) || (leaves_trace(spa) && spa_commit(spa, txg))) {
		spa_lost_wait(spa);
		return;
	}
	group_done(spa, txg);
}
