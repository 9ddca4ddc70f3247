/*
 * tarn-cat: write one file of a ZFS pool to standard output, straight from the devices.
 *
 *     cc tarn-cat.c -o tarn-cat $(pkg-config --cflags --libs tarn)
 *     tarn-cat DIR POOL/FS[@SNAP] PATH [PASSPHRASE]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

static int say(const struct tarn_error *e)
{
	fprintf(stderr, "tarn-cat: %s\n", e->text);
	return 1;
}

static int file_copy(struct tarn_node *file, FILE *out, struct tarn_error *e)
{
	static char buffer[1 << 20];
	uint64_t offset = 0;
	size_t got;
	int err;

	while ((err = tarn_node_read(file, offset, buffer, sizeof(buffer), &got, e)) == 0 && got > 0) {
		if (fwrite(buffer, 1, got, out) != got)
			return -EIO;
		offset += got;
	}
	return err;
}

static int fs_cat(struct tarn_pool *pool, char **argv, struct tarn_error *e)
{
	struct tarn_fs *fs = NULL;
	struct tarn_node *file = NULL;
	int err = 0;

	if (argv[4])
		err = tarn_key_load(pool, argv[2], argv[4], strlen(argv[4]), e);
	if (!err)
		err = tarn_fs_open(pool, argv[2], &fs, e);
	if (!err)
		err = tarn_node_open(fs, argv[3], &file, e);
	if (!err)
		err = file_copy(file, stdout, e);
	tarn_node_close(file);
	tarn_fs_close(fs);
	return err;
}

int main(int argc, char **argv)
{
	struct tarn_error e = {0, "cannot write to standard output"};
	const char *paths[] = {argc > 3 ? argv[1] : "."};
	struct tarn_open_options how = {.paths = paths, .npaths = 1};
	struct tarn_pool *pool;
	struct tarn *t;
	char *name;
	int err;

	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: tarn-cat DIR POOL/FS[@SNAP] PATH [PASSPHRASE]\n");
		return 2;
	}
	if (tarn_create(64 << 20, &t, &e))
		return say(&e);
	name = strndup(argv[2], strcspn(argv[2], "/@"));
	err = tarn_pool_open(t, name, &how, &pool, &e);
	free(name);
	if (!err) {
		err = fs_cat(pool, argv, &e);
		tarn_pool_close(pool, NULL);
	}
	tarn_destroy(t);
	return err ? say(&e) : fflush(stdout) ? 1 : 0;
}
