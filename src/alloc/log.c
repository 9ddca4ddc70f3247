/*
 * log.c: the log of space maps: one map per group for all metaslabs, which take over what it has of them some groups
 * later (docs/format/06-allocation-and-vdevs.md 2.9). On the sync thread but for alloc_log_load.
 */
#include "alloc/alloc_impl.h"
#include "base/os.h"

TUNABLE(tunable_log_block_pct, "zfs_unflushed_log_block_pct", "%", 400, 1, 100000,
	"blocks that the log of space maps may have, as a share of the metaslabs that it has changes of");
TUNABLE(tunable_log_block_min, "zfs_unflushed_log_block_min", "blocks", 1000, 1, UINT32_MAX, "but at least so many");
TUNABLE(tunable_log_block_max, "zfs_unflushed_log_block_max", "blocks", 131072, 1, UINT32_MAX, "and at most so many");
TUNABLE(tunable_log_txg_max, "zfs_unflushed_log_txg_max", "groups", 1000, 1, UINT32_MAX,
	"how many groups the log of space maps reaches back");
TUNABLE(tunable_log_mem_amt, "zfs_unflushed_max_mem_amt", "bytes", 1 << 30, 0, UINT64_MAX,
	"memory for changes that are in the log of space maps only");
TUNABLE(tunable_log_mem_ppm, "zfs_unflushed_max_mem_ppm", "ppm", 1000, 0, 1000000,
	"and the same as a share of the machine's memory");
TUNABLE(tunable_min_flush, "zfs_min_metaslabs_to_flush", "", 1, 1, UINT32_MAX,
	"metaslabs that each group takes out of the log, at least");
TUNABLE(tunable_keep_logs, "zfs_keep_log_spacemaps_at_export", "", 0, 0, 1,
	"leave the log of space maps as it is when a pool is exported");

#define LOG_BLOCKSIZE   (128u << 10)
#define ARRAY_BLOCKSIZE (128u << 10)
#define FLUSH_SHARE     64 /* metaslabs are taken out of the log within so many groups when nothing hurries */

/* --- at the opening --- */

struct log_replay {
	struct alloc *a;
	uint64_t txg;
};

static int replay_entry(void *arg, const struct spacemap_entry *e)
{
	struct log_replay *r = arg;
	struct alloc_top *t = alloc_top_of(r->a, e->vdev);
	struct segset one = {0}, none = {0};
	int err;

	if (e->vdev >= r->a->root->nchildren)
		return -EINVAL;
	if (!t || t->vdev->kind == VDEV_INDIRECT)
		return vdev_is_concrete(r->a->root->child[e->vdev]) && !t ? -EINVAL : 0;
	struct ms *ms = ms_find(t, e->offset, e->run);
	if (!ms)
		return -EINVAL;
	if (r->txg < ms->unflushed_txg)
		return 0;
	uint64_t start = (e->offset - ms->start) >> ms->shift;
	segset_add(&one, start, start + (e->run >> ms->shift));
	err = e->free ? ms_log_apply(ms, &none, &one) : ms_log_apply(ms, &one, &none);
	segset_destroy(&one);
	return err;
}

static void log_append(struct alloc *a, uint64_t txg, uint64_t object, uint64_t blocks)
{
	a->log = xrealloc(a->log, (a->nlogs + 1) * sizeof(*a->log));
	a->log[a->nlogs++] = (struct log_map){txg, object, blocks};
}

static uint64_t blocks_of(uint64_t length)
{
	return (length + LOG_BLOCKSIZE - 1) / LOG_BLOCKSIZE;
}

static int replay(struct alloc *a, const struct spacemap_log *log, struct err *e)
{
	struct log_replay r = {a, log->txg};
	struct spacemap_header h;
	int err = spacemap_header_read(a->mos, log->object, &h);

	if (err == 0)
		err = spacemap_each(a->mos, log->object, 0, SPACEMAP_LOG_SHIFT, replay_entry, &r);
	if (err)
		return err_set(e, err, "log of space maps, group %llu: %s", (unsigned long long)log->txg,
			       err_words(err));
	log_append(a, log->txg, log->object, blocks_of(h.length));
	return 0;
}

