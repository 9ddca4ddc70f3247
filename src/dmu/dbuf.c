/* Versions of blocks that are not synced, and freed ranges. See dmu/dbuf.h. */
#include "base/sync.h"
#include "dmu/dbuf.h"

static struct dbuf *to_dbuf(const struct tree_node *n)
{
	return n ? container_of((struct tree_node *)n, struct dbuf, node) : NULL;
}

static int dbuf_cmp(const struct tree_node *a, const struct tree_node *b)
{
	uint64_t x = to_dbuf(a)->blkid, y = to_dbuf(b)->blkid;

	return (x > y) - (x < y);
}

void dbuf_shard_init(struct dbuf_shard *s)
{
	pthread_mutex_init(&s->lock, NULL);
	tree_init(&s->tree, dbuf_cmp);
}

/* Where a block's dbuf hangs, or would. */
static struct tree_node **shard_slot(struct dbuf_shard *s, uint64_t blkid, struct tree_node **parent)
{
	struct tree_node **link = &s->tree.root;

	*parent = NULL;
	while (*link) {
		uint64_t at = to_dbuf(*link)->blkid;

		if (at == blkid)
			break;
		*parent = *link;
		link = blkid < at ? &(*link)->left : &(*link)->right;
	}
	return link;
}

struct dbuf *dbuf_get_locked(struct dbuf_shard *s, uint64_t blkid)
{
	struct tree_node *parent;

	return to_dbuf(*shard_slot(s, blkid, &parent));
}

static struct dbuf *dbuf_make_locked(struct dnode_dirty *dd, struct dbuf_shard *s, uint64_t blkid)
{
	struct tree_node *parent, **link = shard_slot(s, blkid, &parent);
	struct dbuf *db = to_dbuf(*link);

	if (db)
		return db;
	db = xcalloc(1, sizeof(*db));
	db->blkid = blkid;
	tree_insert_at(&s->tree, parent, link, &db->node);
	atomic_fetch_add(&dd->nblocks, 1);
	return db;
}

void dbuf_release_locked(struct dnode_dirty *dd, struct dbuf_shard *s, struct dbuf *db)
{
	if (db->newest || db->fill)
		return;
	tree_remove(&s->tree, &db->node);
	free(db);
	atomic_fetch_sub(&dd->nblocks, 1);
}

/* --- freed ranges --- */

bool dbuf_is_freed(struct dnode_dirty *dd, uint64_t blkid, uint64_t after, uint64_t upto)
{
	bool freed = false;

	if (atomic_load(&dd->nfrees) == 0 || blkid == DMU_BLKID_SPILL)
		return false;
	SCOPED_LOCK(&dd->free_lock);
	for (unsigned i = 0; i < TXG_SIZE && !freed; i++) {
		struct dnode_group *g = &dd->group[i];
		uint64_t txg = atomic_load(&g->txg);

		freed = txg > after && txg <= upto && atomic_load(&g->nfreed) &&
			rangetree_contains(&g->freed, blkid, blkid + 1);
	}
	return freed;
}

static void group_free_range(struct dnode_dirty *dd, uint64_t start, uint64_t end, uint64_t txg)
{
	struct dnode_group *g = dnode_group(dd, txg);

	SCOPED_LOCK(&dd->free_lock);
	rangetree_add_any(&g->freed, start, end);
	if (atomic_exchange(&g->nfreed, 1) == 0)
		atomic_fetch_add(&dd->nfrees, 1);
}

/* --- parts --- */

static void segs_clear(struct dbuf_version *v)
{
	free(v->seg);
	v->seg = NULL;
	v->nsegs = v->segs_room = 0;
}

static void segs_insert(struct dbuf_version *v, uint32_t at, struct dbuf_seg seg)
{
	if (v->nsegs == v->segs_room) {
		v->segs_room = MAX(2, v->segs_room * 2);
		v->seg = xrealloc(v->seg, v->segs_room * sizeof(*v->seg));
	}
	memmove(&v->seg[at + 1], &v->seg[at], (v->nsegs - at) * sizeof(*v->seg));
	v->seg[at] = seg;
	v->nsegs++;
}

