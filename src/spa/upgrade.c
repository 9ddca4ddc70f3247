/*
 * Newer versions and features (docs/format/01-pool.md, 6.1 and 6.5), and a new guid.
 */
#include "base/os.h"
#include "spa/pool_props.h"
#include "spa/spa_write.h"

#define VERSION_OLDEST 26 /* from which on nothing has to be made for data sets that are there */

/* --- the version --- */
static int raise_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	uint64_t to = *(const uint64_t *)arg;

	if (to < spa->version)
		return err_set(e, -EINVAL, "the pool has version %" PRIu64 " already", spa->version);
	if (spa->version < VERSION_OLDEST && to >= 11)
		return err_set(e, -ENOTSUP,
			       "a pool of version %" PRIu64 " is only upgraded by software that made such pools",
			       spa->version);
	return 0;
}

static void feature_zaps_make(struct spa *spa, struct tx *tx)
{
	static const char *const zaps[] = {"features_for_read", "features_for_write", "feature_descriptions"};
	uint64_t object;
	int err = 0;

	for (size_t i = 0; i < ARRAY_LEN(zaps) && !err; i++)
		err = zap_create_in(spa->mos, DMU_OTN_ZAP_METADATA, MOS_DIRECTORY, zaps[i], tx, &object);
	if (err)
		spa_sync_failed(spa, "making the features' objects: %s", err_words(err));
}

static void raise_sync(struct spa *spa, void *arg, struct tx *tx)
{
	uint64_t from = spa->version, to = *(const uint64_t *)arg;
	autofree char *text = xasprintf("version=%" PRIu64, to);

	if (from == to)
		return;
	if (from < SPA_VERSION && to == SPA_VERSION)
		feature_zaps_make(spa, tx);
	spa->version = spa->dsl->version = to;
	spa_features_apply(spa);
	spa_history_internal(spa, "set", NULL, tx, text);
	spa_config_dirty(spa);
}

int spa_version_raise(struct spa *spa, uint64_t version, struct err *e)
{
	struct spa_task task = {.spa = spa,
				.check = raise_check,
				.sync = raise_sync,
				.arg = &version,
				.blocks = 6,
				.policy = DSL_SPACE_RESERVED};

	return spa_task_run(&task, e);
}

/* --- features --- */
static int features_wanted(struct spa *spa, struct nvlist *names, struct err *e)
{
	struct spa_compatibility compat;
	int err = spa_compatibility_of(spa, &compat, e);

	if (err)
		return err;
	for (size_t i = 0; i < spa_feature_table_len; i++) {
		const struct spa_feature *f = &spa_feature_table[i];

		if (!f->not_by_upgrade && spa_compatibility_allows(&compat, f) && !spa_feature_is_enabled(spa, f->guid))
			nvlist_add_string(names, f->name, "enabled");
	}
	spa_compatibility_free(&compat);
	return 0;
}

static int features_upgrade(struct spa *spa, struct nvlist *done, struct err *e)
{
	autonv struct nvlist *names = nvlist_create(), *values = nvlist_create();
	const char **list;
	size_t n = 0;
	int err = features_wanted(spa, names, e);

	list = xcalloc(nvlist_len(names) + 1, sizeof(*list));
	for (const struct nvpair *p = nvlist_first(names); p; p = nvlist_next(names, p)) {
		autofree char *prop = xasprintf("feature@%s", nvpair_name(p));

		nvlist_add_string(values, prop, "enabled");
		list[n++] = nvpair_name(p);
	}
	if (!err && n)
		err = spa_props_set(spa, values, e);
	if (!err && n)
		nvlist_add_strings(done, "features", list, n);
	free(list);
	return err;
}

int spa_upgrade(struct spa *spa, uint64_t version, struct nvlist **done, struct err *e)
{
	uint64_t from = spa->version, to = version ? version : SPA_VERSION;
	struct nvlist *l = nvlist_create();
	int err = from < to ? spa_version_raise(spa, to, e) : spa_writable_check(spa, e);

	if (!err && from < to) {
		nvlist_add_u64(l, "from", from);
		nvlist_add_u64(l, "to", to);
	}
	if (!err && to == SPA_VERSION)
		err = features_upgrade(spa, l, e);
	if (err)
		nvlist_destroy(l);
	else
		*done = l;
	return err;
}

/* --- the guid --- */
static int reguid_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	struct str missing = {0};
	int err = 0;

	spa_missing_list(spa->root, &missing);
	if (missing.len)
		err = err_set(e, -ENXIO, "a device is missing: %s", missing.s);
	str_free(&missing);
	return err;
}

/* The cache goes on by the guid that the pool was opened with. */
static void reguid_sync(struct spa *spa, void *arg, struct tx *tx)
{
	uint64_t from = spa->guid, to = *(const uint64_t *)arg;
	autofree char *text = xasprintf("old=%" PRIu64 " new=%" PRIu64, from, to);

	spa->guid = spa->root->guid = to;
	spa_reregister(from, to);
	spa_history_internal(spa, "guid change", NULL, tx, text);
	spa_config_dirty(spa);
}

int spa_reguid(struct spa *spa, uint64_t guid, struct err *e)
{
	uint64_t to = guid ? guid : os_random64();
	struct spa_task task = {
	    .spa = spa, .check = reguid_check, .sync = reguid_sync, .arg = &to, .policy = DSL_SPACE_RESERVED};
	int err;

	if (spa_is_imported(to) || vdev_by_guid(spa->root, to))
		return err_set(e, -EEXIST, "the guid %" PRIu64 " is in use", to);
	err = spa_task_run(&task, e);
	if (!err)
		spa_cachefile_update(spa);
	return err;
}
