/*
 * A disk in memory. Requests run one after another on a thread of its own, so completions come from elsewhere, as a
 * real disk's do.
 */
#include "base/taskq.h"
#include "disk/testdisk.h"

struct memdisk {
	struct disk disk;
	struct taskq *queue;
	struct sparse *bytes; /* the queue's one thread alone touches it */
	bool owned;
};

struct mem_job {
	struct task task;
	struct memdisk *mem;
	struct disk_req *req;
};

static void mem_transfer(struct memdisk *m, const struct disk_req *r)
{
	uint64_t at = r->offset;

	for (unsigned i = 0; i < r->niov; i++) {
		if (r->op == DISK_READ)
			sparse_read(m->bytes, at, r->iov[i].iov_base, r->iov[i].iov_len);
		else
			sparse_write(m->bytes, at, r->iov[i].iov_base, r->iov[i].iov_len);
		at += r->iov[i].iov_len;
	}
}

static void mem_job_run(struct task *t)
{
	struct mem_job *j = container_of(t, struct mem_job, task);
	struct disk_req *r = j->req;

	if (r->op == DISK_READ || r->op == DISK_WRITE)
		mem_transfer(j->mem, r);
	else if (r->op == DISK_DISCARD)
		sparse_zero(j->mem->bytes, r->offset, r->length);
	free(j);
	r->done(r, 0);
}

static void mem_submit(struct disk *d, struct disk_req *r)
{
	struct memdisk *m = container_of(d, struct memdisk, disk);
	struct mem_job *j = xmalloc(sizeof(*j));

	*j = (struct mem_job){.task.run = mem_job_run, .mem = m, .req = r};
	taskq_dispatch(m->queue, &j->task);
}

static void mem_close(struct disk *d)
{
	struct memdisk *m = container_of(d, struct memdisk, disk);

	taskq_destroy(m->queue);
	if (m->owned)
		sparse_destroy(m->bytes);
	free(m);
}

static const struct disk_ops mem_ops = {"memory", mem_submit, mem_close};

struct disk *memdisk_over(const char *name, struct sparse *bytes)
{
	struct memdisk *m = xcalloc(1, sizeof(*m));

	m->disk.ops = &mem_ops;
	m->disk.size = ROUND_DOWN(sparse_size(bytes), 512);
	m->disk.block_size = 512;
	m->disk.physical_block_size = 512;
	m->disk.writable = true;
	m->disk.discards = true;
	m->disk.path = xstrdup(name);
	m->bytes = bytes;
	m->queue = taskq_create("tarn-mem", 1);
	return &m->disk;
}

struct disk *memdisk_create(const char *name, uint64_t size)
{
	struct disk *d = memdisk_over(name, sparse_create(size, NULL));

	container_of(d, struct memdisk, disk)->owned = true;
	return d;
}
