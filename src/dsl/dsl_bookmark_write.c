/*
 * dsl/dsl_bookmark_write.c: changing bookmarks (03-datasets.md 4.11), and what was freed since them.
 */
#include "base/str.h"
#include "dsl/dsl_live.h"

#define KEY               "com.delphix:bookmarks"
#define FEATURE_BOOKMARKS "com.delphix:bookmarks"
#define FEATURE_V2        "com.datto:bookmark_v2"
#define FEATURE_WRITTEN   "com.delphix:bookmark_written"
#define FEATURE_REDACTION "com.delphix:redaction_bookmarks"
#define FEATURE_SPILL     "com.delphix:redaction_list_spill"
#define IVSET_KEY         "com.datto:ivset_guid"
#define NORM_UPPER        2 /* of the map (02, 9.6) */

#define HAS_FBN         1u
#define SNAPSHOT_EXISTS 2u

enum { W_GUID, W_TXG, W_TIME, W_REDACTION, W_FLAGS, W_REF, W_COMP, W_UNCOMP, W_FBN, W_IVSET = 11, WORDS };
#define WORDS_V1 3

struct mark {
	char name[DSL_NAME_MAX];
	unsigned nwords; /* stored */
	uint64_t w[WORDS];
};

struct marks {
	uint64_t zap; /* 0: none */
	struct mark *m;
	size_t n;
};

static void autofree_marks(struct marks *l)
{
	free(l->m);
}
#define automarks __attribute__((cleanup(autofree_marks), unused))

static bool mark_decode(struct zap_cursor *c, const struct zap_entry *ze, struct mark *m)
{
	*m = (struct mark){.nwords = ze->nints};
	if (ze->key_words || ze->intsize != 8 || ze->nints < WORDS_V1 || ze->nints > WORDS ||
	    strlen(ze->name) >= DSL_NAME_MAX)
		return false;
	str_copy(m->name, sizeof(m->name), ze->name);
	return zap_cursor_value(c, m->w, ze->nints) == 0;
}

/* All of a head; what cannot be decoded is left alone. */
static int marks_read(struct dsl_dataset *head, struct marks *l)
{
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct zap_cursor *c;
	size_t cap = 0;
	int damage = 0, err;

	*l = (struct marks){0};
	err = dsl_dataset_ext_u64(head, KEY, &l->zap);
	if (err)
		return err == -ENOENT ? 0 : err;
	err = zap_cursor_open(head->pool->mos, l->zap, 0, &c);
	if (err)
		return err;
	while (dsl_zap_next(c, ze, &damage) == 0) {
		if (l->n == cap) {
			cap = MAX(16, 2 * cap);
			l->m = xrealloc(l->m, cap * sizeof(*l->m));
		}
		l->n += mark_decode(c, ze, &l->m[l->n]);
	}
	zap_cursor_close(c);
	return damage;
}

static bool has_fbn(const struct mark *m)
{
	return m->w[W_FLAGS] & HAS_FBN;
}

static void fbn_add(struct mark *m, const struct dsl_space *s)
{
	m->w[W_FBN] += s->used;
	m->w[W_FBN + 1] += s->comp;
	m->w[W_FBN + 2] += s->uncomp;
}

static void mark_store(struct dsl_pool *p, uint64_t zap, const struct mark *m, struct tx *tx)
{
	dsl_sync_check(p, zap_update(p->mos, zap, m->name, 8, m->nwords, m->w, tx), "a bookmark cannot be stored");
}

/* --- the head's map of bookmarks --- */

static uint64_t map_make(struct dsl_dataset *head, struct tx *tx)
{
	const struct zap_spec spec = {.type = DMU_OTN_ZAP_METADATA, .normflags = NORM_UPPER};
	struct dsl_pool *p = head->pool;
	uint64_t zap = 0;

	if (dsl_dataset_ext_u64(head, KEY, &zap) == 0)
		return zap;
	dsl_dataset_extend(head, tx);
	if (dsl_sync_check(p, zap_create(p->mos, &spec, tx, &zap), "bookmarks cannot be made") ||
	    dsl_sync_check(p, zap_add_u64(p->mos, head->object, KEY, zap, tx), "bookmarks cannot be made"))
		return 0;
	dsl_feature_count(p, FEATURE_BOOKMARKS, 1, tx);
	return zap;
}

