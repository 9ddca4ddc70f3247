"""NBD over TCP: TLS with certificates and shared keys, who must use it, and which client may open what."""

import os
import socket
import ssl

import tarnlib
import wire
from nbdlib import Client, nbdsh, need
from tarnlib import check, contains, eq

VOLUME = 'tank/vol'
KEY = '0123456789abcdef' * 4


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def start(t, *options, pool='single', host='127.0.0.1'):
    """A daemon that listens at TCP, with the pool; (port, manifest of the volume)."""
    port = free_port()
    t.run(t.program('tarnd'), '--daemon', '--nbd-listen', '%s:%d' % (host, port), *options)
    t.import_pool(pool)
    return port, tarnlib.manifest(pool)['volumes'].get(VOLUME)


def certificates(t):
    """A folder with an authority, a server's and a client's certificate of it, and a stranger's of none."""
    need('openssl')
    d = os.path.join(t.dir, 'pki')
    os.mkdir(d)

    def path(name):
        return os.path.join(d, name)

    def make(name, subject, *options):
        t.run('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
              '-keyout', path(name + '-key.pem'), '-out', path(name + '-cert.pem'), '-subj', subject, *options)

    make('ca', '/CN=authority')
    for name in ('server', 'client'):
        make(name, '/CN=' + name, '-addext', 'subjectAltName=IP:127.0.0.1', '-addext', 'basicConstraints=critical,CA:FALSE',
             '-CA', path('ca-cert.pem'), '-CAkey', path('ca-key.pem'))
    make('stranger', '/CN=stranger')
    return d


def psk_file(t, text=None, mode=0o600):
    path = os.path.join(t.dir, 'keys.psk')
    with open(path, 'w') as f:
        f.write(text or '# keys\nalice:%s\nbob:%s\n' % (KEY, KEY[::-1]))
    os.chmod(path, mode)
    return path


def context(d, name=None):
    c = ssl.create_default_context(cafile=os.path.join(d, 'ca-cert.pem'))
    if name:
        c.load_cert_chain(os.path.join(d, name + '-cert.pem'), os.path.join(d, name + '-key.pem'))
    return c


def tls_client(port, ctx):
    c = Client(address=('127.0.0.1', port))
    eq(c.option(wire.OPT_STARTTLS), [(wire.REP_ACK, b'')])
    c.s = ctx.wrap_socket(c.s, server_hostname='127.0.0.1')
    return c


def check_volume(t, port, v, *settings):
    """What libnbd reads."""
    out = nbdsh(t, '''
        import hashlib
        h.set_export_name("%s")
        h.set_tls(nbd.TLS_REQUIRE)
        %s
        h.connect_tcp("127.0.0.1", "%d")
        assert h.get_tls_negotiated()
        s = hashlib.sha256()
        for at in range(0, h.get_size(), 1 << 20):
            s.update(h.pread(min(1 << 20, h.get_size() - at), at))
        print(s.hexdigest())
        h.shutdown()
        ''' % (VOLUME, '; '.join(settings), port)).out
    eq(out.split(), [v['sha256']])


def test_certificates(t):
    d = certificates(t)
    port, v = start(t, '--nbd-tls-certificates', d)
    with tls_client(port, context(d)) as c:
        eq(c.go(VOLUME, structured=True, context=True), v['volsize'])
        whole = c.read(0, v['volsize'])[0]
        for at, n in ((0, 1), (98304 - 1, 20000), (0, 1 << 20)):
            eq(c.read(at, n), (whole[at:at + n], []))
        # answers in many records while requests come on
        for i in range(100):
            c.send(wire.request(wire.READ, 0, 1 << 20, cookie=i))
        for _ in range(100):
            check(c.chunks())
    check_volume(t, port, v, 'h.set_tls_certificates("%s")' % d)


def test_what_comes_before_tls_is_refused(t):
    d = certificates(t)
    port, _ = start(t, '--nbd-tls-certificates', d)
    with Client(address=('127.0.0.1', port)) as c:
        for number, data in ((wire.OPT_LIST, b''), (wire.OPT_GO, wire.info(VOLUME)), (wire.OPT_STRUCTURED_REPLY, b''),
                             (4711, bytes(100000))):
            eq([k for k, _ in c.option(number, data)], [wire.REP_ERR_TLS_REQD])
        eq([k for k, _ in c.option(wire.OPT_STARTTLS, b'x')], [wire.REP_ERR_INVALID])
    with Client(address=('127.0.0.1', port)) as c:
        c.send(wire.option(wire.OPT_EXPORT_NAME, VOLUME.encode()))
        check(c.ended())
    with Client(address=('127.0.0.1', port)) as c:  # something in the clear behind STARTTLS
        c.send(wire.option(wire.OPT_STARTTLS) + wire.option(wire.OPT_LIST))
        check(c.ended())
    with Client(address=('127.0.0.1', port)) as c:  # no TLS after all
        eq(c.option(wire.OPT_STARTTLS), [(wire.REP_ACK, b'')])
        c.send(wire.go(VOLUME) + bytes(1000))
        while c.s.recv(4096):
            pass
    with tls_client(port, context(d)) as c:
        eq([k for k, _ in c.option(wire.OPT_STARTTLS)], [wire.REP_ERR_INVALID])
        eq([k for k, _ in c.option(wire.OPT_LIST)], [wire.REP_SERVER, wire.REP_ACK])
    # the socket of this machine's users goes without
    with Client(t) as c:
        eq([k for k, _ in c.option(wire.OPT_STARTTLS)], [wire.REP_ERR_UNSUP])
        c.go(VOLUME)


