#include "serve/daemon/daemon.h"

#include "base/os.h"

#define VOLMODE_NONE    3 /* the property's numbers */
#define SNAPDEV_VISIBLE 1

static uint64_t export_property(struct dsl_dataset *ds, const char *name)
{
	uint64_t v;

	return dsl_prop_u64(ds, name, &v, NULL) == 0 ? v : 0;
}

static int volume_open(struct dsl_dataset *ds, struct zvol **zv, struct err *e)
{
	if (export_property(ds, "volmode") == VOLMODE_NONE)
		return err_set(e, -EPERM, "%s: volmode is none: it is not served", ds->name);
	return zvol_open(ds, zv, e);
}

/* Which names can be opened: volumes and their snapshots. A connection holds its pool. */
static int export_open(void *ctx, const char *name, struct zvol **zv, struct err *e)
{
	struct tarn_daemon *d = ctx;
	struct dsl_dataset *ds;
	struct pool *p;
	int err = pool_hold(d, name, &p, e);

	if (err)
		return err;
	err = dsl_dataset_hold(p->spa->dsl, name, &ds, e);
	if (!err) {
		err = volume_open(ds, zv, e);
		dsl_dataset_release(ds);
	}
	if (!err)
		spa_hold(p->spa);
	pool_release(d, p);
	return err;
}

static void export_close(void *ctx, struct zvol *zv)
{
	struct tarn_daemon *d = ctx;
	struct pool *p = NULL;

	/* The pool is still there: an export waits for its clients to be gone. */
	pthread_mutex_lock(&d->lock);
	list_for_each(&d->pools, n) {
		struct pool *q = container_of(n, struct pool, node);

		if (q->spa && q->spa->dsl == zv->ds->pool)
			p = q;
	}
	pthread_mutex_unlock(&d->lock);
	zvol_close(zv);
	if (p)
		spa_release(p->spa);
}

struct listing {
	int (*fn)(void *arg, const char *name);
	void *arg;
};

static int list_snapshot(void *arg, struct dsl_dataset *snap)
{
	struct listing *l = arg;

	return l->fn(l->arg, snap->name);
}

static int list_volume(struct listing *l, struct dsl_dataset *head)
{
	int err;

	if (export_property(head, "volmode") == VOLMODE_NONE)
		return 0;
	err = l->fn(l->arg, head->name);
	if (!err && export_property(head, "snapdev") == SNAPDEV_VISIBLE)
		err = dsl_each_snapshot(head, list_snapshot, l);
	return err;
}

static int list_dir(void *arg, struct dsl_dir *dir)
{
	struct listing *l = arg;
	struct dsl_dataset *head;
	unsigned type;
	int err = 0;

	/* What cannot be opened for want of its key is not offered: nbdinfo --list ends at the first such name. */
	if (dir->head && dsl_key_is_loaded(dir) && dsl_dataset_hold_obj(dir->pool, dir->head, &head, NULL) == 0) {
		if (dsl_dataset_type(head, &type) == 0 && type == DSL_VOLUME)
			err = list_volume(l, head);
		dsl_dataset_release(head);
	}
	/* A damaged data set hides only itself. */
	return err > 0 ? err : dsl_each_child(dir, list_dir, l) > 0;
}

static int export_list(void *ctx, int (*fn)(void *arg, const char *name), void *arg)
{
	struct tarn_daemon *d = ctx;
	struct listing l = {fn, arg};
	struct pool **pools;
	size_t n = pools_hold_all(d, &pools);

	for (size_t i = 0; i < n; i++) {
		struct dsl_pool *dp = pools[i]->spa->dsl;
		struct dsl_dir *root;

		if (dsl_dir_hold(dp, dp->root_dir, &root, NULL))
			continue;
		list_dir(&l, root);
		dsl_dir_release(root);
	}
	pools_release_all(d, pools, n);
	return 0;
}

int daemon_nbd_start(struct tarn_daemon *d, const struct nbd_config *config, struct err *e)
{
	struct nbd_source src = {export_open, export_close, export_list, d};
	autofree char *path = xasprintf("%s/nbd.sock", os_rundir());
	struct nbd_config c = *config;
	int err;

	c.unix_path = path;
	err = nbd_server_start(&c, &src, &d->nbd, e);
	if (err)
		return err;
	d->nbd_socket = xstrdup(path);
	d->nbd_tcp = c.tcp ? xstrdup(c.tcp) : NULL;
	return 0;
}
