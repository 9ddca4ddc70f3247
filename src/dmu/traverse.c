/*
 * Traversal: one thread walks and calls back; asynchronous reads run ahead of it. For every block that it
 * looks into, the next children are asked for, and when such a child arrives its own first children are too (a dnode
 * block: the indirect blocks of its dnodes), so that the walker rarely waits at the borders between subtrees.
 */
#include "dmu/dmu_impl.h"
#include "dmu/traverse.h"

#define AHEAD_WINDOW   32u  /* children of the block being walked */
#define AHEAD_CHILDREN 8u   /* first children of a block that came in ahead */
#define AHEAD_DEPTH    2u   /* generations below a child */
#define AHEAD_READS    512u /* outstanding; more are left out */

/* One traversal; the reads ahead hold it, and it holds the object set. */
struct trav {
	struct objset *os;
	struct traverse *t;
	uint64_t min_txg;
	atomic_uint refs;
	atomic_uint ahead;
};

/* A block of a tree, and whose. */
struct place {
	struct dnode *dn;
	unsigned level;
	uint64_t blkid;
	struct bp bp;
};

/* A read ahead, with all it needs of its dnode, which it may outlive. */
struct ahead {
	struct arc_read ar;
	struct trav *tr;
	unsigned level, depth, shift;
	bool meta;
};

static struct trav *trav_create(struct objset *os, struct traverse *t)
{
	struct trav *tr = xcalloc(1, sizeof(*tr));

	tr->os = objset_hold(os);
	tr->t = t;
	tr->min_txg = t->min_txg;
	atomic_init(&tr->refs, 1);
	return tr;
}

static void trav_release(struct trav *tr)
{
	if (atomic_fetch_sub(&tr->refs, 1) != 1)
		return;
	objset_release(tr->os);
	free(tr);
}

/* --- reading ahead --- */

static bool ahead_start(struct trav *tr, const struct bp *bp, const struct zbookmark *zb, bool meta, unsigned shift,
			unsigned depth);

static void ahead_children(struct ahead *a, const struct buf *buf)
{
	const struct arc_read *ar = &a->ar;
	unsigned n = MIN(AHEAD_CHILDREN, buf->size / BP_SIZE);

	for (unsigned i = 0; i < n; i++) {
		struct zbookmark zb = {ar->zb.objset, ar->zb.object, a->level - 1, (ar->zb.blkid << a->shift) + i};
		struct bp bp;

		bp_decode(&bp, buf->data + (size_t)i * BP_SIZE, bp_is_swapped(&ar->bp));
		ahead_start(a->tr, &bp, &zb, a->meta, a->shift, a->depth - 1);
	}
}

static void ahead_dnode(struct ahead *a, const struct dnode *dn, uint64_t object)
{
	if (dn->nlevels < 2)
		return;
	for (unsigned i = 0; i < dn->nblkptr; i++) {
		struct zbookmark zb = {a->ar.zb.objset, object, dn->nlevels - 1, i};

		ahead_start(a->tr, &dn->blkptr[i], &zb, false, dnode_epb_shift(dn), a->depth - 1);
	}
}

static void ahead_dnodes(struct ahead *a, const struct buf *buf)
{
	uint64_t first = a->ar.zb.blkid * (buf->size >> DNODE_SHIFT);
	bool swap = bp_is_swapped(&a->ar.bp);

	for (int slot = dnode_block_next(buf->data, buf->size, 0); slot >= 0;
	     slot = dnode_block_next(buf->data, buf->size, (unsigned)slot + 1)) {
		size_t at = (size_t)slot << DNODE_SHIFT;
		struct dnode *dn;

		if (dnode_decode(buf->data + at, buf->size - at, swap, &dn))
			continue;
		ahead_dnode(a, dn, first + (unsigned)slot);
		dnode_release(dn);
	}
}

static void ahead_done(struct arc_read *ar, int err, struct buf *buf)
{
	struct ahead *a = ar->arg;
	struct trav *tr = a->tr;

	if (!err && a->depth > 0) {
		if (a->level > 0)
			ahead_children(a, buf);
		else
			ahead_dnodes(a, buf);
	}
	buf_release(buf);
	free(a);
	atomic_fetch_sub(&tr->ahead, 1);
	trav_release(tr);
}

