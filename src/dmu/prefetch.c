/*
 * Read-ahead. A dnode remembers a few streams of accesses: forward, backward, or strided (runs at equal distances).
 * A stream that went on as foreseen reads ahead of its reader, twice as far each time up to several MiB. What the cache
 * refuses for want of room is tried again at the next access, less far.
 */
#include "base/sync.h"
#include "dmu/dmu_impl.h"

#define STREAMS         8u
#define STREAM_MAX      (UINT64_C(8) << 20) /* bytes ahead */
#define STREAM_RUNS_MIN 4u                  /* of large blocks: runs ahead, although that is more bytes */
#define STREAM_FIRST    (UINT64_C(256) << 10)
#define STRIDE_MAX      (UINT64_C(32) << 20) /* bytes between strided runs */
#define STRIDE_RUNS     64u
#define SLACK_RUNS      16u /* how far requests of one sequential reader may overtake each other */

enum stream_kind { STREAM_FREE, STREAM_NEW, STREAM_FORWARD, STREAM_BACKWARD, STREAM_STRIDED };

struct stream {
	enum stream_kind kind;
	unsigned generation; /* changes when the slot is used anew */
	unsigned missed;     /* blocks that were jumped over and did not come yet */
	uint64_t start, end; /* blocks: last access, [start, end) */
	int64_t stride;
	uint64_t head; /* forward: first block not yet asked for; backward: the last one that was; strided: next run */
	uint64_t distance; /* bytes to be ahead */
	uint64_t used;     /* age */
};

struct prefetch_state {
	pthread_mutex_t lock; /* guards all */
	uint64_t clock;
	struct stream stream[STREAMS];
};

static struct prefetch_state *state_get(struct dnode *dn)
{
	struct prefetch_state *ps = __atomic_load_n(&dn->prefetch, __ATOMIC_ACQUIRE);
	void *none = NULL;

