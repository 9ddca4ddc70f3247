/*
 * stripe.c: the state machine that reads a block from rows of data and parity columns.
 *
 *   first:  data columns of good devices; as many parity columns as data columns are missing (scrub: all).
 *   step:   rebuild what is missing, verify. Right: done.
 *   all:    read whatever is left, data of devices that lack the txg too; rebuild, verify.
 *   search: suppose that 1, 2, ... further columns are silently wrong, rebuild them, verify.
 *
 * Reads complete on disk threads, every computation is a task on the cpu workers; a search gives its worker back
 * between portions and ends after a bounded number of attempts.
 */
#include "vdev/stripe.h"

#define UNITS_MAX           256
#define SUSPECTS_MAX        (2 * PARITY_MAX)
#define SEARCH_ATTEMPTS_MAX 16384
#define SEARCH_BYTES_MAX    (UINT64_C(32) << 30)
#define SEARCH_STEPS_MAX    (4u << 20)
#define SEARCH_PORTION      (8u << 20) /* bytes verified before the worker is given back */

struct stripe_search {
	unsigned width;           /* 0: units are children */
	unsigned nunits, k, kmax; /* unit[comb[0 .. k-1]] are suspected */
	unsigned attempts, steps;
	uint16_t unit[UNITS_MAX];
	uint16_t comb[SUSPECTS_MAX];
	bool suspected[UNITS_MAX];
};

struct stripe *stripe_create(struct vdev *vd, struct vdev_io *io, unsigned nparity, unsigned nrows, size_t ncols)
{
	struct stripe *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->vd = vd;
	s->io = io;
	s->nparity = nparity;
	s->nrows = nrows;
	s->width_min = 1;
	s->row = calloc(nrows, sizeof(*s->row));
	struct stripe_col *col = calloc(ncols, sizeof(*col));
	if (!s->row || !col) {
		free(col);
		free(s->row);
		free(s);
		return NULL;
	}
	s->row[0].col = col;
	return s;
}

void stripe_free(struct stripe *s)
{
	for (unsigned p = 0; p < PARITY_MAX; p++)
		buf_release(s->parity[p]);
	buf_release(s->original);
	buf_release(s->copy);
	free(s->search);
	free(s->row[0].col);
	free(s->row);
	free(s);
}

static void stripe_finish(struct stripe *s, int err)
{
	struct vdev_io *io = s->io;

	stripe_free(s);
	io->done(io, err);
}

#define for_each_row(s, r) for (struct stripe_row *r = (s)->row; r < (s)->row + (s)->nrows; r++)
#define for_each_col(r, c) for (struct stripe_col *c = (r)->col; c < (r)->col + (r)->ncols; c++)

static bool col_is_parity(const struct stripe *s, const struct stripe_row *r, const struct stripe_col *c)
{
	return c - r->col < s->nparity;
}

/* Reading columns */

int stripe_alloc_parity(struct stripe *s)
{
	uint32_t total = 0;

	if (s->parity[0])
		return 0;
	for_each_row(s, r) {
		r->pstart = total;
		total += r->psize;
	}
	for (unsigned p = 0; p < s->nparity; p++) {
		s->parity[p] = buf_alloc(total);
		if (!s->parity[p])
			return -ENOMEM;
		for_each_row(s, r)
			r->col[p].data = s->parity[p]->data + r->pstart;
	}
	return 0;
}

static void row_assess(struct stripe *s, struct stripe_row *r)
{
	for_each_col(r, c) {
		enum vdev_quality q = vdev_quality(s->vd->child[c->child], c->offset, s->io->txg);
		c->err = q == VDEV_QUALITY_NONE ? -ENXIO : 0;
		c->stale = q == VDEV_QUALITY_STALE;
	}
}

