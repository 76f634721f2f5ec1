"""Where MariaDB 10.11 answers otherwise than MySQL does, and Esker sides with MySQL: one by one.

The list may only shrink. A difference belongs here only if a MySQL server was seen to answer as Esker does, or MySQL's manual
says so; whatever can be kept out of the random statements is kept out by a template marked `M:` (expressions.py) or by an option
instead, and is named in AVOIDED. What Esker does otherwise than MySQL is in docs/differences.md.
"""
import re

# Errors that depend on which rows a plan happens to compute, on either server.
PLAN_ERRORS = {1690, 1292, 1411, 1365, 1242, 1441, 1264, 1366, 3020}
# A statement that took too long, or was refused for its size.
SLOW_ERRORS = {3024, 1969, 1317, 1104, 3636, 1038}

AVOIDED = {
    "quotients and averages in exact arithmetic inside of expressions": "MariaDB keeps fewer or more decimals, which shows once they are compared or rounded",
    "LATERAL": "MariaDB 10.11 does not know it",
    "BIT_XOR of more than 31 bits over a window": "MariaDB answers with wrong bits above where the window has a frame",
    "windows in the correlated subqueries of IN, ANY and ALL": "MySQL refuses them (1235); MariaDB compares with the window function before it is computed",
    "moments that are rounded to fewer digits": "MariaDB truncates; the sql_mode TIME_ROUND_FRACTIONAL has it round as MySQL does",
    "times with fractions as integers": "MariaDB truncates them under TIME_ROUND_FRACTIONAL too; they become decimals first",
    "variances and deviations of exact numbers": "MariaDB rounds them to four decimals more than the numbers have; they become doubles first",
    "texts of more than 1024 bytes in ORDER BY": "MariaDB compares no more of them, unless max_sort_length is set",
    "CONVERT(... USING utf8mb4) without a collation": "it comes with MariaDB's default collation, which is another one",
    "CHAR(NULL)": "it is an empty text, but MariaDB takes it for NULL when it simplifies outer joins",
    "REGEXP_SUBSTR, REGEXP_REPLACE, REGEXP_INSTR": "another library (PCRE)",
}
AVOIDED_MYSQL = {
    "NULL in a longer key over a foreign key's columns": "MySQL 9.7 takes the row for one that refers to nothing; 8.4 refuses it (1452)",
    "references of several columns to the same table": "MySQL 9.7 takes a row whose first column is its own for one that refers to itself; 8.4 looks at all",
    "integers above 2^63 of JSON as DECIMAL": "MySQL makes negative numbers of them",
    "BIT(n) of JSON_TABLE where n is no multiple of 8": "MySQL mixes its bits up with those that say what is NULL",
    "sums of times in generated columns": "beyond 838:59:59 they are NULL in MySQL 9.7; see the sums below",
    "JSON_CONTAINS of an empty array beside a multi-valued index": "MySQL takes the index's array of one element for the value, which contains it",
}


class Known:
    """`statement`: a pattern that the statement matches; `errors`: (Esker's code, the oracle's), 0 for an answer;
    `answers`: a further test of both answers' rows; `says`: a pattern that the error message matches; `counts`: whether, beside
    `answers`, the numbers of changed rows may differ."""

    def __init__(self, why, statement, errors=(0, 0), answers=None, says="", counts=False):
        self.why, self.statement, self.errors = why, re.compile(statement, re.S), errors
        self.answers, self.says, self.counts, self.hits = answers, re.compile(says), counts, 0

    def covers(self, statement, esker, oracle):
        if (esker.code, oracle.code) != self.errors or not self.statement.search(statement):
            return False
        error = esker.error or oracle.error
        if error and not self.says.search(error.text):
            return False
        if self.answers is None:
            return True
        # A change has no rows.
        return self.counts if esker.result.rows is None else self.answers(esker.result.rows, oracle.result.rows)


def nulls(rows):
    return sum(row.count(None) for row in rows)


def as_set(rows):
    """The rows in an order of their own."""
    return sorted([b"" if v is None else v for v in row] for row in rows)


