#include "verify.h"

#include "dsl/dsl_live.h"
#include "zvol/zvol.h"

#include "actor.h"

#define DEFER_DESTROY 8u /* of dsl_dataset.flags (03, 1.3) */

/* --- observing --- */

struct observing {
	struct lab *lab;
	struct state *s;
	bool sound;
};

static void props_observe(struct observing *o, struct dsl_dataset *ds, struct entry *e)
{
	autonv struct nvlist *all = NULL;
	struct err err = ERR_INIT;

	if (dsl_props_get(ds, model_props, MODEL_TAGS, &all, &err)) {
		o->sound = lab_wrong("%s: properties: %s", ds->name, err.text);
		return;
	}
	for (unsigned i = 0; i < MODEL_TAGS; i++) {
		struct nvlist *one;

		if (nvlist_list(all, model_props[i], &one) == 0 &&
		    strcmp(nvlist_string_or(one, "source", ""), "local") == 0)
			snprintf(e->prop[i], sizeof(e->prop[i]), "%s", nvlist_string_or(one, "value", ""));
	}
}

static int hold_count(void *arg, const char *tag, uint64_t time)
{
	(*(unsigned *)arg)++;
	return 0;
}

static bool volume_observe(struct observing *o, struct dsl_dataset *ds, struct entry *e)
{
	struct objset *os;
	struct dnode *dn;
	int err = dsl_dataset_open_objset(ds, &os, NULL);

	if (err)
		return lab_wrong("%s cannot be opened: %s", ds->name, err_words(err));
	err = zap_lookup_u64(os, 2, "size", &e->size);
	if (!err)
		err = dnode_hold(os, 1, &dn, NULL);
	if (!err) {
		e->blocksize = dn->datablksz;
		dnode_release(dn);
	}
	objset_release(os);
	return !err || lab_wrong("%s has no size: %s", ds->name, err_words(err));
}

/* dsl_dir.origin is the number of the origin snapshot. */
static bool origin_observe(struct observing *o, struct dsl_dataset *ds, struct entry *e)
{
	struct dsl_dataset *origin;

	if (ds->is_snapshot || !ds->dir->origin || ds->dir->origin == ds->pool->origin_snap)
		return true;
	if (dsl_dataset_hold_obj(ds->pool, ds->dir->origin, &origin, NULL))
		return lab_wrong("%s: no origin", ds->name);
	snprintf(e->origin, sizeof(e->origin), "%s", origin->name);
	dsl_dataset_release(origin);
	return true;
}

static void dataset_observe(struct observing *o, struct dsl_dataset *ds)
{
	struct entry *e = state_add(o->s, ds->name);
	unsigned type;

	e->is_snapshot = ds->is_snapshot;
	e->born = (unsigned)o->s->n;
	if (dsl_dataset_type(ds, &type)) {
		o->sound = lab_wrong("%s: no type", ds->name);
		return;
	}
	e->is_volume = (type & DSL_VOLUME) != 0;
	if (e->is_volume)
		o->sound &= volume_observe(o, ds, e);
	o->sound &= origin_observe(o, ds, e);
	props_observe(o, ds, e);
	if (ds->is_snapshot) {
		dsl_each_hold(ds, hold_count, &e->holds);
		e->deferred = (ds->flags & DEFER_DESTROY) != 0;
	}
}

static int snapshot_observe(void *arg, struct dsl_dataset *snap)
{
	dataset_observe(arg, snap);
	return 0;
}

static int dir_observe(void *arg, struct dsl_dir *d)
{
	struct observing *o = arg;
	struct dsl_dataset *head;
	struct err e = ERR_INIT;

	if (dsl_dataset_hold(d->pool, d->name, &head, &e)) {
		o->sound = lab_wrong("%s: %s", d->name, e.text);
		return 0;
	}
	if (dsl_each_snapshot(head, snapshot_observe, o))
		o->sound = lab_wrong("%s: snapshots cannot be listed", d->name);
	dataset_observe(o, head);
	dsl_dataset_release(head);
	if (dsl_each_child(d, dir_observe, o))
		o->sound = lab_wrong("%s: children cannot be listed", d->name);
	return 0;
}

