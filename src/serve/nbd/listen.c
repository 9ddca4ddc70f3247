#include "serve/nbd/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int listen_unix(const char *path, int *out, struct err *e)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd, err = 0;
	mode_t old;

	if (strlen(path) >= sizeof(sa.sun_path))
		return err_set(e, -ENAMETOOLONG, "the NBD socket path %s is too long", path);
	memcpy(sa.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, -errno, "socket: %s", strerror(errno));
	unlink(path);
	old = umask(0177);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 256))
		err = err_set(e, -errno, "cannot listen at %s: %s", path, strerror(errno));
	umask(old);
	if (err)
		close(fd);
	else
		*out = fd;
	return err;
}

static int listen_address(const struct addrinfo *ai, const char *spec, int *out, struct err *e)
{
	int one = 1, fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_set(e, -errno, "socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 256)) {
		int err = err_set(e, -errno, "cannot listen at %s: %s", spec, strerror(errno));

		close(fd);
		return err;
	}
	*out = fd;
	return 0;
}

int listen_tcp(const char *spec, int *fd, unsigned max, unsigned *n, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list;
	autofree char *host = xstrdup(spec);
	char *colon = strrchr(host, ':'), *name = host;
	int err;

	*n = 0;
	if (!colon || !colon[1])
		return err_set(e, -EINVAL, "'%s' is no address to listen at: write HOST:PORT", spec);
	*colon = 0;
	if (name[0] == '[' && colon > name && colon[-1] == ']') {
		colon[-1] = 0;
		name++;
	}
	err = getaddrinfo(name[0] ? name : NULL, colon + 1, &hints, &list);
	if (err)
		return err_set(e, -EINVAL, "cannot listen at %s: %s", spec, gai_strerror(err));
	for (struct addrinfo *ai = list; ai && !err && *n < max; ai = ai->ai_next) {
		err = listen_address(ai, spec, &fd[*n], e);
		*n += !err;
	}
	freeaddrinfo(list);
	return err;
}
