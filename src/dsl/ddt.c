/* Deduplication tables, legacy and fast, with their logs. See dsl/ddt.h; sections are those of chapter 04. */
#include <stdio.h>

#include "base/tree.h"
#include "dsl/ddt.h"

#define MOS_DIRECTORY    1
#define KEY_WORDS        5
#define SLOT_WORDS       8
#define FLAT_WORDS       9 /* a slot and the time of the last change */
#define LEGACY_WORDS     32
#define VALUE_MAX        (1 + 8 * LEGACY_WORDS)
#define LOG_HEADER_BYTES 64
#define LOG_VERSION      1
#define LOG_BLOCK_MAX    BLOCK_MAX
#define RECORD_HEAD      48 /* type word and key */
#define TYPE_DEDUP       49

static const enum checksum ddt_checksums[] = {CHECKSUM_SHA256, CHECKSUM_SHA512, CHECKSUM_SKEIN, CHECKSUM_EDONR,
					      CHECKSUM_BLAKE3};

const char *ddt_class_name(unsigned cls)
{
	static const char *const names[DDT_CLASSES] = {"ditto", "duplicate", "unique"};

	return cls < DDT_CLASSES ? names[cls] : "unknown";
}

/* --- entries --- */

static void payload_decode(const uint8_t *raw, bool flat, bool swap, struct ddt_entry *e)
{
	e->nphys = flat ? 1 : 4;
	for (unsigned i = 0; i < e->nphys; i++) {
		const uint8_t *slot = raw + 8 * SLOT_WORDS * i;

		for (unsigned w = 0; w < 6; w++)
			e->phys[i].dva[w] = load64(slot + 8 * w, swap);
		e->phys[i].refcount = load64(slot + 48, swap);
		e->phys[i].birth = load64(slot + 56, swap);
	}
	e->changed = flat ? load64(raw + 64, swap) : 0;
}

int ddt_value_decode(const uint8_t *value, size_t len, bool flat, struct ddt_entry *e)
{
	size_t raw_size = 8 * (flat ? FLAT_WORDS : LEGACY_WORDS);
	uint8_t raw[8 * LEGACY_WORDS];
	unsigned compress;

	if (len < 2)
		return -EINVAL;
	compress = value[0] & 0x7f;
	if (compress == COMPRESS_OFF && len - 1 == raw_size)
		memcpy(raw, value + 1, raw_size);
	else if (compress != COMPRESS_ZLE || decompress(COMPRESS_ZLE, value + 1, len - 1, raw, raw_size))
		return -EINVAL;
	payload_decode(raw, flat, (value[0] >> 7) != HOST_IS_LITTLE, e);
	return 0;
}

uint64_t ddt_entry_refs(const struct ddt_entry *e)
{
	uint64_t refs = 0;

	for (unsigned i = 0; i < e->nphys; i++)
		if (e->phys[i].birth)
			refs += e->phys[i].refcount;
	return refs;
}

void ddt_entry_bp(const struct ddt_entry *e, unsigned i, struct bp *bp)
{
	memset(bp, 0, sizeof(*bp));
	memcpy(bp->w, e->phys[i].dva, sizeof(e->phys[i].dva));
	bp->w[6] = bits64(e->prop, 0, 39) | (uint64_t)e->checksum << 40 | (uint64_t)TYPE_DEDUP << 48 |
		   bits64(e->prop, 39, 1) << 61 | UINT64_C(1) << 62 | (uint64_t)HOST_IS_LITTLE << 63;
	bp->w[10] = e->phys[i].birth;
	bp->w[11] = 1;
	memcpy(&bp->w[12], &e->key, sizeof(e->key));
}

static void key_decode(const uint8_t *words, bool swap, struct ddt_entry *e)
{
	for (unsigned i = 0; i < 4; i++)
		e->key.word[i] = load64(words + 8 * i, swap);
	e->prop = load64(words + 32, swap);
}

