/*
 * Importing: every golden pool comes up read-only and shows name, guid, state, layout, properties and history as its
 * manifest says. Pools and manifests are looked for in $TARN_GOLDEN and $TARN_MANIFESTS ; the tests of a place that is
 * not there are skipped.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/str.h"
#include "spa/spa.h"

static unsigned failures;
#define DIFFERS(...)                                                                                                   \
	do {                                                                                                           \
		fprintf(stderr, "  " __VA_ARGS__);                                                                     \
		fputc('\n', stderr);                                                                                   \
		failures++;                                                                                            \
	} while (0)

static struct arc *arc;

/* An empty place is nowhere. */
static const char *place(const char *variable)
{
	return getenv(variable) ? getenv(variable) : "";
}

static const char *golden(void)
{
	return place("TARN_GOLDEN");
}

static struct nvlist *find(const char *dir)
{
	struct spa_search s = {.paths = &dir, .npaths = 1};
	struct nvlist **pool, *config = NULL;
	struct err e = ERR_INIT;
	size_t n;

	if (spa_search(&s, &pool, &n, &e))
		fail_msg("%s", e.text);
	for (size_t i = 0; i < n; i++) {
		if (i == 0)
			config = pool[i];
		else
			nvlist_destroy(pool[i]);
	}
	free(pool);
	return config;
}

static int import(const char *dir, struct spa_import args, struct spa **out, struct err *e)
{
	autonv struct nvlist *config = find(dir);

	if (!config)
		return err_set(e, -ENOENT, "%s: no pool found", dir);
	args.config = config;
	args.arc = arc;
	return spa_import(&args, out, e);
}

static json_t *manifest(const char *name)
{
	autofree char *path = xasprintf("%s/%s/manifest.json", place("TARN_MANIFESTS"), name);

	return json_load_file(path, 0, NULL);
}

/* --- comparing --- */
/* What the real one shows of space differs: it does not read space maps when it imports read-only. */
static bool is_of_the_moment(const char *prop)
{
	static const char *const skipped[] = {"load_guid", "allocated", "free", "capacity", "fragmentation", "freeing"};

	for (size_t i = 0; i < ARRAY_LEN(skipped); i++)
		if (strcmp(prop, skipped[i]) == 0)
			return true;
	return false;
}

/* Pools cut off in the middle are described as they were after a later import for writing. */
static bool is_described_later(json_t *m)
{
	json_t *notes = json_object_get(m, "notes"), *note;
	size_t i;

	json_array_foreach(notes, i, note) if (strstr(json_string_value(note), "power cut")) return true;
	return false;
}

static bool changes_by_writing(const char *prop)
{
	return strncmp(prop, "bclone", 6) == 0 || strncmp(prop, "feature@", 8) == 0;
}

static void props_compare(struct spa *spa, json_t *want, bool later)
{
	autonv struct nvlist *props = NULL;
	const char *key;
	json_t *pair;

	assert_int_equal(spa_props_get(spa, &props), 0);
	json_object_foreach(want, key, pair)
	{
		const char *value = json_string_value(json_array_get(pair, 0));
		const char *source = json_string_value(json_array_get(pair, 1));
		struct nvlist *have;

		if (is_of_the_moment(key) || (later && changes_by_writing(key)))
			continue;
		if (nvlist_list(props, key, &have))
			DIFFERS("%s: property %s is missing", spa->name, key);
		else if (strcmp(nvlist_string_or(have, "value", ""), value) != 0 ||
			 strcmp(nvlist_string_or(have, "source", ""), source) != 0)
			DIFFERS("%s: %s is %s (%s), not %s (%s)", spa->name, key, nvlist_string_or(have, "value", ""),
				nvlist_string_or(have, "source", ""), value, source);
	}
}

struct history_check {
	const char *pool;
	json_t *want;
	size_t next;
};

static int history_line(void *arg, const struct nvlist *record)
{
	struct history_check *h = arg;
	const char *command, *want;
	time_t t = (time_t)nvlist_u64_or(record, "history time", 0);
	autofree char *line = NULL;
	char date[64];
	struct tm tm;

	if (nvlist_string(record, "history command", &command))
		return 0;
	gmtime_r(&t, &tm);
	strftime(date, sizeof(date), "%Y-%m-%d.%H:%M:%S", &tm);
	line = xasprintf("%s %s", date, command);
	want = json_string_value(json_array_get(h->want, h->next++));
	if (!want || strcmp(want, line) != 0)
		DIFFERS("%s: history '%s', not '%s'", h->pool, line, want ? want : "");
	return 0;
}

static void history_compare(struct spa *spa, json_t *want, bool later)
{
	struct history_check h = {spa->name, want, 1};
	size_t n = json_array_size(want);

	assert_int_equal(spa_history_each(spa, history_line, &h), 0);
	while (n > 1 && json_string_value(json_array_get(want, n - 1))[0] == '\0')
		n--;
	if (later ? h.next >= n || h.next < 2 : h.next != n)
		DIFFERS("%s: %zu history lines, not %zu", spa->name, h.next - 1, n - 1);
}

/* Rows of the tree as "depth type/name state". Leaves are named after other paths, so only their states count. */
static void rows_flatten(const struct nvlist *rows, unsigned depth, struct str *out)
{
	for (const struct nvpair *p = nvlist_first(rows); p; p = nvlist_next(rows, p)) {
		const struct nvlist *row = nvpair_list(p, 0);
		struct nvlist *children;
		bool interior = nvlist_list(row, "vdevs", &children) == 0;

		if (strcmp(nvlist_string_or(row, "vdev_type", ""), "indirect") == 0)
			continue;
		str_addf(out, "%u %s %s\n", depth, interior ? nvlist_string_or(row, "name", "") : "*",
			 nvlist_string_or(row, "state", ""));
		if (interior)
			rows_flatten(children, depth + 1, out);
	}
}

