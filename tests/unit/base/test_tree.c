/* Trees and range trees against plain models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rangetree.h"
#include "base/tree.h"

struct item {
	struct tree_node node;
	int key;
	bool in;
};

static int item_cmp(const struct tree_node *a, const struct tree_node *b)
{
	int x = container_of((struct tree_node *)a, struct item, node)->key;
	int y = container_of((struct tree_node *)b, struct item, node)->key;

	return (x > y) - (x < y);
}

/* Height of the subtree, with every invariant checked on the way. */
static int checked_height(const struct tree_node *n)
{
	int l, r;

	if (!n)
		return 0;
	l = checked_height(n->left);
	r = checked_height(n->right);
	assert_int_equal(n->balance, r - l);
	assert_in_range(n->balance + 1, 0, 2);
	if (n->left) {
		assert_ptr_equal(n->left->parent, n);
		assert_true(item_cmp(n->left, n) < 0);
	}
	if (n->right) {
		assert_ptr_equal(n->right->parent, n);
		assert_true(item_cmp(n->right, n) > 0);
	}
	return 1 + MAX(l, r);
}

#define ITEMS 300

static void check_against(struct tree *t, struct item *items)
{
	struct tree_node *n = tree_first(t), *last = NULL;

	checked_height(t->root);
	for (int i = 0; i < ITEMS; i++) {
		struct item key = {.key = i};

		assert_ptr_equal(tree_find(t, &key.node), items[i].in ? &items[i].node : NULL);
		assert_ptr_equal(tree_find_ge(t, &key.node), n);
		if (items[i].in) {
			assert_ptr_equal(n, &items[i].node);
			assert_ptr_equal(tree_prev(n), last);
			last = n;
			n = tree_next(n);
		}
		assert_ptr_equal(tree_find_le(t, &key.node), last);
	}
	assert_null(n);
	assert_ptr_equal(tree_last(t), last);
}

static void tree_stays_ordered_and_balanced(void **state)
{
	static struct item items[ITEMS];
	struct tree t;
	size_t len = 0;

	tree_init(&t, item_cmp);
	srandom(1);
	for (int i = 0; i < ITEMS; i++)
		items[i].key = i;
	for (int round = 0; round < 6000; round++) {
		struct item *it = &items[random() % ITEMS];

		if (it->in) {
			tree_remove(&t, &it->node);
			len--;
		} else {
			assert_null(tree_insert(&t, &it->node));
			len++;
		}
		it->in = !it->in;
		assert_int_equal(t.len, len);
		if (round % 20 == 0)
			check_against(&t, items);
	}
}

static void tree_refuses_equal_keys(void **state)
{
	struct item a = {.key = 1}, b = {.key = 1};
	struct tree t;

	tree_init(&t, item_cmp);
	assert_null(tree_insert(&t, &a.node));
	assert_ptr_equal(tree_insert(&t, &b.node), &a.node);
	assert_int_equal(t.len, 1);
}

#define SPAN 256

static bool model_all(const bool *m, unsigned a, unsigned b, bool v)
{
	for (; a < b; a++)
		if (m[a] != v)
			return false;
	return true;
}

static void check_ranges(const struct rangetree *rt, const bool *m)
{
	unsigned at = 0, space = 0;

	for (struct range *r = rangetree_first(rt); r; r = rangetree_next(r)) {
		assert_true(r->end > r->start && r->end <= SPAN);
		assert_true(at == 0 || r->start > at); /* neighbours are merged */
		assert_true(model_all(m, at, r->start, false));
		assert_true(model_all(m, r->start, r->end, true));
		at = r->end;
		space += r->end - r->start;
	}
	assert_true(model_all(m, at, SPAN, false));
	assert_int_equal(rt->space, space);
}

static void apply(struct rangetree *rt, bool *m, unsigned op, unsigned a, unsigned b)
{
	int err = 0;

	switch (op) {
	case 0:
		err = rangetree_add(rt, a, b);
		assert_int_equal(err, model_all(m, a, b, false) ? 0 : -EEXIST);
		break;
	case 1:
		rangetree_add_any(rt, a, b);
		break;
	case 2:
		err = rangetree_remove(rt, a, b);
		assert_int_equal(err, model_all(m, a, b, true) ? 0 : -ENOENT);
		break;
	default:
		rangetree_remove_any(rt, a, b);
	}
	if (err == 0)
		memset(m + a, op < 2, b - a);
}

static void rangetree_agrees_with_a_bitmap(void **state)
{
	struct rangetree rt;
	bool m[SPAN] = {false};

	rangetree_init(&rt);
	srandom(2);
	for (int round = 0; round < 20000; round++) {
		unsigned a = random() % SPAN, most = MIN(SPAN - a, 24), b = a + 1 + random() % most;

		apply(&rt, m, random() % 4, a, b);
		check_ranges(&rt, m);
		a = random() % SPAN;
		b = a + 1 + random() % (SPAN - a);
		assert_int_equal(rangetree_contains(&rt, a, b), model_all(m, a, b, true));
		assert_int_equal(rangetree_overlap(&rt, a, b) != NULL, !model_all(m, a, b, false));
	}
	rangetree_clear(&rt);
	assert_null(rangetree_first(&rt));
	assert_int_equal(rt.space, 0);
}

static void rangetree_refuses_empty_ranges(void **state)
{
	struct rangetree rt;

	rangetree_init(&rt);
	assert_int_equal(rangetree_add(&rt, 5, 5), -EINVAL);
	rangetree_add_any(&rt, 5, 4);
	assert_null(rangetree_first(&rt));
	assert_int_equal(rangetree_add(&rt, 0, UINT64_MAX), 0);
	assert_null(rangetree_overlap(&rt, 7, 7));
	rangetree_remove_any(&rt, 7, 7);
	assert_int_equal(rt.space, UINT64_MAX);
	rangetree_clear(&rt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tree_stays_ordered_and_balanced),
	    cmocka_unit_test(tree_refuses_equal_keys),
	    cmocka_unit_test(rangetree_agrees_with_a_bitmap),
	    cmocka_unit_test(rangetree_refuses_empty_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
