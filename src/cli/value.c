#include "cli/cli.h"

#include <inttypes.h>

static char *date_show(uint64_t seconds, const char *format)
{
	time_t t = (time_t)seconds;
	char text[64];
	struct tm tm;

	if (!localtime_r(&t, &tm)) /* a year that has no room */
		return xasprintf("%" PRIu64, seconds);
	strftime(text, sizeof(text), format, &tm);
	return xstrdup(text);
}

char *cli_date_show(uint64_t seconds)
{
	return date_show(seconds, "%a %b %e %k:%M %Y");
}

char *cli_ctime_show(uint64_t seconds)
{
	return date_show(seconds, "%a %b %e %H:%M:%S %Y");
}

char *cli_duration_show(uint64_t seconds)
{
	uint64_t days = seconds / 86400, rest = seconds % 86400;
	char clock[32];

	snprintf(clock, sizeof(clock), "%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64, rest / 3600, rest / 60 % 60,
		 rest % 60);
	return days ? xasprintf("%" PRIu64 " days %s", days, clock) : xstrdup(clock);
}

static char *size_show(uint64_t n, bool bytes)
{
	char text[SIZE_TEXT];

	size_print(n, bytes, text);
	return xstrdup(text);
}

static bool is_digits(const char *s)
{
	return *s && s[strspn(s, "0123456789")] == 0;
}

char *cli_property_show(const struct prop_def *def, const char *exact, bool parsable)
{
	uint64_t n;

	if (!def || (def->show != PROP_SHOW_RATIO && !is_digits(exact)))
		return xstrdup(exact);
	if (def->show == PROP_SHOW_COUNT_NONE && strtoull(exact, NULL, 10) == UINT64_MAX)
		return xstrdup("none");
	if (parsable)
		return xstrdup(exact);
	n = strtoull(exact, NULL, 10);
	switch (def->show) {
	case PROP_SHOW_BYTES_NONE:
		return n == 0 ? xstrdup("none") : size_show(n, true);
	case PROP_SHOW_BYTES:
		return size_show(n, true);
	case PROP_SHOW_COUNT:
	case PROP_SHOW_COUNT_NONE:
		return size_show(n, false);
	case PROP_SHOW_RATIO:
		return xasprintf("%sx", exact);
	case PROP_SHOW_DATE:
		return strcmp(def->name, "snapshots_changed") == 0 ? date_show(n, "%a %b %e %k:%M:%S %Y")
								   : cli_date_show(n);
	default:
		return xstrdup(exact);
	}
}
