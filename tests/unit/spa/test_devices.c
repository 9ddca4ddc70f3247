/*
 * Devices of a pool in use: added, removed, grown, offline and back, initialized and trimmed; checkpoints and
 * multihost.
 */
#include "livepool.h"

#include "base/tunable.h"
#include "dsl/dsl_write.h"
#include "spa/spa_write.h"

#define DISK_SIZE (UINT64_C(96) << 20)

static void fs_create(struct livepool *lp, const char *name)
{
	const struct dsl_create c = {.name = name, .type = DSL_FILESYSTEM, .init = livepool_root_init};

	if (dsl_create(lp->spa->dsl, &c, &lp->e))
		fail_msg("%s", lp->e.text);
}

static bool fs_is_there(struct livepool *lp, const char *name)
{
	struct dsl_dataset *ds;

	if (dsl_dataset_hold(lp->spa->dsl, name, &ds, NULL))
		return false;
	dsl_dataset_release(ds);
	return true;
}

static void reimport(struct livepool *lp)
{
	livepool_export(lp);
	livepool_import(lp, true);
}

/* A mirror of the first n files. */
static void mirror_create(struct livepool *lp, unsigned n)
{
	autonv struct nvlist *tree = livepool_tree(lp, 0, n, false);
	struct nvlist *mirror = nvlist_create(), *const * child;
	size_t have;

	nvlist_lists(tree, "children", &child, &have);
	nvlist_add_string(mirror, "type", "mirror");
	nvlist_add_lists(mirror, "children", child, have);
	nvlist_add_lists(tree, "children", &mirror, 1);
	nvlist_destroy(mirror);
	if (livepool_create_tree(lp, tree, NULL))
		fail_msg("%s", lp->e.text);
}

static void add_and_remove(void **state)
{
	struct livepool lp, small;
	autonv struct nvlist *data = NULL, *log = NULL, *mirror = NULL;
	uint64_t before;

	livepool_files(&lp, 4, DISK_SIZE);
	small = lp;
	small.ndisks = 1;
	livepool_create(&small, NULL);
	lp.spa = small.spa;
	data = livepool_tree(&lp, 1, 1, false);
	log = livepool_tree(&lp, 2, 1, true);
	before = atomic_load(&spa_writer(lp.spa)->space_whole);
	assert_int_equal(spa_add_vdevs(lp.spa, data, false, true, &lp.e), 0);
	assert_int_equal(lp.spa->root->nchildren, 1);
	assert_int_equal(spa_add_vdevs(lp.spa, data, false, false, &lp.e), 0);
	assert_int_equal(lp.spa->root->nchildren, 2);
	assert_true(atomic_load(&spa_writer(lp.spa)->space_whole) >= before + (DISK_SIZE / 2));
	assert_int_equal(spa_add_vdevs(lp.spa, data, true, false, &lp.e), -EBUSY); /* twice the same */
	assert_int_equal(spa_add_vdevs(lp.spa, log, false, false, &lp.e), 0);
	fs_create(&lp, LIVEPOOL_NAME "/a");
	reimport(&lp);
	assert_int_equal(lp.spa->root->nchildren, 3);
	assert_true(lp.spa->root->child[2]->is_log);
	assert_int_equal(spa_remove_vdev(lp.spa, lp.disk[1], &lp.e), -ENOTSUP);
	assert_int_equal(spa_remove_vdev(lp.spa, lp.disk[3], &lp.e), -ENOENT);
	assert_int_equal(spa_remove_vdev(lp.spa, lp.disk[2], &lp.e), 0);
	assert_true(lp.spa->root->child[2]->kind == VDEV_HOLE);
	reimport(&lp);
	assert_int_equal(lp.spa->root->nchildren, 3);
	assert_true(lp.spa->root->child[2]->kind == VDEV_HOLE);
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/a"));
	/* its disk is free again */
	assert_int_equal(spa_add_vdevs(lp.spa, log, false, false, &lp.e), 0);
	reimport(&lp);
	assert_int_equal(lp.spa->root->nchildren, 4);
	/* another kind of redundancy is refused, but by force */
	livepool_remove(&lp);
}

/* The pool's allocator, which is also asked for a log block whenever the group that is told of asks it for anything. */
struct asked {
	const struct zio_alloc_ops *ops;
	void *arg;
	const struct vdev *root;
	atomic_uint n;
	atomic_bool got; /* space on the new device */
};

