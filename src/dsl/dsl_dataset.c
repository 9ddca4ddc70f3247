/*
 * dsl/dsl_dataset.c: data sets: heads and snapshots (03-datasets.md 1.3, 1.5), names, iteration, opening.
 */
#include "base/str.h"
#include "base/log.h"
#include "dsl/dsl_write_impl.h"

#define DATASET_BONUS     320
#define DATASET_BONUS_MIN 256 /* up to and with the block pointer; what is missing behind it is 0 */

static int dataset_decode(struct dsl_dataset *ds)
{
	struct dnode *dn = ds->dnode;
	uint64_t w[DATASET_BONUS / 8] = {0};
	int err = dmu_bonus_read(dn, 0, w, MIN(dn->bonuslen & ~7u, sizeof(w)));

	if (err)
		return err;
	if (dn->swapped)
		swap64_buffer(w, sizeof(w));
	ds->dir_object = w[0];
	ds->prev_snap = w[1];
	ds->prev_snap_txg = w[2];
	ds->next_snap = w[3];
	ds->snap_names = w[4];
	ds->num_children = w[5];
	ds->creation_time = w[6];
	ds->creation_txg = w[7];
	ds->deadlist = w[8];
	ds->used = w[9];
	ds->compressed = w[10];
	ds->uncompressed = w[11];
	ds->unique = w[12];
	ds->fsid_guid = w[13];
	ds->guid = w[14];
	ds->flags = w[15];
	memcpy(&ds->bp, &w[16], sizeof(ds->bp));
	ds->next_clones = w[32];
	ds->props = w[33];
	ds->userrefs = w[34];
	ds->is_snapshot = ds->num_children != 0;
	ds->zapified = dn->type == DMU_OTN_ZAP_METADATA;
	return 0;
}

void dsl_dataset_destroy(struct obj_node *n)
{
	struct dataset_node *dn = container_of(n, struct dataset_node, node);

	if (dn->ds.dnode)
		dnode_release(dn->ds.dnode);
	if (dn->ds.dir)
		dsl_dir_release(dn->ds.dir);
	live_dataset_destroy(dn->live);
	free(dn);
}

static int dataset_load(struct dsl_pool *p, uint64_t object, struct dataset_node **out, struct err *e)
{
	struct dnode *dn;
	struct dataset_node *n;
	int err;

	if (object == 0)
		return err_set(e, -ENOENT, "no such data set");
	err = dnode_hold(p->mos, object, &dn, e);
	if (err)
		return err_prefix(e, err, "data set %llu", (unsigned long long)object);
	if (dn->bonustype != DMU_OT_DSL_DATASET || dn->bonuslen < DATASET_BONUS_MIN) {
		dnode_release(dn);
		return err_set(e, -EINVAL, "object %llu is no data set", (unsigned long long)object);
	}
	n = xcalloc(1, sizeof(*n));
	n->ds.pool = p;
	n->ds.object = object;
	n->ds.dnode = dn;
	n->ds.refs = 1;
	n->node.object = object;
	n->node.refs = &n->ds.refs;
	err = dataset_decode(&n->ds);
	if (err) {
		dsl_dataset_destroy(&n->node);
		return err_set(e, err, "data set %llu: %s", (unsigned long long)object, err_words(err));
	}
	*out = n;
	return 0;
}

int dsl_edit_begin(struct dsl_pool *p, uint64_t object, struct dsl_edit *out)
{
	struct obj_node *live = object ? obj_cache_get(&p->cache->datasets, object) : NULL;
	struct dataset_node *n;
	int err;

	if (live) {
		*out = (struct dsl_edit){&container_of(live, struct dataset_node, node)->ds, false};
		return 0;
	}
	err = dataset_load(p, object, &n, NULL);
	*out = (struct dsl_edit){err ? NULL : &n->ds, true};
	return err;
}

void dsl_edit_end(struct dsl_edit *e)
{
	if (e->is_private)
		dsl_dataset_destroy(&dataset_node_of(e->ds)->node);
	else
		dsl_dataset_release(e->ds);
	e->ds = NULL;
}

int dsl_dataset_peek(struct dsl_pool *p, uint64_t object, struct dataset_peek *out)
{
	DSL_SHARED(p);
	struct dsl_edit e;
	int err = dsl_edit_begin(p, object, &e);

	if (err)
		return err;
	*out = (struct dataset_peek){
	    .dir = e.ds->dir_object,
	    .prev_snap = e.ds->prev_snap,
	    .prev_snap_txg = e.ds->prev_snap_txg,
	    .creation_txg = e.ds->creation_txg,
	    .deadlist = e.ds->deadlist,
	    .used = e.ds->used,
	};
	dsl_edit_end(&e);
	return 0;
}

/* The snapshot's name in its head's list; `name` has room for a ZAP name. */
static int snapshot_find_name(struct dsl_dataset *ds, char *name, struct err *e)
{
	struct dataset_node *head;
	int err = dataset_load(ds->pool, ds->dir->head, &head, e);

	if (err)
		return err;
	err = zap_value_search(ds->pool->mos, head->ds.snap_names, ds->object, UINT64_MAX, name);
	dsl_dataset_destroy(&head->node);
	if (err)
		return err_set(e, err, "snapshot %llu has no name in '%s'", (unsigned long long)ds->object,
			       ds->dir->name);
	return 0;
}

