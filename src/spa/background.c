/*
 * What goes on in a pool that is open for writing beside its groups.
 */
#include "spa/spa_write.h"

void spa_background_start(struct spa *spa)
{
	spa_mmp_update(spa, true);
	spa_works_start(spa);
}

void spa_background_stop(struct spa *spa)
{
	spa_works_stop(spa);
	spa_mmp_update(spa, false);
}

/* --- zpool wait --- */
static bool free_is_busy(struct spa *spa, uint64_t *left)
{
	struct dsl_dir *d;

	*left = 0;
	if (spa->dsl->free_dir && dsl_dir_hold(spa->dsl, spa->dsl->free_dir, &d, NULL) == 0) {
		*left = d->used;
		dsl_dir_release(d);
	}
	return *left > 0;
}

static bool discard_is_busy(struct spa *spa, uint64_t *left)
{
	autofree struct spa_top_space *space = NULL;
	bool busy = spa_feature_is_active(spa, "com.delphix:zpool_checkpoint") && !spa_has_checkpoint(spa);

	*left = 0;
	if (!busy)
		return false;
	space = spa_space(spa);
	for (unsigned i = 0; i < spa->root->nchildren; i++)
		*left += space[i].checkpoint;
	return true;
}

static bool trim_is_busy(struct spa *spa, uint64_t *left)
{
	return spa_writer(spa) && spa_works_are_running(spa, SPA_TRIM, left);
}

static bool initialize_is_busy(struct spa *spa, uint64_t *left)
{
	return spa_writer(spa) && spa_works_are_running(spa, SPA_INITIALIZE, left);
}

/* What this software does not do never goes on: pools in which it does are opened read-only. */
static bool never_is_busy(struct spa *spa, uint64_t *left)
{
	return false;
}

int spa_is_busy_with(struct spa *spa, const char *activity, bool *busy, uint64_t *left)
{
	static const struct {
		const char *word;
		bool (*is_busy)(struct spa *spa, uint64_t *left);
	} activities[] = {
	    {"discard", discard_is_busy}, {"free", free_is_busy},     {"initialize", initialize_is_busy},
	    {"trim", trim_is_busy},       {"replace", never_is_busy}, {"remove", never_is_busy},
	    {"resilver", never_is_busy},  {"scrub", never_is_busy},   {"raidz_expand", never_is_busy},
	    {"condense", never_is_busy},
	};
	uint64_t bytes = 0;

	for (size_t i = 0; i < ARRAY_LEN(activities); i++) {
		if (strcmp(activities[i].word, activity) != 0)
			continue;
		dsl_config_enter(spa->dsl);
		*busy = activities[i].is_busy(spa, &bytes);
		dsl_config_exit(spa->dsl);
		if (left)
			*left = bytes;
		return 0;
	}
	return -EINVAL;
}
