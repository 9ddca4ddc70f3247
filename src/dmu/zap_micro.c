/*
 * The micro-ZAP: one block of 64-byte entries (02-blocks-and-objects.md, 9.2).
 */
#include "dmu/zap_impl.h"

int zap_micro_open(struct zap *z)
{
	if (z->head.len < MICRO_HEADER)
		return -EINVAL;
	z->salt = load64(z->head.data + 8, z->swap);
	z->normflags = load64(z->head.data + 16, z->swap);
	return z->normflags & ~(uint64_t)ZAP_NORM_ALL ? -EINVAL : 0;
}

unsigned zap_micro_slots(const struct zap *z)
{
	return z->head.len / MICRO_ENTRY - 1;
}

static const uint8_t *slot_bytes(const struct zap *z, unsigned slot)
{
	return z->head.data + MICRO_HEADER + (size_t)slot * MICRO_ENTRY;
}

bool zap_micro_item(const struct zap *z, unsigned slot, struct zap_item *out)
{
	const uint8_t *p = slot_bytes(z, slot);

	if (p[MICRO_NAME_OFF] == 0)
		return false;
	*out = (struct zap_item){
	    .cd = load32(p + 8, z->swap),
	    .intsize = 8,
	    .nints = 1,
	    .micro_name = (const char *)p + MICRO_NAME_OFF,
	    .micro_value = load64(p, z->swap),
	};
	return true;
}

static int find_exact(struct zap *z, const struct zap_key *key, struct zap_item *out)
{
	if (key->len > MICRO_NAME)
		return -ENOENT;
	for (unsigned i = 0, n = zap_micro_slots(z); i < n; i++) {
		/* the key's NUL is compared too; an empty key therefore meets only free slots */
		if (memcmp(slot_bytes(z, i) + MICRO_NAME_OFF, key->bytes, key->len) != 0)
			continue;
		if (zap_micro_item(z, i, out))
			return 0;
	}
	return -ENOENT;
}

/* Of all that match, the one with the lowest cd. */
static int find_normalized(struct zap *z, const struct zap_key *key, struct zap_item *out)
{
	bool found = false;
	struct zap_item it;

	for (unsigned i = 0, n = zap_micro_slots(z); i < n; i++) {
		if (!zap_micro_item(z, i, &it) || (found && it.cd >= out->cd))
			continue;
		if (!zap_norm_matches(key, it.micro_name, strnlen(it.micro_name, MICRO_NAME)))
			continue;
		*out = it;
		found = true;
	}
	return found ? 0 : -ENOENT;
}

int zap_micro_find(struct zap *z, const struct zap_key *key, struct zap_item *out)
{
	return (key->by_norm ? find_normalized : find_exact)(z, key, out);
}
