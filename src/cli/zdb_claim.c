#include "cli/zdb.h"

#include "base/hash.h"
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

struct zdb_claims {
	struct zdb *z;
	bool leaks; /* the space maps are loaded and looked at */
	struct spacemap_pool sm;
	uint64_t *allocated; /* per top-level, before any claim */
	size_t *first;       /* per top-level: its first metaslab in sm */
	struct shared *shared;
	size_t nshared, room;
	bool has_clones;
	uint64_t contradictions;
	/* the block being claimed */
	const struct bp *bp;
	const struct zbookmark *zb;
};

/* ---- the table of shared blocks: open addressing, at most two thirds full ---- */

static struct shared *shared_slot(const struct zdb_claims *c, uint64_t vdev, uint64_t offset)
{
	size_t at = (size_t)hash_mix(vdev, offset) & (c->room - 1);

	while (c->shared[at].used && (c->shared[at].offset != offset || c->shared[at].vdev != vdev))
		at = (at + 1) & (c->room - 1);
	return &c->shared[at];
}

static void shared_grow(struct zdb_claims *c)
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

static struct shared *shared_find(struct zdb_claims *c, uint64_t vdev, uint64_t offset, bool add)
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
	struct zdb_claims *c = arg;

	shared_find(c, vdev, offset, true)->cloned = true;
	c->has_clones = true;
	return 0;
}

static void claims_index(struct zdb_claims *c)
{
	const struct vdev *root = c->z->spa->root;

	c->first = xcalloc(root->nchildren + 1, sizeof(*c->first));
	c->allocated = xcalloc(root->nchildren + 1, sizeof(*c->allocated));
	for (size_t i = c->sm.n; i-- > 0;) {
		c->first[c->sm.ms[i].vdev] = i;
		c->allocated[c->sm.ms[i].vdev] += c->sm.ms[i].allocated.space;
	}
}

int zdb_claims_create(struct zdb *z, struct zdb_claims **out)
{
	struct zdb_claims *c = xcalloc(1, sizeof(*c));
	struct err e = ERR_INIT;
	uint64_t log = 0;
	int err;

	c->z = z;
	zap_lookup_u64(z->spa->mos, 1, "com.delphix:log_spacemap_zap", &log);
	err = spacemap_load_pool(z->spa->mos, z->spa->root, log, &c->sm, &e);
	if (err)
		zdb_warn(z, "space maps: %s; no leak check", e.text);
	c->leaks = !err && !zdb_has(z, 'L');
	claims_index(c);
	err = brt_each(z->spa->dsl, clone_take, c);
	if (err && err != -ENOENT)
		zdb_warn(z, "block reference table: %s", err_words(err));
	*out = c;
	return 0;
}

void zdb_claims_destroy(struct zdb_claims *c)
{
	spacemap_free_pool(&c->sm);
	free(c->shared);
	free(c->first);
	free(c->allocated);
	free(c);
}

/* ---- claiming ---- */

static void contradiction(struct zdb_claims *c, const struct vdev *top, uint64_t offset, uint64_t size)
{
	struct str text = {NULL, 0, 0};

	if (c->contradictions++ >= TELL_MAX)
		return;
	bp_print(c->bp, &text);
	printf("not allocated, or referenced twice: vdev %" PRIu64 ", offset 0x%" PRIx64 ", size %" PRIu64
	       " of block <%" PRIu64 ", %" PRIu64 ", %" PRId64 ", %" PRIx64 "> %s\n",
	       top->id, offset, size, c->zb->objset, c->zb->object, c->zb->level, c->zb->blkid, str_get(&text));
	str_free(&text);
}

static struct metaslab_info *metaslab_of(struct zdb_claims *c, const struct vdev *top, uint64_t offset, uint64_t size)
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
	struct zdb_claims *c = arg;
	struct metaslab_info *ms = metaslab_of(c, top, offset, size);

	if (size && (!ms || rangetree_remove(&ms->allocated, offset, offset + size)))
		contradiction(c, top, offset, size);
	return 0;
}

static int range_claim_quiet(void *arg, struct vdev *top, uint64_t offset, uint64_t size)
{
	struct zdb_claims *c = arg;
	struct metaslab_info *ms = metaslab_of(c, top, offset, size);

	if (size && ms)
		rangetree_remove_any(&ms->allocated, offset, offset + size);
	return 0;
}

static void dva_claim(struct zdb_claims *c, const struct dva *d, uint64_t size)
{
	const struct vdev *root = c->z->spa->root;

	if (d->vdev >= root->nchildren || vdev_resolve(root->child[d->vdev], d->offset, size, range_claim, c))
		contradiction(c, d->vdev < root->nchildren ? root->child[d->vdev] : root, d->offset, size);
}

static void bp_claim(struct zdb_claims *c, const struct bp *bp, unsigned depth);

