#include "testpool.h"

#define TXG 12

static struct zio_write write_of(struct buf *data, enum compress compress, unsigned copies)
{
	return (struct zio_write){
	    .data = data,
	    .lsize = data->size,
	    .policy = {.type = TP_FILE,
		       .checksum = CHECKSUM_FLETCHER_4,
		       .compress = compress,
		       .copies = copies,
		       .gang_copies = copies},
	    .zb = {1, 2, 0, 3},
	    .txg = TXG,
	    .fill = 1,
	};
}

static struct buf *pattern_buf(size_t size, uint32_t seed)
{
	struct buf *b = buf_alloc(size);

	assert_non_null(b);
	tp_pattern(b->data, size, seed);
	return b;
}

static struct testpool *pool(unsigned ashift)
{
	struct testpool *tp = tp_create(ashift, 64u << 20);

	tp_set_writable(tp);
	return tp;
}

static void reads_back(struct testpool *tp, const struct bp *bp, const struct buf *want)
{
	struct buf *got;

	assert_int_equal(bp_check(bp), 0);
	assert_int_equal(tp_read(tp, bp, ZIO_SCRUB, &got), 0);
	assert_int_equal(got->size, want->size);
	assert_memory_equal(got->data, want->data, want->size);
	buf_release(got);
}

static void blocks_come_back_from_every_copy(void **state)
{
	static const uint32_t sizes[] = {512, 1536, 4096, 8192, 9 * 512, 128 << 10, 1 << 20, 16 << 20};

	for (unsigned ashift = 9; ashift <= 13; ashift += 2) {
		struct testpool *tp = pool(ashift);

		for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
			for (unsigned copies = 1; copies <= 3; copies++) {
				autobuf struct buf *data = pattern_buf(sizes[i], i + copies);
				struct zio_write w = write_of(data, COMPRESS_OFF, copies);

				assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
				assert_int_equal(bp_ndvas(&w.bp), copies);
				assert_int_equal(bp_birth(&w.bp), TXG);
				assert_int_equal(w.bp.w[9], 0);
				assert_int_equal(bp_fill(&w.bp), 1);
				assert_int_equal(bp_lsize(&w.bp), sizes[i]);
				assert_int_equal(bp_psize(&w.bp), sizes[i]);
				assert_int_equal(bp_type(&w.bp), TP_FILE);
				reads_back(tp, &w.bp, data);
				for (unsigned c = 0; c + 1 < copies; c++)
					tp_damage(tp, &w.bp, c);
				struct buf *got;
				assert_int_equal(tp_read(tp, &w.bp, 0, &got), 0);
				assert_memory_equal(got->data, data->data, data->size);
				buf_release(got);
			}
		}
		tp_destroy(tp);
	}
}

static void zeros_become_holes_only_when_compressing(void **state)
{
	struct testpool *tp = pool(12);
	autobuf struct buf *data = buf_alloc(8192);
	struct zio_write w;
	struct bp none = {{0}};

	memset(data->data, 0, data->size);
	w = write_of(data, COMPRESS_EMPTY, 1);
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_memory_equal(&w.bp, &none, sizeof(none));

	w.bp.w[10] = 5; /* there was a block before: the hole tells since when it is one */
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_true(bp_is_hole(&w.bp));
	assert_int_equal(bp_birth(&w.bp), TXG);
	assert_int_equal(bp_lsize(&w.bp), 8192);
	assert_int_equal(bp_type(&w.bp), TP_FILE);
	w.bp.w[10] = 5;
	tp->zp.hole_birth = false;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_memory_equal(&w.bp, &none, sizeof(none));
	assert_int_equal(atomic_load(&tp->device_writes), 0);

	w = write_of(data, COMPRESS_OFF, 1);
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_false(bp_is_hole(&w.bp));
	reads_back(tp, &w.bp, data);
	tp_destroy(tp);
}

