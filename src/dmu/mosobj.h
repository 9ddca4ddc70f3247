/*
 * dmu/mosobj.h: simple objects of the MOS: packed name-value lists and the history ring (docs/format/02, 10.5 and 10.6;
 * 01, 11.1). Syncing context, the sync thread; they may wait for a device. Errors are those of reading and of damage.
 */
#ifndef DMU_MOSOBJ_H
#define DMU_MOSOBJ_H

#include "dmu/dmu.h"
#include "nv/nv.h"

/* An empty one: written before anybody reads it. */
int mos_nvlist_create(struct objset *mos, struct tx *tx, uint64_t *object);
/* Replaces the list. */
int mos_nvlist_write(struct objset *mos, uint64_t object, const struct nvlist *list, struct tx *tx);

/* pool_bytes: deflated size of the pool's normal class, from which the ring's size follows. */
int mos_history_create(struct objset *mos, uint64_t pool_bytes, struct tx *tx, uint64_t *object);
/* Appends a record; the oldest ones make room. The first with is_command and all before it are never overwritten.
 * -E2BIG: longer than the ring. */
int mos_history_append(struct objset *mos, uint64_t object, const struct nvlist *record, bool is_command,
		       struct tx *tx);

#endif
