/*
 * base/tunable.h: the one kind of knob. Each is a global next to the code that it steers, found by its name through
 * tunable_each; OpenZFS's name where it has one. Reading is one relaxed load; setting checks the range and acts at
 * once.
 */
#ifndef BASE_TUNABLE_H
#define BASE_TUNABLE_H

#include "base/base.h"
#include "base/err.h"

struct tunable {
	const char *name, *unit, *help; /* "zfs_txg_timeout", "s", one sentence */
	uint64_t def, min, max;
	atomic_uint_fast64_t value;
	void (*changed)(struct tunable *t); /* after the value was set; may be NULL. Any thread, does not block */
};

/* At file level: TUNABLE(tunable_txg_timeout, "zfs_txg_timeout", "s", 5, 1, 3600, "a group is closed ..."); with
 * `extern struct tunable tunable_txg_timeout;` in the header where others need it. */
#define TUNABLE_CHANGED(var, tname, tunit, tdef, tmin, tmax, tchanged, thelp)                                          \
	struct tunable var __attribute__((section("tarn_tunables"), used, aligned(8))) = {                             \
	    .name = (tname),                                                                                           \
	    .unit = (tunit),                                                                                           \
	    .help = (thelp),                                                                                           \
	    .def = (tdef),                                                                                             \
	    .min = (tmin),                                                                                             \
	    .max = (tmax),                                                                                             \
	    .value = (tdef),                                                                                           \
	    .changed = (tchanged),                                                                                     \
	}
#define TUNABLE(var, name, unit, def, min, max, help) TUNABLE_CHANGED(var, name, unit, def, min, max, NULL, help)

static inline uint64_t tunable_get(const struct tunable *t)
{
	return atomic_load_explicit(&t->value, memory_order_relaxed);
}
/* -ERANGE with the range in words. */
int tunable_set(struct tunable *t, uint64_t value, struct err *e);
/* NULL: no such one. The prefix "zfs_" may be left out. */
struct tunable *tunable_find(const char *name);
/* In no order. */
void tunable_each(void (*fn)(void *arg, struct tunable *t), void *arg);

#endif
