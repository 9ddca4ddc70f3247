/*
 * fletcher2 and fletcher4. The wide fletcher4 keeps four interleaved streams, one per lane: lane j sums words j, j + 4,
 * j + 8, ... A word at distance m (in lane steps) from the end is at distance y = 4m - j in the whole sequence, and
 * weighs 1, y, y(y+1)/2, y(y+1)(y+2)/6 in the four sums; writing those as combinations of the same expressions in m
 * gives the factors in lanes_join.
 */
#include "codec/checksum_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

void fletcher2(const void *data, size_t size, bool swap, struct cksum *out)
{
	const uint8_t *p = data, *end = p + ROUND_DOWN(size, 16);
	uint64_t a0 = 0, a1 = 0, b0 = 0, b1 = 0;

	for (; p < end; p += 16) {
		a0 += load64(p, swap);
		a1 += load64(p + 8, swap);
		b0 += a0;
		b1 += a1;
	}
	*out = (struct cksum){{a0, a1, b0, b1}};
}

static void fletcher4_continue(const uint8_t *p, size_t size, bool swap, struct cksum *sum)
{
	const uint8_t *end = p + ROUND_DOWN(size, 4);
	uint64_t a = sum->word[0], b = sum->word[1], c = sum->word[2], d = sum->word[3];

	for (; p < end; p += 4) {
		a += load32(p, swap);
		b += a;
		c += b;
		d += c;
	}
	*sum = (struct cksum){{a, b, c, d}};
}

void fletcher4_portable(const void *data, size_t size, bool swap, struct cksum *out)
{
	*out = (struct cksum){{0}};
	fletcher4_continue(data, size, swap, out);
}

#if defined(__x86_64__)

#define LANES 4

struct lanes {
	uint64_t a[LANES], b[LANES], c[LANES], d[LANES];
};

static void lanes_join(const struct lanes *l, struct cksum *out)
{
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (uint64_t j = 0; j < LANES; j++) {
		a += l->a[j];
		b += 4 * l->b[j] - j * l->a[j];
		c += 16 * l->c[j] - (6 + 4 * j) * l->b[j] + (j * (j - 1) / 2) * l->a[j];
		d += 64 * l->d[j] - (48 + 16 * j) * l->c[j] + (2 * j * j + 4 * j + 4) * l->b[j] -
		     (j == 3 ? l->a[j] : 0);
	}
	*out = (struct cksum){{a, b, c, d}};
}

__attribute__((target("avx2"))) static void lanes_sum(const uint8_t *p, size_t size, bool swap, struct lanes *l)
{
	const __m256i order = swap ? _mm256_set_epi8(-1, -1, -1, -1, 8, 9, 10, 11, -1, -1, -1, -1, 0, 1, 2, 3, -1, -1,
						     -1, -1, 8, 9, 10, 11, -1, -1, -1, -1, 0, 1, 2, 3)
				   : _mm256_setzero_si256();
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
	const uint8_t *end = p + size;

	for (; p < end; p += 16) {
		__m256i x = _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)p));

		if (swap)
			x = _mm256_shuffle_epi8(x, order);
		a = _mm256_add_epi64(a, x);
		b = _mm256_add_epi64(b, a);
		c = _mm256_add_epi64(c, b);
		d = _mm256_add_epi64(d, c);
	}
	_mm256_storeu_si256((__m256i *)l->a, a);
	_mm256_storeu_si256((__m256i *)l->b, b);
	_mm256_storeu_si256((__m256i *)l->c, c);
	_mm256_storeu_si256((__m256i *)l->d, d);
}

void fletcher4(const void *data, size_t size, bool swap, struct cksum *out)
{
	size_t wide = ROUND_DOWN(size, 16);
	struct lanes l;

	if (!__builtin_cpu_supports("avx2")) {
		fletcher4_portable(data, size, swap, out);
		return;
	}
	lanes_sum(data, wide, swap, &l);
	lanes_join(&l, out);
	fletcher4_continue((const uint8_t *)data + wide, size - wide, swap, out);
}

#else

void fletcher4(const void *data, size_t size, bool swap, struct cksum *out)
{
	fletcher4_portable(data, size, swap, out);
}

#endif
