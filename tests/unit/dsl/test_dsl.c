/*
 * The data set tree on a MOS made by hand: names, iteration, inheritance, space, and what damage may do to them.
 */
#include "fake_mos.h"

#include "base/log.h"
#include "dsl/dsl_deadlist.h"
#include "dsl/dsl_scan.h"

static struct dsl_pool *pool;

static int setup(void **state)
{
	log_set_level(LOG_LEVEL_ERROR);
	fake_value_searches = 0;
	pool = fake_pool();
	return 0;
}

static int teardown(void **state)
{
	dsl_pool_close(pool);
	fake_clear();
	return 0;
}

struct collected {
	char names[16][DSL_NAME_MAX];
	size_t n;
};

static int collect_dir(void *arg, struct dsl_dir *d)
{
	struct collected *c = arg;

	strcpy(c->names[c->n++], d->name);
	return 0;
}

static int collect_dataset(void *arg, struct dsl_dataset *ds)
{
	struct collected *c = arg;

	strcpy(c->names[c->n++], ds->name);
	return 0;
}

static struct dsl_dataset *hold(const char *name)
{
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;

	if (dsl_dataset_hold(pool, name, &ds, &e))
		fail_msg("%s", e.text);
	return ds;
}

static void children(const char *name, struct collected *c)
{
	struct dsl_dataset *ds = hold(name);

	memset(c, 0, sizeof(*c));
	assert_int_equal(dsl_each_child(ds->dir, collect_dir, c), 0);
	dsl_dataset_release(ds);
}

/* p/b, p/b/x, p/a, hidden ones */
static void make_tree(void)
{
	fake_dir(100, 10, "b", 200);
	fake_head(200, 100);
	fake_dir(110, 100, "x", 210);
	fake_head(210, 110);
	fake_dir(120, 10, "a", 220);
	fake_head(220, 120);
	fake_dir(130, 10, "$MOS", 0);
	fake_dir(140, 10, "%recv", 240);
	fake_head(240, 140);
}

static void names_lead_to_data_sets_and_back(void **state)
{
	struct dsl_dataset *ds;
	struct dsl_dir *d;

	make_tree();
	fake_snapshot(300, 110, 210, "s", 50);
	ds = hold("p/b/x@s");
	assert_string_equal(ds->name, "p/b/x@s");
	assert_string_equal(ds->snapname, "s");
	assert_true(ds->is_snapshot);
	dsl_dataset_release(ds);
	assert_int_equal(dsl_dataset_hold_obj(pool, 210, &ds, NULL), 0);
	assert_string_equal(ds->name, "p/b/x");
	dsl_dataset_release(ds);
	assert_int_equal(dsl_dir_hold(pool, 110, &d, NULL), 0);
	assert_string_equal(d->name, "p/b/x");
	assert_string_equal(d->up->name, "p/b");
	dsl_dir_release(d);
}

