/*
 * tests/crash/lab.h: pools on disks in memory that are found by their paths as real ones are: files without contents
 * stand in a folder for the search to see, and what is opened there is the lab's disk (recorded, crashed, faulty).
 *
 * Failures of a check are told on stderr with what was being done (lab_context), and returned as false.
 */
#ifndef TESTS_CRASH_LAB_H
#define TESTS_CRASH_LAB_H

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/sync.h"
#include "disk/testdisk.h"
#include "spa/spa.h"

#define LAB_DISKS_MAX 8u
#define LAB_POOL      "lab"

/* --- random numbers: the same for the same seed --- */
struct rng {
	uint64_t state;
};
uint64_t rng_next(struct rng *r);
/* 0 .. n - 1; 0 when n is 0. */
uint64_t rng_below(struct rng *r, uint64_t n);
bool rng_percent(struct rng *r, unsigned percent);

/* --- telling --- */
/* Put before every message of this process; what is going on. */
void lab_context(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Always false. Any thread. */
bool lab_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Called by lab_fatal before it ends the process: to keep what can be of use. NULL: nothing. */
extern void (*lab_last_words)(void);
/* For what the test itself cannot do without. */
void lab_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Seconds of the environment variable, or `def`; the like for numbers. */
uint64_t lab_number(const char *variable, uint64_t def);
bool lab_is_long(void); /* TARN_TEST_LONG */

/* --- disks and pool --- */
struct lab;
struct lab_disk {
	struct testdisk_path published;
	struct lab *lab;
	unsigned i;
	char path[320];
};
struct lab {
	char dir[280];
	unsigned ndisks;
	struct lab_disk disk[LAB_DISKS_MAX];
	/* What opens disk i now; NULL: it is not there. The disk is the caller's. */
	struct disk *(*open)(void *arg, unsigned i);
	void *open_arg;
	struct arc *arc;
	struct spa *spa; /* the pool that is open */
};
void lab_init(struct lab *l, unsigned ndisks, uint64_t size);
void lab_fini(struct lab *l);

struct lab_layout {
	unsigned data, logs; /* top-levels: disks [0, data) and [data, data + logs) */
	uint64_t ashift;
	const char *const *props; /* pairs of name and value, NULL at the end; may be NULL */
};
int lab_create(struct lab *l, const struct lab_layout *layout, struct err *e);
/* Disks [first, first + n) as top-levels, for zpool add. */
int lab_add(struct lab *l, unsigned first, unsigned n, bool log, uint64_t ashift, struct err *e);
int lab_import(struct lab *l, bool writable, struct err *e);
int lab_export(struct lab *l, struct err *e);

/* How much room there is, on stderr. */
void lab_space_tell(struct lab *l);
/* What zdb -bcc does and whether the sums of all data sets fit; the pool is open read-only, or quiet. */
bool lab_check(struct lab *l);

#endif
