#include "codec/checksum.h"

#include <openssl/evp.h>
#include <pthread.h>

#include "codec/checksum_impl.h"
#include "codec/scratch.h"

struct checksum_salt {
	struct skein_key skein;
	struct edonr_state edonr;
	uint32_t blake3[8];
};

struct checksum_salt *checksum_salt_create(const uint8_t salt[32])
{
	struct checksum_salt *s = xmalloc(sizeof(*s));

	skein_key_init(&s->skein, salt);
	edonr_salted_init(&s->edonr, salt);
	for (unsigned i = 0; i < 8; i++)
		s->blake3[i] = load_le32(salt + 4 * i);
	return s;
}

void checksum_salt_destroy(struct checksum_salt *s)
{
	free(s);
}

static EVP_MD *md_sha256, *md_sha512_256;
static pthread_once_t md_once = PTHREAD_ONCE_INIT;

/* Fetching an algorithm by name at every block would cost more than summing it. */
static void md_fetch(void)
{
	md_sha256 = EVP_MD_fetch(NULL, "SHA2-256", NULL);
	md_sha512_256 = EVP_MD_fetch(NULL, "SHA2-512/256", NULL);
	BUG_ON(!md_sha256 || !md_sha512_256);
}

static void digest(EVP_MD *const *md, const void *data, size_t size, uint8_t out[32])
{
	EVP_MD_CTX *ctx = codec_scratch()->md;
	unsigned len = 0;

	pthread_once(&md_once, md_fetch);
	BUG_ON(!EVP_DigestInit_ex2(ctx, *md, NULL) || !EVP_DigestUpdate(ctx, data, size) ||
	       !EVP_DigestFinal_ex(ctx, out, &len) || len != 32);
}

/* SHA-256's words are big-endian on every host, and no byte order of the writer changes them. */
static void sum_sha256(const struct checksum_salt *salt, const void *data, size_t size, bool swap, struct cksum *out)
{
	uint8_t d[32];

	digest(&md_sha256, data, size, d);
	for (unsigned i = 0; i < 4; i++)
		out->word[i] = load_be64(d + 8 * i);
}

/* The others lay the digest into the words as memory of the writer's order. */
static void words_from_memory(const uint8_t d[32], bool swap, struct cksum *out)
{
	for (unsigned i = 0; i < 4; i++)
		out->word[i] = load64(d + 8 * i, swap);
}

static void sum_sha512(const struct checksum_salt *salt, const void *data, size_t size, bool swap, struct cksum *out)
{
	uint8_t d[32];

	digest(&md_sha512_256, data, size, d);
	words_from_memory(d, swap, out);
}

static void sum_skein(const struct checksum_salt *salt, const void *data, size_t size, bool swap, struct cksum *out)
{
	uint8_t d[32];

	skein_mac(&salt->skein, data, size, d);
	words_from_memory(d, swap, out);
}

static void sum_edonr(const struct checksum_salt *salt, const void *data, size_t size, bool swap, struct cksum *out)
{
	uint8_t d[64];

	edonr_final(&salt->edonr, data, size, d);
	words_from_memory(d, swap, out);
}

static void sum_blake3(const struct checksum_salt *salt, const void *data, size_t size, bool swap, struct cksum *out)
{
	uint8_t d[32];

	blake3_keyed(salt->blake3, data, size, d);
	words_from_memory(d, swap, out);
}

static void sum_fletcher2(const struct checksum_salt *salt, const void *data, size_t size, bool swap, struct cksum *out)
{
	fletcher2(data, size, swap, out);
}

static void sum_fletcher4(const struct checksum_salt *salt, const void *data, size_t size, bool swap, struct cksum *out)
{
	fletcher4(data, size, swap, out);
}

typedef void (*sum_fn)(const struct checksum_salt *salt, const void *data, size_t size, bool swap, struct cksum *out);

/* 02-blocks-and-objects.md, 2.1 */
static const struct {
	const char *name;
	sum_fn sum;
	bool embedded, salted, dedup, strong;
} table[CHECKSUM_COUNT] = {
    [CHECKSUM_INHERIT] = {"inherit"},
    [CHECKSUM_ON] = {"on"},
    [CHECKSUM_OFF] = {"off"},
    [CHECKSUM_LABEL] = {"label", sum_sha256, .embedded = true},
    [CHECKSUM_GANG_HEADER] = {"gang_header", sum_sha256, .embedded = true},
    [CHECKSUM_ZILOG] = {"zilog", sum_fletcher2, .embedded = true},
    [CHECKSUM_FLETCHER_2] = {"fletcher2", sum_fletcher2},
    [CHECKSUM_FLETCHER_4] = {"fletcher4", sum_fletcher4},
    [CHECKSUM_SHA256] = {"sha256", sum_sha256, .dedup = true, .strong = true},
    [CHECKSUM_ZILOG2] = {"zilog2", sum_fletcher4, .embedded = true},
    [CHECKSUM_NOPARITY] = {"noparity"},
    [CHECKSUM_SHA512] = {"sha512", sum_sha512, .dedup = true, .strong = true},
    [CHECKSUM_SKEIN] = {"skein", sum_skein, .salted = true, .dedup = true, .strong = true},
    [CHECKSUM_EDONR] = {"edonr", sum_edonr, .salted = true, .strong = true},
    [CHECKSUM_BLAKE3] = {"blake3", sum_blake3, .salted = true, .dedup = true, .strong = true},
};

int checksum_compute(enum checksum c, const struct checksum_salt *salt, const void *data, size_t size, bool swap,
		     struct cksum *out)
{
	if ((unsigned)c >= CHECKSUM_COUNT || !table[c].sum || table[c].embedded)
		return -ENOTSUP;
	if (table[c].salted && !salt)
		return -EINVAL;
	table[c].sum(salt, data, size, swap, out);
	return 0;
}

