/*
 * Pools put together from the labels of their devices (docs/format/01-pool.md, 4.7). The result is untrusted: it only
 * has to lead to the MOS, which holds the real configuration.
 */
#include <inttypes.h>
#include <stdio.h>

#include "spa/search.h"

#define TOPS_MAX 4096u /* top-level slots that are believed */

struct assembly {
	const struct found_list *all;
	search_alias_fn alias;
	void *alias_arg;
	uint64_t pool_guid;
	const struct found *best; /* the label with the highest txg: it speaks for the pool */
	struct strings notes;
};

static bool is_member(const struct found *f)
{
	return f->state != POOL_STATE_SPARE && f->state != POOL_STATE_L2CACHE;
}

/* --- one device per guid --- */
/* A copy of a device taken earlier has older uberblocks or an older label; then the recorded path, then more labels. */
static bool device_is_better(const struct assembly *a, const struct found *x, const struct found *y,
			     const char *recorded)
{
	bool xp = recorded && a->alias(a->alias_arg, x, recorded), yp = recorded && a->alias(a->alias_arg, y, recorded);

	if (x->newest_txg != y->newest_txg)
		return x->newest_txg > y->newest_txg;
	if (x->txg != y->txg)
		return x->txg > y->txg;
	if (xp != yp)
		return xp;
	if (x->nlabels != y->nlabels)
		return x->nlabels > y->nlabels;
	return x->order < y->order;
}

static const struct found *device_find(const struct assembly *a, uint64_t guid, const char *recorded)
{
	const struct found *best = NULL;

	for (size_t i = 0; i < a->all->n; i++) {
		const struct found *f = &a->all->f[i];

		if (f->guid == guid && (f->pool_guid == a->pool_guid || !is_member(f)) &&
		    (!best || device_is_better(a, f, best, recorded)))
			best = f;
	}
	return best;
}

static bool is_superseded(const struct assembly *a, const struct found *f)
{
	return device_find(a, f->guid, NULL) != f && device_find(a, f->guid, NULL)->newest_txg > f->newest_txg;
}

/* --- the tree --- */
static void paths_set(struct assembly *a, struct nvlist *node, unsigned depth)
{
	const char *recorded = nvlist_string_or(node, "path", NULL);
	struct nvlist *const *child;
	const struct found *f;
	uint64_t guid;
	size_t n;

	if (nvlist_lists(node, "children", &child, &n) == 0 && n > 0) {
		for (size_t i = 0; i < n && depth < 16; i++)
			paths_set(a, child[i], depth + 1);
		return;
	}
	if (nvlist_u64(node, "guid", &guid) || guid == 0)
		return;
	f = device_find(a, guid, recorded);
	if (!f)
		return;
	if (recorded && strcmp(recorded, f->path) != 0)
		nvlist_add_string(node, "recorded_path", recorded);
	nvlist_add_string(node, "path", recorded && a->alias(a->alias_arg, f, recorded) ? recorded : f->path);
}

static uint64_t tops_count(struct assembly *a)
{
	uint64_t n = 0, id;
	struct nvlist *tree;

	if (nvlist_u64(a->best->config, "vdev_children", &n) == 0 && n > 0 && n <= TOPS_MAX)
		return n;
	for (size_t i = 0; i < a->all->n; i++) {
		const struct found *f = &a->all->f[i];

		if (f->pool_guid == a->pool_guid && is_member(f) && nvlist_list(f->config, "vdev_tree", &tree) == 0 &&
		    nvlist_u64(tree, "id", &id) == 0 && id < TOPS_MAX)
			n = MAX(n > TOPS_MAX ? 0 : n, id + 1);
	}
	return MAX(n > TOPS_MAX ? 0 : n, 1);
}

