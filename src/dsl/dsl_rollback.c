/*
 * dsl/dsl_rollback.c: back to the latest snapshot, by way of a clone that takes the head's place (03-datasets.md 4.7).
 */
#include "base/str.h"
#include "dsl/dsl_write_impl.h"

#define BLOCKS      1
#define TXG_INITIAL 4

/* --- the exchange --- */

static void features_exchange(struct dsl_dataset *a, struct dsl_dataset *b, struct tx *tx)
{
	uint64_t in_a = dsl_dataset_features(a), in_b = dsl_dataset_features(b);

	for (unsigned i = 0; i < dsl_ds_features_len; i++) {
		uint64_t bit = UINT64_C(1) << i;

		if ((in_a & bit) == (in_b & bit))
			continue;
		dsl_dataset_feature_move(in_a & bit ? a : b, in_a & bit ? b : a, dsl_ds_features[i].guid, tx);
	}
}

static void swap_u64(uint64_t *a, uint64_t *b)
{
	uint64_t t = *a;

	*a = *b;
	*b = t;
}

/* Blocks of the two that no snapshot has any more, and those that only snapshots have. */
static void space_exchange(struct dsl_dataset *c, struct dsl_dataset *h, struct tx *tx)
{
	struct dsl_pool *p = h->pool;
	struct dsl_space cd = {0}, hd = {0}, cs = {0}, hs = {0};
	struct dsl_edit origin;
	uint64_t txg = 0;
	int64_t d[3];

	dsl_sync_check(p, dsl_list_range(p, c->deadlist, 0, UINT64_MAX, &cd), "a deadlist cannot be read");
	dsl_sync_check(p, dsl_list_range(p, h->deadlist, 0, UINT64_MAX, &hd), "a deadlist cannot be read");
	d[0] = (int64_t)(c->used + cd.used - h->used - hd.used);
	d[1] = (int64_t)(c->compressed + cd.comp - h->compressed - hd.comp);
	d[2] = (int64_t)(c->uncompressed + cd.uncomp - h->uncompressed - hd.uncomp);
	dsl_diduse(h->dir, DSL_USED_HEAD, d[0], d[1], d[2], tx);
	dsl_diduse(c->dir, DSL_USED_HEAD, -d[0], -d[1], -d[2], tx);
	if (dsl_dir_is_clone(h->dir) &&
	    !dsl_sync_check(p, dsl_edit_begin(p, h->dir->origin, &origin), "an origin cannot be read")) {
		txg = origin.ds->creation_txg;
		dsl_edit_end(&origin);
	}
	dsl_sync_check(p, dsl_list_range(p, c->deadlist, txg, UINT64_MAX, &cs), "a deadlist cannot be read");
	dsl_sync_check(p, dsl_list_range(p, h->deadlist, txg, UINT64_MAX, &hs), "a deadlist cannot be read");
	dsl_used_transfer(h->dir, (int64_t)(cs.used - hs.used), DSL_USED_HEAD, DSL_USED_SNAP, tx);
}

static void prev_adjust(struct dsl_dataset *c, struct tx *tx)
{
	struct dsl_pool *p = c->pool;
	struct dsl_space own;
	struct dsl_edit prev;

	if (!c->prev_snap || dsl_sync_check(p, dsl_edit_begin(p, c->prev_snap, &prev), "a snapshot cannot be read"))
		return;
	if (!dsl_sync_check(p, dsl_list_range(p, c->deadlist, prev.ds->prev_snap_txg, UINT64_MAX, &own),
			    "a deadlist cannot be read")) {
		prev.ds->unique = own.used;
		dsl_dataset_store(prev.ds, tx);
	}
	dsl_edit_end(&prev);
}

static void remap_exchange(struct dsl_dataset *a, struct dsl_dataset *b, struct tx *tx)
{
	uint64_t in_a = dsl_remap_take(a, tx), in_b = dsl_remap_take(b, tx);

	dsl_remap_give(b, in_a, tx);
	dsl_remap_give(a, in_b, tx);
}

/* c, the head of a clone in a child dir, and h, both after the same snapshot, change their contents. */
void dsl_clone_swap_sync(struct dsl_dataset *c, struct dsl_dataset *h, struct tx *tx)
{
	uint64_t reservation = dsl_dataset_refreservation(h);
	int64_t delta = (int64_t)(MIN(reservation, h->unique) - MIN(reservation, c->unique));
	struct dsl_write *w = h->pool->write;
	struct bp bp = c->bp;

	features_exchange(c, h, tx);
	prev_adjust(c, tx);
	c->bp = h->bp;
	h->bp = bp;
	space_exchange(c, h, tx);
	pthread_mutex_lock(&w->space);
	swap_u64(&c->used, &h->used);
	swap_u64(&c->compressed, &h->compressed);
	swap_u64(&c->uncompressed, &h->uncompressed);
	swap_u64(&c->unique, &h->unique);
	pthread_mutex_unlock(&w->space);
	dsl_diduse(h->dir, DSL_USED_REFRSRV, delta, 0, 0, tx);
	swap_u64(&c->deadlist, &h->deadlist);
	remap_exchange(c, h, tx);
	dsl_dataset_store(c, tx);
	dsl_dataset_store(h, tx);
	dsl_bookmarks_recompute(h, c, tx);
	dsl_dataset_bookmarks_changed(h);
	dsl_dataset_bookmarks_changed(c);
	dsl_livelist_drop(c->dir, tx);
	dsl_livelist_drop(h->dir, tx);
}

