/* Commands of administration. Each makes a state of the model before it is run. */
#include "actor.h"

#include "dsl/dsl_live.h"
#include "zpl/zpl.h"

#define NAMES_MAX    160 /* bytes of a name, so that renames fit */
#define DATASETS_MAX 24
#define VOLUMES_MIN  3
#define SYNC_PROP    4 /* of model_props */

static int refused_or_fatal(struct actor *a, int err, const struct err *e)
{
	if (err && !a->may_fail && err != -ENOSPC)
		lab_fatal("%s: refused: %s", model_last(a->model)->what, e->text);
	return err;
}

/* --- choosing --- */

typedef bool (*entry_fits)(struct actor *a, const struct entry *e);

static struct entry *choose(struct actor *a, entry_fits fits)
{
	struct state *s = model_last(a->model);
	struct entry *able[1024];
	size_t n = 0;

	for (size_t i = 0; i < s->n && n < ARRAY_LEN(able); i++)
		if (fits(a, &s->e[i]))
			able[n++] = &s->e[i];
	return n ? able[rng_below(&a->rng, n)] : NULL;
}

static bool is_head(struct actor *a, const struct entry *e)
{
	return !e->is_snapshot;
}

static bool is_volume(struct actor *a, const struct entry *e)
{
	return !e->is_snapshot && e->is_volume;
}

static bool is_filesystem(struct actor *a, const struct entry *e)
{
	return !e->is_snapshot && !e->is_volume;
}

static bool is_parent(struct actor *a, const struct entry *e)
{
	return is_filesystem(a, e) && strlen(e->name) < NAMES_MAX;
}

static bool is_snapshot(struct actor *a, const struct entry *e)
{
	return e->is_snapshot && !e->deferred;
}

static bool is_clone(struct actor *a, const struct entry *e)
{
	return !e->is_snapshot && e->origin[0];
}

static bool has_clones(struct actor *a, const char *snapshot)
{
	struct state *s = model_last(a->model);

	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->e[i].origin, snapshot) == 0)
			return true;
	return false;
}

static bool is_below(const char *name, const char *top)
{
	size_t len = strlen(top);

	return strncmp(name, top, len) == 0 && (name[len] == '/' || name[len] == '@');
}

static bool has_below(struct actor *a, const char *name)
{
	struct state *s = model_last(a->model);

	for (size_t i = 0; i < s->n; i++)
		if (is_below(s->e[i].name, name))
			return true;
	return false;
}

static size_t heads(struct actor *a)
{
	struct state *s = model_last(a->model);
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += !s->e[i].is_snapshot;
	return n;
}

static struct entry *latest_snapshot(struct actor *a, const char *head)
{
	struct state *s = model_last(a->model);
	struct entry *last = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (s->e[i].is_snapshot && is_below(s->e[i].name, head) && s->e[i].name[strlen(head)] == '@' &&
		    (!last || s->e[i].born > last->born))
			last = &s->e[i];
	return last;
}

/* --- what is promised of each volume --- */

static const char *sync_of(struct state *s, const char *name)
{
	char at[DSL_NAME_MAX];

	snprintf(at, sizeof(at), "%s", name);
	for (;;) {
		struct entry *e = state_find(s, at);
		char *slash = strrchr(at, '/');

		if (e && e->prop[SYNC_PROP][0])
			return e->prop[SYNC_PROP];
		if (!slash)
			return "standard";
		*slash = '\0';
	}
}

/* During a command that goes from one state to the next: only what holds in both. */
static void promises_narrow(struct actor *a, struct state *s)
{
	SCOPED_LOCK(&a->model->lock);
	for (size_t i = 0; i < s->n; i++) {
		struct content *c = s->e[i].content;

		if (!c || c->frozen)
			continue;
		c->sync_always &= strcmp(sync_of(s, s->e[i].name), "always") == 0;
		c->not_promised |= strcmp(sync_of(s, s->e[i].name), "disabled") == 0;
	}
}

