"""Programs that people use with NBD, on volumes of golden pools: nbdinfo, nbdcopy, nbdsh, qemu-img, fio."""

import json
import os
import socket

import tarnlib
import wire
from nbdlib import Client, nbdsh, need, sha256_copied, uri
from tarnlib import Skip, check, contains, eq

VOLUME = 'tank/vol'
EXTENTS = [(0, 98304, 'hole,zero'), (98304, 303104, 'data'), (401408, 3792896, 'hole,zero')]


def single(t):
    t.import_pool('single')
    return tarnlib.manifest('single')['volumes'][VOLUME]


def test_nbdinfo(t):
    need('nbdinfo')
    v = single(t)
    e, = t.run('nbdinfo', '--json', uri(t, VOLUME)).json()['exports']
    eq({k: e[k] for k in ('export-name', 'description', 'export-size', 'is_read_only', 'can_df', 'can_cache', 'can_flush',
                          'can_fua', 'can_multi_conn', 'can_trim', 'can_zero', 'block_minimum', 'block_preferred',
                          'block_maximum') if k in e},
       {'export-name': VOLUME, 'description': 'ZFS volume, read-only', 'export-size': v['volsize'], 'is_read_only': True,
        'can_df': True, 'can_cache': True, 'can_flush': False, 'can_fua': False, 'can_multi_conn': True,
        'can_trim': False, 'can_zero': False})
    eq((e['block_size_minimum'], e['block_size_preferred'], e['block_size_maximum']), (1, 8192, 32 << 20))
    eq(e['contexts'], ['base:allocation'])
    eq(t.run('nbdinfo', '--size', uri(t, VOLUME)).out, '%d\n' % v['volsize'])


def test_nbdinfo_list_and_map(t):
    need('nbdinfo')
    single(t)
    t.import_pool('volumes-more')
    names = {e['export-name'] for e in t.run('nbdinfo', '--list', '--json', uri(t, '')).json()['exports']}
    check({VOLUME, 'vols/two', 'vols/two@s1', 'vols/never-written'} <= names, names)
    got = json.loads(t.run('nbdinfo', '--map', '--json', uri(t, VOLUME)).out)
    eq([(e['offset'], e['length'], e['description']) for e in got], EXTENTS)
    got = json.loads(t.run('nbdinfo', '--map', '--json', uri(t, 'vols/never-written')).out)
    eq([(e['offset'], e['length'], e['type']) for e in got], [(0, 4 << 20, 3)])


def test_unknown_export_is_named(t):
    need('nbdinfo')
    single(t)
    for name in ('tank/none', 'nopool/vol', 'tank', 'tank/vol@none'):
        r = t.run('nbdinfo', uri(t, name), code=1)
        check('No such file' in r.err or 'not a volume' in r.err or 'Invalid' in r.err, r)


def test_qemu_img(t):
    need('qemu-img')
    v = single(t)
    info = t.run('qemu-img', 'info', '--output=json', uri(t, VOLUME)).json()
    eq((info['virtual-size'], info['format']), (v['volsize'], 'raw'))
    got = t.run('qemu-img', 'map', '--output=json', uri(t, VOLUME)).json()
    eq([(e['start'], e['length'], e['data']) for e in got], [(a, n, 'data' == k) for a, n, k in EXTENTS])
    target = os.path.join(t.dir, 'v.qcow2')
    t.run('qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', uri(t, VOLUME), target)
    t.run('qemu-img', 'compare', '-f', 'raw', '-F', 'qcow2', uri(t, VOLUME), target)


def test_fio_verifies(t):
    """A volume filled by fio is not at hand: a sum of what it read is not told either. It must read all without error."""
    need('fio')
    if 'nbd' not in t.run('fio', '--enghelp').out:
        raise Skip('fio has no engine nbd')
    single(t)
    for rw in ('read', 'randread'):
        r = t.run('fio', '--name=x', '--ioengine=nbd', '--uri=' + uri(t, VOLUME), '--rw=' + rw, '--bs=16k',
                  '--iodepth=16', '--size=4m', '--readonly', '--output-format=json')
        job = json.loads(r.out[r.out.index('{'):])['jobs'][0]
        eq((job['error'], job['read']['io_bytes']), (0, 4 << 20))


