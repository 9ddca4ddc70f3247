/*
 * spa/layout.h: from the devices that a command names to a tree that can be opened (docs/format/06, 11.1 - 11.3; 01,
 * 9.1). Private to spa/. Blocking.
 */
#ifndef SPA_LAYOUT_H
#define SPA_LAYOUT_H

#include "spa/spa_impl.h"

struct spa_layout_args {
	const struct nvlist *tree; /* as struct spa_create has it */
	const struct vdev *root;   /* the pool's, when devices are added to one; NULL: a new pool */
	uint64_t create_txg;
	uint64_t ashift; /* of what names none; 0: by the devices */
	bool force;      /* in use, or of mixed replication */
};

/* A copy of the tree with guids, ids, sector shifts; every device looked at. Spares and cache devices are under
 * "spares" and "l2cache". -EBUSY, -EINVAL, -EOVERFLOW (too small) with the device's name. */
int spa_layout_make(const struct spa_layout_args *args, struct nvlist **out, struct err *e);
/* Opens a leaf of such a tree for writing, without looking for a label. */
int spa_layout_open(void *arg, struct vdev *leaf, struct disk **out, struct err *e);
/* log2 of the metaslab size (06, 2.1). */
unsigned spa_metaslab_shift(uint64_t asize);
/* All four labels of every leaf below vd (01, 2.6). */
int spa_labels_init(struct spa *spa, struct vdev *vd, uint64_t create_txg, struct err *e);

int spa_in_use_check(struct disk *d, const char *path, bool force, struct err *e);
/* The device cannot be had: when a pool here has it, e says which. */
void spa_in_use_explain(const char *path, struct err *e);

#endif
