"""The two protocols of the daemon as bytes, for tests that say what no well-behaved client would: NBD (its public
specification) and the control protocol (src/serve/control/control.h). Also writes the seeds of their fuzz targets:

    tests/serve/wire.py tests/fuzz/corpus
"""

import os
import struct
import sys

# ---- NBD ----

OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO = 1, 2, 3, 5, 6, 7
OPT_STRUCTURED_REPLY, OPT_LIST_META_CONTEXT, OPT_SET_META_CONTEXT = 8, 9, 10
REP_ACK, REP_SERVER, REP_INFO, REP_META_CONTEXT = 1, 2, 3, 4
REP_ERR_UNSUP, REP_ERR_POLICY, REP_ERR_INVALID, REP_ERR_TLS_REQD, REP_ERR_UNKNOWN, REP_ERR_TOO_BIG = (
    0x80000000 + n for n in (1, 2, 3, 5, 6, 9))
INFO_EXPORT, INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE = range(4)
READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FLAG_FUA, FLAG_NO_HOLE, FLAG_DF, FLAG_REQ_ONE, FLAG_FAST_ZERO = 1, 2, 4, 8, 16
CHUNK_NONE, CHUNK_DATA, CHUNK_HOLE, CHUNK_STATUS, CHUNK_ERROR, CHUNK_ERROR_OFFSET = 0, 1, 2, 5, 32769, 32770
EPERM, EIO, EINVAL, ENOSPC, ENOTSUP = 1, 5, 22, 28, 95
OPT_MAGIC = 0x49484156454f5054
REP_MAGIC = 0x3e889045565a9


def text(s):
    return s if isinstance(s, bytes) else s.encode()


def string(s):
    return struct.pack('>I', len(text(s))) + text(s)


def client_flags(flags=3):
    return struct.pack('>I', flags)


def option(number, data=b'', length=None):
    return struct.pack('>QII', OPT_MAGIC, number, len(data) if length is None else length) + data


def info(name, *types):
    return string(name) + struct.pack('>H%dH' % len(types), len(types), *types)


def go(name, *types):
    return option(OPT_GO, info(name, *types))


def meta(number, name, *queries):
    return option(number, string(name) + struct.pack('>I', len(queries)) + b''.join(string(q) for q in queries))


def request(command, offset=0, length=0, cookie=1, flags=0):
    return struct.pack('>IHHQQI', 0x25609513, flags, command, cookie, offset, length)


# ---- control ----

REQUEST, REPLY, ITEM, PROGRESS, CANCEL, ASK, ANSWER = range(1, 8)


def _pad(b):
    return b + bytes(-len(b) % 4)


def _value(v):
    """Type, number of elements and bytes of a value, by the XDR form of nvlists (docs/format/01-pool.md, 1.4)."""
    if v is True or v is False:
        return 21, 1, struct.pack('>I', v)
    if isinstance(v, int):
        return 8, 1, struct.pack('>Q', v)
    if isinstance(v, str):
        return 9, 1, _pad(string(v)) if v else string(v)
    if isinstance(v, bytes):
        return 10, len(v), _pad(v)
    if isinstance(v, dict):
        return 19, 1, _list(v)
    return 17, len(v), b''.join(_pad(string(s)) for s in v)


def _list(pairs):
    out = struct.pack('>II', 0, 1)
    for name, v in pairs.items():
        kind, count, data = _value(v)
        body = _pad(string(name)) + struct.pack('>II', kind, count) + data
        out += struct.pack('>II', 8 + len(body), 8 + len(body)) + body
    return out + bytes(8)


def nvlist(pairs):
    return b'\1\1\0\0' + _list(pairs)


def frame(kind, ident=1, pairs=None, version=1, magic=b'TARN', length=None):
    data = b'' if pairs is None else pairs if isinstance(pairs, bytes) else nvlist(pairs)
    return magic + struct.pack('<HHII', version, kind, ident, len(data) if length is None else length) + data


def command(cmd, ident=1, **args):
    return frame(REQUEST, ident, {'cmd': cmd, 'args': args})


def nvlist_parse(data):
    """The pairs of a packed list; what tests do not look at comes as None."""
    return _list_parse(data, 4)[0]


def _string_parse(data, at):
    n, = struct.unpack_from('>I', data, at)
    return data[at + 4:at + 4 + n].decode(), at + 4 + n + -n % 4


def _list_parse(data, at):
    at += 8
    out = {}
    while True:
        begin = at
        size, decoded = struct.unpack_from('>II', data, at)
        at += 8
        if decoded == 0:
            return out, at
        name, at = _string_parse(data, at)
        kind, count = struct.unpack_from('>II', data, at)
        at += 8
        v = None
        if kind in (7, 8):
            v, = struct.unpack_from('>q' if kind == 7 else '>Q', data, at)
        elif kind == 9:
            v = _string_parse(data, at)[0]
        elif kind == 21:
            v = struct.unpack_from('>I', data, at)[0] != 0
        elif kind == 19:
            v = _list_parse(data, at)[0]
        out[name] = v
        at = begin + size


