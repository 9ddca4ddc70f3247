/* Commands that make and change data sets; what destroys them is in dataset_destroy.c. */
#include "serve/daemon/dataset_changes.h"

#include <inttypes.h>
#include <stdio.h>

#include "dsl/dsl_live.h"
#include "serve/daemon/mounts.h"
#include "zpl/zpl.h"
#include "zvol/zvol.h"

#define VOLUME_BLOCK_OLD_MAX (128u << 10) /* without large_blocks */
#define FILESYSTEM_VERSION   5

int change_begin(struct control_request *rq, const char *name, struct pool **p, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	int err = pool_hold(d, name, p, e);

	if (err)
		return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
	if (spa_is_writable((*p)->spa))
		return 0;
	pool_release(d, *p);
	return err_set(e, -EROFS, "pool is imported read-only");
}

int change_end(struct control_request *rq, const struct nvlist *args, struct pool *p, int err)
{
	if (!err && !nvlist_bool(args, "dry"))
		command_remember(rq, args, p);
	pool_release(command_daemon(rq), p);
	return err;
}

int change_names(const struct nvlist *args, const char *key, const char *const **names, size_t *n, struct err *e)
{
	if (nvlist_strings(args, key, names, n) || *n == 0)
		return err_set(e, -EINVAL, "no names are given");
	for (size_t i = 1; i < *n; i++)
		if (strcspn((*names)[i], "/@#") != strcspn((*names)[0], "/@#") ||
		    strncmp((*names)[i], (*names)[0], strcspn((*names)[0], "/@#")))
			return err_set(e, -EXDEV, "'%s' and '%s' are in different pools", (*names)[0], (*names)[i]);
	return 0;
}

bool change_dataset_exists(struct pool *p, const char *name)
{
	struct dsl_dataset *ds;

	if (dsl_dataset_hold(p->spa->dsl, name, &ds, NULL))
		return false;
	dsl_dataset_release(ds);
	return true;
}

/* ---- create ---- */

struct creation {
	struct control_request *rq;
	const struct nvlist *args;
	struct pool *p;
	struct strings *created;
};

/* Only memory can be missing in a set that is new. */
static void init_filesystem(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	BUG_ON(zpl_create_objects(os, props, tx));
}

static void init_volume(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	BUG_ON(zvol_create_objects(os, nvlist_u64_or(props, "volsize", 0),
				   (uint32_t)nvlist_u64_or(props, "volblocksize", 0), tx));
}

static int create_one(struct creation *c, const char *name, unsigned type, const struct nvlist *values, bool dry,
		      struct err *e)
{
	struct dsl_pool *dsl = c->p->spa->dsl;
	struct dsl_create create = {.name = name, .type = type};
	autonv struct nvlist *stored = NULL;
	int err = dsl_props_check(dsl, name, type, values, true, &stored, e);

	if (err || dry)
		return err;
	create.props = stored;
	create.init = type == DSL_VOLUME ? init_volume : init_filesystem;
	err = dsl_create(dsl, &create, e);
	if (!err)
		strings_add(c->created, xstrdup(name));
	return err;
}

/* -p: every part of the name that is missing, as plain file systems. */
static int create_parents(struct creation *c, const char *name, struct err *e)
{
	autonv struct nvlist *none = nvlist_create();
	char part[DSL_NAME_MAX];

	for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
		int err;

		snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
		if (change_dataset_exists(c->p, part))
			continue;
		err = create_one(c, part, DSL_FILESYSTEM, none, nvlist_bool(c->args, "dry"), e);
		if (err)
			return err_prefix(e, err, "cannot create '%s'", part);
	}
	return 0;
}

static int text_size(const struct nvlist *values, const char *name, uint64_t def, uint64_t *out, struct err *e)
{
	const char *text = nvlist_string_or(values, name, NULL);

	*out = def;
	if (text && size_parse(text, out))
		return err_set(e, -EINVAL, "bad value for '%s': '%s' is not a size", name, text);
	return 0;
}

static void text_set(struct nvlist *values, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	nvlist_add_string(values, name, text);
}

/* Rounds the size up to whole blocks, and reserves room for all of it unless told not to (07, 8.2 - 8.4). */
static int volume_values(struct creation *c, struct nvlist *values, struct err *e)
{
	bool large = dsl_feature_enabled(c->p->spa->dsl, "org.open-zfs:large_blocks");
	uint64_t size, block, copies, max = large ? BLOCK_MAX : VOLUME_BLOCK_OLD_MAX;
	int err = text_size(values, "volblocksize", dsl_prop_find("volblocksize")->def_number, &block, e);

	if (!err)
		err = text_size(values, "volsize", 0, &size, e);
	if (!err)
		err = text_size(values, "copies", 1, &copies, e);
	if (!err && block && block <= UINT32_MAX && size <= UINT64_MAX - block)
		size = (size + block - 1) / block * block;
	if (!err)
		err = zvol_check_sizes(size, (uint32_t)MIN(block, UINT32_MAX), (uint32_t)max, e);
	if (err)
		return err;
	text_set(values, "volsize", size);
	text_set(values, "volblocksize", block);
	if (!nvlist_exists(values, "refreservation") && !nvlist_bool(c->args, "sparse"))
		text_set(values, "refreservation",
			 zvol_volsize_to_reservation(c->p->spa->root, size, (uint32_t)block, (unsigned)copies));
	return 0;
}

