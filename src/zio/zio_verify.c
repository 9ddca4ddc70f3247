/* Checking many blocks at once. See zio/zio_verify.h. */
#include "base/sync.h"
#include "zio/zio_verify.h"

#define VERIFY_READS_MAX 1024u

struct zio_verifier {
	struct zio_pool *zp;
	zio_verify_fn done;
	void *arg;
	uint64_t max_bytes;
	pthread_mutex_t lock; /* guards the two below */
	pthread_cond_t room;
	uint64_t bytes, reads;
	atomic_uint_fast64_t checked;
};

struct verify_read {
	struct zio_read zr;
	struct zio_verifier *v;
};

struct zio_verifier *zio_verifier_create(struct zio_pool *zp, uint64_t max_bytes, zio_verify_fn done, void *arg)
{
	struct zio_verifier *v = xcalloc(1, sizeof(*v));

	v->zp = zp;
	v->done = done;
	v->arg = arg;
	v->max_bytes = max_bytes;
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->room, NULL);
	return v;
}

static void verify_done(struct zio_read *zr, int err, struct buf *buf)
{
	struct verify_read *vr = zr->arg;
	struct zio_verifier *v = vr->v;
	uint64_t size = bp_psize(&zr->bp);

	atomic_fetch_add_explicit(&v->checked, size, memory_order_relaxed);
	v->done(v->arg, &zr->bp, &zr->zb, err);
	free(vr);
	/* Signalled under the lock: once it is let go with nothing in flight, v may be destroyed. */
	pthread_mutex_lock(&v->lock);
	v->bytes -= size;
	v->reads--;
	pthread_cond_broadcast(&v->room);
	pthread_mutex_unlock(&v->lock);
}

static void verifier_take(struct zio_verifier *v, uint64_t size)
{
	SCOPED_LOCK(&v->lock);
	while (v->reads > 0 && (v->bytes + size > v->max_bytes || v->reads >= VERIFY_READS_MAX))
		pthread_cond_wait(&v->room, &v->lock);
	v->bytes += size;
	v->reads++;
}

void zio_verifier_submit(struct zio_verifier *v, const struct bp *bp, const struct zbookmark *zb)
{
	struct verify_read *vr;

	if (bp_is_hole(bp) || bp_is_embedded(bp))
		return;
	verifier_take(v, bp_psize(bp));
	vr = xcalloc(1, sizeof(*vr));
	vr->v = v;
	vr->zr.bp = *bp;
	vr->zr.zb = *zb;
	vr->zr.flags = ZIO_RAW | ZIO_SCRUB | ZIO_NO_DATA;
	vr->zr.done = verify_done;
	vr->zr.arg = vr;
	zio_read(v->zp, &vr->zr);
}

void zio_verifier_wait(struct zio_verifier *v)
{
	BUG_ON(thread_is_cpu_worker());
	SCOPED_LOCK(&v->lock);
	while (v->reads > 0)
		pthread_cond_wait(&v->room, &v->lock);
}

void zio_verifier_destroy(struct zio_verifier *v)
{
	if (!v)
		return;
	zio_verifier_wait(v);
	pthread_mutex_destroy(&v->lock);
	pthread_cond_destroy(&v->room);
	free(v);
}

uint64_t zio_verifier_bytes(const struct zio_verifier *v)
{
	return atomic_load_explicit(&v->checked, memory_order_relaxed);
}
