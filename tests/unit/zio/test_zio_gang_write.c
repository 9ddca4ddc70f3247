#include "testpool.h"

#define TXG 12

static struct zio_write write_of(struct buf *data, unsigned copies)
{
	return (struct zio_write){
	    .data = data,
	    .lsize = data->size,
	    .policy = {.type = TP_FILE,
		       .checksum = CHECKSUM_SHA256,
		       .compress = COMPRESS_OFF,
		       .copies = copies,
		       .gang_copies = MIN(copies + 1, 3)},
	    .zb = {1, 2, 0, 3},
	    .txg = TXG,
	    .fill = 1,
	};
}

static struct buf *pattern_buf(size_t size, uint32_t seed)
{
	struct buf *b = buf_alloc(size);

	assert_non_null(b);
	tp_pattern(b->data, size, seed);
	return b;
}

static struct testpool *pool(unsigned ashift, bool dynamic)
{
	struct testpool *tp = tp_create(ashift, 64u << 20);

	tp_set_writable(tp);
	tp->zp.dynamic_gang = dynamic;
	return tp;
}

static void reads_back(struct testpool *tp, const struct bp *bp, const struct buf *want)
{
	struct buf *got;

	assert_int_equal(bp_check(bp), 0);
	assert_int_equal(tp_read(tp, bp, ZIO_SCRUB, &got), 0);
	assert_int_equal(got->size, want->size);
	assert_memory_equal(got->data, want->data, want->size);
	buf_release(got);
}

static const struct {
	unsigned ashift;
	bool dynamic;
	uint32_t size, extent;
} shapes[] = {
    {9, false, 8192, 4096},                                                                    /* three members */
    {9, false, 128 << 10, 4096},                                                               /* nested */
    {9, false, 130560, 512},                                                                   /* deep */
    {12, false, 128 << 10, 64 << 10}, {12, false, 1 << 20, 4096}, {12, true, 128 << 10, 8192}, /* 31 to a header */
    {12, true, 1 << 20, 8192},        {12, true, 12800, 4096}, /* the last member is smaller than a sector */
};

static void scattered_blocks_come_back(void **state)
{
	for (unsigned i = 0; i < ARRAY_LEN(shapes); i++) {
		struct testpool *tp = pool(shapes[i].ashift, shapes[i].dynamic);

		tp->max_extent = shapes[i].extent;
		for (unsigned copies = 1; copies <= 3; copies++) {
			autobuf struct buf *data = pattern_buf(shapes[i].size, i);
			struct zio_write w = write_of(data, copies);

			assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
			assert_true(bp_is_gang(&w.bp));
			assert_int_equal(bp_ndvas(&w.bp), MIN(copies + 1, 3));
			/* all that was allocated is in the pointer */
			assert_int_equal(bp_asize(&w.bp), tp_in_use(tp));
			reads_back(tp, &w.bp, data);
			for (unsigned d = 0; d + 1 < bp_ndvas(&w.bp); d++)
				tp_damage(tp, &w.bp, d); /* headers */
			reads_back(tp, &w.bp, data);
			assert_int_equal(zio_claim(&tp->zp, &w.bp, TXG), 0);
			assert_int_equal(tp->claims, tp->nlive);
			assert_int_equal(zio_free(&tp->zp, &w.bp, TXG), 0);
			assert_int_equal(tp_in_use(tp), 0);
			tp->claims = 0;
		}
		assert_int_equal(counter_read(&tp->zp.allocated), counter_read(&tp->zp.freed));
		tp_destroy(tp);
	}
}

static void headers_are_of_the_size_that_the_feature_says(void **state)
{
	struct testpool *tp = pool(12, true);
	autobuf struct buf *data = pattern_buf(128 << 10, 1);
	struct zio_write w = write_of(data, 1);
	struct zbookmark zb = {1, 2, 0, 3};
	struct buf *header;
	struct bp member[32];

	tp->max_extent = 8192;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_int_equal(zio_read_wait(&tp->zp, &w.bp, &zb, NULL, ZIO_RAW | ZIO_GANG_HEADER, &header), 0);
	assert_int_equal(header->size, 4096);
	assert_int_equal(zio_gang_members(&w.bp, header, member), 16);
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(bp_psize(&member[i]), 8192);
		assert_int_equal(bp_lsize(&member[i]), 8192);
		assert_int_equal(bp_type(&member[i]), 0);
		assert_int_equal(bp_checksum(&member[i]), CHECKSUM_SHA256);
		assert_int_equal(bp_compress(&member[i]), COMPRESS_OFF);
		assert_int_equal(bp_fill(&member[i]), 0);
		assert_int_equal(bp_birth(&member[i]), TXG);
		assert_int_equal(bp_ndvas(&member[i]), 1);
	}
	buf_release(header);
	tp_destroy(tp);
}

