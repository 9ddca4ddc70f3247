/*
 * Changes of data sets, one by one: what is refused and in which words, what waits for what, room and its limits, and
 * changes while others write.
 */
#include "dsl_census.h"

#include <pthread.h>

#include "base/str.h"

#define BLOCKSIZE 4096u
#define BLOCKS    256u

static struct harness *h;

static int setup(void **state)
{
	h = hw_create(NULL, 0);
	return 0;
}

static int teardown(void **state)
{
	hw_drain(h);
	hw_check(h);
	hw_destroy(h);
	return 0;
}

/* --- short forms --- */

static void set_init(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	struct dmu_object spec = {.type = DMU_OT_PLAIN, .blocksize = BLOCKSIZE, .indblkshift = 12};

	assert_int_equal(dmu_object_claim(os, 1, &spec, tx), 0);
}

#define OK(call)                                                                                                       \
	do {                                                                                                           \
		struct err e = ERR_INIT;                                                                               \
		int ok_err = (call);                                                                                   \
		if (ok_err)                                                                                            \
			fail_msg("%s: %d, %s", #call, ok_err, e.text);                                                 \
	} while (0)
#define REFUSED(call, code, words)                                                                                     \
	do {                                                                                                           \
		struct err e = ERR_INIT;                                                                               \
		assert_int_equal((call), (code));                                                                      \
		if (!strstr(e.text, (words)))                                                                          \
			fail_msg("%s: '%s' does not tell of '%s'", #call, e.text, (words));                            \
	} while (0)

static int create(const char *name, struct err *e)
{
	struct dsl_create c = {.name = name, .type = DSL_VOLUME, .init = set_init};

	return dsl_create(h->p, &c, e);
}

static int create_fs(const char *name, struct err *e)
{
	struct dsl_create c = {.name = name, .type = DSL_FILESYSTEM, .init = set_init};

	return dsl_create(h->p, &c, e);
}

static int snapshot(const char *name, struct err *e)
{
	return dsl_snapshot(h->p, &name, 1, NULL, e);
}

static int destroy_snapshot(const char *name, bool defer, struct err *e)
{
	return dsl_destroy_snapshots(h->p, &name, 1, defer, e);
}

static struct dsl_dataset *hold(const char *name)
{
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;

	if (dsl_dataset_hold(h->p, name, &ds, &e))
		fail_msg("%s: %s", name, e.text);
	return ds;
}

static bool exists(const char *name)
{
	struct dsl_dataset *ds;

	if (dsl_dataset_hold(h->p, name, &ds, NULL))
		return false;
	dsl_dataset_release(ds);
	return true;
}

static struct objset *open_set(const char *name)
{
	struct dsl_dataset *ds = hold(name);
	struct objset *os;
	struct err e = ERR_INIT;

	if (dsl_dataset_open_objset(ds, &os, &e))
		fail_msg("%s: %s", name, e.text);
	dsl_dataset_release(ds);
	return os;
}

static int put(struct objset *os, unsigned blk, uint32_t seed)
{
	struct tx tx = {.os = os, .bytes = BLOCKSIZE};
	uint8_t block[BLOCKSIZE];
	struct dnode *dn;
	int err = tx_begin_wait(h->tp->dp.txgs, &tx);

	if (err)
		return err;
	tp_pattern(block, sizeof(block), seed);
	assert_int_equal(dnode_hold(os, 1, &dn, NULL), 0);
	assert_int_equal(dmu_write(dn, (uint64_t)blk * BLOCKSIZE, block, sizeof(block), &tx), 0);
	dnode_release(dn);
	tx_end(&tx);
	return 0;
}

static void check_block(const char *name, unsigned blk, uint32_t seed)
{
	struct objset *os = open_set(name);
	uint8_t want[BLOCKSIZE], got[BLOCKSIZE];
	struct dnode *dn;

	tp_pattern(want, sizeof(want), seed);
	assert_int_equal(dnode_hold(os, 1, &dn, NULL), 0);
	assert_int_equal(dmu_read(dn, (uint64_t)blk * BLOCKSIZE, got, sizeof(got), 0), 0);
	assert_memory_equal(want, got, sizeof(want));
	dnode_release(dn);
	objset_release(os);
}

/* n blocks from `first` on. */
static void fill(const char *name, unsigned first, unsigned n, uint32_t seed)
{
	struct objset *os = open_set(name);

	for (unsigned i = first; i < first + n; i++)
		assert_int_equal(put(os, i, seed + i), 0);
	objset_release(os);
	hw_wait(h);
}

static void set_property(const char *name, const char *property, const char *value)
{
	autonv struct nvlist *l = nvlist_create();

	nvlist_add_string(l, property, value);
	OK(dsl_props_set(h->p, name, l, &e));
}

/* --- refusals --- */

static void refusals_name_what_is_in_the_way(void **state)
{
	OK(create_fs("p/a", &e));
	OK(create_fs("p/a/b", &e));
	OK(create("p/v", &e));
	OK(snapshot("p/a@s", &e));
	OK(snapshot("p/a@t", &e));
	OK(dsl_clone(h->p, "p/a@s", "p/c1", NULL, &e));
	OK(dsl_clone(h->p, "p/a@s", "p/c2", NULL, &e));
	OK(dsl_hold(h->p, (const char *[]){"p/a@t"}, 1, "keep", &e));
	OK(dsl_hold(h->p, (const char *[]){"p/a@t"}, 1, "and this", &e));
	REFUSED(destroy_snapshot("p/a@s", false, &e), -EEXIST, "p/c1");
	REFUSED(destroy_snapshot("p/a@s", false, &e), -EEXIST, "p/c2");
	REFUSED(destroy_snapshot("p/a@t", false, &e), -EBUSY, "keep");
	REFUSED(destroy_snapshot("p/a@t", false, &e), -EBUSY, "and this");
	REFUSED(dsl_destroy_head(h->p, "p/a", &e), -EEXIST, "p/a/b");
	REFUSED(dsl_destroy_head(h->p, "p/a", &e), -EEXIST, "p/a@s");
	REFUSED(dsl_destroy_head(h->p, "p/a", &e), -EEXIST, "filesystem has children");
	REFUSED(dsl_rollback(h->p, "p/a", "p/a@s", &e), -EEXIST, "p/a@t");
	REFUSED(dsl_destroy_head(h->p, "p", &e), -EINVAL, "pools");
	REFUSED(dsl_rename(h->p, "p/a", "p/a/b/a", false, &e), -EINVAL, "cannot be a descendant");
	REFUSED(create("p/v/x", &e), -EINVAL, "parent is not a filesystem");
	REFUSED(create("p/none/x", &e), -ENOENT, "parent does not exist");
	REFUSED(create("p/a", &e), -EEXIST, "exists");
	REFUSED(create("p/x$y", &e), -EINVAL, "invalid character '$'");
	REFUSED(snapshot("p/a@s", &e), -EEXIST, "exists");
	REFUSED(dsl_promote(h->p, "p/a", &e), -EINVAL, "not a cloned");
	OK(dsl_release_hold(h->p, (const char *[]){"p/a@t"}, 1, "keep", &e));
	OK(dsl_release_hold(h->p, (const char *[]){"p/a@t"}, 1, "and this", &e));
	OK(destroy_snapshot("p/a@t", false, &e));
}

static void open_sets_are_busy(void **state)
{
	struct objset *os;

	OK(create("p/a", &e));
	OK(snapshot("p/a@s", &e));
	os = open_set("p/a");
	assert_int_equal(put(os, 3, 4), 0);
	REFUSED(dsl_rollback(h->p, "p/a", NULL, &e), -EBUSY, "busy");
	OK(dsl_rename(h->p, "p/a", "p/b", false, &e));
	assert_int_equal(put(os, 4, 5), 0);
	objset_release(os);
	OK(dsl_rollback(h->p, "p/b", NULL, &e));
	os = open_set("p/b@s");
	REFUSED(destroy_snapshot("p/b@s", false, &e), -EBUSY, "busy");
	objset_release(os);
	OK(destroy_snapshot("p/b@s", false, &e));
	os = open_set("p/b");
	REFUSED(dsl_destroy_head(h->p, "p/b", &e), -EBUSY, "busy");
	objset_release(os);
	OK(dsl_destroy_head(h->p, "p/b", &e));
}

/* Nobody has it open, but what was written is in a later group than the one that destroys it. */
static void a_set_that_was_just_written_is_destroyed(void **state)
{
	for (unsigned i = 0; i < 20; i++) {
		OK(create("p/a", &e));
		fill("p/a", 0, 4, i);
		{
			struct objset *os = open_set("p/a");

			assert_int_equal(put(os, 9, i), 0);
			objset_release(os);
		}
		OK(dsl_destroy_head(h->p, "p/a", &e));
	}
}

static void deferred_snapshots_go_with_what_held_them(void **state)
{
	OK(create("p/a", &e));
	OK(snapshot("p/a@held", &e));
	OK(snapshot("p/a@cloned", &e));
	OK(snapshot("p/a@free", &e));
	OK(dsl_hold(h->p, (const char *[]){"p/a@held"}, 1, "x", &e));
	OK(dsl_clone(h->p, "p/a@cloned", "p/c", NULL, &e));
	OK(destroy_snapshot("p/a@held", true, &e));
	OK(destroy_snapshot("p/a@cloned", true, &e));
	OK(destroy_snapshot("p/a@free", true, &e));
	assert_true(exists("p/a@held"));
	assert_true(exists("p/a@cloned"));
	assert_false(exists("p/a@free"));
	OK(dsl_release_hold(h->p, (const char *[]){"p/a@held"}, 1, "x", &e));
	assert_false(exists("p/a@held"));
	OK(dsl_destroy_head(h->p, "p/c", &e));
	assert_false(exists("p/a@cloned"));
}

/* --- many at once --- */

#define MANY 120u

/* p/t, MANY children of it with a snapshot each; names in an order in which they can go, p/t last. */
static const char **many_create(size_t *n)
{
	const char **names = xcalloc(2 * MANY + 1, sizeof(*names));
	const char *snaps[MANY];

	OK(create_fs("p/t", &e));
	for (unsigned i = 0; i < MANY; i++) {
		names[2 * i] = snaps[i] = xasprintf("p/t/%u@s", i);
		names[2 * i + 1] = xasprintf("p/t/%u", i);
		OK(create_fs(names[2 * i + 1], &e));
	}
	names[2 * MANY] = xstrdup("p/t");
	OK(dsl_snapshot(h->p, snaps, MANY, NULL, &e));
	*n = 2 * MANY + 1;
	return names;
}

static void many_free(const char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)names[i]);
	free(names);
}

