/*
 * dsl/dsl_prop_set.c: the tasks that set and inherit properties (03-datasets.md 5.3).
 */
#include "dsl/dsl_prop_set.h"

#define VOLBLOCKSIZE_DEFAULT 16384
#define INHERIT_NAMES        1000 /* in one group */

/* --- checking --- */

static unsigned type_of(struct dsl_dataset *ds)
{
	unsigned type = 0;

	if (dsl_dataset_type(ds, &type))
		type = DSL_FILESYSTEM;
	return type;
}

int dsl_props_check(struct dsl_pool *p, const char *name, unsigned type, const struct nvlist *values, bool creating,
		    struct nvlist **stored, struct err *e)
{
	struct prop_rules r = {
	    .p = p,
	    .type = type,
	    .creating = creating,
	    .stored = nvlist_create(),
	    .volblocksize = VOLBLOCKSIZE_DEFAULT,
	};
	struct dsl_dataset *ds = NULL;
	int err = 0;

	if (!creating) {
		err = dsl_dataset_hold(p, name, &ds, NULL);
		if (err == -ENOENT) /* a clone that is about to be made */
			err = 0;
		else if (err)
			err_set(e, err, "%s", err_words(err));
		r.ds = ds;
		if (ds && type == DSL_VOLUME)
			dsl_volume_sizes(ds, &r.volsize, &r.volblocksize);
	}
	if (!err)
		err = props_check(&r, values, e);
	if (ds)
		dsl_dataset_release(ds);
	if (err)
		nvlist_destroy(r.stored);
	else
		*stored = r.stored;
	return err;
}

/* --- tasks --- */

struct set_task {
	struct dsl_pool *p;
	const char *dataset;
	enum prop_set_source source;
	const struct nvlist *values;        /* ordinary ones */
	const char *name;                   /* or one that is inherited */
	const struct prop_special *special; /* or one of these: */
	struct prop_set_value v;
};

/* What a special property will come to. */
static uint64_t special_value(const struct set_task *t, struct dsl_dataset *ds)
{
	const struct prop_def *def = dsl_prop_find(t->special->name);
	const struct prop_value *v;

	if (t->source == PROP_SET_LOCAL)
		return t->v.number;
	v = prop_set_find(dsl_dir_props(ds->dir), t->special->name, PROP_RECEIVED);
	return v && !v->is_string ? v->number : def->def_number;
}

static int set_check(void *arg, struct tx *tx, struct err *e)
{
	struct set_task *t = arg;
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(t->p, t->dataset, &ds, NULL);

	if (err)
		return err_set(e, err, "%s", err == -ENOENT ? "dataset does not exist" : err_words(err));
	if (t->special && t->special->check)
		err = t->special->check(ds, special_value(t, ds), tx, e);
	dsl_dataset_release(ds);
	return err;
}

static void set_sync(void *arg, struct tx *tx)
{
	struct set_task *t = arg;
	struct dsl_dataset *ds;

	if (dsl_sync_check(t->p, dsl_dataset_hold(t->p, t->dataset, &ds, NULL), "a data set cannot be read"))
		return;
	if (t->special) {
		prop_special_store(ds, t->special, t->source, &t->v, tx);
		if (t->source == PROP_SET_LOCAL)
			dsl_history(t->p, "set", ds, tx, "%s=%llu", t->special->name, (unsigned long long)t->v.number);
	} else if (t->values) {
		dsl_props_set_sync(ds, t->values, tx);
	} else {
		prop_store(ds, t->name, t->source, NULL, tx);
	}
	if (t->source != PROP_SET_LOCAL)
		dsl_history(t->p, "inherit", ds, tx, "%s=", t->special ? t->special->name : t->name);
	dsl_dataset_release(ds);
}

static int set_run(struct set_task *t, size_t blocks, struct err *e)
{
	struct dsl_task task = {
	    .check = set_check, .sync = set_sync, .arg = t, .blocks = blocks, .policy = DSL_SPACE_RESERVED};

	return dsl_task_run(t->p, &task, e);
}

/* --- a volume's size --- */

static uint64_t reservation_of(struct dsl_dataset *ds, uint64_t volsize, uint64_t volblocksize)
{
	uint64_t copies = 1;

	dsl_prop_u64(ds, "copies", &copies, NULL);
	return dsl_volume_reservation(ds->pool->dp->zp->root, volsize, volblocksize, copies);
}

static int reservation_set(struct dsl_dataset *ds, uint64_t v, struct err *e)
{
	struct set_task t = {
	    .p = ds->pool, .dataset = ds->name, .special = prop_special_find("refreservation"), .v = {.number = v}};

	return set_run(&t, 1, e);
}

/* A reservation that was just enough stays just enough: more of it comes before a volume grows, less after it shrank.
 */
