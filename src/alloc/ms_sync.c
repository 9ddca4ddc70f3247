/*
 * ms_sync.c: what a group allocated and freed in one metaslab goes into its map or into the group's log
 * (docs/format/06-allocation-and-vdevs.md 2.3, 2.5, 2.6, 2.8). On the sync thread.
 *
 * While `busy` is set, nobody loads the metaslab, and its map and unflushed sets are the sync thread's to read without
 * the lock; it changes them with the lock held.
 */
#include "alloc/alloc_impl.h"

TUNABLE(tunable_condense_pct, "zfs_metaslab_condense_pct", "%", 200, 100, 10000,
	"a space map this much longer than it needs to be is rewritten");
TUNABLE(tunable_sm_blksz_no_log, "zfs_metaslab_sm_blksz_no_log", "bytes", 16 << 10, 4096, 1 << 20,
	"block size of space maps in pools without the log of space maps");
TUNABLE(tunable_sm_blksz_with_log, "zfs_metaslab_sm_blksz_with_log", "bytes", 128 << 10, 4096, 1 << 20,
	"and in pools with it");

#define ENTRY_BYTES         16 /* of one segment in a map, at most, as long as it is not huge */
#define CONDENSE_MIN_BLOCKS 4

static uint32_t map_blocksize(const struct alloc *a)
{
	return (uint32_t)tunable_get(a->features.log_spacemap ? &tunable_sm_blksz_with_log : &tunable_sm_blksz_no_log);
}

int alloc_map_create(struct alloc *a, uint32_t blocksize, struct tx *tx, uint64_t *object)
{
	int err = spacemap_create(a->mos, blocksize, a->features.histogram, tx, object);

	if (err == 0 && a->features.histogram)
		a->args.activate(a->args.arg, FEATURE_HISTOGRAM, 1, tx);
	return err;
}

int alloc_map_destroy(struct alloc *a, uint64_t object, struct tx *tx)
{
	bool histogram;
	int err = spacemap_destroy(a->mos, object, tx, &histogram);

	if (err == 0 && histogram)
		a->args.activate(a->args.arg, FEATURE_HISTOGRAM, -1, tx);
	return err;
}

int alloc_array_set(struct alloc *a, uint64_t object, uint64_t i, uint64_t value, struct tx *tx)
{
	struct dnode *dn;
	int err = dnode_hold(a->mos, object, &dn, NULL);

	if (err)
		return err;
	err = dmu_write(dn, i * 8, &value, sizeof(value), tx);
	dnode_release(dn);
	return err;
}

/* A map of its own for a metaslab that has none, or whose object is not as it should be. */
static int map_create(struct ms *ms, struct tx *tx)
{
	struct alloc *a = ms->top->a;
	uint64_t object;
	int err = alloc_map_create(a, map_blocksize(a), tx, &object);

	if (err == 0)
		err = alloc_array_set(a, ms->top->array, ms->id, object, tx);
	if (err)
		return err;
	SCOPED_LOCK(&ms->lock);
	ms->object = object;
	ms->length = 0;
	ms->map_alloc = 0;
	ms->has_histogram = a->features.histogram;
	return 0;
}

/* --- histogram --- */

static void buckets_add(uint64_t buckets[SEGSET_BUCKETS], const struct segset *s)
{
	struct segset_iter it;
	uint64_t start, end;

	segset_iter_init(&it, s);
	while (segset_iter_next(&it, &start, &end)) {
		unsigned b = 63u - (unsigned)__builtin_clzll(end - start), most = SEGSET_BUCKETS - 1;

		buckets[MIN(b, most)] += b > most ? UINT64_C(1) << (b - most) : 1;
	}
}

/* Free space as the maps have it after this pass. With the lock held; `freed` now. */
static void histogram_update(struct ms *ms, const struct segset *freed)
{
	if (ms->state != MS_LOADED) {
		buckets_add(ms->histogram, freed);
		return;
	}
	for (unsigned b = 0; b < SEGSET_BUCKETS; b++)
		ms->histogram[b] = ms->free.index->count[b];
	buckets_add(ms->histogram, &ms->freed);
	buckets_add(ms->histogram, &ms->taken);
	for (unsigned i = 0; i < TXG_DEFER; i++)
		buckets_add(ms->histogram, &ms->deferred[i]);
	/* What later groups have taken is still free in the maps. */
	for (unsigned t = 0; t < TXG_SIZE; t++)
		buckets_add(ms->histogram, &ms->allocating[t]);
}

/* --- appending --- */

static int append_set(struct spacemap *sm, const struct ms *ms, const struct segset *s, bool free, uint64_t vdev,
		      struct tx *tx)
{
	struct segset_iter it;
	uint64_t start, end;
	int err = 0;

