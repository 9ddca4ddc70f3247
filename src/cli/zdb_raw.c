/* -R: bytes at a place of a top-level vdev, as they are stored or decompressed. */
#include "cli/zdb.h"

#include "base/sync.h"

#define RAW_SIZE_MAX (16u << 20)
#define GANG_SIZE    512u
#define GANG_TRAILER 40u

struct raw {
	struct zdb *z;
	struct vdev *top;
	uint64_t offset, psize, lsize;
	unsigned blkptr_at;
	bool flag[128];
	struct buf *buf;
	uint64_t len; /* of what is shown */
};

/* The configuration's path of children: "0", "0.1.2", or a leaf's device name or guid. */
static struct vdev *vdev_find(struct vdev *root, const char *word)
{
	struct vdev *vd = root, *by_guid;
	char *end;

	for (const char *p = word;; p = end + 1) {
		uint64_t i = strtoull(p, &end, 10);

		if (end == p || (*end && *end != '.') || i >= vd->nchildren)
			break;
		vd = vd->child[i];
		if (!*end)
			return vd;
	}
	by_guid = vdev_by_guid(root, strtoull(word, NULL, 10));
	return by_guid && by_guid != root ? by_guid : NULL;
}

static bool flags_take(struct raw *r, const char *word)
{
	for (; *word; word++) {
		if (!strchr("rdbigce", *word))
			return false;
		r->flag[(unsigned char)*word] = true;
		if (*word == 'b' && word[1] >= '0' && word[1] <= '9')
			r->blkptr_at = (unsigned)strtoul(word + 1, (char **)&word, 16), word--;
	}
	return true;
}

static bool sizes_take(struct raw *r, const char *word)
{
	char *end;

	r->psize = r->lsize = strtoull(word, &end, 16);
	if (*end == '/')
		r->psize = strtoull(end + 1, &end, 16);
	return *end == '\0' && r->psize && r->psize % 512 == 0 && r->lsize >= r->psize && r->lsize <= RAW_SIZE_MAX;
}

/* VDEV:OFFSET:SIZE[:FLAGS], numbers in hex. */
static bool spec_parse(struct raw *r, const char *spec)
{
	autofree char *copy = xstrdup(spec);
	char *save = NULL, *vdev = strtok_r(copy, ":", &save), *offset = strtok_r(NULL, ":", &save),
	     *size = strtok_r(NULL, ":", &save), *flags = strtok_r(NULL, ":", &save), *end;

	if (!vdev || !offset || !size || strtok_r(NULL, ":", &save))
		return false;
	r->offset = strtoull(offset, &end, 16);
	r->top = vdev_find(r->z->spa->root, vdev);
	return r->top && *end == '\0' && r->offset % 512 == 0 && sizes_take(r, size) &&
	       (!flags || flags_take(r, flags));
}

/* ---- reading ---- */

static void read_done(struct vdev_io *io, int err)
{
	waiter_done(io->arg, err);
}

static int raw_read(struct raw *r)
{
	struct waiter w;
	struct vdev_io io = {.offset = r->offset, .size = r->psize, .txg = 0, .done = read_done, .arg = &w};

	r->buf = buf_alloc(ROUND_UP(r->psize, UINT64_C(1) << r->top->ashift) + (UINT64_C(1) << 16));
	if (!r->buf)
		return -ENOMEM;
	memset(r->buf->data, 0, r->buf->size);
	io.data = r->buf->data;
	io.txg = r->z->spa->uberblock.txg;
	waiter_init(&w);
	vdev_read(r->top, &io);
	r->len = r->psize;
	return waiter_wait(&w);
}

static int decompress_try(struct raw *r, enum compress c, size_t lsize)
{
	struct buf *out = buf_alloc(lsize);
	int err = out ? decompress(c, r->buf->data, r->psize, out->data, lsize) : -ENOMEM;

	if (err) {
		buf_release(out);
		return err;
	}
	fprintf(stderr, "zdb: decompressed by %s to %zx\n", compress_name(c), lsize);
	buf_release(r->buf);
	r->buf = out;
	r->len = lsize;
	return 0;
}

/* The algorithm is not known: the ones that check what they read first. With a given logical size only that is tried.
 */
