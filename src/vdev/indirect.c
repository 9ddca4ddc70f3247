/*
 * indirect.c: reads of removed devices through their mapping (docs/format/06-allocation-and-vdevs.md, 4.7).
 *
 * A block that lies in one piece on one device is read there as if it had always been there. A split block is put
 * together from its pieces; as none of them can be verified alone, all copies of all pieces are combined when the first
 * combination does not verify.
 */
#include "base/buf.h"
#include "vdev/vdev_impl.h"

#define COMBINATIONS_MAX 4096
#define COPIES_MAX       16
#define CHAIN_MAX        1024 /* removals in a row */
#define PORTION_BYTES    (8u << 20)

struct indirect {
	size_t n;
	struct vdev_indirect_entry entry[];
};

int vdev_indirect_set_mapping(struct vdev *vd, const struct vdev_indirect_entry *map, size_t n)
{
	uint64_t end = 0;

	if (vd->kind != VDEV_INDIRECT || !vd->parent)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		const struct vdev_indirect_entry *m = &map[i];
		if (m->size == 0 || m->src_offset < end || m->src_offset > UINT64_C(1) << 62 ||
		    m->size > UINT64_C(1) << 62 || m->dst_offset > UINT64_C(1) << 62 ||
		    (m->src_offset | m->size | m->dst_offset) % 512 != 0 || m->dst_vdev >= vd->parent->nchildren ||
		    m->dst_vdev == vd->id)
			return -EINVAL;
		end = m->src_offset + m->size;
	}
	struct indirect *in = malloc(sizeof(*in) + n * sizeof(*map));
	if (!in)
		return -ENOMEM;
	in->n = n;
	if (n)
		memcpy(in->entry, map, n * sizeof(*map));
	free(vd->priv);
	vd->priv = in;
	return 0;
}

/* Pieces */

struct copy {
	struct vdev *vd;
	struct buf *buf;
	struct vdev_io io;
	struct indirect_read *owner;
	bool ok, duplicate;
};

struct piece {
	struct vdev *vd;
	uint64_t offset, size;
	uint64_t at; /* in the block */
	unsigned ncopies, chosen;
	struct copy *copy;
};

struct indirect_read {
	struct vdev_io *io;
	struct piece *piece;
	size_t npieces, room;
	struct vdev_io single;
	atomic_uint pending;
	struct task task;
	bool all; /* every copy was asked for */
	uint64_t combinations, tried;
	uint64_t random;
};

static void indirect_finish(struct indirect_read *ir, int err)
{
	struct vdev_io *io = ir->io;

	for (size_t i = 0; i < ir->npieces; i++) {
		for (unsigned c = 0; c < ir->piece[i].ncopies; c++)
			buf_release(ir->piece[i].copy[c].buf);
		free(ir->piece[i].copy);
	}
	free(ir->piece);
	free(ir);
	if (err == -ECKSUM)
		vdev_count_checksum_error(io->vd, io);
	io->done(io, err);
}

static int piece_add(struct indirect_read *ir, struct vdev *vd, uint64_t offset, uint64_t size)
{
	struct piece *last = ir->npieces ? &ir->piece[ir->npieces - 1] : NULL;
	uint64_t at = last ? last->at + last->size : 0;

	if (last && last->vd == vd && last->offset + last->size == offset) {
		last->size += size;
		return 0;
	}
	if (ir->npieces == ir->room) {
		size_t room = ir->room ? 2 * ir->room : 4;
		struct piece *p = realloc(ir->piece, room * sizeof(*p));
		if (!p)
			return -ENOMEM;
		ir->piece = p;
		ir->room = room;
	}
	ir->piece[ir->npieces++] = (struct piece){.vd = vd, .offset = offset, .size = size, .at = at};
	return 0;
}

/* The entry that holds a source offset; NULL: not mapped. */
static const struct vdev_indirect_entry *mapping_find(const struct indirect *in, uint64_t offset)
{
	size_t lo = 0, hi = in->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct vdev_indirect_entry *m = &in->entry[mid];
		if (offset < m->src_offset)
			hi = mid;
		else if (offset - m->src_offset >= m->size)
			lo = mid + 1;
		else
			return m;
	}
	return NULL;
}

static int indirect_resolve(struct indirect_read *ir, struct vdev *vd, uint64_t offset, uint64_t size, unsigned depth)
{
	int err = 0;

	if (vd->kind != VDEV_INDIRECT)
		return piece_add(ir, vd, offset, size);
	if (depth > MIN(vd->parent->nchildren, CHAIN_MAX)) /* a circle */
		return -EIO;
	while (size > 0 && err == 0) {
		const struct vdev_indirect_entry *m = vd->priv ? mapping_find(vd->priv, offset) : NULL;
		if (!m)
			return -ENXIO;
		uint64_t skip = offset - m->src_offset, n = MIN(size, m->size - skip);
		err = indirect_resolve(ir, vd->parent->child[m->dst_vdev], m->dst_offset + skip, n, depth + 1);
		offset += n;
		size -= n;
	}
	return err;
}

