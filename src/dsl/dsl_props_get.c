/*
 * dsl/dsl_props_get.c: all properties of a data set or bookmark, with values and sources as they are shown.
 */
#include "base/str.h"
#include "dsl/dsl_deadlist.h"
#include "dsl/dsl_live.h"

#define USER_PROPS_MAX 100000

static bool prop_applies(const struct props_request *r, const struct prop_def *def)
{
	if (!r->ds->is_snapshot)
		return def->types & r->type;
	/* A snapshot has what is for snapshots of its kind. */
	return (def->types & DSL_SNAPSHOT) && ((def->types & r->type) || !(def->types & (DSL_FILESYSTEM | DSL_VOLUME)));
}

int dsl_prop_get_stored(struct props_request *r, const struct prop_def *def, struct prop_out *o)
{
	struct prop_found f;
	int err = dsl_prop_find_value(r->ds, r->own, def->name, def, &f);

	if (err)
		return err;
	o->number = f.number;
	if (f.is_string)
		o->string = xstrdup(f.string ? f.string : "");
	prop_source_text(&f, o->source);
	return 0;
}

static bool prop_get_temporary(struct props_request *r, const struct prop_def *def, struct prop_out *o)
{
	char text[DSL_NAME_MAX];

	if (!dsl_prop_temporary(r->ds->pool, r->ds->object, def->name, text, sizeof(text)))
		return false;
	str_copy(o->source, sizeof(o->source), "temporary");
	if (def->kind == PROP_STRING)
		o->string = xstrdup(text);
	else if (!prop_index_value(def, text, &o->number))
		o->number = strtoull(text, NULL, 10);
	return true;
}

/* The set in which the data set's own received values are. */
static const struct prop_set *own_set(const struct props_request *r)
{
	return r->ds->is_snapshot ? r->own : dsl_dir_props(r->ds->dir);
}

static void add_received(const struct props_request *r, const char *name, const struct prop_def *def, struct nvlist *l)
{
	const struct prop_value *v = prop_set_find(own_set(r), name, PROP_RECEIVED);
	char buf[32];

	if (!v)
		return;
	if (v->is_string)
		nvlist_add_string(l, "received", v->string);
	else if (def)
		nvlist_add_string(l, "received", prop_number_text(def, v->number, buf, sizeof(buf)));
}

static struct nvlist *value_to_nvlist(const struct prop_def *def, const struct prop_out *o)
{
	struct nvlist *l = nvlist_create();
	char buf[32];

	if (def->kind == PROP_STRING) {
		nvlist_add_string(l, "value", o->string);
	} else {
		nvlist_add_string(l, "value", prop_number_text(def, o->number, buf, sizeof(buf)));
		nvlist_add_u64(l, "number", o->number);
	}
	nvlist_add_string(l, "source", o->source);
	return l;
}

static void add_native(struct props_request *r, const struct prop_def *def, struct nvlist *out)
{
	struct prop_out o = {.source = "-"};
	prop_getter get = dsl_prop_getter(def);
	struct nvlist *l;
	int err = 0;

	if (!prop_get_temporary(r, def, &o))
		err = get ? get(r, def, &o) : dsl_prop_get_stored(r, def, &o);
	if (!err) {
		l = value_to_nvlist(def, &o);
		add_received(r, def->name, def, l);
		nvlist_take_list(out, def->name, l);
	}
	free(o.string);
}

/* --- user properties --- */

static void add_user(struct props_request *r, const char *name, struct nvlist *out)
{
	char source[DSL_NAME_MAX + 16];
	struct prop_found f;
	struct nvlist *l;

	if (dsl_prop_find_value(r->ds, r->own, name, NULL, &f))
		return;
	prop_source_text(&f, source);
	l = nvlist_create();
	nvlist_add_string(l, "value", f.string);
	nvlist_add_string(l, "source", source);
	add_received(r, name, NULL, l);
	nvlist_take_list(out, name, l);
}

static void user_names_collect(const struct prop_set *s, struct name_list *names)
{
	for (size_t i = 0; s && i < s->n && names->n < USER_PROPS_MAX; i++)
		if (strchr(s->v[i].name, ':') && (i == 0 || strcmp(s->v[i].name, s->v[i - 1].name) != 0))
			name_list_add(names, s->v[i].name, 0, 0);
}

static void add_all_user(struct props_request *r, struct nvlist *out)
{
	struct name_list names = {0};

	user_names_collect(r->own, &names);
	for (struct dsl_dir *d = r->ds->dir; d; d = d->up)
		user_names_collect(dsl_dir_props(d), &names);
	name_list_sort(&names);
	for (size_t i = 0; i < names.n; i++)
		if (i == 0 || strcmp(names.e[i].name, names.e[i - 1].name) != 0)
			add_user(r, names.e[i].name, out);
	name_list_free(&names);
}

/* --- names with a parameter --- */

/* Their source is always "local". */
static void add_number(struct nvlist *out, const char *name, uint64_t v)
{
	struct nvlist *l = nvlist_create();
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	nvlist_add_string(l, "value", text);
	nvlist_add_u64(l, "number", v);
	nvlist_add_string(l, "source", "local");
	nvlist_take_list(out, name, l);
}

static void add_userspace(struct props_request *r, const char *name, struct nvlist *out)
{
	struct objset *os;
	uint64_t v;

	if (r->type == DSL_FILESYSTEM && props_request_objset(r, &os) == 0 && dsl_userspace_get(os, name, &v) == 0)
		add_number(out, name, v);
}

