/* What goes on in a pool for a while: trim, initialize, and waiting for any of it. */
#include "cli/zpool.h"

#include <getopt.h>
#include <inttypes.h>
#include <unistd.h>

#define POLL_US 100000

static const char *const activities[] = {"discard",  "free",  "initialize", "replace",      "remove",
					 "resilver", "scrub", "trim",       "raidz_expand", "condense"};

/* ---- trim and initialize ---- */

struct activity_command {
	const char *word, *options;
};

static int activity_option(int opt, struct nvlist *args, const char **how, bool *wait, bool *all)
{
	switch (opt) {
	case 'c':
		*how = "cancel";
		return 0;
	case 's':
		*how = "suspend";
		return 0;
	case 'u':
		*how = "uninit";
		return 0;
	case 'w':
		*wait = true;
		return 0;
	case 'a':
		*all = true;
		return 0;
	case 'd':
		nvlist_add_boolean_value(args, "secure", true);
		return 0;
	case 'r': {
		uint64_t rate;

		if (size_parse(optarg, &rate)) {
			fprintf(stderr, "invalid value '%s': a rate in bytes per second is expected\n", optarg);
			return CLI_USAGE;
		}
		nvlist_add_u64(args, "rate", rate);
		return 0;
	}
	default:
		return -1;
	}
}

static int activity_pool(const char *word, struct nvlist *args, const char *pool, char **devices, int n, bool wait)
{
	const char *activity[] = {word};
	int failed;

	nvlist_add_string(args, "name", pool);
	if (n)
		nvlist_add_strings(args, "devices", (const char *const *)devices, (size_t)n);
	failed = zpool_change("pool.activity", args, word, pool, NULL);
	return failed || !wait ? failed : zpool_wait_for(pool, activity, 1);
}

static int activity_all(const char *word, struct nvlist *args, bool wait)
{
	struct cli_items pools;
	struct err e = ERR_INIT;
	int failed = CLI_OK;

	if (cli_ask_items("pool.list", NULL, &pools, &e))
		return cli_fail("list pools", NULL, &e);
	for (size_t i = 0; i < pools.n; i++)
		if (activity_pool(word, args, nvlist_string_or(pools.item[i], "name", ""), NULL, 0, wait))
			failed = CLI_ERROR;
	cli_items_free(&pools);
	return failed;
}

static int activity_run(int argc, char **argv, const char *word, const char *options)
{
	static const struct option longs[] = {
	    {"cancel", no_argument, NULL, 'c'}, {"suspend", no_argument, NULL, 's'},
	    {"uninit", no_argument, NULL, 'u'}, {"wait", no_argument, NULL, 'w'},
	    {"secure", no_argument, NULL, 'd'}, {"rate", required_argument, NULL, 'r'},
	    {"all", no_argument, NULL, 'a'},    {NULL, 0, NULL, 0}};
	autonv struct nvlist *args = nvlist_create();
	const char *how = "start";
	bool wait = false, all = false;
	int opt, failed;

	while ((opt = getopt_long(argc, argv, options, longs, NULL)) != -1) {
		if (opt != '?' && strchr("csu", opt) && strcmp(how, "start"))
			return cli_usage("zpool", zpool_commands, word, "-%c cannot be combined with other options",
					 opt);
		failed = strchr(options, opt) ? activity_option(opt, args, &how, &wait, &all) : -1;
		if (failed)
			return failed < 0 ? cli_usage("zpool", zpool_commands, word, NULL) : failed;
	}
	if (wait && strcmp(how, "start"))
		return cli_usage("zpool", zpool_commands, word, "-w cannot be used with -c, -s or -u");
	if (all ? optind < argc : optind == argc)
		return cli_usage("zpool", zpool_commands, word,
				 all ? "-a excludes pool names" : "missing pool name argument");
	nvlist_add_string(args, "activity", word);
	nvlist_add_string(args, "how", how);
	if (all)
		return activity_all(word, args, wait);
	return activity_pool(word, args, argv[optind], argv + optind + 1, argc - optind - 1, wait);
}

int zpool_trim(int argc, char **argv)
{
	return activity_run(argc, argv, "trim", "csdr:wa");
}

int zpool_initialize(int argc, char **argv)
{
	return activity_run(argc, argv, "initialize", "csuwa");
}

/* ---- wait ---- */

