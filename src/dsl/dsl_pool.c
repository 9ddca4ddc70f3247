/*
 * dsl/dsl_pool.c: the roots of the data set tree, and the cache of decoded objects.
 */
#include "base/str.h"
#include "base/hash.h"
#include "base/log.h"
#include "dsl/dsl_crypt.h"
#include "dsl/dsl_write_impl.h"

#define DIRS_KEPT      1024
#define DATASETS_KEPT  256
#define BUCKETS_FEWEST 256

static size_t obj_cache_slot(const struct obj_cache *c, uint64_t object)
{
	return hash_mix(object, 0) & (c->nbuckets - 1);
}

static void obj_cache_init(struct obj_cache *c, size_t limit, void (*destroy)(struct obj_node *n))
{
	pthread_mutex_init(&c->lock, NULL);
	c->nbuckets = BUCKETS_FEWEST;
	c->bucket = xcalloc(c->nbuckets, sizeof(*c->bucket));
	c->len = 0;
	c->limit = limit;
	list_init(&c->unused);
	c->destroy = destroy;
}

static struct obj_node *obj_cache_find_locked(struct obj_cache *c, uint64_t object)
{
	struct obj_node *n = c->bucket[obj_cache_slot(c, object)];

	while (n && n->object != object)
		n = n->next;
	return n;
}

static void obj_cache_ref_locked(struct obj_cache *c, struct obj_node *n)
{
	if (list_node_is_linked(&n->unused))
		list_remove(&c->unused, &n->unused);
	(*n->refs)++;
}

static void obj_cache_unlink_locked(struct obj_cache *c, struct obj_node *n)
{
	struct obj_node **at = &c->bucket[obj_cache_slot(c, n->object)];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	c->len--;
}

static void obj_cache_grow_locked(struct obj_cache *c)
{
	struct obj_node **old = c->bucket;
	size_t n = c->nbuckets;

	if (c->len < n * 2)
		return;
	c->nbuckets = n * 4;
	c->bucket = xcalloc(c->nbuckets, sizeof(*c->bucket));
	for (size_t i = 0; i < n; i++) {
		while (old[i]) {
			struct obj_node *e = old[i];
			size_t slot = obj_cache_slot(c, e->object);

			old[i] = e->next;
			e->next = c->bucket[slot];
			c->bucket[slot] = e;
		}
	}
	free(old);
}

struct obj_node *obj_cache_get(struct obj_cache *c, uint64_t object)
{
	SCOPED_LOCK(&c->lock);
	struct obj_node *n = obj_cache_find_locked(c, object);

	if (n)
		obj_cache_ref_locked(c, n);
	return n;
}

struct obj_node *obj_cache_add(struct obj_cache *c, struct obj_node *n)
{
	struct obj_node *other;

