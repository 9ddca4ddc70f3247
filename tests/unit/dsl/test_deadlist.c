/* Deadlists against a model: keys, entries, sums, and the empty list they share (docs/format/03, 3.2, 3.3). */
#include "dsl_harness.h"

#define KEYS    12
#define BPS     4000
#define LISTS   3
#define TXG_MAX 100

/* A block in some list; 0: in none. */
struct mbp {
	uint64_t birth;
	unsigned list;  /* index + 1 */
	uint64_t filed; /* key of its entry */
};

struct mlist {
	struct dsl_deadlist *dl;
	uint64_t object, key[KEYS + TXG_MAX];
	unsigned nkeys;
};

/* These run on the sync thread, where cmocka's own would jump off another thread's stack. */
#define CHECK(cond)                                                                                                    \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                                     \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

struct model {
	struct harness *h;
	struct mlist list[LISTS];
	struct mbp bp[BPS];
	unsigned nbps, rounds;
	bool plain;
	uint32_t rnd;
	int64_t base; /* references of the pool's own data sets on the shared list */
	void (*run)(struct model *m, struct tx *tx);
};

static uint32_t rnd(struct model *m, uint32_t n)
{
	m->rnd = m->rnd * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(m->rnd >> 4) * n >> 28);
}

static uint64_t sectors(unsigned i)
{
	return 1 + i % 7;
}

static struct bp pointer(const struct mbp *b, unsigned i)
{
	struct bp bp = {0};

	bp.w[0] = sectors(i);
	bp.w[1] = (uint64_t)i * 64;
	bp.w[6] = (sectors(i) + 3) | (sectors(i) - 1) << 16 | UINT64_C(15) << 32 | UINT64_C(7) << 40 |
		  UINT64_C(19) << 48 | (uint64_t)HOST_IS_LITTLE << 63;
	bp.w[10] = b->birth;
	bp.w[11] = 1;
	return bp;
}

static void ok(int err)
{
	CHECK(err == 0);
}

/* --- keys of the model --- */

static int key_at(const struct mlist *l, uint64_t key)
{
	for (unsigned i = 0; i < l->nkeys; i++)
		if (l->key[i] == key)
			return i;
	return -1;
}

static uint64_t key_below(const struct mlist *l, uint64_t v, bool or_equal)
{
	uint64_t best = 0;

	for (unsigned i = 0; i < l->nkeys; i++)
		if ((l->key[i] < v || (or_equal && l->key[i] == v)) && l->key[i] > best)
			best = l->key[i];
	return best;
}

static void key_drop(struct mlist *l, unsigned i)
{
	l->key[i] = l->key[--l->nkeys];
}

/* --- comparing --- */

struct seen {
	struct model *m;
	unsigned list;
	uint64_t key, n, used;
};

static int entry_seen(void *arg, const struct bp *bp, bool freed)
{
	struct seen *s = arg;
	unsigned i = bp_dva(bp, 0).offset / (64 * 512);

	CHECK(s->m->bp[i].list == s->list + 1);
	CHECK(s->m->bp[i].birth == bp_birth(bp));
	if (!s->m->plain)
		CHECK(s->m->bp[i].filed == s->key);
	s->n++;
	s->used += bp_asize(bp);
	return 0;
}

static void space_compare(struct model *m, unsigned k, uint64_t min, uint64_t max)
{
	struct dsl_space want = {0}, got, stored;
	struct mlist *l = &m->list[k];

	for (unsigned i = 0; i < m->nbps; i++) {
		struct bp bp = pointer(&m->bp[i], i);
		uint64_t at = m->plain ? m->bp[i].birth - 1 : m->bp[i].filed;

		if (m->bp[i].list != k + 1 || at < min || at >= max)
			continue;
		want.used += bp_asize(&bp);
		want.comp += bp_psize(&bp);
		want.uncomp += bp_lsize(&bp);
	}
	ok(dsl_deadlist_sums_range(l->dl, min, max, &got));
	ok(dsl_deadlist_space_range(m->h->p, l->object, min, max, &stored));
	CHECK(memcmp(&got, &want, sizeof(want)) == 0);
	CHECK(memcmp(&stored, &want, sizeof(want)) == 0);
	if (min > 0 || max != UINT64_MAX)
		return;
	dsl_deadlist_sums(l->dl, &got);
	ok(dsl_deadlist_space(m->h->p, l->object, &stored));
	CHECK(memcmp(&got, &want, sizeof(want)) == 0);
	CHECK(memcmp(&stored, &want, sizeof(want)) == 0);
}

