/*
 * Import for writing (docs/format/01-pool.md, 8.5): what may not be written is refused; the intent logs are claimed in
 * the first group; with it all labels get this host's name.
 */
#include "base/log.h"
#include "base/os.h"
#include "dmu/bpobj.h"
#include "dsl/dsl_scan.h"
#include "spa/layout.h"
#include "spa/pool_props.h"
#include "spa/search.h"
#include "spa/spa_write.h"
#include "zil/zil.h"

/* --- what cannot be written --- */
static int features_check(struct spa *spa, struct err *e)
{
	const struct nvlist *counts = spa_priv(spa)->write_features;
	struct str names = {0};
	int err = 0;

	for (const struct nvpair *p = nvlist_first(counts); p; p = nvlist_next(counts, p))
		if (nvpair_int(p, 0) && !spa_feature_find(nvpair_name(p)))
			str_addf(&names, "%s%s", names.len ? ", " : "", nvpair_name(p));
	if (names.len) {
		err = err_set(e, -ENOTSUP, "the pool uses features that allow reading only: %s", names.s);
		err_hint(e, "The pool can be imported with '-o readonly=on'.");
	}
	str_free(&names);
	return err;
}

/* Structures that have to be kept up when blocks are written or freed, and that this software only reads. */
static const char *structure_kept(struct spa *spa)
{
	static const struct {
		const char *feature, *what;
	} kept[] = {
	    {"org.openzfs:device_rebuild", "a device that is being rebuilt"},
	    {"com.datto:resilver_defer", "a deferred resilver"},
	};
	uint64_t object;

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (spa_feature_is_active(spa, kept[i].feature))
			return kept[i].what;
	if (spa_mos_u64(spa->mos, "com.delphix:condensing_indirect", &object) != -ENOENT)
		return "a mapping of a removed device that is being condensed";
	return NULL;
}

static const char *activity_running(struct spa *spa)
{
	uint64_t removing[7] = {0}, state;
	struct dsl_scan scan;

	if (zap_lookup(spa->mos, MOS_DIRECTORY, "com.delphix:removing", 8, 7, removing) == 0 && removing[0] == 1)
		return "a device is being removed";
	if (dsl_scan_read(spa->dsl, &scan) == 0 && scan.state == DSL_SCAN_STATE_SCANNING)
		return scan.func == DSL_SCAN_RESILVER ? "a device is being resilvered" : "a scrub is running";
	for (unsigned i = 0; i < spa->root->nchildren; i++)
		if (spa->root->child[i]->zap_top &&
		    zap_lookup_u64(spa->mos, spa->root->child[i]->zap_top, "org.openzfs:raidz_expand_state", &state) ==
			0 &&
		    state == 1)
			return "a raidz device is being expanded";
	return NULL;
}

static int devices_check(struct spa *spa, struct err *e)
{
	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];
		autofree char *name = vdev_name(top, 0);

		if (!vdev_is_concrete(top) || (top->is_log && !vdev_is_readable(top)))
			continue;
		if (!vdev_is_writable(top))
			return err_set(e, -EROFS, "%s cannot be written", name);
	}
	return vdev_why_not_writable(spa->root, e);
}

static int writing_check(struct spa *spa, struct err *e)
{
	const char *what = structure_kept(spa), *activity = activity_running(spa);
	int err = features_check(spa, e);

	if (err)
		return err;
	if (what)
		err_set(e, -ENOTSUP, "the pool has %s, which can only be read", what);
	else if (activity)
		err_set(e, -ENOTSUP, "%s, which cannot be gone on with", activity);
	if (what || activity) {
		err_hint(e, "The pool can be imported with '-o readonly=on'.");
		return -ENOTSUP;
	}
	return devices_check(spa, e);
}

/* --- objects of the MOS --- */
static int deferred_look(struct spa *spa, struct err *e)
{
	struct spa_writer *w = spa_writer(spa);
	struct bpobj *b;
	int err = spa_mos_u64(spa->mos, "sync_bplist", &w->sync_bplist);

	if (err == -ENOENT)
		return 0;
	if (!err)
		err = bpobj_open(spa->mos, w->sync_bplist, &b);
	if (err)
		return err_set(e, err, "the list of deferred frees cannot be read: %s", err_words(err));
	w->has_deferred = !bpobj_is_empty(b);
	bpobj_close(b);
	return 0;
}

