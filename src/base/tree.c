/*
 * An AVL tree. `balance` is the height of the right subtree less that of the left: -1, 0 or 1 between operations.
 */
#include "base/tree.h"

void tree_init(struct tree *t, tree_cmp_fn cmp)
{
	*t = (struct tree){.cmp = cmp};
}

/* Puts `with` (may be NULL) where `n` hangs. */
static void tree_replace(struct tree *t, struct tree_node *n, struct tree_node *with)
{
	struct tree_node *p = n->parent;

	if (!p)
		t->root = with;
	else if (p->left == n)
		p->left = with;
	else
		p->right = with;
	if (with)
		with->parent = p;
}

static struct tree_node *rotate_left(struct tree *t, struct tree_node *x)
{
	struct tree_node *y = x->right;

	tree_replace(t, x, y);
	x->right = y->left;
	if (x->right)
		x->right->parent = x;
	y->left = x;
	x->parent = y;
	x->balance = x->balance - 1 - MAX(y->balance, 0);
	y->balance = y->balance - 1 + MIN(x->balance, 0);
	return y;
}

static struct tree_node *rotate_right(struct tree *t, struct tree_node *x)
{
	struct tree_node *y = x->left;

	tree_replace(t, x, y);
	x->left = y->right;
	if (x->left)
		x->left->parent = x;
	y->right = x;
	x->parent = y;
	x->balance = x->balance + 1 - MIN(y->balance, 0);
	y->balance = y->balance + 1 + MAX(x->balance, 0);
	return y;
}

/* Mends a node whose balance is 2 or -2; returns the root of the mended subtree. */
static struct tree_node *rebalance(struct tree *t, struct tree_node *n)
{
	if (n->balance > 0) {
		if (n->right->balance < 0)
			rotate_right(t, n->right);
		return rotate_left(t, n);
	}
	if (n->left->balance > 0)
		rotate_left(t, n->left);
	return rotate_right(t, n);
}

/* The subtree at `n` grew by one level. */
static void tree_grown(struct tree *t, struct tree_node *n)
{
	for (struct tree_node *p = n->parent; p; n = p, p = n->parent) {
		p->balance += p->right == n ? 1 : -1;
		if (p->balance == 0)
			return;
		if (p->balance < -1 || p->balance > 1) {
			rebalance(t, p);
			return;
		}
	}
}

struct tree_node *tree_insert(struct tree *t, struct tree_node *n)
{
	struct tree_node **link = &t->root, *parent = NULL;

	while (*link) {
		int c = t->cmp(n, *link);

		if (c == 0)
			return *link;
		parent = *link;
		link = c < 0 ? &parent->left : &parent->right;
	}
	tree_insert_at(t, parent, link, n);
	return NULL;
}

void tree_insert_at(struct tree *t, struct tree_node *parent, struct tree_node **link, struct tree_node *n)
{
	*n = (struct tree_node){.parent = parent};
	*link = n;
	t->len++;
	tree_grown(t, n);
}

/* One side of `p` lost a level: its right one when `right`. */
static void tree_shrunk(struct tree *t, struct tree_node *p, bool right)
{
	while (p) {
		struct tree_node *parent;

		p->balance += right ? -1 : 1;
		if (p->balance < -1 || p->balance > 1)
			p = rebalance(t, p);
		if (p->balance != 0)
			return;
		parent = p->parent;
		right = parent && parent->right == p;
		p = parent;
	}
}

void tree_remove(struct tree *t, struct tree_node *n)
{
	struct tree_node *from, *s;
	bool right;

	t->len--;
	if (!n->left || !n->right) {
		from = n->parent;
		right = from && from->right == n;
		tree_replace(t, n, n->left ? n->left : n->right);
		tree_shrunk(t, from, right);
		return;
	}
	/* Two children: the successor, which has no left child, takes its place. */
	for (s = n->right; s->left; s = s->left)
		;
	right = s == n->right;
	from = right ? s : s->parent;
	if (!right) {
		tree_replace(t, s, s->right);
		s->right = n->right;
		s->right->parent = s;
	}
	s->left = n->left;
	s->left->parent = s;
	s->balance = n->balance;
	tree_replace(t, n, s);
	tree_shrunk(t, from, right);
}

struct tree_node *tree_find(const struct tree *t, const struct tree_node *key)
{
	struct tree_node *n = t->root;
	int c;

	while (n && (c = t->cmp(key, n)) != 0)
		n = c < 0 ? n->left : n->right;
	return n;
}

struct tree_node *tree_find_ge(const struct tree *t, const struct tree_node *key)
{
	struct tree_node *n = t->root, *best = NULL;

	while (n) {
		int c = t->cmp(key, n);

		if (c == 0)
			return n;
		if (c < 0)
			best = n;
		n = c < 0 ? n->left : n->right;
	}
	return best;
}

struct tree_node *tree_find_le(const struct tree *t, const struct tree_node *key)
{
	struct tree_node *n = t->root, *best = NULL;

	while (n) {
		int c = t->cmp(key, n);

		if (c == 0)
			return n;
		if (c > 0)
			best = n;
		n = c < 0 ? n->left : n->right;
	}
	return best;
}

struct tree_node *tree_first(const struct tree *t)
{
	struct tree_node *n = t->root;

	while (n && n->left)
		n = n->left;
	return n;
}

struct tree_node *tree_last(const struct tree *t)
{
	struct tree_node *n = t->root;

	while (n && n->right)
		n = n->right;
	return n;
}

struct tree_node *tree_next(const struct tree_node *n)
{
	struct tree_node *p;

	if (n->right) {
		for (p = n->right; p->left; p = p->left)
			;
		return p;
	}
	for (p = n->parent; p && p->right == n; p = n->parent)
		n = p;
	return p;
}

struct tree_node *tree_prev(const struct tree_node *n)
{
	struct tree_node *p;

	if (n->left) {
		for (p = n->left; p->right; p = p->right)
			;
		return p;
	}
	for (p = n->parent; p && p->left == n; p = n->parent)
		n = p;
	return p;
}