static void a_block_of_this_group_is_overwritten_in_place(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *a = pattern_buf(8192, 1), *b = pattern_buf(8192, 2), *c = pattern_buf(4096, 3);
	struct zio_write w = write_of(a, COMPRESS_OFF, 2);
	struct bp first;

	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	first = w.bp;
	w.data = b;
	w.rewrite = true;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_true(bp_equal(&first, &w.bp));
	assert_memory_not_equal(&first.w[12], &w.bp.w[12], 32);
	reads_back(tp, &w.bp, b);
	assert_int_equal(tp_in_use(tp), 2 * 8192);
	first = w.bp;

	w.data = c; /* another size */
	w.lsize = c->size;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_false(bp_equal(&first, &w.bp));
	reads_back(tp, &first, b);
	reads_back(tp, &w.bp, c);

	w.txg++; /* another group */
	first = w.bp;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_false(bp_equal(&first, &w.bp));
	tp_destroy(tp);
}

static void allocation_that_must_wait_is_left_to_others(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct zio_write w = write_of(data, COMPRESS_OFF, 1);

	tp->must_wait = true;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	reads_back(tp, &w.bp, data);
	tp_destroy(tp);
}

static void the_other_byte_order_can_be_written(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct zio_write w = write_of(data, COMPRESS_OFF, 1);

	w.policy.byteorder = true;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_true(bp_is_swapped(&w.bp));
	reads_back(tp, &w.bp, data);
	tp_destroy(tp);
}

static void without_a_writer_nothing_is_written(void **state)
{
	struct testpool *tp = tp_create(9, 64u << 20);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct zio_write w = write_of(data, COMPRESS_OFF, 1);

	assert_int_equal(zio_write_wait(&tp->zp, &w), -EROFS);
	tp_destroy(tp);
}

/* --- sizes and forms (02, 3.3 and 4) --- */

static struct buf *text_buf(size_t size, unsigned noise)
{
	struct buf *b = buf_alloc(size);
	uint32_t seed = 5;

	assert_non_null(b);
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525 + 1013904223;
		b->data[i] = i % 64 < noise ? (uint8_t)(seed >> 24) : (uint8_t)(i / 4096 + 1);
	}
	return b;
}

static void every_algorithm_and_checksum_comes_back(void **state)
{
	static const enum compress all[] = {COMPRESS_OFF,    COMPRESS_EMPTY, COMPRESS_LZJB, COMPRESS_GZIP_1,
					    COMPRESS_GZIP_9, COMPRESS_ZLE,   COMPRESS_LZ4,  COMPRESS_ZSTD};
	static const uint32_t sizes[] = {512, 3584, 16384, 128 << 10, 1 << 20};
	static const uint8_t salt[32] = {1, 2, 3};
	struct testpool *tp = pool(12);

	tp->zp.salt = checksum_salt_create(salt);
	for (unsigned a = 0; a < ARRAY_LEN(all); a++) {
		for (unsigned s = 0; s < ARRAY_LEN(sizes); s++) {
			for (unsigned noise = 0; noise <= 64; noise += 32) {
				autobuf struct buf *data = text_buf(sizes[s], noise);
				struct zio_write w = write_of(data, all[a], 1);

				w.policy.checksum = CHECKSUM_FLETCHER_2 + (a + s + noise) % 9;
				if (w.policy.checksum == CHECKSUM_ZILOG2)
					w.policy.checksum = CHECKSUM_OFF;
				w.policy.embed = a % 2;
				assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
				reads_back(tp, &w.bp, data);
				if (bp_is_embedded(&w.bp))
					continue;
				assert_true(bp_compress(&w.bp) == COMPRESS_OFF
						? bp_psize(&w.bp) == sizes[s]
						: bp_psize(&w.bp) % 4096 == 0 && bp_psize(&w.bp) < sizes[s]);
				assert_int_equal(bp_compress(&w.bp) != COMPRESS_OFF,
						 a >= 2 && all[a] != COMPRESS_ZLE && sizes[s] >= 16384 && noise < 64);
			}
		}
	}
	checksum_salt_destroy(tp->zp.salt);
	tp_destroy(tp);
}

