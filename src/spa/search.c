/*
 * Finding pools: every device that could carry a label is read by a few threads; none may hold up the search for
 * longer than DEVICE_SECONDS. A thread that hangs in a dead device is written off and replaced; it frees what it
 * shares whenever it comes back.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/counter.h"
#include "spa/search.h"
#include "spa/spa_impl.h"

#define DEVICE_SECONDS 10
#define THREADS_MAX    16
#define DEVICES_MAX    65536u
#define CACHEFILE_MAX  (64u << 20)

enum device_state { DEVICE_WAITING, DEVICE_READING, DEVICE_DONE, DEVICE_GIVEN_UP };

struct device {
	struct strings paths;  /* first: the one that is shown */
	uint64_t major, minor; /* identity: device number, or file system and inode */
	bool is_block;
	enum device_state state;
	uint64_t started_ns;
	int err;
	struct found_list found;
};

/* Shared by the searching thread and its workers; freed by the last. `lock` guards everything below it. */
struct scan {
	struct device *dev;
	size_t n;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	size_t next, finished;
	unsigned refs, threads;
	bool stop;
};

/* --- candidates --- */
static const char *const default_dirs[] = {"/dev/disk/by-vdev",     "/dev/mapper",        "/dev/disk/by-partlabel",
					   "/dev/disk/by-partuuid", "/dev/disk/by-label", "/dev/disk/by-uuid",
					   "/dev/disk/by-id",       "/dev/disk/by-path",  "/dev"};

/* Names under /dev that are no disks a pool lives on; opening some of them takes long or loads modules. */
static bool name_is_skipped(const char *name)
{
	static const char *const skip[] = {"fd", "sr", "ram", "zram", "zd", "nbd", "core", "loop-control", "vcs"};

	for (size_t i = 0; i < ARRAY_LEN(skip); i++)
		if (strncmp(name, skip[i], strlen(skip[i])) == 0)
			return true;
	return false;
}

static int candidate_add(struct scan *s, const char *path)
{
	struct device *d;
	struct stat st;

	if (stat(path, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -EINVAL;
	for (size_t i = 0; i < s->n; i++) {
		d = &s->dev[i];
		if (d->is_block == S_ISBLK(st.st_mode) && d->minor == (d->is_block ? st.st_rdev : st.st_ino) &&
		    (d->is_block || d->major == st.st_dev)) {
			strings_add(&d->paths, xstrdup(path));
			return 0;
		}
	}
	if (s->n >= DEVICES_MAX || (S_ISREG(st.st_mode) && st.st_size < (64 << 20)))
		return 0;
	s->dev = xrealloc(s->dev, (s->n + 1) * sizeof(*s->dev));
	d = &s->dev[s->n++];
	*d = (struct device){.is_block = S_ISBLK(st.st_mode), .major = st.st_dev};
	d->minor = d->is_block ? st.st_rdev : st.st_ino;
	strings_add(&d->paths, xstrdup(path));
	return 0;
}

static int directory_add(struct scan *s, const char *dir, bool skip)
{
	struct dirent **entry;
	int n = scandir(dir, &entry, NULL, alphasort);

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		if (entry[i]->d_name[0] != '.' && !(skip && name_is_skipped(entry[i]->d_name))) {
			autofree char *path = xasprintf("%s/%s", dir, entry[i]->d_name);

			candidate_add(s, path);
		}
		free(entry[i]);
	}
	free(entry);
	return 0;
}

static int path_add(struct scan *s, const char *path, struct err *e)
{
	autofree char *real = NULL;
	struct stat st;
	int err;

	if (stat(path, &st))
		return err_set(e, -errno, "cannot search '%s': %s", path, strerror(errno));
	real = path[0] == '/' ? xstrdup(path) : realpath(path, NULL);
	if (!real)
		return err_set(e, -errno, "cannot search '%s': %s", path, strerror(errno));
	for (size_t len = strlen(real); len > 1 && real[len - 1] == '/'; len--)
		real[len - 1] = '\0';
	err = S_ISDIR(st.st_mode) ? directory_add(s, real, false) : candidate_add(s, real);
	if (err)
		return err_set(e, err, "cannot search '%s': %s", path,
			       err == -EINVAL ? "neither a directory, a file nor a block device" : strerror(-err));
	return 0;
}

static int candidates_collect(struct scan *s, const struct spa_search *args, struct err *e)
{
	int err = 0;

	for (size_t i = 0; i < args->npaths && !err; i++)
		err = path_add(s, args->paths[i], e);
	if (args->npaths == 0)
		for (size_t i = 0; i < ARRAY_LEN(default_dirs); i++)
			directory_add(s, default_dirs[i], true);
	return err;
}

/* --- the workers --- */
static void scan_release_locked(struct scan *s)
{
	bool last = --s->refs == 0;

	pthread_mutex_unlock(&s->lock);
	if (!last)
		return;
	for (size_t i = 0; i < s->n; i++) {
		strings_free(&s->dev[i].paths);
		found_list_free(&s->dev[i].found);
	}
	free(s->dev);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->cond);
	free(s);
}

