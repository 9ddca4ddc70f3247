/*
 * Counts of features, and enabling them (docs/format/01-pool.md, 6.2). What the MOS holds is mirrored in the two lists
 * of spa_priv, so that looking never waits.
 */
#include "spa/spa_write.h"

#define FEATURE_ENABLED_TXG "com.delphix:enabled_txg"
#define SLIM_LOG_VERSION    23 /* from which on log blocks have the newer form */

bool spa_feature_is_enabled(const struct spa *spa, const char *guid)
{
	uint64_t count;

	return spa_feature_lookup(spa, guid, &count) == 0;
}

uint64_t spa_feature_refs(const struct spa *spa, const char *guid)
{
	uint64_t count;

	return spa_feature_lookup(spa, guid, &count) ? 0 : count;
}

const struct spa_feature *spa_feature_by_name(const char *name)
{
	for (size_t i = 0; i < spa_feature_table_len; i++)
		if (strcmp(spa_feature_table[i].name, name) == 0)
			return &spa_feature_table[i];
	return NULL;
}

static uint64_t directory_object(struct spa *spa, const char *key)
{
	uint64_t object = 0;

	return spa_mos_u64(spa->mos, key, &object) ? 0 : object;
}

void spa_features_apply(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);
	struct alloc_features f = {
	    .histogram = spa_feature_is_enabled(spa, "com.delphix:spacemap_histogram"),
	    .spacemap_v2 = spa_feature_is_active(spa, "com.delphix:spacemap_v2"),
	    .obsolete_counts = spa_feature_is_enabled(spa, "com.delphix:obsolete_counts"),
	    .log_spacemap = spa_feature_is_enabled(spa, "com.delphix:log_spacemap"),
	};

	spa->zp.old_log = spa->version < SLIM_LOG_VERSION;
	spa->zp.hole_birth = spa_feature_is_active(spa, "com.delphix:hole_birth");
	spa->zp.dynamic_gang = spa_feature_is_active(spa, "com.klarasystems:dynamic_gang_header");
	spa->dp.lz4_compress = spa_feature_is_active(spa, "org.illumos:lz4_compress");
	spa->dp.embedded_data = spa_feature_is_active(spa, "com.delphix:embedded_data");
	spa->dp.userobj_accounting = spa_feature_is_enabled(spa, "org.zfsonlinux:userobj_accounting");
	spa->dp.project_quota = spa_feature_is_enabled(spa, "org.zfsonlinux:project_quota");
	spa_mos_props_set(spa);
	if (w->alloc)
		alloc_set_features(w->alloc, &f);
}

/* Readers look at p->features without a lock: it is never changed, only replaced, and what was replaced stays until
 * the pool is closed. Features become active or inactive a few times in a pool's life. */
static void active_replace(struct spa *spa)
{
	struct spa_priv *pr = spa_priv(spa);
	struct spa_writer *w = pr->writer;
	struct strmap *now = strmap_create(), *old;

	pthread_mutex_lock(&pr->state_lock);
	for (unsigned i = 0; i < 2; i++) {
		const struct nvlist *l = i ? pr->write_features : pr->read_features;

		for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p))
			if (nvpair_int(p, 0))
				strmap_set(now, nvpair_name(p), (void *)1);
	}
	old = pr->active;
	pr->active = now;
	pthread_mutex_unlock(&pr->state_lock);
	if (spa->dsl)
		__atomic_store_n(&spa->dsl->features, now, __ATOMIC_RELEASE);
	w->retired = xrealloc(w->retired, (w->nretired + 1) * sizeof(*w->retired));
	w->retired[w->nretired++] = old;
	spa_features_apply(spa);
}

static void count_store(struct spa *spa, const struct spa_feature *f, uint64_t count, struct tx *tx)
{
	struct spa_priv *pr = spa_priv(spa);
	const char *key = f->readonly_compat ? "features_for_write" : "features_for_read";
	int err = zap_update_u64(spa->mos, directory_object(spa, key), f->guid, count, tx);

	if (err)
		spa_sync_failed(spa, "storing the feature %s: %s", f->name, err_words(err));
	SCOPED_LOCK(&pr->state_lock);
	nvlist_add_u64(f->readonly_compat ? pr->write_features : pr->read_features, f->guid, count);
}

void spa_feature_count(struct spa *spa, const char *guid, int64_t delta, struct tx *tx)
{
	const struct spa_feature *f = spa_feature_find(guid);
	uint64_t count;

	BUG_ON(!f || !tx->syncing);
	if (spa_feature_lookup(spa, guid, &count)) /* in pools that have no features there is nothing to count */
		return;
	BUG_ON(delta < 0 && count < (uint64_t)-delta);
	count_store(spa, f, count + (uint64_t)delta, tx);
	if ((count == 0) == (count + (uint64_t)delta == 0))
		return;
	active_replace(spa);
	if (f->mos) /* it is told in the labels */
		spa_config_dirty(spa);
}

/* --- enabling --- */
static void enabled_txg_note(struct spa *spa, const struct spa_feature *f, struct tx *tx)
{
	uint64_t object = directory_object(spa, "feature_enabled_txg");
	int err = 0;

	if (!spa_feature_is_enabled(spa, FEATURE_ENABLED_TXG))
		return;
	if (object == 0)
		err = zap_create_in(spa->mos, DMU_OTN_ZAP_METADATA, MOS_DIRECTORY, "feature_enabled_txg", tx, &object);
	if (!err)
		err = zap_update_u64(spa->mos, object, f->guid, tx->txg, tx);
	if (err)
		spa_sync_failed(spa, "noting when %s was enabled: %s", f->name, err_words(err));
	else
		spa_feature_count(spa, FEATURE_ENABLED_TXG, 1, tx);
}

static void depends_enable(struct spa *spa, const struct spa_feature *f, struct tx *tx)
{
	autofree char *names = xstrdup(f->depends);
	char *rest = names, *name;

	while ((name = strsep(&rest, " ")))
		if (*name)
			spa_feature_enable(spa, spa_feature_by_name(name), tx);
}

void spa_feature_enable(struct spa *spa, const struct spa_feature *f, struct tx *tx)
{
	int err;

	if (spa_feature_is_enabled(spa, f->guid))
		return;
	depends_enable(spa, f, tx);
	err = zap_update(spa->mos, directory_object(spa, "feature_descriptions"), f->guid, 1, strlen(f->desc) + 1,
			 f->desc, tx);
	if (err)
		spa_sync_failed(spa, "describing the feature %s: %s", f->name, err_words(err));
	count_store(spa, f, 0, tx);
	if (f->active_when_enabled)
		spa_feature_count(spa, f->guid, 1, tx);
	enabled_txg_note(spa, f, tx);
	spa_features_apply(spa);
	spa_config_dirty(spa); /* the root's ZAP, for vdev_zaps_v2, and what a label lists */
}
