/*
 * Setting properties of a pool (docs/format/01-pool.md section 7; 09-cli.md 9.6): what people write is checked by a
 * table, then stored in one sync task.
 */
#include <ctype.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/os.h"
#include "spa/pool_props.h"
#include "spa/spa_write.h"

#define USER_NAME_MAX  256
#define USER_VALUE_MAX 8192
#define COMMENT_MAX    32

struct word {
	const char *name;
	uint64_t value;
};
static const struct word onoff_words[] = {{"off", 0}, {"on", 1}, {NULL, 0}};
static const struct word failmode_words[] = {
    {"wait", FAILMODE_WAIT}, {"continue", FAILMODE_CONTINUE}, {"panic", FAILMODE_PANIC}, {NULL, 0}};
static const struct word quota_words[] = {{"auto", UINT64_MAX}, {"none", 0}, {NULL, 0}};

struct parse {
	struct spa *spa;
	enum spa_props_when when;
	struct spa_pool_props *out;
	struct err *e;
};

/* --- values --- */
static int words_refuse(const struct parse *p, const char *name, const struct word *words)
{
	struct str list = {0};
	int err;

	for (const struct word *w = words; w->name; w++)
		str_addf(&list, "%s%s", w == words ? "" : " | ", w->name);
	err = err_set(p->e, -EINVAL, "'%s' must be one of '%s'", name, list.s);
	str_free(&list);
	return err;
}

static int word_parse(const struct parse *p, const char *name, const char *value, const struct word *words)
{
	for (const struct word *w = words; w->name; w++)
		if (strcmp(w->name, value) == 0) {
			nvlist_add_u64(p->out->stored, name, w->value);
			return 0;
		}
	return words_refuse(p, name, words);
}

/* Digits with an optional binary unit. */
static bool size_parse(const char *text, uint64_t *out)
{
	static const char units[] = "bkmgtpez";
	char *end;
	const char *unit;
	double v;

	if (!isdigit((unsigned char)*text) && *text != '.')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	if (*end == '\0')
		return errno == 0;
	v = strtod(text, &end);
	unit = *end ? strchr(units, tolower((unsigned char)*end)) : units;
	if (!unit || (*end && end[1] && strcasecmp(end + 1, "b") != 0 && strcasecmp(end + 1, "ib") != 0))
		return false;
	for (long i = unit - units; i > 0; i--)
		v *= 1024;
	if (v >= 18446744073709551616.0)
		return false;
	*out = (uint64_t)v;
	return true;
}

static int onoff_set(const struct parse *p, const char *name, const char *value)
{
	return word_parse(p, name, value, onoff_words);
}

static int failmode_set(const struct parse *p, const char *name, const char *value)
{
	return word_parse(p, name, value, failmode_words);
}

static int multihost_set(const struct parse *p, const char *name, const char *value)
{
	if (strcmp(value, "on") == 0 && os_hostid() == 0)
		return err_set(p->e, -ENOTSUP, "property 'multihost' needs a host id: set one in /etc/hostid");
	return word_parse(p, name, value, onoff_words);
}

static int quota_set(const struct parse *p, const char *name, const char *value)
{
	uint64_t bytes;

	for (const struct word *w = quota_words; w->name; w++)
		if (strcmp(w->name, value) == 0)
			return word_parse(p, name, value, quota_words);
	if (!size_parse(value, &bytes))
		return err_set(p->e, -EINVAL, "'%s' must be a size, 'auto' or 'none'", name);
	nvlist_add_u64(p->out->stored, name, bytes);
	return 0;
}

static int ashift_set(const struct parse *p, const char *name, const char *value)
{
	char *end;
	unsigned long v = strtoul(value, &end, 10);

	if (end == value || *end || (v != 0 && (v < 9 || v > 16)))
		return err_set(p->e, -EINVAL, "property 'ashift' number %s is invalid: 0, or 9 to 16", value);
	nvlist_add_u64(p->out->stored, name, v);
	return 0;
}

static int bootfs_set(const struct parse *p, const char *name, const char *value)
{
	struct dsl_dataset *ds;
	unsigned type = 0;
	int err;

	if (!p->spa)
		return err_set(
		    p->e, -EINVAL,
		    "property 'bootfs' cannot be set when the pool is created: its file systems do not exist yet");
	if (!*value) {
		nvlist_add_u64(p->out->stored, name, 0);
		return 0;
	}
	err = dsl_dataset_hold(p->spa->dsl, value, &ds, p->e);
	if (err)
		return err;
	err = dsl_dataset_type(ds, &type);
	if (!err && !(type & DSL_FILESYSTEM))
		err = err_set(p->e, -EINVAL, "'%s' is no file system", value);
	else if (!err)
		nvlist_add_u64(p->out->stored, name, ds->object);
	dsl_dataset_release(ds);
	p->out->bootfs = value;
	return err;
}

