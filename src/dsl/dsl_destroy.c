/*
 * dsl/dsl_destroy.c: destroying snapshots and heads (03-datasets.md 4.3, 4.4, 4.10).
 */
#include "base/str.h"
#include "dsl/dsl_write_impl.h"

#define FEATURE_ASYNC "com.delphix:async_destroy"
#define GROUP_NAMES   1000
#define GROUP_NS      UINT64_C(250000000) /* the configuration is locked meanwhile */

/* --- neighbours --- */

/* A snapshot and what its going concerns. */
struct leaving {
	struct dsl_pool *p;
	struct dsl_dataset *snap, *head;
	struct dsl_edit prev, next; /* prev.ds NULL: none */
	struct dsl_deadlist *next_dl;
	bool branched; /* the previous one belongs to another dir: this is the first of a clone */
	bool keep_key; /* a bookmark needs the key of its txg */
};

static int leaving_begin(struct leaving *l, struct dsl_dataset *snap)
{
	struct dsl_pool *p = snap->pool;
	int err;

	*l = (struct leaving){.p = p, .snap = snap};
	err = dsl_dataset_hold_obj(p, snap->dir->head, &l->head, NULL);
	if (!err)
		err = dsl_edit_begin(p, snap->next_snap, &l->next);
	if (!err && snap->prev_snap)
		err = dsl_edit_begin(p, snap->prev_snap, &l->prev);
	if (!err)
		l->branched = l->prev.ds && l->prev.ds->next_snap != snap->object;
	return err;
}

static void leaving_end(struct leaving *l)
{
	if (l->prev.ds)
		dsl_edit_end(&l->prev);
	if (l->next.ds)
		dsl_edit_end(&l->next);
	if (l->head)
		dsl_dataset_release(l->head);
}

static void prev_unlink(struct leaving *l, struct tx *tx)
{
	struct dsl_dataset *prev = l->prev.ds, *s = l->snap;
	struct dsl_space both;

	if (!prev)
		return;
	if (l->branched) {
		dsl_set_remove(l->p, prev->next_clones, s->object, tx);
		dsl_set_add(l->p, &prev->next_clones, DMU_OT_NEXT_CLONES, s->next_snap, tx);
	} else {
		prev->next_snap = s->next_snap;
		/* What exactly these two had. */
		if (!dsl_sync_check(l->p,
				    dsl_deadlist_sums_range(l->next_dl, prev->prev_snap_txg, s->prev_snap_txg, &both),
				    "a deadlist cannot be read"))
			prev->unique += both.used;
	}
	dsl_dataset_store(prev, tx);
}

/* Of the plain list of a pool that was made before version 26 (3.3). */
struct plain_release {
	struct leaving *l;
	struct bpobj *older; /* the snapshot's own list: what even older ones have */
	struct dsl_space own;
	struct tx *tx;
};

static int plain_entry(void *arg, const struct bp *bp, bool freed)
{
	struct plain_release *r = arg;
	struct dsl_pool *p = r->l->p;
	struct dsl_space s = dsl_bp_space(p, bp);

	if (dsl_bp_birth(bp) <= r->l->snap->prev_snap_txg)
		return bpobj_enqueue(r->older, bp, false, s.used, r->tx);
	r->own.used += s.used;
	r->own.comp += s.comp;
	r->own.uncomp += s.uncomp;
	p->write->ops->free(p->write->arg, bp, r->tx);
	return 0;
}

/* The next one's list is gone through: what only this snapshot had is freed, the rest joins this one's list, which is
 * the next one's from then on. */
