/*
 * The config: part of `zpool status` and `zpool import` (docs/format/09-cli.md 9.9), and the reason lines before it.
 */
#include "cli/zpool.h"

#include <inttypes.h>

#define FOLD_COLUMN 70

struct row {
	char *name;
	unsigned depth;
	const struct nvlist *row; /* NULL: a heading */
};

struct rows {
	struct row *row;
	size_t n, width;
};

static void row_add(struct rows *rows, char *name, unsigned depth, const struct nvlist *row)
{
	rows->row = xrealloc(rows->row, (rows->n + 1) * sizeof(struct row));
	rows->row[rows->n++] = (struct row){name, depth, row};
	rows->width = MAX(rows->width, strlen(name) + 2 * depth);
}

static bool is_healthy(const struct nvlist *row)
{
	const char *state = nvlist_string_or(row, "state", "");

	return (strcmp(state, "ONLINE") == 0 || strcmp(state, "AVAIL") == 0 || strcmp(state, "INUSE") == 0) &&
	       !nvlist_u64_or(row, "read_errors", 0) && !nvlist_u64_or(row, "write_errors", 0) &&
	       !nvlist_u64_or(row, "checksum_errors", 0);
}

/* Itself or something below it is unhealthy. */
static bool has_trouble(const struct nvlist *row)
{
	struct nvlist *children;

	if (!is_healthy(row))
		return true;
	if (nvlist_list(row, "vdevs", &children))
		return false;
	for (const struct nvpair *p = nvlist_first(children); p; p = nvlist_next(children, p))
		if (has_trouble(nvpair_list(p, 0)))
			return true;
	return false;
}

static void rows_walk(struct rows *rows, const struct nvlist *vdevs, unsigned depth,
		      const struct zpool_config_options *o)
{
	for (const struct nvpair *p = nvlist_first(vdevs); p; p = nvlist_next(vdevs, p)) {
		const struct nvlist *row = nvpair_list(p, 0);
		struct nvlist *children;

		if (o->unhealthy_only && depth > 0 && !has_trouble(row))
			continue;
		row_add(rows, zpool_row_name(row, nvpair_name(p), &o->style), depth, row);
		if (nvlist_list(row, "vdevs", &children) == 0)
			rows_walk(rows, children, depth + 1, o);
	}
}

static void rows_collect(struct rows *rows, const struct nvlist *status, const struct zpool_config_options *o)
{
	static const struct {
		const char *key, *heading;
	} classes[] = {
	    {"dedup", "dedup"}, {"special", "special"}, {"logs", "logs"}, {"l2cache", "cache"}, {"spares", "spares"}};
	struct nvlist *vdevs;

	if (nvlist_list(status, "vdevs", &vdevs) == 0)
		rows_walk(rows, vdevs, 0, o);
	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		if (nvlist_list(status, classes[i].key, &vdevs) || !nvlist_len(vdevs))
			continue;
		row_add(rows, xstrdup(classes[i].heading), 0, NULL);
		rows_walk(rows, vdevs, 1, o);
	}
}

static void count_print(uint64_t n, bool parsable, FILE *out)
{
	char text[SIZE_TEXT];

	size_print(n, false, text);
	if (parsable)
		fprintf(out, " %5" PRIu64, n);
	else
		fprintf(out, " %5s", text);
}

static bool is_aux_device(const struct nvlist *row)
{
	return strcmp(nvlist_string_or(row, "class", ""), "spare") == 0;
}

static uint64_t percent(uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)(100.0 * (double)part / (double)whole) : 100;
}

/* What is known of leaves that were never initialized or trimmed by anybody. */
static void activity_print(const struct nvlist *row, const char *state_key, const char *done_key, const char *all_key,
			   const char *time_key, const char *never, const char *doing, FILE *out)
{
	const char *state = nvlist_string_or(row, state_key, NULL);
	uint64_t done = nvlist_u64_or(row, done_key, 0), all = nvlist_u64_or(row, all_key, 0);
	autofree char *date = cli_ctime_show(nvlist_u64_or(row, time_key, 0));

	if (nvlist_exists(row, "vdevs"))
		return;
	if (!state)
		fprintf(out, "  (%s)", never);
	else if (strcmp(state, "suspended") == 0)
		fprintf(out, "  (%" PRIu64 "%% %s, suspended, started at %s)", percent(done, all), doing, date);
	else
		fprintf(out, "  (%" PRIu64 "%% %s, %s at %s)", percent(done, all), doing, state, date);
}

static void notes_print(const struct nvlist *row, const struct zpool_config_options *o, FILE *out)
{
	static const struct {
		const char *key, *note;
	} flags[] = {{"resilvering", "(resilvering)"},
		     {"resilver_deferred", "(awaiting resilver)"},
		     {"removing", "(removing)"},
		     {"noalloc", "(non-allocating)"}};
	const char *was = nvlist_string_or(row, "was", NULL), *aux = nvlist_string_or(row, "aux", NULL);

	if (was)
		fprintf(out, "  was %s", was);
	else if (aux)
		fprintf(out, "  %s", aux);
	if (nvlist_exists(row, "physical_ashift"))
		fprintf(out, "  block size: %" PRIu64 "B configured, %" PRIu64 "B native",
			UINT64_C(1) << (nvlist_u64_or(row, "configured_ashift", 0) & 63),
			UINT64_C(1) << (nvlist_u64_or(row, "physical_ashift", 0) & 63));
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (nvlist_u64_or(row, flags[i].key, 0))
			fprintf(out, "  %s", flags[i].note);
	if (o->initialize)
		activity_print(row, "init_state", "initialized", "to_initialize", "init_time", "uninitialized",
			       "initialized", out);
	if (o->trim)
		activity_print(row, "trim_state", "trimmed", "to_trim", "trim_time", "untrimmed", "trimmed", out);
}

