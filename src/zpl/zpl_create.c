/*
 * zpl/zpl_create.c: what a new file system holds (07-filesystem-zvol-zil.md, 1.3).
 */
#include "zpl/zpl_impl.h"

#define VERSION_DEFAULT 5

#define ROOT_MODE 0755

struct creation {
	struct objset *os;
	struct tx *tx;
	uint64_t version, normalization, utf8only, casesensitivity;
	bool project;
	uint64_t sa_attrs, delete_queue, root;
};

static int root_create(struct creation *c)
{
	struct zpl_new_dir n = {
	    .os = c->os,
	    .version = c->version,
	    .normflags = zpl_normflags(c->normalization, c->casesensitivity),
	    .mode = ROOT_MODE,
	    .has_projid = c->project,
	};
	int err = sa_os_open(c->os, c->sa_attrs, &n.sa, NULL);

	if (err)
		return err;
	err = zpl_dir_make(&n, c->tx, &c->root);
	sa_os_close(n.sa);
	return err;
}

static int master_add(const struct creation *c, const char *name, uint64_t v)
{
	return zap_add_u64(c->os, ZPL_MASTER_NODE, name, v, c->tx);
}

static int master_create(const struct creation *c)
{
	int err = zap_create_claim(c->os, ZPL_MASTER_NODE, &(struct zap_spec){.type = DMU_OT_MASTER_NODE}, c->tx);

	if (!err && c->version >= ZPL_VERSION_FUID) {
		err = master_add(c, "normalization", c->normalization);
		if (!err)
			err = master_add(c, "utf8only", c->utf8only);
		if (!err)
			err = master_add(c, "casesensitivity", c->casesensitivity);
	}
	return err ? err : master_add(c, "VERSION", c->version);
}

static int objects_create(struct creation *c)
{
	int err = master_create(c);

	if (!err && c->version >= ZPL_VERSION_SA) {
		err = sa_create(c->os, c->tx, &c->sa_attrs);
		if (!err)
			err = master_add(c, "SA_ATTRS", c->sa_attrs);
	}
	if (!err)
		err = zap_create_in(c->os, DMU_OT_UNLINKED_SET, ZPL_MASTER_NODE, "DELETE_QUEUE", c->tx,
				    &c->delete_queue);
	if (!err)
		err = root_create(c);
	return err ? err : master_add(c, "ROOT", c->root);
}

/* What counts from the first object on (6.6). */
static void accounting_start(const struct creation *c)
{
	struct objset *os = c->os;
	bool objects = zpl_feature_enabled(os, ZPL_FEATURE_USEROBJ);

	if (c->version < ZPL_VERSION_SPACE)
		return;
	objset_set_flags(
	    os, OBJSET_USERSPACE | (objects ? OBJSET_USEROBJSPACE : 0) | (c->project ? OBJSET_PROJECTSPACE : 0), c->tx);
	if (objects && os->ops->uses)
		os->ops->uses(os, ZPL_FEATURE_USEROBJ, c->tx->txg);
	if (c->project && os->ops->uses)
		os->ops->uses(os, ZPL_FEATURE_PROJECT, c->tx->txg);
}

/* A number among the properties; NULL is none of them. */
static uint64_t prop(const struct nvlist *props, const char *name, uint64_t fallback)
{
	return props ? nvlist_u64_or(props, name, fallback) : fallback;
}

int zpl_create_objects(struct objset *os, const struct nvlist *props, struct tx *tx)
{
	struct creation c = {
	    .os = os,
	    .tx = tx,
	    .version = prop(props, "version", VERSION_DEFAULT),
	    .normalization = prop(props, "normalization", 0),
	    .utf8only = prop(props, "utf8only", 0),
	    .casesensitivity = prop(props, "casesensitivity", 0),
	    .project = zpl_feature_enabled(os, ZPL_FEATURE_PROJECT),
	};

	c.project = c.project && c.version >= ZPL_VERSION_SA;
	c.utf8only |= c.normalization != 0;
	accounting_start(&c);
	return objects_create(&c);
}

/* Who makes file systems writes into them: their accounting begins with them. */
__attribute__((constructor)) static void accounting_attach(void)
{
	dsl_set_owner(zpl_owner);
}
