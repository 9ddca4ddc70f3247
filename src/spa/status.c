/*
 * Everything `zpool status` shows (docs/format/09-cli.md, 9.9).
 */
#include "base/bytes.h"
#include "dsl/ddt.h"
#include "dsl/dsl_scan.h"
#include "spa/pool_props.h"
#include "spa/spa_impl.h"

static const char *word_of(const char *const *words, size_t n, uint64_t i)
{
	return i < n ? words[i] : "UNKNOWN";
}
#define WORD_OF(words, i) word_of(words, ARRAY_LEN(words), i)

/* --- scans --- */
static void error_scrub_add(struct spa *spa, struct nvlist *out)
{
	static const char *const states[] = {"NONE", "SCANNING", "FINISHED", "CANCELED", "ERRORSCRUBBING"};
	struct dsl_error_scrub es;

	if (dsl_error_scrub_read(spa->dsl, &es) || es.func == DSL_SCAN_NONE)
		return;
	nvlist_add_string(out, "err_scrub_func", "ERRORSCRUB");
	nvlist_add_string(out, "err_scrub_state", WORD_OF(states, es.state));
	nvlist_add_u64(out, "err_scrub_start_time", es.start_time);
	nvlist_add_u64(out, "err_scrub_end_time", es.end_time);
	nvlist_add_u64(out, "err_scrub_examined", es.examined);
	nvlist_add_u64(out, "err_scrub_to_examine", es.to_examine);
	nvlist_add_u64(out, "err_scrub_pause", es.paused_flags);
}

static void scan_add(struct nvlist *out, const struct dsl_scan *s)
{
	static const char *const funcs[] = {"NONE", "SCRUB", "RESILVER", "ERRORSCRUB"};
	static const char *const states[] = {"NONE", "SCANNING", "FINISHED", "CANCELED", "ERRORSCRUBBING"};
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
	    {"start_time", s->start_time}, {"end_time", s->end_time},
	    {"to_examine", s->to_examine}, {"examined", s->examined},
	    {"skipped", s->skipped},       {"processed", s->processed},
	    {"errors", s->errors},         {"bytes_per_scan", 0},
	    {"pass_start", s->start_time}, {"scrub_pause", 0},
	    {"scrub_spent_paused", 0},     {"issued_bytes_per_scan", 0},
	    {"issued", s->examined},
	};

	nvlist_add_string(out, "function", WORD_OF(funcs, s->func));
	nvlist_add_string(out, "state", WORD_OF(states, s->state));
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		nvlist_add_u64(out, numbers[i].key, numbers[i].value);
	if (s->paused)
		nvlist_add_u64(out, "scrub_pause", s->start_time);
	nvlist_add_u64(out, "thorough", s->thorough);
}

struct conditions { /* what the reason is chosen by */
	bool resilvering, rebuilding, damaged;
	uint64_t rebuilt, scrubbed; /* when a rebuild ended last; when the scrub that last ended began */
};

/* 12 words of the top-level ZAP (01 5.4). */
static void rebuilds_add(struct spa *spa, struct nvlist *out, struct conditions *c)
{
	static const char *const states[] = {"NONE", "ACTIVE", "CANCELED", "COMPLETE"};
	static const char *const keys[] = {NULL,        NULL,      NULL,     NULL,      "start_time", "end_time",
					   "scan_time", "scanned", "issued", "rebuilt", "to_scan",    "errors"};
	struct nvlist *all = nvlist_create();

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];
		autofree char *name = vdev_name(top, 0);
		uint64_t w[12] = {0};
		struct nvlist *one;

		if (!top->zap_top || zap_lookup(spa->mos, top->zap_top, "org.openzfs:vdev_rebuild", 8, 12, w) ||
		    w[0] == 0)
			continue;
		one = nvlist_create();
		nvlist_add_string(one, "state", WORD_OF(states, w[0]));
		for (size_t k = 4; k < ARRAY_LEN(keys); k++)
			nvlist_add_u64(one, keys[k], w[k]);
		nvlist_take_list(all, name, one);
		c->rebuilding |= w[0] == 1;
		if (w[0] == 3)
			c->rebuilt = MAX(c->rebuilt, w[5]);
	}
	if (nvlist_len(all))
		nvlist_take_list(out, "rebuild_stats", all);
	else
		nvlist_destroy(all);
}

