#include "cli/zfs.h"

#include <getopt.h>

#include "cli/key.h"

/* ---- listing ---- */

static int mount_print(void *arg, const struct nvlist *item)
{
	printf("%-30s  %s\n", nvlist_string_or(item, "name", ""), nvlist_string_or(item, "dir", ""));
	return 0;
}

static int mount_json(void *arg, const struct nvlist *item)
{
	struct cli_json *o = cli_json_create();
	const char *name = nvlist_string_or(item, "name", "");

	cli_json_string(o, "filesystem", name);
	cli_json_string(o, "mountpoint", nvlist_string_or(item, "dir", ""));
	cli_json_object(arg, name, o);
	return 0;
}

static int mounts_list(bool json)
{
	struct cli_json *all = json ? cli_json_create() : NULL, *doc;
	struct err e = ERR_INIT;

	if (cli_ask("dataset.mounts", NULL, json ? mount_json : mount_print, all, NULL, &e)) {
		if (all)
			cli_json_destroy(all);
		return cli_fail("list mounted file systems", NULL, &e);
	}
	if (json) {
		doc = cli_json_document("zfs mount");
		cli_json_object(doc, "datasets", all);
		cli_json_print(doc, stdout);
	}
	return CLI_OK;
}

/* ---- mount ---- */

/* Keys first: of everything, of all below, or of the one data set's root. */
static int keys_load(bool all, bool recursive, const char *name)
{
	unsigned loaded, failed;

	if (all || recursive)
		return cli_key_load_all(all ? NULL : name, &loaded, &failed);
	return cli_key_load_for(name);
}

