/*
 * queue.c: the scheduler of one leaf (docs/format/06-allocation-and-vdevs.md, 10.1 and 10.3).
 *
 * Requests wait in classes with a bounded number of active ones; whoever waits is offered for aggregation
 * (queue_merge.c). When an aggregate fails its members are tried one by one, so that one bad sector fails one request.
 *
 * Submission and completion both run the pump; one thread at a time does (`pumping`), so that disks which complete
 * inside the submission do not recurse.
 *
 * The queue lives as long as its leaf, devices come and go under it: each request is counted on the device that it was
 * given to, and a device is closed when it has given back all of them.
 */
#include "base/tunable.h"
#include "vdev/queue_impl.h"

/* By number: names, and whether an elevator orders it or who came first; background classes give way to the others. */
#define CLASS_TUNABLES(name, word, min, max, text)                                                                     \
	static TUNABLE(name##_min, "zfs_vdev_" word "_min_active", "", min, 1, 1000,                                   \
		       "requests of this class that a device gets whatever else waits: " text);                        \
	static TUNABLE(name##_max, "zfs_vdev_" word "_max_active", "", max, 1, 1000,                                   \
		       "requests of this class that a device gets at most: " text)

CLASS_TUNABLES(sync_read, "sync_read", 10, 10, "reads that somebody waits for");
CLASS_TUNABLES(sync_write, "sync_write", 10, 10, "writes that somebody waits for (intent log)");
CLASS_TUNABLES(async_read, "async_read", 1, 3, "prefetch");
CLASS_TUNABLES(async_write, "async_write", 2, 10, "writes of transaction groups");
CLASS_TUNABLES(scrub, "scrub", 1, 3, "scrub and resilver");
CLASS_TUNABLES(removal, "removal", 1, 2, "removal of devices");
CLASS_TUNABLES(initializing, "initializing", 1, 1, "zpool initialize");
CLASS_TUNABLES(trim, "trim", 1, 2, "zpool trim, autotrim");
CLASS_TUNABLES(rebuild, "rebuild", 1, 3, "sequential rebuild");

static TUNABLE(max_active, "zfs_vdev_max_active", "", 1000, 1, 100000, "requests that a device gets of all classes");
static TUNABLE(curve_from, "zfs_vdev_async_write_active_min_dirty_percent", "%", 30, 0, 100,
	       "below this much dirty data asynchronous writes keep to their minimum");
static TUNABLE(curve_to, "zfs_vdev_async_write_active_max_dirty_percent", "%", 60, 0, 100,
	       "from this much dirty data on asynchronous writes get their maximum");
static TUNABLE(nia_delay, "zfs_vdev_nia_delay", "", 5, 0, 1000,
	       "completions of background requests without others until they get their maximum");
static TUNABLE(nia_credit, "zfs_vdev_nia_credit", "", 5, 0, 1000,
	       "background requests that may follow one that somebody waits for");
static TUNABLE(slow_ms, "zio_slow_io_ms", "ms", 30000, 0, 3600000,
	       "a request that takes longer is counted as slow (zpool status -s)");

static const struct {
	struct tunable *min, *max;
	bool by_offset, background;
} classes[VDEV_CLASSES] = {
    [VDEV_SYNC_READ] = {&sync_read_min, &sync_read_max, false, false},
    [VDEV_SYNC_WRITE] = {&sync_write_min, &sync_write_max, false, false},
    [VDEV_ASYNC_READ] = {&async_read_min, &async_read_max, true, false},
    [VDEV_ASYNC_WRITE] = {&async_write_min, &async_write_max, true, false},
    [VDEV_SCRUB] = {&scrub_min, &scrub_max, true, true},
    [VDEV_REMOVAL] = {&removal_min, &removal_max, true, true},
    [VDEV_INITIALIZE] = {&initializing_min, &initializing_max, true, true},
    [VDEV_TRIM] = {&trim_min, &trim_max, false, false},
    [VDEV_REBUILD] = {&rebuild_min, &rebuild_max, true, true},
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
	pthread_condattr_t attr;

	q->vd = vd;
	q->dead = true;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->idle, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&q->retired);
	for (unsigned i = 0; i < VDEV_CLASSES; i++) {
		list_init(&q->class[i].fifo);
		tree_init(&q->class[i].sorted, io_compare);
	}
	vdev_cache_init(&q->cache, vd);
	return q;
}

