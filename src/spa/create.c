/*
 * Making a pool (docs/format/01-pool.md, section 9): devices, labels that do not count yet, everything the first group
 * has in its MOS, and its commit. Until that is on the devices nothing of it is a pool, and a failure leaves none.
 */
#include "base/os.h"
#include "dmu/bpobj.h"
#include "dmu/mosobj.h"
#include "spa/layout.h"
#include "spa/pool_props.h"
#include "spa/search.h"
#include "spa/spa_write.h"

#define SYNC_BPLIST_BLOCK (16u << 10)

struct creation {
	const struct spa_create *args;
	struct spa_pool_props props;
	struct nvlist *tree;     /* complete */
	struct nvlist *fs_props; /* as they are stored */
	struct spa *spa;
	struct tx tx;
};

/* --- before anything is written --- */
/* Which features are enabled: all, those of `compatibility`, or none; and those that are named. */
static int features_choose(struct creation *c, struct err *e)
{
	struct spa_compatibility compat;
	const char *value = nvlist_string_or(c->props.config, "compatibility", "");
	int err = spa_compatibility_load(value, &compat, e);

	if (err)
		return err;
	for (size_t i = 0; i < spa_feature_table_len; i++) {
		const struct spa_feature *f = &spa_feature_table[i];

		if (nvlist_exists(c->props.disabled, f->name) || c->args->no_features)
			continue;
		if (spa_compatibility_allows(&compat, f))
			nvlist_add_boolean(c->props.enable, f->name);
	}
	spa_compatibility_free(&compat);
	return 0;
}

static int props_prepare(struct creation *c, struct err *e)
{
	int err = spa_pool_props_parse(NULL, c->args->props, SPA_PROPS_CREATE, &c->props, e);

	if (err)
		return err;
	if (c->props.version && c->props.version != SPA_VERSION)
		return err_set(e, -ENOTSUP, "pools of version %" PRIu64 " are not created any more, only of 5000",
			       c->props.version);
	err = features_choose(c, e);
	if (!err && c->args->fs_props)
		err = dsl_props_check(NULL, c->args->name, DSL_FILESYSTEM, c->args->fs_props, true, &c->fs_props, e);
	return err;
}

static int layout_prepare(struct creation *c, struct err *e)
{
	const struct spa_layout_args args = {.tree = c->args->tree,
					     .create_txg = SPA_FIRST_TXG,
					     .ashift = nvlist_u64_or(c->props.stored, "ashift", 0),
					     .force = c->args->force};

	return spa_layout_make(&args, &c->tree, e);
}

/* --- devices --- */
void spa_devices_note(struct spa *spa, const struct vdev *vd)
{
	char key[32];

	if (vdev_is_leaf(vd) && vd->path) {
		snprintf(key, sizeof(key), "%" PRIx64, vd->guid);
		nvlist_add_string(spa_priv(spa)->devices, key, vd->path);
	}
	for (unsigned i = 0; i < vd->nchildren; i++)
		spa_devices_note(spa, vd->child[i]);
}

int spa_top_ready(struct spa *spa, struct vdev *top, struct err *e)
{
	struct str missing = {0};
	int err = 0;

	spa_missing_list(top, &missing);
	if (missing.len || !vdev_is_writable(top))
		err = err_set(e, -ENXIO, "cannot open %s", str_get(&missing));
	else if (top->asize < SPA_DEVICE_MIN - VDEV_LABEL_START_SIZE - VDEV_LABEL_END_SIZE)
		err = err_set(e, -EOVERFLOW, "a device is too small");
	str_free(&missing);
	if (err)
		return err;
	top->alloc_bias = spa_bias_of(nvlist_string_or(top->config, "alloc_bias", ""));
	top->ms_shift = spa_metaslab_shift(top->asize);
	return 0;
}

static int devices_open(struct creation *c, struct err *e)
{
	struct spa *spa = c->spa;
	int err = vdev_tree_create(c->tree, &spa->root, e);

	if (err)
		return err;
	vdev_tree_open(spa->root, spa_layout_open, NULL);
	for (unsigned i = 0; i < spa->root->nchildren && !err; i++)
		err = spa_top_ready(spa, spa->root->child[i], e);
	spa_priv(spa)->devices = nvlist_create();
	spa_devices_note(spa, spa->root);
	return err;
}

static int leaf_labels_init(struct spa *spa, struct vdev *leaf, struct nvlist *label, uint64_t create_txg,
			    struct err *e)
{
	int err;

	nvlist_add_u64(label, "txg", 0);
	nvlist_add_u64(label, "create_txg", create_txg);
	spa_config_label_leaf(label, leaf);
	err = label_init(leaf->disk, label);
	if (!err)
		err = disk_flush(leaf->disk);
	return err ? err_set(e, err, "%s: labels cannot be written: %s", leaf->path, err_words(err)) : 0;
}

