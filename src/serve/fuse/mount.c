/*
 * A mount's life: session, request threads, and the end, whether asked for or come from outside.
 */
#include "serve/fuse/node.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "base/sync.h"

#define THREADS_MIN 2
#define THREADS_MAX 8
/* The kernel reads ahead this far; the default of 128 KiB would cut every request to that. */
#define READ_AHEAD_KIB 4096
#define BUSY_TRIES     5
#define BUSY_WAIT_US   20000
#define POLL_MS        20000 /* idle threads close idle snapshots */

/* ---- request threads ---- */

/* What the kernel sent is taken without waiting: all threads watch the same descriptor and one of them wins. */
static bool request_take(struct fuse_mount *m, struct fuse_buf *buf)
{
	int n = fuse_session_receive_buf(m->session, buf);

	if (n == -EINTR || n == -EAGAIN)
		return true;
	if (n <= 0)
		return false;
	fuse_session_process_buf(m->session, buf);
	return true;
}

static void mount_tell_gone(struct fuse_mount *m)
{
	if (!atomic_load(&m->ending) && !atomic_exchange(&m->told_gone, true) && m->args.gone)
		m->args.gone(m->args.arg);
}

static void *request_main(void *arg)
{
	struct fuse_mount *m = arg;
	struct fuse_buf buf = {.mem = NULL};
	struct pollfd pfd[2] = {{.fd = fuse_session_fd(m->session), .events = POLLIN},
				{.fd = m->wake_fd, .events = POLLIN}};

	while (!fuse_session_exited(m->session)) {
		snap_expire(m);
		if (poll(pfd, 2, POLL_MS) < 0 && errno != EINTR)
			break;
		if ((pfd[1].revents & POLLIN) ||
		    ((pfd[0].revents & (POLLIN | POLLERR | POLLHUP)) && !request_take(m, &buf)))
			break;
	}
	free(buf.mem);
	if (atomic_fetch_sub(&m->threads_left, 1) == 1)
		mount_tell_gone(m);
	return NULL;
}

static void threads_start(struct fuse_mount *m)
{
	m->nthreads = MIN(MAX(os_cpus(), THREADS_MIN), THREADS_MAX);
	m->thread = xcalloc(m->nthreads, sizeof(*m->thread));
	atomic_store(&m->threads_left, m->nthreads);
	for (unsigned i = 0; i < m->nthreads; i++)
		BUG_ON(pthread_create(&m->thread[i], NULL, request_main, m));
}

/* ---- mount ---- */

static void statvfs_fill(struct fuse_mount *m)
{
	static const char *const names[] = {"used", "available", "referenced"};
	autonv struct nvlist *props = NULL;
	uint64_t value[2] = {0, 0};
	struct statvfs *s = &m->statvfs;

	if (dsl_props_get(m->zpl->ds, names, ARRAY_LEN(names), &props, NULL) == 0) {
		struct nvlist *p;

		if (nvlist_list(props, "available", &p) == 0)
			value[0] = nvlist_u64_or(p, "number", 0);
		if (nvlist_list(props, "referenced", &p) == 0)
			value[1] = nvlist_u64_or(p, "number", 0);
	}
	s->f_bsize = s->f_frsize = 512;
	s->f_blocks = (value[0] + value[1]) >> 9;
	s->f_bfree = s->f_bavail = value[0] >> 9;
	s->f_ffree = s->f_favail = s->f_bfree;
	s->f_files = s->f_ffree + bp_fill(&m->zpl->os->rootbp);
	s->f_fsid = m->zpl->ds->fsid_guid;
	s->f_flag = ST_RDONLY;
	s->f_namemax = m->zpl->longname ? ZPL_NAME_MAX : 255;
}

/* Best effort: needs root. */
static void readahead_raise(const struct fuse_mount *m)
{
	autofree char *path = NULL;
	struct stat st;
	int fd;

	if (stat(m->dir, &st))
		return;
	path = xasprintf("/sys/class/bdi/%u:%u/read_ahead_kb", major(st.st_dev), minor(st.st_dev));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (dprintf(fd, "%d", READ_AHEAD_KIB) < 0)
		log_debug("%s: cannot raise read-ahead", m->dir);
	close(fd);
}

/* The name in mount tables is the data set's; commas and backslashes in it must not end the option. */
static char *fsname_escape(const char *name)
{
	char *out = xmalloc(2 * strlen(name) + 1), *p = out;

	for (; *name; name++) {
		if (*name == ',' || *name == '\\')
			*p++ = '\\';
		*p++ = *name;
	}
	*p = 0;
	return out;
}

static char *option_string(const struct fuse_mount *m)
{
	autofree char *name = fsname_escape(m->zpl->ds->name);

	/* libfuse turns set-uid programs and devices off unless told; only root may have them on. */
	return xasprintf("ro,default_permissions%s,fsname=%s,subtype=tarn,max_read=1048576%s%s",
			 geteuid() == 0 ? ",allow_other,suid,dev" : "", name, m->options[0] ? "," : "", m->options);
}

