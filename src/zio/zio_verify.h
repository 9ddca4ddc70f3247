/*
 * zio/zio_verify.h: checking many blocks with many reads in flight (zdb -c, later scrub).
 *
 * Blocks are handed in in any order by one or several threads; submission waits while the bound on bytes in flight is
 * reached. Every copy of a block is read, nothing is cached, decrypted or decompressed.
 */
#ifndef ZIO_ZIO_VERIFY_H
#define ZIO_ZIO_VERIFY_H

#include "zio/zio.h"

struct zio_verifier;

/* done: for each block, on a cpu worker, err as of zio_read; does not block. */
typedef void (*zio_verify_fn)(void *arg, const struct bp *bp, const struct zbookmark *zb, int err);

struct zio_verifier *zio_verifier_create(struct zio_pool *zp, uint64_t max_bytes, zio_verify_fn done, void *arg);
/* Holes and embedded pointers are done at once, without a call. Not on cpu workers. */
void zio_verifier_submit(struct zio_verifier *v, const struct bp *bp, const struct zbookmark *zb);
/* Until nothing is in flight. */
void zio_verifier_wait(struct zio_verifier *v);
void zio_verifier_destroy(struct zio_verifier *v);         /* waits */
uint64_t zio_verifier_bytes(const struct zio_verifier *v); /* stored bytes checked so far */

#endif
