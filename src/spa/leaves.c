/*
 * The devices of a tree: opened by guid, summed up, and named when they are missing.
 */
#include "disk/partition.h"
#include "spa/spa_impl.h"

static const char *device_path(const struct nvlist *devices, uint64_t guid)
{
	char key[32];

	snprintf(key, sizeof(key), "%" PRIx64, guid);
	return nvlist_string_or(devices, key, NULL);
}

static bool label_names_leaf(struct disk *d, uint64_t pool_guid, uint64_t guid, uint64_t orig_guid)
{
	struct label label[VDEV_LABELS];
	bool ok = false;

	if (label_read_all(d, label))
		return false;
	for (unsigned l = 0; l < VDEV_LABELS && !ok; l++) {
		uint64_t found;

		if (!label[l].config || nvlist_u64_or(label[l].config, "split_guid", 0) == pool_guid ||
		    !nvlist_exists(label[l].config, "state") ||
		    nvlist_u64_or(label[l].config, "pool_guid", 0) != pool_guid ||
		    nvlist_u64(label[l].config, "guid", &found))
			continue;
		ok = found == guid || (orig_guid && found == orig_guid);
	}
	label_free_all(label);
	return ok;
}

int spa_leaf_open(void *arg, struct vdev *leaf, struct disk **out, struct err *e)
{
	struct spa_opener *o = arg;
	uint64_t orig = nvlist_u64_or(leaf->config, "orig_guid", 0);
	const char *path = device_path(o->devices, leaf->guid);
	autofree char *stage = NULL;
	struct err why = ERR_INIT;
	int err;

	if (!path && orig)
		path = device_path(o->devices, orig);
	if (!path)
		return err_set(e, -ENOENT, "no device with guid %" PRIu64 " was found", leaf->guid);
	stage = xasprintf("opening %s", path);
	if (o->stop && o->stop(o->stop_arg, stage))
		return -EINTR;
	err = partition_disk_open(path, o->flags, out, &why);
	if (err && err != -ENOENT && !o->failure[0])
		str_copy(o->failure, sizeof(o->failure), why.text);
	if (err)
		return err_set(e, err, "%s", why.text);
	if (!label_names_leaf(*out, o->pool_guid, leaf->guid, orig)) {
		disk_close(*out);
		*out = NULL;
		return err_set(e, -EINVAL, "%s: no label of this device", path);
	}
	free(leaf->path);
	leaf->path = xstrdup(path);
	return 0;
}

/* --- over a tree --- */
uint64_t spa_guid_sum(const struct vdev *vd)
{
	uint64_t sum = vd->guid;

	for (unsigned i = 0; i < vd->nchildren; i++)
		sum += spa_guid_sum(vd->child[i]);
	return sum;
}

void spa_missing_list(const struct vdev *vd, struct str *out)
{
	autofree char *name = NULL;

	if (vdev_is_readable(vd) && vd->state == VDEV_STATE_HEALTHY)
		return;
	for (unsigned i = 0; i < vd->nchildren; i++)
		spa_missing_list(vd->child[i], out);
	if (vd->nchildren || vd->kind == VDEV_HOLE || vd->kind == VDEV_ROOT || vdev_is_readable(vd))
		return;
	if (out->len)
		str_add(out, ", ");
	if (vd->kind == VDEV_MISSING) {
		str_addf(out, "top-level device %" PRIu64, vd->id);
		return;
	}
	name = vdev_name(vd, VDEV_NAME_GUID);
	if (vd->was_path || vd->path)
		str_addf(out, "%s (guid %s)", vd->was_path ? vd->was_path : vd->path, name);
	else
		str_addf(out, "guid %s", name);
}
