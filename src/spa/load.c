/*
 * From labels to a pool: the untrusted tree, the best uberblock, and what it leads to; with older uberblocks where the
 * newest does not do or another one is asked for (docs/format/01-pool.md, 3.4 and 4.8).
 */
#include <time.h>

#include "spa/spa_write.h"

/* How far one goes back without "extreme": blocks of these txgs were not reused yet (8.4), nor were those of the state
 * just before the newest, however far back it is: between the two nothing was committed. */
#define REWIND_TXGS 2

/* --- the untrusted tree --- */
static bool opener_stop(void *arg, const char *stage)
{
	struct spa_loader *ld = arg;

	return spa_job_stage(ld->job, "%s", stage) != 0;
}

void spa_tree_open(struct spa_loader *ld, struct vdev *root)
{
	struct spa_opener opener = {.devices = spa_priv(ld->spa)->devices,
				    .pool_guid = ld->spa->guid,
				    .flags = ld->args->writable && root != ld->untrusted ? DISK_RDWR : DISK_RDONLY,
				    .stop = opener_stop,
				    .stop_arg = ld};

	vdev_tree_open(root, spa_leaf_open, &opener);
	if (opener.failure[0])
		spa_note(ld->spa, "%s", opener.failure);
}

static unsigned leaves_open(const struct vdev *vd)
{
	unsigned n = vd->disk != NULL;

	for (unsigned i = 0; i < vd->nchildren; i++)
		n += leaves_open(vd->child[i]);
	return n;
}

static int untrusted_open(struct spa_loader *ld, struct err *e)
{
	struct nvlist *tree, *devices;
	int err;

	if (nvlist_list(ld->args->config, "vdev_tree", &tree) || nvlist_list(ld->args->config, "devices", &devices))
		return err_set(e, -EINVAL, "the configuration has no device tree");
	spa_priv(ld->spa)->devices = nvlist_copy(devices);
	err = vdev_tree_create(tree, &ld->untrusted, e);
	if (err)
		return err_prefix(e, err, "labels");
	spa_tree_open(ld, ld->untrusted);
	err = spa_job_stage(ld->job, "looking for the newest uberblock");
	if (err)
		return err_set(e, err, "interrupted");
	if (leaves_open(ld->untrusted) == 0) {
		struct str missing = {0};

		spa_missing_list(ld->untrusted, &missing);
		err_set(e, -ENXIO, "none of its devices can be opened: %s", str_get(&missing));
		str_free(&missing);
		return -ENXIO;
	}
	return 0;
}

/* --- the label that goes with an uberblock (3.4) --- */
static void label_choose(struct spa_loader *ld, const struct spa_uberblock *from)
{
	const struct vdev *leaf = vdev_by_guid(ld->untrusted, from->leaf_guid);
	struct label label[VDEV_LABELS];
	const struct label *best = NULL;

	nvlist_destroy(ld->spa->label);
	ld->spa->label = NULL;
	if (!leaf || !leaf->disk || label_read_all(leaf->disk, label))
		return;
	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		if (!label[l].config || label[l].err || label[l].txg > from->ub.txg ||
		    spa_label_is_foreign(label[l].config, ld->args->config, leaf))
			continue;
		if (!best || label[l].txg > best->txg)
			best = &label[l];
	}
	if (best)
		ld->spa->label = nvlist_copy(best->config);
	label_free_all(label);
}

static int version_check(const struct uberblock *ub, struct err *e)
{
	if ((ub->version >= 1 && ub->version <= 28) || ub->version == SPA_VERSION)
		return 0;
	return err_set(e, -ENOTSUP, "the pool has version %" PRIu64 ", newer than this software (1 to 28, 5000)",
		       ub->version);
}

static int label_features_check(struct spa_loader *ld, struct err *e)
{
	struct nvlist *features;
	const char *unknown;

	if (ld->spa->version < SPA_VERSION || !ld->spa->label)
		return 0;
	if (nvlist_list(ld->spa->label, "features_for_read", &features))
		return err_set(e, -ENXIO, "the label does not say which features are needed to read the pool");
	unknown = spa_features_unknown_in(features);
	return unknown ? err_set(e, -ENOTSUP, "the pool uses the feature %s, which is not supported", unknown) : 0;
}

/* --- one uberblock --- */
static void pool_on_error(struct zio_pool *zp, const struct bp *bp, const struct zbookmark *zb, int err)
{
	struct spa *spa = zp->on_error_arg;
	SCOPED_LOCK(&spa->error_lock);

	for (size_t i = spa->nerrors; i > 0; i--)
		if (memcmp(&spa->errors[i - 1].zb, zb, sizeof(*zb)) == 0)
			return;
	if (spa->nerrors == SPA_ERRORS_MAX)
		return;
	if (spa->nerrors % 64 == 0)
		spa->errors = xrealloc(spa->errors, (spa->nerrors + 64) * sizeof(*spa->errors));
	spa->errors[spa->nerrors++] = (struct spa_error){*zb, bp_physical_birth(bp)};
}