static void wrong_names_are_refused(void **state)
{
	static const char *const none[] = {"q", "p/none", "p/b@none", "p/b/x/y", "p/b@s/x"};
	static const char *const bad[] = {"", "/p", "p/", "p//b", "p/b@", "p@a@b", "p#m"};
	struct dsl_dataset *ds;

	make_tree();
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_true(dsl_dataset_hold(pool, none[i], &ds, NULL) < 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(dsl_dataset_hold(pool, bad[i], &ds, NULL), -EINVAL);
}

static void children_come_by_name_without_hidden_ones(void **state)
{
	struct collected c;

	make_tree();
	children("p", &c);
	assert_int_equal(c.n, 2);
	assert_string_equal(c.names[0], "p/a");
	assert_string_equal(c.names[1], "p/b");
}

static void damaged_children_do_not_hide_the_others(void **state)
{
	struct collected c;

	make_tree();
	fake_zap(11, "gone", 999);
	fake_zap(11, "not-a-dir", 220);
	fake_zap(11, "bad/name", 100);
	fake_zap(11, "elsewhere", 110); /* has another parent */
	fake_entry_new(11, "leaf", 0, 0);
	children("p", &c);
	assert_int_equal(c.n, 2);
}

static void a_loop_of_parents_is_an_error(void **state)
{
	struct dsl_dir *d;
	struct collected c;

	make_tree();
	fake_dir(160, 0, NULL, 0);
	fake_dir(150, 160, "one", 0);
	fake_bonus(160, 16, 150);
	fake_zap(151, "two", 160);
	assert_true(dsl_dir_hold(pool, 150, &d, NULL) < 0);
	/* the root as its own descendant */
	fake_zap(111, "again", 10);
	children("p/b/x", &c);
	assert_int_equal(c.n, 0);
}

static void snapshots_come_in_order_of_creation(void **state)
{
	struct dsl_dataset *ds;
	struct collected c = {.n = 0};

	make_tree();
	fake_snapshot(300, 120, 220, "zz", 5);
	fake_snapshot(301, 120, 220, "aa", 9);
	fake_snapshot(302, 120, 220, "mm", 7);
	fake_snapshot(303, 100, 220, "of-another-dir", 8);
	fake_snapshot(304, 120, 220, "%temporary", 8);
	ds = hold("p/a");
	assert_int_equal(dsl_each_snapshot(ds, collect_dataset, &c), 0);
	dsl_dataset_release(ds);
	assert_int_equal(c.n, 3);
	assert_string_equal(c.names[0], "p/a@zz");
	assert_string_equal(c.names[1], "p/a@mm");
	assert_string_equal(c.names[2], "p/a@aa");
}

static int count_dataset(void *arg, struct dsl_dataset *ds)
{
	(*(size_t *)arg)++;
	return 0;
}

static void ten_thousand_snapshots_are_listed_without_searching_names(void **state)
{
	struct dsl_dataset *ds;
	size_t n = 0;
	char name[32];

	make_tree();
	for (unsigned i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		fake_snapshot(1000 + i, 120, 220, name, 10 + i);
	}
	ds = hold("p/a");
	fake_value_searches = 0;
	assert_int_equal(dsl_each_snapshot(ds, count_dataset, &n), 0);
	dsl_dataset_release(ds);
	assert_int_equal(n, 10000);
	assert_int_equal(fake_value_searches, 0);
	assert_true(pool->cache->datasets.len < 1000);
}

/* --- properties --- */

static void assert_prop(const char *name, const char *prop, const char *value, const char *source)
{
	struct dsl_dataset *ds = hold(name);
	char v[DSL_NAME_MAX], s[DSL_NAME_MAX + 16];

	assert_int_equal(dsl_prop_string(ds, prop, v, sizeof(v), s), 0);
	assert_string_equal(v, value);
	assert_string_equal(s, source);
	dsl_dataset_release(ds);
}

static void values_come_from_the_nearest_that_has_one(void **state)
{
	make_tree();
	fake_zap(12, "atime", 0);
	fake_zap(12, "canmount", 2);
	fake_zap(102, "recordsize", 4096);
	fake_zap_string(12, "test:colour", "blue");
	assert_prop("p", "atime", "off", "local");
	assert_prop("p/b/x", "atime", "off", "inherited from p");
	assert_prop("p/b/x", "recordsize", "4096", "inherited from p/b");
	assert_prop("p/a", "recordsize", "131072", "default");
	assert_prop("p/b", "test:colour", "blue", "inherited from p");
	assert_prop("p", "canmount", "noauto", "local");
	assert_prop("p/b", "canmount", "on", "default");
}

static void received_values_stand_behind_local_ones(void **state)
{
	make_tree();
	fake_zap(102, "compression$recvd", 15);
	fake_zap(112, "compression$recvd", 3);
	fake_zap(112, "compression$inherit", 0);
	fake_zap(122, "compression$recvd", 3);
	fake_zap(122, "compression", 10);
	assert_prop("p/b", "compression", "lz4", "received");
	assert_prop("p/b/x", "compression", "lz4", "inherited from p/b");
	assert_prop("p/a", "compression", "gzip", "local");
}

static void an_unknown_iuv_value_leaves_the_plain_one(void **state)
{
	make_tree();
	fake_zap(102, "snapdir$iuv", 2);
	fake_zap(102, "snapdir", 0);
	fake_zap(122, "snapdir$iuv", 77);
	fake_zap(122, "snapdir", 1);
	assert_prop("p/b", "snapdir", "disabled", "local");
	assert_prop("p/a", "snapdir", "visible", "local");
}

static void a_value_of_the_wrong_kind_does_not_count(void **state)
{
	make_tree();
	fake_zap_string(102, "atime", "off");
	fake_zap(102, "mountpoint", 5);
	fake_zap(102, "odd$suffix", 5);
	assert_prop("p/b", "atime", "on", "default");
	assert_prop("p/b", "mountpoint", "/", "default");
}

static void snapshots_inherit_from_their_own_file_system(void **state)
{
	make_tree();
	fake_snapshot(300, 120, 220, "s", 5);
	fake_bonus(300, 264, 310);
	fake_new(310, 15, 0, 0);
	fake_zap_string(310, "test:x", "own");
	fake_zap(122, "exec", 0);
	fake_zap_string(122, "context", "c");
	assert_prop("p/a@s", "exec", "off", "inherited from p/a");
	assert_prop("p/a@s", "test:x", "own", "local");
	assert_prop("p/a@s", "context", "none", "default");
}

static void mount_options_shadow_until_taken_back(void **state)
{
	make_tree();
	dsl_prop_set_temporary(pool, 220, "atime", "off");
	assert_prop("p/a", "atime", "off", "temporary");
	assert_prop("p/b", "atime", "on", "default");
	dsl_prop_set_temporary(pool, 220, "atime", NULL);
	assert_prop("p/a", "atime", "on", "default");
}

static void every_property_is_found_by_name_and_column(void **state)
{
	for (size_t i = 0; i < dsl_prop_table_len; i++) {
		const struct prop_def *d = &dsl_prop_table[i];
		char buf[32];

		assert_ptr_equal(dsl_prop_find(d->name), d);
		assert_non_null(dsl_prop_find(d->column));
		/* a default index value has a word */
		if (d->kind == PROP_INDEX && !d->readonly && strcmp(d->name, "keyformat") != 0)
			assert_true(strspn(prop_number_text(d, d->def_number, buf, sizeof(buf)), "0123456789") == 0 ||
				    strcmp(d->name, "copies") == 0 || strcmp(d->name, "version") == 0);
	}
	assert_string_equal(dsl_prop_find("avail")->name, "available");
	assert_null(dsl_prop_find("nonsense"));
}

static void zstd_levels_have_their_words(void **state)
{
	static const struct prop_index words[] = {
	    {"zstd", 16}, {"zstd-3", 400}, {"zstd-19", 2448}, {"zstd-fast-3", 13456}, {"zstd-fast", 13200}};
	const struct prop_def *d = dsl_prop_find("compression");
	char buf[32];

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		assert_string_equal(prop_number_text(d, words[i].value, buf, sizeof(buf)), words[i].name);
}

/* --- space --- */

static void deadlist(uint64_t id, uint64_t used)
{
	fake_new(id, 50, 51, 320);
	fake_bonus(id, 0, used);
}

static void bpobj(uint64_t deadlist_obj, const char *key, uint64_t id, uint64_t used)
{
	fake_new(id, DMU_OT_BPOBJ, 6, 48);
	fake_bonus(id, 8, used);
	fake_zap(deadlist_obj, key, id);
}

static void dataset_space(uint64_t id, uint64_t prev, uint64_t prev_txg, uint64_t next, uint64_t dl, uint64_t used)
{
	fake_bonus(id, 8, prev);
	fake_bonus(id, 16, prev_txg);
	fake_bonus(id, 24, next);
	fake_bonus(id, 64, dl);
	fake_bonus(id, 72, used);
}

/* The life of 10.5 after txg 35: s1 at 20 (A, B), s2 at 30 (A', B), head (A'', B). */
static void make_life(void)
{
	make_tree();
	fake_snapshot(300, 120, 220, "s1", 20);
	fake_snapshot(301, 120, 220, "s2", 30);
	deadlist(400, 0);
	bpobj(400, "0", 410, 0);
	deadlist(401, 1);
	bpobj(401, "0", 411, 0);
	bpobj(401, "1", 412, 1);
	deadlist(402, 1);
	bpobj(402, "0", 413, 0);
	bpobj(402, "1", 414, 0);
	bpobj(402, "14", 415, 1);
	dataset_space(300, 0, 1, 301, 400, 2);
	dataset_space(301, 300, 20, 220, 401, 2);
	dataset_space(220, 301, 30, 0, 402, 2);
}

static void written_counts_what_came_after_a_snapshot(void **state)
{
	struct dsl_dataset *head, *s1, *s2;
	struct dsl_space s;
	uint64_t n;

	make_life();
	head = hold("p/a");
	s1 = hold("p/a@s1");
	s2 = hold("p/a@s2");
	assert_int_equal(dsl_written_since(head, s1, &s), 0);
	assert_int_equal(s.used, 1);
	assert_int_equal(dsl_written_since(s2, s1, &s), 0);
	assert_int_equal(s.used, 1);
	assert_int_equal(dsl_written_since(s1, s2, &s), -EXDEV);
	assert_int_equal(dsl_written(head, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(dsl_written(s1, &n), -ENOENT);
	assert_int_equal(dsl_snapshots_reclaim(s1, s1, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(dsl_snapshots_reclaim(s1, s2, &n), 0);
	assert_int_equal(n, 2);
	dsl_dataset_release(s2);
	dsl_dataset_release(s1);
	dsl_dataset_release(head);
}

/* One copy of `sectors`, uncompressed, born at txg. */
static struct bp make_bp(uint64_t sectors, uint64_t txg)
{
	struct bp bp = {.w = {sectors, 8}};

	bp.w[6] = (sectors - 1) | (sectors - 1) << 16 | 2ull << 32 | 7ull << 40 | 19ull << 48 | 1ull << 63;
	bp.w[10] = txg;
	return bp;
}

static void old_deadlists_are_summed_pointer_by_pointer(void **state)
{
	struct fake_object *o;
	struct dsl_space s;

	o = fake_new(600, DMU_OT_BPOBJ, 6, 32);
	fake_bonus(600, 8, 7 * 512);
	o->nbps = 3;
	o->bps = xcalloc(o->nbps, sizeof(*o->bps));
	o->bps[0] = make_bp(1, 10);
	o->bps[1] = make_bp(2, 20);
	o->bps[2] = make_bp(4, 30);
	assert_int_equal(dsl_deadlist_space(pool, 600, &s), 0);
	assert_int_equal(s.used, 7 * 512);
	assert_int_equal(dsl_deadlist_space_range(pool, 600, 10, 20, &s), 0);
	assert_int_equal(s.used, 2 * 512);
	assert_int_equal(s.comp, 2 * 512);
	assert_int_equal(s.uncomp, 2 * 512);
	assert_int_equal(dsl_deadlist_space_range(pool, 600, 10, UINT64_MAX, &s), 0);
	assert_int_equal(s.used, 6 * 512);
}

static void a_loop_of_snapshots_ends(void **state)
{
	struct dsl_dataset *head, *s1;
	struct dsl_space s;

	make_life();
	fake_bonus(301, 8, 301);
	fake_bonus(301, 16, 30);
	head = hold("p/a");
	s1 = hold("p/a@s1");
	assert_int_equal(dsl_written_since(head, s1, &s), -EINVAL);
	dsl_dataset_release(s1);
	dsl_dataset_release(head);
}

/* --- records --- */

static void scan_records_are_read_in_both_lengths(void **state)
{
	uint64_t w[25];
	struct dsl_scan s;

	for (unsigned i = 0; i < 25; i++)
		w[i] = i + 100;
	w[0] = 1;
	w[1] = 2;
	w[21] = (uint64_t)-1;
	w[23] = 6;
	assert_int_equal(dsl_scan_read(pool, &s), -ENOENT);
	fake_zap_words(1, "scan", w, 24);
	assert_int_equal(dsl_scan_read(pool, &s), 0);
	assert_int_equal(s.func, DSL_SCAN_SCRUB);
	assert_int_equal(s.state, DSL_SCAN_STATE_FINISHED);
	assert_int_equal(s.to_examine, 109);
	assert_int_equal(s.bookmark.level, -1);
	assert_true(s.paused && s.thorough && !s.visit_again && !s.erratum_2094);
	fake_zap_drop_last(1);
	w[24] = 1;
	fake_zap_words(1, "scan", w, 25);
	assert_int_equal(dsl_scan_read(pool, &s), 0);
	assert_true(s.visit_again && !s.paused && s.erratum_2094);
	fake_zap_drop_last(1);
	w[24] = 2;
	fake_zap_words(1, "scan", w, 25);
	assert_int_equal(dsl_scan_read(pool, &s), -ENOTSUP);
}

static void delegation_is_grouped_as_it_is_shown(void **state)
{
	struct nvlist *out, *level, *const *who;
	const char *const *perms;
	struct dsl_dataset *ds;
	size_t n;

	make_tree();
	fake_bonus(100, 88, 500);
	fake_zap(500, "ul$4000000000", 501);
	fake_zap(500, "ud$4000000000", 502);
	fake_zap(500, "Gd$20", 503);
	fake_zap(500, "s-$@adm", 504);
	fake_zap(500, "c-$", 505);
	fake_zap(500, "xx$9", 505);
	fake_zap(500, "ul$nobody", 505);
	fake_zap(501, "snapshot", 0);
	fake_zap(501, "mount", 0);
	fake_zap(502, "snapshot", 0);
	fake_zap(503, "@adm", 0);
	fake_zap(504, "destroy", 0);
	fake_zap(505, "create", 0);
	ds = hold("p/b/x");
	assert_int_equal(dsl_deleg_get(ds->dir, &out), 0);
	assert_int_equal(nvlist_len(out), 1);
	assert_int_equal(nvlist_list(out, "p/b", &level), 0);
	assert_int_equal(nvlist_lists(level, "local", &who, &n), 0);
	assert_int_equal(n, 1);
	assert_string_equal(nvlist_string_or(who[0], "name", ""), "4000000000");
	assert_int_equal(nvlist_strings(who[0], "permissions", &perms, &n), 0);
	assert_int_equal(n, 1);
	assert_string_equal(perms[0], "mount");
	assert_int_equal(nvlist_lists(level, "local+descendent", &who, &n), 0);
	assert_int_equal(nvlist_strings(who[0], "permissions", &perms, &n), 0);
	assert_string_equal(perms[0], "snapshot");
	assert_int_equal(nvlist_lists(level, "descendent", &who, &n), 0);
	assert_string_equal(nvlist_string_or(who[0], "who", ""), "group");
	assert_int_equal(nvlist_strings(level, "create", &perms, &n), 0);
	assert_string_equal(perms[0], "create");
	nvlist_destroy(out);
	dsl_dataset_release(ds);
}

static void the_cache_of_dirs_stays_within_its_limit(void **state)
{
	struct dsl_dir *d;
	char name[32];

	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		fake_dir(1000 + 4 * i, 10, name, 0);
	}
	for (unsigned i = 0; i < 5000; i++) {
		assert_int_equal(dsl_dir_hold(pool, 1000 + 4 * i, &d, NULL), 0);
		dsl_dir_release(d);
	}
	assert_true(pool->cache->dirs.len < 2000);
}

/* --- damage --- */

static int visit_everything(void *arg, struct dsl_dir *d);

static int visit_dataset(void *arg, struct dsl_dataset *ds)
{
	static const char *const names[] = {"written@s1", "written@p/a@s2", "userused@0", "prevsnap", "inconsistent"};
	struct nvlist *props;

	if (dsl_props_get(ds, NULL, 0, &props, NULL) == 0)
		nvlist_destroy(props);
	if (dsl_props_get(ds, names, ARRAY_LEN(names), &props, NULL) == 0)
		nvlist_destroy(props);
	return ++*(unsigned *)arg > 2000 ? -E2BIG : 0;
}

static int visit_everything(void *arg, struct dsl_dir *d)
{
	struct dsl_dataset *head;
	struct nvlist *deleg;
	int err = 0;

	if (dsl_deleg_get(d, &deleg) == 0)
		nvlist_destroy(deleg);
	if (dsl_dataset_hold_obj(pool, d->head, &head, NULL) == 0) {
		err = visit_dataset(arg, head);
		if (!err)
			err = dsl_each_snapshot(head, visit_dataset, arg);
		dsl_dataset_release(head);
	}
	if (err == -E2BIG)
		return err;
	return dsl_each_child(d, visit_everything, arg) == -E2BIG ? -E2BIG : 0;
}

static void damage_one(unsigned *seed)
{
	static const uint64_t targets[] = {10, 20, 100, 110, 120, 130, 200, 210, 220, 300, 301, 400, 401, 402};
	struct fake_object *o = fake[targets[rand_r(seed) % ARRAY_LEN(targets)]];
	uint64_t v = targets[rand_r(seed) % ARRAY_LEN(targets)] + rand_r(seed) % 3;

	switch (rand_r(seed) % 5) {
	case 0:
		store_host64(o->bonus + 8 * (rand_r(seed) % 40), v);
		break;
	case 1:
		store_host64(o->bonus + 8 * (rand_r(seed) % 40), (uint64_t)rand_r(seed) << (rand_r(seed) % 34));
		break;
	case 2:
		fake_zap(v, rand_r(seed) % 2 ? "s1" : "x", targets[rand_r(seed) % ARRAY_LEN(targets)]);
		break;
	case 3:
		o->dn.type = rand_r(seed) % 2 ? DMU_OTN_ZAP_METADATA : DMU_OT_BPOBJ;
		break;
	default:
		o->err = -EIO;
	}
}

static void damage_neither_crashes_nor_loops(void **state)
{
	for (unsigned round = 0; round < 3000; round++) {
		unsigned seed = round, visited = 0;
		struct dsl_dir *root;

		make_life();
		for (unsigned i = 0; i < 1 + round % 6; i++)
			damage_one(&seed);
		if (dsl_dir_hold(pool, pool->root_dir, &root, NULL) == 0) {
			visit_everything(&visited, root);
			dsl_dir_release(root);
		}
		dsl_pool_close(pool);
		fake_clear();
		pool = fake_pool();
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(names_lead_to_data_sets_and_back),
	    TEST(wrong_names_are_refused),
	    TEST(children_come_by_name_without_hidden_ones),
	    TEST(damaged_children_do_not_hide_the_others),
	    TEST(a_loop_of_parents_is_an_error),
	    TEST(snapshots_come_in_order_of_creation),
	    TEST(ten_thousand_snapshots_are_listed_without_searching_names),
	    TEST(values_come_from_the_nearest_that_has_one),
	    TEST(received_values_stand_behind_local_ones),
	    TEST(an_unknown_iuv_value_leaves_the_plain_one),
	    TEST(a_value_of_the_wrong_kind_does_not_count),
	    TEST(snapshots_inherit_from_their_own_file_system),
	    TEST(mount_options_shadow_until_taken_back),
	    TEST(every_property_is_found_by_name_and_column),
	    TEST(zstd_levels_have_their_words),
	    TEST(written_counts_what_came_after_a_snapshot),
	    TEST(old_deadlists_are_summed_pointer_by_pointer),
	    TEST(a_loop_of_snapshots_ends),
	    TEST(scan_records_are_read_in_both_lengths),
	    TEST(delegation_is_grouped_as_it_is_shown),
	    TEST(the_cache_of_dirs_stays_within_its_limit),
	    TEST(damage_neither_crashes_nor_loops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
