/*
 * dsl/dsl_objset.c: the objects of data sets: opening them, shared in pools that are open for writing, and what becomes
 * of their blocks while a group is written (03-datasets.md 2.4, 2.5).
 *
 * A live data set has at most one objset. It stays open while somebody holds it or it is dirty; dsl_objsets_trim closes
 * the others. Blocks born and killed are only counted and gathered here, on whatever thread; dsl_sync.c settles them.
 */
#include <time.h>

#include "dsl/dsl_write_impl.h"
#include "zio/zio_crypt.h"

#define CHUNK_WORDS       (9 * 448)
#define FEATURE_LZ4       "org.illumos:lz4_compress"
#define FEATURE_CLONING   "com.fudosecurity:block_cloning"
#define VERSION_FREE      26
#define LARGE_BLOCK       131072
#define DNODESIZE_AUTO    1
#define DNODESIZE_OF_AUTO 1024
#define COMPRESS_LEVEL    7
#define SETTLE_TRIES      50
#define SETTLE_NS         10000000

/* --- gathered pointers --- */

/* Most are kept as places, births and properties; those of deduplicated blocks whole, whose checksum is their key. */
static const uint8_t short_words[] = {0, 1, 2, 3, 4, 5, 6, 9, 10};
#define SHORT ARRAY_LEN(short_words)

struct bp_chunk {
	struct bp_chunk *next;
	bool whole;
	size_t first, end; /* words */
	uint64_t w[CHUNK_WORDS];
};

static struct bp_chunk *bp_list_room(struct bp_list *l, bool whole, size_t words)
{
	struct bp_chunk *c = l->last;

	if (c && c->whole == whole && c->end + words <= CHUNK_WORDS)
		return c;
	c = xmalloc(sizeof(*c));
	c->next = NULL;
	c->whole = whole;
	c->first = c->end = 0;
	if (l->last)
		l->last->next = c;
	else
		l->first = c;
	l->last = c;
	return c;
}

void bp_list_add(struct bp_list *l, const struct bp *bp)
{
	bool whole = bp_is_dedup(bp);
	size_t words = whole ? ARRAY_LEN(bp->w) : SHORT;
	struct bp_chunk *c = bp_list_room(l, whole, words);

	if (whole)
		memcpy(&c->w[c->end], bp->w, sizeof(bp->w));
	for (size_t i = 0; !whole && i < SHORT; i++)
		c->w[c->end + i] = bp->w[short_words[i]];
	c->end += words;
	l->len++;
}

bool bp_list_pop(struct bp_list *l, struct bp *bp)
{
	struct bp_chunk *c = l->first;

	if (!c)
		return false;
	memset(bp, 0, sizeof(*bp));
	if (c->whole) {
		memcpy(bp->w, &c->w[c->first], sizeof(bp->w));
		c->first += ARRAY_LEN(bp->w);
	} else {
		for (size_t i = 0; i < SHORT; i++)
			bp->w[short_words[i]] = c->w[c->first++];
	}
	l->len--;
	if (c->first == c->end) {
		l->first = c->next;
		if (!l->first)
			l->last = NULL;
		free(c);
	}
	return true;
}

void bp_list_clear(struct bp_list *l)
{
	struct bp bp;

	while (bp_list_pop(l, &bp))
		;
}

/* --- properties --- */

static uint64_t prop_of(struct dsl_dataset *ds, const char *name, uint64_t fallback)
{
	uint64_t v;

	return dsl_prop_u64(ds, name, &v, NULL) ? fallback : v;
}

static enum compress compress_of(struct dsl_dataset *ds, uint8_t *level)
{
	uint64_t v = prop_of(ds, "compression", COMPRESS_ON);
	enum compress c = (enum compress)bits64(v, 0, COMPRESS_LEVEL);