static int key_cmp(const struct ddt_entry *a, const struct ddt_entry *b)
{
	for (unsigned i = 0; i < 4; i++)
		if (a->key.word[i] != b->key.word[i])
			return a->key.word[i] < b->key.word[i] ? -1 : 1;
	return a->prop == b->prop ? 0 : a->prop < b->prop ? -1 : 1;
}

/* --- histograms (A2.6) --- */

#define BUCKET_WORDS 8
_Static_assert(sizeof(struct ddt_histogram) == 8 * BUCKET_WORDS * DDT_BUCKETS, "04, A2.6: 512 words");

static void histogram_add_words(uint64_t *to, const uint64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

void ddt_histogram_add(struct ddt_histogram *to, const struct ddt_histogram *h)
{
	histogram_add_words((uint64_t *)to, (const uint64_t *)h, BUCKET_WORDS * DDT_BUCKETS);
}

struct ddt_bucket ddt_histogram_total(const struct ddt_histogram *h)
{
	struct ddt_bucket sum = {0};

	for (unsigned i = 0; i < DDT_BUCKETS; i++)
		histogram_add_words((uint64_t *)&sum, (const uint64_t *)&h->bucket[i], BUCKET_WORDS);
	return sum;
}

static uint64_t bp_dsize(struct dsl_pool *p, const struct bp *bp)
{
	const struct vdev *root = p->dp->zp->root;
	uint64_t dsize = 0;

	for (unsigned i = 0; i < BP_DVAS; i++) {
		struct dva d = bp_dva(bp, i);

		if (d.asize == 0 || (i == BP_DVAS - 1 && bp_is_encrypted(bp)))
			continue;
		if (p->deflate && d.vdev < root->nchildren)
			dsize += (d.asize >> SECTOR_SHIFT) * vdev_deflate_ratio(root->child[d.vdev]);
		else
			dsize += d.asize;
	}
	return dsize;
}

static void histogram_add_entry(struct dsl_pool *p, struct ddt_histogram *h, const struct ddt_entry *e)
{
	uint64_t refs = ddt_entry_refs(e);
	struct ddt_bucket *b;

	if (refs == 0)
		return;
	b = &h->bucket[63 - __builtin_clzll(refs)];
	for (unsigned i = 0; i < e->nphys; i++) {
		uint64_t n = e->phys[i].refcount, dsize;
		struct bp bp;

		if (e->phys[i].birth == 0)
			continue;
		ddt_entry_bp(e, i, &bp);
		dsize = bp_dsize(p, &bp);
		histogram_add_words((uint64_t *)b,
				    (uint64_t[]){1, bp_lsize(&bp), bp_psize(&bp), dsize, n, n * bp_lsize(&bp),
						 n * bp_psize(&bp), n * dsize},
				    BUCKET_WORDS);
	}
}

/* --- the log (A2.7) --- */

struct logged {
	struct tree_node node;
	struct ddt_entry e;
};

static int logged_cmp(const struct tree_node *a, const struct tree_node *b)
{
	return key_cmp(&container_of(a, struct logged, node)->e, &container_of(b, struct logged, node)->e);
}

static void logged_clear(struct tree *t)
{
	struct tree_node *n;

	while ((n = tree_first(t))) {
		tree_remove(t, n);
		free(container_of(n, struct logged, node));
	}
}

/* Later records replace earlier ones of the same key; true when one was. */
static bool logged_put(struct tree *t, const struct ddt_entry *e)
{
	struct logged *l = xmalloc(sizeof(*l));
	struct tree_node *old;

	memset(&l->node, 0, sizeof(l->node));
	l->e = *e;
	old = tree_insert(t, &l->node);
	if (!old)
		return false;
	container_of(old, struct logged, node)->e = *e;
	free(l);
	return true;
}

static const struct ddt_entry *logged_find(const struct tree *t, const struct ddt_entry *e)
{
	struct logged key = {.e = *e};
	struct tree_node *n = tree_find(t, &key.node);

	return n ? &container_of(n, struct logged, node)->e : NULL;
}

int ddt_log_block_each(const uint8_t *block, size_t size, bool flat, bool swap,
		       int (*fn)(void *arg, const struct ddt_entry *e), void *arg)
{
	size_t want = RECORD_HEAD + 8 * (flat ? FLAT_WORDS : LEGACY_WORDS);

	for (size_t at = 0; size - at >= 8; at += want) {
		uint64_t head = load64(block + at, swap);
		struct ddt_entry e = {.logged = true};
		int err;

		if (bits64(head, 0, 8) == 0)
			return 0;
		if (bits64(head, 0, 8) != 1 || bits64(head, 8, 16) != want || size - at < want)
			return -EINVAL;
		key_decode(block + at + 8, swap, &e);
		payload_decode(block + at + RECORD_HEAD, flat, swap, &e);
		e.cls = ddt_entry_refs(&e) > 1 ? DDT_DUPLICATE : DDT_UNIQUE;
		err = fn(arg, &e);
		if (err)
			return err;
	}
	return 0;
}

struct log_load {
	struct tree *tree;
	enum checksum checksum;
	const struct ddt_entry *checkpoint; /* keys up to it are flushed already; NULL: none */
	uint64_t records;
};

static int log_load_record(void *arg, const struct ddt_entry *e)
{
	struct log_load *l = arg;
	struct ddt_entry copy = *e;

	copy.checksum = l->checksum;
	if (!l->checkpoint || key_cmp(e, l->checkpoint) > 0)
		logged_put(l->tree, &copy);
	return 0;
}

static int log_load_blocks(struct dnode *dn, uint64_t length, bool flat, struct log_load *l)
{
	autofree uint8_t *block = malloc(dn->datablksz);
	int err = block ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < length && !err; at += dn->datablksz) {
		err = dmu_read(dn, at, block, dn->datablksz, DMU_READ_NOCACHE);
		if (!err)
			err = ddt_log_block_each(block, dn->datablksz, flat, dn->swapped, log_load_record, l);
	}
	return err;
}