int zfs_mount(int argc, char **argv)
{
	static const struct option longs[] = {{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	bool all = false, recursive = false, load = false, verbose = false, json = false;
	struct err e = ERR_INIT;
	const char *name;
	int opt, failed = CLI_OK;

	while ((opt = getopt_long(argc, argv, "aRflvOo:j", longs, NULL)) != -1) {
		if (opt == 'a')
			all = true;
		else if (opt == 'R')
			recursive = true;
		else if (opt == 'l')
			load = true;
		else if (opt == 'v')
			verbose = true;
		else if (opt == 'j')
			json = true;
		else if (opt == 'O')
			nvlist_add_boolean_value(args, "overlay", true);
		else if (opt == 'o')
			nvlist_add_string(args, "options", optarg);
		else if (opt == 'f')
			nvlist_add_boolean_value(args, "force", true);
		else
			return cli_usage("zfs", zfs_commands, "mount", NULL);
	}
	name = argv[optind];
	if (!all && !name)
		return mounts_list(json);
	if (all ? name != NULL : argc - optind > 1)
		return cli_usage("zfs", zfs_commands, "mount", "too many arguments");
	if (load)
		failed = keys_load(all, recursive, name);
	if (failed && !all && !recursive)
		return failed;
	nvlist_add_boolean_value(args, "all", all);
	nvlist_add_boolean_value(args, "recursive", recursive);
	if (name)
		nvlist_add_string(args, "name", name);
	if (cli_ask("dataset.mount", args, NULL, NULL, &result, &e))
		return cli_fail("mount", name ? name : "all file systems", &e);
	if (cli_failures_print(result))
		failed = CLI_ERROR;
	/* a single file system has no progress to tell of */
	return verbose && (all || recursive) && !failed ? mounts_list(false) : failed;
}

/* ---- unmount ---- */

int zfs_unmount(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	bool all = false, unload = false;
	struct err e = ERR_INIT;
	autofree char *dataset = NULL, *path = NULL;
	const char *name;
	int opt;

	while ((opt = getopt(argc, argv, "afu")) != -1) {
		if (opt == 'a')
			all = true;
		else if (opt == 'u')
			unload = true;
		else if (opt == 'f')
			nvlist_add_boolean_value(args, "force", true);
		else
			return cli_usage("zfs", zfs_commands, argv[0], NULL);
	}
	name = argv[optind];
	if (!all && !name)
		return cli_usage("zfs", zfs_commands, argv[0], "missing filesystem argument");
	if (all ? name != NULL : argc - optind > 1)
		return cli_usage("zfs", zfs_commands, argv[0], "too many arguments");
	nvlist_add_boolean_value(args, "all", all);
	if (name && strchr("/.", name[0]))
		path = realpath(name, NULL); /* a mount that does not answer has none: it is known as it was written */
	if (name)
		nvlist_add_string(args, "name", path ? path : name);
	if (name && unload && !(dataset = zfs_name_of(name)))
		return CLI_ERROR;
	if (cli_ask("dataset.unmount", args, NULL, NULL, &result, &e))
		return cli_fail("unmount", name ? name : "all file systems", &e);
	if (cli_failures_print(result))
		return CLI_ERROR;
	if (!unload)
		return CLI_OK;
	return cli_key_unload_below(dataset);
}

/* ---- tarn mount and mount.tarn ---- */

static int mount_usage(FILE *out)
{
	fputs("usage: tarn mount [-o OPTIONS] POOL/FS[@SNAP] DIRECTORY\n"
	      "       mount -t tarn [-o OPTIONS] POOL/FS[@SNAP] DIRECTORY\n",
	      out);
	return out == stdout ? CLI_OK : CLI_USAGE;
}

/*
 * What mount(8) keeps to itself and hands on all the same. "rw" it adds to everything that is not mounted with "ro":
 * from the helper it is no wish of anybody's.
 */
static bool option_is_of_mount(const char *option, bool helper)
{
	static const char *const words[] = {"auto",  "noauto", "user",   "nouser",  "users",
					    "owner", "group",  "nofail", "_netdev", "defaults"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(option, words[i]) == 0)
			return true;
	return strncmp(option, "x-", 2) == 0 || strncmp(option, "user=", 5) == 0 ||
	       strncmp(option, "comment=", 8) == 0 || (helper && strcmp(option, "rw") == 0);
}

static void mount_options_add(struct nvlist *args, const char *text, bool helper)
{
	autofree char *copy = xstrdup(text);
	struct str s = {NULL, 0, 0};
	char *save = NULL;

	for (char *o = strtok_r(copy, ",", &save); o; o = strtok_r(NULL, ",", &save))
		if (!option_is_of_mount(o, helper))
			str_addf(&s, "%s%s", s.len ? "," : "", o);
	nvlist_add_string(args, "options", str_get(&s));
	str_free(&s);
}

int cli_mount(int argc, char **argv)
{
	bool helper = strcmp(argv[0], "mount") != 0;
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	autofree char *dir = NULL;
	struct err e = ERR_INIT;
	int opt;

	while ((opt = getopt(argc, argv, "o:fnsvh")) != -1) {
		if (opt == 'o')
			mount_options_add(args, optarg, helper);
		else if (opt == 'f') /* mount(8): all but the mount itself */
			return CLI_OK;
		else if (opt == 'h')
			return mount_usage(stdout);
		else if (opt == '?')
			return mount_usage(stderr);
	}
	/* mount(8) gives the options after the names */
	if (argc - optind != 2)
		return mount_usage(stderr);
	dir = realpath(argv[optind + 1], NULL);
	if (!dir) {
		fprintf(stderr, "cannot mount at '%s': %s\n", argv[optind + 1], strerror(errno));
		return CLI_ERROR;
	}
	nvlist_add_string(args, "name", argv[optind]);
	nvlist_add_string(args, "dir", dir);
	nvlist_add_boolean_value(args, "overlay", true);
	nvlist_add_boolean_value(args, "force", true);
	return cli_ask("dataset.mount", args, NULL, NULL, &result, &e) ? cli_fail("mount", argv[optind], &e) : CLI_OK;
}
