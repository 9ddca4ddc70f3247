/*
 * tests/lib/zapbuf.h: a ZAP source over bytes in memory, block after block.
 */
#ifndef TESTS_ZAPBUF_H
#define TESTS_ZAPBUF_H

#include "dmu/zap_impl.h"

struct zapbuf {
	struct zap_source source;
	const uint8_t *bytes;
};

static int zapbuf_read(struct zap_source *s, uint64_t blkid, struct zap_block *out)
{
	struct zapbuf *b = container_of(s, struct zapbuf, source);

	if (blkid >= s->nblocks)
		return -EINVAL;
	out->data = b->bytes + blkid * s->block_size;
	out->len = s->block_size;
	return 0;
}

static void zapbuf_close(struct zap_source *s)
{
	free(container_of(s, struct zapbuf, source));
}

static struct zap_source *zapbuf_create(const uint8_t *bytes, size_t size, uint32_t block_size)
{
	struct zapbuf *b = xcalloc(1, sizeof(*b));

	b->bytes = bytes;
	b->source = (struct zap_source){
	    .block_size = block_size,
	    .nblocks = size / block_size,
	    .read = zapbuf_read,
	    .close = zapbuf_close,
	};
	return &b->source;
}

#endif