static void map_drop(struct dsl_dataset *head, uint64_t zap, struct tx *tx)
{
	struct dsl_pool *p = head->pool;

	dsl_sync_check(p, zap_remove(p->mos, head->object, KEY, tx), "bookmarks cannot be removed");
	dsl_sync_check(p, dmu_object_free(p->mos, zap, tx), "bookmarks cannot be removed");
	dsl_feature_count(p, FEATURE_BOOKMARKS, -1, tx);
}

static void map_drop_if_empty(struct dsl_dataset *head, uint64_t zap, struct tx *tx)
{
	uint64_t n;

	if (dsl_sync_check(head->pool, zap_count(head->pool->mos, zap, &n), "bookmarks cannot be counted") == 0 &&
	    n == 0)
		map_drop(head, zap, tx);
}

/* Counts of the features that a bookmark uses by itself. */
static void features_count(struct dsl_pool *p, const struct mark *m, int64_t delta, struct tx *tx)
{
	struct dnode *dn;

	if (m->nwords == WORDS)
		dsl_feature_count(p, FEATURE_V2, delta, tx);
	if (has_fbn(m))
		dsl_feature_count(p, FEATURE_WRITTEN, delta, tx);
	if (!m->w[W_REDACTION])
		return;
	dsl_feature_count(p, FEATURE_REDACTION, delta, tx);
	if (dnode_hold(p->mos, m->w[W_REDACTION], &dn, NULL))
		return;
	if (dn->has_spill)
		dsl_feature_count(p, FEATURE_SPILL, delta, tx);
	dnode_release(dn);
}

/* The entry stays: it goes with its map, or by the caller. */
static void mark_release(struct dsl_pool *p, const struct mark *m, struct tx *tx)
{
	features_count(p, m, -1, tx);
	if (m->w[W_REDACTION])
		dsl_sync_check(p, dmu_object_free(p->mos, m->w[W_REDACTION], tx), "a redaction list cannot be freed");
}

/* --- what is freed while a head is written --- */

struct dsl_fbn {
	struct marks marks; /* those that count, newest first */
	bool *changed;
};

static int mark_cmp_newest(const void *pa, const void *pb)
{
	const struct mark *a = pa, *b = pb;

	return a->w[W_TXG] > b->w[W_TXG] ? -1 : a->w[W_TXG] < b->w[W_TXG];
}

struct dsl_fbn *dsl_fbn_load(struct dsl_dataset *head)
{
	struct dsl_fbn *f = xcalloc(1, sizeof(*f));
	size_t n = 0;

	dsl_sync_check(head->pool, marks_read(head, &f->marks), "bookmarks cannot be read");
	for (size_t i = 0; i < f->marks.n; i++)
		if (has_fbn(&f->marks.m[i]))
			f->marks.m[n++] = f->marks.m[i];
	f->marks.n = n;
	if (n == 0) {
		dsl_fbn_free(f);
		return NULL;
	}
	qsort(f->marks.m, n, sizeof(*f->marks.m), mark_cmp_newest);
	f->changed = xcalloc(n, sizeof(*f->changed));
	return f;
}

void dsl_fbn_free(struct dsl_fbn *f)
{
	if (!f)
		return;
	free(f->marks.m);
	free(f->changed);
	free(f);
}

void dsl_fbn_killed(struct dsl_fbn *f, uint64_t prev_txg, uint64_t birth, const struct dsl_space *s)
{
	for (size_t i = 0; i < f->marks.n && f->marks.m[i].w[W_TXG] >= MAX(prev_txg, birth); i++) {
		fbn_add(&f->marks.m[i], s);
		f->changed[i] = true;
	}
}

