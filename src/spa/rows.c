/*
 * One row per device for `zpool status`, `zpool list -v` and the listing of `zpool import`
 * (docs/format/09-cli.md, 9.9).
 */
#include "base/os.h"
#include "spa/search.h"
#include "spa/spa_impl.h"

static const char *aux_words(const struct vdev *vd)
{
	static const char *const words[] = {
	    [VDEV_AUX_OPEN_FAILED] = "cannot open",
	    [VDEV_AUX_CORRUPT_DATA] = "corrupted data",
	    [VDEV_AUX_NO_REPLICAS] = "insufficient replicas",
	    [VDEV_AUX_BAD_GUID_SUM] = "missing device",
	    [VDEV_AUX_TOO_SMALL] = "device is too small",
	    [VDEV_AUX_BAD_LABEL] = "invalid label",
	    [VDEV_AUX_VERSION_NEWER] = "newer version",
	    [VDEV_AUX_VERSION_OLDER] = "older version",
	    [VDEV_AUX_UNSUP_FEAT] = "unsupported feature(s)",
	    [VDEV_AUX_SPARED] = "currently in use",
	    [VDEV_AUX_ERR_EXCEEDED] = "too many errors",
	    [VDEV_AUX_IO_FAILURE] = "experienced I/O failures",
	    [VDEV_AUX_BAD_LOG] = "bad intent log",
	    [VDEV_AUX_EXTERNAL] = "external device fault",
	    [VDEV_AUX_SPLIT_POOL] = "split into new pool",
	    [VDEV_AUX_BAD_ASHIFT] = "unsupported sector size",
	    [VDEV_AUX_EXTERNAL_PERSIST] = "external device fault",
	    [VDEV_AUX_ACTIVE] = "currently in use on another host",
	    [VDEV_AUX_CHILDREN_OFFLINE] = "all children offline",
	    [VDEV_AUX_ASHIFT_TOO_BIG] = "sectors are too large",
	};

	if (vd->aux == VDEV_AUX_NONE || (unsigned)vd->aux >= ARRAY_LEN(words))
		return NULL;
	return words[vd->aux];
}

static void config_copy(const struct nvlist *config, struct nvlist *row, const char *from, const char *to)
{
	const char *s;

	if (nvlist_string(config, from, &s) == 0)
		nvlist_add_string(row, to, s);
}

static void row_add_leaf(const struct vdev *vd, struct nvlist *row)
{
	if (vd->path)
		nvlist_add_string(row, "path", vd->path);
	config_copy(vd->config, row, "phys_path", "phys_path");
	config_copy(vd->config, row, "devid", "devid");
	config_copy(vd->config, row, "vdev_enc_sysfs_path", "enc_path");
	if (vd->psize)
		nvlist_add_u64(row, "phys_space", vd->psize);
	if (nvlist_exists(vd->config, "com.datto:resilver_defer"))
		nvlist_add_u64(row, "resilver_deferred", 1);
	if (nvlist_u64_or(vd->config, "resilver_txg", 0))
		nvlist_add_u64(row, "resilvering", 1);
	if (vd->was_path) {
		nvlist_add_u64(row, "not_present", 1);
		nvlist_add_string(row, "was", vd->was_path);
	}
}

static void row_add_space(const struct spa_top_space *space, struct nvlist *row)
{
	if (!space || !space->known)
		return;
	nvlist_add_u64(row, "alloc_space", space->allocated);
	nvlist_add_u64(row, "total_space", space->size);
	nvlist_add_u64(row, "fragmentation", space->fragmentation);
	if (space->expand)
		nvlist_add_u64(row, "ex_dev_size", space->expand);
	if (space->checkpoint)
		nvlist_add_u64(row, "checkpoint_space", space->checkpoint);
}

static void rows_put(struct nvlist *rows, const struct vdev *vd, struct nvlist *row)
{
	autofree char *name = vdev_name(vd, 0);
	autofree char *key = NULL;

	if (nvlist_exists(rows, name)) /* two devices of one name */
		key = xasprintf("%s (%" PRIu64 ")", name, vd->guid);
	nvlist_take_list(rows, key ? key : name, row);
}

struct nvlist *spa_row(const struct vdev *vd, const char *class, const struct spa_top_space *space)
{
	struct nvlist *row = nvlist_create();
	autofree char *name = vdev_name(vd, 0);

