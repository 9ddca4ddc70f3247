/*
 * ms.c: one metaslab in core: which place a block gets, and where its sectors are on their way from free to allocated
 * and back (docs/format/06-allocation-and-vdevs.md 2.8, 3.2).
 */
#include "alloc/alloc_impl.h"

TUNABLE(tunable_df_max_search, "metaslab_df_max_search", "bytes", 16 << 20, 0, UINT32_MAX,
	"how far behind the last block of its kind room for the next one is looked for");
TUNABLE(tunable_df_alloc_threshold, "metaslab_df_alloc_threshold", "bytes", 128 << 10, 0, UINT32_MAX,
	"a metaslab without a free segment of this size is filled by best fit");
TUNABLE(tunable_df_free_pct, "metaslab_df_free_pct", "%", 4, 0, 100,
	"a metaslab with less free space than this is filled by best fit");
TUNABLE(tunable_df_use_largest, "metaslab_df_use_largest_segment", "", 0, 0, 1,
	"where nothing is near, take from the largest segment instead of the smallest that fits");
TUNABLE(tunable_switch_threshold, "zfs_metaslab_switch_threshold", "powers of two", 2, 0, 32,
	"a metaslab is left when its longest free segment has shrunk by this");

#define SEARCH_TRIES   100u /* segments that a search looks at in any case */
#define WEIGHT_BUCKET  54u
#define WEIGHT_COUNT   ((UINT64_C(1) << WEIGHT_BUCKET) - 1)
#define GUESSED_PIECES 8 /* a map without a histogram: its free space is in so many */

struct ms *ms_create(struct alloc_top *t, uint32_t id)
{
	struct ms *ms = xcalloc(1, sizeof(*ms));

	ms->top = t;
	ms->id = id;
	ms->shift = (unsigned)t->vdev->ashift;
	metaslab_bounds(t->vdev, id, &ms->start, &ms->size);
	pthread_mutex_init(&ms->lock, NULL);
	pthread_cond_init(&ms->cond, NULL);
	segset_init(&ms->free, true);
	ms->trimmed_txg = id; /* so that not all are trimmed in one group */
	return ms;
}

void ms_destroy(struct ms *ms)
{
	struct segset *all[] = {
	    &ms->free,  &ms->freed, &ms->deferred[0], &ms->deferred[1], &ms->unflushed_allocs, &ms->unflushed_frees,
	    &ms->taken, &ms->trim};

	for (unsigned i = 0; i < ARRAY_LEN(all); i++)
		segset_destroy(all[i]);
	for (unsigned t = 0; t < TXG_SIZE; t++) {
		segset_destroy(&ms->allocating[t]);
		segset_destroy(&ms->freeing[t]);
		segset_destroy(&ms->keeping[t]);
	}
	pthread_cond_destroy(&ms->cond);
	pthread_mutex_destroy(&ms->lock);
	free(ms);
}

struct ms_table *alloc_table(const struct alloc_top *t)
{
	return atomic_load_explicit(&t->table, memory_order_acquire);
}

struct ms *ms_find(struct alloc_top *t, uint64_t offset, uint64_t size)
{
	struct ms_table *table = alloc_table(t);
	uint64_t m = offset >> t->vdev->ms_shift, sector = UINT64_C(1) << t->vdev->ashift;

	if (m >= table->n || size == 0 || offset % sector || size % sector)
		return NULL;
	struct ms *ms = table->ms[m];
	if (offset < ms->start || offset - ms->start > ms->size || size > ms->size - (offset - ms->start))
		return NULL;
	return ms;
}

int64_t ms_allocated(const struct ms *ms)
{
	return ms->map_alloc +
	       ((int64_t)(ms->unflushed_allocs.space - ms->unflushed_frees.space) * (INT64_C(1) << ms->shift));
}

/* --- weight --- */

static void weight_store(struct ms *ms, unsigned bucket, uint64_t count, uint64_t largest)
{
	struct ms_table *table = alloc_table(ms->top);
	uint64_t w = count ? (uint64_t)(bucket + 1) << WEIGHT_BUCKET | MIN(count, WEIGHT_COUNT) : 0;

	atomic_store_explicit(&table->weight[ms->id], w, memory_order_relaxed);
	atomic_store_explicit(&table->largest[ms->id], count ? largest : 0, memory_order_relaxed);
}