/* The same from the text of zpool status; interior names are those with a number, or the pool's. */
static void status_flatten(json_t *status, const char *pool, struct str *out)
{
	size_t i;
	json_t *item;

	json_array_foreach(status, i, item)
	{
		const char *line = json_string_value(item);
		char name[128], state[64];
		size_t indent;
		bool interior;

		if (line[0] != '\t' || strncmp(line + 1, "NAME", 4) == 0)
			continue;
		indent = strspn(line + 1, " ");
		if (sscanf(line + 1, "%127s %63s", name, state) != 2 || indent % 2 ||
		    !(strcmp(state, "ONLINE") == 0 || strcmp(state, "DEGRADED") == 0 || strcmp(state, "FAULTED") == 0 ||
		      strcmp(state, "UNAVAIL") == 0))
			continue;
		interior = strcmp(name, pool) == 0 || strncmp(name, "mirror-", 7) == 0 ||
			   strncmp(name, "raidz", 5) == 0 || strncmp(name, "draid", 5) == 0 ||
			   strncmp(name, "replacing-", 10) == 0;
		str_addf(out, "%zu %s %s\n", indent / 2, interior ? name : "*",
			 strcmp(state, "FAULTED") == 0 ? "UNAVAIL" : state);
	}
}

static void layout_compare(struct spa *spa, json_t *status)
{
	static const char *const groups[] = {"dedup", "special", "logs"};
	struct str have = {0}, want = {0};
	autonv struct nvlist *st = NULL;
	struct nvlist *rows;

	assert_int_equal(spa_status(spa, true, &st), 0);
	if (nvlist_list(st, "vdevs", &rows) == 0)
		rows_flatten(rows, 0, &have);
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (nvlist_list(st, groups[i], &rows) == 0)
			rows_flatten(rows, 1, &have);
	status_flatten(status, spa->name, &want);
	if (strcmp(str_get(&have), str_get(&want)) != 0)
		DIFFERS("%s: layout\n%snot\n%s", spa->name, str_get(&have), str_get(&want));
	if (nvlist_u64_or(st, "error_count", 1) != 0)
		DIFFERS("%s: %llu data errors", spa->name, (unsigned long long)nvlist_u64_or(st, "error_count", 0));
	str_free(&have);
	str_free(&want);
}

/* used + available of the root data set is the pool's usable space. */
static void usable_compare(struct spa *spa, json_t *m)
{
	json_t *root = json_object_get(json_object_get(m, "datasets"), spa->name);
	json_t *props = json_object_get(root, "properties") ? json_object_get(root, "properties") : root;
	json_t *used = json_array_get(json_object_get(props, "used"), 0);
	json_t *avail = json_array_get(json_object_get(props, "available"), 0);
	uint64_t want;

	if (!used || !avail)
		return;
	want = strtoull(json_string_value(used), NULL, 10) + strtoull(json_string_value(avail), NULL, 10);
	if (spa->dsl->usable_bytes != want)
		DIFFERS("%s: usable %llu, not %llu", spa->name, (unsigned long long)spa->dsl->usable_bytes,
			(unsigned long long)want);
}

static void pool_check(const char *name)
{
	autofree char *dir = xasprintf("%s/%s", golden(), name);
	json_t *m = manifest(name), *pool = json_object_get(m, "pool");
	autofree char *guid = NULL;
	struct err e = ERR_INIT;
	struct spa *spa;

	if (import(dir, (struct spa_import){.force = true}, &spa, &e)) {
		DIFFERS("%s: %s", name, e.text);
		json_decref(m);
		return;
	}
	guid = xasprintf("%llu", (unsigned long long)spa->guid);
	if (m) {
		if (strcmp(spa->name, json_string_value(json_object_get(pool, "name"))) != 0 ||
		    strcmp(guid, json_string_value(json_object_get(pool, "guid"))) != 0)
			DIFFERS("%s: is %s, guid %s", name, spa->name, guid);
		layout_compare(spa, json_object_get(pool, "status"));
		props_compare(spa, json_object_get(pool, "properties"), is_described_later(m));
		history_compare(spa, json_object_get(pool, "history"), is_described_later(m));
		if (!is_described_later(m))
			usable_compare(spa, m);
	}
	assert_int_equal(spa_export(spa, NULL), 0);
	json_decref(m);
}

static void every_golden_pool_imports_as_its_manifest_says(void **state)
{
	DIR *d = opendir(golden());
	struct dirent *de;

	if (!d)
		skip();
	failures = 0;
	while ((de = readdir(d)))
		if (de->d_name[0] != '.')
			pool_check(de->d_name);
	closedir(d);
	assert_int_equal(failures, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_golden_pool_imports_as_its_manifest_says),
	};
	int rc = 0;

	setenv("TZ", "UTC", 1);
	arc = arc_create(64 << 20);
	if (argc > 1) /* names of pools: only these */
		for (int i = 1; i < argc; i++)
			pool_check(argv[i]);
	else
		rc = cmocka_run_group_tests(tests, NULL, NULL);
	arc_destroy(arc);
	return rc + (int)failures;
}
