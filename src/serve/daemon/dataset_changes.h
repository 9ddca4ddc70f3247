/*
 * serve/daemon/dataset_changes.h: what the commands that change data sets share.
 */
#ifndef SERVE_DAEMON_DATASET_CHANGES_H
#define SERVE_DAEMON_DATASET_CHANGES_H

#include "base/size.h"
#include "base/str.h"
#include "dsl/dsl_write.h"
#include "serve/daemon/commands.h"

/* The pool of a name, held, and writable. */
int change_begin(struct control_request *rq, const char *name, struct pool **p, struct err *e);
/* Remembers the command when it went well (and was no dry run), and releases the pool. Returns err. */
int change_end(struct control_request *rq, const struct nvlist *args, struct pool *p, int err);
/* Names of a request: at least one, all in one pool. */
int change_names(const struct nvlist *args, const char *key, const char *const **names, size_t *n, struct err *e);
bool change_dataset_exists(struct pool *p, const char *name);
/* "a@s" for a and everything below it; `existing`: only those snapshots that are there. A name without "@": the data
 * sets themselves. */
int change_tree_names(struct pool *p, const char *name, bool existing, struct strings *names, struct err *e);

#endif
