/*
 * Changing bpobjs (02-blocks-and-objects.md, 10.2). An open list gathers what is appended, so that a group that frees
 * many blocks writes its lists in large pieces.
 */
#include "base/rangetree.h"
#include "dmu/bpobj_impl.h"

#define BLOCK_SIZE (128u << 10)
#define ROOM_FIRST 4096u

struct bpobj {
	struct objset *mos;
	struct dnode *dn;
	struct bpobj_phys phys; /* what is pending included */
	uint8_t *pending;       /* entries that are not in the object yet: its last ones */
	size_t len, room;       /* bytes */
	bool changed;
};

int bpobj_create(struct objset *mos, unsigned bonuslen, uint32_t blocksize, struct tx *tx, uint64_t *object)
{
	return dmu_object_alloc(mos,
				&(struct dmu_object){.type = DMU_OT_BPOBJ,
						     .bonustype = DMU_OT_BPOBJ_HDR,
						     .bonuslen = bonuslen,
						     .blocksize = blocksize ? blocksize : BLOCK_SIZE},
				tx, object);
}

int bpobj_open(struct objset *mos, uint64_t object, struct bpobj **out)
{
	struct bpobj *b = xcalloc(1, sizeof(*b));
	int err = dnode_hold(mos, object, &b->dn, NULL);

	b->mos = mos;
	if (!err)
		err = bpobj_phys_decode(b->dn, &b->phys);
	if (err)
		bpobj_close(b);
	else
		*out = b;
	return err;
}

void bpobj_close(struct bpobj *b)
{
	if (!b)
		return;
	dnode_release(b->dn);
	free(b->pending);
	free(b);
}

bool bpobj_is_empty(const struct bpobj *b)
{
	return b->phys.num_blkptrs == 0 && b->phys.num_subobjs == 0;
}

const struct bpobj_phys *bpobj_counts(const struct bpobj *b)
{
	return &b->phys;
}

uint64_t bpobj_object(const struct bpobj *b)
{
	return b->dn->object;
}

/* --- appending --- */

static int pending_write(struct bpobj *b, struct tx *tx)
{
	uint64_t end = b->phys.num_blkptrs * BP_SIZE;
	int err = b->len ? dmu_write(b->dn, end - b->len, b->pending, b->len, tx) : 0;

	b->len = 0;
	return err;
}

static size_t phys_encode(const struct bpobj_phys *p, uint64_t w[BPOBJ_WORDS])
{
	const uint64_t all[BPOBJ_WORDS] = {
	    p->num_blkptrs, p->bytes, p->comp, p->uncomp, p->subobjs, p->num_subobjs, p->num_freed,
	};

	memcpy(w, all, sizeof(all));
	return p->has_freed ? 7 : p->has_subobjs ? 6 : p->has_comp ? 4 : 2;
}

int bpobj_flush(struct bpobj *b, struct tx *tx)
{
	uint64_t w[BPOBJ_WORDS];
	int err;

	if (!b->changed)
		return 0;
	err = pending_write(b, tx);
	if (!err)
		err = dmu_bonus_write(b->dn, 0, w, phys_encode(&b->phys, w) * 8, tx);
	if (!err)
		b->changed = false;
	return err;
}

static uint8_t *pending_room(struct bpobj *b)
{
	if (b->len == b->room) {
		b->room = MIN(MAX(ROOM_FIRST, 2 * b->room), BPOBJ_CHUNK);
		b->pending = xrealloc(b->pending, b->room);
	}
	return b->pending + b->len;
}

/* What is stored of a pointer: enough to free it, in a form that compresses well. */
static void entry_encode(uint8_t *p, const struct bp *bp, bool freed)
{
	struct bp e = *bp;

	if (bp_is_embedded(bp)) {
		e = (struct bp){.w[6] = bp->w[6], .w[10] = bp->w[10]};
	} else {
		if (!bp_is_dedup(bp))
			memset(&e.w[12], 0, 4 * sizeof(e.w[0]));
		e.w[BPOBJ_FILL_WORD] = freed ? BPOBJ_FREED : 0;
	}
	memcpy(p, &e, BP_SIZE);
}

static uint64_t bp_compressed(const struct bp *bp)
{
	return bp_is_embedded(bp) ? 0 : bp_psize(bp);
}

static uint64_t bp_uncompressed(const struct bp *bp)
{
	return bp_level(bp) > 0 || dmu_type_is_metadata(bp_type(bp)) ? bp_psize(bp) : bp_lsize(bp);
}

struct sums {
	uint64_t bytes, comp, uncomp;
};

/* Modulo 2^64: entries that are marked as freed count the other way. */
static void sums_add(struct sums *s, const struct bp *bp, bool freed, uint64_t deflated)
{
	uint64_t sign = freed ? UINT64_MAX : 1;

	s->bytes += sign * deflated;
	s->comp += sign * bp_compressed(bp);
	s->uncomp += sign * bp_uncompressed(bp);
}

