/* Queues of work and their threads. */
#include <stdio.h>

#include "base/os.h"
#include "base/sync.h"
#include "base/taskq.h"

struct taskq {
	pthread_mutex_t lock; /* guards all below; innermost, nothing is taken while it is held */
	pthread_cond_t work;
	struct list tasks;
	unsigned idle;    /* threads waiting on `work` */
	unsigned wakeups; /* of those, how many were signalled and have not run yet */
	bool ending;
	bool is_cpu;
	unsigned nthreads;
	char name[13];
	pthread_t threads[];
};

static _Thread_local bool this_is_cpu_worker;

bool thread_is_cpu_worker(void)
{
	return this_is_cpu_worker;
}

/* The next task, or NULL when the queue ends and nothing is left. */
static struct task *taskq_next(struct taskq *tq)
{
	struct list_node *n;

	pthread_mutex_lock(&tq->lock);
	while (!(n = list_pop(&tq->tasks)) && !tq->ending) {
		tq->idle++;
		pthread_cond_wait(&tq->work, &tq->lock);
		tq->idle--;
		if (tq->wakeups > 0)
			tq->wakeups--;
	}
	pthread_mutex_unlock(&tq->lock);
	return n ? container_of(n, struct task, node) : NULL;
}

static void *taskq_thread(void *arg)
{
	struct taskq *tq = arg;
	struct task *t;

	this_is_cpu_worker = tq->is_cpu;
	pthread_setname_np(pthread_self(), tq->name);
	while ((t = taskq_next(tq)))
		t->run(t);
	return NULL;
}

static struct taskq *taskq_make(const char *name, unsigned threads, bool is_cpu)
{
	struct taskq *tq;

	BUG_ON(threads == 0);
	tq = xcalloc(1, sizeof(*tq) + threads * sizeof(tq->threads[0]));
	pthread_mutex_init(&tq->lock, NULL);
	pthread_cond_init(&tq->work, NULL);
	list_init(&tq->tasks);
	tq->is_cpu = is_cpu;
	snprintf(tq->name, sizeof(tq->name), "%s", name);
	for (; tq->nthreads < threads; tq->nthreads++)
		if (os_thread_create(&tq->threads[tq->nthreads], taskq_thread, tq) != 0)
			break;
	if (tq->nthreads == 0) {
		fprintf(stderr, "tarn: cannot start a thread for queue '%s'\n", name);
		abort();
	}
	return tq;
}

struct taskq *taskq_create(const char *name, unsigned threads)
{
	return taskq_make(name, threads, false);
}

void taskq_destroy(struct taskq *tq)
{
	if (!tq)
		return;
	pthread_mutex_lock(&tq->lock);
	tq->ending = true;
	pthread_cond_broadcast(&tq->work);
	pthread_mutex_unlock(&tq->lock);
	for (unsigned i = 0; i < tq->nthreads; i++)
		pthread_join(tq->threads[i], NULL);
	pthread_cond_destroy(&tq->work);
	pthread_mutex_destroy(&tq->lock);
	free(tq);
}

/* One sleeper is woken per task, and none when every sleeper is already on its way. */
static bool taskq_needs_wakeup_locked(struct taskq *tq)
{
	if (tq->idle <= tq->wakeups || tq->tasks.len <= tq->wakeups)
		return false;
	tq->wakeups++;
	return true;
}

/*
 * Once the lock is let go the task may run and end, and whoever waited for it may destroy the queue: so it is signalled
 * with the lock held. The queue of cpu workers is never destroyed, and spares the woken thread the wait for the lock.
 */
static void taskq_unlock_and_wake(struct taskq *tq)
{
	bool wake = taskq_needs_wakeup_locked(tq), is_cpu = tq->is_cpu;

	if (wake && !is_cpu)
		pthread_cond_signal(&tq->work);
	pthread_mutex_unlock(&tq->lock);
	if (wake && is_cpu)
		pthread_cond_signal(&tq->work);
}

void taskq_dispatch(struct taskq *tq, struct task *t)
{
	pthread_mutex_lock(&tq->lock);
	list_append(&tq->tasks, &t->node);
	taskq_unlock_and_wake(tq);
}

void taskq_dispatch_front(struct taskq *tq, struct task *t)
{
	pthread_mutex_lock(&tq->lock);
	list_prepend(&tq->tasks, &t->node);
	taskq_unlock_and_wake(tq);
}

static struct taskq *cpu_queue;

static void cpu_taskq_make(void)
{
	cpu_queue = taskq_make("tarn-cpu", os_cpus(), true);
}

struct taskq *cpu_taskq(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, cpu_taskq_make);
	return cpu_queue;
}
