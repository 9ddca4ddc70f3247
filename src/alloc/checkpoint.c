/*
 * checkpoint.c: maps of whole top-levels: frees that the checkpoint holds (docs/format/06-allocation-and-vdevs.md 4.9,
 * 2.10), and what a removed device no longer needs (4.7). On the sync thread.
 */
#include "alloc/alloc_impl.h"

#define MAP_BLOCKSIZE (128u << 10)

/* The map that `key` of the top-level's ZAP names, made when there is none. */
static int top_map(struct alloc_top *t, const char *key, uint64_t *object, struct tx *tx)
{
	int err;

	if (*object)
		return 0;
	if (!t->vdev->zap_top)
		return -ENOTSUP;
	err = alloc_map_create(t->a, MAP_BLOCKSIZE, tx, object);
	return err ? err : zap_add_u64(t->a->mos, t->vdev->zap_top, key, *object, tx);
}

static int top_map_drop(struct alloc_top *t, const char *key, uint64_t *object, struct tx *tx)
{
	int err = alloc_map_destroy(t->a, *object, tx);

	*object = 0;
	return err ? err : zap_remove(t->a->mos, t->vdev->zap_top, key, tx);
}

/* --- the checkpoint --- */

void alloc_checkpoint_take(struct alloc *a, uint64_t txg, struct tx *tx)
{
	atomic_store(&a->checkpoint_txg, txg);
}

int alloc_checkpoint_add(struct ms *ms, const struct segset *s, struct tx *tx)
{
	struct alloc_top *t = ms->top;
	struct segset_iter it;
	uint64_t start, end;
	struct spacemap *sm;
	int err = top_map(t, KEY_CHECKPOINT, &t->checkpoint, tx);

	if (err == 0)
		err = spacemap_open(t->a->mos, t->checkpoint, 0, ms->shift, t->a->features.spacemap_v2, &sm);
	if (err)
		return err;
	spacemap_begin(sm, true, UINT64_MAX, tx);
	segset_iter_init(&it, s);
	while (err == 0 && segset_iter_next(&it, &start, &end))
		err = spacemap_put(sm, ms->start + (start << ms->shift), (end - start) << ms->shift);
	if (err == 0)
		err = spacemap_end(sm);
	if (err == 0)
		err = spacemap_header_write(sm, NULL, tx);
	atomic_store(&t->kept, -spacemap_allocated(sm));
	spacemap_close(sm);
	return err;
}

/* Consuming a map from its end: entries are read block by block from the front of each, as they have no marks. */
struct consumed {
	struct alloc_top *t;
	struct tail_entry {
		uint64_t at; /* byte where it begins */
		uint64_t offset, size;
	} * entry;
	size_t n, room;
};

static int tail_take(void *arg, const struct spacemap_entry *e)
{
	struct consumed *c = arg;

	if (!e->free)
		return -EINVAL;
	if (c->n == c->room) {
		c->room = c->room ? 2 * c->room : 1024;
		c->entry = xrealloc(c->entry, c->room * sizeof(*c->entry));
	}
	c->entry[c->n++] = (struct tail_entry){e->at, e->offset, e->run};
	return 0;
}

/* Frees up to *limit of the last block's entries; the map becomes shorter by them. */
static int consume_block(struct alloc_top *t, struct spacemap *sm, uint64_t *limit, struct tx *tx)
{
	struct consumed c = {.t = t};
	int err = spacemap_tail(sm, tail_take, &c);

	while (err == 0 && c.n > 0 && *limit > 0) {
		const struct tail_entry *e = &c.entry[--c.n];
		struct ms *ms = ms_find(t, e->offset, e->size);

		if (!ms)
			err = -EINVAL;
		else
			ms_free_now(ms, e->offset, e->size, tx->txg);
		spacemap_cut(sm, e->at, e->size);
		(*limit)--;
	}
	if (c.n == 0 && spacemap_length(sm))
		spacemap_cut_block(sm); /* words before the first entry are debug marks */
	free(c.entry);
	return err;
}

static int top_discard(struct alloc_top *t, uint64_t *limit, struct tx *tx)
{
	struct spacemap *sm;
	int err = spacemap_open(t->a->mos, t->checkpoint, 0, (unsigned)t->vdev->ashift, t->a->features.spacemap_v2,
				&sm);

	if (err)
		return err;
	while (err == 0 && *limit > 0 && spacemap_length(sm) > 0)
		err = consume_block(t, sm, limit, tx);
	if (err == 0)
		err = spacemap_header_write(sm, NULL, tx);
	bool empty = spacemap_length(sm) == 0;
	atomic_store(&t->kept, empty ? 0 : -spacemap_allocated(sm));
	spacemap_close(sm);
	return err || !empty ? err : top_map_drop(t, KEY_CHECKPOINT, &t->checkpoint, tx);
}

int alloc_checkpoint_discard(struct alloc *a, uint64_t limit, bool *done, struct tx *tx)
{
	const struct top_table *tops = alloc_tops(a);
	int err = 0;

	atomic_store(&a->checkpoint_txg, 0);
	*done = false;
	for (unsigned i = 0; i < tops->n; i++) {
		if (!tops->top[i] || !tops->top[i]->checkpoint)
			continue;
		err = top_discard(tops->top[i], &limit, tx);
		if (err || tops->top[i]->checkpoint)
			return err;
	}
	*done = true;
	return 0;
}

/* --- removed devices --- */

static int obsolete_write(struct alloc_top *t, const struct rangetree *rt, struct tx *tx)
{
	bool created = !t->obsolete;
	struct spacemap *sm;
	int err = top_map(t, KEY_OBSOLETE, &t->obsolete, tx);

	if (err == 0)
		err = spacemap_open(t->a->mos, t->obsolete, 0, 0, t->a->features.spacemap_v2, &sm);
	if (err)
		return err;
	if (created)
		t->a->args.activate(t->a->args.arg, FEATURE_OBSOLETE, 1, tx);
	err = spacemap_append(sm, rt, false, tx);
	if (err == 0)
		err = spacemap_header_write(sm, NULL, tx);
	spacemap_close(sm);
	return err;
}

int alloc_obsolete_sync(struct alloc *a, struct tx *tx)
{
	const struct top_table *tops = alloc_tops(a);
	int err = 0;

	for (unsigned i = 0; i < tops->n && err == 0; i++) {
		struct alloc_top *t = tops->top[i];
		struct rangetree rt;

		if (!t || t->vdev->kind != VDEV_INDIRECT)
			continue;
		pthread_mutex_lock(&a->lock);
		rt = t->dropped[tx->txg & TXG_MASK];
		rangetree_init(&t->dropped[tx->txg & TXG_MASK]);
		pthread_mutex_unlock(&a->lock);
		if (rt.space)
			err = obsolete_write(t, &rt, tx);
		rangetree_clear(&rt);
	}
	return err;
}
