#include "serve/daemon/commands.h"

#include <stdio.h>
#include <inttypes.h>

#include "serve/daemon/mounts.h"
#include "serve/daemon/paths.h"

/* ---- search and import ---- */

struct found {
	struct nvlist **config;
	size_t n;
};

static int found_search(struct control_request *rq, const struct nvlist *args, struct found *f, struct err *e)
{
	struct spa_search s = {.progress = control_progress, .arg = rq};

	nvlist_strings(args, "paths", &s.paths, &s.npaths);
	s.cachefile = nvlist_string_or(args, "cachefile", NULL);
	s.destroyed = nvlist_bool(args, "destroyed");
	return spa_search(&s, &f->config, &f->n, e);
}

static void found_free(struct found *f)
{
	for (size_t i = 0; i < f->n; i++)
		nvlist_destroy(f->config[i]);
	free(f->config);
}

static int found_list(struct control_request *rq, const struct nvlist *args, struct nvlist *config)
{
	struct tarn_daemon *d = command_daemon(rq);
	int err = 0;

	if (pool_is_imported(d, nvlist_u64_or(config, "pool_guid", 0)))
		return 0;
	if (nvlist_bool(args, "open"))
		err = spa_config_try(config, d->arc, control_progress, rq);
	return err ? err : control_item(rq, config);
}

int command_pool_search(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct found f = {NULL, 0};
	int err = found_search(rq, args, &f, e);

	for (size_t i = 0; i < f.n && !err; i++) {
		err = found_list(rq, args, f.config[i]);
		if (err)
			err_set(e, err, "%s", err_words(err));
	}
	found_free(&f);
	return err;
}

/* The one pool that is meant; a name two pools share must be told apart by guid. */
static int found_choose(const struct found *f, const struct nvlist *args, struct nvlist **out, struct err *e)
{
	const char *name = nvlist_string_or(args, "name", NULL);
	uint64_t guid = nvlist_u64_or(args, "guid", 0);
	struct nvlist *match = NULL;

	for (size_t i = 0; i < f->n; i++) {
		bool same = guid ? nvlist_u64_or(f->config[i], "pool_guid", 0) == guid
				 : name && strcmp(nvlist_string_or(f->config[i], "name", ""), name) == 0;

		if (same && match) {
			err_set(e, -EEXIST, "more than one matching pool");
			err_hint(e, "import by numeric ID instead: %" PRIu64 " or %" PRIu64,
				 nvlist_u64_or(match, "pool_guid", 0), nvlist_u64_or(f->config[i], "pool_guid", 0));
			return -EEXIST;
		}
		if (same)
			match = f->config[i];
	}
	if (!match)
		return err_set(e, -ENOENT, "no such pool available");
	*out = match;
	return 0;
}

static void import_args(struct control_request *rq, const struct nvlist *args, struct nvlist *config,
			struct spa_import *imp)
{
	struct nvlist *props = NULL;

	nvlist_list(args, "props", &props);
	*imp = (struct spa_import){
	    .config = config,
	    .new_name = nvlist_string_or(args, "new_name", NULL),
	    .temporary_name = nvlist_bool(args, "temporary"),
	    .force = nvlist_bool(args, "force"),
	    .missing_log = nvlist_bool(args, "missing_log"),
	    .rewind = nvlist_bool(args, "rewind"),
	    .rewind_dry = nvlist_bool(args, "rewind_dry"),
	    .extreme = nvlist_bool(args, "extreme"),
	    .txg = nvlist_u64_or(args, "txg", 0),
	    .rewind_checkpoint = nvlist_bool(args, "rewind_checkpoint"),
	    .writable = !nvlist_bool(args, "rewind_dry") &&
			(!props || strcmp(nvlist_string_or(props, "readonly", "off"), "on") != 0),
	    .altroot = nvlist_string_or(args, "altroot", NULL),
	    .props = props,
	    .progress = control_progress,
	    .progress_arg = rq,
	};
}

static void import_notes(const struct spa *spa, struct nvlist *result)
{
	const char *const *notes;
	size_t n;

	if (spa->load_info && nvlist_strings(spa->load_info, "notes", &notes, &n) == 0)
		nvlist_add_strings(result, "notes", notes, n);
}

