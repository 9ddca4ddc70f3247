/*
 * A golden pool has every property and feature of its own with the value and source that `zpool get` of the real
 * OpenZFS showed, and the commands of its history.
 *
 *     test_golden_pool POOL
 */
#include <stdio.h>
#include <time.h>

#include "golden.h"

/* Of the moment; or of the space maps, which OpenZFS leaves out of a read-only import (it then says 0) and Tarn reads.
 */
static const char *const not_compared[] = {"load_guid", "allocated", "free", "capacity", "fragmentation"};

static bool is_compared(const struct golden *g, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(not_compared); i++)
		if (strcmp(not_compared[i], name) == 0)
			return false;
	/* replaying logs brought features into use */
	return !golden_was_written(g) || (strncmp(name, "feature@", 8) && strncmp(name, "bclone", 6));
}

static void check_property(struct golden *g, const char *name, const json_t *want, struct nvlist *props)
{
	const char *value = json_string_value(json_array_get(want, 0));
	const char *source = json_string_value(json_array_get(want, 1));
	struct nvlist *one;

	if (!value || !is_compared(g, name))
		return;
	if (nvlist_list(props, name, &one)) {
		golden_differs(g, "no property %s (%s)", name, value);
		return;
	}
	if (strcmp(nvlist_string_or(one, "value", ""), value))
		golden_differs(g, "%s is '%s', not '%s'", name, nvlist_string_or(one, "value", ""), value);
	if (source && strcmp(nvlist_string_or(one, "source", "-"), source))
		golden_differs(g, "source of %s is '%s', not '%s'", name, nvlist_string_or(one, "source", "-"), source);
}

static void check_properties(struct golden *g, const json_t *want)
{
	struct nvlist *props = NULL;
	int rc = spa_props_get(g->spa, &props);
	const char *name;
	json_t *one;

	if (rc)
		golden_differs(g, "properties: %s", err_words(rc));
	json_object_foreach((json_t *)want, name, one) if (!rc) check_property(g, name, one, props);
	nvlist_destroy(props);
}

/* Commands, without those that only describing the pool added. */
static int add_command(void *arg, const struct nvlist *record)
{
	const char *command = nvlist_string_or(record, "history command", NULL);
	time_t t = (time_t)nvlist_u64_or(record, "history time", 0);
	char when[32];
	struct tm tm;

	if (!command)
		return 0;
	strftime(when, sizeof(when), "%Y-%m-%d.%H:%M:%S", gmtime_r(&t, &tm));
	json_array_append_new(arg, json_sprintf("%s %s", when, command));
	return 0;
}

static void check_history(struct golden *g, const json_t *want)
{
	json_t *got = json_array();
	int rc = spa_history_each(g->spa, add_command, got);
	size_t n = json_array_size(want), have = json_array_size(got);

	if (rc)
		golden_differs(g, "history: %s", err_words(rc));
	/* the first line is a title */
	for (size_t i = 1; !rc && i < n; i++) {
		const char *line = json_string_value(json_array_get(want, i));
		const char *ours = i - 1 < have ? json_string_value(json_array_get(got, i - 1)) : "";

		if (strcmp(line, "") && strcmp(line, ours) && !golden_was_written(g))
			golden_differs(g, "history: '%s', not '%s'", ours, line);
	}
	json_decref(got);
}

int main(int argc, char **argv)
{
	struct golden g;
	const json_t *pool;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: test_golden_pool POOL\n");
		return 2;
	}
	rc = golden_open(&g, argv[1]);
	pool = json_object_get(g.manifest, "pool");
	if (rc == 0) {
		check_properties(&g, json_object_get(pool, "properties"));
		check_history(&g, json_object_get(pool, "history"));
	}
	golden_close(&g);
	if (g.differences)
		printf("%s: %u differences\n", g.name, g.differences);
	return rc ? rc : g.differences != 0;
}
