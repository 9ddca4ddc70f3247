/*
 * zvol/zvol.h: volumes without NBD (docs/format/07, section 8).
 */
#ifndef ZVOL_ZVOL_H
#define ZVOL_ZVOL_H

#include "dmu/dmu.h"
#include "dsl/dsl.h"

struct zvol {
	struct dsl_dataset *ds;
	struct objset *os;
	struct dnode *dn;   /* the data object */
	uint64_t size;      /* bytes, when it was opened */
	uint32_t blocksize; /* volblocksize */
	/* zvol's own, of a volume that is open for writing */
	struct zvol_live *live;
};
uint64_t zvol_size(const struct zvol *zv); /* now */
int zvol_open(struct dsl_dataset *ds, struct zvol **out, struct err *e);
void zvol_close(struct zvol *zv);
/* Ranges must lie within size (-EINVAL); as dmu_read_submit. */
void zvol_read_submit(struct zvol *zv, struct dmu_read *r);
/* *offset moves to the next data or hole at or after it; the end of the volume counts as a hole. -ESRCH: no data from
 * there on, or *offset is the end or past it. Otherwise the pointers could not be read. */
int zvol_next_offset(struct zvol *zv, uint64_t *offset, bool hole);

/*
 * --- writing ---
 *
 * In a pool that is open for writing, opening a head opens its log too; what is in it is replayed first. Everybody who
 * opens the volume shares one struct objset and log; closing the last one waits for the volume's changes to be on the
 * devices. Requests are refused with -EROFS while the property readonly is on.
 *
 * Requests are asynchronous: submission never blocks. Those whose ranges overlap are made one after another, in the
 * order in which they came. They complete when the change is made and, with `fua` or sync=always, when it is safe.
 * Large ones are cut into pieces with a transaction each: what a crash leaves of one that was not safe may be a part.
 */
bool zvol_is_writable(const struct zvol *zv);
/* WRITE: bytes. ZERO: reads as zeros; whole blocks become holes. DISCARD: whole blocks within the range become holes,
 * the rest is left as it is. FLUSH: everything that completed before is safe. */
enum zvol_op { ZVOL_WRITE, ZVOL_ZERO, ZVOL_DISCARD, ZVOL_FLUSH };
struct zvol_req {
	enum zvol_op op;
	uint64_t offset, length; /* bytes, within the volume (-EINVAL) */
	/* WRITE: the bytes as buffers in order, first from `skip` on. A buffer that is exactly one block of the volume
	 * and lies on its boundary is taken as it is and must not change any more; others are copied. Held until done.
	 */
	struct buf **buf;
	unsigned nbufs;
	uint32_t skip;
	bool fua;
	bool no_hole; /* ZERO: write zeros rather than punch (they may still compress to holes) */
	void (*done)(struct zvol_req *r, int err); /* any thread, does not block; -ENOSPC, -EDQUOT, -EROFS, -EIO */
	void *arg;
	void *priv; /* zvol's own */
};
void zvol_submit(struct zvol *zv, struct zvol_req *r);
/* The objects of a new volume (8.1); for dsl_create. props: volsize, volblocksize as numbers. */
int zvol_create_objects(struct objset *os, uint64_t volsize, uint32_t volblocksize, struct tx *tx);
/* refreservation=auto in bytes (8.4). */
uint64_t zvol_volsize_to_reservation(const struct vdev *root, uint64_t volsize, uint32_t volblocksize, unsigned copies);
/* -EINVAL with why: rules of 8.2, 8.3. */
int zvol_check_sizes(uint64_t volsize, uint32_t volblocksize, uint32_t max_block, struct err *e);
/* For dsl_pool.replay_log: replays the log that a crash left of a volume. Without its key the log stays as it is. */
int zvol_replay_log(struct dsl_dataset *head, struct err *e);
/* Set volsize: the data set may be open. Blocking, waits for the group. */
int zvol_set_size(struct dsl_dataset *ds, uint64_t volsize, struct err *e);

#endif
