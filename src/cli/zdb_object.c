/* One object: its dnode, what it holds by its type, its block pointers. */
#include "cli/zdb.h"

#include "dmu/bpobj.h"
#include "zpl/zpl.h"

enum { /* object types, 02 section 8 */
       OT_PACKED_NVLIST = 3,
       OT_BPOBJ = 5,
       OT_SPACE_MAP = 8,
       OT_DSL_DIR = 12,
       OT_DSL_DATASET = 16,
       OT_ZNODE = 17,
       OT_PLAIN_FILE = 19,
       OT_DIRECTORY = 20,
       OT_SA = 44,
       OT_SA_LAYOUTS = 47,
       OT_SPACE_MAP_HEADER = 7,
       OT_BPOBJ_HEADER = 6,
       OT_HISTORY_OFFSETS = 30,
       OT_OBJECT_ARRAY = 2,
};
#define OT_NEW        0x80u
#define OT_SWAP_ZAP   4u
#define NVLIST_MAX    (64u << 20)
#define DIRENT_OBJECT ((UINT64_C(1) << 48) - 1)

/* ---- heading ---- */

/* New-style types say only how their bytes are swapped. */
static const char *type_word(unsigned type)
{
	static const char *const swaps[] = {"uint8", "uint16", "uint32", "uint64", "zap",
					    "dnode", "objset", "znode",  "oldacl", "acl"};

	if (type & OT_NEW && (type & 0x1f) < ARRAY_LEN(swaps))
		return swaps[type & 0x1f];
	return dmu_type_name(type);
}

static uint64_t dnode_fill(const struct dnode *dn)
{
	uint64_t fill = 0;

	for (unsigned i = 0; i < dn->nblkptr; i++)
		if (!bp_is_hole(&dn->blkptr[i]))
			fill += bp_fill(&dn->blkptr[i]);
	return fill;
}

static double dnode_percent(const struct dnode *dn, uint64_t lsize)
{
	uint64_t unit = dn->object == 0 ? 512 : dn->datablksz;

	return lsize ? 100.0 * (double)dnode_fill(dn) * (double)unit / (double)lsize : 0;
}

static void heading_print(struct zdb_view *v, const struct dnode *dn)
{
	uint64_t lsize = (dn->maxblkid + 1) * dn->datablksz;
	char n[5][SIZE_TEXT], extra[64] = "";
	size_t at = 0;

	if (v->header)
		printf("\n    Object  lvl   iblk   dblk  dsize  dnsize  lsize   %%full  type\n");
	v->header = v->level >= 4;
	if (dn->checksum || v->level >= 6)
		at = (size_t)snprintf(extra, sizeof(extra), " (K=%s)", checksum_name(dn->checksum));
	if (dn->compress || v->level >= 6)
		snprintf(extra + at, sizeof(extra) - at, " (Z=%s)",
			 dn->compress == 2 ? "uncompressed" : compress_name(dn->compress));
	printf("%10" PRId64 "  %3u  %5s  %5s  %5s  %6s  %5s  %6.2f  %s%s\n", (int64_t)dn->object, dn->nlevels,
	       zdb_number(v->z, UINT64_C(1) << dn->indblkshift, n[0]), zdb_number(v->z, dn->datablksz, n[1]),
	       zdb_number(v->z, dn->used, n[2]), zdb_number(v->z, (uint64_t)dn->slots * 512, n[3]),
	       zdb_number(v->z, lsize, n[4]), dnode_percent(dn, lsize), type_word(dn->type), extra);
	if (dn->bonustype && v->level >= 2)
		printf("%50s   bonus  %s\n", zdb_number(v->z, dn->bonuslen, n[0]), type_word(dn->bonustype));
}

/* ---- block pointers ---- */

