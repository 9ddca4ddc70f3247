/*
 * dmu/dbuf.h: what is not synced yet: versions of blocks, freed ranges, and what each group leaves of a dnode. Internal
 * to dmu/.
 *
 * A block that was changed has a struct dbuf in its dnode's table, with one version per group in which it was, newest
 * first. What lies beneath the parts of a version that were not written (DBUF_PARTIAL) is always: the next older
 * version when that one is written already, else the tree. So when a version is made, the unwritten contents of the
 * older ones are taken over into it. Freed blocks are ranges of a group; a range counts for a block unless the block
 * has a live version of that group or a younger one. A change by a transaction of an older group, after one of a
 * younger group, goes to both: the last one in time wins everywhere.
 *
 * Locks, in order: dnode.lock; a shard's lock (its tree, the dbufs and versions in it); free_lock;
 * objset_unsynced.lock. None is held while waiting or calling back.
 */
#ifndef DMU_DBUF_H
#define DMU_DBUF_H

#include "base/rangetree.h"
#include "dmu/dmu_impl.h"

enum dbuf_state {
	DBUF_DROPPED, /* as if it had never been written */
	DBUF_PARTIAL, /* buf holds what the segments say */
	DBUF_FULL,
	DBUF_WRITTEN, /* by the running sync: at bp, buf is gone */
};

struct dbuf_wait;

struct dbuf_seg {
	uint32_t start, end;
};

struct dbuf_version {
	struct dbuf_version *older;
	struct dbuf_version *next; /* in the group's list */
	struct dbuf *db;
	uint64_t txg;
	enum dbuf_state state;
	uint32_t nsegs, segs_room;
	struct dbuf_seg *seg; /* PARTIAL: sorted, apart */
	struct buf *buf;
	uint32_t charged;            /* bytes told to txg_dirty_add */
	struct dbuf_place *place;    /* WRITTEN; or FULL and written ahead of the sync (dmu_sync.c); else NULL */
	struct dbuf_place *retired;  /* where it was written ahead, before it changed again */
	struct dmu_sync_op *ahead;   /* the last one that went to write it ahead of the sync, while it is at it */
	unsigned naheads;            /* such writes in flight */
	struct dbuf_wait *sync_wait; /* the sync waits for their end */
};

/* A place on the devices that a version was written to. */
struct dbuf_place {
	struct dbuf_place *next;
	struct bp bp;
};

struct dbuf {
	struct tree_node node;
	uint64_t blkid;
	struct dbuf_version *newest;
	struct dbuf_fill *fill; /* PARTIAL versions are being completed */
};

struct dbuf_shard {
	_Alignas(64) pthread_mutex_t lock;
	struct tree tree; /* struct dbuf by blkid */
};

/* The fields of a dnode that changes in open context touch. */
struct dnode_shape {
	uint8_t type, bonustype, nblkptr, indblkshift, checksum, compress, slots;
	bool has_spill;
	uint32_t datablksz, bonuslen;
	uint64_t maxblkid;
};

struct dnode_state {
	struct dnode_shape shape;
	bool swapped; /* of the bonus */
	uint8_t *bonus;
};

/* Changes of one group. */
struct dnode_group {
	struct list_node node;     /* objset_unsynced.group[].dnodes */
	atomic_uint_fast64_t txg;  /* 0: clean; set under dnode.lock */
	struct dnode_state *state; /* how the group leaves the dnode; NULL: as it is now, no younger group changed it */
	atomic_bool syncing;       /* its sync has begun: nothing is written ahead of it any more */
	bool reborn;               /* freed in this group: all that was before goes. dnode.lock */
	atomic_uint nfreed;        /* ranges in `freed` */
	struct rangetree freed;    /* blkids; free_lock */
	_Atomic(struct dbuf_version *) versions;
};

