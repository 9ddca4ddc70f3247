/*
 * alloc/alloc_impl.h: what the files of this floor share.
 *
 *   alloc.c   open, close, top-levels that come and go      pick.c   classes, rotor, which metaslab
 *   ms.c      one metaslab: allocate, free, claim, weight   ms_load.c   load, unload, ahead of need
 *   ms_sync.c   what a group changed, into the maps         log.c    the log of space maps
 *   spacemap_write.c   entries into an object               space.c  sums      checkpoint.c  trim.c
 *
 * Locks: a metaslab's lock guards its sets and counts and is the outer one; alloc.lock (lists of metaslabs, tables of
 * top-levels) and a class's lock (rotor) are innermost. None is held across device I/O; the sets of a metaslab that is
 * being loaded or synced belong to that thread where noted, see `busy`.
 */
#ifndef ALLOC_IMPL_H
#define ALLOC_IMPL_H

#include "alloc/alloc.h"
#include "alloc/segset.h"
#include "base/counter.h"
#include "base/sync.h"

#define ALLOC_ALLOCATORS 4u                    /* at most: metaslabs of a device that take blocks side by side */
#define ALLOC_SLOTS      BP_DVAS               /* of one allocator on a device: one per copy of a block */
#define ALLOC_CLASSES    (ZIO_CLASS_DEDUP + 2) /* zio's, and: */
#define ALLOC_EMBEDDED   (ZIO_CLASS_DEDUP + 1) /* one metaslab of each large normal device, for log blocks */
#define ALLOC_CURSORS    32u
#define ALLOC_METASLABS  (UINT64_C(1) << 24) /* of one top-level that are believed */

#define KEY_UNFLUSHED     "com.delphix:ms_unflushed_phys_txgs"
#define KEY_CHECKPOINT    "com.delphix:pool_checkpoint_sm"
#define KEY_OBSOLETE      "com.delphix:indirect_obsolete_sm"
#define KEY_LOGS          "com.delphix:log_spacemap_zap"
#define FEATURE_HISTOGRAM "com.delphix:spacemap_histogram"
#define FEATURE_LOG       "com.delphix:log_spacemap"
#define FEATURE_OBSOLETE  "com.delphix:obsolete_counts"

struct alloc_top;
struct alloc_group;

enum ms_state { MS_UNLOADED, MS_LOADING, MS_LOADED };

/* All sets are in sectors from the metaslab's start on. */
struct ms {
	struct alloc_top *top;
	struct alloc_group *group; /* who takes blocks from it; never changes */
	uint32_t id;
	unsigned shift;       /* log2 of a sector */
	uint64_t start, size; /* bytes */

	pthread_mutex_t lock; /* guards all below but what says otherwise */
	pthread_cond_t cond;  /* `state` or `busy` changed */
	enum ms_state state;
	atomic_bool away; /* something long is done with its free set: who looks for room goes elsewhere */
	bool busy; /* the sync thread is at its maps: loading waits. While it is being loaded, the sync thread waits */
	bool queued;        /* for loading */
	bool broken;        /* its map cannot be read: no blocks go there */
	bool gone;          /* its device was removed */
	bool pending;       /* on alloc.pending */
	uint8_t dirty;      /* bit per group: on alloc.dirty of that group */
	atomic_uchar owned; /* how many allocators have it as their own */

	struct segset free;                              /* may be handed out; only while loaded */
	struct segset allocating[TXG_SIZE];              /* handed out in a group, in no map yet */
	struct segset freeing[TXG_SIZE];                 /* to be freed with a group */
	struct segset keeping[TXG_SIZE];                 /* the same, but the checkpoint has it */
	struct segset freed;                             /* freed in the group being synced: in the maps */
	struct segset deferred[TXG_DEFER];               /* freed in the groups before */
	struct segset unflushed_allocs, unflushed_frees; /* in the log of space maps, not in the metaslab's own */
	struct segset taken;                             /* out of circulation: being trimmed */
	struct segset trim;                              /* part of free that was freed of late; for autotrim */
	uint32_t cursor[ALLOC_CURSORS];                  /* by alignment of the size: where to look next */
	unsigned best_at_activation;                     /* bucket, when an allocator took it for its own */
	uint64_t largest_bound;                          /* sectors: while not loaded, no free segment is longer */

	/* The map as it is in the MOS */
	uint64_t object;   /* 0: none yet */
	uint64_t length;   /* bytes of entries */
	int64_t map_alloc; /* bytes allocated by them */
	uint64_t histogram[SEGSET_BUCKETS];
	bool has_histogram;
	uint64_t unflushed_txg;

