/* Buffers, task queues and waiters under several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/os.h"
#include "base/sync.h"
#include "base/taskq.h"

static void buffers_are_aligned_and_counted(void **state)
{
	const size_t sizes[] = {1, 512, 4096, 4097, 16384, 16385, 131072, 131073, 1 << 20, (16 << 20) + 512, 32 << 20};
	uint64_t before = buf_bytes_in_use();

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct buf *b = buf_alloc(sizes[i]);

		assert_non_null(b);
		assert_int_equal((uintptr_t)b->data % 4096, 0);
		assert_int_equal(b->size, sizes[i]);
		assert_true(b->alloc >= sizes[i] && b->alloc <= MAX(4096, sizes[i] + sizes[i] / 4 + 4096));
		assert_int_equal(buf_bytes_in_use(), before + b->alloc);
		memset(b->data, 0xa5, b->size);
		assert_ptr_equal(buf_hold(b), b);
		buf_release(b);
		assert_int_equal(b->data[b->size - 1], 0xa5);
		buf_release(b);
		assert_int_equal(buf_bytes_in_use(), before);
	}
	buf_release(NULL);
	assert_null(buf_alloc(0));
	assert_null(buf_alloc((32 << 20) + 1));
}

static void freed_buffers_are_kept_within_the_limit(void **state)
{
	struct buf *b[64];

	buf_cache_set_limit(1 << 20);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < ARRAY_LEN(b); i++)
			b[i] = buf_alloc(round == 1 ? 131072 : 8192);
		for (size_t i = 0; i < ARRAY_LEN(b); i++)
			buf_release(b[i]);
		assert_true(buf_cache_bytes() <= 1 << 20);
		assert_true(buf_cache_bytes() >= 1 << 18);
	}
	buf_cache_set_limit(0);
	assert_int_equal(buf_cache_bytes(), 0);
	buf_release(buf_alloc(4096));
	assert_int_equal(buf_cache_bytes(), 0);
	buf_cache_set_limit(64 << 20);
}

#define TASKS 20000

struct job {
	struct task task;
	atomic_uint *runs;
	struct waiter *last;
	int again;
};

static struct taskq *queue;

static void job_run(struct task *t)
{
	struct job *j = container_of(t, struct job, task);

	if (j->again-- > 0) {
		taskq_dispatch_front(queue, t);
		return;
	}
	if (atomic_fetch_add(j->runs, 1) + 1 == TASKS)
		waiter_done(j->last, -EAGAIN);
}

static void every_task_runs_once(void **state)
{
	struct job *jobs = xcalloc(TASKS, sizeof(*jobs));
	atomic_uint runs = 0;
	struct waiter w;

	waiter_init(&w);
	queue = taskq_create("unit-with-a-long-name", 4);
	for (int i = 0; i < TASKS; i++) {
		jobs[i] = (struct job){.task.run = job_run, .runs = &runs, .last = &w, .again = i % 3};
		taskq_dispatch(queue, &jobs[i].task);
	}
	assert_int_equal(waiter_wait(&w), -EAGAIN);
	assert_int_equal(atomic_load(&runs), TASKS);
	taskq_destroy(queue);
	free(jobs);
}

static void destroy_runs_what_is_queued(void **state)
{
	struct job *jobs = xcalloc(100, sizeof(*jobs));
	atomic_uint runs = 0;

	queue = taskq_create("unit", 1);
	for (int i = 0; i < 100; i++) {
		jobs[i] = (struct job){.task.run = job_run, .runs = &runs, .again = 1};
		taskq_dispatch(queue, &jobs[i].task);
	}
	taskq_destroy(queue);
	assert_int_equal(atomic_load(&runs), 100);
	free(jobs);
}

struct where {
	struct task task;
	struct waiter w;
	bool cpu;
};

static void where_run(struct task *t)
{
	struct where *wh = container_of(t, struct where, task);

	wh->cpu = thread_is_cpu_worker();
	waiter_done(&wh->w, 0);
}

static void cpu_workers_know_themselves(void **state)
{
	struct where wh = {.task.run = where_run};

	waiter_init(&wh.w);
	taskq_dispatch(cpu_taskq(), &wh.task);
	assert_int_equal(waiter_wait(&wh.w), 0);
	assert_true(wh.cpu);
	assert_false(thread_is_cpu_worker());
}

/* What is gathered runs at the end, at the end of the outermost of several, or when the thread waits for it. */
static void what_is_gathered_runs_once_and_in_time(void **state)
{
	struct job *jobs = xcalloc(TASKS, sizeof(*jobs));
	struct where wh = {.task.run = where_run};
	atomic_uint runs = 0;
	struct waiter w;

	waiter_init(&w);
	queue = cpu_taskq();
	taskq_gather();
	for (int i = 0; i < TASKS; i++) {
		jobs[i] = (struct job){.task.run = job_run, .runs = &runs, .last = &w, .again = i % 3};
		taskq_gather();
		(i % 2 ? taskq_dispatch : taskq_dispatch_front)(queue, &jobs[i].task);
		taskq_gather_end();
	}
	taskq_gather_end();
	assert_int_equal(waiter_wait(&w), -EAGAIN);
	assert_int_equal(atomic_load(&runs), TASKS);
	waiter_init(&wh.w);
	taskq_gather();
	taskq_dispatch(queue, &wh.task);
	assert_int_equal(waiter_wait(&wh.w), 0);
	taskq_gather_end();
	free(jobs);
}

/* A task that waits for a later one in the same queue: none of them is kept back behind it. */
struct pair {
	struct task first, second;
	struct waiter w;
};

static void pair_wait(struct task *t)
{
	assert_int_equal(waiter_wait(&container_of(t, struct pair, first)->w), 0);
}

static void pair_done(struct task *t)
{
	waiter_done(&container_of(t, struct pair, second)->w, 0);
}

static void tasks_that_wait_for_each_other_are_not_taken_together(void **state)
{
	struct taskq *tq = taskq_create("unit", 2);
	struct pair p = {.first.run = pair_wait, .second.run = pair_done};

	waiter_init(&p.w);
	taskq_gather(); /* which is for computation, not for these */
	taskq_dispatch(tq, &p.first);
	taskq_dispatch(tq, &p.second);
	taskq_destroy(tq);
	taskq_gather_end();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock2 = PTHREAD_MUTEX_INITIALIZER;

static int locked_twice(void)
{
	SCOPED_LOCK(&lock);
	SCOPED_LOCK(&lock2);
	assert_int_equal(pthread_mutex_trylock(&lock), EBUSY);
	return pthread_mutex_trylock(&lock2);
}

static void scoped_locks_end_with_their_scope(void **state)
{
	assert_int_equal(locked_twice(), EBUSY);
	assert_int_equal(pthread_mutex_trylock(&lock), 0);
	assert_int_equal(pthread_mutex_trylock(&lock2), 0);
	pthread_mutex_unlock(&lock2);
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(buffers_are_aligned_and_counted),
	    cmocka_unit_test(freed_buffers_are_kept_within_the_limit),
	    cmocka_unit_test(every_task_runs_once),
	    cmocka_unit_test(destroy_runs_what_is_queued),
	    cmocka_unit_test(cpu_workers_know_themselves),
	    cmocka_unit_test(what_is_gathered_runs_once_and_in_time),
	    cmocka_unit_test(tasks_that_wait_for_each_other_are_not_taken_together),
	    cmocka_unit_test(scoped_locks_end_with_their_scope),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
