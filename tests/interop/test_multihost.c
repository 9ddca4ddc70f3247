/*
 * Multihost pools that are written: marked as used between groups, watched and claimed before another host may have
 * them, suspended when no mark can be written. This host's id is what the test says (os_hostid is wrapped).
 */
#include "livepool.h"

#include "base/tunable.h"
#include "spa/spa_write.h"

#define DISK_SIZE (UINT64_C(96) << 20)

static uint32_t hostid;
uint32_t __wrap_os_hostid(void);
uint32_t __wrap_os_hostid(void)
{
	return hostid;
}

static struct uberblock newest;

static void newest_note(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	unsigned *last_slot = arg;

	if (uberblock_compare(ub, &newest) > 0) {
		newest = *ub;
		*last_slot = slot;
	}
}

static unsigned newest_read(const char *path)
{
	struct disk *d;
	unsigned slot = 0;

	newest = (struct uberblock){0};
	assert_int_equal(disk_open(path, DISK_RDONLY, &d, NULL), 0);
	for (unsigned l = 0; l < VDEV_LABELS; l++)
		uberblock_each(d, l, 9, newest_note, &slot);
	disk_close(d);
	return slot;
}

static void pool_make(struct livepool *lp)
{
	static const char *const props[] = {"multihost", "on", NULL};

	hostid = 17;
	assert_int_equal(tunable_set(&tunable_multihost_interval, 100, NULL), 0);
	assert_int_equal(tunable_set(&tunable_multihost_fail_intervals, 4, NULL), 0);
	assert_int_equal(tunable_set(&tunable_multihost_import_intervals, 2, NULL), 0);
	livepool_files(lp, 1, DISK_SIZE);
	livepool_create(lp, props);
}

static void marks_are_written(void **state)
{
	struct livepool lp;
	uint64_t txg, config;

	pool_make(&lp);
	spa_sync_now(lp.spa);
	txg = lp.spa->uberblock.txg;
	do { /* the last slot of some label, with a sequence number */
		usleep(20 * 1000);
	} while (newest_read(lp.disk[0]) != 127);
	assert_true(newest.txg >= txg);
	assert_int_equal(newest.mmp_magic, UBERBLOCK_MMP_MAGIC);
	assert_true(newest.mmp_delay > 0);
	assert_true(uberblock_mmp_sequence(&newest) > 0);
	config = newest.mmp_config;
	assert_int_equal(bits64(config, 8, 24), 100);
	assert_int_equal(bits64(config, 48, 16), 4);
	livepool_remove(&lp);
}

/* Off: nobody has to be waited for. On again: marks are written again. */
static void off_again(void **state)
{
	struct livepool lp;
	autonv struct nvlist *off = nvlist_create();

	pool_make(&lp);
	nvlist_add_string(off, "multihost", "off");
	assert_int_equal(spa_props_set(lp.spa, off, &lp.e), 0);
	spa_sync_now(lp.spa);
	assert_int_equal(lp.spa->uberblock.mmp_delay, 0);
	nvlist_add_string(off, "multihost", "on");
	assert_int_equal(spa_props_set(lp.spa, off, &lp.e), 0);
	do {
		usleep(20 * 1000);
	} while (newest_read(lp.disk[0]) != 127);
	nvlist_add_string(off, "multihost", "off");
	assert_int_equal(spa_props_set(lp.spa, off, &lp.e), 0);
	livepool_export(&lp);
	hostid = 0;
	livepool_import(&lp, true);
	nvlist_add_string(off, "multihost", "on");
	assert_int_equal(spa_props_set(lp.spa, off, &lp.e), -ENOTSUP);
	livepool_remove(&lp);
}

/* A copy of the devices, as another host would see them while this one goes on. */
static void files_copy(const struct livepool *from, struct livepool *to)
{
	livepool_files(to, from->ndisks, DISK_SIZE);
	for (unsigned i = 0; i < from->ndisks; i++) {
		autofree char *command = xasprintf("cp --sparse=always %s %s", from->disk[i], to->disk[i]);
		FILE *p = popen(command, "r");

		assert_non_null(p);
		assert_int_equal(pclose(p), 0);
	}
}

static void another_host(void **state)
{
	struct livepool lp, there;
	int err;

	pool_make(&lp);
	files_copy(&lp, &there); /* quiet, as after a crash */
	livepool_export(&lp);
	hostid = 18;
	err = livepool_import_as(&there, (struct spa_import){.writable = true}, false);
	assert_int_equal(err, -EBUSY); /* was not exported */
	err = livepool_import_as(&there, (struct spa_import){.writable = true, .force = true}, false);
	if (err)
		fail_msg("%s", there.e.text);
	assert_int_equal(nvlist_u64_or(there.spa->config, "hostid", 0), 18);
	livepool_remove(&there);
	hostid = 0; /* without an id nobody may have it */
	err = livepool_import_as(&lp, (struct spa_import){.writable = true, .force = true}, false);
	assert_int_equal(err, -EREMOTEIO);
	hostid = 17;
	livepool_import(&lp, true);
	livepool_remove(&lp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(marks_are_written),
	    cmocka_unit_test(off_again),
	    cmocka_unit_test(another_host),
	};

	return cmocka_run_group_tests_name("multihost", tests, NULL, NULL);
}
