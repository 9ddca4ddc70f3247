#include "serve/daemon/commands.h"

#include <stdio.h>

#include "serve/daemon/mounts.h"

/* ---- list ---- */

struct listing {
	struct control_request *rq;
	const char *const *props;
	size_t nprops;
	uint64_t types;
};

/* A data set that cannot be read is told as an item with its error: the others are listed. */
static int item_error_send(struct listing *l, const char *name, int err, const struct err *e)
{
	autonv struct nvlist *item = nvlist_create();

	nvlist_add_string(item, "name", name);
	nvlist_add_string(item, "error", e->text[0] ? e->text : err_words(err));
	return control_item(l->rq, item);
}

static int item_send(struct listing *l, const char *name, unsigned type, uint64_t createtxg, uint64_t guid,
		     const char *pool, struct nvlist *props)
{
	autonv struct nvlist *item = nvlist_create();

	nvlist_add_string(item, "name", name);
	nvlist_add_u64(item, "type", type);
	nvlist_add_string(item, "pool", pool);
	nvlist_add_u64(item, "createtxg", createtxg);
	nvlist_add_u64(item, "guid", guid);
	nvlist_take_list(item, "properties", props);
	return control_item(l->rq, item);
}

static int list_dataset(struct listing *l, struct dsl_dataset *ds)
{
	struct err e = ERR_INIT;
	struct nvlist *props;
	unsigned type;
	int err = dsl_dataset_type(ds, &type);

	if (err)
		return item_error_send(l, ds->name, err, &e);
	if (!(l->types & (type & DSL_SNAPSHOT ? DSL_SNAPSHOT : type)))
		return 0;
	err = dsl_props_get(ds, l->props, l->nprops, &props, &e);
	if (err)
		return item_error_send(l, ds->name, err, &e);
	return item_send(l, ds->name, type, ds->creation_txg, ds->guid, ds->pool->name, props);
}

static int list_snapshot(void *arg, struct dsl_dataset *snap)
{
	return list_dataset(arg, snap);
}

struct bookmark_listing {
	struct listing *l;
	struct dsl_dataset *head;
};

static int list_bookmark(void *arg, const struct dsl_bookmark *b)
{
	struct bookmark_listing *bl = arg;
	autofree char *name = xasprintf("%s#%s", bl->head->name, b->name);
	struct err e = ERR_INIT;
	struct nvlist *props;
	int err = dsl_bookmark_props_get(bl->head, b, &props, &e);

	if (err)
		return item_error_send(bl->l, name, err, &e);
	return item_send(bl->l, name, DSL_BOOKMARK, b->creation_txg, b->guid, bl->head->pool->name, props);
}

/* The head, then its snapshots and bookmarks. depth 0: the head alone. */
static int list_head(struct listing *l, struct dsl_dataset *head, uint64_t depth)
{
	struct bookmark_listing bl = {l, head};
	int err = list_dataset(l, head);

	if (!err && depth > 0 && (l->types & DSL_SNAPSHOT))
		err = dsl_each_snapshot(head, list_snapshot, l);
	if (err == -EINTR)
		return err;
	if (depth > 0 && (l->types & DSL_BOOKMARK))
		err = dsl_each_bookmark(head, list_bookmark, &bl);
	return err == -EINTR ? err : 0;
}

struct tree_walk {
	struct listing *l;
	uint64_t depth;
};

static int list_tree(void *arg, struct dsl_dir *dir)
{
	struct tree_walk *w = arg, below = {w->l, w->depth - 1};
	struct dsl_dataset *head;
	struct err e = ERR_INIT;
	int err;

	err = dsl_dataset_hold_obj(dir->pool, dir->head, &head, &e);
	if (err) {
		err = item_error_send(w->l, dir->name, err, &e);
	} else {
		err = list_head(w->l, head, w->depth);
		dsl_dataset_release(head);
	}
	if (!err && w->depth > 0)
		err = dsl_each_child(dir, list_tree, &below);
	return err == -EINTR ? err : 0;
}

struct bookmark_search {
	struct bookmark_listing bl;
	const char *name;
	bool found;
};

static int match_bookmark(void *arg, const struct dsl_bookmark *b)
{
	struct bookmark_search *s = arg;

	if (strcmp(b->name, s->name))
		return 0;
	s->found = true;
	return list_bookmark(&s->bl, b);
}

