/*
 * A B-tree of keys alone. Every node but the root holds something; a node that runs low joins a neighbour when both fit
 * into one with room to spare. An inner node keeps for each child a lower bound of its keys (and an upper bound of
 * those of the child before), which need not be a key itself.
 */
#include "base/keyset.h"

#define NODE_BYTES 512
#define LEAF_CAP   (NODE_BYTES / 8 - 1)
#define INNER_CAP  ((NODE_BYTES - 8) / 16)
#define LEAF_LOW   (LEAF_CAP / 4)
#define INNER_LOW  (INNER_CAP / 4)
#define DEPTH_MAX  16

struct leaf {
	uint32_t n;
	uint64_t key[LEAF_CAP];
};
struct inner {
	uint32_t n;
	uint64_t low[INNER_CAP]; /* low[0] means nothing */
	void *child[INNER_CAP];
};
_Static_assert(sizeof(struct leaf) == NODE_BYTES && sizeof(struct inner) <= NODE_BYTES, "a node has its size");

/* From the root down: step[h] is an inner node of height h + 1 and the child taken. */
struct path {
	struct {
		struct inner *node;
		unsigned i;
	} step[DEPTH_MAX];
};

void keyset_init(struct keyset *ks)
{
	*ks = (struct keyset){0};
}

static void node_free(void *node, unsigned height)
{
	if (height > 1) {
		struct inner *in = node;

		for (unsigned i = 0; i < in->n; i++)
			node_free(in->child[i], height - 1);
	}
	free(node);
}

void keyset_clear(struct keyset *ks)
{
	if (ks->root)
		node_free(ks->root, ks->height);
	keyset_init(ks);
}

