/*
 * vdev.c: the tree of virtual devices: built from a configuration with checks, opened, and settled into states.
 */
#include "vdev/vdev_impl.h"

#define TREE_DEPTH_MAX    6 /* root, top-level, spare, replacing, leaf */
#define QUALITY_DEPTH_MAX 16

static const struct vdev_ops *const vdev_kinds[] = {
    &vdev_root_ops,  &vdev_disk_ops,  &vdev_file_ops,   &vdev_mirror_ops, &vdev_replacing_ops, &vdev_spare_ops,
    &vdev_raidz_ops, &vdev_draid_ops, &vdev_dspare_ops, &vdev_hole_ops,   &vdev_missing_ops,   &vdev_indirect_ops,
};

static const struct vdev_ops *vdev_ops_find(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(vdev_kinds); i++)
		if (strcmp(vdev_kinds[i]->type, type) == 0)
			return vdev_kinds[i];
	return NULL;
}

bool vdev_is_leaf(const struct vdev *vd)
{
	return vd->kind == VDEV_DISK || vd->kind == VDEV_FILE || vd->kind == VDEV_DSPARE;
}

bool vdev_is_concrete(const struct vdev *vd)
{
	return vd->kind != VDEV_ROOT && vd->kind != VDEV_HOLE && vd->kind != VDEV_MISSING && vd->kind != VDEV_INDIRECT;
}

bool vdev_is_readable(const struct vdev *vd)
{
	return vd->state >= VDEV_STATE_DEGRADED && vd->kind != VDEV_HOLE && vd->kind != VDEV_MISSING;
}

bool vdev_is_writable(const struct vdev *vd)
{
	return (vdev_is_concrete(vd) || vd->kind == VDEV_ROOT) && vdev_is_readable(vd) && !vd->cant_write &&
	       (!vd->queue || vd->writable);
}

struct vdev *vdev_root(struct vdev *vd)
{
	while (vd->parent)
		vd = vd->parent;
	return vd;
}

void vdev_each_leaf(struct vdev *vd, void (*fn)(void *arg, struct vdev *leaf), void *arg)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		vdev_each_leaf(vd->child[i], fn, arg);
	if (vd->queue)
		fn(arg, vd);
}

bool vdev_is_mirror_like(const struct vdev *vd)
{
	return vd->kind == VDEV_MIRROR || vd->kind == VDEV_REPLACING || vd->kind == VDEV_SPARE;
}

/* Configuration */

/* Numbers of a top-level that later arithmetic relies on. */
static int vdev_take_top(struct vdev *vd, const struct nvlist *nv, struct err *e)
{
	vd->ashift = nvlist_u64_or(nv, "ashift", VDEV_ASHIFT_MIN);
	vd->asize = nvlist_u64_or(nv, "asize", 0);
	vd->ms_array = nvlist_u64_or(nv, "metaslab_array", 0);
	vd->ms_shift = nvlist_u64_or(nv, "metaslab_shift", 0);
	vd->is_log = nvlist_u64_or(nv, "is_log", 0) != 0;
	vd->removing = nvlist_u64_or(nv, "removing", 0) != 0;
	vd->noalloc = nvlist_u64_or(nv, "non_allocating", 0) != 0;
	vd->zap_top = nvlist_u64_or(nv, "com.delphix:vdev_zap_top", 0);
	if (vd->kind == VDEV_HOLE || vd->kind == VDEV_MISSING) {
		vd->ashift = VDEV_ASHIFT_MIN;
		vd->asize = vd->ms_array = vd->ms_shift = 0;
		return 0;
	}
	if (vd->ashift < VDEV_ASHIFT_MIN || vd->ashift > VDEV_ASHIFT_MAX)
		return err_set(e, -EINVAL, "sector shift %llu is outside 9 to 16", (unsigned long long)vd->ashift);
	if (vd->asize > UINT64_C(1) << 62)
		return err_set(e, -EINVAL, "impossible size %llu", (unsigned long long)vd->asize);
	if (vd->ms_shift != 0 && (vd->ms_shift < vd->ashift || vd->ms_shift > 55))
		return err_set(e, -EINVAL, "impossible metaslab shift %llu", (unsigned long long)vd->ms_shift);
	return 0;
}

