#include "serve/daemon/mounts.h"

#include <dirent.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/log.h"
#include "base/str.h"
#include "base/sync.h"
#include "serve/daemon/commands.h"

/* Of /proc/self/mounts: two paths, each byte of which may take four, and the options. */
#define MOUNT_LINE_MAX (10 * PATH_MAX)

/* ---- the list of mounts ---- */

static bool dataset_is_mounted(void *arg, uint64_t dataset)
{
	struct pool *p = arg;
	struct tarn_daemon *d = p->daemon;
	SCOPED_LOCK(&d->lock);

	list_for_each(&p->mounts, n)
		if (container_of(n, struct mount, node)->dataset == dataset)
			return true;
	return false;
}

void mounts_pool_attach(struct tarn_daemon *d, struct pool *p, struct spa *spa)
{
	p->daemon = d;
	spa->dsl->is_mounted = dataset_is_mounted;
	spa->dsl->is_mounted_arg = p;
}

/* Mounts are listed newest first: taking them down in that order ends children before parents. */
static void mount_link(struct mount *m)
{
	SCOPED_LOCK(&m->daemon->lock);
	list_prepend(&m->pool->mounts, &m->node);
}

static struct mount *mount_find_locked(struct pool *p, const char *what)
{
	list_for_each(&p->mounts, n) {
		struct mount *m = container_of(n, struct mount, node);

		if (strcmp(m->name, what) == 0 || strcmp(m->dir, what) == 0)
			return m;
	}
	return NULL;
}

/* ---- temporary properties of mount options ---- */

static const struct {
	const char *option, *property, *value;
} option_properties[] = {
    {"ro", "readonly", "on"},    {"rw", "readonly", "off"},     {"exec", "exec", "on"},
    {"noexec", "exec", "off"},   {"suid", "setuid", "on"},      {"nosuid", "setuid", "off"},
    {"setuid", "setuid", "on"},  {"nosetuid", "setuid", "off"}, {"dev", "devices", "on"},
    {"nodev", "devices", "off"}, {"devices", "devices", "on"},  {"nodevices", "devices", "off"},
    {"atime", "atime", "on"},    {"noatime", "atime", "off"},   {"relatime", "relatime", "on"},
    {"xattr", "xattr", "on"},    {"noxattr", "xattr", "off"},   {"norelatime", "relatime", "off"},
    {"nbmand", "nbmand", "on"},  {"nonbmand", "nbmand", "off"}, {"strictatime", "relatime", "off"},
};

static int option_apply(struct dsl_dataset *ds, const char *option, bool set, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(option_properties); i++) {
		if (strcmp(option_properties[i].option, option))
			continue;
		if (set && strcmp(option, "rw") == 0)
			return err_set(e, -EROFS, "the pool is imported read-only");
		dsl_prop_set_temporary(ds->pool, ds->object, option_properties[i].property,
				       set ? option_properties[i].value : NULL);
		return 0;
	}
	if (strcmp(option, "defaults") == 0 || strcmp(option, "zfsutil") == 0)
		return 0;
	return err_set(e, -EINVAL, "unknown mount option '%s'", option);
}

static int options_apply(struct dsl_dataset *ds, const char *options, bool set, struct err *e)
{
	autofree char *copy = xstrdup(options ? options : "");
	char *save = NULL;
	int err = 0;

	for (char *o = strtok_r(copy, ",", &save); o && !err; o = strtok_r(NULL, ",", &save))
		err = option_apply(ds, o, set, e);
	return err;
}

/* What the properties (temporary ones included) say, as mount(8) options. */
static char *options_effective(struct dsl_dataset *ds)
{
	static const struct {
		const char *property, *off;
	} table[] = {{"exec", "noexec"}, {"setuid", "nosuid"}, {"devices", "nodev"}, {"atime", "noatime"}};
	struct str s = {NULL, 0, 0};
	uint64_t v;

	str_add(&s, "ro");
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (dsl_prop_u64(ds, table[i].property, &v, NULL) == 0 && v == 0)
			str_addf(&s, ",%s", table[i].off);
	return s.s;
}

