/*
 * The commit of a group (docs/format/01-pool.md, 8.3): flush what was written, labels 0 and 2, the uberblock, labels 1
 * and 3, with a flush after each step. The devices are worked on side by side, each by one task. A crash between any
 * two steps leaves a pool whose best uberblock has labels that fit it.
 *
 * A step that fails is repeated together with all before it, once at once and then whenever the suspended pool is to be
 * tried again: nothing is ever half committed.
 */
#include <limits.h>
#include <time.h>

#include "base/os.h"
#include "spa/spa_write.h"

#define UBERBLOCK_TOPS 3 /* that get the uberblock when labels are not written */

/* What one leaf has to do in a step. */
struct leaf_job {
	struct task task;
	struct commit *c;
	struct vdev *leaf;
	const struct nvlist *label; /* common part of its top-level; NULL: no labels in this step */
	int err;
};

struct commit {
	struct spa *spa;
	struct uberblock ub;
	bool whole;     /* labels too, all top-levels */
	unsigned first; /* label of this step: 0 (and 2) or 1 (and 3) */
	struct leaf_job *job;
	unsigned njobs;
	struct nvlist **label; /* by top-level */
	pthread_mutex_t lock;  /* guards running */
	pthread_cond_t cond;
	unsigned running;
};

/* --- the uberblock --- */
static uint64_t random_below(uint64_t n)
{
	return n ? os_random64() % n : 0;
}

static void uberblock_fill(struct commit *c, uint64_t txg)
{
	struct spa *spa = c->spa;
	struct uberblock *ub = &c->ub;

	*ub = spa->uberblock;
	ub->version = spa->version;
	ub->txg = txg;
	ub->guid_sum = spa_guid_sum(spa->root);
	ub->timestamp = (uint64_t)time(NULL);
	ub->swapped = false;
	ub->software_version = SPA_VERSION;
	ub->checkpoint_txg = 0;
	memcpy(ub->rootbp, &spa->mos->rootbp, sizeof(ub->rootbp));
	spa_mmp_fill(spa, ub);
}

/* --- one leaf --- */
static int leaf_labels_write(const struct leaf_job *j)
{
	autonv struct nvlist *label = nvlist_copy(j->label);
	int err;

	spa_config_label_leaf(label, j->leaf);
	err = label_write_config(j->leaf->disk, j->c->first, label);
	return err ? err : label_write_config(j->leaf->disk, j->c->first + 2, label);
}

/* All four, whatever becomes of one: the more there are, the better; the leaf counts when one of each half is there. */
static int leaf_uberblocks_write(const struct leaf_job *j)
{
	int err, first = 0, good = 0;

	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		err = uberblock_write(j->leaf->disk, l, (unsigned)j->leaf->top->ashift, &j->c->ub, UINT_MAX);
		good += err == 0;
		first = first ? first : err;
	}
	return good ? 0 : first;
}

static void leaf_job_run(struct leaf_job *j)
{
	j->err = j->label ? leaf_labels_write(j) : leaf_uberblocks_write(j);
	if (!j->err)
		j->err = disk_flush(j->leaf->disk);
	if (j->err)
		counter_add(&j->leaf->stats.write_errors, 1);
}

static void leaf_job_task(struct task *t)
{
	struct leaf_job *j = container_of(t, struct leaf_job, task);
	struct commit *c = j->c;

	leaf_job_run(j);
	SCOPED_LOCK(&c->lock);
	if (--c->running == 0)
		pthread_cond_signal(&c->cond);
}

