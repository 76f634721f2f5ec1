"""Histories: statements that build on each other, in a database of their own, compared after every one.

Neighbours: `__main__` runs a history of each theme for each seed; the themes (`references`, `documents`, `generated`,
`temporary`) make the statements. A theme has `create()`, a list of statements, `statement()`, the next one, and `shown()`,
the queries that show what there is; `failed(statement)` tells it that one has made nothing. Errors, counts, warnings, rows and what `shown` reads are compared.

**Invariant**: a history is told by its statements alone, so that it can be run again in a fresh database without some
of them. That is how one that shows a difference is made smaller.
"""
import re

import compare, known, wire
from tree import Node, shrink

# Deprecations and comparisons of JSON that Esker does not warn of (docs/differences.md), and what says nothing of the statement.
UNTOLD = {b"1235", b"1287", b"1681", b"1751", b"1752", b"3025", b"3719", b"3720", b"3751", b"4166", b"6124", b"6414"}
# What a plan finds out about constants, or never computes.
PLANNED = {b"3903", b"3904", b"3156", b"1292"}
# Of a row that has no parent and meets a duplicate key, either server finds another fault first (docs/differences.md). A moment out of
# range is 6527 in MySQL 9.7, and NULL of a JSON function in a JSON column that is NOT NULL 1265 in both lines.
ALIKE = {b"1452": b"1062", b"1265": b"1048", b"6527": b"1292"}
EXPRESSION = r"(AS|CHECK|KEY `\w+`) \(.*\(.*\)"
# Whose counts and warnings say whether they have copied the table, which either server does elsewhere.
REBUILDS = ("ALTER", "CREATE INDEX", "DROP INDEX")
# Steps to make a statement smaller, once the history is.
STEPS = 150


def text_of(statement):
    return statement.render() if isinstance(statement, Node) else statement


class Problem:
    """`what`: the class of a difference, which stays the same while the history gets smaller."""

    def __init__(self, what, detail, mine, theirs):
        self.what, self.detail, self.mine, self.theirs = what, detail, mine, theirs


class Side:
    """One server's session."""

    def __init__(self, server, database, ask):
        self.connection, self.database, self.ask_server = server.connect(), database, ask
        for text in (f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", f"USE {database}",
                     "SET NAMES utf8mb4", "SET SESSION time_zone = '+00:00', max_execution_time = 20000, group_concat_max_len = 100000"):
            self.connection.query(text)

    def ask(self, text):
        return self.ask_server(self.connection, text)

    def warnings(self, untold):
        """Which ones: how often a value is computed is the plan's business."""
        return sorted({ALIKE.get(row[1], row[1]) for row in self.connection.query("SHOW WARNINGS").rows if row[1] not in untold})

    def close(self):
        try:
            self.connection.query("SET foreign_key_checks = 0")
            self.connection.query(f"DROP DATABASE IF EXISTS {self.database}")
        except (wire.Lost, wire.SqlError):
            pass
        self.connection.close()


