/*
 * dsl/dsl_prop_set.h: what the files that set properties share: rules (dsl_prop_rules.c), storing (dsl_prop_sync.c),
 * tasks (dsl_prop_set.c).
 */
#ifndef DSL_DSL_PROP_SET_H
#define DSL_DSL_PROP_SET_H

#include "dsl/dsl_live.h"

/* --- rules --- */

struct prop_rules {
	struct dsl_pool *p; /* NULL: a pool that is about to be made, with all features */
	unsigned type;      /* DSL_* of the data set; DSL_SNAPSHOT alone or with the head's for snapshots */
	bool creating;
	struct dsl_dataset *ds;         /* NULL when it is about to be made */
	uint64_t volsize, volblocksize; /* of an existing volume */
	struct nvlist *stored;          /* what comes out, under full names */
};
bool prop_name_is_user(const char *name);
/* Checks one value, or all of them, and stores them. */
int prop_check(struct prop_rules *r, const char *name, const char *text, struct err *e);
int props_check(struct prop_rules *r, const struct nvlist *values, struct err *e);
int prop_number_parse(const char *text, uint64_t *v, struct err *e);
/* Newest version of file systems that the pool takes; NULL: a new pool. */
unsigned dsl_zpl_pool_version(unsigned zpl); /* of the pool that a file system's version needs */
unsigned dsl_zpl_version_max(const struct dsl_pool *p);

/* --- what lives in a data set's objects; waits for groups --- */

/* VERSION of a file system's master node. */
int dsl_zpl_version(struct dsl_dataset *ds, uint64_t *v);
int dsl_volume_sizes(struct dsl_dataset *ds, uint64_t *volsize, uint64_t *volblocksize);
/* An entry of the master node; 0 removes it. */
int dsl_master_set(struct dsl_dataset *ds, const char *name, uint64_t v, struct err *e);
int dsl_user_quota_set(struct dsl_dataset *ds, const char *name, uint64_t v, struct err *e);

/* --- storing --- */

/* A value as it is stored. */
struct prop_set_value {
	const char *string; /* NULL: a number */
	uint64_t number;
};

/* 5.3: set here; inherit from above; back to the received value. */
enum prop_set_source { PROP_SET_LOCAL, PROP_SET_INHERIT, PROP_SET_RECEIVED };

/* Among the properties of the data set's dir, or of the snapshot; or by its objects. */
bool prop_is_stored(const char *name);
/* `v` counts for PROP_SET_LOCAL only. Syncing context. */
void prop_store(struct dsl_dataset *ds, const char *name, enum prop_set_source source, const struct prop_set_value *v,
		struct tx *tx);

/* Properties that count for space: each is checked and applied by itself (5.5). */
struct prop_special {
	const char *name;
	bool in_dir; /* a field of the dir, in old pools only that */
	int (*check)(struct dsl_dataset *ds, uint64_t v, struct tx *tx, struct err *e);
	void (*apply)(struct dsl_dataset *ds, uint64_t v, struct tx *tx);
};
const struct prop_special *prop_special_find(const char *name);
void prop_special_store(struct dsl_dataset *ds, const struct prop_special *s, enum prop_set_source source,
			const struct prop_set_value *v, struct tx *tx);

#endif
