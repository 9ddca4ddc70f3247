/* Object sets: the header block (02, section 7). */
#include "base/sync.h"
#include "dmu/dbuf.h"
#include "zio/zio_crypt.h"

#define OBJSET_SIZE_MIN  1024u
#define OBJSET_ZIL       512u
#define OBJSET_ZIL_SIZE  192u
#define OBJSET_TYPE      704u
#define OBJSET_FLAGS     712u
#define OBJSET_USERUSED  1024u
#define OBJSET_GROUPUSED 1536u
#define OBJSET_PROJUSED  2048u
#define OBJSET_TYPES     6u
#define META_INDBLKSHIFT 17u
#define META_LEVELS      6u

/* A special dnode; type 0 or beyond the end: there is none. */
static int special_decode(struct objset *os, uint64_t object, const struct buf *buf, size_t at, struct dnode **out)
{
	*out = NULL;
	if (buf->size < at + DNODE_SIZE || buf->data[at] == 0)
		return 0;
	return dnode_decode_os(os, object, buf->data + at, DNODE_SIZE, os->swapped, out);
}

static int meta_decode(struct objset *os, const struct buf *buf)
{
	int err = dnode_decode_os(os, 0, buf->data, DNODE_SIZE, os->swapped, &os->meta);

	if (err)
		return err;
	if (os->meta->type != DMU_OT_DNODE || os->meta->datablksz != DNODE_BLOCK)
		return -EINVAL;
	return 0;
}

static int objset_decode(struct objset *os, const struct buf *buf)
{
	uint64_t type;
	int err;

	if (buf->size < OBJSET_SIZE_MIN)
		return -EINVAL;
	os->header_size = buf->size;
	type = load64(buf->data + OBJSET_TYPE, os->swapped);
	if (type >= OBJSET_TYPES)
		return -EINVAL;
	os->type = (enum objset_type)type;
	os->flags = load64(buf->data + OBJSET_FLAGS, os->swapped);
	memcpy(os->zil_header, buf->data + OBJSET_ZIL, OBJSET_ZIL_SIZE);
	err = meta_decode(os, buf);
	if (!err)
		err = special_decode(os, DMU_OBJECT_USERUSED, buf, OBJSET_USERUSED, &os->userused);
	if (!err)
		err = special_decode(os, DMU_OBJECT_GROUPUSED, buf, OBJSET_GROUPUSED, &os->groupused);
	if (!err)
		err = special_decode(os, DMU_OBJECT_PROJECTUSED, buf, OBJSET_PROJUSED, &os->projectused);
	return err;
}

static int objset_load(struct objset *os)
{
	struct zbookmark zb = {os->id, 0, -1, 0};
	autobuf struct buf *buf = NULL;
	int err;

	if (bp_type(&os->rootbp) != DMU_OT_OBJSET || bp_level(&os->rootbp) != 0)
		return -EINVAL;
	err = arc_read_wait(os->dp->arc, os->dp->zp, &os->rootbp, &zb, NULL, 0, &buf);
	if (!err && os->encrypted && os->key)
		err = zio_crypt_check_objset(os->key, &os->rootbp, buf->data, buf->size);
	return err ? err : objset_decode(os, buf);
}

int objset_open(struct dmu_pool *dp, uint64_t id, const struct bp *rootbp, struct crypt_key *key, struct objset **out,
		struct err *e)
{
	struct objset *os;
	int err;

	*out = NULL;
	if (bp_is_hole(rootbp))
		return err_set(e, -ENOENT, "object set %llu was never written", (unsigned long long)id);
	os = xcalloc(1, sizeof(*os));
	atomic_init(&os->refs, 1);
	os->dp = dp;
	os->id = id;
	os->key = key ? crypt_key_hold(key) : NULL;
	os->rootbp = *rootbp;
	os->encrypted = bp_uses_crypt(rootbp);
	os->swapped = bp_is_swapped(rootbp);
	os->cache_data = true;
	os->cache_metadata = true;
	os->cache = dnode_cache_create();
	err = objset_load(os);
	if (err) {
		objset_release(os);
		return err_set(e, err, "header of object set %llu: %s", (unsigned long long)id,
			       err == -EINVAL ? "damaged" : err_words(err));
	}
	*out = os;
	return 0;
}

/* --- sets that are written --- */

struct objset_unsynced *objset_unsynced_create(bool is_new)
{
	struct objset_unsynced *u = xcalloc(1, sizeof(*u));

	pthread_mutex_init(&u->lock, NULL);
	for (unsigned i = 0; i < TXG_SIZE; i++)
		list_init(&u->group[i].dnodes);
	u->alloc = object_alloc_create(is_new);
	accounting_init(&u->account);
	return u;
}

