/*
 * Batches and their steps: see zil.h. What one step leaves to the next is told at its functions; each runs on the
 * thread of the completion before it, or on a cpu worker where there is much to copy, or on a helper thread where a
 * metaslab has to be waited for.
 */
#include "base/log.h"
#include "zil/zil_impl.h"

#define TRUNCATE_RECLEN 56u
#define INLINE_MAX      (32u << 10) /* bytes of records that are copied on whatever thread comes by */

TUNABLE(tunable_zil_nocacheflush, "zil_nocacheflush", "", 0, 0, 1,
	"unsafe: devices are not flushed when the intent log is committed");

static void zil_advance(struct zil *z);
static void batch_logged(struct zil_batch *b);

/* --- helpers: threads that may wait; one set per pool, so that a pool waits for its own devices only --- */

struct zil_helpers {
	struct list_node node;
	struct zio_pool *zp;
	unsigned refs;
	struct taskq *taskq;
};
static pthread_mutex_t helpers_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the counts; innermost */
static struct list helpers_list = {{&helpers_list.head, &helpers_list.head}, 0};

void zil_helpers_hold(struct zil *z)
{
	SCOPED_LOCK(&helpers_lock);

	list_for_each(&helpers_list, n) {
		struct zil_helpers *h = container_of(n, struct zil_helpers, node);

		if (h->zp == z->zp)
			z->helpers = h;
	}
	if (!z->helpers) {
		z->helpers = xcalloc(1, sizeof(*z->helpers));
		z->helpers->zp = z->zp;
		z->helpers->taskq = taskq_create("zil", 2);
		list_append(&helpers_list, &z->helpers->node);
	}
	z->helpers->refs++;
}

void zil_helpers_release(struct zil *z)
{
	struct zil_helpers *h = z->helpers;

	pthread_mutex_lock(&helpers_lock);
	if (--h->refs) {
		pthread_mutex_unlock(&helpers_lock);
		return;
	}
	list_remove(&helpers_list, &h->node);
	pthread_mutex_unlock(&helpers_lock);
	taskq_destroy(h->taskq);
	free(h);
}

struct taskq *zil_helpers_taskq(struct zil *z)
{
	return z->helpers->taskq;
}

/* --- batches --- */

static struct zil_batch *batch_create_locked(struct zil *z)
{
	struct zil_batch *b = xcalloc(1, sizeof(*b));

	b->zil = z;
	list_init(&b->itxs);
	list_init(&b->waiters);
	list_init(&b->blocks);
	b->tops = xcalloc(z->zp->root->nchildren / 64 + 1, sizeof(*b->tops));
	z->batches++;
	return b;
}

static void batch_destroy(struct zil_batch *b)
{
	struct zil *z = b->zil;

	itx_list_destroy(&b->itxs);
	free(b->flush);
	free(b->tops);
	free(b);
	pthread_mutex_lock(&z->lock);
	if (--z->batches == 0)
		pthread_cond_broadcast(&z->idle);
	pthread_mutex_unlock(&z->lock);
}

void zil_batches_wait(struct zil *z)
{
	SCOPED_LOCK(&z->lock);
	while (z->batches)
		pthread_cond_wait(&z->idle, &z->lock);
}

static void batch_note_top_locked(struct zil_batch *b, const struct bp *bp)
{
	if (bp_is_hole(bp) || bp_is_embedded(bp))
		return;
	for (unsigned i = 0; i < bp_ndvas(bp); i++) {
		uint64_t top = bp_dva(bp, i).vdev;

		b->tops[top / 64] |= UINT64_C(1) << top % 64;
	}
}

/* One of the pending parts has ended; true for the last. */
static bool batch_part_done(struct zil_batch *b, int err)
{
	SCOPED_LOCK(&b->zil->lock);
	if (err && !b->err)
		b->err = err;
	return --b->pending == 0;
}

/* --- the end: waiters are told --- */

static void batch_tell(struct task *t)
{
	struct zil_batch *b = container_of(t, struct zil_batch, task);
	struct list_node *n;

	while ((n = list_pop(&b->waiters))) {
		struct zil_commit *c = container_of(n, struct zil_commit, node);

		c->done(c, c->err);
	}
	batch_destroy(b);
}