/* [start, end) is written; neighbours become one. */
static void segs_add(struct dbuf_version *v, uint32_t start, uint32_t end)
{
	uint32_t i = 0, last;

	while (i < v->nsegs && v->seg[i].end < start)
		i++;
	for (last = i; last < v->nsegs && v->seg[last].start <= end; last++) {
		start = MIN(start, v->seg[last].start);
		end = MAX(end, v->seg[last].end);
	}
	if (last == i) {
		segs_insert(v, i, (struct dbuf_seg){start, end});
	} else {
		v->seg[i] = (struct dbuf_seg){start, end};
		memmove(&v->seg[i + 1], &v->seg[last], (v->nsegs - last) * sizeof(*v->seg));
		v->nsegs -= last - i - 1;
	}
	if (v->seg[0].start == 0 && v->seg[0].end == v->buf->size) {
		v->state = DBUF_FULL;
		segs_clear(v);
	}
}

static void gap_fill(struct dbuf_version *v, uint32_t start, uint32_t end, const struct buf *base)
{
	uint32_t have = base && base->size > start ? MIN(end, base->size) : start;

	if (have > start)
		memcpy(v->buf->data + start, base->data + start, have - start);
	memset(v->buf->data + have, 0, end - have);
}

void dbuf_fill_gaps_locked(struct dbuf_version *v, const struct buf *base)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < v->nsegs; i++) {
		gap_fill(v, at, v->seg[i].start, base);
		at = v->seg[i].end;
	}
	gap_fill(v, at, v->buf->size, base);
	segs_clear(v);
	v->state = DBUF_FULL;
}

/* --- versions --- */

/* The version of a group, or where it belongs in the chain. */
static struct dbuf_version **version_slot(struct dbuf *db, uint64_t txg)
{
	struct dbuf_version **p = &db->newest;

	while (*p && (*p)->txg > txg)
		p = &(*p)->older;
	return p;
}

static struct dbuf_version *version_live(struct dbuf_version *v)
{
	while (v && v->state == DBUF_DROPPED)
		v = v->older;
	return v;
}

static void version_charge(struct dnode_dirty *dd, struct dbuf_version *v)
{
	if (v->charged)
		return;
	v->charged = v->buf->alloc;
	txg_dirty_add(dd->dn->os->dp->txgs, v->txg, v->charged);
}

/* An empty, DROPPED version; those of a group are listed for its sync. */
static struct dbuf_version *version_make_locked(struct dnode_dirty *dd, struct dbuf *db, uint64_t txg)
{
	struct dbuf_version **p = version_slot(db, txg), *v = *p;
	struct dnode_group *g = dnode_group(dd, txg);

	if (v && v->txg == txg)
		return v;
	v = xcalloc(1, sizeof(*v));
	v->db = db;
	v->txg = txg;
	v->older = *p;
	*p = v;
	v->next = atomic_load_explicit(&g->versions, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&g->versions, &v->next, v))
		;
	return v;
}

/* What it was written to ahead of the sync is not what it is now. */
static void version_retire(struct dbuf_version *v)
{
	if (!v->place)
		return;
	v->place->next = v->retired;
	v->retired = v->place;
	v->place = NULL;
}

static void version_take_parts(struct dbuf_version *v, const struct dbuf_version *from)
{
	uint32_t old = from->buf->size, size = v->buf->size;

	for (uint32_t i = 0; i < from->nsegs; i++) {
		uint32_t start = MIN(from->seg[i].start, size), end = MIN(from->seg[i].end, size);

		if (start == end || v->state == DBUF_FULL)
			continue;
		memcpy(v->buf->data + start, from->buf->data + start, end - start);
		segs_add(v, start, end);
	}
	if (size > old && v->state == DBUF_PARTIAL) {
		memset(v->buf->data + old, 0, size - old);
		segs_add(v, old, size);
	}
}

/* What the version begins with, before it is changed in parts. */
static void version_inherit(struct dnode_dirty *dd, struct dbuf_version *v)
{
	struct dbuf_version *from = version_live(v->older);
	uint64_t blkid = v->db->blkid;

	v->state = DBUF_PARTIAL;
	if (dbuf_is_freed(dd, blkid, from ? from->txg : 0, v->txg) ||
	    (!from && blkid > __atomic_load_n(&dd->dn->tree_maxblkid, __ATOMIC_RELAXED)))
		dbuf_fill_gaps_locked(v, NULL);
	else if (from && from->state == DBUF_FULL)
		dbuf_fill_gaps_locked(v, from->buf);
	else if (from && from->state == DBUF_PARTIAL)
		version_take_parts(v, from);
}

/* A live version of `size` bytes. NULL: no memory. */
static struct dbuf_version *version_open_locked(struct dnode_dirty *dd, struct dbuf *db, uint32_t size, uint64_t txg)
{
	struct dbuf_version *v = version_make_locked(dd, db, txg);

