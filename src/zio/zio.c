/*
 * One read is one zio_op, a state machine that is only ever touched by one thread at a time:
 *
 *	start -> (hole, embedded: decode)
 *	      -> read DVA -> [bad: next DVA] -> (gang: members -> join) -> decode -> finish
 *
 * Steps that compute run on cpu workers. A completion that arrives on another thread, or inside our own call to
 * vdev_read (memory disks), is queued, so that neither ring threads compute nor stacks grow.
 */
#include "base/sync.h"
#include "zio/zio.h"
#include "zio/zio_crypt.h"

#define GANG_HEADER_SIZE  512u
#define GANG_HEADER_MAX   (64u << 10)
#define GANG_TRAILER_SIZE 40u
#define GANG_DEPTH_MAX    16u

struct gang_member {
	struct zio_read zr;
	struct zio_op *leader;
	uint32_t offset;
};

struct zio_op {
	struct task task;
	struct zio_pool *zp;
	struct zio_read *r;
	struct bp bp;
	unsigned depth; /* of gang nesting */
	unsigned ndvas, at;
	uint8_t order[BP_DVAS];
	int err; /* why earlier DVAs failed */
	bool good;
	struct buf *buf;     /* what is being read: stored bytes or gang header */
	struct buf *checked; /* the first good copy, while a scrub reads the others */
	uint32_t header_size;
	struct gang_member *member;
	atomic_uint pending;
	atomic_int member_err;
	struct vdev_io io;
};

/* Set while this thread is inside vdev_read: a completion that comes now must not go on from here. */
static _Thread_local unsigned submitting;

static void op_read_next(struct zio_op *op);
static void op_decode(struct zio_op *op);
static void zio_start(struct zio_pool *zp, struct zio_read *r, unsigned depth);

/* --- endings --- */

static void op_run(struct zio_op *op, void (*run)(struct task *t))
{
	op->task.run = run;
	taskq_dispatch_front(cpu_taskq(), &op->task);
}

/* Ends the op; takes over `buf`. On a cpu worker. */
static void op_finish(struct zio_op *op, int err, struct buf *buf)
{
	struct zio_read *r = op->r;
	struct zio_pool *zp = op->zp;

	buf_release(op->buf);
	buf_release(op->checked);
	free(op->member);
	if (err && zp->on_error && op->depth == 0 && !(r->flags & (ZIO_QUIET | ZIO_SPECULATIVE)) && err != -EKEY)
		zp->on_error(zp, &op->bp, &r->zb, err);
	free(op);
	if (err || r->flags & ZIO_NO_DATA) {
		buf_release(buf);
		buf = NULL;
	}
	r->priv = NULL;
	r->done(r, err, buf);
}

/* --- checks --- */

static int dva_check(const struct zio_pool *zp, const struct dva *dva)
{
	const struct vdev *top;

	if (dva->vdev >= zp->root->nchildren)
		return -EINVAL;
	top = zp->root->child[dva->vdev];
	if (top->kind == VDEV_HOLE)
		return -EINVAL;
	if (top->kind == VDEV_MISSING || top->asize == 0)
		return 0;
	if (dva->offset > top->asize || (!dva->gang && dva->asize > top->asize - dva->offset))
		return -EINVAL;
	return 0;
}

/* Births are checked only where the intent log cannot be what points here: its blocks may be ahead of the pool. */
static bool birth_is_bounded(const struct bp *bp)
{
	return bp_level(bp) > 0 || bp_type(bp) == DMU_OT_DNODE || bp_type(bp) == DMU_OT_OBJSET;
}

