"""Servers that follow each other: Esker, MySQL and MariaDB, each with a data directory and a port of its own.

All write a binary log. What is killed here are processes, so MySQL and MariaDB write at every commit and leave it to the
system to sync; Esker syncs. MySQL's `mysqld` runs in a chroot (its folder is an argument), for it may need another libc
than the machine has. Nothing else is asked of a server than what its documentation promises.
"""
import contextlib, os, shutil, socket, subprocess, time

import wire

ESKER, MYSQL, MARIADB = "esker", "mysql", "mariadb"
# Seconds until a server listens, and until a replica has what its source has.
START_SECONDS, PATIENCE = 600, 600
# Tables that a server keeps for itself.
OWN_TABLES = "mysql.%"
WRITTEN = ["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2"]


class Failed(Exception):
    """What was to hold does not."""


# Of ports that are given away.
CLAIMS = []


def free_port(start):
    """A loopback port below the ephemeral range, which no other test is given while this process lives."""
    for port in range(start, start + 500):
        # The tests of the server claim their ports by the same names.
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                claim.bind(f"\0esker-test-port-{port}")
                s.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        CLAIMS.append(claim)
        return port
    raise SystemExit("no free port")


class Server:
    """One server; `place` is its data directory, `seen` the same as the server sees it.

    Ports are none that other tests take: a server that is killed finds its own free again.
    """

    make, port_range = None, 11000
    taken = 0

    def __init__(self, args, folder, name, number, options=()):
        self.args, self.name, self.number, self.options = args, name, number, list(options)
        Server.taken += 1
        self.port = free_port(self.port_range + (os.getpid() * 37 + Server.taken * 3) % 3000)
        self.log = os.path.join(folder, f"{name}.log")
        self.place = self.seen = os.path.join(folder, name)
        self.process = None
        self.create()
        self.start()

    def create(self):
        """Makes the data directory."""

    def command(self):
        raise NotImplementedError

    def start(self):
        own = {k: v for k, v in os.environ.items() if not k.startswith("ESKER_")}
        # The folder of this process may not be there in a chroot.
        own["TMPDIR"] = "/tmp" if self.make == MYSQL else os.path.dirname(self.place)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, env=own)
        end = time.time() + START_SECONDS
        while time.time() < end:
            if self.process.poll() is not None:
                raise Failed(f"{self.name} did not start; see {self.log}")
            try:
                self.connect().close()
                return
            except (OSError, wire.Lost):
                time.sleep(0.02)
        raise Failed(f"{self.name} does not answer")

    def connect(self, timeout=PATIENCE):
        connection = wire.Connection(self.port, timeout)
        connection.query("SET NAMES utf8mb4")
        connection.query("SET time_zone = '+00:00'")
        return connection

    def sql(self, *statements):
        """Rows of the last statement, as tuples of bytes."""
        connection = self.connect()
        try:
            for statement in statements:
                result = connection.query(statement)
            return result.rows
        finally:
            connection.close()

    def kill(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name} has ended by itself with {self.process.returncode}; see {self.log}")
        self.process.kill()
        self.process.wait()

    def end(self):
        """Shuts it down in order."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    def remove(self):
        """Ends it, and removes its files."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.place, ignore_errors=True)

    def add_account(self, is_native=False):
        """Of replicas; those of MariaDB know `mysql_native_password` only."""
        how = "IDENTIFIED WITH mysql_native_password BY 'secret'" if is_native else "IDENTIFIED BY 'secret'"
        if self.make == MARIADB:
            how = "IDENTIFIED VIA mysql_native_password USING PASSWORD('secret')"
        self.sql("SET sql_log_bin = 0", f"CREATE USER repl@'%' {how}", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'")

    def executed(self):
        return self.sql("SELECT @@GLOBAL.gtid_executed")[0][0].decode().replace("\n", "")

    def status(self):
        """What the channel says of itself, by column."""
        connection = self.connect()
        try:
            old = self.make == MARIADB
            result = connection.query("SHOW SLAVE STATUS" if old else "SHOW REPLICA STATUS")
        finally:
            connection.close()
        if not result.rows:
            return {}
        names = [n.replace("Master", "Source").replace("Slave", "Replica") for n in result.names]
        return {n: (v or b"").decode("utf8", "replace") for n, v in zip(names, result.rows[0])}

    def follow(self, source, by_gtid):
        raise NotImplementedError

    def follow_from(self, source, file, position):
        """From a place in the source's binary log on."""
        place = f"SOURCE_AUTO_POSITION = 0, SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {position}"
        self.sql(login("SOURCE", source) + place, "START REPLICA")

    def await_marker(self, table, marker):
        """Waits until a row is here that its source has written last."""
        end = time.time() + PATIENCE
        while True:
            try:
                if self.sql(f"SELECT COUNT(*) FROM {table} WHERE id = {marker}")[0][0] == b"1":
                    return
            except wire.SqlError as e:
                if e.code not in (1049, 1146):
                    raise
            state = self.status()
            stopped = state.get("Last_SQL_Errno", "0") != "0" or state.get("Replica_SQL_Running") == "No"
            if stopped or time.time() > end:
                raise Failed(f"{self.name} does not get to {marker}: {state}")
            time.sleep(0.02)


class Esker(Server):
    make, port_range = ESKER, 11000

    def command(self):
        return [self.args.binary, "serve", f"--port={self.port}", f"--datadir={self.place}", f"--server-id={self.number}",
                "--log-bin=ON", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--secure-file-priv=", *self.options]

    def follow(self, source, by_gtid):
        how = {(MARIADB, True): "MASTER_USE_GTID = slave_pos", (MARIADB, False): "SOURCE_LOG_POS = 4"}.get(
            (source.make, by_gtid), "SOURCE_AUTO_POSITION = 1" if by_gtid else "SOURCE_LOG_FILE = '', SOURCE_LOG_POS = 4")
        if source.make == MARIADB:
            self.sql(f"CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('{OWN_TABLES}')")
        self.sql(login("SOURCE", source) + how, "START REPLICA")


class Mysql(Server):
    make, port_range = MYSQL, 14000

    def create(self):
        self.seen = f"/tmp/replication-{os.getpid()}-{self.name}"
        self.place = self.args.mysql + self.seen
        shutil.rmtree(self.place, ignore_errors=True)
        done = subprocess.run([*self.base(), "--initialize-insecure"], env={"TMPDIR": "/tmp", "PATH": os.environ["PATH"]},
                              capture_output=True)
        if done.returncode:
            raise Failed(done.stderr.decode("utf8", "replace"))

    def base(self):
        return ["chroot", self.args.mysql, "/usr/sbin/mysqld", "--no-defaults", "--user=root", f"--datadir={self.seen}",
                "--innodb-buffer-pool-size=64M", "--innodb-redo-log-capacity=64M"]

    def command(self):
        return [*self.base(), "--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self.seen}/sock", "--mysqlx=OFF",
                f"--server-id={self.number}", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=binlog",
                "--secure-file-priv=", "--relay-log-recovery=ON", *WRITTEN, *self.options]

    def follow(self, source, by_gtid):
        how = "SOURCE_AUTO_POSITION = 1" if by_gtid else "SOURCE_AUTO_POSITION = 0, SOURCE_LOG_FILE = 'binlog.000001', SOURCE_LOG_POS = 4"
        self.sql(login("SOURCE", source) + how, "START REPLICA")


class Mariadb(Server):
    make, port_range = MARIADB, 17000

    def create(self):
        subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={self.place}", "--skip-test-db", "--user=root",
                        "--auth-root-authentication-method=normal"], check=True, capture_output=True)

    def command(self):
        return ["mariadbd", "--no-defaults", "--user=root", f"--datadir={self.place}", f"--port={self.port}",
                "--bind-address=127.0.0.1", f"--socket={self.place}/sock", f"--server-id={self.number}", "--log-bin=binlog",
                "--binlog-format=ROW", *WRITTEN, "--innodb-buffer-pool-size=32M",
                "--innodb-log-file-size=16M", "--relay-log=relay", "--relay-log-recovery=ON", "--log-slave-updates",
                "--secure-file-priv=", *self.options]

    def follow(self, source, by_gtid):
        if by_gtid:
            raise Failed("MariaDB follows MySQL's kind by position only")
        self.sql(f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {source.port}, MASTER_USER = 'repl', "
                 "MASTER_PASSWORD = 'secret', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = no, "
                 "MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4", "START SLAVE")

    def executed(self):
        return self.sql("SELECT @@GLOBAL.gtid_binlog_pos")[0][0].decode()


@contextlib.contextmanager
def kept_if_failed(servers, folder, what=lambda: ""):
    """Where something fails, the servers are killed and their files stay; `what` says more of it."""
    try:
        yield
    except BaseException as e:
        for server in servers:
            if server.process.poll() is None:
                server.process.kill()
        if isinstance(e, Failed):
            raise Failed(f"{what()}{e}\n{folder} has the servers") from None
        raise


MAKES = {ESKER: Esker, MYSQL: Mysql, MARIADB: Mariadb}


def login(word, source):
    key = "" if source.make == MARIADB else f", GET_{word}_PUBLIC_KEY = 1"
    return (f"CHANGE REPLICATION SOURCE TO {word}_HOST = '127.0.0.1', {word}_PORT = {source.port}, {word}_USER = 'repl', "
            f"{word}_PASSWORD = 'secret', {word}_CONNECT_RETRY = 1, {word}_RETRY_COUNT = 1000, {word}_HEARTBEAT_PERIOD = 1{key}, ")
