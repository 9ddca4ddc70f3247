/* Block trees: finding pointers, reading data (02, 6.3). */
#include "base/sync.h"
#include "dmu/dbuf.h"

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

static void tree_copy(const struct dnode *dn, struct dnode_tree *t)
{
	t->seq = dn->tree_seq;
	t->maxblkid = dn->tree_maxblkid;
	t->datablksz = dn->datablksz;
	t->nlevels = dn->nlevels;
	t->nblkptr = dn->nblkptr;
	t->epb_shift = dn->indblkshift - 7;
	for (unsigned i = 0; i < dn->nblkptr; i++)
		t->blkptr[i] = dn->blkptr[i];
}

void dnode_tree_get(struct dnode *dn, struct dnode_tree *t)
{
	if (!dn->os || !dn->os->ops) {
		tree_copy(dn, t);
		return;
	}
	SCOPED_LOCK(&dn->lock);
	tree_copy(dn, t);
}

/* What a pointer below a hole is: a hole of the same birth (1.2). */
static void bp_make_implied_hole(struct dmu_walk *w)
{
	uint64_t birth = bp_birth(&w->bp), type = bp_type(&w->bp);
	uint64_t size = w->level == 0 ? w->tree.datablksz : UINT64_C(128) << w->tree.epb_shift;

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
	unsigned shift = w->tree.epb_shift;
	uint64_t index;

	if (!err && buf->size != UINT64_C(128) << shift) {
		buf_release(buf);
		err = -EINVAL;
	}
	if (err) {
		buf = w->dn->os->ops ? dnode_kept_find(w->dn, &w->bp) : NULL;
		if (!buf) {
			w->done(w, err);
			return;
		}
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
	    .zb = {os->id, w->dn->object, w->at, shift_down(w->blkid, (w->at - w->level) * w->tree.epb_shift)},
	    .key = os->key,
	    .flags = dmu_arc_flags(w->dn, &w->bp) | w->flags,
	    .done = walk_indirect_done,
	    .arg = w,
	};
	arc_read(os->dp->arc, &w->ar);
}

void dmu_walk_start(struct dmu_walk *w)
{
	const struct dnode_tree *t = &w->tree;
	uint64_t index;

	dnode_tree_get(w->dn, &w->tree);
	w->indirect = NULL;
	w->at = w->hole_level = t->nlevels - 1u;
	memset(&w->bp, 0, sizeof(w->bp));
	if (w->level > w->at) {
		w->done(w, -EINVAL);
		return;
	}
	index = w->at == w->level ? w->blkid : shift_down(w->blkid, (w->at - w->level) * t->epb_shift);
	if (index >= t->nblkptr || (w->level == 0 && w->blkid > t->maxblkid)) {
		w->hole_level = WALK_BEYOND;
		w->done(w, 0);
		return;
	}
	w->bp = t->blkptr[index];
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
	const struct dnode_tree *t = &w->tree;
	unsigned shift = t->nlevels > 1 ? t->epb_shift : 0;
	uint64_t low;

	if (w->hole_level == WALK_BEYOND)
		return UINT64_MAX - w->blkid;
	if (t->nlevels - 1u == w->level)
		return t->nblkptr - w->blkid;
	if (!w->indirect)
		shift *= w->hole_level - w->level;
	if (shift >= 63)
		return UINT64_MAX - w->blkid;
	low = w->blkid & ((UINT64_C(1) << shift) - 1);
	return (UINT64_C(1) << shift) - low;
}

void dmu_walk_pointer(const struct dmu_walk *w, uint64_t i, struct bp *bp)
{
	const struct dnode_tree *t = &w->tree;
	uint64_t mask;

	if (w->hole_level != WALK_BEYOND && t->nlevels - 1u == w->level) {
		if (w->blkid + i < t->nblkptr)
			*bp = t->blkptr[w->blkid + i];
		else
			memset(bp, 0, sizeof(*bp));
	} else if (w->indirect) {
		mask = (UINT64_C(1) << t->epb_shift) - 1;
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
		SCOPED_LOCK(&dn->lock);
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
	struct dmu_fetch f = {.dn = dn, .blkid = DMU_BLKID_SPILL};
	int err;

	if (!__atomic_load_n(&dn->has_spill, __ATOMIC_RELAXED))
		return -ENOENT;
	err = dmu_fetch_wait(&f, out);
	return !err && !*out ? -ENOENT : err;
}

/* --- holes and data --- */

/* In the synced tree, up to block `last`. */
static int tree_next_block(struct dnode *dn, uint64_t *blkid, uint64_t last, bool hole, unsigned *fail_level)
{
	*fail_level = 0;
	while (*blkid <= last) {
		struct dmu_walk w = {.dn = dn, .blkid = *blkid};
		int err = dmu_walk_wait(&w);
		uint64_t span, i = 0;
		struct bp bp;

		if (err) {
			*fail_level = w.at;
			dmu_walk_end(&w);
			return err;
		}
		span = MIN(dmu_walk_span(&w) - 1, last - *blkid) + 1;
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
		if (span > last - *blkid)
			break;
		*blkid += span;
	}
	return -ESRCH;
}

/* Blocks that are dirty and ranges that were freed lie over the tree. */
static int overlay_next_data(struct dnode *dn, uint64_t *blkid, uint64_t last, unsigned *fail_level)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);
	uint64_t dirty = *blkid, at = *blkid, start, end;
	bool has_dirty = dbuf_next(dd, &dirty) && dirty <= last;
	int err;

	for (;;) {
		err = tree_next_block(dn, &at, last, false, fail_level);
		if (err || (has_dirty && dirty <= at) || !dbuf_next_freed(dd, at, &start, &end) || start != at)
			break;
		at = end;
	}
	if (has_dirty && (err == -ESRCH || dirty <= at)) {
		*blkid = dirty;
		return 0;
	}
	*blkid = at;
	return err;
}

