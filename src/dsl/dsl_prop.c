/*
 * dsl/dsl_prop.c: where a property's value comes from: stored values, received values, inheritance (03-datasets.md 5.1,
 * 5.2), and temporary ones of mounts.
 *
 * A dir's whole property ZAP is read once, on first use, and kept with the dir: look-ups of sixty properties through
 * five levels then touch no disk.
 */
#include "base/str.h"
#include "base/log.h"
#include "dsl/dsl_live.h"

#define PROP_STRING_MAX  8192
#define PROP_ENTRIES_MAX 100000

static const struct {
	const char *suffix;
	enum prop_suffix kind;
} suffix_table[] = {{"$recvd", PROP_RECEIVED}, {"$inherit", PROP_INHERIT}, {"$iuv", PROP_IUV}};

/* Cuts the suffix off. False: an unknown one, to be passed over. */
static bool suffix_split(char *name, enum prop_suffix *kind)
{
	char *dollar = strchr(name, '$');

	*kind = PROP_VALUE;
	if (!dollar)
		return name[0] != '\0';
	for (size_t i = 0; i < ARRAY_LEN(suffix_table); i++) {
		if (dollar != name && strcmp(dollar, suffix_table[i].suffix) == 0) {
			*kind = suffix_table[i].kind;
			*dollar = '\0';
			return true;
		}
	}
	return false;
}

static int prop_value_cmp(const void *va, const void *vb)
{
	const struct prop_value *a = va, *b = vb;
	int c = strcmp(a->name, b->name);

	return c ? c : (int)a->suffix - (int)b->suffix;
}

/* Decode the entry under the cursor; false when it is none of ours or damaged. */
static bool prop_value_decode(struct zap_cursor *c, struct zap_entry *ze, struct prop_value *v)
{
	memset(v, 0, sizeof(*v));
	if (ze->key_words || !suffix_split(ze->name, &v->suffix))
		return false;
	if (ze->intsize == 8 && ze->nints == 1) {
		v->number = ze->first;
	} else if (ze->intsize == 1 && ze->nints <= PROP_STRING_MAX) {
		v->is_string = true;
		v->string = xcalloc(1, ze->nints + 1);
		if (ze->nints && zap_cursor_value(c, v->string, ze->nints)) {
			free(v->string);
			return false;
		}
	} else {
		return false;
	}
	v->name = xstrdup(ze->name);
	return true;
}

int prop_set_read(struct dsl_pool *p, uint64_t zap, struct prop_set **out)
{
	struct prop_set *s = xcalloc(1, sizeof(*s));
	struct zap_cursor *c;
	struct zap_entry *ze;
	size_t cap = 0;

	*out = s;
	if (zap == 0)
		return 0;
	s->err = zap_cursor_open(p->mos, zap, 0, &c);
	if (s->err)
		return s->err;
	ze = xmalloc(sizeof(*ze));
	while (s->n < PROP_ENTRIES_MAX && dsl_zap_next(c, ze, &s->err) == 0) {
		if (s->n == cap) {
			cap = cap ? cap * 2 : 8;
			s->v = xrealloc(s->v, cap * sizeof(*s->v));
		}
		if (prop_value_decode(c, ze, &s->v[s->n]))
			s->n++;
	}
	free(ze);
	zap_cursor_close(c);
	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), prop_value_cmp);
	return s->err;
}

void prop_set_free(struct prop_set *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].name);
		free(s->v[i].string);
	}
	free(s->v);
	free(s);
}

const struct prop_value *prop_set_find(const struct prop_set *s, const char *name, enum prop_suffix suffix)
{
	struct prop_value key = {.name = (char *)name, .suffix = suffix};

	return s && s->n ? bsearch(&key, s->v, s->n, sizeof(*s->v), prop_value_cmp) : NULL;
}

const struct prop_set *dsl_dir_props(struct dsl_dir *d)
{
	struct dsl_cache *c = d->pool->cache;
	struct prop_set *fresh, *s;
	int err;

	pthread_mutex_lock(&c->lazy);
	s = d->own_props;
	pthread_mutex_unlock(&c->lazy);
	if (s)
		return s;
	err = prop_set_read(d->pool, d->props, &fresh);
	if (err)
		log_warn("%s: properties cannot be read completely: %s", d->name, err_words(err));
	pthread_mutex_lock(&c->lazy);
	if (!d->own_props) {
		d->own_props = fresh;
		fresh = NULL;
	}
	s = d->own_props;
	pthread_mutex_unlock(&c->lazy);
	prop_set_free(fresh);
	return s;
}

/* --- temporary values --- */

struct temporary_prop {
	struct temporary_prop *next;
	uint64_t object;
	char *name, *value;
};

