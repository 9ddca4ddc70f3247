#include "serve/fuse/node.h"

#include "base/hash.h"
#include "base/sync.h"

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

static struct node **node_find_locked(struct fuse_mount *m, uint64_t number)
{
	struct node **p = &m->node[hash_mix(number, 0) & (NODE_HASH - 1)];

	while (*p && (*p)->number != number)
		p = &(*p)->next;
	return p;
}

int node_get(struct fuse_mount *m, uint64_t number, struct znode **zn, struct snap **snap)
{
	struct node *n;
	SCOPED_LOCK(&m->lock);

	n = *node_find_locked(m, number);
	if (!n)
		return -ESTALE;
	*zn = znode_ref(n->zn);
	if (snap)
		*snap = n->snap;
	return 0;
}

struct node *node_add_lookup(struct fuse_mount *m, struct snap *snap, struct znode *zn)
{
	struct node **p, *n;
	struct znode *extra = NULL;
	uint64_t number = node_number(m, snap, zn->id);

	pthread_mutex_lock(&m->lock);
	p = node_find_locked(m, number);
	n = *p;
	if (n) {
		extra = zn;
	} else {
		n = xcalloc(1, sizeof(*n));
		*n = (struct node){.number = number, .zn = zn, .snap = snap};
		*p = n;
		if (snap)
			snap->refs++;
	}
	n->lookups++;
	pthread_mutex_unlock(&m->lock);
	if (extra)
		znode_release(extra);
	return n;
}

static void node_free(struct fuse_mount *m, struct node *n)
{
	znode_release(n->zn);
	if (n->snap)
		snap_release(m, n->snap);
	free(n);
}

void node_forget(struct fuse_mount *m, uint64_t number, uint64_t lookups)
{
	struct node **p, *n;

	pthread_mutex_lock(&m->lock);
	p = node_find_locked(m, number);
	n = *p;
	if (n && n->lookups > lookups) {
		n->lookups -= lookups;
		n = NULL;
	} else if (n) {
		*p = n->next;
	}
	pthread_mutex_unlock(&m->lock);
	if (n)
		node_free(m, n);
}

void node_forget_all(struct fuse_mount *m)
{
	for (unsigned i = 0; i < NODE_HASH; i++) {
		struct node *n;

		while ((n = m->node[i])) {
			m->node[i] = n->next;
			node_free(m, n);
		}
	}
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

int snap_get(struct fuse_mount *m, const char *name, struct snap **out)
{
	struct zpl *zpl = NULL;
	struct snap *s;
	unsigned slot;
	int err = 0;

	pthread_mutex_lock(&m->lock);
	s = snap_find_locked(m, name);
	if (s)
		s->refs++;
	pthread_mutex_unlock(&m->lock);
	if (!s) {
		err = snap_open(m, name, &zpl);
		if (err)
			return err;
		pthread_mutex_lock(&m->lock);
		s = snap_find_locked(m, name); /* somebody may have been faster */
		if (s) {
			s->refs++;
		} else if ((err = snap_slot_locked(m, &slot)) == 0) {
			s = xcalloc(1, sizeof(*s));
			*s = (struct snap){.zpl = zpl, .name = xstrdup(name), .slot = slot, .refs = 1};
			m->snap[slot] = s;
			zpl = NULL;
		}
		pthread_mutex_unlock(&m->lock);
	}
	if (zpl)
		zpl_close(zpl);
	*out = s;
	return err;
}

void snap_release(struct fuse_mount *m, struct snap *s)
{
	bool last;

	pthread_mutex_lock(&m->lock);
	last = --s->refs == 0;
	if (last)
		m->snap[s->slot] = NULL;
	pthread_mutex_unlock(&m->lock);
	if (!last)
		return;
	zpl_close(s->zpl);
	free(s->name);
	free(s);
}
