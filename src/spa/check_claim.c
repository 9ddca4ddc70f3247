/* The leak check: space maps against blocks. */
#include "spa/check_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "alloc/spacemap.h"
#include "base/hash.h"
#include "base/str.h"
#include "dmu/bpobj.h"
#include "dsl/ddt.h"

#define GANG_SIZE      512u
#define GANG_DEPTH_MAX 16u
#define GANG_SLOTS_MAX 512u
#define TELL_MAX       1000u /* contradictions that are printed one by one */

/* A block that may be met more than once. */
struct shared {
	uint64_t offset;
	uint32_t vdev;
	uint32_t seen; /* 0 together with table false: a free slot */
	bool used, cloned;
};

struct spa_claims {
	struct spa *spa;
	struct spa_check *check;
	bool leaks; /* the space maps are loaded and looked at */
	struct spacemap_pool sm;
	size_t *first; /* per top-level: its first metaslab in sm */
	struct shared *shared;
	size_t nshared, room;
	bool has_clones;
	/* the block being claimed */
	const struct bp *bp;
	const struct zbookmark *zb;
};

/* ---- the table of shared blocks: open addressing, at most two thirds full ---- */

static struct shared *shared_slot(const struct spa_claims *c, uint64_t vdev, uint64_t offset)
{
	size_t at = (size_t)hash_mix(vdev, offset) & (c->room - 1);

	while (c->shared[at].used && (c->shared[at].offset != offset || c->shared[at].vdev != vdev))
		at = (at + 1) & (c->room - 1);
	return &c->shared[at];
}

static void shared_grow(struct spa_claims *c)
{
	struct shared *old = c->shared;
	size_t room = c->room;

	c->room = room ? 2 * room : 1024;
	c->shared = xcalloc(c->room, sizeof(*c->shared));
	for (size_t i = 0; i < room; i++)
		if (old[i].used)
			*shared_slot(c, old[i].vdev, old[i].offset) = old[i];
	free(old);
}

static struct shared *shared_find(struct spa_claims *c, uint64_t vdev, uint64_t offset, bool add)
{
	struct shared *s;

	if (3 * c->nshared >= 2 * c->room)
		shared_grow(c);
	s = shared_slot(c, vdev, offset);
	if (s->used || !add)
		return s->used ? s : NULL;
	*s = (struct shared){.offset = offset, .vdev = (uint32_t)vdev, .used = true};
	c->nshared++;
	return s;
}

/* ---- setting up ---- */

static int clone_take(void *arg, uint64_t vdev, uint64_t offset, uint64_t refs)
{
	struct spa_claims *c = arg;

	shared_find(c, vdev, offset, true)->cloned = true;
	c->has_clones = true;
	return 0;
}

static enum spa_check_class class_of(const struct vdev *top)
{
	const char *bias = top->is_log ? "log" : top->alloc_bias;

	if (bias && strcmp(bias, "log") == 0)
		return SPA_CHECK_LOG;
	if (bias && strcmp(bias, "special") == 0)
		return SPA_CHECK_SPECIAL;
	return bias && strcmp(bias, "dedup") == 0 ? SPA_CHECK_DEDUP : SPA_CHECK_NORMAL;
}

/* Before any claim. */
static void claims_index(struct spa_claims *c)
{
	const struct vdev *root = c->spa->root;

	c->first = xcalloc(root->nchildren + 1, sizeof(*c->first));
	for (size_t i = c->sm.n; i-- > 0;) {
		const struct metaslab_info *ms = &c->sm.ms[i];
		enum spa_check_class class = class_of(root->child[ms->vdev]);

		c->first[ms->vdev] = i;
		c->check->class[class].size += ms->size;
		c->check->class[class].used += ms->allocated.space;
	}
}

struct spa_claims *spa_claims_create(struct spa *spa, struct spa_check *check)
{
	struct spa_claims *c = xcalloc(1, sizeof(*c));
	struct err e = ERR_INIT;
	uint64_t log = 0;
	int err;