void objset_unsynced_destroy(struct objset_unsynced *u)
{
	if (!u)
		return;
	object_alloc_destroy(u->alloc);
	accounting_clear(&u->account);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

void objset_set_writable(struct objset *os, const struct objset_ops *ops, void *ops_arg)
{
	os->dirty = objset_unsynced_create(false);
	/* From now on the header is ours. */
	if (os->swapped)
		swap64_buffer(os->zil_header, sizeof(os->zil_header));
	os->swapped = false;
	os->ops_arg = ops_arg;
	os->ops = ops;
}

/* The meta-dnode of an empty set (02, 6.5). */
static struct dnode *meta_create(struct objset *os)
{
	struct dnode *dn = dnode_create_free(os, 0, 1, 3, META_INDBLKSHIFT);

	dn->type = DMU_OT_DNODE;
	dn->datablksz = DNODE_BLOCK;
	dn->nlevels = os->type == OBJSET_META ? 1 : META_LEVELS;
	return dn;
}

int objset_create(struct dmu_pool *dp, uint64_t id, enum objset_type type, const struct objset_ops *ops, void *ops_arg,
		  struct crypt_key *key, struct tx *tx, struct objset **out)
{
	struct objset *os = xcalloc(1, sizeof(*os));

	atomic_init(&os->refs, 1);
	os->dp = dp;
	os->id = id;
	os->type = type;
	os->key = key ? crypt_key_hold(key) : NULL;
	os->encrypted = key != NULL;
	os->cache_data = true;
	os->cache_metadata = true;
	os->cache = dnode_cache_create();
	os->meta = meta_create(os);
	os->dirty = objset_unsynced_create(true);
	os->ops_arg = ops_arg;
	os->ops = ops;
	objset_dirty(os, tx);
	*out = os;
	return 0;
}

/* --- what is dirty --- */

static struct objset_group *group_get_locked(struct objset_unsynced *u, uint64_t txg)
{
	struct objset_group *g = &u->group[txg & TXG_MASK];

	if (g->txg != txg) {
		BUG_ON(g->header || g->meta || g->dnodes.len > 0);
		g->txg = txg;
		g->told = false;
	}
	return g;
}

void objset_note_dirty(struct objset *os, struct dnode_group *dg, uint64_t txg)
{
	struct objset_unsynced *u = os->dirty;

	SCOPED_LOCK(&u->lock);
	if (dnode_of_group(dg, txg) == os->meta)
		group_get_locked(u, txg)->meta = true;
	else
		list_append(&group_get_locked(u, txg)->dnodes, &dg->node);
}

void objset_tell_dirty(struct objset *os, uint64_t txg)
{
	struct objset_unsynced *u = os->dirty;
	struct objset_group *g;
	bool told;

	/* Who finds it told by another transaction of the group need not wait for the call: that one is not over. */
	pthread_mutex_lock(&u->lock);
	g = group_get_locked(u, txg);
	told = g->told;
	g->told = true;
	pthread_mutex_unlock(&u->lock);
	if (!told && os->ops->dirtied)
		os->ops->dirtied(os, txg);
}

bool objset_is_dirty(struct objset *os, uint64_t txg)
{
	struct objset_unsynced *u = os->dirty;
	struct objset_group *g;

	if (!u)
		return false;
	SCOPED_LOCK(&u->lock);
	g = &u->group[txg & TXG_MASK];
	return g->txg == txg && (g->header || g->meta || g->dnodes.len > 0);
}

void objset_dirty(struct objset *os, struct tx *tx)
{
	pthread_mutex_lock(&os->dirty->lock);
	group_get_locked(os->dirty, tx->txg)->header = true;
	pthread_mutex_unlock(&os->dirty->lock);
	objset_tell_dirty(os, tx->txg);
}

void objset_set_zil_header(struct objset *os, const uint8_t header[192], struct tx *tx)
{
	memcpy(os->zil_header, header, OBJSET_ZIL_SIZE);
	objset_dirty(os, tx);
}

void objset_set_flags(struct objset *os, uint64_t flags, struct tx *tx)
{
	os->flags = flags;
	objset_dirty(os, tx);
}

struct dnode *objset_pop_dirty(struct objset *os, uint64_t txg)
{
	struct objset_unsynced *u = os->dirty;
	struct objset_group *g = &u->group[txg & TXG_MASK];
	struct list_node *n = NULL;

	SCOPED_LOCK(&u->lock);
	if (g->txg == txg)
		n = list_pop(&g->dnodes);
	return n ? dnode_of_group(container_of(n, struct dnode_group, node), txg) : NULL;
}

struct dnode *objset_take_meta(struct objset *os, uint64_t txg)
{
	struct objset_unsynced *u = os->dirty;
	struct objset_group *g = &u->group[txg & TXG_MASK];
	bool dirty;

	SCOPED_LOCK(&u->lock);
	dirty = g->txg == txg && g->meta;
	g->meta = g->meta && !dirty;
	return dirty ? os->meta : NULL;
}

void objset_abandon(struct objset *os)
{
	struct objset_unsynced *u = os->dirty;

	for (unsigned i = 0; u && i < TXG_SIZE; i++) {
		uint64_t txg = u->group[i].txg;
		struct dnode *dn;

		while ((dn = objset_pop_dirty(os, txg)) || (dn = objset_take_meta(os, txg))) {
			dnode_group_end(dn, txg);
			dnode_release(dn);
		}
		u->group[i].header = false;
	}
}

struct objset *objset_hold(struct objset *os)
{
	atomic_fetch_add_explicit(&os->refs, 1, memory_order_relaxed);
	return os;
}

void objset_release(struct objset *os)
{
	if (!os || atomic_fetch_sub_explicit(&os->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (os->user_free)
		os->user_free(os->user);
	dnode_cache_destroy(os->cache);
	dnode_release(os->userused);
	dnode_release(os->groupused);
	dnode_release(os->projectused);
	dnode_release(os->meta);
	objset_unsynced_destroy(os->dirty);
	if (os->key)
		crypt_key_release(os->key);
	free(os);
}
