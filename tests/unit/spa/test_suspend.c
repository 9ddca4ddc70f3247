/*
 * Pools whose device fails under them: suspended by their failmode, resumed when it is well again, or given up.
 */
#include "livepool.h"

#include <pthread.h>
#include <sys/wait.h>

#include "base/sync.h"
#include "disk/sparse.h"
#include "disk/testdisk.h"
#include "dsl/dsl_write.h"

#define DISK_SIZE (UINT64_C(96) << 20)

/* A device that fails, or goes, when told to. It may be open more than once; requests are served where they are made.
 */
struct device {
	struct testdisk_path path;
	struct sparse *bytes;
	pthread_mutex_t lock; /* guards bytes */
	atomic_bool fail, gone;
};

struct opened {
	struct disk disk;
	struct device *d;
};

static int serve(struct device *d, struct disk_req *r)
{
	uint64_t at = r->offset;
	SCOPED_LOCK(&d->lock);

	if (atomic_load(&d->gone))
		return -ENXIO;
	if (r->op != DISK_READ && atomic_load(&d->fail))
		return -EIO;
	if (r->op == DISK_DISCARD)
		sparse_zero(d->bytes, r->offset, r->length);
	for (unsigned i = 0; r->op == DISK_READ || r->op == DISK_WRITE ? i < r->niov : false; i++) {
		if (r->op == DISK_READ)
			sparse_read(d->bytes, at, r->iov[i].iov_base, r->iov[i].iov_len);
		else
			sparse_write(d->bytes, at, r->iov[i].iov_base, r->iov[i].iov_len);
		at += r->iov[i].iov_len;
	}
	return 0;
}

static void opened_submit(struct disk *disk, struct disk_req *r)
{
	r->done(r, serve(((struct opened *)disk)->d, r));
}

static void opened_close(struct disk *disk)
{
	free(disk);
}

static const struct disk_ops opened_ops = {.kind = "test", .submit = opened_submit, .close = opened_close};

static int device_open(void *arg, unsigned flags, struct disk **out, struct err *e)
{
	struct device *d = arg;
	struct opened *o;

	if (atomic_load(&d->gone))
		return err_set(e, -ENOENT, "%s: gone", d->path.path);
	o = xcalloc(1, sizeof(*o));
	o->disk = (struct disk){.ops = &opened_ops,
				.size = DISK_SIZE,
				.block_size = 512,
				.physical_block_size = 512,
				.writable = flags & DISK_RDWR,
				.discards = true,
				.path = xstrdup(d->path.path)};
	o->d = d;
	*out = &o->disk;
	return 0;
}

static void pool_open(struct livepool *lp, struct device *d, const char *failmode)
{
	const char *const props[] = {"failmode", failmode, NULL};

	livepool_files(lp, 1, DISK_SIZE);
	memset(d, 0, sizeof(*d));
	d->bytes = sparse_create(DISK_SIZE, NULL);
	pthread_mutex_init(&d->lock, NULL);
	d->path = (struct testdisk_path){.path = lp->disk[0], .open = device_open, .arg = d};
	testdisk_publish(&d->path);
	livepool_create(lp, props);
}

static void pool_close(struct livepool *lp, struct device *d)
{
	livepool_remove(lp);
	testdisk_withdraw(&d->path);
	sparse_destroy(d->bytes);
}

/* --- somebody who changes something meanwhile --- */
struct change {
	pthread_t thread;
	struct spa *spa;
	const char *name;
	int err;
};

static void *change_run(void *arg)
{
	struct change *c = arg;
	const struct dsl_create create = {.name = c->name, .type = DSL_FILESYSTEM, .init = livepool_root_init};

	c->err = dsl_create(c->spa->dsl, &create, NULL);
	return NULL;
}

static void change_start(struct change *c, struct spa *spa, const char *name)
{
	*c = (struct change){.spa = spa, .name = name};
	assert_int_equal(pthread_create(&c->thread, NULL, change_run, c), 0);
}

static int change_end(struct change *c)
{
	pthread_join(c->thread, NULL);
	return c->err;
}

static void suspension_wait(struct spa *spa)
{
	while (!spa_is_suspended(spa))
		usleep(1000);
}

static bool has_fs(struct spa *spa, const char *name)
{
	struct dsl_dataset *ds;

	if (dsl_dataset_hold(spa->dsl, name, &ds, NULL))
		return false;
	dsl_dataset_release(ds);
	return true;
}

static void assert_status(struct spa *spa, const char *state, const char *reason)
{
	autonv struct nvlist *status = NULL;

	assert_int_equal(spa_status(spa, false, &status), 0);
	assert_string_equal(nvlist_string_or(status, "state", ""), state);
	assert_string_equal(nvlist_string_or(status, "reason", ""), reason);
}

