/*
 * vdev/vdev.h: the tree of virtual devices, its reads and writes (docs/format/06-allocation-and-vdevs.md; labels:
 * 01-pool.md section 2, 4).
 *
 * A tree is built from a configuration nvlist (vdev_tree_create), its leaves opened (vdev_tree_open) and validated. A
 * read names a top-level vdev, an offset in its allocatable space and the block's birth; each kind of vdev is a state
 * machine that issues reads to its children. The caller's `verify` says whether bytes are right, so that mirrors try
 * the next side and RAIDZ/dRAID try parity combinations: redundancy lives here, checksums above.
 *
 * A write goes to every device that holds a copy or a column; those that do not take it lack its txg from then on
 * (their DTL). A device that fails is probed and, when it is lost, left alone until it is opened again.
 *
 * Locks: the tree's shape does not change while requests are in flight. Each leaf: its queue's lock (queue.c), and
 * dtl_lock. One lock over the states of all trees (health.c). No callback is called with any of them held.
 */
#ifndef VDEV_VDEV_H
#define VDEV_VDEV_H

#include <pthread.h>

#include "base/base.h"
#include "base/counter.h"
#include "base/err.h"
#include "base/rangetree.h"
#include "base/taskq.h"
#include "base/tree.h"
#include "disk/disk.h"
#include "nv/nv.h"

enum vdev_kind {
	VDEV_ROOT,
	VDEV_DISK,
	VDEV_FILE,
	VDEV_MIRROR,
	VDEV_REPLACING,
	VDEV_SPARE,
	VDEV_RAIDZ,
	VDEV_DRAID,
	VDEV_DSPARE,
	VDEV_HOLE,
	VDEV_MISSING,
	VDEV_INDIRECT,
};

enum vdev_state { /* numbers of the format chapter 06, 1.8 */
		  VDEV_STATE_UNKNOWN = 0,
		  VDEV_STATE_CLOSED = 1,
		  VDEV_STATE_OFFLINE = 2,
		  VDEV_STATE_REMOVED = 3,
		  VDEV_STATE_CANT_OPEN = 4,
		  VDEV_STATE_FAULTED = 5,
		  VDEV_STATE_DEGRADED = 6,
		  VDEV_STATE_HEALTHY = 7,
};

enum vdev_aux { /* numbers of the format chapter 06, 1.8; why a vdev is in its state */
		VDEV_AUX_NONE = 0,
		VDEV_AUX_OPEN_FAILED = 1,
		VDEV_AUX_CORRUPT_DATA = 2,
		VDEV_AUX_NO_REPLICAS = 3,
		VDEV_AUX_BAD_GUID_SUM = 4,
		VDEV_AUX_TOO_SMALL = 5,
		VDEV_AUX_BAD_LABEL = 6,
		VDEV_AUX_VERSION_NEWER = 7,
		VDEV_AUX_VERSION_OLDER = 8,
		VDEV_AUX_UNSUP_FEAT = 9,
		VDEV_AUX_SPARED = 10,
		VDEV_AUX_ERR_EXCEEDED = 11,
		VDEV_AUX_IO_FAILURE = 12,
		VDEV_AUX_BAD_LOG = 13,
		VDEV_AUX_EXTERNAL = 14,
		VDEV_AUX_SPLIT_POOL = 15,
		VDEV_AUX_BAD_ASHIFT = 16,
		VDEV_AUX_EXTERNAL_PERSIST = 17,
		VDEV_AUX_ACTIVE = 18,
		VDEV_AUX_CHILDREN_OFFLINE = 19,
		VDEV_AUX_ASHIFT_TOO_BIG = 20,
};

struct vdev_stats {
	struct counter read_ops, read_bytes, write_ops, write_bytes, trim_ops, trim_bytes, slow_ios;
	struct counter read_errors, write_errors, checksum_errors, trim_errors;
};

struct vdev;
struct vdev_io;

/* What happens to a tree by itself. Any thread, also one that completes requests: does not block. */
struct vdev_events {
	/* A leaf was lost, lost in part (cant_write), or is there again. */
	void (*state)(void *arg, struct vdev *leaf);
	/* A leaf lacks more txgs than before: its DTL is to be written. May be called for each block. */
	void (*dtl)(void *arg, struct vdev *leaf);
	void *arg;
};

