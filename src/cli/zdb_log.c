/* -i: intent logs. -i headers, -ii records, -iii their fields, -iiii log blocks, -iiiii block pointers. */
#include "cli/zdb.h"
#include "zil/zil.h"

#define OBJECT_BITS ((UINT64_C(1) << 48) - 1)

/* Fixed parts of the records, 07 9.14. */
#define CREATE_SIZE     104u
#define ACL_CREATE_SIZE 144u
#define WRITE_SIZE      192u
#define CLONE_SIZE      72u
#define RENAME_SIZE     48u
#define WHITEOUT_SIZE   112u

static uint64_t word(const struct zil_record *r, unsigned at)
{
	return r->reclen >= at + 8 ? load_host64(r->data + at) : 0;
}

/* The string at an offset, "" when there is none; *next: behind it. */
static const char *string(const struct zil_record *r, size_t at, size_t *next)
{
	const char *s = (const char *)r->data + at;
	size_t n = at < r->reclen ? strnlen(s, r->reclen - at) : 0;

	if (next)
		*next = at + n + 1;
	return at < r->reclen && n < r->reclen - at ? s : "";
}

static void pointer_print(const uint8_t *phys)
{
	struct str text = {NULL, 0, 0};
	struct bp bp;

	bp_decode(&bp, phys, false);
	if (bp_is_hole(&bp))
		return;
	bp_print(&bp, &text);
	printf("\t\t\t%s\n", str_get(&text));
	str_free(&text);
}

static void create_print(const struct zil_record *r, unsigned level)
{
	bool plain = r->txtype <= TX_SYMLINK;
	char date[64];
	size_t next;
	const char *name = string(r, CREATE_SIZE, &next);

	/* The name of the other kinds lies behind lists that the log's own counts describe. */
	if (plain && r->txtype == TX_SYMLINK)
		printf("\t\t\t%s -> %s\n", name, string(r, next, NULL));
	else if (plain && name[0])
		printf("\t\t\t%s\n", name);
	printf("\t\t\t%s\n", zdb_date(word(r, 80), date));
	printf("\t\t\tdoid %" PRIu64 ", foid %" PRIu64 ", slots %" PRIu64 ", mode %" PRIo64 "\n", word(r, 32),
	       word(r, 40) & OBJECT_BITS, (word(r, 40) >> 56) + 1, word(r, 48));
	printf("\t\t\tuid %" PRIu64 ", gid %" PRIu64 ", gen %" PRIu64 ", rdev 0x%" PRIx64 "\n", word(r, 56),
	       word(r, 64), word(r, 72), word(r, 96));
}

static void remove_print(const struct zil_record *r, unsigned level)
{
	printf("\t\t\tdoid %" PRIu64 ", name %s\n", word(r, 32), string(r, 40, NULL));
}

static void link_print(const struct zil_record *r, unsigned level)
{
	printf("\t\t\tdoid %" PRIu64 ", link_obj %" PRIu64 ", name %s\n", word(r, 32), word(r, 40),
	       string(r, 48, NULL));
}

static void rename_print(const struct zil_record *r, unsigned level)
{
	size_t next;
	const char *from = string(r, r->txtype == TX_RENAME_WHITEOUT ? WHITEOUT_SIZE : RENAME_SIZE, &next);

	printf("\t\t\tsdoid %" PRIu64 ", tdoid %" PRIu64 "\n", word(r, 32), word(r, 40));
	printf("\t\t\tsrc %s tgt %s\n", from, string(r, next, NULL));
}

static void write_print(const struct zil_record *r, unsigned level)
{
	printf("\t\t\tfoid %" PRIu64 ", offset %" PRIx64 ", length %" PRIx64 "\n", word(r, 32), word(r, 40),
	       word(r, 48));
	if (level >= 5 && r->reclen >= WRITE_SIZE)
		pointer_print(r->data + 64);
}

static void truncate_print(const struct zil_record *r, unsigned level)
{
	printf("\t\t\tfoid %" PRIu64 ", offset 0x%" PRIx64 ", length 0x%" PRIx64 "\n", word(r, 32), word(r, 40),
	       word(r, 48));
}

/* The mask is in the terms of the system that wrote the log, which nothing records: the values are shown as they are.
 */
static void setattr_print(const struct zil_record *r, unsigned level)
{
	char date[64];

	printf("\t\t\tfoid %" PRIu64 ", mask 0x%" PRIx64 "\n", word(r, 32), word(r, 40));
	if (level < 4)
		return;
	printf("\t\t\tmode %" PRIo64 ", uid %" PRIu64 ", gid %" PRIu64 ", size %" PRIu64 "\n", word(r, 48), word(r, 56),
	       word(r, 64), word(r, 72));
	printf("\t\t\tatime %s\n", zdb_date(word(r, 80), date));
	printf("\t\t\tmtime %s\n", zdb_date(word(r, 96), date));
}

static void acl_print(const struct zil_record *r, unsigned level)
{
	printf("\t\t\tfoid %" PRIu64 ", aclcnt %" PRIu64 "\n", word(r, 32), word(r, 40));
}

