/* Requests to volumes. */
#include "actor.h"

#define BUFS_MAX 80u

struct io {
	struct zvol_req r;
	struct volume *v;
	size_t change; /* number in the log of the content */
	bool has_change;
	bool promises;
	uint64_t clock; /* flush: when it was submitted */
	struct buf *buf[BUFS_MAX];
};

/* --- volumes --- */

void actor_init(struct actor *a, struct lab *lab, struct model *m, uint64_t seed)
{
	*a = (struct actor){.lab = lab, .model = m, .rng = {seed}, .inflight_max = 12, .volume_max = 1 << 20};
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->idle, NULL);
	list_init(&a->volumes);
}

void actor_fini(struct actor *a)
{
	BUG_ON(!list_is_empty(&a->volumes));
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->idle);
}

struct volume *actor_volume_open(struct actor *a, const struct entry *e)
{
	struct volume *v = xcalloc(1, sizeof(*v));
	struct err err = ERR_INIT;

	pthread_mutex_init(&v->order, NULL);
	v->actor = a;
	v->content = e->content;
	v->size = e->size;
	snprintf(v->name, sizeof(v->name), "%s", e->name);
	if (dsl_dataset_hold(a->lab->spa->dsl, e->name, &v->ds, &err) || zvol_open(v->ds, &v->zv, &err))
		lab_fatal("%s cannot be opened: %s", e->name, err.text);
	SCOPED_LOCK(&a->lock);
	list_append(&a->volumes, &v->node);
	return v;
}

struct volume *actor_volume(struct actor *a, const char *name)
{
	SCOPED_LOCK(&a->lock);
	list_for_each(&a->volumes, n) {
		struct volume *v = container_of(n, struct volume, node);

		if (strcmp(v->name, name) == 0)
			return v;
	}
	return NULL;
}

void actor_pause(struct actor *a, struct volume *v)
{
	SCOPED_LOCK(&a->lock);
	v->paused = true;
	while (v->inflight)
		pthread_cond_wait(&a->idle, &a->lock);
}

void actor_resume(struct actor *a, struct volume *v)
{
	SCOPED_LOCK(&a->lock);
	v->paused = false;
}

void actor_volume_close(struct actor *a, struct volume *v)
{
	actor_pause(a, v);
	pthread_mutex_lock(&a->lock);
	list_remove(&a->volumes, &v->node);
	pthread_mutex_unlock(&a->lock);
	pthread_mutex_lock(&v->order); /* whoever submitted the last request has let go of it */
	pthread_mutex_unlock(&v->order);
	zvol_close(v->zv);
	dsl_dataset_release(v->ds);
	pthread_mutex_destroy(&v->order);
	free(v);
}

void actor_open_all(struct actor *a)
{
	struct state *s = model_last(a->model);

	for (size_t i = 0; i < s->n; i++)
		if (s->e[i].is_volume && !s->e[i].is_snapshot)
			actor_volume_open(a, &s->e[i]);
}

void actor_close_all(struct actor *a)
{
	for (;;) {
		struct volume *v = NULL;

		pthread_mutex_lock(&a->lock);
		if (!list_is_empty(&a->volumes))
			v = container_of(a->volumes.head.next, struct volume, node);
		pthread_mutex_unlock(&a->lock);
		if (!v)
			return;
		actor_volume_close(a, v);
	}
}

uint64_t actor_clock(struct actor *a)
{
	SCOPED_LOCK(&a->model->lock);
	return a->model->clock;
}

void actor_all_safe(struct actor *a, uint64_t clock)
{
	SCOPED_LOCK(&a->model->lock);
	for (struct content *c = a->model->contents; c; c = c->next)
		if (!c->frozen)
			content_safe_locked(a->model, c, clock);
}

/* --- requests --- */

static void volume_leave(struct actor *a, struct volume *v)
{
	SCOPED_LOCK(&a->lock);
	v->inflight--;
	pthread_cond_broadcast(&a->idle);
}

static void io_note_locked(struct io *io, struct content *c)
{
	struct model *m = io->v->actor->model;

	if (io->has_change)
		content_completed_locked(m, c, io->change);
	if (!io->promises || c->not_promised)
		return;
	if (io->r.op == ZVOL_FLUSH)
		content_safe_locked(m, c, io->clock);
	else if (io->has_change)
		c->log[io->change].safe = model_mark_locked(m);
}

