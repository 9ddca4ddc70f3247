/*
 * A pool written by a machine of the other byte order, from the MOS up: data sets by name, properties, a volume
 * (docs/format/02, 1.2; 03, 1; 07, 8). Files and directories of such pools: zpl/test_zpl.c; ZAPs: dmu/test_zap.c.
 */
#include "testpool.h"
#include "dsl/dsl.h"
#include "zvol/zvol.h"

#define BLOCK      8192u
#define BLOCKS     5
#define VOLUME     (UINT64_C(1) << 20)
#define TYPE_DIR   12
#define TYPE_HEAD  16
#define TYPE_PROPS 15

enum {
	DIRECTORY = 1,
	ROOT_DIR,
	CHILDREN,
	ROOT_PROPS,
	ROOT_HEAD,
	SNAP_NAMES,
	VOL_DIR,
	VOL_PROPS,
	VOL_HEAD,
	NO_CHILDREN,
	OBJECTS
};

struct world {
	struct testpool *tp;
	uint8_t mos[OBJECTS][512], vol[2][512];
	uint8_t data[BLOCKS * BLOCK];
	struct objset *os;
	struct dsl_pool *dsl;
};

struct entry {
	const char *name;
	uint64_t value;
};

static const struct bp no_block;

/* A micro ZAP (02, 9.2). */
static void add_zap(struct testpool *tp, uint8_t *slot, unsigned type, const struct entry *e, size_t n)
{
	uint8_t block[1024] = {0};
	struct bp bp;

	tp_store64(tp, block, UINT64_C(0x8000000000000003));
	tp_store64(tp, block + 8, 0x54321);
	for (size_t i = 0; i < n; i++) {
		tp_store64(tp, block + 64 + 64 * i, e[i].value);
		strcpy((char *)block + 64 + 64 * i + 14, e[i].name);
	}
	bp = tp_write(tp, block, sizeof(block), type, 0);
	tp_dnode(tp, slot, type, &bp, 1, sizeof(block), 12, 1);
}

/* An object whose contents are in its bonus; the bonus is returned. */
static uint8_t *add_bonus(struct testpool *tp, uint8_t *slot, unsigned type, unsigned len)
{
	tp_dnode(tp, slot, type, &no_block, 0, 512, 12, 1);
	slot[4] = (uint8_t)type;
	tp_store16(tp, slot + 10, (uint16_t)len);
	return slot + 64 + BP_SIZE;
}

/* 03, 1.2 */
static void add_dir(struct world *w, unsigned object, uint64_t parent, uint64_t head, uint64_t children, uint64_t props)
{
	uint8_t *b = add_bonus(w->tp, w->mos[object - 1], TYPE_DIR, 256);

	tp_store64(w->tp, b + 8, head);
	tp_store64(w->tp, b + 16, parent);
	tp_store64(w->tp, b + 32, children);
	tp_store64(w->tp, b + 40, 7 * BLOCK); /* used */
	tp_store64(w->tp, b + 80, props);
}

/* 03, 1.3 */
static void add_head(struct world *w, unsigned object, uint64_t dir, const struct bp *bp)
{
	uint8_t *b = add_bonus(w->tp, w->mos[object - 1], TYPE_HEAD, 320);

	tp_store64(w->tp, b, dir);
	tp_store64(w->tp, b + 32, SNAP_NAMES);
	tp_store_bp(w->tp, b + 128, bp);
}

static struct bp volume_write(struct world *w)
{
	const struct entry size[] = {{"size", VOLUME}};
	struct bp bp[BLOCKS];

	tp_pattern(w->data, sizeof(w->data), 7);
	memset(w->data + 2 * BLOCK, 0, BLOCK);
	for (unsigned i = 0; i < BLOCKS; i++)
		bp[i] = i == 2 ? no_block : tp_write(w->tp, w->data + i * BLOCK, BLOCK, 23, 0);
	tp_dnode(w->tp, w->vol[0], 23, bp, BLOCKS, BLOCK, 12, 1);
	add_zap(w->tp, w->vol[1], 24, size, 1);
	return tp_objset_of(w->tp, w->vol, 2, 2048, OBJSET_ZVOL);
}

