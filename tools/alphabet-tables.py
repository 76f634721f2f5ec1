#!/usr/bin/env python3
"""Generates crates/types/data/alphabets.bin: languages in which several characters are one letter, and the languages of
the 0900 collations (see docs/decisions/collations.md; the format is described in alphabets.rs).

  alphabet-tables.py --mysql HOST:PORT --out FILE      asks a MySQL 9 for WEIGHT_STRING and writes the table
  alphabet-tables.py --mysql HOST:PORT --esker HOST:PORT [--seed N]
                                                       compares WEIGHT_STRING of random texts of letters

Contractions are found by asking for the weights of pairs of letters, of letters and marks, and of longer texts made of
what is in those that were found: where these are not the weights of the parts, it is a contraction.

The table is part of the on-disk format of indexes: a change of any byte that is already released makes existing indexes
wrong. This script is kept so that anybody can check where it comes from.
"""
import argparse
import importlib.util
import itertools
import pathlib
import random
import struct

HERE = pathlib.Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("collation_tables", HERE / "collation-tables.py")
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)

# In the order of enum Alphabet.
OLD = "croatian czech danish lithuanian slovak spanish2".split()
NEW = """bg bs cs da de_pb eo es es_trad et gl hr hu is la lt lv mn_cyrl nb nn pl ro ru sk sl sr_latn sv tr vi""".split()
ASCII = [*range(0x41, 0x5B), *range(0x61, 0x7B)]
MARKS = range(0x300, 0x370)
LETTERS = [*ASCII, *range(0xC0, 0x250), *range(0x1E00, 0x1F00), *range(0x400, 0x530)]
# What the table of characters has room for.
MOST_SECOND, MOST_THIRD = 0x1FF, 0x1F
# Third weights that Danish, upper case first, keeps below the others.
UPPER = {8, 9, 0xA, 0xB, 0xC, 0xE, 0x11, 0x12, 0x1D}
PER_QUESTION = 2000


def levels(text):
    """The weights on each level. MySQL gives contractions without a primary weight a zero one, which is left out."""
    parts = [[]]
    for weight in tables.weights(text):
        parts[-1].append(weight) if weight else parts.append([])
    parts += [[]] * (3 - len(parts))
    return tuple(sum(parts[:-2], [])), tuple(parts[-2]), tuple(parts[-1])


def one_level(text):
    return tuple(tables.weights(text)), (), ()


def upper_first(weight):
    return weight | (0x100 if weight in UPPER else 0x300)


class Language:
    """What MySQL says about a collation."""

    def __init__(self, server, name):
        self.server, self.name, self.is_old = server, name, name in OLD
        self.collation = f"utf8mb4_{name}_ci" if self.is_old else f"utf8mb4_{name}_0900_as_cs"
        self.base = "utf8mb4_unicode_ci" if self.is_old else "utf8mb4_0900_as_cs"
        self.single, self.contractions = {}, {}

    def ask(self, texts, collation=None):
        """WEIGHT_STRING of texts, as it is printed."""
        answers = {}
        for start in range(0, len(texts), PER_QUESTION):
            part = texts[start : start + PER_QUESTION]
            escaped = ("".join(f"\\\\u{unit:04x}" for unit in struct.unpack(f">{len(raw) // 2}H", raw))
                       for raw in (text.encode("utf-16-be") for text in part))
            rows = self.server.run(
                f"select n, hex(weight_string(t collate {collation or self.collation})) from json_table('["
                + ",".join(f'"{text}"' for text in escaped)
                + "]', '$[*]' columns (n for ordinality, t varchar(20) character set utf8mb4 path '$')) j"
            )
            answers.update({part[int(row[0]) - 1]: row[1] if len(row) > 1 else "" for row in rows})
        return answers

    def weights(self, texts):
        read = one_level if self.is_old else levels
        return {text: read(answer) for text, answer in self.ask(sorted(texts)).items()}

    def of_parts(self, text):
        """What a text weighs as far as is known."""
        out, at = ([], [], []), 0
        while at < len(text):
            longest = (text[at : at + n] for n in (4, 3, 2) if text[at : at + n] in self.contractions)
            part = next(longest, text[at])
            found = self.contractions.get(part) or self.single[part]
            for level, more in zip(out, found):
                level.extend(more)
            at += len(part)
        return tuple(map(tuple, out))

    def look_at(self, texts):
        """Texts that weigh something else than their parts are contractions; these are returned."""
        unknown = {c for text in texts for c in text} - self.single.keys()
        self.single.update(self.weights(unknown))
        found = {text: w for text, w in self.weights(texts).items() if w != self.of_parts(text)}
        self.contractions.update(found)
        return found

    def changed_chars(self):
        if self.name == "da":
            return self.changed_danish()
        read = one_level if self.is_old else levels
        rows = self.server.run(
            f"select cp, hex(weight_string(c collate {self.collation})) from esker_tables.u where"
            f" weight_string(c collate {self.collation}) <> weight_string(c collate {self.base})"
        )
        return {int(row[0]): read(row[1] if len(row) > 1 else "") for row in rows}

    def changed_danish(self):
        """Characters whose third weights are not those of the root collation with upper case first."""
        rows = self.server.run(
            f"select cp, hex(weight_string(c collate {self.base})), hex(weight_string(c collate {self.collation}))"
            " from esker_tables.u where cp < 0x3400"
        )
        changed = {}
        for row in rows:
            root, here = (levels(text) for text in (row[1:] + ["", ""])[:2])
            if (*root[:2], tuple(map(upper_first, root[2]))) != here:
                changed[int(row[0])] = here
        return changed

    def find(self):
        self.chars = self.changed_chars()
        few = len(self.chars) < 100
        first = {*LETTERS, *MARKS, *(c for c in self.chars if c < 0x2000 and len(self.chars) < 2000)}
        second = {*ASCII, *MARKS, *(c for c in self.chars if c < (0x2000 if few else 0x250))}
        pairs = self.look_at([chr(a) + chr(b) for a in first for b in second])
        parts = {c for text in pairs for c in text}
        letters = sorted({c.lower() for c in parts if c < "\x7f"})
        marks = sorted(c for c in parts if ord(c) in MARKS)
        for length in (3, 4):
            candidates = {"".join(t) for t in itertools.product(letters, repeat=length)}
            shorter = [text for text in self.contractions if len(text) == length - 1]
            candidates |= {text + mark for text in shorter for mark in marks}
            for text in self.look_at(candidates):
                cases = itertools.product(*({c, c.upper()} for c in text))
                self.look_at({"".join(chars) for chars in cases})


