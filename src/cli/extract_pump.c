/*
 * cli/extract_pump.c: many reads in flight, written in order by a thread of its own.
 */
#include <linux/falloc.h>
#include <sys/uio.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/os.h"
#include "cli/extract.h"

#define PUMP_CHUNK  (1u << 20)  /* bytes of one read, unless blocks are larger */
#define PUMP_WINDOW (32u << 20) /* bytes in flight or waiting to be written */
#define PUMP_ITEMS  512         /* things queued: bounds open files */
#define PUMP_IOV    64
#define PUMP_ZEROS  (1u << 18)

enum pump_kind { PUMP_READ, PUMP_HOLE, PUMP_LOST, PUMP_END };

struct pump_item {
	struct list_node node;
	struct pump *pump;
	struct extract_file *file;
	enum pump_kind kind;
	bool ready;
	int err;
	uint64_t offset, length;
	struct dmu_read read;
};

struct pump {
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows, and the ready and err of items */
	pthread_cond_t ready; /* the first item became ready */
	pthread_cond_t room;  /* something left the queue */
	struct list queue;
	uint64_t bytes;
	bool stop, busy;
	atomic_bool dead;
	uint8_t *zeros; /* the thread's own from here on */
	struct iovec iov[PUMP_IOV];
	unsigned niov;
	uint64_t iov_bytes;
};

struct extract_file *extract_file_create(struct extract *x, const char *label)
{
	struct extract_file *f = xcalloc(1, sizeof(*f));

	f->x = x;
	f->fd = f->dirfd = -1;
	f->label = xstrdup(label);
	return f;
}

static void file_destroy(struct extract_file *f)
{
	if (f->fd >= 0 && !f->keep_open && close(f->fd) && !f->failed)
		extract_failed(f->x, f->label, "cannot be written: %s", strerror(errno));
	if (f->src.zn)
		znode_release(f->src.zn);
	free(f->name);
	free(f->label);
	free(f);
}

/* ---- writing, on the pump's thread ---- */

static void write_failed(struct pump *p, struct extract_file *f, int err)
{
	if (f->failed)
		return;
	f->failed = err;
	extract_failed(f->x, f->label, "cannot be written: %s", strerror(err));
	if (err == ENOSPC || err == EDQUOT || err == EIO || err == EROFS || f->sink != SINK_FILE)
		atomic_store(&p->dead, true);
}

static ssize_t write_some(const struct extract_file *f, const struct iovec *iov, unsigned n, uint64_t offset)
{
	if (f->sink == SINK_STREAM)
		return writev(f->fd, iov, (int)n);
	return pwritev(f->fd, iov, (int)n, (off_t)offset);
}

/* Writes what was gathered, which lies at `offset`. */
static void gathered_write(struct pump *p, struct extract_file *f, uint64_t offset)
{
	struct iovec *iov = p->iov;
	unsigned n = p->niov;

	while (n && !f->failed) {
		ssize_t did = write_some(f, iov, n, offset);

		if (did < 0 && errno == EINTR)
			continue;
		if (did <= 0) {
			write_failed(p, f, did < 0 ? errno : EIO);
			break;
		}
		offset += (uint64_t)did;
		while (n && (size_t)did >= iov->iov_len) {
			did -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n) {
			iov->iov_base = (uint8_t *)iov->iov_base + did;
			iov->iov_len -= (size_t)did;
		}
	}
	p->niov = 0;
	p->iov_bytes = 0;
}

/* Bytes that follow those gathered; `offset` is theirs. */
static void gather(struct pump *p, struct extract_file *f, uint64_t offset, const void *data, size_t len)
{
	if (p->niov == PUMP_IOV)
		gathered_write(p, f, offset - p->iov_bytes);
	p->iov[p->niov++] = (struct iovec){(void *)(uintptr_t)data, len};
	p->iov_bytes += len;
}

/* A new file has zeros where nothing was written; a device is told, a stream gets them. */
static void zeros_write(struct pump *p, struct extract_file *f, uint64_t offset, uint64_t len)
{
	if (f->sink == SINK_FILE)
		return;
	if (f->sink == SINK_DEVICE &&
	    fallocate(f->fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)len) == 0)
		return;
	while (len && !f->failed) {
		size_t n = MIN(len, PUMP_ZEROS);

		gather(p, f, offset, p->zeros, n);
		offset += n;
		len -= n;
		if (p->niov == PUMP_IOV || len == 0)
			gathered_write(p, f, offset - p->iov_bytes);
	}
}