static void promises_set(struct actor *a)
{
	struct state *s = model_last(a->model);

	SCOPED_LOCK(&a->model->lock);
	for (size_t i = 0; i < s->n; i++) {
		struct content *c = s->e[i].content;

		if (!c || c->frozen)
			continue;
		c->sync_always = strcmp(sync_of(s, s->e[i].name), "always") == 0;
		c->not_promised = strcmp(sync_of(s, s->e[i].name), "disabled") == 0;
	}
}

/* After model_begin and the changes to the state, before the command. */
static uint64_t command_starts(struct actor *a)
{
	lab_context("%s", model_last(a->model)->what);
	promises_narrow(a, model_last(a->model));
	return actor_clock(a);
}

/* 0: it is done, and so is all that completed before it. */
static int command_ended(struct actor *a, int err, const struct err *e, uint64_t clock)
{
	if (refused_or_fatal(a, err, e)) {
		atomic_fetch_add(&a->refused, 1);
		model_undo(a->model);
	} else {
		model_end(a->model);
		actor_all_safe(a, clock);
	}
	promises_set(a);
	return err;
}

/* --- creating --- */

static void init_filesystem(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	BUG_ON(zpl_create_objects(os, props, tx));
}

static void init_volume(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	BUG_ON(zvol_create_objects(os, nvlist_u64_or(props, "volsize", 0),
				   (uint32_t)nvlist_u64_or(props, "volblocksize", 0), tx));
}

static int dataset_create(struct actor *a, const char *name, unsigned type, const struct nvlist *values, struct err *e)
{
	struct dsl_create c = {.name = name, .type = type};
	autonv struct nvlist *stored = NULL;
	int err = dsl_props_check(a->lab->spa->dsl, name, type, values, true, &stored, e);

	if (err)
		return err;
	c.props = stored;
	c.init = type == DSL_VOLUME ? init_volume : init_filesystem;
	return dsl_create(a->lab->spa->dsl, &c, e);
}

static void do_create_filesystem(struct actor *a)
{
	struct entry *parent = choose(a, is_parent);
	autonv struct nvlist *none = nvlist_create();
	char name[DSL_NAME_MAX];
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!parent || heads(a) >= DATASETS_MAX)
		return;
	snprintf(name, sizeof(name), "%.200s/f%u", parent->name, a->names++);
	s = model_begin(a->model, "create file system %s", name);
	state_add(s, name);
	clock = command_starts(a);
	command_ended(a, dataset_create(a, name, DSL_FILESYSTEM, none, &e), &e, clock);
}

static void value_add(struct nvlist *values, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	nvlist_add_string(values, name, text);
}

static uint64_t size_choose(struct actor *a, uint32_t block)
{
	uint64_t max = MAX(a->volume_max / block, 2u);

	return (1 + max / 4 + rng_below(&a->rng, max - max / 4)) * block;
}

static void do_create_volume(struct actor *a)
{
	static const uint32_t blocks[] = {512, 4096, 8192, 8192, 16384, 16384, 32768, 65536, 131072};
	struct entry *parent = choose(a, is_parent), *v;
	autonv struct nvlist *values = nvlist_create();
	uint32_t block = blocks[rng_below(&a->rng, ARRAY_LEN(blocks))];
	uint64_t size = size_choose(a, block), clock;
	char name[DSL_NAME_MAX];
	struct err e = ERR_INIT;
	struct state *s;

	if (!parent || heads(a) >= DATASETS_MAX)
		return;
	snprintf(name, sizeof(name), "%.200s/v%u", parent->name, a->names++);
	value_add(values, "volsize", size);
	value_add(values, "volblocksize", block);
	s = model_begin(a->model, "create volume %s of %" PRIu64 ", blocks of %u", name, size, block);
	v = state_add(s, name);
	v->is_volume = true;
	v->size = size;
	v->blocksize = block;
	v->content = model_content(a->model, 4 * a->volume_max / SECTOR);
	clock = command_starts(a);
	if (command_ended(a, dataset_create(a, name, DSL_VOLUME, values, &e), &e, clock) == 0)
		actor_volume_open(a, state_find(model_last(a->model), name));
}