static int mos_open(struct spa_loader *ld, const struct uberblock *ub, struct err *e)
{
	struct spa *spa = ld->spa;
	struct bp bp;
	int err;

	spa->zp.guid = spa->guid;
	spa->zp.root = ld->untrusted;
	spa->zp.max_txg = ub->txg;
	spa->zp.on_error_arg = spa;
	spa->dp = (struct dmu_pool){ld->args->arc, &spa->zp};
	bp_decode(&bp, ub->rootbp, ub->swapped);
	err = bp_check(&bp);
	if (err)
		return err_set(e, err, "the root block pointer of txg %" PRIu64 " is damaged", ub->txg);
	err = objset_open(&spa->dp, 0, &bp, NULL, &spa->mos, e);
	if (err)
		return err_prefix(e, err, "the root of txg %" PRIu64 " cannot be read", ub->txg);
	if (spa->mos->type != OBJSET_META)
		return err_set(e, -EINVAL, "the root of txg %" PRIu64 " is no meta object set", ub->txg);
	return 0;
}

static int load_from_checked(struct spa_loader *ld, const struct spa_uberblock *from, struct err *e)
{
	struct spa *spa = ld->spa;
	int err = spa_job_stage(ld->job, "reading the state of txg %" PRIu64, from->ub.txg);

	if (err)
		return err_set(e, err, "interrupted");
	ld->retry = false;
	spa->uberblock = from->ub;
	spa->version = from->ub.version;
	spa->import_txg = from->ub.txg;
	err = version_check(&from->ub, e);
	if (err)
		return err;
	if (from->ub.raidz_reflow_info != ld->ub[0].ub.raidz_reflow_info)
		return err_set(e, -ENXIO,
			       "a RAIDZ expansion has gone on since txg %" PRIu64 ": it cannot be read any more",
			       from->ub.txg);
	if (from->leaf_guid)
		label_choose(ld, from);
	err = label_features_check(ld, e);
	if (err)
		return err;
	ld->retry = true;
	vdev_raidz_set_reflow(ld->untrusted, from->ub.raidz_reflow_info);
	err = mos_open(ld, &from->ub, e);
	if (!err)
		err = spa_trusted_load(ld, e);
	ld->retry = ld->retry && (err || ld->args->rewind || ld->args->extreme); /* from here on only when asked for */
	if (!err)
		err = spa_trusted_extras(ld, e);
	if (!err) /* what was unreadable on the way is known by now; from here on it counts */
		spa->zp.on_error = pool_on_error;
	return err;
}

int spa_load_from(struct spa_loader *ld, const struct spa_uberblock *from, struct err *e)
{
	int err = load_from_checked(ld, from, e);

	if (err)
		spa_unload(ld->spa);
	return err;
}

void spa_unload(struct spa *spa)
{
	struct spa_priv *pr = spa_priv(spa);

	spa->zp.on_error = NULL;
	spa_writer_stop(spa);
	if (spa->dsl)
		dsl_pool_close(spa->dsl);
	if (spa->mos)
		objset_release(spa->mos);
	if (spa->dp.arc)
		arc_flush_pool(spa->dp.arc, spa->zp.guid);
	spa_writer_destroy(spa);
	vdev_tree_destroy(spa->root);
	if (pr->salt)
		checksum_salt_destroy(pr->salt);
	if (pr->active)
		strmap_destroy(pr->active);
	nvlist_destroy(spa->config);
	nvlist_destroy(pr->spares);
	nvlist_destroy(pr->l2cache);
	nvlist_destroy(pr->read_features);
	nvlist_destroy(pr->write_features);
	free(pr->space);
	spa->dsl = NULL;
	spa->mos = NULL;
	spa->root = NULL;
	spa->config = NULL;
	spa->zp.salt = NULL;
	spa->zp.root = NULL;
	pr->salt = NULL;
	pr->active = NULL;
	pr->spares = pr->l2cache = pr->read_features = pr->write_features = NULL;
	pr->space = NULL;
	pr->space_loaded = false;
}

/* --- which uberblock --- */
static void rewound_note(struct spa_loader *ld, const struct spa_uberblock *from, const char *why)
{
	uint64_t newest = ld->ub[0].ub.timestamp,
		 seconds = newest > from->ub.timestamp ? newest - from->ub.timestamp : 0;

	nvlist_add_u64(ld->spa->load_info, "rewound_seconds", seconds);
	nvlist_add_u64(ld->spa->load_info, "rewound_to_txg", from->ub.txg);
	spa_note(ld->spa,
		 "opened at txg %" PRIu64 ", %" PRIu64 " seconds before the newest state (txg %" PRIu64 ")%s%s",
		 from->ub.txg, seconds, ld->ub[0].ub.txg, why[0] ? ": " : "", why);
}

