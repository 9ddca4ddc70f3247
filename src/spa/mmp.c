/*
 * Multihost protection of a pool that is written (docs/format/01-pool.md, 10.3 and 10.4): the words of commits, the
 * thread that says between commits that the pool is in use, and the claim before the first write.
 */
#include <limits.h>
#include <time.h>

#include "base/counter.h"
#include "base/log.h"
#include "base/os.h"
#include "spa/spa_write.h"

#define NS_PER_MS    UINT64_C(1000000)
#define CLAIM_ROUNDS 10
#define SEQUENCE_MAX 65535u

TUNABLE(tunable_multihost_interval, "zfs_multihost_interval", "ms", 1000, 100, 60000,
	"a pool with multihost=on is marked as used so often");
TUNABLE(tunable_multihost_fail_intervals, "zfs_multihost_fail_intervals", "intervals", 10, 0, 1000,
	"such a pool is suspended when no mark was written for so long; 0: never");
TUNABLE(tunable_multihost_import_intervals, "zfs_multihost_import_intervals", "intervals", 20, 1, 1000,
	"such a pool is watched for so long before it is imported");

struct spa_mmp {
	struct spa *spa;
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows; a leaf */
	pthread_cond_t cond;
	bool stop;
	uint64_t delay_ns, last_ns; /* decaying average between marks; of the last mark or commit */
	uint64_t second;            /* in which `sequence` counts */
	unsigned sequence, next_leaf;
};

static uint64_t config_word(unsigned sequence)
{
	uint64_t fails = tunable_get(&tunable_multihost_fail_intervals);

	return 7 | tunable_get(&tunable_multihost_interval) << 8 | (uint64_t)sequence << 32 | fails << 48;
}

/* 10.3: grows at once, shrinks slowly. */
static void delay_update_locked(struct spa_mmp *m, uint64_t leaves, uint64_t now)
{
	uint64_t d = now - m->last_ns,
		 least = tunable_get(&tunable_multihost_interval) * NS_PER_MS / MAX(leaves, UINT64_C(1));

	m->delay_ns = d > m->delay_ns ? d : MAX((d + 127 * m->delay_ns) / 128, least);
	m->last_ns = now;
}

void spa_mmp_fill(struct spa *spa, struct uberblock *ub)
{
	struct spa_writer *w = spa_writer(spa);
	struct spa_mmp *m = w->mmp;
	uint64_t interval_ns = tunable_get(&tunable_multihost_interval) * NS_PER_MS;

	ub->mmp_magic = UBERBLOCK_MMP_MAGIC;
	ub->mmp_delay = ub->mmp_config = 0;
	if (!atomic_load(&w->multihost))
		return;
	ub->mmp_delay = interval_ns;
	ub->mmp_config = config_word(0);
	if (!m)
		return;
	SCOPED_LOCK(&m->lock);
	ub->mmp_delay = MAX(m->delay_ns, UINT64_C(1));
	m->sequence = 0;
}

/* --- leaves --- */
static bool takes_marks(const struct vdev *vd)
{
	return vdev_is_leaf(vd) && vd->kind != VDEV_DSPARE && vd->disk && vdev_is_writable(vd);
}

/* Counts; the one of number `wanted` into *out. */
static unsigned leaves_walk(struct vdev *vd, unsigned n, unsigned wanted, struct vdev **out)
{
	if (takes_marks(vd)) {
		if (n == wanted)
			*out = vd;
		return n + 1;
	}
	for (unsigned i = 0; i < vd->nchildren; i++)
		if (vd->parent || vdev_is_concrete(vd->child[i]))
			n = leaves_walk(vd->child[i], n, wanted, out);
	return n;
}

/* --- the thread --- */
static void mark_fill(struct spa_mmp *m, struct uberblock *ub)
{
	struct spa *spa = m->spa;

	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	*ub = spa->uberblock;
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	ub->timestamp = (uint64_t)time(NULL);
	SCOPED_LOCK(&m->lock);
	if (ub->timestamp != m->second)
		m->sequence = 0;
	m->second = ub->timestamp;
	m->sequence = MIN(m->sequence + 1, SEQUENCE_MAX);
	ub->mmp_delay = MAX(m->delay_ns, UINT64_C(1));
	ub->mmp_config = config_word(m->sequence);
}