/* --- snapshots --- */

static void snapshot_take(struct actor *a, struct entry *snap, struct content *head, uint64_t clock)
{
	struct allowed then = {
	    .mark = clock, .by_clock = true, .limit = content_changes(a->model, head), .name = snap->name};
	struct dsl_dataset *ds;
	struct zvol *zv;
	struct err e = ERR_INIT;
	uint64_t *values;
	size_t sectors;

	if (dsl_dataset_hold(a->lab->spa->dsl, snap->name, &ds, &e) || zvol_open(ds, &zv, &e))
		lab_fatal("%s cannot be opened: %s", snap->name, e.text);
	if (volume_values(zv, &values, &sectors))
		lab_fatal("%s cannot be read", snap->name);
	if (sectors * SECTOR != snap->size)
		lab_fatal("%s has %zu sectors", snap->name, sectors);
	if (then.limit == 0)
		then.limit = 1; /* nothing was written yet, and nothing is until we are through */
	if (!content_allows(a->model, head, values, sectors, &then))
		lab_fatal("%s is not what was there when it was taken", snap->name);
	snap->content->initial = xrealloc(values, (snap->content->room + 1) * sizeof(*values));
	for (size_t i = sectors; i < snap->content->room; i++)
		snap->content->initial[i] = 0;
	zvol_close(zv);
	dsl_dataset_release(ds);
}

static void snapshot_expect(struct actor *a, struct state *s, const char *head_name, const char *name)
{
	struct entry head = *state_find(s, head_name), *snap = state_add(s, name);

	snap->is_snapshot = true;
	snap->is_volume = head.is_volume;
	snap->size = head.size;
	snap->blocksize = head.blocksize;
	snap->born = a->names;
	if (!head.is_volume)
		return;
	snap->content = model_content(a->model, head.content->room);
	snap->content->frozen = true;
}

static void snapshots_read(struct actor *a, char *const *names, size_t n, uint64_t clock)
{
	struct state *s = model_last(a->model);

	for (size_t i = 0; i < n; i++) {
		struct entry *snap = state_find(s, names[i]);
		char head[DSL_NAME_MAX];

		snprintf(head, sizeof(head), "%.*s", (int)strcspn(names[i], "@"), names[i]);
		if (snap->content)
			snapshot_take(a, snap, state_find(s, head)->content, clock);
	}
}

/* One, or all below a name; volumes are still or in use. */
static void do_snapshot(struct actor *a)
{
	bool recursive = rng_percent(&a->rng, 30);
	struct entry *top = choose(a, recursive ? is_filesystem : is_head);
	char *names[DATASETS_MAX + 2], tag[24];
	const char *head[DATASETS_MAX + 2];
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;
	size_t n = 0;

	if (!top)
		return;
	snprintf(tag, sizeof(tag), "s%u", a->names++);
	s = model_begin(a->model, "snapshot %s%s@%s", recursive ? "-r " : "", top->name, tag);
	for (size_t i = 0; i < s->n && n < ARRAY_LEN(names); i++) {
		const struct entry *h = &s->e[i];

		if (!h->is_snapshot &&
		    (strcmp(h->name, top->name) == 0 || (recursive && is_below(h->name, top->name)))) {
			head[n] = xstrdup(h->name);
			names[n++] = xasprintf("%s@%s", h->name, tag);
		}
	}
	for (size_t i = 0; i < n; i++)
		snapshot_expect(a, s, head[i], names[i]);
	clock = command_starts(a);
	if (command_ended(a, dsl_snapshot(a->lab->spa->dsl, (const char *const *)names, n, NULL, &e), &e, clock) == 0)
		snapshots_read(a, names, n, clock);
	for (size_t i = 0; i < n; i++) {
		free(names[i]);
		free((char *)head[i]);
	}
}

