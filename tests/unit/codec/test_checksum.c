#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "codec/checksum.h"
#include "codec/checksum_impl.h"

static uint8_t data[512];
static struct checksum_salt *salt;

static int setup(void **state)
{
	uint8_t s[32];

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof(s); i++)
		s[i] = (uint8_t)i;
	salt = checksum_salt_create(s);
	return 0;
}

static int teardown(void **state)
{
	checksum_salt_destroy(salt);
	return 0;
}

static void sums_equal_the_vectors_of_the_chapter(void **state)
{
	static const struct {
		enum checksum c;
		bool swap;
		uint64_t word[4];
	} vector[] = {
	    {CHECKSUM_FLETCHER_2,
	     false,
	     {0xefcfaf8f6f4f2f00, 0xf0d0b09070503000, 0x4a38261401efdd00, 0xdac8b6a492806d80}},
	    {CHECKSUM_FLETCHER_2,
	     true,
	     {0x0f2f4f6f8fafcfe0, 0x1030507090b0d0e0, 0xcfe1f406182a3b70, 0x60728496a8bacbf0}},
	    {CHECKSUM_FLETCHER_4,
	     false,
	     {0x00000040c03fbf00, 0x00000da342e27500, 0x000214fa7f828a80, 0x003d9765c9f3c980}},
	    {CHECKSUM_FLETCHER_4,
	     true,
	     {0x0000003f3fc04080, 0x00000d4262c315c0, 0x000204948f886b00, 0x003b7e5b56b441e0}},
	    {CHECKSUM_SHA256, false, {0x110009dcee21620b, 0x166f3abfecb5eff7, 0xa873be729d1c2d53, 0x822e7acc5f34eb9b}},
	    {CHECKSUM_SHA256, true, {0x110009dcee21620b, 0x166f3abfecb5eff7, 0xa873be729d1c2d53, 0x822e7acc5f34eb9b}},
	    {CHECKSUM_SHA512, false, {0x6cf5b1411d91141d, 0x0ea8ddb86fa627f0, 0x991896779c0da9d7, 0x3bdc08f7e9f3faed}},
	    {CHECKSUM_SHA512, true, {0x1d14911d41b1f56c, 0xf027a66fb8dda80e, 0xd7a90d9c77961899, 0xedfaf3e9f708dc3b}},
	    {CHECKSUM_SKEIN, false, {0xdf06b17bad515284, 0xc1074e6c80f80357, 0x0564949cf231e28f, 0x3b30efa65148a406}},
	    {CHECKSUM_EDONR, false, {0x86f009c293823406, 0x1787f335116ef352, 0x616de2d3955eb1e1, 0x0f0e3039494fa11f}},
	    {CHECKSUM_BLAKE3, false, {0x68e5f03a15d32d73, 0x2e2d8e52a9e2d91f, 0xb6eb0668176e2d68, 0x95bf9be2259b6c22}},
	};

	for (unsigned i = 0; i < ARRAY_LEN(vector); i++) {
		struct cksum sum;

		assert_int_equal(checksum_compute(vector[i].c, salt, data, sizeof(data), vector[i].swap, &sum), 0);
		for (unsigned w = 0; w < 4; w++)
			if (sum.word[w] != vector[i].word[w])
				fail_msg("%s swap %d word %u: %016lx instead of %016lx", checksum_name(vector[i].c),
					 vector[i].swap, w, sum.word[w], vector[i].word[w]);
	}
}

static void wide_fletcher4_equals_the_plain_one(void **state)
{
	uint32_t seed = 1;
	uint8_t *p = xmalloc(131072 + 3);

	for (unsigned i = 0; i < 131072 + 3; i++)
		p[i] = (seed = seed * 1664525 + 1013904223) >> 24;
	for (size_t size = 0; size <= 131072; size = size < 80 ? size + 4 : size * 3 / 8 * 4)
		for (unsigned swap = 0; swap < 2; swap++) {
			struct cksum a, b;

			fletcher4(p + swap, size, swap, &a);
			fletcher4_portable(p + swap, size, swap, &b);
			assert_true(cksum_equal(&a, &b));
		}
	free(p);
}

