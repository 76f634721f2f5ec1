"""A proxy that writes down every command of a client and the server's whole answer.

It sits between one program and one server, takes TLS, compression and query attributes out of the greeting, and
keeps for each command its text and its outcome: the counts of an OK packet, the code, SQLSTATE and text of an error,
the description of every column and every row of a result. `run.py beside` runs a program through two of them and
compares what they saw.

It needs nothing but Python's standard library. Numbers follow the protocol's documentation.
"""

import socket
import struct
import threading

# Capabilities that would hide the traffic or change its shape.
PLAIN = ~(0x20 | 0x800 | 1 << 23 | 1 << 25 | 1 << 26 | 1 << 27) & 0xFFFFFFFF
DEPRECATE_EOF = 1 << 24
MORE_RESULTS = 8
# In a transaction, autocommit, more results, cursor exists, last row sent.
STATUS = 0x1 | 0x2 | 0x8 | 0x40 | 0x80
# Flags of columns that do not depend on the plan: NOT NULL, UNSIGNED, BINARY, ENUM, SET.
FLAGS = 0x1 | 0x20 | 0x80 | 0x100 | 0x800

QUIT, INIT_DB, QUERY, FIELD_LIST, STATISTICS, CHANGE_USER = 1, 2, 3, 4, 9, 0x11
PREPARE, EXECUTE, LONG_DATA, CLOSE, FETCH = 0x16, 0x17, 0x18, 0x19, 0x1C