static void vdev_take_leaf(struct vdev *vd, const struct nvlist *nv)
{
	const char *path = NULL;
	/* Stored faults count after an import only when an administrator set them (06, 1.8). */
	bool external = strcmp(nvlist_string_or(nv, "aux_state", ""), "external") == 0;

	if (nvlist_string(nv, "path", &path) == 0)
		vd->path = xstrdup(path);
	vd->dtl_object = nvlist_u64_or(nv, "DTL", 0);
	vd->zap_leaf = nvlist_u64_or(nv, "com.delphix:vdev_zap_leaf", 0);
	vd->offline = nvlist_u64_or(nv, "offline", 0) != 0;
	vd->faulted = external && nvlist_u64_or(nv, "faulted", 0) != 0;
	vd->removed = external && nvlist_u64_or(nv, "removed", 0) != 0;
	vd->is_spare = nvlist_u64_or(nv, "is_spare", 0) != 0;
}

static int vdev_take_config(struct vdev *vd, const struct nvlist *nv, struct err *e)
{
	int err;

	vd->config = nvlist_copy(nv);
	nvlist_remove(vd->config, "children");
	vd->guid = nvlist_u64_or(nv, "guid", 0);
	vd->create_txg = nvlist_u64_or(nv, "create_txg", 0);
	vd->not_present = nvlist_u64_or(nv, "not_present", 0) != 0;
	vd->is_hole = vd->kind == VDEV_HOLE;
	if (vd->guid == 0 && vd->kind != VDEV_HOLE && vd->kind != VDEV_MISSING)
		return err_set(e, -EINVAL, "%s without a guid", vd->ops->type);
	if (vd->kind == VDEV_ROOT)
		return 0;
	if (vd->top == vd && (err = vdev_take_top(vd, nv, e)) != 0)
		return err;
	vd->ashift = vd->top->ashift;
	if (vdev_is_leaf(vd))
		vdev_take_leaf(vd, nv);
	return 0;
}

static bool vdev_may_have_child(const struct vdev *parent, const struct vdev *child)
{
	switch (parent->kind) {
	case VDEV_ROOT:
		return child->kind != VDEV_ROOT && child->kind != VDEV_DSPARE;
	case VDEV_MIRROR: /* zpool makes no mirrors of them, ztest does */
		return vdev_is_leaf(child) || (child->kind >= VDEV_REPLACING && child->kind <= VDEV_DRAID);
	case VDEV_REPLACING:
	case VDEV_SPARE:
	case VDEV_RAIDZ:
	case VDEV_DRAID:
		return vdev_is_leaf(child) || child->kind == VDEV_REPLACING || child->kind == VDEV_SPARE;
	default:
		return false;
	}
}

static int vdev_create(const struct nvlist *nv, struct vdev *parent, uint64_t id, unsigned depth, struct vdev **out,
		       struct err *e);

static int vdev_create_children(struct vdev *vd, const struct nvlist *nv, unsigned depth, struct err *e)
{
	struct nvlist *const *child;
	size_t n = 0;
	int err = nvlist_lists(nv, "children", &child, &n);

	if (err == -ENOENT)
		n = 0;
	else if (err)
		return err_set(e, -EINVAL, "%s: the list of children is no list", vd->ops->type);
	bool interior = vd->kind == VDEV_ROOT || vdev_is_mirror_like(vd) || vd->kind == VDEV_RAIDZ ||
			vd->kind == VDEV_DRAID;
	if (interior != (n > 0) && vd->kind != VDEV_ROOT)
		return err_set(e, -EINVAL, "%s with %zu children", vd->ops->type, n);
	if (n > UINT64_C(1) << 24)
		return err_set(e, -EINVAL, "too many devices");
	vd->child = xcalloc(vdev_children_room(vd, n), sizeof(*vd->child));
	for (size_t i = 0; i < n; i++) {
		err = vdev_create(child[i], vd, i, depth + 1, &vd->child[i], e);
		if (err)
			return err;
		vd->nchildren++;
		if (!vdev_may_have_child(vd, vd->child[i]))
			return err_set(e, -EINVAL, "a %s cannot hold a %s", vd->ops->type, vd->child[i]->ops->type);
	}
	return 0;
}

static int vdev_create_checked(struct vdev *vd, const struct nvlist *nv, uint64_t id, unsigned depth, struct err *e)
{
	int err;

	vd->id = nvlist_u64_or(nv, "id", id);
	if (vd->parent && vd->id != id) /* a DVA names a top-level by its place */
		return err_set(e, -EINVAL, "%s has id %llu in place %llu", vd->ops->type, (unsigned long long)vd->id,
			       (unsigned long long)id);
	if ((err = vdev_take_config(vd, nv, e)) != 0)
		return err;
	if ((err = vdev_create_children(vd, nv, depth, e)) != 0)
		return err;
	return vd->ops->create ? vd->ops->create(vd, nv, e) : 0;
}