/*
 * From pass 2 on the sync writes blocks of its own group over in place, while the tree that readers walk still has the
 * old pointers. What readers then miss they find here: data in the versions of the group, which stay until the new tree
 * is in place, indirect blocks among those kept.
 */
struct dnode_kept {
	struct dnode_kept *next;
	struct bp bp;
	struct buf *buf;
};

struct dnode_dirty {
	struct dnode *dn;
	struct dnode_kept *kept;      /* dnode.lock */
	atomic_uint nblocks;          /* dbufs */
	atomic_uint nfrees;           /* groups with freed ranges */
	atomic_uint_fast64_t newest;  /* the youngest dirty group, 0: clean; set under dnode.lock */
	pthread_mutex_t free_lock;    /* every group's `freed` */
	struct dnode_state *base;     /* as it is in the tree, while dirty; dnode.lock */
	uint8_t nblkptr, indblkshift; /* of the next sync; those in struct dnode are the tree's. dnode.lock */
	struct dnode_group group[TXG_SIZE];
	unsigned nshards; /* power of two */
	struct dbuf_shard shard[];
};

static inline struct dnode_group *dnode_group(struct dnode_dirty *dd, uint64_t txg)
{
	return &dd->group[txg & TXG_MASK];
}
static inline struct dnode *dnode_of_group(struct dnode_group *g, uint64_t txg)
{
	return container_of(g - (txg & TXG_MASK), struct dnode_dirty, group[0])->dn;
}
static inline struct dnode_dirty *dnode_dirty_peek(const struct dnode *dn)
{
	return __atomic_load_n(&dn->dirty, __ATOMIC_ACQUIRE);
}
/* Nothing of its blocks is unsynced: the tree alone tells. */
static inline bool dnode_has_overlay(const struct dnode *dn)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);

	return dd && (atomic_load(&dd->nblocks) || atomic_load(&dd->nfrees));
}

/* --- dnodes (dnode_dirty.c) --- */

/* Marks the dnode as changed in txg, and sees that the group's state may hold block `blkid` (UINT64_MAX: no block).
 * -ENOENT: the object was freed. */
int dnode_dirty_mark(struct dnode *dn, uint64_t txg, uint64_t blkid);
/* The same with dnode.lock held; also for freed ones. */
struct dnode_dirty *dnode_dirty_mark_locked(struct dnode *dn, uint64_t txg);
/* Runs fn on each state that a change in txg goes to: the group's and all younger ones'; the dnode itself last. A
 * state's bonus has room for bonus_room bytes. dnode.lock held. */
typedef void (*dnode_change_fn)(struct dnode_state *s, void *arg);
void dnode_change_locked(struct dnode *dn, uint64_t txg, dnode_change_fn fn, void *arg);
/* A copy of how the group leaves the dnode. dnode.lock held. */
struct dnode_state *dnode_state_of_group_locked(struct dnode *dn, uint64_t txg);
/* A copy of how it is now. dnode.lock held. */
struct dnode_state *dnode_state_copy_locked(struct dnode *dn);
void dnode_state_free(struct dnode_state *s);
/* The group is synced (or lost): its versions go, its state is what is in the tree. The caller has the reference that
 * the group held on the dnode. */
void dnode_group_end(struct dnode *dn, uint64_t txg);
void dnode_dirty_destroy(struct dnode_dirty *dd);
/* Bytes of bonus that fit. */
static inline uint32_t dnode_bonus_room(const struct dnode_shape *s)
{
	return ((uint32_t)s->slots << DNODE_SHIFT) - 64 - (uint32_t)s->nblkptr * BP_SIZE - (s->has_spill ? BP_SIZE : 0);
}

/* --- blocks (dbuf.c) --- */

void dbuf_shard_init(struct dbuf_shard *s);
static inline struct dbuf_shard *dbuf_shard(struct dnode_dirty *dd, uint64_t blkid)
{
	return &dd->shard[(blkid ^ blkid >> 4) & (dd->nshards - 1)];
}
/* NULL: the block has no unsynced contents. The shard's lock is held. */
struct dbuf *dbuf_get_locked(struct dbuf_shard *s, uint64_t blkid);

