/* Block trees: finding pointers, reading data (02, 6.3). */
#include "base/sync.h"
#include "dmu/dmu_impl.h"

#define DMU_READ_MAX (UINT64_C(64) << 20)
#define WALK_BEYOND  64u /* hole_level of what lies behind all pointers */

unsigned dmu_arc_flags(const struct dnode *dn, const struct bp *bp)
{
	const struct objset *os = dn->os;
	unsigned flags = 0;

	if (!(bp_is_metadata(bp) ? os->cache_metadata : os->cache_data))
		flags |= ARC_NOCACHE;
	/* Without the key dnodes can still be found: only bonus buffers are encrypted, and nothing is compressed. */
	if (bp_is_encrypted(bp) && !os->key && bp_type(bp) == DMU_OT_DNODE && bp_compress(bp) == COMPRESS_OFF)
		flags |= ZIO_RAW;
	return flags;
}

/* --- walking down --- */

/* What a pointer below a hole is: a hole of the same birth (1.2). */
static void bp_make_implied_hole(struct dmu_walk *w)
{
	uint64_t birth = bp_birth(&w->bp), type = bp_type(&w->bp);
	uint64_t size = w->level == 0 ? w->dn->datablksz : UINT64_C(1) << w->dn->indblkshift;

	memset(&w->bp, 0, sizeof(w->bp));
	if (birth == 0)
		return;
	w->bp.w[6] = ((size >> SECTOR_SHIFT) - 1) | type << 48 | (uint64_t)w->level << 56;
	w->bp.w[10] = birth;
}

static void walk_step(struct dmu_walk *w);

static void walk_indirect_done(struct arc_read *ar, int err, struct buf *buf)
{
	struct dmu_walk *w = ar->arg;
	unsigned shift = dnode_epb_shift(w->dn);
	uint64_t index;

	if (!err && buf->size != UINT64_C(1) << w->dn->indblkshift) {
		buf_release(buf);
		err = -EINVAL;
	}
	if (err) {
		w->done(w, err);
		return;
	}
	buf_release(w->indirect);
	w->indirect = buf;
	w->swapped = bp_is_swapped(&w->bp);
	w->at--;
	index = shift_down(w->blkid, (w->at - w->level) * shift) & ((UINT64_C(1) << shift) - 1);
	bp_decode(&w->bp, buf->data + index * BP_SIZE, w->swapped);
	walk_step(w);
}

/* w->bp is the pointer at level w->at. */
static void walk_step(struct dmu_walk *w)
{
	struct objset *os = w->dn->os;

	if (!bp_is_hole(&w->bp) && bp_level(&w->bp) != w->at) {
		w->done(w, -EINVAL);
		return;
	}
	if (w->at == w->level) {
		w->hole_level = w->at;
		w->done(w, 0);
		return;
	}
	if (bp_is_hole(&w->bp)) {
		w->hole_level = w->at;
		buf_release(w->indirect);
		w->indirect = NULL;
		bp_make_implied_hole(w);
		w->done(w, 0);
		return;
	}
	w->ar = (struct arc_read){
	    .zp = os->dp->zp,
	    .bp = w->bp,
	    .zb = {os->id, w->dn->object, w->at, shift_down(w->blkid, (w->at - w->level) * dnode_epb_shift(w->dn))},
	    .key = os->key,
	    .flags = dmu_arc_flags(w->dn, &w->bp) | w->flags,
	    .done = walk_indirect_done,
	    .arg = w,
	};
	arc_read(os->dp->arc, &w->ar);
}

void dmu_walk_start(struct dmu_walk *w)
{
	const struct dnode *dn = w->dn;
	uint64_t index;

	w->indirect = NULL;
	w->at = w->hole_level = dn->nlevels - 1u;
	memset(&w->bp, 0, sizeof(w->bp));
	if (w->level > w->at) {
		w->done(w, -EINVAL);
		return;
	}
	index = w->at == w->level ? w->blkid : shift_down(w->blkid, (w->at - w->level) * dnode_epb_shift(dn));
	if (index >= dn->nblkptr || (w->level == 0 && w->blkid > dn->maxblkid)) {
		w->hole_level = WALK_BEYOND;
		w->done(w, 0);
		return;
	}
	w->bp = dn->blkptr[index];
	walk_step(w);
}