static size_t many_left(const char **names, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		left += exists(names[i]);
	return left;
}

static void many_go_in_few_groups(void **state)
{
	size_t n, done;
	const char **names = many_create(&n);
	uint64_t before;

	fill("p/t/7", 0, 30, 1);
	hw_drain(h);
	before = h->groups;
	OK(dsl_destroy(h->p, names, n, false, &done, &e));
	assert_int_equal(done, n);
	assert_in_range(h->groups - before, 1, MANY / 4);
	assert_int_equal(many_left(names, n), 0);
	many_free(names, n);
}

static void what_is_held_or_busy_is_refused_before_any_goes(void **state)
{
	static const char *const last[] = {"p/t/119@s"};
	size_t n, done = 1;
	const char **names = many_create(&n);
	struct objset *os = open_set("p/t/118");

	REFUSED(dsl_destroy(h->p, names, n, false, &done, &e), -EBUSY, "p/t/118: dataset is busy");
	assert_int_equal(done, 0);
	objset_release(os);
	OK(dsl_hold(h->p, last, 1, "keep", &e));
	REFUSED(dsl_destroy_check(h->p, names, n, false, &e), -EBUSY, "p/t/119@s: it's being held: keep");
	REFUSED(dsl_destroy(h->p, names, n, false, &done, &e), -EBUSY, "p/t/119@s: it's being held: keep");
	assert_int_equal(done, 0);
	assert_int_equal(many_left(names, n), n);
	OK(dsl_release_hold(h->p, last, 1, "keep", &e));
	OK(dsl_destroy_check(h->p, names, n, false, &e));
	OK(dsl_destroy(h->p, names, n, false, &done, &e));
	many_free(names, n);
}