/* Name a loaded data set whose dir is set, and put it into the cache. snapname NULL: search it. */
static int dataset_finish(struct dataset_node *n, const char *snapname, struct dsl_dataset **out, struct err *e)
{
	struct dsl_dataset *ds = &n->ds;
	char found[ZAP_NAME_MAX + 1];
	size_t dirlen = strlen(ds->dir->name);
	int err = 0;

	str_copy(ds->name, sizeof(ds->name), ds->dir->name);
	if (ds->is_snapshot && !snapname) {
		err = snapshot_find_name(ds, found, e);
		snapname = found;
	}
	if (!err && ds->is_snapshot) {
		if (!dsl_component_is_sane(snapname))
			err = err_set(e, -EINVAL, "snapshot %llu of '%s' has a damaged name",
				      (unsigned long long)ds->object, ds->dir->name);
		else if (dirlen + 1 + strlen(snapname) >= sizeof(ds->name))
			err = err_set(e, -ENAMETOOLONG, "the name of snapshot %llu of '%s' is too long",
				      (unsigned long long)ds->object, ds->dir->name);
	}
	if (!err && !ds->is_snapshot && ds->dir->head != ds->object)
		err = err_set(e, -EINVAL, "data set %llu is not the head of '%s'", (unsigned long long)ds->object,
			      ds->dir->name);
	if (err) {
		dsl_dataset_destroy(&n->node);
		return err;
	}
	if (ds->is_snapshot) {
		ds->name[dirlen] = '@';
		str_copy(ds->name + dirlen + 1, sizeof(ds->name) - dirlen - 1, snapname);
		ds->snapname = ds->name + dirlen + 1;
	}
	*out = &container_of(obj_cache_add(&ds->pool->cache->datasets, &n->node), struct dataset_node, node)->ds;
	return 0;
}

static struct dsl_dataset *dataset_cached(struct dsl_pool *p, uint64_t object)
{
	struct obj_node *n = obj_cache_get(&p->cache->datasets, object);

	return n ? &container_of(n, struct dataset_node, node)->ds : NULL;
}

int dsl_dataset_hold_obj(struct dsl_pool *p, uint64_t object, struct dsl_dataset **out, struct err *e)
{
	DSL_SHARED(p);
	struct dataset_node *n;
	int err;

	*out = dataset_cached(p, object);
	if (*out)
		return 0;
	err = dataset_load(p, object, &n, e);
	if (err)
		return err;
	err = dsl_dir_hold(p, n->ds.dir_object, &n->ds.dir, e);
	if (err) {
		n->ds.dir = NULL;
		dsl_dataset_destroy(&n->node);
		return err;
	}
	return dataset_finish(n, NULL, out, e);
}

int dsl_snapshot_hold_named(struct dsl_dir *dir, uint64_t object, const char *name, struct dsl_dataset **out,
			    struct err *e)
{
	DSL_SHARED(dir->pool);
	struct dataset_node *n;
	int err;

	*out = dataset_cached(dir->pool, object);
	if (*out)
		return 0;
	err = dataset_load(dir->pool, object, &n, e);
	if (err)
		return err;
	if (!n->ds.is_snapshot || n->ds.dir_object != dir->object) {
		dsl_dataset_destroy(&n->node);
		return err_set(e, -EINVAL, "object %llu is no snapshot of '%s'", (unsigned long long)object, dir->name);
	}
	n->ds.dir = dsl_dir_ref(dir);
	return dataset_finish(n, name, out, e);
}

struct dsl_dataset *dsl_dataset_ref(struct dsl_dataset *ds)
{
	obj_cache_ref(&ds->pool->cache->datasets, &container_of(ds, struct dataset_node, ds)->node);
	return ds;
}

void dsl_dataset_release(struct dsl_dataset *ds)
{
	obj_cache_release(&ds->pool->cache->datasets, &container_of(ds, struct dataset_node, ds)->node);
}

int dsl_dataset_ext_u64(const struct dsl_dataset *ds, const char *key, uint64_t *v)
{
	return ds->zapified ? zap_lookup_u64(ds->pool->mos, ds->object, key, v) : -ENOENT;
}

/* --- by name --- */

static int name_missing(struct err *e, int err, const char *name)
{
	if (err == -ENOENT)
		return err_set(e, err, "'%s' does not exist", name);
	return err_set(e, err, "'%s' cannot be looked up: %s", name, err_words(err));
}

