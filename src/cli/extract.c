/*
 * cli/extract.c: `tarn extract`: options, the pools and data sets named, the destination.
 */
#include "cli/extract.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/log.h"

#define EXTRACT_CACHE (128u << 20)

/* ---- messages ---- */

char *extract_name_show(const char *name)
{
	struct str s = {0};

	for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
		if (*p < 0x20 || *p == 0x7f || *p == '\\')
			str_addf(&s, "\\%03o", *p);
		else
			str_add_bytes(&s, p, 1);
	}
	return s.s ? s.s : xstrdup("");
}

static void tell(struct extract *x, bool failure, const char *label, const char *fmt, va_list ap)
{
	SCOPED_LOCK(&x->lock);
	fprintf(stderr, "%s: ", label);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	x->failures += failure;
}

void extract_failed(struct extract *x, const char *label, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(x, true, label, fmt, ap);
	va_end(ap);
}

void extract_note(struct extract *x, const char *label, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(x, false, label, fmt, ap);
	va_end(ap);
}

/* ---- the pool ---- */

static bool is_wanted(const struct nvlist *config, const char *word)
{
	char guid[24];

	snprintf(guid, sizeof(guid), "%llu", (unsigned long long)nvlist_u64_or(config, "pool_guid", 0));
	return strcmp(nvlist_string_or(config, "name", ""), word) == 0 || strcmp(guid, word) == 0;
}

static int pool_pick(struct nvlist **found, size_t n, const char *word, struct nvlist **config, struct err *e)
{
	size_t hits = 0;

	for (size_t i = 0; i < n; i++)
		if (is_wanted(found[i], word)) {
			*config = found[i];
			hits++;
		}
	if (hits == 1)
		return 0;
	if (hits == 0)
		return e->text[0] ? err_prefix(e, -ENOENT, "no such pool among the devices")
				  : err_set(e, -ENOENT, "no such pool among the devices");
	err_set(e, -EEXIST, "more than one pool has this name");
	for (size_t i = 0; i < n; i++)
		if (is_wanted(found[i], word))
			err_hint(e, "name it by its number: %llu",
				 (unsigned long long)nvlist_u64_or(found[i], "pool_guid", 0));
	return -EEXIST;
}

static void pool_notes_tell(const struct extract *x)
{
	const char *const *notes;
	size_t n;

	if (!x->spa->load_info || nvlist_strings(x->spa->load_info, "notes", &notes, &n))
		return;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "note: %s\n", notes[i]);
}

static int pool_import(struct extract *x, struct nvlist *config, struct err *e)
{
	struct spa_import args = {
	    .config = config,
	    .force = true,
	    .missing_log = true, /* what the log lacks cannot be had anyway */
	    .rewind = x->o.rewind || x->o.extreme,
	    .extreme = x->o.extreme,
	    .txg = x->o.txg,
	    .rewind_checkpoint = x->o.checkpoint,
	    .arc = x->arc,
	};
	int err = spa_import(&args, &x->spa, e);

	if (!err)
		pool_notes_tell(x);
	return err;
}

static int pool_open(struct extract *x, const char *word, struct err *e)
{
	struct spa_search search = {.paths = (const char *const *)x->o.paths,
				    .npaths = x->o.npaths,
				    .cachefile = x->o.cachefile,
				    .destroyed = x->o.destroyed};
	struct nvlist **found = NULL, *config = NULL;
	size_t n = 0;
	int err = spa_search(&search, &found, &n, e);

	if (!err)
		err = pool_pick(found, n, word, &config, e);
	if (!err)
		err = pool_import(x, config, e);
	for (size_t i = 0; i < n; i++)
		nvlist_destroy(found[i]);
	free(found);
	return err;
}

static void pool_close(struct extract *x)
{
	struct err e = ERR_INIT;

	if (x->spa)
		spa_export(x->spa, &e);
	x->spa = NULL;
}

/* ---- sources ---- */

struct source {
	char *name;       /* of the data set, under the pool's own name */
	const char *path; /* NULL: none was given */
	struct dsl_dataset *ds;
};

/* Names of data sets may have colons: the longest that exists is meant. */
static int source_hold(struct extract *x, struct source *s, struct err *e)
{
	int err = dsl_dataset_hold(x->spa->dsl, s->name, &s->ds, e);
	char *colon = s->name + strlen(s->name);

	while (err && (colon = memrchr(s->name, ':', (size_t)(colon - s->name)))) {
		*e = (struct err)ERR_INIT;
		*colon = 0;
		err = dsl_dataset_hold(x->spa->dsl, s->name, &s->ds, e);
		s->path = colon + 1;
		if (err)
			*colon = ':';
	}
	return err;
}

/* The pool's word in POOL/FS, POOL@SNAP, POOL:PATH. */
static size_t pool_word_len(const char *source)
{
	return strcspn(source, "/@:");
}