static void plain_blocks_release(struct leaving *l, struct tx *tx)
{
	struct plain_release r = {.l = l, .tx = tx};
	struct dsl_dataset *s = l->snap, *next = l->next.ds;
	uint64_t list = next->deadlist;
	int err;

	deadlist_drop(l->p, list);
	deadlist_drop(l->p, s->deadlist);
	err = bpobj_open(l->p->mos, s->deadlist, &r.older);
	if (!err) {
		err = bpobj_iterate(l->p->mos, list, plain_entry, &r);
		if (!err)
			err = bpobj_flush(r.older, tx);
		bpobj_close(r.older);
	}
	if (dsl_sync_check(l->p, err, "a deadlist cannot be read"))
		return;
	dsl_diduse(s->dir, DSL_USED_SNAP, -(int64_t)r.own.used, -(int64_t)r.own.comp, -(int64_t)r.own.uncomp, tx);
	dsl_sync_check(l->p, dsl_deadlist_free(l->p, list, tx), "a deadlist cannot be freed");
	next->deadlist = s->deadlist;
	l->next_dl = deadlist_get(l->p, next->deadlist);
}

static bool deadlist_is_plain(struct dsl_pool *p, uint64_t object)
{
	struct dnode *dn;
	bool plain;

	if (dsl_sync_check(p, dnode_hold(p->mos, object, &dn, NULL), "a deadlist cannot be read"))
		return false;
	plain = dn->type == DMU_OT_BPOBJ;
	dnode_release(dn);
	return plain;
}

/* What only this snapshot had is freed in the background; the rest of its deadlist is that of the next. */
static void blocks_release(struct leaving *l, struct tx *tx)
{
	struct dsl_dataset *s = l->snap;
	struct dsl_space own;
	struct bpobj *list;

	if (deadlist_is_plain(l->p, l->next.ds->deadlist)) {
		plain_blocks_release(l, tx);
		return;
	}
	list = free_bpobj_get(l->p);
	if (!list || dsl_sync_check(l->p, dsl_deadlist_sums_range(l->next_dl, s->prev_snap_txg, UINT64_MAX, &own),
				    "a deadlist cannot be read"))
		return;
	dsl_diduse(s->dir, DSL_USED_SNAP, -(int64_t)own.used, -(int64_t)own.comp, -(int64_t)own.uncomp, tx);
	dsl_free_diduse(l->p, (int64_t)own.used, (int64_t)own.comp, (int64_t)own.uncomp, tx);
	dsl_sync_check(l->p, dsl_deadlist_move(l->next_dl, list, s->prev_snap_txg, tx), "a deadlist cannot be written");
	deadlist_drop(l->p, s->deadlist);
	dsl_sync_check(l->p, dsl_deadlist_merge(l->next_dl, s->deadlist, tx), "a deadlist cannot be written");
	dsl_sync_check(l->p, dsl_deadlist_free(l->p, s->deadlist, tx), "a deadlist cannot be freed");
}

static void key_remove(struct dsl_dataset *head, uint64_t txg, struct tx *tx)
{
	struct dsl_deadlist *dl = deadlist_get(head->pool, head->deadlist);

	if (dl && dsl_deadlist_has_key(dl, txg))
		dsl_sync_check(head->pool, dsl_deadlist_remove_key(dl, txg, tx), "a deadlist cannot be written");
	dsl_remap_key_remove(head, txg, tx);
}

static void clone_keys_remove(struct dsl_pool *p, uint64_t clones, uint64_t txg, struct tx *tx);

static int clone_key_remove(struct dsl_pool *p, uint64_t object, uint64_t txg, struct tx *tx)
{
	struct dsl_edit c, origin;
	struct dsl_dir *d;
	uint64_t origin_txg;
	int err = dsl_edit_begin(p, object, &c);

	if (err)
		return err;
	err = dsl_dir_hold(p, c.ds->dir_object, &d, NULL);
	if (!err) {
		err = dsl_edit_begin(p, d->origin, &origin);
		if (!err) {
			origin_txg = origin.ds->creation_txg;
			dsl_edit_end(&origin);
			if (origin_txg > txg) {
				key_remove(c.ds, txg, tx);
				clone_keys_remove(p, d->clones, txg, tx);
			}
		}
		dsl_dir_release(d);
	}
	dsl_edit_end(&c);
	return err;
}

