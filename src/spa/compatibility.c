/*
 * Files that say which features a pool is to keep to (docs/format/01-pool.md, 6.5).
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/os.h"
#include "spa/pool_props.h"

#define FILE_MAX 16384

/* The administrator's first, then OpenZFS's own where it is installed too, then ours. */
#define LOCAL "/etc/zfs/compatibility.d"
static const char *const directories[] = {LOCAL, "/usr/share/zfs/compatibility.d", NULL};

static int file_read(const char *path, char **out)
{
	autofree char *text = xmalloc(FILE_MAX + 1);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, FILE_MAX + 1);
	close(fd);
	if (n <= 0 || n > FILE_MAX || text[n - 1] != '\n')
		return -EINVAL;
	text[n - 1] = '\0';
	*out = text;
	text = NULL;
	return 0;
}

static int file_find(const char *name, char **out, bool *local, struct err *e)
{
	int err = -ENOENT;
	size_t i;

	if (!*name || strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
		return err_set(e, -EINVAL, "'%s' is no name of a compatibility file", name);
	for (i = 0; i < ARRAY_LEN(directories) && err == -ENOENT; i++) {
		autofree char *path = directories[i] ? xasprintf("%s/%s", directories[i], name)
						     : xasprintf("%s/compatibility.d/%s", os_datadir(), name);

		err = file_read(path, out);
	}
	*local = i == 1;
	if (err == -ENOENT)
		return err_set(e, err, "the compatibility file '%s' does not exist in %s, %s nor %s/compatibility.d",
			       name, directories[0], directories[1], os_datadir());
	return err ? err_set(e, err, "the compatibility file '%s' cannot be used: %s", name, err_words(err)) : 0;
}

static bool name_mark(const char *word, bool *named)
{
	for (size_t i = 0; i < spa_feature_table_len; i++)
		if (strcmp(spa_feature_table[i].name, word) == 0) {
			named[i] = true;
			return true;
		}
	return false;
}

/* Words that name no feature go to `unknown`. */
static void names_mark(char *text, bool *named, struct str *unknown)
{
	char *line, *word;

	while ((line = strsep(&text, "\n"))) {
		line[strcspn(line, "#")] = '\0';
		while ((word = strsep(&line, " \t,")))
			if (*word && !name_mark(word, named))
				str_addf(unknown, "%s%s", unknown->len ? " " : "", word);
	}
}

/*
 * One file of the list. An administrator's file with a name that means nothing has a slip of the pen in it; one that
 * came with software may be newer than we are.
 */
static int file_apply(struct spa_compatibility *c, const char *name, struct err *e)
{
	autofree bool *named = xcalloc(spa_feature_table_len, sizeof(*named));
	autofree char *text = NULL;
	struct str unknown = {0};
	bool local = false;
	int err = file_find(name, &text, &local, e);

	if (err)
		return err;
	names_mark(text, named, &unknown);
	if (unknown.len && local)
		err = err_set(e, -EINVAL, "the compatibility file '%s' in " LOCAL " names unknown features: %s", name,
			      str_get(&unknown));
	for (size_t i = 0; i < spa_feature_table_len; i++)
		c->allowed[i] &= named[i];
	str_free(&unknown);
	return err;
}

int spa_compatibility_load(const char *value, struct spa_compatibility *out, struct err *e)
{
	autofree char *files = xstrdup(value ? value : "");
	char *rest = files, *name;
	int err = 0;

	*out = (struct spa_compatibility){.all = true};
	if (!*files || strcmp(files, "off") == 0)
		return 0;
	out->all = false;
	out->allowed = xcalloc(spa_feature_table_len, sizeof(*out->allowed));
	if (strcmp(files, "legacy") == 0)
		return 0;
	memset(out->allowed, true, spa_feature_table_len * sizeof(*out->allowed));
	while (!err && (name = strsep(&rest, ",")))
		err = file_apply(out, name, e);
	if (err)
		spa_compatibility_free(out);
	return err;
}

bool spa_compatibility_allows(const struct spa_compatibility *c, const struct spa_feature *f)
{
	return c->all || c->allowed[f - spa_feature_table];
}

void spa_compatibility_free(struct spa_compatibility *c)
{
	free(c->allowed);
	c->allowed = NULL;
}

/* --- of a pool --- */
int spa_compatibility_of(const struct spa *spa, struct spa_compatibility *out, struct err *e)
{
	autofree char *value = NULL;

	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	value = xstrdup(nvlist_string_or(spa->config, "compatibility", ""));
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	return spa_compatibility_load(value, out, e);
}

static bool is_enabled(const struct spa *spa, const struct spa_feature *f)
{
	const struct spa_priv *pr = spa_priv(spa);

	return (pr->read_features && nvlist_exists(pr->read_features, f->guid)) ||
	       (pr->write_features && nvlist_exists(pr->write_features, f->guid));
}

enum spa_compatibility_state spa_compatibility_state(const struct spa *spa, struct nvlist *outside)
{
	enum spa_compatibility_state state = SPA_COMPATIBILITY_OK;
	struct spa_compatibility c;

	if (spa_compatibility_of(spa, &c, NULL))
		return SPA_COMPATIBILITY_ERR;
	pthread_mutex_lock(&spa_priv(spa)->state_lock);
	for (size_t i = 0; i < spa_feature_table_len; i++) {
		const struct spa_feature *f = &spa_feature_table[i];
		bool enabled = is_enabled(spa, f), allowed = spa_compatibility_allows(&c, f);

		if (enabled && !allowed) {
			state = MAX(state, SPA_COMPATIBILITY_OUTSIDE);
			if (outside)
				nvlist_add_boolean(outside, f->name);
		} else if (!enabled && allowed && !f->not_by_upgrade) {
			state = SPA_COMPATIBILITY_DISABLED;
		}
	}
	pthread_mutex_unlock(&spa_priv(spa)->state_lock);
	spa_compatibility_free(&c);
	return state;
}

void spa_compatibility_warn(const struct spa *spa, struct nvlist *result)
{
	autonv struct nvlist *outside = nvlist_create();
	struct str text = {0};
	const char *list;

	spa_compatibility_state(spa, outside);
	if (nvlist_len(outside) == 0)
		return;
	str_addf(&text, "enabled on '%s' though not in the set of features that 'compatibility' names:", spa->name);
	for (const struct nvpair *p = nvlist_first(outside); p; p = nvlist_next(outside, p))
		str_addf(&text, " %s", nvpair_name(p));
	list = str_get(&text);
	nvlist_add_strings(result, "warnings", &list, 1);
	str_free(&text);
}
