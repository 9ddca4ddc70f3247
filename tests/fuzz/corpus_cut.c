/*
 * Cuts seeds for the fuzz targets from a pool of one device: corpus_cut IMAGE FOLDER adds to FOLDER/TARGET/KIND. Of
 * everything that looks alike only the first is taken, also over several pools. make-corpus.sh drives it.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/spacemap.h"
#include "base/hash.h"
#include "dmu/sa.h"
#include "dmu/traverse.h"
#include "minipool.h"
#include "zil/zil.h"

#define TYPE_PACKED   3
#define TYPE_SPACEMAP 8
#define BONUS_SA      44
#define BONUS_ZNODE   17
#define TYPE_DATASET  16
#define HOST_ORDER    0

static const char *folder;
static struct strmap *taken; /* kinds that a seed was written of */
static struct minipool pool;

/* One seed: up to two parts. `kind` names what it is an example of. */
static void seed(const char *target, const char *kind, const void *head, size_t head_len, const void *body, size_t len)
{
	autofree char *key = xasprintf("%s-%s", target, kind);
	autofree char *dir = xasprintf("%s/%s", folder, target);
	autofree char *path = xasprintf("%s/%s", dir, kind);
	FILE *f;

	if (strmap_set(taken, key, taken) || access(path, F_OK) == 0)
		return;
	mkdir(folder, 0777);
	mkdir(dir, 0777);
	f = fopen(path, "wb");
	if (!f || fwrite(head, 1, head_len, f) != head_len || fwrite(body, 1, len, f) != len || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static bool is_taken(const char *target, const char *kind)
{
	autofree char *key = xasprintf("%s-%s", target, kind);

	return strmap_get(taken, key);
}

static size_t trimmed(const uint8_t *p, size_t len)
{
	while (len > 8 && p[len - 1] == 0)
		len--;
	return MIN(ROUND_UP(len, 8) + 8, len + 8);
}

/* --- label --- */

static void slot_seed(const uint8_t *slot, const uint8_t *nv, size_t nv_len)
{
	struct cksum verifier = {{0}};
	uint8_t head[2 + 32] = {CHECKSUM_LABEL};
	struct uberblock ub;

	for (unsigned i = 0; i < 128; i++) {
		const uint8_t *s = slot + (size_t)i * 1024;

		if (uberblock_decode(s, 1024, &ub))
			continue;
		seed("label", "label", s, 1024, nv, nv_len);
		verifier.word[0] = (128u << 10) + i * 1024;
		memcpy(head + 2, &verifier, sizeof(verifier));
		seed("checksum", "label", head, sizeof(head), s, 1024);
		return;
	}
}

static void label_seeds(void)
{
	size_t size = 256u << 10, len;
	autofree uint8_t *p = xmalloc(size);

	if (disk_read(pool.disk, 0, p, size))
		return;
	len = trimmed(p + (16u << 10), (112u << 10) - 40);
	seed("nvlist", "label", "", 0, p + (16u << 10), len);
	slot_seed(p + (128u << 10), p + (16u << 10), len);
}

/* --- blocks --- */

static void stored_seed(const struct bp *bp, const struct zbookmark *zb)
{
	autofree char *kind = xasprintf("%s", compress_name(bp_compress(bp)));
	uint32_t size = bp_lsize(bp) - 1;
	uint8_t head[4] = {bp_compress(bp), (uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16)};
	struct buf *raw;

	if (bp_compress(bp) == COMPRESS_OFF || bp_is_embedded(bp) || bp_uses_crypt(bp) || bp_psize(bp) > 4096 ||
	    bp_lsize(bp) > 1u << 20 || is_taken("decompress", kind))
		return;
	if (zio_read_wait(&pool.zp, bp, zb, NULL, ZIO_RAW | ZIO_QUIET, &raw))
		return;
	seed("decompress", kind, head, sizeof(head), raw->data, raw->size);
	buf_release(raw);
}

static void gang_seed(const struct bp *bp)
{
	struct dva dva = bp_dva(bp, 0);
	struct cksum verifier = {{dva.vdev, dva.offset, bp_physical_birth(bp), 0}};
	uint8_t head[2 + 32] = {CHECKSUM_GANG_HEADER, bp_uses_crypt(bp)}, block[512];

	memcpy(head + 2, &verifier, sizeof(verifier));
	if (dva.gang && disk_read(pool.disk, VDEV_LABEL_START_SIZE + dva.offset, block, sizeof(block)) == 0)
		seed("checksum", bp_uses_crypt(bp) ? "gang-crypt" : "gang", head, sizeof(head), block, sizeof(block));
}

static int block_visit(struct traverse *t, const struct bp *bp, const struct zbookmark *zb, const struct dnode *dn)
{
	autofree char *kind = xasprintf("%s%u-%u-%u",
					bp_is_embedded(bp) ? "e"
					: bp_is_gang(bp)   ? "g"
							   : "",
					bp_level(bp) > 0, bp_compress(bp), bp_checksum(bp));

	seed("bp", kind, "", 0, bp, sizeof(*bp));
	stored_seed(bp, zb);
	if (bp_is_gang(bp))
		gang_seed(bp);
	return 0;
}

/* --- objects --- */

static void zap_seed(struct objset *os, uint64_t object, const struct dnode *dn)
{
	uint64_t len = (dn->maxblkid + 1) * dn->datablksz;
	struct zap_stats st;
	uint8_t head;

	if (len > 66u << 10 || dn->datablksz % 512 || dn->datablksz > 128u << 10 || zap_get_stats(os, object, &st))
		return;
	autofree char *kind = xasprintf("%s-%llx-%llx-%u", st.micro ? "micro" : "fat", (unsigned long long)st.normflags,
					(unsigned long long)st.flags, dn->datablksz > 8192);
	autofree uint8_t *p = xmalloc(len);
	head = dn->datablksz / 512 - 1;
	if (!is_taken("zap", kind) && dmu_read((struct dnode *)dn, 0, p, len, 0) == 0)
		seed("zap", kind, &head, 1, p, len);
}

static void packed_seed(struct dnode *dn)
{
	uint8_t p[16384];

	if (dn->datablksz <= sizeof(p) && dmu_read(dn, 0, p, dn->datablksz, 0) == 0)
		seed("nvlist", "packed", "", 0, p, trimmed(p, dn->datablksz));
}

static void spacemap_seed(struct objset *os, uint64_t object, struct dnode *dn)
{
	uint8_t p[2048], head = HOST_ORDER;
	struct spacemap_header h;
	size_t len;

	if (spacemap_header_read(os, object, &h) || h.length == 0)
		return;
	len = MIN(h.length, sizeof(p));
	autofree char *kind = xasprintf("map-%u", h.length > 256);
	if (dmu_read(dn, 0, p, len, 0) == 0)
		seed("spacemap", kind, &head, 1, p, len);
}

static void dnode_seed(struct objset *os, const struct dnode *dn)
{
	autofree char *kind = xasprintf("%u-%u-%u", dn->type, dn->bonustype, dn->slots > 1);
	size_t len = (size_t)dn->slots * 512;
	uint8_t phys[16384];

	if (len <= sizeof(phys) && dmu_read(os->meta, dn->object * 512, phys, len, 0) == 0)
		seed("dnode", kind, "", 0, phys, len);
}

static void bonus_seed(const struct dnode *dn)
{
	uint8_t head = (dn->swapped ? 1 : 0) | (dn->bonustype == BONUS_ZNODE ? 2 : 0);
	autofree char *kind = xasprintf("%u-%u", dn->bonustype, dn->bonuslen);

	if (dn->bonuslen > 0)
		seed("sa", kind, &head, 1, dn->bonus, dn->bonuslen);
}

static void object_seeds(struct objset *os, uint64_t object)
{
	struct dnode *dn;

	if (dnode_hold(os, object, &dn, NULL))
		return;
	dnode_seed(os, dn);
	zap_seed(os, object, dn);
	if (dn->type == TYPE_PACKED)
		packed_seed(dn);
	if (dn->type == TYPE_SPACEMAP)
		spacemap_seed(os, object, dn);
	if (dn->bonustype == BONUS_SA || dn->bonustype == BONUS_ZNODE)
		bonus_seed(dn);
	dnode_release(dn);
}

/* --- intent log --- */

static int log_block(void *arg, const struct bp *bp, uint64_t seq)
{
	uint8_t head[2 + 32] = {bp_checksum(bp), bp_uses_crypt(bp)};
	struct objset *os = arg;
	struct zbookmark zb = {os->id, 0, -2, seq};
	size_t len = MIN(bp_psize(bp), 8192);
	struct buf *raw;

	memcpy(head + 2, bp->w + 12, 32);
	if (zio_read_wait(&pool.zp, bp, &zb, NULL, ZIO_RAW | ZIO_QUIET, &raw))
		return 0;
	autofree char *kind = xasprintf("%u-%u-%u", bp_checksum(bp), bp_uses_crypt(bp), raw->size);
	seed("zil", kind, "", 0, raw->data, len);
	if (raw->size == len)
		seed("checksum", kind, head, sizeof(head), raw->data, len);
	buf_release(raw);
	return 0;
}

static void objset_seeds(struct objset *os)
{
	struct traverse t = {.visit = block_visit};
	uint64_t object = 0;

	traverse_objset(os, &t);
	while (dnode_next(os, &object, NULL) == 0)
		object_seeds(os, object);
	zil_each(os, log_block, NULL, os);
}

static void dataset_seeds(uint64_t object)
{
	struct dsl_dataset *ds;
	struct objset *os;

	if (dsl_dataset_hold_obj(pool.dsl, object, &ds, NULL))
		return;
	if (!bp_is_hole(&ds->bp) && dsl_dataset_open_objset(ds, &os, NULL) == 0) {
		if (!os->encrypted)
			objset_seeds(os);
		objset_release(os);
	}
	dsl_dataset_release(ds);
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	uint64_t object = 0;
	struct dnode *dn;

	if (argc != 3)
		return 2;
	folder = argv[2];
	taken = strmap_create();
	if (minipool_open(&pool, argv[1], &e)) {
		fprintf(stderr, "%s: %s\n", argv[1], e.text);
		return 1;
	}
	label_seeds();
	objset_seeds(pool.mos);
	while (dnode_next(pool.mos, &object, NULL) == 0) {
		bool is_dataset;

		if (dnode_hold(pool.mos, object, &dn, NULL))
			continue;
		is_dataset = dn->bonustype == TYPE_DATASET;
		dnode_release(dn);
		if (is_dataset)
			dataset_seeds(object);
	}
	return 0;
}
