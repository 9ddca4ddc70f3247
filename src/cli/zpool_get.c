#include "cli/zpool.h"

#include <getopt.h>
#include <inttypes.h>

enum field { FIELD_NAME, FIELD_PROPERTY, FIELD_VALUE, FIELD_SOURCE, FIELD_COUNT };
static const char *const field_names[FIELD_COUNT] = {"name", "property", "value", "source"};
static const char *const field_headers[FIELD_COUNT] = {"NAME", "PROPERTY", "VALUE", "SOURCE"};

struct get_options {
	bool scripted, parsable, json, json_int, json_guid;
	enum field field[FIELD_COUNT];
	size_t nfields;
	const char *props; /* "all" or a list */
	struct cli_table *table;
	struct cli_json *all;
	bool vdevs; /* what is asked about are devices */
	bool failed, found;
};

static bool fields_parse(struct get_options *o, const char *text)
{
	autofree char *copy = xstrdup(strcmp(text, "all") == 0 ? "name,property,value,source" : text);
	char *save = NULL;

	o->nfields = 0;
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		size_t f = 0;

		while (f < FIELD_COUNT && strcmp(w, field_names[f]))
			f++;
		if (f == FIELD_COUNT || o->nfields == FIELD_COUNT)
			return false;
		o->field[o->nfields++] = (enum field)f;
	}
	return o->nfields > 0;
}

static void value_add(struct get_options *o, struct cli_json *json, const char *name, const char *property,
		      const struct zpool_value *v)
{
	autofree char *shown = zpool_value_show(property, v, o->parsable);
	const char *all[FIELD_COUNT] = {name, property, shown, v->source}, *cells[FIELD_COUNT];

	if (json) {
		struct cli_json *one = cli_json_create(), *source = cli_json_create();

		cli_json_value(one, "value", shown, o->json_int);
		cli_json_string(source, "type",
				strcmp(v->source, "local") == 0     ? "LOCAL"
				: strcmp(v->source, "default") == 0 ? "DEFAULT"
								    : "NONE");
		cli_json_string(source, "data", "-");
		cli_json_object(one, "source", source);
		cli_json_object(json, property, one);
		return;
	}
	for (size_t i = 0; i < o->nfields; i++)
		cells[i] = all[o->field[i]];
	cli_table_add(o->table, cells);
	o->found = true;
}

/* The properties asked for of one pool or device. */
static void props_add(struct get_options *o, struct cli_json *json, const char *name, const struct nvlist *props)
{
	autofree char *copy = xstrdup(o->props);
	char *save = NULL;

	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		if (strcmp(w, "all") == 0) {
			for (const struct nvpair *p = nvlist_first(props); p; p = nvlist_next(props, p)) {
				struct zpool_value v = zpool_value_of(props, nvpair_name(p));

				value_add(o, json, name, nvpair_name(p), &v);
			}
			continue;
		}
		if (!nvlist_exists(props, w) && !strchr(w, ':')) {
			if (!o->failed)
				fprintf(stderr, "bad property list: invalid property '%s'\n", w);
			o->failed = true;
			return;
		}
		struct zpool_value v = zpool_value_of(props, w);

		value_add(o, json, name, w, &v);
	}
}

static void pool_add(struct get_options *o, const struct nvlist *pool)
{
	static const char *const numbers[] = {"pool_guid", "txg", "spa_version", "zpl_version"};
	const char *name = nvlist_string_or(pool, "name", "?");
	struct cli_json *one, *json = o->json ? cli_json_create() : NULL;
	struct nvlist *props;
	char guid[24];

	if (nvlist_list(pool, "props", &props) == 0)
		props_add(o, json, name, props);
	if (!json)
		return;
	one = cli_json_create();
	cli_json_string(one, "name", name);
	cli_json_string(one, "type", "POOL");
	cli_json_string(one, "state", nvlist_string_or(pool, "state", "?"));
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		cli_json_number(one, numbers[i], nvlist_u64_or(pool, numbers[i], 0), o->json_int);
	cli_json_object(one, "properties", json);
	snprintf(guid, sizeof(guid), "%" PRIu64, nvlist_u64_or(pool, "pool_guid", 0));
	cli_json_object(o->all, o->json_guid ? guid : name, one);
}

