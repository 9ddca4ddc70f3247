/* Many writes at once, of every shape, on devices that fail now and then: all come back, nothing leaks. */
#include "testpool.h"

#include "zio/zio_crypt.h"

#define TXG   12
#define LIMIT (UINT64_C(64) << 20) /* what copies in flight may take, about */

struct storm {
	struct testpool *tp;
	struct zio_write *w;
	unsigned n;
	atomic_uint left, asked, failed;
	atomic_uint_fast64_t most;
	struct waiter done;
};

static struct storm *storm_of(const struct zio_write *w)
{
	return w->arg;
}

static void storm_done(struct zio_write *w, int err)
{
	struct storm *s = storm_of(w);
	uint64_t now = buf_bytes_in_use(), most = atomic_load(&s->most);

	while (now > most && !atomic_compare_exchange_weak(&s->most, &most, now))
		;
	if (err)
		atomic_fetch_add(&s->failed, 1);
	if (atomic_fetch_sub(&s->left, 1) == 1)
		waiter_done(&s->done, 0);
}

static void storm_run(struct storm *s)
{
	atomic_store(&s->left, s->n);
	waiter_init(&s->done);
	for (unsigned i = 0; i < s->n; i++) {
		s->w[i].done = storm_done;
		s->w[i].arg = s;
		zio_write(&s->tp->zp, &s->w[i]);
	}
}

static void memory_in_flight_is_bounded(void **state)
{
	struct storm s = {.tp = tp_create(12, 64u << 20), .n = 3000};
	autobuf struct buf *data = buf_alloc(128 << 10), *noise = buf_alloc(128 << 10);
	uint64_t before = buf_bytes_in_use();

	tp_set_writable(s.tp);
	s.w = xcalloc(s.n, sizeof(*s.w));
	memset(data->data, 3, data->size);
	tp_pattern(data->data, data->size / 2, 1);
	tp_pattern(noise->data, noise->size, 2);
	for (unsigned i = 0; i < s.n; i++)
		s.w[i] = (struct zio_write){
		    .data = i % 3 ? data : noise,
		    .lsize = 128 << 10,
		    .policy = {.type = TP_FILE, .checksum = CHECKSUM_FLETCHER_4, .compress = COMPRESS_LZ4, .copies = 1},
		    .txg = TXG,
		    .flags = i % 100 ? 0 : ZIO_WRITE_SYNC,
		};
	storm_run(&s);
	waiter_wait(&s.done);
	assert_int_equal(s.failed, 0);
	assert_true(atomic_load(&s.most) - before < LIMIT + LIMIT / 2);
	assert_int_equal(buf_bytes_in_use(), before);
	free(s.w);
	tp_destroy(s.tp);
}

/* --- faults --- */

static bool storm_keep(struct zio_pool *zp, const struct zbookmark *zb, int err)
{
	struct storm *s = zp->on_error_arg;

	atomic_fetch_add(&s->asked, 1);
	return zb->object != 99;
}

static uint32_t next_random(uint32_t *seed)
{
	return (*seed = *seed * 1664525 + 1013904223) >> 16;
}

static struct zio_write random_write(uint32_t *seed, struct crypt_key *key)
{
	static const enum compress all[] = {COMPRESS_OFF, COMPRESS_EMPTY, COMPRESS_LZJB,
					    COMPRESS_LZ4, COMPRESS_ZLE,   COMPRESS_ZSTD};
	uint32_t size = 512u << next_random(seed) % 9;
	struct buf *data = buf_alloc(size);
	uint32_t filled = next_random(seed) % 4 * (size / 4), copies = 1 + next_random(seed) % 3;