static void waits_and_resumes(void **state)
{
	struct livepool lp;
	struct device d;
	struct change c;

	pool_open(&lp, &d, "wait");
	atomic_store(&d.fail, true);
	change_start(&c, lp.spa, LIVEPOOL_NAME "/a");
	suspension_wait(lp.spa);
	assert_status(lp.spa, "SUSPENDED", "io-failure-wait");
	assert_int_equal(spa_export(lp.spa, &lp.e), -EAGAIN);
	spa_clear(lp.spa, NULL, &lp.e); /* it still fails: suspended again */
	suspension_wait(lp.spa);
	atomic_store(&d.fail, false);
	while (spa_is_suspended(lp.spa))
		assert_int_equal(spa_clear(lp.spa, NULL, &lp.e), 0);
	assert_int_equal(change_end(&c), 0);
	assert_status(lp.spa, "ONLINE", "ok");
	livepool_export(&lp);
	livepool_import(&lp, true);
	assert_true(has_fs(lp.spa, LIVEPOOL_NAME "/a"));
	pool_close(&lp, &d);
}

static void goes_and_returns(void **state)
{
	struct livepool lp;
	struct device d;
	struct change c;

	pool_open(&lp, &d, "wait");
	atomic_store(&d.gone, true);
	change_start(&c, lp.spa, LIVEPOOL_NAME "/a");
	suspension_wait(lp.spa);
	spa_clear(lp.spa, NULL, &lp.e);
	suspension_wait(lp.spa);
	atomic_store(&d.gone, false);
	while (spa_is_suspended(lp.spa))
		assert_int_equal(spa_clear(lp.spa, NULL, &lp.e), 0);
	assert_int_equal(change_end(&c), 0);
	livepool_export(&lp);
	livepool_import(&lp, true);
	assert_true(has_fs(lp.spa, LIVEPOOL_NAME "/a"));
	pool_close(&lp, &d);
}

/* failmode=continue: what is new fails, what is under way waits. */
static void continues(void **state)
{
	struct livepool lp;
	struct device d;
	struct change c;
	struct tx tx = {.bytes = 4096};

	pool_open(&lp, &d, "continue");
	atomic_store(&d.fail, true);
	change_start(&c, lp.spa, LIVEPOOL_NAME "/a");
	suspension_wait(lp.spa);
	assert_status(lp.spa, "SUSPENDED", "io-failure-continue");
	assert_int_equal(tx_begin_wait(lp.spa->dp.txgs, &tx), -EIO);
	atomic_store(&d.fail, false);
	while (spa_is_suspended(lp.spa))
		assert_int_equal(spa_clear(lp.spa, NULL, &lp.e), 0);
	assert_int_equal(change_end(&c), 0);
	pool_close(&lp, &d);
}

/* A pool whose device never comes back is dropped, and is as it was before when it does after all. */
static void is_given_up(void **state)
{
	struct livepool lp;
	struct device d;
	struct change c;
	char *lost;

	pool_open(&lp, &d, "wait");
	change_start(&c, lp.spa, LIVEPOOL_NAME "/kept");
	assert_int_equal(change_end(&c), 0);
	atomic_store(&d.gone, true);
	change_start(&c, lp.spa, LIVEPOOL_NAME "/lost");
	suspension_wait(lp.spa);
	spa_abandon(lp.spa, &lost);
	assert_int_equal(change_end(&c), -EIO);
	free(lost);
	livepool_export(&lp);
	atomic_store(&d.gone, false);
	livepool_import(&lp, true);
	assert_true(has_fs(lp.spa, LIVEPOOL_NAME "/kept"));
	assert_false(has_fs(lp.spa, LIVEPOOL_NAME "/lost"));
	pool_close(&lp, &d);
}

/* A pool that cannot be made leaves nothing behind, neither here nor on the devices. */
static void creation_fails(void **state)
{
	struct livepool lp;
	struct device d;
	autonv struct nvlist *tree = NULL;

	pool_open(&lp, &d, "wait");
	assert_int_equal(spa_destroy_pool(lp.spa, &lp.e), 0);
	lp.spa = NULL;
	tree = livepool_tree(&lp, 0, 1, false);
	atomic_store(&d.fail, true);
	assert_true(livepool_create_tree(&lp, tree, NULL) < 0);
	atomic_store(&d.fail, false);
	assert_null(livepool_find(&lp, false));
	assert_int_equal(livepool_create_tree(&lp, tree, NULL), 0);
	pool_close(&lp, &d);
}

static void panics(void **state)
{
	struct livepool lp;
	struct device d;
	struct change c;
	int status;
	pid_t child;

	fflush(NULL);
	child = fork(); /* before anything of a pool runs in this process's threads that the child would need */
	if (child == 0) {
		freopen("/dev/null", "w", stderr);
		pool_open(&lp, &d, "panic");
		atomic_store(&d.fail, true);
		change_start(&c, lp.spa, LIVEPOOL_NAME "/a");
		change_end(&c);
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(panics),    cmocka_unit_test(waits_and_resumes), cmocka_unit_test(goes_and_returns),
	    cmocka_unit_test(continues), cmocka_unit_test(is_given_up),       cmocka_unit_test(creation_fails),
	};

	return cmocka_run_group_tests_name("suspend", tests, NULL, NULL);
}
