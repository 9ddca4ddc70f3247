#include "cli/zpool.h"

#include <getopt.h>
#include <inttypes.h>
#include <unistd.h>

struct status_options {
	struct zpool_config_options config;
	bool verbose, unhealthy, dedup, json, json_flat, json_int, json_guid;
	char time_kind;
	char **names;
	size_t nnames;
	unsigned interval, count;
};

/* ---- scan ---- */

static void amounts_print(const struct nvlist *s, bool resilver)
{
	char total[SIZE_TEXT], seen[SIZE_TEXT], issued[SIZE_TEXT], done[SIZE_TEXT], left[SIZE_TEXT];
	uint64_t all = nvlist_u64_or(s, "to_examine", 0), skipped = nvlist_u64_or(s, "skipped", 0),
		 iss = nvlist_u64_or(s, "issued", 0);
	uint64_t rest = all > skipped ? all - skipped : 0;

	size_print(all, true, total);
	size_print(nvlist_u64_or(s, "examined", 0), true, seen);
	size_print(iss, true, issued);
	size_print(rest, true, left);
	size_print(nvlist_u64_or(s, "processed", 0), true, done);
	printf("\t%s / %s scanned, %s / %s issued\n", seen, total, issued, left);
	printf("\t%s %s, %.2f%% done, no estimated completion time\n", done, resilver ? "resilvered" : "repaired",
	       rest ? 100.0 * (double)iss / (double)rest : 100.0);
}

static void scan_finished_print(const struct nvlist *s, bool resilver)
{
	uint64_t start = nvlist_u64_or(s, "start_time", 0), end = nvlist_u64_or(s, "end_time", 0);
	autofree char *took = cli_duration_show(end > start ? end - start : 0), *date = cli_ctime_show(end);
	char amount[SIZE_TEXT];

	size_print(nvlist_u64_or(s, "processed", 0), true, amount);
	printf("%s %s in %s with %" PRIu64 " errors on %s\n",
	       resilver                          ? "resilvered"
	       : nvlist_u64_or(s, "thorough", 0) ? "thorough scrub repaired"
						 : "scrub repaired",
	       amount, took, nvlist_u64_or(s, "errors", 0), date);
}

static void scan_print(const struct nvlist *status)
{
	struct nvlist *s;
	const char *state;
	bool resilver;

	if (nvlist_list(status, "scan_stats", &s))
		return;
	state = nvlist_string_or(s, "state", "NONE");
	resilver = strcmp(nvlist_string_or(s, "function", ""), "RESILVER") == 0;
	if (strcmp(state, "NONE") == 0)
		return;
	printf("  scan: ");
	if (strcmp(state, "FINISHED") == 0) {
		scan_finished_print(s, resilver);
	} else if (strcmp(state, "CANCELED") == 0) {
		autofree char *date = cli_ctime_show(nvlist_u64_or(s, "end_time", 0));

		printf("%s canceled on %s\n", resilver ? "resilver" : "scrub", date);
	} else {
		uint64_t pause = nvlist_u64_or(s, "scrub_pause", 0), start = nvlist_u64_or(s, "start_time", 0);
		autofree char *since = cli_ctime_show(pause ? pause : start), *started = cli_ctime_show(start);

		printf("%s %s since %s\n", resilver ? "resilver" : "scrub", pause ? "paused" : "in progress", since);
		if (pause)
			printf("\tscrub started on %s\n", started);
		amounts_print(s, resilver);
	}
}

/* One line for each top-level that was rebuilt sequentially. */
static void rebuild_print(const char *name, const struct nvlist *r, bool first)
{
	uint64_t start = nvlist_u64_or(r, "start_time", 0), end = nvlist_u64_or(r, "end_time", 0);
	const char *state = nvlist_string_or(r, "state", "");
	autofree char *took = cli_duration_show(end > start ? end - start : 0), *started = cli_ctime_show(start),
		      *ended = cli_ctime_show(end);
	char amount[SIZE_TEXT], seen[SIZE_TEXT], all[SIZE_TEXT], issued[SIZE_TEXT];
	uint64_t total = nvlist_u64_or(r, "to_scan", 0), done = nvlist_u64_or(r, "issued", 0);

	size_print(nvlist_u64_or(r, "rebuilt", 0), true, amount);
	printf("%s", first ? "  scan: " : "\t");
	if (strcmp(state, "COMPLETE") == 0) {
		printf("resilvered (%s) %s in %s with %" PRIu64 " errors on %s\n", name, amount, took,
		       nvlist_u64_or(r, "errors", 0), ended);
	} else if (strcmp(state, "CANCELED") == 0) {
		printf("resilver (%s) canceled on %s\n", name, ended);
	} else {
		size_print(nvlist_u64_or(r, "scanned", 0), true, seen);
		size_print(total, true, all);
		size_print(done, true, issued);
		printf("resilver (%s) in progress since %s\n\t%s / %s scanned, %s / %s issued\n", name, started, seen,
		       all, issued, all);
		printf("\t%s resilvered, %.2f%% done, no estimated completion time\n", amount,
		       total ? 100.0 * (double)done / (double)total : 100.0);
	}
}