static void do_clone(struct actor *a)
{
	struct entry *parent = choose(a, is_parent), *snap = choose(a, is_snapshot), origin, *c;
	char name[DSL_NAME_MAX];
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!parent || !snap || heads(a) >= DATASETS_MAX)
		return;
	origin = *snap;
	snprintf(name, sizeof(name), "%.200s/c%u", parent->name, a->names++);
	s = model_begin(a->model, "clone %s to %s", origin.name, name);
	c = state_add(s, name);
	c->is_volume = origin.is_volume;
	c->size = origin.size;
	c->blocksize = origin.blocksize;
	snprintf(c->origin, sizeof(c->origin), "%s", origin.name);
	if (origin.content) {
		size_t bytes = (origin.content->room + 1) * sizeof(uint64_t);

		c->content = model_content(a->model, origin.content->room);
		c->content->initial = xmalloc(bytes);
		memcpy(c->content->initial, origin.content->initial, bytes - sizeof(uint64_t));
	}
	clock = command_starts(a);
	if (command_ended(a, dsl_clone(a->lab->spa->dsl, origin.name, name, NULL, &e), &e, clock) == 0 &&
	    origin.is_volume)
		actor_volume_open(a, state_find(model_last(a->model), name));
}

/* --- renaming --- */

static void prefix_replace(char name[DSL_NAME_MAX], const char *from, const char *to)
{
	char old[DSL_NAME_MAX];

	if (strcmp(name, from) != 0 && !is_below(name, from))
		return;
	snprintf(old, sizeof(old), "%s", name);
	if (snprintf(name, DSL_NAME_MAX, "%s%s", to, old + strlen(from)) >= DSL_NAME_MAX)
		lab_fatal("a name became too long");
}

static void names_change(struct actor *a, struct state *s, const char *from, const char *to)
{
	for (size_t i = 0; i < s->n; i++) {
		prefix_replace(s->e[i].name, from, to);
		prefix_replace(s->e[i].origin, from, to);
	}
}

static void volumes_rename(struct actor *a, const char *from, const char *to)
{
	SCOPED_LOCK(&a->lock);
	list_for_each(&a->volumes, n) {
		struct volume *v = container_of(n, struct volume, node);

		prefix_replace(v->name, from, to);
	}
}

static void do_rename(struct actor *a)
{
	struct entry *what = choose(a, is_head), *parent = choose(a, is_parent);
	char from[DSL_NAME_MAX], to[DSL_NAME_MAX];
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!what || !parent || strcmp(what->name, LAB_POOL) == 0 || is_below(parent->name, what->name) ||
	    parent == what || strlen(what->name) + strlen(parent->name) > NAMES_MAX)
		return;
	snprintf(from, sizeof(from), "%s", what->name);
	snprintf(to, sizeof(to), "%.200s/%c%u", parent->name, what->is_volume ? 'w' : 'g', a->names++);
	s = model_begin(a->model, "rename %s to %s", from, to);
	names_change(a, s, from, to);
	clock = command_starts(a);
	if (command_ended(a, dsl_rename(a->lab->spa->dsl, from, to, false, &e), &e, clock) == 0)
		volumes_rename(a, from, to);
}

static void do_rename_snapshot(struct actor *a)
{
	struct entry *snap = choose(a, is_snapshot);
	char from[DSL_NAME_MAX], to[DSL_NAME_MAX];
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!snap)
		return;
	snprintf(from, sizeof(from), "%s", snap->name);
	snprintf(to, sizeof(to), "%.*s@t%u", (int)strcspn(from, "@"), from, a->names++);
	s = model_begin(a->model, "rename %s to %s", from, to);
	names_change(a, s, from, to);
	clock = command_starts(a);
	command_ended(a, dsl_rename(a->lab->spa->dsl, from, to, false, &e), &e, clock);
}

