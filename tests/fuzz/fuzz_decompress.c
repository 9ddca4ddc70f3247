/* Byte 0: algorithm; bytes 1 - 3: size to fill (little-endian, less one); the rest: the stored bytes. The same bytes
 * are then taken as contents and compressed into that room (byte 1: level): what fits must come back. */
#include "codec/compress.h"
#include "fuzz.h"

#define SIZE_MAX_TRIED (1u << 20)

static void round_trip(enum compress c, unsigned level, const uint8_t *src, size_t size, size_t room)
{
	autofree uint8_t *packed = xmalloc(room), *back = xmalloc(size);
	size_t used = compress_block(c, level, src, size, packed, room);

	BUG_ON(used > room);
	if (used)
		BUG_ON(decompress(c, packed, used, back, size) || memcmp(back, src, size) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	size_t dst_size = (data[1] | data[2] << 8 | data[3] << 16) % SIZE_MAX_TRIED + 1;
	autofree uint8_t *src = fuzz_copy(data + 4, size - 4);
	autofree uint8_t *dst = xmalloc(dst_size);

	decompress(data[0] % (COMPRESS_COUNT + 1), src, size - 4, dst, dst_size);
	if (size > 4)
		round_trip(data[0] % (COMPRESS_COUNT + 1), data[1], src, size - 4, dst_size);
	return 0;
}