static int op_check(struct zio_op *op)
{
	const struct bp *bp = &op->bp;
	unsigned flags = op->r->flags;

	if (bp_check(bp))
		return -EINVAL;
	if (bp_is_embedded(bp) || bp_is_hole(bp))
		return 0;
	if (birth_is_bounded(bp) && op->zp->max_txg != 0 && bp_birth(bp) > op->zp->max_txg)
		return -EINVAL;
	if (flags & ZIO_RAW)
		return 0;
	if (op->r->key && !bp_uses_crypt(bp)) /* a plain block in an encrypted set: somebody put it there */
		return -EIO;
	if (bp_is_encrypted(bp) && !op->r->key)
		return -EKEY;
	if (bp_compress(bp) == COMPRESS_OFF && bp_lsize(bp) != bp_psize(bp))
		return -EINVAL;
	return 0;
}

/* --- checksums --- */

/* The trailers of what a pointer with X = 1 leads to hold a sum of two words (02, 2.6). */
static int trailer_verify(enum checksum c, const struct bp *bp, uint8_t *data, size_t size,
			  const struct cksum *verifier)
{
	if (bp_uses_crypt(bp))
		return checksum_embedded_verify_truncated(c, data, size, verifier, NULL);
	return checksum_embedded_verify(c, data, size, verifier, NULL);
}

static int zilog_verify(const struct bp *bp, uint8_t *data, size_t size)
{
	struct cksum verifier;

	memcpy(&verifier, &bp->w[12], sizeof(verifier));
	return trailer_verify(bp_checksum(bp), bp, data, size, &verifier);
}

static int block_verify(const struct zio_pool *zp, const struct bp *bp, const uint8_t *data, size_t size)
{
	enum checksum id = bp_checksum(bp);
	struct cksum sum;
	int err;

	if (id == CHECKSUM_OFF || id == CHECKSUM_NOPARITY)
		return 0;
	/* The trailer is exchanged while hashing and put back: the block buffer is ours alone until it is done. */
	if (id == CHECKSUM_ZILOG || id == CHECKSUM_ZILOG2)
		return zilog_verify(bp, (uint8_t *)(uintptr_t)data, size);
	err = checksum_compute(id, zp->salt, data, size, bp_is_swapped(bp), &sum);
	if (err)
		return err;
	if (bp_uses_crypt(bp) && bp_type(bp) != DMU_OT_OBJSET)
		return zio_crypt_cksum_matches(bp, &sum) ? 0 : -ECKSUM;
	return memcmp(&sum, &bp->w[12], sizeof(sum)) == 0 ? 0 : -ECKSUM;
}

static int gang_header_verify(struct zio_op *op, const uint8_t *data, uint32_t size)
{
	struct dva dva = bp_dva(&op->bp, 0);
	struct cksum verifier = {{dva.vdev, dva.offset, bp_physical_birth(&op->bp), 0}};
	autofree uint8_t *copy = malloc(size);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, data, size);
	return trailer_verify(CHECKSUM_GANG_HEADER, &op->bp, copy, size, &verifier);
}

/* A pool whose feature is active may still hold headers of the old size. */
static int gang_header_verify_any(struct zio_op *op, const uint8_t *data)
{
	uint32_t size = (uint32_t)op->io.size;
	int err = gang_header_verify(op, data, size);

	if (err && size > GANG_HEADER_SIZE) {
		size = GANG_HEADER_SIZE;
		err = gang_header_verify(op, data, size);
	}
	if (!err)
		op->header_size = size;
	return err;
}

static int op_verify(struct vdev_io *io, const uint8_t *data)
{
	struct zio_op *op = io->arg;
	int err;

	err = bp_is_gang(&op->bp) ? gang_header_verify_any(op, data)
				  : block_verify(op->zp, &op->bp, data, bp_psize(&op->bp));
	if (err)
		counter_add(&op->zp->checksum_failures, 1);
	return err;
}

/* --- reading one DVA after the other --- */

static unsigned dva_health(const struct zio_pool *zp, const struct dva *dva)
{
	const struct vdev *top = zp->root->child[dva->vdev];

	if (!vdev_is_readable(top))
		return 0;
	return top->state == VDEV_STATE_HEALTHY ? 2 : 1;
}

