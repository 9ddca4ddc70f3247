#include "cli/zpool.h"

#include <inttypes.h>
#include <pwd.h>
#include <unistd.h>

struct history_options {
	bool internal, longer, headed;
	const char *pool;
};

static void who_print(const struct nvlist *r)
{
	uint64_t uid = nvlist_u64_or(r, "history who", UINT64_MAX);
	const char *host = nvlist_string_or(r, "history hostname", NULL),
		   *zone = nvlist_string_or(r, "history zone", NULL);
	struct passwd *pw = uid != UINT64_MAX ? getpwuid((uid_t)uid) : NULL;

	if (uid == UINT64_MAX && !host && !zone)
		return;
	fputs(" [", stdout);
	if (uid != UINT64_MAX)
		printf("user %" PRIu64 " (%s)%s", uid, pw ? pw->pw_name : "?", host ? " " : "");
	if (host)
		printf("on %s", host);
	if (zone)
		printf(":%s", zone);
	putchar(']');
}

static bool internal_print(const struct nvlist *r)
{
	const char *event = nvlist_string_or(r, "internal_name", NULL), *ioctl = nvlist_string_or(r, "ioctl", NULL);
	const char *text = nvlist_string_or(r, "history internal str", ""),
		   *dataset = nvlist_string_or(r, "dsname", NULL);
	struct nvlist *io;
	struct str s = {NULL, 0, 0};

	if (ioctl) {
		printf("ioctl %s", ioctl);
		if (nvlist_list(r, "in_nvl", &io) == 0) {
			str_add(&s, "\n    input:\n");
			nvlist_print(io, 8, &s);
		}
		if (nvlist_list(r, "out_nvl", &io) == 0) {
			str_add(&s, "    output:\n");
			nvlist_print(io, 8, &s);
		}
		fputs(str_get(&s), stdout);
		str_free(&s);
		return true;
	}
	if (!event)
		return false;
	printf("[txg:%" PRIu64 "] %s", nvlist_u64_or(r, "history txg", 0), event);
	if (dataset)
		printf(" %s (%" PRIu64 ")", dataset, nvlist_u64_or(r, "dsid", 0));
	printf(" %s", text);
	return true;
}

/* When the pool is known to be there. */
static void heading_print(struct history_options *o)
{
	if (!o->headed)
		printf("History for '%s':\n", o->pool);
	o->headed = true;
}

static int record_print(void *arg, const struct nvlist *r)
{
	struct history_options *o = arg;
	const char *command = nvlist_string_or(r, "history command", NULL);
	time_t time = (time_t)nvlist_u64_or(r, "history time", 0);
	char when[64];
	struct tm tm;

	heading_print(o);
	if (!command && !o->internal)
		return 0;
	localtime_r(&time, &tm);
	strftime(when, sizeof(when), "%Y-%m-%d.%H:%M:%S", &tm);
	printf("%s ", when);
	if (command)
		fputs(command, stdout);
	else if (!internal_print(r))
		fputs("unrecognized record", stdout);
	if (o->longer)
		who_print(r);
	putchar('\n');
	return 0;
}

static int history_of(const char *name, struct history_options *o)
{
	autonv struct nvlist *args = nvlist_create();
	struct err e = ERR_INIT;
	int err;

	o->pool = name;
	o->headed = false;
	nvlist_add_string(args, "name", name);
	err = cli_ask("pool.history", args, record_print, o, NULL, &e);
	if (!err)
		heading_print(o);
	if (o->headed)
		putchar('\n');
	return err ? cli_fail("get history of", name, &e) : CLI_OK;
}

int zpool_history(int argc, char **argv)
{
	struct history_options o = {.internal = false};
	struct cli_items pools;
	struct err e = ERR_INIT;
	int opt, failed = CLI_OK;

	while ((opt = getopt(argc, argv, "il")) != -1) {
		if (opt == 'i')
			o.internal = true;
		else if (opt == 'l')
			o.longer = true;
		else
			return cli_usage("zpool", zpool_commands, "history", NULL);
	}
	for (int i = optind; i < argc; i++)
		if (history_of(argv[i], &o))
			failed = CLI_ERROR;
	if (optind < argc)
		return failed;
	if (cli_ask_items("pool.list", NULL, &pools, &e))
		return cli_fail("list pools", NULL, &e);
	for (size_t i = 0; i < pools.n; i++)
		if (history_of(nvlist_string_or(pools.item[i], "name", ""), &o))
			failed = CLI_ERROR;
	cli_items_free(&pools);
	return failed;
}