/* All: the dnode was marked for the group. `size`: the block's, in that group. */
int dbuf_write(struct dnode_dirty *dd, uint64_t blkid, uint32_t size, uint32_t offset, const void *data, uint32_t len,
	       uint64_t txg);
void dbuf_write_whole(struct dnode_dirty *dd, uint64_t blkid, struct buf *buf, uint64_t txg);
/* Dirty, contents as they are (a new size). */
int dbuf_touch(struct dnode_dirty *dd, uint64_t blkid, uint32_t size, uint64_t txg);
/* Blocks [start, end) are holes from this group on. */
void dbuf_free_range(struct dnode_dirty *dd, uint64_t start, uint64_t end, uint64_t txg);
/* The block is no longer what this group and younger ones wrote (the spill block). */
void dbuf_drop(struct dnode_dirty *dd, uint64_t blkid, uint64_t txg);

enum dbuf_found {
	DBUF_NONE, /* the tree tells */
	DBUF_HOLE,
	DBUF_DATA,  /* *buf is held */
	DBUF_BELOW, /* written already: *bp tells */
	DBUF_PARTS, /* must be completed first */
};
enum dbuf_found dbuf_find(struct dnode_dirty *dd, uint64_t blkid, struct buf **buf, struct bp *bp);
enum dbuf_found dbuf_find_locked(struct dnode_dirty *dd, const struct dbuf *db, uint64_t blkid, struct buf **buf,
				 struct bp *bp);
/* Unsynced data, not hidden by a freed range of a younger group. */
bool dbuf_has_data(struct dnode_dirty *dd, uint64_t blkid);
/* The next block at or after *blkid that has unsynced data; false: none. */
bool dbuf_next(struct dnode_dirty *dd, uint64_t *blkid);
/* The first freed block at or after `from`, and where its range ends; false: none. */
bool dbuf_next_freed(struct dnode_dirty *dd, uint64_t from, uint64_t *start, uint64_t *end);
/* Is the block freed in a group younger than `after`, up to `upto`? Data in versions aside. */
bool dbuf_is_freed(struct dnode_dirty *dd, uint64_t blkid, uint64_t after, uint64_t upto);
/* Fills the gaps of a PARTIAL version: it is FULL then. base NULL: zeros. The shard's lock is held. */
void dbuf_fill_gaps_locked(struct dbuf_version *v, const struct buf *base);
/* All of a group's versions go (they were synced, or are lost), and dbufs that have none any more; and its freed
 * ranges. */
void dbuf_forget_group(struct dnode_dirty *dd, uint64_t txg);
/* What the sync has to do with a version of its group. MUST_WRITE: *buf is held. MUST_WAIT: `w` will be done. */
enum dbuf_sync { DBUF_MUST_WAIT, DBUF_MUST_COMPLETE, DBUF_MUST_WRITE, DBUF_IS_DONE };
/* It has contents, or somebody is at it. */
bool dbuf_is_wanted(struct dnode_dirty *dd, const struct dbuf_version *v);
enum dbuf_sync dbuf_sync_look(struct dnode_dirty *dd, struct dbuf_version *v, struct dbuf_wait *w, struct buf **buf);
/* It is at bp now. */
void dbuf_written(struct dnode_dirty *dd, struct dbuf_version *v, const struct bp *bp);
/* It cannot be written: as if it had not been. */
void dbuf_give_up(struct dnode_dirty *dd, struct dbuf_version *v);
/* Frees a dbuf that nothing needs any more. The shard's lock is held. */
void dbuf_release_locked(struct dnode_dirty *dd, struct dbuf_shard *s, struct dbuf *db);

