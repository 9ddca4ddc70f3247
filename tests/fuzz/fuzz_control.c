/* The control protocol: a client's bytes, to a server with a daemon's commands as far as they touch neither devices nor
 * the process, and commands that use what long ones use: items, progress, questions. */
#include <stdio.h>
#include <sys/un.h>

#include "fuzz.h"
#include "serve/daemon/commands.h"
#include "session.h"

#define COMMANDS_MAX 64

static char path[64];

static int run_items(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	const char *const *names = NULL;
	size_t n = 0;
	int err = nvlist_strings(args, "names", &names, &n);

	for (size_t i = 0; i < n && !err; i++) {
		autonv struct nvlist *item = nvlist_create();

		nvlist_add_string(item, "name", names[i]);
		err = control_item(rq, item);
	}
	return err;
}

static int run_progress(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	uint64_t count = nvlist_u64_or(args, "count", 1);

	for (uint64_t i = 0; i < MIN(count, 20); i++)
		if (control_progress(rq, "stage"))
			return err_set(e, -EINTR, "cancelled");
	nvlist_add_u64(result, "count", count);
	return 0;
}

static int run_ask(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	uint8_t answer[32];
	size_t len = sizeof(answer);
	int err = control_ask(rq, nvlist_string_or(args, "prompt", ""), nvlist_bool(args, "echo"), answer, &len);

	if (!err)
		nvlist_add_bytes(result, "answer", answer, len);
	return err;
}

static bool command_is_harmless(const char *name)
{
	static const char *const others[] = {"daemon.stop", "pool.search", "pool.import"};

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(name, others[i]) == 0)
			return false;
	return true;
}

static void server_make(void)
{
	static struct control_command commands[COMMANDS_MAX] = {
	    {"items", run_items}, {"progress", run_progress}, {"ask", run_ask}};
	static struct tarn_daemon daemon;
	struct control_server *server;
	size_t n = 3;

	for (size_t i = 0; i < daemon_commands_len && n < COMMANDS_MAX; i++)
		if (command_is_harmless(daemon_commands[i].name))
			commands[n++] = daemon_commands[i];
	daemon_init(&daemon, 32u << 20);
	daemon.nbd_socket = xstrdup("none");
	snprintf(path, sizeof(path), "/tmp/fuzz-control-%d.sock", (int)getpid());
	BUG_ON(control_server_start(path, commands, n, &daemon, &server, NULL));
}

static void path_remove(void)
{
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd;

	if (!path[0]) {
		server_make();
		atexit(path_remove);
	}
	memcpy(sa.sun_path, path, sizeof(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	BUG_ON(fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
	session_run(fd, data, size, 0);
	return 0;
}