static void gang_blocks_are_overwritten_in_place(void **state)
{
	for (unsigned i = 0; i < ARRAY_LEN(shapes); i++) {
		struct testpool *tp = pool(shapes[i].ashift, shapes[i].dynamic);
		autobuf struct buf *a = pattern_buf(shapes[i].size, 1), *b = pattern_buf(shapes[i].size, 2);
		struct zio_write w = write_of(a, 2);
		struct bp first;

		tp->max_extent = shapes[i].extent;
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		first = w.bp;
		w.data = b;
		w.rewrite = true;
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_true(bp_equal(&first, &w.bp));
		assert_int_equal(bp_asize(&w.bp), tp_in_use(tp));
		reads_back(tp, &w.bp, b);

		/* a tree that cannot be read is left, for the caller to free what can be */
		tp->max_extent = 0;
		w.data = a;
		for (unsigned d = 0; d < bp_ndvas(&w.bp); d++)
			tp_damage(tp, &w.bp, d);
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_false(bp_is_gang(&w.bp));
		reads_back(tp, &w.bp, a);
		assert_int_equal(zio_free(&tp->zp, &first, TXG), -ECKSUM);
		tp_destroy(tp);
	}
}

static void sealed_and_swapped_leaders_have_headers_of_their_kind(void **state)
{
	for (unsigned crypt = 0; crypt < 2; crypt++) {
		struct testpool *tp = pool(9, false);
		autobuf struct buf *data = pattern_buf(64 << 10, 1);
		struct zio_write w = write_of(data, 3);
		struct buf *got;

		tp->max_extent = 4096;
		w.flags = ZIO_WRITE_RAW;
		bp_set_props(&w.bp, &(struct bp_props){.lsize = data->size,
						       .psize = data->size,
						       .compress = COMPRESS_OFF,
						       .checksum = CHECKSUM_FLETCHER_4,
						       .type = TP_FILE,
						       .crypt = crypt,
						       .swapped = true});
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_int_equal(bp_ndvas(&w.bp), crypt ? 2 : 3);
		assert_int_equal(tp_read(tp, &w.bp, ZIO_RAW | ZIO_SCRUB, &got), 0);
		assert_memory_equal(got->data, data->data, data->size);
		buf_release(got);
		assert_int_equal(zio_free(&tp->zp, &w.bp, TXG), 0);
		assert_int_equal(tp_in_use(tp), 0);
		tp_destroy(tp);
	}
}

static void the_smallest_blocks_are_never_scattered(void **state)
{
	struct testpool *tp = pool(12, false);
	autobuf struct buf *data = pattern_buf(4096, 1);
	struct zio_write w = write_of(data, 1);

	tp->max_extent = 512;
	assert_int_equal(zio_write_wait(&tp->zp, &w), -ENOSPC);
	tp_destroy(tp);
}

/* Out of space at every point of making a tree: nothing is left allocated. */
static void no_space_in_the_middle_leaves_nothing(void **state)
{
	struct testpool *tp = pool(9, false);
	autobuf struct buf *data = pattern_buf(16384, 1);
	bool done = false;

	tp->max_extent = 1024;
	for (tp->space = 512; !done; tp->space += 1024) {
		struct zio_write w = write_of(data, 2);
		int err = zio_write_wait(&tp->zp, &w);

		done = err == 0;
		if (!done) {
			assert_int_equal(err, -ENOSPC);
			assert_int_equal(tp_in_use(tp), 0);
		} else {
			reads_back(tp, &w.bp, data);
		}
	}
	assert_true(tp->space > 32768);
	tp_destroy(tp);
}

/* Each single device write fails once: the block is whole all the same, and what it left is free. */
static void any_piece_may_fail(void **state)
{
	struct testpool *tp = pool(9, false);
	autobuf struct buf *data = pattern_buf(16384, 1);
	struct zio_write w = write_of(data, 2);
	unsigned writes;

	tp->max_extent = 2048;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	writes = atomic_load(&tp->device_writes);
	assert_int_equal(zio_free(&tp->zp, &w.bp, TXG), 0);
	for (unsigned n = 1; n <= writes; n++) {
		w = write_of(data, 2);
		atomic_store(&tp->fail_write_at, atomic_load(&tp->device_writes) + n);
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_int_equal(bp_asize(&w.bp), tp_in_use(tp));
		reads_back(tp, &w.bp, data);
		assert_int_equal(zio_free(&tp->zp, &w.bp, TXG), 0);
	}
	atomic_store(&tp->fail_writes, true);
	w = write_of(data, 2);
	assert_int_equal(zio_write_wait(&tp->zp, &w), -EIO);
	assert_int_equal(tp_in_use(tp), 0);
	tp_destroy(tp);
}

