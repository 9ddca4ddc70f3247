/*
 * One function per FUSE operation. Pools are read-only here, so the kernel may keep names, attributes and pages as long
 * as it likes.
 */
#include "serve/fuse/node.h"

#include <unistd.h>

/* More vectors than one writev takes: gathered into one piece instead. */
#define VECTORS_MAX 1000

static const uint8_t zeros[FUSE_READ_MAX];

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fuse_mount *m = userdata;

	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_AUTO_INVAL_DATA);
	conn->want |= conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
				       FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPORT_SUPPORT);
	if (m->posix_acl)
		conn->want |= conn->capable & FUSE_CAP_POSIX_ACL;
	conn->max_write = FUSE_READ_MAX; /* libfuse derives the size of all requests from it */
	conn->max_read = FUSE_READ_MAX;
	conn->max_readahead = 8 * FUSE_READ_MAX;
	conn->max_background = 64;
}

/* ---- names and attributes ---- */

void node_stat(const struct fuse_mount *m, const struct held *h, struct stat *st)
{
	znode_stat(h->zn, st);
	if (h->snap && h->zn->id == h->zn->zpl->root)
		st->st_ino = SNAPROOT_INO - h->zn->zpl->ds->object;
	else if (h->snap)
		st->st_ino = node_number(m, h->snap, h->zn->id);
}

static void entry_fill(struct fuse_mount *m, const struct held *h, struct fuse_entry_param *e)
{
	e->ino = node_number(m, h->snap, h->zn->id);
	e->generation = h->zn->gen;
	e->attr_timeout = e->entry_timeout = FOREVER_S;
	node_stat(m, h, &e->attr);
	node_add_lookup(m, h);
}

int entry_of(struct fuse_mount *m, struct snap *snap, struct zpl *zpl, uint64_t object, struct fuse_entry_param *e)
{
	struct held h;
	int err = node_hold_object(m, snap, zpl, object, &h);

	if (err)
		return err;
	entry_fill(m, &h, e);
	node_drop(m, &h);
	return 0;
}

/* Snapshots have no .zfs of their own, and snapdir=disabled takes it away. */
bool control_exists(const struct fuse_mount *m)
{
	return !m->zpl->ds->is_snapshot && m->args.snapdir != 2;
}

/* "." is asked of files too, by who has but their number (NFS). */
static int lookup_in(struct fuse_mount *m, const struct held *dir, const char *name, struct fuse_entry_param *e)
{
	uint64_t object;
	int err;

	if (strcmp(name, ".") == 0) {
		entry_fill(m, dir, e);
		return 0;
	}
	err = zpl_lookup(dir->zn, name, &object, NULL);
	return err ? err : entry_of(m, dir->snap, dir->zn->zpl, object, e);
}

