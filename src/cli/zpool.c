#include "cli/zpool.h"

#include <unistd.h>

#define REFUSED(word, usage)                                                                                           \
	{                                                                                                              \
		word, zpool_refuse, usage, "not in this version"                                                       \
	}

#define MISSING(word, usage)                                                                                           \
	{                                                                                                              \
		word, zpool_missing, usage, "not in this version"                                                      \
	}

const struct cli_command zpool_commands[] = {
    {"import", zpool_import,
     "[-d DIR|DEVICE]... [-c CACHEFILE] [-D] | [-d DIR|DEVICE]... [-c CACHEFILE] [-DflmNt] [-F [-nX]] [-T TXG] [-o "
     "OPTIONS] [-R ROOT] "
     "[--rewind-to-checkpoint] -a | POOL|ID [NEWPOOL]",
     "list pools that can be imported, or import them"},
    {"export", zpool_export, "[-f] -a | POOL...", "give pools back: unmount, end exports, close devices"},
    {"list", zpool_list,
     "[-gHLpPv] [-j [--json-int] [--json-pool-key-guid]] [-o PROPERTY[,...]] [-T d|u] [POOL]... [INTERVAL [COUNT]]",
     "list pools with their space and health"},
    {"status", zpool_status,
     "[-DegiLPpstvx] [-j [--json-flat-vdevs] [--json-int] [--json-pool-key-guid]] [-T d|u] [POOL]... [INTERVAL "
     "[COUNT]]",
     "show health, devices and errors of pools"},
    {"iostat", zpool_iostat, "[-gHLnPpvy] [-T d|u] [POOL... | POOL VDEV...] [INTERVAL [COUNT]]",
     "show what pools and devices are asked for"},
    {"get", zpool_get,
     "[-Hp] [-j [--json-int] [--json-pool-key-guid]] [-o all|FIELD[,...]] all|PROPERTY[,...] [POOL "
     "[VDEV|all-vdevs]...]",
     "show properties of pools and their devices"},
    {"history", zpool_history, "[-il] [POOL]...", "show the commands that made a pool what it is"},
    {"create", zpool_create,
     "[-dfn] [-o PROPERTY=VALUE]... [-O FS_PROPERTY=VALUE]... [-m MOUNTPOINT] [-R ROOT] [-t NAME] POOL VDEV...",
     "make a pool on devices or files"},
    {"destroy", zpool_destroy, "[-f] POOL", "give a pool up: its devices say so, nothing is erased"},
    {"add", zpool_add, "[-fgLnP] [-o ashift=N] POOL VDEV...", "add devices to a pool"},
    {"remove", zpool_remove, "[-w] POOL DEVICE...", "remove log devices from a pool"},
    {"labelclear", zpool_labelclear, "[-f] DEVICE", "wipe what makes a device part of a pool"},
    {"checkpoint", zpool_checkpoint, "[-d [-w]] POOL",
     "keep a pool's present state to rewind to, or discard what is kept"},
    {"online", zpool_online, "[-e] POOL DEVICE...", "use devices again; -e: with all the room they have"},
    {"offline", zpool_offline, "[-ft] POOL DEVICE...", "do without devices; -t until the next import"},
    {"clear", zpool_clear, "POOL [DEVICE]...", "forget errors; a suspended pool goes on"},
    {"initialize", zpool_initialize, "[-c | -s | -u] [-w] -a | POOL [DEVICE]...", "write to all free space"},
    {"trim", zpool_trim, "[-c | -s] [-d] [-r RATE] [-w] -a | POOL [DEVICE]...", "tell devices which space is free"},
    {"upgrade", zpool_upgrade, "[-v] | [-V VERSION] -a | POOL...",
     "show what could be upgraded, or enable all features"},
    {"set", zpool_set, "PROPERTY=VALUE POOL [VDEV]", "set a property of a pool or device"},
    {"sync", zpool_sync, "[POOL]...", "write everything to the devices now"},
    {"reguid", zpool_reguid, "[-g GUID] POOL", "give a pool a new identity"},
    {"events", zpool_events, "[-vHf] [POOL] | -c", "show what happened to pools"},
    {"wait", zpool_wait, "[-Hp] [-T d|u] [-t ACTIVITY[,...]] POOL [INTERVAL]", "wait until nothing goes on in a pool"},
    REFUSED("attach", "POOL DEVICE NEW"),
    REFUSED("detach", "POOL DEVICE"),
    REFUSED("replace", "POOL DEVICE [NEW]"),
    REFUSED("split", "POOL NEWPOOL"),
    REFUSED("scrub", "POOL..."),
    REFUSED("resilver", "POOL..."),
    REFUSED("condense", "POOL..."),
    MISSING("reopen", "[POOL]..."),
    MISSING("prefetch", "POOL"),
    {NULL, NULL, NULL, NULL},
};