void dmu_walk_end(struct dmu_walk *w)
{
	buf_release(w->indirect);
	w->indirect = NULL;
}

static void walk_wait_done(struct dmu_walk *w, int err)
{
	waiter_done(w->waiter, err);
}

int dmu_walk_wait(struct dmu_walk *w)
{
	struct waiter wait;

	waiter_init(&wait);
	w->waiter = &wait;
	w->done = walk_wait_done;
	dmu_walk_start(w);
	return waiter_wait(&wait);
}

uint64_t dmu_walk_span(const struct dmu_walk *w)
{
	const struct dnode *dn = w->dn;
	unsigned shift = dn->nlevels > 1 ? dnode_epb_shift(dn) : 0;
	uint64_t low;

	if (w->hole_level == WALK_BEYOND)
		return UINT64_MAX - w->blkid;
	if (dn->nlevels - 1u == w->level)
		return dn->nblkptr - w->blkid;
	if (!w->indirect)
		shift *= w->hole_level - w->level;
	if (shift >= 63)
		return UINT64_MAX - w->blkid;
	low = w->blkid & ((UINT64_C(1) << shift) - 1);
	return (UINT64_C(1) << shift) - low;
}

void dmu_walk_pointer(const struct dmu_walk *w, uint64_t i, struct bp *bp)
{
	const struct dnode *dn = w->dn;
	uint64_t mask;

	if (w->hole_level != WALK_BEYOND && dn->nlevels - 1u == w->level) {
		if (w->blkid + i < dn->nblkptr)
			*bp = dn->blkptr[w->blkid + i];
		else
			memset(bp, 0, sizeof(*bp));
	} else if (w->indirect) {
		mask = (UINT64_C(1) << dnode_epb_shift(dn)) - 1;
		bp_decode(bp, w->indirect->data + ((w->blkid + i) & mask) * BP_SIZE, w->swapped);
	} else {
		*bp = w->bp;
	}
}

int dmu_block_pointer(struct dnode *dn, unsigned level, uint64_t blkid, struct bp *out)
{
	struct dmu_walk w = {.dn = dn, .level = level, .blkid = blkid};
	int err;

	if (level == 0 && blkid == DMU_BLKID_SPILL) {
		*out = dn->spill;
		return dn->has_spill ? 0 : -ENOENT;
	}
	err = dmu_walk_wait(&w);
	*out = w.bp;
	dmu_walk_end(&w);
	return err;
}

int dmu_spill_read(struct dnode *dn, struct buf **out)
{
	struct objset *os = dn->os;
	struct zbookmark zb = {os->id, dn->object, 0, DMU_BLKID_SPILL};

	if (!dn->has_spill)
		return -ENOENT;
	return arc_read_wait(os->dp->arc, os->dp->zp, &dn->spill, &zb, os->key, dmu_arc_flags(dn, &dn->spill), out);
}

/* --- holes and data --- */

int dmu_next_block(struct dnode *dn, uint64_t *blkid, bool hole, unsigned *fail_level)
{
	*fail_level = 0;
	while (*blkid <= dn->maxblkid) {
		struct dmu_walk w = {.dn = dn, .blkid = *blkid};
		int err = dmu_walk_wait(&w);
		uint64_t span, i = 0;
		struct bp bp;

		if (err) {
			*fail_level = w.at;
			dmu_walk_end(&w);
			return err;
		}
		span = MIN(dmu_walk_span(&w) - 1, dn->maxblkid - *blkid) + 1;
		if (!w.indirect && w.hole_level > 0)
			i = hole ? 0 : span;
		else
			for (; i < span; i++) {
				dmu_walk_pointer(&w, i, &bp);
				if (bp_is_hole(&bp) == hole)
					break;
			}
		dmu_walk_end(&w);
		if (i < span) {
			*blkid += i;
			return 0;
		}
		if (span > dn->maxblkid - *blkid)
			break;
		*blkid += span;
	}
	return -ESRCH;
}

