/*
 * dsl/dsl_live.c: objects of dirs and data sets while they change (03-datasets.md 1.2 - 1.6): storing fields, making
 * and freeing objects, extension ZAPs, per-dataset features; the open deadlists of the pool.
 */
#include <time.h>

#include "base/log.h"
#include "base/os.h"
#include "base/str.h"
#include "dsl/dsl_write_impl.h"

#define DIR_BONUS      256
#define DATASET_BONUS  320
#define FSID_MASK      ((UINT64_C(1) << 56) - 1)
#define TXG_INITIAL    4
#define SNAP_NORMFLAGS 2 /* to upper case */
#define VERSION_FREE   26
#define VERSION_ORIGIN 11

#define FEATURE_EXTENSIBLE "com.delphix:extensible_dataset"
#define FEATURE_REDACTED   "com.delphix:redacted_datasets"
#define FEATURE_LIMITS     "com.joyent:filesystem_limits"

struct open_deadlist {
	struct open_deadlist *next;
	uint64_t object;
	struct dsl_deadlist *dl;
};

/* --- the state of a pool --- */

struct dsl_write *dsl_write_create(void)
{
	struct dsl_write *w = xcalloc(1, sizeof(*w));

	config_lock_init(&w->config);
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->space, NULL);
	pthread_cond_init(&w->task_done, NULL);
	for (unsigned i = 0; i < TXG_SIZE; i++) {
		list_init(&w->dirty[i]);
		list_init(&w->tasks[i]);
	}
	list_init(&w->opened);
	list_init(&w->retired);
	rangetree_init(&w->bad_trees);
	return w;
}

void dsl_write_destroy(struct dsl_pool *p)
{
	struct dsl_write *w = p->write;

	if (!w)
		return;
	taskq_destroy(w->taskq);
	while (w->deadlists) {
		struct open_deadlist *o = w->deadlists;

		w->deadlists = o->next;
		dsl_deadlist_close(o->dl);
		free(o);
	}
	bpobj_close(w->free_bpobj);
	rangetree_clear(&w->bad_trees);
	config_lock_fini(&w->config);
	pthread_cond_destroy(&w->task_done);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->space);
	free(w);
	p->write = NULL;
}

bool dsl_feature_enabled(struct dsl_pool *p, const char *guid)
{
	return p->write && p->write->ops && p->write->ops->feature_enabled(p->write->arg, guid);
}

uint64_t dsl_feature_refs(struct dsl_pool *p, const char *guid)
{
	return p->write && p->write->ops ? p->write->ops->feature_refs(p->write->arg, guid) : 0;
}

void dsl_feature_count(struct dsl_pool *p, const char *guid, int64_t delta, struct tx *tx)
{
	if (p->write->ops)
		p->write->ops->feature_count(p->write->arg, guid, delta, tx);
}

void dsl_history(struct dsl_pool *p, const char *name, const struct dsl_dataset *ds, struct tx *tx, const char *fmt,
		 ...)
{
	char text[1024];
	va_list ap;

	if (!p->write->ops || !p->write->ops->history)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	p->write->ops->history(p->write->arg, name, ds, tx, text);
}

int dsl_sync_check(struct dsl_pool *p, int err, const char *what)
{
	if (err && !p->write->failed) {
		p->write->failed = err;
		log_error("%s: %s: %s; nothing more can be written to the pool", p->name, what, err_words(err));
	}
	return err;
}

uint64_t dsl_time(void)
{
	return (uint64_t)time(NULL);
}

/* --- objects of the MOS --- */

uint64_t dsl_mos_object(struct dsl_pool *p, uint8_t type, uint32_t blocksize, uint8_t bonustype, uint16_t bonuslen,
			struct tx *tx)
{
	struct dmu_object spec = {.type = type, .blocksize = blocksize, .bonustype = bonustype, .bonuslen = bonuslen};
	uint64_t object = 0;

	dsl_sync_check(p, dmu_object_alloc(p->mos, &spec, tx, &object), "an object cannot be made");
	return object;
}

