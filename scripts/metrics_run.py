"""Processes with metrics, and a real Prometheus that scrapes them: what `check-metrics` and `dashboard-picture` share.

Takes Prometheus from the path, or from Debian's package, which is unpacked under target/tools and not installed. Everything else happens in a
temporary folder and on the loopback. Ends within TIME seconds after the build, and leaves no process behind.
"""

import atexit
import collections
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

TIME = 180
# Between two scrapes, in seconds.
SCRAPE = 0.5
ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
TOOLS = TARGET / "tools" / "prometheus"
DASHBOARD = ROOT / "docs" / "metrics" / "dashboard.json"
ALERTS = ROOT / "docs" / "metrics" / "alerts.yml"
# Addresses of the loopback that no other run of these scripts uses.
HOST = f"127.{os.getpid() >> 8 & 127 | 128}.{os.getpid() & 255}."

started = []


def fail(text):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")


def family(root):
    """A process and everything that it started, in sessions of their own too."""
    children = collections.defaultdict(list)
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(entry.name))
    members = [root]
    for member in members:
        members += children[member]
    return members


def kill(process):
    """Kills a process that this script started, with everything that it started. None of them may act on the end of another."""
    if process.poll() is not None:
        return
    members = family(process.pid)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in members:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
    process.wait()


def end():
    for process in started:
        kill(process)


def start(*command, **settings):
    process = subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.DEVNULL, start_new_session=True, **settings
    )
    started.append(process)
    return process


def tool(name):
    """A program of Prometheus, from the path or from Debian's package."""
    found = shutil.which(name)
    if found:
        return found
    program = TOOLS / "usr" / "bin" / name
    if not program.exists():
        if not shutil.which("apt-get"):
            fail("needs prometheus and promtool: install them (on Debian: apt-get install prometheus)")
        with tempfile.TemporaryDirectory() as folder:
            download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "prometheus"]
            if subprocess.run(download, cwd=folder, timeout=300).returncode != 0:
                subprocess.run(["apt-get", "-qq", "update"], timeout=300)
                if subprocess.run(download, cwd=folder, timeout=300).returncode != 0:
                    fail("cannot download Debian's package prometheus: install it (apt-get install prometheus)")
            package = next(pathlib.Path(folder).glob("*.deb"))
            TOOLS.mkdir(parents=True, exist_ok=True)
            subprocess.run(["dpkg-deb", "-x", package, TOOLS], check=True, timeout=120)
    return program


class Dynamo(http.server.BaseHTTPRequestHandler):
    """Refuses every request, each time by what its server says at that moment."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        code = self.server.code()
        if code is None:
            self.close_connection = True
            return
        answer = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "planted"}).encode()
        self.send_response(400)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Files(http.server.SimpleHTTPRequestHandler):
    """Shows the files of the textfile collector, as node_exporter would."""

    def log_message(self, *_):
        pass


def serve(host, handler, **settings):
    server = http.server.ThreadingHTTPServer((HOST + host, 9464), handler)
    for name, value in settings.items():
        setattr(server, name, value)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Run:
    """What is started for the check, in one folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.fairlock = TARGET / "debug" / "fairlock"
        # The addresses of each job, by its name and its path.
        self.targets = collections.defaultdict(list)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": "planted",
            "AWS_SECRET_ACCESS_KEY": "planted",
            "AWS_REGION": "us-east-1",
        }

    def start(self, *command):
        # What the runs say is kept for a failure of this script.
        with open(self.folder / "said", "a") as said:
            return start(*command, cwd=self.folder, env=self.environment, stdout=said, stderr=said)

    def said(self):
        return (self.folder / "said").read_text().splitlines()[-20:]

    def scraped(self, job, host):
        """The address at which a process shows its metrics. Prometheus must know it when it starts, and the process may come later."""
        address = HOST + host + ":9464"
        if address not in self.targets[job, "/metrics"]:
            self.targets[job, "/metrics"].append(address)
        return address

    def service(self, host, seconds=TIME):
        return self.start(TARGET / "debug" / "examples" / "metrics", self.scraped("service", host), "locks.db", seconds)

    def run(self, name, host, *flags, command=("sleep", TIME)):
        """`fairlock run` with metrics at an address, or in a file if there is no host."""
        metrics = f"files/{name}.prom"
        if host:
            metrics = self.scraped(name, host)
        else:
            self.targets[name, f"/{name}.prom"].append(HOST + "1:9464")
        where = () if "--endpoint-url" in flags else ("--local", "faults.db")
        return self.start(self.fairlock, "run", "--metrics", metrics, "--quiet", *where, *flags, "--", *command)

    def until_held(self, lock):
        for _ in range(100):
            if self.call("show", "--exit-code", "--local", "faults.db", lock).returncode == 1:
                return
            time.sleep(0.1)
        fail(f"lock {lock} is not taken")

    def call(self, *words):
        words = [str(word) for word in words]
        return subprocess.run(
            [self.fairlock, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60
        )


def prometheus(run):
    """Starts Prometheus, and returns its address."""
    rules = re.sub(r"\n +for: .*", "", ALERTS.read_text())
    (run.folder / "alerts.yml").write_text(rules)
    jobs = [
        {"job_name": name, "metrics_path": path, "static_configs": [{"targets": targets}]}
        for (name, path), targets in run.targets.items()
    ]
    scrape = f"{SCRAPE * 1000:.0f}ms"
    config = {
        "global": {"scrape_interval": scrape, "scrape_timeout": scrape, "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": jobs,
    }
    # JSON is YAML.
    (run.folder / "prometheus.yml").write_text(json.dumps(config))
    at = HOST + "1:9090"
    run.start(
        tool("prometheus"),
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address={at}",
        "--log.level=warn",
    )
    return f"http://{at}"


def ask(at, path, **query):
    query = urllib.parse.urlencode(query)
    with urllib.request.urlopen(f"{at}/api/v1/{path}?{query}", timeout=10) as answer:
        return json.load(answer)["data"]


def filled(title, expression, interval):
    """An expression of a panel, with the variables as they are at first, and rates over an interval."""
    for name, value in (("$__rate_interval", interval), ("$job", ".*"), ("$lock", ".*")):
        expression = expression.replace(name, value)
    if "$" in expression:
        fail(f"panel {title}: a variable that this script does not know: {expression}")
    return expression


def main(work):
    """Builds the programs, and does some work in a folder, with what it starts."""
    atexit.register(end)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    build = ["cargo", "build", "--quiet", "--locked", "--workspace", "--bin", "fairlock", "--example", "metrics"]
    subprocess.run(build, cwd=ROOT, check=True)
    signal.signal(signal.SIGALRM, lambda *_: fail(f"takes longer than {TIME} s"))
    signal.alarm(TIME)
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "files").mkdir()
        serve("1", lambda *words: Files(*words, directory=str(pathlib.Path(folder) / "files")))
        run = Run(folder)
        try:
            work(run)
        finally:
            end()
