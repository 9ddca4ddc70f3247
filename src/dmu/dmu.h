/*
 * dmu/dmu.h: object sets, dnodes and the block trees under them, read side (docs/format/02-blocks-and-objects.md,
 * sections 6 - 8).
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

/* What object sets of one pool share. */
struct dmu_pool {
	struct arc *arc;
	struct zio_pool *zp;
};

enum objset_type { OBJSET_NONE = 0, OBJSET_META = 1, OBJSET_ZFS = 2, OBJSET_ZVOL = 3 };

#define DMU_OBJECT_USERUSED    (-1ULL)
#define DMU_OBJECT_GROUPUSED   (-2ULL)
#define DMU_OBJECT_PROJECTUSED (-3ULL)

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
};

struct objset {
	struct dmu_pool *dp;
	uint64_t id; /* data set object number in the MOS, 0 for the MOS */
	enum objset_type type;
	uint64_t flags;
	struct crypt_key *key; /* held; NULL when not encrypted or not loaded */
	bool encrypted;
	struct bp rootbp;
	uint8_t zil_header[192]; /* as stored; swapped says the byte order */
	bool swapped;
	struct dnode *meta;
	struct dnode *userused, *groupused, *projectused; /* NULL when absent */
	unsigned cache_flags;                             /* ARC_NOCACHE for data and/or metadata, from primarycache */
	bool cache_data, cache_metadata;
	atomic_uint refs;
	void *user; /* the floor above: SA tables, ZPL state; freed by user_free on last release */
	void (*user_free)(void *user);
	struct dnode_cache *cache;
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

#endif