/* Returns false when good devices are too few for this row. */
static bool row_select_first(struct stripe *s, struct stripe_row *r)
{
	unsigned need = 0;

	row_assess(s, r);
	for (unsigned i = s->nparity; i < r->ncols; i++) {
		struct stripe_col *c = &r->col[i];
		c->want = c->size > 0 && !c->err && !c->stale;
		need += c->size > 0 && !c->want;
	}
	unsigned extra = s->io->flags & VDEV_READ_SCRUB ? s->nparity : need;
	for (unsigned i = 0; i < s->nparity && extra > 0; i++) {
		struct stripe_col *c = &r->col[i];
		c->want = !c->err && !c->stale;
		extra -= c->want;
		need -= c->want && need > 0;
	}
	return need == 0;
}

static void stripe_select_all(struct stripe *s)
{
	s->all = true;
	for_each_row(s, r) {
		for_each_col(r, c) {
			struct vdev *child = s->vd->child[c->child];
			/* What failed in a mirror may still have a side that was not asked, as it lacks the txg. */
			bool other_side = c->err && !vdev_is_leaf(child) && vdev_is_readable(child);
			c->want = c->size > 0 && !c->done && (!c->err || other_side);
			c->stale |= other_side;
		}
	}
}

static void stripe_release(struct stripe *s);

static void col_done(struct vdev_io *io, int err)
{
	struct stripe_col *c = container_of(io, struct stripe_col, io);

	c->err = err;
	c->done = err == 0;
	stripe_release(io->arg);
}

static void col_read(struct stripe *s, const struct stripe_row *r, struct stripe_col *c)
{
	c->want = false;
	c->io = (struct vdev_io){
	    .offset = c->offset,
	    .size = c->size,
	    .data = c->data,
	    .txg = s->io->txg,
	    .flags = (s->io->flags & (VDEV_READ_SPECULATIVE | VDEV_READ_SCRUB)) | (s->all ? 0 : VDEV_READ_NO_STALE) |
		     (r->in_scratch ? VDEV_READ_BOOT_AREA : 0),
	    .done = col_done,
	    .arg = s,
	    .depth = s->io->depth,
	};
	atomic_fetch_add(&s->pending, 1);
	vdev_read(s->vd->child[c->child], &c->io);
}

static void vdev_plug(struct vdev *vd, void (*plug)(struct vdev_queue *q))
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		vdev_plug(vd->child[i], plug);
	if (vd->queue)
		plug(vd->queue);
}

static void stripe_issue(struct stripe *s)
{
	bool parity = false;

	for_each_row(s, r)
		for (unsigned p = 0; p < s->nparity; p++)
			parity |= r->col[p].want;
	if (parity && stripe_alloc_parity(s) != 0) {
		stripe_finish(s, -ENOMEM);
		return;
	}
	bool plug = s->nrows > 2; /* low rows of an expanded raidz: neighbours on every child */
	atomic_store(&s->pending, 1);
	if (plug)
		vdev_plug(s->vd, vdev_queue_plug);
	for_each_row(s, r)
		for_each_col(r, c)
			if (c->want)
				col_read(s, r, c);
	if (plug)
		vdev_plug(s->vd, vdev_queue_unplug);
	stripe_release(s);
}

void stripe_read(struct stripe *s)
{
	bool enough = true;

	for_each_row(s, r)
		enough &= row_select_first(s, r);
	if (!enough)
		stripe_select_all(s);
	stripe_issue(s);
}

/* Rebuilding */

/* Which columns are missing or not to be trusted, apart from any suspicion. */
static void row_mark_bad(const struct stripe *s, struct stripe_row *r)
{
	for_each_col(r, c)
		c->bad = c->size > 0 && (!c->done || (c->stale && !s->trust_stale));
}

static bool row_is_solvable(const struct stripe *s, const struct stripe_row *r)
{
	unsigned bad = 0, usable = 0;

	for (unsigned i = 0; i < r->ncols; i++) {
		bad += i >= s->nparity && r->col[i].bad;
		usable += i < s->nparity && !r->col[i].bad;
	}
	return bad <= usable;
}

