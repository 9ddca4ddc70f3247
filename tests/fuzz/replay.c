/*
 * The driver of fuzz targets where libFuzzer is not there: replay SECONDS FOLDER... runs every file of the folders,
 * then changed copies of them for so many seconds, from a fixed start so that a failure can be repeated. The input that
 * was running at a crash is left in ./crash-input.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/counter.h"
#include "fuzz.h"

struct seed {
	uint8_t *data;
	size_t size;
};

static struct seed *seeds;
static size_t nseeds;
static const uint8_t *running;
static size_t running_size;

static void crashed(int sig)
{
	int fd = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0666);

	if (fd >= 0 && write(fd, running, running_size) >= 0)
		close(fd);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void run(const uint8_t *data, size_t size)
{
	running = data;
	running_size = size;
	LLVMFuzzerTestOneInput(data, size);
}

static void seed_load(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct seed s = {xmalloc(1u << 20), 0};

	if (!f) {
		free(s.data);
		return;
	}
	s.size = fread(s.data, 1, 1u << 20, f);
	fclose(f);
	seeds = xrealloc(seeds, (nseeds + 1) * sizeof(*seeds));
	seeds[nseeds++] = s;
}

static void folder_load(const char *folder)
{
	struct dirent **list;
	int n = scandir(folder, &list, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		if (list[i]->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/%s", folder, list[i]->d_name) < (int)sizeof(path))
			seed_load(path);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

static uint64_t state = 88172645463325252;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A few bytes set, a bit flipped, a word made extreme, a cut. */
static size_t change(uint8_t *p, size_t size)
{
	static const uint64_t extreme[] = {0, 1, 0xff, 0xffff, 0x7fffffff, UINT32_MAX, INT64_MAX, UINT64_MAX};

	for (unsigned n = 1 + next_random() % 4; n > 0 && size > 0; n--) {
		size_t at = next_random() % size;
		uint64_t v = extreme[next_random() % ARRAY_LEN(extreme)];

		switch (next_random() % 5) {
		case 0:
			p[at] = (uint8_t)next_random();
			break;
		case 1:
			p[at] ^= 1u << next_random() % 8;
			break;
		case 2:
			memcpy(p + at, &v, MIN(sizeof(v), size - at));
			break;
		case 3:
			memcpy(p + at, p + next_random() % size, size - at > 8 && size > 16 ? 1 : 0);
			break;
		default:
			if (next_random() % 8 == 0)
				size = at;
		}
	}
	return size;
}

int main(int argc, char **argv)
{
	uint64_t end;
	uint64_t runs = 0;

	if (argc < 3)
		return 2;
	for (int i = 2; i < argc; i++)
		folder_load(argv[i]);
	if (nseeds == 0) {
		fprintf(stderr, "no seeds\n");
		return 1;
	}
	signal(SIGSEGV, crashed);
	signal(SIGABRT, crashed);
	signal(SIGFPE, crashed);
	end = now_ns() + strtoull(argv[1], NULL, 10) * 1000000000;
	for (size_t i = 0; i < nseeds; i++, runs++)
		run(seeds[i].data, seeds[i].size);
	for (; now_ns() < end; runs++) {
		const struct seed *s = &seeds[next_random() % nseeds];
		autofree uint8_t *p = fuzz_copy(s->data, s->size);

		run(p, change(p, s->size));
	}
	printf("%zu seeds, %llu runs\n", nseeds, (unsigned long long)runs);
	return 0;
}