static void clone_keys_remove(struct dsl_pool *p, uint64_t clones, uint64_t txg, struct tx *tx)
{
	struct name_list l;

	if (dsl_sync_check(p, name_list_read(p->mos, clones, &l), "clones cannot be listed"))
		return;
	for (size_t i = 0; i < l.n; i++)
		dsl_sync_check(p, clone_key_remove(p, l.e[i].object, txg, tx), "a clone cannot be read");
	name_list_free(&l);
}

void dsl_deadlist_key_remove_all(struct dsl_dataset *head, uint64_t txg, struct tx *tx)
{
	key_remove(head, txg, tx);
	clone_keys_remove(head->pool, head->dir->clones, txg, tx);
}

/* The next one is a snapshot, too: it alone has now what it shared with this one. */
static void next_snapshot_adjust(struct leaving *l, struct tx *tx)
{
	struct dsl_dataset *next = l->next.ds, *s = l->snap;
	struct dsl_deadlist *dl;
	struct dsl_space shared;
	struct dsl_edit after;

	if (dsl_sync_check(l->p, dsl_edit_begin(l->p, next->next_snap, &after), "a snapshot cannot be read"))
		return;
	dl = deadlist_get(l->p, after.ds->deadlist);
	if (dl && !dsl_sync_check(l->p, dsl_deadlist_sums_range(dl, s->prev_snap_txg, s->creation_txg, &shared),
				  "a deadlist cannot be read"))
		next->unique += shared.used;
	dsl_edit_end(&after);
}

static void next_head_adjust(struct leaving *l, struct tx *tx)
{
	struct dsl_dataset *head = l->next.ds;
	uint64_t reservation = dsl_dataset_refreservation(head), old = head->unique;
	struct dsl_write *w = l->p->write;
	struct dsl_space dead = {0};

	if (l->next_dl)
		dsl_deadlist_sums(l->next_dl, &dead);
	pthread_mutex_lock(&w->space);
	head->unique = head->used - ((l->prev.ds ? l->prev.ds->used : 0) - dead.used);
	pthread_mutex_unlock(&w->space);
	if (old < reservation)
		dsl_diduse(head->dir, DSL_USED_REFRSRV, -(int64_t)MIN(head->unique - old, reservation - old), 0, 0, tx);
}

static void next_relink(struct leaving *l, struct tx *tx)
{
	struct dsl_dataset *next = l->next.ds, *s = l->snap;

	next->prev_snap = s->prev_snap;
	next->prev_snap_txg = s->prev_snap_txg;
	if (!l->keep_key)
		clone_keys_remove(l->p, s->dir->clones, s->creation_txg, tx);
	if (next->is_snapshot) {
		next_snapshot_adjust(l, tx);
		if (l->keep_key)
			dsl_remap_key_remove(l->head, s->creation_txg, tx);
		else
			key_remove(l->head, s->creation_txg, tx);
	} else {
		next_head_adjust(l, tx);
	}
	dsl_dataset_store(next, tx);
}

/* The pool's property bootfs does not name what is gone. */
static void bootfs_forget(struct dsl_pool *p, uint64_t object, struct tx *tx)
{
	uint64_t props, bootfs;

	if (zap_lookup_u64(p->mos, MOS_DIRECTORY, "pool_props", &props) == 0 &&
	    zap_lookup_u64(p->mos, props, "bootfs", &bootfs) == 0 && bootfs == object)
		dsl_sync_check(p, zap_remove(p->mos, props, "bootfs", tx), "a pool property cannot be changed");
}

