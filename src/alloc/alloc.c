/*
 * alloc.c: opening and closing, and the top-levels that come, grow and go.
 */
#include "alloc/alloc_impl.h"
#include "base/log.h"
#include "base/os.h"

TUNABLE(tunable_num_allocators, "spa_num_allocators", "", 4, 1, ALLOC_ALLOCATORS,
	"metaslabs of one device that take blocks side by side, at most; for pools that are opened from now on");
TUNABLE(tunable_cpus_per_allocator, "spa_cpus_per_allocator", "", 4, 1, UINT32_MAX,
	"one of them for so many processors");
TUNABLE(tunable_embedded_min_ms, "zfs_embedded_slog_min_ms", "", 64, 1, UINT32_MAX,
	"devices with more metaslabs set one apart for blocks of the intent log");

const struct top_table *alloc_tops(struct alloc *a)
{
	return atomic_load_explicit(&a->tops, memory_order_acquire);
}

struct alloc_top *alloc_top_of(struct alloc *a, uint64_t vdev)
{
	const struct top_table *t = alloc_tops(a);

	return vdev < t->n ? t->top[vdev] : NULL;
}

static void top_enter(struct alloc *a, unsigned id, struct alloc_top *top)
{
	struct top_table *old = atomic_load(&a->tops), *new;
	unsigned n = MAX(old ? old->n : 0, id + 1);

	new = xcalloc(1, sizeof(*new) + n * sizeof(new->top[0]));
	new->n = n;
	new->before = old;
	if (old)
		memcpy(new->top, old->top, old->n * sizeof(new->top[0]));
	new->top[id] = top;
	atomic_store_explicit(&a->tops, new, memory_order_release);
}

/* --- tables of metaslabs --- */

static struct ms_table *table_create(uint64_t n, struct ms_table *before)
{
	struct ms_table *t = xcalloc(1, sizeof(*t));

	t->n = n;
	t->before = before;
	t->ms = calloc(n + 1, sizeof(struct ms *));
	t->weight = calloc(n + 1, sizeof(uint64_t));
	t->largest = calloc(n + 1, sizeof(uint64_t));
	if (t->ms && t->weight && t->largest)
		return t;
	free(t->ms);
	free((void *)t->weight);
	free((void *)t->largest);
	free(t);
	return NULL;
}

static void tables_destroy(struct ms_table *t)
{
	struct ms_table *before;

	for (uint64_t m = 0; t && m < t->n; m++)
		ms_destroy(t->ms[m]);
	for (; t; t = before) {
		before = t->before;
		free(t->ms);
		free((void *)t->weight);
		free((void *)t->largest);
		free(t);
	}
}

static uint64_t metaslab_count(const struct vdev *vd)
{
	return vdev_is_concrete(vd) && vd->ms_shift && vd->ms_shift < 64 ? vd->asize >> vd->ms_shift : 0;
}

/* Metaslabs up to the device's size, those of before included. */
static int table_extend(struct alloc_top *t, struct err *e)
{
	struct ms_table *old = atomic_load(&t->table), *new;
	uint64_t n = metaslab_count(t->vdev), had = old ? old->n : 0;

	if (n > ALLOC_METASLABS || (n && t->vdev->ms_shift - t->vdev->ashift > 32))
		return err_set(
		    e, -ENOTSUP, "device %llu: metaslabs of 2^%llu bytes, %llu of them, are too many or too large",
		    (unsigned long long)t->vdev->id, (unsigned long long)t->vdev->ms_shift, (unsigned long long)n);
	n = MAX(n, had);
	new = table_create(n, old);
	if (!new)
		return err_set(e, -ENOMEM, "out of memory");
	for (uint64_t m = 0; m < n; m++) {
		new->ms[m] = m < had ? old->ms[m] : ms_create(t, (uint32_t)m);
		if (m >= had) {
			new->ms[m]->group = &t->main;
			atomic_fetch_add(&t->main.size, new->ms[m]->size);
		}
	}
	atomic_store_explicit(&t->table, new, memory_order_release);
	return 0;
}

