"""One sysbench table that is larger than the memory of a server: how it is loaded and worked on, for 'space' and 'sustained'."""
import re, subprocess, sys

# A quarter of what InnoDB makes of the rows, more or less.
MEMORY_MIB, ROWS = 256, 5_000_000


def table_options(parser):
    parser.add_argument("--size", type=int, default=ROWS, help="rows of the table")
    parser.set_defaults(memory_mib=MEMORY_MIB)


def sysbench(server, test, args, *extra):
    """Runs it to its end; what it says."""
    command = ["sysbench", test, "--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={server.port}",
               "--mysql-user=root", "--mysql-db=sbtest", f"--mysql-storage-engine={server.storage_engine}",
               "--tables=1", f"--table-size={args.size}", "--rand-type=uniform",
               "--mysql-ignore-errors=1213,1020,1205", *extra]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or "FATAL" in done.stdout:
        sys.exit(f"{server.name}: sysbench {test} failed\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def load(server, args):
    server.sql("CREATE DATABASE sbtest")
    sysbench(server, "oltp_read_write", args, "prepare")


def number(text, pattern):
    """The number that the pattern finds."""
    return float(re.search(pattern, text).group(1))
