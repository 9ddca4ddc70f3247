#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "zapmem.h"

/* --- what chapter 02, section 9 asks of a map, checked on the bytes by other code than the writer's --- */

static uint16_t h16(const uint8_t *p)
{
	return load_host16(p);
}

struct leaf_sum {
	unsigned entries;
	uint64_t prefix;
	unsigned len;
};

static void array_walk(const uint8_t *chunks, unsigned nchunks, uint8_t *seen, unsigned first, size_t bytes)
{
	for (; bytes > 0; bytes -= MIN(bytes, 21)) {
		assert_true(first < nchunks);
		assert_int_equal(chunks[first * 24], 251);
		assert_int_equal(seen[first]++, 0);
		first = h16(chunks + first * 24 + 22);
	}
}

static struct leaf_sum leaf_verify(const uint8_t *p, unsigned shift, bool words)
{
	unsigned bs = 1u << shift, nchunks = (bs - bs / 16) / 24 - 2, entries = 0, nfree = 0;
	const uint8_t *chunks = p + 48 + bs / 16;
	struct leaf_sum s = {h16(p + 30), load_host64(p + 16), h16(p + 32)};
	uint8_t *seen = xcalloc(1, nchunks);

	assert_true(load_host64(p) == 0x8000000000000000);
	assert_int_equal(load_host32(p + 24), 0x02AB1EAF);
	for (unsigned slot = 0; slot < bs / 32; slot++) {
		int64_t cd = -1;

		for (unsigned n = h16(p + 48 + 2 * slot); n != 0xffff; n = h16(chunks + n * 24 + 2)) {
			const uint8_t *e = chunks + n * 24;
			uint64_t hash = load_host64(e + 16);

			assert_true(n < nchunks);
			assert_int_equal(e[0], 252);
			assert_int_equal(seen[n]++, 0);
			assert_true((int64_t)load_host32(e + 12) >= cd);
			cd = load_host32(e + 12);
			assert_true(s.len == 0 || hash >> (64 - s.len) == s.prefix);
			assert_int_equal(hash >> (64 - (shift - 5) - s.len) & (bs / 32 - 1), slot);
			array_walk(chunks, nchunks, seen, h16(e + 4), h16(e + 6) * (words ? 8 : 1));
			array_walk(chunks, nchunks, seen, h16(e + 8), h16(e + 10) * e[1]);
			entries++;
		}
	}
	for (unsigned n = h16(p + 34); n != 0xffff; n = h16(chunks + n * 24 + 22)) {
		assert_true(n < nchunks);
		assert_int_equal(chunks[n * 24], 253);
		assert_int_equal(seen[n]++, 0);
		nfree++;
	}
	for (unsigned i = 0; i < nchunks; i++)
		assert_int_equal(seen[i], 1);
	assert_int_equal(entries, s.entries);
	assert_int_equal(nfree, h16(p + 28));
	free(seen);
	return s;
}

static uint64_t table_at(const struct zapmem *m, uint64_t i)
{
	const uint8_t *h = m->block[0];
	uint64_t blk = load_host64(h + 16);

	if (load_host64(h + 24) == 0)
		return load_host64(h + m->block_size / 2 + 8 * i);
	return load_host64(m->block[blk + 8 * i / m->block_size] + 8 * i % m->block_size);
}

static void micro_verify(const struct zapmem *m)
{
	assert_int_equal(m->nblocks, 1);
	for (unsigned i = 64; i < m->block_size; i += 64) {
		const uint8_t *p = m->block[0] + i;

		for (unsigned j = 0; p[14] == 0 && j < 64; j++)
			assert_int_equal(p[j], 0);
	}
}

