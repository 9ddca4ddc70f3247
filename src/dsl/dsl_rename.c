/*
 * dsl/dsl_rename.c: other names for dirs and snapshots (03-datasets.md 4.5).
 */
#include "base/str.h"
#include "dsl/dsl_crypt.h"
#include "dsl/dsl_write_impl.h"

#define DIR_BLOCKS  3
#define SNAP_BLOCKS 1
#define DEPTH_MAX   50

struct rename_arg {
	struct dsl_pool *p;
	const char *from, *to;
	bool recursive;
};

/* --- names of what is held --- */

struct renaming {
	struct dsl_dir *d;
	char old[DSL_NAME_MAX];
	size_t old_len;
};

/* Replaces the old name of the dir in front of `name`. Never without a NUL at its end, whoever reads it meanwhile. */
static void name_replace(const struct renaming *r, char name[DSL_NAME_MAX])
{
	char fresh[DSL_NAME_MAX];
	size_t len = strlen(name);

	if (len < r->old_len || strncmp(name, r->old, r->old_len) != 0 || !strchr("/@", name[r->old_len]))
		return;
	if (snprintf(fresh, sizeof(fresh), "%s%s", r->d->name, name + r->old_len) < (int)sizeof(fresh))
		memcpy(name, fresh, strlen(fresh) + 1);
}

static void dir_name_replace(void *arg, struct obj_node *n)
{
	name_replace(arg, container_of(n, struct dir_node, node)->dir.name);
}

static void dataset_name_replace(void *arg, struct obj_node *n)
{
	struct dsl_dataset *ds = &container_of(n, struct dataset_node, node)->ds;

	name_replace(arg, ds->name);
	if (ds->snapname)
		ds->snapname = strchr(ds->name, '@') + 1;
}

static void names_replace(struct dsl_dir *d, const char *name)
{
	struct renaming r = {.d = d, .old_len = strlen(d->name)};
	struct dsl_cache *c = d->pool->cache;

	str_copy(r.old, sizeof(r.old), d->name);
	str_copy(d->name, sizeof(d->name), name);
	obj_cache_each(&c->dirs, dir_name_replace, &r);
	obj_cache_each(&c->datasets, dataset_name_replace, &r);
}

/* --- dirs --- */

static bool dir_is_under(const struct dsl_dir *d, const struct dsl_dir *above)
{
	while (d && d != above)
		d = d->up;
	return d != NULL;
}

static struct dsl_dir *common_ancestor(struct dsl_dir *a, const struct dsl_dir *b)
{
	while (!dir_is_under(b, a))
		a = a->up;
	return a;
}

/* The longest name and the deepest nesting of what is in the dir, beyond its own. */
struct extent {
	size_t length;
	unsigned depth;
};

static int snapshots_measure(struct dsl_dir *d, struct extent *x)
{
	struct name_list l;
	struct dsl_edit head;
	int err = dsl_edit_begin(d->pool, d->head, &head);

	if (err)
		return err;
	err = name_list_read(d->pool->mos, head.ds->snap_names, &l);
	dsl_edit_end(&head);
	if (err)
		return err;
	for (size_t i = 0; i < l.n; i++)
		x->length = MAX(x->length, 1 + strlen(l.e[i].name));
	name_list_free(&l);
	return 0;
}

static int child_measure(void *arg, struct dsl_dir *child);

static int dir_measure(struct dsl_dir *d, struct extent *x)
{
	int err = snapshots_measure(d, x);

	return err ? err : dsl_each_child(d, child_measure, x);
}

static int child_measure(void *arg, struct dsl_dir *child)
{
	struct extent *x = arg, below = {0};
	int err = dir_measure(child, &below);

	if (err)
		return err;
	x->length = MAX(x->length, strlen(strrchr(child->name, '/')) + below.length);
	x->depth = MAX(x->depth, below.depth + 1);
	return 0;
}

