/*
 * dmu/traverse.h: visiting every block pointer of an object set, with read-ahead: in pre-order (zdb -b/-c, diff, and
 * later send and scrub), or in post-order, which may stop and be resumed (freeing what was destroyed).
 */
#ifndef DMU_TRAVERSE_H
#define DMU_TRAVERSE_H

#include "dmu/dmu.h"

/* dnp: the dnode a block belongs to (NULL for the object set block itself and for meta-dnode blocks). Return 0 to go
 * on, TRAVERSE_SKIP to skip what is below, other values stop and are returned. Unreadable indirect or dnode blocks are
 * told through `error` and skipped. Called on one thread. */
#define TRAVERSE_SKIP 1
struct traverse {
	uint64_t min_txg; /* only blocks born after it */
	bool holes;       /* visit holes too; pre-order only */
	/* A block comes after all that is below it. TRAVERSE_SKIP means nothing then; what cannot be read is told
	 * through `error` and ends the traversal. Births are those of the allocation (02, 1.2). */
	bool post;
	/* Post-order from the start, or from this block on, at which an earlier traversal stopped (03, 4.12). */
	const struct zbookmark *resume;
	int (*visit)(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn);
	void (*error)(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err); /* may be NULL */
	void *arg;
};
int traverse_objset(struct objset *os, struct traverse *t);
int traverse_dnode(struct dnode *dn, struct traverse *t);

#endif
