/* What of a block is sealed, by its type. See zio/zio_crypt.h; section names are those of chapter 04. */
#include <pthread.h>

#include "base/os.h"
#include "zio/zio_crypt.h"

#define BAB_V1_BYTES    32
#define BAB_V0_BYTES    24
#define DNODE_SLOT      512
#define DNODE_CORE      64
#define DNODE_SPILL     0x04 /* of the flags */
#define ZIL_HEADER      144  /* authenticated bytes of a log block's chain header */
#define ZIL_RECORDS     184  /* where the records start */
#define ZIL_RECORD_HEAD 32
#define ZIL_BODY        64 /* end of the part of a record that is encrypted in every type */
#define ZIL_MAC         168
#define ZIL_MAGIC       UINT64_C(0x0210da7ab10c7a11)
#define TX_WRITE        9
#define TX_CLONE_RANGE  24

/* Derived keys, found by their salt: sets picked by the first salt byte, oldest of a set replaced. */
#define SALT_SETS 64
#define SALT_WAYS 4

struct salt_key {
	bool valid;
	uint8_t salt[CRYPT_SALT];
	uint8_t key[CRYPT_KEY_MAX];
};

/* All of it lies in secret memory (os_secret_alloc). */
struct crypt_key {
	atomic_uint refs;
	enum crypt_suite suite;
	unsigned version;
	uint64_t guid;
	uint8_t master[CRYPT_KEY_MAX];
	uint8_t hmac_key[CRYPT_HMAC_KEY];
	pthread_rwlock_t lock; /* guards what follows; a leaf in the lock order */
	struct salt_key cache[SALT_SETS][SALT_WAYS];
	uint8_t victim[SALT_SETS];
	uint8_t write_salt[CRYPT_SALT];
	uint64_t write_left; /* blocks that write_salt is still good for */
};

TUNABLE(tunable_key_max_salt_uses, "zfs_key_max_salt_uses", "blocks", 400000000, 1, UINT64_MAX,
	"so many blocks are encrypted under one key derived from a data set's master key");

struct crypt_key *crypt_key_create(enum crypt_suite suite, uint64_t guid, const uint8_t *master,
				   const uint8_t *hmac_key, unsigned version)
{
	struct crypt_key *k = os_secret_alloc(sizeof(*k));

	atomic_init(&k->refs, 1);
	k->suite = suite;
	k->version = version;
	k->guid = guid;
	memcpy(k->master, master, crypt_suite_key_bytes(suite));
	memcpy(k->hmac_key, hmac_key, CRYPT_HMAC_KEY);
	pthread_rwlock_init(&k->lock, NULL);
	return k;
}

struct crypt_key *crypt_key_hold(struct crypt_key *k)
{
	atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
	return k;
}

