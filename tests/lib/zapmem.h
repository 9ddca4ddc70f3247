/*
 * tests/lib/zapmem.h: a ZAP in memory that can be changed: blocks that are or are not there, as an object has them.
 * Reads hand out copies, as the cache does; a read of what was punched out fails.
 */
#ifndef TESTS_ZAPMEM_H
#define TESTS_ZAPMEM_H

#include "dmu/zap_impl.h"

struct zapmem {
	uint32_t block_size;
	uint64_t nblocks;
	uint8_t **block;  /* NULL: a hole */
	uint64_t written; /* bytes, since the start */
};

struct zapmem_source {
	struct zap_source source;
	struct zapmem *mem;
};

static struct zapmem *zapmem_of(struct zap_source *s)
{
	return container_of(s, struct zapmem_source, source)->mem;
}

static int zapmem_read(struct zap_source *s, uint64_t blkid, struct zap_block *out)
{
	struct zapmem *m = zapmem_of(s);

	if (blkid >= m->nblocks || !m->block[blkid])
		return -EINVAL;
	out->buf = buf_alloc(m->block_size);
	memcpy(out->buf->data, m->block[blkid], m->block_size);
	out->data = out->buf->data;
	out->len = m->block_size;
	return 0;
}

static int zapmem_write(struct zap_source *s, uint64_t offset, const void *data, size_t len)
{
	struct zapmem *m = zapmem_of(s);

	m->written += len;
	for (size_t at = 0; at < len;) {
		uint64_t blkid = (offset + at) / m->block_size, in = (offset + at) % m->block_size;
		size_t n = MIN(len - at, m->block_size - in);

		if (blkid >= m->nblocks) {
			m->block = xrealloc(m->block, (blkid + 1) * sizeof(*m->block));
			while (m->nblocks <= blkid)
				m->block[m->nblocks++] = NULL;
		}
		if (!m->block[blkid])
			m->block[blkid] = xcalloc(1, m->block_size);
		memcpy(m->block[blkid] + in, (const uint8_t *)data + at, n);
		at += n;
	}
	s->nblocks = m->nblocks;
	return 0;
}

static int zapmem_punch(struct zap_source *s, uint64_t blkid, uint64_t n)
{
	struct zapmem *m = zapmem_of(s);

	for (uint64_t i = blkid; i < MIN(blkid + n, m->nblocks); i++) {
		free(m->block[i]);
		m->block[i] = NULL;
	}
	return 0;
}

static int zapmem_cut(struct zap_source *s, uint64_t nblocks)
{
	struct zapmem *m = zapmem_of(s);

	if (nblocks < m->nblocks) {
		zapmem_punch(s, nblocks, m->nblocks - nblocks);
		m->nblocks = s->nblocks = MAX(nblocks, 1);
	}
	return 0;
}

static int zapmem_resize(struct zap_source *s, uint32_t block_size)
{
	struct zapmem *m = zapmem_of(s);

	if (m->nblocks > 1)
		return -ENOTSUP;
	zapmem_cut(s, 0);
	zapmem_punch(s, 0, m->nblocks);
	m->block_size = s->block_size = block_size;
	return 0;
}

static void zapmem_close(struct zap_source *s)
{
	free(container_of(s, struct zapmem_source, source));
}

static struct zap_source *zapmem_source(struct zapmem *m)
{
	struct zapmem_source *s = xcalloc(1, sizeof(*s));

	s->mem = m;
	s->source = (struct zap_source){
	    .block_size = m->block_size,
	    .nblocks = m->nblocks,
	    .read = zapmem_read,
	    .close = zapmem_close,
	    .write = zapmem_write,
	    .resize = zapmem_resize,
	    .punch = zapmem_punch,
	    .cut = zapmem_cut,
	    .name_max = 256,
	};
	return &s->source;
}

static void zapmem_free(struct zapmem *m)
{
	for (uint64_t i = 0; i < m->nblocks; i++)
		free(m->block[i]);
	free(m->block);
	*m = (struct zapmem){0};
}

#endif