	*level = (uint8_t)(v >> COMPRESS_LEVEL);
	if (c == COMPRESS_ON || c == COMPRESS_INHERIT || c == COMPRESS_EMPTY || c >= COMPRESS_COUNT)
		return dsl_feature_refs(ds->pool, FEATURE_LZ4) ? COMPRESS_LZ4 : COMPRESS_LZJB;
	return c;
}

static enum checksum checksum_of(struct dsl_dataset *ds)
{
	uint64_t v = prop_of(ds, "checksum", CHECKSUM_ON);

	return v <= CHECKSUM_ON || v >= CHECKSUM_COUNT ? CHECKSUM_FLETCHER_4 : (enum checksum)v;
}

/* primarycache: none 0, metadata 1, all 2. */
static void fill_primarycache(struct dsl_dataset *ds, struct objset *os)
{
	uint64_t mode = prop_of(ds, "primarycache", 2);

	os->cache_data = mode >= 2;
	os->cache_metadata = mode >= 1;
	os->cache_flags = mode == 0 ? ARC_NOCACHE : 0;
}

void dsl_objset_fill_props(struct dsl_dataset *ds, struct objset *os)
{
	struct objset_props *o = &os->props;
	uint64_t dnodesize = os->type == OBJSET_ZFS ? prop_of(ds, "dnodesize", 0) : 0;
	uint8_t level;

	fill_primarycache(ds, os);
	if (!ds->pool->write)
		return;
	o->checksum = checksum_of(ds);
	o->compress = compress_of(ds, &level);
	o->complevel = level;
	o->copies = (uint8_t)MAX(1, MIN(3, prop_of(ds, "copies", 1)));
	o->redundant_metadata = (uint8_t)prop_of(ds, "redundant_metadata", 0);
	o->sync = (uint8_t)prop_of(ds, "sync", 0);
	o->logbias = (uint8_t)prop_of(ds, "logbias", 0);
	o->readonly = prop_of(ds, "readonly", 0) != 0;
	o->special_small = prop_of(ds, "special_small_blocks", 0);
	o->dnodesize = dnodesize == DNODESIZE_AUTO ? DNODESIZE_OF_AUTO : (uint32_t)dnodesize;
}

/* Of dsl_prop_watch. */
void dsl_objset_props_changed(void *arg, uint64_t dataset_object)
{
	struct dsl_pool *p = arg;
	DSL_SHARED(p);
	struct obj_node *n = obj_cache_get(&p->cache->datasets, dataset_object);
	struct dsl_dataset *ds;
	struct live_dataset *l;

	if (!n)
		return;
	ds = &container_of(n, struct dataset_node, node)->ds;
	l = dsl_live(ds);
	pthread_mutex_lock(&l->open);
	if (l->os)
		dsl_objset_fill_props(ds, l->os);
	pthread_mutex_unlock(&l->open);
	dsl_dataset_release(ds);
}

/* --- blocks --- */

static uint64_t features_of(const struct bp *bp)
{
	uint64_t bits = bp_lsize(bp) > LARGE_BLOCK ? 1u << DSL_DS_LARGE_BLOCKS : 0;

	switch (bp_checksum(bp)) {
	case CHECKSUM_SHA512:
		bits |= 1u << DSL_DS_SHA512;
		break;
	case CHECKSUM_SKEIN:
		bits |= 1u << DSL_DS_SKEIN;
		break;
	case CHECKSUM_EDONR:
		bits |= 1u << DSL_DS_EDONR;
		break;
	case CHECKSUM_BLAKE3:
		bits |= 1u << DSL_DS_BLAKE3;
		break;
	default:
		break;
	}
	return bp_compress(bp) == COMPRESS_ZSTD ? bits | 1u << DSL_DS_ZSTD : bits;
}

static void sums_add(int64_t sums[3], const struct dsl_space *s, int sign)
{
	sums[0] += sign * (int64_t)s->used;
	sums[1] += sign * (int64_t)s->comp;
	sums[2] += sign * (int64_t)s->uncomp;
}

