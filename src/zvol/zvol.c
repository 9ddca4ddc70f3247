/*
 * zvol/zvol.c: volumes (docs/format/07, section 8): object 1 holds the bytes, object 2 says how many there are.
 */
#include "zvol/zvol_impl.h"

int zvol_objects_open(struct objset *os, struct dnode **dn, uint64_t *size, struct err *e)
{
	int rc = zap_lookup_u64(os, ZVOL_PROP_OBJECT, "size", size);

	if (rc)
		return err_set(e, rc, "size of the volume: %s", err_words(rc));
	if (*size == 0 || *size > INT64_MAX)
		return err_set(e, -EINVAL, "the volume has an impossible size");
	rc = dnode_hold(os, ZVOL_DATA_OBJECT, dn, e);
	if (rc)
		return rc;
	if ((*dn)->type == DMU_OT_ZVOL && (*dn)->datablksz != 0)
		return 0;
	dnode_release(*dn);
	*dn = NULL;
	return err_set(e, -EINVAL, "the volume's data object is damaged");
}

static int zvol_open_objset(struct zvol *zv, struct err *e)
{
	int rc = dsl_dataset_open_objset(zv->ds, &zv->os, e);

	if (rc)
		return rc;
	if (zv->os->type != OBJSET_ZVOL)
		return err_set(e, -EINVAL, "not a volume");
	if (zv->os->ops && !zv->ds->is_snapshot) {
		rc = zvol_live_open(zv->os, &zv->live, e);
		if (rc)
			return rc;
		zv->dn = dnode_ref(zv->live->dn);
		zv->size = zvol_size(zv);
	} else {
		rc = zvol_objects_open(zv->os, &zv->dn, &zv->size, e);
		if (rc)
			return rc;
	}
	zv->blocksize = dnode_blocksize(zv->dn);
	return 0;
}

int zvol_open(struct dsl_dataset *ds, struct zvol **out, struct err *e)
{
	struct zvol *zv = xcalloc(1, sizeof(*zv));
	int rc;

	zv->ds = dsl_dataset_ref(ds);
	rc = zvol_open_objset(zv, e);
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
	if (zv->live)
		zvol_live_close(zv->live);
	if (zv->dn)
		dnode_release(zv->dn);
	if (zv->os)
		objset_release(zv->os);
	dsl_dataset_release(zv->ds);
	free(zv);
}

uint64_t zvol_size(const struct zvol *zv)
{
	return zv->live ? atomic_load(&zv->live->size) : zv->size;
}

bool zvol_is_writable(const struct zvol *zv)
{
	return zv->live && !zv->os->props.readonly;
}

void zvol_read_submit(struct zvol *zv, struct dmu_read *r)
{
	uint64_t size = zvol_size(zv);

	r->slice = NULL;
	r->nslices = 0;
	r->priv = NULL;
	if (r->offset > size || r->length > size - r->offset) {
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
	uint64_t at = *offset, size = zvol_size(zv);
	int rc;

	if (at >= size)
		return -ESRCH;
	rc = dmu_next_offset(zv->dn, &at, hole);
	if (rc && rc != -ESRCH)
		return rc;
	if (rc == -ESRCH || at >= size) {
		if (!hole)
			return -ESRCH;
		at = dmu_blocks_end(zv->dn, *offset, size);
	}
	*offset = at;
	return 0;
}
