#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/bytes.h"
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

/* --- compressing --- */

static const struct {
	enum compress c;
	unsigned level;
} writers[] = {
    {COMPRESS_LZJB, 0},       {COMPRESS_ZLE, 0},    {COMPRESS_LZ4, 0},    {COMPRESS_GZIP_1, 0}, {COMPRESS_GZIP_9, 0},
    {COMPRESS_GZIP_1 + 5, 0}, {COMPRESS_ZSTD, 0},   {COMPRESS_ZSTD, 255}, {COMPRESS_ZSTD, 1},   {COMPRESS_ZSTD, 7},
    {COMPRESS_ZSTD, 19},      {COMPRESS_ZSTD, 103}, {COMPRESS_ZSTD, 112}, {COMPRESS_ZSTD, 113}, {COMPRESS_ZSTD, 123},
};

static uint32_t next_random(uint32_t *seed)
{
	return (*seed = *seed * 1664525 + 1013904223) >> 16;
}

/* Runs of zeros, copies of what was before, and noise, mixed by `noise` of 256. */
static void fill(uint8_t *p, size_t n, uint32_t seed, unsigned noise)
{
	for (size_t i = 0; i < n;) {
		size_t want = 1 + next_random(&seed) % 300, run = MIN(want, n - i);
		unsigned kind = next_random(&seed) % 256;

		for (size_t j = 0; j < run; j++, i++) {
			size_t back = 1 + run % 70;

			if (kind < noise)
				p[i] = (uint8_t)next_random(&seed);
			else if (kind % 2 && i >= back)
				p[i] = p[i - back];
			else
				p[i] = 0;
		}
	}
}

static void round_trip(enum compress c, unsigned level, const uint8_t *src, size_t n)
{
	size_t room = n + n / 8 + 1024, used;
	autofree uint8_t *packed = xmalloc(room), *exact, *back = xmalloc(n), *less;

	used = compress_block(c, level, src, n, packed, room);
	assert_true(used > 0 && used <= room);
	memset(packed + used, 0, room - used); /* as a block is padded */
	assert_int_equal(decompress(c, packed, ROUND_UP(used, 512) > room ? used : ROUND_UP(used, 512), back, n), 0);
	assert_memory_equal(back, src, n);
	/* in as much room as it took, it may fit; in less it must not, and nothing is written beyond */
	exact = xmalloc(used);
	if (compress_block(c, level, src, n, exact, used)) {
		assert_int_equal(decompress(c, exact, used, back, n), 0);
		assert_memory_equal(back, src, n);
	}
	less = xmalloc(used / 2 + 1);
	assert_int_equal(compress_block(c, level, src, n, less, used / 2), 0);
}

static void what_is_compressed_comes_back(void **state)
{
	static const size_t sizes[] = {512, 1024, 1536, 4096, 16384, 128 << 10};
	static const unsigned noises[] = {0, 20, 128, 256};
	autofree uint8_t *src = xmalloc(128 << 10);

	for (unsigned w = 0; w < ARRAY_LEN(writers); w++) {
		for (unsigned s = 0; s < ARRAY_LEN(sizes); s++) {
			for (unsigned k = 0; k < ARRAY_LEN(noises); k++) {
				if (noises[k] == 256 && sizes[s] >= 128 << 10 && writers[w].c == COMPRESS_ZSTD)
					continue; /* given up early */
				fill(src, sizes[s], 7 * w + s + k, noises[k]);
				round_trip(writers[w].c, writers[w].level, src, sizes[s]);
			}
		}
	}
}

static void small_odd_inputs_come_back(void **state)
{
	uint8_t src[200];

	for (unsigned w = 0; w < ARRAY_LEN(writers); w++) {
		for (size_t n = 1; n <= sizeof(src); n++) {
			fill(src, n, (uint32_t)n, n % 3 * 100);
			round_trip(writers[w].c, writers[w].level, src, n);
		}
	}
}

static void lzjb_and_zle_write_the_bytes_of_the_chapter(void **state)
{
	uint8_t src[1024], want[128], got[1024];
	size_t n = unhex(vector[0].hex, want);

	for (unsigned b = 0; b < sizeof(src); b++)
		src[b] = (uint8_t)text[b % 16];
	assert_int_equal(compress_block(COMPRESS_LZJB, 0, src, sizeof(src), got, sizeof(got)), n);
	assert_memory_equal(got, want, n);
	memset(src, 0, sizeof(src));
	memcpy(src + 100, "Hello\0\0W\0orld", 13);
	n = unhex("a30448656c6c6f410557006f726c644e", want);
	assert_int_equal(compress_block(COMPRESS_ZLE, 0, src, 128, got, sizeof(got)), n);
	assert_memory_equal(got, want, n);
}

static void zstd_says_its_level_and_leaves_the_magic_out(void **state)
{
	uint8_t src[4096], got[4096];
	size_t n;

	fill(src, sizeof(src), 1, 20);
	n = compress_block(COMPRESS_ZSTD, 0, src, sizeof(src), got, sizeof(got));
	assert_int_equal(load_be32(got) + 8, n);
	assert_int_equal(got[4], 3);
	assert_int_equal(got[5], 0);
	assert_true(load_be32(got + 8) != 0x28b52ffd);
	compress_block(COMPRESS_ZSTD, 113, src, sizeof(src), got, sizeof(got));
	assert_int_equal(got[4], 113);
	assert_int_equal(compress_zstd_level(113), -20);
	assert_int_equal(compress_zstd_level(123), -1000);
	assert_int_equal(compress_zstd_level(103), -1);
	assert_int_equal(compress_zstd_level(112), -10);
	for (unsigned bad = 20; bad < 103; bad++)
		assert_int_equal(compress_block(COMPRESS_ZSTD, bad, src, sizeof(src), got, sizeof(got)), 0);
}

static void noise_is_given_up(void **state)
{
	autofree uint8_t *src = xmalloc(128 << 10), *dst = xmalloc(128 << 10);

	fill(src, 128 << 10, 5, 256);
	for (unsigned w = 0; w < ARRAY_LEN(writers); w++)
		assert_int_equal(compress_block(writers[w].c, writers[w].level, src, 128 << 10, dst, 112 << 10), 0);
	assert_int_equal(compress_block(COMPRESS_OFF, 0, src, 4096, dst, 8192), 0);
	assert_int_equal(compress_block(COMPRESS_EMPTY, 0, src, 4096, dst, 8192), 0);
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
	    cmocka_unit_test(what_is_compressed_comes_back),
	    cmocka_unit_test(small_odd_inputs_come_back),
	    cmocka_unit_test(lzjb_and_zle_write_the_bytes_of_the_chapter),
	    cmocka_unit_test(zstd_says_its_level_and_leaves_the_magic_out),
	    cmocka_unit_test(noise_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