static bool stripe_is_solvable(struct stripe *s)
{
	bool solvable = true;

	for_each_row(s, r) {
		row_mark_bad(s, r);
		solvable &= row_is_solvable(s, r);
	}
	return solvable;
}

static int row_rebuild(const struct stripe *s, struct stripe_row *r)
{
	uint8_t *data[VDEV_CHILDREN_MAX];
	const uint8_t *parity[PARITY_MAX];
	size_t size[VDEV_CHILDREN_MAX];
	unsigned missing[VDEV_CHILDREN_MAX], nmissing = 0, ndata = r->ncols - s->nparity;

	for (unsigned i = 0; i < s->nparity; i++)
		parity[i] = r->col[i].bad ? NULL : r->col[i].data;
	for (unsigned i = 0; i < ndata; i++) {
		const struct stripe_col *c = &r->col[s->nparity + i];
		data[i] = c->data;
		size[i] = c->size;
		if (c->bad)
			missing[nmissing++] = i;
	}
	if (nmissing == 0)
		return 0;
	return parity_reconstruct(s->nparity, ndata, data, size, r->psize, parity, missing, nmissing);
}

static int stripe_rebuild(struct stripe *s)
{
	for_each_row(s, r) {
		int err = row_rebuild(s, r);
		if (err)
			return err;
	}
	return 0;
}

static bool stripe_verify(struct stripe *s)
{
	return !s->io->verify || s->io->verify(s->io, s->io->data) == 0;
}

static int stripe_save(struct stripe *s)
{
	size_t size = ROUND_UP(s->io->size, UINT64_C(1) << s->vd->ashift);

	s->original = buf_alloc(size);
	if (!s->original)
		return -ENOMEM;
	memcpy(s->original->data, s->io->data, size);
	return 0;
}

static uint8_t *col_original(const struct stripe *s, const struct stripe_col *c)
{
	return s->original->data + (c->data - s->io->data);
}

static void stripe_restore(struct stripe *s)
{
	for_each_row(s, r)
		for_each_col(r, c)
			if (c->bad && c->done && !col_is_parity(s, r, c))
				memcpy(c->data, col_original(s, c), c->size);
}

/* Accounts */

static void row_check_parity(struct stripe *s, struct stripe_row *r)
{
	const uint8_t *data[VDEV_CHILDREN_MAX];
	uint8_t *parity[PARITY_MAX];
	size_t size[VDEV_CHILDREN_MAX];
	unsigned ndata = r->ncols - s->nparity, have = 0, rebuilt = 0;

	for (unsigned i = 0; i < s->nparity; i++) {
		have += r->col[i].done && !r->col[i].stale;
		parity[i] = s->copy->data + (size_t)i * r->psize;
	}
	for (unsigned i = 0; i < ndata; i++) {
		rebuilt += r->col[s->nparity + i].bad;
		data[i] = r->col[s->nparity + i].data;
		size[i] = r->col[s->nparity + i].size;
	}
	if (have <= rebuilt)
		return;
	parity_generate(s->nparity, ndata, data, size, r->psize, parity);
	for (unsigned i = 0; i < s->nparity; i++) {
		struct stripe_col *c = &r->col[i];
		if (c->done && !c->stale && memcmp(c->data, parity[i], r->psize) != 0)
			vdev_count_checksum_error(c->io.from, s->io);
	}
}

/* Parity that was read must agree with data that is known to be right (5.6, 7). */
static void stripe_check_parity(struct stripe *s)
{
	uint32_t size = 0;

	if (!s->parity[0] || !s->io->verify)
		return;
	for_each_row(s, r)
		size = MAX(size, r->psize);
	s->copy = buf_alloc((size_t)size * s->nparity);
	if (!s->copy)
		return;
	for_each_row(s, r)
		row_check_parity(s, r);
}

