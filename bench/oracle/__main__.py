#!/usr/bin/env python3
"""Random statements over random tables: Esker's answers beside MariaDB's or MySQL's.

    python3 bench/oracle --seeds 1-100 [--statements 60] [--oracle mariadb|mysql|none] [--binary PATH]

Each seed makes a database and runs queries and changes on both servers; answers are compared by the
semantics of their types, and after each change the table is. Beside MySQL, values of every sort are stored in columns of every
type, too: errors, warnings and contents are compared; stored programs are made and run, and histories of
foreign keys, documents, generated columns and temporary tables told (--only references documents). Beside that Esker is compared with itself: over the
binary protocol, with parameters, split by a condition and its negation, through a view, read by several
threads, with next to no memory, and again after FLUSH, ANALYZE, OPTIMIZE, without the secondary indexes,
with others, and after kill -9. A statement that fails is made smaller and
printed with the rows it needs. Exit status 1 if there was a difference that known.py does not explain.

mysqld of MySQL is not in Debian's stable release: start one and say --oracle mysql --oracle-port PORT.
"""
import argparse, os, random, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import changes, compare, documents, generated, histories, known, programs, queries, references, schema, servers, stores, temporary, tree, wire  # noqa: E402 (beside this script)

QUERY_SECONDS = 20
SQL_MODES = ["NO_UNSIGNED_SUBTRACTION", "NO_UNSIGNED_SUBTRACTION", ""]
# Settings that must not change any answer; each beside the defaults.
SETTINGS = [
    ("two threads", {"esker_parallel_scan_rows": 0, "parallel_read_threads": 2}),
    ("four threads", {"esker_parallel_scan_rows": 1, "parallel_read_threads": 4}),
    ("one thread", {"parallel_read_threads": 1}),
    ("no memory", {"sort_buffer_size": 32768, "join_buffer_size": 128, "tmp_table_size": 1024}),
    ("no memory, four threads", {"esker_parallel_scan_rows": 0, "parallel_read_threads": 4, "sort_buffer_size": 32768,
                                 "join_buffer_size": 128, "tmp_table_size": 1024}),
]
# What has histories of its own, see histories.py.
THEMES = {"references": references.References, "documents": documents.Documents, "generated": generated.Generated,
          "temporary": temporary.Temporary}
HISTORY = 40
STRICT = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO"


class Outcome:
    """What a server said: a result or an error's code."""

    def __init__(self, result=None, error=None):
        self.result, self.error = result, error

    @property
    def code(self):
        return self.error.code if self.error else 0

    def __str__(self):
        if self.error:
            return f"error {self.error}"
        if self.result.rows is None:
            return f"{self.result.affected} rows affected"
        rows = [compare.shown(r) for r in self.result.rows[:8]]
        return f"{len(self.result.rows)} rows {', '.join(rows)}{' …' if len(self.result.rows) > 8 else ''}"


def ask(connection, text, prepared=False, parameters=()):
    try:
        return Outcome(connection.execute(text, parameters) if prepared else connection.query(text))
    except wire.SqlError as e:
        return Outcome(error=e)


class Finding:
    def __init__(self, seed, what, statement, detail):
        self.seed, self.what, self.statement, self.detail = seed, what, statement, detail

    def __str__(self):
        return f"== seed {self.seed}: {self.what}\n{self.statement}\n{self.detail}"


