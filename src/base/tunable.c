/* The table of tunables is what the linker gathered in their section. */
#include "base/tunable.h"

#define PREFIX "zfs_"

/* One that is always there, so that the section exists in every program. */
TUNABLE(tunable_flags, "zfs_flags", "bits", 0, 0, UINT32_MAX, "extra checks that cost time; none is defined yet");

extern struct tunable __start_tarn_tunables[], __stop_tarn_tunables[];

int tunable_set(struct tunable *t, uint64_t value, struct err *e)
{
	if (value < t->min || value > t->max)
		return err_set(e, -ERANGE, "%s must be from %llu to %llu%s%s", t->name, (unsigned long long)t->min,
			       (unsigned long long)t->max, *t->unit ? " " : "", t->unit);
	atomic_store_explicit(&t->value, value, memory_order_relaxed);
	if (t->changed)
		t->changed(t);
	return 0;
}

void tunable_each(void (*fn)(void *arg, struct tunable *t), void *arg)
{
	for (struct tunable *t = __start_tarn_tunables; t < __stop_tarn_tunables; t++)
		fn(arg, t);
}

struct tunable *tunable_find(const char *name)
{
	for (struct tunable *t = __start_tarn_tunables; t < __stop_tarn_tunables; t++) {
		if (strcmp(t->name, name) == 0)
			return t;
		if (strncmp(t->name, PREFIX, strlen(PREFIX)) == 0 && strcmp(t->name + strlen(PREFIX), name) == 0)
			return t;
	}
	return NULL;
}
