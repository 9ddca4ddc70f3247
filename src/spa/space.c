/*
 * Space of the pool by top-level device and class (docs/format/01-pool.md 11.4, 11.5; 06 2.9). Sizes come from the
 * configuration alone; what is allocated from the headers of the space maps and their log, read at first use.
 */
#include "alloc/spacemap.h"
#include "dsl/ddt.h"
#include "spa/spa_write.h"

#define METASLABS_MAX     (1u << 24)
#define EMBEDDED_LOG_MIN  64 /* top-levels with more metaslabs set one apart for log blocks */
#define SLOP_SHIFT        5
#define SLOP_MAX          (UINT64_C(128) << 30)
#define SLOP_MIN          (UINT64_C(128) << 20)
#define HISTOGRAM_BUCKETS 32

/* Percent by bucket size 512 B, 1 K, 2 K, ... (06 3.2). */
static const uint8_t fragmentation_weight[] = {100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50,
					       43,  36, 29, 23, 17, 12, 7,  3,  1,  0};

static uint64_t metaslab_count(const struct vdev *top)
{
	uint64_t n = top->ms_shift ? top->asize >> top->ms_shift : 0;

	return vdev_is_concrete(top) && n <= METASLABS_MAX ? n : 0;
}

static uint64_t top_size(const struct vdev *top)
{
	uint64_t total = 0, start, size;

	for (uint64_t m = 0; m < metaslab_count(top); m++) {
		metaslab_bounds(top, m, &start, &size);
		total += size;
	}
	return total;
}

static uint64_t deflate(const struct vdev *top, uint64_t bytes)
{
	return (bytes >> 9) * vdev_deflate_ratio(top);
}

static uint64_t embedded_log_size(const struct vdev *top)
{
	if (spa_top_class(top) != SPA_CLASS_NORMAL || metaslab_count(top) <= EMBEDDED_LOG_MIN)
		return 0;
	return UINT64_C(1) << top->ms_shift;
}

static uint64_t checkpoint_space(struct spa *spa, const struct vdev *top)
{
	struct spacemap_header h;
	uint64_t object;

	if (!top->zap_top || zap_lookup_u64(spa->mos, top->zap_top, "com.delphix:pool_checkpoint_sm", &object) ||
	    spacemap_header_read(spa->mos, object, &h))
		return 0;
	return 0 - h.alloc; /* all its entries are frees */
}

uint64_t spa_expand_size(const struct vdev *vd)
{
	uint64_t most = vd->top == vd && vd->ms_shift ? vdev_max_asize(vd) : 0;

	return most > vd->asize ? ROUND_DOWN(most - vd->asize, UINT64_C(1) << vd->ms_shift) : 0;
}

/* --- what is available to data sets --- */
uint64_t spa_dedup_saved(struct spa *spa, uint64_t *dspace, uint64_t *used)
{
	struct nvlist *l;
	uint64_t stored, referenced;

	if (!spa->dsl || ddt_stats_get(spa->dsl, &l))
		return 0;
	stored = nvlist_u64_or(l, "dedup_dsize", 0);
	referenced = nvlist_u64_or(l, "ref_dsize", 0);
	nvlist_destroy(l);
	if (dspace)
		*dspace = referenced;
	if (used)
		*used = stored;
	return referenced > stored ? referenced - stored : 0;
}

void spa_clone_stats(struct spa *spa, uint64_t *used, uint64_t *saved)
{
	struct nvlist *l;

	*used = *saved = 0;
	if (!spa->dsl || brt_stats_get(spa->dsl, &l))
		return;
	*used = nvlist_u64_or(l, "used", 0);
	*saved = nvlist_u64_or(l, "saved", 0);
	nvlist_destroy(l);
}

/* Bytes of frees put off to the next txg: still allocated, but nobody's. */
static uint64_t deferred_frees(struct spa *spa)
{
	uint64_t object, bytes = 0;
	struct dnode *dn;

	if (spa_mos_u64(spa->mos, "sync_bplist", &object) || dnode_hold(spa->mos, object, &dn, NULL))
		return 0;
	bytes = spa_bonus_word(dn, 1);
	dnode_release(dn);
	return bytes;
}

static uint64_t slop(uint64_t dspace, uint64_t embedded)
{
	uint64_t s = MIN(dspace >> SLOP_SHIFT, SLOP_MAX);

	s -= MIN(embedded, s / 2);
	return MAX(s, MIN(dspace / 2, SLOP_MIN));
}

/* Allocated space of the special and dedup classes is left out, as OpenZFS leaves it out of pools it opens read-only.
 */
