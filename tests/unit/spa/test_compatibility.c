/*
 * The sets of features that come with Tarn ($TARN_DATADIR/compatibility.d) against docs/format/01-pool.md, 6.3 and 6.5.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/os.h"
#include "spa/pool_props.h"
#include "spa/spa_write.h"

static void each_file(void (*check)(const char *name, const char *path))
{
	autofree char *folder = xasprintf("%s/compatibility.d", os_datadir());
	DIR *dir = opendir(folder);
	size_t n = 0;

	assert_non_null(dir);
	for (struct dirent *d; (d = readdir(dir));) {
		autofree char *path = xasprintf("%s/%s", folder, d->d_name);

		if (d->d_name[0] == '.')
			continue;
		check(d->d_name, path);
		n++;
	}
	closedir(dir);
	assert_true(n > 20);
}

/* --- every word in a file is a feature, and with each come those it depends on --- */
static void words_check(const char *name, const char *path)
{
	char line[256];
	FILE *f = fopen(path, "re");
	size_t n = 0;

	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_int_equal(line[0], '#');
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!spa_feature_by_name(line))
			fail_msg("%s: '%s' is no feature", name, line);
		n++;
	}
	fclose(f);
	assert_true(n > 0);
}

static void closure_check(const char *name, const char *path)
{
	struct spa_compatibility c;
	struct err e = ERR_INIT;

	if (spa_compatibility_load(name, &c, &e))
		fail_msg("%s: %s", name, e.text);
	for (size_t i = 0; i < spa_feature_table_len; i++) {
		const struct spa_feature *f = &spa_feature_table[i];
		autofree char *depends = xstrdup(f->depends);
		char *rest = depends, *word;

		while (spa_compatibility_allows(&c, f) && (word = strsep(&rest, " ")))
			if (*word && !spa_compatibility_allows(&c, spa_feature_by_name(word)))
				fail_msg("%s: %s without %s", name, f->name, word);
	}
	spa_compatibility_free(&c);
}

static void files_name_features_and_what_those_need(void **state)
{
	each_file(words_check);
	each_file(closure_check);
}

/* --- releases know what 6.3 says they know --- */
static void releases_know_their_features(void **state)
{
	static const struct {
		const char *name;
		size_t n; /* of the table */
	} releases[] = {{"openzfs-2.1-linux", 34}, {"openzfs-2.2", 39}, {"openzfs-2.3", 44}, {"openzfs-2.4", 47}};

	for (size_t r = 0; r < ARRAY_LEN(releases); r++) {
		struct spa_compatibility c;

		assert_int_equal(spa_compatibility_load(releases[r].name, &c, NULL), 0);
		for (size_t i = 0; i < spa_feature_table_len; i++)
			if (spa_compatibility_allows(&c, &spa_feature_table[i]) != (i < releases[r].n))
				fail_msg("%s: %s", releases[r].name, spa_feature_table[i].name);
		spa_compatibility_free(&c);
	}
}

static size_t allowed(const char *value)
{
	struct spa_compatibility c;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (spa_compatibility_load(value, &c, &e))
		fail_msg("%s: %s", value, e.text);
	for (size_t i = 0; i < spa_feature_table_len; i++)
		n += spa_compatibility_allows(&c, &spa_feature_table[i]);
	spa_compatibility_free(&c);
	return n;
}

static void lists_allow_what_all_their_files_name(void **state)
{
	assert_int_equal(allowed(""), spa_feature_table_len);
	assert_int_equal(allowed("off"), spa_feature_table_len);
	assert_int_equal(allowed("legacy"), 0);
	assert_int_equal(allowed("zol-0.6.1"), 3);
	assert_int_equal(allowed("openzfs-2.4,zol-0.6.1"), 3);
	assert_int_equal(allowed("grub2-2.06,zol-0.6.5"), 7);
}

static void what_is_no_file_is_refused(void **state)
{
	static const char *const wrong[] = {"nonsense", "zol-0.8,nonsense", "zol-0.8,",   ",zol-0.8",   ".",
					    "..",       "off,zol-0.8",      "../zol-0.8", "/etc/passwd"};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct spa_compatibility c;
		struct err e = ERR_INIT;

		assert_true(spa_compatibility_load(wrong[i], &c, &e) < 0);
		assert_null(c.allowed);
		assert_non_null(strstr(e.text, "compatibility file"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(files_name_features_and_what_those_need),
	    cmocka_unit_test(releases_know_their_features),
	    cmocka_unit_test(lists_allow_what_all_their_files_name),
	    cmocka_unit_test(what_is_no_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