struct vdev_ops {
	const char *type; /* the word in the configuration */
	enum vdev_kind kind;
	/* Check and take the kind's own configuration keys; the children are there. NULL: has none. */
	int (*create)(struct vdev *vd, const struct nvlist *config, struct err *e);
	void (*read)(struct vdev *vd, struct vdev_io *io);
	/* NULL: takes no writes; has nothing to trim. */
	void (*write)(struct vdev *vd, struct vdev_io *io);
	void (*trim)(struct vdev *vd, struct vdev_io *io);
	/* bytes allocated for psize bytes in a block allocated in (or physically born in) txg */
	uint64_t (*psize_to_asize)(const struct vdev *top, uint64_t psize, uint64_t txg);
	/* The asize that children allow the smallest of which has `child` bytes (06, 1.5). NULL: a leaf, or nothing
	 * that stores blocks in its children. */
	uint64_t (*asize_of)(const struct vdev *vd, uint64_t child);
	/* Derive state, asize and ashift from the children once they are open. NULL: leaf. */
	void (*settle)(struct vdev *vd);
	void (*destroy)(struct vdev *vd);
};

struct vdev {
	const struct vdev_ops *ops;
	enum vdev_kind kind;
	struct vdev *parent, *top;
	struct vdev **child;
	unsigned nchildren;

	uint64_t id, guid;
	uint64_t ashift;        /* of the top-level vdev */
	_Atomic uint64_t asize; /* bytes; of a top-level: allocatable as configured */
	uint64_t create_txg;
	uint64_t nparity;            /* raidz, draid */
	uint64_t ms_array, ms_shift; /* metaslabs of a top-level (MOS object, log2 size) */
	bool is_log, is_spare, is_hole, offline, removed, faulted, not_present, removing, noalloc;
	bool offline_temporary;   /* until the next import: not stored */
	bool awaits_use;          /* spa's own: a new top-level whose space maps are not on the devices yet */
	atomic_bool dtl_unsynced; /* spa's: what it lacks is not stored yet */
	const char *alloc_bias;   /* "log", "special", "dedup" or NULL; set by spa from the top-level ZAP */

	_Atomic(enum vdev_state) state;
	_Atomic(enum vdev_aux) aux;
	/* Readable, but writes fail: a leaf by its probe, others when too many children are so. */
	atomic_bool cant_write;

	char *path;             /* leaf: where it was opened, or as configured */
	char *was_path;         /* leaf that is missing: its recorded path */
	struct disk *disk;      /* leaf: open device or NULL; changed by opening, reopening, closing only */
	_Atomic uint64_t psize; /* leaf: device size rounded down to 256 KiB */
	uint64_t dtl_object;    /* leaf: MOS space map of missing txgs, 0 = none */
	uint64_t zap_top, zap_leaf;

	struct vdev_stats stats;
	struct nvlist *config; /* own copy of this node's configuration, without children */
	/* this floor's own */
	void *priv;               /* the kind's own */
	struct vdev_queue *queue; /* leaf but dspare */
	pthread_mutex_t dtl_lock; /* guards dtl; innermost */
	struct rangetree dtl;     /* leaf: txgs this device lacks */
	atomic_bool dtl_any;      /* dtl is not empty */
	atomic_bool probing;      /* leaf: a probe is under way */
	atomic_uint block_size;   /* leaf: what its disk says, so that requests need not look at a disk that goes */
	atomic_bool writable, discards;
	atomic_uint dirty_percent;        /* root */
	const struct vdev_events *events; /* root */
};

/* Build a tree from a `vdev_tree` nvlist (root or one top-level). Nothing is opened. */
int vdev_tree_create(const struct nvlist *tree, struct vdev **root, struct err *e);
void vdev_tree_destroy(struct vdev *root);

/*
 * Open all leaves. `open` maps a leaf to a disk (by its path in search results); NULL opens vd->path. A leaf that
 * cannot be opened becomes CANT_OPEN with aux; interior vdevs settle from the bottom up (ONLINE, DEGRADED, CANT_OPEN
 * with NO_REPLICAS).
 */
typedef int (*vdev_open_fn)(void *arg, struct vdev *leaf, struct disk **disk, struct err *e);
void vdev_tree_open(struct vdev *root, vdev_open_fn open, void *arg);
void vdev_set_state(struct vdev *leaf, enum vdev_state s, enum vdev_aux aux); /* and settle the parents */
/* NULL: nobody is told. Before writes begin; *ev outlives the tree. */
void vdev_set_events(struct vdev *root, const struct vdev_events *ev);

/*
 * Opens again what is not there or not well, in the leaf or tree vd (zpool clear, online; a device that came back).
 * Usable while requests are in flight: those that are with the old device get some seconds to end, new ones fail.
 * Leaves whose flags say so are closed (offline, faulted, removed). What was opened is probed (06, 11.2); a leaf that
 * comes back lacks the txgs that were written meanwhile (its DTL). A device that has grown shows its new size (psize,
 * vdev_max_asize), and has its uberblocks at its new end. Waits; not twice at once on the same tree; not for threads
 * that complete requests.
 */
