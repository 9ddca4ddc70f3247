/*
 * One function per FUSE operation. Pools are read-only here, so the kernel may keep names, attributes and pages as long
 * as it likes.
 */
#include "serve/fuse/node.h"

#include <dirent.h>
#include <unistd.h>

#define FOREVER_S 86400.0
#define READ_MAX  (1u << 20)
/* More vectors than one writev takes: gathered into one piece instead. */
#define VECTORS_MAX 1000

/* Where the walk of a root directory leaves room for ".zfs" (docs/format/07, 3.4). */
#define CONTROL_COOKIE 2

static const uint8_t zeros[READ_MAX];

static struct fuse_mount *mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fuse_mount *m = userdata;

	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_AUTO_INVAL_DATA);
	conn->want |= conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
				       FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPORT_SUPPORT);
	if (m->posix_acl)
		conn->want |= conn->capable & FUSE_CAP_POSIX_ACL;
	conn->max_write = READ_MAX; /* libfuse derives the size of all requests from it */
	conn->max_read = READ_MAX;
	conn->max_readahead = 8 * READ_MAX;
	conn->max_background = 64;
}

/* ---- names and attributes ---- */

static void node_stat(const struct fuse_mount *m, const struct snap *snap, const struct znode *zn, struct stat *st)
{
	znode_stat(zn, st);
	if (snap)
		st->st_ino = node_number(m, snap, zn->id);
}

static int entry_of(struct fuse_mount *m, struct snap *snap, struct zpl *zpl, uint64_t object,
		    struct fuse_entry_param *e)
{
	struct znode *zn;
	int err = znode_hold(zpl, object, &zn, NULL);

	if (err)
		return err;
	e->ino = node_number(m, snap, object);
	e->generation = zn->gen;
	e->attr_timeout = e->entry_timeout = FOREVER_S;
	node_stat(m, snap, zn, &e->attr);
	node_add_lookup(m, snap, zn);
	return 0;
}

/* Snapshots have no .zfs of their own, and snapdir=disabled takes it away. */
static bool control_exists(const struct fuse_mount *m)
{
	return !m->zpl->ds->is_snapshot && m->args.snapdir != 2;
}

