#include "serve/control/control.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"

struct control_client {
	int fd;
	uint32_t next_id;
};

static int socket_connect(const char *path, int *fd)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int s;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	memcpy(sa.sun_path, path, strlen(path));
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -errno;
	if (connect(s, (struct sockaddr *)&sa, sizeof(sa))) {
		int err = -errno;

		close(s);
		return err;
	}
	*fd = s;
	return 0;
}

/* The daemon beside this program, else the one in PATH. */
static void daemon_program(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof("/tarnd"));
	char *slash;

	if (n > 0) {
		path[n] = 0;
		slash = strrchr(path, '/');
		memcpy(slash, "/tarnd", sizeof("/tarnd"));
		if (access(path, X_OK) == 0)
			return;
	}
	memcpy(path, "tarnd", sizeof("tarnd"));
}

/* `tarnd --daemon` returns once it listens. */
static int daemon_start(struct err *e)
{
	char path[PATH_MAX];
	int status;
	pid_t pid;

	daemon_program(path);
	pid = fork();
	if (pid < 0)
		return err_set(e, -errno, "cannot start %s: %s", path, strerror(errno));
	if (pid == 0) {
		execlp(path, "tarnd", "--daemon", (char *)NULL);
		fprintf(stderr, "cannot run %s: %s\n", path, strerror(errno));
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, -errno, "cannot wait for %s: %s", path, strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, -ECHILD, "%s could not be started", path);
	return 0;
}

/* One at a time: who comes second finds the daemon that the first one has started. */
static int connect_starting(const char *path, int *fd, struct err *e)
{
	autofree char *lock = xasprintf("%s/tarnd.start", os_rundir());
	int err, lock_fd;

	err = os_dir_make(os_rundir());
	lock_fd = err ? -1 : open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock_fd < 0 || flock(lock_fd, LOCK_EX)) {
		err = err ? err : -errno;
		err_set(e, err, "cannot start the daemon in %s: %s", os_rundir(), strerror(-err));
	} else if (socket_connect(path, fd)) {
		err = daemon_start(e);
		if (!err && (err = socket_connect(path, fd)))
			err_set(e, err, "cannot reach the daemon at %s: %s", path, err_words(err));
	}
	if (lock_fd >= 0)
		close(lock_fd);
	return err;
}

int control_connect(bool start, struct control_client **out, struct err *e)
{
	autofree char *path = xasprintf("%s/tarnd.sock", os_rundir());
	int fd, err = socket_connect(path, &fd);

	if ((err == -ENOENT || err == -ECONNREFUSED) && start) {
		err = connect_starting(path, &fd, e);
		if (err)
			return err;
	}
	if (err)
		return err_set(e, err, "cannot reach the daemon at %s: %s", path, err_words(err));
	*out = xcalloc(1, sizeof(**out));
	(*out)->fd = fd;
	return 0;
}

void control_close(struct control_client *c)
{
	if (!c)
		return;
	close(c->fd);
	free(c);
}

static int answer_ask(struct control_client *c, uint32_t id, const struct nvlist *l, const struct control_handlers *h)
{
	uint8_t answer[1024];
	size_t len = sizeof(answer);
	struct nvlist *reply = nvlist_create();
	int err = -ENOTTY;

	if (h && h->ask)
		err = h->ask(h->arg, nvlist_string_or(l, "prompt", ""), nvlist_bool(l, "echo"), answer, &len);
	if (!err)
		nvlist_add_bytes(reply, "bytes", answer, len);
	err = control_send(c->fd, CONTROL_ANSWER, id, reply);
	explicit_bzero(answer, sizeof(answer));
	nvlist_destroy(reply);
	return err;
}

static int take_reply(struct nvlist *l, struct nvlist **result, struct err *e)
{
	int64_t code = -EPROTO;
	struct nvlist *r;

	nvlist_i64(l, "err", &code);
	if (code)
		return err_set(e, (int)code, "%s", nvlist_string_or(l, "text", err_words((int)code)));
	if (result)
		*result = nvlist_list(l, "result", &r) == 0 ? nvlist_copy(r) : nvlist_create();
	return 0;
}

int control_call(struct control_client *c, const char *cmd, const struct nvlist *args, const struct control_handlers *h,
		 struct nvlist **result, struct err *e)
{
	autonv struct nvlist *request = nvlist_create();
	uint32_t id = ++c->next_id;
	bool cancelled = false;
	int err;

	nvlist_add_string(request, "cmd", cmd);
	if (args)
		nvlist_add_list(request, "args", args);
	err = control_send(c->fd, CONTROL_REQUEST, id, request);
	if (err)
		return err_set(e, err, "cannot ask the daemon: %s", err_words(err));
	for (;;) {
		enum control_kind kind;
		autonv struct nvlist *l = NULL;
		uint32_t got;

		if (!cancelled && h && h->interrupted && *h->interrupted) {
			cancelled = true;
			control_send(c->fd, CONTROL_CANCEL, id, NULL);
		}
		err = control_recv(c->fd, &kind, &got, &l, e);
		if (err == -EINTR)
			continue;
		if (err)
			return err_prefix(e, err, "the daemon");
		if (got != id)
			continue;
		if (kind == CONTROL_REPLY)
			return take_reply(l, result, e);
		if (kind == CONTROL_PROGRESS && h && h->progress)
			h->progress(h->arg, nvlist_string_or(l, "stage", ""));
		if (kind == CONTROL_ITEM && h && h->item && !cancelled && h->item(h->arg, l)) {
			cancelled = true;
			control_send(c->fd, CONTROL_CANCEL, id, NULL);
		}
		if (kind == CONTROL_ASK)
			answer_ask(c, id, l, h);
	}
}
