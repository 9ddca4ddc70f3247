/* Disjoint ranges, ordered by start; ranges that touch are one range. */
#include "base/rangetree.h"

static struct range *to_range(const struct tree_node *n)
{
	return n ? container_of((struct tree_node *)n, struct range, node) : NULL;
}

static int range_cmp(const struct tree_node *a, const struct tree_node *b)
{
	uint64_t x = to_range(a)->start, y = to_range(b)->start;

	return (x > y) - (x < y);
}

void rangetree_init(struct rangetree *rt)
{
	tree_init(&rt->tree, range_cmp);
	rt->space = 0;
}

static void range_drop(struct rangetree *rt, struct range *r)
{
	rt->space -= r->end - r->start;
	tree_remove(&rt->tree, &r->node);
	free(r);
}

void rangetree_clear(struct rangetree *rt)
{
	struct tree_node *n;

	while ((n = tree_first(&rt->tree)))
		range_drop(rt, to_range(n));
}

/* The last range that starts at or before `at`. */
static struct range *range_le(const struct rangetree *rt, uint64_t at)
{
	struct range key = {.start = at};

	return to_range(tree_find_le(&rt->tree, &key.node));
}

struct range *rangetree_overlap(const struct rangetree *rt, uint64_t start, uint64_t end)
{
	struct range *r = range_le(rt, start);

	if (r && r->end > start)
		return end > start ? r : NULL;
	r = r ? rangetree_next(r) : rangetree_first(rt);
	return r && r->start < end ? r : NULL;
}

void rangetree_add_any(struct rangetree *rt, uint64_t start, uint64_t end)
{
	struct range *r = range_le(rt, start), *next;

	if (end <= start)
		return;
	/* Swallow everything that overlaps or touches, then put the union in. */
	if (!r || r->end < start)
		r = r ? rangetree_next(r) : rangetree_first(rt);
	if (r && r->start <= start && r->end >= end)
		return;
	for (; r && r->start <= end; r = next) {
		next = rangetree_next(r);
		start = MIN(start, r->start);
		end = MAX(end, r->end);
		range_drop(rt, r);
	}
	r = xmalloc(sizeof(*r));
	r->start = start;
	r->end = end;
	rt->space += end - start;
	tree_insert(&rt->tree, &r->node);
}

int rangetree_add(struct rangetree *rt, uint64_t start, uint64_t end)
{
	if (end <= start)
		return -EINVAL;
	if (rangetree_overlap(rt, start, end))
		return -EEXIST;
	rangetree_add_any(rt, start, end);
	return 0;
}

/* Takes [start, end) out of a range that overlaps it. */
static void range_cut(struct rangetree *rt, struct range *r, uint64_t start, uint64_t end)
{
	uint64_t r_end = r->end;

	if (start <= r->start && end >= r_end) {
		range_drop(rt, r);
		return;
	}
	rt->space -= MIN(end, r_end) - MAX(start, r->start);
	if (start <= r->start) {
		r->start = end; /* stays between its neighbours, so the order holds */
		return;
	}
	r->end = start;
	if (end < r_end) {
		struct range *tail = xmalloc(sizeof(*tail));

		tail->start = end;
		tail->end = r_end;
		tree_insert(&rt->tree, &tail->node);
	}
}

void rangetree_remove_any(struct rangetree *rt, uint64_t start, uint64_t end)
{
	struct range *r;

	while ((r = rangetree_overlap(rt, start, end)))
		range_cut(rt, r, start, end);
}

int rangetree_remove(struct rangetree *rt, uint64_t start, uint64_t end)
{
	if (end <= start)
		return -EINVAL;
	if (!rangetree_contains(rt, start, end))
		return -ENOENT;
	rangetree_remove_any(rt, start, end);
	return 0;
}

bool rangetree_contains(const struct rangetree *rt, uint64_t start, uint64_t end)
{
	struct range *r = range_le(rt, start);

	return r && r->end >= end;
}

struct range *rangetree_first(const struct rangetree *rt)
{
	return to_range(tree_first(&rt->tree));
}

struct range *rangetree_next(const struct range *r)
{
	return to_range(tree_next(&r->node));
}
