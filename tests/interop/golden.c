/*
 * tests/interop/golden.c: unpacking and importing a golden pool.
 */
#include "golden.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/log.h"
#include "base/str.h"

#define ARC_BYTES    (64u << 20)
#define PRINTED_MAX  100
#define UNPACK_CHUNK (1u << 20)
#define SPARSE_GRAIN 4096

void golden_differs(struct golden *g, const char *fmt, ...)
{
	va_list ap;

	if (g->tolerant) {
		g->tolerated++;
		return;
	}
	if (++g->differences > PRINTED_MAX)
		return;
	va_start(ap, fmt);
	printf("%s: ", g->name);
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
}

bool golden_was_written(const struct golden *g)
{
	json_t *note;
	size_t i;

	json_array_foreach(json_object_get(g->manifest, "notes"), i,
			   note) if (json_is_string(note) &&
				     strstr(json_string_value(note), "imported for writing")) return true;
	return false;
}

uint64_t golden_u64(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

const char *golden_text(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "";
}

void golden_hex(const uint8_t *p, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		sprintf(out + 2 * i, "%02x", p[i]);
	out[2 * n] = '\0';
}

char *golden_bytes(const json_t *j, size_t *len)
{
	const char *text = json_string_value(j), *b64 = json_string_value(json_object_get(j, "b64"));
	char *out;
	size_t n;
	int got;

	if (text) {
		*len = json_string_length(j);
		out = xcalloc(1, *len + 1);
		memcpy(out, text, *len);
		return out;
	}
	if (!b64)
		return NULL;
	n = strlen(b64);
	out = xcalloc(1, n + 4);
	got = EVP_DecodeBlock((uint8_t *)out, (const uint8_t *)b64, (int)n);
	if (got < 0) {
		free(out);
		return NULL;
	}
	*len = (size_t)got - (n > 0 && b64[n - 1] == '=') - (n > 1 && b64[n - 2] == '=');
	out[*len] = '\0';
	return out;
}

/* Write at the position, leaving out what is zero. */
static bool sparse_write(int fd, off_t at, const char *p, size_t n)
{
	static const char zeros[SPARSE_GRAIN];

	while (n) {
		size_t part = MIN(n, SPARSE_GRAIN - (size_t)(at % SPARSE_GRAIN));

		if (memcmp(p, zeros, part) && pwrite(fd, p, part, at) != (ssize_t)part)
			return false;
		at += (off_t)part;
		p += part;
		n -= part;
	}
	return true;
}

static off_t image_decompress(FILE *in, int fd, ZSTD_DStream *ds)
{
	autofree char *src = xmalloc(UNPACK_CHUNK), *dst = xmalloc(UNPACK_CHUNK);
	off_t at = 0;
	size_t n;

	while ((n = fread(src, 1, UNPACK_CHUNK, in)) > 0) {
		ZSTD_inBuffer ib = {src, n, 0};
		ZSTD_outBuffer ob = {dst, UNPACK_CHUNK, UNPACK_CHUNK};

		/* a full output buffer may leave more behind */
		while (ib.pos < ib.size || ob.pos == ob.size) {
			ob.pos = 0;
			if (ZSTD_isError(ZSTD_decompressStream(ds, &ob, &ib)))
				return -1;
			if (!sparse_write(fd, at, dst, ob.pos))
				return -1;
			at += (off_t)ob.pos;
		}
	}
	return at;
}

static bool image_unpack(const char *from, const char *to, uint64_t size)
{
	ZSTD_DStream *ds = ZSTD_createDStream();
	FILE *in = fopen(from, "r");
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool ok = in && fd >= 0 && ds;

	if (ok) {
		ZSTD_DCtx_setParameter(ds, ZSTD_d_windowLogMax, 27);
		ok = ftruncate(fd, (off_t)size) == 0 && image_decompress(in, fd, ds) == (off_t)size;
	}
	ZSTD_freeDStream(ds);
	if (in)
		fclose(in);
	if (fd >= 0)
		close(fd);
	return ok;
}

static bool golden_unpack(struct golden *g)
{
	const char *tmp = getenv("TMPDIR");
	json_t *image;
	size_t i;

	g->dir = xasprintf("%s/tarn-%s-XXXXXX", tmp ? tmp : "/tmp", g->name);
	if (!mkdtemp(g->dir))
		return false;
	json_array_foreach(json_object_get(g->manifest, "images"), i, image)
	{
		const char *file = golden_text(image, "file");
		autofree char *from = xasprintf("%s/%s", g->source, file);
		autofree char *to = xasprintf("%s/%.*s", g->dir, (int)strcspn(file, "."), file);

		if (!image_unpack(from, to, golden_u64(image, "size"))) {
			printf("%s: cannot unpack %s\n", g->name, file);
			return false;
		}
	}
	return true;
}

static void dir_remove(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *de;

	while (d && (de = readdir(d)))
		unlinkat(dirfd(d), de->d_name, 0);
	if (d)
		closedir(d);
	rmdir(dir);
}

/* The key as a file or prompt would give it: text, or raw bytes. */
static bool golden_key_load(struct golden *g, const char *root, const json_t *key)
{
	const char *format = golden_text(key, "format"), *value = golden_text(key, "value");
	struct err e = ERR_INIT;
	uint8_t raw[32];
	int rc;

	if (strcmp(format, "raw") == 0) {
		for (unsigned i = 0; i < sizeof(raw); i++)
			sscanf(value + 2 * i, "%2hhx", &raw[i]);
		rc = dsl_key_load(g->spa->dsl, root, raw, sizeof(raw), false, &e);
	} else {
		rc = dsl_key_load(g->spa->dsl, root, value, strlen(value), false, &e);
	}
	if (rc)
		golden_differs(g, "key of %s: %s", root, e.text);
	return rc == 0;
}

int golden_try_import(struct golden *g, const struct spa_import *args, struct err *e)
{
	const char *paths[] = {g->dir};
	struct spa_search search = {.paths = paths, .npaths = 1};
	struct spa_import all = *args;
	struct nvlist **found = NULL;
	size_t n = 0;
	int rc = spa_search(&search, &found, &n, e);
	const char *name = golden_text(json_object_get(g->manifest, "pool"), "name");

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (strcmp(nvlist_string_or(found[i], "name", ""), name) == 0)
			all.config = found[i];
	if (!g->arc)
		g->arc = arc_create(ARC_BYTES);
	all.arc = g->arc;
	if (rc == 0)
		rc = all.config ? spa_import(&all, &g->spa, e)
				: err_set(e, -ENOENT, "the search finds no pool '%s'", name);
	for (size_t i = 0; i < n; i++)
		nvlist_destroy(found[i]);
	free(found);
	return rc;
}

int golden_export(struct golden *g, struct err *e)
{
	int rc = g->spa ? spa_export(g->spa, e) : 0;

	g->spa = NULL;
	return rc;
}

static bool golden_import(struct golden *g)
{
	struct err e = ERR_INIT;
	int rc = golden_try_import(g, &(struct spa_import){.force = true}, &e);

	if (e.text[0])
		printf("%s: %s\n", g->name, e.text);
	return rc == 0;
}

bool golden_keys_load(struct golden *g)
{
	const char *root, *pool = golden_text(json_object_get(g->manifest, "pool"), "name");
	json_t *key;
	bool ok = true;

	json_object_foreach(json_object_get(g->manifest, "keys"), root,
			    key) if (strncmp(root, pool, strlen(pool)) ==
				     0) /* others are of pools made from this one's streams */
	    ok &= golden_key_load(g, root, key);
	return ok;
}

static char *golden_source(const char *name)
{
	const char *pools = getenv("TARN_POOLS");

	if (strchr(name, '/'))
		return xstrdup(name);
	if (!pools)
		pools = getenv("TARN_POOLS_DEFAULT");
	return xasprintf("%s/%s", pools ? pools : "../shared/pools", name);
}

int golden_load(struct golden *g, const char *name)
{
	autofree char *file = NULL;
	json_error_t je;

	memset(g, 0, sizeof(*g));
	g->name = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	log_init(LOG_LEVEL_WARN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	g->source = golden_source(name);
	file = xasprintf("%s/manifest.json", g->source);
	if (access(file, R_OK)) {
		printf("skipped: there is no %s ($TARN_POOLS names the folder of the golden pools)\n", file);
		return GOLDEN_SKIP;
	}
	g->manifest = json_load_file(file, JSON_ALLOW_NUL, &je);
	if (!g->manifest) {
		printf("%s:%d: %s\n", file, je.line, je.text);
		return 1;
	}
	return golden_unpack(g) ? 0 : 1;
}

int golden_open(struct golden *g, const char *name)
{
	int rc = golden_load(g, name);

	return rc ? rc : golden_import(g) && golden_keys_load(g) ? 0 : 1;
}

char *golden_image(const struct golden *g, size_t i)
{
	const char *file = golden_text(json_array_get(json_object_get(g->manifest, "images"), i), "file");

	return *file ? xasprintf("%s/%.*s", g->dir, (int)strcspn(file, "."), file) : NULL;
}

void golden_close(struct golden *g)
{
	struct err e = ERR_INIT;

	if (golden_export(g, &e))
		golden_differs(g, "export: %s", e.text);
	if (g->arc)
		arc_destroy(g->arc);
	if (g->dir)
		dir_remove(g->dir);
	json_decref(g->manifest);
	free(g->dir);
	free(g->source);
}
