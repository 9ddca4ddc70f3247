/*
 * dsl/dsl_sync.c: the part of the data sets in writing a group (03-datasets.md 8.2): their blocks, then what that
 * means for deadlists and sums of space, then the tasks.
 *
 * Data sets are written several at once, each by one thread of the pool's queue: log, data, accounting, data again.
 * Settling is done by the sync thread, one after the other, with the configuration lock held alone: readers of the
 * tree never see a deadlist half changed.
 */
#include "base/log.h"
#include "base/os.h"
#include "base/str.h"
#include "dsl/dsl_write_impl.h"

#define SYNC_THREADS 4u

struct set_sync {
	struct task task;
	struct live_dataset *l;
	struct objset *os;
	struct tx *tx;
	struct waiter *waiter;
	atomic_uint *left;
	int err;
};

/* --- writing --- */

static void blocks_free(struct live_dataset *l, struct tx *tx)
{
	const struct dsl_write *w = l->ds->pool->write;
	struct bp bp;

	while (bp_list_pop(&l->gather.now, &bp))
		w->ops->free(w->arg, &bp, tx);
}

static int set_write(struct set_sync *s)
{
	const struct dsl_write_ops *ops = s->l->ds->pool->write->ops;
	struct objset *os = s->os;
	int err;

	if (s->tx->pass == 1 && ops->log_sync)
		ops->log_sync(os, s->tx);
	err = objset_sync(os, s->tx);
	if (err)
		return err;
	objset_sync_accounting(os, s->tx);
	if (objset_is_dirty(os, s->tx->txg))
		err = objset_sync(os, s->tx);
	blocks_free(s->l, s->tx);
	return err;
}

static void set_run(struct task *t)
{
	struct set_sync *s = container_of(t, struct set_sync, task);

	s->err = set_write(s);
	if (atomic_fetch_sub(s->left, 1) == 1)
		waiter_done(s->waiter, 0);
}

/* The sets that have something to be written in this pass. */
static size_t sets_collect(struct dsl_write *w, struct tx *tx, struct set_sync **out)
{
	unsigned slot = tx->txg & TXG_MASK;
	size_t n = 0;

	SCOPED_LOCK(&w->lock);
	*out = xcalloc(w->dirty[slot].len + 1, sizeof(**out));
	list_for_each(&w->dirty[slot], node) {
		struct live_dataset *l = container_of(node - slot, struct live_dataset, dirty[0]);

		if (objset_is_dirty(l->dirty_os[slot], tx->txg))
			(*out)[n++] = (struct set_sync){.task.run = set_run, .l = l, .os = l->dirty_os[slot], .tx = tx};
	}
	return n;
}

static void sets_write(struct dsl_pool *p, struct set_sync *s, size_t n)
{
	struct waiter done;
	atomic_uint left;

	if (n == 0)
		return;
	atomic_init(&left, (unsigned)n);
	waiter_init(&done);
	for (size_t i = 0; i < n; i++) {
		s[i].waiter = &done;
		s[i].left = &left;
	}
	for (size_t i = 1; i < n; i++)
		taskq_dispatch(p->write->taskq, &s[i].task);
	set_run(&s[0].task);
	waiter_wait(&done);
	for (size_t i = 0; i < n; i++)
		dsl_sync_check(p, s[i].err, "a data set cannot be written");
}

/* --- settling --- */

static void settle_slow(struct live_dataset *l, struct tx *tx)
{
	struct dsl_pool *p = l->ds->pool;
	struct bpobj *list = l->gather.slow.len ? free_bpobj_get(p) : NULL;
	int64_t sum[3] = {0};
	struct bp bp;

	while (bp_list_pop(&l->gather.slow, &bp)) {
		struct dsl_space s = dsl_bp_space(p, &bp);

		if (list)
			dsl_sync_check(p, bpobj_enqueue(list, &bp, false, s.used, tx),
				       "the list of blocks to be freed cannot be written");
		sum[0] += (int64_t)s.used;
		sum[1] += (int64_t)s.comp;
		sum[2] += (int64_t)s.uncomp;
	}
	if (list)
		dsl_free_diduse(p, sum[0], sum[1], sum[2], tx);
}

