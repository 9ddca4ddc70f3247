/* Bookmarks, holds and delegated permissions through the operations on data sets (docs/format/03, 4.9 - 4.11, 7). */
#include "dsl_harness.h"

#define BLOCKS 16
#define BS     4096

static void init_file(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	struct dmu_object spec = {.type = DMU_OT_PLAIN, .blocksize = BS};

	assert_int_equal(dmu_object_claim(os, 1, &spec, tx), 0);
}

static void created(struct harness *h, const char *name)
{
	struct dsl_create c = {.name = name, .type = DSL_FILESYSTEM, .init = init_file};
	struct err e = ERR_INIT;

	if (dsl_create(h->p, &c, &e))
		fail_msg("%s: %s", name, e.text);
}

static void snapshot(struct harness *h, const char *name)
{
	struct err e = ERR_INIT;

	if (dsl_snapshot(h->p, &name, 1, NULL, &e))
		fail_msg("%s: %s", name, e.text);
}

static void bookmark(struct harness *h, const char *source, const char *name)
{
	struct err e = ERR_INIT;

	if (dsl_bookmark_create(h->p, source, name, &e))
		fail_msg("%s: %s", name, e.text);
}

static void destroyed(struct harness *h, const char *snap)
{
	struct err e = ERR_INIT;

	if (dsl_destroy_snapshots(h->p, &snap, 1, false, &e))
		fail_msg("%s: %s", snap, e.text);
}

/* Blocks first .. first + n - 1 of the only file. */
static void write_blocks(struct harness *h, const char *name, unsigned first, unsigned n, uint32_t seed)
{
	struct tx tx = {.bytes = 1 << 20};
	struct dsl_dataset *ds;
	struct objset *os;
	struct dnode *dn;
	uint8_t data[BS];

	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, NULL), 0);
	assert_int_equal(dsl_dataset_open_objset(ds, &os, NULL), 0);
	assert_int_equal(dnode_hold(os, 1, &dn, NULL), 0);
	tx.os = os;
	assert_int_equal(tx_begin_wait(h->tp->dp.txgs, &tx), 0);
	for (unsigned i = first; i < first + n; i++) {
		tp_pattern(data, BS, seed + i);
		assert_int_equal(dmu_write(dn, (uint64_t)i * BS, data, BS, &tx), 0);
	}
	tx_end(&tx);
	dnode_release(dn);
	dsl_dataset_close_objset(ds, os);
	dsl_dataset_release(ds);
	hw_wait(h);
}

static int mark_find(void *arg, const struct dsl_bookmark *b)
{
	struct dsl_bookmark *want = arg;

	if (strcmp(b->name, want->name) != 0)
		return 0;
	*want = *b;
	return 1;
}

static struct dsl_bookmark mark_of(struct harness *h, const char *name, const char *mark)
{
	struct dsl_bookmark b = {0};
	struct dsl_dataset *ds;

	snprintf(b.name, sizeof(b.name), "%s", mark);
	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, NULL), 0);
	assert_int_equal(dsl_each_bookmark(ds, mark_find, &b), 1);
	dsl_dataset_release(ds);
	return b;
}

/* What `written` since the bookmark says, against what it says since a snapshot of the same moment. */
static uint64_t written_since(struct harness *h, const char *name, const char *since)
{
	struct dsl_dataset *ds, *old;
	struct dsl_space s;

	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, NULL), 0);
	if (strchr(since, '@')) {
		assert_int_equal(dsl_dataset_hold(h->p, since, &old, NULL), 0);
		assert_int_equal(dsl_written_since(ds, old, &s), 0);
		dsl_dataset_release(old);
	} else {
		struct dsl_bookmark b = mark_of(h, name, since);

		assert_int_equal(dsl_written_since_bookmark(ds, &b, &s), 0);
	}
	dsl_dataset_release(ds);
	return s.used;
}

static uint64_t refs(struct harness *h, const char *guid)
{
	return hw_feature(h, guid)->refs;
}

