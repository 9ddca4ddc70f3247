/*
 * queue_merge.c: requests to the device out of what waits in a leaf's queue (docs/format/06-allocation-and-vdevs.md,
 * 10.2).
 *
 * Neighbours become one vectored request, straight from or into the waiters' own buffers. Between reads gaps are read
 * and dropped; between writes they are filled with zeros where the one before has padding that nobody reads.
 */
#include <limits.h>

#include "base/buf.h"
#include "base/tunable.h"
#include "vdev/queue_impl.h"

static TUNABLE(limit_rotating, "zfs_vdev_aggregation_limit", "bytes", 1u << 20, 0, 16u << 20,
	       "largest request that neighbours are merged into, rotating devices; 0: none are");
static TUNABLE(limit_other, "zfs_vdev_aggregation_limit_non_rotating", "bytes", 1u << 20, 0, 16u << 20,
	       "the same for files and devices that do not rotate (OpenZFS: 128 KiB; each request costs us more)");
static TUNABLE(read_gap, "zfs_vdev_read_gap_limit", "bytes", 32u << 10, 0, 1u << 20,
	       "largest gap between reads that is read to merge them");
static TUNABLE(write_gap, "zfs_vdev_write_gap_limit", "bytes", 4u << 10, 0, 64u << 10,
	       "largest padding between writes that is written to merge them");

#define MEMBER_IOVS 3 /* gap, data, zeros */
#define MEMBERS_MAX (IOV_MAX / MEMBER_IOVS)
#define ZEROS_SIZE  (64u << 10) /* a sector is not larger */

/* Written from, never to. */
_Alignas(4096) uint8_t vdev_zeros[ZEROS_SIZE];

struct aggregate {
	struct disk_req req;
	struct vdev_queue *q;
	struct queue_device *device;
	unsigned class;
	struct list members; /* by offset */
	struct buf *gap;     /* of reads: bytes between the members land here and are never looked at; NULL: none */
	struct iovec iov[];
};

static uint64_t io_end(const struct vdev_io *io)
{
	return io->q.req.offset + io->q.req.length;
}

static uint64_t gap_limit(const struct vdev_io *io)
{
	if (io->op == VDEV_OP_READ)
		return tunable_get(&read_gap);
	return MIN(io->pad, tunable_get(&write_gap));
}

static bool may_join(const struct vdev_io *a, const struct vdev_io *b, uint64_t span, uint64_t limit)
{
	return !a->q.alone && !b->q.alone && a->op == b->op && b->q.req.offset >= io_end(a) &&
	       b->q.req.offset - io_end(a) <= gap_limit(a) && span <= limit;
}

static struct vdev_io *to_io(struct tree_node *n)
{
	return n ? container_of(n, struct vdev_io, q.sorted) : NULL;
}

/* Widen [*first, *last] of the sorted tree around the chosen request; returns how many it holds. */
static unsigned find_neighbours(const struct vdev_queue *q, struct vdev_io **first, struct vdev_io **last)
{
	uint64_t limit = tunable_get(q->device->disk->rotational ? &limit_rotating : &limit_other);
	struct vdev_io *io;
	unsigned n = 1;

	while (n < MEMBERS_MAX && (io = to_io(tree_prev(&(*first)->q.sorted))) &&
	       may_join(io, *first, io_end(*last) - io->q.req.offset, limit)) {
		*first = io;
		n++;
	}
	while (n < MEMBERS_MAX && (io = to_io(tree_next(&(*last)->q.sorted))) &&
	       may_join(*last, io, io_end(io) - (*first)->q.req.offset, limit)) {
		*last = io;
		n++;
	}
	return n;
}

static unsigned fill_iov(const struct vdev_io *io, struct iovec *iov)
{
	iov[0] = (struct iovec){io->data, io->q.req.length - io->zeros};
	iov[1] = (struct iovec){vdev_zeros, io->zeros};
	return 1 + (io->zeros > 0);
}

static void single_done(struct disk_req *r, int err)
{
	struct vdev_io *io = container_of(r, struct vdev_io, q.req);
	struct list members;

	list_init(&members);
	list_append(&members, &io->q.fifo);
	queue_finish(io->vd->queue, io->q.device, io->q.class, &members, err);
}

static struct disk_req *build_single(struct vdev_queue *q, struct vdev_io *io)
{
	queue_take_out(q, io);
	io->q.device = q->device;
	if (io->op != VDEV_OP_TRIM) {
		io->q.req.niov = fill_iov(io, io->q.iov);
		io->q.req.iov = io->q.iov;
	}
	io->q.req.done = single_done;
	return &io->q.req;
}

static void aggregate_done(struct disk_req *r, int err)
{
	struct aggregate *a = container_of(r, struct aggregate, req);

	if (err)
		queue_split(a->q, a->device, a->class, &a->members);
	else
		queue_finish(a->q, a->device, a->class, &a->members, 0);
	buf_release(a->gap);
	free(a);
}

static struct aggregate *aggregate_create(const struct vdev_io *first, const struct vdev_io *last, unsigned n)
{
	uint64_t gap = 0;

	for (struct vdev_io *io = (struct vdev_io *)first, *next; io != last; io = next) {
		next = to_io(tree_next(&io->q.sorted));
		gap = MAX(gap, next->q.req.offset - io_end(io));
	}
	struct aggregate *a = malloc(sizeof(*a) + n * MEMBER_IOVS * sizeof(struct iovec));
	if (!a)
		return NULL;
	a->gap = gap && first->op == VDEV_OP_READ ? buf_alloc(gap) : NULL;
	if (gap && first->op == VDEV_OP_READ && !a->gap) {
		free(a);
		return NULL;
	}
	return a;
}

static void aggregate_add(struct aggregate *a, struct vdev_io *io, uint64_t at)
{
	if (io->q.req.offset > at)
		a->iov[a->req.niov++] = (struct iovec){a->gap ? a->gap->data : vdev_zeros, io->q.req.offset - at};
	a->req.niov += fill_iov(io, a->iov + a->req.niov);
	queue_take_out(a->q, io);
	list_append(&a->members, &io->q.fifo);
}

struct disk_req *queue_build(struct vdev_queue *q, struct vdev_io *io)
{
	struct vdev_io *first = io, *last = io;
	unsigned n = find_neighbours(q, &first, &last);
	struct aggregate *a = n > 1 ? aggregate_create(first, last, n) : NULL;

	if (!a)
		return build_single(q, io);
	a->q = q;
	a->device = q->device;
	a->class = io->q.class;
	list_init(&a->members);
	a->req = (struct disk_req){
	    .op = first->q.req.op,
	    .offset = first->q.req.offset,
	    .length = io_end(last) - first->q.req.offset,
	    .iov = a->iov,
	    .done = aggregate_done,
	};
	uint64_t at = a->req.offset;
	for (struct vdev_io *m = first, *next; m; m = next) {
		next = m == last ? NULL : to_io(tree_next(&m->q.sorted));
		aggregate_add(a, m, at);
		at = io_end(m);
	}
	return &a->req;
}