/* ---- where ---- */

static bool dir_is_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *de;
	bool empty = true;

	if (!dir)
		return true;
	while (empty && (de = readdir(dir)))
		empty = strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0;
	closedir(dir);
	return empty;
}

/* A daemon that was killed leaves mounts behind that answer nobody; what hides under them is what was meant. Only
 * our own: the last mount of a directory stands last in the table. */
static bool mount_is_ours(const char *path)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	autofree char *line = xmalloc(MOUNT_LINE_MAX);
	struct mntent m;
	bool ours = false;

	while (f && getmntent_r(f, &m, line, MOUNT_LINE_MAX))
		if (strcmp(m.mnt_dir, path) == 0)
			ours = strcmp(m.mnt_type, "fuse.tarn") == 0;
	if (f)
		endmntent(f);
	return ours;
}

/* Not stat: the kernel may still answer that by itself. */
static bool mount_is_dead(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) && errno == ENOTCONN;
}

static void dead_mounts_clear(const char *path)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	/* Without the lock first: another daemon's mount may keep one waiting. Under it once more: what is dead now
	 * stays so until it is taken down here, and nothing alive is mounted over it in between. */
	if (!mount_is_dead(path))
		return;
	SCOPED_LOCK(&lock);
	while (mount_is_dead(path) && mount_is_ours(path)) {
		log_info("taking down what a daemon that is gone left mounted at %s", path);
		if (fuse_unmount_dead(path))
			return;
	}
}

static void *dead_mounts_main(void *arg)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	autofree char *line = xmalloc(MOUNT_LINE_MAX);
	struct mntent m;

	/* In the order of the table: those below a dead mount cannot be reached, and go with it. */
	while (f && getmntent_r(f, &m, line, MOUNT_LINE_MAX))
		if (strcmp(m.mnt_type, "fuse.tarn") == 0)
			dead_mounts_clear(m.mnt_dir);
	if (f)
		endmntent(f);
	return NULL;
}

void mounts_dead_sweep(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, dead_mounts_main, NULL) == 0)
		pthread_detach(thread);
}

/* mkdir -p, with the modes people expect of mount points. */
static int dir_prepare(struct tarn_daemon *d, const char *path, struct err *e)
{
	autofree char *copy = xstrdup(path);
	struct stat st;
	int err = 0;

	for (char *p = strchr(copy + 1, '/'); p && !err; p = strchr(p + 1, '/')) {
		*p = 0;
		dead_mounts_clear(copy);
		err = mount_point_make(d, copy, e);
		*p = '/';
	}
	if (!err) {
		dead_mounts_clear(copy);
		err = mount_point_make(d, copy, e);
	}
	if (err)
		return err_prefix(e, err, "cannot create mountpoint %s", copy);
	if (stat(copy, &st) || !S_ISDIR(st.st_mode))
		return err_set(e, -ENOTDIR, "mountpoint %s is not a directory", copy);
	return 0;
}

/* The property with inheritance and altroot applied. */
static int mountpoint_get(struct dsl_dataset *ds, char dir[PATH_MAX])
{
	static const char *const name[] = {"mountpoint"};
	autonv struct nvlist *props = NULL;
	struct nvlist *p;
	const char *value;
	int err = dsl_props_get(ds, name, 1, &props, NULL);

	if (!err)
		err = nvlist_list(props, "mountpoint", &p);
	if (!err)
		err = nvlist_string(p, "value", &value);
	if (!err && strlen(value) >= PATH_MAX)
		err = -ENAMETOOLONG;
	if (!err)
		memcpy(dir, value, strlen(value) + 1);
	return err;
}

