/*
 * leaf.c: disks and files: where a tree of vdevs ends at a device.
 */
#include "vdev/vdev_impl.h"

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* 06, 1.5: the smallest size at which a child still holds what its top-level has given out. */
static uint64_t vdev_min_asize(const struct vdev *vd)
{
	if (vd->top == vd)
		return vd->ms_shift ? vd->asize >> vd->ms_shift << vd->ms_shift : 0;
	const struct vdev *p = vd->parent;
	uint64_t whole = vdev_min_asize(p);
	if (whole == 0 || vdev_is_mirror_like(p))
		return whole;
	if (p->kind == VDEV_DRAID) {
		uint64_t ndisks = p->nchildren - nvlist_u64_or(p->config, "draid_nspares", 0);
		return (32u << 20) + ROUND_UP(div_up(whole, ndisks), UINT64_C(16) << 20);
	}
	return div_up(whole, p->nchildren);
}

static enum vdev_aux leaf_check_size(struct vdev *vd)
{
	vd->psize = ROUND_DOWN(vd->disk->size, (uint64_t)VDEV_LABEL_SIZE);
	if (vd->psize < VDEV_MIN_SIZE)
		return VDEV_AUX_TOO_SMALL;
	vd->asize = vd->top == vd && vd->asize ? vd->asize : vd->psize - VDEV_LABEL_START_SIZE - VDEV_LABEL_END_SIZE;
	if (vd->psize - VDEV_LABEL_START_SIZE - VDEV_LABEL_END_SIZE < vdev_min_asize(vd))
		return VDEV_AUX_BAD_LABEL;
	if (vd->disk->block_size > UINT64_C(1) << vd->ashift || !IS_POW2(vd->disk->block_size))
		return VDEV_AUX_BAD_ASHIFT;
	return VDEV_AUX_NONE;
}

static void leaf_close(struct vdev *vd)
{
	if (vd->disk)
		disk_close(vd->disk);
	vd->disk = NULL;
}

static void leaf_set(struct vdev *vd, enum vdev_state state, enum vdev_aux aux)
{
	vd->state = state;
	vd->aux = aux;
	if (state >= VDEV_STATE_DEGRADED) {
		free(vd->was_path);
		vd->was_path = NULL;
		vd->not_present = false;
	} else if (state == VDEV_STATE_CANT_OPEN && vd->path && !vd->was_path) {
		vd->was_path = xstrdup(vd->path);
	}
}

static void dspare_open(struct vdev *vd)
{
	const struct vdev *draid = vd->top;
	bool ours = draid->kind == VDEV_DRAID && nvlist_u64_or(vd->config, "top_guid", 0) == draid->guid;

	leaf_set(vd, ours ? VDEV_STATE_HEALTHY : VDEV_STATE_CANT_OPEN, ours ? VDEV_AUX_NONE : VDEV_AUX_BAD_LABEL);
}

void vdev_leaf_open(struct vdev *vd, vdev_open_fn open, void *arg)
{
	enum vdev_aux aux;
	int err;

	leaf_close(vd);
	if (vd->faulted || vd->removed || vd->offline) {
		leaf_set(vd,
			 vd->faulted   ? VDEV_STATE_FAULTED
			 : vd->removed ? VDEV_STATE_REMOVED
				       : VDEV_STATE_OFFLINE,
			 vd->faulted ? VDEV_AUX_EXTERNAL : VDEV_AUX_NONE);
		return;
	}
	if (vd->kind == VDEV_DSPARE) {
		dspare_open(vd);
		return;
	}
	if (open)
		err = open(arg, vd, &vd->disk, NULL);
	else
		err = vd->path ? disk_open(vd->path, DISK_RDONLY, &vd->disk, NULL) : -ENOENT;
	if (err || !vd->disk) {
		vd->disk = NULL;
		leaf_set(vd, VDEV_STATE_CANT_OPEN, VDEV_AUX_OPEN_FAILED);
		return;
	}
	aux = leaf_check_size(vd);
	if (aux != VDEV_AUX_NONE) {
		leaf_close(vd);
		leaf_set(vd, VDEV_STATE_CANT_OPEN, aux);
		return;
	}
	if (!vd->queue)
		vd->queue = vdev_queue_create(vd);
	leaf_set(vd, VDEV_STATE_HEALTHY, VDEV_AUX_NONE);
}

static void leaf_read(struct vdev *vd, struct vdev_io *io)
{
	uint64_t front = io->flags & VDEV_READ_BOOT_AREA ? VDEV_BOOT_AREA_START : VDEV_LABEL_START_SIZE;
	uint64_t end = io->flags & VDEV_READ_BOOT_AREA ? VDEV_LABEL_START_SIZE : vd->psize - VDEV_LABEL_END_SIZE;

	if (!vd->disk) {
		io->done(io, -ENXIO);
		return;
	}
	uint64_t size = ROUND_UP(io->size, (uint64_t)vd->disk->block_size);
	if (io->offset > end - front || size > end - front - io->offset || io->offset % vd->disk->block_size != 0) {
		io->done(io, -EIO);
		return;
	}
	io->q.req = (struct disk_req){.op = DISK_READ, .offset = front + io->offset, .length = size};
	vdev_queue_submit(vd->queue, io);
}

void vdev_count_checksum_error(struct vdev *vd, const struct vdev_io *io)
{
	if (vd && !(io->flags & VDEV_READ_SPECULATIVE))
		counter_add(&vd->stats.checksum_errors, 1);
}

static void leaf_verify(struct task *t)
{
	struct vdev_io *io = container_of(t, struct vdev_io, task);
	int err = io->verify(io, io->data) ? -ECKSUM : 0;

	if (err)
		vdev_count_checksum_error(io->vd, io);
	io->done(io, err);
}

void vdev_leaf_io_done(struct vdev_io *io, int err)
{
	struct vdev *vd = io->vd;

	if (err) {
		if (!(io->flags & VDEV_READ_SPECULATIVE))
			counter_add(&vd->stats.read_errors, 1);
		io->done(io, err == -ENXIO ? -ENXIO : -EIO);
		return;
	}
	io->from = vd;
	if (!io->verify) {
		io->done(io, 0);
		return;
	}
	io->task.run = leaf_verify;
	taskq_dispatch(cpu_taskq(), &io->task);
}

const struct vdev_ops vdev_disk_ops = {
    .type = "disk",
    .kind = VDEV_DISK,
    .read = leaf_read,
    .psize_to_asize = vdev_plain_asize,
};

const struct vdev_ops vdev_file_ops = {
    .type = "file",
    .kind = VDEV_FILE,
    .read = leaf_read,
    .psize_to_asize = vdev_plain_asize,
};
