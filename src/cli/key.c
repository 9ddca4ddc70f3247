#include "cli/key.h"

#include <fcntl.h>
#include <unistd.h>

/* Longest passphrase OpenZFS takes is 512 bytes; raw and hex keys are shorter. */
#define MATERIAL_MAX 514
#define PROMPT_TRIES 3

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

/* ---- material ---- */

static int material_from_file(const char *path, uint8_t *buf, size_t *len, struct err *e)
{
	size_t n = 0;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set(e, -errno, "failed to open key file %s: %s", path, strerror(errno));
	while (n < *len && (got = read(fd, buf + n, *len - n)) > 0)
		n += (size_t)got;
	close(fd);
	*len = n;
	return 0;
}

/* A file may end in a newline that is no part of a text key. */
static void material_trim(const char *format, const uint8_t *buf, size_t *len)
{
	if (strcmp(format, "raw") != 0 && *len > 0 && buf[*len - 1] == '\n')
		(*len)--;
}

static int material_get(const struct key_info *info, const char *location, uint8_t *buf, size_t *len, struct err *e)
{
	autofree char *prompt = NULL;
	int err;

	if (strncmp(location, "file://", 7) == 0)
		err = material_from_file(location + 7, buf, len, e);
	else if (strcmp(location, "prompt") == 0 && strcmp(info->format, "raw") == 0 && !isatty(STDIN_FILENO))
		err = material_from_file("/dev/stdin", buf, len, e);
	else if (strcmp(location, "prompt") == 0) {
		prompt = xasprintf("Enter %s for '%s': ",
				   strcmp(info->format, "passphrase") == 0 ? "passphrase" : "key (hex)", info->root);
		err = cli_read_secret(prompt, buf, len);
		if (err)
			err_set(e, err, "cannot read the key: %s", strerror(-err));
	} else {
		return err_set(e, -ENOTSUP,
			       "key location '%s' is not supported: fetch the key and give -L file:///PATH", location);
	}
	if (!err)
		material_trim(info->format, buf, len);
	return err;
}

static int material_send(const struct key_info *info, const uint8_t *buf, size_t len, bool check, struct err *e)
{
	struct nvlist *args = nvlist_create();
	int err;

	nvlist_add_string(args, "root", info->root);
	nvlist_add_bytes(args, "material", buf, len);
	nvlist_add_boolean_value(args, "check", check);
	err = cli_ask("key.load", args, NULL, NULL, NULL, e);
	nvlist_destroy(args);
	return err;
}

/* A person may mistype; a file or a pipe says the same every time. */
static int key_try(const struct key_info *info, const char *location, bool check, struct err *e)
{
	unsigned tries = strcmp(location, "prompt") == 0 && isatty(STDIN_FILENO) ? PROMPT_TRIES : 1;
	uint8_t buf[MATERIAL_MAX];
	int err = 0;

	for (unsigned i = 0; i < tries; i++) {
		size_t len = sizeof(buf);

		*e = (struct err)ERR_INIT;
		err = material_get(info, location, buf, &len, e);
		if (!err)
			err = material_send(info, buf, len, check, e);
		explicit_bzero(buf, sizeof(buf));
		if (err != -EACCES && err != -EINVAL)
			break;
		if (i + 1 < tries)
			fprintf(stderr, "%s\n", e->text);
	}
	return err;
}

int cli_key_load(const char *root, const char *location, bool check)
{
	autonv struct nvlist *reply = NULL;
	struct key_info info;
	struct err e = ERR_INIT;
	int err = key_info_get(root, &info, &reply, &e);

	if (!err && strcmp(info.root, root) != 0)
		err = err_set(&e, -EINVAL, "keys must be loaded for the encryption root '%s'", info.root);
	if (!err && info.loaded && !check)
		err = err_set(&e, -EEXIST, "key already loaded");
	if (!err)
		err = key_try(&info, location ? location : info.location, check, &e);
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
