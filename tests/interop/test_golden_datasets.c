/*
 * A golden pool lists exactly the data sets, snapshots, bookmarks and holds that the real OpenZFS listed, with every
 * property's value and source.
 *
 *     test_golden_datasets POOL
 *
 * Values are those of `zfs get -p all`. Tarn shows what OpenZFS 2.4 shows: where a pool was described by 2.1, the
 * defaults that changed since and the words that were new are translated, nothing else is let pass. Pools cut off by a
 * power failure were described after their logs had been replayed: there sizes must be shown, but may differ.
 */
#include <stdio.h>

#include "base/hash.h"
#include "dsl/dsl_deadlist.h"
#include "golden.h"

static const char *present(const json_t *j)
{
	const char *s = json_string_value(j);

	return s ? s : "-";
}

/* What 2.1 said, in the words of 2.4: other defaults, and one index word. */
static const struct {
	const char *name, *value21, *source21, *value, *source;
} translation[] = {
    {"compression", "off", "default", "on", "default"},
    {"xattr", "on", "default", "sa", "default"},
    {"xattr", "on", "local", "dir", "local"},
    {"xattr", "on", "inherited", "dir", "inherited"},
    {"relatime", "off", "default", "on", "default"},
    {"volblocksize", "8192", "default", "8192", "-"},
    {"volblocksize", "16384", "-", "16384", "default"},
    {"filesystem_limit", "18446744073709551615", NULL, "none", NULL},
    {"snapshot_limit", "18446744073709551615", NULL, "none", NULL},
    {"filesystem_count", "18446744073709551615", NULL, "none", NULL},
    {"snapshot_count", "18446744073709551615", NULL, "none", NULL},
};

struct expected {
	const char *value, *source;
};

/* The images are of a moment before the description. */
static bool is_older_than_described(const struct golden *g)
{
	return json_object_get(g->manifest, "intent_log_records") != NULL;
}

static bool is_size(const char *name)
{
	static const char *const sizes[] = {
	    "used",          "available",      "referenced",           "compressratio",    "usedbysnapshots",
	    "usedbydataset", "usedbychildren", "usedbyrefreservation", "refcompressratio", "logicalreferenced",
	    "logicalused",   "written"};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		if (strcmp(name, sizes[i]) == 0)
			return true;
	return false;
}

static bool is_described_by_21(const struct golden *g)
{
	return strncmp(golden_text(g->manifest, "openzfs"), "2.1", 3) == 0;
}

static struct expected expected_translate(const struct golden *g, const char *name, struct expected x)
{
	for (size_t i = 0; is_described_by_21(g) && i < ARRAY_LEN(translation); i++) {
		const char *source = translation[i].source21;

		if (strcmp(name, translation[i].name) != 0 || strcmp(x.value, translation[i].value21) != 0 ||
		    (source && strncmp(x.source, source, strlen(source)) != 0))
			continue;
		x.value = translation[i].value;
		if (source && strcmp(source, "inherited") != 0)
			x.source = translation[i].source;
		break;
	}
	return x;
}

/* Properties that the manifests leave out or that came after the release that wrote them. */
static bool may_be_unlisted(const char *name, const char *source, bool by_21)
{
	static const char *const newer[] = {"special_small_blocks",
					    "prefetch",
					    "direct",
					    "longname",
					    "volthreading",
					    "snapshots_changed",
					    "defaultuserquota",
					    "defaultgroupquota",
					    "defaultprojectquota",
					    "defaultuserobjquota",
					    "defaultgroupobjquota",
					    "defaultprojectobjquota"};
	static const char *const never[] = {"mounted", "snapshots_changed_nsecs", "zoned_uid"};

	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (strcmp(name, never[i]) == 0)
			return true;
	for (size_t i = 0; by_21 && i < ARRAY_LEN(newer); i++)
		if (strcmp(name, newer[i]) == 0)
			return true;
	return strcmp(name, "mountpoint") == 0 && strcmp(source, "default") == 0;
}

static void props_compare(struct golden *g, const char *name, const json_t *want, const struct nvlist *got)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)want, key, v)
	{
		struct expected x = {present(json_array_get(v, 0)), present(json_array_get(v, 1))};
		const char *value, *source;
		struct nvlist *p;

		x = expected_translate(g, key, x);
		if (nvlist_list(got, key, &p)) {
			golden_differs(g, "%s: %s is missing, should be %s (%s)", name, key, x.value, x.source);
			continue;
		}
		value = nvlist_string_or(p, "value", "?");
		source = nvlist_string_or(p, "source", "?");
		if (is_size(key) && is_older_than_described(g))
			x.value = value;
		if (strcmp(value, x.value) != 0 || strcmp(source, x.source) != 0)
			golden_differs(g, "%s: %s is %s (%s), should be %s (%s)", name, key, value, source, x.value,
				       x.source);
	}
	for (const struct nvpair *p = nvlist_first(got); p; p = nvlist_next(got, p)) {
		const char *source = nvlist_string_or(nvpair_list(p, 0), "source", "?");

		if (!json_object_get(want, nvpair_name(p)) &&
		    !may_be_unlisted(nvpair_name(p), source, is_described_by_21(g)))
			golden_differs(g, "%s: %s is shown as %s (%s), should not be there", name, nvpair_name(p),
				       nvlist_string_or(nvpair_list(p, 0), "value", "?"), source);
	}
}