static uint64_t dnode_fill(const struct dnode *dn)
{
	uint64_t fill = 0;

	for (unsigned i = 0; i < dn->nblkptr; i++)
		if (!bp_is_hole(&dn->blkptr[i]))
			fill += bp_fill(&dn->blkptr[i]);
	return fill;
}

static int log_header_decode(const struct dnode *dn, struct ddt_log *log, struct ddt_entry *checkpoint, struct err *e)
{
	uint64_t head;

	if (dn->bonuslen < LOG_HEADER_BYTES || dn->datablksz == 0 || dn->datablksz > LOG_BLOCK_MAX)
		return err_set(e, -EINVAL, "%s: damaged header", log->name);
	head = load64(dn->bonus, dn->swapped);
	if (bits64(head, 0, 8) != LOG_VERSION)
		return err_set(e, -ENOTSUP, "%s: version %u is not supported", log->name, (unsigned)bits64(head, 0, 8));
	log->flags = (unsigned)bits64(head, 8, 8);
	log->length = load64(dn->bonus + 8, dn->swapped);
	log->first_txg = load64(dn->bonus + 16, dn->swapped);
	key_decode(dn->bonus + 24, dn->swapped, checkpoint);
	/* a log is dense: a length from a damaged header must not be followed through holes */
	if (log->length % dn->datablksz || log->length / dn->datablksz > dnode_fill(dn))
		return err_set(e, -EINVAL, "%s: damaged length", log->name);
	return 0;
}

static uint64_t dnode_bytes_on_disk(const struct dnode *dn)
{
	return ROUND_DOWN(dn->used + 256, 512);
}

static int log_load(struct dsl_pool *p, struct ddt_table *t, struct ddt_log *log, struct tree *tree, struct err *e)
{
	struct ddt_entry checkpoint = {0};
	struct log_load l = {.tree = tree, .checksum = t->checksum};
	struct dnode *dn;
	int err = dnode_hold(p->mos, log->object, &dn, e);

	if (err)
		return err_prefix(e, err, "%s", log->name);
	err = log_header_decode(dn, log, &checkpoint, e);
	if (!err) {
		l.checkpoint = log->flags & DDT_LOG_CHECKPOINT ? &checkpoint : NULL;
		err = log_load_blocks(dn, log->length, t->flags & DDT_FLAT, &l);
		if (err)
			err_set(e, err, "%s: %s", log->name, err_words(err));
	}
	log->bytes_on_disk = dnode_bytes_on_disk(dn);
	log->entries = tree->len;
	dnode_release(dn);
	return err;
}

