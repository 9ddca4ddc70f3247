/*
 * The .zfs directory of a mounted file system (docs/format/07-filesystem-zvol-zil.md, section 7): .zfs/snapshot/NAME is
 * the root of that snapshot.
 */
#include "serve/fuse/node.h"

bool control_is(uint64_t number)
{
	return number == NODE_CTLDIR || number == NODE_SNAPDIR;
}

void control_stat(const struct fuse_mount *m, uint64_t number, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = number == NODE_CTLDIR ? CTLDIR_INO : SNAPDIR_INO;
	st->st_mode = S_IFDIR | 0777;
	st->st_nlink = 2 + (number == NODE_CTLDIR);
	st->st_size = 2 + (number == NODE_CTLDIR);
	st->st_mtim.tv_sec = st->st_ctim.tv_sec = st->st_atim.tv_sec = (time_t)m->zpl->ds->dir->creation;
}

static void control_entry(const struct fuse_mount *m, uint64_t number, struct fuse_entry_param *e)
{
	e->ino = number;
	e->attr_timeout = e->entry_timeout = FOREVER_S;
	control_stat(m, number, &e->attr);
}

static int snapshot_entry(struct fuse_mount *m, const char *name, struct fuse_entry_param *e)
{
	struct held h;
	int err = snap_hold_root(m, name, &h);

	if (err)
		return err;
	e->ino = node_number(m, h.snap, h.zn->id);
	e->generation = h.zn->gen;
	e->attr_timeout = e->entry_timeout = FOREVER_S;
	node_stat(m, &h, &e->attr);
	node_add_lookup(m, &h);
	node_drop(m, &h);
	return 0;
}

int control_lookup(struct fuse_mount *m, uint64_t dir, const char *name, struct fuse_entry_param *e)
{
	bool up = strcmp(name, "..") == 0;

	if (dir == FUSE_ROOT_ID || strcmp(name, ".") == 0) {
		control_entry(m, dir == FUSE_ROOT_ID ? NODE_CTLDIR : dir, e);
		return 0;
	}
	if (dir == NODE_CTLDIR && strcmp(name, "snapshot") == 0) {
		control_entry(m, NODE_SNAPDIR, e);
		return 0;
	}
	if (dir == NODE_SNAPDIR && up) {
		control_entry(m, NODE_CTLDIR, e);
		return 0;
	}
	return dir == NODE_SNAPDIR ? snapshot_entry(m, name, e) : -ENOENT;
}

/* ---- reading ---- */

struct filling {
	fuse_req_t req;
	bool plus;
	char *buf;
	size_t size, used;
	off_t at, from; /* number of the entry being offered, first one wanted */
};

/* With attributes wanted none are given (node 0): listing ten thousand snapshots must not open them. */
static size_t fill_entry(struct filling *f, const char *name, uint64_t number)
{
	struct fuse_entry_param e = {.attr.st_ino = number, .attr.st_mode = S_IFDIR};

	if (f->plus)
		return fuse_add_direntry_plus(f->req, f->buf + f->used, f->size - f->used, name, &e, f->at);
	return fuse_add_direntry(f->req, f->buf + f->used, f->size - f->used, name, &e.attr, f->at);
}

static int fill(struct filling *f, const char *name, uint64_t number)
{
	size_t need;

	if (f->at++ < f->from)
		return 0;
	need = fill_entry(f, name, number);
	if (need > f->size - f->used)
		return 1;
	f->used += need;
	return 0;
}

static int fill_snapshot(void *arg, struct dsl_dataset *snap)
{
	return fill(arg, snap->snapname, SNAPROOT_INO - snap->object);
}

static void fill_snapshots(struct fuse_mount *m, struct filling *f)
{
	struct dsl_dataset *head;

	if (dsl_dataset_hold_obj(m->zpl->ds->pool, m->zpl->ds->dir->head, &head, NULL))
		return;
	dsl_each_snapshot(head, fill_snapshot, f);
	dsl_dataset_release(head);
}

void control_readdir(struct fuse_mount *m, fuse_req_t req, uint64_t dir, size_t size, off_t off, bool plus)
{
	struct filling f = {.req = req, .plus = plus, .size = size, .from = off};

	f.buf = malloc(size);
	if (!f.buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (!fill(&f, ".", dir == NODE_CTLDIR ? CTLDIR_INO : SNAPDIR_INO) &&
	    !fill(&f, "..", dir == NODE_CTLDIR ? m->zpl->root : CTLDIR_INO)) {
		if (dir == NODE_CTLDIR)
			fill(&f, "snapshot", SNAPDIR_INO);
		else
			fill_snapshots(m, &f);
	}
	fuse_reply_buf(req, f.buf, f.used);
	free(f.buf);
}