const struct vdev_indirect_entry *vdev_indirect_mapping(const struct vdev *vd, size_t *n)
{
	const struct indirect *in = vd->kind == VDEV_INDIRECT ? vd->priv : NULL;

	*n = in ? in->n : 0;
	return in ? in->entry : NULL;
}

int vdev_resolve(struct vdev *vd, uint64_t offset, uint64_t size,
		 int (*fn)(void *arg, struct vdev *vd, uint64_t offset, uint64_t size), void *arg)
{
	struct indirect_read ir = {.npieces = 0};
	int err = indirect_resolve(&ir, vd, offset, size, 0);

	for (size_t i = 0; i < ir.npieces && !err; i++)
		err = fn(arg, ir.piece[i].vd, ir.piece[i].offset, ir.piece[i].size);
	free(ir.piece);
	return err;
}

/* One piece */

static int single_verify(struct vdev_io *c, const uint8_t *data)
{
	struct indirect_read *ir = c->arg;

	return ir->io->verify(ir->io, data);
}

static void single_done(struct vdev_io *c, int err)
{
	struct indirect_read *ir = c->arg;

	ir->io->from = c->from;
	indirect_finish(ir, err);
}

static void indirect_read_single(struct indirect_read *ir)
{
	struct vdev_io *io = ir->io;

	ir->single = (struct vdev_io){
	    .offset = ir->piece[0].offset,
	    .size = io->size,
	    .data = io->data,
	    .txg = io->txg,
	    .flags = io->flags,
	    .verify = io->verify ? single_verify : NULL,
	    .done = single_done,
	    .arg = ir,
	    .depth = io->depth + 1,
	};
	vdev_read(ir->piece[0].vd, &ir->single);
}

/* Split blocks */

static void indirect_release(struct indirect_read *ir);

static void copy_done(struct vdev_io *io, int err)
{
	struct copy *c = container_of(io, struct copy, io);

	c->ok = err == 0;
	indirect_release(c->owner);
}

static int copy_read(struct indirect_read *ir, struct piece *p, struct copy *c, struct vdev *vd)
{
	c->vd = vd;
	c->owner = ir;
	c->buf = buf_alloc(ROUND_UP(p->size, UINT64_C(1) << vd->ashift));
	if (!c->buf)
		return -ENOMEM;
	c->io = (struct vdev_io){
	    .offset = p->offset,
	    .size = p->size,
	    .data = c->buf->data,
	    .txg = ir->io->txg,
	    .flags = ir->io->flags & (VDEV_READ_SPECULATIVE | VDEV_READ_SCRUB),
	    .done = copy_done,
	    .depth = ir->io->depth + 1,
	};
	atomic_fetch_add(&ir->pending, 1);
	vdev_read(vd, &c->io);
	return 0;
}

/* The devices that each hold a whole copy. */
static unsigned list_copies(struct vdev *vd, struct vdev **out, unsigned n)
{
	if (n == COPIES_MAX || !vdev_is_readable(vd))
		return n;
	if (!vdev_is_mirror_like(vd)) {
		out[n] = vd;
		return n + 1;
	}
	for (unsigned i = 0; i < vd->nchildren; i++)
		n = list_copies(vd->child[i], out, n);
	return n;
}

static int piece_read(struct indirect_read *ir, struct piece *p)
{
	struct vdev *from[COPIES_MAX] = {p->vd};
	unsigned n = ir->all ? list_copies(p->vd, from, 0) : 1;
	int err = 0;

	for (unsigned i = 0; i < p->ncopies; i++)
		buf_release(p->copy[i].buf);
	free(p->copy);
	p->ncopies = p->chosen = 0;
	p->copy = calloc(n ? n : 1, sizeof(*p->copy));
	if (!p->copy)
		return -ENOMEM;
	for (unsigned i = 0; i < n && err == 0; i++, p->ncopies++)
		err = copy_read(ir, p, &p->copy[i], from[i]);
	return err;
}

static void indirect_issue(struct indirect_read *ir)
{
	atomic_store(&ir->pending, 1);
	for (size_t i = 0; i < ir->npieces; i++)
		if (piece_read(ir, &ir->piece[i]) != 0)
			break; /* no memory: a piece without a copy fails the read */
	indirect_release(ir);
}

static void assemble(struct indirect_read *ir)
{
	for (size_t i = 0; i < ir->npieces; i++) {
		const struct piece *p = &ir->piece[i];
		memcpy(ir->io->data + p->at, p->copy[p->chosen].buf->data, p->size);
	}
}

static bool indirect_verify(struct indirect_read *ir)
{
	assemble(ir);
	return !ir->io->verify || ir->io->verify(ir->io, ir->io->data) == 0;
}

