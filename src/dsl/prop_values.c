/*
 * dsl/prop_values.c: which words a property takes, as the commands tell them in help and refusals.
 */
#include "dsl/dsl_impl.h"

static const struct {
	const char *name, *words;
} value_table[] = {
    {"aclinherit", "discard | noallow | restricted | passthrough | passthrough-x"},
    {"aclmode", "discard | groupmask | passthrough | restricted"},
    {"acltype", "off | nfsv4 | posix"},
    {"canmount", "on | off | noauto"},
    {"casesensitivity", "sensitive | insensitive | mixed"},
    {"checksum", "on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3"},
    {"compression", "on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | zstd-[1-19] | zstd-fast | "
		    "zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]"},
    {"context", "<selinux context>"},
    {"copies", "1 | 2 | 3"},
    {"dedup",
     "on | off | verify | sha256[,verify] | sha512[,verify] | skein[,verify] | edonr,verify | blake3[,verify]"},
    {"defcontext", "<selinux defcontext>"},
    {"direct", "disabled | standard | always"},
    {"dnodesize", "legacy | auto | 1k | 2k | 4k | 8k | 16k"},
    {"encryption", "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | aes-128-gcm | aes-192-gcm | aes-256-gcm"},
    {"fscontext", "<selinux fscontext>"},
    {"keyformat", "none | raw | hex | passphrase"},
    {"keylocation", "prompt | <file URI> | <https URL> | <http URL>"},
    {"keystatus", "none | unavailable | available"},
    {"logbias", "latency | throughput"},
    {"mlslabel", "<sensitivity label>"},
    {"mountpoint", "<path> | legacy | none"},
    {"normalization", "none | formC | formD | formKC | formKD"},
    {"pbkdf2iters", "<iters>"},
    {"prefetch", "none | metadata | all"},
    {"primarycache", "all | none | metadata"},
    {"quota", "<size> | none"},
    {"recordsize", "512 to 16M, power of 2"},
    {"redundant_metadata", "all | most | some | none"},
    {"refquota", "<size> | none"},
    {"refreservation", "<size> | none"},
    {"reservation", "<size> | none"},
    {"rootcontext", "<selinux rootcontext>"},
    {"secondarycache", "all | none | metadata"},
    {"sharenfs", "on | off | NFS share options"},
    {"sharesmb", "on | off | SMB share options"},
    {"snapdev", "hidden | visible"},
    {"snapdir", "disabled | hidden | visible"},
    {"special_small_blocks", "0 to 16M"},
    {"sync", "standard | always | disabled"},
    {"version", "1 | 2 | 3 | 4 | 5 | current"},
    {"volblocksize", "512 to 16M, power of 2"},
    {"volmode", "default | full | geom | dev | none"},
    {"volsize", "<size>"},
    {"xattr", "on | off | dir | sa"},
    {"zoned_uid", "<uid>"},
};

const char *dsl_prop_values(const struct prop_def *def)
{
	for (size_t i = 0; i < ARRAY_LEN(value_table); i++)
		if (strcmp(value_table[i].name, def->name) == 0)
			return value_table[i].words;
	if (def->kind == PROP_INDEX)
		return def->show == PROP_SHOW_YESNO ? "yes | no" : "on | off";
	if (def->kind == PROP_STRING)
		return "<string>";
	if (def->show == PROP_SHOW_COUNT_NONE)
		return def->readonly ? "<count>" : "<count> | none";
	if (def->show == PROP_SHOW_BYTES_NONE)
		return "<size> | none";
	return def->show == PROP_SHOW_BYTES ? "<size>" : def->show == PROP_SHOW_DATE ? "<date>" : "<uint64>";
}
