#include "serve/daemon/daemon.h"

#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/sync.h"
#include "serve/daemon/mounts.h"
#include "zvol/zvol.h"

void daemon_init(struct tarn_daemon *d, uint64_t arc_max_bytes)
{
	memset(d, 0, sizeof(*d));
	d->arc = arc_create(arc_max_bytes);
	d->start_time = (uint64_t)time(NULL);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->idle, NULL);
	list_init(&d->pools);
	d->housekeeping = taskq_create("housekeeping", 1);
}

/* The part of a data set's name that names the pool. */
static size_t pool_name_len(const char *name)
{
	return strcspn(name, "/@#");
}

static struct pool *pool_find_locked(struct tarn_daemon *d, const char *name, size_t len)
{
	list_for_each(&d->pools, n) {
		struct pool *p = container_of(n, struct pool, node);

		if (strlen(p->name) == len && memcmp(p->name, name, len) == 0)
			return p;
	}
	return NULL;
}

bool pool_is_imported(struct tarn_daemon *d, uint64_t guid)
{
	SCOPED_LOCK(&d->lock);

	list_for_each(&d->pools, n)
		if (container_of(n, struct pool, node)->guid == guid)
			return true;
	return false;
}

int pool_hold(struct tarn_daemon *d, const char *name, struct pool **out, struct err *e)
{
	size_t len = pool_name_len(name);
	struct pool *p;
	SCOPED_LOCK(&d->lock);

	p = pool_find_locked(d, name, len);
	if (!p || !p->spa)
		return err_set(e, -ENOENT, "no such pool '%.*s'", (int)len, name);
	if (p->exporting)
		return err_set(e, -EBUSY, "pool '%s' is being exported", p->name);
	p->refs++;
	*out = p;
	return 0;
}

static void pool_release_locked(struct tarn_daemon *d, struct pool *p)
{
	p->refs--;
	pthread_cond_broadcast(&d->idle);
}

void pool_release(struct tarn_daemon *d, struct pool *p)
{
	SCOPED_LOCK(&d->lock);
	pool_release_locked(d, p);
}

static int pool_compare(const void *a, const void *b)
{
	const struct pool *const *pa = a, *const *pb = b;

	return strcmp((*pa)->name, (*pb)->name);
}

size_t pools_hold_all(struct tarn_daemon *d, struct pool ***out)
{
	size_t n = 0;
	SCOPED_LOCK(&d->lock);

	*out = xcalloc(d->pools.len + 1, sizeof(**out));
	list_for_each(&d->pools, node) {
		struct pool *p = container_of(node, struct pool, node);

		if (!p->spa || p->exporting)
			continue;
		p->refs++;
		(*out)[n++] = p;
	}
	qsort(*out, n, sizeof(**out), pool_compare);
	return n;
}

void pools_release_all(struct tarn_daemon *d, struct pool **pools, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pool_release(d, pools[i]);
	free(pools);
}

/* ---- import ---- */

static struct pool *pool_entry_create(const char *name, uint64_t guid)
{
	struct pool *p = xcalloc(1, sizeof(*p));

	snprintf(p->name, sizeof(p->name), "%s", name);
	p->guid = guid;
	list_init(&p->mounts);
	return p;
}

static void pool_forget(struct tarn_daemon *d, struct pool *p)
{
	SCOPED_LOCK(&d->lock);
	list_remove(&d->pools, &p->node);
	pthread_cond_broadcast(&d->idle);
	free(p);
}

static int pool_name_taken(struct err *e)
{
	err_set(e, -EEXIST, "a pool with that name already exists");
	err_hint(e, "use the form 'zpool import <pool | id> <newpool>' to give it a new name");
	return -EEXIST;
}

/* Name and guid are taken in the list before the import starts, so that a second one of the same pool is refused at
 * once. */
static int pool_reserve(struct tarn_daemon *d, const char *name, uint64_t guid, struct pool **out, struct err *e)
{
	SCOPED_LOCK(&d->lock);

	list_for_each(&d->pools, n) {
		struct pool *p = container_of(n, struct pool, node);

		if (guid && p->guid == guid)
			return err_set(e, -EEXIST,
				       p->spa ? "the pool is already imported as '%s'"
					      : "the pool '%s' is being imported",
				       p->name);
		if (strcmp(p->name, name) == 0)
			return pool_name_taken(e);
	}
	*out = pool_entry_create(name, guid);
	(*out)->refs = 1;
	list_append(&d->pools, &(*out)->node);
	return 0;
}

static void pool_attach(struct tarn_daemon *d, struct pool *p, struct spa *spa)
{
	spa->dsl->set_volsize = zvol_set_size;
	spa->dsl->replay_log = zvol_replay_log;
	mounts_pool_attach(d, p, spa);
	pthread_mutex_lock(&d->lock);
	p->guid = spa->guid;
	p->spa = spa;
	pthread_mutex_unlock(&d->lock);
}

int pool_import(struct tarn_daemon *d, struct spa_import *args, struct pool **out, struct err *e)
{
	const char *name = args->new_name ? args->new_name : nvlist_string_or(args->config, "name", "");
	struct pool *p = NULL;
	struct spa *spa;
	int err = pool_reserve(d, name, nvlist_u64_or(args->config, "pool_guid", 0), &p, e);

	if (err)
		return err;
	args->arc = d->arc;
	err = spa_import(args, &spa, e);
	if (err) {
		pool_forget(d, p);
		return err;
	}
	pool_attach(d, p, spa);
	log_info("imported pool '%s'%s", p->name, spa_is_writable(spa) ? "" : " read-only");
	*out = p;
	return 0;
}