static void stripe_good(struct stripe *s)
{
	if (s->original)
		for_each_row(s, r)
			for_each_col(r, c)
				if (c->done && !c->stale && !col_is_parity(s, r, c) &&
				    memcmp(c->data, col_original(s, c), c->size) != 0)
					vdev_count_checksum_error(c->io.from, s->io);
	if (!(s->io->flags & VDEV_READ_SPECULATIVE))
		stripe_check_parity(s);
	stripe_finish(s, 0);
}

/* Nothing verifies: nobody knows which device is to blame, so all are. */
static void stripe_hopeless(struct stripe *s)
{
	bool blamed[UNITS_MAX] = {false};

	for_each_row(s, r) {
		for_each_col(r, c) {
			if (!c->done || blamed[c->child])
				continue;
			blamed[c->child] = true;
			vdev_count_checksum_error(c->io.from, s->io);
		}
	}
	vdev_count_checksum_error(s->vd, s->io);
	stripe_finish(s, -ECKSUM);
}

static void stripe_unreadable(struct stripe *s)
{
	int err = 0;

	for_each_row(s, r)
		for_each_col(r, c)
			err = vdev_worse_error(err, c->err);
	stripe_finish(s, err ? err : -EIO);
}

/* Search */

static unsigned col_unit(const struct stripe_search *sr, const struct stripe_col *c)
{
	return sr->width ? (unsigned)(c->sector % sr->width) : c->child;
}

/* The units in which a column could be wrong unnoticed. */
static void search_list_units(struct stripe *s)
{
	struct stripe_search *sr = s->search;
	bool present[UNITS_MAX] = {false};

	for_each_row(s, r) {
		row_mark_bad(s, r);
		for_each_col(r, c)
			if (c->size > 0 && !c->bad)
				present[col_unit(sr, c)] = true;
	}
	sr->nunits = 0;
	for (unsigned i = 0; i < UNITS_MAX; i++)
		if (present[i])
			sr->unit[sr->nunits++] = (uint16_t)i;
}

static bool search_first_of_size(struct stripe_search *sr, unsigned k)
{
	if (k > sr->kmax || k > sr->nunits)
		return false;
	sr->k = k;
	for (unsigned i = 0; i < k; i++)
		sr->comb[i] = (uint16_t)i;
	return true;
}

static bool search_next(struct stripe *s)
{
	struct stripe_search *sr = s->search;

	for (unsigned i = sr->k; i-- > 0;) {
		if (sr->comb[i] >= sr->nunits - sr->k + i)
			continue;
		sr->comb[i]++;
		for (unsigned j = i + 1; j < sr->k; j++)
			sr->comb[j] = sr->comb[j - 1] + 1;
		return true;
	}
	if (search_first_of_size(sr, sr->k + 1))
		return true;
	if (sr->width ? sr->width <= s->width_min : s->width_max < s->width_min)
		return false;
	sr->width = sr->width ? sr->width - 1 : s->width_max;
	search_list_units(s);
	return search_first_of_size(sr, 1);
}

static bool row_rebuilds_data(const struct stripe *s, const struct stripe_row *r)
{
	for (unsigned i = s->nparity; i < r->ncols; i++)
		if (r->col[i].bad)
			return true;
	return false;
}

/* Mark the suspects bad. False: cannot be solved so, or is no news. */
static bool search_apply(struct stripe *s)
{
	struct stripe_search *sr = s->search;
	bool news = false, solvable = true;

	memset(sr->suspected, 0, sizeof(sr->suspected));
	for (unsigned i = 0; i < sr->k; i++)
		sr->suspected[sr->unit[sr->comb[i]]] = true;
	for_each_row(s, r) {
		row_mark_bad(s, r);
		bool rebuilds = row_rebuilds_data(s, r), parity = false;
		for_each_col(r, c) {
			if (c->size == 0 || c->bad || !sr->suspected[col_unit(sr, c)])
				continue;
			c->bad = true;
			rebuilds |= !col_is_parity(s, r, c);
			news |= !col_is_parity(s, r, c);
			parity |= col_is_parity(s, r, c);
		}
		/* A wrong parity column matters where it would be used. */
		news |= parity && rebuilds;
		solvable &= row_is_solvable(s, r);
	}
	return news && solvable;
}

