#include "serve/control/control.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"

#define FRAME_HEADER  16
#define PAYLOAD_FIRST (64u << 10)
#define FRAME_MAGIC   0x4e524154u /* "TARN", little endian */

int control_header_decode(const uint8_t hdr[16], enum control_kind *kind, uint32_t *id, uint32_t *length, struct err *e)
{
	unsigned version = load_le16(hdr + 4), k = load_le16(hdr + 6);

	if (load_le32(hdr) != FRAME_MAGIC)
		return err_set(e, -EPROTO, "this is not the control protocol");
	if (version != CONTROL_VERSION)
		return err_set(e, -EPROTO,
			       "the peer speaks version %u of the control protocol, this program version %u", version,
			       CONTROL_VERSION);
	if (k < CONTROL_REQUEST || k > CONTROL_ANSWER)
		return err_set(e, -EPROTO, "unknown kind of frame %u", k);
	*kind = (enum control_kind)k;
	*id = load_le32(hdr + 8);
	*length = load_le32(hdr + 12);
	if (*length > CONTROL_FRAME_MAX)
		return err_set(e, -EPROTO, "a frame of %u bytes is too long", *length);
	return 0;
}

static int send_all(int fd, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int control_send(int fd, enum control_kind kind, uint32_t id, const struct nvlist *l)
{
	uint8_t hdr[FRAME_HEADER];
	void *data = NULL;
	size_t len = 0;
	int err = l ? nvlist_pack(l, NV_XDR, &data, &len) : 0;

	if (!err && len > CONTROL_FRAME_MAX)
		err = -EMSGSIZE;
	if (!err) {
		uint8_t order[FRAME_HEADER] = {'T', 'A', 'R', 'N', CONTROL_VERSION, 0, (uint8_t)kind, 0};

		memcpy(hdr, order, sizeof(hdr));
		store_le32(hdr + 8, id);
		store_le32(hdr + 12, (uint32_t)len);
		err = send_all(fd, hdr, sizeof(hdr));
	}
	if (!err)
		err = send_all(fd, data, len);
	if (data)
		explicit_bzero(data, len); /* it may hold a key */
	free(data);
	return err;
}

/* Reads exactly len bytes, *got says how many came; the first byte may take for ever, the rest may not. -EPIPE: the
 * peer has gone; -EINTR (only before the first byte): the caller looks at its flag. */
static int recv_all(int fd, uint8_t *data, size_t len, bool started, size_t *got)
{
	*got = 0;
	while (*got < len) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		ssize_t n;
		int ready = poll(&pfd, 1, started ? CONTROL_STALL_MS : -1);

		if (ready == 0)
			return -ETIMEDOUT;
		n = ready < 0 ? -1 : recv(fd, data + *got, len - *got, 0);
		if (n < 0 && errno == EINTR && started)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		started = true;
		*got += (size_t)n;
	}
	return 0;
}

/* As much room as has come twice over: a length is only a claim until its bytes are there. The old copy is wiped, since
 * it may hold a key. */
static bool payload_grow(uint8_t **data, size_t used, size_t *room, size_t length)
{
	size_t more = MIN(MAX(*room * 2, (size_t)PAYLOAD_FIRST), length);
	uint8_t *bigger = malloc(more);

	if (!bigger)
		return false;
	if (used)
		memcpy(bigger, *data, used);
	if (*data)
		explicit_bzero(*data, used);
	free(*data);
	*data = bigger;
	*room = more;
	return true;
}

/* *data is malloc'd, *got bytes of it came; also on errors, so that they can be wiped. */
static int payload_recv(int fd, size_t length, uint8_t **data, size_t *got, struct err *e)
{
	size_t room = 0, n = 0;
	int err = 0;

	*data = NULL;
	*got = 0;
	while (!err && *got < length) {
		if (!payload_grow(data, *got, &room, length))
			return err_set(e, -ENOMEM, "no memory for a frame of %zu bytes", length);
		err = recv_all(fd, *data + *got, room - *got, true, &n);
		*got += n;
	}
	return err ? err_set(e, err, "the connection broke in the midst of a frame") : 0;
}

int control_recv(int fd, enum control_kind *kind, uint32_t *id, struct nvlist **l, struct err *e)
{
	uint8_t hdr[FRAME_HEADER], *data;
	uint32_t length;
	size_t got;
	int err;

	*l = NULL;
	err = recv_all(fd, hdr, 1, false, &got);
	if (!err)
		err = recv_all(fd, hdr + 1, sizeof(hdr) - 1, true, &got);
	if (err)
		return err == -EINTR ? err : err_set(e, err, "the connection was closed");
	err = control_header_decode(hdr, kind, id, &length, e);
	if (err || length == 0)
		return err;
	err = payload_recv(fd, length, &data, &got, e);
	if (!err)
		err = nvlist_unpack(data, length, l, e);
	if (data)
		explicit_bzero(data, got);
	free(data);
	return err;
}
