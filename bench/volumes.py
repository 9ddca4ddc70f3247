"""Writing: volumes over NBD beside nbdkit on the same disk, and what many data sets cost.

All jobs are fio's nbd engine over a Unix socket, on a pool of one file with checksum on and compression off; what they are
compared with serves a file on the same disk (nbdkit file) or memory (nbdkit memory). Beside each rate: the seconds of
processor time that the daemon took per GiB.
"""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

from benchlib import GIB, RUNS, TARN, Skip, cool, daemon_alone, in_turn, memory_of, need, run, tell, timed

WORK = os.environ.get("TARN_BENCH_DIR") or os.path.join(os.path.realpath(os.environ["BUILD"]), "bench", "work")
SIZE = int(os.environ.get("TARN_BENCH_SIZE", str(2 * GIB)))
SECONDS = int(os.environ.get("TARN_BENCH_SECONDS", "20"))
ARC_MAX = 512 << 20
DIRTY_MAX = 256 << 20
MIB = 1 << 20


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fio(uri, *words, logs=None):
    """The report of one job, and the seconds it took from start to end."""
    logging = [f"--write_iops_log={logs}", "--log_avg_msec=1000"] if logs else []
    start = time.monotonic()
    out = run("fio", "--name=nbd", "--ioengine=nbd", f"--uri={uri}", "--output-format=json", *words, *logging)
    taken = time.monotonic() - start
    return json.loads(out[out.index("{\n"):])["jobs"][0], taken


class Server:
    """Something that serves volumes: rates with and without processor time."""

    def __init__(self, pid, uri_of, cool_down):
        self.pid, self.uri_of, self.cool_down = pid, uri_of, cool_down
        self.cost = {}

    def job(self, name, export, *words, logs=None):
        before = processor_seconds(self.pid)
        job, taken = fio(self.uri_of(export), *words, logs=logs)
        moved = job["read"]["io_bytes"] + job["write"]["io_bytes"]
        self.cost[name] = (processor_seconds(self.pid) - before) / (moved / GIB)
        return job, moved, taken

    def whole_write(self, name, export, *words):
        """MiB/s of writing everything once, the flush at the end included."""
        _, moved, taken = self.job(name, export, "--rw=write", f"--size={SIZE}", "--end_fsync=1", *words)
        return moved / taken / MIB

    def whole_read(self, name, export, *words):
        job, _, _ = self.job(name, export, "--rw=read", f"--size={SIZE}", *words)
        return job["read"]["bw_bytes"] / MIB

    def random_read(self, name, export, *words):
        """Operations a second, each block read once: nothing is in a cache."""
        job, _, _ = self.job(name, export, "--rw=randread", f"--size={SIZE}", *words)
        return job["read"]["iops"]

    def rate(self, name, export, kind, *words, logs=None):
        """Operations a second over some time."""
        job, _, _ = self.job(name, export, f"--rw={kind}", f"--size={SIZE}", "--time_based", f"--runtime={SECONDS}",
                             *words, logs=logs)
        return job["write" if "write" in kind else "read"]["iops"]


@contextlib.contextmanager
def nbdkit(*words, file=None):
    folder = tempfile.mkdtemp(prefix="tarn-bench-")
    process = subprocess.Popen(["nbdkit", "-f", "-U", folder + "/sock", *words])
    try:
        while not os.path.exists(folder + "/sock"):
            time.sleep(0.02)
        yield Server(process.pid, lambda export: f"nbd+unix:///?socket={folder}/sock", lambda: cool(file) if file else None)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


@contextlib.contextmanager
def file_server():
    path = written_file("plain.img", SIZE)
    try:
        with nbdkit("file", path, file=path) as server:
            yield server
    finally:
        os.unlink(path)