int alloc_log_load(struct alloc *a, struct err *e)
{
	autofree struct spacemap_log *logs = NULL;
	size_t n;
	int err = a->mos ? zap_lookup_u64(a->mos, a->args.directory, KEY_LOGS, &a->log_zap) : -ENOENT;

	if (err == -ENOENT) {
		a->log_zap = 0;
		return 0;
	}
	if (err == 0)
		err = spacemap_log_list(a->mos, a->log_zap, &logs, &n);
	if (err)
		return err_set(e, err, "log of space maps: %s", err_words(err));
	for (size_t i = 0; i < n && err == 0; i++)
		err = replay(a, &logs[i], e);
	return err;
}

void alloc_log_drop(struct alloc *a)
{
	spacemap_close(a->log_open);
	free(a->log);
	a->log_open = NULL;
	a->log = NULL;
	a->nlogs = 0;
}

/* --- the group's log --- */

static int log_zap_create(struct alloc *a, struct tx *tx)
{
	int err = zap_create_in(a->mos, DMU_OTN_ZAP_METADATA, a->args.directory, KEY_LOGS, tx, &a->log_zap);

	if (err == 0)
		a->args.activate(a->args.arg, FEATURE_LOG, 1, tx);
	return err;
}

int alloc_log_open(struct alloc *a, struct tx *tx)
{
	uint64_t object;
	int err = 0;

	if (a->log_open)
		return 0;
	if (!a->log_zap)
		err = log_zap_create(a, tx);
	if (err == 0)
		err = alloc_map_create(a, LOG_BLOCKSIZE, tx, &object);
	if (err == 0)
		err = zap_add_int(a->mos, a->log_zap, tx->txg, object, tx);
	if (err == 0)
		err = spacemap_open(a->mos, object, 0, SPACEMAP_LOG_SHIFT, true, &a->log_open);
	if (err == 0)
		log_append(a, tx->txg, object, 0);
	return err;
}

int alloc_log_finish(struct alloc *a, struct tx *tx)
{
	uint64_t length = a->log_open ? spacemap_length(a->log_open) : 0;

	if (!a->log_open || length == a->log_written)
		return 0;
	a->log_written = length;
	a->log[a->nlogs - 1].blocks = blocks_of(length);
	return spacemap_header_write(a->log_open, NULL, tx);
}

void alloc_log_done(struct alloc *a)
{
	spacemap_close(a->log_open);
	a->log_open = NULL;
	a->log_written = 0;
}

/* --- what is in logs only --- */

static int unflushed_array_create(struct alloc_top *t, struct tx *tx)
{
	struct dmu_object spec = {.type = DMU_OTN_UINT64_METADATA, .blocksize = ARRAY_BLOCKSIZE};
	int err;

	if (!t->vdev->zap_top)
		return -ENOTSUP;
	err = dmu_object_alloc(t->a->mos, &spec, tx, &t->unflushed);
	return err ? err : zap_update_u64(t->a->mos, t->vdev->zap_top, KEY_UNFLUSHED, t->unflushed, tx);
}

int alloc_unflushed_set(struct ms *ms, uint64_t txg, struct tx *tx)
{
	struct alloc_top *t = ms->top;
	int err = alloc_log_open(t->a, tx); /* its group must have a log */

	if (err == 0 && !t->unflushed)
		err = unflushed_array_create(t, tx);
	if (err == 0)
		err = alloc_array_set(t->a, t->unflushed, ms->id, txg, tx);
	if (err == 0)
		ms->unflushed_txg = txg;
	return err;
}

/* Everything that the log is needed for: metaslabs oldest first, and sums. */
struct log_users {
	struct ms **ms;
	size_t n, changed; /* and of them with changes that are not in their own map */
	uint64_t segments; /* of those */
};

static int by_unflushed(const void *x, const void *y)
{
	const struct ms *a = *(struct ms *const *)x, *b = *(struct ms *const *)y;

	if (a->unflushed_txg != b->unflushed_txg)
		return a->unflushed_txg < b->unflushed_txg ? -1 : 1;
	return (a->start > b->start) - (a->start < b->start);
}