/* The newest uberblock at or before `txg`, then older ones as far as one may go back. */
static int load_newest_readable(struct spa_loader *ld, uint64_t txg, struct err *e)
{
	uint64_t first = 0, last_txg = 0;
	unsigned tried = 0;
	int err = -ENXIO;

	for (size_t i = 0; i < ld->nub; i++) {
		const struct spa_uberblock *u = &ld->ub[i];
		struct err next = ERR_INIT;

		if (u->ub.txg > txg || u->ub.txg == last_txg)
			continue;
		if (tried++ > 1 && !ld->args->extreme && u->ub.txg + REWIND_TXGS < first)
			break;
		err = spa_load_from(ld, u, &next);
		if (!err && i > 0 && u->ub.txg != ld->ub[0].ub.txg)
			rewound_note(ld, u, first && e ? e->text : "");
		if (!first && e)
			*e = next;
		if (!err || !ld->retry || err == -EINTR)
			return err;
		first = first ? first : u->ub.txg;
		last_txg = u->ub.txg;
	}
	return e && e->code ? e->code : err;
}

static int load_at_txg(struct spa_loader *ld, struct err *e)
{
	uint64_t txg = ld->args->txg, oldest = ld->ub[ld->nub - 1].ub.txg;
	struct spa_reuse *reuse = NULL;
	struct err newest = ERR_INIT;
	int err;

	if (txg < oldest)
		return err_set(e, -ENOENT,
			       "no uberblock of txg %" PRIu64 " or before is left; the oldest is of txg %" PRIu64, txg,
			       oldest);
	if (txg < ld->ub[0].ub.txg && spa_load_from(ld, &ld->ub[0], &newest) == 0) {
		reuse = spa_reuse_collect(ld->spa, txg);
		spa_unload(ld->spa);
	}
	err = load_newest_readable(ld, txg, e);
	if (!err && reuse)
		spa_reuse_note(ld->spa, reuse);
	else if (!err && txg < ld->ub[0].ub.txg)
		spa_note(ld->spa, "the newest state cannot be read (%s): which blocks were reused since is not known",
			 newest.text);
	spa_reuse_destroy(reuse);
	return err;
}

static int load_checkpoint(struct spa_loader *ld, struct err *e)
{
	struct spa_uberblock from = {.leaf_guid = 0};
	int err = load_newest_readable(ld, UINT64_MAX, e);

	if (err)
		return err;
	err = spa_checkpoint_read(ld->spa->mos, &from.ub);
	spa_unload(ld->spa);
	if (err == -ENOENT)
		return err_set(e, err, "the pool has no checkpoint");
	if (err)
		return err_set(e, err, "the checkpoint cannot be read: %s", err_words(err));
	err = spa_load_from(ld, &from, e);
	if (!err)
		spa_note(ld->spa, "opened at its checkpoint (txg %" PRIu64 "); nothing was rewound on the devices",
			 from.ub.txg);
	return err;
}

static int load_chosen(struct spa_loader *ld, struct err *e)
{
	int err = spa_activity_check(ld, &ld->ub[0], e);

	if (err)
		return err;
	err = spa_host_check(ld, ld->args->config, e);
	if (err)
		return err;
	if (ld->args->rewind_checkpoint)
		return load_checkpoint(ld, e);
	if (ld->args->txg)
		return load_at_txg(ld, e);
	err = load_newest_readable(ld, UINT64_MAX, e);
	if (err && err != -ENOTSUP && err != -EINTR && ld->spa->version && !ld->args->extreme && !ld->devices_short)
		err_hint(e, "An earlier state may be readable: see -F, -X and -T.");
	return err;
}

static void search_notes_copy(struct spa_loader *ld)
{
	const char *const *note;
	size_t n;

	if (nvlist_strings(ld->args->config, "notes", &note, &n))
		return;
	for (size_t i = 0; i < n; i++)
		spa_note(ld->spa, "%s", note[i]);
}

int spa_load(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	int err = untrusted_open(ld, e);

	if (!err)
		err = spa_uberblocks_collect(ld, e);
	if (!err) {
		search_notes_copy(ld);
		err = load_chosen(ld, e);
	}
	if (!err && ld->args->writable && !ld->args->rewind_dry) {
		err = spa_open_writable(ld, e);
		if (err)
			spa_unload(spa);
	}
	if (!err) {
		spa->import_time = (uint64_t)time(NULL);
		arc_flush_pool(spa->dp.arc, spa->guid); /* no prefetch may still read through the untrusted tree */
	}
	vdev_tree_destroy(ld->untrusted);
	free(ld->ub);
	return err;
}