static int asked_alloc(void *arg, enum zio_class class, uint64_t psize, unsigned ndvas, uint64_t txg, unsigned flags,
		       const struct dva *near, struct dva dva[BP_DVAS])
{
	struct asked *a = arg;
	struct dva log[BP_DVAS];

	/* 01, 8.3: the group after the one that told of the device makes its maps */
	if (a->root->nchildren == 2 && txg == a->root->child[1]->create_txg + 1) {
		atomic_fetch_add(&a->n, 1);
		if (a->ops->alloc(a->arg, ZIO_CLASS_LOG, 4096, 1, txg, ZIO_ALLOC_NOWAIT, NULL, log) == 0) {
			if (log[0].vdev == 1)
				atomic_store(&a->got, true);
			a->ops->unalloc(a->arg, log, txg);
		}
	}
	return a->ops->alloc(a->arg, class, psize, ndvas, txg, flags, near, dva);
}

static void asked_free(void *arg, const struct dva *dva, uint64_t txg, uint64_t birth)
{
	struct asked *a = arg;

	a->ops->free(a->arg, dva, txg, birth);
}

static void asked_unalloc(void *arg, const struct dva *dva, uint64_t txg)
{
	struct asked *a = arg;

	a->ops->unalloc(a->arg, dva, txg);
}

static const struct zio_alloc_ops asked_ops = {.alloc = asked_alloc, .free = asked_free, .unalloc = asked_unalloc};

/* Else a crash could leave log blocks in a place that nobody knows to be used. */
static void a_log_device_is_used_after_the_group_that_made_its_space_maps(void **state)
{
	struct livepool lp, small;
	autonv struct nvlist *log = NULL;
	struct asked a = {.ops = NULL};
	struct bp bp;

	livepool_files(&lp, 2, DISK_SIZE);
	small = lp;
	small.ndisks = 1;
	livepool_create(&small, NULL);
	lp.spa = small.spa;
	log = livepool_tree(&lp, 1, 1, true);
	a.ops = lp.spa->zp.alloc;
	a.arg = lp.spa->zp.alloc_arg;
	a.root = lp.spa->root;
	spa_sync_now(lp.spa);
	lp.spa->zp.alloc = &asked_ops;
	lp.spa->zp.alloc_arg = &a;
	assert_int_equal(spa_add_vdevs(lp.spa, log, false, false, &lp.e), 0);
	spa_sync_now(lp.spa);
	lp.spa->zp.alloc = a.ops;
	lp.spa->zp.alloc_arg = a.arg;
	assert_true(atomic_load(&a.n) > 0);
	assert_false(atomic_load(&a.got));
	/* then it is */
	assert_int_equal(zio_alloc_zil(&lp.spa->zp, txg_open(spa_writer(lp.spa)->txgs), 4096, NULL, 0, &bp), 0);
	assert_int_equal(bp_dva(&bp, 0).vdev, 1);
	livepool_remove(&lp);
}

static void offline_and_back(void **state)
{
	struct livepool lp;
	struct vdev *leaf;
	struct rangetree missing;

	livepool_files(&lp, 2, DISK_SIZE);
	mirror_create(&lp, 2);
	assert_int_equal(spa_offline(lp.spa, lp.disk[0], false, false, &lp.e), 0);
	leaf = lp.spa->root->child[0]->child[0];
	assert_true(leaf->state == VDEV_STATE_OFFLINE);
	assert_true(lp.spa->root->state == VDEV_STATE_DEGRADED);
	assert_int_equal(spa_offline(lp.spa, lp.disk[1], false, false, &lp.e), -EBUSY);
	assert_string_equal(lp.e.text, "no valid replicas");
	fs_create(&lp, LIVEPOOL_NAME "/a");
	reimport(&lp); /* it stays offline, and what it lacks is known */
	leaf = lp.spa->root->child[0]->child[0];
	assert_true(leaf->state == VDEV_STATE_OFFLINE);
	rangetree_init(&missing);
	vdev_dtl_copy(leaf, &missing);
	assert_true(missing.space > 0);
	rangetree_clear(&missing);
	assert_int_equal(spa_online(lp.spa, lp.disk[0], false, &lp.e), 0);
	assert_true(leaf->state >= VDEV_STATE_DEGRADED);
	assert_false(vdev_dtl_is_empty(leaf));
	/* the other one has the only good copy */
	assert_int_equal(spa_offline(lp.spa, lp.disk[1], false, false, &lp.e), -EBUSY);
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/a"));
	reimport(&lp);
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/a"));
	/* temporary: until the next import */
	assert_int_equal(spa_offline(lp.spa, lp.disk[0], true, false, &lp.e), 0);
	reimport(&lp);
	assert_true(lp.spa->root->child[0]->child[0]->state >= VDEV_STATE_DEGRADED);
	livepool_remove(&lp);
}

