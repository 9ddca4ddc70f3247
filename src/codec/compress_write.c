/* The compressing side of codec/compress.h (docs/format/02-blocks-and-objects.md, 3.4 - 3.7). */
#include <limits.h>
#include <lz4.h>

#include "base/bytes.h"
#include "codec/compress.h"
#include "codec/scratch.h"

/* --- lzjb (3.5) --- */

#define LZJB_ITEMS     8 /* to a byte of flags */
#define LZJB_MATCH_MIN 3u
#define LZJB_MATCH_MAX 66u
#define LZJB_DISTANCE  1024u
#define LZJB_TABLE     1024u
#define LZJB_GROUP_MAX (1 + 2 * LZJB_ITEMS)

static unsigned lzjb_hash(const uint8_t *p)
{
	uint32_t h = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

	h += h >> 9;
	h += h >> 5;
	return h & (LZJB_TABLE - 1);
}

static size_t lzjb_match_length(const uint8_t *at, const uint8_t *from)
{
	size_t len = LZJB_MATCH_MIN;

	while (len < LZJB_MATCH_MAX && at[len] == from[len])
		len++;
	return len;
}

/* Length of a match at i, and its distance; 0: none. */
static size_t lzjb_find(uint16_t table[LZJB_TABLE], const uint8_t *src, size_t i, size_t *distance)
{
	unsigned h = lzjb_hash(src + i);
	size_t off = (i - table[h]) & (LZJB_DISTANCE - 1);

	table[h] = (uint16_t)i;
	*distance = off;
	if (off == 0 || off > i || memcmp(src + i, src + i - off, LZJB_MATCH_MIN) != 0)
		return 0;
	return lzjb_match_length(src + i, src + i - off);
}

static size_t lzjb(unsigned level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	uint16_t table[LZJB_TABLE] = {0};
	uint8_t *flags = NULL;
	size_t o = 0, i = 0;

	for (unsigned item = 0; i < n; item++) {
		size_t len = 0, distance = 0;

		if (item % LZJB_ITEMS == 0) {
			if (o + LZJB_GROUP_MAX >= room)
				return 0;
			flags = &dst[o++];
			*flags = 0;
		}
		if (i + LZJB_MATCH_MAX <= n)
			len = lzjb_find(table, src, i, &distance);
		if (len == 0) {
			dst[o++] = src[i++];
			continue;
		}
		*flags |= (uint8_t)(1u << item % LZJB_ITEMS);
		dst[o++] = (uint8_t)((len - LZJB_MATCH_MIN) << 2 | distance >> 8);
		dst[o++] = (uint8_t)distance;
		i += len;
	}
	return o;
}

/* --- zle (3.6) --- */

#define ZLE_LITERALS 64u
#define ZLE_ZEROS    192u

static size_t zle_zeros(const uint8_t *src, size_t n)
{
	size_t run = 0;

	while (run < n && run < ZLE_ZEROS && src[run] == 0)
		run++;
	return run;
}

/* Up to a pair of zeros; a single one is cheaper as a literal. */
static size_t zle_literals(const uint8_t *src, size_t n)
{
	size_t max = MIN(n, ZLE_LITERALS) - 1, run = 0;

	while (run < max && (src[run] || src[run + 1]))
		run++;
	return src[run] ? run + 1 : run;
}

static size_t zle(unsigned level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	size_t o = 0, i = 0;

	while (i < n) {
		size_t run = zle_zeros(src + i, n - i);

		if (o + 1 >= room)
			return 0;
		if (run) {
			dst[o++] = (uint8_t)(run - 1 + ZLE_LITERALS);
		} else {
			if (room - o - 1 < ZLE_LITERALS)
				return 0;
			run = zle_literals(src + i, n - i);
			dst[o++] = (uint8_t)(run - 1);
			memcpy(dst + o, src + i, run);
			o += run;
		}
		i += run;
	}
	return o;
}

/* --- lz4 (3.7) --- */

#define LZ4_HEADER 4u

static size_t lz4(unsigned level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	struct codec_scratch *s = codec_scratch();
	int got;

	if (room <= LZ4_HEADER || n > LZ4_MAX_INPUT_SIZE)
		return 0;
	if (!s->lz4)
		s->lz4 = xmalloc((size_t)LZ4_sizeofState());
	got = LZ4_compress_fast_extState(s->lz4, (const char *)src, (char *)dst + LZ4_HEADER, (int)n,
					 (int)MIN(room - LZ4_HEADER, INT_MAX), 1);
	if (got <= 0)
		return 0;
	store_be32(dst, (uint32_t)got);
	return (size_t)got + LZ4_HEADER;
}

/* --- gzip --- */