uint64_t dsl_mos_zap(struct dsl_pool *p, uint8_t type, struct tx *tx)
{
	struct zap_spec spec = {.type = type, .normflags = type == DMU_OT_DSL_DS_SNAP_MAP ? SNAP_NORMFLAGS : 0};
	uint64_t object = 0;

	dsl_sync_check(p, zap_create(p->mos, &spec, tx, &object), "a ZAP cannot be made");
	return object;
}

void dsl_mos_free(struct dsl_pool *p, uint64_t object, struct tx *tx)
{
	if (object)
		dsl_sync_check(p, dmu_object_free(p->mos, object, tx), "an object cannot be freed");
}

void dsl_set_add(struct dsl_pool *p, uint64_t *zap, uint8_t type, uint64_t v, struct tx *tx)
{
	if (*zap == 0)
		*zap = dsl_mos_zap(p, type, tx);
	dsl_sync_check(p, zap_add_int(p->mos, *zap, v, v, tx), "a list of clones cannot be changed");
}

void dsl_set_remove(struct dsl_pool *p, uint64_t zap, uint64_t v, struct tx *tx)
{
	int err = zap ? zap_remove_int(p->mos, zap, v, tx) : 0;

	if (err != -ENOENT) /* clones that were made before the pool's version kept lists are in none */
		dsl_sync_check(p, err, "a list of clones cannot be changed");
}

/* --- fields --- */

static void bonus_store(struct dnode *dn, const uint64_t *words, size_t size, struct tx *tx, struct dsl_pool *p)
{
	size_t len = MIN(size, dn->bonuslen), used = size;

	/* Old pools have shorter ones; they grow when there is something to be put behind their end. */
	while (used > len && words[used / 8 - 1] == 0)
		used -= 8;
	if (used > len && !dsl_sync_check(p, dmu_bonus_set_size(dn, size, tx), "a data set cannot be changed"))
		len = size;
	dsl_sync_check(p, dmu_bonus_write(dn, 0, words, len, tx), "a data set cannot be changed");
}

void dsl_dir_store(struct dsl_dir *d, struct tx *tx)
{
	uint64_t w[DIR_BONUS / 8] = {d->creation, d->head,       d->parent,       d->origin, d->child_map,
				     d->used,     d->compressed, d->uncompressed, d->quota,  d->reserved,
				     d->props,    d->deleg,      d->flags};

	memcpy(&w[13], d->used_breakdown, sizeof(d->used_breakdown));
	w[18] = d->clones;
	bonus_store(d->dnode, w, sizeof(w), tx, d->pool);
}

void dsl_dataset_store(struct dsl_dataset *ds, struct tx *tx)
{
	uint64_t w[DATASET_BONUS / 8] = {ds->dir_object, ds->prev_snap,    ds->prev_snap_txg, ds->next_snap,
					 ds->snap_names, ds->num_children, ds->creation_time, ds->creation_txg,
					 ds->deadlist,   ds->used,         ds->compressed,    ds->uncompressed,
					 ds->unique,     ds->fsid_guid,    ds->guid,          ds->flags};

	memcpy(&w[16], &ds->bp, sizeof(ds->bp));
	w[32] = ds->next_clones;
	w[33] = ds->props;
	w[34] = ds->userrefs;
	bonus_store(ds->dnode, w, sizeof(w), tx, ds->pool);
}

/* --- extension ZAPs --- */

static void object_extend(struct dsl_pool *p, uint64_t object, bool *zapified, struct tx *tx)
{
	if (*zapified)
		return;
	if (!dsl_sync_check(p, zap_create_over(p->mos, object, tx), "a data set cannot be extended"))
		dsl_feature_count(p, FEATURE_EXTENSIBLE, 1, tx);
	*zapified = true;
}

void dsl_dir_extend(struct dsl_dir *d, struct tx *tx)
{
	object_extend(d->pool, d->object, &d->zapified, tx);
}

void dsl_dataset_extend(struct dsl_dataset *ds, struct tx *tx)
{
	object_extend(ds->pool, ds->object, &ds->zapified, tx);
}

void dsl_extended_free(struct dsl_pool *p, uint64_t object, bool zapified, struct tx *tx)
{
	dsl_mos_free(p, object, tx);
	if (zapified)
		dsl_feature_count(p, FEATURE_EXTENSIBLE, -1, tx);
}

