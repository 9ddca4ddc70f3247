/* Writing a group of an object set: the loop of events, the meta-dnode, the header. See dmu/sync.h. */
#include "base/log.h"
#include "base/taskq.h"
#include "dmu/sync.h"

#define SYNC_BYTES  (UINT64_C(24) << 20) /* being written at once */
#define SYNC_NODES  64u                  /* indirect blocks at work */
#define SYNC_DNODES 256u
#define LOSSES_TOLD 16u
#define HEADER_MAX  4096u
#define HEADER_OLD  2048u
#define ZIL_AT      512u
#define TYPE_AT     704u
#define FLAGS_AT    712u
#define USERUSED_AT 1024u
#define GROUP_AT    1536u
#define PROJECT_AT  2048u

/* --- events --- */

void sync_expect(struct sync *s, struct sync_event *e, void (*run)(struct sync_event *e))
{
	e->s = s;
	e->run = run;
	s->in_flight++;
}

void sync_post(struct sync_event *e)
{
	struct sync *s = e->s;

	/* The thread sleeps only when there is none. */
	SCOPED_LOCK(&s->lock);
	if (list_is_empty(&s->events))
		pthread_cond_signal(&s->cond);
	list_append(&s->events, &e->node);
}

static void events_run(struct sync *s)
{
	struct list events;
	struct list_node *n;

	list_init(&events);
	pthread_mutex_lock(&s->lock);
	while (list_is_empty(&s->events))
		pthread_cond_wait(&s->cond, &s->lock);
	list_splice(&events, &s->events);
	pthread_mutex_unlock(&s->lock);
	while ((n = list_pop(&events))) {
		struct sync_event *e = container_of(n, struct sync_event, node);

		s->in_flight--;
		e->run(e);
	}
}

/* A device that does not answer comes back, or the pool is given up: until then it is suspended. */
bool sync_retry_read(struct sync *s, const struct zbookmark *zb, int err)
{
	struct zio_pool *zp = s->os->dp->zp;
	uint64_t resumes;

	if (s->err || (err != -EIO && err != -ENXIO) || !zp->on_write_failure)
		return false;
	resumes = zio_resumes(zp);
	return zp->on_write_failure(zp, zb, err) && zio_wait_resumed(zp, resumes);
}

bool sync_tells_loss(struct sync *s)
{
	if (++s->lost == LOSSES_TOLD)
		log_error("object set %llu: more losses in group %llu are not told", (unsigned long long)s->os->id,
			  (unsigned long long)s->tx->txg);
	return s->lost < LOSSES_TOLD;
}

/* --- the loop --- */

static void begin_dnode(struct sync *s, struct dnode *dn)
{
	struct sync_dnode *sd = sync_dnode_create(s, dn);

	s->ndnodes++;
	list_append(&s->working, &sd->work);
	list_append(&s->dnodes, &sd->link);
}

static bool start_dnode(struct sync *s)
{
	struct dnode *dn = s->ndnodes < SYNC_DNODES ? objset_pop_dirty(s->os, s->tx->txg) : NULL;

	if (dn)
		begin_dnode(s, dn);
	return dn != NULL;
}

static bool start_node(struct sync *s)
{
	struct list_node *n = list_first(&s->dnodes);
	struct sync_dnode *sd;

	if (!n || s->held >= SYNC_NODES)
		return false;
	sd = container_of(n, struct sync_dnode, link);
	/* With its last node the dnode may be done, and on another list: it leaves this one before. */
	if (--sd->nstarts == 0)
		list_remove(&s->dnodes, n);
	sync_dnode_start_node(sd);
	return true;
}

/* What was begun goes first, so that little is held. */
static void start_what_fits(struct sync *s)
{
	while (!s->err && s->bytes < SYNC_BYTES) {
		struct list_node *n = list_first(&s->writing);

		if (n)
			sync_node_start_block(s, container_of(n, struct sync_node, link));
		else if (!start_node(s) && !start_dnode(s))
			return;
	}
}

