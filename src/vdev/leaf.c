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

enum vdev_aux vdev_leaf_check_size(struct vdev *vd, const struct disk *d)
{
	uint64_t reserve = VDEV_LABEL_START_SIZE + VDEV_LABEL_END_SIZE;

	vd->psize = ROUND_DOWN(d->size, (uint64_t)VDEV_LABEL_SIZE);
	if (vd->psize < VDEV_MIN_SIZE)
		return VDEV_AUX_TOO_SMALL;
	if (vd->top != vd || vd->asize == 0)
		vd->asize = vd->psize - reserve;
	if (vd->psize - reserve < vdev_min_asize(vd))
		return VDEV_AUX_BAD_LABEL;
	if (d->block_size > UINT64_C(1) << vd->ashift || !IS_POW2(d->block_size))
		return VDEV_AUX_BAD_ASHIFT;
	return VDEV_AUX_NONE;
}

void vdev_leaf_mark(struct vdev *vd, enum vdev_state state, enum vdev_aux aux)
{
	vd->state = state;
	vd->aux = aux;
	vd->cant_write = false;
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

	vdev_leaf_mark(vd, ours ? VDEV_STATE_HEALTHY : VDEV_STATE_CANT_OPEN, ours ? VDEV_AUX_NONE : VDEV_AUX_BAD_LABEL);
}

/* What an administrator took out of use is not opened. */
bool vdev_leaf_is_barred(const struct vdev *vd, enum vdev_state *s, enum vdev_aux *aux)
{
	*s = vd->faulted ? VDEV_STATE_FAULTED : vd->removed ? VDEV_STATE_REMOVED : VDEV_STATE_OFFLINE;
	*aux = vd->faulted ? VDEV_AUX_EXTERNAL : VDEV_AUX_NONE;
	return vd->faulted || vd->removed || vd->offline;
}

enum vdev_aux vdev_leaf_open_device(struct vdev *vd, vdev_open_fn open, void *arg, struct disk **d)
{
	enum vdev_aux aux;
	int err;

	*d = NULL;
	if (open)
		err = open(arg, vd, d, NULL);
	else
		err = vd->path ? disk_open(vd->path, DISK_RDONLY, d, NULL) : -ENOENT;
	if (err || !*d) {
		*d = NULL;
		return VDEV_AUX_OPEN_FAILED;
	}
	aux = vdev_leaf_check_size(vd, *d);
	if (aux != VDEV_AUX_NONE) {
		disk_close(*d);
		*d = NULL;
	}
	return aux;
}

void vdev_leaf_set_device(struct vdev *vd, struct disk *d)
{
	if (d) {
		vd->block_size = d->block_size;
		vd->writable = d->writable;
		vd->discards = d->discards;
	}
	vd->disk = d;
	vdev_queue_set_device(vd->queue, d);
}

void vdev_leaf_open(struct vdev *vd, vdev_open_fn open, void *arg)
{
	enum vdev_state barred;
	enum vdev_aux aux;
	struct disk *d;

	if (vdev_leaf_is_barred(vd, &barred, &aux)) {
		vdev_leaf_mark(vd, barred, aux);
	} else if (vd->kind == VDEV_DSPARE) {
		dspare_open(vd);
	} else {
		aux = vdev_leaf_open_device(vd, open, arg, &d);
		vdev_leaf_set_device(vd, d);
		vdev_leaf_mark(vd, d ? VDEV_STATE_HEALTHY : VDEV_STATE_CANT_OPEN, aux);
	}
}

/* --- requests --- */