/* 1: nothing to mount here, and that is no error for an automatic mount. */
static int where_by_property(struct dsl_dataset *ds, bool automatic, char dir[PATH_MAX], struct err *e)
{
	uint64_t canmount = 1;
	int err = mountpoint_get(ds, dir);

	if (err)
		return err_set(e, err, "cannot read the mountpoint property: %s", err_words(err));
	dsl_prop_u64(ds, "canmount", &canmount, NULL);
	if (automatic && (canmount != 1 || dir[0] != '/'))
		return 1;
	if (canmount == 0)
		return err_set(e, -EPERM, "'canmount' property is set to 'off'");
	if (strcmp(dir, "legacy") == 0)
		return err_set(e, -EINVAL,
			       "legacy mountpoint: use mount(8) (mount -t tarn %s DIR) or `tarn mount %s DIR`",
			       ds->name, ds->name);
	if (dir[0] != '/')
		return err_set(e, -EINVAL, "no mountpoint set");
	return 0;
}

/* ---- mount ---- */

static void mount_remove(struct mount *m);

/* Unmounted from outside: not on the mount's own thread, which must end first. */
struct gone_task {
	struct task task;
	struct mount *mount;
};

static void mount_gone_task(struct task *t)
{
	struct gone_task *g = container_of(t, struct gone_task, task);
	struct tarn_daemon *d = g->mount->daemon;
	bool mine;

	pthread_mutex_lock(&d->lock);
	while (!g->mount->fuse)
		pthread_cond_wait(&d->idle, &d->lock); /* it was gone before its making had ended */
	mine = !g->mount->ending;
	g->mount->ending = true;
	pthread_mutex_unlock(&d->lock);
	if (mine) {
		fuse_mount_destroy(g->mount->fuse, true, NULL);
		mount_remove(g->mount);
	}
	free(g);
}

static void mount_gone(void *arg)
{
	struct gone_task *g = xcalloc(1, sizeof(*g));

	g->mount = arg;
	g->task.run = mount_gone_task;
	taskq_dispatch(((struct mount *)arg)->daemon->housekeeping, &g->task);
}

static void mount_free(struct mount *m)
{
	free(m->dir);
	free(m->options);
	free(m->request_options);
	free(m);
}

static void mount_remove(struct mount *m)
{
	struct dsl_dataset *ds;

	if (dsl_dataset_hold_obj(m->pool->spa->dsl, m->dataset, &ds, NULL) == 0) {
		options_apply(ds, m->request_options, false, NULL);
		dsl_dataset_release(ds);
	}
	pthread_mutex_lock(&m->daemon->lock);
	list_remove(&m->pool->mounts, &m->node);
	pthread_mutex_unlock(&m->daemon->lock);
	spa_release(m->pool->spa);
	mount_free(m);
}

static int mount_start(struct mount *m, struct dsl_dataset *ds, struct err *e)
{
	struct fuse_mount_args args = {.dir = m->dir, .options = m->options, .gone = mount_gone, .arg = m};
	struct fuse_mount *fuse;
	uint64_t snapdir = 0;
	int err = zpl_open(ds, &args.zpl, e);

	if (err)
		return err;
	dsl_prop_u64(ds, "snapdir", &snapdir, NULL);
	args.snapdir = (unsigned)snapdir;
	err = fuse_mount_create(&args, &fuse, e);
	if (err) {
		zpl_close(args.zpl);
		return err;
	}
	pthread_mutex_lock(&m->daemon->lock);
	m->fuse = fuse;
	pthread_cond_broadcast(&m->daemon->idle);
	pthread_mutex_unlock(&m->daemon->lock);
	return 0;
}

static bool is_redacted(struct dsl_dataset *ds)
{
	uint64_t *guids;
	size_t n;

	if (dsl_dataset_redact_snaps(ds, &guids, &n))
		return false;
	free(guids);
	return true;
}