static bool counts_nothing(const struct bp *bp)
{
	return bp_is_hole(bp) || dsl_bp_is_redacted(bp);
}

static uint64_t op_born(struct objset *os, const struct bp *bp, struct tx *tx)
{
	struct live_dataset *l = os->ops_arg;
	struct dsl_space s;

	if (counts_nothing(bp))
		return 0;
	s = dsl_bp_space(l->ds->pool, bp);
	SCOPED_LOCK(&l->lock);
	sums_add(l->gather.ref, &s, 1);
	sums_add(l->gather.own, &s, 1);
	l->gather.features |= features_of(bp);
	return s.used;
}

/* Needs more than giving its space back: a gang block's members, an entry of a table. */
static bool is_slow(const struct live_dataset *l, const struct bp *bp)
{
	if (l->ds->pool->version < VERSION_FREE || bp_is_embedded(bp))
		return false;
	return bp_is_gang(bp) || bp_is_dedup(bp) ||
	       (l->gather.check_cloned && bp_level(bp) == 0 && !dmu_type_is_metadata(bp_type(bp)));
}

static uint64_t op_kill(struct objset *os, const struct bp *bp, struct tx *tx)
{
	struct live_dataset *l = os->ops_arg;
	struct gather *g = &l->gather;
	uint64_t birth = dsl_bp_birth(bp);
	struct dsl_space s;

	if (counts_nothing(bp))
		return 0;
	s = dsl_bp_space(l->ds->pool, bp);
	SCOPED_LOCK(&l->lock);
	if (birth > g->prev_txg) {
		bp_list_add(is_slow(l, bp) ? &g->slow : &g->now, bp);
		sums_add(g->own, &s, -1);
	} else {
		bp_list_add(&g->dead, bp);
		if (g->prev_follows && birth > g->prev_prev_txg)
			g->prev_own += (int64_t)s.used;
		if (birth > g->origin_txg)
			g->to_snap += (int64_t)s.used;
	}
	if (l->fbn)
		dsl_fbn_killed(l->fbn, g->prev_txg, birth, &s);
	sums_add(g->ref, &s, -1);
	return s.used;
}

static void origin_find(struct gather *g, const struct dsl_dir *d)
{
	struct dsl_edit origin;

	g->origin_txg = 0;
	if (!dsl_dir_is_clone(d) || dsl_sync_check(d->pool, dsl_edit_begin(d->pool, d->origin, &origin),
						   "the origin of a clone cannot be read"))
		return;
	g->origin_txg = origin.ds->creation_txg;
	dsl_edit_end(&origin);
}

/* Before the set is written: what its blocks are judged by. */
void gather_begin(struct live_dataset *l)
{
	struct dsl_dataset *ds = l->ds;
	struct gather *g = &l->gather;
	struct dsl_edit prev;

	g->prev_txg = ds->prev_snap_txg;
	g->prev_prev_txg = 0;
	g->prev_follows = false;
	g->check_cloned = dsl_feature_refs(ds->pool, FEATURE_CLONING) > 0;
	origin_find(g, ds->dir);
	if (ds->prev_snap &&
	    !dsl_sync_check(ds->pool, dsl_edit_begin(ds->pool, ds->prev_snap, &prev), "a snapshot cannot be read")) {
		g->prev_follows = prev.ds->next_snap == ds->object;
		g->prev_prev_txg = prev.ds->prev_snap_txg;
		dsl_edit_end(&prev);
	}
	if (!l->fbn_read)
		l->fbn = dsl_fbn_load(ds);
	l->fbn_read = true;
}

void gather_clear(struct gather *g)
{
	bp_list_clear(&g->now);
	bp_list_clear(&g->slow);
	bp_list_clear(&g->dead);
	memset(g, 0, sizeof(*g));
}

