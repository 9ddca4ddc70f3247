/*
 * serve/nbd/conn.h: one client's connection, shared by negotiation (negotiate.c), transmission (transmit.c) and the
 * socket loop (server.c).
 *
 * Bytes from the client gather in `in`; `step` is called whenever it may have enough of them, consumes what it
 * understands and returns: 1 call again if input is still wanted (a pause or an end is seen there), 0 more bytes are
 * needed, negative errno: hang up. Output is a queue of nbd_out; whoever finds nobody sending sends.
 */
#ifndef SERVE_NBD_CONN_H
#define SERVE_NBD_CONN_H

#include <sys/uio.h>

#include "base/list.h"
#include "base/sync.h"
#include "base/taskq.h"
#include "serve/nbd/access.h"
#include "serve/nbd/nbd.h"
#include "serve/nbd/tls.h"

#define NBD_NAME_MAX           4096  /* of the protocol */
#define NBD_OPTION_MAX         16384 /* longest option that is looked at; longer ones are answered with an error */
#define NBD_REQUEST_MAX        (32u << 20)
#define NBD_REQUEST_SIZE       28             /* bytes of a request's header */
#define NBD_INFLIGHT_MAX       128            /* requests of one connection */
#define NBD_INFLIGHT_BYTES     (64u << 20)    /* and their bytes */
#define NBD_QUEUED_BYTES       (1u << 20)     /* answers of the negotiation that the client has not taken */
#define NBD_NEGOTIATION_NS     60000000000ull /* a client that has not entered transmission by then is sent away */
#define NBD_TURN_NS            1000000000ull  /* so long a client may have the turn and send nothing (memory.c) */
#define NBD_STALL_NS           30000000000ull /* a payload that does not go on, while others wait for memory */
#define NBD_CONTEXT_ALLOCATION 1u             /* our number for base:allocation */

struct nbd_loop;
struct request;

/* memory.c: bytes for the payload of writes */
struct nbd_memory {
	pthread_mutex_t lock; /* guards all of it; before a connection's lock */
	uint64_t used, max;
	struct nbd_conn *turn; /* the one that goes on although there is too much */
	struct list waiting;   /* connections, in the middle of a payload */
};

/* One piece of output: bytes of its own, then slices of cached blocks. */
struct nbd_out {
	struct list_node node;
	struct iovec *iov;
	unsigned niov, at;       /* iov[at] is the next one to send */
	uint8_t *head;           /* storage of headers the vectors point into */
	struct dmu_read *read;   /* released once everything is sent; NULL when none */
	uint64_t inflight_bytes; /* returned to the connection's allowance when sent, to the server's when freed */
	uint64_t queued_bytes;   /* counted against NBD_QUEUED_BYTES */
	bool ends_request;
};

struct nbd_conn {
	struct list_node node; /* in the server's list */
	struct nbd_server *server;
	struct nbd_loop *loop;
	int fd;
	struct sockaddr_storage peer;
	bool is_tcp;
	struct tls_session *tls; /* the loop's alone, once it is set */
	bool tls_ready;          /* the handshake is complete */
	int (*step)(struct nbd_conn *c);

	uint8_t *in; /* in_len bytes not yet consumed, within in_base[in_cap] */
	size_t in_len;
	uint8_t *in_base;
	size_t in_cap;
	uint64_t discard;          /* bytes of payload still to be thrown away */
	struct request *receiving; /* a write whose payload is not complete; the loop's alone */
	bool large; /* the last write was: the next header is read alone, so that no payload has to be copied */
	_Atomic uint64_t progress; /* when bytes of a payload came last, on the clock of now_ns; 0: none is received */

	/* negotiated */
	uint32_t client_flags;
	bool structured, allocation;
	char context_name[NBD_NAME_MAX + 1]; /* the export base:allocation was chosen for */
	char export_name[NBD_NAME_MAX + 1];
	struct zvol *zv;
	bool writable; /* as the client was told */

	pthread_mutex_t lock; /* guards everything below; innermost */
	struct list out;
	bool sending, closing, paused, draining, event_out;
	bool corked;      /* the loop takes requests, and sends afterwards what is answered meanwhile */
	bool in_payload;  /* is being received: it is taken in whatever else is in flight */
	bool starved;     /* a write waits for memory */
	bool stalled;     /* input was not wanted when the loop last looked: have it look again when that changes */
	bool negotiating; /* since `born`, on the clock of now_ns */
	uint64_t born;
	unsigned refs; /* the loop's one, one per request and administrative task */
	unsigned inflight;
	uint64_t inflight_bytes, queued_bytes;
	/* guarded by the lock of the server's nbd_memory */
	struct list_node memory_node;

	struct task admin; /* one administrative task at a time: opening while negotiating, freeing at the end */
	uint32_t admin_option;
};

/* server.c */
void conn_ref(struct nbd_conn *c);
void conn_unref(struct nbd_conn *c);
/* Queue and send as far as the socket takes it. Takes over `o`. Any thread. */
void conn_send(struct nbd_conn *c, struct nbd_out *o);
/* An nbd_out with `len` bytes (copied) as its only vector. */
struct nbd_out *out_create(const void *head, size_t len);
void conn_send_bytes(struct nbd_conn *c, const void *data, size_t len);
/* Stop and go on reading from the client. */
void conn_pause(struct nbd_conn *c);
void conn_resume(struct nbd_conn *c);
void conn_consume(struct nbd_conn *c, size_t n);
/* One more request in flight, with a reference; bytes of a read are counted apart, once it is found to be sound. */
void conn_request_begin(struct nbd_conn *c);
void conn_request_bytes(struct nbd_conn *c, uint64_t bytes);
/* A write whose payload is being received from now on; NULL: no more. */
void conn_receive(struct nbd_conn *c, struct request *rq);
/* It may not (may) read on for want of memory. */
void conn_starve(struct nbd_conn *c, bool starved);
/* What the socket has: bytes; -EAGAIN; -EPIPE: the client has gone; another errno. */
ssize_t conn_recv(struct nbd_conn *c, const struct iovec *iov, int n);
/* No more input is taken; the socket closes when all answers are sent. */
void conn_drain(struct nbd_conn *c);
struct taskq *nbd_admin(struct nbd_server *s);
struct nbd_memory *nbd_memory_of(struct nbd_server *s);
const struct nbd_access *nbd_access_of(struct nbd_server *s);
bool conn_has_tls(const struct nbd_conn *c); /* this client may and must use TLS */
int conn_start_tls(struct nbd_conn *c);      /* after the answer that says so */
const struct nbd_source *nbd_source_of(struct nbd_server *s);

/* negotiate.c */
void negotiate_start(struct nbd_conn *c);
/* transmit.c */
int transmit_step(struct nbd_conn *c);
uint16_t transmit_flags(const struct zvol *zv);
/* memory.c */
void memory_init(struct nbd_memory *m, uint64_t machine_bytes);
void memory_fini(struct nbd_memory *m);
void memory_take(struct nbd_memory *m, uint64_t bytes);
void memory_give(struct nbd_memory *m, uint64_t bytes);
/* False: the connection waits and is told by conn_starve; then it asks again. */
bool memory_may_receive(struct nbd_memory *m, struct nbd_conn *c);
/* Its payload is complete, or it ends. */
void memory_leave(struct nbd_memory *m, struct nbd_conn *c);
/* Somebody waits. To be asked now and then: takes the turn from who does not use it. */
bool memory_is_short(struct nbd_memory *m);

#endif