/* Bytes that are left of an activity; false: it does not go on. */
static int activity_ask(const char *pool, const char *activity, bool *busy, uint64_t *left)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	struct err e = ERR_INIT;

	nvlist_add_string(args, "name", pool);
	nvlist_add_string(args, "activity", activity);
	if (cli_ask("pool.busy", args, NULL, NULL, &result, &e))
		return cli_fail("wait for", pool, &e);
	*busy = nvlist_bool(result, "busy");
	*left = nvlist_u64_or(result, "left", 0);
	return CLI_OK;
}

int zpool_wait_for(const char *pool, const char *const *activity, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool busy = true;
		uint64_t left;

		while (busy) {
			if (activity_ask(pool, activity[i], &busy, &left))
				return CLI_ERROR;
			if (cli_interrupted)
				return CLI_ERROR;
			if (busy)
				usleep(POLL_US);
		}
	}
	return CLI_OK;
}

struct wait_options {
	bool scripted, exact;
	char time;
	const char *name[ARRAY_LEN(activities)];
	size_t n;
};

static void wait_header(const struct wait_options *o)
{
	for (size_t i = 0; i < o->n; i++) {
		char upper[32];
		size_t k;

		for (k = 0; o->name[i][k]; k++)
			upper[k] = (char)(o->name[i][k] >= 'a' && o->name[i][k] <= 'z' ? o->name[i][k] - 32
										       : o->name[i][k]);
		upper[k] = 0;
		printf("  %*s", (int)MAX(6, k), upper);
	}
	putchar('\n');
}

static void wait_cell(const struct wait_options *o, size_t i, bool busy, uint64_t left)
{
	char text[SIZE_TEXT];

	if (o->exact)
		snprintf(text, sizeof(text), "%" PRIu64, busy ? left : 0);
	else
		size_print(busy ? left : 0, false, text);
	if (o->scripted)
		printf("\t%s", text);
	else
		printf("  %*s", (int)MAX(6, strlen(o->name[i])), text);
}

static int wait_report(const char *pool, const struct wait_options *o, bool *any)
{
	*any = false;
	zpool_time_print(o->time);
	for (size_t i = 0; i < o->n; i++) {
		uint64_t left;
		bool busy;

		if (activity_ask(pool, o->name[i], &busy, &left))
			return CLI_ERROR;
		*any |= busy;
		wait_cell(o, i, busy, left);
	}
	putchar('\n');
	fflush(stdout);
	return CLI_OK;
}

static int activities_parse(char *text, struct wait_options *o)
{
	char *save = NULL;

	o->n = 0;
	for (char *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		size_t i = 0;

		while (i < ARRAY_LEN(activities) && strcmp(activities[i], word))
			i++;
		if (i == ARRAY_LEN(activities))
			return cli_usage("zpool", zpool_commands, "wait", "invalid activity '%s'", word);
		if (o->n < ARRAY_LEN(activities))
			o->name[o->n++] = activities[i];
	}
	return CLI_OK;
}

int zpool_wait(int argc, char **argv)
{
	struct wait_options o = {.n = ARRAY_LEN(activities)};
	unsigned interval, count = 0;
	bool any = true;
	int opt, failed;

	memcpy(o.name, activities, sizeof(activities));
	while ((opt = getopt(argc, argv, "HpT:t:")) != -1) {
		failed = CLI_OK;
		if (opt == 'H')
			o.scripted = true;
		else if (opt == 'p')
			o.exact = true;
		else if (opt == 'T' && (optarg[0] == 'd' || optarg[0] == 'u') && !optarg[1])
			o.time = optarg[0];
		else if (opt == 't')
			failed = activities_parse(optarg, &o);
		else
			return cli_usage("zpool", zpool_commands, "wait", NULL);
		if (failed)
			return failed;
	}
	zpool_interval_parse(&argc, argv, optind + 1, &interval, &count);
	if (optind + 1 != argc)
		return cli_usage("zpool", zpool_commands, "wait",
				 optind < argc ? "too many arguments" : "missing pool argument");
	if (!interval)
		return zpool_wait_for(argv[optind], o.name, o.n);
	for (unsigned line = 0; any; line++) {
		if (!o.scripted && line % 20 == 0)
			wait_header(&o);
		if (wait_report(argv[optind], &o, &any))
			return CLI_ERROR;
		if (any && !zpool_interval_next(interval, &(unsigned){0}, false))
			return CLI_ERROR;
	}
	return CLI_OK;
}
