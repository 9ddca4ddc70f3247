/*
 * zpl/zpl.h: file systems without FUSE (docs/format/07-filesystem-zvol-zil.md, sections 1 - 7). Read side.
 *
 * A zfs (struct zpl) is one mounted head or snapshot. A znode is an immutable decoded object, reference counted. All
 * calls may wait for devices and run on any thread but cpu workers, except zpl_read_submit, which never blocks.
 */
#ifndef ZPL_ZPL_H
#define ZPL_ZPL_H

#include <sys/stat.h>

#include "dmu/sa.h"
#include "dsl/dsl.h"

#define ZPL_NAME_MAX 1023

struct zpl {
	struct objset *os;
	struct dsl_dataset *ds;
	struct sa_os *sa;
	uint64_t version, root, delete_queue, normalization,
	    casesensitivity; /* as in the master node; case 0 sensitive, 1 insensitive, 2 mixed */
	bool utf8only;
	uint64_t fuid_table;
	unsigned name_match;   /* ZAP_MATCH_* for look-ups */
	bool longname;         /* names of more than 255 bytes exist (3.3) */
	struct zpl_fuid *fuid; /* domain table, NULL when there is none */
};
struct zpl_fuid;
int zpl_open(struct dsl_dataset *ds, struct zpl **out, struct err *e);
void zpl_close(struct zpl *z);

struct znode {
	struct zpl *zpl;
	struct dnode *dn;
	struct sa sa;
	uint64_t id, gen, mode, size, parent, links, uid, gid, rdev, flags, projid;
	struct timespec atime, mtime, ctime, crtime;
	atomic_uint refs;
};
/* -ENOENT: no such object; -EINVAL: not a file; -EIO and others: damaged. */
int znode_hold(struct zpl *z, uint64_t id, struct znode **out, struct err *e);
struct znode *znode_ref(struct znode *zn);
void znode_release(struct znode *zn);
void znode_stat(const struct znode *zn, struct stat *st); /* st_blocks, st_blksize and the device included */

/* name as the user gave it; real (ZPL_NAME_MAX + 1, may be NULL) as stored. */
int zpl_lookup(struct znode *dir, const char *name, uint64_t *id, char *real);
/* Path below `from` ("" or "." is itself), no symbolic links followed. */
int zpl_path_lookup(struct zpl *z, const char *path, struct znode **out, struct err *e);
struct zpl_dirent {
	char name[ZPL_NAME_MAX + 1];
	uint64_t id;
	unsigned dtype; /* DT_* */
	uint64_t next;  /* cookie of the entry after this one */
};
/* Cookies as 07, 3.4: 0 ".", 1 "..", 2 ".zfs" place, then hash order. -ENOENT at the end. */
struct zpl_dir;
int zpl_dir_open(struct znode *dir, uint64_t cookie, struct zpl_dir **out);
int zpl_dir_next(struct zpl_dir *d, struct zpl_dirent *de);
void zpl_dir_close(struct zpl_dir *d);

/* Data: cut at the file's size. */
void zpl_read_submit(struct znode *zn, struct dmu_read *r);
int zpl_read(struct znode *zn, uint64_t offset, void *dst, size_t len, size_t *got);
int zpl_seek(struct znode *zn, uint64_t *offset, bool hole); /* SEEK_HOLE / SEEK_DATA semantics; -ENXIO */
int zpl_readlink(struct znode *zn, char **target);           /* malloc'd */

/* Extended attributes with Linux names (both forms, 5.7 - 5.10), POSIX ACLs as system.posix_acl_access / _default. */
int zpl_xattr_get(struct znode *zn, const char *name, void **value, size_t *len); /* malloc'd; -ENODATA */
int zpl_xattr_list(struct znode *zn, char **names, size_t *len);                  /* NUL-separated, malloc'd */
/* NFSv4 ACL: entries in host order; text for zdb and extract. */
struct zpl_ace {
	uint64_t who; /* FUID; nothing for owner@, group@, everyone@ */
	uint32_t access_mask;
	uint16_t flags, type;
};
/* -ENOENT: the file has none, its mode says it all. *aces is malloc'd; NULL, and *n 0, after any
 * error. */
int zpl_acl_get(struct znode *zn, struct zpl_ace **aces, size_t *n);

/* Domain (SID) of a FUID, "" for POSIX ids, NULL when the table does not have it. */
const char *zpl_fuid_domain(const struct zpl *z, uint64_t fuid);
/* What Linux shows for a FUID: its low 32 bits. */
static inline uint32_t zpl_fuid_id(uint64_t fuid)
{
	return (uint32_t)fuid;
}

/* Path of an object by its parents (error lists, diff). malloc'd; "???" parts where it cannot be known. */
int zpl_object_path(struct zpl *z, uint64_t id, char **path);
struct zpl_space {
	uint64_t used, quota, objused, objquota;
};
enum zpl_who { ZPL_USER, ZPL_GROUP, ZPL_PROJECT };
/* Every id that has usage or a quota (section 6). domain "" for POSIX ids. */
int zpl_space_each(struct zpl *z, enum zpl_who who,
		   int (*fn)(void *arg, const char *domain, uint64_t id, const struct zpl_space *s), void *arg);

/*
 * Differences between two snapshots, or a snapshot and a later head or clone (zfs diff): one call per change, in the
 * order of object numbers. Paths begin with "/" at the root of the file system. Stops at the first non-zero return of
 * fn, which is returned. Only dnode blocks that are not the same in both are read.
 */
struct zpl_change {
	char kind;                   /* '+', '-', 'M', 'R' */
	char type;                   /* 09-cli.md 9.5 */
	const char *path, *new_path; /* new_path for 'R' */
	int64_t link_delta;
	struct timespec ctime;
};
int zpl_diff(struct zpl *from, struct zpl *to, int (*fn)(void *arg, const struct zpl_change *c), void *arg,
	     struct err *e);

/* The objects of a new file system (07, 1.3), for dsl_create and spa_create: master node, unlinked set, root directory
 * (of root), SA tables. props (may be NULL), all numbers: normalization, utf8only, casesensitivity, version (absent:
 * defaults). Which accounting there is follows from the pool's features. Syncing context; the set is new and holds
 * nothing, so that only memory can be missing. */
int zpl_create_objects(struct objset *os, const struct nvlist *props, struct tx *tx);

/*
 * Makes an empty directory in a file system that is open for writing; waits for its group. Allowed also where the mount
 * is read-only: it is for mount points of file systems below. mode: permissions. -EEXIST; -EROFS: the pool or the file
 * system is read-only; -ENOTSUP: the parent has ACL entries that a new directory would inherit.
 */
int zpl_mkdir(struct zpl *z, uint64_t parent, const char *name, uint32_t mode, uint64_t uid, uint64_t gid,
	      uint64_t *object, struct err *e);

#endif