/* What a command is about: the pool stands first, but behind the property of `set`. */
static const char *subject(int argc, char **argv)
{
	const char *name = argc < 2 ? NULL : strcmp(argv[0], "set") == 0 ? argv[argc - 1] : argv[1];

	return name && name[0] != '-' && !strchr(name, '=') ? name : NULL;
}

int zpool_refuse(int argc, char **argv)
{
	struct err e = ERR_INIT;

	err_set(&e, -EOPNOTSUPP, "this version of tarn cannot do that to a pool");
	return cli_fail(argv[0], subject(argc, argv), &e);
}

int zpool_missing(int argc, char **argv)
{
	struct err e = ERR_INIT;

	err_set(&e, -EOPNOTSUPP, "not in this version of tarn");
	return cli_fail(argv[0], subject(argc, argv), &e);
}

int cli_zpool(int argc, char **argv)
{
	return cli_dispatch("zpool", zpool_commands, argc, argv);
}

/* ---- export ---- */

static int export_one(const char *name, bool force)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	struct err e = ERR_INIT;

	nvlist_add_string(args, "name", name);
	nvlist_add_boolean_value(args, "force", force);
	if (cli_ask("pool.export", args, NULL, NULL, &result, &e))
		return cli_fail("export", name, &e);
	cli_failures_print(result);
	return CLI_OK;
}

static int export_all(bool force)
{
	struct cli_items pools;
	struct err e = ERR_INIT;
	int failed = CLI_OK;

	if (cli_ask_items("pool.list", NULL, &pools, &e))
		return cli_fail("list pools", NULL, &e);
	for (size_t i = 0; i < pools.n; i++)
		if (export_one(nvlist_string_or(pools.item[i], "name", ""), force))
			failed = CLI_ERROR;
	cli_items_free(&pools);
	return failed;
}

int zpool_export(int argc, char **argv)
{
	bool all = false, force = false;
	int opt, failed = CLI_OK;

	while ((opt = getopt(argc, argv, "afF")) != -1) {
		if (opt == 'a')
			all = true;
		else if (opt == 'f' || opt == 'F')
			force = true;
		else
			return cli_usage("zpool", zpool_commands, "export", NULL);
	}
	if (all ? optind < argc : optind >= argc)
		return cli_usage("zpool", zpool_commands, "export",
				 all ? "too many arguments" : "missing pool argument");
	if (all)
		return export_all(force);
	for (int i = optind; i < argc; i++)
		if (export_one(argv[i], force))
			failed = CLI_ERROR;
	return failed;
}

/* ---- shared ---- */

/* Takes out the items that tell of pools that are not there. */
static int errors_take(struct cli_items *pools)
{
	int failed = CLI_OK;
	size_t n = 0;

	for (size_t i = 0; i < pools->n; i++) {
		const char *text = nvlist_string_or(pools->item[i], "error", NULL);

		if (!text) {
			pools->item[n++] = pools->item[i];
			continue;
		}
		fprintf(stderr, "cannot open '%s': %s\n", nvlist_string_or(pools->item[i], "name", "?"), text);
		nvlist_destroy(pools->item[i]);
		failed = CLI_ERROR;
	}
	pools->n = n;
	return failed;
}

int zpool_ask_pools(const char *cmd, struct nvlist *args, char *const *names, size_t n, struct cli_items *pools)
{
	struct err e = ERR_INIT;

	if (n)
		nvlist_add_strings(args, "names", (const char *const *)names, n);
	if (cli_ask_items(cmd, args, pools, &e) == 0)
		return errors_take(pools);
	cli_items_free(pools);
	return n == 1 ? cli_fail("open", names[0], &e) : cli_fail("look at the pools", NULL, &e);
}

char *zpool_row_name(const struct nvlist *row, const char *key, const struct zpool_style *st)
{
	const char *name = nvlist_string_or(row, "name", key), *path = nvlist_string_or(row, "path", NULL);
	char *real;

	if (st->guid && nvlist_exists(row, "guid"))
		return xasprintf("%llu", (unsigned long long)nvlist_u64_or(row, "guid", 0));
	if (st->follow && path && (real = realpath(path, NULL))) {
		char *shown = xstrdup(!st->path && strncmp(real, "/dev/", 5) == 0 ? real + 5 : real);

		free(real);
		return shown;
	}
	return xstrdup(st->path && path && name[0] != '/' && !nvlist_exists(row, "was") ? path : name);
}

