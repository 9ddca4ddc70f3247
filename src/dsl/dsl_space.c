/*
 * dsl/dsl_space.c: sums of space along the tree, quotas and reservations, and room for transactions (03-datasets.md
 * section 2).
 */
#include "dsl/dsl_write_impl.h"

#define QUOTA_OVERRUN 32 /* one part in so many by what is in flight */
#define MIB           (UINT64_C(1) << 20)

/*
 * What a transaction may take in the worst case, above its bytes times the copies: metadata. Every small write may
 * change an indirect block of its own, but no data set has more of them than a part of its size.
 */
#define ESTIMATE_DATA 2
#define ESTIMATE_META 22
#define META_PART     4
#define META_FEWEST   (64 * MIB)

TUNABLE(tunable_asize_inflation, "spa_asize_inflation", "x", ESTIMATE_DATA + ESTIMATE_META, 1, 64,
	"a change is expected to take at most so many times its size on the devices");

/* --- sums --- */

/* By how much max(used, floor) grows. */
static int64_t growth(uint64_t used, int64_t delta, uint64_t floor)
{
	uint64_t after = used + (uint64_t)delta;

	return (int64_t)(MAX(after, floor) - MAX(used, floor));
}

static void dir_add_locked(struct dsl_dir *d, int64_t used, int64_t comp, int64_t uncomp)
{
	d->used += (uint64_t)used;
	d->compressed += (uint64_t)comp;
	d->uncompressed += (uint64_t)uncomp;
}

static void chain_store(struct dsl_dir *d, struct tx *tx)
{
	for (; d; d = d->up)
		dsl_dir_store(d, tx);
}

/* The sums of the parents: what the child takes of them, of which `tonew` were reserved for it already. */
static void transfer_locked(struct dsl_dir *d, int64_t used, int64_t comp, int64_t uncomp, int64_t tonew,
			    enum dsl_used_by from, enum dsl_used_by to)
{
	for (; d; d = d->up) {
		int64_t above = growth(d->used, used, d->reserved);

		if (d->has_breakdown) {
			d->used_breakdown[from] -= (uint64_t)(tonew - used);
			d->used_breakdown[to] += (uint64_t)tonew;
		}
		dir_add_locked(d, used, comp, uncomp);
		tonew = used;
		used = above;
		from = DSL_USED_CHILD_RSRV;
		to = DSL_USED_CHILD;
	}
}

void dsl_diduse_transfer(struct dsl_dir *d, int64_t used, int64_t comp, int64_t uncomp, int64_t tonew,
			 enum dsl_used_by from, enum dsl_used_by to, struct tx *tx)
{
	struct dsl_write *w = d->pool->write;

	pthread_mutex_lock(&w->space);
	transfer_locked(d, used, comp, uncomp, tonew, from, to);
	pthread_mutex_unlock(&w->space);
	chain_store(d, tx);
}

void dsl_diduse(struct dsl_dir *d, enum dsl_used_by type, int64_t used, int64_t comp, int64_t uncomp, struct tx *tx)
{
	dsl_diduse_transfer(d, used, comp, uncomp, used, type, type, tx);
}

void dsl_used_transfer(struct dsl_dir *d, int64_t used, enum dsl_used_by from, enum dsl_used_by to, struct tx *tx)
{
	struct dsl_write *w = d->pool->write;

	if (!d->has_breakdown || used == 0)
		return;
	pthread_mutex_lock(&w->space);
	d->used_breakdown[from] -= (uint64_t)used;
	d->used_breakdown[to] += (uint64_t)used;
	pthread_mutex_unlock(&w->space);
	dsl_dir_store(d, tx);
}

void dsl_free_diduse(struct dsl_pool *p, int64_t used, int64_t comp, int64_t uncomp, struct tx *tx)
{
	if (p->write->free_dir)
		dsl_diduse(p->write->free_dir, DSL_USED_HEAD, used, comp, uncomp, tx);
}

void dsl_pool_mos_space(struct dsl_pool *p, int64_t used, int64_t compressed, int64_t uncompressed)
{
	atomic_fetch_add(&p->write->mos_space[0], used);
	atomic_fetch_add(&p->write->mos_space[1], compressed);
	atomic_fetch_add(&p->write->mos_space[2], uncompressed);
}

void dsl_mos_space_settle(struct dsl_pool *p, struct tx *tx)
{
	int64_t s[3];

	for (unsigned i = 0; i < 3; i++)
		s[i] = atomic_exchange(&p->write->mos_space[i], 0);
	if (p->write->mos_dir && (s[0] || s[1] || s[2]))
		dsl_diduse(p->write->mos_dir, DSL_USED_HEAD, s[0], s[1], s[2], tx);
}