/* A dry rewind opens the pool as it would be and gives it back. */
static int import_end(struct tarn_daemon *d, struct pool *p, const struct nvlist *args, struct nvlist *result,
		      struct err *e)
{
	struct mount_request mr = {.automatic = true, .options = nvlist_string_or(args, "options", NULL)};
	struct failures f = {NULL, 0};

	nvlist_add_string(result, "name", p->name);
	import_notes(p->spa, result);
	if (nvlist_bool(args, "rewind_dry")) {
		autofree char *name = xstrdup(p->name);

		pool_release(d, p);
		return pool_export(d, name, true, e);
	}
	if (nvlist_bool(args, "mount"))
		mounts_mount_all(d, p, p->name, &mr, failures_add, &f);
	failures_finish(&f, result);
	pool_release(d, p);
	return 0;
}

int command_pool_import(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	struct found f = {NULL, 0};
	struct nvlist *config = NULL;
	struct spa_import imp;
	struct pool *p;
	int err = found_search(rq, args, &f, e);

	if (!err)
		err = found_choose(&f, args, &config, e);
	if (!err) {
		import_args(rq, args, config, &imp);
		err = pool_import(d, &imp, &p, e);
	}
	found_free(&f);
	if (!err && spa_is_writable(p->spa))
		command_remember(rq, args, p);
	return err ? err : import_end(d, p, args, result, e);
}

int command_pool_export(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *name = nvlist_string_or(args, "name", "");
	int err = pool_export(command_daemon(rq), name, nvlist_bool(args, "force"), e);

	if (!err && e->text[0]) {
		const char *lost = e->text;

		nvlist_add_strings(result, "failures", &lost, 1);
	}
	return err;
}

/* ---- looking ---- */

typedef int (*pool_fn)(struct control_request *rq, struct pool *p, const struct nvlist *args, struct err *e);

/* The whole word must be the pool's name: not that of something in it. */
static int one_pool(struct control_request *rq, const char *name, const struct nvlist *args, pool_fn fn, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	struct pool *p;
	int err = name[strcspn(name, "/@#")] ? err_set(e, -ENOENT, "no such pool") : pool_hold(d, name, &p, e);

	if (err)
		return err == -ENOENT ? err_set(e, err, "no such pool") : err;
	err = fn(rq, p, args, e);
	pool_release(d, p);
	return err;
}

/* What is wrong with one does not hold up the others. */
static int one_of_pools(struct control_request *rq, const char *name, const struct nvlist *args, pool_fn fn,
			struct err *e)
{
	autonv struct nvlist *item = nvlist_create();
	struct err own = ERR_INIT;
	int err = one_pool(rq, name, args, fn, &own);

	if (!err || control_cancelled(rq))
		return err;
	nvlist_add_string(item, "name", name);
	nvlist_add_string(item, "error", own.text[0] ? own.text : err_words(err));
	return control_item(rq, item);
}

/* Calls fn for the pools named in args, or for all. */
static int each_pool(struct control_request *rq, const struct nvlist *args, pool_fn fn, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	const char *const *names;
	struct pool **pools;
	size_t n;
	int err = 0;

	if (nvlist_strings(args, "names", &names, &n) == 0 && n > 0) {
		for (size_t i = 0; i < n && !err; i++)
			err = n == 1 ? one_pool(rq, names[i], args, fn, e) : one_of_pools(rq, names[i], args, fn, e);
		return err;
	}
	n = pools_hold_all(d, &pools);
	for (size_t i = 0; i < n && !err; i++)
		err = fn(rq, pools[i], args, e);
	pools_release_all(d, pools, n);
	return err;
}

static int status_get(struct pool *p, bool errors, struct nvlist **out, struct err *e)
{
	int err = spa_status(p->spa, errors, out);

	return err ? err_set(e, err, "cannot get the status of '%s': %s", p->name, err_words(err)) : 0;
}

