/* Opening and closing a log, and its part in the sync of the data set (9.6, 9.10, 9.11). */
#include "base/log.h"
#include "zil/zil_impl.h"

/* Guards os->zil of all sets, so that the sync thread can use a log that is being closed. Innermost. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

struct zil *zil_hold(struct objset *os)
{
	SCOPED_LOCK(&open_lock);
	if (os->zil)
		atomic_fetch_add(&os->zil->refs, 1);
	return os->zil;
}

static void zil_attach(struct objset *os, struct zil *z)
{
	SCOPED_LOCK(&open_lock);
	os->zil = z;
}

static struct zil *zil_create(struct objset *os)
{
	struct zil *z = xcalloc(1, sizeof(*z));

	z->os = os;
	z->zp = os->dp->zp;
	z->txgs = os->dp->txgs;
	atomic_init(&z->refs, 1);
	pthread_mutex_init(&z->lock, NULL);
	pthread_cond_init(&z->idle, NULL);
	zil_queues_init(z);
	list_init(&z->chain);
	zil_helpers_hold(z);
	return z;
}

void zil_release(struct zil *z)
{
	struct list_node *n;

	if (atomic_fetch_sub(&z->refs, 1) != 1)
		return;
	while ((n = list_pop(&z->chain)))
		zil_block_destroy(container_of(n, struct zil_block, node));
	zil_helpers_release(z);
	pthread_mutex_destroy(&z->lock);
	pthread_cond_destroy(&z->idle);
	free(z);
}

/* --- opening --- */

bool zil_needs_replay(const struct objset *os)
{
	struct zil_header zh;

	return zil_header_decode(os->zil_header, os->swapped, &zh) == 0 && zh.claim_txg && zh.flags & ZIL_REPLAY_NEEDED;
}

/* An open transaction of this set, whose sync will store the header. */
static int zil_tx_begin(struct zil *z, struct tx *tx)
{
	int err;

	*tx = (struct tx){.flags = TX_NOWAIT | TX_NOSPACE_CHECK};
	err = tx_begin_wait(z->txgs, tx);
	if (!err)
		objset_dirty(z->os, tx);
	return err;
}

/* A log that was claimed without records keeps its block, under a new name: what lies there must not be found again. */
static int zil_chain_adopt(struct zil *z)
{
	struct zil_block *b = zil_block_create(&z->header.log);
	struct tx tx;
	int err;

	if (z->header.claim_txg == 0 && !bp_is_swapped(&b->bp)) {
		list_append(&z->chain, &b->node);
		return 0;
	}
	err = zil_tx_begin(z, &tx);
	if (err) {
		zil_block_destroy(b);
		return err;
	}
	pthread_mutex_lock(&z->lock);
	if (bp_is_swapped(&b->bp))
		z->broken_txg = tx.txg;
	else
		zil_chain_seed(z, &b->bp);
	list_append(&z->chain, &b->node);
	z->header = (struct zil_header){0};
	z->header_dirty = true;
	z->ready_txg = tx.txg;
	pthread_mutex_unlock(&z->lock);
	tx_end(&tx);
	return 0;
}

int zil_open(struct objset *os, struct zil **out, struct err *e)
{
	struct zil *z = zil_create(os);
	int err = zil_header_decode(os->zil_header, os->swapped, &z->header);

	if (err) {
		zil_release(z);
		return err_set(e, err, "the header of the intent log is damaged");
	}
	zil_attach(os, z);
	if (!bp_is_hole(&z->header.log) && !zil_needs_replay(os))
		err = zil_chain_adopt(z);
	if (err) {
		zil_attach(os, NULL);
		zil_release(z);
		return err_set(e, err, "intent log: %s", err_words(err));
	}
	*out = z;
	return 0;
}

/* --- closing --- */

static bool chain_is_clean(struct zil *z)
{
	SCOPED_LOCK(&z->lock);
	return list_is_empty(&z->chain) && !z->broken_txg && !z->header_dirty;
}