static int raw_decompress(struct raw *r)
{
	static const enum compress order[] = {COMPRESS_LZ4, COMPRESS_ZSTD, COMPRESS_GZIP_1, COMPRESS_LZJB,
					      COMPRESS_ZLE};
	bool known = r->lsize > r->psize;

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		for (uint64_t l = known ? r->lsize : r->psize + 512; l <= (known ? r->lsize : RAW_SIZE_MAX);
		     l = l < (128u << 10) ? l + 512 : 2 * l)
			if (decompress_try(r, order[i], l) == 0)
				return 0;
	return -EINVAL;
}

/* ---- showing ---- */

static void hex_print(const struct raw *r)
{
	puts("          0 1 2 3 4 5 6 7   8 9 a b c d e f  0123456789abcdef");
	for (uint64_t at = 0; at < r->len; at += 16) {
		const uint8_t *p = r->buf->data + at;
		char text[17];

		for (unsigned i = 0; i < 16; i++)
			text[i] = p[i] >= 32 && p[i] < 127 ? (char)p[i] : '.';
		text[16] = '\0';
		printf("%06" PRIx64 ":  %016" PRIx64 "  %016" PRIx64 "  %s\n", at, load_host64(p), load_host64(p + 8),
		       text);
	}
}

static void pointers_print(const struct raw *r, uint64_t from, uint64_t to, bool swap)
{
	for (uint64_t at = from; at + BP_SIZE <= to; at += BP_SIZE) {
		struct str text = {NULL, 0, 0};
		struct bp bp;

		bp_decode(&bp, r->buf->data + at, swap);
		if (bp_check(&bp))
			str_add(&text, "(no block pointer)");
		else
			bp_print(&bp, &text);
		puts(str_get(&text));
		str_free(&text);
	}
}

/* The checksums that a pointer to this block would have, by the algorithms that need no secret. */
static void checksums_print(const struct raw *r)
{
	static const enum checksum ids[] = {CHECKSUM_FLETCHER_2, CHECKSUM_FLETCHER_4, CHECKSUM_SHA256, CHECKSUM_SHA512,
					    CHECKSUM_SKEIN,      CHECKSUM_EDONR,      CHECKSUM_BLAKE3};

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		struct cksum s;

		if (checksum_compute(ids[i], r->z->spa->zp.salt, r->buf->data, r->psize, false, &s) == 0)
			printf("%12s\tcksum=%016" PRIx64 ":%016" PRIx64 ":%016" PRIx64 ":%016" PRIx64 "\n",
			       checksum_name(ids[i]), s.word[0], s.word[1], s.word[2], s.word[3]);
	}
}

static void raw_show(const struct raw *r, const char *spec)
{
	bool swap = r->flag['e'];

	if (r->flag['r']) {
		fwrite(r->buf->data, 1, r->len, stdout);
		return;
	}
	if (r->flag['b']) {
		pointers_print(r, r->blkptr_at, r->blkptr_at + BP_SIZE, swap);
		return;
	}
	if (r->flag['i']) {
		pointers_print(r, 0, r->len, swap);
		return;
	}
	if (r->flag['g']) {
		pointers_print(r, 0, MIN(r->len, GANG_SIZE) - GANG_TRAILER, swap);
		return;
	}
	printf("\n%s\n", spec);
	hex_print(r);
}

static void raw_one(struct raw *r, const char *spec)
{
	int err = raw_read(r);

	if (err) {
		zdb_warn(r->z, "%s: %s", spec, err_words(err));
		return;
	}
	if (r->flag['c'])
		checksums_print(r);
	if (r->flag['d'] && raw_decompress(r)) {
		zdb_warn(r->z, "%s: no algorithm decompresses it", spec);
		return;
	}
	raw_show(r, spec);
}

void zdb_raw(struct zdb *z, char **specs, int n)
{
	for (int i = 0; i < n; i++) {
		struct raw r = {.z = z};

		if (!spec_parse(&r, specs[i])) {
			fprintf(stderr, "zdb: invalid block specifier '%s': VDEV:OFFSET:SIZE[:FLAGS] is wanted\n",
				specs[i]);
			z->rc = CLI_USAGE;
			continue;
		}
		raw_one(&r, specs[i]);
		buf_release(r.buf);
	}
}
