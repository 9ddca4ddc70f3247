"""What the NBD tests share: addresses, programs that may be missing, a client that speaks the protocol by hand."""

import contextlib
import hashlib
import os
import shutil
import socket
import struct
import tempfile
import textwrap

import wire
from tarnlib import Failure, Skip, check, eq


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise Skip('there is no program ' + p)


def path(t):
    return os.path.join(t.rundir, 'nbd.sock')


def uri(t, export):
    """For exports without characters that mean something in an URI, but for the @ of snapshots."""
    return 'nbd+unix:///%s?socket=%s' % (export, path(t))


def load_key(t, m, dataset):
    """Loads the key of the manifest's data set where it is encrypted."""
    root = m['datasets'][dataset.split('@')[0]].get('encryptionroot', ['-'])[0]
    if root in ('-', '', 'none'):
        return
    key = m['keys'][root]
    data = bytes.fromhex(key['value']) if key['format'] == 'raw' else key['value'].encode()
    with tempfile.NamedTemporaryFile(dir=t.dir) as f:
        f.write(data)
        f.flush()
        t.zfs('load-key', '-L', 'file://' + f.name, root)


def sha256_copied(t, export, *options):
    """The sum of a whole volume as nbdcopy reads it."""
    target = os.path.join(t.dir, 'copy')
    t.run('nbdcopy', *options, uri(t, export), target)
    h = hashlib.sha256()
    with open(target, 'rb') as f:
        for piece in iter(lambda: f.read(1 << 20), b''):
            h.update(piece)
    os.unlink(target)
    return h.hexdigest()


def nbdsh(t, script, code=0):
    """A script of libnbd's shell; h is the handle."""
    r = t.run('/usr/bin/python3', '-c', 'import nbd, nbdsh; nbdsh.shell()', '-c', textwrap.dedent(script), code=None)
    if 'No module named' in r.err:
        raise Skip('libnbd has no Python module')
    eq(r.code, code, r)
    return r


class Client:
    """A connection on which tests say whatever they like."""

    def __init__(self, t=None, address=None, hello=True, timeout=20):
        if address:
            self.s = socket.create_connection(address, timeout)
        else:
            self.s = socket.socket(socket.AF_UNIX)
            self.s.connect(path(t))
            self.s.settimeout(timeout)
        self.structured = False
        if hello:
            self.hello()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def send(self, data):
        self.s.sendall(data)

    def take(self, n):
        out = bytearray()
        while len(out) < n:
            piece = self.s.recv(min(n - len(out), 1 << 20))
            if not piece:
                raise Failure('the server hung up after %d of %d bytes' % (len(out), n))
            out += piece
        return bytes(out)

    def ended(self):
        """True once the server has hung up and nothing more comes."""
        with contextlib.suppress(ConnectionResetError):
            return self.s.recv(1) == b''
        return True

    def hello(self, flags=3):
        magic, opt, server = struct.unpack('>8sQH', self.take(18))
        eq((magic, opt, server), (b'NBDMAGIC', wire.OPT_MAGIC, 3))
        self.send(wire.client_flags(flags))

    def replies(self, data, number):
        """Sends an option; its replies (type, data) up to the last."""
        self.send(data)
        out = []
        while not out or out[-1][0] in (wire.REP_SERVER, wire.REP_INFO, wire.REP_META_CONTEXT):
            magic, opt, kind, length = struct.unpack('>QIII', self.take(20))
            eq((magic, opt), (wire.REP_MAGIC, number))
            out.append((kind, self.take(length)))
        return out

    def option(self, number, data=b''):
        return self.replies(wire.option(number, data), number)

    def go(self, export, *types, structured=False, context=False):
        """Into transmission; the export's size."""
        if structured:
            eq(self.option(wire.OPT_STRUCTURED_REPLY), [(wire.REP_ACK, b'')])
            self.structured = True
        if context:
            r = self.replies(wire.meta(wire.OPT_SET_META_CONTEXT, export, 'base:allocation'), wire.OPT_SET_META_CONTEXT)
            eq([k for k, _ in r], [wire.REP_META_CONTEXT, wire.REP_ACK])
        r = self.replies(wire.go(export, *types), wire.OPT_GO)
        eq(r[-1], (wire.REP_ACK, b''), 'GO ' + export)
        return struct.unpack('>HQH', dict((d[:2], d) for _, d in r)[b'\0\0'])[1]

    def simple(self):
        """(error, cookie) of a simple reply; the data of a read follow."""
        magic, error, cookie = struct.unpack('>IIQ', self.take(16))
        eq(magic, 0x67446698)
        return error, cookie

    def chunks(self):
        """The chunks (type, data) of one structured reply."""
        out = []
        while True:
            magic, flags, kind, _, length = struct.unpack('>IHHQI', self.take(20))
            eq(magic, 0x668e33ef)
            out.append((kind, self.take(length)))
            if flags & 1:
                return out

    def error(self, *request, **kw):
        """A request that must be refused without data; the error."""
        self.send(wire.request(*request, **kw))
        if not self.structured:
            return self.simple()[0]
        (kind, data), = self.chunks()
        eq(kind, wire.CHUNK_ERROR)
        return struct.unpack('>I', data[:4])[0]

    def read(self, offset, length, flags=0):
        """(bytes with zeros where errors were, [(offset, error)])."""
        self.send(wire.request(wire.READ, offset, length, flags=flags))
        if not self.structured:
            error, _ = self.simple()
            return (None, [(None, error)]) if error else (self.take(length), [])
        out, errors, told = bytearray(length), [], 0
        for kind, d in self.chunks():
            if kind == wire.CHUNK_DATA:
                at = struct.unpack('>Q', d[:8])[0] - offset
                out[at:at + len(d) - 8] = d[8:]
                told += len(d) - 8
            elif kind == wire.CHUNK_HOLE:
                told += struct.unpack('>QI', d)[1]
            elif kind == wire.CHUNK_ERROR_OFFSET:
                errors.append((struct.unpack('>Q', d[6:14])[0], struct.unpack('>I', d[:4])[0]))
            elif kind == wire.CHUNK_ERROR:
                errors.append((None, struct.unpack('>I', d[:4])[0]))
        eq(len(out), length)
        check(errors or told == length, 'chunks tell', told, 'of', length, 'bytes')
        return bytes(out), errors
