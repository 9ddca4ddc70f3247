/*
 * mirror.c: mirror, replacing and spare: every child holds all the data (docs/format/06-allocation-and-vdevs.md, 4.1).
 *
 * A read goes to one child: not one that lacks the txg if another has it, then the least loaded; when it fails or its
 * data does not verify, to the next. A scrub reads them all. A write goes to all that are there, and one is enough.
 */
#include "base/buf.h"
#include "vdev/vdev_impl.h"

struct mirror_side {
	struct vdev *vd;
	unsigned cost;
};

struct mirror_read {
	struct vdev_io *io; /* the caller's */
	struct vdev_io child;
	struct buf *scratch; /* scrub: copies after the first good one */
	bool good;
	int err;
	unsigned next, nsides;
	struct mirror_side side[]; /* in the order they are tried */
};

#define COST_STALE    (1u << 30)
#define COST_NEWCOMER (1u << 29)

/* The device that takes the other's place is not whole yet, and its DTL is not known before the MOS has been read. */
static bool side_is_newcomer(const struct vdev *vd, unsigned i)
{
	return (vd->kind == VDEV_REPLACING && i + 1 == vd->nchildren) || (vd->kind == VDEV_SPARE && i > 0);
}

/* The queue of the first readable leaf below says how busy a side is. */
static unsigned side_load(const struct vdev *vd, uint64_t offset)
{
	while (!vdev_is_leaf(vd) && vd->nchildren > 0)
		vd = vd->child[vd->nchildren - 1];
	return vd->queue ? vdev_queue_load(vd->queue, offset) : 0;
}

static int side_compare(const void *a, const void *b)
{
	const struct mirror_side *x = a, *y = b;

	return x->cost < y->cost ? -1 : x->cost > y->cost;
}

static void mirror_order(struct vdev *vd, struct mirror_read *m)
{
	const struct vdev_io *io = m->io;
	unsigned preferred = (unsigned)((io->offset >> 21) % vd->nchildren);

	for (unsigned i = 0; i < vd->nchildren; i++) {
		unsigned n = (preferred + i) % vd->nchildren;
		struct vdev *c = vd->child[n];
		enum vdev_quality q = vdev_quality(c, io->offset, io->txg);
		if (q == VDEV_QUALITY_NONE || (q == VDEV_QUALITY_STALE && io->flags & VDEV_READ_NO_STALE))
			continue;
		unsigned load = MIN(side_load(c, io->offset), 1u << 20);
		m->side[m->nsides++] = (struct mirror_side){
		    .vd = c,
		    .cost = load * VDEV_CHILDREN_MAX + MIN(i, VDEV_CHILDREN_MAX - 1) +
			    (q == VDEV_QUALITY_STALE ? COST_STALE : 0) + (side_is_newcomer(vd, n) ? COST_NEWCOMER : 0),
		};
	}
	qsort(m->side, m->nsides, sizeof(m->side[0]), side_compare);
}

static void mirror_finish(struct mirror_read *m)
{
	struct vdev_io *io = m->io;
	int err = m->good ? 0 : m->err ? m->err : -ENXIO;

	if (err == -ECKSUM)
		vdev_count_checksum_error(io->vd, io);
	buf_release(m->scratch);
	free(m);
	io->done(io, err);
}

static void mirror_next(struct mirror_read *m);

static int mirror_verify(struct vdev_io *c, const uint8_t *data)
{
	struct mirror_read *m = c->arg;

	return m->io->verify(m->io, data);
}

static void mirror_child_done(struct vdev_io *c, int err)
{
	struct mirror_read *m = c->arg;

	if (err) {
		m->err = vdev_worse_error(m->err, err);
	} else if (!m->good) {
		m->good = true;
		m->io->from = c->from;
	}
	mirror_next(m);
}