void dsl_fbn_store(struct dsl_fbn *f, struct dsl_dataset *head, struct tx *tx)
{
	for (size_t i = 0; i < f->marks.n; i++) {
		if (f->changed[i])
			mark_store(head->pool, f->marks.zap, &f->marks.m[i], tx);
		f->changed[i] = false;
	}
}

/* --- through the operations on data sets --- */

/* What cannot be read is told and counts as no bookmarks: the group ends with it. */
static void marks_of(struct dsl_dataset *head, struct marks *l)
{
	dsl_sync_check(head->pool, marks_read(head, l), "bookmarks cannot be read");
}

void dsl_bookmarks_snapshotted(struct dsl_dataset *head, uint64_t prev_txg, struct dsl_deadlist *dl, struct tx *tx)
{
	automarks struct marks l = {0};

	marks_of(head, &l);
	for (size_t i = 0; i < l.n; i++)
		if (has_fbn(&l.m[i]) && l.m[i].w[W_TXG] > prev_txg)
			dsl_sync_check(head->pool, dsl_deadlist_add_key(dl, l.m[i].w[W_TXG], tx),
				       "a deadlist cannot be changed");
}

bool dsl_bookmarks_snapshot_destroyed(struct dsl_dataset *head, struct dsl_dataset *snap, struct dsl_deadlist *dl,
				      struct tx *tx)
{
	automarks struct marks l = {0};
	bool keep = false;

	marks_of(head, &l);
	for (size_t i = 0; i < l.n; i++) {
		struct mark *m = &l.m[i];
		uint64_t txg = m->w[W_TXG];
		struct dsl_space s;

		if (!has_fbn(m) || txg < snap->prev_snap_txg || txg > snap->creation_txg)
			continue;
		if (txg == snap->creation_txg) {
			m->w[W_FLAGS] &= ~(uint64_t)SNAPSHOT_EXISTS;
			keep = true;
		} else {
			if (dsl_sync_check(head->pool, dsl_deadlist_sums_range(dl, 0, txg, &s),
					   "a deadlist cannot be read"))
				continue;
			fbn_add(m, &s);
		}
		mark_store(head->pool, l.zap, m, tx);
	}
	return keep;
}

void dsl_bookmarks_destroy_all(struct dsl_dataset *head, struct tx *tx)
{
	automarks struct marks l = {0};

	marks_of(head, &l);
	for (size_t i = 0; i < l.n; i++)
		mark_release(head->pool, &l.m[i], tx);
	if (l.zap)
		map_drop(head, l.zap, tx);
}

/* What data set `next` frees counts for the bookmark at the snapshot before it. */
static void fbn_recompute(struct mark *m, struct dsl_dataset *next)
{
	struct dsl_deadlist *dl;
	struct dsl_space s;

	if (!has_fbn(m) || dsl_sync_check(next->pool, dsl_dataset_deadlist(next, &dl), "a deadlist cannot be read"))
		return;
	dsl_deadlist_sums(dl, &s);
	m->w[W_FBN] = s.used;
	m->w[W_FBN + 1] = s.comp;
	m->w[W_FBN + 2] = s.uncomp;
}

static void mark_move(struct dsl_dataset *from, uint64_t zap, struct dsl_dataset *to, const struct mark *m,
		      struct tx *tx)
{
	struct dsl_pool *p = from->pool;
	uint64_t there = map_make(to, tx);

	if (!there)
		return;
	dsl_sync_check(p, zap_add(p->mos, there, m->name, 8, m->nwords, m->w, tx), "a bookmark cannot be moved");
	dsl_sync_check(p, zap_remove(p->mos, zap, m->name, tx), "a bookmark cannot be moved");
}

void dsl_bookmarks_promoted(struct dsl_dataset *from, struct dsl_dataset *to, struct dsl_dataset *branch, struct tx *tx)
{
	struct dsl_edit next;
	automarks struct marks l = {0};

	marks_of(from, &l);
	if (l.n == 0 || dsl_sync_check(from->pool, dsl_edit_begin(from->pool, branch->next_snap, &next),
				       "a data set cannot be read"))
		return;
	for (size_t i = 0; i < l.n; i++) {
		if (l.m[i].w[W_TXG] > branch->creation_txg)
			continue;
		if (l.m[i].w[W_TXG] == branch->creation_txg)
			fbn_recompute(&l.m[i], next.ds);
		mark_move(from, l.zap, to, &l.m[i], tx);
	}
	dsl_edit_end(&next);
	map_drop_if_empty(from, l.zap, tx);
}