static size_t gzip(unsigned level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	struct codec_scratch *s = codec_scratch();
	z_stream *z = &s->deflate;

	if (n > UINT_MAX || room > UINT_MAX)
		return 0;
	if (s->deflate_level && s->deflate_level != level) {
		deflateEnd(z);
		s->deflate_level = 0;
	}
	if (!s->deflate_level) {
		if (deflateInit2(z, (int)level, Z_DEFLATED, 15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
			return 0;
		s->deflate_level = level;
	} else if (deflateReset(z) != Z_OK) {
		return 0;
	}
	z->next_in = (uint8_t *)src;
	z->avail_in = (unsigned)n;
	z->next_out = dst;
	z->avail_out = (unsigned)room;
	return deflate(z, Z_FINISH) == Z_STREAM_END ? z->total_out : 0;
}

/* --- zstd (3.4) --- */

#define ZSTD_HEADER        8u
#define ZSTD_LEVEL_DEFAULT 3
/* A level that decides whether a block is worth more, and for which blocks (3.4). */
#define ZSTD_EARLY_LEVEL 3
#define ZSTD_EARLY_SIZE  (128u << 10)
/* What a thread keeps of a context: with large blocks and high levels they grow to 100 MiB. */
#define ZSTD_KEEP_MAX (8u << 20)
/* The frame format without magic number; the names are only in zstd's header for static linking. */
#define ZSTD_FORMAT           ZSTD_c_experimentalParam2
#define ZSTD_FORMAT_MAGICLESS 1

int compress_zstd_level(unsigned id)
{
	static const int fast[] = {-20, -30, -40, -50, -60, -70, -80, -90, -100, -500, -1000};

	if (id == 0 || id == 255)
		return ZSTD_LEVEL_DEFAULT;
	if (id <= 19)
		return (int)id;
	if (id >= 103 && id <= 112)
		return 102 - (int)id;
	if (id >= 113 && id <= 123)
		return fast[id - 113];
	return 0;
}

static ZSTD_CCtx *zstd_context(struct codec_scratch *s)
{
	ZSTD_CCtx *c = s->zstd_write;

	if (c)
		return c;
	c = ZSTD_createCCtx();
	if (!c)
		return NULL;
	BUG_ON(ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_FORMAT, ZSTD_FORMAT_MAGICLESS)) ||
	       ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0)) ||
	       ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 0)));
	return s->zstd_write = c;
}

static size_t zstd_at(int level, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	struct codec_scratch *s = codec_scratch();
	ZSTD_CCtx *c = zstd_context(s);
	size_t got;

	if (!c || room <= ZSTD_HEADER)
		return 0;
	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
	got = ZSTD_compress2(c, dst + ZSTD_HEADER, room - ZSTD_HEADER, src, n);
	if (ZSTD_sizeof_CCtx(c) > ZSTD_KEEP_MAX) {
		ZSTD_freeCCtx(c);
		s->zstd_write = NULL;
	}
	return ZSTD_isError(got) ? 0 : got;
}

static size_t zstd(unsigned id, const uint8_t *src, size_t n, uint8_t *dst, size_t room)
{
	int level = compress_zstd_level(id);
	size_t got;

	if (level == 0)
		return 0;
	if (level >= ZSTD_EARLY_LEVEL && n >= ZSTD_EARLY_SIZE && !lz4(0, src, n, dst, room) &&
	    !zstd_at(1, src, n, dst, room))
		return 0;
	got = zstd_at(level, src, n, dst, room);
	if (!got)
		return 0;
	store_be32(dst, (uint32_t)got);
	store_be32(dst + 4, ZSTD_versionNumber());
	dst[4] = id == 0 || id == 255 ? ZSTD_LEVEL_DEFAULT : (uint8_t)id;
	return got + ZSTD_HEADER;
}

static const struct {
	size_t (*compress)(unsigned level, const uint8_t *src, size_t n, uint8_t *dst, size_t room);
	unsigned level; /* when the id says it */
} table[COMPRESS_COUNT] = {
    [COMPRESS_LZJB] = {lzjb},
    [COMPRESS_GZIP_1] = {gzip, 1},
    {gzip, 2},
    {gzip, 3},
    {gzip, 4},
    {gzip, 5},
    {gzip, 6},
    {gzip, 7},
    {gzip, 8},
    {gzip, 9},
    [COMPRESS_ZLE] = {zle},
    [COMPRESS_LZ4] = {lz4},
    [COMPRESS_ZSTD] = {zstd},
};

size_t compress_block(enum compress c, unsigned level, const void *src, size_t src_size, void *dst, size_t dst_size)
{
	if ((unsigned)c >= COMPRESS_COUNT || !table[c].compress || src_size == 0 || dst_size == 0)
		return 0;
	return table[c].compress(table[c].level ? table[c].level : level, src, src_size, dst, dst_size);
}
