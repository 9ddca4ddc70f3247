/* Commands that change one thing of a pool or of a device. */
#include "cli/zpool.h"

#include <getopt.h>
#include <inttypes.h>

/* ---- properties, identity ---- */

int zpool_set(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create(), *props = nvlist_create(), *result = NULL;
	int failed;

	if (argc < 3 || argc > 4 || argv[1][0] == '-')
		return cli_usage("zpool", zpool_commands, "set",
				 argc < 2   ? "missing property=value argument"
				 : argc < 3 ? "missing pool name"
					    : "too many arguments");
	failed = zpool_property_take(props, argv[1], "set");
	if (failed)
		return failed;
	nvlist_add_list(args, "props", props);
	nvlist_add_string(args, "name", argv[2]);
	if (argc > 3)
		nvlist_add_string(args, "vdev", argv[3]);
	failed = zpool_change("pool.set", args, "set property for", argv[2], &result);
	cli_warnings_print(result);
	return failed;
}

int zpool_reguid(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	int opt;

	while ((opt = getopt(argc, argv, "g:")) != -1) {
		if (opt != 'g')
			return cli_usage("zpool", zpool_commands, "reguid", NULL);
		nvlist_add_u64(args, "guid", strtoull(optarg, NULL, 0));
		if (!nvlist_u64_or(args, "guid", 0))
			return cli_usage("zpool", zpool_commands, "reguid", "invalid guid '%s'", optarg);
	}
	if (optind + 1 != argc)
		return cli_usage("zpool", zpool_commands, "reguid",
				 optind < argc ? "too many arguments" : "missing pool name");
	nvlist_add_string(args, "name", argv[optind]);
	return zpool_change("pool.reguid", args, "reguid", argv[optind], NULL);
}

/* ---- checkpoint, sync ---- */

int zpool_checkpoint(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"discard", no_argument, NULL, 'd'}, {"wait", no_argument, NULL, 'w'}, {0}};
	static const char *const activity[] = {"discard"};
	autonv struct nvlist *args = nvlist_create();
	bool discard = false, wait = false;
	int opt, failed;

	while ((opt = getopt_long(argc, argv, "dw", longs, NULL)) != -1) {
		if (opt == 'd')
			discard = true;
		else if (opt == 'w')
			wait = true;
		else
			return cli_usage("zpool", zpool_commands, "checkpoint", NULL);
	}
	if (wait && !discard)
		return cli_usage("zpool", zpool_commands, "checkpoint",
				 "--wait only valid in combination with --discard");
	if (optind + 1 != argc)
		return cli_usage("zpool", zpool_commands, "checkpoint",
				 optind < argc ? "too many arguments" : "missing pool argument");
	nvlist_add_string(args, "name", argv[optind]);
	nvlist_add_boolean_value(args, "discard", discard);
	failed = zpool_change("pool.checkpoint", args, discard ? "discard the checkpoint of" : "checkpoint",
			      argv[optind], NULL);
	return failed || !wait ? failed : zpool_wait_for(argv[optind], activity, 1);
}

int zpool_sync(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	struct err e = ERR_INIT;
	int opt;

	while ((opt = getopt(argc, argv, "")) != -1)
		return cli_usage("zpool", zpool_commands, "sync", NULL);
	if (optind < argc)
		nvlist_add_strings(args, "names", (const char *const *)argv + optind, (size_t)(argc - optind));
	return cli_ask("pool.sync", args, NULL, NULL, NULL, &e) ? cli_fail("sync", argv[optind], &e) : CLI_OK;
}

/* ---- devices ---- */

static int each_device(const char *cmd, const char *operation, struct nvlist *args, const char *pool, char **devices,
		       int n)
{
	int failed = CLI_OK;

	nvlist_add_string(args, "name", pool);
	for (int i = 0; i < n; i++) {
		nvlist_add_string(args, "device", devices[i]);
		if (zpool_change(cmd, args, operation, devices[i], NULL))
			failed = CLI_ERROR;
	}
	return failed;
}

int zpool_clear(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	int opt;

	while ((opt = getopt(argc, argv, "")) != -1)
		return cli_usage("zpool", zpool_commands, "clear", NULL);
	if (optind == argc)
		return cli_usage("zpool", zpool_commands, "clear", "missing pool name");
	if (optind + 1 < argc)
		return each_device("pool.clear", "clear errors for", args, argv[optind], argv + optind + 1,
				   argc - optind - 1);
	nvlist_add_string(args, "name", argv[optind]);
	return zpool_change("pool.clear", args, "clear errors for", argv[optind], NULL);
}

int zpool_online(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	int opt;

	while ((opt = getopt(argc, argv, "e")) != -1) {
		if (opt != 'e')
			return cli_usage("zpool", zpool_commands, "online", NULL);
		nvlist_add_boolean_value(args, "expand", true);
	}
	if (optind + 2 > argc)
		return cli_usage("zpool", zpool_commands, "online",
				 optind == argc ? "missing pool name" : "missing device name");
	return each_device("pool.online", "online", args, argv[optind], argv + optind + 1, argc - optind - 1);
}

int zpool_offline(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	int opt;

	while ((opt = getopt(argc, argv, "ft")) != -1) {
		if (opt != 'f' && opt != 't')
			return cli_usage("zpool", zpool_commands, "offline", NULL);
		nvlist_add_boolean_value(args, opt == 'f' ? "fault" : "temporary", true);
	}
	if (optind + 2 > argc)
		return cli_usage("zpool", zpool_commands, "offline",
				 optind == argc ? "missing pool name" : "missing device name");
	return each_device("pool.offline", "offline", args, argv[optind], argv + optind + 1, argc - optind - 1);
}

int zpool_remove(int argc, char **argv)
{
	static const char *const activity[] = {"remove"};
	autonv struct nvlist *args = nvlist_create();
	bool wait = false;
	int opt, failed;

	while ((opt = getopt(argc, argv, "w")) != -1) {
		if (opt != 'w')
			return cli_usage("zpool", zpool_commands, "remove", NULL);
		wait = true;
	}
	if (optind + 2 > argc)
		return cli_usage("zpool", zpool_commands, "remove",
				 optind == argc ? "missing pool name argument" : "missing device");
	failed = each_device("pool.remove", "remove", args, argv[optind], argv + optind + 1, argc - optind - 1);
	return failed || !wait ? failed : zpool_wait_for(argv[optind], activity, 1);
}

int zpool_labelclear(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	autofree char *path = NULL;
	struct err e = ERR_INIT;
	int opt;

	while ((opt = getopt(argc, argv, "f")) != -1) {
		if (opt != 'f')
			return cli_usage("zpool", zpool_commands, "labelclear", NULL);
		nvlist_add_boolean_value(args, "force", true);
	}
	if (optind + 1 != argc)
		return cli_usage("zpool", zpool_commands, "labelclear",
				 optind < argc ? "too many arguments" : "missing vdev name");
	path = strchr(argv[optind], '/') ? cli_path_absolute(argv[optind]) : xasprintf("/dev/%s", argv[optind]);
	nvlist_add_string(args, "path", path);
	return cli_ask("device.labelclear", args, NULL, NULL, NULL, &e) ? cli_fail("clear the label of", path, &e)
									: CLI_OK;
}
