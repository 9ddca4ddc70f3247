/* Commands that make data sets: create, clone, snapshot, bookmark; and rename, promote. */
#include "cli/zfs.h"

#include <getopt.h>
#include <inttypes.h>

/* ---- shared by whatever changes data sets ---- */

int zfs_change(const char *cmd, struct nvlist *args, const char *operation, const char *name, struct nvlist **result)
{
	autonv struct nvlist *own = NULL;
	struct err e = ERR_INIT;

	nvlist_add_string(args, "command", cli_command_line());
	if (cli_ask(cmd, args, NULL, NULL, result ? result : &own, &e))
		return cli_fail(operation, name, &e);
	return cli_failures_print(result ? *result : own);
}

int zfs_property_take(struct nvlist *props, const char *text, const char *command)
{
	const char *equals = strchr(text, '='), *full;
	autofree char *name = NULL;

	if (!equals || equals == text)
		return cli_usage("zfs", zfs_commands, command, "missing '=' for property=value argument '%s'", text);
	name = xstrdup(text);
	name[equals - text] = 0;
	full = zfs_property_name(name);
	full = full ? full : name; /* the daemon knows what is wrong with it */
	if (nvlist_exists(props, full))
		return cli_usage("zfs", zfs_commands, command, "property '%s' specified multiple times", full);
	nvlist_add_string(props, full, equals + 1);
	return CLI_OK;
}

/* ---- create ---- */

struct create_options {
	bool parents, no_mount, dry, parsable, verbose, sparse;
	const char *size, *block;
	struct nvlist *props;
};

static int create_option(struct create_options *o, int opt)
{
	switch (opt) {
	case 'p':
		o->parents = true;
		return 0;
	case 'u':
		o->no_mount = true;
		return 0;
	case 'n':
		o->dry = true;
		return 0;
	case 'P':
		o->parsable = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 's':
		o->sparse = true;
		return 0;
	case 'V':
		o->size = optarg;
		return 0;
	case 'b':
		o->block = optarg;
		return 0;
	case 'o':
		return zfs_property_take(o->props, optarg, "create");
	default:
		return cli_usage("zfs", zfs_commands, "create", NULL);
	}
}

static int create_sizes(const struct create_options *o)
{
	if (!o->size && (o->sparse || o->block))
		return cli_usage("zfs", zfs_commands, "create",
				 "'-s' and '-b' can only be used when creating a volume");
	if (o->size && o->no_mount)
		return cli_usage("zfs", zfs_commands, "create", "'-u' cannot be used when creating a volume");
	if ((o->size && nvlist_exists(o->props, "volsize")) || (o->block && nvlist_exists(o->props, "volblocksize")))
		return cli_usage("zfs", zfs_commands, "create", "the volume's size is given twice");
	if (o->size)
		nvlist_add_string(o->props, "volsize", o->size);
	if (o->block)
		nvlist_add_string(o->props, "volblocksize", o->block);
	return CLI_OK;
}

static void create_tell(const struct create_options *o, const char *name, const struct nvlist *result)
{
	struct nvlist *props;

	printf(o->parsable ? "create\t%s\n" : o->dry ? "would create %s\n" : "create %s\n", name);
	if (nvlist_list(result, "props", &props))
		return;
	for (const struct nvpair *p = nvlist_first(props); p; p = nvlist_next(props, p))
		printf(o->parsable ? "property\t%s\t%s\n" : "\t%s=%s\n", nvpair_name(p),
		       nvlist_string_or(props, nvpair_name(p), ""));
}

static int create_run(const struct create_options *o, const char *name)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	int failed;

	nvlist_add_string(args, "name", name);
	nvlist_add_u64(args, "type", o->size ? DSL_VOLUME : DSL_FILESYSTEM);
	nvlist_add_list(args, "props", o->props);
	nvlist_add_boolean_value(args, "parents", o->parents);
	nvlist_add_boolean_value(args, "sparse", o->sparse);
	nvlist_add_boolean_value(args, "mount", !o->no_mount);
	nvlist_add_boolean_value(args, "dry", o->dry);
	failed = zfs_change("dataset.create", args, "create", name, &result);
	if (result && (o->verbose || o->parsable || o->dry))
		create_tell(o, name, result);
	return failed;
}

int zfs_create(int argc, char **argv)
{
	autonv struct nvlist *props = nvlist_create();
	struct create_options o = {.props = props};
	int opt, failed;

	while ((opt = getopt(argc, argv, "punPvsV:b:o:")) != -1) {
		failed = create_option(&o, opt);
		if (failed)
			return failed;
	}
	failed = create_sizes(&o);
	if (failed)
		return failed;
	if (optind + 1 != argc)
		return cli_usage("zfs", zfs_commands, "create",
				 optind < argc ? "too many arguments" : "missing dataset name argument");
	return create_run(&o, argv[optind]);
}

int zfs_clone(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create(), *props = nvlist_create();
	bool mount = true;
	int opt, failed;

	while ((opt = getopt(argc, argv, "puo:")) != -1) {
		failed = CLI_OK;
		if (opt == 'p')
			nvlist_add_boolean_value(args, "parents", true);
		else if (opt == 'u')
			mount = false;
		else if (opt == 'o')
			failed = zfs_property_take(props, optarg, "clone");
		else
			return cli_usage("zfs", zfs_commands, "clone", NULL);
		if (failed)
			return failed;
	}
	if (optind + 2 != argc)
		return cli_usage("zfs", zfs_commands, "clone",
				 optind + 2 < argc ? "too many arguments"
						   : "missing source or target dataset argument");
	nvlist_add_string(args, "snapshot", argv[optind]);
	nvlist_add_string(args, "name", argv[optind + 1]);
	nvlist_add_list(args, "props", props);
	nvlist_add_boolean_value(args, "mount", mount);
	return zfs_change("dataset.clone", args, "create", argv[optind + 1], NULL);
}

