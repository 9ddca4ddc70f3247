/*
 * serve/daemon/options.h: tarnd's command line.
 */
#ifndef SERVE_DAEMON_OPTIONS_H
#define SERVE_DAEMON_OPTIONS_H

#include "serve/nbd/nbd.h"

#define NBD_RULES_MAX 256

struct daemon_options {
	bool background;
	uint64_t arc_max;      /* bytes */
	struct nbd_config nbd; /* tcp and what protects it */
	const char *allow[NBD_RULES_MAX];
};

/* false: the program ends with *code (help, version, usage error). */
bool daemon_options_parse(int argc, char **argv, struct daemon_options *o, int *code);

#endif