static int volsize_set(struct dsl_dataset *ds, uint64_t volsize, bool keep_reservation, struct err *e)
{
	uint64_t old, block, reserved = 0;
	bool follow = false;
	int err = dsl_volume_sizes(ds, &old, &block);

	if (err)
		return err_set(e, err, "%s", err_words(err));
	if (!ds->pool->set_volsize)
		return err_set(e, -ENOTSUP, "the size of volumes cannot be changed here");
	if (!keep_reservation && dsl_prop_u64(ds, "refreservation", &reserved, NULL) == 0)
		follow = reserved && reserved == reservation_of(ds, old, block);
	if (follow && volsize > old)
		err = reservation_set(ds, reservation_of(ds, volsize, block), e);
	if (!err)
		err = ds->pool->set_volsize(ds, volsize, e);
	if (follow && volsize < old && !err)
		err = reservation_set(ds, reservation_of(ds, volsize, block), e);
	return err;
}

/* --- set --- */

static bool is_default_quota(const char *name)
{
	return strncmp(name, "default", 7) == 0 && strcmp(name + strlen(name) - 5, "quota") == 0;
}

/* A property that is set by itself: by a task, or in the data set's objects. */
static bool is_alone(const char *name)
{
	return prop_special_find(name) || !prop_is_stored(name) || dsl_name_is_userspace(name);
}

static int alone_set(struct dsl_dataset *ds, const char *name, uint64_t v, const struct nvlist *all, struct err *e)
{
	struct set_task t = {
	    .p = ds->pool, .dataset = ds->name, .special = prop_special_find(name), .v = {.number = v}};

	if (t.special)
		return set_run(&t, 1, e);
	if (dsl_name_is_userspace(name))
		return dsl_user_quota_set(ds, name, v, e);
	if (is_default_quota(name))
		return dsl_master_set(ds, name, v, e);
	if (strcmp(name, "version") == 0)
		return dsl_set_version(ds->pool, ds->name, v, e);
	return volsize_set(ds, v, nvlist_exists(all, "refreservation"), e);
}

/* Those that fail are tried once more after the others: a quota may need the reservation that is set with it. */
static int all_alone_set(struct dsl_dataset *ds, const struct nvlist *stored, struct err *e)
{
	autonv struct nvlist *again = nvlist_create();
	int err = 0;

	for (const struct nvpair *p = nvlist_first(stored); p; p = nvlist_next(stored, p)) {
		struct err first = ERR_INIT;

		if (is_alone(nvpair_name(p)) && alone_set(ds, nvpair_name(p), nvpair_int(p, 0), stored, &first) != 0)
			nvlist_add_u64(again, nvpair_name(p), nvpair_int(p, 0));
	}
	for (const struct nvpair *p = nvlist_first(again); p; p = nvlist_next(again, p)) {
		struct err own = ERR_INIT;
		int code = alone_set(ds, nvpair_name(p), nvpair_int(p, 0), stored, &own);

		if (code && !err)
			err = err_set(e, code, "%s", own.text[0] ? own.text : err_words(code));
	}
	return err;
}

static int ordinary_set(struct dsl_dataset *ds, const struct nvlist *stored, struct err *e)
{
	autonv struct nvlist *ordinary = nvlist_copy(stored);
	struct set_task t = {.p = ds->pool, .dataset = ds->name, .values = ordinary};

	for (const struct nvpair *p = nvlist_first(stored); p; p = nvlist_next(stored, p))
		if (is_alone(nvpair_name(p)))
			nvlist_remove(ordinary, nvpair_name(p));
	return nvlist_len(ordinary) ? set_run(&t, nvlist_len(ordinary), e) : 0;
}

int dsl_props_set(struct dsl_pool *p, const char *name, const struct nvlist *values, struct err *e)
{
	autonv struct nvlist *stored = NULL;
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(p, name, &ds, NULL);

	if (err)
		return err_set(e, err, "%s", err == -ENOENT ? "dataset does not exist" : err_words(err));
	err = dsl_props_check(p, name, type_of(ds), values, false, &stored, e);
	if (!err) {
		err = ordinary_set(ds, stored, e);
		if (!err)
			err = all_alone_set(ds, stored, e);
		dsl_props_notify(ds->dir);
	}
	dsl_dataset_release(ds);
	return err;
}

/* --- inherit --- */

static int not_inheritable(const struct prop_def *def, struct err *e)
{
	int err = err_set(e, -EINVAL, "'%s' property cannot be inherited", def->name);

	if (def->show == PROP_SHOW_BYTES_NONE) {
		err_hint(e, "use 'zfs set %s=none' to clear", def->name);
		err_hint(e, "use 'zfs inherit -S %s' to revert to received value", def->name);
	}
	return err;
}