static int vdev_create(const struct nvlist *nv, struct vdev *parent, uint64_t id, unsigned depth, struct vdev **out,
		       struct err *e)
{
	const char *type;

	if (depth > TREE_DEPTH_MAX)
		return err_set(e, -EINVAL, "device tree is nested too deeply");
	if (nvlist_string(nv, "type", &type) != 0)
		return err_set(e, -EINVAL, "device without a type");
	const struct vdev_ops *ops = vdev_ops_find(type);
	if (!ops)
		return err_set(e, -ENOTSUP, "unknown kind of device '%.64s'", type);

	struct vdev *vd = xcalloc(1, sizeof(*vd));
	vd->ops = ops;
	vd->kind = ops->kind;
	vd->parent = parent;
	vd->top = parent && parent->kind != VDEV_ROOT ? parent->top : vd;
	vd->state = VDEV_STATE_CLOSED;
	rangetree_init(&vd->dtl);
	pthread_mutex_init(&vd->dtl_lock, NULL);
	if (vd->kind == VDEV_DISK || vd->kind == VDEV_FILE)
		vd->queue = vdev_queue_create(vd);
	int err = vdev_create_checked(vd, nv, id, depth, e);
	if (err) {
		vdev_tree_destroy(vd);
		return err;
	}
	*out = vd;
	return 0;
}

int vdev_tree_create(const struct nvlist *tree, struct vdev **root, struct err *e)
{
	return vdev_create(tree, NULL, 0, 0, root, e);
}

void vdev_tree_destroy(struct vdev *vd)
{
	if (!vd)
		return;
	for (unsigned i = 0; i < vd->nchildren; i++)
		vdev_tree_destroy(vd->child[i]);
	if (vd->queue) {
		vdev_probe_join(vd);
		vdev_queue_destroy(vd->queue);
	}
	if (vd->ops->destroy)
		vd->ops->destroy(vd);
	rangetree_clear(&vd->dtl);
	pthread_mutex_destroy(&vd->dtl_lock);
	nvlist_destroy(vd->config);
	free(vd->child);
	free(vd->path);
	free(vd->was_path);
	free(vd);
}

struct vdev *vdev_by_guid(struct vdev *vd, uint64_t guid)
{
	if (vd->guid == guid)
		return vd;
	for (unsigned i = 0; i < vd->nchildren; i++) {
		struct vdev *found = vdev_by_guid(vd->child[i], guid);
		if (found)
			return found;
	}
	return NULL;
}

/* States */

uint64_t vdev_min_child_asize(const struct vdev *vd)
{
	uint64_t min = UINT64_MAX;

	for (unsigned i = 0; i < vd->nchildren; i++) {
		const struct vdev *c = vd->child[i];
		if (c->kind != VDEV_DSPARE && c->asize != 0)
			min = MIN(min, c->asize);
	}
	return min == UINT64_MAX ? 0 : min;
}

uint64_t vdev_max_asize(const struct vdev *vd)
{
	uint64_t min = UINT64_MAX;

	if (vdev_is_leaf(vd))
		return vd->psize > VDEV_LABEL_START_SIZE + VDEV_LABEL_END_SIZE
			   ? vd->psize - VDEV_LABEL_START_SIZE - VDEV_LABEL_END_SIZE
			   : 0;
	if (!vd->ops->asize_of || vd->nchildren == 0)
		return 0;
	for (unsigned i = 0; i < vd->nchildren; i++)
		if (vd->child[i]->kind != VDEV_DSPARE)
			min = MIN(min, vdev_max_asize(vd->child[i]));
	return min == UINT64_MAX ? 0 : vd->ops->asize_of(vd, min);
}

/* 06, 1.8: propagation upwards. Children that can be read only make a vdev that can be read only, not one that is gone.
 */
