/*
 * dmu/txg.h: transaction groups and transactions (docs/format/01-pool.md section 8; 06, 10.4).
 *
 * Three groups live at once: one open, at most one quiescing (its transactions finish), at most one syncing. Who wants
 * to change something holds the open group (tx_begin), makes its change, dirties data, and lets go (tx_end). The
 * group is then written by the sync function that spa hands over; it runs on the one sync thread of the pool, may
 * block, and must not fail (it suspends the pool instead).
 *
 * Rule: the MOS is changed in syncing context only, by the sync thread (struct tx with `syncing`). Data sets' objects
 * are changed in open context, each change inside a transaction; sync tasks may change data sets that were created in
 * the same group.
 *
 * Dirty data is bounded by zfs_dirty_data_max: from 60 % on transactions are delayed smoothly, at the bound they wait.
 *
 * Locks: one mutex per pool's groups, innermost but for nothing else; no callback is called with it held.
 */
#ifndef DMU_TXG_H
#define DMU_TXG_H

#include "base/base.h"
#include "base/list.h"
#include "base/taskq.h"
#include "base/tunable.h"

#define TXG_SIZE  4u /* txg & TXG_MASK indexes whatever is kept per group */
#define TXG_MASK  (TXG_SIZE - 1)
#define TXG_DEFER 2u /* freed space rests so many groups */

struct objset;
struct txgs;

extern struct tunable tunable_dirty_data_max, tunable_dirty_data_sync_percent, tunable_txg_timeout;

/* `sync` writes group txg to the devices; called in order, on the sync thread, from txgs_start on. Before that the
 * first group can be filled: also by a struct tx that says `syncing`, which then is the first to be synced. */
struct txgs *txgs_create(uint64_t open_txg, void (*sync)(void *arg, uint64_t txg), void *arg);
void txgs_start(struct txgs *t);
/* Syncs what is open (unless abandoned), then ends the threads. Nobody holds or waits. */
void txgs_destroy(struct txgs *t);
/* A suspended pool: transactions wait, or fail with -EIO. */
enum txgs_mode { TXGS_RUN, TXGS_WAIT, TXGS_FAIL };
void txgs_set_mode(struct txgs *t, enum txgs_mode mode);
/* The pool is lost: everybody who waits for a group, now or later, gets -EIO, and so do transactions; sync is called
 * no more once a running call returns. */
void txgs_abandon(struct txgs *t);

uint64_t txg_open(struct txgs *t);    /* number of the open group */
uint64_t txg_syncing(struct txgs *t); /* 0: none is being synced */
uint64_t txg_last_synced(struct txgs *t);
/* Close the open group soon, and sync it. Never waits. */
void txg_kick(struct txgs *t);
/* Waits until group txg is on the devices; 0: all that is open now. What is open is closed for it. -EIO: abandoned. Not
 * for the sync thread nor cpu workers. */
int txg_wait_synced(struct txgs *t, uint64_t txg);
/* The same by callback, on the sync thread (after the group's sync has returned) or at once. The group is not hurried.
 */
struct txg_wait {
	uint64_t txg;
	void (*done)(struct txg_wait *w, int err);
	void *arg;
	struct list_node node;
};
void txg_when_synced(struct txgs *t, struct txg_wait *w);
/* The sync thread waits until each hold on a group is let go: a log block of txg that is not written yet. */
void txg_hold_sync(struct txgs *t, uint64_t txg);
void txg_release_sync(struct txgs *t, uint64_t txg);

/* Dirty data of a group: added when a block becomes dirty, taken off when it was written. */
void txg_dirty_add(struct txgs *t, uint64_t txg, uint64_t bytes);
void txg_dirty_done(struct txgs *t, uint64_t txg, uint64_t bytes);
uint64_t txg_dirty_bytes(struct txgs *t); /* of all groups */

/*
 * A transaction. In open context: from tx_begin to tx_end. In syncing context spa makes one per group, and hands it
 * down; its `syncing` is true and it needs no begin and end.
 *
 * tx_begin: os says who pays (NULL: nobody asks, for administration); `bytes` is the most that the change may write to
 * it, counted without copies; flags say how close to full it may go. done(err) is called at once, on the caller's
 * stack, when nothing is in the way; else later on a cpu worker, so the caller goes on by callback. -ENOSPC, -EDQUOT,
 * -EIO (the pool is suspended and failmode is continue), -EROFS. On error there is nothing to end.
 */
#define TX_NETFREE       1u /* frees more than it takes: may use half of the slop */
#define TX_NOWAIT        2u /* not throttled (log, replay) */
#define TX_NOSPACE_CHECK 4u /* replay, housekeeping */
struct tx {
	struct txgs *txgs;
	uint64_t txg;
	bool syncing;
	unsigned pass; /* of the sync, from 1; syncing only */
	struct objset *os;
	uint64_t reserved; /* bytes told to os->ops->reserve */
	/* begin */
	unsigned flags;
	uint64_t bytes;
	void (*done)(struct tx *tx, int err);
	void *arg;
	/* txg's own, while it waits */
	struct txg_wait wait;
	unsigned groups; /* that were waited for in vain */
	uint64_t wake_ns;
	struct list_node node;
	struct task task;
};
/* The caller fills os, bytes, flags, done, arg and keeps the struct until tx_end. ops->reserve is called with tx->txg
 * set; when it answers -EAGAIN (there is space, but not before the groups in flight are on the devices) it is asked
 * again after that group. */
void tx_begin(struct txgs *t, struct tx *tx);
/* Blocking; not for cpu workers. */
int tx_begin_wait(struct txgs *t, struct tx *tx);
void tx_end(struct tx *tx);

#endif