static int list_bookmark_named(struct listing *l, struct dsl_pool *dp, const char *name, struct err *e)
{
	autofree char *head = xstrdup(name);
	char *hash = strchr(head, '#');
	struct bookmark_search s = {.bl.l = l};
	int err;

	*hash = 0;
	s.name = hash + 1;
	err = dsl_dataset_hold(dp, head, &s.bl.head, e);
	if (err)
		return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
	err = dsl_each_bookmark(s.bl.head, match_bookmark, &s);
	dsl_dataset_release(s.bl.head);
	return err || s.found ? err : err_set(e, -ENOENT, "dataset does not exist");
}

/* What is named itself, and nothing below it, must be of the types that are asked for. */
static int type_check(const struct listing *l, struct dsl_dataset *ds, uint64_t depth, struct err *e)
{
	unsigned type;

	if ((depth && !ds->is_snapshot) || dsl_dataset_type(ds, &type))
		return 0; /* what cannot be read the listing tells */
	if (l->types & (type & DSL_SNAPSHOT ? DSL_SNAPSHOT : type))
		return 0;
	return err_set(e, -EINVAL, "operation not applicable to datasets of this type");
}

static int list_named(struct listing *l, struct dsl_pool *dp, const char *name, uint64_t depth, struct err *e)
{
	struct tree_walk w = {l, depth};
	struct dsl_dataset *ds;
	int err;

	if (strchr(name, '#'))
		return list_bookmark_named(l, dp, name, e);
	err = dsl_dataset_hold(dp, name, &ds, e);
	if (err)
		return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
	err = type_check(l, ds, depth, e);
	if (!err && ds->is_snapshot)
		err = list_dataset(l, ds);
	else if (!err)
		err = list_tree(&w, ds->dir);
	dsl_dataset_release(ds);
	return err;
}

static int list_one_name(struct listing *l, const char *name, uint64_t depth)
{
	struct tarn_daemon *d = command_daemon(l->rq);
	struct err e = ERR_INIT;
	struct pool *p;
	int err = pool_hold(d, name, &p, NULL);

	if (err)
		return item_error_send(l, name, err, &(struct err){-ENOENT, "dataset does not exist"});
	err = list_named(l, p->spa->dsl, name, depth, &e);
	pool_release(d, p);
	return err && err != -EINTR ? item_error_send(l, name, err, &e) : err;
}

int command_dataset_list(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	struct listing l = {.rq = rq, .types = nvlist_u64_or(args, "types", DSL_FILESYSTEM | DSL_VOLUME)};
	uint64_t depth = nvlist_u64_or(args, "depth", UINT64_MAX);
	const char *const *names;
	struct pool **pools;
	size_t n;
	int err = 0;

	nvlist_strings(args, "props", &l.props, &l.nprops);
	if (nvlist_strings(args, "names", &names, &n) == 0 && n > 0) {
		for (size_t i = 0; i < n && !err; i++)
			err = list_one_name(&l, names[i], depth);
		return err;
	}
	n = pools_hold_all(d, &pools);
	for (size_t i = 0; i < n && !err; i++)
		err = list_named(&l, pools[i]->spa->dsl, pools[i]->name, depth, e);
	pools_release_all(d, pools, n);
	return err;
}

/* ---- one data set ---- */

/* Holds pool and data set for fn. */
static int with_dataset(struct control_request *rq, const char *name,
			int (*fn)(struct control_request *rq, struct dsl_dataset *ds, void *arg, struct err *e),
			void *arg, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	struct dsl_dataset *ds;
	struct pool *p;
	int err = command_dataset_hold(d, name, &p, &ds, e);

	if (err)
		return err;
	err = fn(rq, ds, arg, e);
	dsl_dataset_release(ds);
	pool_release(d, p);
	return err;
}

/* ---- holds ---- */

struct hold_listing {
	struct control_request *rq;
	const char *snapshot;
	const char *only; /* snapshot's short name, in every data set below */
};

static int hold_send(void *arg, const char *tag, uint64_t time)
{
	struct hold_listing *h = arg;
	autonv struct nvlist *item = nvlist_create();

	nvlist_add_string(item, "snapshot", h->snapshot);
	nvlist_add_string(item, "tag", tag);
	nvlist_add_u64(item, "time", time);
	return control_item(h->rq, item);
}

static int holds_of(struct control_request *rq, struct dsl_dataset *snap, void *arg, struct err *e)
{
	struct hold_listing h = {.rq = rq, .snapshot = snap->name};

	if (!snap->is_snapshot)
		return err_set(e, -EINVAL, "'%s' is not a snapshot", snap->name);
	return dsl_each_hold(snap, hold_send, &h);
}

