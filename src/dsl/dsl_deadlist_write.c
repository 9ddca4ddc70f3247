/*
 * dsl/dsl_deadlist_write.c: changing deadlists and livelists (03-datasets.md 3.3, 3.6), and the empty list that
 * deadlists share (3.2).
 */
#include "dsl/dsl_deadlist.h"
#include "dsl/dsl_live.h"

#define VERSION_DEADLISTS 26
#define HEADER_LEN        320
#define FEATURE_EMPTY     "com.delphix:empty_bpobj"
#define FEATURE_LIVELIST  "com.delphix:livelist"
#define EMPTY_KEY         "empty_bpobj"

struct entry {
	uint64_t key, object;
	struct bpobj *open; /* got entries since the last flush */
};

struct dsl_deadlist {
	struct dsl_pool *p;
	uint64_t object;
	struct dnode *dn;
	struct bpobj *plain; /* of the old form; what follows is unused then */
	struct dsl_space sums;
	bool changed;
	struct entry *e; /* by key */
	size_t n, cap;
};

static void space_add(struct dsl_space *a, const struct dsl_space *b)
{
	a->used += b->used;
	a->comp += b->comp;
	a->uncomp += b->uncomp;
}

static void space_subtract(struct dsl_space *a, const struct dsl_space *b)
{
	a->used -= b->used;
	a->comp -= b->comp;
	a->uncomp -= b->uncomp;
}

static struct dsl_space counts_space(const struct bpobj_phys *b)
{
	return (struct dsl_space){b->bytes, b->comp, b->uncomp};
}

/* --- lists of this pool --- */

int dsl_bpobj_create(struct dsl_pool *p, struct tx *tx, uint64_t *object)
{
	bool livelists = dsl_feature_refs(p, FEATURE_LIVELIST) > 0;

	return bpobj_create(p->mos, bpobj_bonuslen(p->version, livelists), 0, tx, object);
}

static uint64_t shared_empty(struct dsl_pool *p)
{
	uint64_t object;

	return zap_lookup_u64(p->mos, MOS_DIRECTORY, EMPTY_KEY, &object) ? 0 : object;
}

bool dsl_bpobj_is_shared_empty(struct dsl_pool *p, uint64_t object)
{
	return object != 0 && object == shared_empty(p);
}

/* `n` references. */
static int empty_take(struct dsl_pool *p, uint64_t n, struct tx *tx, uint64_t *object)
{
	int err = 0;

	*object = shared_empty(p);
	if (*object == 0) {
		err = dsl_bpobj_create(p, tx, object);
		if (!err)
			err = zap_add_u64(p->mos, MOS_DIRECTORY, EMPTY_KEY, *object, tx);
	}
	if (!err)
		dsl_feature_count(p, FEATURE_EMPTY, n, tx);
	return err;
}

int dsl_bpobj_alloc_empty(struct dsl_pool *p, struct tx *tx, uint64_t *object)
{
	if (!dsl_feature_enabled(p, FEATURE_EMPTY))
		return dsl_bpobj_create(p, tx, object);
	return empty_take(p, 1, tx, object);
}

int dsl_bpobj_free_empty(struct dsl_pool *p, uint64_t object, struct tx *tx)
{
	int err;

	if (dsl_feature_refs(p, FEATURE_EMPTY) == 0)
		return -EINVAL;
	dsl_feature_count(p, FEATURE_EMPTY, -1, tx);
	if (dsl_feature_refs(p, FEATURE_EMPTY) > 0)
		return 0;
	err = zap_remove(p->mos, MOS_DIRECTORY, EMPTY_KEY, tx);
	return err ? err : bpobj_destroy(p->mos, object, tx);
}

int dsl_bpobj_enqueue_sub(struct dsl_pool *p, struct bpobj *b, uint64_t sub, struct tx *tx)
{
	if (dsl_bpobj_is_shared_empty(p, sub))
		return dsl_bpobj_free_empty(p, sub, tx);
	return bpobj_enqueue_sub(b, sub, tx);
}

