"""Random expressions of a wanted kind over what a scope offers.

Kinds: num (integers and decimals), dbl (doubles that are exact), approx (doubles that are not: only shown,
never compared or grouped by), str, bin, bit, date, datetime, time, bool. Functions are templates; in braces
stand the kinds of the arguments, `{i}` a small whole number, `{+}` a number from 0 to 6, `{m}` a date or datetime.
A template after `M:` is only for MySQL as the oracle: MariaDB is known to differ (see known.py); after `m:` only for MariaDB:
MySQL 9 has lost the function.
"""
import re

from tree import Items, Node

# Numbers from strings and dates are there too; operators on columns of large integers are left to `big`.
FUNCTIONS = {
    "num": """({num} + {num})|({num} - {num})|({num} * {num})|({num} DIV {num})|({num} % {num})|M:({num} / {num})
(-{num})|ABS({num})|CEIL({num})|FLOOR({num})|ROUND({num}, {i})|TRUNCATE({num}, {i})|ROUND({num})|SIGN({num})|MOD({num}, {i})
GREATEST({num}, {num})|LEAST({num}, {num}, {num})|COALESCE({num}, {num})|IFNULL({num}, {num})|NULLIF({num}, {num})
IF({bool}, {num}, {num})|CASE WHEN {bool} THEN {num} WHEN {bool} THEN {num} ELSE {num} END|CASE {num} WHEN {num} THEN {num} END
CASE WHEN {bool} THEN {num} END|CASE {str} WHEN {str} THEN {num} ELSE {num} END
LENGTH({str})|CHAR_LENGTH({str})|ASCII({str})|ORD({str})|LOCATE({str}, {str})|LOCATE({str}, {str}, {+})|INSTR({str}, {str})
FIELD({str}, {str}, {str})|FIND_IN_SET({str}, 'a,b,ab,,abc')|STRCMP({str}, {str})|BIT_COUNT({num})|BIT_LENGTH({str})
({num} & {num})|({num} ^ {num})|({num} << {+})|({num} >> {+})|(~{num} & 255)|({num} | {num})
YEAR({m})|MONTH({m})|DAY({m})|DAYOFWEEK({m})|WEEKDAY({m})|DAYOFYEAR({m})|QUARTER({m})|HOUR({time})|MINUTE({datetime})|SECOND({time})
MICROSECOND({datetime})|MICROSECOND({time})|WEEK({m})|WEEK({m}, {+})|YEARWEEK({m})|WEEKOFYEAR({m})|TO_DAYS({m})|TO_SECONDS({m})
DATEDIFF({m}, {m})|TIMESTAMPDIFF({unit}, {m}, {m})|EXTRACT({part} FROM {datetime})|TIME_TO_SEC({time})|EXTRACT({tpart} FROM {time})
CAST({num} AS SIGNED)|CAST({num} AS DECIMAL(20,2))|CAST({str} AS SIGNED)|CAST({dbl} AS SIGNED)|CAST({dbl} AS DECIMAL(12,3))|M:CAST({time} AS SIGNED)|m:CAST(({time} + 0) AS SIGNED)
CAST({num} AS UNSIGNED)|({bit} + 0)|CRC32({str})|INTERVAL({num}, 1, 3, 7)|({bool})|({date} + 0)|M:({datetime} + 0)|COERCIBILITY({str})
PERIOD_ADD(202001, {i})|PERIOD_DIFF(202003, 202001 + {+})|LENGTH({bin})|UNIX_TIMESTAMP({date})|M:REGEXP_INSTR({str}, {regex})|INET_ATON('10.0.5.9')
ELT({+}, {num}, {num}, {num}) + 0|CONV(HEX({num} & 4095), 16, 10) + 0|GREATEST({num}, {num}) % 7|ROUND({num} / 4, 2)""",
    "dbl": "({dbl} + {i})|({dbl} - {dbl})|({dbl} * {i})|(-{dbl})|ABS({dbl})|IFNULL({dbl}, {dbl})|IF({bool}, {dbl}, {dbl})|"
           "GREATEST({dbl}, {dbl})|LEAST({dbl}, {i})|COALESCE({dbl}, {i})|FLOOR({dbl})|CEIL({dbl})|ROUND({dbl})|CAST({num} AS DOUBLE)|CASE WHEN {bool} THEN {dbl} END",
    "approx": "({dbl} / 3)|SQRT(ABS({num}))|POW({dbl}, 2)|LN(ABS({num}) + 1)|EXP({i} / 7e0)|LOG10(ABS({num}) + 1)|ATAN2({dbl}, {i})|SIN({num})|COS({dbl})|"
              "DEGREES({dbl})|RADIANS({num})|({num} / 7e0)|ROUND({dbl} / 3, 2)|TRUNCATE({dbl} / 3, 1)|MOD({dbl}, 0.3)|LOG(2, ABS({num}) + 1)|ATAN({num})|COT({num} + 1.5)|"
              "TAN({i} / 9e0)|ASIN({i} / 9e0)|ACOS({i} / 9e0)|({str} + 0)|({str} * 1.5)|({str} + {num})",
    "str": """CONCAT({str}, {str})|CONCAT({str}, {num})|CONCAT({date}, {str})|CONCAT_WS('-', {str}, {str}, {num})|UPPER({str})|LOWER({str})|LEFT({str}, {+})|RIGHT({str}, {+})
SUBSTRING({str}, {i})|SUBSTRING({str}, {i}, {+})|SUBSTRING_INDEX({str}, 'b', {i})|TRIM({str})|LTRIM({str})|RTRIM({str})|TRIM(LEADING 'a' FROM {str})|TRIM(TRAILING 'b' FROM {str})|TRIM(BOTH 'a' FROM {str})
LPAD({str}, {+}, 'xy')|RPAD({str}, {+}, 'xy')|REPEAT({str}, {+})|REPLACE({str}, 'a', {str})|REVERSE({str})|INSERT({str}, {i}, {+}, 'QQ')|ELT({+}, {str}, {str})
HEX({num})|HEX({str})|BIN({num})|OCT({num})|CONV({num}, 10, 7)|FORMAT({num}, {+})|QUOTE({str})|SPACE({+})|m:MD5({str})|m:SHA1({str})|SHA2({str}, 256)|TO_BASE64({str})|SOUNDEX({str})
IF({bool}, {str}, {str})|IFNULL({str}, {str})|COALESCE({str}, {str}, 'none')|NULLIF({str}, {str})|CASE WHEN {bool} THEN {str} ELSE {str} END|CASE {num} WHEN {i} THEN {str} WHEN {i} THEN {str} ELSE 'other' END
CAST({num} AS CHAR)|CAST({date} AS CHAR)|CAST({datetime} AS CHAR)|CAST({time} AS CHAR)|CAST({dbl} AS CHAR)|CAST({str} AS CHAR(3))|CAST({num} AS CHAR(3))|DATE_FORMAT({m}, {dformat})|TIME_FORMAT({time}, '%H:%i:%s')
DAYNAME({m})|MONTHNAME({m})|MAKE_SET({num}, 'a', 'b', 'c')|EXPORT_SET({+}, 'y', 'n', ',', 5)|GREATEST({str}, {str})|LEAST({str}, {str})|M:CHAR({num} & 63 | 64 USING latin1)|m:CHAR(IFNULL({num}, 0) & 63 | 64 USING latin1)|INET_NTOA(ABS({i}) * 1000)
HEX({bin})|HEX({bit})|MID({str}, {i}, {+})|LCASE({str})|UCASE({str})|CONCAT({time}, '')|IF({bool}, {num}, {str})|COALESCE({num}, {str})|M:REGEXP_REPLACE({str}, {regex}, 'R')|M:REGEXP_SUBSTR({str}, {regex})
({str} COLLATE utf8mb4_bin)|M:CONVERT({str} USING utf8mb4)|m:(CONVERT({str} USING utf8mb4) COLLATE utf8mb4_general_ci)|CONCAT({bool}, {str})|SEC_TO_TIME({num}) + 0|TO_BASE64({bin})|UNHEX(HEX({str}))|CAST({str} AS BINARY)""",
    "bin": "CAST({str} AS BINARY)|UNHEX(HEX({str}))|CONCAT({bin}, {bin})|SUBSTRING({bin}, {i})|IFNULL({bin}, {bin})|LEFT({bin}, {+})|REVERSE({bin})",
    "bit": "{bit}",
    "date": "DATE({datetime})|DATE({m})|LAST_DAY({m})|CAST({datetime} AS DATE)|MAKEDATE(2000 + {+}, {num} % 500 + 1)|FROM_DAYS(730000 + {num} % 9000)|DATE_ADD({date}, INTERVAL {i} DAY)|({date} - INTERVAL {i} MONTH)|"
            "IFNULL({date}, {date})|COALESCE({date}, {date})|IF({bool}, {date}, {date})|CASE WHEN {bool} THEN {date} ELSE {date} END|GREATEST({date}, {date})|LEAST({date}, {date})|DATE_SUB({date}, INTERVAL {+} YEAR)|"
            "STR_TO_DATE({dtext}, '%Y-%m-%d')|NULLIF({date}, {date})|ADDDATE({date}, {i})|SUBDATE({date}, {+})|({date} + INTERVAL {i} WEEK)|DATE_ADD({date}, INTERVAL {i} QUARTER)",
    "datetime": "CAST({date} AS DATETIME)|TIMESTAMP({date})|TIMESTAMP({date}, {time})|DATE_ADD({datetime}, INTERVAL {i} {unit})|({datetime} - INTERVAL {i} {unit})|DATE_ADD({date}, INTERVAL {i} HOUR)|DATE_ADD({datetime}, INTERVAL '1 2:3' DAY_MINUTE)|"
                "IFNULL({datetime}, {datetime})|IF({bool}, {datetime}, {date})|COALESCE({datetime}, {date})|GREATEST({datetime}, {datetime})|LEAST({datetime}, {datetime})|CASE WHEN {bool} THEN {datetime} ELSE {datetime} END|TIMESTAMPADD({unit}, {i}, {datetime})|"
                "FROM_UNIXTIME(ABS({num} % 2000000))|STR_TO_DATE('2020-05-06 07:08:09', '%Y-%m-%d %H:%i:%s')|ADDTIME({datetime}, '01:02:03')|CAST({datetime} AS DATETIME(2))|CONVERT_TZ({datetime}, '+00:00', '+05:30')|DATE_SUB({datetime}, INTERVAL '-3' MINUTE)",
    "time": "TIME({datetime})|CAST({datetime} AS TIME)|SEC_TO_TIME({num})|MAKETIME({+}, {+}, {+})|ADDTIME({time}, '00:30:00')|SUBTIME({time}, {time})|TIMEDIFF({time}, {time})|TIMEDIFF({datetime}, {datetime})|IFNULL({time}, {time})|IF({bool}, {time}, {time})|"
            "COALESCE({time}, {time})|GREATEST({time}, {time})|CAST({time} AS TIME(1))|CASE WHEN {bool} THEN {time} ELSE {time} END|STR_TO_DATE('11:12:13', '%H:%i:%s')",
}
UNITS = ["DAY", "MONTH", "YEAR", "HOUR", "MINUTE", "SECOND", "WEEK", "QUARTER"]
PARTS = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND", "YEAR_MONTH", "DAY_HOUR", "HOUR_SECOND", "QUARTER", "WEEK"]
TIME_PARTS = ["HOUR", "MINUTE", "SECOND", "MICROSECOND", "HOUR_MINUTE", "MINUTE_SECOND"]
DATE_FORMATS = ["%Y-%m-%d", "%d.%c.%y", "%W %M %e %Y", "%j %U %u", "%a %b %D", "%H:%i:%s.%f", "%h %p %r", "%X-%V", "%x-%v", "%T|%k|%l|%w|%%"]
LIKES = ["a%", "%b%", "_", "_b%", "%", "", "%\\\\%%", "x\\\\_y", "%a", "1%", "%é%", "a_c"]
REGEXES = ["^a", "b$", "[0-9]+", "a|z", "^$", "[[:alpha:]]{2}", "x.y", "a.*c"]
TIMES = ["00:00:00", "12:30:00", "-01:00:00", "23:59:59", "100:00:00", "12:30:00.5"]
DATES = ["2020-01-01", "2020-02-15", "2020-02-29", "1999-12-31", "2020-03-28", "2038-01-18"]
WORDS = ["", "a", "ab", "abc", "b", "0", "1", "10", "zebra", "x_y", "007", "c d", "red", "z"]
SIMPLER = {"num": ["NULL", "0", "1"], "str": ["NULL", "''", "'a'"], "bool": ["NULL", "TRUE", "FALSE"], "dbl": ["NULL", "0e0"],
           "date": ["NULL", "DATE'2020-01-01'"], "datetime": ["NULL", "TIMESTAMP'2020-01-01 00:00:00'"], "time": ["NULL", "TIME'12:30:00'"],
           "approx": ["0e0"], "bin": ["NULL", "x'61'"], "bit": ["NULL"], "json": ["NULL", "CAST('1' AS JSON)"]}
