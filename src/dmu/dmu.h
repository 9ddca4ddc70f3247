/*
 * dmu/dmu.h: object sets, dnodes and the block trees under them (docs/format/02-blocks-and-objects.md, sections 6 - 8).
 *
 * An objset is opened from its root block pointer; a dnode is a decoded, host-order, immutable copy (read-only pools
 * never change), reference counted. Each objset keeps a bounded number of dnodes that were looked up, so that holders
 * of one object share its read-ahead state. Data reads are asynchronous and hand out referenced slices of cached
 * blocks: nothing is copied here.
 *
 * A dnode does not hold its objset: hold the objset for as long as its dnodes or reads are in use. Read-ahead holds
 * both. Locks: one mutex per shard of an objset's dnode cache, one per dnode's stream detector; both innermost.
 *
 * Threads: everything may be called from any thread; *_submit, *_async never block; all others may wait for a device
 * and are not for cpu workers.
 */
#ifndef DMU_DMU_H
#define DMU_DMU_H

#include "arc/arc.h"
#include "dmu/txg.h"

/* What object sets of one pool share. */
struct dmu_pool {
	struct arc *arc;
	struct zio_pool *zp;
	struct txgs *txgs; /* NULL: the pool is opened read-only, nothing ever changes */
	/* Features that are enabled, for writing; spa changes them while they are asked (and zp->hole_birth). */
	atomic_bool lz4_compress, embedded_data, userobj_accounting, project_quota;
};

struct dnode;
enum objset_type { OBJSET_NONE = 0, OBJSET_META = 1, OBJSET_ZFS = 2, OBJSET_ZVOL = 3 };

/* objset.flags: what is accounted completely (07, 6.6). */
#define OBJSET_USERSPACE    1u
#define OBJSET_USEROBJSPACE 2u
#define OBJSET_PROJECTSPACE 4u

#define DMU_OBJECT_USERUSED    (-1ULL)
#define DMU_OBJECT_GROUPUSED   (-2ULL)
#define DMU_OBJECT_PROJECTUSED (-3ULL)

/* What a data set's properties mean for writing; filled by dsl, changed while in use (each field is read once per use).
 */
struct objset_props {                   /* each is asked and set by any thread, alone */
	_Atomic enum checksum checksum; /* resolved */
	_Atomic enum compress compress;
	_Atomic uint8_t complevel;
	_Atomic uint8_t copies;
	_Atomic uint8_t redundant_metadata; /* 0 all, 1 most, 2 some, 3 none */
	_Atomic uint8_t dedup;              /* 0 off, else the checksum; with dedup_verify */
	atomic_bool dedup_verify;
	_Atomic uint8_t sync;    /* 0 standard, 1 always, 2 disabled */
	_Atomic uint8_t logbias; /* 0 latency, 1 throughput */
	atomic_bool readonly;    /* for who serves the set; nothing here asks it */
	_Atomic uint64_t special_small;
	_Atomic uint32_t dnodesize; /* bytes; 0: legacy */
};

/*
 * What the floor above (dsl; for the MOS spa) does for an object set that is written. Any thread unless said; none
 * blocks, but for `kill`.
 */
struct objset_ops {
	/* tx_begin in this set: quota, reservation, space. tx->bytes and flags are asked; sets tx->reserved. */
	int (*reserve)(struct objset *os, struct tx *tx);
	void (*unreserve)(struct objset *os, struct tx *tx); /* tx_end */
	/* First change in this group: the set is to be synced with it. Once per group, until objset_sync_done. */
	void (*dirtied)(struct objset *os, uint64_t txg);
	/* A block came to be in this set, or is no longer referenced by it (03, 2.4, 2.5): accounts, frees or puts on
	 * the deadlist. Syncing context, from completions of writes too; returns the bytes that dnode.used changes by.
	 */
	uint64_t (*born)(struct objset *os, const struct bp *bp, struct tx *tx);
	uint64_t (*kill)(struct objset *os, const struct bp *bp, struct tx *tx);
	/* Last say on how a block is written: dedup, encryption, nop-write, class. May be NULL. */
	void (*policy)(struct objset *os, const struct dnode *dn, unsigned level, struct zio_policy *p);
	/* The set has in group txg what needs this feature of data sets (03, 1.6; its guid). May be NULL. */
	void (*uses)(struct objset *os, const char *feature, uint64_t txg);
	/* Is this feature enabled in the pool? Cheap. NULL: none is. */
	bool (*enabled)(struct objset *os, const char *feature);
	/* Owner of an object by its bonus (07, 6): -ENOENT: not counted. NULL: nothing is counted. bonus: as it is or
	 * was, in host order (attributes by their own magic); when it is empty, the spill block's bytes. dn's own
	 * fields are not those of that moment. Syncing context. */
	int (*owner)(struct objset *os, const struct dnode *dn, const uint8_t *bonus, size_t len, uint64_t *uid,
		     uint64_t *gid, uint64_t *project);
};

