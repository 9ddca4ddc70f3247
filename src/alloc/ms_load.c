/*
 * ms_load.c: free space of metaslabs comes into memory when it is needed or will be soon, and goes when nobody used it
 * for long (docs/format/06-allocation-and-vdevs.md 2.7).
 */
#include "alloc/alloc_impl.h"
#include "base/log.h"

TUNABLE(tunable_unload_delay, "metaslab_unload_delay", "groups", 32, 0, UINT32_MAX,
	"free space of a metaslab stays in memory for so many groups after its last use");
TUNABLE(tunable_unload_delay_ms, "metaslab_unload_delay_ms", "ms", 600000, 0, UINT32_MAX, "and for so long");
TUNABLE(tunable_preload_enabled, "metaslab_preload_enabled", "", 1, 0, 1, "load metaslabs before they are needed");
TUNABLE(tunable_preload_limit, "metaslab_preload_limit", "", 2, 0, 1000,
	"how many of the best metaslabs of each device are kept loaded");
TUNABLE(tunable_debug_load, "metaslab_debug_load", "", 0, 0, 1, "load every metaslab when a pool is opened");
TUNABLE(tunable_debug_unload, "metaslab_debug_unload", "", 0, 0, 1, "never unload a metaslab");
TUNABLE(tunable_metaslab_mem_limit, "zfs_metaslab_mem_limit", "%", 25, 0, 100,
	"memory for free space of loaded metaslabs, as a share of the limit of the cache: beyond it what was unused "
	"for longest is unloaded");

#define LOCKED_SEGMENTS 256 /* as many are changed without letting others have the lock */
#define RETRY_GROUPS    32  /* until a map that could not be read is tried again */

void alloc_settled(struct alloc *a, int change)
{
	SCOPED_LOCK(&a->lock);
	a->unsettled += (unsigned)change;
	if (change < 0) {
		a->settle_count++;
		pthread_cond_broadcast(&a->settled);
	}
}

void ms_away(struct ms *ms, bool away)
{
	if (away)
		alloc_settled(ms->top->a, 1);
	atomic_store(&ms->away, away);
	if (!away)
		alloc_settled(ms->top->a, -1);
}

void ms_breathe(struct ms *ms, size_t n)
{
	if (n % LOCKED_SEGMENTS)
		return;
	pthread_mutex_unlock(&ms->lock);
	pthread_mutex_lock(&ms->lock);
}

/* --- loading --- */

struct map_reader {
	struct ms *ms;
	struct segset *free;
};

static int map_entry(void *arg, const struct spacemap_entry *e)
{
	struct map_reader *r = arg;
	uint64_t start = e->offset - r->ms->start, end = start + e->run;

	if (e->offset < r->ms->start || end > r->ms->size || end < start)
		return -EINVAL;
	int err = e->free ? segset_add(r->free, start >> r->ms->shift, end >> r->ms->shift)
			  : segset_remove(r->free, start >> r->ms->shift, end >> r->ms->shift);
	return err ? -EINVAL : 0;
}

/* The metaslab's own map. Its length does not change meanwhile, as `state` keeps the sync thread away. */
static int read_map(struct ms *ms, struct segset *free)
{
	struct map_reader r = {ms, free};
	uint64_t sectors = ms->size >> ms->shift;

	if (sectors == 0)
		return 0;
	segset_add(free, 0, sectors);
	return ms->object ? spacemap_each(ms->top->a->mos, ms->object, ms->start, ms->shift, map_entry, &r) : 0;
}

/* What the map does not know yet, and what it says is free but may not be handed out. With the lock held. */
static int correct_map(const struct ms *ms, struct segset *free)
{
	int err = segset_remove_all(free, &ms->unflushed_allocs);

	if (err == 0)
		err = segset_add_all(free, &ms->unflushed_frees);
	if (err == 0)
		err = segset_remove_all(free, &ms->freed);
	for (unsigned i = 0; i < TXG_DEFER && err == 0; i++)
		err = segset_remove_all(free, &ms->deferred[i]);
	return err ? -EINVAL : 0;
}

static void load_failed(struct ms *ms, int err)
{
	if (err == -EINVAL || err == -ECKSUM) {
		ms->broken = true;
		log_error("device %llu, metaslab %u: its space map is damaged (%s): nothing is written there any more",
			  (unsigned long long)ms->top->vdev->id, ms->id, err_words(err));
	} else {
		log_warn("device %llu, metaslab %u: its space map cannot be read: %s",
			 (unsigned long long)ms->top->vdev->id, ms->id, err_words(err));
	}
	ms->retry_txg = ms->top->a->synced_txg + RETRY_GROUPS;
}

/* With the lock held. */
static void load_finish(struct ms *ms, struct segset *free, int err)
{
	struct alloc *a = ms->top->a;

	ms->state = err ? MS_UNLOADED : MS_LOADED;
	if (err) {
		load_failed(ms, err);
		segset_destroy(free);
	} else {
		segset_destroy(&ms->free);
		ms->free = *free;
		ms->used_ns = now_ns();
		ms->used_txg = a->synced_txg;
		SCOPED_LOCK(&a->lock);
		list_append(&a->loaded, &ms->loaded_node);
	}
	ms_weigh(ms);
	pthread_cond_broadcast(&ms->cond);
}

static int load_now(struct ms *ms)
{
	struct segset free = {0};
	int err;

	pthread_mutex_lock(&ms->lock);
	while (ms->busy || ms->state == MS_LOADING)
		pthread_cond_wait(&ms->cond, &ms->lock);
	if (ms->state == MS_LOADED || ms->broken || ms->gone) {
		err = ms->state == MS_LOADED ? 0 : -EIO;
		pthread_mutex_unlock(&ms->lock);
		return err;
	}
	ms->state = MS_LOADING;
	pthread_mutex_unlock(&ms->lock);

	err = read_map(ms, &free);
	segset_make_index(&free);
	ms_away(ms, true);
	pthread_mutex_lock(&ms->lock);
	if (err == 0)
		err = correct_map(ms, &free);
	load_finish(ms, &free, err);
	pthread_mutex_unlock(&ms->lock);
	ms_away(ms, false);
	return err;
}

