/*
 * What was written over since an older txg. The space maps of the newest state tell in order what was freed and given
 * out again after it; where that was in use at the older txg, blocks of the older state are lost. Space maps that were
 * condensed meanwhile have forgotten, so the answer is a lower bound.
 */
#include "alloc/spacemap.h"
#include "spa/spa_impl.h"

#define RANGES_SHOWN 8

struct top_reuse {
	struct rangetree freed, reused; /* since txg */
	uint64_t *unflushed;            /* per metaslab: txg from which on the log counts (06 2.9); may be NULL */
	uint64_t n, ms_shift;
};
struct spa_reuse {
	struct top_reuse *top;
	unsigned n;
	uint64_t txg;
	uint64_t vdev; /* of the map being read */
	bool incomplete;
};

/* Moves what [start, end) has in common with `freed` to `reused`. */
static void reuse_range(struct top_reuse *t, uint64_t start, uint64_t end)
{
	struct range *r;

	while ((r = rangetree_overlap(&t->freed, start, end))) {
		uint64_t s = MAX(start, r->start), e = MIN(end, r->end);

		rangetree_add_any(&t->reused, s, e);
		rangetree_remove_any(&t->freed, s, e);
	}
}

/* A log entry whose change is in the metaslab's own map already. */
static bool is_flushed(const struct top_reuse *t, const struct spacemap_entry *e)
{
	uint64_t m = e->offset >> t->ms_shift;

	return t->unflushed && m < t->n && e->txg < t->unflushed[m];
}

static int entry_apply(void *arg, const struct spacemap_entry *e)
{
	struct spa_reuse *r = arg;
	bool in_log = r->vdev == UINT64_MAX;
	uint64_t vdev = in_log ? e->vdev : r->vdev;

	if (e->txg <= r->txg || vdev >= r->n || (in_log && is_flushed(&r->top[vdev], e)))
		return 0;
	if (e->free)
		rangetree_add_any(&r->top[vdev].freed, e->offset, e->offset + e->run);
	else
		reuse_range(&r->top[vdev], e->offset, e->offset + e->run);
	return 0;
}

static void top_maps_read(struct spa *spa, struct spa_reuse *r, const struct vdev *top)
{
	uint64_t n = top->ms_shift ? top->asize >> top->ms_shift : 0, object, start, size;
	struct dnode *dn;

	if (!vdev_is_concrete(top) || !top->ms_array || dnode_hold(spa->mos, top->ms_array, &dn, NULL))
		return;
	n = MIN(n, (dn->maxblkid + 1) * dn->datablksz / 8);
	r->vdev = top->id;
	for (uint64_t m = 0; m < n; m++) {
		metaslab_bounds(top, m, &start, &size);
		if (spa_words_read(dn, m, &object, 1) ||
		    (object && spacemap_each(spa->mos, object, start, (unsigned)top->ashift, entry_apply, r)))
			r->incomplete = true;
	}
	dnode_release(dn);
}

struct log_map {
	uint64_t txg, object;
};

static int log_order(const void *a, const void *b)
{
	const struct log_map *x = a, *y = b;

	return x->txg < y->txg ? -1 : x->txg > y->txg;
}

static size_t logs_list(struct spa *spa, struct log_map **out)
{
	autofree struct zap_entry *entry = xmalloc(sizeof(*entry));
	struct zap_cursor *c;
	uint64_t zap;
	size_t n = 0;

	*out = NULL;
	if (spa_mos_u64(spa->mos, "com.delphix:log_spacemap_zap", &zap) || zap_cursor_open(spa->mos, zap, 0, &c))
		return 0;
	while (zap_cursor_next(c, entry) == 0) {
		if (entry->key_words || entry->intsize != 8)
			continue;
		*out = xrealloc(*out, (n + 1) * sizeof(**out));
		(*out)[n++] = (struct log_map){strtoull(entry->name, NULL, 16), entry->first};
	}
	zap_cursor_close(c);
	if (n)
		qsort(*out, n, sizeof(**out), log_order);
	return n;
}

