/* What of a block is stored, and how its pointer describes it (docs/format/02-blocks-and-objects.md, 3.2 and 3.3). */
#include "zio/zio_crypt.h"
#include "zio/zio_write_impl.h"

static bool is_zero(const uint8_t *data, size_t size)
{
	const uint64_t *w = (const uint64_t *)data;
	size_t n = size / sizeof(*w);

	for (size_t i = 0; i + 8 <= n; i += 8)
		if (w[i] | w[i + 1] | w[i + 2] | w[i + 3] | w[i + 4] | w[i + 5] | w[i + 6] | w[i + 7])
			return false;
	return true;
}

static int check_request(const struct zio_wop *op)
{
	const struct zio_write *w = op->w;
	const struct zio_policy *p = &w->policy;

	if (p->copies < 1 || p->copies > BP_DVAS || p->gang_copies > BP_DVAS || p->level > 31)
		return -EINVAL;
	if (p->dedup || (w->key && !crypt_key_can_seal(w->key)))
		return -ENOTSUP;
	return 0;
}

/* A block that never was leaves no trace. */
static void make_hole(struct zio_wop *op)
{
	const struct zio_write *w = op->w;
	bool birth = op->zp->hole_birth && bp_birth(&w->bp) != 0;

	bp_set_hole(&op->bp, w->policy.type, w->policy.level, w->lsize, birth ? w->txg : 0);
}

static int make_sum(struct zio_wop *op)
{
	enum checksum c = bp_checksum(&op->bp);
	bool beside_mac = bp_uses_crypt(&op->bp) && bp_type(&op->bp) != DMU_OT_OBJSET;
	struct cksum sum = {{0}};
	int err;

	if (c != CHECKSUM_OFF && c != CHECKSUM_NOPARITY) {
		err = checksum_compute(c, op->zp->salt, op->data->data, op->psize, bp_is_swapped(&op->bp), &sum);
		if (err)
			return err;
	}
	if (beside_mac)
		checksum_truncate(c, &sum);
	memcpy(&op->bp.w[12], &sum, beside_mac ? sizeof(sum) / 2 : sizeof(sum));
	return 0;
}

static int make_log_block(struct zio_wop *op)
{
	const struct zio_write *w = op->w;
	bool crypt = bp_uses_crypt(&op->bp);
	struct cksum verifier;
	int err = 0;

	if (crypt != (w->key != NULL))
		return crypt ? -EKEY : -EINVAL;
	if (bp_checksum(&op->bp) == CHECKSUM_ZILOG && w->lsize != bp_psize(&op->bp)) /* its trailer is at the end */
		return -EINVAL;
	if (crypt)
		err = zio_crypt_encrypt(w->key, &op->bp, w->data->data, w->data->data, w->lsize);
	if (err)
		return err;
	memcpy(&verifier, &op->bp.w[12], sizeof(verifier));
	return checksum_embedded_put(bp_checksum(&op->bp), w->data->data, w->lsize, &verifier, bp_is_swapped(&op->bp),
				     crypt);
}

/* Over a block whose pointer is known: nothing in it changes but checksum words. */
static int transform_fixed(struct zio_wop *op)
{
	const struct zio_write *w = op->w;
	enum checksum c = bp_checksum(&w->bp);

	op->data = buf_hold(w->data);
	op->bp = w->bp;
	op->psize = w->lsize;
	if (bp_check(&op->bp) || bp_is_hole(&op->bp) || bp_is_embedded(&op->bp) || bp_is_gang(&op->bp))
		return -EINVAL;
	if (w->lsize == 0 || w->lsize % 512 || w->lsize > bp_psize(&op->bp) || w->data->size < w->lsize)
		return -EINVAL;
	for (unsigned i = 0; i < bp_ndvas(&op->bp); i++)
		if (bp_dva(&op->bp, i).vdev >= op->zp->root->nchildren)
			return -EINVAL;
	if (c == CHECKSUM_ZILOG || c == CHECKSUM_ZILOG2)
		return make_log_block(op);
	if (w->key)
		return -ENOTSUP;
	return w->lsize == bp_psize(&op->bp) ? make_sum(op) : -EINVAL;
}

/* Of sizes on the devices. They change when one is added: read once per block. */
struct granularity {
	uint64_t gcd, min;
};

static struct granularity granularity_of(const struct zio_pool *zp)
{
	return (struct granularity){MAX(zp->gcd_alloc, 512), MAX(zp->min_alloc, 512)};
}

/* The size that a compressed block must not exceed: an eighth is to be saved (3.3). */
static uint64_t compressed_max(const struct granularity *g, enum compress c, uint64_t lsize)
{
	uint64_t max = lsize - lsize / 8;

	if (c != COMPRESS_ZLE)
		max -= max % g->gcd;
	return max < g->min ? BP_EMBEDDED_MAX : max;
}

