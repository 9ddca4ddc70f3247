/* Pools: finding, opening, describing. */
#include "lib/lib.h"

#include <stdio.h>

#include "base/log.h"
#include "spa/search.h"

const char *tarn_version(void)
{
	return TARN_VERSION;
}

void tarn_free(void *p)
{
	free(p);
}

int lib_error(struct tarn_error *e, int code, const struct err *from, const char *what)
{
	if (!e)
		return code;
	e->code = code;
	if (from && from->text[0])
		snprintf(e->text, sizeof(e->text), "%s", from->text);
	else
		snprintf(e->text, sizeof(e->text), "%s: %s", what, err_words(code));
	return code;
}

int tarn_create(uint64_t cache_bytes, struct tarn **out, struct tarn_error *e)
{
	if (cache_bytes < ARC_MAX_MIN)
		return lib_error(e, -EINVAL, NULL, "a cache of less than 16 MiB");
	log_init(LOG_LEVEL_ERROR);
	*out = xcalloc(1, sizeof(**out));
	(*out)->arc = arc_create(cache_bytes);
	return 0;
}

void tarn_destroy(struct tarn *t)
{
	if (!t)
		return;
	arc_destroy(t->arc);
	free(t);
}

/* ---- finding ---- */

struct pools_found {
	struct nvlist **config;
	size_t n;
};

static void pools_found_free(struct pools_found *f)
{
	for (size_t i = 0; i < f->n; i++)
		nvlist_destroy(f->config[i]);
	free(f->config);
}

static int found_tell(const struct nvlist *config, int (*found)(void *arg, const struct tarn_found *pool), void *arg)
{
	struct tarn_found pool = {
	    .name = nvlist_string_or(config, "name", ""),
	    .guid = nvlist_u64_or(config, "pool_guid", 0),
	    .health = nvlist_string_or(config, "health", "UNKNOWN"),
	    .reason = nvlist_string_or(config, "status", NULL),
	    .destroyed = nvlist_u64_or(config, "state", 0) == POOL_STATE_DESTROYED,
	};

	return found(arg, &pool);
}

int tarn_pool_search(struct tarn *t, const char *const *paths, size_t npaths,
		     int (*found)(void *arg, const struct tarn_found *pool), void *arg, struct tarn_error *e)
{
	struct pools_found f = {NULL, 0};
	struct err err = ERR_INIT;
	int rc = 0;

	/* Destroyed pools are listed apart by the search. */
	for (int destroyed = 0; destroyed < 2 && !rc; destroyed++) {
		struct spa_search s = {.paths = paths, .npaths = npaths, .destroyed = destroyed};

		rc = spa_search(&s, &f.config, &f.n, &err);
		if (rc)
			return lib_error(e, rc, &err, "search for pools");
		for (size_t i = 0; i < f.n && !rc; i++)
			rc = found_tell(f.config[i], found, arg);
		pools_found_free(&f);
	}
	return rc;
}

static int found_choose(const struct pools_found *f, const char *name, uint64_t guid, struct nvlist **out,
			struct tarn_error *e)
{
	struct err err = ERR_INIT;

	*out = NULL;
	for (size_t i = 0; i < f->n; i++) {
		if (guid ? nvlist_u64_or(f->config[i], "pool_guid", 0) != guid
			 : strcmp(nvlist_string_or(f->config[i], "name", ""), name) != 0)
			continue;
		if (*out) {
			err_set(&err, -EEXIST, "more than one pool is named '%s': give the guid", name);
			return lib_error(e, -EEXIST, &err, name);
		}
		*out = f->config[i];
	}
	return *out ? 0 : lib_error(e, -ENOENT, NULL, name ? name : "the pool");
}

/* ---- opening ---- */

int tarn_pool_open(struct tarn *t, const char *name, const struct tarn_open_options *how, struct tarn_pool **out,
		   struct tarn_error *e)
{
	static const struct tarn_open_options defaults;
	struct pools_found f = {NULL, 0};
	struct err err = ERR_INIT;
	struct spa *spa;
	int rc;

	how = how ? how : &defaults;
	if (!name && !how->guid)
		return lib_error(e, -EINVAL, NULL, "neither a name nor a guid");
	struct spa_search search = {.paths = how->paths,
				    .npaths = how->npaths,
				    .destroyed = how->flags & TARN_DESTROYED,
				    .progress = how->progress,
				    .arg = how->progress_arg};
	struct spa_import args = {.force = how->flags & TARN_FORCE,
				  .missing_log = how->flags & TARN_MISSING_LOG,
				  .rewind = how->flags & TARN_REWIND,
				  .txg = how->txg,
				  .arc = t->arc,
				  .progress = how->progress,
				  .progress_arg = how->progress_arg};

	rc = spa_search(&search, &f.config, &f.n, &err);
	if (rc)
		return lib_error(e, rc, &err, "search for pools");
	rc = found_choose(&f, name, how->guid, &args.config, e);
	if (!rc) {
		rc = spa_import(&args, &spa, &err);
		if (rc)
			lib_error(e, rc, &err, "open the pool");
	}
	pools_found_free(&f);
	if (rc)
		return rc;
	*out = xcalloc(1, sizeof(**out));
	(*out)->tarn = t;
	(*out)->spa = spa;
	return 0;
}

int tarn_pool_close(struct tarn_pool *p, struct tarn_error *e)
{
	struct err err = ERR_INIT;
	int rc;

	if (!p)
		return 0;
	rc = spa_export(p->spa, &err);
	if (rc)
		return lib_error(e, rc, &err, "close the pool");
	free(p);
	return 0;
}

const char *tarn_pool_name(const struct tarn_pool *p)
{
	return p->spa->name;
}

uint64_t tarn_pool_guid(const struct tarn_pool *p)
{
	return p->spa->guid;
}

uint64_t tarn_pool_txg(const struct tarn_pool *p)
{
	return p->spa->uberblock.txg;
}

/* ---- properties ---- */

int lib_each_property(const struct nvlist *props, int (*each)(void *arg, const struct tarn_property *property),
		      void *arg)
{
	int rc = 0;

	for (const struct nvpair *pair = nvlist_first(props); pair && !rc; pair = nvlist_next(props, pair)) {
		struct tarn_property property = {.name = nvpair_name(pair)};
		struct nvlist *p;

		if (nvlist_list(props, property.name, &p))
			continue;
		property.value = nvlist_string_or(p, "value", "");
		property.source = nvlist_string_or(p, "source", "-");
		property.has_number = nvlist_u64(p, "number", &property.number) == 0;
		rc = each(arg, &property);
	}
	return rc;
}

int tarn_pool_properties(struct tarn_pool *p, int (*each)(void *arg, const struct tarn_property *property), void *arg,
			 struct tarn_error *e)
{
	autonv struct nvlist *props = NULL;
	int rc = spa_props_get(p->spa, &props);

	return rc ? lib_error(e, rc, NULL, "properties of the pool") : lib_each_property(props, each, arg);
}