static int list_drop(struct dsl_pool *p, uint64_t object, struct tx *tx)
{
	if (dsl_bpobj_is_shared_empty(p, object))
		return dsl_bpobj_free_empty(p, object, tx);
	return bpobj_destroy(p->mos, object, tx);
}

/* --- opening and closing --- */

int dsl_deadlist_create(struct dsl_pool *p, struct tx *tx, uint64_t *object)
{
	if (p->version < VERSION_DEADLISTS)
		return dsl_bpobj_create(p, tx, object);
	return zap_create(
	    p->mos,
	    &(struct zap_spec){.type = DMU_OT_DEADLIST, .bonustype = DMU_OT_DEADLIST_HDR, .bonuslen = HEADER_LEN}, tx,
	    object);
}

static void entry_insert(struct dsl_deadlist *dl, size_t at, uint64_t key, uint64_t object)
{
	if (dl->n == dl->cap) {
		dl->cap = MAX(8, 2 * dl->cap);
		dl->e = xrealloc(dl->e, dl->cap * sizeof(*dl->e));
	}
	memmove(dl->e + at + 1, dl->e + at, (dl->n - at) * sizeof(*dl->e));
	dl->e[at] = (struct entry){.key = key, .object = object};
	dl->n++;
}

static void entry_erase(struct dsl_deadlist *dl, size_t at)
{
	memmove(dl->e + at, dl->e + at + 1, (dl->n - at - 1) * sizeof(*dl->e));
	dl->n--;
}

