#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "codec/compress.h"

static size_t unhex(const char *hex, uint8_t *out)
{
	size_t n = 0;

	for (unsigned v; sscanf(hex + 2 * n, "%2x", &v) == 1; n++)
		out[n] = (uint8_t)v;
	return n;
}

/* The chapter's example: this text repeated to 1024 bytes. */
static const char text[] = "0123456789abcdef";

static const struct {
	enum compress c;
	const char *hex;
} vector[] = {
    {COMPRESS_LZJB, "003031323334353637003839616263646566fffc10fc50fc90fcd0fd10fd50fd90fdd0"
		    "7ffe10fe10fe10fe10fe10fe10fe10650066303132333435360037383961626364650066"},
    {COMPRESS_LZ4, "0000001eff01303132333435363738396162636465661000ffffffdb506263646566"},
    {COMPRESS_GZIP_1 + 5, "789c3330343236313533b7b04c4c4a4e494d3318e58ff247f923860f0037901890"},
    {COMPRESS_ZSTD, "0000001c030028a50000bd000080303132333435363738396162636465660100da4f3597"},
};

static void streams_of_the_chapter_decode(void **state)
{
	uint8_t src[128], dst[1024];

	for (unsigned i = 0; i < ARRAY_LEN(vector); i++) {
		size_t n = unhex(vector[i].hex, src);

		memset(dst, 0xff, sizeof(dst));
		memset(src + n, 0, sizeof(src) - n); /* padding of the block */
		assert_int_equal(decompress(vector[i].c, src, sizeof(src), dst, sizeof(dst)), 0);
		for (unsigned b = 0; b < sizeof(dst); b++)
			assert_int_equal(dst[b], text[b % 16]);
	}
}

static void every_truncation_is_refused(void **state)
{
	uint8_t src[128], dst[1024];

	for (unsigned i = 0; i < ARRAY_LEN(vector); i++) {
		size_t n = unhex(vector[i].hex, src);

		for (size_t cut = 0; cut < n; cut++) {
			autofree uint8_t *exact = xmalloc(MAX(cut, 1)); /* so that sanitizers see an overrun */

			memcpy(exact, src, cut);
			assert_int_equal(decompress(vector[i].c, exact, cut, dst, sizeof(dst)), -EINVAL);
		}
		assert_int_equal(decompress(vector[i].c, src, n, dst, sizeof(dst) - 1),
				 vector[i].c == COMPRESS_LZJB ? 0 : -EINVAL);
	}
}

static void zle_decodes_runs_and_literals_exactly(void **state)
{
	uint8_t src[64], dst[256] = {0}, want[130] = {0};
	size_t n = unhex("a30448656c6c6f410557006f726c644e", src);

	memcpy(want + 100, "Hello\0\0W\0orld", 13);
	assert_int_equal(decompress(COMPRESS_ZLE, src, n, dst, 100 + 5 + 2 + 6 + 15), 0);
	assert_memory_equal(dst, want, 128);
	assert_int_equal(decompress(COMPRESS_ZLE, src, n, dst, 127), -EINVAL);
	assert_int_equal(decompress(COMPRESS_ZLE, src, n, dst, 129), -EINVAL);
}

static void lzjb_refuses_matches_before_the_start(void **state)
{
	static const uint8_t src[] = {0x02, 'a', 0x00, 0x02}, zero[] = {0x02, 'a', 0x00, 0x00};
	uint8_t dst[16];

	assert_int_equal(decompress(COMPRESS_LZJB, src, sizeof(src), dst, 4), -EINVAL);
	assert_int_equal(decompress(COMPRESS_LZJB, zero, sizeof(zero), dst, 4), -EINVAL);
}

/* Levels and versions as hosts of either order and age wrote them. */
static void zstd_headers_of_all_ages_are_read(void **state)
{
	static const char *good[] = {"030028a5", "ff00290b", "670028a5", "0028a503", "a5280003", "28a50013"};
	static const char *bad[] = {"000028a5", "140028a5", "650028a5", "fb0028a5", "03112233"};
	uint8_t src[128], dst[1024];
	size_t n = unhex(vector[3].hex, src);

	for (unsigned i = 0; i < ARRAY_LEN(good); i++) {
		unhex(good[i], src + 4);
		assert_int_equal(decompress(COMPRESS_ZSTD, src, n, dst, sizeof(dst)), 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		unhex(bad[i], src + 4);
		assert_int_equal(decompress(COMPRESS_ZSTD, src, n, dst, sizeof(dst)), -EINVAL);
	}
}

static void stored_blocks_are_copied_and_unknown_ids_refused(void **state)
{
	uint8_t dst[4];

	assert_int_equal(decompress(COMPRESS_OFF, "abcdef", 6, dst, 4), 0);
	assert_memory_equal(dst, "abcd", 4);
	assert_int_equal(decompress(COMPRESS_OFF, "abc", 3, dst, 4), -EINVAL);
	assert_int_equal(decompress(COMPRESS_ON, "abcd", 4, dst, 4), -ENOTSUP);
	assert_int_equal(decompress(COMPRESS_EMPTY, "abcd", 4, dst, 4), -ENOTSUP);
	assert_int_equal(decompress(COMPRESS_COUNT, "abcd", 4, dst, 4), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(streams_of_the_chapter_decode),
	    cmocka_unit_test(every_truncation_is_refused),
	    cmocka_unit_test(zle_decodes_runs_and_literals_exactly),
	    cmocka_unit_test(lzjb_refuses_matches_before_the_start),
	    cmocka_unit_test(zstd_headers_of_all_ages_are_read),
	    cmocka_unit_test(stored_blocks_are_copied_and_unknown_ids_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
