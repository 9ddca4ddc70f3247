/*
 * Hot spares (docs/format/01-pool.md, 4.6; 06, 4.5): the list in the MOS, and the labels of those not in use.
 */
#include "disk/partition.h"
#include "dmu/mosobj.h"
#include "spa/search.h"
#include "spa/spa_write.h"

static struct nvlist *aux_label(struct spa *spa, const struct nvlist *entry, enum pool_state state)
{
	static const char *const hints[] = {"path", "devid", "phys_path"};
	struct nvlist *l = nvlist_create();
	const char *v;

	nvlist_add_u64(l, "version", spa->version);
	nvlist_add_u64(l, "state", state);
	nvlist_add_u64(l, "guid", nvlist_u64_or(entry, "guid", 0));
	for (size_t i = 0; i < ARRAY_LEN(hints); i++)
		if (nvlist_string(entry, hints[i], &v) == 0)
			nvlist_add_string(l, hints[i], v);
	return l;
}

int spa_spares_init(struct spa *spa, const struct nvlist *from, struct err *e)
{
	struct nvlist *const *entry;
	size_t n = 0;
	int err = 0;

	if (!from || nvlist_lists(from, "spares", &entry, &n))
		return 0;
	for (size_t i = 0; i < n && !err; i++) {
		autonv struct nvlist *label = aux_label(spa, entry[i], POOL_STATE_SPARE);
		const char *path = nvlist_string_or(entry[i], "path", "");
		struct disk *d;

		err = partition_disk_open(path, DISK_RDWR, &d, e);
		if (err)
			break;
		err = label_init(d, label);
		if (!err)
			err = disk_flush(d);
		disk_close(d);
		if (err)
			err_set(e, err, "%s: labels cannot be written: %s", path, err_words(err));
	}
	return err;
}

/* --- the list --- */
static void list_store(struct spa *spa, struct nvlist *const *entry, size_t n, struct tx *tx)
{
	struct spa_priv *pr = spa_priv(spa);
	struct nvlist *l = nvlist_create(), *old;
	uint64_t object;
	int err = spa_mos_u64(spa->mos, "spares", &object);

	nvlist_add_lists(l, "spares", entry, n);
	if (err == -ENOENT) {
		err = mos_nvlist_create(spa->mos, tx, &object);
		if (!err)
			err = zap_add_u64(spa->mos, MOS_DIRECTORY, "spares", object, tx);
	}
	if (!err)
		err = mos_nvlist_write(spa->mos, object, l, tx);
	if (err)
		spa_sync_failed(spa, "storing the list of spares: %s", err_words(err));
	pthread_mutex_lock(&pr->state_lock);
	old = pr->spares;
	pr->spares = l;
	pthread_mutex_unlock(&pr->state_lock);
	nvlist_destroy(old);
}

/* What is there already, less one of that guid, and what comes. */
static struct nvlist **list_merge(struct spa *spa, const struct nvlist *more, uint64_t without, size_t *n)
{
	const struct nvlist *from[2] = {spa_priv(spa)->spares, more};
	struct nvlist **all = NULL;

	*n = 0;
	for (unsigned k = 0; k < 2; k++) {
		struct nvlist *const *entry;
		size_t have = 0;

		if (!from[k] || nvlist_lists(from[k], "spares", &entry, &have))
			continue;
		all = xrealloc(all, (*n + have + 1) * sizeof(struct nvlist *));
		for (size_t i = 0; i < have; i++)
			if (nvlist_u64_or(entry[i], "guid", 0) != without)
				all[(*n)++] = entry[i];
	}
	return all;
}

static void device_note(struct spa *spa, const struct nvlist *entry)
{
	char key[32];

	snprintf(key, sizeof(key), "%" PRIx64, nvlist_u64_or(entry, "guid", 0));
	nvlist_add_string(spa_priv(spa)->devices, key, nvlist_string_or(entry, "path", ""));
}

void spa_spares_add(struct spa *spa, const struct nvlist *from, struct tx *tx)
{
	struct nvlist *const *entry, **all;
	size_t n, all_n;

	if (!from || nvlist_lists(from, "spares", &entry, &n))
		return;
	for (size_t i = 0; i < n; i++)
		device_note(spa, entry[i]);
	all = list_merge(spa, from, 0, &all_n);
	list_store(spa, all, all_n, tx);
	free(all);
}

/* --- removal --- */
static void remove_sync(struct spa *spa, void *arg, struct tx *tx)
{
	uint64_t guid = *(const uint64_t *)arg;
	size_t n;
	struct nvlist **rest = list_merge(spa, NULL, guid, &n);
	autofree char *text = xasprintf("guid=%" PRIu64, guid);

	list_store(spa, rest, n, tx);
	free(rest);
	spa_history_internal(spa, "vdev remove", NULL, tx, text);
}

static bool is_called(const struct nvlist *entry, const char *name)
{
	const char *path = nvlist_string_or(entry, "path", ""), *slash = strrchr(path, '/');
	char guid[24];

	snprintf(guid, sizeof(guid), "%" PRIu64, nvlist_u64_or(entry, "guid", 0));
	return strcmp(path, name) == 0 || strcmp(guid, name) == 0 || (slash && strcmp(slash + 1, name) == 0);
}

bool spa_has_spare(struct spa *spa, uint64_t guid)
{
	struct nvlist *const *entry;
	size_t n = 0;
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	if (spa_priv(spa)->spares && nvlist_lists(spa_priv(spa)->spares, "spares", &entry, &n))
		n = 0;
	for (size_t i = 0; i < n; i++)
		if (nvlist_u64_or(entry[i], "guid", 0) == guid)
			return true;
	return false;
}

int spa_spare_remove(struct spa *spa, const char *name, struct err *e)
{
	struct nvlist *const *entry;
	struct disk *d;
	autofree char *path = NULL;
	uint64_t guid = 0;
	size_t n = 0;
	struct spa_task task = {.spa = spa, .sync = remove_sync, .arg = &guid, .policy = DSL_SPACE_NONE};
	int err;

	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	if (spa_priv(spa)->spares && nvlist_lists(spa_priv(spa)->spares, "spares", &entry, &n) == 0)
		for (size_t i = 0; i < n && !guid; i++)
			if (is_called(entry[i], name)) {
				guid = nvlist_u64_or(entry[i], "guid", 0);
				path = xstrdup(nvlist_string_or(entry[i], "path", ""));
			}
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	if (!guid)
		return -ENOENT;
	if (vdev_by_guid(spa->root, guid))
		return err_set(e, -EBUSY, "the spare is in use");
	err = spa_task_run(&task, e);
	if (!err && partition_disk_open(path, DISK_RDWR, &d, NULL) == 0) {
		label_clear(d);
		disk_close(d);
	}
	return err;
}