class Seed:
    """One database and its statements, on both servers."""

    def __init__(self, number, args, esker, oracle):
        self.number, self.args, self.esker_server, self.oracle_server = number, args, esker, oracle
        self.mysql = args.oracle != "mariadb"
        self.rng = random.Random(number * 7919 + 1)
        self.options = schema.Options(self.rng, self.mysql)
        self.database = f"oracle_{number}"
        self.tables = schema.make_database(self.rng, self.options)
        self.queries = queries.Queries(self.rng, self.options, self.tables)
        self.changes = changes.Changes(self.queries)
        self.findings, self.kept, self.counts = [], [], {}
        self.known = known.MYSQL if self.mysql else known.MARIADB
        mode = self.rng.choice(SQL_MODES)
        self.mode = ",".join(m for m in (mode, STRICT if self.options.strict else "") if m)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    # Sessions

    def open(self, server, is_esker):
        c = server.connect()
        # MariaDB truncates moments where MySQL rounds them, unless it is told.
        mode = self.mode if is_esker or self.mysql else ",".join(m for m in (self.mode, "TIME_ROUND_FRACTIONAL") if m)
        c.query(f"SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, SESSION time_zone = '+00:00', sql_mode = '{mode}', group_concat_max_len = 1000000")
        if is_esker or self.mysql:
            c.query(f"SET max_execution_time = {QUERY_SECONDS * 1000}")
        else:
            c.query(f"SET max_statement_time = {QUERY_SECONDS}, max_sort_length = 8388608")
        return c

    def both(self, text):
        for c in (self.esker, self.oracle):
            if c:
                c.query(text)

    def setup(self):
        self.esker = self.open(self.esker_server, True)
        self.oracle = self.open(self.oracle_server, False) if self.oracle_server else None
        self.both(f"DROP DATABASE IF EXISTS {self.database}")
        self.both(f"CREATE DATABASE {self.database}")
        self.both(f"USE {self.database}")
        for table in self.tables:
            self.both(schema.create_statement(table, table.primary, table.keys))
            for n, text in enumerate(schema.insert_statements(table, table.rows)):
                if n == 1:
                    self.esker.query("FLUSH TABLES")
                self.both(text)
        if self.rng.random() < 0.4:
            self.esker.query("FLUSH TABLES")

    # One query

    def differ(self, node, mine=None, theirs=None):
        """What differs between the servers, or None."""
        text = node.render()
        mine = mine or ask(self.esker, text)
        theirs = theirs or ask(self.oracle, text)
        # What was cut away with the rest of a smaller statement orders nothing.
        ordered = bool(node.flags["ordered"] and node.flags["ordered"].parts) and any(n is node.flags["ordered"] for n in node.nodes())
        return self.judge(mine, theirs, ordered, exact=self.mysql)

    def judge(self, mine, theirs, ordered, exact):
        codes = {mine.code, theirs.code}
        if codes & known.SLOW_ERRORS:
            self.count("too slow")
            return None
        if mine.error or theirs.error:
            if mine.error and theirs.error or codes & known.PLAN_ERRORS:
                return None
            return f"error {mine.code or theirs.code} of {'Esker' if mine.error else 'the oracle'} only"
        return compare.same_rows(mine.result, theirs.result, ordered, exact)

    def query(self, node):
        text = node.render()
        mine = ask(self.esker, text)
        self.count("queries")
        if mine.error:
            self.count("errors")
        elif not mine.result.rows:
            self.count("empty")
        if self.oracle:
            theirs = ask(self.oracle, text)
            problem = self.differ(node, mine, theirs)
            if problem:
                self.report(node, "answers differ", problem, mine, theirs)
                return
        if not mine.error:
            self.against_itself(node, text, mine)

    def report(self, node, what, problem, mine, theirs):
        text = node.render()
        if known.explain(self.known, text, mine, theirs):
            self.count("explained")
            return
        if self.args.shrink:
            fails = lambda n: self.still(n, mine.code, theirs.code)
            tree.shrink(node, fails, self.args.shrink)
            text = node.render()
            mine, theirs = ask(self.esker, text), ask(self.oracle, text)
            if known.explain(self.known, text, mine, theirs):
                self.count("explained")
                return
            detail = self.with_few_rows(node, text, mine.code, theirs.code)
        else:
            detail = ""
        detail += f"Esker:  {mine}\noracle: {theirs}\n({problem})"
        self.found(what, text, detail)

    def still(self, node, mine_code, theirs_code):
        try:
            text = node.render()
            mine, theirs = ask(self.esker, text), ask(self.oracle, text)
        except wire.Lost:
            self.esker, self.oracle = self.reopen()
            return False
        # What is explained is another difference.
        return ((mine.code, theirs.code) == (mine_code, theirs_code) and self.differ(node, mine, theirs) is not None
                and not known.explain(self.known, text, mine, theirs))

    def reopen(self):
        pair = []
        for server, is_esker in ((self.esker_server, True), (self.oracle_server, False)):
            c = self.open(server, is_esker) if server else None
            if c:
                c.query(f"USE {self.database}")
            pair.append(c)
        return pair

    def with_few_rows(self, node, text, mine_code, theirs_code):
        """The tables of a failing query with as few rows as it takes."""
        used = [t for t in self.tables if f"{t.name} " in text + " "]
        self.both("BEGIN")
        for table in used:
            ids = [r[0].decode() for r in self.esker.query(f"SELECT id FROM {table.name}").rows]
            size = max(len(ids) // 2, 1)
            while ids and size:
                for start in range(0, len(ids), size):
                    part = ids[start:start + size]
                    if not part:
                        continue
                    self.both("SAVEPOINT s")
                    self.both(f"DELETE FROM {table.name} WHERE id IN ({', '.join(part)})")
                    if self.still(node, mine_code, theirs_code):
                        ids[start:start + size] = [None] * len(part)
                    else:
                        self.both("ROLLBACK TO SAVEPOINT s")
                ids = [i for i in ids if i]
                size //= 2
        out = []
        for table in used:
            out.append(self.esker.query(f"SHOW CREATE TABLE {table.name}").rows[0][1].decode() + ";\n")
            for row in self.esker.query(f"SELECT * FROM {table.name}").rows[:6]:
                out.append(f"  {table.name}: {compare.shown(row)}\n")
        out.append(f"few rows: Esker {ask(self.esker, text)}\n          oracle {ask(self.oracle, text)}\n")
        self.both("ROLLBACK")
        return "".join(out)

    def found(self, what, text, detail):
        finding = Finding(self.number, what, text, detail)
        self.findings.append(finding)
        print(finding, flush=True)

    # Esker against itself

    def against_itself(self, node, text, mine):
        ordered = bool(node.flags["ordered"])
        roll = self.rng.random()
        if roll < 0.3:
            self.same(text, mine, ask(self.esker, text, prepared=True), ordered, "binary protocol")
        elif roll < 0.6:
            parameters = []
            prepared = node.render(parameters)
            if parameters:
                again = ask(self.esker, prepared, prepared=True, parameters=parameters)
                self.same(f"{prepared}\n-- parameters {parameters}\n{text}", mine, again, ordered, "parameters")
        elif node.flags["partition"] and roll < 0.9:
            self.split(node, mine)
        self.with_settings(text, mine, ordered)
        if self.rng.random() < 0.4:
            self.through_view(text, mine, ordered)
        if len(self.kept) < 20:
            self.kept.append((text, ordered))

    def with_settings(self, text, mine, ordered, when=""):
        what, settings = self.rng.choice(SETTINGS)
        self.esker.query("SET " + ", ".join(f"{name} = {value}" for name, value in settings.items()))
        self.same(text, mine, ask(self.esker, text), ordered, what + when)
        self.esker.query("SET " + ", ".join(f"{name} = DEFAULT" for name in settings))

    def through_view(self, text, mine, ordered):
        """The same query as a view. What a view may not hold or name is refused when it is made."""
        if ask(self.esker, f"CREATE OR REPLACE VIEW v AS {text}").error:
            self.count("no views")
            return
        self.same(f"CREATE VIEW v AS {text};\nSELECT * FROM v", mine, ask(self.esker, "SELECT * FROM v"), ordered, "through a view")

    def split(self, node, mine):
        table, where = node.flags["partition"]
        sources = []
        for part in str(table).split(" AS ")[1:]:
            sources.append(part.split()[0].strip("),"))
        simple = [t for t in self.tables if str(table).startswith(f"{t.name} AS ")]
        if not simple:
            return
        scope = queries.Scope([queries.source_of(simple[0], sources[0])])
        condition = f"({self.queries.condition(2, scope)})"
        before = where.render()[len(" WHERE "):] if where else "TRUE"
        text = node.render()
        head = text.index(" FROM " + str(table)) + len(" FROM " + str(table))
        tail = text[head + (len(where.render()) if where else 0):]
        rows, queries_run = [], []
        for p in (condition, f"NOT {condition}", f"{condition} IS NULL"):
            part = f"{text[:head]} WHERE ({before}) AND ({p}){tail}"
            queries_run.append(part)
            answer = ask(self.esker, part)
            if answer.error:
                return
            rows += answer.result.rows
        whole = Outcome(wire.Result(mine.result.types, rows))
        self.same("\n".join([text] + queries_run), mine, whole, False, "split by a condition")

    def same(self, text, mine, again, ordered, what):
        self.count("repeated")
        problem = self.judge(again, mine, ordered, exact=False)
        if problem:
            self.found(f"Esker differs from itself: {what}", text, f"first: {mine}\nthen:  {again}\n({problem})")

    def rearranged(self):
        """The kept queries again, after what must not change any answer."""
        answers = [ask(self.esker, text) for text, _ in self.kept]
        def check(what):
            for (text, ordered), first in zip(self.kept, answers):
                self.same(text, first, ask(self.esker, text), ordered, what)
                self.with_settings(text, first, ordered, f", {what}")
        self.esker.query("FLUSH TABLES")
        check("after FLUSH TABLES")
        for t in self.tables:
            self.esker.query(f"ANALYZE TABLE {t.name}")
        check("after ANALYZE TABLE")
        for t in self.tables:
            self.esker.query(f"OPTIMIZE TABLE {t.name}")
        check("after OPTIMIZE TABLE")
        for t in self.tables:
            for name, _ in t.keys:
                self.esker.query(f"ALTER TABLE {t.name} DROP KEY {name}")
        check("without secondary indexes")
        for t in self.tables:
            for _, definition in schema.secondary_keys(self.rng, t):
                self.esker.query(f"ALTER TABLE {t.name} ADD {definition}")
        check("with other indexes")
        if self.esker_server.process and self.rng.random() < 0.2:
            self.esker_server.restart()
            self.esker, self.oracle = self.reopen()
            check("after kill -9")

    # Changes

    def change(self):
        table, node = self.changes.change()
        node.flags = {"ordered": None, "partition": None}
        text = node.render()
        self.count("changes")
        prepared = self.rng.random() < 0.3
        inside = self.rng.random() < 0.2
        if inside:
            self.both("BEGIN")
        mine, theirs = ask(self.esker, text, prepared), ask(self.oracle, text)
        problem = self.judge_change(mine, theirs)
        if mine.error:
            self.count("errors of changes")
        explained = problem and known.explain(self.known, text, mine, theirs)
        if problem is None or explained:
            problem = self.tables_differ(text)
        if problem and explained:
            # The tables differ as they must, and what comes next would differ because of that.
            self.count("explained")
            return False
        if problem:
            self.found("change differs", text, f"Esker:  {mine}\noracle: {theirs}\n({problem})")
            return False
        if inside:
            self.both(self.rng.choice(["ROLLBACK", "ROLLBACK", "COMMIT"]))
            problem = self.tables_differ(text)
            if problem:
                self.found("the end of a transaction differs", text, problem)
                return False
        return True

    def judge_change(self, mine, theirs):
        if mine.error and theirs.error:
            return None
        if mine.error or theirs.error:
            return f"error {mine.code or theirs.code} of {'Esker' if mine.error else 'the oracle'} only"
        if mine.result.affected != theirs.result.affected:
            return "counts differ"
        return None

    def tables_differ(self, text):
        for table in self.tables:
            if f"{table.name} " not in text + " " and f"{table.name}." not in text:
                continue
            read = f"SELECT * FROM {table.name}"
            problem = self.judge(ask(self.esker, read), ask(self.oracle, read), False, True)
            if problem:
                return f"{table.name}: {problem}"
        return None

    # Assignments

    def warnings(self, connection):
        return [row[1] for row in connection.query("SHOW WARNINGS").rows]

    def store(self, assignments):
        text, parameters, read = assignments.assignment()
        self.count("assignments")
        said = []
        for c in (self.esker, self.oracle):
            answer = ask(c, text, bool(parameters), parameters)
            said.append((answer, self.warnings(c), ask(c, read)))
        (mine, my_warnings, my_row), (theirs, their_warnings, their_row) = said
        if mine.code != theirs.code:
            problem = "errors differ"
        elif my_row.result.rows != their_row.result.rows:
            problem = "what is stored differs"
        elif my_warnings != their_warnings and not (mine.error and set(my_warnings) <= set(their_warnings)):
            # Of a failed statement Esker lists the error that was raised, see docs/differences.md.
            problem = f"warnings differ: {my_warnings}, not {their_warnings}"
        else:
            return
        if not known.explain(self.known, text, mine, theirs):
            self.found("assignment differs", f"{text} {parameters or ''}", f"Esker:  {mine}, {my_row}\noracle: {theirs}, {their_row}\n({problem})")

    def stores(self):
        """Only beside MySQL: MariaDB converts otherwise."""
        assignments = stores.Stores(random.Random(self.number))
        self.both(assignments.create())
        for n in range(self.args.assignments):
            if n % 50 == 0:
                self.both(f"SET sql_mode = '{assignments.rng.choice(stores.MODES)}'")
            self.store(assignments)
        self.both(f"SET sql_mode = '{self.mode}'")

    # Stored programs

    def told(self, connection, text):
        """What a server says of a statement, as what can be compared."""
        answer = ask(connection, text)
        rows = None if answer.error or answer.result.rows is None else sorted(answer.result.rows, key=str)
        # 3025: max_execution_time does not hold for this SELECT.
        warnings = None if answer.error else [w for w in self.warnings(connection) if w != b"3025"]
        return answer, (answer.code, rows, warnings)

    def agree(self, text, history):
        (mine, my_word), (theirs, their_word) = self.told(self.esker, text), self.told(self.oracle, text)
        if my_word == their_word:
            return True
        history = ";\n".join(history + [text])
        if known.explain(self.known, history, mine, theirs):
            self.count("explained")
        else:
            self.found("program differs", history, f"Esker:  {mine} {my_word[2]}\noracle: {theirs} {their_word[2]}")
        return False

    def programs(self):
        """Only beside MySQL. A program that has shown a difference ends the seed's programs: the tables differ then."""
        made = programs.Programs(random.Random(self.number + 500_000))
        for text in made.create():
            self.both(text)
        for _ in range(self.args.programs):
            text, runs, shown, keep = made.program()
            self.count("programs")
            if not self.agree(text, []):
                return
            if ask(self.esker, f"SHOW CREATE {text.split()[1]} {text.split()[2].partition('(')[0]}").error:
                continue
            for run in runs:
                if not self.agree(run, [text]) or not all(self.agree(query, [text, run]) for query in shown):
                    return
            keep()

    # Histories

    def histories(self):
        """Only beside MySQL: each theme's statements in a database of their own."""
        for nth, (name, theme) in enumerate(THEMES.items()):
            if self.args.only and name not in self.args.only:
                continue
            rng = random.Random(self.number + 600_000 + nth * 100_000)
            history = histories.History(theme(rng), (self.esker_server, self.oracle_server), f"{self.database}_{name}", ask, self.args.shrink > 0)
            for what, text, detail in history.run(getattr(self.args, name)):
                self.found(what, text, detail)
            for what, n in history.counts.items():
                self.counts[what] = self.counts.get(what, 0) + n

    def run(self):
        try:
            if self.args.only:
                self.histories()
                return
            self.setup()
            if self.mysql and self.oracle:
                self.stores()
                self.programs()
                self.histories()
            for n in range(self.args.statements):
                if self.oracle and n % 3 == 2 and self.rng.random() < self.args.changes:
                    if not self.change():
                        return
                else:
                    self.queries.ctes = []
                    self.query(self.queries.query(self.rng.choice([1, 2, 2, 3]), None))
            if self.args.rearrange:
                self.rearranged()
            if not self.args.keep:
                self.both(f"DROP DATABASE {self.database}")
        except wire.Lost as e:
            self.found("the connection was lost", "", str(e) + ("" if self.esker_server.alive() else "; Esker is dead"))
            if not self.esker_server.alive():
                self.esker_server.spawn()
        finally:
            for c in (getattr(self, "esker", None), getattr(self, "oracle", None)):
                if c:
                    c.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", default="1-20", help="a number or a range")
    p.add_argument("--statements", type=int, default=60, help="statements of each seed")
    p.add_argument("--changes", type=float, default=0.5, help="share of changes among every third statement")
    p.add_argument("--assignments", type=int, default=100, help="values stored in columns of every type, beside MySQL only")
    p.add_argument("--programs", type=int, default=12, help="stored programs that are made and run, beside MySQL only")
    for name in THEMES:
        p.add_argument(f"--{name}", type=int, default=HISTORY, help=f"statements of the history of {name}, beside MySQL only")
    p.add_argument("--only", choices=list(THEMES), nargs="+", help="nothing but the histories of these themes")
    p.add_argument("--oracle", choices=["mariadb", "mysql", "none"], default="mariadb")
    p.add_argument("--oracle-port", type=int, help="a server that runs already; root without a password")
    p.add_argument("--esker-port", type=int, help="an Esker that runs already")
    p.add_argument("--binary", default="target/release/esker")
    p.add_argument("--shrink", type=int, default=400, help="steps to make a failing statement smaller; 0: none")
    p.add_argument("--no-rearrange", dest="rearrange", action="store_false", help="do not run queries again with other indexes")
    p.add_argument("--keep", action="store_true", help="keep the databases")
    p.add_argument("--print", action="store_true", help="print the statements and run nothing")
    p.add_argument("--stop", type=int, default=0, help="stop after so many findings")
    args = p.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if args.print:
        for number in seeds:
            seed = Seed(number, args, None, None)
            for t in seed.tables:
                print(schema.create_statement(t, t.primary, t.keys) + ";")
                for text in schema.insert_statements(t, t.rows):
                    print(text + ";")
            for n in range(args.statements):
                seed.queries.ctes = []
                node = seed.queries.query(seed.rng.choice([1, 2, 2, 3]), None) if n % 3 else seed.changes.change()[1]
                print(node.render() + ";")
        return 0
    # In memory where there is a file system for it: nothing has to survive, and changes need not wait for a disk.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        esker = servers.esker(args, directory)
        oracle = None
        findings, counts, started = [], {}, time.time()
        try:
            if args.oracle == "mariadb" or args.oracle_port:
                oracle = servers.mariadb(args, directory)
            for number in seeds:
                seed = Seed(number, args, esker, oracle)
                seed.run()
                findings += seed.findings
                for what, n in seed.counts.items():
                    counts[what] = counts.get(what, 0) + n
                if args.stop and len(findings) >= args.stop:
                    break
        finally:
            for server in (esker, oracle):
                if server:
                    server.stop()
    for k in known.MARIADB + known.MYSQL:
        if k.hits:
            print(f"known, {k.hits} times: {k.why}")
    print(f"{len(seeds)} seeds, {', '.join(f'{n} {what}' for what, n in sorted(counts.items()))} in {time.time() - started:.0f} s: "
          f"{len(findings)} unexplained", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
