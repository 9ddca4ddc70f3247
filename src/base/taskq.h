/*
 * base/taskq.h: the one way to queue work on other threads.
 *
 * cpu_taskq() has one worker per core and is for computation: checksums, ciphers, decompression, state-machine steps.
 * A task on it never blocks (no waiter_wait, no device wait); waiter_wait asserts that. Work that must wait
 * (path look-ups, administration) runs on a taskq of its own made with taskq_create.
 */
#ifndef BASE_TASKQ_H
#define BASE_TASKQ_H

#include "base/list.h"

struct task {
	struct list_node node;
	void (*run)(struct task *t);
};

struct taskq;

/* threads >= 1; name shows in thread lists (at most 12 characters are kept). */
struct taskq *taskq_create(const char *name, unsigned threads);
/* Runs everything queued, then ends the threads. */
void taskq_destroy(struct taskq *tq);
/* `t` belongs to the queue until run() is called, which may free or requeue it. Any thread. */
void taskq_dispatch(struct taskq *tq, struct task *t);
/* Ahead of everything queued: for the follow-up step of what is already half done. */
void taskq_dispatch_front(struct taskq *tq, struct task *t);

/* Between the two, what this thread gives to cpu_taskq() is gathered and handed over in batches: for loops that start
 * or end many small things. The thread does not wait for any of it meanwhile, but for waiter_wait, which hands over
 * what is gathered. They nest. */
void taskq_gather(void);
void taskq_gather_end(void);
void taskq_hand_over(void);

/* The process-wide worker pool, made at first use. */
struct taskq *cpu_taskq(void);
bool thread_is_cpu_worker(void);

#endif
