/*
 * dsl/dsl.h: the tree of data sets and snapshots (docs/format/03-datasets.md). Read side; blocking, any thread but cpu
 * workers.
 *
 * A dsl_pool stands on the MOS. Dirs and datasets are decoded on demand into immutable, reference-counted structs,
 * cached by object number. Names are "pool/a/b", "pool/a@snap", "pool/a#bookmark"; the pool part is the name the pool
 * was imported under.
 *
 * Invariants: a held dataset holds its dir, a held dir holds its parents up to the root, so that walks upward never
 * read. Damage stays where it is: a dir, snapshot or bookmark that cannot be decoded is an error of that name only;
 * iteration logs it and goes on.
 *
 * Locks: one mutex per cache (dirs, datasets) guards the hash chains, reference counts and the list of unused entries;
 * one guards the lazily read fields of dirs; one the temporary properties. Each is a leaf: none is held while reading
 * or while another is taken.
 */
#ifndef DSL_DSL_H
#define DSL_DSL_H

#include "dmu/zap.h"
#include "nv/nv.h"

#define DSL_NAME_MAX 256

enum dsl_space_policy { DSL_SPACE_NORMAL, DSL_SPACE_RESERVED, DSL_SPACE_EXTRA, DSL_SPACE_NONE }; /* 8.1 */

/* Whose an object is in a file system that is written (objset_ops.owner). zpl says so once, when the program starts;
 * without it nothing is counted. */
typedef int (*dsl_owner_fn)(struct objset *os, const struct dnode *dn, const uint8_t *bonus, size_t len, uint64_t *uid,
			    uint64_t *gid, uint64_t *project);
void dsl_set_owner(dsl_owner_fn owner);

struct dsl_dataset;
struct dsl_pool {
	struct dmu_pool *dp;
	struct objset *mos;
	char name[DSL_NAME_MAX];
	uint64_t version;                                            /* of the pool: 1..28, 5000 */
	uint64_t root_dir, mos_dir, free_dir, leak_dir, origin_snap; /* 0 when absent */
	bool deflate;
	struct strmap *features; /* active features: guid -> (void *)1; filled by spa */
	/* pool-wide numbers the space properties need: set by spa */
	uint64_t
	    usable_bytes; /* deflated size less slop, what `zfs list` of the root divides into used and available */
	struct dsl_keystore *keys; /* dsl/dsl_crypt.c */
	/* What the floors above know and some properties show; may stay NULL. */
	const char *altroot; /* before every mount point; owned by spa */
	bool (*is_mounted)(void *arg, uint64_t dataset_object);
	void *is_mounted_arg;
	dsl_owner_fn owner; /* dsl_set_owner's */
	/* zvol's: sets a volume's size when the property is set; waits. NULL: refused. */
	int (*set_volsize)(struct dsl_dataset *ds, uint64_t volsize, struct err *e);
	/* zvol's: a head that is about to be looked at as it is on the devices; what only its intent log holds after a
	 * crash is replayed, once its key is loaded. Waits. NULL: nothing is logged here. */
	int (*replay_log)(struct dsl_dataset *head, struct err *e);
	struct dsl_cache *cache;
	struct dsl_write *write; /* dsl's own: tasks, dirty sets, what spa handed down; NULL: opened read-only */
};

int dsl_pool_open(struct dmu_pool *dp, struct objset *mos, const char *name, struct dsl_pool **out, struct err *e);
void dsl_pool_close(struct dsl_pool *p);
/* The configuration lock of a pool that is open for writing (dsl_write.h): shared and recursive by thread; alone, for
 * changes of what readers see under it, taken by threads that hold nothing. No-ops in read-only pools. */
void dsl_config_enter(struct dsl_pool *p);
void dsl_config_exit(struct dsl_pool *p);
void dsl_config_enter_alone(struct dsl_pool *p);
void dsl_config_exit_alone(struct dsl_pool *p);

