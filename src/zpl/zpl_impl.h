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
#define ZPL_XATTR         0x1u
#define ZPL_BONUS_STAMP   0x80u
#define ZPL_HAS_PROJID    0x800000000000u
#define ZPL_IS_DIR(zn)    (((zn)->mode & S_IFMT) == S_IFDIR)
#define ZPL_IS_LINK(zn)   (((zn)->mode & S_IFMT) == S_IFLNK)
#define ZPL_IS_REG(zn)    (((zn)->mode & S_IFMT) == S_IFREG)
#define ZPL_IS_DEVICE(zn) (((zn)->mode & S_IFMT) == S_IFBLK || ((zn)->mode & S_IFMT) == S_IFCHR)

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
