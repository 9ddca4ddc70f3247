/*
 * queue.c: the read scheduler of one leaf (docs/format/06-allocation-and-vdevs.md, 10.1 and 10.2).
 *
 * Requests wait in classes with a bounded number of active ones; whoever waits is offered for aggregation: neighbours
 * (gaps of up to 32 KiB are read and dropped) become one vectored request of up to 1 MiB straight into the waiters'
 * own buffers. When an aggregate fails its members are tried one by one, so that one bad sector fails one read.
 *
 * Submission and completion both run the pump; one thread at a time does (`pumping`), so that disks which complete
 * inside the submission do not recurse.
 */
#include "base/buf.h"
#include "base/counter.h"
#include "base/sync.h"
#include "vdev/vdev_impl.h"

enum queue_class_id { QUEUE_SYNC, QUEUE_ASYNC, QUEUE_SCRUB, QUEUE_CLASSES };

static const struct {
	unsigned min_active, max_active;
	bool by_offset; /* an elevator, else first come first served */
} class_limits[QUEUE_CLASSES] = {
    [QUEUE_SYNC] = {10, 10, false},
    [QUEUE_ASYNC] = {1, 3, true},
    [QUEUE_SCRUB] = {1, 3, true},
};

#define AGGREGATE_MAX_BYTES (1u << 20)
#define AGGREGATE_MAX_GAP   (32u << 10)
#define AGGREGATE_MAX_IOVS  256
#define SLOW_SECONDS        30 /* what `zpool status -s` counts */

struct queue_class {
	struct list fifo;   /* waiting, oldest first */
	struct tree sorted; /* the same, by offset */
	unsigned active;
	uint64_t elevator; /* offset after the last one taken */
};

struct vdev_queue {
	struct vdev *vd;
	pthread_mutex_t lock; /* guards everything below; nothing is called with it held */
	pthread_cond_t idle;
	struct queue_class class[QUEUE_CLASSES];
	bool pumping;
	unsigned plugs;   /* while not 0 reads only gather, to be merged */
	atomic_uint load; /* waiting and active */
	_Atomic uint64_t next_offset;
};

struct aggregate {
	struct disk_req req;
	struct vdev_queue *q;
	unsigned class;
	struct list members; /* by offset */
	struct buf *gap;     /* bytes between the members land here and are never looked at; NULL: none */
	struct iovec iov[AGGREGATE_MAX_IOVS];
};

static int io_compare(const struct tree_node *a, const struct tree_node *b)
{
	const struct vdev_io *x = container_of(a, struct vdev_io, q.sorted);
	const struct vdev_io *y = container_of(b, struct vdev_io, q.sorted);

	if (x->q.req.offset != y->q.req.offset)
		return x->q.req.offset < y->q.req.offset ? -1 : 1;
	return x < y ? -1 : x > y;
}

struct vdev_queue *vdev_queue_create(struct vdev *vd)
{
	struct vdev_queue *q = xcalloc(1, sizeof(*q));

	q->vd = vd;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->idle, NULL);
	for (unsigned i = 0; i < QUEUE_CLASSES; i++) {
		list_init(&q->class[i].fifo);
		tree_init(&q->class[i].sorted, io_compare);
	}
	return q;
}