static int inherit_allowed(const char *property, unsigned type, bool received, struct err *e)
{
	const struct prop_def *def;

	if (prop_name_is_user(property))
		return 0;
	def = dsl_prop_find(property);
	if (!def)
		return err_set(e, -EINVAL, "invalid property '%s'", property);
	if (def->readonly || def->setonce)
		return err_set(e, -EINVAL, "%s property is read-only", def->name);
	if (!received && !def->inherit)
		return not_inheritable(def, e);
	if (received && !prop_is_stored(def->name))
		return err_set(e, -EINVAL, "'%s' property cannot be reverted to a received value", def->name);
	if (type & DSL_SNAPSHOT || !(def->types & type))
		return err_set(e, -EINVAL, "property doesn't apply to datasets of this type");
	if (strcmp(def->name, "keylocation") == 0)
		return err_set(e, -EPERM, "permission denied");
	return 0;
}

static struct set_task inherit_task(struct dsl_pool *p, const char *property, bool received)
{
	const struct prop_def *def = dsl_prop_find(property);

	return (struct set_task){
	    .p = p,
	    .source = received ? PROP_SET_RECEIVED : PROP_SET_INHERIT,
	    .name = def ? def->name : property,
	    .special = def ? prop_special_find(def->name) : NULL,
	};
}

int dsl_prop_inherit(struct dsl_pool *p, const char *name, const char *property, bool received, struct err *e)
{
	struct set_task t = inherit_task(p, property, received);
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(p, name, &ds, NULL);

	if (err)
		return err_set(e, err, "%s", err == -ENOENT ? "dataset does not exist" : err_words(err));
	t.dataset = name;
	err = inherit_allowed(property, type_of(ds), received, e);
	if (!err)
		err = set_run(&t, 1, e);
	if (!err)
		dsl_props_notify(ds->dir);
	dsl_dataset_release(ds);
	return err;
}

/* --- inherit of a tree --- */

struct inherit_tree {
	struct set_task one;
	const char **names;  /* that have the property */
	size_t n, end, done; /* end: of the task */
};

static int tree_check(void *arg, struct tx *tx, struct err *e)
{
	struct inherit_tree *t = arg;

	t->one.dataset = t->names[t->done];
	return set_check(&t->one, tx, e);
}

static void tree_sync(void *arg, struct tx *tx)
{
	struct inherit_tree *t = arg;

	do {
		set_sync(&t->one, tx);
		t->done++;
	} while (t->done < t->end && tree_check(t, tx, NULL) == 0);
}

static bool type_has(unsigned type, const char *property)
{
	const struct prop_def *def = dsl_prop_find(property);

	return !def || (!(type & DSL_SNAPSHOT) && def->types & type);
}

/* Takes up those that have the property, if it may be inherited there. */
static int tree_collect(struct inherit_tree *t, const char *const *names, size_t n, const char *property, bool received,
			struct err *e)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		struct dsl_dataset *ds;
		unsigned type;

		if (dsl_dataset_hold(t->one.p, names[i], &ds, NULL))
			continue; /* gone meanwhile */
		type = type_of(ds);
		if (type_has(type, property)) {
			err = inherit_allowed(property, type, received, e);
			t->names[t->n++] = names[i];
		}
		dsl_dataset_release(ds);
	}
	if (!err && t->n == 0)
		err = inherit_allowed(property, DSL_FILESYSTEM, received, e);
	return err;
}

static int tree_run(struct inherit_tree *t, struct err *e)
{
	struct dsl_task task = {.check = tree_check, .sync = tree_sync, .arg = t, .policy = DSL_SPACE_RESERVED};
	int err = 0;

	while (t->done < t->n && !err) {
		t->end = MIN(t->n, t->done + INHERIT_NAMES);
		task.blocks = (unsigned)(t->end - t->done);
		err = dsl_task_run(t->one.p, &task, e);
	}
	return err && t->n > 1 ? err_prefix(e, err, "%s", t->names[t->done]) : err;
}

int dsl_prop_inherit_tree(struct dsl_pool *p, const char *const *names, size_t n, const char *property, bool received,
			  struct err *e)
{
	struct inherit_tree t = {.one = inherit_task(p, property, received), .names = xcalloc(n + 1, sizeof(*t.names))};
	struct dsl_dataset *top;
	int err = dsl_dataset_hold(p, names[0], &top, NULL);

	if (err) {
		err_set(e, err, "%s", err == -ENOENT ? "dataset does not exist" : err_words(err));
	} else {
		err = tree_collect(&t, names, n, property, received, e);
		if (!err)
			err = tree_run(&t, e);
		if (t.done)
			dsl_props_notify(top->dir);
		dsl_dataset_release(top);
	}
	free(t.names);
	return err;
}
