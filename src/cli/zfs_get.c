#include "cli/zfs.h"

#include <getopt.h>

enum field { FIELD_NAME, FIELD_PROPERTY, FIELD_VALUE, FIELD_RECEIVED, FIELD_SOURCE, FIELD_COUNT };
static const char *const field_names[FIELD_COUNT] = {"name", "property", "value", "received", "source"};
static const char *const field_headers[FIELD_COUNT] = {"NAME", "PROPERTY", "VALUE", "RECEIVED", "SOURCE"};

static const char *const source_names[] = {"local", "default", "inherited", "received", "temporary", "none"};

struct get_options {
	bool recursive, has_depth, scripted, parsable, json, json_int, all, has_types;
	uint64_t depth;
	unsigned types, sources; /* sources: bit per source_names */
	enum field field[FIELD_COUNT];
	size_t nfields;
	struct zfs_names props;
};

static int fields_parse(struct get_options *o, const char *text)
{
	autofree char *copy = xstrdup(text);
	char *save = NULL;

	o->nfields = 0;
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		size_t f = 0;

		if (strcmp(w, "all") == 0)
			return fields_parse(o, "name,property,value,received,source");
		while (f < FIELD_COUNT && strcmp(w, field_names[f]))
			f++;
		if (f == FIELD_COUNT)
			return cli_usage("zfs", zfs_commands, "get", "invalid column name '%s'", w);
		if (o->nfields == FIELD_COUNT)
			return cli_usage("zfs", zfs_commands, "get", "too many fields given to -o option");
		o->field[o->nfields++] = (enum field)f;
	}
	return 0;
}

static int sources_parse(struct get_options *o, const char *text)
{
	autofree char *copy = xstrdup(text);
	char *save = NULL;

	o->sources = 0;
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		size_t s = 0;

		while (s < ARRAY_LEN(source_names) && strcmp(w, source_names[s]))
			s++;
		if (s == ARRAY_LEN(source_names))
			return cli_usage("zfs", zfs_commands, "get", "invalid source '%s'", w);
		o->sources |= 1u << s;
	}
	return 0;
}

static int option_take(struct get_options *o, int opt)
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
		return fields_parse(o, optarg);
	case 's':
		return sources_parse(o, optarg);
	case 't':
		o->types = zfs_types_parse(optarg);
		o->has_types = true;
		return o->types ? 0 : cli_usage("zfs", zfs_commands, "get", "invalid type '%s'", optarg);
	default:
		return cli_usage("zfs", zfs_commands, "get", NULL);
	}
}

static int options_parse(struct get_options *o, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"json", no_argument, NULL, 'j'}, {"json-int", no_argument, NULL, 'I'}, {NULL, 0, NULL, 0}};
	int opt, err;

	o->types = DSL_FILESYSTEM | DSL_VOLUME | DSL_SNAPSHOT | DSL_BOOKMARK;
	o->sources = (1u << ARRAY_LEN(source_names)) - 1;
	fields_parse(o, "name,property,value,source");
	while ((opt = getopt_long(argc, argv, "rd:Hpjo:s:t:", longs, NULL)) != -1)
		if ((err = option_take(o, opt)))
			return err;
	if (o->json_int && !o->json)
		return cli_usage("zfs", zfs_commands, "get", "--json-int only works with -j");
	if (o->json && o->scripted)
		return cli_usage("zfs", zfs_commands, "get", "-j and -H cannot be combined");
	if (optind >= argc)
		return cli_usage("zfs", zfs_commands, "get", "missing property argument");
	o->all = strcmp(argv[optind], "all") == 0;
	return o->all ? 0 : zfs_property_list(argv[optind], &o->props);
}

static bool source_is_wanted(const struct get_options *o, const char *source)
{
	for (size_t i = 0; i + 1 < ARRAY_LEN(source_names); i++)
		if (strncmp(source, source_names[i], strlen(source_names[i])) == 0)
			return o->sources & 1u << i;
	return o->sources & 1u << (ARRAY_LEN(source_names) - 1);
}

/* One line's worth. */
struct line {
	const struct zfs_row *row;
	const char *property;
	struct zfs_value value;
	char *shown;
};

