/* Data sets, their properties and keys. */
#include "lib/lib.h"

#include "dsl/dsl_crypt.h"

int lib_dataset_hold(struct tarn_pool *p, const char *name, struct dsl_dataset **out, struct tarn_error *e)
{
	struct err err = ERR_INIT;
	int rc = dsl_dataset_hold(p->spa->dsl, name, out, &err);

	return rc ? lib_error(e, rc, &err, name) : 0;
}

int lib_open_error(struct dsl_dataset *ds, int code, const struct err *from, struct tarn_error *e)
{
	if (code == -EKEY && ds->dir->crypto_obj && !dsl_key_is_loaded(ds->dir))
		code = -ENOKEY;
	return lib_error(e, code, from, ds->name);
}

/* ---- walking ---- */

struct walk {
	unsigned types;
	int (*each)(void *arg, const struct tarn_dataset *dataset);
	void *arg;
};

static int walk_tell(struct walk *w, struct dsl_dataset *ds)
{
	struct tarn_dataset out = {.name = ds->name,
				   .guid = ds->guid,
				   .createtxg = ds->creation_txg,
				   .creation = (int64_t)ds->creation_time,
				   .encrypted = ds->dir->crypto_obj != 0};
	unsigned type = 0;

	out.key_loaded = out.encrypted && dsl_key_is_loaded(ds->dir);
	out.err = dsl_dataset_type(ds, &type);
	out.type = out.err ? 0 : type;
	if (!out.err && !(w->types & (type & DSL_SNAPSHOT ? DSL_SNAPSHOT : type)))
		return 0;
	return w->each(w->arg, &out);
}

static int walk_snapshot(void *arg, struct dsl_dataset *snap)
{
	return walk_tell(arg, snap);
}

static int walk_head(struct walk *w, struct dsl_dataset *head)
{
	int rc = walk_tell(w, head);

	return rc || !(w->types & DSL_SNAPSHOT) ? rc : dsl_each_snapshot(head, walk_snapshot, w);
}

/* Damage of one data set is told in its place; what fn itself returned ends the walk. */
static int walk_dir(void *arg, struct dsl_dir *dir)
{
	struct tarn_dataset damaged = {.name = dir->name};
	struct walk *w = arg;
	struct dsl_dataset *head;
	int rc;

	damaged.err = dsl_dataset_hold_obj(dir->pool, dir->head, &head, NULL);
	if (damaged.err) {
		rc = w->each(w->arg, &damaged);
	} else {
		rc = walk_head(w, head);
		dsl_dataset_release(head);
	}
	return rc ? rc : dsl_each_child(dir, walk_dir, w);
}

int tarn_dataset_walk(struct tarn_pool *p, const char *name, unsigned types,
		      int (*each)(void *arg, const struct tarn_dataset *dataset), void *arg, struct tarn_error *e)
{
	struct walk w = {types, each, arg};
	struct dsl_dataset *ds;
	int rc = lib_dataset_hold(p, name ? name : p->spa->name, &ds, e);

	if (rc)
		return rc;
	rc = ds->is_snapshot ? walk_tell(&w, ds) : walk_dir(&w, ds->dir);
	dsl_dataset_release(ds);
	return rc;
}

/* ---- properties ---- */

int tarn_dataset_properties(struct tarn_pool *p, const char *name,
			    int (*each)(void *arg, const struct tarn_property *property), void *arg,
			    struct tarn_error *e)
{
	autonv struct nvlist *props = NULL;
	struct err err = ERR_INIT;
	struct dsl_dataset *ds;
	int rc = lib_dataset_hold(p, name, &ds, e);

	if (rc)
		return rc;
	rc = dsl_props_get(ds, NULL, 0, &props, &err);
	dsl_dataset_release(ds);
	return rc ? lib_error(e, rc, &err, name) : lib_each_property(props, each, arg);
}

int tarn_dataset_property(struct tarn_pool *p, const char *name, const char *property, char **value,
			  struct tarn_error *e)
{
	autonv struct nvlist *props = NULL;
	struct err err = ERR_INIT;
	struct dsl_dataset *ds;
	struct nvlist *found;
	int rc = lib_dataset_hold(p, name, &ds, e);

	if (rc)
		return rc;
	rc = dsl_props_get(ds, &property, 1, &props, &err);
	dsl_dataset_release(ds);
	if (rc)
		return lib_error(e, rc, &err, name);
	if (nvlist_list(props, property, &found) || !nvlist_exists(found, "value"))
		return lib_error(e, -ENOENT, NULL, property);
	*value = xstrdup(nvlist_string_or(found, "value", ""));
	return 0;
}

/* ---- keys ---- */

int tarn_key_root(struct tarn_pool *p, const char *name, char root[TARN_NAME_MAX], bool *loaded, struct tarn_error *e)
{
	struct dsl_dataset *ds;
	int rc = lib_dataset_hold(p, name, &ds, e);

	if (rc)
		return rc;
	rc = dsl_crypt_root(ds->dir, root);
	if (rc == -ENOENT)
		lib_error(e, rc, &(struct err){rc, "the data set is not encrypted"}, name);
	else if (rc)
		lib_error(e, rc, NULL, name);
	else if (loaded)
		*loaded = dsl_key_is_loaded(ds->dir);
	dsl_dataset_release(ds);
	return rc;
}

int tarn_key_load(struct tarn_pool *p, const char *name, const void *material, size_t len, struct tarn_error *e)
{
	char root[TARN_NAME_MAX];
	struct err err = ERR_INIT;
	int rc = tarn_key_root(p, name, root, NULL, e);

	if (rc)
		return rc;
	rc = dsl_key_load(p->spa->dsl, root, material, len, false, &err);
	return rc ? lib_error(e, rc, &err, root) : 0;
}

int tarn_key_unload(struct tarn_pool *p, const char *name, struct tarn_error *e)
{
	char root[TARN_NAME_MAX];
	struct err err = ERR_INIT;
	int rc = tarn_key_root(p, name, root, NULL, e);

	if (rc)
		return rc;
	rc = dsl_key_unload(p->spa->dsl, root, &err);
	return rc ? lib_error(e, rc, &err, root) : 0;
}
