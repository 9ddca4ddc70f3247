#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "zapbuf.h"

/* Writes small ZAPs in either byte order, as chapter 02, 9.2 - 9.4 describe them. */
static bool put_swap;

static void put16(uint8_t *p, uint16_t v)
{
	store_host16(p, put_swap ? __builtin_bswap16(v) : v);
}
static void put32(uint8_t *p, uint32_t v)
{
	store_host32(p, put_swap ? __builtin_bswap32(v) : v);
}
static void put64(uint8_t *p, uint64_t v)
{
	store_host64(p, put_swap ? __builtin_bswap64(v) : v);
}

#define BS     1024 /* 32 slots, 38 chunks, embedded table of 64 */
#define SHIFT  10
#define CHUNKS ((BS - BS / 16) / 24 - 2)
#define SALT   0x123456789abcdef1

struct leaf_writer {
	uint8_t *p;
	unsigned used, prefix_len;
};

static uint8_t *leaf_chunk(struct leaf_writer *w, unsigned n)
{
	return w->p + 48 + BS / 16 + n * 24;
}

static void leaf_init(struct leaf_writer *w, uint8_t *p, uint64_t prefix, unsigned prefix_len)
{
	*w = (struct leaf_writer){p, 0, prefix_len};
	put64(p, 0x8000000000000000);
	put64(p + 16, prefix);
	put32(p + 24, 0x02AB1EAF);
	put16(p + 32, prefix_len);
	memset(p + 48, 0xff, BS / 16);
	for (unsigned i = 0; i < CHUNKS; i++)
		leaf_chunk(w, i)[0] = 253;
}

static unsigned leaf_array(struct leaf_writer *w, const uint8_t *bytes, size_t len)
{
	unsigned first = w->used;

	for (size_t at = 0; at < len; at += 21) {
		uint8_t *c = leaf_chunk(w, w->used++);

		assert_true(w->used <= CHUNKS);
		c[0] = 251;
		memcpy(c + 1, bytes + at, MIN(21, len - at));
		put16(c + 22, at + 21 < len ? w->used : 0xffff);
	}
	return len ? first : 0xffff;
}

static void leaf_add(struct leaf_writer *w, uint64_t hash, uint32_t cd, const void *name, size_t name_bytes,
		     unsigned name_ints, unsigned intsize, const uint8_t *value, unsigned nints)
{
	unsigned n = w->used++;
	uint8_t *c = leaf_chunk(w, n), *slot = w->p + 48 + 2 * (hash << w->prefix_len >> (64 - (SHIFT - 5)));

	c[0] = 252;
	c[1] = intsize;
	memcpy(c + 2, slot, 2); /* at the head of the chain */
	put16(slot, n);
	put16(c + 4, leaf_array(w, name, name_bytes));
	put16(c + 6, name_ints);
	put16(c + 8, leaf_array(w, value, (size_t)intsize * nints));
	put16(c + 10, nints);
	put32(c + 12, cd);
	put64(c + 16, hash);
}

static void fat_header(uint8_t *p, uint64_t flags, uint64_t normflags)
{
	put64(p, 0x8000000000000001);
	put64(p + 8, 0x2F52AB2AB);
	put64(p + 32, SHIFT - 4);
	put64(p + 56, 3);
	put64(p + 64, 2);
	put64(p + 72, 0);
	put64(p + 80, SALT);
	put64(p + 88, normflags);
	put64(p + 96, flags);
	for (unsigned i = 0; i < 64; i++)
		put64(p + BS / 2 + 8 * i, i < 32 ? 1 : 2);
}

static struct zap *open_bytes(const uint8_t *p, size_t size, uint32_t bs)
{
	struct zap *z = NULL;

	assert_int_equal(zap_open_source(zapbuf_create(p, size, bs), &z), 0);
	return z;
}

static const uint8_t be_value[8] = {1, 2, 3, 4, 5, 6, 7, 8};

/* Two leaves by the first bit of the hash; names known to the reader only through the chapter's hash. */
static struct leaf_writer leaves[2];

static void fat_start(uint8_t *bytes, uint64_t flags, uint64_t normflags)
{
	memset(bytes, 0, 3 * BS);
	fat_header(bytes, flags, normflags);
	leaf_init(&leaves[0], bytes + BS, 0, 1);
	leaf_init(&leaves[1], bytes + 2 * BS, 1, 1);
}