static void op_dirtied(struct objset *os, uint64_t txg)
{
	struct live_dataset *l = os->ops_arg;
	struct dsl_write *w = l->ds->pool->write;
	unsigned slot = txg & TXG_MASK;

	SCOPED_LOCK(&w->lock);
	if (list_node_is_linked(&l->dirty[slot]))
		return;
	list_append(&w->dirty[slot], &l->dirty[slot]);
	l->dirty_os[slot] = objset_hold(os);
	dsl_dataset_ref(l->ds);
}

static void op_uses(struct objset *os, const char *feature, uint64_t txg)
{
	struct live_dataset *l = os->ops_arg;
	int bit = dsl_ds_feature_bit(feature);

	if (bit >= 0)
		atomic_fetch_or(&l->features_used, UINT64_C(1) << bit);
}

static bool op_enabled(struct objset *os, const char *feature)
{
	struct live_dataset *l = os->ops_arg;

	return dsl_feature_enabled(l->ds->pool, feature);
}

static int op_owner(struct objset *os, const struct dnode *dn, const uint8_t *bonus, size_t len, uint64_t *uid,
		    uint64_t *gid, uint64_t *project)
{
	struct live_dataset *l = os->ops_arg;
	struct dsl_pool *p = l->ds->pool;

	return p->owner && os->type == OBJSET_ZFS ? p->owner(os, dn, bonus, len, uid, gid, project) : -ENOENT;
}

const struct objset_ops dsl_objset_ops = {
    .reserve = dsl_reserve,
    .dirtied = op_dirtied,
    .uses = op_uses,
    .enabled = op_enabled,
    .owner = op_owner,
    .born = op_born,
    .kill = op_kill,
};

/* --- opening --- */

static int objset_load(struct dsl_dataset *ds, bool raw, struct objset **out, struct err *e)
{
	struct crypt_key *key = NULL;
	int err = 0;

	if (bp_is_hole(&ds->bp))
		return err_set(e, -ENOENT, "'%s' has no data", ds->name);
	if (ds->dir->crypto_obj) {
		err = dsl_crypt_key_hold(ds, &key, e);
		if (err && !raw)
			return err;
		if (err)
			key = NULL;
	}
	err = objset_open(ds->pool->dp, ds->object, &ds->bp, key, out, e);
	if (key)
		crypt_key_release(key);
	if (err)
		return err_prefix(e, err, "'%s'", ds->name);
	dsl_objset_fill_props(ds, *out);
	return 0;
}

/* From now on os is the objset of the data set; the caller's reference becomes the data set's. */
void dsl_objset_attach(struct live_dataset *l, struct objset *os)
{
	struct dsl_write *w = l->ds->pool->write;

	l->os = os;
	SCOPED_LOCK(&w->lock);
	dsl_dataset_ref(l->ds);
	list_append(&w->opened, &l->opened);
}

static unsigned dirty_groups_locked(const struct live_dataset *l)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TXG_SIZE; i++)
		n += list_node_is_linked(&l->dirty[i]);
	return n;
}

/* Closes what nobody uses; l->open is held. */
static bool objset_detach(struct live_dataset *l)
{
	struct dsl_write *w = l->ds->pool->write;
	struct objset *os = l->os;

	pthread_mutex_lock(&w->lock);
	if (!os || atomic_load(&os->refs) != 1 || dirty_groups_locked(l)) {
		pthread_mutex_unlock(&w->lock);
		return false;
	}
	list_remove(&w->opened, &l->opened);
	pthread_mutex_unlock(&w->lock);
	l->os = NULL;
	objset_release(os);
	return true;
}

