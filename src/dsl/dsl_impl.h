/*
 * dsl/dsl_impl.h: what the files of this folder share and nobody else sees.
 */
#ifndef DSL_DSL_IMPL_H
#define DSL_DSL_IMPL_H

#include <stdio.h>

#include "base/list.h"
#include "base/sync.h"
#include "dsl/dsl.h"

#define DSL_DEPTH_MAX 128 /* no name of 255 bytes has more components */

#define DSL_DS_INCONSISTENT    0x1u
#define DSL_DS_NOPROMOTE       0x2u
#define DSL_DS_UNIQUE_ACCURATE 0x4u
#define DSL_DS_DEFER_DESTROY   0x8u
#define DSL_DS_CI              0x10000u

/* Decoded objects by number. An entry with references is never dropped; unused ones are kept up to a limit. */
struct obj_node {
	uint64_t object;
	struct obj_node *next;
	struct list_node unused; /* linked while refs is 0 */
	atomic_uint *refs;
	bool gone; /* the object was destroyed: not found any more, ends with its last reference */
};
struct obj_cache {
	pthread_mutex_t lock;
	struct obj_node **bucket;
	size_t nbuckets, len, limit;
	struct list unused;
	bool trimming; /* somebody drops unused entries right now */
	void (*destroy)(struct obj_node *n);
};
/* A reference on the entry, or NULL. */
struct obj_node *obj_cache_get(struct obj_cache *c, uint64_t object);
/* Takes a fresh entry (refs 1). When another thread was faster, destroys it and returns theirs. */
struct obj_node *obj_cache_add(struct obj_cache *c, struct obj_node *n);
void obj_cache_ref(struct obj_cache *c, struct obj_node *n);
void obj_cache_release(struct obj_cache *c, struct obj_node *n);
/* The object is destroyed: look-ups do not find the entry from now on. */
void obj_cache_forget(struct obj_cache *c, struct obj_node *n);
/* Under the cache's lock: fn takes no other. */
void obj_cache_each(struct obj_cache *c, void (*fn)(void *arg, struct obj_node *n), void *arg);

struct dsl_cache {
	struct obj_cache dirs, datasets;
	pthread_mutex_t lazy; /* dir->own_props */
	pthread_mutex_t temporary_lock;
	struct temporary_prop *temporary; /* list */
	struct prop_watch *watches;       /* list that only grows; guarded by temporary_lock */
};

struct dir_node {
	struct dsl_dir dir;
	struct obj_node node;
	uint64_t inflight[TXG_SIZE]; /* asked for by transactions, not settled; guarded by dsl_write's space lock */
};
struct dataset_node {
	struct dsl_dataset ds;
	struct obj_node node;
	struct live_dataset *live; /* dsl_write_impl.h; NULL in read-only pools, and until needed */
};
static inline struct dir_node *dir_node_of(struct dsl_dir *d)
{
	return container_of(d, struct dir_node, dir);
}
static inline struct dataset_node *dataset_node_of(struct dsl_dataset *ds)
{
	return container_of(ds, struct dataset_node, ds);
}
void dsl_dir_destroy(struct obj_node *n);
void dsl_dataset_destroy(struct obj_node *n);

/* A dir whose parent and name are known already. */
int dsl_dir_hold_named(struct dsl_dir *up, uint64_t object, const char *name, struct dsl_dir **out, struct err *e);
/* A snapshot whose head's dir and name are known already. */
int dsl_snapshot_hold_named(struct dsl_dir *dir, uint64_t object, const char *name, struct dsl_dataset **out,
			    struct err *e);
/* A data set's numbers without its name, dir or place in the cache. */
struct dataset_peek {
	uint64_t dir, prev_snap, prev_snap_txg, creation_txg, deadlist, used;
};
int dsl_dataset_peek(struct dsl_pool *p, uint64_t object, struct dataset_peek *out);
bool dsl_component_is_sane(const char *name);
/* Whether txg `old_txg` of dir `old_dir` is an earlier point in the timeline of (dir, txg); old_object: the snapshot
 * there, or 0. */
bool dsl_timeline_has(struct dsl_dir *dir, uint64_t txg, uint64_t old_dir, uint64_t old_object, uint64_t old_txg);
/* A u64 from the extension ZAP; -ENOENT when the object has none. */
int dsl_dir_ext_u64(const struct dsl_dir *d, const char *key, uint64_t *v);
int dsl_dataset_ext_u64(const struct dsl_dataset *ds, const char *key, uint64_t *v);
bool dsl_dir_is_clone(const struct dsl_dir *d);

/* The next readable entry; -ENOENT at the end. *damage takes the error of leaves that were passed over. */
int dsl_zap_next(struct zap_cursor *c, struct zap_entry *ze, int *damage);