void zdb_bp_compact(const struct bp *bp, struct str *out)
{
	if (bp_is_embedded(bp)) {
		str_addf(out, "EMBEDDED et=%u %" PRIx64 "L/%" PRIx64 "P B=%" PRIu64, (unsigned)bits64(bp->w[6], 40, 8),
			 bp_lsize(bp), zdb_embedded_size(bp), bp_birth(bp));
		return;
	}
	for (unsigned i = 0; i < bp_ndvas(bp); i++) {
		struct dva d = bp_dva(bp, i);

		str_addf(out, "%" PRIu64 ":%" PRIx64 ":%" PRIx64 "%s ", d.vdev, d.offset, d.asize, d.gang ? "G" : "");
	}
	if (bp_is_hole(bp)) {
		str_addf(out, "%" PRIx64 "L B=%" PRIu64, bp_lsize(bp), bp_birth(bp));
		return;
	}
	str_addf(out, "%" PRIx64 "L/%" PRIx64 "P F=%" PRIu64 " B=%" PRIu64 "/%" PRIu64, bp_lsize(bp), bp_psize(bp),
		 bp_fill(bp), bp_birth(bp), bp_physical_birth(bp));
	str_addf(out, " cksum=%016" PRIx64 ":%016" PRIx64 ":%016" PRIx64 ":%016" PRIx64, bp->w[12], bp->w[13],
		 bp->w[14], bp->w[15]);
}

static void pointer_print(const struct dnode *dn, const struct bp *bp, unsigned level, uint64_t blkid)
{
	unsigned shift = dn->indblkshift - 7u;
	struct str text = {NULL, 0, 0};
	uint64_t offset = (blkid << (level * shift)) * dn->datablksz;

	zdb_bp_compact(bp, &text);
	if (blkid == DMU_BLKID_SPILL)
		printf("%16s %s ", "spill", "L0");
	else
		printf("%16" PRIx64 " %*sL%-*u ", offset, (int)(dn->nlevels - 1 - level), "", (int)level + 1, level);
	printf("%s\n", str_get(&text));
	str_free(&text);
}

/* Depth first. Holes that were once something (birth not 0) are shown too. */
static void pointers_below(struct zdb_view *v, struct dnode *dn, const struct bp *bp, unsigned level, uint64_t blkid)
{
	struct zbookmark zb = {v->os->id, dn->object, level, blkid};
	autobuf struct buf *buf = NULL;
	unsigned shift = dn->indblkshift - 7u;
	int err;

	if (cli_interrupted || (bp_is_hole(bp) && bp_birth(bp) == 0))
		return;
	pointer_print(dn, bp, level, blkid);
	if (level == 0 || bp_is_hole(bp))
		return;
	err = bp_check(bp) || bp_level(bp) != level
		  ? -EINVAL
		  : arc_read_wait(v->os->dp->arc, v->os->dp->zp, bp, &zb, NULL, 0, &buf);
	if (err) {
		zdb_warn(v->z, "object %" PRId64 " level %u block %" PRIx64 ": %s", (int64_t)dn->object, level, blkid,
			 err_words(err));
		return;
	}
	for (unsigned i = 0; i < buf->size / BP_SIZE; i++) {
		struct bp child;

		bp_decode(&child, buf->data + (size_t)i * BP_SIZE, bp_is_swapped(bp));
		pointers_below(v, dn, &child, level - 1, (blkid << shift) + i);
	}
}

static void segments_print(struct zdb_view *v, struct dnode *dn)
{
	uint64_t start = 0, end;
	char size[SIZE_TEXT];

	while (dmu_next_offset(dn, &start, false) == 0) {
		end = start;
		if (dmu_next_offset(dn, &end, true))
			end = (dn->maxblkid + 1) * dn->datablksz;
		printf("\t\tsegment [%016" PRIx64 ", %016" PRIx64 ") size %5s\n", start, end,
		       zdb_number(v->z, end - start, size));
		if (end <= start)
			return;
		start = end;
	}
}

static void pointers_print(struct zdb_view *v, struct dnode *dn)
{
	puts("Indirect blocks:");
	for (unsigned i = 0; i < dn->nblkptr; i++)
		pointers_below(v, dn, &dn->blkptr[i], dn->nlevels - 1u, i);
	if (dn->has_spill)
		pointer_print(dn, &dn->spill, 0, DMU_BLKID_SPILL);
	putchar('\n');
	if (dn->object != 0)
		segments_print(v, dn);
}

/* ---- bonus buffers ---- */

static uint64_t bonus_word(const struct dnode *dn, unsigned i)
{
	return 8 * i + 8 <= dn->bonuslen ? load64(dn->bonus + 8 * i, dn->swapped) : 0;
}

struct field {
	const char *name;
	unsigned word;
	enum { FIELD_NUMBER, FIELD_BYTES, FIELD_DATE, FIELD_FLAGS } kind;
};

