/* Legacy znodes in file systems of version 5 that get attributes (docs/format/07-filesystem-zvol-zil.md, 2.9, 2.10). */
#include "../dsl/dsl_harness.h"

#include "zpl/zpl_impl.h"

#define STAMP 0x80u
#define PROJ  7u

static void init_fs(void *arg, struct objset *os, const struct nvlist *props, struct tx *tx)
{
	assert_int_equal(zpl_create_objects(os, arg, tx), 0);
}

static struct zpl *fs_create(struct harness *h, uint64_t version)
{
	autonv struct nvlist *props = nvlist_create();
	struct dsl_create c = {.name = "p/a", .type = DSL_FILESYSTEM, .init = init_fs, .arg = props};
	struct dsl_dataset *ds;
	struct err e = ERR_INIT;
	struct zpl *z;

	nvlist_add_u64(props, "version", version);
	if (dsl_create(h->p, &c, &e) || dsl_dataset_hold(h->p, "p/a", &ds, &e) || zpl_open(ds, &z, &e))
		fail_msg("%s", e.text);
	dsl_dataset_release(ds);
	return z;
}

static struct zpl *fs_reopen(struct harness *h, struct zpl *z)
{
	struct dsl_dataset *ds;

	zpl_close(z);
	hw_reopen(h);
	assert_int_equal(dsl_dataset_hold(h->p, "p/a", &ds, NULL), 0);
	assert_int_equal(zpl_open(ds, &z, NULL), 0);
	dsl_dataset_release(ds);
	return z;
}

static struct tx tx_open(struct zpl *z)
{
	struct tx tx = {.os = z->os, .bytes = 1 << 16};

	assert_int_equal(tx_begin_wait(z->os->dp->txgs, &tx), 0);
	return tx;
}

/* --- legacy objects --- */

struct entry {
	uint64_t who;
	uint32_t mask;
	uint16_t flags, type;
};
static const struct entry few[] = {
    {0, 0x1f01ff, 0x1000, 0}, {1001, 0x120089, 0, 1}, {100, 0x1200a9, 0x40, 0},
    {0, 0x1, 0x1000, 2},      {0, 0x1, 0x4000, 0},
};
#define FEW  ARRAY_LEN(few)
#define MANY 40

/* An ACL of `n` entries, those of `few` over and over. Returns its bytes. */
static size_t v0_make(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++, p += 12) {
		const struct entry *e = &few[i % FEW];

		store_host32(p, (uint32_t)e->who);
		store_host32(p + 4, e->mask);
		store_host16(p + 8, e->flags);
		store_host16(p + 10, e->type);
	}
	return 12 * n;
}

static size_t v1_make(uint8_t *p, size_t n)
{
	uint8_t *at = p;

	for (size_t i = 0; i < n; i++) {
		const struct entry *e = &few[i % FEW];
		bool special = e->type < 2 && e->flags & 0x5000;

		store_host16(at, e->type);
		store_host16(at + 2, e->flags);
		store_host32(at + 4, e->mask);
		if (!special)
			store_host64(at + 8, e->who);
		at += special ? 8 : 16;
	}
	return (size_t)(at - p);
}

struct legacy {
	uint64_t mode, flags, xattr;
	unsigned acl_version;
	size_t naces;
	uint64_t acl; /* the object of its ACL */
	uint64_t id;
};

static uint64_t object_make(struct zpl *z, unsigned type, unsigned bonustype, unsigned bonuslen, struct tx *tx)
{
	const struct dmu_object spec = {
	    .type = (uint8_t)type, .bonustype = (uint8_t)bonustype, .bonuslen = (uint16_t)bonuslen, .blocksize = 4096};
	uint64_t id;

	assert_int_equal(dmu_object_alloc(z->os, &spec, tx, &id), 0);
	return id;
}