static unsigned mark_write(struct spa_mmp *m)
{
	struct spa *spa = m->spa;
	struct vdev *leaf = NULL;
	struct uberblock ub;
	unsigned n;
	int err;

	dsl_config_enter(spa->dsl);
	n = leaves_walk(spa->root, 0, UINT_MAX, &leaf);
	if (n)
		leaves_walk(spa->root, 0, m->next_leaf++ % n, &leaf);
	if (leaf) {
		mark_fill(m, &ub);
		err = uberblock_write(leaf->disk, (unsigned)(os_random64() % VDEV_LABELS), (unsigned)leaf->top->ashift,
				      &ub, 0);
		SCOPED_LOCK(&m->lock);
		if (!err)
			delay_update_locked(m, n, now_ns());
	}
	dsl_config_exit(spa->dsl);
	return n;
}

static void silence_check(struct spa_mmp *m)
{
	uint64_t fails = tunable_get(&tunable_multihost_fail_intervals), silent;

	pthread_mutex_lock(&m->lock);
	silent = now_ns() - m->last_ns;
	pthread_mutex_unlock(&m->lock);
	if (fails && silent > fails * tunable_get(&tunable_multihost_interval) * NS_PER_MS)
		spa_suspend(m->spa, "no device took a multihost mark in time: another host may take the pool", true);
}

static void *mmp_run(void *arg)
{
	struct spa_mmp *m = arg;
	unsigned leaves = 1;

	pthread_mutex_lock(&m->lock);
	while (!m->stop) {
		uint64_t wait_ns = tunable_get(&tunable_multihost_interval) * NS_PER_MS / MAX(leaves, 1u);
		uint64_t until = now_ns() + wait_ns;
		struct timespec ts = {(time_t)(until / 1000000000), (long)(until % 1000000000)};

		while (!m->stop && now_ns() < until)
			pthread_cond_timedwait(&m->cond, &m->lock, &ts);
		if (m->stop)
			break;
		pthread_mutex_unlock(&m->lock);
		leaves = mark_write(m);
		silence_check(m);
		pthread_mutex_lock(&m->lock);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

static struct spa_mmp *mmp_start(struct spa *spa)
{
	struct spa_mmp *m = xcalloc(1, sizeof(*m));
	pthread_condattr_t attr;

	m->spa = spa;
	m->last_ns = now_ns();
	m->delay_ns = tunable_get(&tunable_multihost_interval) * NS_PER_MS;
	pthread_mutex_init(&m->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->cond, &attr);
	pthread_condattr_destroy(&attr);
	if (os_thread_create(&m->thread, mmp_run, m) == 0)
		return m;
	log_error("pool '%s': no thread for multihost", spa->name);
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->cond);
	free(m);
	return NULL;
}

static void mmp_stop(struct spa_mmp *m)
{
	pthread_mutex_lock(&m->lock);
	m->stop = true;
	pthread_cond_signal(&m->cond);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->cond);
	free(m);
}

void spa_mmp_update(struct spa *spa, bool run)
{
	struct spa_writer *w = spa_writer(spa);
	struct spa_mmp *m;
	SCOPED_LOCK(&w->mmp_lock);

	m = w->mmp;

	run = run && atomic_load(&w->multihost);
	if (run == (m != NULL))
		return;
	if (run) {
		w->mmp = mmp_start(spa);
		return;
	}
	/* The sync thread looks at it, but only while multihost is on, or within a group. */
	txg_wait_synced(w->txgs, 0);
	w->mmp = NULL;
	mmp_stop(m);
}

/* --- after a suspension --- */
struct newest {
	struct uberblock ub;
	bool any;
};

static void newest_note(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct newest *n = arg;

	if (!n->any || uberblock_compare(ub, &n->ub) > 0)
		n->ub = *ub;
	n->any = true;
}