static void table_weigh(struct alloc_top *t)
{
	const struct ms_table *table = alloc_table(t);

	for (uint64_t m = 0; m < table->n; m++) {
		SCOPED_LOCK(&table->ms[m]->lock);
		ms_weigh(table->ms[m]);
	}
}

/* --- one top-level --- */

static unsigned class_of(const struct vdev *vd)
{
	if (vd->is_log)
		return ZIO_CLASS_LOG;
	if (vd->alloc_bias && strcmp(vd->alloc_bias, "special") == 0)
		return ZIO_CLASS_SPECIAL;
	if (vd->alloc_bias && strcmp(vd->alloc_bias, "dedup") == 0)
		return ZIO_CLASS_DEDUP;
	return ZIO_CLASS_NORMAL;
}

static void top_destroy(struct alloc_top *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < TXG_SIZE; i++)
		rangetree_clear(&t->dropped[i]);
	tables_destroy(atomic_load(&t->table));
	free(t);
}

static int top_create(struct alloc *a, struct vdev *vd, struct alloc_top **out, struct err *e)
{
	struct alloc_top *t = xcalloc(1, sizeof(*t));

	t->a = a;
	t->vdev = vd;
	t->main = (struct alloc_group){.top = t, .class = class_of(vd)};
	t->embedded = (struct alloc_group){.top = t, .class = ALLOC_EMBEDDED};
	for (unsigned i = 0; i < TXG_SIZE; i++)
		rangetree_init(&t->dropped[i]);
	int err = table_extend(t, e);
	if (err) {
		top_destroy(t);
		return err;
	}
	*out = t;
	return 0;
}

static int map_load(struct ms *ms)
{
	struct spacemap_header h;
	int err;

	if (ms->object == 0)
		return 0;
	err = spacemap_header_read(ms->top->a->mos, ms->object, &h);
	if (err)
		return err;
	if (h.alloc > ms->size)
		return -EINVAL;
	ms->length = h.length;
	ms->map_alloc = (int64_t)h.alloc;
	ms->has_histogram = h.has_histogram;
	memcpy(ms->histogram, h.histogram, sizeof(ms->histogram));
	return 0;
}

/* The object that `key` of the top-level's ZAP names; 0: none. */
static int top_object(struct alloc_top *t, const char *key, uint64_t *object)
{
	int err;

	*object = 0;
	if (!t->vdev->zap_top)
		return 0;
	err = zap_lookup_u64(t->a->mos, t->vdev->zap_top, key, object);
	return err == -ENOENT ? 0 : err;
}

static int checkpoint_load(struct alloc_top *t)
{
	struct spacemap_header h;
	int err = top_object(t, KEY_CHECKPOINT, &t->checkpoint);

	if (err || !t->checkpoint)
		return err;
	err = spacemap_header_read(t->a->mos, t->checkpoint, &h);
	if (err == 0)
		atomic_store(&t->kept, -(int64_t)h.alloc);
	return err;
}

static int maps_load(struct alloc_top *t)
{
	const struct ms_table *table = alloc_table(t);
	autofree uint64_t *object = calloc(table->n + 1, sizeof(*object));
	int err = object ? spacemap_words_read(t->a->mos, t->array, object, table->n) : -ENOMEM;

	for (uint64_t m = 0; m < table->n && err == 0; m++) {
		table->ms[m]->object = object[m];
		err = map_load(table->ms[m]);
	}
	return err;
}