static void scans_add(struct spa *spa, struct nvlist *out, struct conditions *c)
{
	struct nvlist *stats = nvlist_create();
	struct dsl_scan s;

	if (dsl_scan_read(spa->dsl, &s) == 0 && s.func != DSL_SCAN_NONE) {
		scan_add(stats, &s);
		c->resilvering = s.func == DSL_SCAN_RESILVER && s.state == DSL_SCAN_STATE_SCANNING;
		if (s.func == DSL_SCAN_SCRUB && s.state == DSL_SCAN_STATE_FINISHED)
			c->scrubbed = s.start_time;
	}
	error_scrub_add(spa, stats);
	rebuilds_add(spa, stats, c);
	if (nvlist_len(stats))
		nvlist_take_list(out, "scan_stats", stats);
	else
		nvlist_destroy(stats);
}

/* --- removals, checkpoint, expansion --- */
static uint64_t mapping_memory(struct spa *spa)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];
		struct dnode *dn;

		if (top->kind != VDEV_INDIRECT ||
		    dnode_hold(spa->mos, nvlist_u64_or(top->config, "com.delphix:indirect_object", 0), &dn, NULL))
			continue;
		bytes += spa_bonus_word(dn, 2) * 24;
		dnode_release(dn);
	}
	return bytes;
}

static void removal_add(struct spa *spa, struct nvlist *out)
{
	static const char *const states[] = {"NONE", "ACTIVE", "FINISHED", "CANCELED"};
	struct nvlist *l;
	uint64_t w[7];

	if (zap_lookup(spa->mos, MOS_DIRECTORY, "com.delphix:removing", 8, 7, w) || w[0] == 0)
		return;
	l = nvlist_create();
	nvlist_add_string(l, "removal_state", WORD_OF(states, w[0]));
	nvlist_add_u64(l, "removing_vdev", w[1]);
	nvlist_add_u64(l, "start_time", w[3]);
	nvlist_add_u64(l, "end_time", w[4]);
	nvlist_add_u64(l, "to_copy", w[5]);
	nvlist_add_u64(l, "copied", w[6]);
	nvlist_add_u64(l, "mapping_memory", mapping_memory(spa));
	nvlist_take_list(out, "removal_stats", l);
}

static void checkpoint_add(struct spa *spa, struct nvlist *out)
{
	autofree struct spa_top_space *space = spa_space(spa);
	struct uberblock ub;
	struct nvlist *l;
	uint64_t bytes = 0;
	bool exists = spa_checkpoint_read(spa->mos, &ub) == 0;

	if (!exists && !spa_feature_is_active(spa, "com.delphix:zpool_checkpoint"))
		return;
	for (unsigned i = 0; i < spa->root->nchildren; i++)
		bytes += space[i].checkpoint;
	l = nvlist_create();
	nvlist_add_string(l, "state", exists ? "EXISTS" : "DISCARDING");
	if (exists)
		nvlist_add_u64(l, "start_time", ub.timestamp);
	nvlist_add_u64(l, "space", bytes);
	nvlist_take_list(out, "checkpoint_stats", l);
}

static void expansion_add(struct spa *spa, struct nvlist *out)
{
	static const char *const states[] = {"NONE", "SCANNING", "FINISHED", "CANCELED"};
	autofree struct spa_top_space *space = spa_space(spa);
	uint64_t latest = 0;

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];
		autofree char *name = vdev_name(top, 0);
		uint64_t state = 0, start = 0, end = 0, copied = 0;
		struct nvlist *l;

		if (top->kind != VDEV_RAIDZ || !top->zap_top ||
		    zap_lookup_u64(spa->mos, top->zap_top, "org.openzfs:raidz_expand_state", &state) || state == 0)
			continue;
		zap_lookup_u64(spa->mos, top->zap_top, "org.openzfs:raidz_expand_start_time", &start);
		zap_lookup_u64(spa->mos, top->zap_top, "org.openzfs:raidz_expand_end_time", &end);
		zap_lookup_u64(spa->mos, top->zap_top, "org.openzfs:raidz_expand_bytes_copied", &copied);
		if (start < latest)
			continue;
		latest = start;
		l = nvlist_create();
		nvlist_add_string(l, "name", name);
		nvlist_add_string(l, "state", WORD_OF(states, state));
		nvlist_add_u64(l, "expanding_vdev", top->id);
		nvlist_add_u64(l, "start_time", start);
		nvlist_add_u64(l, "end_time", end);
		nvlist_add_u64(l, "to_reflow", state == 1 ? space[i].allocated : copied);
		nvlist_add_u64(l, "reflowed", copied);
		nvlist_take_list(out, "raidz_expand_stats", l);
	}
}

