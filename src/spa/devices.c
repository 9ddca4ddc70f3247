/*
 * Devices of a pool in use (docs/format/06-allocation-and-vdevs.md, 4.2, 4.3, 11; 01, 8.3): added, taken offline and
 * back, opened again.
 */
#include "base/log.h"
#include "spa/layout.h"
#include "spa/spa_write.h"

/* --- finding one --- */
static bool is_named(const struct vdev *vd, const char *name)
{
	static const unsigned styles[] = {0, VDEV_NAME_GUID, VDEV_NAME_PATH, VDEV_NAME_PATH | VDEV_NAME_FOLLOW};

	for (size_t i = 0; i < ARRAY_LEN(styles); i++) {
		autofree char *shown = vdev_name(vd, styles[i]);

		if (strcmp(shown, name) == 0)
			return true;
	}
	return (vd->path && strcmp(vd->path, name) == 0) || (vd->was_path && strcmp(vd->was_path, name) == 0);
}

static struct vdev *named_find(struct vdev *vd, const char *name)
{
	if (vd->parent && is_named(vd, name))
		return vd;
	for (unsigned i = 0; i < vd->nchildren; i++) {
		struct vdev *found = named_find(vd->child[i], name);

		if (found)
			return found;
	}
	return NULL;
}

struct vdev *spa_vdev_find(struct spa *spa, const char *name, struct err *e)
{
	struct vdev *vd = named_find(spa->root, name);

	if (!vd)
		err_set(e, -ENOENT, "no such device in pool");
	return vd;
}

static struct vdev *leaf_find(struct spa *spa, const char *name, struct err *e)
{
	struct vdev *vd = spa_vdev_find(spa, name, e);

	if (vd && !vdev_is_leaf(vd)) {
		err_set(e, -EINVAL, "%s is no single device", name);
		return NULL;
	}
	return vd;
}

/* --- opening again --- */
/* Under its own path first, then where the search found it. */
static int leaf_reopen(void *arg, struct vdev *leaf, struct disk **out, struct err *e)
{
	struct spa *spa = arg;
	autonv struct nvlist *here = nvlist_create();
	struct spa_opener opener = {
	    .devices = here, .pool_guid = spa->guid, .flags = spa_writer(spa) ? DISK_RDWR : DISK_RDONLY};
	char key[32];
	int err = -ENOENT;

	snprintf(key, sizeof(key), "%" PRIx64, leaf->guid);
	if (leaf->path) {
		nvlist_add_string(here, key, leaf->path);
		err = spa_leaf_open(&opener, leaf, out, e);
	}
	if (!err || !nvlist_exists(spa_priv(spa)->devices, key))
		return err;
	opener.devices = spa_priv(spa)->devices;
	return spa_leaf_open(&opener, leaf, out, e);
}

void spa_devices_reopen(struct spa *spa, struct vdev *vd)
{
	pthread_mutex_lock(&spa_writer(spa)->reopen_lock);
	vdev_reopen(vd, leaf_reopen, spa);
	pthread_mutex_unlock(&spa_writer(spa)->reopen_lock);
	spa_config_dirty(spa); /* states are told in labels */
}

/* --- what the devices tell by themselves --- */
static void event_state(void *arg, struct vdev *leaf)
{
	struct spa *spa = arg;
	autonv struct nvlist *payload = NULL;

	if (leaf->state == VDEV_STATE_CLOSED) /* it leaves the pool */
		return;
	payload = nvlist_create();
	nvlist_add_u64(payload, "vdev_guid", leaf->guid);
	if (leaf->path)
		nvlist_add_string(payload, "vdev_path", leaf->path);
	nvlist_add_string(payload, "vdev_state", vdev_state_name(leaf));
	spa_event_post(spa, "resource.fs.zfs.statechange", payload);
	log_warn("pool '%s': %s is %s", spa->name, leaf->path ? leaf->path : "a device", vdev_state_name(leaf));
}

static void event_dtl(void *arg, struct vdev *leaf)
{
	spa_dtl_dirty(arg, leaf);
}