static int comment_set(const struct parse *p, const char *name, const char *value)
{
	for (const char *c = value; *c; c++)
		if (!isprint((unsigned char)*c))
			return err_set(p->e, -EINVAL, "comment may only have printable characters");
	if (strlen(value) > COMMENT_MAX)
		return err_set(p->e, -EINVAL, "comment must not exceed %d characters", COMMENT_MAX);
	nvlist_add_string(p->out->config, name, value);
	return 0;
}

static int compatibility_set(const struct parse *p, const char *name, const char *value)
{
	struct spa_compatibility c;
	int err = spa_compatibility_load(value, &c, p->e);

	if (err)
		return err;
	spa_compatibility_free(&c);
	nvlist_add_string(p->out->config, name, strcmp(value, "off") == 0 ? "" : value);
	return 0;
}

static int cachefile_set(const struct parse *p, const char *name, const char *value)
{
	autofree char *dir = xstrdup(value);
	char *slash = strrchr(dir, '/');
	struct stat st;

	p->out->cachefile = value;
	if (!*value || strcmp(value, "none") == 0)
		return 0;
	if (*value != '/')
		return err_set(p->e, -EINVAL, "property 'cachefile' must be empty, an absolute path, or 'none'");
	slash[slash == dir] = '\0';
	if (!strrchr(value, '/')[1] || stat(dir, &st) || !S_ISDIR(st.st_mode))
		return err_set(p->e, -EINVAL, "'%s' is not a valid path for a cache file", value);
	return 0;
}

int spa_altroot_check(const char *path, struct err *e)
{
	return !path || *path == '/'
		   ? 0
		   : err_set(e, -EINVAL, "invalid alternate root '%s': must be an absolute path", path);
}

static int altroot_set(const struct parse *p, const char *name, const char *value)
{
	if (p->when == SPA_PROPS_SET)
		return err_set(p->e, -EINVAL, "property 'altroot' can only be set during pool creation or import");
	p->out->altroot = value;
	return spa_altroot_check(value, p->e);
}

static int readonly_set(const struct parse *p, const char *name, const char *value)
{
	if (p->when != SPA_PROPS_IMPORT)
		return err_set(p->e, -EINVAL, "property 'readonly' can only be set at import time");
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
		return words_refuse(p, name, onoff_words);
	p->out->readonly = strcmp(value, "on") == 0;
	return 0;
}

static int version_set(const struct parse *p, const char *name, const char *value)
{
	uint64_t v, now = p->spa ? p->spa->version : 0;
	char *end;

	v = strtoull(value, &end, 10);
	if (end == value || *end || ((v < 1 || v > 28) && v != SPA_VERSION) || v < now)
		return err_set(p->e, -EINVAL, "property 'version' number %s is invalid", value);
	p->out->version = v;
	return 0;
}

/* --- the table --- */
static const struct {
	const char *name;
	int (*set)(const struct parse *p, const char *name, const char *value);
} settable[] = {
    {"altroot", altroot_set},         {"ashift", ashift_set},    {"autoexpand", onoff_set},
    {"autoreplace", onoff_set},       {"autotrim", onoff_set},   {"bootfs", bootfs_set},
    {"cachefile", cachefile_set},     {"comment", comment_set},  {"compatibility", compatibility_set},
    {"dedup_table_quota", quota_set}, {"delegation", onoff_set}, {"failmode", failmode_set},
    {"listsnapshots", onoff_set},     {"listsnaps", onoff_set},  {"multihost", multihost_set},
    {"readonly", readonly_set},       {"version", version_set},
};

static const char *const read_only[] = {
    "allocated",   "alloc",      "available",
    "bclonesaved", "bcloneused", "bcloneratio",
    "capacity",    "cap",        "checkpoint",
    "ckpoint",     "dedupratio", "dedup",
    "dedupsaved",  "dedupused",  "dedup_table_size",
    "expandsize",  "expandsz",   "fragmentation",
    "frag",        "free",       "freeing",
    "guid",        "health",     "last_scrubbed_txg",
    "leaked",      "load_guid",  "name",
    "size",        "usable",     "used",
};

/* A pool that keeps to a set of features leaves it only when the set is changed. */
static int feature_compatible_check(const struct parse *p, const struct spa_feature *f)
{
	struct spa_compatibility c;
	int err = spa_compatibility_of(p->spa, &c, p->e);

	if (err)
		return err;
	if (!spa_compatibility_allows(&c, f)) {
		err = err_set(p->e, -EINVAL,
			      "the feature '%s' is not in the set that the pool's property 'compatibility' names",
			      f->name);
		err_hint(p->e, "set 'compatibility' to a less restrictive set, or to 'off'");
	}
	spa_compatibility_free(&c);
	return err;
}