static void grows(void **state)
{
	struct livepool lp;
	uint64_t before, after;
	autonv struct nvlist *on = nvlist_create();

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	before = lp.spa->root->child[0]->asize;
	assert_int_equal(truncate(lp.disk[0], (off_t)(2 * DISK_SIZE)), 0);
	assert_int_equal(spa_online(lp.spa, lp.disk[0], false, &lp.e), 0);
	assert_true(lp.spa->root->child[0]->asize == before);
	assert_int_equal(spa_online(lp.spa, lp.disk[0], true, &lp.e), 0);
	after = lp.spa->root->child[0]->asize;
	assert_true(after > before + DISK_SIZE / 2);
	fs_create(&lp, LIVEPOOL_NAME "/a");
	reimport(&lp);
	assert_true(lp.spa->root->child[0]->asize == after);
	/* by itself, at the next import */
	nvlist_add_string(on, "autoexpand", "on");
	assert_int_equal(spa_props_set(lp.spa, on, &lp.e), 0);
	livepool_export(&lp);
	assert_int_equal(truncate(lp.disk[0], (off_t)(3 * DISK_SIZE)), 0);
	livepool_import(&lp, true);
	assert_true(lp.spa->root->child[0]->asize > after);
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/a"));
	livepool_remove(&lp);
}

static void work_wait(struct spa *spa, const char *word)
{
	bool busy = true;

	while (busy) {
		assert_int_equal(spa_is_busy_with(spa, word, &busy, NULL), 0);
		usleep(1000);
	}
}

static const char *leaf_state(struct spa *spa, const char *key, char *out, size_t size)
{
	autonv struct nvlist *status = NULL;
	struct nvlist *l;

	assert_int_equal(spa_status(spa, false, &status), 0);
	assert_int_equal(nvlist_list(status, "vdevs", &l), 0);
	for (unsigned depth = 0; depth < 2; depth++) {
		l = nvpair_list(nvlist_first(l), 0);
		if (depth == 0)
			assert_int_equal(nvlist_list(l, "vdevs", &l), 0);
	}
	snprintf(out, size, "%s", nvlist_string_or(l, key, "none"));
	return out;
}

static void initialize_and_trim(void **state)
{
	struct livepool lp;
	uint8_t at[8];
	uint64_t pattern;
	char word[32];
	int fd;

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	assert_int_equal(spa_activity(lp.spa, SPA_INITIALIZE, SPA_START, NULL, 0, 0, false, &lp.e), 0);
	work_wait(lp.spa, "initialize");
	spa_sync_now(lp.spa);
	assert_string_equal(leaf_state(lp.spa, "init_state", word, sizeof(word)), "completed");
	fd = open(lp.disk[0], O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, at, sizeof(at), (off_t)(DISK_SIZE - (16 << 20))), sizeof(at));
	memcpy(&pattern, at, sizeof(at));
	assert_true(pattern == UINT64_C(0xdeadbeefdeadbeee));
	assert_int_equal(spa_activity(lp.spa, SPA_TRIM, SPA_START, NULL, 0, 0, false, &lp.e), 0);
	work_wait(lp.spa, "trim");
	assert_int_equal(pread(fd, at, sizeof(at), (off_t)(DISK_SIZE - (16 << 20))), sizeof(at));
	memcpy(&pattern, at, sizeof(at));
	assert_true(pattern == 0);
	close(fd);
	assert_int_equal(spa_activity(lp.spa, SPA_TRIM, SPA_SUSPEND, (const char *[]){lp.disk[0]}, 1, 0, false, &lp.e),
			 -ESRCH);
	assert_int_equal(spa_activity(lp.spa, SPA_INITIALIZE, SPA_UNINIT, NULL, 0, 0, false, &lp.e), 0);
	assert_string_equal(leaf_state(lp.spa, "init_state", word, sizeof(word)), "none");
	/* slowly, so that it can be suspended, and goes on after an import */
	assert_int_equal(spa_activity(lp.spa, SPA_TRIM, SPA_START, NULL, 0, 1 << 20, false, &lp.e), 0);
	assert_int_equal(spa_activity(lp.spa, SPA_TRIM, SPA_START, NULL, 0, 0, false, &lp.e), -EBUSY);
	assert_int_equal(spa_activity(lp.spa, SPA_TRIM, SPA_SUSPEND, NULL, 0, 0, false, &lp.e), 0);
	assert_string_equal(leaf_state(lp.spa, "trim_state", word, sizeof(word)), "suspended");
	reimport(&lp);
	assert_string_equal(leaf_state(lp.spa, "trim_state", word, sizeof(word)), "suspended");
	assert_int_equal(spa_activity(lp.spa, SPA_TRIM, SPA_CANCEL, NULL, 0, 0, false, &lp.e), 0);
	assert_string_equal(leaf_state(lp.spa, "trim_state", word, sizeof(word)), "canceled");
	fs_create(&lp, LIVEPOOL_NAME "/a");
	reimport(&lp);
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/a"));
	livepool_remove(&lp);
}

