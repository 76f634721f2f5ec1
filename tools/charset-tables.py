#!/usr/bin/env python3
"""Generates the frozen tables of character sets in crates/types/data/ (see docs/decisions/collations.md).

Source: what MySQL 9.7 answers for every code of a character set (CONVERT, UPPER, LOWER, WEIGHT_STRING), and for every
character of the basic plane (CONVERT).

  charset-tables.py --mysql HOST:PORT --out DIR             writes charsets8.bin, collations8.bin, multibyte/*.bin
                                                            and gb18030.bin
  charset-tables.py --mysql HOST:PORT --esker HOST:PORT     compares every character of every set between two servers

Like the collations' tables these are part of what is on disk: a change of any byte that is already released makes
existing indexes wrong.
"""
import argparse
import hashlib
import pathlib
import struct
import subprocess

# In the order of `Form::Byte` in charset.rs.
BYTE_SETS = """armscii8 cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 dec8 geostd8 greek hebrew hp8 keybcs2 koi8r koi8u
latin1 latin2 latin5 latin7 macce macroman swe7 tis620""".split()
# Four levels, and letters of two characters.
MISSING = ["cp1250_czech_cs", "latin2_czech_cs"]
# In the order of `MULTIBYTE` in multibyte.rs.
MULTIBYTE_SETS = "big5 cp932 eucjpms euckr gb2312 gbk sjis ujis".split()
SETUP = """
create database if not exists esker_charsets; use esker_charsets;
drop table if exists d; drop table if exists b; drop table if exists u;
create table d (n int primary key);
insert into d values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),(15);
create table b (n int primary key, c varbinary(4));
insert into b select a.n*16+b.n, unhex(lpad(hex(a.n*16+b.n), 2, '0')) from d a, d b;
drop table if exists w; create table w (n int primary key, c varbinary(4));
insert into w select n, c from b;
insert into w select a.n*4096+b.n*256+d.n*16+e.n, unhex(lpad(hex(a.n*4096+b.n*256+d.n*16+e.n), 4, '0'))
    from d a, d b, d d, d e where a.n >= 8;
insert into w select n - 32768, concat(x'8F', c) from w where n >= 41377 and n & 255 >= 161;
create table u (cp int primary key, c varchar(4) character set utf8mb4 collate utf8mb4_bin);
insert into u select cp, convert(unhex(lpad(hex(cp), 8, '0')) using utf32) from
    (select b.n*4096+c.n*256+d.n*16+e.n cp from d b, d c, d d, d e) x where cp not between 55296 and 57343;
"""
ALL_PLANES = """
drop table if exists p; create table p (cp int primary key, c varchar(4) character set utf8mb4 collate utf8mb4_bin);
insert into p select n * 65536 + cp, convert(unhex(lpad(hex(n * 65536 + cp), 8, '0')) using utf32)
    from (select n from d union select 16) x, (select b.n*4096+c.n*256+d.n*16+e.n cp from d b, d c, d d, d e) y
    where n * 65536 + cp not between 55296 and 57343;
"""
QUESTION_MARK = 0x3F
# What MySQL adds to the places by pinyin.
PINYIN = 0xFFA00000


class Server:
    """A server reached through the mariadb command line."""

    def __init__(self, address):
        host, port = address.split(":")
        tail = ["-uroot", "--skip-ssl", "--default-character-set=utf8mb4", "-BN", "--quick"]
        self.args = ["mariadb", f"-h{host}", f"-P{port}", *tail]

    def run(self, sql):
        sql = f"use esker_charsets; {sql}" if "create database" not in sql else sql
        out = subprocess.run(self.args, input=sql, stdout=subprocess.PIPE, check=True, text=True)
        return [line.split("\t") for line in out.stdout.splitlines()]

    def columns(self, *exprs, table="b", key="n"):
        """The answers for each row of a table, column by column."""
        rows = self.run(f"select {', '.join(f'hex({e})' for e in exprs)} from {table} order by {key}")
        return list(zip(*rows))


def collations_of(server, charsets):
    names = ",".join(f"'{name}'" for name in charsets)
    rows = server.run(
        "select collation_name, character_set_name from information_schema.collations"
        f" where character_set_name in ({names}) order by 1"
    )
    return [(collation, charset) for collation, charset in rows]


def byte_charset(server, name):
    """256 code points, 0 for a byte that is no character; 256 upper and 256 lower bytes."""
    text = f"convert(c using {name})"
    points, upper, lower = server.columns(f"convert({text} using utf32)", f"upper({text})", f"lower({text})")
    points = [int(p, 16) for p in points]
    for byte, point in enumerate(points):
        if point == QUESTION_MARK != byte or point == 0xFFFD:
            points[byte] = 0
    check_encoding(server, name, points)
    cases = [bytes(int(x, 16) for x in column) for column in (upper, lower)]
    return struct.pack("<256H", *points) + b"".join(cases)


