"""The binary log as text: what MySQL's mysqlbinlog prints of it, run by a client in an empty server, makes the same.

The server that is filled is a replica's make, so the text is tried on MySQL as well.
"""
import os, shutil, subprocess, tempfile

import rows
from servers import MAKES, Failed

MEMORY = "/dev/shm"


def replay(args, folder, source, make, number):
    """Raises if the empty server does not have what the source has; gives how many files it was."""
    names = [name.decode() for name, *_ in source.sql("SHOW BINARY LOGS")]
    inside = f"/tmp/replay-{os.getpid()}"
    os.makedirs(args.mysql + inside)
    # It survives nothing, and need not wait for a disk.
    memory = tempfile.mkdtemp(prefix="replay-", dir=MEMORY if os.path.isdir(MEMORY) else folder)
    empty = MAKES[make](args, memory, f"replayed-{number}", 3)
    try:
        for name in names:
            shutil.copy(os.path.join(source.place, "binlog", name), args.mysql + inside)
        text = ["chroot", args.mysql, "/usr/bin/mysqlbinlog", "--no-defaults", *(f"{inside}/{name}" for name in names)]
        # MySQL's own events are longer than what a client sends by default.
        client = ["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{empty.port}", "-uroot", "--skip-ssl", "--binary-mode",
                  "--max-allowed-packet=1G"]
        printed = subprocess.Popen(text, stdout=subprocess.PIPE)
        played = subprocess.run(client, stdin=printed.stdout, capture_output=True)
        if played.returncode or printed.wait():
            raise Failed(f"mysqlbinlog | mariadb: {played.stderr.decode()[-2000:]}")
        rows.check_equal(source, empty)
    finally:
        shutil.rmtree(args.mysql + inside)
        empty.remove()
        shutil.rmtree(memory)
    return len(names)