static int mount_check(struct dsl_dataset *ds, const struct mount_request *rq, struct err *e)
{
	unsigned type;
	int err = dsl_dataset_type(ds, &type);

	if (err)
		return err_set(e, err, "cannot read the data set: %s", err_words(err));
	if (!(type & DSL_FILESYSTEM))
		return rq->automatic ? 1 : err_set(e, -EINVAL, "it is a volume; NBD clients open it under its name");
	if (ds->is_snapshot && !rq->dir)
		return err_set(e, -EINVAL, "a snapshot has no mountpoint; give a directory");
	if (!rq->dir && dataset_is_mounted(ds->pool->is_mounted_arg, ds->object))
		return rq->automatic ? 1 : err_set(e, -EBUSY, "filesystem already mounted");
	if (ds->dir->crypto_obj && !dsl_key_is_loaded(ds->dir))
		return rq->automatic ? 1 : err_set(e, -EKEY, "encryption key not loaded");
	if (!rq->force && is_redacted(ds))
		return rq->automatic
			   ? 1
			   : err_set(e, -EPERM, "the data set is redacted, its files are incomplete (-f mounts it)");
	return 0;
}

static int mount_dir_check(struct tarn_daemon *d, struct dsl_dataset *ds, const char *dir, bool overlay, struct err *e)
{
	uint64_t allowed = 1;
	int err = dir_prepare(d, dir, e);

	if (err)
		return err;
	dsl_prop_u64(ds, "overlay", &allowed, NULL);
	if (!overlay && !allowed && !dir_is_empty(dir))
		return err_set(e, -ENOTEMPTY, "directory is not empty (-O mounts over it)");
	return 0;
}

static struct mount *mount_create(struct tarn_daemon *d, struct pool *p, struct dsl_dataset *ds, const char *dir,
				  const char *options)
{
	struct mount *m = xcalloc(1, sizeof(*m));

	m->daemon = d;
	m->pool = p;
	m->dataset = ds->object;
	memcpy(m->name, ds->name, sizeof(m->name));
	m->dir = xstrdup(dir);
	m->request_options = xstrdup(options ? options : "");
	m->options = options_effective(ds);
	return m;
}

static int mount_dataset(struct tarn_daemon *d, struct pool *p, struct dsl_dataset *ds, const struct mount_request *rq,
			 struct err *e)
{
	char dir[PATH_MAX];
	struct mount *m;
	int err = mount_check(ds, rq, e);

	if (!err && !rq->dir)
		err = where_by_property(ds, rq->automatic, dir, e);
	if (!err)
		err = mount_dir_check(d, ds, rq->dir ? rq->dir : dir, rq->overlay, e);
	if (!err)
		err = options_apply(ds, rq->options, true, e);
	if (err)
		return err;
	m = mount_create(d, p, ds, rq->dir ? rq->dir : dir, rq->options);
	spa_hold(p->spa);
	mount_link(m);
	err = mount_start(m, ds, e);
	if (err)
		mount_remove(m);
	return err;
}

static int dataset_find(struct pool *p, const char *name, struct dsl_dataset **ds, struct err *e)
{
	int err = dsl_dataset_hold(p->spa->dsl, name, ds, e);

	return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
}

int mounts_mount(struct tarn_daemon *d, struct pool *p, const struct mount_request *rq, struct err *e)
{
	struct dsl_dataset *ds;
	int err = dataset_find(p, rq->name, &ds, e);

	if (err)
		return err;
	err = mount_dataset(d, p, ds, rq, e);
	dsl_dataset_release(ds);
	return err;
}

/* ---- mount many ---- */

/* What is to be mounted, where. All of it is found first, then mounted in the order of the directories: one below
 * another is mounted after it, whichever pools and branches of the tree they come from. */
struct planned {
	struct pool *pool;
	uint64_t dataset;
	char *name, *dir;
};

struct mount_plan {
	const struct mount_request *rq;
	void (*failed)(void *arg, const char *text);
	void *arg;
	struct pool *pool; /* being searched */
	struct planned *entry;
	size_t n;
};

static void plan_failure(struct mount_plan *plan, const char *name, const struct err *e)
{
	autofree char *text = xasprintf("cannot mount '%s': %s", name, e->text);

	plan->failed(plan->arg, text);
}

