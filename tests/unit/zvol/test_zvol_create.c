/* New volumes and their sizes (docs/format/07, 8.1 - 8.4); reservations as OpenZFS set them on golden pools. */
#include "writeset.h"

#include "vdev/vdev_impl.h"
#include "zvol/zvol.h"

static void a_volume_has_its_two_objects(void **state)
{
	struct writeset s;
	struct dnode *dn;
	uint64_t size;

	writeset_open(&s);
	assert_int_equal(zvol_create_objects(s.os, 1 << 30, 16384, &s.tx), 0);
	assert_int_equal(zap_lookup_u64(s.os, 2, "size", &size), 0);
	assert_int_equal(size, 1 << 30);
	assert_int_equal(dnode_hold(s.os, 1, &dn, NULL), 0);
	assert_int_equal(dn->type, DMU_OT_ZVOL);
	assert_int_equal(dn->datablksz, 16384);
	assert_int_equal(dn->bonuslen, 0);
	assert_int_equal(dn->indblkshift, 17);
	dnode_release(dn);
	writeset_close(&s);
}

static void sizes_follow_the_rules(void **state)
{
	struct err e = ERR_INIT;

	assert_int_equal(zvol_check_sizes(1 << 20, 8192, 131072, &e), 0);
	assert_int_equal(zvol_check_sizes(INT64_MAX / 512 * 512, 512, 131072, &e), 0);
	assert_int_equal(zvol_check_sizes(0, 8192, 131072, &e), -EINVAL);
	assert_int_equal(zvol_check_sizes((1 << 20) + 512, 8192, 131072, &e), -EINVAL);
	assert_int_equal(zvol_check_sizes(1 << 20, 256, 131072, &e), -EINVAL);
	assert_int_equal(zvol_check_sizes(3 << 20, 12288, 131072, &e), -EINVAL);
	assert_int_equal(zvol_check_sizes(1 << 20, 262144, 131072, &e), -EINVAL);
	assert_int_equal(zvol_check_sizes(1 << 20, 262144, 16 << 20, &e), 0);
	assert_int_equal(zvol_check_sizes(UINT64_C(1) << 63, 8192, 131072, &e), -EINVAL);
}

static uint64_t reservation(uint64_t (*asize)(const struct vdev *, uint64_t, uint64_t), enum vdev_kind kind,
			    uint64_t volsize, uint32_t block, unsigned copies)
{
	struct vdev_ops ops = {.kind = kind, .psize_to_asize = asize};
	struct vdev top = {.kind = kind, .ops = &ops}, *child[] = {&top}, root = {.child = child, .nchildren = 1};

	return zvol_volsize_to_reservation(&root, volsize, block, copies);
}

static uint64_t raidz(uint64_t x, unsigned disks, unsigned parity, unsigned sector)
{
	uint64_t n = (x + sector - 1) / sector;

	n += parity * ((n + disks - parity - 1) / (disks - parity));
	return ROUND_UP(n, parity + 1) * sector;
}
static uint64_t raidz1_of_3(const struct vdev *top, uint64_t x, uint64_t txg)
{
	return raidz(x, 3, 1, 4096);
}
static uint64_t raidz2_of_5(const struct vdev *top, uint64_t x, uint64_t txg)
{
	return raidz(x, 5, 2, 512);
}
static uint64_t raidz3_of_6(const struct vdev *top, uint64_t x, uint64_t txg)
{
	return raidz(x, 6, 3, 4096);
}
static uint64_t draid1_3d(const struct vdev *top, uint64_t x, uint64_t txg)
{
	return ROUND_UP(x, 3 * 4096) / 3 * 4;
}
static uint64_t draid2_3d(const struct vdev *top, uint64_t x, uint64_t txg)
{
	return ROUND_UP(x, 3 * 512) / 3 * 5;
}
static uint64_t plain(const struct vdev *top, uint64_t x, uint64_t txg)
{
	return x;
}

static void reservations_are_those_of_openzfs(void **state)
{
	assert_int_equal(reservation(plain, VDEV_MIRROR, 4 << 20, 8192, 1), 6291456);
	assert_int_equal(reservation(plain, VDEV_MIRROR, 8 << 20, 8192, 1), 10485760);
	assert_int_equal(reservation(plain, VDEV_MIRROR, 1 << 30, 8192, 1), 1109393408);
	assert_int_equal(reservation(raidz1_of_3, VDEV_RAIDZ, 4 << 20, 8192, 1), 7689557);
	assert_int_equal(reservation(raidz2_of_5, VDEV_RAIDZ, 4 << 20, 8192, 1), 6790079);
	assert_int_equal(reservation(raidz3_of_6, VDEV_RAIDZ, 4 << 20, 16384, 1), 8018522);
	assert_int_equal(reservation(draid1_3d, VDEV_DRAID, 4 << 20, 8192, 1), 8197957);
	assert_int_equal(reservation(draid2_3d, VDEV_DRAID, 4 << 20, 8192, 1), 6779165);
	assert_true(reservation(raidz1_of_3, VDEV_RAIDZ, INT64_MAX / 8192 * 8192, 8192, 3) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_volume_has_its_two_objects),
	    cmocka_unit_test(sizes_follow_the_rules),
	    cmocka_unit_test(reservations_are_those_of_openzfs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
