/* Volumes that are open for writing, and their size. */
#include "dsl/dsl_write.h"
#include "zvol/zvol_impl.h"

/* Guards the list, and opens and state of each. Not held while a device or a group is waited for. */
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t live_changed = PTHREAD_COND_INITIALIZER;
static struct list live_list = {{&live_list.head, &live_list.head}, 0};

static struct zvol_live *live_find_locked(const struct objset *os)
{
	list_for_each(&live_list, n) {
		struct zvol_live *v = container_of(n, struct zvol_live, node);

		if (v->os == os)
			return v;
	}
	return NULL;
}

static struct zvol_live *live_create_locked(struct objset *os)
{
	struct zvol_live *v = xcalloc(1, sizeof(*v));

	v->os = objset_hold(os);
	v->state = LIVE_OPENING;
	v->opens = 1;
	zvol_ranges_init(&v->ranges);
	list_append(&live_list, &v->node);
	return v;
}

static void live_destroy(struct zvol_live *v)
{
	pthread_mutex_lock(&live_lock);
	list_remove(&live_list, &v->node);
	pthread_cond_broadcast(&live_changed);
	pthread_mutex_unlock(&live_lock);
	if (v->dn)
		dnode_release(v->dn);
	objset_release(v->os);
	zvol_ranges_fini(&v->ranges);
	free(v);
}

static int live_start(struct zvol_live *v, struct err *e)
{
	uint64_t size;
	int err = zvol_objects_open(v->os, &v->dn, &size, e);

	if (err)
		return err;
	atomic_init(&v->size, size);
	v->blocksize = dnode_blocksize(v->dn);
	err = zil_open(v->os, &v->zil, e);
	if (err)
		return err;
	err = zil_replay(v->zil, zvol_replay, v, e);
	if (err)
		zil_close(v->zil);
	return err;
}

int zvol_live_open(struct objset *os, struct zvol_live **out, struct err *e)
{
	struct zvol_live *v;
	int err;

	pthread_mutex_lock(&live_lock);
	while ((v = live_find_locked(os)) && v->state != LIVE_OPEN)
		pthread_cond_wait(&live_changed, &live_lock);
	if (v) {
		v->opens++;
		pthread_mutex_unlock(&live_lock);
		*out = v;
		return 0;
	}
	v = live_create_locked(os);
	pthread_mutex_unlock(&live_lock);
	err = live_start(v, e);
	if (err) {
		live_destroy(v);
		return err;
	}
	pthread_mutex_lock(&live_lock);
	v->state = LIVE_OPEN;
	pthread_cond_broadcast(&live_changed);
	pthread_mutex_unlock(&live_lock);
	*out = v;
	return 0;
}

void zvol_live_close(struct zvol_live *v)
{
	bool last;

	pthread_mutex_lock(&live_lock);
	last = --v->opens == 0;
	if (last)
		v->state = LIVE_CLOSING;
	pthread_mutex_unlock(&live_lock);
	if (!last)
		return;
	zil_close(v->zil);
	live_destroy(v);
}

int zvol_replay_log(struct dsl_dataset *head, struct err *e)
{
	struct err why = ERR_INIT;
	struct objset *os;
	struct zvol *zv;
	bool needed;
	int err;

	if (bp_is_hole(&head->bp) || dsl_dataset_open_raw(head, &os, NULL))
		return 0; /* there is no log, or nothing that could be replayed into */
	needed = os->type == OBJSET_ZVOL && zil_needs_replay(os);
	objset_release(os);
	if (!needed)
		return 0;
	err = zvol_open(head, &zv, &why);
	if (!err)
		zvol_close(zv);
	return !err || err == -EKEY ? 0 : err_set(e, err, "%s", why.text);
}

/* --- size --- */

/* Nobody changes anything meanwhile. */
struct range_wait {
	struct zvol_range range;
	struct waiter w;
};

static void range_wait_granted(struct zvol_range *r)
{
	waiter_done(&container_of(r, struct range_wait, range)->w, 0);
}

static void range_wait_enter(struct zvol_live *v, struct range_wait *rw)
{
	rw->range = (struct zvol_range){.start = 0, .end = UINT64_MAX, .granted = range_wait_granted};
	waiter_init(&rw->w);
	if (zvol_range_enter(&v->ranges, &rw->range))
		waiter_done(&rw->w, 0);
	waiter_wait(&rw->w);
}

static int size_tx(struct zvol_live *v, int (*change)(struct zvol_live *v, uint64_t size, struct tx *tx), uint64_t size,
		   bool wait)
{
	struct tx tx = {.os = v->os, .flags = TX_NETFREE, .bytes = v->blocksize};
	int err = tx_begin_wait(v->os->dp->txgs, &tx);

	if (err)
		return err;
	err = change(v, size, &tx);
	tx_end(&tx);
	if (!err && wait)
		err = txg_wait_synced(v->os->dp->txgs, tx.txg);
	return err;
}

/* Also before growing: a shrinking that a crash cut short leaves data there (8.3). */
static int size_free_beyond(struct zvol_live *v, uint64_t size, struct tx *tx)
{
	return dmu_free_range(v->dn, size, UINT64_MAX, tx);
}

static int size_store(struct zvol_live *v, uint64_t size, struct tx *tx)
{
	return zap_update_u64(v->os, ZVOL_PROP_OBJECT, "size", size, tx);
}

static int size_change(struct zvol_live *v, uint64_t size)
{
	uint64_t old = atomic_load(&v->size);
	int err = 0;

	if (size > old)
		err = size_tx(v, size_free_beyond, old, false);
	else
		atomic_store(&v->size, size);
	if (!err)
		err = size_tx(v, size_store, size, true);
	if (err) {
		if (size < old)
			atomic_store(&v->size, old);
		return err;
	}
	if (size > old) {
		atomic_store(&v->size, size);
		return 0;
	}
	size_tx(v, size_free_beyond, size, true); /* what is left behind is freed before the volume grows again */
	return 0;
}

int zvol_set_size(struct dsl_dataset *ds, uint64_t volsize, struct err *e)
{
	struct range_wait rw;
	struct zvol *zv;
	int err = zvol_open(ds, &zv, e);

	if (err)
		return err;
	if (!zvol_is_writable(zv)) {
		zvol_close(zv);
		return err_set(e, -EROFS, "%s: read-only", ds->name);
	}
	err = zvol_check_sizes(volsize, zv->blocksize, UINT32_MAX, e);
	if (!err) {
		range_wait_enter(zv->live, &rw);
		err = volsize == zvol_size(zv) ? 0 : size_change(zv->live, volsize);
		if (err)
			err_set(e, err, "%s: %s", ds->name, err_words(err));
		zvol_range_leave(&zv->live->ranges, &rw.range);
	}
	zvol_close(zv);
	return err;
}
