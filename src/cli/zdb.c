#include "cli/zdb.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"

#define ZDB_ARC_MAX (256u << 20)

static const char usage_text[] =
    "usage: zdb [-bcCdDhimSuy]... [-AeFkLPXv] [-p DIR|DEVICE]... [-t TXG] POOL[/DATASET[@SNAPSHOT]] [OBJECT|RANGE]...\n"
    "       zdb -l [-lqu]... DEVICE...\n"
    "       zdb -R [-p DIR|DEVICE]... POOL VDEV:OFFSET:SIZE[:FLAGS]...\n"
    "\n"
    "Looks inside a pool's devices, whoever else uses them, and writes nothing. POOL is a name, a guid, or the path\n"
    "of a device or directory that holds one pool.\n"
    "\n"
    "  -b  count the blocks, check the space maps; -bb by type and size, -bbb by level and -bbbb more\n"
    "  -c  read metadata blocks and verify them, -cc all blocks\n"
    "  -C  configuration           -u  newest uberblock          -l  labels of devices (-ll -lll more, -u, -q)\n"
    "  -d  data sets; -dd objects, -dddd contents, -ddddd block pointers; with OBJECT numbers only these\n"
    "  -D  deduplication tables    -S  what deduplication would save\n"
    "  -h  history                 -i  intent logs               -m  metaslabs          -y  check of space maps\n"
    "  -R  bytes from a device; flags r raw, d decompress, b block pointers, i indirect block, g gang header,\n"
    "      c checksums, e other byte order\n"
    "  -e  is implied; -p where to look for devices; -t open at an older TXG; -F -X fall back to older uberblocks;\n"
    "  -k  the checkpointed state; -L no leak check; -P exact numbers; -v more of everything\n"
    "  -A  is taken and changes nothing: damage is reported and passed over in any case\n"
    "\n"
    "With no option: -u, -C and -d. Exit status: 0 success, 1 an error, 2 wrong usage, 3 leaks or unreadable blocks.\n";

static int usage(const char *fmt, ...)
{
	va_list ap;

	if (fmt) {
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
		fputc('\n', stderr);
	}
	fputs(usage_text, stderr);
	return CLI_USAGE;
}

const char *zdb_number(const struct zdb *z, uint64_t n, char out[SIZE_TEXT])
{
	if (zdb_has(z, 'P'))
		snprintf(out, SIZE_TEXT, "%" PRIu64, n);
	else
		size_print(n, false, out);
	return out;
}

const char *zdb_date(uint64_t seconds, char out[64])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!localtime_r(&t, &tm) || strftime(out, 64, "%a %b %e %H:%M:%S %Y", &tm) == 0)
		snprintf(out, 64, "%" PRIu64, seconds);
	return out;
}

void zdb_warn(struct zdb *z, const char *fmt, ...)
{
	va_list ap;

	fputs("zdb: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	z->rc = MAX(z->rc, CLI_ERROR);
}

/* ---- finding the pool ---- */

struct target {
	char *pool;       /* name or guid; NULL: the only pool found */
	const char *path; /* device or directory given in the pool's place */
	uint64_t by_guid; /* of the pool on that device */
	const char *rest;
};

/* A path is taken as far as there is something: "/disks/tank.img/fs@snap". */
static bool path_split(struct target *t, char *word)
{
	struct stat st;

	for (char *end = word + strlen(word); end > word; end--) {
		char kept = *end;

		if (kept && kept != '/' && kept != '@')
			continue;
		*end = '\0';
		if (stat(word, &st) == 0 && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode))) {
			t->path = xstrdup(word);
			*end = kept;
			t->rest = end;
			return true;
		}
		*end = kept;
	}
	return false;
}

static bool target_parse(struct target *t, char *word)
{
	size_t n = strcspn(word, "/@");

	if (word[0] == '/' || word[0] == '.')
		return path_split(t, word);
	t->pool = xstrdup(word);
	t->pool[n] = '\0';
	t->rest = word + n;
	return n > 0;
}

struct pools {
	struct nvlist **config;
	size_t n;
};

static void pools_free(struct pools *p)
{
	for (size_t i = 0; i < p->n; i++)
		nvlist_destroy(p->config[i]);
	free(p->config);
	*p = (struct pools){NULL, 0};
}

static int pools_find(const char *const *paths, size_t n, bool destroyed, struct pools *out, struct err *e)
{
	struct spa_search s = {.paths = paths, .npaths = n, .destroyed = destroyed};

	return spa_search(&s, &out->config, &out->n, e);
}

static struct nvlist *pool_pick(struct zdb *z, const struct target *t, const struct pools *found)
{
	struct nvlist *match = NULL;
	size_t matches = 0;