/* --- limits of heads --- */

static struct live_dataset *limits_read(struct dsl_dataset *ds)
{
	struct live_dataset *l = dsl_live(ds);
	struct dsl_write *w = ds->pool->write;
	uint64_t quota = 0, reservation = 0;
	bool known;

	pthread_mutex_lock(&w->space);
	known = l->limits_read;
	pthread_mutex_unlock(&w->space);
	if (known)
		return l;
	if (dsl_prop_u64(ds, "refquota", &quota, NULL))
		quota = 0;
	if (dsl_prop_u64(ds, "refreservation", &reservation, NULL))
		reservation = 0;
	pthread_mutex_lock(&w->space);
	if (!l->limits_read) {
		l->limits_read = true;
		l->refquota = quota;
		l->refreservation = reservation;
	}
	pthread_mutex_unlock(&w->space);
	return l;
}

void dsl_limits_load(struct dsl_dataset *ds)
{
	limits_read(ds);
}

uint64_t dsl_dataset_refreservation(struct dsl_dataset *ds)
{
	return ds->is_snapshot ? 0 : limits_read(ds)->refreservation;
}

uint64_t dsl_dataset_refquota(struct dsl_dataset *ds)
{
	return ds->is_snapshot ? 0 : limits_read(ds)->refquota;
}

/* --- available space --- */

void dsl_space_refresh(struct dsl_pool *p)
{
	struct dsl_write *w = p->write;
	uint64_t usable[4], deferred;

	if (!w->ops)
		return;
	for (unsigned i = 0; i < 4; i++)
		usable[i] = w->ops->usable(w->arg, (enum dsl_space_policy)i);
	deferred = w->ops->deferred(w->arg);
	pthread_mutex_lock(&w->space);
	memcpy(w->usable, usable, sizeof(usable));
	w->deferred = deferred;
	__atomic_store_n(&p->usable_bytes, usable[DSL_SPACE_NORMAL], __ATOMIC_RELAXED);
	pthread_mutex_unlock(&w->space);
}

static uint64_t available_locked(struct dsl_dir *d, const struct dsl_dir *ancestor, int64_t delta, bool above)
{
	uint64_t limit = d->quota ? d->quota : UINT64_MAX, up = UINT64_MAX, used = d->used;

	above |= d == ancestor;
	if (above)
		used += (uint64_t)delta;
	if (d->up)
		up = available_locked(d->up, ancestor, delta, above);
	else
		limit = MIN(limit, d->pool->write->usable[DSL_SPACE_NORMAL]);
	if (d->reserved > used && up != UINT64_MAX)
		up += d->reserved - used;
	return used > limit ? 0 : MIN(up, limit - used);
}

uint64_t dsl_dir_available(struct dsl_dir *d, const struct dsl_dir *ancestor, int64_t delta)
{
	struct dsl_write *w = d->pool->write;

	SCOPED_LOCK(&w->space);
	return available_locked(d, ancestor, delta, false);
}

/* --- setting limits (2.6) --- */

static int out_of_space(struct err *e)
{
	return err_set(e, -ENOSPC, "out of space");
}

int dsl_quota_check(struct dsl_dir *d, uint64_t v, struct tx *tx, struct err *e)
{
	struct dsl_write *w = d->pool->write;

	SCOPED_LOCK(&w->space);
	if (v != 0 && (v < d->reserved || v < d->used))
		return err_set(e, -ENOSPC, "size is less than current used or reserved space");
	return 0;
}

void dsl_quota_sync(struct dsl_dir *d, uint64_t v, struct tx *tx)
{
	struct dsl_write *w = d->pool->write;

	pthread_mutex_lock(&w->space);
	d->quota = v;
	pthread_mutex_unlock(&w->space);
	dsl_dir_store(d, tx);
}

int dsl_reservation_check(struct dsl_dir *d, uint64_t v, struct tx *tx, struct err *e)
{
	struct dsl_write *w = d->pool->write;
	uint64_t room;

	SCOPED_LOCK(&w->space);
	if (MAX(d->used, v) <= MAX(d->used, d->reserved))
		return 0;
	room = d->up ? available_locked(d->up, NULL, 0, false) : available_locked(d, NULL, 0, false);
	if (MAX(d->used, v) - MAX(d->used, d->reserved) > room)
		return err_set(e, -ENOSPC, "size is greater than available space");
	if (d->quota > 0 && v > d->quota)
		return err_set(e, -ENOSPC, "size is greater than the quota");
	return 0;
}

