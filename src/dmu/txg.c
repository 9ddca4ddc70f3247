/*
 * The groups of a pool, and the threads that move them on:
 *
 *	txg_quiesce   closes the open group when it is time, waits until its transactions have ended
 *	txg_sync      takes the quiesced group and has it written
 *
 * Closing waits for the sync thread to be idle, so that groups grow as large as the devices allow; only who waits for a
 * group has it closed while another is written.
 */
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/counter.h"
#include "base/os.h"
#include "base/sync.h"
#include "dmu/dmu.h"
#include "dmu/txg_impl.h"

#define NS_PER_SEC UINT64_C(1000000000)

TUNABLE(tunable_txg_timeout, "zfs_txg_timeout", "s", 5, 1, 3600,
	"a transaction group is closed and written after so long, even when little has changed");
TUNABLE(tunable_dirty_data_max, "zfs_dirty_data_max", "bytes", UINT64_C(1) << 30, 16u << 20, UINT64_C(1) << 40,
	"changes that are not written yet, per pool: writers wait at this bound");
TUNABLE(tunable_dirty_data_sync_percent, "zfs_dirty_data_sync_percent", "%", 20, 1, 100,
	"a transaction group is closed when it holds this part of zfs_dirty_data_max");

#define DIRTY_MAX_DEFAULT_LIMIT (UINT64_C(4) << 30)

__attribute__((constructor)) static void dirty_data_max_init(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
	uint64_t tenth;

	if (pages <= 0 || page <= 0)
		return;
	tenth = (uint64_t)pages * (uint64_t)page / 10;
	tunable_dirty_data_max.def = MAX(MIN(tenth, DIRTY_MAX_DEFAULT_LIMIT), tunable_dirty_data_max.min);
	atomic_store(&tunable_dirty_data_max.value, tunable_dirty_data_max.def);
}

/* --- conditions on the monotonic clock --- */

void txg_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

void txg_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC)};

	pthread_cond_timedwait(c, m, &ts);
}

/* --- numbers --- */

uint64_t txg_open(struct txgs *t)
{
	SCOPED_LOCK(&t->lock);
	return t->open;
}

uint64_t txg_syncing(struct txgs *t)
{
	SCOPED_LOCK(&t->lock);
	return t->syncing;
}

uint64_t txg_last_synced(struct txgs *t)
{
	SCOPED_LOCK(&t->lock);
	return t->synced;
}

/* --- moving on --- */

static bool txg_is_due_locked(struct txgs *t)
{
	if (t->stopping || t->wanted >= t->open)
		return true;
	if (t->syncing || t->quiesced)
		return false;
	return t->dirty_open >=
		   tunable_get(&tunable_dirty_data_max) / 100 * tunable_get(&tunable_dirty_data_sync_percent) ||
	       now_ns() >= t->opened_ns + tunable_get(&tunable_txg_timeout) * NS_PER_SEC;
}

/* The open group becomes the quiescing one. */
static uint64_t txg_close_locked(struct txgs *t)
{
	uint64_t txg = t->open++;

	t->quiescing = txg;
	t->opened_ns = now_ns();
	t->dirty_open = 0;
	return txg;
}

