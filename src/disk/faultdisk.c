/* A disk that asks its maker before each request, and shows it what reads returned. */
#include "disk/testdisk.h"

struct faultdisk {
	struct disk disk;
	struct disk *lower;
	struct faultdisk_hooks hooks;
};

/* The request that goes down in place of the caller's, whose own fields stay as they are. */
struct fault_req {
	struct disk_req req;
	struct faultdisk *fault;
	struct disk_req *upper;
};

static void fault_done(struct disk_req *r, int err)
{
	struct fault_req *fr = container_of(r, struct fault_req, req);
	struct disk_req *upper = fr->upper;
	const struct faultdisk_hooks *h = &fr->fault->hooks;

	if (!err && upper->op == DISK_READ && h->after)
		h->after(h->arg, upper);
	free(fr);
	upper->done(upper, err);
}

static void fault_submit(struct disk *d, struct disk_req *r)
{
	struct faultdisk *f = container_of(d, struct faultdisk, disk);
	struct fault_req *fr;
	int err = f->hooks.before ? f->hooks.before(f->hooks.arg, r) : 0;

	if (err) {
		r->done(r, err);
		return;
	}
	fr = xmalloc(sizeof(*fr));
	*fr = (struct fault_req){.req = *r, .fault = f, .upper = r};
	fr->req.done = fault_done;
	disk_submit(f->lower, &fr->req);
}

static void fault_close(struct disk *d)
{
	struct faultdisk *f = container_of(d, struct faultdisk, disk);

	disk_close(f->lower);
	free(f);
}

static void fault_refresh(struct disk *d)
{
	struct faultdisk *f = container_of(d, struct faultdisk, disk);

	disk_refresh(f->lower);
	d->size = f->lower->size;
}

static const struct disk_ops fault_ops = {"fault", fault_submit, fault_close, fault_refresh};

struct disk *faultdisk_create(struct disk *lower, const struct faultdisk_hooks *hooks)
{
	struct faultdisk *f = xcalloc(1, sizeof(*f));

	f->disk = *lower;
	f->disk.ops = &fault_ops;
	f->disk.path = lower->path ? xstrdup(lower->path) : NULL;
	f->lower = lower;
	f->hooks = *hooks;
	return &f->disk;
}
