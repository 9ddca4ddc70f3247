#include "cli/zfs.h"

#include <unistd.h>

#include "cli/key.h"

/* "2 / 3 key(s) successfully loaded" */
static int many_load(const char *name, bool check)
{
	unsigned loaded = 0;
	struct err e = ERR_INIT;
	char **roots;
	size_t n;

	if (cli_key_roots(name, false, &roots, &n, &e))
		return cli_fail("find encrypted data sets of", name ? name : "all pools", &e);
	for (size_t i = 0; i < n; i++)
		loaded += cli_key_load(roots[i], NULL, check) == CLI_OK;
	printf("%u / %zu key(s) successfully %s\n", loaded, n, check ? "verified" : "loaded");
	cli_key_roots_free(roots, n);
	return loaded < n ? CLI_ERROR : CLI_OK;
}

static int single_load(const char *name, const char *location, bool check)
{
	if (cli_key_load(name, location, check))
		return CLI_ERROR;
	if (check)
		printf("1 / 1 key(s) successfully verified\n");
	return CLI_OK;
}

int zfs_load_key(int argc, char **argv)
{
	bool all = false, recursive = false, check = false;
	const char *location = NULL, *name;
	int opt;

	while ((opt = getopt(argc, argv, "arnL:")) != -1) {
		if (opt == 'a')
			all = true;
		else if (opt == 'r')
			recursive = true;
		else if (opt == 'n')
			check = true;
		else if (opt == 'L')
			location = optarg;
		else
			return cli_usage("zfs", zfs_commands, "load-key", NULL);
	}
	name = argv[optind];
	if (all == (name != NULL) || argc - optind > 1)
		return cli_usage("zfs", zfs_commands, "load-key",
				 all ? "too many arguments" : "give one data set, or -a");
	if (location && (all || recursive))
		return cli_usage("zfs", zfs_commands, "load-key", "-L goes with one data set");
	return all || recursive ? many_load(name, check) : single_load(name, location, check);
}

int zfs_unload_key(int argc, char **argv)
{
	bool all = false, recursive = false;
	const char *name;
	int opt;

	while ((opt = getopt(argc, argv, "ar")) != -1) {
		if (opt == 'a')
			all = true;
		else if (opt == 'r')
			recursive = true;
		else
			return cli_usage("zfs", zfs_commands, "unload-key", NULL);
	}
	name = argv[optind];
	if (all == (name != NULL) || argc - optind > 1)
		return cli_usage("zfs", zfs_commands, "unload-key",
				 all ? "too many arguments" : "give one data set, or -a");
	return all || recursive ? cli_key_unload_all(name) : cli_key_unload(name);
}
