/*
 * cli/cli.h: the commands: parse, ask, print. One program, `tarn`; called as zpool, zfs or zdb it is that command. What
 * is asked of the daemon and what comes back is in serve/daemon/commands.h; how it is shown in docs/format/09-cli.md.
 * `tarn zdb` and `tarn extract` use the engine themselves and need no daemon.
 *
 * A command is a function (argc, argv) -> exit code: 0 success, 1 an error occurred, 2 invalid command line. argv[0] is
 * the command's word. One thread.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "base/size.h"
#include "base/str.h"
#include "dsl/dsl.h"
#include "nv/nv.h"
#include "serve/control/control.h"

enum { CLI_OK = 0, CLI_ERROR = 1, CLI_USAGE = 2 };

struct cli_command {
	const char *name; /* NULL ends a table */
	int (*run)(int argc, char **argv);
	const char *usage;   /* after "zpool " and the name: "[-gLPvx] [POOL]..." */
	const char *summary; /* one line */
};

/* Looks argv[1] up in the table, runs it. Prints usage to stdout for help words (exit 0), to stderr for wrong ones
 * (exit 2). */
int cli_dispatch(const char *program, const struct cli_command *table, int argc, char **argv);
/* "usage: zpool status ..." on stderr, after a message (may be NULL). Returns CLI_USAGE. */
int cli_usage(const char *program, const struct cli_command *table, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

int cli_zpool(int argc, char **argv);
int cli_zfs(int argc, char **argv);
int cli_zdb(int argc, char **argv);
int cli_tunable(int argc, char **argv);
int cli_extract(int argc, char **argv);
int cli_mount(int argc, char **argv); /* tarn mount and mount.tarn */

/* ---- asking the daemon (ask.c) ---- */

/* One connection for the process, made (and the daemon started) at first use. SIGINT cancels the running command.
 * Progress stages go to stderr when it is a terminal, and vanish again. Passphrases are asked for on the terminal. */
int cli_ask(const char *cmd, const struct nvlist *args, int (*item)(void *arg, const struct nvlist *item), void *arg,
	    struct nvlist **result, struct err *e);
/* As cli_ask, collecting all items (copies; freed with cli_items_free). */
struct cli_items {
	struct nvlist **item;
	size_t n;
};
int cli_ask_items(const char *cmd, const struct nvlist *args, struct cli_items *items, struct err *e);
void cli_items_free(struct cli_items *items);
/* "warnings" of a result (NULL: none) on stderr. */
void cli_warnings_print(const struct nvlist *result);
/* "failures" of a result on stderr; CLI_ERROR when there are any. */
int cli_failures_print(const struct nvlist *result);
char *cli_path_absolute(const char *path); /* malloc'd */
/* How this program was called, as the history of a pool keeps it: "zpool create tank a b". */
const char *cli_command_line(void);
/* "cannot OPERATION 'NAME': text" with hints on further lines. Returns CLI_ERROR. */
int cli_fail(const char *operation, const char *name, const struct err *e);
extern volatile sig_atomic_t cli_interrupted;
/* A secret from the terminal without echo, or a line of standard input when that is no terminal. *len: room, then
 * length. */
int cli_read_secret(const char *prompt, void *buf, size_t *len);

/* ---- tables (table.c) ---- */

struct cli_table;
/* headers[i] NULL-terminated; right[i]: right-aligned. scripted (-H): no header, tabs. */
struct cli_table *cli_table_create(const char *const *headers, const bool *right, size_t columns, bool scripted);
void cli_table_widen(struct cli_table *t, size_t column, size_t width); /* at least */
void cli_table_add(struct cli_table *t, const char *const *cells);      /* copied */
void cli_table_print(struct cli_table *t, FILE *out);
void cli_table_destroy(struct cli_table *t);

/* ---- JSON (json.c): one line, order kept, outside ASCII escaped ---- */

struct cli_json; /* an object under construction */
struct cli_json *cli_json_create(void);
/* Starts with output_version. command: "zfs list". */
struct cli_json *cli_json_document(const char *command);
void cli_json_string(struct cli_json *o, const char *key, const char *value);
/* As a string, or as a number with json_int. */
void cli_json_number(struct cli_json *o, const char *key, uint64_t v, bool json_int);
/* Value text that becomes a number under json_int when it is all digits. */
void cli_json_value(struct cli_json *o, const char *key, const char *text, bool json_int);
void cli_json_object(struct cli_json *o, const char *key, struct cli_json *child); /* takes over */
void cli_json_strings(struct cli_json *o, const char *key, const char *const *v, size_t n);
void cli_json_print(struct cli_json *o, FILE *out); /* and destroys */
void cli_json_destroy(struct cli_json *o);

/* ---- values (value.c) ---- */

/* A data set property's exact text for people (sizes, dates, ratios ...); parsable: as it is. out is malloc'd. */
char *cli_property_show(const struct prop_def *def, const char *exact, bool parsable);
/* "Sun Nov 30  9:31 2025" */
char *cli_date_show(uint64_t seconds);
char *cli_ctime_show(uint64_t seconds);
/* "00:00:05", "2 days 03:00:00" */
char *cli_duration_show(uint64_t seconds);

#endif