static int objects_look(struct spa *spa, struct err *e)
{
	struct spa_writer *w = spa_writer(spa);
	int err = spa_mos_u64(spa->mos, "config", &w->config_object);

	if (err)
		return err_set(e, err, "%s", err_words(err));
	err = deferred_look(spa, e);
	return err ? err : spa_avz_check(spa, e);
}

static uint64_t checkpoint_txg(struct spa *spa)
{
	struct uberblock ub;

	return spa_checkpoint_read(spa->mos, &ub) == 0 ? ub.txg : 0;
}

/* Devices that were added and have no space maps yet (06, 2.1). */
void spa_new_tops_take(struct spa *spa)
{
	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		struct vdev *top = spa->root->child[i];
		struct err e = ERR_INIT;

		if (!vdev_is_concrete(top) || top->ms_array || top->removing || !vdev_is_writable(top))
			continue;
		if (top->ms_shift == 0)
			top->ms_shift = spa_metaslab_shift(top->asize);
		if (alloc_add_top_closed(spa_writer(spa)->alloc, top, &e))
			log_warn("pool '%s': a new device cannot be used: %s", spa->name, e.text);
		else
			top->awaits_use = true;
		spa_config_dirty(spa);
	}
}

/* The group that made their space maps is on the devices. */
void spa_new_tops_use(struct spa *spa)
{
	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		struct vdev *top = spa->root->child[i];

		if (!top->awaits_use || !top->ms_array)
			continue;
		top->awaits_use = false;
		alloc_undrain_top(spa_writer(spa)->alloc, top);
	}
}

/* --- logs --- */
struct claim {
	struct spa *spa;
	struct tx tx;
	bool discard;
	uint64_t max_birth;
	struct err *e;
};

static int log_open(struct claim *c, struct dsl_dataset *ds, struct objset **os)
{
	struct zil_header h;
	int err = dsl_dataset_open_raw(ds, os, c->e);

	if (err)
		return err;
	err = zil_header_decode((*os)->zil_header, (*os)->swapped, &h);
	if (!err && !bp_is_hole(&h.log))
		return 0;
	objset_release(*os);
	*os = NULL;
	return err ? err_set(c->e, err, "'%s': its intent log is damaged", ds->name) : 0;
}

static int log_check(void *arg, struct dsl_dataset *ds)
{
	struct claim *c = arg;
	struct objset *os = NULL;
	int err;

	if (bp_is_hole(&ds->bp))
		return 0;
	err = log_open(c, ds, &os);
	if (err || !os)
		return err;
	err = zil_check(os);
	objset_release(os);
	if (err == -ENOTSUP) {
		err_set(c->e, err, "the intent log of '%s' has clones of blocks, which cannot be claimed", ds->name);
		err_hint(c->e, "The pool can be imported with -o readonly=on, or by OpenZFS.");
	} else if (err) {
		err_set(c->e, err, "the intent log of '%s' cannot be read: %s", ds->name, err_words(err));
		err_hint(c->e, "With -m the logs are discarded, when a log device is missing; -F goes back to a state "
			       "before them.");
	}
	return err;
}

static int log_claim(void *arg, struct dsl_dataset *ds)
{
	struct claim *c = arg;
	struct objset *os = NULL;
	int err;

	if (bp_is_hole(&ds->bp))
		return 0;
	err = log_open(c, ds, &os);
	if (err || !os)
		return err;
	if (c->discard)
		zil_discard(os, &c->tx);
	else
		err = zil_claim(os, c->tx.txg, &c->tx, &c->max_birth);
	objset_release(os);
	return err ? err_set(c->e, err, "the intent log of '%s' cannot be claimed: %s", ds->name, err_words(err)) : 0;
}

static bool log_is_missing(const struct spa *spa)
{
	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];

		if (top->is_log && vdev_is_concrete(top) && !vdev_is_readable(top))
			return true;
	}
	return false;
}

static int logs_claim(struct spa_loader *ld, uint64_t txg, uint64_t *max_birth, struct err *e)
{
	struct spa *spa = ld->spa;
	struct claim c = {.spa = spa,
			  .tx = {.txgs = spa_writer(spa)->txgs, .txg = txg, .syncing = true, .pass = 1},
			  .max_birth = txg,
			  .e = e};
	int err;

	/* An older state's logs lead to blocks that may have been given to something else. */
	c.discard = spa->uberblock.txg != ld->ub[0].ub.txg || ld->args->rewind_checkpoint || log_is_missing(spa);
	err = c.discard ? 0 : dsl_each_head(spa->dsl, log_check, &c);
	if (!err)
		err = dsl_each_head(spa->dsl, log_claim, &c);
	*max_birth = c.max_birth;
	return err;
}