/* Leaves the pool open that is open already when it is the one. *opened: the word it was opened by. */
static int source_open(struct extract *x, const char *word, char **opened, struct source *s, struct err *e)
{
	size_t n = pool_word_len(word);
	int err = 0;

	*s = (struct source){NULL, NULL, NULL};
	if (!*opened || strlen(*opened) != n || strncmp(*opened, word, n) != 0) {
		pool_close(x);
		free(*opened);
		*opened = strndup(word, n);
		err = pool_open(x, *opened, e);
	}
	if (err) {
		free(*opened);
		*opened = NULL;
		return err;
	}
	s->name = xasprintf("%s%s", x->spa->name, word + n);
	return source_hold(x, s, e);
}

static void source_close(struct source *s)
{
	if (s->ds)
		dsl_dataset_release(s->ds);
	free(s->name);
}

/* What it is called at a destination that is a directory. malloc'd. */
static char *source_base(const struct source *s)
{
	const char *from = s->path && s->path[strspn(s->path, "/")] ? s->path : s->ds->name;
	size_t end = strlen(from), start;

	while (end && from[end - 1] == '/')
		end--;
	for (start = end; start && from[start - 1] != '/'; start--)
		;
	return strndup(from + start, end - start);
}

static bool source_is_tree(struct source *s)
{
	struct err e = ERR_INIT;
	unsigned type = 0;

	return !(s->path && s->path[strspn(s->path, "/")]) && dsl_dataset_type(s->ds, &type) == 0 &&
	       (type & DSL_FILESYSTEM) && e.code == 0;
}

/* ---- the destination ---- */

struct dest {
	const char *text;
	bool many;    /* several sources: it is a directory */
	int stream;   /* -1, or what all bytes go to */
	bool device;  /* stream is a block device */
	bool isdir;   /* exists and is a directory */
	bool isempty; /* and nothing is in it */
};

static bool dir_is_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *de;
	unsigned n = 0;

	while (d && n < 3 && (de = readdir(d)))
		n++;
	if (d)
		closedir(d);
	return n < 3;
}

static int dest_stream_open(struct extract *x, struct dest *d, const struct stat *st)
{
	d->device = S_ISBLK(st->st_mode);
	if (d->device && !x->o.force) {
		fprintf(stderr, "%s is a device: -f overwrites it\n", d->text);
		return CLI_ERROR;
	}
	d->stream = open(d->text, O_WRONLY | O_CLOEXEC | (d->device ? O_EXCL : 0));
	if (d->stream >= 0)
		return 0;
	fprintf(stderr, "cannot write to %s: %s\n", d->text, strerror(errno));
	return CLI_ERROR;
}

static int dest_open(struct extract *x, struct dest *d)
{
	struct stat st;

	d->stream = -1;
	if (strcmp(d->text, "-") == 0) {
		d->stream = STDOUT_FILENO;
		x->to_stdout = true;
	} else if (stat(d->text, &st) == 0) {
		d->isdir = S_ISDIR(st.st_mode);
		d->isempty = d->isdir && dir_is_empty(d->text);
		if (!d->isdir && !S_ISREG(st.st_mode) && dest_stream_open(x, d, &st))
			return CLI_ERROR;
	}
	if (d->stream >= 0 && (d->many || x->o.recursive)) {
		fprintf(stderr, "%s takes one file or volume only\n", d->text);
		return CLI_ERROR;
	}
	if (d->many && !d->isdir && mkdir(d->text, 0777)) {
		fprintf(stderr, "cannot make %s: %s\n", d->text, strerror(errno));
		return CLI_ERROR;
	}
	d->isdir |= d->many;
	return 0;
}

/* Splits the destination of one source into an open directory and a name in it. */
static int dest_target(struct extract *x, const struct dest *d, struct source *s, struct extract_target *to,
		       char **name)
{
	autofree char *text = xstrdup(d->text), *dir = NULL;
	bool into = d->isdir && (d->many || !source_is_tree(s));
	size_t n = strlen(text);
	char *slash;

	while (n > 1 && text[n - 1] == '/')
		text[--n] = 0;
	slash = strrchr(text, '/');
	if (into) {
		*name = source_base(s);
		dir = xstrdup(text);
	} else {
		*name = xstrdup(slash ? slash + 1 : text);
		dir = slash ? strndup(text, MAX((size_t)(slash - text), 1)) : xstrdup(".");
	}
	to->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	to->name = *name;
	to->fd = -1;
	to->merge = !into && d->isempty;
	if (to->dirfd >= 0)
		return 0;
	extract_failed(x, dir, "%s", strerror(errno));
	return -errno;
}