int spa_labels_init(struct spa *spa, struct vdev *vd, uint64_t create_txg, struct err *e)
{
	autonv struct nvlist *label = NULL;
	int err = 0;

	for (unsigned i = 0; i < vd->nchildren && !err; i++)
		err = spa_labels_init(spa, vd->child[i], create_txg, e);
	if (err || !vdev_is_leaf(vd) || vd->kind == VDEV_DSPARE)
		return err;
	label = spa_config_label(spa, vd->top, 0);
	return leaf_labels_init(spa, vd, label, create_txg, e);
}

/* --- the first group --- */
static int directory_make(struct creation *c)
{
	const struct zap_spec spec = {.type = DMU_OT_OBJECT_DIRECTORY};
	static const char *const zaps[] = {"features_for_read", "features_for_write", "feature_descriptions"};
	struct spa *spa = c->spa;
	uint8_t salt[32];
	uint64_t object;
	int err = zap_create_claim(spa->mos, MOS_DIRECTORY, &spec, &c->tx);

	for (size_t i = 0; i < ARRAY_LEN(zaps) && !err; i++)
		err = zap_create_in(spa->mos, DMU_OTN_ZAP_METADATA, MOS_DIRECTORY, zaps[i], &c->tx, &object);
	if (!err)
		err = zap_add_u64(spa->mos, MOS_DIRECTORY, "creation_version", SPA_VERSION, &c->tx);
	if (!err)
		err = zap_add_u64(spa->mos, MOS_DIRECTORY, "deflate", 1, &c->tx);
	os_random(salt, sizeof(salt));
	if (!err)
		err = zap_add(spa->mos, MOS_DIRECTORY, "org.illumos:checksum_salt", 1, sizeof(salt), salt, &c->tx);
	spa_priv(spa)->salt = checksum_salt_create(salt);
	spa->zp.salt = spa_priv(spa)->salt;
	return err;
}

static int mos_make(struct creation *c, struct err *e)
{
	struct spa *spa = c->spa;
	struct spa_priv *pr = spa_priv(spa);
	int err = objset_create(&spa->dp, 0, OBJSET_META, &spa_mos_ops, spa, NULL, &c->tx, &spa->mos);

	if (err)
		return err_set(e, err, "%s", err_words(err));
	pr->read_features = nvlist_create();
	pr->write_features = nvlist_create();
	pr->active = strmap_create();
	err = directory_make(c);
	if (err)
		return err_set(e, err, "making the pool's directory: %s", err_words(err));
	for (const struct nvpair *p = nvlist_first(c->props.enable); p; p = nvlist_next(c->props.enable, p))
		spa_feature_enable(spa, spa_feature_by_name(nvpair_name(p)), &c->tx);
	return 0;
}

/* Space is there as soon as the arrays of space maps are. */
static int space_make(struct creation *c, struct err *e)
{
	struct spa *spa = c->spa;
	struct spa_writer *w = spa_writer(spa);
	int err = spa_alloc_open(spa, 0, e);

	if (err)
		return err;
	for (unsigned i = 0; i < spa->root->nchildren && !err; i++)
		err = alloc_add_top(w->alloc, spa->root->child[i], e);
	if (err)
		return err;
	err = alloc_sync(w->alloc, &c->tx, false);
	spa_space_update(spa);
	return err ? err_set(e, err, "making space maps: %s", err_words(err)) : 0;
}

static int objects_make(struct creation *c)
{
	struct spa *spa = c->spa;
	struct spa_writer *w = spa_writer(spa);
	struct dnode *dn;
	int err = bpobj_create(spa->mos, bpobj_bonuslen(SPA_VERSION, false), SYNC_BPLIST_BLOCK, &c->tx,
			       &w->sync_bplist);

	if (!err)
		err = zap_add_u64(spa->mos, MOS_DIRECTORY, "sync_bplist", w->sync_bplist, &c->tx);
	if (!err)
		err = dnode_hold(spa->mos, w->sync_bplist, &dn, NULL);
	if (err)
		return err;
	dmu_object_set_algorithms(dn, CHECKSUM_INHERIT, COMPRESS_OFF, &c->tx);
	dnode_release(dn);
	err = mos_nvlist_create(spa->mos, &c->tx, &w->config_object);
	if (!err)
		err = zap_add_u64(spa->mos, MOS_DIRECTORY, "config", w->config_object, &c->tx);
	return err ? err : spa_history_create(spa, &c->tx);
}

static int datasets_make(struct creation *c, struct err *e)
{
	struct spa *spa = c->spa;
	const struct dsl_create root = {.name = spa->name,
					.type = DSL_FILESYSTEM,
					.props = c->fs_props,
					.init = c->args->init_root,
					.arg = c->args->init_root_arg};
	int err = dsl_pool_create(&spa->dp, spa->mos, spa->name, &c->tx, &spa->dsl);

	if (err)
		return err_set(e, err, "making data sets: %s", err_words(err));
	spa->dsl->version = SPA_VERSION;
	spa->dsl->features = spa_priv(spa)->active;
	spa->dsl->altroot = spa->altroot;
	err = spa_dsl_set_writable(spa);
	if (!err)
		err = dsl_create_root(spa->dsl, &root, &c->tx);
	return err ? err_set(e, err, "making the root file system: %s", err_words(err)) : 0;
}

