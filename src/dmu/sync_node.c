/* Dirty blocks and the indirect blocks above them. See dmu/sync.h. */
#include "base/log.h"
#include "dmu/sync.h"

#define PASS_REWRITE       2u /* from this pass on, what the group wrote is written over in place */
#define PASS_DONT_COMPRESS 8u /* and from this one on without compression: sizes settle */

struct node_op {
	struct sync_event e;
	struct sync_node *n;
	struct dmu_walk walk;
	struct arc_read ar;
	struct zio_write w;
	struct buf *buf;
	int err;
};

struct block_op {
	struct sync_event e;
	struct sync_node *n;
	struct dbuf_version *v;
	struct dbuf_wait wait;
	struct zio_write w;
	int err;
};

static void node_start(struct sync_node *n);
static void node_complete(struct sync_node *n);

/* --- geometry --- */

static bool is_top(const struct sync_node *n)
{
	return n == n->sd->top;
}

/* Pointers in the node. */
static uint32_t node_entries(const struct sync_node *n)
{
	return is_top(n) ? n->sd->state->shape.nblkptr : 1u << n->sd->epb_shift;
}

static uint64_t shift_up(uint64_t a, unsigned b)
{
	if (a == 0)
		return 0;
	return b >= 64 || a > UINT64_MAX >> b ? UINT64_MAX : a << b;
}

/* Number among the blocks of its level of the node's entry i. */
static uint64_t entry_blkid(const struct sync_node *n, uint32_t i)
{
	return is_top(n) ? i : (n->blkid << n->sd->epb_shift) + i;
}

/* --- what was there --- */

/* The old pointers of a dnode that gets more levels are the first ones of the first new level (6.3). */
static bool is_grown(const struct sync_node *n)
{
	return n->level >= n->sd->tree.nlevels;
}

static const struct bp *dnode_entry(const struct sync_node *n, uint32_t i)
{
	const struct dnode_tree *t = &n->sd->tree;
	static const struct bp none;

	return n->level == t->nlevels && n->blkid == 0 && i < t->nblkptr ? &t->blkptr[i] : &none;
}

static void old_entry(const struct sync_node *n, uint32_t i, struct bp *bp)
{
	const struct sync_dnode *sd = n->sd;

	memset(bp, 0, sizeof(*bp));
	if (sd->is_new_tree)
		return;
	if (is_grown(n)) {
		*bp = *dnode_entry(n, i);
	} else if (n->old) {
		bp_decode(bp, n->old->data + (size_t)i * BP_SIZE, n->old_swapped);
	} else if (bp_birth(&n->bp) != 0) {
		/* Beneath a hole: holes of its birth (1.2). */
		bp_set_hole(bp, bp_type(&n->bp), n->level - 1,
			    n->level == 1 ? sd->tree.datablksz : UINT64_C(128) << sd->tree.epb_shift, bp_birth(&n->bp));
	}
}

static void old_entries(const struct sync_node *n, struct bp *e, uint32_t count)
{
	bool below = !n->sd->is_new_tree && !is_grown(n);

	if (below && n->old && !n->old_swapped)
		memcpy(e, n->old->data, (size_t)count * BP_SIZE);
	else if (below && !n->old && bp_birth(&n->bp) == 0)
		memset(e, 0, (size_t)count * BP_SIZE);
	else
		for (uint32_t i = 0; i < count; i++)
			old_entry(n, i, &e[i]);
}

/* --- putting new pointers in --- */

static bool span_is_freed(const struct sync_dnode *sd, uint64_t start, uint64_t end)
{
	return start < sd->free_limit && rangetree_contains(sd->freed, start, MIN(end, sd->free_limit));
}

/* Entries of which everything beneath was freed. Those with a node of their own have dealt with it. */
static bool apply_freed(struct sync_node *n, struct bp *e, uint32_t count)
{
	struct sync_dnode *sd = n->sd;
	unsigned shift = (n->level - 1) * sd->epb_shift;
	uint64_t start = shift_up(entry_blkid(n, 0), shift), end = shift_up(entry_blkid(n, count - 1) + 1, shift);
	bool changed = false;
	uint32_t child = 0;

	if (sd->is_new_tree || !rangetree_overlap(sd->freed, start, end))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t blkid = entry_blkid(n, i);

		while (child < n->nchildren && n->child[child].blkid < blkid)
			child++;
		if (bp_is_hole(&e[i]) || (child < n->nchildren && n->child[child].blkid == blkid) ||
		    !span_is_freed(sd, shift_up(blkid, shift), shift_up(blkid + 1, shift)))
			continue;
		struct bp hole = sync_hole(sd, &e[i], n->level - 1);

		sync_kill_tree(sd, &e[i], n->level - 1, blkid);
		e[i] = hole;
		changed = true;
	}
	return changed;
}