static void created_mount(struct creation *c, struct nvlist *result)
{
	struct mount_request mr = {.automatic = true};
	struct failures f = {NULL, 0};

	for (size_t i = 0; i < c->created->n && nvlist_bool(c->args, "mount"); i++)
		mounts_mount_all(command_daemon(c->rq), c->p, c->created->s[i], &mr, failures_add, &f);
	failures_finish(&f, result);
	if (c->created->n)
		nvlist_add_strings(result, "created", (const char *const *)c->created->s, c->created->n);
}

int command_dataset_create(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *name = nvlist_string_or(args, "name", "");
	unsigned type = (unsigned)nvlist_u64_or(args, "type", DSL_FILESYSTEM);
	struct strings created = {NULL, 0};
	struct creation c = {.rq = rq, .args = args, .created = &created};
	autonv struct nvlist *values = NULL;
	struct nvlist *given;
	int err = change_begin(rq, name, &c.p, e);

	if (err)
		return err;
	values = nvlist_list(args, "props", &given) == 0 ? nvlist_copy(given) : nvlist_create();
	if (change_dataset_exists(c.p, name))
		err = nvlist_bool(args, "parents") ? 0 : err_set(e, -EEXIST, "dataset already exists");
	else {
		if (nvlist_bool(args, "parents"))
			err = create_parents(&c, name, e);
		if (!err && type == DSL_VOLUME)
			err = volume_values(&c, values, e);
		if (!err)
			err = create_one(&c, name, type, values, nvlist_bool(args, "dry"), e);
	}
	if (!err)
		created_mount(&c, result);
	if (!err && nvlist_len(values))
		nvlist_add_list(result, "props", values);
	strings_free(&created);
	return change_end(rq, args, c.p, err);
}

int command_dataset_clone(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *name = nvlist_string_or(args, "name", ""), *snapshot = nvlist_string_or(args, "snapshot", "");
	struct strings created = {NULL, 0};
	struct creation c = {.rq = rq, .args = args, .created = &created};
	autonv struct nvlist *none = nvlist_create(), *stored = NULL;
	struct nvlist *values = none;
	struct dsl_dataset *ds;
	unsigned type = 0;
	int err = change_begin(rq, name, &c.p, e);

	if (err)
		return err;
	nvlist_list(args, "props", &values);
	err = dsl_dataset_hold(c.p->spa->dsl, snapshot, &ds, e);
	if (!err) {
		err = dsl_dataset_type(ds, &type);
		dsl_dataset_release(ds);
	}
	if (!err && nvlist_bool(args, "parents"))
		err = create_parents(&c, name, e);
	if (!err)
		err = dsl_props_check(c.p->spa->dsl, name, type & ~(unsigned)DSL_SNAPSHOT, values, false, &stored, e);
	if (!err)
		err = dsl_clone(c.p->spa->dsl, snapshot, name, stored, e);
	if (!err) {
		strings_add(&created, xstrdup(name));
		created_mount(&c, result);
	}
	strings_free(&created);
	return change_end(rq, args, c.p, err);
}

/* ---- snapshots, bookmarks, holds ---- */

struct tree_names {
	const char *suffix; /* "@snap", "#mark" */
	struct strings *names;
	bool existing; /* only those that are there */
};

static int tree_name_add(void *arg, struct dsl_dir *dir)
{
	struct tree_names *t = arg;
	char *name = xasprintf("%s%s", dir->name, t->suffix);
	struct dsl_dataset *ds;
	bool there = !t->existing || dsl_dataset_hold(dir->pool, name, &ds, NULL) == 0;

	if (t->existing && there)
		dsl_dataset_release(ds);
	if (there)
		strings_add(t->names, name);
	else
		free(name);
	return dsl_each_child(dir, tree_name_add, t);
}

int change_tree_names(struct pool *p, const char *name, bool existing, struct strings *names, struct err *e)
{
	size_t len = strcspn(name, "@#");
	autofree char *head = xasprintf("%.*s", (int)len, name);
	struct tree_names t = {name + len, names, existing};
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(p->spa->dsl, head, &ds, e);

	if (err)
		return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
	tree_name_add(&t, ds->dir);
	dsl_dataset_release(ds);
	return 0;
}

