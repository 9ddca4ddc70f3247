/*
 * cli/extract_tree.c: walking a file system and making at the destination what is found.
 */
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/hash.h"
#include "cli/extract.h"

#include <limits.h>

#define TREE_DEPTH_MAX  2048 /* directories within directories */
#define TREE_DIR_ERRORS 64   /* unreadable parts of one directory in a row, after which it is given up */

/* One file system. */
struct walk {
	struct extract *x;
	struct zpl *zpl;
	struct dsl_dataset *ds;
	int base;             /* the directory that `rel` begins at; -1: no hard links */
	struct str label;     /* of where the walk is, for messages: tank/fs:dir/file */
	struct str rel;       /* the same below base */
	size_t root_label;    /* its length at the root */
	struct strmap *links; /* object in hex -> path below base, of what has several names */
	char **names;         /* those paths */
	size_t nnames;
	struct strmap *dirs; /* object in hex, of directories that were entered */
	unsigned depth;
};

struct place {
	size_t label, rel;
};

/* The walk moves to an entry. */
static struct place walk_enter(struct walk *w, const char *name)
{
	struct place at = {w->label.len, w->rel.len};
	autofree char *shown = extract_name_show(name);

	str_addf(&w->label, "%s%s", w->label.len > w->root_label ? "/" : ":", shown);
	str_addf(&w->rel, "%s%s", w->rel.len ? "/" : "", name);
	return at;
}

static void walk_leave(struct walk *w, struct place at)
{
	w->label.len = at.label;
	w->rel.len = at.rel;
	if (w->label.s)
		w->label.s[at.label] = 0;
	if (w->rel.s)
		w->rel.s[at.rel] = 0;
}

#define FAILED(w, ...) extract_failed((w)->x, str_get(&(w)->label), __VA_ARGS__)

static void id_text(uint64_t id, char out[24])
{
	snprintf(out, 24, "%llx", (unsigned long long)id);
}

/* ---- telling ---- */

static void node_list(struct walk *w, const struct znode *zn)
{
	static const char types[] = "?pc?d?b?-?l?s???";
	FILE *out = w->x->to_stdout ? stderr : stdout;
	struct tm tm;
	char date[32];

	if (!w->x->o.dry && !w->x->o.verbose)
		return;
	if (w->x->o.dry && w->x->o.verbose) {
		localtime_r(&zn->mtime.tv_sec, &tm);
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
		fprintf(out, "%c%04o %5u %5u %12llu %s ", types[zn->mode >> 12 & 15], (unsigned)zn->mode & 07777,
			zpl_fuid_id(zn->uid), zpl_fuid_id(zn->gid), (unsigned long long)zn->size, date);
	}
	fprintf(out, "%s\n", str_get(&w->label));
}

/* ---- making one thing ---- */

/* What stands in the way goes, when it may. */
static bool replaced(const struct walk *w, int dirfd, const char *name)
{
	return errno == EEXIST && w->x->o.force && unlinkat(dirfd, name, 0) == 0;
}

static int file_open_new(const struct walk *w, int dirfd, const char *name)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dirfd, name, flags, 0600);

	if (fd < 0 && replaced(w, dirfd, name))
		fd = openat(dirfd, name, flags, 0600);
	return fd;
}

static struct extract_file *file_of(struct walk *w, struct znode *zn)
{
	struct extract_file *f = extract_file_create(w->x, str_get(&w->label));

	f->src = (struct extract_source){.zn = znode_ref(zn), .dn = zn->dn, .size = zn->size};
	f->attrs = true;
	return f;
}

static void make_failed(struct walk *w, const char *what)
{
	FAILED(w, "cannot make the %s: %s%s", what, strerror(errno),
	       errno == EEXIST ? " (-f replaces what is there)" : "");
}

static void file_extract(struct walk *w, const struct extract_target *to, struct znode *zn)
{
	int fd = to->fd >= 0 ? to->fd : file_open_new(w, to->dirfd, to->name);
	struct extract_file *f;

	if (fd < 0) {
		make_failed(w, "file");
		return;
	}
	if (to->fd < 0 && zn->size && (zn->size > INT64_MAX || ftruncate(fd, (off_t)zn->size))) {
		FAILED(w, "cannot make a file of %llu bytes: %s", (unsigned long long)zn->size,
		       strerror(zn->size > INT64_MAX ? EFBIG : errno));
		unlinkat(to->dirfd, to->name, 0);
		close(fd);
		return;
	}
	f = file_of(w, zn);
	f->fd = fd;
	f->sink = to->sink;
	if (to->fd >= 0)
		f->keep_open = !(f->attrs = false);
	pump_data(w->x->pump, f);
	pump_end(w->x->pump, f);
}

