#include "cli/zpool.h"

#include <getopt.h>
#include <inttypes.h>
#include <unistd.h>

#include "cli/key.h"

struct import_options {
	bool all, destroyed, force, load_keys, missing_log, no_mount, rewind, rewind_dry, extreme, temporary,
	    checkpoint;
	uint64_t txg;
	char **paths;
	size_t npaths;
	char *cachefile;
	const char *altroot;
	struct nvlist *props;
	struct str mount_options;
};

/* ---- listing ---- */

static void listing_print(const struct nvlist *config)
{
	struct zpool_config_options o = {.counters = false};
	const char *comment = nvlist_string_or(config, "comment", NULL),
		   *error = nvlist_string_or(config, "error", NULL);
	const char *const *notes;
	size_t n;

	printf("   pool: %s\n     id: %" PRIu64 "\n  state: %s%s\n", nvlist_string_or(config, "name", "?"),
	       nvlist_u64_or(config, "pool_guid", 0), nvlist_string_or(config, "health", "UNKNOWN"),
	       nvlist_u64_or(config, "state", 0) == 2 ? " (DESTROYED)" : "");
	zpool_listing_reason_print(config, stdout);
	if (error)
		printf("  error: %.*s\n", (int)strcspn(error, "\n"), error);
	if (comment)
		printf("comment: %s\n", comment);
	if (nvlist_strings(config, "notes", &notes, &n) == 0)
		for (size_t i = 0; i < n; i++)
			printf("   note: %s\n", notes[i]);
	printf(" config:\n\n");
	zpool_config_print(config, &o, stdout);
}

static void search_args(const struct import_options *o, struct nvlist *args)
{
	if (o->npaths)
		nvlist_add_strings(args, "paths", (const char *const *)o->paths, o->npaths);
	if (o->cachefile)
		nvlist_add_string(args, "cachefile", o->cachefile);
	nvlist_add_boolean_value(args, "destroyed", o->destroyed);
}

static int search(const struct import_options *o, bool open, struct cli_items *found)
{
	autonv struct nvlist *args = nvlist_create();
	struct err e = ERR_INIT;

	search_args(o, args);
	nvlist_add_boolean_value(args, "open", open);
	if (cli_ask_items("pool.search", args, found, &e) == 0)
		return CLI_OK;
	cli_items_free(found);
	return cli_fail("search for pools", NULL, &e);
}

static int import_list(const struct import_options *o)
{
	struct cli_items found;
	int failed;

	if (search(o, true, &found))
		return CLI_ERROR;
	failed = found.n ? CLI_OK : CLI_ERROR;
	for (size_t i = 0; i < found.n; i++) {
		if (i)
			putchar('\n');
		listing_print(found.item[i]);
	}
	if (!found.n)
		fprintf(stderr, "no pools available to import\n");
	cli_items_free(&found);
	return failed;
}

/* ---- importing ---- */

static void import_args(const struct import_options *o, struct nvlist *args)
{
	search_args(o, args);
	nvlist_add_boolean_value(args, "force", o->force);
	nvlist_add_boolean_value(args, "missing_log", o->missing_log);
	nvlist_add_boolean_value(args, "temporary", o->temporary);
	nvlist_add_boolean_value(args, "rewind", o->rewind);
	nvlist_add_boolean_value(args, "rewind_dry", o->rewind_dry);
	nvlist_add_boolean_value(args, "extreme", o->extreme);
	nvlist_add_boolean_value(args, "rewind_checkpoint", o->checkpoint);
	nvlist_add_boolean_value(args, "mount", !o->no_mount && !o->load_keys);
	if (o->txg)
		nvlist_add_u64(args, "txg", o->txg);
	if (o->altroot)
		nvlist_add_string(args, "altroot", o->altroot);
	if (nvlist_len(o->props))
		nvlist_add_list(args, "props", o->props);
	if (o->mount_options.len)
		nvlist_add_string(args, "options", o->mount_options.s);
}

static void strings_print(const struct nvlist *result, const char *key, const char *prefix)
{
	const char *const *text;
	size_t n;

	if (nvlist_strings(result, key, &text, &n))
		return;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%s%s\n", prefix, text[i]);
}

/* -l: keys before mounts, asked for by this program. */
static int keys_then_mount(const struct import_options *o, const char *pool)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	unsigned loaded, failed;
	struct err e = ERR_INIT;
	int err = cli_key_load_all(pool, &loaded, &failed);

	if (o->no_mount)
		return err;
	nvlist_add_string(args, "name", pool);
	nvlist_add_boolean_value(args, "recursive", true);
	if (o->mount_options.len)
		nvlist_add_string(args, "options", o->mount_options.s);
	if (cli_ask("dataset.mount", args, NULL, NULL, &result, &e))
		return cli_fail("mount", pool, &e);
	strings_print(result, "failures", "");
	return nvlist_exists(result, "failures") ? CLI_ERROR : err;
}

