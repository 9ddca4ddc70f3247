/*
 * zpool iostat (docs/format/09-cli.md 9.8): what the devices were asked for. The first report is the average since the
 * import, each later one that of the interval before it.
 */
#include "cli/zpool.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

struct iostat_options {
	struct zpool_style style;
	bool scripted, verbose, header_once, skip_first;
	char time_kind;
	unsigned interval, count;
	char **names;
	size_t nnames;
	const char *pool; /* of POOL VDEV...; else NULL */
};

struct iorow {
	char *name;
	unsigned depth;
	bool heading, space, pool;
	uint64_t guid, alloc, free, ops[2], bytes[2]; /* reads, writes */
};

struct iorows {
	struct iorow *row;
	size_t n;
	double when; /* seconds on the monotonic clock */
};

static double now_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- collecting ---- */

static struct iorow *iorow_add(struct iorows *r, char *name, unsigned depth)
{
	r->row = xrealloc(r->row, (r->n + 1) * sizeof(struct iorow));
	r->row[r->n] = (struct iorow){.name = name, .depth = depth};
	return &r->row[r->n++];
}

static void iorows_free(struct iorows *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->row[i].name);
	free(r->row);
	*r = (struct iorows){NULL, 0, 0};
}

/* Only the devices named, where some are. */
static bool is_wanted(const struct iostat_options *o, const struct nvlist *row, const char *name)
{
	char guid[24];

	if (!o->pool)
		return true;
	snprintf(guid, sizeof(guid), "%" PRIu64, nvlist_u64_or(row, "guid", 0));
	for (size_t i = 1; i < o->nnames; i++)
		if (strcmp(o->names[i], name) == 0 || strcmp(o->names[i], guid) == 0 ||
		    strcmp(o->names[i], nvlist_string_or(row, "name", "")) == 0 ||
		    strcmp(o->names[i], nvlist_string_or(row, "path", "")) == 0)
			return true;
	return false;
}

static void requests_add(struct iorow *io, const struct nvlist *row)
{
	io->ops[0] += nvlist_u64_or(row, "read_ops", 0);
	io->ops[1] += nvlist_u64_or(row, "write_ops", 0);
	io->bytes[0] += nvlist_u64_or(row, "read_bytes", 0);
	io->bytes[1] += nvlist_u64_or(row, "write_bytes", 0);
}

static void vdevs_collect(const struct iostat_options *o, struct iorows *r, const struct nvlist *vdevs, unsigned depth)
{
	for (const struct nvpair *p = nvlist_first(vdevs); p; p = nvlist_next(vdevs, p)) {
		const struct nvlist *row = nvpair_list(p, 0);
		autofree char *name = zpool_row_name(row, nvpair_name(p), &o->style);
		struct nvlist *children;

		if (is_wanted(o, row, name)) {
			struct iorow *io = iorow_add(r, xstrdup(name), o->pool ? 0 : depth);

			io->guid = nvlist_u64_or(row, "guid", 0);
			io->space = nvlist_exists(row, "alloc_space");
			io->alloc = nvlist_u64_or(row, "alloc_space", 0);
			io->free = nvlist_u64_or(row, "total_space", 0) - io->alloc;
			requests_add(io, row);
		}
		if (nvlist_list(row, "vdevs", &children) == 0)
			vdevs_collect(o, r, children, depth + 1);
	}
}

/* What the top-levels were asked for is what the pool was. */
static void pool_sum(const struct nvlist *pool, struct iorow *io)
{
	static const char *const lists[] = {"dedup", "special", "logs"};
	struct nvlist *vdevs, *tops[ARRAY_LEN(lists) + 1] = {NULL};

	if (nvlist_list(pool, "vdevs", &vdevs) == 0 && nvlist_len(vdevs))
		nvlist_list(nvpair_list(nvlist_first(vdevs), 0), "vdevs", &tops[0]);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		nvlist_list(pool, lists[i], &tops[i + 1]);
	for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
		for (const struct nvpair *p = tops[i] ? nvlist_first(tops[i]) : NULL; p; p = nvlist_next(tops[i], p))
			requests_add(io, nvpair_list(p, 0));
	}
}

