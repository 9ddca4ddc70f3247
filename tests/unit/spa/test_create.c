/*
 * Pools that are made, written, exported and imported again.
 */
#include "livepool.h"

#include "dsl/dsl_write.h"
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

#define CHANGES 12000

static void changes_tell(void *arg, struct tx *tx)
{
	char text[24];

	for (unsigned i = 0; i < CHANGES; i++) {
		snprintf(text, sizeof(text), "change %u", i);
		spa_history_internal(arg, "test", NULL, tx, text);
	}
}

static int last_change(void *arg, const struct nvlist *record)
{
	const char *text;

	if (nvlist_string(record, "history internal str", &text) == 0 && strncmp(text, "change ", 7) == 0)
		*(unsigned *)arg = (unsigned)strtoul(text + 7, NULL, 10);
	return 0;
}

/* A group that destroys or snapshots thousands tells of all of them. */
static void history_of_many_changes_in_one_group(void **state)
{
	struct livepool lp;
	unsigned last = 0;
	struct dsl_task t = {.sync = changes_tell, .policy = DSL_SPACE_NONE};

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	t.arg = lp.spa;
	assert_int_equal(dsl_task_run(lp.spa->dsl, &t, &lp.e), 0);
	assert_int_equal(spa_history_each(lp.spa, last_change, &last), 0);
	assert_int_equal(last, CHANGES - 1);
	livepool_export(&lp);
	livepool_remove(&lp);
}

/* Under another name, for good or for once; in a cache file and out of it. */
static void names_and_cachefile(void **state)
{
	struct livepool lp;
	autofree char *cache = NULL;
	autonv struct nvlist *values = nvlist_create(), *config = NULL;
	struct spa_search s = {0};
	struct nvlist **pool;
	size_t n;

	livepool_files(&lp, 1, DISK_SIZE);
	cache = xasprintf("%s/cache", lp.dir);
	livepool_create(&lp, NULL);
	livepool_export(&lp);
	assert_int_equal(
	    livepool_import_as(
		&lp, (struct spa_import){.writable = true, .new_name = "for-once", .temporary_name = true}, false),
	    0);
	assert_string_equal(lp.spa->name, "for-once");
	livepool_export(&lp);
	livepool_import(&lp, true);
	assert_string_equal(lp.spa->name, LIVEPOOL_NAME);
	livepool_export(&lp);
	assert_int_equal(livepool_import_as(&lp, (struct spa_import){.writable = true, .new_name = "renamed"}, false),
			 0);
	nvlist_add_string(values, "cachefile", cache);
	assert_int_equal(spa_props_set(lp.spa, values, &lp.e), 0);
	s.cachefile = cache;
	assert_int_equal(spa_search(&s, &pool, &n, &lp.e), 0);
	assert_int_equal(n, 1);
	assert_string_equal(nvlist_string_or(pool[0], "name", ""), "renamed");
	nvlist_destroy(pool[0]);
	free(pool);
	livepool_export(&lp);
	assert_int_equal(access(cache, F_OK), -1);
	config = livepool_find(&lp, false);
	assert_string_equal(nvlist_string_or(config, "name", ""), "renamed");
	livepool_remove(&lp);
}

/* The newest state cannot be read any more: -F goes back to the one before, for writing. */
static void rewinds(void **state)
{
	struct livepool lp;
	autonv struct nvlist *values = nvlist_create();
	uint8_t zeros[512] = {0};
	struct dva dva;
	struct bp bp;
	int fd, err;

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	nvlist_add_string(values, "comment", "first");
	assert_int_equal(spa_props_set(lp.spa, values, &lp.e), 0);
	nvlist_add_string(values, "comment", "second");
	assert_int_equal(spa_props_set(lp.spa, values, &lp.e), 0);
	livepool_export(&lp);
	livepool_import(&lp, false);
	bp_decode(&bp, lp.spa->uberblock.rootbp, false);
	livepool_export(&lp);
	fd = open(lp.disk[0], O_RDWR | O_CLOEXEC);
	for (unsigned i = 0; i < bp_ndvas(&bp); i++) {
		dva = bp_dva(&bp, i);
		assert_int_equal(pwrite(fd, zeros, sizeof(zeros), (off_t)(dva.offset + VDEV_LABEL_START_SIZE)), 512);
	}
	close(fd);
	err = livepool_import_as(&lp, (struct spa_import){.writable = true, .rewind = true}, false);
	if (err)
		fail_msg("%s", lp.e.text);
	assert_true(nvlist_exists(lp.spa->load_info, "rewound_to_txg"));
	nvlist_add_string(values, "comment", "third");
	assert_int_equal(spa_props_set(lp.spa, values, &lp.e), 0);
	livepool_export(&lp);
	livepool_import(&lp, true);
	assert_false(nvlist_exists(lp.spa->load_info, "rewound_to_txg"));
	assert_prop(lp.spa, "comment", "third");
	livepool_remove(&lp);
}

static void events(void **state)
{
	struct livepool lp;
	struct nvlist *event;
	uint64_t id = 0;
	bool created = false;

	spa_event_clear();
	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	while (spa_event_next(id, 0, &id, &event) == 0) {
		created |= strcmp(nvlist_string_or(event, "class", ""), "sysevent.fs.zfs.pool_create") == 0 &&
			   strcmp(nvlist_string_or(event, "pool", ""), LIVEPOOL_NAME) == 0;
		nvlist_destroy(event);
	}
	assert_true(created);
	assert_true(spa_event_clear() > 0);
	assert_int_equal(spa_event_next(id, 0, &id, &event), -ENOENT);
	livepool_remove(&lp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(create_and_import),
	    cmocka_unit_test(stripe_with_log),
	    cmocka_unit_test(properties),
	    cmocka_unit_test(no_features),
	    cmocka_unit_test(in_use),
	    cmocka_unit_test(history),
	    cmocka_unit_test(history_of_many_changes_in_one_group),
	    cmocka_unit_test(names_and_cachefile),
	    cmocka_unit_test(rewinds),
	    cmocka_unit_test(events),
	};

	return cmocka_run_group_tests_name("create", tests, NULL, NULL);
}