/*
 * Stored bytes that somebody else made. They are padded to this pool's granularity, as far as the pointer can say so.
 */
static int transform_raw(struct zio_wop *op)
{
	const struct zio_write *w = op->w;
	const struct granularity g = granularity_of(op->zp);
	uint64_t psize = bp_psize(&w->bp), stored;
	bool crypt = bp_is_encrypted(&w->bp);
	struct bp *bp = &op->bp;

	*bp = w->bp;
	stored = psize > g.min ? ROUND_UP(psize, g.gcd) : g.min;
	stored = bp_compress(bp) == COMPRESS_OFF ? psize : MIN(stored, bp_lsize(bp));
	if (bp_is_embedded(bp) || bp_lsize(bp) > BLOCK_MAX || psize > bp_lsize(bp) || w->data->size < psize ||
	    bp_compress(bp) >= COMPRESS_COUNT)
		return -EINVAL;
	op->data = stored > psize ? buf_alloc(stored) : buf_hold(w->data);
	if (!op->data)
		return -ENOMEM;
	if (stored > psize) {
		memcpy(op->data->data, w->data->data, psize);
		memset(op->data->data + psize, 0, stored - psize);
	}
	op->psize = (uint32_t)stored;
	bp_set_props(bp, &(struct bp_props){.lsize = bp_lsize(&w->bp),
					    .psize = stored,
					    .compress = bp_compress(&w->bp),
					    .checksum = w->policy.checksum,
					    .type = bp_type(&w->bp),
					    .level = bp_level(&w->bp),
					    .crypt = bp_uses_crypt(&w->bp),
					    .swapped = bp_is_swapped(&w->bp)});
	memset(bp->w, 0, (crypt ? BP_DVAS - 1 : BP_DVAS) * 2 * sizeof(bp->w[0]));
	memset(&bp->w[7], 0, 3 * sizeof(bp->w[0]));
	bp->w[10] = w->txg;
	zio_crypt_set_fill(bp, w->fill);
	return make_sum(op);
}

static bool can_embed(const struct zio_write *w)
{
	const struct zio_policy *p = &w->policy;

	return p->embed && p->level == 0 && !w->key && p->type != DMU_OT_DNODE && p->type != DMU_OT_OBJSET;
}

static struct bp_props props_of(const struct zio_write *w, enum compress compress, uint64_t psize)
{
	return (struct bp_props){
	    .lsize = w->lsize,
	    .psize = psize,
	    .compress = compress,
	    .checksum = w->policy.checksum,
	    .type = w->policy.type,
	    .level = w->policy.level,
	    .crypt = w->key != NULL,
	    .swapped = w->policy.byteorder,
	};
}

/*
 * The block compressed: stored, embedded (op->data stays NULL), or as it is: *compress is then off. `max` and what
 * becomes of the result are those of 3.3.
 */
static int transform_compress(struct zio_wop *op, enum compress *compress)
{
	const struct zio_write *w = op->w;
	const struct granularity g = granularity_of(op->zp);
	uint64_t max = compressed_max(&g, *compress, w->lsize), psize;
	autobuf struct buf *out = buf_alloc(MAX(ROUND_UP(max, g.gcd), g.min));
	size_t used;

	if (!out)
		return -ENOMEM;
	used = compress_block(*compress, w->policy.complevel, w->data->data, w->lsize, out->data, max);
	if (used && used <= BP_EMBEDDED_MAX && can_embed(w)) {
		struct bp_props props = props_of(w, *compress, used);

		bp_set_embedded(&op->bp, &props, out->data, w->txg);
		return 0;
	}
	psize = used > g.min ? ROUND_UP(used, g.gcd) : g.min;
	if (!used || psize >= w->lsize) {
		*compress = COMPRESS_OFF;
		return 0;
	}
	memset(out->data + used, 0, psize - used);
	op->psize = (uint32_t)psize;
	op->data = buf_hold(out);
	return 0;
}

/* --- encrypted sets (04, A1.9 - A1.13) --- */

/* Bytes that only we hold, to be changed: the compressed ones, or a copy. */
static int own_data(struct zio_wop *op)
{
	struct buf *b;

	if (op->data != op->w->data)
		return 0;
	b = buf_alloc(op->psize);
	if (!b)
		return -ENOMEM;
	memcpy(b->data, op->data->data, op->psize);
	buf_release(op->data);
	op->data = b;
	return 0;
}

