#!/usr/bin/env python3
"""Generates the frozen tables of Unicode's collations in crates/types/data/ (see docs/decisions/collations.md);
those of other character sets are made by charset-tables.py.

Sources, all public:
  - uca900.bin: allkeys-9.0.0.txt, as shipped by pyuca 1.2 on PyPI (pip install pyuca==1.2)
  - uca400.bin, uca520.bin, general_ci.bin and the older half of case.bin: what a
    MariaDB 10.11 server answers for WEIGHT_STRING, UPPER and LOWER of every code point
  - tailored.bin: WEIGHT_STRING of every code point in a MySQL 8.4 or 9
  - the newer half of case.bin: Python's simple case mappings, for characters of Unicode 9.0

  collation-tables.py --mariadb-socket PATH --out DIR        writes the tables
  collation-tables.py --mysql HOST:PORT                      compares them with a MySQL 8 or 9
  collation-tables.py --mysql HOST:PORT --out DIR            writes tailored.bin

The tables are part of the on-disk format of indexes: a change of any byte that is already released
makes existing indexes wrong. This script is kept so that anybody can check where they come from.
"""
import argparse
import hashlib
import pathlib
import re
import struct
import subprocess

# MySQL stores so many collation elements of a character (U+FDFA has 18 in DUCET).
MAX_ELEMENTS = 8
# Tailorings of unicode_ci that have no contractions, in the order of enum Language.
LANGUAGES = """esperanto estonian german2 hungarian icelandic latvian persian polish roman romanian sinhala slovenian
spanish swedish turkish vietnamese""".split()
ALL_CHARS = """
create database if not exists esker_tables; use esker_tables;
create or replace table d (n int primary key);
insert into d values (0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),(15);
create or replace table u (cp int primary key,
    c varchar(4) character set utf8mb4 collate utf8mb4_bin);
insert into u select cp, convert(char(cp using utf32) using utf8mb4) from
    (select a.n*65536+b.n*4096+c.n*256+d.n*16+e.n cp
     from (select n from d union select 16) a, d b, d c, d d, d e) x
    where cp not between 55296 and 57343;
"""


class Server:
    """A server reached through the mariadb command line."""

    def __init__(self, args):
        self.args = ["mariadb", "-uroot", "--default-character-set=utf8mb4", "-BN", "--quick", *args]

    def run(self, sql):
        out = subprocess.run(self.args, input=sql, stdout=subprocess.PIPE, check=True, text=True)
        return [line.split("\t") for line in out.stdout.splitlines()]

    def make_chars(self):
        sql = ALL_CHARS
        if "Maria" not in self.run("select version()")[0][0]:
            sql = re.sub(r"create or replace table (\w+)", r"drop table if exists \1; create table \1", sql)
        self.run(sql)

    def chars(self, *exprs):
        rows = self.run(f"select cp, {', '.join(exprs)} from esker_tables.u order by cp")
        return {int(r[0]): r[1:] for r in rows}


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def zigzag(n):
    return n << 1 if n >= 0 else (-n << 1) - 1


def implicit_400(cp):
    return [0xFB40 + (cp >> 15) + base_old(cp), cp & 0x7FFF | 0x8000]


def base_old(cp):
    if 0x4E00 <= cp <= 0x9FA5:
        return 0
    return 0x40 if 0x3400 <= cp <= 0x4DB5 else 0x80


def old_rule(cp, supplementary):
    """What the decoder does for code points without an entry."""
    if cp > 0xFFFF and not supplementary:
        return [0xFFFD]
    return implicit_400(cp)


def pack(entries, levels):
    """entries: cp -> list of collation elements. The format is described in weights.rs."""
    out = bytearray()
    for cp in range(128):
        primaries = [ce[0] for ce in entries[cp] if ce[0]]
        assert len(primaries) <= 1
        out += struct.pack("<H", primaries[0] if primaries else 0)
    pairs = sorted({ce[1:] for ces in entries.values() for ce in ces}) if levels > 1 else []
    out += struct.pack("<H", len(pairs))
    for second, third in pairs:
        out += struct.pack("<HB", second, third)
    return bytes(out + entries_of(entries, {pair: i for i, pair in enumerate(pairs)}))