/* The clone takes over its origin and all snapshots before it. */
static void promote_expect(struct actor *a, struct state *s, const char *clone)
{
	struct entry *c = state_find(s, clone), *o;
	char origin[DSL_NAME_MAX], old[DSL_NAME_MAX], from[DSL_NAME_MAX], to[DSL_NAME_MAX];
	unsigned born = state_find(s, c->origin)->born;

	snprintf(origin, sizeof(origin), "%s", c->origin);
	snprintf(old, sizeof(old), "%.*s", (int)strcspn(origin, "@"), origin);
	o = state_find(s, old);
	snprintf(c->origin, sizeof(c->origin), "%s", o->origin);
	snprintf(o->origin, sizeof(o->origin), "%s", origin);
	for (size_t i = 0; i < s->n; i++) {
		const struct entry *e = &s->e[i];

		if (!e->is_snapshot || !is_below(e->name, old) || e->name[strlen(old)] != '@' || e->born > born)
			continue;
		snprintf(from, sizeof(from), "%s", e->name);
		if (snprintf(to, sizeof(to), "%s%s", clone, from + strlen(old)) >= (int)sizeof(to))
			lab_fatal("a name became too long");
		names_change(a, s, from, to);
	}
}

static void do_promote(struct actor *a)
{
	struct entry *clone = choose(a, is_clone);
	char name[DSL_NAME_MAX];
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!clone)
		return;
	snprintf(name, sizeof(name), "%s", clone->name);
	s = model_begin(a->model, "promote %s", name);
	promote_expect(a, s, name);
	clock = command_starts(a);
	command_ended(a, dsl_promote(a->lab->spa->dsl, name, &e), &e, clock);
}

/* --- destroying --- */

static bool is_destroyable_snapshot(struct actor *a, const struct entry *e)
{
	return is_snapshot(a, e) && !e->holds && !has_clones(a, e->name);
}

static bool is_destroyable_head(struct actor *a, const struct entry *e)
{
	return !e->is_snapshot && strcmp(e->name, LAB_POOL) != 0 && !has_below(a, e->name);
}

/* A deferred snapshot goes with its last hold or clone. */
static void deferred_expect(struct actor *a, struct state *s, const char *snapshot)
{
	struct entry *e = snapshot[0] ? state_find(s, snapshot) : NULL;

	if (!e || !e->deferred || e->holds)
		return;
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->e[i].origin, snapshot) == 0)
			return;
	state_remove(s, e);
}

static void do_destroy_snapshots(struct actor *a)
{
	char name[4][DSL_NAME_MAX];
	const char *names[4];
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;
	size_t n = 0;

	for (unsigned tries = 1 + (unsigned)rng_below(&a->rng, 4); tries; tries--) {
		struct entry *snap = choose(a, is_destroyable_snapshot);
		bool twice = false;

		for (size_t i = 0; snap && i < n; i++)
			twice |= strcmp(names[i], snap->name) == 0;
		if (!snap || twice)
			continue;
		snprintf(name[n], sizeof(name[n]), "%s", snap->name);
		names[n] = name[n];
		n++;
	}
	if (!n)
		return;
	s = model_begin(a->model, "destroy %zu snapshots from %s on", n, names[0]);
	for (size_t i = 0; i < n; i++)
		state_remove(s, state_find(s, names[i]));
	clock = command_starts(a);
	command_ended(a, dsl_destroy_snapshots(a->lab->spa->dsl, names, n, false, &e), &e, clock);
}

static void do_destroy_deferred(struct actor *a)
{
	struct entry *snap = choose(a, is_snapshot);
	char name[DSL_NAME_MAX];
	const char *names = name;
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!snap)
		return;
	snprintf(name, sizeof(name), "%s", snap->name);
	s = model_begin(a->model, "destroy -d %s", name);
	state_find(s, name)->deferred = true;
	deferred_expect(a, s, name);
	clock = command_starts(a);
	command_ended(a, dsl_destroy_snapshots(a->lab->spa->dsl, &names, 1, true, &e), &e, clock);
}