/* What nobody could see before: those before it are gone whole, it and those after it are there whole. */
static void the_first_that_cannot_go_ends_it(void **state)
{
	size_t n, done;
	const char **names = many_create(&n);

	OK(create_fs("p/t/50/more", &e));
	REFUSED(dsl_destroy(h->p, names, n, false, &done, &e), -EEXIST, "p/t/50: filesystem has children");
	assert_int_equal(done, 101);
	assert_string_equal(names[done], "p/t/50");
	assert_int_equal(many_left(names, n), n - done);
	hw_drain(h);
	hw_check(h);
	hw_reopen(h);
	assert_int_equal(many_left(names, n), n - done);
	OK(dsl_destroy_head(h->p, "p/t/50/more", &e));
	OK(dsl_destroy(h->p, names + 101, n - 101, false, &done, &e));
	assert_int_equal(done, n - 101);
	many_free(names, n);
}

/* Snapshots alone: a clone is in the way of all. Those that are gone are no matter, a head that is gone is one. */
static void clones_and_what_is_gone_among_many(void **state)
{
	static const char *const snaps[] = {"p/a@1", "p/a@none", "p/a@2"}, *const all[] = {"p/c", "p/a@2", "p/a"},
				 *const wrong[] = {"p/none", "p/c"};
	size_t done;

	OK(create("p/a", &e));
	OK(snapshot("p/a@1", &e));
	OK(snapshot("p/a@2", &e));
	OK(dsl_clone(h->p, "p/a@2", "p/c", NULL, &e));
	REFUSED(dsl_destroy(h->p, snaps, 3, false, &done, &e), -EEXIST, "p/c");
	assert_true(exists("p/a@1"));
	OK(dsl_destroy(h->p, snaps, 3, true, &done, &e));
	assert_int_equal(done, 3);
	assert_true(!exists("p/a@1") && exists("p/a@2"));
	REFUSED(dsl_destroy(h->p, wrong, 2, false, &done, &e), -ENOENT, "p/none");
	assert_true(exists("p/c"));
	OK(dsl_destroy(h->p, all, 3, false, &done, &e));
	assert_true(!exists("p/a") && !exists("p/c"));
	OK(dsl_destroy(h->p, NULL, 0, false, &done, &e));
}