/* --- initializing and trimming --- */
static void activity_add(struct spa *spa, const struct vdev *leaf, struct nvlist *row, bool trim)
{
	static const char *const states[] = {NULL, "started", "canceled", "suspended", "completed"};
	static const char *const zap_keys[2][3] = {
	    {"com.delphix:vdev_initialize_state", "com.delphix:next_offset_to_initialize",
	     "com.delphix:vdev_initialize_action_time"},
	    {"org.zfsonlinux:vdev_trim_state", "org.zfsonlinux:next_offset_to_trim",
	     "org.zfsonlinux:vdev_trim_action_time"}};
	static const char *const keys[2][4] = {{"init_state", "initialized", "to_initialize", "init_time"},
					       {"trim_state", "trimmed", "to_trim", "trim_time"}};
	const char *const *zk = zap_keys[trim], *const *k = keys[trim];
	uint64_t state = 0, next = 0, when = 0, all = leaf->psize;

	if (!leaf->zap_leaf || zap_lookup_u64(spa->mos, leaf->zap_leaf, zk[0], &state) || state == 0 ||
	    state >= ARRAY_LEN(states))
		return;
	zap_lookup_u64(spa->mos, leaf->zap_leaf, zk[1], &next);
	zap_lookup_u64(spa->mos, leaf->zap_leaf, zk[2], &when);
	nvlist_add_string(row, k[0], states[state]);
	nvlist_add_u64(row, k[1], state == 4 ? all : MIN(next, all)); /* as far as the offset tells */
	nvlist_add_u64(row, k[2], all);
	nvlist_add_u64(row, k[3], when);
}

static void activities_add(struct spa *spa, struct nvlist *rows)
{
	for (const struct nvpair *p = nvlist_first(rows); p; p = nvlist_next(rows, p)) {
		struct nvlist *row = nvpair_list(p, 0), *children;
		const struct vdev *vd = vdev_by_guid(spa->root, nvlist_u64_or(row, "guid", 0));

		if (nvlist_list(row, "vdevs", &children) == 0) {
			activities_add(spa, children);
		} else if (vd && vdev_is_leaf(vd)) {
			activity_add(spa, vd, row, false);
			activity_add(spa, vd, row, true);
		}
	}
}

static void activities_add_all(struct spa *spa, struct nvlist *status)
{
	static const char *const lists[] = {"vdevs", "dedup", "special", "logs"};
	struct nvlist *rows;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (nvlist_list(status, lists[i], &rows) == 0)
			activities_add(spa, rows);
}

/* --- spares and cache devices --- */
static bool spare_is_in_use(const struct vdev *vd, uint64_t guid)
{
	if (vd->guid == guid && vd->parent && vd->parent->kind == VDEV_SPARE)
		return true;
	for (unsigned i = 0; i < vd->nchildren; i++)
		if (spare_is_in_use(vd->child[i], guid))
			return true;
	return false;
}

static const char *device_path(const struct spa *spa, uint64_t guid)
{
	char key[32];

	snprintf(key, sizeof(key), "%" PRIx64, guid);
	return nvlist_string_or(spa_priv(spa)->devices, key, NULL);
}

static struct nvlist *aux_row(struct spa *spa, const struct nvlist *entry, const char *class)
{
	const char *recorded = nvlist_string_or(entry, "path", ""), *type = nvlist_string_or(entry, "type", "disk");
	uint64_t guid = nvlist_u64_or(entry, "guid", 0);
	const char *path = device_path(spa, guid), *name, *state;
	struct nvlist *row = nvlist_create();
	bool spare = strcmp(class, "spare") == 0;

