/*
 * dsl/dsl_snapshot.c: taking snapshots (03-datasets.md 4.1) and giving them other names (4.5).
 */
#include <time.h>

#include "base/os.h"
#include "base/str.h"
#include "dsl/dsl_write_impl.h"

#define FSID_MASK          ((UINT64_C(1) << 56) - 1)
#define TXG_INITIAL        4
#define BLOCKS_PER_NAME    3
#define FEATURE_BOOKMARK2  "com.datto:bookmark_v2"
#define FEATURE_EXTENSIBLE "com.delphix:extensible_dataset"

/* --- names --- */

/* "pool/fs@snap": the head, held, and where the snapshot's name starts. */
int dsl_snapname_split(struct dsl_pool *p, const char *full, struct dsl_dataset **head, const char **snap,
		       struct err *e)
{
	char fs[DSL_NAME_MAX];
	const char *at = strchr(full, '@');
	int err;

	if (!at || at == full || strchr(at + 1, '@') || strchr(at, '/'))
		return err_set(e, -EINVAL, "'%s' is no valid name of a snapshot", full);
	if (strlen(full) >= DSL_NAME_MAX)
		return err_set(e, -ENAMETOOLONG, "name is too long");
	err = dsl_component_check(at + 1, e);
	if (err)
		return err;
	str_copy(fs, sizeof(fs), full);
	fs[at - full] = '\0';
	*snap = at + 1;
	return dsl_dataset_hold(p, fs, head, e);
}

bool dsl_snapname_exists(struct dsl_dataset *head, const char *snap)
{
	struct dsl_pool *p = head->pool;
	char real[ZAP_NAME_MAX + 1];
	uint64_t object;

	if (head->flags & DSL_DS_CI)
		return zap_lookup_match(p->mos, head->snap_names, snap, ZAP_MATCH_NORMALIZED, 8, 1, &object, real) == 0;
	return zap_lookup_u64(p->mos, head->snap_names, snap, &object) == 0;
}

/* When the list of snapshots changed last (1.5). */
void dsl_snapshots_changed(struct dsl_dir *d, struct tx *tx)
{
	struct timespec now;
	uint64_t w[2];

	if (d->name[0] == '$' || strchr(d->name, '$') || !dsl_feature_enabled(d->pool, FEATURE_EXTENSIBLE))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	w[0] = (uint64_t)now.tv_sec;
	w[1] = (uint64_t)now.tv_nsec;
	dsl_dir_extend(d, tx);
	dsl_sync_check(d->pool, zap_update(d->pool->mos, d->object, "com.ixsystems:snapshots_changed", 8, 2, w, tx),
		       "a data set directory cannot be changed");
}

/* --- one snapshot --- */

/* What was before the head is before the snapshot now. */
static void prev_relink(struct dsl_dataset *head, uint64_t snap, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	struct dsl_edit prev;

	if (!head->prev_snap ||
	    dsl_sync_check(p, dsl_edit_begin(p, head->prev_snap, &prev), "a snapshot cannot be read"))
		return;
	if (prev.ds->next_snap == head->object) {
		prev.ds->next_snap = snap;
		dsl_dataset_store(prev.ds, tx);
	} else if (prev.ds->next_clones) {
		dsl_set_remove(p, prev.ds->next_clones, head->object, tx);
		dsl_set_add(p, &prev.ds->next_clones, DMU_OT_NEXT_CLONES, snap, tx);
	}
	dsl_edit_end(&prev);
}

/* The head's list becomes the snapshot's; the head gets an empty one with the same keys and that of the txg before. */
static void deadlist_pass_on(struct dsl_dataset *head, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	struct dsl_deadlist *dl = deadlist_get(p, head->deadlist), *fresh;
	uint64_t object = 0;

	if (!dl || dsl_sync_check(p, dsl_deadlist_clone(dl, head->prev_snap, UINT64_MAX, tx, &object),
				  "a deadlist cannot be made"))
		return;
	deadlist_drop(p, head->deadlist);
	head->deadlist = object;
	fresh = deadlist_get(p, object);
	if (!fresh)
		return;
	dsl_sync_check(p, dsl_deadlist_add_key(fresh, head->prev_snap_txg, tx), "a deadlist cannot be changed");
	dsl_bookmarks_snapshotted(head, head->prev_snap_txg, fresh, tx);
}

