/* The write pipeline's state machine: placing, writing, failing. See zio/zio_write_impl.h. */
#include "zio/zio_write_impl.h"

/* Set while this thread is inside vdev_write: a completion that comes now must not go on from here. */
static _Thread_local unsigned submitting;

static void op_compute(struct task *t);
static void op_place_waiting(struct task *t);
static void op_issue(struct zio_wop *op);
static void op_give_up(struct zio_wop *op, int err);
static void writer_pump(struct zio_pool *zp);

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

/* --- places --- */

static void place_drop(struct zio_wop *op, struct zio_place *place)
{
	struct zio_pool *zp = op->zp;

	if (place->ours && place->gang)
		zio_gang_give_back(op, place->gang);
	for (unsigned i = 0; i < op->ndvas && place->ours && !place->gang; i++) {
		zp->alloc->unalloc(zp->alloc_arg, &place->dva[i], op->w->txg);
		counter_add(&zp->freed, place->dva[i].asize);
	}
	zio_gang_destroy(place->gang);
	*place = (struct zio_place){.gang = NULL};
}

/* --- endings --- */

/* Makes room for those that wait to be started. */
static void op_leave(struct zio_wop *op)
{
	struct zio_writer *wr = op->zp->writer;

	if (!wr)
		return;
	atomic_fetch_sub(&wr->made, op->made);
	if (op->throttled) {
		atomic_fetch_sub(&wr->started, 1);
		writer_pump(op->zp);
	}
	atomic_fetch_sub(&wr->in_flight, 1);
}

