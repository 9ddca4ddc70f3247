/*
 * base/sync.h: scope-bound locks, and the waiter that turns a completion callback into a blocking call.
 */
#ifndef BASE_SYNC_H
#define BASE_SYNC_H

#include <pthread.h>

#include "base/base.h"

static inline void scoped_unlock(pthread_mutex_t **m)
{
	pthread_mutex_unlock(*m);
}
static inline pthread_mutex_t *scoped_lock(pthread_mutex_t *m)
{
	pthread_mutex_lock(m);
	return m;
}
#define SCOPED_LOCK_AT_(m, line)                                                                                       \
	__attribute__((cleanup(scoped_unlock), unused)) pthread_mutex_t *scoped_lock_##line = scoped_lock(m)
#define SCOPED_LOCK_AT(m, line) SCOPED_LOCK_AT_(m, line)
/* Holds the mutex to the end of the enclosing block. */
#define SCOPED_LOCK(m) SCOPED_LOCK_AT(m, __LINE__)

struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	int err;
};

void waiter_init(struct waiter *w);
void waiter_done(struct waiter *w, int err);
/* Waits for waiter_done, destroys the waiter, returns err. Never on a cpu worker (asserted). */
int waiter_wait(struct waiter *w);

#endif
