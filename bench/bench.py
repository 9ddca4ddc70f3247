#!/usr/bin/env python3
"""The figures of bench/README.md. Started by bench/run.sh, which says what the environment means.

Each figure compares Tarn with something else on the same bytes: the two are measured in turn, from cold caches, and
the ratio of their medians is told beside the promised one. What cannot be measured here is skipped with a word why.
Exit status 1 when a promise is missed.
"""
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.path.realpath(os.environ["BUILD"])
POOLS = os.path.realpath(os.environ["TARN_BENCH_POOLS"])
ZDB = os.environ.get("TARN_ZDB", "")
RUNS = int(os.environ.get("TARN_BENCH_RUNS", "3"))
TARN = os.path.join(BUILD, "tarn")
TARND = os.path.join(BUILD, "tarnd")
GIB = 1 << 30
ARC_MAX = 512 << 20

results = []


class Skip(Exception):
    pass


def run(*words, **options):
    return subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **options).stdout


def timed(*words, **options):
    start = time.monotonic()
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **options)
    return time.monotonic() - start


def image(pool):
    path = os.path.join(POOLS, pool, "disk0.img")
    if not os.path.exists(path):
        raise Skip(f"there is no {path}: see bench/make-pools.sh")
    return path


def need(program):
    if not shutil.which(program):
        raise Skip(f"{program} is not installed")


def cool(path):
    """Forgets what the kernel has cached of a file, and of everything where that is allowed."""
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with contextlib.suppress(OSError), open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


