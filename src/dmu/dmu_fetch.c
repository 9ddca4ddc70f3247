/* One block, whatever it takes: unsynced contents, the tree, completing what was written in parts. */
#include "base/sync.h"
#include "dmu/dbuf.h"

#define FETCH_TRIES 16u /* a tree moves once a group at most, or once a pass */

bool dmu_tree_moved(struct dnode *dn, uint64_t seq)
{
	SCOPED_LOCK(&dn->lock);
	return dn->tree_seq != seq;
}

bool dmu_block_moved(struct dnode *dn, uint64_t blkid, uint64_t seq)
{
	struct buf *buf = NULL;
	struct bp bp;
	bool found = dnode_has_overlay(dn) && dbuf_find(dnode_dirty_peek(dn), blkid, &buf, &bp) != DBUF_NONE;

	buf_release(buf);
	return found || dmu_tree_moved(dn, seq);
}

/* --- indirect blocks that are written over --- */

void dnode_keep_old(struct dnode *dn, const struct bp *bp, struct buf *buf)
{
	struct dnode_kept *k = xcalloc(1, sizeof(*k));

	k->bp = *bp;
	k->buf = buf_hold(buf);
	SCOPED_LOCK(&dn->lock);
	k->next = dn->dirty->kept;
	dn->dirty->kept = k;
}

struct buf *dnode_kept_find(struct dnode *dn, const struct bp *bp)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);

	if (!dd)
		return NULL;
	SCOPED_LOCK(&dn->lock);
	for (const struct dnode_kept *k = dd->kept; k; k = k->next)
		if (memcmp(&k->bp, bp, sizeof(*bp)) == 0)
			return buf_hold(k->buf);
	return NULL;
}

void dnode_kept_free(struct dnode_kept *k)
{
	while (k) {
		struct dnode_kept *next = k->next;

		buf_release(k->buf);
		free(k);
		k = next;
	}
}

/* --- fetching --- */

static void fetch_restart(struct dmu_fetch *f)
{
	f->tries++;
	f->by_pointer = false;
	dmu_fetch_start(f);
}

static bool fetch_may_retry(struct dmu_fetch *f)
{
	struct dnode *dn = f->dn;

	if (!dn->os->ops || f->tries >= FETCH_TRIES || (f->by_pointer && f->tree_only))
		return false;
	if (f->by_pointer)
		return true;
	return f->tree_only ? dmu_tree_moved(dn, f->walk.tree.seq) : dmu_block_moved(dn, f->blkid, f->walk.tree.seq);
}

static void fetch_read_done(struct arc_read *ar, int err, struct buf *buf)
{
	struct dmu_fetch *f = ar->arg;

	if ((err || (bp_checksum(&f->bp) == CHECKSUM_OFF && !f->by_pointer)) && fetch_may_retry(f)) {
		buf_release(buf);
		fetch_restart(f);
		return;
	}
	f->swapped = bp_is_swapped(&f->bp);
	f->done(f, err, err ? NULL : buf);
}

static void fetch_read(struct dmu_fetch *f)
{
	struct dnode *dn = f->dn;
	struct objset *os = dn->os;

	if (bp_is_hole(&f->bp)) {
		f->done(f, 0, NULL);
		return;
	}
	if (bp_level(&f->bp) != 0) {
		f->done(f, -EINVAL, NULL);
		return;
	}
	f->ar = (struct arc_read){
	    .zp = os->dp->zp,
	    .bp = f->bp,
	    .zb = {os->id, dn->object, 0, f->blkid},
	    .key = os->key,
	    .flags = dmu_arc_flags(dn, &f->bp) | f->flags,
	    .done = fetch_read_done,
	    .arg = f,
	};
	arc_read(os->dp->arc, &f->ar);
}

static void fetch_walk_done(struct dmu_walk *w, int err)
{
	struct dmu_fetch *f = container_of(w, struct dmu_fetch, walk);

	f->bp = w->bp;
	dmu_walk_end(w);
	if (err && fetch_may_retry(f))
		fetch_restart(f);
	else if (err)
		f->done(f, err, NULL);
	else
		fetch_read(f);
}

static void fetch_tree(struct dmu_fetch *f)
{
	f->walk.dn = f->dn;
	f->walk.blkid = f->blkid;
	f->walk.done = fetch_walk_done;
	if (f->blkid != DMU_BLKID_SPILL) {
		dmu_walk_start(&f->walk);
		return;
	}
	pthread_mutex_lock(&f->dn->lock);
	f->walk.tree.seq = f->dn->tree_seq;
	f->bp = f->dn->spill;
	pthread_mutex_unlock(&f->dn->lock);
	fetch_read(f);
}

static void fetch_completed(struct dbuf_wait *w, int err)
{
	struct dmu_fetch *f = container_of(w, struct dmu_fetch, wait);

	if (err)
		f->done(f, err, NULL);
	else
		dmu_fetch_start(f);
}

static enum dbuf_found fetch_look(struct dmu_fetch *f, struct buf **buf)
{
	if (f->tree_only || !dnode_has_overlay(f->dn))
		return DBUF_NONE;
	return dbuf_find(dnode_dirty_peek(f->dn), f->blkid, buf, &f->bp);
}

void dmu_fetch_start(struct dmu_fetch *f)
{
	struct buf *buf = NULL;

	f->swapped = false;
	if (f->by_pointer) {
		fetch_read(f);
		return;
	}
	switch (fetch_look(f, &buf)) {
	case DBUF_HOLE:
	case DBUF_DATA:
		f->done(f, 0, buf);
		break;
	case DBUF_BELOW:
		f->by_pointer = true;
		fetch_read(f);
		break;
	case DBUF_PARTS:
		f->wait.done = fetch_completed;
		dbuf_complete(f->dn, f->blkid, &f->wait);
		break;
	case DBUF_NONE:
		fetch_tree(f);
		break;
	}
}

