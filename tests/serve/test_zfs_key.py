"""zfs load-key and unload-key: the three formats from files, pipes and a terminal; wrong keys; many keys at once."""

import os

import tarnlib
from tarnlib import check, contains, eq, manifest

POOL = 'encryption'


def status(t, name):
    return t.zfs('get', '-Ho', 'value', 'keystatus', name).out.strip()


def test_files_of_every_format(t):
    t.import_pool(POOL)
    for root in ('secret/aes-128-ccm', 'secret/aes-192-ccm', 'secret/aes-256-ccm'):  # passphrase, hex, raw
        where = 'file://' + t.key_file(POOL, root)
        eq(status(t, root), 'unavailable')
        t.zfs('load-key', '-n', '-L', where, root)
        eq(status(t, root), 'unavailable', 'after -n')
        t.zfs('load-key', '-L', where, root)
        eq(status(t, root), 'available')
        contains(t.zfs('load-key', '-L', where, root, code=1).err, 'already loaded')
        t.zfs('load-key', '-n', '-L', where, root)
        t.zfs('unload-key', root)
        eq(status(t, root), 'unavailable')
        contains(t.zfs('unload-key', root, code=1).err, 'not loaded')


def test_pipe_and_terminal(t):
    t.import_pool(POOL)
    root, key = 'secret/aes-128-ccm', manifest(POOL)['keys']['secret/aes-128-ccm']['value']
    t.zfs('load-key', '-L', 'prompt', root, input=key + '\n')
    eq(status(t, root + '/child'), 'available')
    t.zfs('unload-key', root)
    code, shown = t.on_terminal('zfs', 'load-key', '-L', 'prompt', root, answers=['not the one', key])
    eq(code, 0, shown)
    contains(shown, "Enter passphrase for '%s': " % root)
    contains(shown, 'ncorrect key')
    check(key not in shown, 'the terminal showed the passphrase')
    eq(status(t, root), 'available')
    t.zfs('unload-key', root)
    code, shown = t.on_terminal('zfs', 'load-key', '-L', 'prompt', root, answers=['wrong one'] * 3)
    eq(code, 1, shown)
    eq(shown.count('ncorrect key'), 3)
    eq(status(t, root), 'unavailable')
    raw = bytes.fromhex(manifest(POOL)['keys']['secret/vol']['value'])
    t.zfs('load-key', '-L', 'prompt', 'secret/vol', input=raw)
    eq(status(t, 'secret/vol'), 'available')


def test_wrong_keys(t):
    t.import_pool(POOL)
    hexroot, rawroot, wordroot = 'secret/aes-192-ccm', 'secret/aes-256-ccm', 'secret/aes-128-ccm'
    for root, data, word in ((hexroot, b'a51f\n', '64'), (hexroot, b'zz' * 32 + b'\n', 'hexadecimal'),
                             (hexroot, b'00' * 32 + b'\n', 'ncorrect key'), (rawroot, b'x' * 31, '32'),
                             (rawroot, b'x' * 64, '32'), (rawroot, b'x' * 32, 'ncorrect key'),
                             (wordroot, b'short\n', '8'), (wordroot, b'long enough\n', 'ncorrect key'),
                             (wordroot, b'', ''), (wordroot, b'y' * 5000, '')):
        path = os.path.join(t.dir, 'wrong')
        with open(path, 'wb') as f:
            f.write(data)
        for option in ([], ['-n']):
            r = t.zfs('load-key', *option, '-L', 'file://' + path, root, code=1)
            contains(r.err, "'%s'" % root)
            contains(r.err, word)
        eq(status(t, root), 'unavailable', data[:20])
    for location in ('file:///not/here', 'nonsense', 'https://127.0.0.1/key'):
        contains(t.zfs('load-key', '-L', location, rawroot, code=1).err, rawroot)


def test_which_data_sets(t):
    t.import_pool(POOL)
    where = 'file://' + t.key_file(POOL, 'secret/aes-128-ccm')
    r = t.zfs('load-key', '-L', where, 'secret/aes-128-ccm/child', code=1)
    contains(r.err, "'secret/aes-128-ccm'")
    contains(t.zfs('unload-key', 'secret/aes-128-ccm/child', code=1).err, "'secret/aes-128-ccm'")
    for command in ('load-key', 'unload-key'):
        contains(t.zfs(command, 'secret/plain', code=1).err, 'not encrypted')
        for name in ('nopool', 'secret/nothere'):
            contains(t.zfs(command, name, code=1).err, 'dataset does not exist')
        for argv in ([], ['-q'], ['-a', 'secret/vol'], ['secret/vol', 'secret/dd']):
            t.zfs(command, *argv, code=2)
    # nested roots have keys of their own; what inherits follows its root
    t.zfs('load-key', '-L', where, 'secret/aes-128-ccm')
    eq(status(t, 'secret/aes-128-ccm/child/grandchild'), 'available')
    eq(status(t, 'secret/aes-128-ccm/child/inner'), 'unavailable')
    eq(status(t, 'secret/plain'), '-')


def test_many(t):
    t.import_pool(POOL)
    keys = [k for k in manifest(POOL)['keys'] if k != 'secret/parent']
    # each keylocation is a file that is not here, but secret/parent's, which is the prompt
    r = t.zfs('load-key', '-a', input=manifest(POOL)['keys']['secret/parent']['value'] + '\n', code=1)
    contains(r.out, '1 / %d key(s) successfully loaded' % (len(keys) + 1))
    eq(r.err.count('cannot load'), len(keys))
    eq(status(t, 'secret/parent/joined'), 'available')
    for root in keys[:3]:
        t.zfs('load-key', '-L', 'file://' + t.key_file(POOL, root), root)
    contains(t.zfs('unload-key', '-r', 'secret').out, '4 / 4 key(s) successfully unloaded')
    eq(t.zfs('unload-key', '-a').code, 0)
    check('available' not in t.zfs('get', '-r', '-Ho', 'value', 'keystatus', 'secret').lines())


tarnlib.main(globals())
