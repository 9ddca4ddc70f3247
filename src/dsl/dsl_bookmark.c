/*
 * dsl/dsl_bookmark.c: bookmarks of a head and redaction lists (03-datasets.md 4.11).
 */
#include "base/str.h"
#include "base/log.h"
#include "dsl/dsl_live.h"

#define BOOKMARK_WORDS_V1   3
#define BOOKMARK_WORDS_V2   12
#define BOOKMARK_HAS_FBN    1u
#define REDACTION_HEADER    32
#define REDACTION_SNAPS_MAX 65536

static void bookmark_decode(const uint64_t *w, struct dsl_bookmark *b)
{
	b->guid = w[0];
	b->creation_txg = w[1];
	b->creation_time = w[2];
	b->redaction_obj = w[3];
	b->flags = w[4];
	b->referenced = w[5];
	b->compressed = w[6];
	b->uncompressed = w[7];
	memcpy(b->fbn, w + 8, sizeof(b->fbn));
	b->ivset_guid = w[11];
	b->ivset_guid_valid = w[11] != 0;
	b->written_valid = w[4] & BOOKMARK_HAS_FBN;
}

static int bookmark_cmp(const void *va, const void *vb)
{
	const struct dsl_bookmark *a = va, *b = vb;

	if (a->creation_txg != b->creation_txg)
		return a->creation_txg < b->creation_txg ? -1 : 1;
	return strcmp(a->name, b->name);
}

static bool bookmark_read(struct zap_cursor *c, const struct zap_entry *ze, struct dsl_bookmark *b)
{
	uint64_t w[BOOKMARK_WORDS_V2] = {0};

	if (ze->key_words || ze->intsize != 8 || ze->nints < BOOKMARK_WORDS_V1 || ze->nints > BOOKMARK_WORDS_V2 ||
	    !dsl_component_is_sane(ze->name) || zap_cursor_value(c, w, ze->nints))
		return false;
	memset(b, 0, sizeof(*b));
	str_copy(b->name, sizeof(b->name), ze->name);
	bookmark_decode(w, b);
	return true;
}

static int bookmarks_collect(struct dsl_dataset *head, uint64_t object, struct dsl_bookmark **list, size_t *n)
{
	struct zap_cursor *c;
	struct zap_entry *ze;
	size_t cap = 0;
	int damage = 0, err = zap_cursor_open(head->pool->mos, object, 0, &c);

	if (err)
		return err;
	ze = xmalloc(sizeof(*ze));
	while (dsl_zap_next(c, ze, &damage) == 0) {
		if (*n == cap) {
			cap = cap ? cap * 2 : 16;
			*list = xrealloc(*list, cap * sizeof(**list));
		}
		if (bookmark_read(c, ze, &(*list)[*n]))
			(*n)++;
		else
			log_warn("%s: a damaged bookmark is left out", head->name);
	}
	free(ze);
	zap_cursor_close(c);
	if (damage)
		log_warn("%s: some bookmarks cannot be listed: %s", head->name, err_words(damage));
	return 0;
}

static int bookmarks_list(struct dsl_dataset *head, struct dsl_bookmark **list, size_t *n)
{
	DSL_SHARED(head->pool);
	uint64_t object;
	int err = dsl_dataset_ext_u64(head, "com.delphix:bookmarks", &object);

	if (err)
		return err == -ENOENT ? 0 : err;
	return bookmarks_collect(head, object, list, n);
}

/* The callback runs without the configuration lock. */
int dsl_each_bookmark(struct dsl_dataset *head, int (*fn)(void *arg, const struct dsl_bookmark *b), void *arg)
{
	autofree struct dsl_bookmark *list = NULL;
	size_t n = 0;
	int err = bookmarks_list(head, &list, &n);

	if (n)
		qsort(list, n, sizeof(*list), bookmark_cmp);
	for (size_t i = 0; i < n && !err; i++)
		err = fn(arg, &list[i]);
	return err;
}

/* last_object, last_blkid, num_entries, num_snaps, then the guids: in the bonus or, when long, in the spill block. */
static int redaction_snaps_decode(const uint8_t *data, size_t len, bool swap, uint64_t **guids, size_t *n)
{
	uint64_t count;

	if (len < REDACTION_HEADER)
		return -EINVAL;
	count = load64(data + 24, swap);
	if (count > REDACTION_SNAPS_MAX || count * 8 > len - REDACTION_HEADER)
		return -EINVAL;
	*n = count;
	*guids = count ? xcalloc(count, 8) : NULL;
	for (size_t i = 0; i < count; i++)
		(*guids)[i] = load64(data + REDACTION_HEADER + 8 * i, swap);
	return 0;
}

int dsl_bookmark_redact_snaps(struct dsl_pool *p, const struct dsl_bookmark *b, uint64_t **guids, size_t *n)
{
	DSL_SHARED(p);
	struct dnode *dn;
	int err;

	*guids = NULL;
	*n = 0;
	if (b->redaction_obj == 0)
		return -ENOENT;
	err = dnode_hold(p->mos, b->redaction_obj, &dn, NULL);
	if (err)
		return err;
	if (dn->has_spill) {
		autobuf struct buf *spill = NULL;

		err = dmu_spill_read(dn, &spill);
		if (!err)
			err = redaction_snaps_decode(spill->data, spill->size, bp_is_swapped(&dn->spill), guids, n);
	} else {
		err = redaction_snaps_decode(dn->bonus, dn->bonuslen, dn->swapped, guids, n);
	}
	dnode_release(dn);
	return err;
}

int dsl_dataset_redact_snaps(struct dsl_dataset *ds, uint64_t **guids, size_t *n)
{
	DSL_SHARED(ds->pool);
	static const char key[] = "com.delphix:redacted_datasets";
	unsigned intsize;
	int err;

	*guids = NULL;
	*n = 0;
	if (!ds->zapified)
		return -ENOENT;
	err = zap_length(ds->pool->mos, ds->object, key, &intsize, n);
	if (!err && (intsize != 8 || *n > REDACTION_SNAPS_MAX))
		err = -EINVAL;
	if (err || *n == 0)
		return err;
	*guids = xcalloc(*n, 8);
	err = zap_lookup(ds->pool->mos, ds->object, key, 8, *n, *guids);
	if (err) {
		free(*guids);
		*guids = NULL;
	}
	return err;
}
