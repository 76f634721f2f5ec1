"""'bench/compare kv': steps of RocksDB's db_bench beside the same steps of 'esker bench kv'.

Every round runs both, one after the other, and the best of all rounds counts for each, so that a machine whose
speed drifts treats them alike. Both have the same keys, values, block cache, memtables, compression, bits of
filters and threads; what they write and what it takes on disk is shown for both. Filling in order takes one
thread; a settled database (memtables flushed, compaction done) is what is read. Both databases are closed and opened
again before every step, so that each begins with empty caches (and finds its files in the kernel's).
"""
import json, os, re, shutil, subprocess, sys

import machine

# Step of Esker, step of db_bench, in groups that begin with a fresh database.
GROUPS = [
    [("fillseq", "fillseq"), ("settle", None), ("readrandom", "readrandom"), ("readmissing", "readmissing"),
     ("readseq", "readseq"), ("readreverse", "readreverse"), ("seekrandom", "seekrandom"),
     ("readwhilewriting", "readwhilewriting")],
    [("fillrandom", "fillrandom"), ("settle", None), ("overwrite", "overwrite"), ("settle", None),
     ("readrandom", "readrandom"), ("readseq", "readseq"), ("readreverse", "readreverse"),
     ("seekrandom", "seekrandom"), ("deleterandom", "deleterandom"), ("settle", None),
     ("readseq", "readseq"), ("seekrandom", "seekrandom")],
    [("fillsync", "fillsync")],
]
SETTLE = "flush,waitforcompaction"
# Writes of 'fillsync'; db_bench draws their keys from a thousandth of all keys.
SYNCED_WRITES = 40_000
SYNCED_KEYS_PART = 1000


def options(parser):
    parser.add_argument("--tests", help="steps, for example fillseq,readrandom; all if not given")
    parser.add_argument("--num", type=int, default=5_000_000, help="keys")
    parser.add_argument("--ops", type=int, help="operations of a step that is no fill; as many as keys if not given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--key-bytes", type=int, default=16)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--cache-mib", type=int, default=1024, help="block cache of each")
    parser.add_argument("--memtable-mib", type=int, default=64)
    parser.add_argument("--compression", default="lz4", choices=["none", "lz4", "zstd", "levels"],
                        help="'levels' is Esker's own choice, beside LZ4")
    parser.add_argument("--seek-nexts", type=int, default=0, help="seekrandom: rows behind the first")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts")
    parser.add_argument("--seed", type=int, default=1)


def megabytes(directory, suffix=""):
    """What the files below it take on disk."""
    blocks = 0
    for place, _, names in os.walk(directory):
        blocks += sum(os.stat(os.path.join(place, n)).st_blocks for n in names if n.endswith(suffix))
    return blocks * 512 / 1e6