static void data_write(struct zpl *z, uint64_t id, const void *data, size_t len, struct tx *tx)
{
	struct dnode *dn;

	assert_int_equal(dnode_hold(z->os, id, &dn, NULL), 0);
	assert_int_equal(dmu_write(dn, 0, data, len, tx), 0);
	dnode_release(dn);
}

static void acl_store(struct zpl *z, struct legacy *l, uint8_t *block, struct tx *tx)
{
	uint8_t aces[16 * MANY] = {0};
	size_t len = l->acl_version ? v1_make(aces, l->naces) : v0_make(aces, l->naces);

	if (len > 72) {
		l->acl = object_make(z, l->acl_version ? 33 : 18, l->acl_version ? 34 : 0, l->acl_version ? 320 : 0,
				     tx);
		data_write(z, l->acl, aces, len, tx);
	} else {
		memcpy(block + 16, aces, len);
	}
	store_host64(block, l->acl);
	store_host32(block + 8, (uint32_t)(l->acl_version ? len : l->naces));
	store_host16(block + 12, (uint16_t)l->acl_version);
	store_host16(block + 14, (uint16_t)(l->acl_version ? l->naces : len));
}

static void legacy_make(struct zpl *z, struct legacy *l)
{
	struct tx tx = tx_open(z);
	uint64_t w[40] = {11,      12,   13,      14, 15,       16,    17,       18,  4,
			  l->mode, 1000, z->root, 1,  l->xattr, 0x901, l->flags, 501, 502};
	struct dnode *dn;

	l->id = object_make(z, ZPL_FILE_TYPE, DMU_OT_ZNODE, l->flags & STAMP ? 296 : 264, &tx);
	acl_store(z, l, (uint8_t *)w + 176, &tx);
	memcpy((uint8_t *)w + 264, "the stamp of a scanner, 32 bytes", 32);
	assert_int_equal(dnode_hold(z->os, l->id, &dn, NULL), 0);
	assert_int_equal(dmu_bonus_write(dn, 0, w, l->flags & STAMP ? 296 : 264, &tx), 0);
	dnode_release(dn);
	tx_end(&tx);
}

/* --- changing --- */

static int change(struct znode *zn, const struct sa_value *v, size_t n)
{
	for (unsigned i = 0; i < 4; i++) {
		struct tx tx = tx_open(zn->zpl);
		int err = zpl_sa_change(zn, v, n, &tx);

		tx_end(&tx);
		if (err != -EAGAIN)
			return err;
		assert_int_equal(sa_layouts_add(zn->zpl->sa), 0);
	}
	return -EAGAIN;
}

static int project_set(struct zpl *z, const struct legacy *l)
{
	uint64_t id = PROJ, flags = l->flags | ZPL_HAS_PROJID;
	struct znode *zn;
	int err;

	assert_int_equal(znode_hold(z, l->id, &zn, NULL), 0);
	assert_true(zn->sa.is_legacy);
	err = change(zn, (struct sa_value[]){{SA_FLAGS, &flags, 8}, {SA_PROJID, &id, 8}}, 2);
	assert_true(err || !zn->sa.is_legacy);
	znode_release(zn);
	return err;
}

static uint64_t attr(const struct znode *zn, enum sa_attr a)
{
	uint64_t v;

	return sa_u64(&zn->sa, a, &v) ? UINT64_MAX : v;
}

static void aces_check(struct znode *zn, size_t n)
{
	autofree struct zpl_ace *aces = NULL;
	uint8_t want[16 * MANY];
	const uint8_t *p;
	uint32_t len;
	size_t got;

	if (n == 0) {
		assert_int_equal(zpl_acl_get(zn, &aces, &got), -ENOENT);
		return;
	}
	assert_int_equal(zpl_acl_get(zn, &aces, &got), 0);
	assert_int_equal(got, n);
	assert_int_equal(attr(zn, SA_DACL_COUNT), n);
	assert_int_equal(sa_bytes(&zn->sa, SA_DACL_ACES, &p, &len), 0);
	assert_int_equal(len, v1_make(want, n));
	assert_memory_equal(p, want, len);
}

