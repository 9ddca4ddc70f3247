#!/usr/bin/env python3
"""Random changes of data sets leave pools that OpenZFS's zdb finds whole: no leak, no block freed too early, no object
left over, and in all snapshots and clones the bytes that were there.

    test_dataset_write.py POOLSH made              pools made on the spot
    test_dataset_write.py POOLSH golden POOL       below the data sets of a pool of $TARN_POOLS, and on these

TARN_SEEDS: how many sequences (3), TARN_STEPS: how long each (120). Exit 77 where zdb or the pool cannot be had.
"""
import os
import random
import sys
import tempfile

from test_pool_write import OLD, golden_unpack, is_whole, make_file, poolsh, skip, zdb_path

REGION = 65536
REGIONS = 24


class Model:
    """Names below `base`, and what is in them; `commands` is what poolsh is to do."""

    def __init__(self, seed, base):
        self.r = random.Random(seed)
        self.base = base
        self.heads = {}  # name: [contents, origin snapshot]
        self.snaps = {}  # name: [contents, owner, order]
        self.commands = []
        self.n = 0
        self.order = 0

    def new(self, letter):
        self.n += 1
        return f'{letter}{self.n}'

    def do(self, *words):
        self.commands.append(words[0] + '=' + ':'.join(str(w) for w in words[1:]))

    def head(self):
        return self.r.choice(sorted(self.heads)) if self.heads else None

    def snap(self):
        return self.r.choice(sorted(self.snaps)) if self.snaps else None

    def snaps_of(self, head):
        return sorted((s for s in self.snaps if self.snaps[s][1] == head), key=lambda s: self.snaps[s][2])

    def create(self):
        name = self.base + self.new('v')
        self.heads[name] = [{}, None]
        self.do('volume', name, REGION * REGIONS, self.r.choice([4096, 8192, 16384]))

    def write(self):
        name = self.head()
        for _ in range(self.r.randint(1, 4) if name else 0):
            at, seed = self.r.randrange(REGIONS), self.r.randrange(1, 1000)
            if self.r.random() < 0.2:
                self.heads[name][0].pop(at, None)
                self.do('zero', name, at * REGION, REGION, 0)
            else:
                self.heads[name][0][at] = seed
                self.do('write', name, at * REGION, REGION, seed)

    def snapshot(self):
        name = self.head()
        if name:
            self.order += 1
            snap = name + '@' + self.new('s')
            self.snaps[snap] = [dict(self.heads[name][0]), name, self.order]
            self.do('snapshot', snap)

    def clone(self):
        snap = self.snap()
        if snap:
            name = self.base + self.new('c')
            self.heads[name] = [dict(self.snaps[snap][0]), snap]
            self.do('clone', snap, name)

    def snap_renamed(self, old, new):
        self.snaps[new] = self.snaps.pop(old)
        for h in self.heads.values():
            if h[1] == old:
                h[1] = new

    def promote(self):
        name = self.head()
        if not name or not self.heads[name][1]:
            return
        origin = self.heads[name][1]
        old, order = self.snaps[origin][1], self.snaps[origin][2]
        self.heads[name][1], self.heads[old][1] = self.heads[old][1], origin
        for s in self.snaps_of(old):
            if self.snaps[s][2] <= order:
                self.snaps[s][1] = name
                self.snap_renamed(s, name + '@' + s.split('@')[1])
        self.do('promote', name)

    def rollback(self):
        name = self.head()
        mine = self.snaps_of(name) if name else []
        if mine:
            self.heads[name][0] = dict(self.snaps[mine[-1]][0])
            self.do('rollback', name)

    def rename(self):
        name = self.head()
        if not name:
            return
        new = self.base + self.new('r')
        self.heads[new] = self.heads.pop(name)
        for s in self.snaps_of(name):
            self.snaps[s][1] = new
            self.snap_renamed(s, new + '@' + s.split('@')[1])
        self.do('rename', name, new)

    def destroy(self):
        name = self.head()
        if name and not self.snaps_of(name):
            del self.heads[name]
            self.do('destroy-fs', name)

    def destroy_snapshot(self):
        snap = self.snap()
        if snap and not any(h[1] == snap for h in self.heads.values()):
            del self.snaps[snap]
            self.do('destroy-snapshot', snap)

    def reserve(self):
        name = self.head()
        if name:
            self.commands.append(f'?prop={name}:refreservation={self.r.choice(["none", "1M", "3M", "auto"])}')

    def again(self):
        self.commands += self.r.choice([['sync'], ['export', 'import']])

    def run(self, steps):
        what = {self.write: 30, self.create: 7, self.snapshot: 18, self.clone: 9, self.promote: 10, self.rollback: 6,
                self.rename: 4, self.destroy: 9, self.destroy_snapshot: 16, self.reserve: 4, self.again: 4}
        for _ in range(steps):
            self.r.choices(list(what), list(what.values()))[0]()
        for name, contents in [(n, h[0]) for n, h in self.heads.items()] + [(n, s[0]) for n, s in self.snaps.items()]:
            for at, seed in contents.items():
                self.do('check', name, at * REGION, REGION, seed)
        return self.commands


