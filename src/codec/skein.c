/*
 * Skein-512-256 MAC on Threefish-512 (02-blocks-and-objects.md, 2.3).
 */
#include "codec/checksum_impl.h"

#define BLOCK 64

enum { TYPE_KEY = 0, TYPE_CONFIG = 4, TYPE_MESSAGE = 48, TYPE_OUTPUT = 63 };

static inline uint64_t rol64(uint64_t v, unsigned n)
{
	return v << n | v >> (64 - n);
}

/* One round; the permutation of words is done by naming them in permuted order. */
#define MIX(a, b, r)                                  (v[a] += v[b], v[b] = rol64(v[b], r) ^ v[a])
#define ROUND(a, b, c, d, e, f, g, h, r0, r1, r2, r3) (MIX(a, b, r0), MIX(c, d, r1), MIX(e, f, r2), MIX(g, h, r3))

/* Key and tweak words are repeated as often as the last subkey reaches, so that no index needs a remainder. */
#define SUBKEY_LAST 18
#define KEY_WORDS   (SUBKEY_LAST + 8)
#define TWEAK_WORDS (SUBKEY_LAST + 2)

static inline __attribute__((always_inline)) void subkey_add(uint64_t v[8], const uint64_t *k, const uint64_t *t,
							     unsigned s)
{
#pragma GCC unroll 8
	for (unsigned i = 0; i < 8; i++)
		v[i] += k[s + i];
	v[5] += t[s];
	v[6] += t[s + 1];
	v[7] += s;
}

/* g = Threefish512(key g, tweak, m) ^ m */
static void block_mix(uint64_t g[8], uint64_t t0, uint64_t t1, const uint8_t *block)
{
	uint64_t k[KEY_WORDS], t[TWEAK_WORDS] = {t0, t1, t0 ^ t1}, v[8], m[8];

	k[8] = UINT64_C(0x1BD11BDAA9FC1A22);
#pragma GCC unroll 8
	for (unsigned i = 0; i < 8; i++) {
		k[i] = g[i];
		k[8] ^= g[i];
		v[i] = m[i] = load_le64(block + 8 * i);
	}
	for (unsigned i = 9; i < KEY_WORDS; i++)
		k[i] = k[i - 9];
	for (unsigned i = 3; i < TWEAK_WORDS; i++)
		t[i] = t[i - 3];
#pragma GCC unroll 9
	for (unsigned s = 0; s < SUBKEY_LAST; s += 2) {
		subkey_add(v, k, t, s);
		ROUND(0, 1, 2, 3, 4, 5, 6, 7, 46, 36, 19, 37);
		ROUND(2, 1, 4, 7, 6, 5, 0, 3, 33, 27, 14, 42);
		ROUND(4, 1, 6, 3, 0, 5, 2, 7, 17, 49, 36, 39);
		ROUND(6, 1, 0, 7, 2, 5, 4, 3, 44, 9, 54, 56);
		subkey_add(v, k, t, s + 1);
		ROUND(0, 1, 2, 3, 4, 5, 6, 7, 39, 30, 34, 24);
		ROUND(2, 1, 4, 7, 6, 5, 0, 3, 13, 50, 10, 17);
		ROUND(4, 1, 6, 3, 0, 5, 2, 7, 25, 29, 39, 43);
		ROUND(6, 1, 0, 7, 2, 5, 4, 3, 8, 35, 56, 22);
	}
	subkey_add(v, k, t, SUBKEY_LAST);
#pragma GCC unroll 8
	for (unsigned i = 0; i < 8; i++)
		g[i] = v[i] ^ m[i];
}

static void ubi(uint64_t g[8], unsigned type, const uint8_t *p, size_t size)
{
	uint64_t t1 = (uint64_t)type << 56 | UINT64_C(1) << 62;
	uint8_t last[BLOCK] = {0};
	uint64_t done = 0;

	while (size - done > BLOCK) {
		block_mix(g, done + BLOCK, t1, p + done);
		t1 &= ~(UINT64_C(1) << 62);
		done += BLOCK;
	}
	if (size > done)
		memcpy(last, p + done, size - done);
	block_mix(g, size, t1 | UINT64_C(1) << 63, last);
}

void skein_key_init(struct skein_key *k, const uint8_t salt[32])
{
	static const uint8_t config[32] = {'S', 'H', 'A', '3', 1, 0, 0, 0, 0 /* output bits, u64le */, 1};

	memset(k->g, 0, sizeof(k->g));
	ubi(k->g, TYPE_KEY, salt, 32);
	ubi(k->g, TYPE_CONFIG, config, sizeof(config));
}

void skein_mac(const struct skein_key *k, const void *data, size_t size, uint8_t out[32])
{
	static const uint8_t counter[8];
	uint64_t g[8];

	memcpy(g, k->g, sizeof(g));
	ubi(g, TYPE_MESSAGE, data, size);
	ubi(g, TYPE_OUTPUT, counter, sizeof(counter));
	for (unsigned i = 0; i < 4; i++)
		store_le64(out + 8 * i, g[i]);
}
