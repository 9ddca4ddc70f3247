/*
 * raidz.c: where the columns of a RAIDZ block lie, before, during and after expansions
 * (docs/format/06-allocation-and-vdevs.md, 5.2, 5.3 and 6). stripe.c reads them, stripe_write.c writes them.
 */
#include "vdev/stripe.h"

enum { /* scratch state of a running expansion, 06 6.2 */
       REFLOW_SCRATCH_VALID = 1,
};

struct raidz {
	unsigned nchildren;      /* the new disk of a running expansion included */
	unsigned original_width; /* when the vdev was made */
	bool expanding;
	unsigned scratch_state;
	uint64_t synced;  /* bytes of the address space that the expansion has moved */
	size_t nexpanded; /* expansions done */
	uint64_t expand_txg[];
};

static int raidz_create(struct vdev *vd, const struct nvlist *nv, struct err *e)
{
	const uint64_t *txg = NULL;
	size_t n = 0;

	vd->nparity = nvlist_u64_or(nv, "nparity", 1);
	if (vd->nparity < 1 || vd->nparity > PARITY_MAX)
		return err_set(e, -EINVAL, "raidz with parity %llu", (unsigned long long)vd->nparity);
	if (nvlist_exists(nv, "raidz_expand_txgs") && nvlist_u64s(nv, "raidz_expand_txgs", &txg, &n) != 0)
		return err_set(e, -EINVAL, "raidz: the list of expansions is damaged");
	bool expanding = nvlist_exists(nv, "raidz_expanding");
	if (vd->nchildren > VDEV_CHILDREN_MAX || n > VDEV_CHILDREN_MAX ||
	    vd->nchildren < vd->nparity + 1 + expanding + n)
		return err_set(e, -EINVAL, "raidz%llu with %u devices", (unsigned long long)vd->nparity, vd->nchildren);
	for (size_t i = 1; i < n; i++)
		if (txg[i] <= txg[i - 1])
			return err_set(e, -EINVAL, "raidz: expansions are out of order");

	struct raidz *rz = xcalloc(1, sizeof(*rz) + n * sizeof(rz->expand_txg[0]));
	rz->nchildren = vd->nchildren;
	rz->expanding = expanding;
	rz->original_width = vd->nchildren - expanding - (unsigned)n;
	rz->nexpanded = n;
	if (n)
		memcpy(rz->expand_txg, txg, n * sizeof(*txg));
	vd->priv = rz;
	return 0;
}

static void raidz_destroy(struct vdev *vd)
{
	free(vd->priv);
}

void vdev_raidz_set_reflow(struct vdev *vd, uint64_t info)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		vdev_raidz_set_reflow(vd->child[i], info);
	struct raidz *rz = vd->kind == VDEV_RAIDZ ? vd->priv : NULL;
	if (!rz || !rz->expanding)
		return;
	rz->synced = (info & ((UINT64_C(1) << 55) - 1)) << 9;
	rz->scratch_state = (unsigned)(info >> 55);
}

/* The number of children over which a block born in txg is laid out. */
static unsigned raidz_width(const struct raidz *rz, uint64_t txg)
{
	unsigned width = rz->original_width;

	for (size_t i = 0; i < rz->nexpanded && rz->expand_txg[i] <= txg; i++)
		width = rz->original_width + (unsigned)i + 1;
	return width;
}

static uint64_t raidz_asize(const struct vdev *vd, uint64_t psize, uint64_t txg)
{
	uint64_t sector = UINT64_C(1) << vd->ashift, p = vd->nparity;
	uint64_t width = raidz_width(vd->priv, txg);
	uint64_t s = (psize + sector - 1) / sector;
	uint64_t total = s + p * ((s + width - p - 1) / (width - p));

	return ROUND_UP(total, p + 1) << vd->ashift;
}

/* A block in units of 5.3. */
struct geometry {
	uint64_t first; /* linear sector */
	unsigned width, nparity;
	uint64_t sectors, full_rows, rest;
	unsigned big, cols;
};