static void bookmarks_know_what_was_written_since(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	uint64_t at_s2;

	created(h, "p/a");
	write_blocks(h, "p/a", 0, BLOCKS, 100);
	snapshot(h, "p/a@s1");
	bookmark(h, "p/a@s1", "p/a#m1");
	assert_int_equal(mark_of(h, "p/a", "m1").flags, 3);
	write_blocks(h, "p/a", 0, 4, 200);
	assert_int_equal(written_since(h, "p/a", "m1"), written_since(h, "p/a", "p/a@s1"));
	snapshot(h, "p/a@s2");
	bookmark(h, "p/a@s2", "p/a#m2");
	write_blocks(h, "p/a", 2, 6, 300);
	assert_int_equal(written_since(h, "p/a", "m1"), written_since(h, "p/a", "p/a@s1"));
	assert_int_equal(written_since(h, "p/a", "m2"), written_since(h, "p/a", "p/a@s2"));
	snapshot(h, "p/a@s3");
	write_blocks(h, "p/a", 5, 5, 400);
	at_s2 = written_since(h, "p/a", "p/a@s2");
	uint64_t at_s1 = written_since(h, "p/a", "p/a@s1");
	destroyed(h, "p/a@s2");
	assert_int_equal(mark_of(h, "p/a", "m2").flags, 1);
	assert_int_equal(written_since(h, "p/a", "m2"), at_s2);
	assert_int_equal(written_since(h, "p/a", "m1"), at_s1);
	destroyed(h, "p/a@s3");
	destroyed(h, "p/a@s1");
	assert_int_equal(written_since(h, "p/a", "m2"), at_s2);
	assert_int_equal(written_since(h, "p/a", "m1"), at_s1);
	/* and on: the head counts what it frees */
	snapshot(h, "p/a@s4");
	write_blocks(h, "p/a", 0, BLOCKS, 500);
	uint64_t all = written_since(h, "p/a", "m1");
	assert_int_equal(written_since(h, "p/a", "m2"), all);
	hw_reopen(h);
	assert_int_equal(written_since(h, "p/a", "m1"), all);
	hw_destroy(h);
}

static uint64_t head_keys(struct harness *h, const char *name)
{
	struct dsl_dataset *ds;
	uint64_t n;

	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, NULL), 0);
	assert_int_equal(zap_count(h->mos, ds->deadlist, &n), 0);
	dsl_dataset_release(ds);
	return n;
}

static void keys_of_deadlists_stay_as_long_as_a_bookmark_needs_them(void **state)
{
	static const char *const names[] = {"p/a#m1", "p/a#gone", "p/a#m2", "p/a#copy"};
	struct harness *h = hw_create(NULL, 0);
	struct err e = ERR_INIT;

	created(h, "p/a");
	assert_int_equal(head_keys(h, "p/a"), 1);
	snapshot(h, "p/a@s1");
	snapshot(h, "p/a@s2");
	snapshot(h, "p/a@s3");
	assert_int_equal(head_keys(h, "p/a"), 4);
	bookmark(h, "p/a@s1", "p/a#m1");
	bookmark(h, "p/a@s1", "p/a#m2");
	bookmark(h, "p/a#m1", "p/a#copy");
	destroyed(h, "p/a@s1");
	assert_int_equal(head_keys(h, "p/a"), 4);
	assert_int_equal(refs(h, "com.delphix:bookmarks"), 1);
	assert_int_equal(refs(h, "com.datto:bookmark_v2"), 3);
	assert_int_equal(refs(h, "com.delphix:bookmark_written"), 3);
	assert_int_equal(dsl_bookmark_destroy(h->p, names, 3, &e), 0);
	assert_int_equal(head_keys(h, "p/a"), 4);
	assert_int_equal(dsl_bookmark_destroy(h->p, names + 3, 1, &e), 0);
	assert_int_equal(head_keys(h, "p/a"), 3);
	assert_int_equal(refs(h, "com.delphix:bookmarks"), 0);
	assert_int_equal(refs(h, "com.datto:bookmark_v2"), 0);
	assert_int_equal(refs(h, "com.delphix:bookmark_written"), 0);
	hw_destroy(h);
}

