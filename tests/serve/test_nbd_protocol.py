"""The NBD protocol by hand: every option and command, what is refused and how, and that the stream survives it."""

import os
import struct

import tarnlib
import wire
from nbdlib import Client
from tarnlib import check, contains, eq

VOLUME = 'tank/vol'
SIZE = 4 << 20
DATA = 98304  # where the data of this volume begins
DATA_END = 401408
_reference = {}


def single(t):
    t.import_pool('single')


def reference(t):
    """The whole volume."""
    if not _reference:
        with Client(t) as c:
            c.go(VOLUME)
            _reference[VOLUME] = c.read(0, SIZE)[0]
    return _reference[VOLUME]


def test_information(t):
    single(t)
    flags = 1 | 2 | 128 | 256 | 1024
    with Client(t) as c:
        r = c.option(wire.OPT_INFO, wire.info(VOLUME, 0, 1, 2, 3, 99))
        eq(r, [(wire.REP_INFO, struct.pack('>HQH', 0, SIZE, flags)), (wire.REP_INFO, b'\0\1' + VOLUME.encode()),
               (wire.REP_INFO, b'\0\2ZFS volume, read-only'), (wire.REP_INFO, struct.pack('>HIII', 3, 1, 8192, 32 << 20)),
               (wire.REP_ACK, b'')])
        eq(c.go(VOLUME), SIZE)
        eq(c.read(0, 10), (bytes(10), []))


def test_export_name_of_old(t):
    single(t)
    for flags, zeros in ((1, 124), (3, 0)):
        with Client(t, hello=False) as c:
            c.hello(flags)
            c.send(wire.option(wire.OPT_EXPORT_NAME, VOLUME.encode()))
            eq(c.take(10 + zeros), struct.pack('>QH', SIZE, 1 | 2 | 128 | 256 | 1024) + bytes(zeros))
            eq(c.read(DATA, 100)[0], reference(t)[DATA:DATA + 100])
    with Client(t) as c:
        c.send(wire.option(wire.OPT_EXPORT_NAME, b'tank/none'))
        check(c.ended())


def test_list_and_abort(t):
    single(t)
    with Client(t) as c:
        r = c.option(wire.OPT_LIST)
        eq(r, [(wire.REP_SERVER, wire.string(VOLUME)), (wire.REP_ACK, b'')])
        eq(c.option(wire.OPT_LIST, b'x')[0][0], wire.REP_ERR_INVALID)
        eq(c.option(wire.OPT_ABORT), [(wire.REP_ACK, b'')])
        check(c.ended())


def test_options_that_are_refused_leave_the_rest(t):
    single(t)
    name = wire.string(VOLUME)
    with Client(t) as c:
        for number, data, kind in (
                (wire.OPT_STARTTLS, b'', wire.REP_ERR_UNSUP), (4711, b'abc', wire.REP_ERR_UNSUP),
                (wire.OPT_GO, b'', wire.REP_ERR_INVALID), (wire.OPT_GO, name, wire.REP_ERR_INVALID),
                (wire.OPT_GO, name + b'\0\2\0\1', wire.REP_ERR_INVALID),
                (wire.OPT_GO, name + b'\0\0\0', wire.REP_ERR_INVALID),
                (wire.OPT_GO, struct.pack('>I', 0xffffffff) + b'ab\0\0', wire.REP_ERR_INVALID),
                (wire.OPT_INFO, wire.info('tank\0vol'), wire.REP_ERR_INVALID),
                (wire.OPT_INFO, wire.info('x' * 4097), wire.REP_ERR_INVALID),
                (wire.OPT_INFO, wire.info('x' * 4096), wire.REP_ERR_UNKNOWN),
                (wire.OPT_INFO, wire.info(''), wire.REP_ERR_UNKNOWN),
                (wire.OPT_INFO, wire.info('tank'), wire.REP_ERR_UNKNOWN),
                (wire.OPT_INFO, wire.info('tank/vol/x'), wire.REP_ERR_UNKNOWN),
                (wire.OPT_INFO, wire.info('../etc'), wire.REP_ERR_UNKNOWN),
                (wire.OPT_GO, bytes(20000), wire.REP_ERR_TOO_BIG), (wire.OPT_LIST, bytes(3 << 20), wire.REP_ERR_TOO_BIG),
                (wire.OPT_STRUCTURED_REPLY, b'x', wire.REP_ERR_INVALID),
                (wire.OPT_SET_META_CONTEXT, name + bytes(4), wire.REP_ERR_INVALID)):
            r = c.option(number, data)
            eq([k for k, _ in r], [kind], number, data[:40])
        (kind, words), = c.replies(wire.go('tank/none'), wire.OPT_GO)
        contains(words.decode(), 'tank/none')
        eq(c.go(VOLUME), SIZE)