void zil_close(struct zil *z)
{
	struct list dropped;
	struct tx tx;
	int err = 0;

	zil_batches_wait(z);
	if (z->max_txg)
		err = txg_wait_synced(z->txgs, z->max_txg);
	while (!err && !chain_is_clean(z)) {
		err = zil_tx_begin(z, &tx);
		if (err)
			break;
		pthread_mutex_lock(&z->lock);
		z->broken_txg = tx.txg; /* its sync frees what is left */
		pthread_mutex_unlock(&z->lock);
		tx_end(&tx);
		err = txg_wait_synced(z->txgs, tx.txg);
	}
	zil_attach(z->os, NULL);
	list_init(&dropped);
	pthread_mutex_lock(&z->lock);
	zil_queues_drop(z, UINT64_MAX, &dropped);
	pthread_mutex_unlock(&z->lock);
	itx_list_destroy(&dropped);
	zil_release(z);
}

/* --- sync --- */

/* Blocks at the head of the chain that nobody needs once this group is on the devices. */
static void chain_trim_locked(struct zil *z, uint64_t txg, struct list *freed)
{
	bool all = z->broken_txg && z->broken_txg <= txg;

	while (z->chain.len > (all ? 0 : 1)) {
		struct zil_block *b = container_of(list_first(&z->chain), struct zil_block, node);

		if (!all && (!b->flushed || bp_birth(&b->bp) > txg || b->max_txg > txg))
			break;
		list_remove(&z->chain, &b->node);
		list_append(freed, &b->node);
	}
	if (all)
		z->broken_txg = 0;
}

/* What the group stores. Lock held. */
static void header_make_locked(struct zil *z, struct tx *tx, struct zil_header *zh)
{
	struct list_node *first = list_first(&z->chain);
	uint64_t *replayed = &z->replayed[tx->txg & TXG_MASK];

	z->header.replay_seq = MAX(z->header.replay_seq, *replayed);
	*replayed = 0;
	*zh = z->header;
	if (z->destroy_txg == tx->txg)
		*zh = z->header = (struct zil_header){0};
	if (!zh->claim_txg)
		zh->log = first ? container_of(first, struct zil_block, node)->bp : (struct bp){{0}};
	z->header_dirty = false;
}

static void blocks_free(struct zil *z, struct list *freed, uint64_t txg)
{
	struct list_node *n;

	while ((n = list_pop(freed))) {
		struct zil_block *b = container_of(n, struct zil_block, node);
		int err = zio_free(z->zp, &b->bp, txg);

		if (err)
			log_warn("freeing a block of the intent log: %s", err_words(err));
		zil_block_destroy(b);
	}
}

void zil_sync(struct objset *os, struct tx *tx)
{
	struct zil *z = zil_hold(os);
	uint8_t phys[ZIL_HEADER_SIZE];
	struct zil_header zh;
	struct zil_queue *q;
	struct list freed;

	if (!z)
		return;
	if (z->destroy_txg == tx->txg)
		zil_free_claimed(os, tx);
	list_init(&freed);
	pthread_mutex_lock(&z->lock);
	q = &z->queue[tx->txg & TXG_MASK];
	if (q->txg == tx->txg && q->charged) {
		txg_dirty_done(z->txgs, tx->txg, q->charged);
		q->charged = 0;
	}
	chain_trim_locked(z, tx->txg, &freed);
	header_make_locked(z, tx, &zh);
	pthread_mutex_unlock(&z->lock);
	zil_header_encode(&zh, phys);
	if (os->swapped || memcmp(phys, os->zil_header, sizeof(phys)) != 0)
		objset_set_zil_header(os, phys, tx);
	blocks_free(z, &freed, tx->txg);
	zil_release(z);
}

void zil_sync_done(struct objset *os, uint64_t txg)
{
	struct zil *z = zil_hold(os);
	struct list dropped;

	if (!z)
		return;
	list_init(&dropped);
	pthread_mutex_lock(&z->lock);
	zil_queues_drop(z, txg, &dropped);
	pthread_mutex_unlock(&z->lock);
	itx_list_destroy(&dropped);
	zil_release(z);
}
