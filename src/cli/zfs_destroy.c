#include "cli/zfs.h"

#include <getopt.h>
#include <inttypes.h>

struct destroy_options {
	bool dry, verbose, parsable;
};

static void destroy_tell(const struct destroy_options *o, const struct nvlist *result)
{
	const char *const *names;
	char size[SIZE_TEXT];
	uint64_t reclaim;
	size_t n;

	if (nvlist_strings(result, "destroyed", &names, &n) == 0)
		for (size_t i = 0; i < n; i++)
			printf(o->parsable ? "destroy\t%s\n"
			       : o->dry    ? "would destroy %s\n"
					   : "will destroy %s\n",
			       names[i]);
	if (nvlist_u64(result, "reclaim", &reclaim))
		return;
	size_print(reclaim, true, size);
	if (o->parsable)
		printf("reclaim\t%" PRIu64 "\n", reclaim);
	else
		printf(o->dry ? "would reclaim %s\n" : "will reclaim %s\n", size);
}

int zfs_destroy(int argc, char **argv)
{
	static const struct {
		char opt;
		const char *key;
	} flags[] = {{'r', "recursive"}, {'R', "clones"}, {'d', "defer"}, {'f', "force"}};
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	struct destroy_options o = {.dry = false};
	int opt, failed;

	while ((opt = getopt(argc, argv, "rRdfnvp")) != -1) {
		size_t i = 0;

		while (i < ARRAY_LEN(flags) && flags[i].opt != opt)
			i++;
		if (i < ARRAY_LEN(flags))
			nvlist_add_boolean_value(args, flags[i].key, true);
		else if (opt == 'n')
			o.dry = true;
		else if (opt == 'v')
			o.verbose = true;
		else if (opt == 'p')
			o.parsable = o.verbose = true;
		else
			return cli_usage("zfs", zfs_commands, "destroy", NULL);
	}
	if (optind + 1 != argc)
		return cli_usage("zfs", zfs_commands, "destroy",
				 optind < argc ? "too many arguments" : "missing dataset argument");
	if (nvlist_bool(args, "defer") && !strchr(argv[optind], '@'))
		return cli_usage("zfs", zfs_commands, "destroy", "-d is for snapshots");
	nvlist_add_string(args, "name", argv[optind]);
	nvlist_add_boolean_value(args, "dry", o.dry);
	failed = zfs_change("dataset.destroy", args, strchr(argv[optind], '@') ? "destroy snapshot" : "destroy",
			    argv[optind], &result);
	if (!failed && o.verbose)
		destroy_tell(&o, result);
	return failed;
}

int zfs_rollback(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	int opt;

	while ((opt = getopt(argc, argv, "rRf")) != -1) {
		if (opt != 'r' && opt != 'R' && opt != 'f')
			return cli_usage("zfs", zfs_commands, "rollback", NULL);
		nvlist_add_boolean_value(args, opt == 'r' ? "recursive" : opt == 'R' ? "clones" : "force", true);
	}
	if (optind + 1 != argc)
		return cli_usage("zfs", zfs_commands, "rollback",
				 optind < argc ? "too many arguments" : "missing dataset argument");
	if (!strchr(argv[optind], '@'))
		return cli_usage("zfs", zfs_commands, "rollback", "'%s' is not a snapshot", argv[optind]);
	nvlist_add_string(args, "snapshot", argv[optind]);
	return zfs_change("dataset.rollback", args, "rollback to", argv[optind], NULL);
}