int dmu_next_offset(struct dnode *dn, uint64_t *offset, bool hole)
{
	uint64_t blkid = *offset / dn->datablksz, from = blkid, start;
	unsigned level;
	int err = dmu_next_block(dn, &blkid, hole, &level);

	if (err || blkid == from)
		return err;
	if (__builtin_mul_overflow(blkid, (uint64_t)dn->datablksz, &start))
		return -ESRCH;
	*offset = start;
	return 0;
}

/* --- reading --- */

struct read_op;

struct read_block {
	struct arc_read ar;
	struct read_op *op;
	struct dmu_slice *slice;
	uint32_t skip; /* bytes of the block before the slice */
};

/* The blocks that one L1 block (or the dnode) points to. */
struct read_group {
	struct dmu_walk walk;
	struct read_op *op;
	uint64_t count;
};

struct read_op {
	struct dmu_read *r;
	atomic_uint pending;
	atomic_int err;
	uint64_t first, count; /* blocks */
	uint64_t ngroups;
	struct read_block *block;
	struct read_group *group;
	/* groups, blocks and slices follow */
};

static uint64_t group_blocks(const struct dnode *dn)
{
	return dn->nlevels > 1 ? UINT64_C(1) << dnode_epb_shift(dn) : UINT64_MAX;
}

static struct read_op *read_op_create(struct dmu_read *r)
{
	const struct dnode *dn = r->dn;
	uint64_t first = r->offset / dn->datablksz, last = (r->offset + r->length - 1) / dn->datablksz;
	uint64_t count = 0, ngroups = 0, per = group_blocks(dn);
	struct read_op *op;
	bool tail = last > dn->maxblkid;

	if (first <= dn->maxblkid) {
		count = MIN(last, dn->maxblkid) - first + 1;
		ngroups = (first + count - 1) / per - first / per + 1;
	}
	op = calloc(1, sizeof(*op) + ngroups * sizeof(*op->group) + count * sizeof(*op->block) +
			   (count + tail) * sizeof(*r->slice));
	if (!op)
		return NULL;
	op->r = r;
	op->first = first;
	op->count = count;
	op->ngroups = ngroups;
	op->group = (struct read_group *)(op + 1);
	op->block = (struct read_block *)(op->group + ngroups);
	r->slice = (struct dmu_slice *)(op->block + count);
	r->nslices = (unsigned)(count + tail);
	r->priv = op;
	return op;
}

/* Cut the range into one slice per block, and one for all that lies behind the last block. */
static void read_cut(struct read_op *op)
{
	struct dmu_read *r = op->r;
	uint64_t at = r->offset, left = r->length, bs = r->dn->datablksz;

	for (uint64_t i = 0; i < op->count; i++) {
		struct read_block *b = &op->block[i];

		b->op = op;
		b->slice = &r->slice[i];
		b->skip = (uint32_t)(at % bs);
		b->slice->len = (uint32_t)MIN(left, bs - b->skip);
		at += b->slice->len;
		left -= b->slice->len;
	}
	if (r->nslices > op->count)
		r->slice[op->count].len = (uint32_t)left;
}

static void read_put(struct read_op *op)
{
	struct dmu_read *r = op->r;

	if (atomic_fetch_sub_explicit(&op->pending, 1, memory_order_acq_rel) == 1)
		r->done(r, atomic_load(&op->err));
}

static void read_block_failed(struct read_op *op, struct dmu_slice *s, int err)
{
	s->err = err;
	if (!(op->r->flags & DMU_READ_CONTINUE))
		atomic_store(&op->err, err);
}

static void read_block_done(struct arc_read *ar, int err, struct buf *buf)
{
	struct read_block *b = ar->arg;

	if (!err && buf->size < b->skip + b->slice->len) {
		buf_release(buf);
		err = -EINVAL;
	}
	if (err) {
		read_block_failed(b->op, b->slice, err);
	} else {
		b->slice->buf = buf;
		b->slice->data = buf->data + b->skip;
	}
	read_put(b->op);
}

static void read_block_start(struct read_op *op, struct read_block *b, uint64_t blkid, const struct bp *bp)
{
	struct dnode *dn = op->r->dn;
	struct objset *os = dn->os;

	if (bp_is_hole(bp))
		return;
	if (bp_level(bp) != 0) {
		read_block_failed(op, b->slice, -EINVAL);
		return;
	}
	b->ar = (struct arc_read){
	    .zp = os->dp->zp,
	    .bp = *bp,
	    .zb = {os->id, dn->object, 0, blkid},
	    .key = os->key,
	    .flags = dmu_arc_flags(dn, bp) | (op->r->flags & DMU_READ_NOCACHE ? ARC_NOCACHE : 0),
	    .done = read_block_done,
	    .arg = b,
	};
	atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
	arc_read(os->dp->arc, &b->ar);
}

