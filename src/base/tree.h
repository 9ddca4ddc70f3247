/*
 * base/tree.h: intrusive balanced search tree. No locks of its own.
 *
 * `cmp` compares two nodes' owners; equal keys are refused by tree_insert.
 */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include "base/base.h"

struct tree_node {
	struct tree_node *left, *right, *parent;
	int balance;
};

typedef int (*tree_cmp_fn)(const struct tree_node *a, const struct tree_node *b);

struct tree {
	struct tree_node *root;
	tree_cmp_fn cmp;
	size_t len;
};

void tree_init(struct tree *t, tree_cmp_fn cmp);
/* NULL when inserted, else the node that already has this key. */
struct tree_node *tree_insert(struct tree *t, struct tree_node *n);
/* For who went down the tree himself, comparing: n belongs under parent (NULL: at the root), at *link, which is NULL.
 */
void tree_insert_at(struct tree *t, struct tree_node *parent, struct tree_node **link, struct tree_node *n);
void tree_remove(struct tree *t, struct tree_node *n);
struct tree_node *tree_find(const struct tree *t, const struct tree_node *key);
/* The first node >= key, the last node <= key; NULL when there is none. */
struct tree_node *tree_find_ge(const struct tree *t, const struct tree_node *key);
struct tree_node *tree_find_le(const struct tree *t, const struct tree_node *key);
struct tree_node *tree_first(const struct tree *t);
struct tree_node *tree_last(const struct tree *t);
struct tree_node *tree_next(const struct tree_node *n);
struct tree_node *tree_prev(const struct tree_node *n);

#endif