	if (strcmp(type, "dspare") == 0)
		path = recorded;
	name = path ? path : recorded;
	if (strncmp(name, "/dev/", 5) == 0)
		name += 5;
	state = spare_is_in_use(spa->root, guid) ? "INUSE" : !path ? "UNAVAIL" : spare ? "AVAIL" : "ONLINE";
	nvlist_add_string(row, "name", name);
	nvlist_add_string(row, "vdev_type", type);
	nvlist_add_u64(row, "guid", guid);
	nvlist_add_string(row, "path", path ? path : recorded);
	nvlist_add_string(row, "class", class);
	nvlist_add_string(row, "state", state);
	if (!path) {
		nvlist_add_u64(row, "not_present", 1);
		nvlist_add_string(row, "aux", "cannot open");
	} else if (strcmp(state, "INUSE") == 0) {
		nvlist_add_string(row, "aux", "currently in use");
	}
	nvlist_add_u64(row, "read_errors", 0);
	nvlist_add_u64(row, "write_errors", 0);
	nvlist_add_u64(row, "checksum_errors", 0);
	return row;
}

static void aux_rows_add(struct spa *spa, struct nvlist *out, const struct nvlist *list, const char *key,
			 const char *class)
{
	struct nvlist *const *entry, *rows;
	size_t n;

	if (!list || nvlist_lists(list, key, &entry, &n) || n == 0)
		return;
	rows = nvlist_create();
	for (size_t i = 0; i < n; i++) {
		struct nvlist *row = aux_row(spa, entry[i], class);

		nvlist_take_list(rows, nvlist_string_or(row, "name", "?"), row);
	}
	nvlist_take_list(out, key, rows);
}

/* --- errors --- */
struct error_list {
	struct nvlist **error;
	size_t n, listed;
	bool verbose;
};

static int error_collect(void *arg, const struct zbookmark *zb)
{
	struct error_list *l = arg;
	struct nvlist *one;

	l->n++;
	if (!l->verbose || l->listed == SPA_ERRORS_MAX)
		return 0;
	one = nvlist_create();
	nvlist_add_u64(one, "objset", zb->objset);
	nvlist_add_u64(one, "object", zb->object);
	nvlist_add_i64(one, "level", zb->level);
	nvlist_add_u64(one, "blkid", zb->blkid);
	l->error = xrealloc(l->error, (l->listed + 1) * sizeof(*l->error));
	l->error[l->listed++] = one;
	return 0;
}

static void errors_add(struct spa *spa, struct nvlist *out, bool verbose, struct conditions *c)
{
	struct error_list l = {.verbose = verbose};

	spa_errors_each(spa, error_collect, &l);
	nvlist_add_u64(out, "error_count", l.n);
	if (verbose && l.listed)
		nvlist_add_lists(out, "errors", l.error, l.listed);
	for (size_t i = 0; i < l.listed; i++)
		nvlist_destroy(l.error[i]);
	free(l.error);
	c->damaged = l.n > 0;
}

/* --- the reason (9.9, "in order of precedence") --- */
static bool any_vdev(const struct vdev *vd, bool (*is)(const struct vdev *vd))
{
	if (is(vd))
		return true;
	for (unsigned i = 0; i < vd->nchildren; i++)
		if (any_vdev(vd->child[i], is))
			return true;
	return false;
}

static bool is_missing_log(const struct vdev *vd)
{
	return vd->top == vd && vd->is_log && vdev_is_concrete(vd) && !vdev_is_readable(vd);
}

static bool is_faulted(const struct vdev *vd)
{
	return vdev_is_leaf(vd) && vd->state == VDEV_STATE_FAULTED;
}

static bool is_missing(const struct vdev *vd)
{
	return vdev_is_leaf(vd) && vd->state == VDEV_STATE_CANT_OPEN && vd->aux == VDEV_AUX_OPEN_FAILED;
}

static bool is_unlabelled(const struct vdev *vd)
{
	return vdev_is_leaf(vd) && vd->state == VDEV_STATE_CANT_OPEN && vd->aux != VDEV_AUX_OPEN_FAILED;
}

static bool has_errors(const struct vdev *vd)
{
	return counter_read(&vd->stats.read_errors) || counter_read(&vd->stats.write_errors) ||
	       counter_read(&vd->stats.checksum_errors);
}

static bool is_offline(const struct vdev *vd)
{
	return vdev_is_leaf(vd) && vd->state == VDEV_STATE_OFFLINE;
}