static bool apply_blocks(struct sync_node *n, struct bp *e)
{
	struct sync_dnode *sd = n->sd;
	uint64_t first = entry_blkid(n, 0);
	bool changed = false;

	for (uint32_t k = 0; k < n->count; k++) {
		const struct dbuf_version *v = sd->item[n->first + k];
		struct bp *old = &e[v->db->blkid - first], new;

		if (v->state != DBUF_WRITTEN)
			continue;
		new = bp_is_hole(&v->place->bp) ? sync_hole(sd, old, 0) : v->place->bp;
		if (memcmp(old, &new, sizeof(new)) == 0)
			continue;
		sync_replace(sd, old, &new);
		*old = new;
		changed = true;
	}
	return changed;
}

static bool apply_children(struct sync_node *n, struct bp *e)
{
	uint64_t first = entry_blkid(n, 0);
	bool changed = false;

	for (uint32_t k = 0; k < n->nchildren; k++) {
		struct bp *old = &e[n->child[k].blkid - first];

		if (n->child[k].lost || memcmp(old, &n->child[k].bp, sizeof(*old)) == 0)
			continue;
		*old = n->child[k].bp;
		changed = true;
	}
	return changed;
}

static bool node_apply(struct sync_node *n, struct bp *e, uint32_t count)
{
	bool changed = is_grown(n) && !n->sd->is_new_tree && n->level == n->sd->tree.nlevels && !is_top(n);

	changed |= apply_freed(n, e, count);
	changed |= apply_blocks(n, e);
	changed |= apply_children(n, e);
	return changed;
}

/* --- writing an indirect block --- */

static void node_done(struct sync_node *n)
{
	struct sync_node *parent = n->parent;

	buf_release(n->old);
	n->old = NULL;
	n->sd->s->held--;
	if (!parent)
		sync_dnode_top_done(n->sd);
	else if (--parent->pending == 0)
		node_start(parent);
}

static struct zbookmark node_bookmark(const struct sync_node *n)
{
	return (struct zbookmark){n->sd->s->os->id, n->sd->dn->object, n->level, n->blkid};
}

static void write_posted(struct zio_write *w, int err)
{
	struct node_op *op = w->arg;

	op->err = err;
	sync_post(&op->e);
}

static void node_written(struct sync_event *e)
{
	struct node_op *op = container_of(e, struct node_op, e);
	struct sync_node *n = op->n;
	struct sync *s = e->s;
	struct objset *os = s->os;

	s->bytes -= op->w.lsize;
	if (op->err) {
		s->err = op->err;
	} else {
		arc_insert(os->dp->arc, os->dp->zp, &op->w.bp, &op->w.zb, op->buf, dmu_arc_flags(n->sd->dn, &op->w.bp));
		sync_replace(n->sd, &n->bp, &op->w.bp);
		n->bp = op->w.bp;
	}
	buf_release(op->buf);
	free(op);
	if (!s->err)
		node_done(n);
}

static unsigned write_flags(const struct sync *s, const struct bp *old)
{
	return s->tx->pass >= PASS_DONT_COMPRESS && bp_birth(old) == s->tx->txg ? ZIO_WRITE_NO_COMPRESS : 0;
}

static void node_write(struct sync_node *n, struct buf *buf, uint64_t fill)
{
	struct sync_dnode *sd = n->sd;
	struct sync *s = sd->s;
	struct node_op *op = xcalloc(1, sizeof(*op));

	op->n = n;
	op->buf = buf;
	op->w = (struct zio_write){
	    .data = buf,
	    .lsize = buf->size,
	    .key = s->os->key,
	    .zb = node_bookmark(n),
	    .txg = s->tx->txg,
	    .fill = fill,
	    .rewrite = s->tx->pass >= PASS_REWRITE,
	    .flags = write_flags(s, &n->bp),
	    .bp = n->bp,
	    .done = write_posted,
	    .arg = op,
	};
	sync_policy(s->os, sd->dn, &sd->state->shape, n->level, false, &op->w.policy);
	if (op->w.rewrite && n->old && bp_birth(&n->bp) == s->tx->txg)
		dnode_keep_old(sd->dn, &n->bp, n->old);
	s->bytes += buf->size;
	sync_expect(s, &op->e, node_written);
	zio_write(s->os->dp->zp, &op->w);
}

static void top_complete(struct sync_node *n)
{
	struct sync_dnode *sd = n->sd;
	uint32_t count = node_entries(n);

	old_entries(n, sd->root, count);
	node_apply(n, sd->root, count);
	node_done(n);
}