struct fetch_waiter {
	struct waiter w;
	struct buf *buf;
};

static void fetch_wait_done(struct dmu_fetch *f, int err, struct buf *buf)
{
	struct fetch_waiter *fw = container_of(f->walk.waiter, struct fetch_waiter, w);

	fw->buf = buf;
	waiter_done(&fw->w, err);
}

int dmu_fetch_wait(struct dmu_fetch *f, struct buf **out)
{
	struct fetch_waiter fw = {.buf = NULL};
	int err;

	waiter_init(&fw.w);
	f->walk.waiter = &fw.w;
	f->done = fetch_wait_done;
	dmu_fetch_start(f);
	err = waiter_wait(&fw.w);
	*out = fw.buf;
	return err;
}

/* --- completing --- */

struct dbuf_fill {
	struct dmu_fetch fetch;
	struct list waiters; /* struct dbuf_wait; the shard's lock */
	uint64_t blkid;
};

enum fill_base { FILL_NOTHING, FILL_FROM_TREE, FILL_FROM_POINTER };

/* Where the missing parts of PARTIAL versions are. */
static enum fill_base fill_base_locked(const struct dbuf *db, struct bp *base)
{
	enum fill_base from = FILL_NOTHING;

	for (const struct dbuf_version *v = db ? db->newest : NULL; v; v = v->older) {
		if (v->state == DBUF_PARTIAL)
			from = FILL_FROM_TREE;
		if (v->state != DBUF_WRITTEN)
			continue;
		*base = v->place->bp;
		return from == FILL_NOTHING ? FILL_NOTHING : FILL_FROM_POINTER;
	}
	return from;
}

static struct buf *buf_turned(const struct buf *from, unsigned type)
{
	struct buf *b = buf_alloc(from->size);

	if (!b)
		return NULL;
	memcpy(b->data, from->data, from->size);
	dmu_swap_contents(type, b->data, b->size);
	return b;
}

static void fill_finish(struct dbuf_fill *fill, int err, const struct buf *base)
{
	struct dnode_dirty *dd = dnode_dirty_peek(fill->fetch.dn);
	struct dbuf_shard *s = dbuf_shard(dd, fill->blkid);
	struct list waiters;
	struct list_node *n;
	struct dbuf *db;

	list_init(&waiters);
	pthread_mutex_lock(&s->lock);
	db = dbuf_get_locked(s, fill->blkid);
	for (struct dbuf_version *v = db->newest; v && !err; v = v->older)
		if (v->state == DBUF_PARTIAL)
			dbuf_fill_gaps_locked(v, base);
	list_splice(&waiters, &fill->waiters);
	db->fill = NULL;
	dbuf_release_locked(dd, s, db);
	pthread_mutex_unlock(&s->lock);
	free(fill);
	while ((n = list_pop(&waiters))) {
		struct dbuf_wait *w = container_of(n, struct dbuf_wait, node);

		w->done(w, err);
	}
}

static void fill_done(struct dmu_fetch *f, int err, struct buf *buf);

static void fill_start(struct dbuf_fill *fill, enum fill_base from, const struct bp *base)
{
	fill->fetch.by_pointer = from == FILL_FROM_POINTER;
	if (fill->fetch.by_pointer)
		fill->fetch.bp = *base;
	fill->fetch.done = fill_done;
	dmu_fetch_start(&fill->fetch);
}

/* What had been written when the fill began is in the tree by now: it may even have moved on. */
static bool fill_again(struct dbuf_fill *fill)
{
	struct dnode_dirty *dd = dnode_dirty_peek(fill->fetch.dn);
	struct dbuf_shard *s = dbuf_shard(dd, fill->blkid);
	enum fill_base from;
	struct bp base;

	if (!fill->fetch.by_pointer)
		return false;
	pthread_mutex_lock(&s->lock);
	from = fill_base_locked(dbuf_get_locked(s, fill->blkid), &base);
	pthread_mutex_unlock(&s->lock);
	if (from != FILL_FROM_TREE)
		return false;
	fill_start(fill, from, NULL);
	return true;
}

static void fill_done(struct dmu_fetch *f, int err, struct buf *buf)
{
	struct dbuf_fill *fill = container_of(f, struct dbuf_fill, fetch);
	struct buf *turned = NULL;

	if (err && fill_again(fill))
		return;
	if (!err && buf && f->swapped) {
		turned = buf_turned(buf, bp_type(&f->bp));
		err = turned ? 0 : -ENOMEM;
	}
	fill_finish(fill, err, turned ? turned : buf);
	buf_release(turned);
	buf_release(buf);
}

void dbuf_complete(struct dnode *dn, uint64_t blkid, struct dbuf_wait *w)
{
	struct dnode_dirty *dd = dnode_dirty_peek(dn);
	struct dbuf_shard *s = dbuf_shard(dd, blkid);
	struct dbuf_fill *fill = NULL;
	enum fill_base from;
	struct dbuf *db;
	struct bp base;

	pthread_mutex_lock(&s->lock);
	db = dbuf_get_locked(s, blkid);
	from = fill_base_locked(db, &base);
	if (from != FILL_NOTHING && !db->fill) {
		fill = db->fill = xcalloc(1, sizeof(*fill));
		list_init(&fill->waiters);
		fill->blkid = fill->fetch.blkid = blkid;
		fill->fetch.dn = dn;
		fill->fetch.tree_only = true;
	}
	if (from != FILL_NOTHING)
		list_append(&db->fill->waiters, &w->node);
	pthread_mutex_unlock(&s->lock);
	if (from == FILL_NOTHING)
		w->done(w, 0);
	else if (fill)
		fill_start(fill, from, &base);
}
