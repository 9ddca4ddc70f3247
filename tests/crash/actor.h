/*
 * tests/crash/actor.h: somebody who works on a pool at random, and keeps the model with it. One thread for
 * administration (actor_command), any number for volumes (actor_io); both may run at once.
 */
#ifndef TESTS_CRASH_ACTOR_H
#define TESTS_CRASH_ACTOR_H

#include "model.h"
#include "zvol/zvol.h"

/* A head that is open. */
struct volume {
	struct list_node node;
	struct actor *actor;
	char name[DSL_NAME_MAX]; /* of administration only */
	struct content *content;
	struct dsl_dataset *ds;
	struct zvol *zv;
	uint64_t size;
	pthread_mutex_t order; /* submission, as the model has it; before the other locks */
	unsigned inflight;     /* requests, and readers */
	bool paused;           /* administration wants it for itself */
};

struct actor {
	struct lab *lab;
	struct model *model;
	struct rng rng;       /* of administration */
	pthread_mutex_t lock; /* guards the list, and inflight and paused of each; before the model's */
	pthread_cond_t idle;  /* inflight fell */
	struct list volumes;
	unsigned names;     /* given so far */
	unsigned next_disk; /* to be added */
	unsigned inflight_max;
	bool may_fail; /* requests may end with errors: of those nothing is promised */
	atomic_uint requests, errors, commands, refused;
	atomic_bool stop;
	/* Commands that are not wanted. */
	bool no_export;
	uint64_t volume_max; /* bytes */
};

void actor_init(struct actor *a, struct lab *lab, struct model *m, uint64_t seed);
void actor_fini(struct actor *a);
/* Opens every volume of the last state, or lets go of all. */
void actor_open_all(struct actor *a);
void actor_close_all(struct actor *a);
/* One command at random. */
void actor_command(struct actor *a);
/* One request at random to some volume; waits while too many are under way. */
void actor_io(struct actor *a, struct rng *r);
/* All volumes: nothing is under way, and everything is flushed. */
void actor_flush_all(struct actor *a);

/* --- what its files share --- */
struct volume *actor_volume_open(struct actor *a, const struct entry *e);
struct volume *actor_volume(struct actor *a, const char *name); /* NULL */
void actor_volume_close(struct actor *a, struct volume *v);
void actor_pause(struct actor *a, struct volume *v);
void actor_resume(struct actor *a, struct volume *v);
/* Bytes of a volume or snapshot as values of its sectors. */
int volume_values(struct zvol *zv, uint64_t **values, size_t *sectors);
/* What completed up to this moment is on the devices. */
void actor_all_safe(struct actor *a, uint64_t clock);
uint64_t actor_clock(struct actor *a);

#endif