	for (size_t i = 0; i < found->n; i++) {
		struct nvlist *c = found->config[i];
		autofree char *guid = xasprintf("%" PRIu64, nvlist_u64_or(c, "pool_guid", 0));
		bool same = !t->pool
				? !t->by_guid || t->by_guid == nvlist_u64_or(c, "pool_guid", 0)
				: strcmp(nvlist_string_or(c, "name", ""), t->pool) == 0 || strcmp(guid, t->pool) == 0;

		if (!same)
			continue;
		match = c;
		matches++;
	}
	if (matches <= 1)
		return match;
	zdb_warn(z, "more than one pool matches '%s': name it by its guid", t->pool ? t->pool : t->path);
	for (size_t i = 0; i < found->n; i++)
		fprintf(stderr, "  %" PRIu64 " %s\n", nvlist_u64_or(found->config[i], "pool_guid", 0),
			nvlist_string_or(found->config[i], "name", "?"));
	return NULL;
}

/* A device's pool may have other devices beside it: look there too. */
static int target_dirs(struct zdb *z, struct target *t, struct err *e)
{
	struct stat st;
	struct pools found = {NULL, 0};
	int err;

	z->dirs = xrealloc(z->dirs, (z->ndirs + 2) * sizeof(*z->dirs));
	z->dirs[z->ndirs++] = t->path;
	if (stat(t->path, &st) || S_ISDIR(st.st_mode))
		return 0;
	err = pools_find(&t->path, 1, false, &found, e);
	if (!err && found.n == 0)
		err = pools_find(&t->path, 1, true, &found, e);
	if (!err && found.n == 1) {
		char *dir = xstrdup(t->path), *slash = strrchr(dir, '/');

		t->by_guid = nvlist_u64_or(found.config[0], "pool_guid", 0);
		if (slash)
			slash[slash == dir] = '\0';
		z->dirs[z->ndirs++] = slash ? dir : ".";
	}
	pools_free(&found);
	return err;
}

static int pool_import(struct zdb *z, struct nvlist *config, struct err *e)
{
	struct spa_import args = {
	    .config = config,
	    .force = true,
	    .missing_log = true,
	    .rewind = zdb_has(z, 'F') || zdb_has(z, 'X'),
	    .extreme = zdb_has(z, 'X'),
	    .txg = z->txg,
	    .rewind_checkpoint = zdb_has(z, 'k'),
	    .arc = z->arc,
	};

	return spa_import(&args, &z->spa, e);
}

static int pool_open(struct zdb *z, struct target *t, struct err *e)
{
	struct pools found = {NULL, 0};
	struct nvlist *config = NULL;
	int err = t->path ? target_dirs(z, t, e) : 0;

	for (int destroyed = 0; !err && !config && destroyed < 2 && z->rc == 0; destroyed++) {
		pools_free(&found);
		err = pools_find(z->dirs, z->ndirs, destroyed, &found, e);
		if (!err)
			config = pool_pick(z, t, &found);
	}
	if (!err && config) {
		z->arc = arc_create(ZDB_ARC_MAX);
		err = pool_import(z, config, e);
	} else if (!err && z->rc == 0) {
		err = err_set(e, -ENOENT, "no such pool among the devices that were searched%s",
			      z->ndirs ? "" : " (/dev): -p DIR says where else to look");
	}
	pools_free(&found);
	if (err)
		err_prefix(e, err, "can't open '%s'", t->pool ? t->pool : t->path);
	return err;
}

/* ---- history ---- */

struct history {
	struct zdb *z;
	bool all;
};

static int history_line(void *arg, const struct nvlist *record)
{
	struct history *h = arg;
	const char *cmd;
	char date[64] = "?";
	time_t t = (time_t)nvlist_u64_or(record, "history time", 0);
	struct tm tm;
	struct str text = {NULL, 0, 0};

	if (nvlist_string(record, "history command", &cmd) == 0) {
		if (localtime_r(&t, &tm))
			strftime(date, sizeof(date), "%F.%T", &tm);
		printf("%s %s\n", date, cmd);
		if (!h->all)
			return 0;
	} else if (!h->all) {
		return 0;
	}
	nvlist_print(record, 2, &text);
	fputs(str_get(&text), stdout);
	str_free(&text);
	return 0;
}

static void history_print(struct zdb *z)
{
	struct history h = {z, zdb_level(z, 'h') > 1 || zdb_has(z, 'v')};
	int err;

	puts("\nHistory:");
	err = spa_history_each(z->spa, history_line, &h);
	if (err)
		zdb_warn(z, "history: %s", err_words(err));
}