static void phys_add(struct bpobj *b, const struct sums *s)
{
	b->phys.bytes += s->bytes;
	b->phys.comp += s->comp;
	b->phys.uncomp += s->uncomp;
	b->changed = true;
}

static void phys_subtract(struct bpobj *b, const struct sums *s)
{
	phys_add(b, &(struct sums){-s->bytes, -s->comp, -s->uncomp});
}

static struct sums phys_sums(const struct bpobj *b)
{
	return (struct sums){b->phys.bytes, b->phys.comp, b->phys.uncomp};
}

static int entry_append(struct bpobj *b, const struct bp *bp, bool freed, struct tx *tx)
{
	int err = b->len == BPOBJ_CHUNK ? bpobj_flush(b, tx) : 0;

	if (err)
		return err;
	entry_encode(pending_room(b), bp, freed);
	b->len += BP_SIZE;
	b->phys.num_blkptrs++;
	b->phys.num_freed += freed;
	b->changed = true;
	return 0;
}

int bpobj_each_pending(struct bpobj *b, bpobj_fn fn, void *arg)
{
	int err = 0;

	for (size_t at = b->len; at > 0 && !err;) {
		struct bp bp;
		bool freed;

		at -= BP_SIZE;
		err = bpobj_entry_decode(b->pending + at, false, &bp, &freed);
		if (!err)
			err = fn(arg, &bp, freed);
	}
	return err;
}

int bpobj_enqueue(struct bpobj *b, const struct bp *bp, bool freed, uint64_t deflated, struct tx *tx)
{
	struct sums s = {0};

	if (bp_is_hole(bp))
		return 0;
	sums_add(&s, bp, freed, deflated);
	phys_add(b, &s);
	return entry_append(b, bp, freed, tx);
}

/* --- sub-objects --- */

/* Appends `n` numbers to the list of sub-objects, which is made when there is none. */
static int subs_append(struct bpobj *b, const uint64_t *object, uint64_t n, struct tx *tx)
{
	const struct dmu_object spec = {.type = DMU_OT_BPOBJ_SUBOBJ, .blocksize = BLOCK_SIZE};
	struct dnode *list;
	int err = 0;

	if (b->phys.subobjs == 0)
		err = dmu_object_alloc(b->mos, &spec, tx, &b->phys.subobjs);
	if (!err)
		err = dnode_hold(b->mos, b->phys.subobjs, &list, NULL);
	if (err)
		return err;
	err = dmu_write(list, b->phys.num_subobjs * BPOBJ_SUBOBJ_SIZE, object, n * BPOBJ_SUBOBJ_SIZE, tx);
	dnode_release(list);
	b->phys.num_subobjs += n;
	b->changed = true;
	return err;
}

/* All numbers of the list; *list is malloc'd, NULL for none. `max`: more are not taken (-E2BIG). */
static int subs_read(const struct bpobj *b, uint64_t max, uint64_t **out)
{
	uint64_t n = b->phys.num_subobjs;
	struct dnode *list;
	int err;

	*out = NULL;
	if (b->phys.subobjs == 0 || n == 0)
		return 0;
	err = dnode_hold(b->mos, b->phys.subobjs, &list, NULL);
	if (err)
		return err;
	if (!bpobj_array_fits(list, n, BPOBJ_SUBOBJ_SIZE))
		err = -EINVAL;
	else if (n > max)
		err = -E2BIG;
	else
		*out = malloc(n * BPOBJ_SUBOBJ_SIZE);
	if (!err && !*out)
		err = -ENOMEM;
	for (uint64_t i = 0; i < n && !err; i++)
		err = bpobj_sub_read(list, i, &(*out)[i]);
	dnode_release(list);
	if (err) {
		free(*out);
		*out = NULL;
	}
	return err;
}

static int list_free(struct bpobj *b, struct tx *tx)
{
	int err = b->phys.subobjs ? dmu_object_free(b->mos, b->phys.subobjs, tx) : 0;

	b->phys.subobjs = b->phys.num_subobjs = 0;
	b->changed = true;
	return err;
}

/* The object and its list, not its sub-objects; closes it. */
static int one_free(struct bpobj *b, struct tx *tx)
{
	struct objset *mos = b->mos;
	uint64_t object = bpobj_object(b);
	int err = list_free(b, tx);

	bpobj_close(b);
	return err ? err : dmu_object_free(mos, object, tx);
}

struct append {
	struct bpobj *to;
	struct tx *tx;
};