static void many_that_were_just_written_go(void **state)
{
	size_t n, done;
	const char **names = many_create(&n);
	struct objset *os;

	for (unsigned i = 0; i < 10; i++) {
		os = open_set(names[20 * i + 1]);
		assert_int_equal(put(os, 1, i), 0);
		objset_release(os);
	}
	OK(dsl_destroy(h->p, names, n, false, &done, &e));
	assert_int_equal(many_left(names, n), 0);
	many_free(names, n);
}

static void many_go_without_the_list_of_trees(void **state)
{
	static const char *const off[] = {"com.delphix:async_destroy", "com.delphix:empty_bpobj"};
	size_t n, done;
	const char **names;

	teardown(state);
	h = hw_create(off, ARRAY_LEN(off));
	names = many_create(&n);
	fill("p/t/7", 0, 30, 1);
	OK(dsl_destroy(h->p, names, n, false, &done, &e));
	assert_int_equal(done, n);
	assert_int_equal(many_left(names, n), 0);
	many_free(names, n);
}

static void snapshots_of_many_are_all_or_none(void **state)
{
	static const char *const bad[] = {"p/a@x", "p/b@x", "p/none@x"}, *const twice[] = {"p/a@x", "p/a@y"};
	struct dsl_dataset *a, *b;

	OK(create("p/a", &e));
	OK(create("p/b", &e));
	REFUSED(dsl_snapshot(h->p, bad, 3, NULL, &e), -ENOENT, "p/none");
	assert_false(exists("p/a@x"));
	REFUSED(dsl_snapshot(h->p, twice, 2, NULL, &e), -EXDEV, "multiple snapshots");
	OK(dsl_snapshot(h->p, bad, 2, NULL, &e));
	assert_true(exists("p/a@x") && exists("p/b@x"));
	a = hold("p/a@x");
	b = hold("p/b@x");
	assert_int_equal(a->creation_txg, b->creation_txg);
	assert_int_equal(a->creation_time, b->creation_time);
	dsl_dataset_release(a);
	dsl_dataset_release(b);
}

static void held_names_follow(void **state)
{
	struct dsl_dataset *a, *s, *b;

	OK(dsl_create(h->p, &(struct dsl_create){.name = "p/f", .type = DSL_FILESYSTEM, .init = set_init}, &e));
	OK(dsl_create(h->p, &(struct dsl_create){.name = "p/f/g", .type = DSL_FILESYSTEM, .init = set_init}, &e));
	OK(snapshot("p/f@1", &e));
	OK(snapshot("p/f/g@1", &e));
	a = hold("p/f");
	b = hold("p/f/g@1");
	s = hold("p/f@1");
	OK(dsl_rename(h->p, "p/f", "p/other", false, &e));
	assert_string_equal(a->name, "p/other");
	assert_string_equal(a->dir->name, "p/other");
	assert_string_equal(s->name, "p/other@1");
	assert_string_equal(b->name, "p/other/g@1");
	OK(dsl_rename(h->p, "p/other@1", "p/other@new", true, &e));
	assert_string_equal(b->name, "p/other/g@new");
	assert_string_equal(b->snapname, "new");
	OK(dsl_clone(h->p, "p/other@new", "p/c", NULL, &e));
	OK(dsl_promote(h->p, "p/c", &e));
	assert_string_equal(s->name, "p/c@new");
	dsl_dataset_release(a);
	dsl_dataset_release(b);
	dsl_dataset_release(s);
}

/* --- room --- */

static void set_usable(uint64_t bytes)
{
	h->usable[DSL_SPACE_NORMAL] = bytes;
	h->usable[DSL_SPACE_RESERVED] = bytes + (1 << 20);
	h->usable[DSL_SPACE_EXTRA] = bytes + (3 << 19);
	h->usable[DSL_SPACE_NONE] = bytes + (2 << 20);
	hw_wait(h);
	hw_wait(h);
}

/* How many blocks can be written until there is no room. */
static unsigned write_until_full(const char *name, int want)
{
	struct objset *os = open_set(name);
	unsigned n = 0;
	int err;

	while ((err = put(os, n, n)) == 0)
		n++;
	assert_int_equal(err, want);
	objset_release(os);
	hw_wait(h);
	return n;
}

static void a_full_pool_can_be_emptied(void **state)
{
	struct dsl_dataset *ds;

	for (unsigned round = 0; round < 3; round++) {
		OK(create("p/a", &e));
		OK(create("p/b", &e));
		set_usable(4 << 20);
		assert_in_range(write_until_full("p/a", -ENOSPC), 100, 1024);
		REFUSED(create("p/x", &e), -ENOSPC, "out of space");
		REFUSED(snapshot("p/a@s", &e), -ENOSPC, "out of space");
		set_property("p/a", "compression", "off");
		OK(dsl_destroy_head(h->p, "p/a", &e));
		hw_drain(h);
		ds = hold("p/b");
		assert_in_range(dsl_dir_available(ds->dir, NULL, 0), 3 << 20, 4 << 20);
		dsl_dataset_release(ds);
		fill("p/b", 0, 100, 1);
		OK(dsl_destroy_head(h->p, "p/b", &e));
		hw_drain(h);
		set_usable(HW_USABLE);
	}
}