static int op_order_dvas(struct zio_op *op)
{
	unsigned health[BP_DVAS], n = bp_ndvas(&op->bp);

	for (unsigned i = 0; i < n; i++) {
		struct dva dva = bp_dva(&op->bp, i);
		unsigned at = op->ndvas;

		if (dva_check(op->zp, &dva))
			return -EINVAL;
		health[i] = dva_health(op->zp, &dva);
		while (at > 0 && health[op->order[at - 1]] < health[i]) {
			op->order[at] = op->order[at - 1];
			at--;
		}
		op->order[at] = (uint8_t)i;
		op->ndvas++;
	}
	return op->ndvas ? 0 : -EINVAL;
}

static uint32_t op_read_size(const struct zio_op *op)
{
	uint64_t size = GANG_HEADER_MAX;

	if (!bp_is_gang(&op->bp))
		return (uint32_t)bp_psize(&op->bp);
	if (!op->zp->dynamic_gang)
		return GANG_HEADER_SIZE;
	for (unsigned i = 0; i < op->ndvas; i++)
		size = MIN(size, vdev_min_alloc(op->zp->root->child[bp_dva(&op->bp, i).vdev]));
	return MAX((uint32_t)size, GANG_HEADER_SIZE);
}

static void op_proceed(struct task *t);

static void op_read_done(struct vdev_io *io, int err)
{
	struct zio_op *op = io->arg;

	if (err)
		op->err = op->err == -ECKSUM ? op->err : err;
	else
		op->good = true;
	op->task.run = op_proceed;
	if (thread_is_cpu_worker() && submitting == 0)
		op_proceed(&op->task);
	else
		op_run(op, op_proceed);
}

static void op_gang_members(struct zio_op *op);
static void op_gang_header(struct zio_op *op);

/* A DVA was read, well or not. */
static void op_proceed(struct task *t)
{
	struct zio_op *op = container_of(t, struct zio_op, task);
	bool scrub = op->r->flags & ZIO_SCRUB;
	bool ok = op->good;

	op->good = false;
	if (!ok) {
		buf_release(op->buf);
		op->buf = NULL;
	} else if (!op->checked) {
		op->checked = op->buf;
		op->buf = NULL;
		if (op->at > 0)
			counter_add(&op->zp->reconstructed, 1);
	}
	op->at++;
	if (op->at < op->ndvas && (!ok || scrub)) {
		op_read_next(op);
		return;
	}
	if (!op->checked) {
		op_finish(op, op->err, NULL);
		return;
	}
	buf_release(op->buf);
	op->buf = op->checked;
	op->checked = NULL;
	if (bp_is_gang(&op->bp) && op->r->flags & ZIO_GANG_HEADER)
		op_gang_header(op);
	else if (bp_is_gang(&op->bp))
		op_gang_members(op);
	else
		op_decode(op);
}

static void op_fail(struct task *t)
{
	struct zio_op *op = container_of(t, struct zio_op, task);

	op_finish(op, op->err, NULL);
}

static void op_read_next(struct zio_op *op)
{
	struct dva dva = bp_dva(&op->bp, op->order[op->at]);
	struct vdev *top = op->zp->root->child[dva.vdev];
	uint32_t size = op_read_size(op);
	uint64_t room = ROUND_UP((uint64_t)size, UINT64_C(1) << MIN(top->ashift, 16));

	if (!op->buf)
		op->buf = buf_alloc(room);
	if (!op->buf) {
		op->err = -ENOMEM;
		op_run(op, op_fail);
		return;
	}
	op->buf->size = size;
	op->io = (struct vdev_io){
	    .offset = dva.offset,
	    .size = size,
	    .data = op->buf->data,
	    .txg = bp_physical_birth(&op->bp),
	    .flags = (op->r->flags & ZIO_SPECULATIVE ? VDEV_READ_SPECULATIVE : 0) |
		     (op->r->flags & ZIO_SCRUB ? VDEV_READ_SCRUB : 0),
	    .verify = op_verify,
	    .done = op_read_done,
	    .arg = op,
	};
	submitting++;
	vdev_read(top, &op->io);
	submitting--;
}