static void error_scrub_print(const struct nvlist *s)
{
	const char *state = nvlist_string_or(s, "err_scrub_state", "NONE");
	uint64_t start = nvlist_u64_or(s, "err_scrub_start_time", 0), end = nvlist_u64_or(s, "err_scrub_end_time", 0),
		 pause = nvlist_u64_or(s, "err_scrub_pause", 0), done = nvlist_u64_or(s, "err_scrub_examined", 0),
		 left = nvlist_u64_or(s, "err_scrub_to_examine", 0), took = end > start ? end - start : 0;
	autofree char *ended = cli_ctime_show(end), *since = cli_ctime_show(pause ? pause : start);

	if (strcmp(state, "NONE") == 0)
		return;
	printf(" scrub: ");
	if (strcmp(state, "FINISHED") == 0)
		printf("scrubbed %" PRIu64 " error blocks in %" PRIu64 " days %02" PRIu64 ":%02" PRIu64 ":%02" PRIu64
		       " on %s\n",
		       done, took / 86400, took / 3600 % 24, took / 60 % 60, took % 60, ended);
	else if (strcmp(state, "CANCELED") == 0)
		printf("error scrub canceled on %s\n", ended);
	else
		printf("error scrub %s since %s\n\t%.2f%% done, issued I/O for %" PRIu64 " error blocks\n",
		       pause ? "paused" : "in progress", since,
		       done + left ? 100.0 * (double)done / (double)(done + left) : 100.0, done);
}

static void scans_print(const struct nvlist *status)
{
	struct nvlist *s, *rebuilds;
	bool first = true;

	scan_print(status);
	if (nvlist_list(status, "scan_stats", &s))
		return;
	if (nvlist_list(s, "rebuild_stats", &rebuilds) == 0) {
		first = strcmp(nvlist_string_or(s, "state", "NONE"), "NONE") == 0;
		for (const struct nvpair *p = nvlist_first(rebuilds); p; p = nvlist_next(rebuilds, p)) {
			rebuild_print(nvpair_name(p), nvpair_list(p, 0), first);
			first = false;
		}
	}
	error_scrub_print(s);
}

/* ---- the rest above config ---- */

static void removal_print(const struct nvlist *status)
{
	struct nvlist *s;
	const char *state;
	char copied[SIZE_TEXT], memory[SIZE_TEXT];

	if (nvlist_list(status, "removal_stats", &s))
		return;
	state = nvlist_string_or(s, "removal_state", "");
	size_print(nvlist_u64_or(s, "copied", 0), true, copied);
	size_print(nvlist_u64_or(s, "mapping_memory", 0), false, memory);
	if (strcmp(state, "FINISHED") == 0) {
		uint64_t start = nvlist_u64_or(s, "start_time", 0), end = nvlist_u64_or(s, "end_time", 0);
		autofree char *took = cli_duration_show(end > start ? end - start : 0), *date = cli_ctime_show(end);

		printf("remove: Removal of vdev %" PRIu64 " copied %s in %s, completed on %s\n",
		       nvlist_u64_or(s, "removing_vdev", 0), copied, took, date);
	} else {
		autofree char *date = cli_ctime_show(nvlist_u64_or(s, "start_time", 0));

		printf("remove: Removal of vdev %" PRIu64 " %s, started on %s\n", nvlist_u64_or(s, "removing_vdev", 0),
		       strcmp(state, "CANCELED") == 0 ? "canceled" : "in progress", date);
	}
	if (nvlist_u64_or(s, "mapping_memory", 0))
		printf("\t%s memory used for removed device mappings\n", memory);
}

