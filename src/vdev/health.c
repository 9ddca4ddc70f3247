/*
 * health.c: leaves that fail, and come back (docs/format/06-allocation-and-vdevs.md, 1.8, 4.4, 11.2).
 *
 * A write that failed twice, a flush that failed or a device that says that it is gone starts a probe: the boot area of
 * labels 1 to 3 is read and written back. What cannot be read any more is lost (FAULTED, or CANT_OPEN when the device
 * is gone); what can be read only stays, DEGRADED, and takes no writes.
 */
#include "base/buf.h"
#include "base/counter.h"
#include "base/sync.h"
#include "vdev/vdev_impl.h"

#define PROBE_OFFSET 0x2000u /* in a label */
#define PROBE_SIZE   0x2000u
#define DRAIN_NS     (UINT64_C(5) * 1000000000)

/* Guards the states of all trees (settling reads neighbours) and probing; nothing is called with it held. */
static pthread_mutex_t states = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t probe_over = PTHREAD_COND_INITIALIZER;

/* --- states --- */

static void tell_state(struct vdev *leaf)
{
	const struct vdev_events *ev = vdev_root(leaf)->events;

	if (ev && ev->state)
		ev->state(ev->arg, leaf);
}

void vdev_leaf_set(struct vdev *leaf, enum vdev_state s, enum vdev_aux aux, bool cant_write)
{
	bool news;

	pthread_mutex_lock(&states);
	news = leaf->state != s || leaf->aux != aux || leaf->cant_write != cant_write;
	vdev_leaf_mark(leaf, s, aux);
	leaf->cant_write = cant_write;
	vdev_settle_above(leaf);
	pthread_mutex_unlock(&states);
	if (news)
		tell_state(leaf);
}

void vdev_set_state(struct vdev *leaf, enum vdev_state s, enum vdev_aux aux)
{
	SCOPED_LOCK(&states);
	leaf->state = s;
	leaf->aux = aux;
	vdev_settle_above(leaf);
}

/* --- dirty time logs --- */

void vdev_dtl_add(struct vdev *leaf, uint64_t from, uint64_t to)
{
	const struct vdev_events *ev = vdev_root(leaf)->events;
	bool news;

	pthread_mutex_lock(&leaf->dtl_lock);
	news = to > from && !rangetree_contains(&leaf->dtl, from, to);
	if (news)
		rangetree_add_any(&leaf->dtl, from, to);
	leaf->dtl_any = leaf->dtl.space > 0;
	pthread_mutex_unlock(&leaf->dtl_lock);
	if (news && ev && ev->dtl)
		ev->dtl(ev->arg, leaf);
}

void vdev_dtl_remove(struct vdev *leaf, uint64_t from, uint64_t to)
{
	SCOPED_LOCK(&leaf->dtl_lock);
	rangetree_remove_any(&leaf->dtl, from, to);
	leaf->dtl_any = leaf->dtl.space > 0;
}

bool vdev_dtl_overlaps(const struct vdev *leaf, uint64_t from, uint64_t to)
{
	if (!atomic_load_explicit(&leaf->dtl_any, memory_order_acquire) || to <= from)
		return false;
	SCOPED_LOCK((pthread_mutex_t *)&leaf->dtl_lock);
	return rangetree_overlap(&leaf->dtl, from, to) != NULL;
}

bool vdev_dtl_has(const struct vdev *leaf, uint64_t txg)
{
	return vdev_dtl_overlaps(leaf, txg, txg + 1);
}

bool vdev_dtl_is_empty(const struct vdev *leaf)
{
	return !leaf->dtl_any;
}

void vdev_dtl_copy(const struct vdev *leaf, struct rangetree *out)
{
	SCOPED_LOCK((pthread_mutex_t *)&leaf->dtl_lock);
	for (const struct range *r = rangetree_first(&leaf->dtl); r; r = rangetree_next(r))
		rangetree_add_any(out, r->start, r->end);
}

void vdev_dtl_take(struct vdev *leaf, struct rangetree *rt)
{
	struct rangetree old;

	pthread_mutex_lock(&leaf->dtl_lock);
	old = leaf->dtl;
	leaf->dtl = *rt;
	leaf->dtl_any = leaf->dtl.space > 0;
	pthread_mutex_unlock(&leaf->dtl_lock);
	rangetree_init(rt);
	rangetree_clear(&old);
}