	if (segset_is_empty(s))
		return 0;
	spacemap_begin(sm, free, vdev, tx);
	segset_iter_init(&it, s);
	while (err == 0 && segset_iter_next(&it, &start, &end))
		err = spacemap_put(sm, ms->start + (start << ms->shift), (end - start) << ms->shift);
	return err ? err : spacemap_end(sm);
}

static int map_open(struct ms *ms, struct spacemap **out)
{
	struct alloc *a = ms->top->a;
	int err = spacemap_open(a->mos, ms->object, ms->start, ms->shift, a->features.spacemap_v2, out);

	/* The MOS says something else than what was read when the pool was opened. */
	if (err == 0 && (spacemap_length(*out) != ms->length || spacemap_allocated(*out) != ms->map_alloc)) {
		spacemap_close(*out);
		err = -EINVAL;
	}
	return err;
}

static int map_finish(struct ms *ms, struct spacemap *sm, struct tx *tx)
{
	int err = spacemap_header_write(sm, ms->histogram, tx);

	pthread_mutex_lock(&ms->lock);
	ms->length = spacemap_length(sm);
	ms->map_alloc = spacemap_allocated(sm);
	pthread_mutex_unlock(&ms->lock);
	return err;
}

static int append_to_map(struct ms *ms, const struct segset *allocs, const struct segset *frees, struct tx *tx)
{
	struct spacemap *sm;
	int err = map_open(ms, &sm);

	if (err)
		return err;
	err = append_set(sm, ms, allocs, false, UINT64_MAX, tx);
	if (err == 0)
		err = append_set(sm, ms, frees, true, UINT64_MAX, tx);
	if (err == 0)
		err = map_finish(ms, sm, tx);
	spacemap_close(sm);
	return err;
}

/* --- condensing --- */

/* Loaded, and its map much longer than what it says. With the lock held. */
static bool should_condense(const struct ms *ms, const struct spacemap *sm)
{
	uint64_t need = (segset_count(&ms->free) + 1) * ENTRY_BYTES, sector = UINT64_C(1) << ms->shift;

	if (ms->state != MS_LOADED)
		return false;
	return ms->length >= need / 100 * tunable_get(&tunable_condense_pct) &&
	       ms->length > CONDENSE_MIN_BLOCKS * MAX(spacemap_blocksize(sm), sector);
}

static int append_whole(struct spacemap *sm, const struct ms *ms, struct tx *tx)
{
	spacemap_begin(sm, false, UINT64_MAX, tx);
	int err = spacemap_put(sm, ms->start, ms->size);
	return err ? err : spacemap_end(sm);
}

static void copy_all(struct segset *to, const struct segset *from)
{
	BUG_ON(segset_add_all(to, from));
}

/* All that is free in the maps as of now: what may be had, what rests, what later groups and this one have taken but is
 * in no map yet. With the lock held. */
static void collect_free(const struct ms *ms, struct segset *out)
{
	copy_all(out, &ms->free);
	copy_all(out, &ms->freed);
	copy_all(out, &ms->taken);
	for (unsigned i = 0; i < TXG_DEFER; i++)
		copy_all(out, &ms->deferred[i]);
	for (unsigned t = 0; t < TXG_SIZE; t++)
		copy_all(out, &ms->allocating[t]);
}

/* The object is made anew when bonus or block size are not what new maps get. */
static int map_renew(struct ms *ms, struct spacemap **sm, struct tx *tx)
{
	struct alloc *a = ms->top->a;
	uint64_t old = ms->object;

	if (spacemap_has_histogram(*sm) == a->features.histogram && spacemap_blocksize(*sm) == map_blocksize(a))
		return spacemap_truncate(*sm, tx);
	spacemap_close(*sm);
	*sm = NULL;
	int err = map_create(ms, tx);
	if (err == 0)
		err = alloc_map_destroy(a, old, tx);
	return err ? err : map_open(ms, sm);
}

static int condense(struct ms *ms, struct spacemap **sm, struct tx *tx)
{
	struct segset all = {0};
	int err;

	ms_away(ms, true);
	pthread_mutex_lock(&ms->lock);
	collect_free(ms, &all);
	pthread_mutex_unlock(&ms->lock);
	ms_away(ms, false);
	err = map_renew(ms, sm, tx);
	if (err == 0)
		err = append_whole(*sm, ms, tx);
	if (err == 0)
		err = append_set(*sm, ms, &all, true, UINT64_MAX, tx);
	segset_destroy(&all);
	return err;
}

/* Pass 1: condenses the map when it is worth it; *done says whether. */
static int maybe_condense(struct ms *ms, bool *done, struct tx *tx)
{
	struct spacemap *sm;
	int err = map_open(ms, &sm);

	*done = false;
	if (err)
		return err;
	pthread_mutex_lock(&ms->lock);
	*done = should_condense(ms, sm);
	pthread_mutex_unlock(&ms->lock);
	if (*done) {
		err = condense(ms, &sm, tx);
		if (err == 0)
			err = map_finish(ms, sm, tx);
	}
	spacemap_close(sm);
	return err;
}

