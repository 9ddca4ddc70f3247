/* Reading data. One copy, from the cached blocks into the caller's buffer, on the thread on which the blocks arrive. */
#include "lib/lib.h"

struct lib_read {
	struct dmu_read dmu;
	struct tarn_read *user;
};

static size_t slices_copy(const struct dmu_read *r, uint8_t *dst)
{
	size_t at = 0;

	for (unsigned i = 0; i < r->nslices; i++) {
		const struct dmu_slice *s = &r->slice[i];

		if (s->data)
			memcpy(dst + at, s->data, s->len);
		else
			memset(dst + at, 0, s->len);
		at += s->len;
	}
	return at;
}

static void lib_read_done(struct dmu_read *dmu, int err)
{
	struct lib_read *r = dmu->arg;
	struct tarn_read *user = r->user;
	size_t got = err ? 0 : slices_copy(dmu, user->buffer);

	dmu_read_finish(dmu);
	free(r);
	user->done(user, err, got);
}

static struct dmu_read *lib_read_create(struct tarn_read *user)
{
	struct lib_read *r = xcalloc(1, sizeof(*r));

	r->user = user;
	r->dmu = (struct dmu_read){.offset = user->offset, .length = user->len, .done = lib_read_done, .arg = r};
	return &r->dmu;
}

void tarn_node_read_async(struct tarn_node *file, struct tarn_read *r)
{
	if (r->len > TARN_READ_MAX)
		r->done(r, -EINVAL, 0);
	else
		zpl_read_submit(file->zn, lib_read_create(r));
}

void tarn_volume_read_async(struct tarn_volume *v, struct tarn_read *r)
{
	if (r->len > TARN_READ_MAX)
		r->done(r, -EINVAL, 0);
	else
		zvol_read_submit(v->zv, lib_read_create(r));
}

/* ---- waiting ---- */

int tarn_node_read(struct tarn_node *file, uint64_t offset, void *buffer, size_t len, size_t *got, struct tarn_error *e)
{
	int rc = zpl_read(file->zn, offset, buffer, len, got);

	return rc ? lib_error(e, rc, NULL, "the file") : 0;
}

int tarn_volume_read(struct tarn_volume *v, uint64_t offset, void *buffer, size_t len, struct tarn_error *e)
{
	int rc = -EINVAL;

	if (offset <= v->zv->size && len <= v->zv->size - offset)
		rc = len ? dmu_read(v->zv->dn, offset, buffer, len, 0) : 0;
	return rc ? lib_error(e, rc, NULL, v->zv->ds->name) : 0;
}
