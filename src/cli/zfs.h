/*
 * cli/zfs.h: what the files of the zfs command share.
 */
#ifndef CLI_ZFS_H
#define CLI_ZFS_H

#include "cli/cli.h"

extern const struct cli_command zfs_commands[];

int zfs_list(int argc, char **argv);
int zfs_get(int argc, char **argv);
int zfs_mount(int argc, char **argv);
int zfs_unmount(int argc, char **argv);
int zfs_load_key(int argc, char **argv);
int zfs_unload_key(int argc, char **argv);
int zfs_space(int argc, char **argv);
int zfs_holds(int argc, char **argv);
int zfs_diff(int argc, char **argv);
int zfs_allow(int argc, char **argv);
int zfs_upgrade(int argc, char **argv);
int zfs_create(int argc, char **argv);
int zfs_clone(int argc, char **argv);
int zfs_snapshot(int argc, char **argv);
int zfs_bookmark(int argc, char **argv);
int zfs_hold(int argc, char **argv);
int zfs_release(int argc, char **argv);
int zfs_promote(int argc, char **argv);
int zfs_rename(int argc, char **argv);
int zfs_destroy(int argc, char **argv);
int zfs_rollback(int argc, char **argv);
int zfs_set(int argc, char **argv);
int zfs_inherit(int argc, char **argv);
int zfs_unallow(int argc, char **argv);
/* Words that are not there yet. */
int zfs_missing(int argc, char **argv);

/* A request that changes data sets and goes into the pool's history; failures are told as those of `operation` on
 * `name` (may be NULL). result may be NULL. */
int zfs_change(const char *cmd, struct nvlist *args, const char *operation, const char *name, struct nvlist **result);
/* NAME=VALUE into a list, under the property's full name; prints and returns CLI_USAGE. */
int zfs_property_take(struct nvlist *props, const char *text, const char *command);

/* ---- rows (zfs_rows.c): data sets with properties, as list and get show them ---- */

struct zfs_row {
	char *name;
	unsigned type; /* DSL_* */
	uint64_t createtxg;
	char *pool;
	struct nvlist *props;
};
struct zfs_rows {
	struct zfs_row *row;
	size_t n;
	bool failed; /* some named or damaged data set was told on stderr */
};
struct zfs_query {
	char **names; /* data sets or paths; none: all pools */
	size_t nnames;
	uint64_t depth; /* UINT64_MAX: unlimited */
	unsigned types;
	bool listsnapshots;       /* add snapshots of pools whose listsnapshots is on */
	const char *const *props; /* NULL: all */
	size_t nprops;
};
/* "fs,vol,snap" -> DSL_* mask; 0 for unknown words. */
unsigned zfs_types_parse(const char *text);
/* 0 or CLI_ERROR when nothing could be asked at all. */
int zfs_rows_get(const struct zfs_query *q, struct zfs_rows *rows);
void zfs_rows_free(struct zfs_rows *rows);
/* One property: exact text or NULL; source ("-" by default), received (NULL: none), number. */
struct zfs_value {
	const char *exact, *source, *received;
	bool has_number;
	uint64_t number;
};
struct zfs_value zfs_row_value(const struct zfs_row *r, const char *property);

/* For people, or as it is (parsable). malloc'd. */
char *zfs_value_show(const char *property, const char *exact, bool parsable);

struct zfs_sort_key {
	const char *property;
	bool descending;
};
/* By keys, then data set name, then creation. A data set that was asked for twice is kept once. */
void zfs_rows_sort(struct zfs_rows *rows, const struct zfs_sort_key *keys, size_t nkeys);

/* Native property or alias, or a user property, userused@..., written@...: its full name, NULL when there is no such
 * one. */
const char *zfs_property_name(const char *word);
/* Splits "a,b" into full names appended to the array; "all" alone is every native one that is not hidden. Prints and
 * returns CLI_USAGE for unknown ones. */
struct zfs_names {
	char **name;
	size_t n;
};
int zfs_property_list(const char *text, struct zfs_names *out);
void zfs_names_free(struct zfs_names *names);
/* The object of one data set in JSON; the caller adds "properties". */
struct cli_json *zfs_row_json(const struct zfs_row *r, bool json_int);
void zfs_value_json(struct cli_json *props, const char *name, const char *shown, const struct zfs_value *v,
		    bool with_received, bool json_int);
/* A mounted path as its data set; other words as they are. malloc'd, NULL (told) when the path is on no mount. */
char *zfs_name_of(const char *word);
/* Digits only, for -d. */
bool zfs_depth_parse(const char *text, uint64_t *out);

#endif