static void fat_add_string(const struct zap *z, const char *name, uint32_t cd, const uint8_t *value)
{
	uint64_t h = zap_hash_name(z, name, strlen(name));

	leaf_add(&leaves[h >> 63], h, cd, name, strlen(name) + 1, strlen(name) + 1, 8, value, 1);
}

static void hashes_equal_the_vectors_of_the_chapter(void **state)
{
	const uint64_t words[2] = {0x0102030405060708, 0x1112131415161718};
	struct zap z = {.salt = 1};

	assert_int_equal(zap_hash_name(&z, "foo", 3), 0x4dde58a000000000);
	z.salt = 0x3c673;
	assert_int_equal(zap_hash_name(&z, "root_dataset", 12), 0x5c3c748000000000);
	z.salt = SALT;
	assert_int_equal(zap_hash_name(&z, "hello", 5), 0x7cd1fc7000000000);
	z.flags = ZAP_FLAG_HASH64 | ZAP_FLAG_U64_KEYS;
	assert_int_equal(zap_hash_name(&z, "hello", 5), 0x7cd1fc705b6a0000);
	assert_int_equal(zap_hash_words(&z, words, 2), 0xc8c3686c7b650000);
	z.flags |= ZAP_FLAG_PREHASHED;
	assert_int_equal(zap_hash_words(&z, words, 2), 0x0102030405060000);
}

static void normalised_hashes_equal_the_vectors_of_the_chapter(void **state)
{
	static const struct {
		const char *name;
		unsigned norm;
		uint64_t hash;
	} v[] = {
	    {"ReadMe", 0x02, 0x0c4483e},
	    {"caf\xc3\xa9", 0x12, 0xa0182c1},
	    {"Stra\xc3\x9f\x65", 0x12, 0xdb017ed},
	    {"\xef\xac\x81sh", 0x22, 0xb84e9f9},
	};

	for (unsigned i = 0; i < ARRAY_LEN(v); i++) {
		struct zap z = {.salt = 1, .normflags = v[i].norm};

		assert_int_equal(zap_hash_name(&z, v[i].name, strlen(v[i].name)), v[i].hash << 36);
	}
}

static void assert_norm(unsigned flags, const char *in, const char *want)
{
	struct str out = {0};

	zap_normalize(flags, in, strlen(in), &out);
	assert_string_equal(str_get(&out), want);
	str_free(&out);
}

static void names_normalise_as_unicode_5_0_had_it(void **state)
{
	assert_norm(0x02, "abcXYZ09_", "ABCXYZ09_");
	assert_norm(0x02, "\xc3\x9f", "\xc3\x9f");         /* sharp s has no simple upper case in 5.0 */
	assert_norm(0x02, "\xc4\xb1", "I");                /* dotless i */
	assert_norm(0x02, "\xc5\xbf", "S");                /* long s */
	assert_norm(0x02, "\xc9\x90", "\xc9\x90");         /* U+0250: its upper case came later */
	assert_norm(0x02, "\xe1\xbe\xb3", "\xe1\xbe\xbc"); /* U+1FB3 -> U+1FBC */
	assert_norm(0x22, "\xef\xac\x81sh", "fiSH");
	assert_norm(0x10, "\xc3\xa9", "e\xcc\x81");
	assert_norm(0x50, "e\xcc\x81", "\xc3\xa9");
	assert_norm(0x60, "\xef\xac\x81", "fi");
	assert_norm(0x10, "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8");
	assert_norm(0x12, "a\xff\x62\xc3\xa9", "A\xff\x42\x45\xcc\x81");     /* bad bytes pass */
	assert_norm(0x10, "a\xe1\xb7\xba\xcc\xa3", "a\xe1\xb7\xba\xcc\xa3"); /* U+1DFA is younger: no reordering */
}

static void micro_start(uint8_t *p, uint64_t normflags)
{
	memset(p, 0, 512);
	put64(p, 0x8000000000000003);
	put64(p + 8, SALT);
	put64(p + 16, normflags);
}

static void micro_add(uint8_t *p, unsigned slot, const char *name, uint32_t cd, uint64_t value)
{
	uint8_t *e = p + 64 + 64 * slot;

	put64(e, value);
	put32(e + 8, cd);
	strcpy((char *)e + 14, name);
}

