/*
 * write.c: writes to plain disks, one request each, past the queue. Other kinds of vdev are refused.
 */
#include "vdev/vdev_impl.h"

static void leaf_write_done(struct disk_req *r, int err)
{
	struct vdev_io *io = container_of(r, struct vdev_io, q.req);

	if (err)
		counter_add(&io->vd->stats.write_errors, 1);
	io->done(io, err == -ENXIO || !err ? err : -EIO);
}

bool vdev_is_writable(const struct vdev *vd)
{
	return vd->disk && vd->disk->writable;
}

void vdev_write(struct vdev *vd, struct vdev_io *io)
{
	io->vd = vd;
	io->op = VDEV_OP_WRITE;
	if (!vdev_is_writable(vd) || !vdev_is_leaf(vd)) {
		io->done(io, -ENXIO);
		return;
	}
	if (io->size == 0 || io->size % (UINT64_C(1) << vd->ashift) || io->offset >= vd->asize ||
	    io->size > vd->asize - io->offset) {
		io->done(io, -EINVAL);
		return;
	}
	io->q.iov = (struct iovec){io->data, io->size};
	io->q.req = (struct disk_req){
	    .op = DISK_WRITE,
	    .offset = VDEV_LABEL_START_SIZE + io->offset,
	    .iov = &io->q.iov,
	    .niov = 1,
	    .length = io->size,
	    .done = leaf_write_done,
	};
	disk_submit(vd->disk, &io->q.req);
}
