/* The whole pool: every block, and every sum that data sets keep of theirs. */
#include "dmu/traverse.h"
#include "dsl/dsl_live.h"
#include "lab.h"
#include "spa/check.h"

#define LOG_LEVEL (-2) /* of bookmarks of intent logs */
#define SUMS_MAX  4096u
#define TELL_MAX  5u /* of one check */

struct sum {
	uint64_t object, used;
};

struct checking {
	struct lab *lab;
	struct sum sum[SUMS_MAX]; /* by data set: blocks that it was the first to have */
	size_t n;
	bool sound;
	atomic_uint told;
};

static struct sum *sum_of(struct checking *k, uint64_t object)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->sum[i].object == object)
			return &k->sum[i];
	BUG_ON(k->n == SUMS_MAX);
	k->sum[k->n] = (struct sum){.object = object};
	return &k->sum[k->n++];
}

static void block_seen(void *arg, const struct bp *bp, const struct zbookmark *zb, bool freed, unsigned seen)
{
	struct checking *k = arg;

	if (!freed && zb->level != LOG_LEVEL && zb->objset)
		sum_of(k, zb->objset)->used += dsl_bp_space(k->lab->spa->dsl, bp).used;
}

static bool tells(struct checking *k)
{
	return atomic_fetch_add(&k->told, 1) < TELL_MAX;
}

static void block_unreadable(void *arg, const struct bp *bp, const struct zbookmark *zb, int err)
{
	if (!tells(arg))
		return;
	lab_wrong("block <%" PRIu64 ", %" PRIu64 ", %" PRId64 ", %" PRIx64 "> cannot be read: %s", zb->objset,
		  zb->object, zb->level, zb->blkid, err_words(err));
}

static void say(void *arg, const char *text)
{
	if (tells(arg))
		lab_wrong("%s", text);
}

/* --- sums --- */

static bool same(struct checking *k, const char *of, const char *what, uint64_t said, uint64_t counted)
{
	if (said == counted)
		return true;
	k->sound = lab_wrong("%s: %s is %" PRIu64 ", counted %" PRIu64 " (%+" PRId64 ")", of, what, said, counted,
			     (int64_t)(said - counted));
	return false;
}

struct refer {
	struct checking *k;
	struct dsl_pool *dsl;
	struct dsl_space s;
};

static int refer_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct refer *r = t->arg;
	struct dsl_space s = dsl_bp_space(r->dsl, bp);

	r->s.used += s.used;
	r->s.comp += s.comp;
	r->s.uncomp += s.uncomp;
	return 0;
}

static void refer_unreadable(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct refer *r = t->arg;

	r->k->sound = false;
	block_unreadable(r->k, bp, zb, err);
}

static void referenced_check(struct checking *k, struct dsl_dataset *ds)
{
	struct refer r = {.k = k, .dsl = k->lab->spa->dsl};
	struct traverse t = {.visit = refer_visit, .error = refer_unreadable, .arg = &r};
	struct objset *os;

	if (bp_is_hole(&ds->bp))
		return;
	if (objset_open(&k->lab->spa->dp, ds->object, &ds->bp, NULL, &os, NULL)) {
		k->sound = lab_wrong("%s cannot be opened", ds->name);
		return;
	}
	traverse_objset(os, &t);
	objset_release(os);
	same(k, ds->name, "referenced", ds->used, r.s.used);
	same(k, ds->name, "referenced, compressed", ds->compressed, r.s.comp);
	same(k, ds->name, "referenced, uncompressed", ds->uncompressed, r.s.uncomp);
}

struct dir_sum {
	struct checking *k;
	uint64_t head, snaps, children;
};

static int snapshot_check(void *arg, struct dsl_dataset *snap)
{
	struct dir_sum *s = arg;

	s->snaps += sum_of(s->k, snap->object)->used;
	referenced_check(s->k, snap);
	return 0;
}

static int dir_check(void *arg, struct dsl_dir *d);

/* dd_used and its parts (03, 2.2). */
static void dir_used_check(struct dir_sum *s, struct dsl_dir *d)
{
	uint64_t all = 0;

	same(s->k, d->name, "used by the data set and its snapshots",
	     d->used_breakdown[DSL_USED_HEAD] + d->used_breakdown[DSL_USED_SNAP], s->head + s->snaps);
	same(s->k, d->name, "used by children", d->used_breakdown[DSL_USED_CHILD], s->children);
	for (unsigned i = 0; i < ARRAY_LEN(d->used_breakdown); i++)
		all += d->used_breakdown[i];
	same(s->k, d->name, "used", d->used, all);
}

/* What iteration does not show: $MOS, $FREE, $LEAK. */
static uint64_t hidden_used(struct dsl_pool *dsl)
{
	const uint64_t hidden[] = {dsl->mos_dir, dsl->free_dir, dsl->leak_dir};
	uint64_t used = 0;

	for (size_t i = 0; i < ARRAY_LEN(hidden); i++) {
		struct dsl_dir *d;

		if (hidden[i] == 0 || dsl_dir_hold(dsl, hidden[i], &d, NULL))
			continue;
		used += d->used;
		dsl_dir_release(d);
	}
	return used;
}

static int dir_check(void *arg, struct dsl_dir *d)
{
	struct dir_sum *above = arg, s = {.k = above->k};
	struct dsl_dataset *head;
	int err = dsl_dataset_hold(d->pool, d->name, &head, NULL);

	if (err) {
		s.k->sound = lab_wrong("%s: %s", d->name, err_words(err));
		return 0;
	}
	s.head = sum_of(s.k, head->object)->used;
	same(s.k, d->name, "unique", head->unique, s.head);
	referenced_check(s.k, head);
	if (dsl_each_snapshot(head, snapshot_check, &s) || dsl_each_child(d, dir_check, &s))
		s.k->sound = lab_wrong("%s: cannot be walked", d->name);
	if (!d->up)
		s.children += hidden_used(d->pool);
	if (d->has_breakdown)
		dir_used_check(&s, d);
	above->children += d->used;
	dsl_dataset_release(head);
	return 0;
}

static void sums_check(struct checking *k)
{
	struct dir_sum top = {.k = k};
	struct dsl_dir *root;

	if (dsl_dir_hold(k->lab->spa->dsl, k->lab->spa->dsl->root_dir, &root, NULL)) {
		k->sound = lab_wrong("no root data set");
		return;
	}
	dir_check(&top, root);
	dsl_dir_release(root);
}

bool lab_check(struct lab *l)
{
	struct checking *k = xcalloc(1, sizeof(*k));
	struct spa_check c = {
	    .leaks = true,
	    .verify = SPA_VERIFY_ALL,
	    .block = block_seen,
	    .unreadable = block_unreadable,
	    .wrong = say,
	    .warn = say,
	    .arg = k,
	};
	bool sound;

	k->lab = l;
	k->sound = true;
	if (!spa_check(l->spa, &c) || c.incomplete || c.bad_copies)
		k->sound = lab_wrong("blocks: leaked %" PRIu64 ", contradictions %" PRIu64 ", bad copies %" PRIu64,
				     c.leaked, c.contradictions, c.bad_copies);
	sums_check(k);
	sound = k->sound;
	free(k);
	return sound;
}

void lab_space_tell(struct lab *l)
{
	struct dsl_dir *root;

	if (!l->spa || dsl_dir_hold(l->spa->dsl, l->spa->dsl->root_dir, &root, NULL))
		return;
	lab_wrong("used %" PRIu64 ", available %" PRIu64, root->used, dsl_dir_available(root, NULL, 0));
	dsl_dir_release(root);
}
