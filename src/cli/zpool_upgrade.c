#include "cli/zpool.h"

#include <getopt.h>
#include <inttypes.h>

#include "spa/spa.h"

static void strings_print(const struct nvlist *result, const char *key, const char *indent)
{
	const char *const *text;
	size_t n;

	if (nvlist_strings(result, key, &text, &n))
		return;
	for (size_t i = 0; i < n; i++)
		printf("%s%s\n", indent, text[i]);
}

static int upgrade_one(const char *name, uint64_t version)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	uint64_t from, to;
	int failed;

	nvlist_add_string(args, "name", name);
	if (version)
		nvlist_add_u64(args, "version", version);
	failed = zpool_change("pool.upgrade", args, "upgrade", name, &result);
	if (failed)
		return failed;
	from = nvlist_u64_or(result, "from", 0);
	to = nvlist_u64_or(result, "to", 0);
	if (from != to && to <= 28)
		printf("Successfully upgraded '%s' from version %" PRIu64 " to version %" PRIu64 "\n", name, from, to);
	else if (from != to)
		printf("Successfully upgraded '%s' from version %" PRIu64 " to feature flags.\n", name, from);
	if (nvlist_exists(result, "features")) {
		printf("Enabled the following features on '%s':\n", name);
		strings_print(result, "features", "  ");
	} else if (from == to)
		printf("Pool '%s' already has all supported and requested features enabled.\n", name);
	return CLI_OK;
}

static int upgrade_all(uint64_t version)
{
	struct cli_items pools;
	struct err e = ERR_INIT;
	int failed = CLI_OK;

	if (cli_ask_items("pool.list", NULL, &pools, &e))
		return cli_fail("list pools", NULL, &e);
	for (size_t i = 0; i < pools.n; i++)
		if (upgrade_one(nvlist_string_or(pools.item[i], "name", ""), version))
			failed = CLI_ERROR;
	cli_items_free(&pools);
	return failed;
}

/* ---- showing ---- */

static const char *const version_texts[] = {
    "Initial ZFS version",
    "Ditto blocks (replicated metadata)",
    "Hot spares and double parity RAID-Z",
    "zpool history",
    "Compression using the gzip algorithm",
    "bootfs pool property",
    "Separate intent log devices",
    "Delegated administration",
    "refquota and refreservation properties",
    "Cache devices",
    "Improved scrub performance",
    "Snapshot properties",
    "snapused property",
    "passthrough-x aclinherit",
    "user/group space accounting",
    "stmf property support",
    "Triple-parity RAID-Z",
    "Snapshot user holds",
    "Log device removal",
    "Compression using zle (zero-length encoding)",
    "Deduplication",
    "Received properties",
    "Slim ZIL",
    "System attributes",
    "Improved scrub stats",
    "Improved snapshot deletion performance",
    "Improved snapshot creation performance",
    "Multiple vdev replacements",
};

static int supported_print(void)
{
	puts("This system supports ZFS pool feature flags.\n\nThe following features are supported:\n\n"
	     "FEAT DESCRIPTION\n-------------------------------------------------------------");
	for (size_t i = 0; i < spa_feature_table_len; i++) {
		const struct spa_feature *f = &spa_feature_table[i];

		printf("%-37s%s\n     %s\n", f->name, f->readonly_compat ? " (read-only compatible)" : "", f->desc);
	}
	puts("\nThe following legacy versions are also supported:\n\nVER  DESCRIPTION\n"
	     "---  --------------------------------------------------------");
	for (size_t i = 0; i < ARRAY_LEN(version_texts); i++)
		printf("%2zu   %s\n", i + 1, version_texts[i]);
	return CLI_OK;
}

/* Names of the features that an upgrade would enable; returns how many there are. */
static size_t disabled_print(const struct nvlist *props, bool print)
{
	size_t n = 0;

	for (size_t i = 0; i < spa_feature_table_len; i++) {
		autofree char *name = xasprintf("feature@%s", spa_feature_table[i].name);
		struct zpool_value v = zpool_value_of(props, name);

		if (spa_feature_table[i].not_by_upgrade || !v.exact || strcmp(v.exact, "disabled"))
			continue;
		n++;
		if (print)
			printf("      %s\n", spa_feature_table[i].name);
	}
	return n;
}