void spa_vdev_events_set(struct spa *spa)
{
	struct spa_writer *w = spa_writer(spa);

	w->vdev_events = (struct vdev_events){.state = event_state, .dtl = event_dtl, .arg = spa};
	vdev_set_events(spa->root, &w->vdev_events);
}

/* --- clear --- */
static void counters_reset(struct vdev *vd)
{
	counter_reset(&vd->stats.read_errors);
	counter_reset(&vd->stats.write_errors);
	counter_reset(&vd->stats.checksum_errors);
	counter_reset(&vd->stats.slow_ios);
	for (unsigned i = 0; i < vd->nchildren; i++)
		counters_reset(vd->child[i]);
}

int spa_clear(struct spa *spa, const char *device, struct err *e)
{
	struct vdev *vd = spa->root;
	int err = 0;

	if (!spa_writer(spa))
		return err_set(e, -EROFS, "pool is read-only");
	dsl_config_enter(spa->dsl);
	if (device)
		vd = spa_vdev_find(spa, device, e);
	if (vd)
		counters_reset(vd);
	dsl_config_exit(spa->dsl);
	if (!vd)
		return -ENOENT;
	spa_devices_reopen(spa, device ? vd : spa->root);
	if (spa_is_suspended(spa))
		err = spa_resume(spa, e);
	if (!err)
		spa_event_post(spa, "sysevent.fs.zfs.vdev_clear", NULL);
	return err;
}

/* --- online, offline --- */
struct leaf_task {
	const char *device;
	bool temporary, fault, expand;
	bool changed;
	struct vdev *leaf;
};

/* Whether data would be lost from sight without this device: every parent up to the top-level must do without it. */
static bool is_required(const struct vdev *leaf)
{
	const struct vdev *top = leaf->top;
	unsigned gone = 0;

	if (top->is_log)
		return false;
	if (leaf == top)
		return true;
	for (unsigned i = 0; i < leaf->parent->nchildren; i++) {
		const struct vdev *c = leaf->parent->child[i];

		gone += c == leaf || !vdev_is_readable(c) || (vdev_is_leaf(c) && !vdev_dtl_is_empty(c));
	}
	switch (leaf->parent->kind) {
	case VDEV_RAIDZ:
	case VDEV_DRAID:
		return gone > leaf->parent->nparity;
	default:
		return gone == leaf->parent->nchildren;
	}
}

static int offline_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	struct leaf_task *t = arg;

	t->leaf = leaf_find(spa, t->device, e);
	if (!t->leaf)
		return -ENOENT;
	if (!t->leaf->offline && is_required(t->leaf))
		return err_set(e, -EBUSY, "no valid replicas");
	return 0;
}

static void offline_sync(struct spa *spa, void *arg, struct tx *tx)
{
	struct leaf_task *t = arg;
	autofree char *text = xasprintf("vdev=%s", t->leaf->path ? t->leaf->path : "");

	if (t->fault) {
		t->leaf->faulted = true;
		nvlist_add_u64(t->leaf->config, "faulted", 1);
		nvlist_add_string(t->leaf->config, "aux_state", "external");
	} else {
		t->leaf->offline = true;
		t->leaf->offline_temporary = t->temporary;
	}
	spa_history_internal(spa, t->fault ? "vdev fault" : "vdev offline", NULL, tx, text);
	spa_config_dirty(spa);
}

int spa_offline(struct spa *spa, const char *device, bool temporary, bool fault, struct err *e)
{
	struct leaf_task t = {.device = device, .temporary = temporary, .fault = fault};
	struct spa_task task = {
	    .spa = spa, .check = offline_check, .sync = offline_sync, .arg = &t, .policy = DSL_SPACE_NONE};
	int err = spa_task_run(&task, e);

	if (err)
		return err;
	SCOPED_LOCK(&spa_writer(spa)->reopen_lock);
	vdev_leaf_close(t.leaf, fault ? VDEV_STATE_FAULTED : VDEV_STATE_OFFLINE,
			fault ? VDEV_AUX_EXTERNAL : VDEV_AUX_NONE);
	return 0;
}

static int online_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	struct leaf_task *t = arg;

	t->leaf = leaf_find(spa, t->device, e);
	return t->leaf ? 0 : -ENOENT;
}