	memset(data->data, next_random(seed) % 5 ? 1 : 0, size);
	tp_pattern(data->data, filled, *seed);
	return (struct zio_write){
	    .data = data,
	    .lsize = size,
	    .policy = {.type = next_random(seed) % 2 ? DMU_OT_PLAIN : DMU_OT_MASTER_NODE,
		       .checksum = next_random(seed) % 2 ? CHECKSUM_FLETCHER_4 : CHECKSUM_SHA256,
		       .compress = all[next_random(seed) % ARRAY_LEN(all)],
		       .copies = (uint8_t)copies,
		       .gang_copies = 3,
		       .embed = next_random(seed) % 2},
	    .key = next_random(seed) % 3 ? NULL : key,
	    .zb = {1, next_random(seed) % 10 ? 1 : 99, 0, 0},
	    .txg = TXG,
	    .flags = next_random(seed) % 8 ? 0 : ZIO_WRITE_SYNC,
	};
}

static void storm_check(struct storm *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		struct zio_write *w = &s->w[i];
		struct buf *got;

		if (bp_birth(&w->bp) == 0 && bp_is_hole(&w->bp) && w->zb.object == 99)
			continue; /* given up, or zeros */
		assert_int_equal(zio_read_wait(&s->tp->zp, &w->bp, &w->zb, w->key, ZIO_SCRUB, &got), 0);
		if (!bp_is_hole(&w->bp) || bp_lsize(&w->bp) == w->lsize)
			assert_memory_equal(got->data, w->data->data, w->lsize);
		buf_release(got);
		assert_int_equal(zio_free(&s->tp->zp, &w->bp, TXG), 0);
	}
	assert_int_equal(tp_in_use(s->tp), 0);
}

static void storms_on_failing_devices_lose_nothing(void **state)
{
	uint8_t master[32] = {1}, hmac[64] = {2};

	for (uint32_t round = 0; round < 4; round++) {
		struct storm s = {.tp = tp_create(round % 2 ? 12 : 9, 64u << 20), .n = 600};
		struct crypt_key *key = crypt_key_create(CRYPT_AES_256_GCM, 7, master, hmac, 1);
		uint32_t seed = round + 1;

		tp_set_writable(s.tp);
		s.tp->max_extent = round & 2 ? 16384 : 0;
		s.tp->zp.on_write_failure = storm_keep;
		s.tp->zp.on_error_arg = &s;
		s.w = xcalloc(s.n, sizeof(*s.w));
		for (unsigned i = 0; i < s.n; i++)
			s.w[i] = random_write(&seed, key);
		atomic_store(&s.tp->bad_area, 20);
		storm_run(&s);
		while (atomic_load(&s.left) > 0)
			zio_resume(&s.tp->zp);
		waiter_wait(&s.done);
		assert_true(s.asked > 0);
		storm_check(&s);
		for (unsigned i = 0; i < s.n; i++)
			buf_release(s.w[i].data);
		free(s.w);
		crypt_key_release(key);
		tp_destroy(s.tp);
	}
}

static void an_abandoned_storm_ends(void **state)
{
	struct storm s = {.tp = tp_create(9, 64u << 20), .n = 12000};
	autobuf struct buf *data = buf_alloc(4096);

	tp_set_writable(s.tp);
	memset(data->data, 1, 4096);
	s.tp->zp.on_write_failure = storm_keep;
	s.tp->zp.on_error_arg = &s;
	s.w = xcalloc(s.n, sizeof(*s.w));
	for (unsigned i = 0; i < s.n; i++)
		s.w[i] = (struct zio_write){
		    .data = data,
		    .lsize = 4096,
		    .policy = {.type = TP_FILE, .checksum = CHECKSUM_OFF, .compress = COMPRESS_OFF, .copies = 1},
		    .txg = TXG,
		};
	atomic_store(&s.tp->fail_writes, true);
	storm_run(&s);
	while (atomic_load(&s.asked) < 1000)
		sched_yield();
	assert_true(zio_is_suspended(&s.tp->zp));
	zio_abandon(&s.tp->zp);
	waiter_wait(&s.done);
	assert_int_equal(s.failed, s.n);
	assert_int_equal(tp_in_use(s.tp), 0);
	free(s.w);
	tp_destroy(s.tp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(memory_in_flight_is_bounded),
	    cmocka_unit_test(storms_on_failing_devices_lose_nothing),
	    cmocka_unit_test(an_abandoned_storm_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
