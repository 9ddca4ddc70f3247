#include "cli/zpool.h"

#include <ctype.h>
#include <getopt.h>
#include <inttypes.h>

struct list_options {
	struct zpool_style style;
	bool scripted, verbose, json, json_int, json_guid;
	char time_kind;
	char **columns;
	size_t ncolumns;
	unsigned interval, count;
	char **names;
	size_t nnames;
};

static const struct {
	const char *name, *header;
	bool right;
	unsigned width; /* at least */
} known[] = {
    {"name", "NAME", false, 0},
    {"size", "SIZE", true, 5},
    {"allocated", "ALLOC", true, 5},
    {"free", "FREE", true, 5},
    {"checkpoint", "CKPOINT", true, 7},
    {"expandsize", "EXPANDSZ", true, 8},
    {"fragmentation", "FRAG", true, 5},
    {"capacity", "CAP", true, 5},
    {"dedupratio", "DEDUP", true, 5},
    {"health", "HEALTH", true, 8},
    {"altroot", "ALTROOT", false, 0},
    {"version", "VERSION", true, 0},
    {"freeing", "FREEING", true, 0},
    {"leaked", "LEAKED", true, 0},
    {"guid", "GUID", true, 0},
    {"load_guid", "LOAD_GUID", true, 0},
    {"ashift", "ASHIFT", true, 0},
    {"readonly", "RDONLY", false, 0},
    {"autoreplace", "REPLACE", false, 0},
    {"listsnapshots", "LISTSNAPS", false, 0},
    {"autoexpand", "EXPAND", false, 0},
    {"dedup_table_quota", "DDTQUOTA", true, 0},
    {"bcloneratio", "BCLONE_RATIO", true, 0},
    {"bcloneused", "BCLONE_USED", true, 0},
    {"bclonesaved", "BCLONE_SAVED", true, 0},
    {"dedup_table_size", "DDTSIZE", true, 0},
};

static void columns_parse(struct list_options *o, const char *text)
{
	static const struct {
		const char *alias, *name;
	} aliases[] = {{"alloc", "allocated"},     {"cap", "capacity"},
		       {"frag", "fragmentation"},  {"dedup", "dedupratio"},
		       {"ckpoint", "checkpoint"},  {"expandsz", "expandsize"},
		       {"rdonly", "readonly"},     {"listsnaps", "listsnapshots"},
		       {"replace", "autoreplace"}, {"expand", "autoexpand"}};
	autofree char *copy = xstrdup(text);
	char *save = NULL;

	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		const char *name = w;

		for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
			if (strcmp(aliases[i].alias, w) == 0)
				name = aliases[i].name;
		o->columns = xrealloc(o->columns, (o->ncolumns + 1) * sizeof(char *));
		o->columns[o->ncolumns++] = xstrdup(name);
	}
}

static char *header_of(const char *name, bool *right, unsigned *width)
{
	char *header;

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(known[i].name, name) == 0) {
			*right = known[i].right;
			*width = known[i].width;
			return xstrdup(known[i].header);
		}
	}
	*right = false;
	header = xstrdup(name);
	for (char *p = header; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	return header;
}

/* ---- rows of vdevs (-v) ---- */

/* Three digits of a percentage. */
static char *percent_show(uint64_t part, uint64_t whole, bool parsable)
{
	double p = 100.0 * (double)part / (double)whole;

	if (parsable)
		return xasprintf("%" PRIu64, part * 100 / whole);
	return xasprintf("%.*f%%", p < 9.995 ? 2 : p < 99.95 ? 1 : 0, p);
}

