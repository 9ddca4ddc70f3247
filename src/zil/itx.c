/* Records in memory, from the operation that made them until they are placed in a log block or their group is synced.
 */
#include "zil/zil_impl.h"

TUNABLE(tunable_immediate_write_sz, "zfs_immediate_write_sz", "bytes", 32768, 0, 16u << 20,
	"writes of this size and more go to their final place before the log, which only points to them");
TUNABLE(tunable_special_is_slog, "zil_special_is_slog", "", 1, 0, 1,
	"special devices that take small blocks also play the log device");

struct itx *itx_create(uint64_t txtype, size_t record_size)
{
	size_t size = ROUND_UP(record_size, 8);
	struct itx *itx = xcalloc(1, sizeof(*itx) + size);

	itx->reclen = (uint32_t)size;
	store_host64(itx->record, txtype);
	return itx;
}

struct itx *itx_create_write(uint64_t object, uint64_t offset, uint64_t len)
{
	struct itx *itx = itx_create(TX_WRITE, ZIL_WRITE_FIXED);

	itx->object = object;
	store_host64(itx->record + 32, object);
	store_host64(itx->record + 40, offset);
	store_host64(itx->record + 48, len);
	return itx;
}

void itx_set_data(struct itx *itx, struct buf *data, uint32_t off)
{
	itx->data = buf_hold(data);
	itx->data_off = off;
	itx->data_len = (uint32_t)load_host64(itx->record + 48);
	itx->reclen = ZIL_WRITE_FIXED + ROUND_UP(itx->data_len, 8);
}

void itx_set_indirect(struct itx *itx, struct dnode *dn, uint64_t blkid)
{
	itx->dn = dnode_ref(dn);
	itx->blkid = blkid;
}

void itx_destroy(struct itx *itx)
{
	if (!itx)
		return;
	buf_release(itx->data);
	if (itx->dn)
		dnode_release(itx->dn);
	free(itx);
}

void itx_list_destroy(struct list *itxs)
{
	struct list_node *n;

	while ((n = list_pop(itxs)))
		itx_destroy(container_of(n, struct itx, node));
}

/* --- what kind (06, section 9; 07, 8.6) --- */

static bool top_is_special(const struct vdev *top)
{
	return top->alloc_bias && strcmp(top->alloc_bias, "special") == 0;
}

static void pool_kinds(const struct vdev *root, bool *log, bool *special)
{
	*log = *special = false;
	for (unsigned i = 0; i < root->nchildren; i++) {
		const struct vdev *top = root->child[i];

		*log |= top->is_log && vdev_is_concrete(top);
		*special |= top_is_special(top);
	}
}

enum zil_write_kind zil_write_kind(const struct zil *z, uint64_t len, uint32_t blocksize, bool sync)
{
	const struct objset_props *props = &z->os->props;
	bool log, special;

	if (props->logbias)
		return ZIL_INDIRECT;
	if (len < tunable_get(&tunable_immediate_write_sz) || (len < blocksize / 2 && sync))
		return ZIL_COPIED;
	pool_kinds(z->zp->root, &log, &special);
	if (log || (special && tunable_get(&tunable_special_is_slog) && blocksize > props->special_small))
		return ZIL_COPIED;
	return ZIL_INDIRECT;
}

/* --- queues --- */

static int itx_object_cmp(const struct tree_node *a, const struct tree_node *b)
{
	uint64_t x = container_of(a, struct itx_object, node)->object,
		 y = container_of(b, struct itx_object, node)->object;

	return (x > y) - (x < y);
}

void zil_queues_init(struct zil *z)
{
	for (unsigned i = 0; i < TXG_SIZE; i++) {
		list_init(&z->queue[i].itxs);
		tree_init(&z->queue[i].async, itx_object_cmp);
	}
}

static struct list *queue_object(struct zil_queue *q, uint64_t object)
{
	struct itx_object key = {.object = object}, *o;
	struct tree_node *n = tree_find(&q->async, &key.node);

	if (n)
		return &container_of(n, struct itx_object, node)->itxs;
	o = xcalloc(1, sizeof(*o));
	o->object = object;
	list_init(&o->itxs);
	tree_insert(&q->async, &o->node);
	return &o->itxs;
}

static void queue_object_take(struct zil_queue *q, struct tree_node *n)
{
	struct itx_object *o = container_of(n, struct itx_object, node);

	tree_remove(&q->async, n);
	list_splice(&q->itxs, &o->itxs);
	free(o);
}

/* The object's asynchronous records (0: everybody's) come behind the synchronous ones. */
static void queue_async_take(struct zil_queue *q, uint64_t object)
{
	struct itx_object key = {.object = object};
	struct tree_node *n;

	if (object) {
		n = tree_find(&q->async, &key.node);
		if (n)
			queue_object_take(q, n);
		return;
	}
	while ((n = tree_first(&q->async)))
		queue_object_take(q, n);
}

void zil_append(struct zil *z, struct itx *itx, struct tx *tx)
{
	struct zil_queue *q = &z->queue[tx->txg & TXG_MASK];
	bool first;

	itx->txg = tx->txg;
	pthread_mutex_lock(&z->lock);
	z->max_txg = MAX(z->max_txg, tx->txg);
	if (z->os->props.sync == SYNC_DISABLED) {
		z->late_txg = MAX(z->late_txg, tx->txg); /* whoever commits once sync is on again */
		pthread_mutex_unlock(&z->lock);
		itx_destroy(itx);
		return;
	}
	first = q->txg != tx->txg;
	BUG_ON(first && (!list_is_empty(&q->itxs) || q->async.len || q->charged));
	q->txg = tx->txg;
	list_append(itx->async ? queue_object(q, itx->object) : &q->itxs, &itx->node);
	q->charged += itx->charged;
	if (itx->charged)
		txg_dirty_add(z->txgs, tx->txg, itx->charged);
	pthread_mutex_unlock(&z->lock);
	if (first)
		objset_dirty(z->os,
			     tx); /* a change that changed nothing: its record goes with the sync of the group too */
}

void zil_queues_take(struct zil *z, uint64_t object, struct list *to)
{
	struct zil_queue *order[TXG_SIZE];
	unsigned n = 0, at;

	for (unsigned i = 0; i < TXG_SIZE; i++) {
		struct zil_queue *q = &z->queue[i];

		if (list_is_empty(&q->itxs) && q->async.len == 0)
			continue;
		for (at = n++; at > 0 && order[at - 1]->txg > q->txg; at--)
			order[at] = order[at - 1];
		order[at] = q;
	}
	for (unsigned i = 0; i < n; i++) {
		queue_async_take(order[i], object);
		list_splice(to, &order[i]->itxs);
	}
}

void zil_queues_drop(struct zil *z, uint64_t txg, struct list *to)
{
	for (unsigned i = 0; i < TXG_SIZE; i++) {
		struct zil_queue *q = &z->queue[i];

		if (q->txg > txg)
			continue;
		queue_async_take(q, 0);
		list_splice(to, &q->itxs);
	}
}