void vdev_settle_children(struct vdev *vd, unsigned tolerated)
{
	unsigned faulted = 0, degraded = 0, offline = 0, mute = 0;

	for (unsigned i = 0; i < vd->nchildren; i++) {
		const struct vdev *c = vd->child[i];
		if (!vdev_is_concrete(c) && c->kind != VDEV_MISSING)
			continue;
		bool harmless = vd->kind == VDEV_ROOT && c->is_log;
		if (!vdev_is_readable(c)) {
			harmless ? degraded++ : faulted++;
			offline += c->state == VDEV_STATE_OFFLINE;
		} else if (c->state <= VDEV_STATE_DEGRADED) {
			mute += c->cant_write && !harmless;
			degraded++;
		}
	}
	vd->aux = VDEV_AUX_NONE;
	vd->cant_write = faulted + mute > tolerated;
	if (faulted > tolerated) {
		bool all_offline = offline == vd->nchildren;
		vd->state = all_offline ? VDEV_STATE_OFFLINE : VDEV_STATE_CANT_OPEN;
		vd->aux = all_offline ? VDEV_AUX_CHILDREN_OFFLINE : VDEV_AUX_NO_REPLICAS;
	} else {
		vd->state = faulted || degraded ? VDEV_STATE_DEGRADED : VDEV_STATE_HEALTHY;
	}
}

static void vdev_settle(struct vdev *vd)
{
	if (vd->ops->settle)
		vd->ops->settle(vd);
}

static void vdev_tree_settle(struct vdev *vd)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		vdev_tree_settle(vd->child[i]);
	vdev_settle(vd);
}

static void vdev_open_leaves(struct vdev *vd, vdev_open_fn open, void *arg)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		vdev_open_leaves(vd->child[i], open, arg);
	if (vdev_is_leaf(vd))
		vdev_leaf_open(vd, open, arg);
}

void vdev_tree_open(struct vdev *root, vdev_open_fn open, void *arg)
{
	vdev_open_leaves(root, open, arg);
	vdev_tree_settle(root);
}

void vdev_settle_above(struct vdev *leaf)
{
	for (struct vdev *vd = leaf->parent; vd; vd = vd->parent)
		vdev_settle(vd);
}

static void vdev_root_settle(struct vdev *vd)
{
	vdev_settle_children(vd, 0);
}

static void vdev_hole_settle(struct vdev *vd)
{
	vd->state = VDEV_STATE_HEALTHY;
}

static void vdev_missing_settle(struct vdev *vd)
{
	vd->state = VDEV_STATE_CANT_OPEN;
	vd->aux = VDEV_AUX_OPEN_FAILED;
}

/* Sizes */

uint64_t vdev_plain_asize(const struct vdev *top, uint64_t psize, uint64_t txg)
{
	(void)txg;
	return ROUND_UP(psize, UINT64_C(1) << top->ashift);
}

uint64_t vdev_psize_to_asize(const struct vdev *top, uint64_t psize, uint64_t txg)
{
	return top->ops->psize_to_asize(top, psize, txg);
}

uint64_t vdev_deflate_ratio(const struct vdev *top)
{
	const uint64_t psize = 128 << 10;

	return psize / (vdev_psize_to_asize(top, psize, 0) >> 9);
}

uint64_t vdev_min_alloc(const struct vdev *top)
{
	uint64_t ndata = top->kind == VDEV_DRAID ? nvlist_u64_or(top->config, "draid_ndata", 1) : 1;

	return ndata << top->ashift;
}

int vdev_why_not_writable(const struct vdev *vd, struct err *e)
{
	autofree char *name = vd->kind == VDEV_ROOT ? NULL : vdev_name(vd, 0);

	if (vd->kind == VDEV_MISSING)
		return err_set(e, -ENOTSUP, "top-level device %llu is missing", (unsigned long long)vd->id);
	if (vd->kind == VDEV_RAIDZ && nvlist_exists(vd->config, "raidz_expanding"))
		return err_set(e, -ENOTSUP, "%s is being expanded, which OpenZFS has to finish first", name);
	if (vd->top == vd && vd->removing && !vd->is_log)
		return err_set(e, -ENOTSUP, "%s is being removed, which OpenZFS has to finish or cancel first", name);
	for (unsigned i = 0; i < vd->nchildren; i++) {
		int err = vdev_why_not_writable(vd->child[i], e);
		if (err)
			return err;
	}
	return 0;
}

void vdev_set_dirty_percent(struct vdev *root, unsigned percent)
{
	atomic_store_explicit(&root->dirty_percent, percent, memory_order_relaxed);
}

void vdev_set_events(struct vdev *root, const struct vdev_events *ev)
{
	root->events = ev;
}

/* Requests */

int vdev_worse_error(int a, int b)
{
	static const int order[] = {-ECKSUM, -EIO, -ENOMEM, -EINVAL, -ENXIO};

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return a ? a : b;
}

