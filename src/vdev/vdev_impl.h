/*
 * vdev/vdev_impl.h: what the files of this floor share.
 */
#ifndef VDEV_VDEV_IMPL_H
#define VDEV_VDEV_IMPL_H

#include "vdev/label.h"
#include "vdev/vdev.h"

#define VDEV_BOOT_AREA_START (512u << 10)
#define VDEV_MIN_SIZE        (64u << 20)
#define VDEV_ASHIFT_MIN      9
#define VDEV_ASHIFT_MAX      16
#define VDEV_CHILDREN_MAX    255 /* of a raidz or draid */
#define VDEV_READ_MAX        (32u << 20)
#define VDEV_READ_DEPTH_MAX  256

extern const struct vdev_ops vdev_root_ops, vdev_missing_ops, vdev_hole_ops; /* vdev.c */
extern const struct vdev_ops vdev_disk_ops, vdev_file_ops;                   /* leaf.c */
extern const struct vdev_ops vdev_mirror_ops, vdev_replacing_ops, vdev_spare_ops;
extern const struct vdev_ops vdev_raidz_ops, vdev_draid_ops, vdev_dspare_ops, vdev_indirect_ops;

/* What a read of a vdev may expect. */
enum vdev_quality {
	VDEV_QUALITY_NONE,  /* cannot be read */
	VDEV_QUALITY_STALE, /* readable, but the device was absent in that txg */
	VDEV_QUALITY_GOOD,
};
enum vdev_quality vdev_quality(const struct vdev *vd, uint64_t offset, uint64_t txg);
bool vdev_is_mirror_like(const struct vdev *vd);

/* State of an interior vdev whose data survives `tolerated` unreadable children. */
void vdev_settle_children(struct vdev *vd, unsigned tolerated);
/* Smallest asize of the children that opened (distributed spares do not count); 0 when none did. */
uint64_t vdev_min_child_asize(const struct vdev *vd);
uint64_t vdev_plain_asize(const struct vdev *top, uint64_t psize, uint64_t txg);

/* leaf.c */
void vdev_leaf_open(struct vdev *vd, vdev_open_fn open, void *arg);
void vdev_leaf_io_done(struct vdev_io *io, int err); /* called by the queue */
void vdev_count_checksum_error(struct vdev *vd, const struct vdev_io *io);

/* queue.c */
struct vdev_queue *vdev_queue_create(struct vdev *vd);
void vdev_queue_destroy(struct vdev_queue *q);
void vdev_queue_submit(struct vdev_queue *q, struct vdev_io *io);
/* Between these two reads only gather: for whoever submits many neighbours at once. They nest. */
void vdev_queue_plug(struct vdev_queue *q);
void vdev_queue_unplug(struct vdev_queue *q);
/* Requests waiting and running, plus one when `offset` does not continue the last one. */
unsigned vdev_queue_load(const struct vdev_queue *q, uint64_t offset);

/* draid.c: the child on which a distributed spare keeps child offset `offset`; NULL: none. */
struct vdev *vdev_dspare_child(const struct vdev *spare, uint64_t offset);

/* Of two failures the one that says more: a mismatch over an I/O error over an absent device. */
int vdev_worse_error(int a, int b);

#endif