static int feature_set(const struct parse *p, const char *prop, const char *value)
{
	const char *name = prop + strlen("feature@");
	const struct spa_feature *f = spa_feature_by_name(name);

	if (!f)
		return err_set(p->e, -EINVAL, "invalid feature '%s'", name);
	if (strcmp(value, "disabled") == 0 && p->when == SPA_PROPS_CREATE) {
		nvlist_add_boolean(p->out->disabled, name);
		return 0;
	}
	if (strcmp(value, "disabled") == 0)
		return err_set(p->e, -EINVAL, "property '%s' can only be set to 'disabled' at creation time", prop);
	if (strcmp(value, "enabled") != 0)
		return err_set(p->e, -EINVAL, "property '%s' can only be set to 'enabled' or 'disabled'", prop);
	nvlist_add_boolean(p->out->enable, name);
	return p->when == SPA_PROPS_SET ? feature_compatible_check(p, f) : 0;
}

static int user_set(const struct parse *p, const char *name, const char *value)
{
	if (strlen(name) >= USER_NAME_MAX)
		return err_set(p->e, -ENAMETOOLONG, "the name of the user property is longer than %d characters",
			       USER_NAME_MAX - 1);
	for (const char *c = name; *c; c++)
		if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && !strchr("-+._:", *c))
			return err_set(p->e, -EINVAL, "invalid user property '%s': letters are a to z", name);
	if (strlen(value) >= USER_VALUE_MAX)
		return err_set(p->e, -E2BIG, "the value of the user property '%s' is longer than %d bytes", name,
			       USER_VALUE_MAX - 1);
	nvlist_add_string(p->out->stored, name, value);
	return 0;
}

static int one_parse(const struct parse *p, const char *name, const char *value)
{
	if (strchr(name, ':'))
		return user_set(p, name, value);
	if (strncmp(name, "feature@", 8) == 0)
		return feature_set(p, name, value);
	for (size_t i = 0; i < ARRAY_LEN(settable); i++)
		if (strcmp(settable[i].name, name) == 0)
			return settable[i].set(p, strcmp(name, "listsnaps") == 0 ? "listsnapshots" : name, value);
	for (size_t i = 0; i < ARRAY_LEN(read_only); i++)
		if (strcmp(read_only[i], name) == 0)
			return err_set(p->e, -EINVAL, "'%s' is readonly", name);
	if (strncmp(name, "class_", 6) == 0 || strncmp(name, "unsupported@", 12) == 0)
		return err_set(p->e, -EINVAL, "'%s' is readonly", name);
	return err_set(p->e, -EINVAL, "invalid property '%s'", name);
}

int spa_pool_props_parse(struct spa *spa, const struct nvlist *values, enum spa_props_when when,
			 struct spa_pool_props *out, struct err *e)
{
	struct parse p = {spa, when, out, e};
	int err = 0;

	*out = (struct spa_pool_props){.stored = nvlist_create(),
				       .config = nvlist_create(),
				       .enable = nvlist_create(),
				       .disabled = nvlist_create()};
	for (const struct nvpair *v = values ? nvlist_first(values) : NULL; v && !err; v = nvlist_next(values, v)) {
		if (nvpair_type(v) != NV_STRING)
			err = err_set(e, -EINVAL, "'%s': not a string", nvpair_name(v));
		else
			err = one_parse(&p, nvpair_name(v), nvpair_string(v, 0));
	}
	if (err)
		spa_pool_props_free(out);
	return err;
}

void spa_pool_props_free(struct spa_pool_props *p)
{
	nvlist_destroy(p->stored);
	nvlist_destroy(p->config);
	nvlist_destroy(p->enable);
	nvlist_destroy(p->disabled);
	*p = (struct spa_pool_props){0};
}

/* --- storing --- */
static void set_note(struct spa *spa, const char *name, const char *value, struct tx *tx)
{
	autofree char *text = xasprintf("%s=%s", name, value);

	spa_history_internal(spa, "set", NULL, tx, text);
}

static int stored_put(struct spa *spa, uint64_t zap, const struct nvpair *p, struct tx *tx)
{
	const char *name = nvpair_name(p), *text;
	autofree char *digits = NULL;
	uint64_t number;
	int err;

	if (nvpair_type(p) == NV_STRING) {
		text = nvpair_string(p, 0);
		err = *text ? zap_update(spa->mos, zap, name, 1, strlen(text) + 1, text, tx)
			    : zap_remove(spa->mos, zap, name, tx);
		err = err == -ENOENT ? 0 : err;
	} else {
		number = nvpair_int(p, 0);
		digits = xasprintf("%" PRIu64, number);
		text = digits;
		err = zap_update_u64(spa->mos, zap, name, number, tx);
	}
	set_note(spa, name, text, tx);
	return err;
}

