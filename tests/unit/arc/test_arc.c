#include <unistd.h>

#include "testpool.h"

#define MIB (1u << 20)

static int setup(void **state)
{
	*state = tp_create(9, ARC_MAX_MIN);
	return 0;
}

static int teardown(void **state)
{
	tp_destroy(*state);
	return 0;
}

static struct bp write_block(struct testpool *tp, size_t size, uint32_t seed)
{
	autofree uint8_t *data = xmalloc(size);

	tp_pattern(data, size, seed);
	return tp_write(tp, data, size, TP_FILE, 0);
}

static struct buf *read_block(struct testpool *tp, const struct bp *bp, unsigned flags)
{
	struct zbookmark zb = {1, 2, 0, 0};
	struct buf *buf = NULL;

	assert_int_equal(arc_read_wait(tp->dp.arc, &tp->zp, bp, &zb, NULL, flags, &buf), 0);
	assert_int_equal(buf->size, bp_lsize(bp));
	return buf;
}

static void touch(struct testpool *tp, const struct bp *bp)
{
	buf_release(read_block(tp, bp, 0));
}

static bool is_cached(struct testpool *tp, const struct bp *bp)
{
	struct buf *buf = arc_lookup(tp->dp.arc, &tp->zp, bp, 0);

	buf_release(buf);
	return buf != NULL;
}

static uint64_t device_blocks(struct testpool *tp)
{
	return counter_read(&tp->zp.reads);
}

/* More than the promotion interval: look-ups that are apart count as two. */
static void let_time_pass(void)
{
	usleep(80 * 1000);
}

static void a_second_read_needs_no_device(void **state)
{
	struct testpool *tp = *state;
	struct bp bp = write_block(tp, 4096, 1);
	struct buf *a = read_block(tp, &bp, 0), *b = read_block(tp, &bp, 0);

	assert_ptr_equal(a, b);
	assert_int_equal(device_blocks(tp), 1);
	buf_release(a);
	buf_release(b);
	touch(tp, &bp);
	buf_release(read_block(tp, &bp, ZIO_RAW)); /* other bytes for all the cache knows */
	assert_int_equal(device_blocks(tp), 2);
}

/* The largest size of the cache, looked at whenever a read was asked for or ended. */
static atomic_uint_fast64_t worst;

static void size_look(const struct arc *a)
{
	uint64_t size = arc_size(a);
	uint_fast64_t most = atomic_load(&worst);

	while (size > most && !atomic_compare_exchange_weak(&worst, &most, size))
		;
}

struct counted {
	struct arc_read r;
	struct arc *arc;
	atomic_uint *left, *failed;
	struct waiter *w;
};

static void counted_done(struct arc_read *r, int err, struct buf *buf)
{
	struct counted *c = r->arg;

	size_look(c->arc);
	buf_release(buf);
	if (err)
		atomic_fetch_add(c->failed, 1);
	if (atomic_fetch_sub(c->left, 1) == 1)
		waiter_done(c->w, 0);
}

/* Submits all, waits for all; returns how many failed. */
static unsigned read_all(struct testpool *tp, const struct bp *bp, unsigned nbp, unsigned n, unsigned flags)
{
	struct counted *c = xcalloc(n, sizeof(*c));
	atomic_uint left = n, failed = 0;
	struct waiter w;

	waiter_init(&w);
	for (unsigned i = 0; i < n; i++) {
		c[i].left = &left;
		c[i].failed = &failed;
		c[i].w = &w;
		c[i].r = (struct arc_read){.zp = &tp->zp, .bp = bp[i % nbp], .flags = flags, .done = counted_done};
		c[i].r.arg = &c[i];
		c[i].arc = tp->dp.arc;
		arc_read(tp->dp.arc, &c[i].r);
		size_look(tp->dp.arc);
	}
	waiter_wait(&w);
	free(c);
	return failed;
}