static void verify(const struct zapmem *m)
{
	const uint8_t *h = m->block[0];
	uint64_t leaves = 0, entries = 0, used = 1, high = 0;
	unsigned shift;

	if (load_host64(h) == 0x8000000000000003) {
		micro_verify(m);
		return;
	}
	shift = __builtin_ctz(m->block_size);
	assert_true(load_host64(h) == 0x8000000000000001);
	assert_true(load_host64(h + 8) == 0x2F52AB2AB);
	assert_int_equal(load_host64(h + 40), 0);
	uint64_t tshift = load_host64(h + 32), nblks = load_host64(h + 24);
	assert_int_equal(tshift, nblks ? shift - 3 + __builtin_ctzll(nblks) : shift - 4);
	used += nblks;
	high = nblks ? load_host64(h + 16) + nblks - 1 : 0;
	for (uint64_t i = 0; i < UINT64_C(1) << tshift;) {
		uint64_t blk = table_at(m, i);

		assert_true(blk < m->nblocks && m->block[blk]);
		struct leaf_sum s = leaf_verify(m->block[blk], shift, load_host64(h + 96) & 2);
		uint64_t span = UINT64_C(1) << (tshift - s.len);
		assert_true(s.len <= tshift);
		assert_int_equal(s.prefix * span, i);
		for (uint64_t j = i; j < i + span; j++)
			assert_int_equal(table_at(m, j), blk);
		i += span;
		leaves++;
		entries += s.entries;
		high = MAX(high, blk);
	}
	assert_int_equal(leaves, load_host64(h + 64));
	assert_int_equal(entries, load_host64(h + 72));
	assert_true(load_host64(h + 56) > high);
	used += leaves;
	for (uint64_t i = 0; i < m->nblocks; i++)
		used -= m->block[i] != NULL;
	assert_int_equal(used, 0); /* what nobody names is a hole */
}

/* --- operations, each on a freshly opened map --- */

static struct zap *mem_open(struct zapmem *m)
{
	struct zap *z = NULL;

	assert_int_equal(zap_open_source(zapmem_source(m), &z), 0);
	assert_int_equal(zap_ready(z), 0);
	return z;
}

static int mem_put(struct zapmem *m, const char *name, unsigned intsize, size_t nints, const void *v, bool replace)
{
	struct zap *z = mem_open(m);
	struct zap_key key;
	int err;

	zap_key_of_name(z, name, 0, true, &key);
	err = zap_put(z, &key, &(struct zap_value){intsize, nints, v}, replace);
	zap_close(z);
	return err;
}

static int mem_put_u64(struct zapmem *m, const char *name, uint64_t v, bool replace)
{
	return mem_put(m, name, 8, 1, &v, replace);
}

static int mem_drop(struct zapmem *m, const char *name)
{
	struct zap *z = mem_open(m);
	struct zap_key key;
	int err;

	zap_key_of_name(z, name, 0, true, &key);
	err = zap_drop(z, &key);
	zap_close(z);
	return err;
}

static int mem_get(struct zapmem *m, const char *name, unsigned intsize, size_t nints, void *out)
{
	struct zap *z = mem_open(m);
	int err = zap_find(z, name, 0, intsize, nints, out, NULL);

	zap_close(z);
	return err;
}

static struct zapmem micro_new(uint64_t normflags)
{
	struct zapmem m = {.block_size = 512};
	struct zap_source *s = zapmem_source(&m);

	assert_int_equal(zap_micro_format(s, 0x123456789abcdef1, normflags), 0);
	s->close(s);
	return m;
}

static struct zapmem fat_new(unsigned shift, uint64_t normflags, uint64_t flags)
{
	struct zapmem m = {.block_size = 1u << shift};
	struct zap_source *s = zapmem_source(&m);

	assert_int_equal(zap_fat_format(s, 0x123456789abcdef1, normflags, flags), 0);
	s->close(s);
	return m;
}

static bool is_micro(const struct zapmem *m)
{
	return load_host64(m->block[0]) == 0x8000000000000003;
}

static uint64_t seed = 42;
static uint64_t rnd(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* --- tests --- */

static void a_micro_zap_grows_by_sectors_and_frees_slots(void **state)
{
	struct zapmem m = micro_new(0);
	char name[32];
	uint64_t v;

	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		assert_int_equal(mem_put_u64(&m, name, i, false), 0);
		assert_int_equal(mem_put_u64(&m, name, i, false), -EEXIST);
		assert_int_equal(m.block_size, 512 * ((i + 1 + 1 + 7) / 8));
	}
	assert_true(is_micro(&m));
	verify(&m);
	assert_int_equal(mem_put_u64(&m, "name 50", 5000, true), 0);
	assert_int_equal(mem_get(&m, "name 50", 8, 1, &v), 0);
	assert_int_equal(v, 5000);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		assert_int_equal(mem_drop(&m, name), 0);
		assert_int_equal(mem_drop(&m, name), -ENOENT);
	}
	for (unsigned i = 64; i < m.block_size; i++)
		assert_int_equal(m.block[0][i], 0);
	zapmem_free(&m);
}

