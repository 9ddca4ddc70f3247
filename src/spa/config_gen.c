/*
 * The lists that describe a pool: in labels one top-level (docs/format/01-pool.md, 4.1), in the MOS and the cache file
 * the whole tree (4.2). A device's node starts from what was read or made for it, so that keys of other software stay.
 */
#include "base/os.h"
#include "spa/search.h"
#include "spa/spa_write.h"

/* --- one device --- */
static void flag_put(struct nvlist *l, const char *key, bool on)
{
	if (on)
		nvlist_add_u64(l, key, 1);
	else
		nvlist_remove(l, key);
}

static void number_put(struct nvlist *l, const char *key, uint64_t v)
{
	if (v)
		nvlist_add_u64(l, key, v);
	else
		nvlist_remove(l, key);
}

static void top_put(struct nvlist *l, const struct vdev *vd)
{
	nvlist_add_u64(l, "metaslab_array", vd->ms_array);
	nvlist_add_u64(l, "metaslab_shift", vd->ms_shift);
	nvlist_add_u64(l, "ashift", vd->kind == VDEV_HOLE ? 0 : vd->ashift);
	nvlist_add_u64(l, "asize", vd->asize);
	if (vdev_is_concrete(vd))
		nvlist_add_u64(l, "min_alloc", vdev_min_alloc(vd));
	nvlist_add_u64(l, "is_log", vd->is_log);
	flag_put(l, "non_allocating", vd->noalloc);
}

static void leaf_put(struct nvlist *l, const struct vdev *vd)
{
	if (vd->path)
		nvlist_add_string(l, "path", vd->path);
	number_put(l, "DTL", vd->dtl_object);
	flag_put(l, "offline", vd->offline && !vd->offline_temporary);
	flag_put(l, "is_spare", vd->is_spare);
	flag_put(l, "not_present", vd->not_present);
}

static void mos_keys_put(struct nvlist *l, const struct vdev *vd, unsigned flags)
{
	static const char *const keys[] = {"com.delphix:vdev_zap_top", "com.delphix:vdev_zap_leaf",
					   "com.klarasystems:vdev_zap_root", "com.datto:resilver_defer"};

	for (size_t i = 0; i < ARRAY_LEN(keys) && !(flags & CONFIG_MOS); i++)
		nvlist_remove(l, keys[i]);
	if (!(flags & CONFIG_MOS))
		return;
	if (vd->top == vd && vd->kind != VDEV_ROOT)
		number_put(l, "com.delphix:vdev_zap_top", vd->zap_top);
	if (vdev_is_leaf(vd))
		number_put(l, "com.delphix:vdev_zap_leaf", vd->zap_leaf);
}

static void children_put(struct nvlist *l, const struct vdev *vd, unsigned flags)
{
	struct nvlist **child;

	if (vd->nchildren == 0 && vd->kind != VDEV_INDIRECT && vd->kind != VDEV_ROOT)
		return;
	child = xcalloc(vd->nchildren + 1, sizeof(*child));
	for (unsigned i = 0; i < vd->nchildren; i++)
		child[i] = spa_vdev_config(vd->child[i], flags);
	nvlist_add_lists(l, "children", child, vd->nchildren);
	for (unsigned i = 0; i < vd->nchildren; i++)
		nvlist_destroy(child[i]);
	free(child);
}

struct nvlist *spa_vdev_config(const struct vdev *vd, unsigned flags)
{
	struct nvlist *l = nvlist_copy(vd->config);

	nvlist_remove(l, "alloc_bias"); /* its place is the top-level's ZAP */
	nvlist_add_string(l, "type", vd->ops->type);
	nvlist_add_u64(l, "id", vd->id);
	nvlist_add_u64(l, "guid", vd->guid);
	flag_put(l, "is_hole", vd->kind == VDEV_HOLE);
	number_put(l, "create_txg", vd->create_txg);
	if (vd->top == vd && vd->kind != VDEV_ROOT)
		top_put(l, vd);
	if (vdev_is_leaf(vd))
		leaf_put(l, vd);
	mos_keys_put(l, vd, flags);
	children_put(l, vd, flags);
	return l;
}

/* --- the pool --- */
static void holes_put(struct nvlist *l, const struct vdev *root)
{
	uint64_t *hole = xcalloc(root->nchildren + 1, sizeof(*hole));
	size_t n = 0;

	for (unsigned i = 0; i < root->nchildren; i++)
		if (root->child[i]->kind == VDEV_HOLE)
			hole[n++] = i;
	if (n)
		nvlist_add_u64s(l, "hole_array", hole, n);
	free(hole);
	nvlist_add_u64(l, "vdev_children", root->nchildren);
}

