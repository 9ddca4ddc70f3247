/*
 * dsl/dsl_prop_objset.c: properties that live in the objects of a data set (03-datasets.md 5.5; 07, 1.1, 6.7, 8.1), and
 * are changed in open context.
 */
#include "dmu/sa.h"
#include "dsl/dsl_prop_set.h"

#define MASTER_NODE  1
#define ZVOL_DATA    1
#define ZVOL_PROP    2
#define CHANGE_BYTES (256u << 10) /* the most that one of these changes writes */
#define VERSION_SA   5
#define ZPL_NEWEST   5

/* --- looking --- */

static int master_u64(struct dsl_dataset *ds, const char *key, uint64_t *v)
{
	struct objset *os;
	int err = dsl_dataset_open_objset(ds, &os, NULL);

	if (err)
		return err;
	err = os->type == OBJSET_ZFS ? zap_lookup_u64(os, MASTER_NODE, key, v) : -EINVAL;
	dsl_dataset_close_objset(ds, os);
	return err;
}

int dsl_zpl_version(struct dsl_dataset *ds, uint64_t *v)
{
	return master_u64(ds, "VERSION", v);
}

int dsl_volume_sizes(struct dsl_dataset *ds, uint64_t *volsize, uint64_t *volblocksize)
{
	struct objset *os;
	struct dnode *dn;
	int err = dsl_dataset_open_objset(ds, &os, NULL);

	if (err)
		return err;
	err = os->type == OBJSET_ZVOL ? zap_lookup_u64(os, ZVOL_PROP, "size", volsize) : -EINVAL;
	if (!err)
		err = dnode_hold(os, ZVOL_DATA, &dn, NULL);
	if (!err) {
		*volblocksize = dnode_blocksize(dn);
		dnode_release(dn);
	}
	dsl_dataset_close_objset(ds, os);
	return err;
}

/* --- changing --- */

/* fn runs inside a transaction; what it did is on the devices when this returns. */
static int objset_change(struct dsl_dataset *ds, int (*fn)(struct objset *os, struct tx *tx, void *arg), void *arg,
			 struct err *e)
{
	struct txgs *txgs = ds->pool->dp->txgs;
	struct tx tx = {.bytes = CHANGE_BYTES};
	struct objset *os;
	int err;

	if (ds->is_snapshot || !txgs)
		return err_set(e, -EROFS, "dataset is read-only");
	err = dsl_dataset_open_objset(ds, &os, e);
	if (err)
		return err;
	tx.os = os;
	err = tx_begin_wait(txgs, &tx);
	if (!err) {
		err = fn(os, &tx, arg);
		tx_end(&tx);
		if (!err)
			err = txg_wait_synced(txgs, tx.txg);
	}
	dsl_dataset_close_objset(ds, os);
	return err ? err_set(e, err, "%s", err_words(err)) : 0;
}

struct named_value {
	const char *name;
	uint64_t v;
};

static int master_set(struct objset *os, struct tx *tx, void *arg)
{
	const struct named_value *n = arg;
	int err;

	if (n->v)
		return zap_update_u64(os, MASTER_NODE, n->name, n->v, tx);
	err = zap_remove(os, MASTER_NODE, n->name, tx);
	return err == -ENOENT ? 0 : err;
}

int dsl_master_set(struct dsl_dataset *ds, const char *name, uint64_t v, struct err *e)
{
	return objset_change(ds, master_set, &(struct named_value){name, v}, e);
}

static int quota_set(struct objset *os, struct tx *tx, void *arg)
{
	const struct named_value *n = arg;
	const char *map;
	uint64_t fuid, object;
	int err = dsl_quota_who(os, n->name, &map, &fuid);

	if (err)
		return err == -ENOENT ? -EINVAL : err;
	err = zap_lookup_u64(os, MASTER_NODE, map, &object);
	if (err == -ENOENT && n->v)
		err = zap_create_in(os, DMU_OT_USERGROUP_QUOTA, MASTER_NODE, map, tx, &object);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (n->v)
		return zap_update_int(os, object, fuid, n->v, tx);
	err = zap_remove_int(os, object, fuid, tx);
	return err == -ENOENT ? 0 : err;
}

int dsl_user_quota_set(struct dsl_dataset *ds, const char *name, uint64_t v, struct err *e)
{
	struct named_value n = {name, v};
	int err = objset_change(ds, quota_set, &n, e);

	return err == -EINVAL ? err_set(e, err, "'%s' has an invalid user/group name", name) : err;
}

static int version_set(struct objset *os, struct tx *tx, void *arg)
{
	uint64_t v = *(uint64_t *)arg, sa_attrs;
	int err = 0;

	if (v >= VERSION_SA && zap_lookup_u64(os, MASTER_NODE, "SA_ATTRS", &sa_attrs) == -ENOENT) {
		err = sa_create(os, tx, &sa_attrs);
		if (!err)
			err = zap_add_u64(os, MASTER_NODE, "SA_ATTRS", sa_attrs, tx);
	}
	return err ? err : zap_update_u64(os, MASTER_NODE, "VERSION", v, tx);
}

int dsl_set_version(struct dsl_pool *p, const char *name, uint64_t version, struct err *e)
{
	struct dsl_dataset *ds;
	uint64_t now;
	int err = dsl_dataset_hold(p, name, &ds, NULL);

	if (err)
		return err_set(e, err, "%s", err == -ENOENT ? "dataset does not exist" : err_words(err));
	err = dsl_zpl_version(ds, &now);
	if (err)
		err = err_set(e, err, "%s", err == -EINVAL ? "not a file system" : err_words(err));
	else if (version > ZPL_NEWEST)
		err = err_set(e, -ENOTSUP, "version %llu is not supported", (unsigned long long)version);
	else if (version > dsl_zpl_version_max(p))
		err = err_set(e, -ENOTSUP,
			      "can not be upgraded; the pool version needs to first be upgraded\nto version %u",
			      dsl_zpl_pool_version(version));
	else if (version < now)
		err = err_set(e, -EINVAL, "can not be downgraded; it is already at version %llu",
			      (unsigned long long)now);
	else if (version > now)
		err = objset_change(ds, version_set, &version, e);
	dsl_dataset_release(ds);
	return err;
}
