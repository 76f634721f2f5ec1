"""What every comparison needs of this machine: packages, ports, processes, disks, Esker's binary."""
import copy, os, re, shutil, socket, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TICKS = os.sysconf("SC_CLK_TCK")
# Servers lie where an ordinary user's path does not lead.
os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

# What has to be there, a program or a file, and Debian's package that brings it.
MARIADB = [("mariadbd", "mariadb-server"), ("mariadb", "mariadb-client")]
MYROCKS = [*MARIADB, ("/usr/lib/mysql/plugin/ha_rocksdb.so", "mariadb-plugin-rocksdb")]
MARIADB_CLIENT = [("mariadb", "mariadb-client")]
SYSBENCH = [("sysbench", "sysbench")]
MARIADB_BACKUP = [("mariadb-backup", "mariadb-backup"), ("mariadb-dump", "mariadb-client")]
DB_BENCH = [("db_bench", "rocksdb-tools")]
DUCKDB = "duckdb==2.0.1"


def install(needed):
    """Installs the packages whose files are missing (as root or with sudo); false if that did not help."""
    missing = lambda: [package for what, package in needed if not shutil.which(what, os.F_OK)]
    packages = missing()
    if packages and shutil.which("apt-get"):
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        print(f"# installing {' '.join(packages)}", flush=True)
        subprocess.run([*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-qy",
                        "--no-install-recommends", *packages], stdout=subprocess.DEVNULL)
    return not missing()


def require(needed):
    """Installs the packages or ends the program."""
    if not install(needed):
        sys.exit(f"missing, and could not be installed: {', '.join(package for _, package in needed)}")


def esker_binary(given):
    """The Esker that is measured: the one given, or the release build of this checkout."""
    if given:
        return os.path.abspath(given)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    return os.path.join(target, "release", "esker")


def tpcc_client():
    """The program of bench/tpcc, built."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    target = os.path.join(target, "bench-tpcc")
    subprocess.run(["cargo", "build", "--release", "--quiet", "--target-dir", target], cwd=os.path.join(HERE, "tpcc"), check=True)
    return os.path.join(target, "release", "tpcc")


def duckdb_python():
    """A Python that has DuckDB, in a virtual environment that is made where it is missing; nothing if that failed."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    environment = os.path.join(target, f"bench-{DUCKDB}")
    python = os.path.join(environment, "bin", "python")
    # An install that was interrupted has left a part of it.
    if not os.path.exists(python) or subprocess.run([python, "-c", "import duckdb"], capture_output=True).returncode != 0:
        shutil.rmtree(environment, ignore_errors=True)
        print(f"# installing {DUCKDB}", flush=True)
        made = subprocess.run([sys.executable, "-m", "venv", environment], stdout=subprocess.DEVNULL)
        if made.returncode != 0 or subprocess.run([python, "-m", "pip", "install", "--quiet", DUCKDB]).returncode != 0:
            shutil.rmtree(environment, ignore_errors=True)
            return None
    return python


def free_port(start):
    """A free loopback port below the ephemeral range."""
    for port in range(start, start + 500):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) != 0:
                return port
    sys.exit("no free port")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_kib(pid):
    return status_kib(pid, "VmRSS")


def peak_rss_kib(pid):
    """The most it ever had."""
    return status_kib(pid, "VmHWM")


def status_kib(pid, name):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(rf"{name}:\s+(\d+)", f.read()).group(1))


def settle_disk(cold):
    """Writes back what is in memory; `cold` (root only): and forgets it, so that reads come from the device."""
    subprocess.run(["sync"], check=True)
    if cold:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")


class Disk:
    """This machine's disk, or the same with every sync made longer by `delay_us`; `counts`: how often is told (`syncs`
    of a server)."""

    def __init__(self, delay_us, directory, counts=False):
        self.delay_us = delay_us
        self.name = f"+{delay_us / 1000:g} ms" if delay_us else "this disk"
        self.shim, self.environment = None, {}
        if delay_us or counts:
            self.shim = os.path.join(directory, "slowsync.so")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", self.shim,
                            os.path.join(HERE, "slowsync.c")], check=True)
            self.environment = {"LD_PRELOAD": self.shim, "SYNC_DELAY_US": str(delay_us)}

    def inside(self, root, folder):
        """The same for a program in a chroot, which sees a copy of the library in a folder of its own."""
        within = copy.copy(self)
        if self.shim:
            shutil.copy(self.shim, root + folder)
            within.environment = self.environment | {"LD_PRELOAD": f"{folder}/{os.path.basename(self.shim)}"}
        return within
