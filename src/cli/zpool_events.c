#include "cli/zpool.h"

#include <getopt.h>
#include <inttypes.h>

struct events_options {
	bool verbose, scripted, follow;
};

static void event_time(const struct nvlist *event, char *text, size_t size)
{
	time_t seconds = (time_t)nvlist_u64_or(event, "seconds", 0);
	char date[64];
	struct tm tm;

	localtime_r(&seconds, &tm);
	strftime(date, sizeof(date), "%b %e %Y %H:%M:%S", &tm);
	snprintf(text, size, "%s.%09" PRIu64, date, nvlist_u64_or(event, "nanoseconds", 0));
}

static int event_print(void *arg, const struct nvlist *event)
{
	const struct events_options *o = arg;
	const char *class = nvlist_string_or(event, "class", "?");
	struct nvlist *payload;
	char text[96];

	event_time(event, text, sizeof(text));
	printf(o->scripted ? "%s\t%s\n" : "%-30s  %s\n", text, class);
	if (o->verbose && nvlist_list(event, "payload", &payload) == 0) {
		struct str lines = {NULL, 0, 0};

		nvlist_print(payload, 8, &lines);
		printf("%s\n", str_get(&lines));
		str_free(&lines);
	}
	fflush(stdout);
	return 0;
}

static int events_clear(void)
{
	autonv struct nvlist *result = NULL;
	struct err e = ERR_INIT;

	if (cli_ask("events.clear", NULL, NULL, NULL, &result, &e))
		return cli_fail("clear events", NULL, &e);
	printf("cleared %" PRIu64 " events\n", nvlist_u64_or(result, "cleared", 0));
	return CLI_OK;
}

int zpool_events(int argc, char **argv)
{
	static const struct option longs[] = {{"clear", no_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
	autonv struct nvlist *args = nvlist_create();
	struct events_options o = {.verbose = false};
	struct err e = ERR_INIT;
	bool clear = false;
	int opt, err;

	while ((opt = getopt_long(argc, argv, "vHfc", longs, NULL)) != -1) {
		if (opt == 'v')
			o.verbose = true;
		else if (opt == 'H')
			o.scripted = true;
		else if (opt == 'f')
			o.follow = true;
		else if (opt == 'c')
			clear = true;
		else
			return cli_usage("zpool", zpool_commands, "events", NULL);
	}
	if (clear && (o.verbose || o.scripted || o.follow || optind < argc))
		return cli_usage("zpool", zpool_commands, "events", "invalid options combined with -c");
	if (clear)
		return events_clear();
	if (optind + 1 < argc)
		return cli_usage("zpool", zpool_commands, "events", "too many arguments");
	if (argv[optind])
		nvlist_add_string(args, "name", argv[optind]);
	nvlist_add_boolean_value(args, "follow", o.follow);
	if (!o.scripted)
		printf("%-30s  %s\n", "TIME", "CLASS");
	err = cli_ask("events.read", args, event_print, &o, NULL, &e);
	if (err == -EINTR && cli_interrupted)
		return CLI_OK;
	return err ? cli_fail("show events", argv[optind], &e) : CLI_OK;
}
