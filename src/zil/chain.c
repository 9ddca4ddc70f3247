/* Placing records in log blocks (9.4, 9.6). What is here belongs to the current batch: one thread at a time. */
#include "base/os.h"
#include "zil/zil_impl.h"

#define SPLIT_AT   512u
#define DIRECT_MAX (16u << 10) /* a larger block is summed by a cpu worker */

TUNABLE(tunable_zil_maxblocksize, "zil_maxblocksize", "bytes", 128u << 10, ZIL_BLOCK_MIN, 128u << 10,
	"the largest block of the intent log");

struct zil_block *zil_block_create(const struct bp *bp)
{
	struct zil_block *b = xcalloc(1, sizeof(*b));

	b->bp = *bp;
	return b;
}

void zil_block_destroy(struct zil_block *b)
{
	buf_release(b->buf);
	free(b);
}

void zil_chain_seed(struct zil *z, struct bp *bp)
{
	os_random(&bp->w[ZIL_VERIFIER], 2 * sizeof(bp->w[0]));
	bp->w[ZIL_VERIFIER + 2] = z->os->id;
	bp->w[ZIL_VERIFIER + 3] = 1;
}

static bool block_is_old(const struct zil_block *b)
{
	return bp_checksum(&b->bp) == CHECKSUM_ZILOG;
}

static uint32_t block_room(const struct zil_block *b)
{
	return (uint32_t)bp_psize(&b->bp) - ZIL_CHAIN_BYTES - b->used;
}

static uint8_t *block_records(const struct zil_block *b)
{
	return b->buf->data + (block_is_old(b) ? 0 : ZIL_CHAIN_BYTES);
}

/* --- sizes --- */

/* The second largest of the last bursts when the largest stands out. */
static uint64_t burst_predict(const struct zil *z)
{
	uint64_t first = 0, second = 0;

	for (unsigned i = 0; i < MIN(z->nbursts, ZIL_BURSTS); i++) {
		uint64_t n = z->burst[i];

		second = MAX(second, MIN(n, first));
		first = MAX(first, n);
	}
	return second && first > 2 * second ? second : first;
}

static uint64_t block_size_for(uint64_t records)
{
	return ROUND_UP(records + ZIL_CHAIN_BYTES, (uint64_t)ZIL_BLOCK_MIN);
}

/* What is left of this batch, or what the next one will probably need. */
static uint32_t block_size_next(struct zil_batch *b)
{
	uint64_t max = ROUND_DOWN(tunable_get(&tunable_zil_maxblocksize), ZIL_BLOCK_MIN);
	struct list_node *n = list_first(&b->itxs);

	if (!n)
		return (uint32_t)MIN(block_size_for(burst_predict(b->zil)), max);
	if (!container_of(n, struct itx, node)->data) /* what cannot be split must fit */
		max = MAX(max, block_size_for(container_of(n, struct itx, node)->reclen));
	return (uint32_t)MIN(block_size_for(b->bytes), max);
}

/* --- blocks --- */

static int block_alloc(struct zil_batch *b, unsigned flags, struct bp *bp)
{
	struct zil *z = b->zil;

	return zio_alloc_zil(z->zp, b->tx.txg, block_size_next(b), z->os->key, flags, bp);
}

static void chain_append(struct zil *z, struct zil_block *block)
{
	SCOPED_LOCK(&z->lock);
	list_append(&z->chain, &block->node);
}

/* The allocated, unwritten block at the end. */
static struct zil_block *chain_tail(struct zil *z)
{
	struct list_node *n;

	SCOPED_LOCK(&z->lock);
	n = list_last(&z->chain);
	return n ? container_of(n, struct zil_block, node) : NULL;
}

static int chain_start(struct zil_batch *b, unsigned flags)
{
	struct zil *z = b->zil;
	struct bp bp;
	int err = block_alloc(b, flags, &bp);

	if (err)
		return err;
	zil_chain_seed(z, &bp);
	chain_append(z, zil_block_create(&bp));
	SCOPED_LOCK(&z->lock);
	z->ready_txg = b->tx.txg;
	return 0;
}

static int block_open(struct zil_block *block)
{
	if (!block->buf)
		block->buf = buf_alloc(bp_psize(&block->bp));
	return block->buf ? 0 : -ENOMEM;
}

/* Bytes that are written: what is used, in whole units of the device; all of an old one, and where what is stored
 * depends on the size (raidz). */
static uint32_t block_write_size(const struct zil *z, const struct zil_block *b)
{
	struct dva dva = bp_dva(&b->bp, 0);
	uint64_t psize = bp_psize(&b->bp), unit;

	if (block_is_old(b) || dva.asize > psize)
		return (uint32_t)psize;
	unit = MAX((uint64_t)ZIL_BLOCK_MIN, UINT64_C(1) << z->zp->root->child[dva.vdev]->ashift);
	return (uint32_t)MIN(ROUND_UP((uint64_t)b->used + ZIL_CHAIN_BYTES, unit), psize);
}