/* DSL dir: one name in the tree (1.2). */
struct dsl_dir {
	struct dsl_pool *pool;
	uint64_t object, parent, head, origin, child_map, props, deleg, flags, clones;
	uint64_t creation, quota, reserved, used, compressed, uncompressed;
	uint64_t used_breakdown[5]; /* head, snapshots, children, child reservations, refreservation */
	bool has_breakdown;
	uint64_t crypto_obj; /* 0: not encrypted */
	struct dnode *dnode; /* for extension keys: a ZAP when "zapified" */
	bool zapified;
	struct dsl_dir *up;         /* the parent, held; NULL for the root */
	struct prop_set *own_props; /* read on first use; guarded by the cache's lazy lock */
	atomic_uint type;           /* DSL_FILESYSTEM, DSL_VOLUME; 0 until an objset was looked at */
	char name[DSL_NAME_MAX];    /* full */
	atomic_uint refs;
};
int dsl_dir_hold(struct dsl_pool *p, uint64_t object, struct dsl_dir **out, struct err *e);
void dsl_dir_release(struct dsl_dir *d);
struct dsl_dir *dsl_dir_ref(struct dsl_dir *d);

/* DSL dataset: head or snapshot (1.3). */
struct dsl_dataset {
	struct dsl_pool *pool;
	struct dsl_dir *dir;
	uint64_t object, dir_object, prev_snap, prev_snap_txg, next_snap, snap_names, num_children, creation_time,
	    creation_txg, deadlist, used, compressed, uncompressed, unique, fsid_guid, guid, flags, next_clones, props,
	    userrefs;
	struct bp bp;
	bool is_snapshot;
	struct dnode *dnode;
	bool zapified;
	char name[DSL_NAME_MAX]; /* full, "pool/fs" or "pool/fs@snap" */
	const char *snapname;    /* into name; NULL for heads */
	atomic_uint refs;
};
int dsl_dataset_hold(struct dsl_pool *p, const char *name, struct dsl_dataset **out, struct err *e);
int dsl_dataset_hold_obj(struct dsl_pool *p, uint64_t object, struct dsl_dataset **out, struct err *e);
struct dsl_dataset *dsl_dataset_ref(struct dsl_dataset *ds);
void dsl_dataset_release(struct dsl_dataset *ds);

enum dsl_type { DSL_FILESYSTEM = 1, DSL_SNAPSHOT = 2, DSL_VOLUME = 4, DSL_POOL = 8, DSL_BOOKMARK = 16 };
/* File system or volume (of the head or snapshot), from the objset block; DSL_SNAPSHOT is or-ed in for snapshots. */
int dsl_dataset_type(struct dsl_dataset *ds, unsigned *type);

/* Open the data: needs the key to be loaded when encrypted (-EKEY). The objset carries primarycache. */
int dsl_dataset_open_objset(struct dsl_dataset *ds, struct objset **out, struct err *e);

/* Iteration, in name order (dirs) or creation order (snapshots, bookmarks). Stops at the first non-zero return, which
 * is returned. Hidden dirs and datasets ($MOS, $FREE, $ORIGIN, temporary "%" ones) are skipped. */
int dsl_each_child(struct dsl_dir *d, int (*fn)(void *arg, struct dsl_dir *child), void *arg);
int dsl_each_snapshot(struct dsl_dataset *head, int (*fn)(void *arg, struct dsl_dataset *snap), void *arg);
struct dsl_bookmark {
	char name[DSL_NAME_MAX]; /* short */
	uint64_t guid, creation_txg, creation_time, redaction_obj, flags;
	uint64_t referenced, compressed, uncompressed, written_valid; /* sizes are 0 unless written_valid */
	uint64_t fbn[3]; /* freed before the next snapshot: used, compressed, uncompressed */
	uint8_t ivset_guid_valid;
	uint64_t ivset_guid;
};
int dsl_each_bookmark(struct dsl_dataset *head, int (*fn)(void *arg, const struct dsl_bookmark *b), void *arg);
/* Guids of the snapshots a bookmark or a received data set was redacted by. *guids is malloc'd, NULL when n is 0;
 * -ENOENT when not redacted. */
int dsl_bookmark_redact_snaps(struct dsl_pool *p, const struct dsl_bookmark *b, uint64_t **guids, size_t *n);
int dsl_dataset_redact_snaps(struct dsl_dataset *ds, uint64_t **guids, size_t *n);
/* Holds in the order of their ZAP, in which OpenZFS lists them. */
int dsl_each_hold(struct dsl_dataset *snap, int (*fn)(void *arg, const char *tag, uint64_t time), void *arg);

