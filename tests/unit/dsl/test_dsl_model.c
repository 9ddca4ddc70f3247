/*
 * The write side of the data set tree against a model: random sequences of writing, snapshots, clones, promotions,
 * rollbacks, renames and destroying; then every number is counted again from the blocks themselves, every byte is read,
 * and nothing may be left over.
 */
#include "dsl_census.h"
#include "dsl/dsl_prop_set.h"

#define OBJECTS   3
#define BLOCKS    24
#define BLOCKSIZE 2048
#define HEADS     12
#define SNAPS     24

/* --- the model --- */

struct contents {
	uint32_t seed[OBJECTS][BLOCKS]; /* 0: a hole */
};

struct mhead {
	bool used;
	int parent;    /* head; -1: the root of the pool */
	char last[16]; /* of its name */
	struct contents c;
	int origin; /* snapshot; -1 none */
};

struct msnap {
	bool used;
	int owner;
	uint64_t seq;
	char name[16];
	struct contents c;
};

struct world {
	struct harness *h;
	uint32_t rnd;
	uint64_t seq;
	unsigned names;
	struct mhead head[HEADS];
	struct msnap snap[SNAPS];
};

static uint32_t rnd(struct world *w, uint32_t n)
{
	w->rnd = w->rnd * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(w->rnd >> 4) * n >> 28);
}

static void head_name(const struct world *w, int i, char name[DSL_NAME_MAX])
{
	char up[DSL_NAME_MAX] = "p";

	if (w->head[i].parent >= 0)
		head_name(w, w->head[i].parent, up);
	snprintf(name, DSL_NAME_MAX, "%.200s/%s", up, w->head[i].last);
}

static void snap_name(const struct world *w, int i, char name[DSL_NAME_MAX])
{
	char up[DSL_NAME_MAX];

	head_name(w, w->snap[i].owner, up);
	snprintf(name, DSL_NAME_MAX, "%.200s@%s", up, w->snap[i].name);
}

static int pick(struct world *w, bool snaps)
{
	int some[HEADS + SNAPS], n = 0;

	for (int i = 0; i < (snaps ? SNAPS : HEADS); i++)
		if (snaps ? w->snap[i].used : w->head[i].used)
			some[n++] = i;
	return n ? some[rnd(w, (uint32_t)n)] : -1;
}

static int free_slot(struct world *w, bool snaps)
{
	for (int i = 0; i < (snaps ? SNAPS : HEADS); i++)
		if (!(snaps ? w->snap[i].used : w->head[i].used))
			return i;
	return -1;
}

static bool is_below(const struct world *w, int i, int above)
{
	for (; i >= 0; i = w->head[i].parent)
		if (i == above)
			return true;
	return false;
}

static bool has_children(const struct world *w, int i)
{
	for (int k = 0; k < HEADS; k++)
		if (w->head[k].used && w->head[k].parent == i)
			return true;
	return false;
}

static bool has_clones(const struct world *w, int snap)
{
	for (int k = 0; k < HEADS; k++)
		if (w->head[k].used && w->head[k].origin == snap)
			return true;
	return false;
}

/* The newest snapshot of a head, -1: none. */
static int newest(const struct world *w, int head)
{
	int best = -1;

	for (int k = 0; k < SNAPS; k++)
		if (w->snap[k].used && w->snap[k].owner == head && (best < 0 || w->snap[k].seq > w->snap[best].seq))
			best = k;
	return best;
}

/* --- writing --- */

static void set_init(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	struct dmu_object spec = {.type = DMU_OT_PLAIN, .blocksize = BLOCKSIZE, .indblkshift = 12};

	for (uint64_t i = 1; i <= OBJECTS; i++)
		assert_int_equal(dmu_object_claim(os, i, &spec, tx), 0);
}

static struct dsl_dataset *hold(struct world *w, const char *name)
{
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;

	if (dsl_dataset_hold(w->h->p, name, &ds, &e))
		fail_msg("%s: %s", name, e.text);
	return ds;
}

static void block_fill(uint8_t *block, uint32_t seed)
{
	memset(block, 0, BLOCKSIZE);
	/* a part of them is small enough to be embedded, a part cannot be compressed */
	tp_pattern(block, seed % 3 == 0 ? 16 : seed % 3 == 1 ? BLOCKSIZE / 2 : BLOCKSIZE, seed);
}

