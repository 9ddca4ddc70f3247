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
/* Holds the mutex to the end of the enclosing block. */
#define SCOPED_LOCK(m)                                                                                                 \
	__attribute__((cleanup(scoped_unlock), unused)) pthread_mutex_t *scoped_lock_##__LINE__ = (m);                 \
	pthread_mutex_lock(m)

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
