/* tarn tunable: the daemon's knobs. */
#include "cli/cli.h"

#include <getopt.h>
#include <inttypes.h>

static const struct cli_command usage[] = {
    {"tunable", cli_tunable, "[-Hv] [NAME[=VALUE]]...", "show or set what steers the daemon, by OpenZFS's names"},
    {NULL, NULL, NULL, NULL},
};

struct tunable_options {
	bool scripted, verbose;
	struct cli_table *table;
};

static void number_text(char *text, size_t size, uint64_t v)
{
	snprintf(text, size, "%" PRIu64, v);
}

static int tunable_show(void *arg, const struct nvlist *t)
{
	struct tunable_options *o = arg;
	char value[24], def[24], range[64];
	const char *cells[6] = {nvlist_string_or(t, "name", ""), value, nvlist_string_or(t, "unit", ""), def, range,
				nvlist_string_or(t, "help", "")};

	number_text(value, sizeof(value), nvlist_u64_or(t, "value", 0));
	number_text(def, sizeof(def), nvlist_u64_or(t, "default", 0));
	snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, nvlist_u64_or(t, "min", 0), nvlist_u64_or(t, "max", 0));
	cli_table_add(o->table, cells);
	return 0;
}

static int tunables_list(struct tunable_options *o, char **names, size_t n)
{
	static const char *const headers[] = {"NAME", "VALUE", "UNIT", "DEFAULT", "RANGE", "WHAT IT DOES", NULL};
	static const bool right[] = {false, true, false, true, false, false};
	autonv struct nvlist *args = nvlist_create();
	struct err e = ERR_INIT;
	int err;

	if (n)
		nvlist_add_strings(args, "names", (const char *const *)names, n);
	o->table = cli_table_create(headers, right, o->verbose ? 6 : 5, o->scripted);
	err = cli_ask("tunable.list", args, tunable_show, o, NULL, &e);
	if (!err)
		cli_table_print(o->table, stdout);
	cli_table_destroy(o->table);
	return err ? cli_fail("show tunables", NULL, &e) : CLI_OK;
}

static int tunable_change(char *text)
{
	autonv struct nvlist *args = nvlist_create();
	char *equals = strchr(text, '=');
	struct err e = ERR_INIT;
	uint64_t v;

	*equals = 0;
	if (size_parse(equals + 1, &v)) {
		fprintf(stderr, "cannot set '%s': '%s' is no number\n", text, equals + 1);
		return CLI_ERROR;
	}
	nvlist_add_string(args, "name", text);
	nvlist_add_u64(args, "value", v);
	return cli_ask("tunable.set", args, NULL, NULL, NULL, &e) ? cli_fail("set", text, &e) : CLI_OK;
}

int cli_tunable(int argc, char **argv)
{
	struct tunable_options o = {.verbose = false};
	int opt, failed = CLI_OK, shown;

	while ((opt = getopt(argc, argv, "Hv")) != -1) {
		if (opt == 'H')
			o.scripted = true;
		else if (opt == 'v')
			o.verbose = true;
		else
			return cli_usage("tarn", usage, "tunable", NULL);
	}
	for (shown = optind; shown < argc && strchr(argv[shown], '='); shown++)
		if (tunable_change(argv[shown]))
			failed = CLI_ERROR;
	if (shown == argc && optind < argc)
		return failed;
	return tunables_list(&o, argv + shown, (size_t)(argc - shown)) ? CLI_ERROR : failed;
}
