/*
 * Space and objects by user, group and project (07, section 6). Each dnode that is synced notes what was counted for it
 * and what is now; the sums of a group go into the tables at once.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "dmu/sync.h"
#include "dmu/zap.h"

#define FLAG_USED    0x02u
#define FLAG_OBJUSED 0x08u
#define DNODE_BYTES  512 /* charged for the dnode, whatever its size */

enum account_kind { ACCOUNT_USER, ACCOUNT_GROUP, ACCOUNT_PROJECT, ACCOUNT_KINDS };

struct account {
	struct tree_node node;
	enum account_kind kind;
	uint64_t id;
	int64_t bytes, objects;
};

static struct account *to_account(const struct tree_node *n)
{
	return container_of((struct tree_node *)n, struct account, node);
}

static int account_cmp(const struct tree_node *a, const struct tree_node *b)
{
	const struct account *x = to_account(a), *y = to_account(b);

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

void accounting_init(struct tree *account)
{
	tree_init(account, account_cmp);
}

static struct account *account_pop(struct tree *account)
{
	struct tree_node *n = tree_first(account);

	if (!n)
		return NULL;
	tree_remove(account, n);
	return to_account(n);
}

void accounting_clear(struct tree *account)
{
	struct account *a;

	while ((a = account_pop(account)))
		free(a);
}

/* --- one dnode --- */

static void account_add(struct tree *account, enum account_kind kind, uint64_t id, int64_t bytes, int64_t objects)
{
	struct account key = {.kind = kind, .id = id}, *a;
	struct tree_node *n = tree_find(account, &key.node);

	if (!n) {
		a = xcalloc(1, sizeof(*a));
		a->kind = kind;
		a->id = id;
		tree_insert(account, &a->node);
		n = &a->node;
	}
	a = to_account(n);
	a->bytes += bytes;
	a->objects += objects;
}

static int owner_ask(struct sync_dnode *sd, const uint8_t *bonus, size_t len, uint64_t id[ACCOUNT_KINDS])
{
	struct objset *os = sd->s->os;

	return os->ops->owner(os, sd->dn, bonus, len, &id[ACCOUNT_USER], &id[ACCOUNT_GROUP], &id[ACCOUNT_PROJECT]);
}

/* Whose the object is in this state. */
static int owner_of(struct sync_dnode *sd, const struct dnode_state *st, const struct bp *spill,
		    uint64_t id[ACCOUNT_KINDS])
{
	struct objset *os = sd->s->os;
	struct zbookmark zb = {os->id, sd->dn->object, 0, DMU_BLKID_SPILL};
	autobuf struct buf *buf = NULL;
	autofree uint8_t *turned = NULL;
	int err;

	if (st->shape.type == 0 || (st->shape.bonustype != DMU_OT_SA && st->shape.bonustype != DMU_OT_ZNODE))
		return -ENOENT;
	if (st->shape.bonuslen > 0) {
		if (!st->swapped)
			return owner_ask(sd, st->bonus, st->shape.bonuslen, id);
		turned = xmalloc(st->shape.bonuslen);
		memcpy(turned, st->bonus, st->shape.bonuslen);
		dmu_swap_contents(st->shape.bonustype, turned, st->shape.bonuslen);
		return owner_ask(sd, turned, st->shape.bonuslen, id);
	}
	if (!st->shape.has_spill || bp_is_hole(spill))
		return -ENOENT;
	err = arc_read_wait(os->dp->arc, os->dp->zp, spill, &zb, os->key, dmu_arc_flags(sd->dn, spill), &buf);
	return err ? err : owner_ask(sd, buf->data, buf->size, id);
}

static void account_state(struct sync_dnode *sd, const uint64_t id[ACCOUNT_KINDS], unsigned flags, uint64_t used,
			  int sign)
{
	struct objset *os = sd->s->os;
	int64_t bytes = flags & FLAG_USED ? sign * (int64_t)(used + DNODE_BYTES) : 0;
	int64_t objects = flags & FLAG_OBJUSED ? sign : 0;

	for (unsigned k = 0; k < (os->dp->project_quota ? ACCOUNT_KINDS : ACCOUNT_PROJECT); k++)
		account_add(&os->dirty->account, (enum account_kind)k, id[k], bytes, objects);
}

void sync_account(struct sync_dnode *sd, const struct dnode_state *old, uint8_t old_flags, uint64_t old_used)
{
	struct objset *os = sd->s->os;
	uint64_t id[ACCOUNT_KINDS] = {0};

	if (!os->ops->owner)
		return;
	if (owner_of(sd, old, &sd->was_spill, id) == 0)
		account_state(sd, id, old_flags, old_used, -1);
	if (owner_of(sd, sd->state, &sd->new_spill, id) == 0)
		account_state(sd, id, sd->dn->flags, sd->dn->used, 1);
}

/* --- the tables --- */

static int tables_create(struct objset *os, struct tx *tx)
{
	static const struct zap_spec spec = {.type = DMU_OT_USERGROUP_USED};
	int err = 0;

	if (!os->userused)
		err = zap_create_claim(os, DMU_OBJECT_USERUSED, &spec, tx);
	if (!err && !os->groupused)
		err = zap_create_claim(os, DMU_OBJECT_GROUPUSED, &spec, tx);
	if (!err && !os->projectused && os->dp->project_quota)
		err = zap_create_claim(os, DMU_OBJECT_PROJECTUSED, &spec, tx);
	return err;
}

static int account_apply(struct objset *os, const struct account *a, struct tx *tx)
{
	static const uint64_t object[] = {DMU_OBJECT_USERUSED, DMU_OBJECT_GROUPUSED, DMU_OBJECT_PROJECTUSED};
	char name[32];
	int err = 0;

	if (a->bytes)
		err = zap_increment_int(os, object[a->kind], a->id, a->bytes, tx);
	if (!err && a->objects) {
		snprintf(name, sizeof(name), "obj-%" PRIx64, a->id);
		err = zap_increment(os, object[a->kind], name, a->objects, tx);
	}
	return err;
}

static void note_features(struct objset *os, struct tx *tx)
{
	if (!os->ops->uses)
		return;
	if (os->dp->userobj_accounting)
		os->ops->uses(os, "org.zfsonlinux:userobj_accounting", tx->txg);
	if (os->dp->project_quota)
		os->ops->uses(os, "org.zfsonlinux:project_quota", tx->txg);
}

void objset_sync_accounting(struct objset *os, struct tx *tx)
{
	struct tree *account = &os->dirty->account;
	struct account *a;
	int err;

	if (!tree_first(account))
		return;
	err = tables_create(os, tx);
	note_features(os, tx);
	while ((a = account_pop(account))) {
		if (!err)
			err = account_apply(os, a, tx);
		free(a);
	}
	if (err)
		log_error("object set %llu: space by user cannot be kept: %s", (unsigned long long)os->id,
			  err_words(err));
}