static void list_compare(struct model *m, unsigned k, uint64_t *empties, struct tx *tx)
{
	struct mlist *l = &m->list[k];
	struct seen s = {m, k};
	uint64_t want = 0, shared = 0;

	for (unsigned i = 0; i < m->nbps; i++)
		want += m->bp[i].list == k + 1;
	ok(dsl_deadlist_flush(l->dl, tx));
	if (m->plain)
		ok(bpobj_iterate(m->h->mos, l->object, entry_seen, &s));
	else
		CHECK(dsl_deadlist_nkeys(l->dl) == l->nkeys);
	for (unsigned i = 0; !m->plain && i < l->nkeys; i++) {
		uint64_t object;

		dsl_deadlist_key(l->dl, i, &s.key, &object);
		CHECK(key_at(l, s.key) >= 0);
		ok(bpobj_iterate(m->h->mos, object, entry_seen, &s));
		shared += dsl_bpobj_is_shared_empty(m->h->p, object);
	}
	CHECK(s.n == want);
	*empties += shared;
	space_compare(m, k, 0, UINT64_MAX);
	if (!m->plain && l->nkeys > 1)
		space_compare(m, k, l->key[rnd(m, l->nkeys)], UINT64_MAX);
	space_compare(m, k, 0, l->nkeys ? l->key[rnd(m, l->nkeys)] : 50);
}

static void compare(struct model *m, struct tx *tx)
{
	uint64_t empties = 0, object;

	for (unsigned k = 0; k < LISTS; k++)
		list_compare(m, k, &empties, tx);
	if (!m->plain)
		CHECK(hw_feature(m->h, "com.delphix:empty_bpobj")->refs == m->base + (int64_t)empties);
	CHECK((zap_lookup_u64(m->h->mos, MOS_DIRECTORY, "empty_bpobj", &object) == 0) ==
	      (hw_feature(m->h, "com.delphix:empty_bpobj")->refs > 0));
}

/* --- operations --- */

static void op_insert(struct model *m, unsigned k, struct tx *tx)
{
	struct mlist *l = &m->list[k];

	for (unsigned n = 1 + rnd(m, 40); n > 0 && m->nbps < BPS; n--) {
		struct mbp *b = &m->bp[m->nbps];
		struct bp bp;

		b->birth = 1 + rnd(m, TXG_MAX);
		b->list = k + 1;
		b->filed = key_below(l, b->birth, false);
		bp = pointer(b, m->nbps++);
		ok(dsl_deadlist_insert(l->dl, &bp, false, tx));
	}
}

static void op_add_key(struct model *m, unsigned k, struct tx *tx)
{
	struct mlist *l = &m->list[k];
	uint64_t max = l->nkeys ? key_below(l, UINT64_MAX, false) : 0, key = max + 1 + rnd(m, 20);

	if (l->nkeys >= KEYS || key > TXG_MAX)
		return;
	ok(dsl_deadlist_add_key(l->dl, key, tx));
	l->key[l->nkeys++] = key;
}

static void op_remove_key(struct model *m, unsigned k, struct tx *tx)
{
	struct mlist *l = &m->list[k];
	unsigned i = l->nkeys ? rnd(m, l->nkeys) : 0;
	uint64_t key, below;

	CHECK(dsl_deadlist_remove_key(l->dl, 12345, tx) == (m->plain ? 0 : -ENOENT));
	if (l->nkeys < 2 || l->key[i] == 0)
		return;
	key = l->key[i];
	ok(dsl_deadlist_remove_key(l->dl, key, tx));
	key_drop(l, i);
	below = key_below(l, key, false);
	for (unsigned b = 0; b < m->nbps; b++)
		if (m->bp[b].list == k + 1 && m->bp[b].filed == key)
			m->bp[b].filed = below;
}

