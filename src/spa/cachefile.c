/*
 * The cache file (docs/format/01-pool.md, 8.7): which pools are to be found where. It is Tarn's own by default, in its
 * state directory: pools in OpenZFS's would be taken by the kernel module when the machine starts.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "spa/spa_write.h"

#define CACHE_MAX (64u << 20)

/* One at a time works on cache files. */
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

const char *spa_cachefile_default(void)
{
	static char path[4096];
	SCOPED_LOCK(&cache_lock);

	snprintf(path, sizeof(path), "%s/zpool.cache", os_statedir());
	return path;
}

/* NULL: in none. The caller's. */
static char *cachefile_of(struct spa *spa)
{
	autofree char *set = NULL;
	const char *v;

	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	v = nvlist_string_or(spa->load_info, "cachefile", "");
	set = xstrdup(v);
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	if (strcmp(set, "none") == 0 || (!*set && spa->altroot))
		return NULL;
	return xstrdup(*set ? set : spa_cachefile_default());
}

static struct nvlist *cache_read(const char *path)
{
	FILE *f = fopen(path, "rbe");
	autofree uint8_t *data = NULL;
	struct nvlist *l = NULL;
	long len;

	if (!f)
		return nvlist_create();
	if (fseek(f, 0, SEEK_END) == 0 && (len = ftell(f)) > 0 && len <= (long)CACHE_MAX &&
	    fseek(f, 0, SEEK_SET) == 0) {
		data = xmalloc((size_t)len);
		if (fread(data, 1, (size_t)len, f) == (size_t)len && nvlist_unpack(data, (size_t)len, &l, NULL))
			l = NULL;
	}
	fclose(f);
	return l ? l : nvlist_create();
}

static int bytes_store(int fd, const uint8_t *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return fsync(fd) ? -errno : 0;
}

/* Written beside and moved over, so that a crash leaves the old one. */
static int cache_write(const char *path, const struct nvlist *l)
{
	autofree char *beside = xasprintf("%s.new", path);
	autofree void *packed = NULL;
	size_t len;
	int fd, err;

	if (nvlist_len(l) == 0)
		return unlink(path) && errno != ENOENT ? -errno : 0;
	err = nvlist_pack(l, NV_NATIVE, &packed, &len);
	if (err)
		return err;
	fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	err = bytes_store(fd, packed, len);
	close(fd);
	if (!err && rename(beside, path))
		err = -errno;
	if (err)
		unlink(beside);
	return err;
}

/* The pool may be under another name there, from before it was renamed. */
static void pool_remove(struct nvlist *cache, uint64_t guid)
{
	for (const struct nvpair *p = nvlist_first(cache), *next; p; p = next) {
		next = nvlist_next(cache, p);
		if (nvpair_type(p) == NV_NVLIST && nvlist_u64_or(nvpair_list(p, 0), "pool_guid", 0) == guid)
			nvlist_remove(cache, nvpair_name(p));
	}
}

static void cache_change(struct spa *spa, const char *path, bool in)
{
	autonv struct nvlist *cache = NULL;
	struct spa_priv *pr = spa_priv(spa);
	int err;
	SCOPED_LOCK(&cache_lock);

	cache = cache_read(path);
	pool_remove(cache, spa->guid);
	if (in) {
		pthread_mutex_lock(&pr->state_lock);
		nvlist_add_list(cache, spa->name, spa->config);
		pthread_mutex_unlock(&pr->state_lock);
	}
	err = in && strncmp(path, os_statedir(), strlen(os_statedir())) == 0 ? os_dir_make(os_statedir()) : 0;
	if (!err)
		err = cache_write(path, cache);
	if (err)
		log_warn("cache file %s: %s", path, err_words(err));
}

void spa_cachefile_update(struct spa *spa)
{
	autofree char *path = cachefile_of(spa);

	if (path)
		cache_change(spa, path, true);
}

void spa_cachefile_remove(struct spa *spa)
{
	autofree char *path = cachefile_of(spa);

	if (path)
		cache_change(spa, path, false);
}

void spa_cachefile_set(struct spa *spa, const char *value)
{
	spa_cachefile_remove(spa);
	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	nvlist_add_string(spa->load_info, "cachefile", value);
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	spa_cachefile_update(spa);
}
