/* Object sets: the header block (02, section 7). */
#include "dmu/dmu_impl.h"
#include "zio/zio_crypt.h"

#define OBJSET_SIZE_MIN  1024u
#define OBJSET_ZIL       512u
#define OBJSET_ZIL_SIZE  192u
#define OBJSET_TYPE      704u
#define OBJSET_FLAGS     712u
#define OBJSET_USERUSED  1024u
#define OBJSET_GROUPUSED 1536u
#define OBJSET_PROJUSED  2048u
#define OBJSET_TYPES     6u

/* A special dnode; type 0 or beyond the end: there is none. */
static int special_decode(struct objset *os, uint64_t object, const struct buf *buf, size_t at, struct dnode **out)
{
	*out = NULL;
	if (buf->size < at + DNODE_SIZE || buf->data[at] == 0)
		return 0;
	return dnode_decode_os(os, object, buf->data + at, DNODE_SIZE, os->swapped, out);
}

static int meta_decode(struct objset *os, const struct buf *buf)
{
	int err = dnode_decode_os(os, 0, buf->data, DNODE_SIZE, os->swapped, &os->meta);

	if (err)
		return err;
	if (os->meta->type != DMU_OT_DNODE || !IS_POW2(os->meta->datablksz))
		return -EINVAL;
	return 0;
}

static int objset_decode(struct objset *os, const struct buf *buf)
{
	uint64_t type;
	int err;

	if (buf->size < OBJSET_SIZE_MIN)
		return -EINVAL;
	type = load64(buf->data + OBJSET_TYPE, os->swapped);
	if (type >= OBJSET_TYPES)
		return -EINVAL;
	os->type = (enum objset_type)type;
	os->flags = load64(buf->data + OBJSET_FLAGS, os->swapped);
	memcpy(os->zil_header, buf->data + OBJSET_ZIL, OBJSET_ZIL_SIZE);
	err = meta_decode(os, buf);
	if (!err)
		err = special_decode(os, DMU_OBJECT_USERUSED, buf, OBJSET_USERUSED, &os->userused);
	if (!err)
		err = special_decode(os, DMU_OBJECT_GROUPUSED, buf, OBJSET_GROUPUSED, &os->groupused);
	if (!err)
		err = special_decode(os, DMU_OBJECT_PROJECTUSED, buf, OBJSET_PROJUSED, &os->projectused);
	return err;
}

static int objset_load(struct objset *os)
{
	struct zbookmark zb = {os->id, 0, -1, 0};
	autobuf struct buf *buf = NULL;
	int err;

	if (bp_type(&os->rootbp) != DMU_OT_OBJSET || bp_level(&os->rootbp) != 0)
		return -EINVAL;
	err = arc_read_wait(os->dp->arc, os->dp->zp, &os->rootbp, &zb, NULL, 0, &buf);
	if (!err && os->encrypted && os->key)
		err = zio_crypt_check_objset(os->key, &os->rootbp, buf->data, buf->size);
	return err ? err : objset_decode(os, buf);
}

int objset_open(struct dmu_pool *dp, uint64_t id, const struct bp *rootbp, struct crypt_key *key, struct objset **out,
		struct err *e)
{
	struct objset *os;
	int err;

	*out = NULL;
	if (bp_is_hole(rootbp))
		return err_set(e, -ENOENT, "object set %llu was never written", (unsigned long long)id);
	os = xcalloc(1, sizeof(*os));
	atomic_init(&os->refs, 1);
	os->dp = dp;
	os->id = id;
	os->key = key ? crypt_key_hold(key) : NULL;
	os->rootbp = *rootbp;
	os->encrypted = bp_uses_crypt(rootbp);
	os->swapped = bp_is_swapped(rootbp);
	os->cache_data = os->cache_metadata = true;
	os->cache = dnode_cache_create();
	err = objset_load(os);
	if (err) {
		objset_release(os);
		return err_set(e, err, "header of object set %llu: %s", (unsigned long long)id,
			       err == -EINVAL ? "damaged" : err_words(err));
	}
	*out = os;
	return 0;
}

struct objset *objset_hold(struct objset *os)
{
	atomic_fetch_add_explicit(&os->refs, 1, memory_order_relaxed);
	return os;
}

void objset_release(struct objset *os)
{
	if (!os || atomic_fetch_sub_explicit(&os->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (os->user_free)
		os->user_free(os->user);
	dnode_cache_destroy(os->cache);
	dnode_release(os->userused);
	dnode_release(os->groupused);
	dnode_release(os->projectused);
	dnode_release(os->meta);
	if (os->key)
		crypt_key_release(os->key);
	free(os);
}