static void pool_row_collect(struct iorows *r, const struct nvlist *pool)
{
	struct iorow *io = iorow_add(r, xstrdup(nvlist_string_or(pool, "name", "?")), 0);
	struct nvlist *props;

	io->pool = io->space = true;
	io->guid = nvlist_u64_or(pool, "pool_guid", 0);
	if (nvlist_list(pool, "props", &props) == 0) {
		io->alloc = zpool_value_of(props, "allocated").number;
		io->free = zpool_value_of(props, "free").number;
	}
	pool_sum(pool, io);
}

static void pool_collect(const struct iostat_options *o, struct iorows *r, const struct nvlist *pool)
{
	static const char *const classes[][2] = {{"dedup", "dedup"}, {"special", "special"}, {"logs", "logs"}};
	struct nvlist *vdevs, *tops;

	if (!o->pool)
		pool_row_collect(r, pool);
	if (!o->verbose && !o->pool)
		return;
	if (nvlist_list(pool, "vdevs", &vdevs) == 0 && nvlist_len(vdevs) &&
	    nvlist_list(nvpair_list(nvlist_first(vdevs), 0), "vdevs", &tops) == 0)
		vdevs_collect(o, r, tops, 1);
	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		if (nvlist_list(pool, classes[i][0], &vdevs) || !nvlist_len(vdevs))
			continue;
		if (!o->pool)
			iorow_add(r, xstrdup(classes[i][1]), 0)->heading = true;
		vdevs_collect(o, r, vdevs, 1);
	}
}

/* ---- printing ---- */

static void cell_print(const struct iostat_options *o, uint64_t v)
{
	char text[SIZE_TEXT];

	size_print(v, false, text);
	if (o->style.parsable)
		snprintf(text, sizeof(text), "%" PRIu64, v);
	if (o->scripted)
		printf("\t%s", text);
	else
		printf("  %*s", o->style.parsable ? 15 : 5, text);
}

static void dash_print(const struct iostat_options *o)
{
	const char *dash = o->style.parsable ? "0" : "-";

	if (o->scripted)
		printf("\t%s", dash);
	else
		printf("  %*s", o->style.parsable ? 15 : 5, dash);
}

static void dashes_print(const struct iostat_options *o, size_t width)
{
	for (size_t i = 0; i < width; i++)
		putchar('-');
	for (unsigned i = 0; i < 6; i++)
		printf("  %.*s", o->style.parsable ? 15 : 5, "---------------");
	putchar('\n');
}

static void header_print(const struct iostat_options *o, size_t width)
{
	static const char *const groups[] = {"capacity", "operations", "bandwidth"}, *const columns[] = {
											 "alloc", "free", "read",
											 "write", "read", "write"};
	int cell = o->style.parsable ? 15 : 5, both = 2 * cell + 2;

	printf("%*s", (int)width, "");
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		int len = (int)strlen(groups[i]), left = (both - len + 1) / 2;

		printf("  %*s%s%*s", left, "", groups[i], both - len - left, "");
	}
	printf("\n%-*s", (int)width, o->pool ? "vdev" : "pool");
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		printf("  %*s", cell, columns[i]);
	putchar('\n');
	dashes_print(o, width);
}

static const struct iorow *row_before(const struct iorows *before, const struct iorow *row)
{
	for (size_t i = 0; i < before->n; i++)
		if (!before->row[i].heading && before->row[i].guid == row->guid)
			return &before->row[i];
	return NULL;
}

static void rate_print(const struct iostat_options *o, uint64_t now, uint64_t before, double seconds)
{
	cell_print(o, (uint64_t)((double)(now - before) / seconds));
}

static void row_print(const struct iostat_options *o, const struct iorow *row, const struct iorow *before,
		      double seconds, size_t width)
{
	if (o->scripted)
		printf("%s", row->name);
	else
		printf("%*s%-*s", (int)(2 * row->depth), "", (int)(width - 2 * row->depth), row->name);
	for (unsigned i = 0; row->heading && i < 6; i++)
		dash_print(o);
	if (!row->heading && row->space) {
		cell_print(o, row->alloc);
		cell_print(o, row->free);
	} else if (!row->heading) {
		dash_print(o);
		dash_print(o);
	}
	for (unsigned i = 0; i < 2 && !row->heading; i++)
		rate_print(o, row->ops[i], before ? before->ops[i] : 0, seconds);
	for (unsigned i = 0; i < 2 && !row->heading; i++)
		rate_print(o, row->bytes[i], before ? before->bytes[i] : 0, seconds);
	putchar('\n');
}

