#include "testpool.h"

static const struct zbookmark zb = {1, 2, 0, 3};

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

static struct buf *pattern_buf(size_t size, uint32_t seed)
{
	struct buf *b = buf_alloc(size);

	assert_non_null(b);
	tp_pattern(b->data, size, seed);
	return b;
}

static struct bp write_buf(struct testpool *tp, const struct buf *b)
{
	return tp_write(tp, b->data, b->size, TP_FILE, 0);
}

static bool is_cached(struct testpool *tp, const struct bp *bp)
{
	struct buf *buf = arc_lookup(tp->dp.arc, &tp->zp, bp, 0);

	buf_release(buf);
	return buf != NULL;
}

static void a_written_block_needs_no_device(void **state)
{
	struct testpool *tp = *state;
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct bp bp = write_buf(tp, data);
	struct buf *got;

	arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, data, 0);
	assert_int_equal(arc_read_wait(tp->dp.arc, &tp->zp, &bp, &zb, NULL, 0, &got), 0);
	assert_ptr_equal(got, data);
	buf_release(got);
	assert_int_equal(atomic_load(&tp->device_reads), 0);
}

static void holes_and_what_nobody_wants_kept_are_not(void **state)
{
	struct testpool *tp = *state;
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct bp bp = write_buf(tp, data), hole = {{0}};

	arc_insert(tp->dp.arc, &tp->zp, &hole, &zb, data, 0);
	arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, data, ARC_NOCACHE);
	assert_int_equal(arc_size(tp->dp.arc), 0);
	arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, data, 0);
	arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, data, ARC_NOCACHE); /* takes away what was there */
	assert_int_equal(arc_size(tp->dp.arc), 0);
}

static void the_limit_holds_while_writing(void **state)
{
	struct testpool *tp = *state;
	struct buf *held[200];
	struct bp last;

	for (unsigned i = 0; i < 200; i++) {
		held[i] = pattern_buf(256 << 10, i);
		last = write_buf(tp, held[i]);
		arc_insert(tp->dp.arc, &tp->zp, &last, &zb, held[i], 0);
		assert_true(arc_size(tp->dp.arc) <= ARC_MAX_MIN);
		assert_true(is_cached(tp, &last));
	}
	assert_true(arc_size(tp->dp.arc) > ARC_MAX_MIN / 2);
	for (unsigned i = 0; i < 200; i++)
		buf_release(held[i]);
}

static void a_block_larger_than_the_cache_is_not_kept(void **state)
{
	struct testpool *tp = *state;
	autobuf struct buf *small = pattern_buf(8192, 1), *big = buf_alloc(16 << 20);
	struct bp bp = write_buf(tp, small);

	memset(big->data, 1, big->size);
	arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, big, 0);
	assert_false(is_cached(tp, &bp));
	assert_true(arc_size(tp->dp.arc) <= ARC_MAX_MIN);
}

static void a_block_overwritten_in_place_shows_its_new_bytes(void **state)
{
	struct testpool *tp = *state;
	autobuf struct buf *a = pattern_buf(8192, 1), *b = pattern_buf(8192, 2);
	struct bp old = write_buf(tp, a), new = old;
	struct buf *got;

	arc_insert(tp->dp.arc, &tp->zp, &old, &zb, a, 0);
	tp_put(tp, 0, bp_dva(&old, 0).offset, b->data, b->size);
	tp_set_sum(tp, &new, b->data, b->size);
	assert_false(is_cached(tp, &new));
	assert_int_equal(arc_read_wait(tp->dp.arc, &tp->zp, &new, &zb, NULL, 0, &got), 0);
	assert_memory_equal(got->data, b->data, b->size);
	buf_release(got);
	arc_drop(tp->dp.arc, &tp->zp, &old);
	assert_false(is_cached(tp, &old));
	assert_true(is_cached(tp, &new));

	/* without checksums the pointers are equal: what was written last counts */
	new.w[12] = old.w[12];
	new.w[13] = old.w[13];
	arc_insert(tp->dp.arc, &tp->zp, &old, &zb, a, 0);
	arc_insert(tp->dp.arc, &tp->zp, &new, &zb, b, 0);
	got = arc_lookup(tp->dp.arc, &tp->zp, &old, 0);
	assert_ptr_equal(got, b);
	buf_release(got);
}

static void a_dropped_block_is_gone_and_comes_back_when_read(void **state)
{
	struct testpool *tp = *state;
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct bp bp = write_buf(tp, data);
	struct buf *got;

	arc_drop(tp->dp.arc, &tp->zp, &bp); /* was never there */
	arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, data, 0);
	arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, data, ZIO_RAW);
	arc_drop(tp->dp.arc, &tp->zp, &bp);
	assert_int_equal(arc_size(tp->dp.arc), 0);
	assert_int_equal(arc_read_wait(tp->dp.arc, &tp->zp, &bp, &zb, NULL, 0, &got), 0);
	assert_memory_equal(got->data, data->data, data->size);
	buf_release(got);
	assert_true(is_cached(tp, &bp));
}

struct reading {
	struct arc_read r;
	struct waiter w;
};

static void reading_done(struct arc_read *r, int err, struct buf *buf)
{
	buf_release(buf);
	waiter_done(&container_of(r, struct reading, r)->w, err);
}

/* Whoever comes first, the read or the drop, nothing is left; after an insert, the bytes inserted. */
static void what_is_freed_or_written_during_a_read_is_not_kept_by_it(void **state)
{
	struct testpool *tp = *state;

	for (unsigned i = 0; i < 200; i++) {
		autobuf struct buf *data = pattern_buf(64 << 10, i);
		struct bp bp = write_buf(tp, data);
		struct reading r = {.r = {.zp = &tp->zp, .bp = bp, .zb = zb, .done = reading_done}};
		struct buf *got;

		waiter_init(&r.w);
		arc_read(tp->dp.arc, &r.r);
		if (i % 2)
			arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, data, 0);
		else
			arc_drop(tp->dp.arc, &tp->zp, &bp);
		assert_int_equal(waiter_wait(&r.w), 0);
		got = arc_lookup(tp->dp.arc, &tp->zp, &bp, 0);
		assert_ptr_equal(got, i % 2 ? data : NULL);
		buf_release(got);
	}
}

static void what_was_written_for_a_set_goes_when_its_key_goes(void **state)
{
	struct testpool *tp = *state;
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct bp bp = write_buf(tp, data);

	arc_insert(tp->dp.arc, &tp->zp, &bp, &zb, data, 0);
	arc_flush_objset(tp->dp.arc, tp->zp.guid, zb.objset + 1);
	assert_true(is_cached(tp, &bp));
	arc_flush_objset(tp->dp.arc, tp->zp.guid, zb.objset);
	assert_false(is_cached(tp, &bp));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(a_written_block_needs_no_device),
	    TEST(holes_and_what_nobody_wants_kept_are_not),
	    TEST(the_limit_holds_while_writing),
	    TEST(a_block_larger_than_the_cache_is_not_kept),
	    TEST(a_block_overwritten_in_place_shows_its_new_bytes),
	    TEST(a_dropped_block_is_gone_and_comes_back_when_read),
	    TEST(what_is_freed_or_written_during_a_read_is_not_kept_by_it),
	    TEST(what_was_written_for_a_set_goes_when_its_key_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