static int import_one(const struct import_options *o, const char *name, uint64_t guid, const char *new_name)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	struct err e = ERR_INIT;
	const char *pool;

	import_args(o, args);
	nvlist_add_string(args, "command", cli_command_line());
	if (guid)
		nvlist_add_u64(args, "guid", guid);
	nvlist_add_string(args, "name", name);
	if (new_name)
		nvlist_add_string(args, "new_name", new_name);
	if (cli_ask("pool.import", args, NULL, NULL, &result, &e))
		return cli_fail("import", name, &e);
	pool = nvlist_string_or(result, "name", name);
	strings_print(result, "notes", "note: ");
	strings_print(result, "failures", "");
	if (o->rewind_dry) {
		printf("Would be able to return %s to an earlier state; see the notes.\n", pool);
		return CLI_OK;
	}
	if (o->load_keys)
		return keys_then_mount(o, pool);
	return nvlist_exists(result, "failures") ? CLI_ERROR : CLI_OK;
}

static int import_all(const struct import_options *o)
{
	struct cli_items found;
	int failed;

	if (search(o, false, &found))
		return CLI_ERROR;
	failed = found.n ? CLI_OK : CLI_ERROR;
	for (size_t i = 0; i < found.n && !cli_interrupted; i++)
		if (import_one(o, nvlist_string_or(found.item[i], "name", "?"),
			       nvlist_u64_or(found.item[i], "pool_guid", 0), NULL))
			failed = CLI_ERROR;
	if (!found.n)
		fprintf(stderr, "no pools available to import\n");
	cli_items_free(&found);
	return failed;
}

/* ---- options ---- */

/* -o readonly=on, -o PROPERTY=VALUE, or mount options. */
static int property_take(struct import_options *o, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals) {
		str_addf(&o->mount_options, "%s%s", o->mount_options.len ? "," : "", text);
		return 0;
	}
	*equals = 0;
	nvlist_add_string(o->props, text, equals + 1);
	return 0;
}

static void path_add(struct import_options *o, const char *path)
{
	o->paths = xrealloc(o->paths, (o->npaths + 1) * sizeof(char *));
	o->paths[o->npaths++] = cli_path_absolute(path);
}

static int option_take(struct import_options *o, int opt)
{
	char *end;

	switch (opt) {
	case 'a':
		o->all = true;
		return 0;
	case 'd':
		path_add(o, optarg);
		return 0;
	case 'c':
		free(o->cachefile);
		o->cachefile = cli_path_absolute(optarg);
		return 0;
	case 's': /* devices are always scanned */
	case 'V': /* missing devices never stop a read-only import that can do without them */
		return 0;
	case 'D':
		o->destroyed = true;
		return 0;
	case 'f':
		o->force = true;
		return 0;
	case 'F':
		o->rewind = true;
		return 0;
	case 'n':
		o->rewind_dry = true;
		return 0;
	case 'X':
		o->extreme = true;
		return 0;
	case 'T':
		o->txg = strtoull(optarg, &end, 0);
		return *end || !o->txg ? CLI_USAGE : 0;
	case 'l':
		o->load_keys = true;
		return 0;
	case 'm':
		o->missing_log = true;
		return 0;
	case 'N':
		o->no_mount = true;
		return 0;
	case 't':
		o->temporary = true;
		return 0;
	case 'R':
		o->altroot = optarg;
		if (optarg[0] == '/')
			return 0;
		fprintf(stderr, "invalid alternate root '%s': must be an absolute path\n", optarg);
		return CLI_USAGE;
	case 'o':
		return property_take(o, optarg);
	case 'C':
		o->checkpoint = true;
		return 0;
	default:
		return CLI_USAGE;
	}
}

static const char *options_fault(const struct import_options *o, int names)
{
	if ((o->rewind_dry || o->extreme) && !o->rewind)
		return "-n and -X go with -F";
	if (o->all && names)
		return "too many arguments";
	if (names > 2)
		return "too many arguments";
	if (o->npaths && o->cachefile)
		return "-c is incompatible with -d";
	if (o->temporary && names < 2)
		return "-t needs a new name";
	return NULL;
}

static int import_run(struct import_options *o, char **names, int n)
{
	const char *fault = options_fault(o, n);
	uint64_t guid = 0;
	char *end;

	if (fault)
		return cli_usage("zpool", zpool_commands, "import", "%s", fault);
	if (o->all)
		return import_all(o);
	if (n == 0)
		return import_list(o);
	if (names[0][0] >= '0' && names[0][0] <= '9') {
		guid = strtoull(names[0], &end, 10);
		guid = *end ? 0 : guid;
	}
	return import_one(o, names[0], guid, n == 2 ? names[1] : NULL);
}

int zpool_import(int argc, char **argv)
{
	static const struct option longs[] = {{"rewind-to-checkpoint", no_argument, NULL, 'C'}, {NULL, 0, NULL, 0}};
	struct import_options o = {.props = nvlist_create()};
	int opt, err = 0;

	while (!err && (opt = getopt_long(argc, argv, "ad:c:sVDfFnXT:lmNtR:o:", longs, NULL)) != -1)
		err = option_take(&o, opt);
	if (err == CLI_USAGE)
		cli_usage("zpool", zpool_commands, "import", NULL);
	if (!err)
		err = import_run(&o, argv + optind, argc - optind);
	nvlist_destroy(o.props);
	str_free(&o.mount_options);
	for (size_t i = 0; i < o.npaths; i++)
		free(o.paths[i]);
	free(o.paths);
	free(o.cachefile);
	return err;
}
