/*
 * Pools that are made, written, exported and imported again.
 */
#include "livepool.h"

#include "spa/spa_impl.h"

#define DISK_SIZE (UINT64_C(96) << 20)

static const char *prop(struct spa *spa, const char *name, char *out, size_t size)
{
	autonv struct nvlist *props = NULL;
	struct nvlist *one;

	assert_int_equal(spa_props_get(spa, &props), 0);
	if (nvlist_list(props, name, &one))
		return NULL;
	snprintf(out, size, "%s", nvlist_string_or(one, "value", ""));
	return out;
}

static void assert_prop(struct spa *spa, const char *name, const char *want)
{
	char have[256];

	assert_string_equal(prop(spa, name, have, sizeof(have)), want);
}

static void create_and_import(void **state)
{
	struct livepool lp;
	uint64_t guid;

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	guid = lp.spa->guid;
	assert_prop(lp.spa, "health", "ONLINE");
	assert_prop(lp.spa, "readonly", "off");
	assert_prop(lp.spa, "feature@lz4_compress", "active");
	livepool_export(&lp);

	livepool_import(&lp, false);
	assert_true(lp.spa->guid == guid);
	assert_string_equal(lp.spa->name, LIVEPOOL_NAME);
	assert_prop(lp.spa, "health", "ONLINE");
	livepool_export(&lp);

	livepool_import(&lp, true);
	assert_prop(lp.spa, "readonly", "off");
	livepool_export(&lp);
	livepool_import(&lp, true);
	livepool_remove(&lp);
}

static void stripe_with_log(void **state)
{
	struct livepool lp;
	autonv struct nvlist *tree = NULL, *log = NULL;
	struct nvlist *const *child, *all[4];
	size_t n;

	livepool_files(&lp, 4, DISK_SIZE);
	tree = livepool_tree(&lp, 0, 3, false);
	log = livepool_tree(&lp, 3, 1, true);
	nvlist_lists(tree, "children", &child, &n);
	for (size_t i = 0; i < n; i++)
		all[i] = nvlist_copy(child[i]);
	nvlist_lists(log, "children", &child, &n);
	all[3] = nvlist_copy(child[0]);
	nvlist_add_lists(tree, "children", all, 4);
	for (size_t i = 0; i < 4; i++)
		nvlist_destroy(all[i]);
	assert_int_equal(livepool_create_tree(&lp, tree, NULL), 0);
	assert_int_equal(lp.spa->root->nchildren, 4);
	assert_true(lp.spa->root->child[3]->is_log);
	livepool_export(&lp);
	livepool_import(&lp, true);
	assert_int_equal(lp.spa->root->nchildren, 4);
	assert_true(lp.spa->root->child[3]->is_log);
	assert_string_equal(lp.spa->root->child[3]->alloc_bias, "log");
	livepool_remove(&lp);
}

/* A group in which nothing changed leaves no trace; properties survive an import. */
static void properties(void **state)
{
	static const char *const set[] = {"comment", "a comment",     "failmode", "continue", "autotrim",
					  "on",      "org.example:x", "y",        NULL};
	autonv struct nvlist *values = NULL, *wrong = nvlist_create();
	struct livepool lp;
	uint64_t txg;

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	values = livepool_props(set);
	assert_int_equal(spa_props_set(lp.spa, values, &lp.e), 0);
	spa_sync_now(lp.spa);
	txg = lp.spa->uberblock.txg;
	spa_sync_now(lp.spa);
	spa_sync_now(lp.spa);
	assert_true(lp.spa->uberblock.txg == txg);
	nvlist_add_string(wrong, "failmode", "sometimes");
	assert_int_equal(spa_props_set(lp.spa, wrong, &lp.e), -EINVAL);
	assert_non_null(strstr(lp.e.text, "wait | continue | panic"));
	livepool_export(&lp);
	livepool_import(&lp, true);
	assert_prop(lp.spa, "comment", "a comment");
	assert_prop(lp.spa, "failmode", "continue");
	assert_prop(lp.spa, "autotrim", "on");
	assert_prop(lp.spa, "org.example:x", "y");
	livepool_remove(&lp);
}

