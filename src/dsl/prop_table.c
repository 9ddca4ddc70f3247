/*
 * dsl/prop_table.c: every native property of data sets (03-datasets.md 5.4), in the order in which `zfs get all` shows
 * them. The one place that knows names, columns, defaults and the words of index values.
 */
#include "dsl/dsl_impl.h"

#define F DSL_FILESYSTEM
#define V DSL_VOLUME
#define S DSL_SNAPSHOT
#define B DSL_BOOKMARK

static const struct prop_index index_onoff[] = {{"off", 0}, {"on", 1}, {NULL, 0}};
static const struct prop_index index_yesno[] = {{"no", 0}, {"yes", 1}, {NULL, 0}};
static const struct prop_index index_snapdir[] = {{"hidden", 0}, {"visible", 1}, {"disabled", 2}, {NULL, 0}};
static const struct prop_index index_snapdev[] = {{"hidden", 0}, {"visible", 1}, {NULL, 0}};
static const struct prop_index index_aclmode[] = {
    {"discard", 0}, {"groupmask", 2}, {"passthrough", 3}, {"restricted", 4}, {NULL, 0}};
static const struct prop_index index_aclinherit[] = {{"discard", 0}, {"noallow", 1},     {"restricted", 4},
						     {"secure", 4},  {"passthrough", 3}, {"passthrough-x", 5},
						     {NULL, 0}};
static const struct prop_index index_canmount[] = {{"off", 0}, {"on", 1}, {"noauto", 2}, {NULL, 0}};
static const struct prop_index index_xattr[] = {{"off", 0}, {"dir", 1}, {"sa", 2}, {"on", 2}, {NULL, 0}};
static const struct prop_index index_copies[] = {{"1", 1}, {"2", 2}, {"3", 3}, {NULL, 0}};
static const struct prop_index index_version[] = {{"1", 1}, {"2", 2},       {"3", 3}, {"4", 4},
						  {"5", 5}, {"current", 5}, {NULL, 0}};
static const struct prop_index index_normalization[] = {{"none", 0},      {"formD", 0x10},  {"formC", 0x50},
							{"formKD", 0x20}, {"formKC", 0x60}, {NULL, 0}};
static const struct prop_index index_case[] = {{"sensitive", 0}, {"insensitive", 1}, {"mixed", 2}, {NULL, 0}};
static const struct prop_index index_cache[] = {{"none", 0}, {"metadata", 1}, {"all", 2}, {NULL, 0}};
static const struct prop_index index_logbias[] = {{"latency", 0}, {"throughput", 1}, {NULL, 0}};
static const struct prop_index index_sync[] = {{"standard", 0}, {"always", 1}, {"disabled", 2}, {NULL, 0}};
static const struct prop_index index_dnodesize[] = {{"legacy", 0}, {"auto", 1},  {"1k", 1024},   {"2k", 2048},
						    {"4k", 4096},  {"8k", 8192}, {"16k", 16384}, {NULL, 0}};
static const struct prop_index index_volmode[] = {{"default", 0}, {"full", 1}, {"geom", 1},
						  {"dev", 2},     {"none", 3}, {NULL, 0}};
static const struct prop_index index_acltype[] = {{"off", 0},   {"posix", 1},    {"nfsv4", 2}, {"disabled", 0},
						  {"noacl", 0}, {"posixacl", 1}, {NULL, 0}};
static const struct prop_index index_redundant[] = {{"all", 0}, {"most", 1}, {"some", 2}, {"none", 3}, {NULL, 0}};
static const struct prop_index index_keyformat[] = {{"none", 0}, {"raw", 1}, {"hex", 2}, {"passphrase", 3}, {NULL, 0}};
static const struct prop_index index_keystatus[] = {{"none", 0}, {"unavailable", 1}, {"available", 2}, {NULL, 0}};
static const struct prop_index index_direct[] = {{"disabled", 0}, {"standard", 1}, {"always", 2}, {NULL, 0}};
static const struct prop_index index_encryption[] = {{"on", 1},          {"off", 2},         {"aes-128-ccm", 3},
						     {"aes-192-ccm", 4}, {"aes-256-ccm", 5}, {"aes-128-gcm", 6},
						     {"aes-192-gcm", 7}, {"aes-256-gcm", 8}, {NULL, 0}};
