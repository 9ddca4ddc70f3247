/*
 * Properties of devices (docs/format/01-pool.md section 7; 09-cli.md 9.6), in their exact form and in that order.
 */
#include "spa/spa_impl.h"

static void config_string_add(const struct vdev *vd, struct nvlist *out, const char *key, const char *name)
{
	spa_prop_add(out, name, nvlist_string_or(vd->config, key, "-"), "-");
}

static void onoff_add(struct nvlist *out, const char *name, bool on)
{
	nvlist_add_u64(spa_prop_add(out, name, on ? "on" : "off", "-"), "number", on);
}

static void sizes_add(struct spa *spa, const struct vdev *vd, struct nvlist *l)
{
	autofree struct spa_top_space *all = spa_space(spa);
	/* of a top-level the space maps', of a device its own size */
	const struct spa_top_space *s = vd->top == vd && vd->parent == spa->root ? &all[vd->id] : NULL;
	uint64_t size = s ? s->size : 0, used = s ? s->allocated : 0;

	spa_prop_add_number(l, "capacity", spa_percent(used, size), "-");
	spa_prop_add(l, "state", vdev_state_name(vd), "-");
	spa_prop_add_number(l, "guid", vd->guid, "-");
	spa_prop_add_number(l, "asize", vd->asize, "-");
	spa_prop_add_number(l, "psize", vd->psize, "-");
	spa_prop_add_number(l, "ashift", vd->ashift, "-");
	spa_prop_add_number(l, "size", size, "-");
	spa_prop_add_number(l, "free", size - used, "-");
	spa_prop_add_number(l, "allocated", used, "-");
	spa_prop_add_dash(l, "fragmentation", s ? s->fragmentation : UINT64_MAX, UINT64_MAX, "-");
	spa_prop_add_number(l, "parity", vd->nparity, "-");
}

static void children_add(const struct vdev *vd, struct nvlist *out)
{
	struct str names = {0};

	for (unsigned i = 0; i < vd->nchildren; i++) {
		autofree char *name = vdev_name(vd->child[i], 0);

		str_addf(&names, "%s%s", i ? "," : "", name);
	}
	spa_prop_add(out, "children", names.len ? names.s : "-", "-");
	spa_prop_add_number(out, "numchildren", vd->nchildren, "-");
	str_free(&names);
}

static void places_add(const struct vdev *vd, struct nvlist *l)
{
	autofree char *parent = vd->parent ? vdev_name(vd->parent, 0) : xstrdup("-");

	config_string_add(vd, l, "devid", "devid");
	config_string_add(vd, l, "phys_path", "physpath");
	config_string_add(vd, l, "vdev_enc_sysfs_path", "encpath");
	config_string_add(vd, l, "fru", "fru");
	spa_prop_add(l, "parent", parent, "-");
	children_add(vd, l);
	spa_prop_add_dash(l, "bootsize", 0, 0, "-"); /* a label has no word for a boot partition */
	spa_prop_add_dash(l, "expandsize", spa_expand_size(vd), 0, "-");
}

static void counters_add(const struct vdev *vd, struct nvlist *l)
{
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {{"read_errors", counter_read(&vd->stats.read_errors)},
			{"write_errors", counter_read(&vd->stats.write_errors)},
			{"checksum_errors", counter_read(&vd->stats.checksum_errors)},
			{"initialize_errors", 0},
			{"trim_errors", counter_read(&vd->stats.trim_errors)},
			{"slow_ios", counter_read(&vd->stats.slow_ios)},
			{"null_ops", 0},
			{"read_ops", counter_read(&vd->stats.read_ops)},
			{"write_ops", counter_read(&vd->stats.write_ops)},
			{"free_ops", 0},
			{"claim_ops", 0},
			{"trim_ops", counter_read(&vd->stats.trim_ops)},
			{"null_bytes", 0},
			{"read_bytes", counter_read(&vd->stats.read_bytes)},
			{"write_bytes", counter_read(&vd->stats.write_bytes)},
			{"free_bytes", 0},
			{"claim_bytes", 0},
			{"trim_bytes", counter_read(&vd->stats.trim_bytes)}};

	for (size_t i = 0; i < ARRAY_LEN(counters); i++)
		spa_prop_add_number(l, counters[i].name, counters[i].value, "-");
}

static void traits_add(const struct vdev *vd, struct nvlist *l)
{
	onoff_add(l, "removing", vd->removing);
	onoff_add(l, "raidz_expanding", nvlist_bool(vd->config, "raidz_expanding"));
	if (vd->disk) {
		onoff_add(l, "trim_support", vd->disk->discards);
		onoff_add(l, "rotational", vd->disk->rotational);
	} else {
		spa_prop_add(l, "trim_support", "-", "-");
		spa_prop_add(l, "rotational", "-", "-");
	}
}

