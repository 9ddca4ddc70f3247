/*
 * vdev/queue_impl.h: the inside of a leaf's queue: queue.c decides what is next, queue_merge.c makes requests of it.
 */
#ifndef VDEV_QUEUE_IMPL_H
#define VDEV_QUEUE_IMPL_H

#include "base/counter.h"
#include "base/sync.h"
#include "vdev/vdev_impl.h"

struct queue_class {
	struct list fifo;   /* waiting, oldest first */
	struct tree sorted; /* the same, by offset */
	unsigned active;
	uint64_t elevator; /* offset after the last one taken */
};

/* One opening of the leaf's device. */
struct queue_device {
	struct disk *disk;
	unsigned active;       /* requests it has */
	struct list_node node; /* among those of the past */
};

struct vdev_queue {
	struct vdev *vd;
	pthread_mutex_t lock; /* guards everything below; nothing is called with it held */
	pthread_cond_t idle;  /* the pump stopped, a device of the past became idle */
	struct queue_device *device;
	struct list retired; /* devices of the past that are not closed yet */
	bool dead;           /* whoever waits fails */
	struct queue_class class[VDEV_CLASSES];
	unsigned waiting, active; /* of all classes; active: requests to the device, aggregates are one */
	unsigned turn;            /* where the round over the classes goes on */
	unsigned interactive;     /* active ones that are not of background classes */
	unsigned credit, calm;    /* 10.1: background requests that may still follow; that ended since the last other */
	bool pumping;
	unsigned plugs;   /* while not 0 requests only gather, to be merged */
	atomic_uint load; /* waiting and active, each member of an aggregate */
	_Atomic uint64_t next_offset;
	struct leaf_cache cache; /* has its own lock */
};

void queue_pump(struct vdev_queue *q);
/* With the lock held. */
void queue_take_out(struct vdev_queue *q, struct vdev_io *io);
/* With the lock held: the request that carries io and what goes with it, taken out of their class. */
struct disk_req *queue_build(struct vdev_queue *q, struct vdev_io *io);
/* A request is over, for all its members; or it failed and they are to be tried one by one. */
void queue_finish(struct vdev_queue *q, struct queue_device *dev, unsigned class, struct list *members, int err);
void queue_split(struct vdev_queue *q, struct queue_device *dev, unsigned class, struct list *members);

#endif