static void a_reserved_volume_never_runs_out(void **state)
{
	struct objset *os;

	OK(create("p/v", &e));
	OK(create("p/x", &e));
	set_usable(6 << 20);
	set_property("p/v", "refreservation", "2M");
	write_until_full("p/x", -ENOSPC);
	os = open_set("p/v");
	for (unsigned round = 0; round < 6; round++)
		for (unsigned i = 0; i < BLOCKS; i++)
			assert_int_equal(put(os, i, round * BLOCKS + i), 0);
	objset_release(os);
	hw_wait(h);
	check_block("p/v", 17, 5 * BLOCKS + 17);
	REFUSED(snapshot("p/v@s", &e), -ENOSPC, "out of space");
	OK(dsl_destroy_head(h->p, "p/x", &e));
	set_usable(HW_USABLE);
}

static void quotas_stop_who_passes_them(void **state)
{
	struct dsl_dataset *ds;
	struct objset *os;
	struct tx tx = {.bytes = BLOCKSIZE, .flags = TX_NETFREE};

	OK(create_fs("p/a", &e));
	set_property("p/a", "quota", "1M");
	write_until_full("p/a", -EDQUOT);
	ds = hold("p/a");
	assert_in_range(ds->dir->used, 1 << 20, (1 << 20) + (1 << 18));
	os = open_set("p/a");
	tx.os = os;
	assert_int_equal(tx_begin_wait(h->tp->dp.txgs, &tx), 0);
	tx_end(&tx);
	objset_release(os);
	dsl_dataset_release(ds);
	set_property("p/a", "quota", "none");
	fill("p/a", 0, 10, 5);
	OK(create_fs("p/b", &e));
	set_property("p/b", "refquota", "512K");
	assert_in_range(write_until_full("p/b", -EDQUOT), 100, 160);
}

/* --- counts --- */

static uint64_t count_of(const char *name, bool snapshots)
{
	struct dsl_dataset *ds = hold(name);
	uint64_t fs, snaps;
	bool has = dsl_limits_get(ds->dir, &fs, &snaps);

	dsl_dataset_release(ds);
	return !has ? UINT64_MAX : snapshots ? snaps : fs;
}

static void limits_count_and_refuse(void **state)
{
	OK(create_fs("p/a", &e));
	OK(create_fs("p/a/b", &e));
	OK(create_fs("p/c", &e));
	OK(snapshot("p/a/b@1", &e));
	assert_int_equal(count_of("p/a", false), UINT64_MAX);
	set_property("p/a", "filesystem_limit", "2");
	assert_int_equal(count_of("p/a", false), 1);
	assert_int_equal(count_of("p/a", true), 1);
	assert_int_equal(count_of("p/a/b", true), 1);
	OK(create_fs("p/a/d", &e));
	REFUSED(create_fs("p/a/e", &e), -EDQUOT, "limit");
	REFUSED(dsl_rename(h->p, "p/c", "p/a/c", false, &e), -EDQUOT, "limit");
	OK(dsl_rename(h->p, "p/a/b", "p/c/b", false, &e));
	assert_int_equal(count_of("p/a", false), 1);
	assert_int_equal(count_of("p/a", true), 0);
	assert_int_equal(count_of("p/c/b", true), 1);
	OK(dsl_rename(h->p, "p/c/b", "p/a/b", false, &e));
	assert_int_equal(count_of("p/a", true), 1);
	set_property("p/a", "snapshot_limit", "2");
	OK(snapshot("p/a@2", &e));
	REFUSED(snapshot("p/a/b@3", &e), -EDQUOT, "limit");
	OK(destroy_snapshot("p/a@2", false, &e));
	OK(snapshot("p/a/b@3", &e));
	OK(dsl_destroy_head(h->p, "p/a/d", &e));
	assert_int_equal(count_of("p/a", false), 1);
}

/* --- in the background --- */

static void destroying_goes_on_after_an_import(void **state)
{
	uint64_t before = tp_in_use(h->tp);

	OK(create("p/a", &e));
	fill("p/a", 0, 200, 7);
	OK(snapshot("p/a@s", &e));
	fill("p/a", 50, 100, 8);
	OK(dsl_clone(h->p, "p/a@s", "p/c", NULL, &e));
	fill("p/c", 0, 120, 9);
	atomic_store(&tunable_find("zfs_async_block_max_blocks")->value, 7);
	OK(dsl_destroy_head(h->p, "p/c", &e));
	OK(destroy_snapshot("p/a@s", false, &e));
	OK(dsl_destroy_head(h->p, "p/a", &e));
	for (unsigned i = 0; i < 5; i++) {
		hw_wait(h);
		hw_wait(h);
		assert_true(h->freeing);
		hw_reopen(h);
	}
	hw_drain(h);
	atomic_store(&tunable_find("zfs_async_block_max_blocks")->value, 1000000);
	assert_in_range(tp_in_use(h->tp), before / 2, before * 2);
	assert_int_equal(hw_feature(h, "com.delphix:async_destroy")->refs, 0);
}

