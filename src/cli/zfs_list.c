#include "cli/zfs.h"

#include <ctype.h>
#include <getopt.h>

struct list_options {
	bool recursive, has_depth, scripted, parsable, json, json_int, has_types;
	uint64_t depth;
	unsigned types;
	struct zfs_names columns;
	struct zfs_sort_key *keys;
	size_t nkeys;
};

static void sort_key_add(struct list_options *o, const char *property, bool descending)
{
	o->keys = xrealloc(o->keys, (o->nkeys + 1) * sizeof(*o->keys));
	o->keys[o->nkeys++] = (struct zfs_sort_key){property, descending};
}

static int sort_key_parse(struct list_options *o, const char *word, bool descending)
{
	const char *name = zfs_property_name(word);

	if (!name)
		return cli_usage("zfs", zfs_commands, "list", "invalid property '%s'", word);
	sort_key_add(o, name, descending);
	return 0;
}

static int columns_parse(struct list_options *o, const char *text)
{
	static const char space[] =
	    "name,available,used,usedbysnapshots,usedbydataset,usedbyrefreservation,usedbychildren";

	if (strcmp(text, "all") == 0 && zfs_property_list("name", &o->columns))
		return CLI_USAGE;
	return zfs_property_list(strcmp(text, "space") == 0 ? space : text, &o->columns);
}

static int option_take(struct list_options *o, int opt)
{
	switch (opt) {
	case 'r':
		o->recursive = true;
		return 0;
	case 'd':
		o->has_depth = true;
		return zfs_depth_parse(optarg, &o->depth) ? 0 : CLI_USAGE;
	case 'H':
		o->scripted = true;
		return 0;
	case 'p':
		o->parsable = true;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case 'I':
		o->json_int = o->parsable = true;
		return 0;
	case 'o':
		return columns_parse(o, optarg);
	case 's':
	case 'S':
		return sort_key_parse(o, optarg, opt == 'S');
	case 't':
		o->types = zfs_types_parse(optarg);
		o->has_types = true;
		return o->types ? 0 : cli_usage("zfs", zfs_commands, "list", "invalid type '%s'", optarg);
	default:
		return cli_usage("zfs", zfs_commands, "list", NULL);
	}
}

static int options_parse(struct list_options *o, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"json", no_argument, NULL, 'j'}, {"json-int", no_argument, NULL, 'I'}, {NULL, 0, NULL, 0}};
	int opt, err;

	while ((opt = getopt_long(argc, argv, "rd:Hpjo:s:S:t:", longs, NULL)) != -1)
		if ((err = option_take(o, opt)))
			return err;
	if (o->json_int && !o->json)
		return cli_usage("zfs", zfs_commands, "list", "--json-int only works with -j");
	if (o->json && o->scripted)
		return cli_usage("zfs", zfs_commands, "list", "-j and -H cannot be combined");
	if (!o->columns.n)
		columns_parse(o, "name,used,available,referenced,mountpoint");
	return 0;
}

static char *header_of(const char *name)
{
	const struct prop_def *def = dsl_prop_find(name);
	char *header = xstrdup(def ? def->column : name);

	for (char *p = header; !def && *p; p++)
		*p = (char)toupper((unsigned char)*p);
	return header;
}

static bool is_right_aligned(const char *name)
{
	const struct prop_def *def = dsl_prop_find(name);

	return def && def->kind == PROP_NUMBER && strcmp(name, "creation") != 0 &&
	       strncmp(name, "snapshots_changed", 17) != 0;
}

static char *cell_of(const struct zfs_row *r, const char *name, bool parsable)
{
	struct zfs_value v = zfs_row_value(r, name);

	return v.exact ? zfs_value_show(name, v.exact, parsable) : xstrdup("-");
}