def test_meta_contexts(t):
    single(t)
    base = b'base:allocation'
    with Client(t) as c:
        eq(c.option(wire.OPT_STRUCTURED_REPLY), [(wire.REP_ACK, b'')])
        c.structured = True

        def ask(number, *queries, name=VOLUME):
            return [(k, d) for k, d in c.replies(wire.meta(number, name, *queries), number) if k != wire.REP_ACK]

        for queries in ((), ('base:',), ('base:allocation',), ('other:x', 'base:allocation')):
            eq(ask(wire.OPT_LIST_META_CONTEXT, *queries), [(wire.REP_META_CONTEXT, bytes(4) + base)], queries)
        eq(ask(wire.OPT_LIST_META_CONTEXT, 'other:'), [])
        for queries in ((), ('base:',), ('base:alloc',), ('qemu:dirty-bitmap:x',)):
            eq(ask(wire.OPT_SET_META_CONTEXT, *queries), [], queries)
        eq(ask(wire.OPT_SET_META_CONTEXT, 'base:allocation', name='tank/none')[0][0], wire.REP_ERR_UNKNOWN)
        (kind, d), = ask(wire.OPT_SET_META_CONTEXT, 'base:allocation')
        check(kind == wire.REP_META_CONTEXT and d[4:] == base and d[:4] != bytes(4))
        # the last SET counts, and this one sets nothing
        eq(ask(wire.OPT_SET_META_CONTEXT), [])
        c.go(VOLUME)
        eq(c.error(wire.BLOCK_STATUS, 0, 4096), wire.EINVAL)


def test_context_of_another_export_is_not_taken(t):
    single(t)
    t.import_pool('volumes-more')
    with Client(t) as c:
        c.option(wire.OPT_STRUCTURED_REPLY)
        c.structured = True
        c.replies(wire.meta(wire.OPT_SET_META_CONTEXT, 'vols/two', 'base:allocation'), wire.OPT_SET_META_CONTEXT)
        c.go(VOLUME)
        eq(c.error(wire.BLOCK_STATUS, 0, 4096), wire.EINVAL)


def test_reads(t):
    """Every edge, with and without structured replies and DF."""
    single(t)
    whole = reference(t)
    edges = ((0, 1), (SIZE - 1, 1), (DATA - 1, 2), (DATA, 8192), (DATA + 1, 8191), (DATA_END - 3, 6), (0, SIZE),
             (DATA - 5000, DATA_END - DATA + 10000), (DATA + 8192 - 1, 1), (12345, 234567))
    for structured, flags in ((False, 0), (True, 0), (True, wire.FLAG_DF)):
        with Client(t) as c:
            c.go(VOLUME, structured=structured)
            for at, n in edges:
                eq(c.read(at, n, flags), (whole[at:at + n], []), at, n, structured, flags)


def test_sparse_reads(t):
    single(t)
    with Client(t) as c:
        c.go(VOLUME, structured=True)
        c.send(wire.request(wire.READ, 0, DATA))
        eq(c.chunks(), [(wire.CHUNK_HOLE, struct.pack('>QI', 0, DATA))])
        c.send(wire.request(wire.READ, DATA - 10, 20))
        eq([k for k, _ in c.chunks()], [wire.CHUNK_HOLE, wire.CHUNK_DATA])
        c.send(wire.request(wire.READ, DATA - 10, 20, flags=wire.FLAG_DF))
        (kind, d), = c.chunks()
        eq((kind, len(d)), (wire.CHUNK_DATA, 28))


def extents(c, at, n, flags=0):
    c.send(wire.request(wire.BLOCK_STATUS, at, n, flags=flags))
    (kind, d), = c.chunks()
    eq(kind, wire.CHUNK_STATUS)
    return [struct.unpack_from('>II', d, i) for i in range(4, len(d), 8)]


def test_block_status(t):
    single(t)
    with Client(t) as c:
        c.go(VOLUME, structured=True, context=True)
        eq(extents(c, 0, SIZE), [(DATA, 3), (DATA_END - DATA, 0), (SIZE - DATA_END, 3)])
        eq(extents(c, DATA + 5, 3), [(3, 0)])
        eq(extents(c, SIZE - 1, 1), [(1, 3)])
        eq(extents(c, 100, SIZE - 100, wire.FLAG_REQ_ONE), [(DATA - 100, 3)])
        eq(c.error(wire.BLOCK_STATUS, 0, 0), wire.EINVAL)
        eq(c.error(wire.BLOCK_STATUS, 1, SIZE), wire.EINVAL)


def test_block_status_of_a_huge_volume(t):
    """A request ends at 4 GiB, the volume at 7 EiB: what is asked for is told, quickly."""
    t.import_pool('stripe4-zvols')
    with Client(t) as c:
        size = c.go('blocks/huge', structured=True, context=True)
        for at in (0, 1 << 40, size - 0xffffffff, size - 4096):
            n = min(0xffffffff, size - at)
            got = extents(c, at, n)
            eq(sum(x for x, _ in got), n, at, got)


