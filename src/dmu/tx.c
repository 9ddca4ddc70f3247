/*
 * Transactions: holding the open group, asking for space, the throttle (06, 10.4).
 *
 * A transaction that has to wait gets a time at which it may go on, and a place in the one list; a thread of its own
 * lets them go, in order, each on a cpu worker.
 */
#include "base/counter.h"
#include "base/os.h"
#include "base/sync.h"
#include "dmu/dmu.h"
#include "dmu/txg_impl.h"

#define DELAY_MAX_NS UINT64_C(100000000)
#define GROUPS_MAX   (TXG_DEFER + 4u) /* freed space rests for TXG_DEFER of them */

TUNABLE(tunable_delay_min_dirty_percent, "zfs_delay_min_dirty_percent", "%", 60, 1, 100,
	"from this part of zfs_dirty_data_max on writers are slowed down");
TUNABLE(tunable_delay_scale, "zfs_delay_scale", "ns", 500000, 1, UINT64_C(1000000000),
	"how steeply the delay of writers grows with dirty data: the delay halfway between the two bounds");

/* How long a transaction that comes now has to wait. */
static uint64_t tx_delay_locked(const struct txgs *t)
{
	uint64_t max = tunable_get(&tunable_dirty_data_max);
	uint64_t min = max / 100 * tunable_get(&tunable_delay_min_dirty_percent);
	unsigned __int128 delay;

	if (t->dirty <= min)
		return 0;
	if (t->dirty >= max)
		return DELAY_MAX_NS;
	delay = (unsigned __int128)tunable_get(&tunable_delay_scale) * (t->dirty - min) / (max - t->dirty);
	return delay > DELAY_MAX_NS ? DELAY_MAX_NS : (uint64_t)delay;
}

static bool tx_is_blocked_locked(const struct txgs *t)
{
	return t->mode == TXGS_WAIT || t->dirty >= tunable_get(&tunable_dirty_data_max);
}

static int tx_refusal_locked(const struct txgs *t)
{
	return t->abandoned || t->mode == TXGS_FAIL ? -EIO : 0;
}

static void tx_fail(struct task *task)
{
	struct tx *tx = container_of(task, struct tx, task);

	tx->done(tx, -EIO);
}

static void txg_let_go(struct txgs *t, uint64_t txg)
{
	SCOPED_LOCK(&t->lock);
	BUG_ON(t->slot[txg & TXG_MASK].holders == 0);
	if (--t->slot[txg & TXG_MASK].holders == 0 && txg == t->quiescing)
		pthread_cond_broadcast(&t->quiesce_cond);
}

static void tx_enter(struct txgs *t, struct tx *tx);

static void tx_retry(struct task *task)
{
	struct tx *tx = container_of(task, struct tx, task);

	tx_enter(tx->txgs, tx);
}

/* On the sync thread: asked again elsewhere. */
static void tx_group_synced(struct txg_wait *w, int err)
{
	struct tx *tx = container_of(w, struct tx, wait);

	tx->task.run = err ? tx_fail : tx_retry;
	taskq_dispatch(cpu_taskq(), &tx->task);
}

static void tx_wait_for_group(struct tx *tx)
{
	tx->wait = (struct txg_wait){.txg = tx->txg, .done = tx_group_synced};
	txg_let_go(tx->txgs, tx->txg);
	txg_kick(tx->txgs);
	txg_when_synced(tx->txgs, &tx->wait);
}

/* The group is held: the space is asked for. */
static void tx_start(struct tx *tx)
{
	struct objset *os = tx->os;
	int err = os && os->ops && os->ops->reserve ? os->ops->reserve(os, tx) : 0;

	if (err == -EAGAIN && tx->groups++ < GROUPS_MAX) {
		tx_wait_for_group(tx);
		return;
	}
	if (err == -EAGAIN) /* what is being freed does not come back soon */
		err = -ENOSPC;
	if (err) {
		tx->reserved = 0;
		txg_let_go(tx->txgs, tx->txg);
	}
	tx->done(tx, err);
}

static void tx_hold_locked(struct txgs *t, struct tx *tx)
{
	tx->txg = t->open;
	t->slot[tx->txg & TXG_MASK].holders++;
}

