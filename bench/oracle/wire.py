"""A small MySQL client: the text protocol and prepared statements, values as they are sent.

Of its own, so that both protocols are decoded in one place, no driver converts a value on the way and
the tool needs nothing but Python. Only accounts without a password.
"""
import socket, struct

CAPABILITIES = 0x1 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x20000 | 0x40000 | 0x80000
COM_QUERY, COM_STMT_PREPARE, COM_STMT_EXECUTE, COM_STMT_CLOSE = 3, 0x16, 0x17, 0x19

DECIMAL, TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24 = range(10)
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT = range(10, 17)
NEWDECIMAL, ENUM, SET = 246, 247, 248
STRING_TYPES = {VARCHAR, ENUM, SET, 249, 250, 251, 252, 253, 254, 255}
EXACT = {DECIMAL, NEWDECIMAL, TINY, SHORT, LONG, LONGLONG, INT24, YEAR}
REAL = {FLOAT, DOUBLE}
UNSIGNED_FLAG = 0x20


class SqlError(Exception):
    """An error packet."""

    def __init__(self, code, state, text):
        super().__init__(f"{code} ({state}): {text}")
        self.code, self.state, self.text = code, state, text


class Lost(Exception):
    """The connection broke, or the server took too long."""


class Result:
    """`types` and `rows` of a result set, or `affected` of an OK."""

    def __init__(self, types=None, rows=None, affected=0, names=None):
        self.types, self.rows, self.affected, self.names = types, rows, affected, names


