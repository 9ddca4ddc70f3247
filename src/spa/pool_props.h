/*
 * spa/pool_props.h: properties of a pool as people write them, checked, and stored (docs/format/01-pool.md, 6.5 and 7).
 * Private to spa/.
 */
#ifndef SPA_POOL_PROPS_H
#define SPA_POOL_PROPS_H

#include "spa/spa_impl.h"

enum spa_props_when { SPA_PROPS_CREATE, SPA_PROPS_IMPORT, SPA_PROPS_SET };

struct spa_pool_props {
	struct nvlist *stored;   /* for `pool_props`: u64s, or strings of user properties ("" removes) */
	struct nvlist *config;   /* comment, compatibility: strings ("" removes) */
	struct nvlist *enable;   /* short names of features: booleans */
	struct nvlist *disabled; /* when creating: short names */
	uint64_t version;        /* 0: not named */
	const char *cachefile, *altroot, *bootfs; /* NULL: not named; of the list that was parsed */
	bool readonly;
};

/* Errors are sentences as `zpool set` prints them. spa is NULL when creating. */
int spa_pool_props_parse(struct spa *spa, const struct nvlist *values, enum spa_props_when when,
			 struct spa_pool_props *out, struct err *e);
int spa_altroot_check(const char *path, struct err *e); /* NULL: none */
void spa_pool_props_free(struct spa_pool_props *p);
/* Syncing context. */
void spa_pool_props_sync(struct spa *spa, const struct spa_pool_props *p, struct tx *tx);
/* What acts in a running pool, from what is stored. */
void spa_pool_props_apply(struct spa *spa);

/* --- compatibility.c: which features a value of `compatibility` allows (6.5). -ENOENT: a file is missing; -EINVAL: it
 * is no such file, or one of /etc with a name that is no feature of ours. In others such names are passed over. */
struct spa_compatibility {
	bool all;
	bool *allowed; /* by spa_feature_table; NULL when `all` */
};
int spa_compatibility_load(const char *value, struct spa_compatibility *out, struct err *e);
bool spa_compatibility_allows(const struct spa_compatibility *c, const struct spa_feature *f);
void spa_compatibility_free(struct spa_compatibility *c);
/* What the pool's property allows. */
int spa_compatibility_of(const struct spa *spa, struct spa_compatibility *out, struct err *e);
/* How the pool's features keep to that; the weightiest holds. outside, unless NULL, takes the names of those enabled
 * beyond it. */
enum spa_compatibility_state {
	SPA_COMPATIBILITY_OK,
	SPA_COMPATIBILITY_OUTSIDE,  /* enabled, not allowed */
	SPA_COMPATIBILITY_DISABLED, /* allowed, not enabled */
	SPA_COMPATIBILITY_ERR,      /* a file cannot be used */
};
enum spa_compatibility_state spa_compatibility_state(const struct spa *spa, struct nvlist *outside);

#endif