	if (v->state != DBUF_DROPPED)
		return v;
	v->buf = buf_alloc(size);
	if (!v->buf)
		return NULL;
	version_inherit(dd, v);
	version_charge(dd, v);
	return v;
}

/* Its buffer is nobody else's. */
static bool version_make_private(struct dbuf_version *v)
{
	struct buf *copy;

	if (atomic_load_explicit(&v->buf->refs, memory_order_acquire) == 1)
		return true;
	copy = buf_alloc(v->buf->size);
	if (!copy)
		return false;
	memcpy(copy->data, v->buf->data, v->buf->size);
	buf_release(v->buf);
	v->buf = copy;
	return true;
}

static int version_put(struct dbuf_version *v, uint32_t offset, const uint8_t *data, uint32_t len)
{
	if (offset >= v->buf->size)
		return 0;
	len = MIN(len, v->buf->size - offset);
	if (!version_make_private(v))
		return -ENOMEM;
	version_retire(v);
	if (data)
		memcpy(v->buf->data + offset, data, len);
	else
		memset(v->buf->data + offset, 0, len);
	if (v->state == DBUF_PARTIAL)
		segs_add(v, offset, offset + len);
	return 0;
}

static void version_set_whole(struct dnode_dirty *dd, struct dbuf_version *v, struct buf *buf)
{
	version_retire(v);
	segs_clear(v);
	buf_release(v->buf);
	v->buf = buf_hold(buf);
	v->state = DBUF_FULL;
	version_charge(dd, v);
}

static void version_drop(struct dnode_dirty *dd, struct dbuf_version *v)
{
	version_retire(v);
	segs_clear(v);
	buf_release(v->buf);
	v->buf = NULL;
	v->state = DBUF_DROPPED;
	if (v->charged)
		txg_dirty_done(dd->dn->os->dp->txgs, v->txg, v->charged);
	v->charged = 0;
}

/* --- changing --- */

/* The version of a younger group that a change goes to as well: one there is, or one where the block was freed. */
static struct dbuf_version *version_younger_locked(struct dnode_dirty *dd, struct dbuf *db, uint32_t size, uint64_t txg)
{
	struct dnode_group *g = dnode_group(dd, txg);
	struct dbuf_version *v;

	if (atomic_load(&g->txg) != txg)
		return NULL;
	v = *version_slot(db, txg);
	if (v && v->txg == txg && v->state != DBUF_DROPPED)
		return v;
	return dbuf_is_freed(dd, db->blkid, txg - 1, txg) ? version_open_locked(dd, db, size, txg) : NULL;
}

int dbuf_write(struct dnode_dirty *dd, uint64_t blkid, uint32_t size, uint32_t offset, const void *data, uint32_t len,
	       uint64_t txg)
{
	struct dbuf_shard *s = dbuf_shard(dd, blkid);
	struct dbuf_version *v;
	struct dbuf *db;
	int err;

	SCOPED_LOCK(&s->lock);
	db = dbuf_make_locked(dd, s, blkid);
	v = version_open_locked(dd, db, size, txg);
	err = v ? version_put(v, offset, data, len) : -ENOMEM;
	for (uint64_t t = txg + 1; !err && t <= atomic_load(&dd->newest); t++) {
		v = version_younger_locked(dd, db, size, t);
		err = v ? version_put(v, offset, data, len) : 0;
	}
	return err;
}

void dbuf_write_whole(struct dnode_dirty *dd, uint64_t blkid, struct buf *buf, uint64_t txg)
{
	struct dbuf_shard *s = dbuf_shard(dd, blkid);
	struct dbuf_version *v;
	struct dbuf *db;

	SCOPED_LOCK(&s->lock);
	db = dbuf_make_locked(dd, s, blkid);
	version_set_whole(dd, version_make_locked(dd, db, txg), buf);
	for (uint64_t t = txg + 1; t <= atomic_load(&dd->newest); t++) {
		v = version_younger_locked(dd, db, buf->size, t);
		if (v)
			version_set_whole(dd, v, buf);
	}
}

