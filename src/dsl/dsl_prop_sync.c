/*
 * dsl/dsl_prop_sync.c: how property values are stored (03-datasets.md 5.1, 5.3, 5.5). Syncing context.
 */
#include <stdio.h>

#include "dsl/dsl_prop_set.h"

#define VERSION_RECEIVED 22 /* received values, and quotas among the properties */
#define KEY_MAX          (256 + 16)
#define HAS_RECEIVED     "$hasrecvd"

/* --- where they are kept --- */

/* Kept elsewhere, if at all: by the objects of the data set, its keys. */
static const char *const not_stored[] = {
    "volsize",
    "volblocksize",
    "version",
    "utf8only",
    "normalization",
    "casesensitivity",
    "encryption",
    "keyformat",
    "pbkdf2iters",
    "pbkdf2salt",
    "defaultuserquota",
    "defaultgroupquota",
    "defaultprojectquota",
    "defaultuserobjquota",
    "defaultgroupobjquota",
    "defaultprojectobjquota",
};

bool prop_is_stored(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(not_stored); i++)
		if (strcmp(not_stored[i], name) == 0)
			return false;
	return true;
}

static uint64_t map_of(const struct dsl_dataset *ds)
{
	return ds->is_snapshot ? ds->props : ds->dir->props;
}

static uint64_t map_make(struct dsl_dataset *ds, struct tx *tx)
{
	struct dsl_pool *p = ds->pool;

	if (map_of(ds))
		return map_of(ds);
	if (ds->is_snapshot) {
		ds->props = dsl_mos_zap(p, DMU_OT_DSL_PROPS, tx);
		dsl_dataset_store(ds, tx);
	} else {
		ds->dir->props = dsl_mos_zap(p, DMU_OT_DSL_PROPS, tx);
		dsl_dir_store(ds->dir, tx);
	}
	return map_of(ds);
}

/* A snapshot without values has no map. */
static void map_drop_if_empty(struct dsl_dataset *ds, struct tx *tx)
{
	struct dsl_pool *p = ds->pool;
	uint64_t n;

	if (!ds->is_snapshot || !ds->props ||
	    dsl_sync_check(p, zap_count(p->mos, ds->props, &n), "properties cannot be counted") || n > 0)
		return;
	dsl_sync_check(p, dmu_object_free(p->mos, ds->props, tx), "properties cannot be removed");
	ds->props = 0;
	dsl_dataset_store(ds, tx);
}

static void key_remove(struct dsl_pool *p, uint64_t map, const char *name, const char *suffix, struct tx *tx)
{
	char key[KEY_MAX];
	int err;

	snprintf(key, sizeof(key), "%s%s", name, suffix);
	err = map ? zap_remove(p->mos, map, key, tx) : 0;
	if (err != -ENOENT)
		dsl_sync_check(p, err, "a property cannot be removed");
}

static void key_store(struct dsl_pool *p, uint64_t map, const char *name, const char *suffix,
		      const struct prop_set_value *v, struct tx *tx)
{
	char key[KEY_MAX];
	int err;

	snprintf(key, sizeof(key), "%s%s", name, suffix);
	if (v->string)
		err = zap_update(p->mos, map, key, 1, strlen(v->string) + 1, v->string, tx);
	else
		err = zap_update_u64(p->mos, map, key, v->number, tx);
	dsl_sync_check(p, err, "a property cannot be stored");
}

/* --- one value, 5.3 --- */

/* Values that were added to properties of released versions: what does not know them reads the default. */
static bool value_is_new(const char *name, uint64_t v)
{
	return (strcmp(name, "redundant_metadata") == 0 && v >= 2) || (strcmp(name, "snapdir") == 0 && v == 2);
}

static void local_store(struct dsl_pool *p, uint64_t map, const char *name, const struct prop_set_value *v,
			struct tx *tx)
{
	struct prop_set_value def = {.number = 0};

	key_remove(p, map, name, "$inherit", tx);
	if (!v->string && value_is_new(name, v->number)) {
		def.number = dsl_prop_find(name)->def_number;
		key_store(p, map, name, "$iuv", v, tx);
		key_store(p, map, name, "", &def, tx);
		return;
	}
	key_store(p, map, name, "", v, tx);
	key_remove(p, map, name, "$iuv", tx);
}

static bool has_received(const struct dsl_dataset *ds)
{
	uint64_t v;

	if (ds->is_snapshot && ds->props && zap_lookup_u64(ds->pool->mos, ds->props, HAS_RECEIVED, &v) == 0)
		return true;
	for (const struct dsl_dir *d = ds->dir; d; d = d->up)
		if (d->props && zap_lookup_u64(d->pool->mos, d->props, HAS_RECEIVED, &v) == 0)
			return true;
	return false;
}

static void inherit_store(struct dsl_dataset *ds, const char *name, struct tx *tx)
{
	struct dsl_pool *p = ds->pool;
	uint64_t map = map_of(ds);
	bool mark = p->version >= VERSION_RECEIVED && has_received(ds);

	key_remove(p, map, name, "", tx);
	key_remove(p, map, name, "$iuv", tx);
	if (mark && (map = map_make(ds, tx)) != 0)
		key_store(p, map, name, "$inherit", &(struct prop_set_value){0}, tx);
	else if (p->version < VERSION_RECEIVED)
		key_remove(p, map, name, "$recvd", tx);
}

void prop_store(struct dsl_dataset *ds, const char *name, enum prop_set_source source, const struct prop_set_value *v,
		struct tx *tx)
{
	struct dsl_pool *p = ds->pool;
	uint64_t map;

