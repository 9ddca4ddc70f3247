/* Commands that change pools and their devices. */
#include "serve/daemon/commands.h"

#include <inttypes.h>
#include <unistd.h>

#include "serve/daemon/mounts.h"
#include "vdev/label.h"
#include "zpl/zpl.h"

#define POOL_STATE_ACTIVE  0
#define POOL_STATE_SPARE   3
#define POOL_STATE_L2CACHE 4

void command_remember(struct control_request *rq, const struct nvlist *args, struct pool *p)
{
	const char *command = nvlist_string_or(args, "command", NULL);
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	if (command)
		spa_history_command(p->spa, command, control_uid(rq), host);
}

/* ---- one pool, one change ---- */

typedef int (*change_fn)(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e);

static int change_run(struct control_request *rq, const struct nvlist *args, struct nvlist *result, change_fn fn,
		      struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	const char *name = nvlist_string_or(args, "name", "");
	struct pool *p;
	int err = name[strcspn(name, "/@#")] ? err_set(e, -ENOENT, "no such pool") : pool_hold(d, name, &p, e);

	if (err)
		return err == -ENOENT ? err_set(e, err, "no such pool") : err;
	if (!spa_is_writable(p->spa))
		err = err_set(e, -EROFS, "pool is imported read-only");
	if (!err)
		err = fn(p->spa, args, result, e);
	if (!err && !nvlist_bool(args, "dry"))
		command_remember(rq, args, p);
	pool_release(d, p);
	return err;
}

static struct nvlist *list_or_empty(const struct nvlist *args, const char *name, struct nvlist *empty)
{
	struct nvlist *l;

	return nvlist_list(args, name, &l) == 0 ? l : empty;
}

static int change_add(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct nvlist *tree;

	if (nvlist_list(args, "tree", &tree))
		return err_set(e, -EINVAL, "no devices are given");
	return spa_add_vdevs(spa, tree, nvlist_bool(args, "force"), nvlist_bool(args, "dry"), e);
}

static int change_remove(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return spa_remove_vdev(spa, nvlist_string_or(args, "device", ""), e);
}

static int change_set(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *vdev = nvlist_string_or(args, "vdev", NULL);
	autonv struct nvlist *empty = nvlist_create();
	const struct nvlist *props = list_or_empty(args, "props", empty);

	int err = vdev ? spa_vdev_props_set(spa, vdev, props, e) : spa_props_set(spa, props, e);

	if (!err && nvlist_exists(props, "compatibility"))
		spa_compatibility_warn(spa, result);
	return err;
}

static int change_upgrade(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	autonv struct nvlist *done = NULL;
	const char *const *features;
	size_t n;
	int err = spa_upgrade(spa, nvlist_u64_or(args, "version", 0), &done, e);

	if (err)
		return err;
	nvlist_add_u64(result, "from", nvlist_u64_or(done, "from", 0));
	nvlist_add_u64(result, "to", nvlist_u64_or(done, "to", 0));
	if (nvlist_strings(done, "features", &features, &n) == 0 && n)
		nvlist_add_strings(result, "features", features, n);
	return 0;
}

static int change_reguid(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return spa_reguid(spa, nvlist_u64_or(args, "guid", 0), e);
}

static int change_checkpoint(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return nvlist_bool(args, "discard") ? spa_checkpoint_discard(spa, e) : spa_checkpoint(spa, e);
}

static int change_clear(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return spa_clear(spa, nvlist_string_or(args, "device", NULL), e);
}

static int change_online(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return spa_online(spa, nvlist_string_or(args, "device", ""), nvlist_bool(args, "expand"), e);
}

static int change_offline(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return spa_offline(spa, nvlist_string_or(args, "device", ""), nvlist_bool(args, "temporary"),
			   nvlist_bool(args, "fault"), e);
}

static int word_index(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i], word) == 0)
			return (int)i;
	return -1;
}

static int change_activity(struct spa *spa, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	static const char *const whats[] = {[SPA_TRIM] = "trim", [SPA_INITIALIZE] = "initialize"};
	static const char *const hows[] = {
	    [SPA_START] = "start", [SPA_SUSPEND] = "suspend", [SPA_CANCEL] = "cancel", [SPA_UNINIT] = "uninit"};
	int what = word_index(nvlist_string_or(args, "activity", ""), whats, ARRAY_LEN(whats));
	int how = word_index(nvlist_string_or(args, "how", "start"), hows, ARRAY_LEN(hows));
	const char *const *devices = NULL;
	size_t n = 0;

	if (what < 0 || how < 0)
		return err_set(e, -EINVAL, "unknown activity");
	nvlist_strings(args, "devices", &devices, &n);
	return spa_activity(spa, (enum spa_activity)what, (enum spa_activity_do)how, devices, n,
			    nvlist_u64_or(args, "rate", 0), nvlist_bool(args, "secure"), e);
}

