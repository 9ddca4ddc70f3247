/* Volumes. */
#include "lib/lib.h"

int tarn_volume_open(struct tarn_pool *p, const char *name, struct tarn_volume **out, struct tarn_error *e)
{
	struct err err = ERR_INIT;
	struct dsl_dataset *ds;
	struct zvol *zv;
	int rc = lib_dataset_hold(p, name, &ds, e);

	if (rc)
		return rc;
	rc = zvol_open(ds, &zv, &err);
	if (rc)
		rc = lib_open_error(ds, rc, &err, e);
	dsl_dataset_release(ds);
	if (rc)
		return rc;
	spa_hold(p->spa);
	*out = xcalloc(1, sizeof(**out));
	(*out)->pool = p;
	(*out)->zv = zv;
	return 0;
}

void tarn_volume_close(struct tarn_volume *v)
{
	if (!v)
		return;
	zvol_close(v->zv);
	spa_release(v->pool->spa);
	free(v);
}

uint64_t tarn_volume_size(const struct tarn_volume *v)
{
	return v->zv->size;
}

uint32_t tarn_volume_block_size(const struct tarn_volume *v)
{
	return v->zv->blocksize;
}

int tarn_volume_seek(struct tarn_volume *v, uint64_t *offset, bool hole)
{
	return zvol_next_offset(v->zv, offset, hole);
}