/* False: there is no room. */
static bool change_block(struct world *w, struct objset *os, struct contents *c, unsigned object, unsigned blk)
{
	struct tx tx = {.os = os, .bytes = BLOCKSIZE};
	uint8_t block[BLOCKSIZE];
	struct dnode *dn;
	bool punch = rnd(w, 6) == 0;
	int err;

	if (punch)
		tx.flags = TX_NETFREE;
	err = tx_begin_wait(w->h->tp->dp.txgs, &tx);
	if (err) {
		assert_true(!punch && (err == -EDQUOT || err == -ENOSPC));
		return false;
	}
	assert_int_equal(dnode_hold(os, object + 1, &dn, NULL), 0);
	if (punch) {
		c->seed[object][blk] = 0;
		assert_int_equal(dmu_free_range(dn, (uint64_t)blk * BLOCKSIZE, BLOCKSIZE, &tx), 0);
	} else {
		c->seed[object][blk] = 1 + (w->rnd >> 3);
		block_fill(block, c->seed[object][blk]);
		assert_int_equal(dmu_write(dn, (uint64_t)blk * BLOCKSIZE, block, BLOCKSIZE, &tx), 0);
	}
	dnode_release(dn);
	tx_end(&tx);
	return true;
}

static void do_write(struct world *w)
{
	int i = pick(w, false);
	char name[DSL_NAME_MAX];
	struct dsl_dataset *ds;
	struct objset *os;
	struct err e = ERR_INIT;
	unsigned n = 1 + rnd(w, 20);

	if (i < 0)
		return;
	head_name(w, i, name);
	ds = hold(w, name);
	if (dsl_dataset_open_objset(ds, &os, &e))
		fail_msg("%s", e.text);
	while (n-- && change_block(w, os, &w->head[i].c, rnd(w, OBJECTS), rnd(w, BLOCKS)))
		;
	objset_release(os);
	dsl_dataset_release(ds);
	if (rnd(w, 2))
		hw_wait(w->h);
}

/* --- operations --- */

/* Did it happen? What there is no room for does not, and leaves no trace. */
static bool expect(int err, int want, const struct err *e, const char *what, const char *name)
{
	if (err == -ENOSPC || err == -EDQUOT)
		return false;
	if (err != want)
		fail_msg("%s %s: %d (%s) instead of %d", what, name, err, e->text, want);
	return err == 0;
}

static void do_create(struct world *w)
{
	int i = free_slot(w, false), parent = rnd(w, 3) ? -1 : pick(w, false);
	char name[DSL_NAME_MAX];
	struct dsl_create c = {.name = name, .type = DSL_FILESYSTEM, .init = set_init};
	struct err e = ERR_INIT;

	if (i < 0)
		return;
	w->head[i] = (struct mhead){.used = true, .parent = parent, .origin = -1};
	snprintf(w->head[i].last, sizeof(w->head[i].last), "f%u", w->names++);
	head_name(w, i, name);
	w->head[i].used = expect(dsl_create(w->h->p, &c, &e), 0, &e, "create", name);
}

static void do_snapshot(struct world *w)
{
	char text[HEADS][DSL_NAME_MAX];
	const char *names[HEADS];
	struct err e = ERR_INIT;
	size_t n = 0;
	bool all = rnd(w, 4) == 0;
	unsigned number = w->names++;
	uint64_t before = w->seq;

	for (int i = 0; i < HEADS; i++) {
		int s = free_slot(w, true);

		if (s < 0 || !w->head[i].used || (!all && rnd(w, 4)))
			continue;
		w->snap[s] = (struct msnap){.used = true, .owner = i, .seq = ++w->seq, .c = w->head[i].c};
		snprintf(w->snap[s].name, sizeof(w->snap[s].name), "s%u", number);
		snap_name(w, s, text[n]);
		names[n] = text[n];
		n++;
	}
	if (expect(dsl_snapshot(w->h->p, names, n, NULL, &e), 0, &e, "snapshot", n ? names[0] : ""))
		return;
	for (int s = 0; s < SNAPS; s++)
		if (w->snap[s].used && w->snap[s].seq > before)
			w->snap[s].used = false;
}

