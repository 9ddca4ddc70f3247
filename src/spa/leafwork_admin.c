/*
 * Initializing and trimming as the commands steer it (docs/format/06-allocation-and-vdevs.md, 4.10; 09-cli.md 9.6),
 * what is stored of it, and trimming by itself (autotrim).
 */
#include <time.h>

#include "base/log.h"
#include "base/os.h"
#include "spa/leafwork.h"

#define TRIM_RATE "org.zfsonlinux:vdev_trim_rate"

/* --- the list --- */
static struct spa_work *work_find_locked(struct spa *spa, const struct vdev *leaf, enum spa_activity what)
{
	list_for_each(&spa_writer(spa)->works, n) {
		struct spa_work *wk = container_of(n, struct spa_work, node);

		if (wk->leaf == leaf && wk->what == what)
			return wk;
	}
	return NULL;
}

static uint64_t stored(struct spa *spa, const struct vdev *leaf, const char *key)
{
	uint64_t v = 0;

	return leaf->zap_leaf && zap_lookup_u64(spa->mos, leaf->zap_leaf, key, &v) == 0 ? v : 0;
}

static struct spa_work *work_get_locked(struct spa *spa, struct vdev *leaf, enum spa_activity what)
{
	struct spa_work *wk = work_find_locked(spa, leaf, what);

	if (wk)
		return wk;
	wk = xcalloc(1, sizeof(*wk));
	wk->spa = spa;
	wk->leaf = leaf;
	wk->what = what;
	wk->rate = what == SPA_TRIM ? stored(spa, leaf, TRIM_RATE) : 0;
	atomic_store(&wk->state, (unsigned)stored(spa, leaf, spa_work_kinds[what].state));
	atomic_store(&wk->offset, stored(spa, leaf, spa_work_kinds[what].offset));
	list_append(&spa_writer(spa)->works, &wk->node);
	return wk;
}

/* --- what is stored --- */
static int key_store(struct spa *spa, uint64_t zap, const char *key, uint64_t v, bool remove, struct tx *tx)
{
	int err = remove ? zap_remove(spa->mos, zap, key, tx) : zap_update_u64(spa->mos, zap, key, v, tx);

	return err == -ENOENT ? 0 : err;
}

static void work_store(struct spa_work *wk, struct tx *tx)
{
	const struct spa_work_kind *k = &spa_work_kinds[wk->what];
	uint64_t zap = wk->leaf->zap_leaf, state = atomic_load(&wk->state);
	bool none = state == SPA_WORK_NONE;
	int err;

	if (!zap)
		return;
	err = key_store(wk->spa, zap, k->offset, atomic_load(&wk->offset), none, tx);
	if (!err && state != stored(wk->spa, wk->leaf, k->state)) {
		err = key_store(wk->spa, zap, k->state, state, none, tx);
		if (!err)
			err = key_store(wk->spa, zap, k->time, (uint64_t)time(NULL), none, tx);
	}
	if (!err && wk->what == SPA_TRIM)
		err = key_store(wk->spa, zap, TRIM_RATE, wk->rate, none, tx);
	if (err)
		spa_sync_failed(wk->spa, "storing the progress of %s: %s", k->word, err_words(err));
}

bool spa_works_are_pending(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);
	SCOPED_LOCK(&w->works_lock);

	list_for_each(&w->works, n)
		if (atomic_load(&container_of(n, struct spa_work, node)->unsynced))
			return true;
	return false;
}

void spa_works_sync(struct spa *spa, struct tx *tx)
{
	struct spa_writer *w = spa_writer(spa);
	SCOPED_LOCK(&w->works_lock);

	list_for_each(&w->works, n) {
		struct spa_work *wk = container_of(n, struct spa_work, node);

		if (atomic_exchange(&wk->unsynced, false))
			work_store(wk, tx);
	}
}

