#include "serve/daemon/options.h"

#include <getopt.h>
#include <stdio.h>

#include "arc/arc.h"
#include "base/os.h"
#include "base/size.h"

static const char usage_text[] =
    "usage: tarnd [--daemon] [--arc-max SIZE] [--nbd-listen HOST:PORT] [--nbd-tls-certificates DIR "
    "[--nbd-tls-verify]]\n"
    "             [--nbd-tls-psk FILE] [--nbd-allow NAME=NETWORK[,NETWORK...]]...\n"
    "\n"
    "Serve ZFS pools: file systems through FUSE, volumes through NBD, commands through `tarn`.\n"
    "\n"
    "  -d, --daemon                go to the background once everything listens\n"
    "  -a, --arc-max SIZE          most memory for cached blocks, at least 16M (default: a quarter of the memory)\n"
    "  -n, --nbd-listen HOST:PORT  serve volumes over TCP too: to anybody who reaches the port, unless options below "
    "say\n"
    "                              otherwise\n"
    "      --nbd-tls-certificates DIR  clients of TCP must use TLS; server-cert.pem and server-key.pem are in DIR\n"
    "      --nbd-tls-verify        and need a certificate of the authority ca-cert.pem in DIR\n"
    "      --nbd-tls-psk FILE      clients of TCP must use TLS, with a key of FILE: lines NAME:HEX DIGITS\n"
    "      --nbd-allow NAME=NETWORK[,NETWORK...]  clients of TCP in these networks may use volume NAME, those below "
    "it\n"
    "                              and their snapshots (* is all); may be repeated; nobody else may use anything\n"
    "  -V, --version               print the version\n"
    "  -h, --help                  print this\n"
    "\n"
    "Environment: TARN_RUNDIR (sockets, pid file), TARN_STATEDIR, TARN_LOG=error|warn|info|debug,\n"
    "TARN_ARC_MAX, TARN_NBD_LISTEN, TARN_NBD_TLS_CERTIFICATES, TARN_NBD_TLS_VERIFY=1, TARN_NBD_TLS_PSK (as the "
    "options),\n"
    "TARN_NBD_ALLOW (rules with spaces between).\n";

static bool arc_max_set(struct daemon_options *o, const char *text)
{
	if (size_parse(text, &o->arc_max) == 0 && o->arc_max >= ARC_MAX_MIN)
		return true;
	fprintf(stderr, "tarnd: '%s' is no cache size: give at least 16M\n", text);
	return false;
}

static bool allow_add(struct daemon_options *o, const char *rule)
{
	if (o->nbd.nallow == NBD_RULES_MAX) {
		fprintf(stderr, "tarnd: more than %d rules of access\n", NBD_RULES_MAX);
		return false;
	}
	o->allow[o->nbd.nallow++] = rule;
	return true;
}

/* The rules stay in memory for as long as the daemon runs. */
static bool allow_add_all(struct daemon_options *o, const char *rules)
{
	char *copy = rules ? xstrdup(rules) : NULL, *rest;

	for (char *r = copy ? strtok_r(copy, " ", &rest) : NULL; r; r = strtok_r(NULL, " ", &rest))
		if (!allow_add(o, r))
			return false;
	return true;
}

static bool options_from_environment(struct daemon_options *o)
{
	const char *arc = getenv("TARN_ARC_MAX"), *verify = getenv("TARN_NBD_TLS_VERIFY");

	*o = (struct daemon_options){.arc_max = MAX(os_memory_bytes() / 4, (uint64_t)ARC_MAX_MIN)};
	o->nbd.tcp = getenv("TARN_NBD_LISTEN");
	o->nbd.tls.certificates = getenv("TARN_NBD_TLS_CERTIFICATES");
	o->nbd.tls.psk = getenv("TARN_NBD_TLS_PSK");
	o->nbd.tls.verify = verify && strcmp(verify, "1") == 0;
	o->nbd.allow = o->allow;
	return (!arc || arc_max_set(o, arc)) && allow_add_all(o, getenv("TARN_NBD_ALLOW"));
}

enum { OPTION_CERTIFICATES = 256, OPTION_VERIFY, OPTION_PSK, OPTION_ALLOW };

bool daemon_options_parse(int argc, char **argv, struct daemon_options *o, int *code)
{
	static const struct option longs[] = {
	    {"daemon", no_argument, NULL, 'd'},
	    {"arc-max", required_argument, NULL, 'a'},
	    {"nbd-listen", required_argument, NULL, 'n'},
	    {"nbd-tls-certificates", required_argument, NULL, OPTION_CERTIFICATES},
	    {"nbd-tls-verify", no_argument, NULL, OPTION_VERIFY},
	    {"nbd-tls-psk", required_argument, NULL, OPTION_PSK},
	    {"nbd-allow", required_argument, NULL, OPTION_ALLOW},
	    {"version", no_argument, NULL, 'V'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	int c;

	*code = 2;
	if (!options_from_environment(o))
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
			o->nbd.tcp = optarg;
			break;
		case OPTION_CERTIFICATES:
			o->nbd.tls.certificates = optarg;
			break;
		case OPTION_VERIFY:
			o->nbd.tls.verify = true;
			break;
		case OPTION_PSK:
			o->nbd.tls.psk = optarg;
			break;
		case OPTION_ALLOW:
			if (!allow_add(o, optarg))
				return false;
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