static void readers_of_one_block_share_one_device_read(void **state)
{
	struct testpool *tp = *state;
	struct bp bp = write_block(tp, 128 << 10, 1);

	assert_int_equal(read_all(tp, &bp, 1, 50, 0), 0);
	assert_int_equal(device_blocks(tp), 1);
}

static void all_sharers_learn_of_a_failure_and_it_is_not_kept(void **state)
{
	struct testpool *tp = *state;
	struct bp bp = write_block(tp, 128 << 10, 1);

	atomic_store(&tp->fail, true);
	assert_int_equal(read_all(tp, &bp, 1, 20, 0), 20);
	atomic_store(&tp->fail, false);
	touch(tp, &bp);
}

/* 24 blocks of 1 MiB in a cache of 16 MiB, all asked for at once. */
static void the_limit_holds_with_reads_in_flight(void **state)
{
	struct testpool *tp = *state;
	struct bp bp[24];

	for (unsigned i = 0; i < ARRAY_LEN(bp); i++)
		bp[i] = write_block(tp, MIB, i);
	atomic_store(&worst, 0);
	for (unsigned round = 0; round < 4; round++)
		assert_int_equal(read_all(tp, bp, ARRAY_LEN(bp), 2 * ARRAY_LEN(bp), 0), 0);
	assert_true(atomic_load(&worst) > ARC_MAX_MIN / 2);
	assert_true(atomic_load(&worst) <= ARC_MAX_MIN);
	assert_true(arc_size(tp->dp.arc) <= ARC_MAX_MIN);
}

static void blocks_as_large_as_the_cache_are_served(void **state)
{
	struct testpool *tp = *state;
	struct bp bp[3];

	for (unsigned i = 0; i < ARRAY_LEN(bp); i++)
		bp[i] = write_block(tp, 16 * MIB, i);
	assert_int_equal(read_all(tp, bp, ARRAY_LEN(bp), 6, 0), 0);
	assert_true(arc_size(tp->dp.arc) <= ARC_MAX_MIN);
	arc_set_max(tp->dp.arc, 64 * MIB);
	assert_int_equal(read_all(tp, bp, ARRAY_LEN(bp), 3, 0), 0);
	assert_true(is_cached(tp, &bp[0]) && is_cached(tp, &bp[1]) && is_cached(tp, &bp[2]));
	assert_true(arc_size(tp->dp.arc) <= 64 * MIB);
	arc_set_max(tp->dp.arc, 20 * MIB);
	assert_true(arc_size(tp->dp.arc) <= 20 * MIB);
}

static void eviction_leaves_readers_their_bytes(void **state)
{
	struct testpool *tp = *state;
	struct bp held = write_block(tp, MIB, 99);
	struct buf *buf = read_block(tp, &held, 0);
	autofree uint8_t *want = xmalloc(MIB);

	tp_pattern(want, MIB, 99);
	for (unsigned i = 0; i < 40; i++) {
		struct bp bp = write_block(tp, MIB, i);
		touch(tp, &bp);
	}
	/* Unreferenced blocks went first. */
	assert_true(is_cached(tp, &held));
	arc_flush_pool(tp->dp.arc, tp->zp.guid);
	assert_false(is_cached(tp, &held));
	assert_int_equal(arc_size(tp->dp.arc), 0);
	assert_memory_equal(buf->data, want, MIB);
	buf_release(buf);
}

/* Everything referenced: readers still make progress, and the cache gives up its share. */
static void held_blocks_do_not_stop_others(void **state)
{
	struct testpool *tp = *state;
	struct buf *held[40];

	for (unsigned i = 0; i < ARRAY_LEN(held); i++) {
		struct bp bp = write_block(tp, MIB, i);
		held[i] = read_block(tp, &bp, 0);
		assert_true(arc_size(tp->dp.arc) <= ARC_MAX_MIN);
	}
	for (unsigned i = 0; i < ARRAY_LEN(held); i++)
		buf_release(held[i]);
}

