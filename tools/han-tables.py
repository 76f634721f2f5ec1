#!/usr/bin/env python3
"""Generates crates/types/data/han.bin: the Chinese and the Japanese 0900 collations (see docs/decisions/collations.md;
the format is described in han.rs).

  han-tables.py --mysql HOST:PORT --out FILE             asks a MySQL 9 for WEIGHT_STRING and writes the table
  han-tables.py --mysql HOST:PORT --esker HOST:PORT      compares WEIGHT_STRING of every character, and of texts of kana

Both orders are the root collation's with other ideographs and with whole scripts moved. What the rules of han.rs say is
left out, so that only the order of the ideographs, some hundred other characters and the contractions are in the table.

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
SPEC = importlib.util.spec_from_file_location("alphabet_tables", HERE / "alphabet-tables.py")
alphabets = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(alphabets)
tables = alphabets.tables

COLLATIONS = {"zh": "utf8mb4_zh_0900_as_cs", "ja": "utf8mb4_ja_0900_as_cs_ks"}
ROOT = "utf8mb4_0900_as_cs"
# The first weights of implicit elements, and what Chinese, which numbers them without gaps, has instead.
LEADS = range(0xFB00, 0xFC00)
CHINESE_LEADS = {lead: 0xBDBF + n for n, lead in enumerate((0xFB40, 0xFB41, 0xFB80, 0xFB84, 0xFB85))}
CHINESE_LEADS |= {0xFB00: 0xF621} | {lead: 0xF622 + lead - 0xFBC0 for lead in range(0xFBC0, 0xFBE2)}
LATIN_A, CHINESE_SHIFT = 0x1C47, 0xA17D
# Japanese: what has its place behind the ideographs, and the kana among them, which are moved to its beginning.
OTHERS, KANA, KANA_SHIFT, BEHIND = range(0x1FB6, 0x54A4), range(0x3D5A, 0x3D8C), 0x1DA4, 0xFB86
MARKS = "ーゝゞヽヾ"
# What is in Chinese words that are read in another way than their characters. Found by asking for all pairs of the 8,836
# characters of gb2312 and the frequent ones of big5: there are three such words.
IN_WORDS = "重庆沈阳藏文"


def levels(weights):
    """The weights on each of four levels. Where MySQL gives no weight it gives a zero one, which is left out."""
    parts = [[]]
    for weight in tables.weights(weights):
        parts[-1].append(weight) if weight else parts.append([])
    parts += [[]] * (4 - len(parts))
    return *map(tuple, parts[:3]), tuple(sum(parts[3:], []))


def moved(language, primary):
    """First weights as the rules have them."""
    out, at = [], 0
    while at < len(primary):
        weight = primary[at]
        is_pair = weight in LEADS and at + 1 < len(primary)
        if is_pair:
            out += [CHINESE_LEADS[weight] if language == "zh" else weight, primary[at + 1]]
        elif language == "zh":
            out.append(weight + CHINESE_SHIFT if LATIN_A <= weight < OTHERS.stop else weight)
        elif weight in KANA:
            out.append(weight - KANA_SHIFT)
        else:
            out += [BEHIND, weight] if weight in OTHERS else [weight]
        at += 1 + is_pair
    # Eight are kept of a character.
    return tuple(out[: tables.MAX_ELEMENTS])


class Language:
    def __init__(self, server, name):
        self.name, self.collation = name, COLLATIONS[name]
        self.asker = alphabets.Language(server, name)
        rows = server.chars(f"hex(weight_string(c collate {ROOT}))", f"hex(weight_string(c collate {self.collation}))")
        self.ideographs, self.chars, self.fourth = {}, {}, {}
        for cp, row in rows.items():
            root, here = (levels(text) for text in (row + ["", ""])[:2])
            if here[3]:
                (self.fourth[cp],) = here[3]
            first = tuple(here[0][: tables.MAX_ELEMENTS])
            if here[1:3] == root[1:3] and first == moved(name, root[0]):
                continue
            if here[1:3] == ((0x20,), (2,)) and len(here[0]) == 1 and root[0][0] in LEADS:
                self.ideographs[cp] = here[0][0]
            else:
                self.chars[cp] = here[:3]
        self.contractions = self.find_contractions()

    def ask(self, texts):
        return {text: levels(answer) for text, answer in self.asker.ask(sorted(texts), self.collation).items()}

    def find_contractions(self):
        if self.name == "zh":
            firsts = [*map(chr, alphabets.LETTERS), *IN_WORDS]
            seconds = [*map(chr, alphabets.MARKS), *map(chr, alphabets.ASCII), *IN_WORDS]
        else:
            kana = [*range(0x3041, 0x3100), *range(0x31F0, 0x3200), *range(0xFF66, 0xFF9E)]
            # Marks at the beginning of a text weigh something else in MySQL, whatever is behind them: not here.
            firsts, seconds = [c for c in map(chr, kana) if c not in MARKS], MARKS
        pairs = ["".join(pair) for pair in itertools.product(firsts, seconds)]
        single = self.ask({c for pair in pairs for c in pair})
        parts = {text: tuple(a + b for a, b in zip(single[text[0]], single[text[1]])) for text in pairs}
        return {text: w for text, w in self.ask(pairs).items() if w != parts[text]}

    def split(self):
        """The characters that the table has room for, and the contractions with the others."""
        read = self.as_in_root if self.name == "ja" else alphabets.elements
        chars = {cp: read(w) for cp, w in self.chars.items()}
        contractions = {text: alphabets.elements(w[:3]) for text, w in self.contractions.items()}
        for cp in list(chars):
            if not alphabets.fits(chars[cp]):
                contractions[chr(cp)] = chars.pop(cp)
        return chars, contractions

    @staticmethod
    def as_in_root(weights):
        """Elements to which the rules are to be applied."""
        moved_kana = range(KANA.start - KANA_SHIFT, KANA.stop - KANA_SHIFT)
        behind = [before == BEHIND for before in (0, *weights[0])]
        first = [w + KANA_SHIFT if w in moved_kana and not is_behind else w for w, is_behind in zip(weights[0], behind)]
        return alphabets.elements(([w for w in first if w != BEHIND], *weights[1:]))


def ideographs(of):
    """Runs of characters, and their weights."""
    runs = []
    for cp in sorted(of):
        if runs and cp == runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([cp, cp + 1])
    out, last = bytearray(tables.varint(len(runs))), 0
    for start, end in runs:
        out += tables.varint(start - last) + tables.varint(end - start)
        last = end
    return bytes(out) + b"".join(struct.pack("<H", of[cp]) for cp in sorted(of))


def fourth(of):
    assert set(of.values()) <= {2, 8}
    out, last = bytearray(tables.varint(len(of))), 0
    for cp in sorted(of):
        out += tables.varint((cp - last) << 1 | (of[cp] == 8))
        last = cp
    return bytes(out)


def generate(server, path):
    server.make_chars()
    languages = [Language(server, name) for name in COLLATIONS]
    parts = [language.split() for language in languages]
    pairs = sorted({ce[1:] for both in parts for part in both for ces in part.values() for ce in ces})
    index = {pair: i for i, pair in enumerate(pairs)}
    out = bytearray(struct.pack("<H", len(pairs)))
    for pair in pairs:
        out += struct.pack("<HH", *pair)
    for language, (chars, contractions) in zip(languages, parts):
        out += ideographs(language.ideographs)
        out += tables.varint(len(chars)) + tables.entries_of(chars, index)
        out += alphabets.packed_contractions(contractions, index)
        print(f"{language.name}: {len(language.ideographs)} ideographs, {len(chars)} other characters,"
              f" {len(contractions)} contractions, {len(language.fourth)} with a fourth weight")
    out += fourth(languages[1].fourth)
    path.write_bytes(out)
    print(f"{len(out)} bytes")


def compare(mysql, esker):
    count = bad = 0

    def check(what, there, here):
        nonlocal count, bad
        count += 1
        if there != here:
            bad += 1
            if bad < 100:
                print(f"{what}: here {here}, there {there}")

    for server in (mysql, esker):
        server.make_chars()
    for collation in (*COLLATIONS.values(), "utf8mb4_ja_0900_as_cs"):
        of_all = (server.chars(f"hex(weight_string(c collate {collation}))") for server in (mysql, esker))
        there, here = of_all
        for cp in there:
            check(f"{collation} U+{cp:04X}", there[cp], here[cp])
        draw = random.Random(1)
        pool = [*"かがカｶㇰはハんあアー一-中aÀm", *IN_WORDS, *MARKS, *"\u0300\u0304"]
        texts = {"か" + "".join(draw.choices(pool, k=draw.randint(1, 8))) for _ in range(3000)}
        there, here = (alphabets.Language(server, "zh").ask(sorted(texts), collation) for server in (mysql, esker))
        for text in texts:
            # Half-width kana have weights of zero on the fourth level of MySQL.
            check(f"{collation} {text!r}", levels(there[text]), levels(here[text]))
    print(f"{count} texts, {bad} differences")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mysql", required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--esker")
    args = parser.parse_args()
    mysql = alphabets.server_at(args.mysql)
    if args.esker:
        compare(mysql, alphabets.server_at(args.esker))
    if args.out:
        generate(mysql, args.out)


if __name__ == "__main__":
    main()