/* false: too much is under way; true also when the block is not one that the walker will read. */
static bool ahead_start(struct trav *tr, const struct bp *bp, const struct zbookmark *zb, bool meta, unsigned shift,
			unsigned depth)
{
	struct objset *os = tr->os;
	struct ahead *a;

	if (bp_is_hole(bp) || bp_is_embedded(bp) || bp_birth(bp) <= tr->min_txg || bp_level(bp) != zb->level)
		return true;
	if ((zb->level == 0 && !meta) || !os->cache_metadata)
		return true;
	if (atomic_fetch_add(&tr->ahead, 1) >= AHEAD_READS) {
		atomic_fetch_sub(&tr->ahead, 1);
		return false;
	}
	atomic_fetch_add(&tr->refs, 1);
	a = xcalloc(1, sizeof(*a));
	a->tr = tr;
	a->level = (unsigned)zb->level;
	a->depth = depth;
	a->shift = shift;
	a->meta = meta;
	a->ar = (struct arc_read){
	    .zp = os->dp->zp,
	    .bp = *bp,
	    .zb = *zb,
	    .key = os->key,
	    .flags = dmu_arc_flags(os->meta, bp) | ARC_PREFETCH,
	    .done = ahead_done,
	    .arg = a,
	};
	arc_read(os->dp->arc, &a->ar);
	return true;
}

/* --- walking --- */

static struct zbookmark place_bookmark(const struct trav *tr, const struct place *p)
{
	return (struct zbookmark){tr->os->id, p->dn->object, p->level, p->blkid};
}

/* 0: told, go on. */
static int trav_error(struct trav *tr, const struct place *p, int err)
{
	struct zbookmark zb = place_bookmark(tr, p);

	if (tr->t->error)
		tr->t->error(tr->t, &p->bp, &zb, err);
	return tr->t->post ? err : 0;
}

/* --- resuming in post-order --- */

/* Where a block comes in the order: behind the last block of the last object below it. Blocks of the meta-dnode come
 * behind all blocks of their objects. */
struct position {
	uint64_t object, blkid;
};

static uint64_t last_below(uint64_t blkid, unsigned shift)
{
	if (blkid == DMU_BLKID_SPILL)
		return blkid;
	return shift >= 64 || blkid >= UINT64_MAX >> shift ? UINT64_MAX : ((blkid + 1) << shift) - 1;
}

static struct position position_of(const struct trav *tr, const struct dnode *dn, uint64_t level, uint64_t blkid)
{
	uint64_t last = last_below(blkid, (unsigned)level * dnode_epb_shift(dn)), per;

	if (dn != tr->os->meta)
		return (struct position){dn->object, last};
	per = dnode_blocksize(tr->os->meta) >> DNODE_SHIFT;
	return (struct position){last >= UINT64_MAX / per - 1 ? DMU_OBJECT_END : (last + 1) * per - 1, UINT64_MAX};
}

static bool resume_passes(const struct trav *tr, const struct place *p)
{
	const struct zbookmark *zb = tr->t->resume;
	struct position at, from;

	if (!zb)
		return false;
	at = position_of(tr, p->dn, p->level, p->blkid);
	from = zb->object == 0 ? position_of(tr, tr->os->meta, (uint64_t)MAX(zb->level, 0), zb->blkid)
			       : (struct position){zb->object, zb->blkid};
	if (zb->object != 0 && zb->object == p->dn->object && zb->level > 0)
		from = position_of(tr, p->dn, (uint64_t)zb->level, zb->blkid);
	return at.object != from.object ? at.object < from.object : at.blkid < from.blkid;
}

static bool place_is_meta(const struct trav *tr, const struct place *p)
{
	return p->dn == tr->os->meta;
}

static int trav_block(struct trav *tr, const struct place *p);
static int trav_dnode(struct trav *tr, struct dnode *dn);

/* Ask for children up to a window beyond child i; *next is the first that was not asked for. */
static void indirect_read_ahead(struct trav *tr, const struct place *p, const struct buf *buf, unsigned i,
				unsigned *next)
{
	unsigned n = buf->size / BP_SIZE, stop = MIN(n, i + AHEAD_WINDOW), shift = dnode_epb_shift(p->dn);
	bool meta = place_is_meta(tr, p);

	if (p->level == 1 && !meta)
		return;
	/* In portions, so that neighbours arrive at the devices together. */
	if (*next > i + AHEAD_WINDOW / 2)
		return;
	for (*next = MAX(*next, i + 1); *next < stop; (*next)++) {
		struct place child = {p->dn, p->level - 1, (p->blkid << shift) + *next};
		struct zbookmark zb = place_bookmark(tr, &child);
		struct bp bp;

		bp_decode(&bp, buf->data + (size_t)*next * BP_SIZE, bp_is_swapped(&p->bp));
		if (!ahead_start(tr, &bp, &zb, meta, shift, AHEAD_DEPTH))
			return;
	}
}

static int trav_indirect(struct trav *tr, const struct place *p, const struct buf *buf)
{
	unsigned shift = dnode_epb_shift(p->dn), next = 0;
	int err = 0;

	if (buf->size != UINT64_C(1) << p->dn->indblkshift)
		return trav_error(tr, p, -EINVAL);
	for (unsigned i = 0; !err && i < 1u << shift; i++) {
		struct place child = {p->dn, p->level - 1, (p->blkid << shift) + i};

		indirect_read_ahead(tr, p, buf, i, &next);
		bp_decode(&child.bp, buf->data + (size_t)i * BP_SIZE, bp_is_swapped(&p->bp));
		err = trav_block(tr, &child);
	}
	return err;
}