#define DMU_BONUS_MAX   (16384 - 192)
#define DMU_BLKID_SPILL (UINT64_MAX - 1)

struct dnode {
	struct objset *os;
	uint64_t object;
	uint8_t type, bonustype, nlevels, nblkptr, indblkshift, checksum, compress, flags, slots;
	uint32_t datablksz; /* bytes */
	uint32_t bonuslen;
	uint64_t maxblkid;
	uint64_t used; /* bytes */
	bool swapped;  /* bonus bytes are in the other byte order (bonus content is not swapped here) */
	bool has_spill;
	struct bp blkptr[3];
	struct bp spill;
	uint8_t *bonus; /* bonuslen bytes */
	atomic_uint refs;
	void *prefetch;           /* the stream detector's state */
	bool bonus_encrypted;     /* the key is not loaded: bonuslen is 0 */
	struct dnode *cache_next; /* the objset's dnode cache: hash chain, place in its list */
	struct list_node cache_node;
	pthread_mutex_t lock;      /* in sets that are written: guards every field above but os and object */
	struct dnode_dirty *dirty; /* dmu's own: dbufs and changes not yet synced; NULL: never was dirty */
	uint8_t *own_bonus;        /* bonus, once it was changed: has room to grow; else NULL */
	uint64_t tree_maxblkid;    /* of what is synced */
	uint64_t tree_seq;         /* counts what the sync made of the tree */
};

/* Single fields, as they are now, beside one who changes them. */
static inline uint64_t dnode_maxblkid(const struct dnode *dn)
{
	return __atomic_load_n(&dn->maxblkid, __ATOMIC_RELAXED);
}
static inline uint8_t dnode_type(const struct dnode *dn)
{
	return __atomic_load_n(&dn->type, __ATOMIC_RELAXED);
}
static inline uint32_t dnode_blocksize(const struct dnode *dn)
{
	return __atomic_load_n(&dn->datablksz, __ATOMIC_RELAXED);
}

struct objset {
	struct dmu_pool *dp;
	uint64_t id; /* data set object number in the MOS, 0 for the MOS */
	enum objset_type type;
	uint64_t flags;
	struct crypt_key *key; /* held; NULL when not encrypted or not loaded */
	bool encrypted;
	struct bp rootbp;
	uint8_t zil_header[192]; /* as stored; swapped says the byte order */
	uint32_t header_size;    /* bytes of the header block */
	bool swapped;
	struct dnode *meta;
	struct dnode *userused, *groupused, *projectused; /* NULL when absent */
	atomic_uint cache_flags;                          /* ARC_NOCACHE for data and/or metadata, from primarycache */
	atomic_bool cache_data, cache_metadata;
	atomic_uint refs;
	void *user; /* the floor above: SA tables, ZPL state; freed by user_free on last release */
	void (*user_free)(void *user);
	struct dnode_cache *cache;

	/* --- writing; NULL and unused in sets that never change --- */
	const struct objset_ops *ops;
	void *ops_arg; /* the floor above: the dsl_dataset, the spa */
	struct objset_props props;
	struct objset_unsynced *dirty; /* dmu's own: dirty dnodes per group, object numbers */
	struct zil *zil;               /* made by zil_open */
};

/* `key` NULL for an encrypted set: opens raw; only plain metadata (dnode fields, not bonus) can be used. */
int objset_open(struct dmu_pool *dp, uint64_t id, const struct bp *rootbp, struct crypt_key *key, struct objset **out,
		struct err *e);
struct objset *objset_hold(struct objset *os);
void objset_release(struct objset *os);

/* Special objects by their DMU_OBJECT_ numbers; object 0 is os->meta, not found here.
 * -ENOENT: free or interior slot; -EIO, -ECKSUM ...: not readable; -EINVAL: damaged dnode. */
int dnode_hold(struct objset *os, uint64_t object, struct dnode **out, struct err *e);
struct dnode *dnode_ref(struct dnode *dn);
void dnode_release(struct dnode *dn);
/* Asynchronous dnode_hold; done runs on any thread and does not block. */
struct dnode_get {
	struct objset *os;
	uint64_t object;
	void (*done)(struct dnode_get *g, int err, struct dnode *dn);
	void *arg;
	void *priv;
};
void dnode_get(struct dnode_get *g);
/* Next allocated object after *object (0 to start); -ESRCH at the end. Unreadable dnode blocks are skipped; *skipped
 * counts them (may be NULL). */
