/*
 * tests/crash/verify.h: what is in an open pool, and whether the model allows it.
 */
#ifndef TESTS_CRASH_VERIFY_H
#define TESTS_CRASH_VERIFY_H

#include "model.h"

/* The pool as a state: names, properties, holds; without contents. */
bool observe(struct lab *l, struct state *out);
void state_free(struct state *s);

struct verified {
	size_t state;      /* the model's state that it shows */
	struct model *now; /* out, when asked for: the pool as it is, all of it safe, to go on from */
};
/*
 * The open pool shows what was acknowledged at the mark, and nothing half-done. Volumes of a pool open for writing are
 * opened, so that their logs are replayed. The model is at rest.
 */
bool verify(struct lab *l, struct model *m, uint64_t mark, struct verified *out);

#endif