static void lost_tell(struct extract_file *f)
{
	if (f->lost_end > f->lost_start)
		extract_note(f->x, f->label, "lost bytes %llu-%llu: %s", (unsigned long long)f->lost_start,
			     (unsigned long long)f->lost_end - 1, err_words(f->lost_err));
	f->lost_start = f->lost_end = 0;
}

/* Ranges that touch are told as one. */
static void lost_add(struct pump *p, struct extract_file *f, uint64_t offset, uint64_t len, int err)
{
	if (f->lost_end != offset || f->lost_err != err) {
		lost_tell(f);
		f->lost_start = offset;
	}
	f->lost_end = offset + len;
	f->lost_err = err;
	f->lost += len;
	zeros_write(p, f, offset, len);
}

static void slices_write(struct pump *p, struct pump_item *it)
{
	const struct dmu_read *r = &it->read;
	uint64_t at = it->offset, left = it->length;

	for (unsigned i = 0; i < r->nslices && left && !it->file->failed; i++) {
		const struct dmu_slice *s = &r->slice[i];
		uint64_t n = MIN(s->len, left);

		if (s->buf) {
			gather(p, it->file, at, s->data, n);
		} else {
			gathered_write(p, it->file, at - p->iov_bytes);
			if (s->err)
				lost_add(p, it->file, at, n, s->err);
			else
				zeros_write(p, it->file, at, n);
		}
		at += n;
		left -= n;
	}
	gathered_write(p, it->file, at - p->iov_bytes);
}

static void file_end(struct extract_file *f)
{
	lost_tell(f);
	if (f->lost) {
		SCOPED_LOCK(&f->x->lock);
		f->x->lost_files++;
		f->x->lost_bytes += f->lost;
	}
	if (f->attrs && !f->failed)
		extract_attrs_set(f);
	file_destroy(f);
}

static void item_run(struct pump *p, struct pump_item *it)
{
	switch (it->kind) {
	case PUMP_READ:
		if (it->err)
			lost_add(p, it->file, it->offset, it->length, it->err);
		else
			slices_write(p, it);
		dmu_read_finish(&it->read);
		break;
	case PUMP_HOLE:
		zeros_write(p, it->file, it->offset, it->length);
		break;
	case PUMP_LOST:
		lost_add(p, it->file, it->offset, it->length, it->err);
		break;
	case PUMP_END:
		file_end(it->file);
		break;
	}
}

static struct pump_item *item_next(struct pump *p)
{
	struct list_node *n;

	SCOPED_LOCK(&p->lock);
	p->busy = false;
	pthread_cond_signal(&p->room);
	for (;;) {
		n = list_first(&p->queue);
		if (n && container_of(n, struct pump_item, node)->ready)
			break;
		if (!n && p->stop)
			return NULL;
		pthread_cond_wait(&p->ready, &p->lock);
	}
	list_remove(&p->queue, n);
	p->busy = true;
	return container_of(n, struct pump_item, node);
}

static void *pump_run(void *arg)
{
	struct pump *p = arg;
	struct pump_item *it;

	while ((it = item_next(p))) {
		item_run(p, it);
		if (it->kind == PUMP_READ) {
			SCOPED_LOCK(&p->lock);
			p->bytes -= it->length;
		}
		free(it);
	}
	return NULL;
}

/* ---- filling ---- */

struct pump *pump_create(void)
{
	struct pump *p = xcalloc(1, sizeof(*p));

	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->ready, NULL);
	pthread_cond_init(&p->room, NULL);
	list_init(&p->queue);
	p->zeros = xcalloc(1, PUMP_ZEROS);
	if (os_thread_create(&p->thread, pump_run, p) == 0)
		return p;
	free(p->zeros);
	free(p);
	return NULL;
}

void pump_destroy(struct pump *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->ready);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->ready);
	pthread_cond_destroy(&p->room);
	pthread_mutex_destroy(&p->lock);
	free(p->zeros);
	free(p);
}

void pump_drain(struct pump *p)
{
	SCOPED_LOCK(&p->lock);
	while (p->busy || !list_is_empty(&p->queue))
		pthread_cond_wait(&p->room, &p->lock);
}

bool pump_is_dead(struct pump *p)
{
	return atomic_load(&p->dead);
}

