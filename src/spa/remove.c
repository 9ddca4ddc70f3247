/*
 * Taking log devices out of a pool (docs/format/06-allocation-and-vdevs.md, 4.6): nothing new goes there; when nothing
 * is left on it, a hole takes its place.
 */
#include "disk/partition.h"
#include "spa/spa_write.h"
#include "zil/zil.h"

#define DRAIN_ROUNDS 8 /* groups in which logs leave the device */

/* --- emptying --- */
static int log_leave(void *arg, struct dsl_dataset *ds)
{
	struct objset *os;

	if (bp_is_hole(&ds->bp) || dsl_dataset_open_raw(ds, &os, NULL))
		return 0;
	if (os->zil)
		zil_restart(os->zil);
	objset_release(os);
	return 0;
}

static int device_drain(struct spa *spa, struct vdev *top, struct err *e)
{
	struct spa_writer *w = spa_writer(spa);
	int err = alloc_drain_top(w->alloc, top);

	for (unsigned i = 0; err == -EBUSY && i < DRAIN_ROUNDS; i++) {
		dsl_each_head(spa->dsl, log_leave, NULL);
		if (txg_wait_synced(w->txgs, 0))
			return err_set(e, -EIO, "the pool cannot be written");
		err = alloc_drain_top(w->alloc, top);
	}
	if (!err)
		return 0;
	alloc_undrain_top(w->alloc, top);
	err_set(e, err, "the device holds intent logs that were not replayed yet");
	err_hint(e, "mount the file systems and open the volumes they are of, or destroy them");
	return err;
}

/* --- the task --- */
static int zap_drop(struct spa *spa, uint64_t avz, uint64_t *zap, struct tx *tx)
{
	int err;

	if (!*zap)
		return 0;
	err = dmu_object_free(spa->mos, *zap, tx);
	if (!err)
		err = zap_remove_int(spa->mos, avz, *zap, tx);
	*zap = 0;
	return err;
}

static int objects_drop(struct spa *spa, uint64_t avz, struct vdev *vd, struct tx *tx)
{
	int err = zap_drop(spa, avz, &vd->zap_leaf, tx);

	if (!err)
		err = zap_drop(spa, avz, &vd->zap_top, tx);
	if (!err && vd->dtl_object)
		err = spa_dtl_destroy(spa, vd, tx);
	for (unsigned i = 0; i < vd->nchildren && !err; i++)
		err = objects_drop(spa, avz, vd->child[i], tx);
	return err;
}

static void leaves_close(struct spa *spa, struct vdev *vd)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		leaves_close(spa, vd->child[i]);
	if (vdev_is_leaf(vd))
		spa_works_forget(spa, vd);
	if (vdev_is_leaf(vd))
		vdev_leaf_close(vd, VDEV_STATE_CLOSED, VDEV_AUX_NONE);
}

static void remove_sync(struct spa *spa, void *arg, struct tx *tx)
{
	struct vdev *top = arg;
	autofree char *name = vdev_name(top, 0);
	autofree char *text = xasprintf("%s vdev %" PRIu64 " (log) %s", spa->name, top->id, name);
	uint64_t avz = 0;
	int err = spa_mos_u64(spa->mos, "com.delphix:vdev_zap_map", &avz);

	leaves_close(spa, top);
	if (!err)
		err = alloc_remove_top(spa_writer(spa)->alloc, top, tx);
	if (!err)
		err = objects_drop(spa, avz, top, tx);
	if (err)
		spa_sync_failed(spa, "removing a device: %s", err_words(err));
	vdev_to_hole(top);
	spa_history_internal(spa, "vdev remove", NULL, tx, text);
	spa_config_dirty(spa);
}

/* --- labels that no longer count --- */
struct former {
	char **path;
	uint64_t *guid;
	size_t n;
};

static void former_collect(const struct vdev *vd, struct former *f)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		former_collect(vd->child[i], f);
	if (!vdev_is_leaf(vd) || !vd->path)
		return;
	f->path = xrealloc(f->path, (f->n + 1) * sizeof(*f->path));
	f->guid = xrealloc(f->guid, (f->n + 1) * sizeof(*f->guid));
	f->path[f->n] = xstrdup(vd->path);
	f->guid[f->n++] = vd->guid;
}

static void former_wipe(const struct former *f, uint64_t pool_guid)
{
	for (size_t i = 0; i < f->n; i++) {
		struct label label[VDEV_LABELS];
		struct disk *d;
		bool ours = false;

		if (partition_disk_open(f->path[i], DISK_RDWR, &d, NULL))
			continue;
		if (label_read_all(d, label) == 0) {
			for (unsigned l = 0; l < VDEV_LABELS; l++)
				ours |= label[l].config && nvlist_u64_or(label[l].config, "guid", 0) == f->guid[i] &&
					nvlist_u64_or(label[l].config, "pool_guid", 0) == pool_guid;
			label_free_all(label);
		}
		if (ours)
			label_clear(d);
		disk_close(d);
	}
}

static void former_free(struct former *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->path[i]);
	free(f->path);
	free(f->guid);
}

/* --- the call --- */
static int log_remove(struct spa *spa, struct vdev *top, struct err *e)
{
	struct spa_task task = {.spa = spa, .sync = remove_sync, .arg = top, .policy = DSL_SPACE_NONE};
	struct former f = {0};
	int err;

	if (spa_has_checkpoint(spa))
		return err_set(e, -EBUSY, "the pool has a checkpoint: devices cannot be removed until it is discarded");
	err = device_drain(spa, top, e);
	if (err)
		return err;
	former_collect(top, &f);
	err = spa_task_run(&task, e);
	if (!err)
		former_wipe(&f, spa->guid);
	former_free(&f);
	if (!err)
		spa_cachefile_update(spa);
	return err;
}

int spa_remove_vdev(struct spa *spa, const char *name, struct err *e)
{
	struct vdev *vd;
	int err = spa_writable_check(spa, e);

	if (err)
		return err;
	err = spa_spare_remove(spa, name, e);
	if (err != -ENOENT)
		return err;
	dsl_config_enter(spa->dsl);
	vd = spa_vdev_find(spa, name, e);
	dsl_config_exit(spa->dsl);
	if (!vd)
		return -ENOENT;
	if (vd->top != vd)
		return err_set(e, -EINVAL, "%s is part of a device: only whole ones can be removed", name);
	if (!vd->is_log)
		return err_set(e, -ENOTSUP, "only log devices and spares can be removed");
	return log_remove(spa, vd, e);
}
