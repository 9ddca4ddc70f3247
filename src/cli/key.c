#include "cli/key.h"

struct key_info {
	const char *root, *format, *location;
	bool loaded;
};

/* The root's own words on its key; they point into *reply. */
static int key_info_get(const char *name, struct key_info *info, struct nvlist **reply, struct err *e)
{
	autonv struct nvlist *args = nvlist_create();
	int err;

	nvlist_add_string(args, "name", name);
	err = cli_ask("key.info", args, NULL, NULL, reply, e);
	if (err)
		return err;
	info->root = nvlist_string_or(*reply, "root", "");
	info->format = nvlist_string_or(*reply, "keyformat", "none");
	info->location = nvlist_string_or(*reply, "keylocation", "prompt");
	info->loaded = nvlist_bool(*reply, "loaded");
	return 0;
}

struct key_send {
	const char *root;
	bool check;
};

static int key_send(void *arg, const uint8_t *material, size_t len, struct err *e)
{
	struct key_send *k = arg;
	struct nvlist *args = nvlist_create();
	int err;

	nvlist_add_string(args, "root", k->root);
	nvlist_add_bytes(args, "material", material, len);
	nvlist_add_boolean_value(args, "check", k->check);
	err = cli_ask("key.load", args, NULL, NULL, NULL, e);
	nvlist_destroy(args);
	return err;
}

int cli_key_load(const char *root, const char *location, bool check)
{
	autonv struct nvlist *reply = NULL;
	struct key_send send = {root, check};
	struct key_info info;
	struct err e = ERR_INIT;
	int err = key_info_get(root, &info, &reply, &e);

	if (!err && strcmp(info.root, root) != 0)
		err = err_set(&e, -EINVAL, "keys must be loaded for the encryption root '%s'", info.root);
	if (!err && info.loaded && !check)
		err = err_set(&e, -EEXIST, "key already loaded");
	if (!err)
		err = cli_key_obtain(root, info.format, location ? location : info.location, key_send, &send, &e);
	return err ? cli_fail("load the key for", root, &e) : CLI_OK;
}

/* ---- many ---- */

struct root_list {
	char **root;
	size_t n;
	bool loaded;
};

static const char *property(const struct nvlist *item, const char *name)
{
	struct nvlist *props, *p;

	if (nvlist_list(item, "properties", &props) || nvlist_list(props, name, &p))
		return "";
	return nvlist_string_or(p, "value", "");
}

static int root_collect(void *arg, const struct nvlist *item)
{
	struct root_list *l = arg;
	const char *name = nvlist_string_or(item, "name", ""), *status = property(item, "keystatus");

	if (strcmp(property(item, "encryptionroot"), name) != 0 ||
	    strcmp(status, l->loaded ? "available" : "unavailable") != 0)
		return 0;
	l->root = xrealloc(l->root, (l->n + 1) * sizeof(char *));
	l->root[l->n++] = xstrdup(name);
	return 0;
}

int cli_key_roots(const char *name, bool loaded, char ***roots, size_t *n, struct err *e)
{
	static const char *const props[] = {"encryptionroot", "keystatus"};
	autonv struct nvlist *args = nvlist_create();
	struct root_list l = {.loaded = loaded};
	int err;

	nvlist_add_strings(args, "props", props, ARRAY_LEN(props));
	if (name)
		nvlist_add_strings(args, "names", &name, 1);
	err = cli_ask("dataset.list", args, root_collect, &l, NULL, e);
	*roots = l.root;
	*n = l.n;
	return err;
}

void cli_key_roots_free(char **roots, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(roots[i]);
	free(roots);
}

int cli_key_load_all(const char *name, unsigned *loaded, unsigned *failed)
{
	struct err e = ERR_INIT;
	char **roots;
	size_t n;

	*loaded = *failed = 0;
	if (cli_key_roots(name, false, &roots, &n, &e))
		return cli_fail("find encrypted data sets of", name ? name : "all pools", &e);
	for (size_t i = 0; i < n; i++) {
		if (cli_key_load(roots[i], NULL, false))
			++*failed;
		else
			++*loaded;
	}
	cli_key_roots_free(roots, n);
	return *failed ? CLI_ERROR : CLI_OK;
}

int cli_key_load_for(const char *name)
{
	autonv struct nvlist *reply = NULL;
	struct key_info info;
	struct err e = ERR_INIT;
	int err = key_info_get(name, &info, &reply, &e);

	if (err == -ENOENT || (!err && info.loaded))
		return CLI_OK; /* nothing to load; what else is wrong the mount will tell */
	return err ? cli_fail("load the key for", name, &e) : cli_key_load(info.root, NULL, false);
}

int cli_key_unload(const char *root)
{
	autonv struct nvlist *args = nvlist_create();
	struct err e = ERR_INIT;

	nvlist_add_string(args, "root", root);
	return cli_ask("key.unload", args, NULL, NULL, NULL, &e) ? cli_fail("unload the key for", root, &e) : CLI_OK;
}

int cli_key_unload_below(const char *name)
{
	struct err e = ERR_INIT;
	int failed = CLI_OK;
	char **roots;
	size_t n;

	if (cli_key_roots(name, true, &roots, &n, &e))
		return cli_fail("find encrypted data sets of", name ? name : "all pools", &e);
	for (size_t i = 0; i < n; i++)
		if (cli_key_unload(roots[i]))
			failed = CLI_ERROR;
	cli_key_roots_free(roots, n);
	return failed;
}

int cli_key_unload_all(const char *name)
{
	unsigned unloaded = 0;
	struct err e = ERR_INIT;
	char **roots;
	size_t n;

	if (cli_key_roots(name, true, &roots, &n, &e))
		return cli_fail("find encrypted data sets of", name ? name : "all pools", &e);
	for (size_t i = 0; i < n; i++)
		unloaded += cli_key_unload(roots[i]) == CLI_OK;
	printf("%u / %zu key(s) successfully unloaded\n", unloaded, n);
	cli_key_roots_free(roots, n);
	return unloaded < n ? CLI_ERROR : CLI_OK;
}
