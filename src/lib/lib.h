/*
 * lib/lib.h: libtarn's inside: include/tarn/tarn.h over the engine. Nothing of storage lives here: handles that keep
 * what they stand on, errors and structs copied from the engine's to the public ones.
 *
 * A file system or volume holds its pool (spa_hold), a node holds nothing: the caller closes from the inside outwards.
 * No locks of its own.
 */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include "spa/spa.h"
#include "tarn/tarn.h"
#include "zpl/zpl.h"
#include "zvol/zvol.h"

struct tarn {
	struct arc *arc;
};

struct tarn_pool {
	struct tarn *tarn;
	struct spa *spa;
};

struct tarn_fs {
	struct tarn_pool *pool;
	struct zpl *zpl;
};

struct tarn_node {
	struct znode *zn;
};

struct tarn_volume {
	struct tarn_pool *pool;
	struct zvol *zv;
};

/* Hands an engine's error to the caller: text of `from` when it has one, else words for the code. Returns code. */
int lib_error(struct tarn_error *e, int code, const struct err *from, const char *what);
/* The data set held by name. */
int lib_dataset_hold(struct tarn_pool *p, const char *name, struct dsl_dataset **out, struct tarn_error *e);
/* Why a data set could not be opened: -EKEY becomes -ENOKEY when its key is only not loaded. */
int lib_open_error(struct dsl_dataset *ds, int code, const struct err *from, struct tarn_error *e);
/* Each property of an nvlist as spa_props_get and dsl_props_get give it. */
int lib_each_property(const struct nvlist *props, int (*each)(void *arg, const struct tarn_property *property),
		      void *arg);

#endif