/* --- the first groups --- */
/* Until no block on the devices is younger than the uberblock. */
static int first_groups_wait(struct spa *spa, uint64_t max_birth, struct err *e)
{
	struct spa_writer *w = spa_writer(spa);
	uint64_t txg = txg_open(w->txgs);
	int err = 0;

	spa_groups_start(spa);
	for (; txg <= max_birth && !err; txg++) {
		spa_config_dirty(spa);
		err = txg_wait_synced(w->txgs, txg);
	}
	if (!err && !w->failed[0])
		return 0;
	return err_set(e, -EIO, "the pool cannot be written: %s", w->failed[0] ? w->failed : err_words(err));
}

static void missing_note(struct vdev *vd)
{
	if (vdev_is_leaf(vd) && vd->state == VDEV_STATE_CANT_OPEN && vd->aux == VDEV_AUX_OPEN_FAILED)
		vd->not_present = true;
	for (unsigned i = 0; i < vd->nchildren; i++)
		missing_note(vd->child[i]);
}

static int floors_open(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	int err = objects_look(spa, e);

	if (err)
		return err;
	objset_set_writable(spa->mos, &spa_mos_ops, spa); /* before the allocator's threads read it */
	err = spa_alloc_open(spa, ld->args->rewind_checkpoint ? 0 : checkpoint_txg(spa), e);
	if (err)
		return err;
	spa_features_apply(spa);
	spa_pool_props_apply(spa);
	spa_space_update(spa);
	spa_checkpoint_look(spa);
	spa_vdev_events_set(spa);
	err = spa_dsl_set_writable(spa);
	return err ? err_set(e, err, "the data sets cannot be written: %s", err_words(err)) : 0;
}

/* What else the first group changes. */
static int first_group_fill(struct spa_loader *ld, uint64_t txg, struct err *e)
{
	struct tx tx = {.txgs = spa_writer(ld->spa)->txgs, .txg = txg, .syncing = true, .pass = 1};
	struct spa_pool_props p;
	int err = spa_pool_props_parse(ld->spa, ld->args->props, SPA_PROPS_IMPORT, &p, e);

	if (err)
		return err;
	spa_pool_props_sync(ld->spa, &p, &tx);
	spa_pool_props_free(&p);
	if (atomic_load(&spa_writer(ld->spa)->autoexpand))
		spa_tops_expand(ld->spa, &tx);
	missing_note(ld->spa->root);
	spa_history_internal(ld->spa, "open", NULL, &tx, SPA_SOFTWARE);
	spa_config_dirty(ld->spa);
	return 0;
}

static int open_writable(struct spa_loader *ld, struct err *e)
{
	struct spa *spa = ld->spa;
	const char *stored = ld->args->temporary_name ? nvlist_string_or(spa->config, "name", spa->name) : spa->name;
	uint64_t txg = MAX(ld->ub[0].ub.txg, spa->uberblock.txg) + 1, max_birth = 0;
	int err;

	spa_writer_create(spa, stored, txg);
	spa_writer(spa)->no_suspend = true;
	err = floors_open(ld, e);
	if (!err)
		err = spa_job_stage(ld->job, "claiming intent logs") ? err_set(e, -EINTR, "interrupted") : 0;
	if (err)
		return err;
	spa_new_tops_take(spa);
	err = logs_claim(ld, txg, &max_birth, e);
	if (!err)
		err = first_group_fill(ld, txg, e);
	if (err)
		return err;
	err = spa_job_stage(ld->job, "writing the first transaction group");
	if (err)
		return err_set(e, err, "interrupted");
	err = first_groups_wait(spa, max_birth, e);
	spa_writer(spa)->no_suspend = err != 0;
	return err;
}

int spa_open_writable(struct spa_loader *ld, struct err *e)
{
	int err = writing_check(ld->spa, e);

	if (!err)
		err = spa_mmp_claim(ld, e);
	return err ? err : open_writable(ld, e);
}

void spa_opened(struct spa *spa, const char *event)
{
	dsl_pool_clean_up(spa->dsl);
	spa_cachefile_update(spa);
	spa_background_start(spa);
	spa_event_post(spa, event, NULL);
}