void dsl_bookmarks_recompute(struct dsl_dataset *head, struct dsl_dataset *at, struct tx *tx)
{
	automarks struct marks l = {0};

	marks_of(head, &l);
	for (size_t i = 0; i < l.n; i++) {
		if (l.m[i].w[W_TXG] != at->prev_snap_txg || !has_fbn(&l.m[i]))
			continue;
		fbn_recompute(&l.m[i], head);
		mark_store(head->pool, l.zap, &l.m[i], tx);
	}
	dsl_dataset_bookmarks_changed(head);
}

uint64_t dsl_bookmarks_newest(struct dsl_dataset *head)
{
	automarks struct marks l = {0};
	uint64_t newest = 0;

	if (marks_read(head, &l))
		return 0;
	for (size_t i = 0; i < l.n; i++)
		newest = MAX(newest, l.m[i].w[W_TXG]);
	return newest;
}

bool dsl_bookmarks_conflict(struct dsl_dataset *from, uint64_t txg, struct dsl_dataset *to, char *name)
{
	automarks struct marks a = {0}, b = {0};

	if (marks_read(from, &a) || a.n == 0 || marks_read(to, &b))
		return false;
	for (size_t i = 0; i < a.n; i++) {
		for (size_t k = 0; k < b.n && a.m[i].w[W_TXG] <= txg; k++) {
			if (strcmp(a.m[i].name, b.m[k].name) != 0)
				continue;
			str_copy(name, DSL_NAME_MAX, a.m[i].name);
			return true;
		}
	}
	return false;
}

/* --- creating --- */

struct create_arg {
	struct dsl_pool *p;
	const char *source, *bookmark;
	char head[DSL_NAME_MAX], name[DSL_NAME_MAX];
};

/* "pool/a#b" or "pool/a@b" apart. */
static int name_split(const char *full, char mark, char *head, const char **name, struct err *e)
{
	const char *at = strchr(full, mark);

	if (!at || strlen(full) >= DSL_NAME_MAX || !dsl_component_is_sane(at + 1))
		return err_set(e, -EINVAL, "invalid %s name", mark == '#' ? "bookmark" : "snapshot");
	snprintf(head, DSL_NAME_MAX, "%.*s", (int)(at - full), full);
	*name = at + 1;
	return 0;
}

static int mark_find(struct dsl_dataset *head, const char *name, struct mark *out, uint64_t *zap)
{
	automarks struct marks l = {0};
	int err = marks_read(head, &l);

	if (err)
		return err;
	*zap = l.zap;
	for (size_t i = 0; i < l.n; i++) {
		if (strcmp(l.m[i].name, name) == 0) {
			*out = l.m[i];
			return 0;
		}
	}
	return -ENOENT;
}

static uint64_t ivset_guid(const struct dsl_dataset *snap)
{
	uint64_t guid;

	return dsl_dataset_ext_u64(snap, IVSET_KEY, &guid) ? 0 : guid;
}

static int snapshot_mark(struct dsl_dataset *snap, struct mark *m)
{
	struct dsl_pool *p = snap->pool;
	struct dsl_edit next;
	int err;

	m->w[W_GUID] = snap->guid;
	m->w[W_TXG] = snap->creation_txg;
	m->w[W_TIME] = snap->creation_time;
	if (dsl_feature_enabled(p, FEATURE_V2))
		m->w[W_IVSET] = ivset_guid(snap);
	if (!dsl_feature_enabled(p, FEATURE_WRITTEN))
		return 0;
	m->w[W_FLAGS] = HAS_FBN | SNAPSHOT_EXISTS;
	m->w[W_REF] = snap->used;
	m->w[W_COMP] = snap->compressed;
	m->w[W_UNCOMP] = snap->uncompressed;
	err = dsl_edit_begin(p, snap->next_snap, &next);
	if (err)
		return err;
	fbn_recompute(m, next.ds);
	dsl_edit_end(&next);
	return 0;
}