static void do_clone(struct world *w)
{
	int s = pick(w, true), i = free_slot(w, false);
	char snap[DSL_NAME_MAX], name[DSL_NAME_MAX];
	struct err e = ERR_INIT;

	if (s < 0 || i < 0)
		return;
	w->head[i] = (struct mhead){.used = true, .parent = rnd(w, 2) ? -1 : pick(w, false), .origin = s};
	w->head[i].c = w->snap[s].c;
	snprintf(w->head[i].last, sizeof(w->head[i].last), "c%u", w->names++);
	snap_name(w, s, snap);
	head_name(w, i, name);
	w->head[i].used = expect(dsl_clone(w->h->p, snap, name, NULL, &e), 0, &e, "clone", name);
}

static void do_promote(struct world *w)
{
	int i = pick(w, false), s, oh;
	char name[DSL_NAME_MAX];
	struct err e = ERR_INIT;

	if (i < 0)
		return;
	head_name(w, i, name);
	s = w->head[i].origin;
	if (!expect(dsl_promote(w->h->p, name, &e), s < 0 ? -EINVAL : 0, &e, "promote", name))
		return;
	oh = w->snap[s].owner;
	for (int k = 0; k < SNAPS; k++)
		if (w->snap[k].used && w->snap[k].owner == oh && w->snap[k].seq <= w->snap[s].seq)
			w->snap[k].owner = i;
	w->head[i].origin = w->head[oh].origin;
	w->head[oh].origin = s;
}

static void do_rollback(struct world *w)
{
	int i = pick(w, false), s, err;
	char name[DSL_NAME_MAX], snap[DSL_NAME_MAX];
	struct err e = ERR_INIT;

	if (i < 0)
		return;
	head_name(w, i, name);
	s = newest(w, i);
	if (s >= 0)
		snap_name(w, s, snap);
	err = dsl_rollback(w->h->p, name, s >= 0 && rnd(w, 2) ? snap : NULL, &e);
	if (s >= 0 && err == -EEXIST) /* there is a bookmark after the snapshot */
		return;
	if (expect(err, s < 0 ? -EINVAL : 0, &e, "rollback", name))
		w->head[i].c = w->snap[s].c;
}

static void do_destroy_head(struct world *w)
{
	int i = pick(w, false);
	char name[DSL_NAME_MAX];
	struct err e = ERR_INIT;
	bool free = i >= 0 && newest(w, i) < 0 && !has_children(w, i);

	if (i < 0)
		return;
	head_name(w, i, name);
	expect(dsl_destroy_head(w->h->p, name, &e), free ? 0 : -EEXIST, &e, "destroy", name);
	if (free)
		w->head[i].used = false;
}

static void do_destroy_snapshot(struct world *w)
{
	int s = pick(w, true);
	char name[DSL_NAME_MAX];
	const char *names[1] = {name};
	struct err e = ERR_INIT;

	if (s < 0)
		return;
	snap_name(w, s, name);
	expect(dsl_destroy_snapshots(w->h->p, names, 1, false, &e), has_clones(w, s) ? -EEXIST : 0, &e, "destroy",
	       name);
	if (!has_clones(w, s))
		w->snap[s].used = false;
}

/* Names of a head, what is below it and their snapshots, in an order in which they can go if no clone is outside. */
struct doomed {
	struct world *w;
	int top;
	bool seen[HEADS], outside;
	char text[HEADS + SNAPS][DSL_NAME_MAX];
	const char *names[HEADS + SNAPS];
	size_t n;
};

static void doomed_add(struct doomed *t, int i)
{
	struct world *w = t->w;

	if (t->seen[i])
		return;
	t->seen[i] = true;
	t->outside |= !is_below(w, i, t->top);
	for (int k = 0; k < HEADS; k++)
		if (w->head[k].used && w->head[k].parent == i)
			doomed_add(t, k);
	for (int s = 0; s < SNAPS; s++) {
		if (!w->snap[s].used || w->snap[s].owner != i)
			continue;
		for (int k = 0; k < HEADS; k++)
			if (w->head[k].used && w->head[k].origin == s)
				doomed_add(t, k);
		snap_name(w, s, t->text[t->n]);
		t->n++;
	}
	head_name(w, i, t->text[t->n]);
	t->n++;
}