/* The object, and what only hangs on it. */
static void dataset_free(struct dsl_dataset *ds, struct tx *tx)
{
	struct dsl_pool *p = ds->pool;

	dsl_mos_free(p, ds->next_clones, tx);
	dsl_mos_free(p, ds->props, tx);
	dsl_mos_free(p, ds->userrefs, tx);
	dsl_mos_free(p, ds->snap_names, tx);
	dsl_extended_free(p, ds->object, ds->zapified, tx);
	bootfs_forget(p, ds->object, tx);
	dsl_dataset_forget(ds);
}

void dsl_snapshot_destroy_sync(struct dsl_dataset *snap, struct tx *tx)
{
	struct dsl_pool *p = snap->pool;
	struct leaving l;

	if (dsl_sync_check(p, leaving_begin(&l, snap), "the neighbours of a snapshot cannot be read")) {
		leaving_end(&l);
		return;
	}
	dsl_history(p, "destroy", snap, tx, "%s", "");
	l.next_dl = deadlist_get(p, l.next.ds->deadlist);
	if (l.next_dl) {
		l.keep_key = dsl_bookmarks_snapshot_destroyed(l.head, snap, l.next_dl, tx);
		dsl_dataset_features_clear(snap, tx);
		prev_unlink(&l, tx);
		blocks_release(&l, tx);
		dsl_remap_pass_on(snap, l.next.ds, tx);
		next_relink(&l, tx);
		dsl_sync_check(p, zap_remove(p->mos, l.head->snap_names, snap->snapname, tx),
			       "a snapshot's name cannot be taken off");
		if (snap->snapname[0] != '%')
			dsl_limits_adjust(snap->dir, true, -1, tx);
		dsl_snapshots_changed(snap->dir, tx);
		dsl_dataset_bookmarks_changed(l.head);
		dataset_free(snap, tx);
	}
	leaving_end(&l);
}

/* --- what is in the way of a snapshot --- */

static int name_add(void *arg, const char *tag, uint64_t time)
{
	struct str *s = arg;

	str_addf(s, "%s%s", s->len ? ", " : "", tag);
	return 0;
}

static int holds_refuse(struct dsl_dataset *s, struct err *e)
{
	struct str tags = {0};
	int err;

	dsl_each_hold(s, name_add, &tags);
	err = err_set(e, -EBUSY, "it's being held: %s", str_get(&tags));
	str_free(&tags);
	return err;
}

static int clones_refuse(struct dsl_dataset *s, struct err *e)
{
	struct dsl_pool *p = s->pool;
	struct name_list l;
	int err = err_set(e, -EEXIST, "snapshot has dependent clones");

	if (name_list_read(p->mos, s->next_clones, &l))
		return err;
	err_hint(e, "use '-R' to destroy the following datasets:");
	for (size_t i = 0; i < l.n; i++) {
		struct dsl_edit c;
		struct dsl_dir *d;

		if (dsl_edit_begin(p, l.e[i].object, &c))
			continue;
		if (dsl_dir_hold(p, c.ds->dir_object, &d, NULL) == 0) {
			err_hint(e, "%s", d->name);
			dsl_dir_release(d);
		}
		dsl_edit_end(&c);
	}
	name_list_free(&l);
	return err;
}

static uint64_t holds_of(struct dsl_dataset *s)
{
	uint64_t n = 0;

	return s->userrefs && zap_count(s->pool->mos, s->userrefs, &n) ? UINT64_MAX : n;
}

bool dsl_snapshot_goes_with_last_hold(struct dsl_dataset *snap, uint64_t holds_left)
{
	return holds_left == 0 && snap->flags & DSL_DS_DEFER_DESTROY && snap->num_children == 1;
}

static int snapshot_destroy_check(struct dsl_dataset *s, bool defer, struct err *e)
{
	if (dsl_dataset_is_busy(s))
		return err_set(e, -EBUSY, "dataset is busy");
	if (defer)
		return 0;
	if (holds_of(s))
		return holds_refuse(s, e);
	if (s->num_children > 1)
		return clones_refuse(s, e);
	return 0;
}

