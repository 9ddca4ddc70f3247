/* Properties: set, inherit, upgrade. */
#include "cli/zfs.h"

#include <getopt.h>
#include <inttypes.h>

int zfs_set(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create(), *props = nvlist_create();
	int opt, failed, at;

	while ((opt = getopt(argc, argv, "u")) != -1) {
		if (opt != 'u')
			return cli_usage("zfs", zfs_commands, "set", NULL);
		nvlist_add_boolean_value(args, "keep_mounts", true);
	}
	for (at = optind; at < argc && strchr(argv[at], '='); at++) {
		failed = zfs_property_take(props, argv[at], "set");
		if (failed)
			return failed;
	}
	if (at == optind)
		return cli_usage("zfs", zfs_commands, "set", "missing property=value argument(s)");
	if (at == argc)
		return cli_usage("zfs", zfs_commands, "set", "missing dataset name(s)");
	nvlist_add_list(args, "props", props);
	nvlist_add_strings(args, "names", (const char *const *)argv + at, (size_t)(argc - at));
	return zfs_change("dataset.set", args, "set property for", argv[at], NULL);
}

int zfs_inherit(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	const char *property;
	int opt;

	while ((opt = getopt(argc, argv, "rS")) != -1) {
		if (opt != 'r' && opt != 'S')
			return cli_usage("zfs", zfs_commands, "inherit", NULL);
		nvlist_add_boolean_value(args, opt == 'r' ? "recursive" : "received", true);
	}
	if (optind + 2 > argc)
		return cli_usage("zfs", zfs_commands, "inherit",
				 optind == argc ? "missing property argument" : "missing dataset argument");
	property = zfs_property_name(argv[optind]);
	if (!property) {
		fprintf(stderr, "invalid property '%s'\n", argv[optind]);
		return CLI_USAGE;
	}
	nvlist_add_string(args, "property", property);
	nvlist_add_strings(args, "names", (const char *const *)argv + optind + 1, (size_t)(argc - optind - 1));
	return zfs_change("dataset.inherit", args, "inherit property for", argv[optind + 1], NULL);
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

struct upgrade_options {
	bool all, recursive, show;
	uint64_t version;
};

/* Of those that are older; the rest is counted. */
static int upgrade_rows(const struct upgrade_options *o, const struct zfs_rows *rows)
{
	unsigned done = 0, same = 0;
	int failed = CLI_OK;

	for (size_t i = 0; i < rows->n; i++) {
		struct zfs_value v = zfs_row_value(&rows->row[i], "version");
		autonv struct nvlist *args = nvlist_create();

		if (!v.has_number || v.number >= o->version) {
			same++;
			continue;
		}
		nvlist_add_string(args, "name", rows->row[i].name);
		nvlist_add_u64(args, "version", o->version);
		if (zfs_change("dataset.upgrade", args, "upgrade", rows->row[i].name, NULL))
			failed = CLI_ERROR;
		else
			done++;
	}
	printf("%u filesystems upgraded\n", done);
	if (same)
		printf("%u filesystems already at this version\n", same);
	return failed;
}

static int upgrade_run(const struct upgrade_options *o, char **names, int n)
{
	static const char *const props[] = {"version"};
	struct zfs_query q = {.names = names,
			      .nnames = (size_t)n,
			      .depth = o->all || o->recursive ? UINT64_MAX : 0,
			      .types = DSL_FILESYSTEM,
			      .props = props,
			      .nprops = 1};
	struct zfs_rows rows;
	int failed;

	if (zfs_rows_get(&q, &rows))
		return CLI_ERROR;
	zfs_rows_sort(&rows, NULL, 0);
	failed = upgrade_rows(o, &rows);
	zfs_rows_free(&rows);
	return failed || rows.failed ? CLI_ERROR : CLI_OK;
}

int zfs_upgrade(int argc, char **argv)
{
	struct upgrade_options o = {.version = ARRAY_LEN(version_texts)};
	int opt;

	while ((opt = getopt(argc, argv, "arvV:")) != -1) {
		if (opt == 'a')
			o.all = true;
		else if (opt == 'r')
			o.recursive = true;
		else if (opt == 'v')
			o.show = true;
		else if (opt == 'V')
			o.version = strtoull(optarg, NULL, 10);
		else
			return cli_usage("zfs", zfs_commands, "upgrade", NULL);
	}
	if (o.version < 1 || o.version > ARRAY_LEN(version_texts))
		return cli_usage("zfs", zfs_commands, "upgrade", "invalid version");
	if (o.all ? optind < argc : o.recursive && optind == argc)
		return cli_usage("zfs", zfs_commands, "upgrade", "-a stands alone, -r needs a filesystem");
	if (o.show)
		return versions_list();
	return o.all || optind < argc ? upgrade_run(&o, argv + optind, argc - optind) : old_list();
}
