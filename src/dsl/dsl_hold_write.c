/*
 * dsl/dsl_hold_write.c: taking and letting go of holds (03-datasets.md 4.9).
 */
#include <time.h>

#include "dsl/dsl_live.h"

#define TAG_MAX          255
#define VERSION_USERREFS 18

struct holds {
	struct dsl_pool *p;
	const char *const *names;
	size_t n;
	const char *tag;
	uint64_t now;
	size_t found; /* of the names */
};

/* *ds is held when 0 is returned; snapshots that do not exist are passed over (-ENOENT). */
static int snapshot_hold(struct holds *h, size_t i, struct dsl_dataset **ds, struct err *e)
{
	int err = dsl_dataset_hold(h->p, h->names[i], ds, NULL);

	if (err)
		return err == -ENOENT ? err : err_set(e, err, "%s", err_words(err));
	h->found++;
	if ((*ds)->is_snapshot)
		return 0;
	dsl_dataset_release(*ds);
	return err_set(e, -EINVAL, "'%s' is not a snapshot", h->names[i]);
}

/* Which of several snapshots is meant. */
static int refuse(struct holds *h, struct dsl_dataset *ds, int err, const char *why, struct err *e)
{
	if (h->n == 1)
		return err_set(e, err, "%s", why);
	return err_set(e, err, "'%s': %s", ds->name, why);
}

static bool tag_exists(struct dsl_dataset *snap, const char *tag)
{
	uint64_t time;

	return snap->userrefs && zap_lookup_u64(snap->pool->mos, snap->userrefs, tag, &time) == 0;
}

static int each_check(struct holds *h, int (*one)(struct holds *h, struct dsl_dataset *snap, struct err *e),
		      struct err *e)
{
	int err = 0;

	if (h->p->version < VERSION_USERREFS)
		return err_set(e, -ENOTSUP, "pool must be upgraded");
	if (strlen(h->tag) > TAG_MAX)
		return err_set(e, -E2BIG, "tag too long");
	h->found = 0;
	for (size_t i = 0; i < h->n && !err; i++) {
		struct dsl_dataset *ds;

		err = snapshot_hold(h, i, &ds, e);
		if (err == -ENOENT) {
			err = 0;
			continue;
		}
		if (!err) {
			err = one(h, ds, e);
			dsl_dataset_release(ds);
		}
	}
	if (!err && h->found == 0)
		err = err_set(e, -ENOENT, "dataset does not exist");
	return err;
}

static void each_sync(struct holds *h, void (*one)(struct holds *h, struct dsl_dataset *snap, struct tx *tx),
		      struct tx *tx)
{
	for (size_t i = 0; i < h->n; i++) {
		struct dsl_dataset *ds;
		int err = snapshot_hold(h, i, &ds, NULL);

		if (err == -ENOENT || dsl_sync_check(h->p, err, "a snapshot cannot be read"))
			continue;
		one(h, ds, tx);
		dsl_dataset_release(ds);
	}
}

/* --- hold --- */

static int hold_check_one(struct holds *h, struct dsl_dataset *snap, struct err *e)
{
	return tag_exists(snap, h->tag) ? refuse(h, snap, -EEXIST, "tag already exists on this dataset", e) : 0;
}

static int hold_check(void *arg, struct tx *tx, struct err *e)
{
	return each_check(arg, hold_check_one, e);
}

static void hold_sync_one(struct holds *h, struct dsl_dataset *snap, struct tx *tx)
{
	struct dsl_pool *p = h->p;

	if (!snap->userrefs) {
		snap->userrefs = dsl_mos_zap(p, DMU_OT_USERREFS, tx);
		dsl_dataset_store(snap, tx);
	}
	dsl_sync_check(p, zap_add_u64(p->mos, snap->userrefs, h->tag, h->now, tx), "a hold cannot be stored");
	dsl_history(p, "hold", snap, tx, "tag=%s temp=0", h->tag);
}

static void hold_sync(void *arg, struct tx *tx)
{
	each_sync(arg, hold_sync_one, tx);
}

int dsl_hold(struct dsl_pool *p, const char *const *snapshots, size_t n, const char *tag, struct err *e)
{
	struct holds h = {.p = p, .names = snapshots, .n = n, .tag = tag, .now = time(NULL)};
	struct dsl_task t = {
	    .check = hold_check, .sync = hold_sync, .arg = &h, .blocks = n, .policy = DSL_SPACE_RESERVED};

	return dsl_task_run(p, &t, e);
}

/* --- release --- */

static uint64_t holds_count(struct dsl_dataset *snap)
{
	uint64_t n = 0;

	if (snap->userrefs)
		dsl_sync_check(snap->pool, zap_count(snap->pool->mos, snap->userrefs, &n), "holds cannot be counted");
	return n;
}

static int release_check_one(struct holds *h, struct dsl_dataset *snap, struct err *e)
{
	uint64_t holds = 0;

	if (!tag_exists(snap, h->tag))
		return refuse(h, snap, -ESRCH, "no such tag on this dataset", e);
	if (zap_count(h->p->mos, snap->userrefs, &holds))
		return refuse(h, snap, -EIO, "holds cannot be counted", e);
	if (dsl_snapshot_goes_with_last_hold(snap, holds - 1) && dsl_dataset_is_busy(snap))
		return refuse(h, snap, -EBUSY, "dataset is busy", e);
	return 0;
}

static int release_check(void *arg, struct tx *tx, struct err *e)
{
	return each_check(arg, release_check_one, e);
}

static void release_sync_one(struct holds *h, struct dsl_dataset *snap, struct tx *tx)
{
	struct dsl_pool *p = h->p;
	uint64_t left;

	dsl_sync_check(p, zap_remove(p->mos, snap->userrefs, h->tag, tx), "a hold cannot be removed");
	left = holds_count(snap);
	dsl_history(p, "release", snap, tx, "tag=%s refs=%llu", h->tag, (unsigned long long)left);
	if (dsl_snapshot_goes_with_last_hold(snap, left))
		dsl_snapshot_destroy_sync(snap, tx);
}

static void release_sync(void *arg, struct tx *tx)
{
	each_sync(arg, release_sync_one, tx);
}

int dsl_release_hold(struct dsl_pool *p, const char *const *snapshots, size_t n, const char *tag, struct err *e)
{
	struct holds h = {.p = p, .names = snapshots, .n = n, .tag = tag};
	struct dsl_task t = {
	    .check = release_check, .sync = release_sync, .arg = &h, .blocks = n, .policy = DSL_SPACE_EXTRA};

	return dsl_task_run(p, &t, e);
}
