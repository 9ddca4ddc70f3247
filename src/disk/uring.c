/*
 * The io_uring engine. Each ring has one thread that alone touches it: it takes what was queued, submits all of it
 * with one system call, waits, and runs the completions. So every submission that arrives while the thread is busy
 * shares its next system call, and completions cost no interrupt of the threads that submitted.
 *
 * At most RING_SLOTS requests of a ring are with the kernel; the rest waits in the queue, so a submitter never waits.
 */
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/os.h"
#include "base/sync.h"
#include "base/taskq.h"
#include "disk/file.h"

#define RING_ENTRIES 256
#define RING_SLOTS   (RING_ENTRIES - 2) /* one entry is for the wake-up read */
#define RINGS_MAX    2

/* A chain of requests through their `priv`. */
struct req_queue {
	struct disk_req *first, *last;
};

struct slot {
	struct xfer x;
	struct slot *next_free;
};

struct ring {
	pthread_mutex_t lock; /* guards `arrived`, `asleep`; innermost */
	struct req_queue arrived;
	bool asleep; /* the thread waits in the kernel and has not been woken */
	int wake_fd;

	/* The ring thread's own. */
	struct io_uring uring;
	struct req_queue backlog;
	struct slot *free_slots;
	uint64_t wake_count; /* target of the wake-up read */
	struct slot slots[RING_SLOTS];

	struct waiter started;
};

static struct ring *rings[RINGS_MAX];
static unsigned nrings;

static void req_queue_append(struct req_queue *q, struct disk_req *first, struct disk_req *last)
{
	if (!first)
		return;
	if (q->last)
		q->last->priv = first;
	else
		q->first = first;
	q->last = last;
}

static struct disk_req *req_queue_pop(struct req_queue *q)
{
	struct disk_req *r = q->first;

	if (r) {
		q->first = r->priv;
		if (!q->first)
			q->last = NULL;
	}
	return r;
}

static void uring_submit(struct filedisk *f, struct disk_req *r)
{
	struct ring *ring = rings[f->ring % nrings];
	const uint64_t one = 1;
	bool wake;

	if (r->op == DISK_DISCARD && f->is_block) { /* an ioctl */
		threads_run(f, r);
		return;
	}
	r->priv = NULL;
	r->priv2 = f;
	pthread_mutex_lock(&ring->lock);
	req_queue_append(&ring->arrived, r, r);
	wake = ring->asleep;
	ring->asleep = false;
	pthread_mutex_unlock(&ring->lock);
	if (wake)
		BUG_ON(write(ring->wake_fd, &one, sizeof(one)) != sizeof(one));
}

/* Hands the slot's next step to the ring. An entry is always free: each slot has at most one under way. */
static void slot_issue(struct ring *ring, struct slot *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
	struct xfer *x = &s->x;
	const struct disk_req *r = x->req;
	uint64_t at = r->offset + x->done;

	BUG_ON(!sqe);
	switch (r->op) {
	case DISK_READ:
		xfer_step(x);
		if (x->niov == 1)
			io_uring_prep_read(sqe, x->fd, x->iov[0].iov_base, x->iov[0].iov_len, at);
		else
			io_uring_prep_readv(sqe, x->fd, x->iov, x->niov, at);
		break;
	case DISK_WRITE:
		xfer_step(x);
		if (x->niov == 1)
			io_uring_prep_write(sqe, x->fd, x->iov[0].iov_base, x->iov[0].iov_len, at);
		else
			io_uring_prep_writev(sqe, x->fd, x->iov, x->niov, at);
		break;
	case DISK_FLUSH:
		io_uring_prep_fsync(sqe, x->file->fd, IORING_FSYNC_DATASYNC);
		break;
	case DISK_DISCARD:
		io_uring_prep_fallocate(sqe, x->file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, r->offset,
					r->length);
		break;
	}
	io_uring_sqe_set_data(sqe, s);
}

static void wake_arm(struct ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	BUG_ON(!sqe);
	io_uring_prep_read(sqe, ring->wake_fd, &ring->wake_count, sizeof(ring->wake_count), 0);
	io_uring_sqe_set_data(sqe, NULL);
}

