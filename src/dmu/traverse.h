/*
 * dmu/traverse.h: visiting every block pointer of an object set, in pre-order, with read-ahead. Used by zdb -b/-c,
 * diff, and later by send and scrub.
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
	bool holes;       /* visit holes too */
	int (*visit)(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn);
	void (*error)(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err); /* may be NULL */
	void *arg;
};
int traverse_objset(struct objset *os, struct traverse *t);
int traverse_dnode(struct dnode *dn, struct traverse *t);

#endif