def but_for(change):
    """A test whether the rows differ, and are the same when `change` was done to every value."""
    def test(esker, oracle):
        changed = lambda rows: as_set([change(v) for v in row] for row in rows)
        return as_set(esker) != as_set(oracle) and changed(esker) == changed(oracle)
    return test


without_sign = but_for(lambda v: v and v.removeprefix(b"-"))
# What stands behind the dot of a TIME's least and greatest value.
without_fraction_of_extremes = but_for(lambda v: v and re.sub(rb"838:59:59\.\d+", b"838:59:59", v))
null_for_extremes = but_for(lambda v: None if v and re.match(rb"-?838:59:59", v) else v)
# Integers of the upper half of 64 bits.
zero_for_wrapped = but_for(lambda v: b"0" if v and v.isdigit() and 1 << 63 <= int(v) < 1 << 64 else v)


# Zeros at the end of a fraction, wherever it stands.
without_zeros = but_for(lambda v: v and re.sub(rb"\.0+\b", b"", re.sub(rb"(\.\d*?[1-9])0+\b", rb"\1", v)))


def keeps_more(esker, oracle):
    """Whether the oracle has rows that Esker has not, or values where Esker has NULL."""
    return len(esker) < len(oracle) or nulls(esker) > nulls(oracle)


def with_bits_as_numbers(esker, oracle):
    """Whether the oracle has the same rows, but for numbers where Esker has the bytes of these numbers."""
    def same(mine, theirs):
        return mine == theirs or (mine is not None and theirs is not None and theirs.isdigit() and len(mine) <= 8
                                  and int(theirs) == int.from_bytes(mine, "big"))
    rest = list(oracle)
    for row in esker:
        match = next((other for other in rest if len(other) == len(row) and all(map(same, row, other))), None)
        if match is None:
            return False
        rest.remove(match)
    return not rest and as_set(esker) != as_set(oracle)


# A common table expression whose name does not come again.
UNUSED_CTE = r"\b(w\d+) AS \((?!.*\b\1\b)"