/* Everything below is written. */
static void node_complete(struct sync_node *n)
{
	uint32_t count = node_entries(n), used = 0;
	uint64_t fill = 0;
	struct buf *buf;
	struct bp *e, hole;

	if (is_top(n)) {
		top_complete(n);
		return;
	}
	buf = buf_alloc((size_t)count * BP_SIZE);
	if (!buf) {
		n->sd->s->err = -ENOMEM;
		return;
	}
	e = (struct bp *)buf->data;
	old_entries(n, e, count);
	if (!node_apply(n, e, count)) {
		buf_release(buf);
		node_done(n);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (bp_is_hole(&e[i]))
			continue;
		used++;
		fill += bp_fill(&e[i]);
	}
	if (used) {
		node_write(n, buf, fill);
		return;
	}
	buf_release(buf);
	hole = sync_hole(n->sd, &n->bp, n->level);
	sync_replace(n->sd, &n->bp, &hole);
	n->bp = hole;
	node_done(n);
}

/* --- reading what was --- */

static void node_opened(struct sync_node *n)
{
	if (n->count > 0)
		list_append(&n->sd->s->writing, &n->link);
	else
		node_complete(n);
}

static bool has_new_children(const struct sync_node *n)
{
	for (uint32_t k = 0; k < n->nchildren; k++)
		if (!n->child[k].lost)
			return true;
	return false;
}

/*
 * An indirect block that cannot be read cannot be changed: what was changed beneath it is lost, as what is beneath it
 * is. That is so only while nothing below was written yet, and where nothing else relies on it.
 */
static void node_lost(struct sync_node *n, int err)
{
	struct sync_dnode *sd = n->sd;

	if (sd->s->may_not_lose || has_new_children(n)) {
		sd->s->err = err;
		return;
	}
	n->lost = true;
	if (sync_tells_loss(sd->s))
		log_error("object %llu of object set %llu: unreadable indirect block %llu: %u changed blocks below it "
			  "are lost",
			  (unsigned long long)sd->dn->object, (unsigned long long)sd->s->os->id,
			  (unsigned long long)n->blkid, n->count);
	for (uint32_t k = 0; k < n->count; k++)
		dbuf_give_up(sd->dn->dirty, sd->item[n->first + k]);
	node_done(n);
}

static void node_read_done(struct sync_event *e)
{
	struct node_op *op = container_of(e, struct node_op, e);
	struct sync_node *n = op->n;
	struct sync *s = e->s;
	struct zbookmark zb = node_bookmark(n);
	int err = op->err;

	n->bp = op->walk.bp;
	n->old = op->buf;
	n->old_swapped = bp_is_swapped(&n->bp);
	dmu_walk_end(&op->walk);
	free(op);
	if (err && sync_retry_read(s, &zb, err)) {
		s->held--;
		node_start(n);
	} else if (err) {
		node_lost(n, err);
	} else {
		node_opened(n);
	}
}

static void node_block_read(struct arc_read *ar, int err, struct buf *buf)
{
	struct node_op *op = ar->arg;

	if (!err && buf->size != UINT64_C(128) << op->walk.tree.epb_shift) {
		buf_release(buf);
		err = -EINVAL;
	}
	op->buf = err ? NULL : buf;
	op->err = err;
	sync_post(&op->e);
}

static void node_walked(struct dmu_walk *w, int err)
{
	struct node_op *op = container_of(w, struct node_op, walk);
	struct objset *os = w->dn->os;

	op->err = err;
	if (err || bp_is_hole(&w->bp)) {
		sync_post(&op->e);
		return;
	}
	op->ar = (struct arc_read){
	    .zp = os->dp->zp,
	    .bp = w->bp,
	    .zb = node_bookmark(op->n),
	    .key = os->key,
	    .flags = dmu_arc_flags(w->dn, &w->bp),
	    .done = node_block_read,
	    .arg = op,
	};
	arc_read(os->dp->arc, &op->ar);
}

static void node_start(struct sync_node *n)
{
	struct sync_dnode *sd = n->sd;
	struct node_op *op;

	sd->s->held++;
	if (n->nchildren > 0 && !is_top(n) && !has_new_children(n) && sd->freed->space == 0) {
		n->lost = true;
		node_done(n);
		return;
	}
	if (sd->is_new_tree || is_grown(n)) {
		node_opened(n);
		return;
	}
	op = xcalloc(1, sizeof(*op));
	op->n = n;
	op->walk.dn = sd->dn;
	op->walk.level = n->level;
	op->walk.blkid = n->blkid;
	op->walk.done = node_walked;
	sync_expect(sd->s, &op->e, node_read_done);
	dmu_walk_start(&op->walk);
}

void sync_dnode_start_node(struct sync_dnode *sd)
{
	struct sync_node *n;

	do
		n = &sd->nodes[sd->next++];
	while (n->nchildren > 0);
	node_start(n);
}

/* --- dirty blocks --- */