static bool pool_is_legacy(const struct nvlist *props, uint64_t *version)
{
	struct zpool_value v = zpool_value_of(props, "version");

	*version = v.exact ? strtoull(v.exact, NULL, 10) : 0;
	return *version > 0 && *version < 5000;
}

static void legacy_print(const struct cli_items *pools, size_t *shown)
{
	for (size_t i = 0; i < pools->n; i++) {
		struct nvlist *props = NULL;
		uint64_t version;

		nvlist_list(pools->item[i], "props", &props);
		if (!props || !pool_is_legacy(props, &version))
			continue;
		if (!(*shown)++)
			puts("The following pools are formatted with legacy version numbers and can\n"
			     "be upgraded to use feature flags.\n\nVER  POOL\n---  ------------");
		printf("%2" PRIu64 "   %s\n", version, nvlist_string_or(pools->item[i], "name", ""));
	}
}

static void features_print(const struct cli_items *pools, size_t *shown)
{
	for (size_t i = 0; i < pools->n; i++) {
		struct nvlist *props = NULL;
		uint64_t version;

		nvlist_list(pools->item[i], "props", &props);
		if (!props || pool_is_legacy(props, &version) || !disabled_print(props, false))
			continue;
		if (!(*shown)++)
			puts("Some supported features are not enabled on the following pools. Once a\n"
			     "feature is enabled the pool may become incompatible with software\n"
			     "that does not support the feature. See zpool-features(7) for details.\n\n"
			     "Note that the pool 'compatibility' feature can be used to inhibit\n"
			     "feature upgrades.\n\n"
			     "POOL  FEATURE\n---------------");
		printf("%s\n", nvlist_string_or(pools->item[i], "name", ""));
		disabled_print(props, true);
	}
}

static int upgradable_print(void)
{
	size_t legacy = 0, features = 0;
	struct cli_items pools;
	struct err e = ERR_INIT;

	if (cli_ask_items("pool.list", NULL, &pools, &e))
		return cli_fail("list pools", NULL, &e);
	puts("This system supports ZFS pool feature flags.\n");
	legacy_print(&pools, &legacy);
	if (!legacy)
		puts("All pools are formatted using feature flags.\n");
	features_print(&pools, &features);
	if (!features)
		puts("Every feature flags pool has all supported and requested features enabled.");
	cli_items_free(&pools);
	return CLI_OK;
}

int zpool_upgrade(int argc, char **argv)
{
	bool all = false, show = false;
	uint64_t version = 0;
	int opt, failed = CLI_OK;

	while ((opt = getopt(argc, argv, "avV:")) != -1) {
		if (opt == 'a')
			all = true;
		else if (opt == 'v')
			show = true;
		else if (opt == 'V')
			version = strtoull(optarg, NULL, 10);
		else
			return cli_usage("zpool", zpool_commands, "upgrade", NULL);
		if (opt == 'V' && (version < 1 || (version > 28 && version != 5000)))
			return cli_usage("zpool", zpool_commands, "upgrade", "invalid version '%s'", optarg);
	}
	if (show && (all || version || optind < argc))
		return cli_usage("zpool", zpool_commands, "upgrade", "-v excludes everything else");
	if (all && optind < argc)
		return cli_usage("zpool", zpool_commands, "upgrade", "-a excludes pool names");
	if (all)
		return upgrade_all(version);
	if (optind == argc && version)
		return cli_usage("zpool", zpool_commands, "upgrade", "missing pool argument");
	if (optind == argc)
		return show ? supported_print() : upgradable_print();
	for (; optind < argc; optind++)
		if (upgrade_one(argv[optind], version))
			failed = CLI_ERROR;
	return failed;
}
