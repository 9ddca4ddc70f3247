/*
 * Which states a pool can be opened at: the uberblocks of all rings, and the checkpoint's.
 */
#include "base/bytes.h"
#include "spa/spa_impl.h"

#define UBERBLOCKS_MAX 4096u

struct collector {
	struct spa_loader *ld;
	uint64_t leaf_guid;
	bool own; /* the ring's label says that it is the pool's */
	size_t room;
};

static void uberblock_add(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct collector *c = arg;
	struct spa_loader *ld = c->ld;

	for (size_t i = 0; i < ld->nub; i++)
		if (uberblock_compare(&ld->ub[i].ub, ub) == 0 &&
		    memcmp(ld->ub[i].ub.rootbp, ub->rootbp, sizeof(ub->rootbp)) == 0) {
			ld->ub[i].own |= c->own;
			return;
		}
	if (ub->txg == 0 || ld->nub == UBERBLOCKS_MAX)
		return;
	if (ld->nub == c->room) {
		c->room = c->room ? 2 * c->room : 128;
		ld->ub = xrealloc(ld->ub, c->room * sizeof(*ld->ub));
	}
	ld->ub[ld->nub++] = (struct spa_uberblock){*ub, c->leaf_guid, c->own};
}

bool spa_label_is_foreign(const struct nvlist *label, const struct nvlist *pool, const struct vdev *leaf)
{
	uint64_t guid;

	return nvlist_u64_or(label, "pool_guid", 0) != nvlist_u64_or(pool, "pool_guid", 0) ||
	       (nvlist_u64(label, "guid", &guid) == 0 && guid != leaf->guid);
}

/* A ring under a label that another pool left behind is that pool's. */
static void leaf_rings_read(struct collector *c, const struct vdev *leaf)
{
	struct label label[VDEV_LABELS];

	if (label_read_all(leaf->disk, label))
		return;
	c->leaf_guid = leaf->guid;
	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		if (label[l].config && spa_label_is_foreign(label[l].config, c->ld->args->config, leaf))
			continue;
		c->own = label[l].config != NULL;
		uberblock_each(leaf->disk, l, leaf->ashift, uberblock_add, c);
	}
	label_free_all(label);
}

static int rings_read(struct collector *c, const struct vdev *vd)
{
	int err = 0;

	for (unsigned i = 0; i < vd->nchildren && !err; i++)
		err = rings_read(c, vd->child[i]);
	if (err || !vd->disk || vd->kind == VDEV_DSPARE)
		return err;
	err = spa_job_stage(c->ld->job, "reading uberblocks of %s", vd->path);
	if (!err)
		leaf_rings_read(c, vd);
	return err;
}

/* Uberblocks under labels that cannot be read count when their devices are those of uberblocks known to be the pool's;
 * when there are none of these, all count. */
static void strangers_drop(struct spa_loader *ld)
{
	size_t own = 0, kept = 0;

	for (size_t i = 0; i < ld->nub; i++)
		own += ld->ub[i].own;
	for (size_t i = 0; own && i < ld->nub; i++)
		for (size_t k = 0; k < ld->nub; k++)
			if (ld->ub[k].own && ld->ub[k].ub.guid_sum == ld->ub[i].ub.guid_sum) {
				ld->ub[i].known = true;
				break;
			}
	for (size_t i = 0; own && i < ld->nub; i++)
		if (ld->ub[i].known)
			ld->ub[kept++] = ld->ub[i];
	if (own)
		ld->nub = kept;
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
	strangers_drop(ld);
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