static int unflushed_load(struct alloc_top *t)
{
	const struct ms_table *table = alloc_table(t);
	autofree uint64_t *txg = calloc(table->n + 1, sizeof(*txg));
	int err = txg ? top_object(t, KEY_UNFLUSHED, &t->unflushed) : -ENOMEM;

	if (err == 0 && t->unflushed)
		err = spacemap_words_read(t->a->mos, t->unflushed, txg, table->n);
	for (uint64_t m = 0; m < table->n && err == 0; m++)
		table->ms[m]->unflushed_txg = txg[m];
	return err;
}

/* A top-level whose metaslabs are in the MOS. */
static int top_load(struct alloc_top *t, struct err *e)
{
	int err;

	t->array = t->vdev->ms_array;
	err = maps_load(t);
	if (err == 0)
		err = unflushed_load(t);
	if (err == 0)
		err = checkpoint_load(t);
	return err ? err_set(e, err, "space maps of device %llu: %s", (unsigned long long)t->vdev->id, err_words(err))
		   : 0;
}

/* --- what a class has of it --- */

static struct ms *least_used(const struct ms_table *t)
{
	struct ms *best = t->ms[0];

	for (uint64_t m = 1; m < t->n; m++)
		if (ms_allocated(t->ms[m]) < ms_allocated(best))
			best = t->ms[m];
	return best;
}

static void class_add(struct alloc *a, struct alloc_group *g)
{
	struct alloc_class *c = &a->class[g->class];
	struct group_table *old = atomic_load(&c->table), *new;
	unsigned n = old ? old->n : 0;

	new = xcalloc(1, sizeof(*new) + (n + 1) * sizeof(new->group[0]));
	if (old)
		memcpy(new->group, old->group, n * sizeof(new->group[0]));
	new->n = n + 1;
	new->before = old;
	new->group[n] = g;
	atomic_store_explicit(&c->table, new, memory_order_release);
}

static void class_remove(struct alloc *a, struct alloc_group *g)
{
	struct alloc_class *c = &a->class[g->class];
	struct group_table *old = atomic_load(&c->table), *new;

	new = xcalloc(1, sizeof(*new) + old->n * sizeof(new->group[0]));
	for (unsigned i = 0; i < old->n; i++)
		if (old->group[i] != g)
			new->group[new->n++] = old->group[i];
	new->before = old;
	atomic_store_explicit(&c->table, new, memory_order_release);
}