int dnode_next(struct objset *os, uint64_t *object, uint64_t *skipped);
/* Decode one dnode from 512*slots bytes with checks; os may be NULL. For tools and fuzzers. */
int dnode_decode(const uint8_t *phys, size_t avail, bool swap, struct dnode **out);

/* A slice of a file's bytes in a cached block; buf NULL: zeros (a hole) or, when err is set, unreadable. */
struct dmu_slice {
	struct buf *buf;
	const uint8_t *data; /* len bytes; for holes and errors: NULL */
	uint32_t len;
	int err;
};

#define DMU_READ_CONTINUE   1u /* unreadable blocks become slices with err instead of failing the read */
#define DMU_READ_NOPREFETCH 2u
#define DMU_READ_NOCACHE    4u

/*
 * Read [offset, offset + length). Past the end of the last block reads as holes: the caller cuts at file size. done:
 * slices in order, together `length` bytes. dmu_read_finish releases them. length <= 64 MiB.
 */
struct dmu_read {
	struct dnode *dn;
	uint64_t offset, length;
	unsigned flags;
	void (*done)(struct dmu_read *r, int err); /* any thread, may run inside dmu_read_submit; does not block */
	void *arg;
	struct dmu_slice *slice;
	unsigned nslices;
	void *priv;
};
void dmu_read_submit(struct dmu_read *r);
void dmu_read_finish(struct dmu_read *r);
/* Blocking, into memory. */
int dmu_read(struct dnode *dn, uint64_t offset, void *dst, size_t len, unsigned flags);

/* *offset moves to the next data (hole = false) or hole (true) at or after it, from pointers alone. -ESRCH: none before
 * the end of blocks. */
int dmu_next_offset(struct dnode *dn, uint64_t *offset, bool hole);
/* Where the hole behind the last block begins, seen from `offset`, in a file of `size` bytes. */
static inline uint64_t dmu_blocks_end(const struct dnode *dn, uint64_t offset, uint64_t size)
{
	uint64_t end;

	if (dn->maxblkid == UINT64_MAX || __builtin_mul_overflow(dn->maxblkid + 1, (uint64_t)dn->datablksz, &end))
		end = size;
	return MAX(offset, MIN(end, size));
}
/* The pointer of block blkid at a level (0 = data). Holes come back as holes. For spill: level 0, DMU_BLKID_SPILL. */
int dmu_block_pointer(struct dnode *dn, unsigned level, uint64_t blkid, struct bp *out);
/* Read the spill block. */
int dmu_spill_read(struct dnode *dn, struct buf **out);

/* =================================== writing ===================================
 *
 * What is on the device is a tree of immutable blocks. A change is a dbuf: one block of one dnode with its unsynced
 * contents, one per group in which it was changed. Readers look at the dbufs first, then at the tree. A block of which
 * only parts were written keeps the parts and is completed from the tree no earlier than it must be: when it is read or
 * synced; a whole block is never read first. Syncing writes the dbufs of one group, then the indirect blocks above
 * them, and swaps the dnode's root pointers; then the dbufs go, and the blocks stay in the ARC.
 *
 * In a set that is written there is one live struct dnode per object while anybody holds it or it is dirty. Its fields
 * are read under dn->lock by who cares for a consistent view of more than one; bonus bytes only through dmu_bonus_read.
 *
 * All functions below: open context inside a transaction, or syncing context; they never wait for a device unless they
 * say so. Contents go in as they are stored, host order.
 */

struct dmu_object {
	uint8_t type, bonustype;
	uint16_t bonuslen;
	uint32_t blocksize;  /* 0: 512 */
	uint8_t indblkshift; /* 0: 17 */
	uint8_t nlevels;     /* 0: 1 */
	uint32_t dnodesize;  /* bytes, 0: 512 */
};
/* An object number nobody uses (02, 6.5). May wait for dnode blocks. */
int dmu_object_alloc(struct objset *os, const struct dmu_object *spec, struct tx *tx, uint64_t *object);
/* That very number: -EEXIST. May wait for its dnode block. */
int dmu_object_claim(struct objset *os, uint64_t object, const struct dmu_object *spec, struct tx *tx);
/* All blocks, bonus and slots, with this group. -ENOENT. May wait for its dnode block, when nobody holds the object. */
int dmu_object_free(struct objset *os, uint64_t object, struct tx *tx);
/* While it has at most one block: -ENOTSUP after that. */
int dmu_object_set_blocksize(struct dnode *dn, uint32_t blocksize, unsigned indblkshift, struct tx *tx);
void dmu_object_set_algorithms(struct dnode *dn, uint8_t checksum, uint8_t compress, struct tx *tx);
void dmu_object_set_type(struct dnode *dn, uint8_t type, uint8_t bonustype, uint16_t bonuslen, struct tx *tx);

