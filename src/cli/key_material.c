/*
 * cli/key_material.c: where key material comes from: a file, the terminal, standard input.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cli/key.h"

/* Longest passphrase OpenZFS takes is 512 bytes; raw and hex keys are shorter. */
#define MATERIAL_MAX 514
#define PROMPT_TRIES 3

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

static int material_get(const char *root, const char *format, const char *location, uint8_t *buf, size_t *len,
			struct err *e)
{
	autofree char *prompt = NULL;
	int err;

	if (strncmp(location, "file://", 7) == 0)
		err = material_from_file(location + 7, buf, len, e);
	else if (strcmp(location, "prompt") == 0 && strcmp(format, "raw") == 0 && !isatty(STDIN_FILENO))
		err = material_from_file("/dev/stdin", buf, len, e);
	else if (strcmp(location, "prompt") == 0) {
		prompt = xasprintf(
		    "Enter %s for '%s': ", strcmp(format, "passphrase") == 0 ? "passphrase" : "key (hex)", root);
		err = cli_read_secret(prompt, buf, len);
		if (err)
			err_set(e, err, "cannot read the key: %s", strerror(-err));
	} else {
		return err_set(e, -ENOTSUP,
			       "key location '%s' is not supported: fetch the key and give -L file:///PATH", location);
	}
	if (!err)
		material_trim(format, buf, len);
	return err;
}

/* A person may mistype; a file or a pipe says the same every time. */
int cli_key_obtain(const char *root, const char *format, const char *location,
		   int (*take)(void *arg, const uint8_t *material, size_t len, struct err *e), void *arg, struct err *e)
{
	unsigned tries = strcmp(location, "prompt") == 0 && isatty(STDIN_FILENO) ? PROMPT_TRIES : 1;
	uint8_t buf[MATERIAL_MAX];
	int err = 0;

	for (unsigned i = 0; i < tries; i++) {
		size_t len = sizeof(buf);

		*e = (struct err)ERR_INIT;
		err = material_get(root, format, location, buf, &len, e);
		if (!err)
			err = take(arg, buf, len, e);
		explicit_bzero(buf, sizeof(buf));
		if (err != -EACCES && err != -EINVAL)
			break;
		if (i + 1 < tries)
			fprintf(stderr, "%s\n", e->text);
	}
	return err;
}
