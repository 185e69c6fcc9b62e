"""`longpole export RUN`: a run as Parquet files, or a step as a trace for Perfetto."""

import argparse
import json
import os
import shutil
import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longpole.options import OptionParser
from longpole_server.cli.client import DEFAULT_SERVER, ServerClient, parse_address, read_token
from longpole_server.errors import BadRequestError, ConfigError, NotFoundError, ServerError

MANIFEST = "manifest.json"
# Of a directory that an export has only begun to write.
PARTIAL = ".partial"
_PARQUET, _CHROME_TRACE = "parquet", "chrome-trace"


def main(arguments: Sequence[str]) -> int:
    """Export. Exit status: 0 done, 1 failed, 2 bad arguments or no such run."""
    options = _parse(arguments, os.environ)
    try:
        client = ServerClient(options.server, read_token())
        if options.format == _CHROME_TRACE:
            print(_export_trace(client, options.run, options.step, options.to))
        else:
            print(_export_run(client, options.run, options.to))
    except (BadRequestError, ConfigError, NotFoundError) as error:
        return _complain(error, 2)
    except ServerError as error:
        return _complain(error, 1)
    except OSError as error:
        return _complain(ServerError(f"{error.filename or options.to}: {error.strerror}."), 1)
    return 0


def _parse(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    parser = OptionParser(
        prog="longpole export",
        description="Write a run as Parquet files, which `longpole import DIR` puts into another "
        "server, or a step as a trace that Perfetto and chrome://tracing open.",
        epilog="Every option --a-b is also LONGPOLE_A_B. Token: LONGPOLE_TOKEN, or the file that "
        "LONGPOLE_TOKEN_FILE names.",
    )
    parser.add_argument("run", metavar="RUN", help="run id")
    parser.add_argument(
        "--format", choices=(_PARQUET, _CHROME_TRACE), default=_PARQUET, help="default: parquet"
    )
    parser.add_argument("--step", type=int, metavar="N", help="the step of a chrome-trace")
    parser.add_argument(
        "--to", metavar="PATH", help="directory or file (default: made from the run id)"
    )
    parser.add_argument(
        "--server",
        type=parse_address,
        default=DEFAULT_SERVER,
        metavar="URL",
        help=f"where the server is (default {DEFAULT_SERVER})",
    )
    options = parser.parse(arguments, environ)
    if (options.format == _CHROME_TRACE) != (options.step is not None):
        parser.error("--step N and --format chrome-trace belong together")
    return options


def _export_run(client: ServerClient, run_id: str, to: str | None) -> str:
    target = Path(to or f"{_file_name(run_id)}.longpole")
    if target.exists():
        raise ConfigError(f"{target} exists.", hint="name another by --to")
    manifest = client.get(f"/export?{urllib.parse.urlencode({'run': run_id})}")
    partial = target.with_name(target.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    slices: list[dict[str, Any]] = manifest["slices"]
    for number, piece in enumerate(slices):
        piece["file"] = f"{number:05}-{_file_name(piece['table'])}.parquet"
        bounds = {name: piece[name] for name in ("table", "from_ns", "to_ns")}
        query = urllib.parse.urlencode({"run": run_id, **bounds})
        client.download(f"/export/rows?{query}", partial / piece["file"])
    (partial / MANIFEST).write_text(json.dumps(manifest, indent=2))
    partial.rename(target)
    rows = sum(piece["rows"] for piece in slices)
    return f"{rows:,} rows of {run_id} are in {target}"


def _export_trace(client: ServerClient, run_id: str, step: int, to: str | None) -> str:
    target = Path(to or f"{_file_name(run_id)}-step-{step}.json")
    query = urllib.parse.urlencode({"run": run_id, "step": step})
    client.download(f"/export/chrome-trace?{query}", target)
    return f"step {step} of {run_id} is in {target}: open it at ui.perfetto.dev"


def _file_name(run_id: str) -> str:
    name = "".join(char if char.isalnum() or char in "-_." else "_" for char in run_id)
    return name.lstrip(".") or "run"


def _complain(error: ServerError, status: int) -> int:
    hint = f" ({error.hint})" if error.hint else ""
    print(f"longpole export: {error.message}{hint}", file=sys.stderr)
    return status