/*
 * Properties (section 5): every native property as `zfs get` would show it with -p, and user properties.
 *   <property>: { "value": string (exact form), "source": "local" | "default" | "inherited from X" | "temporary" |
 * "received" | "-", ["received": string] } The raw number of numeric and index properties is added as "number"
 * (uint64). Properties that do not apply are absent. In table order (5.4). `names` NULL: all; else only these (also
 * userused@..., written@...).
 */
int dsl_props_get(struct dsl_dataset *ds, const char *const *names, size_t n, struct nvlist **out, struct err *e);
int dsl_bookmark_props_get(struct dsl_dataset *head, const struct dsl_bookmark *b, struct nvlist **out, struct err *e);
/* One property's number/string with inheritance; source into `source` (DSL_NAME_MAX + 16 bytes) when not NULL. */
int dsl_prop_u64(struct dsl_dataset *ds, const char *name, uint64_t *v, char *source);
int dsl_prop_string(struct dsl_dataset *ds, const char *name, char *v, size_t size, char *source);
/* Temporary values set by mount options: shadow everything, never stored. value NULL removes. */
void dsl_prop_set_temporary(struct dsl_pool *p, uint64_t dataset_object, const char *name, const char *value);

/* Table of native properties (5.4), also for the commands' parsing, headers and help. */
enum prop_kind { PROP_NUMBER, PROP_STRING, PROP_INDEX };
struct prop_index {
	const char *name;
	uint64_t value;
};
struct prop_def {
	const char *name, *column; /* column header */
	enum prop_kind kind;
	unsigned types; /* DSL_* it applies to */
	bool readonly, inherit, hidden, setonce;
	uint64_t def_number;
	const char *def_string;
	const struct prop_index *index; /* ended by name NULL */
	enum {
		PROP_SHOW_PLAIN,
		PROP_SHOW_BYTES,
		PROP_SHOW_BYTES_NONE,
		PROP_SHOW_COUNT,
		PROP_SHOW_COUNT_NONE,
		PROP_SHOW_RATIO,
		PROP_SHOW_DATE,
		PROP_SHOW_YESNO
	} show;
};
extern const struct prop_def dsl_prop_table[];
extern const size_t dsl_prop_table_len;
const struct prop_def *dsl_prop_find(const char *name); /* name or column alias, NULL */
/* "on | off", "<size> | none" and so on. */
const char *dsl_prop_values(const struct prop_def *def);

/*
 * Delegation (section 7) of a dir and its parents, nearest first; levels without any are left out:
 *   "tank/a": { "sets": { "@adm": [permission or @set, ...] }, "create": [...],
 *               "local" | "descendent" | "local+descendent": [ { "who": "user" | "group" | "everyone", "id": number,
 *               "name": string, "permissions": [...] }, ... ] }
 * Permissions are sorted; "name" is the number in digits where the system knows no name.
 */
int dsl_deleg_get(struct dsl_dir *d, struct nvlist **out);

/* Keys (chapter 04, A1.3 - A1.5). */
/* Encryption root of a dataset; -ENOENT when not encrypted. *root has the root dir's name. */
int dsl_crypt_root(struct dsl_dir *d, char root[DSL_NAME_MAX]);
bool dsl_key_is_loaded(struct dsl_dir *d); /* also true when not encrypted: see dir->crypto_obj */
/* Key material as read from prompt or file: passphrase text, hex digits or 32 raw bytes. check_only: nothing is kept.
 * -EACCES wrong key, -EINVAL malformed, -EEXIST already loaded. */
int dsl_key_load(struct dsl_pool *p, const char *root, const void *material, size_t len, bool check_only,
		 struct err *e);
int dsl_key_unload(struct dsl_pool *p, const char *root, struct err *e); /* -EBUSY while objsets are open */
/* The data key of a dataset (held), -EKEY when the wrapping key is not loaded. */
int dsl_crypt_key_hold(struct dsl_dataset *ds, struct crypt_key **out, struct err *e);

#endif
