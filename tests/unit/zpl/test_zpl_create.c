/* What a new file system holds (docs/format/07, 1.3), and attributes as they are stored (2.2 - 2.5). */
#include "writeset.h"

#include "zpl/zpl_impl.h"

static uint64_t master(struct writeset *s, const char *name)
{
	uint64_t v = UINT64_MAX;

	zap_lookup_u64(s->os, 1, name, &v);
	return v;
}

static bool all_features(struct objset *os, const char *guid)
{
	return true;
}

static unsigned used;
static void feature_used(struct objset *os, const char *guid, uint64_t txg)
{
	used++;
}

static const struct objset_ops modern = {.enabled = all_features, .uses = feature_used};

struct root {
	struct dnode *dn;
	struct sa_os *so;
	struct sa sa;
};

static void root_open(struct writeset *s, struct root *r)
{
	assert_int_equal(dnode_hold(s->os, master(s, "ROOT"), &r->dn, NULL), 0);
	uint64_t attrs = master(s, "SA_ATTRS");
	assert_int_equal(sa_os_open(s->os, attrs == UINT64_MAX ? 0 : attrs, &r->so, NULL), 0);
	assert_int_equal(sa_open(r->so, r->dn, &r->sa), 0);
}

static void root_close(struct root *r)
{
	sa_close(&r->sa);
	sa_os_close(r->so);
	dnode_release(r->dn);
}

static uint64_t attr(const struct root *r, enum sa_attr a)
{
	uint64_t v;

	assert_int_equal(sa_u64(&r->sa, a, &v), 0);
	return v;
}

static void root_check(const struct root *r, uint64_t flags)
{
	const uint8_t *p;
	uint32_t len;

	assert_int_equal(attr(r, SA_MODE), 040755);
	assert_int_equal(attr(r, SA_SIZE), 2);
	assert_int_equal(attr(r, SA_LINKS), 2);
	assert_int_equal(attr(r, SA_PARENT), r->dn->object);
	assert_int_equal(attr(r, SA_GEN), 11);
	assert_true(attr(r, SA_FLAGS) == flags);
	if (r->sa.is_legacy)
		return;
	assert_int_equal(attr(r, SA_DACL_COUNT), 3);
	assert_int_equal(sa_bytes(&r->sa, SA_DACL_ACES, &p, &len), 0);
	assert_int_equal(len, 24);
	assert_int_equal(load_host32(p + 4), 0x1E01FF);
	assert_int_equal(load_host32(p + 12), 0x1200A9);
}

static void a_file_system_of_version_5(void **state)
{
	autonv struct nvlist *props = nvlist_create();
	struct writeset s;
	uint64_t registry, layouts, v;
	uint16_t list[15];
	static const uint16_t want[15] = {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19};
	struct root r;

	writeset_open(&s);
	s.os->ops = &modern;
	used = 0;
	nvlist_add_u64(props, "casesensitivity", 1);
	nvlist_add_u64(props, "normalization", 0x10);
	assert_int_equal(zpl_create_objects(s.os, props, &s.tx), 0);
	assert_int_equal(s.os->flags, 7);
	assert_int_equal(used, 2);
	assert_int_equal(master(&s, "VERSION"), 5);
	assert_int_equal(master(&s, "normalization"), 0x10);
	assert_int_equal(master(&s, "utf8only"), 1);
	assert_int_equal(master(&s, "casesensitivity"), 1);
	root_open(&s, &r);
	root_check(&r, 0x840800000144);
	assert_int_equal(r.dn->bonuslen, 176);
	assert_int_equal(r.dn->nblkptr, 1);
	assert_int_equal(attr(&r, SA_PROJID), 0);
	assert_int_equal(zap_lookup_u64(s.os, master(&s, "SA_ATTRS"), "REGISTRY", &registry), 0);
	assert_int_equal(zap_lookup_u64(s.os, master(&s, "SA_ATTRS"), "LAYOUTS", &layouts), 0);
	assert_int_equal(zap_lookup_u64(s.os, registry, "ZPL_PROJID", &v), 0);
	assert_true(v == (21 | 8 << 24));
	assert_int_equal(zap_lookup_u64(s.os, registry, "ZPL_DACL_ACES", &v), 0);
	assert_true(v == (19 | 4 << 16));
	assert_int_equal(zap_lookup(s.os, layouts, "2", 2, 15, list), 0);
	assert_memory_equal(list, want, sizeof(want));
	struct zap_stats st;
	assert_int_equal(zap_get_stats(s.os, r.dn->object, &st), 0);
	assert_true(st.micro && st.normflags == 0x12);
	root_close(&r);
	writeset_close(&s);
}

