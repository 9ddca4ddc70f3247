/* Reversal of every word of a buffer; the loops vectorise. */
#include "base/bytes.h"

#define SWAP_DEFINE(bits)                                                                                              \
	void swap##bits##_buffer(void *buf, size_t size)                                                               \
	{                                                                                                              \
		uint8_t *p = buf;                                                                                      \
                                                                                                                       \
		for (size_t i = 0; i + (bits) / 8 <= size; i += (bits) / 8)                                            \
			store_host##bits(p + i, __builtin_bswap##bits(load_host##bits(p + i)));                        \
	}

SWAP_DEFINE(16)
SWAP_DEFINE(32)
SWAP_DEFINE(64)
