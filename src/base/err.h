/*
 * base/err.h: an error a person will read. A function that can fail for a reason worth telling takes
 * `struct err *e` as its last parameter (may be NULL), sets it and returns the same negative errno.
 *
 * The text reads from the outside in: callers put their own words before what the callee said:
 *     cannot import 'tank': /dev/sdb: label 0: checksum mismatch
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/base.h"

struct err {
	int code;        /* negative errno, 0 when nothing was set */
	char text[1024]; /* one sentence without newline; hints may follow on further lines */
};

#define ERR_INIT                                                                                                       \
	{                                                                                                              \
		0, ""                                                                                                  \
	}

/* Set text and code; returns code, so that `return err_set(e, -EINVAL, "...")` reads well. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Put "words: " before the present text; returns e->code (or `code` when e is NULL). */
int err_prefix(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Append a line with a hint on what to do next. */
void err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Words for a code in ZFS's terms (ECKSUM: "checksum mismatch", ...). Static storage. */
const char *err_words(int code);

#endif
