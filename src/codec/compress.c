#include "codec/compress.h"

#include <limits.h>
#include <lz4.h>

#include "base/bytes.h"
#include "codec/scratch.h"

/* A match of lzjb: 2 bytes, 6 bits of length, 10 of distance (02-blocks-and-objects.md, 3.5). */
#define LZJB_MATCH_MIN 3

static int lzjb_match(const uint8_t *src, const uint8_t *dst, uint8_t **out, const uint8_t *dst_end)
{
	size_t len = (src[0] >> 2) + LZJB_MATCH_MIN;
	size_t distance = (src[0] & 3) << 8 | src[1];
	uint8_t *o = *out;
	const uint8_t *from;

	if (distance == 0 || distance > (size_t)(o - dst))
		return -EINVAL;
	len = MIN(len, (size_t)(dst_end - o));
	from = o - distance;
	if (distance >= len) {
		memcpy(o, from, len);
	} else {
		for (size_t i = 0; i < len; i++)
			o[i] = from[i];
	}
	*out = o + len;
	return 0;
}

static int lzjb(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
	const uint8_t *src_end = src + src_size, *dst_end = dst + dst_size;
	unsigned flags = 0;
	uint8_t *o = dst;

	for (unsigned item = 0; o < dst_end; item++, flags >>= 1) {
		if (item % 8 == 0) {
			if (src == src_end)
				return -EINVAL;
			flags = *src++;
		}
		if (src_end - src < (flags & 1 ? 2 : 1))
			return -EINVAL;
		if (!(flags & 1)) {
			*o++ = *src++;
			continue;
		}
		if (lzjb_match(src, dst, &o, dst_end))
			return -EINVAL;
		src += 2;
	}
	return 0;
}

static int gzip(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
	struct codec_scratch *s = codec_scratch();
	z_stream *z = &s->inflate;

	if (src_size > UINT_MAX || dst_size > UINT_MAX)
		return -EINVAL;
	if (!s->inflate_ready) {
		if (inflateInit2(z, 15) != Z_OK)
			return -ENOMEM;
		s->inflate_ready = true;
	} else if (inflateReset(z) != Z_OK) {
		return -EINVAL;
	}
	z->next_in = (uint8_t *)src;
	z->avail_in = src_size;
	z->next_out = dst;
	z->avail_out = dst_size;
	return inflate(z, Z_FINISH) == Z_STREAM_END && z->avail_out == 0 ? 0 : -EINVAL;
}

/* A control byte below this announces one more literals than itself, else a run of zeros (3.6). */
#define ZLE_LITERALS 64

static int zle(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
	const uint8_t *src_end = src + src_size, *dst_end = dst + dst_size;

	while (dst < dst_end) {
		if (src == src_end)
			return -EINVAL;
		size_t control = *src++;
		size_t len = control < ZLE_LITERALS ? control + 1 : control - ZLE_LITERALS + 1;

		if (len > (size_t)(dst_end - dst))
			return -EINVAL;
		if (control < ZLE_LITERALS) {
			if (len > (size_t)(src_end - src))
				return -EINVAL;
			memcpy(dst, src, len);
			src += len;
		} else {
			memset(dst, 0, len);
		}
		dst += len;
	}
	return 0;
}

static int lz4(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
	size_t n;

	if (src_size < 4 || dst_size > LZ4_MAX_INPUT_SIZE)
		return -EINVAL;
	n = load_be32(src);
	if (n > src_size - 4 || n > INT_MAX)
		return -EINVAL;
	return LZ4_decompress_safe((const char *)src + 4, (char *)dst, n, dst_size) == (int)dst_size ? 0 : -EINVAL;
}

/* 3.4: the byte of the header that holds the level depends on the byte order and version of the host that wrote it. */
static int zstd_level_id(const uint8_t *h)
{
	if (h[7] == 0)
		return h[4];
	if (h[6] == 0)
		return h[7];
	if (h[5] == 0)
		return h[4];
	if (h[4] == 0)
		return h[7];
	return -EINVAL;
}

/* 3.1: 1 .. 19, the fast levels 103 .. 123, and 255 for the default. */
static bool zstd_level_is_valid(int id)
{
	return (id >= 1 && id <= 19) || (id >= 103 && id <= 123) || id == 255;
}

/* The frame format without magic number; the names of the two are only in zstd's header for static linking. */
#define ZSTD_FORMAT           ZSTD_d_experimentalParam1
#define ZSTD_FORMAT_MAGICLESS 1
#define ZSTD_HEADER           8

static int zstd(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
	struct codec_scratch *s = codec_scratch();
	size_t n, got;

	if (src_size < ZSTD_HEADER || !zstd_level_is_valid(zstd_level_id(src)))
		return -EINVAL;
	n = load_be32(src);
	if (n > src_size - ZSTD_HEADER)
		return -EINVAL;
	if (!s->zstd) {
		s->zstd = ZSTD_createDCtx();
		if (!s->zstd)
			return -ENOMEM;
		BUG_ON(ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_FORMAT, ZSTD_FORMAT_MAGICLESS)));
	}
	got = ZSTD_decompressDCtx(s->zstd, dst, dst_size, src + ZSTD_HEADER, n);
	return got == dst_size ? 0 : -EINVAL;
}

static int stored(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
	if (src_size < dst_size)
		return -EINVAL;
	memcpy(dst, src, dst_size);
	return 0;
}

/* 02-blocks-and-objects.md, 3.1 */
static const struct {
	const char *name;
	int (*decompress)(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size);
} table[COMPRESS_COUNT] = {
    [COMPRESS_INHERIT] = {"inherit"},
    [COMPRESS_ON] = {"on"},
    [COMPRESS_OFF] = {"off", stored},
    [COMPRESS_LZJB] = {"lzjb", lzjb},
    [COMPRESS_EMPTY] = {"empty"},
    [COMPRESS_GZIP_1] = {"gzip-1", gzip},
    {"gzip-2", gzip},
    {"gzip-3", gzip},
    {"gzip-4", gzip},
    {"gzip-5", gzip},
    {"gzip-6", gzip},
    {"gzip-7", gzip},
    {"gzip-8", gzip},
    {"gzip-9", gzip},
    [COMPRESS_ZLE] = {"zle", zle},
    [COMPRESS_LZ4] = {"lz4", lz4},
    [COMPRESS_ZSTD] = {"zstd", zstd},
};

int decompress(enum compress c, const void *src, size_t src_size, void *dst, size_t dst_size)
{
	if ((unsigned)c >= COMPRESS_COUNT || !table[c].decompress)
		return -ENOTSUP;
	return table[c].decompress(src, src_size, dst, dst_size);
}

const char *compress_name(enum compress c)
{
	return (unsigned)c < COMPRESS_COUNT ? table[c].name : NULL;
}