MARIADB = [
    *(Known("a common table expression that nothing names is not looked into", UNUSED_CTE, (0, code)) for code in (1054, 1253, 1267, 1270, 1271)),
    Known("WITH ROLLUP over no rows has the grand total", "WITH ROLLUP", answers=lambda esker, oracle: len(oracle) < len(esker)),
    Known("a key that stands several times in a rollup is read as the first of them", "WITH ROLLUP", answers=lambda esker, oracle: len(oracle) == len(esker)),
    Known("texts of numbers and of constants give way to a column's collation", "", (0, 1270)),
    Known("texts of numbers and of constants give way to a column's collation", "", (0, 1271)),
    Known("a constant of a derived table is NULL in the rows that an outer join adds: MariaDB aggregates the constant",
          r"(MIN|MAX|COUNT|SUM|GROUP_CONCAT)\(.*(LEFT|RIGHT) JOIN \(SELECT ", answers=lambda esker, oracle: nulls(esker) > nulls(oracle)),
    Known("a constant of a common table expression is NULL in the rows that an outer join adds: MariaDB aggregates the constant",
          r"^WITH .*(MIN|MAX|COUNT|SUM|GROUP_CONCAT)\(.*(LEFT|RIGHT) JOIN ", answers=lambda esker, oracle: nulls(esker) > nulls(oracle)),
    Known("a BIT stays one in a temporary table; MariaDB makes a number of it", r"^SELECT DISTINCT ", answers=with_bits_as_numbers),
    Known("NULLIF has the collation of both sides and insists on it as little as its first side", r"NULLIF\(.* LIKE ", (1267, 0),
          says=r"COERCIBLE\) and \(utf8mb4_general_ci,COERCIBLE\) for operation 'like'"),
    Known("a negative number in ORDER BY of GROUP_CONCAT is no position of a column", r"GROUP_CONCAT\(.* ORDER BY \(-", (0, 1054)),
    Known("a number in ORDER BY of GROUP_CONCAT is the position of a column", r"GROUP_CONCAT\(.* ORDER BY \d", (1054, 0), says="in 'order clause'"),
    Known("LOCATE compares with the collation of the text that is searched", r"LOCATE\(|INSTR\(", (0, 1267), says="for operation 'locate'"),
    Known("a subquery of constants in NOT IN below a window: MariaDB finds no rows", r"OVER \(.* NOT IN \(SELECT [^()]* FROM ", answers=lambda esker, oracle: len(esker) > len(oracle) == 0),
    Known("a text that is no number, cast to SIGNED, is an error of a DELETE or UPDATE", r"^(UPDATE|DELETE) .*CAST\('\D*' AS SIGNED\)", (1292, 0), says="Truncated incorrect INTEGER"),
    Known("a negative TIME out of CASE is a negative number", r"CASE .*TIME'-01:00:00'.* END \+ 0", answers=without_sign),
    Known("a DECIMAL beyond 64 bits has the bits of the largest integer", r"& 4095", answers=lambda esker, oracle: len(esker) == len(oracle) and sum(b"4095" in row for row in esker) > sum(b"4095" in row for row in oracle)),
    Known("a negative DECIMAL cast to UNSIGNED has the bits of the negative integer", r"CAST\(.* AS UNSIGNED\)", answers=zero_for_wrapped),
    Known("a column of ASCII gives way to one of another character set", "UNION|EXCEPT|INTERSECT", (0, 1267), says=r"\(ascii_\w+,IMPLICIT\)"),
    Known("the greatest of a frame in descending order that rows leave: MariaDB forgets it", r"MAX\(.* DESC RANGE BETWEEN \d+ PRECEDING", answers=lambda esker, oracle: len(esker) == len(oracle)),
    Known("a text that is no number beside numbers in IN is an error of a DELETE or UPDATE", r"^(UPDATE|DELETE) .* \+ 0 IN \('", (1292, 0), says="Truncated incorrect"),
    Known("an UPDATE of two tables joins rows as they were; MariaDB changes those of the first while it still joins them",
          r"^UPDATE \w+ AS a .*JOIN \w+ AS b ON .*\bb\.(\w+)\b.* SET .*\bb\.\1 = "),
    Known("DISTINCT of constants is one row: an OFFSET leaves nothing of it", r"^SELECT DISTINCT.* OFFSET ", answers=lambda esker, oracle: len(esker) < len(oracle) == 1),
    Known("REPLACE by NULL is NULL also where there is nothing to replace", r"REPLACE\(", answers=lambda esker, oracle: nulls(esker) > nulls(oracle)),
    Known("digits, hashes and names are texts of ASCII that fit into any character set",
          r"\b(MD5|SHA1|SHA2|OCT|CONV|BIN|HEX|FORMAT|DAYNAME|MONTHNAME|INET_NTOA|SOUNDEX|DATE_FORMAT|TIME_FORMAT|TO_BASE64)\(", (0, 1267),
          says=r"utf8mb4_general_ci,COERCIBLE\).*,IMPLICIT\)|,IMPLICIT\).*\(utf8mb4_general_ci,COERCIBLE"),
    Known("a pattern with a character that the text's character set lacks matches nothing: docs/differences.md", "LIKE '%é%'", (0, 1267),
          says=r"for operation 'like'"),
    Known("WITH ROLLUP over no rows has the grand total, which EXISTS finds and ALL fails", r"^(INSERT|UPDATE|DELETE) .*(EXISTS|ALL|ANY|IN) \(SELECT .* WITH ROLLUP"),
    Known("WITH ROLLUP over no rows has the grand total, and so NOT IN and ALL have a NULL to compare with", r"(NOT IN|ALL) \(SELECT .* WITH ROLLUP",
          answers=lambda esker, oracle: len(esker) < len(oracle)),
    Known("a TIME out of range is 838:59:59 and no fraction", r"TIME|SEC_TO", answers=without_fraction_of_extremes),
    Known("a row comparison in WHERE or ON over an outer join: MariaDB loses rows whose one member decides, MySQL some of them",
          r"(LEFT|RIGHT) JOIN.* (WHERE|ON) .*(, .*\) (<|>|<=|>=|<>) \(|NOT \(\(.*, .*\) = \(|, .*\) NOT IN \(\(|, .*\) IN \(\(.* IS (FALSE|NOT TRUE|UNKNOWN))",
          answers=lambda esker, oracle: len(oracle) < len(esker)),
    Known("a row comparison in WHERE over an outer join: what MariaDB loses is not taken away by EXCEPT",
          r"EXCEPT .*(LEFT|RIGHT) JOIN.* WHERE .*, .*\) (<|>|<=|>=|<>) \(", answers=lambda esker, oracle: len(oracle) > len(esker)),
    Known("a row comparison in WHERE over an outer join: MariaDB loses rows whose one member decides, MySQL some of them",
          r"^UPDATE .*(LEFT|RIGHT) JOIN.* WHERE \(\(.*, .*\) NOT IN \(\("),
]

