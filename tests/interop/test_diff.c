/*
 * Differences between states of a file system are those that the real zfs diff prints.
 *
 *     test_diff FOLDER
 */
#include <stdio.h>

#include "base/str.h"
#include "golden.h"
#include "zpl/zpl.h"

struct lines {
	json_t *got;
	const char *mountpoint; /* without the slash before it */
	bool times;
};

/* As zfs diff prints names: backslash, blanks and what is no printable ASCII in octal. */
static void add_escaped(struct str *s, const char *text)
{
	for (; *text; text++) {
		if (*text > ' ' && *text < 127 && *text != '\\')
			str_addf(s, "%c", *text);
		else
			str_addf(s, "\\0%03o", (unsigned char)*text);
	}
}

static int add_line(void *arg, const struct zpl_change *c)
{
	struct lines *l = arg;
	struct str s = {0};

	if (l->times)
		str_addf(&s, "%lld.%09ld\t", (long long)c->ctime.tv_sec, c->ctime.tv_nsec);
	str_addf(&s, "%c\t%c\t/%s", c->kind, c->type, l->mountpoint);
	add_escaped(&s, c->path);
	if (c->new_path) {
		str_addf(&s, "\t/%s", l->mountpoint);
		add_escaped(&s, c->new_path);
	}
	if (c->link_delta)
		str_addf(&s, "\t(%+lld)", (long long)c->link_delta);
	json_array_append_new(l->got, json_string(s.s));
	str_free(&s);
	return 0;
}

/* Print what only one of them has. */
static void tell_differences(struct golden *g, const char *what, json_t *want, json_t *got)
{
	const json_t *l[2] = {want, got};

	for (unsigned side = 0; side < 2; side++) {
		for (size_t i = 0; i < json_array_size(l[side]); i++) {
			json_t *line = json_array_get(l[side], i);
			bool found = false;

			for (size_t k = 0; k < json_array_size(l[!side]); k++)
				found |= json_equal(line, json_array_get(l[!side], k));
			if (!found)
				golden_differs(g, "%s: %s: %s", what, side ? "too much" : "missing",
					       json_string_value(line));
		}
	}
	if (g->differences == 0)
		golden_differs(g, "%s: other order", what);
}

static struct zpl *zpl_by_name(struct golden *g, const char *name)
{
	struct dsl_dataset *ds;
	struct zpl *z = NULL;
	struct err e = ERR_INIT;

	if (dsl_dataset_hold(g->spa->dsl, name, &ds, &e)) {
		golden_differs(g, "%s", e.text);
		return NULL;
	}
	if (zpl_open(ds, &z, &e))
		golden_differs(g, "%s", e.text);
	dsl_dataset_release(ds);
	return z;
}

static void check_diff(struct golden *g, const json_t *one)
{
	const char *from = golden_text(one, "from"), *to = golden_text(one, "to");
	struct zpl *a = zpl_by_name(g, from), *b = zpl_by_name(g, to);
	autofree char *mountpoint = strndup(to, strcspn(to, "@"));
	struct lines l = {json_array(), mountpoint, !json_is_true(json_object_get(one, "no_times"))};
	struct err e = ERR_INIT;
	int rc = a && b ? zpl_diff(a, b, add_line, &l, &e) : 0;

	if (rc)
		golden_differs(g, "%s to %s: %s", from, to, e.text);
	else if (a && b && !json_equal(l.got, json_object_get(one, "lines")))
		tell_differences(g, to, json_object_get(one, "lines"), l.got);
	json_decref(l.got);
	zpl_close(a);
	zpl_close(b);
}

int main(int argc, char **argv)
{
	struct golden g;
	json_t *one;
	size_t i;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: test_diff FOLDER\n");
		return 2;
	}
	rc = golden_open(&g, argv[1]);
	if (rc == 0)
		json_array_foreach(json_object_get(g.manifest, "diffs"), i, one) check_diff(&g, one);
	golden_close(&g);
	return rc ? rc : g.differences != 0;
}
