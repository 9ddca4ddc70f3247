/* Lines to stderr. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static const struct {
	const char *word;
	const char *journal; /* syslog priority, as the journal takes it at the start of a line */
} log_levels[] = {
    [LOG_LEVEL_ERROR] = {"error", "<3>"},
    [LOG_LEVEL_WARN] = {"warn", "<4>"},
    [LOG_LEVEL_INFO] = {"info", "<6>"},
    [LOG_LEVEL_DEBUG] = {"debug", "<7>"},
};

static atomic_int log_level = LOG_LEVEL_WARN;
static atomic_bool log_to_journal;

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_level, level, memory_order_relaxed);
}

/* $JOURNAL_STREAM names the journal's socket; stderr may have been redirected since. */
static bool stderr_is_journal(void)
{
	const char *s = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return s && sscanf(s, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
	       st.st_ino == ino;
}

void log_init(enum log_level fallback)
{
	const char *word = getenv("TARN_LOG");

	log_set_level(fallback);
	for (size_t i = 0; word && i < ARRAY_LEN(log_levels); i++)
		if (strcmp(word, log_levels[i].word) == 0)
			log_set_level(i);
	atomic_store(&log_to_journal, stderr_is_journal());
}

static size_t log_head(char *line, size_t size, enum log_level level)
{
	struct timespec ts;
	struct tm tm;
	size_t n;

	if (atomic_load_explicit(&log_to_journal, memory_order_relaxed))
		return snprintf(line, size, "%s", log_levels[level].journal);
	clock_gettime(CLOCK_REALTIME, &ts);
	localtime_r(&ts.tv_sec, &tm);
	n = strftime(line, size, "%Y-%m-%d %H:%M:%S", &tm);
	return n + snprintf(line + n, size - n, ".%03ld %s: ", ts.tv_nsec / 1000000, log_levels[level].word);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char line[2048];
	size_t n;
	va_list ap;
	ssize_t ignored;

	if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
		return;
	n = log_head(line, sizeof(line), level);
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	/* One call per line keeps lines of several threads apart. */
	ignored = write(STDERR_FILENO, line, n);
	(void)ignored;
	errno = saved_errno;
}