static int holds_below(void *arg, struct dsl_dir *dir)
{
	struct hold_listing *h = arg;
	struct dsl_dataset *snap;
	char name[DSL_NAME_MAX];
	int err = 0;

	if (snprintf(name, sizeof(name), "%s@%s", dir->name, h->only) < (int)sizeof(name) &&
	    dsl_dataset_hold(dir->pool, name, &snap, NULL) == 0) {
		err = holds_of(h->rq, snap, NULL, NULL);
		dsl_dataset_release(snap);
	}
	return err ? err : dsl_each_child(dir, holds_below, h);
}

static int holds_tree(struct control_request *rq, struct dsl_dataset *snap, void *arg, struct err *e)
{
	struct hold_listing h = {.rq = rq, .only = snap->snapname};

	if (!snap->is_snapshot)
		return err_set(e, -EINVAL, "'%s' is not a snapshot", snap->name);
	return holds_below(&h, snap->dir);
}

int command_dataset_holds(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	bool recursive = nvlist_bool(args, "recursive");
	const char *const *names;
	size_t n;
	int err = nvlist_strings(args, "names", &names, &n);

	for (size_t i = 0; !err && i < n; i++)
		err = with_dataset(rq, names[i], recursive ? holds_tree : holds_of, NULL, e);
	return err;
}

/* ---- delegation ---- */

static int allow_get(struct control_request *rq, struct dsl_dataset *ds, void *arg, struct err *e)
{
	struct nvlist *l, *result = arg;
	int err = dsl_deleg_get(ds->dir, &l);

	if (!err)
		nvlist_take_list(result, "levels", l);
	return err;
}

int command_dataset_allow(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return with_dataset(rq, nvlist_string_or(args, "name", ""), allow_get, result, e);
}

/* ---- space by owner ---- */

static int space_send(void *arg, const char *domain, uint64_t id, const struct zpl_space *s)
{
	autonv struct nvlist *item = nvlist_create();

	nvlist_add_string(item, "domain", domain);
	nvlist_add_u64(item, "id", id);
	nvlist_add_u64(item, "used", s->used);
	nvlist_add_u64(item, "quota", s->quota);
	nvlist_add_u64(item, "objused", s->objused);
	nvlist_add_u64(item, "objquota", s->objquota);
	return control_item(arg, item);
}

static int space_of(struct control_request *rq, struct dsl_dataset *ds, void *arg, struct err *e)
{
	struct zpl *z;
	int err = zpl_open(ds, &z, e);

	if (err)
		return err;
	err = zpl_space_each(z, *(enum zpl_who *)arg, space_send, rq);
	zpl_close(z);
	return err;
}

int command_dataset_space(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	enum zpl_who who = (enum zpl_who)nvlist_u64_or(args, "who", ZPL_USER);

	if (who > ZPL_PROJECT)
		return err_set(e, -EINVAL, "no such kind of owner");
	return with_dataset(rq, nvlist_string_or(args, "name", ""), space_of, &who, e);
}

/* ---- diff ---- */

static int change_send(void *arg, const struct zpl_change *c)
{
	autonv struct nvlist *item = nvlist_create();
	char kind[2] = {c->kind, 0}, type[2] = {c->type, 0};

	nvlist_add_string(item, "kind", kind);
	nvlist_add_string(item, "type", type);
	nvlist_add_bytes(item, "path", (const uint8_t *)c->path, strlen(c->path));
	if (c->new_path)
		nvlist_add_bytes(item, "new_path", (const uint8_t *)c->new_path, strlen(c->new_path));
	nvlist_add_i64(item, "link_delta", c->link_delta);
	nvlist_add_u64(item, "ctime", (uint64_t)c->ctime.tv_sec);
	nvlist_add_u64(item, "ctime_ns", (uint64_t)c->ctime.tv_nsec);
	return control_item(arg, item);
}

static int diff_open(struct control_request *rq, struct dsl_dataset *from, struct dsl_dataset *to, struct err *e)
{
	struct zpl *a, *b;
	int err = zpl_open(from, &a, e);

	if (err)
		return err;
	err = zpl_open(to, &b, e);
	if (!err) {
		err = zpl_diff(a, b, change_send, rq, e);
		zpl_close(b);
	}
	zpl_close(a);
	return err;
}

