/* Recording; replay.c plays it back. */
#include "base/sync.h"
#include "base/taskq.h"
#include "disk/recorder_impl.h"

#define THREADS 4

struct recdisk {
	struct disk disk;
	struct recorder *rec;
	unsigned index;
};

struct rec_job {
	struct task task;
	struct recdisk *rd;
	struct disk_req *req;
	struct record *record; /* flush: the one that will be put into the log */
};

struct recorder *recorder_make(unsigned ndisks, uint64_t size, struct sparse *const *over)
{
	struct recorder *r = xcalloc(1, sizeof(*r) + ndisks * sizeof(r->disk[0]));

	pthread_mutex_init(&r->lock, NULL);
	r->ndisks = ndisks;
	for (unsigned i = 0; i < ndisks; i++) {
		r->disk[i].base = sparse_create(size, over ? over[i] : NULL);
		r->disk[i].live = sparse_create(size, r->disk[i].base);
	}
	r->queue = taskq_create("tarn-rec", THREADS);
	return r;
}

struct recorder *recorder_create(unsigned ndisks, uint64_t size)
{
	return recorder_make(ndisks, size, NULL);
}

static void log_clear(struct recorder *r)
{
	for (size_t i = 0; i < r->len; i++)
		free(r->log[i]);
	r->len = 0;
}

void recorder_destroy(struct recorder *r)
{
	if (!r)
		return;
	taskq_destroy(r->queue);
	log_clear(r);
	free(r->log);
	for (unsigned i = 0; i < r->ndisks; i++) {
		sparse_destroy(r->disk[i].live);
		sparse_destroy(r->disk[i].base);
	}
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static void log_append_locked(struct recorder *r, struct record *w)
{
	if (r->len == r->room) {
		r->room = r->room ? 2 * r->room : 256;
		r->log = xrealloc(r->log, r->room * sizeof(struct record *));
	}
	w->index = r->len;
	r->log[r->len++] = w;
}

void recorder_rebase(struct recorder *r)
{
	SCOPED_LOCK(&r->lock);
	for (size_t i = 0; i < r->len; i++)
		record_apply(r->disk[r->log[i]->disk].base, r->log[i]);
	log_clear(r);
	for (unsigned i = 0; i < r->ndisks; i++) {
		sparse_destroy(r->disk[i].live);
		r->disk[i].live = sparse_create(sparse_size(r->disk[i].base), r->disk[i].base);
	}
}

void recorder_mark(struct recorder *r, uint64_t value)
{
	struct record *w = xcalloc(1, sizeof(*w));

	SCOPED_LOCK(&r->lock);
	*w = (struct record){.kind = RECORD_MARK, .mark = value, .start = r->clock + 1, .done = r->clock + 1};
	r->clock++;
	log_append_locked(r, w);
}

size_t recorder_len(const struct recorder *r)
{
	SCOPED_LOCK((pthread_mutex_t *)(uintptr_t)&r->lock);
	return r->len;
}

const struct record *recorder_record(const struct recorder *r, size_t i)
{
	SCOPED_LOCK((pthread_mutex_t *)(uintptr_t)&r->lock);
	return r->log[i];
}

void record_apply(struct sparse *s, const struct record *w)
{
	if (w->kind == RECORD_WRITE)
		sparse_write(s, w->offset, w->data, w->length);
	else if (w->kind == RECORD_DISCARD)
		sparse_zero(s, w->offset, w->length);
}

/* The bytes of a write follow its record. */
static struct record *record_create(const struct recdisk *rd, const struct disk_req *q)
{
	size_t bytes = q->op == DISK_WRITE ? q->length : 0;
	struct record *w = xmalloc(sizeof(*w) + bytes);
	uint8_t *data = (uint8_t *)(w + 1);

	*w = (struct record){
	    .kind = q->op == DISK_WRITE     ? RECORD_WRITE
		    : q->op == DISK_DISCARD ? RECORD_DISCARD
					    : RECORD_FLUSH,
	    .disk = rd->index,
	    .offset = q->offset,
	    .length = q->length,
	    .data = data,
	    .done = UINT64_MAX,
	};
	for (unsigned i = 0; bytes && i < q->niov; i++) {
		memcpy(data, q->iov[i].iov_base, q->iov[i].iov_len);
		data += q->iov[i].iov_len;
	}
	return w;
}

static void rec_read(struct recdisk *rd, const struct disk_req *q)
{
	uint64_t at = q->offset;

	SCOPED_LOCK(&rd->rec->lock);
	for (unsigned i = 0; i < q->niov; i++) {
		sparse_read(rd->rec->disk[rd->index].live, at, q->iov[i].iov_base, q->iov[i].iov_len);
		at += q->iov[i].iov_len;
	}
}

static void rec_job_run(struct task *t)
{
	struct rec_job *j = container_of(t, struct rec_job, task);
	struct recorder *r = j->rd->rec;
	struct disk_req *q = j->req;

	if (q->op == DISK_READ) {
		rec_read(j->rd, q);
	} else {
		SCOPED_LOCK(&r->lock);
		j->record->done = ++r->clock;
		if (q->op == DISK_FLUSH)
			log_append_locked(r, j->record);
	}
	free(j);
	q->done(q, 0);
}

static void rec_submit(struct disk *d, struct disk_req *q)
{
	struct recdisk *rd = container_of(d, struct recdisk, disk);
	struct recorder *r = rd->rec;
	struct rec_job *j = xmalloc(sizeof(*j));

	*j = (struct rec_job){.task.run = rec_job_run, .rd = rd, .req = q};
	if (q->op != DISK_READ) {
		j->record = record_create(rd, q);
		SCOPED_LOCK(&r->lock);
		j->record->start = ++r->clock;
		if (q->op != DISK_FLUSH) {
			log_append_locked(r, j->record);
			record_apply(r->disk[rd->index].live, j->record);
		}
	}
	taskq_dispatch(r->queue, &j->task);
}

static void rec_close(struct disk *d)
{
	free(container_of(d, struct recdisk, disk));
}

static const struct disk_ops rec_ops = {"recorder", rec_submit, rec_close};

struct disk *recorder_open(struct recorder *r, unsigned disk)
{
	struct recdisk *rd = xcalloc(1, sizeof(*rd));

	BUG_ON(disk >= r->ndisks);
	rd->disk = (struct disk){
	    .ops = &rec_ops,
	    .size = ROUND_DOWN(sparse_size(r->disk[disk].base), 512),
	    .block_size = 512,
	    .physical_block_size = 512,
	    .writable = true,
	    .discards = true,
	    .path = xasprintf("recorder%u", disk),
	};
	rd->rec = r;
	rd->index = disk;
	return &rd->disk;
}
