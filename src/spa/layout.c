/*
 * Devices that a command names become a tree: looked at, given guids and sector shifts, refused where they do not fit
 * (docs/format/06-allocation-and-vdevs.md, 11.1 - 11.3).
 */
#include <sys/stat.h>

#include "base/os.h"
#include "disk/partition.h"
#include "spa/layout.h"
#include "spa/spa_write.h"

#define ASHIFT_MIN   9
#define ASHIFT_MAX   16
#define CHILDREN_MAX 255
#define SIZE_SLACK   (UINT64_C(16) << 20) /* by which children of one vdev may differ */

static TUNABLE(tunable_min_auto_ashift, "zfs_vdev_min_auto_ashift", "log2 of bytes", ASHIFT_MIN, ASHIFT_MIN, ASHIFT_MAX,
	       "smallest sector shift that is chosen for new devices when none is asked for");
static TUNABLE(tunable_max_auto_ashift, "zfs_vdev_max_auto_ashift", "log2 of bytes", 14, ASHIFT_MIN, ASHIFT_MAX,
	       "physical sectors up to this size decide the sector shift of new devices when none is asked for");

/* One leaf that was looked at. */
struct leaf {
	const char *path; /* in the new tree */
	dev_t dev;
	ino_t ino;
	uint64_t psize;
	unsigned logical, physical; /* log2 of sector sizes */
	bool is_file;
};

struct layout {
	const struct spa_layout_args *args;
	struct leaf *leaf;
	size_t nleaves;
};

static unsigned log2_of(uint64_t v)
{
	return 63 - (unsigned)__builtin_clzll(v | 1);
}

unsigned spa_metaslab_shift(uint64_t asize)
{
	uint64_t count = asize >> 29;
	unsigned shift = 29;

	if (count < 16)
		shift = log2_of(asize / 16) + 1;
	else if (count > 200)
		shift = log2_of(asize / 200) + 1;
	if (shift < 24)
		return 24;
	if (shift > 34) {
		shift = 34;
		if (asize >> shift > 131072)
			shift = log2_of(asize / 131072) + 1;
	}
	return shift;
}

/* --- leaves --- */
static int leaf_type_check(const struct nvlist *node, const struct leaf *l, struct err *e)
{
	bool file = strcmp(nvlist_string_or(node, "type", ""), "file") == 0;

	if (l->path[0] != '/')
		return err_set(e, -EINVAL, "%s: not an absolute path", l->path);
	if (file != l->is_file)
		return err_set(e, -EINVAL, "%s: %s", l->path, file ? "not a regular file" : "not a block device");
	return 0;
}

static int leaf_twice_check(const struct layout *lo, const struct leaf *l, struct err *e)
{
	for (size_t i = 0; i < lo->nleaves; i++)
		if (lo->leaf[i].dev == l->dev && lo->leaf[i].ino == l->ino &&
		    (l->is_file || strcmp(lo->leaf[i].path, l->path) == 0))
			return err_set(e, -EINVAL, "%s: the device occurs more than once", l->path);
	return 0;
}

static int leaf_stat(struct leaf *l, struct err *e)
{
	struct stat st;

	if (stat(l->path, &st)) {
		size_t len = strlen(l->path);

		/* "X-partN" inside an image */
		if (errno == ENOENT && len > 6 && strstr(l->path, "-part"))
			return 0;
		return err_set(e, -errno, "cannot open '%s': %s", l->path, err_words(errno));
	}
	l->is_file = S_ISREG(st.st_mode);
	l->dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	l->ino = S_ISBLK(st.st_mode) ? 0 : st.st_ino;
	return 0;
}

static int leaf_probe(struct layout *lo, struct leaf *l, struct err *e)
{
	struct disk *d;
	int err = partition_disk_open(l->path, DISK_RDWR, &d, e);

	if (err == -EBUSY)
		spa_in_use_explain(l->path, e);

	if (err)
		return err;
	l->psize = ROUND_DOWN(d->size, (uint64_t)VDEV_LABEL_SIZE);
	l->logical = MAX(log2_of(d->block_size), ASHIFT_MIN);
	l->physical = MAX(log2_of(d->physical_block_size), ASHIFT_MIN);
	if (l->psize < SPA_DEVICE_MIN)
		err = err_set(e, -EOVERFLOW, "%s: the device is too small: less than 64 MiB", l->path);
	else if (l->logical > ASHIFT_MAX)
		err = err_set(e, -EINVAL, "%s: sectors of %u bytes are too large", l->path, d->block_size);
	else
		err = spa_in_use_check(d, l->path, lo->args->force, e);
	disk_close(d);
	return err;
}

