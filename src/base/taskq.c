/* Queues of work and their threads. */
#include <stdio.h>

#include "base/os.h"
#include "base/sync.h"
#include "base/taskq.h"

#define GATHERED_MAX 32u /* tasks that are handed over at once */
#define TAKEN_MAX    8u  /* tasks that a worker takes at once */

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

/* Of short tasks a worker takes its share of what waits; those that may wait for each other are taken one by one. */
static unsigned taskq_share_locked(const struct taskq *tq)
{
	return tq->is_cpu ? MIN(MAX((unsigned)tq->tasks.len / tq->nthreads, 1u), TAKEN_MAX) : 1;
}

/* The next tasks; none when the queue ends and nothing is left. */
static void taskq_take(struct taskq *tq, struct list *taken)
{
	pthread_mutex_lock(&tq->lock);
	while (list_is_empty(&tq->tasks) && !tq->ending) {
		tq->idle++;
		pthread_cond_wait(&tq->work, &tq->lock);
		tq->idle--;
		if (tq->wakeups > 0)
			tq->wakeups--;
	}
	for (unsigned n = taskq_share_locked(tq); n > 0 && !list_is_empty(&tq->tasks); n--)
		list_append(taken, list_pop(&tq->tasks));
	pthread_mutex_unlock(&tq->lock);
}

static void *taskq_thread(void *arg)
{
	struct taskq *tq = arg;
	struct list taken;

	this_is_cpu_worker = tq->is_cpu;
	pthread_setname_np(pthread_self(), tq->name);
	list_init(&taken);
	for (;;) {
		struct list_node *n;

		taskq_take(tq, &taken);
		if (list_is_empty(&taken))
			return NULL;
		while ((n = list_pop(&taken))) {
			struct task *t = container_of(n, struct task, node);

			t->run(t);
		}
	}
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
static unsigned taskq_wakeups_locked(struct taskq *tq)
{
	unsigned wanted = (unsigned)MIN((size_t)tq->idle, tq->tasks.len);
	unsigned more = wanted > tq->wakeups ? wanted - tq->wakeups : 0;

	tq->wakeups += more;
	return more;
}

/*
 * Once the lock is let go the task may run and end, and whoever waited for it may destroy the queue: so it is signalled
 * with the lock held. The queue of cpu workers is never destroyed, and spares the woken thread the wait for the lock.
 */
static void taskq_unlock_and_wake(struct taskq *tq)
{
	unsigned wake = taskq_wakeups_locked(tq);
	bool is_cpu = tq->is_cpu;

	for (; wake > 0 && !is_cpu; wake--)
		pthread_cond_signal(&tq->work);
	pthread_mutex_unlock(&tq->lock);
	for (; wake > 0; wake--)
		pthread_cond_signal(&tq->work);
}

/* --- gathering --- */

static _Thread_local struct {
	unsigned depth;
	struct list front, back;
} gathered;

void taskq_gather(void)
{
	if (gathered.depth++ > 0)
		return;
	list_init(&gathered.front);
	list_init(&gathered.back);
}

void taskq_hand_over(void)
{
	struct taskq *tq = cpu_taskq();
	struct list_node *n;

	if (gathered.depth == 0 || gathered.front.len + gathered.back.len == 0)
		return;
	pthread_mutex_lock(&tq->lock);
	while ((n = list_last(&gathered.front))) {
		list_remove(&gathered.front, n);
		list_prepend(&tq->tasks, n);
	}
	list_splice(&tq->tasks, &gathered.back);
	taskq_unlock_and_wake(tq);
}

void taskq_gather_end(void)
{
	if (gathered.depth == 1)
		taskq_hand_over();
	gathered.depth--;
}

static bool taskq_gathers(const struct taskq *tq)
{
	if (gathered.depth == 0 || !tq->is_cpu)
		return false;
	if (gathered.front.len + gathered.back.len >= GATHERED_MAX)
		taskq_hand_over();
	return true;
}

void taskq_dispatch(struct taskq *tq, struct task *t)
{
	if (taskq_gathers(tq)) {
		list_append(&gathered.back, &t->node);
		return;
	}
	pthread_mutex_lock(&tq->lock);
	list_append(&tq->tasks, &t->node);
	taskq_unlock_and_wake(tq);
}

void taskq_dispatch_front(struct taskq *tq, struct task *t)
{
	if (taskq_gathers(tq)) {
		list_prepend(&gathered.front, &t->node);
		return;
	}
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
