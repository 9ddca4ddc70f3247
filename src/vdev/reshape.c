/*
 * The shape of a tree that is in use: a device more, and what is left of one that was taken away. Whoever looks at
 * root->child at the same time sees the old shape or the new one.
 */
#include "vdev/vdev_impl.h"

#define ROOT_CHILDREN_STEP 64u

/* A former array of children: somebody may still be walking it. */
struct retired {
	struct retired *next;
	struct vdev **child;
};

size_t vdev_children_room(const struct vdev *vd, size_t n)
{
	return vd->kind == VDEV_ROOT ? ROUND_UP(n + 1, ROOT_CHILDREN_STEP) : n + 1;
}

void vdev_add_top(struct vdev *root, struct vdev *top)
{
	unsigned n = root->nchildren;

	BUG_ON(root->kind != VDEV_ROOT || top->parent || top->id != n);
	top->parent = root;
	if (vdev_children_room(root, n) != vdev_children_room(root, n - 1)) {
		struct vdev **more = xcalloc(vdev_children_room(root, n), sizeof(struct vdev *));
		struct retired *r = xcalloc(1, sizeof(*r));

		memcpy(more, root->child, n * sizeof(struct vdev *));
		*r = (struct retired){root->priv, root->child};
		root->priv = r;
		__atomic_store_n(&root->child, more, __ATOMIC_RELEASE);
	}
	root->child[n] = top;
	__atomic_store_n(&root->nchildren, n + 1, __ATOMIC_RELEASE);
	vdev_set_state(top, top->state, top->aux);
}

void vdev_root_destroy(struct vdev *root)
{
	struct retired *r, *next;

	for (r = root->priv; r; r = next) {
		next = r->next;
		free(r->child);
		free(r);
	}
}

void vdev_to_hole(struct vdev *top)
{
	struct nvlist *config = nvlist_create();
	unsigned n = top->nchildren;

	BUG_ON(top->top != top || !top->parent);
	top->ops = &vdev_hole_ops;
	top->kind = VDEV_HOLE;
	top->is_hole = true;
	top->nchildren = 0;
	for (unsigned i = 0; i < n; i++)
		vdev_tree_destroy(top->child[i]);
	top->guid = top->ms_array = top->ms_shift = top->create_txg = top->zap_top = top->zap_leaf = 0;
	top->asize = 0;
	top->nparity = top->dtl_object = 0;
	top->is_log = top->offline = top->not_present = top->removing = top->noalloc = false;
	top->alloc_bias = NULL;
	free(top->path);
	free(top->was_path);
	top->path = top->was_path = NULL;
	nvlist_add_string(config, "type", "hole");
	nvlist_add_u64(config, "is_hole", 1);
	nvlist_destroy(top->config);
	top->config = config;
	vdev_set_state(top, VDEV_STATE_HEALTHY, VDEV_AUX_NONE);
}
