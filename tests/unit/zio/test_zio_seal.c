/* Sealing blocks of encrypted sets: the vectors of docs/format/04-crypto-dedup-clone.md A1.15, and that what was sealed
 * opens, block by block and through zio_write and zio_read. */
#include "testpool.h"

#include "base/tunable.h"
#include "zio/zio_crypt.h"

#define TXG 12

static size_t unhex(const char *s, uint8_t *out)
{
	size_t n = 0;
	unsigned byte;

	for (; s[0] && s[1]; s += 2) {
		assert_int_equal(sscanf(s, "%2x", &byte), 1);
		out[n++] = (uint8_t)byte;
	}
	return n;
}

static void count_up(uint8_t *p, size_t n, unsigned from)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(from + i);
}

static struct crypt_key *key_of(enum crypt_suite s, unsigned version)
{
	uint8_t master[32], hmac[64];

	count_up(master, 32, 0);
	count_up(hmac, 64, 0x40);
	return crypt_key_create(s, 7, master, hmac, version);
}

static struct bp sealed_bp(unsigned type, size_t size)
{
	struct bp bp = {{1, 8}};

	bp_set_props(&bp, &(struct bp_props){.lsize = size,
					     .psize = size,
					     .compress = COMPRESS_OFF,
					     .checksum = CHECKSUM_FLETCHER_4,
					     .type = type,
					     .crypt = true});
	bp.w[10] = TXG;
	bp.w[11] = 1;
	return bp;
}

/* --- the chapter's vectors --- */

static void a_data_block_is_sealed_as_in_the_chapter(void **state)
{
	struct crypt_key *k = key_of(CRYPT_AES_256_GCM, 1);
	struct bp bp = sealed_bp(DMU_OT_PLAIN, 512);
	uint8_t plain[512], to[512], want[32];

	bp.w[4] = 0x1716151413121110;
	bp.w[5] = 0xb7b6b5b4b3b2b1b0;
	bp.w[11] = 0xbbbab9b800000001;
	count_up(plain, 512, 0);
	assert_int_equal(zio_crypt_encrypt(k, &bp, plain, to, 512), 0);
	unhex("7f3944acf1b8c11c815a6c213415da1db9697ac369cb7216cd8e3ab85f6f0382", want);
	assert_memory_equal(to, want, 32);
	assert_int_equal(bp.w[14], 0xfe84f2bf4b52d4ed);
	assert_int_equal(bp.w[15], 0x68c3faf3437e24bc);
	crypt_key_release(k);
}

static void the_other_macs_are_as_in_the_chapter(void **state)
{
	struct crypt_key *k = key_of(CRYPT_AES_128_CCM, 1);
	struct bp bp = sealed_bp(DMU_OT_MASTER_NODE, 512), child = sealed_bp(DMU_OT_PLAIN, 512);
	uint8_t text[1024], mac[16];

	count_up(text, 512, 0);
	zio_crypt_authenticate(k, &bp, text, 512);
	unhex("f4c97895fe0d58ba21417d1d1162112c", mac);
	assert_int_equal(bp.w[14], load_le64(mac));
	assert_int_equal(bp.w[15], load_le64(mac + 8));

	child.w[14] = 0xfe84f2bf4b52d4ed;
	child.w[15] = 0x68c3faf3437e24bc;
	memset(text, 0, sizeof(text));
	memcpy(text, &child, sizeof(child));
	bp.w[6] |= UINT64_C(1) << 56;
	assert_int_equal(zio_crypt_set_indirect(&bp, text, sizeof(text)), 0);
	unhex("3eaa87fa47aeecc5377099f52ac8f038", mac);
	assert_int_equal(bp.w[14], load_le64(mac));
	assert_int_equal(bp.w[15], load_le64(mac + 8));
	crypt_key_release(k);
}

/* --- salts and IVs --- */

