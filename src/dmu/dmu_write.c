/* Changing the contents of objects in open context. */
#include "base/sync.h"
#include "dmu/dbuf.h"

/* The size of blocks as the group sees it. */
static uint32_t group_blocksize(struct dnode *dn, uint64_t txg)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);
	struct dnode_group *g;

	if (!dd || atomic_load(&dd->newest) <= txg)
		return dnode_blocksize(dn);
	SCOPED_LOCK(&dn->lock);
	g = dnode_group(dd, txg);
	return atomic_load(&g->txg) == txg && g->state ? g->state->shape.datablksz : dn->datablksz;
}

/* The last block that exists in the group or a younger one. */
static uint64_t group_maxblkid(struct dnode *dn, uint64_t txg)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);
	uint64_t last = dnode_maxblkid(dn), newest = dd ? atomic_load(&dd->newest) : 0;

	if (newest <= txg)
		return last;
	SCOPED_LOCK(&dn->lock);
	/* The state of a group that has none of its own is that of an older one. */
	last = MAX(dn->maxblkid, dd->base ? dd->base->shape.maxblkid : 0);
	for (unsigned i = 0; i < TXG_SIZE; i++)
		if (dd->group[i].state)
			last = MAX(last, dd->group[i].state->shape.maxblkid);
	return last;
}

static int write_whole(struct dnode_dirty *dd, uint64_t blkid, uint32_t size, const void *data, uint64_t txg)
{
	struct buf *buf = buf_alloc(size);

	if (!buf)
		return -ENOMEM;
	if (data)
		memcpy(buf->data, data, size);
	else
		memset(buf->data, 0, size);
	dbuf_write_whole(dd, blkid, buf, txg);
	buf_release(buf);
	return 0;
}

/* data NULL: zeros. */
static int write_range(struct dnode *dn, uint64_t offset, const uint8_t *data, uint64_t len, struct tx *tx)
{
	uint32_t size = group_blocksize(dn, tx->txg);
	struct dnode_dirty *dd;
	uint64_t end;
	int err;

	if (len == 0)
		return 0;
	if (__builtin_add_overflow(offset, len, &end))
		return -EFBIG;
	err = dnode_dirty_mark(dn, tx->txg, (end - 1) / size);
	dd = dnode_dirty_peek(dn);
	while (!err && len > 0) {
		uint64_t blkid = offset / size;
		uint32_t skip = (uint32_t)(offset % size), n = (uint32_t)MIN(len, size - skip);

		if (n == size)
			err = write_whole(dd, blkid, size, data, tx->txg);
		else
			err = dbuf_write(dd, blkid, size, skip, data, n, tx->txg);
		offset += n;
		len -= n;
		data = data ? data + n : NULL;
	}
	return err;
}

int dmu_write(struct dnode *dn, uint64_t offset, const void *data, size_t len, struct tx *tx)
{
	return write_range(dn, offset, data, len, tx);
}

int dmu_write_block(struct dnode *dn, uint64_t blkid, struct buf *buf, struct tx *tx)
{
	int err;

	if (buf->size != group_blocksize(dn, tx->txg))
		return -EINVAL;
	err = dnode_dirty_mark(dn, tx->txg, blkid);
	if (!err)
		dbuf_write_whole(dnode_dirty_peek(dn), blkid, buf, tx->txg);
	return err;
}

/* --- freeing --- */

struct free_change {
	uint64_t start, end; /* blocks */
};

static void change_free(struct dnode_state *s, void *arg)
{
	const struct free_change *c = arg;

	if (c->start <= s->shape.maxblkid && c->end > s->shape.maxblkid)
		s->shape.maxblkid = c->start ? c->start - 1 : 0;
}

static int free_blocks(struct dnode *dn, uint64_t start, uint64_t end, struct tx *tx)
{
	struct free_change c = {start, end};
	int err = 0;

	pthread_mutex_lock(&dn->lock);
	if (dn->type == 0)
		err = -ENOENT;
	else
		dnode_change_locked(dn, tx->txg, change_free, &c);
	pthread_mutex_unlock(&dn->lock);
	if (err)
		return err;
	objset_tell_dirty(dn->os, tx->txg);
	dbuf_free_range(dnode_dirty_peek(dn), start, end, tx->txg);
	return 0;
}

