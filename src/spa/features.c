/*
 * The features a pool uses (docs/format/01-pool.md, 6.2 and 6.4).
 */
#include "spa/spa_impl.h"

/* Reads one feature ZAP into guid -> reference count. */
static int refcounts_read(struct objset *mos, const char *key, struct nvlist **out, struct err *e)
{
	autofree struct zap_entry *entry = xmalloc(sizeof(*entry));
	struct zap_cursor *c;
	uint64_t object;
	int err = spa_mos_u64(mos, key, &object);

	*out = nvlist_create();
	if (err)
		return err_set(e, err, "%s is missing in the pool directory: %s", key, err_words(err));
	err = zap_cursor_open(mos, object, 0, &c);
	if (err)
		return err_set(e, err, "%s: %s", key, err_words(err));
	while ((err = zap_cursor_next(c, entry)) == 0)
		if (entry->key_words == 0 && entry->intsize == 8)
			nvlist_add_u64(*out, entry->name, entry->first);
	zap_cursor_close(c);
	return err == -ENOENT ? 0 : err_set(e, err, "%s: %s", key, err_words(err));
}

static char *description_of(struct objset *mos, const char *guid)
{
	char text[ZAP_NAME_MAX] = "";
	uint64_t object;

	if (spa_mos_u64(mos, "feature_descriptions", &object) == 0)
		zap_lookup(mos, object, guid, 1, sizeof(text) - 1, text);
	return text[0] ? xasprintf("%s (%s)", guid, text) : xstrdup(guid);
}

/* Unknown active ones: stop the import, or are only told. */
static int unknown_check(struct spa *spa, const struct nvlist *counts, bool fatal, struct err *e)
{
	struct str names = {0};
	int err = 0;

	for (const struct nvpair *p = nvlist_first(counts); p; p = nvlist_next(counts, p)) {
		autofree char *words = NULL;

		if (nvpair_int(p, 0) == 0 || spa_feature_find(nvpair_name(p)))
			continue;
		words = description_of(spa->mos, nvpair_name(p));
		if (fatal)
			str_addf(&names, "%s%s", names.len ? ", " : "", words);
		else
			spa_note(spa, "the pool uses the unknown feature %s, which allows reading only", words);
	}
	if (names.len)
		err = err_set(e, -ENOTSUP, "the pool uses features that are not supported: %s", names.s);
	str_free(&names);
	return err;
}

static void active_add(struct spa *spa, const struct nvlist *counts)
{
	for (const struct nvpair *p = nvlist_first(counts); p; p = nvlist_next(counts, p))
		if (nvpair_int(p, 0))
			strmap_set(spa_priv(spa)->active, nvpair_name(p), (void *)1);
}

int spa_features_load(struct spa *spa, struct err *e)
{
	struct spa_priv *pr = spa_priv(spa);
	int err;

	pr->active = strmap_create();
	if (spa->version < SPA_VERSION) {
		pr->read_features = nvlist_create();
		pr->write_features = nvlist_create();
		return 0;
	}
	err = refcounts_read(spa->mos, "features_for_read", &pr->read_features, e);
	if (err)
		return err;
	err = refcounts_read(spa->mos, "features_for_write", &pr->write_features, e);
	if (err)
		return err;
	err = unknown_check(spa, pr->read_features, true, e);
	if (err)
		return err;
	unknown_check(spa, pr->write_features, false, e);
	active_add(spa, pr->read_features);
	active_add(spa, pr->write_features);
	return 0;
}

int spa_feature_lookup(const struct spa *spa, const char *guid, uint64_t *count)
{
	struct spa_priv *pr = spa_priv(spa);
	int err = -ENOENT;
	SCOPED_LOCK(&pr->state_lock);

	*count = 0;
	if (pr->read_features)
		err = nvlist_u64(pr->read_features, guid, count);
	if (err && pr->write_features)
		err = nvlist_u64(pr->write_features, guid, count);
	return err;
}

bool spa_feature_is_active(const struct spa *spa, const char *guid)
{
	uint64_t count;

	return spa_feature_lookup(spa, guid, &count) == 0 && count > 0;
}
