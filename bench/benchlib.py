"""What the figures share: programs, daemons, medians, telling what came out."""
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
def daemon_alone(*options, arc_max=ARC_MAX):
    """A daemon of its own; yields its folder (run/, state/), environment and process id."""
    folder = tempfile.mkdtemp(prefix="tarn-bench-")
    env = dict(os.environ, TARN_RUNDIR=folder + "/run", TARN_STATEDIR=folder + "/state")
    process = subprocess.Popen([TARND, "--arc-max", str(arc_max), *options], env=env, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if os.path.exists(folder + "/run/tarnd.sock"):
                break
            time.sleep(0.05)
        yield folder, env, process.pid
    finally:
        subprocess.run([TARN, "stop", "-f"], env=env, check=False)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def daemon(pool, mount=False, arc_max=ARC_MAX):
    """A daemon with one of the pools imported, mounted below mnt/."""
    with daemon_alone(arc_max=arc_max) as (folder, env, pid):
        words = [TARN, "zpool", "import", "-o", "readonly=on", "-d", os.path.join(POOLS, pool), "-R", folder + "/mnt"]
        subprocess.run(words + ([] if mount else ["-N"]) + [pool], env=env, check=True)
        yield folder, env, pid


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


def memory_of(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise Skip("the kernel does not tell how much memory a process has had")
