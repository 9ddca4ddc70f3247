/* Blocks that go: accounting, and walking down what is freed as a whole. */
#include "base/log.h"
#include "dmu/sync.h"

#define AHEAD 32u /* indirect blocks asked for ahead of the walk */

static bool bp_counts(const struct bp *bp)
{
	return !bp_is_hole(bp);
}

static void tell_damage(struct sync_dnode *sd, const char *what)
{
	if (sync_tells_loss(sd->s))
		log_error("object %llu of object set %llu: %s is not freed", (unsigned long long)sd->dn->object,
			  (unsigned long long)sd->s->os->id, what);
}

static void kill_block(struct sync_dnode *sd, const struct bp *bp)
{
	struct objset *os = sd->s->os;

	if (!bp_counts(bp))
		return;
	if (bp_check(bp)) {
		tell_damage(sd, "what a damaged block pointer led to");
		return;
	}
	arc_drop(os->dp->arc, os->dp->zp, bp);
	if (os->ops->kill) {
		uint64_t bytes = os->ops->kill(os, bp, sd->s->tx);

		sd->used -= MIN(sd->used, bytes);
	}
}

void sync_replace(struct sync_dnode *sd, const struct bp *old, const struct bp *new)
{
	struct objset *os = sd->s->os;

	/* Kept by nop-write, or written over in place. */
	if (bp_counts(old) && bp_counts(new) && bp_is_embedded(old) == bp_is_embedded(new) && bp_equal(old, new)) {
		if (memcmp(&old->w[12], &new->w[12], sizeof(struct cksum)) != 0)
			arc_drop(os->dp->arc, os->dp->zp, old);
		return;
	}
	if (bp_counts(new) && os->ops->born)
		sd->used += os->ops->born(os, new, sd->s->tx);
	kill_block(sd, old);
}

struct bp sync_hole(const struct sync_dnode *sd, const struct bp *old, unsigned level)
{
	bool birth = sd->s->os->dp->zp->hole_birth && bp_birth(old) != 0;
	uint64_t size = level == 0 ? sd->state->shape.datablksz : UINT64_C(128) << sd->epb_shift;
	struct bp bp = {{0}};

	if (birth)
		bp_set_hole(&bp, sd->state->shape.type, level, size, sd->s->tx->txg);
	return bp;
}

/* --- whole trees --- */

static struct zbookmark block_bookmark(const struct sync_dnode *sd, unsigned level, uint64_t blkid)
{
	return (struct zbookmark){sd->s->os->id, sd->dn->object, level, blkid};
}

static void children_ahead(struct sync_dnode *sd, const struct buf *buf, const struct bp *parent, uint64_t blkid,
			   unsigned from)
{
	struct objset *os = sd->s->os;
	unsigned n = buf->size / BP_SIZE, level = bp_level(parent) - 1;

	for (unsigned i = from; i < MIN(n, from + AHEAD); i++) {
		struct zbookmark zb = block_bookmark(sd, level, blkid * n + i);
		struct bp bp;

		bp_decode(&bp, buf->data + (size_t)i * BP_SIZE, bp_is_swapped(parent));
		if (!bp_is_hole(&bp) && bp_level(&bp) == level)
			arc_prefetch(os->dp->arc, os->dp->zp, &bp, &zb, os->key);
	}
}

/* One level down per call: as deep as dnodes have levels. */
static void kill_children(struct sync_dnode *sd, const struct buf *buf, const struct bp *parent, uint64_t blkid)
{
	unsigned n = buf->size / BP_SIZE, level = bp_level(parent) - 1;

	for (unsigned i = 0; i < n; i++) {
		struct bp bp;

		if (level > 0 && i % AHEAD == 0)
			children_ahead(sd, buf, parent, blkid, i);
		bp_decode(&bp, buf->data + (size_t)i * BP_SIZE, bp_is_swapped(parent));
		sync_kill_tree(sd, &bp, level, blkid * n + i);
	}
}

void sync_kill_tree(struct sync_dnode *sd, const struct bp *bp, unsigned level, uint64_t blkid)
{
	struct objset *os = sd->s->os;
	struct zbookmark zb = block_bookmark(sd, level, blkid);
	struct buf *buf = NULL;
	int err;

	if (bp_is_hole(bp))
		return;
	if (bp_level(bp) != level) {
		tell_damage(sd, "what a block pointer of a wrong level led to");
		return;
	}
	if (level > 0) {
		do
			err = arc_read_wait(os->dp->arc, os->dp->zp, bp, &zb, os->key, dmu_arc_flags(sd->dn, bp), &buf);
		while (err && sync_retry_read(sd->s, &zb, err));
		if (err)
			tell_damage(sd, "what an unreadable indirect block leads to");
		else
			kill_children(sd, buf, bp, blkid);
		buf_release(buf);
	}
	kill_block(sd, bp);
}
