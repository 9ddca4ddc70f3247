#include "serve/daemon/options.h"

#include <getopt.h>
#include <stdio.h>

#include "arc/arc.h"
#include "base/os.h"
#include "base/size.h"

static const char usage_text[] =
    "usage: tarnd [--daemon] [--arc-max SIZE] [--nbd-listen HOST:PORT]\n"
    "\n"
    "Serve ZFS pools: file systems through FUSE, volumes through NBD, commands through `tarn`.\n"
    "\n"
    "  -d, --daemon                go to the background once everything listens\n"
    "  -a, --arc-max SIZE          most memory for cached blocks, at least 16M (default: a quarter of the memory)\n"
    "  -n, --nbd-listen HOST:PORT  serve volumes over TCP too; anybody who reaches the port can read them\n"
    "  -V, --version               print the version\n"
    "  -h, --help                  print this\n"
    "\n"
    "Environment: TARN_RUNDIR (sockets, pid file), TARN_STATEDIR, TARN_LOG=error|warn|info|debug,\n"
    "TARN_ARC_MAX and TARN_NBD_LISTEN (as the options).\n";

static bool arc_max_set(struct daemon_options *o, const char *text)
{
	if (size_parse(text, &o->arc_max) == 0 && o->arc_max >= ARC_MAX_MIN)
		return true;
	fprintf(stderr, "tarnd: '%s' is no cache size: give at least 16M\n", text);
	return false;
}

bool daemon_options_parse(int argc, char **argv, struct daemon_options *o, int *code)
{
	static const struct option longs[] = {
	    {"daemon", no_argument, NULL, 'd'},
	    {"arc-max", required_argument, NULL, 'a'},
	    {"nbd-listen", required_argument, NULL, 'n'},
	    {"version", no_argument, NULL, 'V'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	const char *arc = getenv("TARN_ARC_MAX");
	int c;

	*o = (struct daemon_options){.arc_max = MAX(os_memory_bytes() / 4, (uint64_t)ARC_MAX_MIN),
				     .nbd_listen = getenv("TARN_NBD_LISTEN")};
	*code = 2;
	if (arc && !arc_max_set(o, arc))
		return false;
	while ((c = getopt_long(argc, argv, "da:n:Vh", longs, NULL)) != -1) {
		switch (c) {
		case 'd':
			o->background = true;
			break;
		case 'a':
			if (!arc_max_set(o, optarg))
				return false;
			break;
		case 'n':
			o->nbd_listen = optarg;
			break;
		case 'V':
			puts("tarnd " TARN_VERSION);
			*code = 0;
			return false;
		case 'h':
			fputs(usage_text, stdout);
			*code = 0;
			return false;
		default:
			fputs(usage_text, stderr);
			return false;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "tarnd: unexpected argument '%s'\n%s", argv[optind], usage_text);
		return false;
	}
	return true;
}