/* depth: a distributed spare stands for a child that may itself be replaced by one; damaged trees make circles. */
static enum vdev_quality quality_at(const struct vdev *vd, uint64_t offset, uint64_t txg, unsigned depth)
{
	enum vdev_quality best = VDEV_QUALITY_NONE;

	if (!vdev_is_readable(vd) || depth > QUALITY_DEPTH_MAX)
		return VDEV_QUALITY_NONE;
	if (vdev_is_leaf(vd)) {
		best = vdev_dtl_has(vd, txg) ? VDEV_QUALITY_STALE : VDEV_QUALITY_GOOD;
		if (vd->kind != VDEV_DSPARE)
			return best;
		const struct vdev *c = vdev_dspare_child(vd, offset);
		enum vdev_quality q = c ? quality_at(c, offset, txg, depth + 1) : VDEV_QUALITY_NONE;
		return MIN(q, best);
	}
	if (!vdev_is_mirror_like(vd))
		return VDEV_QUALITY_GOOD;
	for (unsigned i = 0; i < vd->nchildren && best != VDEV_QUALITY_GOOD; i++)
		best = MAX(best, quality_at(vd->child[i], offset, txg, depth + 1));
	return best;
}

enum vdev_quality vdev_quality(const struct vdev *vd, uint64_t offset, uint64_t txg)
{
	return quality_at(vd, offset, txg, 0);
}

/* Of a device what it is really asked for counts, which its queue knows. */
static void count_request(struct vdev *vd, struct counter *ops, struct counter *bytes, uint64_t size)
{
	if (vd->queue)
		return;
	counter_add(ops, 1);
	counter_add(bytes, size);
}

void vdev_write(struct vdev *vd, struct vdev_io *io)
{
	uint64_t sector = UINT64_C(1) << vd->ashift;

	io->vd = vd;
	io->op = VDEV_OP_WRITE;
	io->priv = NULL;
	if (vd->top == vd) /* parents set them for their children only */
		io->zeros = io->pad = 0;
	if (io->size == 0 || io->size % 512 != 0 || io->size > VDEV_READ_MAX || io->offset % sector != 0 ||
	    io->offset > UINT64_C(1) << 62 ||
	    (vd->top == vd && (io->offset >= vd->asize || ROUND_UP(io->size, sector) > vd->asize - io->offset))) {
		io->done(io, -EINVAL);
		return;
	}
	if (!vd->ops->write || !vdev_is_writable(vd) || io->depth > VDEV_READ_DEPTH_MAX) {
		io->done(io, -ENXIO);
		return;
	}
	count_request(vd, &vd->stats.write_ops, &vd->stats.write_bytes, io->size);
	vd->ops->write(vd, io);
}

void vdev_read(struct vdev *vd, struct vdev_io *io)
{
	io->vd = vd;
	io->op = VDEV_OP_READ;
	io->priv = NULL;
	io->from = NULL;
	io->zeros = io->pad = 0;
	if (io->size == 0 || io->size % 512 != 0 || io->size > VDEV_READ_MAX || io->offset % 512 != 0 ||
	    io->offset > UINT64_C(1) << 62) {
		io->done(io, -EINVAL);
		return;
	}
	if (vd->top == vd && (io->offset >= vd->asize || io->size > vd->asize - io->offset)) {
		io->done(io, -EINVAL);
		return;
	}
	if (!vdev_is_readable(vd) || io->depth > VDEV_READ_DEPTH_MAX) {
		io->done(io, -ENXIO);
		return;
	}
	count_request(vd, &vd->stats.read_ops, &vd->stats.read_bytes, io->size);
	vd->ops->read(vd, io);
}

static void vdev_no_read(struct vdev *vd, struct vdev_io *io)
{
	(void)vd;
	io->done(io, -EINVAL);
}

const struct vdev_ops vdev_root_ops = {
    .type = "root",
    .kind = VDEV_ROOT,
    .read = vdev_no_read,
    .psize_to_asize = vdev_plain_asize,
    .settle = vdev_root_settle,
    .destroy = vdev_root_destroy,
};

const struct vdev_ops vdev_hole_ops = {
    .type = "hole",
    .kind = VDEV_HOLE,
    .read = vdev_no_read,
    .psize_to_asize = vdev_plain_asize,
    .settle = vdev_hole_settle,
};

const struct vdev_ops vdev_missing_ops = {
    .type = "missing",
    .kind = VDEV_MISSING,
    .read = vdev_no_read,
    .psize_to_asize = vdev_plain_asize,
    .settle = vdev_missing_settle,
};