static void snapshot_defer_sync(struct dsl_dataset *s, struct tx *tx)
{
	s->flags |= DSL_DS_DEFER_DESTROY;
	dsl_dataset_store(s, tx);
	dsl_history(s->pool, "defer_destroy", s, tx, "%s", "");
}

/* --- heads --- */

/* The key object of a dir that goes; the last one takes it along. */
static void key_release(struct dsl_dir *d, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	uint64_t refs;

	if (!d->crypto_obj || dsl_sync_check(p, zap_lookup_u64(p->mos, d->crypto_obj, "DSL_CRYPTO_REFCOUNT", &refs),
					     "a key object cannot be read"))
		return;
	if (refs <= 1)
		dsl_mos_free(p, d->crypto_obj, tx);
	else
		dsl_sync_check(p, zap_update_u64(p->mos, d->crypto_obj, "DSL_CRYPTO_REFCOUNT", refs - 1, tx),
			       "a key object cannot be changed");
}

static void deleg_free(struct dsl_dir *d, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	struct name_list l;

	if (dsl_sync_check(p, name_list_read(p->mos, d->deleg, &l), "permissions cannot be read"))
		return;
	for (size_t i = 0; i < l.n; i++)
		dsl_mos_free(p, l.e[i].object, tx);
	name_list_free(&l);
	dsl_mos_free(p, d->deleg, tx);
}

static void dir_destroy_sync(struct dsl_dir *d, struct tx *tx)
{
	struct dsl_pool *p = d->pool;

	dsl_limits_adjust(d->up, false, -1, tx);
	if (d->reserved)
		dsl_reservation_sync(d, 0, tx);
	key_release(d, tx);
	dsl_mos_free(p, d->child_map, tx);
	dsl_mos_free(p, d->props, tx);
	dsl_mos_free(p, d->clones, tx);
	if (d->deleg)
		deleg_free(d, tx);
	dsl_sync_check(p, zap_remove(p->mos, d->up->child_map, strrchr(d->name, '/') + 1, tx),
		       "a child cannot be taken off its parent");
	dsl_extended_free(p, d->object, d->zapified, tx);
	dsl_dir_forget(d);
}

/* The origin of a clone that goes; true: it was only waiting for that. */
static bool origin_unlink(struct dsl_dataset *head, struct dsl_dataset *origin, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	bool last = dsl_dir_is_clone(head->dir) && origin->flags & DSL_DS_DEFER_DESTROY && origin->num_children == 2 &&
		    holds_of(origin) == 0;

	if (origin->next_clones)
		dsl_set_remove(p, origin->next_clones, head->object, tx);
	origin->num_children--;
	dsl_dataset_store(origin, tx);
	if (origin->dir->clones)
		dsl_set_remove(p, origin->dir->clones, head->object, tx);
	return last;
}

/* All that the tree still takes goes over to what is to be freed. */
static void tree_give_away(struct dsl_dataset *head, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	struct dsl_dir *d = head->dir;
	struct objset *os;

	if (bp_is_hole(&head->bp) ||
	    dsl_sync_check(p, dsl_dataset_open_raw(head, &os, NULL), "an object set cannot be read"))
		return;
	if (p->write->ops->log_discard)
		p->write->ops->log_discard(os, tx);
	objset_release(os);
	dsl_objset_forget(head, tx);
	if (dsl_livelist_give_away(d, tx))
		return;
	if (dsl_feature_enabled(p, FEATURE_ASYNC)) {
		int64_t used = (int64_t)d->used, comp = (int64_t)d->compressed, uncomp = (int64_t)d->uncompressed;

		dsl_bptree_add(p, &head->bp, head->prev_snap_txg, d->used, d->compressed, d->uncompressed, tx);
		dsl_diduse(d, DSL_USED_HEAD, -used, -comp, -uncomp, tx);
		dsl_free_diduse(p, used, comp, uncomp, tx);
	} else {
		dsl_tree_kill(head, tx);
	}
}

