#include "codec/scratch.h"

#include <pthread.h>

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static _Thread_local struct codec_scratch *scratch_mine;

static void scratch_free(void *arg)
{
	struct codec_scratch *s = arg;

	EVP_MD_CTX_free(s->md);
	ZSTD_freeDCtx(s->zstd);
	if (s->inflate_ready)
		inflateEnd(&s->inflate);
	ZSTD_freeCCtx(s->zstd_write);
	free(s->lz4);
	if (s->deflate_level)
		deflateEnd(&s->deflate);
	free(s);
	scratch_mine = NULL;
}

static void scratch_key_create(void)
{
	BUG_ON(pthread_key_create(&scratch_key, scratch_free) != 0);
}

struct codec_scratch *codec_scratch(void)
{
	struct codec_scratch *s = scratch_mine;

	if (s)
		return s;
	pthread_once(&scratch_once, scratch_key_create);
	s = xcalloc(1, sizeof(*s));
	s->md = EVP_MD_CTX_new();
	BUG_ON(!s->md);
	/* the key is there only for its destructor; reads go through the faster thread-local pointer */
	BUG_ON(pthread_setspecific(scratch_key, s) != 0);
	scratch_mine = s;
	return s;
}
