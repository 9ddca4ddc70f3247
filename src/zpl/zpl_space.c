/*
 * zpl/zpl_space.c: space used by users, groups and projects, and their quotas
 * (docs/format/07-filesystem-zvol-zil.md, section 6).
 */
#include "base/tree.h"
#include "zpl/zpl_impl.h"

struct space_id {
	struct tree_node node;
	uint64_t id;
	struct zpl_space space;
};

static const struct {
	uint64_t used; /* object number */
	const char *quota, *objquota;
} space_tables[] = {
    [ZPL_USER] = {DMU_OBJECT_USERUSED, "userquota@", "userobjquota@"},
    [ZPL_GROUP] = {DMU_OBJECT_GROUPUSED, "groupquota@", "groupobjquota@"},
    [ZPL_PROJECT] = {DMU_OBJECT_PROJECTUSED, "projectquota@", "projectobjquota@"},
};

static int space_cmp(const struct tree_node *a, const struct tree_node *b)
{
	uint64_t x = container_of(a, struct space_id, node)->id, y = container_of(b, struct space_id, node)->id;

	return x < y ? -1 : x > y;
}

static struct zpl_space *space_of(struct tree *t, uint64_t id)
{
	struct space_id *s = xcalloc(1, sizeof(*s));
	struct tree_node *old;

	s->id = id;
	old = tree_insert(t, &s->node);
	if (!old)
		return &s->space;
	free(s);
	return &container_of(old, struct space_id, node)->space;
}

/* A key of a table: the id in hexadecimal, "obj-" before it for counts (6.2). */
static bool space_key_parse(const char *key, bool *objects, uint64_t *id)
{
	char *end;

	*objects = strncmp(key, "obj-", 4) == 0;
	if (*objects)
		key += 4;
	if (*key == '\0' || strlen(key) > 16)
		return false;
	*id = strtoull(key, &end, 16);
	return *end == '\0';
}

typedef void (*space_entry_fn)(struct zpl_space *s, bool objects, uint64_t value);

static void space_used_entry(struct zpl_space *s, bool objects, uint64_t value)
{
	*(objects ? &s->objused : &s->used) = value;
}

static void space_quota_entry(struct zpl_space *s, bool objects, uint64_t value)
{
	if (!objects)
		s->quota = value;
}

static void space_objquota_entry(struct zpl_space *s, bool objects, uint64_t value)
{
	if (!objects)
		s->objquota = value;
}

static int space_table_read(struct zpl *z, uint64_t object, struct tree *t, space_entry_fn fn)
{
	autofree struct zap_entry *ze = xmalloc(sizeof(*ze));
	struct zap_cursor *c;
	bool objects;
	uint64_t id;
	int rc = zap_cursor_open(z->os, object, 0, &c);

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	while ((rc = zap_cursor_next(c, ze)) == 0)
		if (ze->intsize == 8 && space_key_parse(ze->name, &objects, &id))
			fn(space_of(t, id), objects, ze->first);
	zap_cursor_close(c);
	return rc == -ENOENT ? 0 : rc;
}

static int space_quota_read(struct zpl *z, const char *name, struct tree *t, space_entry_fn fn)
{
	uint64_t object;
	int rc = zap_lookup_u64(z->os, ZPL_MASTER_NODE, name, &object);

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	return object ? space_table_read(z, object, t, fn) : 0;
}

static bool space_table_exists(const struct zpl *z, enum zpl_who who)
{
	switch (who) {
	case ZPL_USER:
		return z->os->userused != NULL;
	case ZPL_GROUP:
		return z->os->groupused != NULL;
	default:
		return z->os->projectused && (z->os->flags & OBJSET_PROJECTSPACE);
	}
}

static int space_collect(struct zpl *z, enum zpl_who who, struct tree *t)
{
	int rc = 0;

	if (space_table_exists(z, who))
		rc = space_table_read(z, space_tables[who].used, t, space_used_entry);
	if (!rc)
		rc = space_quota_read(z, space_tables[who].quota, t, space_quota_entry);
	if (!rc)
		rc = space_quota_read(z, space_tables[who].objquota, t, space_objquota_entry);
	return rc;
}

int zpl_space_each(struct zpl *z, enum zpl_who who,
		   int (*fn)(void *arg, const char *domain, uint64_t id, const struct zpl_space *s), void *arg)
{
	struct tree t;
	struct tree_node *n;
	int rc;

	tree_init(&t, space_cmp);
	rc = space_collect(z, who, &t);
	while ((n = tree_first(&t))) {
		struct space_id *s = container_of(n, struct space_id, node);
		const char *domain = who == ZPL_PROJECT ? "" : zpl_fuid_domain(z, s->id);

		if (!(z->os->flags & OBJSET_USEROBJSPACE))
			s->space.objused = 0;
		if (!rc)
			rc = fn(arg, domain ? domain : "?", who == ZPL_PROJECT ? s->id : zpl_fuid_id(s->id), &s->space);
		tree_remove(&t, n);
		free(s);
	}
	return rc;
}
