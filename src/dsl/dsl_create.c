/*
 * dsl/dsl_create.c: new pools, file systems, volumes and clones (03-datasets.md 1.4, 1.7, 4.2; 01-pool.md 9.2).
 */
#include "base/str.h"
#include "dsl/dsl_crypt.h"
#include "dsl/dsl_write_impl.h"

#define DEPTH_MAX     50 /* slashes in a new name */
#define POOL_NAME_MAX 240
#define CREATE_BLOCKS 6

/* --- an empty tree --- */

static struct dsl_dir *special_dir(struct dsl_pool *p, struct dsl_dir *root, const char *name, struct tx *tx)
{
	struct dsl_dir *d;

	dsl_dir_create_sync(p, root, name, tx, &d);
	return d;
}

static void free_bpobj_create(struct dsl_pool *p, struct tx *tx)
{
	uint64_t object = 0;

	dsl_sync_check(p, dsl_bpobj_create(p, tx, &object), "the list of blocks to be freed cannot be made");
	if (object)
		dsl_sync_check(p, zap_add_u64(p->mos, MOS_DIRECTORY, "free_bpobj", object, tx),
			       "the pool's directory cannot be changed");
}

/* The data set that all others descend from, and its one snapshot. */
static void origin_create(struct dsl_pool *p, struct dsl_dir *root, struct tx *tx)
{
	struct dsl_dir *d = special_dir(p, root, "$ORIGIN", tx);
	struct dsl_dataset *head = NULL;

	if (d)
		dsl_dataset_create_sync(d, NULL, 0, tx, &head);
	if (head) {
		p->origin_snap = dsl_snapshot_sync(head, "$ORIGIN", dsl_time(), tx);
		dsl_dataset_release(head);
	}
	if (d)
		dsl_dir_release(d);
}

static void tree_create(struct dsl_pool *p, struct tx *tx)
{
	struct dsl_write *w = p->write;
	struct dsl_dir *root;

	dsl_dir_create_sync(p, NULL, NULL, tx, &root);
	if (!root)
		return;
	w->mos_dir = special_dir(p, root, "$MOS", tx);
	w->free_dir = special_dir(p, root, "$FREE", tx);
	free_bpobj_create(p, tx);
	origin_create(p, root, tx);
	p->mos_dir = w->mos_dir ? w->mos_dir->object : 0;
	p->free_dir = w->free_dir ? w->free_dir->object : 0;
	dsl_dir_release(root);
}

int dsl_pool_create(struct dmu_pool *dp, struct objset *mos, const char *name, struct tx *tx, struct dsl_pool **out)
{
	struct dsl_pool *p;

	*out = NULL;
	if (strlen(name) >= POOL_NAME_MAX)
		return -ENAMETOOLONG;
	p = dsl_pool_make(dp, mos, name);
	p->deflate = true;
	p->write = dsl_write_create();
	p->write->tx = tx;
	{
		DSL_ALONE(p);
		tree_create(p, tx);
		dsl_lists_flush(p, tx);
	}
	if (p->write->failed) {
		int err = p->write->failed;

		dsl_pool_close(p);
		return err;
	}
	*out = p;
	return 0;
}

/* --- checks of names --- */

/* "pool/a/b": the parent's part into `parent`; *last is the rest, in `name`. */
static int name_split(const char *name, char parent[DSL_NAME_MAX], const char **last, struct err *e)
{
	const char *slash = strrchr(name, '/');
	unsigned depth = 0;

	if (strlen(name) >= DSL_NAME_MAX)
		return err_set(e, -ENAMETOOLONG, "name is too long");
	for (const char *c = name; *c; c++)
		depth += *c == '/';
	if (!slash || slash == name || !slash[1])
		return err_set(e, -EINVAL, "missing dataset name");
	if (depth >= DEPTH_MAX)
		return err_set(e, -EINVAL, "name is nested too deeply");
	str_copy(parent, DSL_NAME_MAX, name);
	parent[slash - name] = '\0';
	*last = slash + 1;
	return dsl_component_check(*last, e);
}