static int overlay_next_hole(struct dnode *dn, uint64_t *blkid, uint64_t last, unsigned *fail_level)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);
	uint64_t at = *blkid, tree, start, end;

	for (; at <= last; at++) {
		int err;

		if (dbuf_has_data(dd, at))
			continue;
		tree = at;
		err = tree_next_block(dn, &tree, last, true, fail_level);
		if (err && err != -ESRCH) {
			*blkid = tree;
			return err;
		}
		if (err)
			tree = UINT64_MAX;
		if (dbuf_next_freed(dd, at, &start, &end))
			tree = MIN(tree, start);
		if (tree > last)
			break;
		at = tree;
		if (dbuf_has_data(dd, at))
			continue;
		*blkid = at;
		return 0;
	}
	return -ESRCH;
}

int dmu_next_block(struct dnode *dn, uint64_t *blkid, bool hole, unsigned *fail_level)
{
	uint64_t last = dnode_maxblkid(dn);

	*fail_level = 0;
	if (!dnode_has_overlay(dn))
		return tree_next_block(dn, blkid, last, hole, fail_level);
	return hole ? overlay_next_hole(dn, blkid, last, fail_level) : overlay_next_data(dn, blkid, last, fail_level);
}

int dmu_next_offset(struct dnode *dn, uint64_t *offset, bool hole)
{
	uint32_t size = dnode_blocksize(dn);
	uint64_t blkid = *offset / size, from = blkid, start;
	unsigned level;
	int err = dmu_next_block(dn, &blkid, hole, &level);

	if (err || blkid == from)
		return err;
	if (__builtin_mul_overflow(blkid, (uint64_t)size, &start))
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
	uint32_t skip;  /* bytes of the block before the slice */
	bool settled;   /* the tree is not asked: unsynced contents tell */
	uint64_t blkid; /* these two in sets that are written */
	uint64_t tree_seq;
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
	uint32_t blocksize;
	uint8_t epb_shift;
	bool is_indirect;
	struct read_block *block;
	struct read_group *group;
	/* groups, blocks and slices follow */
};

/* A dnode's shape as one request sees it. */
static void read_shape(struct dnode *dn, struct read_op *op, uint64_t *maxblkid)
{
	bool shared = dn->os->ops != NULL;

	if (shared)
		pthread_mutex_lock(&dn->lock);
	op->blocksize = dn->datablksz;
	op->epb_shift = dn->indblkshift - 7;
	op->is_indirect = dn->nlevels > 1;
	*maxblkid = dn->maxblkid;
	if (shared)
		pthread_mutex_unlock(&dn->lock);
}

static uint64_t group_blocks(const struct read_op *op)
{
	return op->is_indirect ? UINT64_C(1) << op->epb_shift : UINT64_MAX;
}

static struct read_op *read_op_create(struct dmu_read *r)
{
	struct read_op shape = {.r = r}, *op;
	uint64_t maxblkid, first, last, per;
	bool tail;

	read_shape(r->dn, &shape, &maxblkid);
	first = r->offset / shape.blocksize;
	last = (r->offset + r->length - 1) / shape.blocksize;
	per = group_blocks(&shape);
	tail = last > maxblkid;
	if (first <= maxblkid) {
		shape.count = MIN(last, maxblkid) - first + 1;
		shape.ngroups = (first + shape.count - 1) / per - first / per + 1;
	}
	op = calloc(1, sizeof(*op) + shape.ngroups * sizeof(*op->group) + shape.count * sizeof(*op->block) +
			   (shape.count + tail) * sizeof(*r->slice));
	if (!op)
		return NULL;
	*op = shape;
	op->first = first;
	op->group = (struct read_group *)(op + 1);
	op->block = (struct read_block *)(op->group + op->ngroups);
	r->slice = (struct dmu_slice *)(op->block + op->count);
	r->nslices = (unsigned)(op->count + tail);
	r->priv = op;
	return op;
}