static void mark_incomplete(void *arg, struct tx *tx)
{
	struct dsl_dataset *ds = hold(arg);

	ds->flags |= DSL_DS_INCONSISTENT;
	dsl_dataset_store(ds, tx);
	dsl_dataset_release(ds);
}

static void an_import_removes_what_is_incomplete(void **state)
{
	struct dsl_task t = {.sync = mark_incomplete, .arg = "p/a", .policy = DSL_SPACE_NONE};

	OK(create("p/a", &e));
	OK(create("p/b", &e));
	fill("p/a", 0, 20, 3);
	OK(dsl_task_run(h->p, &t, &e));
	hw_reopen(h);
	dsl_pool_clean_up(h->p);
	assert_false(exists("p/a"));
	assert_true(exists("p/b"));
}

/* --- livelists, as OpenZFS makes them --- */

struct livelist_arg {
	const char *name;
	struct dsl_deadlist *dl;
	uint64_t origin_txg;
	struct tx *tx;
};

static int livelist_add(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	struct livelist_arg *a = t->arg;

	if (!bp_is_embedded(bp))
		assert_int_equal(dsl_deadlist_insert(a->dl, bp, false, a->tx), 0);
	return 0;
}

/* Of all blocks that the clone has, some of them as if they had come and gone before. */
static void livelist_make(void *arg, struct tx *tx)
{
	struct livelist_arg *a = arg;
	struct dsl_dataset *ds = hold(a->name);
	struct traverse t = {.min_txg = ds->prev_snap_txg, .visit = livelist_add, .arg = a};
	struct bp gone = ds->bp;
	uint64_t object = 0;
	struct objset *os;

	a->tx = tx;
	assert_int_equal(dsl_deadlist_create(h->p, tx, &object), 0);
	assert_int_equal(dsl_deadlist_open(h->p, object, &a->dl), 0);
	assert_int_equal(dsl_deadlist_add_key(a->dl, ds->prev_snap_txg, tx), 0);
	gone.w[1] ^= 0x10000;
	assert_int_equal(dsl_deadlist_insert(a->dl, &gone, false, tx), 0);
	assert_int_equal(objset_open(&h->tp->dp, ds->object, &ds->bp, NULL, &os, NULL), 0);
	assert_int_equal(traverse_objset(os, &t), 0);
	objset_release(os);
	assert_int_equal(dsl_deadlist_insert(a->dl, &gone, true, tx), 0);
	assert_int_equal(dsl_deadlist_flush(a->dl, tx), 0);
	dsl_deadlist_close(a->dl);
	dsl_dir_extend(ds->dir, tx);
	assert_int_equal(zap_add_u64(h->mos, ds->dir->object, "com.delphix:livelist", object, tx), 0);
	dsl_feature_count(h->p, "com.delphix:livelist", 1, tx);
	dsl_dataset_release(ds);
}

static void make_clone_with_livelist(const char *name)
{
	struct livelist_arg a = {.name = name};
	struct dsl_task t = {.sync = livelist_make, .arg = &a, .policy = DSL_SPACE_NONE};

	OK(dsl_clone(h->p, "p/a@s", name, NULL, &e));
	fill(name, 30, 60, 77);
	OK(dsl_task_run(h->p, &t, &e));
	assert_int_equal(hw_feature(h, "com.delphix:livelist")->refs, 1);
}

static void clones_with_livelists_are_written_and_destroyed(void **state)
{
	OK(create("p/a", &e));
	fill("p/a", 0, 100, 7);
	OK(snapshot("p/a@s", &e));
	make_clone_with_livelist("p/c");
	fill("p/c", 10, 10, 99);
	assert_int_equal(hw_feature(h, "com.delphix:livelist")->refs, 0);
	check_block("p/c", 15, 99 + 15);
	make_clone_with_livelist("p/d");
	OK(dsl_destroy_head(h->p, "p/d", &e));
	hw_drain(h);
	assert_int_equal(hw_feature(h, "com.delphix:livelist")->refs, 0);
	check_block("p/c", 15, 99 + 15);
	check_block("p/a", 99, 7 + 99);
}

/* --- damage --- */

