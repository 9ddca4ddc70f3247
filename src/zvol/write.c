/*
 * Requests that change a volume (docs/format/07, 8.5).
 *
 *	submit -> (range is busy: wait) -> piece by piece: transaction, change, record -> give way -> (commit) -> done
 *
 * A transaction comes at once or by callback; in both cases pieces are made one after another without the stack
 *growing.
 */
#include "zvol/zvol_impl.h"

#define PIECE_MAX      (UINT64_C(1) << 20) /* bytes of data in one transaction; or one block */
#define DISCARD_BLOCKS 16384u              /* in one transaction */

struct zvol_job {
	struct zvol_live *v;
	struct zvol_req *r;
	struct zvol_range range;
	uint64_t at, end; /* what is left to do */
	uint64_t piece;   /* bytes of the piece that is being made */
	/* where in the request's buffers `at` is */
	unsigned buf;
	uint32_t off;
	struct buf *zeros; /* what ZERO writes; one block at most */
	bool punch;        /* the piece becomes a hole */
	bool safe;         /* to be committed at the end */
	int err;
	atomic_uint turn; /* of the two who go on after a piece: see job_run */
	struct tx tx;
	struct zil_commit commit;
};

static void job_run(struct zvol_job *j);

/* --- endings --- */

static void job_end(struct zvol_job *j, int err)
{
	struct zvol_req *r = j->r;

	buf_release(j->zeros);
	free(j);
	r->done(r, err);
}

static void job_committed(struct zil_commit *c, int err)
{
	job_end(c->arg, err);
}

static void job_finish(struct zvol_job *j)
{
	zvol_range_leave(&j->v->ranges, &j->range);
	if (j->err || !j->safe) {
		job_end(j, j->err);
		return;
	}
	j->commit = (struct zil_commit){.done = job_committed, .arg = j};
	zil_commit(j->v->zil, &j->commit);
}

/* --- changes, each with its record --- */

static void log_punch(struct zvol_job *j, uint64_t len)
{
	struct itx *itx = itx_create(TX_TRUNCATE, 56);

	store_host64(itx->record + 32, ZVOL_DATA_OBJECT);
	store_host64(itx->record + 40, j->at);
	store_host64(itx->record + 48, len);
	zil_append(j->v->zil, itx, &j->tx);
}

static int make_hole(struct zvol_job *j)
{
	int err = dmu_free_range(j->v->dn, j->at, j->piece, &j->tx);

	if (!err)
		log_punch(j, j->piece);
	return err;
}

/* Bytes that lie in one buffer, and where the record has them in one piece: within a block when it points to it. */
struct chunk {
	struct buf *buf;
	uint32_t off;
	uint64_t len;
	bool block; /* the buffer is just a block of the volume */
};

static struct chunk job_chunk(const struct zvol_job *j, uint64_t left, bool in_block)
{
	uint32_t bs = j->v->blocksize;
	struct chunk c = {.buf = j->zeros, .off = 0, .len = left};

	if (!c.buf) {
		c.buf = j->r->buf[j->buf];
		c.off = j->off;
	}
	c.len = MIN(c.len, (uint64_t)c.buf->size - c.off);
	c.block = c.off == 0 && c.buf->size == bs && c.len == bs && j->at % bs == 0;
	if (in_block || j->zeros)
		c.len = MIN(c.len, bs - j->at % bs);
	return c;
}

static void log_chunk(struct zvol_job *j, const struct chunk *c, bool indirect)
{
	struct itx *itx = itx_create_write(ZVOL_DATA_OBJECT, j->at, c->len);

	if (indirect) {
		itx_set_indirect(itx, j->v->dn, j->at / j->v->blocksize);
	} else {
		itx_set_data(itx, c->buf, c->off);
		itx->charged = c->block || j->zeros ? 0 : (uint32_t)c->len; /* else dmu has the buffer as well */
	}
	zil_append(j->v->zil, itx, &j->tx);
}

static void job_advance(struct zvol_job *j, const struct chunk *c)
{
	j->at += c->len;
	if (j->zeros)
		return;
	j->off += (uint32_t)c->len;
	if (j->off < c->buf->size)
		return;
	j->off = 0;
	j->buf++;
}

static int write_piece(struct zvol_job *j)
{
	struct zvol_live *v = j->v;
	bool indirect = zil_write_kind(v->zil, j->r->length, v->blocksize, j->safe) == ZIL_INDIRECT;
	uint64_t end = j->at + j->piece;
	int err = 0;

	while (j->at < end && !err) {
		struct chunk c = job_chunk(j, end - j->at, indirect);

		if (c.block)
			err = dmu_write_block(v->dn, j->at / v->blocksize, c.buf, &j->tx);
		else
			err = dmu_write(v->dn, j->at, c.buf->data + c.off, c.len, &j->tx);
		if (err)
			break;
		/* a small part of a block would have the whole block written for it */
		log_chunk(j, &c, indirect && (c.len >= v->blocksize / 2 || v->os->props.logbias));
		job_advance(j, &c);
	}
	return err;
}