static int own_entry_append(struct append *a, const uint8_t *p, bool swap)
{
	struct bp bp;
	bool freed;
	int err = bpobj_entry_decode(p, swap, &bp, &freed);

	return err ? err : entry_append(a->to, &bp, freed, a->tx);
}

/* The list's own entries, in their order. */
static int own_entries_append(struct bpobj *from, struct append *a)
{
	uint64_t step = bpobj_step(from->dn), n = from->phys.num_blkptrs;
	autofree uint8_t *chunk = xmalloc(BPOBJ_CHUNK);
	bool swap;
	int err = n && step == 0 ? -EINVAL : 0;

	for (uint64_t at = 0; at < n && !err; at += step) {
		uint64_t k = MIN(step, n - at);

		err = bpobj_entries_read(from->dn, at, k, chunk, &swap);
		for (uint64_t i = 0; i < k && !err; i++)
			err = own_entry_append(a, chunk + i * BP_SIZE, swap);
	}
	return err;
}

/* Everything of `sub` goes into b itself; sub goes. */
static int sub_fold(struct bpobj *b, struct bpobj *sub, const uint64_t *subs, struct tx *tx)
{
	struct append a = {b, tx};
	int err = own_entries_append(sub, &a);

	if (!err && subs)
		err = subs_append(b, subs, sub->phys.num_subobjs, tx);
	if (err) {
		bpobj_close(sub);
		return err;
	}
	return one_free(sub, tx);
}

/* Small lists are folded in; that keeps the trees of lists shallow. */
static int sub_attach(struct bpobj *b, struct bpobj *sub, struct tx *tx)
{
	bool small = sub->phys.num_blkptrs * BP_SIZE <= sub->dn->datablksz;
	uint64_t *subs = NULL, object = bpobj_object(sub);
	int err = small ? subs_read(sub, BLOCK_SIZE / BPOBJ_SUBOBJ_SIZE, &subs) : -E2BIG;

	if (!err) {
		err = sub_fold(b, sub, subs, tx);
	} else {
		bpobj_close(sub);
		if (err == -E2BIG)
			err = subs_append(b, &object, 1, tx);
	}
	free(subs);
	return err;
}

/* Lists of old pools have no sub-objects: the entries move. */
static int entry_move(void *arg, const struct bp *bp, bool freed)
{
	struct append *a = arg;

	return entry_append(a->to, bp, freed, a->tx);
}

int bpobj_enqueue_sub(struct bpobj *b, uint64_t object, struct tx *tx)
{
	struct bpobj *sub;
	struct sums s;
	int err = bpobj_open(b->mos, object, &sub);

	if (err)
		return err;
	if (bpobj_is_empty(sub))
		return one_free(sub, tx);
	s = phys_sums(sub);
	if (b->phys.has_subobjs) {
		err = sub_attach(b, sub, tx);
	} else {
		err = bpobj_iterate(b->mos, object, entry_move, &(struct append){b, tx});
		bpobj_close(sub);
		if (!err)
			err = bpobj_destroy(b->mos, object, tx);
	}
	if (!err)
		phys_add(b, &s);
	return err;
}

/* --- destroying --- */

struct object_stack {
	uint64_t *object;
	size_t n, cap;
	struct rangetree seen;
};

static int object_push(struct object_stack *s, uint64_t object)
{
	if (object == UINT64_MAX || rangetree_add(&s->seen, object, object + 1))
		return -EINVAL; /* met twice: damage */
	if (s->n == s->cap) {
		s->cap = MAX(16, 2 * s->cap);
		s->object = xrealloc(s->object, s->cap * sizeof(*s->object));
	}
	s->object[s->n++] = object;
	return 0;
}

static int object_destroy(struct objset *mos, struct object_stack *s, uint64_t object, struct tx *tx)
{
	uint64_t *subs = NULL;
	struct bpobj *b;
	int err = bpobj_open(mos, object, &b);

	if (err)
		return err;
	err = subs_read(b, UINT64_MAX, &subs);
	for (uint64_t i = 0; subs && i < b->phys.num_subobjs && !err; i++)
		err = object_push(s, subs[i]);
	free(subs);
	if (err) {
		bpobj_close(b);
		return err;
	}
	return one_free(b, tx);
}

int bpobj_destroy(struct objset *mos, uint64_t object, struct tx *tx)
{
	struct object_stack s = {0};
	int err;

	rangetree_init(&s.seen);
	err = object_push(&s, object);
	while (!err && s.n > 0)
		err = object_destroy(mos, &s, s.object[--s.n], tx);
	rangetree_clear(&s.seen);
	free(s.object);
	return err;
}

/* --- consuming --- */

/* A list on the way down, and what was taken off it and its sub-objects. */
struct level {
	struct bpobj *b;
	struct sums taken;
};

