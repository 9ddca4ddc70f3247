/*
 * dsl/dsl_resume.c: the token of an interrupted receive (05-send-streams.md B2.6), made from the state kept in the data
 * set or in its hidden "%recv" child.
 */
#include <zlib.h>

#include "base/str.h"
#include "codec/checksum.h"
#include "dsl/dsl_impl.h"

#define RESUME_NAME_MAX  1024
#define RESUME_SNAPS_MAX 65536
#define TOKEN_LEVEL      6

static void token_add_u64(struct dsl_dataset *ds, struct nvlist *l, const char *key, const char *name)
{
	uint64_t v;

	if (zap_lookup_u64(ds->pool->mos, ds->object, key, &v) == 0)
		nvlist_add_u64(l, name, v);
}

static void token_add_flag(struct dsl_dataset *ds, struct nvlist *l, const char *key, const char *name)
{
	unsigned intsize;
	size_t n;

	if (zap_length(ds->pool->mos, ds->object, key, &intsize, &n) == 0)
		nvlist_add_boolean(l, name);
}

static void token_add_toname(struct dsl_dataset *ds, struct nvlist *l)
{
	char name[RESUME_NAME_MAX + 1] = "";
	unsigned intsize;
	size_t n;

	if (zap_length(ds->pool->mos, ds->object, "com.delphix:resume_toname", &intsize, &n) || intsize != 1 ||
	    n > RESUME_NAME_MAX)
		return;
	if (zap_lookup(ds->pool->mos, ds->object, "com.delphix:resume_toname", 1, n, name) == 0)
		nvlist_add_string(l, "toname", name);
}

static void token_add_guids(struct dsl_dataset *ds, struct nvlist *l)
{
	static const char key[] = "com.delphix:resume_redact_book_snaps";
	autofree uint64_t *guids = NULL;
	unsigned intsize;
	size_t n;

	if (zap_length(ds->pool->mos, ds->object, key, &intsize, &n) || intsize != 8 || n > RESUME_SNAPS_MAX)
		return;
	guids = xcalloc(n + 1, sizeof(*guids));
	if (n == 0 || zap_lookup(ds->pool->mos, ds->object, key, 8, n, guids) == 0)
		nvlist_add_u64s(l, "book_redact_snaps", guids, n);
}

static struct nvlist *token_nvlist(struct dsl_dataset *ds)
{
	struct nvlist *l = nvlist_create();
	uint64_t *guids;
	size_t n;

	token_add_u64(ds, l, "com.delphix:resume_fromguid", "fromguid");
	token_add_u64(ds, l, "com.delphix:resume_object", "object");
	token_add_u64(ds, l, "com.delphix:resume_offset", "offset");
	token_add_u64(ds, l, "com.delphix:resume_bytes", "bytes");
	token_add_u64(ds, l, "com.delphix:resume_toguid", "toguid");
	token_add_toname(ds, l);
	token_add_flag(ds, l, "com.delphix:resume_largeblockok", "largeblockok");
	token_add_flag(ds, l, "com.delphix:resume_embedok", "embedok");
	token_add_flag(ds, l, "com.delphix:resume_compressok", "compressok");
	token_add_flag(ds, l, "com.datto:resume_rawok", "rawok");
	if (dsl_dataset_redact_snaps(ds, &guids, &n) == 0) {
		nvlist_add_u64s(l, "redact_snaps", guids, n);
		free(guids);
	}
	token_add_guids(ds, l);
	return l;
}

/* 1-<first word of fletcher4>-<packed size>-<hex of the compressed list> */
static int token_text(const struct nvlist *l, char **out)
{
	autofree void *packed = NULL;
	autofree uint8_t *z = NULL;
	struct cksum sum;
	struct str s = {0};
	size_t len;
	uLongf zlen;
	int err = nvlist_pack(l, NV_NATIVE, &packed, &len);

	if (err)
		return err;
	zlen = compressBound(len);
	z = xmalloc(zlen);
	if (compress2(z, &zlen, packed, len, TOKEN_LEVEL) != Z_OK)
		return -ENOMEM;
	err = checksum_compute(CHECKSUM_FLETCHER_4, NULL, z, zlen & ~(uLongf)3, false, &sum);
	if (err)
		return err;
	str_addf(&s, "1-%llx-%llx-", (unsigned long long)sum.word[0], (unsigned long long)len);
	for (size_t i = 0; i < zlen; i++)
		str_addf(&s, "%02x", z[i]);
	*out = s.s;
	return 0;
}

static bool has_resume_state(struct dsl_dataset *ds)
{
	uint64_t v;

	return dsl_dataset_ext_u64(ds, "com.delphix:resume_toguid", &v) == 0;
}

static int resume_token_of(struct dsl_dataset *ds, char **out)
{
	struct nvlist *l;
	int err;

	if (!has_resume_state(ds))
		return -ENOENT;
	l = token_nvlist(ds);
	err = token_text(l, out);
	nvlist_destroy(l);
	return err;
}

int dsl_resume_token(struct dsl_dataset *ds, char **out)
{
	struct dsl_pool *p = ds->pool;
	struct dsl_dataset *recv;
	struct dsl_dir *child;
	uint64_t object;
	int err = resume_token_of(ds, out);

	if (err != -ENOENT || ds->dir->child_map == 0)
		return err;
	err = zap_lookup_u64(p->mos, ds->dir->child_map, "%recv", &object);
	if (!err)
		err = dsl_dir_hold_named(ds->dir, object, "%recv", &child, NULL);
	if (err)
		return err;
	err = dsl_dataset_hold_obj(p, child->head, &recv, NULL);
	dsl_dir_release(child);
	if (err)
		return err;
	err = resume_token_of(recv, out);
	dsl_dataset_release(recv);
	return err;
}