	uint64_t used_txg, used_ns;                                       /* when a block was last taken */
	uint64_t retry_txg;                                               /* loading failed: not before */
	uint64_t trimmed_txg;                                             /* last handed to autotrim */
	struct list_node dirty_node[TXG_SIZE], pending_node, loaded_node; /* alloc.lock */
	struct task load;
};

/* A table of metaslabs never changes but for the weights; a device that grew gets a new one. */
struct ms_table {
	uint64_t n;
	struct ms **ms;
	/* Best first: bucket of the largest segment << 54 | how many there are; 0: full or not to be used. Written
	 * under the metaslab's lock. */
	_Atomic uint64_t *weight;
	_Atomic uint64_t *largest; /* sectors that may be there in one piece: exact while loaded */
	struct ms_table *before;   /* kept until alloc_close: somebody may look at it */
};

/* The metaslabs of one device that one class has: all, or all but one, or that one. */
struct alloc_group {
	struct alloc_top *top;
	unsigned class;
	atomic_bool closed;             /* takes no more blocks */
	atomic_uint_fast64_t size;      /* bytes */
	atomic_int_fast64_t allocated;  /* in the maps */
	atomic_int_fast64_t allocating; /* handed out and in no map yet */
	atomic_int_fast64_t deferred;   /* freed, but not to be handed out yet */
	struct ms *_Atomic active[ALLOC_ALLOCATORS][ALLOC_SLOTS];
};

struct alloc_top {
	struct alloc *a;
	struct vdev *vdev;
	struct alloc_group main, embedded; /* embedded: size 0 when there is none */
	struct ms_table *_Atomic table;
	uint64_t array;                     /* MOS object of the metaslabs' maps; 0: alloc_sync makes it */
	uint64_t unflushed;                 /* MOS object; 0: none yet */
	uint64_t checkpoint;                /* MOS object of the checkpoint's frees; 0: none */
	atomic_int_fast64_t kept;           /* bytes that it holds */
	uint64_t obsolete;                  /* MOS object of an indirect device; 0: none yet */
	struct rangetree dropped[TXG_SIZE]; /* of an indirect device: no longer referenced. alloc.lock */
};
/* By vdev id; NULL: none. Never changes. A top-level that was removed stays in memory, in the tables before. */
struct top_table {
	unsigned n;
	struct top_table *before;
	struct alloc_top *top[];
};

struct rotor {
	unsigned at;
	uint64_t placed; /* bytes since it came to this group */
	uint64_t share;  /* bytes until it goes on */
};
/* A table of groups never changes. */
struct group_table {
	unsigned n;
	struct group_table *before;
	struct alloc_group *group[];
};
struct alloc_class {
	pthread_mutex_t lock; /* guards the rotors */
	struct rotor rotor[ALLOC_ALLOCATORS];
	struct group_table *_Atomic table;
};

struct log_map {
	uint64_t txg, object;
	uint64_t blocks;
};

struct alloc {
	struct objset *mos;
	struct vdev *root;
	struct zio_pool *zp;
	struct alloc_args args;
	struct alloc_features features;
	unsigned nallocators;
	struct alloc_class class[ALLOC_CLASSES];

	struct top_table *_Atomic tops; /* replaced by the sync thread */

	pthread_mutex_t lock;                         /* guards this part */
	struct list dirty[TXG_SIZE], pending, loaded; /* of metaslabs */
	pthread_cond_t settled;                       /* something was loaded or given back */
	uint64_t settle_count;                        /* how often that was so */
	unsigned unsettled;                           /* loading, or out for trimming */

	struct taskq *loader;
	atomic_bool closing, autotrim;
	atomic_uint_fast64_t checkpoint_txg; /* 0: none */
	_Atomic uint64_t loaded_segments;    /* of all loaded metaslabs, as of their last sync */

	/* The sync thread's */
	unsigned defer_slot; /* where the group being synced leaves its frees */
	uint64_t log_zap;    /* MOS object; 0: none */
	struct log_map *log;
	size_t nlogs;
	struct spacemap *log_open; /* of the group being synced */
	uint64_t log_written;      /* bytes of it whose header is written */
	uint64_t synced_txg;
	atomic_uint_fast64_t damaged; /* frees of what is not allocated */
};

/* --- ms.c --- */
struct ms *ms_create(struct alloc_top *t, uint32_t id);
void ms_destroy(struct ms *ms);
struct ms_table *alloc_table(const struct alloc_top *t);
/* The metaslab that holds all of [offset, offset + size); NULL: no such place, or not in whole sectors. */
struct ms *ms_find(struct alloc_top *t, uint64_t offset, uint64_t size);
/* `sectors` in one piece for group txg; -ENOSPC, -EAGAIN (not loaded), -EBUSY (some of it is away for a moment). near:
 * byte offset to begin at, UINT64_MAX: as the cursor says. worn: its longest free segment has become much shorter since
 * ms_activate. */
