"""Random assignments: values of every sort into columns of every type, in several SQL modes.

Neighbours: `__main__` runs each statement on both servers and compares the error, the codes of the warnings and what is stored.
**Invariant**: a statement writes one row of one table that has a nullable column of every type, so that nothing but the
conversion decides. MariaDB converts by rules of its own: this is for MySQL as the oracle.
"""

TABLE = "assigned"
TYPES = """TINYINT|TINYINT UNSIGNED|SMALLINT|MEDIUMINT|MEDIUMINT UNSIGNED|INT|INT UNSIGNED|BIGINT|BIGINT UNSIGNED|DECIMAL(5,2)|DECIMAL(10,0)
DECIMAL(20,5) UNSIGNED|DECIMAL(65,30)|FLOAT|DOUBLE|CHAR(5)|VARCHAR(5)|VARCHAR(20)|VARCHAR(5) CHARACTER SET latin1|CHAR(3) COLLATE utf8mb4_bin|TEXT|TINYTEXT
BINARY(4)|VARBINARY(4)|BLOB|DATE|DATETIME|DATETIME(3)|TIMESTAMP NULL|TIMESTAMP(6) NULL|TIME|TIME(3)|YEAR|ENUM('a','b','10','2')|SET('a','b','c')|BIT(1)|BIT(8)""".replace("\n", "|").split("|")
MODES = ["STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO", "STRICT_TRANS_TABLES", "", "NO_ZERO_DATE,NO_ZERO_IN_DATE",
         "ALLOW_INVALID_DATES", "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,TIME_TRUNCATE_FRACTIONAL"]
VALUES = {
    "int": "0|1|-1|2|69|70|99|127|128|-129|255|256|300|1901|1900|2155|2156|32767|65536|1000000|2147483647|-2147483648|2147483648|9223372036854775807|18446744073709551615",
    "dec": "0.5|1.50|-2.25|123.456789|99999.99999|0.000001|12345678901234567890.12345|999.994|999.995|-999.999|0.004|0.005|127.5|2147483647.5",
    "dbl": "1e0|-2.5e0|1e20|1e-7|127.5e0|128.5e0|1e40|-1e40|1e19|0e0",
    "str": "'abc'|'12'|'12abc'|' 5 '|'-7.5'|'1e3'|''|'é'|'ABC'|'a'|'2'|'10'|'b'|'a,b'|'a,x'|'c,a'|'3'|'300'|'70000'|'1.5'|'12 x'|REPEAT('x', 300)|'0.0000001'|'abcdef'|'abcde   '|'日本語日本'|'99999999999999999999.9'",
    "date": "DATE'2020-02-29'|DATE'1999-12-31'|TIMESTAMP'2020-02-29 12:34:56'|TIMESTAMP'1999-12-31 23:59:59.999999'|TIME'12:34:56'|TIME'-01:30:00'|TIME'00:00:00.500001'",
    "dstr": "'2020-02-29'|'2020-02-30'|'20200229'|'2020-02-29 12:34:56'|'2020-2-3 1:2:3.45'|'10:11:12'|'-10:11:12.5'|'2020-00-00'|'0000-00-00'|'99-12-31'|'1 10:11:12'|'101112'|'garbage'|"
            "'2020-01-01 23:59:59.9999999'|'1969-12-31 23:59:59'|'2038-01-19 03:14:08'|'12:34:56 x'|'2020-01-01 x'|'24:00:00'|'12:60:00'|'839:00:00'|'1234'|'2020-13-01'|'2021-02-29'",
    "dnum": "20200229|20200229123456|991231|101112|20200229123456.789|700101|20201301|-101112|10101|120000|8385959|8390000|123456.789",
    "bytes": "x'41'|0x4142|b'101'|_binary'ab'",
    "null": "NULL",
}
PARAMETERS = [5, -1, 300, 70000, 2**40, 20200229, 101112, None, "12", "abc", "2020-02-29", "12:34:56", "1.5", "1e3", "", "a", "b,a", "99", "é"]

# Numbers that MySQL warns of otherwise if they are parameters, see docs/differences.md.
NO_DATES = [300, 70000]


def refused(sql, kind):
    """What docs/differences.md names: doubles are not cut to a text's length; and what bits take of texts and moments."""
    texts = sql.startswith(("CHAR", "VARCHAR", "BINARY", "VARBINARY"))
    return kind == "dbl" and texts or sql.startswith("BIT") and kind not in ("int", "null")


class Stores:
    def __init__(self, rng):
        self.rng, self.count = rng, 0

    def create(self):
        return f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, {', '.join(f'c{n} {sql}' for n, sql in enumerate(TYPES))})"

    def assignment(self):
        """A statement, its parameters, and the query that reads back what it stored."""
        r = self.rng
        self.count += 1
        nth, kind = r.randrange(len(TYPES)), r.choice(list(VALUES))
        ignore = r.choice(["", "", "IGNORE "])
        read = f"SELECT c{nth} FROM {TABLE} WHERE id = {self.count}"
        if r.random() < 0.25 and not refused(TYPES[nth], "str"):
            parameter = r.choice(PARAMETERS)
            if parameter in NO_DATES and TYPES[nth].startswith(("DATE", "TIMESTAMP")):
                parameter = str(parameter)
            return f"INSERT {ignore}INTO {TABLE} (id, c{nth}) VALUES ({self.count}, ?)", (parameter,), read
        if refused(TYPES[nth], kind):
            kind = "int"
        value = r.choice(VALUES[kind].split("|"))
        if r.random() < 0.2 and kind != "bytes":
            return f"INSERT {ignore}INTO {TABLE} (id, c{nth}) SELECT {self.count}, {value}", (), read
        return f"INSERT {ignore}INTO {TABLE} (id, c{nth}) VALUES ({self.count}, {value})", (), read