static int link_make(struct walk *w, const struct extract_target *to, struct znode *zn)
{
	autofree char *target = NULL;
	int rc = zpl_readlink(zn, &target);

	if (rc) {
		FAILED(w, "the link's target cannot be read: %s", err_words(rc));
		return rc;
	}
	if (symlinkat(target, to->dirfd, to->name) == 0)
		return 0;
	if (replaced(w, to->dirfd, to->name) && symlinkat(target, to->dirfd, to->name) == 0)
		return 0;
	make_failed(w, "symbolic link");
	return -1;
}

static int special_make(struct walk *w, const struct extract_target *to, struct znode *zn)
{
	struct stat st;

	znode_stat(zn, &st);
	if (mknodat(to->dirfd, to->name, (st.st_mode & S_IFMT) | 0600, st.st_rdev) == 0)
		return 0;
	if (replaced(w, to->dirfd, to->name) &&
	    mknodat(to->dirfd, to->name, (st.st_mode & S_IFMT) | 0600, st.st_rdev) == 0)
		return 0;
	make_failed(w, S_ISFIFO(st.st_mode) ? "pipe" : S_ISSOCK(st.st_mode) ? "socket" : "device node");
	return -1;
}

static void special_extract(struct walk *w, const struct extract_target *to, struct znode *zn)
{
	struct extract_file *f;

	if (S_ISLNK(zn->mode) ? link_make(w, to, zn) : special_make(w, to, zn))
		return;
	f = file_of(w, zn);
	f->dirfd = to->dirfd;
	f->name = xstrdup(to->name);
	pump_end(w->x->pump, f);
}

/* Another name of what was made already: true when it is done. */
static bool hard_link(struct walk *w, const struct extract_target *to, const struct znode *zn)
{
	char id[24];
	const char *first;

	if (zn->links < 2 || w->base < 0)
		return false;
	id_text(zn->id, id);
	first = strmap_get(w->links, id);
	if (!first) {
		w->names = xrealloc(w->names, (w->nnames + 1) * sizeof(char *));
		w->names[w->nnames] = xstrdup(str_get(&w->rel));
		strmap_set(w->links, id, w->names[w->nnames++]);
		return false;
	}
	if (linkat(w->base, first, to->dirfd, to->name, 0) == 0)
		return true;
	return replaced(w, to->dirfd, to->name) && linkat(w->base, first, to->dirfd, to->name, 0) == 0;
}

/* ---- directories ---- */

/* An existing one is taken when it may be, a link never followed. */
static int dir_open_new(const struct walk *w, const struct extract_target *to, bool merge)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int made = mkdirat(to->dirfd, to->name, 0700), fd;

	if (made && (errno != EEXIST || !(merge || w->x->o.force)))
		return -1;
	fd = openat(to->dirfd, to->name, flags);
	if (fd >= 0 || !w->x->o.force || (errno != ENOTDIR && errno != ELOOP))
		return fd;
	if (unlinkat(to->dirfd, to->name, 0) || mkdirat(to->dirfd, to->name, 0700))
		return -1;
	return openat(to->dirfd, to->name, flags);
}

static void node_extract(struct walk *w, const struct extract_target *to, struct znode *zn, bool merge);

static bool name_is_sane(const char *name)
{
	return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '/');
}

/* Names of the longname feature are longer than other file systems take: cut between characters, made unique again by
 * the object's number. `room` is NAME_MAX + 1. */
static const char *name_fit(const struct zpl_dirent *de, char *room)
{
	size_t len = NAME_MAX - sizeof("~ffffffffffffffff");

	if (strlen(de->name) <= NAME_MAX)
		return de->name;
	while (len > 0 && ((unsigned char)de->name[len] & 0xc0) == 0x80)
		len--;
	snprintf(room, NAME_MAX + 1, "%.*s~%llx", (int)len, de->name, (unsigned long long)de->id);
	return room;
}

static void entry_extract(struct walk *w, int dirfd, const struct zpl_dirent *de)
{
	char room[NAME_MAX + 1];
	const char *name = name_fit(de, room);
	struct extract_target to = {dirfd, name, -1, SINK_FILE, false};
	struct err e = ERR_INIT;
	struct place back = walk_enter(w, name);
	struct znode *zn;
	int rc;

	if (name != de->name) {
		autofree char *whole = extract_name_show(de->name);

		extract_note(w->x, str_get(&w->label), "its name was shortened, from %s", whole);
	}
	if (!name_is_sane(de->name)) {
		FAILED(w, "refused: not a possible name");
	} else if ((rc = znode_hold(w->zpl, de->id, &zn, &e))) {
		FAILED(w, "lost: object %llu cannot be read: %s", (unsigned long long)de->id,
		       e.text[0] ? e.text : err_words(rc));
	} else {
		node_extract(w, &to, zn, false);
		znode_release(zn);
	}
	walk_leave(w, back);
}