static bool is_removed(const struct vdev *vd)
{
	return vdev_is_leaf(vd) && vd->state == VDEV_STATE_REMOVED;
}

static bool is_non_native(const struct vdev *vd)
{
	return vd->disk && vd->top && vd->disk->physical_block_size > UINT64_C(1) << vd->top->ashift;
}

static bool uses_unknown_features(const struct spa *spa)
{
	const struct nvlist *l = spa_priv(spa)->write_features;
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p))
		if (nvpair_int(p, 0) && !spa_feature_find(nvpair_name(p)))
			return true;
	return false;
}

static const char *features_reason(const struct spa *spa)
{
	static const char *const reasons[] = {[SPA_COMPATIBILITY_OK] = "ok",
					      [SPA_COMPATIBILITY_OUTSIDE] = "incompatible-feat",
					      [SPA_COMPATIBILITY_DISABLED] = "feat-disabled",
					      [SPA_COMPATIBILITY_ERR] = "compatibility-err"};

	return reasons[spa_compatibility_state(spa, NULL)];
}

static bool has_errata(const struct spa *spa)
{
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	return nvlist_u64_or(spa->config, "errata", 0) != 0;
}

static const char *reason_choose(const struct spa *spa, const struct conditions *c)
{
	static const struct {
		bool (*is)(const struct vdev *vd);
		const char *reason;
	} devices[] = {
	    {is_faulted, "faulted-dev-r"},        {is_missing, "missing-dev-r"}, {is_unlabelled, "corrupt-label-r"},
	    {has_errors, "failing-dev"},          {is_offline, "offline-dev"},   {is_removed, "removed-dev"},
	    {is_non_native, "non-native-ashift"},
	};

	if (spa_suspended_reason(spa))
		return spa_suspended_reason(spa);
	if (c->resilvering)
		return "resilvering";
	if (c->rebuilding)
		return "rebuilding";
	if (c->rebuilt > c->scrubbed)
		return "rebuild-scrub";
	if (uses_unknown_features(spa))
		return "unsup-feat-write";
	if (any_vdev(spa->root, is_missing_log))
		return "bad-log";
	if (c->damaged)
		return "corrupt-data";
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		if (any_vdev(spa->root, devices[i].is))
			return devices[i].reason;
	if (has_errata(spa))
		return "errata";
	if (spa->version < SPA_VERSION)
		return "version-older";
	return features_reason(spa);
}

static void head_add(struct spa *spa, struct nvlist *l)
{
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	nvlist_add_u64(l, "pool_guid", spa->guid);
	nvlist_add_u64(l, "txg", spa->uberblock.txg);
	nvlist_add_u64(l, "spa_version", SPA_VERSION);
	nvlist_add_u64(l, "zpl_version", ZPL_VERSION);
	if (nvlist_len(spa->load_info))
		nvlist_add_list(l, "load_info", spa->load_info);
}

static void status_add(struct spa *spa, bool verbose_errors, struct nvlist *l)
{
	autofree struct spa_top_space *space = NULL;
	struct conditions c = {0};
	struct nvlist *dedup;

	nvlist_add_string(l, "name", spa->name);
	nvlist_add_string(l, "state", spa_state(spa));
	head_add(spa, l);
	scans_add(spa, l, &c);
	errors_add(spa, l, verbose_errors, &c);
	spa_reason_add(l, reason_choose(spa, &c));
	removal_add(spa, l);
	checkpoint_add(spa, l);
	expansion_add(spa, l);
	space = spa_space(spa);
	spa_rows_add(l, spa->root, spa->name, space);
	activities_add_all(spa, l);
	aux_rows_add(spa, l, spa_priv(spa)->l2cache, "l2cache", "l2cache");
	aux_rows_add(spa, l, spa_priv(spa)->spares, "spares", "spare");
	if (ddt_stats_get(spa->dsl, &dedup) == 0)
		nvlist_take_list(l, "dedup_stats", dedup);
}

int spa_status(struct spa *spa, bool verbose_errors, struct nvlist **out)
{
	*out = nvlist_create();
	dsl_config_enter(spa->dsl);
	status_add(spa, verbose_errors, *out);
	dsl_config_exit(spa->dsl);
	return 0;
}
