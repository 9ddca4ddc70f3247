/*
 * dmu/dmu_impl.h: what the files of object sets, dnodes and block trees share, and nobody else includes.
 */
#ifndef DMU_DMU_IMPL_H
#define DMU_DMU_IMPL_H

#include "dmu/dmu.h"

struct waiter;

#define DNODE_SHIFT      9
#define DNODE_SIZE       (1u << DNODE_SHIFT)
#define DNODE_LEVELS_MAX 12u
#define DNODE_BLOCK      16384u /* of the meta-dnode */
#define DMU_OBJECT_END   (UINT64_C(1) << 48)

/* --- dnodes --- */

void dnode_destroy(struct dnode *dn);
struct dnode_cache *dnode_cache_create(void);
void dnode_cache_destroy(struct dnode_cache *c);
/* A dnode that nothing is on the device of: a free slot (type 0), to be filled by a change. */
struct dnode *dnode_create_free(struct objset *os, uint64_t object, unsigned slots, unsigned nblkptr,
				unsigned indblkshift);
/* The live dnode of an object, if there is one, be it of a freed object; one reference. */
struct dnode *dnode_cache_get(struct dnode_cache *c, uint64_t object);
/* Makes dn the live dnode; returns it, or the one that is there already, in whose favour dn is released. `synced` as it
 * was when dn was read from the tree: NULL when the tree has changed since. */
struct dnode *dnode_cache_put(struct dnode_cache *c, struct dnode *dn, uint64_t synced);
/* It is live no more: its object is gone. Called with its lock; the caller holds it. */
void dnode_cache_remove(struct dnode_cache *c, struct dnode *dn);
/* First slot at or after `slot` of a dnode block at which a dnode starts, or -1; the block is walked from its start, as
 * interior slots hold bonus bytes. */
int dnode_block_next(const uint8_t *data, size_t size, unsigned slot);
/* Type byte of a special dnode in the object set header may be 0: then *out is NULL. */
int dnode_decode_os(struct objset *os, uint64_t object, const uint8_t *phys, size_t avail, bool swap,
		    struct dnode **out);

/* --- block addressing (6.3) --- */

static inline unsigned dnode_epb_shift(const struct dnode *dn)
{
	return dn->indblkshift - 7u;
}
/* a >> b for any b. */
static inline uint64_t shift_down(uint64_t a, unsigned b)
{
	return b < 64 ? a >> b : 0;
}
/* Flags for reading a block of this dnode, by its pointer. */
unsigned dmu_arc_flags(const struct dnode *dn, const struct bp *bp);

/*
 * A walk finds the pointer of block `blkid` at `level`. Set dn, level, blkid, flags (more ZIO_ and ARC_ flags for
 * indirect blocks), done. done may run inside dmu_walk_start; `bp` is then a hole, also when an indirect above is one
 * (hole_level says which level's pointer was the hole), or the pointer. `indirect` holds the block that bp was found
 * in, NULL when bp comes from the dnode or from a hole above; dmu_walk_end releases it.
 */
/* The tree of a dnode as it was at one moment. */
struct dnode_tree {
	uint64_t seq, maxblkid;
	uint32_t datablksz;
	uint8_t nlevels, nblkptr, epb_shift;
	struct bp blkptr[3];
};
void dnode_tree_get(struct dnode *dn, struct dnode_tree *t);

struct dmu_walk {
	struct arc_read ar;
	struct dnode_tree tree;
	struct dnode *dn;
	unsigned level;
	uint64_t blkid;
	unsigned flags;
	void (*done)(struct dmu_walk *w, int err);

	struct bp bp;
	struct buf *indirect;
	bool swapped; /* byte order of the pointers in `indirect` */
	unsigned hole_level;
	struct waiter *waiter; /* dmu_walk_wait */
	unsigned at;           /* level of bp; after a failure the level that could not be read */
};
void dmu_walk_start(struct dmu_walk *w);
void dmu_walk_end(struct dmu_walk *w);
/* Blocking; dmu_walk_end follows, also after errors. */
int dmu_walk_wait(struct dmu_walk *w);
/* How many blocks from w->blkid on can be had by dmu_walk_pointer after a walk. */
uint64_t dmu_walk_span(const struct dmu_walk *w);
/* Pointer of block w->blkid + i, i < span. */
void dmu_walk_pointer(const struct dmu_walk *w, uint64_t i, struct bp *bp);

/* The next block at or after *blkid (at level 0) that is a hole or not; -ESRCH: none up to maxblkid. On a read error
 * *fail_level is the level that could not be read and *blkid the first block beneath. */
int dmu_next_block(struct dnode *dn, uint64_t *blkid, bool hole, unsigned *fail_level);

/* Turns contents of a type to the other byte order (02, section 11). */
void dmu_swap_contents(unsigned type, uint8_t *p, size_t size);

/* --- read-ahead (prefetch.c) --- */

struct prefetch_plan {
	struct dnode *dn; /* NULL: nothing to do; else held, and its objset */
	unsigned stream, generation;
	uint64_t start; /* first block */
	int64_t stride; /* from run to run, may be negative */
	uint32_t run;   /* blocks in one run */
	uint32_t runs;
};
/* Notes the access and says what to read ahead. */
void dmu_prefetch_plan(struct dnode *dn, uint64_t blkid, uint64_t nblocks, struct prefetch_plan *plan);
/* Starts the reads; never waits. Ends the plan. */
void dmu_prefetch_run(struct prefetch_plan *plan);
void dmu_prefetch_destroy(struct dnode *dn);

#endif
