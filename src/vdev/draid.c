/*
 * draid.c: where the columns of a dRAID block lie, and its distributed spares
 * (docs/format/06-allocation-and-vdevs.md, section 7). stripe.c reads them, stripe_write.c writes them.
 */
#include "vdev/stripe.h"

#define ROW_HEIGHT       (UINT64_C(16) << 20) /* bytes per child */
#define DRAID_RESERVE    (2 * ROW_HEIGHT)
#define DRAID_SPARES_MAX 100
#define DRAID_GROUPS_MAX 255

struct draid {
	unsigned nparity, ndata, nspares, ngroups; /* p, d, S, G */
	unsigned ndomain;                          /* children of a failure group, C */
	unsigned domains;                          /* failure groups, F */
	unsigned group_width;                      /* g */
	unsigned ndisks;                           /* N */
	uint64_t group_size;                       /* GS, bytes */
	uint64_t slice_height;                     /* DS, bytes per child */
	unsigned nrows;                            /* of the map */
	uint16_t *map;
};

/* Configuration */

static int draid_check(const struct vdev *vd, struct draid *d)
{
	if (d->nparity < 1 || d->nparity > PARITY_MAX || d->ndata < 1 || d->nspares > DRAID_SPARES_MAX ||
	    d->ngroups < 1 || d->ngroups > DRAID_GROUPS_MAX)
		return -EINVAL;
	if (vd->nchildren < 2 || vd->nchildren > VDEV_CHILDREN_MAX || d->ndomain < 2 || vd->nchildren % d->ndomain != 0)
		return -EINVAL;
	d->domains = vd->nchildren / d->ndomain;
	d->group_width = d->ndata + d->nparity;
	if (d->group_width + (d->nspares + d->domains - 1) / d->domains > d->ndomain)
		return -EINVAL;
	d->ndisks = vd->nchildren - d->nspares;
	/* A slice fills whole rows of all disks. */
	if (d->ngroups < d->domains || d->group_width * d->ngroups % d->ndisks != 0)
		return -EINVAL;
	d->group_size = d->group_width * ROW_HEIGHT;
	d->slice_height = d->group_width * d->ngroups / d->ndisks * ROW_HEIGHT;
	return 0;
}

static unsigned draid_number(const struct nvlist *nv, const char *name, unsigned fallback)
{
	return (unsigned)MIN(nvlist_u64_or(nv, name, fallback), UINT16_MAX);
}

static int draid_create(struct vdev *vd, const struct nvlist *nv, struct err *e)
{
	struct draid d = {
	    .nparity = draid_number(nv, "nparity", 0),
	    .ndata = draid_number(nv, "draid_ndata", 0),
	    .nspares = draid_number(nv, "draid_nspares", UINT16_MAX),
	    .ngroups = draid_number(nv, "draid_ngroups", 0),
	    .ndomain = draid_number(nv, "draid_nchildren", vd->nchildren),
	};

	if (draid_check(vd, &d) != 0)
		return err_set(e, -EINVAL, "draid: impossible layout of %u devices", vd->nchildren);
	vd->nparity = d.nparity;
	d.map = draid_map_generate(d.ndomain, d.domains, &d.nrows);
	vd->priv = xmalloc(sizeof(d));
	memcpy(vd->priv, &d, sizeof(d));
	return 0;
}

static void draid_destroy(struct vdev *vd)
{
	struct draid *d = vd->priv;

	if (d)
		free(d->map);
	free(d);
}

/* Sizes */

static uint64_t draid_asize(const struct vdev *vd, uint64_t psize, uint64_t txg)
{
	const struct draid *d = vd->priv;
	uint64_t row = (uint64_t)d->ndata << vd->ashift;

	(void)txg;
	return (psize + row - 1) / row * ((uint64_t)d->group_width << vd->ashift);
}

static uint64_t draid_asize_of(const struct vdev *vd, uint64_t child)
{
	const struct draid *d = vd->priv;
	uint64_t asize;

	if (child <= DRAID_RESERVE)
		return 0;
	asize = ROUND_DOWN(ROUND_DOWN(child - DRAID_RESERVE, ROW_HEIGHT) * d->ndisks, d->group_size);
	return d->domains > 1 ? ROUND_DOWN(asize, d->slice_height * d->ndisks) : asize;
}

static void draid_settle(struct vdev *vd)
{
	const struct draid *d = vd->priv;

	vdev_settle_children(vd, d->nparity * d->domains);
	if (vd->asize == 0)
		vd->asize = draid_asize_of(vd, vdev_min_child_asize(vd));
}

/* Places */

