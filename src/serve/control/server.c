/*
 * One thread per control connection: these are people and scripts, not the data path. A connection runs one command at
 * a time.
 */
#include "serve/control/control.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/sync.h"

/* More connections than this at once are refused: a runaway script must not eat the daemon's threads. */
#define CONNECTIONS_MAX 256

struct control_server {
	const struct control_command *commands;
	size_t ncommands;
	void *ctx;
	char *path;
	int listen_fd, wake_fd;
	pthread_t thread;
	pthread_mutex_t lock; /* guards connections; innermost */
	pthread_cond_t gone;
	struct list connections;
};

struct connection {
	struct list_node node;
	struct control_server *server;
	int fd;
	uint64_t uid; /* of the client's user */
};

struct control_request {
	struct connection *conn;
	uint32_t id;
	bool cancelled;
};

void *control_ctx(struct control_request *rq)
{
	return rq->conn->server->ctx;
}

uint64_t control_uid(struct control_request *rq)
{
	return rq->conn->uid;
}

/* While a command runs the client may only cancel or hang up; both end it. */
bool control_cancelled(struct control_request *rq)
{
	struct pollfd pfd = {.fd = rq->conn->fd, .events = POLLIN | POLLRDHUP};
	enum control_kind kind;
	struct nvlist *l = NULL;
	uint32_t id;

	if (rq->cancelled || poll(&pfd, 1, 0) <= 0)
		return rq->cancelled;
	if (control_recv(rq->conn->fd, &kind, &id, &l, NULL) || kind == CONTROL_CANCEL)
		rq->cancelled = true;
	nvlist_destroy(l);
	return rq->cancelled;
}

int control_item(struct control_request *rq, const struct nvlist *item)
{
	if (control_cancelled(rq))
		return -EINTR;
	if (control_send(rq->conn->fd, CONTROL_ITEM, rq->id, item))
		rq->cancelled = true;
	return rq->cancelled ? -EINTR : 0;
}

bool control_progress(void *arg, const char *stage)
{
	struct control_request *rq = arg;
	autonv struct nvlist *l = nvlist_create();

	if (control_cancelled(rq))
		return true;
	nvlist_add_string(l, "stage", stage);
	if (control_send(rq->conn->fd, CONTROL_PROGRESS, rq->id, l))
		rq->cancelled = true;
	return rq->cancelled;
}

int control_ask(struct control_request *rq, const char *prompt, bool echo, void *buf, size_t *len)
{
	autonv struct nvlist *ask = nvlist_create(), *answer = NULL;
	enum control_kind kind;
	const uint8_t *bytes;
	uint32_t id;
	size_t n;
	int err;

	nvlist_add_string(ask, "prompt", prompt);
	nvlist_add_boolean_value(ask, "echo", echo);
	err = control_send(rq->conn->fd, CONTROL_ASK, rq->id, ask);
	if (err)
		return err;
	err = control_recv(rq->conn->fd, &kind, &id, &answer, NULL);
	if (err || kind != CONTROL_ANSWER) {
		rq->cancelled = true;
		return err ? err : -EINTR;
	}
	err = answer ? nvlist_bytes(answer, "bytes", &bytes, &n) : -ENOENT;
	if (err)
		return -ENOTTY; /* the client has nobody to ask */
	if (n > *len)
		return -EMSGSIZE;
	memcpy(buf, bytes, n);
	*len = n;
	return 0;
}

static const struct control_command *command_find(const struct control_server *s, const char *name)
{
	for (size_t i = 0; i < s->ncommands; i++)
		if (strcmp(s->commands[i].name, name) == 0)
			return &s->commands[i];
	return NULL;
}

static int reply_send(struct connection *c, uint32_t id, int err, const struct err *e, const struct nvlist *result)
{
	autonv struct nvlist *reply = nvlist_create();

	nvlist_add_i64(reply, "err", err);
	if (err)
		nvlist_add_string(reply, "text", e->text[0] ? e->text : err_words(err));
	if (!err)
		nvlist_add_list(reply, "result", result);
	return control_send(c->fd, CONTROL_REPLY, id, reply);
}

static int request_run(struct connection *c, uint32_t id, const struct nvlist *request)
{
	struct control_request rq = {.conn = c, .id = id};
	autonv struct nvlist *result = nvlist_create(), *empty = nvlist_create();
	struct err e = ERR_INIT;
	const char *name = request ? nvlist_string_or(request, "cmd", "") : "";
	const struct control_command *cmd = command_find(c->server, name);
	struct nvlist *args = empty;
	int err;

	if (!cmd) {
		err = err_set(&e, -ENOSYS, "the daemon does not know the command '%s'; is it of the same version?",
			      name);
	} else {
		nvlist_list(request, "args", &args);
		err = cmd->fn(&rq, args, result, &e);
	}
	return reply_send(c, id, err, &e, result);
}