/* --- per-dataset features --- */

const struct dsl_ds_feature dsl_ds_features[] = {
    {"org.open-zfs:large_blocks"},
    {"org.zfsonlinux:large_dnode"},
    {"org.illumos:sha512"},
    {"org.illumos:skein"},
    {"org.illumos:edonr"},
    {"org.openzfs:blake3"},
    {"org.freebsd:zstd_compress"},
    {"org.zfsonlinux:userobj_accounting"},
    {"org.zfsonlinux:project_quota"},
    {"org.openzfs:zilsaxattr"},
    {"org.zfsonlinux:longname"},
    {"com.klarasystems:large_microzap"},
    {"com.truenas:physical_rewrite"},
    {"com.datto:encryption"},
    {FEATURE_REDACTED},
};
const unsigned dsl_ds_features_len = ARRAY_LEN(dsl_ds_features);

int dsl_ds_feature_bit(const char *guid)
{
	for (unsigned i = 0; i < dsl_ds_features_len; i++)
		if (strcmp(dsl_ds_features[i].guid, guid) == 0)
			return (int)i;
	return -1;
}

bool dsl_dataset_feature_has(const struct dsl_dataset *ds, const char *guid)
{
	unsigned intsize;
	size_t n;

	return ds->zapified && zap_length(ds->pool->mos, ds->object, guid, &intsize, &n) == 0;
}

uint64_t dsl_dataset_features(struct dsl_dataset *ds)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < dsl_ds_features_len; i++)
		if (dsl_dataset_feature_has(ds, dsl_ds_features[i].guid))
			bits |= UINT64_C(1) << i;
	return bits;
}

/* What a live struct knows of its features by heart is read again. */
static void features_changed(struct dsl_dataset *ds)
{
	if (dataset_node_of(ds)->live)
		dataset_node_of(ds)->live->features_read = false;
}

static void feature_put(struct dsl_dataset *ds, const char *guid, const uint64_t *words, size_t n, struct tx *tx)
{
	if (dsl_dataset_feature_has(ds, guid))
		return;
	dsl_dataset_extend(ds, tx);
	if (!dsl_sync_check(ds->pool, zap_add(ds->pool->mos, ds->object, guid, 8, n, words, tx),
			    "a feature of a data set cannot be noted"))
		dsl_feature_count(ds->pool, guid, 1, tx);
	features_changed(ds);
}

void dsl_dataset_feature_set(struct dsl_dataset *ds, const char *guid, struct tx *tx)
{
	static const uint64_t zero;

	feature_put(ds, guid, &zero, 1, tx);
}

void dsl_dataset_feature_clear(struct dsl_dataset *ds, const char *guid, struct tx *tx)
{
	if (!dsl_dataset_feature_has(ds, guid))
		return;
	if (!dsl_sync_check(ds->pool, zap_remove(ds->pool->mos, ds->object, guid, tx),
			    "a feature of a data set cannot be taken off"))
		dsl_feature_count(ds->pool, guid, -1, tx);
	features_changed(ds);
}

void dsl_dataset_features_clear(struct dsl_dataset *ds, struct tx *tx)
{
	for (unsigned i = 0; ds->zapified && i < dsl_ds_features_len; i++)
		dsl_dataset_feature_clear(ds, dsl_ds_features[i].guid, tx);
}

static void redaction_copy(const struct dsl_dataset *from, struct dsl_dataset *to, struct tx *tx)
{
	autofree uint64_t *words = NULL;
	unsigned intsize;
	size_t n;
	int err = zap_length(from->pool->mos, from->object, FEATURE_REDACTED, &intsize, &n);

	if (!err && (intsize != 8 || n > UINT32_MAX))
		err = -EINVAL;
	if (!err) {
		words = xcalloc(n + 1, sizeof(*words));
		err = zap_lookup(from->pool->mos, from->object, FEATURE_REDACTED, 8, n, words);
	}
	if (!dsl_sync_check(from->pool, err, "the redaction of a data set cannot be read"))
		feature_put(to, FEATURE_REDACTED, words, n, tx);
}

