"""Database servers side by side: each with its own process, directory and port, the same memory, and the log flushed
at every commit."""
import contextlib, os, shutil, socket, statistics, struct, subprocess, sys, threading, time

import machine
from tpch import duck

NAMES = ESKER, BEFORE, NO_ELR, OBSERVED, BINLOG, BINLOG_NO_ELR, NO_GTID, TWO_PHASE, HARDEN_EACH, INNODB, MYROCKS, MYSQL, DUCKDB = (
    "esker", "esker-before", "esker-no-elr", "esker-observed", "esker-binlog", "esker-binlog-no-elr", "esker-no-gtid",
    "esker-two-phase", "esker-harden-each", "innodb", "myrocks", "mysql", "duckdb")
# Options of servers that write a binary log: row events, and what is acknowledged is in it after a crash.
WITH_BINLOG = {
    BINLOG: ["--log-bin=ON", "--gtid-mode=ON"],
    BINLOG_NO_ELR: ["--log-bin=ON", "--gtid-mode=ON", "--esker-early-lock-release=OFF"],
    NO_GTID: ["--log-bin=ON", "--gtid-mode=OFF"],
    TWO_PHASE: ["--log-bin=ON", "--gtid-mode=ON", "--esker-binlog-commit=TWO-PHASE"],
    HARDEN_EACH: ["--log-bin=ON", "--gtid-mode=ON", "--esker-binlog-commit=TWO-PHASE",
                  "--esker-binlog-harden=PER-TRANSACTION"],
    INNODB: ["--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=1", "--server-id=1"],
    MYSQL: ["--sync-binlog=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
}


class Server:
    """A server process. `storage_engine` is what the tables are created with; Esker takes the name and ignores it."""

    def __init__(self, name, command, port, directory, disk, storage_engine="innodb", remove=None):
        self.name, self.port, self.directory = name, port, directory
        self.is_esker = name.startswith(ESKER)
        self.storage_engine = storage_engine
        self.remove = remove  # what else goes when it is stopped
        self.log = open(os.path.join(directory, "log"), "a")
        self.command, self.environment = command, os.environ | disk.environment | {"SYNC_COUNTS": f"{directory}/syncs"}
        self.spawn()
        for _ in range(600):
            if self.process.poll() is not None:
                self.stop()
                with open(self.log.name, errors="replace") as log:
                    sys.exit(f"{name} did not start:\n{''.join(log.readlines()[-5:])}")
            if self.sql("SELECT 1", check=False).returncode == 0:
                return
            time.sleep(0.1)
        self.stop()
        sys.exit(f"{name} does not answer")

    def spawn(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log,
                                        env=self.environment)

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def await_login(self):
        """A session, as soon as a server that was started again gives one."""
        while True:
            try:
                return Login(self.port)
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"{self.name} did not start again; see {self.log.name}")
                time.sleep(0.002)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        if self.remove:
            shutil.rmtree(self.remove, ignore_errors=True)

    def cpu_seconds(self):
        return machine.cpu_seconds(self.process.pid)

    def client(self, *options):
        """The command line of a client of this server."""
        return ["mariadb", "--no-defaults", "--skip-ssl", "-h127.0.0.1", f"-P{self.port}", "-uroot", *options]

    def sql(self, text, check=True):
        return subprocess.run(self.client("-e", text), check=check, capture_output=True, text=True)

    def syncs(self):
        """How often files of the engine's log, of the binary log and others were synced, where the disk counts that."""
        try:
            with open(self.environment["SYNC_COUNTS"], "rb") as counts:
                return struct.unpack("3Q", counts.read())
        except FileNotFoundError:
            return None

    def status(self, name):
        """The value of one of Esker's status variables."""
        return self.sql(f"SHOW STATUS LIKE '{name}'").stdout.split()[-1]


def start_esker(name, directory, disk, args, more):
    port = machine.free_port(21000)
    elr = ["--esker-early-lock-release=OFF"] if name == NO_ELR else []
    binary = args.before if name == BEFORE else args.binary
    command = [binary, "serve", f"--port={port}", f"--datadir={directory}/data",
               f"--esker-memory-limit={args.memory_mib}M", "--max-connections=4000", "--max-prepared-stmt-count=1000000", *elr, *more,
               *(f"--{s}" for s in args.set)]
    return Server(name, command, port, directory, disk)


