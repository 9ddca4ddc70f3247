/*
 * serve/nbd/tls.h: TLS for NBD over TCP (the protocol's NBD_OPT_STARTTLS): certificates, or keys shared beforehand.
 *
 * One nbd_tls for the server, one tls_session for a connection. A session is used by one thread at a time; nothing
 * blocks, its socket is made non-blocking.
 */
#ifndef SERVE_NBD_TLS_H
#define SERVE_NBD_TLS_H

#include <sys/uio.h>

#include "base/err.h"

struct nbd_tls_config {
	/* Folder with server-cert.pem and server-key.pem, and with ca-cert.pem for `verify`. NULL: no certificates. */
	const char *certificates;
	bool verify; /* only clients with a certificate of this CA */
	/* File with lines "name:key in hex digits"; nobody but its owner may read it. NULL: no shared keys. */
	const char *psk;
};
struct nbd_tls;
/* *out NULL: neither is configured. */
int nbd_tls_create(const struct nbd_tls_config *c, struct nbd_tls **out, struct err *e);
void nbd_tls_destroy(struct nbd_tls *t);

struct tls_session;
struct tls_session *tls_session_create(struct nbd_tls *t, int fd); /* NULL: no memory */
void tls_session_destroy(struct tls_session *s);
/* All: bytes; -EAGAIN: once the socket is ready (*wants_write: to be written to; else there must come more); -EPIPE:
 * the other side has gone; -EPROTO. tls_handshake: 0 when it is complete. */
int tls_handshake(struct tls_session *s, bool *wants_write);
ssize_t tls_recv(struct tls_session *s, const struct iovec *iov, int n, bool *wants_write);
/* After -EAGAIN the next call begins with the same bytes. */
ssize_t tls_send(struct tls_session *s, const struct iovec *iov, int n, bool *wants_write);

#endif
