"""'bench/compare consumers': how fast a consumer of the binary log is served from files, and what consumers cost.

The log is filled, and one consumer reads all of it. Then sysbench updates rows without consumers, beside some that read
up to the end and all that comes (live), and beside some that have connected and do not read (stuck). Rounds; the median
of each case.
"""
import os, selectors, socket, statistics, struct, threading, time

import machine, oltp, servers
from servers import BINLOG, INNODB, MYSQL

TEST = "oltp_update_non_index"
COM_QUERY, COM_BINLOG_DUMP, COM_REGISTER = 0x03, 0x12, 0x15
NON_BLOCK = 1
# Capabilities: protocol 4.1, secure connection, plugins.
CAPABILITIES = 0x0200 | 0x8000 | 0x80000
PIECE = 1 << 20
# Of a connection's packets.
EOF, ERROR = 0xfe, 0xff


def options(parser):
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--consumers", type=int, default=10)
    parser.add_argument("--log-mib", type=int, default=512, help="of the binary log that one consumer reads")
    oltp.case_options(parser, "of each case")


class Consumer:
    """A connection to which the server sends its binary log."""

    def __init__(self, server, number):
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.number = number
        self.packet()  # the greeting
        name = b"root\0" + b"\0" + b"mysql_native_password\0"
        self.send(struct.pack("<IIB23x", CAPABILITIES, 1 << 24, 45) + name, sequence=1)
        answer, sequence = self.packet()
        if answer[0] == EOF:  # another way to log in: an empty password is empty in all of them
            self.send(b"", sequence + 1)
            answer, _ = self.packet()
        self.check(answer)
        for sql in (b"SET @source_binlog_checksum = 'CRC32'", b"SET @master_binlog_checksum = 'CRC32'"):
            self.command(bytes([COM_QUERY]) + sql)

    def exactly(self, length):
        parts = bytearray()
        while len(parts) < length:
            part = self.socket.recv(length - len(parts))
            if not part:
                raise SystemExit("the server has closed the connection of a consumer")
            parts += part
        return bytes(parts)

    def packet(self):
        head = self.exactly(4)
        return self.exactly(int.from_bytes(head[:3], "little")), head[3]

    def send(self, payload, sequence=0):
        self.socket.sendall(len(payload).to_bytes(3, "little") + bytes([sequence]) + payload)

    @staticmethod
    def check(answer):
        if answer[0] == ERROR:
            raise SystemExit(f"a consumer is refused: {answer[3:].decode(errors='replace')}")

    def command(self, payload):
        self.send(payload)
        self.check(self.packet()[0])

    def dump(self, file, position, flags):
        """Registers, and asks for everything from there on."""
        self.command(struct.pack("<BI3xHII", COM_REGISTER, self.number, 0, 0, 0))
        self.send(struct.pack("<BIHI", COM_BINLOG_DUMP, position, flags, self.number) + file.encode())

    def read_to_end(self, total):
        """Reads at least so many bytes, and what is left until the server says that there is no more."""
        buffer, done = bytearray(PIECE), 0
        while done < total:
            got = self.socket.recv_into(buffer)
            if not got:
                raise SystemExit(f"the stream ended after {done} bytes of {total}")
            done += got
        return done