static int seal_data(struct zio_wop *op)
{
	struct buf *to = op->data != op->w->data ? buf_hold(op->data) : buf_alloc(op->psize);
	int err;

	if (!to)
		return -ENOMEM;
	zio_crypt_set_fresh(op->w->key, &op->bp);
	err = zio_crypt_encrypt(op->w->key, &op->bp, op->data->data, to->data, op->psize);
	buf_release(op->data);
	op->data = to;
	return err;
}

static int seal(struct zio_wop *op)
{
	struct crypt_key *key = op->w->key;
	int err;

	if (bp_level(&op->bp) > 0)
		return zio_crypt_set_indirect(&op->bp, op->w->data->data, op->w->lsize);
	if (bp_is_encrypted(&op->bp))
		return seal_data(op);
	if (bp_type(&op->bp) != DMU_OT_OBJSET) {
		zio_crypt_authenticate(key, &op->bp, op->data->data, op->psize);
		return 0;
	}
	err = own_data(op);
	return err ? err : zio_crypt_seal_objset(key, &op->bp, op->data->data, op->psize);
}

/* What must stay readable field by field is never compressed in encrypted sets (3.2). */
static enum compress compress_sealed(const struct zio_write *w, enum compress compress)
{
	const struct zio_policy *p = &w->policy;

	if (!w->key || p->level > 0 || (p->type != DMU_OT_DNODE && p->type != DMU_OT_OBJSET))
		return compress;
	return compress == COMPRESS_OFF ? COMPRESS_OFF : COMPRESS_EMPTY;
}

static int transform_block(struct zio_wop *op, enum compress compress, enum zio_made *made)
{
	const struct zio_write *w = op->w;
	struct bp_props props;
	int err = 0;

	compress = compress_sealed(w, compress);
	if (compress != COMPRESS_OFF && is_zero(w->data->data, w->lsize)) {
		make_hole(op);
		*made = ZIO_MADE_WHOLE;
		return 0;
	}
	if (compress == COMPRESS_EMPTY)
		compress = COMPRESS_OFF;
	if (compress != COMPRESS_OFF)
		err = transform_compress(op, &compress);
	if (err)
		return err;
	if (bp_is_embedded(&op->bp)) {
		*made = ZIO_MADE_WHOLE;
		return 0;
	}
	if (compress == COMPRESS_OFF) {
		op->data = buf_hold(w->data);
		op->psize = w->lsize;
	}
	props = props_of(w, compress, op->psize);
	bp_set_props(&op->bp, &props);
	op->bp.w[10] = w->txg;
	zio_crypt_set_fill(&op->bp, w->fill);
	if (w->key)
		err = seal(op);
	return err ? err : make_sum(op);
}

static bool is_on_removed_vdev(const struct zio_pool *zp, const struct bp *bp)
{
	for (unsigned i = 0; i < bp_ndvas(bp); i++) {
		uint64_t top = bp_dva(bp, i).vdev;

		if (top >= zp->root->nchildren || zp->root->child[top]->kind == VDEV_INDIRECT)
			return true;
	}
	return false;
}

/* Nop-write (2.7): what is there already is the same. */
static bool is_unchanged(const struct zio_wop *op)
{
	const struct zio_write *w = op->w;
	const struct zio_policy *p = &w->policy;
	const struct bp *old = &w->bp, *new = &op->bp;

	return p->nopwrite && checksum_is_strong(p->checksum) && !w->key && p->level == 0 &&
	       p->compress != COMPRESS_OFF && !bp_is_hole(old) && !bp_is_embedded(old) && old->w[6] == new->w[6] &&
	       bp_ndvas(old) == p->copies &&memcmp(&old->w[12], &new->w[12], sizeof(struct cksum)) == 0 &&
	       !is_on_removed_vdev(op->zp, old);
}

int zio_transform(struct zio_wop *op, enum zio_made *made)
{
	const struct zio_write *w = op->w;
	enum compress compress = w->flags & ZIO_WRITE_NO_COMPRESS ? COMPRESS_OFF : w->policy.compress;
	int err;

	*made = ZIO_MADE_STORED;
	buf_release(op->data); /* of an attempt that had no memory */
	op->data = NULL;
	if (w->flags & ZIO_WRITE_FIXED)
		return transform_fixed(op);
	err = check_request(op);
	if (err)
		return err;
	if (w->flags & ZIO_WRITE_RAW)
		return transform_raw(op);
	if (w->lsize == 0 || w->lsize % 512 || w->lsize > BLOCK_MAX || w->data->size < w->lsize)
		return -EINVAL;
	memset(&op->bp, 0, sizeof(op->bp));
	err = transform_block(op, compress, made);
	if (err || *made == ZIO_MADE_WHOLE || !is_unchanged(op))
		return err;
	op->bp = w->bp;
	*made = ZIO_MADE_WHOLE;
	return 0;
}
