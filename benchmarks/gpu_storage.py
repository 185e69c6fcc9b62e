"""Bytes a value of GPU samples: Longpole's table, and the TSDB of Prometheus on the same values.

Run by hand: `python benchmarks/gpu_storage.py [--gpus 32] [--seconds 3600]`; the peer needs
`promtool` (Debian: `apt-get install prometheus`). All samples lie on whole seconds, as a scrape
writes them. `as read` are values as fine as NVML gives them, which the table keeps exactly, so that
all three columns are lossless; `as floats` are the same with noise in every bit: Prometheus and the
plain columns keep all of it, the table what an instrument could have read. All bytes are charged to
the values: keys, times and indexes too. Rollups are named apart.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from longpole_server.store import StoreConfig, open_store
from longpole_server.store.client import Client
from served import describe_machine

# column -> (value as read, grain of the instrument). Levels change as stages do, with noise.
BUSY = "(intDiv(second + gpu % 3, 20) % 3 != 0)"
NOISE = "(cityHash64(gpu, second, '{name}') % 100000 / 100000)"
COLUMNS: dict[str, tuple[str, float]] = {
    "utilization_ratio": ("{busy} * 0.9 + {noise} * 0.1", 0.01),
    "memory_used_bytes": ("6e10 + {busy} * 1.2e10 + floor({noise} * 4) * 2097152", 1.0),
    "memory_total_bytes": ("8e10", 1.0),
    "sm_active_ratio": ("{busy} * 0.8 + {noise} * 0.1", 1e-4),
    "tensor_active_ratio": ("{busy} * 0.5 + {noise} * 0.1", 1e-4),
    "dram_active_ratio": ("{busy} * 0.4 + {noise} * 0.1", 1e-4),
    "power_watts": ("120 + {busy} * 480 + {noise} * 40", 0.1),
    "energy_joules": ("1e7 + second * 450 + gpu * 1000 + {noise} * 100", 1e-3),
    "temperature_celsius": ("45 + {busy} * 20 + {noise} * 3", 1.0),
    "sm_clock_hz": ("1.98e9 - floor({noise} * 4) * 1.5e7", 1.0),
    "clocks_event_reasons": ("{busy} * 4", 1.0),
    "nvlink_rx_bytes_per_s": ("{busy} * 1e10 + {noise} * 1e9", 1.0),
    "nvlink_tx_bytes_per_s": ("{busy} * 1e10 + {noise} * 1e9", 1.0),
    "pcie_rx_bytes_per_s": ("{noise} * 1e9", 1.0),
    "pcie_tx_bytes_per_s": ("{noise} * 1e9", 1.0),
}
BEGIN_S = 1_760_000_400
PLAIN_TABLE = """
CREATE TABLE plain_samples (
    host LowCardinality(String), gpu_uuid LowCardinality(String), gpu_index UInt8,
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)), model LowCardinality(String), {columns}
) ENGINE = MergeTree PARTITION BY toDate(ts_ns)
PRIMARY KEY (toStartOfTenMinutes(ts_ns), host, gpu_index)
ORDER BY (toStartOfTenMinutes(ts_ns), host, gpu_index, gpu_uuid, ts_ns)
"""


def express(name: str, *, exact: bool) -> str:
    value, grain = COLUMNS[name]
    text = value.format(busy=BUSY, noise=NOISE.format(name=name))
    if exact:
        return f"round(({text}) / {grain}) * {grain}" if grain != 1.0 else f"round({text})"
    # Noise in the low bits, except where the instrument counts.
    return text if grain == 1.0 and name not in BYTES_A_SECOND else f"({text}) + {noise_of(name)}"


BYTES_A_SECOND = frozenset(name for name in COLUMNS if name.endswith("_per_s"))


def noise_of(name: str) -> str:
    return f"cityHash64(second, gpu, '{name}', 1) / 1.8446744073709552e22"


def select_rows(gpus: int, seconds: int, *, exact: bool) -> str:
    values = ", ".join(f"{express(name, exact=exact)} AS {name}" for name in COLUMNS)
    return f"""
    WITH number % {gpus} AS gpu, intDiv(number, {gpus}) AS second
    SELECT
        concat('node-', toString(intDiv(gpu, 8))) AS host,
        concat('GPU-', hex(cityHash64(gpu))) AS gpu_uuid,
        gpu % 8 AS gpu_index,
        fromUnixTimestamp64Nano(toInt64({BEGIN_S} + second) * 1000000000, 'UTC') AS ts_ns,
        'NVIDIA H100 80GB HBM3' AS model,
        {values}
    FROM numbers({gpus * seconds})
    """


def measure_ours(client: Client, rows: str, values: int) -> dict[str, float]:
    names = ", ".join(("host", "gpu_uuid", "gpu_index", "ts_ns", "model", *COLUMNS))
    tables = ("gpu_samples", "plain_samples", "gpu_samples_10s", "gpu_samples_60s")
    for table in (*tables, "gpu_latest"):
        client.command(f"TRUNCATE TABLE IF EXISTS {table}")
    columns = ", ".join(f"{name} Float64 CODEC(ZSTD(1))" for name in COLUMNS)
    client.command(
        PLAIN_TABLE.format(columns=columns).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
    )
    for table in ("gpu_samples", "plain_samples"):
        client.command(f"INSERT INTO {table} ({names}) {rows}")
    for table in tables:
        client.command(f"OPTIMIZE TABLE {table} FINAL")
    sizes = client.query(
        "SELECT table, sum(bytes_on_disk) AS bytes FROM system.parts "
        "WHERE active AND database = currentDatabase() GROUP BY table"
    ).to_pylist()
    return {str(row["table"]): int(row["bytes"]) / values for row in sizes}


def measure_prometheus(client: Client, rows: str, folder: Path) -> int:
    """Return the bytes of the blocks that promtool makes."""
    text = folder / "samples.om"
    with text.open("wb") as file:
        for name in COLUMNS:
            file.write(f"# TYPE {name} gauge\n".encode())
            lines = (
                f"SELECT concat('{name}{{host=\"', host, '\",gpu=\"', gpu_uuid, '\",index=\"', "
                "toString(gpu_index), '\",model=\"', model, '\"} ', "
                f"toString(toFloat64({name})), ' ', toString(toUnixTimestamp(ts_ns))) "
                f"FROM ({rows}) ORDER BY gpu_uuid, ts_ns"
            )
            file.write(client.query_bytes(lines, form="TSVRaw"))
        file.write(b"# EOF\n")
    blocks = folder / "blocks"
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return sum(path.stat().st_size for path in blocks.rglob("*") if path.is_file())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=3600)
    arguments = parser.parse_args()
    values = arguments.gpus * arguments.seconds * len(COLUMNS)
    has_peer = shutil.which("promtool") is not None
    print(describe_machine())
    if has_peer:
        version = subprocess.run(["promtool", "--version"], capture_output=True, text=True)
        print((version.stdout or version.stderr).splitlines()[0])
    else:
        print("peer: none; `apt-get install prometheus` brings promtool")
    print(f"{arguments.gpus} GPUs, {arguments.seconds} s, {values:,} values; bytes a value")
    print(f"{'values':<12}{'stored':>9}{'plain':>9}{'prom':>9}{'prom/stored':>13}", end="")
    print(f"{'10 s':>8}{'60 s':>8}")
    with TemporaryDirectory() as directory:
        store = open_store(StoreConfig(directory=Path(directory) / "store"))
        client = store.new_schema_client()
        for name, exact in (("as read", True), ("as floats", False)):
            rows = select_rows(arguments.gpus, arguments.seconds, exact=exact)
            ours = measure_ours(client, rows, values)
            peer = 0.0
            if has_peer:
                folder = Path(directory) / name.replace(" ", "-")
                folder.mkdir()
                peer = measure_prometheus(client, rows, folder) / values
            print(
                f"{name:<12}{ours['gpu_samples']:>9.2f}{ours['plain_samples']:>9.2f}{peer:>9.2f}"
                f"{peer / ours['gpu_samples']:>13.2f}{ours['gpu_samples_10s']:>8.2f}"
                f"{ours['gpu_samples_60s']:>8.2f}",
                flush=True,
            )
        client.close()
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