/* --- commands --- */
struct command {
	struct spa *spa;
	enum spa_activity what;
	enum spa_activity_do how;
	uint64_t rate;
	bool all; /* no device was named: those it cannot be done on are passed over */
	struct vdev **leaf;
	size_t n, ended;
};

static void work_set(struct spa_work *wk, enum spa_work_state state, const char *word)
{
	autofree char *text = xasprintf("vdev=%s %s", wk->leaf->path ? wk->leaf->path : "", word);

	atomic_store(&wk->state, state);
	atomic_store(&wk->unsynced, true);
	spa_history_internal(wk->spa, spa_work_kinds[wk->what].word, NULL, NULL, text);
}

static bool is_running(const struct spa_work *wk)
{
	return wk->running && !atomic_load(&wk->ended);
}

static int work_start_locked(struct command *c, struct spa_work *wk, struct err *e)
{
	unsigned state = atomic_load(&wk->state);
	const char *path = wk->leaf->path ? wk->leaf->path : "a device";

	if (is_running(wk))
		return err_set(e, -EBUSY, "'%s': currently %s", path,
			       c->what == SPA_TRIM ? "being trimmed" : "being initialized");
	spa_work_join(wk);
	if (state != SPA_WORK_SUSPENDED && state != SPA_WORK_ACTIVE)
		atomic_store(&wk->offset, 0);
	if (c->rate || state != SPA_WORK_SUSPENDED)
		wk->rate = c->rate;
	work_set(wk, SPA_WORK_ACTIVE, "activated");
	return spa_work_start(wk) ? err_set(e, -EAGAIN, "no thread for it") : 0;
}

static int work_end_locked(struct command *c, struct spa_work *wk, struct err *e)
{
	static const enum spa_work_state to[] = {
	    [SPA_SUSPEND] = SPA_WORK_SUSPENDED, [SPA_CANCEL] = SPA_WORK_CANCELED, [SPA_UNINIT] = SPA_WORK_NONE};
	static const char *const words[] = {
	    [SPA_SUSPEND] = "suspended", [SPA_CANCEL] = "canceled", [SPA_UNINIT] = "uninitialized"};
	unsigned state = atomic_load(&wk->state);
	bool running = is_running(wk), may = running || (c->how == SPA_CANCEL && state == SPA_WORK_SUSPENDED);
	const char *path = wk->leaf->path ? wk->leaf->path : "a device";

	if (c->how == SPA_UNINIT && running)
		return err_set(e, -EBUSY, "'%s': currently being initialized", path);
	if (c->how != SPA_UNINIT && !may)
		return c->all ? 0
			      : err_set(e, -ESRCH, "'%s': there is no active %s", path, spa_work_kinds[c->what].word);
	spa_work_join(wk);
	if (c->how != SPA_SUSPEND)
		atomic_store(&wk->offset, 0);
	work_set(wk, to[c->how], words[c->how]);
	c->ended++;
	return 0;
}

static int can_be_worked_on(const struct command *c, const struct vdev *leaf, struct err *e)
{
	const char *path = leaf->path ? leaf->path : "a device";

	if (!leaf->disk || !vdev_is_writable(leaf))
		return err_set(e, -ENODEV, "'%s': the device is not online", path);
	if (leaf->parent->kind != VDEV_ROOT && leaf->parent->kind != VDEV_MIRROR)
		return err_set(e, -ENOTSUP, "'%s': devices of a %s cannot be %s", path, leaf->parent->ops->type,
			       c->what == SPA_TRIM ? "trimmed" : "initialized");
	if (c->what == SPA_TRIM && !leaf->disk->discards)
		return err_set(e, -EOPNOTSUPP, "'%s': the device does not support TRIM", path);
	return 0;
}

static void leaves_collect(struct command *c, struct vdev *vd)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		leaves_collect(c, vd->child[i]);
	if (!vdev_is_leaf(vd) || vd->kind == VDEV_DSPARE || vd->kind == VDEV_HOLE)
		return;
	if (c->all && c->how == SPA_START && can_be_worked_on(c, vd, NULL))
		return;
	for (size_t i = 0; i < c->n; i++)
		if (c->leaf[i] == vd)
			return; /* named twice */
	c->leaf = xrealloc(c->leaf, (c->n + 1) * sizeof(struct vdev *));
	c->leaf[c->n++] = vd;
}

