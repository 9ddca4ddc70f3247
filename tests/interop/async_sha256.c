/*
 * tests/interop/async_sha256.c: a ring of reads, hashed in order as they complete.
 */
#include "async_sha256.h"

#include "base/sync.h"

#define IN_FLIGHT 8
#define CHUNK     (192u << 10) /* not a multiple of most block sizes: reads begin and end within blocks */

struct ring {
	pthread_mutex_t lock; /* guards done and err of the slots */
	pthread_cond_t cond;
	struct slot {
		struct ring *ring;
		struct dmu_read read;
		bool done;
		int err;
	} slot[IN_FLIGHT];
};

static void slot_done(struct dmu_read *r, int err)
{
	struct slot *s = r->arg;

	pthread_mutex_lock(&s->ring->lock);
	s->err = err;
	s->done = true;
	pthread_cond_signal(&s->ring->cond);
	pthread_mutex_unlock(&s->ring->lock);
}

static int slot_wait(struct slot *s)
{
	pthread_mutex_lock(&s->ring->lock);
	while (!s->done)
		pthread_cond_wait(&s->ring->cond, &s->ring->lock);
	pthread_mutex_unlock(&s->ring->lock);
	return s->err;
}

static void hash_zeros(EVP_MD_CTX *md, size_t n)
{
	static const uint8_t zeros[65536];

	for (; n; n -= MIN(n, sizeof(zeros)))
		EVP_DigestUpdate(md, zeros, MIN(n, sizeof(zeros)));
}

static int slot_hash(struct slot *s, EVP_MD_CTX *md)
{
	int rc = slot_wait(s);
	uint64_t got = 0;

	for (unsigned i = 0; !rc && i < s->read.nslices; i++) {
		const struct dmu_slice *sl = &s->read.slice[i];

		got += sl->len;
		if (sl->err)
			rc = sl->err;
		else if (sl->data)
			EVP_DigestUpdate(md, sl->data, sl->len);
		else
			hash_zeros(md, sl->len);
	}
	if (!rc && got != s->read.length)
		rc = -EPROTO; /* fewer or more bytes than promised */
	dmu_read_finish(&s->read);
	return rc;
}

int async_sha256(void (*submit)(void *what, struct dmu_read *r), void *what, uint64_t offset, uint64_t length,
		 EVP_MD_CTX *md)
{
	struct ring ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
	uint64_t end = offset + length, started = 0, finished = 0;
	int rc = 0;

	while (finished < started || (offset < end && !rc)) {
		if (offset < end && !rc && started - finished < IN_FLIGHT) {
			struct slot *s = &ring.slot[started++ % IN_FLIGHT];

			*s = (struct slot){.ring = &ring};
			s->read = (struct dmu_read){
			    .offset = offset, .length = MIN(CHUNK, end - offset), .done = slot_done, .arg = s};
			offset += s->read.length;
			submit(what, &s->read);
			continue;
		}
		struct slot *s = &ring.slot[finished++ % IN_FLIGHT];
		int one = slot_hash(s, md);

		rc = rc ? rc : one;
	}
	pthread_cond_destroy(&ring.cond);
	pthread_mutex_destroy(&ring.lock);
	return rc;
}
