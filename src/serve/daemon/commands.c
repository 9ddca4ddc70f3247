#include "serve/daemon/commands.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

const struct control_command daemon_commands[] = {
    {"daemon.info", command_daemon_info},
    {"daemon.stop", command_daemon_stop},
    {"pool.search", command_pool_search},
    {"pool.import", command_pool_import},
    {"pool.export", command_pool_export},
    {"pool.list", command_pool_list},
    {"pool.status", command_pool_status},
    {"pool.get", command_pool_get},
    {"pool.history", command_pool_history},
    {"pool.create", command_pool_create},
    {"pool.destroy", command_pool_destroy},
    {"pool.add", command_pool_add},
    {"pool.remove", command_pool_remove},
    {"pool.set", command_pool_set},
    {"pool.upgrade", command_pool_upgrade},
    {"pool.reguid", command_pool_reguid},
    {"pool.checkpoint", command_pool_checkpoint},
    {"pool.clear", command_pool_clear},
    {"pool.online", command_pool_online},
    {"pool.offline", command_pool_offline},
    {"pool.activity", command_pool_activity},
    {"pool.sync", command_pool_sync},
    {"pool.busy", command_pool_busy},
    {"device.labelclear", command_device_labelclear},
    {"events.read", command_events_read},
    {"events.clear", command_events_clear},
    {"tunable.list", command_tunable_list},
    {"tunable.set", command_tunable_set},
    {"dataset.list", command_dataset_list},
    {"dataset.holds", command_dataset_holds},
    {"dataset.allow", command_dataset_allow},
    {"dataset.space", command_dataset_space},
    {"dataset.diff", command_dataset_diff},
    {"dataset.create", command_dataset_create},
    {"dataset.clone", command_dataset_clone},
    {"dataset.snapshot", command_dataset_snapshot},
    {"dataset.hold_add", command_dataset_hold_add},
    {"dataset.hold_release", command_dataset_hold_release},
    {"dataset.bookmark", command_dataset_bookmark},
    {"dataset.promote", command_dataset_promote},
    {"dataset.rename", command_dataset_rename},
    {"dataset.set", command_dataset_set},
    {"dataset.inherit", command_dataset_inherit},
    {"dataset.upgrade", command_dataset_upgrade},
    {"dataset.delegate", command_dataset_delegate},
    {"dataset.destroy", command_dataset_destroy},
    {"dataset.rollback", command_dataset_rollback},
    {"dataset.mount", command_dataset_mount},
    {"dataset.unmount", command_dataset_unmount},
    {"dataset.mounts", command_dataset_mounts},
    {"key.info", command_key_info},
    {"key.load", command_key_load},
    {"key.unload", command_key_unload},
};
const size_t daemon_commands_len = ARRAY_LEN(daemon_commands);

struct tarn_daemon *command_daemon(struct control_request *rq)
{
	return control_ctx(rq);
}

int command_dataset_hold(struct tarn_daemon *d, const char *name, struct pool **p, struct dsl_dataset **ds,
			 struct err *e)
{
	int err = pool_hold(d, name, p, e);

	if (!err) {
		err = dsl_dataset_hold((*p)->spa->dsl, name, ds, e);
		if (err)
			pool_release(d, *p);
	}
	return err == -ENOENT ? err_set(e, err, "dataset does not exist") : err;
}

void failures_add(void *failures, const char *text)
{
	struct failures *f = failures;

	f->text = xrealloc(f->text, (f->n + 1) * sizeof(*f->text));
	f->text[f->n++] = xstrdup(text);
}

void failures_finish(struct failures *f, struct nvlist *result)
{
	if (f->n)
		nvlist_add_strings(result, "failures", (const char *const *)f->text, f->n);
	for (size_t i = 0; i < f->n; i++)
		free(f->text[i]);
	free(f->text);
}

static void info_arc(struct tarn_daemon *d, struct nvlist *result)
{
	struct nvlist *l = nvlist_create();
	struct arc_stats s;

	arc_stats(d->arc, &s);
	nvlist_add_u64(l, "hits", s.hits);
	nvlist_add_u64(l, "misses", s.misses);
	nvlist_add_u64(l, "size", s.size);
	nvlist_add_u64(l, "max", s.max);
	nvlist_add_u64(l, "mru_size", s.mru_size);
	nvlist_add_u64(l, "mfu_size", s.mfu_size);
	nvlist_add_u64(l, "prefetch_issued", s.prefetch_issued);
	nvlist_add_u64(l, "prefetch_hits", s.prefetch_hits);
	nvlist_add_u64(l, "evicted_bytes", s.evicted_bytes);
	nvlist_take_list(result, "arc", l);
}

int command_daemon_info(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);

	nvlist_add_string(result, "version", TARN_VERSION);
	nvlist_add_u64(result, "pid", (uint64_t)getpid());
	nvlist_add_u64(result, "uptime", (uint64_t)time(NULL) - d->start_time);
	nvlist_add_string(result, "nbd_socket", d->nbd_socket);
	if (d->nbd_tcp)
		nvlist_add_string(result, "nbd_tcp", d->nbd_tcp);
	info_arc(d, result);
	return 0;
}

/* Exports first, so that what is busy is told; then the main thread ends the daemon once the reply is out. */
int command_daemon_stop(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e)
{
	struct tarn_daemon *d = command_daemon(rq);
	struct pool **pools;
	size_t n = pools_hold_all(d, &pools);
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		autofree char *name = xstrdup(pools[i]->name);

		pool_release(d, pools[i]);
		pools[i] = NULL;
		err = pool_export(d, name, nvlist_bool(args, "force"), e);
		if (err)
			err_prefix(e, err, "cannot export '%s'", name);
	}
	for (size_t i = 0; i < n; i++)
		if (pools[i])
			pool_release(d, pools[i]);
	free(pools);
	if (!err)
		kill(getpid(), SIGTERM);
	return err;
}
