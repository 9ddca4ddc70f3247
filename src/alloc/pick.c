/*
 * pick.c: from a class to a device to a metaslab (docs/format/06-allocation-and-vdevs.md 3.2, 3.3, 9).
 *
 * A class's devices stand in a ring. Each allocator stays at one of them for some MiB, more where there is more room,
 * then goes on; on each device it has metaslabs of its own, best first, for as long as they have large segments.
 */
#include "alloc/alloc_impl.h"
#include "base/os.h"

TUNABLE(tunable_aliquot, "metaslab_aliquot", "bytes", 2 << 20, 4096, UINT32_MAX,
	"what is written to a device before the next one is taken");
TUNABLE(tunable_bias_enabled, "metaslab_bias_enabled", "", 1, 0, 1, "write more to devices with more free space");
TUNABLE(tunable_force_ganging, "metaslab_force_ganging", "bytes", (16 << 20) + 1, 512, UINT32_MAX,
	"from this size on some blocks are treated as if there were no room for them in one piece");
TUNABLE(tunable_force_ganging_pct, "metaslab_force_ganging_pct", "%", 3, 0, 100, "how many of them");
TUNABLE(tunable_find_max_tries, "zfs_metaslab_find_max_tries", "", 100, 1, UINT32_MAX,
	"how many metaslabs of a device are tried for one block");
TUNABLE(tunable_special_reserve_pct, "zfs_special_class_metadata_reserve_pct", "%", 25, 0, 100,
	"of the special class, small blocks of data leave this to metadata");

struct pick {
	struct alloc *a;
	uint64_t psize, txg;
	unsigned flags, ndvas, allocator;
	const struct dva *near;
	struct dva *dva;
	bool later; /* where there may be room, something has to be loaded or given back first */
};

/* --- one device --- */

int64_t alloc_group_free(const struct alloc_group *g)
{
	return (int64_t)atomic_load_explicit(&g->size, memory_order_relaxed) -
	       atomic_load_explicit(&g->allocated, memory_order_relaxed) -
	       atomic_load_explicit(&g->allocating, memory_order_relaxed) -
	       atomic_load_explicit(&g->deferred, memory_order_relaxed);
}

struct ms *alloc_group_next(const struct alloc_group *g, uint64_t sectors, uint64_t *weight, uint64_t *id)
{
	const struct ms_table *t = alloc_table(g->top);
	uint64_t best = 0, best_id = 0;

	for (uint64_t m = 0; m < t->n; m++) {
		uint64_t w = atomic_load_explicit(&t->weight[m], memory_order_relaxed);

		if (w <= best || w > *weight || (w == *weight && m < *id) || t->ms[m]->group != g ||
		    atomic_load_explicit(&t->largest[m], memory_order_relaxed) < sectors)
			continue;
		best = w;
		best_id = m;
	}
	if (best == 0)
		return NULL;
	*weight = best;
	*id = best_id + 1;
	return t->ms[best_id];
}

static bool is_used(const struct pick *p, unsigned d, const struct ms *ms)
{
	for (unsigned i = 0; i < d; i++)
		if (p->dva[i].vdev == ms->top->vdev->id && p->dva[i].offset >= ms->start &&
		    p->dva[i].offset - ms->start < ms->size)
			return true;
	return false;
}

static bool take_from(struct pick *p, unsigned d, struct ms *ms, uint64_t asize, bool *worn)
{
	uint64_t near = p->near && p->near->vdev == ms->top->vdev->id ? p->near->offset : UINT64_MAX, offset;
	int err = ms_alloc(ms, asize >> ms->shift, p->txg, near, &offset, worn);

	if (err == -EBUSY)
		p->later = true;
	if (err)
		return false;
	p->dva[d] = (struct dva){.vdev = ms->top->vdev->id, .offset = offset, .asize = asize};
	return true;
}

/* The metaslab becomes, or stops being, the allocator's own. */
static void own(struct ms *_Atomic *slot, struct ms *ms)
{
	struct ms *was = atomic_exchange(slot, ms);

	if (ms)
		ms_activate(ms);
	if (was)
		atomic_fetch_sub(&was->owned, 1);
}

static bool group_search(struct pick *p, unsigned d, struct alloc_group *g, uint64_t asize, bool any,
			 struct ms *_Atomic *slot)
{
	uint64_t weight = UINT64_MAX, id = 0, tries = tunable_get(&tunable_find_max_tries);
	bool hard = p->flags & (ZIO_ALLOC_GANG_HEADER | ZIO_ALLOC_MEMBER | ZIO_ALLOC_ZIL), asked = false, worn;
	struct ms *ms, *mine = atomic_load(slot);