static void fields_print(const struct zdb_view *v, const struct dnode *dn, const struct field *f, size_t n)
{
	char text[64];

	for (size_t i = 0; i < n; i++) {
		uint64_t w = bonus_word(dn, f[i].word);

		if (f[i].kind == FIELD_DATE)
			printf("\t\t%s = %s\n", f[i].name, zdb_date(w, text));
		else if (f[i].kind == FIELD_BYTES)
			printf("\t\t%s = %s\n", f[i].name, zdb_number(v->z, w, text));
		else if (f[i].kind == FIELD_FLAGS)
			printf("\t\t%s = %" PRIx64 "\n", f[i].name, w);
		else
			printf("\t\t%s = %" PRIu64 "\n", f[i].name, w);
	}
}

static void dir_print(const struct zdb_view *v, const struct dnode *dn)
{
	static const struct field fields[] = {
	    {"creation_time", 0, FIELD_DATE},
	    {"head_dataset_obj", 1, FIELD_NUMBER},
	    {"parent_dir_obj", 2, FIELD_NUMBER},
	    {"origin_obj", 3, FIELD_NUMBER},
	    {"child_dir_zapobj", 4, FIELD_NUMBER},
	    {"used_bytes", 5, FIELD_BYTES},
	    {"compressed_bytes", 6, FIELD_BYTES},
	    {"uncompressed_bytes", 7, FIELD_BYTES},
	    {"quota", 8, FIELD_BYTES},
	    {"reserved", 9, FIELD_BYTES},
	    {"props_zapobj", 10, FIELD_NUMBER},
	    {"deleg_zapobj", 11, FIELD_NUMBER},
	    {"flags", 12, FIELD_FLAGS},
	    {"used_breakdown[HEAD]", 13, FIELD_BYTES},
	    {"used_breakdown[SNAP]", 14, FIELD_BYTES},
	    {"used_breakdown[CHILD]", 15, FIELD_BYTES},
	    {"used_breakdown[CHILD_RSRV]", 16, FIELD_BYTES},
	    {"used_breakdown[REFRSRV]", 17, FIELD_BYTES},
	    {"clones", 18, FIELD_NUMBER},
	};

	fields_print(v, dn, fields, ARRAY_LEN(fields));
}

static void dataset_print(const struct zdb_view *v, const struct dnode *dn)
{
	static const struct field fields[] = {
	    {"dir_obj", 0, FIELD_NUMBER},
	    {"prev_snap_obj", 1, FIELD_NUMBER},
	    {"prev_snap_txg", 2, FIELD_NUMBER},
	    {"next_snap_obj", 3, FIELD_NUMBER},
	    {"snapnames_zapobj", 4, FIELD_NUMBER},
	    {"num_children", 5, FIELD_NUMBER},
	    {"userrefs_obj", 34, FIELD_NUMBER},
	    {"creation_time", 6, FIELD_DATE},
	    {"creation_txg", 7, FIELD_NUMBER},
	    {"deadlist_obj", 8, FIELD_NUMBER},
	    {"used_bytes", 9, FIELD_BYTES},
	    {"compressed_bytes", 10, FIELD_BYTES},
	    {"uncompressed_bytes", 11, FIELD_BYTES},
	    {"unique", 12, FIELD_BYTES},
	    {"fsid_guid", 13, FIELD_NUMBER},
	    {"guid", 14, FIELD_NUMBER},
	    {"flags", 15, FIELD_FLAGS},
	    {"next_clones_obj", 32, FIELD_NUMBER},
	    {"props_obj", 33, FIELD_NUMBER},
	};
	struct str text = {NULL, 0, 0};
	struct bp bp;

	fields_print(v, dn, fields, ARRAY_LEN(fields));
	if (dn->bonuslen < 256)
		return;
	bp_decode(&bp, dn->bonus + 128, dn->swapped);
	bp_print(&bp, &text);
	printf("\t\tbp = %s\n", str_get(&text));
	str_free(&text);
}

static int bpobj_entry(void *arg, const struct bp *bp, bool freed)
{
	struct str text = {NULL, 0, 0};

	zdb_bp_compact(bp, &text);
	printf("\t\t%s%s\n", freed ? "FREE " : "", str_get(&text));
	str_free(&text);
	return 0;
}