static void a_micro_zap_becomes_fat_when_it_must(void **state)
{
	static const char long_name[] = "a name of fifty bytes, which no micro entry holds.";
	struct zapmem m = micro_new(0);
	uint64_t v, two[2] = {7, 8}, got[2];
	char name[32];

	assert_int_equal(strlen(long_name), 50);
	assert_int_equal(mem_put_u64(&m, "x", 1, false), 0);
	assert_int_equal(mem_put_u64(&m, long_name + 1, 2, false), 0);
	assert_true(is_micro(&m));
	assert_int_equal(mem_put_u64(&m, long_name, 3, false), 0);
	assert_false(is_micro(&m));
	assert_int_equal(m.block_size, 16384);
	assert_true(load_host64(m.block[0] + 80) == 0x123456789abcdef1);
	assert_int_equal(mem_get(&m, "x", 8, 1, &v), 0);
	assert_int_equal(v, 1);
	assert_int_equal(mem_get(&m, long_name, 8, 1, &v), 0);
	assert_int_equal(v, 3);
	verify(&m);
	zapmem_free(&m);

	m = micro_new(0);
	assert_int_equal(mem_put_u64(&m, "x", 1, false), 0);
	assert_int_equal(mem_put(&m, "x", 8, 2, two, false), -EEXIST);
	assert_true(is_micro(&m));
	assert_int_equal(mem_put(&m, "x", 8, 2, two, true), 0);
	assert_false(is_micro(&m));
	assert_int_equal(mem_get(&m, "x", 8, 2, got), 0);
	assert_int_equal(got[1], 8);
	verify(&m);
	zapmem_free(&m);

	m = micro_new(0);
	for (unsigned i = 0; i < 2047; i++) {
		snprintf(name, sizeof(name), "%x", i);
		assert_int_equal(mem_put_u64(&m, name, i, false), 0);
	}
	assert_true(is_micro(&m));
	assert_int_equal(m.block_size, 131072);
	assert_int_equal(mem_put_u64(&m, "one more", 9, false), 0);
	assert_false(is_micro(&m));
	verify(&m);
	for (unsigned i = 0; i < 2047; i++) {
		snprintf(name, sizeof(name), "%x", i);
		assert_int_equal(mem_get(&m, name, 8, 1, &v), 0);
		assert_int_equal(v, i);
	}
	zapmem_free(&m);
}

static void values_of_all_widths_come_back(void **state)
{
	struct zapmem m = fat_new(14, 0, 0);
	uint8_t bytes[8192], got[8192];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = rnd(256);
	for (unsigned size = 1; size <= 8; size *= 2) {
		for (unsigned n = 0; n <= 8192 / size; n += 1 + n / 2) {
			assert_int_equal(mem_put(&m, "v", size, n, bytes, true), 0);
			assert_int_equal(mem_get(&m, "v", size, n, got), 0);
			assert_memory_equal(bytes, got, n * size);
			verify(&m);
		}
	}
	assert_int_equal(mem_put(&m, "v", 8, 1025, bytes, true), -E2BIG);
	memset(bytes, 'n', 256);
	bytes[256] = '\0';
	assert_int_equal(mem_put_u64(&m, (char *)bytes, 1, true), -ENAMETOOLONG);
	assert_int_equal(mem_put_u64(&m, (char *)bytes + 1, 1, true), 0);
	assert_int_equal(mem_put_u64(&m, "", 2, true), 0);
	assert_int_equal(mem_drop(&m, ""), 0);
	verify(&m);
	zapmem_free(&m);
}

/* Names in a plain array stand for the map. */
#define MODEL 3000
struct model {
	char *name[MODEL];
	uint64_t value[MODEL][4];
	unsigned nints[MODEL]; /* 0: not there */
};

static void model_names(struct model *mo)
{
	for (unsigned i = 0; i < MODEL; i++) {
		unsigned len = 1 + rnd(rnd(4) ? 20 : 200);
		char s[256];

		for (unsigned j = 0; j < len; j++)
			s[j] = 'a' + rnd(26);
		snprintf(s + len, sizeof(s) - len, "%u", i);
		mo->name[i] = xstrdup(s);
	}
}