/* All reads are done; the thread that ended the last one may still be leaving the pump. */
void vdev_queue_destroy(struct vdev_queue *q)
{
	pthread_mutex_lock(&q->lock);
	while (q->pumping)
		pthread_cond_wait(&q->idle, &q->lock);
	pthread_mutex_unlock(&q->lock);
	BUG_ON(atomic_load(&q->load) != 0);
	pthread_cond_destroy(&q->idle);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

unsigned vdev_queue_load(const struct vdev_queue *q, uint64_t offset)
{
	return atomic_load_explicit(&q->load, memory_order_relaxed) +
	       (atomic_load_explicit(&q->next_offset, memory_order_relaxed) != offset + VDEV_LABEL_START_SIZE);
}

static void class_insert(struct queue_class *c, struct vdev_io *io, bool front)
{
	front ? list_prepend(&c->fifo, &io->q.fifo) : list_append(&c->fifo, &io->q.fifo);
	tree_insert(&c->sorted, &io->q.sorted);
}

static void class_remove(struct queue_class *c, struct vdev_io *io)
{
	list_remove(&c->fifo, &io->q.fifo);
	tree_remove(&c->sorted, &io->q.sorted);
}

static struct vdev_io *class_pick(struct queue_class *c, bool by_offset)
{
	if (!by_offset)
		return container_of(list_first(&c->fifo), struct vdev_io, q.fifo);
	struct tree_node *n = tree_first(&c->sorted); /* when the elevator is at the top */
	for (struct tree_node *at = c->sorted.root; at;) {
		struct vdev_io *io = container_of(at, struct vdev_io, q.sorted);
		if (io->q.req.offset >= c->elevator) {
			n = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return container_of(n, struct vdev_io, q.sorted);
}

/* Classes below their minimum first, then the lowest below its maximum. While somebody waits for a synchronous read,
 * the others keep to their minimum. */
static int queue_choose_class(const struct vdev_queue *q)
{
	for (unsigned i = 0; i < QUEUE_CLASSES; i++)
		if (!list_is_empty(&q->class[i].fifo) && q->class[i].active < class_limits[i].min_active)
			return (int)i;
	if (q->class[QUEUE_SYNC].active > 0)
		return -1;
	for (unsigned i = 0; i < QUEUE_CLASSES; i++)
		if (!list_is_empty(&q->class[i].fifo) && q->class[i].active < class_limits[i].max_active)
			return (int)i;
	return -1;
}

static uint64_t io_end(const struct vdev_io *io)
{
	return io->q.req.offset + io->q.req.length;
}

static bool may_join(const struct vdev_io *a, const struct vdev_io *b, uint64_t span)
{
	return !a->q.alone && !b->q.alone && b->q.req.offset >= io_end(a) &&
	       b->q.req.offset - io_end(a) <= AGGREGATE_MAX_GAP && span <= AGGREGATE_MAX_BYTES;
}

/* Widen [*first, *last] of the sorted tree around the chosen read; returns how many reads it holds. */
static unsigned find_neighbours(struct vdev_io **first, struct vdev_io **last)
{
	unsigned n = 1;
	struct tree_node *t;

	while (n < AGGREGATE_MAX_IOVS / 2 && (t = tree_prev(&(*first)->q.sorted))) {
		struct vdev_io *io = container_of(t, struct vdev_io, q.sorted);
		if (!may_join(io, *first, io_end(*last) - io->q.req.offset))
			break;
		*first = io;
		n++;
	}
	while (n < AGGREGATE_MAX_IOVS / 2 && (t = tree_next(&(*last)->q.sorted))) {
		struct vdev_io *io = container_of(t, struct vdev_io, q.sorted);
		if (!may_join(*last, io, io_end(io) - (*first)->q.req.offset))
			break;
		*last = io;
		n++;
	}
	return n;
}

static void single_done(struct disk_req *r, int err);
static void aggregate_done(struct disk_req *r, int err);

static struct disk_req *make_single(struct queue_class *c, struct vdev_io *io)
{
	class_remove(c, io);
	io->q.iov = (struct iovec){io->data, io->q.req.length};
	io->q.req.iov = &io->q.iov;
	io->q.req.niov = 1;
	io->q.req.done = single_done;
	return &io->q.req;
}

static struct vdev_io *sorted_next(const struct vdev_io *io)
{
	struct tree_node *t = tree_next(&io->q.sorted);

	return t ? container_of(t, struct vdev_io, q.sorted) : NULL;
}

static struct aggregate *aggregate_create(const struct vdev_io *first, const struct vdev_io *last)
{
	uint64_t gap = 0;

	for (const struct vdev_io *io = first, *next; io != last; io = next) {
		next = sorted_next(io);
		gap = MAX(gap, next->q.req.offset - io_end(io));
	}
	struct aggregate *a = malloc(sizeof(*a));
	if (!a)
		return NULL;
	a->gap = gap ? buf_alloc(gap) : NULL;
	if (gap && !a->gap) {
		free(a);
		return NULL;
	}
	return a;
}

static struct disk_req *make_aggregate(struct vdev_queue *q, unsigned class, struct vdev_io *first,
				       struct vdev_io *last)
{
	struct queue_class *c = &q->class[class];
	struct aggregate *a = aggregate_create(first, last);

	if (!a)
		return make_single(c, first);
	a->q = q;
	a->class = class;
	list_init(&a->members);
	a->req = (struct disk_req){
	    .op = DISK_READ,
	    .offset = first->q.req.offset,
	    .length = io_end(last) - first->q.req.offset,
	    .iov = a->iov,
	    .done = aggregate_done,
	};
	uint64_t at = a->req.offset;
	for (struct vdev_io *io = first, *next; io; io = next) {
		next = io == last ? NULL : sorted_next(io);
		if (io->q.req.offset > at)
			a->iov[a->req.niov++] = (struct iovec){a->gap->data, io->q.req.offset - at};
		a->iov[a->req.niov++] = (struct iovec){io->data, io->q.req.length};
		at = io_end(io);
		class_remove(c, io);
		list_append(&a->members, &io->q.fifo);
	}
	return &a->req;
}

static struct disk_req *queue_next(struct vdev_queue *q)
{
	int class = queue_choose_class(q);

	if (class < 0)
		return NULL;
	struct queue_class *c = &q->class[class];
	struct vdev_io *io = class_pick(c, class_limits[class].by_offset), *first = io, *last = io;
	struct disk_req *r = find_neighbours(&first, &last) > 1 ? make_aggregate(q, (unsigned)class, first, last)
								: make_single(c, io);
	counter_add(&q->vd->stats.read_ops, 1);
	counter_add(&q->vd->stats.read_bytes, r->length);
	c->active++;
	c->elevator = r->offset + r->length;
	atomic_store_explicit(&q->next_offset, r->offset + r->length, memory_order_relaxed);
	return r;
}

static void queue_pump(struct vdev_queue *q)
{
	struct disk_req *r;

	pthread_mutex_lock(&q->lock);
	if (q->pumping) {
		pthread_mutex_unlock(&q->lock);
		return;
	}
	q->pumping = true;
	while (q->plugs == 0 && (r = queue_next(q))) {
		pthread_mutex_unlock(&q->lock);
		disk_submit(q->vd->disk, r);
		pthread_mutex_lock(&q->lock);
	}
	q->pumping = false;
	pthread_cond_broadcast(&q->idle);
	pthread_mutex_unlock(&q->lock);
}

void vdev_queue_submit(struct vdev_queue *q, struct vdev_io *io)
{
	io->q.class = io->flags & VDEV_READ_SPECULATIVE ? QUEUE_ASYNC
		      : io->flags & VDEV_READ_SCRUB     ? QUEUE_SCRUB
							: QUEUE_SYNC;
	io->q.alone = false;
	io->q.since_ns = now_ns();
	atomic_fetch_add_explicit(&q->load, 1, memory_order_relaxed);
	pthread_mutex_lock(&q->lock);
	class_insert(&q->class[io->q.class], io, false);
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
}

void vdev_queue_plug(struct vdev_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->plugs++;
	pthread_mutex_unlock(&q->lock);
}

void vdev_queue_unplug(struct vdev_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->plugs--;
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
}

/* The queue is not touched after the first completion callback: it may be the last thing the tree waited for. */
static void queue_finish(struct vdev_queue *q, unsigned class, struct list *members, int err)
{
	struct list_node *n;

	atomic_fetch_sub_explicit(&q->load, (unsigned)members->len, memory_order_relaxed);
	pthread_mutex_lock(&q->lock);
	q->class[class].active--;
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
	while ((n = list_pop(members))) {
		struct vdev_io *io = container_of(n, struct vdev_io, q.fifo);

		if (now_ns() - io->q.since_ns > SLOW_SECONDS * UINT64_C(1000000000))
			counter_add(&io->vd->stats.slow_ios, 1);
		vdev_leaf_io_done(io, err);
	}
}

static void single_done(struct disk_req *r, int err)
{
	struct vdev_io *io = container_of(r, struct vdev_io, q.req);
	struct list members;

	list_init(&members);
	list_append(&members, &io->q.fifo);
	queue_finish(io->vd->queue, io->q.class, &members, err);
}

static void aggregate_retry(struct aggregate *a)
{
	struct vdev_queue *q = a->q;
	struct queue_class *c = &q->class[a->class];
	struct list_node *n;

	pthread_mutex_lock(&q->lock);
	while ((n = list_last(&a->members))) {
		struct vdev_io *io = container_of(n, struct vdev_io, q.fifo);
		list_remove(&a->members, n);
		io->q.alone = true;
		class_insert(c, io, true);
	}
	c->active--;
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
}

static void aggregate_done(struct disk_req *r, int err)
{
	struct aggregate *a = container_of(r, struct aggregate, req);

	if (err)
		aggregate_retry(a);
	else
		queue_finish(a->q, a->class, &a->members, 0);
	buf_release(a->gap);
	free(a);
}