static void converted_check(struct zpl *z, const struct legacy *l)
{
	struct znode *zn;
	struct dnode *dn;
	const uint8_t *p;
	uint32_t len;

	assert_int_equal(znode_hold(z, l->id, &zn, NULL), 0);
	assert_false(zn->sa.is_legacy);
	assert_int_equal(zn->dn->bonustype, DMU_OT_SA);
	assert_true(zn->flags == ((l->flags | ZPL_HAS_PROJID) & ~(uint64_t)STAMP));
	assert_int_equal(zn->projid, PROJ);
	assert_int_equal(zn->mode, l->mode);
	assert_int_equal(zn->size, 1000);
	assert_int_equal(zn->gen, 4);
	assert_int_equal(zn->uid, 501);
	assert_int_equal(zn->gid, 502);
	assert_int_equal(zn->parent, z->root);
	assert_int_equal(zn->atime.tv_sec, 11);
	assert_int_equal(zn->mtime.tv_nsec, 14);
	assert_int_equal(zn->ctime.tv_sec, 15);
	assert_int_equal(zn->crtime.tv_nsec, 18);
	assert_true(attr(zn, SA_XATTR) == (l->xattr ? l->xattr : UINT64_MAX));
	assert_true(attr(zn, SA_RDEV) == (ZPL_IS_DEVICE(zn) ? 0x901 : UINT64_MAX));
	assert_int_equal(sa_bytes(&zn->sa, SA_SCANSTAMP, &p, &len), l->flags & STAMP ? 0 : -ENOENT);
	if (l->flags & STAMP)
		assert_memory_equal(p, "the stamp of a scanner, 32 bytes", 32);
	assert_ptr_equal(zn->sa.attr[SA_PROJID].data, zn->sa.attr[SA_MODE].data + 128);
	aces_check(zn, l->naces);
	znode_release(zn);
	if (l->acl && dnode_hold(z->os, l->acl, &dn, NULL) == 0) {
		/* freed, and not synced yet; or another has its number */
		assert_true(dnode_type(dn) == 0 || dnode_type(dn) == ZPL_FILE_TYPE);
		dnode_release(dn);
	}
}

static void legacy_znodes_get_a_project_and_keep_the_rest(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct zpl *z = fs_create(h, 5);
	struct legacy l[] = {
	    {.mode = S_IFREG | 0644, .naces = FEW},
	    {.mode = S_IFREG | 0644, .naces = MANY, .flags = STAMP | ZPL_ARCHIVE},
	    {.mode = S_IFREG | 0600, .naces = 4, .acl_version = 1, .xattr = 9},
	    {.mode = S_IFREG | 0600, .naces = MANY, .acl_version = 1, .xattr = 9, .flags = STAMP},
	    {.mode = S_IFBLK | 0600, .naces = 3, .acl_version = 1},
	    {.mode = S_IFIFO | 0600},
	};

	for (size_t i = 0; i < ARRAY_LEN(l); i++) {
		legacy_make(z, &l[i]);
		if (i % 2)
			z = fs_reopen(h, z);
		assert_int_equal(project_set(z, &l[i]), 0);
		converted_check(z, &l[i]);
	}
	z = fs_reopen(h, z);
	for (size_t i = 0; i < ARRAY_LEN(l); i++)
		converted_check(z, &l[i]);
	zpl_close(z);
	hw_destroy(h);
}

static void what_fits_the_legacy_znode_leaves_it_one(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct zpl *z = fs_create(h, 5);
	struct legacy l = {.mode = S_IFREG | 0644, .naces = MANY};
	uint64_t size = 5;
	struct znode *zn;

	legacy_make(z, &l);
	assert_int_equal(znode_hold(z, l.id, &zn, NULL), 0);
	assert_int_equal(change(zn, (struct sa_value[]){{SA_SIZE, &size, 8}, {SA_XATTR, &l.id, 8}}, 2), 0);
	assert_true(zn->sa.is_legacy);
	assert_int_equal(attr(zn, SA_SIZE), 5);
	assert_int_equal(attr(zn, SA_XATTR), l.id);
	znode_release(zn);
	zpl_close(z);
	hw_destroy(h);
}

