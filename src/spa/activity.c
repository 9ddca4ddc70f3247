/*
 * Is the pool in use elsewhere? Host ids, and the activity test of multihost pools (docs/format/01-pool.md, section
 * 10). Reading a pool that another host writes shows nonsense, so the test is made for read-only imports too.
 */
#include <time.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/os.h"
#include "spa/search.h"
#include "spa/spa_write.h"

#define MMP_WAIT_MAX_MS (30 * 60 * 1000) /* what a damaged uberblock may ask for at most */

static uint64_t wait_ms(const struct uberblock *ub)
{
	bool valid = (ub->mmp_config & 5) == 5;
	uint64_t interval = bits64(ub->mmp_config, 8, 24), fails = bits64(ub->mmp_config, 48, 16);
	uint64_t ours = tunable_get(&tunable_multihost_interval),
		 times = tunable_get(&tunable_multihost_import_intervals), delay_ms = ub->mmp_delay / 1000000,
		 least = times * ours, ms;

	if (valid && fails > 0)
		ms = fails * interval * 2;
	else if (valid)
		ms = MAX(least, (interval + delay_ms) * times);
	else
		ms = MAX(least, (ours + delay_ms) * times);
	ms = MAX(ms, 1000);
	ms += ms * (now_ns() % 26) / 100;
	return MIN(ms, MMP_WAIT_MAX_MS);
}

bool spa_activity_check_is_needed(const struct nvlist *config, const struct uberblock *ub)
{
	uint64_t state = nvlist_u64_or(config, "state", POOL_STATE_ACTIVE), host = nvlist_u64_or(config, "hostid", 0);

	if (ub->mmp_magic == 0 || ub->mmp_delay == 0 || state == POOL_STATE_DESTROYED)
		return false;
	return !(state == POOL_STATE_EXPORTED && host != 0 && host == os_hostid());
}

static int best_again(struct spa_loader *ld, struct uberblock *out, struct err *e)
{
	struct spa_loader again = {.spa = ld->spa, .args = ld->args, .job = ld->job, .untrusted = ld->untrusted};
	int err = spa_uberblocks_collect(&again, e);

	if (!err)
		*out = again.ub[0].ub;
	free(again.ub);
	return err;
}

int spa_activity_check(struct spa_loader *ld, const struct spa_uberblock *best, struct err *e)
{
	const char *host = nvlist_string_or(ld->args->config, "hostname", "another host");
	uint64_t end;
	int err;

	if (!spa_activity_check_is_needed(ld->args->config, &best->ub))
		return 0;
	if (os_hostid() == 0)
		return err_set(
		    e, -EREMOTEIO,
		    "the pool has multihost on: whether '%s' uses it can be told only with a host id; set one in "
		    "/etc/hostid",
		    host);
	end = now_ns() + wait_ms(&best->ub) * UINT64_C(1000000);
	while (now_ns() < end) {
		struct uberblock ub;

		err = spa_job_stage(ld->job, "waiting %" PRIu64 " s more to see whether '%s' uses the pool",
				    (end - now_ns()) / UINT64_C(1000000000) + 1, host);
		if (err)
			return err_set(e, err, "interrupted");
		usleep(1000 * 1000);
		err = best_again(ld, &ub, e);
		if (err)
			return err;
		if (uberblock_compare(&ub, &best->ub) != 0)
			return err_set(e, -EREMOTEIO, "the pool is in use by '%s' (hostid %" PRIx64 ") right now", host,
				       nvlist_u64_or(ld->args->config, "hostid", 0));
	}
	return 0;
}

int spa_host_check(struct spa_loader *ld, const struct nvlist *config, struct err *e)
{
	uint64_t state = nvlist_u64_or(config, "state", POOL_STATE_ACTIVE), host = nvlist_u64_or(config, "hostid", 0);
	time_t t = (time_t)ld->ub[0].ub.timestamp;
	char date[64] = "";
	struct tm tm;

	if (ld->args->trial || host == 0 || host == os_hostid() || state == POOL_STATE_EXPORTED ||
	    state == POOL_STATE_DESTROYED)
		return 0;
	if (ld->args->force) {
		spa_note(ld->spa,
			 "was last used by '%s' (hostid %" PRIx64 ") and not exported there; imported by force",
			 nvlist_string_or(config, "hostname", "?"), host);
		return 0;
	}
	if (localtime_r(&t, &tm))
		strftime(date, sizeof(date), "%a %b %e %H:%M:%S %Y", &tm);
	err_set(e, -EBUSY,
		"the pool was last used by another system: '%s' (hostid %" PRIx64 ") at %s, and not exported",
		nvlist_string_or(config, "hostname", "?"), host, date);
	err_hint(e, "Make sure that it is not in use there, then import it with -f.");
	return -EBUSY;
}