	nvlist_add_string(row, "name", name);
	nvlist_add_string(row, "vdev_type", vd->ops->type);
	nvlist_add_u64(row, "guid", vd->guid);
	if (vdev_is_leaf(vd))
		row_add_leaf(vd, row);
	nvlist_add_string(row, "class", class);
	nvlist_add_string(row, "state", vdev_state_name(vd));
	if (aux_words(vd))
		nvlist_add_string(row, "aux", aux_words(vd));
	row_add_space(vd->top == vd ? space : NULL, row);
	nvlist_add_u64(row, "read_errors", counter_read(&vd->stats.read_errors));
	nvlist_add_u64(row, "write_errors", counter_read(&vd->stats.write_errors));
	nvlist_add_u64(row, "checksum_errors", counter_read(&vd->stats.checksum_errors));
	nvlist_add_u64(row, "read_ops", counter_read(&vd->stats.read_ops));
	nvlist_add_u64(row, "read_bytes", counter_read(&vd->stats.read_bytes));
	nvlist_add_u64(row, "write_ops", counter_read(&vd->stats.write_ops));
	nvlist_add_u64(row, "write_bytes", counter_read(&vd->stats.write_bytes));
	if (counter_read(&vd->stats.slow_ios))
		nvlist_add_u64(row, "slow_ios", counter_read(&vd->stats.slow_ios));
	if (vd->disk && vd->disk->physical_block_size > UINT64_C(1) << vd->top->ashift) {
		nvlist_add_u64(row, "configured_ashift", vd->top->ashift);
		nvlist_add_u64(row, "physical_ashift", (uint64_t)__builtin_ctz(vd->disk->physical_block_size));
	}
	if (vd->removing)
		nvlist_add_u64(row, "removing", 1);
	if (vd->noalloc)
		nvlist_add_u64(row, "noalloc", 1);
	if (vd->nchildren) {
		struct nvlist *children = nvlist_create();

		for (unsigned i = 0; i < vd->nchildren; i++)
			rows_put(children, vd->child[i], spa_row(vd->child[i], class, NULL));
		nvlist_take_list(row, "vdevs", children);
	}
	return row;
}

enum spa_class spa_top_class(const struct vdev *top)
{
	if (top->is_log)
		return SPA_CLASS_LOG;
	if (top->alloc_bias && strcmp(top->alloc_bias, "special") == 0)
		return SPA_CLASS_SPECIAL;
	if (top->alloc_bias && strcmp(top->alloc_bias, "dedup") == 0)
		return SPA_CLASS_DEDUP;
	return SPA_CLASS_NORMAL;
}

const char *spa_class_name(const struct vdev *top)
{
	static const char *const names[SPA_CLASSES] = {"normal", "special", "dedup", "log"};

	return top->kind == VDEV_HOLE ? "hole" : names[spa_top_class(top)];
}

const char *spa_state_of_root(const struct vdev *root)
{
	return vdev_state_name(root);
}

/* The pool's own row stands for the root and holds the normal top-levels. */
static struct nvlist *root_row(const struct vdev *root, const char *pool)
{
	struct nvlist *row = spa_row(root, "normal", NULL);

	nvlist_add_string(row, "name", pool);
	nvlist_remove(row, "vdevs");
	return row;
}

static struct nvlist *class_list(struct nvlist *out, const char *key)
{
	struct nvlist *l;

	if (nvlist_list(out, key, &l) == 0)
		return l;
	l = nvlist_create();
	nvlist_take_list(out, key, l);
	return l;
}

void spa_rows_add(struct nvlist *out, const struct vdev *root, const char *pool, const struct spa_top_space *space)
{
	static const char *const keys[SPA_CLASSES] = {NULL, "special", "dedup", "logs"};
	struct nvlist *normal = nvlist_create(), *top = root_row(root, pool), *vdevs = nvlist_create();

	for (unsigned i = 0; i < root->nchildren; i++) {
		const struct vdev *vd = root->child[i];
		const char *key = keys[spa_top_class(vd)];

		if (vd->kind == VDEV_HOLE || vd->kind == VDEV_INDIRECT)
			continue; /* what is left of removed devices is no device */
		rows_put(key ? class_list(out, key) : normal, vd,
			 spa_row(vd, spa_class_name(vd), space ? &space[i] : NULL));
	}
	nvlist_take_list(top, "vdevs", normal);
	nvlist_take_list(vdevs, pool, top);
	nvlist_take_list(out, "vdevs", vdevs);
}

/* --- the listing of what was found --- */
static void missing_count(const struct vdev *vd, unsigned *missing, unsigned *damaged)
{
	if (vd->nchildren == 0 && vd->kind == VDEV_MISSING)
		(*missing)++;
	if (vdev_is_leaf(vd) && vd->state == VDEV_STATE_CANT_OPEN)
		(*(vd->aux == VDEV_AUX_OPEN_FAILED ? missing : damaged))++;
	for (unsigned i = 0; i < vd->nchildren; i++)
		missing_count(vd->child[i], missing, damaged);
}

/* Another host used it last and did not export it. */
static bool is_foreign(const struct nvlist *config)
{
	uint64_t host = nvlist_u64_or(config, "hostid", 0);

	return host && host != os_hostid() && nvlist_u64_or(config, "state", POOL_STATE_ACTIVE) == POOL_STATE_ACTIVE;
}

