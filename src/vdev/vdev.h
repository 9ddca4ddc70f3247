/*
 * vdev/vdev.h: the tree of virtual devices, its reads and writes (docs/format/06-allocation-and-vdevs.md; labels:
 * 01-pool.md section 2, 4).
 *
 * A tree is built from a configuration nvlist (vdev_tree_create), its leaves opened (vdev_tree_open) and validated. A
 * read names a top-level vdev, an offset in its allocatable space and the block's birth; each kind of vdev is a state
 * machine that issues reads to its children. The caller's `verify` says whether bytes are right, so that mirrors try
 * the next side and RAIDZ/dRAID try parity combinations: redundancy lives here, checksums above.
 *
 * Locks: the tree's shape does not change while reads are in flight (read-only pools: never after open). Per-leaf queue
 * lock: see queue.c. Counters are atomic.
 */
#ifndef VDEV_VDEV_H
#define VDEV_VDEV_H

#include "base/base.h"
#include "base/counter.h"
#include "base/err.h"
#include "base/rangetree.h"
#include "base/taskq.h"
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
	struct counter read_ops, read_bytes, slow_ios;
	struct counter read_errors, write_errors, checksum_errors;
};

struct vdev;
struct vdev_io;

struct vdev_ops {
	const char *type; /* the word in the configuration */
	enum vdev_kind kind;
	/* Check and take the kind's own configuration keys; the children are there. NULL: has none. */
	int (*create)(struct vdev *vd, const struct nvlist *config, struct err *e);
	void (*read)(struct vdev *vd, struct vdev_io *io);
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
	uint64_t ashift; /* of the top-level vdev */
	uint64_t asize;  /* bytes; of a top-level: allocatable as configured */
	uint64_t create_txg;
	uint64_t nparity;            /* raidz, draid */
	uint64_t ms_array, ms_shift; /* metaslabs of a top-level (MOS object, log2 size) */
	bool is_log, is_spare, is_hole, offline, removed, faulted, not_present, removing, noalloc;
	const char *alloc_bias; /* "log", "special", "dedup" or NULL; set by spa from the top-level ZAP */

	enum vdev_state state;
	enum vdev_aux aux;

	char *path;           /* leaf: where it was opened, or as configured */
	char *was_path;       /* leaf that is missing: its recorded path */
	struct disk *disk;    /* leaf: open device or NULL */
	uint64_t psize;       /* leaf: device size rounded down to 256 KiB */
	uint64_t dtl_object;  /* leaf: MOS space map of missing txgs, 0 = none */
	struct rangetree dtl; /* leaf: txgs this device lacks; filled by spa before data is read */
	uint64_t zap_top, zap_leaf;

	struct vdev_stats stats;
	struct nvlist *config;    /* own copy of this node's configuration, without children */
	void *priv;               /* the kind's own */
	struct vdev_queue *queue; /* leaf */
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
struct vdev *vdev_by_guid(struct vdev *root, uint64_t guid);
bool vdev_is_leaf(const struct vdev *vd);
bool vdev_is_concrete(const struct vdev *vd);
bool vdev_is_readable(const struct vdev *vd);
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
 * One request to a top-level (or, inside this floor, to any) vdev. The caller owns the struct until done.
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
	uint8_t *data;   /* size rounded up to 2^ashift is writable, 4096-aligned */
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
	struct {           /* the leaf's queue */
		struct list_node fifo;
		struct tree_node sorted;
		unsigned class;
		uint64_t since_ns; /* when it was queued */
		bool alone;        /* not to be aggregated: the aggregate failed */
		struct disk_req req;
		struct iovec iov;
	} q;
};
void vdev_read(struct vdev *vd, struct vdev_io *io);
/*
 * Write io->size bytes of io->data (size a multiple of 2^ashift of a mirror or leaf; what RAIDZ and dRAID store of it
 * is their matter), with io->class VDEV_SYNC_WRITE or VDEV_ASYNC_WRITE. Mirrors write every child that is there. done:
 * 0 when the data can be read back (enough children have it; those that have not get io->txg into their DTL and count a
 * write error), else -EIO or -ENXIO. Data is on the medium only after vdev_flush.
 */
void vdev_write(struct vdev *vd, struct vdev_io *io);
/* Give [offset, offset + size) back to the device: allocatable space whose bytes nobody needs. A leaf that cannot: 0.
 */
void vdev_trim(struct vdev *vd, struct vdev_io *io);
/* Everything that was written to vd before is on the medium afterwards; of a whole tree when vd is the root. A leaf to
 * which nothing was written since its last flush may be left out. */
void vdev_flush(struct vdev *vd, struct vdev_io *io);
int vdev_flush_wait(struct vdev *vd);
bool vdev_is_writable(const struct vdev *vd);
/* How the pool's dirty data stands against its limit, in percent: more async writes are let out as it grows (10.3). */
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
