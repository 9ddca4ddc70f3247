/*
 * BLAKE3 in keyed mode (02-blocks-and-objects.md, 2.3; the compression function as the BLAKE3 paper defines it).
 *
 * Eight chunks, or eight parents, are hashed side by side in the lanes of a vector: lane l of every vector belongs to
 * input l. The same source is compiled for AVX2 and for the plain target.
 */
#include "codec/checksum_impl.h"

#define LANES       8
#define CHUNK       1024
#define BLOCK       64
#define GROUP_BYTES (LANES * CHUNK)

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED_HASH = 16 };

static const uint32_t iv[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
			       0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

/* Message words of the seven rounds: each row is the one before under the fixed permutation. */
static const uint8_t schedule[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

#define ROR32(v, n) ((v) >> (n) | (v) << (32 - (n)))

/* Written once for scalars and for vectors of lanes. */
#define G(v, a, b, c, d, x, y)                                                                                         \
	do {                                                                                                           \
		v[a] += v[b] + (x);                                                                                    \
		v[d] = ROR32(v[d] ^ v[a], 16);                                                                         \
		v[c] += v[d];                                                                                          \
		v[b] = ROR32(v[b] ^ v[c], 12);                                                                         \
		v[a] += v[b] + (y);                                                                                    \
		v[d] = ROR32(v[d] ^ v[a], 8);                                                                          \
		v[c] += v[d];                                                                                          \
		v[b] = ROR32(v[b] ^ v[c], 7);                                                                          \
	} while (0)

#define ROUND(v, m, s)                                                                                                 \
	do {                                                                                                           \
		G(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);                                                                   \
		G(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);                                                                   \
		G(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);                                                                  \
		G(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);                                                                  \
		G(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);                                                                  \
		G(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);                                                                \
		G(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);                                                                 \
		G(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);                                                                 \
	} while (0)

static void compress_one(uint32_t cv[8], const uint8_t *block, unsigned len, uint64_t counter, unsigned flags)
{
	uint32_t m[16], v[16];

	for (unsigned i = 0; i < 16; i++)
		m[i] = load_le32(block + 4 * i);
	memcpy(v, cv, 32);
	memcpy(v + 8, iv, 16);
	v[12] = (uint32_t)counter;
	v[13] = (uint32_t)(counter >> 32);
	v[14] = len;
	v[15] = flags;
#pragma GCC unroll 7
	for (unsigned r = 0; r < 7; r++)
		ROUND(v, m, schedule[r]);
	for (unsigned i = 0; i < 8; i++)
		cv[i] = v[i] ^ v[i + 8];
}

/* cv of one chunk of 0 .. 1024 bytes. */
static void chunk_one(const uint32_t key[8], const uint8_t *p, size_t size, uint64_t index, unsigned flags,
		      uint32_t cv[8])
{
	unsigned start = CHUNK_START;
	uint8_t last[BLOCK] = {0};

	memcpy(cv, key, 32);
	for (; size > BLOCK; p += BLOCK, size -= BLOCK) {
		compress_one(cv, p, BLOCK, index, KEYED_HASH | start);
		start = 0;
	}
	if (size)
		memcpy(last, p, size);
	compress_one(cv, last, size, index, KEYED_HASH | start | CHUNK_END | flags);
}

static void parent_one(const uint32_t key[8], const uint32_t children[16], unsigned flags, uint32_t cv[8])
{
	uint8_t block[BLOCK];

	for (unsigned i = 0; i < 16; i++)
		store_le32(block + 4 * i, children[i]);
	memcpy(cv, key, 32);
	compress_one(cv, block, BLOCK, 0, KEYED_HASH | PARENT | flags);
}

#if HOST_IS_LITTLE
#define HAVE_LANES 1

typedef uint32_t lanes __attribute__((vector_size(4 * LANES)));

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed only to functions that are inlined */

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* Eight rows of eight words become eight columns. */
static inline __attribute__((always_inline)) void transpose(lanes r[8])
{
	lanes t[8], u[8];

	for (unsigned i = 0; i < 8; i += 2) {
		t[i] = SHUFFLE(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
		t[i + 1] = SHUFFLE(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
	}
	for (unsigned i = 0; i < 8; i += 4) {
		u[i] = SHUFFLE(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
		u[i + 1] = SHUFFLE(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
		u[i + 2] = SHUFFLE(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
		u[i + 3] = SHUFFLE(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
	}
	for (unsigned i = 0; i < 4; i++) {
		r[i] = SHUFFLE(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
		r[i + 4] = SHUFFLE(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
	}
}

/* The messages of one block of each input, `stride` bytes apart. */
static inline __attribute__((always_inline)) void lanes_load(const uint8_t *p, size_t stride, lanes m[16])
{
	for (unsigned l = 0; l < LANES; l++) {
		memcpy(&m[l], p + l * stride, 32);
		memcpy(&m[l + 8], p + l * stride + 32, 32);
	}
	transpose(m);
	transpose(m + 8);
}

static inline __attribute__((always_inline)) void lanes_compress(lanes cv[8], const lanes m[16], lanes counter_lo,
								 lanes counter_hi, unsigned flags)
{
	lanes v[16];

	for (unsigned i = 0; i < 8; i++)
		v[i] = cv[i];
	for (unsigned i = 0; i < 4; i++)
		v[8 + i] = iv[i] - (lanes){0};
	v[12] = counter_lo;
	v[13] = counter_hi;
	v[14] = BLOCK - (lanes){0};
	v[15] = flags - (lanes){0};
#pragma GCC unroll 7
	for (unsigned r = 0; r < 7; r++)
		ROUND(v, m, schedule[r]);
	for (unsigned i = 0; i < 8; i++)
		cv[i] = v[i] ^ v[i + 8];
}

/*
 * Eight inputs of `nblocks` blocks; input l starts at p + l * stride and has counter `index` + l (chunks) or 0
 * (parents). out: eight chaining values one after the other.
 */
static inline __attribute__((always_inline)) void hash_lanes(const uint32_t key[8], const uint8_t *p, size_t stride,
							     unsigned nblocks, uint64_t index, bool chunks,
							     uint32_t *out)
{
	lanes cv[8], m[16], lo = {0}, hi = {0};

	for (unsigned i = 0; i < 8; i++)
		cv[i] = key[i] - (lanes){0};
	for (unsigned l = 0; chunks && l < LANES; l++) {
		lo[l] = (uint32_t)(index + l);
		hi[l] = (uint32_t)((index + l) >> 32);
	}
	for (unsigned b = 0; b < nblocks; b++) {
		unsigned flags = KEYED_HASH;

		if (chunks)
			flags |= (b == 0 ? CHUNK_START : 0) | (b == nblocks - 1 ? CHUNK_END : 0);
		else
			flags |= PARENT;
		lanes_load(p + b * BLOCK, stride, m);
		lanes_compress(cv, m, lo, hi, flags);
	}
	transpose(cv);
	memcpy(out, cv, sizeof(cv));
}

static void chunks8_plain(const uint32_t key[8], const uint8_t *p, uint64_t index, uint32_t *out)
{
	hash_lanes(key, p, CHUNK, CHUNK / BLOCK, index, true, out);
}

static void parents8_plain(const uint32_t key[8], const uint32_t *children, uint32_t *out)
{
	hash_lanes(key, (const uint8_t *)children, BLOCK, 1, 0, false, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void chunks8_avx2(const uint32_t key[8], const uint8_t *p, uint64_t index,
							 uint32_t *out)
{
	hash_lanes(key, p, CHUNK, CHUNK / BLOCK, index, true, out);
}

__attribute__((target("avx2"))) static void parents8_avx2(const uint32_t key[8], const uint32_t *children,
							  uint32_t *out)
{
	hash_lanes(key, (const uint8_t *)children, BLOCK, 1, 0, false, out);
}

#define USE_AVX2 __builtin_cpu_supports("avx2")
#else
#define chunks8_avx2  chunks8_plain
#define parents8_avx2 parents8_plain
#define USE_AVX2      false
#endif
#pragma GCC diagnostic pop

static void chunks8(const uint32_t key[8], const uint8_t *p, uint64_t index, uint32_t *out)
{
	(USE_AVX2 ? chunks8_avx2 : chunks8_plain)(key, p, index, out);
}

static void parents8(const uint32_t key[8], const uint32_t *children, uint32_t *out)
{
	(USE_AVX2 ? parents8_avx2 : parents8_plain)(key, children, out);
}
#endif

/* Chaining values still to be joined: one per complete subtree, sizes falling from the left, a power of two each. */
struct tree {
	uint32_t cv[64][8];
	uint8_t height[64];
	unsigned len;
};

static void tree_push(struct tree *t, const uint32_t key[8], const uint32_t cv[8], unsigned height)
{
	memcpy(t->cv[t->len], cv, 32);
	while (t->len > 0 && t->height[t->len - 1] == height) {
		/* neighbours in the array are the 16 words of the parent's message */
		parent_one(key, t->cv[t->len - 1], 0, t->cv[t->len - 1]);
		t->len--;
		height++;
	}
	t->height[t->len++] = height;
}

static void words_out(const uint32_t cv[8], uint8_t out[32])
{
	for (unsigned i = 0; i < 8; i++)
		store_le32(out + 4 * i, cv[i]);
}

/* The last chunk closes every open subtree; the last join is the root. */
static void tree_close(struct tree *t, const uint32_t key[8], const uint8_t *p, size_t size, uint64_t index,
		       uint8_t out[32])
{
	uint32_t pair[16];

	chunk_one(key, p, size, index, t->len ? 0 : ROOT, pair + 8);
	while (t->len) {
		t->len--;
		memcpy(pair, t->cv[t->len], 32);
		parent_one(key, pair, t->len ? 0 : ROOT, pair + 8);
	}
	words_out(pair + 8, out);
}

#ifdef HAVE_LANES
#define WIDE_CHUNKS 64 /* one subtree of 64 chunks at a time: its 64 + 32 + 16 joins fill all lanes */

static void subtree_wide(const uint32_t key[8], const uint8_t *p, uint64_t index, uint32_t cv[8])
{
	uint32_t v[WIDE_CHUNKS * 8];

	for (unsigned i = 0; i < WIDE_CHUNKS; i += LANES)
		chunks8(key, p + i * CHUNK, index + i, v + 8 * i);
	for (unsigned n = WIDE_CHUNKS / 2; n >= LANES; n /= 2)
		for (unsigned i = 0; i < n; i += LANES)
			parents8(key, v + 16 * i, v + 8 * i);
	for (unsigned n = LANES / 2; n > 0; n /= 2)
		for (unsigned i = 0; i < n; i++)
			parent_one(key, v + 16 * i, 0, v + 8 * i);
	memcpy(cv, v, 32);
}

/* Whole subtrees and groups of eight chunks, always leaving at least one byte for tree_close. */
static uint64_t tree_fill_wide(struct tree *t, const uint32_t key[8], const uint8_t *p, size_t size)
{
	uint32_t v[LANES * 8];
	uint64_t chunk = 0;

	for (; size - chunk * CHUNK > WIDE_CHUNKS * CHUNK; chunk += WIDE_CHUNKS) {
		subtree_wide(key, p + chunk * CHUNK, chunk, v);
		tree_push(t, key, v, 6);
	}
	for (; size - chunk * CHUNK > GROUP_BYTES; chunk += LANES) {
		chunks8(key, p + chunk * CHUNK, chunk, v);
		for (unsigned i = 0; i < LANES; i++)
			tree_push(t, key, v + 8 * i, 0);
	}
	return chunk;
}
#endif

static void hash(const uint32_t key[8], const uint8_t *p, size_t size, bool wide, uint8_t out[32])
{
	struct tree t;
	uint64_t chunk = 0;
	uint32_t cv[8];

	t.len = 0;
#ifdef HAVE_LANES
	if (wide)
		chunk = tree_fill_wide(&t, key, p, size);
#endif
	for (; size - chunk * CHUNK > CHUNK; chunk++) {
		chunk_one(key, p + chunk * CHUNK, CHUNK, chunk, 0, cv);
		tree_push(&t, key, cv, 0);
	}
	tree_close(&t, key, p + chunk * CHUNK, size - chunk * CHUNK, chunk, out);
}

void blake3_keyed(const uint32_t key[8], const void *data, size_t size, uint8_t out[32])
{
	hash(key, data, size, true, out);
}

void blake3_keyed_portable(const uint32_t key[8], const void *data, size_t size, uint8_t out[32])
{
	hash(key, data, size, false, out);
}