static void do_destroy_head(struct actor *a)
{
	struct entry *head = choose(a, is_destroyable_head);
	char name[DSL_NAME_MAX], origin[DSL_NAME_MAX];
	struct volume *v;
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!head)
		return;
	snprintf(name, sizeof(name), "%s", head->name);
	snprintf(origin, sizeof(origin), "%s", head->origin);
	v = actor_volume(a, name);
	if (v)
		actor_volume_close(a, v);
	s = model_begin(a->model, "destroy %s", name);
	state_remove(s, state_find(s, name));
	deferred_expect(a, s, origin);
	clock = command_starts(a);
	if (command_ended(a, dsl_destroy_head(a->lab->spa->dsl, name, &e), &e, clock) && v)
		actor_volume_open(a, state_find(model_last(a->model), name));
}

/* --- rollback, size --- */

static size_t change_add(struct actor *a, struct content *c, struct change change)
{
	SCOPED_LOCK(&a->model->lock);
	return content_submit_locked(a->model, c, change);
}

/* The volume is still: the command made all of it safe. */
static void change_completed(struct actor *a, struct content *c, size_t change)
{
	SCOPED_LOCK(&a->model->lock);
	content_completed_locked(a->model, c, change);
	content_safe_locked(a->model, c, a->model->clock);
}

static void rollback_expect(struct actor *a, struct state *s, struct content *to, const struct content *from)
{
	struct change change = {.first = 0, .count = to->room};

	change.values = xcalloc(to->room, sizeof(uint64_t));
	memcpy(change.values, from->initial, MIN(to->room, from->room) * sizeof(uint64_t));
	s->rolled = to;
	s->rolled_change = change_add(a, to, change);
}

static void do_rollback(struct actor *a)
{
	struct entry *head = choose(a, is_head), *snap = head ? latest_snapshot(a, head->name) : NULL;
	char name[DSL_NAME_MAX], snapshot[DSL_NAME_MAX];
	struct content *from;
	struct err e = ERR_INIT;
	struct volume *v;
	struct state *s;
	uint64_t clock;

	if (!snap || snap->deferred)
		return;
	snprintf(name, sizeof(name), "%s", head->name);
	snprintf(snapshot, sizeof(snapshot), "%s", snap->name);
	from = snap->content;
	v = actor_volume(a, name);
	if (v)
		actor_volume_close(a, v);
	s = model_begin(a->model, "rollback %s", snapshot);
	head = state_find(s, name);
	head->size = state_find(s, snapshot)->size;
	clock = command_starts(a);
	if (v)
		rollback_expect(a, s, head->content, from);
	if (command_ended(a, dsl_rollback(a->lab->spa->dsl, name, snapshot, &e), &e, clock) == 0 && v) {
		s = model_last(a->model);
		change_completed(a, s->rolled, s->rolled_change);
	}
	if (v)
		actor_volume_open(a, state_find(model_last(a->model), name));
}

static void do_resize(struct actor *a)
{
	struct entry *e = choose(a, is_volume);
	struct volume *v = e ? actor_volume(a, e->name) : NULL;
	struct err err = ERR_INIT;
	uint64_t size, old, clock;
	struct content *c;
	struct state *s;
	char name[DSL_NAME_MAX];
	size_t change = 0;

	if (!v)
		return;
	snprintf(name, sizeof(name), "%s", e->name);
	size = size_choose(a, e->blocksize);
	old = e->size;
	c = e->content;
	if (size == old)
		return;
	actor_pause(a, v);
	s = model_begin(a->model, "resize %s from %" PRIu64 " to %" PRIu64, name, old, size);
	state_find(s, name)->size = size;
	clock = command_starts(a);
	if (size < old)
		change = change_add(
		    a, c, (struct change){.first = size / SECTOR, .count = (old - size) / SECTOR, .value = 0});
	if (command_ended(a, zvol_set_size(v->ds, size, &err), &err, clock) == 0) {
		v->size = size;
		if (size < old)
			change_completed(a, c, change);
	}
	actor_resume(a, v);
}