static int plan_add(struct mount_plan *plan, struct dsl_dataset *ds, struct err *e)
{
	char dir[PATH_MAX];
	int err = mount_check(ds, plan->rq, e);

	if (!err)
		err = where_by_property(ds, true, dir, e);
	if (err)
		return err;
	plan->entry = xrealloc(plan->entry, (plan->n + 1) * sizeof(*plan->entry));
	plan->entry[plan->n++] = (struct planned){plan->pool, ds->object, xstrdup(ds->name), xstrdup(dir)};
	return 0;
}

static int plan_walk(void *arg, struct dsl_dir *dir)
{
	struct mount_plan *plan = arg;
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;
	int err = dsl_dataset_hold_obj(dir->pool, dir->head, &ds, &e);

	if (!err) {
		err = plan_add(plan, ds, &e);
		dsl_dataset_release(ds);
	}
	if (err < 0)
		plan_failure(plan, dir->name, &e);
	dsl_each_child(dir, plan_walk, plan);
	return 0;
}

static void plan_tree(struct mount_plan *plan, struct pool *p, const char *name)
{
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;

	if (dataset_find(p, name, &ds, &e)) {
		plan_failure(plan, name, &e);
		return;
	}
	plan->pool = p;
	plan_walk(plan, ds->dir);
	dsl_dataset_release(ds);
}

static int planned_compare(const void *a, const void *b)
{
	return strcmp(((const struct planned *)a)->dir, ((const struct planned *)b)->dir);
}

static int planned_mount(struct tarn_daemon *d, const struct planned *p, const struct mount_request *rq, struct err *e)
{
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold_obj(p->pool->spa->dsl, p->dataset, &ds, e);

	if (err)
		return err;
	err = mount_dataset(d, p->pool, ds, rq, e);
	dsl_dataset_release(ds);
	return err;
}

static void plan_run(struct tarn_daemon *d, struct mount_plan *plan)
{
	if (plan->n)
		qsort(plan->entry, plan->n, sizeof(*plan->entry), planned_compare);
	for (size_t i = 0; i < plan->n; i++) {
		struct err e = ERR_INIT;

		if (planned_mount(d, &plan->entry[i], plan->rq, &e) < 0)
			plan_failure(plan, plan->entry[i].name, &e);
		free(plan->entry[i].name);
		free(plan->entry[i].dir);
	}
	free(plan->entry);
}

void mounts_mount_all(struct tarn_daemon *d, struct pool *p, const char *name, const struct mount_request *rq,
		      void (*failed)(void *arg, const char *text), void *arg)
{
	struct mount_plan plan = {.rq = rq, .failed = failed, .arg = arg};

	plan_tree(&plan, p, name);
	plan_run(d, &plan);
}

/* ---- unmount ---- */

/* m->ending was set by the caller, who alone may take it down. */
static int mount_end(struct mount *m, bool force, struct err *e)
{
	int err = fuse_mount_destroy(m->fuse, force, e);

	if (!err) {
		mount_remove(m);
		return 0;
	}
	pthread_mutex_lock(&m->daemon->lock);
	m->ending = false;
	pthread_cond_broadcast(&m->daemon->idle);
	pthread_mutex_unlock(&m->daemon->lock);
	return err;
}

static bool is_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return strncmp(path, top, len) == 0 && path[len] == '/';
}

/* The newest mount of a data set below top's that stands in top's directory; top itself when there is none. Older ones
 * are hidden by top. */
static struct mount *mount_innermost_locked(struct mount *top)
{
	list_for_each(&top->pool->mounts, n) {
		struct mount *m = container_of(n, struct mount, node);

		if (m == top || (is_below(m->name, top->name) && is_below(m->dir, top->dir)))
			return m;
	}
	return top;
}

/* *last: it is the one that was asked for, not one below it. */
static struct mount *mount_claim(struct tarn_daemon *d, const char *what, bool *last)
{
	SCOPED_LOCK(&d->lock);