static void rings_look(struct vdev *vd, struct newest *n)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		rings_look(vd->child[i], n);
	for (unsigned l = 0; takes_marks(vd) && l < VDEV_LABELS; l++)
		uberblock_each(vd->disk, l, (unsigned)vd->top->ashift, newest_note, n);
}

/* Nobody else has written an uberblock since. */
bool spa_mmp_is_ours(struct spa *spa)
{
	struct spa_mmp *m = spa_writer(spa)->mmp;
	struct newest n = {.any = false};
	uint64_t latest;

	dsl_config_enter(spa->dsl);
	rings_look(spa->root, &n);
	dsl_config_exit(spa->dsl);
	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	latest = spa->uberblock.timestamp;
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	if (m) {
		SCOPED_LOCK(&m->lock);
		latest = MAX(latest, m->second);
		m->last_ns = now_ns(); /* the silence begins anew */
	}
	return n.any && n.ub.txg == spa->uberblock.txg && n.ub.timestamp <= latest;
}

/* --- the claim --- */
static int claim_write_leaf(struct vdev *vd, const struct uberblock *ub, unsigned *written)
{
	int err = 0;

	for (unsigned i = 0; i < vd->nchildren && !err; i++)
		err = claim_write_leaf(vd->child[i], ub, written);
	if (err || !takes_marks(vd) || vd->top->is_log)
		return err;
	err = uberblock_write(vd->disk, 0, (unsigned)vd->top->ashift, ub, 0);
	if (!err)
		err = disk_flush(vd->disk);
	*written += !err;
	return err;
}

static int claim_write(struct spa *spa, const struct uberblock *ub, struct err *e)
{
	unsigned written = 0;
	int err = claim_write_leaf(spa->root, ub, &written);

	if (err)
		return err_set(e, -EIO, "a multihost mark cannot be written: %s", err_words(err));
	return written ? 0 : err_set(e, -ENODEV, "no device takes a multihost mark");
}

static int best_compare(struct spa_loader *ld, const struct uberblock *ub, struct err *e)
{
	struct spa_loader again = {.spa = ld->spa, .args = ld->args, .job = ld->job, .untrusted = ld->untrusted};
	int err = spa_uberblocks_collect(&again, e);

	if (!err && uberblock_compare(&again.ub[0].ub, ub) != 0)
		err = err_set(e, -EREMOTEIO, "another host uses the pool right now");
	free(again.ub);
	return err;
}

static int claim_rounds(struct spa_loader *ld, struct uberblock *ub, struct err *e)
{
	uint64_t interval = bits64(ub->mmp_config, 8, 24);
	unsigned sequence = uberblock_mmp_sequence(ub);
	int err = 0;

	for (unsigned i = 0; i < CLAIM_ROUNDS && !err; i++) {
		struct timespec wait = {(time_t)(interval / 1000), (long)(interval % 1000 * NS_PER_MS)};

		sequence = sequence >= SEQUENCE_MAX
			       ? 1
			       : sequence + 1 + (unsigned)(os_random64() % (SEQUENCE_MAX - sequence));
		ub->mmp_config = (ub->mmp_config & ~(UINT64_C(0xffff) << 32)) | (uint64_t)sequence << 32;
		err = spa_job_stage(ld->job, "claiming the pool for this host, step %u of %d", i + 1, CLAIM_ROUNDS);
		if (err)
			return err_set(e, err, "interrupted");
		err = claim_write(ld->spa, ub, e);
		if (!err)
			nanosleep(&wait, NULL);
		if (!err)
			err = best_compare(ld, ub, e);
	}
	return err;
}

int spa_mmp_claim(struct spa_loader *ld, struct err *e)
{
	struct uberblock ub = ld->ub[0].ub, mine = ub;
	int err;

	if (!spa_activity_check_is_needed(ld->args->config, &ub) || (ub.mmp_config & 7) != 7)
		return 0;
	err = best_compare(ld, &ub, e);
	if (!err)
		err = claim_rounds(ld, &mine, e);
	if (!err)
		err = claim_write(ld->spa, &ub, e);
	return err;
}