/* Completes the PARTIAL versions of a block; done: any thread, may be at once; 0 also when there is nothing to do. */
struct dbuf_wait {
	struct list_node node;
	void (*done)(struct dbuf_wait *w, int err);
};
void dbuf_complete(struct dnode *dn, uint64_t blkid, struct dbuf_wait *w);

/* --- one block, whatever it takes (dmu_fetch.c) --- */

/*
 * Reads a block as it is now: unsynced contents, or from the tree. done: any thread, maybe inside dmu_fetch_start; err
 * 0 with a buffer (one reference) or NULL for a hole. When the tree changes meanwhile and what it pointed to is gone,
 * it is walked again.
 */
struct dmu_fetch {
	struct dnode *dn;
	uint64_t blkid;
	unsigned flags;  /* ARC_, ZIO_ */
	bool tree_only;  /* what was synced */
	bool by_pointer; /* read `bp`, whatever the tree says */
	struct bp bp;    /* also out: where the contents came from, of those that were read */
	void (*done)(struct dmu_fetch *f, int err, struct buf *buf);
	bool swapped; /* out: byte order of the contents */
	struct dmu_walk walk;
	struct arc_read ar;
	struct dbuf_wait wait;
	unsigned tries;
};
void dmu_fetch_start(struct dmu_fetch *f);
/* Blocking. The caller has set dn, blkid, flags. */
int dmu_fetch_wait(struct dmu_fetch *f, struct buf **out);
/* Has the dnode's tree changed since a walk began? */
bool dmu_tree_moved(struct dnode *dn, uint64_t seq);
/* A block could not be read where the tree led: is it elsewhere by now? */
bool dmu_block_moved(struct dnode *dn, uint64_t blkid, uint64_t seq);
/* An indirect block that is about to be written over in place. */
void dnode_keep_old(struct dnode *dn, const struct bp *bp, struct buf *buf);
/* What a pointer led to before; held; NULL. */
struct buf *dnode_kept_find(struct dnode *dn, const struct bp *bp);
void dnode_kept_free(struct dnode_kept *k);

/* --- object sets --- */

struct objset_group {
	uint64_t txg;
	bool told;          /* ops->dirtied was called */
	bool header;        /* the header is to be written */
	bool meta;          /* the meta-dnode is dirty: it is not on the list */
	struct list dnodes; /* struct dnode_group */
};
struct objset_unsynced {
	pthread_mutex_t lock; /* guards group[]; innermost */
	struct objset_group group[TXG_SIZE];
	struct object_alloc *alloc; /* dmu_object.c */
	struct tree account;        /* objset_accounting.c; the syncing thread's */
	atomic_uint_fast64_t
	    synced; /* counts syncs of the meta-dnode: look-ups that were under way see that it moved */
};
/* The dnode's group record is dirty. Under dnode.lock; objset_tell_dirty follows without it. */
void objset_note_dirty(struct objset *os, struct dnode_group *g, uint64_t txg);
void objset_tell_dirty(struct objset *os, uint64_t txg);
/* Takes a dirty dnode of the group off the list, with the group's reference; NULL: none. */
struct dnode *objset_pop_dirty(struct objset *os, uint64_t txg);
/* The same for the meta-dnode. */
struct dnode *objset_take_meta(struct objset *os, uint64_t txg);
struct objset_unsynced *objset_unsynced_create(bool is_new);
void accounting_init(struct tree *account);
void accounting_clear(struct tree *account);
void objset_unsynced_destroy(struct objset_unsynced *u);

/* --- object numbers (dmu_object.c) --- */

struct object_alloc *object_alloc_create(bool is_new);
void object_alloc_destroy(struct object_alloc *oa);
/* The next object after `object` that is not in the tree yet; -ESRCH. */
int object_next_fresh(struct objset *os, uint64_t object, uint64_t *out);
/* Its slots are told by the tree from now on; freed: they may be given again. */
void object_forget_fresh(struct objset *os, uint64_t object, unsigned slots, bool freed);

#endif