/* The whole of 4.4. */
void dsl_head_destroy_sync(struct dsl_dataset *head, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	struct dsl_dataset *origin = NULL;
	struct dsl_dir *d = dsl_dir_ref(head->dir);
	bool goes = false;

	dsl_history(p, "destroy", head, tx, "(bptree, mintxg=%llu)", (unsigned long long)head->prev_snap_txg);
	if (dsl_dataset_refreservation(head))
		dsl_refreservation_sync(head, 0, tx);
	dsl_dataset_features_clear(head, tx);
	if (head->prev_snap &&
	    !dsl_sync_check(p, dsl_dataset_hold_obj(p, head->prev_snap, &origin, NULL), "an origin cannot be read"))
		goes = origin_unlink(head, origin, tx);
	if (origin)
		dsl_dir_store(origin->dir, tx);
	deadlist_drop(p, head->deadlist);
	dsl_sync_check(p, dsl_deadlist_free(p, head->deadlist, tx), "a deadlist cannot be freed");
	dsl_remap_free(p, dsl_remap_take(head, tx), tx);
	tree_give_away(head, tx);
	d->head = 0;
	dsl_bookmarks_destroy_all(head, tx);
	dataset_free(head, tx);
	dir_destroy_sync(d, tx);
	dsl_dir_release(d);
	if (goes)
		dsl_snapshot_destroy_sync(origin, tx);
	if (origin)
		dsl_dataset_release(origin);
}

static int each_name_hint(struct dsl_dataset *head, struct err *e)
{
	struct name_list l;
	bool any = false;

	if (name_list_read(head->pool->mos, head->snap_names, &l))
		return 0;
	name_list_sort(&l);
	for (size_t i = 0; i < l.n; i++, any = true)
		err_hint(e, "%s@%s", head->name, l.e[i].name);
	name_list_free(&l);
	return any;
}

static int child_hint(void *arg, struct dsl_dir *child)
{
	err_hint(arg, "%s", child->name);
	return 0;
}

/* Names everything that is below. */
static int children_refuse(struct dsl_dataset *head, struct err *e)
{
	unsigned type = 0;
	int err;

	dsl_dataset_type(head, &type);
	err = err_set(e, -EEXIST, "%s has children", type & DSL_VOLUME ? "volume" : "filesystem");
	err_hint(e, "use '-r' to destroy the following datasets:");
	each_name_hint(head, e);
	dsl_each_child(head->dir, child_hint, e);
	return err;
}

static bool has_snapshots(struct dsl_dataset *head)
{
	struct dsl_edit prev;
	bool own;

	if (!head->prev_snap || dsl_edit_begin(head->pool, head->prev_snap, &prev))
		return false;
	own = prev.ds->next_snap == head->object;
	dsl_edit_end(&prev);
	return own;
}

int dsl_head_destroy_check(struct dsl_dataset *head, struct tx *tx, struct err *e)
{
	uint64_t children = 0;
	int err;

	if (head->is_snapshot)
		return err_set(e, -EINVAL, "'%s' is a snapshot", head->name);
	if (!head->dir->up)
		return err_set(e, -EINVAL, "operation does not apply to pools");
	if (dsl_dataset_is_busy(head))
		return err_set(e, -EBUSY, "dataset is busy");
	err = zap_count(head->pool->mos, head->dir->child_map, &children);
	if (err)
		return err_set(e, err, "children cannot be listed: %s", err_words(err));
	if (children || has_snapshots(head))
		return children_refuse(head, e);
	return tx->syncing && dsl_dataset_is_dirty_after(head, tx->txg) ? -EAGAIN : 0;
}

/* --- the task --- */

/* What is to go, in an order in which it can. One task takes as much of it as a group should have; each name is looked
 * at again when those before it are gone, and the first that cannot go ends the task. */
