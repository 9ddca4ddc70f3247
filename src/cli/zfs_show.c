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

/* ---- allow ---- */

static void strings_print(const struct nvpair *p)
{
	for (size_t i = 0; i < nvpair_count(p); i++)
		printf("%s%s", i ? "," : "", nvpair_string(p, i));
	putchar('\n');
}

static void sets_print(const struct nvlist *sets)
{
	puts("Permission sets:");
	for (const struct nvpair *p = nvlist_first(sets); p; p = nvlist_next(sets, p)) {
		printf("\t%s ", nvpair_name(p));
		strings_print(p);
	}
}

/* The login name of an id, where there is one. */
static const char *who_name(const char *who, const char *id)
{
	struct passwd *pw;
	struct group *gr;
	char *end;
	unsigned long n = strtoul(id, &end, 10);

	if (*end || !*id)
		return id;
	if (strcmp(who, "user") == 0 && (pw = getpwuid((uid_t)n)))
		return pw->pw_name;
	if (strcmp(who, "group") == 0 && (gr = getgrgid((gid_t)n)))
		return gr->gr_name;
	return id;
}

static void grant_print(const struct nvlist *grant)
{
	const char *who = nvlist_string_or(grant, "who", "");

	if (strcmp(who, "everyone") == 0)
		printf("\teveryone ");
	else
		printf("\t%s %s ", who, who_name(who, nvlist_string_or(grant, "name", "")));
	for (const struct nvpair *p = nvlist_first(grant); p; p = nvlist_next(grant, p))
		if (strcmp(nvpair_name(p), "permissions") == 0)
			strings_print(p);
}

static void level_print(const char *name, const struct nvlist *level)
{
	static const struct {
		const char *key, *title;
	} groups[] = {{"local", "Local permissions:"},
		      {"descendent", "Descendent permissions:"},
		      {"local+descendent", "Local+Descendent permissions:"}};
	struct nvlist *const *grants, *sets;
	size_t n;

	printf("---- Permissions on %s %.*s\n", name, (int)MAX(0, 49 - (int)strlen(name)),
	       "-----------------------------------------------------------");
	if (nvlist_list(level, "sets", &sets) == 0)
		sets_print(sets);
	for (const struct nvpair *p = nvlist_first(level); p; p = nvlist_next(level, p)) {
		if (strcmp(nvpair_name(p), "create") == 0) {
			printf("Create time permissions:\n\t");
			strings_print(p);
		}
	}
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		if (nvlist_lists(level, groups[g].key, &grants, &n))
			continue;
		puts(groups[g].title);
		for (size_t i = 0; i < n; i++)
			grant_print(grants[i]);
	}
}

int zfs_allow(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	struct nvlist *levels;
	struct err e = ERR_INIT;

	if (argc > 2)
		return zfs_refuse(argc, argv);
	if (argc < 2)
		return cli_usage("zfs", zfs_commands, "allow", "missing data set argument");
	nvlist_add_string(args, "name", argv[1]);
	if (cli_ask("dataset.allow", args, NULL, NULL, &result, &e))
		return cli_fail("show permissions of", argv[1], &e);
	if (nvlist_list(result, "levels", &levels) == 0)
		for (const struct nvpair *p = nvlist_first(levels); p; p = nvlist_next(levels, p))
			level_print(nvpair_name(p), nvpair_list(p, 0));
	return CLI_OK;
}

/* ---- upgrade ---- */

static const char *const version_texts[] = {
    "Initial ZFS filesystem version",
    "Enhanced directory entries",
    "Case insensitive and filesystem user identifier (FUID)",
    "userquota, groupquota properties",
    "System attributes",
};

static int versions_list(void)
{
	puts("The following filesystem versions are supported:\n\nVER  DESCRIPTION\n---  "
	     "--------------------------------------------------------");
	for (size_t i = 0; i < ARRAY_LEN(version_texts); i++)
		printf("%2zu   %s\n", i + 1, version_texts[i]);
	return CLI_OK;
}

static int old_list(void)
{
	static const char *const props[] = {"version"};
	struct zfs_query q = {.depth = UINT64_MAX, .types = DSL_FILESYSTEM, .props = props, .nprops = 1};
	unsigned old = 0;
	struct zfs_rows rows;

	if (zfs_rows_get(&q, &rows))
		return CLI_ERROR;
	zfs_rows_sort(&rows, NULL, 0);
	for (size_t i = 0; i < rows.n; i++) {
		struct zfs_value v = zfs_row_value(&rows.row[i], "version");

		if (!v.has_number || v.number >= ARRAY_LEN(version_texts))
			continue;
		if (!old++)
			puts("The following filesystems are formatted with an older version:\n\nVER  FILESYSTEM\n---  "
			     "------------");
		printf("%2" PRIu64 "   %s\n", v.number, rows.row[i].name);
	}
	if (!old)
		puts("All filesystems are formatted with the current version.");
	zfs_rows_free(&rows);
	return rows.failed ? CLI_ERROR : CLI_OK;
}

int zfs_upgrade(int argc, char **argv)
{
	if (argc == 1)
		return old_list();
	if (argc == 2 && strcmp(argv[1], "-v") == 0)
		return versions_list();
	return zfs_refuse(argc, argv);
}