static int stored_sync(struct spa *spa, const struct nvlist *stored, struct tx *tx)
{
	uint64_t zap = 0;
	int err;

	if (nvlist_len(stored) == 0)
		return 0;
	err = spa_mos_u64(spa->mos, "pool_props", &zap);
	if (err == -ENOENT)
		err = zap_create_in(spa->mos, DMU_OT_POOL_PROPS, MOS_DIRECTORY, "pool_props", tx, &zap);
	for (const struct nvpair *p = nvlist_first(stored); p && !err; p = nvlist_next(stored, p))
		err = stored_put(spa, zap, p, tx);
	return err;
}

static void config_sync(struct spa *spa, const struct nvlist *words, struct tx *tx)
{
	for (const struct nvpair *p = nvlist_first(words); p; p = nvlist_next(words, p)) {
		pthread_mutex_lock(&spa_priv(spa)->state_lock);
		if (*nvpair_string(p, 0))
			nvlist_add_pair(spa->config, p);
		else
			nvlist_remove(spa->config, nvpair_name(p));
		pthread_mutex_unlock(&spa_priv(spa)->state_lock);
		set_note(spa, nvpair_name(p), nvpair_string(p, 0), tx);
		spa_config_dirty(spa);
	}
}

static void features_sync(struct spa *spa, const struct nvlist *names, struct tx *tx)
{
	for (const struct nvpair *p = nvlist_first(names); p; p = nvlist_next(names, p)) {
		autofree char *prop = xasprintf("feature@%s", nvpair_name(p));

		spa_feature_enable(spa, spa_feature_by_name(nvpair_name(p)), tx);
		set_note(spa, prop, "enabled", tx);
	}
}

void spa_pool_props_sync(struct spa *spa, const struct spa_pool_props *p, struct tx *tx)
{
	int err = stored_sync(spa, p->stored, tx);

	if (err)
		spa_sync_failed(spa, "storing properties: %s", err_words(err));
	config_sync(spa, p->config, tx);
	features_sync(spa, p->enable, tx);
	spa_pool_props_apply(spa);
}

/* --- effects --- */
static uint64_t stored_get(struct spa *spa, uint64_t zap, const char *name, uint64_t fallback)
{
	uint64_t v;

	return zap && zap_lookup_u64(spa->mos, zap, name, &v) == 0 ? v : fallback;
}

void spa_pool_props_apply(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);
	uint64_t zap = 0;

	spa_mos_u64(spa->mos, "pool_props", &zap);
	atomic_store(&w->failmode, (unsigned)stored_get(spa, zap, "failmode", FAILMODE_WAIT));
	atomic_store(&w->autoexpand, stored_get(spa, zap, "autoexpand", 0) != 0);
	atomic_store(&w->multihost, stored_get(spa, zap, "multihost", 0) != 0);
	atomic_store(&w->autotrim, stored_get(spa, zap, "autotrim", 0) != 0);
	if (w->alloc)
		alloc_autotrim(w->alloc, atomic_load(&w->autotrim));
}

/* --- the call --- */
static int set_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	const struct spa_pool_props *p = arg;

	if (nvlist_len(p->enable) && spa->version < SPA_VERSION)
		return err_set(e, -ENOTSUP, "the pool has version %" PRIu64 ": features need version 5000",
			       spa->version);
	return 0;
}

static void set_sync(struct spa *spa, void *arg, struct tx *tx)
{
	spa_pool_props_sync(spa, arg, tx);
}

int spa_props_set(struct spa *spa, const struct nvlist *values, struct err *e)
{
	struct spa_pool_props p;
	struct spa_task task = {
	    .spa = spa, .check = set_check, .sync = set_sync, .arg = &p, .blocks = 6, .policy = DSL_SPACE_RESERVED};
	int err = spa_writable_check(spa, e);

	if (!err)
		err = spa_pool_props_parse(spa, values, SPA_PROPS_SET, &p, e);
	if (err)
		return err;
	if (p.version > spa->version || (nvlist_len(p.enable) && spa->version < SPA_VERSION))
		err = spa_version_raise(spa, p.version ? p.version : SPA_VERSION, e);
	if (!err && (nvlist_len(p.stored) || nvlist_len(p.config) || nvlist_len(p.enable)))
		err = spa_task_run(&task, e);
	if (!err)
		spa_mmp_update(spa, true);
	if (!err && p.cachefile)
		spa_cachefile_set(spa, p.cachefile);
	spa_pool_props_free(&p);
	return err;
}