static unsigned depth_of(const char *name)
{
	unsigned n = 0;

	for (; *name; name++)
		n += *name == '/';
	return n;
}

static int names_check(struct dsl_dir *d, const char *to, struct err *e)
{
	struct extent x = {0};
	int err;

	if (strlen(to) <= strlen(d->name) && depth_of(to) <= depth_of(d->name))
		return 0;
	err = dir_measure(d, &x);
	if (err)
		return err_set(e, err, "descendants cannot be listed: %s", err_words(err));
	if (strlen(to) + x.length >= DSL_NAME_MAX)
		return err_set(e, -ENAMETOOLONG, "a descendant's name would be too long");
	if (depth_of(to) + x.depth >= DEPTH_MAX)
		return err_set(e, -EINVAL, "a descendant would be nested too deeply");
	return 0;
}

/* Encrypted without a root of its own: it stays under its root (04, A1.5). */
static int crypt_check(struct dsl_dir *d, struct dsl_dir *up, struct err *e)
{
	char root[DSL_NAME_MAX], other[DSL_NAME_MAX];
	int err;

	if (!d->crypto_obj)
		return 0;
	err = dsl_crypt_root(d, root);
	if (err)
		return err_set(e, err, "the encryption root cannot be found: %s", err_words(err));
	if (strcmp(root, d->name) == 0 || (dsl_crypt_root(up, other) == 0 && strcmp(root, other) == 0))
		return 0;
	return err_set(e, -EACCES, "cannot move encrypted child outside of its encryption root");
}

/* What the ancestor gets back when `used` bytes leave the dir. */
static int64_t change_at(const struct dsl_dir *d, const struct dsl_dir *ancestor, uint64_t used)
{
	int64_t delta = -(int64_t)used;

	for (; d != ancestor; d = d->up)
		delta = (int64_t)(MAX(d->used + (uint64_t)delta, d->reserved) - MAX(d->used, d->reserved));
	return delta;
}

/* Space and counts of moving a subtree of `used` bytes, `fs` dirs and `snaps` snapshots below another dir. */
int dsl_move_check(struct dsl_dir *from, struct dsl_dir *to, uint64_t used, uint64_t fs, uint64_t snaps, struct err *e)
{
	struct dsl_dir *ancestor = common_ancestor(from, to);
	int err;

	if (dsl_dir_available(to, ancestor, change_at(from, ancestor, used)) < used)
		return err_set(e, -ENOSPC, "out of space");
	err = dsl_limits_check_below(to, ancestor, false, fs, e);
	return err ? err : dsl_limits_check_below(to, ancestor, true, snaps, e);
}

static int dir_move_check(struct dsl_dir *d, struct dsl_dir *up, struct err *e)
{
	uint64_t fs = 0, snaps = 0;

	if (up == d->up)
		return 0;
	dsl_limits_get(d, &fs, &snaps);
	return dsl_move_check(d->up, up, MAX(d->used, d->reserved), fs + 1, snaps, e);
}

static int dir_checks(struct dsl_dir *d, struct dsl_dir *up, const char *to, struct err *e)
{
	int err;

	if (!d->up)
		return err_set(e, -EINVAL, "the pool's root cannot be renamed");
	if (dir_is_under(up, d))
		return err_set(e, -EINVAL, "new dataset name cannot be a descendant of current dataset name");
	err = names_check(d, to, e);
	if (!err)
		err = crypt_check(d, up, e);
	return err ? err : dir_move_check(d, up, e);
}

static int dir_rename_check(void *arg, struct tx *tx, struct err *e)
{
	struct rename_arg *a = arg;
	struct dsl_dataset *ds;
	struct dsl_dir *up;
	const char *last;
	int err = dsl_dataset_hold(a->p, a->from, &ds, e);

	if (err)
		return err;
	err = dsl_parent_hold(a->p, a->to, &up, &last, e);
	if (!err) {
		err = dir_checks(ds->dir, up, a->to, e);
		dsl_dir_release(up);
	}
	dsl_dataset_release(ds);
	return err;
}

