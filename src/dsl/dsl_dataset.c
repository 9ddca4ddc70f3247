/*
 * dsl/dsl_dataset.c: data sets: heads and snapshots (03-datasets.md 1.3, 1.5), names, iteration, opening.
 */
#include "base/str.h"
#include "base/log.h"
#include "dsl/dsl_impl.h"
#include "zio/zio_crypt.h"

#define DATASET_BONUS_MIN 256 /* up to and with the block pointer; what is missing behind it is 0 */

static uint64_t bonus_u64(const struct dnode *dn, size_t offset)
{
	return offset + 8 <= dn->bonuslen ? load64(dn->bonus + offset, dn->swapped) : 0;
}

static void dataset_decode(struct dsl_dataset *ds)
{
	const struct dnode *dn = ds->dnode;

	ds->prev_snap = bonus_u64(dn, 8);
	ds->prev_snap_txg = bonus_u64(dn, 16);
	ds->next_snap = bonus_u64(dn, 24);
	ds->snap_names = bonus_u64(dn, 32);
	ds->num_children = bonus_u64(dn, 40);
	ds->creation_time = bonus_u64(dn, 48);
	ds->creation_txg = bonus_u64(dn, 56);
	ds->deadlist = bonus_u64(dn, 64);
	ds->used = bonus_u64(dn, 72);
	ds->compressed = bonus_u64(dn, 80);
	ds->uncompressed = bonus_u64(dn, 88);
	ds->unique = bonus_u64(dn, 96);
	ds->fsid_guid = bonus_u64(dn, 104);
	ds->guid = bonus_u64(dn, 112);
	ds->flags = bonus_u64(dn, 120);
	bp_decode(&ds->bp, dn->bonus + 128, dn->swapped);
	ds->next_clones = bonus_u64(dn, 256);
	ds->props = bonus_u64(dn, 264);
	ds->userrefs = bonus_u64(dn, 272);
	ds->is_snapshot = ds->num_children != 0;
	ds->zapified = dn->type == DMU_OTN_ZAP_METADATA;
}

void dsl_dataset_destroy(struct obj_node *n)
{
	struct dataset_node *dn = container_of(n, struct dataset_node, node);

	if (dn->ds.dnode)
		dnode_release(dn->ds.dnode);
	if (dn->ds.dir)
		dsl_dir_release(dn->ds.dir);
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
	dataset_decode(&n->ds);
	*out = n;
	return 0;
}

int dsl_dataset_peek(struct dsl_pool *p, uint64_t object, struct dataset_peek *out)
{
	struct dataset_node *n;
	int err = dataset_load(p, object, &n, NULL);

	if (err)
		return err;
	*out = (struct dataset_peek){
	    .dir = bonus_u64(n->ds.dnode, 0),
	    .prev_snap = n->ds.prev_snap,
	    .prev_snap_txg = n->ds.prev_snap_txg,
	    .creation_txg = n->ds.creation_txg,
	    .deadlist = n->ds.deadlist,
	    .used = n->ds.used,
	};
	dsl_dataset_destroy(&n->node);
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
	struct dataset_node *n;
	int err;

	*out = dataset_cached(p, object);
	if (*out)
		return 0;
	err = dataset_load(p, object, &n, e);
	if (err)
		return err;
	err = dsl_dir_hold(p, bonus_u64(n->ds.dnode, 0), &n->ds.dir, e);
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
	struct dataset_node *n;
	int err;

	*out = dataset_cached(dir->pool, object);
	if (*out)
		return 0;
	err = dataset_load(dir->pool, object, &n, e);
	if (err)
		return err;
	if (!n->ds.is_snapshot || bonus_u64(n->ds.dnode, 0) != dir->object) {
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

/* "a//b", "a/" and the like are no names. */
static bool path_is_sane(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len < DSL_NAME_MAX && name[0] != '/' && name[len - 1] != '/' && !strstr(name, "//");
}

int dsl_dataset_hold(struct dsl_pool *p, const char *name, struct dsl_dataset **out, struct err *e)
{
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

int dsl_each_snapshot(struct dsl_dataset *head, int (*fn)(void *arg, struct dsl_dataset *snap), void *arg)
{
	struct name_list l;
	int err = name_list_read(head->pool->mos, head->snap_names, &l);

	if (err)
		return err;
	for (size_t i = 0; i < l.n; i++)
		l.e[i].order = snapshot_txg(head->pool, l.e[i].object);
	name_list_sort(&l);
	for (size_t i = 0; i < l.n && !err; i++) {
		struct err why = ERR_INIT;
		struct dsl_dataset *snap;

		if (l.e[i].name[0] == '$' || l.e[i].name[0] == '%')
			continue;
		if (dsl_snapshot_hold_named(head->dir, l.e[i].object, l.e[i].name, &snap, &why)) {
			log_warn("%s: a snapshot is left out: %s", head->name, why.text);
			continue;
		}
		err = fn(arg, snap);
		dsl_dataset_release(snap);
	}
	if (!err && l.err)
		log_warn("%s: some snapshots cannot be listed: %s", head->name, err_words(l.err));
	name_list_free(&l);
	return err;
}

/* --- the data --- */

static int objset_type_of(struct dsl_dataset *ds, unsigned *type)
{
	struct objset *os;
	int err;

	if (bp_is_hole(&ds->bp))
		return -ENOENT;
	err = objset_open(ds->pool->dp, ds->object, &ds->bp, NULL, &os, NULL);
	if (err)
		return err;
	*type = os->type == OBJSET_ZFS ? DSL_FILESYSTEM : os->type == OBJSET_ZVOL ? DSL_VOLUME : 0;
	objset_release(os);
	return *type ? 0 : -EINVAL;
}

/* All data sets of a dir are of one type, so the head (or whoever can be read) answers for all. */
int dsl_dataset_type(struct dsl_dataset *ds, unsigned *type)
{
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

/* primarycache: none 0, metadata 1, all 2. */
static void objset_apply_primarycache(struct dsl_dataset *ds, struct objset *os)
{
	uint64_t mode = 2;

	if (dsl_prop_u64(ds, "primarycache", &mode, NULL))
		mode = 2;
	os->cache_data = mode >= 2;
	os->cache_metadata = mode >= 1;
	os->cache_flags = mode == 0 ? ARC_NOCACHE : 0;
}

int dsl_dataset_open_objset(struct dsl_dataset *ds, struct objset **out, struct err *e)
{
	struct crypt_key *key = NULL;
	int err;

	if (bp_is_hole(&ds->bp))
		return err_set(e, -ENOENT, "'%s' has no data", ds->name);
	if (ds->dir->crypto_obj) {
		err = dsl_crypt_key_hold(ds, &key, e);
		if (err)
			return err;
	}
	err = objset_open(ds->pool->dp, ds->object, &ds->bp, key, out, e);
	if (key)
		crypt_key_release(key);
	if (err)
		return err_prefix(e, err, "'%s'", ds->name);
	objset_apply_primarycache(ds, *out);
	return 0;
}
