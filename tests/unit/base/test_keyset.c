/* Sets of keys against a plain bitmap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/keyset.h"

#define KEYS 20000

struct model {
	bool in[KEYS];
	size_t len;
	uint32_t seed;
};

static uint32_t rnd(struct model *m, uint32_t below)
{
	m->seed = m->seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(m->seed >> 4) * below >> 28);
}

/* Keys lie far apart, so that those between them can be asked for. */
static uint64_t key_of(uint32_t i)
{
	return (uint64_t)i * 1000 + 500;
}

static void add(struct keyset *ks, struct model *m, uint32_t i)
{
	assert_int_equal(keyset_add(ks, key_of(i)), !m->in[i]);
	m->len += !m->in[i];
	m->in[i] = true;
}

static void take(struct keyset *ks, struct model *m, uint32_t i)
{
	assert_int_equal(keyset_remove(ks, key_of(i)), m->in[i]);
	m->len -= m->in[i];
	m->in[i] = false;
}

struct walk {
	struct model *m;
	uint32_t at;
	size_t n;
};

static int walk_key(void *arg, uint64_t key)
{
	struct walk *w = arg;

	while (w->at < KEYS && !w->m->in[w->at])
		w->at++;
	assert_true(w->at < KEYS);
	assert_int_equal(key, key_of(w->at++));
	w->n++;
	return 0;
}

static void check_all(const struct keyset *ks, struct model *m)
{
	struct walk w = {.m = m};
	uint64_t key, next = UINT64_MAX, last = UINT64_MAX;

	assert_int_equal(ks->len, m->len);
	assert_int_equal(keyset_each(ks, walk_key, &w), 0);
	assert_int_equal(w.n, m->len);
	for (uint32_t i = KEYS; i-- > 0;) {
		assert_int_equal(keyset_ge(ks, key_of(i) + 1, &key), next != UINT64_MAX);
		assert_true(next == UINT64_MAX || key == next);
		next = m->in[i] ? key_of(i) : next;
		assert_int_equal(keyset_has(ks, key_of(i)), m->in[i]);
		assert_false(keyset_has(ks, key_of(i) + 1));
	}
	for (uint32_t i = 0; i < KEYS; i++) {
		assert_int_equal(keyset_le(ks, key_of(i) - 1, &key), last != UINT64_MAX);
		assert_true(last == UINT64_MAX || key == last);
		last = m->in[i] ? key_of(i) : last;
	}
	struct keyset_iter it;
	w = (struct walk){.m = m};
	keyset_iter_init(&it, ks, 0);
	while (keyset_iter_next(&it, &key))
		walk_key(&w, key);
	assert_int_equal(w.n, m->len);
}

static void random_changes_are_those_of_the_model(void **state)
{
	struct model *m = xcalloc(1, sizeof(*m));
	struct keyset ks;

	(void)state;
	keyset_init(&ks);
	m->seed = 7;
	/* Fill and drain several times, to other levels each time. */
	for (unsigned round = 0; round < 12; round++) {
		unsigned bias = (const unsigned[]){90, 30, 60, 5}[round % 4];

		for (unsigned i = 0; i < KEYS; i++) {
			if (rnd(m, 100) < bias)
				add(&ks, m, rnd(m, KEYS));
			else
				take(&ks, m, rnd(m, KEYS));
		}
		check_all(&ks, m);
	}
	for (uint32_t i = 0; i < KEYS; i++)
		take(&ks, m, i);
	check_all(&ks, m);
	assert_null(ks.root);
	free(m);
}

static void runs_in_order_are_packed_and_leave_nothing(void **state)
{
	struct model *m = xcalloc(1, sizeof(*m));
	struct keyset ks;

	(void)state;
	keyset_init(&ks);
	for (uint32_t i = 0; i < KEYS; i++)
		add(&ks, m, i);
	check_all(&ks, m);
	assert_int_equal(ks.height, 3); /* full leaves: 63 * 31 * 31 keys would need no fourth level */
	for (uint32_t i = KEYS; i-- > 0;)
		take(&ks, m, i);
	assert_null(ks.root);
	for (uint32_t i = KEYS; i-- > 0;)
		add(&ks, m, i);
	check_all(&ks, m);
	for (uint32_t i = 0; i < KEYS; i += 2)
		take(&ks, m, i);
	check_all(&ks, m);
	keyset_clear(&ks);
	free(m);
}