int ms_alloc(struct ms *ms, uint64_t sectors, uint64_t txg, uint64_t near, uint64_t *offset, bool *worn);
void ms_activate(struct ms *ms); /* an allocator has it as its own */
void ms_free(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg, uint64_t birth);
/* In syncing context, whatever the checkpoint says. */
void ms_free_now(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg);
int ms_claim(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg);
/* What ms_alloc gave: free again, if it is in no map yet. */
void ms_unalloc(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg);
/* With the lock held. */
void ms_weigh(struct ms *ms);
void ms_dirty(struct ms *ms, uint64_t txg);
int64_t ms_allocated(const struct ms *ms); /* bytes, by the maps and the log */
static inline struct alloc *ms_alloc_of(const struct ms *ms)
{
	return ms->top->a;
}

/* --- ms_load.c --- */
/* Asks for it to be loaded; returns at once. false: that would not help now. */
bool ms_load_start(struct ms *ms);
/* -EIO, -EINVAL ...: not loaded. */
int ms_load_wait(struct ms *ms);
void alloc_load_all(struct alloc *a);  /* when a tunable says so */
void ms_unload(struct ms *ms);         /* with the lock held; it is loaded, and nothing of it is under way */
bool ms_is_quiet(const struct ms *ms); /* with the lock held: could be unloaded */
/* After a group: unloads what nobody used for long, loads what will be needed next. */
void alloc_load_balance(struct alloc *a, uint64_t txg);
/* 1: some space is on its way (loading, trimming); -1: it has come, or will not. */
void alloc_settled(struct alloc *a, int change);
/* Something long begins, ends, that needs the lock and the free set. */
void ms_away(struct ms *ms, bool away);
/* Every so often lets others have the lock, in loops over many segments. */
void ms_breathe(struct ms *ms, size_t n);

/* --- pick.c --- */
int alloc_blocks(void *arg, enum zio_class class, uint64_t psize, unsigned ndvas, uint64_t txg, unsigned flags,
		 const struct dva *near, struct dva dva[BP_DVAS]);
int64_t alloc_group_free(const struct alloc_group *g); /* bytes that can be had now */
/* The best metaslab of the group after (*weight, *id), which begin as UINT64_MAX and 0, that may have room. */
struct ms *alloc_group_next(const struct alloc_group *g, uint64_t sectors, uint64_t *weight, uint64_t *id);

/* --- ms_sync.c; the sync thread. Errors: the group must not be committed --- */
int ms_sync(struct ms *ms, struct tx *tx);
int ms_flush(struct ms *ms, struct tx *tx);
/* keep: frees rest for two groups. */
void ms_sync_done(struct ms *ms, bool keep);
/* To the unflushed sets; with the lock held, which others get in between, or a single segment while nobody else is
 * there. -EINVAL: contradicts them. */
int ms_log_apply(struct ms *ms, const struct segset *allocs, const struct segset *frees);
int alloc_map_create(struct alloc *a, uint32_t blocksize, struct tx *tx, uint64_t *object);
int alloc_map_destroy(struct alloc *a, uint64_t object, struct tx *tx);
int alloc_array_set(struct alloc *a, uint64_t object, uint64_t i, uint64_t value, struct tx *tx);

/* --- log.c --- */
int alloc_log_load(struct alloc *a, struct err *e);
void alloc_log_drop(struct alloc *a);
/* The group's log map, made when there is none. */
int alloc_log_open(struct alloc *a, struct tx *tx);
/* Its header, after a pass. */
int alloc_log_finish(struct alloc *a, struct tx *tx);
void alloc_log_done(struct alloc *a); /* after the group */
/* Pass 1: some metaslabs take over what the log has of them, and logs that nobody needs go. */
int alloc_log_flush(struct alloc *a, struct tx *tx, bool all);
int alloc_unflushed_set(struct ms *ms, uint64_t txg, struct tx *tx);

/* --- checkpoint.c --- */
int alloc_checkpoint_add(struct ms *ms, const struct segset *s, struct tx *tx);
int alloc_obsolete_sync(struct alloc *a, struct tx *tx);

/* --- alloc.c --- */
struct alloc_top *alloc_top_of(struct alloc *a, uint64_t vdev); /* NULL: none */
const struct top_table *alloc_tops(struct alloc *a);
/* Something is freed that is not allocated. Not fatal: the space is lost at worst, and the pool goes on. Said once in a
 * while, as it may come in masses. */
void alloc_damaged(struct alloc *a, uint64_t vdev, uint64_t offset, uint64_t size);
void alloc_undo(struct alloc *a, const struct dva *dva, uint64_t txg);

#endif
