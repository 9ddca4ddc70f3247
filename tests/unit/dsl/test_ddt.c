/* Entries of dedup tables and their logs (docs/format/04-crypto-dedup-clone.md, A2.3, A2.7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "dsl/ddt.h"

/* The example of A2.3: an encrypted block in a legacy table. */
static void legacy_values_decode(void **state)
{
	static const uint8_t value[] = {0x8e, 0x7f, 0x00, 0x02, 0x46, 0x02, 0x96, 0x27, 0x02, 0x54, 0x10,
					0x61, 0x83, 0x07, 0x7e, 0xed, 0x12, 0xcc, 0x52, 0x2a, 0x25, 0xe0,
					0x54, 0xde, 0xe0, 0xb9, 0x73, 0x01, 0x46, 0x00, 0x42, 0xc6};
	struct ddt_entry e = {.checksum = CHECKSUM_EDONR,
			      .key = {{0x8cb7f57a1a8f7444, 0x30a98ffa1297513c, 0x7dad7d6108c05ea7, 0x42a08f377b0562f6}},
			      .prop = 0x0000009000000003};
	struct bp bp;

	assert_int_equal(ddt_value_decode(value, sizeof(value), false, &e), 0);
	assert_int_equal(e.nphys, 4);
	assert_int_equal(e.phys[1].dva[0] & 0xffffff, 2);
	assert_int_equal(e.phys[1].dva[1], 141206);
	assert_int_equal(e.phys[1].dva[4], 0x52cc12ed7e078361);
	assert_int_equal(e.phys[1].dva[5], 0x73b9e0de54e0252a);
	assert_int_equal(e.phys[1].refcount, 1);
	assert_int_equal(e.phys[1].birth, 66);
	assert_int_equal(e.phys[0].birth, 0);
	assert_int_equal(ddt_entry_refs(&e), 1);
	ddt_entry_bp(&e, 1, &bp);
	assert_int_equal(bp_check(&bp), 0);
	assert_true(bp_is_encrypted(&bp));
	assert_true(bp_is_dedup(&bp));
	assert_int_equal(bp_ndvas(&bp), 1);
	assert_int_equal(bp_lsize(&bp), 2048);
	assert_int_equal(bp_physical_birth(&bp), 66);
	assert_int_equal(bp_checksum(&bp), CHECKSUM_EDONR);
	for (size_t n = 0; n < sizeof(value); n++)
		assert_int_equal(ddt_value_decode(value, n, false, &e), -EINVAL);
}

static void flat_values_decode_in_either_order(void **state)
{
	uint8_t value[73];
	struct ddt_entry e = {0};

	for (unsigned big = 0; big < 2; big++) {
		value[0] = big ? 2 : 0x82;
		for (unsigned w = 0; w < 9; w++)
			big ? store_be64(value + 1 + 8 * w, w + 1) : store_le64(value + 1 + 8 * w, w + 1);
		assert_int_equal(ddt_value_decode(value, sizeof(value), true, &e), 0);
		assert_int_equal(e.nphys, 1);
		assert_int_equal(e.phys[0].dva[5], 6);
		assert_int_equal(e.phys[0].refcount, 7);
		assert_int_equal(e.phys[0].birth, 8);
		assert_int_equal(e.changed, 9);
	}
	assert_int_equal(ddt_value_decode(value, 72, true, &e), -EINVAL);
	value[0] = 0x8f;
	assert_int_equal(ddt_value_decode(value, sizeof(value), true, &e), -EINVAL);
}

struct seen {
	unsigned n;
	struct ddt_entry last;
};

static int see(void *arg, const struct ddt_entry *e)
{
	struct seen *s = arg;

	s->n++;
	s->last = *e;
	return 0;
}

static void record_put(uint8_t *r, uint64_t key, uint64_t refs)
{
	store_host64(r, 1 | 120 << 8 | UINT64_C(2) << 56);
	for (unsigned w = 0; w < 5; w++)
		store_host64(r + 8 + 8 * w, key + w);
	for (unsigned w = 0; w < 9; w++)
		store_host64(r + 48 + 8 * w, w + 100);
	store_host64(r + 48 + 48, refs);
}

static void log_records_end_at_zero(void **state)
{
	uint8_t block[1024] = {0};
	struct seen s = {0};

	assert_int_equal(ddt_log_block_each(block, sizeof(block), true, false, see, &s), 0);
	assert_int_equal(s.n, 0);
	for (unsigned i = 0; i < 8; i++)
		record_put(block + 120 * i, 1000 * i, i);
	assert_int_equal(ddt_log_block_each(block, sizeof(block), true, false, see, &s), 0);
	assert_int_equal(s.n, 8);
	assert_int_equal(s.last.key.word[3], 7003);
	assert_int_equal(s.last.prop, 7004);
	assert_int_equal(s.last.phys[0].refcount, 7);
	assert_int_equal(s.last.changed, 108);
	assert_int_equal(s.last.cls, DDT_DUPLICATE);
	assert_true(s.last.logged);
}

static void damaged_log_records_are_refused(void **state)
{
	uint8_t block[1024] = {0};
	struct seen s = {0};

	record_put(block, 1, 1);
	assert_int_equal(ddt_log_block_each(block, 119, true, false, see, &s), -EINVAL);
	assert_int_equal(ddt_log_block_each(block, 7, true, false, see, &s), 0);
	assert_int_equal(ddt_log_block_each(block, sizeof(block), false, false, see, &s), -EINVAL);
	store_host64(block, 1 | 112 << 8);
	assert_int_equal(ddt_log_block_each(block, sizeof(block), true, false, see, &s), -EINVAL);
	store_host64(block, 2 | 120 << 8);
	assert_int_equal(ddt_log_block_each(block, sizeof(block), true, false, see, &s), -EINVAL);
	assert_int_equal(s.n, 0);
}

static void histograms_add_up(void **state)
{
	struct ddt_histogram a = {0}, b = {0};
	struct ddt_bucket sum;

	a.bucket[0].blocks = 1;
	b.bucket[0].blocks = 2;
	b.bucket[63].ref_dsize = 9;
	ddt_histogram_add(&a, &b);
	sum = ddt_histogram_total(&a);
	assert_int_equal(a.bucket[0].blocks, 3);
	assert_int_equal(sum.blocks, 3);
	assert_int_equal(sum.ref_dsize, 9);
	assert_string_equal(ddt_class_name(1), "duplicate");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(legacy_values_decode),    cmocka_unit_test(flat_values_decode_in_either_order),
	    cmocka_unit_test(log_records_end_at_zero), cmocka_unit_test(damaged_log_records_are_refused),
	    cmocka_unit_test(histograms_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
