/*
 * Import. It runs on a thread of its own: the caller tells its stage to whoever waits, and can leave
 * at any moment, even when a device hangs. A job that is left behind ends by itself and frees what it made.
 */
#include <pthread.h>
#include <stdarg.h>
#include <time.h>

#include "base/counter.h"
#include "base/os.h"
#include "spa/layout.h"
#include "spa/pool_props.h"
#include "spa/spa_write.h"

#define STAGE_SECONDS 120 /* without a new stage: some device does not answer */
#define LEAVE_SECONDS 3   /* that a cancelled job may take to end before it is left behind */

/* Guarded by `lock` from `stage` on. Two references: the caller's and the job thread's. */
struct spa_job {
	struct spa_import args; /* own copies, see args_copy */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	char stage[256];
	uint64_t stage_ns;
	unsigned refs;
	bool cancel, finished, left;
	int err;
	struct err e;
	struct spa *spa;
};

/* --- which pools are imported in this process; registry_lock guards the list; after it only state_lock is taken --- */
struct registered {
	struct list_node node;
	uint64_t guid;
	char name[DSL_NAME_MAX];
	struct spa *spa; /* while it lives */
};
static struct list registry;
static bool registry_ready;
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;

int spa_register(uint64_t guid, const char *name, struct err *e)
{
	struct registered *r;
	SCOPED_LOCK(&registry_lock);

	if (!registry_ready) {
		list_init(&registry);
		registry_ready = true;
	}
	list_for_each(&registry, n) {
		r = container_of(n, struct registered, node);
		if (r->guid == guid)
			return err_set(e, -EEXIST, "the pool is already imported as '%s'", r->name);
		if (strcmp(r->name, name) == 0)
			return err_set(e, -EEXIST, "a pool named '%s' is already imported", name);
	}
	r = xcalloc(1, sizeof(*r));
	r->guid = guid;
	snprintf(r->name, sizeof(r->name), "%s", name);
	list_append(&registry, &r->node);
	return 0;
}

bool spa_is_imported(uint64_t guid)
{
	SCOPED_LOCK(&registry_lock);

	if (registry_ready)
		list_for_each(&registry, n)
			if (container_of(n, struct registered, node)->guid == guid)
				return true;
	return false;
}

void spa_registered(const struct spa *spa, bool lives)
{
	SCOPED_LOCK(&registry_lock);

	list_for_each(&registry, n) {
		struct registered *r = container_of(n, struct registered, node);

		if (r->guid == spa->guid)
			r->spa = lives ? (struct spa *)spa : NULL;
	}
}

bool spa_spare_owner(uint64_t guid, char pool[DSL_NAME_MAX])
{
	SCOPED_LOCK(&registry_lock);

	if (!registry_ready)
		return false;
	list_for_each(&registry, n) {
		struct registered *r = container_of(n, struct registered, node);

		if (r->spa && spa_has_spare(r->spa, guid)) {
			str_copy(pool, DSL_NAME_MAX, r->name);
			return true;
		}
	}
	return false;
}

void spa_reregister(uint64_t from, uint64_t to)
{
	SCOPED_LOCK(&registry_lock);

	list_for_each(&registry, n)
		if (container_of(n, struct registered, node)->guid == from)
			container_of(n, struct registered, node)->guid = to;
}

static void unregister_pool(uint64_t guid)
{
	SCOPED_LOCK(&registry_lock);

	list_for_each_safe(&registry, n) {
		struct registered *r = container_of(n, struct registered, node);

		if (r->guid == guid) {
			list_remove(&registry, n);
			free(r);
		}
	}
}

/* --- the pool object --- */
struct spa *spa_create(void)
{
	struct spa *spa = xcalloc(1, sizeof(*spa));
	struct spa_priv *pr = xcalloc(1, sizeof(*pr));

	spa->priv = pr;
	spa->load_info = nvlist_create();
	pthread_mutex_init(&spa->error_lock, NULL);
	pthread_mutex_init(&pr->space_lock, NULL);
	pthread_mutex_init(&pr->state_lock, NULL);
	pr->load_guid = hash_mix(now_ns(), (uintptr_t)spa);
	return spa;
}

void spa_destroy(struct spa *spa)
{
	struct spa_priv *pr;

	if (!spa)
		return;
	pr = spa_priv(spa);
	spa_unload(spa);
	nvlist_destroy(spa->label);
	nvlist_destroy(spa->load_info);
	nvlist_destroy(pr->devices);
	pthread_mutex_destroy(&spa->error_lock);
	pthread_mutex_destroy(&pr->space_lock);
	pthread_mutex_destroy(&pr->state_lock);
	free(spa->errors);
	free(spa->altroot);
	free(pr);
	free(spa);
}