static int pools_get(struct get_options *o, char *const *names, size_t n)
{
	autonv struct nvlist *args = nvlist_create();
	struct cli_items pools;
	int failed = zpool_ask_pools("pool.list", args, names, n, &pools);

	for (size_t i = 0; i < pools.n; i++)
		pool_add(o, pools.item[i]);
	cli_items_free(&pools);
	return failed;
}

/* ---- devices ---- */

static void vdev_add(struct get_options *o, const char *name, const struct nvlist *props)
{
	struct cli_json *json = o->json ? cli_json_create() : NULL, *one;

	props_add(o, json, name, props);
	if (!json)
		return;
	one = cli_json_create();
	cli_json_string(one, "name", name);
	cli_json_string(one, "type", "VDEV");
	cli_json_object(one, "properties", json);
	cli_json_object(o->all, name, one);
}

static int vdev_item(void *arg, const struct nvlist *item)
{
	struct nvlist *props;

	if (nvlist_list(item, "props", &props) == 0)
		vdev_add(arg, nvlist_string_or(item, "name", "?"), props);
	return 0;
}

static int vdev_get(struct get_options *o, const char *pool, const char *vdev)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;
	struct nvlist *props;
	struct err e = ERR_INIT;

	nvlist_add_string(args, "name", pool);
	nvlist_add_string(args, "vdev", vdev);
	if (cli_ask("pool.get", args, vdev_item, o, &result, &e))
		return cli_fail("get properties of", vdev, &e);
	if (nvlist_list(result, "props", &props) == 0)
		vdev_add(o, vdev, props);
	return CLI_OK;
}

bool zpool_pool_exists(const char *name)
{
	autonv struct nvlist *args = nvlist_create(), *result = NULL;

	nvlist_add_string(args, "name", name);
	return cli_ask("pool.get", args, NULL, NULL, &result, NULL) == 0;
}

/* POOL VDEV... when the second word is no pool. */
static int names_get(struct get_options *o, char **names, size_t n)
{
	int failed = CLI_OK;

	if (n < 2 || zpool_pool_exists(names[1]))
		return pools_get(o, names, n);
	o->vdevs = true;
	for (size_t i = 1; i < n; i++)
		if (vdev_get(o, names[0], names[i]))
			failed = CLI_ERROR;
	return failed;
}

int zpool_get(int argc, char **argv)
{
	static const struct option longs[] = {{"json", no_argument, NULL, 'j'},
					      {"json-int", no_argument, NULL, 'I'},
					      {"json-pool-key-guid", no_argument, NULL, 'G'},
					      {NULL, 0, NULL, 0}};
	struct get_options o = {0};
	const char *headers[FIELD_COUNT];
	struct cli_json *doc;
	int opt, err;

	fields_parse(&o, "all");
	while ((opt = getopt_long(argc, argv, "Hpo:j", longs, NULL)) != -1) {
		if (opt == 'H')
			o.scripted = true;
		else if (opt == 'p')
			o.parsable = true;
		else if (opt == 'j')
			o.json = true;
		else if (opt == 'I')
			o.json_int = o.parsable = true;
		else if (opt == 'G')
			o.json_guid = true;
		else if (opt != 'o' || !fields_parse(&o, optarg))
			return cli_usage("zpool", zpool_commands, "get", opt == 'o' ? "invalid field in '%s'" : NULL,
					 optarg);
	}
	if (!o.json && (o.json_int || o.json_guid))
		return cli_usage("zpool", zpool_commands, "get", "--json options go with -j");
	if (optind >= argc)
		return cli_usage("zpool", zpool_commands, "get", "missing property argument");
	o.props = argv[optind++];
	for (size_t i = 0; i < o.nfields; i++)
		headers[i] = field_headers[o.field[i]];
	o.table = cli_table_create(headers, NULL, o.nfields, o.scripted);
	o.all = cli_json_create();
	err = names_get(&o, argv + optind, (size_t)(argc - optind));
	if (o.json) {
		doc = cli_json_document("zpool get");
		cli_json_object(doc, o.vdevs ? "vdevs" : "pools", o.all);
		cli_json_print(doc, stdout);
	} else {
		cli_json_destroy(o.all);
		if (!o.failed && (!err || o.found))
			cli_table_print(o.table, stdout);
	}
	cli_table_destroy(o.table);
	return o.failed ? CLI_USAGE : err;
}
