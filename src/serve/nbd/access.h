/*
 * serve/nbd/access.h: who may open which export over TCP. Clients of the Unix socket may open all.
 *
 * A rule is "NAME=NETWORK[,NETWORK...]": clients of these networks ("10.1.0.0/16", "fd00::/8", one address alone) may
 * open NAME, everything below it, and snapshots of these. NAME * is every export. Without rules every client may open
 * everything; with rules, only what one of them says.
 */
#ifndef SERVE_NBD_ACCESS_H
#define SERVE_NBD_ACCESS_H

#include <sys/socket.h>

#include "base/err.h"

struct nbd_access;
/* rules: n texts. -EINVAL with what is wrong. */
int nbd_access_create(const char *const *rules, size_t n, struct nbd_access **out, struct err *e);
void nbd_access_destroy(struct nbd_access *a);
/* Any thread. Addresses of other families than IPv4 and IPv6 are local. */
bool nbd_access_allows(const struct nbd_access *a, const char *name, const struct sockaddr_storage *from);

#endif
