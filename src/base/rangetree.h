/*
 * base/rangetree.h: a set of disjoint byte (or txg) ranges, neighbours merged. No locks of its own.
 */
#ifndef BASE_RANGETREE_H
#define BASE_RANGETREE_H

#include "base/tree.h"

struct range {
	struct tree_node node;
	uint64_t start, end; /* [start, end) */
};

struct rangetree {
	struct tree tree;
	uint64_t space; /* sum of all range lengths */
};

void rangetree_init(struct rangetree *rt);
void rangetree_clear(struct rangetree *rt); /* frees every range */
/* -EEXIST when any part is already there (nothing is changed); end > start. */
int rangetree_add(struct rangetree *rt, uint64_t start, uint64_t end);
/* Adds what is missing of the range. */
void rangetree_add_any(struct rangetree *rt, uint64_t start, uint64_t end);
/* -ENOENT when any part is not there (nothing is changed). */
int rangetree_remove(struct rangetree *rt, uint64_t start, uint64_t end);
/* Removes what is there of the range. */
void rangetree_remove_any(struct rangetree *rt, uint64_t start, uint64_t end);
bool rangetree_contains(const struct rangetree *rt, uint64_t start, uint64_t end);
/* First range that has something in common with [start, end), or NULL. */
struct range *rangetree_overlap(const struct rangetree *rt, uint64_t start, uint64_t end);
struct range *rangetree_first(const struct rangetree *rt);
struct range *rangetree_next(const struct range *r);

#endif