	c->spa = spa;
	c->check = check;
	zap_lookup_u64(spa->mos, 1, "com.delphix:log_spacemap_zap", &log);
	err = spacemap_load_pool(spa->mos, spa->root, log, &c->sm, &e);
	if (err)
		spa_check_warn(check, "space maps: %s; no leak check", e.text);
	c->leaks = !err && check->leaks;
	claims_index(c);
	err = brt_each(spa->dsl, clone_take, c);
	if (err && err != -ENOENT)
		spa_check_warn(check, "block reference table: %s", err_words(err));
	return c;
}

void spa_claims_destroy(struct spa_claims *c)
{
	spacemap_free_pool(&c->sm);
	free(c->shared);
	free(c->first);
	free(c);
}

static void tell(struct spa_claims *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void tell(struct spa_claims *c, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!c->check->wrong)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->check->wrong(c->check->arg, text);
}

/* ---- claiming ---- */

static void contradiction(struct spa_claims *c, const struct vdev *top, uint64_t offset, uint64_t size)
{
	struct str text = {NULL, 0, 0};

	if (c->check->contradictions++ >= TELL_MAX)
		return;
	bp_print(c->bp, &text);
	tell(c,
	     "not allocated, or referenced twice: vdev %" PRIu64 ", offset 0x%" PRIx64 ", size %" PRIu64
	     " of block <%" PRIu64 ", %" PRIu64 ", %" PRId64 ", %" PRIx64 "> %s",
	     top->id, offset, size, c->zb->objset, c->zb->object, c->zb->level, c->zb->blkid, str_get(&text));
	str_free(&text);
}

static struct metaslab_info *metaslab_of(struct spa_claims *c, const struct vdev *top, uint64_t offset, uint64_t size)
{
	uint64_t m = top->ms_shift && top->ms_shift < 64 ? offset >> top->ms_shift : 0;
	size_t i = c->first[top->id] + (size_t)m;
	struct metaslab_info *ms;

	if (i >= c->sm.n || c->sm.ms[i].vdev != top->id || m != c->sm.ms[i].id)
		return NULL;
	ms = &c->sm.ms[i];
	return offset >= ms->start && offset + size <= ms->start + ms->size ? ms : NULL;
}

static int range_claim(void *arg, struct vdev *top, uint64_t offset, uint64_t size)
{
	struct spa_claims *c = arg;
	struct metaslab_info *ms = metaslab_of(c, top, offset, size);

	if (size && (!ms || rangetree_remove(&ms->allocated, offset, offset + size)))
		contradiction(c, top, offset, size);
	return 0;
}

static int range_claim_quiet(void *arg, struct vdev *top, uint64_t offset, uint64_t size)
{
	struct spa_claims *c = arg;
	struct metaslab_info *ms = metaslab_of(c, top, offset, size);

	if (size && ms)
		rangetree_remove_any(&ms->allocated, offset, offset + size);
	return 0;
}

static void dva_claim(struct spa_claims *c, const struct dva *d, uint64_t size)
{
	const struct vdev *root = c->spa->root;

	if (d->vdev >= root->nchildren || vdev_resolve(root->child[d->vdev], d->offset, size, range_claim, c))
		contradiction(c, d->vdev < root->nchildren ? root->child[d->vdev] : root, d->offset, size);
}

static void bp_claim(struct spa_claims *c, const struct bp *bp, unsigned depth);

static void gang_claim(struct spa_claims *c, const struct bp *bp, unsigned depth)
{
	struct spa *spa = c->spa;
	autofree struct bp *member = xcalloc(GANG_SLOTS_MAX, sizeof(*member));
	autobuf struct buf *header = NULL;
	uint64_t size = GANG_SIZE;
	unsigned n = 0;

	if (depth < GANG_DEPTH_MAX &&
	    zio_read_wait(&spa->zp, bp, c->zb, NULL, ZIO_RAW | ZIO_GANG_HEADER, &header) == 0) {
		size = header->size;
		n = zio_gang_members(bp, header, member);
	}
	for (unsigned i = 0; i < bp_ndvas(bp); i++) {
		struct dva d = bp_dva(bp, i);

		if (d.vdev < spa->root->nchildren)
			dva_claim(c, &d, vdev_psize_to_asize(spa->root->child[d.vdev], size, 0));
	}
	for (unsigned i = 0; i < n; i++)
		bp_claim(c, &member[i], depth + 1);
}