void dsl_prop_set_temporary(struct dsl_pool *p, uint64_t dataset_object, const char *name, const char *value)
{
	struct dsl_cache *c = p->cache;
	struct temporary_prop **at = &c->temporary, *t;

	SCOPED_LOCK(&c->temporary_lock);
	while (*at && ((*at)->object != dataset_object || strcmp((*at)->name, name) != 0))
		at = &(*at)->next;
	t = *at;
	if (!t && !value)
		return;
	if (!t) {
		t = xcalloc(1, sizeof(*t));
		t->object = dataset_object;
		t->name = xstrdup(name);
		*at = t;
	}
	free(t->value);
	t->value = value ? xstrdup(value) : NULL;
	if (value)
		return;
	*at = t->next;
	free(t->name);
	free(t);
}

bool dsl_prop_temporary(struct dsl_pool *p, uint64_t object, const char *name, char *value, size_t size)
{
	struct dsl_cache *c = p->cache;

	SCOPED_LOCK(&c->temporary_lock);
	for (struct temporary_prop *t = c->temporary; t; t = t->next) {
		if (t->object == object && strcmp(t->name, name) == 0) {
			snprintf(value, size, "%s", t->value);
			return true;
		}
	}
	return false;
}

void dsl_prop_temporary_free(struct dsl_cache *c)
{
	dsl_prop_watch_free(c);
	while (c->temporary) {
		struct temporary_prop *t = c->temporary;

		c->temporary = t->next;
		free(t->name);
		free(t->value);
		free(t);
	}
}

/* --- watching --- */

struct prop_watch {
	struct prop_watch *next;
	void (*changed)(void *arg, uint64_t dataset_object);
	void *arg;
};

void dsl_prop_watch(struct dsl_pool *p, void (*changed)(void *arg, uint64_t dataset_object), void *arg)
{
	struct prop_watch *w = xmalloc(sizeof(*w));

	*w = (struct prop_watch){.changed = changed, .arg = arg};
	SCOPED_LOCK(&p->cache->temporary_lock);
	w->next = p->cache->watches;
	p->cache->watches = w;
}

void dsl_prop_watch_free(struct dsl_cache *c)
{
	while (c->watches) {
		struct prop_watch *w = c->watches;

		c->watches = w->next;
		free(w);
	}
}

static bool dir_is_below(const struct dsl_dir *d, uint64_t ancestor)
{
	for (; d; d = d->up)
		if (d->object == ancestor)
			return true;
	return false;
}

struct below {
	uint64_t ancestor, *object;
	size_t n, cap;
};

/* Data sets in use below a dir. Nobody watches those that nobody has held. */
static void below_collect(struct dsl_pool *p, struct below *b)
{
	struct obj_cache *c = &p->cache->datasets;

	SCOPED_LOCK(&c->lock);
	for (size_t i = 0; i < c->nbuckets; i++) {
		for (struct obj_node *n = c->bucket[i]; n; n = n->next) {
			const struct dsl_dataset *ds = &container_of(n, struct dataset_node, node)->ds;

			if (!ds->dir || !dir_is_below(ds->dir, b->ancestor))
				continue;
			if (b->n == b->cap) {
				b->cap = MAX(16, 2 * b->cap);
				b->object = xrealloc(b->object, b->cap * sizeof(*b->object));
			}
			b->object[b->n++] = n->object;
		}
	}
}

void dsl_props_notify(struct dsl_dir *d)
{
	struct dsl_cache *c = d->pool->cache;
	struct below b = {.ancestor = d->object};
	struct prop_watch *first;

	pthread_mutex_lock(&c->temporary_lock);
	first = c->watches;
	pthread_mutex_unlock(&c->temporary_lock);
	if (!first)
		return;
	below_collect(d->pool, &b);
	for (size_t i = 0; i < b.n; i++)
		for (struct prop_watch *w = first; w; w = w->next)
			w->changed(w->arg, b.object[i]);
	free(b.object);
}

/* --- look-up --- */

static void found_take(struct prop_found *f, const struct prop_value *v, enum prop_source source)
{
	f->is_string = v->is_string;
	f->number = v->number;
	f->string = v->string;
	f->source = source;
}

/* A stored value counts only when its kind fits the property; user properties are strings. */
static bool value_fits(const struct prop_def *def, const struct prop_value *v)
{
	return v && v->is_string == (!def || def->kind == PROP_STRING);
}

static bool iuv_is_known(const struct prop_def *def, const struct prop_value *v)
{
	if (!def || !v || v->is_string)
		return false;
	for (const struct prop_index *i = def->index; i && i->name; i++)
		if (i->value == v->number)
			return true;
	return false;
}