void dsl_dataset_features_copy(const struct dsl_dataset *from, struct dsl_dataset *to, struct tx *tx)
{
	for (unsigned i = 0; from->zapified && i < dsl_ds_features_len; i++) {
		const char *guid = dsl_ds_features[i].guid;

		if (!dsl_dataset_feature_has(from, guid))
			continue;
		if (strcmp(guid, FEATURE_REDACTED) == 0)
			redaction_copy(from, to, tx);
		else
			dsl_dataset_feature_set(to, guid, tx);
	}
}

void dsl_dataset_feature_move(struct dsl_dataset *from, struct dsl_dataset *to, const char *guid, struct tx *tx)
{
	if (strcmp(guid, FEATURE_REDACTED) == 0)
		redaction_copy(from, to, tx);
	else
		dsl_dataset_feature_set(to, guid, tx);
	dsl_dataset_feature_clear(from, guid, tx);
}

/* --- live structs --- */

struct live_dataset *dsl_live(struct dsl_dataset *ds)
{
	struct dataset_node *n = dataset_node_of(ds);
	struct dsl_write *w = ds->pool->write;

	SCOPED_LOCK(&w->lock);
	if (!n->live) {
		n->live = xcalloc(1, sizeof(*n->live));
		n->live->ds = ds;
		pthread_mutex_init(&n->live->open, NULL);
		pthread_mutex_init(&n->live->lock, NULL);
	}
	return n->live;
}