static void checkpoint(void **state)
{
	struct livepool lp;
	bool busy = true;

	livepool_files(&lp, 1, DISK_SIZE);
	livepool_create(&lp, NULL);
	fs_create(&lp, LIVEPOOL_NAME "/before");
	assert_int_equal(spa_checkpoint_discard(lp.spa, &lp.e), -ENOENT);
	assert_int_equal(spa_checkpoint(lp.spa, &lp.e), 0);
	assert_int_equal(spa_checkpoint(lp.spa, &lp.e), -EEXIST);
	fs_create(&lp, LIVEPOOL_NAME "/after");
	assert_int_equal(dsl_destroy_head(lp.spa->dsl, LIVEPOOL_NAME "/before", &lp.e), 0);
	reimport(&lp);
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/after"));
	livepool_export(&lp);
	assert_int_equal(
	    livepool_import_as(&lp, (struct spa_import){.writable = true, .rewind_checkpoint = true}, false), 0);
	assert_false(fs_is_there(&lp, LIVEPOOL_NAME "/after"));
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/before"));
	assert_int_equal(spa_checkpoint_discard(lp.spa, &lp.e), -ENOENT); /* went with the rewind */
	assert_int_equal(spa_checkpoint(lp.spa, &lp.e), 0);
	fs_create(&lp, LIVEPOOL_NAME "/after");
	assert_int_equal(spa_checkpoint_discard(lp.spa, &lp.e), 0);
	while (busy)
		assert_int_equal(spa_is_busy_with(lp.spa, "discard", &busy, NULL), 0);
	reimport(&lp);
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/after"));
	assert_true(fs_is_there(&lp, LIVEPOOL_NAME "/before"));
	assert_false(spa_feature_is_active(lp.spa, "com.delphix:zpool_checkpoint"));
	livepool_remove(&lp);
}

static void vdev_properties(void **state)
{
	struct livepool lp;
	autonv struct nvlist *values = nvlist_create(), *props = NULL;
	struct nvlist *one;

	livepool_files(&lp, 2, DISK_SIZE);
	livepool_create(&lp, NULL);
	nvlist_add_string(values, "comment", "left");
	nvlist_add_string(values, "allocating", "off");
	nvlist_add_string(values, "io_n", "7");
	assert_int_equal(spa_vdev_props_set(lp.spa, lp.disk[0], values, &lp.e), 0);
	assert_int_equal(spa_vdev_props_set(lp.spa, lp.disk[1], values, &lp.e), -ENOSPC);
	reimport(&lp);
	assert_true(lp.spa->root->child[0]->noalloc);
	assert_int_equal(spa_vdev_props_get(lp.spa, lp.spa->root->child[0], &props), 0);
	assert_int_equal(nvlist_list(props, "io_n", &one), 0);
	assert_string_equal(nvlist_string_or(one, "value", ""), "7");
	fs_create(&lp, LIVEPOOL_NAME "/a");
	livepool_remove(&lp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(add_and_remove),
	    cmocka_unit_test(offline_and_back),
	    cmocka_unit_test(a_log_device_is_used_after_the_group_that_made_its_space_maps),
	    cmocka_unit_test(grows),
	    cmocka_unit_test(initialize_and_trim),
	    cmocka_unit_test(checkpoint),
	    cmocka_unit_test(vdev_properties),
	};

	return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