static const char *config_reason(const struct nvlist *config, const struct vdev *root)
{
	uint64_t version = nvlist_u64_or(config, "version", 0);
	unsigned missing = 0, damaged = 0;
	struct nvlist *features;

	if (version > SPA_VERSION)
		return "version-newer";
	if (nvlist_list(config, "features_for_read", &features) == 0 && spa_features_unknown_in(features))
		return "unsup-feat-read";
	missing_count(root, &missing, &damaged);
	if (!vdev_is_readable(root))
		return damaged && !missing ? "corrupt-label-nr" : "missing-dev-nr";
	if (is_foreign(config))
		return "hostid-mismatch";
	if (missing)
		return "missing-dev-r";
	if (damaged)
		return "corrupt-label-r";
	return version < SPA_VERSION ? "version-older" : "ok";
}

/* Removed devices leave a place that labels say nothing about; only the MOS knows. Where devices have been removed, an
 * empty place is taken for that. */
static struct nvlist *tree_for_listing(const struct nvlist *config, const struct nvlist *tree)
{
	struct nvlist *copy = nvlist_copy(tree), *features, *const * child;
	size_t n;

	if (nvlist_list(config, "features_for_read", &features) ||
	    !nvlist_exists(features, "com.delphix:device_removal") || nvlist_lists(copy, "children", &child, &n))
		return copy;
	for (size_t i = 0; i < n; i++)
		if (strcmp(nvlist_string_or(child[i], "type", ""), "missing") == 0)
			nvlist_add_string(child[i], "type", "hole");
	return copy;
}

void spa_config_describe(struct nvlist *config)
{
	autonv struct nvlist *listed = NULL;
	const char *pool = nvlist_string_or(config, "name", "?");
	struct nvlist *tree, *devices;
	struct spa_opener opener = {0};
	struct vdev *root;
	struct err e = ERR_INIT;

	nvlist_add_string(config, "health", "FAULTED");
	if (nvlist_list(config, "vdev_tree", &tree) == 0)
		listed = tree_for_listing(config, tree);
	if (!listed || nvlist_list(config, "devices", &devices) || vdev_tree_create(listed, &root, &e)) {
		spa_reason_add(config, "corrupt-pool");
		if (e.text[0])
			nvlist_add_string(config, "error", e.text);
		return;
	}
	opener.devices = devices;
	nvlist_u64(config, "pool_guid", &opener.pool_guid);
	vdev_tree_open(root, spa_leaf_open, &opener);
	nvlist_add_string(config, "health", spa_state_of_root(root));
	spa_reason_add(config, config_reason(config, root));
	spa_rows_add(config, root, pool, NULL);
	vdev_tree_destroy(root);
}

/* A host's claim weighs more than what is found out by opening the pool in spite of it. */
static void status_take(struct nvlist *config, struct nvlist *status)
{
	static const char *const words[] = {"reason", "status", "action", "msgid", "moreinfo"};
	static const char *const lists[] = {"vdevs", "logs", "special", "dedup", "spares", "l2cache"};
	bool foreign = is_foreign(config);
	const char *text;
	struct nvlist *l;

	nvlist_add_string(config, "health", nvlist_string_or(status, "state", "UNKNOWN"));
	for (size_t i = 0; i < ARRAY_LEN(words) && !foreign; i++) {
		nvlist_remove(config, words[i]);
		if (nvlist_string(status, words[i], &text) == 0)
			nvlist_add_string(config, words[i], text);
	}
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		nvlist_remove(config, lists[i]);
		if (nvlist_list(status, lists[i], &l) == 0)
			nvlist_add_list(config, lists[i], l);
	}
}

/* Where labels promised a pool that can be read. */
static void failure_take(struct nvlist *config, int err, const struct err *e)
{
	const char *health = nvlist_string_or(config, "health", ""), *text = strstr(e->text, "': ");

	if (strcmp(health, "ONLINE") != 0 && strcmp(health, "DEGRADED") != 0)
		return;
	nvlist_add_string(config, "error", text ? text + 3 : err_words(err));
	if (err == -EREMOTEIO) { /* the activity test of multihost pools */
		spa_reason_add(config, os_hostid() ? "hostid-active" : "hostid-required");
		return;
	}
	if (err == -ENOTSUP || is_foreign(config))
		return;
	nvlist_add_string(config, "health", "FAULTED");
	spa_reason_add(config, "corrupt-pool");
}

int spa_config_try(struct nvlist *config, struct arc *arc, bool (*progress)(void *arg, const char *stage), void *arg)
{
	struct spa_import args = {.config = config,
				  .trial = true,
				  .missing_log = true,
				  .arc = arc,
				  .progress = progress,
				  .progress_arg = arg};
	autonv struct nvlist *status = NULL;
	struct err e = ERR_INIT;
	struct spa *spa;
	int err = spa_import(&args, &spa, &e);

	if (err) {
		failure_take(config, err, &e);
		return err == -EINTR ? err : 0;
	}
	if (spa_status(spa, false, &status) == 0)
		status_take(config, status);
	spa_export(spa, NULL);
	return 0;
}