static int lookup(struct fuse_mount *m, uint64_t parent, const char *name, struct fuse_entry_param *e)
{
	struct znode *dir;
	struct snap *snap;
	uint64_t object;
	int err;

	if (control_is(parent) || (parent == FUSE_ROOT_ID && strcmp(name, ".zfs") == 0 && control_exists(m)))
		return control_lookup(m, parent, name, e);
	err = node_get(m, parent, &dir, &snap);
	if (err)
		return err;
	err = zpl_lookup(dir, name, &object, NULL);
	if (!err)
		err = entry_of(m, snap, dir->zpl, object, e);
	znode_release(dir);
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
	struct znode *zn;
	struct snap *snap;
	struct stat st;
	int err = 0;

	if (control_is(ino)) {
		control_stat(m, ino, &st);
	} else {
		err = node_get(m, ino, &zn, &snap);
		if (!err) {
			node_stat(m, snap, zn, &st);
			znode_release(zn);
		}
	}
	if (err)
		fuse_reply_err(req, errno_of(err));
	else
		fuse_reply_attr(req, &st, FOREVER_S);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct znode *zn;
	autofree char *target = NULL;
	int err = node_get(mount_of(req), ino, &zn, NULL);

	if (!err) {
		err = zpl_readlink(zn, &target);
		znode_release(zn);
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

/* ---- directories ---- */

/* An open directory: the walk, and the entry that did not fit into the last reply. */
struct dir_handle {
	pthread_mutex_t lock; /* guards all below: the kernel may read one handle from two threads */
	struct zpl_dir *walk;
	struct zpl_dirent pending;
	bool has_pending;
	uint64_t at; /* cookie of the next entry */
};

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct dir_handle *h = NULL;

	if (!control_is(ino)) {
		h = xcalloc(1, sizeof(*h));
		pthread_mutex_init(&h->lock, NULL);
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	fi->cache_readdir = fi->keep_cache = h != NULL;
	if (fuse_reply_open(req, fi))
		free(h);
}

static void dir_handle_close(struct dir_handle *h)
{
	if (h->walk)
		zpl_dir_close(h->walk);
	h->walk = NULL;
	h->has_pending = false;
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct dir_handle *h = (struct dir_handle *)(uintptr_t)fi->fh;

	if (h) {
		dir_handle_close(h);
		pthread_mutex_destroy(&h->lock);
		free(h);
	}
	fuse_reply_err(req, 0);
}

static int dir_handle_seek(struct dir_handle *h, struct znode *dir, uint64_t cookie)
{
	if (h->walk && h->at == cookie)
		return 0;
	dir_handle_close(h);
	h->at = cookie;
	return zpl_dir_open(dir, cookie, &h->walk);
}

/* The next entry; -ENOENT at the end. The walk leaves a place for ".zfs" after "..". */
static int dir_handle_next(struct dir_handle *h, bool show_control, struct zpl_dirent **de)
{
	int err = 0;

	if (!h->has_pending && show_control && h->at == CONTROL_COOKIE)
		h->pending = (struct zpl_dirent){
		    .name = ".zfs", .id = CTLDIR_INO, .dtype = DT_DIR, .next = CONTROL_COOKIE + 1};
	else if (!h->has_pending)
		err = zpl_dir_next(h->walk, &h->pending);
	h->has_pending = err == 0;
	*de = &h->pending;
	return err;
}

static unsigned type_to_mode(unsigned dtype)
{
	return dtype << 12; /* DT_* are the type bits of S_IF* */
}

struct dir_fill {
	fuse_req_t req;
	struct znode *dir;
	struct snap *snap;
	bool plus;
	char *buf;
	size_t size, used;
};

static size_t dir_fill_plus(struct dir_fill *f, const struct zpl_dirent *de, struct fuse_entry_param *e)
{
	struct fuse_mount *m = mount_of(f->req);
	bool dots = strcmp(de->name, ".") == 0 || strcmp(de->name, "..") == 0;
	size_t need;

	/* A damaged object is still listed; its attributes fail when somebody asks for them. */
	if (dots || entry_of(m, f->snap, f->dir->zpl, de->id, e)) {
		memset(e, 0, sizeof(*e));
		e->attr.st_ino = node_number(m, f->snap, de->id);
		e->attr.st_mode = type_to_mode(de->dtype);
	}
	need = fuse_add_direntry_plus(f->req, f->buf + f->used, f->size - f->used, de->name, e, (off_t)de->next);
	if (need > f->size - f->used && e->ino)
		node_forget(m, e->ino, 1);
	return need;
}

/* false: the reply is full. */
static bool dir_fill_add(struct dir_fill *f, const struct zpl_dirent *de)
{
	struct fuse_entry_param e = {0};
	size_t need;

	if (f->plus) {
		need = dir_fill_plus(f, de, &e);
	} else {
		e.attr.st_ino = f->snap ? node_number(mount_of(f->req), f->snap, de->id) : de->id;
		e.attr.st_mode = type_to_mode(de->dtype);
		need = fuse_add_direntry(f->req, f->buf + f->used, f->size - f->used, de->name, &e.attr,
					 (off_t)de->next);
	}
	if (need > f->size - f->used)
		return false;
	f->used += need;
	return true;
}

static int dir_fill_all(struct dir_fill *f, struct dir_handle *h, uint64_t cookie)
{
	const struct fuse_mount *m = mount_of(f->req);
	bool show_control = f->dir->id == m->zpl->root && !f->snap && m->args.snapdir == 1 && control_exists(m);
	struct zpl_dirent *de;
	int err = dir_handle_seek(h, f->dir, cookie);

	while (!err) {
		err = dir_handle_next(h, show_control, &de);
		if (err || !dir_fill_add(f, de))
			break;
		h->has_pending = false;
		h->at = de->next;
	}
	if (err == -ENOENT || f->used > 0)
		return 0; /* what was read is delivered; an error comes back with the next call */
	return err;
}

static void readdir_reply(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi, bool plus)
{
	struct dir_handle *h = (struct dir_handle *)(uintptr_t)fi->fh;
	struct dir_fill f = {.req = req, .plus = plus, .size = MIN(size, (size_t)READ_MAX)};
	int err;

	if (!h) {
		control_readdir(mount_of(req), req, ino, f.size, off, plus);
		return;
	}
	err = node_get(mount_of(req), ino, &f.dir, &f.snap);
	if (err) {
		fuse_reply_err(req, errno_of(err));
		return;
	}
	f.buf = xmalloc(f.size);
	pthread_mutex_lock(&h->lock);
	err = dir_fill_all(&f, h, (uint64_t)off);
	pthread_mutex_unlock(&h->lock);
	if (err)
		fuse_reply_err(req, errno_of(err));
	else
		fuse_reply_buf(req, f.buf, f.used);
	free(f.buf);
	znode_release(f.dir);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	readdir_reply(req, ino, size, off, fi, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	readdir_reply(req, ino, size, off, fi, true);
}

/* ---- files ---- */

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct znode *zn;
	int err;

	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(req, EROFS);
		return;
	}
	err = node_get(mount_of(req), ino, &zn, NULL);
	if (err) {
		fuse_reply_err(req, errno_of(err));
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)zn; /* the handle holds it */
	fi->keep_cache = 1;
	if (fuse_reply_open(req, fi))
		znode_release(zn);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	znode_release((struct znode *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
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
	rr->read.length = MIN(size, (size_t)READ_MAX);
	rr->read.done = read_done;
	rr->read.arg = m;
	pthread_mutex_lock(&m->lock);
	m->inflight++;
	pthread_mutex_unlock(&m->lock);
	zpl_read_submit((struct znode *)(uintptr_t)fi->fh, &rr->read);
}

static void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	struct znode *zn = (struct znode *)(uintptr_t)fi->fh;
	uint64_t at = (uint64_t)off;
	int err = -EINVAL;

	if (off < 0)
		err = -ENXIO;
	else if (whence == SEEK_HOLE || whence == SEEK_DATA)
		err = zpl_seek(zn, &at, whence == SEEK_HOLE);
	if (err)
		fuse_reply_err(req, errno_of(err));
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
	struct znode *zn;
	int err = control_is(ino) ? -ENODATA : node_get(mount_of(req), ino, &zn, NULL);

	if (!err) {
		err = zpl_xattr_get(zn, name, &value, &len);
		znode_release(zn);
	}
	reply_sized(req, err, value, len, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	autofree char *names = NULL;
	size_t len = 0;
	struct znode *zn;
	int err = 0;

	if (!control_is(ino)) {
		err = node_get(mount_of(req), ino, &zn, NULL);
		if (!err) {
			err = zpl_xattr_list(zn, &names, &len);
			znode_release(zn);
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
