/*
 * flush.c: what was written reaches the medium.
 *
 * A leaf has at most one flush running; who asks meanwhile waits for the next one, which serves all of them. A flush
 * covers the writes that were done when it was submitted.
 *
 * A flush that fails leaves a device that may have lost what it had said was written. Where the other devices of its
 * vdev have all of it, these txgs become ones that it lacks, and the flush of the whole succeeds.
 */
#include "base/sync.h"
#include "base/tunable.h"
#include "vdev/vdev_impl.h"

static TUNABLE(no_flush, "zfs_nocacheflush", "", 0, 0, 1,
	       "1: devices are never told to flush; a power failure then loses the pool");

struct leaf_flush { /* a leaf's part of the flush of a tree */
	struct list_node node;
	struct vdev *leaf;
	struct flush *flush;
	int err;
	uint64_t lo, hi; /* txgs that the leaf may have lost; lo > hi: none */
};
static void leaf_flush_done(struct leaf_flush *lf, int err);

/* --- a leaf --- */

void vdev_cache_init(struct leaf_cache *c, struct vdev *vd)
{
	pthread_mutex_init(&c->lock, NULL);
	c->lo = UINT64_MAX;
	c->vd = vd;
	list_init(&c->run.waiters);
	list_init(&c->next);
}

void vdev_cache_destroy(struct leaf_cache *c)
{
	BUG_ON(c->running);
	pthread_mutex_destroy(&c->lock);
}

void vdev_cache_wrote(struct leaf_cache *c, uint64_t txg)
{
	SCOPED_LOCK(&c->lock);
	c->written++;
	c->lo = MIN(c->lo, txg);
	c->hi = MAX(c->hi, txg);
}

/* A vdev of several devices has it elsewhere: this one lacks it from now on. One that is alone is asked again to flush
 * what it has. */
static void cache_give_up(struct leaf_cache *c, uint64_t *lo, uint64_t *hi)
{
	bool shared = c->vd->top != c->vd;

	pthread_mutex_lock(&c->lock);
	*lo = c->running ? MIN(c->lo, c->run.lo) : c->lo;
	*hi = c->running ? MAX(c->hi, c->run.hi) : c->hi;
	if (shared) {
		c->confirmed = c->written;
		c->lo = c->run.lo = UINT64_MAX;
		c->hi = c->run.hi = 0;
	}
	pthread_mutex_unlock(&c->lock);
	if (shared && *lo <= *hi)
		vdev_dtl_add(c->vd, *lo, *hi + 1);
}

void vdev_cache_lost(struct leaf_cache *c)
{
	uint64_t lo, hi;

	cache_give_up(c, &lo, &hi);
}

static void cache_flush_done(struct queue_direct *d, int err);

static void cache_flush_start_locked(struct leaf_cache *c)
{
	c->running = true;
	c->run.written = c->written;
	c->run.lo = c->lo;
	c->run.hi = c->hi;
	c->lo = UINT64_MAX;
	c->hi = 0;
	list_splice(&c->run.waiters, &c->next);
	c->direct.req = (struct disk_req){.op = DISK_FLUSH};
	c->direct.done = cache_flush_done;
}

static void cache_end_run_locked(struct leaf_cache *c, int err)
{
	c->running = false;
	if (!err) {
		c->confirmed = MAX(c->confirmed, c->run.written);
		return;
	}
	c->lo = MIN(c->lo, c->run.lo);
	c->hi = MAX(c->hi, c->run.hi);
}

static void cache_flush_done(struct queue_direct *d, int err)
{
	struct leaf_cache *c = container_of(d, struct leaf_cache, direct);
	struct vdev *vd = c->vd;
	uint64_t lo = UINT64_MAX, hi = 0;
	struct list waiters;
	struct list_node *n;
	bool again;

	list_init(&waiters);
	if (err == -ENODEV)
		err = -ENXIO;
	if (err) {
		counter_add(&vd->stats.write_errors, 1);
		cache_give_up(c, &lo, &hi);
		vdev_probe(vd);
	}
	pthread_mutex_lock(&c->lock);
	list_splice(&waiters, &c->run.waiters);
	cache_end_run_locked(c, err);
	again = !list_is_empty(&c->next);
	if (again)
		cache_flush_start_locked(c);
	pthread_mutex_unlock(&c->lock);
	if (again)
		vdev_queue_direct(vd->queue, &c->direct);
	while ((n = list_pop(&waiters))) {
		struct leaf_flush *lf = container_of(n, struct leaf_flush, node);

		lf->lo = lo;
		lf->hi = hi;
		leaf_flush_done(lf, err == -ENXIO || !err ? err : -EIO);
	}
}

static bool cache_is_clean(struct leaf_cache *c)
{
	SCOPED_LOCK(&c->lock);
	return c->written == c->confirmed;
}