static void model_step(struct model *mo, struct zapmem *m, unsigned put_percent, unsigned max_ints)
{
	unsigned i = rnd(MODEL), n = 1 + rnd(max_ints);
	uint64_t v[4] = {rnd(UINT64_MAX), rnd(UINT64_MAX), i, 4};
	bool replace = rnd(2);

	if (rnd(100) >= put_percent) {
		assert_int_equal(mem_drop(m, mo->name[i]), mo->nints[i] ? 0 : -ENOENT);
		mo->nints[i] = 0;
	} else if (mo->nints[i] && !replace) {
		assert_int_equal(mem_put(m, mo->name[i], 8, n, v, false), -EEXIST);
	} else {
		assert_int_equal(mem_put(m, mo->name[i], 8, n, v, replace), 0);
		memcpy(mo->value[i], v, sizeof(v));
		mo->nints[i] = n;
	}
}

static void model_compare(const struct model *mo, struct zapmem *m)
{
	struct zap_cursor *c;
	struct zap_entry e;
	unsigned there = 0, listed = 0;
	uint64_t v[4];

	for (unsigned i = 0; i < MODEL; i++) {
		assert_int_equal(mem_get(m, mo->name[i], 8, 4, v), mo->nints[i] ? 0 : -ENOENT);
		if (mo->nints[i])
			assert_memory_equal(v, mo->value[i], 8 * mo->nints[i]);
		there += mo->nints[i] > 0;
	}
	zap_cursor_start(mem_open(m), 0, &c);
	while (zap_cursor_next(c, &e) == 0)
		listed++;
	zap_cursor_close(c);
	assert_int_equal(listed, there);
}

static void model_run(struct zapmem m, unsigned max_ints)
{
	static const unsigned put_percent[] = {90, 60, 50, 20, 80, 5};
	struct model *mo = xcalloc(1, sizeof(*mo));

	model_names(mo);
	for (unsigned phase = 0; phase < ARRAY_LEN(put_percent); phase++) {
		for (unsigned i = 0; i < 2500; i++) {
			model_step(mo, &m, put_percent[phase], max_ints);
			if (i % 500 == 0)
				verify(&m);
		}
		verify(&m);
		model_compare(mo, &m);
	}
	for (unsigned i = 0; i < MODEL; i++) {
		if (mo->nints[i])
			assert_int_equal(mem_drop(&m, mo->name[i]), 0);
		mo->nints[i] = 0;
		free(mo->name[i]);
	}
	verify(&m);
	if (!is_micro(&m)) { /* all leaves have become one again */
		assert_int_equal(load_host64(m.block[0] + 64), 1);
		assert_int_equal(load_host64(m.block[0] + 72), 0);
	}
	zapmem_free(&m);
	free(mo);
}

static void random_changes_leave_what_a_plain_map_holds(void **state)
{
	model_run(micro_new(0), 1);
	model_run(micro_new(0x12), 4);
	model_run(fat_new(14, 0, 0), 2);
	model_run(fat_new(12, 0, 1), 4);
	model_run(fat_new(10, 0x50, 0), 4); /* the table moves out of the header, and grows */
}

/* Keys of words whose first word is the hash: 0 bits in common or all of them. */
static int words_put(struct zapmem *m, const uint64_t *key, unsigned n, uint64_t v)
{
	struct zap *z = mem_open(m);
	uint8_t bytes[ZAP_NAME_MAX];
	struct zap_key k;
	int err = zap_key_of_words(z, key, n, bytes, &k);

	if (!err)
		err = zap_put(z, &k, &(struct zap_value){8, 1, &v}, true);
	zap_close(z);
	return err;
}