static void bpobj_print(struct zdb_view *v, const struct dnode *dn)
{
	struct bpobj_phys b;
	char n[3][SIZE_TEXT];

	if (bpobj_read(v->os, dn->object, &b))
		return;
	printf("\t\tnum_blkptrs = %" PRIu64 "\n\t\tbytes = %s\n", b.num_blkptrs, zdb_number(v->z, b.bytes, n[0]));
	if (b.has_comp)
		printf("\t\tcomp = %s\n\t\tuncomp = %s\n", zdb_number(v->z, b.comp, n[1]),
		       zdb_number(v->z, b.uncomp, n[2]));
	if (b.has_subobjs)
		printf("\t\tsubobjs = %" PRIu64 "\n\t\tnum_subobjs = %" PRIu64 "\n", b.subobjs, b.num_subobjs);
	if (b.has_subobjs)
		printf("\t\tnum_freed = %" PRIu64 "\n", b.num_freed);
	if (v->level >= 5 && b.num_blkptrs + b.num_subobjs) {
		putchar('\n');
		bpobj_iterate(v->os, dn->object, bpobj_entry, NULL);
	}
}

static void spacemap_header_print(struct zdb_view *v, const struct dnode *dn)
{
	struct spacemap_header h;

	if (spacemap_header_read(v->os, dn->object, &h))
		return;
	printf("space map object %" PRIu64 ":\n  smp_length = 0x%" PRIx64 "\n  smp_alloc = 0x%" PRIx64 "\n", h.object,
	       h.length, h.alloc);
	if (v->level >= 5)
		zdb_histogram_print(h.histogram, 32, 0);
}

static void history_offsets_print(const struct zdb_view *v, const struct dnode *dn)
{
	static const struct field fields[] = {{"pool_create_len", 0, FIELD_NUMBER},
					      {"phys_max_off", 1, FIELD_NUMBER},
					      {"bof", 2, FIELD_NUMBER},
					      {"eof", 3, FIELD_NUMBER},
					      {"records_lost", 4, FIELD_NUMBER}};

	fields_print(v, dn, fields, ARRAY_LEN(fields));
}

/* ---- files ---- */

static void file_path(const struct zdb_view *v, const struct znode *zn)
{
	autofree char *text = NULL;
	struct znode copy = *zn;

	if ((zn->mode & S_IFMT) == S_IFLNK) {
		if (zpl_readlink(&copy, &text) == 0)
			printf("\ttarget\t%s\n", text);
		return;
	}
	if (zpl_object_path(v->zpl, zn->id, &text) == 0)
		printf("\tpath\t%s\n", text);
}

static void file_xattrs(const struct znode *zn)
{
	const uint8_t *data;
	uint32_t len;
	autonv struct nvlist *list = NULL;
	uint64_t object;

	if (sa_u64(&zn->sa, SA_XATTR, &object) == 0 && object)
		printf("\txattr\t%" PRIu64 "\n", object);
	if (sa_bytes(&zn->sa, SA_DXATTR, &data, &len) || len == 0 || nvlist_unpack(data, len, &list, NULL))
		return;
	printf("\tSA xattrs: %u bytes, %zu entries\n\n", len, nvlist_len(list));
	for (const struct nvpair *p = nvlist_first(list); p; p = nvlist_next(list, p)) {
		printf("\t\t%s = ", nvpair_name(p));
		for (size_t i = 0; i < nvpair_count(p); i++) {
			uint8_t c = (uint8_t)nvpair_int(p, i);

			printf(c >= 32 && c < 127 ? "%c" : "\\%3.3o", c);
		}
		putchar('\n');
	}
}

static void id_print(const struct zdb_view *v, const char *label, uint64_t id)
{
	const char *domain = id >> 32 ? zpl_fuid_domain(v->zpl, id) : NULL;

	if (id >> 32)
		printf("\t%s     %" PRIx64 " [SID: %s-%u]\n", label, id, domain ? domain : "?", zpl_fuid_id(id));
	else
		printf("\t%s     %" PRIu64 "\n", label, id);
}