class Drain:
    """Live consumers: a thread that reads whatever they are sent."""

    def __init__(self, consumers):
        self.bytes, self.over = 0, False
        self.selector = selectors.DefaultSelector()
        for consumer in consumers:
            self.selector.register(consumer.socket, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        buffer = bytearray(PIECE)
        while not self.over:
            for key, _ in self.selector.select(timeout=0.1):
                self.bytes += key.fileobj.recv_into(buffer)

    def stop(self):
        self.over = True
        self.thread.join()


def logs(server):
    """(name, bytes) of the files of the binary log."""
    lines = server.sql("SHOW BINARY LOGS").stdout.splitlines()[1:]
    return [(line.split()[0], int(line.split()[1])) for line in lines]


def fill(server, mib):
    """Rows of some KiB, until the binary log has so much."""
    server.sql("CREATE DATABASE filled; CREATE TABLE filled.t (a INT AUTO_INCREMENT PRIMARY KEY, b MEDIUMTEXT)")
    server.sql("INSERT INTO filled.t (b) VALUES " + ", ".join(["(REPEAT('text of some length ', 200))"] * 1000))
    while sum(size for _, size in logs(server)) < mib << 20:
        server.sql("INSERT INTO filled.t (b) SELECT b FROM filled.t LIMIT 8000")
    server.sql("FLUSH BINARY LOGS")


def file_bytes(server):
    """Bytes that the process has read by read(2) and its kin."""
    with open(f"/proc/{server.process.pid}/io") as f:
        return int(f.readline().split()[1])


def stream(server, args):
    """One consumer reads all files, the newest but one included; the files are in the page cache."""
    fill(server, args.log_mib)
    files = logs(server)
    total = sum(size for _, size in files)
    cpu, started = server.cpu_seconds(), time.time()
    consumer = Consumer(server, 1000)
    consumer.dump(files[0][0], 4, NON_BLOCK)
    # Beyond the bytes of the files there are heads of packets and events that are made up.
    done = consumer.read_to_end(total)
    seconds, cpu = time.time() - started, server.cpu_seconds() - cpu
    consumer.socket.close()
    server.sql("DROP DATABASE filled")
    return {"server": server.name, "MB/s": done / seconds / 1e6, "cpu s a GB": cpu / done * 1e9}


def case(server, kind, args):
    count = 0 if kind == "none" else args.consumers
    consumers = [Consumer(server, 1000 + n) for n in range(count)]
    file, position = logs(server)[-1]
    for consumer in consumers:
        consumer.dump(file, position, 0)
    drain = Drain(consumers if kind == "live" else [])
    read, cpu = file_bytes(server), server.cpu_seconds()
    m = oltp.measure(server, TEST, args.threads, args)
    read, cpu = file_bytes(server) - read, server.cpu_seconds() - cpu
    drain.stop()
    for consumer in consumers:
        consumer.socket.close()
    if "failed" in m:
        raise SystemExit(f"{server.name}: {m['failed']}")
    return {"server": server.name, "kind": kind, "tps": m["tps"], "cpu_us": cpu / (m["tps"] * args.seconds) * 1e6,
            "read_mb": read / 1e6, "received_mb": drain.bytes / 1e6}


def cases(server, args):
    oltp.prepare(server, TEST, args, args.threads)
    kinds = ["none", "live", "stuck"]
    runs = {kind: [] for kind in kinds}
    for number in range(args.rounds):
        # Who begins takes turns.
        for kind in kinds[number % 3:] + kinds[:number % 3]:
            runs[kind].append(case(server, kind, args))
    medians = [{key: runs[kind][0][key] if isinstance(runs[kind][0][key], str)
                else statistics.median(run[key] for run in runs[kind]) for key in runs[kind][0]} for kind in kinds]
    for m in medians:
        m["share"] = m["tps"] / medians[0]["tps"]
    return medians


def run(args, directory):
    machine.require(machine.SYSBENCH)
    results = []
    print(f"{args.log_mib} MiB of binary log; {args.consumers} consumers beside {args.threads} threads of {TEST}")
    for name in servers.names(args, (BINLOG, INNODB, MYSQL)):
        server = servers.start(name, directory, machine.Disk(0, directory), args, servers.WITH_BINLOG[name])
        try:
            m = stream(server, args)
            print(f"{m['server']:14}{m['MB/s']:8.0f} MB/s to one consumer, {m['cpu s a GB']:.2f} s of CPU a GB", flush=True)
            results.append(m)
            for m in cases(server, args):
                print(f"{m['server']:14}{m['kind']:>8}{m['tps']:10.0f} tps{m['share']:8.3f}{m['cpu_us']:10.1f} us CPU each"
                      f"{m['read_mb']:10.1f} MB read{m['received_mb']:10.1f} MB received", flush=True)
                results.append(m)
        finally:
            server.stop()
    return results