/* Move all entries; returns how many replaced others. */
static uint64_t logged_merge(struct tree *to, struct tree *from)
{
	uint64_t replaced = 0;

	for (struct tree_node *n = tree_first(from); n; n = tree_next(n))
		replaced += logged_put(to, &container_of(n, struct logged, node)->e);
	logged_clear(from);
	return replaced;
}

/* All logged entries of a table into `out` (an empty tree). */
static int table_logs_load(struct dsl_pool *p, struct ddt_table *t, struct tree *out, struct err *e)
{
	struct tree tree[2];
	int err = 0;

	tree_init(&tree[0], logged_cmp);
	tree_init(&tree[1], logged_cmp);
	for (unsigned i = 0; i < 2 && !err; i++)
		if (t->log[i].object)
			err = log_load(p, t, &t->log[i], &tree[i], e);
	if (!err) {
		unsigned flushing = t->log[0].flags & DDT_LOG_FLUSHING ? 0 : 1;

		/* entries of the active log win over those of the one being flushed */
		logged_merge(out, &tree[flushing]);
		t->log[flushing].entries -= logged_merge(out, &tree[!flushing]);
	}
	logged_clear(&tree[0]);
	logged_clear(&tree[1]);
	return err;
}

/* --- tables (A2.2) --- */

/* 0 and object 0 when there is no such entry. */
static int lookup_optional(struct dsl_pool *p, uint64_t zap, const char *name, uint64_t *v)
{
	int err = zap_lookup_u64(p->mos, zap, name, v);

	if (err == -ENOENT) {
		*v = 0;
		return 0;
	}
	return err;
}

static int object_load(struct dsl_pool *p, uint64_t stats, struct ddt_object *o, struct err *e)
{
	struct dnode *dn;
	int err = dnode_hold(p->mos, o->object, &dn, e);

	if (err)
		return err_prefix(e, err, "%s", o->name);
	o->bytes_on_disk = dnode_bytes_on_disk(dn);
	o->bytes_in_core = dnode_fill(dn) * dn->datablksz;
	dnode_release(dn);
	err = zap_count(p->mos, o->object, &o->entries);
	if (!err)
		err = zap_lookup(p->mos, stats, o->name, 8, BUCKET_WORDS * DDT_BUCKETS, &o->histogram);
	if (err == -ENOENT) /* an object without entries needs no histogram */
		err = 0;
	return err ? err_set(e, err, "%s: %s", o->name, err_words(err)) : 0;
}

static int table_objects_find(struct dsl_pool *p, uint64_t stats, struct ddt_table *t, bool *found, struct err *e)
{
	const char *alg = checksum_name(t->checksum);

	for (unsigned c = 0; c < DDT_CLASSES; c++) {
		struct ddt_object *o = &t->cls[c];
		int err;

		snprintf(o->name, sizeof(o->name), "DDT-%s-zap-%s", alg, ddt_class_name(c));
		err = lookup_optional(p, t->root, o->name, &o->object);
		if (err)
			return err_set(e, err, "%s: %s", o->name, err_words(err));
		if (!o->object)
			continue;
		*found = true;
		err = object_load(p, stats, o, e);
		if (err)
			return err;
	}
	return 0;
}

static int table_fast_header(struct dsl_pool *p, struct ddt_table *t, const char *name, struct err *e)
{
	uint64_t version, flags;
	int err = zap_lookup_u64(p->mos, t->root, "version", &version);

	if (!err)
		err = zap_lookup_u64(p->mos, t->root, "flags", &flags);
	if (err)
		return err_set(e, err, "%s: %s", name, err_words(err));
	if (version != 1 || flags & ~(uint64_t)(DDT_FLAT | DDT_LOG))
		return err_set(e, -ENOTSUP, "%s: version %llu with flags 0x%llx is not supported", name,
			       (unsigned long long)version, (unsigned long long)flags);
	t->version = (unsigned)version;
	t->flags = (unsigned)flags;
	for (unsigned i = 0; i < 2 && flags & DDT_LOG; i++) {
		struct ddt_log *log = &t->log[i];

		snprintf(log->name, sizeof(log->name), "DDT-log-%s-%u", checksum_name(t->checksum), i);
		err = lookup_optional(p, t->root, log->name, &log->object);
		if (err)
			return err_set(e, err, "%s: %s", log->name, err_words(err));
	}
	return 0;
}

