/*
 * dmu/txg_impl.h: what txg.c (groups) and tx.c (transactions) share.
 */
#ifndef DMU_TXG_IMPL_H
#define DMU_TXG_IMPL_H

#include <pthread.h>

#include "dmu/txg.h"

struct txg_slot {
	uint64_t holders;    /* transactions that have not ended */
	uint64_t sync_holds; /* txg_hold_sync */
	uint64_t dirty;      /* bytes */
};

struct txgs {
	pthread_mutex_t lock; /* guards all that follows, but for the throttle's own */
	pthread_cond_t quiesce_cond, sync_cond, synced_cond;
	uint64_t open, quiescing, quiesced, syncing, synced; /* quiescing, quiesced, syncing: 0 when there is none */
	uint64_t wanted;                                     /* groups up to this are closed as soon as can be */
	uint64_t opened_ns;
	struct txg_slot slot[TXG_SIZE];
	uint64_t dirty, dirty_open; /* bytes: of all groups; that came to the open one */
	struct list waiters;        /* txg_wait */
	bool started, stopping, last_stop, quiesce_ended, abandoned;
	pthread_t quiesce_thread, sync_thread;
	void (*sync)(void *arg, uint64_t txg);
	void *arg;

	/* tx.c: transactions that wait for their turn */
	enum txgs_mode mode;
	pthread_t throttle_thread;
	pthread_cond_t throttle_cond;
	bool throttle_stop;
	atomic_bool throttle_waits; /* the list is not empty */
	uint64_t last_wake_ns;
	struct list throttled; /* struct tx, in the order of their wake-up */
};

void txg_cond_init(pthread_cond_t *c);
void txg_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t ns);

void txg_throttle_init(struct txgs *t);
void txg_throttle_start(struct txgs *t);
void txg_throttle_fini(struct txgs *t);
/* Something changed that transactions may have waited for. Not with the lock held. */
void txg_throttle_wake(struct txgs *t);

#endif