static int list_one(struct control_request *rq, struct pool *p, const struct nvlist *args, struct err *e)
{
	autonv struct nvlist *item = NULL;
	struct nvlist *props;
	int err = status_get(p, false, &item, e);

	if (err)
		return err;
	err = spa_props_get(p->spa, &props);
	if (err)
		return err_set(e, err, "cannot read the properties of '%s': %s", p->name, err_words(err));
	nvlist_take_list(item, "props", props);
	nvlist_add_u64(item, "guid", p->guid);
	nvlist_add_u64(item, "import_time", p->spa->import_time);
	return control_item(rq, item);
}

int command_pool_list(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return each_pool(rq, args, list_one, e);
}

static int status_one(struct control_request *rq, struct pool *p, const struct nvlist *args, struct err *e)
{
	bool errors = nvlist_bool(args, "errors");
	autonv struct nvlist *item = NULL;
	int err = status_get(p, errors, &item, e);

	if (!err && errors)
		err = error_paths_add(p->spa, item);
	return err ? err : control_item(rq, item);
}

int command_pool_status(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return each_pool(rq, args, status_one, e);
}

/* ---- properties ---- */

static int vdev_props_send(struct control_request *rq, struct spa *spa, struct vdev *vd)
{
	autonv struct nvlist *item = nvlist_create();
	autofree char *name = vdev_name(vd, 0);
	struct nvlist *props;
	int err = spa_vdev_props_get(spa, vd, &props);

	if (err)
		return err;
	nvlist_add_string(item, "name", name);
	nvlist_take_list(item, "props", props);
	return control_item(rq, item);
}

static int vdev_props_send_all(struct control_request *rq, struct spa *spa, struct vdev *vd)
{
	int err = vdev_props_send(rq, spa, vd);

	for (unsigned i = 0; i < vd->nchildren && !err; i++)
		err = vdev_props_send_all(rq, spa, vd->child[i]);
	return err;
}

static struct vdev *vdev_find(struct vdev *vd, const char *name)
{
	autofree char *shown = vdev_name(vd, 0);
	char guid[24];

	snprintf(guid, sizeof(guid), "%" PRIu64, vd->guid);
	if (strcmp(shown, name) == 0 || strcmp(guid, name) == 0 || (vd->path && strcmp(vd->path, name) == 0))
		return vd;
	for (unsigned i = 0; i < vd->nchildren; i++) {
		struct vdev *found = vdev_find(vd->child[i], name);

		if (found)
			return found;
	}
	return NULL;
}

static int vdev_props_get(struct control_request *rq, struct spa *spa, const char *name, struct nvlist *result,
			  struct err *e)
{
	struct nvlist *props;
	struct vdev *vd;
	int err;

	if (strcmp(name, "all-vdevs") == 0)
		return vdev_props_send_all(rq, spa, spa->root);
	vd = vdev_find(spa->root, name);
	if (!vd)
		return err_set(e, -ENOENT, "no such vdev '%s' in pool '%s'", name, spa->name);
	err = spa_vdev_props_get(spa, vd, &props);
	if (!err)
		nvlist_take_list(result, "props", props);
	return err;
}

int command_pool_get(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	const char *vdev = nvlist_string_or(args, "vdev", NULL);
	struct nvlist *props;
	struct pool *p;
	int err = pool_hold(d, nvlist_string_or(args, "name", ""), &p, e);

	if (err)
		return err;
	if (vdev) {
		err = vdev_props_get(rq, p->spa, vdev, result, e);
	} else {
		err = spa_props_get(p->spa, &props);
		if (!err)
			nvlist_take_list(result, "props", props);
	}
	pool_release(d, p);
	return err;
}

/* ---- history ---- */

static int history_record(void *arg, const struct nvlist *record)
{
	return control_item(arg, record);
}

int command_pool_history(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	const char *name = nvlist_string_or(args, "name", "");
	struct pool *p;
	int err = pool_hold(d, name, &p, e);

	if (err)
		return err;
	if (spa_is_writable(p->spa)) /* what was done last is among it */
		spa_sync_now(p->spa);
	err = spa_history_each(p->spa, history_record, rq);
	if (err)
		err_set(e, err, "cannot read the history of '%s': %s", name, err_words(err));
	pool_release(d, p);
	return err;
}