static void load_run(struct task *t)
{
	struct ms *ms = container_of(t, struct ms, load);
	struct alloc *a = ms->top->a;

	if (!atomic_load(&a->closing))
		load_now(ms);
	pthread_mutex_lock(&ms->lock);
	ms->queued = false;
	pthread_mutex_unlock(&ms->lock);
	alloc_settled(a, -1);
}

bool ms_load_start(struct ms *ms)
{
	struct alloc *a = ms->top->a;

	SCOPED_LOCK(&ms->lock);
	if (ms->broken || ms->gone || ms->state == MS_LOADED || atomic_load(&a->closing) ||
	    (ms->retry_txg && ms->retry_txg > a->synced_txg))
		return false;
	if (ms->queued)
		return true;
	ms->queued = true;
	ms->load.run = load_run;
	alloc_settled(a, 1);
	taskq_dispatch(a->loader, &ms->load);
	return true;
}

int ms_load_wait(struct ms *ms)
{
	return load_now(ms);
}

/* --- unloading --- */

bool ms_is_quiet(const struct ms *ms)
{
	for (unsigned t = 0; t < TXG_SIZE; t++)
		if (!segset_is_empty(&ms->allocating[t]))
			return false;
	return ms->state == MS_LOADED && !ms->busy && segset_is_empty(&ms->taken) && atomic_load(&ms->owned) == 0;
}

void ms_unload(struct ms *ms)
{
	struct alloc *a = ms->top->a;

	ms->largest_bound = segset_largest(&ms->free);
	segset_clear(&ms->free);
	segset_clear(&ms->trim);
	ms->state = MS_UNLOADED;
	ms_weigh(ms);
	SCOPED_LOCK(&a->lock);
	list_remove(&a->loaded, &ms->loaded_node);
}

static int by_last_use(const void *x, const void *y)
{
	const struct ms *a = *(struct ms *const *)x, *b = *(struct ms *const *)y;

	return (a->used_ns > b->used_ns) - (a->used_ns < b->used_ns);
}

/* The loaded ones, as of now. Metaslabs live as long as the pool is open. */
static struct ms **loaded_list(struct alloc *a, size_t *n)
{
	SCOPED_LOCK(&a->lock);
	struct ms **out = xcalloc(a->loaded.len + 1, sizeof(*out));

	*n = 0;
	list_for_each(&a->loaded, node)
		out[(*n)++] = container_of(node, struct ms, loaded_node);
	return out;
}

static uint64_t memory_limit(const struct alloc *a)
{
	uint64_t cache = a->mos ? arc_max(a->mos->dp->arc) : UINT64_MAX;

	return cache / 100 * tunable_get(&tunable_metaslab_mem_limit);
}

/* Returns the bytes that loaded metaslabs take. */
static uint64_t unload_some(struct alloc *a, uint64_t txg)
{
	uint64_t delay = tunable_get(&tunable_unload_delay), delay_ns = tunable_get(&tunable_unload_delay_ms) * 1000000;
	uint64_t now = now_ns(), total = 0, limit = memory_limit(a), bytes;
	size_t n;
	autofree struct ms **ms = loaded_list(a, &n);

	for (size_t i = 0; i < n; i++) {
		SCOPED_LOCK(&ms[i]->lock);
		total += segset_count(&ms[i]->free) * SEGSET_SEGMENT_BYTES;
	}
	if (tunable_get(&tunable_debug_unload))
		return total;
	qsort(ms, n, sizeof(struct ms *), by_last_use);
	for (size_t i = 0; i < n; i++) {
		SCOPED_LOCK(&ms[i]->lock);
		bool idle = ms[i]->used_txg + delay < txg && ms[i]->used_ns + delay_ns < now;

		if ((!idle && total <= limit) || !ms_is_quiet(ms[i]))
			continue;
		bytes = segset_count(&ms[i]->free) * SEGSET_SEGMENT_BYTES;
		total -= MIN(total, bytes);
		ms_unload(ms[i]);
	}
	return total;
}

static void group_preload(const struct alloc_group *g)
{
	uint64_t weight = UINT64_MAX, id = 0;
	struct ms *ms;

	for (uint64_t i = tunable_get(&tunable_preload_limit); i > 0; i--) {
		ms = alloc_group_next(g, 1, &weight, &id);
		if (!ms)
			return;
		ms_load_start(ms);
	}
}

void alloc_load_balance(struct alloc *a, uint64_t txg)
{
	uint64_t bytes = unload_some(a, txg);

	if (!tunable_get(&tunable_preload_enabled) || bytes > memory_limit(a) / 2)
		return;
	for (unsigned c = 0; c < ALLOC_CLASSES; c++) {
		const struct group_table *table = atomic_load_explicit(&a->class[c].table, memory_order_acquire);

		for (unsigned i = 0; table && i < table->n; i++)
			group_preload(table->group[i]);
	}
}

void alloc_load_all(struct alloc *a)
{
	if (!tunable_get(&tunable_debug_load))
		return;
	const struct top_table *tops = alloc_tops(a);
	for (unsigned i = 0; i < tops->n; i++) {
		const struct ms_table *table = tops->top[i] ? alloc_table(tops->top[i]) : NULL;

		for (uint64_t m = 0; table && m < table->n; m++)
			ms_load_start(table->ms[m]);
	}
}
