"""The servers of a run: Esker, and MariaDB or MySQL beside it, each on a port of its own."""
import os, socket, subprocess, time

import wire

START_SECONDS = 120


def free_port(start):
    """A free loopback port below the ephemeral range."""
    for port in range(start, start + 500):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise SystemExit("no free port")


class Server:
    """A process that this run started, or somebody else's on `port`."""

    def __init__(self, name, port, command=None, directory=None):
        self.name, self.port, self.command, self.directory = name, port, command, directory
        self.process = None
        if command:
            self.spawn()

    def spawn(self):
        log = open(os.path.join(self.directory, f"{self.name}.log"), "a")
        # Settings of whoever runs this are none of the server's.
        own = {k: v for k, v in os.environ.items() if not k.startswith("ESKER_")}
        self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=own)
        log.close()
        end = time.time() + START_SECONDS
        while time.time() < end:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} did not start; see {self.directory}/{self.name}.log")
            try:
                wire.Connection(self.port).close()
                return
            except (OSError, wire.Lost):
                time.sleep(0.05)
        raise SystemExit(f"{self.name} does not answer")

    def connect(self):
        return wire.Connection(self.port)

    def restart(self):
        """kill -9 and start again."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.spawn()

    def alive(self):
        return self.process is None or self.process.poll() is None

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def esker(args, directory):
    if args.esker_port:
        return Server("esker", args.esker_port)
    port = free_port(21000 + os.getpid() % 1000)
    # What metadata answer is compared with reading, too.
    command = [args.binary, "serve", f"--port={port}", f"--datadir={directory}/esker", "--esker-verify-metadata-answers=ON"]
    return Server("esker", port, command, directory)


def mariadb(args, directory):
    if args.oracle_port:
        return Server("oracle", args.oracle_port)
    data = os.path.join(directory, "mariadb")
    if os.getuid() == 0:
        os.chmod(directory, 0o755)
    subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--user=root",
                    "--skip-test-db"], check=True, capture_output=True)
    port = free_port(22500 + os.getpid() % 1000)
    # Nothing has to survive: as little I/O as there can be.
    return Server("oracle", port, ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1",
                                   f"--socket={directory}/mariadb.sock", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
                                   "--innodb-log-file-size=16M", "--skip-log-bin", "--performance-schema=OFF", "--skip-name-resolve"], directory)