def check_encoding(server, name, points):
    """Of several bytes that are one character, the first is written."""
    (encoded,) = server.columns(f"convert(c using {name})", table="u", key="cp")
    known = [cp for cp in range(0x10000) if not 0xD800 <= cp < 0xE000]
    for cp, there in zip(known, encoded):
        here = points.index(cp) if cp in points else QUESTION_MARK
        assert here == int(there, 16) or cp == 0xFFFD, (name, hex(cp), here, there)


def byte_collation(server, collation, charset):
    """256 weights, the number of bytes that have a second one, and these with it."""
    (answers,) = server.columns(f"weight_string(convert(c using {charset}) collate {collation})")
    weights = [bytes.fromhex(w) for w in answers]
    second = [bytes([byte, w[1]]) for byte, w in enumerate(weights) if len(w) == 2]
    assert all(len(w) in (1, 2) for w in weights), collation
    return bytes(w[0] for w in weights) + bytes([len(second)]) + b"".join(second)


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def zigzag(n):
    return n << 1 if n >= 0 else (-n << 1) - 1


def packed_list(pairs):
    """The runs of a list, as multibyte.rs describes them."""
    runs, key, value = [], 0, 0
    for k in sorted(pairs):
        if not runs or k != key:
            runs.append((k - key, []))
        runs[-1][1].append(varint(zigzag(pairs[k] - value - 1)))
        key, value = k + 1, pairs[k]
    body = b"".join(varint(gap) + varint(len(values)) + b"".join(values) for gap, values in runs)
    return varint(len(runs)) + body


def multibyte_charset(server, name, collation):
    """The five lists of a character set."""
    text = f"convert(c using {name})"
    exprs = [f"convert({text} using utf32)", f"convert(upper({text}) using utf32)"]
    exprs += [f"convert(lower({text}) using utf32)", f"weight_string({text} collate {collation})"]
    asked = ", ".join(f"hex({e})" for e in exprs)
    rows = server.run(f"select n, hex(c), {asked} from w where char_length({text}) = 1 order by n")
    chars, upper, lower, weights = {}, {}, {}, {}
    for n, code, char, up, low, weight in rows:
        n, char = int(n), int(char or "3F", 16)
        if char == QUESTION_MARK != n or len(code) == 6 and name not in ("ujis", "eucjpms"):
            continue
        assert n >= 0x80 or char == n
        assert len(weight) == len(code) and (len(code) < 6 or weight == code)
        chars[n] = char
        upper.update({char: int(up, 16)} if int(up, 16) != char else {})
        lower.update({char: int(low, 16)} if int(low, 16) != char else {})
        if weight != code:
            weights[n] = int(weight, 16)
    return b"".join(packed_list(x) for x in (chars, choices(server, name, chars), upper, lower, weights))


def choices(server, name, chars):
    """The codes that are written for characters of which another code is the first."""
    (encoded,) = server.columns(f"convert(c using {name})", table="u", key="cp")
    first, chosen = {}, {}
    for code, char in chars.items():
        first.setdefault(char, code)
    known = [cp for cp in range(0x10000) if not 0xD800 <= cp < 0xE000]
    for cp, there in zip(known, encoded):
        code = int(there, 16)
        code = code & 0x7FFF if code > 0xFFFF else code
        if code == QUESTION_MARK != cp:
            assert cp not in first
        elif first.get(cp) != code:
            # A code that is another character could be written, not read.
            chosen.update({cp: code} if chars.get(code) == cp else {})
    return chosen


def runs_of(keys):
    """Keys in a row."""
    runs = []
    for key in sorted(keys):
        if runs and key == runs[-1].stop:
            runs[-1] = range(runs[-1].start, key + 1)
        else:
            runs.append(range(key, key + 1))
    return runs


def packed_runs(runs):
    """As han.rs and gb18030.rs describe them, without what follows each."""
    gaps = (run.start - before for run, before in zip(runs, (0, *(run.stop for run in runs))))
    return [varint(gap) + varint(len(run)) for gap, run in zip(gaps, runs)]


def packed_pairs(pairs):
    """As in case.bin."""
    out, last = varint(len(pairs)), 0
    for char in sorted(pairs):
        out += varint(char - last) + varint(zigzag(pairs[char] - char))
        last = char
    return out


def number_of(code):
    """What a code of four bytes counts."""
    return ((code[0] - 0x81) * 10 + code[1] - 0x30) * 1260 + (code[2] - 0x81) * 10 + code[3] - 0x30


