#include "zvol/zvol_impl.h"

static int range_cmp(const struct tree_node *a, const struct tree_node *b)
{
	uint64_t x = container_of(a, struct zvol_range, node)->start,
		 y = container_of(b, struct zvol_range, node)->start;

	return (x > y) - (x < y);
}

void zvol_ranges_init(struct zvol_ranges *rs)
{
	pthread_mutex_init(&rs->lock, NULL);
	tree_init(&rs->active, range_cmp);
	list_init(&rs->waiting);
}

void zvol_ranges_fini(struct zvol_ranges *rs)
{
	BUG_ON(rs->active.len || rs->waiting.len);
	pthread_mutex_destroy(&rs->lock);
}

static bool range_meets_active(const struct zvol_ranges *rs, const struct zvol_range *r)
{
	struct tree_node *n = tree_find_ge(&rs->active, &r->node);

	if (n && container_of(n, struct zvol_range, node)->start < r->end)
		return true;
	n = tree_find_le(&rs->active, &r->node);
	return n && container_of(n, struct zvol_range, node)->end > r->start;
}

/* Does one that waits, and came before (all that do when r waits not yet), overlap? */
static bool range_meets_waiting(const struct zvol_ranges *rs, const struct zvol_range *r)
{
	list_for_each(&rs->waiting, n) {
		const struct zvol_range *w = container_of(n, struct zvol_range, wait);

		if (w == r)
			return false;
		if (w->start < r->end && r->start < w->end)
			return true;
	}
	return false;
}

static bool range_may_run(const struct zvol_ranges *rs, const struct zvol_range *r)
{
	return !range_meets_active(rs, r) && !range_meets_waiting(rs, r);
}

bool zvol_range_enter(struct zvol_ranges *rs, struct zvol_range *r)
{
	bool now;

	BUG_ON(r->end <= r->start);
	SCOPED_LOCK(&rs->lock);
	now = range_may_run(rs, r);
	if (now)
		tree_insert(&rs->active, &r->node);
	else
		list_append(&rs->waiting, &r->wait);
	return now;
}

void zvol_range_leave(struct zvol_ranges *rs, struct zvol_range *r)
{
	struct list granted;
	struct list_node *n;

	list_init(&granted);
	pthread_mutex_lock(&rs->lock);
	tree_remove(&rs->active, &r->node);
	list_for_each_safe(&rs->waiting, at) {
		struct zvol_range *w = container_of(at, struct zvol_range, wait);

		if (!range_may_run(rs, w))
			continue;
		list_remove(&rs->waiting, at);
		list_append(&granted, at);
		tree_insert(&rs->active, &w->node);
	}
	pthread_mutex_unlock(&rs->lock);
	while ((n = list_pop(&granted))) {
		struct zvol_range *w = container_of(n, struct zvol_range, wait);

		w->granted(w);
	}
}
