/*
 * dmu/sa_layout.c: adding to the registry and the layouts (docs/format/07-filesystem-zvol-zil.md, 2.1 - 2.3).
 *
 * Both are maps that everybody shares who changes files, and what is in them must not be younger than the files that
 * use it. So transactions in open context only look, and note what they miss; it is added by sa_layouts_add, whose
 * transactions come one at a time.
 */
#include <stdio.h>

#include "base/hash.h"
#include "base/sync.h"
#include "dmu/sa_impl.h"

#define ADD_BYTES (128u << 10) /* the most that is written for some layouts, the maps themselves included */
#define SET_LOCKS 16u

/* One at a time adds to the tables of an object set, however many struct sa_os there are for it: the groups of those
 * who change a map come in order. Stripes by set. */
static pthread_mutex_t set_locks[SET_LOCKS] = {[0 ... SET_LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

int sa_create(struct objset *os, struct tx *tx, uint64_t *sa_attrs)
{
	return zap_create(os, &(struct zap_spec){.type = DMU_OT_SA_MASTER_NODE}, tx, sa_attrs);
}

/* --- adding; the lock is held --- */

static int attr_register(struct sa_os *so, unsigned number, enum sa_attr a, struct tx *tx)
{
	const struct sa_known *k = &sa_known[a];
	uint64_t v = number | (uint64_t)k->class << 16 | (uint64_t)k->len << 24;
	int err = zap_add_u64(so->os, so->registry, k->name, v, tx);

	if (err)
		return err;
	so->nregistered++;
	sa_reg_set(so, number, (struct sa_reg){.len = k->len, .attr = (int16_t)a, .class = k->class});
	return 0;
}

/* The first attributes ever stored: both maps, and the numbers that are the same everywhere. */
static int tables_create(struct sa_os *so, struct tx *tx)
{
	int err = zap_create_in(so->os, DMU_OT_SA_ATTR_REGISTRATION, so->sa_attrs, "REGISTRY", tx, &so->registry);

	if (!err)
		err = zap_create_in(so->os, DMU_OT_SA_ATTR_LAYOUTS, so->sa_attrs, "LAYOUTS", tx, &so->layouts);
	for (unsigned i = 0; i < SA_FIXED && !err; i++)
		err = attr_register(so, i, (enum sa_attr)i, tx);
	return err;
}

static int attrs_register(struct sa_os *so, struct tx *tx)
{
	int err;

	if (so->registered != SA_NEVER)
		return 0;
	err = sa_os_refresh(so, NULL); /* somebody else may have done it */
	if (err || so->registered != SA_NEVER)
		return err;
	if (!so->registry)
		err = tables_create(so, tx);
	for (unsigned i = SA_FIXED; i < SA_ATTR_COUNT && !err; i++) {
		unsigned number = so->nregistered;

		if (so->number[i] != SA_UNKNOWN)
			continue;
		while (number < so->nreg && so->reg[number].present)
			number++;
		err = number < so->nreg ? attr_register(so, number, (enum sa_attr)i, tx) : -ENOSPC;
	}
	if (!err)
		__atomic_store_n(&so->registered, tx->txg, __ATOMIC_RELEASE);
	return err;
}

static const struct sa_layout *layout_find(const struct sa_os *so, const uint16_t *list, size_t n, unsigned *layout)
{
	unsigned end = __atomic_load_n(&so->layout_end, __ATOMIC_ACQUIRE);

	for (unsigned i = 1; i < end; i++) {
		const struct sa_layout *l = &so->layout[i];

		if (!sa_layout_exists(l) || l->n != n || memcmp(l->number, list, n * sizeof(*list)) != 0)
			continue;
		*layout = i;
		return l;
	}
	return NULL;
}

static int layout_add(struct sa_os *so, const uint16_t *list, size_t n, struct tx *tx, unsigned *layout)
{
	unsigned number = so->nlayouts + 2;
	char name[8];
	int err;

	while (number < SA_LAYOUTS && so->layout[number].number)
		number++;
	if (number >= SA_LAYOUTS)
		return -ENOSPC;
	snprintf(name, sizeof(name), "%u", number);
	err = zap_add(so->os, so->layouts, name, 2, n, list, tx);
	if (err)
		return err;
	so->nlayouts++;
	sa_layout_set(so, number, list, n, tx->txg);
	*layout = number;
	return 0;
}

static int layout_find_or_add(struct sa_os *so, const uint16_t *list, size_t n, struct tx *tx, unsigned *layout)
{
	int err;

	if (layout_find(so, list, n, layout))
		return 0;
	err = sa_os_refresh(so, NULL);
	if (err || layout_find(so, list, n, layout))
		return err;
	return layout_add(so, list, n, tx, layout);
}

/* --- what is wanted --- */

static bool is_wanted_locked(struct sa_os *so, const uint16_t *list, size_t n)
{
	list_for_each(&so->wanted, at) {
		const struct sa_want *w = container_of(at, struct sa_want, node);

		if (w->n == n && memcmp(w->number, list, n * sizeof(*list)) == 0)
			return true;
	}
	return false;
}

static void layout_want(struct sa_os *so, const uint16_t *list, size_t n)
{
	struct sa_want *w;
	SCOPED_LOCK(&so->want_lock);

	if (is_wanted_locked(so, list, n))
		return;
	w = xcalloc(1, sizeof(*w) + n * sizeof(*list));
	w->n = n;
	memcpy(w->number, list, n * sizeof(*list));
	list_append(&so->wanted, &w->node);
}

static void names_want(struct sa_os *so)
{
	SCOPED_LOCK(&so->want_lock);
	so->wants_names = true;
}

static bool anything_is_wanted(struct sa_os *so)
{
	SCOPED_LOCK(&so->want_lock);
	return so->wants_names || so->wanted.len > 0;
}

static struct sa_want *want_take(struct sa_os *so)
{
	struct list_node *n;
	SCOPED_LOCK(&so->want_lock);

	so->wants_names = false;
	n = list_pop(&so->wanted);
	return n ? container_of(n, struct sa_want, node) : NULL;
}

/* What cannot be added is forgotten: who needs it will say so again, and be told. */
static int wanted_add(struct sa_os *so, struct tx *tx)
{
	struct sa_want *w;
	unsigned layout;
	int err;
	SCOPED_LOCK(&so->lock);

	err = attrs_register(so, tx);
	while ((w = want_take(so))) {
		if (!err)
			err = layout_find_or_add(so, w->number, w->n, tx, &layout);
		free(w);
	}
	return err;
}

int sa_layouts_add(struct sa_os *so)
{
	struct tx tx = {.os = so->os, .bytes = ADD_BYTES, .flags = TX_NOSPACE_CHECK};
	int err;
	SCOPED_LOCK(&set_locks[hash_mix((uintptr_t)so->os, 0) % SET_LOCKS]);

	if (!anything_is_wanted(so))
		return 0;
	if (!so->os->ops || !so->os->dp->txgs)
		return -EROFS;
	err = tx_begin_wait(so->os->dp->txgs, &tx);
	if (err)
		return err;
	err = wanted_add(so, &tx);
	tx_end(&tx);
	return err;
}

/* --- for who stores attributes --- */

int sa_names_need(struct sa_os *so, struct tx *tx)
{
	uint64_t since;

	if (!so->sa_attrs)
		return -ENOTSUP;
	if (tx->syncing) {
		SCOPED_LOCK(&so->lock);
		return attrs_register(so, tx);
	}
	since = __atomic_load_n(&so->registered, __ATOMIC_ACQUIRE);
	if (since == SA_NEVER)
		names_want(so);
	return since <= tx->txg ? 0 : -EAGAIN;
}

int sa_layout_need(struct sa_os *so, const uint16_t *list, size_t n, struct tx *tx, unsigned *layout)
{
	const struct sa_layout *l;

	if (tx->syncing) {
		SCOPED_LOCK(&so->lock);
		return layout_find_or_add(so, list, n, tx, layout);
	}
	l = layout_find(so, list, n, layout);
	if (!l)
		layout_want(so, list, n);
	return l && l->txg <= tx->txg ? 0 : -EAGAIN;
}