static void no_features(void **state)
{
	static const char *const props[] = {"feature@lz4_compress", "disabled", "feature@hole_birth", "disabled", NULL};
	struct livepool lp;
	autonv struct nvlist *enable = nvlist_create(), *done = NULL;

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, props);
	assert_prop(lp.spa, "feature@lz4_compress", "disabled");
	nvlist_add_string(enable, "feature@hole_birth", "enabled");
	assert_int_equal(spa_props_set(lp.spa, enable, &lp.e), 0);
	assert_prop(lp.spa, "feature@hole_birth", "active");
	livepool_export(&lp);
	livepool_import(&lp, true);
	assert_prop(lp.spa, "feature@lz4_compress", "disabled");
	assert_prop(lp.spa, "feature@hole_birth", "active");
	assert_int_equal(spa_upgrade(lp.spa, 0, &done, &lp.e), 0);
	assert_prop(lp.spa, "feature@lz4_compress", "active");
	livepool_remove(&lp);
}

/* What is in use is refused, and so is what is too small; by force only what no imported pool has. */
static void in_use(void **state)
{
	struct livepool lp;
	struct livepool other;
	autonv struct nvlist *tree = NULL, *twice = nvlist_create();
	struct nvlist *same[2];

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	other = lp;
	other.spa = NULL;
	tree = livepool_tree(&lp, 0, 1, false);
	assert_int_equal(livepool_create_tree(&other, tree, NULL), -EBUSY);
	livepool_export(&lp);
	assert_int_equal(livepool_create_tree(&other, tree, NULL), -EBUSY);
	assert_non_null(strstr(other.e.text, "exported pool '" LIVEPOOL_NAME "'"));
	livepool_import(&lp, true);
	assert_int_equal(spa_destroy_pool(lp.spa, &lp.e), 0);
	lp.spa = NULL;
	assert_null(livepool_find(&lp, false));
	assert_int_equal(livepool_import_as(&lp, (struct spa_import){.writable = true}, true), 0);
	assert_int_equal(spa_destroy_pool(lp.spa, &lp.e), 0);
	lp.spa = NULL;
	livepool_create(&lp, NULL);
	livepool_export(&lp);
	same[0] = livepool_leaf(lp.disk[0]);
	same[1] = livepool_leaf(lp.disk[0]);
	nvlist_add_string(twice, "type", "root");
	nvlist_add_lists(twice, "children", same, 2);
	nvlist_destroy(same[0]);
	nvlist_destroy(same[1]);
	assert_int_equal(livepool_create_tree(&lp, twice, NULL), -EBUSY);
	livepool_remove(&lp);
}

struct commands {
	unsigned n;
	char first[64];
};

static int record_count(void *arg, const struct nvlist *record)
{
	struct commands *c = arg;
	const char *command;

	if (nvlist_string(record, "history command", &command) == 0 && c->n++ == 0)
		snprintf(c->first, sizeof(c->first), "%s", command);
	return 0;
}

static void history(void **state)
{
	struct livepool lp;
	struct commands c = {0};

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	for (unsigned i = 0; i < 2000; i++) {
		spa_history_command(lp.spa, "zpool set comment=something that is long enough to fill the ring live", 0,
				    "host");
		if (i % 100 == 0)
			spa_sync_now(lp.spa);
	}
	livepool_export(&lp);
	livepool_import(&lp, false);
	assert_int_equal(spa_history_each(lp.spa, record_count, &c), 0);
	assert_string_equal(c.first, "zpool create " LIVEPOOL_NAME);
	assert_true(c.n > 100 && c.n < 2000);
	livepool_remove(&lp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(create_and_import), cmocka_unit_test(stripe_with_log), cmocka_unit_test(properties),
	    cmocka_unit_test(no_features),       cmocka_unit_test(in_use),          cmocka_unit_test(history),
	};

	return cmocka_run_group_tests_name("create", tests, NULL, NULL);
}