int pool_create(struct tarn_daemon *d, struct spa_create *c, struct pool **out, struct err *e)
{
	struct pool *p = NULL;
	struct spa *spa = NULL;
	int err = pool_reserve(d, c->name, 0, &p, e);

	*out = NULL;
	if (err == -EEXIST) /* the hint is for imports */
		return err_set(e, err, "a pool with that name already exists");
	if (err)
		return err;
	c->arc = d->arc;
	err = spa_create_pool(c, &spa, e);
	if (err || c->dry) {
		pool_forget(d, p);
		return err;
	}
	pool_attach(d, p, spa);
	log_info("created pool '%s'", p->name);
	*out = p;
	return 0;
}

/* ---- export ---- */

static int pool_begin_export(struct tarn_daemon *d, const char *name, struct pool **out, struct err *e)
{
	struct pool *p;
	SCOPED_LOCK(&d->lock);

	p = pool_find_locked(d, name, strlen(name));
	if (!p || !p->spa)
		return err_set(e, -ENOENT, "no such pool");
	if (p->exporting)
		return err_set(e, -EBUSY, "pool '%s' is already being exported", name);
	p->exporting = true; /* no new holds from here on */
	*out = p;
	return 0;
}

static void pool_abort_export(struct tarn_daemon *d, struct pool *p)
{
	SCOPED_LOCK(&d->lock);
	p->exporting = false;
}

/* Ends what uses the pool; without force only mounts that nobody uses. */
static int pool_quiesce(struct tarn_daemon *d, struct pool *p, bool force, struct err *e)
{
	unsigned clients = nbd_server_clients(d->nbd, p->name);
	int err;

	if (clients && !force)
		return err_set(e, -EBUSY, "pool is busy: %u NBD client%s connected to its volumes (-f ends %s)",
			       clients, clients == 1 ? " is" : "s are", clients == 1 ? "it" : "them");
	err = mounts_unmount_pool(d, p, force, e);
	if (err)
		return err;
	nbd_server_disconnect(d->nbd, p->name);
	pthread_mutex_lock(&d->lock);
	while (p->refs > 0)
		pthread_cond_wait(&d->idle, &d->lock);
	pthread_mutex_unlock(&d->lock);
	/* A client that was opening an export while the first round ran has its reference now. */
	nbd_server_disconnect(d->nbd, p->name);
	return 0;
}

/* Requests that wait for devices which are gone would keep their clients, and so the pool, for ever. */
static int pool_drop_suspended(struct pool *p, bool force, char **lost, struct err *e)
{
	*lost = NULL;
	if (!spa_is_suspended(p->spa))
		return 0;
	if (!force) {
		err_set(e, -EAGAIN, "pool I/O is currently suspended");
		err_hint(e,
			 "bring its devices back and run 'zpool clear %s', or drop it with all that is not written: "
			 "'zpool export -f %s'",
			 p->name, p->name);
		return -EAGAIN;
	}
	spa_abandon(p->spa, lost);
	return 0;
}

int pool_end(struct tarn_daemon *d, const char *name, bool force, bool destroy, struct err *e)
{
	autofree char *lost = NULL;
	struct pool *p = NULL;
	int err = pool_begin_export(d, name, &p, e);

	if (err)
		return err;
	if (destroy && !spa_is_writable(p->spa))
		err = err_set(e, -EROFS, "pool is imported read-only");
	if (!err)
		err = pool_drop_suspended(p, force, &lost, e);
	if (!err)
		err = pool_quiesce(d, p, force, e);
	if (!err)
		err = destroy ? spa_destroy_pool(p->spa, e) : spa_export(p->spa, e);
	if (err) {
		pool_abort_export(d, p);
		return err;
	}
	if (lost) {
		log_error("pool '%s' was dropped; not written: %s", p->name, lost);
		err_set(e, 0, "not written: %s", lost);
	}
	log_info("%s pool '%s'", destroy ? "destroyed" : "exported", p->name);
	pool_forget(d, p);
	return 0;
}

int pool_export(struct tarn_daemon *d, const char *name, bool force, struct err *e)
{
	return pool_end(d, name, force, false, e);
}

/* An import that is still running is waited for: its devices are open. */
static char *pool_next_name(struct tarn_daemon *d)
{
	SCOPED_LOCK(&d->lock);

	for (;;) {
		struct list_node *n = list_first(&d->pools);
		struct pool *p = n ? container_of(n, struct pool, node) : NULL;

		if (!p)
			return NULL;
		if (p->spa && !p->exporting)
			return xstrdup(p->name);
		pthread_cond_wait(&d->idle, &d->lock);
	}
}

void daemon_end(struct tarn_daemon *d)
{
	char *name;

	while ((name = pool_next_name(d))) {
		struct err e = ERR_INIT;

		if (pool_export(d, name, true, &e)) {
			log_error("cannot export '%s': %s", name, e.text);
			free(name);
			break;
		}
		free(name);
	}
	nbd_server_stop(d->nbd);
	taskq_destroy(d->housekeeping);
	free(d->nbd_socket);
	free(d->nbd_tcp);
	if (list_is_empty(&d->pools))
		arc_destroy(d->arc);
}