static void file_systems_of_old_versions(void **state)
{
	for (uint64_t version = 1; version <= 4; version++) {
		autonv struct nvlist *props = nvlist_create();
		struct writeset s;
		struct root r;

		writeset_open(&s);
		nvlist_add_u64(props, "version", version);
		assert_int_equal(zpl_create_objects(s.os, props, &s.tx), 0);
		assert_int_equal(s.os->flags, version == 4 ? 1 : 0);
		assert_int_equal(master(&s, "VERSION"), version);
		assert_true(master(&s, "SA_ATTRS") == UINT64_MAX);
		assert_true((master(&s, "utf8only") == UINT64_MAX) == (version < 3));
		root_open(&s, &r);
		assert_int_equal(r.dn->bonuslen, 264);
		root_check(&r, version >= 3 ? 0x40800000144 : 0x144);
		root_close(&r);
		writeset_close(&s);
	}
}

/* --- whose an object is --- */

static void owner_check(unsigned type, const uint8_t *bonus, size_t len, uint64_t uid, uint64_t gid, uint64_t project)
{
	struct dnode dn = {.bonustype = type};
	uint64_t u = 99, g = 99, p = 99;

	assert_int_equal(zpl_owner(NULL, &dn, bonus, len, &u, &g, &p), 0);
	assert_int_equal(u, uid);
	assert_int_equal(g, gid);
	assert_int_equal(p, project);
}

static void owners_are_found_at_their_places(void **state)
{
	struct dnode other = {.bonustype = DMU_OT_DSL_DIR};
	uint64_t w[33] = {0}, v;
	uint8_t *b = (uint8_t *)w;

	owner_check(DMU_OT_SA, b, 264, 0, 0, 0); /* nothing is stored yet */
	store_host32(b, 0x002F505A);
	store_host16(b + 4, 2 | 1 << 10);
	w[1 + 3] = 1000;
	w[1 + 4] = 100;
	w[1 + 16] = 7;
	owner_check(DMU_OT_SA, b, 264, 1000, 100, 0); /* no flag, no project */
	w[1 + 6] = 0x800000000000;
	owner_check(DMU_OT_SA, b, 264, 1000, 100, 7);
	owner_check(DMU_OT_SA, b, 40, 1000, 0, 0); /* a damaged, short one */
	swap32_buffer(b, 4);
	swap16_buffer(b + 4, 2);
	swap64_buffer(b + 8, 256);
	owner_check(DMU_OT_SA, b, 264, 1000, 100, 7);
	memset(w, 0, sizeof(w));
	w[16] = 5;
	w[17] = 6;
	owner_check(DMU_OT_ZNODE, b, 264, 5, 6, 0);
	assert_int_equal(zpl_owner(NULL, &other, b, 264, &v, &v, &v), -ENOENT);
}

/* --- attributes --- */

struct attrs {
	struct writeset set;
	struct sa_os *so;
	struct dnode *dn;
};

static void attrs_open(struct attrs *a)
{
	uint64_t sa_attrs, object;

	writeset_open(&a->set);
	assert_int_equal(sa_create(a->set.os, &a->set.tx, &sa_attrs), 0);
	assert_int_equal(sa_os_open(a->set.os, sa_attrs, &a->so, NULL), 0);
	assert_int_equal(dmu_object_alloc(a->set.os, &(struct dmu_object){.type = DMU_OT_PLAIN, .bonustype = DMU_OT_SA},
					  &a->set.tx, &object),
			 0);
	assert_int_equal(dnode_hold(a->set.os, object, &a->dn, NULL), 0);
}