static void file_print(struct zdb_view *v, const struct dnode *dn)
{
	char date[64];
	struct znode *zn;
	struct err e = ERR_INIT;

	if (!v->zpl || znode_hold(v->zpl, dn->object, &zn, &e))
		return;
	file_path(v, zn);
	id_print(v, "uid", zn->uid);
	id_print(v, "gid", zn->gid);
	printf("\tatime\t%s\n", zdb_date((uint64_t)zn->atime.tv_sec, date));
	printf("\tmtime\t%s\n", zdb_date((uint64_t)zn->mtime.tv_sec, date));
	printf("\tctime\t%s\n", zdb_date((uint64_t)zn->ctime.tv_sec, date));
	printf("\tcrtime\t%s\n", zdb_date((uint64_t)zn->crtime.tv_sec, date));
	printf("\tgen\t%" PRIu64 "\n\tmode\t%" PRIo64 "\n\tsize\t%" PRIu64 "\n\tparent\t%" PRIu64 "\n\tlinks\t%" PRIu64
	       "\n\tpflags\t%" PRIx64 "\n",
	       zn->gen, zn->mode, zn->size, zn->parent, zn->links, zn->flags);
	if (zn->projid)
		printf("\tprojid\t%" PRIu64 "\n", zn->projid);
	if (S_ISCHR(zn->mode) || S_ISBLK(zn->mode))
		printf("\trdev\t0x%" PRIx64 "\n", zn->rdev);
	file_xattrs(zn);
	znode_release(zn);
}

/* ---- ZAPs ---- */

static bool type_is_zap(unsigned type)
{
	static const uint8_t zaps[] = {1,  13, 14, 15, 20, 21, 22, 24, 27, 28, 31, 32,
				       37, 39, 40, 41, 42, 43, 45, 46, 47, 48, 50, 52};

	if (type & OT_NEW)
		return (type & 0x1f) == OT_SWAP_ZAP;
	return memchr(zaps, (int)type, sizeof(zaps)) != NULL;
}

static const char *dirent_word(uint64_t value)
{
	static const char *const words[16] = {"not specified", "FIFO",        "Character Device", "3 (invalid)",
					      "Directory",     "5 (invalid)", "Block Device",     "7 (invalid)",
					      "Regular File",  "9 (invalid)", "Symbolic Link",    "11 (invalid)",
					      "Socket",        "Door",        "Event Port",       "15 (invalid)"};

	return words[value >> 60];
}

static void zap_value_print(struct zap_cursor *c, const struct zap_entry *ze)
{
	autofree uint8_t *value = malloc(ze->nints * ze->intsize + 1);
	bool text = ze->intsize == 1;

	if (!value || zap_cursor_value(c, value, ze->nints)) {
		printf("(unreadable)");
		return;
	}
	for (size_t i = 0; text && i + 1 < ze->nints; i++)
		text = value[i] >= 32 && value[i] < 127;
	text = text && ze->nints && value[ze->nints - 1] == 0;
	for (size_t i = 0; i < ze->nints; i++) {
		if (text && value[i])
			putchar(value[i]);
		else if (!text && ze->intsize == 1)
			printf("%02x", value[i]);
		else if (ze->intsize == 2)
			printf("%u ", load_host16(value + 2 * i));
		else if (ze->intsize == 4)
			printf("%u ", load_host32(value + 4 * i));
		else if (ze->intsize == 8)
			printf("%" PRIu64 " ", load_host64(value + 8 * i));
	}
}

static void zap_entry_print(const struct zdb_view *v, const struct dnode *dn, struct zap_cursor *c,
			    const struct zap_entry *ze)
{
	const uint64_t *words = (const void *)ze->name;

	printf("\t\t");
	for (unsigned i = 0; i < ze->key_words; i++)
		printf("%s%" PRIx64, i ? ":" : "", load_host64((const uint8_t *)words + 8 * (size_t)i));
	printf("%s = ", ze->key_words ? "" : ze->name);
	if (dn->type == OT_DIRECTORY && v->ds && ze->intsize == 8 && ze->nints == 1)
		printf("%" PRIu64 " (type: %s)", ze->first & DIRENT_OBJECT, dirent_word(ze->first));
	else
		zap_value_print(c, ze);
	putchar('\n');
}

static void zap_stats_print(const struct zap_stats *s)
{
	if (s->micro) {
		printf("\tmicrozap: %" PRIu64 " bytes, %" PRIu64 " entries\n\n", s->block_size, s->entries);
		return;
	}
	printf("\tFat ZAP stats:\n\t\tPointer table:\n\t\t\t%" PRIu64 " elements\n", s->ptrtbl_len);
	printf("\t\tZAP entries: %" PRIu64 "\n\t\tLeaf blocks: %" PRIu64 "\n\t\tTotal blocks: %" PRIu64
	       "\n\t\tzap_salt: 0x%" PRIx64 "\n\t\tnormflags: 0x%" PRIx64 "\n\t\tflags: 0x%" PRIx64 "\n\n",
	       s->entries, s->leaves, s->blocks, s->salt, s->normflags, s->flags);
}