static const struct prop_index index_checksum[] = {{"on", 1},     {"off", 2},       {"fletcher2", 6}, {"fletcher4", 7},
						   {"sha256", 8}, {"noparity", 10}, {"sha512", 11},   {"skein", 12},
						   {"edonr", 13}, {"blake3", 14},   {NULL, 0}};
static const struct prop_index index_dedup[] = {{"on", 1},
						{"off", 2},
						{"verify", 257},
						{"sha256", 8},
						{"sha256,verify", 264},
						{"sha512", 11},
						{"sha512,verify", 267},
						{"skein", 12},
						{"skein,verify", 268},
						{"edonr,verify", 269},
						{"blake3", 14},
						{"blake3,verify", 270},
						{NULL, 0}};

#define ZSTD(level) (16 + ((level) << 7))
#define ZSTD_ROW(n)                                                                                                    \
	{                                                                                                              \
		"zstd-" #n, ZSTD(n)                                                                                    \
	}
#define ZSTD_FAST(n, lvl)                                                                                              \
	{                                                                                                              \
		"zstd-fast-" #n, ZSTD(lvl)                                                                             \
	}
static const struct prop_index index_compression[] = {
    {"on", 1},
    {"off", 2},
    {"lzjb", 3},
    {"gzip", 10},
    {"gzip-1", 5},
    {"gzip-2", 6},
    {"gzip-3", 7},
    {"gzip-4", 8},
    {"gzip-5", 9},
    {"gzip-6", 10},
    {"gzip-7", 11},
    {"gzip-8", 12},
    {"gzip-9", 13},
    {"zle", 14},
    {"lz4", 15},
    {"zstd", 16},
    {"zstd-fast", ZSTD(103)},
    ZSTD_ROW(1),
    ZSTD_ROW(2),
    ZSTD_ROW(3),
    ZSTD_ROW(4),
    ZSTD_ROW(5),
    ZSTD_ROW(6),
    ZSTD_ROW(7),
    ZSTD_ROW(8),
    ZSTD_ROW(9),
    ZSTD_ROW(10),
    ZSTD_ROW(11),
    ZSTD_ROW(12),
    ZSTD_ROW(13),
    ZSTD_ROW(14),
    ZSTD_ROW(15),
    ZSTD_ROW(16),
    ZSTD_ROW(17),
    ZSTD_ROW(18),
    ZSTD_ROW(19),
    ZSTD_FAST(1, 103),
    ZSTD_FAST(2, 104),
    ZSTD_FAST(3, 105),
    ZSTD_FAST(4, 106),
    ZSTD_FAST(5, 107),
    ZSTD_FAST(6, 108),
    ZSTD_FAST(7, 109),
    ZSTD_FAST(8, 110),
    ZSTD_FAST(9, 111),
    ZSTD_FAST(10, 112),
    ZSTD_FAST(20, 113),
    ZSTD_FAST(30, 114),
    ZSTD_FAST(40, 115),
    ZSTD_FAST(50, 116),
    ZSTD_FAST(60, 117),
    ZSTD_FAST(70, 118),
    ZSTD_FAST(80, 119),
    ZSTD_FAST(90, 120),
    ZSTD_FAST(100, 121),
    ZSTD_FAST(500, 122),
    ZSTD_FAST(1000, 123),
    {NULL, 0},
};

#define NUM    PROP_NUMBER
#define STR    PROP_STRING
#define IDX    PROP_INDEX
#define PLAIN  PROP_SHOW_PLAIN
#define BYTES  PROP_SHOW_BYTES
#define BYTESN PROP_SHOW_BYTES_NONE
#define COUNTN PROP_SHOW_COUNT_NONE
#define RATIO  PROP_SHOW_RATIO
#define DATE   PROP_SHOW_DATE
#define YESNO  PROP_SHOW_YESNO

/* name, column, kind, where it applies, how it is shown */
#define RO(n, col, k, on, sh, ...)                                                                                     \
	{                                                                                                              \
		.name = n, .column = col, .kind = k, .types = on, .show = sh, .readonly = true, __VA_ARGS__            \
	}
/* settable, not inherited */
#define SET(n, col, k, on, sh, ...)                                                                                    \
	{                                                                                                              \
		.name = n, .column = col, .kind = k, .types = on, .show = sh, __VA_ARGS__                              \
	}
/* inheritable */
#define INH(n, col, k, on, sh, ...)                                                                                    \
	{                                                                                                              \
		.name = n, .column = col, .kind = k, .types = on, .show = sh, .inherit = true, __VA_ARGS__             \
	}
