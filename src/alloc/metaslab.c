/*
 * metaslab.c: what is allocated in the whole pool: every metaslab's own map, then the log maps that no metaslab has
 * taken over yet (docs/format/06-allocation-and-vdevs.md, 2.2, 2.7 and 2.9).
 */
#include "alloc/spacemap.h"

#include "base/bytes.h"

#define METASLABS_MAX (UINT64_C(1) << 24)
#define LOGS_MAX      (1u << 20)
#define UNFLUSHED_KEY "com.delphix:ms_unflushed_phys_txgs"

void metaslab_bounds(const struct vdev *top, uint64_t m, uint64_t *start, uint64_t *size)
{
	uint64_t end = (m + 1) << top->ms_shift;

	*start = m << top->ms_shift;
	if (top->kind == VDEV_DRAID) {
		uint64_t row = vdev_psize_to_asize(top, vdev_min_alloc(top), 0);
		*start = ROUND_UP(*start, row);
		*size = *start < end ? ROUND_DOWN(end - *start, row) : 0;
	} else {
		*size = end - *start;
	}
}

static uint64_t metaslab_count(const struct vdev *top)
{
	return vdev_is_concrete(top) && top->ms_array && top->ms_shift ? top->asize >> top->ms_shift : 0;
}

/* Words [i, i + n), all in one block. */
static int words_of_block(struct dnode *dn, uint64_t i, uint64_t *out, uint64_t n)
{
	bool swap;
	int err = dmu_block_is_swapped(dn, i * 8 / dn->datablksz, &swap);

	if (err == 0)
		err = dmu_read(dn, i * 8, out, n * 8, 0);
	if (err == 0 && swap)
		swap64_buffer(out, n * 8);
	return err;
}

int spacemap_words_read(struct objset *mos, uint64_t object, uint64_t *out, uint64_t n)
{
	struct dnode *dn;
	uint64_t per;
	int err = dnode_hold(mos, object, &dn, NULL);

	if (err)
		return err;
	per = dn->datablksz / 8;
	memset(out, 0, n * 8);
	if (per == 0 || dn->datablksz % 8)
		err = -EINVAL;
	for (uint64_t i = 0; err == 0 && i < n && i / per <= dn->maxblkid; i += per)
		err = words_of_block(dn, i, out + i, MIN(per, n - i));
	dnode_release(dn);
	return err;
}

/* One metaslab's own map */

static int metaslab_apply(struct metaslab_info *ms, const struct spacemap_entry *e)
{
	uint64_t end = e->offset + e->run;

	if (e->offset < ms->start || end < e->offset || end > ms->start + ms->size)
		return -EINVAL;
	int err = e->free ? rangetree_remove(&ms->allocated, e->offset, end)
			  : rangetree_add(&ms->allocated, e->offset, end);
	return err ? -EINVAL : 0;
}

static int metaslab_entry(void *arg, const struct spacemap_entry *e)
{
	return metaslab_apply(arg, e);
}

static int metaslab_load(struct objset *mos, const struct vdev *top, struct metaslab_info *ms, struct err *e)
{
	struct spacemap_header h;

	if (ms->object == 0)
		return 0;
	int err = spacemap_header_read(mos, ms->object, &h);
	if (err == 0)
		err = spacemap_each(mos, ms->object, ms->start, (unsigned)top->ashift, metaslab_entry, ms);
	if (err == 0 && h.alloc != ms->allocated.space)
		err = -EINVAL;
	if (err)
		return err_set(e, err, "space map of device %llu, metaslab %llu: %s", (unsigned long long)ms->vdev,
			       (unsigned long long)ms->id, err_words(err));
	return 0;
}

static int top_load(struct objset *mos, const struct vdev *top, struct metaslab_info *ms, uint64_t count, struct err *e)
{
	autofree uint64_t *object = calloc(count, sizeof(*object));

	if (!object)
		return err_set(e, -ENOMEM, "out of memory");
	int err = spacemap_words_read(mos, top->ms_array, object, count);
	if (err)
		return err_set(e, err, "metaslab array of device %llu: %s", (unsigned long long)top->id,
			       err_words(err));
	for (uint64_t m = 0; m < count && err == 0; m++) {
		ms[m].vdev = top->id;
		ms[m].id = m;
		ms[m].object = object[m];
		metaslab_bounds(top, m, &ms[m].start, &ms[m].size);
		err = metaslab_load(mos, top, &ms[m], e);
	}
	return err;
}

/* Log maps */

struct log_replay {
	struct vdev *root;
	struct spacemap_pool *pool;
	size_t *first;       /* index of each top-level's first metaslab in the pool's array */
	uint64_t *unflushed; /* per metaslab: changes of earlier txgs are in its own map */
	uint64_t txg;        /* of the log being replayed */
};

static int log_entry(void *arg, const struct spacemap_entry *e)
{
	struct log_replay *lr = arg;

	if (e->vdev >= lr->root->nchildren)
		return -EINVAL;
	const struct vdev *top = lr->root->child[e->vdev];
	if (!vdev_is_concrete(top))
		return 0;
	uint64_t count = metaslab_count(top);
	if (count == 0 || e->offset >> top->ms_shift >= count)
		return -EINVAL;
	size_t i = lr->first[e->vdev] + (size_t)(e->offset >> top->ms_shift);
	return lr->txg < lr->unflushed[i] ? 0 : metaslab_apply(&lr->pool->ms[i], e);
}