static void damage_object(uint64_t object)
{
	struct dnode *dn;
	struct bp bp;

	assert_int_equal(dnode_hold(h->mos, object, &dn, NULL), 0);
	assert_int_equal(dmu_block_pointer(dn, 0, 0, &bp), 0);
	for (unsigned i = 0; i < bp_ndvas(&bp); i++)
		tp_damage(h->tp, &bp, i);
	dnode_release(dn);
	arc_flush_pool(h->tp->dp.arc, h->tp->zp.guid);
}

/* What cannot be done is found out in the middle of a group: nothing of it may be committed. */
static void a_pool_whose_metadata_is_damaged_is_given_up(void **state)
{
	struct str lost = {0};
	struct dsl_dataset *ds;
	struct objset *os;
	uint64_t list;

	log_set_level(LOG_LEVEL_ERROR - 1);
	h->tp->dp.embedded_data = false; /* so that the list has a block that can be damaged */
	OK(create("p/a", &e));
	OK(create("p/b", &e));
	fill("p/a", 0, 20, 1);
	OK(snapshot("p/a@s", &e));
	fill("p/a", 10, 20, 2);
	ds = hold("p/a");
	list = ds->deadlist;
	dsl_dataset_release(ds);
	hw_reopen(h);
	damage_object(list);
	h->may_fail = true;
	os = open_set("p/b");
	REFUSED(destroy_snapshot("p/a@s", false, &e), -EIO, "suspended");
	assert_int_equal(h->failed, 1);
	assert_int_equal(put(os, 1, 1), -EIO);
	objset_release(os);
	dsl_pool_abandon(h->p, &lost);
	REFUSED(create("p/c", &e), -EIO, "suspended");
	str_free(&lost);
	hw_destroy(h);
}

/* A tree that was destroyed cannot be read completely: the rest of it is freed, and nothing twice. */
static void damaged_trees_are_freed_as_far_as_possible(void **state)
{
	struct dnode *dn;
	struct objset *os;
	struct bp bp;
	uint64_t before = tp_in_use(h->tp), after;

	log_set_level(LOG_LEVEL_ERROR - 1);
	OK(create("p/a", &e));
	fill("p/a", 0, 250, 1);
	os = open_set("p/a");
	assert_int_equal(dnode_hold(os, 1, &dn, NULL), 0);
	assert_int_equal(dmu_block_pointer(dn, 1, 3, &bp), 0);
	assert_int_equal(bp_level(&bp), 1);
	for (unsigned i = 0; i < bp_ndvas(&bp); i++)
		tp_damage(h->tp, &bp, i);
	dnode_release(dn);
	objset_release(os);
	hw_wait(h);
	arc_flush_pool(h->tp->dp.arc, h->tp->zp.guid);
	after = tp_in_use(h->tp);
	OK(dsl_destroy_head(h->p, "p/a", &e));
	hw_wait(h);
	hw_drain(h);
	assert_in_range(tp_in_use(h->tp), before + (after - before) / 4, after - (after - before) / 4);
	hw_reopen(h);
	hw_drain(h);
	assert_int_equal(h->tp->bad_frees, 0);
	assert_int_equal(hw_feature(h, "com.delphix:async_destroy")->refs, 1);
	hw_destroy(h);
}

/* --- while others write --- */

struct writer {
	pthread_t thread;
	char name[32];
	unsigned number;
	atomic_bool stop;
	uint32_t last[BLOCKS];
};

static void *writer_run(void *arg)
{
	struct writer *w = arg;
	struct objset *os = open_set(w->name);
	uint32_t rnd = w->number;

	while (!atomic_load(&w->stop)) {
		unsigned blk;

		rnd = rnd * 1664525 + 1013904223;
		blk = (rnd >> 16) % BLOCKS;
		if (put(os, blk, rnd) == 0)
			w->last[blk] = rnd;
	}
	objset_release(os);
	return NULL;
}

/* Looks at everything, again and again, as `zfs list` does. */
static int look_snapshot(void *arg, struct dsl_dataset *s)
{
	struct nvlist *l;

	if (dsl_props_get(s, NULL, 0, &l, NULL) == 0)
		nvlist_destroy(l);
	return 0;
}

static int look_dir(void *arg, struct dsl_dir *d)
{
	struct dsl_dataset *head;
	struct nvlist *l;
	uint64_t written;

	if (dsl_dataset_hold_obj(h->p, d->head, &head, NULL))
		return 0; /* destroyed meanwhile */
	if (dsl_props_get(head, NULL, 0, &l, NULL) == 0)
		nvlist_destroy(l);
	dsl_written(head, &written);
	dsl_each_snapshot(head, look_snapshot, NULL);
	dsl_dataset_release(head);
	dsl_each_child(d, look_dir, NULL);
	return 0;
}

static void *looker_run(void *arg)
{
	atomic_bool *stop = arg;

	while (!atomic_load(stop)) {
		struct dsl_dir *root;

		assert_int_equal(dsl_dir_hold(h->p, h->p->root_dir, &root, NULL), 0);
		look_dir(NULL, root);
		dsl_dir_release(root);
	}
	return NULL;
}