/* False: this thread was written off meanwhile, its place is taken. */
static bool device_finish_locked(struct scan *s, struct device *d, int err, struct found_list *found)
{
	if (d->state == DEVICE_GIVEN_UP) {
		found_list_free(found);
		return false;
	}
	d->state = DEVICE_DONE;
	d->err = err;
	d->found = *found;
	s->finished++;
	pthread_cond_signal(&s->cond);
	return true;
}

static void *scan_worker(void *arg)
{
	struct scan *s = arg;
	bool mine = true;

	pthread_mutex_lock(&s->lock);
	while (mine && !s->stop && s->next < s->n) {
		struct device *d = &s->dev[s->next++];
		struct found_list found = {0};
		int err;

		d->state = DEVICE_READING;
		d->started_ns = now_ns();
		pthread_mutex_unlock(&s->lock);
		err = search_device(d->paths.s[0], &found);
		pthread_mutex_lock(&s->lock);
		mine = device_finish_locked(s, d, err, &found);
	}
	if (mine)
		s->threads--;
	scan_release_locked(s);
	return NULL;
}

static void workers_start_locked(struct scan *s)
{
	while (s->threads < THREADS_MAX && s->threads < s->n - s->finished && s->next < s->n) {
		pthread_t t;

		s->refs++;
		if (pthread_create(&t, NULL, scan_worker, s)) {
			s->refs--;
			break;
		}
		pthread_detach(t);
		s->threads++;
	}
}

/* Devices that do not answer in time are left behind. */
static void overdue_give_up_locked(struct scan *s)
{
	uint64_t now = now_ns();

	for (size_t i = 0; i < s->next; i++) {
		struct device *d = &s->dev[i];

		if (d->state != DEVICE_READING || now - d->started_ns < DEVICE_SECONDS * UINT64_C(1000000000))
			continue;
		d->state = DEVICE_GIVEN_UP;
		d->err = -ETIMEDOUT;
		s->finished++;
		s->threads--;
	}
}

static const char *reading_path_locked(struct scan *s)
{
	for (size_t i = 0; i < s->next; i++)
		if (s->dev[i].state == DEVICE_READING)
			return s->dev[i].paths.s[0];
	return s->n ? s->dev[s->n - 1].paths.s[0] : "";
}

static void short_wait_locked(struct scan *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 50 * 1000 * 1000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&s->cond, &s->lock, &until);
}

static int scan_run(struct scan *s, const struct spa_search *args)
{
	int err = 0;

	pthread_mutex_lock(&s->lock);
	workers_start_locked(s);
	if (s->threads == 0 && s->n)
		err = -EAGAIN;
	while (!err && s->finished < s->n) {
		autofree char *stage = NULL;

		short_wait_locked(s);
		overdue_give_up_locked(s);
		workers_start_locked(s);
		stage = xasprintf("reading labels of %s", reading_path_locked(s));
		pthread_mutex_unlock(&s->lock);
		if (args->progress && args->progress(args->arg, stage))
			err = -EINTR;
		pthread_mutex_lock(&s->lock);
	}
	s->stop = true;
	pthread_mutex_unlock(&s->lock);
	return err;
}

