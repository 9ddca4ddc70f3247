#include "cli/zfs.h"

#include <limits.h>
#include <sys/stat.h>

/* ---- asking ---- */

unsigned zfs_types_parse(const char *text)
{
	static const struct {
		const char *word;
		unsigned type;
	} words[] = {
	    {"filesystem", DSL_FILESYSTEM},
	    {"fs", DSL_FILESYSTEM},
	    {"volume", DSL_VOLUME},
	    {"vol", DSL_VOLUME},
	    {"snapshot", DSL_SNAPSHOT},
	    {"snap", DSL_SNAPSHOT},
	    {"bookmark", DSL_BOOKMARK},
	    {"bookmarks", DSL_BOOKMARK},
	    {"all", DSL_FILESYSTEM | DSL_VOLUME | DSL_SNAPSHOT | DSL_BOOKMARK},
	};
	autofree char *copy = xstrdup(text);
	unsigned types = 0;
	char *save = NULL;

	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		unsigned before = types;

		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			if (strcmp(words[i].word, w) == 0)
				types |= words[i].type;
		if (types == before)
			return 0;
	}
	return types;
}

struct mount_search {
	char path[PATH_MAX];
	dev_t dev;
	size_t best;
	char *name;
};

/* Something else may be mounted in a directory of ours. */
static bool is_on_device(const char *dir, dev_t dev)
{
	struct stat st;

	return stat(dir, &st) == 0 && st.st_dev == dev;
}

static int mount_match(void *arg, const struct nvlist *item)
{
	struct mount_search *s = arg;
	const char *dir = nvlist_string_or(item, "dir", "");
	size_t len = strlen(dir);
	bool below = strncmp(s->path, dir, len) == 0 && (s->path[len] == 0 || s->path[len] == '/' || len == 1);

	if (!below || len <= s->best || !is_on_device(dir, s->dev))
		return 0;
	s->best = len;
	free(s->name);
	s->name = xstrdup(nvlist_string_or(item, "name", ""));
	return 0;
}

char *zfs_name_of(const char *word)
{
	struct mount_search s = {.best = 0};
	struct err e = ERR_INIT;
	struct stat st;

	if (word[0] != '/' && strncmp(word, "./", 2) != 0)
		return xstrdup(word);
	if (!realpath(word, s.path) || stat(s.path, &st)) {
		fprintf(stderr, "cannot open '%s': %s\n", word, strerror(errno));
		return NULL;
	}
	s.dev = st.st_dev;
	if (cli_ask("dataset.mounts", NULL, mount_match, &s, NULL, &e))
		cli_fail("open", word, &e);
	else if (!s.name)
		fprintf(stderr, "cannot open '%s': not a mounted ZFS file system\n", word);
	return s.name;
}

static int pool_collect(void *arg, const struct nvlist *item)
{
	struct zfs_names *with = arg;
	struct nvlist *props, *p;

	if (nvlist_list(item, "props", &props) == 0 && nvlist_list(props, "listsnapshots", &p) == 0 &&
	    strcmp(nvlist_string_or(p, "value", "off"), "on") == 0) {
		with->name = xrealloc(with->name, (with->n + 1) * sizeof(char *));
		with->name[with->n++] = xstrdup(nvlist_string_or(item, "name", ""));
	}
	return 0;
}

struct collecting {
	struct zfs_rows *rows;
	const struct zfs_names *snapshot_pools; /* NULL: snapshots of all pools are wanted */
};

static bool names_contain(const struct zfs_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->name[i], name) == 0)
			return true;
	return false;
}

static int row_collect(void *arg, const struct nvlist *item)
{
	struct collecting *c = arg;
	const char *error = nvlist_string_or(item, "error", NULL), *name = nvlist_string_or(item, "name", "");
	const char *pool = nvlist_string_or(item, "pool", "");
	unsigned type = (unsigned)nvlist_u64_or(item, "type", 0);
	struct nvlist *props = NULL;

	if (error) {
		fprintf(stderr, "cannot open '%s': %s\n", name, error);
		c->rows->failed = true;
		return 0;
	}
	if ((type & DSL_SNAPSHOT) && c->snapshot_pools && !names_contain(c->snapshot_pools, pool))
		return 0;
	nvlist_list(item, "properties", &props);
	c->rows->row = xrealloc(c->rows->row, (c->rows->n + 1) * sizeof(struct zfs_row));
	c->rows->row[c->rows->n++] = (struct zfs_row){.name = xstrdup(name),
						      .type = type,
						      .createtxg = nvlist_u64_or(item, "createtxg", 0),
						      .pool = xstrdup(pool),
						      .props = props ? nvlist_copy(props) : nvlist_create()};
	return 0;
}