static void op_clear(struct model *m, unsigned k, struct tx *tx)
{
	struct mlist *l = &m->list[k];
	unsigned i = l->nkeys ? rnd(m, l->nkeys) : 0;

	if (l->nkeys == 0 || m->plain)
		return;
	ok(dsl_deadlist_clear_entry(l->dl, l->key[i], tx));
	for (unsigned b = 0; b < m->nbps; b++)
		if (m->bp[b].list == k + 1 && m->bp[b].filed == l->key[i])
			m->bp[b].list = 0;
}

static int move_seen(void *arg, const struct bp *bp, bool freed)
{
	struct seen *s = arg;
	struct mbp *b = &s->m->bp[bp_dva(bp, 0).offset / (64 * 512)];

	CHECK(b->list == s->list + 1);
	if (s->m->plain)
		CHECK(b->birth > s->key);
	else
		CHECK(b->filed >= s->key);
	b->list = 0;
	s->n++;
	return 0;
}

static void op_move(struct model *m, unsigned k, struct tx *tx)
{
	struct mlist *l = &m->list[k];
	uint64_t key = l->nkeys ? l->key[rnd(m, l->nkeys)] : rnd(m, TXG_MAX), object;
	struct seen s = {m, k, key};
	struct bpobj *to;

	if (key == 0)
		return;
	ok(dsl_bpobj_create(m->h->p, tx, &object));
	ok(bpobj_open(m->h->mos, object, &to));
	ok(dsl_deadlist_move(l->dl, to, key, tx));
	ok(bpobj_flush(to, tx));
	bpobj_close(to);
	ok(bpobj_iterate(m->h->mos, object, move_seen, &s));
	for (unsigned b = 0; b < m->nbps; b++)
		if (m->bp[b].list == k + 1)
			CHECK(m->plain ? m->bp[b].birth <= key : m->bp[b].filed < key);
	for (unsigned i = l->nkeys; i-- > 0;)
		if (l->key[i] >= key)
			key_drop(l, i);
	ok(bpobj_destroy(m->h->mos, object, tx));
}

static void list_reopen(struct model *m, unsigned k, uint64_t object)
{
	m->list[k].object = object;
	ok(dsl_deadlist_open(m->h->p, object, &m->list[k].dl));
}

/* Another list takes everything, and this one begins anew as a clone of it. */
static void op_merge_and_clone(struct model *m, unsigned k, struct tx *tx)
{
	unsigned to = (k + 1) % LISTS;
	struct mlist *l = &m->list[k], *t = &m->list[to];
	uint64_t old = l->object, max = 1 + rnd(m, TXG_MAX), object;

	if (t->nkeys == 0 && !m->plain)
		return;
	ok(dsl_deadlist_flush(l->dl, tx));
	dsl_deadlist_close(l->dl);
	ok(dsl_deadlist_merge(t->dl, old, tx));
	for (unsigned b = 0; b < m->nbps; b++) {
		if (m->bp[b].list != k + 1)
			continue;
		m->bp[b].list = to + 1;
		m->bp[b].filed = key_below(t, m->bp[b].filed, true);
	}
	ok(dsl_deadlist_free(m->h->p, old, tx));
	ok(dsl_deadlist_clone(t->dl, 0, max, tx, &object));
	list_reopen(m, k, object);
	l->nkeys = 0;
	for (unsigned i = 0; i < t->nkeys; i++)
		if (t->key[i] < max)
			l->key[l->nkeys++] = t->key[i];
}

static void lists_make(struct model *m, struct tx *tx)
{
	for (unsigned k = 0; k < LISTS; k++) {
		uint64_t object;

		ok(dsl_deadlist_create(m->h->p, tx, &object));
		list_reopen(m, k, object);
		if (m->plain)
			continue;
		ok(dsl_deadlist_add_key(m->list[k].dl, 0, tx));
		m->list[k].key[m->list[k].nkeys++] = 0;
	}
}

static void lists_free(struct model *m, struct tx *tx)
{
	for (unsigned k = 0; k < LISTS; k++) {
		ok(dsl_deadlist_flush(m->list[k].dl, tx));
		dsl_deadlist_close(m->list[k].dl);
		ok(dsl_deadlist_free(m->h->p, m->list[k].object, tx));
	}
}

