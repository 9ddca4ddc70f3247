/*
 * Memory for what clients write, bounded for all of them together. Bytes are counted as buffers for them are made, not
 * as lengths claim. When there is too much, one client at a time goes on, so that writes that have begun can end; the
 * others wait in order. Who has its turn and sends nothing for a while loses it.
 */
#include "serve/nbd/conn.h"

#include "base/counter.h"

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
	BUG_ON(m->used || m->turn || m->waiting.len);
	pthread_mutex_destroy(&m->lock);
}

void memory_take(struct nbd_memory *m, uint64_t bytes)
{
	SCOPED_LOCK(&m->lock);
	m->used += bytes;
}

static void memory_wake_locked(struct nbd_memory *m)
{
	struct list_node *n;

	while ((n = list_first(&m->waiting)) && (m->used < m->max || !m->turn)) {
		struct nbd_conn *c = container_of(n, struct nbd_conn, memory_node);

		if (m->used >= m->max)
			m->turn = c;
		list_remove(&m->waiting, n);
		atomic_store(&c->progress, now_ns());
		conn_starve(c, false);
	}
}

bool memory_may_receive(struct nbd_memory *m, struct nbd_conn *c)
{
	SCOPED_LOCK(&m->lock);
	if (m->used < m->max || m->turn == c)
		return true;
	if (!m->turn) {
		m->turn = c;
		return true;
	}
	conn_starve(c, true);
	list_append(&m->waiting, &c->memory_node);
	return false;
}

void memory_give(struct nbd_memory *m, uint64_t bytes)
{
	SCOPED_LOCK(&m->lock);
	m->used -= bytes;
	memory_wake_locked(m);
}

void memory_leave(struct nbd_memory *m, struct nbd_conn *c)
{
	SCOPED_LOCK(&m->lock);
	if (list_node_is_linked(&c->memory_node))
		list_remove(&m->waiting, &c->memory_node);
	if (m->turn == c)
		m->turn = NULL;
	memory_wake_locked(m);
}

bool memory_is_short(struct nbd_memory *m)
{
	SCOPED_LOCK(&m->lock);
	if (m->turn && now_ns() > atomic_load(&m->turn->progress) + NBD_TURN_NS) {
		m->turn = NULL;
		memory_wake_locked(m);
	}
	return !list_is_empty(&m->waiting);
}
