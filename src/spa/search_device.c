/*
 * What one device carries. A device may hold labels of several pools: remains of an older one where a newer one did
 * not reach. The newer one wins: the identity whose uberblocks are the youngest.
 */
#include <inttypes.h>
#include <sys/stat.h>

#include "disk/partition.h"
#include "spa/search.h"

void found_note_add(struct found_list *l, uint64_t pool_guid, char *taken)
{
	l->note = xrealloc(l->note, (l->nnotes + 1) * sizeof(*l->note));
	l->note[l->nnotes++] = (struct search_note){taken, pool_guid};
}

void found_list_free(struct found_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->f[i].path);
		nvlist_destroy(l->f[i].config);
	}
	for (size_t i = 0; i < l->nnotes; i++)
		free(l->note[i].text);
	free(l->f);
	free(l->note);
	*l = (struct found_list){0};
}

static bool is_aux_state(uint64_t state)
{
	return state == POOL_STATE_SPARE || state == POOL_STATE_L2CACHE;
}

/* The tests of 4.7, step 1 and 2. */
static bool identity_read(const struct nvlist *config, struct found *f)
{
	struct nvlist *tree;

	if (nvlist_u64(config, "guid", &f->guid) || f->guid == 0)
		return false;
	if (nvlist_u64(config, "state", &f->state) || f->state > POOL_STATE_L2CACHE)
		return false;
	if (is_aux_state(f->state))
		return true;
	if (nvlist_u64(config, "txg", &f->txg) || f->txg == 0)
		return false;
	return nvlist_u64(config, "pool_guid", &f->pool_guid) == 0 &&
	       nvlist_u64(config, "top_guid", &f->top_guid) == 0 && nvlist_list(config, "vdev_tree", &tree) == 0;
}

static bool same_identity(const struct found *a, const struct found *b)
{
	return a->guid == b->guid && a->pool_guid == b->pool_guid && is_aux_state(a->state) == is_aux_state(b->state);
}

static void newest_note(void *arg, unsigned label, unsigned slot, const struct uberblock *ub)
{
	struct found *f = arg;

	f->newest_time = MAX(f->newest_time, ub->timestamp);
	f->newest_txg = MAX(f->newest_txg, ub->txg);
}

static void newest_read(struct disk *d, unsigned label, struct found *f)
{
	struct nvlist *tree;
	uint64_t ashift = 0;

	if (is_aux_state(f->state))
		return;
	if (nvlist_list(f->config, "vdev_tree", &tree) == 0)
		nvlist_u64(tree, "ashift", &ashift);
	uberblock_each(d, label, MIN(ashift, 16), newest_note, f);
}

/* Of two labels with one identity: a right checksum before the younger configuration. */
static bool label_is_better(const struct found *a, const struct found *b)
{
	if (a->verified != b->verified)
		return a->verified;
	return a->txg > b->txg;
}

static void identity_merge(struct found *into, const struct found *f)
{
	unsigned nlabels = into->nlabels + 1;
	uint64_t newest_txg = MAX(into->newest_txg, f->newest_txg),
		 newest_time = MAX(into->newest_time, f->newest_time);

	if (label_is_better(f, into))
		*into = *f;
	into->nlabels = nlabels;
	into->newest_txg = newest_txg;
	into->newest_time = newest_time;
}

/* Whose labels are the device's real ones? Uberblock times compare across pools, txgs do not. */
static bool identity_is_better(const struct found *a, const struct found *b)
{
	if (a->newest_time != b->newest_time)
		return a->newest_time > b->newest_time;
	if (a->verified != b->verified)
		return a->verified;
	return a->nlabels > b->nlabels;
}

static size_t identities_collect(struct disk *d, const struct label labels[VDEV_LABELS], struct found out[VDEV_LABELS])
{
	size_t n = 0, k;

	for (unsigned l = 0; l < VDEV_LABELS; l++) {
		struct found f = {.config = labels[l].config, .verified = labels[l].err == 0};

		if (!f.config || !identity_read(f.config, &f))
			continue;
		newest_read(d, l, &f);
		for (k = 0; k < n && !same_identity(&out[k], &f); k++)
			;
		if (k < n) {
			identity_merge(&out[k], &f);
		} else {
			f.nlabels = 1;
			out[n++] = f;
		}
	}
	return n;
}

static void loser_note(const char *path, const struct found *f, uint64_t winner, struct found_list *out)
{
	found_note_add(out, winner,
		       xasprintf("%s: ignored %u stale label%s of %s '%s' (guid %" PRIu64 ", txg %" PRIu64 ")", path,
				 f->nlabels, f->nlabels == 1 ? "" : "s",
				 f->state == POOL_STATE_DESTROYED ? "destroyed pool" : "pool",
				 nvlist_string_or(f->config, "name", "?"), f->pool_guid, f->txg));
}

static void labels_note(const char *path, const struct label labels[VDEV_LABELS], const struct found *best,
			struct found_list *out)
{
	for (unsigned l = 0; l < VDEV_LABELS; l++)
		if (labels[l].config && labels[l].err == -ECKSUM)
			found_note_add(out, best->pool_guid, xasprintf("%s: label %u: checksum mismatch", path, l));
	if (!best->verified)
		found_note_add(out, best->pool_guid,
			       xasprintf("%s: no label with a right checksum, using a damaged one", path));
}

/* Whether the disk carried a label of its own. */
static bool disk_labels_read(struct disk *d, const char *path, struct found_list *out)
{
	struct label labels[VDEV_LABELS];
	struct found id[VDEV_LABELS];
	size_t n, best = 0;

	if (label_read_all(d, labels))
		return false;
	n = identities_collect(d, labels, id);
	for (size_t i = 1; i < n; i++)
		if (identity_is_better(&id[i], &id[best]))
			best = i;
	for (size_t i = 0; i < n; i++)
		if (i != best)
			loser_note(path, &id[i], id[best].pool_guid, out);
	if (n) {
		labels_note(path, labels, &id[best], out);
		id[best].path = xstrdup(path);
		id[best].config = nvlist_copy(id[best].config);
		out->f = xrealloc(out->f, (out->n + 1) * sizeof(*out->f));
		out->f[out->n++] = id[best];
	}
	label_free_all(labels);
	return n > 0;
}

static void partitions_search(const char *path, const struct partition *table, size_t n, struct found_list *out)
{
	for (size_t i = 0; i < n; i++) {
		autofree char *name = xasprintf("%s-part%u", path, table[i].number);
		struct disk *d;

		if (table[i].size < (64u << 20) || partition_disk_open(name, DISK_RDONLY, &d, NULL))
			continue;
		disk_labels_read(d, name, out);
		disk_close(d);
	}
}

int search_device(const char *path, struct found_list *out)
{
	struct partition *table;
	struct disk *d;
	uint8_t first[512];
	size_t n = 0;
	int err = disk_open(path, DISK_RDONLY, &d, NULL);

	if (err)
		return err;
	if (d->size < (64u << 20)) {
		disk_close(d);
		return 0;
	}
	table = xcalloc(PARTITIONS_MAX, sizeof(*table));
	err = disk_read(d, 0, first, sizeof(first));
	disk_labels_read(d, path, out);
	partition_read_table(d, table, &n);
	disk_close(d);
	partitions_search(path, table, n, out);
	free(table);
	return out->n ? 0 : err;
}