	if (source == PROP_SET_INHERIT) {
		inherit_store(ds, name, tx);
	} else if (source == PROP_SET_RECEIVED) {
		key_remove(p, map_of(ds), name, "", tx);
		key_remove(p, map_of(ds), name, "$inherit", tx);
	} else if ((map = map_make(ds, tx)) != 0) {
		local_store(p, map, name, v, tx);
	}
	map_drop_if_empty(ds, tx);
	if (!ds->is_snapshot)
		dsl_dir_props_changed(ds->dir);
}

/* --- values that also count elsewhere --- */

static void quota_apply(struct dsl_dataset *ds, uint64_t v, struct tx *tx)
{
	dsl_quota_sync(ds->dir, v, tx);
}

static void reservation_apply(struct dsl_dataset *ds, uint64_t v, struct tx *tx)
{
	dsl_reservation_sync(ds->dir, v, tx);
}

static void limit_apply(struct dsl_dataset *ds, uint64_t v, struct tx *tx)
{
	if (v != UINT64_MAX)
		dsl_limits_start(ds->dir, tx);
}

static int quota_check(struct dsl_dataset *ds, uint64_t v, struct tx *tx, struct err *e)
{
	return dsl_quota_check(ds->dir, v, tx, e);
}

static int reservation_check(struct dsl_dataset *ds, uint64_t v, struct tx *tx, struct err *e)
{
	return dsl_reservation_check(ds->dir, v, tx, e);
}

static const struct prop_special specials[] = {
    {"quota", true, quota_check, quota_apply},
    {"reservation", true, reservation_check, reservation_apply},
    {"refquota", false, dsl_refquota_check, dsl_refquota_sync},
    {"refreservation", false, dsl_refreservation_check, dsl_refreservation_sync},
    {"filesystem_limit", false, NULL, limit_apply},
    {"snapshot_limit", false, NULL, limit_apply},
};

const struct prop_special *prop_special_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(specials); i++)
		if (strcmp(specials[i].name, name) == 0)
			return &specials[i];
	return NULL;
}

/* The value that counts now. */
static uint64_t value_effective(struct dsl_dataset *ds, const char *name)
{
	const struct prop_def *def = dsl_prop_find(name);
	struct prop_found f;

	return dsl_prop_find_value(ds, NULL, name, def, &f) ? def->def_number : f.number;
}

void prop_special_store(struct dsl_dataset *ds, const struct prop_special *s, enum prop_set_source source,
			const struct prop_set_value *v, struct tx *tx)
{
	bool stored = !s->in_dir || ds->pool->version >= VERSION_RECEIVED;

	dsl_dataset_refreservation(ds); /* the old value is known from here on */
	if (stored)
		prop_store(ds, s->name, source, v, tx);
	s->apply(ds, stored ? value_effective(ds, s->name) : v->number, tx);
}

/* --- a new data set's --- */

int dsl_props_room_check(struct dsl_dir *up, const struct nvlist *stored, struct err *e)
{
	uint64_t reserved = nvlist_u64_or(stored, "reservation", 0), quota = nvlist_u64_or(stored, "quota", 0);
	uint64_t ref = nvlist_u64_or(stored, "refreservation", 0), refquota = nvlist_u64_or(stored, "refquota", 0);
	uint64_t need = MAX(reserved, ref);

	if (need == 0)
		return 0;
	if (need > dsl_dir_available(up, NULL, 0) || (quota && need > quota) || (refquota && ref > refquota))
		return err_set(e, -ENOSPC, "out of space");
	return 0;
}

static struct prop_set_value value_of(const struct nvpair *pair)
{
	if (nvpair_type(pair) == NV_STRING)
		return (struct prop_set_value){.string = nvpair_string(pair, 0)};
	return (struct prop_set_value){.number = nvpair_int(pair, 0)};
}

/* `off` is told only where something else would be inherited. */
static bool is_plain_child_of_encrypted(const struct dsl_dataset *ds, const char *name)
{
	return strcmp(name, "encryption") == 0 && !ds->is_snapshot && !ds->dir->crypto_obj && ds->dir->up &&
	       ds->dir->up->crypto_obj;
}

/* 5.5: the choice of these algorithms counts already, not only the first block that is compressed so. */
static void value_activate(struct dsl_dataset *ds, const char *name, const struct prop_set_value *v, struct tx *tx)
{
	unsigned algorithm = v->number & 0x7f;

	if (strcmp(name, "compression") != 0 || v->string || ds->is_snapshot)
		return;
	if (algorithm == COMPRESS_ZSTD)
		dsl_dataset_feature_set(ds, "org.freebsd:zstd_compress", tx);
	else if (algorithm == COMPRESS_LZ4 && dsl_feature_refs(ds->pool, "org.illumos:lz4_compress") == 0)
		dsl_feature_count(ds->pool, "org.illumos:lz4_compress", 1, tx);
}

void dsl_props_set_sync(struct dsl_dataset *ds, const struct nvlist *stored, struct tx *tx)
{
	for (const struct nvpair *pair = nvlist_first(stored); pair; pair = nvlist_next(stored, pair)) {
		const char *name = nvpair_name(pair);
		const struct prop_special *s = prop_special_find(name);
		struct prop_set_value v = value_of(pair);

		if (s && !ds->is_snapshot)
			prop_special_store(ds, s, PROP_SET_LOCAL, &v, tx);
		else if (prop_is_stored(name) || is_plain_child_of_encrypted(ds, name))
			prop_store(ds, name, PROP_SET_LOCAL, &v, tx);
		value_activate(ds, name, &v, tx);
		if (v.string)
			dsl_history(ds->pool, "set", ds, tx, "%s=%s", name, v.string);
		else
			dsl_history(ds->pool, "set", ds, tx, "%s=%llu", name, (unsigned long long)v.number);
	}
}
