#include "testpool.h"
#include "zio/zio_verify.h"

static int setup(void **state)
{
	*state = tp_create(9, 64u << 20);
	return 0;
}

static int teardown(void **state)
{
	tp_destroy(*state);
	return 0;
}

static void expect_data(struct testpool *tp, const struct bp *bp, unsigned flags, const void *want, size_t size)
{
	autobuf struct buf *buf = NULL;

	assert_int_equal(tp_read(tp, bp, flags, &buf), 0);
	assert_int_equal(buf->size, size);
	assert_memory_equal(buf->data, want, size);
}

static void expect_error(struct testpool *tp, const struct bp *bp, unsigned flags, int err)
{
	struct buf *buf = NULL;

	assert_int_equal(tp_read(tp, bp, flags, &buf), err);
	assert_null(buf);
}

static void a_bad_copy_is_passed_over(void **state)
{
	struct testpool *tp = *state;
	uint8_t data[8192];
	struct bp bp;

	tp->copies = 3;
	tp_pattern(data, sizeof(data), 1);
	bp = tp_write(tp, data, sizeof(data), TP_FILE, 0);
	expect_data(tp, &bp, 0, data, sizeof(data));
	tp_damage(tp, &bp, 0);
	tp_damage(tp, &bp, 1);
	expect_data(tp, &bp, 0, data, sizeof(data));
	expect_data(tp, &bp, ZIO_SCRUB, data, sizeof(data));
	assert_int_equal(atomic_load(&tp->errors), 0);
	assert_true(counter_read(&tp->zp.checksum_failures) >= 4);
	tp_damage(tp, &bp, 2);
	expect_error(tp, &bp, ZIO_QUIET, -ECKSUM);
	assert_int_equal(atomic_load(&tp->errors), 0);
	expect_error(tp, &bp, 0, -ECKSUM);
	assert_int_equal(atomic_load(&tp->errors), 1);
}

static void a_device_that_fails_gives_eio(void **state)
{
	struct testpool *tp = *state;
	uint8_t data[512] = {1};
	struct bp bp = tp_write(tp, data, sizeof(data), TP_FILE, 0);

	atomic_store(&tp->fail, true);
	expect_error(tp, &bp, 0, -EIO);
}

static void holes_read_as_zeros(void **state)
{
	uint8_t zeros[4096] = {0};
	struct bp bp = {{0}};

	bp.w[6] = (sizeof(zeros) >> SECTOR_SHIFT) - 1;
	bp.w[10] = 5;
	expect_data(*state, &bp, 0, zeros, sizeof(zeros));
}

static void embedded_pointers_hold_their_data(void **state)
{
	/* docs/format/02, section 4 */
	static const uint64_t w[7] = {0x0100032117000000, 0x000902bce9804100, 0x000050d9ff00020f, 0, 0, 0,
				      0x800d008f340001ff};
	static const uint8_t start[16] = {3, 0, 0, 0, 0, 0, 0, 0x80, 0xe9, 0xbc, 2};
	uint8_t want[512] = {0};
	struct bp bp = {{0}};

	memcpy(bp.w, w, sizeof(w));
	bp.w[10] = TP_TXG;
	memcpy(want, start, sizeof(start));
	expect_data(*state, &bp, 0, want, sizeof(want));
}

static void pointers_outside_the_pool_are_refused(void **state)
{
	struct testpool *tp = *state;
	uint8_t data[512] = {1};
	struct bp bp = tp_write(tp, data, sizeof(data), TP_FILE, 0), bad;

	bad = bp;
	tp_set_dva(&bad, 0, TP_TOPS, 0, 512, false);
	expect_error(tp, &bad, 0, -EINVAL);
	bad = bp;
	tp_set_dva(&bad, 0, 0, TP_SIZE - (5 << 20), 512, false);
	expect_error(tp, &bad, 0, -EINVAL);
	tp->zp.max_txg = TP_TXG - 1;
	expect_data(tp, &bp, 0, data, sizeof(data)); /* may come from the intent log */
	bad = tp_write(tp, data, sizeof(data), TP_DNODE, 0);
	expect_error(tp, &bad, 0, -EINVAL);
}

/* Three members, the middle one itself a gang of two. */
static struct bp nested_gang(struct testpool *tp, const uint8_t *data, size_t header)
{
	struct bp inner[2], outer[3];

	outer[0] = tp_write(tp, data, 1024, 0, 0);
	inner[0] = tp_write(tp, data + 1024, 512, 0, 0);
	inner[1] = tp_write(tp, data + 1536, 1536, 0, 0);
	outer[1] = tp_write_gang(tp, data + 1024, 2048, header, inner, 2);
	outer[2] = tp_write(tp, data + 3072, 1024, 0, 0);
	return tp_write_gang(tp, data, 4096, header, outer, 3);
}