/* Every job once; the last one on this thread. */
static void jobs_run(struct commit *c)
{
	c->running = c->njobs ? c->njobs - 1 : 0;
	for (unsigned i = 0; i + 1 < c->njobs; i++) {
		c->job[i].task.run = leaf_job_task;
		taskq_dispatch(spa_writer(c->spa)->commit_tq, &c->job[i].task);
	}
	if (c->njobs)
		leaf_job_run(&c->job[c->njobs - 1]);
	pthread_mutex_lock(&c->lock);
	while (c->running)
		pthread_cond_wait(&c->cond, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

static void job_add(struct commit *c, struct vdev *vd, const struct nvlist *label)
{
	for (unsigned i = 0; i < vd->nchildren; i++)
		job_add(c, vd->child[i], label);
	if (!vdev_is_leaf(vd) || vd->kind == VDEV_DSPARE || !vd->disk || !vdev_is_writable(vd))
		return;
	c->job = xrealloc(c->job, (c->njobs + 1) * sizeof(*c->job));
	c->job[c->njobs++] = (struct leaf_job){.c = c, .leaf = vd, .label = label};
}

/* --- steps --- */
static bool top_succeeded(const struct commit *c, const struct vdev *top)
{
	for (unsigned i = 0; i < c->njobs; i++)
		if (c->job[i].leaf->top == top && c->job[i].err == 0)
			return true;
	return false;
}

/* Labels `first` and first + 2 of all leaves: one leaf of each top-level that is no log must have taken them. */
static int labels_step(struct commit *c, unsigned first)
{
	const struct vdev *root = c->spa->root;

	if (!c->whole)
		return 0;
	c->njobs = 0;
	c->first = first;
	for (unsigned i = 0; i < root->nchildren; i++)
		if (vdev_is_concrete(root->child[i]))
			job_add(c, root->child[i], c->label[i]);
	jobs_run(c);
	for (unsigned i = 0; i < root->nchildren; i++)
		if (vdev_is_concrete(root->child[i]) && !root->child[i]->is_log && !top_succeeded(c, root->child[i]))
			return -EIO;
	return 0;
}

static bool top_takes_uberblocks(const struct commit *c, const struct vdev *top)
{
	if (!vdev_is_concrete(top))
		return false;
	return c->whole || (!top->is_log && top->ms_array);
}

static int uberblock_step(struct commit *c)
{
	const struct vdev *root = c->spa->root;
	unsigned start = (unsigned)random_below(root->nchildren), tops = 0;

	c->njobs = 0;
	for (unsigned i = 0; i < root->nchildren && (c->whole || tops < UBERBLOCK_TOPS); i++) {
		struct vdev *top = root->child[(start + i) % root->nchildren];
		unsigned before = c->njobs;

		if (top_takes_uberblocks(c, top))
			job_add(c, top, NULL);
		tops += c->njobs > before;
	}
	jobs_run(c);
	for (unsigned i = 0; i < root->nchildren; i++)
		if (root->child[i]->ms_array && !root->child[i]->is_log && top_succeeded(c, root->child[i]))
			return 0;
	return -EIO;
}

static int steps_run(struct commit *c, uint64_t txg)
{
	int err;

	uberblock_fill(c, txg);
	err = vdev_flush_wait(c->spa->root);
	if (!err)
		err = labels_step(c, 0);
	if (!err)
		err = uberblock_step(c);
	return err ? err : labels_step(c, 1);
}

/* --- all of it --- */
static void commit_begin(struct commit *c, struct spa *spa, uint64_t txg)
{
	const struct vdev *root = spa->root;

	*c = (struct commit){.spa = spa, .whole = spa_writer(spa)->labels_due};
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->cond, NULL);
	if (!c->whole)
		return;
	c->label = xcalloc(root->nchildren + 1, sizeof(*c->label));
	for (unsigned i = 0; i < root->nchildren; i++)
		if (vdev_is_concrete(root->child[i]))
			c->label[i] = spa_config_label(spa, root->child[i], txg);
}

static void commit_end(struct commit *c)
{
	for (unsigned i = 0; c->label && i < c->spa->root->nchildren; i++)
		nvlist_destroy(c->label[i]);
	free(c->label);
	free(c->job);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->cond);
}

int spa_commit(struct spa *spa, uint64_t txg)
{
	struct commit c;
	int err;

	commit_begin(&c, spa, txg);
	err = steps_run(&c, txg);
	while (err) {
		err = steps_run(&c, txg);
		if (err && spa_suspend_wait(spa, "no device takes the group's uberblock"))
			break;
	}
	if (!err) {
		SCOPED_LOCK(&spa_priv(spa)->state_lock);
		spa->uberblock = c.ub;
	}
	commit_end(&c);
	return err;
}
