/*
 * Pools that cannot be written (docs/format/01-pool.md, 7: failmode): what failed is kept, transactions wait or fail,
 * the sync thread waits, and everything that is only read goes on; until `zpool clear` has it tried again, or the pool
 * is dropped.
 */
#include <unistd.h>

#include "base/log.h"
#include "spa/spa_write.h"

/* "panic" ends the program at once: that is what the administrator asked for, so that another node takes over. */
static void failmode_panic(const struct spa *spa, const char *why)
{
	log_error("pool '%s' cannot be written (%s), and its failmode is panic", spa->name, why);
	abort();
}

static void suspend_locked(struct spa *spa, const char *why)
{
	struct spa_writer *w = spa_writer(spa);
	unsigned mode = atomic_load(&w->failmode);

	if (w->suspended)
		return;
	if (mode == FAILMODE_PANIC)
		failmode_panic(spa, why);
	w->suspended = true;
	log_error("pool '%s' is suspended: %s; see 'zpool status', 'zpool clear'", spa->name, why);
	spa_event_post(spa, "ereport.fs.zfs.io_failure", NULL);
	if (w->txgs)
		txgs_set_mode(w->txgs, mode == FAILMODE_CONTINUE ? TXGS_FAIL : TXGS_WAIT);
}

void spa_suspend(struct spa *spa, const char *why, bool by_multihost)
{
	struct spa_writer *w = spa_writer(spa);
	SCOPED_LOCK(&w->suspend_lock);

	if (w->no_suspend || w->lost || w->suspended)
		return;
	suspend_locked(spa, why);
	w->by_multihost = by_multihost;
}

static bool has_failed_top(const struct spa *spa)
{
	for (unsigned i = 0; i < spa->root->nchildren; i++)
		if (vdev_is_concrete(spa->root->child[i]) && !vdev_is_writable(spa->root->child[i]))
			return true;
	return false;
}

bool spa_write_failed(struct zio_pool *zp, const struct zbookmark *zb, int err)
{
	struct spa *spa = container_of(zp, struct spa, zp);
	struct spa_writer *w = spa_writer(spa);
	char why[96];
	SCOPED_LOCK(&w->suspend_lock);

	if (w->no_suspend || w->lost)
		return false;
	if (!zio_is_suspended(zp)) /* a resumption came between: it is being tried again already */
		return true;
	/* Space is asked of devices that can be written: there is none, too, when they cannot. */
	snprintf(why, sizeof(why), "a block cannot be written: %s",
		 err == -ENOSPC && has_failed_top(spa) ? "no device takes it" : err_words(err));
	suspend_locked(spa, why);
	return true;
}

int spa_suspend_wait(struct spa *spa, const char *why)
{
	struct spa_writer *w = spa_writer(spa);
	SCOPED_LOCK(&w->suspend_lock);

	if (w->no_suspend)
		return -EIO;
	if (!w->lost)
		suspend_locked(spa, why);
	while (w->suspended && !w->lost)
		pthread_cond_wait(&w->suspend_cond, &w->suspend_lock);
	return w->lost ? -EIO : 0;
}

void spa_lost_wait(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);
	SCOPED_LOCK(&w->suspend_lock);

	if (w->no_suspend && !w->lost) { /* nobody has the pool yet: it ends here */
		w->lost = true;
		txgs_abandon(w->txgs);
	}
	if (!w->lost)
		suspend_locked(spa, w->failed[0] ? w->failed : "its metadata cannot be written");
	while (!w->lost)
		pthread_cond_wait(&w->suspend_cond, &w->suspend_lock);
}

bool spa_is_lost(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);
	SCOPED_LOCK(&w->suspend_lock);

	return w->lost;
}

bool spa_is_suspended(const struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	if (!w)
		return false;
	SCOPED_LOCK(&w->suspend_lock);
	return w->suspended;
}

const char *spa_state(const struct spa *spa)
{
	return spa_is_suspended(spa) ? "SUSPENDED" : spa_state_of_root(spa->root);
}

const char *spa_suspended_reason(const struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	if (!w)
		return NULL;
	SCOPED_LOCK(&w->suspend_lock);
	if (!w->suspended)
		return NULL;
	if (w->failed[0])
		return "metadata-failure";
	if (w->by_multihost)
		return "io-failure-mmp";
	return atomic_load(&w->failmode) == FAILMODE_CONTINUE ? "io-failure-continue" : "io-failure-wait";
}

void spa_abandon(struct spa *spa, char **lost)
{
	struct spa_writer *w = spa_writer(spa);
	struct str names = {0};

	*lost = NULL;
	if (!w)
		return;
	pthread_mutex_lock(&w->suspend_lock);
	w->lost = true;
	txgs_abandon(w->txgs);
	pthread_cond_broadcast(&w->suspend_cond);
	pthread_mutex_unlock(&w->suspend_lock);
	zio_abandon(&spa->zp);
	while (txg_syncing(w->txgs)) /* until the sync thread has let go of everything */
		usleep(1000);
	dsl_pool_abandon(spa->dsl, &names);
	*lost = names.s;
	log_error("pool '%s' was given up%s%s", spa->name, names.len ? ", with unwritten changes of " : "",
		  str_get(&names));
}

/* Tried again is what failed: the writes that zio kept, the commit. */
int spa_resume(struct spa *spa, struct err *e)
{
	struct spa_writer *w = spa_writer(spa);

	if (w->by_multihost && !spa_mmp_is_ours(spa))
		return err_set(e, -EREMOTEIO, "another host has used the pool since: export it with -f");
	SCOPED_LOCK(&w->suspend_lock);

	if (w->failed[0])
		return err_set(e, -EIO, "the pool cannot be written any more (%s): export it with -f", w->failed);
	if (!w->suspended || w->lost)
		return 0;
	w->suspended = w->by_multihost = false;
	txgs_set_mode(w->txgs, TXGS_RUN);
	pthread_cond_broadcast(&w->suspend_cond);
	zio_resume(&spa->zp);
	log_info("pool '%s' is resumed", spa->name);
	return 0;
}