# ---- seeds ----

def _nbd_seeds():
    """The first byte tells the target how patient to be: 0 hangs up at once, 1 waits for the answers."""
    flags = client_flags()
    structured = option(OPT_STRUCTURED_REPLY)
    context = meta(OPT_SET_META_CONTEXT, 'p/v', 'base:allocation')
    reads = b''.join(request(READ, o, n, o) for o, n in ((0, 512), (8000, 20000), (65536, 65536), (1048575, 1)))
    yield 'list', flags + option(OPT_LIST) + option(OPT_ABORT)
    yield 'info', flags + option(OPT_INFO, info('p/v', 0, 1, 2, 3)) + go('p/v@s', 3) + request(DISC)
    yield 'export-name', client_flags(1) + option(OPT_EXPORT_NAME, b'p/v') + reads + request(DISC)
    yield 'simple', flags + go('p/v') + reads + request(WRITE, 0, 16) + bytes(16) + request(READ, 0, 4096)
    yield 'structured', flags + structured + context + go('p/v') + reads + request(BLOCK_STATUS, 0, 1 << 20)
    yield 'one-piece', flags + structured + go('p/v') + request(READ, 0, 1 << 20, 7, FLAG_DF) + request(CACHE, 0, 99)
    yield 'status', flags + structured + context + go('p/v') + request(BLOCK_STATUS, 5000, 70000, 3, FLAG_REQ_ONE)
    yield 'refused', flags + go('p/v') + b''.join(request(c, 1 << 40, 0) for c in (0, 3, 4, 5, 6, 7, 99))
    yield 'unknown', flags + option(OPT_STARTTLS) + option(77, b'x' * 40) + go('p/none') + go('')
    yield 'contexts', flags + structured + meta(OPT_LIST_META_CONTEXT, 'p/v') + meta(OPT_LIST_META_CONTEXT, 'p/v', 'base:')
    yield 'written', flags + go('p/w') + b''.join(
        request(WRITE, o, n, o, f) + bytes([n & 255 | 1]) * n for o, n, f in (
            (0, 8192, 0), (8190, 5, FLAG_FUA), (16384, 20000, 0), (100, 1, 0))) + request(FLUSH) + request(READ, 0, 40000)
    yield 'trimmed', flags + structured + context + go('p/w') + request(WRITE, 0, 40000) + b'z' * 40000 + b''.join(
        request(c, o, n, o, f) for c, o, n, f in (
            (TRIM, 5000, 20000, 0), (WRITE_ZEROES, 100, 9000, FLAG_NO_HOLE), (WRITE_ZEROES, 30000, 10000, FLAG_FAST_ZERO),
            (WRITE_ZEROES, 0, 1 << 20, FLAG_NO_HOLE | FLAG_FAST_ZERO), (BLOCK_STATUS, 0, 1 << 20, 0), (TRIM, 0, 1 << 20, 1),
            (READ, 0, 1 << 20, 0)))
    yield 'half-written', flags + go('p/w') + request(WRITE, 0, 1 << 20) + bytes(70000)
    yield 'beyond', flags + go('p/w') + request(WRITE, 1 << 20, 16) + bytes(16) + request(WRITE_ZEROES, 1 << 40, 1) + b''.join(
        request(c, 5, 5) for c in (FLUSH, TRIM)) + request(WRITE, 0, 33 << 20) + bytes(100)
    yield 'too-long', flags + option(OPT_GO, b'y' * 20000) + option(OPT_LIST)


def _control_seeds():
    yield 'info', command('daemon.info')
    yield 'items', command('items', names=['a', 'b'], count=5) + frame(CANCEL)
    yield 'ask', command('ask', prompt='key') + frame(ANSWER, 1, {'bytes': b'secret'})
    yield 'progress', command('progress', count=3) + command('daemon.info', 2)
    yield 'unknown', command('no.such') + command('')
    yield 'lists', command('dataset.list', names=['p/a'], props=['name', 'used'], depth=1, types=7)
    yield 'get', command('pool.get', name='p', vdev='all') + command('pool.history', 2, name='p', internal=True)
    yield 'status', command('pool.status', names=['p'], errors=True) + command('pool.list', 2)
    yield 'keys', command('key.load', root='p', material=b'1' * 32, check=True) + command('key.info', 2, name='p')
    yield 'space', command('dataset.space', name='p/f', who=2) + command('dataset.diff', 2, to='p/f')
    yield 'version', frame(REQUEST, 1, {'cmd': 'daemon.info'}, version=2)
    yield 'oversize', frame(REQUEST, 1, length=1 << 30)
    yield 'half', command('daemon.info')[:30]


def write_seeds(folder):
    for target, seeds, first in (('nbd', _nbd_seeds(), b'\1'), ('control', _control_seeds(), b'')):
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        for name, data in seeds:
            with open(os.path.join(folder, target, name), 'wb') as f:
                f.write(first + data)


if __name__ == '__main__':
    write_seeds(sys.argv[1])