#define INDEX(words, def) .index = words, .def_number = def
#define ONCE              .setonce = true
#define HIDDEN            .hidden = true

/* clang-format off */
const struct prop_def dsl_prop_table[] = {
	RO("type", "TYPE", STR, F | V | S | B, PLAIN),
	RO("creation", "CREATION", NUM, F | V | S | B, DATE),
	RO("used", "USED", NUM, F | V | S, BYTES),
	RO("available", "AVAIL", NUM, F | V, BYTES),
	RO("referenced", "REFER", NUM, F | V | S | B, BYTES),
	RO("compressratio", "RATIO", NUM, F | V | S, RATIO),
	RO("mounted", "MOUNTED", IDX, F, YESNO, INDEX(index_yesno, 0)),
	RO("origin", "ORIGIN", STR, F | V, PLAIN),
	SET("quota", "QUOTA", NUM, F, BYTESN),
	SET("reservation", "RESERV", NUM, F | V, BYTESN),
	SET("volsize", "VOLSIZE", NUM, V | S, BYTES),
	INH("volblocksize", "VOLBLOCK", NUM, V, BYTES, ONCE, .def_number = 16384),
	INH("recordsize", "RECSIZE", NUM, F, BYTES, .def_number = 131072),
	INH("mountpoint", "MOUNTPOINT", STR, F, PLAIN, .def_string = "/"),
	INH("sharenfs", "SHARENFS", STR, F, PLAIN, .def_string = "off"),
	INH("checksum", "CHECKSUM", IDX, F | V, PLAIN, INDEX(index_checksum, 1)),
	INH("compression", "COMPRESS", IDX, F | V, PLAIN, INDEX(index_compression, 1)),
	INH("atime", "ATIME", IDX, F, PLAIN, INDEX(index_onoff, 1)),
	INH("devices", "DEVICES", IDX, F | S, PLAIN, INDEX(index_onoff, 1)),
	INH("exec", "EXEC", IDX, F | S, PLAIN, INDEX(index_onoff, 1)),
	INH("setuid", "SETUID", IDX, F | S, PLAIN, INDEX(index_onoff, 1)),
	INH("readonly", "RDONLY", IDX, F | V, PLAIN, INDEX(index_onoff, 0)),
	INH("zoned", "ZONED", IDX, F, PLAIN, INDEX(index_onoff, 0)),
	INH("snapdir", "SNAPDIR", IDX, F, PLAIN, INDEX(index_snapdir, 0)),
	INH("aclmode", "ACLMODE", IDX, F, PLAIN, INDEX(index_aclmode, 0)),
	INH("aclinherit", "ACLINHERIT", IDX, F, PLAIN, INDEX(index_aclinherit, 4)),
	RO("createtxg", "CREATETXG", NUM, F | V | S | B, PLAIN),
	RO("name", "NAME", STR, F | V | S | B, PLAIN, HIDDEN),
	SET("canmount", "CANMOUNT", IDX, F, PLAIN, INDEX(index_canmount, 1)),
	INH("iscsioptions", "ISCSIOPTIONS", STR, V, PLAIN, HIDDEN, .def_string = ""),
	INH("xattr", "XATTR", IDX, F | S, PLAIN, INDEX(index_xattr, 2)),
	RO("numclones", "NUMCLONES", NUM, S, PLAIN, HIDDEN),
	INH("copies", "COPIES", IDX, F | V, PLAIN, INDEX(index_copies, 1)),
	SET("version", "VERSION", IDX, F | S, PLAIN, INDEX(index_version, 5)),
	INH("utf8only", "UTF8ONLY", IDX, F | S, PLAIN, ONCE, INDEX(index_onoff, 0)),
	INH("normalization", "NORMALIZATION", IDX, F | S, PLAIN, ONCE, INDEX(index_normalization, 0)),
	INH("casesensitivity", "CASE", IDX, F | S, PLAIN, ONCE, INDEX(index_case, 0)),
	INH("vscan", "VSCAN", IDX, F, PLAIN, INDEX(index_onoff, 0)),
	INH("nbmand", "NBMAND", IDX, F | S, PLAIN, INDEX(index_onoff, 0)),
	INH("sharesmb", "SHARESMB", STR, F, PLAIN, .def_string = "off"),
	SET("refquota", "REFQUOTA", NUM, F, BYTESN),
	SET("refreservation", "REFRESERV", NUM, F | V, BYTESN),
	RO("guid", "GUID", NUM, F | V | S | B, PLAIN),
	INH("primarycache", "PRIMARYCACHE", IDX, F | V | S, PLAIN, INDEX(index_cache, 2)),
	INH("secondarycache", "SECONDARYCACHE", IDX, F | V | S, PLAIN, INDEX(index_cache, 2)),
	RO("usedbysnapshots", "USEDSNAP", NUM, F | V, BYTES),
	RO("usedbydataset", "USEDDS", NUM, F | V, BYTES),
	RO("usedbychildren", "USEDCHILD", NUM, F | V, BYTES),
	RO("usedbyrefreservation", "USEDREFRESERV", NUM, F | V, BYTES),
	RO("useraccounting", "USERACCOUNTING", NUM, F | V | S | B, PLAIN, HIDDEN),
	RO("stmf_sbd_lu", "STMF_SBD_LU", STR, V, PLAIN, HIDDEN),
	RO("defer_destroy", "DEFER_DESTROY", IDX, S, PLAIN, INDEX(index_onoff, 0)),
	RO("userrefs", "USERREFS", NUM, S, PLAIN),
	INH("logbias", "LOGBIAS", IDX, F | V, PLAIN, INDEX(index_logbias, 0)),
	RO("unique", "UNIQUE", NUM, F | V | S, BYTES, HIDDEN),
	RO("objsetid", "OBJSETID", NUM, F | V | S, PLAIN),
	INH("dedup", "DEDUP", IDX, F | V, PLAIN, INDEX(index_dedup, 2)),
	INH("mlslabel", "MLSLABEL", STR, F | V | S, PLAIN, .def_string = "none"),
	INH("sync", "SYNC", IDX, F | V, PLAIN, INDEX(index_sync, 0)),
	INH("dnodesize", "DNSIZE", IDX, F, PLAIN, INDEX(index_dnodesize, 0)),
	RO("refcompressratio", "REFRATIO", NUM, F | V | S, RATIO),
	RO("written", "WRITTEN", NUM, F | V | S, BYTES),
	RO("clones", "CLONES", STR, S, PLAIN),
	RO("logicalused", "LUSED", NUM, F | V, BYTES),
	RO("logicalreferenced", "LREFER", NUM, F | V | S | B, BYTES),
	RO("inconsistent", "INCONSISTENT", NUM, F | V | S, PLAIN, HIDDEN),
	INH("volmode", "VOLMODE", IDX, F | V, PLAIN, INDEX(index_volmode, 0)),
	SET("filesystem_limit", "FSLIMIT", NUM, F, COUNTN, .def_number = UINT64_MAX),
	SET("snapshot_limit", "SSLIMIT", NUM, F | V, COUNTN, .def_number = UINT64_MAX),
	RO("filesystem_count", "FSCOUNT", NUM, F, COUNTN, .def_number = UINT64_MAX),
	RO("snapshot_count", "SSCOUNT", NUM, F | V, COUNTN, .def_number = UINT64_MAX),
	INH("snapdev", "SNAPDEV", IDX, F | V, PLAIN, INDEX(index_snapdev, 0)),
	INH("acltype", "ACLTYPE", IDX, F | S, PLAIN, INDEX(index_acltype, 0)),
	SET("context", "CONTEXT", STR, F | V | S, PLAIN, .def_string = "none"),
	SET("fscontext", "FSCONTEXT", STR, F | V | S, PLAIN, .def_string = "none"),
	SET("defcontext", "DEFCONTEXT", STR, F | V | S, PLAIN, .def_string = "none"),
	SET("rootcontext", "ROOTCONTEXT", STR, F | V | S, PLAIN, .def_string = "none"),
	INH("relatime", "RELATIME", IDX, F, PLAIN, INDEX(index_onoff, 1)),
	INH("redundant_metadata", "REDUND_MD", IDX, F | V, PLAIN, INDEX(index_redundant, 0)),
	INH("overlay", "OVERLAY", IDX, F, PLAIN, INDEX(index_onoff, 1)),
	RO("prevsnap", "PREVSNAP", STR, F | V, PLAIN, HIDDEN),
	RO("receive_resume_token", "RESUMETOK", STR, F | V, PLAIN),
	INH("encryption", "ENCRYPTION", IDX, F | V | S, PLAIN, ONCE, INDEX(index_encryption, 2)),
	SET("keylocation", "KEYLOCATION", STR, F | V, PLAIN, .def_string = "none"),
	SET("keyformat", "KEYFORMAT", IDX, F | V, PLAIN, ONCE, INDEX(index_keyformat, 0)),
	SET("pbkdf2salt", "PBKDF2SALT", NUM, F | V, PLAIN, ONCE, HIDDEN),
	SET("pbkdf2iters", "PBKDF2ITERS", NUM, F | V, PLAIN, ONCE),
	RO("encryptionroot", "ENCROOT", STR, F | V | S, PLAIN),
	RO("keyguid", "KEYGUID", NUM, F | V, PLAIN, HIDDEN),
	RO("keystatus", "KEYSTATUS", IDX, F | V | S, PLAIN, INDEX(index_keystatus, 0)),
	RO("remaptxg", "REMAPTXG", NUM, F | V, PLAIN, HIDDEN),
	INH("special_small_blocks", "SPECIAL_SMALL_BLOCKS", NUM, F | V, BYTES),
	RO("ivsetguid", "IVSETGUID", NUM, F | V | S | B, PLAIN, HIDDEN),
	RO("redacted", "REDACTED", NUM, F | V | S, PLAIN, HIDDEN),
	RO("redact_snaps", "RSNAPS", STR, F | V | S | B, PLAIN),
	RO("snapshots_changed", "SNAPSHOTS_CHANGED", NUM, F | V, DATE),
	INH("prefetch", "PREFETCH", IDX, F | V | S, PLAIN, INDEX(index_cache, 2)),
	SET("volthreading", "VOLTHREADING", IDX, V, PLAIN, INDEX(index_onoff, 1)),
	INH("direct", "DIRECT", IDX, F, PLAIN, INDEX(index_direct, 1)),
	INH("longname", "LONGNAME", IDX, F, PLAIN, INDEX(index_onoff, 0)),
	SET("defaultuserquota", "DEFAULTUSERQUOTA", NUM, F | S, BYTESN),
	SET("defaultgroupquota", "DEFAULTGROUPQUOTA", NUM, F | S, BYTESN),
	SET("defaultprojectquota", "DEFAULTPROJECTQUOTA", NUM, F | S, BYTESN),
	SET("defaultuserobjquota", "DEFAULTUSEROBJQUOTA", NUM, F | S, BYTESN),
	SET("defaultgroupobjquota", "DEFAULTGROUPOBJQUOTA", NUM, F | S, BYTESN),
	SET("defaultprojectobjquota", "DEFAULTPROJECTOBJQUOTA", NUM, F | S, BYTESN),
	RO("snapshots_changed_nsecs", "SNAPSHOTS_CHANGED_NSECS", NUM, F | V, PLAIN),
	INH("zoned_uid", "ZONED_UID", NUM, F, PLAIN),
};
/* clang-format on */
const size_t dsl_prop_table_len = ARRAY_LEN(dsl_prop_table);