/* Copies. Grows the file's blocks as needed. */
int dmu_write(struct dnode *dn, uint64_t offset, const void *data, size_t len, struct tx *tx);
/* A whole block without copying: takes a reference; nobody writes the buffer any more. buf->size is the block size. */
int dmu_write_block(struct dnode *dn, uint64_t blkid, struct buf *buf, struct tx *tx);
/* The range becomes a hole. len UINT64_MAX: to the end of the object; then blocks beyond are gone (maxblkid shrinks).
 */
int dmu_free_range(struct dnode *dn, uint64_t offset, uint64_t len, struct tx *tx);
/* A block as it will be after the changes so far, shared and immutable. Waits for devices. -ENOENT: a hole. */
int dmu_block_get(struct dnode *dn, uint64_t blkid, struct buf **out);
/* Is the block in the other byte order? Unsynced contents never are: a block of the other order is turned (02, 11) when
 * it is changed in parts, and so is a bonus. Waits for devices. */
int dmu_block_is_swapped(struct dnode *dn, uint64_t blkid, bool *swapped);

/* Bytes of the bonus buffer, at any time; -EINVAL beyond its end. */
int dmu_bonus_read(struct dnode *dn, size_t offset, void *dst, size_t len);
/* One number, in host order. */
int dmu_bonus_u64(struct dnode *dn, size_t offset, uint64_t *v);
/* Its first words in host order; those that it lacks are 0. Returns how many it has, at most max. */
static inline size_t dmu_bonus_words(struct dnode *dn, uint64_t *w, size_t max)
{
	size_t n = MIN(dn->bonuslen / 8, max);
	bool swapped;

	memset(w, 0, max * 8);
	do { /* the first change of a bonus turns it into our order */
		swapped = dn->swapped;
		if (dmu_bonus_read(dn, 0, w, n * 8))
			return 0;
	} while (swapped != dn->swapped);
	if (swapped)
		swap64_buffer(w, n * 8);
	return n;
}
int dmu_bonus_write(struct dnode *dn, size_t offset, const void *data, size_t len, struct tx *tx);
int dmu_bonus_set_size(struct dnode *dn, size_t len, struct tx *tx);
int dmu_spill_write(struct dnode *dn, struct buf *buf, struct tx *tx); /* takes a reference */
int dmu_spill_remove(struct dnode *dn, struct tx *tx);

/*
 * For the intent log: write the block as it is in group txg now to its final place, ahead of the group's sync, and tell
 * the pointer. The sync then takes the pointer over unless the block was changed again. Several calls for the same
 * contents get the same pointer. -EEXIST: txg is being synced or was (the caller waits for the group); -ENOENT: it was
 * freed in this group after it was written. done: any thread, does not block. The pointer may be a hole.
 */
struct dmu_sync {
	struct dnode *dn;
	uint64_t blkid, txg;
	struct bp bp;
	void (*done)(struct dmu_sync *s, int err);
	void *arg;
	void *priv;
};
void dmu_sync(struct dmu_sync *s);

/* --- object sets --- */

/* Makes an opened set writable; ops as above. */
void objset_set_writable(struct objset *os, const struct objset_ops *ops, void *ops_arg);
/* A new, empty one of which nothing is on the device yet. It becomes dirty in tx. */
int objset_create(struct dmu_pool *dp, uint64_t id, enum objset_type type, const struct objset_ops *ops, void *ops_arg,
		  struct crypt_key *key, struct tx *tx, struct objset **out);
bool objset_is_dirty(struct objset *os, uint64_t txg);
/* The header is written with this group, even if no object changes. */
void objset_dirty(struct objset *os, struct tx *tx);
/*
 * Writes all that is dirty in tx->txg: data, indirect blocks, dnodes, the header; waits; os->rootbp is the new root.
 * Again and again in one group as long as it is dirty (the MOS; a data set after its user accounting). The sync thread,
 * or a thread of its own per set. Errors: only when the pool is being dropped.
 */
int objset_sync(struct objset *os, struct tx *tx);
/* After objset_sync of data sets in pass 1: user, group and project accounting of what was written (07, 6.5); dirties
 * the set again. */
void objset_sync_accounting(struct objset *os, struct tx *tx);
/* The group is on the devices. */
void objset_sync_done(struct objset *os, uint64_t txg);
/* Drop every unsynced change (a pool that is lost). */
void objset_abandon(struct objset *os);
/* Header fields that the floors above keep: 192 bytes of the ZIL; flags. Syncing context. */
void objset_set_zil_header(struct objset *os, const uint8_t header[192], struct tx *tx);
void objset_set_flags(struct objset *os, uint64_t flags, struct tx *tx);

#endif
