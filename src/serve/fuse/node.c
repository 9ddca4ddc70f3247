/*
 * What the kernel knows of a mount: nodes by number, snapshots by slot, open handles.
 */
#include "serve/fuse/node.h"

#include <time.h>

#include "base/hash.h"
#include "base/sync.h"

#define OBJECT_MASK  ((UINT64_C(1) << NODE_SNAP_SHIFT) - 1)
#define EXPIRY_EVERY 30 /* seconds */

int errno_of(int err)
{
	return err == -ECKSUM || err == -ENXIO ? EIO : -err;
}

uint64_t node_number(const struct fuse_mount *m, const struct snap *snap, uint64_t object)
{
	if (snap)
		return (uint64_t)(snap->slot + 1) << NODE_SNAP_SHIFT | object;
	return object == m->zpl->root ? FUSE_ROOT_ID : object;
}

static uint64_t node_object(const struct fuse_mount *m, uint64_t number)
{
	return number == FUSE_ROOT_ID ? m->zpl->root : number & OBJECT_MASK;
}

static uint64_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec;
}

/* ---- the table ---- */

void node_table_init(struct fuse_mount *m)
{
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->idle, NULL);
	list_init(&m->cached);
	list_init(&m->handles);
	m->nchains = NODE_HASH_MIN;
	m->node = xcalloc(m->nchains, sizeof(struct node *));
	m->next_expiry = now_s() + EXPIRY_EVERY;
}

static struct node **node_find_locked(struct fuse_mount *m, uint64_t number)
{
	struct node **p = &m->node[hash_mix(number, 0) & (m->nchains - 1)];

	while (*p && (*p)->number != number)
		p = &(*p)->next;
	return p;
}

/* Doubles the chains when they get long. Without memory they stay long. */
static void node_table_grow_locked(struct fuse_mount *m)
{
	uint64_t old = m->nchains;
	struct node **table = calloc(2 * old, sizeof(struct node *)), **from = m->node;

	if (!table)
		return;
	m->node = table;
	m->nchains = 2 * old;
	for (uint64_t i = 0; i < old; i++) {
		struct node *n;

		while ((n = from[i])) {
			struct node **p = &table[hash_mix(n->number, 0) & (2 * old - 1)];

			from[i] = n->next;
			n->next = *p;
			*p = n;
		}
	}
	free(from);
}

static void snap_free(struct snap *s)
{
	if (s->zpl)
		zpl_close(s->zpl);
	free(s->name);
	free(s);
}

/* Gives back a snapshot that nobody needs any longer, for snap_free outside the lock. */
static struct snap *snap_unneeded_locked(struct fuse_mount *m, struct snap *s)
{
	if (!s || s->nodes || s->users)
		return NULL;
	m->snap[s->slot] = NULL;
	return s;
}

/* ---- the cache of znodes ---- */

/* The znode leaves the cache; the caller releases it outside the lock, and then its use of the snapshot. */
static struct held node_uncache_locked(struct fuse_mount *m, struct node *n)
{
	struct held h = {n->zn, n->snap};

	if (n->zn)
		list_remove(&m->cached, &n->cached);
	n->zn = NULL;
	return h;
}

static void snap_use_end(struct fuse_mount *m, struct snap *s)
{
	struct snap *unneeded;

	if (!s)
		return;
	pthread_mutex_lock(&m->lock);
	s->users--;
	unneeded = snap_unneeded_locked(m, s);
	pthread_mutex_unlock(&m->lock);
	if (unneeded)
		snap_free(unneeded);
}

void node_drop(struct fuse_mount *m, struct held *h)
{
	if (!h->zn)
		return;
	znode_release(h->zn);
	h->zn = NULL;
	snap_use_end(m, h->snap);
}

/* Keeps the znode of a node for the next request; what had to leave for it comes back to be dropped. */
static struct held node_cache_locked(struct fuse_mount *m, struct node *n, const struct held *h)
{
	struct held out = {NULL, NULL};

	if (n->zn)
		return out;
	n->zn = znode_ref(h->zn);
	if (n->snap)
		n->snap->users++;
	list_prepend(&m->cached, &n->cached);
	if (m->cached.len > ZNODES_CACHED)
		out = node_uncache_locked(m, container_of(list_last(&m->cached), struct node, cached));
	return out;
}

/* ---- snapshots below .zfs ---- */

static struct snap *snap_find_locked(struct fuse_mount *m, const char *name)
{
	for (unsigned i = 0; i < m->nsnaps; i++)
		if (m->snap[i] && strcmp(m->snap[i]->name, name) == 0)
			return m->snap[i];
	return NULL;
}

static int snap_slot_locked(struct fuse_mount *m, unsigned *slot)
{
	for (unsigned i = 0; i < m->nsnaps; i++) {
		if (!m->snap[i]) {
			*slot = i;
			return 0;
		}
	}
	if (m->nsnaps >= SNAP_SLOTS)
		return -ENFILE;
	m->snap = xrealloc(m->snap, (m->nsnaps + 1) * sizeof(struct snap *));
	*slot = m->nsnaps++;
	m->snap[*slot] = NULL;
	return 0;
}