/* Sums, the metaslab for log blocks, and the places in the classes: from now on it takes blocks. */
static void top_start(struct alloc_top *t)
{
	const struct ms_table *table = alloc_table(t);

	if (t->main.class == ZIO_CLASS_NORMAL && table->n > tunable_get(&tunable_embedded_min_ms)) {
		struct ms *ms = least_used(table);

		ms->group = &t->embedded;
		atomic_fetch_sub(&t->main.size, ms->size);
		atomic_fetch_add(&t->embedded.size, ms->size);
	}
	for (uint64_t m = 0; m < table->n; m++) {
		table->ms[m]->largest_bound = table->ms[m]->size >> table->ms[m]->shift;
		atomic_fetch_add(&table->ms[m]->group->allocated, ms_allocated(table->ms[m]));
	}
	table_weigh(t);
	class_add(t->a, &t->main);
	if (atomic_load(&t->embedded.size))
		class_add(t->a, &t->embedded);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* What sizes zio asks for (3.2 "Granularity"). */
static void granularity_set(struct alloc *a)
{
	const struct top_table *tops = alloc_tops(a);
	uint64_t min = UINT64_MAX, all = 0, min_ashift = UINT64_MAX, max_ashift = 0;

	for (unsigned i = 0; i < tops->n; i++) {
		const struct vdev *vd = tops->top[i] ? tops->top[i]->vdev : NULL;

		if (!vd || !vdev_is_concrete(vd) || vd->is_log)
			continue;
		min = MIN(min, vdev_min_alloc(vd));
		all = gcd(vdev_min_alloc(vd), all);
		min_ashift = MIN(min_ashift, vd->ashift);
		max_ashift = MAX(max_ashift, vd->ashift);
	}
	if (all == 0)
		return;
	a->zp->min_alloc = min;
	a->zp->gcd_alloc = all;
	a->zp->min_ashift = (unsigned)min_ashift;
	a->zp->max_ashift = (unsigned)max_ashift;
}

/* --- as zio's allocator --- */

void alloc_damaged(struct alloc *a, uint64_t vdev, uint64_t offset, uint64_t size)
{
	uint64_t n = atomic_fetch_add(&a->damaged, 1) + 1;

	if (IS_POW2(n))
		log_error(
		    "device %llu: %llu bytes at %llu are freed that are not allocated: the pool is damaged (%llu so "
		    "far)",
		    (unsigned long long)vdev, (unsigned long long)size, (unsigned long long)offset,
		    (unsigned long long)n);
}

struct piece_free {
	struct alloc *a;
	uint64_t txg, birth;
};

static int piece_free(void *arg, struct vdev *vd, uint64_t offset, uint64_t size)
{
	struct piece_free *f = arg;
	struct alloc_top *t = alloc_top_of(f->a, vd->id);
	struct ms *ms = t ? ms_find(t, offset, size) : NULL;

	if (!ms)
		return -EINVAL;
	ms_free(ms, offset, size, f->txg, f->birth);
	return 0;
}

/* Of a removed device: the places that its blocks were moved to, and the range is obsolete (4.7). */
static int free_indirect(struct alloc_top *t, const struct dva *dva, uint64_t txg, uint64_t birth)
{
	struct alloc *a = t->a;
	struct piece_free f = {a, txg, birth};
	int err = vdev_resolve(t->vdev, dva->offset, dva->asize, piece_free, &f);
	uint64_t checkpoint = atomic_load(&a->checkpoint_txg);

	if (err || !a->features.obsolete_counts || (checkpoint && birth <= checkpoint))
		return err;
	SCOPED_LOCK(&a->lock);
	return rangetree_add(&t->dropped[txg & TXG_MASK], dva->offset, dva->offset + dva->asize);
}

static void free_extent(void *arg, const struct dva *dva, uint64_t txg, uint64_t birth)
{
	struct alloc *a = arg;
	struct alloc_top *t = alloc_top_of(a, dva->vdev);
	struct ms *ms = t ? ms_find(t, dva->offset, dva->asize) : NULL;

	if (ms)
		ms_free(ms, dva->offset, dva->asize, txg, birth);
	else if (!t || t->vdev->kind != VDEV_INDIRECT || free_indirect(t, dva, txg, birth))
		alloc_damaged(a, dva->vdev, dva->offset, dva->asize);
}

void alloc_undo(struct alloc *a, const struct dva *dva, uint64_t txg)
{
	struct alloc_top *t = alloc_top_of(a, dva->vdev);
	struct ms *ms = t ? ms_find(t, dva->offset, dva->asize) : NULL;

	if (ms)
		ms_unalloc(ms, dva->offset, dva->asize, txg);
	else
		alloc_damaged(a, dva->vdev, dva->offset, dva->asize);
}

static void unalloc_extent(void *arg, const struct dva *dva, uint64_t txg)
{
	alloc_undo(arg, dva, txg);
}

static int claim_extent(void *arg, const struct dva *dva, uint64_t txg)
{
	struct alloc_top *t = alloc_top_of(arg, dva->vdev);
	struct ms *ms = t ? ms_find(t, dva->offset, dva->asize) : NULL;

	return ms ? ms_claim(ms, dva->offset, dva->asize, txg) : -EINVAL;
}

static const struct zio_alloc_ops alloc_ops = {alloc_blocks, free_extent, unalloc_extent, claim_extent};

/* --- the whole --- */

static struct alloc *alloc_create(const struct alloc_args *args)
{
	struct alloc *a = xcalloc(1, sizeof(*a));
	unsigned per = (unsigned)tunable_get(&tunable_cpus_per_allocator);

	a->args = *args;
	a->mos = args->mos;
	a->root = args->root;
	a->zp = args->zp;
	a->features = args->features;
	a->nallocators = MAX(1u, MIN((unsigned)tunable_get(&tunable_num_allocators), os_cpus() / per));
	atomic_store(&a->checkpoint_txg, args->checkpoint_txg);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->settled, NULL);
	for (unsigned c = 0; c < ALLOC_CLASSES; c++)
		pthread_mutex_init(&a->class[c].lock, NULL);
	for (unsigned t = 0; t < TXG_SIZE; t++)
		list_init(&a->dirty[t]);
	list_init(&a->pending);
	list_init(&a->loaded);
	a->loader = taskq_create("metaslab", 2);
	top_enter(a, args->root->nchildren ? args->root->nchildren - 1 : 0, NULL);
	return a;
}

