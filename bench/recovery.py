"""'bench/compare recovery': restarts after kill -9, of servers and of the engines alone.

One sysbench table with an index is filled while everything stays in the log; the server is killed and started on
copies of what is left: time to the first answer, to a full COUNT(*). The engine alone is restarted beside RocksDB's
(db_bench), keys in order and in none. With '--binlog' servers only, Esker with its binary log as well: the log has the
events of every transaction beside its rows then, which a restart has to read past.
"""
import glob, json, os, random, re, shutil, statistics, subprocess, sys, time

import machine, servers
from servers import BINLOG, ESKER, INNODB, MYROCKS, WITH_BINLOG

# Nothing is flushed before the crash.
UNFLUSHED = ["--esker-memtable-size=4G", "--esker-log-live-size=64G"]
SETTINGS = {
    ESKER: UNFLUSHED,
    BINLOG: [*UNFLUSHED, *WITH_BINLOG[BINLOG]],
    INNODB: ["--innodb-adaptive-flushing=OFF", "--innodb-max-dirty-pages-pct=99"],
    MYROCKS: ["--rocksdb-max-total-wal-size=8589934592", "--rocksdb-db-write-buffer-size=6442450944",
              "--rocksdb-default-cf-options=write_buffer_size=2g;max_write_buffer_number=4"],
}


def options(parser):
    parser.add_argument("--size", type=int, default=2_000_000, help="rows")
    parser.add_argument("--runs", type=int, default=3, help="restarts of each server")
    parser.add_argument("--value-bytes", type=int, default=100, help="of the engines alone")
    parser.add_argument("--rows-per-insert", type=int, default=1000, help="of each transaction that fills the table")
    parser.add_argument("--binlog", action="store_true", help="what events in the log cost: servers only")
    parser.add_argument("--cold", action="store_true", help="drop the page cache first (root)")


def run(args, directory):
    compared = (ESKER, BINLOG) if args.binlog else (ESKER, INNODB, MYROCKS)
    with servers.running(args, directory, compared, more=SETTINGS) as running:
        results = restarts(running, args)
    return results if args.binlog else results + engines_alone(directory, args)


def random_rows(rows, per_insert):
    """The statements that fill a sysbench table, the same each time."""
    rnd = random.Random(1)
    groups = lambda n: "-".join(f"{rnd.randrange(10**11):011}" for _ in range(n))
    tails = [f"-{groups(9)}','{groups(5)}')" for _ in range(4096)]
    for start in range(0, rows, per_insert):
        values = (f"({rnd.randrange(rows) + 1},'{rnd.getrandbits(36):011}{tails[rnd.getrandbits(12)]}"
                  for _ in range(min(per_insert, rows - start)))
        yield "INSERT INTO sbtest1 (k, c, pad) VALUES " + ",".join(values) + ";\n"


def fill_table(server, rows, per_insert):
    server.sql("CREATE DATABASE sbtest; CREATE TABLE sbtest.sbtest1 (id INT NOT NULL AUTO_INCREMENT, "
               "k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL "
               f"DEFAULT '', PRIMARY KEY (id), KEY k_1 (k)) ENGINE={server.storage_engine}")
    client = subprocess.Popen(server.client("sbtest"), stdin=subprocess.PIPE, text=True)
    for statement in random_rows(rows, per_insert):
        client.stdin.write(statement)
    client.stdin.close()
    if client.wait() != 0:
        sys.exit(f"{server.name}: the table could not be filled")


def bytes_of(pattern):
    return sum(map(os.path.getsize, glob.glob(pattern)))


def log_bytes(server):
    """Bytes of log that a restart has to look at; whatever is flushed already is said."""
    if server.storage_engine == "rocksdb":
        place = os.path.join(server.directory, "data", "#rocksdb", "")
        print(f"# {server.name}: {bytes_of(place + '*.sst')} bytes in SST files before the crash", flush=True)
        return bytes_of(place + "*.log")
    if server.is_esker:
        return int(server.status("Esker_log_live_bytes"))
    text = server.sql("SHOW ENGINE INNODB STATUS").stdout
    end, checkpoint = (int(re.search(f"{what}\\s+(\\d+)", text).group(1))
                       for what in ("Log sequence number", "Last checkpoint at"))
    return end - checkpoint


def restart(server, args):
    """Starts a server that was killed, on a copy of what it left; times from the start of the process."""
    data = os.path.join(server.directory, "data")
    shutil.rmtree(data, ignore_errors=True)
    subprocess.run(["cp", "-a", data + ".crashed", data], check=True)
    machine.settle_disk(args.cold)
    started = time.time()
    server.spawn()
    session = server.await_login()
    session.ask(f"SELECT c FROM sbtest.sbtest1 WHERE id = {max(args.size // 2, 1)}")
    first = time.time() - started
    count = int(session.ask("SELECT COUNT(*) FROM sbtest.sbtest1"))
    counted = time.time() - started
    if count != args.size:
        sys.exit(f"{server.name} has {count} rows of {args.size}")
    result = {"server": server.name, "first_s": first, "count_s": counted, "cpu_s": server.cpu_seconds()}
    if server.is_esker:
        shown = lambda name: server.status(f"Esker_recovery_{name}")
        while shown("phase") != "DONE":
            time.sleep(0.01)
        result |= {n: int(shown(n)) for n in ("rows", "until_ready", "elapsed", "flushes")}
    session.close()
    server.kill()
    return result


