/*
 * Which states a pool can be opened at: the uberblocks of all rings, and the checkpoint's.
 */
#include "base/bytes.h"
#include "spa/spa_impl.h"

#define UBERBLOCKS_MAX 4096u

struct collector {
	struct spa_loader *ld;
	uint64_t leaf_guid;
	size_t room;
};

static void uberblock_add(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct collector *c = arg;
	struct spa_loader *ld = c->ld;

	for (size_t i = 0; i < ld->nub; i++)
		if (uberblock_compare(&ld->ub[i].ub, ub) == 0 &&
		    memcmp(ld->ub[i].ub.rootbp, ub->rootbp, sizeof(ub->rootbp)) == 0)
			return;
	if (ub->txg == 0 || ld->nub == UBERBLOCKS_MAX)
		return;
	if (ld->nub == c->room) {
		c->room = c->room ? 2 * c->room : 128;
		ld->ub = xrealloc(ld->ub, c->room * sizeof(*ld->ub));
	}
	ld->ub[ld->nub++] = (struct spa_uberblock){*ub, c->leaf_guid};
}

static int rings_read(struct collector *c, const struct vdev *vd)
{
	int err = 0;

	for (unsigned i = 0; i < vd->nchildren && !err; i++)
		err = rings_read(c, vd->child[i]);
	if (err || !vd->disk || vd->kind == VDEV_DSPARE)
		return err;
	err = spa_job_stage(c->ld->job, "reading uberblocks of %s", vd->path);
	c->leaf_guid = vd->guid;
	for (unsigned l = 0; l < VDEV_LABELS && !err; l++)
		uberblock_each(vd->disk, l, vd->ashift, uberblock_add, c);
	return err;
}

static int newest_first(const void *a, const void *b)
{
	return -uberblock_compare(&((const struct spa_uberblock *)a)->ub, &((const struct spa_uberblock *)b)->ub);
}

int spa_uberblocks_collect(struct spa_loader *ld, struct err *e)
{
	struct collector c = {.ld = ld};
	int err = rings_read(&c, ld->untrusted);

	if (err)
		return err_set(e, err, "interrupted");
	if (ld->nub == 0)
		return err_set(e, -ENXIO, "no valid uberblock on any device: the pool is damaged or not of this kind");
	qsort(ld->ub, ld->nub, sizeof(*ld->ub), newest_first);
	return 0;
}

int spa_checkpoint_read(struct objset *mos, struct uberblock *out)
{
	uint64_t w[CHECKPOINT_WORDS] = {0};
	int err = zap_lookup(mos, MOS_DIRECTORY, "com.delphix:zpool_checkpoint", 8, CHECKPOINT_WORDS, w);

	/* words in host order: an uberblock as this host would have written it */
	return err ? err : uberblock_decode((const uint8_t *)w, sizeof(w), out);
}