int dbuf_touch(struct dnode_dirty *dd, uint64_t blkid, uint32_t size, uint64_t txg)
{
	struct dbuf_shard *s = dbuf_shard(dd, blkid);
	struct dbuf_version *v, old;
	struct dbuf *db;

	SCOPED_LOCK(&s->lock);
	db = dbuf_make_locked(dd, s, blkid);
	v = version_open_locked(dd, db, size, txg);
	if (!v)
		return -ENOMEM;
	if (v->buf->size == size)
		return 0;
	/* Same contents in a buffer of the new size. */
	old = *v;
	v->buf = buf_alloc(size);
	if (!v->buf) {
		v->buf = old.buf;
		return -ENOMEM;
	}
	version_retire(v);
	v->seg = NULL;
	v->nsegs = v->segs_room = 0;
	v->state = DBUF_PARTIAL;
	if (old.state == DBUF_FULL)
		dbuf_fill_gaps_locked(v, old.buf);
	else
		version_take_parts(v, &old);
	buf_release(old.buf);
	free(old.seg);
	return 0;
}

/* Versions of txg and of younger groups. */
static void versions_drop_locked(struct dnode_dirty *dd, struct dbuf *db, uint64_t txg)
{
	for (struct dbuf_version *v = db->newest; v && v->txg >= txg; v = v->older)
		if (v->state != DBUF_DROPPED)
			version_drop(dd, v);
}

void dbuf_drop(struct dnode_dirty *dd, uint64_t blkid, uint64_t txg)
{
	struct dbuf_shard *s = dbuf_shard(dd, blkid);
	struct dbuf *db;

	SCOPED_LOCK(&s->lock);
	db = dbuf_get_locked(s, blkid);
	if (db)
		versions_drop_locked(dd, db, txg);
}

static void shard_drop_range(struct dnode_dirty *dd, struct dbuf_shard *s, uint64_t start, uint64_t end, uint64_t txg)
{
	struct dbuf key = {.blkid = start};

	SCOPED_LOCK(&s->lock);
	for (struct dbuf *db = to_dbuf(tree_find_ge(&s->tree, &key.node)); db && db->blkid < end;
	     db = to_dbuf(tree_next(&db->node)))
		versions_drop_locked(dd, db, txg);
}

void dbuf_free_range(struct dnode_dirty *dd, uint64_t start, uint64_t end, uint64_t txg)
{
	group_free_range(dd, start, end, txg);
	if (atomic_load(&dd->nblocks) == 0)
		return;
	for (unsigned i = 0; i < dd->nshards; i++)
		shard_drop_range(dd, &dd->shard[i], start, end, txg);
}

/* --- looking --- */

enum dbuf_found dbuf_find_locked(struct dnode_dirty *dd, const struct dbuf *db, uint64_t blkid, struct buf **buf,
				 struct bp *bp)
{
	struct dbuf_version *v = db ? version_live(db->newest) : NULL;

	if (dbuf_is_freed(dd, blkid, v ? v->txg : 0, UINT64_MAX))
		return DBUF_HOLE;
	if (!v)
		return DBUF_NONE;
	if (v->state == DBUF_PARTIAL)
		return DBUF_PARTS;
	if (v->state == DBUF_WRITTEN) {
		*bp = v->place->bp;
		return DBUF_BELOW;
	}
	*buf = buf_hold(v->buf);
	return DBUF_DATA;
}

enum dbuf_found dbuf_find(struct dnode_dirty *dd, uint64_t blkid, struct buf **buf, struct bp *bp)
{
	struct dbuf_shard *s = dbuf_shard(dd, blkid);

	SCOPED_LOCK(&s->lock);
	return dbuf_find_locked(dd, dbuf_get_locked(s, blkid), blkid, buf, bp);
}

/* The first block of a shard from *blkid on that has a live version. */
static void shard_next(struct dbuf_shard *s, uint64_t from, uint64_t *least)
{
	struct dbuf key = {.blkid = from}, *db;

	SCOPED_LOCK(&s->lock);
	for (db = to_dbuf(tree_find_ge(&s->tree, &key.node)); db && db->blkid < *least;
	     db = to_dbuf(tree_next(&db->node))) {
		if (db->blkid == DMU_BLKID_SPILL || !version_live(db->newest))
			continue;
		*least = db->blkid;
		return;
	}
}

bool dbuf_has_data(struct dnode_dirty *dd, uint64_t blkid)
{
	struct buf *buf = NULL;
	struct bp bp;
	enum dbuf_found found = dbuf_find(dd, blkid, &buf, &bp);

	buf_release(buf);
	return found != DBUF_NONE && found != DBUF_HOLE;
}