static void bp_claim(struct spa_claims *c, const struct bp *bp, unsigned depth)
{
	if (bp_is_gang(bp)) {
		gang_claim(c, bp, depth);
		return;
	}
	for (unsigned i = 0; i < bp_ndvas(bp); i++) {
		struct dva d = bp_dva(bp, i);

		dva_claim(c, &d, d.asize);
	}
}

static struct shared *shared_of(struct spa_claims *c, const struct bp *bp)
{
	struct dva d = bp_dva(bp, 0);

	if (bp_is_dedup(bp))
		return shared_find(c, d.vdev, d.offset, true);
	return c->has_clones ? shared_find(c, d.vdev, d.offset, false) : NULL;
}

unsigned spa_claim(struct spa_claims *c, const struct bp *bp, const struct zbookmark *zb)
{
	struct shared *s;

	if (bp_is_embedded(bp) || bp_is_hole(bp))
		return 1;
	s = shared_of(c, bp);
	if (s && s->seen++ > 0)
		return s->seen;
	if (c->leaks) {
		c->bp = bp;
		c->zb = zb;
		bp_claim(c, bp, 0);
	}
	return 1;
}

/* ---- the rest: allocated for a reason that is no block of the tree ---- */

/* What the checkpoint keeps was freed since, but not in the space maps. */
struct checkpoint {
	struct spa_claims *c;
	struct vdev *top;
};

static int checkpoint_entry(void *arg, const struct spacemap_entry *e)
{
	struct checkpoint *k = arg;

	return e->free ? range_claim_quiet(k->c, k->top, e->offset, e->run) : 0;
}

static void checkpoint_claim(struct spa_claims *c)
{
	struct spa *spa = c->spa;

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		struct checkpoint k = {c, spa->root->child[i]};
		uint64_t object;

		if (k.top->zap_top &&
		    zap_lookup_u64(spa->mos, k.top->zap_top, "com.delphix:pool_checkpoint_sm", &object) == 0)
			spacemap_each(spa->mos, object, 0, (unsigned)k.top->ashift, checkpoint_entry, &k);
	}
}

/* A table may hold blocks whose last reference is gone until its log is flushed. */
static int ddt_entry_check(void *arg, const struct ddt_entry *e)
{
	static const struct zbookmark nowhere = {0, 0, 0, 0};
	struct spa_claims *c = arg;

	for (unsigned i = 0; i < e->nphys; i++) {
		struct shared *s;
		struct bp bp;

		if (e->phys[i].birth == 0)
			continue;
		ddt_entry_bp(e, i, &bp);
		s = shared_find(c, bp_dva(&bp, 0).vdev, bp_dva(&bp, 0).offset, false);
		if (!s && e->phys[i].refcount == 0) {
			c->bp = &bp;
			c->zb = &nowhere;
			bp_claim(c, &bp, 0);
			continue;
		}
		if ((s ? s->seen : 0) == e->phys[i].refcount)
			continue;
		if (c->check->wrong_refs++ < TELL_MAX) {
			struct str text = {NULL, 0, 0};

			bp_print(&bp, &text);
			tell(c, "deduplication table counts %" PRIu64 " references, there are %u: %s",
			     e->phys[i].refcount, s ? s->seen : 0, str_get(&text));
			str_free(&text);
		}
	}
	return 0;
}

static void leaks_tell(struct spa_claims *c)
{
	uint64_t told = 0;

	for (size_t i = 0; i < c->sm.n; i++) {
		struct metaslab_info *ms = &c->sm.ms[i];

		for (struct range *r = rangetree_first(&ms->allocated); r; r = rangetree_next(r)) {
			if (told++ < TELL_MAX)
				tell(c, "leaked space: vdev %" PRIu64 ", offset 0x%" PRIx64 ", size %" PRIu64, ms->vdev,
				     r->start, r->end - r->start);
			c->check->leaked += r->end - r->start;
		}
	}
}

void spa_claims_finish(struct spa_claims *c)
{
	int err;

	if (!c->leaks)
		return;
	checkpoint_claim(c);
	err = ddt_each(c->spa->dsl, ddt_entry_check, c);
	if (err)
		spa_check_warn(c->check, "deduplication tables: %s", err_words(err));
	leaks_tell(c);
}