/* --- one metaslab in one pass --- */

static void busy_begin(struct ms *ms)
{
	while (ms->busy || ms->state == MS_LOADING)
		pthread_cond_wait(&ms->cond, &ms->lock);
	ms->busy = true;
}

static void busy_end(struct ms *ms)
{
	ms->busy = false;
	pthread_cond_broadcast(&ms->cond);
}

/* Into the group's log; the unflushed sets follow. */
static int log_changes(struct ms *ms, const struct segset *allocs, const struct segset *frees, struct tx *tx)
{
	struct alloc *a = ms->top->a;
	bool first = segset_is_empty(&ms->unflushed_allocs) && segset_is_empty(&ms->unflushed_frees);
	int err = alloc_log_open(a, tx);

	if (err == 0 && first && ms->unflushed_txg != tx->txg)
		err = alloc_unflushed_set(ms, tx->txg, tx);
	if (err == 0)
		err = append_set(a->log_open, ms, allocs, false, ms->top->vdev->id, tx);
	if (err == 0)
		err = append_set(a->log_open, ms, frees, true, ms->top->vdev->id, tx);
	if (err)
		return err;
	SCOPED_LOCK(&ms->lock);
	return ms_log_apply(ms, allocs, frees);
}

int ms_log_apply(struct ms *ms, const struct segset *allocs, const struct segset *frees)
{
	struct segset_iter it;
	uint64_t start, end;
	int err = 0;

	segset_iter_init(&it, allocs);
	for (size_t n = 1; err == 0 && segset_iter_next(&it, &start, &end); n++) {
		err = segset_xor_add(&ms->unflushed_allocs, &ms->unflushed_frees, start, end);
		ms_breathe(ms, n);
	}
	segset_iter_init(&it, frees);
	for (size_t n = 1; err == 0 && segset_iter_next(&it, &start, &end); n++) {
		err = segset_xor_add(&ms->unflushed_frees, &ms->unflushed_allocs, start, end);
		ms_breathe(ms, n);
	}
	return err ? -EINVAL : 0;
}

/* In pass 1 the histogram of a metaslab whose changes went to the log is written, too: it makes its weight when the
 * pool is opened. */
static int write_histogram(struct ms *ms, struct tx *tx)
{
	struct spacemap *sm;
	int err = map_open(ms, &sm);

	if (err)
		return err;
	err = spacemap_header_write(sm, ms->histogram, tx);
	spacemap_close(sm);
	return err;
}

static int write_changes(struct ms *ms, const struct segset *allocs, const struct segset *frees, struct tx *tx)
{
	int err;

	if (segset_is_empty(allocs) && segset_is_empty(frees))
		return 0;
	if (!ms->top->a->features.log_spacemap)
		return append_to_map(ms, allocs, frees, tx);
	err = log_changes(ms, allocs, frees, tx);
	if (err == 0 && tx->pass == 1)
		err = write_histogram(ms, tx);
	return err;
}

static void account(struct ms *ms, const struct segset *allocs, const struct segset *frees)
{
	struct alloc_group *g = ms->group;
	int64_t allocated = (int64_t)(allocs->space << ms->shift), freed = (int64_t)(frees->space << ms->shift);

	atomic_fetch_add(&g->allocated, allocated - freed);
	atomic_fetch_sub(&g->allocating, allocated);
	atomic_fetch_add(&g->deferred, freed);
}

/* The metaslab waits for ms_sync_done. With the lock held. */
static void set_pending(struct ms *ms)
{
	struct alloc *a = ms->top->a;

	if (ms->pending)
		return;
	ms->pending = true;
	SCOPED_LOCK(&a->lock);
	list_append(&a->pending, &ms->pending_node);
}

/* Adds all of a set that nobody else sees; with the lock held, which others get in between. */
static int add_slowly(struct ms *ms, struct segset *to, const struct segset *from)
{
	struct segset_iter it;
	uint64_t start, end;
	int err = 0;

	segset_iter_init(&it, from);
	for (size_t n = 1; err == 0 && segset_iter_next(&it, &start, &end); n++) {
		err = segset_add(to, start, end);
		ms_breathe(ms, n);
	}
	return err;
}