static void zap_print(struct zdb_view *v, const struct dnode *dn)
{
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct zap_cursor *c;
	struct zap_stats s;
	int err = zap_get_stats(v->os, dn->object, &s);

	if (!err) {
		zap_stats_print(&s);
		err = zap_cursor_open(v->os, dn->object, 0, &c);
	}
	if (err) {
		printf("\t(%s)\n", err_words(err));
		return;
	}
	while ((err = zap_cursor_next(c, ze)) != -ENOENT && !cli_interrupted) {
		if (err) {
			printf("\t\t(%s)\n", err_words(err));
			if (err != -EIO)
				break;
			continue;
		}
		zap_entry_print(v, dn, c, ze);
	}
	zap_cursor_close(c);
}

/* ---- others ---- */

static void nvlist_object_print(struct zdb_view *v, struct dnode *dn)
{
	uint64_t size = bonus_word(dn, 0);
	autofree void *data = size && size <= NVLIST_MAX ? malloc(size) : NULL;
	autonv struct nvlist *list = NULL;
	struct str text = {NULL, 0, 0};
	struct err e = ERR_INIT;

	if (!data || dmu_read(dn, 0, data, size, 0) || nvlist_unpack(data, size, &list, &e)) {
		printf("\t\t(no list: %s)\n", e.text[0] ? e.text : "unreadable");
		return;
	}
	nvlist_print(list, 8, &text);
	fputs(str_get(&text), stdout);
	str_free(&text);
}

static void words_print(struct zdb_view *v, struct dnode *dn)
{
	uint64_t n = MIN((dn->maxblkid + 1) * dn->datablksz, 65536) / 8, last = 0;
	autofree uint64_t *w = xcalloc(n ? n : 1, 8);

	if (v->level < 5 || dmu_read(dn, 0, w, n * 8, 0))
		return;
	for (uint64_t i = 0; i < n; i++)
		if (w[i])
			last = i + 1;
	for (uint64_t i = 0; i < last; i++)
		printf("%s%" PRIu64 "%s", i % 8 ? " " : "\t\t", dn->swapped ? __builtin_bswap64(w[i]) : w[i],
		       i % 8 == 7 || i + 1 == last ? "\n" : "");
}

static void flags_print(const struct dnode *dn)
{
	printf("\tdnode flags: %s%s%s%s\n", dn->flags & 1 ? "USED_BYTES " : "",
	       dn->flags & 2 ? "USERUSED_ACCOUNTED " : "", dn->flags & 8 ? "USEROBJUSED_ACCOUNTED " : "",
	       dn->has_spill ? "SPILL_BLKPTR" : "");
	printf("\tdnode maxblkid: %" PRIu64 "\n", dn->maxblkid);
}

static void bonus_print(struct zdb_view *v, struct dnode *dn)
{
	switch (dn->bonustype) {
	case OT_DSL_DIR:
		dir_print(v, dn);
		return;
	case OT_DSL_DATASET:
		dataset_print(v, dn);
		return;
	case OT_BPOBJ_HEADER:
		bpobj_print(v, dn);
		return;
	case OT_SPACE_MAP_HEADER:
		spacemap_header_print(v, dn);
		return;
	case OT_HISTORY_OFFSETS:
		history_offsets_print(v, dn);
		return;
	case OT_ZNODE:
	case OT_SA:
		file_print(v, dn);
		return;
	default:
		return;
	}
}

static void contents_print(struct zdb_view *v, struct dnode *dn)
{
	bonus_print(v, dn);
	if (type_is_zap(dn->type))
		zap_print(v, dn);
	else if (dn->type == OT_PACKED_NVLIST)
		nvlist_object_print(v, dn);
	else if (dn->type == OT_OBJECT_ARRAY || dn->type == 0xc3)
		words_print(v, dn);
}

void zdb_object(struct zdb_view *v, struct dnode *dn)
{
	bool sealed = v->os->encrypted && !v->os->key && dmu_type_is_encrypted(dn->type);

	if (v->z->nobjects)
		v->level = MAX(v->level, 1u);
	heading_print(v, dn);
	if (v->level < 4)
		return;
	flags_print(dn);
	if (sealed || dn->bonus_encrypted)
		puts("\t\t(object encrypted)");
	else if (dn->object != 0)
		contents_print(v, dn);
	if (v->level >= 5)
		pointers_print(v, dn);
}