static void bookmarks_are_refused_with_reasons(void **state)
{
	static const char *const off[] = {"com.delphix:bookmarks"};
	struct harness *h = hw_create(NULL, 0);
	struct err e = ERR_INIT;

	created(h, "p/a");
	created(h, "p/b");
	snapshot(h, "p/a@s");
	assert_int_equal(dsl_clone(h->p, "p/a@s", "p/c", NULL, &e), 0);
	snapshot(h, "p/c@t");
	bookmark(h, "p/a@s", "p/a#m");
	assert_int_equal(dsl_bookmark_create(h->p, "p/a@s", "p/a#m", &e), -EEXIST);
	assert_string_equal(e.text, "bookmark exists");
	assert_int_equal(dsl_bookmark_create(h->p, "p/a@s", "p/b#m", &e), -EINVAL);
	assert_string_equal(e.text, "source is not an ancestor of the new bookmark's dataset");
	assert_int_equal(dsl_bookmark_create(h->p, "p/c@t", "p/a#t", &e), -EINVAL);
	assert_int_equal(dsl_bookmark_create(h->p, "p/a", "p/a#x", &e), -EINVAL);
	assert_int_equal(dsl_bookmark_create(h->p, "p/a#no", "p/a#x", &e), -ENOENT);
	assert_int_equal(dsl_bookmark_create(h->p, "p/a@s", "p/no#x", &e), -ENOENT);
	bookmark(h, "p/a@s", "p/c#origin"); /* its past begins in the other file system */
	bookmark(h, "p/c@t", "p/c#t");
	hw_destroy(h);

	h = hw_create(off, 1);
	snapshot(h, "p@s");
	assert_int_equal(dsl_bookmark_create(h->p, "p@s", "p#m", &e), -ENOTSUP);
	assert_string_equal(e.text, "bookmark feature not enabled");
	hw_destroy(h);
}

static void old_pools_have_short_bookmarks(void **state)
{
	static const char *const off[] = {"com.datto:bookmark_v2", "com.delphix:bookmark_written"};
	struct harness *h = hw_create(off, 2);

	snapshot(h, "p@s");
	bookmark(h, "p@s", "p#m");
	assert_false(mark_of(h, "p", "m").written_valid);
	assert_int_equal(mark_of(h, "p", "m").referenced, 0);
	assert_true(mark_of(h, "p", "m").guid != 0);
	assert_int_equal(refs(h, "com.datto:bookmark_v2"), 0);
	hw_destroy(h);
}

static void bookmarks_move_with_their_snapshots(void **state)
{
	static const char *const late = "p/a#late";
	struct harness *h = hw_create(NULL, 0);
	struct err e = ERR_INIT;

	created(h, "p/a");
	write_blocks(h, "p/a", 0, BLOCKS, 1);
	snapshot(h, "p/a@s1");
	bookmark(h, "p/a@s1", "p/a#m1");
	write_blocks(h, "p/a", 0, 4, 50);
	snapshot(h, "p/a@s2");
	bookmark(h, "p/a@s2", "p/a#m2");
	assert_int_equal(dsl_clone(h->p, "p/a@s2", "p/c", NULL, &e), 0);
	write_blocks(h, "p/a", 3, 4, 100);
	write_blocks(h, "p/c", 8, 3, 200);
	snapshot(h, "p/a@s3");
	bookmark(h, "p/a@s3", late);
	uint64_t since_s1 = written_since(h, "p/c", "p/a@s1"), since_s2 = written_since(h, "p/c", "p/a@s2");
	assert_int_equal(dsl_promote(h->p, "p/c", &e), 0);
	assert_int_equal(written_since(h, "p/c", "m1"), since_s1);
	assert_int_equal(written_since(h, "p/c", "m2"), since_s2);
	assert_int_equal(mark_of(h, "p/a", "late").flags, 3);
	assert_int_equal(refs(h, "com.delphix:bookmarks"), 2);
	assert_int_equal(dsl_bookmark_destroy(h->p, &late, 1, &e), 0);
	assert_int_equal(refs(h, "com.delphix:bookmarks"), 1);

	/* rolled back to the newest snapshot, which has one */
	write_blocks(h, "p/c", 0, BLOCKS, 300);
	assert_int_equal(dsl_rollback(h->p, "p/c", NULL, &e), 0);
	assert_int_equal(written_since(h, "p/c", "m2"), written_since(h, "p/c", "p/c@s2"));
	write_blocks(h, "p/c", 0, 2, 400);
	assert_int_equal(written_since(h, "p/c", "m2"), written_since(h, "p/c", "p/c@s2"));
	hw_destroy(h);
}