static char *vdev_cell(const struct nvlist *row, const char *column, bool parsable)
{
	uint64_t size = nvlist_u64_or(row, "total_space", 0), alloc = nvlist_u64_or(row, "alloc_space", 0);
	uint64_t frag = nvlist_u64_or(row, "fragmentation", UINT64_MAX), value;
	char text[SIZE_TEXT];

	if (strcmp(column, "health") == 0)
		return xstrdup(nvlist_string_or(row, "state", "-"));
	if (strcmp(column, "altroot") == 0)
		return xstrdup("");
	if (strcmp(column, "size") == 0 && !nvlist_exists(row, "vdevs"))
		size = nvlist_u64_or(row, "phys_space", 0);
	else if (strcmp(column, "size") != 0 && !nvlist_exists(row, "alloc_space"))
		return xstrdup("-");
	if (strcmp(column, "size") == 0)
		value = size;
	else if (strcmp(column, "allocated") == 0)
		value = alloc;
	else if (strcmp(column, "free") == 0)
		value = size - alloc;
	else if (strcmp(column, "expandsize") == 0)
		value = nvlist_u64_or(row, "ex_dev_size", 0);
	else if (strcmp(column, "fragmentation") == 0 && frag != UINT64_MAX)
		return xasprintf(parsable ? "%" PRIu64 : "%" PRIu64 "%%", frag);
	else if (strcmp(column, "capacity") == 0 && size)
		return percent_show(alloc, size, parsable);
	else
		return xstrdup("-");
	if (value == 0 && (strcmp(column, "size") == 0 || strcmp(column, "expandsize") == 0))
		return xstrdup("-");
	if (parsable)
		return xasprintf("%" PRIu64, value);
	size_print(value, true, text);
	return xstrdup(text);
}

static void vdev_row_add(const struct list_options *o, struct cli_table *t, const struct nvlist *row, const char *key,
			 unsigned depth)
{
	char **cells = xcalloc(o->ncolumns, sizeof(char *));

	for (size_t i = 0; i < o->ncolumns; i++) {
		if (strcmp(o->columns[i], "name") == 0) {
			autofree char *name = row ? zpool_row_name(row, key, &o->style) : xstrdup(key);

			cells[i] = o->scripted ? xasprintf("%s%s", depth ? "\t" : "", name)
					       : xasprintf("%*s%s", (int)(2 * depth), "", name);
		} else {
			cells[i] = row ? vdev_cell(row, o->columns[i], o->style.parsable)
				       : xstrdup(strcmp(o->columns[i], "altroot") == 0 ? "" : "-");
		}
	}
	cli_table_add(t, (const char *const *)cells);
	for (size_t i = 0; i < o->ncolumns; i++)
		free(cells[i]);
	free(cells);
}

static void vdevs_add(const struct list_options *o, struct cli_table *t, const struct nvlist *vdevs, unsigned depth)
{
	for (const struct nvpair *p = nvlist_first(vdevs); p; p = nvlist_next(vdevs, p)) {
		struct nvlist *children;

		if (depth > 0)
			vdev_row_add(o, t, nvpair_list(p, 0), nvpair_name(p), depth);
		if (nvlist_list(nvpair_list(p, 0), "vdevs", &children) == 0)
			vdevs_add(o, t, children, depth + 1);
	}
}

static void classes_add(const struct list_options *o, struct cli_table *t, const struct nvlist *pool)
{
	static const char *const classes[][2] = {
	    {"dedup", "dedup"}, {"special", "special"}, {"logs", "logs"}, {"l2cache", "cache"}, {"spares", "spare"}};
	struct nvlist *vdevs;

	if (nvlist_list(pool, "vdevs", &vdevs) == 0)
		vdevs_add(o, t, vdevs, 0);
	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		if (nvlist_list(pool, classes[i][0], &vdevs) || !nvlist_len(vdevs))
			continue;
		vdev_row_add(o, t, NULL, classes[i][1], 0);
		vdevs_add(o, t, vdevs, 1);
	}
}

/* ---- pools ---- */

static char *pool_cell(const struct list_options *o, const struct nvlist *pool, const char *column,
		       struct zpool_value *v)
{
	struct nvlist *props = NULL;

	*v = (struct zpool_value){NULL, "-", false, 0};
	if (strcmp(column, "name") == 0)
		return xstrdup(nvlist_string_or(pool, "name", "?"));
	nvlist_list(pool, "props", &props);
	if (props)
		*v = zpool_value_of(props, column);
	return zpool_value_show(column, v, o->style.parsable);
}