static void expansion_print(const struct nvlist *status)
{
	struct nvlist *s;
	char done[SIZE_TEXT], all[SIZE_TEXT];
	uint64_t start, end;

	if (nvlist_list(status, "raidz_expand_stats", &s))
		return;
	size_print(nvlist_u64_or(s, "reflowed", 0), true, done);
	size_print(nvlist_u64_or(s, "to_reflow", 0), true, all);
	start = nvlist_u64_or(s, "start_time", 0);
	end = nvlist_u64_or(s, "end_time", 0);
	if (end) {
		autofree char *took = cli_duration_show(end > start ? end - start : 0), *date = cli_ctime_show(end);

		printf("expand: expanded %s copied %s in %s, on %s\n", nvlist_string_or(s, "name", "raidz"), done, took,
		       date);
	} else {
		autofree char *date = cli_ctime_show(start);

		printf("expand: expansion of %s in progress since %s\n\t%s / %s copied\n",
		       nvlist_string_or(s, "name", "raidz"), date, done, all);
	}
}

static void checkpoint_print(const struct nvlist *status)
{
	struct nvlist *s;
	char space[SIZE_TEXT];
	autofree char *date = NULL;

	if (nvlist_list(status, "checkpoint_stats", &s))
		return;
	size_print(nvlist_u64_or(s, "space", 0), true, space);
	date = cli_ctime_show(nvlist_u64_or(s, "start_time", 0));
	if (strcmp(nvlist_string_or(s, "state", ""), "EXISTS") == 0)
		printf("checkpoint: created %s, consumes %s\n", date, space);
	else
		printf("checkpoint: discarding, %s remaining.\n", space);
}

/* ---- errors ---- */

static void errors_print(const struct nvlist *status, bool verbose)
{
	uint64_t count = nvlist_u64_or(status, "error_count", 0);
	const char *const *list;
	size_t n;

	if (count == 0) {
		puts("errors: No known data errors");
	} else if (!verbose) {
		printf("errors: %" PRIu64 " data errors, use '-v' for a list\n", count);
	} else {
		printf("errors: Permanent errors have been detected in the following files:\n\n");
		if (nvlist_strings(status, "errlist", &list, &n) == 0)
			for (size_t i = 0; i < n; i++)
				printf("%7s %s\n", "", list[i]);
	}
}

/* Words of a bucket in dedup_stats' histogram: blocks, lsize, psize, dsize, and the same of what refers to them. */
#define BUCKET_WORDS 8

static void bucket_print(const char *label, const uint64_t w[BUCKET_WORDS])
{
	printf("%6s", label);
	for (unsigned i = 0; i < BUCKET_WORDS; i++) {
		char text[SIZE_TEXT];

		size_print(w[i], i % 4 != 0, text);
		printf("   %*s", i % 4 ? 5 : 6, text);
	}
	putchar('\n');
}

static void histogram_print(const uint64_t *w, size_t n)
{
	uint64_t total[BUCKET_WORDS] = {0};

	printf("\n"
	       "bucket              allocated                       referenced          \n"
	       "______   ______________________________   ______________________________\n"
	       "refcnt   blocks   LSIZE   PSIZE   DSIZE   blocks   LSIZE   PSIZE   DSIZE\n"
	       "------   ------   -----   -----   -----   ------   -----   -----   -----\n");
	for (size_t b = 0; b < n / BUCKET_WORDS && b < 64; b++) {
		char label[SIZE_TEXT];

		if (w[b * BUCKET_WORDS] == 0)
			continue;
		size_print(UINT64_C(1) << b, false, label);
		bucket_print(label, w + b * BUCKET_WORDS);
		for (unsigned i = 0; i < BUCKET_WORDS; i++)
			total[i] += w[b * BUCKET_WORDS + i];
	}
	bucket_print("Total", total);
	putchar('\n');
}

static void dedup_print(const struct nvlist *status)
{
	char disk[SIZE_TEXT], core[SIZE_TEXT];
	struct nvlist *d;
	const uint64_t *w;
	size_t n;

	if (nvlist_list(status, "dedup_stats", &d) || nvlist_u64_or(d, "entries", 0) == 0) {
		puts("\n dedup: no DDT entries");
		return;
	}
	size_print(nvlist_u64_or(d, "size_on_disk", 0), true, disk);
	size_print(nvlist_u64_or(d, "size_in_core", 0), true, core);
	printf("\n dedup: DDT entries %" PRIu64 ", size %s on disk, %s in core\n", nvlist_u64_or(d, "entries", 0), disk,
	       core);
	if (nvlist_u64s(d, "histogram", &w, &n) == 0)
		histogram_print(w, n);
}