/* The point in time that the bookmark is to keep lies in the past of `head`. Sums are filled in syncing context only.
 */
static int source_mark(struct create_arg *a, struct dsl_dataset *head, bool sums, struct mark *m, struct err *e)
{
	bool from_mark = strchr(a->source, '#');
	char from[DSL_NAME_MAX];
	struct dsl_dataset *ds;
	const char *name;
	uint64_t zap;
	int err = 0;

	*m = (struct mark){0};
	if (from_mark)
		err = name_split(a->source, '#', from, &name, e);
	if (!err)
		err = dsl_dataset_hold(a->p, from_mark ? from : a->source, &ds, NULL);
	if (err)
		return err == -ENOENT ? err_set(e, err, "'%s' does not exist", a->source) : err;
	if (from_mark)
		err = mark_find(ds, name, m, &zap);
	else if (!ds->is_snapshot)
		err = -EINVAL;
	else if (sums)
		err = snapshot_mark(ds, m);
	if (err == -ENOENT)
		err_set(e, err, "'%s' does not exist", a->source);
	else if (err == -EINVAL)
		err_set(e, err, "source must be a snapshot or a bookmark");
	m->w[W_REDACTION] = 0;
	if (!err && !dsl_timeline_has(head->dir, UINT64_MAX, ds->dir->object, from_mark ? 0 : ds->object,
				      from_mark ? m->w[W_TXG] - 1 : ds->creation_txg))
		err = err_set(e, -EINVAL, "source is not an ancestor of the new bookmark's dataset");
	dsl_dataset_release(ds);
	return err;
}

static int create_check(void *arg, struct tx *tx, struct err *e)
{
	struct create_arg *a = arg;
	struct dsl_dataset *head;
	struct mark m;
	uint64_t zap;
	int err = dsl_dataset_hold(a->p, a->head, &head, NULL);

	if (err)
		return err_set(e, err, "dataset does not exist");
	if (!dsl_feature_enabled(a->p, FEATURE_BOOKMARKS))
		err = err_set(e, -ENOTSUP, "bookmark feature not enabled");
	if (!err && mark_find(head, a->name, &m, &zap) == 0)
		err = err_set(e, -EEXIST, "bookmark exists");
	if (!err)
		err = source_mark(a, head, false, &m, e);
	dsl_dataset_release(head);
	return err;
}

static void mark_add(struct dsl_dataset *head, struct mark *m, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	bool v2 = dsl_feature_enabled(p, FEATURE_V2) && (m->w[W_IVSET] || has_fbn(m) || m->w[W_REDACTION]);
	uint64_t zap = map_make(head, tx);

	m->nwords = v2 ? WORDS : WORDS_V1;
	if (!v2)
		memset(m->w + WORDS_V1, 0, sizeof(m->w) - WORDS_V1 * sizeof(m->w[0]));
	if (!zap ||
	    dsl_sync_check(p, zap_add(p->mos, zap, m->name, 8, m->nwords, m->w, tx), "a bookmark cannot be made"))
		return;
	features_count(p, m, 1, tx);
	dsl_dataset_bookmarks_changed(head);
	dsl_history(p, "bookmark", head, tx, "name=%s creation_txg=%llu", m->name, (unsigned long long)m->w[W_TXG]);
}

static void create_sync(void *arg, struct tx *tx)
{
	struct create_arg *a = arg;
	struct dsl_dataset *head;
	struct mark m;

	if (dsl_sync_check(a->p, dsl_dataset_hold(a->p, a->head, &head, NULL), "a data set cannot be read"))
		return;
	if (dsl_sync_check(a->p, source_mark(a, head, true, &m, NULL), "the source of a bookmark cannot be read") ==
	    0) {
		str_copy(m.name, sizeof(m.name), a->name);
		mark_add(head, &m, tx);
	}
	dsl_dataset_release(head);
}