/* Nothing is there that would have to be zeroed. An older group may have something where a younger one has a hole. */
static bool block_is_hole(struct dnode *dn, uint64_t blkid, uint64_t txg)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);
	enum dbuf_found found = DBUF_NONE;
	struct buf *buf = NULL;
	struct bp bp;

	if (dd && atomic_load(&dd->newest) > txg)
		return false;
	if (dd)
		found = dbuf_find(dd, blkid, &buf, &bp);
	buf_release(buf);
	return found == DBUF_HOLE ||
	       (found == DBUF_NONE && blkid > __atomic_load_n(&dn->tree_maxblkid, __ATOMIC_RELAXED));
}

/* Part of one block becomes zeros. */
static int zero_part(struct dnode *dn, uint64_t offset, uint64_t len, uint32_t size, struct tx *tx)
{
	if (len == 0 || block_is_hole(dn, offset / size, tx->txg))
		return 0;
	return write_range(dn, offset, NULL, len, tx);
}

int dmu_free_range(struct dnode *dn, uint64_t offset, uint64_t len, struct tx *tx)
{
	uint32_t size = group_blocksize(dn, tx->txg);
	uint64_t last = group_maxblkid(dn, tx->txg), start, stop, first, end;
	int err;

	if (len == 0 || offset / size > last)
		return 0;
	if (__builtin_add_overflow(offset, len, &stop))
		stop = UINT64_MAX;
	start = ROUND_UP(offset, size);
	first = offset / size + (offset % size != 0);
	if (stop == UINT64_MAX || stop / size > last) {
		/* To the end: the last block goes whole. */
		end = UINT64_MAX;
		err = offset == start ? 0 : zero_part(dn, offset, start - offset, size, tx);
	} else {
		end = stop / size;
		if (end < first) /* within one block */
			return zero_part(dn, offset, len, size, tx);
		err = offset == start ? 0 : zero_part(dn, offset, start - offset, size, tx);
		if (!err)
			err = zero_part(dn, end * size, stop % size, size, tx);
	}
	return err || first >= end ? err : free_blocks(dn, first, end, tx);
}

/* --- reading back --- */

int dmu_block_get(struct dnode *dn, uint64_t blkid, struct buf **out)
{
	struct dmu_fetch f = {.dn = dn, .blkid = blkid};
	int err = dmu_fetch_wait(&f, out);

	return !err && !*out ? -ENOENT : err;
}

int dmu_block_is_swapped(struct dnode *dn, uint64_t blkid, bool *swapped)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);
	struct buf *buf = NULL;
	struct bp bp;
	int err;

	*swapped = false;
	if (dd && dbuf_find(dd, blkid, &buf, &bp) != DBUF_NONE) {
		buf_release(buf);
		return 0;
	}
	err = dmu_block_pointer(dn, 0, blkid, &bp);
	*swapped = !err && bp_is_swapped(&bp) && !bp_is_hole(&bp);
	return err;
}

/* --- the spill block --- */

static void change_spill(struct dnode_state *s, void *arg)
{
	s->shape.has_spill = *(bool *)arg;
}

static int spill_set(struct dnode *dn, bool present, struct tx *tx)
{
	struct dnode_dirty *dd;
	int err = 0;

	pthread_mutex_lock(&dn->lock);
	if (dn->type == 0) {
		err = -ENOENT;
	} else {
		dd = dnode_dirty_mark_locked(dn, tx->txg);
		if (present &&
		    dn->bonuslen + BP_SIZE > ((uint32_t)dn->slots << DNODE_SHIFT) - 64 - dd->nblkptr * BP_SIZE)
			err = -EINVAL;
		else
			dnode_change_locked(dn, tx->txg, change_spill, &present);
	}
	pthread_mutex_unlock(&dn->lock);
	objset_tell_dirty(dn->os, tx->txg);
	return err;
}

int dmu_spill_write(struct dnode *dn, struct buf *buf, struct tx *tx)
{
	int err;

	if (buf->size % (1u << SECTOR_SHIFT) || buf->size > BLOCK_MAX)
		return -EINVAL;
	err = spill_set(dn, true, tx);
	if (!err)
		dbuf_write_whole(dnode_dirty_peek(dn), DMU_BLKID_SPILL, buf, tx->txg);
	return err;
}

int dmu_spill_remove(struct dnode *dn, struct tx *tx)
{
	int err = spill_set(dn, false, tx);

	if (!err)
		dbuf_drop(dnode_dirty_peek(dn), DMU_BLKID_SPILL, tx->txg);
	return err;
}