static int lookup(struct fuse_mount *m, uint64_t parent, const char *name, struct fuse_entry_param *e)
{
	struct held dir;
	int err;

	if (control_is(parent) || (parent == FUSE_ROOT_ID && strcmp(name, ".zfs") == 0 && control_exists(m)))
		return control_lookup(m, parent, name, e);
	err = node_hold(m, parent, &dir);
	if (err)
		return err;
	err = lookup_in(m, &dir, name, e);
	node_drop(m, &dir);
	return err;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = {0};
	int err = lookup(mount_of(req), parent, name, &e);

	if (err == -ENOENT) { /* the kernel may remember that there is no such name */
		e.entry_timeout = FOREVER_S;
		err = 0;
	}
	if (err)
		fuse_reply_err(req, errno_of(err));
	else if (fuse_reply_entry(req, &e) && e.ino && !control_is(e.ino))
		node_forget(mount_of(req), e.ino, 1);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	node_forget(mount_of(req), ino, lookups);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		node_forget(mount_of(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_mount *m = mount_of(req);
	struct held h;
	struct stat st;
	int err = 0;

	if (control_is(ino)) {
		control_stat(m, ino, &st);
	} else {
		err = node_hold(m, ino, &h);
		if (!err) {
			node_stat(m, &h, &st);
			node_drop(m, &h);
		}
	}
	if (err)
		fuse_reply_err(req, errno_of(err));
	else
		fuse_reply_attr(req, &st, FOREVER_S);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct held h;
	autofree char *target = NULL;
	int err = node_hold(mount_of(req), ino, &h);

	if (!err) {
		err = zpl_readlink(h.zn, &target);
		node_drop(mount_of(req), &h);
	}
	if (err)
		fuse_reply_err(req, errno_of(err));
	else
		fuse_reply_readlink(req, target);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	fuse_reply_statfs(req, &mount_of(req)->statvfs);
}

/* ---- files ---- */

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *handle;
	struct held h;
	int err;

	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(req, EROFS);
		return;
	}
	err = node_hold(mount_of(req), ino, &h);
	if (err) {
		fuse_reply_err(req, errno_of(err));
		return;
	}
	handle = handle_create(mount_of(req), &h);
	fi->fh = (uint64_t)(uintptr_t)handle;
	fi->keep_cache = 1;
	if (fuse_reply_open(req, fi))
		handle_free(mount_of(req), handle);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	handle_free(mount_of(req), (struct handle *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

static struct znode *handle_znode(const struct fuse_file_info *fi)
{
	return ((struct handle *)(uintptr_t)fi->fh)->held.zn;
}

struct read_request {
	struct dmu_read read;
	fuse_req_t req;
};

static void reply_slices(fuse_req_t req, const struct dmu_read *r)
{
	struct iovec iov[VECTORS_MAX];

	for (unsigned i = 0; i < r->nslices; i++) {
		const struct dmu_slice *s = &r->slice[i];

		iov[i] = (struct iovec){(void *)(uintptr_t)(s->buf ? s->data : zeros), s->len};
	}
	fuse_reply_iov(req, iov, (int)r->nslices);
}

static void reply_gathered(fuse_req_t req, const struct dmu_read *r, size_t len)
{
	autofree uint8_t *flat = malloc(len);
	size_t at = 0;

	if (!flat) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	for (unsigned i = 0; i < r->nslices; i++) {
		const struct dmu_slice *s = &r->slice[i];

		memcpy(flat + at, s->buf ? s->data : zeros, s->len);
		at += s->len;
	}
	fuse_reply_buf(req, (char *)flat, at);
}

static void inflight_end(struct fuse_mount *m)
{
	pthread_mutex_lock(&m->lock);
	if (--m->inflight == 0)
		pthread_cond_broadcast(&m->idle);
	pthread_mutex_unlock(&m->lock);
}

static void read_done(struct dmu_read *r, int err)
{
	struct read_request *rr = container_of(r, struct read_request, read);
	struct fuse_mount *m = r->arg;
	size_t len = 0;

	for (unsigned i = 0; !err && i < r->nslices; i++)
		len += r->slice[i].len;
	if (err)
		fuse_reply_err(rr->req, errno_of(err));
	else if (r->nslices <= VECTORS_MAX)
		reply_slices(rr->req, r);
	else
		reply_gathered(rr->req, r, len);
	dmu_read_finish(r);
	free(rr);
	inflight_end(m);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fuse_mount *m = mount_of(req);
	struct read_request *rr = xcalloc(1, sizeof(*rr));

	rr->req = req;
	rr->read.offset = (uint64_t)off;
	rr->read.length = MIN(size, (size_t)FUSE_READ_MAX);
	rr->read.done = read_done;
	rr->read.arg = m;
	pthread_mutex_lock(&m->lock);
	m->inflight++;
	pthread_mutex_unlock(&m->lock);
	zpl_read_submit(handle_znode(fi), &rr->read);
}

static void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	uint64_t at = (uint64_t)off;
	int err = -EINVAL;

	if (off < 0)
		err = -ENXIO;
	else if (whence == SEEK_HOLE || whence == SEEK_DATA)
		err = zpl_seek(handle_znode(fi), &at, whence == SEEK_HOLE);
	if (err)
		fuse_reply_err(req, err == -ENXIO ? ENXIO : errno_of(err)); /* behind the last data or the end */
	else
		fuse_reply_lseek(req, (off_t)at);
}

/* ---- extended attributes ---- */

/* size 0 asks for the length. */
static void reply_sized(fuse_req_t req, int err, const void *data, size_t len, size_t size)
{
	if (err)
		fuse_reply_err(req, errno_of(err));
	else if (size == 0)
		fuse_reply_xattr(req, len);
	else if (len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, data, len);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	autofree void *value = NULL;
	size_t len = 0;
	struct held h;
	int err = control_is(ino) ? -ENODATA : node_hold(mount_of(req), ino, &h);

	if (!err) {
		err = zpl_xattr_get(h.zn, name, &value, &len);
		node_drop(mount_of(req), &h);
	}
	reply_sized(req, err, value, len, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	autofree char *names = NULL;
	size_t len = 0;
	struct held h;
	int err = 0;

	if (!control_is(ino)) {
		err = node_hold(mount_of(req), ino, &h);
		if (!err) {
			err = zpl_xattr_list(h.zn, &names, &len);
			node_drop(mount_of(req), &h);
		}
	}
	reply_sized(req, err, names, len, size);
}

const struct fuse_lowlevel_ops fuse_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .readlink = op_readlink,
    .statfs = op_statfs,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .releasedir = op_releasedir,
    .open = op_open,
    .read = op_read,
    .release = op_release,
    .lseek = op_lseek,
    .getxattr = op_getxattr,
    .listxattr = op_listxattr,
};