static int leaf_make(struct layout *lo, const struct nvlist *from, struct nvlist *node, struct err *e)
{
	static const char *const keep[] = {"path", "devid", "phys_path", "whole_disk"};
	struct leaf l = {0};
	int err;

	for (size_t i = 0; i < ARRAY_LEN(keep); i++)
		for (const struct nvpair *p = nvlist_first(from); p; p = nvlist_next(from, p))
			if (strcmp(nvpair_name(p), keep[i]) == 0)
				nvlist_add_pair(node, p);
	if (nvlist_string(node, "path", &l.path))
		return err_set(e, -EINVAL, "a device without a path");
	err = leaf_stat(&l, e);
	if (!err)
		err = leaf_type_check(from, &l, e);
	if (!err)
		err = leaf_twice_check(lo, &l, e);
	if (!err)
		err = leaf_probe(lo, &l, e);
	if (err)
		return err;
	lo->leaf = xrealloc(lo->leaf, (lo->nleaves + 1) * sizeof(*lo->leaf));
	lo->leaf[lo->nleaves++] = l;
	return 0;
}

/* --- nodes --- */
static int children_check(const struct nvlist *from, const char *type, size_t n, struct err *e)
{
	uint64_t parity = nvlist_u64_or(from, "nparity", 1);

	if (strcmp(type, "mirror") == 0)
		return n >= 2 ? 0 : err_set(e, -EINVAL, "a mirror needs at least 2 devices");
	if (strcmp(type, "raidz") != 0)
		return err_set(e, -ENOTSUP, "vdevs of type %s cannot be made yet", type);
	if (parity < 1 || parity > 3)
		return err_set(e, -EINVAL, "raidz has a parity of 1, 2 or 3");
	if (n < parity + 1 || n > CHILDREN_MAX)
		return err_set(e, -EINVAL, "raidz%" PRIu64 " needs %" PRIu64 " to 255 devices", parity, parity + 1);
	return 0;
}

static int node_make(struct layout *lo, const struct nvlist *from, uint64_t id, struct nvlist **out, struct err *e);

static int children_make(struct layout *lo, const struct nvlist *from, struct nvlist *node, struct err *e)
{
	struct nvlist *const *child, **made;
	size_t n = 0, done = 0;
	int err;

	nvlist_lists(from, "children", &child, &n);
	err = children_check(from, nvlist_string_or(from, "type", ""), n, e);
	made = xcalloc(n + 1, sizeof(*made));
	for (; done < n && !err; done += !err)
		err = node_make(lo, child[done], done, &made[done], e);
	if (!err)
		nvlist_add_lists(node, "children", made, n);
	for (size_t i = 0; i < done; i++)
		nvlist_destroy(made[i]);
	free(made);
	return err;
}

static bool is_leaf_type(const struct nvlist *node)
{
	const char *type = nvlist_string_or(node, "type", "");

	return strcmp(type, "disk") == 0 || strcmp(type, "file") == 0;
}

static int node_make(struct layout *lo, const struct nvlist *from, uint64_t id, struct nvlist **out, struct err *e)
{
	struct nvlist *node = nvlist_create();
	int err;

	nvlist_add_string(node, "type", nvlist_string_or(from, "type", ""));
	nvlist_add_u64(node, "id", id);
	nvlist_add_u64(node, "guid", os_random64());
	if (nvlist_exists(from, "nparity"))
		nvlist_add_u64(node, "nparity", nvlist_u64_or(from, "nparity", 1));
	err = is_leaf_type(from) ? leaf_make(lo, from, node, e) : children_make(lo, from, node, e);
	if (err) {
		nvlist_destroy(node);
		return err;
	}
	nvlist_add_u64(node, "create_txg", lo->args->create_txg);
	*out = node;
	return 0;
}

/* --- top-levels --- */
/* 11.1: of the physical sizes the largest that is within what is chosen by itself. */
static unsigned ashift_auto(const struct leaf *l, size_t n)
{
	unsigned logical = (unsigned)tunable_get(&tunable_min_auto_ashift), physical = 0,
		 most = (unsigned)tunable_get(&tunable_max_auto_ashift);

	for (size_t i = 0; i < n; i++)
		logical = MAX(logical, l[i].logical);
	for (size_t i = 0; i < n; i++)
		if (l[i].physical > logical && l[i].physical <= most)
			physical = MAX(physical, l[i].physical);
	return MAX(logical, physical);
}

static int ashift_choose(const struct layout *lo, const struct nvlist *from, size_t first, uint64_t *ashift,
			 struct err *e)
{
	uint64_t asked = nvlist_u64_or(from, "ashift", lo->args->ashift);