class Connection:
    def __init__(self, port, timeout=300):
        self.timeout = timeout
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.sequence = b"", 0
        greeting = self.receive()
        end = greeting.index(b"\0", 1)
        self.version = greeting[1:end].decode()
        answer = struct.pack("<IIB23x", CAPABILITIES, 1 << 26, 45) + b"root\0" + b"\0" + b"mysql_native_password\0"
        self.send(answer)
        while True:
            packet = self.receive()
            if packet[0] == 0:
                break
            if packet[0] == 0xFF:
                raise self.error(packet)
            if packet[0] == 0xFE:  # another plugin: an empty password is an empty answer there too
                self.send(b"")

    def close(self):
        self.socket.close()

    # Packets

    def take(self, size):
        while len(self.buffer) < size:
            try:
                more = self.socket.recv(1 << 16)
            except OSError as e:
                raise Lost(f"no answer: {e}") from None
            if not more:
                raise Lost("the server closed the connection")
            self.buffer += more
        part, self.buffer = self.buffer[:size], self.buffer[size:]
        return part

    def receive(self):
        whole = b""
        while True:
            head = self.take(4)
            size = int.from_bytes(head[:3], "little")
            self.sequence = (head[3] + 1) & 255
            whole += self.take(size)
            if size < 0xFFFFFF:
                return whole

    def send(self, payload):
        head = len(payload).to_bytes(3, "little") + bytes([self.sequence])
        self.socket.sendall(head + payload)
        self.sequence = (self.sequence + 1) & 255

    def command(self, code, payload):
        self.sequence = 0
        self.send(bytes([code]) + payload)

    @staticmethod
    def error(packet):
        code = struct.unpack_from("<H", packet, 1)[0]
        if packet[3:4] == b"#":
            return SqlError(code, packet[4:9].decode(), packet[9:].decode("utf8", "replace"))
        return SqlError(code, "HY000", packet[3:].decode("utf8", "replace"))

    # Statements

    def query(self, text):
        """One statement over the text protocol."""
        self.command(COM_QUERY, text.encode())
        return self.answer(self.text_row)

    def execute(self, text, parameters=()):
        """One statement, prepared, run once and closed; parameters are int, str or None."""
        self.command(COM_STMT_PREPARE, text.encode())
        first = self.receive()
        if first[0] == 0xFF:
            raise self.error(first)
        statement, columns, params = struct.unpack_from("<IHH", first, 1)
        for count in (params, columns):
            if count:
                while not self.is_eof(self.receive()):
                    pass
        try:
            payload = struct.pack("<IBI", statement, 0, 1)
            if parameters:
                payload += self.parameters(parameters)
            self.command(COM_STMT_EXECUTE, payload)
            return self.answer(self.binary_row)
        finally:
            self.command(COM_STMT_CLOSE, struct.pack("<I", statement))

    @staticmethod
    def parameters(values):
        nulls = bytearray((len(values) + 7) // 8)
        types, data = b"", b""
        for n, value in enumerate(values):
            if value is None:
                nulls[n // 8] |= 1 << n % 8
                types += bytes([NULL, 0])
            elif isinstance(value, int):
                types += bytes([LONGLONG, 0])
                data += struct.pack("<q", value)
            else:
                raw = value.encode()
                types += bytes([253, 0])
                assert len(raw) < 251
                data += bytes([len(raw)]) + raw
        return bytes(nulls) + b"\1" + types + data

    @staticmethod
    def is_eof(packet):
        return packet[0] == 0xFE and len(packet) < 9

    def answer(self, decode):
        first = self.receive()
        if first[0] == 0xFF:
            raise self.error(first)
        if first[0] == 0:
            return Result(affected=length(first, 1)[0])
        count = length(first, 0)[0]
        types, flags, names = [], [], []
        for _ in range(count):
            packet, at = self.receive(), 0
            for n in range(6):
                size, at = length(packet, at)
                if n == 4:
                    names.append(packet[at:at + size].decode("utf8", "replace"))
                at += size
            types.append(packet[at + 7])
            flags.append(struct.unpack_from("<H", packet, at + 8)[0])
        self.receive()
        rows = []
        while True:
            packet = self.receive()
            if self.is_eof(packet):
                return Result(types, rows, names=names)
            if packet[0] == 0xFF:
                raise self.error(packet)
            rows.append(decode(packet, types, flags))

    @staticmethod
    def text_row(packet, types, _flags):
        row, at = [], 0
        for _ in types:
            if packet[at] == 0xFB:
                row.append(None)
                at += 1
            else:
                size, at = length(packet, at)
                row.append(packet[at:at + size])
                at += size
        return tuple(row)

    @staticmethod
    def binary_row(packet, types, flags):
        nulls = packet[1:1 + (len(types) + 9) // 8]
        at, row = 1 + len(nulls), []
        for n, kind in enumerate(types):
            bit = n + 2
            if nulls[bit // 8] >> bit % 8 & 1:
                row.append(None)
                continue
            value, at = binary_value(packet, at, kind, bool(flags[n] & UNSIGNED_FLAG))
            row.append(value)
        return tuple(row)


INTEGERS = {TINY: "b", SHORT: "h", YEAR: "h", LONG: "i", INT24: "i", LONGLONG: "q"}


def binary_value(packet, at, kind, unsigned):
    """A value of the binary protocol as the text protocol writes it; doubles as repr."""
    if kind in INTEGERS:
        form = INTEGERS[kind]
        form = form.upper() if unsigned or kind == YEAR else form
        value = struct.unpack_from("<" + form, packet, at)[0]
        text = f"{value:04}" if kind == YEAR else str(value)
        return text.encode(), at + struct.calcsize(form)
    if kind == FLOAT:
        return b"%.6g" % struct.unpack_from("<f", packet, at)[0], at + 4
    if kind == DOUBLE:
        return repr(struct.unpack_from("<d", packet, at)[0]).encode(), at + 8
    if kind in (DATE, DATETIME, TIMESTAMP, TIME):
        size = packet[at]
        return moment(packet[at + 1:at + 1 + size], kind).encode(), at + 1 + size
    size, at = length(packet, at)
    return packet[at:at + size], at + size


def moment(raw, kind):
    if kind == TIME:
        raw = raw.ljust(12, b"\0")
        negative, days, hours, minutes, seconds, micros = struct.unpack("<BIBBBI", raw)
        text = f"{'-' if negative else ''}{days * 24 + hours:02}:{minutes:02}:{seconds:02}"
    else:
        raw = raw.ljust(11, b"\0")
        year, month, day, hours, minutes, seconds, micros = struct.unpack("<HBBBBBI", raw)
        text = f"{year:04}-{month:02}-{day:02}"
        if kind == DATE:
            return text
        text += f" {hours:02}:{minutes:02}:{seconds:02}"
    return text + (f".{micros:06}" if micros else "")


def length(packet, at):
    """A length-encoded integer and the place behind it."""
    first = packet[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(packet[at + 1:at + 1 + size], "little"), at + 1 + size
