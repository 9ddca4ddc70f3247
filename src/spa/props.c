/*
 * Properties of the pool (docs/format/01-pool.md section 7; 09-cli.md 9.6), in their exact form.
 */
#include "base/bytes.h"
#include "dsl/ddt.h"
#include "dsl/dsl_scan.h"
#include "spa/spa_impl.h"

struct nvlist *spa_prop_add(struct nvlist *out, const char *name, const char *value, const char *source)
{
	struct nvlist *p = nvlist_create();

	nvlist_add_string(p, "value", value);
	nvlist_add_string(p, "source", source);
	nvlist_take_list(out, name, p);
	return p;
}

void spa_prop_add_number(struct nvlist *out, const char *name, uint64_t v, const char *source)
{
	autofree char *value = xasprintf("%" PRIu64, v);

	nvlist_add_u64(spa_prop_add(out, name, value, source), "number", v);
}

void spa_prop_add_dash(struct nvlist *out, const char *name, uint64_t v, uint64_t nothing, const char *source)
{
	if (v == nothing)
		nvlist_add_u64(spa_prop_add(out, name, "-", source), "number", v);
	else
		spa_prop_add_number(out, name, v, source);
}

static void prop_add_ratio(struct nvlist *out, const char *name, uint64_t percent)
{
	autofree char *value = xasprintf("%" PRIu64 ".%02" PRIu64, percent / 100, percent % 100);

	nvlist_add_u64(spa_prop_add(out, name, value, "-"), "number", percent);
}

/* --- stored ones --- */
enum stored_kind { STORED_NUMBER, STORED_ONOFF, STORED_FAILMODE, STORED_BOOTFS, STORED_QUOTA };

static void bootfs_add(struct spa *spa, struct nvlist *out, uint64_t object)
{
	struct dsl_dataset *ds;

	if (object == 0) {
		spa_prop_add(out, "bootfs", "-", "default");
		return;
	}
	if (dsl_dataset_hold_obj(spa->dsl, object, &ds, NULL)) {
		autofree char *text = xasprintf("<%#" PRIx64 ">", object);

		spa_prop_add(out, "bootfs", text, "local");
		return;
	}
	spa_prop_add(out, "bootfs", ds->name, "local");
	dsl_dataset_release(ds);
}

static void stored_add(struct spa *spa, uint64_t zap, struct nvlist *out, const char *name, enum stored_kind kind,
		       uint64_t fallback)
{
	static const char *const failmodes[] = {"wait", "continue", "panic"};
	uint64_t v = fallback;
	bool stored = zap && zap_lookup_u64(spa->mos, zap, name, &v) == 0 && v != fallback;
	const char *source = stored ? "local" : "default";

	if (kind == STORED_BOOTFS)
		bootfs_add(spa, out, v);
	else if (kind == STORED_ONOFF)
		nvlist_add_u64(spa_prop_add(out, name, v ? "on" : "off", source), "number", v);
	else if (kind == STORED_FAILMODE)
		nvlist_add_u64(spa_prop_add(out, name, v < 3 ? failmodes[v] : "unknown", source), "number", v);
	else if (kind == STORED_QUOTA && (v == UINT64_MAX || v == 0))
		nvlist_add_u64(spa_prop_add(out, name, v ? "auto" : "none", source), "number", v);
	else
		spa_prop_add_number(out, name, v, source);
}

static void config_string_add(const struct spa *spa, struct nvlist *out, const char *name, const char *fallback)
{
	const char *v;
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	if (nvlist_string(spa->config, name, &v) == 0 && v[0])
		spa_prop_add(out, name, v, "local");
	else
		spa_prop_add(out, name, fallback, "default");
}

/* Read-only pools are in no cache file; shown is what was asked for. */
static void cachefile_add(const struct spa *spa, struct nvlist *out)
{
	const char *v;
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	v = nvlist_string_or(spa->load_info, "cachefile", "");
	spa_prop_add(out, "cachefile", v[0] ? v : "-", v[0] ? "local" : "default");
}

void spa_user_props_add(struct spa *spa, uint64_t zap, struct nvlist *out)
{
	autofree struct zap_entry *e = xmalloc(sizeof(*e));
	struct zap_cursor *c;
	char value[8193];

	if (!zap || zap_cursor_open(spa->mos, zap, 0, &c))
		return;
	while (zap_cursor_next(c, e) == 0) {
		if (e->key_words || !strchr(e->name, ':') || e->intsize != 1 || e->nints >= sizeof(value))
			continue;
		memset(value, 0, sizeof(value));
		if (zap_cursor_value(c, value, e->nints) == 0)
			spa_prop_add(out, e->name, value, "local");
	}
	zap_cursor_close(c);
}

/* --- space --- */
struct space_sum {
	uint64_t size, allocated, usable, used, checkpoint, expand, frag_weighted, frag_size;
	uint64_t embedded, embedded_usable; /* logs within the class: in size, not in usable */
};