	if (ps)
		return ps;
	ps = xcalloc(1, sizeof(*ps));
	pthread_mutex_init(&ps->lock, NULL);
	if (__atomic_compare_exchange_n(&dn->prefetch, &none, ps, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return ps;
	free(ps);
	return none;
}

void dmu_prefetch_destroy(struct dnode *dn)
{
	struct prefetch_state *ps = dn->prefetch;

	if (!ps)
		return;
	pthread_mutex_destroy(&ps->lock);
	free(ps);
	dn->prefetch = NULL;
}

/* --- recognising --- */

static bool forward_accepts(struct stream *s, uint64_t start, uint64_t end)
{
	uint64_t slack = SLACK_RUNS * (end - start);

	if (s->kind != STREAM_FORWARD && s->kind != STREAM_NEW)
		return false;
	if (start >= s->start && start <= s->end) {
		s->kind = end > s->end ? STREAM_FORWARD : s->kind;
		return true;
	}
	if (s->kind != STREAM_FORWARD)
		return false;
	if (start > s->end && start - s->end <= slack && s->missed + (start - s->end) <= slack) {
		s->missed += (unsigned)(start - s->end);
		return true;
	}
	if (end <= s->end && s->end - end <= 2 * slack) {
		s->missed -= (unsigned)MIN(s->missed, end - start);
		return true;
	}
	return false;
}

static bool backward_accepts(struct stream *s, uint64_t start, uint64_t end)
{
	if (s->kind != STREAM_BACKWARD && s->kind != STREAM_NEW)
		return false;
	if (start >= s->start || end < s->start || end > s->end)
		return s->kind == STREAM_BACKWARD && start == s->start;
	s->kind = STREAM_BACKWARD;
	return true;
}

static bool stride_accepts(const struct stream *s, uint64_t start)
{
	return s->kind == STREAM_STRIDED && (start == s->start || (int64_t)(start - s->start) == s->stride);
}

/* Moves the stream on when this access is what it foresaw; *advanced: and something new. */
static bool stream_accepts(struct stream *s, uint64_t start, uint64_t end, bool *advanced)
{
	bool was_new = s->kind == STREAM_NEW;

	if (forward_accepts(s, start, end)) {
		*advanced = end > s->end;
		s->end = MAX(s->end, end);
		s->start = MAX(s->start, start);
		return true;
	}
	if (backward_accepts(s, start, end)) {
		*advanced = start < s->start;
		s->head = was_new ? start : s->head;
	} else if (stride_accepts(s, start)) {
		*advanced = start != s->start;
	} else {
		return false;
	}
	s->start = start;
	s->end = end;
	return true;
}

/* A new stream remembers its step from the access before: the same step again makes it strided. */
static bool stride_begins(struct stream *s, uint64_t start, uint64_t end)
{
	if (s->kind != STREAM_NEW || s->stride == 0 || (int64_t)(start - s->start) != s->stride)
		return false;
	s->kind = STREAM_STRIDED;
	s->start = start;
	s->end = end;
	s->head = start + (uint64_t)s->stride;
	return true;
}

static struct stream *stream_match(struct prefetch_state *ps, uint64_t start, uint64_t end, bool *advanced)
{
	for (unsigned i = 0; i < STREAMS; i++)
		if (ps->stream[i].kind != STREAM_FREE && stream_accepts(&ps->stream[i], start, end, advanced))
			return &ps->stream[i];
	for (unsigned i = 0; i < STREAMS; i++) {
		if (stride_begins(&ps->stream[i], start, end)) {
			*advanced = true;
			return &ps->stream[i];
		}
	}
	return NULL;
}

static struct stream *stream_new(struct prefetch_state *ps, uint64_t start, uint64_t end, uint64_t stride_max)
{
	struct stream *s = &ps->stream[0], *last = s;
	int64_t step;

	for (unsigned i = 1; i < STREAMS; i++) {
		if (ps->stream[i].used < s->used)
			s = &ps->stream[i];
		if (ps->stream[i].used > last->used)
			last = &ps->stream[i];
	}
	step = (int64_t)(start - last->start);
	if (last->kind == STREAM_FREE || (uint64_t)llabs(step) > stride_max || (uint64_t)llabs(step) < end - start)
		step = 0;
	*s = (struct stream){.kind = STREAM_NEW,
			     .generation = s->generation + 1,
			     .start = start,
			     .end = end,
			     .head = end,
			     .stride = step};
	return s;
}

/* --- how much --- */

static void stream_ramp(struct dnode *dn, struct stream *s, uint64_t bytes)
{
	uint64_t room = MAX(arc_max(dn->os->dp->arc) / 8, dnode_blocksize(dn));
	uint64_t most = MIN(MAX(STREAM_MAX, STREAM_RUNS_MIN * bytes), room);

	s->distance = MIN(MAX(s->distance * 2, MAX(2 * bytes, STREAM_FIRST)), most);
}

/* Top up in portions of a quarter of the distance, not block by block. */
static bool worth_it(uint64_t missing, uint64_t distance, bool at_end)
{
	return missing > 0 && (missing * 4 >= distance || at_end);
}

static void plan_forward(struct dnode *dn, struct stream *s, struct prefetch_plan *plan)
{
	uint64_t distance = MAX(s->distance / dnode_blocksize(dn), 1), target = s->end + distance;
	uint64_t stop = dnode_maxblkid(dn) + 1;

	s->head = MAX(s->head, s->end);
	target = MIN(target, stop);
	if (s->head >= target || !worth_it(target - s->head, distance, target == stop))
		return;
	plan->start = s->head;
	plan->runs = 1;
	plan->run = (uint32_t)(target - s->head);
	plan->stride = plan->run;
	s->head = target;
}

static void plan_backward(struct dnode *dn, struct stream *s, struct prefetch_plan *plan)
{
	uint64_t distance = MAX(s->distance / dnode_blocksize(dn), 1);
	uint64_t target = s->start - MIN(s->start, distance);

	s->head = MIN(s->head, s->start);
	if (s->head <= target || !worth_it(s->head - target, distance, target == 0))
		return;
	/* Nearest first. */
	plan->start = s->head - 1;
	plan->run = 1;
	plan->stride = -1;
	plan->runs = (uint32_t)(s->head - target);
	s->head = target;
}

static void plan_strided(struct dnode *dn, struct stream *s, struct prefetch_plan *plan)
{
	uint64_t run = s->end - s->start, step = (uint64_t)llabs(s->stride);
	uint64_t runs = MIN(MAX(s->distance / (run * dnode_blocksize(dn)), 1), STRIDE_RUNS), ahead, room;
	bool up = s->stride > 0;

	if (up ? s->head <= s->start : s->head >= s->start)
		s->head = s->start + (uint64_t)s->stride;
	ahead = (up ? s->head - s->start : s->start - s->head) / step - 1;
	if (up)
		room = s->head <= dnode_maxblkid(dn) ? (dnode_maxblkid(dn) - s->head) / step + 1 : 0;
	else
		room = s->head <= s->start ? s->head / step + 1 : 0;
	if (ahead >= runs || room == 0 || !worth_it(runs - ahead, runs, false))
		return;
	plan->start = s->head;
	plan->run = (uint32_t)run;
	plan->stride = s->stride;
	plan->runs = (uint32_t)MIN(runs - ahead, room);
	s->head += (uint64_t)(s->stride * (int64_t)plan->runs);
}

static void stream_plan(struct dnode *dn, struct stream *s, struct prefetch_plan *plan)
{
	stream_ramp(dn, s, (s->end - s->start) * dnode_blocksize(dn));
	if (s->kind == STREAM_FORWARD)
		plan_forward(dn, s, plan);
	else if (s->kind == STREAM_BACKWARD)
		plan_backward(dn, s, plan);
	else if (s->kind == STREAM_STRIDED)
		plan_strided(dn, s, plan);
}

/* Is reading ahead of any use here? */
static bool dnode_is_prefetchable(const struct dnode *dn)
{
	const struct objset *os = dn->os;

	if (dnode_maxblkid(dn) == 0)
		return false;
	return dmu_type_is_metadata(dnode_type(dn)) ? os->cache_metadata : os->cache_data;
}

void dmu_prefetch_plan(struct dnode *dn, uint64_t blkid, uint64_t nblocks, struct prefetch_plan *plan)
{
	struct prefetch_state *ps;
	struct stream *s;
	bool advanced = false;

	plan->dn = NULL;
	plan->run = 0;
	if (!dnode_is_prefetchable(dn))
		return;
	ps = state_get(dn);
	SCOPED_LOCK(&ps->lock);
	s = stream_match(ps, blkid, blkid + nblocks, &advanced);
	if (!s) {
		s = stream_new(ps, blkid, blkid + nblocks, STRIDE_MAX / dnode_blocksize(dn));
		/* Who reads the start of a file mostly reads on. */
		advanced = blkid == 0 && dnode_type(dn) == DMU_OT_PLAIN;
		s->kind = advanced ? STREAM_FORWARD : STREAM_NEW;
	}
	s->used = ++ps->clock;
	if (!advanced)
		return;
	stream_plan(dn, s, plan);
	if (plan->run == 0)
		return;
	plan->stream = (unsigned)(s - ps->stream);
	plan->generation = s->generation;
	plan->dn = dnode_ref(dn);
	objset_hold(dn->os);
}

/* The cache had no room from this run on: ask again later, and for less. */
static void plan_refused(const struct prefetch_plan *plan, uint64_t blkid)
{
	struct prefetch_state *ps = state_get(plan->dn);
	struct stream *s = &ps->stream[plan->stream];

	SCOPED_LOCK(&ps->lock);
	if (s->generation != plan->generation)
		return;
	s->distance /= 2;
	if (s->kind == STREAM_FORWARD)
		s->head = MIN(s->head, blkid);
	else if (s->kind == STREAM_BACKWARD)
		s->head = MAX(s->head, blkid + 1);
}

/* --- doing it --- */

struct prefetch_op {
	struct dmu_walk walk;
	struct prefetch_plan plan;
	uint32_t run;   /* the run being read */
	uint32_t done;  /* its blocks that were dealt with */
	atomic_bool up; /* one of the two threads that meet at a walk's end has been here */
};

static void prefetch_finish(struct prefetch_op *op)
{
	struct objset *os = op->plan.dn->os;

	dnode_release(op->plan.dn);
	objset_release(os);
	free(op);
}

static uint64_t prefetch_at(const struct prefetch_op *op)
{
	return op->plan.start + (uint64_t)(op->plan.stride * (int64_t)op->run) + op->done;
}

static bool prefetch_block(struct prefetch_op *op, uint64_t blkid, const struct bp *bp)
{
	struct dnode *dn = op->plan.dn;
	struct objset *os = dn->os;
	struct zbookmark zb = {os->id, dn->object, 0, blkid};

	if (bp_is_hole(bp) || bp_level(bp) != 0)
		return true;
	return arc_prefetch(os->dp->arc, os->dp->zp, bp, &zb, os->key);
}

/* All blocks of the plan that this walk's result tells of. false: the cache refuses. */
static bool prefetch_span(struct prefetch_op *op)
{
	struct dmu_walk *w = &op->walk;
	uint64_t span = dmu_walk_span(w);

	while (op->run < op->plan.runs) {
		uint64_t blkid = prefetch_at(op);
		struct bp bp;

		if (blkid < w->blkid || blkid - w->blkid >= span)
			return true;
		dmu_walk_pointer(w, blkid - w->blkid, &bp);
		if (!prefetch_block(op, blkid, &bp))
			return false;
		if (++op->done == op->plan.run) {
			op->done = 0;
			op->run++;
		}
	}
	return true;
}

static void prefetch_walks(struct prefetch_op *op);

static void prefetch_walk_done(struct dmu_walk *w, int err)
{
	struct prefetch_op *op = container_of(w, struct prefetch_op, walk);

	if (err || !prefetch_span(op)) {
		plan_refused(&op->plan, prefetch_at(op));
		op->run = op->plan.runs;
	}
	dmu_walk_end(w);
	/* Whoever comes second goes on, so that walks that end at once do not pile up on the stack. */
	if (atomic_exchange(&op->up, true))
		prefetch_walks(op);
}

static void prefetch_walks(struct prefetch_op *op)
{
	do {
		if (op->run >= op->plan.runs) {
			prefetch_finish(op);
			return;
		}
		atomic_store(&op->up, false);
		op->walk.dn = op->plan.dn;
		op->walk.blkid = prefetch_at(op);
		op->walk.flags = ARC_PREFETCH;
		op->walk.done = prefetch_walk_done;
		dmu_walk_start(&op->walk);
	} while (atomic_exchange(&op->up, true));
}

void dmu_prefetch_run(struct prefetch_plan *plan)
{
	struct prefetch_op *op;

	if (!plan->dn)
		return;
	op = xcalloc(1, sizeof(*op));
	op->plan = *plan;
	plan->dn = NULL;
	prefetch_walks(op);
}