static void salts_are_changed_and_ivs_never_repeat(void **state)
{
	struct crypt_key *k = key_of(CRYPT_AES_256_GCM, 1);
	struct bp bp[30];
	unsigned changes = 0;

	assert_int_equal(tunable_key_max_salt_uses.def, 400000000);
	assert_int_equal(tunable_set(&tunable_key_max_salt_uses, 10, NULL), 0);
	for (unsigned i = 0; i < 30; i++) {
		bp[i] = sealed_bp(DMU_OT_PLAIN, 512);
		bp[i].w[11] = 77;
		zio_crypt_set_fresh(k, &bp[i]);
		assert_int_equal(bp_fill(&bp[i]), 77);
		changes += i && bp[i].w[4] != bp[i - 1].w[4];
		for (unsigned j = 0; j < i; j++)
			assert_true(bp[i].w[5] != bp[j].w[5]);
	}
	assert_int_equal(changes, 2);
	tunable_set(&tunable_key_max_salt_uses, tunable_key_max_salt_uses.def, NULL);
	crypt_key_release(k);
}

static void old_keys_do_not_seal(void **state)
{
	struct crypt_key *k = key_of(CRYPT_AES_256_GCM, 0);
	struct testpool *tp = tp_create(9, 64u << 20);
	autobuf struct buf *data = buf_alloc(4096);
	struct zio_write w = {.data = data, .lsize = 4096, .key = k, .txg = TXG};
	struct bp bp;

	memset(data->data, 1, 4096);
	w.policy = (struct zio_policy){
	    .type = DMU_OT_PLAIN, .checksum = CHECKSUM_FLETCHER_4, .copies = 1, .compress = COMPRESS_OFF};
	tp_set_writable(tp);
	assert_false(crypt_key_can_seal(k));
	assert_int_equal(zio_write_wait(&tp->zp, &w), -ENOTSUP);
	assert_int_equal(zio_alloc_zil(&tp->zp, TXG, 4096, k, 0, &bp), -ENOTSUP);
	tp_destroy(tp);
	crypt_key_release(k);
}

/* --- dnode blocks --- */

/* Slots: a dnode with an encrypted bonus and a spill pointer; one with a plain bonus; a large one; free ones. */
static void make_dnodes(uint8_t d[16384], bool swap)
{
	struct bp bp = sealed_bp(DMU_OT_PLAIN, 512);

	memset(d, 0, 16384);
	tp_pattern(&bp.w[14], 16, 5);
	if (swap)
		swap64_buffer(&bp, sizeof(bp));
	for (unsigned i = 0; i < 3; i++) {
		uint8_t *n = d + 512 * i;

		n[0] = DMU_OT_PLAIN;
		n[1] = 17;
		n[2] = 1;
		n[3] = i == 1 ? 3 : 1;
		n[4] = i == 1 ? DMU_OT_ZNODE : DMU_OT_SA;
		n[7] = i == 0 ? 0x05 : 0x01;
		store_host16(n + 8, swap ? __builtin_bswap16(256) : 256);
		store_host16(n + 10, swap ? __builtin_bswap16(64) : 64);
		n[12] = i == 2 ? 3 : 0;
		store_host64(n + 24, 123456);
		for (unsigned b = 0; b < n[3]; b++)
			memcpy(n + 64 + 128 * b, &bp, sizeof(bp));
		tp_pattern(n + 64 + 128 * n[3], i == 0 ? 192 : i == 1 ? 64 : 1024, i);
	}
	memcpy(d + 512 - 128, &bp, sizeof(bp));
}

static void only_the_bonus_of_dnodes_is_hidden(void **state)
{
	for (unsigned s = CRYPT_AES_128_CCM; s < CRYPT_COUNT; s++) {
		for (unsigned swap = 0; swap < 2; swap++) {
			struct crypt_key *k = key_of(s, 1);
			struct bp bp = sealed_bp(DMU_OT_DNODE, 16384), bad;
			autofree uint8_t *plain = xmalloc(16384), *to = xmalloc(16384), *copy = xmalloc(16384);

			bp.w[6] ^= (uint64_t)swap << 63;
			make_dnodes(plain, swap);
			zio_crypt_set_fresh(k, &bp);
			assert_int_equal(zio_crypt_encrypt(k, &bp, plain, to, 16384), 0);
			assert_memory_equal(to, plain, 192);
			assert_memory_not_equal(to + 192, plain + 192, 192);
			assert_memory_equal(to + 384, plain + 384, 128 + 512 + 192);
			assert_memory_not_equal(to + 1024 + 192, plain + 1024 + 192, 64);
			assert_memory_equal(to + 3072, plain + 3072, 16384 - 3072);
			memcpy(copy, to, 16384);
			copy[24]++; /* `used` and accounting flags are not covered */
			copy[7] |= 2;
			assert_int_equal(zio_crypt_read(k, &bp, copy, 16384), 0);
			memcpy(copy, to, 16384);
			copy[1]++;
			assert_int_equal(zio_crypt_read(k, &bp, copy, 16384), -ECKSUM);
			assert_int_equal(zio_crypt_read(k, &bp, to, 16384), 0);
			assert_memory_equal(to, plain, 16384);
			bad = bp;
			plain[12] = 40; /* more slots than there are */
			assert_int_equal(zio_crypt_encrypt(k, &bad, plain, to, 16384), -EINVAL);
			crypt_key_release(k);
		}
	}
}