/* *found false: no table of this checksum. */
static int table_load(struct dsl_pool *p, uint64_t stats, enum checksum c, struct ddt_table *t, bool *found,
		      struct err *e)
{
	char name[32];
	int err;

	memset(t, 0, sizeof(*t));
	t->checksum = c;
	*found = false;
	snprintf(name, sizeof(name), "DDT-%s", checksum_name(c));
	err = lookup_optional(p, MOS_DIRECTORY, name, &t->root);
	if (err)
		return err_set(e, err, "%s: %s", name, err_words(err));
	if (t->root) {
		*found = true;
		err = table_fast_header(p, t, name, e);
	} else {
		t->root = MOS_DIRECTORY;
	}
	return err ? err : table_objects_find(p, stats, t, found, e);
}

static int table_log_statistics(struct dsl_pool *p, struct ddt_table *t, struct err *e)
{
	struct tree logged;
	int err;

	tree_init(&logged, logged_cmp);
	err = table_logs_load(p, t, &logged, e);
	for (struct tree_node *n = tree_first(&logged); n; n = tree_next(n))
		histogram_add_entry(p, &t->logged, &container_of(n, struct logged, node)->e);
	logged_clear(&logged);
	return err;
}

static int tables_find(struct dsl_pool *p, struct ddt_table **out, size_t *n, struct err *e)
{
	struct ddt_table *tables;
	uint64_t stats;
	size_t len = 0;
	int err = lookup_optional(p, MOS_DIRECTORY, "DDT-statistics", &stats);

	*out = NULL;
	*n = 0;
	if (err)
		return err_set(e, err, "DDT-statistics: %s", err_words(err));
	if (!stats)
		return 0;
	tables = xcalloc(ARRAY_LEN(ddt_checksums), sizeof(*tables));
	for (size_t i = 0; i < ARRAY_LEN(ddt_checksums) && !err; i++) {
		bool found;

		err = table_load(p, stats, ddt_checksums[i], &tables[len], &found, e);
		len += found;
	}
	if (err || !len) {
		free(tables);
		return err;
	}
	*out = tables;
	*n = len;
	return 0;
}

int ddt_tables_get(struct dsl_pool *p, struct ddt_table **out, size_t *n, struct err *e)
{
	int err = tables_find(p, out, n, e);

	for (size_t i = 0; i < *n && !err; i++)
		err = table_log_statistics(p, &(*out)[i], e);
	if (err) {
		free(*out);
		*out = NULL;
		*n = 0;
	}
	return err;
}

/* --- totals --- */