	pthread_mutex_lock(&c->lock);
	other = obj_cache_find_locked(c, n->object);
	if (other) {
		obj_cache_ref_locked(c, other);
	} else {
		size_t slot = obj_cache_slot(c, n->object);

		n->next = c->bucket[slot];
		c->bucket[slot] = n;
		c->len++;
		obj_cache_grow_locked(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (!other)
		return n;
	c->destroy(n);
	return other;
}

void obj_cache_ref(struct obj_cache *c, struct obj_node *n)
{
	SCOPED_LOCK(&c->lock);
	obj_cache_ref_locked(c, n);
}

void obj_cache_release(struct obj_cache *c, struct obj_node *n)
{
	pthread_mutex_lock(&c->lock);
	BUG_ON(*n->refs == 0);
	if (--*n->refs == 0) {
		if (n->gone) {
			pthread_mutex_unlock(&c->lock);
			c->destroy(n);
			return;
		}
		list_append(&c->unused, &n->unused);
	}
	/* Destroying an entry releases its parent: that inner call leaves the trimming to this loop. */
	while (!c->trimming && c->unused.len > c->limit) {
		struct obj_node *victim = container_of(list_pop(&c->unused), struct obj_node, unused);

		obj_cache_unlink_locked(c, victim);
		c->trimming = true;
		pthread_mutex_unlock(&c->lock);
		c->destroy(victim);
		pthread_mutex_lock(&c->lock);
		c->trimming = false;
	}
	pthread_mutex_unlock(&c->lock);
}

void obj_cache_forget(struct obj_cache *c, struct obj_node *n)
{
	SCOPED_LOCK(&c->lock);

	BUG_ON(n->gone || *n->refs == 0);
	obj_cache_unlink_locked(c, n);
	n->gone = true;
}

void obj_cache_each(struct obj_cache *c, void (*fn)(void *arg, struct obj_node *n), void *arg)
{
	SCOPED_LOCK(&c->lock);

	for (size_t i = 0; i < c->nbuckets; i++)
		for (struct obj_node *n = c->bucket[i]; n; n = n->next)
			fn(arg, n);
}

/* Whatever is still held stays with its holders, who keep the pool open by contract. */
static void obj_cache_fini(struct obj_cache *c)
{
	struct list_node *l;

	c->trimming = true;
	while ((l = list_pop(&c->unused))) {
		struct obj_node *n = container_of(l, struct obj_node, unused);

		obj_cache_unlink_locked(c, n);
		c->destroy(n);
	}
	if (c->len)
		log_warn("pool closed with %zu data sets held", c->len);
	free(c->bucket);
	pthread_mutex_destroy(&c->lock);
}

/* The hidden dirs below the root; any of them may be absent, above all in old pools. */
static void dsl_pool_find_special(struct dsl_pool *p)
{
	struct dsl_dir *root = NULL, *origin = NULL;
	struct dsl_dataset *head = NULL;
	uint64_t object;

	if (dsl_dir_hold(p, p->root_dir, &root, NULL))
		return;
	if (zap_lookup_u64(p->mos, root->child_map, "$MOS", &p->mos_dir))
		p->mos_dir = 0;
	if (zap_lookup_u64(p->mos, root->child_map, "$FREE", &p->free_dir))
		p->free_dir = 0;
	if (zap_lookup_u64(p->mos, root->child_map, "$LEAK", &p->leak_dir))
		p->leak_dir = 0;
	if (zap_lookup_u64(p->mos, root->child_map, "$ORIGIN", &object) == 0 &&
	    dsl_dir_hold_named(root, object, "$ORIGIN", &origin, NULL) == 0 &&
	    dsl_dataset_hold_obj(p, origin->head, &head, NULL) == 0)
		p->origin_snap = head->prev_snap;
	if (head)
		dsl_dataset_release(head);
	if (origin)
		dsl_dir_release(origin);
	dsl_dir_release(root);
}

/* Without anything of a tree yet. */
static dsl_owner_fn pool_owner;

void dsl_set_owner(dsl_owner_fn owner)
{
	pool_owner = owner;
}

struct dsl_pool *dsl_pool_make(struct dmu_pool *dp, struct objset *mos, const char *name)
{
	struct dsl_pool *p = xcalloc(1, sizeof(*p));

	p->dp = dp;
	p->mos = mos;
	p->version = 5000; /* until spa says otherwise */
	p->owner = pool_owner;
	p->keys = dsl_keystore_create();
	p->cache = xcalloc(1, sizeof(*p->cache));
	obj_cache_init(&p->cache->dirs, DIRS_KEPT, dsl_dir_destroy);
	obj_cache_init(&p->cache->datasets, DATASETS_KEPT, dsl_dataset_destroy);
	pthread_mutex_init(&p->cache->lazy, NULL);
	pthread_mutex_init(&p->cache->temporary_lock, NULL);
	str_copy(p->name, sizeof(p->name), name);
	return p;
}

int dsl_pool_open(struct dmu_pool *dp, struct objset *mos, const char *name, struct dsl_pool **out, struct err *e)
{
	struct dsl_pool *p;
	uint64_t deflate = 0;
	int err;

	if (strlen(name) >= sizeof(p->name))
		return err_set(e, -ENAMETOOLONG, "the pool's name is too long");
	p = dsl_pool_make(dp, mos, name);
	err = zap_lookup_u64(mos, MOS_DIRECTORY, "root_dataset", &p->root_dir);
	if (err) {
		dsl_pool_close(p);
		return err_set(e, err, "the pool's root data set cannot be found: %s", err_words(err));
	}
	if (zap_lookup_u64(mos, MOS_DIRECTORY, "deflate", &deflate) == 0)
		p->deflate = deflate != 0;
	dsl_pool_find_special(p);
	*out = p;
	return 0;
}

/* What only a pool that is open for writing holds. */
static void dsl_pool_close_write(struct dsl_pool *p)
{
	if (!p->write)
		return;
	dsl_objsets_trim(p);
	if (p->write->mos_dir)
		dsl_dir_release(p->write->mos_dir);
	if (p->write->free_dir)
		dsl_dir_release(p->write->free_dir);
}

void dsl_pool_close(struct dsl_pool *p)
{
	if (!p)
		return;
	dsl_pool_close_write(p);
	obj_cache_fini(&p->cache->datasets);
	obj_cache_fini(&p->cache->dirs);
	dsl_write_destroy(p);
	dsl_prop_temporary_free(p->cache);
	dsl_keystore_destroy(p->keys);
	pthread_mutex_destroy(&p->cache->lazy);
	pthread_mutex_destroy(&p->cache->temporary_lock);
	free(p->cache);
	free(p);
}