/* --- rollback --- */

struct rollback_arg {
	struct dsl_pool *p;
	const char *name, *snapshot;
};

/* Why the asked one is not the latest. */
static int not_latest(struct dsl_dataset *head, const char *snapshot, struct err *e)
{
	struct dsl_dataset *s;
	struct name_list l;
	int err = dsl_dataset_hold(head->pool, snapshot, &s, e);

	if (err)
		return err;
	if (!s->is_snapshot || s->dir != head->dir) {
		err = err_set(e, -ESRCH, "'%s' is not a snapshot of it", snapshot);
	} else {
		err = err_set(e, -EEXIST, "more recent snapshots or bookmarks exist");
		err_hint(e, "use '-r' to force deletion of the following snapshots and bookmarks:");
		if (name_list_read(head->pool->mos, head->snap_names, &l) == 0) {
			for (size_t i = 0; i < l.n; i++) {
				struct dataset_peek peek;

				if (dsl_dataset_peek(head->pool, l.e[i].object, &peek) == 0 &&
				    peek.creation_txg > s->creation_txg)
					err_hint(e, "%s@%s", head->name, l.e[i].name);
			}
			name_list_free(&l);
		}
	}
	dsl_dataset_release(s);
	return err;
}

static int limits_check(struct dsl_dataset *head, const struct dsl_dataset *prev, struct err *e)
{
	uint64_t quota = dsl_dataset_refquota(head), reservation = dsl_dataset_refreservation(head);
	uint64_t need = MIN(reservation, head->unique);

	if (quota && prev->used > quota)
		return err_set(e, -EDQUOT, "the snapshot is larger than the refquota");
	if (need > dsl_dir_available(head->dir, NULL, 0))
		return err_set(e, -ENOSPC, "out of space");
	return 0;
}

static int prev_check(struct rollback_arg *a, struct dsl_dataset *head, struct tx *tx, struct err *e)
{
	struct dsl_dataset *prev;
	int err;

	if (head->prev_snap_txg < TXG_INITIAL)
		return err_set(e, -EINVAL, "there is no snapshot to roll back to");
	if (tx->syncing && head->prev_snap_txg >= tx->txg)
		return -EAGAIN;
	err = dsl_dataset_hold_obj(a->p, head->prev_snap, &prev, e);
	if (err)
		return err;
	if (prev->dir != head->dir)
		err = err_set(e, -EINVAL, "there is no snapshot to roll back to");
	else if (a->snapshot && strcmp(prev->name, a->snapshot) != 0)
		err = not_latest(head, a->snapshot, e);
	else if (dsl_bookmarks_newest(head) > prev->creation_txg)
		err = err_set(e, -EEXIST, "more recent snapshots or bookmarks exist");
	else
		err = limits_check(head, prev, e);
	dsl_dataset_release(prev);
	return err;
}

static int rollback_check(void *arg, struct tx *tx, struct err *e)
{
	struct rollback_arg *a = arg;
	struct dsl_dataset *head;
	int err = dsl_dataset_hold(a->p, a->name, &head, e);

	if (err)
		return err;
	if (head->is_snapshot)
		err = err_set(e, -EINVAL, "'%s' is a snapshot", a->name);
	else if (dsl_dataset_is_busy(head))
		err = err_set(e, -EBUSY, "dataset is busy");
	else
		err = prev_check(a, head, tx, e);
	if (!err && tx->syncing && dsl_dataset_is_dirty_after(head, tx->txg))
		err = -EAGAIN;
	dsl_dataset_release(head);
	return err;
}

static void rollback_do(struct dsl_dataset *head, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	struct dsl_dataset *snap, *clone;

	if (dsl_sync_check(p, dsl_dataset_hold_obj(p, head->prev_snap, &snap, NULL), "a snapshot cannot be read"))
		return;
	dsl_objset_forget(head, tx);
	clone = dsl_clone_sync(snap, head->dir, "%rollback", true, tx);
	if (clone) {
		dsl_clone_swap_sync(clone, head, tx);
		dsl_history(p, "rollback", head, tx, "%s", "");
		dsl_head_destroy_sync(clone, tx);
		dsl_dataset_release(clone);
		dsl_log_header_clear(head, tx);
	}
	dsl_dataset_release(snap);
}

static void rollback_sync(void *arg, struct tx *tx)
{
	struct rollback_arg *a = arg;
	struct dsl_dataset *head;

	if (dsl_sync_check(a->p, dsl_dataset_hold(a->p, a->name, &head, NULL), "a data set cannot be read"))
		return;
	rollback_do(head, tx);
	dsl_dataset_release(head);
}

int dsl_rollback(struct dsl_pool *p, const char *name, const char *snapshot, struct err *e)
{
	struct rollback_arg a = {p, name, snapshot};
	struct dsl_task t = {
	    .check = rollback_check, .sync = rollback_sync, .arg = &a, .policy = DSL_SPACE_RESERVED, .blocks = BLOCKS};

	return dsl_task_run(p, &t, e);
}