/* --- properties, holds --- */

static void prop_choose(struct actor *a, const struct entry *e, unsigned *which, char value[24])
{
	static const char *const compression[] = {"off", "lz4", "zstd", "gzip", "zle", "lzjb"};
	static const char *const sync[] = {"standard", "always", "disabled", "standard"};

	*which = e->is_snapshot ? 0 : (unsigned)rng_below(&a->rng, MODEL_TAGS);
	if (*which == 3 && !e->is_volume)
		*which = 0;
	switch (*which) {
	case 0:
		snprintf(value, 24, "tag%u", a->names++);
		break;
	case 1:
		snprintf(value, 24, "%s", compression[rng_below(&a->rng, ARRAY_LEN(compression))]);
		break;
	case 2:
		snprintf(value, 24, "%u", 1 + (unsigned)rng_below(&a->rng, 3));
		break;
	case 3:
		snprintf(value, 24, "%" PRIu64, (1 + rng_below(&a->rng, e->size / 65536)) * 65536);
		break;
	default:
		snprintf(value, 24, "%s", sync[rng_below(&a->rng, ARRAY_LEN(sync))]);
	}
}

static bool is_any(struct actor *a, const struct entry *e)
{
	return !e->deferred;
}

static void do_set(struct actor *a)
{
	struct entry *e = choose(a, is_any);
	autonv struct nvlist *values = nvlist_create();
	char name[DSL_NAME_MAX], value[24];
	struct err err = ERR_INIT;
	struct state *s;
	unsigned which;
	uint64_t clock;

	if (!e)
		return;
	snprintf(name, sizeof(name), "%s", e->name);
	prop_choose(a, e, &which, value);
	s = model_begin(a->model, "set %s=%s %s", model_props[which], value, name);
	snprintf(state_find(s, name)->prop[which], 24, "%s", value);
	nvlist_add_string(values, model_props[which], value);
	clock = command_starts(a);
	command_ended(a, dsl_props_set(a->lab->spa->dsl, name, values, &err), &err, clock);
}

static void do_inherit(struct actor *a)
{
	static const unsigned inheritable[] = {0, 1, 2, 4};
	struct entry *e = choose(a, is_any);
	unsigned which = inheritable[rng_below(&a->rng, ARRAY_LEN(inheritable))];
	char name[DSL_NAME_MAX];
	struct err err = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!e || !e->prop[which][0])
		return;
	snprintf(name, sizeof(name), "%s", e->name);
	s = model_begin(a->model, "inherit %s %s", model_props[which], name);
	state_find(s, name)->prop[which][0] = '\0';
	clock = command_starts(a);
	command_ended(a, dsl_prop_inherit(a->lab->spa->dsl, name, model_props[which], false, &err), &err, clock);
}

static void do_hold(struct actor *a)
{
	struct entry *snap = choose(a, is_snapshot);
	char name[DSL_NAME_MAX], tag[24];
	const char *names = name;
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!snap)
		return;
	snprintf(name, sizeof(name), "%s", snap->name);
	snprintf(tag, sizeof(tag), "h%u", snap->holds);
	s = model_begin(a->model, "hold %s %s", tag, name);
	state_find(s, name)->holds++;
	clock = command_starts(a);
	command_ended(a, dsl_hold(a->lab->spa->dsl, &names, 1, tag, &e), &e, clock);
}

static bool is_held(struct actor *a, const struct entry *e)
{
	return e->is_snapshot && e->holds;
}

