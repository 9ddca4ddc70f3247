/*
 * Listing directories. Cookies are those of zpl/, stable for as long as the pool does not change.
 */
#include "serve/fuse/node.h"

#include <dirent.h>

/* Where the walk of a root directory leaves room for ".zfs" (docs/format/07, 3.4). */
#define CONTROL_COOKIE 2

/* The walk of an open directory, and the entry that did not fit into the last reply. */
struct dir_walk {
	pthread_mutex_t lock; /* guards all below: the kernel may read one handle from two threads */
	struct zpl_dir *walk;
	struct zpl_dirent pending;
	bool has_pending;
	uint64_t at; /* cookie of the next entry */
};

/* fh 0: a control directory, which needs no state. */
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_mount *m = mount_of(req);
	struct handle *h = NULL;
	struct held held;

	if (!control_is(ino)) {
		int err = node_hold(m, ino, &held);

		if (err) {
			fuse_reply_err(req, errno_of(err));
			return;
		}
		h = handle_create(m, &held);
		h->dir = xcalloc(1, sizeof(*h->dir));
		pthread_mutex_init(&h->dir->lock, NULL);
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	fi->cache_readdir = fi->keep_cache = h != NULL;
	if (fuse_reply_open(req, fi) && h)
		handle_free(m, h);
}

static void dir_walk_close(struct dir_walk *d)
{
	if (d->walk)
		zpl_dir_close(d->walk);
	d->walk = NULL;
	d->has_pending = false;
}

void dir_walk_free(struct dir_walk *d)
{
	dir_walk_close(d);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (fi->fh)
		handle_free(mount_of(req), (struct handle *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

static int dir_walk_seek(struct dir_walk *h, struct znode *dir, uint64_t cookie)
{
	if (h->walk && h->at == cookie)
		return 0;
	dir_walk_close(h);
	h->at = cookie;
	return zpl_dir_open(dir, cookie, &h->walk);
}

/* The next entry; -ENOENT at the end. The walk leaves a place for ".zfs" after "..". */
static int dir_walk_next(struct dir_walk *h, bool show_control, struct zpl_dirent **de)
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
	const struct held *dir;
	bool plus;
	char *buf;
	size_t size, used;
};

/* As stat would show it. */
static uint64_t entry_ino(const struct dir_fill *f, uint64_t object)
{
	const struct zpl *z = f->dir->zn->zpl;

	if (!f->dir->snap)
		return object;
	return object == z->root ? SNAPROOT_INO - z->ds->object : node_number(mount_of(f->req), f->dir->snap, object);
}

static size_t dir_fill_plus(struct dir_fill *f, const struct zpl_dirent *de, struct fuse_entry_param *e)
{
	struct fuse_mount *m = mount_of(f->req);
	bool dots = strcmp(de->name, ".") == 0 || strcmp(de->name, "..") == 0;
	size_t need;

	/* A damaged object is still listed; its attributes fail when somebody asks for them. */
	if (dots || entry_of(m, f->dir->snap, f->dir->zn->zpl, de->id, e)) {
		memset(e, 0, sizeof(*e));
		e->attr.st_ino = entry_ino(f, de->id);
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
		e.attr.st_ino = entry_ino(f, de->id);
		e.attr.st_mode = type_to_mode(de->dtype);
		need = fuse_add_direntry(f->req, f->buf + f->used, f->size - f->used, de->name, &e.attr,
					 (off_t)de->next);
	}
	if (need > f->size - f->used)
		return false;
	f->used += need;
	return true;
}

static int dir_fill_all(struct dir_fill *f, struct dir_walk *h, uint64_t cookie)
{
	const struct fuse_mount *m = mount_of(f->req);
	bool show_control = f->dir->zn->id == m->zpl->root && !f->dir->snap && m->args.snapdir == 1 &&
			    control_exists(m);
	struct zpl_dirent *de;
	int err = dir_walk_seek(h, f->dir->zn, cookie);

	while (!err) {
		err = dir_walk_next(h, show_control, &de);
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
	struct handle *h = (struct handle *)(uintptr_t)fi->fh;
	struct dir_fill f = {.req = req, .plus = plus, .size = MIN(size, (size_t)FUSE_READ_MAX)};
	int err;

	if (!h) {
		control_readdir(mount_of(req), req, ino, f.size, off, plus);
		return;
	}
	f.dir = &h->held;
	f.buf = xmalloc(f.size);
	pthread_mutex_lock(&h->dir->lock);
	err = dir_fill_all(&f, h->dir, (uint64_t)off);
	pthread_mutex_unlock(&h->dir->lock);
	if (err)
		fuse_reply_err(req, errno_of(err));
	else
		fuse_reply_buf(req, f.buf, f.used);
	free(f.buf);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	readdir_reply(req, ino, size, off, fi, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	readdir_reply(req, ino, size, off, fi, true);
}
