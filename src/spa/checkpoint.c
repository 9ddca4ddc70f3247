/*
 * The checkpoint of a pool (docs/format/06-allocation-and-vdevs.md, 4.9): taken by an early task, before anything of
 * its group is written or freed; discarded over as many groups as it takes.
 */
#include "base/bytes.h"
#include "spa/spa_write.h"

#define CHECKPOINT_KEY     "com.delphix:zpool_checkpoint"
#define CHECKPOINT_FEATURE "com.delphix:zpool_checkpoint"
#define SEGMENT_BYTES      32 /* of memory that one freed extent takes */

static TUNABLE(tunable_discard_memory_limit, "zfs_spa_discard_memory_limit", "bytes", 16u << 20, 1u << 20, 1u << 30,
	       "memory for the extents of a checkpoint that one group gives back");

bool spa_has_checkpoint(struct spa *spa)
{
	struct uberblock ub;

	return spa_checkpoint_read(spa->mos, &ub) != -ENOENT;
}

/* --- taking --- */
static int take_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	if (!spa_feature_is_enabled(spa, CHECKPOINT_FEATURE))
		return err_set(e, -ENOTSUP, "the feature zpool_checkpoint is not enabled");
	if (spa_has_checkpoint(spa))
		return err_set(e, -EEXIST, "the pool has a checkpoint already");
	if (spa_feature_is_active(spa, CHECKPOINT_FEATURE))
		return err_set(e, -EBUSY, "the pool's last checkpoint is still being discarded");
	return 0;
}

static void take_sync(struct spa *spa, void *arg, struct tx *tx)
{
	uint64_t words[CHECKPOINT_WORDS] = {0};
	size_t n;
	struct uberblock ub = spa->uberblock; /* the sync thread's own */
	autofree char *text = xasprintf("checkpointed uberblock txg=%" PRIu64, ub.txg);
	int err;

	ub.checkpoint_txg = ub.txg;
	uberblock_encode(&ub, (uint8_t *)words, sizeof(words));
	/* Releases before 2.3 have no word for a raidz expansion, and refuse a longer entry. */
	n = ub.raidz_reflow_info ? CHECKPOINT_WORDS : CHECKPOINT_WORDS - 1;
	err = zap_add(spa->mos, MOS_DIRECTORY, CHECKPOINT_KEY, 8, n, words, tx);
	if (err)
		spa_sync_failed(spa, "storing the checkpoint: %s", err_words(err));
	spa_feature_count(spa, CHECKPOINT_FEATURE, 1, tx);
	alloc_checkpoint_take(spa_writer(spa)->alloc, ub.txg, tx);
	spa_history_internal(spa, "spa checkpoint", NULL, tx, text);
}

int spa_checkpoint(struct spa *spa, struct err *e)
{
	struct spa_task task = {
	    .spa = spa, .check = take_check, .sync = take_sync, .policy = DSL_SPACE_NORMAL, .early = true};
	int err = spa_writable_check(spa, e);

	if (!err)
		err = txg_wait_synced(spa_writer(spa)->txgs, 0); /* what was done so far is in it */
	return err ? err : spa_task_run(&task, e);
}

/* --- discarding --- */
static int discard_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	if (spa_has_checkpoint(spa))
		return 0;
	if (spa_feature_is_active(spa, CHECKPOINT_FEATURE))
		return err_set(e, -EBUSY, "the pool's checkpoint is being discarded already");
	return err_set(e, -ENOENT, "the pool has no checkpoint");
}

void spa_checkpoint_sync(struct spa *spa, struct tx *tx)
{
	struct spa_writer *w = spa_writer(spa);
	uint64_t limit = tunable_get(&tunable_discard_memory_limit) / SEGMENT_BYTES;
	bool done = false;
	int err;

	if (!w->discarding)
		return;
	err = alloc_checkpoint_discard(w->alloc, limit, &done, tx);
	if (err)
		spa_sync_failed(spa, "discarding the checkpoint: %s", err_words(err));
	if (!done)
		return;
	w->discarding = false;
	spa_feature_count(spa, CHECKPOINT_FEATURE, -1, tx);
	spa_history_internal(spa, "spa discard checkpoint", NULL, tx,
			     "finished discarding checkpointed state from the pool");
}

static void discard_sync(struct spa *spa, void *arg, struct tx *tx)
{
	int err = zap_remove(spa->mos, MOS_DIRECTORY, CHECKPOINT_KEY, tx);

	if (err)
		spa_sync_failed(spa, "removing the checkpoint: %s", err_words(err));
	spa_writer(spa)->discarding = true;
	spa_history_internal(spa, "spa discard checkpoint", NULL, tx,
			     "started discarding checkpointed state from the pool");
	spa_checkpoint_sync(spa, tx); /* now, so that nothing that this group frees is kept any more */
}

int spa_checkpoint_discard(struct spa *spa, struct err *e)
{
	struct spa_task task = {
	    .spa = spa, .check = discard_check, .sync = discard_sync, .policy = DSL_SPACE_NONE, .early = true};

	return spa_task_run(&task, e);
}

void spa_checkpoint_look(struct spa *spa)
{
	spa_writer(spa)->discarding = spa_feature_is_active(spa, CHECKPOINT_FEATURE) && !spa_has_checkpoint(spa);
}