/* Entries of a ZAP "name -> u64" collected for sorting. */
struct name_entry {
	char *name;
	uint64_t object, order;
};
struct name_list {
	struct name_entry *e;
	size_t n, cap;
	int err; /* a damaged leaf was passed over */
};
int name_list_read(struct objset *os, uint64_t zap, struct name_list *l);
void name_list_add(struct name_list *l, const char *name, uint64_t object, uint64_t order);
void name_list_sort(struct name_list *l); /* by order, then name */
void name_list_free(struct name_list *l);

/* Property values stored in one ZAP (5.1). */
enum prop_suffix { PROP_VALUE, PROP_RECEIVED, PROP_INHERIT, PROP_IUV };
struct prop_value {
	char *name; /* without suffix */
	enum prop_suffix suffix;
	bool is_string;
	uint64_t number;
	char *string; /* NULL for numbers */
};
struct prop_set {
	struct prop_value *v;
	size_t n;
	int err; /* the ZAP could not be read */
};
int prop_set_read(struct dsl_pool *p, uint64_t zap, struct prop_set **out);
void prop_set_free(struct prop_set *s);
const struct prop_value *prop_set_find(const struct prop_set *s, const char *name, enum prop_suffix suffix);
/* The dir's own set: never NULL, lives as long as the dir is held. */
const struct prop_set *dsl_dir_props(struct dsl_dir *d);

enum prop_source { SOURCE_NONE, SOURCE_DEFAULT, SOURCE_TEMPORARY, SOURCE_LOCAL, SOURCE_INHERITED, SOURCE_RECEIVED };
struct prop_found {
	bool is_string;
	uint64_t number;
	const char *string; /* valid while ds and `own` are held */
	enum prop_source source;
	const struct dsl_dir *from; /* inherited: from where; mountpoint: where it was set */
	char buf[32];
};
/* `own`: the snapshot's own set, or NULL. -ENOENT: not set and no default. */
int dsl_prop_find_value(struct dsl_dataset *ds, const struct prop_set *own, const char *name,
			const struct prop_def *def, struct prop_found *out);
/* "local", "inherited from X", ...; source has DSL_NAME_MAX + 16 bytes or is NULL. */
void prop_source_text(const struct prop_found *f, char *source);
/* The snapshot's own set (the caller frees it), NULL for heads and for snapshots without. */
struct prop_set *dsl_snapshot_props(struct dsl_dataset *ds);
bool dsl_prop_temporary(struct dsl_pool *p, uint64_t object, const char *name, char *value, size_t size);
void dsl_prop_temporary_free(struct dsl_cache *c);
void dsl_prop_watch_free(struct dsl_cache *c);
/* Words of an index or number; into buf when there is no word. */
const char *prop_number_text(const struct prop_def *def, uint64_t v, char *buf, size_t size);
bool prop_index_value(const struct prop_def *def, const char *word, uint64_t *v);

/* One request for properties of one data set. */
struct props_request {
	struct dsl_dataset *ds;
	unsigned type; /* DSL_FILESYSTEM or DSL_VOLUME, of the head */
	struct prop_set *own;
	struct objset *os; /* opened on first need */
	int os_err;
	bool os_tried;
};
/* What a property came to. */
struct prop_out {
	uint64_t number; /* of numeric and index properties */
	char *string;    /* of string properties; malloc'd */
	char source[DSL_NAME_MAX + 16];
};
typedef int (*prop_getter)(struct props_request *r, const struct prop_def *def, struct prop_out *o);
/* How the property is computed; NULL when it is just a stored value. */
prop_getter dsl_prop_getter(const struct prop_def *def);
/* The stored value with inheritance. */
int dsl_prop_get_stored(struct props_request *r, const struct prop_def *def, struct prop_out *o);
/* The data set's objset, without its key when that is not loaded. */
int props_request_objset(struct props_request *r, struct objset **os);
/* "guid,guid,..."; malloc'd. */
char *guid_list_text(const uint64_t *guids, size_t n);

/* Token of an interrupted receive; malloc'd. -ENOENT when there is none. */
int dsl_resume_token(struct dsl_dataset *ds, char **out);
/* userused@ and relatives: 0, -ENOENT when the name is no such property or not resolvable. */
int dsl_userspace_get(struct objset *os, const char *name, uint64_t *v);
bool dsl_name_is_userspace(const char *name);
/* Of those, the ones that can be set; and whether whose quota it is can be told. */
bool dsl_name_is_quota(const char *name);
int dsl_quota_name_check(const char *name, struct err *e);
/* Whose it is, and the master node's key of the map of such quotas. -ENOENT: cannot be told. */
int dsl_quota_who(struct objset *os, const char *name, const char **map, uint64_t *fuid);

#endif