static unsigned bucket_of(uint64_t sectors)
{
	return sectors ? MIN(63u - (unsigned)__builtin_clzll(sectors), SEGSET_BUCKETS - 1) : 0;
}

static void weigh_unloaded(struct ms *ms)
{
	uint64_t sectors = ms->size >> ms->shift;
	int64_t used = ms_allocated(ms) >> ms->shift;
	uint64_t left = used < 0 ? sectors : sectors - MIN((uint64_t)used, sectors);
	unsigned b = SEGSET_BUCKETS;

	if (left == sectors && ms->object == 0) {
		weight_store(ms, bucket_of(sectors), 1, sectors);
		return;
	}
	while (ms->has_histogram && b > 0 && ms->histogram[b - 1] == 0)
		b--;
	if (left == 0)
		weight_store(ms, 0, 0, 0);
	else if (!ms->has_histogram || b == 0)
		weight_store(ms, bucket_of(left / GUESSED_PIECES), 1, left);
	else
		weight_store(ms, b - 1, ms->histogram[b - 1], MIN(left, ms->largest_bound));
}

/* Of a loaded one: that of its longest free segment. */
static unsigned best_bucket(const struct ms *ms)
{
	return ms->free.index->buckets ? 31u - (unsigned)__builtin_clz(ms->free.index->buckets) : 0;
}

void ms_weigh(struct ms *ms)
{
	if (ms->broken || ms->gone) {
		weight_store(ms, 0, 0, 0);
	} else if (ms->state != MS_LOADED) {
		weigh_unloaded(ms);
	} else if (!segset_is_empty(&ms->taken)) {
		/* Last choice, but who finds nothing else is to know that there will be some. */
		weight_store(ms, 0, 1, ms->size >> ms->shift);
	} else if (segset_is_empty(&ms->free)) {
		weight_store(ms, 0, 0, 0);
	} else {
		unsigned b = best_bucket(ms);

		weight_store(ms, b, ms->free.index->count[b], segset_largest(&ms->free));
	}
}

void ms_activate(struct ms *ms)
{
	SCOPED_LOCK(&ms->lock);
	atomic_fetch_add(&ms->owned, 1);
	ms->best_at_activation = ms->state == MS_LOADED ? best_bucket(ms) : 0;
}

/* --- handing out --- */

void ms_dirty(struct ms *ms, uint64_t txg)
{
	struct alloc *a = ms->top->a;
	unsigned t = txg & TXG_MASK;

	if (ms->dirty & 1u << t)
		return;
	ms->dirty |= (uint8_t)(1u << t);
	SCOPED_LOCK(&a->lock);
	list_append(&a->dirty[t], &ms->dirty_node[t]);
}

static bool find_room(struct ms *ms, uint64_t sectors, uint64_t near, uint64_t *at)
{
	const struct segset *s = &ms->free;
	uint64_t search = tunable_get(&tunable_df_max_search) >> ms->shift, largest = segset_largest(s);
	uint32_t cursor = ms->cursor[MIN((unsigned)__builtin_ctzll(sectors), ALLOC_CURSORS - 1)];

	if (largest < sectors)
		return false;
	if (near != UINT64_MAX && segset_first_fit(s, near, near + search, SEARCH_TRIES, sectors, at))
		return true;
	if (largest << ms->shift >= tunable_get(&tunable_df_alloc_threshold) &&
	    s->space << ms->shift >= ms->size / 100 * tunable_get(&tunable_df_free_pct) &&
	    segset_first_fit(s, cursor, cursor + search, SEARCH_TRIES, sectors, at))
		return true;
	return segset_best_fit(s, tunable_get(&tunable_df_use_largest) ? largest : sectors, at);
}

/* Out of the free set into what the group has allocated. */
static void hand_out(struct ms *ms, uint64_t at, uint64_t sectors, uint64_t txg)
{
	BUG_ON(segset_remove(&ms->free, at, at + sectors));
	BUG_ON(segset_add(&ms->allocating[txg & TXG_MASK], at, at + sectors));
	if (!segset_is_empty(&ms->trim))
		segset_remove_any(&ms->trim, at, at + sectors);
	atomic_fetch_add(&ms->group->allocating, (int64_t)(sectors << ms->shift));
	ms->used_txg = MAX(ms->used_txg, txg);
	ms_dirty(ms, txg);
	ms_weigh(ms);
}