int ddt_stats_get(struct dsl_pool *p, struct nvlist **out)
{
	autofree struct ddt_table *tables = NULL;
	uint64_t entries = 0, on_disk = 0, in_core = 0;
	struct ddt_histogram h = {0};
	struct ddt_bucket total;
	struct nvlist *l;
	size_t n;
	int err = ddt_tables_get(p, &tables, &n, NULL);

	if (err)
		return err;
	for (size_t i = 0; i < n; i++) {
		for (unsigned c = 0; c < DDT_CLASSES; c++) {
			entries += tables[i].cls[c].entries;
			on_disk += tables[i].cls[c].bytes_on_disk;
			in_core += tables[i].cls[c].bytes_in_core;
			ddt_histogram_add(&h, &tables[i].cls[c].histogram);
		}
		for (unsigned k = 0; k < 2; k++) {
			entries += tables[i].log[k].entries;
			on_disk += tables[i].log[k].bytes_on_disk;
			in_core += tables[i].log[k].entries * sizeof(struct logged);
		}
		ddt_histogram_add(&h, &tables[i].logged);
	}
	total = ddt_histogram_total(&h);
	l = nvlist_create();
	nvlist_add_u64(l, "entries", entries);
	nvlist_add_u64(l, "size_on_disk", on_disk);
	nvlist_add_u64(l, "size_in_core", in_core);
	nvlist_add_u64(l, "dedup_lsize", total.lsize);
	nvlist_add_u64(l, "dedup_psize", total.psize);
	nvlist_add_u64(l, "dedup_dsize", total.dsize);
	nvlist_add_u64(l, "ref_lsize", total.ref_lsize);
	nvlist_add_u64(l, "ref_psize", total.ref_psize);
	nvlist_add_u64(l, "ref_dsize", total.ref_dsize);
	nvlist_add_u64(l, "ratio", total.dsize ? (uint64_t)((__uint128_t)total.ref_dsize * 100 / total.dsize) : 100);
	nvlist_add_u64s(l, "histogram", (const uint64_t *)&h, BUCKET_WORDS * DDT_BUCKETS);
	*out = l;
	return 0;
}

/* --- iteration --- */

struct ddt_walk {
	struct dsl_pool *p;
	const struct ddt_table *t;
	struct tree *logged;
	int (*fn)(void *arg, const struct ddt_entry *e);
	void *arg;
	int damaged; /* first error of an entry that was passed over */
};

static int walk_entry(struct ddt_walk *w, struct zap_cursor *c, const struct zap_entry *ze, unsigned cls)
{
	uint8_t value[VALUE_MAX];
	struct ddt_entry e = {.checksum = w->t->checksum, .cls = cls, .cookie = ze->cookie};

	if (ze->key_words != KEY_WORDS || ze->intsize != 1 || ze->nints > sizeof(value) ||
	    zap_cursor_value(c, value, ze->nints) || ddt_value_decode(value, ze->nints, w->t->flags & DDT_FLAT, &e)) {
		w->damaged = -EINVAL;
		return 0;
	}
	key_decode((const uint8_t *)ze->name, false, &e);
	return logged_find(w->logged, &e) ? 0 : w->fn(w->arg, &e);
}

static int walk_object(struct ddt_walk *w, uint64_t object, unsigned cls)
{
	struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct zap_cursor *c;
	unsigned failures = 0;
	int err = zap_cursor_open(w->p->mos, object, 0, &c);

	if (err) {
		free(ze);
		return err;
	}
	while (!err && (err = zap_cursor_next(c, ze)) != -ENOENT && failures < 1000) {
		if (err) { /* a damaged leaf: go on behind it */
			w->damaged = err;
			failures++;
			err = 0;
		} else {
			err = walk_entry(w, c, ze, cls);
		}
	}
	zap_cursor_close(c);
	free(ze);
	return err == -ENOENT ? 0 : err;
}

static int walk_table(struct ddt_walk *w)
{
	int err = 0;

	for (unsigned c = 0; c < DDT_CLASSES && !err; c++)
		if (w->t->cls[c].object)
			err = walk_object(w, w->t->cls[c].object, c);
	for (struct tree_node *n = tree_first(w->logged); n && !err; n = tree_next(n))
		err = w->fn(w->arg, &container_of(n, struct logged, node)->e);
	return err;
}

int ddt_each(struct dsl_pool *p, int (*fn)(void *arg, const struct ddt_entry *e), void *arg)
{
	struct ddt_walk w = {.p = p, .fn = fn, .arg = arg};
	autofree struct ddt_table *tables = NULL;
	struct tree logged;
	size_t n;
	int err = tables_find(p, &tables, &n, NULL);

	for (size_t i = 0; i < n && !err; i++) {
		tree_init(&logged, logged_cmp);
		w.t = &tables[i];
		w.logged = &logged;
		err = table_logs_load(p, &tables[i], &logged, NULL);
		if (!err)
			err = walk_table(&w);
		logged_clear(&logged);
	}
	return err ? err : w.damaged;
}
