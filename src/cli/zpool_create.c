#include "cli/zpool.h"

#include <getopt.h>

#include "cli/vdev_spec.h"

/* ---- shared by whatever changes pools ---- */

int zpool_change(const char *cmd, struct nvlist *args, const char *operation, const char *name, struct nvlist **result)
{
	struct err e = ERR_INIT;

	nvlist_add_string(args, "command", cli_command_line());
	return cli_ask(cmd, args, NULL, NULL, result, &e) ? cli_fail(operation, name, &e) : CLI_OK;
}

int zpool_property_take(struct nvlist *props, const char *text, const char *command)
{
	const char *equals = strchr(text, '=');
	autofree char *name = NULL;

	if (!equals || equals == text)
		return cli_usage("zpool", zpool_commands, command, "missing '=' in property=value argument '%s'", text);
	name = xstrdup(text);
	name[equals - text] = 0;
	if (nvlist_exists(props, name)) {
		fprintf(stderr, "property '%s' specified multiple times\n", name);
		return CLI_USAGE;
	}
	nvlist_add_string(props, name, equals + 1);
	return CLI_OK;
}

/* ---- create ---- */

struct create_options {
	bool force, dry, no_features;
	const char *mountpoint, *altroot, *temporary;
	struct nvlist *props, *fs_props;
};

static int create_option(struct create_options *o, int opt)
{
	switch (opt) {
	case 'f':
		o->force = true;
		return 0;
	case 'n':
		o->dry = true;
		return 0;
	case 'd':
		o->no_features = true;
		return 0;
	case 'o':
		return zpool_property_take(o->props, optarg, "create");
	case 'O':
		return zpool_property_take(o->fs_props, optarg, "create");
	case 'm':
		o->mountpoint = optarg;
		return 0;
	case 'R':
		o->altroot = optarg;
		return 0;
	case 't':
		o->temporary = optarg;
		return 0;
	default:
		return cli_usage("zpool", zpool_commands, "create", NULL);
	}
}

static int create_mountpoint(struct create_options *o)
{
	if (!o->mountpoint)
		return 0;
	if (strcmp(o->mountpoint, "legacy") && strcmp(o->mountpoint, "none") && o->mountpoint[0] != '/') {
		fprintf(stderr, "invalid mountpoint '%s': must be an absolute path, 'legacy', or 'none'\n",
			o->mountpoint);
		return CLI_ERROR;
	}
	if (nvlist_exists(o->fs_props, "mountpoint"))
		return cli_usage("zpool", zpool_commands, "create", "mountpoint is given by -m and by -O");
	nvlist_add_string(o->fs_props, "mountpoint", o->mountpoint);
	return 0;
}

/* ashift as -o gives it; the daemon checks the property itself. */
static uint64_t ashift_of(const struct nvlist *props)
{
	return strtoull(nvlist_string_or(props, "ashift", "0"), NULL, 10);
}

static void create_args(const struct create_options *o, const char *name, const struct nvlist *tree,
			struct nvlist *args)
{
	nvlist_add_string(args, "name", o->temporary ? o->temporary : name);
	if (o->temporary)
		nvlist_add_string(args, "real_name", name);
	nvlist_add_list(args, "tree", tree);
	nvlist_add_list(args, "props", o->props);
	nvlist_add_list(args, "fs_props", o->fs_props);
	if (o->altroot)
		nvlist_add_string(args, "altroot", o->altroot);
	nvlist_add_boolean_value(args, "force", o->force);
	nvlist_add_boolean_value(args, "no_features", o->no_features);
	nvlist_add_boolean_value(args, "dry", o->dry);
}

