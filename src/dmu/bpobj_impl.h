/*
 * dmu/bpobj_impl.h: what reading and writing of bpobjs share (docs/format/02-blocks-and-objects.md, 10.2).
 */
#ifndef DMU_BPOBJ_IMPL_H
#define DMU_BPOBJ_IMPL_H

#include "dmu/bpobj.h"

#define BPOBJ_SUBOBJ_SIZE 8
#define BPOBJ_CHUNK       (128u << 10) /* entries are read and gathered in pieces of at most this */
#define BPOBJ_FREED       1u           /* in BPOBJ_FILL_WORD */
#define BPOBJ_FILL_WORD   11
#define BPOBJ_WORDS       7 /* of the bonus */

int bpobj_phys_decode(struct dnode *dn, struct bpobj_phys *out);
bool bpobj_array_fits(const struct dnode *dn, uint64_t count, size_t entry_size);
/* Entries [first, first + n) of one block into `out` (n * BP_SIZE bytes); *swap: as they are stored. */
int bpobj_entries_read(struct dnode *dn, uint64_t first, uint64_t n, uint8_t *out, bool *swap);
/* A stored entry; the mark is taken off. */
int bpobj_entry_decode(const uint8_t *p, bool swap, struct bp *bp, bool *freed);
/* Entries in one piece: 0 when the block size is none. */
uint64_t bpobj_step(const struct dnode *dn);
/* The i-th number of a list of sub-objects. */
int bpobj_sub_read(struct dnode *list, uint64_t i, uint64_t *object);

#endif