struct listing {
	struct golden *g;
	json_t *datasets;
	size_t seen;
	struct dsl_dataset *head;
	struct dsl_dataset *previous; /* snapshot */
};

static const json_t *listing_find(struct listing *l, const char *name)
{
	const json_t *want = json_object_get(l->datasets, name);

	l->seen++;
	if (!want)
		golden_differs(l->g, "%s is listed, should not exist", name);
	return want;
}

static void dataset_compare(struct listing *l, struct dsl_dataset *ds)
{
	const json_t *want = listing_find(l, ds->name);
	struct dsl_dataset *again;
	struct nvlist *got;
	struct err e = ERR_INIT;

	if (!want)
		return;
	if (dsl_props_get(ds, NULL, 0, &got, &e)) {
		golden_differs(l->g, "%s: %s", ds->name, e.text);
		return;
	}
	props_compare(l->g, ds->name, want, got);
	nvlist_destroy(got);
	if (dsl_dataset_hold(ds->pool, ds->name, &again, &e)) {
		golden_differs(l->g, "by name: %s", e.text);
		return;
	}
	if (again != ds)
		golden_differs(l->g, "%s leads to another data set", ds->name);
	dsl_dataset_release(again);
}

/* written@(the one before) is what `written` says. */
static void written_compare(struct golden *g, struct dsl_dataset *ds, struct dsl_dataset *previous)
{
	uint64_t written;
	struct dsl_space s;

	if (!previous || dsl_written(ds, &written))
		return;
	if (dsl_written_since(ds, previous, &s) || s.used != written)
		golden_differs(g, "%s: written since %s does not agree with written %llu", ds->name, previous->name,
			       (unsigned long long)written);
}

static int snapshot_visit(void *arg, struct dsl_dataset *snap)
{
	struct listing *l = arg;

	if (l->previous && l->previous->creation_txg > snap->creation_txg)
		golden_differs(l->g, "%s is listed after a younger one", snap->name);
	dataset_compare(l, snap);
	written_compare(l->g, snap, l->previous);
	if (l->previous)
		dsl_dataset_release(l->previous);
	l->previous = dsl_dataset_ref(snap);
	return 0;
}

static int bookmark_visit(void *arg, const struct dsl_bookmark *b)
{
	struct listing *l = arg;
	char name[2 * DSL_NAME_MAX];
	const json_t *want;
	struct nvlist *got;
	struct err e = ERR_INIT;

	snprintf(name, sizeof(name), "%s#%s", l->head->name, b->name);
	want = listing_find(l, name);
	if (!want)
		return 0;
	if (dsl_bookmark_props_get(l->head, b, &got, &e)) {
		golden_differs(l->g, "%s: %s", name, e.text);
		return 0;
	}
	props_compare(l->g, name, want, got);
	nvlist_destroy(got);
	return 0;
}

static int dir_visit(void *arg, struct dsl_dir *d)
{
	struct listing *l = arg;
	struct err e = ERR_INIT;
	struct dsl_dataset *head;
	int rc = dsl_dataset_hold_obj(d->pool, d->head, &head, &e);

	if (rc) {
		golden_differs(l->g, "%s: %s", d->name, e.text);
		return 0;
	}
	dataset_compare(l, head);
	l->head = head;
	l->previous = NULL;
	rc = dsl_each_snapshot(head, snapshot_visit, l);
	written_compare(l->g, head, l->previous);
	if (l->previous)
		dsl_dataset_release(l->previous);
	if (!rc)
		rc = dsl_each_bookmark(head, bookmark_visit, l);
	dsl_dataset_release(head);
	if (!rc)
		rc = dsl_each_child(d, dir_visit, l);
	if (rc)
		golden_differs(l->g, "%s: listing ends with %d", d->name, rc);
	return 0;
}

