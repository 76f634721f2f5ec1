"""Where the programs' packages are, how they are brought there, and how a program is started.

What is pinned stands beside this file: requirements.txt (PyPI), package.json and its lock file (npm), pom.xml of a
folder (Maven), go.mod of a folder (Go); WordPress is Debian's package, unpacked. The kind of a program is the name of its entry: check.py, check.mjs,
Check.java, check.go, check.sh.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = Path(os.environ.get("ESKER_TEST_PROGRAMS") or Path.home() / ".cache" / "esker-programs")
PYTHON = FOLDER / "python" / "bin" / "python"
ENTRIES = ["check.py", "check.mjs", "Check.java", "check.go", "check.sh"]


def entry(folder):
    return next(folder / e for e in ENTRIES if (folder / e).exists())


def jars(name):
    return FOLDER / "java" / name


def command(folder):
    """The words that start the program."""
    path = entry(folder)
    if path.suffix == ".py":
        return [str(PYTHON), str(path)]
    if path.suffix == ".mjs":
        # Modules are found beside the file's own folder only, so the file runs beside the packages.
        shutil.copy(path, FOLDER / "node" / f"{folder.name}.mjs")
        return ["node", str(FOLDER / "node" / f"{folder.name}.mjs")]
    if path.suffix == ".java":
        return ["java", "-cp", f"{jars(folder.name)}/classes:{jars(folder.name)}/*", "Check"]
    if path.suffix == ".go":
        return [str(FOLDER / "go" / folder.name)]
    return ["bash", str(path)]


def environment():
    return {"PROGRAMS": str(FOLDER), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}


def call(words, cwd=HERE):
    print("+", " ".join(map(str, words)), flush=True)
    subprocess.run([str(w) for w in words], cwd=cwd, check=True)


def unchanged(source, mark):
    return mark.exists() and mark.read_bytes() == source.read_bytes()


def python():
    source, mark = HERE / "requirements.txt", FOLDER / "python" / "installed.txt"
    if not unchanged(source, mark):
        call([sys.executable, "-m", "venv", FOLDER / "python"])
        call([PYTHON, "-m", "pip", "install", "-q", "-r", source])
        shutil.copy(source, mark)


def node():
    source, folder = HERE / "package-lock.json", FOLDER / "node"
    if not unchanged(source, folder / "installed.json"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder / name)
        call(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)
        shutil.copy(source, folder / "installed.json")


def java(name):
    source, mark = HERE / name / "pom.xml", jars(name) / "installed.xml"
    if not unchanged(source, mark):
        call(["mvn", "-q", "-B", "-f", source, "dependency:copy-dependencies", f"-DoutputDirectory={jars(name)}"])
        shutil.copy(source, mark)
    call(["javac", "-cp", f"{jars(name)}/*", "-d", jars(name) / "classes", HERE / name / "Check.java"])


def go(name):
    (FOLDER / "go").mkdir(parents=True, exist_ok=True)
    call(["go", "build", "-o", FOLDER / "go" / name, "."], cwd=HERE / name)


def wordpress():
    """The files of Debian's package, without the web server that it wants."""
    folder = FOLDER / "wordpress"
    if not (folder / "usr").exists():
        folder.mkdir(parents=True, exist_ok=True)
        call(["apt-get", "download", "wordpress"], cwd=folder)
        call(["sh", "-c", "for package in *.deb; do dpkg-deb -x $package .; rm $package; done"], cwd=folder)


def programs(names):
    kinds = {name: entry(HERE / name).suffix for name in names}
    FOLDER.mkdir(parents=True, exist_ok=True)
    if ".py" in kinds.values():
        python()
    if ".mjs" in kinds.values():
        node()
    for name, kind in kinds.items():
        if kind == ".java":
            java(name)
        if kind == ".go":
            go(name)
    if "wordpress" in kinds:
        wordpress()
    return True