/* One waiter is told here and now, many by a worker: the thread may be one that others wait for. */
static void batch_end(struct zil_batch *b, int err)
{
	list_for_each(&b->waiters, n)
		container_of(n, struct zil_commit, node)->err = err;
	b->task.run = batch_tell;
	if (b->waiters.len <= 1)
		batch_tell(&b->task);
	else
		taskq_dispatch(cpu_taskq(), &b->task);
}

static void batch_synced(struct txg_wait *w, int err)
{
	batch_end(w->arg, err);
}

/* What was not logged is waited for in its group. */
static void batch_wait_synced(struct zil_batch *b, uint64_t txg)
{
	b->wait = (struct txg_wait){.txg = txg, .done = batch_synced, .arg = b};
	if (txg >= txg_open(b->zil->txgs))
		txg_kick(b->zil->txgs);
	txg_when_synced(b->zil->txgs, &b->wait);
}

/* The records are in the log, or known not to be: wait_txg says so. */
static void batch_logged(struct zil_batch *b)
{
	struct zil *z = b->zil;
	uint64_t synced = txg_last_synced(z->txgs), txg = b->tx.txg, late;

	pthread_mutex_lock(&z->lock);
	if (b->err)
		b->wait_txg = MAX(b->wait_txg, txg);
	z->late_txg = MAX(z->late_txg, b->wait_txg);
	late = z->late_txg > synced ? z->late_txg : 0;
	z->cur = NULL;
	pthread_mutex_unlock(&z->lock);
	if (b->holds)
		txg_release_sync(z->txgs, txg);
	zil_advance(z);
	if (late)
		batch_wait_synced(b, late);
	else
		batch_end(b, 0);
}

/* The pool is lost or suspended. Its records are lost: later commits wait for their groups. */
static void batch_refused(struct zil_batch *b, int err)
{
	struct zil *z = b->zil;

	pthread_mutex_lock(&z->lock);
	z->late_txg = MAX(z->late_txg, b->max_txg);
	z->cur = NULL;
	pthread_mutex_unlock(&z->lock);
	zil_advance(z);
	batch_end(b, err);
}

/* A block that may not be in the log: all that is behind it is lost. The group in which its successor was allocated is
 * not synced before this is noted, so that its sync frees the chain. */
static void batch_break(struct zil_batch *b, int err)
{
	struct zil *z = b->zil;

	pthread_mutex_lock(&z->lock);
	if (!z->complained)
		log_warn("intent log of data set %llu: %s: writes that must be safe wait for their transaction group",
			 (unsigned long long)z->os->id, err_words(err));
	z->complained = true;
	z->broken_txg = b->tx.txg;
	b->err = err;
	pthread_mutex_unlock(&z->lock);
	batch_logged(b);
}

/* --- flushing --- */

static void batch_flushed(struct zil_batch *b)
{
	struct zil *z = b->zil;
	struct list_node *n;

	if (b->err) {
		batch_break(b, b->err);
		return;
	}
	pthread_mutex_lock(&z->lock);
	while ((n = list_pop(&b->blocks)))
		container_of(n, struct zil_block, batch_node)->flushed = true;
	z->complained = false;
	pthread_mutex_unlock(&z->lock);
	batch_logged(b);
}

static void flush_done(struct vdev_io *io, int err)
{
	struct zil_flush *f = container_of(io, struct zil_flush, io);

	if (batch_part_done(f->batch, err))
		batch_flushed(f->batch);
}

/* Every device that took data or blocks, once. */
static void batch_flush(struct zil_batch *b)
{
	struct vdev *root = b->zil->zp->root;
	unsigned n = 0;

	b->flush = xcalloc(root->nchildren, sizeof(*b->flush));
	pthread_mutex_lock(&b->zil->lock);
	b->pending = 1;
	pthread_mutex_unlock(&b->zil->lock);
	for (unsigned i = 0; i < root->nchildren && !tunable_get(&tunable_zil_nocacheflush); i++) {
		struct zil_flush *f = &b->flush[n];

		if (!(b->tops[i / 64] >> i % 64 & 1))
			continue;
		n++;
		f->batch = b;
		f->io = (struct vdev_io){.done = flush_done, .class = VDEV_SYNC_WRITE};
		pthread_mutex_lock(&b->zil->lock);
		b->pending++;
		pthread_mutex_unlock(&b->zil->lock);
		vdev_flush(root->child[i], &f->io);
	}
	if (batch_part_done(b, 0))
		batch_flushed(b);
}

/* --- writing blocks --- */

static void batch_written(struct zil_batch *b)
{
	if (b->err)
		batch_break(b, b->err);
	else
		batch_flush(b);
}

