/*
 * serve/nbd/nbd.h: volumes over the Network Block Device protocol: fixed newstyle negotiation, TLS, structured replies,
 * base:allocation; all commands of the protocol. Holds no storage logic: what an export is the daemon says through
 * `struct nbd_source`.
 *
 * A few loop threads own all sockets (epoll, non-blocking); a connection is a state machine and no thread ever waits
 * for a disk or a client. Reads go down asynchronously and their completions send cached blocks straight from the cache
 * to the socket. What is written is received into buffers cut at the blocks of the volume, which go down as they are.
 * Opening exports and walking block maps wait for devices and run on an administrative task queue.
 *
 * What a client may have in flight is bounded, so one that stalls holds up only itself; when all of them together hold
 * much of the memory, each goes on with one request at a time. When too much was received that is not written
 * yet, one client after another goes on (memory.c). Who does not finish negotiating within a minute is sent away, as
 * who stops in the middle of a write while others wait for memory. A client that closes its side is gone, with what it
 * still waited for.
 *
 * A flush on one connection covers what completed on any of the same volume. A volume whose size changes shows the new
 * size to who asks from then on (INFO, or a new connection); requests may use it at once.
 */
#ifndef SERVE_NBD_NBD_H
#define SERVE_NBD_NBD_H

#include "serve/nbd/tls.h"
#include "zvol/zvol.h"

struct nbd_source {
	/* Names are "pool/volume" and "pool/volume@snapshot". open may wait for devices. */
	int (*open)(void *ctx, const char *name, struct zvol **zv, struct err *e);
	void (*close)(void *ctx, struct zvol *zv);
	int (*list)(void *ctx, int (*fn)(void *arg, const char *name), void *arg);
	void *ctx;
};

struct nbd_server;

struct nbd_config {
	const char *unix_path;     /* mode 0600; NULL: none */
	const char *tcp;           /* "HOST:PORT" ("[::1]:10809"); NULL: none */
	struct nbd_tls_config tls; /* of TCP, where clients must use it when it is configured */
	const char *const *allow;  /* nallow rules (access.h) for clients of TCP */
	size_t nallow;
};
int nbd_server_start(const struct nbd_config *c, const struct nbd_source *source, struct nbd_server **out,
		     struct err *e);
/* Serves a socket that was connected elsewhere; takes it over. */
void nbd_server_adopt(struct nbd_server *s, int fd);
/* Disconnects every client, waits for their requests. */
void nbd_server_stop(struct nbd_server *s);
/* Clients that have opened `pool` or something below it. */
unsigned nbd_server_clients(struct nbd_server *s, const char *pool);
/* Ends those clients' connections and waits until their exports are closed. */
void nbd_server_disconnect(struct nbd_server *s, const char *pool);

#endif