def run_esker(steps, args, directory):
    """The rows of 'esker bench kv'."""
    sync = steps == ["fillsync"]
    num, ops = (max(1, args.num // SYNCED_KEYS_PART), SYNCED_WRITES) if sync else (args.num, args.ops)
    command = [args.binary, "bench", "kv", ",".join(steps), "--json", "--reopen", f"--num={num}", f"--ops={ops}",
               f"--threads={args.threads}", f"--key-bytes={args.key_bytes}",
               f"--value-bytes={args.value_bytes}", f"--cache-mib={args.cache_mib}",
               f"--memtable-mib={args.memtable_mib}", f"--compression={args.compression}",
               f"--seek-nexts={args.seek_nexts}", f"--seed={args.seed}", f"--dir={directory}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"esker bench kv failed: {done.stderr}")
    rows = list(json.loads(done.stdout).values())[0]
    return [r | {"write_amp": r["write amp"], "mb": r["stored MiB"] * 1.048576} for r in rows]


def run_rocksdb(steps, args, directory):
    """Figures of db_bench's steps, each a process of its own."""
    place = os.path.join(directory, "rocksdb")
    rows, amplification, user_bytes, written = [], None, 0, 0
    for number, step in enumerate(steps):
        threads = 1 if step == "fillseq" else args.threads
        is_fill = step.startswith("fill")
        each = (args.num if is_fill else args.ops) // threads
        if step == "fillsync":
            each = SYNCED_WRITES // threads
        stays = [] if is_fill else ["--use_existing_db=1"]
        settle = f",{SETTLE}" if is_fill or step in ("overwrite", "deleterandom") else ""
        compression = "lz4" if args.compression == "levels" else args.compression
        command = ["db_bench", f"--benchmarks={step}{settle},stats", f"--db={place}", f"--num={args.num}",
                   f"--reads={each}", f"--writes={each}", f"--deletes={each}", f"--threads={threads}",
                   f"--key_size={args.key_bytes}", f"--value_size={args.value_bytes}",
                   f"--cache_size={args.cache_mib << 20}", f"--write_buffer_size={args.memtable_mib << 20}",
                   "--max_write_buffer_number=6", "--bloom_bits=10", "--histogram=1",
                   f"--seek_nexts={args.seek_nexts}", f"--seed={args.seed * 1000 + number}",
                   f"--compression_type={compression}", *stays]
        done = subprocess.run(command, capture_output=True, text=True)
        text = done.stdout
        found = re.search(rf"^{step} +: +([\d.]+) micros/op (\d+) ops/sec ([\d.]+) seconds (\d+) operations",
                          text, re.M)
        if not found:
            sys.exit(f"db_bench {step} failed: {text[-2000:]}{done.stderr[-2000:]}")
        shown = re.search(r"P50: ([\d.]+) .*?P99: ([\d.]+)", text, re.S)
        largest = re.search(r"Max: (\d+)", text)
        compacted = re.search(r"Cumulative compaction: ([\d.]+) GB write", text)
        if settle:
            user_bytes = user_bytes if not is_fill else 0
            written = written if not is_fill else 0
            size = args.key_bytes if step == "deleterandom" else args.key_bytes + args.value_bytes
            user_bytes += each * threads * size
            written += float(compacted.group(1)) * (1 << 30) if compacted else 0
            amplification = written / user_bytes if user_bytes else None
        rows.append({"step": step, "ops/s": float(found.group(2)), "mean us": float(found.group(1)),
                     "p50 us": float(shown.group(1)) if shown else None,
                     "p99 us": float(shown.group(2)) if shown else None,
                     "max us": float(largest.group(1)) if largest else None,
                     "write_amp": amplification, "mb": megabytes(place, ".sst")})
    shutil.rmtree(place, ignore_errors=True)
    return rows


def best(old, new):
    """Of two lists of rows, row by row the faster one."""
    if not old:
        return new
    return [a if (a["ops/s"] or 0) >= (b["ops/s"] or 0) else b for a, b in zip(old, new)]


def show(value, width, decimals):
    return f"{'-':>{width}}" if value is None else f"{value:>{width},.{decimals}f}"


def run(args, directory):
    """Runs all groups and prints a line per step and engine; the figures as a list."""
    args.ops = args.ops or args.num
    if not args.no_peer:
        machine.require(machine.DB_BENCH)
    print(f"{args.num} x {args.key_bytes}+{args.value_bytes} bytes, {args.ops} operations, {args.threads} threads, "
          f"cache {args.cache_mib} MiB, memtables of {args.memtable_mib} MiB, compression {args.compression}\n"
          f"{'step':18}{'engine':9}{'ops/s':>12}{'mean us':>10}{'p50 us':>9}{'p99 us':>9}{'max us':>10}"
          f"{'write amp':>11}{'MB':>9}{'esker is':>10}", flush=True)
    results = []
    wanted = args.tests.split(",") if args.tests else None
    for group in GROUPS:
        steps = [s for s in group if not wanted or s[0] in wanted or s in (group[0], ("settle", None))]
        if wanted and not any(s[0] in wanted for s in group):
            continue
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours = best(ours, run_esker([s for s, _ in steps], args, directory))
            if not args.no_peer:
                theirs = best(theirs, run_rocksdb([s for _, s in steps if s], args, directory))
        peers = iter(theirs)
        for number, ((name, peer), mine) in enumerate(zip(steps, ours)):
            if not peer:
                continue
            settled = ours[number + 1] if steps[number + 1:number + 2] == [("settle", None)] else mine
            for engine, row in [("esker", mine), ("rocksdb", next(peers, None))]:
                if row is None:
                    continue
                is_write = name.startswith("fill") or name in ("overwrite", "deleterandom")
                # What settling writes belongs to the step before.
                shown = settled if engine == "esker" else row
                ratio = f"{mine['ops/s'] / row['ops/s']:>9.2f}x" if engine == "rocksdb" else ""
                print(f"{name:18}{engine:9}{show(row['ops/s'], 12, 0)}{show(row['mean us'], 10, 2)}"
                      f"{show(row['p50 us'], 9, 2)}{show(row['p99 us'], 9, 2)}{show(row['max us'], 10, 0)}"
                      f"{show(shown['write_amp'], 11, 2) if is_write else ' ' * 11}{show(shown['mb'], 9, 0)}{ratio}",
                      flush=True)
                results.append({"step": name, "engine": engine} | row)
    return results