struct spa_reuse *spa_reuse_collect(struct spa *spa, uint64_t txg)
{
	struct spa_reuse *r = xcalloc(1, sizeof(*r));
	struct log_map *log;
	size_t nlogs;

	r->n = spa->root->nchildren;
	r->txg = txg;
	r->top = xcalloc(r->n + 1, sizeof(*r->top));
	for (unsigned i = 0; i < r->n; i++) {
		rangetree_init(&r->top[i].freed);
		rangetree_init(&r->top[i].reused);
		r->top[i].ms_shift = spa->root->child[i]->ms_shift;
		r->top[i].unflushed = spa_unflushed_txgs(spa, spa->root->child[i], &r->top[i].n);
		top_maps_read(spa, r, spa->root->child[i]);
	}
	nlogs = logs_list(spa, &log);
	r->vdev = UINT64_MAX; /* log entries name theirs */
	for (size_t i = 0; i < nlogs; i++)
		if (spacemap_each(spa->mos, log[i].object, 0, SECTOR_SHIFT, entry_apply, r))
			r->incomplete = true;
	free(log);
	return r;
}

/* Only what the older state really used counts. */
static uint64_t reused_bytes(const struct spacemap_pool *old, const struct spa_reuse *r, struct str *where)
{
	uint64_t total = 0;
	unsigned shown = 0;

	for (size_t i = 0; i < old->n; i++) {
		const struct metaslab_info *ms = &old->ms[i];
		const struct rangetree *reused = ms->vdev < r->n ? &r->top[ms->vdev].reused : NULL;

		for (struct range *x = rangetree_first(&ms->allocated); reused && x; x = rangetree_next(x)) {
			struct range *y = rangetree_overlap(reused, x->start, x->end);

			for (; y && y->start < x->end; y = rangetree_next(y)) {
				uint64_t s = MAX(x->start, y->start), e = MIN(x->end, y->end);

				total += e - s;
				if (shown++ < RANGES_SHOWN)
					str_addf(where, "%s%" PRIu64 ":%" PRIx64 ":%" PRIx64, where->len ? " " : "",
						 ms->vdev, s, e - s);
			}
		}
	}
	if (shown > RANGES_SHOWN)
		str_addf(where, " and %u more", shown - RANGES_SHOWN);
	return total;
}

void spa_reuse_note(struct spa *spa, struct spa_reuse *r)
{
	struct spacemap_pool old;
	struct str where = {0};
	uint64_t log = 0, bytes = 0;

	spa_mos_u64(spa->mos, "com.delphix:log_spacemap_zap", &log);
	if (spacemap_load_pool(spa->mos, spa->root, log, &old, NULL)) {
		for (unsigned i = 0; i < r->n; i++)
			bytes += r->top[i].reused.space;
		spa_note(spa,
			 "space maps of this state have been written over: at least %" PRIu64
			 " bytes were freed and used again since txg %" PRIu64 ", which of its blocks is not known",
			 bytes, r->txg);
		return;
	}
	bytes = reused_bytes(&old, r, &where);
	nvlist_add_u64(spa->load_info, "reused_bytes", bytes);
	if (bytes)
		spa_note(spa,
			 "at least %" PRIu64
			 " bytes of this state have been written over since (device:offset:size in hex): %s",
			 bytes, str_get(&where));
	else
		spa_note(spa,
			 "the space maps show no block of this state that was reused since; they forget, so some may "
			 "have been%s",
			 r->incomplete ? " (and some could not be read)" : "");
	str_free(&where);
	spacemap_free_pool(&old);
}

void spa_reuse_destroy(struct spa_reuse *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->n; i++) {
		rangetree_clear(&r->top[i].freed);
		rangetree_clear(&r->top[i].reused);
		free(r->top[i].unflushed);
	}
	free(r->top);
	free(r);
}