static int create_run(const struct create_options *o, const char *name, char **words, size_t n)
{
	autonv struct nvlist *tree = NULL, *args = nvlist_create(), *result = NULL;
	struct err e = ERR_INIT;
	int failed;

	if (vdev_spec_parse(words, n, o->force, ashift_of(o->props), &tree, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return CLI_ERROR;
	}
	if (o->altroot && nvlist_exists(o->props, "altroot")) {
		fprintf(stderr, "property 'altroot' specified multiple times\n");
		return CLI_ERROR;
	}
	create_args(o, name, tree, args);
	failed = zpool_change("pool.create", args, "create", name, &result);
	if (failed)
		return failed;
	if (o->dry) {
		printf("would create '%s' with the following layout:\n\n", name);
		vdev_spec_print(tree, name);
	}
	cli_warnings_print(result);
	return cli_failures_print(result);
}

int zpool_create(int argc, char **argv)
{
	autonv struct nvlist *props = nvlist_create(), *fs_props = nvlist_create();
	struct create_options o = {.props = props, .fs_props = fs_props};
	int opt, failed;

	while ((opt = getopt(argc, argv, "fndo:O:m:R:t:")) != -1) {
		failed = create_option(&o, opt);
		if (failed)
			return failed;
	}
	if (optind + 1 > argc)
		return cli_usage("zpool", zpool_commands, "create", "missing pool name argument");
	if (optind + 2 > argc)
		return cli_usage("zpool", zpool_commands, "create", "missing vdev specification");
	failed = create_mountpoint(&o);
	return failed ? failed : create_run(&o, argv[optind], argv + optind + 1, (size_t)(argc - optind - 1));
}

/* ---- add ---- */

static int add_run(const char *name, const struct nvlist *props, bool force, bool dry, char **words, size_t n)
{
	autonv struct nvlist *tree = NULL, *args = nvlist_create();
	struct err e = ERR_INIT;
	int failed;

	if (vdev_spec_parse(words, n, force, ashift_of(props), &tree, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return CLI_ERROR;
	}
	nvlist_add_string(args, "name", name);
	nvlist_add_list(args, "tree", tree);
	nvlist_add_list(args, "props", props);
	nvlist_add_boolean_value(args, "force", force);
	nvlist_add_boolean_value(args, "dry", dry);
	failed = zpool_change("pool.add", args, "add to", name, NULL);
	if (failed || !dry)
		return failed;
	printf("would update '%s' to the following configuration by adding:\n\n", name);
	vdev_spec_print(tree, name);
	return CLI_OK;
}

int zpool_add(int argc, char **argv)
{
	static const struct option longs[] = {{"allow-in-use", no_argument, NULL, 'f'},
					      {"allow-replication-mismatch", no_argument, NULL, 'f'},
					      {"allow-ashift-mismatch", no_argument, NULL, 'f'},
					      {NULL, 0, NULL, 0}};
	autonv struct nvlist *props = nvlist_create();
	bool force = false, dry = false;
	int opt, failed;

	while ((opt = getopt_long(argc, argv, "fno:gLP", longs, NULL)) != -1) {
		if (opt == 'f')
			force = true;
		else if (opt == 'n')
			dry = true;
		else if (opt == 'o') {
			failed = zpool_property_take(props, optarg, "add");
			if (failed)
				return failed;
			if (!nvlist_exists(props, "ashift") || nvlist_len(props) != 1)
				return cli_usage("zpool", zpool_commands, "add",
						 "property '%s' cannot be set here: only ashift", optarg);
		} else if (opt != 'g' && opt != 'L' && opt != 'P') /* style of -n: new devices have no other name */
			return cli_usage("zpool", zpool_commands, "add", NULL);
	}
	if (optind + 1 > argc)
		return cli_usage("zpool", zpool_commands, "add", "missing pool name argument");
	if (optind + 2 > argc)
		return cli_usage("zpool", zpool_commands, "add", "missing vdev specification");
	return add_run(argv[optind], props, force, dry, argv + optind + 1, (size_t)(argc - optind - 1));
}

/* ---- destroy ---- */

int zpool_destroy(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	int opt;

	while ((opt = getopt(argc, argv, "f")) != -1) {
		if (opt != 'f')
			return cli_usage("zpool", zpool_commands, "destroy", NULL);
		nvlist_add_boolean_value(args, "force", true);
	}
	if (optind + 1 != argc)
		return cli_usage("zpool", zpool_commands, "destroy",
				 optind < argc ? "too many arguments" : "missing pool argument");
	nvlist_add_string(args, "name", argv[optind]);
	return zpool_change("pool.destroy", args, "destroy", argv[optind], NULL);
}