/* Replaces each key now and then by another one between its neighbours. */
static void keys_move_between_their_neighbours(void **state)
{
	struct keyset ks;
	static uint64_t key[KEYS];
	struct model m = {.seed = 3};
	uint64_t found;

	(void)state;
	keyset_init(&ks);
	for (uint32_t i = 0; i < KEYS; i++)
		keyset_add(&ks, key[i] = key_of(i));
	for (unsigned round = 0; round < 10; round++) {
		for (uint32_t i = 0; i < KEYS; i++) {
			uint64_t to = (uint64_t)i * 1000 + rnd(&m, 1000);

			if (to == key[i])
				continue;
			keyset_replace(&ks, key[i], to);
			assert_false(keyset_has(&ks, key[i]));
			key[i] = to;
		}
		for (uint32_t i = 0; i < KEYS; i++) {
			assert_true(keyset_has(&ks, key[i]));
			assert_true(keyset_le(&ks, (uint64_t)i * 1000 + 999, &found));
			assert_int_equal(found, key[i]);
		}
		for (uint32_t i = round; i < KEYS; i += 3) {
			assert_true(keyset_remove(&ks, key[i]));
			assert_true(keyset_add(&ks, key[i]));
		}
	}
	assert_int_equal(ks.len, KEYS);
	keyset_clear(&ks);
}

/* What is removed next to a key leaves room that the key may move through, over the borders of nodes, too. */
static void keys_move_into_room_that_others_left(void **state)
{
	struct keyset ks;
	uint64_t found;

	(void)state;
	for (int up = 0; up < 2; up++) {
		keyset_init(&ks);
		for (uint32_t i = 0; i < KEYS; i++)
			keyset_add(&ks, key_of(i));
		for (uint32_t i = 0; i < KEYS; i++)
			if (i % 8 != 0)
				keyset_remove(&ks, key_of(i));
		for (uint32_t i = 8; i + 8 < KEYS; i += 16)
			keyset_replace(&ks, key_of(i), up ? key_of(i + 7) : key_of(i - 7));
		for (uint32_t i = 8; i + 8 < KEYS; i += 16) {
			assert_false(keyset_has(&ks, key_of(i)));
			assert_true(keyset_ge(&ks, key_of(i - 8) + 1, &found));
			assert_int_equal(found, up ? key_of(i + 7) : key_of(i - 7));
			assert_true(keyset_remove(&ks, found));
			assert_true(keyset_add(&ks, key_of(i)));
		}
		keyset_clear(&ks);
	}
}

static void the_extremes_are_keys_like_others(void **state)
{
	struct keyset ks;
	struct keyset_iter it;
	uint64_t key;

	(void)state;
	keyset_init(&ks);
	assert_false(keyset_ge(&ks, 0, &key));
	assert_false(keyset_le(&ks, UINT64_MAX, &key));
	assert_false(keyset_remove(&ks, 0));
	for (uint64_t i = 0; i < 1000; i++) {
		keyset_add(&ks, i);
		keyset_add(&ks, UINT64_MAX - i);
	}
	assert_true(keyset_ge(&ks, UINT64_MAX, &key) && key == UINT64_MAX);
	assert_true(keyset_le(&ks, 0, &key) && key == 0);
	assert_true(keyset_ge(&ks, 1000, &key) && key == UINT64_MAX - 999);
	keyset_iter_init(&it, &ks, UINT64_MAX - 1);
	assert_true(keyset_iter_next(&it, &key) && key == UINT64_MAX - 1);
	assert_true(keyset_iter_next(&it, &key) && key == UINT64_MAX);
	assert_false(keyset_iter_next(&it, &key));
	assert_true(keyset_remove(&ks, UINT64_MAX));
	assert_false(keyset_ge(&ks, UINT64_MAX, &key));
	keyset_clear(&ks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_changes_are_those_of_the_model),
	    cmocka_unit_test(runs_in_order_are_packed_and_leave_nothing),
	    cmocka_unit_test(keys_move_between_their_neighbours),
	    cmocka_unit_test(keys_move_into_room_that_others_left),
	    cmocka_unit_test(the_extremes_are_keys_like_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
