/*
 * A disk in memory. Requests run one after another on a thread of its own, so completions come from elsewhere, as a
 * real disk's do, and nothing here needs a lock.
 */
#include "base/taskq.h"
#include "disk/testdisk.h"

#define CHUNK (64u << 10)

struct memdisk {
	struct disk disk;
	struct taskq *queue;
	uint8_t **chunks; /* NULL: still zeros */
	size_t nchunks;
};

struct mem_job {
	struct task task;
	struct memdisk *mem;
	struct disk_req *req;
};

/* Copies between one chunk and memory; the range lies within the chunk. */
static int chunk_copy(struct memdisk *m, enum disk_op op, uint64_t at, uint8_t *data, size_t n)
{
	uint8_t **chunk = &m->chunks[at / CHUNK];

	if (op == DISK_READ && !*chunk) {
		memset(data, 0, n);
		return 0;
	}
	if (!*chunk)
		*chunk = calloc(1, CHUNK);
	if (!*chunk)
		return -ENOMEM;
	if (op == DISK_READ)
		memcpy(data, *chunk + at % CHUNK, n);
	else
		memcpy(*chunk + at % CHUNK, data, n);
	return 0;
}

static int mem_transfer(struct memdisk *m, const struct disk_req *r)
{
	uint64_t at = r->offset;

	for (unsigned i = 0; i < r->niov; i++) {
		uint8_t *p = r->iov[i].iov_base;
		size_t left = r->iov[i].iov_len, n;

		for (; left > 0; p += n, at += n, left -= n) {
			int err;

			n = MIN(left, CHUNK - at % CHUNK);
			err = chunk_copy(m, r->op, at, p, n);
			if (err)
				return err;
		}
	}
	return 0;
}

static void mem_discard(struct memdisk *m, const struct disk_req *r)
{
	uint64_t at = r->offset, n;

	for (uint64_t left = r->length; left > 0; at += n, left -= n) {
		n = MIN(left, CHUNK - at % CHUNK);
		if (m->chunks[at / CHUNK])
			memset(m->chunks[at / CHUNK] + at % CHUNK, 0, n);
	}
}

static void mem_job_run(struct task *t)
{
	struct mem_job *j = container_of(t, struct mem_job, task);
	struct disk_req *r = j->req;
	int err = 0;

	if (r->op == DISK_READ || r->op == DISK_WRITE)
		err = mem_transfer(j->mem, r);
	else if (r->op == DISK_DISCARD)
		mem_discard(j->mem, r);
	free(j);
	r->done(r, err);
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
	for (size_t i = 0; i < m->nchunks; i++)
		free(m->chunks[i]);
	free(m->chunks);
	free(m);
}

static const struct disk_ops mem_ops = {"memory", mem_submit, mem_close};

struct disk *memdisk_create(const char *name, uint64_t size)
{
	struct memdisk *m = xcalloc(1, sizeof(*m));

	m->disk.ops = &mem_ops;
	m->disk.size = ROUND_DOWN(size, 512);
	m->disk.block_size = 512;
	m->disk.physical_block_size = 512;
	m->disk.writable = true;
	m->disk.path = xstrdup(name);
	m->nchunks = (size + CHUNK - 1) / CHUNK;
	m->chunks = xcalloc(m->nchunks, sizeof(*m->chunks));
	m->queue = taskq_create("tarn-mem", 1);
	return &m->disk;
}