static void setsaxattr_print(const struct zil_record *r, unsigned level)
{
	printf("\t\t\tfoid %" PRIu64 ", name %s, value of %" PRIu64 " bytes\n", word(r, 32), string(r, 48, NULL),
	       word(r, 40));
}

static void clone_print(const struct zil_record *r, unsigned level)
{
	uint64_t n = word(r, 64);

	printf("\t\t\tfoid %" PRIu64 ", offset %" PRIx64 ", length %" PRIx64 ", blksize %" PRIx64 "\n", word(r, 32),
	       word(r, 40), word(r, 48), word(r, 56));
	for (uint64_t i = 0; level >= 5 && i < n && CLONE_SIZE + (i + 1) * BP_SIZE <= r->reclen; i++)
		pointer_print(r->data + CLONE_SIZE + i * BP_SIZE);
}

static void (*const record_print[TX_TYPES])(const struct zil_record *r, unsigned level) = {
    [TX_CREATE] = create_print,
    [TX_MKDIR] = create_print,
    [TX_MKXATTR] = create_print,
    [TX_SYMLINK] = create_print,
    [TX_REMOVE] = remove_print,
    [TX_RMDIR] = remove_print,
    [TX_LINK] = link_print,
    [TX_RENAME] = rename_print,
    [TX_WRITE] = write_print,
    [TX_TRUNCATE] = truncate_print,
    [TX_SETATTR] = setattr_print,
    [TX_ACL_V0] = acl_print,
    [TX_ACL] = acl_print,
    [TX_CREATE_ACL] = create_print,
    [TX_CREATE_ATTR] = create_print,
    [TX_CREATE_ACL_ATTR] = create_print,
    [TX_MKDIR_ACL] = create_print,
    [TX_MKDIR_ATTR] = create_print,
    [TX_MKDIR_ACL_ATTR] = create_print,
    [TX_WRITE2] = write_print,
    [TX_SETSAXATTR] = setsaxattr_print,
    [TX_RENAME_EXCHANGE] = rename_print,
    [TX_RENAME_WHITEOUT] = rename_print,
    [TX_CLONE_RANGE] = clone_print,
};

struct log_dump {
	struct zdb *z;
	unsigned level;
	uint64_t claim_txg, total;
	uint64_t records[TX_TYPES];
};

static int block_print(void *arg, const struct bp *bp, uint64_t seq)
{
	struct log_dump *l = arg;
	const char *claim = l->claim_txg                              ? "already claimed"
			    : bp_birth(bp) > l->z->spa->uberblock.txg ? "will claim"
								      : "won't claim";
	struct str text = {NULL, 0, 0};

	if (l->level < 4)
		return 0;
	if (l->level >= 5) {
		str_add(&text, ", ");
		bp_print(bp, &text);
	}
	printf("\tBlock seqno %" PRIu64 ", %s%s\n", seq, claim, str_get(&text));
	str_free(&text);
	return 0;
}

static int record_show(void *arg, const struct zil_record *r)
{
	struct log_dump *l = arg;

	l->total++;
	if (r->txtype < TX_TYPES)
		l->records[r->txtype]++;
	printf("\t\t%s%-*s len %6" PRIu64 ", txg %" PRIu64 ", seq %" PRIu64 "\n", r->case_insensitive ? "CI-" : "",
	       r->case_insensitive ? 16 : 19, zil_record_name(r->txtype), r->reclen, r->txg, r->seq);
	if (l->level < 3)
		return cli_interrupted ? -EINTR : 0;
	if (r->sealed)
		puts("\t\t\t(encrypted)");
	else if (r->txtype < TX_TYPES && record_print[r->txtype])
		record_print[r->txtype](r, l->level);
	return cli_interrupted ? -EINTR : 0;
}

static void totals_print(const struct log_dump *l)
{
	printf("\t\t%-17s %4" PRIu64 "\n", "Total", l->total);
	for (unsigned i = 1; i < TX_TYPES; i++)
		if (l->records[i])
			printf("\t\t%-17s %4" PRIu64 "\n", zil_record_name(i), l->records[i]);
	putchar('\n');
}

void zdb_log(struct zdb *z, struct objset *os, bool snapshot)
{
	struct log_dump l = {.z = z, .level = MAX(zdb_level(z, 'i'), zdb_level(z, 'd'))};
	struct zil_header h;
	int err;

	if (zil_header_decode(os->zil_header, os->swapped, &h) || bp_is_hole(&h.log) ||
	    (l.level < 2 && !zdb_has(z, 'i')))
		return;
	printf("\n    ZIL header: claim_txg %" PRIu64 ", claim_blk_seq %" PRIu64 ", claim_lr_seq %" PRIu64
	       " replay_seq %" PRIu64 ", flags 0x%" PRIx64 "\n",
	       h.claim_txg, h.claim_blk_seq, h.claim_lr_seq, h.replay_seq, h.flags);
	if (snapshot || l.level < 2)
		return;
	l.claim_txg = h.claim_txg;
	putchar('\n');
	err = zil_each(os, block_print, record_show, &l);
	if (err)
		zdb_warn(z, "intent log of data set %" PRIu64 ": %s", os->id, err_words(err));
	if (l.total)
		totals_print(&l);
	else
		putchar('\n');
}