uint64_t spa_usable_bytes(struct spa *spa)
{
	uint64_t normal = 0, embedded = 0, taken = deferred_frees(spa), clone_used, clone_saved, usable;

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];
		uint64_t log = embedded_log_size(top);

		if (!vdev_is_concrete(top) || spa_top_class(top) != SPA_CLASS_NORMAL)
			continue;
		taken += checkpoint_space(spa, top);
		embedded += deflate(top, log);
		if (!top->noalloc)
			normal += deflate(top, top_size(top) - log);
	}
	spa_clone_stats(spa, &clone_used, &clone_saved);
	usable = normal + spa_dedup_saved(spa, NULL, NULL) + clone_saved;
	taken += slop(normal, embedded);
	return usable > taken ? usable - taken : 0;
}

/* --- what is allocated --- */
struct top_maps {
	const struct vdev *top;
	struct spa_top_space *space;
	uint64_t n;
	uint64_t *object;              /* of each metaslab's map, 0: never used */
	uint64_t *unflushed;           /* txg from which on changes are in the log; NULL without log */
	uint64_t free_bytes, weighted; /* for fragmentation */
	bool no_histogram;
};

static int words_of_object(struct objset *mos, uint64_t object, uint64_t *out, uint64_t n)
{
	struct dnode *dn;
	uint64_t there;
	int err = dnode_hold(mos, object, &dn, NULL);

	if (err)
		return err;
	there = (dn->maxblkid + 1) * dn->datablksz / 8;
	err = spa_words_read(dn, 0, out, MIN(n, there));
	dnode_release(dn);
	return err;
}

uint64_t *spa_unflushed_txgs(struct spa *spa, const struct vdev *top, uint64_t *n)
{
	uint64_t object, *out;

	*n = metaslab_count(top);
	if (*n == 0 || !top->zap_top ||
	    zap_lookup_u64(spa->mos, top->zap_top, "com.delphix:ms_unflushed_phys_txgs", &object))
		return NULL;
	out = calloc(*n, sizeof(*out));
	if (out && words_of_object(spa->mos, object, out, *n)) {
		free(out);
		return NULL;
	}
	return out;
}

static void top_maps_open(struct spa *spa, const struct vdev *top, struct spa_top_space *space, struct top_maps *t)
{
	*t = (struct top_maps){.top = top, .space = space};
	t->unflushed = spa_unflushed_txgs(spa, top, &t->n);
	if (t->n == 0)
		return;
	t->object = calloc(t->n, sizeof(*t->object));
	if (!t->object || (top->ms_array && words_of_object(spa->mos, top->ms_array, t->object, t->n)))
		t->n = 0;
}

static void free_space_add(struct top_maps *t, const struct spacemap_header *h, uint64_t size)
{
	uint64_t before = t->free_bytes;

	for (unsigned b = 0; b < HISTOGRAM_BUCKETS && b + t->top->ashift < 63; b++) {
		unsigned shift = b + (unsigned)t->top->ashift, w = MIN(shift - 9, ARRAY_LEN(fragmentation_weight) - 1);
		uint64_t bytes = MIN(h->histogram[b], UINT64_MAX >> (shift + 8)) << shift;

		t->free_bytes += bytes;
		t->weighted += bytes / 100 * fragmentation_weight[w];
	}
	if (t->free_bytes == before && h->alloc < size)
		t->no_histogram = true;
}

static void metaslabs_add(struct spa *spa, struct top_maps *t)
{
	for (uint64_t m = 0; m < t->n; m++) {
		struct spacemap_header h;
		uint64_t start, size;

		metaslab_bounds(t->top, m, &start, &size);
		if (t->object[m] == 0) {
			t->free_bytes += size;
			continue;
		}
		if (spacemap_header_read(spa->mos, t->object[m], &h))
			continue;
		t->space->allocated += h.alloc;
		free_space_add(t, &h, size);
	}
}

struct log_reader {
	struct top_maps *tops;
	unsigned ntops;
	uint64_t txg;
};

static int log_entry(void *arg, const struct spacemap_entry *e)
{
	struct log_reader *r = arg;
	struct top_maps *t = e->vdev < r->ntops ? &r->tops[e->vdev] : NULL;
	uint64_t m = t && t->n ? e->offset >> t->top->ms_shift : UINT64_MAX;

	if (!t || m >= t->n || (t->unflushed && r->txg < t->unflushed[m]))
		return 0;
	t->space->allocated += e->free ? 0 - e->run : e->run;
	return 0;
}

static void logs_add(struct spa *spa, struct top_maps *tops, unsigned ntops)
{
	autofree struct zap_entry *entry = xmalloc(sizeof(*entry));
	struct log_reader r = {tops, ntops, 0};
	struct zap_cursor *c;
	uint64_t zap;
	int err;

	if (spa_mos_u64(spa->mos, "com.delphix:log_spacemap_zap", &zap) || zap_cursor_open(spa->mos, zap, 0, &c))
		return;
	while ((err = zap_cursor_next(c, entry)) != -ENOENT) {
		if (err && err != -EIO)
			break;
		if (err || entry->key_words || entry->intsize != 8)
			continue;
		r.txg = strtoull(entry->name, NULL, 16);
		spacemap_each(spa->mos, entry->first, 0, SECTOR_SHIFT, log_entry, &r);
	}
	zap_cursor_close(c);
}