/* age: seconds since the import, for the first report. */
static void report_print(const struct iostat_options *o, const struct iorows *r, const struct iorows *before,
			 double age, bool header)
{
	size_t width = 10, pools = 0;
	double seconds = before->n ? r->when - before->when : age;

	for (size_t i = 0; i < r->n; i++)
		width = MAX(width, strlen(r->row[i].name) + 2 * r->row[i].depth);
	if (header && !o->scripted)
		header_print(o, width);
	for (size_t i = 0; i < r->n; i++) {
		if (r->row[i].pool && pools++ && o->verbose && !o->scripted)
			dashes_print(o, width);
		row_print(o, &r->row[i], row_before(before, &r->row[i]), MAX(seconds, 0.001), width);
	}
	if (!o->scripted && (pools > 1 || o->verbose))
		dashes_print(o, width);
}

/* ---- reports ---- */

static int rows_get(const struct iostat_options *o, struct iorows *r, double *age)
{
	autonv struct nvlist *args = nvlist_create();
	struct cli_items pools;
	uint64_t since = UINT64_MAX, now = (uint64_t)time(NULL);
	int failed = zpool_ask_pools("pool.list", args, o->names, o->pool ? 1 : o->nnames, &pools);

	*r = (struct iorows){NULL, 0, now_seconds()};
	for (size_t i = 0; i < pools.n; i++) {
		pool_collect(o, r, pools.item[i]);
		since = MIN(since, nvlist_u64_or(pools.item[i], "import_time", now));
	}
	*age = now > since ? (double)(now - since) : 1;
	if (!failed && !pools.n)
		puts("no pools available");
	else if (!failed && !r->n) {
		fprintf(stderr, "cannot show '%s': no such device in pool '%s'\n", o->names[1], o->pool);
		failed = CLI_ERROR;
	}
	cli_items_free(&pools);
	return failed;
}

static int reports(struct iostat_options *o)
{
	struct iorows now, before = {NULL, 0, 0};
	bool first = true, shown = false;
	int failed;
	double age;

	for (;;) {
		failed = rows_get(o, &now, &age);
		if (failed || !now.n)
			break;
		if (!first || !o->skip_first) {
			zpool_time_print(o->time_kind);
			report_print(o, &now, &before, age, !shown || !o->header_once);
			shown = true;
		}
		iorows_free(&before);
		before = now;
		now = (struct iorows){NULL, 0, 0};
		if (first && o->skip_first) {
			fflush(stdout);
			sleep(o->interval);
			if (cli_interrupted)
				break;
		} else if (!zpool_interval_next(o->interval, &o->count, false)) {
			break;
		}
		first = false;
	}
	iorows_free(&now);
	iorows_free(&before);
	return failed;
}

static int option_take(struct iostat_options *o, int opt)
{
	switch (opt) {
	case 'g':
		o->style.guid = true;
		return 0;
	case 'L':
		o->style.follow = true;
		return 0;
	case 'P':
		o->style.path = true;
		return 0;
	case 'p':
		o->style.parsable = true;
		return 0;
	case 'H':
		o->scripted = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 'n':
		o->header_once = true;
		return 0;
	case 'y':
		o->skip_first = true;
		return 0;
	case 'T':
		o->time_kind = optarg[0];
		return (optarg[0] == 'd' || optarg[0] == 'u') && !optarg[1] ? 0 : CLI_USAGE;
	default:
		return CLI_USAGE;
	}
}

int zpool_iostat(int argc, char **argv)
{
	struct iostat_options o = {0};
	int opt;

	while ((opt = getopt(argc, argv, "gLPpHvnyT:")) != -1)
		if (option_take(&o, opt))
			return cli_usage("zpool", zpool_commands, "iostat",
					 opt == '?' && optopt && strchr("lqrwc", optopt)
					     ? "latencies, queues and scripts (-l -q -r -w -c) are not in this version"
					     : NULL);
	zpool_interval_parse(&argc, argv, optind, &o.interval, &o.count);
	o.names = argv + optind;
	o.nnames = (size_t)(argc - optind);
	if (o.skip_first && !o.interval)
		o.skip_first = false;
	if (o.nnames > 1 && !zpool_pool_exists(o.names[1]))
		o.pool = o.names[0];
	return reports(&o);
}
