"""DuckDB beside the servers of 'bench/compare tpch': in a process of this program, with two threads and the same memory.

The process runs this file with the Python of a virtual environment that has DuckDB. It is told statements and answers
with seconds and rows, a line of JSON each; the rows are read as a client would read them. The tables have the primary
keys of the others and no further index. Data come from the statements of generate.py by way of text files, as DuckDB is
made for, because it parses long lists of rows slowly.
"""
import json, os, re, subprocess, sys, time

THREADS = 2
INSERT = re.compile(r"INSERT INTO (\w+) VALUES \((.*)\);\n")


class Duck:
    """DuckDB in a process of its own, for as long as it is not stopped."""

    def __init__(self, name, python, directory, memory_mib):
        self.name, self.directory = name, directory
        command = [python, os.path.abspath(__file__), os.path.join(directory, "data.duckdb"), str(memory_mib)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def load(self, schema, data):
        """Creates the tables and copies the rows of the statements in a file into them; seconds it took."""
        started = time.time()
        tables = text_files(data, self.directory)
        copies = [f"COPY {table} FROM '{path}' (DELIMITER '\t', HEADER false, QUOTE '')" for table, path in tables.items()]
        for statement in [re.sub(r", KEY \([^)]*\)", "", schema), *copies]:
            took, error = self.ask(statement)
            if took is None:
                sys.exit(f"{self.name}: loading failed\n{error}")
        for path in tables.values():
            os.unlink(path)
        return time.time() - started

    def ask(self, text):
        """Seconds and rows, or None and the error."""
        # A date and an interval make a time here, and a date in MySQL.
        text = re.sub(r"(DATE '[^']*' [-+] INTERVAL \d+ [A-Z]+)", r"CAST(\1 AS DATE)", text)
        print(json.dumps(text), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else (None, "its process has ended")

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def text_files(data, directory):
    """Writes the rows of each table as lines of fields; the files by table."""
    files = {}
    with open(data) as statements:
        for statement in statements:
            table, rows = INSERT.fullmatch(statement).groups()
            if table not in files:
                files[table] = open(os.path.join(directory, f"{table}.tsv"), "w")
            # No value has a comma, a quote or a parenthesis in it.
            files[table].write(rows.replace("'", "").replace("),(", "\n").replace(",", "\t") + "\n")
    for file in files.values():
        file.close()
    return {table: file.name for table, file in files.items()}


def main():
    import duckdb  # only the virtual environment has it
    path, memory_mib = sys.argv[1:]
    connection = duckdb.connect(path, config={"threads": THREADS, "memory_limit": f"{memory_mib}MiB"})
    for line in sys.stdin:
        started = time.time()
        try:
            rows = connection.execute(json.loads(line)).fetchall()
            took = time.time() - started
            answer = took, [["NULL" if value is None else str(value) for value in row] for row in rows]
        except duckdb.Error as error:
            answer = None, str(error)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