	for (; tries > 0 || hard; tries -= tries > 0) {
		ms = alloc_group_next(g, asize >> g->top->vdev->ashift, &weight, &id);
		if (!ms)
			return false;
		if (!any && (is_used(p, d, ms) || (ms != mine && atomic_load(&ms->owned))))
			continue;
		if (take_from(p, d, ms, asize, &worn)) {
			if (!any && ms != mine)
				own(slot, ms);
			return true;
		}
		/* One that is not loaded is passed over, and asked for. */
		if (!asked && ms_load_start(ms))
			asked = p->later = true;
	}
	return false;
}

/* Copies that the block has on this device already: each has metaslabs of its own. */
static unsigned copies_on(const struct pick *p, unsigned d, const struct alloc_group *g)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d; i++)
		n += p->dva[i].vdev == g->top->vdev->id;
	return n;
}

static bool group_take(struct pick *p, unsigned d, struct alloc_group *g, bool any)
{
	uint64_t asize = vdev_psize_to_asize(g->top->vdev, p->psize, p->txg);
	struct ms *_Atomic *slot = &g->active[p->allocator][copies_on(p, d, g)];
	struct ms *ms = atomic_load(slot);
	bool worn;

	if (alloc_group_free(g) < (int64_t)asize)
		return false;
	if (ms && !is_used(p, d, ms) && take_from(p, d, ms, asize, &worn)) {
		if (worn)
			own(slot, NULL);
		return true;
	}
	return group_search(p, d, g, asize, false, slot) || (any && group_search(p, d, g, asize, true, slot));
}

/* --- the ring --- */

static bool group_may_be_used(const struct alloc_group *g)
{
	const struct vdev *vd = g->top->vdev;

	return !atomic_load_explicit(&g->closed, memory_order_relaxed) && !vd->noalloc && !vd->removing &&
	       vdev_is_writable(vd);
}

/* Bytes before the rotor goes on: more for devices that are large, and for those that are emptier than others. */
static uint64_t group_aliquot(const struct group_table *t, const struct alloc_group *g)
{
	uint64_t aliquot = tunable_get(&tunable_aliquot);
	double size = 0, left = 0, share, mine;

	for (unsigned i = 0; i < t->n; i++) {
		size += (double)t->group[i]->size;
		left += (double)MAX(alloc_group_free(t->group[i]), 0);
	}
	if (size <= 0 || left <= 0)
		return aliquot;
	share = (double)g->size * t->n / size;
	mine = (double)MAX(alloc_group_free(g), 0) / MAX((double)g->size, 1);
	if (tunable_get(&tunable_bias_enabled))
		share *= mine / (left / size);
	return (uint64_t)((double)aliquot * MAX(share, 0.01));
}

static unsigned rotor_at(struct alloc_class *c, const struct group_table *t, unsigned allocator)
{
	SCOPED_LOCK(&c->lock);
	return c->rotor[allocator].at % t->n;
}

/* `at` took `bytes`; the rotor goes there, or past it when it has had its share. */
static void rotor_account(struct alloc_class *c, const struct group_table *t, const struct pick *p, unsigned at,
			  uint64_t bytes, bool step)
{
	struct rotor *r = &c->rotor[p->allocator];

	if (t->n == 1)
		return;
	SCOPED_LOCK(&c->lock);
	if (r->at % t->n != at || r->share == 0) {
		r->at = at;
		r->placed = 0;
		r->share = group_aliquot(t, t->group[at]);
	}
	r->placed += bytes;
	if (step || r->placed >= r->share) {
		r->at = (at + 1) % t->n;
		r->placed = 0;
		r->share = group_aliquot(t, t->group[r->at]);
	}
}

static unsigned ring_index(const struct group_table *t, uint64_t vdev)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->group[i]->top->vdev->id == vdev)
			return i;
	return t->n;
}

/* How far a copy keeps away from those before it. */
enum apart { OTHER_DEVICE, OTHER_METASLAB, ANYWHERE };

static bool copy_take(struct pick *p, unsigned d, const struct group_table *t, unsigned start, enum apart apart,
		      unsigned *at)
{
	for (unsigned i = 0; i < t->n; i++) {
		struct alloc_group *g = t->group[ *at = (start + i) % t->n];

		if (!group_may_be_used(g) || (apart == OTHER_DEVICE && copies_on(p, d, g)))
			continue;
		if (group_take(p, d, g, apart == ANYWHERE))
			return true;
	}
	return false;
}

