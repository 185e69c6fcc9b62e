"""How long a large store of before takes to be brought up to date, and what that costs on disk.

Run by hand: `python benchmarks/store_migrations.py [--rows 5000000] [--from 14]`. A store is made
as it was before a migration, filled with spans and with points of metrics by the database itself,
and then brought up to date: each migration is timed by itself. A server answers nobody meanwhile.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from longpole_server.store import StoreConfig
from longpole_server.store.client import MIGRATION_TIMEOUT_S, WRITE_SETTINGS, Client, Connector
from longpole_server.store.migrations import apply_pending, load_migrations
from served import describe_machine

# A day of spans in the order they came, of a few names, with ids and values of their own.
_SPANS = """
INSERT INTO otel_traces (Timestamp, TraceId, SpanId, SpanName, SpanKind, ServiceName,
    ResourceAttributes, SpanAttributes, Duration, StatusCode)
SELECT toDateTime64('2026-01-01 00:00:00', 9) + INTERVAL number * 15000 MICROSECOND,
    lower(hex(sipHash128(intDiv(number, 6)))), lower(hex(sipHash64(number))),
    ['rl.trajectory', 'rl.generate', 'execute_tool python'][number % 3 + 1], 'Internal', 'trainer',
    map('service.name', 'trainer', 'host.name', 'node0', 'rl.run.id', 'run'),
    map('rl.loop.iteration', toString(intDiv(number, 8192)), 'rl.trajectory.id', toString(number),
        'gen_ai.usage.output_tokens', toString(cityHash64(number) % 8192),
        'rl.reward.value', toString((cityHash64(number) % 1000) / 1000)),
    cityHash64(number) % 60000000000, 'Unset'
FROM numbers({first}, {rows})
"""
_POINTS = """
INSERT INTO metric_points (run_id, attempt, step, name, value, ts_ns)
SELECT concat('run-', toString(intDiv(number, 1000000))), 1, intDiv(number % 1000000, 100),
    concat('actor/metric_', toString(number % 100)), (cityHash64(number) % 1000000) / 1000,
    toDateTime64('2026-01-01 00:00:00', 9, 'UTC') + INTERVAL intDiv(number, 100) SECOND
FROM numbers({first}, {rows})
"""
_BLOCK = 500_000


def fill(client: Client, rows: int) -> None:
    for first in range(0, rows, _BLOCK):
        some = min(_BLOCK, rows - first)
        for sql in (_SPANS, _POINTS):
            client.command(sql.format(first=first, rows=some))


def measure_disk(directory: Path) -> int:
    return sum(
        (Path(folder) / name).stat().st_blocks * 512
        for folder, _, names in os.walk(directory)
        for name in names
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--from", dest="first", type=int, default=14)
    arguments = parser.parse_args()
    print(describe_machine())
    known = load_migrations()
    with TemporaryDirectory() as name:
        config = StoreConfig(directory=Path(name) / "store")
        Path(name, "store").mkdir()
        client = Connector(config).connect_bare(WRITE_SETTINGS, MIGRATION_TIMEOUT_S)
        client.command(f"CREATE DATABASE {config.database} ENGINE = Atomic")
        client.use(config.database)
        apply_pending(client, [each for each in known if each.number < arguments.first])
        begun_s = time.monotonic()
        fill(client, arguments.rows)
        print(
            f"{arguments.rows:,} spans and as many points of metrics, made in "
            f"{time.monotonic() - begun_s:.0f} s, {measure_disk(Path(name)) / 1e6:,.0f} MB"
        )
        print(f"{'migration':<24}{'seconds':>9}{'CPU s':>9}{'MB on disk':>12}")
        for migration in known[arguments.first - 1 :]:
            upto = [each for each in known if each.number <= migration.number]
            started_s, cpu_s = time.monotonic(), time.process_time()
            apply_pending(client, upto)
            print(
                f"{migration.number:04}_{migration.name:<19}{time.monotonic() - started_s:>9.1f}"
                f"{time.process_time() - cpu_s:>9.1f}{measure_disk(Path(name)) / 1e6:>12,.0f}",
                flush=True,
            )
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
