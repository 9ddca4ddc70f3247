/*
 * zil/zil_impl.h: what the files of this floor share.
 *
 *	zil.c     reading chains              itx.c    records before they are placed
 *	commit.c  batches and their steps     chain.c  placing records in blocks
 *	open.c    opening, closing, sync      replay.c claiming, replaying, destroying
 */
#ifndef ZIL_ZIL_IMPL_H
#define ZIL_ZIL_IMPL_H

#include "base/sync.h"
#include "base/taskq.h"
#include "base/tunable.h"
#include "zil/zil.h"

#define ZIL_CHAIN_BYTES 184u /* of the chain structure (9.4) */
#define ZIL_CHAIN_NEXT  8u
#define ZIL_CHAIN_NUSED 136u
#define ZIL_CHAIN_MAGIC 144u
#define ZIL_MAGIC       UINT64_C(0x0210da7ab10c7a11)
#define ZIL_BLOCK_MIN   4096u
#define ZIL_BURSTS      8u /* whose sizes tell how large the next block is made */
#define SYNC_DISABLED   2u /* of objset_props.sync */

/* Words of a log block's pointer: chain guid (2), object set, sequence. */
#define ZIL_VERIFIER 12u

extern struct tunable tunable_zil_maxblocksize;

struct itx_object { /* asynchronous records of one object */
	struct tree_node node;
	uint64_t object;
	struct list itxs;
};

struct zil_queue { /* records of one group that no batch has taken */
	uint64_t txg;
	struct list itxs;
	struct tree async; /* itx_object */
	uint64_t charged;
};

/* One block of the chain, from its allocation until a sync frees it. */
struct zil_block {
	struct list_node node; /* in zil->chain; guarded by the log's lock */
	struct list_node batch_node;
	struct zil_batch *batch;
	struct bp bp;
	uint64_t max_txg; /* of its records */
	bool flushed;     /* guarded by the log's lock */
	struct buf *buf;  /* while it is being filled and written */
	uint32_t used;    /* bytes of records */
	struct zio_write write;
};

struct zil_flush {
	struct zil_batch *batch;
	struct vdev_io io;
};

struct zil_batch {
	struct zil *zil;
	struct list itxs, waiters, blocks;
	uint64_t bytes;    /* of records that are not placed yet */
	uint64_t burst;    /* of all its records */
	unsigned pending;  /* data, then blocks, then flushes; guarded by the log's lock */
	bool started;      /* guarded by the log's lock */
	int err;           /* guarded by the log's lock: it cannot be logged */
	uint64_t max_txg;  /* of its records */
	uint64_t wait_txg; /* must be on the devices too before the waiters are told; guarded by the log's lock */
	uint64_t *tops;    /* a bit for each top-level that took something; guarded by the log's lock */
	struct zil_flush *flush;
	struct tx tx;
	bool holds; /* the sync of tx.txg */
	struct txg_wait wait;
	struct task task;
};

struct zil {
	struct objset *os;
	struct zio_pool *zp;
	struct txgs *txgs;
	struct zil_helpers *helpers; /* threads that may wait for a metaslab; shared by the pool's logs */
	atomic_uint refs;

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t idle;  /* a batch ended */
	struct zil_queue queue[TXG_SIZE];
	uint64_t max_txg; /* of all records so far */
	/* Changed without a record, or with one that was lost: commits wait for it. */
	uint64_t late_txg;
	atomic_bool restart;          /* the next batch gives up the chain */
	bool complained;              /* in the log of the daemon, of a chain that broke */
	unsigned batches;             /* that have not ended */
	struct zil_batch *cur, *next; /* being logged; gathering */

	/* The chain: blocks in order, the last one allocated and not written. Appended to by the current batch. */
	struct list chain;
	uint64_t ready_txg;  /* the chain counts once this group is on the devices: the header leads to it then */
	uint64_t broken_txg; /* not 0: no more blocks; the sync of this group frees all of them */
	uint64_t seq;        /* of records: the last one used; the current batch's */
	uint64_t burst[ZIL_BURSTS];
	unsigned nbursts;

	struct zil_header header; /* as the next sync will store it, but for `log` */
	bool header_dirty;
	/* replay */
	uint64_t replaying; /* sequence */
	uint64_t replayed[TXG_SIZE];
	uint64_t destroy_txg; /* its sync frees the claimed log */
};

/* itx.c */
void zil_queues_init(struct zil *z);
/* Moves what a commit of `object` covers to `to`. Lock held. */
void zil_queues_take(struct zil *z, uint64_t object, struct list *to);
/* Records of groups up to txg. Lock held; *to is for the caller to destroy. */
void zil_queues_drop(struct zil *z, uint64_t txg, struct list *to);
void itx_list_destroy(struct list *itxs);

/* chain.c */
struct zil_block *zil_block_create(const struct bp *bp);
void zil_block_destroy(struct zil_block *b);
/* A first pointer: new guid, sequence 1. */
void zil_chain_seed(struct zil *z, struct bp *bp);
/* Places the batch's records; blocks to write come to batch->blocks. -EAGAIN: a metaslab must be loaded; call again
 * with flags 0 where waiting is allowed. */
int zil_chain_fill(struct zil_batch *b, unsigned alloc_flags);

/* commit.c */
void zil_block_done(struct zio_write *w, int err);
struct taskq *zil_helpers_taskq(struct zil *z);
void zil_helpers_hold(struct zil *z);
void zil_helpers_release(struct zil *z);
/* Waits until no batch is left. */
void zil_batches_wait(struct zil *z);

/* open.c */
struct zil *zil_hold(struct objset *os); /* NULL: none is open */
void zil_release(struct zil *z);

/* replay.c: frees all blocks of a claimed log, and what its records point to. Syncing context. */
void zil_free_claimed(struct objset *os, struct tx *tx);

#endif
