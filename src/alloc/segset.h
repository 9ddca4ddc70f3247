/*
 * alloc/segset.h: a set of disjoint segments within one metaslab, neighbours merged. Positions are in sectors of the
 * device from the metaslab's start on, which fit into 32 bits; ends are exclusive. Packed: some 11 bytes a segment, 22
 * with the index by size. No locks of its own.
 */
#ifndef ALLOC_SEGSET_H
#define ALLOC_SEGSET_H

#include "base/keyset.h"

#define SEGSET_END     (UINT64_C(1) << 32) /* no position is beyond */
#define SEGSET_BUCKETS 32

#define SEGSET_SEGMENT_BYTES 22 /* memory that a segment takes, with its place in the index */

struct segset {
	struct keyset by_start; /* start << 32 | last sector */
	uint64_t space;         /* sectors of all segments */
	struct segset_index {
		struct keyset by_size; /* (sectors - 1) << 32 | start */
		/* Segments of 2^i to 2^(i+1) - 1 sectors; the last takes what is longer. */
		uint32_t count[SEGSET_BUCKETS];
		uint32_t buckets; /* bit i: count[i] is not 0 */
	} * index;                /* NULL: not kept */
};

/* All zeros is an empty set without index. */
void segset_init(struct segset *s, bool indexed);
/* Makes the index of a set that has none: faster than keeping it while the set is built. */
void segset_make_index(struct segset *s);
/* Back to empty; the index stays. */
void segset_clear(struct segset *s);
/* Frees all, the index too. */
void segset_destroy(struct segset *s);
static inline bool segset_is_empty(const struct segset *s)
{
	return s->space == 0;
}
static inline size_t segset_count(const struct segset *s)
{
	return s->by_start.len;
}

/* -EEXIST when any part is there already (nothing is changed); start < end. */
int segset_add(struct segset *s, uint64_t start, uint64_t end);
/* -ENOENT when any part is not there (nothing is changed). */
int segset_remove(struct segset *s, uint64_t start, uint64_t end);
/* Adds what is missing, removes what is there of it. */
void segset_add_any(struct segset *s, uint64_t start, uint64_t end);
void segset_remove_any(struct segset *s, uint64_t start, uint64_t end);
bool segset_contains(const struct segset *s, uint64_t start, uint64_t end);
/* The first part of [start, end) that is in the set; false: none. */
bool segset_overlap(const struct segset *s, uint64_t start, uint64_t end, uint64_t *from, uint64_t *to);
/* What comes in cancels what is in `against`, the rest goes into `into`; -EEXIST when that is there already (sets are
 * then half changed): 06, 2.9. */
int segset_xor_add(struct segset *into, struct segset *against, uint64_t start, uint64_t end);

/* Segments ascending. The set is not changed meanwhile. */
struct segset_iter {
	struct keyset_iter keys;
};
void segset_iter_init(struct segset_iter *it, const struct segset *s);
bool segset_iter_next(struct segset_iter *it, uint64_t *start, uint64_t *end);
/* Adds all of `from`, removes all of `from`: -EEXIST, -ENOENT as above, half done. */
int segset_add_all(struct segset *s, const struct segset *from);
int segset_remove_all(struct segset *s, const struct segset *from);
/* `to`, which is empty and without index, gets what is in `from`, which is then empty. */
void segset_move(struct segset *to, struct segset *from);

/* --- with index --- */
uint64_t segset_largest(const struct segset *s); /* sectors; 0: empty */
/* The smallest segment of at least `len` sectors, the first of those; false: none. */
bool segset_best_fit(const struct segset *s, uint64_t len, uint64_t *start);
/* The first place at or after `from` with `len` sectors in one piece, among segments that begin before `limit` or are
 * among the first `tries` looked at. */
bool segset_first_fit(const struct segset *s, uint64_t from, uint64_t limit, unsigned tries, uint64_t len,
		      uint64_t *start);

#endif