/* Makes and destroys, beside whoever else does. */
static void *changer_run(void *arg)
{
	char name[64], snap[80], clone[64];
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "p/x%u-%u", *(unsigned *)arg, i);
		snprintf(snap, sizeof(snap), "%s@s", name);
		snprintf(clone, sizeof(clone), "p/y%u-%u", *(unsigned *)arg, i);
		assert_int_equal(create(name, &e), 0);
		assert_int_equal(snapshot(snap, &e), 0);
		assert_int_equal(dsl_clone(h->p, snap, clone, NULL, &e), 0);
		assert_int_equal(dsl_promote(h->p, clone, &e), 0);
		assert_int_equal(dsl_destroy_head(h->p, name, &e), 0);
	}
	return NULL;
}

static void changes_go_on_under_writers_and_readers(void **state)
{
	pthread_t looker, changer[3];
	unsigned number[3] = {0, 1, 2};
	atomic_bool stop = false;
	struct writer w[3] = {0};
	char snap[64], clone[64], other[64];

	for (unsigned i = 0; i < ARRAY_LEN(w); i++) {
		snprintf(w[i].name, sizeof(w[i].name), "p/w%u", i);
		w[i].number = i + 1;
		OK(create(w[i].name, &e));
		assert_int_equal(pthread_create(&w[i].thread, NULL, writer_run, &w[i]), 0);
	}
	assert_int_equal(pthread_create(&looker, NULL, looker_run, &stop), 0);
	for (unsigned i = 0; i < ARRAY_LEN(changer); i++)
		assert_int_equal(pthread_create(&changer[i], NULL, changer_run, &number[i]), 0);
	for (unsigned round = 0; round < 12; round++) {
		struct writer *one = &w[round % ARRAY_LEN(w)];

		snprintf(snap, sizeof(snap), "%s@%u", one->name, round);
		snprintf(clone, sizeof(clone), "p/c%u", round);
		OK(snapshot(snap, &e));
		OK(dsl_clone(h->p, snap, clone, NULL, &e));
		if (round % 4 == 3) {
			OK(dsl_promote(h->p, clone, &e));
		} else {
			OK(dsl_destroy_head(h->p, clone, &e));
			if (round % 2)
				OK(destroy_snapshot(snap, false, &e));
		}
		snprintf(other, sizeof(other), "%s_", one->name);
		OK(dsl_rename(h->p, one->name, other, false, &e));
		OK(dsl_rename(h->p, other, one->name, false, &e));
	}
	for (unsigned i = 0; i < ARRAY_LEN(changer); i++)
		pthread_join(changer[i], NULL);
	atomic_store(&stop, true);
	pthread_join(looker, NULL);
	for (unsigned i = 0; i < ARRAY_LEN(w); i++) {
		atomic_store(&w[i].stop, true);
		pthread_join(w[i].thread, NULL);
	}
	hw_drain(h);
	for (unsigned i = 0; i < ARRAY_LEN(w); i++)
		for (unsigned b = 0; b < BLOCKS; b++)
			if (w[i].last[b])
				check_block(w[i].name, b, w[i].last[b]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(refusals_name_what_is_in_the_way, setup, teardown),
	    cmocka_unit_test_setup_teardown(open_sets_are_busy, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_set_that_was_just_written_is_destroyed, setup, teardown),
	    cmocka_unit_test_setup_teardown(deferred_snapshots_go_with_what_held_them, setup, teardown),
	    cmocka_unit_test_setup_teardown(many_go_in_few_groups, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_held_or_busy_is_refused_before_any_goes, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_first_that_cannot_go_ends_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(clones_and_what_is_gone_among_many, setup, teardown),
	    cmocka_unit_test_setup_teardown(many_that_were_just_written_go, setup, teardown),
	    cmocka_unit_test_setup_teardown(many_go_without_the_list_of_trees, setup, teardown),
	    cmocka_unit_test_setup_teardown(snapshots_of_many_are_all_or_none, setup, teardown),
	    cmocka_unit_test_setup_teardown(held_names_follow, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_full_pool_can_be_emptied, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_reserved_volume_never_runs_out, setup, teardown),
	    cmocka_unit_test_setup_teardown(quotas_stop_who_passes_them, setup, teardown),
	    cmocka_unit_test_setup_teardown(limits_count_and_refuse, setup, teardown),
	    cmocka_unit_test_setup_teardown(destroying_goes_on_after_an_import, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_import_removes_what_is_incomplete, setup, teardown),
	    cmocka_unit_test_setup_teardown(clones_with_livelists_are_written_and_destroyed, setup, teardown),
	    cmocka_unit_test_setup(a_pool_whose_metadata_is_damaged_is_given_up, setup),
	    cmocka_unit_test_setup(damaged_trees_are_freed_as_far_as_possible, setup),
	    cmocka_unit_test_setup_teardown(changes_go_on_under_writers_and_readers, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
