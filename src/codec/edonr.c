/*
 * Edon-R-512 (02-blocks-and-objects.md, 2.3).
 */
#include "codec/checksum_impl.h"

#define BLOCK 128

static inline uint64_t rol64(uint64_t v, unsigned n)
{
	return v << n | v >> (64 - n);
}

/* The quasigroup step: r = Q(x, y). r may be x or y. */
static inline __attribute__((always_inline)) void quasigroup(const uint64_t x[8], const uint64_t y[8], uint64_t r[8])
{
	const uint64_t c = UINT64_C(0xaaaaaaaaaaaaaaaa);
	uint64_t s[8], t[8];

	s[0] = c + x[0] + x[1] + x[2] + x[4] + x[7];
	s[1] = rol64(x[0] + x[1] + x[3] + x[4] + x[7], 5);
	s[2] = rol64(x[0] + x[1] + x[4] + x[6] + x[7], 15);
	s[3] = rol64(x[2] + x[3] + x[5] + x[6] + x[7], 22);
	s[4] = rol64(x[1] + x[2] + x[3] + x[5] + x[6], 31);
	s[5] = rol64(x[0] + x[2] + x[3] + x[4] + x[5], 40);
	s[6] = rol64(x[0] + x[1] + x[5] + x[6] + x[7], 50);
	s[7] = rol64(x[2] + x[3] + x[4] + x[5] + x[6], 59);
	t[0] = ~c + y[0] + y[1] + y[2] + y[5] + y[7];
	t[1] = rol64(y[0] + y[1] + y[3] + y[4] + y[6], 10);
	t[2] = rol64(y[0] + y[1] + y[2] + y[3] + y[5], 19);
	t[3] = rol64(y[2] + y[3] + y[4] + y[6] + y[7], 29);
	t[4] = rol64(y[0] + y[1] + y[3] + y[4] + y[5], 36);
	t[5] = rol64(y[2] + y[4] + y[5] + y[6] + y[7], 44);
	t[6] = rol64(y[1] + y[2] + y[5] + y[6] + y[7], 48);
	t[7] = rol64(y[0] + y[3] + y[4] + y[6] + y[7], 55);
	r[0] = (s[0] ^ s[1] ^ s[4]) + (t[0] ^ t[1] ^ t[5]);
	r[1] = (s[0] ^ s[4] ^ s[7]) + (t[2] ^ t[6] ^ t[7]);
	r[2] = (s[1] ^ s[6] ^ s[7]) + (t[0] ^ t[1] ^ t[3]);
	r[3] = (s[2] ^ s[3] ^ s[4]) + (t[0] ^ t[3] ^ t[4]);
	r[4] = (s[0] ^ s[1] ^ s[7]) + (t[1] ^ t[2] ^ t[5]);
	r[5] = (s[3] ^ s[5] ^ s[6]) + (t[3] ^ t[4] ^ t[6]);
	r[6] = (s[2] ^ s[5] ^ s[6]) + (t[2] ^ t[5] ^ t[7]);
	r[7] = (s[2] ^ s[3] ^ s[5]) + (t[4] ^ t[6] ^ t[7]);
}

static void block_mix(uint64_t p[16], const uint8_t *block)
{
	uint64_t d[16], rev_lo[8], rev_hi[8], a[8], b[8];

	for (unsigned i = 0; i < 16; i++)
		d[i] = load_le64(block + 8 * i);
	for (unsigned i = 0; i < 8; i++) {
		rev_lo[i] = d[7 - i];
		rev_hi[i] = d[15 - i];
	}
	quasigroup(rev_hi, d, a);
	quasigroup(a, d + 8, b);
	quasigroup(p + 8, a, a);
	quasigroup(a, b, b);
	quasigroup(a, p, a);
	quasigroup(b, a, b);
	quasigroup(rev_lo, a, a);
	quasigroup(a, b, b);
	for (unsigned i = 0; i < 8; i++) {
		p[i] ^= d[8 + i] ^ a[i];
		p[8 + i] ^= d[i] ^ b[i];
	}
}

void edonr_init(struct edonr_state *s)
{
	for (unsigned i = 0; i < 16; i++)
		s->p[i] = UINT64_C(0x8081828384858687) + i * UINT64_C(0x0808080808080808);
	s->prefix_bytes = 0;
}

void edonr_prefix(struct edonr_state *s, const void *data, size_t size)
{
	const uint8_t *p = data;

	for (size_t done = 0; done < size; done += BLOCK)
		block_mix(s->p, p + done);
	s->prefix_bytes += size;
}

void edonr_final(const struct edonr_state *state, const void *data, size_t size, uint8_t out[64])
{
	size_t whole = ROUND_DOWN(size, BLOCK), rest = size - whole;
	size_t tail_size = rest >= BLOCK - 8 ? 2 * BLOCK : BLOCK;
	uint8_t tail[2 * BLOCK] = {0};
	struct edonr_state s = *state;

	edonr_prefix(&s, data, whole);
	if (rest)
		memcpy(tail, (const uint8_t *)data + whole, rest);
	tail[rest] = 0x80;
	store_le64(tail + tail_size - 8, (state->prefix_bytes + size) * 8);
	edonr_prefix(&s, tail, tail_size);
	for (unsigned i = 0; i < 8; i++)
		store_le64(out + 8 * i, s.p[8 + i]);
}

void edonr_salted_init(struct edonr_state *s, const uint8_t salt[32])
{
	uint8_t h[BLOCK];

	edonr_init(s);
	edonr_final(s, salt, 32, h);
	edonr_final(s, h, 64, h + 64);
	edonr_prefix(s, h, BLOCK);
}