static void mirror_next(struct mirror_read *m)
{
	struct vdev_io *io = m->io;
	bool scrub = io->flags & VDEV_READ_SCRUB;

	if ((m->good && !scrub) || m->next == m->nsides || (m->next > 0 && io->flags & VDEV_READ_NO_RETRY)) {
		mirror_finish(m);
		return;
	}
	if (m->good && !m->scratch) {
		m->scratch = buf_alloc(ROUND_UP(io->size, UINT64_C(1) << io->vd->ashift));
		if (!m->scratch) {
			mirror_finish(m);
			return;
		}
	}
	m->child = (struct vdev_io){
	    .offset = io->offset,
	    .size = io->size,
	    .data = m->good ? m->scratch->data : io->data,
	    .txg = io->txg,
	    .flags = io->flags,
	    .verify = io->verify ? mirror_verify : NULL,
	    .done = mirror_child_done,
	    .arg = m,
	    .depth = io->depth,
	};
	vdev_read(m->side[m->next++].vd, &m->child);
}

static void mirror_read(struct vdev *vd, struct vdev_io *io)
{
	struct mirror_read *m = xcalloc(1, sizeof(*m) + vd->nchildren * sizeof(m->side[0]));

	m->io = io;
	mirror_order(vd, m);
	mirror_next(m);
}

/* --- writing --- */

struct mirror_side_write {
	struct vdev_io io;
	int err;
};

struct mirror_write {
	struct vdev_io *io; /* the caller's */
	atomic_uint pending, written;
	struct mirror_side_write child[];
};

static void mirror_write_release(struct mirror_write *m)
{
	struct vdev_io *io = m->io;
	struct vdev *vd = io->vd;
	int err = 0;

	if (atomic_fetch_sub(&m->pending, 1) != 1)
		return;
	for (unsigned i = 0; i < vd->nchildren; i++) {
		if (m->child[i].err && atomic_load(&m->written) > 0)
			vdev_missed(vd->child[i], io->txg);
		else if (m->child[i].err)
			err = vdev_worse_error(err, m->child[i].err);
	}
	free(m);
	io->done(io, err);
}

static void mirror_child_written(struct vdev_io *c, int err)
{
	struct mirror_write *m = c->arg;

	container_of(c, struct mirror_side_write, io)->err = err;
	if (!err)
		atomic_fetch_add(&m->written, 1);
	mirror_write_release(m);
}

static void mirror_write(struct vdev *vd, struct vdev_io *io)
{
	struct mirror_write *m = xcalloc(1, sizeof(*m) + vd->nchildren * sizeof(m->child[0]));

	m->io = io;
	atomic_init(&m->pending, vd->nchildren + 1);
	for (unsigned i = 0; i < vd->nchildren; i++) {
		m->child[i].io = (struct vdev_io){
		    .offset = io->offset,
		    .size = io->size,
		    .data = io->data,
		    .txg = io->txg,
		    .flags = io->flags,
		    .class = io->class,
		    .zeros = io->zeros,
		    .pad = io->pad,
		    .done = mirror_child_written,
		    .arg = m,
		    .depth = io->depth,
		};
		vdev_write(vd->child[i], &m->child[i].io);
	}
	mirror_write_release(m);
}

static uint64_t mirror_asize_of(const struct vdev *vd, uint64_t child)
{
	(void)vd;
	return child;
}

static void mirror_settle(struct vdev *vd)
{
	vdev_settle_children(vd, vd->nchildren - 1);
	if (vd->top != vd || vd->asize == 0)
		vd->asize = vdev_min_child_asize(vd);
}

/* What the most demanding child needs. */
static uint64_t mirror_asize(const struct vdev *top, uint64_t psize, uint64_t txg)
{
	uint64_t asize = vdev_plain_asize(top, psize, txg);

	for (unsigned i = 0; i < top->nchildren; i++)
		asize = MAX(asize, vdev_psize_to_asize(top->child[i], psize, txg));
	return asize;
}

#define MIRROR_OPS(word, k)                                                                                            \
	{                                                                                                              \
		.type = word, .kind = k, .read = mirror_read, .write = mirror_write, .trim = vdev_trim_children,       \
		.psize_to_asize = mirror_asize, .asize_of = mirror_asize_of, .settle = mirror_settle,                  \
	}

const struct vdev_ops vdev_mirror_ops = MIRROR_OPS("mirror", VDEV_MIRROR);
const struct vdev_ops vdev_replacing_ops = MIRROR_OPS("replacing", VDEV_REPLACING);
const struct vdev_ops vdev_spare_ops = MIRROR_OPS("spare", VDEV_SPARE);
