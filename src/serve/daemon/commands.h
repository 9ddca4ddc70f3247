/*
 * serve/daemon/commands.h: the commands of the control protocol, their arguments, items and results. What is not listed
 * as required may be absent. Values are uint64 unless a type is given; str = string, strs = string array, bool =
 * boolean_value, list = nvlist. Names are data set names in ZFS's form.
 *
 * daemon.info     -> version str, pid, uptime (s), arc list, nbd_socket str, nbd_tcp str
 * daemon.stop     force bool -> (the daemon exports everything and ends after the reply)
 *
 * pool.search     paths strs, cachefile str, destroyed bool, open bool; items: configurations as of spa_search (open:
 * made truer by spa_config_try) of pools that are not imported
 * pool.import     paths, cachefile, destroyed as above; guid | name str (required), new_name str, temporary bool, force
 * bool, missing_log bool, rewind bool, rewind_dry bool, extreme bool, txg, rewind_checkpoint bool, altroot str, props
 * list of str, mount bool, options str, command str -> name str, notes strs, failures strs (mounts that could not be
 * had)
 *                 (-l is the client's: it imports without mount, loads keys, then mounts all)
 * pool.export     name str, force bool -> failures strs (what a pool without devices could not write)
 * pool.list       names strs (none: all; of several that are not there an item says so: name str, error str); items:
 * name str, guid, props list (spa_props_get), vdevs list (spa_status' vdev tree and classes) pool.status     names
 * strs, errors bool; items: spa_status pool.get        name str, vdev str
 * -> props list; with vdev "all-vdevs": items name str, props list pool.history    name str; items: records
 *
 * Whatever changes a pool takes `command` str, the client's command line, which goes into the pool's history:
 * pool.create     name str, real_name str (-t), tree list (vdev_spec.h), props list of str, fs_props list of str,
 * altroot str, no_features bool, force bool, dry bool -> failures strs (the mount),
 * warnings strs
 * pool.destroy    name str, force bool
 * pool.add        name str, tree list, force bool, dry bool
 * pool.remove     name str, device str
 * pool.set        name str, vdev str, props list of str -> warnings strs
 * pool.upgrade    name str, version (absent: feature flags) -> from, to, features strs
 * pool.reguid     name str, guid
 * pool.checkpoint name str, discard bool
 * pool.clear      name str, device str
 * pool.online     name str, device str, expand bool
 * pool.offline    name str, device str, temporary bool, fault bool
 * pool.activity   name str, activity str ("trim", "initialize"), how str ("start", "suspend", "cancel", "uninit"),
 * devices strs (none: all), rate (bytes per second, absent: none), secure bool
 * pool.sync       names strs (none: all)
 * pool.busy       name str, activity str -> busy bool, left (bytes)
 * device.labelclear path str, force bool
 * events.read     name str, follow bool; items: class str, seconds, nanoseconds, pool str, payload list
 * events.clear    -> cleared
 * tunable.list    names strs (none: all, in name order); items: name str, value, default, min, max, unit str, help str
 * tunable.set     name str, value
 *
 * dataset.list    names strs (none: all pools), depth (absent: unlimited below names; 0: names themselves), types
 * (DSL_* mask), props strs (none: all); items: name str, type (DSL_* mask), pool str, createtxg, guid, properties list
 * of { value str, source str, [received str], [number] }; errors: name str, error str (a data set that cannot be read)
 * dataset.holds   names strs, recursive bool; items: snapshot str, tag str, time
 * dataset.bookmarks are part of dataset.list (type DSL_BOOKMARK)
 * dataset.allow   name str -> list as of dsl_deleg_get
 * dataset.space   name str, who (enum zpl_who); items: domain str, id, used, quota, objused, objquota
 * dataset.diff    from str, to str (may be absent: the head); items: kind str, type str, path bytes, new_path bytes,
 * link_delta int64, ctime, ctime_ns
 *
 * dataset.create  name str, type (DSL_FILESYSTEM, DSL_VOLUME), props list of str (a volume's volsize too), sparse bool,
 * parents bool, mount bool, dry bool -> created strs, props list of str (as they are set), failures strs
 * dataset.clone   snapshot str, name str, props list of str, parents bool, mount bool -> as dataset.create
 * dataset.snapshot names strs, recursive bool, props list of str (user properties)
 * dataset.hold_add, dataset.hold_release names strs, tag str, recursive bool
 * dataset.bookmark source str, bookmark str
 * dataset.promote name str
 * dataset.rename  from str, to str, recursive bool (snapshots), parents bool, force bool, keep_mounts bool -> failures
 * strs
 * dataset.set     names strs, props list of str, keep_mounts bool -> failures strs
 * dataset.inherit names strs, property str, recursive bool, received bool -> failures strs
 * dataset.upgrade name str, version
 * dataset.delegate name str, perms list (as of dataset.allow, of one data set), remove bool
 * dataset.destroy name str (data set, "fs@a,b%c", bookmark), recursive bool, clones bool, defer bool, force bool, dry
 * bool
 * -> destroyed strs, reclaim (bytes, of snapshots)
 * dataset.rollback snapshot str, recursive bool, clones bool, force bool -> failures strs
 *
 * dataset.mount   name str | all bool, recursive bool, dir str, options str, overlay bool, force bool (redacted ones
 * too) -> failures strs (with all or recursive; else an error) dataset.unmount name str (data set or directory) | all
 * bool, force bool -> failures strs dataset.mounts  items: name str, dir str, options str
 *
 * key.info        name str -> root str, keyformat str, keylocation str, loaded bool
 * key.load        root str, material bytes, check bool
 * key.unload      root str
 */