/* Takes what is to be written; with the lock held. Frees count as such from here on. */
static int take_changes(struct ms *ms, unsigned t, struct segset *allocs, struct segset *frees, struct segset *kept)
{
	int err;

	segset_move(allocs, &ms->allocating[t]);
	segset_move(frees, &ms->freeing[t]);
	segset_move(kept, &ms->keeping[t]);
	err = add_slowly(ms, &ms->freed, frees);
	if (!segset_is_empty(frees))
		set_pending(ms);
	ms->used_ns = now_ns();
	histogram_update(ms, frees);
	account(ms, allocs, frees);
	return err ? -EINVAL : 0;
}

int ms_sync(struct ms *ms, struct tx *tx)
{
	struct segset allocs = {0}, frees = {0}, kept = {0};
	bool gone, done;
	int err = 0;

	pthread_mutex_lock(&ms->lock);
	gone = ms->gone;
	busy_begin(ms);
	pthread_mutex_unlock(&ms->lock);
	if (!gone && !ms->object)
		err = map_create(ms, tx);
	else if (!gone && tx->pass == 1 && !ms->top->a->features.log_spacemap)
		err = maybe_condense(ms, &done, tx);

	pthread_mutex_lock(&ms->lock);
	if (err == 0)
		err = take_changes(ms, tx->txg & TXG_MASK, &allocs, &frees, &kept);
	pthread_mutex_unlock(&ms->lock);

	if (err == 0 && !gone)
		err = write_changes(ms, &allocs, &frees, tx);
	if (err == 0 && !gone && !segset_is_empty(&kept))
		err = alloc_checkpoint_add(ms, &kept, tx);

	pthread_mutex_lock(&ms->lock);
	ms_weigh(ms);
	busy_end(ms);
	pthread_mutex_unlock(&ms->lock);
	segset_destroy(&allocs);
	segset_destroy(&frees);
	segset_destroy(&kept);
	return err;
}

/* --- out of the log into the own map --- */

int ms_flush(struct ms *ms, struct tx *tx)
{
	bool done = false;
	int err = 0;

	pthread_mutex_lock(&ms->lock);
	busy_begin(ms);
	pthread_mutex_unlock(&ms->lock);
	if (!segset_is_empty(&ms->unflushed_allocs) || !segset_is_empty(&ms->unflushed_frees)) {
		err = ms->object ? maybe_condense(ms, &done, tx) : map_create(ms, tx);
		if (err == 0 && !done)
			err = append_to_map(ms, &ms->unflushed_allocs, &ms->unflushed_frees, tx);
	}
	if (err == 0)
		err = alloc_unflushed_set(ms, tx->txg, tx);
	pthread_mutex_lock(&ms->lock);
	if (err == 0) {
		segset_clear(&ms->unflushed_allocs);
		segset_clear(&ms->unflushed_frees);
	}
	busy_end(ms);
	pthread_mutex_unlock(&ms->lock);
	return err;
}

/* --- after the group --- */

/* Into the free set, and what autotrim will trim; with the lock held, which others get in between. */
static void add_free(struct ms *ms, const struct segset *s)
{
	bool trim = atomic_load(&ms->top->a->autotrim);
	struct segset_iter it;
	uint64_t start, end;

	segset_iter_init(&it, s);
	for (size_t n = 1; segset_iter_next(&it, &start, &end); n++) {
		BUG_ON(segset_add(&ms->free, start, end));
		if (trim)
			BUG_ON(segset_add(&ms->trim, start, end));
		ms_breathe(ms, n);
	}
}

/* May be handed out from now on. With the lock held, which others get in between. */
static void release(struct ms *ms, struct segset *s)
{
	struct segset out = {0};

	segset_move(&out, s);
	if (segset_is_empty(&out))
		return;
	if (ms->state == MS_LOADED) {
		add_free(ms, &out);
	} else {
		/* Each piece may have joined two free neighbours. */
		uint64_t all = ms->size >> ms->shift, most = ms->largest_bound, pieces = segset_count(&out);

		ms->largest_bound = most > all / (pieces + 1) ? all : MIN(all, out.space + (pieces + 1) * most);
	}
	atomic_fetch_sub(&ms->group->deferred, (int64_t)(out.space << ms->shift));
	segset_destroy(&out);
}

void ms_sync_done(struct ms *ms, bool keep)
{
	struct alloc *a = ms->top->a;
	struct segset *slot = &ms->deferred[a->defer_slot];

	SCOPED_LOCK(&ms->lock);
	release(ms, slot);
	if (keep) {
		segset_move(slot, &ms->freed);
	} else {
		release(ms, &ms->freed);
		for (unsigned i = 0; i < TXG_DEFER; i++)
			release(ms, &ms->deferred[i]);
	}
	ms_weigh(ms);
	ms->pending = !segset_is_empty(&ms->deferred[0]) || !segset_is_empty(&ms->deferred[1]);
	SCOPED_LOCK(&a->lock);
	list_remove(&a->pending, &ms->pending_node);
	if (ms->pending)
		list_append(&a->pending, &ms->pending_node);
}
