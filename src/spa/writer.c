/*
 * What a pool that is open for writing has beyond one that is read: made and ended, and what the floors below ask of
 * it.
 */
#include <unistd.h>

#include "spa/pool_props.h"
#include "spa/spa_write.h"
#include "zil/zil.h"

#define COMMIT_THREADS 4

/* --- asked by the data sets --- */
static void ops_feature_count(void *arg, const char *guid, int64_t delta, struct tx *tx)
{
	spa_feature_count(arg, guid, delta, tx);
}

static bool ops_feature_enabled(void *arg, const char *guid)
{
	return spa_feature_is_enabled(arg, guid);
}

static uint64_t ops_feature_refs(void *arg, const char *guid)
{
	return spa_feature_refs(arg, guid);
}

static void ops_history(void *arg, const char *name, const struct dsl_dataset *ds, struct tx *tx, const char *text)
{
	spa_history_internal(arg, name, ds, tx, text);
}

static uint64_t ops_usable(void *arg, enum dsl_space_policy policy)
{
	static const unsigned shift[] = {[DSL_SPACE_NORMAL] = 0, [DSL_SPACE_RESERVED] = 1, [DSL_SPACE_EXTRA] = 2};
	struct spa_writer *w = spa_writer(arg);
	uint64_t whole = atomic_load(&w->space_whole), slop = atomic_load(&w->space_slop);

	slop = policy == DSL_SPACE_NONE ? 0 : slop >> shift[policy];
	return whole > slop ? whole - slop : 0;
}

static uint64_t ops_deferred(void *arg)
{
	return alloc_deferred(spa_writer(arg)->alloc);
}

static void ops_free(void *arg, const struct bp *bp, struct tx *tx)
{
	spa_free(arg, bp, tx);
}

static void ops_event(void *arg, const char *class, const struct nvlist *payload)
{
	spa_event_post(arg, class, payload);
}

static const struct dsl_write_ops write_ops = {
    .feature_count = ops_feature_count,
    .feature_enabled = ops_feature_enabled,
    .feature_refs = ops_feature_refs,
    .history = ops_history,
    .usable = ops_usable,
    .deferred = ops_deferred,
    .free = ops_free,
    .event = ops_event,
    .log_sync = zil_sync,
    .log_sync_done = zil_sync_done,
    .log_discard = zil_discard,
};

int spa_dsl_set_writable(struct spa *spa)
{
	return dsl_pool_set_writable(spa->dsl, &write_ops, spa);
}

/* --- asked by the allocator --- */
static void alloc_activate(void *arg, const char *feature, int64_t delta, struct tx *tx)
{
	spa_feature_count(arg, feature, delta, tx);
}

static void alloc_config_dirty(void *arg, struct vdev *top, struct tx *tx)
{
	spa_config_dirty(arg);
}

int spa_alloc_open(struct spa *spa, uint64_t checkpoint_txg, struct err *e)
{
	struct spa_writer *w = spa_writer(spa);
	const struct alloc_args args = {
	    .mos = spa->mos,
	    .root = spa->root,
	    .zp = &spa->zp,
	    .directory = MOS_DIRECTORY,
	    .checkpoint_txg = checkpoint_txg,
	    .features = {.histogram = spa_feature_is_enabled(spa, "com.delphix:spacemap_histogram"),
			 .spacemap_v2 = spa_feature_is_active(spa, "com.delphix:spacemap_v2"),
			 .log_spacemap = spa_feature_is_enabled(spa, "com.delphix:log_spacemap"),
			 .obsolete_counts = spa_feature_is_enabled(spa, "com.delphix:obsolete_counts")},
	    .activate = alloc_activate,
	    .config_dirty = alloc_config_dirty,
	    .arg = spa,
	};

	return alloc_open(&args, &w->alloc, e);
}