/* Whether from is an earlier snapshot of to's file system, or of one that it was cloned from. */
static bool is_earlier(const struct dsl_dataset *from, const struct dsl_dataset *to)
{
	struct dsl_dataset *origin;
	bool earlier;

	if (to->dir->object == from->dir->object)
		return !to->is_snapshot || from->creation_txg < to->creation_txg;
	if (!to->dir->origin || to->dir->origin == to->pool->origin_snap ||
	    dsl_dataset_hold_obj(to->pool, to->dir->origin, &origin, NULL))
		return false;
	earlier = origin->object == from->object || is_earlier(from, origin);
	dsl_dataset_release(origin);
	return earlier;
}

static int diff_from(struct control_request *rq, struct dsl_dataset *from, void *arg, struct err *e)
{
	const char *name = arg;
	struct dsl_dataset *to;
	int err;

	if (!from->is_snapshot)
		return err_set(e, -EINVAL, "'%s' is not a snapshot", from->name);
	if (name)
		err = dsl_dataset_hold(from->pool, name, &to, e);
	else
		err = dsl_dataset_hold_obj(from->pool, from->dir->head, &to, e);
	if (err)
		return err;
	if (is_earlier(from, to))
		err = diff_open(rq, from, to, e);
	else
		err = err_set(e, -EXDEV, "it is not an earlier snapshot of the file system of '%s'", to->name);
	dsl_dataset_release(to);
	return err;
}

int command_dataset_diff(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *to = nvlist_string_or(args, "to", NULL);

	return with_dataset(rq, nvlist_string_or(args, "from", ""), diff_from, (void *)(uintptr_t)to, e);
}

/* ---- keys ---- */

/* The value as `zfs get` shows it, into result under the property's name. */
static void property_add(struct dsl_dataset *ds, const char *name, struct nvlist *result)
{
	autonv struct nvlist *props = NULL;
	struct nvlist *p;
	const char *value;

	if (dsl_props_get(ds, &name, 1, &props, NULL) == 0 && nvlist_list(props, name, &p) == 0 &&
	    nvlist_string(p, "value", &value) == 0)
		nvlist_add_string(result, name, value);
}

static int key_info(struct control_request *rq, struct dsl_dataset *ds, void *arg, struct err *e)
{
	struct nvlist *result = arg;
	char root[DSL_NAME_MAX];
	struct dsl_dataset *head;
	int err = dsl_crypt_root(ds->dir, root);

	if (err)
		return err_set(e, err, "'%s' is not encrypted", ds->name);
	nvlist_add_string(result, "root", root);
	nvlist_add_boolean_value(result, "loaded", dsl_key_is_loaded(ds->dir));
	err = dsl_dataset_hold(ds->pool, root, &head, e);
	if (err)
		return err;
	property_add(head, "keyformat", result);
	property_add(head, "keylocation", result);
	dsl_dataset_release(head);
	return 0;
}

int command_key_info(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return with_dataset(rq, nvlist_string_or(args, "name", ""), key_info, result, e);
}

/* fn with the pool of an encryption root that exists. */
static int with_root(struct control_request *rq, const struct nvlist *args,
		     int (*fn)(struct dsl_pool *dp, const char *root, const struct nvlist *args, struct err *e),
		     struct err *e)
{
	const char *root = nvlist_string_or(args, "root", "");
	struct dsl_dataset *ds;
	struct pool *p;
	int err = command_dataset_hold(command_daemon(rq), root, &p, &ds, e);

	if (err)
		return err;
	dsl_dataset_release(ds);
	err = fn(p->spa->dsl, root, args, e);
	pool_release(command_daemon(rq), p);
	return err;
}

static int key_load(struct dsl_pool *dp, const char *root, const struct nvlist *args, struct err *e)
{
	const uint8_t *material;
	size_t len;
	int err = nvlist_bytes(args, "material", &material, &len);

	return err ? err_set(e, err, "no key was given")
		   : dsl_key_load(dp, root, material, len, nvlist_bool(args, "check"), e);
}

int command_key_load(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return with_root(rq, args, key_load, e);
}

static int key_unload(struct dsl_pool *dp, const char *root, const struct nvlist *args, struct err *e)
{
	int err = dsl_key_unload(dp, root, e);

	return err == -EBUSY
		   ? err_set(e, err, "dataset is busy: unmount its file systems and disconnect from its volumes first")
		   : err;
}

int command_key_unload(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return with_root(rq, args, key_unload, e);
}