void zil_block_done(struct zio_write *w, int err)
{
	struct zil_block *block = w->arg;
	struct zil_batch *b = block->batch;

	buf_release(block->buf);
	block->buf = NULL;
	if (batch_part_done(b, err))
		batch_written(b);
}

static void batch_write(struct zil_batch *b)
{
	struct zil *z = b->zil;
	struct list_node *next;

	pthread_mutex_lock(&z->lock);
	b->pending = 1;
	list_for_each(&b->blocks, n) {
		batch_note_top_locked(b, &container_of(n, struct zil_block, batch_node)->bp);
		b->pending++;
	}
	pthread_mutex_unlock(&z->lock);
	/* the last block's completion may end the batch, but not before our own part has */
	for (struct list_node *n = b->blocks.head.next; n != &b->blocks.head; n = next) {
		next = n->next;
		zio_write(z->zp, &container_of(n, struct zil_block, batch_node)->write);
	}
	if (batch_part_done(b, 0))
		batch_written(b);
}

/* --- placing records --- */

static void batch_fill(struct zil_batch *b, unsigned flags);

static void batch_fill_waiting(struct task *t)
{
	batch_fill(container_of(t, struct zil_batch, task), 0);
}

static void batch_fill(struct zil_batch *b, unsigned flags)
{
	struct zil *z = b->zil;
	int err = zil_chain_fill(b, flags);

	if (err == -EAGAIN && flags & ZIO_ALLOC_NOWAIT) {
		b->task.run = batch_fill_waiting;
		taskq_dispatch(zil_helpers_taskq(z), &b->task);
		return;
	}
	if (err) {
		batch_break(b, err);
		return;
	}
	pthread_mutex_lock(&z->lock);
	b->wait_txg = MAX(b->wait_txg, z->ready_txg);
	z->burst[z->nbursts++ % ZIL_BURSTS] = b->burst;
	pthread_mutex_unlock(&z->lock);
	batch_write(b);
}

/* The open group is held: following blocks are allocated in it. */
static void batch_held(struct tx *tx, int err)
{
	struct zil_batch *b = tx->arg;
	struct zil *z = b->zil;
	bool log;

	if (err) {
		batch_refused(b, err);
		return;
	}
	objset_dirty(z->os, tx);
	txg_hold_sync(z->txgs, tx->txg);
	b->holds = true;
	tx_end(tx);
	pthread_mutex_lock(&z->lock);
	if (atomic_exchange(&z->restart, false) && !list_is_empty(&z->chain))
		z->broken_txg = tx->txg;
	if (z->broken_txg && !b->err)
		b->err = -EIO;
	log = !b->err;
	pthread_mutex_unlock(&z->lock);
	if (log)
		batch_fill(b, ZIO_ALLOC_NOWAIT);
	else
		batch_logged(b);
}

static void batch_begin(struct task *t)
{
	struct zil_batch *b = container_of(t, struct zil_batch, task);

	b->tx = (struct tx){.flags = TX_NOWAIT | TX_NOSPACE_CHECK, .done = batch_held, .arg = b};
	if (list_is_empty(&b->itxs) && !atomic_load(&b->zil->restart))
		batch_logged(b); /* only a group is waited for */
	else
		tx_begin(b->zil->txgs, &b->tx);
}

/* Set while this thread starts a batch: disks that complete at once must not have it start one in another. */
static _Thread_local bool starting;

/* Starts the next batch when the one before is through. */
static void zil_advance(struct zil *z)
{
	struct zil_batch *b;

	pthread_mutex_lock(&z->lock);
	if (!z->cur) {
		z->cur = z->next;
		z->next = NULL;
	}
	b = z->cur;
	if (!b || b->started || b->pending) {
		pthread_mutex_unlock(&z->lock);
		return;
	}
	b->started = true;
	pthread_mutex_unlock(&z->lock);
	b->task.run = batch_begin;
	if (starting || (b->bytes > INLINE_MAX && !thread_is_cpu_worker())) {
		taskq_dispatch(cpu_taskq(), &b->task);
		return;
	}
	starting = true;
	batch_begin(&b->task);
	starting = false;
}

/* --- the data of INDIRECT records --- */

struct zil_data {
	struct list_node node;
	struct dmu_sync sync;
	struct zil_batch *batch;
	struct itx *itx;
};

