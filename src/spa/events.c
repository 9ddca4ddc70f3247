/*
 * Events (zpool events): a ring in memory for all pools of the process, numbered from 1. What is posted wakes those who
 * wait for the next one.
 */
#include <time.h>

#include "base/counter.h"
#include "base/list.h"
#include "base/sync.h"
#include "base/tunable.h"
#include "spa/spa.h"

static TUNABLE(tunable_zevent_len_max, "zfs_zevent_len_max", "events", 512, 1, 65536,
	       "so many events are kept for zpool events");

struct event {
	struct list_node node;
	uint64_t id;
	struct nvlist *l;
};

/* Guards everything below; a leaf. */
static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t events_cond;
static struct list events;
static uint64_t events_last;
static pthread_once_t events_once = PTHREAD_ONCE_INIT;

static void events_init(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&events_cond, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&events);
}

static void event_free(struct list_node *n)
{
	struct event *ev = container_of(n, struct event, node);

	nvlist_destroy(ev->l);
	free(ev);
}

void spa_event_post(struct spa *spa, const char *class, const struct nvlist *payload)
{
	struct event *ev = xcalloc(1, sizeof(*ev));
	struct nvlist *p = payload ? nvlist_copy(payload) : nvlist_create();
	struct timespec now;

	pthread_once(&events_once, events_init);
	clock_gettime(CLOCK_REALTIME, &now);
	ev->l = nvlist_create();
	nvlist_add_string(ev->l, "class", class);
	nvlist_add_u64(ev->l, "seconds", (uint64_t)now.tv_sec);
	nvlist_add_u64(ev->l, "nanoseconds", (uint64_t)now.tv_nsec);
	if (spa) {
		nvlist_add_string(ev->l, "pool", spa->name);
		nvlist_add_string(p, "pool", spa->name);
		nvlist_add_u64(p, "pool_guid", spa->guid);
	}
	nvlist_take_list(ev->l, "payload", p);
	SCOPED_LOCK(&events_lock);
	ev->id = ++events_last;
	nvlist_add_u64(p, "eid", ev->id);
	list_append(&events, &ev->node);
	while (events.len > tunable_get(&tunable_zevent_len_max))
		event_free(list_pop(&events));
	pthread_cond_broadcast(&events_cond);
}

static struct event *event_after_locked(uint64_t after)
{
	list_for_each(&events, n)
		if (container_of(n, struct event, node)->id > after)
			return container_of(n, struct event, node);
	return NULL;
}

int spa_event_next(uint64_t after, uint64_t deadline_ns, uint64_t *id, struct nvlist **event)
{
	struct timespec until = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
	struct event *ev;

	pthread_once(&events_once, events_init);
	SCOPED_LOCK(&events_lock);
	while (!(ev = event_after_locked(after)) && deadline_ns && now_ns() < deadline_ns)
		pthread_cond_timedwait(&events_cond, &events_lock, &until);
	if (!ev)
		return -ENOENT;
	*id = ev->id;
	*event = nvlist_copy(ev->l);
	return 0;
}

unsigned spa_event_clear(void)
{
	unsigned n = 0;
	struct list_node *node;

	pthread_once(&events_once, events_init);
	SCOPED_LOCK(&events_lock);
	for (; (node = list_pop(&events)); n++)
		event_free(node);
	return n;
}