/* ---- snapshot, bookmark, holds ---- */

int zfs_snapshot(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create(), *props = nvlist_create();
	int opt, failed;

	while ((opt = getopt(argc, argv, "ro:")) != -1) {
		failed = CLI_OK;
		if (opt == 'r')
			nvlist_add_boolean_value(args, "recursive", true);
		else if (opt == 'o')
			failed = zfs_property_take(props, optarg, "snapshot");
		else
			return cli_usage("zfs", zfs_commands, "snapshot", NULL);
		if (failed)
			return failed;
	}
	if (optind == argc)
		return cli_usage("zfs", zfs_commands, "snapshot", "missing snapshot argument");
	nvlist_add_strings(args, "names", (const char *const *)argv + optind, (size_t)(argc - optind));
	if (nvlist_len(props))
		nvlist_add_list(args, "props", props);
	return zfs_change("dataset.snapshot", args, argc - optind == 1 ? "create snapshot" : "create snapshots",
			  argc - optind == 1 ? argv[optind] : NULL, NULL);
}

int zfs_bookmark(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	autofree char *bookmark = NULL;
	int opt;

	while ((opt = getopt(argc, argv, "")) != -1)
		return cli_usage("zfs", zfs_commands, "bookmark", NULL);
	if (optind + 2 != argc)
		return cli_usage("zfs", zfs_commands, "bookmark",
				 optind + 2 < argc ? "too many arguments" : "missing source or bookmark argument");
	/* "#name" stands for the same data set */
	bookmark = argv[optind + 1][0] == '#'
		       ? xasprintf("%.*s%s", (int)strcspn(argv[optind], "@#"), argv[optind], argv[optind + 1])
		       : xstrdup(argv[optind + 1]);
	nvlist_add_string(args, "source", argv[optind]);
	nvlist_add_string(args, "bookmark", bookmark);
	return zfs_change("dataset.bookmark", args, "create bookmark", bookmark, NULL);
}

static int holds_run(int argc, char **argv, const char *cmd, const char *word)
{
	autonv struct nvlist *args = nvlist_create();
	int opt;

	while ((opt = getopt(argc, argv, "r")) != -1) {
		if (opt != 'r')
			return cli_usage("zfs", zfs_commands, word, NULL);
		nvlist_add_boolean_value(args, "recursive", true);
	}
	if (optind + 2 > argc)
		return cli_usage("zfs", zfs_commands, word, "missing tag or snapshot argument");
	nvlist_add_string(args, "tag", argv[optind]);
	nvlist_add_strings(args, "names", (const char *const *)argv + optind + 1, (size_t)(argc - optind - 1));
	return zfs_change(cmd, args, strcmp(word, "hold") == 0 ? "hold snapshot" : "release hold from snapshot",
			  argv[optind + 1], NULL);
}

int zfs_hold(int argc, char **argv)
{
	return holds_run(argc, argv, "dataset.hold_add", "hold");
}

int zfs_release(int argc, char **argv)
{
	return holds_run(argc, argv, "dataset.hold_release", "release");
}

/* ---- rename, promote ---- */

int zfs_promote(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();

	if (argc != 2 || argv[1][0] == '-')
		return cli_usage("zfs", zfs_commands, "promote",
				 argc < 2 ? "missing clone filesystem argument" : "too many arguments");
	nvlist_add_string(args, "name", argv[1]);
	return zfs_change("dataset.promote", args, "promote", argv[1], NULL);
}

/* The new name of a snapshot may leave out its data set. */
static char *rename_target(const char *from, const char *to)
{
	const char *at = strchr(from, '@');

	if (!at || strchr(to, '/'))
		return xstrdup(to);
	if (to[0] == '@')
		return xasprintf("%.*s%s", (int)(at - from), from, to);
	return strchr(to, '@') ? xstrdup(to) : xasprintf("%.*s@%s", (int)(at - from), from, to);
}

int zfs_rename(int argc, char **argv)
{
	static const struct {
		char opt;
		const char *key;
	} flags[] = {{'r', "recursive"}, {'p', "parents"}, {'f', "force"}, {'u', "keep_mounts"}};
	autonv struct nvlist *args = nvlist_create();
	autofree char *to = NULL;
	int opt;

	while ((opt = getopt(argc, argv, "rpfu")) != -1) {
		size_t i = 0;

		while (i < ARRAY_LEN(flags) && flags[i].opt != opt)
			i++;
		if (i == ARRAY_LEN(flags))
			return cli_usage("zfs", zfs_commands, "rename", NULL);
		nvlist_add_boolean_value(args, flags[i].key, true);
	}
	if (optind + 2 != argc)
		return cli_usage("zfs", zfs_commands, "rename",
				 optind + 2 < argc ? "too many arguments"
						   : "missing source or target dataset argument");
	if (nvlist_bool(args, "recursive") && !strchr(argv[optind], '@'))
		return cli_usage("zfs", zfs_commands, "rename",
				 "source dataset for recursive rename must be a snapshot");
	if (nvlist_bool(args, "parents") && strchr(argv[optind], '@'))
		return cli_usage("zfs", zfs_commands, "rename", "-p is not for snapshots");
	to = rename_target(argv[optind], argv[optind + 1]);
	nvlist_add_string(args, "from", argv[optind]);
	nvlist_add_string(args, "to", to);
	return zfs_change("dataset.rename", args, "rename", argv[optind], NULL);
}