static void blake3_of_4096_bytes_equals_the_vector(void **state)
{
	struct cksum sum;
	uint8_t b[4096];

	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(7 * i + i / 256);
	assert_int_equal(checksum_compute(CHECKSUM_BLAKE3, salt, b, sizeof(b), false, &sum), 0);
	assert_int_equal(sum.word[0], 0xf42039dff3a071e2);
	assert_int_equal(sum.word[1], 0x79c41427695ba9cc);
	assert_int_equal(sum.word[2], 0xc674abc65b255ed7);
	assert_int_equal(sum.word[3], 0xe0ec765ed46ab19b);
}

static void wide_blake3_equals_the_plain_one(void **state)
{
	static const size_t sizes[] = {0,     1,      63,     64,     65,     1024,   1025,   2048,
				       7169,  8192,   8193,   16384,  65535,  65536,  65537,  73729,
				       98304, 131072, 131073, 196608, 262144, 300001, 1048576};
	uint32_t key[8] = {1, 2, 3, 4, 5, 6, 7, 0x80000000};
	uint8_t *p = xmalloc(1048576);

	for (unsigned i = 0; i < 1048576; i++)
		p[i] = (uint8_t)(i * 31 + i / 251);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		uint8_t a[32], b[32];

		blake3_keyed(key, p, sizes[i], a);
		blake3_keyed_portable(key, p, sizes[i], b);
		assert_memory_equal(a, b, 32);
	}
	free(p);
}

static void edonr_without_salt_equals_the_known_digests(void **state)
{
	static const uint8_t empty[] = {0xc5, 0x7f, 0x7e, 0x17, 0xfd, 0xc1, 0xce, 0x50};
	static const uint8_t abc[] = {0x1b, 0x14, 0xdb, 0x15, 0x5f, 0x1d, 0x40, 0x65};
	struct edonr_state s;
	uint8_t d[64];

	edonr_init(&s);
	edonr_final(&s, NULL, 0, d);
	assert_memory_equal(d, empty, sizeof(empty));
	edonr_final(&s, "abc", 3, d);
	assert_memory_equal(d, abc, sizeof(abc));
}

static void ids_without_a_plain_function_are_refused(void **state)
{
	static const enum checksum bad[] = {
	    CHECKSUM_INHERIT,     CHECKSUM_ON,     CHECKSUM_OFF,      CHECKSUM_LABEL, CHECKSUM_ZILOG,
	    CHECKSUM_GANG_HEADER, CHECKSUM_ZILOG2, CHECKSUM_NOPARITY, CHECKSUM_COUNT, 255};
	struct cksum sum;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(checksum_compute(bad[i], salt, data, sizeof(data), false, &sum), -ENOTSUP);
	assert_int_equal(checksum_compute(CHECKSUM_SKEIN, NULL, data, sizeof(data), false, &sum), -EINVAL);
	assert_null(checksum_name(CHECKSUM_COUNT));
}

static void store_words(uint8_t *p, const struct cksum *sum, bool swap)
{
	for (unsigned i = 0; i < 4; i++)
		store_host64(p + 8 * i, swap ? __builtin_bswap64(sum->word[i]) : sum->word[i]);
}

/* Writes the trailer as a host of either order would. */
static void seal(uint8_t *block, size_t eck, size_t extent, const struct cksum *verifier, bool swap,
		 void (*sum_fn)(const void *, size_t, bool, struct cksum *))
{
	uint64_t magic = 0x0210da7ab10c7a11;
	struct cksum sum;

	store_host64(block + eck, swap ? __builtin_bswap64(magic) : magic);
	store_words(block + eck + 8, verifier, swap);
	sum_fn(block, extent, swap, &sum);
	store_words(block + eck + 8, &sum, swap);
}

static void sha256(const void *p, size_t size, bool swap, struct cksum *out)
{
	assert_int_equal(checksum_compute(CHECKSUM_SHA256, NULL, p, size, swap, out), 0);
}