/* "written@x" is of the data set's own dir, or x is a full name. */
static void add_written_since(struct props_request *r, const char *name, struct nvlist *out)
{
	const char *snap = name + strlen("written@");
	struct dsl_dataset *old;
	struct dsl_space s;
	char full[2 * DSL_NAME_MAX];

	if (strchr(snap, '@'))
		snprintf(full, sizeof(full), "%s", snap);
	else
		snprintf(full, sizeof(full), "%s@%s", r->ds->dir->name, snap);
	if (dsl_dataset_hold(r->ds->pool, full, &old, NULL))
		return;
	if (dsl_written_since(r->ds, old, &s) == 0)
		add_number(out, name, s.used);
	dsl_dataset_release(old);
}

struct bookmark_search {
	const char *name;
	struct dsl_dataset *ds;
	uint64_t used;
};

static int bookmark_match(void *arg, const struct dsl_bookmark *b)
{
	struct bookmark_search *s = arg;
	struct dsl_space space;

	if (strcmp(b->name, s->name) != 0)
		return 0;
	if (dsl_written_since_bookmark(s->ds, b, &space))
		return -ENOENT;
	s->used = space.used;
	return 1;
}

static void add_written_since_bookmark(struct props_request *r, const char *name, struct nvlist *out)
{
	const char *hash = strrchr(name, '#');
	struct bookmark_search s = {.name = hash + 1, .ds = r->ds};
	struct dsl_dataset *head;

	if (dsl_dataset_hold_obj(r->ds->pool, r->ds->dir->head, &head, NULL))
		return;
	if (dsl_each_bookmark(head, bookmark_match, &s) == 1)
		add_number(out, name, s.used);
	dsl_dataset_release(head);
}

static void add_named(struct props_request *r, const char *name, struct nvlist *out)
{
	if (dsl_name_is_userspace(name))
		add_userspace(r, name, out);
	else if (strncmp(name, "written@", 8) == 0)
		add_written_since(r, name, out);
	else if (strncmp(name, "written#", 8) == 0)
		add_written_since_bookmark(r, name, out);
	else if (strchr(name, ':'))
		add_user(r, name, out);
}

/* --- requests --- */

static void add_listed(struct props_request *r, const char *const *names, size_t n, struct nvlist *out)
{
	autofree bool *wanted = xcalloc(dsl_prop_table_len, sizeof(*wanted));

	for (size_t i = 0; i < n; i++) {
		const struct prop_def *def = dsl_prop_find(names[i]);

		if (def)
			wanted[def - dsl_prop_table] = true;
	}
	for (size_t i = 0; i < dsl_prop_table_len; i++)
		if (wanted[i] && prop_applies(r, &dsl_prop_table[i]))
			add_native(r, &dsl_prop_table[i], out);
	for (size_t i = 0; i < n; i++)
		if (!dsl_prop_find(names[i]))
			add_named(r, names[i], out);
}

int dsl_props_get(struct dsl_dataset *ds, const char *const *names, size_t n, struct nvlist **out, struct err *e)
{
	DSL_SHARED(ds->pool);
	struct props_request r = {.ds = ds};
	int err = dsl_dataset_type(ds, &r.type);

	if (err)
		return err_set(e, err, "'%s' cannot be read: %s", ds->name, err_words(err));
	r.type &= DSL_FILESYSTEM | DSL_VOLUME;
	r.own = dsl_snapshot_props(ds);
	*out = nvlist_create();
	if (names) {
		add_listed(&r, names, n, *out);
	} else {
		for (size_t i = 0; i < dsl_prop_table_len; i++)
			if (!dsl_prop_table[i].hidden && prop_applies(&r, &dsl_prop_table[i]))
				add_native(&r, &dsl_prop_table[i], *out);
		add_all_user(&r, *out);
	}
	if (r.os)
		dsl_dataset_close_objset(ds, r.os);
	prop_set_free(r.own);
	return 0;
}

/* --- bookmarks --- */

static int bookmark_value(struct dsl_dataset *head, const struct dsl_bookmark *b, const char *name, struct prop_out *o)
{
	uint64_t *guids;
	size_t n;

	if (strcmp(name, "type") == 0)
		o->string = xstrdup("bookmark");
	else if (strcmp(name, "name") == 0)
		o->string = xasprintf("%s#%s", head->name, b->name);
	else if (strcmp(name, "creation") == 0)
		o->number = b->creation_time;
	else if (strcmp(name, "createtxg") == 0)
		o->number = b->creation_txg;
	else if (strcmp(name, "guid") == 0)
		o->number = b->guid;
	else if (strcmp(name, "referenced") == 0 && b->written_valid)
		o->number = b->referenced;
	else if (strcmp(name, "logicalreferenced") == 0 && b->written_valid)
		o->number = b->uncompressed;
	else if (strcmp(name, "ivsetguid") == 0 && b->ivset_guid_valid)
		o->number = b->ivset_guid;
	else if (strcmp(name, "redact_snaps") == 0 && dsl_bookmark_redact_snaps(head->pool, b, &guids, &n) == 0) {
		o->string = guid_list_text(guids, n);
		free(guids);
	} else
		return -ENOENT;
	return 0;
}

int dsl_bookmark_props_get(struct dsl_dataset *head, const struct dsl_bookmark *b, struct nvlist **out, struct err *e)
{
	DSL_SHARED(head->pool);

	*out = nvlist_create();
	for (size_t i = 0; i < dsl_prop_table_len; i++) {
		const struct prop_def *def = &dsl_prop_table[i];
		struct prop_out o = {.source = "-"};

		if (!(def->types & DSL_BOOKMARK) || def->hidden || bookmark_value(head, b, def->name, &o))
			continue;
		nvlist_take_list(*out, def->name, value_to_nvlist(def, &o));
		free(o.string);
	}
	return 0;
}