static int snap_open(struct fuse_mount *m, const char *name, struct zpl **out)
{
	autofree char *full = xasprintf("%s@%s", m->zpl->ds->dir->name, name);
	struct dsl_dataset *ds;
	int err = dsl_dataset_hold(m->zpl->ds->pool, full, &ds, NULL);

	if (err)
		return err;
	err = zpl_open(ds, out, NULL);
	dsl_dataset_release(ds);
	return err;
}

/* One more use of a snapshot that is in its slot; opens it when it is closed. */
static int snap_use(struct fuse_mount *m, struct snap *s)
{
	struct zpl *zpl = NULL;
	int err;

	pthread_mutex_lock(&m->lock);
	s->users++; /* from now on it stays */
	s->last_used = now_s();
	if (s->zpl) {
		pthread_mutex_unlock(&m->lock);
		return 0;
	}
	pthread_mutex_unlock(&m->lock);
	err = snap_open(m, s->name, &zpl);
	if (err) {
		snap_use_end(m, s);
		return err;
	}
	pthread_mutex_lock(&m->lock);
	if (!s->zpl) { /* somebody may have been faster */
		s->zpl = zpl;
		zpl = NULL;
	}
	pthread_mutex_unlock(&m->lock);
	zpl_close(zpl);
	return 0;
}

/* Finds or makes the slot; one use of the opened snapshot. */
static int snap_get(struct fuse_mount *m, const char *name, struct snap **out)
{
	struct zpl *zpl = NULL;
	struct snap *s;
	unsigned slot;
	int err = 0;

	pthread_mutex_lock(&m->lock);
	s = snap_find_locked(m, name);
	if (s)
		s->users++;
	pthread_mutex_unlock(&m->lock);
	if (s) {
		err = snap_use(m, s);
		snap_use_end(m, s);
		*out = s;
		return err;
	}
	err = snap_open(m, name, &zpl);
	if (err)
		return err;
	pthread_mutex_lock(&m->lock);
	s = snap_find_locked(m, name); /* somebody may have been faster */
	if (!s && (err = snap_slot_locked(m, &slot)) == 0) {
		s = xcalloc(1, sizeof(*s));
		*s = (struct snap){.name = xstrdup(name), .slot = slot};
		m->snap[slot] = s;
	}
	if (s) {
		s->users++;
		s->last_used = now_s();
		if (!s->zpl) {
			s->zpl = zpl;
			zpl = NULL;
		}
	}
	pthread_mutex_unlock(&m->lock);
	zpl_close(zpl);
	*out = s;
	return err;
}

int snap_hold_root(struct fuse_mount *m, const char *name, struct held *h)
{
	struct snap *s;
	int err = snap_get(m, name, &s);

	if (err)
		return err;
	err = node_hold_object(m, s, s->zpl, s->zpl->root, h);
	snap_use_end(m, s);
	return err;
}

/* The cached znodes of idle snapshots, and the ones that can be closed then. */
static void snap_expire_all(struct fuse_mount *m, uint64_t now)
{
	struct zpl *close[16];
	unsigned n = 0;

	pthread_mutex_lock(&m->lock);
	list_for_each_safe(&m->cached, ln) {
		struct node *node = container_of(ln, struct node, cached);

		if (node->snap && now - node->snap->last_used >= SNAP_IDLE_S) {
			struct held h = node_uncache_locked(m, node);

			znode_release(h.zn); /* its node keeps the snapshot in its slot */
			h.snap->users--;
		}
	}
	for (unsigned i = 0; i < m->nsnaps && n < ARRAY_LEN(close); i++) {
		struct snap *s = m->snap[i];

		if (s && s->zpl && s->users == 0 && now - s->last_used >= SNAP_IDLE_S) {
			close[n++] = s->zpl;
			s->zpl = NULL;
		}
	}
	pthread_mutex_unlock(&m->lock);
	while (n > 0)
		zpl_close(close[--n]);
}

void snap_expire(struct fuse_mount *m)
{
	uint64_t now = now_s();
	bool due;

	pthread_mutex_lock(&m->lock);
	due = now >= m->next_expiry;
	if (due)
		m->next_expiry = now + EXPIRY_EVERY;
	pthread_mutex_unlock(&m->lock);
	if (due)
		snap_expire_all(m, now);
}

/* ---- nodes ---- */

int node_hold_object(struct fuse_mount *m, struct snap *snap, struct zpl *zpl, uint64_t object, struct held *h)
{
	int err = znode_hold(zpl, object, &h->zn, NULL);

	h->snap = snap;
	if (err) {
		h->zn = NULL;
		return err;
	}
	if (snap) {
		pthread_mutex_lock(&m->lock);
		snap->users++;
		pthread_mutex_unlock(&m->lock);
	}
	return 0;
}