static struct geometry raidz_geometry(const struct vdev *vd, const struct vdev_io *io, unsigned width)
{
	struct geometry g = {
	    .first = io->offset >> vd->ashift,
	    .width = width,
	    .nparity = (unsigned)vd->nparity,
	    .sectors = ROUND_UP(io->size, UINT64_C(1) << vd->ashift) >> vd->ashift,
	};

	g.full_rows = g.sectors / (width - g.nparity);
	g.rest = g.sectors % (width - g.nparity);
	g.big = g.rest ? (unsigned)g.rest + g.nparity : 0;
	g.cols = g.full_rows ? width : g.big;
	return g;
}

/* Raidz1 alternates: in every second MiB of the address space the first data column is where parity would be. */
static void swap_parity(const struct stripe *s, struct stripe_row *r)
{
	if (s->nparity != 1 || !(s->io->offset & (1u << 20)))
		return;
	struct stripe_col *a = &r->col[0], *b = &r->col[1], old = *a;
	a->child = b->child;
	a->offset = b->offset;
	a->sector = b->sector;
	a->pad = b->pad;
	b->child = old.child;
	b->offset = old.offset;
	b->sector = old.sector;
	b->pad = old.pad;
}

/* The skipped sectors at the block's end lie behind its first columns, when it has all columns. */
static void mark_padding(const struct geometry *g, struct stripe_row *r, unsigned ashift)
{
	uint64_t total = g->full_rows * g->width + g->big;

	for (uint64_t x = total; g->full_rows > 0 && x < ROUND_UP(total, g->nparity + 1); x++)
		r->col[x % g->width].pad = 1u << ashift;
}

/* 5.3: one row of long columns. */
static struct stripe *raidz_map_plain(struct vdev *vd, struct vdev_io *io, const struct geometry *g)
{
	struct stripe *s = stripe_create(vd, io, g->nparity, 1, g->cols);
	uint8_t *data = io->data;

	if (!s)
		return NULL;
	struct stripe_row *r = &s->row[0];
	r->ncols = g->cols;
	r->psize = (uint32_t)((g->full_rows + (g->big > 0)) << vd->ashift);
	for (unsigned i = 0; i < g->cols; i++) {
		struct stripe_col *c = &r->col[i];
		uint64_t x = g->first + i;
		c->sector = x;
		c->child = (unsigned)(x % g->width);
		c->offset = (x / g->width) << vd->ashift;
		c->size = (uint32_t)((g->full_rows + (i < g->big)) << vd->ashift);
		if (i >= g->nparity) {
			c->data = data;
			data += c->size;
		}
	}
	mark_padding(g, r, (unsigned)vd->ashift);
	swap_parity(s, r);
	return s;
}

/* 6.3: where in the block the sector of data column dc in row k is, counted in sectors. */
static uint64_t expanded_index(const struct geometry *g, uint64_t rows, unsigned dc, uint64_t k)
{
	if (g->rest == 0 || dc < g->rest)
		return dc * rows + k;
	return g->rest * rows + (dc - g->rest) * (rows - 1) + k;
}

static void expanded_row(const struct stripe *s, const struct raidz *rz, const struct geometry *g, uint64_t k,
			 uint64_t rows)
{
	struct stripe_row *r = &s->row[k];
	unsigned ashift = (unsigned)s->vd->ashift;
	uint64_t x0 = g->first + k * g->width;
	bool moved = !rz->expanding || x0 + g->cols <= rz->synced >> ashift;
	unsigned children = moved ? rz->nchildren : rz->nchildren - 1;

	r->ncols = g->cols;
	r->psize = 1u << ashift;
	r->in_scratch = rz->expanding && moved && rz->scratch_state == REFLOW_SCRATCH_VALID;
	for (unsigned i = 0; i < g->cols; i++) {
		struct stripe_col *c = &r->col[i];
		bool absent = k == g->full_rows && i >= g->big;
		c->sector = x0 + i;
		c->child = (unsigned)((x0 + i) % children);
		c->offset = ((x0 + i) / children) << ashift;
		c->size = absent ? 0 : 1u << ashift;
		c->data = s->io->data;
		if (i >= g->nparity && !absent)
			c->data += expanded_index(g, rows, i - g->nparity, k) << ashift;
	}
	swap_parity(s, r);
}