def integer(data, at):
    """A length-encoded integer (None is NULL) and what follows it."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    if first == 0xFB:
        return None, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1:at + 1 + size], "little"), at + 1 + size


def string(data, at):
    """A length-encoded string (None is NULL) and what follows it."""
    size, at = integer(data, at)
    if size is None:
        return None, at
    return data[at:at + size], at + size


def text(data):
    return data.decode("utf-8", "backslashreplace")


class Closed(Exception):
    pass


class Connection:
    """One client's connection: forwards packets and writes down commands with their outcomes."""

    def __init__(self, client, server, log):
        self.client, self.server, self.log = client, server, log
        self.deprecate_eof = False
        self.statements = {}

    def exactly(self, sock, size):
        data = b""
        while len(data) < size:
            piece = sock.recv(size - len(data))
            if not piece:
                raise Closed
            data += piece
        return data

    def packet(self, sock, other, change=None):
        """Forwards one logical packet (of any number of pieces) and returns its payload."""
        whole = b""
        while True:
            head = self.exactly(sock, 4)
            size = int.from_bytes(head[:3], "little")
            body = self.exactly(sock, size)
            if change:
                body = change(body)
            other.sendall(head + body)
            whole += body
            if size < 0xFFFFFF:
                return whole

    def from_server(self, change=None):
        return self.packet(self.server, self.client, change)

    def from_client(self):
        return self.packet(self.client, self.server)

    def login(self):
        def greeting(body):
            if body[0] != 10:
                return body
            at = body.index(0, 1) + 1 + 4 + 8 + 1
            low, high = body[at:at + 2], body[at + 5:at + 7]
            flags = int.from_bytes(low + high, "little") & PLAIN
            new = struct.pack("<I", flags)
            return body[:at] + new[:2] + body[at + 2:at + 5] + new[2:] + body[at + 7:]

        if self.from_server(greeting)[0] == 0xFF:
            raise Closed
        # Some clients name what the greeting did not offer.
        answer = self.packet(
            self.client, self.server, lambda b: struct.pack("<I", int.from_bytes(b[:4], "little") & PLAIN) + b[4:])
        flags = int.from_bytes(answer[:4], "little")
        self.deprecate_eof = bool(flags & DEPRECATE_EOF)
        self.authentication()

    def authentication(self):
        while True:
            answer = self.from_server()
            if answer[0] == 0:
                return "OK"
            if answer[0] == 0xFF:
                return self.error(answer)
            if answer[:2] != b"\x01\x03":  # fast authentication succeeded: the OK follows at once
                self.from_client()

    def error(self, p):
        return f"ERR {int.from_bytes(p[1:3], 'little')} {text(p[4:9])} {text(p[9:])}"

    def ok(self, p):
        affected, at = integer(p, 1)
        inserted, at = integer(p, at)
        status, warnings = struct.unpack_from("<HH", p, at)
        info = text(p[at + 4:])
        return f"OK affected={affected} id={inserted} status={status & STATUS:#x} warnings={warnings} {info}".rstrip(), status

    def column(self, p):
        at, parts = 0, []
        for _ in range(6):
            part, at = string(p, at)
            parts.append(text(part or b""))
        _, at = integer(p, at)
        charset, length, kind, flags, decimals = struct.unpack_from("<HIBHB", p, at)
        _, schema, table, origin_table, name, origin = parts
        if schema in ("", "information_schema"):
            # Lengths and flags of expressions are guesses on both sides, and no program is known to read them.
            return f"  COL {name}"
        return f"  COL {name} of {schema}.{table}.({origin_table}.{origin}) type={kind} flags={flags & FLAGS:#x} length={length} " \
               f"charset={charset} decimals={decimals}"

    def end(self, p):
        """The status flags where the packet ends a list of rows or columns."""
        if p[0] != 0xFE or len(p) >= 0xFFFFFF:
            return None
        if self.deprecate_eof:
            return self.ok(p)[1]
        return struct.unpack_from("<HH", p, 1)[1] if len(p) < 9 else None

    def columns(self, count, out):
        for _ in range(count):
            out.append(self.column(self.from_server()))
        if count and not self.deprecate_eof:
            self.from_server()

    def rows(self, out, binary):
        while True:
            p = self.from_server()
            if p[0] == 0xFF:
                out.append("  " + self.error(p))
                return 0
            status = self.end(p)
            if status is not None:
                out.append(f"  END status={status & STATUS:#x}")
                return status
            out.append("  ROW " + (p.hex() if binary else self.row(p)))

    def row(self, p):
        at, values = 0, []
        while at < len(p):
            value, at = string(p, at)
            values.append("NULL" if value is None else repr(text(value)))
        return ", ".join(values)

    def results(self, binary):
        out = []
        while True:
            p = self.from_server()
            if p[0] == 0xFF:
                out.append(self.error(p))
                return out
            if p[0] == 0xFB:
                while self.from_client():
                    pass
                continue
            if p[0] == 0:
                line, status = self.ok(p)
                out.append(line)
            else:
                out.append("RESULT")
                self.columns(integer(p, 0)[0], out)
                status = self.rows(out, binary)
            if not status & MORE_RESULTS:
                return out

    def prepared(self, sql):
        p = self.from_server()
        if p[0] == 0xFF:
            return [self.error(p)]
        number, columns, params = struct.unpack_from("<IHH", p, 1)
        self.statements[number] = sql
        out = [f"PREPARED columns={columns} parameters={params}"]
        described = []
        self.columns(params, described)
        self.columns(columns, out)
        return out

    def command(self):
        body = self.from_client()
        kind, rest = body[0], body[1:]
        number = int.from_bytes(rest[:4], "little") if kind in (EXECUTE, LONG_DATA, CLOSE, FETCH) else None
        if kind == QUIT:
            raise Closed
        if kind in (LONG_DATA, CLOSE):
            return
        if kind == QUERY:
            self.log.add(text(rest), self.results(False))
        elif kind == PREPARE:
            self.log.add("PREPARE " + text(rest), self.prepared(text(rest)))
        elif kind == EXECUTE:
            self.log.add(f"EXECUTE {self.statements.get(number)} {rest[9:].hex()}", self.results(True))
        elif kind == FETCH:
            out = []
            self.rows(out, True)
            self.log.add(f"FETCH {self.statements.get(number)}", out)
        elif kind == FIELD_LIST:
            out = []
            self.rows(out, True)
            self.log.add(f"FIELD LIST {text(rest)}", out)
        elif kind == CHANGE_USER:
            self.log.add("CHANGE USER", [self.authentication()])
        else:
            p = self.from_server()
            line = self.error(p) if p[0] == 0xFF else self.ok(p)[0] if p[0] == 0 else "PACKET"
            self.log.add(f"COMMAND {kind} {text(rest)}", [line])

    def serve(self):
        try:
            self.login()
            while True:
                self.command()
        except (Closed, OSError):
            pass
        finally:
            for sock in (self.client, self.server):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                sock.close()


class Log:
    """Commands and outcomes in the order of their answers."""

    def __init__(self):
        self.entries, self.lock = [], threading.Lock()

    def add(self, command, outcome):
        with self.lock:
            self.entries.append((command, outcome))


class Proxy:
    """Listens on a free port of the loopback interface and forwards to `port`."""

    def __init__(self, port):
        self.target, self.log = port, Log()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=Connection(client, server, self.log).serve, daemon=True).start()

    def close(self):
        self.listener.close()