static void allocation_put(struct nvlist *l, const struct vdev *root)
{
	uint64_t least = 0, most = 0;

	for (unsigned i = 0; i < root->nchildren; i++) {
		const struct vdev *top = root->child[i];
		uint64_t bytes;

		if (!vdev_is_concrete(top) || spa_top_class(top) != SPA_CLASS_NORMAL)
			continue;
		bytes = vdev_min_alloc(top);
		least = least ? MIN(least, bytes) : bytes;
		most = MAX(most, bytes);
	}
	number_put(l, "min_alloc", least);
	number_put(l, "max_alloc", most);
}

static void features_put(struct nvlist *l, struct spa *spa)
{
	struct nvlist *features;

	if (spa->version < SPA_VERSION)
		return;
	features = nvlist_create();
	for (size_t i = 0; i < spa_feature_table_len; i++)
		if (spa_feature_table[i].mos && spa_feature_is_active(spa, spa_feature_table[i].guid))
			nvlist_add_boolean(features, spa_feature_table[i].guid);
	nvlist_take_list(l, "features_for_read", features);
}

static void string_keep(struct nvlist *l, struct spa *spa, const char *key)
{
	const char *v;
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	if (spa->config && nvlist_string(spa->config, key, &v) == 0 && v[0])
		nvlist_add_string(l, key, v);
}

static void number_keep(struct nvlist *l, struct spa *spa, const char *key)
{
	uint64_t v;
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	if (spa->config && nvlist_u64(spa->config, key, &v) == 0)
		nvlist_add_u64(l, key, v);
}

/* The words that all lists begin with. */
static struct nvlist *head_create(struct spa *spa, uint64_t txg)
{
	struct spa_writer *w = spa_writer(spa);
	struct nvlist *l = nvlist_create();

	nvlist_add_u64(l, "version", spa->version);
	nvlist_add_string(l, "name", w->stored_name);
	nvlist_add_u64(l, "state", atomic_load(&w->pool_state));
	nvlist_add_u64(l, "txg", txg);
	nvlist_add_u64(l, "pool_guid", spa->guid);
	number_keep(l, spa, "errata");
	allocation_put(l, spa->root);
	string_keep(l, spa, "comment");
	string_keep(l, spa, "compatibility");
	if (os_hostid())
		nvlist_add_u64(l, "hostid", os_hostid());
	nvlist_add_string(l, "hostname", os_hostname());
	return l;
}

/* Words of other software in the configuration. */
static void unknown_keep(struct nvlist *l, struct spa *spa)
{
	static const char *const ours[] = {"comment",
					   "compatibility",
					   "hostid",
					   "hostname",
					   "hole_array",
					   "features_for_read",
					   "com.delphix:has_per_vdev_zaps"};
	autonv struct nvlist *old = NULL;

	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	old = spa->config ? nvlist_copy(spa->config) : nvlist_create();
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p))
		nvlist_remove(old, nvpair_name(p));
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		nvlist_remove(old, ours[i]);
	for (const struct nvpair *p = nvlist_first(old); p; p = nvlist_next(old, p))
		nvlist_add_pair(l, p);
}

struct nvlist *spa_config_full(struct spa *spa, uint64_t txg, unsigned flags)
{
	struct nvlist *l = head_create(spa, txg);

	holes_put(l, spa->root);
	nvlist_take_list(l, "vdev_tree", spa_vdev_config(spa->root, flags));
	features_put(l, spa);
	unknown_keep(l, spa);
	nvlist_add_boolean(l, "com.delphix:has_per_vdev_zaps");
	return l;
}

struct nvlist *spa_config_label(struct spa *spa, const struct vdev *top, uint64_t txg)
{
	struct nvlist *l = head_create(spa, txg);

	nvlist_add_u64(l, "top_guid", top->guid);
	if (top->is_log)
		nvlist_add_u64(l, "is_log", 1);
	holes_put(l, spa->root);
	nvlist_take_list(l, "vdev_tree", spa_vdev_config(top, 0));
	features_put(l, spa);
	return l;
}

void spa_config_label_leaf(struct nvlist *label, const struct vdev *leaf)
{
	nvlist_add_u64(label, "guid", leaf->guid);
	if (leaf->is_spare)
		nvlist_add_u64(label, "is_spare", 1);
}
