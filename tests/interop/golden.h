/*
 * tests/interop/golden.h: pools that the real OpenZFS wrote, and what it says of them.
 *
 * $TARN_POOLS names the folder with one folder for each pool ($TARN_POOLS_DEFAULT, set by Meson, when it is not set).
 * golden_open unpacks the images into a temporary folder and imports the pool with all keys of the manifest loaded.
 * A name with a slash is the path of a pool's folder elsewhere.
 */
#ifndef TESTS_INTEROP_GOLDEN_H
#define TESTS_INTEROP_GOLDEN_H

#include <jansson.h>

#include "spa/spa.h"

#define GOLDEN_SKIP 77 /* Meson's exit status for a test that cannot be run here */

struct golden {
	const char *name; /* of the folder */
	json_t *manifest;
	char *source, *dir; /* the pool's folder; where the images are unpacked */
	struct arc *arc;
	struct spa *spa;
	unsigned differences, tolerated;
	bool tolerant; /* differences are counted as tolerated: what is compared is described after changes to it */
};

/* 0, GOLDEN_SKIP (after a word why), or 1 (after the reason). */
int golden_open(struct golden *g, const char *name);
void golden_close(struct golden *g);
/* The same in steps, for who changes the images in between: unpack into g->dir; import as args say (config and arc are
 * filled in; -ENOENT when the search does not find the pool), e says why not; load the manifest's keys; export. */
int golden_load(struct golden *g, const char *name);
int golden_try_import(struct golden *g, const struct spa_import *args, struct err *e);
bool golden_keys_load(struct golden *g);
int golden_export(struct golden *g, struct err *e);
/* Path of image `i` of the manifest. malloc'd; NULL when there is none. */
char *golden_image(const struct golden *g, size_t i);
/* Tell one difference; the first hundred are printed. */
void golden_differs(struct golden *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A string of the manifest as bytes: text, or {"b64": ...}. malloc'd, NUL-terminated; NULL when it is neither. */
char *golden_bytes(const json_t *j, size_t *len);
/* The pool was cut off, and is described as it was after an import for writing: logs replayed, removed files freed. */
bool golden_was_written(const struct golden *g);
uint64_t golden_u64(const json_t *object, const char *key);
const char *golden_text(const json_t *object, const char *key); /* "" when absent */
void golden_hex(const uint8_t *p, size_t n, char *out);         /* 2n + 1 bytes */

#endif
