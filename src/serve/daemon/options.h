/*
 * serve/daemon/options.h: tarnd's command line.
 */
#ifndef SERVE_DAEMON_OPTIONS_H
#define SERVE_DAEMON_OPTIONS_H

#include "base/base.h"

struct daemon_options {
	bool background;
	uint64_t arc_max;       /* bytes */
	const char *nbd_listen; /* HOST:PORT or NULL */
};

/* false: the program ends with *code (help, version, usage error). */
bool daemon_options_parse(int argc, char **argv, struct daemon_options *o, int *code);

#endif
