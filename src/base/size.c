#include "base/size.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

static const char units[] = "BKMGTPEZ";

void size_print(uint64_t n, bool bytes, char out[SIZE_TEXT])
{
	char unit[2] = {0, 0};
	uint64_t v = n;
	unsigned i = 0;

	for (; v >= 1024 && i < 6; i++)
		v /= 1024;
	if (i > 0 || bytes)
		unit[0] = units[i];
	if (i == 0 || (n & ((UINT64_C(1) << (10 * i)) - 1)) == 0) {
		snprintf(out, SIZE_TEXT, "%llu%s", (unsigned long long)v, unit);
		return;
	}
	for (int decimals = 2; decimals >= 0; decimals--)
		if (snprintf(out, SIZE_TEXT, "%.*f%s", decimals, (double)n / exp2(10.0 * i), unit) <= 5)
			return;
}

/* The power of 1024 a unit stands for; -1 when it is none. */
static int unit_power(const char *text)
{
	const char *p;

	if (!*text)
		return 0;
	p = strchr(units, toupper((unsigned char)*text));
	if (!p)
		return -1;
	text++;
	if (p > units && (strcasecmp(text, "b") == 0 || strcasecmp(text, "ib") == 0))
		return (int)(p - units);
	return *text ? -1 : (int)(p - units);
}

int size_parse(const char *text, uint64_t *out)
{
	size_t digits = strspn(text, "0123456789");
	size_t fraction = text[digits] == '.' ? strspn(text + digits + 1, "0123456789") : 0;
	const char *unit = text + digits + (text[digits] == '.' ? 1 + fraction : 0);
	int power = unit_power(unit);
	long double v;

	if (digits + fraction == 0 || power < 0)
		return -EINVAL;
	v = strtold(text, NULL) * exp2l(10.0L * power); /* 64 bits of mantissa: exact for whole numbers */
	if (v >= 0x1p64L)
		return -ERANGE;
	*out = (uint64_t)v;
	return 0;
}
