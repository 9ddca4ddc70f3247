/*
 * Blocks that could not be read go to the persistent log (docs/format/01-pool.md 5.6; 03-datasets.md 6.8) with the
 * next group. No scrub runs while this software writes: all of them go to `errlog_last`.
 */
#include "spa/spa_write.h"

#define HEAD_ERRLOG "com.delphix:head_errlog"

static int log_object(struct spa *spa, struct tx *tx, uint64_t *object)
{
	int err = spa_mos_u64(spa->mos, "errlog_last", object);
	const struct zap_spec spec = {.type = DMU_OT_ERROR_LOG};

	if (err == 0 && *object)
		return 0;
	if (err && err != -ENOENT)
		return err;
	err = zap_create(spa->mos, &spec, tx, object);
	return err ? err : zap_update_u64(spa->mos, MOS_DIRECTORY, "errlog_last", *object, tx);
}

/* The head of the data set that a block was read in: its log has the block. */
static uint64_t head_of(struct spa *spa, uint64_t objset)
{
	struct dsl_dataset *ds;
	uint64_t head = objset;

	if (objset == 0 || dsl_dataset_hold_obj(spa->dsl, objset, &ds, NULL))
		return head;
	if (ds->dir && ds->dir->head)
		head = ds->dir->head;
	dsl_dataset_release(ds);
	return head;
}

static int head_log(struct spa *spa, uint64_t log, uint64_t head, struct tx *tx, uint64_t *object)
{
	const struct zap_spec spec = {.type = DMU_OT_ERROR_LOG};
	int err = zap_lookup_int(spa->mos, log, head, object);

	if (err != -ENOENT)
		return err;
	err = zap_create(spa->mos, &spec, tx, object);
	return err ? err : zap_add_int(spa->mos, log, head, *object, tx);
}

static int one_write(struct spa *spa, uint64_t log, const struct spa_error *x, struct tx *tx)
{
	const struct zbookmark *zb = &x->zb;
	char key[96];
	uint64_t object = log;
	int err = 0;

	if (spa_feature_is_active(spa, HEAD_ERRLOG)) {
		err = head_log(spa, log, head_of(spa, zb->objset), tx, &object);
		snprintf(key, sizeof(key), "%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64, zb->object,
			 (uint64_t)zb->level, zb->blkid, x->birth);
	} else {
		snprintf(key, sizeof(key), "%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64, zb->objset, zb->object,
			 (uint64_t)zb->level, zb->blkid);
	}
	return err ? err : zap_update(spa->mos, object, key, 1, 1, "", tx);
}

bool spa_errlog_is_pending(struct spa *spa)
{
	SCOPED_LOCK(&spa->error_lock);

	return spa->nerrors > 0;
}

void spa_errlog_sync(struct spa *spa, struct tx *tx)
{
	struct spa_error *pending;
	uint64_t log;
	size_t n;
	int err = 0;

	pthread_mutex_lock(&spa->error_lock);
	pending = spa->errors;
	n = spa->nerrors;
	spa->errors = NULL;
	spa->nerrors = 0;
	pthread_mutex_unlock(&spa->error_lock);
	if (n)
		err = log_object(spa, tx, &log);
	for (size_t i = 0; i < n && !err; i++)
		err = one_write(spa, log, &pending[i], tx);
	free(pending);
	if (err)
		spa_sync_failed(spa, "storing the log of errors: %s", err_words(err));
}
