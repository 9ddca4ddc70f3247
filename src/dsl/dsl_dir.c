/*
 * dsl/dsl_dir.c: DSL dirs, the names of the tree (03-datasets.md 1.2, 1.5), and the iteration over children.
 */
#include "base/log.h"
#include "dsl/dsl_live.h"

#define DIR_BONUS_MIN      256
#define DAMAGED_LEAVES_MAX 4096

static int dir_hold_depth(struct dsl_pool *p, uint64_t object, unsigned depth, struct dsl_dir **out, struct err *e);

static int dir_decode(struct dsl_dir *d)
{
	struct dnode *dn = d->dnode;
	uint64_t w[DIR_BONUS_MIN / 8];
	int err = dmu_bonus_read(dn, 0, w, sizeof(w));

	if (err)
		return err;
	if (dn->swapped)
		swap64_buffer(w, sizeof(w));
	d->creation = w[0];
	d->head = w[1];
	d->parent = w[2];
	d->origin = w[3];
	d->child_map = w[4];
	d->used = w[5];
	d->compressed = w[6];
	d->uncompressed = w[7];
	d->quota = w[8];
	d->reserved = w[9];
	d->props = w[10];
	d->deleg = w[11];
	d->flags = w[12];
	d->has_breakdown = d->flags & 1;
	memcpy(d->used_breakdown, &w[13], sizeof(d->used_breakdown));
	d->clones = w[18];
	d->zapified = dn->type == DMU_OTN_ZAP_METADATA;
	if (!d->zapified || zap_lookup_u64(dn->os, dn->object, "com.datto:crypto_key_obj", &d->crypto_obj))
		d->crypto_obj = 0;
	return 0;
}

void dsl_dir_destroy(struct obj_node *n)
{
	struct dir_node *dn = container_of(n, struct dir_node, node);

	if (dn->dir.dnode)
		dnode_release(dn->dir.dnode);
	prop_set_free(dn->dir.own_props);
	if (dn->dir.up)
		dsl_dir_release(dn->dir.up);
	free(dn);
}

/* A decoded dir that has neither parent nor name yet. */
static int dir_load(struct dsl_pool *p, uint64_t object, struct dir_node **out, struct err *e)
{
	struct dnode *dn;
	struct dir_node *n;
	int err = dnode_hold(p->mos, object, &dn, e);

	if (err)
		return err_prefix(e, err, "data set directory %llu", (unsigned long long)object);
	if (dn->bonustype != DMU_OT_DSL_DIR || dn->bonuslen < DIR_BONUS_MIN) {
		dnode_release(dn);
		return err_set(e, -EINVAL, "object %llu is no data set directory", (unsigned long long)object);
	}
	n = xcalloc(1, sizeof(*n));
	n->dir.pool = p;
	n->dir.object = object;
	n->dir.dnode = dn;
	n->dir.refs = 1;
	n->node.object = object;
	n->node.refs = &n->dir.refs;
	err = dir_decode(&n->dir);
	if (err) {
		dsl_dir_destroy(&n->node);
		return err_set(e, err, "data set directory %llu: %s", (unsigned long long)object, err_words(err));
	}
	*out = n;
	return 0;
}

bool dsl_component_is_sane(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len >= DSL_NAME_MAX || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return false;
	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		if (*c < ' ' || *c > '~' || strchr("/@#", *c))
			return false;
	return true;
}

/* Put the dir under its parent (one reference is taken over) and into the cache. */
static int dir_finish(struct dir_node *n, struct dsl_dir *up, const char *name, struct dsl_dir **out, struct err *e)
{
	struct dsl_dir *d = &n->dir;
	struct dsl_cache *c = d->pool->cache;
	int len, err = 0;

	d->up = up;
	if (up && d->parent != up->object)
		err = err_set(e, -EINVAL, "data set directory %llu does not belong to '%s'",
			      (unsigned long long)d->object, up->name);
	else if (up && !dsl_component_is_sane(name))
		err = err_set(e, -EINVAL, "data set directory %llu has a damaged name", (unsigned long long)d->object);
	if (!err) {
		len = up ? snprintf(d->name, sizeof(d->name), "%s/%s", up->name, name)
			 : snprintf(d->name, sizeof(d->name), "%s", name);
		if (len >= (int)sizeof(d->name))
			err = err_set(e, -ENAMETOOLONG, "the name of data set directory %llu is too long",
				      (unsigned long long)d->object);
	}
	if (err) {
		dsl_dir_destroy(&n->node);
		return err;
	}
	*out = &container_of(obj_cache_add(&c->dirs, &n->node), struct dir_node, node)->dir;
	return 0;
}

static int dir_load_with_parents(struct dsl_pool *p, uint64_t object, unsigned depth, struct dsl_dir **out,
				 struct err *e)
{
	char name[ZAP_NAME_MAX + 1];
	struct dir_node *n;
	struct dsl_dir *up;
	int err = dir_load(p, object, &n, e);

	if (err)
		return err;
	if (object == p->root_dir) {
		if (n->dir.parent == 0)
			return dir_finish(n, NULL, p->name, out, e);
		dsl_dir_destroy(&n->node);
		return err_set(e, -EINVAL, "the root data set directory has a parent");
	}
	err = dir_hold_depth(p, n->dir.parent, depth + 1, &up, e);
	if (!err) {
		err = zap_value_search(p->mos, up->child_map, object, UINT64_MAX, name);
		if (!err)
			return dir_finish(n, up, name, out, e);
		err_set(e, err, "data set directory %llu has no name in '%s'", (unsigned long long)object, up->name);
		dsl_dir_release(up);
	}
	dsl_dir_destroy(&n->node);
	return err;
}