static void run_model(struct model *m, struct tx *tx)
{
	static void (*const op[])(struct model * m, unsigned k, struct tx *tx) = {
	    op_insert,     op_insert, op_insert, op_add_key,         op_add_key,
	    op_remove_key, op_clear,  op_move,   op_merge_and_clone,
	};

	lists_make(m, tx);
	for (unsigned i = 0; i < m->rounds; i++) {
		op[rnd(m, ARRAY_LEN(op))](m, rnd(m, LISTS), tx);
		if (i % 7 == 0)
			compare(m, tx);
	}
	compare(m, tx);
	lists_free(m, tx);
}

static int nothing_to_check(void *arg, struct tx *tx, struct err *e)
{
	return 0;
}

static void model_sync(void *arg, struct tx *tx)
{
	struct model *m = arg;

	m->run(m, tx);
}

static void model_run(const char *const *off, size_t noff, bool plain, uint32_t seed)
{
	struct model *m = xcalloc(1, sizeof(*m));
	struct dsl_task t = {.check = nothing_to_check, .sync = model_sync, .arg = m};

	*m = (struct model){.h = hw_create(off, noff), .plain = plain, .rnd = seed, .rounds = 300, .run = run_model};
	m->base = hw_feature(m->h, "com.delphix:empty_bpobj")->refs;
	if (plain)
		m->h->p->version = 20;
	ok(dsl_task_run(m->h->p, &t, NULL));
	m->h->p->version = 5000;
	assert_int_equal(hw_feature(m->h, "com.delphix:empty_bpobj")->refs, m->base);
	hw_destroy(m->h);
	free(m);
}

static void lists_follow_the_model(void **state)
{
	for (uint32_t seed = 1; seed < 6; seed++)
		model_run(NULL, 0, false, seed);
}

static void lists_of_pools_without_a_shared_one(void **state)
{
	static const char *const off[] = {"com.delphix:empty_bpobj"};

	model_run(off, 1, false, 11);
}

static void plain_lists_of_old_pools(void **state)
{
	model_run(NULL, 0, true, 21);
}

/* An old list on a pool that was upgraded: it goes into the new form pointer by pointer. */
static void mixed(struct model *m, struct tx *tx)
{
	uint64_t object;

	m->h->p->version = 20;
	ok(dsl_deadlist_create(m->h->p, tx, &object));
	list_reopen(m, 0, object);
	m->plain = true;
	op_insert(m, 0, tx);
	op_insert(m, 0, tx);
	ok(dsl_deadlist_flush(m->list[0].dl, tx));
	dsl_deadlist_close(m->list[0].dl);
	m->h->p->version = 5000;
	m->plain = false;
	ok(dsl_deadlist_create(m->h->p, tx, &object));
	list_reopen(m, 1, object);
	for (uint64_t key = 0; key < TXG_MAX; key += 30) {
		ok(dsl_deadlist_add_key(m->list[1].dl, key, tx));
		m->list[1].key[m->list[1].nkeys++] = key;
	}
	ok(dsl_deadlist_merge(m->list[1].dl, m->list[0].object, tx));
	for (unsigned i = 0; i < m->nbps; i++) {
		m->bp[i].list = 2;
		m->bp[i].filed = key_below(&m->list[1], m->bp[i].birth, false);
	}
	uint64_t empties = 0;
	list_compare(m, 1, &empties, tx);
	ok(dsl_deadlist_free(m->h->p, m->list[0].object, tx));
	dsl_deadlist_close(m->list[1].dl);
	ok(dsl_deadlist_free(m->h->p, m->list[1].object, tx));
}

static void old_lists_merge_into_new_ones(void **state)
{
	struct model *m = xcalloc(1, sizeof(*m));
	struct dsl_task t = {.check = nothing_to_check, .sync = model_sync, .arg = m};

	*m = (struct model){.h = hw_create(NULL, 0), .rnd = 3, .run = mixed};
	ok(dsl_task_run(m->h->p, &t, NULL));
	hw_destroy(m->h);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lists_follow_the_model),
	    cmocka_unit_test(lists_of_pools_without_a_shared_one),
	    cmocka_unit_test(plain_lists_of_old_pools),
	    cmocka_unit_test(old_lists_merge_into_new_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