static void blocks_seen_twice_survive_a_scan(void **state)
{
	struct testpool *tp = *state;
	struct bp hot[4], bp;
	struct arc_stats st;

	for (unsigned i = 0; i < ARRAY_LEN(hot); i++) {
		hot[i] = write_block(tp, MIB, 1000 + i);
		touch(tp, &hot[i]);
		touch(tp, &hot[i]);
	}
	arc_stats(tp->dp.arc, &st);
	assert_int_equal(st.mfu_size, 0); /* look-ups so close are one */
	let_time_pass();
	for (unsigned i = 0; i < ARRAY_LEN(hot); i++)
		touch(tp, &hot[i]);
	for (unsigned i = 0; i < 60; i++) {
		bp = write_block(tp, MIB, i);
		touch(tp, &bp);
	}
	for (unsigned i = 0; i < ARRAY_LEN(hot); i++)
		assert_true(is_cached(tp, &hot[i]));
}

static void ghosts_shift_the_balance(void **state)
{
	struct testpool *tp = *state;
	struct bp once[30];
	struct arc_stats before, after;

	for (unsigned i = 0; i < 12; i++) { /* fill the often-used side */
		struct bp bp = write_block(tp, MIB, 500 + i);
		touch(tp, &bp);
		let_time_pass();
		touch(tp, &bp);
	}
	for (unsigned i = 0; i < ARRAY_LEN(once); i++) {
		once[i] = write_block(tp, MIB, i);
		touch(tp, &once[i]);
	}
	arc_stats(tp->dp.arc, &before);
	assert_true(before.mru_ghost_size > 0);
	/* The newest ghosts come back. */
	for (unsigned i = ARRAY_LEN(once); i-- > 0;)
		if (!is_cached(tp, &once[i]))
			touch(tp, &once[i]);
	arc_stats(tp->dp.arc, &after);
	assert_true(after.mru_ghost_hits > before.mru_ghost_hits);
	assert_true(after.target_mru > before.target_mru);
	assert_true(after.target_mru <= after.max);
	assert_true(after.mru_size + after.mru_ghost_size <= after.max + MIB + 4096);
	assert_true(after.mfu_size + after.mfu_ghost_size <= after.max + MIB + 4096);
}

static void uncached_reads_leave_nothing_behind(void **state)
{
	struct testpool *tp = *state;
	struct bp bp = write_block(tp, 4096, 1);

	buf_release(read_block(tp, &bp, ARC_NOCACHE));
	assert_false(is_cached(tp, &bp));
	assert_int_equal(arc_size(tp->dp.arc), 0);
}

static void prefetched_blocks_are_there_when_asked_for(void **state)
{
	struct testpool *tp = *state;
	struct zbookmark zb = {1, 2, 0, 0};
	struct bp bp = write_block(tp, 4096, 1);
	struct arc_stats st;

	assert_true(arc_prefetch(tp->dp.arc, &tp->zp, &bp, &zb, NULL));
	touch(tp, &bp);
	touch(tp, &bp);
	assert_int_equal(device_blocks(tp), 1);
	arc_stats(tp->dp.arc, &st);
	assert_int_equal(st.prefetch_issued, 1);
	assert_int_equal(st.prefetch_hits, 1);
}

static void prefetch_leaves_room_for_others(void **state)
{
	struct testpool *tp = *state;
	struct zbookmark zb = {1, 2, 0, 0};
	struct bp bp[32];

	for (unsigned i = 0; i < ARRAY_LEN(bp); i++)
		bp[i] = write_block(tp, MIB, i);
	for (unsigned i = 0; i < ARRAY_LEN(bp); i++) {
		struct arc_stats st;

		arc_prefetch(tp->dp.arc, &tp->zp, &bp[i], &zb, NULL);
		arc_stats(tp->dp.arc, &st);
		assert_true(st.in_flight <= ARC_MAX_MIN / 8 * 5 + MIB);
	}
}

