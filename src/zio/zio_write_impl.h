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

struct zio_piece {
	struct vdev_io io;
	struct zio_wop *op;
	struct dva dva;
	struct buf *buf; /* held; NULL: none of its own */
	int err;         /* 0 and `written`: is on the device */
	bool written;
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
	bool in_place; /* over the old block: its space is not ours */
	bool placed;   /* bp's DVAs were allocated here, and are given back when the write fails */
	bool moved;    /* was allocated a second time after a failure */
	int err;

	struct zio_piece *piece; /* own, or malloc'd */
	unsigned npieces;
	struct zio_piece own[BP_DVAS];
	atomic_uint pending;

	struct list_node node; /* kept: in the writer's list */
	uint64_t ticket;
};

struct zio_writer {
	struct taskq *wait; /* allocation that must wait for metaslabs, reads of gang headers */
	atomic_uint_fast64_t in_flight;
	pthread_mutex_t lock; /* guards all below; innermost */
	struct list kept;     /* writes that failed and wait for zio_resume */
	uint64_t next_ticket;
	atomic_bool abandoned; /* set with the lock held */
};

/* zio_transform.c: from w->data to op->data, op->psize and the properties of op->bp. On a cpu worker. */
enum zio_made { ZIO_MADE_STORED, ZIO_MADE_WHOLE /* op->bp needs no device */ };
int zio_transform(struct zio_wop *op, enum zio_made *made);

#endif