struct consume {
	const struct bpobj_consumer *c;
	struct tx *tx;
	uint8_t *chunk;
	struct level *level;
	size_t depth, cap;
	struct rangetree seen;
};

static int level_push(struct consume *w, struct bpobj *b)
{
	uint64_t object = bpobj_object(b);

	if (rangetree_add(&w->seen, object, object + 1))
		return -EINVAL;
	if (w->depth == w->cap) {
		w->cap = MAX(16, 2 * w->cap);
		w->level = xrealloc(w->level, w->cap * sizeof(*w->level));
	}
	w->level[w->depth++] = (struct level){.b = b};
	return 0;
}

static int entry_consume(struct consume *w, struct level *l, const uint8_t *p, bool swap)
{
	struct bp bp;
	bool freed;
	int err = bpobj_entry_decode(p, swap, &bp, &freed);

	if (!err)
		err = w->c->fn(w->c->arg, &bp, freed, w->tx);
	if (err)
		return err;
	sums_add(&l->taken, &bp, freed, w->c->deflated(w->c->arg, &bp));
	l->b->phys.num_blkptrs--;
	l->b->phys.num_freed -= freed;
	l->b->changed = true;
	return 0;
}

/* The last piece of the list's own entries. */
static int piece_consume(struct consume *w)
{
	struct level *l = &w->level[w->depth - 1];
	uint64_t step = bpobj_step(l->b->dn), n = l->b->phys.num_blkptrs, first;
	bool swap;
	int err;

	if (step == 0)
		return -EINVAL;
	first = ROUND_DOWN(n - 1, step);
	err = bpobj_entries_read(l->b->dn, first, n - first, w->chunk, &swap);
	while (!err && n > first)
		err = entry_consume(w, l, w->chunk + (--n - first) * BP_SIZE, swap);
	return err;
}

static int sub_enter(struct consume *w)
{
	struct bpobj *b = w->level[w->depth - 1].b, *sub;
	struct dnode *list;
	uint64_t object;
	int err = dnode_hold(b->mos, b->phys.subobjs, &list, NULL);

	if (err)
		return err;
	err = bpobj_array_fits(list, b->phys.num_subobjs, BPOBJ_SUBOBJ_SIZE) ? 0 : -EINVAL;
	if (!err)
		err = bpobj_sub_read(list, b->phys.num_subobjs - 1, &object);
	dnode_release(list);
	if (!err)
		err = bpobj_open(b->mos, object, &sub);
	if (err)
		return err;
	err = level_push(w, sub);
	if (err)
		bpobj_close(sub);
	return err;
}

/* The level's list lost what was taken: its counts, and its data behind the end. */
static int level_settle(struct consume *w, struct level *l)
{
	struct bpobj *b = l->b;
	int err;

	phys_subtract(b, &l->taken);
	err = dmu_free_range(b->dn, b->phys.num_blkptrs * BP_SIZE, UINT64_MAX, w->tx);
	if (!err && b->phys.num_subobjs == 0)
		err = list_free(b, w->tx);
	return err ? err : bpobj_flush(b, w->tx);
}

/* The list on top is left: gone when it is used up. */
static int level_pop(struct consume *w)
{
	struct level *l = &w->level[--w->depth], *up = l - 1;
	bool is_empty = bpobj_is_empty(l->b);
	struct sums *t = &l->taken;
	int err;

	up->taken = (struct sums){up->taken.bytes + t->bytes, up->taken.comp + t->comp, up->taken.uncomp + t->uncomp};
	if (is_empty) {
		up->b->phys.num_subobjs--;
		up->b->changed = true;
		return one_free(l->b, w->tx);
	}
	err = level_settle(w, l);
	bpobj_close(l->b);
	return err;
}

static int consume_some(struct consume *w)
{
	struct bpobj *b = w->level[w->depth - 1].b;

	if (b->phys.num_blkptrs > 0)
		return piece_consume(w);
	return b->phys.num_subobjs > 0 ? sub_enter(w) : level_pop(w);
}

int bpobj_consume(struct bpobj *b, const struct bpobj_consumer *c, struct tx *tx)
{
	struct consume w = {.c = c, .tx = tx};
	int err = bpobj_flush(b, tx), err2 = 0;

	if (err || bpobj_is_empty(b))
		return err;
	w.chunk = xmalloc(BPOBJ_CHUNK);
	rangetree_init(&w.seen);
	err = level_push(&w, b);
	while (!err && !(w.depth == 1 && bpobj_is_empty(b)))
		err = consume_some(&w);
	while (w.depth > 0) {
		int e = w.depth > 1 ? level_pop(&w) : level_settle(&w, &w.level[--w.depth]);

		err2 = err2 ? err2 : e;
	}
	rangetree_clear(&w.seen);
	free(w.level);
	free(w.chunk);
	return err2 ? err2 : err;
}