static void plain_blocks_are_freed_and_claimed_by_their_pointer(void **state)
{
	struct testpool *tp = pool(9, false);
	autobuf struct buf *data = pattern_buf(16384, 1);
	struct zio_write w = write_of(data, 3);
	struct bp hole = {{0}}, bad;

	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_int_equal(zio_free(&tp->zp, &hole, TXG + 1), 0);
	bad = w.bp;
	bad.w[2] |= UINT64_C(99) << 32;
	assert_int_equal(zio_free(&tp->zp, &bad, TXG + 1), -EINVAL);
	assert_int_equal(tp_in_use(tp), 3 * 16384);
	assert_int_equal(zio_claim(&tp->zp, &w.bp, TXG + 1), 0);
	assert_int_equal(tp->claims, 3);
	assert_int_equal(zio_free(&tp->zp, &w.bp, TXG + 1), 0);
	assert_int_equal(tp_in_use(tp), 0);
	tp_destroy(tp);
}

static void copies_follow_the_table(void **state)
{
	enum { ALL, MOST, SOME, NONE };
	static const struct {
		unsigned type, level, asked, rm;
		bool encrypted;
		unsigned copies, gang;
	} t[] = {
	    {DMU_OT_PLAIN, 0, 1, ALL, false, 1, 2},      {DMU_OT_PLAIN, 1, 1, ALL, false, 2, 2},
	    {DMU_OT_PLAIN, 0, 0, ALL, false, 1, 2},      {DMU_OT_PLAIN, 0, 3, ALL, false, 3, 3},
	    {DMU_OT_DNODE, 0, 1, ALL, false, 2, 2},      {DMU_OT_OBJSET, 0, 1, ALL, false, 2, 2},
	    {DMU_OT_SPACE_MAP, 0, 3, ALL, false, 3, 3},  {DMU_OT_PLAIN, 1, 1, MOST, false, 1, 2},
	    {DMU_OT_PLAIN, 0, 1, MOST, false, 1, 1},     {DMU_OT_PLAIN, 2, 1, MOST, false, 2, 2},
	    {DMU_OT_SA, 0, 1, MOST, false, 2, 2},        {DMU_OT_SA, 0, 1, SOME, false, 1, 2},
	    {DMU_OT_DNODE, 0, 1, SOME, false, 1, 2},     {DMU_OT_DNODE, 1, 1, SOME, false, 2, 2},
	    {DMU_OT_OBJSET, 0, 1, SOME, false, 2, 2},    {DMU_OT_PLAIN, 2, 1, SOME, false, 1, 1},
	    {DMU_OT_DNODE, 0, 1, NONE, false, 1, 1},     {DMU_OT_PLAIN, 0, 3, ALL, true, 2, 2},
	    {DMU_OT_PLAIN, 1, 3, ALL, true, 2, 2},       {DMU_OT_OBJSET, 0, 3, ALL, true, 3, 3},
	    {DMU_OT_INTENT_LOG, 0, 3, ALL, false, 1, 3},
	};

	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		assert_int_equal(zio_copies(t[i].type, t[i].level, t[i].asked, t[i].rm, t[i].encrypted), t[i].copies);
		assert_int_equal(zio_gang_copies(t[i].type, t[i].level, t[i].asked, t[i].rm, t[i].encrypted),
				 t[i].gang);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(scattered_blocks_come_back),
	    cmocka_unit_test(headers_are_of_the_size_that_the_feature_says),
	    cmocka_unit_test(gang_blocks_are_overwritten_in_place),
	    cmocka_unit_test(sealed_and_swapped_leaders_have_headers_of_their_kind),
	    cmocka_unit_test(the_smallest_blocks_are_never_scattered),
	    cmocka_unit_test(no_space_in_the_middle_leaves_nothing),
	    cmocka_unit_test(any_piece_may_fail),
	    cmocka_unit_test(plain_blocks_are_freed_and_claimed_by_their_pointer),
	    cmocka_unit_test(copies_follow_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