void spa_note(struct spa *spa, const char *fmt, ...)
{
	const char *const *old = NULL, **all;
	char text[1024];
	size_t n = 0;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	nvlist_strings(spa->load_info, "notes", &old, &n);
	for (size_t i = 0; i < n; i++)
		if (strcmp(old[i], text) == 0)
			return;
	all = xcalloc(n + 1, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[i] = old[i];
	all[n] = text;
	nvlist_add_strings(spa->load_info, "notes", all, n + 1);
	free(all);
}

/* --- the job --- */
static void args_copy(struct spa_import *to, const struct spa_import *from)
{
	*to = *from;
	to->config = nvlist_copy(from->config);
	to->new_name = from->new_name ? xstrdup(from->new_name) : NULL;
	to->altroot = from->altroot ? xstrdup(from->altroot) : NULL;
	to->props = from->props ? nvlist_copy(from->props) : NULL;
	to->progress = NULL;
}

static void job_release_locked(struct spa_job *job)
{
	bool last = --job->refs == 0;

	pthread_mutex_unlock(&job->lock);
	if (!last)
		return;
	nvlist_destroy(job->args.config);
	nvlist_destroy((struct nvlist *)job->args.props);
	free((char *)job->args.new_name);
	free((char *)job->args.altroot);
	pthread_mutex_destroy(&job->lock);
	pthread_cond_destroy(&job->cond);
	free(job);
}

int spa_job_stage(struct spa_job *job, const char *fmt, ...)
{
	va_list ap;
	SCOPED_LOCK(&job->lock);

	va_start(ap, fmt);
	vsnprintf(job->stage, sizeof(job->stage), fmt, ap);
	va_end(ap);
	job->stage_ns = now_ns();
	return job->cancel ? -EINTR : 0;
}

void spa_drop(struct spa *spa)
{
	bool registered = spa_priv(spa)->registered;
	uint64_t guid = spa->guid;

	if (registered)
		spa_registered(spa, false);
	spa_destroy(spa);
	if (registered)
		unregister_pool(guid);
}

static void *job_run(void *arg)
{
	struct spa_job *job = arg;
	struct spa_loader ld = {.spa = job->spa, .args = &job->args, .job = job};
	struct err e = ERR_INIT;
	int err = spa_load(&ld, &e);

	if (!err && spa_priv(job->spa)->registered)
		spa_registered(job->spa, true);
	pthread_mutex_lock(&job->lock);
	job->err = err;
	job->e = e;
	job->finished = true;
	pthread_cond_signal(&job->cond);
	if (job->left) {
		pthread_mutex_unlock(&job->lock);
		spa_drop(ld.spa);
		pthread_mutex_lock(&job->lock);
	}
	job_release_locked(job);
	return NULL;
}

static void short_wait_locked(struct spa_job *job)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 100 * 1000 * 1000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&job->cond, &job->lock, &until);
}

/* Waits for the job, or leaves it. The lock is held before and after. */
static int job_wait_locked(struct spa_job *job, const struct spa_import *args, struct err *e)
{
	uint64_t cancelled_ns = 0;

	while (!job->finished) {
		char stage[sizeof(job->stage)];
		bool stop;

		short_wait_locked(job);
		if (job->finished)
			break;
		if (!cancelled_ns && now_ns() - job->stage_ns > STAGE_SECONDS * UINT64_C(1000000000)) {
			job->left = job->cancel = true;
			return err_set(e, -ETIMEDOUT, "no answer for %u s while %s", STAGE_SECONDS, job->stage);
		}
		if (cancelled_ns && now_ns() - cancelled_ns > LEAVE_SECONDS * UINT64_C(1000000000)) {
			job->left = true;
			return err_set(e, -EINTR, "interrupted while %s", job->stage);
		}
		if (cancelled_ns || !args->progress)
			continue;
		memcpy(stage, job->stage, sizeof(stage));
		pthread_mutex_unlock(&job->lock);
		stop = args->progress(args->progress_arg, stage);
		pthread_mutex_lock(&job->lock);
		if (stop) {
			job->cancel = true;
			cancelled_ns = now_ns();
		}
	}
	if (e)
		*e = job->e;
	return job->err;
}

