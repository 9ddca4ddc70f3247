/*
 * dsl/dsl_limits.c: counts of file systems and snapshots, and their limits (03-datasets.md 2.8).
 *
 * The daemon asks for limits on everybody's behalf; who may pass them is decided above.
 */
#include "dsl/dsl_write_impl.h"

#define FEATURE_LIMITS "com.joyent:filesystem_limits"
#define COUNT_FS       "com.joyent:filesystem_count"
#define COUNT_SNAPS    "com.joyent:snapshot_count"

bool dsl_limits_are_active(struct dsl_pool *p)
{
	return dsl_feature_refs(p, FEATURE_LIMITS) > 0;
}

static const char *count_key(bool snapshots)
{
	return snapshots ? COUNT_SNAPS : COUNT_FS;
}

/* False: the dir has no counts. */
bool dsl_limits_get(struct dsl_dir *d, uint64_t *fs, uint64_t *snaps)
{
	*fs = *snaps = 0;
	if (dsl_dir_ext_u64(d, COUNT_FS, fs))
		return false;
	if (dsl_dir_ext_u64(d, COUNT_SNAPS, snaps))
		*snaps = 0;
	return true;
}

void dsl_limits_adjust(struct dsl_dir *d, bool snapshots, int64_t delta, struct tx *tx)
{
	const char *key = count_key(snapshots);
	uint64_t count;

	for (; d && delta && dsl_dir_ext_u64(d, key, &count) == 0; d = d->up) {
		count += (uint64_t)delta;
		dsl_sync_check(d->pool, zap_update_u64(d->pool->mos, d->object, key, count, tx),
			       "a count cannot be changed");
	}
}

static uint64_t limit_of(struct dsl_dir *d, bool snapshots)
{
	const struct prop_value *v = prop_set_find(dsl_dir_props(d), snapshots ? "snapshot_limit" : "filesystem_limit",
						   PROP_VALUE);

	return v && !v->is_string ? v->number : UINT64_MAX;
}

static int one_check(struct dsl_dir *d, bool snapshots, uint64_t count, uint64_t delta, struct err *e)
{
	uint64_t limit = limit_of(d, snapshots);

	if (limit != UINT64_MAX && (count > limit || delta > limit - count))
		return err_set(e, -EDQUOT, "the %s limit of '%s' has been reached",
			       snapshots ? "snapshot" : "filesystem", d->name);
	return 0;
}

/* Up to, not including, `ancestor`. */
int dsl_limits_check_below(struct dsl_dir *d, const struct dsl_dir *ancestor, bool snapshots, uint64_t delta,
			   struct err *e)
{
	uint64_t count;
	int err = 0;

	for (; d && d != ancestor && !err && delta; d = d->up) {
		if (dsl_dir_ext_u64(d, count_key(snapshots), &count))
			break;
		err = one_check(d, snapshots, count, delta, e);
	}
	return err;
}

int dsl_limits_check(struct dsl_dir *d, bool snapshots, uint64_t delta, struct err *e)
{
	return dsl_limits_check_below(d, NULL, snapshots, delta, e);
}

/* A dir with a limit, and how many of the new snapshots are at or below it. */
struct limited {
	struct dsl_dir *dir;
	uint64_t delta;
};

static int limited_cmp(const void *a, const void *b)
{
	const struct limited *x = a, *y = b;

	return x->dir->object < y->dir->object ? -1 : x->dir->object > y->dir->object;
}

/* One entry for each head and limit above it; the limits are few, and a tree is not deep. */
static size_t limited_collect(struct dsl_dataset *const *head, size_t n, struct limited **out)
{
	struct limited *l = NULL;
	size_t len = 0, cap = 0;
	uint64_t count;

	for (size_t i = 0; i < n; i++) {
		for (struct dsl_dir *d = head[i]->dir; d && !dsl_dir_ext_u64(d, COUNT_SNAPS, &count); d = d->up) {
			if (limit_of(d, true) == UINT64_MAX)
				continue;
			if (len == cap) {
				cap = cap ? cap * 2 : 64;
				l = xrealloc(l, cap * sizeof(*l));
			}
			l[len++] = (struct limited){d, 1};
		}
	}
	*out = l;
	return len;
}

int dsl_limits_check_snapshots(struct dsl_dataset *const *head, size_t n, struct err *e)
{
	autofree struct limited *l = NULL;
	uint64_t count;
	size_t len;
	int err = 0;

	if (n == 0 || !dsl_limits_are_active(head[0]->pool))
		return 0;
	len = limited_collect(head, n, &l);
	if (len)
		qsort(l, len, sizeof(*l), limited_cmp);
	for (size_t i = 0; i < len && !err; i++) {
		if (i + 1 < len && l[i + 1].dir == l[i].dir)
			l[i + 1].delta += l[i].delta;
		else if (!dsl_dir_ext_u64(l[i].dir, COUNT_SNAPS, &count))
			err = one_check(l[i].dir, true, count, l[i].delta, e);
	}
	return err;
}

/* --- the first count of a subtree --- */

static uint64_t snapshots_count(struct dsl_dir *d)
{
	struct name_list l;
	struct dsl_edit head;
	uint64_t n = 0;

	if (!d->head || dsl_sync_check(d->pool, dsl_edit_begin(d->pool, d->head, &head), "a data set cannot be read"))
		return 0;
	if (!dsl_sync_check(d->pool, name_list_read(d->pool->mos, head.ds->snap_names, &l),
			    "snapshots cannot be counted")) {
		for (size_t i = 0; i < l.n; i++)
			n += l.e[i].name[0] != '%';
		name_list_free(&l);
	}
	dsl_edit_end(&head);
	return n;
}

struct counts {
	uint64_t fs, snaps;
	struct tx *tx;
};

static int child_count(void *arg, struct dsl_dir *child)
{
	struct counts *c = arg;
	uint64_t fs, snaps;

	dsl_limits_start(child, c->tx);
	dsl_limits_get(child, &fs, &snaps);
	c->fs += 1 + fs;
	c->snaps += snaps;
	return 0;
}

void dsl_limits_start(struct dsl_dir *d, struct tx *tx)
{
	struct dsl_pool *p = d->pool;
	struct counts c = {.tx = tx};
	uint64_t fs, snaps;

	if (!dsl_limits_are_active(p))
		dsl_feature_count(p, FEATURE_LIMITS, 1, tx);
	if (dsl_limits_get(d, &fs, &snaps))
		return;
	dsl_sync_check(p, dsl_each_child(d, child_count, &c), "file systems cannot be counted");
	c.snaps += snapshots_count(d);
	dsl_dir_extend(d, tx);
	dsl_sync_check(p, zap_update_u64(p->mos, d->object, COUNT_FS, c.fs, tx), "a count cannot be changed");
	dsl_sync_check(p, zap_update_u64(p->mos, d->object, COUNT_SNAPS, c.snaps, tx), "a count cannot be changed");
}