	*ashift = ashift_auto(&lo->leaf[first], lo->nleaves - first);
	if (asked == 0)
		return 0;
	if (asked < ASHIFT_MIN || asked > ASHIFT_MAX)
		return err_set(e, -EINVAL, "ashift must be between %d and %d", ASHIFT_MIN, ASHIFT_MAX);
	for (size_t i = first; i < lo->nleaves; i++)
		if (lo->leaf[i].logical > asked)
			return err_set(e, -EINVAL, "%s: its sectors are larger than ashift=%" PRIu64 " allows",
				       lo->leaf[i].path, asked);
	*ashift = asked;
	return 0;
}

static int sizes_check(const struct layout *lo, size_t first, struct err *e)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (size_t i = first; i < lo->nleaves; i++) {
		least = MIN(least, lo->leaf[i].psize);
		most = MAX(most, lo->leaf[i].psize);
	}
	if (lo->args->force || most <= least + SIZE_SLACK)
		return 0;
	err_set(e, -EINVAL, "the devices of one %s differ in size", lo->nleaves - first == 2 ? "mirror" : "group");
	err_hint(e, "use '-f' to override");
	return -EINVAL;
}

static int bias_check(const struct nvlist *from, struct err *e)
{
	const char *bias = nvlist_string_or(from, "alloc_bias", NULL), *type = nvlist_string_or(from, "type", "");

	if (bias && strcmp(bias, "log") != 0 && strcmp(bias, "special") != 0 && strcmp(bias, "dedup") != 0)
		return err_set(e, -EINVAL, "unknown class of devices '%s'", bias);
	if (nvlist_u64_or(from, "is_log", 0) && strcmp(type, "raidz") == 0)
		return err_set(e, -EINVAL, "a log device cannot be a %s", type);
	return 0;
}

static int top_make(struct layout *lo, const struct nvlist *from, uint64_t id, struct nvlist **out, struct err *e)
{
	const char *bias = nvlist_string_or(from, "alloc_bias", NULL);
	bool is_log = nvlist_u64_or(from, "is_log", 0) || (bias && strcmp(bias, "log") == 0);
	size_t first = lo->nleaves;
	uint64_t ashift = 0;
	int err = bias_check(from, e);

	if (!err)
		err = node_make(lo, from, id, out, e);
	if (err)
		return err;
	err = ashift_choose(lo, from, first, &ashift, e);
	if (!err)
		err = sizes_check(lo, first, e);
	if (err) {
		nvlist_destroy(*out);
		return err;
	}
	nvlist_add_u64(*out, "ashift", ashift);
	nvlist_add_u64(*out, "is_log", is_log);
	if (bias || is_log)
		nvlist_add_string(*out, "alloc_bias", is_log ? "log" : bias);
	return 0;
}

static int tops_make(struct layout *lo, const struct nvlist *tree, struct nvlist *root, struct err *e)
{
	uint64_t first = lo->args->root ? lo->args->root->nchildren : 0;
	struct nvlist *const *child, **made;
	size_t n = 0, done = 0;
	int err = 0;

	nvlist_lists(tree, "children", &child, &n);
	made = xcalloc(n + 1, sizeof(*made));
	for (; done < n && !err; done += !err)
		err = top_make(lo, child[done], first + done, &made[done], e);
	if (!err)
		nvlist_add_lists(root, "children", made, n);
	for (size_t i = 0; i < done; i++)
		nvlist_destroy(made[i]);
	free(made);
	return err;
}

/* --- replication (11.3) --- */
struct replication {
	bool any, mixed_media;
	const char *type;    /* "disk" stands for single devices */
	uint64_t redundancy; /* devices that may fail */
	bool files;
};

static void replication_of(const struct nvlist *top, struct replication *r)
{
	struct nvlist *const *child;
	size_t n = 1;

	*r = (struct replication){.any = true, .type = nvlist_string_or(top, "type", "")};
	if (is_leaf_type(top)) {
		r->files = strcmp(r->type, "file") == 0;
		r->type = "disk";
		return;
	}
	if (nvlist_lists(top, "children", &child, &n) == 0 && n) {
		r->files = strcmp(nvlist_string_or(child[0], "type", ""), "file") == 0;
		for (size_t i = 1; i < n; i++)
			r->mixed_media |= (strcmp(nvlist_string_or(child[i], "type", ""), "file") == 0) != r->files;
	}
	r->redundancy = strcmp(r->type, "mirror") == 0 ? n - 1 : nvlist_u64_or(top, "nparity", 0);
}

