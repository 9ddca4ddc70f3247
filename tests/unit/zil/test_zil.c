/* Log blocks of both forms and orders (docs/format/07-filesystem-zvol-zil.md, 9), and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "zil/zil.h"

#define MAGIC UINT64_C(0x0210da7ab10c7a11)

struct seen {
	unsigned n;
	struct zil_record last;
	uint64_t foid;
	char text[16];
};

static int see(void *arg, const struct zil_record *r)
{
	struct seen *s = arg;

	s->n++;
	s->last = *r;
	if (r->reclen >= 40)
		s->foid = load_host64(r->data + 32);
	if (r->reclen >= 56)
		memcpy(s->text, r->data + 40, 16);
	return 0;
}

static void put64(uint8_t *p, uint64_t v, bool swap)
{
	store_host64(p, swap ? __builtin_bswap64(v) : v);
}

/* A REMOVE of "gone" and a TRUNCATE. */
static size_t records_put(uint8_t *r, bool swap)
{
	put64(r, 5 | UINT64_C(1) << 63, swap);
	put64(r + 8, 56, swap);
	put64(r + 16, 100, swap);
	put64(r + 24, 1, swap);
	put64(r + 32, 34, swap);
	memcpy(r + 40, "gone", 5);
	put64(r + 56, 10, swap);
	put64(r + 64, 56, swap);
	put64(r + 72, 101, swap);
	put64(r + 80, 2, swap);
	put64(r + 88, 77, swap);
	put64(r + 96, 4096, swap);
	put64(r + 104, 0, swap);
	return 112;
}

static void both_forms_and_orders_are_read(void **state)
{
	for (unsigned form = 0; form < 4; form++) {
		bool swap = form & 1, old = form & 2;
		uint8_t block[4096] = {0};
		uint8_t *chain = old ? block + sizeof(block) - 184 : block;
		size_t n = records_put(old ? block : block + 184, swap);
		struct seen s = {0};

		put64(chain + 136, old ? n : n + 184, swap);
		put64(chain + 144, MAGIC, swap);
		assert_int_equal(zil_block_each(block, sizeof(block), swap, see, &s), 0);
		assert_int_equal(s.n, 2);
		assert_int_equal(s.last.txtype, TX_TRUNCATE);
		assert_int_equal(s.last.txg, 101);
		assert_int_equal(s.last.seq, 2);
		assert_int_equal(s.foid, 77);
		assert_int_equal(zil_block_each(block, sizeof(block), !swap, see, &s), -EINVAL);
		put64(chain + 136, old ? 56 : 56 + 184, swap);
		assert_int_equal(zil_block_each(block, sizeof(block), swap, see, &s), 0);
		assert_int_equal(s.n, 3);
		assert_true(s.last.case_insensitive);
		assert_int_equal(s.last.txtype, TX_REMOVE);
		assert_int_equal(s.foid, 34);
		assert_string_equal(s.text, "gone");
	}
}

static void damaged_blocks_are_refused(void **state)
{
	uint8_t block[4096] = {0};
	struct seen s = {0};
	uint64_t seed = 7;

	assert_int_equal(zil_block_each(block, sizeof(block), false, see, &s), -EINVAL);
	assert_int_equal(zil_block_each(block, 100, false, see, &s), -EINVAL);
	put64(block + 144, MAGIC, false);
	put64(block + 136, 5000, false);
	assert_int_equal(zil_block_each(block, sizeof(block), false, see, &s), -EINVAL);
	put64(block + 136, 400, false); /* records of length 0 */
	assert_int_equal(zil_block_each(block, sizeof(block), false, see, &s), -EINVAL);
	for (unsigned round = 0; round < 3000; round++) {
		for (size_t i = 0; i < sizeof(block); i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			block[i] = (uint8_t)(seed >> 56);
		}
		put64(block + 144, MAGIC, round & 1);
		put64(block + 136, 184 + (seed >> 53), round & 1);
		put64(block + 192, 32 + (seed >> 50) % 2000, round & 1);
		put64(block + 184, (seed >> 40) % 30, round & 1);
		zil_block_each(block, sizeof(block), round & 1, see, &s);
	}
}

static void headers_decode(void **state)
{
	uint8_t phys[192] = {0};
	struct zil_header zh;

	put64(phys, 9, true);
	put64(phys + 160, 12, true);
	assert_int_equal(zil_header_decode(phys, true, &zh), 0);
	assert_int_equal(zh.claim_txg, 9);
	assert_int_equal(zh.claim_lr_seq, 12);
	assert_true(bp_is_hole(&zh.log));
	phys[16] = 1; /* a pointer to nothing sensible */
	assert_int_equal(zil_header_decode(phys, true, &zh), -EINVAL);
	assert_string_equal(zil_record_name(TX_WRITE), "TX_WRITE");
	assert_string_equal(zil_record_name(99), "TX_UNKNOWN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(both_forms_and_orders_are_read),
	    cmocka_unit_test(damaged_blocks_are_refused),
	    cmocka_unit_test(headers_decode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