static void source_extract(struct extract *x, const struct dest *d, struct source *s)
{
	struct extract_target to = {-1, NULL, d->stream, d->device ? SINK_DEVICE : SINK_STREAM, false};
	autofree char *name = NULL;

	if (d->stream < 0 && !x->o.dry) {
		to.sink = SINK_FILE;
		if (dest_target(x, d, s, &to, &name))
			return;
	}
	extract_dataset(x, s->ds, s->path, &to);
	if (to.dirfd >= 0)
		close(to.dirfd);
}

/* ---- running ---- */

static int totals_tell(struct extract *x)
{
	if (x->lost_files)
		fprintf(stderr, "%llu file(s) or volume(s) have lost %llu bytes: zeros stand in their place\n",
			(unsigned long long)x->lost_files, (unsigned long long)x->lost_bytes);
	return x->failures || x->lost_files ? CLI_ERROR : CLI_OK;
}

static void limits_raise(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

static void sources_extract(struct extract *x, struct dest *d, char **words, int n)
{
	autofree char *opened = NULL;

	for (int i = 0; i < n && !pump_is_dead(x->pump); i++) {
		struct err e = ERR_INIT;
		struct source s;

		if (source_open(x, words[i], &opened, &s, &e))
			extract_failed(x, words[i], "%s", e.text);
		else if (x->o.recursive && s.path)
			extract_failed(x, words[i], "-r goes with whole file systems");
		else
			source_extract(x, d, &s);
		source_close(&s);
	}
	pool_close(x);
}

static int extract_run(struct extract *x, char **words, int n)
{
	struct dest d = {.text = words[n - 1], .many = n > 2, .stream = -1};

	if (!x->o.dry && dest_open(x, &d))
		return CLI_ERROR;
	signal(SIGPIPE, SIG_IGN);
	limits_raise();
	umask(0);
	pthread_mutex_init(&x->lock, NULL);
	x->arc = arc_create(EXTRACT_CACHE);
	x->pump = pump_create();
	if (!x->pump)
		extract_failed(x, "extract", "cannot start a thread");
	else
		sources_extract(x, &d, words, x->o.dry && n == 1 ? 1 : n - 1);
	pump_destroy(x->pump);
	arc_destroy(x->arc);
	if (d.stream > STDERR_FILENO && close(d.stream))
		extract_failed(x, d.text, "cannot be written: %s", strerror(errno));
	return totals_tell(x);
}

/* ---- options ---- */

static int option_take(struct extract_options *o, int opt)
{
	char *end;

	switch (opt) {
	case 'd':
		o->paths = xrealloc(o->paths, (o->npaths + 1) * sizeof(char *));
		o->paths[o->npaths++] = optarg;
		return 0;
	case 'c':
		o->cachefile = optarg;
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
	case 'X':
		o->extreme = true;
		return 0;
	case 'L':
		o->key_location = optarg;
		return 0;
	case 'n':
		o->dry = true;
		return 0;
	case 'r':
		o->recursive = true;
		return 0;
	case 'T':
		o->txg = strtoull(optarg, &end, 0);
		return *end || !o->txg ? CLI_USAGE : 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 'C':
		o->checkpoint = true;
		return 0;
	case 'O':
		o->no_owner = true;
		return 0;
	case 'A':
		o->no_xattrs = true;
		return 0;
	default:
		return CLI_USAGE;
	}
}

static int usage_print(const char *fault)
{
	if (fault)
		fprintf(stderr, "%s\n", fault);
	fputs("usage: tarn extract [-DfFnrvX] [-c CACHEFILE | -d DIR|DEVICE]... [-L KEYLOCATION] [-T TXG]\n"
	      "                    [--rewind-to-checkpoint] [--no-owner] [--no-xattrs]\n"
	      "                    POOL/FS[@SNAP][:PATH]... DEST\n",
	      stderr);
	return CLI_USAGE;
}

int cli_extract(int argc, char **argv)
{
	static const struct option longs[] = {{"rewind-to-checkpoint", no_argument, NULL, 'C'},
					      {"no-owner", no_argument, NULL, 'O'},
					      {"no-xattrs", no_argument, NULL, 'A'},
					      {NULL, 0, NULL, 0}};
	struct extract x = {.o = {.paths = NULL}};
	int opt, err = 0;

	while (!err && (opt = getopt_long(argc, argv, "+c:d:DfFL:nrT:vX", longs, NULL)) != -1)
		err = option_take(&x.o, opt);
	if (!err && x.o.npaths && x.o.cachefile)
		err = usage_print("-c is incompatible with -d");
	else if (!err && argc - optind < (x.o.dry ? 1 : 2))
		err = usage_print("missing source or destination");
	else if (err)
		err = usage_print(NULL);
	if (!err)
		err = extract_run(&x, argv + optind, argc - optind);
	free(x.o.paths);
	return err;
}