struct zpool_value zpool_value_of(const struct nvlist *props, const char *name)
{
	struct zpool_value v = {NULL, "-", false, 0};
	struct nvlist *p;

	if (nvlist_list(props, name, &p))
		return v;
	v.exact = nvlist_string_or(p, "value", NULL);
	v.source = nvlist_string_or(p, "source", "-");
	v.has_number = nvlist_u64(p, "number", &v.number) == 0;
	return v;
}

/* How numbers are shown to people; all others are text already. */
static const struct {
	const char *name;
	enum { SHOW_BYTES, SHOW_BYTES_DASH, SHOW_PERCENT, SHOW_RATIO } show;
} value_shows[] = {
    {"size", SHOW_BYTES},
    {"allocated", SHOW_BYTES},
    {"free", SHOW_BYTES},
    {"checkpoint", SHOW_BYTES_DASH},
    {"expandsize", SHOW_BYTES_DASH},
    {"freeing", SHOW_BYTES},
    {"leaked", SHOW_BYTES},
    {"bclonesaved", SHOW_BYTES},
    {"bcloneused", SHOW_BYTES},
    {"dedup_table_size", SHOW_BYTES},
    {"dedupused", SHOW_BYTES},
    {"dedupsaved", SHOW_BYTES},
    {"capacity", SHOW_PERCENT},
    {"fragmentation", SHOW_PERCENT},
    {"dedupratio", SHOW_RATIO},
    {"bcloneratio", SHOW_RATIO},
    {"asize", SHOW_BYTES},
    {"psize", SHOW_BYTES},
    {"bootsize", SHOW_BYTES_DASH},
    {"read_bytes", SHOW_BYTES},
    {"write_bytes", SHOW_BYTES},
    {"null_bytes", SHOW_BYTES},
    {"free_bytes", SHOW_BYTES},
    {"claim_bytes", SHOW_BYTES},
    {"trim_bytes", SHOW_BYTES},
    {"usable", SHOW_BYTES},
    {"used", SHOW_BYTES},
    {"available", SHOW_BYTES},
};

char *zpool_value_show(const char *name, const struct zpool_value *v, bool parsable)
{
	char text[SIZE_TEXT];

	if (!v->exact)
		return xstrdup("-");
	if (parsable)
		return xstrdup(v->exact);
	if (strncmp(name, "class_", 6) == 0) /* class_normal_size is shown as size is */
		name = strrchr(name, '_') + 1;
	for (size_t i = 0; i < ARRAY_LEN(value_shows); i++) {
		if (strcmp(value_shows[i].name, name) || v->exact[0] < '0' || v->exact[0] > '9')
			continue;
		if (value_shows[i].show == SHOW_PERCENT)
			return xasprintf("%s%%", v->exact);
		if (value_shows[i].show == SHOW_RATIO)
			return xasprintf("%sx", v->exact);
		if (value_shows[i].show == SHOW_BYTES_DASH && strcmp(v->exact, "0") == 0)
			return xstrdup("-");
		size_print(strtoull(v->exact, NULL, 10), true, text);
		return xstrdup(text);
	}
	return xstrdup(v->exact);
}

void zpool_time_print(char kind)
{
	time_t now = time(NULL);
	char text[64];
	struct tm tm;

	if (kind == 'u')
		printf("%lld\n", (long long)now);
	if (kind != 'd')
		return;
	localtime_r(&now, &tm);
	strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Z %Y", &tm);
	puts(text);
}

static bool is_number(const char *text)
{
	return text[0] && !text[strspn(text, "0123456789")];
}

void zpool_interval_parse(int *argc, char **argv, int first, unsigned *interval, unsigned *count)
{
	int numbers = 0;

	while (numbers < 2 && *argc - 1 - numbers >= first && is_number(argv[*argc - 1 - numbers]))
		numbers++;
	*interval = numbers ? (unsigned)strtoul(argv[*argc - numbers], NULL, 10) : 0;
	*count = numbers == 2 ? (unsigned)strtoul(argv[*argc - 1], NULL, 10) : 0;
	*argc -= numbers;
}

bool zpool_interval_next(unsigned interval, unsigned *count, bool blank_line)
{
	if (!interval || *count == 1 || cli_interrupted)
		return false;
	if (*count)
		--*count;
	fflush(stdout);
	sleep(interval);
	if (blank_line)
		putchar('\n');
	return !cli_interrupted;
}