int spa_name_check(const char *name, struct err *e)
{
	static const char *const reserved[] = {"mirror", "raidz", "draid", "spare"};
	size_t len = strlen(name);

	if (len == 0 || len >= DSL_NAME_MAX - 1)
		return err_set(e, -ENAMETOOLONG, "the pool's name is empty or too long");
	if (strcspn(name, "/@#") != len || !((name[0] | 32) >= 'a' && (name[0] | 32) <= 'z'))
		return err_set(e, -EINVAL, "invalid pool name '%s'", name);
	for (size_t i = 0; i < len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.: ", name[i]))
			return err_set(e, -EINVAL, "invalid character in pool name '%s'", name);
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (strncmp(name, reserved[i], strlen(reserved[i])) == 0)
			return err_set(e, -EINVAL, "pool name '%s' is reserved", name);
	return strcmp(name, "log") == 0 ? err_set(e, -EINVAL, "pool name 'log' is reserved") : 0;
}

/* Name of a property that would have to be stored, or NULL. */
static const char *props_first(const struct spa_pool_props *p)
{
	const struct nvlist *const lists[] = {p->stored, p->config, p->enable};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (lists[i] && nvlist_first(lists[i]))
			return nvpair_name(nvlist_first(lists[i]));
	return NULL;
}

/* -o: nothing can be stored in a pool that is opened read-only; what asks for just that is taken. */
static int props_check(const struct spa_import *args, struct err *e)
{
	struct spa_pool_props p;
	int err = spa_altroot_check(args->altroot, e);

	if (!err)
		err = spa_pool_props_parse(NULL, args->props, SPA_PROPS_IMPORT, &p, e);

	if (err)
		return err;
	if (!args->writable && (props_first(&p) || p.version))
		err = err_set(e, -EROFS, "property '%s' cannot be set: the pool is opened read-only",
			      p.version ? "version" : props_first(&p));
	else if (!args->writable && args->props && strcmp(nvlist_string_or(args->props, "readonly", "on"), "off") == 0)
		err = err_set(e, -EROFS, "readonly=off: the pool is asked for to be read only");
	else if (args->writable && p.readonly)
		err = err_set(e, -EINVAL, "readonly=on: the pool is asked for to be written");
	spa_pool_props_free(&p);
	return err;
}

static struct spa *spa_prepare(const struct spa_import *args, struct err *e)
{
	const char *name = args->new_name ? args->new_name : nvlist_string_or(args->config, "name", "");
	struct spa *spa;
	uint64_t guid;

	if (nvlist_u64(args->config, "pool_guid", &guid) || guid == 0) {
		err_set(e, -EINVAL, "the configuration has no pool guid");
		return NULL;
	}
	if (spa_name_check(name, e) || props_check(args, e) || (!args->trial && spa_register(guid, name, e)))
		return NULL;
	spa = spa_create();
	spa_priv(spa)->registered = !args->trial;
	spa->guid = guid;
	snprintf(spa->name, sizeof(spa->name), "%s", name);
	if (args->altroot || (args->props && nvlist_exists(args->props, "altroot")))
		spa->altroot = xstrdup(args->altroot ? args->altroot : nvlist_string_or(args->props, "altroot", ""));
	spa->temporary_name = args->temporary_name;
	if (spa->altroot || spa->temporary_name)
		nvlist_add_string(spa->load_info, "cachefile", "none");
	if (args->props && nvlist_exists(args->props, "cachefile"))
		nvlist_add_string(spa->load_info, "cachefile", nvlist_string_or(args->props, "cachefile", ""));
	return spa;
}

static struct spa_job *job_create(const struct spa_import *args, struct spa *spa)
{
	struct spa_job *job = xcalloc(1, sizeof(*job));

	args_copy(&job->args, args);
	pthread_mutex_init(&job->lock, NULL);
	pthread_cond_init(&job->cond, NULL);
	job->refs = 1;
	job->spa = spa;
	job->stage_ns = now_ns();
	return job;
}

/* What a rewind would come to, as a note: the caller looks and exports. */
static void dry_run_note(struct spa *spa)
{
	time_t t = (time_t)spa->uberblock.timestamp;
	char date[64] = "";
	struct tm tm;

	if (localtime_r(&t, &tm))
		strftime(date, sizeof(date), "%a %b %e %H:%M:%S %Y", &tm);
	spa_note(spa, "would return '%s' to its state as of %s (txg %" PRIu64 "), %" PRIu64 " seconds back", spa->name,
		 date, spa->uberblock.txg, nvlist_u64_or(spa->load_info, "rewound_seconds", 0));
}

int spa_import(const struct spa_import *args, struct spa **out, struct err *e)
{
	struct err local = ERR_INIT;
	const char *name = args->new_name ? args->new_name : nvlist_string_or(args->config, "name", "?");
	struct err *ee = e ? e : &local;
	struct spa_job *job;
	struct spa *spa;
	pthread_t thread;
	bool left;
	int err;

	*out = NULL;
	spa = spa_prepare(args, ee);
	if (!spa)
		return err_prefix(ee, ee->code, "cannot import '%s'", name);
	job = job_create(args, spa);
	pthread_mutex_lock(&job->lock);
	job->refs++;
	err = -pthread_create(&thread, NULL, job_run, job);
	if (err) {
		job->refs--;
		err_set(ee, err, "cannot start a thread");
	} else {
		pthread_detach(thread);
		err = job_wait_locked(job, args, ee);
	}
	left = job->left;
	job_release_locked(job);
	if (!err && args->rewind_dry)
		dry_run_note(spa);
	if (!left && err)
		spa_drop(spa);
	else if (!left)
		*out = spa;
	if (*out && args->writable) {
		spa_history_internal(spa, "import", NULL, NULL, SPA_SOFTWARE);
		spa_opened(spa, "sysevent.fs.zfs.pool_import");
	}
	return err ? err_prefix(ee, err, "cannot import '%s'", name) : 0;
}

void spa_hold(struct spa *spa)
{
	atomic_fetch_add(&spa->holds, 1);
}

void spa_release(struct spa *spa)
{
	atomic_fetch_sub(&spa->holds, 1);
}