/* Of a device of a dRAID with failure groups: which group, and which place in it; devices of one place fail together
 * (06 7.1). */
static void failure_group_add(const struct vdev *vd, struct nvlist *l)
{
	uint64_t group_size = 0;

	while (vd->parent && vd->parent->kind != VDEV_DRAID)
		vd = vd->parent;
	if (vd->parent)
		group_size = nvlist_u64_or(vd->parent->config, "draid_nchildren", 0);
	if (group_size) {
		spa_prop_add_number(l, "failure_domain", vd->id % group_size, "-");
		spa_prop_add_number(l, "failure_group", vd->id / group_size, "-");
	} else {
		spa_prop_add(l, "failure_domain", "-", "-");
		spa_prop_add(l, "failure_group", "-", "-");
	}
}

/* --- stored ones (01 5.4) --- */
static uint64_t props_zap(const struct vdev *vd)
{
	uint64_t root = nvlist_u64_or(vd->config, "com.klarasystems:vdev_zap_root", 0);

	return root ? root : vd->zap_top ? vd->zap_top : vd->zap_leaf;
}

static void comment_add(struct spa *spa, uint64_t zap, struct nvlist *l)
{
	char text[8193] = "";
	unsigned intsize;
	size_t n;

	if (zap && zap_length(spa->mos, zap, "comment", &intsize, &n) == 0 && intsize == 1 && n < sizeof(text) &&
	    zap_lookup(spa->mos, zap, "comment", 1, n, text) == 0 && text[0])
		spa_prop_add(l, "comment", text, "local");
	else
		spa_prop_add(l, "comment", "-", "default");
}

enum stored_kind { STORED_ONOFF, STORED_FAILFAST, STORED_SCHEDULER, STORED_THRESHOLD };

static void stored_add(struct spa *spa, uint64_t zap, struct nvlist *l, const char *name, enum stored_kind kind,
		       uint64_t fallback)
{
	static const char *const words[][3] = {[STORED_ONOFF] = {"off", "on", "unknown"},
					       [STORED_FAILFAST] = {"off", "on", "inherit"},
					       [STORED_SCHEDULER] = {"auto", "on", "off"}};
	uint64_t v = fallback;
	bool stored = zap && zap_lookup_u64(spa->mos, zap, name, &v) == 0 && v != fallback;
	const char *source = stored ? "local" : "default";

	if (kind == STORED_THRESHOLD)
		spa_prop_add_dash(l, name, v, UINT64_MAX, source);
	else
		nvlist_add_u64(spa_prop_add(l, name, v < 3 ? words[kind][v] : "unknown", source), "number", v);
}

static void settings_add(struct spa *spa, const struct vdev *vd, struct nvlist *l)
{
	static const char *const thresholds[] = {"checksum_n", "checksum_t", "io_n", "io_t", "slow_io_n", "slow_io_t"};
	uint64_t zap = props_zap(vd);

	comment_add(spa, zap, l);
	spa_prop_add(l, "path", vd->path ? vd->path : "-", vd->path ? "local" : "-");
	spa_prop_add(l, "allocating", vd->noalloc ? "off" : "on", vd->noalloc ? "local" : "default");
	stored_add(spa, zap, l, "failfast", STORED_FAILFAST, 1);
	for (size_t i = 0; i < ARRAY_LEN(thresholds); i++)
		stored_add(spa, zap, l, thresholds[i], STORED_THRESHOLD, UINT64_MAX);
	stored_add(spa, zap, l, "slow_io_events", STORED_ONOFF, 1);
	onoff_add(l, "sit_out", false); /* no device is ever left out for being slow */
	stored_add(spa, zap, l, "autosit", STORED_ONOFF, 0);
	stored_add(spa, zap, l, "scheduler", STORED_SCHEDULER, 0);
	if (vd->top == vd && vd->kind != VDEV_ROOT)
		spa_prop_add(l, "alloc_bias", vd->alloc_bias ? vd->alloc_bias : "none",
			     vd->alloc_bias ? "local" : "default");
	spa_user_props_add(spa, zap, l);
}

int spa_vdev_props_get(struct spa *spa, struct vdev *vd, struct nvlist **out)
{
	struct nvlist *l = nvlist_create();
	autofree char *name = NULL;

	dsl_config_enter(spa->dsl);
	name = vdev_name(vd, 0);
	spa_prop_add(l, "name", name, "-");
	sizes_add(spa, vd, l);
	places_add(vd, l);
	counters_add(vd, l);
	traits_add(vd, l);
	failure_group_add(vd, l);
	settings_add(spa, vd, l);
	dsl_config_exit(spa->dsl);
	*out = l;
	return 0;
}