static void snapshot_fill(struct dsl_dataset *s, const struct dsl_dataset *head, uint64_t txg, uint64_t now)
{
	s->dir_object = head->dir->object;
	s->fsid_guid = os_random64() & FSID_MASK;
	s->guid = os_random64();
	s->prev_snap = head->prev_snap;
	s->prev_snap_txg = head->prev_snap_txg;
	s->next_snap = head->object;
	s->num_children = 1;
	s->creation_time = now;
	s->creation_txg = txg;
	s->deadlist = head->deadlist;
	s->used = head->used;
	s->compressed = head->compressed;
	s->uncompressed = head->uncompressed;
	s->flags = head->flags;
	s->bp = head->bp;
}

/* Keys of the head's extension ZAP that a snapshot takes over or has of its own. */
static void snapshot_extend(struct dsl_dataset *head, struct dsl_dataset *snap, struct tx *tx)
{
	struct dsl_pool *p = head->pool;

	dsl_dataset_features_copy(head, snap, tx);
	dsl_remap_give(snap, dsl_remap_take(head, tx), tx);
	if (head->dir->crypto_obj && dsl_feature_enabled(p, FEATURE_BOOKMARK2)) {
		dsl_dataset_extend(snap, tx);
		dsl_sync_check(
		    p, zap_add_u64(p->mos, snap->object, "com.datto:ivset_guid", MAX(1, os_random64() & FSID_MASK), tx),
		    "a data set cannot be changed");
	}
}

static uint64_t snapshot_object_create(struct dsl_dataset *head, uint64_t txg, uint64_t now, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	uint64_t object = dsl_mos_object(p, DMU_OT_DSL_DATASET, 0, DMU_OT_DSL_DATASET, 320, tx);
	struct dsl_edit e;

	if (!object || dsl_sync_check(p, dsl_edit_begin(p, object, &e), "a snapshot cannot be made"))
		return 0;
	snapshot_fill(e.ds, head, txg, now);
	dsl_dataset_store(e.ds, tx);
	snapshot_extend(head, e.ds, tx);
	dsl_edit_end(&e);
	return object;
}

uint64_t dsl_snapshot_sync(struct dsl_dataset *head, const char *name, uint64_t now, struct tx *tx)
{
	struct dsl_pool *p = head->pool;
	bool is_origin = name[0] == '$';
	uint64_t txg = is_origin || tx->txg <= TXG_INITIAL ? 1 : tx->txg;
	uint64_t reservation = is_origin ? 0 : dsl_dataset_refreservation(head);
	uint64_t object = snapshot_object_create(head, txg, now, tx);

	if (!object)
		return 0;
	if (!is_origin && name[0] != '%')
		dsl_limits_adjust(head->dir, true, 1, tx);
	prev_relink(head, object, tx);
	if (reservation)
		dsl_diduse(head->dir, DSL_USED_REFRSRV, (int64_t)MIN(head->unique, reservation), 0, 0, tx);
	deadlist_pass_on(head, tx);
	head->prev_snap = object;
	head->prev_snap_txg = txg;
	pthread_mutex_lock(&p->write->space);
	head->unique = 0;
	pthread_mutex_unlock(&p->write->space);
	head->flags |= DSL_DS_UNIQUE_ACCURATE;
	dsl_dataset_store(head, tx);
	dsl_dataset_bookmarks_changed(head);
	dsl_sync_check(p, zap_add_u64(p->mos, head->snap_names, name, object, tx), "a snapshot cannot be entered");
	dsl_snapshots_changed(head->dir, tx);
	return object;
}

/* --- the task --- */

struct snapshot_arg {
	struct dsl_pool *p;
	const char *const *names;
	size_t n;
	const struct nvlist *props;
	uint64_t now;
};