def test_clients_are_verified(t):
    d = certificates(t)
    port, v = start(t, '--nbd-tls-certificates', d, '--nbd-tls-verify')
    with tls_client(port, context(d, 'client')) as c:
        eq(c.go(VOLUME), v['volsize'])
    for name in (None, 'stranger'):
        try:
            with tls_client(port, context(d, name)) as c:
                c.go(VOLUME)
        except (ssl.SSLError, ConnectionError, tarnlib.Failure):
            continue
        check(False, name, 'got in')


def test_shared_keys(t):
    port, v = start(t, '--nbd-tls-psk', psk_file(t))
    check_volume(t, port, v, 'h.set_tls_username("alice")',
                 'h.set_tls_psk_file("%s")' % os.path.join(t.dir, 'keys.psk'))
    other = os.path.join(t.dir, 'other.psk')
    with open(other, 'w') as f:
        f.write('alice:%s\nmallory:%s\n' % ('ff' * 32, KEY))
    for name in ('alice', 'mallory'):
        r = nbdsh(t, '''
            h.set_tls(nbd.TLS_REQUIRE)
            h.set_tls_username("%s")
            h.set_tls_psk_file("%s")
            h.connect_tcp("127.0.0.1", "%d")
            ''' % (name, other, port), code=1)
        contains(r.err, 'gnutls_handshake')


def test_wrong_configurations(t):
    d = certificates(t)
    port = str(free_port())
    os.mkdir(os.path.join(t.dir, 'empty'))
    for options, words in (
            (('--nbd-tls-certificates', os.path.join(t.dir, 'empty')), 'server-cert.pem'),
            (('--nbd-tls-verify',), 'certificates'),
            (('--nbd-tls-psk', os.path.join(t.dir, 'none')), 'none'),
            (('--nbd-tls-psk', psk_file(t, mode=0o644)), 'others than its owner'),
            (('--nbd-allow', 'tank/vol'), 'NAME=NETWORK'),
            (('--nbd-allow', 'tank/vol=10.0.0.1/8'), '10.0.0.1/8'),
            (('--nbd-allow', 'tank/vol=example'), 'example')):
        r = t.run(t.program('tarnd'), '--nbd-listen', '127.0.0.1:' + port, *options, code=1)
        contains(r.err, words)
    for text in ('alice\n', 'alice:xyz\n', ':00\n', 'a:00\na:00\n', '# none\n'):
        r = t.run(t.program('tarnd'), '--nbd-listen', '127.0.0.1:' + port, '--nbd-tls-psk', psk_file(t, text), code=1)
        contains(r.err, 'keys.psk')
    for options in (('--nbd-tls-certificates', d), ('--nbd-allow', '*=127.0.0.1')):
        r = t.run(t.program('tarnd'), *options, code=1)
        contains(r.err, 'TCP')


def test_rules_of_access(t):
    port, v = start(t, '--nbd-allow', 'vols/two=127.0.0.0/8,::1', '--nbd-allow', 'vols=10.0.0.0/8', pool='volumes-more')
    names = [n for n in tarnlib.manifest('volumes-more')['volumes']]
    check('vols/two' in names and 'vols/never-written' in names)
    with Client(address=('127.0.0.1', port)) as c:
        listed = [d[4:].decode() for k, d in c.option(wire.OPT_LIST) if k == wire.REP_SERVER]
        check(listed and all(n == 'vols/two' or n.startswith('vols/two@') for n in listed), listed)
        for n in names:
            kind = c.replies(wire.go(n), wire.OPT_GO)[-1][0] if n != 'vols/two' else None
            check(kind in (None, wire.REP_ERR_POLICY), n, kind)
        c.go('vols/two')
    with Client(t) as c:  # rules are for TCP
        listed = [k for k, _ in c.option(wire.OPT_LIST)]
        check(len(listed) > 2)
        c.go('vols/never-written')


tarnlib.main(globals())