/* The names of a request, with -r those of everything below too. */
static int names_expand(struct pool *p, const struct nvlist *args, const char *key, bool existing, struct strings *out,
			struct err *e)
{
	const char *const *names;
	size_t n;
	int err = change_names(args, key, &names, &n, e);

	for (size_t i = 0; i < n && !err; i++) {
		if (nvlist_bool(args, "recursive"))
			err = change_tree_names(p, names[i], existing, out, e);
		else
			strings_add(out, xstrdup(names[i]));
	}
	return err;
}

static int first_name(const struct nvlist *args, const char *key, const char **name, struct err *e)
{
	const char *const *names;
	size_t n;
	int err = change_names(args, key, &names, &n, e);

	*name = err ? NULL : names[0];
	return err;
}

int command_dataset_snapshot(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e)
{
	autonv struct nvlist *stored = NULL;
	struct strings names = {NULL, 0};
	struct nvlist *values;
	const char *name;
	struct pool *p;
	int err = first_name(args, "names", &name, e);

	if (!err)
		err = change_begin(rq, name, &p, e);
	if (err)
		return err;
	err = names_expand(p, args, "names", false, &names, e);
	if (!err && nvlist_list(args, "props", &values) == 0)
		err = dsl_props_check(p->spa->dsl, name, DSL_SNAPSHOT, values, true, &stored, e);
	if (!err)
		err = dsl_snapshot(p->spa->dsl, (const char *const *)names.s, names.n, stored, e);
	strings_free(&names);
	return change_end(rq, args, p, err);
}

static int holds_change(struct control_request *rq, const struct nvlist *args,
			int (*change)(struct dsl_pool *p, const char *const *snapshots, size_t n, const char *tag,
				      struct err *e),
			struct err *e)
{
	struct strings names = {NULL, 0};
	const char *name;
	struct pool *p;
	int err = first_name(args, "names", &name, e);

	if (!err)
		err = change_begin(rq, name, &p, e);
	if (err)
		return err;
	err = names_expand(p, args, "names", true, &names, e);
	if (!err && !names.n)
		err = err_set(e, -ENOENT, "no matching snapshots were found");
	if (!err)
		err = change(p->spa->dsl, (const char *const *)names.s, names.n, nvlist_string_or(args, "tag", ""), e);
	strings_free(&names);
	return change_end(rq, args, p, err);
}

int command_dataset_hold_add(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e)
{
	return holds_change(rq, args, dsl_hold, e);
}

int command_dataset_hold_release(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
				 struct err *e)
{
	return holds_change(rq, args, dsl_release_hold, e);
}

int command_dataset_bookmark(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e)
{
	const char *source = nvlist_string_or(args, "source", ""), *bookmark = nvlist_string_or(args, "bookmark", "");
	struct pool *p;
	int err = change_begin(rq, source, &p, e);

	return err ? err : change_end(rq, args, p, dsl_bookmark_create(p->spa->dsl, source, bookmark, e));
}

/* ---- promote, rename ---- */

int command_dataset_promote(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *name = nvlist_string_or(args, "name", "");
	struct pool *p;
	int err = change_begin(rq, name, &p, e);

	return err ? err : change_end(rq, args, p, dsl_promote(p->spa->dsl, name, e));
}

static int rename_tree(struct control_request *rq, const struct nvlist *args, struct pool *p, const char *from,
		       const char *to, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	struct strings created = {NULL, 0}, mounted = {NULL, 0};
	struct creation c = {.rq = rq, .args = args, .p = p, .created = &created};
	struct mount_request mr = {.automatic = true};
	struct failures f = {NULL, 0};
	int err = nvlist_bool(args, "parents") ? create_parents(&c, to, e) : 0;

	if (!err && !nvlist_bool(args, "keep_mounts"))
		err = mounts_unmount_tree(d, p, from, nvlist_bool(args, "force"), &mounted, e);
	if (!err)
		err = dsl_rename(p->spa->dsl, from, to, false, e);
	if (mounted.n)
		mounts_mount_all(d, p, err ? from : to, &mr, failures_add, &f);
	failures_finish(&f, result);
	strings_free(&created);
	strings_free(&mounted);
	return err;
}

int command_dataset_rename(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *from = nvlist_string_or(args, "from", ""), *to = nvlist_string_or(args, "to", "");
	struct pool *p;
	int err = change_begin(rq, from, &p, e);

	if (err)
		return err;
	if (strchr(from, '@'))
		err = dsl_rename(p->spa->dsl, from, to, nvlist_bool(args, "recursive"), e);
	else
		err = rename_tree(rq, args, p, from, to, result, e);
	return change_end(rq, args, p, err);
}