static int live_open(struct dsl_dataset *ds, bool raw, struct objset **out, struct err *e)
{
	struct live_dataset *l = dsl_live(ds);
	struct objset *os;
	bool detached = false;
	int err = 0;

	pthread_mutex_lock(&l->open);
	if (l->os && l->os->encrypted && !l->os->key && !raw) {
		detached = objset_detach(l); /* it was opened without its key */
		if (!detached)
			err = err_set(e, -EBUSY, "'%s' is in use without its key", ds->name);
	}
	if (!err && !l->os) {
		err = dataset_node_of(ds)->node.gone ? err_set(e, -ENOENT, "'%s' does not exist", ds->name)
						     : objset_load(ds, raw, &os, e);
		if (!err) {
			if (!ds->is_snapshot) {
				dsl_limits_load(ds);
				objset_set_writable(os, &dsl_objset_ops, l);
			}
			dsl_objset_attach(l, os);
		}
	}
	if (!err)
		*out = objset_hold(l->os);
	pthread_mutex_unlock(&l->open);
	if (detached)
		dsl_dataset_release(ds);
	return err;
}

int dsl_dataset_open_objset(struct dsl_dataset *ds, struct objset **out, struct err *e)
{
	DSL_SHARED(ds->pool);

	return ds->pool->write ? live_open(ds, false, out, e) : objset_load(ds, false, out, e);
}

int dsl_dataset_open_raw(struct dsl_dataset *head, struct objset **out, struct err *e)
{
	DSL_SHARED(head->pool);

	return head->pool->write ? live_open(head, true, out, e) : objset_load(head, true, out, e);
}

void dsl_dataset_close_objset(struct dsl_dataset *ds, struct objset *os)
{
	struct live_dataset *l;
	bool detached = false;

	objset_release(os);
	if (!ds->pool->write)
		return;
	l = dsl_live(ds);
	if (pthread_mutex_trylock(&l->open) == 0) {
		detached = objset_detach(l);
		pthread_mutex_unlock(&l->open);
	}
	if (detached)
		dsl_dataset_release(ds);
}

bool dsl_dataset_is_busy(struct dsl_dataset *ds)
{
	struct live_dataset *l = dsl_live(ds);
	struct dsl_write *w = ds->pool->write;
	bool busy;

	pthread_mutex_lock(&l->open);
	pthread_mutex_lock(&w->lock);
	busy = l->os && atomic_load(&l->os->refs) > 1 + dirty_groups_locked(l);
	pthread_mutex_unlock(&w->lock);
	pthread_mutex_unlock(&l->open);
	return busy;
}

/* Read-ahead holds a set a little longer than whoever asked for it. */
void dsl_dataset_settle(struct dsl_dataset *ds)
{
	for (unsigned i = 0; i < SETTLE_TRIES && dsl_dataset_is_busy(ds); i++)
		nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
}

bool dsl_dataset_is_dirty_after(struct dsl_dataset *ds, uint64_t txg)
{
	struct live_dataset *l = dsl_live(ds);
	struct dsl_write *w = ds->pool->write;
	unsigned n;

	SCOPED_LOCK(&w->lock);
	n = dirty_groups_locked(l);
	return n > (list_node_is_linked(&l->dirty[txg & TXG_MASK]) ? 1 : 0);
}

/* References on all data sets with an open objset. */
static size_t opened_collect(struct dsl_write *w, struct dsl_dataset ***out)
{
	size_t n = 0;

	SCOPED_LOCK(&w->lock);
	*out = xcalloc(w->opened.len + 1, sizeof(**out));
	list_for_each(&w->opened, node) {
		struct live_dataset *l = container_of(node, struct live_dataset, opened);

		if (atomic_load(&l->os->refs) == 1)
			(*out)[n++] = dsl_dataset_ref(l->ds);
	}
	return n;
}

void dsl_objsets_trim(struct dsl_pool *p)
{
	autofree struct dsl_dataset **ds = NULL;
	size_t n = p->write ? opened_collect(p->write, &ds) : 0;

	for (size_t i = 0; i < n; i++) {
		struct live_dataset *l = dsl_live(ds[i]);
		bool detached = false;

		if (pthread_mutex_trylock(&l->open) == 0) {
			detached = objset_detach(l);
			pthread_mutex_unlock(&l->open);
		}
		if (detached)
			dsl_dataset_release(ds[i]);
		dsl_dataset_release(ds[i]);
	}
}

