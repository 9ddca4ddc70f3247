/* The engine of blocking threads, for kernels and containers without io_uring. */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/taskq.h"
#include "base/sync.h"
#include "disk/file.h"

#define THREADS 16

struct thread_job {
	struct task task;
	struct filedisk *file;
	struct disk_req *req;
};

static struct taskq *queue;

static int transfer(struct filedisk *f, struct disk_req *r)
{
	struct xfer x;
	ssize_t res;
	int err;

	xfer_init(&x, f, r);
	do {
		off_t at;

		xfer_step(&x);
		at = r->offset + x.done;
		res = r->op == DISK_READ ? preadv(x.fd, x.iov, x.niov, at) : pwritev(x.fd, x.iov, x.niov, at);
	} while (!xfer_result(&x, res < 0 ? -errno : res, &err));
	return err;
}

/* A device forgets the range; in a file it becomes a hole. */
static int discard(struct filedisk *f, const struct disk_req *r)
{
	uint64_t range[2] = {r->offset, r->length};

	if (f->is_block)
		return ioctl(f->fd, BLKDISCARD, range);
	return fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, r->offset, r->length);
}

static int perform(struct filedisk *f, struct disk_req *r)
{
	int rc;

	switch (r->op) {
	case DISK_READ:
	case DISK_WRITE:
		return transfer(f, r);
	case DISK_FLUSH:
		rc = fdatasync(f->fd);
		break;
	default:
		rc = discard(f, r);
	}
	return rc == 0 ? 0 : -errno;
}

static void thread_job_run(struct task *t)
{
	struct thread_job *j = container_of(t, struct thread_job, task);
	struct disk_req *r = j->req;
	int err = perform(j->file, r);

	free(j);
	r->done(r, err);
}

static void threads_start(void)
{
	queue = taskq_create("tarn-io", THREADS);
}

void threads_run(struct filedisk *f, struct disk_req *r)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct thread_job *j = xmalloc(sizeof(*j));

	pthread_once(&once, threads_start);
	*j = (struct thread_job){.task.run = thread_job_run, .file = f, .req = r};
	taskq_dispatch(queue, &j->task);
}

static const struct file_engine engine = {"threads", threads_run};

const struct file_engine *threads_engine(void)
{
	return &engine;
}