static int replication_compare(const struct replication *a, const struct replication *b, struct err *e)
{
	bool single = strcmp(a->type, "disk") == 0;

	if (b->mixed_media || a->files != b->files)
		err_set(e, -EINVAL, "mismatched replication level: files and disks are mixed");
	else if (single != (strcmp(b->type, "disk") == 0))
		err_set(e, -EINVAL, "mismatched replication level: both %s and %s vdevs are present", a->type, b->type);
	else if (a->redundancy != b->redundancy)
		err_set(e, -EINVAL,
			"mismatched replication level: %s and %s vdevs with different redundancy, %" PRIu64
			" and %" PRIu64 ", are present",
			a->type, b->type, a->redundancy, b->redundancy);
	else
		return 0;
	err_hint(e, "use '-f' to override");
	return -EINVAL;
}

static bool is_plain_top(const struct nvlist *top)
{
	const char *type = nvlist_string_or(top, "type", "");

	return !nvlist_u64_or(top, "is_log", 0) && !nvlist_exists(top, "alloc_bias") && strcmp(type, "hole") != 0 &&
	       strcmp(type, "indirect") != 0;
}

static int replication_check(const struct spa_layout_args *args, const struct nvlist *root, struct err *e)
{
	struct replication first = {0}, next;
	struct nvlist *const *child;
	autonv struct nvlist *old = NULL;
	size_t n = 0;
	int err = 0;

	if (args->force)
		return 0;
	for (unsigned i = 0; args->root && i < args->root->nchildren && !first.any; i++) {
		const struct vdev *top = args->root->child[i];

		if (!vdev_is_concrete(top) || spa_top_class(top) != SPA_CLASS_NORMAL)
			continue;
		old = spa_vdev_config(top, 0);
		replication_of(old, &first);
	}
	nvlist_lists(root, "children", &child, &n);
	for (size_t i = 0; i < n && !err; i++) {
		if (!is_plain_top(child[i]))
			continue;
		replication_of(child[i], &next);
		err = first.any ? replication_compare(&first, &next, e) : replication_compare(&next, &next, e);
		if (!first.any)
			first = next;
	}
	return err;
}

/* --- spares --- */
static int aux_make(struct layout *lo, const struct nvlist *tree, const char *key, struct nvlist *root, struct err *e)
{
	struct nvlist *const *entry, **made;
	size_t n = 0, done = 0;
	int err = 0;

	if (nvlist_lists(tree, key, &entry, &n) || n == 0)
		return 0;
	made = xcalloc(n, sizeof(*made));
	for (; done < n && !err; done += !err) {
		if (!is_leaf_type(entry[done])) {
			err = err_set(e, -EINVAL, "%s: only single devices can be that",
				      strcmp(key, "spares") == 0 ? "spare" : "cache");
			break;
		}
		err = node_make(lo, entry[done], 0, &made[done], e);
		if (err)
			break;
		nvlist_remove(made[done], "id");
		nvlist_remove(made[done], "create_txg");
		if (strcmp(key, "spares") == 0)
			nvlist_add_u64(made[done], "is_spare", 1);
		nvlist_add_u64(made[done], "ashift", ashift_auto(&lo->leaf[lo->nleaves - 1], 1));
	}
	if (!err)
		nvlist_add_lists(root, key, made, n);
	for (size_t i = 0; i < done; i++)
		nvlist_destroy(made[i]);
	free(made);
	return err;
}

/* --- all of it --- */
static int data_check(const struct spa_layout_args *args, const struct nvlist *root, struct err *e)
{
	struct nvlist *const *child;
	size_t n = 0;

	nvlist_lists(root, "children", &child, &n);
	for (size_t i = 0; i < n; i++)
		if (is_plain_top(child[i]))
			return 0;
	if (args->root)
		return 0;
	return err_set(e, -EINVAL, "the pool needs at least one device that is no log, special, dedup, cache or spare");
}

int spa_layout_make(const struct spa_layout_args *args, struct nvlist **out, struct err *e)
{
	struct layout lo = {.args = args};
	struct nvlist *root = nvlist_create();
	int err;

	nvlist_add_string(root, "type", "root");
	nvlist_add_u64(root, "id", 0);
	nvlist_add_u64(root, "guid", args->root ? args->root->guid : os_random64());
	nvlist_add_u64(root, "create_txg", args->create_txg);
	err = tops_make(&lo, args->tree, root, e);
	if (!err)
		err = aux_make(&lo, args->tree, "spares", root, e);
	if (!err && nvlist_exists(args->tree, "l2cache"))
		err = err_set(e, -ENOTSUP, "cache devices are not used: nothing would be kept on them");
	if (!err)
		err = data_check(args, root, e);
	if (!err)
		err = replication_check(args, root, e);
	free(lo.leaf);
	if (err)
		nvlist_destroy(root);
	else
		*out = root;
	return err;
}

int spa_layout_open(void *arg, struct vdev *leaf, struct disk **out, struct err *e)
{
	return leaf->path ? partition_disk_open(leaf->path, DISK_RDWR, out, e) : -ENOENT;
}
