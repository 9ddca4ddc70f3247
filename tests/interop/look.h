/*
 * tests/interop/look.h: looking at everything a pool shows, as all the commands together would, with bounds on how
 * much: for pools that are damaged or hostile. Nothing is compared; what is found is counted.
 */
#ifndef TESTS_INTEROP_LOOK_H
#define TESTS_INTEROP_LOOK_H

#include "spa/spa.h"
#include "zpl/zpl.h"

struct look {
	uint64_t nodes_left, blocks_left; /* bounds, counted down */
	uint64_t datasets, nodes, bytes, failures;
};

void look_pool(struct look *l, struct spa *spa);

/* The program is ended with a word on `what` unless called again in time; 0 seconds: no more. */
void watch(unsigned seconds, const char *what);
/* Most memory this process ever had, in bytes. */
uint64_t memory_peak(void);
/* Seconds of work for one program, and the seed of its first round: TARN_TEST_SECONDS, else 12 (TARN_TEST_LONG: 300);
 * TARN_TEST_SEED, else 1. */
unsigned test_seconds(void);
uint64_t test_seed(void);
uint64_t random_next(uint64_t *state);

#endif