static int trav_dnode_block(struct trav *tr, const struct place *p, const struct buf *buf)
{
	uint64_t first = p->blkid * (dnode_blocksize(tr->os->meta) >> DNODE_SHIFT);
	int err = 0;

	for (int slot = dnode_block_next(buf->data, buf->size, 0); slot >= 0 && !err;
	     slot = dnode_block_next(buf->data, buf->size, (unsigned)slot + 1)) {
		size_t at = (size_t)slot << DNODE_SHIFT;
		struct dnode *dn;

		err = dnode_decode_os(tr->os, first + (unsigned)slot, buf->data + at, buf->size - at,
				      bp_is_swapped(&p->bp), &dn);
		if (err) {
			err = trav_error(tr, p, err);
			continue;
		}
		err = trav_dnode(tr, dn);
		dnode_release(dn);
	}
	return err;
}

static int visit_below(struct trav *tr, const struct place *p)
{
	struct objset *os = tr->os;
	struct zbookmark zb = place_bookmark(tr, p);
	autobuf struct buf *buf = NULL;
	int err = bp_level(&p->bp) != p->level ? -EINVAL : 0;

	if (!err)
		err = arc_read_wait(os->dp->arc, os->dp->zp, &p->bp, &zb, os->key, dmu_arc_flags(p->dn, &p->bp), &buf);
	if (err)
		return trav_error(tr, p, err);
	return p->level > 0 ? trav_indirect(tr, p, buf) : trav_dnode_block(tr, p, buf);
}

/* When its space was allocated, which is what is asked before freeing; or when its contents came to be (02, 1.2). */
static uint64_t birth_of(const struct trav *tr, const struct bp *bp)
{
	bool rewritten = bits64(bp->w[7], 63, 1);

	return tr->t->post && rewritten && !bp_is_embedded(bp) ? bp_physical_birth(bp) : bp_birth(bp);
}

/* Visit a block, then what is below; or after it. */
static int trav_block(struct trav *tr, const struct place *p)
{
	const struct traverse *t = tr->t;
	struct zbookmark zb = place_bookmark(tr, p);
	bool meta = place_is_meta(tr, p), leaf = bp_is_hole(&p->bp) || (p->level == 0 && !meta);
	int err = 0;

	if (bp_is_hole(&p->bp) ? !t->holes || t->post || (tr->min_txg && bp_birth(&p->bp) <= tr->min_txg)
			       : birth_of(tr, &p->bp) <= tr->min_txg)
		return 0;
	if (t->post && resume_passes(tr, p))
		return 0;
	if (t->post) {
		if (!leaf)
			err = visit_below(tr, p);
		return err ? err : t->visit(tr->t, &p->bp, &zb, meta ? NULL : p->dn);
	}
	err = t->visit(tr->t, &p->bp, &zb, meta ? NULL : p->dn);
	if (err || leaf)
		return err == TRAVERSE_SKIP ? 0 : err;
	return visit_below(tr, p);
}

static int trav_dnode(struct trav *tr, struct dnode *dn)
{
	struct place p = {dn, dn->nlevels - 1u, 0};
	int err = 0;

	for (unsigned i = 0; !err && i < dn->nblkptr; i++) {
		p.blkid = i;
		p.bp = dn->blkptr[i];
		err = trav_block(tr, &p);
	}
	if (err || !dn->has_spill)
		return err;
	p = (struct place){dn, 0, DMU_BLKID_SPILL, dn->spill};
	return trav_block(tr, &p);
}

int traverse_dnode(struct dnode *dn, struct traverse *t)
{
	struct trav *tr = trav_create(dn->os, t);
	int err = trav_dnode(tr, dn);

	trav_release(tr);
	return err;
}

static int trav_objset(struct trav *tr)
{
	struct objset *os = tr->os;
	struct dnode *dn[] = {os->meta, os->projectused, os->groupused, os->userused};
	struct zbookmark zb = {os->id, 0, -1, 0};
	int err = 0;

	if (bp_birth(&os->rootbp) <= tr->min_txg)
		return 0;
	if (!tr->t->post)
		err = tr->t->visit(tr->t, &os->rootbp, &zb, NULL);
	if (err)
		return err == TRAVERSE_SKIP ? 0 : err;
	for (unsigned i = 0; !err && i < ARRAY_LEN(dn); i++)
		if (dn[i])
			err = trav_dnode(tr, dn[i]);
	if (!err && tr->t->post)
		err = tr->t->visit(tr->t, &os->rootbp, &zb, NULL);
	return err;
}

int traverse_objset(struct objset *os, struct traverse *t)
{
	struct trav *tr = trav_create(os, t);
	int err = trav_objset(tr);

	trav_release(tr);
	return err;
}