/* Waits for room; one read may always go. */
static struct pump_item *item_add(struct pump *p, struct extract_file *f, enum pump_kind kind, uint64_t offset,
				  uint64_t length)
{
	struct pump_item *it = xcalloc(1, sizeof(*it));
	uint64_t bytes = kind == PUMP_READ ? length : 0;

	*it = (struct pump_item){.pump = p, .file = f, .kind = kind, .offset = offset, .length = length};
	SCOPED_LOCK(&p->lock);
	while (p->queue.len >= PUMP_ITEMS || (bytes && p->bytes && p->bytes + bytes > PUMP_WINDOW))
		pthread_cond_wait(&p->room, &p->lock);
	p->bytes += bytes;
	list_append(&p->queue, &it->node);
	return it;
}

static void item_ready(struct pump_item *it, int err)
{
	struct pump *p = it->pump;

	SCOPED_LOCK(&p->lock);
	it->err = err;
	it->ready = true;
	if (list_first(&p->queue) == &it->node)
		pthread_cond_signal(&p->ready);
}

static void read_done(struct dmu_read *r, int err)
{
	item_ready(r->arg, err);
}

static void read_add(struct pump *p, struct extract_file *f, uint64_t offset, uint64_t length)
{
	struct pump_item *it = item_add(p, f, PUMP_READ, offset, length);

	it->read = (struct dmu_read){.dn = f->src.dn,
				     .offset = offset,
				     .length = length,
				     .flags = DMU_READ_CONTINUE | DMU_READ_NOCACHE,
				     .done = read_done,
				     .arg = it};
	if (f->src.zn)
		zpl_read_submit(f->src.zn, &it->read);
	else
		zvol_read_submit(f->src.zv, &it->read);
}

/* The pointer of a level over a byte of the source; *end: where the bytes under it end. */
static int pointer_over(const struct extract_source *s, unsigned level, uint64_t at, struct bp *bp, uint64_t *end)
{
	unsigned __int128 span = s->dn->datablksz, to;

	for (unsigned i = 0; i < level && span <= s->size; i++)
		span <<= s->dn->indblkshift - 7u;
	to = span > s->size ? s->size : (at / (uint64_t)span + 1) * span;
	*end = to > s->size ? s->size : (uint64_t)to;
	return dmu_block_pointer(s->dn, level, span > s->size ? 0 : at / (uint64_t)span, bp);
}

/*
 * Where the seek meets a damaged indirect block somewhere: what is at `at`, and how far? All that an unreadable
 * indirect block covers is lost at once, however much that is.
 */
static enum pump_kind stretch_find(const struct extract_source *s, uint64_t at, uint64_t *end, int *err)
{
	struct bp bp;
	uint64_t to;
	enum pump_kind kind;

	*err = pointer_over(s, 0, at, &bp, end);
	kind = *err ? PUMP_LOST : bp_is_hole(&bp) ? PUMP_HOLE : PUMP_READ;
	for (unsigned level = 1; kind != PUMP_READ && level < s->dn->nlevels; level++) {
		int rc = pointer_over(s, level, at, &bp, &to);

		if (kind == PUMP_HOLE && (rc || !bp_is_hole(&bp)))
			return kind;
		*end = to;
		if (kind == PUMP_LOST && rc == 0)
			return kind;
	}
	if (kind == PUMP_LOST)
		*end = s->size;
	return kind;
}

/* The next stretch of the source from *at on that is a hole or lost, or data to be read up to the chunk's end. */
static void stretch_add(struct pump *p, struct extract_file *f, uint64_t chunk, uint64_t *at)
{
	const struct extract_source *s = &f->src;
	enum pump_kind kind = PUMP_READ;
	uint64_t next = *at, end = MIN((*at / chunk + 1) * chunk, s->size);
	int err = s->zn ? zpl_seek(s->zn, &next, false) : zvol_next_offset(s->zv, &next, false);

	if (err == -ENXIO || (err == 0 && next > *at)) {
		kind = PUMP_HOLE;
		end = err ? s->size : next;
		err = 0;
	} else if (err) {
		kind = stretch_find(s, *at, &next, &err);
		end = kind == PUMP_READ ? MIN(end, next) : next;
	}
	if (kind == PUMP_READ)
		read_add(p, f, *at, end - *at);
	else
		item_ready(item_add(p, f, kind, *at, end - *at), err);
	*at = end;
}

void pump_data(struct pump *p, struct extract_file *f)
{
	uint64_t block = MAX(f->src.dn->datablksz, 1u), at = 0;
	uint64_t chunk = block >= PUMP_CHUNK ? block : PUMP_CHUNK / block * block;

	while (at < f->src.size && !pump_is_dead(p))
		stretch_add(p, f, chunk, &at);
}

void pump_end(struct pump *p, struct extract_file *f)
{
	item_ready(item_add(p, f, PUMP_END, 0, 0), 0);
}