	list_for_each(&d->pools, n) {
		struct mount *top = mount_find_locked(container_of(n, struct pool, node), what), *m;

		if (!top)
			continue;
		m = mount_innermost_locked(top);
		if (!m->fuse || m->ending)
			return NULL;
		m->ending = true;
		*last = m == top;
		return m;
	}
	return NULL;
}

int mounts_unmount(struct tarn_daemon *d, const char *what, bool force, struct err *e)
{
	bool last = false;

	while (!last) {
		struct mount *m = mount_claim(d, what, &last);
		int err = m ? mount_end(m, force, e) : err_set(e, -EINVAL, "not currently mounted");

		if (err)
			return err;
	}
	return 0;
}

/* Which of a pool's mounts are meant. */
struct mount_filter {
	const char *tree;           /* NULL: any; this data set, those below it, and their snapshots */
	const struct strmap *names; /* NULL: any; these data sets and snapshots */
};

static bool mount_passes(const struct mount *m, const struct mount_filter *f)
{
	size_t len = f->tree ? strlen(f->tree) : 0;

	if (f->tree && (strncmp(m->name, f->tree, len) != 0 || !strchr("/@", m->name[len])))
		return false;
	return !f->names || strmap_get(f->names, m->name);
}

/* The newest of them. */
static struct mount *mount_filtered_locked(struct pool *p, const struct mount_filter *f)
{
	list_for_each(&p->mounts, n) {
		struct mount *m = container_of(n, struct mount, node);

		if (mount_passes(m, f))
			return m;
	}
	return NULL;
}

static struct mount *mount_claim_any(struct tarn_daemon *d, struct pool *p, const struct mount_filter *f)
{
	SCOPED_LOCK(&d->lock);

	for (;;) {
		struct mount *m = mount_filtered_locked(p, f);

		if (!m)
			return NULL;
		if (m->fuse && !m->ending) {
			m->ending = true;
			return m;
		}
		pthread_cond_wait(&d->idle, &d->lock); /* somebody else is at it */
	}
}

static int unmount_filtered(struct tarn_daemon *d, struct pool *p, const struct mount_filter *f, bool force,
			    struct strings *mounted, struct err *e)
{
	struct mount *m;

	while ((m = mount_claim_any(d, p, f))) {
		char *what = xstrdup(m->name);
		int err = mount_end(m, force, e);

		if (err)
			err_prefix(e, err, "cannot unmount '%s'", what);
		if (err || !mounted)
			free(what);
		else
			strings_add(mounted, what);
		if (err)
			return err;
	}
	return 0;
}

int mounts_unmount_tree(struct tarn_daemon *d, struct pool *p, const char *name, bool force, struct strings *mounted,
			struct err *e)
{
	return unmount_filtered(d, p, &(struct mount_filter){.tree = name}, force, mounted, e);
}

int mounts_unmount_named(struct tarn_daemon *d, struct pool *p, const struct strmap *names, bool force,
			 struct strings *mounted, struct err *e)
{
	return unmount_filtered(d, p, &(struct mount_filter){.names = names}, force, mounted, e);
}

int mounts_unmount_pool(struct tarn_daemon *d, struct pool *p, bool force, struct err *e)
{
	return mounts_unmount_tree(d, p, NULL, force, NULL, e);
}

/* ---- listing and commands ---- */

struct mount_copy {
	char *name, *dir, *options;
};

static size_t mounts_copy(struct tarn_daemon *d, struct mount_copy **out)
{
	size_t n = 0, max = 0;
	SCOPED_LOCK(&d->lock);

	list_for_each(&d->pools, pn)
		max += container_of(pn, struct pool, node)->mounts.len;
	*out = xcalloc(max + 1, sizeof(**out));
	list_for_each(&d->pools, pn) {
		list_for_each(&container_of(pn, struct pool, node)->mounts, mn) {
			struct mount *m = container_of(mn, struct mount, node);

			if (m->fuse)
				(*out)[n++] = (struct mount_copy){xstrdup(m->name), xstrdup(m->dir),
								  xstrdup(m->options)};
		}
	}
	return n;
}