static void micro_zaps_are_read_in_both_orders(void **state)
{
	uint8_t p[512];
	uint64_t v;

	for (unsigned swap = 0; swap < 2; swap++) {
		put_swap = swap;
		micro_start(p, 0);
		micro_add(p, 1, "com.datto:crypto_key_obj", 0, 9);
		micro_add(p, 5, "x", 0, 0x1122334455667788);
		struct zap *z = open_bytes(p, sizeof(p), sizeof(p));
		assert_int_equal(zap_find(z, "com.datto:crypto_key_obj", 0, 8, 1, &v, NULL), 0);
		assert_int_equal(v, 9);
		assert_int_equal(zap_find(z, "x", 0, 8, 1, &v, NULL), 0);
		assert_int_equal(v, 0x1122334455667788);
		assert_int_equal(zap_find(z, "", 0, 8, 1, &v, NULL), -ENOENT);
		assert_int_equal(zap_find(z, "com.datto:crypto_key_ob", 0, 8, 1, &v, NULL), -ENOENT);
		assert_int_equal(zap_find(z, "x", 0, 4, 1, &v, NULL), -EINVAL);
		assert_int_equal(zap_find(z, "x", 0, 8, 0, &v, NULL), -EOVERFLOW);
		zap_close(z);
	}
}

/* 07, 3.2: mixed case sets match by request; of several matches the lowest cd is meant. */
static void names_match_folded_normalised_or_exactly(void **state)
{
	uint8_t p[512], fat[3 * BS];
	char real[ZAP_NAME_MAX];
	uint64_t v;

	put_swap = false;
	micro_start(p, 0x12);
	micro_add(p, 0, "readme", 1, 11);
	micro_add(p, 1, "ReadMe", 0, 10);
	micro_add(p, 2, "caf\xc3\xa9", 0, 12);
	struct zap *m = open_bytes(p, sizeof(p), sizeof(p));
	fat_start(fat, 0, 0x12);
	fat_add_string(m, "ReadMe", 0, (const uint8_t[8]){0, 0, 0, 0, 0, 0, 0, 10});
	fat_add_string(m, "readme", 1, (const uint8_t[8]){0, 0, 0, 0, 0, 0, 0, 11});
	fat_add_string(m, "caf\xc3\xa9", 0, (const uint8_t[8]){0, 0, 0, 0, 0, 0, 0, 12});
	struct zap *both[] = {m, open_bytes(fat, sizeof(fat), BS)};
	for (unsigned i = 0; i < 2; i++) {
		struct zap *z = both[i];

		assert_int_equal(zap_find(z, "README", 0, 8, 1, &v, real), -ENOENT);
		assert_int_equal(zap_find(z, "readme", 0, 8, 1, &v, real), 0);
		assert_int_equal(v, 11);
		assert_int_equal(zap_find(z, "README", ZAP_MATCH_NORMALIZED, 8, 1, &v, real), 0);
		assert_int_equal(v, 10);
		assert_string_equal(real, "ReadMe");
		assert_int_equal(zap_find(z, "readme", ZAP_MATCH_NORMALIZED | ZAP_MATCH_CASE, 8, 1, &v, real), 0);
		assert_int_equal(v, 11);
		assert_int_equal(zap_find(z, "cafe\xcc\x81", ZAP_MATCH_NORMALIZED | ZAP_MATCH_CASE, 8, 1, &v, real), 0);
		assert_int_equal(v, 12);
		assert_string_equal(real, "caf\xc3\xa9");
		assert_int_equal(zap_find(z, "cafe\xcc\x81", 0, 8, 1, &v, real), -ENOENT);
		zap_close(z);
	}
}

static void fat_zaps_are_read_in_both_orders(void **state)
{
	const char *names[] = {"root_dataset", "a name that is longer than one chunk can hold", "x", "y"};
	uint8_t p[3 * BS];
	uint64_t v;

	for (unsigned swap = 0; swap < 2; swap++) {
		put_swap = swap;
		fat_start(p, 0, 0);
		struct zap *z = open_bytes(p, sizeof(p), BS);
		for (unsigned i = 0; i < ARRAY_LEN(names); i++)
			fat_add_string(z, names[i], 0, be_value);
		for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
			assert_int_equal(zap_find(z, names[i], 0, 8, 1, &v, NULL), 0);
			assert_int_equal(v, 0x0102030405060708);
		}
		assert_int_equal(zap_find(z, "z", 0, 8, 1, &v, NULL), -ENOENT);
		zap_close(z);
	}
}