struct destroy_arg {
	struct dsl_pool *p;
	const char *const *names;
	size_t n, end, done; /* end: of the task */
	bool defer;
	bool heads; /* some are no snapshots */
};

static bool is_snapshot_name(const char *name)
{
	return strchr(name, '@') != NULL;
}

/* *ds NULL: an error, or a snapshot that is already gone, which is as good. */
static int name_hold(struct destroy_arg *a, const char *name, struct dsl_dataset **ds, struct err *e)
{
	struct err why = ERR_INIT;
	int err = dsl_dataset_hold(a->p, name, ds, &why);

	if (!err)
		return 0;
	*ds = NULL;
	if (err == -ENOENT && is_snapshot_name(name))
		return 0;
	return err_set(e, err, "%s", why.text);
}

/* Which of several is meant. */
static int name_refuse(struct destroy_arg *a, const char *name, int err, struct err *e)
{
	return err && (is_snapshot_name(name) || a->n > 1) ? err_prefix(e, err, "%s", name) : err;
}

static int name_check(struct destroy_arg *a, const char *name, struct tx *tx, struct err *e)
{
	struct dsl_dataset *ds;
	int err = name_hold(a, name, &ds, e);

	if (!ds)
		return err;
	err = ds->is_snapshot ? snapshot_destroy_check(ds, a->defer, e) : dsl_head_destroy_check(ds, tx, e);
	dsl_dataset_release(ds);
	return err == -EAGAIN ? err : name_refuse(a, name, err, e);
}

static void name_destroy(struct destroy_arg *a, const char *name, struct tx *tx)
{
	struct dsl_dataset *ds;

	if (dsl_sync_check(a->p, name_hold(a, name, &ds, NULL), "a data set cannot be read") || !ds)
		return;
	if (!ds->is_snapshot)
		dsl_head_destroy_sync(ds, tx);
	else if (a->defer && (holds_of(ds) || ds->num_children > 1))
		snapshot_defer_sync(ds, tx);
	else
		dsl_snapshot_destroy_sync(ds, tx);
	dsl_dataset_release(ds);
}

static int destroy_check(void *arg, struct tx *tx, struct err *e)
{
	struct destroy_arg *a = arg;

	return name_check(a, a->names[a->done], tx, e);
}

static void destroy_sync(void *arg, struct tx *tx)
{
	struct destroy_arg *a = arg;
	uint64_t until = now_ns() + GROUP_NS;

	do
		name_destroy(a, a->names[a->done++], tx);
	while (a->done < a->end && !a->p->write->failed && now_ns() < until &&
	       name_check(a, a->names[a->done], tx, NULL) == 0);
}

/* --- many --- */

/* What none of the other names takes out of the way. */
static int stays_check(struct destroy_arg *a, struct dsl_dataset *ds, struct err *e)
{
	if (!ds->is_snapshot || a->defer)
		return 0;
	if (holds_of(ds))
		return holds_refuse(ds, e);
	return !a->heads && ds->num_children > 1 ? clones_refuse(ds, e) : 0;
}

static int name_check_early(struct destroy_arg *a, const char *name, bool open, struct err *e)
{
	DSL_SHARED(a->p);
	struct dsl_dataset *ds;
	int err = name_hold(a, name, &ds, e);

	if (!ds)
		return err;
	if (!open && dsl_dataset_is_busy(ds))
		err = err_set(e, -EBUSY, "dataset is busy");
	else
		err = stays_check(a, ds, e);
	dsl_dataset_release(ds);
	return name_refuse(a, name, err, e);
}

/* *held keeps the one before: the next one's dir is often the same, and need not be read again. */
static int name_settle(struct destroy_arg *a, const char *name, bool open, struct dsl_dataset **held, struct err *e)
{
	struct dsl_dataset *ds;
	int err = name_hold(a, name, &ds, e);

	if (*held)
		dsl_dataset_release(*held);
	*held = ds;
	if (ds && !open)
		dsl_dataset_settle(ds);
	return err;
}

