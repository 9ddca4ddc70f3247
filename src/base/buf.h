/*
 * base/buf.h: the one block buffer. Reference counted, its data 4096-byte aligned so that devices (O_DIRECT),
 * caches, ciphers and sockets share one copy.
 *
 * A buffer is written only while its creator holds the single reference; after it was shared (held twice, or put into
 * the cache) its bytes never change. Any thread may hold or release.
 * Freed buffers of common sizes are kept in bounded per-size free lists.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/base.h"

struct buf {
	uint8_t *data;
	uint32_t size;  /* usable bytes, as asked for */
	uint32_t alloc; /* bytes charged to buf_bytes_in_use() */
	atomic_uint refs;
	uint32_t cls; /* size class, for buf.c */
	struct buf *next_free;
};

/* NULL when memory cannot be had or size is 0 or above 32 MiB. Contents are undefined. One reference held. */
struct buf *buf_alloc(size_t size);
struct buf *buf_hold(struct buf *b);
void buf_release(struct buf *b); /* NULL is allowed */
/* Bytes of all live buffers (not those in the free lists). */
uint64_t buf_bytes_in_use(void);
/* The most bytes that freed buffers may keep for reuse (default 64 MiB); what is above it goes back at once. A cache
 * with a small limit of its own sets it to a part of that. */
void buf_cache_set_limit(uint64_t bytes);
uint64_t buf_cache_bytes(void);

static inline void autobuf_release(struct buf **pb)
{
	buf_release(*pb);
}
#define autobuf __attribute__((cleanup(autobuf_release), unused))

#endif
