/* Byte 0: algorithm; bytes 1 - 3: size to fill (little-endian, less one); the rest: the stored bytes. */
#include "codec/compress.h"
#include "fuzz.h"

#define SIZE_MAX_TRIED (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	size_t dst_size = (data[1] | data[2] << 8 | data[3] << 16) % SIZE_MAX_TRIED + 1;
	autofree uint8_t *src = fuzz_copy(data + 4, size - 4);
	autofree uint8_t *dst = xmalloc(dst_size);

	decompress(data[0] % (COMPRESS_COUNT + 1), src, size - 4, dst, dst_size);
	return 0;
}