/* Also with what depends on it elsewhere, as -R does; rarely, since not much is left then. */
static void do_destroy_tree(struct world *w)
{
	struct doomed *t = xcalloc(1, sizeof(*t));
	struct err e = ERR_INIT;
	size_t done;

	t->w = w;
	t->top = pick(w, false);
	if (t->top >= 0)
		doomed_add(t, t->top);
	for (size_t i = 0; i < t->n; i++)
		t->names[i] = t->text[i];
	if (t->n && (!t->outside || rnd(w, 3) == 0)) {
		expect(dsl_destroy(w->h->p, t->names, t->n, false, &done, &e), 0, &e, "destroy tree",
		       t->names[t->n - 1]);
		assert_int_equal(done, t->n);
		for (int i = 0; i < HEADS; i++)
			w->head[i].used &= !t->seen[i];
		for (int s = 0; s < SNAPS; s++)
			w->snap[s].used &= !t->seen[w->snap[s].owner];
	}
	free(t);
}

static void do_rename(struct world *w)
{
	int i = pick(w, false), up = rnd(w, 2) ? -1 : pick(w, false);
	char from[DSL_NAME_MAX], to[DSL_NAME_MAX];
	struct mhead old;
	struct err e = ERR_INIT;
	bool inside;

	if (i < 0)
		return;
	inside = up >= 0 && is_below(w, up, i);
	head_name(w, i, from);
	if (inside) {
		char under[DSL_NAME_MAX];

		head_name(w, up, under);
		snprintf(to, sizeof(to), "%.200s/r%u", under, w->names++);
		expect(dsl_rename(w->h->p, from, to, false, &e), -EINVAL, &e, "rename", from);
		return;
	}
	old = w->head[i];
	w->head[i].parent = up;
	if (up == old.parent || rnd(w, 2))
		snprintf(w->head[i].last, sizeof(w->head[i].last), "r%u", w->names++);
	head_name(w, i, to);
	if (!expect(dsl_rename(w->h->p, from, to, false, &e), 0, &e, "rename", from))
		w->head[i] = old;
}

static void do_rename_snapshot(struct world *w)
{
	int s = pick(w, true);
	char from[DSL_NAME_MAX], to[DSL_NAME_MAX];
	struct err e = ERR_INIT;

	if (s < 0)
		return;
	snap_name(w, s, from);
	snprintf(w->snap[s].name, sizeof(w->snap[s].name), "t%u", w->names++);
	snap_name(w, s, to);
	expect(dsl_rename(w->h->p, from, to, false, &e), 0, &e, "rename", from);
}

/* --- quotas and reservations --- */

struct limit {
	struct dsl_pool *p;
	const char *name;
	const struct prop_special *s;
	struct prop_set_value v;
};

static int limit_check(void *arg, struct tx *tx, struct err *e)
{
	struct limit *l = arg;
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(l->p, l->name, &ds, e);

	if (err)
		return err;
	err = l->s->check(ds, l->v.number, tx, e);
	dsl_dataset_release(ds);
	return err;
}

static void limit_sync(void *arg, struct tx *tx)
{
	struct limit *l = arg;
	struct dsl_dataset *ds;

	assert_int_equal(dsl_dataset_hold(l->p, l->name, &ds, NULL), 0);
	prop_special_store(ds, l->s, PROP_SET_LOCAL, &l->v, tx);
	dsl_dataset_release(ds);
}

static void do_limit(struct world *w)
{
	static const char *const props[] = {"quota", "reservation", "refquota", "refreservation"};
	int i = pick(w, false);
	char name[DSL_NAME_MAX];
	struct limit l = {w->h->p, name, prop_special_find(props[rnd(w, 4)]), {0}};
	struct dsl_task t = {.check = limit_check, .sync = limit_sync, .arg = &l, .policy = DSL_SPACE_EXTRA};
	struct err e = ERR_INIT;

	if (i < 0)
		return;
	head_name(w, i, name);
	l.v.number = rnd(w, 3) ? rnd(w, 600) * 1024 : 0;
	expect(dsl_task_run(w->h->p, &t, &e), 0, &e, l.s->name, name);
}

/* --- bookmarks --- */