static void bookmarks_go_with_their_data_set(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct err e = ERR_INIT;

	created(h, "p/a");
	snapshot(h, "p/a@s");
	bookmark(h, "p/a@s", "p/a#m");
	destroyed(h, "p/a@s");
	assert_int_equal(dsl_destroy_head(h->p, "p/a", &e), 0);
	hw_drain(h);
	assert_int_equal(refs(h, "com.delphix:bookmarks"), 0);
	assert_int_equal(refs(h, "com.delphix:bookmark_written"), 0);
	hw_destroy(h);
}

/* --- holds --- */

static int hold_count(void *arg, const char *tag, uint64_t when)
{
	assert_true(when > 1000000000);
	(*(unsigned *)arg)++;
	return 0;
}

static unsigned holds_of(struct harness *h, const char *name)
{
	struct dsl_dataset *ds;
	unsigned n = 0;

	assert_int_equal(dsl_dataset_hold(h->p, name, &ds, NULL), 0);
	assert_int_equal(dsl_each_hold(ds, hold_count, &n), 0);
	dsl_dataset_release(ds);
	return n;
}

static void holds_keep_snapshots(void **state)
{
	static const char *const both[] = {"p/a@s1", "p/a@s2", "p/a@none"}, *const none = "p/a@none";
	struct harness *h = hw_create(NULL, 0);
	struct err e = ERR_INIT;
	char tag[257];

	created(h, "p/a");
	snapshot(h, "p/a@s1");
	snapshot(h, "p/a@s2");
	memset(tag, 't', 256);
	tag[256] = '\0';
	assert_int_equal(dsl_hold(h->p, both, 1, tag, &e), -E2BIG);
	tag[255] = '\0';
	assert_int_equal(dsl_hold(h->p, both, 1, tag, &e), 0);
	assert_int_equal(dsl_hold(h->p, both, 3, "x", &e), 0); /* what does not exist is passed over */
	assert_int_equal(dsl_hold(h->p, &none, 1, "x", &e), -ENOENT);
	assert_int_equal(dsl_hold(h->p, both, 1, "x", &e), -EEXIST);
	assert_string_equal(e.text, "tag already exists on this dataset");
	assert_int_equal(holds_of(h, "p/a@s1"), 2);
	assert_int_equal(holds_of(h, "p/a@s2"), 1);
	assert_int_equal(dsl_destroy_snapshots(h->p, both + 1, 1, false, &e), -EBUSY);
	assert_int_equal(dsl_release_hold(h->p, both, 1, "y", &e), -ESRCH);
	assert_string_equal(e.text, "no such tag on this dataset");
	assert_int_equal(dsl_release_hold(h->p, both, 1, tag, &e), 0);
	/* destroyed as soon as the last one lets go */
	assert_int_equal(dsl_destroy_snapshots(h->p, both, 1, true, &e), 0);
	assert_int_equal(holds_of(h, "p/a@s1"), 1);
	assert_int_equal(dsl_release_hold(h->p, both, 3, "x", &e), 0);
	struct dsl_dataset *ds;
	assert_int_equal(dsl_dataset_hold(h->p, "p/a@s1", &ds, NULL), -ENOENT);
	assert_int_equal(holds_of(h, "p/a@s2"), 0);
	destroyed(h, "p/a@s2");
	hw_destroy(h);
}

/* --- delegation --- */

