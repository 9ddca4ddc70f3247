/*
 * sync.c: a group's passes over all metaslabs, and its end (docs/format/06-allocation-and-vdevs.md 2.5, 2.8; 01-pool.md
 * 8.2).
 */
#include "alloc/alloc_impl.h"

#define SLOP_SHIFT 5
#define SLOP_MAX   (UINT64_C(128) << 30)
#define SLOP_MIN   (UINT64_C(128) << 20)

/* Arrays of top-levels that are new. */
static int arrays_create(struct alloc *a, struct tx *tx)
{
	struct dmu_object spec = {.type = DMU_OT_OBJECT_ARRAY};
	const struct top_table *tops = alloc_tops(a);
	int err = 0;

	for (unsigned i = 0; i < tops->n && err == 0; i++) {
		struct alloc_top *t = tops->top[i];

		if (!t || t->array || !vdev_is_concrete(t->vdev))
			continue;
		err = dmu_object_alloc(a->mos, &spec, tx, &t->array);
		if (err)
			break;
		t->vdev->ms_array = t->array;
		a->args.config_dirty(a->args.arg, t->vdev, tx);
	}
	return err;
}

static struct ms *dirty_pop(struct alloc *a, unsigned t)
{
	SCOPED_LOCK(&a->lock);
	struct list_node *n = list_pop(&a->dirty[t]);

	return n ? container_of(n, struct ms, dirty_node[t]) : NULL;
}

static int dirty_sync(struct alloc *a, struct tx *tx)
{
	unsigned t = tx->txg & TXG_MASK;
	struct ms *ms;
	int err = 0;

	while (err == 0 && (ms = dirty_pop(a, t))) {
		pthread_mutex_lock(&ms->lock);
		ms->dirty &= (uint8_t) ~(1u << t);
		pthread_mutex_unlock(&ms->lock);
		err = ms_sync(ms, tx);
	}
	return err;
}

int alloc_sync(struct alloc *a, struct tx *tx, bool flush_all)
{
	int err = arrays_create(a, tx);

	if (err == 0 && tx->pass == 1 && a->log_zap && (flush_all || !alloc_is_clean(a, tx->txg)))
		err = alloc_log_flush(a, tx, flush_all);
	if (err == 0)
		err = alloc_obsolete_sync(a, tx);
	if (err == 0)
		err = dirty_sync(a, tx);
	return err ? err : alloc_log_finish(a, tx);
}

/* Free space of the normal class is down to the slop (01, 11.5): frees are needed at once (2.8). */
static bool is_short(struct alloc *a)
{
	const struct group_table *t = atomic_load(&a->class[ZIO_CLASS_NORMAL].table);
	int64_t allocated = 0;
	uint64_t size = 0, slop;

	for (unsigned i = 0; t && i < t->n; i++) {
		allocated += atomic_load(&t->group[i]->allocated);
		size += atomic_load(&t->group[i]->size);
	}
	slop = MAX(MIN(size >> SLOP_SHIFT, SLOP_MAX), MIN(size / 2, SLOP_MIN));
	return (int64_t)size - allocated <= (int64_t)slop;
}

void alloc_sync_done(struct alloc *a, uint64_t txg)
{
	bool keep = !is_short(a);
	size_t n = 0;

	a->synced_txg = txg;
	a->defer_slot = (a->defer_slot + 1) % TXG_DEFER;
	alloc_log_done(a);
	pthread_mutex_lock(&a->lock);
	autofree struct ms **pending = xcalloc(a->pending.len + 1, sizeof(*pending));
	list_for_each(&a->pending, node)
		pending[n++] = container_of(node, struct ms, pending_node);
	pthread_mutex_unlock(&a->lock);
	for (size_t i = 0; i < n; i++)
		ms_sync_done(pending[i], keep);
	alloc_load_balance(a, txg);
}