def replayed(m):
    """Rows that a second of an Esker's replay has brought back, index entries among them."""
    return f"{m['rows'] / m['elapsed'] * 1000:.0f}" if m.get("elapsed") else ""


def restarts(running, args):
    sizes, results = {}, []
    for s in running:
        started = time.time()
        fill_table(s, args.size, args.rows_per_insert)
        sizes[s.name] = log_bytes(s)
        print(f"# {s.name}: {args.size} rows in {time.time() - started:.1f} s, "
              f"{sizes[s.name] / 1e6:.0f} MB of log", flush=True)
        s.kill()
        data = os.path.join(s.directory, "data")
        os.rename(data, data + ".crashed")
    for _ in range(args.runs):
        for s in running:
            results.append(restart(s, args) | {"log_bytes": sizes[s.name]})
    print(f"\nrestart after kill -9, {args.size} rows with an index, log "
          f"{'on disk only' if args.cold else 'in the page cache'}, median of {args.runs}\n"
          f"{'server':14}{'log MB':>8}{'first s':>9}{'count s':>9}{'rows/s':>10}{'replayed/s':>12}{'cpu s':>8}"
          f"{'first, esker is':>17}{'count':>8}", flush=True)
    base = None
    for s in running:
        mine = [r for r in results if r["server"] == s.name]
        m = {k: statistics.median(r[k] for r in mine) for k in mine[0] if k != "server"}
        base = base or m
        print(f"{s.name:14}{m['log_bytes'] / 1e6:>8.0f}{m['first_s']:>9.3f}{m['count_s']:>9.3f}"
              f"{args.size / m['count_s']:>10.0f}{replayed(m):>12}{m['cpu_s']:>8.2f}"
              f"{m['first_s'] / base['first_s']:>16.2f}x{m['count_s'] / base['count_s']:>7.2f}x",
              flush=True)
    return results


def engines_alone(directory, args):
    """RocksDB's replay of its log beside Esker's: keys of 16 bytes, one row in a transaction."""
    print(f"\nengines alone, {args.size} rows of 16 + {args.value_bytes} bytes\n"
          f"{'engine':26}{'keys':12}{'log MB':>8}{'s':>9}{'rows/s':>10}{'MB/s':>8}", flush=True)
    has_peer = not args.no_peer and machine.install(machine.DB_BENCH)
    results = []
    for order, fill in (("sequential", "fillseq"), ("random", "fillrandom")):
        mine = rocksdb_alone(directory, fill, args) if has_peer else []
        command = [args.binary, "bench", "recovery", f"--rows={args.size}", "--json",
                   f"--value-bytes={args.value_bytes}", f"--order={order}", f"--dir={directory}",
                   f"--runs={args.runs}", f"--cache={'cold' if args.cold else 'warm'}"]
        out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for m in next(iter(out.values())):
            mine.append({"engine": f"esker {m['mode']} {m['threads']}", "log_mb": m["log MB"],
                         "s": m["built s"], "first_s": m["first read s"]})
        for m in mine:
            results.append(m | {"order": order})
            print(f"{m['engine']:26}{order:12}{m['log_mb']:>8.0f}{m['s']:>9.3f}"
                  f"{args.size / m['s']:>10.0f}{m['log_mb'] / m['s']:>8.0f}", flush=True)
    return results


def rocksdb_alone(directory, fill, args):
    """Fills one memtable, so that all is in the log, and opens the database again without a flush."""
    db = os.path.join(directory, "rocksdb")
    common = ["db_bench", f"--db={db}", f"--num={args.size}", "--key_size=16",
              f"--value_size={args.value_bytes}", "--compression_type=none",
              "--write_buffer_size=8589934592", "--db_write_buffer_size=0"]
    took = []
    for _ in range(args.runs):
        shutil.rmtree(db, ignore_errors=True)
        subprocess.run([*common, f"--benchmarks={fill}"], check=True, capture_output=True)
        if glob.glob(os.path.join(db, "*.sst")):
            sys.exit("RocksDB has flushed; its log does not hold everything")
        size = bytes_of(os.path.join(db, "*.log"))
        machine.settle_disk(args.cold)
        subprocess.run([*common, "--use_existing_db=1", "--benchmarks=readrandom", "--reads=1",
                        "--avoid_flush_during_recovery=true"], check=True, capture_output=True)
        with open(os.path.join(db, "LOG")) as f:
            log = f.read()
        at = {what: int(re.search(rf'"time_micros": (\d+).*"event": "recovery_{what}"', log).group(1))
              for what in ("started", "finished")}
        took.append((at["finished"] - at["started"]) / 1e6)
    shutil.rmtree(db, ignore_errors=True)
    return [{"engine": "rocksdb", "log_mb": size / 1e6, "s": statistics.median(took)}]