static void space_sum_add(struct space_sum *sum, const struct spa_top_space *s)
{
	sum->size += s->size;
	sum->allocated += s->allocated;
	sum->checkpoint += s->checkpoint;
	sum->expand += s->expand;
	sum->usable += s->usable;
	sum->used += s->used;
	sum->embedded += s->embedded_log;
	sum->embedded_usable += s->embedded_usable;
	if (s->known && s->fragmentation != UINT64_MAX) {
		sum->frag_weighted += s->fragmentation * (s->size >> 9);
		sum->frag_size += s->size >> 9;
	}
}

uint64_t spa_percent(uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((__uint128_t)part * 100 / whole) : 0;
}

/* The pool's own sums leave logs out; its fragmentation is the normal class's. */
static struct space_sum pool_space(struct spa *spa, struct space_sum classes[SPA_CLASSES])
{
	autofree struct spa_top_space *space = spa_space(spa);
	struct space_sum total = {0};

	memset(classes, 0, SPA_CLASSES * sizeof(*classes));
	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		space_sum_add(&classes[space[i].class], &space[i]);
		if (space[i].class != SPA_CLASS_LOG)
			space_sum_add(&total, &space[i]);
	}
	total.frag_weighted = classes[SPA_CLASS_NORMAL].frag_weighted;
	total.frag_size = classes[SPA_CLASS_NORMAL].frag_size;
	return total;
}

static uint64_t frag_of(const struct space_sum *s)
{
	return s->frag_size ? s->frag_weighted / s->frag_size : UINT64_MAX;
}

static uint64_t dir_used(struct spa *spa, uint64_t object)
{
	uint64_t used = 0;
	struct dsl_dir *d;

	if (object && dsl_dir_hold(spa->dsl, object, &d, NULL) == 0) {
		used = d->used;
		dsl_dir_release(d);
	}
	return used;
}

static void dedup_add(struct spa *spa, struct nvlist *out)
{
	struct nvlist *l;
	uint64_t ratio = 100;

	if (ddt_stats_get(spa->dsl, &l) == 0) {
		ratio = nvlist_u64_or(l, "ratio", 100);
		nvlist_destroy(l);
	}
	prop_add_ratio(out, "dedupratio", ratio);
}

static void clones_add(struct spa *spa, struct nvlist *out)
{
	uint64_t used, saved, object = 0;
	struct nvlist *l;

	spa_clone_stats(spa, &used, &saved);
	spa_prop_add_number(out, "bcloneused", used, "-");
	spa_prop_add_number(out, "bclonesaved", saved, "-");
	prop_add_ratio(out, "bcloneratio", used ? (uint64_t)(((__uint128_t)used + saved) * 100 / used) : 100);
	if (ddt_stats_get(spa->dsl, &l) == 0) {
		spa_prop_add_number(out, "dedup_table_size", nvlist_u64_or(l, "size_on_disk", 0), "-");
		nvlist_destroy(l);
	}
	spa_mos_u64(spa->mos, "pool_props", &object);
	stored_add(spa, object, out, "dedup_table_quota", STORED_QUOTA, UINT64_MAX);
	spa_prop_add_number(out, "last_scrubbed_txg", dsl_last_scrubbed_txg(spa->dsl), "-");
}

static void usage_add(struct spa *spa, struct nvlist *out)
{
	uint64_t dedup_used = 0, saved = spa_dedup_saved(spa, NULL, &dedup_used), usable = spa->dsl->usable_bytes,
		 used = 0;
	struct dsl_dir *root;

	if (dsl_dir_hold(spa->dsl, spa->dsl->root_dir, &root, NULL) == 0) {
		used = root->used;
		dsl_dir_release(root);
	}
	spa_prop_add_number(out, "dedupused", dedup_used, "-");
	spa_prop_add_number(out, "dedupsaved", saved, "-");
	spa_prop_add_number(out, "available", usable > used ? usable - used : 0, "-");
	spa_prop_add_number(out, "usable", usable, "-");
	spa_prop_add_number(out, "used", used, "-");
}

/* The embedded logs are a class of their own, taken out of the normal one; in them nothing is allocated, as far as a
 * pool tells that is only read: which metaslab of a device it is will be decided by who writes next. */
enum { CLASS_ELOG = SPA_CLASSES, CLASS_SPECIAL_ELOG, CLASSES_SHOWN };

static void class_add(struct nvlist *out, const char *class, const struct space_sum *s)
{
	const struct {
		const char *what;
		uint64_t value;
	} props[] = {{"size", s->size},
		     {"capacity", spa_percent(s->allocated, s->size)},
		     {"free", s->size - MIN(s->allocated, s->size)},
		     {"allocated", s->allocated},
		     {"available", s->usable - s->used},
		     {"usable", s->usable},
		     {"used", s->used}};

	for (size_t k = 0; k < ARRAY_LEN(props); k++) {
		autofree char *name = xasprintf("class_%s_%s", class, props[k].what);

		spa_prop_add_number(out, name, props[k].value, "-");
	}
	autofree char *expand = xasprintf("class_%s_expandsize", class),
		      *frag = xasprintf("class_%s_fragmentation", class);

	spa_prop_add_dash(out, expand, s->expand, 0, "-");
	spa_prop_add_dash(out, frag, frag_of(s), UINT64_MAX, "-");
}

