/* Space of written blocks: freeing, claiming, log blocks, copies. See zio/zio.h. */
#include "base/sync.h"
#include "zio/zio.h"
#include "zio/zio_crypt.h"

#define GANG_HEADER_PSIZE 512u /* what is allocated for a header, whatever of it is used (02, section 5) */
#define GANG_DEPTH_MAX    16u
#define GANG_MEMBERS_MAX  ((64u << 10) / BP_SIZE)

/* What a block occupies: its DVAs, and under a gang block those of all headers and members. */
struct extent {
	struct dva dva;
	uint64_t birth;
};

struct extents {
	struct extent *v;
	size_t n, room;
};

static void extents_add(struct extents *x, const struct dva *dva, uint64_t birth)
{
	if (x->n == x->room) {
		x->room = x->room ? 2 * x->room : 8;
		x->v = xrealloc(x->v, x->room * sizeof(*x->v));
	}
	x->v[x->n++] = (struct extent){*dva, birth};
}

static int collect(struct zio_pool *zp, const struct bp *bp, unsigned depth, struct extents *x);

static int collect_members(struct zio_pool *zp, const struct bp *bp, unsigned depth, struct extents *x)
{
	static const struct zbookmark nowhere;
	autofree struct bp *member = xcalloc(GANG_MEMBERS_MAX, sizeof(*member));
	struct buf *header;
	unsigned n;
	int err;

	if (depth >= GANG_DEPTH_MAX)
		return -EINVAL;
	err = zio_read_wait(zp, bp, &nowhere, NULL, ZIO_RAW | ZIO_GANG_HEADER, &header);
	if (err)
		return err;
	n = zio_gang_members(bp, header, member);
	buf_release(header);
	for (unsigned i = 0; i < n && !err; i++)
		err = collect(zp, &member[i], depth + 1, x);
	return err;
}

static int collect(struct zio_pool *zp, const struct bp *bp, unsigned depth, struct extents *x)
{
	uint64_t birth = bp_physical_birth(bp);

	if (bp_check(bp))
		return -EINVAL;
	for (unsigned i = 0; i < bp_ndvas(bp); i++) {
		struct dva dva = bp_dva(bp, i);

		if (dva.vdev >= zp->root->nchildren)
			return -EINVAL;
		if (dva.gang)
			dva.asize = vdev_psize_to_asize(zp->root->child[dva.vdev], GANG_HEADER_PSIZE, birth);
		dva.gang = false;
		extents_add(x, &dva, birth);
	}
	return bp_is_gang(bp) ? collect_members(zp, bp, depth, x) : 0;
}

static bool has_space(const struct bp *bp)
{
	return !bp_is_hole(bp) && !bp_is_embedded(bp);
}

int zio_free(struct zio_pool *zp, const struct bp *bp, uint64_t txg)
{
	struct extents x = {NULL};
	int err;

	if (!zp->alloc)
		return -EROFS;
	err = has_space(bp) ? collect(zp, bp, 0, &x) : 0;
	for (size_t i = 0; i < x.n && !err; i++) {
		zp->alloc->free(zp->alloc_arg, &x.v[i].dva, txg, x.v[i].birth);
		counter_add(&zp->freed, x.v[i].dva.asize);
	}
	free(x.v);
	return err;
}

int zio_claim(struct zio_pool *zp, const struct bp *bp, uint64_t txg)
{
	struct extents x = {NULL};
	int err;

	if (!zp->alloc)
		return -EROFS;
	err = has_space(bp) ? collect(zp, bp, 0, &x) : 0;
	for (size_t i = 0; i < x.n && !err; i++)
		err = zp->alloc->claim(zp->alloc_arg, &x.v[i].dva, txg);
	free(x.v);
	return err;
}

int zio_alloc_zil(struct zio_pool *zp, uint64_t txg, uint32_t size, struct crypt_key *key, unsigned flags,
		  struct bp *out)
{
	struct bp_props props = {
	    .lsize = size,
	    .psize = size,
	    .compress = COMPRESS_OFF,
	    .checksum = zp->old_log ? CHECKSUM_ZILOG : CHECKSUM_ZILOG2,
	    .type = DMU_OT_INTENT_LOG,
	    .crypt = key != NULL,
	};
	struct dva dva[BP_DVAS];
	int err;

	if (!zp->alloc)
		return -EROFS;
	if (size == 0 || size % 4096 || size > BLOCK_MAX)
		return -EINVAL;
	if (key && !crypt_key_can_seal(key))
		return -ENOTSUP;
	err = zp->alloc->alloc(zp->alloc_arg, ZIO_CLASS_LOG, size, 1, txg, ZIO_ALLOC_ZIL | (flags & ZIO_ALLOC_NOWAIT),
			       NULL, dva);
	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	bp_set_props(out, &props);
	bp_set_dva(out, 0, &dva[0]);
	out->w[10] = txg;
	if (key)
		zio_crypt_set_fresh(key, out);
	counter_add(&zp->allocated, dva[0].asize);
	return 0;
}

/* --- copies (02, 1.6) --- */

enum redundant { REDUNDANT_ALL, REDUNDANT_MOST, REDUNDANT_SOME, REDUNDANT_NONE };

static unsigned copies_cap(unsigned n, unsigned type, bool encrypted)
{
	return MIN(n, encrypted && dmu_type_is_encrypted(type) ? BP_DVAS - 1 : BP_DVAS);
}

static bool copies_is_critical(unsigned type, unsigned level)
{
	return dmu_type_is_metadata(type) && !(type == DMU_OT_DNODE && level == 0) &&
	       type != DMU_OT_DIRECTORY_CONTENTS && type != DMU_OT_SA;
}

unsigned zio_copies(unsigned type, unsigned level, unsigned asked, unsigned redundant_metadata, bool encrypted)
{
	bool metadata = dmu_type_is_metadata(type), more = false;

	if (type == DMU_OT_INTENT_LOG)
		return 1;
	if (redundant_metadata == REDUNDANT_ALL)
		more = metadata || level > 0;
	else if (redundant_metadata == REDUNDANT_MOST)
		more = metadata || level >= 2;
	else if (redundant_metadata == REDUNDANT_SOME)
		more = copies_is_critical(type, level);
	return copies_cap(MAX(asked, 1) + more, type, encrypted);
}

unsigned zio_gang_copies(unsigned type, unsigned level, unsigned asked, unsigned redundant_metadata, bool encrypted)
{
	bool metadata = dmu_type_is_metadata(type), more = false;

	if (redundant_metadata == REDUNDANT_ALL)
		more = true;
	else if (redundant_metadata == REDUNDANT_MOST)
		more = metadata || level + 1 >= 2;
	else if (redundant_metadata == REDUNDANT_SOME)
		more = metadata;
	return MAX(copies_cap(MAX(asked, 1) + more, type, encrypted),
		   zio_copies(type, level, asked, redundant_metadata, encrypted));
}