def elements(weights):
    count = max(map(len, weights))
    return [tuple(level[i] if i < len(level) else 0 for level in weights) for i in range(count)]


def fits(ces):
    return all(ce[1] <= MOST_SECOND and ce[2] <= MOST_THIRD for ce in ces)


def split(language):
    """The characters that the table has room for, and the contractions with the others."""
    chars = {cp: elements(w) for cp, w in language.chars.items()}
    contractions = {text: elements(w) for text, w in language.contractions.items()}
    for cp in list(chars):
        if language.name == "da" or not fits(chars[cp]) or (cp < 128 and len(chars[cp]) != 1):
            contractions[chr(cp)] = chars.pop(cp)
    return chars, contractions


def packed_contractions(contractions, index):
    out, primary = bytearray(tables.varint(len(contractions))), 0
    for text in sorted(contractions):
        ces = contractions[text]
        assert len(ces) <= tables.MAX_ELEMENTS
        out += tables.varint(len(text)) + b"".join(tables.varint(ord(c)) for c in text) + tables.varint(len(ces))
        for ce in ces:
            out += tables.varint(tables.zigzag(ce[0] - primary)) + tables.varint(index[ce[1:]])
            primary = ce[0]
    return bytes(out)


def generate(server, path):
    server.make_chars()
    languages = []
    for name in OLD + NEW:
        language = Language(server, name)
        language.find()
        languages.append(split(language))
        print(f"{name:12} {len(languages[-1][0]):5} characters {len(languages[-1][1]):4} contractions", flush=True)
    pairs = sorted({ce[1:] for both in languages for part in both for ces in part.values() for ce in ces})
    index = {pair: i for i, pair in enumerate(pairs)}
    out = bytearray(struct.pack("<H", len(pairs)))
    for pair in pairs:
        out += struct.pack("<HH", *pair)
    for chars, contractions in languages:
        out += tables.varint(len(chars)) + tables.entries_of(chars, index)
        out += packed_contractions(contractions, index)
    path.write_bytes(out)
    print(f"{len(out)} bytes")


def compare(mysql, esker, seed):
    draw, bad, count = random.Random(seed), 0, 0
    for name in OLD + NEW:
        pool = [*map(chr, LETTERS), *"aacchhddzzssllnn", "\u0301", "\u030a", "字", "가", " ", "-", "1"]
        texts = sorted({"".join(draw.choices(pool, k=draw.randint(1, 8))) for _ in range(1000)})
        for kind in ["ci"] if name in OLD else ["0900_ai_ci", "0900_as_cs"]:
            collation = f"utf8mb4_{name}_{kind}"
            there, here = (Language(server, name).ask(texts, collation) for server in (mysql, esker))
            for text in texts:
                count += 1
                if there[text] != here[text]:
                    bad += 1
                    print(f"{collation} {text!r}: here {here[text]}, there {there[text]}")
    print(f"{count} texts, {bad} differences")


def server_at(place):
    host, port = place.split(":")
    return tables.Server(["-h", host, "-P", port])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mysql", required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--esker")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    mysql = server_at(args.mysql)
    if args.esker:
        compare(mysql, server_at(args.esker), args.seed)
    if args.out:
        generate(mysql, args.out)


if __name__ == "__main__":
    main()