static void sync_loop(struct sync *s)
{
	for (;;) {
		taskq_gather();
		start_what_fits(s);
		taskq_gather_end();
		if (s->in_flight == 0)
			return;
		events_run(s);
	}
}

/* --- the header (7) --- */

static void encode_special(struct dnode *dn, uint8_t *header, size_t size, size_t at)
{
	struct dnode_state *st;

	if (!dn || at + DNODE_SIZE > size)
		return;
	pthread_mutex_lock(&dn->lock);
	st = dnode_state_copy_locked(dn);
	sync_dnode_encode(dn, st, header + at);
	pthread_mutex_unlock(&dn->lock);
	dnode_state_free(st);
}

static struct buf *header_encode(struct objset *os)
{
	uint32_t size = MAX(os->header_size, os->dp->project_quota ? HEADER_MAX : HEADER_OLD);
	struct buf *buf = buf_alloc(size);
	uint8_t *p = buf ? buf->data : NULL;

	if (!buf)
		return NULL;
	memset(p, 0, size);
	encode_special(os->meta, p, size, 0);
	memcpy(p + ZIL_AT, os->zil_header, sizeof(os->zil_header));
	store_host64(p + TYPE_AT, os->type);
	store_host64(p + FLAGS_AT, os->flags);
	encode_special(os->userused, p, size, USERUSED_AT);
	encode_special(os->groupused, p, size, GROUP_AT);
	encode_special(os->projectused, p, size, PROJECT_AT);
	return buf;
}

/* Of an encrypted set whose key is not loaded: only the log's header changes, which no MAC covers. */
static struct buf *header_patch(struct objset *os)
{
	struct zbookmark zb = {os->id, 0, -1, 0};
	struct buf *old = NULL, *buf = NULL;

	if (arc_read_wait(os->dp->arc, os->dp->zp, &os->rootbp, &zb, NULL, 0, &old))
		return NULL;
	buf = buf_alloc(old->size);
	if (buf) {
		memcpy(buf->data, old->data, old->size);
		memcpy(buf->data + ZIL_AT, os->zil_header, sizeof(os->zil_header));
		if (bp_is_swapped(&os->rootbp))
			swap64_buffer(buf->data + ZIL_AT, sizeof(os->zil_header));
	}
	buf_release(old);
	return buf;
}

static void write_as_is(struct zio_write *w, const struct bp *old)
{
	struct bp_props props = {
	    .lsize = w->lsize,
	    .psize = w->lsize,
	    .compress = COMPRESS_OFF,
	    .checksum = w->policy.checksum,
	    .type = DMU_OT_OBJSET,
	    .crypt = true,
	    .swapped = bp_is_swapped(old),
	};

	w->flags = ZIO_WRITE_RAW;
	w->rewrite = false;
	memset(&w->bp, 0, sizeof(w->bp));
	bp_set_props(&w->bp, &props);
}

static uint64_t root_fill(struct objset *os)
{
	uint64_t fill = 0;

	for (unsigned i = 0; i < os->meta->nblkptr; i++)
		if (!bp_is_hole(&os->meta->blkptr[i]))
			fill += bp_fill(&os->meta->blkptr[i]);
	return fill;
}

static void header_replace(struct sync *s, const struct bp *new)
{
	struct objset *os = s->os;

	if (bp_is_hole(&os->rootbp) || !bp_equal(&os->rootbp, new)) {
		if (os->ops->born)
			os->ops->born(os, new, s->tx);
		if (os->ops->kill && !bp_is_hole(&os->rootbp))
			os->ops->kill(os, &os->rootbp, s->tx);
	}
	arc_drop(os->dp->arc, os->dp->zp, &os->rootbp);
	os->rootbp = *new;
}

