/* The waiter. */
#include "base/sync.h"
#include "base/taskq.h"

void waiter_init(struct waiter *w)
{
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->cond, NULL);
	w->done = false;
	w->err = 0;
}

void waiter_done(struct waiter *w, int err)
{
	/* Signalled under the lock: once it is let go, the waiting thread may destroy both. */
	pthread_mutex_lock(&w->lock);
	w->done = true;
	w->err = err;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

int waiter_wait(struct waiter *w)
{
	int err;

	BUG_ON(thread_is_cpu_worker());
	taskq_hand_over();
	pthread_mutex_lock(&w->lock);
	while (!w->done)
		pthread_cond_wait(&w->cond, &w->lock);
	err = w->err;
	pthread_mutex_unlock(&w->lock);
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
	return err;
}