/* Paths become names; ones that are no data set's are told and left out. */
static struct zfs_names names_resolve(const struct zfs_query *q, bool *failed)
{
	struct zfs_names out = {NULL, 0};

	for (size_t i = 0; i < q->nnames; i++) {
		char *name = zfs_name_of(q->names[i]);

		if (!name) {
			*failed = true;
			continue;
		}
		out.name = xrealloc(out.name, (out.n + 1) * sizeof(char *));
		out.name[out.n++] = name;
	}
	return out;
}

int zfs_rows_get(const struct zfs_query *q, struct zfs_rows *rows)
{
	autonv struct nvlist *args = nvlist_create();
	struct zfs_names with = {NULL, 0}, names;
	struct collecting c = {rows, NULL};
	struct err e = ERR_INIT;
	unsigned types = q->types;
	int err = 0;

	*rows = (struct zfs_rows){NULL, 0, false};
	names = names_resolve(q, &rows->failed);
	if (q->listsnapshots) {
		err = cli_ask("pool.list", NULL, pool_collect, &with, NULL, &e);
		c.snapshot_pools = &with;
		types |= with.n ? DSL_SNAPSHOT : 0;
	}
	if (names.n)
		nvlist_add_strings(args, "names", (const char *const *)names.name, names.n);
	if (q->depth != UINT64_MAX)
		nvlist_add_u64(args, "depth", q->depth);
	nvlist_add_u64(args, "types", types);
	if (q->props)
		nvlist_add_strings(args, "props", q->props, q->nprops);
	if (!err && (names.n || !q->nnames))
		err = cli_ask("dataset.list", args, row_collect, &c, NULL, &e);
	zfs_names_free(&with);
	zfs_names_free(&names);
	if (err)
		return cli_fail("list data sets", NULL, &e);
	return CLI_OK;
}

static void row_free(struct zfs_row *r)
{
	free(r->name);
	free(r->pool);
	nvlist_destroy(r->props);
}

void zfs_rows_free(struct zfs_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		row_free(&rows->row[i]);
	free(rows->row);
}

struct zfs_value zfs_row_value(const struct zfs_row *r, const char *property)
{
	struct zfs_value v = {.source = "-"};
	struct nvlist *p;

	if (strcmp(property, "name") == 0) {
		v.exact = r->name;
		return v;
	}
	if (nvlist_list(r->props, property, &p))
		return v;
	v.exact = nvlist_string_or(p, "value", NULL);
	v.source = nvlist_string_or(p, "source", "-");
	v.received = nvlist_string_or(p, "received", NULL);
	v.has_number = nvlist_u64(p, "number", &v.number) == 0;
	return v;
}

char *zfs_value_show(const char *property, const char *exact, bool parsable)
{
	char text[SIZE_TEXT];

	/* userused@... and written@... have no entry in the table: bytes, quotas with none for 0, objects as counts */
	if (!dsl_prop_find(property) && strpbrk(property, "@#") && !strchr(property, ':') && *exact &&
	    exact[strspn(exact, "0123456789")] == 0 && !parsable) {
		if (strstr(property, "quota@") && strcmp(exact, "0") == 0)
			return xstrdup("none");
		size_print(strtoull(exact, NULL, 10), !strstr(property, "obj"), text);
		return xstrdup(text);
	}
	return cli_property_show(dsl_prop_find(property), exact, parsable);
}

/* ---- order ---- */

/* qsort has no argument for them. */
static const struct zfs_sort_key *sort_keys;
static size_t sort_nkeys;

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Rows a key does not apply to come last in both directions. */
static int compare_key(const struct zfs_row *a, const struct zfs_row *b, const struct zfs_sort_key *key)
{
	struct zfs_value va = zfs_row_value(a, key->property), vb = zfs_row_value(b, key->property);
	int c;

	if (!va.exact || !vb.exact)
		return !va.exact - !vb.exact;
	c = va.has_number && vb.has_number ? compare_numbers(va.number, vb.number) : strcmp(va.exact, vb.exact);
	return key->descending ? -c : c;
}

static int compare_names(const struct zfs_row *a, const struct zfs_row *b)
{
	size_t la = strcspn(a->name, "@#"), lb = strcspn(b->name, "@#");
	int c = memcmp(a->name, b->name, MIN(la, lb));

	if (c == 0)
		c = (la > lb) - (la < lb);
	if (c == 0)
		c = (a->name[la] != 0) - (b->name[lb] != 0);
	if (c == 0)
		c = (a->name[la] == '#') - (b->name[lb] == '#');
	if (c == 0)
		c = compare_numbers(a->createtxg, b->createtxg);
	return c ? c : strcmp(a->name, b->name);
}

static int compare_rows(const void *pa, const void *pb)
{
	int c = 0;

	for (size_t i = 0; i < sort_nkeys && c == 0; i++)
		c = compare_key(pa, pb, &sort_keys[i]);
	return c ? c : compare_names(pa, pb);
}