static int leaves_find(struct command *c, const char *const *devices, size_t n, struct err *e)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		struct vdev *vd = spa_vdev_find(c->spa, devices[i], e);

		if (!vd)
			return -ENOENT;
		leaves_collect(c, vd);
	}
	if (n == 0)
		leaves_collect(c, c->spa->root);
	for (size_t i = 0; i < c->n && !err && c->how == SPA_START; i++)
		err = can_be_worked_on(c, c->leaf[i], e);
	if (!err && c->n == 0)
		err = err_set(e, -EOPNOTSUPP, "no device of the pool can be %s",
			      c->what == SPA_TRIM ? "trimmed" : "initialized");
	return err;
}

static int command_run(struct command *c, const char *const *devices, size_t n, struct err *e)
{
	struct spa_writer *w = spa_writer(c->spa);
	int err;

	dsl_config_enter(c->spa->dsl);
	err = leaves_find(c, devices, n, e);
	pthread_mutex_lock(&w->works_lock);
	for (size_t i = 0; i < c->n && !err; i++) {
		struct spa_work *wk = work_get_locked(c->spa, c->leaf[i], c->what);

		err = c->how == SPA_START ? work_start_locked(c, wk, e) : work_end_locked(c, wk, e);
	}
	pthread_mutex_unlock(&w->works_lock);
	dsl_config_exit(c->spa->dsl);
	free(c->leaf);
	if (!err && c->how != SPA_START && !c->ended)
		err = err_set(e, -ESRCH, "there is no active %s", spa_work_kinds[c->what].word);
	return err;
}

int spa_activity(struct spa *spa, enum spa_activity what, enum spa_activity_do how, const char *const *devices,
		 size_t n, uint64_t rate, bool secure, struct err *e)
{
	struct command c = {.spa = spa, .what = what, .how = how, .rate = rate, .all = n == 0};
	int err = spa_writable_check(spa, e);

	if (err)
		return err;
	if (secure)
		return err_set(e, -EOPNOTSUPP, "no device is known to support secure TRIM");
	if (how == SPA_UNINIT && what != SPA_INITIALIZE)
		return err_set(e, -EINVAL, "only initializing can be undone");
	err = command_run(&c, devices, n, e);
	if (err)
		return err;
	return txg_wait_synced(spa_writer(spa)->txgs, 0) ? err_set(e, -EIO, "the pool cannot be written") : 0;
}

/* --- import and export --- */
static void work_resume(struct spa *spa, struct vdev *vd, enum spa_activity what)
{
	if (stored(spa, vd, spa_work_kinds[what].state) == SPA_WORK_ACTIVE && vd->disk && vdev_is_writable(vd))
		spa_work_start(work_get_locked(spa, vd, what));
}

static void works_resume(struct spa *spa, struct vdev *vd)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		works_resume(spa, vd->child[i]);
	if (!vdev_is_leaf(vd) || (vd->parent->kind != VDEV_ROOT && vd->parent->kind != VDEV_MIRROR))
		return;
	work_resume(spa, vd, SPA_TRIM);
	work_resume(spa, vd, SPA_INITIALIZE);
}

void spa_works_start(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	dsl_config_enter(spa->dsl);
	pthread_mutex_lock(&w->works_lock);
	works_resume(spa, spa->root);
	pthread_mutex_unlock(&w->works_lock);
	dsl_config_exit(spa->dsl);
	w->autotrim_running = os_thread_create(&w->autotrim_thread, spa_autotrim_run, spa) == 0;
}