void vdev_reopen(struct vdev *vd, vdev_open_fn open, void *arg);
/* Closes a leaf likewise and leaves it in this state: 0. -EBUSY: the device has not given back every request; it is
 * closed when it has (by the next reopening, or with the tree), but is not used any more. */
int vdev_leaf_close(struct vdev *leaf, enum vdev_state s, enum vdev_aux aux);
/* Whether the tree's devices would take more than is configured, all of them there (06, 1.5 rule 2); takes the new size
 * over then. */
bool vdev_expand(struct vdev *top);
/* 0, or why this tree must not be written although it can be read: -ENOTSUP, in words. Needs no open devices. */
int vdev_why_not_writable(const struct vdev *root, struct err *e);

/* The txgs that a leaf lacks (06, 4.4): any thread. [from, to). */
void vdev_dtl_add(struct vdev *leaf, uint64_t from, uint64_t to); /* tells events->dtl when it is news */
void vdev_dtl_remove(struct vdev *leaf, uint64_t from, uint64_t to);
bool vdev_dtl_has(const struct vdev *leaf, uint64_t txg);
bool vdev_dtl_is_empty(const struct vdev *leaf);
void vdev_dtl_copy(const struct vdev *leaf, struct rangetree *out); /* added to what is in *out */
/* What was loaded: the leaf takes the ranges, *rt is empty then. */
void vdev_dtl_take(struct vdev *leaf, struct rangetree *rt);

struct vdev *vdev_by_guid(struct vdev *root, uint64_t guid);
bool vdev_is_leaf(const struct vdev *vd);
bool vdev_is_concrete(const struct vdev *vd);
bool vdev_is_readable(const struct vdev *vd);
/* Takes writes. (Of a tree that was opened read-only no leaf does; only the leaves know.) */
bool vdev_is_writable(const struct vdev *vd);
/* Name as zpool status shows it: "mirror-0", "raidz2-1", "draid1:4d:6c:1s-0", device name. flags: see below. *out is
 * malloc'd. */
#define VDEV_NAME_GUID   1u
#define VDEV_NAME_PATH   2u /* full path */
#define VDEV_NAME_FOLLOW 4u /* resolve links */
char *vdev_name(const struct vdev *vd, unsigned flags);
const char *vdev_state_name(const struct vdev *vd); /* ONLINE, DEGRADED, ... as status prints */
uint64_t vdev_psize_to_asize(const struct vdev *top, uint64_t psize, uint64_t txg);
/* floor(131072 / (asize(131072) / 512)): 512 for disks and mirrors (06, 1.7). */
uint64_t vdev_deflate_ratio(const struct vdev *top);
/* The asize that the devices would allow now, whatever is configured; 0 when a device is not there. */
uint64_t vdev_max_asize(const struct vdev *vd);
/* Smallest stored size of a block (label key min_alloc): a sector; for dRAID the data of a row. */
uint64_t vdev_min_alloc(const struct vdev *top);

/*
 * Changing the shape of a tree whose top-levels are in use. One thread at a time; others may be walking the tree.
 * A top-level made by vdev_tree_create (id: the number of top-levels there are) and opened becomes the tree's.
 */
void vdev_add_top(struct vdev *root, struct vdev *top);
/* A top-level that nothing is sent to any more, its devices closed, leaves a hole in its place. */
void vdev_to_hole(struct vdev *top);

/*
 * One request to a top-level (or, inside this floor, to any) vdev. The caller owns the struct until done. Requests that
 * overlap and are in flight at once, one of them a write, happen in any order.
 */