/* Counts and space go from the old parents to the new ones. */
static void dir_move(struct dsl_dir *d, struct dsl_dir *up, struct tx *tx)
{
	int64_t used = (int64_t)d->used, comp = (int64_t)d->compressed, uncomp = (int64_t)d->uncompressed;
	int64_t excess = (int64_t)(MAX(d->used, d->reserved) - d->used);
	uint64_t fs = 0, snaps = 0;

	if (dsl_limits_are_active(d->pool)) {
		dsl_limits_start(d, tx);
		dsl_limits_get(d, &fs, &snaps);
		dsl_limits_adjust(d->up, false, -(int64_t)(fs + 1), tx);
		dsl_limits_adjust(up, false, (int64_t)(fs + 1), tx);
		dsl_limits_adjust(d->up, true, -(int64_t)snaps, tx);
		dsl_limits_adjust(up, true, (int64_t)snaps, tx);
	}
	dsl_diduse(d->up, DSL_USED_CHILD, -used, -comp, -uncomp, tx);
	dsl_diduse(up, DSL_USED_CHILD, used, comp, uncomp, tx);
	if (excess) {
		dsl_diduse(d->up, DSL_USED_CHILD_RSRV, -excess, 0, 0, tx);
		dsl_diduse(up, DSL_USED_CHILD_RSRV, excess, 0, 0, tx);
	}
}

static void dir_relink(struct dsl_dir *d, struct dsl_dir *up, const char *last, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	struct dsl_dir *old = d->up;

	dsl_sync_check(p, zap_remove(p->mos, old->child_map, strrchr(d->name, '/') + 1, tx),
		       "a child cannot be taken off its parent");
	dsl_sync_check(p, zap_add_u64(p->mos, up->child_map, last, d->object, tx), "a child cannot be entered");
	if (up == old)
		return;
	dsl_dir_ref(up);
	pthread_mutex_lock(&p->write->space);
	d->up = up;
	d->parent = up->object;
	pthread_mutex_unlock(&p->write->space);
	dsl_dir_store(d, tx);
	dsl_dir_release(old);
}

static void dir_rename_sync(void *arg, struct tx *tx)
{
	struct rename_arg *a = arg;
	struct dsl_dataset *ds;
	struct dsl_dir *up;
	const char *last;

	if (dsl_sync_check(a->p, dsl_dataset_hold(a->p, a->from, &ds, NULL), "a data set cannot be read"))
		return;
	if (!dsl_sync_check(a->p, dsl_parent_hold(a->p, a->to, &up, &last, NULL), "a parent cannot be read")) {
		dsl_history(a->p, "rename", ds, tx, "-> %s", a->to);
		if (up != ds->dir->up)
			dir_move(ds->dir, up, tx);
		dir_relink(ds->dir, up, last, tx);
		names_replace(ds->dir, a->to);
		dsl_props_notify(ds->dir); /* what is inherited may be another value here */
		dsl_dir_release(up);
	}
	dsl_dataset_release(ds);
}

/* --- snapshots --- */

/* Heads whose snapshot is to get another name, all of them held. */
struct heads {
	struct dsl_dataset **ds;
	size_t n, cap;
	const char *old;
	bool recursive;
};

static int heads_collect(void *arg, struct dsl_dir *d)
{
	struct heads *h = arg;
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold_obj(d->pool, d->head, &ds, NULL);

	if (err)
		return err;
	if (dsl_snapname_exists(ds, h->old)) {
		if (h->n == h->cap) {
			h->cap = h->cap ? h->cap * 2 : 16;
			h->ds = xrealloc(h->ds, h->cap * sizeof(struct dsl_dataset *));
		}
		h->ds[h->n++] = ds;
	} else {
		dsl_dataset_release(ds);
	}
	return h->recursive ? dsl_each_child(d, heads_collect, h) : 0;
}

