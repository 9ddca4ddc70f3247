/*
 * zvol/zvol.h: volumes without NBD (docs/format/07, section 8). Read side.
 */
#ifndef ZVOL_ZVOL_H
#define ZVOL_ZVOL_H

#include "dmu/dmu.h"
#include "dsl/dsl.h"

struct zvol {
	struct dsl_dataset *ds;
	struct objset *os;
	struct dnode *dn;   /* the data object */
	uint64_t size;      /* bytes */
	uint32_t blocksize; /* volblocksize */
};
int zvol_open(struct dsl_dataset *ds, struct zvol **out, struct err *e);
void zvol_close(struct zvol *zv);
/* Ranges must lie within size (-EINVAL); as dmu_read_submit. */
void zvol_read_submit(struct zvol *zv, struct dmu_read *r);
/* *offset moves to the next data or hole at or after it; the end of the volume counts as a hole. -ESRCH: no data from
 * there on, or *offset is the end or past it. Otherwise the pointers could not be read. */
int zvol_next_offset(struct zvol *zv, uint64_t *offset, bool hole);

#endif
