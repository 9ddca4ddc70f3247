/*
 * dsl/dsl_deleg.c: delegated permissions (03-datasets.md 7.1): decoding of the who-keys and their jump ZAPs, grouped as
 * they are shown.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/os.h"
#include "dsl/dsl_live.h"

/* More than anybody grants; keeps a damaged table from taking forever. */
#define WHO_MAX  65536
#define PERM_MAX 4096

enum deleg_scope { SCOPE_LOCAL = 1, SCOPE_DESCENDENT = 2, SCOPE_BOTH = 3 };

/* Permissions of one user, group or everyone, with the scopes each is given for. */
struct who {
	char type; /* u, g, e */
	uint32_t id;
	struct name_list perms; /* object: scopes */
};
struct level {
	struct dsl_pool *pool;
	struct who *who;
	size_t nwho;
	struct nvlist *sets;
	struct name_list create;
};

static struct who *level_who(struct level *l, char type, uint32_t id)
{
	for (size_t i = 0; i < l->nwho; i++)
		if (l->who[i].type == type && l->who[i].id == id)
			return &l->who[i];
	l->who = xrealloc(l->who, (l->nwho + 1) * sizeof(*l->who));
	l->who[l->nwho] = (struct who){.type = type, .id = id};
	return &l->who[l->nwho++];
}

static void perm_add(struct name_list *perms, const char *name, unsigned scope)
{
	for (size_t i = 0; i < perms->n; i++) {
		if (strcmp(perms->e[i].name, name) == 0) {
			perms->e[i].object |= scope;
			return;
		}
	}
	name_list_add(perms, name, scope, 0);
}

/* Names in the list whose scopes are exactly `scope` (0: all), sorted. */
static bool perms_to_nvlist(struct name_list *perms, unsigned scope, struct nvlist *out, const char *key)
{
	const char **names = xcalloc(perms->n + 1, sizeof(*names));
	size_t n = 0;

	name_list_sort(perms);
	for (size_t i = 0; i < perms->n; i++)
		if (scope == 0 || perms->e[i].object == scope)
			names[n++] = perms->e[i].name;
	if (n)
		nvlist_add_strings(out, key, names, n);
	free(names);
	return n > 0;
}

/* T S $ ID */
static int who_key_parse(const char *key, char *type, unsigned *scope, const char **id)
{
	static const char types[] = "ugecsUGECS";

	if (strlen(key) < 3 || !strchr(types, key[0]) || key[2] != '$')
		return -EINVAL;
	*type = key[0] < 'a' ? key[0] - 'A' + 'a' : key[0];
	*id = key + 3;
	*scope = key[1] == 'l' ? SCOPE_LOCAL : key[1] == 'd' ? SCOPE_DESCENDENT : 0;
	if ((*scope == 0) != (*type == 'c' || *type == 's') || (*scope == 0 && key[1] != '-'))
		return -EINVAL;
	return 0;
}

static int id_parse(char type, const char *text, uint32_t *id)
{
	char *end;
	unsigned long long v;

	*id = 0;
	if (type == 'e')
		return *text ? -EINVAL : 0;
	v = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || v > UINT32_MAX)
		return -EINVAL;
	*id = v;
	return 0;
}

static int level_add_set(struct level *l, const char *set, struct name_list *jump)
{
	struct name_list all = {0};
	const char *const *old;
	size_t n;

	if (set[0] != '@')
		return -EINVAL;
	/* s-$@x and S-$@x are one set. */
	if (nvlist_strings(l->sets, set, &old, &n) == 0)
		for (size_t i = 0; i < n; i++)
			perm_add(&all, old[i], 0);
	for (size_t i = 0; i < jump->n; i++)
		perm_add(&all, jump->e[i].name, 0);
	perms_to_nvlist(&all, 0, l->sets, set);
	name_list_free(&all);
	return 0;
}

static int level_add(struct level *l, const char *key, struct name_list *jump)
{
	const char *id_text;
	struct name_list *to;
	unsigned scope;
	uint32_t id;
	char type;
	int err = who_key_parse(key, &type, &scope, &id_text);

	if (err)
		return err;
	if (type == 's')
		return level_add_set(l, id_text, jump);
	if (type == 'c') {
		to = &l->create;
	} else {
		err = id_parse(type, id_text, &id);
		if (err)
			return err;
		to = &level_who(l, type, id)->perms;
	}
	for (size_t i = 0; i < jump->n; i++)
		perm_add(to, jump->e[i].name, scope);
	return 0;
}