void vdev_missed(struct vdev *vd, uint64_t txg)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		vdev_missed(vd->child[i], txg);
	if (vdev_is_leaf(vd) && txg != 0)
		vdev_dtl_add(vd, txg, txg + 1);
}

/* --- probes --- */

struct probe {
	struct queue_direct direct;
	struct vdev *leaf;
	struct buf *buf;
	struct iovec iov;
	unsigned label;         /* the one at hand */
	unsigned reads, writes; /* that went well */
	int err;                /* of the last read that did not */
	struct waiter *w;       /* who opens the device; NULL: the leaf's state is to say it */
};

static void probe_step(struct probe *p, enum disk_op op);

/* 0: all is well; -EROFS: can be read only; else why it cannot be read. */
static int probe_result(const struct probe *p)
{
	if (p->reads == 0)
		return p->err;
	return p->leaf->writable && p->writes == 0 ? -EROFS : 0;
}

/* State first: nothing new comes in then, and what waits is failed. */
static void leaf_lose(struct vdev *leaf, int why)
{
	bool gone = why == -ENXIO || why == -ENODEV;

	if (why == -EROFS) {
		vdev_leaf_set(leaf, VDEV_STATE_DEGRADED, VDEV_AUX_IO_FAILURE, true);
	} else {
		vdev_leaf_set(leaf, gone ? VDEV_STATE_CANT_OPEN : VDEV_STATE_FAULTED,
			      gone ? VDEV_AUX_OPEN_FAILED : VDEV_AUX_IO_FAILURE, false);
		vdev_queue_set_dead(leaf->queue, true);
	}
	vdev_cache_lost(vdev_queue_cache(leaf->queue));
}

static void probe_end(struct probe *p)
{
	struct vdev *leaf = p->leaf;
	struct waiter *w = p->w;
	int err = probe_result(p);

	buf_release(p->buf);
	free(p);
	if (err && err != -ENOMEM && !w)
		leaf_lose(leaf, err);
	pthread_mutex_lock(&states);
	leaf->probing = false;
	pthread_cond_broadcast(&probe_over);
	pthread_mutex_unlock(&states);
	if (w)
		waiter_done(w, err);
}

static void probe_done(struct queue_direct *d, int err)
{
	struct probe *p = container_of(d, struct probe, direct);
	bool was_read = d->req.op == DISK_READ;

	if (!err)
		was_read ? p->reads++ : p->writes++;
	else if (was_read)
		p->err = err;
	if (was_read && !err && p->leaf->writable) {
		probe_step(p, DISK_WRITE);
	} else if (++p->label < VDEV_LABELS) {
		probe_step(p, DISK_READ);
	} else {
		probe_end(p);
	}
}

static void probe_step(struct probe *p, enum disk_op op)
{
	uint64_t size = MAX(p->leaf->block_size, PROBE_SIZE);

	p->direct.req = (struct disk_req){
	    .op = op,
	    .offset = ROUND_DOWN(label_offset(p->leaf->psize, p->label) + PROBE_OFFSET, size),
	    .iov = &p->iov,
	    .niov = 1,
	    .length = size,
	};
	p->direct.done = probe_done;
	vdev_queue_direct(p->leaf->queue, &p->direct);
}

/* One at a time. */
static bool probe_claim(struct vdev *leaf)
{
	SCOPED_LOCK(&states);
	if (leaf->probing)
		return false;
	leaf->probing = true;
	return true;
}

static void probe_start(struct vdev *leaf, struct waiter *w)
{
	struct probe *p = xcalloc(1, sizeof(*p));
	size_t size = MAX(leaf->block_size, PROBE_SIZE);

	p->leaf = leaf;
	p->w = w;
	p->label = 1;
	p->err = -ENOMEM;
	p->buf = buf_alloc(size);
	if (!p->buf) {
		probe_end(p);
		return;
	}
	p->iov = (struct iovec){p->buf->data, size};
	probe_step(p, DISK_READ);
}

void vdev_probe(struct vdev *leaf)
{
	if (vdev_is_readable(leaf) && probe_claim(leaf))
		probe_start(leaf, NULL);
}

void vdev_probe_join(struct vdev *leaf)
{
	pthread_mutex_lock(&states);
	while (leaf->probing)
		pthread_cond_wait(&probe_over, &states);
	pthread_mutex_unlock(&states);
}