static void do_bookmark(struct world *w)
{
	int s = pick(w, true);
	char snap[DSL_NAME_MAX], name[DSL_NAME_MAX], up[DSL_NAME_MAX];
	const char *names[1] = {name};
	struct err e = ERR_INIT;

	if (s < 0)
		return;
	snap_name(w, s, snap);
	head_name(w, w->snap[s].owner, up);
	snprintf(name, sizeof(name), "%.200s#b%u", up, w->names++);
	expect(dsl_bookmark_create(w->h->p, snap, name, &e), 0, &e, "bookmark", name);
	if (rnd(w, 3) == 0)
		expect(dsl_bookmark_destroy(w->h->p, names, 1, &e), 0, &e, "destroy bookmark", name);
}

/* --- checking --- */

static void contents_check(struct world *w, const char *name, const struct contents *c)
{
	struct dsl_dataset *ds = hold(w, name);
	uint8_t want[BLOCKSIZE], got[BLOCKSIZE];
	struct objset *os;
	struct err e = ERR_INIT;

	if (dsl_dataset_open_objset(ds, &os, &e))
		fail_msg("%s: %s", name, e.text);
	for (unsigned o = 0; o < OBJECTS; o++) {
		struct dnode *dn;

		assert_int_equal(dnode_hold(os, o + 1, &dn, NULL), 0);
		for (unsigned b = 0; b < BLOCKS; b++) {
			memset(want, 0, sizeof(want));
			if (c->seed[o][b])
				block_fill(want, c->seed[o][b]);
			assert_int_equal(dmu_read(dn, (uint64_t)b * BLOCKSIZE, got, BLOCKSIZE, 0), 0);
			if (memcmp(want, got, BLOCKSIZE) != 0)
				fail_msg("%s: object %u block %u has other contents", name, o + 1, b);
		}
		dnode_release(dn);
	}
	objset_release(os);
	dsl_dataset_release(ds);
}

static void all_contents_check(struct world *w)
{
	char name[DSL_NAME_MAX];

	for (int i = 0; i < HEADS; i++) {
		if (!w->head[i].used)
			continue;
		head_name(w, i, name);
		contents_check(w, name, &w->head[i].c);
	}
	for (int i = 0; i < SNAPS; i++) {
		if (!w->snap[i].used)
			continue;
		snap_name(w, i, name);
		contents_check(w, name, &w->snap[i].c);
	}
}

typedef void (*op_fn)(struct world *w);

static const struct {
	op_fn fn;
	unsigned weight;
} ops[] = {{do_write, 30},   {do_create, 6},          {do_snapshot, 14},         {do_clone, 7},  {do_promote, 8},
	   {do_rollback, 6}, {do_destroy_head, 7},    {do_destroy_snapshot, 14}, {do_rename, 5}, {do_limit, 7},
	   {do_bookmark, 5}, {do_rename_snapshot, 3}, {do_destroy_tree, 3}};

static void step(struct world *w)
{
	uint32_t all = 0, at;

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		all += ops[i].weight;
	at = rnd(w, all);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		if (at < ops[i].weight) {
			ops[i].fn(w);
			return;
		}
		at -= ops[i].weight;
	}
}

static void run(uint32_t seed, unsigned steps, const char *const *off, size_t noff)
{
	struct world *w = xcalloc(1, sizeof(*w));

	w->rnd = seed;
	w->h = hw_create(off, noff);
	for (unsigned i = 0; i < steps; i++) {
		step(w);
		if (rnd(w, 4) == 0) {
			hw_drain(w->h);
			all_contents_check(w);
			hw_check(w->h);
		}
		if (rnd(w, 40) == 0)
			hw_reopen(w->h);
	}
	hw_drain(w->h);
	all_contents_check(w);
	hw_check(w->h);
	hw_destroy(w->h);
	free(w);
}

static void numbers_follow_the_blocks(void **state)
{
	for (uint32_t seed = 1; seed <= 5; seed++)
		run(seed, 150, NULL, 0);
}

static void numbers_follow_without_features(void **state)
{
	static const char *const off[] = {"com.delphix:async_destroy", "com.delphix:empty_bpobj",
					  "com.delphix:extensible_dataset"};

	for (uint32_t seed = 11; seed <= 12; seed++)
		run(seed, 150, off, ARRAY_LEN(off));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_follow_the_blocks),
	    cmocka_unit_test(numbers_follow_without_features),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
