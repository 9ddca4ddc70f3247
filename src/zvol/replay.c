/* Records of a volume's log (docs/format/07, 9.12 - 9.14). */
#include "zvol/zvol_impl.h"

#define PIECE_MAX (UINT64_C(1) << 20) /* of data in one transaction */

static int replay_begin(struct zvol_live *v, struct tx *tx, uint64_t bytes)
{
	*tx = (struct tx){.os = v->os, .flags = TX_NOSPACE_CHECK, .bytes = bytes};
	return tx_begin_wait(v->os->dp->txgs, tx);
}

/* The record counts as applied with the group of its last part; applying the others twice does no harm. */
static void replay_end(struct zvol_live *v, struct tx *tx, bool last)
{
	if (last)
		zil_replayed(v->zil, tx);
	tx_end(tx);
}

static int replay_bytes(struct zvol_live *v, uint64_t offset, const uint8_t *data, uint64_t len)
{
	int err = 0;

	for (uint64_t at = 0, n; at < len && !err; at += n) {
		struct tx tx;

		n = MIN(len - at, PIECE_MAX);
		err = replay_begin(v, &tx, n + 2 * (uint64_t)v->blocksize);
		if (err)
			break;
		err = dmu_write(v->dn, offset + at, data + at, n, &tx);
		replay_end(v, &tx, !err && at + n == len);
	}
	return err;
}

/* The data lie in a whole block of the volume. */
static int replay_block(struct zvol_live *v, uint64_t offset, const struct zil_record *r)
{
	autobuf struct buf *buf = NULL;
	struct tx tx;
	int err = zil_write_block(v->os, r, &buf);

	if (err)
		return err;
	if (buf->size != v->blocksize)
		return replay_bytes(v, offset, buf->data, MIN((uint64_t)buf->size, zil_record_u64(r, 48)));
	err = replay_begin(v, &tx, v->blocksize);
	if (err)
		return err;
	err = dmu_write_block(v->dn, offset / v->blocksize, buf, &tx);
	replay_end(v, &tx, !err);
	return err;
}

static int replay_write(struct zvol_live *v, const struct zil_record *r)
{
	uint64_t offset = zil_record_u64(r, 40), len = zil_record_u64(r, 48), size = atomic_load(&v->size);

	if (r->reclen < ZIL_WRITE_FIXED || (r->reclen > ZIL_WRITE_FIXED && len > r->reclen - ZIL_WRITE_FIXED))
		return -EINVAL;
	if (len == 0 || offset >= size)
		return 0;
	if (r->reclen == ZIL_WRITE_FIXED)
		return replay_block(v, offset, r);
	return replay_bytes(v, offset, r->data + ZIL_WRITE_FIXED, MIN(len, size - offset));
}

static int replay_truncate(struct zvol_live *v, const struct zil_record *r)
{
	uint64_t offset = zil_record_u64(r, 40), len = zil_record_u64(r, 48), size = atomic_load(&v->size);
	struct tx tx;
	int err;

	if (r->reclen < 56)
		return -EINVAL;
	if (len == 0 || offset >= size)
		return 0;
	err = replay_begin(v, &tx, v->blocksize);
	if (err)
		return err;
	err = dmu_free_range(v->dn, offset, MIN(len, size - offset), &tx);
	replay_end(v, &tx, !err);
	return err;
}

int zvol_replay(void *arg, const struct zil_record *r)
{
	switch (r->txtype) {
	case TX_WRITE:
		return replay_write(arg, r);
	case TX_TRUNCATE:
		return replay_truncate(arg, r);
	case TX_WRITE2: /* another record has its data */
		return 0;
	default:
		return -ENOTSUP;
	}
}