/* The pointers of a group are known: start its blocks side by side. */
static void read_group_ready(struct dmu_walk *w, int err)
{
	struct read_group *g = container_of(w, struct read_group, walk);
	struct read_op *op = g->op;
	struct read_block *b = &op->block[w->blkid - op->first];

	for (uint64_t i = 0; i < g->count; i++) {
		struct bp bp;

		if (err) {
			read_block_failed(op, b[i].slice, err);
			continue;
		}
		dmu_walk_pointer(w, i, &bp);
		read_block_start(op, &b[i], w->blkid + i, &bp);
	}
	dmu_walk_end(w);
	read_put(op);
}

static void read_groups_start(struct read_op *op)
{
	uint64_t per = group_blocks(op->r->dn), at = op->first, left = op->count;

	for (uint64_t i = 0; i < op->ngroups; i++) {
		struct read_group *g = &op->group[i];

		g->op = op;
		g->count = MIN(left, per - at % per);
		g->walk.dn = op->r->dn;
		g->walk.blkid = at;
		g->walk.done = read_group_ready;
		at += g->count;
		left -= g->count;
		dmu_walk_start(&g->walk);
	}
}

void dmu_read_submit(struct dmu_read *r)
{
	struct prefetch_plan plan = {.dn = NULL};
	struct read_op *op = NULL;
	uint64_t end;

	r->slice = NULL;
	r->nslices = 0;
	r->priv = NULL;
	if (r->length > DMU_READ_MAX || __builtin_add_overflow(r->offset, r->length, &end)) {
		r->done(r, -EINVAL);
		return;
	}
	if (r->length == 0) {
		r->done(r, 0);
		return;
	}
	op = read_op_create(r);
	if (!op) {
		r->done(r, -ENOMEM);
		return;
	}
	read_cut(op);
	if (op->count > 0 && !(r->flags & (DMU_READ_NOPREFETCH | DMU_READ_NOCACHE)))
		dmu_prefetch_plan(r->dn, op->first, op->count, &plan);
	atomic_store(&op->pending, (unsigned)op->ngroups + 1);
	read_groups_start(op);
	read_put(op);
	/* r may be gone by now: the plan holds what it needs. */
	dmu_prefetch_run(&plan);
}

void dmu_read_finish(struct dmu_read *r)
{
	for (unsigned i = 0; i < r->nslices; i++)
		buf_release(r->slice[i].buf);
	free(r->priv);
	r->priv = NULL;
	r->slice = NULL;
	r->nslices = 0;
}

static void read_wait_done(struct dmu_read *r, int err)
{
	waiter_done(r->arg, err);
}

static int read_piece(struct dnode *dn, uint64_t offset, uint8_t *dst, size_t len, unsigned flags)
{
	struct waiter w;
	struct dmu_read r = {
	    .dn = dn, .offset = offset, .length = len, .flags = flags, .done = read_wait_done, .arg = &w};
	int err;

	waiter_init(&w);
	dmu_read_submit(&r);
	err = waiter_wait(&w);
	for (unsigned i = 0; !err && i < r.nslices; i++) {
		if (r.slice[i].buf)
			memcpy(dst, r.slice[i].data, r.slice[i].len);
		else
			memset(dst, 0, r.slice[i].len);
		dst += r.slice[i].len;
	}
	dmu_read_finish(&r);
	return err;
}

int dmu_read(struct dnode *dn, uint64_t offset, void *dst, size_t len, unsigned flags)
{
	const size_t piece = MAX((size_t)4 << 20, 2 * (size_t)dn->datablksz);
	uint8_t *p = dst;
	int err = 0;

	while (!err && len > 0) {
		size_t n = MIN(len, piece);

		err = read_piece(dn, offset, p, n, flags);
		offset += n;
		p += n;
		len -= n;
	}
	return err;
}