static void settle_dead(struct live_dataset *l, struct tx *tx)
{
	struct dsl_pool *p = l->ds->pool;
	struct dsl_deadlist *dl = l->gather.dead.len ? deadlist_get(p, l->ds->deadlist) : NULL;
	struct bp bp;

	while (bp_list_pop(&l->gather.dead, &bp))
		if (dl)
			dsl_sync_check(p, dsl_deadlist_insert(dl, &bp, false, tx), "a deadlist cannot be written");
}

static void settle_prev(struct live_dataset *l, struct tx *tx)
{
	struct dsl_edit prev;

	if (!l->gather.prev_own || dsl_sync_check(l->ds->pool, dsl_edit_begin(l->ds->pool, l->ds->prev_snap, &prev),
						  "a snapshot cannot be read"))
		return;
	prev.ds->unique += (uint64_t)l->gather.prev_own;
	dsl_dataset_store(prev.ds, tx);
	dsl_edit_end(&prev);
}

static void settle_features(struct live_dataset *l, struct tx *tx)
{
	uint64_t used = l->gather.features | atomic_load(&l->features_used);

	if (!l->features_read) {
		l->features = dsl_dataset_features(l->ds);
		l->features_read = true;
	}
	used &= ~l->features;
	for (unsigned i = 0; used && i < dsl_ds_features_len; i++)
		if (used & UINT64_C(1) << i)
			dsl_dataset_feature_set(l->ds, dsl_ds_features[i].guid, tx);
}

static void settle_space(struct live_dataset *l, struct tx *tx)
{
	struct dsl_dataset *ds = l->ds;
	struct gather *g = &l->gather;
	struct dsl_write *w = ds->pool->write;
	uint64_t reservation = dsl_dataset_refreservation(ds), own;
	int64_t delta;

	pthread_mutex_lock(&w->space);
	own = ds->unique + (uint64_t)g->own[0];
	delta = (int64_t)(MAX(own, reservation) - MAX(ds->unique, reservation));
	ds->unique = own;
	ds->used += (uint64_t)g->ref[0];
	ds->compressed += (uint64_t)g->ref[1];
	ds->uncompressed += (uint64_t)g->ref[2];
	pthread_mutex_unlock(&w->space);
	dsl_diduse_transfer(ds->dir, delta, g->own[1], g->own[2], g->own[0], DSL_USED_REFRSRV, DSL_USED_HEAD, tx);
	dsl_used_transfer(ds->dir, g->to_snap, DSL_USED_HEAD, DSL_USED_SNAP, tx);
}

/* All that the writing of a set has brought about is entered. */
void dsl_set_settle(struct live_dataset *l, const struct bp *root, struct tx *tx)
{
	dsl_livelist_drop(l->ds->dir, tx);
	settle_slow(l, tx);
	settle_dead(l, tx);
	settle_prev(l, tx);
	settle_features(l, tx);
	settle_space(l, tx);
	if (l->fbn)
		dsl_fbn_store(l->fbn, l->ds, tx);
	l->ds->bp = *root;
	dsl_dataset_store(l->ds, tx);
	gather_clear(&l->gather);
}

/* --- the passes --- */

static void sets_begin(struct set_sync *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		dsl_limits_load(s[i].l->ds);
		gather_begin(s[i].l);
	}
}

static void sets_sync(struct dsl_pool *p, struct tx *tx)
{
	autofree struct set_sync *s = NULL;
	size_t n = sets_collect(p->write, tx, &s);

	if (n == 0)
		return;
	sets_begin(s, n);
	sets_write(p, s, n);
	DSL_ALONE(p);
	for (size_t i = 0; i < n; i++)
		dsl_set_settle(s[i].l, &s[i].os->rootbp, tx);
}

static void tasks_sync(struct dsl_pool *p, bool early, struct tx *tx)
{
	DSL_ALONE(p);

	dsl_tasks_run(p, early, tx);
	dsl_lists_flush(p, tx);
}