const struct prop_def *dsl_prop_find(const char *name)
{
	for (size_t i = 0; i < dsl_prop_table_len; i++)
		if (strcmp(dsl_prop_table[i].name, name) == 0)
			return &dsl_prop_table[i];
	for (size_t i = 0; i < dsl_prop_table_len; i++)
		if (strcasecmp(dsl_prop_table[i].column, name) == 0)
			return &dsl_prop_table[i];
	return NULL;
}

bool prop_index_value(const struct prop_def *def, const char *word, uint64_t *v)
{
	for (const struct prop_index *i = def->index; i && i->name; i++) {
		if (strcmp(i->name, word) == 0) {
			*v = i->value;
			return true;
		}
	}
	return false;
}

const char *prop_number_text(const struct prop_def *def, uint64_t v, char *buf, size_t size)
{
	/* The first word of a value is the one that is shown. */
	for (const struct prop_index *i = def->index; i && i->name; i++)
		if (i->value == v)
			return i->name;
	if (def->show == PROP_SHOW_COUNT_NONE && v == UINT64_MAX)
		return "none";
	if (def->show == PROP_SHOW_RATIO)
		snprintf(buf, size, "%llu.%02llu", (unsigned long long)(v / 100), (unsigned long long)(v % 100));
	else
		snprintf(buf, size, "%llu", (unsigned long long)v);
	return buf;
}
