/*
 * base/bytes.h: loads and stores of integers at any alignment in a stated byte order.
 *
 * `swap` variants read host order (little endian on everything Tarn runs on is not assumed) or the reverse of it:
 * the block pointer's byte-order bit says which (docs/format/01-pool.md, 1.1).
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "base/base.h"

#define HOST_IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

#define BYTES_DEFINE(bits)                                                                                             \
	static inline uint##bits##_t load_host##bits(const void *p)                                                    \
	{                                                                                                              \
		uint##bits##_t v;                                                                                      \
		memcpy(&v, p, sizeof(v));                                                                              \
		return v;                                                                                              \
	}                                                                                                              \
	static inline uint##bits##_t load##bits(const void *p, bool swap)                                              \
	{                                                                                                              \
		uint##bits##_t v = load_host##bits(p);                                                                 \
		return swap ? __builtin_bswap##bits(v) : v;                                                            \
	}                                                                                                              \
	static inline uint##bits##_t load_le##bits(const void *p)                                                      \
	{                                                                                                              \
		return load##bits(p, !HOST_IS_LITTLE);                                                                 \
	}                                                                                                              \
	static inline uint##bits##_t load_be##bits(const void *p)                                                      \
	{                                                                                                              \
		return load##bits(p, HOST_IS_LITTLE);                                                                  \
	}                                                                                                              \
	static inline void store_host##bits(void *p, uint##bits##_t v)                                                 \
	{                                                                                                              \
		memcpy(p, &v, sizeof(v));                                                                              \
	}                                                                                                              \
	static inline void store_le##bits(void *p, uint##bits##_t v)                                                   \
	{                                                                                                              \
		store_host##bits(p, HOST_IS_LITTLE ? v : __builtin_bswap##bits(v));                                    \
	}                                                                                                              \
	static inline void store_be##bits(void *p, uint##bits##_t v)                                                   \
	{                                                                                                              \
		store_host##bits(p, HOST_IS_LITTLE ? __builtin_bswap##bits(v) : v);                                    \
	}

BYTES_DEFINE(16)
BYTES_DEFINE(32)
BYTES_DEFINE(64)

/* Bits `lo` .. `lo + n - 1` of a word. */
static inline uint64_t bits64(uint64_t w, unsigned lo, unsigned n)
{
	return (w >> lo) & (n == 64 ? UINT64_MAX : ((UINT64_C(1) << n) - 1));
}

/* Reverse every 64-bit word of a buffer; size is a multiple of 8. */
void swap64_buffer(void *buf, size_t size);
void swap32_buffer(void *buf, size_t size);
void swap16_buffer(void *buf, size_t size);

#endif