/* One level; here: the level is the data set itself (not the dir of a snapshot). */
static bool find_in_set(const struct prop_set *s, const char *name, const struct prop_def *def, bool here, bool iuv,
			struct prop_found *out)
{
	const struct prop_value *v;

	v = iuv ? prop_set_find(s, name, PROP_IUV) : NULL;
	if (!iuv_is_known(def, v))
		v = prop_set_find(s, name, PROP_VALUE);
	if (value_fits(def, v)) {
		found_take(out, v, here ? SOURCE_LOCAL : SOURCE_INHERITED);
		return true;
	}
	if (prop_set_find(s, name, PROP_INHERIT))
		return false;
	v = prop_set_find(s, name, PROP_RECEIVED);
	if (!value_fits(def, v))
		return false;
	found_take(out, v, here ? SOURCE_RECEIVED : SOURCE_INHERITED);
	return true;
}

int dsl_prop_find_value(struct dsl_dataset *ds, const struct prop_set *own, const char *name,
			const struct prop_def *def, struct prop_found *out)
{
	bool inherit = !def || def->inherit;

	memset(out, 0, sizeof(*out));
	if (ds->is_snapshot && own && find_in_set(own, name, def, true, false, out)) {
		out->from = ds->dir;
		return 0;
	}
	for (struct dsl_dir *d = ds->dir; d; d = d->up) {
		bool here = d == ds->dir && !ds->is_snapshot;

		if (!here && !inherit)
			break;
		if (find_in_set(dsl_dir_props(d), name, def, here, true, out)) {
			out->from = d;
			return 0;
		}
	}
	if (!def || (def->readonly && !def->setonce))
		return -ENOENT;
	out->source = SOURCE_DEFAULT;
	out->is_string = def->kind == PROP_STRING;
	out->number = def->def_number;
	out->string = def->def_string;
	return 0;
}

void prop_source_text(const struct prop_found *f, char *source)
{
	static const char *const words[] = {[SOURCE_NONE] = "-",
					    [SOURCE_DEFAULT] = "default",
					    [SOURCE_TEMPORARY] = "temporary",
					    [SOURCE_LOCAL] = "local",
					    [SOURCE_RECEIVED] = "received"};

	if (!source)
		return;
	if (f->source == SOURCE_INHERITED)
		snprintf(source, DSL_NAME_MAX + 16, "inherited from %s", f->from->name);
	else
		str_copy(source, DSL_NAME_MAX + 16, words[f->source]);
}

static void temporary_source(char *source)
{
	if (source)
		str_copy(source, DSL_NAME_MAX + 16, "temporary");
}

/* The snapshot's own set, which is small and not kept. */
struct prop_set *dsl_snapshot_props(struct dsl_dataset *ds)
{
	struct prop_set *s = NULL;

	if (ds->is_snapshot && ds->props)
		prop_set_read(ds->pool, ds->props, &s);
	return s;
}

int dsl_prop_u64(struct dsl_dataset *ds, const char *name, uint64_t *v, char *source)
{
	DSL_SHARED(ds->pool);
	const struct prop_def *def = dsl_prop_find(name);
	char text[PROP_STRING_MAX];
	struct prop_found f;
	struct prop_set *own;
	int err;

	if (!def || def->kind == PROP_STRING)
		return -EINVAL;
	if (dsl_prop_temporary(ds->pool, ds->object, name, text, sizeof(text))) {
		temporary_source(source);
		if (prop_index_value(def, text, v))
			return 0;
		*v = strtoull(text, NULL, 10);
		return 0;
	}
	own = dsl_snapshot_props(ds);
	err = dsl_prop_find_value(ds, own, name, def, &f);
	if (!err) {
		*v = f.number;
		prop_source_text(&f, source);
	}
	prop_set_free(own);
	return err;
}

int dsl_prop_string(struct dsl_dataset *ds, const char *name, char *v, size_t size, char *source)
{
	DSL_SHARED(ds->pool);
	const struct prop_def *def = dsl_prop_find(name);
	struct prop_found f;
	struct prop_set *own;
	char number[32];
	int err;

	if (dsl_prop_temporary(ds->pool, ds->object, name, v, size)) {
		temporary_source(source);
		return 0;
	}
	own = dsl_snapshot_props(ds);
	err = dsl_prop_find_value(ds, own, name, def, &f);
	if (!err) {
		const char *text = f.string ? f.string : "";

		if (!f.is_string && def)
			text = prop_number_text(def, f.number, number, sizeof(number));
		if (snprintf(v, size, "%s", text) >= (int)size)
			err = -EOVERFLOW;
		prop_source_text(&f, source);
	}
	prop_set_free(own);
	return err;
}