static bool is_hole(const struct assembly *a, uint64_t id)
{
	const uint64_t *holes;
	size_t n;

	if (nvlist_u64s(a->best->config, "hole_array", &holes, &n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (holes[i] == id)
			return true;
	return false;
}

static bool tree_contains(const struct nvlist *node, uint64_t guid, unsigned depth)
{
	struct nvlist *const *child;
	size_t n;

	if (nvlist_u64_or(node, "guid", 0) == guid)
		return true;
	if (depth < 16 && nvlist_lists(node, "children", &child, &n) == 0)
		for (size_t i = 0; i < n; i++)
			if (tree_contains(child[i], guid, depth + 1))
				return true;
	return false;
}

/* A right checksum before the younger configuration before the younger uberblock. */
static bool config_is_newer(const struct found *x, const struct found *y)
{
	if (x->verified != y->verified)
		return x->verified;
	if (x->txg != y->txg)
		return x->txg > y->txg;
	return x->newest_txg > y->newest_txg;
}

/* The newest label whose top-level sits at this index. */
static const struct found *top_find(const struct assembly *a, uint64_t id)
{
	const struct found *best = NULL;
	struct nvlist *tree;

	for (size_t i = 0; i < a->all->n; i++) {
		const struct found *f = &a->all->f[i];

		if (f->pool_guid != a->pool_guid || !is_member(f) || nvlist_list(f->config, "vdev_tree", &tree) ||
		    nvlist_u64_or(tree, "id", UINT64_MAX) != id)
			continue;
		if (!best || config_is_newer(f, best))
			best = f;
	}
	return best;
}

static struct nvlist *placeholder(const char *type, uint64_t id)
{
	struct nvlist *l = nvlist_create();

	nvlist_add_string(l, "type", type);
	nvlist_add_u64(l, "id", id);
	nvlist_add_u64(l, "guid", 0);
	return l;
}

static struct nvlist *top_make(struct assembly *a, uint64_t id)
{
	const struct found *f = top_find(a, id);
	struct nvlist *tree, *copy;

	if (is_hole(a, id))
		return placeholder("hole", id);
	if (!f || nvlist_list(f->config, "vdev_tree", &tree))
		return placeholder("missing", id);
	copy = nvlist_copy(tree);
	paths_set(a, copy, 0);
	return copy;
}

static struct nvlist *root_make(struct assembly *a)
{
	uint64_t n = tops_count(a);
	struct nvlist **child = xcalloc(n, sizeof(*child)), *root = nvlist_create();

	for (uint64_t i = 0; i < n; i++)
		child[i] = top_make(a, i);
	nvlist_add_string(root, "type", "root");
	nvlist_add_u64(root, "id", 0);
	nvlist_add_u64(root, "guid", a->pool_guid);
	nvlist_add_lists(root, "children", child, n);
	for (uint64_t i = 0; i < n; i++)
		nvlist_destroy(child[i]);
	free(child);
	return root;
}

/* --- notes --- */
static void strays_note(struct assembly *a, const struct nvlist *root)
{
	for (size_t i = 0; i < a->all->n; i++) {
		const struct found *f = &a->all->f[i];

		if (f->pool_guid != a->pool_guid || !is_member(f))
			continue;
		if (is_superseded(a, f))
			strings_add(&a->notes,
				    xasprintf("%s: an older copy of the same device (txg %" PRIu64 "), ignored",
					      f->path, f->newest_txg));
		else if (!tree_contains(root, f->guid, 0))
			strings_add(&a->notes, xasprintf("%s: once belonged to this pool (label of txg %" PRIu64
							 "), no longer does, ignored",
							 f->path, f->txg));
	}
}

/* Notes on devices of this pool, and on those of none. */
static void device_notes_copy(struct assembly *a)
{
	for (size_t i = 0; i < a->all->nnotes; i++)
		if (a->all->note[i].pool_guid == 0 || a->all->note[i].pool_guid == a->pool_guid)
			strings_add(&a->notes, xstrdup(a->all->note[i].text));
}

/* guid (hex) -> path of everything found that this pool may use; the trusted configuration is opened with it. */
static struct nvlist *devices_make(const struct assembly *a)
{
	struct nvlist *l = nvlist_create();
	char key[32];

	for (size_t i = 0; i < a->all->n; i++) {
		const struct found *f = &a->all->f[i];

		if (f->pool_guid != a->pool_guid && is_member(f))
			continue;
		snprintf(key, sizeof(key), "%" PRIx64, f->guid);
		if (!nvlist_exists(l, key))
			nvlist_add_string(l, key, device_find(a, f->guid, NULL)->path);
	}
	return l;
}

static void key_copy(const struct nvlist *from, struct nvlist *to, const char *key)
{
	const char *s;
	uint64_t v;

	if (nvlist_u64(from, key, &v) == 0)
		nvlist_add_u64(to, key, v);
	else if (nvlist_string(from, key, &s) == 0)
		nvlist_add_string(to, key, s);
}

static struct nvlist *pool_make(struct assembly *a)
{
	static const char *const keys[] = {"version",   "name",     "state",         "txg",
					   "pool_guid", "comment",  "compatibility", "hostid",
					   "errata",    "hostname", "vdev_children", "split_guid"};
	const struct nvlist *label = a->best->config;
	struct nvlist *config = nvlist_create(), *root, *features;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		key_copy(label, config, keys[i]);
	if (!nvlist_exists(config, "version"))
		nvlist_add_u64(config, "version", 1);
	if (nvlist_list(label, "features_for_read", &features) == 0)
		nvlist_add_list(config, "features_for_read", features);
	root = root_make(a);
	strays_note(a, root);
	device_notes_copy(a);
	nvlist_take_list(config, "vdev_tree", root);
	nvlist_take_list(config, "devices", devices_make(a));
	nvlist_add_strings(config, "notes", (const char *const *)a->notes.s, a->notes.n);
	strings_free(&a->notes);
	return config;
}

static const struct found *speaker_find(const struct found_list *found, uint64_t pool_guid)
{
	const struct found *best = NULL;

	for (size_t i = 0; i < found->n; i++) {
		const struct found *f = &found->f[i];

		if (is_member(f) && f->pool_guid == pool_guid && (!best || config_is_newer(f, best)))
			best = f;
	}
	return best;
}

void assemble_pools(const struct found_list *found, search_alias_fn alias, void *arg, struct nvlist ***out, size_t *n)
{
	*out = xcalloc(found->n + 1, sizeof(**out));
	*n = 0;
	for (size_t i = 0; i < found->n; i++) {
		struct assembly a = {found, alias, arg, found->f[i].pool_guid};
		bool seen = !is_member(&found->f[i]);

		for (size_t k = 0; k < *n && !seen; k++)
			seen = nvlist_u64_or((*out)[k], "pool_guid", 0) == a.pool_guid;
		if (seen)
			continue;
		a.best = speaker_find(found, a.pool_guid);
		(*out)[(*n)++] = pool_make(&a);
	}
}