void dsl_reservation_sync(struct dsl_dir *d, uint64_t v, struct tx *tx)
{
	struct dsl_write *w = d->pool->write;
	int64_t delta;

	pthread_mutex_lock(&w->space);
	delta = (int64_t)(MAX(d->used, v) - MAX(d->used, d->reserved));
	d->reserved = v;
	if (d->up)
		transfer_locked(d->up, delta, 0, 0, delta, DSL_USED_CHILD_RSRV, DSL_USED_CHILD_RSRV);
	pthread_mutex_unlock(&w->space);
	chain_store(d, tx);
}

int dsl_refquota_check(struct dsl_dataset *head, uint64_t v, struct tx *tx, struct err *e)
{
	uint64_t reservation = dsl_dataset_refreservation(head);

	if (v != 0 && (v < head->used || v < reservation))
		return err_set(e, -ENOSPC, "size is less than current used or reserved space");
	return 0;
}

void dsl_refquota_sync(struct dsl_dataset *head, uint64_t v, struct tx *tx)
{
	struct live_dataset *l = limits_read(head);
	struct dsl_write *w = head->pool->write;

	SCOPED_LOCK(&w->space);
	l->refquota = v;
}

int dsl_refreservation_check(struct dsl_dataset *head, uint64_t v, struct tx *tx, struct err *e)
{
	uint64_t old = dsl_dataset_refreservation(head), quota = dsl_dataset_refquota(head);
	uint64_t room = dsl_dir_available(head->dir, NULL, 0);

	if (MAX(head->unique, v) > MAX(head->unique, old)) {
		if (MAX(head->unique, v) - MAX(head->unique, old) > room)
			return err_set(e, -ENOSPC, "size is greater than available space");
		if (quota > 0 && v > quota)
			return err_set(e, -ENOSPC, "size is greater than the refquota");
	}
	return 0;
}

void dsl_refreservation_sync(struct dsl_dataset *head, uint64_t v, struct tx *tx)
{
	struct live_dataset *l = limits_read(head);
	struct dsl_write *w = head->pool->write;
	uint64_t old;

	pthread_mutex_lock(&w->space);
	old = l->refreservation;
	l->refreservation = v;
	pthread_mutex_unlock(&w->space);
	dsl_diduse(head->dir, DSL_USED_REFRSRV, (int64_t)(MAX(v, head->unique) - MAX(old, head->unique)), 0, 0, tx);
}

/* The space that a snapshot of the head takes for its refreservation. */
int dsl_snapshot_space_check(struct dsl_dataset *head, struct err *e)
{
	uint64_t need = MIN(head->unique, dsl_dataset_refreservation(head));

	return need && need > dsl_dir_available(head->dir, NULL, 0) ? out_of_space(e) : 0;
}

/* --- room for transactions --- */

static uint64_t sum_slots(const uint64_t v[TXG_SIZE])
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < TXG_SIZE; i++)
		sum += v[i];
	return sum;
}

/* What the change will take at most; *meta is the part for metadata. */
static uint64_t estimate_locked(const struct live_dataset *l, const struct objset *os, const struct tx *tx,
				uint64_t *meta)
{
	uint64_t inflation = tunable_get(&tunable_asize_inflation);
	uint64_t had = l->inflight_meta[tx->txg & TXG_MASK], most = l->ds->used / META_PART + META_FEWEST;
	uint64_t data = tx->bytes * MAX(1, os->props.copies);

	if (inflation <= ESTIMATE_DATA) {
		*meta = 0;
		return data * inflation;
	}
	*meta = MIN(tx->bytes * (inflation - ESTIMATE_DATA), most > had ? most - had : 0);
	return data * ESTIMATE_DATA + *meta;
}

/* What the head takes of its dir for `est` bytes; *wait: it would fit once the groups in flight are settled. */
static uint64_t head_need_locked(const struct live_dataset *l, uint64_t est, bool *wait)
{
	uint64_t own = l->ds->unique, fly = sum_slots(l->inflight), floor = l->refreservation;

	*wait = false;
	if (own >= floor)
		return est;
	/* Inside its reservation a head always gets on, one transaction at a time if need be. */
	if (fly == 0)
		return 0;
	*wait = true;
	return (uint64_t)growth(own + fly, (int64_t)est, floor);
}