static void top_finish(struct top_maps *t)
{
	struct spa_top_space *s = t->space;

	s->allocated = (int64_t)s->allocated < 0 ? 0 : MIN(s->allocated, s->size);
	s->usable = deflate(t->top, s->size - s->embedded_log);
	s->embedded_usable = deflate(t->top, s->embedded_log);
	s->used = MIN(deflate(t->top, s->allocated), s->usable);
	s->fragmentation = UINT64_MAX;
	if (!t->no_histogram && t->n)
		s->fragmentation = t->free_bytes ? t->weighted / (t->free_bytes / 100 + 1) : 0;
	free(t->object);
	free(t->unflushed);
}

static void space_load(struct spa *spa)
{
	struct spa_priv *pr = spa_priv(spa);
	unsigned n = spa->root->nchildren;
	struct top_maps *tops = xcalloc(n + 1, sizeof(*tops));

	pr->space = xcalloc(n + 1, sizeof(*pr->space));
	for (unsigned i = 0; i < n; i++) {
		const struct vdev *top = spa->root->child[i];
		struct spa_top_space *s = &pr->space[i];

		s->class = spa_top_class(top);
		s->known = vdev_is_concrete(top) && top->ms_shift;
		s->size = top_size(top);
		s->checkpoint = checkpoint_space(spa, top);
		s->embedded_log = embedded_log_size(top);
		s->expand = s->known ? spa_expand_size(top) : 0;
		top_maps_open(spa, top, s, &tops[i]);
		metaslabs_add(spa, &tops[i]);
	}
	logs_add(spa, tops, n);
	for (unsigned i = 0; i < n; i++)
		top_finish(&tops[i]);
	free(tops);
	pr->space_loaded = true;
}

struct spa_top_space *spa_space(struct spa *spa)
{
	size_t size = (spa->root->nchildren + 1) * sizeof(*spa_priv(spa)->space);
	struct spa_top_space *copy;
	SCOPED_LOCK(&spa_priv(spa)->space_lock);

	if (spa_priv(spa)->writer)
		return spa_space_live(spa);
	if (!spa_priv(spa)->space_loaded)
		space_load(spa);
	copy = xmalloc(size);
	memcpy(copy, spa_priv(spa)->space, size);
	return copy;
}

/* --- of a pool that is written, as the allocator has it --- */
struct spa_top_space *spa_space_live(struct spa *spa)
{
	struct spa_writer *w = spa_priv(spa)->writer;
	struct spa_top_space *out = xcalloc(spa->root->nchildren + 1, sizeof(*out));

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];
		struct spa_top_space *s = &out[i];
		struct alloc_space a = {.fragmentation = UINT64_MAX};

		s->class = spa_top_class(top);
		s->known = vdev_is_concrete(top) && top->ms_shift;
		if (s->known && w->alloc)
			alloc_top_space(w->alloc, top, &a);
		s->size = a.size;
		s->allocated = a.allocated;
		s->fragmentation = a.fragmentation;
		s->checkpoint = a.checkpointed;
		s->usable = a.usable;
		s->used = a.used;
		s->embedded_log = a.embedded_log;
		s->embedded_usable = a.embedded_usable;
		s->expand = s->known ? spa_expand_size(top) : 0;
	}
	return out;
}

/* Space that dedup and cloning save counts as space of the pool (11.5). Reading the tables takes a while. */
static uint64_t saved_once(struct spa *spa)
{
	struct spa_writer *w = spa_priv(spa)->writer;
	uint64_t used, saved;

	if (spa->dsl && !w->space_saved_known) {
		spa_clone_stats(spa, &used, &saved);
		w->space_saved = spa_dedup_saved(spa, NULL, NULL) + saved;
		w->space_saved_known = true;
	}
	return w->space_saved;
}

/* After each group: what data sets may use. */
void spa_space_update(struct spa *spa)
{
	struct spa_writer *w = spa_priv(spa)->writer;
	uint64_t taken = w->has_deferred ? deferred_frees(spa) : 0, whole, kept_back;
	struct alloc_sums sum;

	alloc_sums(w->alloc, &sum);
	whole = sum.normal + sum.special + saved_once(spa);
	taken += sum.kept;
	kept_back = slop(sum.normal, sum.embedded);
	atomic_store(&w->space_whole, whole > taken ? whole - taken : 0);
	atomic_store(&w->space_slop, kept_back);
	if (spa->dsl)
		__atomic_store_n(&spa->dsl->usable_bytes, whole > taken + kept_back ? whole - taken - kept_back : 0,
				 __ATOMIC_RELAXED);
}