/* ---- properties ---- */

/* What was mounted is mounted anew where the properties say now. */
static void remount(struct control_request *rq, struct pool *p, const char *name, const struct strings *mounted,
		    struct failures *f)
{
	struct mount_request mr = {.automatic = true};

	if (mounted->n)
		mounts_mount_all(command_daemon(rq), p, name, &mr, failures_add, f);
}

static bool moves_mounts(const struct nvlist *values)
{
	return nvlist_exists(values, "mountpoint") || nvlist_exists(values, "canmount");
}

static int set_one(struct control_request *rq, const struct nvlist *args, const char *name, const struct nvlist *values,
		   struct failures *f, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	struct strings mounted = {NULL, 0};
	struct pool *p;
	bool moves = moves_mounts(values) && !nvlist_bool(args, "keep_mounts");
	int err = change_begin(rq, name, &p, e);

	if (err)
		return err;
	if (moves && !strchr(name, '@'))
		err = mounts_unmount_tree(d, p, name, false, &mounted, e);
	if (!err)
		err = dsl_props_set(p->spa->dsl, name, values, e);
	remount(rq, p, name, &mounted, f);
	strings_free(&mounted);
	return change_end(rq, args, p, err);
}

/* Each name by itself; what failed is told of each. */
static int each_name(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
		     int (*fn)(struct control_request *rq, const struct nvlist *args, const char *name,
			       struct failures *f, struct err *e),
		     const char *what, struct err *e)
{
	const char *const *names;
	struct failures f = {NULL, 0};
	size_t n;
	int err = 0;

	if (nvlist_strings(args, "names", &names, &n))
		return err_set(e, -EINVAL, "no names are given");
	for (size_t i = 0; i < n; i++) {
		struct err own = ERR_INIT;

		err = fn(rq, args, names[i], &f, n == 1 ? e : &own);
		if (err && n > 1) {
			autofree char *text = xasprintf("cannot %s '%s': %s", what, names[i],
							own.text[0] ? own.text : err_words(err));

			failures_add(&f, text);
		}
	}
	failures_finish(&f, result);
	return n == 1 ? err : 0;
}

static int set_named(struct control_request *rq, const struct nvlist *args, const char *name, struct failures *f,
		     struct err *e)
{
	struct nvlist *values;

	if (nvlist_list(args, "props", &values))
		return err_set(e, -EINVAL, "no properties are given");
	return set_one(rq, args, name, values, f, e);
}

int command_dataset_set(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return each_name(rq, args, result, set_named, "set property for", e);
}

static int inherit_one(struct control_request *rq, const struct nvlist *args, const char *name, struct failures *f,
		       struct err *e)
{
	const char *property = nvlist_string_or(args, "property", "");
	struct strings names = {NULL, 0}, mounted = {NULL, 0};
	struct pool *p;
	bool received = nvlist_bool(args, "received"), recursive = nvlist_bool(args, "recursive");
	bool moves = !strcmp(property, "mountpoint") || !strcmp(property, "canmount");
	int err = change_begin(rq, name, &p, e);

	if (err)
		return err;
	if (recursive)
		err = change_tree_names(p, name, true, &names, e);
	if (!err && recursive && !names.n)
		err = err_set(e, -ENOENT, "dataset does not exist");
	if (!err && moves && !strchr(name, '@'))
		err = mounts_unmount_tree(command_daemon(rq), p, name, false, &mounted, e);
	if (!err)
		err = recursive ? dsl_prop_inherit_tree(p->spa->dsl, (const char *const *)names.s, names.n, property,
							received, e)
				: dsl_prop_inherit(p->spa->dsl, name, property, received, e);
	remount(rq, p, name, &mounted, f);
	strings_free(&names);
	strings_free(&mounted);
	return change_end(rq, args, p, err);
}

int command_dataset_inherit(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return each_name(rq, args, result, inherit_one, "inherit property for", e);
}

int command_dataset_upgrade(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *name = nvlist_string_or(args, "name", "");
	struct pool *p;
	int err = change_begin(rq, name, &p, e);

	if (err)
		return err;
	err = dsl_set_version(p->spa->dsl, name, nvlist_u64_or(args, "version", FILESYSTEM_VERSION), e);
	return change_end(rq, args, p, err);
}

int command_dataset_delegate(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e)
{
	const char *name = nvlist_string_or(args, "name", "");
	struct nvlist *perms;
	struct pool *p;
	int err = nvlist_list(args, "perms", &perms) ? err_set(e, -EINVAL, "no permissions are given") : 0;

	if (!err)
		err = change_begin(rq, name, &p, e);
	return err ? err : change_end(rq, args, p, dsl_allow(p->spa->dsl, name, perms, nvlist_bool(args, "remove"), e));
}
