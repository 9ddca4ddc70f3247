/*
 * dmu/sa_impl.h: what reading and storing of system attributes share.
 */
#ifndef DMU_SA_IMPL_H
#define DMU_SA_IMPL_H

#include <pthread.h>

#include "dmu/sa.h"

#define SA_MAGIC      0x002F505Au
#define SA_LAYOUTS    1024 /* layout numbers have 10 bits (2.3) */
#define SA_LAYOUT_LEN 1024 /* attributes in one layout: far more than any writer makes */
#define SA_NUMBERS    65536
#define SA_FIXED      16 /* numbers that are the same everywhere (2.2) */
#define SA_UNKNOWN    (-1)

struct sa_reg {
	bool present;
	uint16_t len;
	int16_t attr; /* enum sa_attr, or SA_UNKNOWN */
};

struct sa_layout {
	size_t n;
	uint16_t *number; /* NULL: no such layout; set last, and never changed */
};

struct sa_os {
	struct sa_reg *reg; /* by attribute number */
	size_t nreg;        /* room for those that may still be added */
	bool settled;       /* opened: the table does not move any more */
	struct sa_layout layout[SA_LAYOUTS];

	pthread_mutex_t lock; /* who adds; what follows */
	struct objset *os;
	uint64_t sa_attrs, registry, layouts; /* objects; 0: not there yet */
	unsigned nregistered, nlayouts;       /* entries of the two maps */
	int number[SA_ATTR_COUNT];            /* SA_UNKNOWN: not registered */
};

struct sa_known {
	const char *name;
	uint16_t len;  /* 0: variable */
	uint8_t class; /* of byte order */
};
extern const struct sa_known sa_known[SA_ATTR_COUNT];

/* Reads the tables (again): they only grow. The lock is held. */
int sa_os_refresh(struct sa_os *so, struct err *e);
void sa_reg_set(struct sa_os *so, unsigned number, uint16_t len, int attr);
static inline bool sa_layout_exists(const struct sa_layout *l)
{
	return __atomic_load_n(&l->number, __ATOMIC_ACQUIRE) != NULL;
}

#endif
