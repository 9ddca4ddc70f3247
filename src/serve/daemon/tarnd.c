/*
 * tarnd: the daemon's start and end. Everything it does in between is asked for over the control socket (commands.c),
 * NBD or FUSE.
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "serve/daemon/commands.h"
#include "serve/daemon/mounts.h"
#include "serve/daemon/options.h"

/* ---- one instance ---- */

/* The lock, not the number in the file, says whether a daemon runs: it ends with the process. */
static int pidfile_lock(int *out, struct err *e)
{
	autofree char *path = xasprintf("%s/tarnd.pid", os_rundir());
	char text[32] = "";
	ssize_t n;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(e, -errno, "cannot open %s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		n = pread(fd, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = 0;
		text[strcspn(text, "\n")] = 0;
		close(fd);
		return err_set(e, -EEXIST, "tarnd already runs here (process %s, %s)", text, path);
	}
	*out = fd;
	return 0;
}

static void pidfile_write(int fd)
{
	if (ftruncate(fd, 0) || dprintf(fd, "%d\n", (int)getpid()) < 0)
		log_warn("cannot write the pid file: %s", strerror(errno));
}

/* ---- telling that we are ready ---- */

/* The datagram systemd's Type=notify waits for. */
static void service_notify(const char *state)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len == 0 || len >= sizeof(sa.sun_path))
		return;
	memcpy(sa.sun_path, path, len);
	if (sa.sun_path[0] == '@')
		sa.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sa,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_warn("cannot notify the service manager: %s", strerror(errno));
	close(fd);
}

/* --daemon: the parent waits for one byte, which says that the child listens; end of file says that it failed. */
static int daemon_fork(int *ready_fd)
{
	int fd[2];
	pid_t pid;
	char ok;

	if (pipe2(fd, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		close(fd[1]);
		_exit(read(fd[0], &ok, 1) == 1 ? 0 : 1);
	}
	close(fd[0]);
	setsid();
	*ready_fd = fd[1];
	return 0;
}

/* The log goes to a file once nobody watches the terminal. */
static void daemon_detach(int ready_fd)
{
	autofree char *path = xasprintf("%s/tarnd.log", os_rundir());
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(log >= 0 ? log : null, STDERR_FILENO);
		close(null);
	}
	if (log >= 0)
		close(log);
	if (write(ready_fd, "", 1) != 1)
		log_warn("the starting process has gone");
	close(ready_fd);
}

/* ---- run ---- */

static void descriptors_raise(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

static int daemon_start(struct tarn_daemon *d, const struct daemon_options *o, struct control_server **control,
			struct err *e)
{
	autofree char *socket = xasprintf("%s/tarnd.sock", os_rundir());
	int err;

	daemon_init(d, o->arc_max);
	err = daemon_nbd_start(d, &o->nbd, e);
	if (err)
		return err;
	return control_server_start(socket, daemon_commands, daemon_commands_len, d, control, e);
}

static int daemon_run(const struct daemon_options *o, int ready_fd, int pid_fd, struct err *e)
{
	struct control_server *control = NULL;
	struct tarn_daemon d;
	sigset_t stop;
	int sig, err;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &stop, NULL); /* inherited by every thread: only sigwait below sees them */
	signal(SIGPIPE, SIG_IGN);
	descriptors_raise();
	err = daemon_start(&d, o, &control, e);
	if (!err) {
		pidfile_write(pid_fd);
		if (ready_fd >= 0)
			daemon_detach(ready_fd);
		log_info("tarnd " TARN_VERSION " serves in %s, cache at most %" PRIu64 " MiB", os_rundir(),
			 o->arc_max >> 20);
		mounts_dead_sweep();
		service_notify("READY=1");
		do
			sigwait(&stop, &sig);
		while (sig == SIGHUP);
		service_notify("STOPPING=1");
		log_info("stopping");
	}
	control_server_stop(control);
	daemon_end(&d);
	return err;
}

int main(int argc, char **argv)
{
	struct daemon_options o;
	struct err e = ERR_INIT;
	int err, pid_fd = -1, ready_fd = -1, code;

	if (!daemon_options_parse(argc, argv, &o, &code))
		return code;
	log_init(LOG_LEVEL_INFO);
	err = os_dir_make(os_rundir());
	if (err) {
		fprintf(stderr, "tarnd: cannot make %s: %s\n", os_rundir(), strerror(-err));
		return 1;
	}
	if (o.background && (err = daemon_fork(&ready_fd))) {
		fprintf(stderr, "tarnd: cannot go to the background: %s\n", strerror(-err));
		return 1;
	}
	err = pidfile_lock(&pid_fd, &e);
	if (!err) {
		err = daemon_run(&o, ready_fd, pid_fd, &e);
		if (ftruncate(pid_fd, 0))
			log_warn("cannot empty the pid file");
	}
	if (err)
		fprintf(stderr, "tarnd: %s\n", e.text);
	return err ? 1 : 0;
}
