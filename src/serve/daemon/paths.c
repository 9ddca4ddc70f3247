#include "serve/daemon/paths.h"

#include <inttypes.h>

#include "zpl/zpl.h"

#define ERRORS_SHOWN_MAX 10000

struct error_list {
	struct spa *spa;
	char **text;
	size_t n;
	/* The file system opened last: errors come sorted by data set. */
	uint64_t objset;
	struct dsl_dataset *ds;
	struct zpl *zpl;
};

static void objset_leave(struct error_list *l)
{
	zpl_close(l->zpl);
	dsl_dataset_release(l->ds);
	l->zpl = NULL;
	l->ds = NULL;
	l->objset = 0;
}

static void objset_enter(struct error_list *l, uint64_t objset)
{
	if (l->objset == objset)
		return;
	if (l->ds)
		objset_leave(l);
	l->objset = objset;
	if (dsl_dataset_hold_obj(l->spa->dsl, objset, &l->ds, NULL) == 0 && zpl_open(l->ds, &l->zpl, NULL))
		l->zpl = NULL; /* a volume, or not readable: object numbers will do */
}

static char *error_text(struct error_list *l, const struct zbookmark *zb)
{
	autofree char *path = NULL;

	if (zb->objset == 0)
		return xasprintf("<metadata>:<0x%" PRIx64 ">", zb->object);
	objset_enter(l, zb->objset);
	if (!l->ds)
		return xasprintf("<0x%" PRIx64 ">:<0x%" PRIx64 ">", zb->objset, zb->object);
	if (l->zpl && zpl_object_path(l->zpl, zb->object, &path) == 0)
		return xasprintf("%s:%s", l->ds->name, path);
	return xasprintf("%s:<0x%" PRIx64 ">", l->ds->name, zb->object);
}

static int error_add(void *arg, const struct zbookmark *zb)
{
	struct error_list *l = arg;
	char *text = error_text(l, zb);

	/* Many blocks of one file are one line. */
	if (l->n && strcmp(l->text[l->n - 1], text) == 0) {
		free(text);
		return 0;
	}
	l->text = xrealloc(l->text, (l->n + 1) * sizeof(*l->text));
	l->text[l->n++] = text;
	return l->n >= ERRORS_SHOWN_MAX;
}

int error_paths_add(struct spa *spa, struct nvlist *status)
{
	struct error_list l = {.spa = spa};
	int err = spa_errors_each(spa, error_add, &l);

	if (l.ds)
		objset_leave(&l);
	if (l.n)
		nvlist_add_strings(status, "errlist", (const char *const *)l.text, l.n);
	for (size_t i = 0; i < l.n; i++)
		free(l.text[i]);
	free(l.text);
	return err < 0 ? err : 0;
}
