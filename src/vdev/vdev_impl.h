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
extern const struct vdev_ops vdev_disk_ops,
    vdev_file_ops; /* reshape.c: pointers that an array of n children has room for. */
size_t vdev_children_room(const struct vdev *vd, size_t n);
void vdev_root_destroy(struct vdev *root);

/* leaf.c */
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
void vdev_settle_above(struct vdev *leaf);
/* Smallest asize of the children that opened (distributed spares do not count); 0 when none did. */
uint64_t vdev_min_child_asize(const struct vdev *vd);
uint64_t vdev_plain_asize(const struct vdev *top, uint64_t psize, uint64_t txg);

/* Every leaf in vd that is a device, in the order of the tree. */
void vdev_each_leaf(struct vdev *vd, void (*fn)(void *arg, struct vdev *leaf), void *arg);
struct vdev *vdev_root(struct vdev *vd);

/* leaf.c. Opening takes no device away: there is none. */
void vdev_leaf_open(struct vdev *vd, vdev_open_fn open, void *arg);
/* The same without saying so by the state. *d NULL: none, and the state says why. */
enum vdev_aux vdev_leaf_open_device(struct vdev *vd, vdev_open_fn open, void *arg, struct disk **d);
enum vdev_aux vdev_leaf_check_size(struct vdev *vd, const struct disk *d);
bool vdev_leaf_is_barred(const struct vdev *vd, enum vdev_state *s, enum vdev_aux *aux);
void vdev_leaf_set_device(struct vdev *vd, struct disk *d);
void vdev_leaf_mark(struct vdev *vd, enum vdev_state state, enum vdev_aux aux); /* and nothing else */
void vdev_leaf_io_done(struct vdev_io *io, int err);                            /* called by the queue */
void vdev_count_checksum_error(struct vdev *vd, const struct vdev_io *io);

/* health.c */
void vdev_leaf_set(struct vdev *leaf, enum vdev_state s, enum vdev_aux aux, bool cant_write); /* and settle above */
/* Finds out, and says so by the leaf's state, whether the device can be used. Asynchronous. */
void vdev_probe(struct vdev *leaf);
/* A write was done, but not by this part of the tree. */
void vdev_missed(struct vdev *vd, uint64_t txg);
bool vdev_dtl_overlaps(const struct vdev *leaf, uint64_t from, uint64_t to);
void vdev_probe_join(struct vdev *leaf); /* none is under way afterwards */

/* trim.c: a trim of several parts (trim_part: of children, `i` below nparts, each once); done with trim_finish. */
struct trim;
struct trim *trim_create(struct vdev_io *io, size_t nparts);
void trim_part(struct trim *t, size_t i, struct vdev *vd, uint64_t offset, uint64_t size);
void trim_finish(struct trim *t);
void vdev_trim_children(struct vdev *vd, struct vdev_io *io); /* the same range of each */

/* queue_merge.c: at least a sector of zeros; only read. */
extern uint8_t vdev_zeros[];

/* queue.c: one queue to a leaf, for as long as it lives; devices come and go under it. */
struct vdev_queue *vdev_queue_create(struct vdev *vd);
/* Nothing is in flight. Closes the devices. */
void vdev_queue_destroy(struct vdev_queue *q);
void vdev_queue_submit(struct vdev_queue *q, struct vdev_io *io);
void vdev_queue_again(struct vdev_queue *q, struct vdev_io *io); /* one that was done, ahead of the others */
/* From now on requests go to `d` (NULL: they fail with -ENXIO, the waiting ones at once). The device before is closed
 * when it has answered everything: by this or a later call of vdev_queue_reap. */
void vdev_queue_set_device(struct vdev_queue *q, struct disk *d);
/* Requests fail with -ENXIO although there is a device (or not any more). Those that bypass the classes do not. */
void vdev_queue_set_dead(struct vdev_queue *q, bool dead);
/* Closes devices of the past that have answered everything, for which it waits; false: some have not. */
bool vdev_queue_reap(struct vdev_queue *q, uint64_t deadline_ns);
/* A request past the classes: flushes, probes. */
struct queue_direct {
	struct disk_req req;
	struct vdev_queue *q;
	struct queue_device *device;
	void (*done)(struct queue_direct *d, int err);
};
void vdev_queue_direct(struct vdev_queue *q, struct queue_direct *d);
/* Between these two requests only gather: for whoever submits many neighbours at once. They nest. */
void vdev_queue_plug(struct vdev_queue *q);
void vdev_queue_unplug(struct vdev_queue *q);
/* Requests waiting and running, plus one when `offset` does not continue the last one. */
unsigned vdev_queue_load(const struct vdev_queue *q, uint64_t offset);

/* flush.c, on the queue: what has been written since the last flush. */
struct leaf_cache {
	pthread_mutex_t lock; /* guards all; innermost */
	uint64_t written;     /* writes done, counted */
	uint64_t confirmed;   /* of those, on the medium */
	uint64_t lo, hi;      /* txgs of the others, but for what the running flush covers; lo > hi: none */
	bool running;
	struct {
		uint64_t written, lo, hi;
		struct list waiters;
	} run;
	struct list next; /* waiters of the flush after it */
	struct queue_direct direct;
	struct vdev *vd;
};
struct leaf_cache *vdev_queue_cache(struct vdev_queue *q);
void vdev_cache_init(struct leaf_cache *c, struct vdev *vd);
void vdev_cache_destroy(struct leaf_cache *c);
void vdev_cache_wrote(struct leaf_cache *c, uint64_t txg);
/* The device is gone with what it had not flushed. */
void vdev_cache_lost(struct leaf_cache *c);

/* draid.c: the child on which a distributed spare keeps child offset `offset`; NULL: none. */
struct vdev *vdev_dspare_child(const struct vdev *spare, uint64_t offset);

/* Of two failures the one that says more: a mismatch over an I/O error over an absent device. */
int vdev_worse_error(int a, int b);

#endif