int dsl_component_check(const char *name, struct err *e)
{
	if (!*name)
		return err_set(e, -EINVAL, "empty component or misplaced '@' or '#' delimiter in name");
	if (strcmp(name, ".") == 0)
		return err_set(e, -EINVAL, "self reference, '.' is found in name");
	if (strcmp(name, "..") == 0)
		return err_set(e, -EINVAL, "parent reference, '..' is found in name");
	for (const char *c = name; *c; c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');

		if (!plain && !strchr("-_.: ", *c))
			return err_set(e, -EINVAL, "invalid character '%c' in name", *c);
	}
	return 0;
}

/* The dir in which `name` may be made: held. */
int dsl_parent_hold(struct dsl_pool *p, const char *name, struct dsl_dir **out, const char **last, struct err *e)
{
	char parent[DSL_NAME_MAX];
	struct dsl_dataset *ds;
	uint64_t object;
	unsigned type;
	int err = name_split(name, parent, last, e);

	if (err)
		return err;
	err = dsl_dataset_hold(p, parent, &ds, e);
	if (err == -ENOENT)
		return err_set(e, err, "parent does not exist");
	if (err)
		return err;
	err = dsl_dataset_type(ds, &type);
	if (!err && type != DSL_FILESYSTEM)
		err = err_set(e, -EINVAL, "parent is not a filesystem");
	if (!err && zap_lookup_u64(p->mos, ds->dir->child_map, *last, &object) == 0)
		err = err_set(e, -EEXIST, "dataset already exists");
	if (!err)
		*out = dsl_dir_ref(ds->dir);
	dsl_dataset_release(ds);
	return err;
}

/* --- file systems and volumes --- */

/* A check and a sync function share what they were given. */
struct create_arg {
	struct dsl_pool *p;
	const struct dsl_create *c;
};

static enum objset_type objset_type_for(unsigned type)
{
	return type == DSL_VOLUME ? OBJSET_ZVOL : OBJSET_ZFS;
}

/* Head, objset and first objects in an empty dir. */
static void head_create_sync(struct dsl_dir *d, const struct dsl_create *c, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	struct dsl_dataset *head;
	struct live_dataset *l;
	struct objset *os;

	dsl_dataset_create_sync(d, NULL, 0, tx, &head);
	if (!head)
		return;
	d->type = c->type;
	l = dsl_live(head);
	if (!dsl_sync_check(
		p, objset_create(p->dp, head->object, objset_type_for(c->type), &dsl_objset_ops, l, NULL, tx, &os),
		"an object set cannot be made")) {
		dsl_objset_attach(l, os);
		if (c->props)
			dsl_props_set_sync(head, c->props, tx);
		dsl_limits_load(head);
		dsl_objset_fill_props(head, os);
		if (c->init)
			c->init(c->arg, os, c->props, tx);
	}
	dsl_history(p, "create", head, tx, "%s", "");
	dsl_dataset_release(head);
}

static int create_check(void *arg, struct tx *tx, struct err *e)
{
	struct create_arg *a = arg;
	struct dsl_dir *up;
	const char *last;
	int err = dsl_parent_hold(a->p, a->c->name, &up, &last, e);

	if (err)
		return err;
	err = dsl_limits_check(up, false, 1, e);
	if (!err && a->c->props)
		err = dsl_props_room_check(up, a->c->props, e);
	if (!err && up->crypto_obj)
		err = err_set(e, -ENOTSUP,
			      "making encrypted datasets is not supported yet, and the parent is encrypted");
	dsl_dir_release(up);
	return err;
}

static void create_sync(void *arg, struct tx *tx)
{
	struct create_arg *a = arg;
	struct dsl_dir *up, *d;
	const char *last;

	if (dsl_sync_check(a->p, dsl_parent_hold(a->p, a->c->name, &up, &last, NULL), "a parent cannot be read"))
		return;
	dsl_dir_create_sync(a->p, up, last, tx, &d);
	if (d) {
		head_create_sync(d, a->c, tx);
		dsl_dir_release(d);
	}
	dsl_dir_release(up);
}

int dsl_create(struct dsl_pool *p, const struct dsl_create *c, struct err *e)
{
	struct create_arg a = {p, c};
	struct dsl_task t = {.check = create_check, .sync = create_sync, .arg = &a, .blocks = CREATE_BLOCKS};

	return dsl_task_run(p, &t, e);
}

