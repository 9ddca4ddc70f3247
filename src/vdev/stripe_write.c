/*
 * stripe_write.c: a block written as rows of data and parity columns (docs/format/06-allocation-and-vdevs.md, 5.4, 5.6,
 * 7.4).
 *
 * Parity is computed on a cpu worker, then all columns are written at once, the data from the caller's buffer. In a
 * dRAID short columns are filled up with a sector of zeros; in a RAIDZ the skipped sectors are left alone, unless
 * writing them lets two writes become one.
 */
#include "base/counter.h"
#include "vdev/stripe.h"

#define for_each_row(s, r) for (struct stripe_row *r = (s)->row; r < (s)->row + (s)->nrows; r++)
#define for_each_col(r, c) for (struct stripe_col *c = (r)->col; c < (r)->col + (r)->ncols; c++)

static void row_make_parity(const struct stripe *s, struct stripe_row *r)
{
	const uint8_t *data[VDEV_CHILDREN_MAX];
	uint8_t *parity[PARITY_MAX];
	size_t size[VDEV_CHILDREN_MAX];
	unsigned ndata = r->ncols - s->nparity;

	for (unsigned i = 0; i < s->nparity; i++)
		parity[i] = r->col[i].data;
	for (unsigned i = 0; i < ndata; i++) {
		data[i] = r->col[s->nparity + i].data;
		size[i] = r->col[s->nparity + i].size;
	}
	parity_generate(s->nparity, ndata, data, size, r->psize, parity);
}

static bool row_has_failed(const struct stripe *s, const struct stripe_row *r)
{
	unsigned failed = 0;

	for_each_col(r, c)
		failed += c->err != 0;
	return failed > s->nparity;
}

static void stripe_account_missed(struct stripe *s)
{
	for_each_row(s, r)
		for_each_col(r, c)
			if (c->err)
				vdev_missed(s->vd->child[c->child], s->io->txg);
}

static void stripe_written(struct stripe *s)
{
	struct vdev_io *io = s->io;
	bool failed = false;
	int err = 0;

	for_each_row(s, r) {
		failed |= row_has_failed(s, r);
		for_each_col(r, c)
			err = vdev_worse_error(err, c->err);
	}
	if (!failed)
		stripe_account_missed(s);
	stripe_free(s);
	io->done(io, failed ? err : 0);
}

static void write_release(struct stripe *s)
{
	if (atomic_fetch_sub(&s->pending, 1) == 1)
		stripe_written(s);
}

static void col_written(struct vdev_io *io, int err)
{
	container_of(io, struct stripe_col, io)->err = err;
	write_release(io->arg);
}

/* Columns of a dRAID row are all as long as its parity. */
static void col_write(struct stripe *s, const struct stripe_row *r, struct stripe_col *c)
{
	uint32_t zeros = s->vd->kind == VDEV_DRAID ? r->psize - c->size : 0;
	bool empty = c->size == 0;

	if (empty && zeros == 0)
		return;
	c->io = (struct vdev_io){
	    .offset = c->offset,
	    .size = empty ? zeros : c->size,
	    .data = empty ? vdev_zeros : c->data,
	    .zeros = empty ? 0 : zeros,
	    .pad = c->pad,
	    .txg = s->io->txg,
	    .flags = s->io->flags,
	    .class = s->io->class,
	    .done = col_written,
	    .arg = s,
	    .depth = s->io->depth,
	};
	atomic_fetch_add(&s->pending, 1);
	vdev_write(s->vd->child[c->child], &c->io);
}

static void stripe_write_step(struct task *t)
{
	struct stripe *s = container_of(t, struct stripe, task);
	struct vdev_io *io = s->io;

	if (stripe_alloc_parity(s) != 0) {
		stripe_free(s);
		io->done(io, -ENOMEM);
		return;
	}
	for_each_row(s, r)
		row_make_parity(s, r);
	atomic_store(&s->pending, 1);
	for_each_row(s, r)
		for_each_col(r, c)
			col_write(s, r, c);
	write_release(s);
}

void stripe_write(struct stripe *s)
{
	s->task.run = stripe_write_step;
	if (thread_is_cpu_worker())
		stripe_write_step(&s->task);
	else
		taskq_dispatch(cpu_taskq(), &s->task);
}