static int unflushed_load(struct objset *mos, struct log_replay *lr, struct err *e)
{
	for (unsigned i = 0; i < lr->root->nchildren; i++) {
		const struct vdev *top = lr->root->child[i];
		uint64_t count = metaslab_count(top), object = 0;
		if (count == 0 || top->zap_top == 0)
			continue;
		int err = zap_lookup_u64(mos, top->zap_top, UNFLUSHED_KEY, &object);
		if (err == 0)
			err = spacemap_words_read(mos, object, lr->unflushed + lr->first[i], count);
		if (err && err != -ENOENT)
			return err_set(e, err, "flush state of device %u: %s", i, err_words(err));
	}
	return 0;
}

static int log_compare(const void *a, const void *b)
{
	const struct spacemap_log *x = a, *y = b;

	return (x->txg > y->txg) - (x->txg < y->txg);
}

static int log_take(struct spacemap_log **logs, size_t *n, const struct zap_entry *ze)
{
	char *end;

	if (ze->key_words != 0 || ze->intsize != 8 || ze->nints != 1)
		return -EINVAL;
	errno = 0;
	uint64_t txg = strtoull(ze->name, &end, 16);
	if (errno || *end != '\0' || end == ze->name || *n == LOGS_MAX)
		return -EINVAL;
	if (IS_POW2(*n) || *n == 0)
		*logs = xrealloc(*logs, (*n ? 2 * *n : 1) * sizeof(**logs));
	(*logs)[(*n)++] = (struct spacemap_log){txg, ze->first};
	return 0;
}

int spacemap_log_list(struct objset *mos, uint64_t zap, struct spacemap_log **logs, size_t *n)
{
	struct zap_cursor *c;
	struct zap_entry *ze = xmalloc(sizeof(*ze));
	int err = zap_cursor_open(mos, zap, 0, &c);

	*logs = NULL;
	*n = 0;
	if (err == 0) {
		while ((err = zap_cursor_next(c, ze)) == 0 && (err = log_take(logs, n, ze)) == 0)
			;
		zap_cursor_close(c);
	}
	free(ze);
	if (err != -ENOENT)
		return err;
	if (*n)
		qsort(*logs, *n, sizeof(**logs), log_compare);
	return 0;
}

static int logs_replay(struct objset *mos, struct log_replay *lr, uint64_t zap, struct err *e)
{
	autofree struct spacemap_log *logs = NULL;
	size_t n;
	int err = spacemap_log_list(mos, zap, &logs, &n);

	if (err)
		return err_set(e, err, "list of space map logs: %s", err_words(err));
	for (size_t i = 0; i < n; i++) {
		lr->txg = logs[i].txg;
		err = spacemap_each(mos, logs[i].object, 0, SPACEMAP_LOG_SHIFT, log_entry, lr);
		if (err)
			return err_set(e, err, "space map log of txg %llu: %s", (unsigned long long)logs[i].txg,
				       err_words(err));
	}
	return 0;
}

/* The pool */

static int pool_load(struct objset *mos, struct log_replay *lr, uint64_t log_object, struct err *e)
{
	int err = 0;

	for (unsigned i = 0; i < lr->root->nchildren && err == 0; i++) {
		const struct vdev *top = lr->root->child[i];
		uint64_t count = metaslab_count(top);
		if (count)
			err = top_load(mos, top, lr->pool->ms + lr->first[i], count, e);
	}
	if (err || !log_object)
		return err;
	err = unflushed_load(mos, lr, e);
	return err ? err : logs_replay(mos, lr, log_object, e);
}

int spacemap_load_pool(struct objset *mos, struct vdev *root, uint64_t log_object, struct spacemap_pool *out,
		       struct err *e)
{
	autofree size_t *first = xcalloc(root->nchildren + 1, sizeof(*first));
	uint64_t n = 0;

	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < root->nchildren; i++) {
		uint64_t count = metaslab_count(root->child[i]);
		first[i] = n;
		if (count > METASLABS_MAX - n)
			return err_set(e, -EINVAL, "device %u has an impossible number of metaslabs", i);
		n += count;
	}
	out->ms = calloc(n ? n : 1, sizeof(*out->ms));
	autofree uint64_t *unflushed = calloc(n ? n : 1, sizeof(*unflushed));
	if (!out->ms || !unflushed) {
		free(out->ms);
		out->ms = NULL;
		return err_set(e, -ENOMEM, "out of memory");
	}
	out->n = n;
	for (uint64_t i = 0; i < n; i++)
		rangetree_init(&out->ms[i].allocated);
	struct log_replay lr = {.root = root, .pool = out, .first = first, .unflushed = unflushed};
	int err = pool_load(mos, &lr, log_object, e);
	if (err)
		spacemap_free_pool(out);
	return err;
}

void spacemap_free_pool(struct spacemap_pool *p)
{
	for (size_t i = 0; i < p->n; i++)
		rangetree_clear(&p->ms[i].allocated);
	free(p->ms);
	p->ms = NULL;
	p->n = 0;
}
