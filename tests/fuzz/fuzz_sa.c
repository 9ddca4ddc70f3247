/* System attributes: the first byte tells byte order (bit 0) and kind (bit 1: a znode of old), the rest is the bonus.
 */
#include "dmu/sa.h"
#include "fuzz.h"

#define BONUS_SA    44
#define BONUS_ZNODE 17

static struct sa_os *tables(void)
{
	/* 07, 2.8, by the numbers of a new file system */
	static const uint16_t layout[][16] = {
	    {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19},
	    {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19},
	    {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19, 17},
	    {5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19, 20},
	    {19, 17, 20, 5},
	};
	static const uint8_t len[] = {15, 14, 15, 16, 4};
	static struct sa_os *so;
	static struct objset os;

	if (so)
		return so;
	BUG_ON(sa_os_open(&os, 0, &so, NULL));
	sa_os_define(so, 16, "ZPL_DACL_COUNT", 8, 0);
	sa_os_define(so, 17, "ZPL_SYMLINK", 0, 3);
	sa_os_define(so, 18, "ZPL_SCANSTAMP", 32, 3);
	sa_os_define(so, 19, "ZPL_DACL_ACES", 0, 4);
	sa_os_define(so, 20, "ZPL_DXATTR", 0, 3);
	sa_os_define(so, 21, "ZPL_PROJID", 8, 0);
	for (unsigned i = 0; i < ARRAY_LEN(layout); i++)
		sa_os_layout(so, 2 + i, layout[i], len[i]);
	return so;
}

static uint64_t look(const struct sa *sa)
{
	const uint8_t *p;
	int64_t tv[2];
	uint64_t v, sum = 0;
	uint32_t n;

	for (unsigned a = 0; a < SA_ATTR_COUNT; a++) {
		sa_u64(sa, a, &v);
		sa_time(sa, a, tv);
		for (uint32_t i = 0; sa_bytes(sa, a, &p, &n) == 0 && i < n; i++)
			sum += p[i];
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dnode dn = {0};
	struct sa sa;

	if (size < 1 || size - 1 > DMU_BONUS_MAX)
		return 0;
	autofree uint8_t *bonus = fuzz_copy(data + 1, size - 1);
	atomic_init(&dn.refs, 1);
	dn.bonustype = data[0] & 2 ? BONUS_ZNODE : BONUS_SA;
	dn.bonus = bonus;
	dn.bonuslen = size - 1;
	dn.swapped = data[0] & 1;
	if (sa_open(tables(), &dn, &sa))
		return 0;
	look(&sa);
	sa_close(&sa);
	return 0;
}