def test_refused_requests_leave_the_stream_whole(t):
    single(t)
    whole = reference(t)
    for structured in (False, True):
        with Client(t) as c:
            c.go(VOLUME, structured=structured)
            for request, error in (
                    ((wire.TRIM, 0, 4096), wire.EPERM), ((wire.WRITE_ZEROES, 0, 4096), wire.EPERM),
                    ((wire.TRIM, 1 << 63, 0xffffffff), wire.EPERM), ((wire.READ, 0, 0), wire.EINVAL),
                    ((wire.READ, SIZE, 1), wire.EINVAL), ((wire.READ, SIZE - 1, 2), wire.EINVAL),
                    ((wire.READ, (1 << 64) - 1, 2), wire.EINVAL), ((wire.READ, 0, 0xffffffff), wire.EINVAL),
                    ((wire.READ, 0, (32 << 20) + 1), wire.EINVAL), ((wire.CACHE, 0, SIZE + 1), wire.EINVAL),
                    ((wire.FLUSH, 0, 0), wire.EINVAL), ((wire.BLOCK_STATUS, 0, 4096), wire.EINVAL),
                    ((77, 0, 0), wire.EINVAL)):
                eq(c.error(*request), error, request)
            eq(c.error(wire.READ, 0, 16, flags=1), wire.EINVAL)
            eq(c.error(wire.READ, 0, 16, flags=wire.FLAG_REQ_ONE), wire.EINVAL)
            for n in (0, 1, 100000, 5 << 20):
                c.send(wire.request(wire.WRITE, 0, n) + b'w' * n)
                eq(c.simple()[0] if not structured else struct.unpack('>I', c.chunks()[0][1][:4])[0], wire.EPERM)
            eq(c.read(DATA, 5000)[0], whole[DATA:DATA + 5000])


def test_cache(t):
    single(t)
    for structured in (False, True):
        with Client(t) as c:
            c.go(VOLUME, structured=structured)
            c.send(wire.request(wire.CACHE, 0, SIZE))
            eq(c.chunks() if structured else c.simple()[0], [(wire.CHUNK_NONE, b'')] if structured else 0)


def test_disconnect_answers_first(t):
    single(t)
    whole = reference(t)
    with Client(t) as c:
        c.go(VOLUME)
        c.send(b''.join(wire.request(wire.READ, DATA + i, 1000, i) for i in range(50)) + wire.request(wire.DISC))
        seen = set()
        for _ in range(50):
            error, cookie = c.simple()
            eq((error, c.take(1000)), (0, whole[DATA + cookie:DATA + cookie + 1000]))
            seen.add(cookie)
        eq(seen, set(range(50)))
        check(c.ended())


def test_many_pipelined_requests(t):
    """Far more than one client may have in flight and than fit into the server's buffer, sent in one go."""
    single(t)
    whole = reference(t)
    with Client(t) as c:
        c.go(VOLUME, structured=True)
        n = 5000
        c.send(b''.join(wire.request(wire.READ, DATA + i, 10, i) for i in range(n)))
        seen = set()
        for _ in range(n):
            magic, flags, kind, cookie, length = struct.unpack('>IHHQI', c.take(20))
            eq((flags, kind, length), (1, wire.CHUNK_DATA, 18))
            eq(c.take(18)[8:], whole[DATA + cookie:DATA + cookie + 10])
            seen.add(cookie)
        eq(len(seen), n)


def test_damage_costs_only_its_own_bytes(t):
    single(t)
    whole = reference(t)
    t.stop()
    tarnlib.wait_for(lambda: not t.daemon_pid(), 'the end of the daemon')
    folder = t.copy_pool('single')
    image = os.path.join(folder, 'disk0.img')
    with open(image, 'rb') as f:
        data = f.read()
    hit = None
    for at in range(DATA, DATA_END, 8192):
        block = whole[at:at + 8192]
        if data.count(block) == 1:
            hit = at
            break
    if hit is None:
        raise tarnlib.Skip('no block of the volume is stored as it is')
    with open(image, 'r+b') as f:
        f.seek(data.index(whole[hit:hit + 8192]) + 1000)
        f.write(b'damage')
    t.import_pool('single', folder=folder)
    with Client(t) as c:
        c.go(VOLUME, structured=True, context=True)
        got, errors = c.read(0, SIZE)
        eq([(at, e) for at, e in errors], [(hit, wire.EIO)])
        eq(got, whole[:hit] + bytes(8192) + whole[hit + 8192:])
        eq(c.read(0, SIZE, wire.FLAG_DF)[1], [(None, wire.EIO)])
        eq(c.read(hit - 100, 100), (whole[hit - 100:hit], []))
        eq(extents(c, 0, SIZE), [(DATA, 3), (DATA_END - DATA, 0), (SIZE - DATA_END, 3)])
    with Client(t) as c:
        c.go(VOLUME)
        eq(c.read(hit, 10)[1], [(None, wire.EIO)])
        eq(c.read(hit + 8192, 10), (whole[hit + 8192:hit + 8202], []))


tarnlib.main(globals())