static void an_eighth_must_be_saved(void **state)
{
	struct testpool *tp = pool(9);

	/* zle: 64 bytes of each 512 are zeros with noise 56 of 64; the control bytes make it a little more */
	for (unsigned zeros = 0; zeros < 128; zeros += 8) {
		autobuf struct buf *data = pattern_buf(4096, 3);
		struct zio_write w = write_of(data, COMPRESS_ZLE, 1);
		uint64_t want;

		for (unsigned i = 0; i < 4096; i++)
			data->data[i] |= 1;
		memset(data->data, 0, zeros * 8);
		want = (4096 - zeros * 8) * 65 / 64 + (zeros * 8 + 191) / 192; /* about */
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		reads_back(tp, &w.bp, data);
		if (want > 3584 + 64)
			assert_int_equal(bp_compress(&w.bp), COMPRESS_OFF);
		else if (want < 3584 - 64)
			assert_int_equal(bp_psize(&w.bp), ROUND_UP(want, 512));
		else
			assert_true(bp_psize(&w.bp) <= 3584 || bp_psize(&w.bp) == 4096);
	}
	tp_destroy(tp);
}

static void small_results_are_embedded_when_they_may_be(void **state)
{
	struct testpool *tp = pool(12);
	autobuf struct buf *data = text_buf(128 << 10, 0), *small = text_buf(512, 0);
	struct zio_write w;

	memset(data->data, 0, data->size);
	data->data[777] = 7;
	for (unsigned i = 0; i < 2; i++) {
		w = write_of(i ? small : data, COMPRESS_ZSTD, 2);
		w.policy.embed = true;
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_true(bp_is_embedded(&w.bp));
		assert_int_equal(bp_birth(&w.bp), TXG);
		assert_int_equal(bp_fill(&w.bp), 1);
		reads_back(tp, &w.bp, i ? small : data);
	}
	assert_int_equal(tp_in_use(tp), 0);
	for (unsigned i = 0; i < 4; i++) {
		w = write_of(data, COMPRESS_LZJB + 12, 1);
		w.policy.embed = i > 0;
		w.policy.level = i == 1;
		w.policy.type = i == 2 ? TP_DNODE : i == 3 ? TP_OBJSET : TP_FILE;
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_false(bp_is_embedded(&w.bp));
		assert_int_equal(bp_psize(&w.bp), 4096);
		reads_back(tp, &w.bp, data);
	}
	tp_destroy(tp);
}

static void late_passes_do_not_compress(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = text_buf(16384, 0);
	struct zio_write w = write_of(data, COMPRESS_LZ4, 1);

	w.flags = ZIO_WRITE_NO_COMPRESS;
	w.policy.embed = true;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_int_equal(bp_compress(&w.bp), COMPRESS_OFF);
	reads_back(tp, &w.bp, data);
	tp_destroy(tp);
}

static void equal_blocks_are_not_written_again(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = text_buf(16384, 8), *other = text_buf(16384, 9);
	struct zio_write w = write_of(data, COMPRESS_LZ4, 1);
	unsigned writes;
	struct bp first;

	w.policy.checksum = CHECKSUM_SHA256;
	w.policy.nopwrite = true;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	first = w.bp;
	writes = atomic_load(&tp->device_writes);
	w.txg++;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_memory_equal(&first, &w.bp, sizeof(first));
	assert_int_equal(atomic_load(&tp->device_writes), writes);
	for (unsigned i = 0; i < 6; i++) {
		w.bp = first;
		w.data = i == 0 ? other : data;
		w.policy.copies = i == 1 ? 2 : 1;
		w.policy.compress = i == 2 ? COMPRESS_OFF : i == 3 ? COMPRESS_LZJB : COMPRESS_LZ4;
		w.policy.checksum = i == 4 ? CHECKSUM_SHA512 : CHECKSUM_SHA256;
		w.policy.nopwrite = i != 5;
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		assert_false(bp_equal(&first, &w.bp));
	}
	w = write_of(data, COMPRESS_LZ4, 1); /* fletcher4 proves nothing */
	w.policy.nopwrite = true;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	first = w.bp;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_false(bp_equal(&first, &w.bp));
	tp_destroy(tp);
}

static void bad_requests_are_refused(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct zio_write good = write_of(data, COMPRESS_OFF, 1), w;

	for (unsigned i = 0; i < 6; i++) {
		w = good;
		w.lsize = i == 0 ? 0 : i == 1 ? 1000 : i == 2 ? 16384 : 8192;
		w.policy.copies = i == 3 ? 0 : i == 4 ? 4 : 1;
		w.policy.dedup = i == 5;
		assert_int_equal(zio_write_wait(&tp->zp, &w), i == 5 ? -ENOTSUP : -EINVAL);
	}
	w = good;
	w.policy.checksum = CHECKSUM_SKEIN; /* no salt yet */
	assert_int_equal(zio_write_wait(&tp->zp, &w), -EINVAL);
	assert_int_equal(tp_in_use(tp), 0);
	tp_destroy(tp);
}