static int tops_load(struct alloc *a, struct err *e)
{
	int err = 0;

	for (unsigned i = 0; i < a->root->nchildren && err == 0; i++) {
		struct vdev *vd = a->root->child[i];
		struct alloc_top *t;

		if (vd->kind != VDEV_INDIRECT && !(vdev_is_concrete(vd) && vd->ms_array))
			continue;
		err = top_create(a, vd, &t, e);
		if (err)
			break;
		top_enter(a, i, t);
		if (vd->kind == VDEV_INDIRECT)
			err = top_object(t, KEY_OBSOLETE, &t->obsolete);
		else
			err = top_load(t, e);
	}
	return err;
}

int alloc_open(const struct alloc_args *args, struct alloc **out, struct err *e)
{
	struct alloc *a = alloc_create(args);
	int err = tops_load(a, e);

	if (err == 0)
		err = alloc_log_load(a, e);
	if (err) {
		alloc_close(a);
		return err;
	}
	const struct top_table *tops = alloc_tops(a);
	for (unsigned i = 0; i < tops->n; i++)
		if (tops->top[i] && vdev_is_concrete(tops->top[i]->vdev))
			top_start(tops->top[i]);
	granularity_set(a);
	a->zp->alloc_arg = a;
	a->zp->alloc = &alloc_ops;
	alloc_load_all(a);
	alloc_load_balance(a, a->synced_txg);
	*out = a;
	return 0;
}

static void top_tables_destroy(struct top_table *t)
{
	struct top_table *before;

	/* A top-level is in the table in which it came, in all later ones, and not in those after it left. */
	for (; t; t = before) {
		before = t->before;
		for (unsigned i = 0; i < t->n; i++) {
			if (!t->top[i])
				continue;
			for (struct top_table *b = before; b; b = b->before)
				if (i < b->n && b->top[i] == t->top[i])
					b->top[i] = NULL;
			top_destroy(t->top[i]);
		}
		free(t);
	}
}