static void gang_claim(struct zdb_claims *c, const struct bp *bp, unsigned depth)
{
	struct spa *spa = c->z->spa;
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

static void bp_claim(struct zdb_claims *c, const struct bp *bp, unsigned depth)
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

static struct shared *shared_of(struct zdb_claims *c, const struct bp *bp)
{
	struct dva d = bp_dva(bp, 0);

	if (bp_is_dedup(bp))
		return shared_find(c, d.vdev, d.offset, true);
	return c->has_clones ? shared_find(c, d.vdev, d.offset, false) : NULL;
}

bool zdb_claim(struct zdb_claims *c, const struct bp *bp, const struct zbookmark *zb, struct zdb_totals *t)
{
	struct shared *s;

	if (bp_is_embedded(bp) || bp_is_hole(bp))
		return true;
	s = shared_of(c, bp);
	if (s && s->seen++ > 0) {
		if (bp_is_dedup(bp)) {
			t->dedup_asize += bp_asize(bp);
			t->dedup_blocks += s->seen == 2;
		} else {
			t->clone_asize += bp_asize(bp);
			t->clone_blocks++;
		}
		return false;
	}
	/* Blocks of an intent log may be younger than the space maps. */
	if (!c->leaks || bp_physical_birth(bp) > c->z->spa->uberblock.txg)
		return true;
	c->bp = bp;
	c->zb = zb;
	bp_claim(c, bp, 0);
	return true;
}

/* ---- the rest: allocated for a reason that is no block of the tree ---- */

/* What the checkpoint keeps was freed since, but not in the space maps. */
struct checkpoint {
	struct zdb_claims *c;
	struct vdev *top;
};

static int checkpoint_entry(void *arg, const struct spacemap_entry *e)
{
	struct checkpoint *k = arg;

	return e->free ? range_claim_quiet(k->c, k->top, e->offset, e->run) : 0;
}

static void checkpoint_claim(struct zdb_claims *c)
{
	struct spa *spa = c->z->spa;

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		struct checkpoint k = {c, spa->root->child[i]};
		uint64_t object;

		if (k.top->zap_top &&
		    zap_lookup_u64(spa->mos, k.top->zap_top, "com.delphix:pool_checkpoint_sm", &object) == 0)
			spacemap_each(spa->mos, object, 0, (unsigned)k.top->ashift, checkpoint_entry, &k);
	}
}

struct ddt_check {
	struct zdb_claims *c;
	uint64_t wrong;
};

/* A table may hold blocks whose last reference is gone until its log is flushed. */
static int ddt_entry_check(void *arg, const struct ddt_entry *e)
{
	static const struct zbookmark nowhere = {0, 0, 0, 0};
	struct ddt_check *k = arg;

	for (unsigned i = 0; i < e->nphys; i++) {
		struct shared *s;
		struct bp bp;

		if (e->phys[i].birth == 0)
			continue;
		ddt_entry_bp(e, i, &bp);
		s = shared_find(k->c, bp_dva(&bp, 0).vdev, bp_dva(&bp, 0).offset, false);
		if (!s && e->phys[i].refcount == 0) {
			k->c->bp = &bp;
			k->c->zb = &nowhere;
			bp_claim(k->c, &bp, 0);
			continue;
		}
		if ((s ? s->seen : 0) == e->phys[i].refcount)
			continue;
		if (k->wrong++ < TELL_MAX) {
			struct str text = {NULL, 0, 0};

			bp_print(&bp, &text);
			printf("deduplication table counts %" PRIu64 " references, there are %u: %s\n",
			       e->phys[i].refcount, s ? s->seen : 0, str_get(&text));
			str_free(&text);
		}
	}
	return 0;
}

static uint64_t leaks_print(struct zdb_claims *c)
{
	uint64_t leaked = 0;

	for (size_t i = 0; i < c->sm.n; i++) {
		struct metaslab_info *ms = &c->sm.ms[i];

		for (struct range *r = rangetree_first(&ms->allocated); r; r = rangetree_next(r)) {
			printf("leaked space: vdev %" PRIu64 ", offset 0x%" PRIx64 ", size %" PRIu64 "\n", ms->vdev,
			       r->start, r->end - r->start);
			leaked += r->end - r->start;
		}
	}
	return leaked;
}

bool zdb_claims_finish(struct zdb_claims *c, struct zdb_totals *t)
{
	struct ddt_check k = {c, 0};
	uint64_t leaked;
	int err;

	if (!c->leaks)
		return true;
	checkpoint_claim(c);
	err = ddt_each(c->z->spa->dsl, ddt_entry_check, &k);
	if (err)
		zdb_warn(c->z, "deduplication tables: %s", err_words(err));
	leaked = leaks_print(c);
	if (leaked)
		printf("\n\tblock traversal size differs from the space maps (leaked %" PRIu64 ")\n", leaked);
	if (c->contradictions)
		printf("\n\t%" PRIu64 " ranges are referenced twice or not allocated\n", c->contradictions);
	if (k.wrong)
		printf("\n\t%" PRIu64 " entries of deduplication tables have wrong reference counts\n", k.wrong);
	return !leaked && !c->contradictions && !k.wrong;
}

/* ---- space by class ---- */

void zdb_claims_space(struct zdb *z, const struct zdb_claims *c)
{
	static const struct {
		const char *bias, *label;
	} classes[] = {
	    {NULL, "Normal class:"}, {"special", "Special class"}, {"dedup", "Dedup class"}, {"log", "Log class"}};
	const struct vdev *root = z->spa->root;

	for (size_t k = 0; k < ARRAY_LEN(classes); k++) {
		uint64_t used = 0, size = 0;

		for (size_t i = 0; i < c->sm.n; i++) {
			const struct vdev *top = root->child[c->sm.ms[i].vdev];
			const char *bias = top->is_log ? "log" : top->alloc_bias;

			if (bias == classes[k].bias ||
			    (bias && classes[k].bias && strcmp(bias, classes[k].bias) == 0)) {
				size += c->sm.ms[i].size;
				if (c->sm.ms[i].id == 0)
					used += c->allocated[c->sm.ms[i].vdev];
			}
		}
		if (size)
			printf("\t%-16s %14" PRIu64 "     used: %5.2f%%\n", classes[k].label, used,
			       100.0 * (double)used / (double)size);
	}
}