static void mos_write(struct world *w)
{
	const struct entry directory[] = {{"root_dataset", ROOT_DIR}}, children[] = {{"vol", VOL_DIR}};
	const struct entry above[] = {{"copies", 2}, {"org.example:not-a-number", 3}}, own[] = {{"readonly", 1}};
	struct err e = ERR_INIT;
	struct bp bp = volume_write(w);

	add_zap(w->tp, w->mos[DIRECTORY - 1], 1, directory, 1);
	add_dir(w, ROOT_DIR, 0, ROOT_HEAD, CHILDREN, ROOT_PROPS);
	add_zap(w->tp, w->mos[CHILDREN - 1], 13, children, 1);
	add_zap(w->tp, w->mos[ROOT_PROPS - 1], TYPE_PROPS, above, 2);
	add_head(w, ROOT_HEAD, ROOT_DIR, &no_block);
	add_zap(w->tp, w->mos[SNAP_NAMES - 1], 14, NULL, 0);
	add_dir(w, VOL_DIR, ROOT_DIR, VOL_HEAD, NO_CHILDREN, VOL_PROPS);
	add_zap(w->tp, w->mos[VOL_PROPS - 1], TYPE_PROPS, own, 1);
	add_head(w, VOL_HEAD, VOL_DIR, &bp);
	add_zap(w->tp, w->mos[NO_CHILDREN - 1], 13, NULL, 0);
	bp = tp_objset_of(w->tp, w->mos, OBJECTS - 1, 2048, OBJSET_META);
	assert_int_equal(objset_open(&w->tp->dp, 0, &bp, NULL, &w->os, &e), 0);
	if (dsl_pool_open(&w->tp->dp, w->os, "old", &w->dsl, &e))
		fail_msg("%s", e.text);
}

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	w->tp = tp_create(9, 32 << 20);
	w->tp->swap = *state != NULL;
	mos_write(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	dsl_pool_close(w->dsl);
	objset_release(w->os);
	tp_destroy(w->tp);
	free(w);
	return 0;
}

static void a_volume_is_found_and_read(void **state)
{
	struct world *w = *state;
	autofree uint8_t *got = xmalloc(sizeof(w->data));
	struct dsl_dataset *ds;
	struct zvol *zv = NULL;
	struct err e = ERR_INIT;

	if (dsl_dataset_hold(w->dsl, "old/vol", &ds, &e) || zvol_open(ds, &zv, &e))
		fail_msg("%s", e.text);
	assert_int_equal(zv->size, VOLUME);
	assert_int_equal(zv->blocksize, BLOCK);
	assert_int_equal(dmu_read(zv->dn, 0, got, sizeof(w->data), 0), 0);
	assert_memory_equal(got, w->data, sizeof(w->data));
	zvol_close(zv);
	dsl_dataset_release(ds);
}

static void properties_are_read_and_inherited(void **state)
{
	struct world *w = *state;
	autonv struct nvlist *props = NULL;
	char source[DSL_NAME_MAX + 16];
	struct dsl_dataset *ds;
	struct nvlist *one;
	struct err e = ERR_INIT;
	uint64_t v;

	if (dsl_dataset_hold(w->dsl, "old/vol", &ds, &e))
		fail_msg("%s", e.text);
	assert_int_equal(ds->dir->used, 7 * BLOCK);
	assert_int_equal(dsl_prop_u64(ds, "copies", &v, source), 0);
	assert_int_equal(v, 2);
	assert_string_equal(source, "inherited from old");
	assert_int_equal(dsl_prop_u64(ds, "readonly", &v, source), 0);
	assert_int_equal(v, 1);
	assert_string_equal(source, "local");
	assert_int_equal(dsl_props_get(ds, NULL, 0, &props, &e), 0);
	assert_int_equal(nvlist_list(props, "volsize", &one), 0);
	assert_string_equal(nvlist_string_or(one, "value", ""), "1048576");
	dsl_dataset_release(ds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    {"a_volume_is_found_and_read", a_volume_is_found_and_read, setup, teardown, NULL},
	    {"a_volume_is_found_and_read (swapped)", a_volume_is_found_and_read, setup, teardown, "swap"},
	    {"properties_are_read_and_inherited", properties_are_read_and_inherited, setup, teardown, NULL},
	    {"properties_are_read_and_inherited (swapped)", properties_are_read_and_inherited, setup, teardown, "swap"},
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