static int session_start(struct fuse_mount *m, struct err *e)
{
	autofree char *options = option_string(m);
	char *argv[] = {(char *)"tarnd", (char *)"-o", options, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	int fd;

	m->session = fuse_session_new(&args, &fuse_ops, sizeof(fuse_ops), m);
	fuse_opt_free_args(&args);
	if (!m->session)
		return err_set(e, -EINVAL, "FUSE does not take the mount options '%s'", options);
	if (fuse_session_mount(m->session, m->dir)) {
		int err = errno ? -errno : -EIO;

		fuse_session_destroy(m->session);
		err_set(e, err, "cannot mount at %s: %s", m->dir, strerror(-err));
		if (access("/dev/fuse", R_OK | W_OK))
			err_hint(
			    e, "/dev/fuse cannot be used here: load the fuse module, or give the container the device; "
			       "`tarn extract` needs no mount");
		return err;
	}
	fd = fuse_session_fd(m->session);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return 0;
}

static void mount_free(struct fuse_mount *m)
{
	free(m->thread);
	free(m->dir);
	free(m->options);
	if (m->wake_fd >= 0)
		close(m->wake_fd);
	free(m);
}

static bool acl_is_posix(struct dsl_dataset *ds)
{
	char text[64];

	return dsl_prop_string(ds, "acltype", text, sizeof(text), NULL) == 0 && strncmp(text, "posix", 5) == 0;
}

int fuse_mount_create(const struct fuse_mount_args *args, struct fuse_mount **out, struct err *e)
{
	struct fuse_mount *m = xcalloc(1, sizeof(*m));
	struct held root;
	int err;

	m->args = *args;
	m->zpl = args->zpl;
	m->dir = xstrdup(args->dir);
	m->options = xstrdup(args->options ? args->options : "");
	m->wake_fd = eventfd(0, EFD_CLOEXEC);
	m->posix_acl = acl_is_posix(m->zpl->ds);
	node_table_init(m);
	statvfs_fill(m);
	err = node_hold_object(m, NULL, m->zpl, m->zpl->root, &root);
	if (err)
		err_set(e, err, "cannot read the root directory: %s", err_words(err));
	if (!err) {
		node_add_lookup(m, &root);
		node_drop(m, &root);
		err = session_start(m, e);
	}
	if (err) {
		node_table_free(m);
		mount_free(m);
		return err;
	}
	threads_start(m);
	readahead_raise(m);
	log_info("mounted %s at %s", m->zpl->ds->name, m->dir);
	*out = m;
	return 0;
}

void fuse_mount_entry_made(struct fuse_mount *m, uint64_t dir, const char *name)
{
	uint64_t number = node_number(m, NULL, dir);

	node_refresh(m, number);
	/* not known to the kernel: nothing to take back */
	fuse_lowlevel_notify_inval_entry(m->session, number, name, strlen(name));
	fuse_lowlevel_notify_inval_inode(m->session, number, 0, 0);
}

/* ---- end ---- */

static int fusermount_run(const char *dir, bool lazy)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-q", lazy ? "-uz" : "-u", "--", dir, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

/* 0 also when it is no longer mounted. */
static int kernel_unmount_once(const char *dir, bool lazy)
{
	if (umount2(dir, (lazy ? MNT_DETACH : 0) | UMOUNT_NOFOLLOW) == 0 || errno == EINVAL || errno == ENOENT)
		return 0;
	return errno == EPERM ? fusermount_run(dir, lazy) : -errno;
}

/* Who asks of every mount how full it is has it in use for a moment: that is not what "busy" is about. */
static int kernel_unmount(const char *dir, bool lazy)
{
	int err = kernel_unmount_once(dir, lazy);

	for (unsigned i = 0; i < BUSY_TRIES && err == -EBUSY; i++) {
		usleep(BUSY_WAIT_US);
		err = kernel_unmount_once(dir, lazy);
	}
	return err;
}

int fuse_unmount_dead(const char *dir)
{
	return kernel_unmount(dir, true);
}

static void threads_stop(struct fuse_mount *m)
{
	uint64_t one = 1;

	fuse_session_exit(m->session);
	BUG_ON(write(m->wake_fd, &one, sizeof(one)) != sizeof(one));
	for (unsigned i = 0; i < m->nthreads; i++)
		pthread_join(m->thread[i], NULL);
	pthread_mutex_lock(&m->lock);
	while (m->inflight)
		pthread_cond_wait(&m->idle, &m->lock);
	pthread_mutex_unlock(&m->lock);
}

static bool session_severed(struct fuse_mount *m)
{
	struct pollfd pfd = {.fd = fuse_session_fd(m->session)};

	return poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLERR);
}

/* Closes the connection to the kernel; a pipe without a reader, in its place, tells libfuse of it. */
static void session_sever(struct fuse_mount *m)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		return;
	close(fd[0]);
	dup3(fd[1], fuse_session_fd(m->session), O_CLOEXEC);
	close(fd[1]);
}

/*
 * libfuse frees its copy of the directory's name only when it unmounts. That is left to it only where it will find
 * nothing to do: after a lazy unmount it would take down what has been mounted at the same place since.
 */
static void session_end(struct fuse_mount *m)
{
	if (!session_severed(m))
		session_sever(m);
	if (session_severed(m))
		fuse_session_unmount(m->session);
	fuse_session_destroy(m->session); /* closes the descriptor: whoever still has files open gets errors */
}

int fuse_mount_destroy(struct fuse_mount *m, bool force, struct err *e)
{
	int err = 0;

	atomic_store(&m->ending, true);
	if (!atomic_load(&m->told_gone))
		err = kernel_unmount(m->dir, false);
	if (err && force)
		err = kernel_unmount(m->dir, true);
	if (err) {
		atomic_store(&m->ending, false);
		return err_set(e, err, "%s is %s", m->dir,
			       err == -EBUSY ? "busy (-f unmounts it all the same)" : strerror(-err));
	}
	threads_stop(m);
	log_info("unmounted %s from %s", m->zpl->ds->name, m->dir);
	session_end(m);
	node_table_free(m);
	zpl_close(m->zpl);
	mount_free(m);
	return 0;
}
