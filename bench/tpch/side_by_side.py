"""The 22 queries of TPC-H on several servers: results compared, times side by side.

`bench/compare tpch` loads the same data (generate.py) into every server and runs each query
`--repeat` times on one server after the other; the least time counts. Rows must be the same on all;
doubles and the last digits of quotients may differ. DuckDB (duck.py) is no server: the start of a client
is in the times of the others alone, so what SELECT 1 takes is said, too.
"""
import os, re, subprocess, sys, time

import servers  # from the directory above
from servers import DUCKDB, ESKER, INNODB, MYROCKS

HERE = os.path.dirname(os.path.abspath(__file__))
DATABASE = "tpch"
QUERY_SECONDS = 600


def options(parser):
    parser.add_argument("--scale", type=float, default=0.1, help="1 is 6 million lines")
    parser.add_argument("--tests", help="queries, for example 1,3,18; all if not given")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a query, the best counts")


def client(server, *options, **how):
    command = server.client("--max-allowed-packet=64M", *options)
    return subprocess.run(command, capture_output=True, text=True, **how)


def generate(args, directory):
    """The file with the statements that insert the data."""
    name = os.path.join(directory, "data.sql")
    with open(name, "w") as f:
        subprocess.run([sys.executable, os.path.join(HERE, "generate.py"), f"--scale={args.scale}"], stdout=f, check=True)
    return name


def load(server, data):
    """Creates the tables and runs the generator's statements; seconds it took."""
    with open(os.path.join(HERE, "schema.sql")) as f:
        schema = f.read()
    if server.name == DUCKDB:
        return server.load(schema, data)
    server.sql(f"DROP DATABASE IF EXISTS {DATABASE}; CREATE DATABASE {DATABASE}; USE {DATABASE}; {schema}")
    started = time.time()
    with open(data) as f:
        run = client(server, DATABASE, stdin=f)
    if run.returncode != 0:
        sys.exit(f"{server.name}: loading failed\n{run.stderr[-2000:]}")
    tables = "region,nation,part,supplier,partsupp,customer,orders,lineitem"
    server.sql(f"USE {DATABASE}; ANALYZE TABLE {tables}", check=False)
    return time.time() - started


def queries(wanted):
    with open(os.path.join(HERE, "queries.sql")) as f:
        parts = re.split(r"^-- q(\d+)\n", f.read(), flags=re.M)[1:]
    pairs = [(int(n), text.strip()) for n, text in zip(parts[::2], parts[1::2])]
    chosen = {int(n) for n in wanted.split(",")} if wanted else {n for n, _ in pairs}
    return [(n, text) for n, text in pairs if n in chosen]


def ask(server, text):
    """Seconds and rows, or None and the error."""
    if server.name == DUCKDB:
        return server.ask(text)
    started = time.time()
    try:
        run = client(server, "--batch", "--skip-column-names", DATABASE, "-e", text,
                     timeout=QUERY_SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"more than {QUERY_SECONDS} s"
    if run.returncode != 0:
        return None, run.stderr.strip()
    return time.time() - started, [line.split("\t") for line in run.stdout.splitlines()]


def same_value(a, b):
    if a == b:
        return True
    try:
        return abs(float(a) - float(b)) <= 1e-4 * max(abs(float(a)), abs(float(b)), 1)
    except ValueError:
        return False


def same_rows(a, b):
    return len(a) == len(b) and all(
        len(x) == len(y) and all(map(same_value, x, y)) for x, y in zip(a, b))


def run(args, directory):
    with servers.running(args, directory, (ESKER, INNODB, MYROCKS, DUCKDB)) as running:
        data = generate(args, directory)
        for server in running:
            print(f"# {server.name}: loaded scale {args.scale} in {load(server, data):.1f} s", flush=True)
        os.unlink(data)
        for server in running:
            least = min(ask(server, "SELECT 1")[0] for _ in range(5))
            print(f"# {server.name}: SELECT 1 takes {least * 1000:.1f} ms", flush=True)
        return compare(running, args)


def compare(running, args):
    print(f"{'query':7}" + "".join(f"{s.name + ' ms':>14}" for s in running) + f"{'ratio':>8}  rows",
          flush=True)
    results, totals, wrong = [], [0.0] * len(running), []
    for number, text in queries(args.tests):
        best, answers = [None] * len(running), [None] * len(running)
        for _ in range(args.repeat):
            for nth, server in enumerate(running):
                took, rows = ask(server, text)
                answers[nth] = rows
                if took is not None:
                    best[nth] = min(took, best[nth] or took)
        case = {"query": number, "ms": {s.name: b and b * 1000 for s, b in zip(running, best)}}
        line = f"q{number:<6}" + "".join(f"{b * 1000:>14.0f}" if b else f"{'FAILED':>14}" for b in best)
        if all(best):
            totals = [t + b for t, b in zip(totals, best)]
            if len(running) > 1:
                case["ratio"] = best[1] / best[0]
                line += f"{case['ratio']:>7.2f}x"
            case["same"] = all(same_rows(answers[0], other) for other in answers[1:])
            line += f"  {len(answers[0])}" + ("" if case["same"] else "  RESULTS DIFFER")
        else:
            case["same"] = False
            line += "  " + next(str(a)[:100] for a, b in zip(answers, best) if not b)
        if not case["same"]:
            wrong.append(number)
        results.append(case)
        print(line, flush=True)
    print("total  " + "".join(f"{t * 1000:>14.0f}" for t in totals), flush=True)
    if wrong:
        print(f"# different or failed: {', '.join(f'q{n}' for n in wrong)}", flush=True)
    return results