/* Walk "pool/a/b" down from the root. */
static int dir_walk(struct dsl_pool *p, char *path, const char *full, struct dsl_dir **out, struct err *e)
{
	char *save = NULL, *part = strtok_r(path, "/", &save);
	struct dsl_dir *d = NULL, *child;
	uint64_t object;
	int err;

	if (!part || strcmp(part, p->name) != 0)
		return name_missing(e, -ENOENT, full);
	err = dsl_dir_hold(p, p->root_dir, &d, e);
	while (!err && (part = strtok_r(NULL, "/", &save))) {
		err = d->child_map ? zap_lookup_u64(p->mos, d->child_map, part, &object) : -ENOENT;
		if (err)
			name_missing(e, err, full);
		else
			err = dsl_dir_hold_named(d, object, part, &child, e);
		dsl_dir_release(d);
		d = err ? NULL : child;
	}
	*out = d;
	return err;
}

static int snapshot_lookup(struct dsl_dataset *head, const char *snap, const char *full, struct dsl_dataset **out,
			   struct err *e)
{
	char real[ZAP_NAME_MAX + 1];
	unsigned match = head->flags & DSL_DS_CI ? ZAP_MATCH_NORMALIZED : 0;
	uint64_t object;
	int err;

	if (!head->snap_names)
		return name_missing(e, -ENOENT, full);
	snprintf(real, sizeof(real), "%s", snap);
	if (match)
		err = zap_lookup_match(head->pool->mos, head->snap_names, snap, match, 8, 1, &object, real);
	else
		err = zap_lookup_u64(head->pool->mos, head->snap_names, snap, &object);
	if (err)
		return name_missing(e, err, full);
	return dsl_snapshot_hold_named(head->dir, object, real, out, e);
}

int dsl_snapshot_lookup(struct dsl_dataset *head, const char *snap, struct dsl_dataset **out)
{
	return snapshot_lookup(head, snap, snap, out, NULL);
}

/* "a//b", "a/" and the like are no names. */
static bool path_is_sane(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len < DSL_NAME_MAX && name[0] != '/' && name[len - 1] != '/' && !strstr(name, "//");
}

int dsl_dataset_hold(struct dsl_pool *p, const char *name, struct dsl_dataset **out, struct err *e)
{
	DSL_SHARED(p);
	char path[DSL_NAME_MAX];
	struct dsl_dataset *head;
	struct dsl_dir *d = NULL;
	char *snap;
	int err;

	if (!path_is_sane(name) || strchr(name, '#'))
		return err_set(e, -EINVAL, "'%s' is no valid name of a data set", name);
	str_copy(path, sizeof(path), name);
	snap = strchr(path, '@');
	if (snap)
		*snap++ = '\0';
	if (snap && (strchr(snap, '/') || !dsl_component_is_sane(snap) || !path_is_sane(path)))
		return err_set(e, -EINVAL, "'%s' is no valid name of a snapshot", name);
	err = dir_walk(p, path, name, &d, e);
	if (err)
		return err;
	err = d->head ? dsl_dataset_hold_obj(p, d->head, &head, e) : name_missing(e, -ENOENT, name);
	dsl_dir_release(d);
	if (err || !snap) {
		if (!err)
			*out = head;
		return err;
	}
	err = snapshot_lookup(head, snap, name, out, e);
	dsl_dataset_release(head);
	return err;
}

/* --- iteration --- */

/* The creation txg alone, without keeping 10,000 snapshots decoded. */
static uint64_t snapshot_txg(struct dsl_pool *p, uint64_t object)
{
	struct dataset_peek peek;

	/* Unreadable ones come last, and are reported when it is their turn. */
	return dsl_dataset_peek(p, object, &peek) ? UINT64_MAX : peek.creation_txg;
}

/* 0: held; 1: hidden or left out. */
static int snapshot_hold(struct dsl_dataset *head, const struct name_entry *e, struct dsl_dataset **snap)
{
	struct err why = ERR_INIT;
	DSL_SHARED(head->pool);
	int err;

	if (e->name[0] == '$' || e->name[0] == '%')
		return 1;
	err = dsl_snapshot_hold_named(head->dir, e->object, e->name, snap, &why);
	if (err == -ENOENT && head->pool->write)
		return 1; /* gone since the list was read */
	if (err)
		log_warn("%s: a snapshot is left out: %s", head->name, why.text);
	return err ? 1 : 0;
}

static int snapshots_read(struct dsl_dataset *head, struct name_list *l)
{
	DSL_SHARED(head->pool);
	int err = name_list_read(head->pool->mos, head->snap_names, l);

	for (size_t i = 0; !err && i < l->n; i++)
		l->e[i].order = snapshot_txg(head->pool, l->e[i].object);
	return err;
}

/* The callback runs without the configuration lock: it may take its time. */
int dsl_each_snapshot(struct dsl_dataset *head, int (*fn)(void *arg, struct dsl_dataset *snap), void *arg)
{
	struct name_list l;
	int err = snapshots_read(head, &l);

	if (err)
		return err;
	name_list_sort(&l);
	for (size_t i = 0; i < l.n && !err; i++) {
		struct dsl_dataset *snap;

		if (snapshot_hold(head, &l.e[i], &snap))
			continue;
		err = fn(arg, snap);
		dsl_dataset_release(snap);
	}
	if (!err && l.err)
		log_warn("%s: some snapshots cannot be listed: %s", head->name, err_words(l.err));
	name_list_free(&l);
	return err;
}
