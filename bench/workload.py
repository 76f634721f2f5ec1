"""How sysbench is started; for 'space' and 'sustained', one table of it that is larger than the memory of a server."""
import re, subprocess, sys

# A quarter of what InnoDB makes of the rows, more or less.
MEMORY_MIB, ROWS = 256, 5_000_000
# A deadlock, a row that has changed, a lock wait that took too long: the transaction is tried again.
IGNORED_ERRORS = "1213,1020,1205"


def table_options(parser):
    parser.add_argument("--size", type=int, default=ROWS, help="rows of the table")
    parser.set_defaults(memory_mib=MEMORY_MIB)


def command(server, script, *options, database="sbtest"):
    """A test of sysbench, or a script of this folder, on the server."""
    return ["sysbench", script, "--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={server.port}",
            "--mysql-user=root", f"--mysql-db={database}", *options]


def table_command(server, test, args, *options, tables=1):
    """A test of sysbench on its own tables."""
    return command(server, test, f"--mysql-storage-engine={server.storage_engine}", f"--tables={tables}",
                   f"--table-size={args.size}", "--rand-type=uniform", f"--mysql-ignore-errors={IGNORED_ERRORS}",
                   *options)


def run(server, started, env=None):
    """Runs a command of sysbench to its end; what it says."""
    done = subprocess.run(started, capture_output=True, text=True, env=env)
    if done.returncode != 0 or "FATAL" in done.stdout:
        sys.exit(f"{server.name}: sysbench {started[1]} failed\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def sysbench(server, test, args, *extra):
    """Runs a test on one table to its end; what it says."""
    return run(server, table_command(server, test, args, *extra))


def load(server, args):
    server.sql("CREATE DATABASE sbtest")
    sysbench(server, "oltp_read_write", args, "prepare")


def number(text, pattern):
    """The number that the pattern finds."""
    return float(re.search(pattern, text).group(1))