/* Not cached: read it by its number, and keep it. */
static int node_hold_again(struct fuse_mount *m, uint64_t number, struct snap *snap, struct held *h)
{
	struct held out = {NULL, NULL};
	struct node *n;
	int err = 0;

	if (snap) {
		err = snap_use(m, snap);
		snap_use_end(m, snap); /* the one of node_hold */
		if (err)
			return err;
	}
	err = node_hold_object(m, snap, snap ? snap->zpl : m->zpl, node_object(m, number), h);
	snap_use_end(m, snap);
	if (err)
		return err;
	pthread_mutex_lock(&m->lock);
	n = *node_find_locked(m, number);
	if (n)
		out = node_cache_locked(m, n, h);
	pthread_mutex_unlock(&m->lock);
	node_drop(m, &out);
	return 0;
}

int node_hold(struct fuse_mount *m, uint64_t number, struct held *h)
{
	struct snap *snap = NULL;
	struct node *n;

	*h = (struct held){NULL, NULL};
	pthread_mutex_lock(&m->lock);
	n = *node_find_locked(m, number);
	if (n)
		snap = n->snap;
	if (snap) {
		snap->users++;
		snap->last_used = now_s();
	}
	if (n && n->zn) {
		*h = (struct held){znode_ref(n->zn), snap};
		list_remove(&m->cached, &n->cached);
		list_prepend(&m->cached, &n->cached);
	}
	pthread_mutex_unlock(&m->lock);
	if (h->zn)
		return 0;
	/* File handles of NFS clients outlive what the kernel knows: objects of the file system itself are found. */
	if (!n && number >> NODE_SNAP_SHIFT)
		return -ESTALE;
	return node_hold_again(m, number, snap, h);
}

void node_add_lookup(struct fuse_mount *m, const struct held *h)
{
	uint64_t number = node_number(m, h->snap, h->zn->id);
	struct held out = {NULL, NULL};
	struct node **p, *n;

	pthread_mutex_lock(&m->lock);
	p = node_find_locked(m, number);
	n = *p;
	if (!n) {
		n = xcalloc(1, sizeof(*n));
		*n = (struct node){.number = number, .snap = h->snap};
		*p = n;
		if (n->snap)
			n->snap->nodes++;
		if (++m->nnodes > 2 * m->nchains)
			node_table_grow_locked(m);
	}
	n->lookups++;
	out = node_cache_locked(m, n, h);
	pthread_mutex_unlock(&m->lock);
	node_drop(m, &out);
}

/* Out of the table; what it had cached comes back to be dropped. */
static struct held node_unlink_locked(struct fuse_mount *m, struct node **p)
{
	struct node *n = *p;
	struct held out = node_uncache_locked(m, n);

	*p = n->next;
	m->nnodes--;
	if (n->snap)
		n->snap->nodes--;
	free(n);
	return out;
}

void node_forget(struct fuse_mount *m, uint64_t number, uint64_t lookups)
{
	struct held out = {NULL, NULL};
	struct snap *unneeded = NULL;
	struct node **p;

	pthread_mutex_lock(&m->lock);
	p = node_find_locked(m, number);
	if (*p && (*p)->lookups > lookups) {
		(*p)->lookups -= lookups;
	} else if (*p) {
		struct snap *snap = (*p)->snap;

		out = node_unlink_locked(m, p);
		unneeded = snap_unneeded_locked(m, snap);
	}
	pthread_mutex_unlock(&m->lock);
	node_drop(m, &out);
	if (unneeded)
		snap_free(unneeded);
}

void node_refresh(struct fuse_mount *m, uint64_t number)
{
	struct held out = {NULL, NULL};
	struct node *n;

	pthread_mutex_lock(&m->lock);
	n = *node_find_locked(m, number);
	if (n)
		out = node_uncache_locked(m, n);
	pthread_mutex_unlock(&m->lock);
	node_drop(m, &out);
}

/* ---- open handles ---- */

struct handle *handle_create(struct fuse_mount *m, struct held *held)
{
	struct handle *h = xcalloc(1, sizeof(*h));

	h->held = *held;
	held->zn = NULL;
	pthread_mutex_lock(&m->lock);
	list_append(&m->handles, &h->node);
	pthread_mutex_unlock(&m->lock);
	return h;
}

void handle_free(struct fuse_mount *m, struct handle *h)
{
	pthread_mutex_lock(&m->lock);
	list_remove(&m->handles, &h->node);
	pthread_mutex_unlock(&m->lock);
	if (h->dir)
		dir_walk_free(h->dir);
	node_drop(m, &h->held);
	free(h);
}

void node_table_free(struct fuse_mount *m)
{
	struct list_node *ln;

	while ((ln = list_first(&m->handles))) /* of a mount that ended while files were open */
		handle_free(m, container_of(ln, struct handle, node));
	for (uint64_t i = 0; i < m->nchains; i++)
		while (m->node[i])
			node_forget(m, m->node[i]->number, UINT64_MAX);
	free(m->node);
	free(m->snap);
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->idle);
}