static int first_group_fill(struct creation *c, struct err *e)
{
	struct spa *spa = c->spa;
	int err;

	c->tx = (struct tx){.txgs = spa_writer(spa)->txgs, .txg = SPA_FIRST_TXG, .syncing = true, .pass = 1};
	err = mos_make(c, e);
	if (!err)
		err = space_make(c, e);
	if (!err)
		err = datasets_make(c, e);
	if (err)
		return err;
	err = objects_make(c);
	if (err)
		return err_set(e, err, "making the pool's objects: %s", err_words(err));
	spa_history_internal(spa, "create", NULL, &c->tx, SPA_SOFTWARE);
	spa_pool_props_sync(spa, &c->props, &c->tx);
	spa_spares_add(spa, c->tree, &c->tx);
	spa_config_dirty(spa);
	return 0;
}

/* --- life --- */
static struct spa *pool_prepare(struct creation *c, struct err *e)
{
	const struct spa_create *args = c->args;
	const char *stored = args->temporary_name ? args->real_name : args->name;
	uint64_t guid = nvlist_u64_or(c->tree, "guid", 0);
	struct spa *spa;

	if (spa_register(guid, args->name, e))
		return NULL;
	spa = spa_create();
	spa_priv(spa)->registered = true;
	spa->guid = guid;
	spa->version = SPA_VERSION;
	spa->import_txg = SPA_FIRST_TXG;
	str_copy(spa->name, sizeof(spa->name), args->name);
	spa->temporary_name = args->temporary_name;
	spa->config = nvlist_create();
	if (args->altroot || c->props.altroot)
		spa->altroot = xstrdup(args->altroot ? args->altroot : c->props.altroot);
	if (c->props.cachefile || spa->altroot || spa->temporary_name)
		nvlist_add_string(spa->load_info, "cachefile", c->props.cachefile ? c->props.cachefile : "none");
	spa->zp.guid = guid;
	spa->dp = (struct dmu_pool){.arc = args->arc, .zp = &spa->zp};
	spa_writer_create(spa, stored, SPA_FIRST_TXG);
	spa_writer(spa)->no_suspend = true;
	return spa;
}

static int pool_make(struct creation *c, struct err *e)
{
	struct spa *spa = c->spa;
	struct spa_writer *w = spa_writer(spa);
	int err = devices_open(c, e);

	if (err)
		return err;
	spa->zp.root = spa->root;
	spa->zp.on_error_arg = spa;
	spa_vdev_events_set(spa);
	err = spa_labels_init(spa, spa->root, SPA_FIRST_TXG, e);
	if (!err)
		err = spa_spares_init(spa, c->tree, e);
	if (!err)
		err = first_group_fill(c, e);
	if (err)
		return err;
	spa_groups_start(spa);
	err = txg_wait_synced(w->txgs, SPA_FIRST_TXG);
	pthread_mutex_lock(&w->suspend_lock);
	if (w->failed[0])
		err = err_set(e, -EIO, "%s", w->failed);
	else if (err)
		err_set(e, err, "the devices cannot be written");
	w->no_suspend = false;
	pthread_mutex_unlock(&w->suspend_lock);
	return err;
}

static int names_check(const struct spa_create *args, struct err *e)
{
	int err = spa_name_check(args->name, e);

	if (!err && args->temporary_name)
		err = spa_name_check(args->real_name, e);
	return err ? err : spa_altroot_check(args->altroot, e);
}

static void creation_free(struct creation *c)
{
	spa_pool_props_free(&c->props);
	nvlist_destroy(c->tree);
	nvlist_destroy(c->fs_props);
}

static int create(struct creation *c, struct err *e)
{
	int err = names_check(c->args, e);

	if (!err)
		err = props_prepare(c, e);
	if (!err)
		err = layout_prepare(c, e);
	if (err || c->args->dry)
		return err;
	c->spa = pool_prepare(c, e);
	if (!c->spa)
		return e ? e->code : -EEXIST;
	err = pool_make(c, e);
	if (!err) {
		spa_registered(c->spa, true);
		return 0;
	}
	spa_drop(c->spa);
	c->spa = NULL;
	return err;
}

int spa_create_pool(const struct spa_create *args, struct spa **out, struct err *e)
{
	struct creation c = {.args = args};
	struct err local = ERR_INIT;
	struct err *ee = e ? e : &local;
	int err = create(&c, ee);

	creation_free(&c);
	*out = NULL;
	if (err)
		return err_prefix(ee, err, "cannot create '%s'", args->name);
	if (!c.spa)
		return 0;
	if (args->history)
		spa_history_command(c.spa, args->history, 0, NULL);
	spa_opened(c.spa, "sysevent.fs.zfs.pool_create");
	*out = c.spa;
	return 0;
}