def entries_of(entries, index):
    """The characters of a table; `index` numbers the pairs of second and third weight, if there are any."""
    out = bytearray()
    last_cp, last_primary = -1, 0
    for cp in sorted(entries):
        ces = entries[cp]
        assert len(ces) <= MAX_ELEMENTS
        out += varint((cp - last_cp - 1) << 4 | len(ces))
        for ce in ces:
            out += varint(zigzag(ce[0] - last_primary))
            last_primary = ce[0]
            if index:
                out += varint(index[ce[1:]])
        last_cp = cp
    return bytes(out)


def ducet_900():
    import pyuca

    entries = {}
    path = pathlib.Path(pyuca.__file__).parent / "allkeys-9.0.0.txt"
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if ";" not in line or line.startswith("@"):
            continue
        key, value = line.split(";")
        cps = [int(x, 16) for x in key.split()]
        if len(cps) == 1:  # MySQL's root collation has no contractions.
            elements = re.findall(r"\[[.*](\w+)\.(\w+)\.(\w+)\]", value)
            entries[cps[0]] = [tuple(int(x, 16) for x in e) for e in elements]
    for cp, ces in entries.items():
        # The decoder drops elements without any weight.
        entries[cp] = [ce for ce in ces if any(ce)][:MAX_ELEMENTS]
    return entries


def weights(text):
    return [int(text[i : i + 4], 16) for i in range(0, len(text), 4)]


def old_uca(rows, column, supplementary):
    entries = {}
    for cp, row in rows.items():
        w = weights(row[column])
        if cp < 128 or w != old_rule(cp, supplementary):
            entries[cp] = [(x,) for x in w]
    return entries


def tailored(server):
    """For each language: how many characters weigh something else than in unicode_ci, and they as in uca400.bin."""
    server.make_chars()
    names = ["unicode", *LANGUAGES]
    rows = server.chars(*(f"hex(weight_string(c collate utf8mb4_{n}_ci))" for n in names))
    out = bytearray()
    for column in range(1, len(names)):
        other = {cp: [(w,) for w in weights(row[column])] for cp, row in rows.items() if row[column] != row[0]}
        assert all(len(other[cp]) == 1 for cp in other if cp < 128)
        out += varint(len(other)) + entries_of(other, {})
    return bytes(out)


def general_ci(rows):
    """Pairs (delta of code point, zigzag weight - code point) where the weight is not the code point."""
    out, last = bytearray(), 0
    for cp, row in rows.items():
        (w,) = weights(row[0])
        if cp > 0xFFFF:
            assert w == 0xFFFD
        elif w != cp:
            out += varint(cp - last) + varint(zigzag(w - cp))
            last = cp
    return bytes(out)


def case_pairs(mapping):
    """(delta of code point, zigzag mapped - code point), preceded by their number."""
    out, last = bytearray(varint(len(mapping))), 0
    for cp in sorted(mapping):
        out += varint(cp - last) + varint(zigzag(mapping[cp] - cp))
        last = cp
    return bytes(out)


def case_of(rows, column):
    mapping = {}
    for cp, row in rows.items():
        text = bytes.fromhex(row[column]).decode()
        assert len(text) == 1
        if text != chr(cp):
            mapping[cp] = ord(text)
    return mapping


def case_900(assigned):
    upper, lower = {}, {0x130: 0x69}
    for cp in assigned:
        up = chr(cp).upper()
        # Where the full mapping has several characters, the title case is the simple mapping.
        up = chr(cp).title() if len(up) > 1 else up
        for mapping, text in ((upper, up), (lower, chr(cp).lower())):
            if len(text) == 1 and ord(text) != cp and ord(text) in assigned:
                mapping[cp] = ord(text)
    return upper, lower