@contextlib.contextmanager
def daemon(pool, mount=False, arc_max=ARC_MAX):
    """A daemon of its own with a pool imported; yields its folder: run/, mnt/."""
    folder = tempfile.mkdtemp(prefix="tarn-bench-")
    env = dict(os.environ, TARN_RUNDIR=folder + "/run", TARN_STATEDIR=folder + "/state")
    process = subprocess.Popen([TARND, "--arc-max", str(arc_max)], env=env, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if os.path.exists(folder + "/run/tarnd.sock"):
                break
            time.sleep(0.05)
        words = [TARN, "zpool", "import", "-o", "readonly=on", "-d", os.path.join(POOLS, pool), "-R", folder + "/mnt"]
        subprocess.run(words + ([] if mount else ["-N"]) + [pool], env=env, check=True)
        yield folder, env, process.pid
    finally:
        subprocess.run([TARN, "stop", "-f"], env=env, check=False)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def in_turn(*things):
    """Runs the functions one after the other, RUNS times; the medians of what they return."""
    taken = [[] for _ in things]
    for _ in range(RUNS):
        for i, thing in enumerate(things):
            taken[i].append(thing())
    return [statistics.median(t) for t in taken]


def fio(*words):
    """MiB/s of one reading job; engines may talk before the report."""
    out = run("fio", "--readonly", "--rw=read", "--output-format=json", *words)
    return json.loads(out[out.index("{\n"):])["jobs"][0]["read"]["bw_bytes"] / (1 << 20)


def rate_of_device(path, size):
    """MiB/s of fio reading the device file past the page cache, one request of 1 MiB after the other."""
    need("fio")
    cool(path)
    return fio("--name=device", f"--filename={path}", "--bs=1M", "--direct=1", f"--size={size}")


def tell(name, ratio, promised, detail, at_least=True):
    good = ratio >= promised if at_least else ratio <= promised
    results.append((name, good))
    print(f"{name:34} {ratio:7.2f}   {'at least' if at_least else 'at most'} {promised:g}: {'held' if good else 'MISSED'}   {detail}",
          flush=True)


# ---- figures ----

def read_through_fuse(pool):
    path = image(pool)
    if not os.path.exists("/dev/fuse"):
        raise Skip("there is no /dev/fuse")
    size = 2 * GIB

    def fuse():
        cool(path)
        with daemon(pool, mount=True) as (folder, _, _):
            return size / (1 << 20) / timed("dd", f"if={folder}/mnt/{pool}/file", "of=/dev/null", "bs=1M", stderr=subprocess.DEVNULL)

    device, tarn = in_turn(lambda: rate_of_device(path, size), fuse)
    tell(f"read {pool} through FUSE", tarn / device, 0.6, f"{tarn:.0f} of {device:.0f} MiB/s (fio, device, O_DIRECT)")


def extract_to_null(pool):
    path = image(pool)
    size = 2 * GIB

    def extract():
        cool(path)
        taken = timed(TARN, "extract", "-d", os.path.dirname(path), f"{pool}:file", "/dev/null")
        return size / (1 << 20) / taken

    device, tarn = in_turn(lambda: rate_of_device(path, size), extract)
    tell(f"extract {pool}", tarn / device, 0.7, f"{tarn:.0f} of {device:.0f} MiB/s (fio, device, O_DIRECT)")


def fio_nbd(uri):
    return fio("--name=nbd", "--ioengine=nbd", f"--uri={uri}", "--bs=128k", "--iodepth=16", f"--size={2 * GIB}")


def read_through_nbd():
    path = image("bigvol")
    need("fio")
    need("nbdkit")
    if "nbd" not in run("fio", "--enghelp").split():
        raise Skip("fio has no nbd engine")

    def tarn():
        cool(path)
        with daemon("bigvol") as (folder, _, _):
            return fio_nbd(f"nbd+unix:///bigvol/vol?socket={folder}/run/nbd.sock")

    def nbdkit():
        cool(path)
        folder = tempfile.mkdtemp(prefix="tarn-bench-")
        process = subprocess.Popen(["nbdkit", "-f", "-r", "-U", folder + "/sock", "file", path])
        try:
            while not os.path.exists(folder + "/sock"):
                time.sleep(0.02)
            return fio_nbd(f"nbd+unix:///?socket={folder}/sock")
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(folder)

    theirs, ours = in_turn(nbdkit, tarn)
    tell("read bigvol through NBD", ours / theirs, 0.7, f"{ours:.0f} of {theirs:.0f} MiB/s (nbdkit file, device)")


def verify(pool):
    path = image(pool)
    if not ZDB:
        raise Skip("there is no zdb of OpenZFS (dev/fetch-zdb.sh)")
    folder = os.path.dirname(path)

    def ours():
        cool(path)
        return timed(TARN, "zdb", "-e", "-p", folder, "-bcc", pool)

    def theirs():
        cool(path)
        return timed(os.path.join(ZDB, "zdb"), "-e", "-p", folder, "-bcc", pool, stderr=subprocess.DEVNULL)

    theirs, ours = in_turn(theirs, ours)
    tell(f"verify {pool} (zdb -bcc)", theirs / ours, 1.0, f"{ours:.1f} s, OpenZFS's zdb {theirs:.1f} s")


def memory_of(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise Skip("the kernel does not tell how much memory a process has had")


def list_snapshots():
    path = image("snaps10k")
    arc_max = 64 << 20
    peak = []

    def listing():
        cool(path)
        with daemon("snaps10k", arc_max=arc_max) as (_, env, pid):
            start = time.monotonic()
            out = run(TARN, "zfs", "list", "-H", "-t", "snapshot", env=env)
            taken = time.monotonic() - start
            peak.append(memory_of(pid))
        if len(out.splitlines()) < 10000:
            raise Skip(f"the pool has only {len(out.splitlines())} snapshots")
        return taken

    (taken,) = in_turn(listing)
    tell("list 10,000 snapshots", taken, 2, "seconds", at_least=False)
    tell("  memory above arc_max", (statistics.median(peak) - arc_max) / (1 << 20), 150, "MiB", at_least=False)


FIGURES = {
    "read": [lambda: read_through_fuse("big128k"), lambda: read_through_fuse("big1m")],
    "extract": [lambda: extract_to_null("big128k"), lambda: extract_to_null("big1m")],
    "nbd": [read_through_nbd],
    "verify": [lambda: verify("big128k"), lambda: verify("big1m"), lambda: verify("snaps10k")],
    "snapshots": [list_snapshots],
}


def main():
    names = sys.argv[1:] or list(FIGURES)
    if any(name not in FIGURES for name in names):
        sys.exit(f"usage: bench/run.sh [{'|'.join(FIGURES)}]...")
    print(f"median of {RUNS} runs each, caches cold")
    for name in names:
        for figure in FIGURES[name]:
            try:
                figure()
            except Skip as why:
                print(f"{name:34} skipped: {why}", flush=True)
            except subprocess.CalledProcessError as failed:
                results.append((name, False))
                print(f"{name:34} FAILED: {' '.join(failed.cmd)}: exit status {failed.returncode}", flush=True)
    held = sum(good for _, good in results)
    print(f"{held} promises held, {len(results) - held} missed")
    sys.exit(held != len(results))


main()
