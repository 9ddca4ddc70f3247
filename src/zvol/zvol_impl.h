/*
 * zvol/zvol_impl.h: what the files of this floor share.
 *
 *	zvol.c  opening and reading    live.c   volumes that are open for writing, size
 *	write.c requests               ranges.c which of them may run    replay.c records of the log
 */
#ifndef ZVOL_ZVOL_IMPL_H
#define ZVOL_ZVOL_IMPL_H

#include "base/sync.h"
#include "base/tree.h"
#include "zil/zil.h"
#include "zvol/zvol.h"

#define ZVOL_DATA_OBJECT 1
#define ZVOL_PROP_OBJECT 2

/*
 * Ranges of bytes that are being changed. Those that are active do not overlap; who comes into the way of an active or
 * an earlier waiting one waits.
 */
struct zvol_ranges {
	pthread_mutex_t lock; /* guards all of it; innermost, nothing is called with it held */
	struct tree active;
	struct list waiting;
};
struct zvol_range {
	uint64_t start, end;
	void (*granted)(struct zvol_range *r); /* the range is ours; on the thread of who gave way */
	struct tree_node node;
	struct list_node wait;
};
void zvol_ranges_init(struct zvol_ranges *rs);
void zvol_ranges_fini(struct zvol_ranges *rs);
/* True: at once; else granted is called. */
bool zvol_range_enter(struct zvol_ranges *rs, struct zvol_range *r);
void zvol_range_leave(struct zvol_ranges *rs, struct zvol_range *r);

/* A volume that is open for writing: one for all who have opened it. */
struct zvol_live {
	struct list_node node;
	struct objset *os; /* held */
	struct dnode *dn;
	struct zil *zil;
	uint32_t blocksize;
	unsigned opens;                                       /* guarded by the lock of all live volumes (live.c) */
	enum { LIVE_OPENING, LIVE_OPEN, LIVE_CLOSING } state; /* likewise */
	atomic_uint_fast64_t size;
	struct zvol_ranges ranges;
};

static inline bool zvol_logs_always(const struct zvol_live *v)
{
	return v->os->props.sync == 1;
}

/* zvol.c */
int zvol_objects_open(struct objset *os, struct dnode **dn, uint64_t *size, struct err *e);
/* live.c: of a head that is written */
int zvol_live_open(struct objset *os, struct zvol_live **out, struct err *e);
void zvol_live_close(struct zvol_live *v);
/* replay.c: for zil_replay; arg is the zvol_live. */
int zvol_replay(void *arg, const struct zil_record *r);

#endif
