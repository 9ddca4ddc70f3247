/*
 * Destroying data sets, snapshots and bookmarks, and rolling back: what else has to go is found out first, and is
 * either told as what is in the way, or goes too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/hash.h"
#include "serve/daemon/dataset_changes.h"
#include "serve/daemon/mounts.h"

#define LISTED_MAX    8 /* names that an error lists */
#define BUSY_TURNS    50
#define BUSY_PAUSE_US 20000

/* Names in the order in which they came, each once. */
struct name_set {
	struct strings list;
	struct strmap *seen; /* NULL: none yet */
};

static bool name_set_has(const struct name_set *s, const char *name)
{
	return s->seen && strmap_get(s->seen, name);
}

/* False: it is there. */
static bool name_set_add(struct name_set *s, const char *name)
{
	if (name_set_has(s, name))
		return false;
	if (!s->seen)
		s->seen = strmap_create();
	strmap_set(s->seen, name, s);
	strings_add(&s->list, xstrdup(name));
	return true;
}

static void name_set_drop_last(struct name_set *s)
{
	char *name = s->list.s[--s->list.n];

	strmap_set(s->seen, name, NULL);
	free(name);
}

static void name_set_free(struct name_set *s)
{
	strings_free(&s->list);
	strmap_destroy(s->seen);
}

/* What is to go, in an order in which it can. */
struct plan {
	struct pool *p;
	bool clones;              /* -R: clones outside the tree go too */
	struct name_set names;    /* heads and snapshots */
	struct name_set visiting; /* heads whose turn has begun */
	struct name_set in_way;   /* clones outside the tree, without -R */
	const char *top;          /* of the tree, "" none: every clone is outside */
	int err;
	struct err *e;
};

static void plan_free(struct plan *plan)
{
	name_set_free(&plan->names);
	name_set_free(&plan->visiting);
	name_set_free(&plan->in_way);
}

static void plan_head(struct plan *plan, const char *name);

static bool is_in_tree(const char *name, const char *top)
{
	size_t len = strlen(top);

	return len && strncmp(name, top, len) == 0 && (!name[len] || name[len] == '/' || name[len] == '@');
}

