/*
 * codec/compress.h: block compression (docs/format/02-blocks-and-objects.md, section 3). Pure functions, any thread.
 */
#ifndef CODEC_COMPRESS_H
#define CODEC_COMPRESS_H

#include "base/base.h"

enum compress { /* numbers of the format */
		COMPRESS_INHERIT = 0,
		COMPRESS_ON = 1,
		COMPRESS_OFF = 2,
		COMPRESS_LZJB = 3,
		COMPRESS_EMPTY = 4,
		COMPRESS_GZIP_1 = 5,
		COMPRESS_GZIP_9 = 13,
		COMPRESS_ZLE = 14,
		COMPRESS_LZ4 = 15,
		COMPRESS_ZSTD = 16,
		COMPRESS_COUNT
};

/*
 * Fill exactly dst_size bytes from src. -EINVAL when the data does not decode to that size, -ENOTSUP for unknown ids.
 * Reads nothing outside src, writes nothing outside dst whatever src holds.
 */
int decompress(enum compress c, const void *src, size_t src_size, void *dst, size_t dst_size);
/*
 * The other way: bytes written to dst, or 0 when they do not fit into dst_size (or the id is none that compresses). dst
 * holds rubbish then. `level` is zstd's level id (3.1; 0 and 255: the default), unused by the others.
 */
size_t compress_block(enum compress c, unsigned level, const void *src, size_t src_size, void *dst, size_t dst_size);
/* zstd's own level for a level id; 0: there is no such id. */
int compress_zstd_level(unsigned id);
const char *compress_name(enum compress c);

#endif
