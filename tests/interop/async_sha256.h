/*
 * tests/interop/async_sha256.h: hash a range of a file or volume through the asynchronous reads, several in flight.
 */
#ifndef TESTS_INTEROP_ASYNC_SHA256_H
#define TESTS_INTEROP_ASYNC_SHA256_H

#include <openssl/evp.h>

#include "dmu/dmu.h"

/* `submit` starts one read on `what`. The bytes of [offset, offset + length) go into `md` in order. */
int async_sha256(void (*submit)(void *what, struct dmu_read *r), void *what, uint64_t offset, uint64_t length,
		 EVP_MD_CTX *md);

#endif
