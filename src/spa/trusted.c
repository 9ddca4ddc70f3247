/*
 * What the MOS says of its pool: the configuration that can be trusted, and everything reading needs beyond it
 * (docs/format/01-pool.md, 4.8).
 */
#include "base/bytes.h"
#include "base/log.h"
#include "spa/spa_write.h"

#define MAPPING_ENTRY   24 /* bytes, 06 4.7 */
#define MAPPING_ENTRIES (1u << 26)

/* --- the configuration and its tree --- */
static int config_read(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	uint64_t object;
	int err = spa_mos_u64(spa->mos, "config", &object);

	if (err)
		return err_set(e, err, "the pool directory cannot be read: %s", err_words(err));
	err = spa_packed_read(spa->mos, object, &spa->config, e);
	if (err)
		return err_prefix(e, err, "the pool's configuration");
	if (nvlist_u64_or(spa->config, "pool_guid", spa->guid) != spa->guid)
		return err_set(e, -EINVAL, "the configuration belongs to pool guid %" PRIu64,
			       nvlist_u64_or(spa->config, "pool_guid", 0));
	return 0;
}

static int log_check(struct spa_loader *ld, struct err *e)
{
	struct str missing = {0};
	int err = 0;

	for (unsigned i = 0; i < ld->spa->root->nchildren; i++) {
		const struct vdev *top = ld->spa->root->child[i];

		if (top->is_log && vdev_is_concrete(top) && !vdev_is_readable(top))
			spa_missing_list(top, &missing);
	}
	if (missing.len && ld->args->missing_log)
		spa_note(ld->spa, "opened without its intent log device: %s", missing.s);
	else if (missing.len) {
		err = err_set(e, -ENXIO, "an intent log device is missing: %s", missing.s);
		err_hint(e, "With -m the pool is imported without it; what was only in the log is not seen.");
	}
	str_free(&missing);
	return err;
}

static int devices_check(struct spa_loader *ld, struct err *e)
{
	struct vdev *root = ld->spa->root;
	struct str missing = {0};
	int err = 0;

	spa_missing_list(root, &missing);
	if (!vdev_is_readable(root))
		err = err_set(e, -ENXIO, "one or more devices are missing: %s", str_get(&missing));
	else if (missing.len)
		spa_note(ld->spa, "missing: %s", missing.s);
	str_free(&missing);
	if (!err)
		err = log_check(ld, e);
	ld->devices_short = err != 0;
	ld->retry = ld->retry && !err; /* an older state needs the same devices */
	return err;
}

static int tree_open(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	struct nvlist *tree;
	int err;

	if (nvlist_list(spa->config, "vdev_tree", &tree))
		return err_set(e, -EINVAL, "the pool's configuration has no device tree");
	err = vdev_tree_create(tree, &spa->root, e);
	if (err)
		return err_prefix(e, err, "the pool's configuration");
	spa_tree_open(ld, spa->root);
	err = spa_job_stage(ld->job, "checking the devices");
	if (err)
		return err_set(e, err, "interrupted");
	vdev_raidz_set_reflow(spa->root, spa->uberblock.raidz_reflow_info);
	return devices_check(ld, e);
}

int spa_trusted_load(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	int err = config_read(ld, e);

	if (!err)
		err = tree_open(ld, e);
	if (err)
		return err;
	if (spa_guid_sum(spa->root) != spa->uberblock.guid_sum)
		return err_set(e, -ENXIO,
			       "the devices do not add up to the pool (guid sum %" PRIu64 " instead of %" PRIu64 ")",
			       spa_guid_sum(spa->root), spa->uberblock.guid_sum);
	arc_flush_pool(spa->dp.arc, spa->guid); /* waits for prefetches through the untrusted tree */
	spa->zp.root = spa->root;
	return 0;
}

/* --- removed devices (06 4.7) --- */
static int mapping_decode(const uint64_t *words, size_t n, struct vdev_indirect_entry *map)
{
	for (size_t i = 0; i < n; i++) {
		struct bp bp = {{words[3 * i + 1], words[3 * i + 2]}};
		struct dva dva = bp_dva(&bp, 0);

		map[i] = (struct vdev_indirect_entry){bits64(words[3 * i], 0, 63) << SECTOR_SHIFT, dva.asize, dva.vdev,
						      dva.offset};
		if (map[i].size == 0 || (i && map[i].src_offset < map[i - 1].src_offset + map[i - 1].size))
			return -EINVAL;
	}
	return 0;
}

static int mapping_load(struct spa *spa, struct vdev *vd, struct err *e)
{
	uint64_t object = nvlist_u64_or(vd->config, "com.delphix:indirect_object", 0), n;
	autofree struct vdev_indirect_entry *map = NULL;
	autofree uint64_t *words = NULL;
	struct dnode *dn;
	int err = dnode_hold(spa->mos, object, &dn, e);

	if (err)
		return err;
	n = spa_bonus_word(dn, 2);
	if (n > MAPPING_ENTRIES || n * MAPPING_ENTRY > (dn->maxblkid + 1) * dn->datablksz) {
		dnode_release(dn);
		return err_set(e, -EINVAL, "impossible number of entries %" PRIu64, n);
	}
	map = malloc((n + 1) * sizeof(*map));
	words = malloc((n + 1) * MAPPING_ENTRY);
	err = map && words ? spa_words_read(dn, 0, words, 3 * n) : -ENOMEM;
	dnode_release(dn);
	if (!err)
		err = mapping_decode(words, n, map);
	if (!err)
		err = vdev_indirect_set_mapping(vd, map, n);
	return err ? err_set(e, err, "%s", err_words(err)) : 0;
}

