/*
 * cli/zpool.h: what the files of the zpool command share.
 */
#ifndef CLI_ZPOOL_H
#define CLI_ZPOOL_H

#include "cli/cli.h"

extern const struct cli_command zpool_commands[];

int zpool_import(int argc, char **argv);
int zpool_export(int argc, char **argv);
int zpool_list(int argc, char **argv);
int zpool_status(int argc, char **argv);
int zpool_iostat(int argc, char **argv);
int zpool_get(int argc, char **argv);
int zpool_history(int argc, char **argv);
int zpool_create(int argc, char **argv);
int zpool_add(int argc, char **argv);
int zpool_destroy(int argc, char **argv);
int zpool_set(int argc, char **argv);
int zpool_upgrade(int argc, char **argv);
int zpool_reguid(int argc, char **argv);
int zpool_checkpoint(int argc, char **argv);
int zpool_sync(int argc, char **argv);
int zpool_clear(int argc, char **argv);
int zpool_online(int argc, char **argv);
int zpool_offline(int argc, char **argv);
int zpool_remove(int argc, char **argv);
int zpool_labelclear(int argc, char **argv);
int zpool_trim(int argc, char **argv);
int zpool_initialize(int argc, char **argv);
int zpool_wait(int argc, char **argv);
int zpool_events(int argc, char **argv);
/* Words that are not there yet. */
int zpool_refuse(int argc, char **argv);
/* Words that write nothing, and are not there all the same. */
int zpool_missing(int argc, char **argv);

/* A request that changes a pool and goes into its history: the command line is sent along. Failures are told as those
 * of `operation` on `name`. result may be NULL. */
int zpool_change(const char *cmd, struct nvlist *args, const char *operation, const char *name, struct nvlist **result);
/* -o NAME=VALUE into a list; prints and returns CLI_USAGE or CLI_ERROR (given twice). */
int zpool_property_take(struct nvlist *props, const char *text, const char *command);
/* Returns once none of the activities ("trim", ...) goes on; interrupted: CLI_ERROR. */
int zpool_wait_for(const char *pool, const char *const *activities, size_t n);

/* Asks for the pools named, or all. Says which are not there; CLI_ERROR when any is not. */
int zpool_ask_pools(const char *cmd, struct nvlist *args, char *const *names, size_t n, struct cli_items *pools);

bool zpool_pool_exists(const char *name);

/* How vdevs are called and numbers printed. */
struct zpool_style {
	bool guid, path, follow; /* -g -P -L */
	bool parsable;           /* -p */
};
/* A row's name in that style; malloc'd. key: its name in the status. */
char *zpool_row_name(const struct nvlist *row, const char *key, const struct zpool_style *st);

/* The rows of a status or of an import configuration, as `zpool status` prints them (config:). counters: READ WRITE
 * CKSUM are shown. */
struct zpool_config_options {
	struct zpool_style style;
	bool counters, slow, direct, initialize, trim, unhealthy_only;
};
void zpool_config_print(const struct nvlist *status, const struct zpool_config_options *o, FILE *out);
/* "status:", "action:" and "see:" lines, long texts folded after a TAB. */
void zpool_reason_print(const struct nvlist *status, FILE *out);
/* The same of a pool that was found: what to do is to import it, if that can be done. */
void zpool_listing_reason_print(const struct nvlist *config, FILE *out);

/* Property of a pool or vdev in the form { value, source, number }. */
struct zpool_value {
	const char *exact, *source;
	bool has_number;
	uint64_t number;
};
struct zpool_value zpool_value_of(const struct nvlist *props, const char *name);
/* Value for people or exact; malloc'd. */
char *zpool_value_show(const char *name, const struct zpool_value *v, bool parsable);
/* -T d|u: the line before a report. */
void zpool_time_print(char kind);

/* Takes trailing INTERVAL [COUNT] off the arguments; interval 0: report once. */
void zpool_interval_parse(int *argc, char **argv, int first, unsigned *interval, unsigned *count);
/* Waits before the next report; false when there is none. count 0: for ever. */
bool zpool_interval_next(unsigned interval, unsigned *count, bool blank_line);

#endif
