#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>

/* A cli_json is a jansson object under another name: no other file sees the library. */
static json_t *object(struct cli_json *o)
{
	return (json_t *)o;
}

struct cli_json *cli_json_create(void)
{
	return (struct cli_json *)json_object();
}

struct cli_json *cli_json_document(const char *command)
{
	json_t *doc = json_object(), *version = json_object();

	json_object_set_new(version, "command", json_string(command));
	json_object_set_new(version, "vers_major", json_integer(0));
	json_object_set_new(version, "vers_minor", json_integer(1));
	json_object_set_new(doc, "output_version", version);
	return (struct cli_json *)doc;
}

/* Names from disk may be no UTF-8: their odd bytes are shown as U+FFFD. */
static json_t *text(const char *value)
{
	json_t *s = json_string(value);
	struct str clean = {NULL, 0, 0};

	if (s)
		return s;
	for (; *value; value++) {
		if ((unsigned char)*value < 0x80)
			str_add_bytes(&clean, value, 1);
		else
			str_add(&clean, "\xef\xbf\xbd");
	}
	s = json_string(str_get(&clean));
	str_free(&clean);
	return s;
}

void cli_json_string(struct cli_json *o, const char *key, const char *value)
{
	json_object_set_new_nocheck(object(o), key, text(value));
}

void cli_json_number(struct cli_json *o, const char *key, uint64_t v, bool json_int)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, v);
	cli_json_value(o, key, digits, json_int);
}

void cli_json_value(struct cli_json *o, const char *key, const char *value, bool json_int)
{
	bool digits = *value && value[strspn(value, "0123456789")] == 0;
	uint64_t v;

	errno = 0;
	v = digits ? strtoull(value, NULL, 10) : 0;
	if (json_int && digits && errno == 0)
		json_object_set_new_nocheck(object(o), key, json_integer((json_int_t)v));
	else
		cli_json_string(o, key, value);
}

void cli_json_object(struct cli_json *o, const char *key, struct cli_json *child)
{
	json_object_set_new_nocheck(object(o), key, object(child));
}

void cli_json_strings(struct cli_json *o, const char *key, const char *const *v, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, text(v[i]));
	json_object_set_new_nocheck(object(o), key, array);
}

static void key_print(const char *key, FILE *out)
{
	json_t *s = text(key);

	json_dumpf(s, out, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	fputc(':', out);
	json_decref(s);
}

/* jansson's integers are signed, those of ZFS are not: guids use the highest bit. Nothing here is negative. */
static void value_print(json_t *v, FILE *out)
{
	const char *key, *comma = "";
	json_t *child;
	size_t i;

	if (json_is_integer(v)) {
		fprintf(out, "%" PRIu64, (uint64_t)json_integer_value(v));
	} else if (json_is_object(v)) {
		fputc('{', out);
		json_object_foreach(v, key, child)
		{
			fputs(comma, out);
			key_print(key, out);
			value_print(child, out);
			comma = ",";
		}
		fputc('}', out);
	} else if (json_is_array(v)) {
		fputc('[', out);
		json_array_foreach(v, i, child)
		{
			fputs(i ? "," : "", out);
			value_print(child, out);
		}
		fputc(']', out);
	} else {
		json_dumpf(v, out, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	}
}

void cli_json_print(struct cli_json *o, FILE *out)
{
	value_print(object(o), out);
	fputc('\n', out);
	cli_json_destroy(o);
}

void cli_json_destroy(struct cli_json *o)
{
	json_decref(object(o));
}
