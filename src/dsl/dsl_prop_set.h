/*
 * dsl/dsl_prop_set.h: what the files that set properties share: rules (dsl_prop_rules.c), storing (dsl_prop_sync.c),
 * tasks (dsl_prop_set.c).
 */
#ifndef DSL_DSL_PROP_SET_H
#define DSL_DSL_PROP_SET_H

#include "dsl/dsl_live.h"

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