static int probe_wait(struct vdev *leaf)
{
	struct waiter w;

	while (!probe_claim(leaf))
		vdev_probe_join(leaf);
	waiter_init(&w);
	probe_start(leaf, &w);
	return waiter_wait(&w);
}

/* --- opening again --- */

int vdev_leaf_close(struct vdev *leaf, enum vdev_state s, enum vdev_aux aux)
{
	vdev_leaf_set(leaf, s, aux, false);
	if (!leaf->queue)
		return 0;
	vdev_cache_lost(vdev_queue_cache(leaf->queue));
	vdev_leaf_set_device(leaf, NULL);
	return vdev_queue_reap(leaf->queue, now_ns() + DRAIN_NS) ? 0 : -EBUSY;
}

static bool leaf_is_well(const struct vdev *leaf)
{
	return leaf->disk && leaf->state == VDEV_STATE_HEALTHY;
}

/* Its device may have another size than before. */
static void leaf_take_size(struct vdev *leaf, uint64_t old_psize)
{
	if (leaf->psize > old_psize && leaf->writable)
		label_copy_rings(leaf->disk, (unsigned)leaf->ashift);
}

static void leaf_look_again(struct vdev *leaf)
{
	uint64_t old = leaf->psize;
	enum vdev_aux aux;

	disk_refresh(leaf->disk);
	aux = vdev_leaf_check_size(leaf, leaf->disk);
	if (aux != VDEV_AUX_NONE)
		vdev_leaf_close(leaf, VDEV_STATE_CANT_OPEN, aux);
	else
		leaf_take_size(leaf, old);
}

static void leaf_open_again(struct vdev *leaf, vdev_open_fn open, void *arg)
{
	uint64_t old = leaf->psize;
	enum vdev_aux aux;
	struct disk *d;
	int err;

	/* What reads all the time is not taken away from under its readers when it writes again, too. */
	if (leaf->disk && leaf->cant_write && probe_wait(leaf) == 0) {
		vdev_leaf_set(leaf, VDEV_STATE_HEALTHY, VDEV_AUX_NONE, false);
		return;
	}
	if (leaf->disk)
		vdev_leaf_close(leaf, VDEV_STATE_CANT_OPEN, VDEV_AUX_OPEN_FAILED);
	aux = vdev_leaf_open_device(leaf, open, arg, &d);
	if (!d) {
		vdev_leaf_set(leaf, VDEV_STATE_CANT_OPEN, aux, false);
		return;
	}
	vdev_leaf_set_device(leaf, d);
	err = probe_wait(leaf);
	if (err && err != -EROFS) {
		vdev_leaf_close(leaf, VDEV_STATE_CANT_OPEN, VDEV_AUX_OPEN_FAILED);
		return;
	}
	leaf_take_size(leaf, old ? old : leaf->psize);
	vdev_leaf_set(leaf, err ? VDEV_STATE_DEGRADED : VDEV_STATE_HEALTHY, err ? VDEV_AUX_IO_FAILURE : VDEV_AUX_NONE,
		      err != 0);
}

static void dspare_open_again(struct vdev *leaf)
{
	vdev_leaf_open(leaf, NULL, NULL);
	vdev_leaf_set(leaf, leaf->state, leaf->aux, false);
}

static void leaf_reopen(struct vdev *leaf, vdev_open_fn open, void *arg)
{
	enum vdev_state barred;
	enum vdev_aux aux;

	if (vdev_leaf_is_barred(leaf, &barred, &aux))
		vdev_leaf_close(leaf, barred, aux);
	else if (leaf->kind == VDEV_DSPARE)
		dspare_open_again(leaf);
	else if (leaf_is_well(leaf))
		leaf_look_again(leaf);
	else
		leaf_open_again(leaf, open, arg);
}

void vdev_reopen(struct vdev *vd, vdev_open_fn open, void *arg)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		vdev_reopen(vd->child[i], open, arg);
	if (vd->queue)
		vdev_queue_reap(vd->queue, 0);
	if (vdev_is_leaf(vd))
		leaf_reopen(vd, open, arg);
}

bool vdev_expand(struct vdev *top)
{
	uint64_t asize = vdev_max_asize(top);

	if (top->state != VDEV_STATE_HEALTHY || asize <= top->asize)
		return false;
	top->asize = asize;
	return true;
}
