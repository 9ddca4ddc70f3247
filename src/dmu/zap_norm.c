/*
 * Names as the hash of a ZAP sees them (02-blocks-and-objects.md, 9.6): simple upper case, then a normalisation form,
 * both as Unicode 5.0 had them. utf8proc knows later characters: those that 5.0 did not have are left as they are and
 * cut the name into pieces that are normalised by themselves (an unassigned character has combining class 0 and takes
 * part in no composition). The stability rules of Unicode keep everything else as it was in 5.0.
 */
#include <utf8proc.h>

#include "dmu/zap_impl.h"

static bool char_is_assigned(int32_t c)
{
	size_t lo = 0, hi = unicode_5_0_len;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if ((uint32_t)c > unicode_5_0[mid].last)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < unicode_5_0_len && (uint32_t)c >= unicode_5_0[lo].first;
}

static int32_t char_upper(int32_t c)
{
	int32_t up = utf8proc_toupper(c);

	return char_is_assigned(up) ? up : c;
}

/* A piece of assigned characters, as code points in `in`. */
static void piece_flush(unsigned normflags, struct str *in, struct str *out)
{
	utf8proc_option_t form = UTF8PROC_STABLE;
	utf8proc_ssize_t n, room;
	utf8proc_uint8_t utf8[4];

	if (in->len == 0)
		return;
	form |= normflags & ZAP_NORM_COMPOSE ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
	form |= normflags & ZAP_NORM_KD ? UTF8PROC_COMPAT : 0;
	room = in->len * 18; /* no character decomposes into more than 18 */
	autofree utf8proc_int32_t *points = xmalloc(room * sizeof(*points));
	n = utf8proc_decompose((const utf8proc_uint8_t *)in->s, in->len, points, room, form);
	if (n >= 0 && n <= room)
		n = utf8proc_normalize_utf32(points, n, form);
	BUG_ON(n < 0); /* the piece was built from valid characters */
	for (utf8proc_ssize_t i = 0; i < n; i++)
		str_add_bytes(out, utf8, utf8proc_encode_char(points[i], utf8));
	in->len = 0;
}

static void normalize_unicode(unsigned normflags, const char *name, size_t len, struct str *out)
{
	bool form = normflags & (ZAP_NORM_D | ZAP_NORM_KD);
	struct str piece = {0};
	utf8proc_uint8_t utf8[4];

	for (size_t i = 0; i < len;) {
		int32_t c;
		utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)name + i, len - i, &c);

		if (n <= 0 || !char_is_assigned(c)) {
			n = n <= 0 ? 1 : n;
			piece_flush(normflags, &piece, out);
			str_add_bytes(out, name + i, n);
		} else {
			if (normflags & ZAP_NORM_UPPER)
				c = char_upper(c);
			str_add_bytes(form ? &piece : out, utf8, utf8proc_encode_char(c, utf8));
		}
		i += n;
	}
	piece_flush(normflags, &piece, out);
	str_free(&piece);
}

static bool is_ascii(const char *name, size_t len)
{
	unsigned char all = 0;

	for (size_t i = 0; i < len; i++)
		all |= (unsigned char)name[i];
	return all < 0x80;
}

void zap_normalize(unsigned normflags, const char *name, size_t len, struct str *out)
{
	out->len = 0;
	if (!is_ascii(name, len)) {
		normalize_unicode(normflags, name, len, out);
		return;
	}
	str_add_bytes(out, name, len);
	for (size_t i = 0; normflags & ZAP_NORM_UPPER && i < len; i++)
		if (out->s[i] >= 'a' && out->s[i] <= 'z')
			out->s[i] -= 'a' - 'A';
}

bool zap_norm_matches(const struct zap_key *key, const char *name, size_t len)
{
	struct str norm = {0};
	bool same;

	zap_normalize(key->norm_flags, name, len, &norm);
	same = norm.len == key->norm.len && memcmp(str_get(&norm), str_get(&key->norm), norm.len) == 0;
	str_free(&norm);
	return same;
}