/* The new ACL is among the values: what was there is not asked, and its object is freed if it is one. */
static void damaged_acls_give_way_to_new_ones(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct zpl *z = fs_create(h, 5);
	struct legacy file = {.mode = S_IFREG | 0644, .naces = 3, .acl_version = 1}, l = file;
	uint8_t aces[16 * MANY];
	uint64_t count = 2;
	size_t len = v1_make(aces, 2);
	struct znode *zn;
	struct dnode *dn;
	uint8_t block[16];

	legacy_make(z, &file);
	legacy_make(z, &l);
	struct tx tx = tx_open(z);
	store_host64(block, file.id); /* a file is no ACL */
	assert_int_equal(dnode_hold(z->os, l.id, &dn, NULL), 0);
	assert_int_equal(dmu_bonus_write(dn, 176, block, 8, &tx), 0);
	dnode_release(dn);
	tx_end(&tx);
	assert_int_equal(project_set(z, &l), -EIO);
	assert_int_equal(znode_hold(z, l.id, &zn, NULL), 0);
	assert_int_equal(
	    change(zn, (struct sa_value[]){{SA_DACL_COUNT, &count, 8}, {SA_DACL_ACES, aces, (uint16_t)len}}, 2), 0);
	assert_false(zn->sa.is_legacy);
	aces_check(zn, 2);
	znode_release(zn);
	assert_int_equal(dnode_hold(z->os, file.id, &dn, NULL), 0);
	dnode_release(dn);
	zpl_close(z);
	hw_destroy(h);
}

static void links_and_old_file_systems_are_not_converted(void **state)
{
	for (uint64_t version = 4; version <= 5; version++) {
		struct harness *h = hw_create(NULL, 0);
		struct zpl *z = fs_create(h, version);
		struct legacy l = {
		    .mode = version == 5 ? S_IFLNK | 0777 : S_IFREG | 0644, .naces = 3, .acl_version = 1};
		uint8_t block[88] = {0};
		struct znode *zn;

		legacy_make(z, &l);
		assert_int_equal(project_set(z, &l), -ENOTSUP);
		assert_int_equal(znode_hold(z, l.id, &zn, NULL), 0);
		assert_true(zn->sa.is_legacy);
		assert_true(attr(zn, SA_FLAGS) == l.flags);
		/* an ACL has its place */
		assert_int_equal(change(zn, &(struct sa_value){SA_ZNODE_ACL, block, 88}, 1), 0);
		znode_release(zn);
		zpl_close(z);
		hw_destroy(h);
	}
}

/* The block of a legacy znode is no attribute of others. */
static void legacy_acl_blocks_do_not_become_attributes(void **state)
{
	struct harness *h = hw_create(NULL, 0);
	struct zpl *z = fs_create(h, 5);
	struct legacy l = {.mode = S_IFREG | 0644, .naces = 3, .acl_version = 1};
	uint64_t id = PROJ;
	uint8_t block[88] = {0};
	struct znode *zn;

	legacy_make(z, &l);
	assert_int_equal(znode_hold(z, l.id, &zn, NULL), 0);
	assert_int_equal(change(zn, (struct sa_value[]){{SA_PROJID, &id, 8}, {SA_ZNODE_ACL, block, 88}}, 2), -EINVAL);
	assert_true(zn->sa.is_legacy);
	znode_release(zn);
	zpl_close(z);
	hw_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(legacy_znodes_get_a_project_and_keep_the_rest),
	    cmocka_unit_test(what_fits_the_legacy_znode_leaves_it_one),
	    cmocka_unit_test(damaged_acls_give_way_to_new_ones),
	    cmocka_unit_test(links_and_old_file_systems_are_not_converted),
	    cmocka_unit_test(legacy_acl_blocks_do_not_become_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