int dsl_pool_sync(struct dsl_pool *p, struct tx *tx)
{
	struct dsl_write *w = p->write;

	w->tx = tx;
	if (tx->pass == 1) {
		dsl_space_refresh(p);
		tasks_sync(p, true, tx);
	}
	if (!w->failed)
		sets_sync(p, tx);
	if (!w->failed) {
		DSL_ALONE(p);

		if (tx->pass == 1)
			dsl_inflight_clear(p, tx->txg);
		dsl_mos_space_settle(p, tx);
		dsl_lists_flush(p, tx);
	}
	if (tx->pass == 1 && !w->failed)
		tasks_sync(p, false, tx);
	w->tx = NULL;
	return w->failed;
}

bool dsl_pool_is_dirty(struct dsl_pool *p, uint64_t txg)
{
	struct dsl_write *w = p->write;
	unsigned slot = txg & TXG_MASK;

	SCOPED_LOCK(&w->lock);
	return !list_is_empty(&w->dirty[slot]) || !list_is_empty(&w->tasks[slot]);
}

bool dsl_pool_needs_pass(struct dsl_pool *p, uint64_t txg)
{
	struct dsl_write *w = p->write;
	unsigned slot = txg & TXG_MASK;

	SCOPED_LOCK(&w->lock);
	list_for_each(&w->dirty[slot], n) {
		const struct live_dataset *l = container_of(n - slot, struct live_dataset, dirty[0]);

		if (objset_is_dirty(l->dirty_os[slot], txg))
			return true;
	}
	return false;
}

/* The next set of the group, off its list. */
static struct live_dataset *dirty_pop(struct dsl_write *w, unsigned slot, struct objset **os)
{
	SCOPED_LOCK(&w->lock);
	struct list_node *n = list_pop(&w->dirty[slot]);
	struct live_dataset *l;

	if (!n)
		return NULL;
	l = container_of(n - slot, struct live_dataset, dirty[0]);
	*os = l->dirty_os[slot];
	l->dirty_os[slot] = NULL;
	return l;
}

void dsl_pool_sync_done(struct dsl_pool *p, uint64_t txg)
{
	struct dsl_write *w = p->write;
	struct live_dataset *l;
	struct objset *os;

	while ((l = dirty_pop(w, txg & TXG_MASK, &os))) {
		objset_sync_done(os, txg);
		if (w->ops->log_sync_done)
			w->ops->log_sync_done(os, txg);
		objset_release(os);
		dsl_dataset_release(l->ds);
	}
	dsl_retired_end(p, txg);
	dsl_space_refresh(p);
	dsl_objsets_trim(p);
}

/* --- a pool that is lost --- */

void dsl_pool_abandon(struct dsl_pool *p, struct str *lost)
{
	struct dsl_write *w = p->write;
	struct live_dataset *l;
	struct objset *os;

	for (unsigned slot = 0; slot < TXG_SIZE; slot++) {
		while ((l = dirty_pop(w, slot, &os))) {
			objset_abandon(os);
			if (lost && !l->lost)
				str_addf(lost, "%s%s", lost->len ? ", " : "", l->ds->name);
			l->lost = true;
			objset_release(os);
			dsl_dataset_release(l->ds);
		}
	}
	dsl_tasks_abandon(p);
	dsl_objsets_trim(p);
}

/* --- opening for writing --- */

int dsl_pool_set_writable(struct dsl_pool *p, const struct dsl_write_ops *ops, void *arg)
{
	struct dsl_write *w = p->write ? p->write : dsl_write_create();
	int err = 0;

	w->ops = ops;
	w->arg = arg;
	p->write = w;
	if (p->mos_dir && !w->mos_dir)
		err = dsl_dir_hold(p, p->mos_dir, &w->mos_dir, NULL);
	if (!err && p->free_dir && !w->free_dir)
		err = dsl_dir_hold(p, p->free_dir, &w->free_dir, NULL);
	if (err)
		return err;
	if (!w->taskq)
		w->taskq = taskq_create("dsl_sync", MIN(SYNC_THREADS, os_cpus()));
	dsl_prop_watch(p, dsl_objset_props_changed, p);
	dsl_space_refresh(p);
	return 0;
}
