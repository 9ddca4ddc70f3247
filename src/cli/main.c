/*
 * tarn: one program under many names.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"

/* The pid file's lock is free once the daemon has ended. */
static int daemon_wait_gone(void)
{
	autofree char *path = xasprintf("%s/tarnd.pid", os_rundir());
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	while (flock(fd, LOCK_SH)) {
		if (errno != EINTR || cli_interrupted) {
			close(fd);
			return -EINTR;
		}
	}
	close(fd);
	return 0;
}

static int run_stop(int argc, char **argv);
static int run_daemon_info(int argc, char **argv);

static const struct cli_command tarn_commands[] = {
    {"zpool", cli_zpool, "COMMAND ...", "pools, as zpool(8)"},
    {"zfs", cli_zfs, "COMMAND ...", "file systems and volumes, as zfs(8)"},
    {"mount", cli_mount, "[-o OPTIONS] POOL/FS[@SNAP] DIRECTORY", "mount a file system or snapshot at a directory"},
    {"zdb", cli_zdb, "[OPTIONS] [POOL[/DATASET]] [OBJECT]...",
     "look inside a pool's devices, as zdb(8); needs no daemon"},
    {"extract", cli_extract,
     "[-DfFnrvX] [-c CACHEFILE | -d DIR|DEVICE]... [-L KEYLOCATION] [-T TXG] "
     "[--rewind-to-checkpoint] [--no-owner] [--no-xattrs] "
     "POOL/FS[@SNAP][:PATH]... DEST",
     "copy files, trees and volumes straight from the devices, without the daemon"},
    {"tunable", cli_tunable, "[-Hv] [NAME[=VALUE]]...", "show or set what steers the daemon, by OpenZFS's names"},
    {"info", run_daemon_info, "", "show the daemon's state, sockets and cache"},
    {"stop", run_stop, "[-f]", "export all pools and end the daemon"},
    {NULL, NULL, NULL, NULL},
};

static int run_stop(int argc, char **argv)
{
	autonv struct nvlist *args = nvlist_create();
	struct control_client *c;
	struct err e = ERR_INIT;
	int opt, err;

	while ((opt = getopt(argc, argv, "f")) != -1) {
		if (opt != 'f')
			return cli_usage("tarn", tarn_commands, "stop", NULL);
		nvlist_add_boolean_value(args, "force", true);
	}
	if (optind < argc)
		return cli_usage("tarn", tarn_commands, "stop", "too many arguments");
	err = control_connect(false, &c, &e);
	if (err == -ENOENT || err == -ECONNREFUSED) {
		puts("no daemon runs");
		return CLI_OK;
	}
	if (!err) {
		err = control_call(c, "daemon.stop", args, NULL, NULL, &e);
		control_close(c);
	}
	if (err)
		return cli_fail("stop the daemon", NULL, &e);
	return daemon_wait_gone() ? CLI_ERROR : CLI_OK;
}

static int run_daemon_info(int argc, char **argv)
{
	autonv struct nvlist *result = NULL;
	struct str text = {NULL, 0, 0};
	struct control_client *c;
	struct err e = ERR_INIT;
	int err;

	if (argc > 1)
		return cli_usage("tarn", tarn_commands, "info", "too many arguments");
	/* The state that was asked for is not that of a daemon which is started for the question. */
	err = control_connect(false, &c, &e);
	if (err == -ENOENT || err == -ECONNREFUSED) {
		puts("no daemon runs");
		return CLI_ERROR;
	}
	if (!err) {
		err = control_call(c, "daemon.info", NULL, NULL, &result, &e);
		control_close(c);
	}
	if (err)
		return cli_fail("ask the daemon", NULL, &e);
	nvlist_print(result, 0, &text);
	fputs(str_get(&text), stdout);
	str_free(&text);
	return CLI_OK;
}

static struct str command_line;

const char *cli_command_line(void)
{
	return str_get(&command_line);
}

/* From the command's own name on: "tarn zpool create" is remembered as "zpool create". */
static int run_named(int (*run)(int argc, char **argv), const char *name, int argc, char **argv)
{
	int code;

	str_add(&command_line, name);
	for (int i = 1; i < argc; i++)
		str_addf(&command_line, " %s", argv[i]);
	code = run(argc, argv);
	str_free(&command_line);
	return code;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} names[] = {{"zpool", cli_zpool}, {"zfs", cli_zfs}, {"zdb", cli_zdb}, {"mount.tarn", cli_mount}};

int main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "tarn";

	setlocale(LC_TIME, "C");
	log_init(LOG_LEVEL_WARN);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(name, names[i].name) == 0)
			return run_named(names[i].run, name, argc, argv);
		/* `tarn zfs --help` asks zfs, not tarn */
		if (argc > 1 && strcmp(argv[1], names[i].name) == 0)
			return run_named(names[i].run, argv[1], argc - 1, argv + 1);
	}
	return cli_dispatch("tarn", tarn_commands, argc, argv);
}