static void notes_print(const struct nvlist *status)
{
	struct nvlist *info;
	const char *const *notes;
	size_t n;

	if (nvlist_list(status, "load_info", &info) || nvlist_strings(info, "notes", &notes, &n))
		return;
	for (size_t i = 0; i < n; i++)
		printf("  note: %s\n", notes[i]);
}

static void status_print(const struct status_options *o, const struct nvlist *status)
{
	printf("  pool: %s\n state: %s\n", nvlist_string_or(status, "name", ""), nvlist_string_or(status, "state", ""));
	zpool_reason_print(status, stdout);
	scans_print(status);
	removal_print(status);
	expansion_print(status);
	checkpoint_print(status);
	notes_print(status);
	printf("config:\n\n");
	zpool_config_print(status, &o->config, stdout);
	putchar('\n');
	errors_print(status, o->verbose);
	if (o->dedup)
		dedup_print(status);
}

/* ---- JSON ---- */

static struct cli_json *nvlist_json(const struct status_options *o, const struct nvlist *l);

static bool is_time(const char *name)
{
	size_t len = strlen(name);

	if (strcmp(name, "scan_time") == 0 || strcmp(name, "pass_time") == 0)
		return false; /* durations */
	return (len > 5 && strcmp(name + len - 5, "_time") == 0) || strcmp(name, "pass_start") == 0 ||
	       strcmp(name, "scrub_pause") == 0 || strcmp(name, "err_scrub_pause") == 0;
}

static bool is_size(const char *name)
{
	static const char *const words[] = {
	    "alloc_space",  "total_space",    "def_space",        "rep_dev_size",
	    "ex_dev_size",  "phys_space",     "to_examine",       "examined",
	    "skipped",      "processed",      "issued",           "copied",
	    "to_copy",      "bytes_per_scan", "checkpoint_space", "issued_bytes_per_scan",
	    "scanned",      "rebuilt",        "to_scan",          "reflowed",
	    "to_reflow",    "space",          "mapping_memory",   "size_on_disk",
	    "size_in_core", "initialized",    "to_initialize",    "trimmed",
	    "to_trim"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i], name) == 0)
			return true;
	return false;
}

static void number_json(const struct status_options *o, struct cli_json *out, const char *name, uint64_t v)
{
	char text[SIZE_TEXT];
	autofree char *date = NULL;

	if (!o->config.style.parsable && is_time(name) && v) {
		date = cli_ctime_show(v);
		cli_json_string(out, name, date);
	} else if (!o->config.style.parsable && is_size(name)) {
		size_print(v, true, text);
		cli_json_string(out, name, text);
	} else {
		cli_json_number(out, name, v, o->json_int);
	}
}

/* What other commands show, and what the text form's flags do not ask for. */
static bool is_hidden(const struct status_options *o, const char *name)
{
	static const char *const never[] = {"reason",     "errors",    "fragmentation", "read_ops",
					    "read_bytes", "write_ops", "write_bytes"};

	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (strcmp(never[i], name) == 0)
			return true;
	if (!o->config.initialize && (strncmp(name, "init_", 5) == 0 || strstr(name, "initialize")))
		return true;
	if (!o->config.trim && (strncmp(name, "trim", 4) == 0 || strcmp(name, "to_trim") == 0))
		return true;
	return strcmp(name, "dedup_stats") == 0 && !o->dedup;
}

/* The form of JSON has an order of its own. */
static void pairs_order(const struct nvlist *status, const char *const *keys, size_t n, struct nvlist *out)
{
	for (size_t i = 0; i < n; i++) {
		const char *text;
		struct nvlist *l;
		uint64_t v;

		if (nvlist_string(status, keys[i], &text) == 0)
			nvlist_add_string(out, keys[i], text);
		else if (nvlist_list(status, keys[i], &l) == 0)
			nvlist_add_list(out, keys[i], l);
		else if (nvlist_u64(status, keys[i], &v) == 0)
			nvlist_add_u64(out, keys[i], v);
	}
}