#define CHANGE(noun)                                                                                                   \
	int command_pool_##noun(struct control_request *rq, const struct nvlist *args, struct nvlist *result,          \
				struct err *e)                                                                         \
	{                                                                                                              \
		return change_run(rq, args, result, change_##noun, e);                                                 \
	}
CHANGE(add)
CHANGE(remove)
CHANGE(set)
CHANGE(upgrade)
CHANGE(reguid)
CHANGE(checkpoint)
CHANGE(clear)
CHANGE(online)
CHANGE(offline)
CHANGE(activity)

/* ---- create, destroy ---- */

static void create_init_root(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	autonv struct nvlist *none = nvlist_create();

	BUG_ON(zpl_create_objects(os, props ? props : none, tx)); /* only memory can be missing */
}

static void create_args(const struct nvlist *args, struct nvlist *empty, struct spa_create *c)
{
	struct nvlist *tree = empty;

	nvlist_list(args, "tree", &tree);
	*c = (struct spa_create){
	    .name = nvlist_string_or(args, "name", ""),
	    .tree = tree,
	    .props = list_or_empty(args, "props", empty),
	    .fs_props = list_or_empty(args, "fs_props", empty),
	    .altroot = nvlist_string_or(args, "altroot", NULL),
	    .real_name = nvlist_string_or(args, "real_name", NULL),
	    .no_features = nvlist_bool(args, "no_features"),
	    .force = nvlist_bool(args, "force"),
	    .dry = nvlist_bool(args, "dry"),
	    .history = nvlist_string_or(args, "command", NULL),
	    .init_root = create_init_root,
	};
	c->temporary_name = c->real_name != NULL;
}

int command_pool_create(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct mount_request mr = {.automatic = true};
	struct tarn_daemon *d = command_daemon(rq);
	autonv struct nvlist *empty = nvlist_create();
	struct failures f = {NULL, 0};
	struct spa_create c;
	struct pool *p;
	int err;

	create_args(args, empty, &c);
	err = pool_create(d, &c, &p, e);
	if (err || c.dry)
		return err;
	spa_compatibility_warn(p->spa, result);
	mounts_mount_all(d, p, p->name, &mr, failures_add, &f);
	failures_finish(&f, result);
	pool_release(d, p);
	return 0;
}

int command_pool_destroy(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	return pool_end(command_daemon(rq), nvlist_string_or(args, "name", ""), nvlist_bool(args, "force"), true, e);
}

/* ---- sync, waiting ---- */

int command_pool_sync(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	const char *const *names = NULL;
	struct pool **pools, *p;
	size_t n = 0;
	int err = 0;

	if (nvlist_strings(args, "names", &names, &n) == 0 && n) {
		for (size_t i = 0; i < n && !err; i++) {
			err = pool_hold(d, names[i], &p, e);
			if (err)
				break;
			spa_sync_now(p->spa);
			pool_release(d, p);
		}
		return err;
	}
	n = pools_hold_all(d, &pools);
	for (size_t i = 0; i < n; i++)
		spa_sync_now(pools[i]->spa);
	pools_release_all(d, pools, n);
	return 0;
}

int command_pool_busy(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	const char *activity = nvlist_string_or(args, "activity", "");
	uint64_t left = 0;
	bool busy = false;
	struct pool *p;
	int err = pool_hold(d, nvlist_string_or(args, "name", ""), &p, e);

	if (err)
		return err;
	err = spa_is_busy_with(p->spa, activity, &busy, &left);
	pool_release(d, p);
	if (err)
		return err_set(e, err, "invalid activity '%s'", activity);
	nvlist_add_boolean_value(result, "busy", busy);
	nvlist_add_u64(result, "left", left);
	return 0;
}

/* ---- devices that belong to no pool here ---- */

/* Why this label is in the way of clearing. */
static int label_check(struct tarn_daemon *d, const char *path, const struct nvlist *config, bool force, struct err *e)
{
	uint64_t state = nvlist_u64_or(config, "state", UINT64_MAX), guid = nvlist_u64_or(config, "pool_guid", 0);
	const char *name = nvlist_string_or(config, "name", "?");

	if (pool_is_imported(d, guid))
		return err_set(e, -EBUSY, "%s is a member (ACTIVE) of pool '%s'", path, name);
	if (force || state == POOL_STATE_SPARE || state == POOL_STATE_L2CACHE)
		return 0;
	err_set(e, -EBUSY, "%s is a member of %s pool '%s'", path,
		state == POOL_STATE_ACTIVE ? "potentially active" : "exported or destroyed", name);
	err_hint(e, "use '-f' to override");
	return -EBUSY;
}

static int labels_check(struct tarn_daemon *d, const char *path, bool force, struct err *e)
{
	struct label label[VDEV_LABELS];
	struct disk *disk;
	int err = disk_open(path, DISK_RDONLY, &disk, e);

	if (err)
		return err;
	err = label_read_all(disk, label);
	if (err)
		err_set(e, err, "%s: %s", path, err_words(err));
	for (unsigned l = 0; l < VDEV_LABELS && !err; l++)
		if (label[l].config)
			err = label_check(d, path, label[l].config, force, e);
	label_free_all(label);
	disk_close(disk);
	return err;
}

int command_device_labelclear(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			      struct err *e)
{
	const char *path = nvlist_string_or(args, "path", "");
	struct disk *disk;
	int err = labels_check(command_daemon(rq), path, nvlist_bool(args, "force"), e);

	if (!err)
		err = disk_open(path, DISK_RDWR, &disk, e);
	if (err)
		return err;
	err = label_clear(disk);
	if (err)
		err_set(e, err, "%s: %s", path, err == -ENOENT ? "no pool's label is there" : err_words(err));
	disk_close(disk);
	return err;
}

/* ---- events ---- */

#define EVENT_WAIT_NS UINT64_C(200000000) /* how soon a cancelled client is noticed */

static bool event_is_of(const struct nvlist *event, const char *pool)
{
	return !pool || strcmp(nvlist_string_or(event, "pool", ""), pool) == 0;
}

int command_events_read(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *pool = nvlist_string_or(args, "name", NULL);
	bool follow = nvlist_bool(args, "follow");
	uint64_t id = 0;
	int err = 0;

	while (!err && !control_cancelled(rq)) {
		autonv struct nvlist *event = NULL;

		err = spa_event_next(id, follow ? now_ns() + EVENT_WAIT_NS : 0, &id, &event);
		if (err == -ENOENT && follow)
			err = 0;
		else if (!err && event_is_of(event, pool))
			err = control_item(rq, event);
	}
	if (control_cancelled(rq))
		return -EINTR;
	return err == -ENOENT ? 0 : err;
}

int command_events_clear(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	nvlist_add_u64(result, "cleared", spa_event_clear());
	return 0;
}

/* ---- tunables ---- */

struct tunables {
	struct tunable **t;
	size_t n;
};

static void tunable_collect(void *arg, struct tunable *t)
{
	struct tunables *all = arg;

	all->t = xrealloc(all->t, (all->n + 1) * sizeof(*all->t));
	all->t[all->n++] = t;
}

static int tunable_compare(const void *a, const void *b)
{
	const struct tunable *const *ta = a, *const *tb = b;

	return strcmp((*ta)->name, (*tb)->name);
}

static int tunable_send(struct control_request *rq, const struct tunable *t)
{
	autonv struct nvlist *item = nvlist_create();

	nvlist_add_string(item, "name", t->name);
	nvlist_add_u64(item, "value", tunable_get(t));
	nvlist_add_u64(item, "default", t->def);
	nvlist_add_u64(item, "min", t->min);
	nvlist_add_u64(item, "max", t->max);
	nvlist_add_string(item, "unit", t->unit);
	nvlist_add_string(item, "help", t->help);
	return control_item(rq, item);
}

int command_tunable_list(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tunables all = {NULL, 0};
	const char *const *names = NULL;
	size_t n = 0;
	int err = 0;

	nvlist_strings(args, "names", &names, &n);
	for (size_t i = 0; i < n && !err; i++) {
		struct tunable *t = tunable_find(names[i]);

		if (t)
			tunable_collect(&all, t);
		else
			err = err_set(e, -ENOENT, "there is no tunable '%s'", names[i]);
	}
	if (!n)
		tunable_each(tunable_collect, &all);
	qsort(all.t, all.n, sizeof(*all.t), tunable_compare);
	for (size_t i = 0; i < all.n && !err; i++)
		err = tunable_send(rq, all.t[i]);
	free(all.t);
	return err;
}

int command_tunable_set(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *name = nvlist_string_or(args, "name", "");
	struct tunable *t = tunable_find(name);

	if (!t)
		return err_set(e, -ENOENT, "there is no tunable '%s'", name);
	return tunable_set(t, nvlist_u64_or(args, "value", 0), e);
}