static void online_sync(struct spa *spa, void *arg, struct tx *tx)
{
	struct leaf_task *t = arg;
	struct vdev *leaf = t->leaf;
	autofree char *text = xasprintf("vdev=%s", leaf->path ? leaf->path : "");

	leaf->offline = leaf->offline_temporary = leaf->faulted = leaf->removed = false;
	nvlist_remove(leaf->config, "faulted");
	nvlist_remove(leaf->config, "removed");
	nvlist_remove(leaf->config, "aux_state");
	spa_history_internal(spa, "vdev online", NULL, tx, text);
	spa_config_dirty(spa);
}

/* The new space is the pool's with the group in which its configuration tells of it. */
static void expand_sync(struct spa *spa, void *arg, struct tx *tx)
{
	struct leaf_task *t = arg;
	struct vdev *top = t->leaf->top;
	uint64_t before = top->asize;
	struct err e = ERR_INIT;

	if (!top->ms_shift || !vdev_expand(top))
		return;
	t->changed = true;
	if (top->asize >> top->ms_shift > before >> top->ms_shift)
		if (alloc_grow_top(spa_writer(spa)->alloc, top, &e))
			log_warn("pool '%s': a device that has grown cannot be used further: %s", spa->name, e.text);
	spa_config_dirty(spa);
}

int spa_online(struct spa *spa, const char *device, bool expand, struct err *e)
{
	struct leaf_task t = {.device = device, .expand = expand};
	struct spa_task task = {
	    .spa = spa, .check = online_check, .sync = online_sync, .arg = &t, .policy = DSL_SPACE_NONE};
	int err = spa_task_run(&task, e);

	if (err)
		return err;
	spa_devices_reopen(spa, t.leaf);
	if (t.leaf->state < VDEV_STATE_DEGRADED)
		return err_set(e, -ENXIO, "%s was onlined, but is still in state %s", device, vdev_state_name(t.leaf));
	if (!expand && !atomic_load(&spa_writer(spa)->autoexpand))
		return 0;
	task.sync = expand_sync;
	return spa_task_run(&task, e);
}

/* At import, of a pool that grows by itself. Syncing context. */
void spa_tops_expand(struct spa *spa, struct tx *tx)
{
	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		struct leaf_task t = {.leaf = spa->root->child[i]};

		if (vdev_is_concrete(t.leaf) && spa_expand_size(t.leaf))
			expand_sync(spa, &t, tx);
	}
}

/* --- add --- */
struct add_task {
	struct vdev **top;
	size_t ntops;
	const struct nvlist *spares; /* of the command; NULL: none */
	size_t nspares;
};

static int add_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	const struct add_task *t = arg;

	if (t->ntops && t->top[0]->id != spa->root->nchildren)
		return err_set(e, -EBUSY, "another device is being added");
	return 0;
}

static void add_note(struct spa *spa, const struct vdev *top, struct tx *tx)
{
	autofree char *name = vdev_name(top, VDEV_NAME_PATH), *text = xasprintf("vdev=%s", name);

	spa_history_internal(spa, "vdev add", NULL, tx, text);
}

/* 01, 8.3: this group tells of them; the next one makes their arrays of space maps; when that is on the devices they
 * are used. */
static void add_sync(struct spa *spa, void *arg, struct tx *tx)
{
	struct add_task *t = arg;

	for (size_t i = 0; i < t->ntops; i++) {
		struct vdev *top = t->top[i];

		top->create_txg = tx->txg;
		vdev_add_top(spa->root, top);
		spa_devices_note(spa, top);
		add_note(spa, top, tx);
		t->top[i] = NULL;
	}
	if (t->nspares)
		spa_spares_add(spa, t->spares, tx);
	spa_writer(spa)->new_tops_txg = tx->txg + 1;
	spa_config_dirty(spa);
}