struct output {
	const struct get_options *o;
	struct cli_table *table;
	size_t lines;           /* none: no header either */
	struct cli_json *props; /* of the present data set */
};

static bool shows_received(const struct get_options *o)
{
	for (size_t i = 0; i < o->nfields; i++)
		if (o->field[i] == FIELD_RECEIVED)
			return true;
	return false;
}

static void line_add(struct output *out, const struct line *l)
{
	const char *cells[FIELD_COUNT],
	    *all[FIELD_COUNT] = {l->row->name, l->property, l->shown, l->value.received ? l->value.received : "-",
				 l->value.source};

	if (out->o->json) {
		zfs_value_json(out->props, l->property, l->shown, &l->value, shows_received(out->o), out->o->json_int);
		return;
	}
	for (size_t i = 0; i < out->o->nfields; i++)
		cells[i] = all[out->o->field[i]];
	cli_table_add(out->table, cells);
	out->lines++;
}

static void property_add(struct output *out, const struct zfs_row *r, const char *property)
{
	struct line l = {.row = r, .property = property, .value = zfs_row_value(r, property)};

	if (!source_is_wanted(out->o, l.value.source))
		return;
	l.shown = l.value.exact ? zfs_value_show(property, l.value.exact, out->o->parsable) : xstrdup("-");
	line_add(out, &l);
	free(l.shown);
}

static void row_add(struct output *out, const struct zfs_row *r)
{
	if (!out->o->all) {
		for (size_t i = 0; i < out->o->props.n; i++)
			property_add(out, r, out->o->props.name[i]);
		return;
	}
	for (const struct nvpair *p = nvlist_first(r->props); p; p = nvlist_next(r->props, p)) {
		const struct prop_def *def = dsl_prop_find(nvpair_name(p));

		if (!def || !def->hidden)
			property_add(out, r, nvpair_name(p));
	}
}

static void rows_print(const struct get_options *o, const struct zfs_rows *rows)
{
	struct output out = {.o = o};
	const char *headers[FIELD_COUNT];

	for (size_t i = 0; i < o->nfields; i++)
		headers[i] = field_headers[o->field[i]];
	out.table = cli_table_create(headers, NULL, o->nfields, o->scripted);
	for (size_t r = 0; r < rows->n; r++)
		row_add(&out, &rows->row[r]);
	if (out.lines)
		cli_table_print(out.table, stdout);
	cli_table_destroy(out.table);
}

static void rows_print_json(const struct get_options *o, const struct zfs_rows *rows)
{
	struct cli_json *doc = cli_json_document("zfs get"), *all = cli_json_create();
	struct output out = {.o = o};

	for (size_t r = 0; r < rows->n; r++) {
		struct cli_json *row = zfs_row_json(&rows->row[r], o->json_int);

		out.props = cli_json_create();
		row_add(&out, &rows->row[r]);
		cli_json_object(row, "properties", out.props);
		cli_json_object(all, rows->row[r].name, row);
	}
	cli_json_object(doc, "datasets", all);
	cli_json_print(doc, stdout);
}

int zfs_get(int argc, char **argv)
{
	struct get_options o = {0};
	struct zfs_query q = {.depth = UINT64_MAX};
	struct zfs_rows rows = {NULL, 0, false};
	int err = options_parse(&o, argc, argv);

	if (!err) {
		q.names = argv + optind + 1;
		q.nnames = (size_t)(argc - optind - 1);
		q.types = o.types;
		q.props = o.all ? NULL : (const char *const *)o.props.name;
		q.nprops = o.props.n;
		if (o.has_depth)
			q.depth = o.depth;
		else if (q.nnames && !o.recursive)
			q.depth = o.has_types && (o.types & (DSL_SNAPSHOT | DSL_BOOKMARK)) ? 1 : 0;
		err = zfs_rows_get(&q, &rows);
	}
	if (!err) {
		zfs_rows_sort(&rows, NULL, 0);
		if (o.json)
			rows_print_json(&o, &rows);
		else if (rows.n)
			rows_print(&o, &rows);
		err = rows.failed ? CLI_ERROR : CLI_OK;
	}
	zfs_rows_free(&rows);
	zfs_names_free(&o.props);
	return err;
}
