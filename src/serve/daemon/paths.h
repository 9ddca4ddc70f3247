/*
 * serve/daemon/paths.h: names of damaged blocks for `zpool status -v`: "pool/fs:/path", "pool/vol:<0x1>",
 * "<metadata>:<0x2c>".
 */
#ifndef SERVE_DAEMON_PATHS_H
#define SERVE_DAEMON_PATHS_H

#include "spa/spa.h"

/* Adds "errlist" (strs) to a status. */
int error_paths_add(struct spa *spa, struct nvlist *status);

#endif
