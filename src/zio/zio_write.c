/* The write pipeline's state machine: placing, writing, failing. See zio/zio_write_impl.h. */
#include "zio/zio_write_impl.h"

/* Set while this thread is inside vdev_write: a completion that comes now must not go on from here. */
static _Thread_local unsigned submitting;

static void op_compute(struct task *t);
static void op_place_waiting(struct task *t);
static void op_issue(struct zio_wop *op);
static void op_give_up(struct zio_wop *op, int err);

static struct zio_wop *op_of(struct task *t)
{
	return container_of(t, struct zio_wop, task);
}

static void op_run(struct zio_wop *op, void (*run)(struct task *t))
{
	op->task.run = run;
	taskq_dispatch_front(cpu_taskq(), &op->task);
}

static void op_run_waiting(struct zio_wop *op, void (*run)(struct task *t))
{
	op->task.run = run;
	taskq_dispatch(op->zp->writer->wait, &op->task);
}

/* --- pieces --- */

static void op_drop_pieces(struct zio_wop *op)
{
	for (unsigned i = 0; i < op->npieces; i++)
		buf_release(op->piece[i].buf);
	if (op->piece != op->own)
		free(op->piece);
	op->piece = NULL;
	op->npieces = 0;
}

static void dvas_free(struct zio_wop *op, const struct bp *bp)
{
	struct zio_pool *zp = op->zp;

	for (unsigned i = 0; i < op->ndvas; i++) {
		struct dva dva = bp_dva(bp, i);

		zp->alloc->unalloc(zp->alloc_arg, &dva, op->w->txg);
		counter_add(&zp->freed, dva.asize);
	}
}

/* --- endings --- */

static void op_finish(struct zio_wop *op, int err)
{
	struct zio_write *w = op->w;
	struct zio_pool *zp = op->zp;

	op_drop_pieces(op);
	buf_release(op->data);
	if (!err) {
		w->bp = op->bp;
		counter_add(&zp->writes, 1);
		counter_add(&zp->write_bytes, op->psize);
	} else if (op->placed) {
		dvas_free(op, &op->bp);
	}
	if (zp->writer)
		atomic_fetch_sub(&zp->writer->in_flight, 1);
	free(op);
	w->priv = NULL;
	w->done(w, err);
}

static void op_end(struct task *t)
{
	struct zio_wop *op = op_of(t);

	op_finish(op, op->err);
}

/* Takes a write out of the list by its number: the op itself may be gone, and another one in its place. */
static struct zio_wop *kept_take(struct zio_writer *wr, uint64_t ticket)
{
	SCOPED_LOCK(&wr->lock);
	list_for_each(&wr->kept, n) {
		struct zio_wop *op = container_of(n, struct zio_wop, node);

		if (op->ticket == ticket) {
			list_remove(&wr->kept, n);
			return op;
		}
	}
	return NULL;
}

static bool op_keep(struct zio_wop *op, uint64_t *ticket)
{
	struct zio_writer *wr = op->zp->writer;

	SCOPED_LOCK(&wr->lock);
	if (atomic_load(&wr->abandoned))
		return false;
	op->ticket = *ticket = ++wr->next_ticket;
	list_append(&wr->kept, &op->node);
	return true;
}

/*
 * All was tried. The write is in the list before the pool is asked, so that a zio_resume that comes between finds it.
 */
static void op_give_up(struct zio_wop *op, int err)
{
	struct zio_pool *zp = op->zp;
	struct zbookmark zb = op->w->zb;
	bool ask = zp->on_write_failure && !(op->w->flags & ZIO_WRITE_MAY_FAIL);
	uint64_t ticket;

	op->err = err;
	if (ask && op_keep(op, &ticket)) {
		if (zp->on_write_failure(zp, &zb, err))
			return;
		op = kept_take(zp->writer, ticket);
		if (!op)
			return;
	}
	op_run(op, op_end);
}

/* --- writing --- */

static void op_written(struct task *t)
{
	struct zio_wop *op = op_of(t);
	int err = 0;

	for (unsigned i = 0; i < op->npieces; i++)
		err = op->piece[i].err ? op->piece[i].err : err;
	op->err = err;
	if (!err)
		op_finish(op, 0);
	else if (op->moved || op->w->flags & ZIO_WRITE_FIXED)
		op_give_up(op, err);
	else
		op_run_waiting(op, op_place_waiting);
}

static void op_piece_ended(struct zio_wop *op)
{
	if (atomic_fetch_sub(&op->pending, 1) != 1)
		return;
	if (thread_is_cpu_worker() && submitting == 0)
		op_written(&op->task);
	else
		op_run(op, op_written);
}

