/*
 * zpl/znode.c: one file, directory or other node, decoded (docs/format/07-filesystem-zvol-zil.md, sections 2 and 4).
 */
#include <sys/sysmacros.h>

#include "zpl/zpl_impl.h"

static int znode_time(const struct sa *sa, enum sa_attr a, struct timespec *ts)
{
	int64_t tv[2];
	int rc = sa_time(sa, a, tv);

	if (rc)
		return rc;
	ts->tv_sec = tv[0];
	ts->tv_nsec = tv[1] >= 0 && tv[1] < 1000000000 ? tv[1] : 0;
	return 0;
}

/* What every node has. */
static int znode_required_read(struct znode *zn)
{
	const struct {
		enum sa_attr a;
		uint64_t *v;
	} words[] = {
	    {SA_MODE, &zn->mode}, {SA_SIZE, &zn->size},   {SA_GEN, &zn->gen},       {SA_UID, &zn->uid},
	    {SA_GID, &zn->gid},   {SA_LINKS, &zn->links}, {SA_PARENT, &zn->parent}, {SA_FLAGS, &zn->flags},
	};
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		rc = sa_u64(&zn->sa, words[i].a, words[i].v);
		if (rc)
			return rc == -ENOENT ? -EIO : rc;
	}
	return 0;
}

static int znode_attrs_read(struct znode *zn)
{
	int rc = znode_required_read(zn);

	if (rc)
		return rc;
	if (zn->gen == 0)
		return -ENOENT; /* 4.1 */
	znode_time(&zn->sa, SA_ATIME, &zn->atime);
	znode_time(&zn->sa, SA_MTIME, &zn->mtime);
	znode_time(&zn->sa, SA_CTIME, &zn->ctime);
	znode_time(&zn->sa, SA_CRTIME, &zn->crtime);
	if (ZPL_IS_DEVICE(zn) && sa_u64(&zn->sa, SA_RDEV, &zn->rdev))
		zn->rdev = 0;
	if (!(zn->flags & ZPL_HAS_PROJID) || sa_u64(&zn->sa, SA_PROJID, &zn->projid))
		zn->projid = 0;
	/* a mode that says directory about what is no ZAP, or the reverse, would send readers astray */
	if (ZPL_IS_DIR(zn) != (zn->dn->type == ZPL_DIR_TYPE) || zn->size > INT64_MAX)
		return -EIO;
	return 0;
}

static int znode_open(struct znode *zn)
{
	int rc;

	if (zn->id == 0 || zn->id > ZPL_OBJECT_MASK)
		return -EINVAL;
	rc = dnode_hold(zn->zpl->os, zn->id, &zn->dn, NULL);
	if (rc)
		return rc;
	if (zn->dn->type != ZPL_FILE_TYPE && zn->dn->type != ZPL_DIR_TYPE)
		return -EINVAL;
	rc = sa_open(zn->zpl->sa, zn->dn, &zn->sa);
	return rc ? rc : znode_attrs_read(zn);
}

int znode_hold(struct zpl *z, uint64_t id, struct znode **out, struct err *e)
{
	struct znode *zn = xcalloc(1, sizeof(*zn));
	int rc;

	zn->zpl = z;
	zn->id = id;
	atomic_init(&zn->refs, 1);
	rc = znode_open(zn);
	if (rc) {
		znode_release(zn);
		return err_set(e, rc, "%s: object %llu: %s", z->ds->name, (unsigned long long)id, err_words(rc));
	}
	*out = zn;
	return 0;
}

struct znode *znode_ref(struct znode *zn)
{
	atomic_fetch_add(&zn->refs, 1);
	return zn;
}

void znode_release(struct znode *zn)
{
	if (!zn || atomic_fetch_sub(&zn->refs, 1) != 1)
		return;
	sa_close(&zn->sa);
	if (zn->dn)
		dnode_release(zn->dn);
	free(zn);
}

void znode_stat(const struct znode *zn, struct stat *st)
{
	uint64_t fsid = zn->zpl->ds->fsid_guid;

	*st = (struct stat){
	    .st_dev = (dev_t)(fsid ^ fsid >> 32),
	    .st_ino = zn->id,
	    .st_mode = (mode_t)(zn->mode & 0177777),
	    .st_nlink = (nlink_t)MIN(zn->links, UINT32_MAX),
	    .st_uid = zpl_fuid_id(zn->uid),
	    .st_gid = zpl_fuid_id(zn->gid),
	    .st_rdev = makedev((unsigned)bits64(zn->rdev, 20, 12), (unsigned)bits64(zn->rdev, 0, 20)),
	    .st_size = (off_t)zn->size,
	    .st_blksize = (blksize_t)dnode_blocksize(zn->dn),
	    .st_blocks = (blkcnt_t)(zn->dn->used / 512 + zn->dn->slots),
	    .st_atim = zn->atime,
	    .st_mtim = zn->mtime,
	    .st_ctim = zn->ctime,
	};
}