COMPARISONS = ["=", "<>", "<>", "<", "<=", ">", ">=", "<=>"]


def templates(mysql):
    out = {}
    for kind, text in FUNCTIONS.items():
        choices = []
        # A bar inside a template stands in blanks.
        for line in text.split("\n"):
            choices += re.split(r"(?<! )\|(?! )", line) if kind != "str" else split_templates(line)
        other = "m:" if mysql else "M:"
        out[kind] = [c.removeprefix("M:").removeprefix("m:") for c in choices if c and not c.startswith(other)]
    return out


def split_templates(line):
    return [c for c in re.split(r"(?<=[)}D0])\|(?=[A-Zm({])", line)]


class Expressions:
    """Makes expressions; `queries.Queries` adds the ones with subqueries."""

    def __init__(self, rng, options):
        self.rng, self.options = rng, options
        self.functions = templates(options.mysql)
        # For variances, see known.AVOIDED.
        self.as_double = "" if options.mysql else "0e0 + "

    # Leaves

    def literal(self, kind, parameter=False):
        r = self.rng
        if r.random() < 0.04:
            return Node(kind, "NULL")
        if kind == "num":
            value = r.choice([0, 1, 2, 3, 5, -1, 10, 100, r.randint(-5, 40)])
            if r.random() < 0.15 and not parameter:
                return Node(kind, r.choice(["1.5", "0.25", "2.0", "-0.5", "10.75"]), simpler=SIMPLER[kind])
            return Node(kind, str(value) if value >= 0 else f"({value})", value=(value,) if parameter else None, simpler=["0", "1"])
        if kind in ("dbl", "approx"):
            return Node(kind, r.choice(["0.5e0", "1e0", "-2.25e0", "10e0"]))
        if kind == "str":
            word = r.choice(WORDS)
            return Node(kind, f"'{word}'", value=(word,) if parameter else None, simpler=["''", "'a'"])
        if kind == "bin":
            return Node(kind, r.choice(["x'61'", "x'00ff'", "x'80'", "_binary'ab'"]))
        if kind == "bit":
            return Node(kind, r.choice(["b'1'", "b'10101'"]))
        if kind == "date":
            return Node(kind, f"DATE'{r.choice(DATES)}'")
        if kind == "datetime":
            return Node(kind, f"TIMESTAMP'{r.choice(DATES)} {r.choice(['00:00:00', '12:30:00', '23:59:59', '01:02:03.5'])}'")
        if kind == "time":
            return Node(kind, f"TIME'{r.choice(TIMES)}'")
        return Node("bool", r.choice(["TRUE", "FALSE"]))

    def leaf(self, kind, scope):
        if kind == "bool":
            return self.condition(0, scope)
        found = scope.pick(self.rng, kind)
        if found is None and kind == "datetime":
            found = scope.pick(self.rng, "date")
        if found is None or self.rng.random() < 0.12:
            if kind == "approx":
                return Node(kind, self.expression("dbl", 0, scope))
            return self.literal(kind)
        return Node(kind, found)

    def expression(self, kind, depth, scope):
        if kind == "bool":
            return self.condition(depth, scope)
        special = self.special(kind, depth, scope)
        if special:
            return special
        if depth <= 0 or self.rng.random() < 0.35:
            return self.leaf(kind, scope)
        return self.fill(kind, self.rng.choice(self.functions[kind]), depth - 1, scope)

    def special(self, kind, depth, scope):
        """A subquery in the place of an expression, sometimes."""
        return None

    def fill(self, kind, template, depth, scope):
        parts = []
        for n, piece in enumerate(re.split(r"\{([a-z+]+)\}", template)):
            if n % 2 == 0:
                if piece:
                    parts.append(piece)
                continue
            parts.append(self.argument(piece, depth, scope))
        return Node(kind, *parts, simpler=SIMPLER[kind])

    def argument(self, what, depth, scope):
        r = self.rng
        if what == "i":
            return str(r.choice([0, 1, 2, 3, -1, -2, 5]))
        if what == "+":
            return str(r.randint(0, 6))
        if what == "unit":
            return r.choice(UNITS)
        if what == "part":
            return r.choice(PARTS)
        if what == "tpart":
            return r.choice(TIME_PARTS)
        if what == "dformat":
            return f"'{r.choice(DATE_FORMATS)}'"
        if what == "dtext":
            return r.choice(["'2020-02-29'", "'1999-12-31'", "'2021-13-45'", "'2020-1-5'"])
        if what == "regex":
            return f"'{r.choice(REGEXES)}'"
        if what == "m":
            what = r.choice(["date", "datetime"])
        return self.expression(what, depth, scope)

    # Conditions

    def condition(self, depth, scope):
        r = self.rng
        if depth > 0:
            roll = r.random()
            if roll < 0.28:
                op = r.choice([" AND ", " OR ", " AND ", " OR ", " XOR "])
                return Node("bool", "(", Items(op, [self.condition(depth - 1, scope) for _ in range(r.choice([2, 2, 3]))]), ")", simpler=SIMPLER["bool"])
            if roll < 0.34:
                return Node("bool", "(NOT ", self.condition(depth - 1, scope), ")")
            if roll < 0.38:
                return Node("bool", "(", self.condition(depth - 1, scope), r.choice([" IS TRUE", " IS NOT TRUE", " IS FALSE", " IS UNKNOWN", " IS NOT FALSE", " IS NOT NULL"]), ")")
            special = self.special("bool", depth, scope)
            if special:
                return special
        return self.predicate(depth - 1 if depth > 0 else 0, scope)

    def predicate(self, depth, scope):
        r = self.rng
        kind = scope.pick_kind(r)
        left = self.expression(kind, depth if r.random() < 0.35 else 0, scope)
        roll = r.random()
        negate = r.choice(["", "", "NOT "])
        if roll < 0.16:
            return Node("bool", "(", left, f" IS {negate}NULL)")
        if roll < 0.28:
            return Node("bool", "(", left, f" {negate}BETWEEN ", self.other(kind, depth, scope), " AND ", self.other(kind, depth, scope), ")")
        if roll < 0.42:
            items = [self.other(kind, 0, scope) if r.random() < 0.2 else self.literal(kind, parameter=True) for _ in range(r.randint(1, 4))]
            return Node("bool", "(", left, f" {negate}IN (", Items(", ", items), "))")
        if roll < 0.52 and kind == "str":
            if r.random() < 0.8:
                return Node("bool", "(", left, f" {negate}LIKE '{r.choice(LIKES)}')")
            return Node("bool", "(", left, f" {negate}REGEXP '{r.choice(REGEXES)}')")
        if roll < 0.60:
            second = scope.pick_kind(r)
            op = r.choice(["=", "<>", "<", ">=", "=", "<=>"])
            if r.random() < 0.5:
                return Node("bool", "((", left, ", ", self.leaf(second, scope), f") {op} (", self.other(kind, 0, scope), ", ", self.other(second, 0, scope), "))")
            rows = [Node("row", "(", self.literal(kind), ", ", self.literal(second), ")") for _ in range(r.randint(1, 3))]
            return Node("bool", "((", left, ", ", self.leaf(second, scope), f") {negate}IN (", Items(", ", rows), "))")
        if roll < 0.63 and kind in ("num", "dbl"):
            return Node("bool", "(", left, ")")
        return Node("bool", "(", left, f" {r.choice(COMPARISONS)} ", self.other(kind, depth, scope), ")")

    def other(self, kind, depth, scope):
        """What a value of a kind is compared with."""
        r = self.rng
        roll = r.random()
        if roll < 0.5:
            if kind in ("date", "datetime") and r.random() < 0.4:
                return Node(kind, f"'{r.choice(DATES)}'")
            if kind == "num" and r.random() < 0.05:
                return Node(kind, r.choice(["'1'", "'2.5'", "'10'"]))
            return self.literal(kind, parameter=True)
        if roll < 0.56:
            other = {"num": "dbl", "dbl": "num", "date": "datetime", "datetime": "date"}.get(kind)
            if other:
                return Node(kind, self.leaf(other, scope))
        return self.expression(kind, depth if r.random() < 0.3 else 0, scope)

    # Aggregates

    def aggregate(self, kind, depth, scope):
        """An aggregate of a kind, or None."""
        r = self.rng
        arg = lambda k: self.expression(k, depth if r.random() < 0.3 else 0, scope)
        distinct = r.choice(["", "", "", "DISTINCT "])
        if kind == "num":
            roll = r.random()
            if roll < 0.2:
                return Node(kind, "COUNT(*)")
            if roll < 0.4:
                return Node(kind, f"COUNT({distinct}", arg(scope.pick_kind(r)), ")")
            if roll < 0.46:
                return Node(kind, "COUNT(DISTINCT ", Items(", ", [arg(scope.pick_kind(r)) for _ in range(2)]), ")")
            if roll < 0.65:
                return Node(kind, f"SUM({distinct}", arg("num"), ")")
            if roll < 0.88:
                return Node(kind, r.choice(["MIN(", "MAX(", "MIN(DISTINCT "]), arg("num"), ")")
            if roll < 0.92 and self.options.mysql:
                return Node(kind, f"AVG({distinct}", arg("num"), ")")
            return Node(kind, r.choice(["BIT_AND(", "BIT_OR(", "BIT_XOR("]), arg("num"), ")")
        if kind == "dbl":
            return Node(kind, r.choice(["SUM(", "MIN(", "MAX("]), self.leaf("dbl", scope), ")")
        if kind == "approx":
            name = r.choice(["AVG(", "STDDEV(", "STDDEV_SAMP(", "VAR_POP(", "VAR_SAMP(", "VARIANCE("])
            value = arg(r.choice(["num", "dbl"]))
            return Node(kind, name if name == "AVG(" else name + self.as_double, value, ")")
        if kind == "str" and r.random() < 0.5 and not self.options.ties:
            inner = r.choice(["str", "num", "date"])
            value = arg(inner)
            return Node(kind, f"GROUP_CONCAT({distinct}", value, " ORDER BY ", Node("text", value), r.choice(["", " DESC"]), r.choice(["", " SEPARATOR '|'"]), ")")
        if kind in ("str", "date", "datetime", "time", "bin"):
            if kind == "str" and self.options.ties:
                return None
            return Node(kind, r.choice(["MIN(", "MAX("]), arg(kind), ")")
        return None