/* --- contents that are given up --- */

/* Written in this group, and not needed any more once that is on the devices. */
struct retired_objset {
	struct list_node node;
	struct objset *os;
};

static struct objset *dirty_take(struct live_dataset *l, uint64_t txg)
{
	struct dsl_write *w = l->ds->pool->write;
	unsigned slot = txg & TXG_MASK;
	struct objset *os = l->dirty_os[slot];

	SCOPED_LOCK(&w->lock);
	if (!list_node_is_linked(&l->dirty[slot]))
		return NULL;
	list_remove(&w->dirty[slot], &l->dirty[slot]);
	l->dirty_os[slot] = NULL;
	return os;
}

void dsl_objset_forget(struct dsl_dataset *ds, struct tx *tx)
{
	struct live_dataset *l = dsl_live(ds);
	struct objset *os = dirty_take(l, tx->txg);
	struct retired_objset *r;
	bool detached;

	if (os) {
		r = xcalloc(1, sizeof(*r));
		r->os = os;
		list_append(&ds->pool->write->retired, &r->node);
		dsl_dataset_release(ds);
	}
	pthread_mutex_lock(&l->open);
	detached = l->os != NULL;
	if (detached) {
		SCOPED_LOCK(&ds->pool->write->lock);
		list_remove(&ds->pool->write->opened, &l->opened);
		os = l->os;
		l->os = NULL;
	}
	pthread_mutex_unlock(&l->open);
	if (!detached)
		return;
	objset_release(os);
	dsl_dataset_release(ds);
}

void dsl_retired_end(struct dsl_pool *p, uint64_t txg)
{
	struct list_node *n;

	while ((n = list_pop(&p->write->retired))) {
		struct retired_objset *r = container_of(n, struct retired_objset, node);

		if (objset_is_dirty(r->os, txg))
			objset_abandon(r->os);
		else
			objset_sync_done(r->os, txg);
		objset_release(r->os);
		free(r);
	}
}

void dsl_log_header_clear(struct dsl_dataset *head, struct tx *tx)
{
	static const uint8_t empty[192];
	struct objset *os;

	if (bp_is_hole(&head->bp) ||
	    dsl_sync_check(head->pool, dsl_dataset_open_raw(head, &os, NULL), "an object set cannot be read"))
		return;
	if (memcmp(os->zil_header, empty, sizeof(empty)) != 0)
		objset_set_zil_header(os, empty, tx);
	objset_release(os);
}

/* --- types --- */

/* File system or volume, by the header; encrypted or not. */
static int objset_type_of(struct dsl_dataset *ds, unsigned *type)
{
	struct objset *os;
	int err = dsl_dataset_open_raw(ds, &os, NULL);

	if (err)
		return err;
	*type = os->type == OBJSET_ZFS ? DSL_FILESYSTEM : os->type == OBJSET_ZVOL ? DSL_VOLUME : 0;
	dsl_dataset_close_objset(ds, os);
	return *type ? 0 : -EINVAL;
}

/* All data sets of a dir are of one type, so the head (or whoever can be read) answers for all. */
int dsl_dataset_type(struct dsl_dataset *ds, unsigned *type)
{
	DSL_SHARED(ds->pool);
	unsigned t = ds->dir->type;
	struct dsl_dataset *head;
	int err = 0;

	if (!t && ds->is_snapshot && dsl_dataset_hold_obj(ds->pool, ds->dir->head, &head, NULL) == 0) {
		if (objset_type_of(head, &t))
			t = 0;
		dsl_dataset_release(head);
	}
	if (!t)
		err = objset_type_of(ds, &t);
	if (err)
		return err;
	ds->dir->type = t;
	*type = t | (ds->is_snapshot ? DSL_SNAPSHOT : 0);
	return 0;
}