/* The child at a position of a permutation (7.5). */
static unsigned draid_child(const struct draid *d, uint64_t pidx, unsigned position)
{
	unsigned c = d->ndomain, f = d->domains;
	uint64_t t = pidx % ((uint64_t)d->nrows * c);

	if (f == 1)
		return (d->map[(t / c) * c + position] + (unsigned)(t % c)) % c;
	uint64_t block = t / ((uint64_t)c * f) * f;
	unsigned it = (unsigned)(t % c + pidx % f * c);
	return d->map[(block + it / c) * c + (position + it) % c];
}

/* A group: its permutation, disks, first position and first row. */
struct place {
	uint64_t pidx, row;
	unsigned disks, first;
};

static struct place draid_place(const struct draid *d, uint64_t group)
{
	uint64_t slice = group / d->ngroups;
	unsigned gl = (unsigned)(group % d->ngroups), g = d->group_width, f = d->domains;
	uint64_t slice_rows = slice * (d->slice_height / ROW_HEIGHT);

	if (f == 1)
		return (struct place){slice, slice_rows + gl * g / d->ndisks, d->ndisks, gl * g % d->ndisks};
	unsigned n1 = d->ngroups / f, big = d->nspares % f;
	unsigned poff = big == 0 || gl < big * n1 ? gl / n1 : big + (gl - big * n1) / (n1 + 1);
	bool wide = big > 0 && poff >= big;
	unsigned disks = d->ndisks / f + wide, ng = n1 + wide;
	unsigned lg = big == 0 || poff <= big ? gl - poff * n1 : gl - big * n1 - (poff - big) * (n1 + 1);
	return (struct place){
	    .pidx = slice * f + poff,
	    .row = slice_rows + lg % ng * g / disks,
	    .disks = disks,
	    .first = lg * g % disks,
	};
}

static void draid_map_row(struct stripe *s, struct stripe_row *r, uint64_t offset, uint64_t size, uint8_t *data)
{
	const struct draid *d = s->vd->priv;
	unsigned ashift = (unsigned)s->vd->ashift, g = d->group_width;
	struct place at = draid_place(d, offset / d->group_size);
	uint64_t inside = ((offset >> ashift) % ((ROW_HEIGHT >> ashift) * g)) / g;
	uint64_t start = at.row * ROW_HEIGHT + (inside << ashift);
	uint64_t sectors = (size + (UINT64_C(1) << ashift) - 1) >> ashift;
	uint64_t rows = sectors / d->ndata, rest = sectors % d->ndata;

	r->ncols = g;
	r->psize = (uint32_t)((rows + (rest > 0)) << ashift);
	for (unsigned i = 0; i < g; i++) {
		struct stripe_col *c = &r->col[i];
		bool wrapped = at.first + i >= at.disks;
		c->child = draid_child(d, at.pidx, (at.first + i) % at.disks);
		c->offset = start + (wrapped ? ROW_HEIGHT : 0);
		c->size = (uint32_t)((rows + (rest > 0 && i < rest + d->nparity)) << ashift);
		c->data = data;
		if (i >= d->nparity)
			data += c->size;
	}
}

struct stripe *vdev_draid_map(struct vdev *vd, struct vdev_io *io)
{
	const struct draid *d = vd->priv;
	uint64_t boundary = (io->offset / d->group_size + 1) * d->group_size;
	bool split = io->offset + draid_asize(vd, io->size, 0) > boundary;
	uint64_t size1 = split ? (boundary - io->offset) / d->group_width * d->ndata : io->size;

	if (size1 == 0 || size1 >= io->size) { /* the group's last sectors cannot hold a row */
		split = false;
		size1 = io->size;
	}
	struct stripe *s = stripe_create(vd, io, d->nparity, 1 + split, (1 + split) * (size_t)d->group_width);
	if (!s)
		return NULL;
	draid_map_row(s, &s->row[0], io->offset, size1, io->data);
	if (split) {
		s->row[1].col = s->row[0].col + d->group_width;
		draid_map_row(s, &s->row[1], boundary, io->size - size1, io->data + size1);
	}
	return s;
}

static void draid_start(struct vdev *vd, struct vdev_io *io, void (*start)(struct stripe *s))
{
	const struct draid *d = vd->priv;

	/* Blocks begin at the start of a row of their group. */
	if (io->offset % ((uint64_t)d->group_width << vd->ashift) != 0) {
		io->done(io, -EINVAL);
		return;
	}
	struct stripe *s = vdev_draid_map(vd, io);
	if (s)
		start(s);
	else
		io->done(io, -ENOMEM);
}

static void draid_read(struct vdev *vd, struct vdev_io *io)
{
	draid_start(vd, io, stripe_read);
}

static void draid_write(struct vdev *vd, struct vdev_io *io)
{
	draid_start(vd, io, stripe_write);
}