bool dbuf_next(struct dnode_dirty *dd, uint64_t *blkid)
{
	uint64_t from = *blkid, least;

	for (;; from = least + 1) {
		least = UINT64_MAX;
		for (unsigned i = 0; i < dd->nshards; i++)
			shard_next(&dd->shard[i], from, &least);
		if (least == UINT64_MAX)
			return false;
		if (dbuf_has_data(dd, least))
			break;
	}
	*blkid = least;
	return true;
}

bool dbuf_next_freed(struct dnode_dirty *dd, uint64_t from, uint64_t *start, uint64_t *end)
{
	bool found = false;

	if (atomic_load(&dd->nfrees) == 0)
		return false;
	SCOPED_LOCK(&dd->free_lock);
	for (unsigned i = 0; i < TXG_SIZE; i++) {
		struct range *r = rangetree_overlap(&dd->group[i].freed, from, UINT64_MAX);

		if (!r || (found && MAX(r->start, from) >= *start))
			continue;
		*start = MAX(r->start, from);
		*end = r->end;
		found = true;
	}
	return found;
}

/* --- syncing --- */

/* Its contents are on a device: readers find them there, or in the cache. */
static void version_written(struct dnode_dirty *dd, struct dbuf_version *v)
{
	buf_release(v->buf);
	v->buf = NULL;
	v->state = DBUF_WRITTEN;
	if (v->charged)
		txg_dirty_done(dd->dn->os->dp->txgs, v->txg, v->charged);
	v->charged = 0;
}

bool dbuf_is_wanted(struct dnode_dirty *dd, const struct dbuf_version *v)
{
	struct dbuf_shard *s = dbuf_shard(dd, v->db->blkid);

	SCOPED_LOCK(&s->lock);
	return v->state != DBUF_DROPPED || v->naheads > 0;
}

enum dbuf_sync dbuf_sync_look(struct dnode_dirty *dd, struct dbuf_version *v, struct dbuf_wait *w, struct buf **buf)
{
	struct dbuf_shard *s = dbuf_shard(dd, v->db->blkid);

	SCOPED_LOCK(&s->lock);
	if (v->naheads > 0) {
		v->sync_wait = w;
		return DBUF_MUST_WAIT;
	}
	if (v->state == DBUF_PARTIAL)
		return DBUF_MUST_COMPLETE;
	if (v->state != DBUF_FULL)
		return DBUF_IS_DONE;
	if (v->place) {
		version_written(dd, v);
		return DBUF_IS_DONE;
	}
	*buf = buf_hold(v->buf);
	return DBUF_MUST_WRITE;
}

void dbuf_written(struct dnode_dirty *dd, struct dbuf_version *v, const struct bp *bp)
{
	struct dbuf_shard *s = dbuf_shard(dd, v->db->blkid);
	struct dbuf_place *place = xcalloc(1, sizeof(*place));

	place->bp = *bp;
	SCOPED_LOCK(&s->lock);
	v->place = place;
	version_written(dd, v);
}

void dbuf_give_up(struct dnode_dirty *dd, struct dbuf_version *v)
{
	struct dbuf_shard *s = dbuf_shard(dd, v->db->blkid);

	SCOPED_LOCK(&s->lock);
	if (v->state != DBUF_DROPPED)
		version_drop(dd, v);
}

/* --- the end of a group --- */

static void places_free(struct dbuf_place *p)
{
	while (p) {
		struct dbuf_place *next = p->next;

		free(p);
		p = next;
	}
}

static void version_forget(struct dnode_dirty *dd, struct dbuf_version *v)
{
	struct dbuf_shard *s = dbuf_shard(dd, v->db->blkid);
	struct dbuf *db = v->db;

	SCOPED_LOCK(&s->lock);
	*version_slot(db, v->txg) = v->older;
	if (v->state != DBUF_DROPPED)
		version_drop(dd, v);
	places_free(v->retired);
	free(v);
	dbuf_release_locked(dd, s, db);
}

static void group_forget_freed(struct dnode_dirty *dd, struct dnode_group *g)
{
	SCOPED_LOCK(&dd->free_lock);
	rangetree_clear(&g->freed);
	if (atomic_exchange(&g->nfreed, 0))
		atomic_fetch_sub(&dd->nfrees, 1);
}

void dbuf_forget_group(struct dnode_dirty *dd, uint64_t txg)
{
	struct dnode_group *g = dnode_group(dd, txg);
	struct dbuf_version *v, *next;

	/* In this order: a range hides what was written after it only while the version is there to say so. */
	group_forget_freed(dd, g);
	for (v = atomic_exchange(&g->versions, NULL); v; v = next) {
		next = v->next;
		version_forget(dd, v);
	}
}