#ifndef SERVE_DAEMON_COMMANDS_H
#define SERVE_DAEMON_COMMANDS_H

#include "serve/daemon/daemon.h"

struct tarn_daemon *command_daemon(struct control_request *rq);
/* A data set and its pool, both to be released. Says "dataset does not exist" also when it is the pool that is not
 * there: scripts look for these words. */
int command_dataset_hold(struct tarn_daemon *d, const char *name, struct pool **p, struct dsl_dataset **ds,
			 struct err *e);

/* After a change that went well: the client's command line into the pool's history. */
void command_remember(struct control_request *rq, const struct nvlist *args, struct pool *p);

/* Sentences about parts that failed while the rest went well; they become "failures" of the result. */
struct failures {
	char **text;
	size_t n;
};
void failures_add(void *failures, const char *text);
void failures_finish(struct failures *f, struct nvlist *result);

/* One file per noun. */
int command_daemon_info(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_daemon_stop(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_search(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_import(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_export(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_list(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_status(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_get(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_history(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_create(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_destroy(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_add(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_remove(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_set(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_upgrade(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_reguid(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_checkpoint(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			    struct err *e);
int command_pool_clear(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_online(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_offline(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_activity(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_sync(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_pool_busy(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_device_labelclear(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			      struct err *e);
int command_events_read(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_events_clear(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_tunable_list(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_tunable_set(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_list(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_holds(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_allow(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_space(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_diff(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_mount(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_unmount(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			    struct err *e);
int command_dataset_mounts(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_create(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_clone(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_snapshot(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e);
int command_dataset_hold_add(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e);
int command_dataset_hold_release(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
				 struct err *e);
int command_dataset_bookmark(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e);
int command_dataset_promote(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			    struct err *e);
int command_dataset_rename(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_set(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_dataset_inherit(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			    struct err *e);
int command_dataset_upgrade(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			    struct err *e);
int command_dataset_delegate(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e);
int command_dataset_destroy(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			    struct err *e);
int command_dataset_rollback(struct control_request *rq, const struct nvlist *args, struct nvlist *result,
			     struct err *e);
int command_key_info(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_key_load(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);
int command_key_unload(struct control_request *rq, const struct nvlist *args, struct nvlist *result, struct err *e);

#endif