static void tx_enter(struct txgs *t, struct tx *tx)
{
	uint64_t delay, now;
	int err;

	tx->txgs = t;
	tx->syncing = false;
	tx->reserved = 0;
	pthread_mutex_lock(&t->lock);
	err = tx_refusal_locked(t);
	if (err) {
		pthread_mutex_unlock(&t->lock);
		tx->done(tx, err);
		return;
	}
	delay = tx->flags & TX_NOWAIT ? 0 : tx_delay_locked(t);
	if (tx->flags & TX_NOWAIT || (delay == 0 && t->throttled.len == 0 && !tx_is_blocked_locked(t))) {
		tx_hold_locked(t, tx);
		pthread_mutex_unlock(&t->lock);
		tx_start(tx);
		return;
	}
	now = now_ns();
	tx->wake_ns = MAX(now + delay, MIN(t->last_wake_ns, now + DELAY_MAX_NS) + delay);
	t->last_wake_ns = tx->wake_ns;
	list_append(&t->throttled, &tx->node);
	atomic_store(&t->throttle_waits, true);
	pthread_cond_signal(&t->throttle_cond);
	pthread_mutex_unlock(&t->lock);
}

static void tx_wait_done(struct tx *tx, int err)
{
	struct waiter *w = tx->arg;

	waiter_done(w, err);
}

void tx_begin(struct txgs *t, struct tx *tx)
{
	tx->groups = 0;
	tx_enter(t, tx);
}

int tx_begin_wait(struct txgs *t, struct tx *tx)
{
	struct waiter w;

	waiter_init(&w);
	tx->done = tx_wait_done;
	tx->arg = &w;
	tx_begin(t, tx);
	return waiter_wait(&w);
}

void tx_end(struct tx *tx)
{
	struct objset *os = tx->os;

	BUG_ON(tx->syncing);
	if (tx->reserved && os->ops->unreserve)
		os->ops->unreserve(os, tx);
	txg_let_go(tx->txgs, tx->txg);
}

/* --- those that wait --- */

static void tx_run(struct task *task)
{
	tx_start(container_of(task, struct tx, task));
}

/* How long the first in the list has to wait from now on; UINT64_MAX: until something changes. */
static uint64_t throttle_next_locked(struct txgs *t, uint64_t now)
{
	const struct tx *tx;

	if (t->throttled.len == 0)
		return UINT64_MAX;
	if (tx_refusal_locked(t))
		return 0;
	if (tx_is_blocked_locked(t))
		return UINT64_MAX;
	tx = container_of(list_first(&t->throttled), struct tx, node);
	return tx->wake_ns > now ? tx->wake_ns - now : 0;
}

static void throttle_release_locked(struct txgs *t)
{
	struct tx *tx = container_of(list_pop(&t->throttled), struct tx, node);

	if (tx_refusal_locked(t)) {
		tx->task.run = tx_fail;
	} else {
		tx_hold_locked(t, tx);
		tx->task.run = tx_run;
	}
	if (t->throttled.len == 0)
		atomic_store(&t->throttle_waits, false);
	taskq_dispatch(cpu_taskq(), &tx->task);
}

static void *throttle_thread(void *arg)
{
	struct txgs *t = arg;

	pthread_setname_np(pthread_self(), "txg_throttle");
	pthread_mutex_lock(&t->lock);
	for (;;) {
		uint64_t now = now_ns(), wait = throttle_next_locked(t, now);

		if (wait == 0)
			throttle_release_locked(t);
		else if (t->throttle_stop)
			break;
		else if (wait == UINT64_MAX)
			pthread_cond_wait(&t->throttle_cond, &t->lock);
		else
			txg_cond_wait_until(&t->throttle_cond, &t->lock, now + wait);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

void txg_throttle_init(struct txgs *t)
{
	txg_cond_init(&t->throttle_cond);
	list_init(&t->throttled);
	atomic_init(&t->throttle_waits, false);
}

void txg_throttle_start(struct txgs *t)
{
	BUG_ON(os_thread_create(&t->throttle_thread, throttle_thread, t));
}

void txg_throttle_fini(struct txgs *t)
{
	if (t->started) {
		pthread_mutex_lock(&t->lock);
		t->throttle_stop = true;
		pthread_cond_signal(&t->throttle_cond);
		pthread_mutex_unlock(&t->lock);
		pthread_join(t->throttle_thread, NULL);
	}
	BUG_ON(t->throttled.len);
	pthread_cond_destroy(&t->throttle_cond);
}

void txg_throttle_wake(struct txgs *t)
{
	if (!atomic_load(&t->throttle_waits))
		return;
	SCOPED_LOCK(&t->lock);
	pthread_cond_signal(&t->throttle_cond);
}

void txgs_set_mode(struct txgs *t, enum txgs_mode mode)
{
	pthread_mutex_lock(&t->lock);
	t->mode = mode;
	pthread_mutex_unlock(&t->lock);
	txg_throttle_wake(t);
}