/* Whole rows of one group: a range on each child of the group. */
static void trim_group(struct trim *t, size_t part, struct vdev *vd, uint64_t offset, uint64_t size)
{
	const struct draid *d = vd->priv;
	struct place at = draid_place(d, offset / d->group_size);
	uint64_t start = at.row * ROW_HEIGHT + offset % d->group_size / d->group_width;

	for (unsigned i = 0; i < d->group_width; i++) {
		bool wrapped = at.first + i >= at.disks;
		struct vdev *c = vd->child[draid_child(d, at.pidx, (at.first + i) % at.disks)];

		trim_part(t, part + i, c, start + (wrapped ? ROW_HEIGHT : 0), size / d->group_width);
	}
}

static void draid_trim(struct vdev *vd, struct vdev_io *io)
{
	const struct draid *d = vd->priv;
	uint64_t row = (uint64_t)d->group_width << vd->ashift;
	uint64_t from = ROUND_UP(io->offset, row), to = ROUND_DOWN(io->offset + io->size, row);

	if (to <= from) {
		io->done(io, 0);
		return;
	}
	uint64_t groups = (to - 1) / d->group_size - from / d->group_size + 1;
	struct trim *t = trim_create(io, groups * d->group_width);
	for (size_t part = 0; from < to; part += d->group_width) {
		uint64_t n = MIN(to - from, d->group_size - from % d->group_size);

		trim_group(t, part, vd, from, n);
		from += n;
	}
	trim_finish(t);
}

/* Distributed spares */

struct vdev *vdev_dspare_child(const struct vdev *spare, uint64_t offset)
{
	const struct vdev *top = spare->top;
	uint64_t k = nvlist_u64_or(spare->config, "spareid", UINT64_MAX);

	if (top->kind != VDEV_DRAID || !top->priv)
		return NULL;
	const struct draid *d = top->priv;
	if (k >= d->nspares)
		return NULL;
	uint64_t slice = offset / d->slice_height;
	uint64_t pidx = slice * d->domains + k % d->domains;
	unsigned child = draid_child(d, pidx, d->ndomain - 1 - (unsigned)k / d->domains);
	return top->child[child];
}

struct spare_io {
	struct vdev_io *io;
	struct vdev_io child;
};

static int dspare_verify(struct vdev_io *c, const uint8_t *data)
{
	struct spare_io *si = c->arg;

	return si->io->verify(si->io, data);
}

static void dspare_done(struct vdev_io *c, int err)
{
	struct spare_io *si = c->arg;
	struct vdev_io *io = si->io;

	io->from = c->from;
	free(si);
	io->done(io, err);
}

/* The request goes on to the child that holds the range; a range over two of them is none of ours. */
static void dspare_pass(struct vdev *vd, struct vdev_io *io, void (*start)(struct vdev *vd, struct vdev_io *io))
{
	struct vdev *c = vdev_dspare_child(vd, io->offset);

	if (!c || vdev_dspare_child(vd, io->offset + io->size + io->zeros - 1) != c) {
		io->done(io, -ENXIO);
		return;
	}
	struct spare_io *si = xcalloc(1, sizeof(*si));
	si->io = io;
	si->child = (struct vdev_io){
	    .offset = io->offset,
	    .size = io->size,
	    .data = io->data,
	    .zeros = io->zeros,
	    .txg = io->txg,
	    .flags = io->flags,
	    .class = io->class,
	    .verify = io->verify ? dspare_verify : NULL,
	    .done = dspare_done,
	    .arg = si,
	    .depth = io->depth + 1,
	};
	start(c, &si->child);
}

static void dspare_read(struct vdev *vd, struct vdev_io *io)
{
	dspare_pass(vd, io, vdev_read);
}

static void dspare_write(struct vdev *vd, struct vdev_io *io)
{
	dspare_pass(vd, io, vdev_write);
}

static void dspare_trim(struct vdev *vd, struct vdev_io *io)
{
	dspare_pass(vd, io, vdev_trim);
}

const struct vdev_ops vdev_draid_ops = {
    .type = "draid",
    .kind = VDEV_DRAID,
    .create = draid_create,
    .read = draid_read,
    .write = draid_write,
    .trim = draid_trim,
    .psize_to_asize = draid_asize,
    .asize_of = draid_asize_of,
    .settle = draid_settle,
    .destroy = draid_destroy,
};

const struct vdev_ops vdev_dspare_ops = {
    .type = "dspare",
    .kind = VDEV_DSPARE,
    .read = dspare_read,
    .write = dspare_write,
    .trim = dspare_trim,
    .psize_to_asize = vdev_plain_asize,
};