def in_pieces(program, folder, commands, head, first):
    """A command line has its limits; between pieces the pool is exported."""
    for i in range(0, len(commands), 400):
        ok, why = poolsh(program, folder, (head if i == 0 else first) + commands[i:i + 400])
        if not ok:
            return False, why
    return True, ''


def made(program, zdb, seed, steps):
    kind = random.Random(seed).choice([[], ['kind=mirror'], ['kind=raidz1']])
    off = random.Random(seed + 1).choice([[], ['-o=feature@async_destroy=disabled'], ['-o=feature@empty_bpobj=disabled'],
                                          ['-o=feature@log_spacemap=disabled'], ['-o=feature@bookmark_v2=disabled']])
    with tempfile.TemporaryDirectory(prefix='tarn-sets-') as folder:
        for i in range(3):
            make_file(folder, f'd{i}')
        ok, _ = in_pieces(program, folder, Model(seed, '').run(steps), OLD + off + kind + ['create'], ['import'])
        return ok and is_whole(zdb, folder, 'live')


def golden(program, zdb, pool, seed, steps):
    """Snapshots of what was there come and go, and so does what can go of it."""
    with tempfile.TemporaryDirectory(prefix='tarn-sets-') as folder:
        manifest = golden_unpack(pool, folder)
        name = manifest['pool']['name']
        sets = [d[len(name) + 1:] for d in manifest['datasets'] if d.startswith(name + '/') and '%' not in d]
        r = random.Random(seed)
        work = []
        for s in sorted(sets):
            if '@' in s and r.random() < 0.5:
                work.append('?destroy-snapshot=' + s)
            elif '@' not in s:
                work += [f'?snapshot={s}@tarn', f'?rollback={s}']
                work += [f'?promote={s}'] if r.random() < 0.5 else []
                work += [f'?destroy-snapshot={s}@tarn'] if r.random() < 0.5 else []
                work += [f'?destroy-fs={s}'] if r.random() < 0.3 else []
        ok, why = in_pieces(program, folder, work + Model(seed, 'random-').run(steps), ['import'], ['import'])
        if not ok and 'readonly=on' in why:
            skip(why.split('\n')[0])
        if not ok and 'out of space' in why:
            skip('the pool is full')
        return ok and is_whole(zdb, folder, name)


def main():
    program, kind = sys.argv[1:3]
    zdb = zdb_path()
    seeds, steps = int(os.environ.get('TARN_SEEDS', 3)), int(os.environ.get('TARN_STEPS', 120))
    first = int(os.environ.get('TARN_SEED', 1))
    for seed in range(first, first + seeds):
        if not (made(program, zdb, seed, steps) if kind == 'made' else golden(program, zdb, sys.argv[3], seed, steps)):
            print('seed', seed)
            sys.exit(1)


if __name__ == '__main__':
    main()