static void heads_release(struct heads *h)
{
	while (h->n)
		dsl_dataset_release(h->ds[--h->n]);
	free(h->ds);
}

static int heads_get(struct rename_arg *a, struct heads *h, const char **fresh, struct err *e)
{
	struct dsl_dataset *ds, *other;
	int err;

	memset(h, 0, sizeof(*h));
	h->recursive = a->recursive;
	err = dsl_snapname_split(a->p, a->from, &ds, &h->old, e);
	if (err)
		return err;
	err = dsl_snapname_split(a->p, a->to, &other, fresh, e);
	if (!err) {
		if (other != ds)
			err = err_set(e, -EINVAL, "snapshots must be part of same dataset");
		dsl_dataset_release(other);
	}
	if (!err) {
		err = heads_collect(h, ds->dir);
		if (err)
			err_set(e, err, "descendants cannot be listed: %s", err_words(err));
		else if (h->n == 0)
			err = err_set(e, -ENOENT, "dataset does not exist");
	}
	dsl_dataset_release(ds);
	if (err)
		heads_release(h);
	return err;
}

static int snap_rename_check(void *arg, struct tx *tx, struct err *e)
{
	struct heads h;
	const char *fresh;
	int err = heads_get(arg, &h, &fresh, e);

	if (err)
		return err;
	for (size_t i = 0; i < h.n && !err; i++) {
		if (dsl_snapname_exists(h.ds[i], fresh))
			err = err_set(e, -EEXIST, "'%s@%s' already exists", h.ds[i]->name, fresh);
		else if (strlen(h.ds[i]->name) + 1 + strlen(fresh) >= DSL_NAME_MAX)
			err = err_set(e, -ENAMETOOLONG, "the name of '%s@%s' is too long", h.ds[i]->name, fresh);
	}
	heads_release(&h);
	return err;
}

static void snap_rename_one(struct dsl_dataset *head, const char *old, const char *fresh, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	struct dsl_dataset *s;
	uint64_t object;

	if (dsl_sync_check(p, dsl_snapshot_lookup(head, old, &s), "a snapshot cannot be read"))
		return;
	object = s->object;
	dsl_history(p, "rename", s, tx, "-> @%s", fresh);
	dsl_sync_check(p, zap_remove(p->mos, head->snap_names, s->snapname, tx), "a snapshot's name cannot be changed");
	dsl_sync_check(p, zap_add_u64(p->mos, head->snap_names, fresh, object, tx),
		       "a snapshot's name cannot be changed");
	str_copy((char *)s->snapname, sizeof(s->name) - (size_t)(s->snapname - s->name), fresh);
	dsl_snapshots_changed(head->dir, tx);
	dsl_dataset_release(s);
}

static void snap_rename_sync(void *arg, struct tx *tx)
{
	struct rename_arg *a = arg;
	struct heads h;
	const char *fresh;

	if (dsl_sync_check(a->p, heads_get(a, &h, &fresh, NULL), "snapshots cannot be listed"))
		return;
	for (size_t i = 0; i < h.n; i++)
		snap_rename_one(h.ds[i], h.old, fresh, tx);
	heads_release(&h);
}

int dsl_rename(struct dsl_pool *p, const char *from, const char *to, bool recursive, struct err *e)
{
	struct rename_arg a = {p, from, to, recursive};
	bool snap = strchr(from, '@') != NULL;
	struct dsl_task t = {.check = snap ? snap_rename_check : dir_rename_check,
			     .sync = snap ? snap_rename_sync : dir_rename_sync,
			     .arg = &a,
			     .policy = DSL_SPACE_RESERVED,
			     .blocks = snap ? SNAP_BLOCKS : DIR_BLOCKS};

	if (snap != (strchr(to, '@') != NULL))
		return err_set(e, -EINVAL, "snapshots and datasets cannot take each other's names");
	if (recursive && !snap)
		return err_set(e, -EINVAL, "recursive rename requires a snapshot");
	return dsl_task_run(p, &t, e);
}