static void connection_end(struct connection *c)
{
	struct control_server *s = c->server;

	close(c->fd);
	pthread_mutex_lock(&s->lock);
	list_remove(&s->connections, &c->node);
	pthread_cond_signal(&s->gone);
	pthread_mutex_unlock(&s->lock);
	free(c);
}

static void *connection_main(void *arg)
{
	struct connection *c = arg;
	enum control_kind kind;
	uint32_t id;
	int err;

	do {
		struct nvlist *l = NULL;
		struct err e = ERR_INIT;

		err = control_recv(c->fd, &kind, &id, &l, &e);
		if (err == -EPROTO)
			reply_send(c, 0, err, &e, NULL);
		else if (!err && kind == CONTROL_REQUEST)
			err = request_run(c, id, l);
		else if (!err && kind != CONTROL_CANCEL) /* a late cancel is no fault */
			err = -EPROTO;
		nvlist_destroy(l);
	} while (!err || err == -EINTR);
	connection_end(c);
	return NULL;
}

/* Only root and the daemon's own user may give commands. */
static bool peer_is_allowed(int fd, uint64_t *uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return false;
	*uid = cred.uid;
	if (cred.uid == 0 || cred.uid == geteuid())
		return true;
	log_warn("refused a control connection of user %u", (unsigned)cred.uid);
	return false;
}

static void connection_start(struct control_server *s, int fd)
{
	const struct timeval stall = {.tv_sec = CONTROL_STALL_MS / 1000};
	struct connection *c;
	pthread_t thread;
	uint64_t uid;
	bool refused;

	if (!peer_is_allowed(fd, &uid)) {
		close(fd);
		return;
	}
	/* A client that stops reading must not hold a command, and with it a pool, for ever. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof(stall));
	c = xcalloc(1, sizeof(*c));
	c->server = s;
	c->fd = fd;
	c->uid = uid;
	pthread_mutex_lock(&s->lock);
	refused = s->connections.len >= CONNECTIONS_MAX;
	list_append(&s->connections, &c->node);
	pthread_mutex_unlock(&s->lock);
	if (refused || pthread_create(&thread, NULL, connection_main, c)) {
		log_warn("refused a control connection: too many at once");
		connection_end(c);
		return;
	}
	pthread_detach(thread);
}

static void *listen_main(void *arg)
{
	struct control_server *s = arg;
	struct pollfd pfd[2] = {{.fd = s->listen_fd, .events = POLLIN}, {.fd = s->wake_fd, .events = POLLIN}};

	while (!(pfd[1].revents & POLLIN)) {
		int fd;

		if (poll(pfd, 2, -1) < 0 || !(pfd[0].revents & POLLIN))
			continue;
		fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			connection_start(s, fd);
		else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			usleep(100000); /* the waiting connection stays readable: do not spin on it */
	}
	return NULL;
}

/* An address left by a daemon that was killed is replaced: the pid file's lock has shown that none runs. */
static int listen_open(const char *path, int *out, struct err *e)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd, err = 0;
	mode_t old;

	if (strlen(path) >= sizeof(sa.sun_path))
		return err_set(e, -ENAMETOOLONG,
			       "the socket path %s is longer than %zu bytes; set TARN_RUNDIR to a shorter one", path,
			       sizeof(sa.sun_path) - 1);
	memcpy(sa.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, -errno, "socket: %s", strerror(errno));
	unlink(path);
	old = umask(0177);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 64))
		err = err_set(e, -errno, "cannot listen at %s: %s", path, strerror(errno));
	umask(old);
	if (err)
		close(fd);
	else
		*out = fd;
	return err;
}

int control_server_start(const char *socket_path, const struct control_command *commands, size_t n, void *ctx,
			 struct control_server **out, struct err *e)
{
	struct control_server *s;
	int fd = -1, err = listen_open(socket_path, &fd, e);

	if (err)
		return err;
	s = xcalloc(1, sizeof(*s));
	s->commands = commands;
	s->ncommands = n;
	s->ctx = ctx;
	s->path = xstrdup(socket_path);
	s->listen_fd = fd;
	s->wake_fd = eventfd(0, EFD_CLOEXEC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->gone, NULL);
	list_init(&s->connections);
	err = s->wake_fd < 0 ? errno : pthread_create(&s->thread, NULL, listen_main, s);
	BUG_ON(err);
	*out = s;
	return 0;
}

void control_server_stop(struct control_server *s)
{
	uint64_t one = 1;

	if (!s)
		return;
	BUG_ON(write(s->wake_fd, &one, sizeof(one)) != sizeof(one));
	pthread_join(s->thread, NULL);
	unlink(s->path);
	pthread_mutex_lock(&s->lock);
	list_for_each(&s->connections, n)
		shutdown(container_of(n, struct connection, node)->fd, SHUT_RD);
	while (!list_is_empty(&s->connections))
		pthread_cond_wait(&s->gone, &s->lock);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->gone);
	close(s->listen_fd);
	close(s->wake_fd);
	free(s->path);
	free(s);
}
