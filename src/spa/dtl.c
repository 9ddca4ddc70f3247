/*
 * What devices lack (docs/format/06-allocation-and-vdevs.md, 4.4): their dirty time logs, stored with the group in
 * which they changed. A log is written whole each time: it is short.
 */
#include "alloc/spacemap.h"
#include "spa/spa_write.h"

#define DTL_BLOCK         4096u
#define FEATURE_HISTOGRAM "com.delphix:spacemap_histogram"

void spa_dtl_dirty(struct spa *spa, struct vdev *leaf)
{
	atomic_store(&spa_writer(spa)->dtl_dirty, true);
	atomic_store(&leaf->dtl_unsynced, true);
}

int spa_dtl_destroy(struct spa *spa, struct vdev *leaf, struct tx *tx)
{
	bool histogram = false;
	int err = spacemap_destroy(spa->mos, leaf->dtl_object, tx, &histogram);

	leaf->dtl_object = 0;
	if (!err && histogram)
		spa_feature_count(spa, FEATURE_HISTOGRAM, -1, tx);
	return err;
}

static int dtl_create(struct spa *spa, struct vdev *leaf, struct tx *tx)
{
	bool histogram = spa_feature_is_enabled(spa, FEATURE_HISTOGRAM);
	int err = spacemap_create(spa->mos, DTL_BLOCK, histogram, tx, &leaf->dtl_object);

	if (!err && histogram)
		spa_feature_count(spa, FEATURE_HISTOGRAM, 1, tx);
	spa_config_dirty(spa);
	return err;
}

static int dtl_write(struct spa *spa, struct vdev *leaf, const struct rangetree *missing, struct tx *tx)
{
	bool two_words = spa_feature_is_active(spa, "com.delphix:spacemap_v2");
	static const uint64_t no_histogram[32];
	struct spacemap *sm;
	int err = leaf->dtl_object ? 0 : dtl_create(spa, leaf, tx);

	if (!err)
		err = spacemap_open(spa->mos, leaf->dtl_object, 0, 0, two_words, &sm);
	if (err)
		return err;
	err = spacemap_truncate(sm, tx);
	if (!err)
		err = spacemap_append(sm, missing, false, tx);
	if (!err)
		err = spacemap_header_write(sm, no_histogram, tx);
	spacemap_close(sm);
	return err;
}

static int dtls_write(struct spa *spa, struct vdev *vd, struct tx *tx)
{
	struct rangetree missing;
	int err = 0;

	for (unsigned i = 0; i < vd->nchildren && !err; i++)
		err = dtls_write(spa, vd->child[i], tx);
	if (err || !vdev_is_leaf(vd) || !atomic_exchange(&vd->dtl_unsynced, false))
		return err;
	rangetree_init(&missing);
	vdev_dtl_copy(vd, &missing);
	if (missing.space || vd->dtl_object)
		err = dtl_write(spa, vd, &missing, tx);
	rangetree_clear(&missing);
	return err;
}

void spa_dtl_sync(struct spa *spa, struct tx *tx)
{
	int err;

	if (!atomic_exchange(&spa_writer(spa)->dtl_dirty, false))
		return;
	err = dtls_write(spa, spa->root, tx);
	if (err)
		spa_sync_failed(spa, "storing what devices lack: %s", err_words(err));
}
