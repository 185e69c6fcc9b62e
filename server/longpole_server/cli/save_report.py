"""`longpole report RUN`: a run's report, one HTML file to keep or to send."""

import argparse
import os
import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from longpole.options import OptionParser
from longpole_server.cli.client import DEFAULT_SERVER, ServerClient, parse_address, read_token
from longpole_server.errors import BadRequestError, ConfigError, NotFoundError, ServerError

_STDOUT = "-"
# Stands in every report.
_MARK = b"Longpole report"


def main(arguments: Sequence[str]) -> int:
    """Save a report. Exit status: 0 done, 1 failed, 2 bad arguments or no such run."""
    options = _parse(arguments, os.environ)
    target = options.output or f"{_file_name(options.run)}-report.html"
    query = {"run": options.run, "zone": options.zone or "UTC"}
    try:
        client = ServerClient(options.server, read_token())
        text = client.read(f"/report?{urllib.parse.urlencode(query)}")
        if _MARK not in text:
            # Such as the page of a proxy that wants people to sign in.
            raise ServerError(f"{options.server} answered something else than a report.")
        if target == _STDOUT:
            sys.stdout.buffer.write(text)
        else:
            _write(Path(target), text)
            print(f"the report of {options.run} is in {target}")
    except (BadRequestError, ConfigError, NotFoundError) as error:
        return _complain(error, 2)
    except ServerError as error:
        return _complain(error, 1)
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "the output" if target == _STDOUT else target
        return _complain(ServerError(f"{name} cannot be written: {error.strerror}."), 1)
    return 0


def _parse(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    parser = OptionParser(
        prog="longpole report",
        description="Save a run's report: verdict, evidence, charts, alerts and configuration in "
        "one HTML file that needs no server and runs no script.",
        epilog="Every option --a-b is also LONGPOLE_A_B. Token: LONGPOLE_TOKEN, or the file that "
        "LONGPOLE_TOKEN_FILE names.",
    )
    parser.add_argument("run", metavar="RUN", help="run id")
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help="where to write it, - for standard output (default: made from the run id)",
    )  # fmt: skip
    parser.add_argument(
        "--zone", type=_zone, metavar="ZONE", help="times are told in it (default: UTC)"
    )
    parser.add_argument(
        "--server",
        type=parse_address,
        default=DEFAULT_SERVER,
        metavar="URL",
        help=f"where the server is (default {DEFAULT_SERVER})",
    )
    return parser.parse(arguments, environ)


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time zone such as Europe/Berlin"
        ) from None
    return text


def _write(target: Path, text: bytes) -> None:
    """Write a file whole, or leave what was there."""
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as stream:
        partial = Path(stream.name)
        try:
            stream.write(text)
            stream.close()
            # Temporary files are their owner's alone; a report is to be read like any other.
            mask = os.umask(0)
            os.umask(mask)
            partial.chmod(0o666 & ~mask)
            partial.replace(target)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def _file_name(run_id: str) -> str:
    name = "".join(char if char.isalnum() or char in "-_." else "-" for char in run_id)
    return name.strip("-.") or "run"


def _complain(error: ServerError, status: int) -> int:
    hint = f" ({error.hint})" if error.hint else ""
    print(f"longpole report: {error.message}{hint}", file=sys.stderr)
    return status