int ms_alloc(struct ms *ms, uint64_t sectors, uint64_t txg, uint64_t near, uint64_t *offset, bool *worn)
{
	uint64_t at;

	if (atomic_load_explicit(&ms->away, memory_order_relaxed))
		return -EBUSY;
	SCOPED_LOCK(&ms->lock);
	if (ms->broken || ms->gone)
		return -ENOSPC;
	if (ms->state != MS_LOADED)
		return -EAGAIN;
	if (near < ms->start || near - ms->start >= ms->size)
		near = UINT64_MAX;
	else
		near = (near - ms->start) >> ms->shift;
	if (!find_room(ms, sectors, near, &at)) {
		ms_weigh(ms);
		return segset_is_empty(&ms->taken) ? -ENOSPC : -EBUSY;
	}
	hand_out(ms, at, sectors, txg);
	ms->cursor[MIN((unsigned)__builtin_ctzll(sectors), ALLOC_CURSORS - 1)] = (uint32_t)MIN(at + sectors,
											       UINT32_MAX);
	*offset = ms->start + (at << ms->shift);
	*worn = best_bucket(ms) + tunable_get(&tunable_switch_threshold) <= ms->best_at_activation;
	return 0;
}

int ms_claim(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg)
{
	uint64_t at = (offset - ms->start) >> ms->shift, sectors = size >> ms->shift;

	for (;;) {
		int err = ms_load_wait(ms);

		if (err)
			return err;
		SCOPED_LOCK(&ms->lock);
		if (ms->state != MS_LOADED)
			continue;
		if (!segset_contains(&ms->free, at, at + sectors))
			return -ENOENT;
		hand_out(ms, at, sectors, txg);
		return 0;
	}
}

void ms_unalloc(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg)
{
	uint64_t at = (offset - ms->start) >> ms->shift, end = at + (size >> ms->shift);

	SCOPED_LOCK(&ms->lock);
	if (ms->state == MS_LOADED && segset_remove(&ms->allocating[txg & TXG_MASK], at, end) == 0) {
		BUG_ON(segset_add(&ms->free, at, end));
		atomic_fetch_sub(&ms->group->allocating, (int64_t)size);
		ms_weigh(ms);
		return;
	}
	/* Written into a map already. */
	if (segset_add(&ms->freeing[txg & TXG_MASK], at, end))
		alloc_damaged(ms->top->a, ms->top->vdev->id, offset, size);
	else
		ms_dirty(ms, txg);
}

/* --- taking back --- */

/* Some of it is free already, or on its way there. */
static bool is_given_back(const struct ms *ms, uint64_t at, uint64_t end)
{
	const struct segset *sets[] = {&ms->freed, &ms->deferred[0], &ms->deferred[1], &ms->taken,
				       ms->state == MS_LOADED ? &ms->free : &ms->unflushed_frees};
	uint64_t from, to;

	for (unsigned i = 0; i < ARRAY_LEN(sets); i++)
		if (segset_overlap(sets[i], at, end, &from, &to))
			return true;
	for (unsigned t = 0; t < TXG_SIZE; t++)
		if (segset_overlap(&ms->freeing[t], at, end, &from, &to) ||
		    segset_overlap(&ms->keeping[t], at, end, &from, &to))
			return true;
	return false;
}

static void give_back(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg, uint64_t birth, bool keep)
{
	uint64_t at = (offset - ms->start) >> ms->shift, end = at + (size >> ms->shift);

	if (ms->gone)
		return;
	/* A log block of a group that is still open: its allocation gets into the maps no earlier. */
	if (birth > txg && birth - txg < TXG_SIZE && segset_contains(&ms->allocating[birth & TXG_MASK], at, end))
		txg = birth;
	if (is_given_back(ms, at, end)) {
		alloc_damaged(ms->top->a, ms->top->vdev->id, offset, size);
		return;
	}
	BUG_ON(segset_add(keep ? &ms->keeping[txg & TXG_MASK] : &ms->freeing[txg & TXG_MASK], at, end));
	ms_dirty(ms, txg);
}

void ms_free(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg, uint64_t birth)
{
	uint64_t checkpoint = atomic_load(&ms->top->a->checkpoint_txg);

	SCOPED_LOCK(&ms->lock);
	give_back(ms, offset, size, txg, birth, checkpoint && birth <= checkpoint);
}

void ms_free_now(struct ms *ms, uint64_t offset, uint64_t size, uint64_t txg)
{
	SCOPED_LOCK(&ms->lock);
	give_back(ms, offset, size, txg, 0, false);
}
