/*
 * dsl/dsl_config.c: the configuration lock (dsl_live.h).
 *
 * Which pools' locks a thread holds is a chain of guards on its stack; entering a lock that the thread has already is
 * nothing. dsl_config_enter and its relatives, whose callers have no guard, take theirs from the heap.
 */
#include "dsl/dsl_live.h"
#include "dsl/dsl_write_impl.h"

static _Thread_local struct dsl_guard *held;

bool dsl_config_is_held(const struct dsl_pool *p)
{
	for (const struct dsl_guard *g = held; g; g = g->outer)
		if (g->pool == p && g->took)
			return true;
	return false;
}

bool dsl_config_is_held_alone(const struct dsl_pool *p)
{
	for (const struct dsl_guard *g = held; g; g = g->outer)
		if (g->pool == p && g->took && g->alone)
			return true;
	return false;
}

static void config_lock_shared(struct config_lock *c)
{
	SCOPED_LOCK(&c->lock);
	while (c->alone || c->waiting)
		pthread_cond_wait(&c->changed, &c->lock);
	c->shared++;
}

static void config_lock_alone(struct config_lock *c)
{
	SCOPED_LOCK(&c->lock);
	c->waiting++;
	while (c->alone || c->shared)
		pthread_cond_wait(&c->changed, &c->lock);
	c->waiting--;
	c->alone = true;
}

static void config_unlock(struct config_lock *c, bool alone)
{
	SCOPED_LOCK(&c->lock);
	if (alone)
		c->alone = false;
	else
		c->shared--;
	if (c->shared == 0)
		pthread_cond_broadcast(&c->changed);
}

void config_lock_init(struct config_lock *c)
{
	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
}

void config_lock_fini(struct config_lock *c)
{
	BUG_ON(c->alone || c->shared || c->waiting);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
}

struct dsl_guard *dsl_guard_enter(struct dsl_guard *g, struct dsl_pool *p, bool alone)
{
	*g = (struct dsl_guard){.pool = p, .outer = held, .alone = alone};
	if (p->write && dsl_config_is_held(p)) {
		BUG_ON(alone && !dsl_config_is_held_alone(p)); /* would wait for itself */
	} else if (p->write) {
		g->took = true;
		if (alone)
			config_lock_alone(&p->write->config);
		else
			config_lock_shared(&p->write->config);
	}
	held = g;
	return g;
}

void dsl_guard_leave(struct dsl_guard *g)
{
	struct dsl_guard **at = &held;

	while (*at != g)
		at = &(*at)->outer;
	*at = g->outer;
	if (g->took)
		config_unlock(&g->pool->write->config, g->alone);
}

static void config_enter(struct dsl_pool *p, bool alone)
{
	if (p->write)
		dsl_guard_enter(xmalloc(sizeof(struct dsl_guard)), p, alone);
}

/* The innermost guard of this pool: calls are nested. */
static void config_exit(struct dsl_pool *p)
{
	struct dsl_guard *g = held;

	if (!p->write)
		return;
	while (g && g->pool != p)
		g = g->outer;
	BUG_ON(!g);
	dsl_guard_leave(g);
	free(g);
}

void dsl_config_enter(struct dsl_pool *p)
{
	config_enter(p, false);
}

void dsl_config_exit(struct dsl_pool *p)
{
	config_exit(p);
}

void dsl_config_enter_alone(struct dsl_pool *p)
{
	config_enter(p, true);
}

void dsl_config_exit_alone(struct dsl_pool *p)
{
	config_exit(p);
}