/* --- life --- */
void spa_writer_create(struct spa *spa, const char *stored_name, uint64_t open_txg)
{
	struct spa_writer *w = xcalloc(1, sizeof(*w));

	str_copy(w->stored_name, sizeof(w->stored_name), stored_name);
	pthread_mutex_init(&w->suspend_lock, NULL);
	pthread_mutex_init(&w->reopen_lock, NULL);
	pthread_mutex_init(&w->works_lock, NULL);
	pthread_mutex_init(&w->mmp_lock, NULL);
	pthread_cond_init(&w->works_cond, NULL);
	list_init(&w->works);
	pthread_cond_init(&w->suspend_cond, NULL);
	list_init(&w->history);
	w->commit_tq = taskq_create("commit", COMMIT_THREADS);
	w->txgs = txgs_create(open_txg, spa_sync, spa);
	spa_priv(spa)->writer = w;
	spa->zp.on_write_failure = spa_write_failed;
	spa->zp.max_txg = UINT64_MAX; /* of blocks of this session nobody asks when they were born */
	zio_writer_create(&spa->zp);
	spa->dp.txgs = w->txgs;
}

void spa_groups_start(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	w->started = true;
	txgs_start(w->txgs);
}

/* What will never be on the devices. */
static void changes_drop(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	txgs_abandon(w->txgs);
	while (txg_syncing(w->txgs)) /* until the sync thread has let go of everything */
		usleep(1000);
	if (spa->dsl)
		dsl_pool_abandon(spa->dsl, NULL);
	if (spa->mos)
		objset_abandon(spa->mos);
}

void spa_writer_stop(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	if (!w || !w->txgs)
		return;
	if (!w->started || spa_is_lost(spa))
		changes_drop(spa);
	txgs_destroy(w->txgs);
	w->txgs = spa->dp.txgs = NULL;
	if (w->alloc)
		alloc_close(w->alloc);
	w->alloc = NULL;
}

void spa_writer_destroy(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	if (!w)
		return;
	zio_writer_destroy(&spa->zp);
	taskq_destroy(w->commit_tq);
	spa_history_drop(spa);
	for (size_t i = 0; i < w->nretired; i++)
		strmap_destroy(w->retired[i]);
	free(w->retired);
	pthread_mutex_destroy(&w->suspend_lock);
	spa_works_free(spa);
	pthread_mutex_destroy(&w->reopen_lock);
	pthread_mutex_destroy(&w->works_lock);
	pthread_mutex_destroy(&w->mmp_lock);
	pthread_cond_destroy(&w->works_cond);
	pthread_cond_destroy(&w->suspend_cond);
	free(w);
	spa_priv(spa)->writer = NULL;
}

bool spa_is_writable(const struct spa *spa)
{
	return spa_writer(spa) != NULL;
}

int spa_writable_check(struct spa *spa, struct err *e)
{
	if (!spa_writer(spa))
		return err_set(e, -EROFS, "pool is read-only");
	if (spa_is_suspended(spa))
		return err_set(e, -EAGAIN, "pool I/O is currently suspended");
	return 0;
}

void spa_sync_now(struct spa *spa)
{
	if (spa_writer(spa))
		txg_wait_synced(spa_writer(spa)->txgs, 0);
}

/* --- the data sets' lock, for what is spa's own --- */
static void task_sync(void *arg, struct tx *tx)
{
	const struct spa_task *t = arg;

	t->sync(t->spa, t->arg, tx);
}

static int task_check(void *arg, struct tx *tx, struct err *e)
{
	const struct spa_task *t = arg;

	return t->check ? t->check(t->spa, t->arg, tx, e) : 0;
}

int spa_task_run(struct spa_task *t, struct err *e)
{
	const struct dsl_task task = {.check = task_check,
				      .sync = task_sync,
				      .arg = t,
				      .blocks = t->blocks,
				      .policy = t->policy,
				      .early = t->early};
	int err = spa_writable_check(t->spa, e);

	return err ? err : dsl_task_run(t->spa->dsl, &task, e);
}