static void op_finish(struct zio_wop *op, int err)
{
	struct zio_write *w = op->w;
	struct zio_pool *zp = op->zp;

	if (!err) {
		w->bp = op->bp;
		op->place.ours = false;
		counter_add(&zp->writes, 1);
		counter_add(&zp->write_bytes, op->psize);
		if (op->place.gang)
			counter_add(&zp->gang_writes, 1);
	}
	op_drop_pieces(op);
	place_drop(op, &op->place);
	buf_release(op->data);
	op_leave(op);
	free(op);
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
	if (op->w->flags & ZIO_WRITE_DIRECT || (thread_is_cpu_worker() && submitting == 0))
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

	p->op = op;
	p->io = (struct vdev_io){
	    .offset = p->dva.offset,
	    .size = p->size,
	    .data = p->buf->data,
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

uint32_t zio_write_size(const struct zio_pool *zp, const struct dva *dva, uint32_t size)
{
	return (uint32_t)ROUND_UP((uint64_t)size, UINT64_C(1) << zp->root->child[dva->vdev]->ashift);
}

/* What a device gets beyond psize must be zeros, and may lie beyond the end of the buffer. */
static struct buf *buf_padded(struct buf *from, uint32_t psize, uint32_t size)
{
	struct buf *b;

	if (size == psize)
		return buf_hold(from);
	b = buf_alloc(size);
	if (!b)
		return NULL;
	memcpy(b->data, from->data, psize);
	memset(b->data + psize, 0, size - psize);
	return b;
}

static int make_plain_pieces(struct zio_wop *op)
{
	memset(op->own, 0, op->ndvas * sizeof(op->own[0]));
	op->piece = op->own;
	for (unsigned i = 0; i < op->ndvas; i++) {
		struct zio_piece *p = &op->piece[i];

		p->dva = op->place.dva[i];
		p->size = zio_write_size(op->zp, &p->dva, op->psize);
		if (i > 0 && p->size == p[-1].size)
			p->buf = buf_hold(p[-1].buf);
		else
			p->buf = buf_padded(op->data, op->psize, p->size);
		if (!p->buf)
			return -ENOMEM;
		op->npieces++;
	}
	return 0;
}

static int op_make_pieces(struct zio_wop *op)
{
	int err;

	op_drop_pieces(op);
	err = op->place.gang ? zio_gang_make_pieces(op, op->place.gang) : make_plain_pieces(op);
	if (err)
		op_drop_pieces(op);
	return err;
}

/* --- placing --- */

static void op_set_place(struct zio_wop *op, const struct zio_place *place)
{
	place_drop(op, &op->place);
	op->place = *place;
	op->placed = true;
	memset(op->bp.w, 0, (bp_is_encrypted(&op->bp) ? BP_DVAS - 1 : BP_DVAS) * 2 * sizeof(op->bp.w[0]));
	if (place->gang)
		zio_gang_set_dvas(place->gang, &op->bp);
	for (unsigned i = 0; i < op->ndvas && !place->gang; i++)
		bp_set_dva(&op->bp, i, &place->dva[i]);
}

/* One piece per copy; what must not wait may get -EAGAIN. */
static int place_whole(struct zio_wop *op, unsigned flags, struct zio_place *place)
{
	struct zio_pool *zp = op->zp;
	int err;

	flags |= op->w->policy.fast_write ? ZIO_ALLOC_FASTWRITE : 0;
	flags |= op->class != op->w->policy.class ? ZIO_ALLOC_SMALL : 0;
	*place = (struct zio_place){.ours = true};
	err = zp->alloc->alloc(zp->alloc_arg, op->class, op->psize, op->ndvas, op->w->txg, flags, NULL, place->dva);
	for (unsigned i = 0; i < op->ndvas && !err; i++)
		counter_add(&zp->allocated, place->dva[i].asize);
	return err;
}

static bool op_may_gang(const struct zio_wop *op)
{
	return op->psize > MAX(op->zp->min_alloc, 512);
}

/*
 * The old block's own space, when it was made in this group and has the same size. Encrypted blocks always move
 * (04, A1.6).
 */
static bool may_stay(const struct zio_wop *op)
{
	const struct bp *old = &op->w->bp;

	return op->w->rewrite && !bp_is_encrypted(&op->bp) && !(op->w->flags & ZIO_WRITE_RAW) && !op->placed &&
	       !bp_is_hole(old) && !bp_is_embedded(old) && bp_birth(old) == op->w->txg &&
	       bp_physical_birth(old) == op->w->txg && bp_psize(old) == op->psize &&
	       (bp_is_gang(old) || bp_ndvas(old) == op->ndvas);
}

static void op_placed(struct zio_wop *op, int err)
{
	if (!err)
		err = op_make_pieces(op);
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
	struct zio_place place = {.ours = false};
	int err = -ENOENT;

	if (may_stay(op) && bp_is_gang(&op->w->bp))
		err = zio_gang_load(op, &op->w->bp, &place.gang);
	if (err)
		err = place_whole(op, 0, &place);
	if (err == -ENOSPC && op_may_gang(op))
		err = zio_gang_create(op, &place.gang);
	if (!err)
		op_set_place(op, &place);
	op->moved |= again;
	op_placed(op, err && again ? op->err : err);
}

static void place_of_pointer(const struct bp *bp, struct zio_place *place)
{
	*place = (struct zio_place){.ours = false};
	for (unsigned i = 0; i < bp_ndvas(bp); i++)
		place->dva[i] = bp_dva(bp, i);
}

/* On the cpu worker that made the bytes. */
static void op_place(struct zio_wop *op)
{
	const struct zio_policy *p = &op->w->policy;
	bool fixed = op->w->flags & ZIO_WRITE_FIXED;
	struct zio_place place;
	int err = 0;

	op->class = p->class;
	if (p->class == ZIO_CLASS_NORMAL && op->psize <= p->special_small)
		op->class = ZIO_CLASS_SPECIAL;
	op->ndvas = MIN(p->copies, bp_is_encrypted(&op->bp) ? BP_DVAS - 1 : BP_DVAS);
	if (fixed)
		op->ndvas = bp_ndvas(&op->bp);
	if (may_stay(op) && bp_is_gang(&op->w->bp))
		err = -EAGAIN;
	else if (fixed || may_stay(op))
		place_of_pointer(&op->w->bp, &place);
	else
		err = place_whole(op, ZIO_ALLOC_NOWAIT, &place);
	if (err == -EAGAIN || (err == -ENOSPC && op_may_gang(op))) {
		op_run_waiting(op, op_place_waiting);
		return;
	}
	if (!err)
		op_set_place(op, &place);
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

	if (op->w->ready && !op->ready)
		op->w->ready(op->w);
	op->ready = true;
	if (!err)
		err = zio_transform(op, &made);
	op->computed = !err;
	if (err == -ENOMEM)
		op_give_up(op, err);
	else if (err || made == ZIO_MADE_WHOLE)
		op_finish(op, err);
	else
		op_place(op);
}

/* --- starting, as there is room --- */

/* Enough to keep every queue full and to merge neighbours; each costs a little memory beside its data. */
#define STARTED_MAX 8192u
/* Bytes of buffers that hold compressed or encrypted blocks until they are written. */
#define MADE_MAX (UINT64_C(64) << 20)

static uint64_t write_makes(const struct zio_write *w)
{
	enum compress c = w->policy.compress;

	if (w->flags & (ZIO_WRITE_FIXED | ZIO_WRITE_RAW))
		return 0;
	return w->key || (c != COMPRESS_OFF && c != COMPRESS_EMPTY) ? w->lsize : 0;
}

static void write_start(struct zio_pool *zp, struct zio_write *w, bool throttled)
{
	unsigned copies = w->flags & ZIO_WRITE_FIXED ? BP_DVAS : MIN(w->policy.copies, BP_DVAS);
	struct zio_wop *op = xcalloc(1, sizeof(*op) + copies * sizeof(op->own[0]));

	op->zp = zp;
	op->w = w;
	op->made = throttled ? write_makes(w) : 0;
	op->throttled = throttled;
	op->task.run = op_compute;
	if (w->flags & ZIO_WRITE_DIRECT)
		op_compute(&op->task);
	else
		taskq_dispatch(cpu_taskq(), &op->task);
}

/* True: counted as started. One is always let in. */
static bool writer_admit(struct zio_writer *wr, const struct zio_write *w)
{
	uint64_t makes = write_makes(w);

	if (atomic_fetch_add(&wr->started, 1) >= STARTED_MAX) {
		atomic_fetch_sub(&wr->started, 1);
		return false;
	}
	if (makes && atomic_fetch_add(&wr->made, makes) >= MADE_MAX) {
		atomic_fetch_sub(&wr->made, makes);
		atomic_fetch_sub(&wr->started, 1);
		return false;
	}
	return true;
}

/* Whoever leaves, and whoever queues, looks here after: so that nobody is forgotten. */
static void writer_pump(struct zio_pool *zp)
{
	struct zio_writer *wr = zp->writer;

	while (atomic_load(&wr->nqueued) > 0) {
		struct zio_write *w = NULL;
		struct list_node *n;

		pthread_mutex_lock(&wr->lock);
		n = list_first(&wr->queued);
		if (n && writer_admit(wr, container_of(n, struct zio_write, node))) {
			w = container_of(n, struct zio_write, node);
			list_remove(&wr->queued, n);
			atomic_fetch_sub(&wr->nqueued, 1);
		}
		pthread_mutex_unlock(&wr->lock);
		if (!w)
			return;
		write_start(zp, w, true);
	}
}

void zio_write(struct zio_pool *zp, struct zio_write *w)
{
	struct zio_writer *wr = zp->writer;
	bool throttled = wr && !(w->flags & ZIO_WRITE_SYNC);

	if (wr)
		atomic_fetch_add(&wr->in_flight, 1);
	if (!throttled || (atomic_load(&wr->nqueued) == 0 && writer_admit(wr, w))) {
		write_start(zp, w, throttled);
		return;
	}
	pthread_mutex_lock(&wr->lock);
	list_append(&wr->queued, &w->node);
	atomic_fetch_add(&wr->nqueued, 1);
	pthread_mutex_unlock(&wr->lock);
	writer_pump(zp);
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

	pthread_cond_init(&wr->resumed, NULL);
	pthread_mutex_init(&wr->lock, NULL);
	list_init(&wr->queued);
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
	pthread_cond_destroy(&wr->resumed);
	pthread_mutex_destroy(&wr->lock);
	free(wr);
}

static void op_again(struct task *t)
{
	struct zio_wop *op = op_of(t);

	op->moved = false;
	if (!op->computed)
		op_run(op, op_compute);
	else if (op->npieces > 0)
		op_issue(op);
	else if (op->placed)
		op_placed(op, 0);
	else
		op_place_waiting(t);
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
	else
		wr->resumes++;
	pthread_cond_broadcast(&wr->resumed);
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

uint64_t zio_resumes(const struct zio_pool *zp)
{
	struct zio_writer *wr = zp->writer;

	SCOPED_LOCK(&wr->lock);
	return wr->resumes;
}

bool zio_wait_resumed(const struct zio_pool *zp, uint64_t resumes)
{
	struct zio_writer *wr = zp->writer;

	SCOPED_LOCK(&wr->lock);
	while (wr->resumes == resumes && !atomic_load(&wr->abandoned))
		pthread_cond_wait(&wr->resumed, &wr->lock);
	return !atomic_load(&wr->abandoned);
}
