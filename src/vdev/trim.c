/*
 * trim.c: ranges of allocatable space given back to the devices (docs/format/06-allocation-and-vdevs.md, 4.10).
 */
#include "vdev/vdev_impl.h"

struct trim {
	struct vdev_io *io; /* the caller's */
	atomic_uint pending;
	atomic_int err;
	struct vdev_io part[];
};

struct trim *trim_create(struct vdev_io *io, size_t nparts)
{
	struct trim *t = xcalloc(1, sizeof(*t) + nparts * sizeof(t->part[0]));

	t->io = io;
	atomic_init(&t->pending, 1);
	return t;
}

void trim_finish(struct trim *t)
{
	struct vdev_io *io = t->io;
	int err;

	if (atomic_fetch_sub(&t->pending, 1) != 1)
		return;
	err = atomic_load(&t->err);
	free(t);
	io->done(io, err);
}

static void part_done(struct vdev_io *io, int err)
{
	struct trim *t = io->arg;

	if (err)
		atomic_store(&t->err, err);
	trim_finish(t);
}

void trim_part(struct trim *t, size_t i, struct vdev *vd, uint64_t offset, uint64_t size)
{
	if (size == 0)
		return;
	t->part[i] = (struct vdev_io){
	    .offset = offset, .size = size, .txg = t->io->txg, .done = part_done, .arg = t, .depth = t->io->depth};
	atomic_fetch_add(&t->pending, 1);
	vdev_trim(vd, &t->part[i]);
}

void vdev_trim(struct vdev *vd, struct vdev_io *io)
{
	io->vd = vd;
	io->op = VDEV_OP_TRIM;
	io->zeros = io->pad = 0;
	if (io->size == 0 || (io->offset | io->size) % (UINT64_C(1) << vd->ashift) != 0 ||
	    (vd->top == vd && (io->offset >= vd->asize || io->size > vd->asize - io->offset)))
		io->done(io, -EINVAL);
	else if (!vd->ops->trim || !vdev_is_writable(vd) || io->depth > VDEV_READ_DEPTH_MAX)
		io->done(io, 0);
	else
		vd->ops->trim(vd, io);
}

void vdev_trim_children(struct vdev *vd, struct vdev_io *io)
{
	struct trim *t = trim_create(io, vd->nchildren);

	for (unsigned i = 0; i < vd->nchildren; i++)
		trim_part(t, i, vd->child[i], io->offset, io->size);
	trim_finish(t);
}