def test_libnbd_reads_map_and_refusals(t):
    need('nbdsh')
    single(t)
    nbdsh(t, '''
        h.add_meta_context("base:allocation")
        h.set_strict_mode(0)
        h.connect_uri("%s")
        assert h.get_structured_replies_negotiated() and h.is_read_only() and h.can_df()
        def refused(f, *a, **kw):
            try:
                f(*a, **kw)
            except nbd.Error as e:
                return e.errno
            raise AssertionError("not refused")
        whole = h.pread(4194304, 0)
        assert h.pread(100, 98300) == whole[98300:98400]
        chunks = []
        h.pread_structured(400000, 0, lambda d, off, st, err: chunks.append((off, len(d), st)))
        assert (0, 98304, nbd.READ_HOLE) in [(o, n or 98304, s) for o, n, s in chunks], chunks
        chunks = []
        h.pread_structured(400000, 0, lambda d, off, st, err: chunks.append((off, len(d), st)), nbd.CMD_FLAG_DF)
        assert chunks == [(0, 400000, nbd.READ_DATA)], chunks
        ext = []
        h.block_status(4194304, 0, lambda m, o, e, err: ext.extend(e))
        assert ext == [98304, 3, 303104, 0, 3792896, 3], ext
        ext = []
        h.block_status(1 << 20, 100000, lambda m, o, e, err: ext.extend(e), nbd.CMD_FLAG_REQ_ONE)
        assert ext == [301408, 0], ext
        assert refused(h.pwrite, b"x" * 5000, 0) == "EPERM"
        assert refused(h.trim, 4096, 0) == "EPERM"
        assert refused(h.zero, 4096, 0) == "EPERM"
        assert refused(h.pread, 10, 4194300) == "EINVAL"
        assert refused(h.pread, 0, 0) == "EINVAL"
        h.cache(65536, 98304)
        assert h.pread(4194304, 0) == whole
        h.shutdown()
        ''' % uri(t, VOLUME))


def test_libnbd_many_requests_at_once(t):
    need('nbdsh')
    single(t)
    nbdsh(t, '''
        import random
        h.connect_uri("%s")
        whole = h.pread(4194304, 0)
        random.seed(1)
        for round in range(3):
            jobs = []
            for i in range(2000):
                n = random.choice((1, 511, 4096, 100000))
                at = random.randrange(4194304 - n)
                b = nbd.Buffer(n)
                jobs.append((h.aio_pread(b, at), b, at, n))
            while h.aio_in_flight():
                h.poll(10000)
            for cookie, b, at, n in jobs:
                assert h.aio_command_completed(cookie)
                assert b.to_bytearray() == whole[at:at + n], (at, n)
        h.shutdown()
        ''' % uri(t, VOLUME))


def test_encrypted_volume_without_key(t):
    need('nbdinfo')
    t.import_pool('encrypted-pool')
    r = t.run('nbdinfo', uri(t, 'safe/v'), code=1)
    eq(t.run('nbdinfo', '--list', uri(t, '')).out.count('export='), 0)
    with Client(t) as c:
        (kind, words), = c.replies(wire.go('safe/v'), wire.OPT_GO)
        eq(kind, wire.REP_ERR_POLICY)
        contains(words.decode(), 'key')
    check(r.err, r)


def test_export_of_a_pool_in_use(t):
    need('nbdcopy')
    v = single(t)
    with Client(t) as c:
        eq(c.go(VOLUME), v['volsize'])
        r = t.zpool('export', 'tank', code=1)
        contains(r.err, 'NBD client')
        eq(c.read(98304, 10)[1], [])
        eq(t.tarn('stop', code=None).code, 1)
        t.zpool('export', '-f', 'tank')
        check(c.ended())
    r = t.zpool('list')
    eq(r.out, 'no pools available\n')
    single(t)
    eq(sha256_copied(t, VOLUME), v['sha256'])


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def listening_ports(pid):
    """TCP sockets in state LISTEN among the process's descriptors."""
    inodes = set()
    for fd in os.listdir('/proc/%d/fd' % pid):
        link = os.readlink('/proc/%d/fd/%s' % (pid, fd))
        if link.startswith('socket:'):
            inodes.add(link[8:-1])
    found = []
    for table in ('/proc/net/tcp', '/proc/net/tcp6'):
        with open(table) as f:
            for line in f.readlines()[1:]:
                w = line.split()
                if w[3] == '0A' and w[9] in inodes:
                    found.append(int(w[1].split(':')[1], 16))
    return found


def test_a_client_that_has_gone_is_not_in_the_way(t):
    for _ in range(20):
        single(t)
        with Client(t) as c:
            c.go(VOLUME)
            c.read(0, 4096)
        t.tarn('zpool', 'export', 'tank')


def test_tcp_only_when_asked_for(t):
    need('nbdcopy')
    v = single(t)
    eq(listening_ports(t.daemon_pid()), [])
    t.stop()
    tarnlib.wait_for(lambda: not t.daemon_pid(), 'the end of the daemon')
    port = free_port()
    t.run(t.program('tarnd'), '--daemon', '--nbd-listen', '127.0.0.1:%d' % port)
    eq(listening_ports(t.daemon_pid()), [port])
    single(t)
    target = os.path.join(t.dir, 'copy')
    t.run('nbdcopy', 'nbd://127.0.0.1:%d/%s' % (port, VOLUME), target)
    eq(os.stat(target).st_size, v['volsize'])
    eq(t.run('sha256sum', target).out.split()[0], v['sha256'])


def test_wrong_addresses_to_listen_at(t):
    for where in ('127.0.0.1', 'nowhere.invalid:1', '127.0.0.1:99999x', ':'):
        r = t.run(t.program('tarnd'), '--nbd-listen', where, code=1)
        contains(r.err, where if where != ':' else 'listen')


def test_sockets_are_for_their_owner_alone(t):
    single(t)
    for name in ('nbd.sock', 'tarnd.sock'):
        eq(os.stat(os.path.join(t.rundir, name)).st_mode & 0o777, 0o600, name)


tarnlib.main(globals())
