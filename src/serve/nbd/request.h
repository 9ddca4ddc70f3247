/*
 * serve/nbd/request.h: one request of the transmission phase, shared by reading (transmit.c) and writing (write.c).
 *
 * A request lives from its header until request_finish. Its payload is received into buffers of which those that hold a
 * whole block of the volume go down without being copied. Memory for payloads is bounded for all clients together
 * (memory.c): a client waits with its request unread until there is room.
 */
#ifndef SERVE_NBD_REQUEST_H
#define SERVE_NBD_REQUEST_H

#include "serve/nbd/conn.h"
#include "serve/nbd/proto.h"

struct request {
	struct nbd_conn *conn;
	uint16_t flags, type;
	uint64_t cookie, offset;
	uint32_t length;
	struct task task;
	/* changing requests */
	struct zvol_req zvol;
	struct buf **buf; /* buf[nbufs]; space for max_bufs */
	unsigned nbufs, max_bufs;
	unsigned at; /* buf[at] is being filled, and has at_len bytes */
	uint32_t at_len;
	uint64_t got, room; /* bytes received; bytes of all buffers so far */
};

/* transmit.c: the last word on a request; each frees it. */
void request_done(struct request *rq);
void request_error(struct request *rq, int err, const char *text);

/* write.c */
/* WRITE: its payload follows; the connection receives into it until it is complete. */
void write_begin(struct request *rq);
/* Bytes that came with the header, and those that the socket has. 0; -EAGAIN; another errno: the client is gone. */
void write_take(struct nbd_conn *c);
int write_fill(struct nbd_conn *c);
/* The client went away in the middle of its payload. */
void write_abort(struct nbd_conn *c);
/* FLUSH, TRIM, WRITE_ZEROES. */
void change_submit(struct request *rq);
void request_free(struct request *rq);

#endif