static int entry_compare(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static void pool_observe(struct observing *o)
{
	autonv struct nvlist *props = NULL;
	struct nvlist *comment;

	o->s->tops = o->lab->spa->root->nchildren;
	if (spa_props_get(o->lab->spa, &props) || nvlist_list(props, "comment", &comment))
		return;
	snprintf(o->s->comment, sizeof(o->s->comment), "%s", nvlist_string_or(comment, "value", ""));
	if (strcmp(o->s->comment, "-") == 0)
		o->s->comment[0] = '\0';
}

bool observe(struct lab *l, struct state *out)
{
	struct observing o = {l, out, true};
	struct dsl_dir *root;

	*out = (struct state){.acked = 0};
	if (dsl_dir_hold(l->spa->dsl, l->spa->dsl->root_dir, &root, NULL))
		return lab_wrong("no root data set");
	dir_observe(&o, root);
	dsl_dir_release(root);
	pool_observe(&o);
	if (out->n)
		qsort(out->e, out->n, sizeof(*out->e), entry_compare);
	return o.sound;
}

void state_free(struct state *s)
{
	free(s->e);
}

/* --- comparing states --- */

static bool entries_differ(const struct entry *a, const struct entry *b, char *why, size_t size)
{
	if (a->is_volume != b->is_volume || a->is_snapshot != b->is_snapshot)
		snprintf(why, size, "%s is of another kind", a->name);
	else if (a->size != b->size || a->blocksize != b->blocksize)
		snprintf(why, size, "%s: size %" PRIu64 " and blocks of %u, not %" PRIu64 " and %u", a->name, a->size,
			 a->blocksize, b->size, b->blocksize);
	else if (strcmp(a->origin, b->origin) != 0)
		snprintf(why, size, "%.100s: origin '%.100s', not '%.100s'", a->name, a->origin, b->origin);
	else if (a->holds != b->holds || a->deferred != b->deferred)
		snprintf(why, size, "%s: %u holds%s, not %u%s", a->name, a->holds, a->deferred ? ", deferred" : "",
			 b->holds, b->deferred ? ", deferred" : "");
	else {
		for (unsigned i = 0; i < MODEL_TAGS; i++) {
			if (strcmp(a->prop[i], b->prop[i]) == 0)
				continue;
			snprintf(why, size, "%s: %s is '%s', not '%s'", a->name, model_props[i], a->prop[i],
				 b->prop[i]);
			return true;
		}
		return false;
	}
	return true;
}

static bool states_differ(const struct state *have, struct state *want, char *why, size_t size)
{
	qsort(want->e, want->n, sizeof(*want->e), entry_compare);
	for (size_t i = 0; i < MIN(have->n, want->n); i++) {
		int c = strcmp(have->e[i].name, want->e[i].name);

		if (c) {
			snprintf(why, size, "%s %s", c < 0 ? "there is a" : "there is no",
				 c < 0 ? have->e[i].name : want->e[i].name);
			return true;
		}
		if (entries_differ(&have->e[i], &want->e[i], why, size))
			return true;
	}
	if (have->n != want->n) {
		snprintf(why, size, "%s %s", have->n > want->n ? "there is a" : "there is no",
			 have->n > want->n ? have->e[want->n].name : want->e[have->n].name);
		return true;
	}
	if (strcmp(have->comment, want->comment) != 0) {
		snprintf(why, size, "comment is '%s', not '%s'", have->comment, want->comment);
		return true;
	}
	if (have->tops != want->tops)
		snprintf(why, size, "%u top-level devices, not %u", have->tops, want->tops);
	return have->tops != want->tops;
}

static bool state_match(struct state *have, struct model *m, uint64_t mark, size_t *at)
{
	char why[2][1200] = {"", "none"};
	size_t acked = model_acked_at(m, mark);

	for (size_t i = 0; i < 2 && acked + i < m->nstates; i++) {
		if (states_differ(have, &m->state[acked + i], why[i], sizeof(why[i])))
			continue;
		*at = acked + i;
		return true;
	}
	lab_wrong("state %zu was acknowledged (%s): %s", acked, m->state[acked].what, why[0]);
	return lab_wrong("the one after it (%s): %s", acked + 1 < m->nstates ? m->state[acked + 1].what : "none",
			 why[1]);
}

/* --- contents --- */

/* A rollback happened as a whole or not at all. */
static bool rolled_allows(struct model *m, const struct state *next, const uint64_t *values, size_t sectors,
			  struct allowed a)
{
	struct allowed before = a, after = a;

	before.limit = next->rolled_change;
	before.quiet = true;
	after.sure = next->rolled_change + 1;
	if (next->rolled_change && content_allows(m, next->rolled, values, sectors, &before))
		return true;
	if (content_allows(m, next->rolled, values, sectors, &after))
		return true;
	return lab_wrong("%s: is neither rolled back nor as before", a.name);
}

static bool values_check(struct model *m, const struct entry *want, size_t state, uint64_t mark, const uint64_t *values,
			 size_t sectors)
{
	struct allowed a = {.mark = mark, .name = want->name};
	size_t acked = model_acked_at(m, mark);
	const struct state *next = acked + 1 < m->nstates ? &m->state[acked + 1] : NULL;

	if (want->is_snapshot || !next || next->rolled != want->content)
		return content_allows(m, want->content, values, sectors, &a);
	return rolled_allows(m, next, values, sectors, a);
}

static struct content *content_adopt(struct model *now, struct content *old, uint64_t *values, size_t sectors,
				     bool frozen)
{
	struct content *c = model_content(now, MAX(old->room, sectors));

	c->initial = xrealloc(values, (c->room + 1) * sizeof(*values));
	for (size_t i = sectors; i < c->room; i++)
		c->initial[i] = 0;
	c->frozen = frozen;
	return c;
}

static bool volume_verify(struct lab *l, struct model *m, const struct entry *want, uint64_t mark, struct verified *out)
{
	struct dsl_dataset *ds;
	struct zvol *zv;
	struct err e = ERR_INIT;
	uint64_t *values;
	size_t sectors;
	bool sound;

	if (dsl_dataset_hold(l->spa->dsl, want->name, &ds, &e) || zvol_open(ds, &zv, &e))
		return lab_wrong("%s cannot be opened: %s", want->name, e.text);
	if (volume_values(zv, &values, &sectors))
		sound = lab_wrong("%s cannot be read", want->name);
	else
		sound = values_check(m, want, out->state, mark, values, sectors);
	if (out->now)
		state_find(model_last(out->now), want->name)->content = content_adopt(out->now, want->content, values,
										      sectors, want->is_snapshot);
	else
		free(values);
	zvol_close(zv);
	dsl_dataset_release(ds);
	return sound;
}

bool verify(struct lab *l, struct model *m, uint64_t mark, struct verified *out)
{
	struct state have;
	bool sound = observe(l, &have) && state_match(&have, m, mark, &out->state);
	const struct state *want = sound ? &m->state[out->state] : NULL;

	if (!sound) {
		state_free(&have);
		return false;
	}
	for (size_t i = 0; i < have.n; i++)
		have.e[i].born = want->e[i].born; /* both are sorted */
	if (out->now) {
		free(out->now->state[0].e);
		out->now->state[0] = have;
		out->now->value = m->value;
	}
	for (size_t i = 0; i < want->n; i++)
		if (want->e[i].is_volume)
			sound &= volume_verify(l, m, &want->e[i], mark, out);
	if (!out->now)
		state_free(&have);
	return sound;
}