static bool search_is_over(const struct stripe *s)
{
	const struct stripe_search *sr = s->search;

	return sr->attempts == SEARCH_ATTEMPTS_MAX || sr->attempts * s->io->size > SEARCH_BYTES_MAX ||
	       sr->steps == SEARCH_STEPS_MAX;
}

static void search_step(struct task *t)
{
	struct stripe *s = container_of(t, struct stripe, task);
	struct stripe_search *sr = s->search;
	uint64_t bytes = 0;

	do {
		if (search_apply(s)) {
			if (stripe_rebuild(s) == 0 && stripe_verify(s)) {
				stripe_good(s);
				return;
			}
			stripe_restore(s);
			sr->attempts++;
			bytes += s->io->size;
		}
		sr->steps++;
		bytes += s->nrows * 64;
		if (!search_next(s) || search_is_over(s)) {
			stripe_hopeless(s);
			return;
		}
	} while (bytes < SEARCH_PORTION);
	taskq_dispatch(cpu_taskq(), t);
}

static void search_start(struct stripe *s)
{
	struct stripe_search *sr = s->search = xcalloc(1, sizeof(*sr));

	/* The halves of a block that crosses dRAID groups may have failed on different children. */
	sr->kmax = s->vd->kind == VDEV_DRAID && s->nrows > 1 ? 2 * s->nparity : s->nparity;
	search_list_units(s);
	if (!search_first_of_size(sr, 1)) {
		stripe_hopeless(s);
		return;
	}
	s->task.run = search_step;
	taskq_dispatch(cpu_taskq(), &s->task);
}

/* Steps */

static bool stripe_try(struct stripe *s)
{
	if (stripe_rebuild(s) == 0 && stripe_verify(s)) {
		stripe_good(s);
		return true;
	}
	return false;
}

static void stripe_step_all(struct task *t)
{
	struct stripe *s = container_of(t, struct stripe, task);

	if (stripe_save(s) != 0) {
		stripe_finish(s, -ENOMEM);
		return;
	}
	if (stripe_is_solvable(s)) {
		if (stripe_try(s))
			return;
		stripe_restore(s);
	}
	s->trust_stale = true;
	if (!stripe_is_solvable(s)) {
		stripe_unreadable(s);
		return;
	}
	if (stripe_try(s))
		return;
	stripe_restore(s);
	if (s->io->flags & VDEV_READ_NO_RETRY)
		stripe_hopeless(s);
	else
		search_start(s);
}

static void stripe_step_first(struct task *t)
{
	struct stripe *s = container_of(t, struct stripe, task);

	if (stripe_is_solvable(s) && stripe_try(s))
		return;
	if (s->io->flags & VDEV_READ_NO_RETRY) {
		stripe_is_solvable(s) ? stripe_hopeless(s) : stripe_unreadable(s);
		return;
	}
	stripe_select_all(s);
	stripe_issue(s);
}

static bool stripe_is_complete(const struct stripe *s)
{
	for_each_row(s, r)
		for (unsigned i = s->nparity; i < r->ncols; i++)
			if (r->col[i].size > 0 && !r->col[i].done)
				return false;
	return true;
}

static void stripe_release(struct stripe *s)
{
	if (atomic_fetch_sub(&s->pending, 1) != 1)
		return;
	if (!s->io->verify && !s->all && stripe_is_complete(s)) {
		stripe_finish(s, 0);
		return;
	}
	s->task.run = s->all ? stripe_step_all : stripe_step_first;
	taskq_dispatch(cpu_taskq(), &s->task);
}