/* Cut the range into one slice per block, and one for all that lies behind the last block. */
static void read_cut(struct read_op *op)
{
	struct dmu_read *r = op->r;
	uint64_t at = r->offset, left = r->length, bs = op->blocksize;

	for (uint64_t i = 0; i < op->count; i++) {
		struct read_block *b = &op->block[i];

		b->op = op;
		b->slice = &r->slice[i];
		b->blkid = op->first + i;
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

/* Takes the reference; buf NULL: a hole. */
static void read_block_set(struct read_block *b, int err, struct buf *buf)
{
	if (!err && buf && buf->size < b->skip + b->slice->len) {
		buf_release(buf);
		err = -EINVAL;
	}
	if (err) {
		read_block_failed(b->op, b->slice, err);
	} else if (buf) {
		b->slice->buf = buf;
		b->slice->data = buf->data + b->skip;
	}
}

/* --- blocks that need more than a pointer from the tree --- */

struct read_fetch {
	struct dmu_fetch fetch;
	struct read_block *block;
};

static void read_fetch_done(struct dmu_fetch *f, int err, struct buf *buf)
{
	struct read_fetch *rf = container_of(f, struct read_fetch, fetch);
	struct read_block *b = rf->block;

	free(rf);
	read_block_set(b, err, buf);
	read_put(b->op);
}

/* The caller has counted it as pending. */
static void read_block_fetch(struct read_block *b)
{
	struct read_fetch *rf = xcalloc(1, sizeof(*rf));

	rf->block = b;
	rf->fetch.dn = b->op->r->dn;
	rf->fetch.blkid = b->blkid;
	rf->fetch.flags = b->op->r->flags & DMU_READ_NOCACHE ? ARC_NOCACHE : 0;
	rf->fetch.done = read_fetch_done;
	dmu_fetch_start(&rf->fetch);
}

static void read_overlay(struct read_op *op)
{
	struct dnode_dirty *dd = dnode_dirty_peek(op->r->dn);

	for (uint64_t i = 0; i < op->count; i++) {
		struct read_block *b = &op->block[i];
		struct buf *buf = NULL;
		struct bp bp;
		enum dbuf_found found = dbuf_find(dd, b->blkid, &buf, &bp);

		b->settled = found != DBUF_NONE;
		if (found == DBUF_DATA) {
			read_block_set(b, 0, buf);
		} else if (found == DBUF_BELOW || found == DBUF_PARTS) {
			atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
			read_block_fetch(b);
		}
	}
}

/* What a pointer led to may be gone when the tree has changed meanwhile. Without a checksum nobody would notice. */
static bool read_is_doubtful(const struct read_block *b, int err)
{
	struct dnode *dn = b->op->r->dn;

	return dn->os->ops && ((err && dmu_block_moved(dn, b->blkid, b->tree_seq)) ||
			       (bp_checksum(&b->ar.bp) == CHECKSUM_OFF && dmu_tree_moved(dn, b->tree_seq)));
}

static void read_block_done(struct arc_read *ar, int err, struct buf *buf)
{
	struct read_block *b = ar->arg;

	if (read_is_doubtful(b, err)) {
		buf_release(buf);
		read_block_fetch(b);
		return;
	}
	read_block_set(b, err, buf);
	read_put(b->op);
}

static void read_block_start(struct read_op *op, struct read_block *b, const struct bp *bp)
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
	    .zb = {os->id, dn->object, 0, b->blkid},
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
	bool again = err && w->dn->os->ops && dmu_tree_moved(w->dn, w->tree.seq);

	for (uint64_t i = 0; i < g->count; i++) {
		struct bp bp;

		if (b[i].settled)
			continue;
		b[i].tree_seq = w->tree.seq;
		if (again || (!err && i >= dmu_walk_span(w))) {
			atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
			read_block_fetch(&b[i]);
			continue;
		}
		if (err) {
			read_block_failed(op, b[i].slice, err);
			continue;
		}
		dmu_walk_pointer(w, i, &bp);
		read_block_start(op, &b[i], &bp);
	}
	dmu_walk_end(w);
	read_put(op);
}

static bool group_is_settled(const struct read_op *op, const struct read_group *g, uint64_t at)
{
	for (uint64_t i = 0; i < g->count; i++)
		if (!op->block[at - op->first + i].settled)
			return false;
	return true;
}

static void read_groups_start(struct read_op *op)
{
	uint64_t per = group_blocks(op), at = op->first, left = op->count;

	for (uint64_t i = 0; i < op->ngroups; i++) {
		struct read_group *g = &op->group[i];

		g->op = op;
		g->count = MIN(left, per - at % per);
		g->walk.dn = op->r->dn;
		g->walk.blkid = at;
		g->walk.done = read_group_ready;
		if (group_is_settled(op, g, at))
			read_put(op);
		else
			dmu_walk_start(&g->walk);
		at += g->count;
		left -= g->count;
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
	if (op->count > 0 && dnode_has_overlay(r->dn))
		read_overlay(op);
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
	const size_t piece = MAX((size_t)4 << 20, 2 * (size_t)dnode_blocksize(dn));
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
