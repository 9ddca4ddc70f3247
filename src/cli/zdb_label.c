#include "cli/zdb.h"

#include "disk/disk.h"
#include "vdev/label.h"
#include "zio/bp.h"

#define LABEL_NVLIST_SIZE (112u << 10) /* 01-pool.md 2.1 */
#define ASHIFT_FALLBACK   10           /* slots of 1 KiB, as the smallest ashift has them */

void zdb_uberblock(const struct zdb *z, const struct uberblock *ub, unsigned level)
{
	char date[64];
	struct str text = {NULL, 0, 0};
	struct bp bp;

	printf("\tmagic = %016llx\n\tversion = %" PRIu64 "\n\ttxg = %" PRIu64 "\n\tguid_sum = %" PRIu64 "\n",
	       0x00bab10cULL, ub->version, ub->txg, ub->guid_sum);
	printf("\ttimestamp = %" PRIu64 " UTC = %s\n", ub->timestamp, zdb_date(ub->timestamp, date));
	if (ub->mmp_magic) {
		printf("\tmmp_magic = %016" PRIx64 "\n\tmmp_delay = %" PRIu64 "\n\tmmp_valid = %u\n", ub->mmp_magic,
		       ub->mmp_delay, uberblock_mmp_sequence(ub) ? 1u : 0u);
		if (ub->mmp_config)
			printf("\tmmp_config = %016" PRIx64 "\n", ub->mmp_config);
	}
	if (level > 2) {
		bp_decode(&bp, ub->rootbp, ub->swapped);
		bp_print(&bp, &text);
		printf("\trootbp = %s\n", str_get(&text));
		str_free(&text);
	}
	printf("\tcheckpoint_txg = %" PRIu64 "\n", ub->checkpoint_txg);
	if (ub->raidz_reflow_info)
		printf("\traidz_reflow_info = %016" PRIx64 "\n", ub->raidz_reflow_info);
}

void zdb_config(struct zdb *z)
{
	struct str text = {NULL, 0, 0};

	nvlist_print(z->spa->config, 8, &text);
	printf("\nMOS Configuration:\n%s", str_get(&text));
	str_free(&text);
}

/* ---- labels: equal ones are shown once, with the numbers of all that are equal ---- */

struct ring_slot {
	struct uberblock ub;
	unsigned label, slot;
};
struct labels {
	struct zdb *z;
	struct disk *disk;
	struct label label[VDEV_LABELS];
	void *packed[VDEV_LABELS]; /* the configuration in one form, to compare */
	size_t len[VDEV_LABELS];
	struct ring_slot *ring;
	size_t nring;
};

static bool label_equal(const struct labels *l, unsigned a, unsigned b)
{
	return l->packed[a] && l->packed[b] && l->len[a] == l->len[b] &&
	       memcmp(l->packed[a], l->packed[b], l->len[a]) == 0;
}

static bool uberblock_equal(const struct ring_slot *a, const struct ring_slot *b)
{
	return a->slot == b->slot && a->ub.txg == b->ub.txg && a->ub.timestamp == b->ub.timestamp &&
	       memcmp(a->ub.rootbp, b->ub.rootbp, sizeof(a->ub.rootbp)) == 0;
}

static void ring_take(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct labels *l = arg;

	l->ring = xrealloc(l->ring, (l->nring + 1) * sizeof(*l->ring));
	l->ring[l->nring++] = (struct ring_slot){*ub, label, slot};
}

static unsigned label_ashift(const struct labels *l, unsigned i)
{
	struct nvlist *tree;
	unsigned ashift = ASHIFT_FALLBACK;

	for (unsigned k = 0; k < VDEV_LABELS; k++) {
		unsigned at = (i + k) % VDEV_LABELS;

		if (!l->label[at].config || nvlist_list(l->label[at].config, "vdev_tree", &tree))
			continue;
		ashift = (unsigned)nvlist_u64_or(tree, "ashift", ASHIFT_FALLBACK);
		break;
	}
	return MIN(ashift, 16u);
}

struct tally {
	size_t count[4], bytes[4];
};

static void tally_add(struct tally *t, unsigned kind, const struct nvlist *one)
{
	void *packed;
	size_t len;

	if (nvlist_pack(one, NV_XDR, &packed, &len))
		return;
	free(packed);
	t->count[kind]++;
	t->bytes[kind] += len - 20; /* header and end of a list of its own */
}

/* Each pair is measured by packing a list that holds it alone. */
static void tally_list(struct tally *t, const struct nvlist *list)
{
	for (const struct nvpair *p = nvlist_first(list); p; p = nvlist_next(list, p)) {
		autonv struct nvlist *one = nvlist_create();
		enum nv_type type = nvpair_type(p);

		if (type == NV_NVLIST || type == NV_NVLIST_ARRAY) {
			for (size_t i = 0; i < nvpair_count(p); i++)
				tally_list(t, nvpair_list(p, i));
			t->count[3]++;
		} else if (type == NV_STRING) {
			nvlist_add_string(one, nvpair_name(p), nvpair_string(p, 0));
			tally_add(t, 1, one);
		} else if (type == NV_BOOLEAN) {
			nvlist_add_boolean(one, nvpair_name(p));
			tally_add(t, 2, one);
		} else if (type == NV_UINT64) {
			nvlist_add_u64(one, nvpair_name(p), nvpair_int(p, 0));
			tally_add(t, 0, one);
		}
	}
}

