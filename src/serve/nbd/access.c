#include "serve/nbd/access.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define BITS_MAX 128

struct network {
	int family;
	uint8_t address[16];
	unsigned bits; /* of the address that count */
};

struct rule {
	char *name;
	struct network *network;
	size_t nnetworks;
};

struct nbd_access {
	struct rule *rule;
	size_t n;
};

/* --- rules --- */

static bool bits_parse(const char *text, unsigned max, unsigned *bits)
{
	char *end;
	unsigned long v;

	if (text[0] < '0' || text[0] > '9')
		return false;
	v = strtoul(text, &end, 10);
	*bits = (unsigned)v;
	return *end == 0 && v <= max;
}

static unsigned network_bytes(const struct network *w)
{
	return w->family == AF_INET ? 4 : 16;
}

/* Bits that do not count must be 0: else it is probably not what was meant. */
static bool network_is_whole(const struct network *w)
{
	for (unsigned i = w->bits; i < network_bytes(w) * 8; i++)
		if (w->address[i / 8] >> (7 - i % 8) & 1)
			return false;
	return true;
}

static bool network_parse(char *text, struct network *w)
{
	char *slash = strchr(text, '/');

	if (slash)
		*slash++ = 0;
	w->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(w->family, text, w->address) != 1)
		return false;
	w->bits = network_bytes(w) * 8;
	return !slash || (bits_parse(slash, network_bytes(w) * 8, &w->bits) && network_is_whole(w));
}

static int rule_parse(const char *text, struct rule *r, struct err *e)
{
	autofree char *copy = xstrdup(text);
	char *equals = strchr(copy, '='), *rest, *one;

	if (!equals || equals == copy || !equals[1])
		return err_set(e, -EINVAL, "'%s' is no rule: write NAME=NETWORK[,NETWORK...]", text);
	*equals = 0;
	r->name = xstrdup(copy);
	for (one = strtok_r(equals + 1, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		autofree char *shown = xstrdup(one);

		r->network = xrealloc(r->network, (r->nnetworks + 1) * sizeof(*r->network));
		if (!network_parse(one, &r->network[r->nnetworks++]))
			return err_set(e, -EINVAL, "rule '%s': '%s' is no network, such as 10.1.0.0/16 or fd00::/8",
				       text, shown);
	}
	return r->nnetworks ? 0 : err_set(e, -EINVAL, "rule '%s' names no network", text);
}

int nbd_access_create(const char *const *rules, size_t n, struct nbd_access **out, struct err *e)
{
	struct nbd_access *a = xcalloc(1, sizeof(*a));

	a->rule = xcalloc(n + 1, sizeof(*a->rule));
	for (size_t i = 0; i < n; i++) {
		int err = rule_parse(rules[i], &a->rule[a->n++], e);

		if (err) {
			nbd_access_destroy(a);
			return err;
		}
	}
	*out = a;
	return 0;
}

void nbd_access_destroy(struct nbd_access *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++) {
		free(a->rule[i].name);
		free(a->rule[i].network);
	}
	free(a->rule);
	free(a);
}

/* --- clients --- */

static bool rule_names(const struct rule *r, const char *name)
{
	size_t n = strlen(r->name);

	if (strcmp(r->name, "*") == 0)
		return true;
	return strncmp(r->name, name, n) == 0 && (name[n] == 0 || name[n] == '/' || name[n] == '@');
}

static bool network_has(const struct network *w, int family, const uint8_t *address)
{
	unsigned whole = w->bits / 8, rest = w->bits % 8;

	if (w->family != family || memcmp(w->address, address, whole) != 0)
		return false;
	return rest == 0 || (w->address[whole] ^ address[whole]) >> (8 - rest) == 0;
}

static bool rule_allows(const struct rule *r, int family, const uint8_t *address)
{
	for (size_t i = 0; i < r->nnetworks; i++)
		if (network_has(&r->network[i], family, address))
			return true;
	return false;
}

bool nbd_access_allows(const struct nbd_access *a, const char *name, const struct sockaddr_storage *from)
{
	const uint8_t *address;
	int family = from->ss_family;

	if (a->n == 0 || (family != AF_INET && family != AF_INET6))
		return true;
	if (family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)from)->sin6_addr)) {
		family = AF_INET;
		address = ((const struct sockaddr_in6 *)from)->sin6_addr.s6_addr + 12;
	} else if (family == AF_INET6) {
		address = ((const struct sockaddr_in6 *)from)->sin6_addr.s6_addr;
	} else {
		address = (const uint8_t *)&((const struct sockaddr_in *)from)->sin_addr;
	}
	for (size_t i = 0; i < a->n; i++)
		if (rule_names(&a->rule[i], name) && rule_allows(&a->rule[i], family, address))
			return true;
	return false;
}