static void pools_are_flushed_one_by_one(void **state)
{
	struct testpool *tp = *state;
	struct zio_pool other = tp->zp;
	struct zbookmark zb = {5, 2, 0, 0}, zb6 = {6, 2, 0, 0};
	struct bp a = write_block(tp, 4096, 1), b = write_block(tp, 4096, 2);
	struct buf *buf;

	other.guid = 78;
	touch(tp, &a);
	assert_int_equal(arc_read_wait(tp->dp.arc, &other, &a, &zb, NULL, 0, &buf), 0);
	buf_release(buf);
	assert_int_equal(arc_read_wait(tp->dp.arc, &other, &b, &zb6, NULL, 0, &buf), 0);
	buf_release(buf);
	arc_flush_pool(tp->dp.arc, tp->zp.guid);
	assert_false(is_cached(tp, &a));
	buf = arc_lookup(tp->dp.arc, &other, &a, 0);
	assert_non_null(buf);
	buf_release(buf);
	arc_flush_objset(tp->dp.arc, other.guid, 5);
	assert_null(arc_lookup(tp->dp.arc, &other, &a, 0));
	buf = arc_lookup(tp->dp.arc, &other, &b, 0);
	assert_non_null(buf);
	buf_release(buf);
}

/* Several threads, a working set above the limit, prefetches in between. */
static void *hammer(void *arg)
{
	struct testpool *tp = arg;
	struct zbookmark zb = {1, 2, 0, 0};
	static struct bp bp[64];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint32_t seed = (uint32_t)(uintptr_t)&zb;

	pthread_mutex_lock(&lock);
	if (tp->next[0] == 0)
		for (unsigned i = 0; i < ARRAY_LEN(bp); i++)
			bp[i] = write_block(tp, 512 << 10, i);
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < 400; i++) {
		unsigned n;
		struct buf *buf;
		uint8_t want[64];

		seed = seed * 1664525 + 1013904223;
		n = (seed >> 16) % ARRAY_LEN(bp);
		arc_prefetch(tp->dp.arc, &tp->zp, &bp[(n + 1) % ARRAY_LEN(bp)], &zb, NULL);
		buf = read_block(tp, &bp[n], i % 7 ? 0 : ARC_NOCACHE);
		tp_pattern(want, sizeof(want), n);
		assert_memory_equal(buf->data, want, sizeof(want));
		buf_release(buf);
	}
	return NULL;
}

static void many_threads_see_the_right_bytes(void **state)
{
	struct testpool *tp = *state;
	pthread_t t[6];

	for (unsigned i = 0; i < ARRAY_LEN(t); i++)
		pthread_create(&t[i], NULL, hammer, tp);
	for (unsigned i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	assert_true(arc_size(tp->dp.arc) <= ARC_MAX_MIN);
	arc_flush_pool(tp->dp.arc, tp->zp.guid);
	assert_int_equal(arc_size(tp->dp.arc), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(a_second_read_needs_no_device),
	    TEST(readers_of_one_block_share_one_device_read),
	    TEST(all_sharers_learn_of_a_failure_and_it_is_not_kept),
	    TEST(the_limit_holds_with_reads_in_flight),
	    TEST(blocks_as_large_as_the_cache_are_served),
	    TEST(eviction_leaves_readers_their_bytes),
	    TEST(held_blocks_do_not_stop_others),
	    TEST(blocks_seen_twice_survive_a_scan),
	    TEST(ghosts_shift_the_balance),
	    TEST(uncached_reads_leave_nothing_behind),
	    TEST(prefetched_blocks_are_there_when_asked_for),
	    TEST(prefetch_leaves_room_for_others),
	    TEST(pools_are_flushed_one_by_one),
	    TEST(many_threads_see_the_right_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