/* --- what is given: raw and fixed --- */

static void raw_blocks_keep_their_form(void **state)
{
	struct testpool *from = pool(9), *to = pool(12);
	autobuf struct buf *data = text_buf(16384, 16), *stored;
	struct zio_write w = write_of(data, COMPRESS_LZ4, 1), raw;

	assert_int_equal(zio_write_wait(&from->zp, &w), 0);
	assert_int_equal(tp_read(from, &w.bp, ZIO_RAW, &stored), 0);
	assert_true(bp_psize(&w.bp) % 4096 != 0);
	raw = write_of(stored, COMPRESS_OFF, 2);
	raw.flags = ZIO_WRITE_RAW;
	raw.policy.checksum = CHECKSUM_SHA256;
	raw.bp = w.bp;
	raw.txg = TXG + 3;
	assert_int_equal(zio_write_wait(&to->zp, &raw), 0);
	assert_int_equal(bp_psize(&raw.bp), ROUND_UP(bp_psize(&w.bp), 4096));
	assert_int_equal(bp_compress(&raw.bp), COMPRESS_LZ4);
	assert_int_equal(bp_checksum(&raw.bp), CHECKSUM_SHA256);
	assert_int_equal(bp_birth(&raw.bp), TXG + 3);
	assert_int_equal(bp_ndvas(&raw.bp), 2);
	reads_back(to, &raw.bp, data);
	tp_destroy(from);
	tp_destroy(to);
}

/* Salt, IV and MAC of an encrypted block come along, its checksum leaves room for the MAC. */
static void raw_encrypted_blocks_keep_their_seal(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct zio_write w = write_of(data, COMPRESS_OFF, 3);
	struct buf *got;

	w.flags = ZIO_WRITE_RAW;
	bp_set_props(&w.bp, &(struct bp_props){.lsize = 16384,
					       .psize = 8192,
					       .compress = COMPRESS_LZ4,
					       .checksum = CHECKSUM_FLETCHER_4,
					       .type = TP_FILE,
					       .crypt = true});
	for (unsigned i = 4; i < 16; i++)
		w.bp.w[i] = i == 6 ? w.bp.w[i] : i < 6 || i > 10 ? i * UINT64_C(0x0101010101010101) : 0;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_int_equal(bp_ndvas(&w.bp), 2);
	assert_int_equal(w.bp.w[4], UINT64_C(0x0404040404040404));
	assert_int_equal(w.bp.w[5], UINT64_C(0x0505050505050505));
	assert_int_equal(w.bp.w[11], UINT64_C(0x0b0b0b0b00000001));
	assert_int_equal(w.bp.w[14], UINT64_C(0x0e0e0e0e0e0e0e0e));
	assert_int_equal(tp_read(tp, &w.bp, ZIO_RAW | ZIO_SCRUB, &got), 0);
	assert_memory_equal(got->data, data->data, data->size);
	buf_release(got);
	tp_destroy(tp);
}