/* Number of entries with keys below `key`. */
static size_t entries_below(const struct dsl_deadlist *dl, uint64_t key)
{
	size_t lo = 0, hi = dl->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (dl->e[mid].key < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int entry_cmp(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;

	return a->key < b->key ? -1 : a->key > b->key;
}

static int keys_read(struct dsl_deadlist *dl)
{
	struct name_list l;
	int err = name_list_read(dl->p->mos, dl->object, &l);

	if (!err)
		err = l.err;
	for (size_t i = 0; i < l.n && !err; i++)
		entry_insert(dl, dl->n, strtoull(l.e[i].name, NULL, 16), l.e[i].object);
	name_list_free(&l);
	if (dl->n)
		qsort(dl->e, dl->n, sizeof(*dl->e), entry_cmp);
	return err;
}

static int header_read(struct dsl_deadlist *dl)
{
	uint64_t w[3];

	if (dmu_bonus_words(dl->dn, w, 3) < 3)
		return -EINVAL;
	dl->sums = (struct dsl_space){w[0], w[1], w[2]};
	return 0;
}

int dsl_deadlist_open(struct dsl_pool *p, uint64_t object, struct dsl_deadlist **out)
{
	struct dsl_deadlist *dl = xcalloc(1, sizeof(*dl));
	int err;

	dl->p = p;
	dl->object = object;
	err = object ? dnode_hold(p->mos, object, &dl->dn, NULL) : -ENOENT;
	if (!err && dl->dn->type == DMU_OT_BPOBJ) {
		err = bpobj_open(p->mos, object, &dl->plain);
	} else if (!err) {
		err = header_read(dl);
		if (!err)
			err = keys_read(dl);
	}
	if (err)
		dsl_deadlist_close(dl);
	else
		*out = dl;
	return err;
}

void dsl_deadlist_close(struct dsl_deadlist *dl)
{
	if (!dl)
		return;
	bpobj_close(dl->plain);
	for (size_t i = 0; i < dl->n; i++)
		bpobj_close(dl->e[i].open);
	if (dl->dn)
		dnode_release(dl->dn);
	free(dl->e);
	free(dl);
}

static int entry_flush(struct entry *e, struct tx *tx)
{
	int err = e->open ? bpobj_flush(e->open, tx) : 0;

	bpobj_close(e->open);
	e->open = NULL;
	return err;
}

int dsl_deadlist_flush(struct dsl_deadlist *dl, struct tx *tx)
{
	uint64_t w[3] = {dl->sums.used, dl->sums.comp, dl->sums.uncomp};
	int err = 0;

	if (dl->plain)
		return bpobj_flush(dl->plain, tx);
	for (size_t i = 0; i < dl->n && !err; i++)
		err = entry_flush(&dl->e[i], tx);
	if (!err && dl->changed)
		err = dmu_bonus_write(dl->dn, 0, w, sizeof(w), tx);
	if (!err)
		dl->changed = false;
	return err;
}

int dsl_deadlist_free(struct dsl_pool *p, uint64_t object, struct tx *tx)
{
	struct dsl_deadlist *dl;
	int err = dsl_deadlist_open(p, object, &dl);
	bool plain;

	if (err)
		return err;
	plain = dl->plain;
	for (size_t i = 0; i < dl->n && !err; i++)
		err = list_drop(p, dl->e[i].object, tx);
	dsl_deadlist_close(dl);
	if (err)
		return err;
	return plain ? bpobj_destroy(p->mos, object, tx) : dmu_object_free(p->mos, object, tx);
}

/* --- entries --- */

static int key_find(const struct dsl_deadlist *dl, uint64_t key, size_t *at)
{
	*at = entries_below(dl, key);
	return *at < dl->n && dl->e[*at].key == key ? 0 : -ENOENT;
}

static int key_drop(struct dsl_deadlist *dl, size_t at, struct tx *tx)
{
	uint64_t key = dl->e[at].key;

	entry_erase(dl, at);
	return zap_remove_int(dl->p->mos, dl->object, key, tx);
}

static int key_point(struct dsl_deadlist *dl, struct entry *e, uint64_t object, struct tx *tx)
{
	e->object = object;
	return zap_update_int(dl->p->mos, dl->object, e->key, object, tx);
}

/* The entry's list, open and its own. */
static int entry_open(struct dsl_deadlist *dl, struct entry *e, struct tx *tx)
{
	uint64_t own;
	int err = 0;

	if (e->open)
		return 0;
	if (dsl_bpobj_is_shared_empty(dl->p, e->object)) {
		err = dsl_bpobj_free_empty(dl->p, e->object, tx);
		if (!err)
			err = dsl_bpobj_create(dl->p, tx, &own);
		if (!err)
			err = key_point(dl, e, own, tx);
	}
	return err ? err : bpobj_open(dl->p->mos, e->object, &e->open);
}

static int entry_space(struct dsl_deadlist *dl, const struct entry *e, struct dsl_space *out)
{
	struct bpobj_phys b;
	int err = 0;

	if (e->open)
		b = *bpobj_counts(e->open);
	else
		err = bpobj_read(dl->p->mos, e->object, &b);
	if (!err)
		*out = counts_space(&b);
	return err;
}

int dsl_deadlist_add_key(struct dsl_deadlist *dl, uint64_t key, struct tx *tx)
{
	uint64_t object;
	size_t at;
	int err;

	if (dl->plain || key_find(dl, key, &at) == 0)
		return 0;
	err = dsl_bpobj_alloc_empty(dl->p, tx, &object);
	if (err)
		return err;
	entry_insert(dl, at, key, object);
	return zap_add_int(dl->p->mos, dl->object, key, object, tx);
}

/* The entry with the greatest key below `key`. One that is missing is made: nothing may be lost. */
static int entry_below(struct dsl_deadlist *dl, uint64_t key, struct entry **out, struct tx *tx)
{
	size_t n = entries_below(dl, key);
	int err = n == 0 ? dsl_deadlist_add_key(dl, 0, tx) : 0;

	if (!err)
		*out = &dl->e[n ? n - 1 : 0];
	return err;
}

int dsl_deadlist_insert(struct dsl_deadlist *dl, const struct bp *bp, bool freed, struct tx *tx)
{
	struct dsl_space s = dsl_bp_space(dl->p, bp);
	struct entry *e;
	int err;

	if (dl->plain)
		return bpobj_enqueue(dl->plain, bp, freed, s.used, tx);
	err = entry_below(dl, dsl_bp_birth(bp), &e, tx);
	if (!err)
		err = entry_open(dl, e, tx);
	if (!err)
		err = bpobj_enqueue(e->open, bp, freed, s.used, tx);
	if (err)
		return err;
	(freed ? space_subtract : space_add)(&dl->sums, &s);
	dl->changed = true;
	return 0;
}

/* A list becomes part of the entry's. */
static int entry_take(struct dsl_deadlist *dl, struct entry *e, uint64_t object, struct tx *tx)
{
	int err;

	if (!e->open && dsl_bpobj_is_shared_empty(dl->p, e->object)) {
		err = dsl_bpobj_free_empty(dl->p, e->object, tx);
		return err ? err : key_point(dl, e, object, tx);
	}
	err = entry_open(dl, e, tx);
	return err ? err : dsl_bpobj_enqueue_sub(dl->p, e->open, object, tx);
}

int dsl_deadlist_remove_key(struct dsl_deadlist *dl, uint64_t key, struct tx *tx)
{
	uint64_t object;
	size_t at;
	int err;

	if (dl->plain)
		return 0;
	err = key_find(dl, key, &at);
	if (err)
		return err;
	if (at == 0)
		return -EINVAL;
	object = dl->e[at].object;
	err = entry_flush(&dl->e[at], tx);
	if (!err)
		err = entry_take(dl, &dl->e[at - 1], object, tx);
	return err ? err : key_drop(dl, at, tx);
}

/* The entry's sums leave the list's; its own list is up to date then. */
static int entry_leave(struct dsl_deadlist *dl, struct entry *e, struct tx *tx)
{
	struct dsl_space s;
	int err = entry_flush(e, tx);

	if (!err)
		err = entry_space(dl, e, &s);
	if (err)
		return err;
	space_subtract(&dl->sums, &s);
	dl->changed = true;
	return 0;
}

int dsl_deadlist_remove_entry(struct dsl_deadlist *dl, uint64_t key, struct tx *tx)
{
	size_t at;
	int err;

	if (dl->plain)
		return 0;
	err = key_find(dl, key, &at);
	if (!err)
		err = entry_leave(dl, &dl->e[at], tx);
	if (!err)
		err = list_drop(dl->p, dl->e[at].object, tx);
	return err ? err : key_drop(dl, at, tx);
}

int dsl_deadlist_clear_entry(struct dsl_deadlist *dl, uint64_t key, struct tx *tx)
{
	int err = dsl_deadlist_remove_entry(dl, key, tx);

	return err ? err : dsl_deadlist_add_key(dl, key, tx);
}

/* --- many entries --- */

/* All keys at once, so that their references on the shared empty list are counted once. */
static int keys_add(struct dsl_deadlist *dl, const uint64_t *key, size_t n, struct tx *tx)
{
	bool shared = dsl_feature_enabled(dl->p, FEATURE_EMPTY);
	uint64_t object;
	int err = shared && n ? empty_take(dl->p, n, tx, &object) : 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (!shared)
			err = dsl_bpobj_create(dl->p, tx, &object);
		if (!err)
			err = zap_add_int(dl->p->mos, dl->object, key[i], object, tx);
	}
	return err;
}

/* What the keys of a plain list would be: of each snapshot the txg of the one before. */
static int keys_of_snapshots(struct dsl_pool *p, uint64_t snap, uint64_t max_key, uint64_t **out, size_t *n)
{
	struct dataset_peek peek;
	size_t cap = 0;
	int err = 0;

	for (uint64_t last = UINT64_MAX; snap && !err; snap = peek.prev_snap) {
		err = dsl_dataset_peek(p, snap, &peek);
		if (err || peek.prev_snap_txg >= last)
			return err ? err : -EINVAL; /* a loop */
		last = peek.prev_snap_txg;
		if (last >= max_key)
			continue;
		if (*n == cap) {
			cap = MAX(16, 2 * cap);
			*out = xrealloc(*out, cap * sizeof(**out));
		}
		(*out)[(*n)++] = last;
	}
	return err;
}

static int keys_of_list(const struct dsl_deadlist *dl, uint64_t max_key, uint64_t **out, size_t *n)
{
	*n = entries_below(dl, max_key);
	*out = xmalloc(MAX(*n, 1) * sizeof(**out));
	for (size_t i = 0; i < *n; i++)
		(*out)[i] = dl->e[i].key;
	return 0;
}

int dsl_deadlist_clone(struct dsl_deadlist *dl, uint64_t prev_snap, uint64_t max_key, struct tx *tx, uint64_t *object)
{
	struct dsl_deadlist to = {.p = dl->p};
	autofree uint64_t *key = NULL;
	size_t n = 0;
	int err;

	if (dl->p->version < VERSION_DEADLISTS)
		return dsl_deadlist_create(dl->p, tx, object);
	if (dl->plain)
		err = keys_of_snapshots(dl->p, prev_snap, max_key, &key, &n);
	else
		err = keys_of_list(dl, max_key, &key, &n);
	if (!err)
		err = dsl_deadlist_create(dl->p, tx, object);
	to.object = *object;
	return err ? err : keys_add(&to, key, n, tx);
}

struct transfer {
	struct dsl_deadlist *dl;
	struct bpobj *to;
	uint64_t min_key;
	struct bpobj *rest;
};

static uint64_t bp_deflated(void *arg, const struct bp *bp)
{
	const struct transfer *t = arg;

	return dsl_bp_dsize(t->dl->p, bp);
}

static int bp_part(void *arg, const struct bp *bp, bool freed, struct tx *tx)
{
	struct transfer *t = arg;
	struct bpobj *to = dsl_bp_birth(bp) > t->min_key ? t->to : t->rest;

	return bpobj_enqueue(to, bp, freed, bp_deflated(t, bp), tx);
}

/* The entries of a plain list are parted one by one; those that stay come back from a list that is made for that. */
static int plain_move(struct transfer *t, struct tx *tx)
{
	struct bpobj *plain = t->dl->plain;
	struct transfer back = {.dl = t->dl, .to = plain, .rest = plain};
	uint64_t object;
	int err = dsl_bpobj_create(t->dl->p, tx, &object);

	if (!err)
		err = bpobj_open(t->dl->p->mos, object, &t->rest);
	if (err)
		return err;
	err = bpobj_consume(plain, &(struct bpobj_consumer){bp_part, bp_deflated, t}, tx);
	if (!err)
		err = bpobj_consume(t->rest, &(struct bpobj_consumer){bp_part, bp_deflated, &back}, tx);
	bpobj_close(t->rest);
	return err ? err : bpobj_destroy(t->dl->p->mos, object, tx);
}

int dsl_deadlist_move(struct dsl_deadlist *dl, struct bpobj *to, uint64_t min_key, struct tx *tx)
{
	int err = 0;

	if (dl->plain)
		return plain_move(&(struct transfer){.dl = dl, .to = to, .min_key = min_key}, tx);
	while (!err && dl->n > 0 && dl->e[dl->n - 1].key >= min_key) {
		struct entry *e = &dl->e[dl->n - 1];

		err = entry_leave(dl, e, tx);
		if (!err)
			err = dsl_bpobj_enqueue_sub(dl->p, to, e->object, tx);
		if (!err)
			err = key_drop(dl, dl->n - 1, tx);
	}
	return err;
}

static int bp_insert(void *arg, const struct bp *bp, bool freed, struct tx *tx)
{
	const struct transfer *t = arg;

	return dsl_deadlist_insert(t->dl, bp, freed, tx);
}

/* One of the two is a plain list: pointer by pointer. */
static int bpobj_merge(struct dsl_deadlist *dl, struct bpobj *from, struct tx *tx)
{
	struct transfer t = {.dl = dl};

	return bpobj_consume(from, &(struct bpobj_consumer){bp_insert, bp_deflated, &t}, tx);
}

static int entry_merge(struct dsl_deadlist *dl, const struct entry *from, const struct dsl_space *s, struct tx *tx)
{
	struct bpobj *b;
	struct entry *to;
	int err;

	if (dl->plain) {
		err = bpobj_open(dl->p->mos, from->object, &b);
		if (err)
			return err;
		err = bpobj_merge(dl, b, tx);
		bpobj_close(b);
		return err ? err : list_drop(dl->p, from->object, tx);
	}
	err = entry_below(dl, from->key + 1, &to, tx);
	if (!err)
		err = entry_take(dl, to, from->object, tx);
	space_add(&dl->sums, s);
	dl->changed = true;
	return err;
}

static int entries_merge(struct dsl_deadlist *dl, struct dsl_deadlist *other, struct tx *tx)
{
	int err = 0;

	while (!err && other->n > 0) {
		struct entry *e = &other->e[other->n - 1];
		struct dsl_space s;

		err = entry_space(other, e, &s);
		if (!err)
			err = entry_merge(dl, e, &s, tx);
		if (!err)
			err = key_drop(other, other->n - 1, tx);
	}
	other->sums = (struct dsl_space){0};
	other->changed = true;
	return err ? err : dsl_deadlist_flush(other, tx);
}

int dsl_deadlist_merge(struct dsl_deadlist *dl, uint64_t object, struct tx *tx)
{
	struct dsl_deadlist *other;
	int err = dsl_deadlist_open(dl->p, object, &other);

	if (err)
		return err;
	err = other->plain ? bpobj_merge(dl, other->plain, tx) : entries_merge(dl, other, tx);
	dsl_deadlist_close(other);
	return err;
}

/* --- sums and keys --- */

void dsl_deadlist_sums(const struct dsl_deadlist *dl, struct dsl_space *out)
{
	*out = dl->plain ? counts_space(bpobj_counts(dl->plain)) : dl->sums;
}

struct part_sum {
	struct dsl_pool *p;
	uint64_t min_txg, max_txg;
	struct dsl_space sum;
};

static int range_add(void *arg, const struct bp *bp, bool freed)
{
	struct part_sum *r = arg;
	uint64_t birth = dsl_bp_birth(bp);
	struct dsl_space s = dsl_bp_space(r->p, bp);

	if (birth > r->min_txg && birth <= r->max_txg)
		(freed ? space_subtract : space_add)(&r->sum, &s);
	return 0;
}

int dsl_deadlist_sums_range(struct dsl_deadlist *dl, uint64_t min_txg, uint64_t max_txg, struct dsl_space *out)
{
	struct part_sum r = {.p = dl->p, .min_txg = min_txg, .max_txg = max_txg};
	int err = 0;

	if (dl->plain) {
		err = bpobj_iterate(dl->p->mos, dl->object, range_add, &r);
		if (!err)
			err = bpobj_each_pending(dl->plain, range_add, &r);
	}
	for (size_t i = entries_below(dl, min_txg); i < dl->n && dl->e[i].key < max_txg && !err; i++) {
		struct dsl_space s;

		err = entry_space(dl, &dl->e[i], &s);
		if (!err)
			space_add(&r.sum, &s);
	}
	*out = r.sum;
	return err;
}

size_t dsl_deadlist_nkeys(const struct dsl_deadlist *dl)
{
	return dl->n;
}

void dsl_deadlist_key(const struct dsl_deadlist *dl, size_t i, uint64_t *key, uint64_t *bpobj)
{
	*key = dl->e[i].key;
	*bpobj = dl->e[i].object;
}

bool dsl_deadlist_has_key(const struct dsl_deadlist *dl, uint64_t key)
{
	size_t at;

	return key_find(dl, key, &at) == 0;
}