static void block_done(struct block_op *op)
{
	struct sync_node *n = op->n;

	free(op);
	if (--n->pending == 0)
		node_complete(n);
}

static void block_written(struct sync_event *e)
{
	struct block_op *op = container_of(e, struct block_op, e);
	struct sync_dnode *sd = op->n->sd;
	struct objset *os = e->s->os;

	e->s->bytes -= op->w.lsize;
	if (op->err) {
		e->s->err = op->err;
		buf_release(op->w.data);
		free(op);
		return;
	}
	arc_insert(os->dp->arc, os->dp->zp, &op->w.bp, &op->w.zb, op->w.data, dmu_arc_flags(sd->dn, &op->w.bp));
	dbuf_written(sd->dn->dirty, op->v, &op->w.bp);
	buf_release(op->w.data);
	block_done(op);
}

static void block_write_posted(struct zio_write *w, int err)
{
	struct block_op *op = w->arg;

	op->err = err;
	sync_post(&op->e);
}

static uint64_t block_fill(const struct sync_dnode *sd, const struct buf *buf)
{
	uint64_t fill = 0;

	if (sd->state->shape.type != DMU_OT_DNODE)
		return 1;
	for (int slot = dnode_block_next(buf->data, buf->size, 0); slot >= 0;
	     slot = dnode_block_next(buf->data, buf->size, (unsigned)slot + 1))
		fill++;
	return fill;
}

/* Takes over the reference on the contents. */
static void block_write(struct block_op *op, struct buf *buf)
{
	struct sync_dnode *sd = op->n->sd;
	struct sync *s = sd->s;
	uint64_t blkid = op->v->db->blkid;

	op->w = (struct zio_write){
	    .data = buf,
	    .lsize = buf->size,
	    .key = s->os->key,
	    .zb = {s->os->id, sd->dn->object, 0, blkid},
	    .txg = s->tx->txg,
	    .fill = block_fill(sd, buf),
	    .rewrite = s->tx->pass >= PASS_REWRITE,
	    .done = block_write_posted,
	    .arg = op,
	};
	/* What was freed meanwhile is not to be kept, nor written over. */
	if (!span_is_freed(sd, blkid, blkid + 1))
		old_entry(op->n, (uint32_t)(blkid - entry_blkid(op->n, 0)), &op->w.bp);
	op->w.flags = write_flags(s, &op->w.bp);
	sync_policy(s->os, sd->dn, &sd->state->shape, 0, false, &op->w.policy);
	s->bytes += buf->size;
	sync_expect(s, &op->e, block_written);
	zio_write(s->os->dp->zp, &op->w);
}

static void block_go(struct block_op *op);

static void block_waited(struct sync_event *e)
{
	struct block_op *op = container_of(e, struct block_op, e);
	struct sync_dnode *sd = op->n->sd;
	struct zbookmark zb = {e->s->os->id, sd->dn->object, 0, op->v->db->blkid};

	if (!op->err || sync_retry_read(e->s, &zb, op->err)) {
		block_go(op);
		return;
	}
	/* Part of a block was written that cannot be read: it stays what it is, unreadable. */
	if (e->s->may_not_lose) {
		e->s->err = op->err;
		free(op);
		return;
	}
	log_error(
	    "object %llu of object set %llu: block %llu was changed in part and cannot be read: the change is lost",
	    (unsigned long long)sd->dn->object, (unsigned long long)e->s->os->id, (unsigned long long)zb.blkid);
	dbuf_give_up(sd->dn->dirty, op->v);
	block_done(op);
}

static void block_wait_posted(struct dbuf_wait *w, int err)
{
	struct block_op *op = container_of(w, struct block_op, wait);

	op->err = err;
	sync_post(&op->e);
}

static void block_go(struct block_op *op)
{
	struct sync_dnode *sd = op->n->sd;
	struct buf *buf = NULL;

	op->wait.done = block_wait_posted;
	sync_expect(sd->s, &op->e, block_waited);
	switch (dbuf_sync_look(sd->dn->dirty, op->v, &op->wait, &buf)) {
	case DBUF_MUST_WAIT:
		return;
	case DBUF_MUST_COMPLETE:
		dbuf_complete(sd->dn, op->v->db->blkid, &op->wait);
		return;
	case DBUF_IS_DONE:
		sd->s->in_flight--;
		block_done(op);
		return;
	case DBUF_MUST_WRITE:
		sd->s->in_flight--;
		block_write(op, buf);
		return;
	}
}

void sync_node_start_block(struct sync *s, struct sync_node *n)
{
	struct block_op *op = xcalloc(1, sizeof(*op));

	op->n = n;
	op->v = n->sd->item[n->first + n->next++];
	if (n->next == n->count)
		list_remove(&s->writing, &n->link);
	block_go(op);
}
