"""Logging 1,000 steps of 100 metrics and reading them back: Longpole, MLflow, trackio.

Run by hand: `python benchmarks/experiment_trackers.py [--peer-python PYTHON]`, with the Python of
an environment that has `mlflow` and `trackio`. Each tracker runs as it does on one machine:
Longpole with its server in a process of its own, MLflow with an SQLite file, trackio with its local
files. `log` is what the training thread spends, `until read` the time from the first call until
all 100,000 values can be read back (with Longpole's pauses to send), `read` what reading every
series of the run takes.
"""

import argparse
import json
import subprocess
import sys
import textwrap
import time
import urllib.parse
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

import longpole
from served import describe_machine, open_server

STEPS, METRICS = 1_000, 100
# Steps take seconds in training; without a pause they would outrun the SDK's bounded buffer.
FLUSH_EVERY = 200
NAMES = [f"group/metric_{number}" for number in range(METRICS)]
LOGGED = frozenset(NAMES)
RUN = "bench/tracker"

MLFLOW = """
import json, os, time
import mlflow
from mlflow.tracking import MlflowClient
mlflow.set_tracking_uri("sqlite:///" + os.path.abspath("mlflow.db"))
with mlflow.start_run() as run:
    begun = time.perf_counter()
    for step in range(STEPS):
        mlflow.log_metrics({f"group/metric_{n}": n / 7 + step for n in range(METRICS)}, step=step)
    logged = time.perf_counter()
client = MlflowClient()
started = time.perf_counter()
names = [f"group/metric_{n}" for n in range(METRICS)]
count = sum(len(client.get_metric_history(run.info.run_id, name)) for name in names)
read = time.perf_counter()
print(json.dumps({"name": "MLflow " + mlflow.__version__, "log_s": logged - begun,
    "until_s": started - begun, "read_s": read - started, "count": count}))
"""

TRACKIO = """
import json, os, time
os.environ["TRACKIO_DIR"] = os.path.abspath("trackio")
import trackio
from trackio.sqlite_storage import SQLiteStorage
trackio.init(project="bench", name="run", auto_log_gpu=False)
begun = time.perf_counter()
for step in range(STEPS):
    trackio.log({f"group/metric_{n}": n / 7 + step for n in range(METRICS)}, step=step)
logged = time.perf_counter()
trackio.finish()
rows = SQLiteStorage.get_logs("bench", "run")
until = time.perf_counter()
started = time.perf_counter()
rows = SQLiteStorage.get_logs("bench", "run")
count = sum(1 for row in rows for key in row if key.startswith("group/"))
read = time.perf_counter()
print(json.dumps({"name": "trackio " + trackio.__version__, "log_s": logged - begun,
    "until_s": until - begun, "read_s": read - started, "count": count}))
"""


def log_here() -> dict[str, object]:
    """Log to Longpole."""
    with TemporaryDirectory() as directory, open_server(Path(directory)) as served:
        longpole.init(RUN, endpoint=served.http)
        begun_s = time.perf_counter()
        log_s = 0.0
        for step in range(STEPS):
            metrics = {name: number / 7 + step for number, name in enumerate(NAMES)}
            called_s = time.perf_counter()
            longpole.log(step, metrics)
            log_s += time.perf_counter() - called_s
            if step % FLUSH_EVERY == FLUSH_EVERY - 1:
                longpole.flush(60.0)
        longpole.flush(60.0)
        while served.count("metric_points") < STEPS * METRICS:
            time.sleep(0.02)
            if time.perf_counter() - begun_s > 60:
                break
        until_s = time.perf_counter() - begun_s
        dropped = dict(longpole.stats().dropped)
        longpole.shutdown()
        started_s = time.perf_counter()
        count = read_all(served.http)
        read_s = time.perf_counter() - started_s
    if any(dropped.values()):
        print(f"dropped {dropped}")
    return {
        "name": f"Longpole {longpole.__version__}",
        "log_s": log_s,
        "until_s": until_s,
        "read_s": read_s,
        "count": count,
    }


def read_all(address: str) -> int:
    """Read every metric of the run, page by page; return how many values came."""
    path = f"{address}/api/v1/runs/{urllib.parse.quote(RUN, safe='')}/metrics"
    count, cursor = 0, None
    while True:
        query = "" if cursor is None else f"?cursor={cursor}"
        with urllib.request.urlopen(f"{path}{query}", timeout=60) as answer:
            page = json.load(answer)
        metrics = [metric for metric in page["metrics"] if metric["name"] in LOGGED]
        count += sum(len(metric["values"]) for metric in metrics)
        cursor = page["next"]
        if cursor is None:
            return count


def log_there(python: str, script: str) -> dict[str, object] | str:
    """Log to a peer, in its own environment; return why it did not work when it did not."""
    text = f"STEPS, METRICS = {STEPS}, {METRICS}\n{textwrap.dedent(script)}"
    with TemporaryDirectory() as directory:
        done = subprocess.run(
            [python, "-c", text], cwd=directory, capture_output=True, text=True, timeout=300
        )
    if done.returncode:
        return (done.stderr.strip() or "failed").splitlines()[-1]
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python")
    python = parser.parse_args().peer_python
    print(describe_machine())
    print(f"{'tracker':<20}{'log s':>9}{'us/value':>10}{'until read s':>14}", end="")
    print(f"{'read s':>9}{'values':>10}")
    results: list[dict[str, object] | str] = [log_here()]
    if python is None:
        print("peers: none; --peer-python with an environment of `pip install mlflow trackio`")
    else:
        results += [log_there(python, MLFLOW), log_there(python, TRACKIO)]
    for result in results:
        if isinstance(result, str):
            print(f"peer failed: {result}")
            continue
        log_s, until_s = float(str(result["log_s"])), float(str(result["until_s"]))
        print(
            f"{result['name']:<20}{log_s:>9.2f}{log_s / STEPS / METRICS * 1e6:>10.2f}"
            f"{until_s:>14.2f}{float(str(result['read_s'])):>9.2f}{result['count']:>10,}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