static void io_done(struct zvol_req *r, int err)
{
	struct io *io = container_of(r, struct io, r);
	struct actor *a = io->v->actor;

	if (err) {
		atomic_fetch_add(&a->errors, 1);
		if (!a->may_fail && err != -ENOSPC) /* of what there was no room for a part may be there */
			lab_fatal("%s: request %d of %" PRIu64 " + %" PRIu64 " failed: %s", io->v->name, r->op,
				  r->offset, r->length, err_words(err));
	} else {
		SCOPED_LOCK(&a->model->lock);
		io_note_locked(io, io->v->content);
	}
	for (unsigned i = 0; i < r->nbufs; i++)
		buf_release(io->buf[i]);
	volume_leave(a, io->v);
	free(io);
}

/* Somewhere in the volume: mostly small and odd, at times whole blocks, at times large. */
static void io_range(struct io *io, struct rng *r)
{
	uint64_t sectors = io->v->size / SECTOR, block = io->v->zv->blocksize / SECTOR, n;
	uint64_t at = rng_below(r, sectors);

	switch (rng_below(r, 8)) {
	case 0:
	case 1:
		at -= at % block;
		n = block * (1 + rng_below(r, 3));
		break;
	case 2:
		n = 1 + rng_below(r, 600);
		break;
	default:
		n = 1 + rng_below(r, 2 * MIN(block, 32u) + 1);
	}
	n = MIN(n, sectors - at);
	io->r.offset = at * SECTOR;
	io->r.length = n * SECTOR;
}

static void bytes_fill(struct io *io, uint64_t value)
{
	uint64_t sector = io->r.offset / SECTOR, left = io->r.length;
	uint8_t *all = xmalloc(io->r.length + io->r.skip), *from = all;

	memset(all, 0xee, io->r.skip);
	for (uint64_t i = 0; i < left / SECTOR; i++)
		sector_fill(all + io->r.skip + i * SECTOR, sector + i, value);
	for (unsigned i = 0; i < io->r.nbufs; i++) {
		memcpy(io->buf[i]->data, from, io->buf[i]->size);
		from += io->buf[i]->size;
	}
	free(all);
}

static void buf_take(struct io *io, uint64_t size)
{
	io->buf[io->r.nbufs] = buf_alloc(size);
	if (!io->buf[io->r.nbufs])
		lab_fatal("no memory");
	io->r.nbufs++;
}

/* In one piece with something before it, or cut at blocks, so that whole ones are taken as they are. */
static void io_buffers(struct io *io, struct rng *r)
{
	uint64_t block = io->v->zv->blocksize, at = io->r.offset, end = at + io->r.length;

	io->r.buf = io->buf;
	if ((end - at) / block + 2 > BUFS_MAX || rng_percent(r, 40)) {
		io->r.skip = rng_percent(r, 30) ? (uint32_t)rng_below(r, 2000) : 0;
		buf_take(io, io->r.skip + io->r.length);
		return;
	}
	while (at < end) {
		uint64_t next = MIN(ROUND_DOWN(at, block) + block, end);

		buf_take(io, next - at);
		at = next;
	}
}

static struct change io_change(const struct io *io, uint64_t value)
{
	uint64_t block = io->v->zv->blocksize, at = io->r.offset, end = at + io->r.length;

	if (io->r.op == ZVOL_DISCARD) {
		at = ROUND_UP(at, block);
		end = MAX(ROUND_DOWN(end, block), at);
	}
	return (struct change){.first = at / SECTOR, .count = (end - at) / SECTOR, .value = value};
}

static void io_prepare(struct io *io, struct rng *r, uint64_t *value)
{
	struct model *m = io->v->actor->model;

	*value = 0;
	io->r.fua = io->r.op == ZVOL_FLUSH ? false : rng_percent(r, 15);
	io->r.no_hole = io->r.op == ZVOL_ZERO && rng_percent(r, 40);
	io->r.done = io_done;
	if (io->r.op != ZVOL_FLUSH)
		io_range(io, r);
	if (io->r.op == ZVOL_WRITE) {
		io_buffers(io, r);
		pthread_mutex_lock(&m->lock);
		*value = ++m->value;
		pthread_mutex_unlock(&m->lock);
		bytes_fill(io, *value);
	}
}

