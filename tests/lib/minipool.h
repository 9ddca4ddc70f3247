/*
 * tests/lib/minipool.h: opens a pool of one device by its label, without spa/: for tools that look at the blocks of
 * golden pools.
 */
#ifndef TESTS_MINIPOOL_H
#define TESTS_MINIPOOL_H

#include "dsl/dsl.h"
#include "vdev/label.h"

struct minipool {
	struct disk *disk;
	struct vdev *root;
	struct label labels[VDEV_LABELS];
	struct uberblock ub;
	struct zio_pool zp;
	struct dmu_pool dp;
	struct objset *mos;
	struct dsl_pool *dsl;
};

static void minipool_best(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct minipool *p = arg;

	if (uberblock_compare(ub, &p->ub) > 0)
		p->ub = *ub;
}

static int minipool_leaf(void *arg, struct vdev *leaf, struct disk **out, struct err *e)
{
	return disk_open(arg, DISK_RDONLY, out, e);
}

static int minipool_vdevs(struct minipool *p, const char *path, struct err *e)
{
	autonv struct nvlist *root = nvlist_create();
	struct nvlist *top;
	uint8_t salt[32];
	int err;

	if (!p->labels[0].config || nvlist_list(p->labels[0].config, "vdev_tree", &top))
		return err_set(e, -EINVAL, "label 0 has no vdev_tree");
	nvlist_add_string(root, "type", "root");
	nvlist_add_u64(root, "id", 0);
	nvlist_add_u64(root, "guid", nvlist_u64_or(p->labels[0].config, "pool_guid", 1));
	nvlist_add_lists(root, "children", &top, 1);
	err = vdev_tree_create(root, &p->root, e);
	if (err)
		return err;
	vdev_tree_open(p->root, minipool_leaf, (void *)path);
	for (unsigned l = 0; l < VDEV_LABELS; l++)
		uberblock_each(p->disk, l, nvlist_u64_or(top, "ashift", 9), minipool_best, p);
	p->zp = (struct zio_pool){
	    .guid = nvlist_u64_or(p->labels[0].config, "pool_guid", 1), .root = p->root, .max_txg = UINT64_MAX};
	p->dp = (struct dmu_pool){.arc = arc_create(64u << 20), .zp = &p->zp};
	struct bp bp;
	bp_decode(&bp, p->ub.rootbp, p->ub.swapped);
	err = objset_open(&p->dp, 0, &bp, NULL, &p->mos, e);
	if (!err && zap_lookup(p->mos, 1, "org.illumos:checksum_salt", 1, 32, salt) == 0)
		p->zp.salt = checksum_salt_create(salt);
	return err ? err : dsl_pool_open(&p->dp, p->mos, "pool", &p->dsl, e);
}

static int minipool_open(struct minipool *p, const char *path, struct err *e)
{
	int err = disk_open(path, DISK_RDONLY, &p->disk, e);

	if (!err)
		err = label_read_all(p->disk, p->labels);
	return err ? err : minipool_vdevs(p, path, e);
}

#endif