static int dir_hold_depth(struct dsl_pool *p, uint64_t object, unsigned depth, struct dsl_dir **out, struct err *e)
{
	struct obj_node *n;

	if (object == 0)
		return err_set(e, -ENOENT, "no such data set directory");
	if (depth > DSL_DEPTH_MAX)
		return err_set(e, -ELOOP, "data set directory %llu: its parents form a loop",
			       (unsigned long long)object);
	n = obj_cache_get(&p->cache->dirs, object);
	if (!n)
		return dir_load_with_parents(p, object, depth, out, e);
	*out = &container_of(n, struct dir_node, node)->dir;
	return 0;
}

int dsl_dir_hold(struct dsl_pool *p, uint64_t object, struct dsl_dir **out, struct err *e)
{
	DSL_SHARED(p);
	return dir_hold_depth(p, object, 0, out, e);
}

int dsl_dir_hold_named(struct dsl_dir *up, uint64_t object, const char *name, struct dsl_dir **out, struct err *e)
{
	struct dsl_pool *p = up->pool;
	DSL_SHARED(p);
	struct obj_node *cached = object ? obj_cache_get(&p->cache->dirs, object) : NULL;
	struct dir_node *n;
	int err;

	if (cached) {
		struct dsl_dir *d = &container_of(cached, struct dir_node, node)->dir;

		if (d->up == up && strcmp(strrchr(d->name, '/') + 1, name) == 0) {
			*out = d;
			return 0;
		}
		/* The child map leads to a dir that has its place elsewhere: a loop, a crossed link, a second name. */
		dsl_dir_release(d);
		return err_set(e, -EINVAL, "data set directory %llu does not belong to '%s'",
			       (unsigned long long)object, up->name);
	}
	err = dir_load(p, object, &n, e);
	if (err)
		return err;
	return dir_finish(n, dsl_dir_ref(up), name, out, e);
}

struct dsl_dir *dsl_dir_ref(struct dsl_dir *d)
{
	obj_cache_ref(&d->pool->cache->dirs, &container_of(d, struct dir_node, dir)->node);
	return d;
}

void dsl_dir_release(struct dsl_dir *d)
{
	obj_cache_release(&d->pool->cache->dirs, &container_of(d, struct dir_node, dir)->node);
}

int dsl_dir_ext_u64(const struct dsl_dir *d, const char *key, uint64_t *v)
{
	return d->zapified ? zap_lookup_u64(d->pool->mos, d->object, key, v) : -ENOENT;
}

bool dsl_dir_is_clone(const struct dsl_dir *d)
{
	return d->origin != 0 && d->origin != d->pool->origin_snap;
}

void name_list_add(struct name_list *l, const char *name, uint64_t object, uint64_t order)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 32;
		l->e = xrealloc(l->e, l->cap * sizeof(*l->e));
	}
	l->e[l->n++] = (struct name_entry){.name = xstrdup(name), .object = object, .order = order};
}

int dsl_zap_next(struct zap_cursor *c, struct zap_entry *ze, int *damage)
{
	int err = 0;

	for (unsigned leaves = 0; leaves < DAMAGED_LEAVES_MAX; leaves++) {
		err = zap_cursor_next(c, ze);
		if (err == 0 || err == -ENOENT)
			return err;
		*damage = err;
	}
	return -ENOENT;
}

/* Every entry that holds at least one number. */
int name_list_read(struct objset *os, uint64_t zap, struct name_list *l)
{
	struct zap_cursor *c;
	struct zap_entry *ze;
	int err;

	memset(l, 0, sizeof(*l));
	if (zap == 0)
		return 0;
	err = zap_cursor_open(os, zap, 0, &c);
	if (err)
		return err;
	ze = xmalloc(sizeof(*ze));
	while (dsl_zap_next(c, ze, &l->err) == 0)
		if (ze->intsize == 8 && ze->nints >= 1 && !ze->key_words)
			name_list_add(l, ze->name, ze->first, 0);
	free(ze);
	zap_cursor_close(c);
	return 0;
}

static int name_entry_cmp(const void *va, const void *vb)
{
	const struct name_entry *a = va, *b = vb;

	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	return strcmp(a->name, b->name);
}

void name_list_sort(struct name_list *l)
{
	if (l->n)
		qsort(l->e, l->n, sizeof(*l->e), name_entry_cmp);
}

void name_list_free(struct name_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->e[i].name);
	free(l->e);
	memset(l, 0, sizeof(*l));
}

/* 0: held; 1: hidden or left out. */
static int child_hold(struct dsl_dir *d, const struct name_entry *e, struct dsl_dir **child)
{
	struct err why = ERR_INIT;
	DSL_SHARED(d->pool);
	int err;

	if (e->name[0] == '$' || e->name[0] == '%')
		return 1;
	err = dsl_dir_hold_named(d, e->object, e->name, child, &why);
	if (err == -ENOENT && d->pool->write)
		return 1; /* gone since the list was read */
	if (err)
		log_warn("%s: a child is left out: %s", d->name, why.text);
	return err ? 1 : 0;
}

/* The callback runs without the configuration lock: it may take its time. */
int dsl_each_child(struct dsl_dir *d, int (*fn)(void *arg, struct dsl_dir *child), void *arg)
{
	struct name_list l;
	int err;

	{
		DSL_SHARED(d->pool);
		err = name_list_read(d->pool->mos, d->child_map, &l);
	}
	if (err)
		return err;
	name_list_sort(&l);
	for (size_t i = 0; i < l.n && !err; i++) {
		struct dsl_dir *child;

		if (child_hold(d, &l.e[i], &child))
			continue;
		err = fn(arg, child);
		dsl_dir_release(child);
	}
	if (!err && l.err)
		log_warn("%s: some children cannot be listed: %s", d->name, err_words(l.err));
	name_list_free(&l);
	return err;
}
