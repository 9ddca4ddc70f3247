/*
 * codec/checksum_impl.h: the algorithms behind checksum.h (docs/format/02-blocks-and-objects.md, 2.3).
 * Private to codec/.
 */
#ifndef CODEC_CHECKSUM_IMPL_H
#define CODEC_CHECKSUM_IMPL_H

#include "base/bytes.h"
#include "codec/checksum.h"

/* Bytes past the last whole 16 (fletcher2) or 4 (fletcher4) are not summed; blocks never have any. */
void fletcher2(const void *data, size_t size, bool swap, struct cksum *out);
void fletcher4(const void *data, size_t size, bool swap, struct cksum *out);
/* What fletcher4 falls back to, for tests of one against the other. */
void fletcher4_portable(const void *data, size_t size, bool swap, struct cksum *out);

/* Skein-512-256 MAC: the chaining value after key and configuration is made once per salt. */
struct skein_key {
	uint64_t g[8];
};
void skein_key_init(struct skein_key *k, const uint8_t salt[32]);
void skein_mac(const struct skein_key *k, const void *data, size_t size, uint8_t out[32]);

/* Edon-R-512; prefix_bytes (a multiple of 128) were already taken into p. */
struct edonr_state {
	uint64_t p[16];
	uint64_t prefix_bytes;
};
void edonr_init(struct edonr_state *s);
void edonr_prefix(struct edonr_state *s, const void *data, size_t size); /* size: multiple of 128 */
void edonr_final(const struct edonr_state *s, const void *data, size_t size, uint8_t out[64]);
/* The state after the salted prefix h1 || h2. */
void edonr_salted_init(struct edonr_state *s, const uint8_t salt[32]);

void blake3_keyed(const uint32_t key[8], const void *data, size_t size, uint8_t out[32]);
/* Without the wide code, for tests. */
void blake3_keyed_portable(const uint32_t key[8], const void *data, size_t size, uint8_t out[32]);

#endif