static void cache_flush(struct leaf_cache *c, struct leaf_flush *lf)
{
	bool clean, start = false;

	pthread_mutex_lock(&c->lock);
	clean = c->written == c->confirmed || tunable_get(&no_flush);
	if (!clean && c->running && c->run.written == c->written) {
		list_append(&c->run.waiters, &lf->node);
	} else if (!clean) {
		list_append(&c->next, &lf->node);
		start = !c->running;
		if (start)
			cache_flush_start_locked(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (clean)
		leaf_flush_done(lf, 0);
	else if (start)
		vdev_queue_direct(c->vd->queue, &c->direct);
}

/* --- a tree --- */

struct flush {
	struct vdev_io *io;
	struct vdev *vd;
	atomic_uint pending;
	unsigned n, room;
	uint64_t lo, hi; /* of all leaves */
	struct leaf_flush leaf[];
};

enum flushed {
	FLUSH_OK,     /* has everything */
	FLUSH_ABSENT, /* is not there, had nothing to flush */
	FLUSH_FAILED,
};

/* A top-level that was added meanwhile has no part in it. */
static bool leaf_failed(const struct flush *f, const struct vdev *leaf)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->leaf[i].leaf == leaf)
			return f->leaf[i].err != 0;
	return false;
}

static enum flushed leaf_result(const struct flush *f, struct vdev *leaf)
{
	if (leaf_failed(f, leaf))
		return FLUSH_FAILED;
	/* Nor does it have what others may have lost if it missed it itself. */
	return vdev_is_writable(leaf) && !vdev_dtl_overlaps(leaf, f->lo, f->hi + 1) ? FLUSH_OK : FLUSH_ABSENT;
}

/* How many children the vdev's data survives the loss of. */
static unsigned tolerance(const struct vdev *vd)
{
	if (vdev_is_mirror_like(vd))
		return vd->nchildren - 1;
	return vd->kind == VDEV_RAIDZ || vd->kind == VDEV_DRAID ? (unsigned)vd->nparity : 0;
}

static enum flushed flush_result(const struct flush *f, struct vdev *vd)
{
	unsigned count[3] = {0};

	if (vd->nchildren == 0)
		return vdev_is_leaf(vd) ? leaf_result(f, vd) : FLUSH_OK;
	for (unsigned i = 0; i < vd->nchildren; i++)
		count[flush_result(f, vd->child[i])]++;
	if (vd->kind == VDEV_ROOT) /* a device of its own each */
		return count[FLUSH_FAILED] ? FLUSH_FAILED : FLUSH_OK;
	if (count[FLUSH_FAILED] == 0)
		return count[FLUSH_ABSENT] > tolerance(vd) ? FLUSH_ABSENT : FLUSH_OK;
	return count[FLUSH_FAILED] + count[FLUSH_ABSENT] > tolerance(vd) ? FLUSH_FAILED : FLUSH_OK;
}

static void flush_release(struct flush *f)
{
	struct vdev_io *io = f->io;
	int err = 0;

	if (atomic_fetch_sub(&f->pending, 1) != 1)
		return;
	f->lo = UINT64_MAX;
	for (unsigned i = 0; i < f->n; i++) {
		f->lo = MIN(f->lo, f->leaf[i].lo);
		f->hi = MAX(f->hi, f->leaf[i].hi);
	}
	if (flush_result(f, f->vd) == FLUSH_FAILED)
		for (unsigned i = 0; i < f->n; i++)
			err = vdev_worse_error(err, f->leaf[i].err);
	free(f);
	io->done(io, err);
}

static void leaf_flush_done(struct leaf_flush *lf, int err)
{
	lf->err = err;
	flush_release(lf->flush);
}

static void count_leaf(void *arg, struct vdev *leaf)
{
	++*(unsigned *)arg;
}

static void add_leaf(void *arg, struct vdev *leaf)
{
	struct flush *f = arg;

	if (f->n < f->room)
		f->leaf[f->n++] = (struct leaf_flush){.leaf = leaf, .flush = f, .lo = UINT64_MAX};
}

static void dirty_leaf(void *arg, struct vdev *leaf)
{
	if (!cache_is_clean(vdev_queue_cache(leaf->queue)))
		*(bool *)arg = true;
}

void vdev_flush(struct vdev *vd, struct vdev_io *io)
{
	unsigned n = 0;
	bool dirty = false;

	io->vd = vd;
	io->op = VDEV_OP_FLUSH;
	vdev_each_leaf(vd, dirty_leaf, &dirty);
	if (!dirty) {
		io->done(io, 0);
		return;
	}
	vdev_each_leaf(vd, count_leaf, &n);
	struct flush *f = xcalloc(1, sizeof(*f) + n * sizeof(f->leaf[0]));
	f->io = io;
	f->vd = vd;
	f->room = n;
	vdev_each_leaf(vd, add_leaf, f);
	atomic_init(&f->pending, f->n + 1);
	for (unsigned i = 0; i < f->n; i++)
		cache_flush(vdev_queue_cache(f->leaf[i].leaf->queue), &f->leaf[i]);
	flush_release(f);
}

struct flush_wait {
	struct vdev_io io;
	struct waiter w;
};

static void flush_wait_done(struct vdev_io *io, int err)
{
	waiter_done(&container_of(io, struct flush_wait, io)->w, err);
}

int vdev_flush_wait(struct vdev *vd)
{
	struct flush_wait fw = {.io.done = flush_wait_done};

	waiter_init(&fw.w);
	vdev_flush(vd, &fw.io);
	return waiter_wait(&fw.w);
}