static void label_stats(const struct labels *l, unsigned i)
{
	static const char *const kinds[] = {"integers", "strings", "booleans", "nvlists"};
	struct tally t = {{0, 0, 0, 1}, {0}};
	size_t used = l->len[i], rest = used;

	tally_list(&t, l->label[i].config);
	for (unsigned k = 0; k < 3; k++)
		rest -= MIN(rest, t.bytes[k]);
	t.bytes[3] = rest;
	printf("\n\nZFS Label NVList Config Stats:\n  %zu bytes used, %zu bytes free (using %4.1f%%)\n\n", used,
	       (size_t)LABEL_NVLIST_SIZE - 40 - MIN(used, (size_t)LABEL_NVLIST_SIZE - 40),
	       100.0 * (double)used / (LABEL_NVLIST_SIZE - 40));
	for (unsigned k = 0; k < ARRAY_LEN(kinds); k++)
		printf("%11s: %4zu %6zu bytes (%5.2f%%)\n", kinds[k], t.count[k], t.bytes[k],
		       100.0 * (double)t.bytes[k] / (double)used);
	puts("\n");
}

static void label_heading(unsigned i, bool damaged)
{
	printf("------------------------------------\nLABEL %u%s\n------------------------------------\n", i,
	       damaged ? " (Bad label cksum)" : "");
}

static void label_print(struct labels *l, unsigned i, unsigned level)
{
	struct label *lb = &l->label[i];
	struct str text = {NULL, 0, 0};
	bool shown = false;

	for (unsigned k = 0; k < i; k++)
		shown |= label_equal(l, k, i);
	if (shown && level < 3)
		return;
	label_heading(i, lb->config && lb->err);
	if (!lb->config) {
		printf("failed to read label %u: %s\n", i, err_words(lb->err));
		return;
	}
	nvlist_print(lb->config, 4, &text);
	fputs(str_get(&text), stdout);
	str_free(&text);
	printf("    labels = ");
	for (unsigned k = 0; k < VDEV_LABELS; k++)
		if (k == i || label_equal(l, i, k))
			printf("%u ", k);
	putchar('\n');
	if (level >= 2)
		label_stats(l, i);
}

static void ring_print(struct labels *l, unsigned i, unsigned level)
{
	for (size_t u = 0; u < l->nring; u++) {
		bool shown = false;

		if (l->ring[u].label != i)
			continue;
		for (size_t k = 0; k < u && level < 3; k++)
			shown |= uberblock_equal(&l->ring[k], &l->ring[u]);
		if (shown)
			continue;
		printf("    Uberblock[%u]\n", l->ring[u].slot);
		zdb_uberblock(l->z, &l->ring[u].ub, level > 1 ? 4 : 0);
		printf("        labels = ");
		for (size_t k = 0; k < l->nring; k++)
			if (uberblock_equal(&l->ring[k], &l->ring[u]))
				printf("%u ", l->ring[k].label);
		putchar('\n');
	}
}

static void labels_read(struct labels *l)
{
	for (unsigned i = 0; i < VDEV_LABELS; i++)
		if (l->label[i].config && nvlist_pack(l->label[i].config, NV_XDR, &l->packed[i], &l->len[i]))
			l->packed[i] = NULL;
	if (!zdb_has(l->z, 'u'))
		return;
	for (unsigned i = 0; i < VDEV_LABELS; i++)
		uberblock_each(l->disk, i, label_ashift(l, i), ring_take, l);
}

static int labels_print(struct labels *l)
{
	unsigned level = zdb_level(l->z, 'l'), sound = 0;
	bool quiet = zdb_has(l->z, 'q');

	labels_read(l);
	for (unsigned i = 0; i < VDEV_LABELS; i++) {
		sound += l->label[i].config && !l->label[i].err;
		if (!quiet)
			label_print(l, i, level);
		if (!quiet && zdb_has(l->z, 'u'))
			ring_print(l, i, level);
	}
	return sound ? CLI_OK : 2; /* as zdb: 2 when no label is sound */
}

int zdb_labels(struct zdb *z, const char *device)
{
	struct labels l = {.z = z};
	struct err e = ERR_INIT;
	int rc;

	if (disk_open(device, DISK_RDONLY, &l.disk, &e)) {
		fprintf(stderr, "zdb: cannot open %s\n", e.text);
		return CLI_ERROR;
	}
	if (label_read_all(l.disk, l.label)) {
		fprintf(stderr, "zdb: '%s' is too small to hold labels\n", device);
		disk_close(l.disk);
		return CLI_ERROR;
	}
	rc = labels_print(&l);
	label_free_all(l.label);
	for (unsigned i = 0; i < VDEV_LABELS; i++)
		free(l.packed[i]);
	free(l.ring);
	disk_close(l.disk);
	return rc;
}