void live_dataset_destroy(struct live_dataset *l)
{
	if (!l)
		return;
	BUG_ON(l->os);
	gather_clear(&l->gather);
	dsl_fbn_free(l->fbn);
	pthread_mutex_destroy(&l->open);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

void dsl_dataset_bookmarks_changed(struct dsl_dataset *head)
{
	struct live_dataset *l = dsl_live(head);

	SCOPED_LOCK(&l->lock);
	dsl_fbn_free(l->fbn);
	l->fbn = NULL;
	l->fbn_read = false;
}

void dsl_dir_props_changed(struct dsl_dir *d)
{
	struct dsl_cache *c = d->pool->cache;
	struct prop_set *old;

	pthread_mutex_lock(&c->lazy);
	old = d->own_props;
	d->own_props = NULL;
	pthread_mutex_unlock(&c->lazy);
	prop_set_free(old);
}

void dsl_dir_forget(struct dsl_dir *d)
{
	obj_cache_forget(&d->pool->cache->dirs, &dir_node_of(d)->node);
}

void dsl_dataset_forget(struct dsl_dataset *ds)
{
	obj_cache_forget(&ds->pool->cache->datasets, &dataset_node_of(ds)->node);
}

/* --- the open deadlists --- */

static void deadlist_close(struct dsl_pool *p, struct open_deadlist **at)
{
	struct open_deadlist *o = *at;

	*at = o->next;
	p->write->ndeadlists--;
	dsl_sync_check(p, dsl_deadlist_flush(o->dl, p->write->tx), "a deadlist cannot be written");
	dsl_deadlist_close(o->dl);
	free(o);
}

struct dsl_deadlist *deadlist_get(struct dsl_pool *p, uint64_t object)
{
	struct dsl_write *w = p->write;
	struct open_deadlist **at = &w->deadlists, *o;
	struct dsl_deadlist *dl = NULL;

	while (*at && (*at)->object != object)
		at = &(*at)->next;
	o = *at;
	if (o) {
		*at = o->next;
	} else {
		if (dsl_sync_check(p, dsl_deadlist_open(p, object, &dl), "a deadlist cannot be read"))
			return NULL;
		o = xcalloc(1, sizeof(*o));
		o->object = object;
		o->dl = dl;
		w->ndeadlists++;
	}
	o->next = w->deadlists;
	w->deadlists = o;
	return o->dl;
}

void deadlist_drop(struct dsl_pool *p, uint64_t object)
{
	for (struct open_deadlist **at = &p->write->deadlists; *at; at = &(*at)->next) {
		if ((*at)->object == object) {
			deadlist_close(p, at);
			return;
		}
	}
}

int dsl_list_range(struct dsl_pool *p, uint64_t deadlist, uint64_t min_txg, uint64_t max_txg, struct dsl_space *out)
{
	*out = (struct dsl_space){0};
	if (dsl_config_is_held_alone(p))
		for (struct open_deadlist *o = p->write->deadlists; o; o = o->next)
			if (o->object == deadlist)
				return dsl_deadlist_sums_range(o->dl, min_txg, max_txg, out);
	return dsl_deadlist_space_range(p, deadlist, min_txg, max_txg, out);
}

int dsl_dataset_deadlist(struct dsl_dataset *ds, struct dsl_deadlist **out)
{
	*out = deadlist_get(ds->pool, ds->deadlist);
	return *out ? 0 : ds->pool->write->failed;
}

void dsl_dataset_deadlist_drop(struct dsl_dataset *ds, struct tx *tx)
{
	deadlist_drop(ds->pool, ds->deadlist);
}

struct bpobj *free_bpobj_get(struct dsl_pool *p)
{
	struct dsl_write *w = p->write;
	uint64_t object;
	int err;

	if (!w->free_bpobj) {
		err = zap_lookup_u64(p->mos, MOS_DIRECTORY, "free_bpobj", &object);
		if (!err)
			err = bpobj_open(p->mos, object, &w->free_bpobj);
		if (dsl_sync_check(p, err, "the list of blocks to be freed cannot be read"))
			w->free_bpobj = NULL;
	}
	return w->free_bpobj;
}

void dsl_lists_flush(struct dsl_pool *p, struct tx *tx)
{
	struct dsl_write *w = p->write;
	struct open_deadlist **at = &w->deadlists;

	for (unsigned i = 0; *at && i < DEADLISTS_KEPT; i++, at = &(*at)->next)
		dsl_sync_check(p, dsl_deadlist_flush((*at)->dl, tx), "a deadlist cannot be written");
	while (*at)
		deadlist_close(p, at);
	if (w->free_bpobj)
		dsl_sync_check(p, bpobj_flush(w->free_bpobj, tx), "the list of blocks to be freed cannot be written");
}

/* --- making dirs and data sets --- */

static int dir_bonus_init(struct dsl_pool *p, uint64_t object, const struct dsl_dir *up, struct tx *tx)
{
	uint64_t w[DIR_BONUS / 8] = {[0] = dsl_time(), [2] = up ? up->object : 0, [12] = 1};
	struct dnode *dn;
	int err = dnode_hold(p->mos, object, &dn, NULL);

	if (err)
		return err;
	w[10] = dsl_mos_zap(p, DMU_OT_DSL_PROPS, tx);
	w[4] = dsl_mos_zap(p, DMU_OT_DSL_DIR_CHILD_MAP, tx);
	err = dmu_bonus_write(dn, 0, w, sizeof(w), tx);
	dnode_release(dn);
	return err;
}

void dsl_dir_create_sync(struct dsl_pool *p, struct dsl_dir *up, const char *name, struct tx *tx, struct dsl_dir **out)
{
	uint64_t object = dsl_mos_object(p, DMU_OT_DSL_DIR, 0, DMU_OT_DSL_DIR, DIR_BONUS, tx);
	int err;

	*out = NULL;
	if (!object)
		return;
	err = zap_add_u64(p->mos, up ? up->child_map : MOS_DIRECTORY, up ? name : "root_dataset", object, tx);
	if (!err)
		err = dir_bonus_init(p, object, up, tx);
	if (!up)
		p->root_dir = object;
	if (!err)
		err = up ? dsl_dir_hold_named(up, object, name, out, NULL) : dsl_dir_hold(p, object, out, NULL);
	if (dsl_sync_check(p, err, "a data set directory cannot be made")) {
		*out = NULL;
		return;
	}
	if (name && name[0] != '$') {
		dsl_limits_adjust(up, false, 1, tx);
		if (dsl_feature_refs(p, FEATURE_LIMITS) > 0)
			dsl_limits_start(*out, tx);
	}
}

/* The deadlist of a data set made from `origin`: the keys of the head of the origin's dir. */
static uint64_t deadlist_for_clone(struct dsl_dataset *origin, struct tx *tx)
{
	struct dsl_pool *p = origin->pool;
	struct dsl_deadlist *dl;
	struct dsl_edit head;
	uint64_t object = 0;

	if (dsl_sync_check(p, dsl_edit_begin(p, origin->dir->head, &head), "the origin of a clone cannot be read"))
		return 0;
	dl = deadlist_get(p, head.ds->deadlist);
	if (dl)
		dsl_sync_check(p, dsl_deadlist_clone(dl, head.ds->prev_snap, origin->creation_txg, tx, &object),
			       "a deadlist cannot be made");
	dsl_edit_end(&head);
	return object;
}

static void origin_link(struct dsl_dir *d, struct dsl_dataset *origin, uint64_t object, struct tx *tx)
{
	struct dsl_pool *p = d->pool;

	origin->num_children++;
	if (p->version >= VERSION_ORIGIN)
		dsl_set_add(p, &origin->next_clones, DMU_OT_NEXT_CLONES, object, tx);
	dsl_dataset_store(origin, tx);
	d->origin = origin->object;
	if (p->version >= VERSION_FREE) {
		dsl_set_add(p, &origin->dir->clones, DMU_OT_DSL_CLONES, object, tx);
		dsl_dir_store(origin->dir, tx);
	}
}

static void dataset_fill(struct dsl_dataset *ds, struct dsl_dataset *origin, uint64_t flags, struct tx *tx)
{
	struct dsl_pool *p = ds->pool;

	ds->flags = flags | DSL_DS_UNIQUE_ACCURATE;
	ds->fsid_guid = os_random64() & FSID_MASK;
	ds->guid = os_random64();
	ds->snap_names = dsl_mos_zap(p, DMU_OT_DSL_DS_SNAP_MAP, tx);
	ds->creation_time = dsl_time();
	ds->creation_txg = tx->txg <= TXG_INITIAL ? 1 : tx->txg;
	if (!origin) {
		dsl_sync_check(p, dsl_deadlist_create(p, tx, &ds->deadlist), "a deadlist cannot be made");
		return;
	}
	ds->prev_snap = origin->object;
	ds->prev_snap_txg = origin->creation_txg;
	ds->used = origin->used;
	ds->compressed = origin->compressed;
	ds->uncompressed = origin->uncompressed;
	ds->bp = origin->bp;
	ds->flags |= origin->flags & (DSL_DS_INCONSISTENT | DSL_DS_CI);
	ds->deadlist = deadlist_for_clone(origin, tx);
}

/* The fields are filled in a private copy; the live one is decoded from what it stored. */
static uint64_t dataset_object_create(struct dsl_dir *d, struct dsl_dataset *origin, uint64_t flags, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	uint64_t object = dsl_mos_object(p, DMU_OT_DSL_DATASET, 0, DMU_OT_DSL_DATASET, DATASET_BONUS, tx);
	struct dsl_edit e;

	if (!object || dsl_sync_check(p, dsl_edit_begin(p, object, &e), "a data set cannot be made"))
		return 0;
	e.ds->dir_object = d->object;
	dataset_fill(e.ds, origin, flags, tx);
	dsl_dataset_store(e.ds, tx);
	dsl_edit_end(&e);
	return object;
}

void dsl_dataset_create_sync(struct dsl_dir *d, struct dsl_dataset *origin, uint64_t flags, struct tx *tx,
			     struct dsl_dataset **out)
{
	struct dsl_pool *p = d->pool;
	struct dsl_dataset *from = origin ? dsl_dataset_ref(origin) : NULL;
	uint64_t object;

	*out = NULL;
	if (!from && p->origin_snap &&
	    dsl_sync_check(p, dsl_dataset_hold_obj(p, p->origin_snap, &from, NULL), "$ORIGIN cannot be read"))
		return;
	object = dataset_object_create(d, from, flags, tx);
	if (object) {
		d->head = object;
		if (from)
			origin_link(d, from, object, tx);
		dsl_dir_store(d, tx);
		if (dsl_sync_check(p, dsl_dataset_hold_obj(p, object, out, NULL), "a data set cannot be made"))
			*out = NULL;
	}
	if (*out && from)
		dsl_dataset_features_copy(from, *out, tx);
	if (from)
		dsl_dataset_release(from);
}