static void do_release(struct actor *a)
{
	struct entry *snap = choose(a, is_held);
	char name[DSL_NAME_MAX], tag[24];
	const char *names = name;
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;

	if (!snap)
		return;
	snprintf(name, sizeof(name), "%s", snap->name);
	snprintf(tag, sizeof(tag), "h%u", snap->holds - 1);
	s = model_begin(a->model, "release %s %s", tag, name);
	state_find(s, name)->holds--;
	deferred_expect(a, s, name);
	clock = command_starts(a);
	command_ended(a, dsl_release_hold(a->lab->spa->dsl, &names, 1, tag, &e), &e, clock);
}

/* --- the pool --- */

static void do_comment(struct actor *a)
{
	autonv struct nvlist *values = nvlist_create();
	struct err e = ERR_INIT;
	struct state *s;
	char comment[32];
	uint64_t clock;

	snprintf(comment, sizeof(comment), "comment %u", a->names++);
	s = model_begin(a->model, "set comment=%s", comment);
	snprintf(s->comment, sizeof(s->comment), "%s", comment);
	nvlist_add_string(values, "comment", comment);
	clock = command_starts(a);
	command_ended(a, spa_props_set(a->lab->spa, values, &e), &e, clock);
}

static void do_add(struct actor *a)
{
	struct err e = ERR_INIT;
	struct state *s;
	uint64_t clock;
	bool log = rng_percent(&a->rng, 30);

	if (a->next_disk >= a->lab->ndisks)
		return;
	s = model_begin(a->model, "add disk %u%s", a->next_disk, log ? " as log" : "");
	s->tops++;
	clock = command_starts(a);
	if (command_ended(a, lab_add(a->lab, a->next_disk, 1, log, a->lab->spa->root->child[0]->ashift, &e), &e,
			  clock) == 0)
		a->next_disk++;
}

static void do_sync(struct actor *a)
{
	uint64_t clock = actor_clock(a);

	lab_context("sync");
	spa_sync_now(a->lab->spa);
	if (!a->may_fail)
		actor_all_safe(a, clock);
}

static void do_kick(struct actor *a)
{
	txg_kick(a->lab->spa->dp.txgs);
}

static void do_export(struct actor *a)
{
	struct err e = ERR_INIT;

	if (a->no_export)
		return;
	lab_context("export");
	actor_close_all(a);
	if (lab_export(a->lab, &e))
		lab_fatal("refused: %s", e.text);
	actor_all_safe(a, actor_clock(a));
	lab_context("import");
	if (lab_import(a->lab, true, &e))
		lab_fatal("refused: %s", e.text);
	actor_open_all(a);
}

static const struct {
	void (*run)(struct actor *a);
	unsigned weight;
} commands[] = {
    {do_create_filesystem, 6},
    {do_create_volume, 10},
    {do_snapshot, 18},
    {do_clone, 8},
    {do_promote, 5},
    {do_rename, 5},
    {do_rename_snapshot, 3},
    {do_destroy_snapshots, 9},
    {do_destroy_deferred, 3},
    {do_destroy_head, 6},
    {do_rollback, 6},
    {do_resize, 4},
    {do_set, 12},
    {do_inherit, 4},
    {do_hold, 3},
    {do_release, 3},
    {do_comment, 3},
    {do_add, 1},
    {do_sync, 5},
    {do_kick, 6},
    {do_export, 2},
};

static size_t volumes(struct actor *a)
{
	SCOPED_LOCK(&a->lock);
	return a->volumes.len;
}

void actor_command(struct actor *a)
{
	uint64_t sum = 0, dice;

	if (volumes(a) < VOLUMES_MIN && heads(a) < DATASETS_MAX) {
		do_create_volume(a);
		return;
	}

	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		sum += commands[i].weight;
	dice = rng_below(&a->rng, sum);
	atomic_fetch_add(&a->commands, 1);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (dice < commands[i].weight) {
			commands[i].run(a);
			return;
		}
		dice -= commands[i].weight;
	}
}