int dsl_bookmark_create(struct dsl_pool *p, const char *source, const char *bookmark, struct err *e)
{
	struct create_arg a = {.p = p, .source = source, .bookmark = bookmark};
	struct dsl_task t = {.check = create_check, .sync = create_sync, .arg = &a, .blocks = 1};
	const char *name;
	int err = name_split(bookmark, '#', a.head, &name, e);

	if (err)
		return err;
	str_copy(a.name, sizeof(a.name), name);
	return dsl_task_run(p, &t, e);
}

/* --- destroying --- */

struct destroy_arg {
	struct dsl_pool *p;
	const char *const *names;
	size_t n;
};

/* *ds is held when 0 is returned. -ENOENT: nothing to destroy. */
static int named_mark(struct dsl_pool *p, const char *full, struct dsl_dataset **ds, struct mark *m, uint64_t *zap,
		      struct err *e)
{
	char head[DSL_NAME_MAX];
	const char *name;
	int err = name_split(full, '#', head, &name, e);

	if (!err)
		err = dsl_dataset_hold(p, head, ds, NULL);
	if (err)
		return err;
	err = mark_find(*ds, name, m, zap);
	if (err)
		dsl_dataset_release(*ds);
	return err;
}

static int destroy_check(void *arg, struct tx *tx, struct err *e)
{
	struct destroy_arg *a = arg;

	for (size_t i = 0; i < a->n; i++) {
		struct dsl_dataset *ds;
		struct mark m;
		uint64_t zap;
		int err = named_mark(a->p, a->names[i], &ds, &m, &zap, e);

		if (err == 0)
			dsl_dataset_release(ds);
		else if (err != -ENOENT)
			return err;
	}
	return 0;
}

/* Does the deadlists' key at the bookmark's txg serve nothing else? */
static bool key_is_free(struct dsl_dataset *head, const struct mark *gone)
{
	automarks struct marks l = {0};

	if (!has_fbn(gone) || gone->w[W_FLAGS] & SNAPSHOT_EXISTS || gone->w[W_TXG] >= head->prev_snap_txg)
		return false;
	marks_of(head, &l);
	for (size_t i = 0; i < l.n; i++)
		if (has_fbn(&l.m[i]) && l.m[i].w[W_TXG] == gone->w[W_TXG])
			return false;
	return true;
}

static void mark_destroy(struct dsl_dataset *head, uint64_t zap, const struct mark *m, struct tx *tx)
{
	struct dsl_pool *p = head->pool;

	mark_release(p, m, tx);
	if (dsl_sync_check(p, zap_remove(p->mos, zap, m->name, tx), "a bookmark cannot be removed"))
		return;
	if (key_is_free(head, m))
		dsl_deadlist_key_remove_all(head, m->w[W_TXG], tx);
	map_drop_if_empty(head, zap, tx);
	dsl_dataset_bookmarks_changed(head);
	dsl_history(p, "remove_bookmark", head, tx, "name=%s", m->name);
}

static void destroy_sync(void *arg, struct tx *tx)
{
	struct destroy_arg *a = arg;

	for (size_t i = 0; i < a->n; i++) {
		struct dsl_dataset *ds;
		struct mark m;
		uint64_t zap;
		int err = named_mark(a->p, a->names[i], &ds, &m, &zap, NULL);

		if (err == 0) {
			mark_destroy(ds, zap, &m, tx);
			dsl_dataset_release(ds);
		} else if (err != -ENOENT) {
			dsl_sync_check(a->p, err, "a bookmark cannot be read");
		}
	}
}

int dsl_bookmark_destroy(struct dsl_pool *p, const char *const *names, size_t n, struct err *e)
{
	struct destroy_arg a = {p, names, n};
	struct dsl_task t = {.check = destroy_check, .sync = destroy_sync, .arg = &a, .blocks = n};

	return dsl_task_run(p, &t, e);
}