# What Esker does otherwise than MySQL, from docs/differences.md.
MYSQL = [
    Known("a row comparison in WHERE over an outer join: MySQL loses rows whose first member decides", r"(LEFT|RIGHT) JOIN.*\), |(LEFT|RIGHT) JOIN.*, .*\) (<|>|<=|>=|=|<>|<=>|IN|NOT IN) \(", (0, 0)),
    Known("a row IN a list of rows: MySQL converts the list to the left side's types first", r"\) (NOT )?IN \(\(", (0, 0)),
    Known("a text that another one's character set lacks: MySQL refuses it where a plan makes it constant, and in LIKE", "", (0, 3854)),
    Known("MySQL takes some texts that a grouped derived table computes for columns", r"GROUP BY", (0, 1267)),
    *(Known("columns with two collations make a text with none, which nothing is compared with: MySQL 9.7 lets another operand's win, 8.4 does not", "", (code, 0), says=r",NONE\)") for code in (1267, 1270)),
    Known("columns with two collations make a text with none, which is in binary order: MySQL 9.7 lets another operand's win, 8.4 does not",
          r"(CONCAT|IFNULL|COALESCE|IF)\(.* ORDER BY ", answers=lambda esker, oracle: as_set(esker) == as_set(oracle)),
    Known("columns with two collations make a text with none, which the rows of a UNION cannot have: MySQL 9.7 lets another operand's win, 8.4 does not",
          "UNION|EXCEPT|INTERSECT", (1271, 0), says="for operation 'UNION'"),
    Known("a sum of times out of range is 838:59:59, as in MySQL 8.4; 9.7 makes NULL of it", r"(ADDTIME|SUBTIME)\(", answers=null_for_extremes),
    Known("MIN and MAX of an ENUM or SET over a window that it orders: MySQL takes the first of the order, not of the texts",
          r"(MIN|MAX)\((\w+\.\w+)\) OVER \((PARTITION BY .* )?ORDER BY \2\b", answers=lambda esker, oracle: len(esker) == len(oracle)),
    Known("INTERSECT behind EXCEPT: MySQL computes some from left to right", r"EXCEPT.*INTERSECT", answers=lambda esker, oracle: len(oracle) < len(esker)),
    Known("MySQL does not support LIMIT or windows in some subqueries", "", (0, 1235)),
    Known("a function in a key is called once more by MySQL's optimizer: what it writes is there twice", r"CREATE .* WHERE id = [^;]*function_\d+\(.*prog_log",
          answers=lambda esker, oracle: len(esker) < len(oracle)),
    Known("a duplicate key is found before a parent that is missing", r"^(INSERT|REPLACE|UPDATE) .*\br\d\b", (1062, 1452)),
    Known("what a cascade has changed before another key forbids it is taken back; MySQL 9.7 leaves it with IGNORE", r"^DELETE IGNORE FROM r\d\b",
          answers=lambda esker, oracle: keeps_more(oracle, esker), counts=True),
    Known("what a cascade has changed before another key forbids it is taken back; MySQL 9.7 leaves it with IGNORE", r"^UPDATE IGNORE r\d\b"),
    Known("MySQL 9.7 refuses cascades over more than 30 tables, counted before they are followed", r"^(INSERT|UPDATE|DELETE|REPLACE) .*\br\d\b", (0, 6575)),
    Known("REPLACE of a parent's row by one with equal keys takes its children away; MySQL 9.7 leaves them, 8.4 does not", r"^REPLACE INTO r\d ",
          answers=lambda esker, oracle: keeps_more(esker, oracle)),
    *(Known("REPLACE of a parent's row by one with equal keys takes its children away; MySQL 9.7 leaves them, 8.4 does not", r"^REPLACE INTO r\d ", (code, 0)) for code in (1451, 1452)),
    Known("a row that REPLACE takes away is looked for in children before the new one's parents are", r"^(REPLACE INTO r\d |INSERT .*INTO r\d .* ON DUPLICATE KEY UPDATE )", (1451, 1452)),
    Known("NULL of a JSON function for a JSON column that is NOT NULL: MySQL calls it truncated", r"^(INSERT|UPDATE|REPLACE)", (1048, 1265)),
    Known("ON DUPLICATE KEY UPDATE changes the row in the way of one without a parent", r"^INSERT INTO r\d .* ON DUPLICATE KEY UPDATE", (0, 1452)),
    Known("ON DUPLICATE KEY UPDATE changes the row in the way of one without a parent", r"^INSERT IGNORE INTO r\d .* ON DUPLICATE KEY UPDATE"),
    Known("a row that refers to itself by the first columns of its clustered key has left it when children are looked for, as in 8.4", r"^(UPDATE|DELETE|REPLACE) .*\br\d\b", (0, 1451),
          says=r"`(r\d)`, CONSTRAINT .* REFERENCES `\1`"),
    Known("a row IN a list of rows: MySQL converts the list to the left side's types first", r"^(INSERT|UPDATE|DELETE|REPLACE) .*\) (NOT )?IN \(\(", (1292, 0)),
    *(Known("what IGNORE has made of a computed value is computed anew where ALTER TABLE copies; MySQL does less of that", r"^ALTER TABLE t\d ", (code, 0)) for code in (1048, 3751, 1292, 1264)),
    *(Known("what IGNORE has cut is read again by MySQL where it copies a table", r"^ALTER TABLE t\d ", (0, code)) for code in (1406, 1048, 3751)),
    Known("what is virtual is stored, and so computed where it is added", r"^ALTER TABLE t\d (ADD|MODIFY|CHANGE) .* AS \(", (1411, 0)),
    Known("a generated column that is assigned to is found before the condition is looked at", r"^UPDATE (IGNORE )?t\d SET .*\bg\d+ = ", (3105, 1267)),
    Known("of a document that cannot be computed and one that is NULL either server finds another first", r"^(INSERT|UPDATE|REPLACE)", (3156, 1265)),
    Known("a constant's rows are made although the other table of the join is empty", r"JOIN JSON_TABLE\(CAST\('", (3665, 0)),
    Known("a multi-valued index of texts does not find a number that is written otherwise", r"JSON_CONTAINS\(|JSON_OVERLAPS\(|MEMBER OF", answers=lambda esker, oracle: len(esker) > len(oracle)),
    Known("MySQL computes what is constant in a key part, which then names fewer columns", r"^ALTER TABLE t\d DROP COLUMN", (3837, 0)),
    Known("a reference of a column to itself: MySQL takes a second unique key of it for the parent's", r"FOREIGN KEY (f\d+x )?\((\w)\) REFERENCES r\d \(\2\)", (6125, 0)),
    Known("bytes that are no text, compared with one: MySQL refuses them where a plan makes them constant", r"x'", (3854, 0)),
    *(Known("a moment out of range has another number in MySQL 9.7", "", (code, 6527)) for code in (1441, 1292)),
    Known("a multi-valued index finds values that it has converted, as the number 1 for a text", r"(JSON_OVERLAPS|JSON_CONTAINS)\(|MEMBER OF", answers=lambda esker, oracle: len(esker) < len(oracle)),
    Known("a DECIMAL of JSON_VALUE keeps its decimals", r"JSON_VALUE\(.* RETURNING DECIMAL", answers=without_zeros),
    Known("MySQL keeps patterns of functional key parts as bytes, which it then refuses", "REGEXP", (0, 3995)),
    *(Known("MySQL refuses some texts of JSON_VALUE as patterns of JSON_SEARCH", r"JSON_SEARCH\(.*JSON_VALUE\(", (code, 1267)) for code in (0, 1048)),
    Known("of a value that cannot be computed and a CHECK that does not hold either server finds another first", r"^(INSERT|UPDATE|REPLACE)", (1292, 3819)),
    Known("MySQL finds one row where `<=>` of a unique key is NULL", r"<=> \(SELECT MAX\("),
    Known("MIN and MAX of moments as JSON, grouped: MySQL exchanges them", r"(MIN|MAX)\([^,]*(CAST\(.* AS JSON\)|JSON_\w+\().*GROUP BY", answers=lambda esker, oracle: len(esker) == len(oracle)),
    Known("a table that is not there, of a statement that also names a column that is not", r"^(INSERT|REPLACE|UPDATE|DELETE|CREATE|SELECT)", (1054, 1146)),
    Known("CREATE TABLE IF NOT EXISTS … SELECT looks at no table if its own is there", r"^CREATE (TEMPORARY )?TABLE IF NOT EXISTS .* SELECT ", (0, 1146)),
    Known("a zero date that ALTER TABLE copies is not looked at again", r"^(ALTER|CREATE INDEX|DROP INDEX)", (0, 1292)),
    Known("MAX of a text that is NOT NULL makes a column without DEFAULT NULL in MySQL", r"^CREATE TEMPORARY TABLE .* SELECT .*MAX\(s\)"),
    Known("a number that is too long for the texts of a multi-valued index", r"^(INSERT|UPDATE|REPLACE)", (3907, 3752)),
    Known("a date that a choice or an aggregate gives is a number in a column of numbers; MySQL stores the text", r"\bAS \(|^(INSERT|UPDATE|REPLACE)", (0, 1265)),
    Known("what IGNORE has cut for a functional key part is computed anew by MySQL where the row is changed", r"^(UPDATE|DELETE|INSERT .* ON DUPLICATE KEY UPDATE) .*\bd\d\b", (0, 3751)),
    *(Known("of two values that cannot be computed either server finds another first", r"^(INSERT|REPLACE|UPDATE|DELETE) .*\bd\d\b", (code, 3751)) for code in (1235, 3156)),
    Known("MySQL computes the constants of a condition that no row is held against", r"^(UPDATE|DELETE) .*\bd\d\b.*(CAST\('.*' AS JSON\)| LIMIT 0$)", (0, 3156)),
    Known("MySQL computes nothing of an OR that a constant makes true", r"^UPDATE IGNORE d\d .* OR "),
    Known("a constant bound of BETWEEN is converted once, and so warned of where it is prepared, not with a row", r"^UPDATE IGNORE d\d .* BETWEEN "),
    Known("LEAST and GREATEST of documents in a row comparison: MySQL says nothing of what is no number", r"^(UPDATE|DELETE) .*(LEAST|GREATEST)\(d\d\.", (1292, 0)),
    Known("MySQL sorts by a multi-valued index's values, which are converted", r"ORDER BY \w\.\w->'", answers=lambda esker, oracle: as_set(esker) == as_set(oracle)),
    Known("MySQL computes nothing of an OR that a constant makes true", r"^(UPDATE|DELETE) .*\bd\d\b.* OR ", (3156, 0)),
    Known("a JSON value is compared with a boolean; MySQL's optimizer makes a number of one that is constant", r"[<>=] JSON_VALID\('"),
    Known("MySQL looks into a generated column's text for the document that it is made of", "MEMBER OF", (0, 3141), says="to function member of"),
    Known("MySQL computes no value for a place that the document has not", r"JSON_ARRAY_INSERT\(", (3156, 0)),
    Known("a number that is compared with a moment is no moment; MySQL then finds any CHECK violated", r"^ALTER TABLE t\d ADD CONSTRAINT \w+ CHECK .*(GREATEST|LEAST)\(", (0, 3819)),
    Known("a text in a list of times is compared as text; MySQL reads it as a time, unlike beside a single one", r" IN \(TIME'"),
    Known("HAVING with a grouped constant of a derived table: MySQL does not find it", " HAVING ", (0, 1054)),
]


def explain(known, statement, esker, oracle):
    for k in known:
        if k.covers(statement, esker, oracle):
            k.hits += 1
            return k
    return None