/* Where `size` bytes of io lie on the device; false: not on it. */
static bool leaf_place(struct vdev *vd, struct vdev_io *io, enum disk_op op, uint64_t size)
{
	uint64_t front = io->flags & VDEV_READ_BOOT_AREA ? VDEV_BOOT_AREA_START : VDEV_LABEL_START_SIZE;
	uint64_t end = io->flags & VDEV_READ_BOOT_AREA ? VDEV_LABEL_START_SIZE : vd->psize - VDEV_LABEL_END_SIZE;

	if (io->offset > end - front || size > end - front - io->offset)
		return false;
	io->q.req = (struct disk_req){.op = op, .offset = front + io->offset, .length = size};
	io->q.retried = false;
	return true;
}

static void leaf_read(struct vdev *vd, struct vdev_io *io)
{
	unsigned block = atomic_load_explicit(&vd->block_size, memory_order_relaxed);

	if (block == 0)
		io->done(io, -ENXIO);
	else if (io->offset % block != 0 || !leaf_place(vd, io, DISK_READ, ROUND_UP(io->size, (uint64_t)block)))
		io->done(io, -EIO);
	else
		vdev_queue_submit(vd->queue, io);
}

static void leaf_write(struct vdev *vd, struct vdev_io *io)
{
	uint64_t sector = UINT64_C(1) << vd->ashift;

	if (leaf_place(vd, io, DISK_WRITE, ROUND_UP(io->size, sector) + io->zeros))
		vdev_queue_submit(vd->queue, io);
	else
		io->done(io, -EIO);
}

static void leaf_trim(struct vdev *vd, struct vdev_io *io)
{
	if (!vd->discards)
		io->done(io, 0);
	else if (leaf_place(vd, io, DISK_DISCARD, io->size))
		vdev_queue_submit(vd->queue, io);
	else
		io->done(io, -EIO);
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

static void leaf_read_done(struct vdev *vd, struct vdev_io *io, int err)
{
	if (err) {
		if (!(io->flags & VDEV_READ_SPECULATIVE))
			counter_add(&vd->stats.read_errors, 1);
		if (err == -ENXIO && vdev_is_writable(vd))
			vdev_probe(vd);
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

/* Another attempt may help, unless the device is gone or has no room. */
static bool is_worth_a_retry(int err)
{
	return err != -ENXIO && err != -EROFS && err != -ENOSPC && err != -EDQUOT;
}

static void leaf_write_done(struct vdev *vd, struct vdev_io *io, int err)
{
	if (!err) {
		vdev_cache_wrote(vdev_queue_cache(vd->queue), io->txg);
		io->done(io, 0);
		return;
	}
	if (!io->q.retried && is_worth_a_retry(err)) {
		io->q.retried = true;
		vdev_queue_again(vd->queue, io);
		return;
	}
	counter_add(&vd->stats.write_errors, 1);
	vdev_probe(vd);
	io->done(io, err == -ENXIO ? -ENXIO : -EIO);
}

/* A device that does not know the command keeps the bytes, which nobody needs. */
static void leaf_trim_done(struct vdev *vd, struct vdev_io *io, int err)
{
	if (err == -EOPNOTSUPP)
		err = 0;
	if (err)
		counter_add(&vd->stats.trim_errors, 1);
	io->done(io, err);
}

void vdev_leaf_io_done(struct vdev_io *io, int err)
{
	struct vdev *vd = io->vd;

	if (err == -ENODEV)
		err = -ENXIO;
	if (io->op == VDEV_OP_READ)
		leaf_read_done(vd, io, err);
	else if (io->op == VDEV_OP_WRITE)
		leaf_write_done(vd, io, err);
	else
		leaf_trim_done(vd, io, err);
}

const struct vdev_ops vdev_disk_ops = {
    .type = "disk",
    .kind = VDEV_DISK,
    .read = leaf_read,
    .write = leaf_write,
    .trim = leaf_trim,
    .psize_to_asize = vdev_plain_asize,
};

const struct vdev_ops vdev_file_ops = {
    .type = "file",
    .kind = VDEV_FILE,
    .read = leaf_read,
    .write = leaf_write,
    .trim = leaf_trim,
    .psize_to_asize = vdev_plain_asize,
};