static struct destroy_arg destroy_begin(struct dsl_pool *p, const char *const *names, size_t n, bool defer)
{
	struct destroy_arg a = {.p = p, .names = names, .n = n, .defer = defer};

	for (size_t i = 0; i < n && !a.heads; i++)
		a.heads = !is_snapshot_name(names[i]);
	return a;
}

/* open: somebody may still have them open. */
static int all_check(struct destroy_arg *a, bool open, struct err *e)
{
	struct dsl_dataset *held = NULL;
	int err = 0;

	for (size_t i = 0; i < a->n && !err; i++) {
		if (open && !is_snapshot_name(a->names[i]))
			continue;
		err = name_settle(a, a->names[i], open, &held, e);
		if (!err)
			err = name_check_early(a, a->names[i], open, e);
	}
	if (held)
		dsl_dataset_release(held);
	return err;
}

int dsl_destroy_check(struct dsl_pool *p, const char *const *names, size_t n, bool defer, struct err *e)
{
	struct destroy_arg a = destroy_begin(p, names, n, defer);

	return all_check(&a, true, e);
}

/* Where the next task ends. Without the bptree a head is emptied before, and has its task alone. */
static int task_cut(struct destroy_arg *a, struct err *e)
{
	size_t most = MIN(a->n, a->done + GROUP_NAMES);

	a->end = a->done + 1;
	if (dsl_feature_enabled(a->p, FEATURE_ASYNC))
		a->end = most;
	else if (!is_snapshot_name(a->names[a->done]))
		return dsl_head_empty(a->p, a->names[a->done], e);
	else
		while (a->end < most && is_snapshot_name(a->names[a->end]))
			a->end++;
	return 0;
}

int dsl_destroy(struct dsl_pool *p, const char *const *names, size_t n, bool defer, size_t *done, struct err *e)
{
	struct destroy_arg a = destroy_begin(p, names, n, defer);
	struct dsl_task t = {.check = destroy_check, .sync = destroy_sync, .arg = &a, .policy = DSL_SPACE_EXTRA};
	int err = p->write ? all_check(&a, false, e) : err_set(e, -EROFS, "pool is read-only");

	while (!err && a.done < n) {
		size_t before = a.done;

		err = task_cut(&a, e);
		if (!err)
			err = dsl_task_run(p, &t, e);
		if (err == -EIO) /* the group never came to be */
			a.done = before;
	}
	*done = a.done;
	return err;
}

static int kind_check(const char *const *names, size_t n, bool snapshots, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (is_snapshot_name(names[i]) != snapshots)
			return err_set(e, -EINVAL, snapshots ? "'%s' is not a snapshot" : "'%s' is a snapshot",
				       names[i]);
	return 0;
}

int dsl_destroy_snapshots(struct dsl_pool *p, const char *const *names, size_t n, bool defer, struct err *e)
{
	size_t done;
	int err = kind_check(names, n, true, e);

	return err ? err : dsl_destroy(p, names, n, defer, &done, e);
}

int dsl_destroy_head(struct dsl_pool *p, const char *name, struct err *e)
{
	size_t done;
	int err = kind_check(&name, 1, false, e);

	return err ? err : dsl_destroy(p, &name, 1, false, &done, e);
}

/* --- space --- */

int dsl_destroy_snapshots_space(struct dsl_pool *p, const char *first, const char *last, uint64_t *bytes)
{
	DSL_SHARED(p);
	struct dsl_dataset *a, *b;
	int err = dsl_dataset_hold(p, first, &a, NULL);

	if (err)
		return err;
	err = dsl_dataset_hold(p, last, &b, NULL);
	if (!err) {
		err = dsl_snapshots_reclaim(a, b, bytes);
		dsl_dataset_release(b);
	}
	dsl_dataset_release(a);
	return err;
}