def start_mariadb(name, directory, disk, args, more):
    data, port = f"{directory}/data", machine.free_port(22000)
    user = os.environ.get("USER") or "root"
    subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--user={user}",
                    "--skip-name-resolve", "--auth-root-authentication-method=normal",
                    "--skip-test-db"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    if name == INNODB:
        storage_engine = "innodb"
        options = ["--innodb-flush-log-at-trx-commit=1", f"--innodb-log-file-size={args.peer_log_mib}M",
                   f"--innodb-buffer-pool-size={args.memory_mib}M"]
    else:
        storage_engine = "rocksdb"
        options = ["--plugin-load-add=ha_rocksdb.so", "--default-storage-engine=rocksdb",
                   "--innodb-buffer-pool-size=64M", "--rocksdb-flush-log-at-trx-commit=1",
                   "--rocksdb-deadlock-detect=ON", f"--rocksdb-block-cache-size={args.memory_mib}M"]
    command = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--user={user}",
               f"--socket={directory}/s.sock", f"--port={port}", "--bind-address=127.0.0.1",
               "--skip-name-resolve", "--max-connections=4000", "--back-log=4000",
               "--table-open-cache=8000", "--max-prepared-stmt-count=1000000", *options, *more]
    return Server(name, command, port, directory, disk, storage_engine)


def start_mysql(name, directory, disk, args, more):
    """A MySQL that is unpacked below args.mysql; it runs in there, with its data in a folder of their own."""
    data, port = f"/tmp/{os.path.basename(os.path.dirname(directory))}-mysql", machine.free_port(22000)
    outside = args.mysql + data
    mysqld = ["chroot", args.mysql, "/usr/sbin/mysqld", "--no-defaults", "--user=root", f"--datadir={data}"]
    subprocess.run([*mysqld, "--initialize-insecure"], check=True, stderr=subprocess.DEVNULL)
    disk = disk.inside(args.mysql, data)
    command = [*mysqld, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={data}/s.sock", "--mysqlx=OFF",
               "--secure-file-priv=", "--max-connections=4000", "--max-prepared-stmt-count=1000000",
               f"--innodb-redo-log-capacity={args.peer_log_mib}M", f"--innodb-buffer-pool-size={args.memory_mib}M", *more]
    return Server(name, command, port, directory, disk, remove=outside)


# All others are Esker.
STARTERS = {INNODB: start_mariadb, MYROCKS: start_mariadb, MYSQL: start_mysql}
NEEDED = {INNODB: machine.MARIADB, MYROCKS: machine.MYROCKS}


def names(args, compared):
    """Which servers run: those asked for, or those compared that this machine can have."""
    if args.servers:
        wanted = args.servers.split(",")
        unknown = [name for name in wanted if name not in NAMES]
        if unknown:
            sys.exit(f"unknown server {unknown[0]}; there are {', '.join(NAMES)}")
    else:
        wanted = [ESKER] if args.no_peer else list(compared)
    if BEFORE in wanted and not args.before:
        sys.exit(f"{BEFORE}: --before says which binary it is")
    if MYSQL in wanted and not getattr(args, "mysql", None):
        print(f"# {MYSQL} is left out: --mysql says where it is", flush=True)
        wanted.remove(MYSQL)
    if DUCKDB in wanted and DUCKDB not in compared:
        sys.exit(f"{DUCKDB} is no server and cannot be asked this")
    for name in list(wanted):
        if not (machine.duckdb_python() if name == DUCKDB else machine.install(NEEDED.get(name, []))):
            print(f"# {name} is not installed and could not be", flush=True)
            wanted.remove(name)
    return wanted


def start(name, directory, disk, args, more):
    place = os.path.join(directory, f"{name}-{disk.delay_us}")
    os.makedirs(place)
    if name == DUCKDB:
        return duck.Duck(name, machine.duckdb_python(), place, args.memory_mib)
    return STARTERS.get(name, start_esker)(name, place, disk, args, more)