static void log_blocks_are_written_where_they_were_allocated(void **state)
{
	struct testpool *tp = pool(12);
	autobuf struct buf *data = buf_alloc(12288);
	struct zio_write w;
	struct buf *got;
	struct bp bp, kept;

	assert_int_equal(zio_alloc_zil(&tp->zp, TXG, 65536, NULL, 0, &bp), 0);
	assert_int_equal(bp_lsize(&bp), 65536);
	assert_int_equal(bp_type(&bp), DMU_OT_INTENT_LOG);
	assert_int_equal(bp_checksum(&bp), CHECKSUM_ZILOG2);
	assert_int_equal(bp_birth(&bp), TXG);
	for (unsigned i = 0; i < 4; i++)
		bp.w[12 + i] = 1000 + i;
	kept = bp;
	tp_pattern(data->data, data->size, 1);
	store_host64(data->data + 136, 9000); /* nused: what is beyond the third 4 KiB is not summed */
	w = write_of(data, COMPRESS_OFF, 1);
	w.bp = bp;
	w.flags = ZIO_WRITE_FIXED | ZIO_WRITE_SYNC | ZIO_WRITE_MAY_FAIL;
	assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
	assert_memory_equal(&w.bp, &kept, sizeof(kept));
	assert_int_equal(tp_read(tp, &bp, ZIO_RAW, &got), 0);
	assert_memory_equal(got->data, data->data, data->size);
	assert_int_equal(got->size, 65536);
	buf_release(got);
	bp.w[15]++; /* not this block of the chain */
	assert_int_equal(tp_read(tp, &bp, ZIO_RAW, &got), -ECKSUM);

	w.lsize = 12288 + 512; /* more than the buffer holds */
	assert_int_equal(zio_write_wait(&tp->zp, &w), -EINVAL);
	w.lsize = 12288;
	w.bp.w[0] += UINT64_C(1) << 40; /* no such device */
	assert_int_equal(zio_write_wait(&tp->zp, &w), -EINVAL);
	assert_int_equal(zio_free(&tp->zp, &kept, TXG), 0);
	assert_int_equal(tp_in_use(tp), 0);
	assert_int_equal(zio_alloc_zil(&tp->zp, TXG, 1000, NULL, 0, &bp), -EINVAL);
	tp_destroy(tp);
}

static bool never_asked(struct zio_pool *zp, const struct zbookmark *zb, int err)
{
	fail_msg("asked about a write that may fail");
	return false;
}

static void writes_that_may_fail_do(void **state)
{
	struct testpool *tp = pool(12);
	autobuf struct buf *data = pattern_buf(4096, 1);
	struct zio_write w = write_of(data, COMPRESS_OFF, 1);

	store_host64(data->data + 136, 4096);
	tp->zp.on_write_failure = never_asked;
	assert_int_equal(zio_alloc_zil(&tp->zp, TXG, 4096, NULL, ZIO_ALLOC_NOWAIT, &w.bp), 0);
	w.flags = ZIO_WRITE_FIXED | ZIO_WRITE_MAY_FAIL;
	atomic_store(&tp->fail_writes, true);
	assert_int_equal(zio_write_wait(&tp->zp, &w), -EIO);
	assert_int_equal(tp_in_use(tp), 4096); /* its space is the caller's */
	w = write_of(data, COMPRESS_OFF, 1);
	w.flags = ZIO_WRITE_MAY_FAIL;
	assert_int_equal(zio_write_wait(&tp->zp, &w), -EIO);
	assert_int_equal(tp_in_use(tp), 4096);
	tp_destroy(tp);
}

/* --- failures --- */

static bool keep_it(struct zio_pool *zp, const struct zbookmark *zb, int err)
{
	assert_int_equal(zb->object, 2);
	waiter_done(zp->on_error_arg, err);
	return true;
}

static void a_failed_device_write_goes_elsewhere(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct zio_write w = write_of(data, COMPRESS_OFF, 3);

	for (unsigned n = 1; n <= 3; n++) {
		atomic_store(&tp->fail_write_at, atomic_load(&tp->device_writes) + n);
		w = write_of(data, COMPRESS_OFF, 3);
		assert_int_equal(zio_write_wait(&tp->zp, &w), 0);
		reads_back(tp, &w.bp, data);
	}
	assert_int_equal(tp_in_use(tp), 3 * 3 * 8192);
	tp_destroy(tp);
}

static void without_a_judge_a_failed_write_leaves_nothing_behind(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct zio_write w = write_of(data, COMPRESS_OFF, 2);
	struct bp none = {{0}};

	atomic_store(&tp->fail_writes, true);
	assert_int_equal(zio_write_wait(&tp->zp, &w), -EIO);
	assert_memory_equal(&w.bp, &none, sizeof(none));
	assert_int_equal(tp_in_use(tp), 0);
	atomic_store(&tp->fail_writes, false);
	tp->space = 4096;
	assert_int_equal(zio_write_wait(&tp->zp, &w), -ENOSPC);
	tp_destroy(tp);
}

struct kept_write {
	struct zio_write w;
	struct waiter done;
};