/* 6.3: rows one sector high, each placed as a whole. */
static struct stripe *raidz_map_expanded(struct vdev *vd, struct vdev_io *io, const struct geometry *g)
{
	const struct raidz *rz = vd->priv;
	uint64_t rows = g->full_rows + (g->rest > 0);
	struct stripe *s = stripe_create(vd, io, g->nparity, (unsigned)rows, rows * g->cols);

	if (!s)
		return NULL;
	s->width_max = rz->expanding ? rz->nchildren : rz->nchildren - 1; /* all children: as they are now */
	s->width_min = rz->original_width;
	for (uint64_t k = 0; k < rows; k++) {
		s->row[k].col = s->row[0].col + k * g->cols;
		expanded_row(s, rz, g, k, rows);
	}
	return s;
}

struct stripe *vdev_raidz_map(struct vdev *vd, struct vdev_io *io)
{
	const struct raidz *rz = vd->priv;
	unsigned width = raidz_width(rz, io->txg);
	struct geometry g = raidz_geometry(vd, io, width);

	/* Rows that have not moved yet lie where they were written, so a block that has none yet is as ever. */
	bool unmoved = rz->expanding && g.first + g.cols > rz->synced >> vd->ashift;
	if (width == rz->nchildren - rz->expanding && (!rz->expanding || unmoved))
		return raidz_map_plain(vd, io, &g);
	return raidz_map_expanded(vd, io, &g);
}

static void raidz_read(struct vdev *vd, struct vdev_io *io)
{
	struct stripe *s = io->offset % (UINT64_C(1) << vd->ashift) ? NULL : vdev_raidz_map(vd, io);

	if (s)
		stripe_read(s);
	else
		io->done(io, io->offset % (UINT64_C(1) << vd->ashift) ? -EINVAL : -ENOMEM);
}

static void raidz_write(struct vdev *vd, struct vdev_io *io)
{
	const struct raidz *rz = vd->priv;
	struct stripe *s = rz->expanding ? NULL : vdev_raidz_map(vd, io);

	if (s)
		stripe_write(s);
	else
		io->done(io, rz->expanding ? -ENOTSUP : -ENOMEM);
}

/* 5.6: the rows of a child in which it has sectors of the range from its n-th one on. */
static uint64_t child_row(uint64_t sector, unsigned child, unsigned n)
{
	return sector > child ? (sector - child + n - 1) / n : 0;
}

static void raidz_trim(struct vdev *vd, struct vdev_io *io)
{
	const struct raidz *rz = vd->priv;
	uint64_t from = io->offset >> vd->ashift, to = (io->offset + io->size) >> vd->ashift;

	if (rz->expanding) {
		io->done(io, 0);
		return;
	}
	struct trim *t = trim_create(io, vd->nchildren);
	for (unsigned i = 0; i < vd->nchildren; i++) {
		uint64_t first = child_row(from, i, vd->nchildren), last = child_row(to, i, vd->nchildren);

		trim_part(t, i, vd->child[i], first << vd->ashift, (last - first) << vd->ashift);
	}
	trim_finish(t);
}

static uint64_t raidz_asize_of(const struct vdev *vd, uint64_t child)
{
	const struct raidz *rz = vd->priv;

	return child * (rz->nchildren - rz->expanding);
}

static void raidz_settle(struct vdev *vd)
{
	vdev_settle_children(vd, (unsigned)vd->nparity);
	if (vd->asize == 0)
		vd->asize = raidz_asize_of(vd, vdev_min_child_asize(vd));
}

const struct vdev_ops vdev_raidz_ops = {
    .type = "raidz",
    .kind = VDEV_RAIDZ,
    .create = raidz_create,
    .read = raidz_read,
    .write = raidz_write,
    .trim = raidz_trim,
    .psize_to_asize = raidz_asize,
    .asize_of = raidz_asize_of,
    .settle = raidz_settle,
    .destroy = raidz_destroy,
};