static int root_check_locked(const struct dsl_dir *root, uint64_t fly, uint64_t need, bool netfree)
{
	const struct dsl_write *w = root->pool->write;
	uint64_t limit = w->usable[netfree ? DSL_SPACE_RESERVED : DSL_SPACE_NORMAL];
	uint64_t hard = w->usable[DSL_SPACE_EXTRA];
	uint64_t freeing = w->freeing && w->free_dir ? w->free_dir->used : 0;

	if (root->used >= limit)
		return root->used - MIN(freeing, root->used) < limit ? -EAGAIN : -ENOSPC;
	if (root->used + fly + need > limit && fly)
		return -EAGAIN;
	/* What was freed cannot be had at once. */
	if (root->used + w->deferred + fly + need > hard && (fly || w->deferred))
		return -EAGAIN;
	return 0;
}

static int dir_check_locked(struct dsl_dir *d, uint64_t fly, uint64_t need, bool netfree)
{
	if (d->quota && !netfree) {
		if (d->used >= d->quota)
			return -EDQUOT;
		if (fly && d->used + fly + need > d->quota + d->quota / QUOTA_OVERRUN)
			return -EAGAIN;
	}
	return d->up ? 0 : root_check_locked(d, fly, need, netfree);
}

static int head_check_locked(const struct live_dataset *l, bool netfree)
{
	uint64_t fly = sum_slots(l->inflight);

	if (!l->refquota || netfree || l->ds->used + fly < l->refquota)
		return 0;
	return fly == 0 || l->ds->used >= l->refquota ? -EDQUOT : -EAGAIN;
}

static int chain_check_locked(const struct live_dataset *l, uint64_t need, bool netfree)
{
	int err = 0;

	for (struct dsl_dir *d = l->ds->dir; d && need && !err; d = d->up) {
		uint64_t fly = sum_slots(dir_node_of(d)->inflight);

		err = dir_check_locked(d, fly, need, netfree);
		need = (uint64_t)growth(d->used + fly, (int64_t)need, d->reserved);
	}
	return err;
}

static void charge_locked(struct live_dataset *l, uint64_t est, uint64_t meta, uint64_t need, uint64_t txg)
{
	unsigned slot = txg & TXG_MASK;

	l->inflight[slot] += est;
	l->inflight_meta[slot] += meta;
	for (struct dsl_dir *d = l->ds->dir; d && need; d = d->up) {
		struct dir_node *n = dir_node_of(d);
		uint64_t above = (uint64_t)growth(d->used + sum_slots(n->inflight), (int64_t)need, d->reserved);

		n->inflight[slot] += need;
		need = above;
	}
}

/*
 * Of what is in flight only the worst case is known, so it refuses nobody for good: whoever would not fit beside it
 * waits for its settlement, and only what is used already refuses.
 */
int dsl_reserve(struct objset *os, struct tx *tx)
{
	struct live_dataset *l = os->ops_arg;
	struct dsl_write *w = l->ds->pool->write;
	bool netfree = tx->flags & TX_NETFREE, wait;
	uint64_t est, meta, need;
	int err = 0;

	if (tx->bytes == 0)
		return 0;
	SCOPED_LOCK(&w->space);
	est = estimate_locked(l, os, tx, &meta);
	need = head_need_locked(l, est, &wait);
	if (!(tx->flags & TX_NOSPACE_CHECK)) {
		err = head_check_locked(l, netfree);
		if (!err)
			err = chain_check_locked(l, need, netfree);
		if (err && err != -EDQUOT && wait)
			err = -EAGAIN;
	}
	if (!err)
		charge_locked(l, est, meta, need, tx->txg);
	tx->reserved = err ? 0 : est;
	return err;
}

static void dir_clear(void *arg, struct obj_node *n)
{
	container_of(n, struct dir_node, node)->inflight[*(unsigned *)arg] = 0;
}

static void dataset_clear(void *arg, struct obj_node *n)
{
	struct live_dataset *l = container_of(n, struct dataset_node, node)->live;
	unsigned slot = *(unsigned *)arg;

	if (l)
		l->inflight[slot] = l->inflight_meta[slot] = 0;
}

void dsl_inflight_clear(struct dsl_pool *p, uint64_t txg)
{
	unsigned slot = txg & TXG_MASK;

	SCOPED_LOCK(&p->write->space);
	obj_cache_each(&p->cache->dirs, dir_clear, &slot);
	obj_cache_each(&p->cache->datasets, dataset_clear, &slot);
}