static void allow(struct harness *h, const struct nvlist *perms, bool remove)
{
	struct err e = ERR_INIT;

	if (dsl_allow(h->p, "p/a", perms, remove, &e))
		fail_msg("%s", e.text);
}

static struct nvlist *grant(const char *scope, uint64_t uid, const char *const *names, size_t n)
{
	struct nvlist *all = nvlist_create(), *who = nvlist_create();

	nvlist_add_string(who, "who", "user");
	nvlist_add_u64(who, "id", uid);
	nvlist_add_strings(who, "permissions", names, n);
	nvlist_add_lists(all, scope, &who, 1);
	nvlist_destroy(who);
	return all;
}

static struct nvlist *granted(struct harness *h)
{
	struct dsl_dataset *ds;
	struct nvlist *all, *here, *copy = nvlist_create();

	assert_int_equal(dsl_dataset_hold(h->p, "p/a", &ds, NULL), 0);
	assert_int_equal(dsl_deleg_get(ds->dir, &all), 0);
	if (nvlist_list(all, "p/a", &here) == 0) {
		nvlist_destroy(copy);
		copy = nvlist_copy(here);
	}
	nvlist_destroy(all);
	dsl_dataset_release(ds);
	return copy;
}

static void permissions_are_given_and_taken(void **state)
{
	static const char *const some[] = {"create", "mount", "@adm"}, *const set[] = {"snapshot", "compression"},
				 *const bad[] = {"fly"};
	struct harness *h = hw_create(NULL, 0);
	autonv struct nvlist *sets = nvlist_create(), *by_name = nvlist_create(),
			     *both = grant("local+descendent", 17, some, 3);
	autonv struct nvlist *wrong = grant("local", 17, bad, 1), *one = grant("local", 17, some, 1),
			     *none = grant("descendent", 17, some, 0);
	struct nvlist *const *who;
	const char *const *names;
	struct err e = ERR_INIT;
	size_t n;

	created(h, "p/a");
	nvlist_add_strings(by_name, "@adm", set, 2);
	nvlist_add_list(sets, "sets", by_name);
	nvlist_add_strings(sets, "create", some, 2);
	allow(h, sets, false);
	allow(h, both, false);
	assert_int_equal(dsl_allow(h->p, "p/a", wrong, false, &e), -EINVAL);
	assert_string_equal(e.text, "invalid permission 'fly'");

	autonv struct nvlist *got = granted(h);
	assert_int_equal(nvlist_lists(got, "local+descendent", &who, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(nvlist_u64_or(who[0], "id", 0), 17);
	assert_int_equal(nvlist_strings(who[0], "permissions", &names, &n), 0);
	assert_int_equal(n, 3);
	assert_string_equal(names[0], "@adm");
	assert_int_equal(nvlist_strings(got, "create", &names, &n), 0);
	assert_int_equal(n, 2);

	allow(h, one, true);
	allow(h, none, true); /* everything that is his below */
	hw_reopen(h);
	autonv struct nvlist *rest = granted(h);
	assert_int_equal(nvlist_lists(rest, "local", &who, &n), 0);
	assert_int_equal(nvlist_strings(who[0], "permissions", &names, &n), 0);
	assert_int_equal(n, 2);
	assert_false(nvlist_exists(rest, "local+descendent"));
	assert_false(nvlist_exists(rest, "descendent"));
	assert_int_equal(dsl_destroy_head(h->p, "p/a", &e), 0);
	hw_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bookmarks_know_what_was_written_since),
	    cmocka_unit_test(keys_of_deadlists_stay_as_long_as_a_bookmark_needs_them),
	    cmocka_unit_test(bookmarks_are_refused_with_reasons),
	    cmocka_unit_test(old_pools_have_short_bookmarks),
	    cmocka_unit_test(bookmarks_move_with_their_snapshots),
	    cmocka_unit_test(bookmarks_go_with_their_data_set),
	    cmocka_unit_test(holds_keep_snapshots),
	    cmocka_unit_test(permissions_are_given_and_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
