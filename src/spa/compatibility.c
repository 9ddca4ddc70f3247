/*
 * Files that say which features a pool is to keep to (docs/format/01-pool.md, 6.5).
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/os.h"
#include "spa/pool_props.h"

#define FILE_MAX 16384

static const char *const directories[] = {"/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"};

static int file_read(const char *path, char **out, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	*out = xmalloc(FILE_MAX + 1);
	n = read(fd, *out, FILE_MAX + 1);
	close(fd);
	if (n <= 0 || n > FILE_MAX || (*out)[n - 1] != '\n') {
		free(*out);
		return -EINVAL;
	}
	*len = (size_t)n;
	(*out)[n - 1] = '\0';
	return 0;
}

static int file_find(const char *name, char **out, size_t *len, struct err *e)
{
	int err = -ENOENT;

	if (!*name || strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
		return err_set(e, -EINVAL, "'%s' is no name of a compatibility file", name);
	for (size_t i = 0; i < ARRAY_LEN(directories) && err == -ENOENT; i++) {
		autofree char *path = xasprintf("%s/%s", directories[i], name);

		err = file_read(path, out, len);
	}
	if (err == -ENOENT)
		return err_set(e, err, "the compatibility file '%s' does not exist in %s nor %s", name, directories[0],
			       directories[1]);
	return err ? err_set(e, err, "the compatibility file '%s' cannot be used: %s", name, err_words(err)) : 0;
}

static void names_mark(char *text, bool *named)
{
	char *line, *word;

	while ((line = strsep(&text, "\n"))) {
		line[strcspn(line, "#")] = '\0';
		while ((word = strsep(&line, " \t,")))
			for (size_t i = 0; *word && i < spa_feature_table_len; i++)
				if (strcmp(spa_feature_table[i].name, word) == 0)
					named[i] = true;
	}
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
	while (!err && (name = strsep(&rest, ","))) {
		autofree bool *named = xcalloc(spa_feature_table_len, sizeof(*named));
		autofree char *text = NULL;
		size_t len;

		err = file_find(name, &text, &len, e);
		if (err)
			break;
		names_mark(text, named);
		for (size_t i = 0; i < spa_feature_table_len; i++)
			out->allowed[i] &= named[i];
	}
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