static void io_expect_locked(struct io *io, uint64_t value)
{
	struct content *c = io->v->content;
	struct change change;

	io->promises = (io->r.op == ZVOL_FLUSH || io->r.fua || c->sync_always) && !c->not_promised;
	io->clock = io->v->actor->model->clock;
	if (io->r.op == ZVOL_FLUSH)
		return;
	change = io_change(io, value);
	io->has_change = change.count > 0;
	if (io->has_change)
		io->change = content_submit_locked(io->v->actor->model, c, change);
}

/* The volume was entered. */
static void io_submit(struct volume *v, enum zvol_op op, struct rng *r)
{
	struct model *m = v->actor->model;
	struct io *io = xcalloc(1, sizeof(*io));
	uint64_t value;

	io->v = v;
	io->r.op = op;
	io_prepare(io, r, &value);
	SCOPED_LOCK(&v->order);
	pthread_mutex_lock(&m->lock);
	io_expect_locked(io, value);
	pthread_mutex_unlock(&m->lock);
	zvol_submit(v->zv, &io->r);
}

static enum zvol_op op_choose(struct rng *r)
{
	unsigned dice = (unsigned)rng_below(r, 100);

	return dice < 68 ? ZVOL_WRITE : dice < 76 ? ZVOL_ZERO : dice < 84 ? ZVOL_DISCARD : ZVOL_FLUSH;
}

int volume_values(struct zvol *zv, uint64_t **values, size_t *sectors)
{
	uint64_t size = zvol_size(zv);
	autofree uint8_t *bytes = xmalloc(size);
	int err = dmu_read(zv->dn, 0, bytes, size, 0);

	*sectors = size / SECTOR;
	*values = xcalloc(*sectors + 1, sizeof(**values));
	for (size_t i = 0; i < *sectors; i++)
		(*values)[i] = sector_parse(bytes + i * SECTOR, i);
	return err;
}

/* What is there now. */
static void volume_read(struct volume *v)
{
	struct actor *a = v->actor;
	struct allowed now = {.mark = actor_clock(a), .by_clock = true, .name = v->name};
	autofree uint64_t *values = NULL;
	size_t sectors;
	int err = volume_values(v->zv, &values, &sectors);

	if (err && !a->may_fail)
		lab_fatal("%s cannot be read: %s", v->name, err_words(err));
	if (!err && !content_allows(a->model, v->content, values, sectors, &now))
		lab_fatal("%s does not read as it was written", v->name);
}

static struct volume *volume_choose_locked(struct actor *a, struct rng *r)
{
	struct volume *able[64];
	unsigned n = 0;

	list_for_each(&a->volumes, node) {
		struct volume *v = container_of(node, struct volume, node);

		if (!v->paused && v->inflight < a->inflight_max && n < ARRAY_LEN(able))
			able[n++] = v;
	}
	return n ? able[rng_below(r, n)] : NULL;
}

/* Entered. NULL: there is none, or somebody has to wait for what is under way. */
static struct volume *volume_enter(struct actor *a, struct rng *r)
{
	struct volume *v;
	SCOPED_LOCK(&a->lock);

	v = volume_choose_locked(a, r);
	if (v) {
		v->inflight++;
		return v;
	}
	if (!list_is_empty(&a->volumes) && !atomic_load(&a->stop)) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&a->idle, &a->lock, &until);
	}
	return NULL;
}

void actor_io(struct actor *a, struct rng *r)
{
	struct volume *v = volume_enter(a, r);

	if (!v)
		return;
	atomic_fetch_add(&a->requests, 1);
	if (rng_percent(r, 3)) {
		volume_read(v);
		volume_leave(a, v);
		return;
	}
	io_submit(v, op_choose(r), r);
}

void actor_flush_all(struct actor *a)
{
	list_for_each(&a->volumes, n) {
		struct volume *v = container_of(n, struct volume, node);
		struct rng none = {0};

		actor_pause(a, v);
		actor_resume(a, v);
		pthread_mutex_lock(&a->lock);
		v->inflight++;
		pthread_mutex_unlock(&a->lock);
		io_submit(v, ZVOL_FLUSH, &none);
		actor_pause(a, v);
		actor_resume(a, v);
	}
}