/* --- pieces --- */

/* How far the next piece goes, and what it is; a piece ends at a block's boundary where it can. */
static void piece_choose(struct zvol_job *j)
{
	uint64_t bs = j->v->blocksize, max, left = j->end - j->at, head = j->at % bs;

	j->punch = j->r->op == ZVOL_DISCARD || (j->r->op == ZVOL_ZERO && !j->r->no_hole && head == 0 && left >= bs);
	if (j->punch) {
		max = bs * DISCARD_BLOCKS;
		left = ROUND_DOWN(left, bs);
	} else {
		max = MAX(ROUND_DOWN(PIECE_MAX, bs), bs);
		if (j->r->op == ZVOL_ZERO && !j->r->no_hole && left > bs - head)
			left = bs - head; /* up to where holes can begin */
	}
	j->piece = MIN(left, max - head);
}

/* The most that the piece writes. */
static uint64_t piece_bytes(const struct zvol_job *j)
{
	uint64_t bs = j->v->blocksize;

	if (j->punch)
		return bs;
	return ROUND_UP(j->at + j->piece, bs) - ROUND_DOWN(j->at, bs);
}

static bool job_zeros_ready(struct zvol_job *j)
{
	if (j->r->op != ZVOL_ZERO || j->punch || j->zeros)
		return true;
	j->zeros = buf_alloc(j->v->blocksize);
	if (j->zeros)
		memset(j->zeros->data, 0, j->zeros->size);
	return j->zeros != NULL;
}

static void piece_held(struct tx *tx, int err)
{
	struct zvol_job *j = tx->arg;

	if (!err) {
		uint64_t end = j->at + j->piece;

		err = j->punch ? make_hole(j) : write_piece(j);
		j->at = end;
		tx_end(tx);
	}
	j->err = err;
	/* the second of us two goes on */
	if (atomic_fetch_add(&j->turn, 1) == 1)
		job_run(j);
}

static void job_run(struct zvol_job *j)
{
	while (!j->err && j->at < j->end) {
		piece_choose(j);
		if (!job_zeros_ready(j)) {
			j->err = -ENOMEM;
			break;
		}
		atomic_store(&j->turn, 0);
		j->tx = (struct tx){
		    .os = j->v->os,
		    .flags = j->punch ? TX_NETFREE : 0,
		    .bytes = piece_bytes(j),
		    .done = piece_held,
		    .arg = j,
		};
		tx_begin(j->v->os->dp->txgs, &j->tx);
		if (atomic_fetch_add(&j->turn, 1) == 0)
			return;
	}
	job_finish(j);
}

/* --- the way in --- */

static void job_granted(struct zvol_range *range)
{
	job_run(container_of(range, struct zvol_job, range));
}

static int request_check(const struct zvol *zv, const struct zvol_req *r)
{
	uint64_t size = zvol_size(zv), bytes = 0;

	if (!zvol_is_writable(zv))
		return r->op == ZVOL_FLUSH ? 0 : -EROFS;
	if (r->op == ZVOL_FLUSH)
		return 0;
	if (r->offset > size || r->length > size - r->offset)
		return -EINVAL;
	if (r->op != ZVOL_WRITE)
		return 0;
	for (unsigned i = 0; i < r->nbufs; i++)
		bytes += r->buf[i]->size;
	return bytes < r->skip || bytes - r->skip < r->length ? -EINVAL : 0;
}

static struct zvol_job *job_create(struct zvol_live *v, struct zvol_req *r)
{
	struct zvol_job *j = xcalloc(1, sizeof(*j));

	j->v = v;
	j->r = r;
	j->safe = r->op == ZVOL_FLUSH || r->fua || zvol_logs_always(v);
	j->at = r->offset;
	j->end = r->offset + r->length;
	if (r->op == ZVOL_DISCARD) {
		j->at = ROUND_UP(j->at, (uint64_t)v->blocksize);
		j->end = ROUND_DOWN(j->end, (uint64_t)v->blocksize);
	}
	j->off = r->skip;
	while (r->op == ZVOL_WRITE && j->buf < r->nbufs && j->off >= r->buf[j->buf]->size)
		j->off -= r->buf[j->buf++]->size;
	j->range = (struct zvol_range){.start = j->at, .end = j->end, .granted = job_granted};
	return j;
}

void zvol_submit(struct zvol *zv, struct zvol_req *r)
{
	int err = request_check(zv, r);
	struct zvol_job *j;

	if (err || !zv->live) {
		r->done(r, err);
		return;
	}
	j = job_create(zv->live, r);
	if (r->op == ZVOL_FLUSH) {
		j->commit = (struct zil_commit){.done = job_committed, .arg = j};
		zil_commit(j->v->zil, &j->commit);
	} else if (j->at >= j->end) {
		job_end(j, 0);
	} else if (zvol_range_enter(&j->v->ranges, &j->range)) {
		job_run(j);
	}
}