/* Clones of a snapshot go before it. */
static void plan_clones(struct plan *plan, struct dsl_dataset *snap)
{
	static const char *const property[] = {"clones"};
	autonv struct nvlist *props = NULL;
	struct nvlist *clones;
	autofree char *text = NULL;
	char *save = NULL;

	if (dsl_props_get(snap, property, 1, &props, NULL) || nvlist_list(props, "clones", &clones))
		return;
	text = xstrdup(nvlist_string_or(clones, "value", ""));
	for (char *name = strtok_r(text, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		if (plan->clones || is_in_tree(name, plan->top))
			plan_head(plan, name);
		else
			name_set_add(&plan->in_way, name);
	}
}

static int plan_snapshot(void *arg, struct dsl_dataset *snap)
{
	struct plan *plan = arg;

	plan_clones(plan, snap);
	name_set_add(&plan->names, snap->name);
	return 0;
}

static int plan_child(void *arg, struct dsl_dir *child)
{
	plan_head(arg, child->name);
	return 0;
}

static void plan_head(struct plan *plan, const char *name)
{
	struct dsl_dataset *ds;

	if (plan->err || !name_set_add(&plan->visiting, name))
		return;
	plan->err = dsl_dataset_hold(plan->p->spa->dsl, name, &ds, plan->e);
	if (plan->err)
		return;
	dsl_each_child(ds->dir, plan_child, plan);
	dsl_each_snapshot(ds, plan_snapshot, plan);
	name_set_add(&plan->names, ds->name);
	dsl_dataset_release(ds);
}

static void hints_list(struct err *e, const struct strings *names, size_t first)
{
	for (size_t i = first; i < names->n && i < first + LISTED_MAX; i++)
		err_hint(e, "%s", names->s[i]);
	if (names->n > first + LISTED_MAX)
		err_hint(e, "and %zu more", names->n - first - LISTED_MAX);
}

static int plan_check_clones(const struct plan *plan, const char *what, struct err *e)
{
	if (!plan->in_way.list.n)
		return 0;
	err_set(e, -EBUSY, "%s has dependent clones", what);
	err_hint(e, "use '-R' to destroy the following datasets:");
	hints_list(e, &plan->in_way.list, 0);
	return -EBUSY;
}

/* Without -r a head must stand alone: its own name is the last of the plan. */
static int plan_check_alone(const struct plan *plan, const char *what, struct err *e)
{
	struct strings others = {plan->names.list.s, plan->names.list.n - 1};

	if (!others.n)
		return 0;
	err_set(e, -EBUSY, "%s has children", what);
	err_hint(e, "use '-r' to destroy the following datasets:");
	hints_list(e, &others, 0);
	return -EBUSY;
}

/* --- carrying it out --- */

/* A client that has just hung up may hold its volume for a moment still, as may a block that is read ahead: that is no
 * reason to refuse. Runs `change` again for as long as such things last. */
static int run_when_idle(int (*change)(struct dsl_pool *p, const char *head, const char *snapshot, struct err *e),
			 struct dsl_pool *p, const char *head, const char *snapshot, struct err *e)
{
	for (unsigned turn = 0;; turn++) {
		struct err mine = ERR_INIT;
		int err = change(p, head, snapshot, &mine);

		if (err != -EBUSY || turn == BUSY_TURNS) {
			if (err)
				*e = mine;
			return err;
		}
		usleep(BUSY_PAUSE_US);
	}
}

static int change_rollback(struct dsl_pool *p, const char *head, const char *snapshot, struct err *e)
{
	return dsl_rollback(p, head, snapshot, e);
}

/* As run_when_idle, going on where it ended. */
static int destroy_when_idle(struct dsl_pool *p, const struct strings *names, bool defer, struct err *e)
{
	size_t at = 0, done;

	for (unsigned turn = 0;; turn++) {
		struct err mine = ERR_INIT;
		int err = dsl_destroy(p, (const char *const *)names->s + at, names->n - at, defer, &done, &mine);

		at += done;
		if (err != -EBUSY || turn == BUSY_TURNS) {
			if (err && at)
				err_hint(&mine, "%zu of %zu are destroyed", at, names->n);
			if (err)
				*e = mine;
			return err;
		}
		usleep(BUSY_PAUSE_US);
	}
}

/* After a failure: what is still there is mounted as its properties say. */
static void mount_again(struct tarn_daemon *d, struct pool *p, const struct strings *names)
{
	for (size_t i = 0; i < names->n; i++) {
		struct mount_request mr = {.name = names->s[i], .automatic = true};

		mounts_mount(d, p, &mr, NULL);
	}
}

/* What is held is told before anything is unmounted, what is busy before anything is destroyed. */
static int plan_run(struct tarn_daemon *d, struct plan *plan, bool force, bool defer, struct err *e)
{
	const struct strings *names = &plan->names.list;
	struct dsl_pool *dsl = plan->p->spa->dsl;
	struct strings mounted = {NULL, 0};
	int err;

	if (!names->n)
		return 0;
	err = dsl_destroy_check(dsl, (const char *const *)names->s, names->n, defer, e);
	if (!err)
		err = mounts_unmount_named(d, plan->p, plan->names.seen, force, &mounted, e);
	if (!err)
		err = destroy_when_idle(dsl, names, defer, e);
	if (err)
		mount_again(d, plan->p, &mounted);
	strings_free(&mounted);
	return err;
}

static void plan_tell(const struct plan *plan, struct nvlist *result)
{
	const struct strings *names = &plan->names.list;

	if (names->n)
		nvlist_add_strings(result, "destroyed", (const char *const *)names->s, names->n);
}

/* --- heads --- */

static int destroy_head(struct control_request *rq, const struct nvlist *args, struct pool *p, const char *name,
			struct nvlist *result, struct err *e)
{
	bool clones = nvlist_bool(args, "clones"), recursive = clones || nvlist_bool(args, "recursive");
	struct plan plan = {.p = p, .clones = clones, .top = name, .e = e};
	struct dsl_dataset *ds;
	unsigned type = DSL_FILESYSTEM;
	const char *what;
	int err = dsl_dataset_hold(p->spa->dsl, name, &ds, e);

	if (err)
		return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
	dsl_dataset_type(ds, &type);
	dsl_dataset_release(ds);
	what = type & DSL_VOLUME ? "volume" : "filesystem";
	if (!strchr(name, '/')) {
		err_set(e, -EINVAL, "operation does not apply to pools");
		err_hint(e, "use 'zfs destroy -r %s' to destroy all datasets in the pool", name);
		err_hint(e, "use 'zpool destroy %s' to destroy the pool itself", name);
		if (!recursive)
			return -EINVAL;
		e->text[0] = 0;
	}
	plan_head(&plan, name);
	err = plan.err;
	if (!err && !recursive)
		err = plan_check_alone(&plan, what, e);
	if (!err)
		err = plan_check_clones(&plan, what, e);
	if (!err && !strchr(name, '/')) /* all of a pool but its root */
		name_set_drop_last(&plan.names);
	if (!err) {
		plan_tell(&plan, result);
		if (!nvlist_bool(args, "dry"))
			err = plan_run(command_daemon(rq), &plan, nvlist_bool(args, "force"), false, e);
	}
	plan_free(&plan);
	return err;
}

/* --- snapshots --- */

/* One part of a list of snapshots: a name, or a range by age; empty ends are the first and the last. */
struct range_spec {
	const char *first, *last;
	bool range;
	bool inside; /* while walking: first was met, last not yet */
	bool met;
};

struct snapshot_match {
	struct plan *plan;
	struct range_spec *spec;
	size_t nspecs;
	char *run_first, *run_last; /* the run of neighbours that is being gathered, for the space it gives back */
	uint64_t reclaim;
};

static bool spec_matches(struct range_spec *s, const char *name)
{
	bool match;

	if (!s->range)
		return strcmp(s->first, name) == 0;
	if (!s->met && (!*s->first || strcmp(s->first, name) == 0))
		s->inside = s->met = true;
	match = s->inside;
	if (*s->last && strcmp(s->last, name) == 0)
		s->inside = false;
	return match;
}

static void run_end(struct snapshot_match *m)
{
	uint64_t bytes = 0;

	if (m->run_first && dsl_destroy_snapshots_space(m->plan->p->spa->dsl, m->run_first, m->run_last, &bytes) == 0)
		m->reclaim += bytes;
	free(m->run_first);
	free(m->run_last);
	m->run_first = m->run_last = NULL;
}

static int match_snapshot(void *arg, struct dsl_dataset *snap)
{
	struct snapshot_match *m = arg;
	bool match = false;

	for (size_t i = 0; i < m->nspecs; i++)
		match |= spec_matches(&m->spec[i], snap->snapname);
	if (!match) {
		run_end(m);
		return 0;
	}
	if (!m->run_first)
		m->run_first = xstrdup(snap->name);
	free(m->run_last);
	m->run_last = xstrdup(snap->name);
	return plan_snapshot(m->plan, snap);
}

static int match_head(struct snapshot_match *m, struct dsl_dataset *head)
{
	int err;

	for (size_t i = 0; i < m->nspecs; i++)
		m->spec[i].inside = m->spec[i].met = false;
	err = dsl_each_snapshot(head, match_snapshot, m);
	run_end(m);
	return err;
}

static int match_dir(void *arg, struct dsl_dir *dir)
{
	struct snapshot_match *m = arg;
	struct dsl_dataset *head;
	int err = dsl_dataset_hold(dir->pool, dir->name, &head, NULL);

	if (!err) {
		err = match_head(m, head);
		dsl_dataset_release(head);
	}
	return err ? err : dsl_each_child(dir, match_dir, m);
}

/* "a,b%c,%d": cut in place. */
static struct range_spec *specs_parse(char *text, size_t *n)
{
	struct range_spec *spec = NULL;
	char *save = NULL;

	*n = 0;
	for (char *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		char *percent = strchr(word, '%');

		spec = xrealloc(spec, (*n + 1) * sizeof(*spec));
		if (percent)
			*percent = 0;
		spec[(*n)++] = (struct range_spec){.first = word, .last = percent ? percent + 1 : "", .range = percent};
	}
	return spec;
}

static int snapshots_find(struct snapshot_match *m, const char *head_name, bool recursive, struct err *e)
{
	struct dsl_dataset *head;
	int err = dsl_dataset_hold(m->plan->p->spa->dsl, head_name, &head, e);

	if (err)
		return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
	err = recursive ? match_dir(m, head->dir) : match_head(m, head);
	dsl_dataset_release(head);
	if (!err && !m->plan->names.list.n) {
		err_set(e, -ENOENT, "could not find any snapshots to destroy; check snapshot names.");
		return -ENOENT;
	}
	return err;
}

static int destroy_snapshots(struct control_request *rq, const struct nvlist *args, struct pool *p, const char *name,
			     struct nvlist *result, struct err *e)
{
	bool defer = nvlist_bool(args, "defer"), clones = nvlist_bool(args, "clones");
	autofree char *head = xstrdup(name);
	autofree char *list = xstrdup(strchr(name, '@') + 1);
	struct plan plan = {.p = p, .clones = clones, .top = "", .e = e};
	struct snapshot_match m = {.plan = &plan};
	int err;

	*strchr(head, '@') = '\0';
	m.spec = specs_parse(list, &m.nspecs);
	err = snapshots_find(&m, head, clones || nvlist_bool(args, "recursive"), e);
	if (!err)
		err = plan.err;
	if (!err && !defer)
		err = plan_check_clones(&plan, "snapshot", e);
	if (!err) {
		plan_tell(&plan, result);
		nvlist_add_u64(result, "reclaim", m.reclaim);
		if (!nvlist_bool(args, "dry"))
			err = plan_run(command_daemon(rq), &plan, nvlist_bool(args, "force"), defer, e);
	}
	free(m.spec);
	plan_free(&plan);
	return err;
}

int command_dataset_destroy(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *name = nvlist_string_or(args, "name", "");
	struct pool *p;
	int err = change_begin(rq, name, &p, e);

	if (err)
		return err;
	if (strchr(name, '#'))
		err = nvlist_bool(args, "dry") ? 0 : dsl_bookmark_destroy(p->spa->dsl, &name, 1, e);
	else if (strchr(name, '@'))
		err = destroy_snapshots(rq, args, p, name, result, e);
	else
		err = destroy_head(rq, args, p, name, result, e);
	return change_end(rq, args, p, err);
}

/* --- rollback --- */

struct newer {
	uint64_t than; /* creation group */
	struct plan *plan;
	struct strings bookmarks;
	const char *head;
};

static int newer_snapshot(void *arg, struct dsl_dataset *snap)
{
	struct newer *n = arg;

	return snap->creation_txg > n->than ? plan_snapshot(n->plan, snap) : 0;
}

static int newer_bookmark(void *arg, const struct dsl_bookmark *b)
{
	struct newer *n = arg;

	if (b->creation_txg > n->than)
		strings_add(&n->bookmarks, xasprintf("%s#%s", n->head, b->name));
	return 0;
}

static int newer_find(struct pool *p, const char *snapshot, struct newer *n, struct err *e)
{
	struct dsl_dataset *snap, *head;
	int err = dsl_dataset_hold(p->spa->dsl, snapshot, &snap, e);

	if (err)
		return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
	n->than = snap->creation_txg;
	dsl_dataset_release(snap);
	err = dsl_dataset_hold(p->spa->dsl, n->head, &head, e);
	if (err)
		return err;
	dsl_each_snapshot(head, newer_snapshot, n);
	dsl_each_bookmark(head, newer_bookmark, n);
	dsl_dataset_release(head);
	return n->plan->err;
}

static int newer_check(const struct newer *n, bool recursive, struct err *e)
{
	int err;

	if (recursive || !(n->plan->names.list.n + n->bookmarks.n)) {
		err = plan_check_clones(n->plan, "a more recent snapshot", e);
		return err;
	}
	err_set(e, -EEXIST, "more recent snapshots or bookmarks exist");
	err_hint(e, "use '-r' to force deletion of the following snapshots and bookmarks:");
	hints_list(e, &n->plan->names.list, 0);
	hints_list(e, &n->bookmarks, 0);
	return -EEXIST;
}

static int rollback_run(struct control_request *rq, const struct nvlist *args, struct newer *n, const char *snapshot,
			struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	struct mount_request mr = {.name = n->head, .automatic = true};
	struct pool *p = n->plan->p;
	struct strings mounted = {NULL, 0};
	struct failures f = {NULL, 0};
	struct err me = ERR_INIT;
	int err = plan_run(d, n->plan, nvlist_bool(args, "force"), false, e);

	if (!err && n->bookmarks.n)
		err = dsl_bookmark_destroy(p->spa->dsl, (const char *const *)n->bookmarks.s, n->bookmarks.n, e);
	if (!err)
		err = mounts_unmount_tree(d, p, n->head, nvlist_bool(args, "force"), &mounted, e);
	if (!err)
		err = run_when_idle(change_rollback, p->spa->dsl, n->head, snapshot, e);
	if (mounted.n && strings_contain(&mounted, n->head) && mounts_mount(d, p, &mr, &me))
		failures_add(&f, me.text);
	failures_finish(&f, result);
	strings_free(&mounted);
	return err;
}

int command_dataset_rollback(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e)
{
	const char *snapshot = nvlist_string_or(args, "snapshot", "");
	autofree char *head = xasprintf("%.*s", (int)strcspn(snapshot, "@"), snapshot);
	struct plan plan = {.clones = nvlist_bool(args, "clones"), .top = "", .e = e};
	struct newer n = {.plan = &plan, .head = head};
	int err = change_begin(rq, snapshot, &plan.p, e);

	if (err)
		return err;
	err = newer_find(plan.p, snapshot, &n, e);
	if (!err)
		err = newer_check(&n, nvlist_bool(args, "recursive") || plan.clones, e);
	if (!err)
		err = rollback_run(rq, args, &n, snapshot, result, e);
	strings_free(&n.bookmarks);
	err = change_end(rq, args, plan.p, err);
	plan_free(&plan);
	return err;
}
