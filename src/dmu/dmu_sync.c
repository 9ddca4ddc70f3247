/* Blocks that are written ahead of their group's sync, for the intent log. */
#include "dmu/sync.h"

struct dmu_sync_op {
	struct dmu_sync *s;
	struct dmu_sync_op
	    *twins; /* who asked while this one was writing the same contents; guarded by the shard's lock */
	struct dbuf_version *v;
	struct buf *buf;
	struct zio_write w;
	struct dbuf_wait wait;
};

static void op_end(struct dmu_sync_op *op, int err)
{
	struct dmu_sync *s = op->s;

	buf_release(op->buf);
	free(op);
	s->done(s, err);
}

/* All that asked for the same contents get one pointer: each of their records brings the block as it is, so that what
 * is replayed between them is covered again. */
static void op_end_all(struct dmu_sync_op *op, int err)
{
	struct dmu_sync_op *twin = op->twins, *next;
	struct bp bp = op->w.bp;

	op->s->bp = bp;
	op_end(op, err);
	for (; twin; twin = next) {
		next = twin->twins;
		twin->s->bp = bp;
		op_end(twin, err);
	}
}

/* What was written is the version's place, unless it has changed since: then it is given back with the group. */
static void version_place(struct dbuf_version *v, const struct dmu_sync_op *op)
{
	struct dbuf_place *place = xcalloc(1, sizeof(*place));

	place->bp = op->w.bp;
	if (v->state == DBUF_FULL && v->buf == op->buf && !v->place) {
		v->place = place;
		return;
	}
	place->next = v->retired;
	v->retired = place;
}

static void op_written(struct zio_write *w, int err)
{
	struct dmu_sync_op *op = w->arg;
	struct dnode *dn = op->s->dn;
	struct objset *os = dn->os;
	struct dbuf_shard *sh = dbuf_shard(dn->dirty, op->s->blkid);
	struct dbuf_wait *wait = NULL;
	struct dbuf_version *v = op->v;

	if (!err)
		arc_insert(os->dp->arc, os->dp->zp, &w->bp, &w->zb, op->buf, dmu_arc_flags(dn, &w->bp));
	pthread_mutex_lock(&sh->lock);
	if (!err)
		version_place(v, op);
	if (v->ahead == op)
		v->ahead = NULL;
	if (--v->naheads == 0) {
		wait = v->sync_wait;
		v->sync_wait = NULL;
	}
	pthread_mutex_unlock(&sh->lock);
	/* From here on the sync may end the group; the caller's hold on the dnode remains. */
	if (wait)
		wait->done(wait, 0);
	op_end_all(op, err);
}

static void op_write(struct dmu_sync_op *op)
{
	struct dnode *dn = op->s->dn;
	struct objset *os = dn->os;
	struct dnode_state *st;

	op->w = (struct zio_write){
	    .data = op->buf,
	    .lsize = op->buf->size,
	    .key = os->key,
	    .zb = {os->id, dn->object, 0, op->s->blkid},
	    .txg = op->s->txg,
	    .fill = 1,
	    .flags = ZIO_WRITE_SYNC | ZIO_WRITE_MAY_FAIL,
	    .done = op_written,
	    .arg = op,
	};
	pthread_mutex_lock(&dn->lock);
	st = dnode_state_of_group_locked(dn, op->s->txg);
	pthread_mutex_unlock(&dn->lock);
	sync_policy(os, dn, &st->shape, 0, false, &op->w.policy);
	dnode_state_free(st);
	/* What it replaces is not known here; a reference count cannot be taken back when it changes again. */
	op->w.policy.nopwrite = op->w.policy.dedup = false;
	zio_write(os->dp->zp, &op->w);
}

enum ahead { AHEAD_WRITE, AHEAD_COMPLETE, AHEAD_JOINED, AHEAD_DONE };

static struct dbuf_version *version_find(struct dbuf_shard *sh, uint64_t blkid, uint64_t txg)
{
	struct dbuf *db = dbuf_get_locked(sh, blkid);
	struct dbuf_version *v = db ? db->newest : NULL;

	while (v && v->txg > txg)
		v = v->older;
	return v && v->txg == txg && v->state != DBUF_DROPPED ? v : NULL;
}

static void op_take_locked(struct dmu_sync_op *op, struct dbuf_version *v)
{
	op->v = v;
	op->buf = buf_hold(v->buf);
	v->ahead = op;
	v->naheads++;
}

/* What is to be done; AHEAD_DONE: nothing, with *err. */
static enum ahead op_look_locked(struct dmu_sync_op *op, struct dnode_dirty *dd, struct dbuf_shard *sh, int *err)
{
	struct dmu_sync *s = op->s;
	struct dnode_group *g = dnode_group(dd, s->txg);
	struct dbuf_version *v;

	*err = -EEXIST;
	if (atomic_load(&g->syncing) || atomic_load(&g->txg) != s->txg)
		return AHEAD_DONE;
	*err = -ENOENT;
	v = version_find(sh, s->blkid, s->txg);
	if (!v)
		return AHEAD_DONE;
	if (v->state == DBUF_PARTIAL)
		return AHEAD_COMPLETE;
	if (v->ahead && v->ahead->buf == v->buf) {
		op->twins = v->ahead->twins;
		v->ahead->twins = op;
		return AHEAD_JOINED;
	}
	*err = 0;
	if (v->place) {
		s->bp = v->place->bp;
		return AHEAD_DONE;
	}
	op_take_locked(op, v);
	return AHEAD_WRITE;
}

static void op_go(struct dmu_sync_op *op);

static void op_completed(struct dbuf_wait *w, int err)
{
	struct dmu_sync_op *op = container_of(w, struct dmu_sync_op, wait);

	if (err)
		op_end(op, err);
	else
		op_go(op);
}

static void op_go(struct dmu_sync_op *op)
{
	struct dnode_dirty *dd = dnode_dirty_peek(op->s->dn);
	struct dbuf_shard *sh = dbuf_shard(dd, op->s->blkid);
	enum ahead next;
	int err;

	pthread_mutex_lock(&sh->lock);
	next = op_look_locked(op, dd, sh, &err);
	pthread_mutex_unlock(&sh->lock);
	if (next == AHEAD_DONE) {
		op_end(op, err);
	} else if (next == AHEAD_WRITE) {
		op_write(op);
	} else if (next == AHEAD_COMPLETE) {
		op->wait.done = op_completed;
		dbuf_complete(op->s->dn, op->s->blkid, &op->wait);
	}
}

void dmu_sync(struct dmu_sync *s)
{
	struct dmu_sync_op *op;

	memset(&s->bp, 0, sizeof(s->bp));
	if (!dnode_dirty_peek(s->dn)) {
		s->done(s, -EEXIST);
		return;
	}
	op = xcalloc(1, sizeof(*op));
	op->s = s;
	op_go(op);
}