static void attrs_close(struct attrs *a)
{
	dnode_release(a->dn);
	sa_os_close(a->so);
	writeset_close(&a->set);
}

static void bytes_check(struct attrs *a, enum sa_attr attr_no, const uint8_t *want, uint32_t len)
{
	const uint8_t *p;
	uint32_t got;
	struct sa sa;

	assert_int_equal(sa_open(a->so, a->dn, &sa), 0);
	assert_int_equal(sa_bytes(&sa, attr_no, &p, &got), 0);
	assert_int_equal(got, len);
	assert_memory_equal(p, want, len);
	sa_close(&sa);
}

static void large_values_go_to_the_spill_block(void **state)
{
	static const uint16_t lens[] = {1, 40, 130, 160, 200, 280, 296, 297, 310, 500, 5000, 60000, 30};
	uint64_t words[2] = {7, 8};
	struct attrs a;
	uint8_t *x = xmalloc(65536);

	attrs_open(&a);
	tp_pattern(x, 65536, 3);
	for (unsigned i = 0; i < ARRAY_LEN(lens); i++) {
		const struct sa_value v[] = {
		    {SA_MODE, &words[0], 8},
		    {SA_DACL_ACES, x, 24},
		    {SA_SIZE, &words[1], 8},
		    {SA_DXATTR, x, lens[i]},
		};

		assert_int_equal(sa_store(a.so, a.dn, v, ARRAY_LEN(v), &a.set.tx), 0);
		bytes_check(&a, SA_MODE, (uint8_t *)&words[0], 8);
		bytes_check(&a, SA_DACL_ACES, x, 24);
		bytes_check(&a, SA_SIZE, (uint8_t *)&words[1], 8);
		bytes_check(&a, SA_DXATTR, x, lens[i]);
		/* header of 16 for two variable ones, then 8 + 24 + 8 */
		assert_int_equal(a.dn->has_spill, 16 + 40 + lens[i] > 320);
		if (!a.dn->has_spill)
			assert_int_equal(a.dn->bonuslen, 56 + lens[i]);
	}
	const struct sa_value bad = {SA_MODE, words, 16};
	assert_int_equal(sa_store(a.so, a.dn, &bad, 1, &a.set.tx), -EINVAL);
	free(x);
	attrs_close(&a);
}

static void equal_layouts_are_stored_once(void **state)
{
	uint64_t w = 5, n;
	struct attrs a;

	attrs_open(&a);
	for (unsigned i = 0; i < 10; i++) {
		const struct sa_value v[] = {{SA_MODE, &w, 8}, {i % 2 ? SA_SIZE : SA_GEN, &w, 8}};

		assert_int_equal(sa_store(a.so, a.dn, v, 2, &a.set.tx), 0);
	}
	sa_os_close(a.so);
	uint64_t attrs = 1, layouts;
	while (zap_lookup_u64(a.set.os, attrs, "LAYOUTS", &layouts) && attrs < 100)
		attrs++;
	assert_int_equal(zap_count(a.set.os, layouts, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(sa_os_open(a.set.os, attrs, &a.so, NULL), 0);
	const struct sa_value v[] = {{SA_SIZE, &w, 8}};
	assert_int_equal(sa_store(a.so, a.dn, v, 1, &a.set.tx), 0);
	uint16_t list[4];
	assert_int_equal(zap_lookup(a.set.os, layouts, "4", 2, 4, list), 0);
	attrs_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_system_of_version_5),       cmocka_unit_test(file_systems_of_old_versions),
	    cmocka_unit_test(owners_are_found_at_their_places), cmocka_unit_test(large_values_go_to_the_spill_block),
	    cmocka_unit_test(equal_layouts_are_stored_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