static void slot_complete(struct ring *ring, struct slot *s, int res)
{
	struct disk_req *r = s->x.req;
	int err = res < 0 ? res : 0;

	if ((r->op == DISK_READ || r->op == DISK_WRITE) && !xfer_result(&s->x, res, &err)) {
		slot_issue(ring, s);
		return;
	}
	s->next_free = ring->free_slots;
	ring->free_slots = s;
	r->done(r, err);
}

/* Takes over what arrived; with nothing to do until the kernel answers, says that it must be woken. */
static void ring_take(struct ring *ring)
{
	pthread_mutex_lock(&ring->lock);
	req_queue_append(&ring->backlog, ring->arrived.first, ring->arrived.last);
	ring->arrived = (struct req_queue){0};
	ring->asleep = true;
	pthread_mutex_unlock(&ring->lock);
}

static void ring_fill(struct ring *ring)
{
	while (ring->free_slots) {
		struct disk_req *r = req_queue_pop(&ring->backlog);
		struct slot *s = ring->free_slots;

		if (!r)
			return;
		ring->free_slots = s->next_free;
		xfer_init(&s->x, r->priv2, r);
		slot_issue(ring, s);
	}
}

static void ring_wait(struct ring *ring)
{
	int n = io_uring_submit_and_wait(&ring->uring, 1);

	/* EAGAIN, EBUSY: the kernel is short of memory; completions will free some. */
	BUG_ON(n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY);
	pthread_mutex_lock(&ring->lock);
	ring->asleep = false;
	pthread_mutex_unlock(&ring->lock);
}

static void ring_reap(struct ring *ring)
{
	struct io_uring_cqe *cqes[64];
	unsigned n;

	while ((n = io_uring_peek_batch_cqe(&ring->uring, cqes, ARRAY_LEN(cqes))) > 0) {
		struct slot *slot[ARRAY_LEN(cqes)];
		int res[ARRAY_LEN(cqes)];

		for (unsigned i = 0; i < n; i++) {
			slot[i] = io_uring_cqe_get_data(cqes[i]);
			res[i] = cqes[i]->res;
		}
		io_uring_cq_advance(&ring->uring, n);
		taskq_gather();
		for (unsigned i = 0; i < n; i++) {
			if (slot[i])
				slot_complete(ring, slot[i], res[i]);
			else
				wake_arm(ring);
		}
		taskq_gather_end();
	}
}

/* Newer kernels run completions on the ring's thread only when it asks for them; older ones refuse the flags. */
static int ring_setup(struct ring *ring)
{
	int err = -EINVAL;

#ifdef IORING_SETUP_DEFER_TASKRUN
	err = io_uring_queue_init(RING_ENTRIES, &ring->uring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
#endif
	if (err == -EINVAL)
		err = io_uring_queue_init(RING_ENTRIES, &ring->uring, 0);
	return err;
}

static void *ring_thread(void *arg)
{
	struct ring *ring = arg;
	int err = ring_setup(ring);

	pthread_setname_np(pthread_self(), "tarn-ring");
	waiter_done(&ring->started, err);
	if (err)
		return NULL;
	wake_arm(ring);
	for (;;) {
		ring_take(ring);
		ring_fill(ring);
		ring_wait(ring);
		ring_reap(ring);
	}
}

static void ring_free(struct ring *ring)
{
	close(ring->wake_fd);
	pthread_mutex_destroy(&ring->lock);
	free(ring);
}

static struct ring *ring_create(void)
{
	struct ring *ring = xcalloc(1, sizeof(*ring));
	pthread_t thread;

	pthread_mutex_init(&ring->lock, NULL);
	for (size_t i = 0; i < RING_SLOTS; i++) {
		ring->slots[i].next_free = ring->free_slots;
		ring->free_slots = &ring->slots[i];
	}
	waiter_init(&ring->started);
	ring->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (ring->wake_fd < 0 || os_thread_create(&thread, ring_thread, ring) != 0) {
		ring_free(ring);
		return NULL;
	}
	if (waiter_wait(&ring->started) != 0) {
		pthread_join(thread, NULL);
		ring_free(ring);
		return NULL;
	}
	pthread_detach(thread);
	return ring;
}

static void rings_start(void)
{
	unsigned want = os_cpus() >= 4 ? 2 : 1;

	while (nrings < want && (rings[nrings] = ring_create()))
		nrings++;
}

static const struct file_engine engine = {"uring", uring_submit};

const struct file_engine *uring_engine(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, rings_start);
	return nrings > 0 ? &engine : NULL;
}
