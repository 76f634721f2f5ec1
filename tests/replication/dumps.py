"""Dumps of a source under load: an empty server that loads one goes on from its position, and has what the source has.

`mariadb-dump` names file and position of its snapshot, and takes no lock; MySQL's `mysqldump`, where it is, sets
gtid_purged, and locks for a moment. The load is that of kills.py, so what is lost or done twice shows.
"""
import re, subprocess, time

import kills, rows
from servers import MAKES, PATIENCE, Failed

# Seconds of load before a dump, and while the replica follows.
BEFORE, AFTER = 0.3, 0.3
POSITION = re.compile(rb"^-- CHANGE MASTER TO MASTER_LOG_FILE='([^']+)', MASTER_LOG_POS=(\d+);", re.M)


def run_dump(args, source, of_mysql):
    """The statements."""
    where = ["--no-defaults", "--single-transaction", "-h127.0.0.1", f"-P{source.port}", "-uroot", "--databases", "d", "e"]
    maria = ["mariadb-dump", where[0], "--skip-ssl", "--master-data=2", *where[1:]]
    mysql = ["chroot", args.mysql or "", "/usr/bin/mysqldump", where[0], "--source-data=2", "--protocol=tcp", *where[1:]]
    done = subprocess.run(mysql if of_mysql else maria, capture_output=True)
    if done.returncode:
        raise Failed(f"the dump failed: {done.stderr.decode()}")
    return done.stdout


def load(server, text):
    client = ["mariadb", "--no-defaults", "--skip-ssl", "--binary-mode", "-h127.0.0.1", f"-P{server.port}", "-uroot"]
    done = subprocess.run(client, input=text, capture_output=True)
    if done.returncode:
        raise Failed(f"loading the dump failed: {done.stderr.decode()}")


def one_round(args, folder, source, number, options):
    of_mysql = bool(args.mysql) and number % 2 == 0
    tellers = [kills.Teller(source, n, args.seed * 100_000 + number) for n in range(args.sessions)]
    for teller in tellers:
        teller.start()
    time.sleep(BEFORE)
    text = run_dump(args, source, of_mysql)
    replica = MAKES[args.replica](args, folder, f"replica-{number}", 1 + number, options)
    load(replica, text)
    if of_mysql:
        replica.follow(source, by_gtid=True)
    else:
        file, position = POSITION.search(text).groups()
        replica.follow_from(source, file.decode(), int(position))
    time.sleep(AFTER)
    kills.stop(tellers, number)
    source.sql(f"INSERT INTO e.markers VALUES ({number})")
    replica.await_marker("e.markers", number)
    kills.check_once(replica, tellers)
    rows.check_equal(source, replica, by_gtid=of_mysql)
    replica.remove()
    return sum(teller.told for teller in tellers)


def run(args, folder, options_of):
    source = MAKES[args.source](args, folder, "source", 1, args.source_options.split())
    modes, workers = args.modes.split(","), args.workers.split(",")
    kills.prepare(args, source)
    begun = time.time()
    for number in range(1, args.rounds + 1):
        options = options_of(args, modes[number % len(modes)], workers[number % len(workers)])
        try:
            told = one_round(args, folder, source, number, options)
        except Failed as e:
            raise Failed(f"round {number}: {e}\n{folder} has the servers") from None
        print(f"dump {number}: equal after {told} transactions, {time.time() - begun:.0f} s", flush=True)
    source.remove()
