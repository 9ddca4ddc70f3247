/*
 * Export and destruction (docs/format/01-pool.md, 8.6).
 */
#include "spa/search.h"
#include "spa/spa_write.h"

#define LAST_GROUPS 2 /* in which what rested comes back */

static int busy_check(struct spa *spa, const char *what, struct err *e)
{
	unsigned holds = atomic_load(&spa->holds);

	if (holds)
		return err_set(e, -EBUSY, "cannot %s '%s': pool is busy (%u mounts, exports or clients)", what,
			       spa->name, holds);
	return 0;
}

/* Everything that is open, then the labels with the new state. */
static int state_write(struct spa *spa, enum pool_state state)
{
	struct spa_writer *w = spa_writer(spa);
	int err = txg_wait_synced(w->txgs, 0);

	atomic_store(&w->pool_state, state);
	atomic_store(&w->flush_metaslabs, state == POOL_STATE_EXPORTED);
	spa_config_dirty(spa);
	for (unsigned i = 0; i < LAST_GROUPS && !err; i++)
		err = txg_wait_synced(w->txgs, 0);
	atomic_store(&w->flush_metaslabs, false);
	return err;
}

static int writer_close(struct spa *spa, const char *what, enum pool_state state, struct err *e)
{
	if (spa_is_lost(spa)) {
		spa_background_stop(spa);
		return 0;
	}
	if (spa_is_suspended(spa)) {
		err_set(e, -EAGAIN, "cannot %s '%s': pool I/O is currently suspended", what, spa->name);
		err_hint(e, "'zpool clear' has what failed tried again; 'zpool export -f' gives the pool up.");
		return -EAGAIN;
	}
	spa_background_stop(spa);
	if (state_write(spa, state) && !spa_is_lost(spa))
		return err_set(e, -EIO, "cannot %s '%s': the pool cannot be written", what, spa->name);
	spa_cachefile_remove(spa);
	spa_event_post(
	    spa, state == POOL_STATE_DESTROYED ? "sysevent.fs.zfs.pool_destroy" : "sysevent.fs.zfs.pool_export", NULL);
	return 0;
}

static int close_with(struct spa *spa, const char *what, enum pool_state state, struct err *e)
{
	int err = busy_check(spa, what, e);

	if (!err && spa_writer(spa))
		err = writer_close(spa, what, state, e);
	if (!err)
		spa_drop(spa);
	return err;
}

int spa_export(struct spa *spa, struct err *e)
{
	return close_with(spa, "export", POOL_STATE_EXPORTED, e);
}

int spa_destroy_pool(struct spa *spa, struct err *e)
{
	if (!spa_writer(spa))
		return err_set(e, -EROFS, "cannot destroy '%s': pool is read-only", spa->name);
	return close_with(spa, "destroy", POOL_STATE_DESTROYED, e);
}
