"""Restores to a random moment: a backup that was taken under load, and the binary log from there to a GTID or a time.

The source is killed with -9 in every round, before or after the moment, and its sessions go on when it is back; their
load is that of kills.py, so what is lost, done twice or in part shows. A restore to a GTID has exactly as many
transactions as the number says. One to a time has what sessions had been told before it, and nothing that they began
after it.
"""
import os, random, shutil, subprocess, time

import kills
from servers import MAKES, Failed

# Seconds of load before the backup, between that and the moment, and after the kill.
BEFORE, BETWEEN, AFTER = (0.05, 0.4), (0.05, 0.8), 0.15


class Moment:
    """A time, and what sessions had been told before and after it."""

    def __init__(self, tellers):
        self.before = [teller.told for teller in tellers]
        now = time.time()
        self.text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}Z"
        self.after = [teller.told for teller in tellers]


def last_number(server):
    """The number of its last transaction, and the set up to it."""
    uuid, numbers = server.executed().split(":")
    return uuid, int(numbers.split("-")[-1])


def done(server, sessions):
    return [int(server.sql(f"SELECT n FROM d.done WHERE id = {n}")[0][0]) for n in range(sessions)]


def restore(args, folder, backup, source, until, number):
    """A server on what was restored."""
    name = f"restored-{number}"
    command = [args.binary, "restore", "--from", backup, "--to", os.path.join(folder, name),
               "--binlog", os.path.join(source.place, "binlog"), "--until", until]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise Failed(f"{' '.join(command)}: {ended.stderr}")
    return MAKES[args.replica](args, folder, name, 10 + number, source.options)


def one_round(args, folder, source, rng, number, others):
    tellers = [kills.Teller(source, n, args.seed * 100_000 + number) for n in range(args.sessions)]
    for teller in tellers:
        teller.start()
    time.sleep(rng.uniform(*BEFORE))
    backup = os.path.join(folder, f"backup-{number}")
    source.sql(f"BACKUP SERVER TO '{backup}'")
    first = last_number(source)[1]
    is_killed_first = rng.random() < 0.5
    if is_killed_first:
        kill(source, rng)
    time.sleep(rng.uniform(*BETWEEN))
    moment = Moment(tellers)
    time.sleep(AFTER)
    if not is_killed_first:
        kill(source, rng)
    kills.stop(tellers, number)
    # Waits until the files have everything.
    source.sql("FLUSH BINARY LOGS")
    kills.check_once(source, tellers)
    uuid, last = last_number(source)
    by_time = rng.random() < 0.5
    wanted = rng.randint(first, last)
    restored = restore(args, folder, backup, source, moment.text if by_time else f"{uuid}:{wanted}", number)
    kills.check_once(restored, [])
    found = done(restored, args.sessions)
    if not by_time and sum(found) != wanted - others:
        raise Failed(f"{wanted - others} transactions wanted, {sum(found)} restored")
    if by_time and not all(b <= n <= a + 1 for b, n, a in zip(moment.before, found, moment.after)):
        raise Failed(f"at {moment.text}: {moment.before} before, {found} restored, {moment.after} after")
    restored.remove()
    shutil.rmtree(backup)
    return by_time, sum(found), last - others


def kill(source, rng):
    time.sleep(rng.uniform(0, 0.1))
    source.kill()
    source.start()
    time.sleep(AFTER)


def run(args, folder, options_of):
    rng = random.Random(args.seed)
    source = MAKES[args.source](args, folder, "source", 1, args.source_options.split())
    kills.prepare(args, source)
    others, begun = last_number(source)[1], time.time()
    for number in range(1, args.rounds + 1):
        try:
            by_time, restored, of = one_round(args, folder, source, rng, number, others)
        except Failed as e:
            raise Failed(f"round {number}: {e}\n{folder} has the servers") from None
        print(f"restore {number} to a {'time' if by_time else 'GTID'}: {restored} of {of} transactions, "
              f"{time.time() - begun:.0f} s", flush=True)
    source.remove()