static void classes_add(struct nvlist *out, const struct space_sum classes[SPA_CLASSES])
{
	static const char *const names[CLASSES_SHOWN] = {"normal", "special", "dedup", "log", "elog", "special_elog"};
	struct space_sum shown[CLASSES_SHOWN] = {{0}};

	memcpy(shown, classes, SPA_CLASSES * sizeof(*shown));
	shown[CLASS_ELOG].size = shown[SPA_CLASS_NORMAL].embedded;
	shown[CLASS_ELOG].usable = shown[SPA_CLASS_NORMAL].embedded_usable;
	shown[SPA_CLASS_NORMAL].size -= shown[SPA_CLASS_NORMAL].embedded;
	for (unsigned i = 0; i < CLASSES_SHOWN; i++)
		class_add(out, names[i], &shown[i]);
}

/* --- features --- */
static const char *feature_state(const struct spa *spa, const struct spa_feature *f)
{
	uint64_t count;

	if (spa_feature_lookup(spa, f->guid, &count))
		return "disabled";
	return count ? "active" : "enabled";
}

static void unsupported_add(const struct nvlist *counts, struct nvlist *out)
{
	for (const struct nvpair *p = nvlist_first(counts); p; p = nvlist_next(counts, p)) {
		autofree char *name = NULL;

		if (spa_feature_find(nvpair_name(p)))
			continue;
		name = xasprintf("unsupported@%s", nvpair_name(p));
		spa_prop_add(out, name, nvpair_int(p, 0) ? "readonly" : "inactive", "local");
	}
}

static void features_add(const struct spa *spa, struct nvlist *out)
{
	struct spa_priv *pr = spa_priv(spa);

	for (size_t i = 0; i < spa_feature_table_len; i++) {
		autofree char *name = xasprintf("feature@%s", spa_feature_table[i].name);

		spa_prop_add(out, name, feature_state(spa, &spa_feature_table[i]), "local");
	}
	pthread_mutex_lock(&pr->state_lock);
	unsupported_add(pr->read_features, out);
	unsupported_add(pr->write_features, out);
	pthread_mutex_unlock(&pr->state_lock);
}

static void props_add(struct spa *spa, struct nvlist *l)
{
	struct space_sum classes[SPA_CLASSES], total = pool_space(spa, classes);
	uint64_t zap = 0;

	spa_mos_u64(spa->mos, "pool_props", &zap);
	spa_prop_add_number(l, "size", total.size, "-");
	spa_prop_add_number(l, "capacity", spa_percent(total.allocated, total.size), "-");
	spa_prop_add(l, "altroot", spa->altroot ? spa->altroot : "-", spa->altroot ? "local" : "default");
	spa_prop_add(l, "health", spa_state(spa), "-");
	spa_prop_add_number(l, "guid", spa->guid, "-");
	spa_prop_add_dash(l, "version", spa->version, SPA_VERSION, spa->version == SPA_VERSION ? "default" : "local");
	stored_add(spa, zap, l, "bootfs", STORED_BOOTFS, 0);
	stored_add(spa, zap, l, "delegation", STORED_ONOFF, 1);
	stored_add(spa, zap, l, "autoreplace", STORED_ONOFF, 0);
	cachefile_add(spa, l);
	stored_add(spa, zap, l, "failmode", STORED_FAILMODE, 0);
	stored_add(spa, zap, l, "listsnapshots", STORED_ONOFF, 0);
	stored_add(spa, zap, l, "autoexpand", STORED_ONOFF, 0);
	dedup_add(spa, l);
	spa_prop_add_number(l, "free", total.size - total.allocated, "-");
	spa_prop_add_number(l, "allocated", total.allocated, "-");
	spa_prop_add(l, "readonly", spa_is_writable(spa) ? "off" : "on", spa_is_writable(spa) ? "default" : "-");
	stored_add(spa, zap, l, "ashift", STORED_NUMBER, 0);
	config_string_add(spa, l, "comment", "-");
	spa_prop_add_dash(l, "expandsize", total.expand, 0, "-");
	spa_prop_add_number(l, "freeing", dir_used(spa, spa->dsl->free_dir), "-");
	spa_prop_add_dash(l, "fragmentation", frag_of(&total), UINT64_MAX, "-");
	spa_prop_add_number(l, "leaked", dir_used(spa, spa->dsl->leak_dir), "-");
	stored_add(spa, zap, l, "multihost", STORED_ONOFF, 0);
	spa_prop_add_dash(l, "checkpoint", total.checkpoint, 0, "-");
	spa_prop_add_number(l, "load_guid", spa_priv(spa)->load_guid, "-");
	stored_add(spa, zap, l, "autotrim", STORED_ONOFF, 0);
	config_string_add(spa, l, "compatibility", "off");
	clones_add(spa, l);
	usage_add(spa, l);
	classes_add(l, classes);
	spa_user_props_add(spa, zap, l);
	features_add(spa, l);
}

int spa_props_get(struct spa *spa, struct nvlist **out)
{
	*out = nvlist_create();
	dsl_config_enter(spa->dsl);
	props_add(spa, *out);
	dsl_config_exit(spa->dsl);
	return 0;
}