static void keys_of_words_are_kept(void **state)
{
	struct zapmem m = fat_new(12, 0, 3);
	uint8_t bytes[ZAP_NAME_MAX];
	struct zap_key k;
	uint64_t v;

	for (uint64_t i = 0; i < 2000; i++)
		assert_int_equal(words_put(&m, (uint64_t[]){i, i * i, 7}, 3, i), 0);
	verify(&m);
	struct zap *z = mem_open(&m);
	for (uint64_t i = 0; i < 2000; i++) {
		uint64_t key[] = {i, i * i, 7};

		assert_int_equal(zap_find_words(z, key, 3, 8, 1, &v), 0);
		assert_int_equal(v, i);
		assert_int_equal(zap_find_words(z, key, 2, 8, 1, &v), -ENOENT);
	}
	zap_close(z);
	for (uint64_t i = 0; i < 2000; i++) {
		z = mem_open(&m);
		assert_int_equal(zap_key_of_words(z, (uint64_t[]){i, i * i, 7}, 3, bytes, &k), 0);
		assert_int_equal(zap_drop(z, &k), 0);
		zap_close(z);
	}
	verify(&m);
	assert_int_equal(load_host64(m.block[0] + 64), 1);
	zapmem_free(&m);
}

static void keys_of_one_hash_are_told_apart_until_the_leaf_is_full(void **state)
{
	struct zapmem m = fat_new(12, 0, 7);
	uint64_t n = 0, v;
	int err;

	do
		err = words_put(&m, (uint64_t[]){0xabcdef0123450000, n}, 2, n + 1);
	while (!err && ++n < 1000);
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(n, ((4096 - 256) / 24 - 2) / 3);
	verify(&m);
	assert_int_equal(load_host64(m.block[0] + 64), 1); /* splitting would not have helped */
	struct zap *z = mem_open(&m);
	for (uint64_t i = 0; i < n; i++) {
		assert_int_equal(zap_find_words(z, (uint64_t[]){0xabcdef0123450000, i}, 2, 8, 1, &v), 0);
		assert_int_equal(v, i + 1);
	}
	zap_close(z);
	/* another hash with many bits in common needs many splits, and finds its place */
	assert_int_equal(words_put(&m, (uint64_t[]){0xabcdef0123450000 ^ UINT64_C(1) << 46, 1}, 2, 1), 0);
	verify(&m);
	assert_true(load_host64(m.block[0] + 64) > 10);
	zapmem_free(&m);
}

static void a_block_of_the_other_byte_order_is_turned(void **state)
{
	struct zapmem m = micro_new(0);
	uint64_t v;

	assert_int_equal(mem_put_u64(&m, "abc", 0x1122, false), 0);
	swap64_buffer(m.block[0], 24);
	swap64_buffer(m.block[0] + 64, 8);
	swap32_buffer(m.block[0] + 72, 4);
	assert_int_equal(mem_put_u64(&m, "def", 5, false), 0);
	verify(&m);
	assert_int_equal(mem_get(&m, "abc", 8, 1, &v), 0);
	assert_int_equal(v, 0x1122);
	zapmem_free(&m);
}

/* A leaf and a table of the other order, by 9.9. */
static void leaf_turn(uint8_t *p, unsigned bs)
{
	swap64_buffer(p, 24);
	swap32_buffer(p + 24, 4);
	swap16_buffer(p + 28, 8);
	swap16_buffer(p + 48, bs / 16);
	for (uint8_t *c = p + 48 + bs / 16; c + 24 <= p + bs; c += 24) {
		if (c[0] != 252) {
			swap16_buffer(c + 22, 2);
			continue;
		}
		swap16_buffer(c + 2, 10);
		swap32_buffer(c + 12, 4);
		swap64_buffer(c + 16, 8);
	}
}

static void fat_blocks_of_the_other_byte_order_are_turned(void **state)
{
	struct zapmem m = fat_new(10, 0, 0);
	char name[32];
	uint64_t v;

	for (unsigned i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "entry %u", i);
		assert_int_equal(mem_put_u64(&m, name, i, false), 0);
	}
	assert_true(load_host64(m.block[0] + 24) > 1);
	for (uint64_t i = 0; i < m.nblocks; i++) {
		if (!m.block[i])
			continue;
		if (load_host64(m.block[i]) == 0x8000000000000000)
			leaf_turn(m.block[i], m.block_size);
		else
			swap64_buffer(m.block[i], m.block_size);
	}
	for (unsigned i = 0; i < 4000; i++) {
		snprintf(name, sizeof(name), "entry %u", i);
		assert_int_equal(mem_put_u64(&m, name, i + 1, true), 0);
	}
	verify(&m);
	for (unsigned i = 0; i < 4000; i++) {
		snprintf(name, sizeof(name), "entry %u", i);
		assert_int_equal(mem_get(&m, name, 8, 1, &v), 0);
		assert_int_equal(v, i + 1);
	}
	zapmem_free(&m);
}

