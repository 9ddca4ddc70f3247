/*
 * Writing the pool's history (docs/format/01-pool.md, 11.1). Records are gathered from any thread and appended by the
 * sync thread at the next pass.
 */
#include <time.h>

#include "base/log.h"
#include "base/os.h"
#include "dmu/mosobj.h"
#include "spa/spa_write.h"

#define COMMANDS_QUEUED 10000u /* more than any group has: what comes then is dropped */

struct record {
	struct list_node node;
	struct nvlist *l;
};

/* --- gathering --- */
/* What a group changes is never dropped: it is as much as the group was asked for. */
static void record_queue(struct spa *spa, struct nvlist *l, bool drop)
{
	struct spa_writer *w = spa_writer(spa);
	struct record *r = xcalloc(1, sizeof(*r));
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	nvlist_add_u64(l, "history time", (uint64_t)time(NULL));
	r->l = l;
	if (!drop || w->history.len < COMMANDS_QUEUED) {
		list_append(&w->history, &r->node);
		return;
	}
	nvlist_destroy(l);
	free(r);
}

bool spa_history_is_pending(struct spa *spa)
{
	SCOPED_LOCK(&spa_priv(spa)->state_lock);

	return !list_is_empty(&spa_writer(spa)->history);
}

void spa_history_command(struct spa *spa, const char *command, uint64_t uid, const char *host)
{
	struct nvlist *l;

	if (!spa_writer(spa))
		return;
	l = nvlist_create();
	nvlist_add_string(l, "history command", command);
	nvlist_add_u64(l, "history who", uid);
	nvlist_add_string(l, "history hostname", host ? host : os_hostname());
	record_queue(spa, l, true);
}

void spa_history_internal(struct spa *spa, const char *name, const struct dsl_dataset *ds, struct tx *tx,
			  const char *text)
{
	struct nvlist *l;

	if (!spa_writer(spa))
		return;
	l = nvlist_create();
	nvlist_add_string(l, "history internal str", text);
	nvlist_add_string(l, "internal_name", name);
	nvlist_add_string(l, "history hostname", os_hostname());
	nvlist_add_u64(l, "history txg", tx ? tx->txg : txg_open(spa_writer(spa)->txgs));
	if (ds) {
		nvlist_add_string(l, "dsname", ds->name);
		nvlist_add_u64(l, "dsid", ds->object);
	}
	record_queue(spa, l, !tx);
}

/* --- appending --- */
int spa_history_create(struct spa *spa, struct tx *tx)
{
	uint64_t object, size = 0;
	int err;

	for (unsigned i = 0; i < spa->root->nchildren; i++)
		if (spa_top_class(spa->root->child[i]) == SPA_CLASS_NORMAL)
			size += (spa->root->child[i]->asize >> SECTOR_SHIFT) * vdev_deflate_ratio(spa->root->child[i]);
	err = mos_history_create(spa->mos, size, tx, &object);
	return err ? err : zap_add_u64(spa->mos, MOS_DIRECTORY, "history", object, tx);
}

/* A history that is damaged is no reason to stop writing: it begins anew. */
static int history_renew(struct spa *spa, uint64_t object, struct tx *tx)
{
	int err = zap_remove(spa->mos, MOS_DIRECTORY, "history", tx);

	log_warn("pool '%s': its history was damaged, and begins anew", spa->name);
	dmu_object_free(spa->mos, object, tx);
	return err ? err : spa_history_create(spa, tx);
}

static int history_find(struct spa *spa, struct tx *tx, uint64_t *object)
{
	int err = spa_mos_u64(spa->mos, "history", object);

	if (err != -ENOENT)
		return err;
	err = spa_history_create(spa, tx);
	return err ? err : spa_mos_u64(spa->mos, "history", object);
}

static void records_append(struct spa *spa, struct list *records, struct tx *tx)
{
	uint64_t object;
	int err = spa->version < 4 ? -ENOTSUP : history_find(spa, tx, &object);

	if (err == -ENOTSUP)
		return;
	list_for_each(records, n) {
		const struct nvlist *l = container_of(n, struct record, node)->l;

		if (err)
			break;
		err = mos_history_append(spa->mos, object, l, nvlist_exists(l, "history command"), tx);
		err = err == -E2BIG ? 0 : err;
	}
	if (err)
		err = history_renew(spa, object, tx);
	if (err)
		spa_sync_failed(spa, "writing the history: %s", err_words(err));
}

static void records_free(struct list *records)
{
	struct list_node *n;

	while ((n = list_pop(records))) {
		struct record *r = container_of(n, struct record, node);

		nvlist_destroy(r->l);
		free(r);
	}
}

void spa_history_sync(struct spa *spa, struct tx *tx)
{
	struct list records;

	list_init(&records);
	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	list_splice(&records, &spa_writer(spa)->history);
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	if (!list_is_empty(&records))
		records_append(spa, &records, tx);
	records_free(&records);
}

void spa_history_drop(struct spa *spa)
{
	records_free(&spa_writer(spa)->history);
}
