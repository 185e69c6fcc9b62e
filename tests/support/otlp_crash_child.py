"""A process that accepts numbered requests until it is killed.

Usage: python -m support.otlp_crash_child DIRECTORY FIRST COUNT. It prints the number of each
request once that is acknowledged, and appends `{token, bodies}` to DIRECTORY/written for each
insert tried. With COUNT 0 it writes what earlier processes left behind, and ends.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from longpole_server.model.records import Records
from support.otlp_pipeline import RecordingWriter, running_pipeline

_THREADS = 4
_DRAIN_S = 60.0


class FileWriter(RecordingWriter):
    """Appends each insert to a file before it says that it worked."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("a")

    def write(self, records: Records, token: str) -> None:
        bodies = [point.name for point in records.metric_points]
        self._file.write(json.dumps({"token": token, "bodies": bodies}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def main() -> None:
    directory, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    with running_pipeline(directory, FileWriter(directory / "written")) as pipeline:

        def send(number: int) -> None:
            pipeline.accept("traces", str(number).encode(), f"id/{number}")
            # One write a line: several threads print.
            os.write(sys.stdout.fileno(), f"{number}\n".encode())

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(send, range(first, first + count)))
        if not pipeline.drain(_DRAIN_S):
            sys.exit("not written in time")


if __name__ == "__main__":
    main()