static int header_write(struct sync *s)
{
	struct objset *os = s->os;
	const struct dnode_shape shape = {.type = DMU_OT_OBJSET};
	bool locked = os->encrypted && !os->key;
	struct buf *buf = locked ? header_patch(os) : header_encode(os);
	struct zio_write w = {
	    .data = buf,
	    .key = os->key,
	    .zb = {os->id, 0, -1, 0},
	    .txg = s->tx->txg,
	    .fill = root_fill(os),
	    .rewrite = s->tx->pass > 1,
	    .bp = os->rootbp,
	};
	int err;

	if (!buf)
		return -EIO;
	w.lsize = buf->size;
	sync_policy(os, os->meta, &shape, 0, false, &w.policy);
	if (locked)
		write_as_is(&w, &os->rootbp);
	err = zio_write_wait(os->dp->zp, &w);
	if (!err) {
		header_replace(s, &w.bp);
		os->header_size = buf->size;
	}
	buf_release(buf);
	return err;
}

/* --- the whole --- */

/* The objects are in the tree, or gone from it. */
static void finished_release(struct sync *s)
{
	struct objset *os = s->os;
	struct list_node *n;

	atomic_fetch_add(&os->dirty->synced, 1);
	while ((n = list_pop(&s->finished))) {
		struct sync_dnode *sd = container_of(n, struct sync_dnode, link);
		struct dnode *dn = sd->dn;
		unsigned slots = MAX(sd->old_slots, sd->state->shape.slots);
		bool gone;

		pthread_mutex_lock(&dn->lock);
		gone = dn->type == 0 && atomic_load(&dn->dirty->newest) == 0;
		if (gone)
			dnode_cache_remove(os->cache, dn);
		pthread_mutex_unlock(&dn->lock);
		if (dn->object != 0 && dn->object < DMU_OBJECT_END && (gone || sd->state->shape.type != 0))
			object_forget_fresh(os, dn->object, slots, gone);
		dnode_release(dn);
		sync_dnode_destroy(sd);
	}
}

/* The pool is lost: what was not done is dirty still, for objset_abandon. */
static void unfinished_give_back(struct sync *s)
{
	struct list_node *n;

	while ((n = list_pop(&s->working))) {
		struct sync_dnode *sd = container_of(n, struct sync_dnode, work);

		objset_note_dirty(s->os, dnode_group(sd->dn->dirty, s->tx->txg), s->tx->txg);
		sync_dnode_destroy(sd);
	}
}

/* Something of the group is to be written. */
static bool sync_is_due(struct objset *os, uint64_t txg)
{
	struct objset_unsynced *u = os->dirty;
	struct objset_group *g = &u->group[txg & TXG_MASK];
	bool due;

	SCOPED_LOCK(&u->lock);
	due = g->txg == txg && (g->header || g->meta || g->dnodes.len > 0);
	if (g->txg == txg)
		g->header = false;
	return due;
}

static void sync_init(struct sync *s, struct objset *os, struct tx *tx)
{
	*s = (struct sync){.os = os, .tx = tx, .may_not_lose = os->type == OBJSET_META};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->cond, NULL);
	list_init(&s->events);
	list_init(&s->dnodes);
	list_init(&s->working);
	list_init(&s->writing);
	list_init(&s->finished);
}

int objset_sync(struct objset *os, struct tx *tx)
{
	struct dnode *meta;
	struct sync s;

	if (!sync_is_due(os, tx->txg))
		return 0;
	sync_init(&s, os, tx);
	sync_loop(&s);
	/* The slots of all of them are in its blocks now. */
	meta = s.err ? NULL : objset_take_meta(os, tx->txg);
	if (meta) {
		s.may_not_lose = true;
		begin_dnode(&s, meta);
		sync_loop(&s);
	}
	if (!s.err)
		s.err = header_write(&s);
	if (s.err) {
		unfinished_give_back(&s);
		objset_dirty(os, tx);
	}
	finished_release(&s);
	pthread_cond_destroy(&s.cond);
	pthread_mutex_destroy(&s.lock);
	return s.err;
}

void objset_sync_done(struct objset *os, uint64_t txg)
{
	BUG_ON(objset_is_dirty(os, txg));
}
