/* How a block is to be written: copies, checksum, compression, class (02, 1.6, 2.7, 3.2; 06, 3.3). */
#include "dmu/sync.h"

static enum checksum policy_checksum(const struct objset *os, const struct dnode_shape *s, bool metadata)
{
	enum checksum c = os->props.checksum;

	if (os->type == OBJSET_META ||
	    (metadata && (c < CHECKSUM_FLETCHER_4 || c == CHECKSUM_ZILOG2 || c == CHECKSUM_NOPARITY)))
		return CHECKSUM_FLETCHER_4;
	if (!metadata && s->checksum != CHECKSUM_INHERIT)
		c = (enum checksum)s->checksum;
	return c == CHECKSUM_INHERIT || c == CHECKSUM_ON ? CHECKSUM_FLETCHER_4 : c;
}

static enum compress policy_compress(const struct objset *os, const struct dnode_shape *s, unsigned type,
				     unsigned level, bool metadata)
{
	enum compress c = os->props.compress;

	if (os->type == OBJSET_META || metadata) {
		bool plain = os->encrypted && level == 0 && (type == DMU_OT_DNODE || type == DMU_OT_OBJSET);

		c = plain ? COMPRESS_EMPTY : COMPRESS_ON;
	} else if (s->compress != COMPRESS_INHERIT) {
		c = (enum compress)s->compress;
	}
	if (c == COMPRESS_ON)
		c = os->dp->lz4_compress ? COMPRESS_LZ4 : COMPRESS_LZJB;
	return c == COMPRESS_INHERIT ? COMPRESS_OFF : c;
}

void sync_policy(struct objset *os, const struct dnode *dn, const struct dnode_shape *shape, unsigned level, bool spill,
		 struct zio_policy *p)
{
	unsigned type = spill ? shape->bonustype : shape->type;
	bool metadata = level > 0 || spill || dmu_type_is_metadata(type);
	const struct objset_props *props = &os->props;
	/* The MOS has three of everything; before spa has told its properties, too. */
	unsigned copies = os->type == OBJSET_META ? BP_DVAS : MAX(props->copies, 1);

	*p = (struct zio_policy){
	    .type = (uint8_t)type,
	    .level = (uint8_t)level,
	    .checksum = policy_checksum(os, shape, metadata),
	    .compress = policy_compress(os, shape, type, level, metadata),
	    .copies = (uint8_t)zio_copies(type, level, copies, props->redundant_metadata, os->encrypted),
	    .gang_copies = (uint8_t)zio_gang_copies(type, level, copies, props->redundant_metadata, os->encrypted),
	    .embed = os->dp->embedded_data && !os->encrypted,
	    .class = metadata ? ZIO_CLASS_SPECIAL : ZIO_CLASS_NORMAL,
	    .special_small = metadata ? 0 : props->special_small,
	};
	p->complevel = p->compress == props->compress ? props->complevel : 0;
	p->nopwrite = !metadata && checksum_is_strong(p->checksum) && p->compress != COMPRESS_OFF && !os->encrypted;
	if (os->ops->policy)
		os->ops->policy(os, dn, level, p);
}
