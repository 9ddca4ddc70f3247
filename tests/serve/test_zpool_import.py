"""zpool import and export: what is found, what comes up, what is refused."""

import os

import tarnlib
from tarnlib import check, contains, eq, golden


def test_import_and_export(t):
    name = t.import_pool('mirror')
    eq(t.zpool('list', '-H', '-o', 'name,health').out, name + '\tONLINE\n')
    t.zpool('export', name)
    r = t.zpool('list')
    eq((r.out, r.code), ('no pools available\n', 0))


def test_listing(t):
    r = t.zpool('import', '-d', golden('mirror'))
    contains(r.out, '   pool: ' + t.pool_name('mirror'))
    contains(r.out, 'mirror-0')
    contains(r.out, os.path.join(golden('mirror'), 'disk1.img'))


def test_missing_side_of_a_mirror(t):
    folder = t.copy_pool('mirror')
    os.unlink(os.path.join(folder, 'disk1.img'))
    name = t.import_pool('mirror', folder=folder)
    r = t.zpool('status', name)
    contains(r.out, 'state: DEGRADED')
    check('UNAVAIL' in r.out and 'was ' in r.out, r)


tarnlib.main(globals())
