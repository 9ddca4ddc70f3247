/*
 * zvol/zvol.c: volumes (docs/format/07, section 8): object 1 holds the bytes, object 2 says how many there are.
 */
#include "zvol/zvol.h"

#define ZVOL_DATA_OBJECT 1
#define ZVOL_PROP_OBJECT 2
#define ZVOL_DATA_TYPE   23

static int zvol_objects_open(struct zvol *zv, struct err *e)
{
	int rc = zap_lookup_u64(zv->os, ZVOL_PROP_OBJECT, "size", &zv->size);

	if (rc)
		return err_set(e, rc, "size of the volume: %s", err_words(rc));
	if (zv->size == 0 || zv->size > INT64_MAX)
		return err_set(e, -EINVAL, "the volume has an impossible size");
	rc = dnode_hold(zv->os, ZVOL_DATA_OBJECT, &zv->dn, e);
	if (rc)
		return rc;
	if (zv->dn->type != ZVOL_DATA_TYPE || zv->dn->datablksz == 0)
		return err_set(e, -EINVAL, "the volume's data object is damaged");
	zv->blocksize = zv->dn->datablksz;
	return 0;
}

int zvol_open(struct dsl_dataset *ds, struct zvol **out, struct err *e)
{
	struct zvol *zv = xcalloc(1, sizeof(*zv));
	int rc = dsl_dataset_open_objset(ds, &zv->os, e);

	zv->ds = dsl_dataset_ref(ds);
	if (!rc && zv->os->type != OBJSET_ZVOL)
		rc = err_set(e, -EINVAL, "not a volume");
	if (!rc)
		rc = zvol_objects_open(zv, e);
	if (rc) {
		zvol_close(zv);
		return err_prefix(e, rc, "%s", ds->name);
	}
	*out = zv;
	return 0;
}

void zvol_close(struct zvol *zv)
{
	if (!zv)
		return;
	if (zv->dn)
		dnode_release(zv->dn);
	if (zv->os)
		objset_release(zv->os);
	dsl_dataset_release(zv->ds);
	free(zv);
}

void zvol_read_submit(struct zvol *zv, struct dmu_read *r)
{
	r->slice = NULL;
	r->nslices = 0;
	r->priv = NULL;
	if (r->offset > zv->size || r->length > zv->size - r->offset) {
		r->done(r, -EINVAL);
		return;
	}
	if (r->length == 0) {
		r->done(r, 0);
		return;
	}
	r->dn = zv->dn;
	dmu_read_submit(r);
}

int zvol_next_offset(struct zvol *zv, uint64_t *offset, bool hole)
{
	uint64_t at = *offset;
	int rc;

	if (at >= zv->size)
		return -ESRCH;
	rc = dmu_next_offset(zv->dn, &at, hole);
	if (rc && rc != -ESRCH)
		return rc;
	if (rc == -ESRCH || at >= zv->size) {
		if (!hole)
			return -ESRCH;
		at = dmu_blocks_end(zv->dn, *offset, zv->size);
	}
	*offset = at;
	return 0;
}