static int level_read(struct level *l, uint64_t deleg, const char *name)
{
	struct name_list keys;
	int err = name_list_read(l->pool->mos, deleg, &keys);

	if (err)
		return err;
	name_list_sort(&keys);
	for (size_t i = 0; i < keys.n && i < WHO_MAX; i++) {
		struct name_list jump;

		err = name_list_read(l->pool->mos, keys.e[i].object, &jump);
		if (!err && jump.n > PERM_MAX)
			err = -E2BIG;
		if (!err)
			err = level_add(l, keys.e[i].name, &jump);
		if (err)
			log_warn("%s: a delegation entry is left out: %s", name, err_words(err));
		name_list_free(&jump);
	}
	name_list_free(&keys);
	return 0;
}

static void who_name(const struct who *w, char *name, size_t size)
{
	int err = w->type == 'u' ? os_user_name(w->id, name, size) : os_group_name(w->id, name, size);

	if (err)
		snprintf(name, size, "%u", w->id);
}

static struct nvlist *who_to_nvlist(struct who *w, unsigned scope)
{
	struct nvlist *l = nvlist_create();
	char name[256];

	nvlist_add_string(l, "who", w->type == 'u' ? "user" : w->type == 'g' ? "group" : "everyone");
	if (w->type != 'e') {
		who_name(w, name, sizeof(name));
		nvlist_add_u64(l, "id", w->id);
		nvlist_add_string(l, "name", name);
	}
	if (perms_to_nvlist(&w->perms, scope, l, "permissions"))
		return l;
	nvlist_destroy(l);
	return NULL;
}

static void level_add_scope(struct level *l, unsigned scope, const char *key, struct nvlist *out)
{
	struct nvlist **lists = xcalloc(l->nwho + 1, sizeof(*lists));
	size_t n = 0;

	for (size_t i = 0; i < l->nwho; i++) {
		lists[n] = who_to_nvlist(&l->who[i], scope);
		n += lists[n] != NULL;
	}
	if (n)
		nvlist_add_lists(out, key, lists, n);
	for (size_t i = 0; i < n; i++)
		nvlist_destroy(lists[i]);
	free(lists);
}

/* Users by number, then groups, then everyone. */
static int who_cmp(const void *va, const void *vb)
{
	static const char order[] = "uge";
	const struct who *a = va, *b = vb;

	if (a->type != b->type)
		return strchr(order, a->type) < strchr(order, b->type) ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static void level_to_nvlist(struct level *l, struct nvlist *out)
{
	if (nvlist_len(l->sets))
		nvlist_add_list(out, "sets", l->sets);
	perms_to_nvlist(&l->create, 0, out, "create");
	if (l->nwho)
		qsort(l->who, l->nwho, sizeof(*l->who), who_cmp);
	level_add_scope(l, SCOPE_LOCAL, "local", out);
	level_add_scope(l, SCOPE_DESCENDENT, "descendent", out);
	level_add_scope(l, SCOPE_BOTH, "local+descendent", out);
}

static void level_free(struct level *l)
{
	for (size_t i = 0; i < l->nwho; i++)
		name_list_free(&l->who[i].perms);
	free(l->who);
	name_list_free(&l->create);
	nvlist_destroy(l->sets);
}

int dsl_deleg_get(struct dsl_dir *dir, struct nvlist **out)
{
	DSL_SHARED(dir->pool);
	struct nvlist *all = nvlist_create();

	for (struct dsl_dir *d = dir; d; d = d->up) {
		struct level l = {.pool = d->pool};
		struct nvlist *one;
		int err;

		if (d->deleg == 0)
			continue;
		l.sets = nvlist_create();
		err = level_read(&l, d->deleg, d->name);
		if (err) {
			level_free(&l);
			nvlist_destroy(all);
			return err;
		}
		one = nvlist_create();
		level_to_nvlist(&l, one);
		level_free(&l);
		if (nvlist_len(one))
			nvlist_take_list(all, d->name, one);
		else
			nvlist_destroy(one);
	}
	*out = all;
	return 0;
}