/* --- log blocks --- */

static size_t add_record(uint8_t *d, size_t at, uint64_t type, size_t len)
{
	tp_pattern(d + at, len, (uint32_t)at);
	store_host64(d + at, type);
	store_host64(d + at + 8, len);
	return at + len;
}

static void log_blocks_keep_their_chain_and_pointers_readable(void **state)
{
	struct testpool *tp = tp_create(12, 64u << 20);

	tp_set_writable(tp);
	for (unsigned s = CRYPT_AES_128_CCM; s < CRYPT_COUNT; s++) {
		struct crypt_key *k = key_of(s, 1);
		autobuf struct buf *data = buf_alloc(8192), *got, *plain = buf_alloc(8192);
		struct zio_write w = {.data = data, .lsize = 8192, .key = k, .txg = TXG};
		struct zbookmark zb = {1, 0, -1, 1};
		size_t end = 184;

		memset(data->data, 0, 8192);
		tp_pattern(data->data + 8, 128, 3);
		end = add_record(data->data, end, 9, 192 + 1000); /* a write with its bytes */
		end = add_record(data->data, end, 9, 192);        /* a write elsewhere */
		end = add_record(data->data, end, 1, 200);        /* something else */
		end = add_record(data->data, end, 24, 64 + 256);  /* a clone */
		store_host64(data->data + 136, end);
		memcpy(plain->data, data->data, 8192);

		assert_int_equal(zio_alloc_zil(&tp->zp, TXG, 65536, k, 0, &w.bp), 0);
		assert_true(bp_is_encrypted(&w.bp));
		assert_true(w.bp.w[4] != 0 && w.bp.w[5] != 0);
		for (unsigned i = 0; i < 4; i++)
			w.bp.w[12 + i] = 1000 + i;
		w.flags = ZIO_WRITE_FIXED | ZIO_WRITE_MAY_FAIL;
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);

		/* without the key: checksum, chain, heads of records, pointers */
		assert_int_equal(zio_read_wait(&tp->zp, &w.bp, &zb, NULL, ZIO_RAW, &got), 0);
		assert_memory_equal(got->data, plain->data, 144);
		assert_memory_equal(got->data + 184, plain->data + 184, 32);
		assert_memory_not_equal(got->data + 184 + 32, plain->data + 184 + 32, 32);
		assert_memory_equal(got->data + 184 + 64, plain->data + 184 + 64, 128);
		assert_memory_not_equal(got->data + 184 + 192, plain->data + 184 + 192, 100);
		assert_memory_equal(got->data + end - 256, plain->data + end - 256, 256);
		buf_release(got);

		assert_int_equal(zio_read_wait(&tp->zp, &w.bp, &zb, k, 0, &got), 0);
		assert_memory_equal(got->data + 184, plain->data + 184, end - 184);
		crypt_key_release(k);

		w.key = NULL; /* an encrypted log block is not written in the clear, nor a plain one sealed */
		assert_int_equal(zio_write_wait(&tp->zp, &w), -EKEY);
	}
	tp_destroy(tp);
}

/* --- object sets --- */