static struct nvlist *status_order(const struct nvlist *status)
{
	static const char *const keys[] = {"name",
					   "state",
					   "pool_guid",
					   "txg",
					   "spa_version",
					   "zpl_version",
					   "status",
					   "action",
					   "msgid",
					   "moreinfo",
					   "load_info",
					   "scan_stats",
					   "removal_stats",
					   "checkpoint_stats",
					   "raidz_expand_stats",
					   "vdevs",
					   "dedup",
					   "special",
					   "logs",
					   "l2cache",
					   "spares",
					   "dedup_stats",
					   "error_count"};
	struct nvlist *out = nvlist_create();
	const char *const *list;
	size_t n;

	pairs_order(status, keys, ARRAY_LEN(keys), out);
	if (nvlist_strings(status, "errlist", &list, &n) == 0)
		nvlist_add_strings(out, "errlist", list, n);
	return out;
}

/* By reference count: the buckets that hold anything. */
static struct cli_json *histogram_json(const struct status_options *o, const struct nvpair *p)
{
	static const char *const words[BUCKET_WORDS] = {"blocks",     "lsize",     "psize",     "dsize",
							"ref_blocks", "ref_lsize", "ref_psize", "ref_dsize"};
	struct cli_json *out = cli_json_create();

	for (size_t b = 0; b < nvpair_count(p) / BUCKET_WORDS && b < 64; b++) {
		struct cli_json *one;
		char label[24];

		if (nvpair_int(p, b * BUCKET_WORDS) == 0)
			continue;
		one = cli_json_create();
		for (size_t i = 0; i < BUCKET_WORDS; i++)
			cli_json_number(one, words[i], nvpair_int(p, b * BUCKET_WORDS + i), o->json_int);
		snprintf(label, sizeof(label), "%" PRIu64, UINT64_C(1) << b);
		cli_json_object(out, label, one);
	}
	return out;
}

static void pair_json(const struct status_options *o, struct cli_json *out, const struct nvpair *p)
{
	const char *name = nvpair_name(p);

	switch (nvpair_type(p)) {
	case NV_STRING:
		cli_json_string(out, name, nvpair_string(p, 0));
		break;
	case NV_NVLIST:
		cli_json_object(out, name, nvlist_json(o, nvpair_list(p, 0)));
		break;
	case NV_STRING_ARRAY: {
		const char **list = xcalloc(nvpair_count(p) + 1, sizeof(char *));

		for (size_t i = 0; i < nvpair_count(p); i++)
			list[i] = nvpair_string(p, i);
		cli_json_strings(out, name, list, nvpair_count(p));
		free(list);
		break;
	}
	case NV_UINT64_ARRAY:
		cli_json_object(out, name, histogram_json(o, p));
		break;
	case NV_NVLIST_ARRAY:
		break;
	default:
		number_json(o, out, name, nvpair_int(p, 0));
	}
}

static struct cli_json *nvlist_json(const struct status_options *o, const struct nvlist *l)
{
	struct cli_json *out = cli_json_create();

	for (const struct nvpair *p = nvlist_first(l); p; p = nvlist_next(l, p))
		if (!is_hidden(o, nvpair_name(p)))
			pair_json(o, out, p);
	return out;
}

/* All vdevs in one object, each with its parent's name. */
static void flatten(const struct nvlist *vdevs, const char *parent, struct nvlist *out)
{
	for (const struct nvpair *p = nvlist_first(vdevs); p; p = nvlist_next(vdevs, p)) {
		struct nvlist *row = nvlist_copy(nvpair_list(p, 0)), *children;

		if (parent)
			nvlist_add_string(row, "parent", parent);
		if (nvlist_list(row, "vdevs", &children) == 0)
			flatten(children, nvpair_name(p), out);
		nvlist_remove(row, "vdevs");
		nvlist_take_list(out, nvpair_name(p), row);
	}
}

static struct cli_json *status_json(const struct status_options *o, const struct nvlist *status)
{
	autonv struct nvlist *copy = status_order(status);
	struct nvlist *vdevs, *flat;

	if (o->json_flat && nvlist_list(copy, "vdevs", &vdevs) == 0) {
		flat = nvlist_create();
		flatten(vdevs, NULL, flat);
		nvlist_take_list(copy, "vdevs", flat);
	}
	return nvlist_json(o, copy);
}