static void trailers_verify_in_both_orders_and_leave_the_block_as_it_was(void **state)
{
	static const struct cksum verifier = {{0x1122334455667788, 2, 3, 0x99}}, other = {{1, 2, 3, 0x99}};
	uint8_t block[8192], copy[8192];
	bool swapped;

	for (unsigned swap = 0; swap < 2; swap++) {
		memset(block, 0x5a, sizeof(block));
		seal(block, sizeof(block) - 40, sizeof(block), &verifier, swap, sha256);
		memcpy(copy, block, sizeof(copy));
		assert_int_equal(checksum_embedded_verify(CHECKSUM_LABEL, block, sizeof(block), &verifier, &swapped),
				 0);
		assert_int_equal(swapped, swap);
		assert_memory_equal(block, copy, sizeof(copy));
		assert_int_equal(checksum_embedded_verify(CHECKSUM_LABEL, block, sizeof(block), &other, NULL), -ECKSUM);

		memset(block, 0x5a, sizeof(block));
		store_host64(block + 136, swap ? __builtin_bswap64(1000) : 1000);
		seal(block, 144, 4096, &verifier, swap, fletcher4);
		assert_int_equal(checksum_embedded_verify(CHECKSUM_ZILOG2, block, sizeof(block), &verifier, &swapped),
				 0);
		assert_int_equal(swapped, swap);
		block[4096] ^= 1; /* not summed */
		assert_int_equal(checksum_embedded_verify(CHECKSUM_ZILOG2, block, sizeof(block), &verifier, NULL), 0);
		block[4095] ^= 1;
		assert_int_equal(checksum_embedded_verify(CHECKSUM_ZILOG2, block, sizeof(block), &verifier, NULL),
				 -ECKSUM);
	}
}

static void trailers_that_claim_too_much_are_refused(void **state)
{
	static const struct cksum zero;
	uint8_t block[4096] = {0};

	for (unsigned size = 0; size < 256; size += 8)
		for (unsigned c = 0; c < CHECKSUM_COUNT + 1; c++)
			assert_true(checksum_embedded_verify(c, block, size, &zero, NULL) < 0);
	store_host64(block + 144, 0x0210da7ab10c7a11);
	assert_int_equal(checksum_embedded_verify(CHECKSUM_ZILOG2, block, 4096, &zero, NULL), -ECKSUM);
	store_host64(block + 136, UINT64_MAX);
	assert_int_equal(checksum_embedded_verify(CHECKSUM_ZILOG2, block, 4096, &zero, NULL), -ECKSUM);
}

/* 2.6: of a gang header behind an encrypted pointer only the two folded words count. */
static void truncated_sums_compare_two_folded_words(void **state)
{
	static const struct cksum verifier = {{0, 4096, 77, 0}};
	uint8_t block[512] = {1, 2, 3};
	struct cksum sum;

	seal(block, 472, 512, &verifier, false, sha256);
	for (unsigned i = 0; i < 4; i++)
		sum.word[i] = load_host64(block + 480 + 8 * i);
	checksum_truncate(CHECKSUM_GANG_HEADER, &sum);
	assert_int_equal(sum.word[0], load_host64(block + 480) ^ load_host64(block + 496));
	sum.word[2] = 42; /* a MAC */
	store_words(block + 480, &sum, false);
	assert_int_equal(
	    checksum_embedded_verify_truncated(CHECKSUM_GANG_HEADER, block, sizeof(block), &verifier, NULL), 0);
	assert_int_equal(checksum_embedded_verify(CHECKSUM_GANG_HEADER, block, sizeof(block), &verifier, NULL),
			 -ECKSUM);
	block[0] ^= 1;
	assert_int_equal(
	    checksum_embedded_verify_truncated(CHECKSUM_GANG_HEADER, block, sizeof(block), &verifier, NULL), -ECKSUM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sums_equal_the_vectors_of_the_chapter),
	    cmocka_unit_test(wide_fletcher4_equals_the_plain_one),
	    cmocka_unit_test(blake3_of_4096_bytes_equals_the_vector),
	    cmocka_unit_test(wide_blake3_equals_the_plain_one),
	    cmocka_unit_test(edonr_without_salt_equals_the_known_digests),
	    cmocka_unit_test(ids_without_a_plain_function_are_refused),
	    cmocka_unit_test(trailers_verify_in_both_orders_and_leave_the_block_as_it_was),
	    cmocka_unit_test(trailers_that_claim_too_much_are_refused),
	    cmocka_unit_test(truncated_sums_compare_two_folded_words),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