static void gang_blocks_are_put_together(void **state)
{
	struct testpool *tp = *state;
	uint8_t data[4096];
	struct bp bp;

	tp_pattern(data, sizeof(data), 7);
	bp = nested_gang(tp, data, 512);
	expect_data(tp, &bp, 0, data, sizeof(data));
	expect_data(tp, &bp, ZIO_SCRUB | ZIO_RAW, data, sizeof(data));
	tp->swap = true;
	bp = nested_gang(tp, data, 512);
	expect_data(tp, &bp, 0, data, sizeof(data));
}

static void large_gang_headers_need_their_feature(void **state)
{
	struct testpool *tp = tp_create(12, 64u << 20);
	struct bp member[20], bp, old;
	uint8_t data[20 * 512];

	tp_pattern(data, sizeof(data), 9);
	for (unsigned i = 0; i < 20; i++)
		member[i] = tp_write(tp, data + i * 512, 512, 0, 0);
	bp = tp_write_gang(tp, data, sizeof(data), 4096, member, 20);
	old = tp_write_gang(tp, data, 1024, 512, member, 2);
	expect_error(tp, &bp, 0, -ECKSUM);
	tp->zp.dynamic_gang = true;
	expect_data(tp, &bp, 0, data, sizeof(data));
	expect_data(tp, &old, 0, data, 1024);
	tp_destroy(tp);
}

static void gang_headers_of_encrypted_blocks_have_folded_sums(void **state)
{
	struct testpool *tp = *state;
	struct bp member, bp = {{0}};
	uint8_t data[1024];

	tp_pattern(data, sizeof(data), 11);
	member = tp_write(tp, data, sizeof(data), 0, 0);
	tp_set_prop(tp, &bp, sizeof(data), TP_FILE, 0);
	tp_set_sum(tp, &bp, data, sizeof(data));
	bp.w[12] ^= bp.w[14];
	bp.w[13] ^= bp.w[15];
	bp.w[6] |= UINT64_C(1) << 61;
	tp_put_gang_header(tp, &bp, tp_alloc(tp, 0, 512), 512, &member, 1);
	expect_data(tp, &bp, ZIO_RAW, data, sizeof(data));
	expect_error(tp, &bp, 0, -EKEY);
}

static void gangs_that_lead_nowhere_end(void **state)
{
	struct testpool *tp = *state;
	uint8_t data[1024] = {5};
	struct bp bp = {{0}}, member[2];
	uint64_t at = tp_alloc(tp, 0, 512);

	/* its own member */
	tp_set_prop(tp, &bp, sizeof(data), TP_FILE, 0);
	tp_set_sum(tp, &bp, data, sizeof(data));
	tp_set_dva(&bp, 0, 0, at, 512, true);
	tp_put_gang_header(tp, &bp, at, 512, &bp, 1);
	expect_error(tp, &bp, 0, -EINVAL);
	/* members that do not add up */
	member[0] = tp_write(tp, data, 512, 0, 0);
	bp = tp_write_gang(tp, data, sizeof(data), 512, member, 1);
	expect_error(tp, &bp, 0, -ECKSUM);
	member[1] = tp_write(tp, data, 1024, 0, 0);
	bp = tp_write_gang(tp, data, sizeof(data), 512, member, 2);
	expect_error(tp, &bp, 0, -ECKSUM);
	/* a member that cannot be read */
	member[1] = tp_write(tp, data, 512, 0, 0);
	bp = tp_write_gang(tp, data, sizeof(data), 512, member, 2);
	tp_damage(tp, &member[1], 0);
	expect_error(tp, &bp, 0, -ECKSUM);
}

struct tally {
	atomic_uint good, bad;
};

static void tally_one(void *arg, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct tally *t = arg;

	atomic_fetch_add(err ? &t->bad : &t->good, 1);
	if (err)
		assert_int_equal(zb->blkid, 17);
}

static void many_blocks_are_verified_at_once(void **state)
{
	struct testpool *tp = *state;
	struct tally t = {0};
	uint8_t data[4096];
	struct zio_verifier *v = zio_verifier_create(&tp->zp, 64 << 10, tally_one, &t);

	for (unsigned i = 0; i < 100; i++) {
		struct zbookmark zb = {1, 2, 0, i};
		struct bp bp;

		tp_pattern(data, sizeof(data), i);
		bp = tp_write(tp, data, sizeof(data), TP_FILE, 0);
		if (i == 17)
			tp_damage(tp, &bp, 0);
		zio_verifier_submit(v, &bp, &zb);
	}
	zio_verifier_wait(v);
	assert_int_equal(t.good, 99);
	assert_int_equal(t.bad, 1);
	assert_int_equal(zio_verifier_bytes(v), 100 * sizeof(data));
	zio_verifier_destroy(v);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(a_bad_copy_is_passed_over),
	    TEST(a_device_that_fails_gives_eio),
	    TEST(holes_read_as_zeros),
	    TEST(embedded_pointers_hold_their_data),
	    TEST(pointers_outside_the_pool_are_refused),
	    TEST(gang_blocks_are_put_together),
	    TEST(large_gang_headers_need_their_feature),
	    TEST(gang_headers_of_encrypted_blocks_have_folded_sums),
	    TEST(gangs_that_lead_nowhere_end),
	    TEST(many_blocks_are_verified_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
