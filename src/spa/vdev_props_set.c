/*
 * Setting properties of devices (docs/format/01-pool.md 5.4; 09-cli.md 9.6): stored in the root's, the top-level's or
 * the device's own ZAP, whichever there is first.
 */
#include <ctype.h>
#include <limits.h>

#include "spa/spa_write.h"

#define VALUE_MAX 8192

static const char *const onoff[] = {"off", "on", NULL};
static const char *const failfast[] = {"off", "on", "inherit", NULL};
static const char *const scheduler[] = {"auto", "on", "off", NULL};

static const struct settable {
	const char *name;
	const char *const *words; /* NULL: a number, UINT64_MAX for "none" and "-" */
	bool top_only;
} settable[] = {
    {"allocating", onoff, true}, {"autosit", onoff, false},       {"checksum_n", NULL, false},
    {"checksum_t", NULL, false}, {"failfast", failfast, false},   {"io_n", NULL, false},
    {"io_t", NULL, false},       {"scheduler", scheduler, false}, {"slow_io_events", onoff, false},
    {"slow_io_n", NULL, false},  {"slow_io_t", NULL, false},
};

struct set_task {
	const char *device;
	struct vdev *vd;
	struct nvlist *stored; /* u64s, strings ("" removes) */
};

/* --- parsing --- */
static int words_refuse(const struct settable *s, struct err *e)
{
	struct str list = {0};
	int err;

	for (size_t i = 0; s->words[i]; i++)
		str_addf(&list, "%s%s", i ? " | " : "", s->words[i]);
	err = err_set(e, -EINVAL, "'%s' must be one of '%s'", s->name, list.s);
	str_free(&list);
	return err;
}

static int known_parse(const struct settable *s, const char *value, struct nvlist *out, struct err *e)
{
	char *end;
	uint64_t v;

	for (size_t i = 0; s->words && s->words[i]; i++)
		if (strcmp(s->words[i], value) == 0) {
			nvlist_add_u64(out, s->name, i);
			return 0;
		}
	if (s->words)
		return words_refuse(s, e);
	v = strtoull(value, &end, 10);
	if (strcmp(value, "none") == 0 || strcmp(value, "-") == 0)
		v = UINT64_MAX;
	else if (end == value || *end)
		return err_set(e, -EINVAL, "'%s' must be a number or 'none'", s->name);
	nvlist_add_u64(out, s->name, v);
	return 0;
}

static int text_parse(const char *name, const char *value, struct nvlist *out, struct err *e)
{
	if (strlen(value) >= VALUE_MAX)
		return err_set(e, -E2BIG, "the value of '%s' is longer than %d bytes", name, VALUE_MAX - 1);
	nvlist_add_string(out, name, value);
	return 0;
}

static int one_parse(const char *name, const char *value, struct nvlist *out, struct err *e)
{
	static const char *const refused[] = {"path", "sit_out", "alloc_bias"};

	if (strchr(name, ':') || strcmp(name, "comment") == 0)
		return text_parse(name, value, out, e);
	for (size_t i = 0; i < ARRAY_LEN(settable); i++)
		if (strcmp(settable[i].name, name) == 0)
			return known_parse(&settable[i], value, out, e);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (strcmp(refused[i], name) == 0)
			return err_set(e, -ENOTSUP, "'%s' of a device cannot be changed here", name);
	return err_set(e, -EINVAL, "'%s' is no property of devices that can be set", name);
}

/* --- storing --- */
static uint64_t zap_of(const struct vdev *vd)
{
	return vd->kind == VDEV_ROOT          ? nvlist_u64_or(vd->config, "com.klarasystems:vdev_zap_root", 0)
	       : vd->top == vd && vd->zap_top ? vd->zap_top
					      : vd->zap_leaf;
}

static unsigned normal_tops(const struct spa *spa, const struct vdev *without)
{
	unsigned n = 0;

	for (unsigned i = 0; i < spa->root->nchildren; i++) {
		const struct vdev *top = spa->root->child[i];

		n += top != without && vdev_is_concrete(top) && !top->noalloc && spa_top_class(top) == SPA_CLASS_NORMAL;
	}
	return n;
}

static int set_check(struct spa *spa, void *arg, struct tx *tx, struct err *e)
{
	struct set_task *t = arg;
	uint64_t v;

	t->vd = !t->device || strcmp(t->device, "root") == 0 || strcmp(t->device, "root-0") == 0
		    ? spa->root
		    : spa_vdev_find(spa, t->device, e);
	if (!t->vd)
		return -ENOENT;
	if (!zap_of(t->vd))
		return err_set(e, -ENOTSUP, "this device has no properties: it is part of one that has");
	if (nvlist_u64(t->stored, "allocating", &v))
		return 0;
	if (t->vd->kind == VDEV_ROOT || t->vd->top != t->vd || t->vd->is_log)
		return err_set(e, -EINVAL, "'allocating' is a property of top-level devices");
	if (v == 0 && normal_tops(spa, t->vd) == 0)
		return err_set(e, -ENOSPC, "no other device would take data");
	return 0;
}

static int one_store(struct spa *spa, uint64_t zap, const struct nvpair *p, struct tx *tx)
{
	const char *name = nvpair_name(p), *text;
	uint64_t v;
	int err;

	if (nvpair_type(p) != NV_STRING) {
		v = nvpair_int(p, 0);
		return zap_update_u64(spa->mos, zap, name, v, tx);
	}
	text = nvpair_string(p, 0);
	if (*text)
		return zap_update(spa->mos, zap, name, 1, strlen(text) + 1, text, tx);
	err = zap_remove(spa->mos, zap, name, tx);
	return err == -ENOENT ? 0 : err;
}

static void set_sync(struct spa *spa, void *arg, struct tx *tx)
{
	struct set_task *t = arg;
	uint64_t v;
	int err = 0;

	for (const struct nvpair *p = nvlist_first(t->stored); p && !err; p = nvlist_next(t->stored, p)) {
		autofree char *text = xasprintf("%s: %s", t->device ? t->device : "root", nvpair_name(p));

		err = one_store(spa, zap_of(t->vd), p, tx);
		spa_history_internal(spa, "vdev set", NULL, tx, text);
	}
	if (err)
		spa_sync_failed(spa, "storing properties of a device: %s", err_words(err));
	if (nvlist_u64(t->stored, "allocating", &v))
		return;
	t->vd->noalloc = v == 0;
	spa_config_dirty(spa);
}

int spa_vdev_props_set(struct spa *spa, const char *device, const struct nvlist *values, struct err *e)
{
	autonv struct nvlist *stored = nvlist_create();
	struct set_task t = {.device = device, .stored = stored};
	struct spa_task task = {
	    .spa = spa, .check = set_check, .sync = set_sync, .arg = &t, .blocks = 6, .policy = DSL_SPACE_EXTRA};
	int err = 0;

	for (const struct nvpair *p = nvlist_first(values); p && !err; p = nvlist_next(values, p))
		err = nvpair_type(p) == NV_STRING ? one_parse(nvpair_name(p), nvpair_string(p, 0), stored, e)
						  : err_set(e, -EINVAL, "'%s': not a string", nvpair_name(p));
	return err ? err : spa_task_run(&task, e);
}
