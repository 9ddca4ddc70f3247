/*
 * codec/scratch.h: per-thread working contexts of the libraries under codec/, made at first use and freed when the
 * thread ends, so that a block costs no allocation. Private to codec/.
 */
#ifndef CODEC_SCRATCH_H
#define CODEC_SCRATCH_H

#include <openssl/evp.h>
#include <zlib.h>
#include <zstd.h>

#include "base/base.h"

struct codec_scratch {
	EVP_MD_CTX *md;  /* never NULL */
	ZSTD_DCtx *zstd; /* NULL until first used */
	z_stream inflate;
	bool inflate_ready;
	ZSTD_CCtx *zstd_write; /* NULL until first used */
	void *lz4;             /* working memory; NULL until first used */
	z_stream deflate;
	unsigned deflate_level; /* that `deflate` is set up for; 0: not yet */
};

/* This thread's. Ends the program when there is no memory for it. */
struct codec_scratch *codec_scratch(void);

#endif
