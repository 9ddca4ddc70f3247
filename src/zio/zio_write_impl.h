/*
 * zio/zio_write_impl.h: what the files of the write side share.
 *
 * One write is one zio_wop, a state machine that one thread at a time works on; only its pieces complete side by side:
 *
 *	compute (ready, compress, seal, sum)      cpu worker
 *	  -> hole, embedded, nop-write: finish
 *	  -> place: in place, or allocate         the same worker; what must wait, and gang blocks, on the writer's
 *threads
 *	  -> issue: all pieces at once            a piece is one extent of one device: a DVA, a gang header, a member
 *	  -> written                              cpu worker
 *	       -> finish
 *	       -> a piece failed: place once more elsewhere -> ... -> kept in the writer's list, or failed
 */
#ifndef ZIO_WRITE_IMPL_H
#define ZIO_WRITE_IMPL_H

#include "base/sync.h"
#include "zio/zio.h"

struct zio_wop;
struct gang_node;

struct zio_piece {
	struct vdev_io io;
	struct zio_wop *op;
	struct dva dva;
	struct buf *buf; /* held */
	uint32_t size;   /* what the device is given: whole sectors */
	int err;
	bool written;
};

/* Where a block is to be. */
struct zio_place {
	struct dva dva[BP_DVAS];
	struct gang_node *gang; /* NULL: in one piece per copy */
	bool ours;              /* allocated here: given back when the write fails, or moves */
};

struct zio_wop {
	struct task task;
	struct zio_pool *zp;
	struct zio_write *w;
	struct bp bp;     /* what becomes of w->bp */
	struct buf *data; /* the bytes to be stored; held, but for log blocks */
	uint32_t psize;
	enum zio_class class;
	unsigned ndvas;
	bool ready, computed; /* w->ready was called; data and properties are made */
	bool placed;
	bool moved; /* was placed a second time after a failure */
	struct zio_place place;
	int err;

	struct zio_piece *piece; /* own, or malloc'd */
	unsigned npieces;
	atomic_uint pending;

	struct list_node node; /* kept: in the writer's list */
	uint64_t ticket;

	uint64_t made;          /* bytes charged to writer->made */
	bool throttled;         /* counts in writer->started */
	struct zio_piece own[]; /* as many as the block may have copies */
};

struct zio_writer {
	struct taskq *wait;             /* allocation that must wait for metaslabs, reads of gang headers */
	atomic_uint_fast64_t in_flight; /* all that were submitted */
	atomic_uint started;            /* of them, those that were started and had to ask */
	atomic_uint_fast64_t made;      /* bytes of what they compress and encrypt into */
	atomic_size_t nqueued;
	pthread_mutex_t lock; /* guards all below; innermost */
	struct list queued;   /* struct zio_write, not started yet */
	struct list kept;     /* writes that failed and wait for zio_resume */
	uint64_t next_ticket;
	uint64_t resumes; /* calls of zio_resume */
	pthread_cond_t resumed;
	atomic_bool abandoned; /* set with the lock held */
};

/* zio_transform.c: from w->data to op->data, op->psize and the properties of op->bp. On a cpu worker. */
enum zio_made { ZIO_MADE_STORED, ZIO_MADE_WHOLE /* op->bp needs no device */ };
int zio_transform(struct zio_wop *op, enum zio_made *made);

/* zio_write.c: bytes that the device of a DVA is given for `size` of them. */
uint32_t zio_write_size(const struct zio_pool *zp, const struct dva *dva, uint32_t size);

/* zio_gang.c; on threads that may wait. */
int zio_gang_create(struct zio_wop *op, struct gang_node **out); /* allocates; -ENOSPC */
/* The tree under a gang block of this group that is to be overwritten in place. */
int zio_gang_load(struct zio_wop *op, const struct bp *bp, struct gang_node **out);
void zio_gang_give_back(struct zio_wop *op, const struct gang_node *gang);
void zio_gang_destroy(struct gang_node *gang);
void zio_gang_set_dvas(const struct gang_node *gang, struct bp *bp); /* of the leader */
int zio_gang_make_pieces(struct zio_wop *op, struct gang_node *gang);

#endif