static int copy_place(struct pick *p, unsigned d, struct alloc_class *c, const struct group_table *t)
{
	unsigned start, at, last = d ? ANYWHERE : OTHER_DEVICE;
	bool by_rotor = false;

	if (d > 0) {
		start = ring_index(t, p->dva[d - 1].vdev) + 1;
	} else if (p->near && ring_index(t, p->near->vdev) < t->n) {
		start = ring_index(t, p->near->vdev);
	} else {
		start = rotor_at(c, t, p->allocator);
		by_rotor = true;
	}
	for (unsigned apart = OTHER_DEVICE; apart <= last; apart++) {
		p->later = false;
		if (copy_take(p, d, t, start, d ? apart : ANYWHERE, &at)) {
			if (by_rotor)
				rotor_account(c, t, p, at, p->dva[d].asize,
					      p->flags & (ZIO_ALLOC_FASTWRITE | ZIO_ALLOC_ZIL));
			return 0;
		}
		if (p->later) /* rather than worse: a little later */
			return -EAGAIN;
	}
	return -ENOSPC;
}

static int class_place(struct pick *p, struct alloc_class *c)
{
	const struct group_table *t = atomic_load_explicit(&c->table, memory_order_acquire);
	int err = 0;
	unsigned d;

	if (!t || t->n == 0)
		return -ENOSPC;
	for (d = 0; d < p->ndvas && err == 0; d++)
		err = copy_place(p, d, c, t);
	if (err == 0)
		return 0;
	for (d--; d-- > 0;)
		alloc_undo(p->a, &p->dva[d], p->txg);
	return err;
}

/* --- the classes --- */

#define NO_CLASS ALLOC_CLASSES
static const uint8_t class_order[][4] = {
    [ZIO_CLASS_NORMAL] = {ZIO_CLASS_NORMAL, NO_CLASS},
    [ZIO_CLASS_LOG] = {ZIO_CLASS_LOG, ZIO_CLASS_SPECIAL, ALLOC_EMBEDDED, ZIO_CLASS_NORMAL},
    [ZIO_CLASS_SPECIAL] = {ZIO_CLASS_SPECIAL, ZIO_CLASS_NORMAL, NO_CLASS},
    [ZIO_CLASS_DEDUP] = {ZIO_CLASS_DEDUP, ZIO_CLASS_SPECIAL, ZIO_CLASS_NORMAL, NO_CLASS},
};

/* Small blocks of data leave a part of the special class to metadata (3.3). */
static bool special_is_reserved(struct alloc *a)
{
	uint64_t size, left = alloc_class_left(a, ZIO_CLASS_SPECIAL, &size);

	return left <= size / 100 * tunable_get(&tunable_special_reserve_pct);
}

static int classes_place(struct pick *p, enum zio_class class)
{
	if (p->flags & ZIO_ALLOC_SMALL && special_is_reserved(p->a))
		class = ZIO_CLASS_NORMAL;
	const uint8_t *order = class_order[p->flags & ZIO_ALLOC_ZIL ? ZIO_CLASS_LOG : class];
	int err = -ENOSPC;

	for (unsigned i = 0; i < 4 && order[i] != NO_CLASS && err == -ENOSPC; i++)
		err = class_place(p, &p->a->class[order[i]]);
	return err;
}

static bool force_gang(const struct pick *p)
{
	static _Thread_local uint64_t state = 88172645463325252;

	if (p->psize < tunable_get(&tunable_force_ganging) || p->flags & (ZIO_ALLOC_GANG_HEADER | ZIO_ALLOC_ZIL) ||
	    p->psize <= p->a->zp->min_alloc)
		return false;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % 100 < tunable_get(&tunable_force_ganging_pct);
}

/* Each thread stays with one allocator. */
static unsigned thread_allocator(const struct alloc *a)
{
	return counter_shard() % a->nallocators;
}

static uint64_t settle_count(struct alloc *a)
{
	SCOPED_LOCK(&a->lock);
	return a->settle_count;
}

/* Until something was loaded or given back since `seen`; false: nothing is under way. */
static bool wait_settled(struct alloc *a, uint64_t seen)
{
	SCOPED_LOCK(&a->lock);
	while (a->settle_count == seen && a->unsettled > 0)
		pthread_cond_wait(&a->settled, &a->lock);
	return a->settle_count != seen;
}

int alloc_blocks(void *arg, enum zio_class class, uint64_t psize, unsigned ndvas, uint64_t txg, unsigned flags,
		 const struct dva *near, struct dva dva[BP_DVAS])
{
	struct alloc *a = arg;
	struct pick p = {.a = a, .psize = psize, .txg = txg, .flags = flags, .ndvas = ndvas, .near = near, .dva = dva};

	BUG_ON(ndvas == 0 || ndvas > BP_DVAS || psize == 0);
	if (force_gang(&p))
		return -ENOSPC;
	p.allocator = thread_allocator(a);
	for (;;) {
		uint64_t seen = settle_count(a);
		int err = classes_place(&p, class);

		if (err != -EAGAIN || flags & ZIO_ALLOC_NOWAIT)
			return err;
		if (!wait_settled(a, seen))
			return -ENOSPC;
	}
}
