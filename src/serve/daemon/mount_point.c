/*
 * Directories for mount points. Mounts are read-only for everybody, but a file system below another is mounted in a
 * directory of it: that one is made through the file system itself.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sync.h"
#include "serve/daemon/mounts.h"

/* Where a path lies. */
struct place {
	struct spa *spa; /* held */
	uint64_t dataset;
	size_t len; /* of the mount's directory, at the path's start */
};

/* Bytes of `dir` when the path lies below it, else 0. */
static size_t prefix_len(const char *dir, const char *path)
{
	size_t len = strlen(dir);

	while (len > 0 && dir[len - 1] == '/')
		len--;
	return strncmp(dir, path, len) == 0 && path[len] == '/' ? MAX(len, 1) : 0;
}

static struct mount *mount_over_locked(struct tarn_daemon *d, const char *path, size_t *len)
{
	struct mount *best = NULL;

	*len = 0;
	list_for_each(&d->pools, pn) {
		struct pool *p = container_of(pn, struct pool, node);

		list_for_each(&p->mounts, mn) {
			struct mount *m = container_of(mn, struct mount, node);
			size_t here = m->fuse && !m->ending ? prefix_len(m->dir, path) : 0;

			if (here <= *len)
				continue;
			*len = here;
			best = m;
		}
	}
	return best;
}

static bool place_find(struct tarn_daemon *d, const char *path, struct place *out)
{
	struct mount *m;

	SCOPED_LOCK(&d->lock);
	m = mount_over_locked(d, path, &out->len);
	if (!m)
		return false;
	out->spa = m->pool->spa;
	out->dataset = m->dataset;
	spa_hold(out->spa);
	return true;
}

/* The kernel may remember that there is no such name. */
static void kernel_tell(struct tarn_daemon *d, const char *path, uint64_t dataset, uint64_t parent, const char *name)
{
	struct mount *m;
	size_t len;

	SCOPED_LOCK(&d->lock);
	m = mount_over_locked(d, path, &len);
	if (m && m->dataset == dataset)
		fuse_mount_entry_made(m->fuse, parent, name);
}

static int make_in(struct tarn_daemon *d, const char *path, const struct place *at, struct zpl *z, struct err *e)
{
	autofree char *below = xstrdup(path + at->len);
	char *name = strrchr(below, '/');
	struct znode *parent;
	uint64_t id, parent_id;
	int err;

	*name++ = '\0';
	err = zpl_path_lookup(z, below, &parent, e);
	if (err)
		return err;
	parent_id = parent->id;
	znode_release(parent);
	err = zpl_mkdir(z, parent_id, name, 0755, geteuid(), getegid(), &id, e);
	if (!err)
		kernel_tell(d, path, at->dataset, parent_id, name);
	return err;
}

static int make_at(struct tarn_daemon *d, const char *path, const struct place *at, struct err *e)
{
	struct dsl_dataset *ds;
	struct zpl *z;
	int err = dsl_dataset_hold_obj(at->spa->dsl, at->dataset, &ds, e);

	if (err)
		return err;
	err = zpl_open(ds, &z, e);
	if (!err) {
		err = make_in(d, path, at, z, e);
		zpl_close(z);
	}
	dsl_dataset_release(ds);
	return err;
}

int mount_point_make(struct tarn_daemon *d, const char *path, struct err *e)
{
	struct place at;
	int err;

	if (mkdir(path, 0755) == 0 || errno == EEXIST)
		return 0;
	err = -errno;
	if (err != -EROFS || !place_find(d, path, &at))
		return err_set(e, err, "%s", strerror(-err));
	err = make_at(d, path, &at, e);
	spa_release(at.spa);
	return err;
}
