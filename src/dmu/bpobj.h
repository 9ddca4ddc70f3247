/*
 * dmu/bpobj.h: lists of block pointers on disk, and deadlists made of them (docs/format/02 10.2-10.4; 03 section 3).
 * Read side; blocking.
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

#endif