/* The chain structure; the trailer's checksum is made when the block is written. */
static void block_finish(const struct zil *z, struct zil_block *b, const struct bp *next)
{
	uint32_t size = block_write_size(z, b);
	bool old = block_is_old(b);
	uint8_t *chain = b->buf->data + (old ? size - ZIL_CHAIN_BYTES : 0);

	memset(chain, 0, ZIL_CHAIN_BYTES);
	memcpy(chain + ZIL_CHAIN_NEXT, next, sizeof(*next));
	store_host64(chain + ZIL_CHAIN_NUSED, old ? b->used : b->used + ZIL_CHAIN_BYTES);
	store_host64(chain + ZIL_CHAIN_MAGIC, ZIL_MAGIC);
	memset(block_records(b) + b->used, 0, size - ZIL_CHAIN_BYTES - b->used);
	b->write = (struct zio_write){
	    .data = b->buf,
	    .lsize = size,
	    .key = bp_uses_crypt(&b->bp) ? z->os->key : NULL,
	    .zb = {z->os->id, 0, -2, b->bp.w[ZIL_VERIFIER + 3]},
	    .txg = bp_birth(&b->bp),
	    .flags = ZIO_WRITE_SYNC | ZIO_WRITE_FIXED | ZIO_WRITE_MAY_FAIL |
		     (size <= DIRECT_MAX ? ZIO_WRITE_DIRECT : 0),
	    .bp = b->bp,
	    .policy = {.type = DMU_OT_INTENT_LOG,
		       .checksum = bp_checksum(&b->bp),
		       .compress = COMPRESS_OFF,
		       .copies = 1},
	    .done = zil_block_done,
	    .arg = b,
	};
}

/* No more records: the block gets its successor and is ready to be written. */
static int block_close(struct zil_batch *b, struct zil_block *block, unsigned flags)
{
	struct zil *z = b->zil;
	struct bp next;
	int err = block_open(block);

	if (!err)
		err = block_alloc(b, flags, &next);
	if (err)
		return err;
	memcpy(&next.w[ZIL_VERIFIER], &block->bp.w[ZIL_VERIFIER], 3 * sizeof(next.w[0]));
	next.w[ZIL_VERIFIER + 3] = block->bp.w[ZIL_VERIFIER + 3] + 1;
	block_finish(z, block, &next);
	block->batch = b;
	list_append(&b->blocks, &block->batch_node);
	chain_append(z, zil_block_create(&next));
	return 0;
}

/* --- records --- */

static void record_put(struct zil_batch *b, struct zil_block *block, const struct itx *itx, uint32_t data_len)
{
	uint8_t *r = block_records(block) + block->used;
	uint32_t reclen = itx->data ? ZIL_WRITE_FIXED + ROUND_UP(data_len, 8) : itx->reclen; /* room is in eights */

	memcpy(r, itx->record, itx->data ? ZIL_WRITE_FIXED : reclen);
	store_host64(r + 8, reclen);
	store_host64(r + 16, itx->txg);
	store_host64(r + 24, ++b->zil->seq);
	if (itx->data) {
		store_host64(r + 48, data_len);
		memcpy(r + ZIL_WRITE_FIXED, itx->data->data + itx->data_off, data_len);
		memset(r + ZIL_WRITE_FIXED + data_len, 0, reclen - ZIL_WRITE_FIXED - data_len);
	}
	block->used += reclen;
	block->max_txg = MAX(block->max_txg, itx->txg);
}

/* The first data_len bytes were placed. */
static void itx_advance(struct zil_batch *b, struct itx *itx, uint32_t data_len)
{
	b->bytes -= itx->reclen;
	itx->data_off += data_len;
	itx->data_len -= data_len;
	itx->reclen = ZIL_WRITE_FIXED + ROUND_UP(itx->data_len, 8);
	b->bytes += itx->reclen;
	store_host64(itx->record + 40, load_host64(itx->record + 40) + data_len);
	store_host64(itx->record + 48, itx->data_len);
}

/* How many bytes of a write's data to put into a block that does not take all of them; 0: none, a new block is better.
 * Sectors stay whole, whatever a crash leaves. */
static uint32_t itx_split(const struct itx *itx, uint32_t room, uint32_t size)
{
	uint64_t offset = load_host64(itx->record + 40), end;

	if (!itx->data || room <= ZIL_WRITE_FIXED)
		return 0;
	/* more than an empty block of the largest size takes, or an eighth of this block would be left unused */
	if (itx->data_len <= tunable_get(&tunable_zil_maxblocksize) / 2 && room <= size / 8)
		return 0;
	end = ROUND_DOWN(offset + room - ZIL_WRITE_FIXED, (uint64_t)SPLIT_AT);
	return end > offset ? (uint32_t)(end - offset) : 0;
}

static void batch_drop(struct zil_batch *b, struct itx *itx)
{
	b->bytes -= itx->reclen;
	list_remove(&b->itxs, &itx->node);
	itx_destroy(itx);
}

/* Places the first record, or a part of it; false when the block is full. */
static bool record_place(struct zil_batch *b, struct zil_block *block)
{
	struct itx *itx = container_of(list_first(&b->itxs), struct itx, node);
	uint32_t room = block_room(block), n;

	if (itx->drop || itx->reclen <= room) {
		if (!itx->drop)
			record_put(b, block, itx, itx->data_len);
		batch_drop(b, itx);
		return true;
	}
	n = itx_split(itx, room, (uint32_t)bp_psize(&block->bp));
	if (n) {
		record_put(b, block, itx, n);
		itx_advance(b, itx, n);
	}
	return false;
}

int zil_chain_fill(struct zil_batch *b, unsigned flags)
{
	struct zil_block *block = chain_tail(b->zil);
	int err;

	if (!block) {
		err = chain_start(b, flags);
		if (err)
			return err;
		block = chain_tail(b->zil);
	}
	for (;;) {
		err = block_open(block);
		if (err)
			return err;
		while (!list_is_empty(&b->itxs) && record_place(b, block))
			;
		if (list_is_empty(&b->itxs) && block->used == 0)
			return 0; /* nothing but what was dropped */
		err = block_close(b, block, flags);
		if (err || list_is_empty(&b->itxs))
			return err;
		block = chain_tail(b->zil);
	}
}
