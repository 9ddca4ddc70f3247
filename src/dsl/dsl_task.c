/*
 * dsl/dsl_task.c: sync tasks (03-datasets.md 8.1). The caller waits for the group; its task lies on its stack, so that
 * it must not leave before the sync thread has let go of it.
 */
#include "base/str.h"
#include "dsl/dsl_write_impl.h"

#define SPACE_COPIES 3
#define SPACE_BLOCK  16384
#define RETRY_GROUPS 2

/* --- the sync thread's side --- */

static int task_space_check(struct dsl_pool *p, const struct dsl_task *t, struct err *e)
{
	struct dsl_write *w = p->write;
	struct dsl_dir *root;
	uint64_t need, limit;
	int err;

	if (t->policy == DSL_SPACE_NONE)
		return 0;
	err = dsl_dir_hold(p, p->root_dir, &root, e);
	if (err)
		return err;
	pthread_mutex_lock(&w->space);
	need = root->used + (uint64_t)SPACE_COPIES * SPACE_BLOCK * t->blocks;
	limit = w->usable[t->policy];
	pthread_mutex_unlock(&w->space);
	dsl_dir_release(root);
	return need > limit ? err_set(e, -ENOSPC, "out of space") : 0;
}

static int task_do(struct dsl_pool *p, struct queued_task *q, struct tx *tx)
{
	const struct dsl_task *t = q->task;
	int err = p->write->failed ? -EIO : task_space_check(p, t, q->e);

	if (!err && t->check)
		err = t->check(t->arg, tx, q->e);
	if (!err)
		t->sync(t->arg, tx);
	return err;
}

static struct queued_task *task_next(struct dsl_write *w, bool early, uint64_t txg)
{
	SCOPED_LOCK(&w->lock);

	list_for_each(&w->tasks[txg & TXG_MASK], n) {
		struct queued_task *q = container_of(n, struct queued_task, node);

		if (q->task->early != early)
			continue;
		list_remove(&w->tasks[txg & TXG_MASK], n);
		q->state = TASK_RUNNING;
		return q;
	}
	return NULL;
}

static void task_done(struct dsl_write *w, struct queued_task *q, int err)
{
	SCOPED_LOCK(&w->lock);

	q->err = err;
	q->state = TASK_DONE;
	pthread_cond_broadcast(&w->task_done);
}

void dsl_tasks_run(struct dsl_pool *p, bool early, struct tx *tx)
{
	struct queued_task *q;

	while ((q = task_next(p->write, early, tx->txg)))
		task_done(p->write, q, task_do(p, q, tx));
}

/* --- the caller's side --- */

void dsl_tasks_abandon(struct dsl_pool *p)
{
	struct dsl_write *w = p->write;
	struct list_node *n;

	SCOPED_LOCK(&w->lock);
	w->abandoned = true;
	for (unsigned i = 0; i < TXG_SIZE; i++) {
		while ((n = list_pop(&w->tasks[i]))) {
			struct queued_task *q = container_of(n, struct queued_task, node);

			q->err = -EIO;
			q->state = TASK_DONE;
		}
	}
	pthread_cond_broadcast(&w->task_done);
}

static int task_queue(struct dsl_pool *p, struct queued_task *q, uint64_t *txg)
{
	struct dsl_write *w = p->write;
	struct tx tx = {.flags = TX_NOWAIT | TX_NOSPACE_CHECK};
	int err = tx_begin_wait(p->dp->txgs, &tx);

	if (err)
		return err;
	*txg = tx.txg;
	pthread_mutex_lock(&w->lock);
	if (w->abandoned)
		err = -EIO;
	else
		list_append(&w->tasks[tx.txg & TXG_MASK], &q->node);
	pthread_mutex_unlock(&w->lock);
	tx_end(&tx);
	return err;
}

/* The group is over: the task was done, unless the pool was abandoned before. */
static int task_finish(struct dsl_pool *p, struct queued_task *q, uint64_t txg, int err)
{
	struct dsl_write *w = p->write;

	SCOPED_LOCK(&w->lock);
	if (q->state == TASK_QUEUED) {
		list_remove(&w->tasks[txg & TXG_MASK], &q->node);
		return err ? err : -EIO;
	}
	while (q->state != TASK_DONE)
		pthread_cond_wait(&w->task_done, &w->lock);
	return err ? err : q->err;
}

static int task_run_once(struct dsl_pool *p, const struct dsl_task *t, struct err *e)
{
	struct queued_task q = {.task = t, .state = TASK_QUEUED, .e = e};
	uint64_t txg = 0;
	int err = task_queue(p, &q, &txg);

	if (!err)
		err = task_finish(p, &q, txg, txg_wait_synced(p->dp->txgs, txg));
	if (err == -EIO && (!e || !e->code))
		err_set(e, err, "pool I/O is currently suspended");
	return err;
}

static int task_check(struct dsl_pool *p, const struct dsl_task *t, struct err *e)
{
	struct tx tx = {.txgs = p->dp->txgs};
	DSL_SHARED(p);

	return t->check ? t->check(t->arg, &tx, e) : 0;
}

int dsl_task_run(struct dsl_pool *p, const struct dsl_task *t, struct err *e)
{
	int err;

	BUG_ON(dsl_config_is_held(p));
	if (!p->write || !p->dp->txgs)
		return err_set(e, -EROFS, "pool is read-only");
	for (;;) {
		if (e)
			*e = (struct err)ERR_INIT;
		err = task_check(p, t, e);
		if (!err)
			err = task_run_once(p, t, e);
		if (err != -EAGAIN)
			return err;
		/* What was freed by then can be had. */
		for (unsigned i = 0; i < RETRY_GROUPS && err == -EAGAIN; i++)
			if (txg_wait_synced(p->dp->txgs, 0))
				return err_set(e, -EIO, "pool I/O is currently suspended");
	}
}