static void pools_print(const struct list_options *o, const struct cli_items *pools)
{
	char **cells = xcalloc(o->ncolumns, sizeof(char *));
	bool *right = xcalloc(o->ncolumns, sizeof(bool));
	unsigned *width = xcalloc(o->ncolumns, sizeof(unsigned));
	struct cli_table *t;

	for (size_t i = 0; i < o->ncolumns; i++)
		cells[i] = header_of(o->columns[i], &right[i], &width[i]);
	t = cli_table_create((const char *const *)cells, right, o->ncolumns, o->scripted);
	for (size_t i = 0; i < o->ncolumns; i++)
		cli_table_widen(t, i, strcmp(o->columns[i], "name") == 0 && o->verbose ? 9 : width[i]);
	free(width);
	for (size_t p = 0; p < pools->n; p++) {
		for (size_t i = 0; i < o->ncolumns; i++) {
			struct zpool_value v;

			free(cells[i]);
			cells[i] = pool_cell(o, pools->item[p], o->columns[i], &v);
		}
		cli_table_add(t, (const char *const *)cells);
		if (o->verbose)
			classes_add(o, t, pools->item[p]);
	}
	cli_table_print(t, stdout);
	cli_table_destroy(t);
	for (size_t i = 0; i < o->ncolumns; i++)
		free(cells[i]);
	free(cells);
	free(right);
}

static void value_json(struct cli_json *props, const char *name, const char *shown, const struct zpool_value *v,
		       bool json_int)
{
	struct cli_json *o = cli_json_create(), *source = cli_json_create();

	cli_json_value(o, "value", shown, json_int);
	cli_json_string(source, "type",
			strcmp(v->source, "local") == 0     ? "LOCAL"
			: strcmp(v->source, "default") == 0 ? "DEFAULT"
							    : "NONE");
	cli_json_string(source, "data", "-");
	cli_json_object(o, "source", source);
	cli_json_object(props, name, o);
}

/* The columns that say something about a device. */
static struct cli_json *vdev_props_json(const struct list_options *o, const struct nvlist *row)
{
	struct zpool_value none = {NULL, "-", false, 0};
	struct cli_json *props = cli_json_create();

	for (size_t i = 0; i < o->ncolumns; i++) {
		const char *column = o->columns[i];

		if (strcmp(column, "name") != 0 && strcmp(column, "altroot") != 0) {
			autofree char *shown = vdev_cell(row, column, o->style.parsable);

			value_json(props, column, shown, &none, o->json_int);
		}
	}
	return props;
}

static struct cli_json *vdevs_json(const struct list_options *o, const struct nvlist *vdevs);

static struct cli_json *vdev_json(const struct list_options *o, const struct nvlist *row, const char *name)
{
	static const char *const words[] = {"path", "phys_path", "devid", "enc_path", "class", "state"};
	struct cli_json *out = cli_json_create();
	struct nvlist *children;
	const char *text;

	cli_json_string(out, "name", name);
	cli_json_string(out, "vdev_type", nvlist_string_or(row, "vdev_type", "?"));
	cli_json_number(out, "guid", nvlist_u64_or(row, "guid", 0), o->json_int);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (nvlist_string(row, words[i], &text) == 0)
			cli_json_string(out, words[i], text);
	cli_json_object(out, "properties", vdev_props_json(o, row));
	if (nvlist_list(row, "vdevs", &children) == 0)
		cli_json_object(out, "vdevs", vdevs_json(o, children));
	return out;
}

static struct cli_json *vdevs_json(const struct list_options *o, const struct nvlist *vdevs)
{
	struct cli_json *out = cli_json_create();

	for (const struct nvpair *p = nvlist_first(vdevs); p; p = nvlist_next(vdevs, p)) {
		autofree char *name = zpool_row_name(nvpair_list(p, 0), nvpair_name(p), &o->style);

		cli_json_object(out, name, vdev_json(o, nvpair_list(p, 0), name));
	}
	return out;
}

/* "vdevs" has the normal top-levels; the others stand in objects of their class. */
static void classes_json(const struct list_options *o, const struct nvlist *pool, struct cli_json *out)
{
	static const char *const classes[] = {"dedup", "special", "logs", "l2cache", "spares"};
	struct nvlist *vdevs, *root, *children;

	if (nvlist_list(pool, "vdevs", &vdevs) == 0 &&
	    nvlist_list(vdevs, nvlist_string_or(pool, "name", "?"), &root) == 0 &&
	    nvlist_list(root, "vdevs", &children) == 0)
		cli_json_object(out, "vdevs", vdevs_json(o, children));
	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		if (nvlist_list(pool, classes[i], &vdevs) == 0 && nvlist_len(vdevs))
			cli_json_object(out, classes[i], vdevs_json(o, vdevs));
}