def generate(server, out):
    server.make_chars()
    old = server.chars(
        "hex(weight_string(c collate utf8mb4_general_ci))",
        "hex(weight_string(c collate utf8mb4_unicode_ci))",
        "hex(weight_string(c collate utf8mb4_unicode_520_ci))",
    )
    case = server.chars(
        *(f"hex({f}(c collate utf8mb4_{n}_ci))" for n in ("general", "unicode_520") for f in ("upper", "lower"))
    )
    new = ducet_900()
    files = {
        "uca900.bin": pack(new, 3),
        "uca400.bin": pack(old_uca(old, 1, False), 1),
        "uca520.bin": pack(old_uca(old, 2, True), 1),
        "general_ci.bin": general_ci(old),
        "case.bin": b"".join(case_pairs(m) for m in [*(case_of(case, i) for i in range(4)), *case_900(new)]),
    }
    for name, data in files.items():
        (out / name).write_bytes(data)
        print(f"{name:16} {len(data):7} bytes  sha256 {hashlib.sha256(data).hexdigest()}")


def implicit_900(cp):
    unified = 0x4E00 <= cp <= 0x9FD5 or cp in (
        *(0xFA0E, 0xFA0F, 0xFA11, 0xFA13, 0xFA14, 0xFA1F, 0xFA21, 0xFA23, 0xFA24, 0xFA27, 0xFA28, 0xFA29),
    )
    extended = ((0x3400, 0x4DB5), (0x20000, 0x2A6D6), (0x2A700, 0x2B734), (0x2B740, 0x2B81D), (0x2B820, 0x2CEA1))
    if 0x17000 <= cp <= 0x18AFF:
        first, second = 0xFB00, cp - 0x17000
    else:
        base = 0xFB40 if unified else 0xFB80 if any(a <= cp <= b for a, b in extended) else 0xFBC0
        first, second = base + (cp >> 15), cp & 0x7FFF
    return [(first, 0x20, 2), (second | 0x8000, 0, 0)]


def elements_900(entries, cp):
    if 0xAC00 <= cp <= 0xD7AF:  # MySQL goes on to the end of the block, and has tertiary 3 in its last rows.
        s = cp - 0xAC00
        parts = [0x1100 + s // 588, 0x1161 + s % 588 // 28] + ([0x11A7 + s % 28] if s % 28 else [])
        third = 3 if cp >= 0xD700 else 2
        return [(entries[p][0][0], 0x20, third) for p in parts]
    return entries.get(cp, implicit_900(cp)) if cp in entries else implicit_900(cp)


def compare_mysql(server):
    server.make_chars()
    names = ["ai_ci", "as_ci", "as_cs"]
    rows = server.chars(*(f"hex(weight_string(c collate utf8mb4_0900_{n}))" for n in names))
    entries, bad = ducet_900(), 0
    for cp, row in rows.items():
        ces = elements_900(entries, cp)
        for levels in (1, 2, 3):
            key = "0000".join("".join(f"{ce[i]:04X}" for ce in ces if ce[i]) for i in range(levels))
            if key != row[levels - 1]:
                bad += 1
                print(f"U+{cp:04X} {names[levels - 1]}: here {key}, there {row[levels - 1]}")
    cases = server.chars(*(f"hex({f}(c collate utf8mb4_0900_ai_ci))" for f in ("upper", "lower")))
    for i, mapping in enumerate(case_900(entries)):
        for cp, row in cases.items():
            mine = chr(mapping.get(cp, cp)).encode().hex().upper()
            # MySQL loses a character whose other case takes more bytes.
            if mine != row[i] and row[i] != "":
                bad += 1
                print(f"U+{cp:04X} case {i}: here {mine}, there {row[i]}")
    print(f"{len(rows)} code points, {bad} differences")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mariadb-socket")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--mysql")
    args = parser.parse_args()
    if args.mysql:
        host, port = args.mysql.split(":")
        server = Server(["-h", host, "-P", port])
        if args.out:
            (args.out / "tailored.bin").write_bytes(tailored(server))
        else:
            compare_mysql(server)
    if args.mariadb_socket:
        generate(Server(["-S", args.mariadb_socket]), args.out or pathlib.Path("crates/types/data"))


if __name__ == "__main__":
    main()