static void statuses_json(const struct status_options *o, const struct cli_items *pools)
{
	struct cli_json *doc = cli_json_document("zpool status"), *all = cli_json_create();

	for (size_t i = 0; i < pools->n; i++) {
		char guid[24];

		snprintf(guid, sizeof(guid), "%" PRIu64, nvlist_u64_or(pools->item[i], "pool_guid", 0));
		cli_json_object(all, o->json_guid ? guid : nvlist_string_or(pools->item[i], "name", ""),
				status_json(o, pools->item[i]));
	}
	cli_json_object(doc, "pools", all);
	cli_json_print(doc, stdout);
}

/* ---- command ---- */

static bool has_problem(const struct nvlist *status)
{
	static const char *const harmless[] = {"ok", "version-older", "feat-disabled", "compatibility-err",
					       "incompatible-feat"};
	const char *reason = nvlist_string_or(status, "reason", "ok");

	for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
		if (strcmp(reason, harmless[i]) == 0)
			return false;
	return true;
}

static void healthy_print(const struct status_options *o, const struct cli_items *pools)
{
	if (o->nnames == 0 && pools->n == 0)
		puts("no pools available");
	else if (o->nnames == 0)
		puts("all pools are healthy");
	else
		for (size_t i = 0; i < pools->n; i++)
			printf("pool '%s' is healthy\n", nvlist_string_or(pools->item[i], "name", ""));
}

static void statuses_print(const struct status_options *o, const struct cli_items *pools)
{
	size_t shown = 0;

	for (size_t i = 0; i < pools->n; i++) {
		if (o->unhealthy && !has_problem(pools->item[i]))
			continue;
		if (shown++)
			putchar('\n');
		status_print(o, pools->item[i]);
	}
	if (o->unhealthy && !shown)
		healthy_print(o, pools);
	else if (!pools->n)
		puts("no pools available");
}

static int report(const struct status_options *o)
{
	autonv struct nvlist *args = nvlist_create();
	struct cli_items pools;
	int failed;

	zpool_time_print(o->time_kind);
	nvlist_add_boolean_value(args, "errors", o->verbose);
	failed = zpool_ask_pools("pool.status", args, o->names, o->nnames, &pools);
	if (o->json)
		statuses_json(o, &pools);
	else if (pools.n || !failed)
		statuses_print(o, &pools);
	cli_items_free(&pools);
	return failed;
}

static int option_take(struct status_options *o, int opt)
{
	switch (opt) {
	case 'D':
		o->dedup = true;
		return 0;
	case 'd':
		o->config.direct = true;
		return 0;
	case 'e':
		o->config.unhealthy_only = true;
		return 0;
	case 'g':
		o->config.style.guid = true;
		return 0;
	case 'L':
		o->config.style.follow = true;
		return 0;
	case 'P':
		o->config.style.path = true;
		return 0;
	case 'p':
		o->config.style.parsable = true;
		return 0;
	case 'i':
		o->config.initialize = true;
		return 0;
	case 't':
		o->config.trim = true;
		return 0;
	case 's':
		o->config.slow = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 'x':
		o->unhealthy = true;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case 'F':
		o->json_flat = true;
		return 0;
	case 'I':
		o->json_int = o->config.style.parsable = true;
		return 0;
	case 'G':
		o->json_guid = true;
		return 0;
	case 'T':
		o->time_kind = optarg[0];
		return (optarg[0] == 'd' || optarg[0] == 'u') && !optarg[1] ? 0 : CLI_USAGE;
	default:
		return CLI_USAGE;
	}
}

int zpool_status(int argc, char **argv)
{
	static const struct option longs[] = {{"json", no_argument, NULL, 'j'},
					      {"json-flat-vdevs", no_argument, NULL, 'F'},
					      {"json-int", no_argument, NULL, 'I'},
					      {"json-pool-key-guid", no_argument, NULL, 'G'},
					      {NULL, 0, NULL, 0}};
	struct status_options o = {.config.counters = true};
	int opt, err;

	while ((opt = getopt_long(argc, argv, "DdegLPpitsvxjT:", longs, NULL)) != -1)
		if (option_take(&o, opt))
			return cli_usage("zpool", zpool_commands, "status", NULL);
	if (!o.json && (o.json_flat || o.json_int || o.json_guid))
		return cli_usage("zpool", zpool_commands, "status", "--json options go with -j");
	zpool_interval_parse(&argc, argv, optind, &o.interval, &o.count);
	o.names = argv + optind;
	o.nnames = (size_t)(argc - optind);
	do {
		err = report(&o);
	} while (!err && zpool_interval_next(o.interval, &o.count, true));
	return err;
}