static void entries_extract(struct walk *w, int dirfd, struct znode *zn)
{
	autofree struct zpl_dirent *de = xmalloc(sizeof(*de));
	unsigned lost = 0, row = 0;
	struct zpl_dir *d;
	int why = 0, rc = zpl_dir_open(zn, 2, &d);

	if (rc) {
		FAILED(w, "the directory cannot be read: %s", err_words(rc));
		return;
	}
	while (!pump_is_dead(w->x->pump) && row < TREE_DIR_ERRORS && (rc = zpl_dir_next(d, de)) != -ENOENT) {
		if (rc) {
			lost++;
			row++;
			why = rc;
			continue;
		}
		row = 0;
		entry_extract(w, dirfd, de);
	}
	zpl_dir_close(d);
	if (lost)
		FAILED(w, "entries of the directory are lost: %u of its parts cannot be read: %s", lost,
		       err_words(why));
}

static void children_extract(struct walk *w, int dirfd);

/* A damaged tree may lead back into itself. */
static bool dir_is_new(struct walk *w, const struct znode *zn)
{
	char id[24];

	id_text(zn->id, id);
	if (w->depth >= TREE_DEPTH_MAX) {
		FAILED(w, "refused: more than %d directories deep", TREE_DEPTH_MAX);
		return false;
	}
	if (strmap_set(w->dirs, id, w)) {
		FAILED(w, "refused: this directory was already found elsewhere");
		return false;
	}
	return true;
}

static void dir_extract(struct walk *w, const struct extract_target *to, struct znode *zn, bool merge)
{
	bool top = w->depth == 0;
	int fd = -1;

	if (to->fd >= 0) {
		FAILED(w, "is a directory, which cannot go to a stream or device");
		return;
	}
	if (!dir_is_new(w, zn))
		return;
	if (!w->x->o.dry && (fd = dir_open_new(w, to, merge)) < 0) {
		make_failed(w, "directory");
		return;
	}
	if (top)
		w->base = fd;
	w->depth++;
	entries_extract(w, fd, zn);
	w->depth--;
	if (top && zn->id == w->zpl->root && w->x->o.recursive)
		children_extract(w, fd);
	if (fd >= 0) {
		struct extract_file *f = file_of(w, zn);

		f->fd = fd;
		pump_end(w->x->pump, f);
	}
}

static void node_extract(struct walk *w, const struct extract_target *to, struct znode *zn, bool merge)
{
	node_list(w, zn);
	if (S_ISDIR(zn->mode))
		dir_extract(w, to, zn, merge);
	else if (w->x->o.dry)
		return;
	else if (to->fd >= 0 && !S_ISREG(zn->mode))
		FAILED(w, "is no file, and cannot go to a stream or device");
	else if (to->fd < 0 && hard_link(w, to, zn))
		return;
	else if (S_ISREG(zn->mode))
		file_extract(w, to, zn);
	else
		special_extract(w, to, zn);
}

/* ---- data sets ---- */

static void walk_run(struct walk *w, const char *path, const struct extract_target *to, bool merge, struct err *e)
{
	struct znode *zn;
	autofree char *copy = NULL;
	char *save, *part;

	if (zpl_path_lookup(w->zpl, path ? path : "", &zn, e)) {
		FAILED(w, "%s", e->text);
		return;
	}
	copy = xstrdup(path ? path : "");
	for (part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save))
		walk_enter(w, part);
	w->rel.len = 0;
	node_extract(w, to, zn, merge);
	znode_release(zn);
}

static int filesystem_extract(struct extract *x, struct dsl_dataset *ds, const char *path,
			      const struct extract_target *to, bool merge, struct err *e)
{
	struct walk w = {.x = x, .ds = ds, .base = -1};
	int err = zpl_open(ds, &w.zpl, e);

	if (err)
		return err;
	w.links = strmap_create();
	w.dirs = strmap_create();
	str_add(&w.label, ds->name);
	w.root_label = w.label.len;
	walk_run(&w, path, to, merge, e);
	pump_drain(x->pump);
	for (size_t i = 0; i < w.nnames; i++)
		free(w.names[i]);
	free(w.names);
	strmap_destroy(w.links);
	strmap_destroy(w.dirs);
	str_free(&w.label);
	str_free(&w.rel);
	zpl_close(w.zpl);
	return 0;
}

