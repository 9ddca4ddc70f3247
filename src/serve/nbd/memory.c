/*
 * Memory for what clients write, bounded for all of them together. A write's bytes are taken before its payload is
 * received and given back when it is done. Who comes too late waits in order, with the request unread in its socket.
 */
#include "serve/nbd/conn.h"

#define MEMORY_SHARE 16 /* of the machine's */
#define MEMORY_MIN   (UINT64_C(2) * NBD_REQUEST_MAX)
#define MEMORY_MAX   (UINT64_C(256) << 20)

void memory_init(struct nbd_memory *m, uint64_t machine_bytes)
{
	pthread_mutex_init(&m->lock, NULL);
	list_init(&m->waiting);
	m->max = MAX(MIN(machine_bytes / MEMORY_SHARE, MEMORY_MAX), MEMORY_MIN);
}

void memory_fini(struct nbd_memory *m)
{
	BUG_ON(m->used || m->waiting.len);
	pthread_mutex_destroy(&m->lock);
}

bool memory_take(struct nbd_memory *m, struct nbd_conn *c, uint64_t bytes)
{
	SCOPED_LOCK(&m->lock);
	if (c->memory_granted) {
		BUG_ON(c->memory_granted != bytes);
		c->memory_granted = 0;
		return true;
	}
	if (list_is_empty(&m->waiting) && m->used + bytes <= m->max) {
		m->used += bytes;
		return true;
	}
	c->memory_wanted = bytes;
	conn_starve(c, true);
	list_append(&m->waiting, &c->memory_node);
	return false;
}

/* Those in front for whom there is room now. */
static void memory_grant_locked(struct nbd_memory *m)
{
	struct list_node *n;

	while ((n = list_first(&m->waiting))) {
		struct nbd_conn *c = container_of(n, struct nbd_conn, memory_node);

		if (m->used + c->memory_wanted > m->max)
			break;
		list_remove(&m->waiting, n);
		m->used += c->memory_wanted;
		c->memory_granted = c->memory_wanted;
		conn_starve(c, false);
	}
}

void memory_give(struct nbd_memory *m, uint64_t bytes)
{
	SCOPED_LOCK(&m->lock);
	m->used -= bytes;
	memory_grant_locked(m);
}

void memory_leave(struct nbd_memory *m, struct nbd_conn *c)
{
	SCOPED_LOCK(&m->lock);
	if (list_node_is_linked(&c->memory_node))
		list_remove(&m->waiting, &c->memory_node);
	m->used -= c->memory_granted;
	c->memory_granted = 0;
	memory_grant_locked(m);
}

bool memory_is_short(struct nbd_memory *m)
{
	SCOPED_LOCK(&m->lock);
	return !list_is_empty(&m->waiting);
}
