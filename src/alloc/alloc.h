/*
 * alloc/alloc.h: where blocks go: the metaslabs of all top-levels, their allocation classes, space maps and the log of
 * space maps, deferred frees, checkpointed space (docs/format/06-allocation-and-vdevs.md, sections 2, 3, 9 and 4.9).
 *
 * One struct alloc per pool that is open for writing; it is zio's allocator (zp->alloc). An extent goes through the
 * trees of 06, 2.8: allocatable -> allocating[txg] -> (space map) -> freeing -> freed -> defer -> allocatable.
 *
 * Threads: allocation and freeing on any thread (a metaslab that is not loaded is passed over while others have room;
 * the best ones are loaded ahead in the background); alloc_sync*, and all that takes a tx, on the sync thread. Locks:
 * one per metaslab, held for a look-up or a change in core only; one per class (rotor) and one for lists, innermost.
 */
#ifndef ALLOC_ALLOC_H
#define ALLOC_ALLOC_H

#include "alloc/spacemap.h"
#include "zio/zio.h"

struct alloc;

struct alloc_features { /* what the pool's features allow; changed by alloc_set_features */
	bool histogram, spacemap_v2, log_spacemap, obsolete_counts;
};

/*
 * Takes the tree as it is: every concrete top-level with an ms_array; metaslabs are loaded at need. Replays the log of
 * space maps. Sets zp->alloc, alloc_arg and the granularity. checkpoint_txg 0: none. `activate` is told, in syncing
 * context, that a feature's count changes (log_spacemap, spacemap_histogram, spacemap_v2); `config_dirty` that a
 * top-level's configuration did (ms_array).
 */
struct alloc_args {
	struct objset *mos;
	struct vdev *root;
	struct zio_pool *zp;
	uint64_t directory; /* MOS object 1: key of the space map log */
	uint64_t checkpoint_txg;
	struct alloc_features features;
	void (*activate)(void *arg, const char *feature, int64_t delta, struct tx *tx);
	void (*config_dirty)(void *arg, struct vdev *top, struct tx *tx);
	void *arg;
};
int alloc_open(const struct alloc_args *args, struct alloc **out, struct err *e);
void alloc_close(struct alloc *a);
void alloc_set_features(struct alloc *a, const struct alloc_features *f);

/* A top-level that is new or has no ms_array yet. Syncing context. Blocks can be had there at once; alloc_sync of this
 * group makes the array. -ENOTSUP: metaslabs of more than 2^32 sectors. */
int alloc_add_top(struct alloc *a, struct vdev *top, struct err *e);
/* The same in a running pool: no block is to be had there before alloc_undrain_top, when the array is on the devices.
 * Else a log could lead to a device that nobody knows to have space after a crash. */
int alloc_add_top_closed(struct alloc *a, struct vdev *top, struct err *e);
/* It grew: more metaslabs of the same size. Syncing context. */
int alloc_grow_top(struct alloc *a, struct vdev *top, struct err *e);
/* Log device that leaves: no more blocks go there; 0 when nothing is allocated on it any more, -EBUSY otherwise. */
int alloc_drain_top(struct alloc *a, struct vdev *top);
void alloc_undrain_top(struct alloc *a, struct vdev *top); /* it stays, or begins to be used */
/* Frees its maps in the MOS. The entries in the top-level's ZAP go with that ZAP. The struct vdev must stay until
 * alloc_close, or until no request for space that began before can be under way. */
int alloc_remove_top(struct alloc *a, struct vdev *top, struct tx *tx);

/* Each pass of the sync, after the MOS was written: appends what changed to the space maps (dirtying the MOS). Pass 1
 * with log_spacemap also flushes some metaslabs (all of them in a pool that is being exported). An error: the MOS
 * cannot be read or is damaged, and the group must not be committed. */
int alloc_sync(struct alloc *a, struct tx *tx, bool flush_all);
/* The group is on the devices: 06, 2.8. `keep_deferred` false: space is short, the delay is given up. */
void alloc_sync_done(struct alloc *a, uint64_t txg);
/* Nothing was allocated or freed since the last alloc_sync of this txg. */
bool alloc_is_clean(struct alloc *a, uint64_t txg);
bool alloc_has_deferred(struct alloc *a);

/* Bytes. Sums over a class, or of one top-level. */
struct alloc_space {
	uint64_t size, allocated, deferred, checkpointed, fragmentation; /* percent, UINT64_MAX unknown */
	uint64_t usable, used, embedded_log, embedded_usable;            /* as struct spa_top_space (spa_impl.h) */
};
void alloc_space(struct alloc *a, enum zio_class class, struct alloc_space *out);
void alloc_top_space(struct alloc *a, const struct vdev *top, struct alloc_space *out);
/* Deflated bytes (01, 11.4, 11.5), cheaply: nothing is walked but the list of devices. */
struct alloc_sums {
	uint64_t normal;   /* the whole normal class but for devices that take nothing: R */
	uint64_t special;  /* allocated in the special and dedup classes */
	uint64_t used;     /* allocated in the normal, special and dedup classes */
	uint64_t embedded; /* the metaslabs set apart for log blocks */
	uint64_t kept;     /* by the checkpoint; not deflated */
};
void alloc_sums(struct alloc *a, struct alloc_sums *out);

/* Bytes of the normal class that were freed and rest: as cheap. */
uint64_t alloc_deferred(struct alloc *a);
/* Bytes that a class can hand out now, and its size. */
uint64_t alloc_class_left(struct alloc *a, enum zio_class class, uint64_t *size);

/* Checkpoint (06, 4.9): from now on (syncing context, before anything of the group is freed) frees of blocks born up to
 * txg are kept. */
void alloc_checkpoint_take(struct alloc *a, uint64_t txg, struct tx *tx);
/* Gives back up to `limit` segments of the checkpoint's frees; *done: none is left. Syncing context, pass 1, before
 * alloc_sync; from its first call on nothing is kept. */
int alloc_checkpoint_discard(struct alloc *a, uint64_t limit, bool *done, struct tx *tx);

/*
 * For trim and initialize: the free extents of a metaslab, taken out of circulation until given back, so that nobody
 * allocates what is being trimmed. One metaslab at a time; -ENOENT at the end; other errors: its map cannot be read.
 * Waits for loading. Who asks for space and finds none but this waits for it: so no waiting for a group while a set is
 * out.
 */
struct alloc_free_set;
int alloc_free_take(struct alloc *a, struct vdev *top, uint64_t metaslab, struct alloc_free_set **out);
const struct rangetree *alloc_free_ranges(const struct alloc_free_set *s); /* bytes of the top-level */
void alloc_free_return(struct alloc_free_set *s);
/* Autotrim: ranges freed some groups ago and still free, collected while on. Taken as above; -EAGAIN: none of this
 * metaslab is due (each is once in zfs_trim_txg_batch groups). */
void alloc_autotrim(struct alloc *a, bool on);
int alloc_autotrim_take(struct alloc *a, struct vdev *top, uint64_t metaslab, struct alloc_free_set **out);

#endif