static int volume_sink(struct extract *x, struct zvol *zv, const struct extract_target *to, int *fd, struct err *e)
{
	struct walk w = {.x = x};
	off_t room;

	*fd = to->fd >= 0 ? to->fd : file_open_new(&w, to->dirfd, to->name);
	if (*fd < 0)
		return err_set(e, -errno, "cannot make the file: %s%s", strerror(errno),
			       errno == EEXIST ? " (-f replaces what is there)" : "");
	if (to->fd < 0 && ftruncate(*fd, (off_t)zv->size)) {
		err_set(e, -errno, "cannot make a file of %llu bytes: %s", (unsigned long long)zv->size,
			strerror(errno));
		unlinkat(to->dirfd, to->name, 0);
		close(*fd);
		return e->code;
	}
	if (to->sink != SINK_DEVICE)
		return 0;
	room = lseek(*fd, 0, SEEK_END);
	if (room >= 0 && (uint64_t)room < zv->size)
		return err_set(e, -ENOSPC, "the device has %lld bytes, the volume %llu", (long long)room,
			       (unsigned long long)zv->size);
	return 0;
}

static int volume_extract(struct extract *x, struct dsl_dataset *ds, const struct extract_target *to, struct err *e)
{
	struct extract_file *f;
	struct zvol *zv;
	int fd, err = zvol_open(ds, &zv, e);

	if (err)
		return err;
	if (x->o.dry || x->o.verbose)
		fprintf(x->to_stdout ? stderr : stdout, "%s\n", ds->name);
	if (!x->o.dry && !(err = volume_sink(x, zv, to, &fd, e))) {
		f = extract_file_create(x, ds->name);
		f->src = (struct extract_source){.zv = zv, .dn = zv->dn, .size = zv->size};
		f->fd = fd;
		f->keep_open = to->fd >= 0;
		f->sink = to->sink;
		pump_data(x->pump, f);
		pump_end(x->pump, f);
		pump_drain(x->pump);
	}
	zvol_close(zv);
	return err;
}

static int dataset_extract(struct extract *x, struct dsl_dataset *ds, const char *path, const struct extract_target *to,
			   bool merge)
{
	struct err e = ERR_INIT;
	unsigned type = 0;
	int err = extract_key_load(x, ds, &e);

	if (!err)
		err = dsl_dataset_type(ds, &type);
	if (!err && (type & DSL_VOLUME) && path && path[0])
		err = err_set(&e, -ENOTDIR, "is a volume, which has no paths");
	else if (!err && (type & DSL_VOLUME))
		err = volume_extract(x, ds, to, &e);
	else if (!err)
		err = filesystem_extract(x, ds, path, to, merge, &e);
	if (err)
		extract_failed(x, ds->name, "%s", e.text[0] ? e.text : err_words(err));
	return err;
}

struct child_walk {
	struct walk *w;
	int dirfd;
};

/* A child lies in the directory of its name, as it would be mounted; volumes become files. */
static int child_extract(void *arg, struct dsl_dir *dir)
{
	struct child_walk *c = arg;
	struct extract_target to = {c->dirfd, strrchr(dir->name, '/') ? strrchr(dir->name, '/') + 1 : dir->name, -1,
				    SINK_FILE, true};
	const char *snap = c->w->ds->snapname;
	autofree char *name = snap ? xasprintf("%s@%s", dir->name, snap) : xstrdup(dir->name);
	struct err e = ERR_INIT;
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(dir->pool, name, &ds, &e);

	if (err == -ENOENT && snap)
		return 0;
	if (err) {
		extract_failed(c->w->x, name, "%s", e.text[0] ? e.text : err_words(err));
		return 0;
	}
	dataset_extract(c->w->x, ds, NULL, &to, true);
	dsl_dataset_release(ds);
	return pump_is_dead(c->w->x->pump) ? -EIO : 0;
}

static void children_extract(struct walk *w, int dirfd)
{
	struct child_walk c = {w, dirfd};
	int rc = dsl_each_child(w->ds->dir, child_extract, &c);

	if (rc && !pump_is_dead(w->x->pump))
		FAILED(w, "its children cannot be listed: %s", err_words(rc));
}

int extract_dataset(struct extract *x, struct dsl_dataset *ds, const char *path, const struct extract_target *to)
{
	return dataset_extract(x, ds, path, to, to->merge);
}