static void row_print(const struct row *r, size_t width, const struct zpool_config_options *o, FILE *out)
{
	if (!r->row) {
		bool plain = !o->counters || strcmp(r->name, "cache") == 0 || strcmp(r->name, "spares") == 0;

		fprintf(out, plain ? "\t%s\n" : "\t%s\t\n", r->name);
		return;
	}
	fprintf(out, "\t%*s%-*s", (int)(2 * r->depth), "", (int)(width - 2 * r->depth), r->name);
	if (o->counters && !is_aux_device(r->row)) {
		fprintf(out, "  %-8s", nvlist_string_or(r->row, "state", ""));
		count_print(nvlist_u64_or(r->row, "read_errors", 0), o->style.parsable, out);
		count_print(nvlist_u64_or(r->row, "write_errors", 0), o->style.parsable, out);
		count_print(nvlist_u64_or(r->row, "checksum_errors", 0), o->style.parsable, out);
		if (o->slow && nvlist_exists(r->row, "vdevs"))
			fprintf(out, " %5s", "-");
		else if (o->slow)
			count_print(nvlist_u64_or(r->row, "slow_ios", 0), o->style.parsable, out);
		if (o->direct) /* only writing can make such errors */
			count_print(nvlist_u64_or(r->row, "dio_verify_errors", 0), o->style.parsable, out);
	} else {
		fprintf(out, o->counters ? "  %-8s" : "  %s", nvlist_string_or(r->row, "state", ""));
	}
	notes_print(r->row, o, out);
	fputc('\n', out);
}

void zpool_config_print(const struct nvlist *status, const struct zpool_config_options *o, FILE *out)
{
	struct rows rows = {NULL, 0, 10};

	rows_collect(&rows, status, o);
	if (o->counters) {
		fprintf(out, "\t%-*s  %-8s %5s %5s %5s", (int)rows.width, "NAME", "STATE", "READ", "WRITE", "CKSUM");
		fprintf(out, "%s%s\n", o->slow ? "  SLOW" : "", o->direct ? "   DIO" : "");
	}
	for (size_t i = 0; i < rows.n; i++) {
		row_print(&rows.row[i], rows.width, o, out);
		free(rows.row[i].name);
	}
	free(rows.row);
}

/* "status: text", folded at blanks; further lines begin with a TAB. */
static void fold_print(const char *label, const char *text, FILE *out)
{
	size_t column = 8;

	fprintf(out, "%s: ", label);
	while (*text) {
		size_t word = strcspn(text, " \n");
		bool newline = text[word] == '\n';

		if (column > 8 && column + word + 1 > FOLD_COLUMN + 8) {
			fputs("\n\t", out);
			column = 8;
		} else if (column > 8) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", (int)word, text);
		column += word;
		text += word + (text[word] != 0);
		if (newline && *text) {
			fputs("\n\t", out);
			column = 8;
		}
	}
	fputc('\n', out);
}

static void see_print(const struct nvlist *status, FILE *out)
{
	const char *see = nvlist_string_or(status, "moreinfo", NULL);

	if (see)
		fprintf(out, "   see: %s\n", see);
}

void zpool_reason_print(const struct nvlist *status, FILE *out)
{
	const char *text = nvlist_string_or(status, "status", NULL), *action = nvlist_string_or(status, "action", NULL);

	if (text)
		fold_print("status", text, out);
	if (action)
		fold_print("action", action, out);
	see_print(status, out);
}

#define CAN_BE "The pool can be imported "

static const char *listing_action(const struct nvlist *config)
{
	const char *health = nvlist_string_or(config, "health", ""), *reason = nvlist_string_or(config, "reason", "ok");

	if (nvlist_u64_or(config, "state", 0) == 2)
		return "The pool was destroyed, but can be imported using the '-Df' flags.";
	if (strncmp(reason, "hostid-", 7) == 0 || strcmp(reason, "bad-log") == 0 || nvlist_exists(config, "error"))
		return nvlist_string_or(config, "action", NULL);
	if (strcmp(health, "DEGRADED") == 0)
		return CAN_BE "despite missing or damaged devices.  The fault tolerance of the pool may be compromised "
			      "if imported.";
	if (strcmp(reason, "version-older") == 0 || strcmp(reason, "feat-disabled") == 0)
		return CAN_BE
		    "using its name or numeric identifier, though some features will not be available without "
		    "an explicit 'zpool upgrade'.";
	return strcmp(health, "ONLINE") == 0 ? CAN_BE "using its name or numeric identifier."
					     : nvlist_string_or(config, "action", NULL);
}

void zpool_listing_reason_print(const struct nvlist *config, FILE *out)
{
	const char *text = nvlist_string_or(config, "status", NULL), *action = listing_action(config);

	if (text)
		fold_print(" status", text, out);
	if (action)
		fold_print(" action", action, out);
	see_print(config, out);
}