bool checksum_is_salted(enum checksum c)
{
	return (unsigned)c < CHECKSUM_COUNT && table[c].salted;
}

bool checksum_is_strong(enum checksum c)
{
	return (unsigned)c < CHECKSUM_COUNT && table[c].strong;
}

const char *checksum_name(enum checksum c)
{
	return (unsigned)c < CHECKSUM_COUNT ? table[c].name : NULL;
}

void checksum_truncate(enum checksum c, struct cksum *sum)
{
	if ((unsigned)c < CHECKSUM_COUNT && !table[c].dedup) {
		sum->word[0] ^= sum->word[2];
		sum->word[1] ^= sum->word[3];
	}
	sum->word[2] = sum->word[3] = 0;
}

/* The 40-byte trailer, 2.5. */
#define ECK_MAGIC UINT64_C(0x0210da7ab10c7a11)
#define ECK_SIZE  40
/* The header of a zilog2 block: nused, then the trailer, then records; nused counts from the start of the block. */
#define ZILOG2_NUSED   136
#define ZILOG2_ECK     144
#define ZILOG2_RECORDS 184
#define ZILOG2_UNIT    4096

/* Where the trailer is and how many bytes are summed. */
static int eck_place(enum checksum c, const uint8_t *data, size_t size, size_t *eck, size_t *extent, bool *swap)
{
	uint64_t magic, nused;

	if (size < (c == CHECKSUM_ZILOG2 ? ZILOG2_RECORDS : ECK_SIZE))
		return -ECKSUM;
	*eck = c == CHECKSUM_ZILOG2 ? ZILOG2_ECK : size - ECK_SIZE;
	magic = load_host64(data + *eck);
	*swap = magic == __builtin_bswap64(ECK_MAGIC);
	if (!*swap && magic != ECK_MAGIC)
		return -ECKSUM;
	*extent = size;
	if (c != CHECKSUM_ZILOG2)
		return 0;
	nused = load64(data + ZILOG2_NUSED, *swap);
	if (nused < ZILOG2_RECORDS || nused > size || ROUND_UP(nused, ZILOG2_UNIT) > size)
		return -ECKSUM;
	*extent = ROUND_UP(nused, ZILOG2_UNIT);
	return 0;
}

static void words_copy(const struct cksum *from, bool swap, struct cksum *to)
{
	for (unsigned i = 0; i < 4; i++)
		to->word[i] = swap ? __builtin_bswap64(from->word[i]) : from->word[i];
}

static int embedded_sum(enum checksum c, uint8_t *data, size_t size, const struct cksum *verifier, bool *swapped,
			struct cksum *stored, struct cksum *sum)
{
	struct cksum as_stored, put;
	size_t eck, extent;
	bool swap;
	int err;

	if ((unsigned)c >= CHECKSUM_COUNT || !table[c].embedded)
		return -ENOTSUP;
	err = eck_place(c, data, size, &eck, &extent, &swap);
	if (err)
		return err;
	memcpy(&as_stored, data + eck + 8, sizeof(as_stored));
	words_copy(verifier, swap, &put);
	memcpy(data + eck + 8, &put, sizeof(put));
	table[c].sum(NULL, data, extent, swap, sum);
	memcpy(data + eck + 8, &as_stored, sizeof(as_stored));
	words_copy(&as_stored, swap, stored);
	if (swapped)
		*swapped = swap;
	return 0;
}

int checksum_embedded_verify(enum checksum c, void *data, size_t size, const struct cksum *verifier, bool *swapped)
{
	struct cksum stored, sum;
	int err = embedded_sum(c, data, size, verifier, swapped, &stored, &sum);

	if (err)
		return err;
	return cksum_equal(&stored, &sum) ? 0 : -ECKSUM;
}

int checksum_embedded_verify_truncated(enum checksum c, void *data, size_t size, const struct cksum *verifier,
				       bool *swapped)
{
	struct cksum stored, sum;
	int err = embedded_sum(c, data, size, verifier, swapped, &stored, &sum);

	if (err)
		return err;
	checksum_truncate(c, &sum);
	return stored.word[0] == sum.word[0] && stored.word[1] == sum.word[1] ? 0 : -ECKSUM;
}

int checksum_embedded_put(enum checksum c, void *data, size_t size, const struct cksum *verifier, bool swap,
			  bool truncated)
{
	uint8_t *bytes = data, kept[16];
	size_t at = c == CHECKSUM_ZILOG2 ? ZILOG2_ECK : size - ECK_SIZE, eck, extent;
	struct cksum sum;
	bool swapped;

	if ((unsigned)c >= CHECKSUM_COUNT || !table[c].embedded)
		return -ENOTSUP;
	if (size < (c == CHECKSUM_ZILOG2 ? ZILOG2_RECORDS : ECK_SIZE))
		return -EINVAL;
	store_host64(bytes + at, swap ? __builtin_bswap64(ECK_MAGIC) : ECK_MAGIC);
	if (eck_place(c, bytes, size, &eck, &extent, &swapped))
		return -EINVAL;
	memcpy(kept, bytes + at + 24, sizeof(kept));
	words_copy(verifier, swap, &sum);
	memcpy(bytes + at + 8, &sum, sizeof(sum));
	table[c].sum(NULL, bytes, extent, swap, &sum);
	if (truncated)
		checksum_truncate(c, &sum);
	words_copy(&sum, swap, &sum);
	memcpy(bytes + at + 8, &sum, sizeof(sum));
	if (truncated)
		memcpy(bytes + at + 24, kept, sizeof(kept));
	return 0;
}
