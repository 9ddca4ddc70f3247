/* What of a block is stored, and how its pointer describes it (docs/format/02-blocks-and-objects.md, 3.2 and 3.3). */
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

	if (w->lsize == 0 || w->lsize % 512 || w->lsize > BLOCK_MAX || w->data->size < w->lsize || p->copies < 1 ||
	    p->copies > BP_DVAS || p->level > 31)
		return -EINVAL;
	if (p->dedup || w->key)
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
	struct cksum sum = {{0}};
	int err;

	if (c != CHECKSUM_OFF && c != CHECKSUM_NOPARITY) {
		err = checksum_compute(c, op->zp->salt, op->data->data, op->psize, bp_is_swapped(&op->bp), &sum);
		if (err)
			return err;
	}
	memcpy(&op->bp.w[12], &sum, sizeof(sum));
	return 0;
}

static int make_log_block(struct zio_wop *op)
{
	const struct zio_write *w = op->w;
	struct cksum verifier;

	memcpy(&verifier, &op->bp.w[12], sizeof(verifier));
	return checksum_embedded_put(bp_checksum(&op->bp), w->data->data, w->lsize, &verifier, bp_is_swapped(&op->bp),
				     bp_uses_crypt(&op->bp));
}

/* Over a block whose pointer is known: nothing in it changes but checksum words. */
static int transform_fixed(struct zio_wop *op)
{
	const struct zio_write *w = op->w;
	enum checksum c = bp_checksum(&w->bp);
	int err;

	op->data = buf_hold(w->data);
	op->bp = w->bp;
	op->psize = w->lsize;
	if (bp_check(&op->bp) || bp_is_hole(&op->bp) || bp_is_embedded(&op->bp) || bp_is_gang(&op->bp))
		return -EINVAL;
	if (w->lsize == 0 || w->lsize % 512 || w->lsize > bp_psize(&op->bp) || w->data->size < w->lsize)
		return -EINVAL;
	if (w->key)
		return -ENOTSUP;
	if (c == CHECKSUM_ZILOG || c == CHECKSUM_ZILOG2)
		err = make_log_block(op);
	else
		err = w->lsize == bp_psize(&op->bp) ? make_sum(op) : -EINVAL;
	return err;
}

int zio_transform(struct zio_wop *op, enum zio_made *made)
{
	const struct zio_write *w = op->w;
	const struct zio_policy *p = &w->policy;
	enum compress compress = w->flags & ZIO_WRITE_NO_COMPRESS ? COMPRESS_OFF : p->compress;
	int err;

	*made = ZIO_MADE_STORED;
	if (w->flags & ZIO_WRITE_FIXED)
		return transform_fixed(op);
	err = check_request(op);
	if (err)
		return err;
	*made = ZIO_MADE_WHOLE;
	if (compress != COMPRESS_OFF && is_zero(w->data->data, w->lsize)) {
		make_hole(op);
		return 0;
	}
	*made = ZIO_MADE_STORED;
	op->data = buf_hold(w->data);
	op->psize = w->lsize;
	bp_set_props(&op->bp, &(struct bp_props){.lsize = w->lsize,
						 .psize = op->psize,
						 .compress = COMPRESS_OFF,
						 .checksum = p->checksum,
						 .type = p->type,
						 .level = p->level,
						 .swapped = p->byteorder});
	op->bp.w[10] = w->txg;
	op->bp.w[11] = w->fill;
	return make_sum(op);
}
