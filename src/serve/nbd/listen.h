/*
 * serve/nbd/listen.h: the sockets that clients come to. Blocking look-ups; at start only.
 */
#ifndef SERVE_NBD_LISTEN_H
#define SERVE_NBD_LISTEN_H

#include "base/err.h"

/* A Unix socket, mode 0600; what was there is removed. */
int listen_unix(const char *path, int *fd, struct err *e);
/* "HOST:PORT" or "[HOST]:PORT": one socket for each address of the host, at most `max`; *n of them are open, also after
 * an error. */
int listen_tcp(const char *spec, int *fd, unsigned max, unsigned *n, struct err *e);

#endif