/* --- the outcome --- */
static const struct device *device_of(const struct scan *s, const struct found *f)
{
	return &s->dev[f->order];
}

static bool path_is_alias(void *arg, const struct found *f, const char *path)
{
	const struct device *d = device_of(arg, f);

	if (strcmp(f->path, path) == 0)
		return true;
	if (strcmp(f->path, d->paths.s[0]) != 0) /* a partition inside the device */
		return false;
	for (size_t i = 0; i < d->paths.n; i++)
		if (strcmp(d->paths.s[i], path) == 0)
			return true;
	return false;
}

/* Takes the finished devices' finds into one list; what a given-up thread still writes is its own. */
static void finds_merge_locked(struct scan *s, struct found_list *all, struct str *unread)
{
	for (size_t i = 0; i < s->n; i++) {
		struct device *d = &s->dev[i];

		if (d->err == -ETIMEDOUT)
			str_addf(unread, "\n%s: does not answer, left out", d->paths.s[0]);
		else if (d->err && d->err != -ENXIO && d->err != -ENOMEDIUM)
			str_addf(unread, "\n%s: cannot be read: %s", d->paths.s[0], strerror(-d->err));
		if (d->state != DEVICE_DONE)
			continue;
		for (size_t k = 0; k < d->found.n; k++) {
			all->f = xrealloc(all->f, (all->n + 1) * sizeof(*all->f));
			all->f[all->n] = d->found.f[k];
			all->f[all->n++].order = i;
		}
		for (size_t k = 0; k < d->found.nnotes; k++)
			found_note_add(all, d->found.note[k].pool_guid, d->found.note[k].text);
		free(d->found.f);
		free(d->found.note);
		d->found = (struct found_list){0};
	}
}

static void pools_filter(struct nvlist **pool, size_t *n, bool destroyed)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++) {
		if ((nvlist_u64_or(pool[i], "state", 0) == POOL_STATE_DESTROYED) == destroyed)
			pool[kept++] = pool[i];
		else
			nvlist_destroy(pool[i]);
	}
	*n = kept;
}

static int scan_search(struct scan *s, const struct spa_search *args, struct nvlist ***out, size_t *n, struct err *e)
{
	struct found_list all = {0};
	struct str unread = {0};
	int err = scan_run(s, args);

	if (err)
		return err_set(e, err, "%s", err == -EINTR ? "the search was interrupted" : "cannot start a thread");
	pthread_mutex_lock(&s->lock);
	finds_merge_locked(s, &all, &unread);
	pthread_mutex_unlock(&s->lock);
	assemble_pools(&all, path_is_alias, s, out, n);
	if (unread.len && e && *n == 0)
		snprintf(e->text, sizeof(e->text), "some devices could not be searched%s", str_get(&unread));
	for (size_t i = 0; i < *n; i++)
		if (unread.len)
			nvlist_add_string((*out)[i], "unread", unread.s + 1);
	str_free(&unread);
	found_list_free(&all);
	return 0;
}

static struct scan *scan_create(void)
{
	struct scan *s = xcalloc(1, sizeof(*s));

	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->cond, NULL);
	s->refs = 1;
	return s;
}

/* --- the cache file (8.7): a hint where the devices are, and which pools are meant --- */
static int cachefile_read(const char *path, struct nvlist **out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;
	autofree uint8_t *data = NULL;
	struct stat st;
	size_t got = 0;

	if (fd < 0)
		return err_set(e, -errno, "cannot open cache file '%s': %s", path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > CACHEFILE_MAX)
		err = -EINVAL;
	if (!err && !(data = malloc(st.st_size + 1)))
		err = -ENOMEM;
	while (!err && got < (size_t)st.st_size) {
		ssize_t r = read(fd, data + got, st.st_size - got);

		if (r <= 0)
			err = -EIO;
		got += MAX(r, 0);
	}
	close(fd);
	if (!err)
		err = nvlist_unpack(data, got, out, NULL);
	if (err)
		return err_set(e, err, "cache file '%s' is damaged or unreadable", path);
	return 0;
}

