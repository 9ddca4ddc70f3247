/*
 * dsl/dsl_deleg_write.c: allowing and disallowing (03-datasets.md 7.1, 7.2, 7.5).
 */
#include <inttypes.h>

#include "dsl/dsl_live.h"

#define VERSION_DELEGATION 8
#define SET_NAME_MAX       64 /* with its @ */

static const char *const permission_names[] = {
    "allow",       "bookmark",     "clone",          "create",          "destroy",        "diff",
    "mount",       "promote",      "receive",        "receive:append",  "rename",         "rollback",
    "snapshot",    "share",        "send",           "send:raw",        "send:encrypted", "userprop",
    "userquota",   "groupquota",   "userused",       "groupused",       "userobjquota",   "groupobjquota",
    "userobjused", "groupobjused", "hold",           "release",         "load-key",       "change-key",
    "projectused", "projectquota", "projectobjused", "projectobjquota",
};

/* Permissions of one who-key. */
struct grant {
	char key[32 + SET_NAME_MAX]; /* without its first letter's case settled */
	const char *const *names;
	size_t n;
};

struct grants {
	struct dsl_pool *p;
	const char *name;
	bool remove;
	struct grant *g;
	size_t n, cap;
};

/* --- what is asked for --- */

static bool set_name_is_sane(const char *name)
{
	size_t len = strlen(name);

	if (name[0] != '@' || len < 2 || len > SET_NAME_MAX)
		return false;
	return strspn(name + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.: ") == len - 1;
}

static bool permission_is_known(const char *name)
{
	const struct prop_def *def;

	for (size_t i = 0; i < ARRAY_LEN(permission_names); i++)
		if (strcmp(permission_names[i], name) == 0)
			return true;
	if (name[0] == '@')
		return set_name_is_sane(name);
	def = dsl_prop_find(name);
	return def && strcmp(def->name, name) == 0 && !def->readonly && strcmp(name, "mlslabel") != 0;
}

static int names_check(const char *const *names, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (!permission_is_known(names[i]))
			return err_set(e, -EINVAL, "invalid permission '%s'", names[i]);
	return 0;
}

static int grant_add(struct grants *all, char type, char scope, const char *id, const char *const *names, size_t n,
		     struct err *e)
{
	struct grant *g;
	int err = names_check(names, n, e);

	if (err)
		return err;
	if (n == 0 && !all->remove)
		return err_set(e, -EINVAL, "no permissions are given");
	if (all->n == all->cap) {
		all->cap = MAX(8, 2 * all->cap);
		all->g = xrealloc(all->g, all->cap * sizeof(*all->g));
	}
	g = &all->g[all->n++];
	*g = (struct grant){.names = names, .n = n};
	snprintf(g->key, sizeof(g->key), "%c%c$%s", type, scope, id);
	return 0;
}

static int who_add(struct grants *all, const struct nvlist *who, const char *scopes, struct err *e)
{
	const char *kind = nvlist_string_or(who, "who", ""), *const *names = NULL;
	char id[24] = "", type;
	size_t n = 0;
	int err = 0;

	type = strcmp(kind, "user") == 0 ? 'u' : strcmp(kind, "group") == 0 ? 'g' : 'e';
	if (type == 'e' && strcmp(kind, "everyone") != 0)
		return err_set(e, -EINVAL, "'%s' is no kind of user", kind);
	if (type != 'e')
		snprintf(id, sizeof(id), "%" PRIu64, nvlist_u64_or(who, "id", UINT64_MAX));
	nvlist_strings(who, "permissions", &names, &n);
	for (; *scopes && !err; scopes++)
		err = grant_add(all, type, *scopes, id, names, n, e);
	return err;
}

static int scope_add(struct grants *all, const struct nvlist *perms, const char *key, const char *scopes, struct err *e)
{
	struct nvlist *const *who;
	size_t n;
	int err = 0;

	if (nvlist_lists(perms, key, &who, &n))
		return 0;
	for (size_t i = 0; i < n && !err; i++)
		err = who_add(all, who[i], scopes, e);
	return err;
}

static int sets_add(struct grants *all, const struct nvlist *perms, struct err *e)
{
	struct nvlist *sets;
	int err = 0;

	if (nvlist_list(perms, "sets", &sets))
		return 0;
	for (const struct nvpair *p = nvlist_first(sets); p && !err; p = nvlist_next(sets, p)) {
		const char *const *names = NULL;
		size_t n = 0;

		if (!set_name_is_sane(nvpair_name(p)))
			return err_set(e, -EINVAL, "invalid permission set name '%s'", nvpair_name(p));
		nvlist_strings(sets, nvpair_name(p), &names, &n);
		err = grant_add(all, 's', '-', nvpair_name(p), names, n, e);
	}
	return err;
}

static int grants_parse(struct grants *all, const struct nvlist *perms, struct err *e)
{
	const char *const *names = NULL;
	size_t n = 0;
	int err = sets_add(all, perms, e);

	if (!err && nvlist_exists(perms, "create")) {
		nvlist_strings(perms, "create", &names, &n);
		err = grant_add(all, 'c', '-', "", names, n, e);
	}
	if (!err)
		err = scope_add(all, perms, "local", "l", e);
	if (!err)
		err = scope_add(all, perms, "descendent", "d", e);
	if (!err)
		err = scope_add(all, perms, "local+descendent", "ld", e);
	return err;
}

/* --- storing --- */

/* Lower case: permissions; upper case: sets. */
static void key_of(const struct grant *g, bool sets, char *key, size_t size)
{
	snprintf(key, size, "%s", g->key);
	if (sets)
		key[0] += 'A' - 'a';
}

static uint64_t jump_make(struct dsl_dir *d, const char *key, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	uint64_t jump = 0;

	if (!d->deleg) {
		d->deleg = dsl_mos_zap(p, DMU_OT_DSL_PERMS, tx);
		dsl_dir_store(d, tx);
	}
	if (d->deleg && zap_lookup_u64(p->mos, d->deleg, key, &jump) == -ENOENT)
		dsl_sync_check(p, zap_create_in(p->mos, DMU_OT_DSL_PERMS, d->deleg, key, tx, &jump),
			       "permissions cannot be stored");
	return jump;
}

static void jump_drop(struct dsl_dir *d, const char *key, uint64_t jump, struct tx *tx)
{
	dsl_sync_check(d->pool, zap_remove(d->pool->mos, d->deleg, key, tx), "permissions cannot be removed");
	dsl_sync_check(d->pool, dmu_object_free(d->pool->mos, jump, tx), "permissions cannot be removed");
}

static void grant_sync(struct dsl_dir *d, struct dsl_dataset *ds, const struct grant *g, struct tx *tx)
{
	char key[sizeof(g->key)];

	for (size_t i = 0; i < g->n; i++) {
		uint64_t jump;

		key_of(g, g->names[i][0] == '@', key, sizeof(key));
		jump = jump_make(d, key, tx);
		if (!jump)
			return;
		dsl_sync_check(d->pool, zap_update_u64(d->pool->mos, jump, g->names[i], 0, tx),
			       "permissions cannot be stored");
		dsl_history(d->pool, "permission update", ds, tx, "%s %s", key, g->names[i]);
	}
}

static void names_remove(struct dsl_dir *d, struct dsl_dataset *ds, const char *key, uint64_t jump,
			 const struct grant *g, bool sets, struct tx *tx)
{
	struct objset *mos = d->pool->mos;
	uint64_t n = 0;

	for (size_t i = 0; i < g->n; i++) {
		int err;

		if ((g->names[i][0] == '@') != sets)
			continue;
		err = zap_remove(mos, jump, g->names[i], tx);
		if (err != -ENOENT)
			dsl_sync_check(d->pool, err, "permissions cannot be removed");
		dsl_history(d->pool, "permission remove", ds, tx, "%s %s", key, g->names[i]);
	}
	if (dsl_sync_check(d->pool, zap_count(mos, jump, &n), "permissions cannot be counted") == 0 && n == 0)
		jump_drop(d, key, jump, tx);
}

static void grant_remove_sync(struct dsl_dir *d, struct dsl_dataset *ds, const struct grant *g, struct tx *tx)
{
	char key[sizeof(g->key)];

	for (unsigned sets = 0; d->deleg && sets < 2; sets++) {
		uint64_t jump;

		key_of(g, sets, key, sizeof(key));
		if (zap_lookup_u64(d->pool->mos, d->deleg, key, &jump))
			continue;
		if (g->n) {
			names_remove(d, ds, key, jump, g, sets, tx);
		} else {
			jump_drop(d, key, jump, tx);
			dsl_history(d->pool, "permission who remove", ds, tx, "%s", key);
		}
	}
}

/* --- the task --- */

static bool delegation_is_on(struct dsl_pool *p)
{
	uint64_t props, v;

	return zap_lookup_u64(p->mos, MOS_DIRECTORY, "pool_props", &props) ||
	       zap_lookup_u64(p->mos, props, "delegation", &v) || v != 0;
}

static int allow_check(void *arg, struct tx *tx, struct err *e)
{
	struct grants *all = arg;
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(all->p, all->name, &ds, NULL);

	if (err)
		return err_set(e, err, "%s", err == -ENOENT ? "dataset does not exist" : err_words(err));
	if (ds->is_snapshot)
		err = err_set(e, -EINVAL, "operation not applicable to datasets of this type");
	else if (all->p->version < VERSION_DELEGATION)
		err = err_set(e, -ENOTSUP, "pool must be upgraded to use delegated administration");
	else if (!delegation_is_on(all->p))
		err = err_set(e, -ECANCELED, "delegated administration is disabled on pool");
	dsl_dataset_release(ds);
	return err;
}

static void allow_sync(void *arg, struct tx *tx)
{
	struct grants *all = arg;
	struct dsl_dataset *ds;

	if (dsl_sync_check(all->p, dsl_dataset_hold(all->p, all->name, &ds, NULL), "a data set cannot be read"))
		return;
	for (size_t i = 0; i < all->n; i++)
		(all->remove ? grant_remove_sync : grant_sync)(ds->dir, ds, &all->g[i], tx);
	dsl_dataset_release(ds);
}

int dsl_allow(struct dsl_pool *p, const char *name, const struct nvlist *perms, bool remove, struct err *e)
{
	struct grants all = {.p = p, .name = name, .remove = remove};
	struct dsl_task t = {.check = allow_check, .sync = allow_sync, .arg = &all, .policy = DSL_SPACE_RESERVED};
	int err = grants_parse(&all, perms, e);

	t.blocks = all.n;
	if (!err)
		err = dsl_task_run(p, &t, e);
	free(all.g);
	return err;
}