/* The block was freed since in the same group, by something whose record may come too late: so the record says that it
 * is free. In a file it would not say how long that is; there the group is waited for. */
static void record_becomes_hole_locked(struct zil_batch *b, struct itx *itx)
{
	if (b->zil->os->type != OBJSET_ZVOL) {
		itx->drop = true;
		b->wait_txg = MAX(b->wait_txg, itx->txg);
		return;
	}
	store_host64(itx->record, TX_TRUNCATE); /* object, offset and length are where they were */
	b->bytes -= itx->reclen - TRUNCATE_RECLEN;
	itx->reclen = TRUNCATE_RECLEN;
}

static void data_done(struct dmu_sync *s, int err)
{
	struct zil_data *d = container_of(s, struct zil_data, sync);
	struct zil_batch *b = d->batch;
	struct itx *itx = d->itx;

	pthread_mutex_lock(&b->zil->lock);
	switch (err) {
	case 0:
		memcpy(itx->record + ZIL_WRITE_BP, &s->bp, sizeof(s->bp));
		batch_note_top_locked(b, &s->bp);
		break;
	case -EEXIST: /* its group is being synced: that is waited for */
		itx->drop = true;
		b->wait_txg = MAX(b->wait_txg, itx->txg);
		err = 0;
		break;
	case -ENOENT:
		record_becomes_hole_locked(b, itx);
		err = 0;
		break;
	}
	pthread_mutex_unlock(&b->zil->lock);
	free(d);
	if (batch_part_done(b, err))
		zil_advance(b->zil);
}

/* Puts records into a batch that gathers; what has to be written first is noted in *data. */
static void batch_add_locked(struct zil_batch *b, struct list *taken, struct list *data)
{
	struct list_node *n;

	while ((n = list_pop(taken))) {
		struct itx *itx = container_of(n, struct itx, node);
		struct zil_data *d;

		b->bytes += itx->reclen;
		b->max_txg = MAX(b->max_txg, itx->txg);
		list_append(&b->itxs, &itx->node);
		if (!itx->dn)
			continue;
		d = xcalloc(1, sizeof(*d));
		d->batch = b;
		d->itx = itx;
		d->sync = (struct dmu_sync){.dn = itx->dn, .blkid = itx->blkid, .txg = itx->txg, .done = data_done};
		list_append(data, &d->node);
		b->pending++;
	}
	b->burst = b->bytes;
}

/* --- commit --- */

/* The batch that answers a commit; NULL: everything is safe. */
static struct zil_batch *commit_batch_locked(struct zil *z, bool records)
{
	if (!z->next && !records && z->cur)
		return z->cur; /* it may have our records */
	if (!z->next && (records || z->late_txg > txg_last_synced(z->txgs)))
		z->next = batch_create_locked(z);
	return z->next;
}

void zil_commit(struct zil *z, struct zil_commit *c)
{
	struct list taken, data;
	struct list_node *n;
	struct zil_batch *b;
	bool gathers;

	if (z->os->props.sync == SYNC_DISABLED) {
		c->done(c, 0);
		return;
	}
	list_init(&taken);
	list_init(&data);
	pthread_mutex_lock(&z->lock);
	zil_queues_take(z, c->object, &taken);
	b = commit_batch_locked(z, !list_is_empty(&taken));
	gathers = b && b == z->next;
	if (b)
		list_append(&b->waiters, &c->node);
	if (gathers) {
		b->pending++; /* not to be started before all of its data is on the way */
		batch_add_locked(b, &taken, &data);
	}
	pthread_mutex_unlock(&z->lock);
	if (!b)
		c->done(c, 0);
	if (!gathers)
		return;
	while ((n = list_pop(&data)))
		dmu_sync(&container_of(n, struct zil_data, node)->sync);
	if (batch_part_done(b, 0))
		zil_advance(z);
}

void zil_restart(struct zil *z)
{
	pthread_mutex_lock(&z->lock);
	atomic_store(&z->restart, true);
	if (!z->next)
		z->next = batch_create_locked(z);
	pthread_mutex_unlock(&z->lock);
	zil_advance(z);
}

static void commit_wait_done(struct zil_commit *c, int err)
{
	waiter_done(c->arg, err);
}

int zil_commit_wait(struct zil *z, uint64_t object)
{
	struct waiter w;
	struct zil_commit c = {.object = object, .done = commit_wait_done, .arg = &w};

	waiter_init(&w);
	zil_commit(z, &c);
	return waiter_wait(&w);
}