class History:
    def __init__(self, theme, servers, database, ask, shrinks=True):
        self.theme, self.servers, self.database, self.ask, self.shrinks = theme, servers, database, ask, shrinks
        self.done, self.counts, self.seen = [], {}, set()

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def open(self, again=""):
        return [Side(server, self.database + again, self.ask) for server in self.servers]

    def run(self, statements):
        """Runs so many statements; what differs and is not known, as texts of a history and the difference."""
        sides = self.open()
        try:
            for n in range(statements):
                made = self.theme.create() if n == 0 else [self.theme.statement()]
                for statement in made:
                    problem = self.step(sides, statement)
                    if problem is None or problem.what in self.seen:
                        continue
                    self.seen.add(problem.what)
                    again = problem.theirs.code in known.PLAN_ERRORS and self.reads_again(text_of(statement))
                    if again or known.explain(known.MYSQL, text_of(statement), problem.mine, problem.theirs):
                        self.count("explained")
                    else:
                        yield self.told(statement, problem)
                    if changes(statement) and not (problem.mine.error and problem.theirs.error) and "SHOW" not in problem.what:
                        return
        finally:
            for side in sides:
                side.close()

    def step(self, sides, statement):
        self.count("statements of histories")
        self.done.append(statement)
        problem = self.compared(sides, statement)
        if problem is None and changes(statement):
            problem = self.shown(sides)
        return problem

    def compared(self, sides, statement):
        text = text_of(statement)
        mine, theirs = (side.ask(text) for side in sides)
        if mine.error:
            self.count("errors of histories")
            if hasattr(self.theme, "failed"):
                self.theme.failed(statement)
        if mine.code in known.SLOW_ERRORS or theirs.code in known.SLOW_ERRORS:
            return None
        if mine.error and theirs.error and text.startswith(("CREATE", "ALTER")):
            # Of several faults of a definition either server finds another one first.
            self.count("other errors of definitions" if mine.code != theirs.code else "errors of definitions")
            return None
        if mine.code != theirs.code:
            return Problem(f"errors {mine.code}, {theirs.code}", "errors differ", mine, theirs)
        if mine.error:
            return None
        if mine.result.rows is None:
            if mine.result.affected != theirs.result.affected and not text.startswith(REBUILDS):
                return Problem("counts differ", "counts differ", mine, theirs)
        else:
            ordered = isinstance(statement, Node) and bool(statement.flags and statement.flags["ordered"])
            problem = compare.same_rows(mine.result, theirs.result, ordered, True)
            if problem:
                return Problem("answers differ", problem, mine, theirs)
        if text.startswith(REBUILDS) or self.reads_again(text):
            return None
        warned = [side.warnings(UNTOLD if changes(statement) else UNTOLD | PLANNED) for side in sides]
        if warned[0] != warned[1]:
            return Problem(f"warnings {warned}", f"warnings {warned[0]}, not {warned[1]}", mine, theirs)
        return None

    def reads_again(self, text):
        """Does MySQL compute virtual columns of rows that are there, and so errors and warnings that Esker had when they were stored?"""
        return getattr(self.theme, "computes_again", False) and ("ON DUPLICATE" in text or " SELECT " in text or not text.startswith("INSERT"))

    def shown(self, sides):
        for query in self.theme.shown():
            mine, theirs = (side.ask(query) for side in sides)
            if mine.code != theirs.code:
                return Problem(f"{query}: errors", f"{query}: errors differ", mine, theirs)
            if mine.error:
                continue
            problem = compare.same_rows(mine.result, theirs.result, False, True)
            if problem and query.startswith("SHOW"):
                problem = lines_that_differ(*(o.result.rows[0][1].decode("utf8", "replace") for o in (mine, theirs)))
            if problem:
                return Problem(f"{query}: rows", f"{query}: {problem}", mine, theirs)
        return None

    # A smaller history

    def told(self, statement, problem):
        history = list(self.done)
        if self.shrinks:
            try:
                history = self.fewer(history, problem.what)
                for part in reversed(history):
                    if isinstance(part, Node):
                        shrink(part, lambda _: self.fails(history, problem.what) is not None, STEPS if part is history[-1] else STEPS // 5)
                problem = self.fails(history, problem.what) or problem
            except wire.Lost:
                pass
        detail = f"Esker:  {problem.mine}\noracle: {problem.theirs}\n({problem.detail})"
        return f"{type(self.theme).__name__.lower()}: {problem.what.split(' [')[0]}", ";\n".join(map(text_of, history)), detail

    def fewer(self, history, what):
        size = max(len(history) // 2, 1)
        while size:
            start = 0
            while start < len(history) - 1:
                fewer = history[:start] + history[min(start + size, len(history) - 1):]
                if self.fails(fewer, what) is not None:
                    history = fewer
                else:
                    start += size
            size //= 2
        return history

    def fails(self, history, what):
        """The difference that the last statement shows, if it is of this class."""
        sides = self.open("_again")
        try:
            for statement in history[:-1]:
                answers = [side.ask(text_of(statement)) for side in sides]
                # What differs sooner is another difference.
                if answers[0].code != answers[1].code:
                    return None
            problem = self.compared(sides, history[-1])
            if problem is None and changes(history[-1]):
                problem = self.shown(sides)
            return problem if problem and problem.what == what else None
        finally:
            for side in sides:
                side.close()


def lines_that_differ(mine, theirs):
    """Of two definitions, in words. Multi-valued indexes stand behind others in Esker (docs/differences.md); how expressions are
    printed, of which MySQL computes some constants, is for tests/sql/views.py. What a failed statement leaves of the numbers that
    it took is not compared."""
    mine, theirs = ([re.sub(EXPRESSION, r"\1", re.sub(r" AUTO_INCREMENT=\d+", "", line.rstrip(","))) for line in text.split("\n")] for text in (mine, theirs))
    other = [line for line in mine if line not in theirs], [line for line in theirs if line not in mine]
    return f"{other[0]}, not {other[1]}" if other[0] or other[1] else None


def changes(statement):
    """Whether a statement may change what others see: what differs there would differ ever after."""
    return not text_of(statement).startswith(("SELECT", "WITH", "SHOW", "("))