static void object_sets_are_rooted_in_two_macs(void **state)
{
	static const size_t sizes[] = {1024, 2048, 4096};

	for (unsigned i = 0; i < 12; i++) {
		struct crypt_key *k = key_of(CRYPT_AES_256_GCM, 1);
		struct bp bp = sealed_bp(DMU_OT_OBJSET, sizes[i % 3]);
		bool swap = i & 4, accounted = i >= 6;
		uint8_t d[4096] = {0}, zero[32] = {0};

		bp.w[6] ^= (uint64_t)swap << 63;
		for (unsigned n = 0; n < sizes[i % 3] / 512; n++) {
			uint8_t *dn = d + 512 * n;

			if (n == 1 || n > 4)
				continue;
			dn[0] = n ? DMU_OT_USERGROUP_USED : DMU_OT_DNODE;
			dn[3] = 1;
			tp_pattern(dn + 64, 128, n);
		}
		store_host64(d + 704, swap ? __builtin_bswap64(2) : 2);
		store_host64(d + 712, accounted ? swap ? __builtin_bswap64(1) : 1 : 0);
		if (accounted)
			memset(d + 1024, 0, i % 2 * (sizes[i % 3] - 1024));
		memset(d + 720, 0xee, 64);
		assert_int_equal(zio_crypt_seal_objset(k, &bp, d, sizes[i % 3]), 0);
		assert_int_equal(zio_crypt_check_objset(k, &bp, d, sizes[i % 3]), 0);
		assert_memory_not_equal(d + 720, zero, 32);
		if (!accounted || sizes[i % 3] == 1024)
			assert_memory_equal(d + 752, zero, 32);
		d[2]++;
		assert_int_equal(zio_crypt_check_objset(k, &bp, d, sizes[i % 3]), -ECKSUM);
		d[2]--;
		d[600]++; /* the log's header is in no MAC */
		assert_int_equal(zio_crypt_check_objset(k, &bp, d, sizes[i % 3]), 0);
		d[3] = 200; /* pointers beyond the dnode */
		assert_int_equal(zio_crypt_seal_objset(k, &bp, d, sizes[i % 3]), -EINVAL);
		assert_int_equal(zio_crypt_seal_objset(k, &bp, d, 512), -EINVAL);
		crypt_key_release(k);
	}
}

/* --- through the pipeline --- */

static void fill_for(unsigned type, struct buf *data, unsigned compressible)
{
	tp_pattern(data->data, data->size, type);
	if (compressible)
		memset(data->data + data->size / 4, 7, data->size / 2);
	if (type == DMU_OT_DNODE)
		make_dnodes(data->data, false);
	if (type == DMU_OT_OBJSET) {
		memset(data->data, 0, data->size);
		data->data[0] = DMU_OT_DNODE;
		data->data[3] = 3;
		tp_pattern(data->data + 64, 384, 9);
	}
}

static void write_and_read(struct testpool *tp, struct crypt_key *k, unsigned type, unsigned level, unsigned variant)
{
	size_t size = type == DMU_OT_DNODE && level == 0 ? 16384 : type == DMU_OT_OBJSET ? 4096 : 32768;
	autobuf struct buf *data = buf_alloc(size), *copy = buf_alloc(size), *got = NULL, *raw = NULL;
	struct zio_write w = {.data = data, .lsize = (uint32_t)size, .key = k, .txg = TXG, .fill = 3};
	struct zbookmark zb = {1, 2, 0, 3};

	w.policy = (struct zio_policy){.type = (uint8_t)type,
				       .level = (uint8_t)level,
				       .checksum = variant & 1 ? CHECKSUM_SHA256 : CHECKSUM_FLETCHER_4,
				       .compress = variant & 2 ? COMPRESS_LZ4 : COMPRESS_OFF,
				       .copies = 3,
				       .gang_copies = 3,
				       .embed = true,
				       .nopwrite = true};
	fill_for(level ? DMU_OT_PLAIN : type, data, 1);
	memcpy(copy->data, data->data, size);
	tp->max_extent = variant & 4 ? 8192 : 0;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_memory_equal(data->data, copy->data, size); /* the caller's bytes are not changed */
	assert_true(bp_uses_crypt(&w.bp));
	assert_int_equal(bp_fill(&w.bp), 3);
	assert_int_equal(bp_ndvas(&w.bp), bp_is_encrypted(&w.bp) ? 2 : 3);
	assert_int_equal(bp_is_gang(&w.bp), variant & 4 && bp_psize(&w.bp) > 8192);
	assert_int_equal(bp_compress(&w.bp), variant & 2 && type != DMU_OT_OBJSET && (level || type != DMU_OT_DNODE)
						 ? COMPRESS_LZ4
						 : COMPRESS_OFF);
	assert_int_equal(zio_read_wait(&tp->zp, &w.bp, &zb, k, ZIO_SCRUB, &got), 0);
	if (type == DMU_OT_OBJSET) {
		assert_int_equal(zio_crypt_check_objset(k, &w.bp, got->data, got->size), 0);
		assert_memory_equal(got->data, copy->data, 720);
	} else {
		assert_memory_equal(got->data, copy->data, size);
	}
	assert_int_equal(zio_read_wait(&tp->zp, &w.bp, &zb, NULL, ZIO_RAW, &raw), 0);
	if (bp_is_encrypted(&w.bp) && type != DMU_OT_DNODE)
		assert_memory_not_equal(raw->data, copy->data, 64);
	assert_int_equal(zio_free(&tp->zp, &w.bp, TXG), 0);
}