def gb18030(server):
    """The parts of gb18030.bin; what gb18030.rs knows without them is checked."""
    server.run(ALL_PLANES)
    text = "convert(c using gb18030)"
    exprs = [text, f"convert(upper({text}) using utf32)", f"convert(lower({text}) using utf32)"]
    answers = server.columns(*exprs, f"weight_string({text} collate gb18030_chinese_ci)", table="p", key="cp")
    known = [cp for cp in range(0x110000) if not 0xD800 <= cp < 0xE000]
    codes = {cp: bytes.fromhex(code) for cp, code in zip(known, answers[0])}
    upper, lower = ({cp: int(to, 16) for cp, to in zip(known, column)} for column in answers[1:3])
    weights = {cp: bytes.fromhex(weight) for cp, weight in zip(known, answers[3])}
    assert all(codes[cp] == bytes([cp]) for cp in range(0x80))
    two = {int.from_bytes(code, "big"): cp for cp, code in codes.items() if len(code) == 2}
    numbers = {cp: number_of(code) for cp, code in codes.items() if len(code) == 4}
    assert all(numbers[cp] == cp - 0x10000 + 189000 for cp in known if cp >= 0x10000)
    pinyin = {cp: int.from_bytes(w, "big") - PINYIN for cp, w in weights.items() if len(w) == 4 and w[1] >= 0xA0}
    for cp in known:
        code = codes[upper[cp]]
        shown = code if len(code) < 4 else (0xFF000000 + number_of(code)).to_bytes(4, "big")
        assert cp in pinyin or weights[cp] == shown, hex(cp)
    runs = []
    for run in runs_of(cp for cp in numbers if cp < 0x10000):
        for cp in run:
            if runs and cp == runs[-1].stop and numbers[cp] == numbers[cp - 1] + 1:
                runs[-1] = range(runs[-1].start, cp + 1)
            else:
                runs.append(range(cp, cp + 1))
    ends = (0, *(numbers[run.stop - 1] + 1 for run in runs))
    four = (packed + varint(zigzag(numbers[run.start] - end)) for packed, run, end in zip(packed_runs(runs), runs, ends))
    yield packed_list(two)
    yield varint(len(runs)) + b"".join(four)
    for cases in (upper, lower):
        yield packed_pairs({cp: to for cp, to in cases.items() if to != cp})
    ideographs = packed_runs(runs_of(pinyin))
    yield varint(len(ideographs)) + b"".join(ideographs)
    yield b"".join(struct.pack("<H", pinyin[cp]) for cp in sorted(pinyin))


def generate(server, out):
    server.run(SETUP)
    tables = [
        (collation, charset)
        for collation, charset in collations_of(server, BYTE_SETS)
        if not collation.endswith("_bin") and collation not in MISSING
    ]
    files = {
        "charsets8.bin": b"".join(byte_charset(server, name) for name in BYTE_SETS),
        "collations8.bin": b"".join(byte_collation(server, *table) for table in tables),
    }
    for name in MULTIBYTE_SETS:
        default = server.run(f"select default_collate_name from information_schema.character_sets"
                             f" where character_set_name = '{name}'")[0][0]
        files[f"multibyte/{name}.bin"] = multibyte_charset(server, name, default)
    files["gb18030.bin"] = b"".join(gb18030(server))
    (out / "multibyte").mkdir(exist_ok=True)
    for name, data in files.items():
        (out / name).write_bytes(data)
        print(f"{name:22} {len(data):7} bytes  sha256 {hashlib.sha256(data).hexdigest()}")
    for number, (collation, _) in enumerate(tables):
        print(f"collations8.bin {number} {collation}")


def questions(server, charset):
    """For each table of characters what is asked about a character set."""
    text = f"convert(c using {charset})"
    collations = [name for name, _ in collations_of(server, [charset])]
    yield "u", "cp", [text, f"convert({text} using utf8mb4)", f"upper({text})", f"lower({text})"]
    yield "u", "cp", [f"weight_string({text} collate {name})" for name in collations]
    yield "b", "n", [f"convert({text} using utf8mb4)"]


def compare(one, other):
    """Prints what two servers answer differently for the character sets that both have; collations of the second."""
    for server in (one, other):
        server.run(SETUP)
    names = "select character_set_name from information_schema.character_sets where"
    names += " character_set_name <> 'binary' order by 1"
    shared = [row for row in other.run(names) if row in one.run(names)]
    for (charset,) in shared:
        asked, different = 0, []
        for table, key, exprs in questions(other, charset):
            answers = (server.columns(*exprs, table=table, key=key) for server in (one, other))
            for expr, left, right in zip(exprs, *answers):
                asked += len(left)
                different += [f"{expr} {a} {b}" for a, b in zip(left, right) if a != b]
        print(f"{charset:8} {asked:8} answers, {len(different)} differ", *different[:5], sep="; ", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mysql", required=True)
    parser.add_argument("--esker")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    server = Server(args.mysql)
    if args.out:
        generate(server, args.out)
    if args.esker:
        compare(server, Server(args.esker))


if __name__ == "__main__":
    main()