static struct cli_json *pool_json(const struct list_options *o, const struct nvlist *pool)
{
	static const char *const numbers[] = {"pool_guid", "txg", "spa_version", "zpl_version"};
	struct cli_json *out = cli_json_create(), *props = cli_json_create();

	cli_json_string(out, "name", nvlist_string_or(pool, "name", "?"));
	cli_json_string(out, "type", "POOL");
	cli_json_string(out, "state", nvlist_string_or(pool, "state", "?"));
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		cli_json_number(out, numbers[i], nvlist_u64_or(pool, numbers[i], 0), o->json_int);
	for (size_t i = 0; i < o->ncolumns; i++) {
		struct zpool_value v;
		autofree char *shown = pool_cell(o, pool, o->columns[i], &v);

		if (strcmp(o->columns[i], "name") != 0)
			value_json(props, o->columns[i], shown, &v, o->json_int);
	}
	cli_json_object(out, "properties", props);
	if (o->verbose)
		classes_json(o, pool, out);
	return out;
}

static void pools_json(const struct list_options *o, const struct cli_items *pools)
{
	struct cli_json *doc = cli_json_document("zpool list"), *all = cli_json_create();

	for (size_t i = 0; i < pools->n; i++) {
		char guid[24];

		snprintf(guid, sizeof(guid), "%" PRIu64, nvlist_u64_or(pools->item[i], "pool_guid", 0));
		cli_json_object(all, o->json_guid ? guid : nvlist_string_or(pools->item[i], "name", "?"),
				pool_json(o, pools->item[i]));
	}
	cli_json_object(doc, "pools", all);
	cli_json_print(doc, stdout);
}

/* Every pool has the same properties, but for what users have set. */
static int columns_check(const struct list_options *o, const struct cli_items *pools)
{
	struct nvlist *props;

	if (!pools->n || nvlist_list(pools->item[0], "props", &props))
		return CLI_OK;
	for (size_t i = 0; i < o->ncolumns; i++)
		if (strcmp(o->columns[i], "name") && !strchr(o->columns[i], ':') &&
		    !nvlist_exists(props, o->columns[i]))
			return cli_usage("zpool", zpool_commands, "list", "bad property list: invalid property '%s'",
					 o->columns[i]);
	return CLI_OK;
}

static int report(const struct list_options *o)
{
	autonv struct nvlist *args = nvlist_create();
	struct cli_items pools;
	int failed;

	zpool_time_print(o->time_kind);
	failed = zpool_ask_pools("pool.list", args, o->names, o->nnames, &pools);
	if (columns_check(o, &pools))
		failed = CLI_USAGE;
	else if (o->json)
		pools_json(o, &pools);
	else if (pools.n)
		pools_print(o, &pools);
	else if (!failed && !o->scripted)
		puts("no pools available");
	cli_items_free(&pools);
	return failed;
}

static int option_take(struct list_options *o, int opt)
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
	case 'o':
		columns_parse(o, optarg);
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case 'I':
		o->json_int = o->style.parsable = true;
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

int zpool_list(int argc, char **argv)
{
	static const struct option longs[] = {{"json", no_argument, NULL, 'j'},
					      {"json-int", no_argument, NULL, 'I'},
					      {"json-pool-key-guid", no_argument, NULL, 'G'},
					      {NULL, 0, NULL, 0}};
	struct list_options o = {0};
	int opt, err;

	while ((opt = getopt_long(argc, argv, "gLPpHvo:jT:", longs, NULL)) != -1)
		if (option_take(&o, opt))
			return cli_usage("zpool", zpool_commands, "list", NULL);
	if (!o.json && (o.json_int || o.json_guid))
		return cli_usage("zpool", zpool_commands, "list", "--json options go with -j");
	if (!o.ncolumns)
		columns_parse(
		    &o,
		    "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,dedupratio,health,altroot");
	zpool_interval_parse(&argc, argv, optind, &o.interval, &o.count);
	o.names = argv + optind;
	o.nnames = (size_t)(argc - optind);
	do {
		err = report(&o);
	} while (!err && zpool_interval_next(o.interval, &o.count, true));
	for (size_t i = 0; i < o.ncolumns; i++)
		free(o.columns[i]);
	free(o.columns);
	return err;
}