/* Whoever names a data set twice, or it and what it is below, sees it once. */
static void duplicates_drop(struct zfs_rows *rows)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->n; i++) {
		if (kept && strcmp(rows->row[kept - 1].name, rows->row[i].name) == 0)
			row_free(&rows->row[i]);
		else
			rows->row[kept++] = rows->row[i];
	}
	rows->n = kept;
}

void zfs_rows_sort(struct zfs_rows *rows, const struct zfs_sort_key *keys, size_t nkeys)
{
	sort_keys = keys;
	sort_nkeys = nkeys;
	if (rows->n)
		qsort(rows->row, rows->n, sizeof(*rows->row), compare_rows);
	duplicates_drop(rows);
}

/* ---- property names ---- */

const char *zfs_property_name(const char *word)
{
	static const char *const prefixes[] = {"userused@",    "userquota@",    "userobjused@",    "userobjquota@",
					       "groupused@",   "groupquota@",   "groupobjused@",   "groupobjquota@",
					       "projectused@", "projectquota@", "projectobjused@", "projectobjquota@",
					       "written@",     "written#"};
	const struct prop_def *def = dsl_prop_find(word);

	if (def)
		return def->name;
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (strncmp(word, prefixes[i], strlen(prefixes[i])) == 0 && word[strlen(prefixes[i])])
			return word;
	return strchr(word, ':') ? word : NULL;
}

static void names_add(struct zfs_names *out, const char *name)
{
	out->name = xrealloc(out->name, (out->n + 1) * sizeof(char *));
	out->name[out->n++] = xstrdup(name);
}

int zfs_property_list(const char *text, struct zfs_names *out)
{
	autofree char *copy = xstrdup(text);
	char *save = NULL;

	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		const char *name = zfs_property_name(w);

		if (strcmp(text, "all") == 0) {
			for (size_t i = 0; i < dsl_prop_table_len; i++)
				if (!dsl_prop_table[i].hidden)
					names_add(out, dsl_prop_table[i].name);
			continue;
		}
		if (!name) {
			fprintf(stderr, "bad property list: invalid property '%s'\n", w);
			return CLI_USAGE;
		}
		names_add(out, name);
	}
	return CLI_OK;
}

void zfs_names_free(struct zfs_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct zfs_names){NULL, 0};
}

bool zfs_depth_parse(const char *text, uint64_t *out)
{
	char *end;

	*out = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end)
		return true;
	fprintf(stderr, "invalid depth '%s': give a number\n", text);
	return false;
}

/* ---- JSON ---- */

static const char *type_word(unsigned type)
{
	return type & DSL_SNAPSHOT    ? "SNAPSHOT"
	       : type == DSL_VOLUME   ? "VOLUME"
	       : type == DSL_BOOKMARK ? "BOOKMARK"
				      : "FILESYSTEM";
}

struct cli_json *zfs_row_json(const struct zfs_row *r, bool json_int)
{
	struct cli_json *o = cli_json_create();
	size_t len = strcspn(r->name, "@#");

	cli_json_string(o, "name", r->name);
	cli_json_string(o, "type", type_word(r->type));
	cli_json_string(o, "pool", r->pool);
	cli_json_number(o, "createtxg", r->createtxg, json_int);
	if (r->type & DSL_SNAPSHOT) {
		autofree char *dataset = xasprintf("%.*s", (int)len, r->name);

		cli_json_string(o, "dataset", dataset);
		cli_json_string(o, "snapshot_name", r->name + len + (r->name[len] != 0));
	}
	return o;
}

static struct cli_json *source_json(const char *source)
{
	static const char inherited[] = "inherited from ";
	static const struct {
		const char *word, *type;
	} types[] = {{"local", "LOCAL"}, {"default", "DEFAULT"}, {"temporary", "TEMPORARY"}, {"received", "RECEIVED"}};
	struct cli_json *o = cli_json_create();
	const char *type = "NONE", *data = "-";

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(source, types[i].word) == 0)
			type = types[i].type;
	if (strncmp(source, inherited, sizeof(inherited) - 1) == 0) {
		type = "INHERITED";
		data = source + sizeof(inherited) - 1;
	}
	cli_json_string(o, "type", type);
	cli_json_string(o, "data", data);
	return o;
}

void zfs_value_json(struct cli_json *props, const char *name, const char *shown, const struct zfs_value *v,
		    bool with_received, bool json_int)
{
	struct cli_json *o = cli_json_create();

	cli_json_value(o, "value", shown, json_int);
	cli_json_object(o, "source", source_json(v->source));
	if (with_received)
		cli_json_string(o, "received", v->received ? v->received : "-");
	cli_json_object(props, name, o);
}