static void kept_done(struct zio_write *w, int err)
{
	waiter_done(&container_of(w, struct kept_write, w)->done, err);
}

/* Fails, is kept; *judged is told. */
static void start_kept(struct testpool *tp, struct kept_write *k, struct buf *data, struct waiter *judged)
{
	k->w = write_of(data, COMPRESS_OFF, 2);
	k->w.done = kept_done;
	waiter_init(&k->done);
	waiter_init(judged);
	tp->zp.on_write_failure = keep_it;
	tp->zp.on_error_arg = judged;
	zio_write(&tp->zp, &k->w);
}

static void a_suspended_write_goes_on_when_resumed(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct kept_write k;
	struct waiter judged;

	atomic_store(&tp->fail_writes, true);
	start_kept(tp, &k, data, &judged);
	assert_int_equal(waiter_wait(&judged), -EIO);
	assert_true(zio_is_suspended(&tp->zp));
	waiter_init(&judged);
	zio_resume(&tp->zp); /* the device is still gone */
	assert_int_equal(waiter_wait(&judged), -EIO);
	atomic_store(&tp->fail_writes, false);
	zio_resume(&tp->zp);
	assert_int_equal(waiter_wait(&k.done), 0);
	assert_false(zio_is_suspended(&tp->zp));
	reads_back(tp, &k.w.bp, data);
	assert_int_equal(tp_in_use(tp), 2 * 8192);
	tp_destroy(tp);
}

static void a_write_without_space_goes_on_when_there_is_some(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct kept_write k;
	struct waiter judged;

	tp->space = 4096;
	start_kept(tp, &k, data, &judged);
	assert_int_equal(waiter_wait(&judged), -ENOSPC);
	tp->space = 0;
	zio_resume(&tp->zp);
	assert_int_equal(waiter_wait(&k.done), 0);
	reads_back(tp, &k.w.bp, data);
	tp_destroy(tp);
}

static void abandoned_writes_end(void **state)
{
	struct testpool *tp = pool(9);
	autobuf struct buf *data = pattern_buf(8192, 1);
	struct kept_write k;
	struct zio_write late = write_of(data, COMPRESS_OFF, 1);
	struct waiter judged;

	atomic_store(&tp->fail_writes, true);
	start_kept(tp, &k, data, &judged);
	assert_int_equal(waiter_wait(&judged), -EIO);
	zio_abandon(&tp->zp);
	assert_int_equal(waiter_wait(&k.done), -EIO);
	atomic_store(&tp->fail_writes, false);
	assert_int_equal(zio_write_wait(&tp->zp, &late), -EIO);
	assert_int_equal(tp_in_use(tp), 0);
	tp_destroy(tp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(blocks_come_back_from_every_copy),
	    cmocka_unit_test(zeros_become_holes_only_when_compressing),
	    cmocka_unit_test(a_block_of_this_group_is_overwritten_in_place),
	    cmocka_unit_test(allocation_that_must_wait_is_left_to_others),
	    cmocka_unit_test(the_other_byte_order_can_be_written),
	    cmocka_unit_test(without_a_writer_nothing_is_written),
	    cmocka_unit_test(every_algorithm_and_checksum_comes_back),
	    cmocka_unit_test(an_eighth_must_be_saved),
	    cmocka_unit_test(small_results_are_embedded_when_they_may_be),
	    cmocka_unit_test(late_passes_do_not_compress),
	    cmocka_unit_test(equal_blocks_are_not_written_again),
	    cmocka_unit_test(bad_requests_are_refused),
	    cmocka_unit_test(raw_blocks_keep_their_form),
	    cmocka_unit_test(raw_encrypted_blocks_keep_their_seal),
	    cmocka_unit_test(log_blocks_are_written_where_they_were_allocated),
	    cmocka_unit_test(writes_that_may_fail_do),
	    cmocka_unit_test(a_failed_device_write_goes_elsewhere),
	    cmocka_unit_test(without_a_judge_a_failed_write_leaves_nothing_behind),
	    cmocka_unit_test(a_suspended_write_goes_on_when_resumed),
	    cmocka_unit_test(a_write_without_space_goes_on_when_there_is_some),
	    cmocka_unit_test(abandoned_writes_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
