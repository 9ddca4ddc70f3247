/*
 * zpl/zpl_mkdir.c: a new directory in a directory (07-filesystem-zvol-zil.md, 3.1, 3.5, 4.1, 4.14).
 */
#include <pthread.h>
#include <time.h>

#include "base/hash.h"
#include "base/sync.h"
#include "zpl/zpl_impl.h"

#define NAME_BYTES   255
#define CHANGE_BYTES (512u << 10) /* the most that this writes */
#define TYPE_DIR     (UINT64_C(4) << 60)
#define LOCKS        16u
#define LAYOUT_TRIES 8 /* names first, then layouts; the rest is for others who add some */

/* One change at a time in an object set, as maps ask for; taken before the transaction begins, and held to
 * its end. Stripes by set. */
static pthread_mutex_t locks[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

struct mkdir {
	struct zpl *z;
	struct znode *dir;
	const char *name;
	struct zpl_new_dir n;
	uint64_t object;
};

static bool name_is_utf8(const char *name)
{
	for (const uint8_t *p = (const uint8_t *)name; *p;) {
		unsigned more = *p < 0x80                 ? 0
				: *p >= 0xc2 && *p < 0xe0 ? 1
				: (*p & 0xf0) == 0xe0     ? 2
				: (*p & 0xf8) == 0xf0     ? 3
							  : 9;

		if (more == 9)
			return false;
		for (p++; more > 0; more--, p++)
			if ((*p & 0xc0) != 0x80)
				return false;
	}
	return true;
}

static int name_check(const struct mkdir *m, struct err *e)
{
	uint64_t there;
	int err;

	if (!*m->name || strcmp(m->name, ".") == 0 || strcmp(m->name, "..") == 0 || strchr(m->name, '/'))
		return err_set(e, -EINVAL, "'%s' is no name for a directory", m->name);
	if (strlen(m->name) > NAME_BYTES)
		return err_set(e, -ENAMETOOLONG, "the name is too long");
	if (m->z->utf8only && !name_is_utf8(m->name))
		return err_set(e, -EILSEQ, "the name is not UTF-8");
	if (m->dir->id == m->z->root && strcmp(m->name, ".zfs") == 0)
		return err_set(e, -EEXIST, "it exists");
	err = zpl_lookup(m->dir, m->name, &there, NULL);
	if (err == 0)
		return err_set(e, -EEXIST, "it exists");
	return err == -ENOENT ? 0 : err_set(e, err, "cannot look it up: %s", err_words(err));
}

static int parent_check(const struct mkdir *m, struct err *e)
{
	autofree void *acl = NULL;
	size_t len;

	if (!ZPL_IS_DIR(m->dir))
		return err_set(e, -ENOTDIR, "not a directory");
	if (m->dir->links == 0)
		return err_set(e, -ENOENT, "the directory was removed");
	if (m->dir->flags & ZPL_IMMUTABLE)
		return err_set(e, -EPERM, "the directory is immutable");
	if (m->dir->flags & ZPL_INHERIT_ACE || zpl_xattr_get(m->dir, "system.posix_acl_default", &acl, &len) == 0)
		return err_set(e, -ENOTSUP, "the directory has ACL entries to be inherited, which is not supported");
	return 0;
}

/* What comes from the parent. */
static void inherit(struct mkdir *m)
{
	struct zpl_new_dir *n = &m->n;

	n->parent = m->dir->id;
	if (m->dir->mode & S_ISGID) {
		n->gid = m->dir->gid;
		n->mode |= S_ISGID;
	}
	n->has_projid = m->z->version >= ZPL_VERSION_SA && zpl_feature_enabled(m->z->os, ZPL_FEATURE_PROJECT);
	if (n->has_projid && m->dir->flags & ZPL_PROJINHERIT) {
		n->projid = m->dir->projid;
		n->flags |= ZPL_PROJINHERIT;
	}
}

static int parent_update(const struct mkdir *m, struct tx *tx)
{
	uint64_t size = m->dir->size + 1, links = m->dir->links + 1, flags = m->dir->flags, now[2];
	const struct sa_value v[] = {
	    {SA_SIZE, &size, 8}, {SA_LINKS, &links, 8}, {SA_FLAGS, &flags, 8}, {SA_MTIME, now, 16}, {SA_CTIME, now, 16},
	};
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	now[0] = ts.tv_sec;
	now[1] = ts.tv_nsec;
	if (m->z->version >= ZPL_VERSION_FUID)
		flags |= ZPL_ARCHIVE | ZPL_AV_MODIFIED;
	return zpl_sa_change(m->dir, v, ARRAY_LEN(v), tx);
}

/* In the same transaction that began it: as if it had never been. */
static void undo(struct mkdir *m, bool entered, struct tx *tx)
{
	if (entered)
		zap_remove(m->z->os, m->dir->id, m->name, tx);
	dmu_object_free(m->z->os, m->object, tx);
}

static int change(struct mkdir *m, struct tx *tx)
{
	int err = zpl_dir_make(&m->n, tx, &m->object), entered;

	if (err)
		return err;
	entered = zap_add_u64(m->z->os, m->dir->id, m->name,
			      m->object | (m->z->version >= ZPL_VERSION_TYPES ? TYPE_DIR : 0), tx);
	err = entered ? entered : parent_update(m, tx);
	if (err)
		undo(m, entered == 0, tx);
	return err;
}

/* *txg: the group to wait for. */
static int change_once(struct mkdir *m, uint64_t *txg)
{
	struct tx tx = {.os = m->z->os, .bytes = CHANGE_BYTES};
	int err = tx_begin_wait(m->z->os->dp->txgs, &tx);

	if (err)
		return err;
	err = change(m, &tx);
	*txg = tx.txg;
	tx_end(&tx);
	return err;
}

static int transaction(struct mkdir *m, uint64_t *txg, struct err *e)
{
	int err = change_once(m, txg);

	for (unsigned i = 0; i < LAYOUT_TRIES && err == -EAGAIN; i++) {
		err = sa_layouts_add(m->z->sa);
		if (!err)
			err = change_once(m, txg);
	}
	return err ? err_set(e, err, "%s", err == -ENOSPC ? "out of space" : err_words(err)) : 0;
}

static int make(struct mkdir *m, uint64_t parent, uint64_t *txg, struct err *e)
{
	SCOPED_LOCK(&locks[hash_mix((uintptr_t)m->z->os, 0) % LOCKS]);
	int err = znode_hold(m->z, parent, &m->dir, e);

	if (err)
		return err;
	err = parent_check(m, e);
	if (!err)
		err = name_check(m, e);
	if (!err) {
		inherit(m);
		err = transaction(m, txg, e);
	}
	znode_release(m->dir);
	return err;
}

int zpl_mkdir(struct zpl *z, uint64_t parent, const char *name, uint32_t mode, uint64_t uid, uint64_t gid,
	      uint64_t *object, struct err *e)
{
	struct mkdir m = {
	    .z = z,
	    .name = name,
	    .n =
		{
		    .os = z->os,
		    .sa = z->sa,
		    .version = z->version,
		    .normflags = zpl_normflags(z->normalization, z->casesensitivity),
		    .mode = mode & 07777,
		    .uid = uid,
		    .gid = gid,
		},
	};
	uint64_t txg = 0;
	int err;

	if (z->ds->is_snapshot || !z->os->ops || !z->os->dp->txgs || z->os->props.readonly)
		return err_set(e, -EROFS, "the file system is read-only");
	err = make(&m, parent, &txg, e);
	if (err)
		return err;
	err = txg_wait_synced(z->os->dp->txgs, txg);
	if (err)
		return err_set(e, err, "%s", err_words(err));
	*object = m.object;
	return 0;
}
