"""The machine with OpenZFS: $TARN_ORACLE, called as

    $TARN_ORACLE run [--timeout SECONDS] [--mem MIB] --share DIR [--disk FILE]... -- 'COMMANDS'

runs the commands as root there; DIR is copied to /share and back. Starting it costs more than what is done in it, so many
pools are shown to it at once, each in a folder of its own.
"""

import os
import re
import subprocess

from tarnlib import Skip, check
from worklib import Pool

# What both sides are asked; %s is the pool.
QUESTIONS = {
    'props': 'zfs get -Hp -r -t filesystem,volume,snapshot,bookmark -o name,property,value,source all %s',
    'pool': 'zpool get -Hp all %s',
    'history': 'zpool history -il %s',
    'names': 'zfs list -Hp -r -t all -o name,used,referenced,available %s',
}
EACH = {
    'holds': ('snapshot', 'zfs holds -H %s'),
    'allow': ('filesystem,volume', 'zfs allow %s'),
}

# What the two see apart: mounts, and what is not in the pool.
APART = {'mounted', 'load_guid', 'mountpoint', 'snapshots_changed', 'altroot', 'cachefile', 'expandsize', 'readonly'}
# OpenZFS 2.1 shows these otherwise than later versions: defaults that changed, and words for what is not set.
NEWER_DEFAULTS = {'compression': ('off', 'on'), 'xattr': ('on', 'sa'), 'relatime': ('off', 'on')}
UNSET = ('none', '18446744073709551615')
# Space that OpenZFS knows in pools imported for writing only.
SPACE_OF_POOL = {'allocated', 'free', 'capacity', 'fragmentation', 'freeing', 'leaked', 'size', 'dedupratio'}

GUEST = r'''
look() { # POOL DIR
	mkdir -p $2
%(questions)s
%(each)s
}
sums() { # POOL FILE: what its volumes hold, and their snapshots where they are devices
	zvm-links >/dev/null 2>&1
	: >$2
	for v in $(zfs list -Hr -o name -t volume,snapshot $1); do
		[ ! -e /dev/zvol/$v ] || echo "$v $(sha256sum </dev/zvol/$v | cut -d' ' -f1)" >>$2
	done
}
'''


def guest_functions():
    questions = ''.join('\t%s >$2/%s 2>&1\n' % (q % '$1', name) for name, q in QUESTIONS.items())
    each = ''.join('\tfor d in $(zfs list -Hr -o name -t %s $1); do echo "== $d"; %s; done >$2/%s 2>&1\n' % (
        kind, q % '$d', name) for name, (kind, q) in EACH.items())
    return GUEST % {'questions': questions, 'each': each}


def oracle():
    program = os.environ.get('TARN_ORACLE')
    if not program:
        raise Skip('TARN_ORACLE does not name a program that runs a machine with OpenZFS')
    return program


def in_guest(share, script, timeout=1800, options=(), code=0):
    """Runs the script (after the functions of GUEST) with the folder as /share; what it printed."""
    argv = [oracle(), 'run', '--timeout', str(timeout), '--mem', '6144', '--share', share, *options, '--',
            guest_functions() + script]
    lock = os.environ.get('TARN_ORACLE_LOCK')
    p = subprocess.run((['flock', lock] if lock else []) + argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       stdin=subprocess.DEVNULL, text=True, errors='replace')
    check(p.returncode == code, 'the guest ends with', p.returncode, p.stdout[-6000:])
    return p.stdout


def look(pool):
    """The same questions put to us: name of the question -> text."""
    t = pool.t
    out = {}
    for name, q in QUESTIONS.items():
        out[name] = t.tarn(*(q % pool.name).split(), code=None).out
    for name, (kind, q) in EACH.items():
        names = t.zfs('list', '-Hr', '-o', 'name', '-t', kind, pool.name, code=None).lines()
        out[name] = ''.join('== %s\n' % n + t.tarn(*(q % n).split(), code=None).out for n in names)
    return out


def theirs(folder):
    out = {}
    for name in [*QUESTIONS, *EACH]:
        with open(os.path.join(folder, name), encoding='utf-8', errors='surrogateescape') as f:
            out[name] = f.read()
    return out


def table(text, keys):
    """Lines of -H output as a mapping from their first columns."""
    rows = [line.split('\t') for line in text.splitlines()]
    return {tuple(r[:keys]): tuple(r[keys:]) for r in rows}


def same_value(prop, mine, yours):
    if mine == yours or prop in APART or prop in SPACE_OF_POOL:
        return True
    if prop in NEWER_DEFAULTS and mine[-1] == yours[-1] == 'default':
        return (yours[0], mine[0]) == NEWER_DEFAULTS[prop]
    if prop == 'volblocksize':
        return mine[0] == yours[0]
    return prop.endswith(('_limit', '_count')) and mine[1:] == yours[1:] and {mine[0], yours[0]} <= set(UNSET)


def differences(mine, yours):
    """What the two say differently, as lines: - we, + they. Properties of later versions have nothing to be compared with."""
    out = []
    for name, keys in (('props', 2), ('pool', 2), ('names', 1)):
        a, b = table(mine[name], keys), table(yours[name], keys)
        for key in sorted(set(a) | set(b)):
            if key in a and key in b:
                if not same_value(key[-1], a[key], b[key]):
                    out.append('%s %s: - %s + %s' % (name, ' '.join(key), ' '.join(a[key]), ' '.join(b[key])))
            elif name == 'names' or key not in a and key[-1] not in APART:
                out.append('%s %s: only %s' % (name, ' '.join(key), 'we' if key in a else 'they'))
    for name in ('history', 'holds', 'allow'):
        a, b = plain(mine[name]), plain(yours[name])
        out += ['%s: - %s' % (name, line) for line in a if line not in b]
        out += ['%s: + %s' % (name, line) for line in b if line not in a]
    return out


def plain(text):
    return [re.sub(r'\s+', ' ', line).strip() for line in text.splitlines() if line.strip()]


class Shown(Pool):
    """A pool whose folder is shared with the guest."""

    def __init__(self, t, name, share, old=True):
        super().__init__(t, name, old)
        os.rmdir(self.folder)
        self.folder = os.path.join(share, name)
        os.makedirs(self.folder, exist_ok=True)
