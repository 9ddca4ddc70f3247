/*
 * The small commands that only show: holds, diff, allow, upgrade.
 */
#include "cli/zfs.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <unistd.h>

/* ---- holds ---- */

struct holds_output {
	struct cli_table *table;
	bool parsable;
};

static int hold_add(void *arg, const struct nvlist *item)
{
	struct holds_output *o = arg;
	time_t time = (time_t)nvlist_u64_or(item, "time", 0);
	char when[64];
	const char *cells[] = {nvlist_string_or(item, "snapshot", ""), nvlist_string_or(item, "tag", ""), when};
	struct tm tm;

	if (o->parsable || !localtime_r(&time, &tm))
		snprintf(when, sizeof(when), "%lld", (long long)time);
	else
		strftime(when, sizeof(when), "%a %b %e %H:%M %Y", &tm);
	cli_table_add(o->table, cells);
	return 0;
}

int zfs_holds(int argc, char **argv)
{
	static const char *const headers[] = {"NAME", "TAG", "TIMESTAMP"};
	autonv struct nvlist *args = nvlist_create();
	struct holds_output o = {NULL, false};
	struct err e = ERR_INIT;
	bool scripted = false;
	int opt, err;

	while ((opt = getopt(argc, argv, "rHp")) != -1) {
		if (opt == 'r')
			nvlist_add_boolean_value(args, "recursive", true);
		else if (opt == 'H')
			scripted = true;
		else if (opt == 'p')
			o.parsable = true;
		else
			return cli_usage("zfs", zfs_commands, "holds", NULL);
	}
	if (optind >= argc)
		return cli_usage("zfs", zfs_commands, "holds", "missing snapshot argument");
	nvlist_add_strings(args, "names", (const char *const *)argv + optind, (size_t)(argc - optind));
	o.table = cli_table_create(headers, NULL, 3, scripted);
	err = cli_ask("dataset.holds", args, hold_add, &o, NULL, &e);
	if (err)
		err = cli_fail("list holds of", argv[optind], &e);
	else
		cli_table_print(o.table, stdout);
	cli_table_destroy(o.table);
	return err;
}

/* ---- diff ---- */

struct diff_output {
	bool types, tabs, times, raw;
	char *mountpoint; /* before every path */
};

static void path_print(const struct diff_output *o, const uint8_t *path, size_t n)
{
	fputs(o->mountpoint, stdout);
	for (size_t i = 0; i < n; i++) {
		if (o->raw || (path[i] > ' ' && path[i] < 0x7f && path[i] != '\\'))
			putchar(path[i]);
		else
			printf("\\%04o", path[i]);
	}
}

/* Link counts that changed are shown, but not for a change of nothing else. */
static void change_print(const struct diff_output *o, const struct nvlist *item)
{
	const char *kind = nvlist_string_or(item, "kind", "?"), *type = nvlist_string_or(item, "type", "?");
	const uint8_t *path = (const uint8_t *)"", *to = NULL;
	size_t n = 0, nto = 0;
	int64_t links = 0;

	nvlist_bytes(item, "path", &path, &n);
	nvlist_bytes(item, "new_path", &to, &nto);
	nvlist_i64(item, "link_delta", &links);
	if (o->times)
		printf("%" PRIu64 ".%09" PRIu64 "\t", nvlist_u64_or(item, "ctime", 0),
		       nvlist_u64_or(item, "ctime_ns", 0));
	printf("%s\t", kind);
	if (o->types)
		printf("%s\t", type);
	path_print(o, path, n);
	if (to) {
		fputs(o->tabs ? "\t" : " -> ", stdout);
		path_print(o, to, nto);
	}
	if (links)
		printf("\t(%+" PRId64 ")", links);
	putchar('\n');
}

static int diff_item(void *arg, const struct nvlist *item)
{
	change_print(arg, item);
	return 0;
}

/* Paths are shown below the mountpoint when the file system is mounted, else below "/". */
struct diff_mount {
	const char *dataset;
	char *dir;
};

static int diff_mount_find(void *arg, const struct nvlist *item)
{
	struct diff_mount *m = arg;
	const char *dir = nvlist_string_or(item, "dir", "");

	if (strcmp(nvlist_string_or(item, "name", ""), m->dataset) == 0 && strcmp(dir, "/") != 0 && !m->dir)
		m->dir = xstrdup(dir);
	return 0;
}

/* "@snap" as second name means the same file system. */
static char *diff_second(const char *from, const char *to)
{
	return to[0] == '@' ? xasprintf("%.*s%s", (int)strcspn(from, "@"), from, to) : xstrdup(to);
}

int zfs_diff(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	struct diff_output o = {false, false, false, false, NULL};
	autofree char *to = NULL, *dataset = NULL;
	struct diff_mount m = {NULL, NULL};
	struct err e = ERR_INIT;
	int opt, err;

	while ((opt = getopt(argc, argv, "FHth")) != -1) {
		if (opt == 'F')
			o.types = true;
		else if (opt == 'H')
			o.tabs = true;
		else if (opt == 't')
			o.times = true;
		else if (opt == 'h')
			o.raw = true;
		else
			return cli_usage("zfs", zfs_commands, "diff", NULL);
	}
	if (argc - optind < 1 || argc - optind > 2)
		return cli_usage("zfs", zfs_commands, "diff",
				 "give a snapshot, and perhaps a later one or the file system");
	nvlist_add_string(args, "from", argv[optind]);
	if (argc - optind == 2) {
		to = diff_second(argv[optind], argv[optind + 1]);
		nvlist_add_string(args, "to", to);
	}
	dataset = xasprintf("%.*s", (int)strcspn(to ? to : argv[optind], "@"), to ? to : argv[optind]);
	m.dataset = dataset;
	cli_ask("dataset.mounts", NULL, diff_mount_find, &m, NULL, NULL);
	o.mountpoint = m.dir ? m.dir : xstrdup("");
	err = cli_ask("dataset.diff", args, diff_item, &o, NULL, &e);
	free(o.mountpoint);
	return err ? cli_fail("diff", argv[optind], &e) : CLI_OK;
}
