/*
 * zpl/zpl_impl.h: what the files of this folder share.
 */
#ifndef ZPL_ZPL_IMPL_H
#define ZPL_ZPL_IMPL_H

#include "zpl/zpl.h"

#define ZPL_FILE_TYPE   19 /* object types */
#define ZPL_DIR_TYPE    20
#define ZPL_OBJECT_MASK ((UINT64_C(1) << 48) - 1)
#define ZPL_MASTER_NODE 1
#define ZPL_PARENTS_MAX 2048 /* deepest path that is followed upwards: parents of a damaged tree may form a loop */

/* pflags (4.9) */
#define ZPL_XATTR           0x1u
#define ZPL_BONUS_STAMP     0x80u
#define ZPL_INHERIT_ACE     0x2u
#define ZPL_NO_EXECS_DENIED 0x100u
#define ZPL_ARCHIVE         0x800000000u
#define ZPL_IMMUTABLE       0x1000000000u
#define ZPL_AV_MODIFIED     0x40000000000u
#define ZPL_PROJINHERIT     0x400000000000u
#define ZPL_HAS_PROJID      0x800000000000u

/* Versions of file systems that brought things (1.2). */
#define ZPL_VERSION_TYPES 2 /* types in directory entries */
#define ZPL_VERSION_FUID  3 /* ACEs of version 1, name properties, DOS attributes */
#define ZPL_VERSION_SPACE 4 /* accounting by user and group */
#define ZPL_VERSION_SA    5

#define ZPL_FEATURE_USEROBJ "org.zfsonlinux:userobj_accounting"
#define ZPL_FEATURE_PROJECT "org.zfsonlinux:project_quota"
static inline bool zpl_feature_enabled(struct objset *os, const char *guid)
{
	return os->ops && os->ops->enabled && os->ops->enabled(os, guid);
}
/* Of directories' ZAPs (1.1). */
static inline uint64_t zpl_normflags(uint64_t normalization, uint64_t casesensitivity)
{
	return normalization | (casesensitivity ? 0x2u : 0);
}

/* A directory that is about to be made; its entry in the parent is not made here. */
struct zpl_new_dir {
	struct objset *os;
	struct sa_os *sa;
	uint64_t version, normflags;
	uint64_t parent; /* 0: itself, the root */
	uint64_t mode, uid, gid, projid, flags;
	bool has_projid;
};
/* -EAGAIN as of sa_store; after any error nothing is left of it. */
int zpl_dir_make(const struct zpl_new_dir *n, struct tx *tx, uint64_t *object);
#define ZPL_IS_DIR(zn)    (((zn)->mode & S_IFMT) == S_IFDIR)
#define ZPL_IS_LINK(zn)   (((zn)->mode & S_IFMT) == S_IFLNK)
#define ZPL_IS_REG(zn)    (((zn)->mode & S_IFMT) == S_IFREG)
#define ZPL_IS_DEVICE(zn) (((zn)->mode & S_IFMT) == S_IFBLK || ((zn)->mode & S_IFMT) == S_IFCHR)

/* zpl_acl.c: the ACL of a legacy znode as entries of version 1, host order, malloc'd (2.10); -ENOENT: none. */
int zpl_acl_legacy_v1(struct znode *zn, uint8_t **aces, size_t *len, size_t *count);
/* The object that has it, 0: none that is what it should be. */
int zpl_acl_legacy_object(struct znode *zn, uint64_t *object);

/* zpl_convert.c: sa_change for an object of any form. A legacy znode that has no place for the values is converted
 * where that is allowed (2.10); DACL_COUNT and DACL_ACES are its ACL then, when they are among the values. -EAGAIN as
 * of sa_change, -ENOTSUP: there is no place, and none can be made. */
int zpl_sa_change(struct znode *zn, const struct sa_value *v, size_t n, struct tx *tx);

int zpl_fuid_open(struct zpl *z);
void zpl_fuid_close(struct zpl *z);

/* One entry's object number, by the given matching. */
int zpl_dir_entry(struct zpl *z, uint64_t dir, const char *name, unsigned match, uint64_t *id, char *real);

/* zpl_object_path that says whether every part of the path is known. */
int zpl_object_path_known(struct zpl *z, uint64_t id, char **path, bool *known);

/* dsl_owner_fn. */
int zpl_owner(struct objset *os, const struct dnode *dn, const uint8_t *bonus, size_t len, uint64_t *uid, uint64_t *gid,
	      uint64_t *project);

static inline void autoznode_release(struct znode **zn)
{
	if (*zn)
		znode_release(*zn);
}
#define autoznode __attribute__((cleanup(autoznode_release), unused))

#endif