static void users_collect(struct alloc *a, struct log_users *u)
{
	const struct top_table *tops = alloc_tops(a);
	size_t room = 0;

	*u = (struct log_users){0};
	for (unsigned i = 0; i < tops->n; i++)
		room += tops->top[i] ? alloc_table(tops->top[i])->n : 0;
	u->ms = xcalloc(room + 1, sizeof(struct ms *));
	for (unsigned i = 0; i < tops->n; i++) {
		const struct ms_table *t = tops->top[i] ? alloc_table(tops->top[i]) : NULL;

		for (uint64_t m = 0; t && m < t->n; m++) {
			struct ms *ms = t->ms[m];
			size_t segments = segset_count(&ms->unflushed_allocs) + segset_count(&ms->unflushed_frees);

			if (!ms->unflushed_txg)
				continue;
			u->ms[u->n++] = ms;
			u->changed += segments > 0;
			u->segments += segments;
		}
	}
	qsort(u->ms, u->n, sizeof(struct ms *), by_unflushed);
}

static uint64_t memory_limit(void)
{
	return MIN(tunable_get(&tunable_log_mem_amt), os_memory_bytes() / 1000000 * tunable_get(&tunable_log_mem_ppm));
}

static uint64_t block_limit(const struct log_users *u)
{
	uint64_t want = u->changed * tunable_get(&tunable_log_block_pct) / 100;

	return MIN(MAX(want, tunable_get(&tunable_log_block_min)), tunable_get(&tunable_log_block_max));
}

/* The log is too long, reaches back too far or takes too much memory when metaslabs before `from` are out of it. */
static bool log_is_too_large(const struct alloc *a, const struct log_users *u, size_t from, uint64_t segments)
{
	uint64_t oldest = from < u->n ? u->ms[from]->unflushed_txg : UINT64_MAX, blocks = 0;
	size_t logs = 0;

	for (size_t i = 0; i < a->nlogs; i++) {
		if (a->log[i].txg < oldest)
			continue;
		blocks += a->log[i].blocks;
		logs++;
	}
	return blocks > block_limit(u) || logs > tunable_get(&tunable_log_txg_max) ||
	       segments * SEGSET_SEGMENT_BYTES / 2 > memory_limit();
}

static int logs_trim(struct alloc *a, struct tx *tx)
{
	uint64_t oldest = UINT64_MAX;
	struct log_users u;
	size_t keep = 0;
	int err = 0;

	users_collect(a, &u);
	if (u.n)
		oldest = u.ms[0]->unflushed_txg;
	free(u.ms);
	for (size_t i = 0; i < a->nlogs; i++) {
		if (err || a->log[i].txg >= oldest || a->log[i].txg == tx->txg) {
			a->log[keep++] = a->log[i];
			continue;
		}
		err = alloc_map_destroy(a, a->log[i].object, tx);
		if (err == 0)
			err = zap_remove_int(a->mos, a->log_zap, a->log[i].txg, tx);
	}
	a->nlogs = keep;
	return err;
}

int alloc_log_flush(struct alloc *a, struct tx *tx, bool all)
{
	uint64_t segments;
	struct log_users u;
	size_t least, i;
	int err = 0;

	if (tunable_get(&tunable_keep_logs))
		all = false;
	users_collect(a, &u);
	segments = u.segments;
	least = all ? u.n : MAX(tunable_get(&tunable_min_flush), u.n / FLUSH_SHARE);
	if (all && a->nlogs <= 1) /* what this group changes will be in a log again: one is as few as there can be */
		least = 0;
	for (i = 0; i < u.n && err == 0 && (i < least || log_is_too_large(a, &u, i, segments)); i++) {
		segments -= segset_count(&u.ms[i]->unflushed_allocs) + segset_count(&u.ms[i]->unflushed_frees);
		err = ms_flush(u.ms[i], tx);
	}
	free(u.ms);
	return err || i == 0 ? err : logs_trim(a, tx);
}