static int one_check(struct snapshot_arg *a, struct dsl_dataset *head, const char *snap, struct tx *tx, struct err *e)
{
	if (head->flags & DSL_DS_INCONSISTENT)
		return err_set(e, -EBUSY, "dataset '%s' is incomplete", head->name);
	if (dsl_snapname_exists(head, snap))
		return err_set(e, -EEXIST, "dataset already exists");
	if (tx->syncing && head->prev_snap_txg >= tx->txg)
		return -EAGAIN;
	return dsl_snapshot_space_check(head, e);
}

static int head_cmp(const void *a, const void *b)
{
	struct dsl_dataset *const *x = a, *const *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* No head twice; per dir the number of snapshots that come to be at or under it, against the limits. */
static int heads_check(struct dsl_dataset **head, size_t n, struct err *e)
{
	qsort(head, n, sizeof(struct dsl_dataset *), head_cmp);
	for (size_t i = 1; i < n; i++)
		if (head[i] == head[i - 1])
			return err_set(e, -EXDEV, "multiple snapshots of same fs not allowed");
	return dsl_limits_check_snapshots(head, n, e);
}

static int snapshot_check(void *arg, struct tx *tx, struct err *e)
{
	struct snapshot_arg *a = arg;
	autofree struct dsl_dataset **head = xcalloc(a->n + 1, sizeof(struct dsl_dataset *));
	const char *snap;
	size_t held = 0;
	int err = 0;

	for (; held < a->n && !err; held++) {
		err = dsl_snapname_split(a->p, a->names[held], &head[held], &snap, e);
		if (err)
			break;
		err = one_check(a, head[held], snap, tx, e);
	}
	if (!err)
		err = heads_check(head, held, e);
	for (size_t i = 0; i < held; i++)
		dsl_dataset_release(head[i]);
	return err;
}

static void one_sync(struct snapshot_arg *a, const char *name, struct tx *tx)
{
	struct dsl_dataset *head, *s;
	const char *snap;
	uint64_t object;

	if (dsl_sync_check(a->p, dsl_snapname_split(a->p, name, &head, &snap, NULL), "a data set cannot be read"))
		return;
	object = dsl_snapshot_sync(head, snap, a->now, tx);
	if (object && !dsl_sync_check(a->p, dsl_snapshot_hold_named(head->dir, object, snap, &s, NULL),
				      "a snapshot is not there")) {
		if (a->props)
			dsl_props_set_sync(s, a->props, tx);
		dsl_history(a->p, "snapshot", s, tx, "%s", "");
		dsl_dataset_release(s);
	}
	dsl_dataset_release(head);
}

static void snapshot_sync(void *arg, struct tx *tx)
{
	struct snapshot_arg *a = arg;

	for (size_t i = 0; i < a->n; i++)
		one_sync(a, a->names[i], tx);
}

/* What was promised to be safe before a crash is in the snapshot, though nobody has opened the volume since. */
static int heads_replay(struct dsl_pool *p, const char *const *names, size_t n, struct err *e)
{
	struct dsl_dataset *head;
	const char *snap;
	int err = 0;

	for (size_t i = 0; i < n && !err && p->replay_log; i++) {
		err = dsl_snapname_split(p, names[i], &head, &snap, e);
		if (err)
			break;
		err = p->replay_log(head, e);
		dsl_dataset_release(head);
	}
	return err;
}

int dsl_snapshot(struct dsl_pool *p, const char *const *names, size_t n, const struct nvlist *props, struct err *e)
{
	struct snapshot_arg a = {.p = p, .names = names, .n = n, .props = props, .now = dsl_time()};
	struct dsl_task t = {.check = snapshot_check,
			     .sync = snapshot_sync,
			     .arg = &a,
			     .blocks = (unsigned)(BLOCKS_PER_NAME * MIN(n, UINT32_MAX / 4))};
	int err = heads_replay(p, names, n, e);

	return n && !err ? dsl_task_run(p, &t, e) : err;
}