static void piece_done(struct vdev_io *io, int err)
{
	struct zio_piece *p = io->arg;

	p->err = err;
	p->written = !err;
	op_piece_ended(p->op);
}

static void piece_submit(struct zio_wop *op, struct zio_piece *p)
{
	struct vdev *top = op->zp->root->child[p->dva.vdev];
	struct buf *buf = p->buf ? p->buf : op->data;

	p->op = op;
	p->io = (struct vdev_io){
	    .offset = p->dva.offset,
	    .size = p->io.size,
	    .data = buf->data,
	    .txg = op->w->txg,
	    .class = op->w->flags & ZIO_WRITE_SYNC ? VDEV_SYNC_WRITE : VDEV_ASYNC_WRITE,
	    .done = piece_done,
	    .arg = p,
	};
	submitting++;
	vdev_write(top, &p->io);
	submitting--;
}

/* Everything that is not on its device yet. */
static void op_issue(struct zio_wop *op)
{
	atomic_store(&op->pending, op->npieces + 1);
	for (unsigned i = 0; i < op->npieces; i++) {
		if (op->piece[i].written)
			op_piece_ended(op);
		else
			piece_submit(op, &op->piece[i]);
	}
	op_piece_ended(op);
}

/* What a device gets beyond psize must be zeros, and may lie beyond the end of the buffer. */
static struct buf *buf_padded(const struct buf *from, size_t psize, size_t size)
{
	struct buf *b = buf_alloc(size);

	if (!b)
		return NULL;
	memcpy(b->data, from->data, psize);
	memset(b->data + psize, 0, size - psize);
	return b;
}

static int op_make_pieces(struct zio_wop *op)
{
	op_drop_pieces(op);
	memset(op->own, 0, sizeof(op->own));
	op->piece = op->own;
	op->npieces = op->ndvas;
	for (unsigned i = 0; i < op->ndvas; i++) {
		struct zio_piece *p = &op->piece[i];
		uint64_t size;

		p->dva = bp_dva(&op->bp, i);
		size = ROUND_UP((uint64_t)op->psize, UINT64_C(1) << op->zp->root->child[p->dva.vdev]->ashift);
		p->io.size = size;
		if (size == op->psize)
			continue;
		p->buf = buf_padded(op->data, op->psize, size);
		if (!p->buf) {
			op_drop_pieces(op);
			return -ENOMEM;
		}
	}
	return 0;
}

/* --- placing --- */

/* Space for the block in one piece per copy; what was allocated for it before is given back after. */
static int op_allocate(struct zio_wop *op, unsigned flags)
{
	struct zio_pool *zp = op->zp;
	struct dva dva[BP_DVAS];
	struct bp old = op->bp;
	int err;

	err = zp->alloc->alloc(zp->alloc_arg, op->class, op->psize, op->ndvas, op->w->txg,
			       flags | (op->w->policy.fast_write ? ZIO_ALLOC_FASTWRITE : 0), NULL, dva);
	if (err)
		return err;
	if (op->placed)
		dvas_free(op, &old);
	for (unsigned i = 0; i < op->ndvas; i++) {
		bp_set_dva(&op->bp, i, &dva[i]);
		counter_add(&zp->allocated, dva[i].asize);
	}
	op->placed = true;
	op->in_place = false;
	return op_make_pieces(op);
}

static void op_placed(struct zio_wop *op, int err)
{
	if (err)
		op_give_up(op, err);
	else
		op_issue(op);
}

/* On a thread that may wait; also the second attempt of a write that failed. */
static void op_place_waiting(struct task *t)
{
	struct zio_wop *op = op_of(t);
	bool again = op->npieces > 0;
	int err = op_allocate(op, 0);

	op->moved |= again;
	op_placed(op, err && again ? op->err : err);
}

static bool dvas_are_kept(const struct zio_wop *op)
{
	const struct bp *old = &op->w->bp;

	return op->w->rewrite && !bp_is_hole(old) && !bp_is_embedded(old) && bp_birth(old) == op->w->txg &&
	       bp_physical_birth(old) == op->w->txg && bp_psize(old) == op->psize && bp_ndvas(old) == op->ndvas &&
	       !bp_is_gang(old);
}

