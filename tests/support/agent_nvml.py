"""Runs an `NvmlSource` in a child process, one sample at a time.

As a program: reads a time in seconds a line, writes the sample's points as JSON a line.
"""

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from longpole_agent.sources.nvml.source import NvmlSource


@dataclass(frozen=True)
class Sample:
    """Points of one sample by GPU: metric -> value; and the processes: pid -> bytes."""

    gpus: dict[str, dict[str, float]]
    processes: dict[str, dict[int, int | None]]
    attributes: dict[str, dict[str, str | int]]
    trouble: str = ""
    needs_restart: bool = False


class NvmlChild:
    """A child process with an `NvmlSource`.

    Args:
        environment: Added to this process's environment.
        log: Where the child's log goes.
        options: Arguments of `NvmlSource`.
    """

    def __init__(self, environment: dict[str, str], log: Path, **options: float) -> None:
        self._log = log
        with log.open("w") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, __file__, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            )

    def sample(self, at_s: float) -> Sample:
        """Take a sample as if it were `at_s` seconds after some beginning."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{at_s}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self.log
        answer = json.loads(line)
        sample = Sample({}, {}, {}, answer["trouble"], answer["needs_restart"])
        for metric, value, attributes in answer["points"]:
            uuid = attributes.pop("hw.id")
            if metric == "process.gpu.memory.usage":
                processes = sample.processes.setdefault(uuid, {})
                processes[attributes["process.pid"]] = value
                continue
            assert metric not in sample.gpus.setdefault(uuid, {})
            sample.gpus[uuid][metric] = value
            sample.attributes[uuid] = attributes
        return sample

    @property
    def log(self) -> str:
        return self._log.read_text()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=120) == 0, self.log
        self._process.stdout.close()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    source = NvmlSource(**json.loads(sys.argv[1]))
    for line in sys.stdin:
        ts_ns = 1_000_000_000_000_000 + round(float(line) * 1e9)
        points = source.sample(ts_ns)
        assert all(point.ts_ns == ts_ns for point in points)
        answer = {
            "points": [(point.metric, point.value, dict(point.attributes)) for point in points],
            "trouble": source.trouble,
            "needs_restart": source.needs_restart,
        }
        print(json.dumps(answer), flush=True)
    source.close()


if __name__ == "__main__":
    main()