/* Drop copies that failed or equal an earlier one; false when nothing is left of a piece. */
static bool piece_reduce(struct piece *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->ncopies; i++) {
		struct copy c = p->copy[i];
		bool keep = c.ok;
		for (unsigned j = 0; j < n && keep; j++)
			keep = memcmp(p->copy[j].buf->data, c.buf->data, p->size) != 0;
		if (keep) {
			p->copy[i] = p->copy[n];
			p->copy[n++] = c;
		}
	}
	for (unsigned i = n; i < p->ncopies; i++)
		buf_release(p->copy[i].buf);
	p->ncopies = n;
	return n > 0;
}

/* Copies that differ from the chosen one are wrong. */
static void indirect_good(struct indirect_read *ir)
{
	for (size_t i = 0; i < ir->npieces; i++)
		for (unsigned c = 0; c < ir->piece[i].ncopies; c++)
			if (ir->all && c != ir->piece[i].chosen)
				vdev_count_checksum_error(ir->piece[i].copy[c].vd, ir->io);
	indirect_finish(ir, 0);
}

static bool next_combination(struct indirect_read *ir)
{
	if (++ir->tried >= MIN(ir->combinations, COMBINATIONS_MAX))
		return false;
	if (ir->combinations > COMBINATIONS_MAX) {
		for (size_t i = 0; i < ir->npieces; i++) {
			ir->random = ir->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			ir->piece[i].chosen = (unsigned)(ir->random >> 33) % ir->piece[i].ncopies;
		}
		return true;
	}
	for (size_t i = 0; i < ir->npieces; i++) {
		if (++ir->piece[i].chosen < ir->piece[i].ncopies)
			return true;
		ir->piece[i].chosen = 0;
	}
	return false;
}

static void indirect_search(struct task *t)
{
	struct indirect_read *ir = container_of(t, struct indirect_read, task);
	uint64_t bytes = 0;

	do {
		if (indirect_verify(ir)) {
			indirect_good(ir);
			return;
		}
		if (!next_combination(ir)) {
			indirect_finish(ir, -ECKSUM);
			return;
		}
		bytes += ir->io->size;
	} while (bytes < PORTION_BYTES);
	taskq_dispatch(cpu_taskq(), t);
}

static void indirect_combine(struct indirect_read *ir)
{
	ir->combinations = 1;
	for (size_t i = 0; i < ir->npieces; i++) {
		if (!piece_reduce(&ir->piece[i])) {
			indirect_finish(ir, -EIO);
			return;
		}
		if (ir->combinations <= COMBINATIONS_MAX)
			ir->combinations *= ir->piece[i].ncopies;
	}
	ir->random = ir->io->offset;
	indirect_search(&ir->task);
}

static void indirect_step(struct task *t)
{
	struct indirect_read *ir = container_of(t, struct indirect_read, task);

	if (ir->all) {
		ir->task.run = indirect_search;
		indirect_combine(ir);
		return;
	}
	bool complete = true;
	for (size_t i = 0; i < ir->npieces; i++)
		complete &= ir->piece[i].ncopies > 0 && ir->piece[i].copy[0].ok;
	if (complete && indirect_verify(ir)) {
		indirect_finish(ir, 0);
		return;
	}
	if (!complete || ir->io->flags & VDEV_READ_NO_RETRY) {
		indirect_finish(ir, complete ? -ECKSUM : -EIO);
		return;
	}
	ir->all = true;
	indirect_issue(ir);
}

static void indirect_release(struct indirect_read *ir)
{
	if (atomic_fetch_sub(&ir->pending, 1) != 1)
		return;
	ir->task.run = indirect_step;
	taskq_dispatch(cpu_taskq(), &ir->task);
}

static void indirect_vdev_read(struct vdev *vd, struct vdev_io *io)
{
	struct indirect_read *ir = xcalloc(1, sizeof(*ir));

	ir->io = io;
	int err = vd->parent ? indirect_resolve(ir, vd, io->offset, io->size, 0) : -ENXIO;
	if (err) {
		indirect_finish(ir, err);
		return;
	}
	/* The caller's buffer has room for whole sectors of this vdev. */
	if (ir->npieces == 1 && ir->piece[0].vd->ashift <= vd->ashift) {
		indirect_read_single(ir);
		return;
	}
	ir->all = io->flags & VDEV_READ_SCRUB;
	indirect_issue(ir);
}

static void indirect_settle(struct vdev *vd)
{
	vd->state = VDEV_STATE_HEALTHY;
	vd->aux = VDEV_AUX_NONE;
}

static void indirect_destroy(struct vdev *vd)
{
	free(vd->priv);
}

const struct vdev_ops vdev_indirect_ops = {
    .type = "indirect",
    .kind = VDEV_INDIRECT,
    .read = indirect_vdev_read,
    .psize_to_asize = vdev_plain_asize,
    .settle = indirect_settle,
    .destroy = indirect_destroy,
};
