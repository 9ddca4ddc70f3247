/*
 * tests/crash/model.h: what a pool must hold: the data sets as a row of states, one per administrative command, and of
 * every volume each change of its sectors with the moment from which on it was promised to be safe.
 *
 * Moments are marks in the recorder's log. A crash whose log ends behind mark m must show
 *	- the last state that was acknowledged by then, or the one after it, whole;
 *	- in each sector of a volume the last value that was safe by then, or one written after that one;
 *	- in a snapshot just what was in it when it was taken.
 *
 * Threads: one for administration, any for volumes. model->lock guards everything in it and makes marks come in order;
 * nothing but the recorder is called with it held.
 */
#ifndef TESTS_CRASH_MODEL_H
#define TESTS_CRASH_MODEL_H

#include <pthread.h>

#include "disk/recorder.h"
#include "dsl/dsl.h"
#include "lab.h"

#define SECTOR     512u
#define NEVER      UINT64_MAX
#define MODEL_TAGS 5 /* properties that are followed */

extern const char *const model_props[MODEL_TAGS];

/* Sectors of one volume that change hands: head or snapshot. */
struct change {
	uint64_t first, count; /* sectors */
	uint64_t value;        /* of each; 0: zeros */
	uint64_t *values;      /* instead: of each from `first` on (rollback) */
	uint64_t completed;    /* the model's clock; NEVER: not yet */
	uint64_t safe;         /* mark; NEVER: not promised */
};
struct content {
	struct content *next; /* all of the model */
	size_t room;          /* sectors that it may ever have */
	uint64_t *initial;    /* of each; NULL: zeros */
	struct change *log;   /* in order of submission */
	size_t n, alloc;
	bool frozen;       /* a snapshot: `initial` is all; known when the command has returned */
	bool sync_always;  /* writes submitted from now on are safe when they complete */
	bool not_promised; /* sync=disabled, now or a moment ago */
};

struct entry {
	char name[DSL_NAME_MAX];
	bool is_snapshot, is_volume;
	struct content *content; /* of volumes */
	uint64_t size;
	uint32_t blocksize;
	char origin[DSL_NAME_MAX];
	char prop[MODEL_TAGS][24]; /* local values; "": none */
	unsigned holds;
	bool deferred; /* to go with the last hold or clone */
	unsigned born; /* number of the state it came with: snapshots in order */
};

struct state {
	struct entry *e;
	size_t n, room;
	char comment[32]; /* of the pool */
	unsigned tops;
	uint64_t acked; /* mark; NEVER */
	char what[600]; /* the command that led to it */
	/* It was a rollback: the volume and the number of its change. */
	struct content *rolled;
	size_t rolled_change;
};

struct model {
	pthread_mutex_t lock;
	struct recorder *rec; /* NULL: nothing is recorded */
	uint64_t marks, clock;
	uint64_t value; /* the last one given to a write */
	struct state *state;
	size_t nstates, room;
	struct content *contents;
	/* Of the last failure: what a sector should have had. */
	uint64_t missed_sector, missed_value;
};

void model_init(struct model *m, struct recorder *rec);
void model_fini(struct model *m);
/* Everything so far has a mark not above the one returned. */
uint64_t model_mark_locked(struct model *m);

/* --- states --- */
struct state *model_last(struct model *m);
/* A copy of the last state, to be changed before the command is run. The pointer is good until the next one. */
struct state *model_begin(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void model_end(struct model *m);                             /* it was acknowledged */
void model_undo(struct model *m);                            /* it was refused */
struct entry *state_find(struct state *s, const char *name); /* NULL */
struct entry *state_add(struct state *s, const char *name);  /* moves entries */
void state_remove(struct state *s, struct entry *e);
/* The index of the last state acknowledged at a mark. */
size_t model_acked_at(const struct model *m, uint64_t mark);

/* --- volumes --- */
struct content *model_content(struct model *m, size_t sectors);
/* Number of the change. `values` becomes the model's. */
size_t content_submit_locked(struct model *m, struct content *c, struct change change);
size_t content_changes(struct model *m, const struct content *c); /* so far */
void content_completed_locked(struct model *m, struct content *c, size_t change);
/* What had completed by this moment of the clock is safe from now on. */
void content_safe_locked(struct model *m, struct content *c, uint64_t clock);
/* What a volume may hold. */
struct allowed {
	uint64_t mark;    /* what was safe by then is sure */
	bool by_clock;    /* mark is a moment of the clock: what had completed by then */
	size_t limit;     /* no change from this number on; 0: all */
	size_t sure;      /* the change of this number - 1 is sure; 0: none */
	bool quiet;       /* nothing is told */
	const char *name; /* of the volume, for people */
};
/* `values` of all sectors, as sector_parse found them. */
bool content_allows(struct model *m, struct content *c, const uint64_t *values, size_t sectors,
		    const struct allowed *a);

/* --- bytes --- */
void sector_fill(uint8_t *p, uint64_t sector, uint64_t value);
#define SECTOR_GARBAGE UINT64_MAX
uint64_t sector_parse(const uint8_t *p, uint64_t sector);

#endif