/* All requests are done; the thread that ended the last one may still be leaving the pump. */
void vdev_queue_destroy(struct vdev_queue *q)
{
	vdev_queue_set_device(q, NULL);
	BUG_ON(!vdev_queue_reap(q, UINT64_MAX));
	pthread_mutex_lock(&q->lock);
	while (q->pumping)
		pthread_cond_wait(&q->idle, &q->lock);
	pthread_mutex_unlock(&q->lock);
	BUG_ON(atomic_load(&q->load) != 0);
	vdev_cache_destroy(&q->cache);
	pthread_cond_destroy(&q->idle);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

unsigned vdev_queue_load(const struct vdev_queue *q, uint64_t offset)
{
	return atomic_load_explicit(&q->load, memory_order_relaxed) +
	       (atomic_load_explicit(&q->next_offset, memory_order_relaxed) != offset + VDEV_LABEL_START_SIZE);
}

struct leaf_cache *vdev_queue_cache(struct vdev_queue *q)
{
	return &q->cache;
}

/* --- devices --- */

void vdev_queue_set_device(struct vdev_queue *q, struct disk *d)
{
	struct queue_device *new = d ? xcalloc(1, sizeof(*new)) : NULL;

	if (d)
		new->disk = d;
	pthread_mutex_lock(&q->lock);
	if (q->device)
		list_append(&q->retired, &q->device->node);
	q->device = new;
	q->dead = !d;
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
}

void vdev_queue_set_dead(struct vdev_queue *q, bool dead)
{
	pthread_mutex_lock(&q->lock);
	q->dead = dead || !q->device;
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
}

static bool retired_is_busy(const struct vdev_queue *q)
{
	list_for_each(&q->retired, n) {
		if (container_of(n, struct queue_device, node)->active > 0)
			return true;
	}
	return false;
}

bool vdev_queue_reap(struct vdev_queue *q, uint64_t deadline_ns)
{
	const struct timespec until = {(time_t)MIN(deadline_ns / 1000000000, INT32_MAX),
				       (long)(deadline_ns % 1000000000)};
	struct list idle;
	struct list_node *n;
	bool all;

	list_init(&idle);
	pthread_mutex_lock(&q->lock);
	while (retired_is_busy(q))
		if (pthread_cond_timedwait(&q->idle, &q->lock, &until) == ETIMEDOUT)
			break;
	list_for_each_safe(&q->retired, i) {
		if (container_of(i, struct queue_device, node)->active > 0)
			continue;
		list_remove(&q->retired, i);
		list_append(&idle, i);
	}
	all = list_is_empty(&q->retired);
	pthread_mutex_unlock(&q->lock);
	while ((n = list_pop(&idle))) {
		disk_close(container_of(n, struct queue_device, node)->disk);
		free(container_of(n, struct queue_device, node));
	}
	return all;
}

static void device_release_locked(struct vdev_queue *q, struct queue_device *dev)
{
	if (--dev->active == 0 && dev != q->device)
		pthread_cond_broadcast(&q->idle);
}

static void direct_done(struct disk_req *r, int err)
{
	struct queue_direct *d = container_of(r, struct queue_direct, req);

	pthread_mutex_lock(&d->q->lock);
	device_release_locked(d->q, d->device);
	pthread_mutex_unlock(&d->q->lock);
	d->done(d, err);
}

void vdev_queue_direct(struct vdev_queue *q, struct queue_direct *d)
{
	d->q = q;
	d->req.done = direct_done;
	pthread_mutex_lock(&q->lock);
	d->device = q->device;
	if (d->device)
		d->device->active++;
	pthread_mutex_unlock(&q->lock);
	if (d->device)
		disk_submit(d->device->disk, &d->req);
	else
		d->done(d, -ENXIO);
}

/* --- which is next --- */

static void class_insert(struct vdev_queue *q, struct vdev_io *io, bool front)
{
	struct queue_class *c = &q->class[io->q.class];

	front ? list_prepend(&c->fifo, &io->q.fifo) : list_append(&c->fifo, &io->q.fifo);
	tree_insert(&c->sorted, &io->q.sorted);
	q->waiting++;
}

void queue_take_out(struct vdev_queue *q, struct vdev_io *io)
{
	struct queue_class *c = &q->class[io->q.class];

	list_remove(&c->fifo, &io->q.fifo);
	tree_remove(&c->sorted, &io->q.sorted);
	q->waiting--;
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

/* 10.3 */
static unsigned async_write_limit(const struct vdev_queue *q)
{
	unsigned dirty = atomic_load_explicit(&vdev_root(q->vd)->dirty_percent, memory_order_relaxed);
	unsigned from = (unsigned)tunable_get(&curve_from), to = (unsigned)tunable_get(&curve_to);
	unsigned min = (unsigned)tunable_get(&async_write_min), max = (unsigned)tunable_get(&async_write_max);

	if (dirty >= to || max <= min)
		return max;
	return dirty <= from ? min : min + (dirty - from) * (max - min) / (to - from);
}

static unsigned class_min(const struct vdev_queue *q, unsigned i)
{
	unsigned min = (unsigned)tunable_get(classes[i].min);

	return classes[i].background && q->interactive > 0 ? MIN(min, q->credit) : min;
}

static unsigned class_max(const struct vdev_queue *q, unsigned i)
{
	if (classes[i].background && (q->interactive > 0 || q->calm < tunable_get(&nia_delay)))
		return class_min(q, i);
	if (i == VDEV_ASYNC_WRITE)
		return async_write_limit(q);
	/* Prefetch does not stand in the way of who waits for a read. */
	if (i == VDEV_ASYNC_READ && q->class[VDEV_SYNC_READ].active > 0)
		return class_min(q, i);
	return (unsigned)tunable_get(classes[i].max);
}

/* Round robin over the classes below their minimum, then the lowest below its maximum. */
static int queue_choose_class(struct vdev_queue *q)
{
	if (q->waiting == 0 || q->active >= tunable_get(&max_active))
		return -1;
	for (unsigned n = 0; n < VDEV_CLASSES; n++) {
		unsigned i = (q->turn + n) % VDEV_CLASSES;

		if (!list_is_empty(&q->class[i].fifo) && q->class[i].active < class_min(q, i)) {
			q->turn = i + 1;
			return (int)i;
		}
	}
	for (unsigned i = 0; i < VDEV_CLASSES; i++)
		if (!list_is_empty(&q->class[i].fifo) && q->class[i].active < class_max(q, i))
			return (int)i;
	return -1;
}

static void account_start(struct vdev_queue *q, unsigned class, const struct disk_req *r)
{
	struct vdev_stats *s = &q->vd->stats;
	struct queue_class *c = &q->class[class];

	counter_add(r->op == DISK_READ ? &s->read_ops : r->op == DISK_WRITE ? &s->write_ops : &s->trim_ops, 1);
	counter_add(r->op == DISK_READ    ? &s->read_bytes
		    : r->op == DISK_WRITE ? &s->write_bytes
					  : &s->trim_bytes,
		    r->length);
	q->active++;
	c->active++;
	c->elevator = r->offset + r->length;
	if (!classes[class].background)
		q->interactive++;
	else if (q->interactive > 0 && q->credit > 0)
		q->credit--;
	atomic_store_explicit(&q->next_offset, r->offset + r->length, memory_order_relaxed);
}

static void account_end(struct vdev_queue *q, unsigned class)
{
	q->active--;
	q->class[class].active--;
	if (!classes[class].background) {
		q->interactive--;
		q->credit = (unsigned)tunable_get(&nia_credit);
		q->calm = 0;
	} else if (q->interactive == 0) {
		q->calm++;
	}
}

static struct disk_req *queue_next(struct vdev_queue *q)
{
	int class = queue_choose_class(q);

	if (class < 0)
		return NULL;
	struct disk_req *r = queue_build(q, class_pick(&q->class[class], classes[class].by_offset));
	account_start(q, (unsigned)class, r);
	q->device->active++;
	return r;
}

/* --- running --- */

static void queue_empty(struct vdev_queue *q, struct list *out)
{
	for (unsigned i = 0; i < VDEV_CLASSES; i++) {
		struct list_node *n;

		while ((n = list_first(&q->class[i].fifo))) {
			queue_take_out(q, container_of(n, struct vdev_io, q.fifo));
			list_append(out, n);
		}
	}
}

static void members_done(struct list *members, int err)
{
	uint64_t slow = tunable_get(&slow_ms) * 1000000, now = now_ns();
	struct list_node *n;

	while ((n = list_pop(members))) {
		struct vdev_io *io = container_of(n, struct vdev_io, q.fifo);

		if (now - io->q.since_ns > slow)
			counter_add(&io->vd->stats.slow_ios, 1);
		vdev_leaf_io_done(io, err);
	}
}

static void queue_fail_waiting(struct vdev_queue *q)
{
	struct list failed;

	list_init(&failed);
	queue_empty(q, &failed);
	atomic_fetch_sub_explicit(&q->load, (unsigned)failed.len, memory_order_relaxed);
	pthread_mutex_unlock(&q->lock);
	members_done(&failed, -ENXIO);
	pthread_mutex_lock(&q->lock);
}

void queue_pump(struct vdev_queue *q)
{
	struct disk_req *r;

	pthread_mutex_lock(&q->lock);
	if (q->pumping) {
		pthread_mutex_unlock(&q->lock);
		return;
	}
	q->pumping = true;
	for (;;) {
		if (q->dead && q->waiting > 0) {
			queue_fail_waiting(q);
		} else if (q->plugs == 0 && (r = queue_next(q))) {
			struct disk *d = q->device->disk;

			pthread_mutex_unlock(&q->lock);
			disk_submit(d, r);
			pthread_mutex_lock(&q->lock);
		} else {
			break;
		}
	}
	q->pumping = false;
	pthread_cond_broadcast(&q->idle);
	pthread_mutex_unlock(&q->lock);
}

static void queue_insert(struct vdev_queue *q, struct vdev_io *io, bool front)
{
	atomic_fetch_add_explicit(&q->load, 1, memory_order_relaxed);
	pthread_mutex_lock(&q->lock);
	class_insert(q, io, front);
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
}

static unsigned class_of(const struct vdev_io *io)
{
	if (io->op == VDEV_OP_TRIM)
		return VDEV_TRIM;
	if (io->op == VDEV_OP_WRITE)
		return io->class;
	return io->flags & VDEV_READ_SPECULATIVE ? VDEV_ASYNC_READ
	       : io->flags & VDEV_READ_SCRUB     ? VDEV_SCRUB
						 : VDEV_SYNC_READ;
}

void vdev_queue_submit(struct vdev_queue *q, struct vdev_io *io)
{
	io->q.class = class_of(io);
	io->q.alone = io->op == VDEV_OP_TRIM;
	io->q.since_ns = now_ns();
	queue_insert(q, io, false);
}

void vdev_queue_again(struct vdev_queue *q, struct vdev_io *io)
{
	io->q.alone = true;
	queue_insert(q, io, true);
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
void queue_finish(struct vdev_queue *q, struct queue_device *dev, unsigned class, struct list *members, int err)
{
	atomic_fetch_sub_explicit(&q->load, (unsigned)members->len, memory_order_relaxed);
	pthread_mutex_lock(&q->lock);
	account_end(q, class);
	device_release_locked(q, dev);
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
	members_done(members, err);
}

void queue_split(struct vdev_queue *q, struct queue_device *dev, unsigned class, struct list *members)
{
	struct list_node *n;

	pthread_mutex_lock(&q->lock);
	while ((n = list_last(members))) {
		struct vdev_io *io = container_of(n, struct vdev_io, q.fifo);

		list_remove(members, n);
		io->q.alone = true;
		class_insert(q, io, true);
	}
	account_end(q, class);
	device_release_locked(q, dev);
	pthread_mutex_unlock(&q->lock);
	queue_pump(q);
}