static int copy_compare(const void *a, const void *b)
{
	return strcmp(((const struct mount_copy *)a)->name, ((const struct mount_copy *)b)->name);
}

int mounts_each(struct tarn_daemon *d, int (*fn)(void *arg, const char *name, const char *dir, const char *options),
		void *arg)
{
	struct mount_copy *list;
	size_t n = mounts_copy(d, &list);
	int err = 0;

	qsort(list, n, sizeof(*list), copy_compare);
	for (size_t i = 0; i < n; i++) {
		if (!err)
			err = fn(arg, list[i].name, list[i].dir, list[i].options);
		free(list[i].name);
		free(list[i].dir);
		free(list[i].options);
	}
	free(list);
	return err;
}

static int mount_item(void *arg, const char *name, const char *dir, const char *options)
{
	autonv struct nvlist *item = nvlist_create();

	nvlist_add_string(item, "name", name);
	nvlist_add_string(item, "dir", dir);
	nvlist_add_string(item, "options", options);
	return control_item(arg, item);
}

int command_dataset_mounts(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return mounts_each(command_daemon(rq), mount_item, rq);
}

static void mount_everything(struct tarn_daemon *d, const struct mount_request *rq, struct failures *f)
{
	struct mount_plan plan = {.rq = rq, .failed = failures_add, .arg = f};
	struct pool **pools;
	size_t n = pools_hold_all(d, &pools);

	for (size_t i = 0; i < n; i++)
		plan_tree(&plan, pools[i], pools[i]->name);
	plan_run(d, &plan);
	pools_release_all(d, pools, n);
}

int command_dataset_mount(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	bool all = nvlist_bool(args, "all"), recursive = nvlist_bool(args, "recursive");
	struct mount_request mr = {.name = nvlist_string_or(args, "name", ""),
				   .dir = nvlist_string_or(args, "dir", NULL),
				   .options = nvlist_string_or(args, "options", NULL),
				   .overlay = nvlist_bool(args, "overlay"),
				   .force = nvlist_bool(args, "force"),
				   .automatic = all || recursive};
	struct failures f = {NULL, 0};
	struct pool *p;
	int err;

	if (all) {
		mount_everything(d, &mr, &f);
		failures_finish(&f, result);
		return 0;
	}
	err = pool_hold(d, mr.name, &p, e);
	if (err == -ENOENT)
		err_set(e, err, "dataset does not exist");
	if (err)
		return err;
	if (recursive) {
		mounts_mount_all(d, p, mr.name, &mr, failures_add, &f);
		failures_finish(&f, result);
	} else {
		err = mounts_mount(d, p, &mr, e);
	}
	pool_release(d, p);
	return err;
}

/* Says of what is not mounted whether it exists at all. */
static int unmount_named(struct tarn_daemon *d, const char *what, bool force, struct err *e)
{
	int err = mounts_unmount(d, what, force, e);
	struct dsl_dataset *ds;
	struct pool *p;

	if (err != -EINVAL || what[0] == '/')
		return err;
	if (command_dataset_hold(d, what, &p, &ds, e))
		return e->code;
	dsl_dataset_release(ds);
	pool_release(d, p);
	return err_set(e, err, "not currently mounted");
}

int command_dataset_unmount(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	bool force = nvlist_bool(args, "force");
	struct failures f = {NULL, 0};
	struct pool **pools;
	size_t n;

	if (!nvlist_bool(args, "all"))
		return unmount_named(d, nvlist_string_or(args, "name", ""), force, e);
	n = pools_hold_all(d, &pools);
	for (size_t i = 0; i < n; i++) {
		struct err pe = ERR_INIT;

		if (mounts_unmount_pool(d, pools[i], force, &pe))
			failures_add(&f, pe.text);
	}
	pools_release_all(d, pools, n);
	failures_finish(&f, result);
	return 0;
}
