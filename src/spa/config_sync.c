/*
 * The configuration in the MOS: its object, the ZAPs of the devices (docs/format/01-pool.md, 5.3, 5.4 and 8.2 step 1).
 * Sync thread.
 */
#include "dmu/mosobj.h"
#include "spa/spa_write.h"

#define AVZ_KEY       "com.delphix:vdev_zap_map"
#define AVZ_MARK      "com.delphix:has_per_vdev_zaps"
#define ROOT_ZAP_KEY  "com.klarasystems:vdev_zap_root"
#define VDEV_ZAPS_V2  "com.klarasystems:vdev_zaps_v2"
#define BIAS_KEY      "org.zfsonlinux:allocation_bias"
#define ALLOC_CLASSES "org.zfsonlinux:allocation_classes"

/* --- per-vdev ZAPs --- */
static int vdev_zap_make(struct spa *spa, uint64_t avz, struct tx *tx, uint64_t *zap)
{
	const struct zap_spec spec = {.type = DMU_OTN_ZAP_METADATA};
	int err = zap_create(spa->mos, &spec, tx, zap);

	return err ? err : zap_add_int(spa->mos, avz, *zap, *zap, tx);
}

static int root_zap_make(struct spa *spa, uint64_t avz, struct tx *tx)
{
	uint64_t zap;
	int err;

	if (nvlist_exists(spa->root->config, ROOT_ZAP_KEY) || !spa_feature_is_enabled(spa, VDEV_ZAPS_V2))
		return 0;
	err = vdev_zap_make(spa, avz, tx, &zap);
	if (err)
		return err;
	nvlist_add_u64(spa->root->config, ROOT_ZAP_KEY, zap);
	if (!spa_feature_is_active(spa, VDEV_ZAPS_V2))
		spa_feature_count(spa, VDEV_ZAPS_V2, 1, tx);
	return 0;
}

static int top_zap_make(struct spa *spa, uint64_t avz, struct vdev *top, struct tx *tx)
{
	int err = vdev_zap_make(spa, avz, tx, &top->zap_top);

	if (err || !top->alloc_bias)
		return err;
	if (spa_top_class(top) != SPA_CLASS_LOG)
		spa_feature_count(spa, ALLOC_CLASSES, 1, tx);
	return zap_update(spa->mos, top->zap_top, BIAS_KEY, 1, strlen(top->alloc_bias) + 1, top->alloc_bias, tx);
}

static int zaps_make(struct spa *spa, uint64_t avz, struct vdev *vd, struct tx *tx)
{
	int err = 0;

	if (vdev_is_leaf(vd) && !vd->zap_leaf)
		err = vdev_zap_make(spa, avz, tx, &vd->zap_leaf);
	if (!err && vd->top == vd && vd->kind != VDEV_ROOT && vd->kind != VDEV_HOLE && vd->kind != VDEV_MISSING &&
	    !vd->removing && !vd->zap_top)
		err = top_zap_make(spa, avz, vd, tx);
	for (unsigned i = 0; i < vd->nchildren && !err; i++)
		err = zaps_make(spa, avz, vd->child[i], tx);
	return err;
}

static void zaps_forget(struct vdev *vd)
{
	vd->zap_leaf = vd->zap_top = 0;
	nvlist_remove(vd->config, ROOT_ZAP_KEY);
	for (unsigned i = 0; i < vd->nchildren; i++)
		zaps_forget(vd->child[i]);
}

/* Software that knows no per-vdev ZAPs has written the configuration: they may describe other devices. */
static int avz_destroy(struct spa *spa, uint64_t avz, struct tx *tx)
{
	autofree struct zap_entry *entry = xmalloc(sizeof(*entry));
	struct zap_cursor *c;
	int err = zap_cursor_open(spa->mos, avz, 0, &c), gone;

	if (err)
		return err;
	while ((err = zap_cursor_next(c, entry)) == 0) {
		gone = dmu_object_free(spa->mos, entry->first, tx);
		if (gone && gone != -ENOENT) {
			err = gone;
			break;
		}
	}
	zap_cursor_close(c);
	if (err == -ENOENT)
		err = dmu_object_free(spa->mos, avz, tx);
	if (!err)
		err = zap_remove(spa->mos, MOS_DIRECTORY, AVZ_KEY, tx);
	zaps_forget(spa->root);
	return err;
}

static int avz_sync(struct spa *spa, struct tx *tx)
{
	struct spa_writer *w = spa_writer(spa);
	uint64_t avz = 0;
	int err = spa_mos_u64(spa->mos, AVZ_KEY, &avz);

	if (err == 0 && w->avz_rebuild) {
		err = avz_destroy(spa, avz, tx);
		avz = 0;
	}
	if (err == -ENOENT)
		err = 0;
	w->avz_rebuild = false;
	if (!err && avz == 0)
		err = zap_create_in(spa->mos, DMU_OTN_ZAP_METADATA, MOS_DIRECTORY, AVZ_KEY, tx, &avz);
	if (!err)
		err = root_zap_make(spa, avz, tx);
	return err ? err : zaps_make(spa, avz, spa->root, tx);
}

static uint64_t zaps_count(const struct vdev *vd)
{
	uint64_t n = (vd->zap_leaf != 0) + (vd->zap_top != 0) + nvlist_exists(vd->config, ROOT_ZAP_KEY);

	for (unsigned i = 0; i < vd->nchildren; i++)
		n += zaps_count(vd->child[i]);
	return n;
}

int spa_avz_check(struct spa *spa, struct err *e)
{
	bool marked = nvlist_bool(spa->config, AVZ_MARK);
	uint64_t avz = 0, n = 0, referenced = zaps_count(spa->root);
	int err = spa_mos_u64(spa->mos, AVZ_KEY, &avz);

	if (err == -ENOENT) {
		if (marked)
			return err_set(e, -EINVAL, "the map of the devices' own objects is missing");
		return 0;
	}
	if (!err)
		err = zap_count(spa->mos, avz, &n);
	if (err)
		return err_set(e, err, "the map of the devices' own objects cannot be read: %s", err_words(err));
	spa_writer(spa)->avz_rebuild = !marked;
	if (marked && n != referenced)
		return err_set(e, -EINVAL,
			       "the devices name %" PRIu64 " objects of their own, and the map of these lists %" PRIu64,
			       referenced, n);
	return 0;
}

/* --- the configuration --- */
void spa_config_dirty(struct spa *spa)
{
	atomic_store(&spa_writer(spa)->config_dirty, true);
}

void spa_config_sync(struct spa *spa, struct tx *tx)
{
	struct spa_writer *w = spa_writer(spa);
	struct spa_priv *pr = spa_priv(spa);
	struct nvlist *l, *old;
	int err;

	if (!atomic_exchange(&w->config_dirty, false))
		return;
	err = avz_sync(spa, tx);
	l = spa_config_full(spa, tx->txg, CONFIG_MOS);
	if (!err)
		err = mos_nvlist_write(spa->mos, w->config_object, l, tx);
	if (err)
		spa_sync_failed(spa, "writing the configuration: %s", err_words(err));
	pthread_mutex_lock(&pr->state_lock);
	old = spa->config;
	spa->config = l;
	pthread_mutex_unlock(&pr->state_lock);
	nvlist_destroy(old);
	w->labels_due = true;
}