def written_file(name, size):
    """A file that was written once, as a disk is: what is only allocated costs the file system below a journal's commit."""
    path = os.path.join(WORK, name)
    with open(path, "wb") as f:
        for _ in range(size // MIB):
            f.write(bytes(MIB))
        os.fsync(f.fileno())
    return path


def pool_file():
    return written_file("pool.img", SIZE * 7 + 2 * GIB)


VOLUMES = {"v128": "128K", "v8": "8K", "s4": "8K", "s128": "128K", "e0": "128K", "e1": "128K", "e2": "128K", "e3": "128K"}


@contextlib.contextmanager
def tarn(arc_max=ARC_MAX, dirty_max=DIRTY_MAX):
    path = pool_file()
    with daemon_alone(arc_max=arc_max) as (folder, env, pid):
        def command(*words):
            subprocess.run([TARN, *words], env=env, check=True, stdout=subprocess.DEVNULL)

        command("tunable", f"zfs_dirty_data_max={dirty_max}")
        command("zpool", "create", "-f", "-O", "compression=off", "-O", "mountpoint=none", "bench", path)
        for name, block in VOLUMES.items():
            command("zfs", "create", "-s", "-b", block, "-V", str(SIZE), "-o",
                    "sync=" + ("always" if name.startswith("s") else "standard"), "bench/" + name)

        def cold():
            command("zpool", "export", "-f", "bench")
            cool(path)
            command("zpool", "import", "-d", path, "-N", "bench")

        yield Server(pid, lambda export: f"nbd+unix:///bench/{export}?socket={folder}/run/nbd.sock", cold)
        peak = memory_of(pid)
        tell("  memory above arc_max + dirty_data", (peak - arc_max - dirty_max) / MIB, 150, "MiB", at_least=False)
        command("zpool", "export", "-f", "bench")
    os.unlink(path)


def least_window(logs):
    """The slowest second, as a part of the mean; the first and last are not whole."""
    with open(logs + "_iops.1.log") as f:
        values = [int(line.split(",")[1]) for line in f]
    values = values[1:-1] or values
    return min(values) / (sum(values) / len(values))


def four_at_once(server):
    """MiB/s of four exports that are written at the same time, by one fio: starting four of them is not what is asked."""
    words = ("--rw=write", "--bs=128k", "--iodepth=16", f"--size={SIZE // 4}", "--end_fsync=1", "--ioengine=nbd")
    jobs = [word for i in range(4) for word in (f"--name=e{i}", *words, f"--uri={server.uri_of(f'e{i}')}")]
    return SIZE / MIB / timed("fio", *jobs)


def plain_sync_latency():
    """Microseconds of a 4K write and fdatasync on that disk."""
    path = os.path.join(WORK, "sync.img")
    out = run("fio", "--name=sync", f"--filename={path}", "--size=256M", "--ioengine=psync", "--rw=randwrite", "--bs=4k",
              "--fdatasync=1", "--time_based", f"--runtime={SECONDS // 2}", "--output-format=json")
    os.unlink(path)
    return 1e6 / json.loads(out[out.index("{\n"):])["jobs"][0]["write"]["iops"]


def measure():
    need("fio")
    need("nbdkit")
    if "nbd" not in run("fio", "--enghelp").split():
        raise Skip("fio has no nbd engine")
    os.makedirs(WORK, exist_ok=True)
    deep, many = ("--bs=128k", "--iodepth=16"), ("--bs=8k", "--iodepth=32")
    with file_server() as plain, nbdkit("memory", str(SIZE)) as memory, tarn() as ours:
        def cost(name):
            return f"{ours.cost[name]:.2f} s/GiB; nbdkit {plain.cost.get(name, memory.cost.get(name, 0)):.2f}"

        def compare(title, name, promised, theirs, us, unit="MiB/s"):
            t, o = in_turn(theirs, us)
            tell(title, o / t, promised, f"{o:.0f} of {t:.0f} {unit}, {cost(name)}")

        compare("write 128K", "w128", 0.6, lambda: plain.whole_write("w128", "", *deep),
                lambda: ours.whole_write("w128", "v128", *deep))
        compare("read 128K cold", "r128", 0.7, lambda: (plain.cool_down(), plain.whole_read("r128", "", *deep))[1],
                lambda: (ours.cool_down(), ours.whole_read("r128", "v128", *deep))[1])
        part = ("--io_size=" + str(SIZE), f"--filesize={ARC_MAX // 2}")
        memory.whole_write("fill", "", *deep)
        ours.whole_read("warm", "v128", "--bs=128k", "--iodepth=16", *part)
        compare("read 128K cached", "rc128", 0.8, lambda: memory.whole_read("rc128", "", *deep, *part),
                lambda: ours.whole_read("rc128", "v128", *deep, *part))
        ours.whole_write("fill", "v8", "--bs=128k", "--iodepth=16")
        compare("random read 8K cold", "rr8", 0.6, lambda: (plain.cool_down(), plain.random_read("rr8", "", *many))[1],
                lambda: (ours.cool_down(), ours.random_read("rr8", "v8", *many))[1], "a second")
        small = (f"--filesize={ARC_MAX // 4}",)
        ours.whole_read("warm", "v8", "--bs=128k", "--iodepth=16", *small)
        compare("random read 8K cached", "rrc8", 0.6, lambda: memory.rate("rrc8", "", "randread", *many, *small),
                lambda: ours.rate("rrc8", "v8", "randread", *many, *small), "a second")
        logs = os.path.join(WORK, "rw8")
        compare("random write 8K", "rw8", 0.5, lambda: plain.rate("rw8", "", "randwrite", *many),
                lambda: ours.rate("rw8", "v8", "randwrite", *many, logs=logs), "a second")
        tell("  its slowest second", least_window(logs), 0.33, "of the mean")
        sync1 = ("--bs=4k", "--iodepth=1")
        disk, us = in_turn(plain_sync_latency, lambda: 1e6 / ours.rate("sw4", "s4", "randwrite", *sync1))
        tell("synchronous 4K write, depth 1", us / disk, 1.5, f"{us:.0f} of {disk:.0f} us, {ours.cost['sw4']:.2f} s/GiB",
             at_least=False)
        (deep32,) = in_turn(lambda: ours.rate("sw4d", "s4", "randwrite", "--bs=4k", "--iodepth=32"))
        tell("  depth 32 against depth 1", deep32 / (1e6 / us), 5, f"{deep32:.0f} a second, {ours.cost['sw4d']:.2f} s/GiB")
        async128, sync128 = in_turn(lambda: ours.whole_write("w128", "v128", *deep),
                                    lambda: ours.whole_write("sw128", "s128", *deep))
        tell("synchronous 128K write", sync128 / async128, 0.5, f"{sync128:.0f} of {async128:.0f} MiB/s, "
             f"{ours.cost['sw128']:.2f} s/GiB")
        ours.whole_write("e", "e0", *deep)
        one, four, memory_one, memory_four = in_turn(
            lambda: ours.whole_write("e", "e0", *deep), lambda: four_at_once(ours),
            lambda: memory.whole_write("e", "", *deep), lambda: four_at_once(memory))
        tell("four exports against one", four / one, 1.0,
             f"{four:.0f} of {one:.0f} MiB/s; nbdkit memory {memory_four / memory_one:.2f}")


def small():
    """A machine of 1 GiB: memory stays within bounds, whatever is read and written."""
    os.makedirs(WORK, exist_ok=True)
    deep, many = ("--bs=128k", "--iodepth=16"), ("--bs=8k", "--iodepth=32")
    with tarn(256 << 20, 64 << 20) as ours:
        rates = [ours.whole_write("w", "v128", *deep), ours.whole_read("r", "v128", *deep), ours.whole_write("f", "v8", *deep)]
        rates += [ours.rate("rr", "v8", "randread", *many), ours.rate("rw", "v8", "randwrite", *many)]
        print("  arc_max 256 MiB, dirty_data_max 64 MiB: 128K write %.0f, read %.0f MiB/s; 8K read %.0f, write %.0f a second" %
              tuple(rates[:2] + rates[3:]), flush=True)


def latencies(job):
    """Milliseconds: the median, the 99th percentile, the slowest."""
    lat = job["write"]["clat_ns"]
    return [lat["percentile"]["50.000000"] / 1e6, lat["percentile"]["99.000000"] / 1e6, lat["max"] / 1e6]


def pools():
    """Two pools in one daemon: one under a storm of 4K writes to a volume of 16K blocks, the other in no hurry."""
    os.makedirs(WORK, exist_ok=True)
    paths = [os.path.join(WORK, name) for name in ("stormy.img", "calm.img")]
    with daemon_alone(arc_max=ARC_MAX) as (folder, env, _):
        for path, pool, block in zip(paths, ("stormy", "calm"), ("16K", "8K")):
            with open(path, "wb") as f:
                os.posix_fallocate(f.fileno(), 0, 2 * SIZE)
            subprocess.run([TARN, "zpool", "create", "-f", "-O", "mountpoint=none", pool, path], env=env, check=True)
            subprocess.run([TARN, "zfs", "create", "-s", "-b", block, "-V", str(SIZE), pool + "/v"], env=env, check=True)

        def words(pool, depth):
            return ["--name=nbd", "--ioengine=nbd", f"--uri=nbd+unix:///{pool}/v?socket={folder}/run/nbd.sock", "--rw=randwrite",
                    "--bs=4k", f"--iodepth={depth}", f"--size={SIZE}", "--time_based", "--output-format=json"]

        def calm():
            out = run("fio", *words("calm", 1), f"--runtime={SECONDS}")
            return latencies(json.loads(out[out.index("{\n"):])["jobs"][0])

        alone = calm()
        storm = subprocess.Popen(["fio", *words("stormy", 32), f"--runtime={SECONDS + 4}"], stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        beside = calm()
        out = storm.communicate()[0]
        storm_job = json.loads(out[out.index("{\n"):])["jobs"][0]
        told = "median %.2f, 99%% %.2f, slowest %.0f ms"
        tell("calm pool beside a stormy one", beside[2], 1000, "its slowest request, ms", at_least=False)
        print("  calm alone: " + told % tuple(alone))
        print("  calm beside the storm: " + told % tuple(beside))
        print("  the storm: %.0f a second, " % storm_job["write"]["iops"] + told % tuple(latencies(storm_job)), flush=True)
        for pool in ("stormy", "calm"):
            subprocess.run([TARN, "zpool", "destroy", "-f", pool], env=env, check=True)
    for path in paths:
        os.unlink(path)


def datasets():
    """Creating, snapshotting and destroying many: the second half may cost no more than the first."""
    os.makedirs(WORK, exist_ok=True)
    count = int(os.environ.get("TARN_BENCH_DATASETS", "10000"))
    path = pool_file()
    with daemon_alone(arc_max=ARC_MAX) as (_, env, pid):
        def command(*words):
            subprocess.run([TARN, *words], env=env, check=True, stdout=subprocess.DEVNULL)

        def create(first, last):
            start = time.monotonic()
            for i in range(first, last):
                command("zfs", "create", "-u", f"bench/g{i // 100}/d{i}")
            return time.monotonic() - start

        command("zpool", "create", "-f", "-O", "mountpoint=none", "bench", path)
        for i in range(count // 100 + 1):
            command("zfs", "create", "-u", f"bench/g{i}")
        half = create(0, count // 2)
        other = create(count // 2, count)
        tell(f"create {count} file systems", other / half, 1.3, f"second half against first; {half + other:.0f} s",
             at_least=False)
        for what, words in (("snapshot", ("snapshot", "-r", "bench@all")), ("destroy", ("destroy", "-r", "bench/g0"))):
            start = time.monotonic()
            command("zfs", *words)
            print(f"  {what}: {time.monotonic() - start:.1f} s", flush=True)
        start = time.monotonic()
        command("zfs", "destroy", "-r", "bench")
        print(f"  destroy all: {time.monotonic() - start:.1f} s; peak {memory_of(pid) / MIB:.0f} MiB", flush=True)
        command("zpool", "destroy", "bench")
    os.unlink(path)