/* ---- the command ---- */

static bool only_labels(const struct zdb *z)
{
	return zdb_has(z, 'l');
}

static void notes_print(const struct zdb *z)
{
	const char *const *note;
	size_t n;

	if (nvlist_strings(z->spa->load_info, "notes", &note, &n))
		return;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "zdb: note: %s\n", note[i]);
}

static void pool_dump(struct zdb *z)
{
	notes_print(z);
	if (zdb_has(z, 'C'))
		zdb_config(z);
	if (zdb_has(z, 'u')) {
		puts("\nUberblock:");
		zdb_uberblock(z, &z->spa->uberblock, zdb_level(z, 'u'));
		putchar('\n');
	}
	if (zdb_has(z, 'D'))
		zdb_ddt(z);
	if (zdb_has(z, 'm'))
		zdb_metaslabs(z);
	if (zdb_has(z, 'y'))
		zdb_space_check(z);
	if (zdb_has(z, 'd') || zdb_has(z, 'i'))
		zdb_datasets(z);
	if (zdb_has(z, 'b') || zdb_has(z, 'c'))
		zdb_blocks(z);
	if (zdb_has(z, 'S'))
		zdb_simulate(z);
	if (zdb_has(z, 'h'))
		history_print(z);
}

static bool options_take(struct zdb *z, int argc, char **argv)
{
	static const char flags[] = "AbcCdDeFhiklLmPqRSuvXy";
	int opt;

	while ((opt = getopt(argc, argv,
			     "+AbcCdDeFhikl"
			     "LmPp:qRSt:uvXy")) != -1) {
		if (opt == 'p') {
			z->dirs = xrealloc(z->dirs, (z->ndirs + 1) * sizeof(*z->dirs));
			z->dirs[z->ndirs++] = optarg;
		} else if (opt == 't') {
			char *end;

			z->txg = strtoull(optarg, &end, 0);
			if (*end || z->txg == 0)
				return false;
		} else if (strchr(flags, opt)) {
			z->opt[opt]++;
		} else {
			return false;
		}
	}
	return true;
}

static void options_default(struct zdb *z)
{
	static const char what[] = "bcCdDhimRSuy";

	for (const char *w = what; *w; w++) {
		if (!z->opt[(unsigned char)*w])
			continue;
		if (zdb_has(z, 'v') && *w != 'c' && *w != 'R')
			z->opt[(unsigned char)*w] += z->opt['v'];
		z->opt['*']++;
	}
	if (!z->opt['*'])
		z->opt['C'] = z->opt['u'] = z->opt['d'] = 1 + z->opt['v'];
}

static int labels_run(struct zdb *z, int argc, char **argv)
{
	int rc = CLI_OK;

	if (argc == 0)
		return usage("a device is needed");
	for (int i = 0; i < argc; i++) {
		int one = zdb_labels(z, argv[i]);

		rc = MAX(rc, one);
	}
	return rc;
}

static int pool_run(struct zdb *z, int argc, char **argv)
{
	struct target t = {NULL, NULL, 0, ""};
	struct err e = ERR_INIT;

	if (argc == 0)
		return usage("a pool is needed");
	if (zdb_has(z, 'R') && argc < 2)
		return usage("-R needs VDEV:OFFSET:SIZE[:FLAGS]");
	if (!target_parse(&t, argv[0]))
		return usage("'%s' is neither a pool nor a path", argv[0]);
	z->dataset = t.rest;
	z->objects = argv + 1;
	z->nobjects = argc - 1;
	if (pool_open(z, &t, &e)) {
		zdb_warn(z, "%s", e.text);
	} else if (z->spa) {
		if (zdb_has(z, 'R'))
			zdb_raw(z, argv + 1, argc - 1);
		else
			pool_dump(z);
		if (spa_export(z->spa, &e))
			zdb_warn(z, "%s", e.text);
	}
	if (z->arc)
		arc_destroy(z->arc);
	free(t.pool);
	return z->rc;
}

int cli_zdb(int argc, char **argv)
{
	struct zdb z = {.dataset = ""};
	int rc;

	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		fputs(usage_text, stdout);
		return CLI_OK;
	}
	if (!options_take(&z, argc, argv))
		return usage(NULL);
	argc -= optind;
	argv += optind;
	if (only_labels(&z)) {
		rc = labels_run(&z, argc, argv);
	} else {
		options_default(&z);
		rc = pool_run(&z, argc, argv);
	}
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "zdb: cannot write the output: %s\n", strerror(errno));
		rc = MAX(rc, CLI_ERROR);
	}
	free(z.dirs);
	return rc;
}