static void list_print(const struct list_options *o, const struct zfs_rows *rows)
{
	size_t n = o->columns.n;
	char **cells = xcalloc(n, sizeof(char *));
	bool *right = xcalloc(n, sizeof(bool));
	struct cli_table *t;

	for (size_t i = 0; i < n; i++) {
		cells[i] = header_of(o->columns.name[i]);
		right[i] = is_right_aligned(o->columns.name[i]);
	}
	t = cli_table_create((const char *const *)cells, right, n, o->scripted);
	for (size_t r = 0; r < rows->n; r++) {
		for (size_t i = 0; i < n; i++) {
			free(cells[i]);
			cells[i] = cell_of(&rows->row[r], o->columns.name[i], o->parsable);
		}
		cli_table_add(t, (const char *const *)cells);
	}
	cli_table_print(t, stdout);
	cli_table_destroy(t);
	for (size_t i = 0; i < n; i++)
		free(cells[i]);
	free(cells);
	free(right);
}

static void list_print_json(const struct list_options *o, const struct zfs_rows *rows)
{
	struct cli_json *doc = cli_json_document("zfs list"), *all = cli_json_create();

	for (size_t r = 0; r < rows->n; r++) {
		struct cli_json *row = zfs_row_json(&rows->row[r], o->json_int), *props = cli_json_create();

		for (size_t i = 0; i < o->columns.n; i++) {
			struct zfs_value v = zfs_row_value(&rows->row[r], o->columns.name[i]);
			autofree char *shown = cell_of(&rows->row[r], o->columns.name[i], o->parsable);

			if (strcmp(o->columns.name[i], "name") != 0)
				zfs_value_json(props, o->columns.name[i], shown, &v, false, o->json_int);
		}
		cli_json_object(row, "properties", props);
		cli_json_object(all, rows->row[r].name, row);
	}
	cli_json_object(doc, "datasets", all);
	cli_json_print(doc, stdout);
}

/* Columns and sort keys, each once is enough. */
static int rows_query(struct list_options *o, struct zfs_query *q, struct zfs_rows *rows)
{
	const char **props = xcalloc(o->columns.n + o->nkeys, sizeof(char *));
	int err;

	for (size_t i = 0; i < o->columns.n; i++)
		props[i] = o->columns.name[i];
	for (size_t i = 0; i < o->nkeys; i++)
		props[o->columns.n + i] = o->keys[i].property;
	q->props = props;
	q->nprops = o->columns.n + o->nkeys;
	err = zfs_rows_get(q, rows);
	free(props);
	return err;
}

/* A snapshot or bookmark that is named is listed whatever the types. */
static bool names_a_leaf(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strpbrk(names[i], "@#"))
			return true;
	return false;
}

static void query_make(const struct list_options *o, char **names, size_t n, struct zfs_query *q)
{
	*q = (struct zfs_query){.names = names, .nnames = n, .depth = UINT64_MAX};
	q->types = o->has_types ? o->types : DSL_FILESYSTEM | DSL_VOLUME;
	q->listsnapshots = !o->has_types && !names_a_leaf(names, n);
	if (!o->has_types && names_a_leaf(names, n))
		q->types |= DSL_SNAPSHOT | DSL_BOOKMARK;
	if (o->has_depth)
		q->depth = o->depth;
	else if (n && !o->recursive)
		q->depth = o->has_types && (o->types & (DSL_SNAPSHOT | DSL_BOOKMARK)) ? 1 : 0;
}

int zfs_list(int argc, char **argv)
{
	struct list_options o = {0};
	struct zfs_query q;
	struct zfs_rows rows = {NULL, 0, false};
	int err = options_parse(&o, argc, argv);

	if (!err) {
		query_make(&o, argv + optind, (size_t)(argc - optind), &q);
		err = rows_query(&o, &q, &rows);
	}
	if (!err) {
		zfs_rows_sort(&rows, o.keys, o.nkeys);
		if (o.json)
			list_print_json(&o, &rows);
		else if (rows.n)
			list_print(&o, &rows);
		else if (!rows.failed && !o.scripted)
			fprintf(stderr, "no datasets available\n");
		err = rows.failed ? CLI_ERROR : CLI_OK;
	}
	zfs_rows_free(&rows);
	zfs_names_free(&o.columns);
	free(o.keys);
	return err;
}