void crypt_key_release(struct crypt_key *k)
{
	if (!k || atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_rwlock_destroy(&k->lock);
	os_secret_free(k, sizeof(*k));
}

enum crypt_suite crypt_key_suite(const struct crypt_key *k)
{
	return k->suite;
}

bool crypt_key_is_shared(const struct crypt_key *k)
{
	return atomic_load_explicit(&k->refs, memory_order_acquire) > 1;
}

uint64_t crypt_key_guid(const struct crypt_key *k)
{
	return k->guid;
}

static bool salt_find(struct crypt_key *k, const uint8_t *salt, uint8_t *key)
{
	struct salt_key *set = k->cache[salt[0] % SALT_SETS];
	bool found = false;

	pthread_rwlock_rdlock(&k->lock);
	for (unsigned i = 0; i < SALT_WAYS && !found; i++) {
		found = set[i].valid && memcmp(set[i].salt, salt, CRYPT_SALT) == 0;
		if (found)
			memcpy(key, set[i].key, CRYPT_KEY_MAX);
	}
	pthread_rwlock_unlock(&k->lock);
	return found;
}

static void salt_remember(struct crypt_key *k, const uint8_t *salt, const uint8_t *key)
{
	unsigned set = salt[0] % SALT_SETS;
	struct salt_key *s;

	pthread_rwlock_wrlock(&k->lock);
	s = &k->cache[set][k->victim[set]++ % SALT_WAYS];
	memcpy(s->salt, salt, CRYPT_SALT);
	memcpy(s->key, key, CRYPT_KEY_MAX);
	s->valid = true;
	pthread_rwlock_unlock(&k->lock);
}

/* A1.6 */
static void block_key(struct crypt_key *k, const uint8_t *salt, uint8_t key[CRYPT_KEY_MAX])
{
	size_t n = crypt_suite_key_bytes(k->suite);

	if (salt_find(k, salt, key))
		return;
	memset(key, 0, CRYPT_KEY_MAX);
	BUG_ON(crypt_hkdf(k->master, n, salt, key, n));
	salt_remember(k, salt, key);
}

/* Byte strings kept in a pointer's words lie in the order of the block it points to (A1.7, "Byte order"). */
static void word_bytes(const struct bp *bp, unsigned i, uint8_t out[8])
{
	if (bits64(bp->w[6], 63, 1))
		store_le64(out, bp->w[i]);
	else
		store_be64(out, bp->w[i]);
}

static void bp_mac(const struct bp *bp, uint8_t mac[CRYPT_MAC])
{
	word_bytes(bp, 14, mac);
	word_bytes(bp, 15, mac + 8);
}

static void bp_salt_iv(const struct bp *bp, uint8_t salt[CRYPT_SALT], uint8_t iv[CRYPT_IV])
{
	uint32_t tail = bits64(bp->w[11], 32, 32);

	word_bytes(bp, 4, salt);
	word_bytes(bp, 5, iv);
	if (bits64(bp->w[6], 63, 1))
		store_le32(iv + 8, tail);
	else
		store_be32(iv + 8, tail);
}

static void set_word_bytes(struct bp *bp, unsigned i, const uint8_t in[8])
{
	bp->w[i] = bits64(bp->w[6], 63, 1) ? load_le64(in) : load_be64(in);
}

static void bp_set_mac(struct bp *bp, const uint8_t mac[CRYPT_MAC])
{
	set_word_bytes(bp, 14, mac);
	set_word_bytes(bp, 15, mac + 8);
}

static size_t bab_bytes(unsigned version)
{
	return version ? BAB_V1_BYTES : BAB_V0_BYTES;
}

#define PROP_PSIZE    (UINT64_C(0xffff) << 16)
#define PROP_COMPRESS (UINT64_C(0x7f) << 32)
#define PROP_CHECKSUM (UINT64_C(0xff) << 40)
#define PROP_DEDUP    (UINT64_C(1) << 62)
#define PROP_ORDER    (UINT64_C(1) << 63)

/* The authentication record of a pointer (A1.10); returns its size. */
static size_t bab_put(const struct bp *bp, unsigned version, uint8_t *out)
{
	uint64_t prop = bp->w[6] & ~(PROP_DEDUP | PROP_CHECKSUM);
	size_t n = bab_bytes(version);

	if (version == 0)
		prop &= ~PROP_PSIZE;
	else if (bp_is_hole(bp))
		prop = 0;
	else if (bp_level(bp) > 0)
		prop &= ~(PROP_ORDER | PROP_COMPRESS | PROP_PSIZE);
	memset(out, 0, n);
	store_le64(out, prop);
	if (!bp_is_hole(bp) && bp_type(bp) != DMU_OT_OBJSET)
		bp_mac(bp, out + 8);
	return n;
}

static size_t bab_put_phys(const uint8_t *phys, bool swap, unsigned version, uint8_t *out)
{
	struct bp bp;

	bp_decode(&bp, phys, swap);
	return bab_put(&bp, version, out);
}

/* --- indirect blocks (A1.10) --- */

static void indirect_sum(const struct bp *bp, const uint8_t *data, size_t n, unsigned version, uint8_t *babs,
			 uint8_t sum[64])
{
	struct crypt_iov v = {babs, 0};

	for (size_t i = 0; i < n; i++)
		v.len += bab_put_phys(data + i * BP_SIZE, bp_is_swapped(bp), version, babs + v.len);
	crypt_sha512(&v, 1, sum);
}

static bool indirect_mac_matches(const struct bp *bp, const uint8_t *data, size_t n, unsigned version, uint8_t *babs)
{
	uint8_t sum[64], mac[CRYPT_MAC];

	indirect_sum(bp, data, n, version, babs, sum);
	bp_mac(bp, mac);
	return memcmp(sum, mac, CRYPT_MAC) == 0;
}

int zio_crypt_check_indirect(const struct bp *bp, const uint8_t *data, size_t lsize)
{
	size_t n = lsize / BP_SIZE;
	uint8_t *babs = malloc(n * BAB_V1_BYTES + 1);
	bool ok;

	if (!babs)
		return -ENOMEM;
	ok = indirect_mac_matches(bp, data, n, 1, babs) || indirect_mac_matches(bp, data, n, 0, babs);
	free(babs);
	return ok ? 0 : -ECKSUM;
}

int zio_crypt_set_indirect(struct bp *bp, const uint8_t *data, size_t lsize)
{
	size_t n = lsize / BP_SIZE;
	autofree uint8_t *babs = malloc(n * BAB_V1_BYTES + 1);
	uint8_t sum[64];

	if (!babs)
		return -ENOMEM;
	indirect_sum(bp, data, n, 1, babs, sum);
	bp_set_mac(bp, sum);
	return 0;
}

/* --- blocks opened as one message: pieces are collected, then opened --- */

struct pieces {
	struct crypt_iov *aad, *text;
	size_t naad, ntext;
};

static void piece_add(struct crypt_iov *v, size_t *n, const uint8_t *base, size_t len)
{
	if (len)
		v[(*n)++] = (struct crypt_iov){(void *)base, len};
}

static int block_seal(struct crypt_key *k, const struct bp *bp, const struct pieces *p, uint8_t *to,
		      uint8_t mac[CRYPT_MAC])
{
	uint8_t salt[CRYPT_SALT], iv[CRYPT_IV], key[CRYPT_KEY_MAX];
	int err;

	bp_salt_iv(bp, salt, iv);
	block_key(k, salt, key);
	err = crypt_encrypt(k->suite, key, iv, p->aad, p->naad, p->text, p->ntext, to, mac);
	explicit_bzero(key, sizeof(key));
	return err;
}

static int block_open(struct crypt_key *k, const struct bp *bp, const struct pieces *p, const uint8_t mac[CRYPT_MAC])
{
	uint8_t salt[CRYPT_SALT], iv[CRYPT_IV], key[CRYPT_KEY_MAX];
	int err;

	bp_salt_iv(bp, salt, iv);
	block_key(k, salt, key);
	err = crypt_decrypt(k->suite, key, iv, p->aad, p->naad, p->text, p->ntext, mac);
	explicit_bzero(key, sizeof(key));
	return err;
}

static int data_open(struct crypt_key *k, const struct bp *bp, uint8_t *data, size_t size)
{
	struct crypt_iov text = {data, size};
	uint8_t mac[CRYPT_MAC];

	bp_mac(bp, mac);
	return block_open(k, bp, &(struct pieces){.text = &text, .ntext = 1}, mac);
}

/* --- dnode blocks (A1.12) --- */

/* The parts of a dnode; false when they do not fit the bytes that are there. */
struct dnode_parts {
	const uint8_t *core, *blkptr, *spill; /* spill NULL: none */
	unsigned nblkptr;
	size_t bytes, bonus, bonus_len; /* of the whole dnode; the bonus area's offset and length */
};

static bool dnode_parts_find(const uint8_t *d, size_t avail, struct dnode_parts *p)
{
	size_t end;

	p->core = d;
	p->blkptr = d + DNODE_CORE;
	p->nblkptr = d[3];
	p->bytes = DNODE_SLOT * (1 + (size_t)d[12]);
	if (p->bytes > avail)
		return false;
	p->bonus = DNODE_CORE + BP_SIZE * (size_t)p->nblkptr;
	p->spill = d[7] & DNODE_SPILL ? d + p->bytes - BP_SIZE : NULL;
	end = p->bytes - (p->spill ? BP_SIZE : 0);
	if (p->bonus > end)
		return false;
	p->bonus_len = end - p->bonus;
	return true;
}

static size_t dnode_babs(const struct dnode_parts *p, bool swap, unsigned version, uint8_t *out)
{
	size_t n = 0;

	for (unsigned i = 0; i < p->nblkptr; i++)
		n += bab_put_phys(p->blkptr + BP_SIZE * i, swap, version, out + n);
	if (p->spill)
		n += bab_put_phys(p->spill, swap, version, out + n);
	return n;
}

static bool dnode_bonus_is_sealed(const uint8_t *core)
{
	return core[0] && load_host16(core + 10) && dmu_type_is_encrypted(core[4]);
}

static void dnode_core_put(const uint8_t *core, uint8_t *out)
{
	memcpy(out, core, DNODE_CORE);
	out[7] &= DNODE_SPILL;
	memset(out + 24, 0, 8); /* used */
}

/* AAD goes to `aad` (never more bytes than the block has), sealed bonus areas to p->text. */
static int dnode_block_collect(const struct bp *bp, unsigned version, uint8_t *data, size_t size, uint8_t *aad,
			       size_t *naad, struct pieces *p)
{
	struct dnode_parts dp;

	for (size_t at = 0; at < size; at += dp.bytes) {
		if (!dnode_parts_find(data + at, size - at, &dp))
			return -ECKSUM;
		dnode_core_put(dp.core, aad + *naad);
		*naad += DNODE_CORE;
		*naad += dnode_babs(&dp, bp_is_swapped(bp), version, aad + *naad);
		if (dnode_bonus_is_sealed(dp.core)) {
			piece_add(p->text, &p->ntext, data + at + dp.bonus, dp.bonus_len);
		} else {
			memcpy(aad + *naad, data + at + dp.bonus, dp.bonus_len);
			*naad += dp.bonus_len;
		}
	}
	return 0;
}

/* seal NULL: open; else encrypt, and put the MAC there. */
static int dnode_block_do(struct crypt_key *k, const struct bp *bp, uint8_t *data, size_t size, uint8_t *seal)
{
	uint8_t mac[CRYPT_MAC];
	autofree uint8_t *aad = malloc(size);
	autofree struct crypt_iov *text = malloc(size / DNODE_SLOT * sizeof(*text));
	struct crypt_iov aad_iov = {aad, 0};
	struct pieces p = {.aad = &aad_iov, .naad = 1, .text = text};
	int err;

	if (size == 0 || size % DNODE_SLOT)
		return -ECKSUM;
	if (!aad || !text)
		return -ENOMEM;
	err = dnode_block_collect(bp, k->version, data, size, aad, &aad_iov.len, &p);
	if (err)
		return err;
	if (seal)
		return block_seal(k, bp, &p, NULL, seal);
	bp_mac(bp, mac);
	return block_open(k, bp, &p, mac);
}

/* --- ZIL blocks (A1.11) --- */

static int zil_record_collect(uint8_t *r, uint64_t txtype, size_t len, struct pieces *p)
{
	size_t plain; /* end of the plain part that follows the common body: block pointers */

	piece_add(p->aad, &p->naad, r, ZIL_RECORD_HEAD);
	if (txtype != TX_WRITE && txtype != TX_CLONE_RANGE) {
		piece_add(p->text, &p->ntext, r + ZIL_RECORD_HEAD, len - ZIL_RECORD_HEAD);
		return 0;
	}
	plain = txtype == TX_WRITE ? ZIL_BODY + BP_SIZE : len;
	if (len < ZIL_BODY || len < plain)
		return -ECKSUM;
	piece_add(p->text, &p->ntext, r + ZIL_RECORD_HEAD, ZIL_BODY - ZIL_RECORD_HEAD);
	piece_add(p->aad, &p->naad, r + ZIL_BODY, plain - ZIL_BODY);
	piece_add(p->text, &p->ntext, r + plain, len - plain);
	return 0;
}

static int zil_block_collect(uint8_t *data, size_t size, bool swap, struct pieces *p)
{
	uint64_t nused = load64(data + 136, swap), len;

	if (nused < ZIL_RECORDS || nused > size)
		return -ECKSUM;
	piece_add(p->aad, &p->naad, data, ZIL_HEADER);
	for (uint64_t at = ZIL_RECORDS; at < nused; at += len) {
		if (nused - at < ZIL_RECORD_HEAD)
			return -ECKSUM;
		len = load64(data + at + 8, swap);
		if (len < ZIL_RECORD_HEAD || len > nused - at)
			return -ECKSUM;
		if (zil_record_collect(data + at, load64(data + at, swap), len, p))
			return -ECKSUM;
	}
	return 0;
}

/* The MAC is in the block's trailer. */
static int zil_block_do(struct crypt_key *k, const struct bp *bp, uint8_t *data, size_t size, bool seal)
{
	size_t max = 2 * (size / ZIL_RECORD_HEAD) + 1; /* pieces of either kind */
	autofree struct crypt_iov *v = malloc(2 * max * sizeof(*v));
	struct pieces p = {.aad = v, .text = v ? v + max : NULL};
	uint8_t mac[CRYPT_MAC];
	uint64_t magic;
	int err;

	if (!v)
		return -ENOMEM;
	if (size < ZIL_RECORDS)
		return -ECKSUM;
	magic = load_host64(data + ZIL_HEADER);
	if (seal) /* the trailer is made after this */
		magic = bp_is_swapped(bp) ? __builtin_bswap64(ZIL_MAGIC) : ZIL_MAGIC;
	if (magic != ZIL_MAGIC && magic != __builtin_bswap64(ZIL_MAGIC))
		return -ECKSUM;
	err = zil_block_collect(data, size, magic != ZIL_MAGIC, &p);
	if (err)
		return err;
	if (seal)
		return block_seal(k, bp, &p, NULL, data + ZIL_MAC);
	memcpy(mac, data + ZIL_MAC, CRYPT_MAC);
	return block_open(k, bp, &p, mac);
}

/* --- authenticated blocks (A1.9) --- */

static int authenticated_check(struct crypt_key *k, const struct bp *bp, const uint8_t *data, size_t size)
{
	struct crypt_iov v = {(void *)data, size};
	uint8_t sum[64], mac[CRYPT_MAC];

	crypt_hmac_sha512(k->hmac_key, CRYPT_HMAC_KEY, &v, 1, sum);
	bp_mac(bp, mac);
	return memcmp(sum, mac, CRYPT_MAC) ? -ECKSUM : 0;
}

int zio_crypt_read(struct crypt_key *k, const struct bp *bp, uint8_t *data, size_t psize)
{
	if (bp_is_encrypted(bp)) {
		if (bp_type(bp) == DMU_OT_DNODE)
			return dnode_block_do(k, bp, data, psize, NULL);
		if (bp_type(bp) == DMU_OT_INTENT_LOG)
			return zil_block_do(k, bp, data, psize, false);
		return data_open(k, bp, data, psize);
	}
	/* an object set's MACs are inside it: zio_crypt_check_objset */
	if (bp_is_authenticated(bp) && bp_type(bp) != DMU_OT_OBJSET)
		return authenticated_check(k, bp, data, psize);
	return 0;
}

/* --- sealing --- */

bool crypt_key_can_seal(const struct crypt_key *k)
{
	return k->version == 1;
}

void zio_crypt_set_fill(struct bp *bp, uint64_t fill)
{
	if (bp_is_encrypted(bp))
		bp->w[11] = (bp->w[11] & ~(uint64_t)UINT32_MAX) | (uint32_t)fill;
	else
		bp->w[11] = fill;
}

static void write_salt(struct crypt_key *k, uint8_t salt[CRYPT_SALT])
{
	pthread_rwlock_wrlock(&k->lock);
	if (k->write_left == 0) {
		os_random(k->write_salt, sizeof(k->write_salt));
		k->write_left = tunable_get(&tunable_key_max_salt_uses);
	}
	k->write_left--;
	memcpy(salt, k->write_salt, CRYPT_SALT);
	pthread_rwlock_unlock(&k->lock);
}

void zio_crypt_set_fresh(struct crypt_key *k, struct bp *bp)
{
	bool little = bits64(bp->w[6], 63, 1);
	uint8_t salt[CRYPT_SALT], iv[CRYPT_IV];
	uint64_t tail;

	write_salt(k, salt);
	os_random(iv, sizeof(iv));
	set_word_bytes(bp, 4, salt);
	set_word_bytes(bp, 5, iv);
	tail = little ? load_le32(iv + 8) : load_be32(iv + 8);
	bp->w[11] = (uint32_t)bp->w[11] | tail << 32;
}

int zio_crypt_encrypt(struct crypt_key *k, struct bp *bp, const uint8_t *from, uint8_t *to, size_t psize)
{
	struct crypt_iov text = {(void *)from, psize};
	uint8_t mac[CRYPT_MAC];
	int err;

	if (from != to && (bp_type(bp) == DMU_OT_DNODE || bp_type(bp) == DMU_OT_INTENT_LOG))
		memcpy(to, from, psize);
	if (bp_type(bp) == DMU_OT_INTENT_LOG) {
		err = zil_block_do(k, bp, to, psize, true);
		return err == -ECKSUM ? -EINVAL : err;
	}
	if (bp_type(bp) == DMU_OT_DNODE)
		err = dnode_block_do(k, bp, to, psize, mac);
	else
		err = block_seal(k, bp, &(struct pieces){.text = &text, .ntext = 1}, to, mac);
	if (err)
		return err == -ECKSUM ? -EINVAL : err;
	bp_set_mac(bp, mac);
	return 0;
}

void zio_crypt_authenticate(struct crypt_key *k, struct bp *bp, const uint8_t *data, size_t psize)
{
	struct crypt_iov v = {(void *)data, psize};
	uint8_t sum[64];

	crypt_hmac_sha512(k->hmac_key, CRYPT_HMAC_KEY, &v, 1, sum);
	bp_set_mac(bp, sum);
}

/* --- object set blocks (A1.13) --- */

#define OBJSET_TYPE      704
#define OBJSET_FLAGS     712
#define OBJSET_PORTABLE  720
#define OBJSET_LOCAL     752
#define OBJSET_USERUSED  1024
#define OBJSET_GROUPUSED 1536
#define OBJSET_PROJECT   2048
#define OBJSET_V1        1024
#define OBJSET_V2        2048
#define OBJSET_V3        4096
#define OBJSET_MAC       32
#define DN_MAX           (DNODE_CORE + 4 * BAB_V1_BYTES)

struct objset_crypt {
	const uint8_t *data;
	size_t size;
	bool swap;
	unsigned version;
};

/* DN(d): core in little endian, then the pointers' records; 0 bytes when the dnode's parts do not fit. */
static size_t objset_dnode_put(const struct objset_crypt *o, size_t at, uint8_t out[DN_MAX])
{
	const uint8_t *d = o->data + at;
	struct dnode_parts p;

	if (!dnode_parts_find(d, DNODE_SLOT, &p))
		return 0;
	dnode_core_put(d, out);
	store_le16(out + 8, load16(d + 8, o->swap));
	store_le16(out + 10, load16(d + 10, o->swap));
	store_le64(out + 16, load64(d + 16, o->swap));
	return DNODE_CORE + dnode_babs(&p, o->swap, o->version, out + DNODE_CORE);
}

/* Each makes 64 bytes, of which OBJSET_MAC are kept; false when the dnodes' parts do not fit. */
static bool objset_portable(struct crypt_key *k, const struct objset_crypt *o, uint8_t sum[64])
{
	uint8_t head[16] = {0}, dn[DN_MAX];
	size_t len = objset_dnode_put(o, 0, dn);
	struct crypt_iov v[2] = {{head, sizeof(head)}, {dn, len}};

	if (!len)
		return false;
	store_be64(head, load64(o->data + OBJSET_TYPE, o->swap)); /* big endian: a slip that is the format */
	crypt_hmac_sha512(k->hmac_key, CRYPT_HMAC_KEY, v, 2, sum);
	return true;
}

/* No local MAC is kept while accounting is incomplete or absent. */
static bool objset_has_local(const struct objset_crypt *o)
{
	return (load64(o->data + OBJSET_FLAGS, o->swap) & 1) && o->size >= OBJSET_V2 &&
	       (o->data[OBJSET_USERUSED] || o->data[OBJSET_GROUPUSED]);
}

static bool objset_local(struct crypt_key *k, const struct objset_crypt *o, uint8_t sum[64])
{
	static const size_t place[] = {OBJSET_USERUSED, OBJSET_GROUPUSED, OBJSET_PROJECT};
	size_t ndnodes = o->size >= OBJSET_V3 ? 3 : 2, n = 1;
	uint8_t flags[8], dn[3][DN_MAX];
	struct crypt_iov v[4] = {{flags, sizeof(flags)}};

	store_le64(flags, load64(o->data + OBJSET_FLAGS, o->swap));
	for (size_t i = 0; i < ndnodes; i++) {
		size_t len;

		if (o->data[place[i]] == 0)
			continue;
		len = objset_dnode_put(o, place[i], dn[i]);
		if (!len)
			return false;
		v[n++] = (struct crypt_iov){dn[i], len};
	}
	crypt_hmac_sha512(k->hmac_key, CRYPT_HMAC_KEY, v, n, sum);
	return true;
}

int zio_crypt_check_objset(struct crypt_key *k, const struct bp *bp, const uint8_t *data, size_t size)
{
	struct objset_crypt o = {data, size, bp_is_swapped(bp), k->version};
	uint8_t sum[64];

	if (size < OBJSET_V1 || !objset_portable(k, &o, sum) || memcmp(sum, data + OBJSET_PORTABLE, OBJSET_MAC) != 0)
		return -ECKSUM;
	if (objset_has_local(&o) && (!objset_local(k, &o, sum) || memcmp(sum, data + OBJSET_LOCAL, OBJSET_MAC) != 0))
		return -ECKSUM;
	return 0;
}

int zio_crypt_seal_objset(struct crypt_key *k, const struct bp *bp, uint8_t *data, size_t size)
{
	struct objset_crypt o = {data, size, bp_is_swapped(bp), k->version};
	uint8_t portable[64], local[64] = {0};

	if (size < OBJSET_V1 || !objset_portable(k, &o, portable))
		return -EINVAL;
	if (objset_has_local(&o) && !objset_local(k, &o, local))
		return -EINVAL;
	memcpy(data + OBJSET_PORTABLE, portable, OBJSET_MAC);
	memcpy(data + OBJSET_LOCAL, local, OBJSET_MAC);
	return 0;
}

/* --- checksums beside MACs (2.6 of chapter 02) --- */

bool zio_crypt_cksum_matches(const struct bp *bp, const struct cksum *full)
{
	struct cksum c = *full;

	if (!bp_uses_crypt(bp) || bp_type(bp) == DMU_OT_OBJSET)
		return memcmp(&c, &bp->w[12], sizeof(c)) == 0;
	checksum_truncate(bp_checksum(bp), &c);
	return c.word[0] == bp->w[12] && c.word[1] == bp->w[13];
}