int dsl_create_root(struct dsl_pool *p, const struct dsl_create *c, struct tx *tx)
{
	DSL_ALONE(p);
	struct dsl_dir *root;

	p->write->tx = tx;
	if (!dsl_sync_check(p, dsl_dir_hold(p, p->root_dir, &root, NULL), "the root cannot be read")) {
		head_create_sync(root, c, tx);
		dsl_dir_release(root);
	}
	dsl_lists_flush(p, tx);
	p->write->tx = NULL;
	return p->write->failed;
}

/* --- clones --- */

struct clone_arg {
	struct dsl_pool *p;
	const char *snapshot, *name;
	const struct nvlist *props;
};

static int clone_check(void *arg, struct tx *tx, struct err *e)
{
	struct clone_arg *a = arg;
	struct dsl_dataset *snap;
	struct dsl_dir *up;
	const char *last;
	int err = dsl_parent_hold(a->p, a->name, &up, &last, e);

	if (err)
		return err;
	err = dsl_limits_check(up, false, 1, e);
	if (!err && a->props)
		err = dsl_props_room_check(up, a->props, e);
	dsl_dir_release(up);
	if (err)
		return err;
	err = dsl_dataset_hold(a->p, a->snapshot, &snap, e);
	if (err)
		return err;
	if (!snap->is_snapshot)
		err = err_set(e, -EINVAL, "'%s' is not a snapshot", a->snapshot);
	else if (snap->flags & DSL_DS_INCONSISTENT)
		err = err_set(e, -EINVAL, "'%s' is incomplete", a->snapshot);
	dsl_dataset_release(snap);
	return err;
}

/* Shares the master key of its origin's dir. */
static void clone_share_key(struct dsl_dir *from, struct dsl_dir *to, struct tx *tx)
{
	struct dsl_pool *p = from->pool;

	if (!from->crypto_obj)
		return;
	dsl_sync_check(p, zap_increment(p->mos, from->crypto_obj, "DSL_CRYPTO_REFCOUNT", 1, tx),
		       "a key object cannot be changed");
	dsl_dir_extend(to, tx);
	dsl_sync_check(p, zap_add_u64(p->mos, to->object, "com.datto:crypto_key_obj", from->crypto_obj, tx),
		       "a data set directory cannot be changed");
	to->crypto_obj = from->crypto_obj;
}

/* A dir with the clone as its head; held. */
struct dsl_dataset *dsl_clone_sync(struct dsl_dataset *snap, struct dsl_dir *up, const char *name, bool keep_log,
				   struct tx *tx)
{
	struct dsl_dataset *head;
	struct dsl_dir *d;

	dsl_dir_create_sync(snap->pool, up, name, tx, &d);
	if (!d)
		return NULL;
	d->type = atomic_load(&snap->dir->type);
	clone_share_key(snap->dir, d, tx);
	dsl_dataset_create_sync(d, snap, 0, tx, &head);
	if (head && !keep_log)
		dsl_log_header_clear(head, tx);
	dsl_dir_release(d);
	return head;
}

static void clone_sync(void *arg, struct tx *tx)
{
	struct clone_arg *a = arg;
	struct dsl_dataset *snap, *head;
	struct dsl_dir *up;
	const char *last;

	if (dsl_sync_check(a->p, dsl_dataset_hold(a->p, a->snapshot, &snap, NULL), "an origin cannot be read"))
		return;
	if (!dsl_sync_check(a->p, dsl_parent_hold(a->p, a->name, &up, &last, NULL), "a parent cannot be read")) {
		head = dsl_clone_sync(snap, up, last, false, tx);
		if (head && a->props)
			dsl_props_set_sync(head, a->props, tx);
		if (head) {
			dsl_history(a->p, "clone", head, tx, "origin=%s (%llu)", snap->name,
				    (unsigned long long)snap->object);
			dsl_dataset_release(head);
		}
		dsl_dir_release(up);
	}
	dsl_dataset_release(snap);
}

int dsl_clone(struct dsl_pool *p, const char *snapshot, const char *name, const struct nvlist *props, struct err *e)
{
	struct clone_arg a = {p, snapshot, name, props};
	struct dsl_task t = {.check = clone_check, .sync = clone_sync, .arg = &a, .blocks = CREATE_BLOCKS};

	return dsl_task_run(p, &t, e);
}
