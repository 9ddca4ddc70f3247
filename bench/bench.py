#!/usr/bin/env python3
"""The figures of bench/README.md. Started by bench/run.sh, which says what the environment means.

Each figure compares Tarn with something else on the same bytes: the two are measured in turn, from cold caches, and
the ratio of their medians is told beside the promised one. What cannot be measured here is skipped with a word why.
Exit status 1 when a promise is missed.
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import volumes
from benchlib import (ARC_MAX, GIB, RUNS, TARN, ZDB, Skip, cool, daemon, fio, image, in_turn, memory_of, need,
                      rate_of_device, results, run, tell, timed)


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
    "volumes": [volumes.measure],
    "small": [volumes.small],
    "pools": [volumes.pools],
    "datasets": [volumes.datasets],
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