enum vdev_op { VDEV_OP_READ, VDEV_OP_WRITE, VDEV_OP_TRIM, VDEV_OP_FLUSH };
/* Classes of the leaf queues (06, 10.1): each has its tunables zfs_vdev_<class>_min_active, _max_active. */
enum vdev_class {
	VDEV_SYNC_READ,
	VDEV_SYNC_WRITE,
	VDEV_ASYNC_READ,
	VDEV_ASYNC_WRITE,
	VDEV_SCRUB,
	VDEV_REMOVAL,
	VDEV_INITIALIZE,
	VDEV_TRIM,
	VDEV_REBUILD,
	VDEV_CLASSES
};
#define VDEV_READ_SPECULATIVE 1u /* prefetch: lower priority, no error counters */
#define VDEV_READ_SCRUB       2u /* every copy is read and verified, not only the first good one */
#define VDEV_READ_NO_RETRY    4u /* one attempt, no reconstruction */
/* inside this floor: */
#define VDEV_READ_NO_STALE  0x100u /* a device that lacks the txg is not read */
#define VDEV_READ_BOOT_AREA 0x200u /* offset counts from device byte 512 KiB (scratch of a RAIDZ expansion) */
struct vdev_io {
	uint64_t offset; /* bytes in the vdev's allocatable space (leaf: without the 4 MiB front) */
	uint64_t size;   /* bytes, multiple of 512 */
	uint8_t *data;   /* size rounded up to 2^ashift is there (a write writes all of that), 4096-aligned */
	uint64_t txg;    /* physical birth of the block (DTLs, RAIDZ expansion) */
	unsigned flags;
	/* 0 when data is right. May run on any cpu worker. NULL: anything that was read is right. */
	int (*verify)(struct vdev_io *io, const uint8_t *data);
	/* 0; -ECKSUM: read but never verified; -EIO, -ENXIO: not readable; -EINVAL: outside the vdev; -ENOMEM. On any
	 * thread (also inside vdev_read), does not block. */
	void (*done)(struct vdev_io *io, int err);
	void *arg;
	enum vdev_op op;       /* set by vdev_read, vdev_write ... */
	enum vdev_class class; /* writes: set by the caller */
	/* vdev floor's own */
	struct task task;
	void *priv;
	struct vdev *vd;
	struct vdev *from; /* the leaf that gave the data last read */
	unsigned depth;    /* of reads through indirect vdevs and distributed spares */
	uint32_t zeros;    /* write: so many bytes of zeros follow the data */
	uint32_t pad;      /* write: so many bytes behind all that may become zeros */
	struct {           /* the leaf's queue */
		struct list_node fifo;
		struct tree_node sorted;
		unsigned class;
		uint64_t since_ns; /* when it was queued */
		bool alone;        /* not to be aggregated: the aggregate failed */
		bool retried;      /* a write that has failed once */
		struct queue_device *device;
		struct disk_req req;
		struct iovec iov[2];
	} q;
};
void vdev_read(struct vdev *vd, struct vdev_io *io);
/*
 * Write io->size bytes of io->data at io->offset, a multiple of 2^ashift; io->class says how soon (VDEV_SYNC_WRITE,
 * VDEV_ASYNC_WRITE ...). Every child that is there is written. done: 0 when the data can be read back: mirrors need one
 * side, RAIDZ and dRAID at most nparity failures; who failed gets io->txg into its DTL and counts a write error. Else
 * -EIO or -ENXIO, and no DTL changes. Data is on the medium only after vdev_flush.
 */
void vdev_write(struct vdev *vd, struct vdev_io *io);
/* Give [offset, offset + size) back to the device: allocatable space whose bytes nobody needs (dRAID: whole rows of
 * groups). A device that cannot, or is not there: 0. */
void vdev_trim(struct vdev *vd, struct vdev_io *io);
/*
 * What was written to vd and done before is on the medium afterwards; of a whole tree when vd is the root. Leaves to
 * which nothing was written since their last flush are left out, and flushes of a leaf that wait share one. done: 0
 * also when devices failed but the rest has all of it; these get the txgs of what they may have lost into their DTLs.
 */
void vdev_flush(struct vdev *vd, struct vdev_io *io);
int vdev_flush_wait(struct vdev *vd);
/* How the pool's dirty data stands against its limit, in percent: more async writes are let out as it grows (10.3). 100
 * when somebody waits for the group. */
void vdev_set_dirty_percent(struct vdev *root, unsigned percent);

/*
 * Indirect (removed) vdevs need their mapping before they can be read: spa loads it from the MOS and hands it over.
 * Entries ascending by source offset; the array is copied.
 */
struct vdev_indirect_entry {
	uint64_t src_offset, size; /* bytes */
	uint64_t dst_vdev, dst_offset;
};
int vdev_indirect_set_mapping(struct vdev *vd, const struct vdev_indirect_entry *map, size_t n);
/* The mapping; *n is 0 when there is none. */
const struct vdev_indirect_entry *vdev_indirect_mapping(const struct vdev *vd, size_t *n);
/* Where a range of a top-level really is: each piece on a concrete one (or itself, when vd is not indirect). -ENXIO:
 * not mapped, -EIO: mappings in a circle; else what fn returns other than 0. */
int vdev_resolve(struct vdev *vd, uint64_t offset, uint64_t size,
		 int (*fn)(void *arg, struct vdev *vd, uint64_t offset, uint64_t size), void *arg);

/*
 * Progress of a running RAIDZ expansion: word `raidz_reflow_info` of the uberblock that the pool is opened with. To be
 * told before anything is read; concerns every raidz of the tree whose configuration says that it is expanding.
 */
void vdev_raidz_set_reflow(struct vdev *root, uint64_t reflow_info);

#endif
