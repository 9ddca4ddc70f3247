/* Names and values of extended attributes kept in a node (docs/format/07-filesystem-zvol-zil.md, 5.8 - 5.10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "nv/nv.h"
#include "zpl/zpl.h"

static const uint8_t acl[] = {2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255};
static void *packed;
static struct znode node;

static int setup(void **state)
{
	autonv struct nvlist *l = nvlist_create();
	size_t len;

	nvlist_add_bytes(l, "user.linux", (const uint8_t *)"one", 3);
	nvlist_add_bytes(l, "bsd", (const uint8_t *)"two", 3);
	nvlist_add_bytes(l, "freebsd:system:x", (const uint8_t *)"hidden", 6);
	nvlist_add_bytes(l, "security.selinux", (const uint8_t *)"label", 6);
	nvlist_add_bytes(l, "trusted.t", (const uint8_t *)"", 0);
	nvlist_add_bytes(l, "system.posix_acl_access", acl, sizeof(acl));
	nvlist_add_bytes(l, "system.posix_acl_default", acl, sizeof(acl) - 1);
	assert_int_equal(nvlist_pack(l, NV_XDR, &packed, &len), 0);
	node.sa.attr[SA_DXATTR].data = packed;
	node.sa.attr[SA_DXATTR].len = len;
	return 0;
}

static int teardown(void **state)
{
	free(packed);
	return 0;
}

static void expect(const char *name, const void *value, size_t len)
{
	void *got;
	size_t n;

	assert_int_equal(zpl_xattr_get(&node, name, &got, &n), 0);
	assert_int_equal(n, len);
	assert_memory_equal(got, value, n);
	free(got);
}

static void expect_error(const char *name, int rc)
{
	void *got;
	size_t n;

	assert_int_equal(zpl_xattr_get(&node, name, &got, &n), rc);
	assert_null(got);
}

static void values_answer_to_their_linux_names(void **state)
{
	expect("user.linux", "one", 3);
	expect("user.bsd", "two", 3);
	expect("security.selinux", "label", 6);
	expect("trusted.t", "", 0);
	expect("system.posix_acl_access", acl, sizeof(acl));
}

static void other_names_are_refused_as_linux_does(void **state)
{
	expect_error("user.none", -ENODATA);
	expect_error("user.user.linux", -EINVAL);
	expect_error("user.freebsd:system:x", -EINVAL);
	expect_error("user.", -EINVAL);
	expect_error("bsd", -EOPNOTSUPP);
	expect_error("system.other", -EOPNOTSUPP);
}

static void a_damaged_acl_is_an_error(void **state)
{
	expect_error("system.posix_acl_default", -EIO);
}

static void the_list_shows_linux_names(void **state)
{
	static const char want[] = "user.linux\0user.bsd\0security.selinux\0trusted.t\0system.posix_acl_access\0"
				   "system.posix_acl_default";
	char *names;
	size_t len;

	assert_int_equal(zpl_xattr_list(&node, &names, &len), 0);
	assert_int_equal(len, sizeof(want));
	assert_memory_equal(names, want, len);
	free(names);
}

static void a_damaged_list_is_an_error_and_no_crash(void **state)
{
	uint32_t len = node.sa.attr[SA_DXATTR].len;

	for (uint32_t cut = 1; cut < len; cut++) {
		void *got = NULL;
		char *names = NULL;
		size_t n;

		node.sa.attr[SA_DXATTR].len = cut;
		zpl_xattr_get(&node, "user.linux", &got, &n);
		zpl_xattr_list(&node, &names, &n);
		free(got);
		free(names);
	}
	node.sa.attr[SA_DXATTR].len = len;
}

static void a_file_without_attributes_has_an_empty_list(void **state)
{
	struct znode none = {0};
	char *names;
	size_t len;

	assert_int_equal(zpl_xattr_list(&none, &names, &len), 0);
	assert_int_equal(len, 0);
	free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values_answer_to_their_linux_names),
	    cmocka_unit_test(other_names_are_refused_as_linux_does),
	    cmocka_unit_test(a_damaged_acl_is_an_error),
	    cmocka_unit_test(the_list_shows_linux_names),
	    cmocka_unit_test(a_damaged_list_is_an_error_and_no_crash),
	    cmocka_unit_test(a_file_without_attributes_has_an_empty_list),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
