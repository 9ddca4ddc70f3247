/*
 * dmu/bpobj.h: lists of block pointers on disk, and deadlists made of them (docs/format/02 10.2-10.4; 03 section 3).
 * Blocking.
 */
#ifndef DMU_BPOBJ_H
#define DMU_BPOBJ_H

#include "dmu/dmu.h"

struct bpobj_phys {
	uint64_t num_blkptrs, bytes, comp, uncomp, subobjs, num_subobjs, num_freed;
	bool has_comp, has_subobjs, has_freed;
};
int bpobj_read(struct objset *mos, uint64_t object, struct bpobj_phys *out);
/*
 * Every entry, last to first, then those of the sub-objects, last to first. freed: the entry is a free (livelists); its
 * mark is taken off the pointer. Stops at what fn returns other than 0. -EINVAL: damage, also when an object is met
 * twice. Checksums and IV tails are not kept in such pointers: they can be counted, not read.
 */
typedef int (*bpobj_fn)(void *arg, const struct bp *bp, bool freed);
int bpobj_iterate(struct objset *mos, uint64_t object, bpobj_fn fn, void *arg);
/* Root pointers of destroyed object sets whose blocks born after `birth` are still to be freed. */
int bptree_iterate(struct objset *mos, uint64_t object, int (*fn)(void *arg, const struct bp *root, uint64_t birth),
		   void *arg);

/* --- writing; syncing context, one thread at a time per list --- */

/* Bytes of a new list's bonus (3.1): pools of old versions leave fields out. */
static inline unsigned bpobj_bonuslen(uint64_t pool_version, bool livelist_active)
{
	return pool_version < 3 ? 16 : pool_version < 26 ? 32 : livelist_active ? 56 : 48;
}
/* Block size in bytes: 0 for the usual 128 KiB. */
int bpobj_create(struct objset *mos, unsigned bonuslen, uint32_t blocksize, struct tx *tx, uint64_t *object);
/* The object and its sub-objects, whose pointers are not looked at. */
int bpobj_destroy(struct objset *mos, uint64_t object, struct tx *tx);
/* An open list: what is appended is gathered in memory, and goes to the object with the counts at bpobj_flush. */
struct bpobj;
int bpobj_open(struct objset *mos, uint64_t object, struct bpobj **out);
int bpobj_flush(struct bpobj *b, struct tx *tx);
void bpobj_close(struct bpobj *b); /* flushed; NULL is fine */
/* `deflated`: the space that counts for this pointer (03, 2.1). Holes are passed over. */
int bpobj_enqueue(struct bpobj *b, const struct bp *bp, bool freed, uint64_t deflated, struct tx *tx);
/* As bpobj_iterate, of what bpobj_iterate does not see yet. */
int bpobj_each_pending(struct bpobj *b, bpobj_fn fn, void *arg);
/* Takes over the list `sub`, which nobody has open and nobody else refers to: it may be gone afterwards. Not for the
 * shared empty list (dsl_bpobj_enqueue_sub). */
int bpobj_enqueue_sub(struct bpobj *b, uint64_t sub, struct tx *tx);
/* Takes entries off, last to first, as fn consumes them (0); at fn's other return the entry stays, and it is returned.
 * `deflated` as above, what the entry counts for. The list is flushed then. */
struct bpobj_consumer {
	int (*fn)(void *arg, const struct bp *bp, bool freed, struct tx *tx);
	uint64_t (*deflated)(void *arg, const struct bp *bp);
	void *arg;
};
int bpobj_consume(struct bpobj *b, const struct bpobj_consumer *c, struct tx *tx);
bool bpobj_is_empty(const struct bpobj *b);
const struct bpobj_phys *bpobj_counts(const struct bpobj *b);
uint64_t bpobj_object(const struct bpobj *b);

#endif
