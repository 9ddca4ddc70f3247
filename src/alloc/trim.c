/*
 * trim.c: free space taken out of circulation while somebody works on it (docs/format/06-allocation-and-vdevs.md 4.10).
 */
#include "alloc/alloc_impl.h"

TUNABLE(tunable_trim_txg_batch, "zfs_trim_txg_batch", "groups", 32, 1, UINT32_MAX,
	"autotrim trims each metaslab once in so many groups");

struct alloc_free_set {
	struct ms *ms;
	struct rangetree ranges; /* bytes */
};

static int find(struct alloc *a, struct vdev *top, uint64_t metaslab, struct ms **out)
{
	struct alloc_top *t = alloc_top_of(a, top->id);

	if (!t || metaslab >= alloc_table(t)->n)
		return -ENOENT;
	*out = alloc_table(t)->ms[metaslab];
	return 0;
}

/* With the lock held: [start, end) of the free set. */
static void take_range(struct alloc_free_set *s, uint64_t start, uint64_t end)
{
	struct ms *ms = s->ms;

	BUG_ON(segset_remove(&ms->free, start, end));
	BUG_ON(segset_add(&ms->taken, start, end));
	segset_remove_any(&ms->trim, start, end);
	rangetree_add_any(&s->ranges, ms->start + (start << ms->shift), ms->start + (end << ms->shift));
}

static void take_set(struct alloc_free_set *s, const struct segset *which)
{
	struct segset copy = {0};
	struct segset_iter it;
	uint64_t start, end;

	BUG_ON(segset_add_all(&copy, which));
	segset_iter_init(&it, &copy);
	while (segset_iter_next(&it, &start, &end))
		take_range(s, start, end);
	segset_destroy(&copy);
	ms_weigh(s->ms);
}

static int take(struct ms *ms, bool recent, uint64_t txg, struct alloc_free_set **out)
{
	struct alloc_free_set *s = xcalloc(1, sizeof(*s));

	s->ms = ms;
	rangetree_init(&s->ranges);
	/* Before anything is out, so that who finds no room knows that there will be some. */
	alloc_settled(ms->top->a, 1);
	pthread_mutex_lock(&ms->lock);
	if (ms->state == MS_LOADED && !ms->gone) {
		take_set(s, recent ? &ms->trim : &ms->free);
		if (recent)
			ms->trimmed_txg = txg;
	}
	pthread_mutex_unlock(&ms->lock);
	*out = s;
	return 0;
}

int alloc_free_take(struct alloc *a, struct vdev *top, uint64_t metaslab, struct alloc_free_set **out)
{
	struct ms *ms;
	int err = find(a, top, metaslab, &ms);

	if (err == 0)
		err = ms_load_wait(ms);
	return err ? err : take(ms, false, 0, out);
}

int alloc_autotrim_take(struct alloc *a, struct vdev *top, uint64_t metaslab, struct alloc_free_set **out)
{
	struct ms *ms;
	int err = find(a, top, metaslab, &ms);
	bool due;

	if (err)
		return err;
	pthread_mutex_lock(&ms->lock);
	due = !segset_is_empty(&ms->trim) && ms->trimmed_txg + tunable_get(&tunable_trim_txg_batch) <= a->synced_txg;
	pthread_mutex_unlock(&ms->lock);
	return due ? take(ms, true, a->synced_txg, out) : -EAGAIN;
}

const struct rangetree *alloc_free_ranges(const struct alloc_free_set *s)
{
	return &s->ranges;
}

void alloc_free_return(struct alloc_free_set *s)
{
	struct ms *ms = s->ms;
	struct alloc *a = ms->top->a;

	pthread_mutex_lock(&ms->lock);
	for (struct range *r = rangetree_first(&s->ranges); r; r = rangetree_next(r)) {
		uint64_t start = (r->start - ms->start) >> ms->shift, end = (r->end - ms->start) >> ms->shift;

		BUG_ON(segset_remove(&ms->taken, start, end));
		BUG_ON(segset_add(&ms->free, start, end));
	}
	ms_weigh(ms);
	pthread_mutex_unlock(&ms->lock);
	rangetree_clear(&s->ranges);
	free(s);
	alloc_settled(a, -1);
}

void alloc_autotrim(struct alloc *a, bool on)
{
	atomic_store(&a->autotrim, on);
}
