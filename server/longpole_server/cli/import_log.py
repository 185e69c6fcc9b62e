"""`longpole import FILE...`: sends logs to a server, each becomes a run."""

import argparse
import os
import stat
import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path

from longpole.options import OptionParser
from longpole_server.cli.client import (
    DEFAULT_SERVER,
    ServerClient,
    is_address,
    quote_segment,
    read_token,
)
from longpole_server.errors import BadRequestError, ConfigError, ServerError, UnreadableLogError

_DONE, _FAILED, _REFUSED = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Send every file. Exit status: 0 done, 1 failed, 2 a file or an argument makes no sense."""
    options = _parse(arguments, os.environ)
    if options.run and len(options.files) > 1:
        origin = options.origins["run"]
        print(f"longpole import: {origin} names one run, so it takes one file", file=sys.stderr)
        return _REFUSED
    statuses = [_try_send(options.server, Path(file), options.run) for file in options.files]
    return max(statuses)


def _parse(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    parser = OptionParser(
        prog="longpole import",
        description="Send training logs to a server, each becomes a run.",
        epilog="Every option --a-b is also LONGPOLE_A_B. Token: LONGPOLE_TOKEN, or the file that "
        "LONGPOLE_TOKEN_FILE names.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="verl console log or JSONL file")
    parser.add_argument(
        "--server",
        type=_server,
        default=DEFAULT_SERVER,
        metavar="URL",
        help=f"where the server is (default {DEFAULT_SERVER})",
    )
    parser.add_argument("--run", metavar="ID", help="run id (default: import/ and the file's stem)")
    return parser.parse(arguments, environ)


def _server(text: str) -> str:
    if not is_address(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as {DEFAULT_SERVER}")
    return text


def _try_send(server: str, file: Path, run_id: str | None) -> int:
    try:
        print(_send(ServerClient(server, read_token()), server, file, run_id), flush=True)
    except (BadRequestError, ConfigError, UnreadableLogError) as error:
        return _complain(error, _REFUSED)
    except ServerError as error:
        return _complain(error, _FAILED)
    except OSError as error:
        return _complain(UnreadableLogError(f"{file}: {error.strerror or error}."), _REFUSED)
    return _DONE


def _send(client: ServerClient, server: str, file: Path, run_id: str | None) -> str:
    if file.is_dir():
        raise UnreadableLogError(f"{file} is a directory; name a log file in it.")
    status = file.stat()
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise UnreadableLogError(f"{file} is empty.")
    query = {"name": file.name, "modified_ns": str(status.st_mtime_ns)}
    if run_id:
        query["run"] = run_id
    with file.open("rb") as body:
        answer = client.post(
            f"/import?{urllib.parse.urlencode(query)}", body, os.fstat(body.fileno()).st_size
        )
    run = str(answer["run_id"])
    return (
        f"{file}: {answer['num_steps']} steps in run {run}, "
        f"{server.rstrip('/')}/run?id={quote_segment(run)}"
    )


def _complain(error: ServerError, status: int) -> int:
    hint = f" ({error.hint})" if error.hint else ""
    print(f"longpole import: {error.message}{hint}", file=sys.stderr)
    return status