/* On the cpu worker that made the bytes. */
static void op_place(struct zio_wop *op)
{
	const struct zio_policy *p = &op->w->policy;
	int err;

	if (op->w->flags & ZIO_WRITE_FIXED) {
		op->ndvas = bp_ndvas(&op->bp);
		op->in_place = true;
		op_placed(op, op_make_pieces(op));
		return;
	}
	op->class = p->class;
	if (p->class == ZIO_CLASS_NORMAL && op->psize <= p->special_small)
		op->class = ZIO_CLASS_SPECIAL;
	op->ndvas = MIN(p->copies, bp_is_encrypted(&op->bp) ? BP_DVAS - 1 : BP_DVAS);
	if (dvas_are_kept(op)) {
		memcpy(op->bp.w, op->w->bp.w, 2 * op->ndvas * sizeof(op->bp.w[0]));
		op->in_place = true;
		op_placed(op, op_make_pieces(op));
		return;
	}
	err = op_allocate(op, ZIO_ALLOC_NOWAIT);
	if (err == -EAGAIN)
		op_run_waiting(op, op_place_waiting);
	else
		op_placed(op, err);
}

/* --- the way in --- */

static int writer_check(const struct zio_pool *zp)
{
	if (!zp->writer)
		return -EROFS;
	return atomic_load(&zp->writer->abandoned) ? -EIO : 0;
}

static void op_compute(struct task *t)
{
	struct zio_wop *op = op_of(t);
	enum zio_made made = ZIO_MADE_WHOLE;
	int err = writer_check(op->zp);

	if (op->w->ready)
		op->w->ready(op->w);
	if (!err)
		err = zio_transform(op, &made);
	if (err || made == ZIO_MADE_WHOLE)
		op_finish(op, err);
	else
		op_place(op);
}

void zio_write(struct zio_pool *zp, struct zio_write *w)
{
	struct zio_wop *op = xcalloc(1, sizeof(*op));

	op->zp = zp;
	op->w = w;
	w->priv = op;
	if (zp->writer)
		atomic_fetch_add(&zp->writer->in_flight, 1);
	op->task.run = op_compute;
	taskq_dispatch(cpu_taskq(), &op->task);
}

struct write_wait {
	struct waiter w;
	void *arg;
};

static void write_wait_done(struct zio_write *w, int err)
{
	struct write_wait *ww = w->arg;

	waiter_done(&ww->w, err);
}

int zio_write_wait(struct zio_pool *zp, struct zio_write *w)
{
	struct write_wait ww = {.arg = w->arg};
	int err;

	waiter_init(&ww.w);
	w->done = write_wait_done;
	w->arg = &ww;
	zio_write(zp, w);
	err = waiter_wait(&ww.w);
	w->arg = ww.arg;
	return err;
}

/* --- the writer --- */

#define WAIT_THREADS 2

void zio_writer_create(struct zio_pool *zp)
{
	struct zio_writer *wr = xcalloc(1, sizeof(*wr));

	pthread_mutex_init(&wr->lock, NULL);
	list_init(&wr->kept);
	wr->wait = taskq_create("zio-wait", WAIT_THREADS);
	zp->writer = wr;
}

void zio_writer_destroy(struct zio_pool *zp)
{
	struct zio_writer *wr = zp->writer;

	if (!wr)
		return;
	BUG_ON(atomic_load(&wr->in_flight) != 0);
	zp->writer = NULL;
	taskq_destroy(wr->wait);
	pthread_mutex_destroy(&wr->lock);
	free(wr);
}

static void op_again(struct task *t)
{
	struct zio_wop *op = op_of(t);

	op->moved = false;
	if (op->npieces > 0)
		op_issue(op);
	else
		op_placed(op, op->placed || op->in_place ? op_make_pieces(op) : op_allocate(op, 0));
}

/* What is in the list now: a write that fails once more comes back to it. */
static void kept_run(struct zio_pool *zp, bool abandon)
{
	struct zio_writer *wr = zp->writer;
	struct list list;
	struct list_node *n;

	if (!wr)
		return;
	list_init(&list);
	pthread_mutex_lock(&wr->lock);
	if (abandon)
		atomic_store(&wr->abandoned, true);
	list_splice(&list, &wr->kept);
	pthread_mutex_unlock(&wr->lock);
	while ((n = list_pop(&list))) {
		struct zio_wop *op = container_of(n, struct zio_wop, node);

		if (abandon)
			op_run(op, op_end);
		else
			op_run_waiting(op, op_again);
	}
}

void zio_resume(struct zio_pool *zp)
{
	kept_run(zp, false);
}

void zio_abandon(struct zio_pool *zp)
{
	kept_run(zp, true);
}

bool zio_is_suspended(const struct zio_pool *zp)
{
	struct zio_writer *wr = zp->writer;

	if (!wr)
		return false;
	SCOPED_LOCK(&wr->lock);
	return !list_is_empty(&wr->kept);
}