/* 9.5: OpenZFS copies a growing table block by block; what it left half done is finished first. */
static void a_half_copied_table_is_finished(void **state)
{
	struct zapmem m = fat_new(10, 0, 0);
	char name[32];
	uint64_t v, next;

	for (unsigned i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "entry %u", i);
		assert_int_equal(mem_put_u64(&m, name, i, false), 0);
	}
	uint64_t n = load_host64(m.block[0] + 24), shift = load_host64(m.block[0] + 32);
	assert_true(n > 1);
	next = load_host64(m.block[0] + 56);
	store_host64(m.block[0] + 40, next);
	store_host64(m.block[0] + 48, 1);
	store_host64(m.block[0] + 56, next + 2 * n);
	assert_int_equal(mem_put_u64(&m, "entry 0", 7, true), 0);
	assert_int_equal(load_host64(m.block[0] + 32), shift + 1);
	assert_int_equal(load_host64(m.block[0] + 16), next);
	verify(&m);
	for (unsigned i = 1; i < 2000; i++) {
		snprintf(name, sizeof(name), "entry %u", i);
		assert_int_equal(mem_get(&m, name, 8, 1, &v), 0);
		assert_int_equal(v, i);
	}
	zapmem_free(&m);
}

static void a_change_writes_little(void **state)
{
	struct zapmem m = fat_new(14, 0, 0);
	char name[32];

	for (unsigned i = 0; i < 150; i++) {
		snprintf(name, sizeof(name), "entry %u", i);
		assert_int_equal(mem_put_u64(&m, name, i, false), 0);
	}
	m.written = 0;
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "entry %u", i);
		assert_int_equal(mem_put_u64(&m, name, i + 1, true), 0);
	}
	assert_true(m.written / 100 < 512);
	zapmem_free(&m);
}

/* No damage makes a change write nonsense or run on: it fails, or the map is as it was. */
static void damaged_leaves_are_refused(void **state)
{
	for (unsigned round = 0; round < 3000; round++) {
		struct zapmem m = fat_new(9, 0, 0);
		char name[32];

		for (unsigned i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "e%u", i);
			assert_int_equal(mem_put_u64(&m, name, i, false), 0);
		}
		for (unsigned i = 0; i < 3; i++) {
			uint64_t blk = rnd(m.nblocks);

			if (m.block[blk])
				m.block[blk][rnd(m.block_size)] = rnd(2) ? 0xff : rnd(256);
		}
		for (unsigned i = 0; i < 30; i++) {
			struct zap *z = NULL;
			struct zap_key key;

			snprintf(name, sizeof(name), "e%u", (unsigned)rnd(30));
			if (zap_open_source(zapmem_source(&m), &z))
				break;
			if (zap_ready(z) || m.nblocks > 4096) {
				zap_close(z);
				break;
			}
			zap_key_of_name(z, name, 0, true, &key);
			if (rnd(2))
				zap_put(z, &key, &(struct zap_value){8, 1, &(uint64_t){1}}, true);
			else
				zap_drop(z, &key);
			zap_close(z);
		}
		zapmem_free(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_micro_zap_grows_by_sectors_and_frees_slots),
	    cmocka_unit_test(a_micro_zap_becomes_fat_when_it_must),
	    cmocka_unit_test(values_of_all_widths_come_back),
	    cmocka_unit_test(random_changes_leave_what_a_plain_map_holds),
	    cmocka_unit_test(keys_of_words_are_kept),
	    cmocka_unit_test(keys_of_one_hash_are_told_apart_until_the_leaf_is_full),
	    cmocka_unit_test(a_block_of_the_other_byte_order_is_turned),
	    cmocka_unit_test(fat_blocks_of_the_other_byte_order_are_turned),
	    cmocka_unit_test(a_half_copied_table_is_finished),
	    cmocka_unit_test(a_change_writes_little),
	    cmocka_unit_test(damaged_leaves_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
