/*
 * Blocks of an object, as slices of the cache, for the reader and the writer of ZAPs; and the locks that keep them
 * apart.
 */
#include "base/hash.h"
#include "base/sync.h"
#include "dmu/zap_impl.h"

#define ZAP_LOCKS 64u

/* Of objects in sets that are written. Which one an object has follows from its number. */
static struct zap_lock locks[ZAP_LOCKS];

__attribute__((constructor)) static void locks_init(void)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
#ifdef __GLIBC__
	/* many look up while the sync thread waits to change something: it goes first */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
	for (unsigned i = 0; i < ZAP_LOCKS; i++)
		pthread_rwlock_init(&locks[i].rw, &attr);
	pthread_rwlockattr_destroy(&attr);
}

struct dmu_source {
	struct zap_source source;
	struct dnode *dn;
	struct tx *tx; /* NULL: only read */
};

static void block_read_done(struct dmu_read *r, int err)
{
	waiter_done(r->arg, err);
}

static int slices_join(const struct dmu_read *r, struct zap_block *out)
{
	uint8_t *to;

	out->buf = buf_alloc(r->length);
	if (!out->buf)
		return -ENOMEM;
	out->data = to = out->buf->data;
	for (unsigned i = 0; i < r->nslices; i++) {
		const struct dmu_slice *s = &r->slice[i];

		if (s->data)
			memcpy(to, s->data, s->len);
		else
			memset(to, 0, s->len);
		to += s->len;
	}
	return 0;
}

static int block_take(const struct dmu_read *r, struct zap_block *out)
{
	const struct dmu_slice *s = r->slice;

	out->len = r->length;
	if (r->nslices != 1)
		return slices_join(r, out);
	if (!s->data)
		return -EINVAL;
	out->buf = buf_hold(s->buf);
	out->data = s->data;
	return 0;
}

static int dmu_source_read(struct zap_source *source, uint64_t blkid, struct zap_block *out)
{
	struct dmu_source *s = container_of(source, struct dmu_source, source);
	struct waiter w;
	struct dmu_read r = {
	    .dn = s->dn,
	    .length = source->block_size,
	    .flags = DMU_READ_NOPREFETCH, /* leaves are met in the order of hashes */
	    .done = block_read_done,
	    .arg = &w,
	};
	int err;

	if (blkid >= source->nblocks || __builtin_mul_overflow(blkid, (uint64_t)source->block_size, &r.offset))
		return -EINVAL;
	waiter_init(&w);
	dmu_read_submit(&r);
	err = waiter_wait(&w);
	if (!err)
		err = block_take(&r, out);
	dmu_read_finish(&r);
	return err;
}

static void dmu_source_close(struct zap_source *source)
{
	struct dmu_source *s = container_of(source, struct dmu_source, source);

	dnode_release(s->dn);
	free(s);
}

static void dmu_source_refresh(struct zap_source *source)
{
	const struct dnode *dn = container_of(source, struct dmu_source, source)->dn;

	source->block_size = dn->datablksz;
	source->nblocks = dn->maxblkid == UINT64_MAX ? UINT64_MAX : dn->maxblkid + 1;
}

static int dmu_source_write(struct zap_source *source, uint64_t offset, const void *data, size_t len)
{
	struct dmu_source *s = container_of(source, struct dmu_source, source);
	int err = dmu_write(s->dn, offset, data, len, s->tx);

	if (!err)
		source->nblocks = MAX(source->nblocks, (offset + len - 1) / source->block_size + 1);
	return err;
}

static int dmu_source_resize(struct zap_source *source, uint32_t block_size)
{
	struct dmu_source *s = container_of(source, struct dmu_source, source);
	int err = dmu_object_set_blocksize(s->dn, block_size, 0, s->tx);

	if (!err)
		source->block_size = block_size;
	return err;
}

static int dmu_source_punch(struct zap_source *source, uint64_t blkid, uint64_t n)
{
	struct dmu_source *s = container_of(source, struct dmu_source, source);
	uint64_t bs = source->block_size;

	return dmu_free_range(s->dn, blkid * bs, n * bs, s->tx);
}

static int dmu_source_cut(struct zap_source *source, uint64_t nblocks)
{
	struct dmu_source *s = container_of(source, struct dmu_source, source);
	int err = dmu_free_range(s->dn, nblocks * source->block_size, UINT64_MAX, s->tx);

	if (!err)
		source->nblocks = MIN(source->nblocks, MAX(nblocks, 1));
	return err;
}

static unsigned name_max(const struct dnode *dn)
{
	return dn->type == DMU_OT_DIRECTORY_CONTENTS ? ZAP_NAME_MAX : 256;
}

struct zap_source *zap_source_of_dnode(struct dnode *dn, struct tx *tx)
{
	struct dmu_source *s = xcalloc(1, sizeof(*s));

	s->dn = dn;
	s->tx = tx;
	s->source.read = dmu_source_read;
	s->source.close = dmu_source_close;
	if (dn->os->ops) {
		s->source.lock = &locks[hash_mix((uintptr_t)dn->os, dn->object) % ZAP_LOCKS];
		s->source.refresh = dmu_source_refresh;
	}
	if (tx) {
		s->source.write = dmu_source_write;
		s->source.resize = dmu_source_resize;
		s->source.punch = dmu_source_punch;
		s->source.cut = dmu_source_cut;
		s->source.name_max = name_max(dn);
	}
	dmu_source_refresh(&s->source);
	return &s->source;
}