/* --- gang blocks (02, section 5) --- */

static void op_gang_join(struct zio_op *op)
{
	size_t size = bp_psize(&op->bp);
	int err = atomic_load(&op->member_err);

	if (!err)
		err = block_verify(op->zp, &op->bp, op->buf->data, size);
	if (err) {
		op_finish(op, err, NULL);
		return;
	}
	op_decode(op);
}

static void gang_member_done(struct zio_read *zr, int err, struct buf *buf)
{
	struct gang_member *m = zr->arg;
	struct zio_op *op = m->leader;

	if (err)
		atomic_store(&op->member_err, err);
	else
		memcpy(op->buf->data + m->offset, buf->data, buf->size);
	buf_release(buf);
	if (atomic_fetch_sub(&op->pending, 1) == 1)
		op_gang_join(op);
}

/* Decode the members of a verified header; their sizes must add up to the leader's. */
static int op_gang_decode(struct zio_op *op, unsigned *count)
{
	unsigned slots = (op->header_size - GANG_TRAILER_SIZE) / BP_SIZE;
	uint64_t total = 0, size = bp_psize(&op->bp);

	op->member = calloc(slots, sizeof(*op->member));
	if (!op->member)
		return -ENOMEM;
	*count = 0;
	for (unsigned i = 0; i < slots; i++) {
		struct gang_member *m = &op->member[*count];

		bp_decode(&m->zr.bp, op->buf->data + (size_t)i * BP_SIZE, bp_is_swapped(&op->bp));
		if (bp_is_hole(&m->zr.bp))
			continue;
		if (bp_check(&m->zr.bp) || bp_is_embedded(&m->zr.bp) || bp_psize(&m->zr.bp) > size - total)
			return -ECKSUM;
		m->offset = (uint32_t)total;
		total += bp_psize(&m->zr.bp);
		(*count)++;
	}
	return *count > 0 && total == size ? 0 : -ECKSUM;
}

/* What was asked for is the header itself. */
static void op_gang_header(struct zio_op *op)
{
	struct buf *buf = op->buf;

	op->buf = NULL;
	buf->size = op->header_size;
	op_finish(op, 0, buf);
}

unsigned zio_gang_members(const struct bp *leader, const struct buf *header, struct bp *out)
{
	unsigned n = 0;

	for (size_t at = 0; at + BP_SIZE + GANG_TRAILER_SIZE <= header->size; at += BP_SIZE) {
		bp_decode(&out[n], header->data + at, bp_is_swapped(leader));
		if (!bp_is_hole(&out[n]) && !bp_is_embedded(&out[n]) && bp_check(&out[n]) == 0)
			n++;
	}
	return n;
}

static void op_gang_members(struct zio_op *op)
{
	unsigned count = 0;
	int err = op->depth >= GANG_DEPTH_MAX ? -EINVAL : op_gang_decode(op, &count);

	buf_release(op->buf);
	op->buf = err ? NULL : buf_alloc(bp_psize(&op->bp));
	if (!err && !op->buf)
		err = -ENOMEM;
	if (err) {
		op_finish(op, err, NULL);
		return;
	}
	atomic_store(&op->pending, count + 1);
	for (unsigned i = 0; i < count; i++) {
		struct gang_member *m = &op->member[i];

		m->leader = op;
		m->zr.zb = op->r->zb;
		m->zr.flags = ZIO_RAW | (op->r->flags & (ZIO_SPECULATIVE | ZIO_SCRUB | ZIO_QUIET));
		m->zr.done = gang_member_done;
		m->zr.arg = m;
		zio_start(op->zp, &m->zr, op->depth + 1);
	}
	if (atomic_fetch_sub(&op->pending, 1) == 1)
		op_gang_join(op);
}

