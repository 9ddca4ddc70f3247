/*
 * serve/nbd/nbd.h: volumes over the Network Block Device protocol: fixed newstyle negotiation, structured replies,
 * base:allocation. Holds no storage logic: what an export is the daemon says through `struct nbd_source`.
 *
 * A few loop threads own all sockets (epoll, non-blocking); a connection is a state machine and no thread ever waits
 * for a disk or a client. Reads go down asynchronously and their completions send cached blocks straight from the cache
 * to the socket. Opening exports and walking block maps wait for devices and run on an administrative task queue.
 *
 * What a client may have in flight is bounded, so one that stalls holds up only itself; when all of them together hold
 * much of the memory, each goes on with one request at a time. Who does not finish negotiating within a minute is sent
 * away. A client that closes its side is gone, with what it still waited for.
 */
#ifndef SERVE_NBD_NBD_H
#define SERVE_NBD_NBD_H

#include "base/err.h"
#include "zvol/zvol.h"

struct nbd_source {
	/* Names are "pool/volume" and "pool/volume@snapshot". open may wait for devices. */
	int (*open)(void *ctx, const char *name, struct zvol **zv, struct err *e);
	void (*close)(void *ctx, struct zvol *zv);
	int (*list)(void *ctx, int (*fn)(void *arg, const char *name), void *arg);
	void *ctx;
};

struct nbd_server;

/* Listens at a Unix socket (mode 0600; NULL: none) and, when tcp is not NULL, at "HOST:PORT" ("[::1]:10809"). */
int nbd_server_start(const char *unix_path, const char *tcp, const struct nbd_source *source, struct nbd_server **out,
		     struct err *e);
/* Serves a socket that was connected elsewhere; takes it over. */
void nbd_server_adopt(struct nbd_server *s, int fd);
/* Disconnects every client, waits for their reads. */
void nbd_server_stop(struct nbd_server *s);
/* Clients that have opened `pool` or something below it. */
unsigned nbd_server_clients(struct nbd_server *s, const char *pool);
/* Ends those clients' connections and waits until their exports are closed. */
void nbd_server_disconnect(struct nbd_server *s, const char *pool);

#endif