void spa_works_stop(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	if (w->autotrim_running) {
		pthread_mutex_lock(&w->works_lock);
		w->autotrim_stop = true;
		pthread_cond_signal(&w->works_cond);
		pthread_mutex_unlock(&w->works_lock);
		pthread_join(w->autotrim_thread, NULL);
		w->autotrim_running = false;
		w->autotrim_stop = false;
	}
	SCOPED_LOCK(&w->works_lock);
	list_for_each(&w->works, n)
		spa_work_join(container_of(n, struct spa_work, node));
}

void spa_works_free(struct spa *spa)
{
	struct list_node *n;

	while ((n = list_pop(&spa_writer(spa)->works)))
		free(container_of(n, struct spa_work, node));
}

/* A device that leaves. */
void spa_works_forget(struct spa *spa, const struct vdev *leaf)
{
	struct spa_writer *w = spa_writer(spa);
	SCOPED_LOCK(&w->works_lock);

	list_for_each_safe(&w->works, n) {
		struct spa_work *wk = container_of(n, struct spa_work, node);

		if (wk->leaf != leaf)
			continue;
		spa_work_join(wk);
		list_remove(&w->works, n);
		free(wk);
	}
}

bool spa_works_are_running(struct spa *spa, enum spa_activity what, uint64_t *left)
{
	struct spa_writer *w = spa_writer(spa);
	bool running = false;
	SCOPED_LOCK(&w->works_lock);

	*left = 0;
	list_for_each(&w->works, n) {
		const struct spa_work *wk = container_of(n, struct spa_work, node);

		/* over only when everybody can see that it is */
		if (wk->what != what || (!is_running(wk) && !atomic_load(&wk->unsynced)))
			continue;
		running = true;
		*left += wk->leaf->psize - MIN(wk->leaf->psize, atomic_load(&wk->offset));
	}
	return running;
}

/* --- autotrim --- */
static void extents_trim(struct vdev *vd, const struct rangetree *ranges)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		extents_trim(vd->child[i], ranges);
	if (!vdev_is_leaf(vd) || !vd->disk || !vd->disk->discards || !vdev_is_writable(vd))
		return;
	for (struct range *r = rangetree_first(ranges); r; r = rangetree_next(r))
		if (spa_leaf_trim(vd, r->start, r->end))
			return;
}

static void top_trim(struct spa *spa, struct vdev *top)
{
	struct spa_writer *w = spa_writer(spa);
	struct alloc_free_set *set;
	int err = 0;

	for (uint64_t m = 0; err != -ENOENT && !w->autotrim_stop; m++) {
		err = alloc_autotrim_take(w->alloc, top, m, &set);
		if (err)
			continue;
		extents_trim(top, alloc_free_ranges(set));
		alloc_free_return(set);
	}
}

static bool takes_autotrim(const struct vdev *top)
{
	if (!vdev_is_concrete(top) || !top->ms_array)
		return false;
	return top->nchildren == 0 || top->kind == VDEV_MIRROR;
}

static void tops_trim(struct spa *spa)
{
	dsl_config_enter(spa->dsl);
	for (unsigned i = 0; i < spa->root->nchildren; i++)
		if (takes_autotrim(spa->root->child[i]))
			top_trim(spa, spa->root->child[i]);
	dsl_config_exit(spa->dsl);
}

void *spa_autotrim_run(void *arg)
{
	struct spa *spa = arg;
	struct spa_writer *w = spa_writer(spa);
	uint64_t seen = 0;

	pthread_mutex_lock(&w->works_lock);
	while (!w->autotrim_stop) {
		struct timespec until;
		uint64_t txg;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&w->works_cond, &w->works_lock, &until);
		txg = txg_last_synced(w->txgs);
		if (w->autotrim_stop || txg == seen || !atomic_load(&w->autotrim) || spa_is_suspended(spa))
			continue;
		pthread_mutex_unlock(&w->works_lock);
		tops_trim(spa);
		seen = txg;
		pthread_mutex_lock(&w->works_lock);
	}
	pthread_mutex_unlock(&w->works_lock);
	return NULL;
}