static void every_kind_of_block_comes_back(void **state)
{
	static const struct {
		unsigned type, level;
	} kinds[] = {{DMU_OT_PLAIN, 0},  {DMU_OT_PLAIN, 1}, {DMU_OT_DNODE, 0},       {DMU_OT_DNODE, 2},
		     {DMU_OT_OBJSET, 0}, {DMU_OT_SA, 0},    {DMU_OT_MASTER_NODE, 0}, {DMU_OT_ZVOL, 0}};
	struct testpool *tp = tp_create(9, 64u << 20);

	tp_set_writable(tp);
	for (unsigned s = CRYPT_AES_128_CCM; s < CRYPT_COUNT; s++) {
		struct crypt_key *k = key_of(s, 1);

		for (unsigned i = 0; i < ARRAY_LEN(kinds); i++)
			for (unsigned variant = 0; variant < 8; variant++)
				write_and_read(tp, k, kinds[i].type, kinds[i].level, variant);
		crypt_key_release(k);
	}
	assert_int_equal(tp_in_use(tp), 0);
	tp_destroy(tp);
}

/* Encrypted blocks never stay in place; others may. Zeros are holes without a seal. */
static void encrypted_blocks_move_and_holes_have_no_seal(void **state)
{
	struct testpool *tp = tp_create(9, 64u << 20);
	struct crypt_key *k = key_of(CRYPT_AES_256_GCM, 1);
	autobuf struct buf *data = buf_alloc(8192);
	struct zio_write w = {.data = data, .lsize = 8192, .key = k, .txg = TXG, .rewrite = true};
	struct bp first;

	tp_set_writable(tp);
	for (unsigned plain = 0; plain < 2; plain++) {
		w.policy = (struct zio_policy){.type = plain ? DMU_OT_MASTER_NODE : DMU_OT_PLAIN,
					       .checksum = CHECKSUM_SHA256,
					       .compress = COMPRESS_EMPTY,
					       .copies = 1};
		memset(&w.bp, 0, sizeof(w.bp));
		memset(data->data, 1, 8192);
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		first = w.bp;
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_int_equal(bp_equal(&first, &w.bp), plain);
		memset(data->data, 0, 8192);
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_true(bp_is_hole(&w.bp));
		assert_false(bp_uses_crypt(&w.bp));
	}
	crypt_key_release(k);
	tp_destroy(tp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_data_block_is_sealed_as_in_the_chapter),
	    cmocka_unit_test(the_other_macs_are_as_in_the_chapter),
	    cmocka_unit_test(salts_are_changed_and_ivs_never_repeat),
	    cmocka_unit_test(old_keys_do_not_seal),
	    cmocka_unit_test(only_the_bonus_of_dnodes_is_hidden),
	    cmocka_unit_test(log_blocks_keep_their_chain_and_pointers_readable),
	    cmocka_unit_test(object_sets_are_rooted_in_two_macs),
	    cmocka_unit_test(every_kind_of_block_comes_back),
	    cmocka_unit_test(encrypted_blocks_move_and_holes_have_no_seal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