/* Head of the chain first: mappings of earlier removals may lie on devices that were removed later. */
static int mappings_load(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	uint64_t removing[7] = {0}, id;
	int err = zap_lookup(spa->mos, MOS_DIRECTORY, "com.delphix:removing", 8, 7, removing);

	if (err == -ENOENT)
		return 0;
	if (err)
		return err_set(e, err, "the state of device removals: %s", err_words(err));
	id = removing[2];
	for (unsigned steps = 0; id != UINT64_MAX && steps <= spa->root->nchildren; steps++) {
		struct vdev *vd = id < spa->root->nchildren ? spa->root->child[id] : NULL;

		if (!vd || vd->kind != VDEV_INDIRECT)
			return err_set(e, -EINVAL, "the chain of removed devices is damaged at %" PRIu64, id);
		err = mapping_load(spa, vd, e);
		if (err)
			return err_prefix(e, err, "mapping of removed device %" PRIu64, id);
		id = nvlist_u64_or(vd->config, "com.delphix:prev_indirect_vdev", UINT64_MAX);
	}
	return 0;
}

/* --- smaller things --- */
const char *spa_bias_of(const char *word)
{
	static const char *const known[] = {"log", "special", "dedup"};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(known[i], word) == 0)
			return known[i];
	return NULL;
}

static void alloc_bias_load(struct spa *spa, struct vdev *top)
{
	char bias[32] = "";

	if (top->zap_top &&
	    zap_lookup(spa->mos, top->zap_top, "org.zfsonlinux:allocation_bias", 1, sizeof(bias) - 1, bias) == 0)
		top->alloc_bias = spa_bias_of(bias);
}

static void dtls_load(struct spa *spa, struct vdev *vd)
{
	struct rangetree missing;
	int err;

	for (unsigned i = 0; i < vd->nchildren; i++)
		dtls_load(spa, vd->child[i]);
	if (!vdev_is_leaf(vd) || vd->dtl_object == 0)
		return;
	rangetree_init(&missing);
	err = spacemap_load_dtl(spa->mos, vd->dtl_object, &missing);
	vdev_dtl_take(vd, &missing);
	if (err)
		spa_note(spa, "%s: what this device missed while it was absent cannot be read: %s",
			 vd->path ? vd->path : "a device", err_words(err));
}

static void salt_load(struct spa *spa)
{
	struct spa_priv *pr = spa_priv(spa);
	uint8_t salt[32];
	int err = zap_lookup(spa->mos, MOS_DIRECTORY, "org.illumos:checksum_salt", 1, sizeof(salt), salt);

	if (err == 0)
		pr->salt = checksum_salt_create(salt);
	else if (err != -ENOENT)
		spa_note(spa, "the checksum salt cannot be read: %s", err_words(err));
	spa->zp.salt = pr->salt;
}

static void aux_list_load(struct spa *spa, const char *key, struct nvlist **out)
{
	struct err e = ERR_INIT;
	uint64_t object;
	int err = spa_mos_u64(spa->mos, key, &object);

	if (err == 0 && object)
		err = spa_packed_read(spa->mos, object, out, &e);
	if (err && err != -ENOENT)
		spa_note(spa, "the list of %s cannot be read: %s", key, e.text[0] ? e.text : err_words(err));
}

static int dsl_open(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	int err = spa_job_stage(ld->job, "opening data sets");

	if (!err)
		err = dsl_pool_open(&spa->dp, spa->mos, spa->name, &spa->dsl, e);
	if (err)
		return err;
	spa->dsl->version = spa->version;
	spa->dsl->features = spa_priv(spa)->active;
	spa->dsl->altroot = spa->altroot;
	spa->dsl->usable_bytes = spa_usable_bytes(spa);
	return 0;
}

int spa_trusted_extras(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	int err = spa_job_stage(ld->job, "reading the pool's metadata");

	if (err)
		return err_set(e, err, "interrupted");
	err = mappings_load(ld, e);
	if (err)
		return err;
	salt_load(spa);
	err = spa_features_load(spa, e);
	if (err) {
		ld->retry = ld->retry && err != -ENOTSUP;
		return err;
	}
	spa->zp.dynamic_gang = spa_feature_is_active(spa, "com.klarasystems:dynamic_gang_header");
	for (unsigned i = 0; i < spa->root->nchildren; i++)
		alloc_bias_load(spa, spa->root->child[i]);
	dtls_load(spa, spa->root);
	aux_list_load(spa, "spares", &spa_priv(spa)->spares);
	aux_list_load(spa, "l2cache", &spa_priv(spa)->l2cache);
	return dsl_open(ld, e);
}