static void missing_report(struct listing *l)
{
	struct dsl_dataset *ds;
	const char *name;
	json_t *v;

	if (l->seen == json_object_size(l->datasets))
		return;
	golden_differs(l->g, "%zu data sets are listed, should be %zu", l->seen, json_object_size(l->datasets));
	json_object_foreach(l->datasets, name, v)
	{
		struct err e = ERR_INIT;

		if (strchr(name, '#'))
			continue;
		if (dsl_dataset_hold(l->g->spa->dsl, name, &ds, &e) == 0)
			dsl_dataset_release(ds);
		else
			golden_differs(l->g, "%s", e.text);
	}
}

/* --- holds --- */

struct holds {
	struct golden *g;
	const char *snapshot;
	json_t *want; /* array of [snapshot, tag] */
	size_t seen;
};

static int hold_visit(void *arg, const char *tag, uint64_t time)
{
	struct holds *h = arg;
	json_t *pair;
	size_t i;

	h->seen++;
	json_array_foreach(h->want, i, pair)
	{
		if (strcmp(present(json_array_get(pair, 0)), h->snapshot) == 0 &&
		    strcmp(present(json_array_get(pair, 1)), tag) == 0 && time != 0)
			return 0;
	}
	golden_differs(h->g, "%s: hold '%s' should not be there", h->snapshot, tag);
	return 0;
}

static void holds_compare(struct golden *g)
{
	struct holds h = {.g = g, .want = json_object_get(g->manifest, "holds")};
	json_t *v;

	json_object_foreach(json_object_get(g->manifest, "datasets"), h.snapshot, v)
	{
		struct dsl_dataset *ds;

		if (!strchr(h.snapshot, '@') || dsl_dataset_hold(g->spa->dsl, h.snapshot, &ds, NULL))
			continue;
		if (dsl_each_hold(ds, hold_visit, &h))
			golden_differs(g, "%s: holds cannot be read", h.snapshot);
		dsl_dataset_release(ds);
	}
	if (h.seen != json_array_size(h.want))
		golden_differs(g, "%zu holds, should be %zu", h.seen, json_array_size(h.want));
}

/* --- user space: single values by name --- */

static const char *number_of(const struct nvlist *got, const char *name)
{
	struct nvlist *p;

	return nvlist_list(got, name, &p) ? "-" : nvlist_string_or(p, "value", "?");
}

static void space_row_compare(struct golden *g, struct dsl_dataset *ds, const char *who, const json_t *row)
{
	static const char *const what[] = {"used", "quota", "objused", "objquota"};
	const char *id = present(json_array_get(row, 1));

	for (unsigned i = 0; i < ARRAY_LEN(what); i++) {
		autofree char *name = xasprintf("%s%s@%s", who, what[i], id);
		const char *names[] = {name}, *want = present(json_array_get(row, 2 + i));
		struct nvlist *got;

		if (strcmp(want, "none") == 0)
			want = "0";
		if (dsl_props_get(ds, names, 1, &got, NULL)) {
			golden_differs(g, "%s: %s cannot be read", ds->name, name);
			continue;
		}
		if (strcmp(want, "-") != 0 && strcmp(number_of(got, name), want) != 0)
			golden_differs(g, "%s: %s is %s, should be %s", ds->name, name, number_of(got, name), want);
		nvlist_destroy(got);
	}
}

static void space_compare(struct golden *g)
{
	static const char *const kinds[][2] = {
	    {"userspace", "user"}, {"groupspace", "group"}, {"projectspace", "project"}};
	const char *name;
	json_t *fs, *row;
	size_t i;

	json_object_foreach(json_object_get(g->manifest, "filesystems"), name, fs)
	{
		struct dsl_dataset *ds;

		if (dsl_dataset_hold(g->spa->dsl, name, &ds, NULL))
			continue;
		for (unsigned k = 0; k < ARRAY_LEN(kinds); k++)
			json_array_foreach(json_object_get(fs, kinds[k][0]), i, row)
			    space_row_compare(g, ds, kinds[k][1], row);
		dsl_dataset_release(ds);
	}
}

static void pool_compare(struct golden *g)
{
	struct listing l = {.g = g, .datasets = json_object_get(g->manifest, "datasets")};
	struct dsl_pool *p = g->spa->dsl;
	struct err e = ERR_INIT;
	struct dsl_dir *root;

	if (dsl_dir_hold(p, p->root_dir, &root, &e)) {
		golden_differs(g, "%s", e.text);
		return;
	}
	dir_visit(&l, root);
	dsl_dir_release(root);
	missing_report(&l);
	holds_compare(g);
	if (!is_older_than_described(g))
		space_compare(g);
}

int main(int argc, char **argv)
{
	struct golden g;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: %s POOL\n", argv[0]);
		return 2;
	}
	rc = golden_open(&g, argv[1]);
	if (rc == 0)
		pool_compare(&g);
	golden_close(&g);
	if (rc)
		return rc;
	printf("%s: %u differences\n", argv[1], g.differences);
	return g.differences ? 1 : 0;
}