void alloc_close(struct alloc *a)
{
	if (!a)
		return;
	atomic_store(&a->closing, true);
	taskq_destroy(a->loader);
	if (a->zp->alloc_arg == a) {
		a->zp->alloc = NULL;
		a->zp->alloc_arg = NULL;
	}
	alloc_log_drop(a);
	top_tables_destroy(atomic_load(&a->tops));
	for (unsigned c = 0; c < ALLOC_CLASSES; c++) {
		struct group_table *t = atomic_load(&a->class[c].table), *before;

		for (; t; t = before) {
			before = t->before;
			free(t);
		}
		pthread_mutex_destroy(&a->class[c].lock);
	}
	pthread_cond_destroy(&a->settled);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

void alloc_set_features(struct alloc *a, const struct alloc_features *f)
{
	a->features = *f;
}

/* --- top-levels that come, grow and go --- */

static int top_add(struct alloc *a, struct vdev *top, bool closed, struct err *e)
{
	struct alloc_top *t;
	int err = top_create(a, top, &t, e);

	if (err)
		return err;
	atomic_store(&t->main.closed, closed);
	atomic_store(&t->embedded.closed, closed);
	top_enter(a, (unsigned)top->id, t);
	top_start(t);
	granularity_set(a);
	return 0;
}

int alloc_add_top(struct alloc *a, struct vdev *top, struct err *e)
{
	return top_add(a, top, false, e);
}

int alloc_add_top_closed(struct alloc *a, struct vdev *top, struct err *e)
{
	return top_add(a, top, true, e);
}

int alloc_grow_top(struct alloc *a, struct vdev *top, struct err *e)
{
	struct alloc_top *t = alloc_top_of(a, top->id);
	uint64_t had = t ? alloc_table(t)->n : 0;
	int err = t ? table_extend(t, e) : err_set(e, -EINVAL, "the device takes no blocks");

	if (err)
		return err;
	for (uint64_t m = had; m < alloc_table(t)->n; m++)
		alloc_table(t)->ms[m]->largest_bound = alloc_table(t)->ms[m]->size >> t->vdev->ashift;
	table_weigh(t);
	return 0;
}

int alloc_drain_top(struct alloc *a, struct vdev *top)
{
	struct alloc_top *t = alloc_top_of(a, top->id);

	if (!t)
		return 0;
	atomic_store(&t->main.closed, true);
	atomic_store(&t->embedded.closed, true);
	return atomic_load(&t->main.allocated) || atomic_load(&t->main.allocating) ||
		       atomic_load(&t->embedded.allocated) || atomic_load(&t->embedded.allocating)
		   ? -EBUSY
		   : 0;
}

void alloc_undrain_top(struct alloc *a, struct vdev *top)
{
	struct alloc_top *t = alloc_top_of(a, top->id);

	if (!t)
		return;
	atomic_store(&t->main.closed, false);
	atomic_store(&t->embedded.closed, false);
}

/* Nothing of it is in use; what is still on its way (loading, resting frees) comes to nothing. */
static void ms_leave(struct ms *ms)
{
	SCOPED_LOCK(&ms->lock);
	while (ms->state == MS_LOADING)
		pthread_cond_wait(&ms->cond, &ms->lock);
	ms->gone = true;
	ms_weigh(ms);
}

int alloc_remove_top(struct alloc *a, struct vdev *top, struct tx *tx)
{
	struct alloc_top *t = alloc_top_of(a, top->id);
	int err = 0;

	if (!t)
		return 0;
	const struct ms_table *table = alloc_table(t);
	for (uint64_t m = 0; m < table->n && err == 0; m++) {
		ms_leave(table->ms[m]);
		if (table->ms[m]->object)
			err = alloc_map_destroy(a, table->ms[m]->object, tx);
		table->ms[m]->object = 0;
	}
	if (err == 0 && t->checkpoint)
		err = alloc_map_destroy(a, t->checkpoint, tx);
	if (err == 0 && t->array)
		err = dmu_object_free(a->mos, t->array, tx);
	if (err == 0 && t->unflushed)
		err = dmu_object_free(a->mos, t->unflushed, tx);
	class_remove(a, &t->main);
	if (atomic_load(&t->embedded.size))
		class_remove(a, &t->embedded);
	top_enter(a, (unsigned)top->id, NULL);
	granularity_set(a);
	return err;
}

/* --- what is to be done --- */

bool alloc_is_clean(struct alloc *a, uint64_t txg)
{
	const struct top_table *tops = alloc_tops(a);
	unsigned t = txg & TXG_MASK;

	SCOPED_LOCK(&a->lock);
	for (unsigned i = 0; i < tops->n; i++)
		if (tops->top[i] && tops->top[i]->dropped[t].space)
			return false;
	return list_is_empty(&a->dirty[t]);
}

bool alloc_has_deferred(struct alloc *a)
{
	SCOPED_LOCK(&a->lock);
	return !list_is_empty(&a->pending);
}