static void integers_widen_but_never_narrow(void **state)
{
	static const uint8_t bytes[24] = {0xf0, 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
					  12,   13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
	uint8_t p[3 * BS], b[24];
	uint16_t v16[12];
	uint32_t v32[12];

	put_swap = true;
	fat_start(p, 0, 0);
	struct zap *z = open_bytes(p, sizeof(p), BS);
	uint64_t h = zap_hash_name(z, "k", 1);
	leaf_add(&leaves[h >> 63], h, 0, "k", 2, 2, 2, bytes, 12);
	assert_int_equal(zap_find(z, "k", 0, 1, 24, b, NULL), -EINVAL);
	assert_int_equal(zap_find(z, "k", 0, 2, 11, v16, NULL), -EOVERFLOW);
	assert_int_equal(zap_find(z, "k", 0, 2, 12, v16, NULL), 0);
	assert_int_equal(v16[0], 0xf001);
	assert_int_equal(v16[10], 0x1415); /* straddles the first chunk's end */
	assert_int_equal(zap_find(z, "k", 0, 4, 12, v32, NULL), 0);
	assert_int_equal(v32[0], 0xf001);
	assert_int_equal(v32[11], 0x1617);
	zap_close(z);
}

static void keys_of_words_are_found(void **state)
{
	static const uint64_t key[3] = {0x0102030405060708, 0x1112131415161718, 5}, other[3] = {1, 2, 3};
	uint8_t p[3 * BS], be[24];
	struct zap_cursor *c;
	struct zap_entry e;
	uint64_t v;

	put_swap = false;
	fat_start(p, ZAP_FLAG_HASH64 | ZAP_FLAG_U64_KEYS, 0);
	struct zap *z = open_bytes(p, sizeof(p), BS);
	uint64_t h = zap_hash_words(z, key, 3);
	for (unsigned i = 0; i < 3; i++)
		store_be64(be + 8 * i, key[i]);
	leaf_add(&leaves[h >> 63], h, 0, be, 24, 3, 8, be_value, 1);
	assert_int_equal(zap_find_words(z, key, 3, 8, 1, &v), 0);
	assert_int_equal(v, 0x0102030405060708);
	assert_int_equal(zap_find_words(z, other, 3, 8, 1, &v), -ENOENT);
	assert_int_equal(zap_find_words(z, key, 2, 8, 1, &v), -ENOENT);
	assert_int_equal(zap_find(z, "x", 0, 8, 1, &v, NULL), -EINVAL);
	zap_cursor_start(z, 0, &c);
	assert_int_equal(zap_cursor_next(c, &e), 0);
	assert_int_equal(e.key_words, 3);
	assert_memory_equal(e.name, key, sizeof(key));
	assert_int_equal(zap_cursor_next(c, &e), -ENOENT);
	zap_cursor_close(c);
}

/* Walks with a fresh cursor from every cookie; names must come in the same order, each once. */
static unsigned walk_by_cookies(struct zap *(*open)(void), char names[][32])
{
	uint64_t cookie = 0, before = 0;
	unsigned n = 0;

	for (;; n++) {
		struct zap_cursor *c;
		struct zap_entry e;
		int err;

		zap_cursor_start(open(), cookie, &c);
		err = zap_cursor_next(c, &e);
		if (!err) {
			uint64_t first;

			snprintf(names[n], 32, "%.31s", e.name);
			assert_int_equal(zap_cursor_value(c, &first, 1), 0);
			assert_int_equal(first, e.first);
		}
		zap_cursor_close(c);
		if (err) {
			assert_int_equal(err, -ENOENT);
			return n;
		}
		cookie = e.cookie;
		assert_true(((cookie & 0xfffffff) << 28 | cookie >> 28) > before);
		before = (cookie & 0xfffffff) << 28 | cookie >> 28;
	}
}

static uint8_t micro_bytes[512], fat_bytes[3 * BS];

static struct zap *micro_reopen(void)
{
	return open_bytes(micro_bytes, sizeof(micro_bytes), sizeof(micro_bytes));
}
static struct zap *fat_reopen(void)
{
	return open_bytes(fat_bytes, sizeof(fat_bytes), BS);
}

static void cookies_resume_alike_in_micro_and_fat_zaps(void **state)
{
	static const char *names[] = {"one", "two", "three", "four", "five", "six", "seven"};
	char a[8][32], b[8][32];

	put_swap = false;
	micro_start(micro_bytes, 0);
	fat_start(fat_bytes, 0, 0);
	struct zap *z = micro_reopen();
	for (unsigned i = 0; i < 7; i++) {
		micro_add(micro_bytes, i, names[i], i, i + 1);
		fat_add_string(z, names[i], i, (const uint8_t[8]){0, 0, 0, 0, 0, 0, 0, i + 1});
	}
	zap_close(z);
	assert_int_equal(walk_by_cookies(micro_reopen, a), 7);
	assert_int_equal(walk_by_cookies(fat_reopen, b), 7);
	for (unsigned i = 0; i < 7; i++)
		assert_string_equal(a[i], b[i]);
}

static void a_damaged_leaf_costs_one_error_and_its_entries(void **state)
{
	struct zap_cursor *c;
	struct zap_entry e;
	unsigned good = 0, bad = 0;
	int err;

	put_swap = false;
	fat_start(fat_bytes, 0, 0);
	struct zap *z = fat_reopen();
	fat_add_string(z, "hello", 0, be_value); /* first leaf */
	zap_close(z);
	fat_bytes[2 * BS + 24] ^= 1; /* second leaf's magic */
	zap_cursor_start(fat_reopen(), 0, &c);
	while ((err = zap_cursor_next(c, &e)) != -ENOENT) {
		good += err == 0;
		bad += err != 0;
	}
	zap_cursor_close(c);
	assert_int_equal(good, 1);
	assert_int_equal(bad, 1);
}

static void chains_that_loop_end(void **state)
{
	uint8_t p[3 * BS];
	uint64_t v, h;

	put_swap = false;
	fat_start(p, 0, 0);
	struct zap *z = open_bytes(p, sizeof(p), BS);
	fat_add_string(z, "x", 0, be_value);
	h = zap_hash_name(z, "x", 1);
	struct leaf_writer *w = &leaves[h >> 63];
	uint8_t *entry = leaf_chunk(w, 0), *name = leaf_chunk(w, 1);
	put16(entry + 2, 0); /* next is itself */
	memcpy(name + 1, "q", 1);
	assert_int_equal(zap_find(z, "x", 0, 8, 1, &v, NULL), -EINVAL);
	memcpy(name + 1, "x", 1);
	put16(entry + 10, 0xffff); /* more integers than a leaf holds */
	assert_int_equal(zap_find(z, "x", 0, 8, 0xffff, p, NULL), -EINVAL);
	zap_close(z);
}

static void headers_that_lie_are_refused(void **state)
{
	static const struct {
		unsigned off;
		uint64_t v;
	} lie[] = {{0, 1}, {8, 1}, {16, 1}, {24, 1}, {32, 7}, {32, 0}, {32, 64}, {32, UINT64_MAX}, {88, 1}};
	uint8_t p[3 * BS];

	put_swap = false;
	for (unsigned i = 0; i < ARRAY_LEN(lie); i++) {
		struct zap *z;

		fat_start(p, 0, 0);
		put64(p + lie[i].off, lie[i].v);
		assert_int_equal(zap_open_source(zapbuf_create(p, sizeof(p), BS), &z), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hashes_equal_the_vectors_of_the_chapter),
	    cmocka_unit_test(normalised_hashes_equal_the_vectors_of_the_chapter),
	    cmocka_unit_test(names_normalise_as_unicode_5_0_had_it),
	    cmocka_unit_test(micro_zaps_are_read_in_both_orders),
	    cmocka_unit_test(names_match_folded_normalised_or_exactly),
	    cmocka_unit_test(fat_zaps_are_read_in_both_orders),
	    cmocka_unit_test(integers_widen_but_never_narrow),
	    cmocka_unit_test(keys_of_words_are_found),
	    cmocka_unit_test(cookies_resume_alike_in_micro_and_fat_zaps),
	    cmocka_unit_test(a_damaged_leaf_costs_one_error_and_its_entries),
	    cmocka_unit_test(chains_that_loop_end),
	    cmocka_unit_test(headers_that_lie_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