static void *txg_quiesce_thread(void *arg)
{
	struct txgs *t = arg;
	uint64_t txg;

	pthread_setname_np(pthread_self(), "txg_quiesce");
	pthread_mutex_lock(&t->lock);
	for (;;) {
		while (!t->abandoned && (t->quiesced || !txg_is_due_locked(t)))
			txg_cond_wait_until(&t->quiesce_cond, &t->lock,
					    MAX(now_ns() + NS_PER_SEC / 10,
						t->opened_ns + tunable_get(&tunable_txg_timeout) * NS_PER_SEC));
		if (t->abandoned || (t->stopping && t->last_stop))
			break;
		t->last_stop = t->stopping;
		txg = txg_close_locked(t);
		while (t->slot[txg & TXG_MASK].holders)
			pthread_cond_wait(&t->quiesce_cond, &t->lock);
		t->quiescing = 0;
		t->quiesced = txg;
		pthread_cond_broadcast(&t->sync_cond);
	}
	t->quiesce_ended = true;
	pthread_cond_broadcast(&t->sync_cond);
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Calls back everybody whose group is on the devices (all of them, when none ever will be). */
static void txg_call_waiters(struct txgs *t)
{
	struct list ready;
	struct list_node *n;
	int err;

	list_init(&ready);
	pthread_mutex_lock(&t->lock);
	err = t->abandoned ? -EIO : 0;
	list_for_each_safe(&t->waiters, at) {
		if (container_of(at, struct txg_wait, node)->txg > t->synced && !err)
			continue;
		list_remove(&t->waiters, at);
		list_append(&ready, at);
	}
	pthread_mutex_unlock(&t->lock);
	while ((n = list_pop(&ready))) {
		struct txg_wait *w = container_of(n, struct txg_wait, node);

		w->done(w, err && w->txg > t->synced ? err : 0);
	}
}

static void txg_sync_one(struct txgs *t, uint64_t txg)
{
	struct txg_slot *slot = &t->slot[txg & TXG_MASK];

	pthread_mutex_lock(&t->lock);
	while (slot->sync_holds && !t->abandoned)
		pthread_cond_wait(&t->sync_cond, &t->lock);
	pthread_mutex_unlock(&t->lock);
	t->sync(t->arg, txg);
	pthread_mutex_lock(&t->lock);
	BUG_ON(slot->dirty && !t->abandoned); /* of an abandoned pool it goes when the sets drop it */
	t->syncing = 0;
	if (!t->abandoned)
		t->synced = txg;
	pthread_cond_broadcast(&t->synced_cond);
	pthread_cond_broadcast(&t->quiesce_cond);
	pthread_mutex_unlock(&t->lock);
	txg_throttle_wake(t);
}

static void *txg_sync_thread(void *arg)
{
	struct txgs *t = arg;
	uint64_t txg;

	pthread_setname_np(pthread_self(), "txg_sync");
	for (;;) {
		pthread_mutex_lock(&t->lock);
		while (!t->quiesced && !t->quiesce_ended && !t->abandoned)
			pthread_cond_wait(&t->sync_cond, &t->lock);
		txg = t->abandoned ? 0 : t->quiesced;
		t->syncing = txg;
		t->quiesced = 0;
		pthread_cond_broadcast(&t->quiesce_cond);
		pthread_mutex_unlock(&t->lock);
		if (!txg)
			break;
		txg_sync_one(t, txg);
		txg_call_waiters(t);
	}
	txg_call_waiters(t);
	return NULL;
}

/* --- life --- */

struct txgs *txgs_create(uint64_t open_txg, void (*sync)(void *arg, uint64_t txg), void *arg)
{
	struct txgs *t = xcalloc(1, sizeof(*t));

	pthread_mutex_init(&t->lock, NULL);
	txg_cond_init(&t->quiesce_cond);
	txg_cond_init(&t->sync_cond);
	txg_cond_init(&t->synced_cond);
	t->open = open_txg;
	t->synced = open_txg - 1;
	t->opened_ns = now_ns();
	t->sync = sync;
	t->arg = arg;
	list_init(&t->waiters);
	txg_throttle_init(t);
	return t;
}

void txgs_start(struct txgs *t)
{
	t->started = true;
	BUG_ON(os_thread_create(&t->quiesce_thread, txg_quiesce_thread, t));
	BUG_ON(os_thread_create(&t->sync_thread, txg_sync_thread, t));
	txg_throttle_start(t);
}

void txgs_destroy(struct txgs *t)
{
	if (!t)
		return;
	txgs_set_mode(t, TXGS_RUN);
	if (t->started) {
		pthread_mutex_lock(&t->lock);
		t->stopping = true;
		pthread_cond_broadcast(&t->quiesce_cond);
		pthread_mutex_unlock(&t->lock);
		pthread_join(t->quiesce_thread, NULL);
		pthread_join(t->sync_thread, NULL);
	}
	txg_throttle_fini(t);
	BUG_ON(t->waiters.len);
	pthread_cond_destroy(&t->quiesce_cond);
	pthread_cond_destroy(&t->sync_cond);
	pthread_cond_destroy(&t->synced_cond);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

void txgs_abandon(struct txgs *t)
{
	pthread_mutex_lock(&t->lock);
	t->abandoned = true;
	pthread_cond_broadcast(&t->quiesce_cond);
	pthread_cond_broadcast(&t->sync_cond);
	pthread_cond_broadcast(&t->synced_cond);
	pthread_mutex_unlock(&t->lock);
	txg_throttle_wake(t);
	if (!t->started)
		txg_call_waiters(t);
}

/* --- waiting for groups --- */

static void txg_want_locked(struct txgs *t, uint64_t txg)
{
	if (txg <= t->wanted)
		return;
	t->wanted = txg;
	pthread_cond_broadcast(&t->quiesce_cond);
}

void txg_kick(struct txgs *t)
{
	SCOPED_LOCK(&t->lock);
	txg_want_locked(t, t->open);
}

int txg_wait_synced(struct txgs *t, uint64_t txg)
{
	SCOPED_LOCK(&t->lock);

	BUG_ON(thread_is_cpu_worker());
	if (txg == 0)
		txg = t->open;
	txg_want_locked(t, MIN(txg, t->open));
	while (t->synced < txg && !t->abandoned)
		pthread_cond_wait(&t->synced_cond, &t->lock);
	return t->synced < txg ? -EIO : 0;
}

void txg_when_synced(struct txgs *t, struct txg_wait *w)
{
	int err = 0;

	pthread_mutex_lock(&t->lock);
	if (w->txg > t->synced && !t->abandoned) {
		list_append(&t->waiters, &w->node);
		pthread_mutex_unlock(&t->lock);
		return;
	}
	if (w->txg > t->synced)
		err = -EIO;
	pthread_mutex_unlock(&t->lock);
	w->done(w, err);
}

void txg_hold_sync(struct txgs *t, uint64_t txg)
{
	SCOPED_LOCK(&t->lock);
	t->slot[txg & TXG_MASK].sync_holds++;
}

void txg_release_sync(struct txgs *t, uint64_t txg)
{
	SCOPED_LOCK(&t->lock);
	BUG_ON(t->slot[txg & TXG_MASK].sync_holds == 0);
	if (--t->slot[txg & TXG_MASK].sync_holds == 0)
		pthread_cond_broadcast(&t->sync_cond);
}

/* --- dirty data --- */

void txg_dirty_add(struct txgs *t, uint64_t txg, uint64_t bytes)
{
	SCOPED_LOCK(&t->lock);
	t->slot[txg & TXG_MASK].dirty += bytes;
	t->dirty += bytes;
	if (txg != t->open)
		return;
	t->dirty_open += bytes;
	if (!t->syncing && !t->quiesced && txg_is_due_locked(t))
		pthread_cond_signal(&t->quiesce_cond);
}

void txg_dirty_done(struct txgs *t, uint64_t txg, uint64_t bytes)
{
	pthread_mutex_lock(&t->lock);
	BUG_ON(t->slot[txg & TXG_MASK].dirty < bytes);
	t->slot[txg & TXG_MASK].dirty -= bytes;
	t->dirty -= bytes;
	pthread_mutex_unlock(&t->lock);
	txg_throttle_wake(t);
}

uint64_t txg_dirty_bytes(struct txgs *t)
{
	SCOPED_LOCK(&t->lock);
	return t->dirty;
}
