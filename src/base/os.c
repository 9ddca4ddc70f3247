/* Linux: host identity, directories, memory, threads. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/os.h"

static bool hostid_from_module(uint32_t *id)
{
	FILE *f = fopen("/sys/module/spl/parameters/spl_hostid", "re");
	unsigned long v = 0;
	bool ok;

	if (!f)
		return false;
	ok = fscanf(f, "%lu", &v) == 1 && v != 0 && v <= UINT32_MAX;
	fclose(f);
	*id = v;
	return ok;
}

static bool hostid_from_file(uint32_t *id)
{
	int fd = open("/etc/hostid", O_RDONLY | O_CLOEXEC);
	uint8_t raw[4];
	bool ok;

	if (fd < 0)
		return false;
	ok = read(fd, raw, sizeof(raw)) == sizeof(raw);
	close(fd);
	if (ok)
		*id = load_host32(raw);
	return ok;
}

uint32_t os_hostid(void)
{
	uint32_t id;

	if (hostid_from_module(&id) || hostid_from_file(&id))
		return id;
	return 0;
}

static char hostname[HOST_NAME_MAX + 1];

static void hostname_read(void)
{
	if (gethostname(hostname, sizeof(hostname) - 1) != 0)
		memcpy(hostname, "localhost", sizeof("localhost"));
}

const char *os_hostname(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, hostname_read);
	return hostname;
}

uint64_t os_memory_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	return pages > 0 && page > 0 ? (uint64_t)pages * page : UINT64_C(1) << 30;
}

unsigned os_cpus(void)
{
	cpu_set_t set;
	long n;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return CPU_COUNT(&set);
	n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? n : 1;
}

static const char *env_path(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static char *rundir;

static void rundir_find(void)
{
	const char *set = env_path("TARN_RUNDIR"), *user = env_path("XDG_RUNTIME_DIR");

	if (set)
		rundir = xstrdup(set);
	else if (geteuid() == 0)
		rundir = xstrdup("/run/tarn");
	else if (user)
		rundir = xasprintf("%s/tarn", user);
	else
		rundir = xasprintf("/tmp/tarn-%u", (unsigned)geteuid());
}

const char *os_rundir(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, rundir_find);
	return rundir;
}

static char *statedir;

static void statedir_find(void)
{
	const char *set = env_path("TARN_STATEDIR"), *user = env_path("XDG_STATE_HOME"), *home = env_path("HOME");

	if (set)
		statedir = xstrdup(set);
	else if (geteuid() == 0)
		statedir = xstrdup("/var/lib/tarn");
	else if (user)
		statedir = xasprintf("%s/tarn", user);
	else if (home)
		statedir = xasprintf("%s/.local/state/tarn", home);
	else
		statedir = xasprintf("/tmp/tarn-state-%u", (unsigned)geteuid());
}

static char *datadir;

static void datadir_find(void)
{
	const char *set = env_path("TARN_DATADIR");
	char program[PATH_MAX], *slash;
	ssize_t n = set ? -1 : readlink("/proc/self/exe", program, sizeof(program) - 1);

	program[MAX(n, 0)] = '\0';
	slash = strrchr(program, '/');
	if (set) {
		datadir = xstrdup(set);
	} else if (slash) {
		autofree char *built = xasprintf("%.*s/compatibility.d", (int)(slash - program), program);

		datadir = access(built, F_OK) == 0 ? xasprintf("%.*s", (int)(slash - program), program) : NULL;
	}
	if (!datadir)
		datadir = xstrdup(TARN_DATADIR);
}

const char *os_datadir(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, datadir_find);
	return datadir;
}

const char *os_statedir(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, statedir_find);
	return statedir;
}

int os_dir_make(const char *path)
{
	autofree char *copy = xstrdup(path);
	struct stat st;

	for (char *p = copy + (*copy == '/'); *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, 0700) != 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	if (mkdir(copy, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (stat(path, &st) != 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

/* A directory in /tmp may have been put there by someone else, to own the socket that is made in it. */
int os_rundir_make(void)
{
	struct stat st;
	int err = os_dir_make(os_rundir());

	if (err)
		return err;
	if (lstat(os_rundir(), &st) != 0)
		return -errno;
	if (strncmp(os_rundir(), "/tmp/tarn-", 10) == 0 && (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()))
		return -EPERM;
	return 0;
}

int os_thread_create(pthread_t *thread, void *(*run)(void *), void *arg)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

static size_t secret_bytes(size_t size)
{
	return ROUND_UP(size, (size_t)sysconf(_SC_PAGESIZE));
}

void *os_secret_alloc(size_t size)
{
	size_t bytes = secret_bytes(size);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	BUG_ON(p == MAP_FAILED);
	mlock(p, bytes); /* fails above RLIMIT_MEMLOCK: better swappable than no key */
	madvise(p, bytes, MADV_DONTDUMP);
	madvise(p, bytes, MADV_WIPEONFORK);
	return p;
}

void os_secret_free(void *p, size_t size)
{
	if (!p)
		return;
	explicit_bzero(p, secret_bytes(size));
	munmap(p, secret_bytes(size));
}

void os_random(void *p, size_t size)
{
	uint8_t *to = p;

	while (size > 0) {
		ssize_t n = getrandom(to, size, 0);

		BUG_ON(n < 0 && errno != EINTR); /* cannot fail otherwise */
		if (n > 0) {
			to += n;
			size -= n;
		}
	}
}

uint64_t os_random64(void)
{
	uint64_t v;

	do
		os_random(&v, sizeof(v));
	while (v == 0);
	return v;
}