/* How many of n sorted keys are < key. */
static unsigned count_below(const uint64_t *keys, unsigned n, uint64_t key)
{
	unsigned lo = 0;

	while (n > 0) {
		unsigned half = n / 2;

		if (keys[lo + half] < key) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

static unsigned child_of(const struct inner *in, uint64_t key)
{
	return key == UINT64_MAX ? in->n - 1 : count_below(in->low + 1, in->n - 1, key + 1);
}

/* The leaf that holds the key if any does. The set is not empty. */
static struct leaf *descend(const struct keyset *ks, uint64_t key, struct path *p)
{
	void *node = ks->root;

	for (unsigned h = ks->height; h > 1; h--) {
		struct inner *in = node;
		unsigned i = child_of(in, key);

		p->step[h - 2].node = in;
		p->step[h - 2].i = i;
		node = in->child[i];
	}
	return node;
}

/* The leaf before or after the one at the end of the path; NULL at the end of the set. */
static struct leaf *neighbour(const struct keyset *ks, const struct path *p, bool after)
{
	for (unsigned h = 0; h + 1 < ks->height; h++) {
		struct inner *in = p->step[h].node;
		unsigned i = p->step[h].i;
		void *node;

		if (after ? i + 1 == in->n : i == 0)
			continue;
		node = in->child[after ? i + 1 : i - 1];
		for (; h > 0; h--) {
			in = node;
			node = in->child[after ? 0 : in->n - 1];
		}
		return node;
	}
	return NULL;
}

bool keyset_ge(const struct keyset *ks, uint64_t key, uint64_t *out)
{
	struct path p;

	if (!ks->root)
		return false;
	struct leaf *l = descend(ks, key, &p);
	unsigned i = count_below(l->key, l->n, key);
	if (i == l->n) {
		l = neighbour(ks, &p, true);
		i = 0;
	}
	if (!l)
		return false;
	*out = l->key[i];
	return true;
}

bool keyset_le(const struct keyset *ks, uint64_t key, uint64_t *out)
{
	struct path p;

	if (!ks->root)
		return false;
	struct leaf *l = descend(ks, key, &p);
	unsigned i = count_below(l->key, l->n, key);
	if (i < l->n && l->key[i] == key) {
		*out = key;
		return true;
	}
	if (i == 0) {
		l = neighbour(ks, &p, false);
		i = l ? l->n : 0;
	}
	if (!l)
		return false;
	*out = l->key[i - 1];
	return true;
}

bool keyset_has(const struct keyset *ks, uint64_t key)
{
	uint64_t found;

	return keyset_ge(ks, key, &found) && found == key;
}

/* --- adding --- */

/* Puts `node`, whose keys are from low on, behind the child that the path took at height h + 1. */
static void child_insert(struct keyset *ks, struct path *p, unsigned h, uint64_t low, void *node)
{
	struct inner *in, *right = NULL;
	unsigned i;

	if (h + 1 == ks->height) {
		in = xcalloc(1, sizeof(*in));
		in->n = 2;
		in->child[0] = ks->root;
		in->child[1] = node;
		in->low[1] = low;
		ks->root = in;
		ks->height++;
		BUG_ON(ks->height > DEPTH_MAX);
		return;
	}
	in = p->step[h].node;
	i = p->step[h].i + 1;
	if (in->n == INNER_CAP) {
		unsigned keep = i == in->n ? in->n - 1 : in->n / 2;

		right = xcalloc(1, sizeof(*right));
		right->n = in->n - keep;
		memcpy(right->low, in->low + keep, right->n * sizeof(right->low[0]));
		memcpy(right->child, in->child + keep, right->n * sizeof(right->child[0]));
		in->n = keep;
		child_insert(ks, p, h + 1, right->low[0], right);
		if (i > keep) {
			in = right;
			i -= keep;
		}
	}
	memmove(in->low + i + 1, in->low + i, (in->n - i) * sizeof(in->low[0]));
	memmove(in->child + i + 1, in->child + i, (in->n - i) * sizeof(in->child[0]));
	in->low[i] = low;
	in->child[i] = node;
	in->n++;
}

/* Splits a full leaf at whose place i a key is to go: in the middle, or behind its end when keys come in order. */
static struct leaf *leaf_split(struct keyset *ks, struct path *p, struct leaf *l, unsigned *i, uint64_t key)
{
	unsigned keep = *i == l->n ? l->n : l->n / 2;
	struct leaf *right = xmalloc(sizeof(*right));

	right->n = l->n - keep;
	memcpy(right->key, l->key + keep, right->n * sizeof(right->key[0]));
	l->n = keep;
	child_insert(ks, p, 0, right->n ? right->key[0] : key, right);
	if (*i < keep || (*i == keep && right->n))
		return l;
	*i -= keep;
	return right;
}

bool keyset_add(struct keyset *ks, uint64_t key)
{
	struct path p;
	struct leaf *l;
	unsigned i;

	if (!ks->root) {
		ks->root = l = xmalloc(sizeof(*l));
		l->n = 0;
		ks->height = 1;
	}
	l = descend(ks, key, &p);
	i = count_below(l->key, l->n, key);
	if (i < l->n && l->key[i] == key)
		return false;
	if (l->n == LEAF_CAP)
		l = leaf_split(ks, &p, l, &i, key);
	memmove(l->key + i + 1, l->key + i, (l->n - i) * sizeof(l->key[0]));
	l->key[i] = key;
	l->n++;
	ks->len++;
	return true;
}

/* --- removing --- */

static void inner_cut(struct inner *in, unsigned i)
{
	in->n--;
	memmove(in->low + i, in->low + i + 1, (in->n - i) * sizeof(in->low[0]));
	memmove(in->child + i, in->child + i + 1, (in->n - i) * sizeof(in->child[0]));
}

/* Child i + 1 of `in` (nodes of height h) into child i when both fit. */
static bool children_join(struct inner *in, unsigned i, unsigned h)
{
	if (h == 1) {
		struct leaf *a = in->child[i], *b = in->child[i + 1];

		if (a->n + b->n > LEAF_CAP - LEAF_LOW)
			return false;
		memcpy(a->key + a->n, b->key, b->n * sizeof(b->key[0]));
		a->n += b->n;
	} else {
		struct inner *a = in->child[i], *b = in->child[i + 1];

		if (a->n + b->n > INNER_CAP - INNER_LOW)
			return false;
		b->low[0] = in->low[i + 1];
		memcpy(a->low + a->n, b->low, b->n * sizeof(b->low[0]));
		memcpy(a->child + a->n, b->child, b->n * sizeof(b->child[0]));
		a->n += b->n;
	}
	free(in->child[i + 1]);
	inner_cut(in, i + 1);
	return true;
}

/* The node of height h at the end of the path has lost something; n is what it still holds. */
static void node_shrunk(struct keyset *ks, struct path *p, unsigned h, unsigned n)
{
	for (; h < ks->height; h++) {
		struct inner *in = p->step[h - 1].node;
		unsigned i = p->step[h - 1].i;

		if (n == 0) {
			free(in->child[i]);
			inner_cut(in, i);
		} else if (n >= (h == 1 ? LEAF_LOW : INNER_LOW) ||
			   !((i + 1 < in->n && children_join(in, i, h)) || (i > 0 && children_join(in, i - 1, h)))) {
			return;
		}
		n = in->n;
	}
	while (ks->height > 1 && ((struct inner *)ks->root)->n == 1) {
		struct inner *in = ks->root;

		ks->root = in->child[0];
		ks->height--;
		free(in);
	}
	if (n == 0)
		keyset_clear(ks);
}

bool keyset_remove(struct keyset *ks, uint64_t key)
{
	struct path p;

	if (!ks->root)
		return false;
	struct leaf *l = descend(ks, key, &p);
	unsigned i = count_below(l->key, l->n, key);
	if (i == l->n || l->key[i] != key)
		return false;
	l->n--;
	ks->len--;
	memmove(l->key + i, l->key + i + 1, (l->n - i) * sizeof(l->key[0]));
	if (l->n < LEAF_LOW)
		node_shrunk(ks, &p, 1, l->n);
	return true;
}

void keyset_replace(struct keyset *ks, uint64_t old, uint64_t new)
{
	struct path p;

	BUG_ON(!ks->root);
	struct leaf *l = descend(ks, old, &p);
	unsigned i = count_below(l->key, l->n, old);
	BUG_ON(i == l->n || l->key[i] != old);
	l->key[i] = new;
	if (new > old ? i + 1 < l->n : i > 0)
		return;
	/* A key at the edge of its leaf moved outwards: the bound towards the neighbour may have to follow. */
	for (unsigned h = 0; h + 1 < ks->height; h++) {
		struct inner *in = p.step[h].node;
		unsigned c = p.step[h].i;

		if (new > old && c + 1 < in->n) {
			in->low[c + 1] = MAX(in->low[c + 1], new + 1);
			return;
		}
		if (new < old && c > 0) {
			in->low[c] = MIN(in->low[c], new);
			return;
		}
	}
}

/* --- walking --- */

static int node_each(const void *node, unsigned height, int (*fn)(void *arg, uint64_t key), void *arg)
{
	int err = 0;

	if (height > 1) {
		const struct inner *in = node;

		for (unsigned i = 0; i < in->n && err == 0; i++)
			err = node_each(in->child[i], height - 1, fn, arg);
	} else {
		const struct leaf *l = node;

		for (unsigned i = 0; i < l->n && err == 0; i++)
			err = fn(arg, l->key[i]);
	}
	return err;
}

int keyset_each(const struct keyset *ks, int (*fn)(void *arg, uint64_t key), void *arg)
{
	return ks->root ? node_each(ks->root, ks->height, fn, arg) : 0;
}

void keyset_iter_init(struct keyset_iter *it, const struct keyset *ks, uint64_t from)
{
	struct path p;
	struct leaf *l = NULL;

	*it = (struct keyset_iter){.ks = ks};
	if (!ks->root)
		return;
	l = descend(ks, from, &p);
	it->i = count_below(l->key, l->n, from);
	if (it->i == l->n) {
		l = neighbour(ks, &p, true);
		it->i = 0;
	}
	it->leaf = l;
}

bool keyset_iter_next(struct keyset_iter *it, uint64_t *key)
{
	const struct leaf *l = it->leaf;

	if (!l)
		return false;
	*key = l->key[it->i++];
	if (it->i == l->n) {
		if (*key == UINT64_MAX)
			it->leaf = NULL;
		else
			keyset_iter_init(it, it->ks, *key + 1);
	}
	return true;
}