/* --- from stored bytes to contents --- */

static int op_decrypt(struct zio_op *op)
{
	const struct bp *bp = &op->bp;
	int err;

	if (!bp_uses_crypt(bp) || bp_level(bp) > 0 || bp_type(bp) == DMU_OT_OBJSET || !op->r->key)
		return 0;
	err = zio_crypt_read(op->r->key, bp, op->buf->data, bp_psize(bp));
	if (err)
		counter_add(&op->zp->decrypt_failures, 1);
	return err;
}

static int op_decompress(struct zio_op *op)
{
	struct buf *out;
	int err;

	if (bp_compress(&op->bp) == COMPRESS_OFF)
		return 0;
	out = buf_alloc(bp_lsize(&op->bp));
	if (!out)
		return -ENOMEM;
	err = decompress(bp_compress(&op->bp), op->buf->data, bp_psize(&op->bp), out->data, bp_lsize(&op->bp));
	if (err) {
		buf_release(out);
		return -EIO;
	}
	buf_release(op->buf);
	op->buf = out;
	return 0;
}

static void op_decode(struct zio_op *op)
{
	const struct bp *bp = &op->bp;
	struct buf *buf;
	int err = 0;

	counter_add(&op->zp->reads, 1);
	counter_add(&op->zp->read_bytes, bp_psize(bp));
	if (!(op->r->flags & ZIO_RAW)) {
		err = op_decrypt(op);
		if (!err)
			err = op_decompress(op);
		if (!err && bp_uses_crypt(bp) && bp_level(bp) > 0)
			err = zio_crypt_check_indirect(bp, op->buf->data, op->buf->size);
	}
	buf = op->buf;
	op->buf = NULL;
	op_finish(op, err, buf);
}

/* Holes and embedded pointers: nothing to read. */
static void op_inline(struct task *t)
{
	struct zio_op *op = container_of(t, struct zio_op, task);
	size_t size = bp_lsize(&op->bp);
	struct buf *buf = buf_alloc(size);
	int err = 0;

	if (size == 0) /* redacted */
		err = -EIO;
	else if (!buf)
		err = -ENOMEM;
	else if (bp_is_embedded(&op->bp))
		err = bp_embedded_data(&op->bp, buf->data, size);
	else
		memset(buf->data, 0, size);
	op_finish(op, err, buf);
}

static void zio_start(struct zio_pool *zp, struct zio_read *r, unsigned depth)
{
	struct zio_op *op = xcalloc(1, sizeof(*op));
	int err;

	op->zp = zp;
	op->r = r;
	op->bp = r->bp;
	op->depth = depth;
	r->priv = op;
	err = op_check(op);
	if (!err && (bp_is_embedded(&op->bp) || bp_is_hole(&op->bp))) {
		op_run(op, op_inline);
		return;
	}
	if (!err)
		err = op_order_dvas(op);
	if (err) {
		op->err = err;
		op_run(op, op_fail);
		return;
	}
	op_read_next(op);
}

void zio_read(struct zio_pool *zp, struct zio_read *r)
{
	zio_start(zp, r, 0);
}

struct read_wait {
	struct waiter w;
	struct buf *buf;
};

static void read_wait_done(struct zio_read *r, int err, struct buf *buf)
{
	struct read_wait *rw = r->arg;

	rw->buf = buf;
	waiter_done(&rw->w, err);
}

int zio_read_wait(struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb, struct crypt_key *key,
		  unsigned flags, struct buf **out)
{
	struct read_wait rw = {.buf = NULL};
	struct zio_read r = {.bp = *bp, .zb = *zb, .key = key, .flags = flags, .done = read_wait_done, .arg = &rw};
	int err;

	waiter_init(&rw.w);
	zio_read(zp, &r);
	err = waiter_wait(&rw.w);
	*out = rw.buf;
	return err;
}
