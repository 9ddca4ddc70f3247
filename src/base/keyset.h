/*
 * base/keyset.h: a sorted set of 64-bit keys, packed into a B-tree: some ten bytes a key, one cache miss or two a step.
 * For what comes in millions (free segments). No locks of its own.
 */
#ifndef BASE_KEYSET_H
#define BASE_KEYSET_H

#include "base/base.h"

struct keyset {
	void *root;      /* a leaf when height is 1; NULL when empty */
	unsigned height; /* levels */
	size_t len;      /* keys */
};

/* All zeros is an empty set, too. */
void keyset_init(struct keyset *ks);
void keyset_clear(struct keyset *ks);
/* false: it was there already. */
bool keyset_add(struct keyset *ks, uint64_t key);
/* false: it was not there. */
bool keyset_remove(struct keyset *ks, uint64_t key);
/* old, which is there, becomes new, which is not and has no other key between itself and old. */
void keyset_replace(struct keyset *ks, uint64_t old, uint64_t new);
bool keyset_has(const struct keyset *ks, uint64_t key);
/* The first key >= key, the last key <= key. */
bool keyset_ge(const struct keyset *ks, uint64_t key, uint64_t *out);
bool keyset_le(const struct keyset *ks, uint64_t key, uint64_t *out);
/* All keys ascending; the set is not changed meanwhile. Ends early with what fn returns unless 0. */
int keyset_each(const struct keyset *ks, int (*fn)(void *arg, uint64_t key), void *arg);

/* Steps upwards from the first key >= from. The set is not changed between steps. */
struct keyset_iter {
	const struct keyset *ks;
	const void *leaf;
	unsigned i;
};
void keyset_iter_init(struct keyset_iter *it, const struct keyset *ks, uint64_t from);
bool keyset_iter_next(struct keyset_iter *it, uint64_t *key);

#endif