/* The configuration asked for in words: one sector shift in all normal devices (11.3). */
static int ashift_check(struct spa *spa, const struct add_task *t, bool force, struct err *e)
{
	uint64_t ashift = 0;

	for (unsigned i = 0; i < spa->root->nchildren; i++)
		if (vdev_is_concrete(spa->root->child[i]) && spa_top_class(spa->root->child[i]) == SPA_CLASS_NORMAL)
			ashift = MAX(ashift, spa->root->child[i]->ashift);
	for (size_t i = 0; i < t->ntops && !force; i++)
		if (spa_top_class(t->top[i]) == SPA_CLASS_NORMAL && t->top[i]->ashift != ashift) {
			err_set(e, -EINVAL,
				"ashift mismatch: the device would get %" PRIu64 ", the pool's have %" PRIu64,
				t->top[i]->ashift, ashift);
			err_hint(e, "use '-o ashift=%" PRIu64 "', or '-f' to override", ashift);
			return -EINVAL;
		}
	return 0;
}

static int removed_check(struct spa *spa, const struct add_task *t, struct err *e)
{
	bool removed = false;

	for (unsigned i = 0; i < spa->root->nchildren; i++)
		removed |= spa->root->child[i]->kind == VDEV_INDIRECT;
	for (size_t i = 0; i < t->ntops && removed; i++)
		if (t->top[i]->kind == VDEV_RAIDZ || t->top[i]->kind == VDEV_DRAID)
			return err_set(e, -EINVAL, "a pool from which devices were removed takes no raidz devices");
	return 0;
}

static int tops_open(struct spa *spa, const struct nvlist *tree, struct add_task *t, bool dry, struct err *e)
{
	struct nvlist *const *child;
	size_t n = 0;
	int err = 0;

	nvlist_lists(tree, "children", &child, &n);
	t->top = xcalloc(n + 1, sizeof(struct vdev *));
	for (size_t i = 0; i < n && !err; i++) {
		err = vdev_tree_create(child[i], &t->top[i], e);
		if (err)
			break;
		t->ntops++;
		vdev_tree_open(t->top[i], spa_layout_open, NULL);
		err = spa_top_ready(spa, t->top[i], e);
	}
	if (!err)
		err = removed_check(spa, t, e);
	return err;
}

static int labels_make(struct spa *spa, const struct add_task *t, struct err *e)
{
	uint64_t txg = txg_open(spa_writer(spa)->txgs);
	int err = 0;

	for (size_t i = 0; i < t->ntops && !err; i++)
		err = spa_labels_init(spa, t->top[i], txg, e);
	return err ? err : spa_spares_init(spa, t->spares, e);
}

static void add_free(struct add_task *t)
{
	for (size_t i = 0; t->top && i < t->ntops; i++)
		vdev_tree_destroy(t->top[i]);
	free(t->top);
}

static int add(struct spa *spa, const struct nvlist *tree, struct add_task *t, bool force, bool dry, struct err *e)
{
	struct spa_task task = {.spa = spa, .check = add_check, .sync = add_sync, .arg = t, .policy = DSL_SPACE_NONE};
	int err = tops_open(spa, tree, t, dry, e);

	if (!err)
		err = ashift_check(spa, t, force, e);
	if (err || dry)
		return err;
	err = labels_make(spa, t, e);
	if (!err)
		err = spa_task_run(&task, e);
	/* The next group makes them usable: then the command has done what it says. */
	return err ? err : txg_wait_synced(spa_writer(spa)->txgs, 0);
}

int spa_add_vdevs(struct spa *spa, const struct nvlist *tree, bool force, bool dry, struct err *e)
{
	struct add_task t = {0};
	struct spa_layout_args args = {.tree = tree, .root = spa->root, .force = force};
	autonv struct nvlist *made = NULL;
	struct nvlist *const *spare;
	uint64_t zap = 0;
	int err = spa_writable_check(spa, e);

	if (err)
		return err;
	if (spa_mos_u64(spa->mos, "pool_props", &zap) == 0)
		zap_lookup_u64(spa->mos, zap, "ashift", &args.ashift);
	args.create_txg = txg_open(spa_writer(spa)->txgs);
	err = spa_layout_make(&args, &made, e);
	if (err)
		return err;
	if (nvlist_lists(made, "spares", &spare, &t.nspares) == 0)
		t.spares = made;
	err = add(spa, made, &t, force, dry, e);
	add_free(&t);
	if (!err && !dry)
		spa_cachefile_update(spa);
	return err;
}