static void leaves_add(struct scan *s, const struct nvlist *node, unsigned depth)
{
	static const char *const lists[] = {"children", "spares", "l2cache"};
	const char *path = nvlist_string_or(node, "path", NULL);
	struct nvlist *const *child;
	size_t n;

	if (path && path[0] == '/')
		candidate_add(s, path);
	for (size_t k = 0; k < ARRAY_LEN(lists) && depth < 16; k++)
		if (nvlist_lists(node, lists[k], &child, &n) == 0)
			for (size_t i = 0; i < n; i++)
				leaves_add(s, child[i], depth + 1);
}

static bool cache_names_pool(const struct nvlist *cache, uint64_t guid)
{
	for (const struct nvpair *p = nvlist_first(cache); p; p = nvlist_next(cache, p))
		if (nvpair_type(p) == NV_NVLIST && nvlist_u64_or(nvpair_list(p, 0), "pool_guid", 0) == guid)
			return true;
	return false;
}

static void cache_filter(const struct nvlist *cache, struct nvlist **pool, size_t *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++) {
		if (cache_names_pool(cache, nvlist_u64_or(pool[i], "pool_guid", 0)))
			pool[kept++] = pool[i];
		else
			nvlist_destroy(pool[i]);
	}
	*n = kept;
}

/* Pools of the cache file none of whose devices was found: as the file has them. */
static void cache_add_absent(const struct nvlist *cache, struct nvlist ***pool, size_t *n)
{
	for (const struct nvpair *p = nvlist_first(cache); p; p = nvlist_next(cache, p)) {
		const struct nvlist *config = nvpair_type(p) == NV_NVLIST ? nvpair_list(p, 0) : NULL;
		uint64_t guid;
		struct nvlist *tree, *devices;
		bool seen = false;

		if (!config || nvlist_u64(config, "pool_guid", &guid) || nvlist_list(config, "vdev_tree", &tree))
			continue;
		for (size_t i = 0; i < *n && !seen; i++)
			seen = nvlist_u64_or((*pool)[i], "pool_guid", 0) == guid;
		if (seen)
			continue;
		devices = nvlist_create();
		*pool = xrealloc(*pool, (*n + 1) * sizeof(**pool));
		(*pool)[*n] = nvlist_copy(config);
		nvlist_add_string((*pool)[*n], "name", nvpair_name(p));
		nvlist_take_list((*pool)[(*n)++], "devices", devices);
	}
}

static int cachefile_search(struct scan *s, const struct spa_search *args, struct nvlist ***out, size_t *n,
			    struct err *e)
{
	autonv struct nvlist *cache = NULL;
	int err = cachefile_read(args->cachefile, &cache, e);

	if (err)
		return err;
	for (const struct nvpair *p = nvlist_first(cache); p; p = nvlist_next(cache, p)) {
		struct nvlist *tree;

		if (nvpair_type(p) == NV_NVLIST && nvlist_list(nvpair_list(p, 0), "vdev_tree", &tree) == 0)
			leaves_add(s, tree, 0);
	}
	err = scan_search(s, args, out, n, e);
	if (err)
		return err;
	cache_filter(cache, *out, n);
	cache_add_absent(cache, out, n);
	return 0;
}

int spa_search(const struct spa_search *args, struct nvlist ***out, size_t *n, struct err *e)
{
	struct scan *s = scan_create();
	int err;

	*out = NULL;
	*n = 0;
	if (args->cachefile)
		err = cachefile_search(s, args, out, n, e);
	else
		err = candidates_collect(s, args, e) ?: scan_search(s, args, out, n, e);
	if (!err) {
		pools_filter(*out, n, args->destroyed);
		for (size_t i = 0; i < *n; i++)
			spa_config_describe((*out)[i]);
	}
	pthread_mutex_lock(&s->lock);
	scan_release_locked(s);
	return err;
}