def in_turn(args, directory, compared, more=None):
    """Starts one server after the other; each is stopped and its files are removed before the next. `more`: as of
    `running`."""
    machine.require(machine.MARIADB_CLIENT)
    for name in names(args, compared):
        server = start(name, directory, machine.Disk(0, directory), args, (more or {}).get(name, []))
        try:
            yield server
        finally:
            server.stop()
            shutil.rmtree(server.directory)


@contextlib.contextmanager
def running(args, directory, compared, disk=None, more=None):
    """Starts the servers, with `more` options by name, and stops them in the end."""
    machine.require(machine.MARIADB_CLIENT)
    disk, more, started = disk or machine.Disk(0, directory), more or {}, []
    try:
        for name in names(args, compared):
            started.append(start(name, directory, disk, args, more.get(name, [])))
            if disk.delay_us:
                check_delay(started[-1], disk.delay_us)
        yield started
    finally:
        for server in started:
            server.stop()


def check_delay(server, delay_us):
    """A server that syncs past the C library would not notice the delay."""
    server.sql("CREATE DATABASE sbtest; CREATE TABLE sbtest.slow (id INT PRIMARY KEY)")
    started = time.time()
    server.sql("; ".join(f"INSERT INTO sbtest.slow VALUES ({i})" for i in range(20)))
    took = (time.time() - started) / 20
    server.sql("DROP DATABASE sbtest")
    if took * 1e6 < delay_us:
        sys.exit(f"{server.name}: a commit took {took * 1e6:.0f} us, "
                 f"although each sync should take {delay_us} us longer")


class Login:
    """A session as root without a password, over a socket of its own: costs this machine next to nothing."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.stream = self.socket.makefile("rb")
        self.packet()
        caps = 1 | 1 << 9 | 1 << 15 | 1 << 19
        self.send(1, caps.to_bytes(4, "little") + (1 << 24).to_bytes(4, "little") + b"\x2d" + bytes(23)
                  + b"root\0" + b"\0" + b"mysql_native_password\0")
        answer = self.packet()
        if answer[:1] == b"\xfe":
            self.send(3, b"")
            answer = self.packet()
        if answer[:1] != b"\0":
            sys.exit(f"login failed: {answer!r}")

    def send(self, number, body):
        self.socket.sendall(len(body).to_bytes(3, "little") + bytes([number]) + body)

    def packet(self):
        head = self.stream.read(4)
        if len(head) < 4:
            raise ConnectionResetError("the server has closed the connection")
        return self.stream.read(int.from_bytes(head[:3], "little"))

    def ask(self, text):
        """Runs a query of one column; the first row's value."""
        self.send(0, b"\x03" + text.encode())
        body = self.packet()  # number of columns
        if body[:1] == b"\xff":
            sys.exit(f"{text}: {body[9:].decode(errors='replace')}")
        while self.packet()[:1] != b"\xfe":
            pass  # the column
        value = None
        while (row := self.packet())[:1] != b"\xfe" or len(row) > 8:
            if row[:1] == b"\xff":
                sys.exit(f"{text}: {row[9:].decode(errors='replace')}")
            value = row[1:] if value is None else value
        return value.decode()

    def tell(self, text):
        """Runs a statement without rows."""
        self.send(0, b"\x03" + text.encode())
        body = self.packet()
        if body[:1] == b"\xff":
            sys.exit(f"{text}: {body[9:].decode(errors='replace')}")

    def close(self):
        self.stream.close()
        self.socket.close()


class Beside:
    """What a session does in a thread, again and again until it is left, while something else is measured."""

    def __init__(self, login):
        self.login, self.is_over = login, False
        self.thread = threading.Thread(target=self.work)

    def __enter__(self):
        self.started = time.time()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.seconds = time.time() - self.started
        self.thread.join()
        self.login.close()


class Asked(Beside):
    """One query asked twenty times a second: the milliseconds of each."""

    def __init__(self, login, text):
        super().__init__(login)
        self.text, self.took = text, []

    def work(self):
        while not self.is_over:
            started = time.time()
            self.login.ask(self.text)
            self.took.append((time.time() - started) * 1000)
            time.sleep(0.05)

    def tenth(self, is_last):
        """Median and longest of the first or the last tenth."""
        edge = max(1, len(self.took) // 10)
        part = self.took[-edge:] if is_last else self.took[:edge]
        return statistics.median(part), max(part)
