"""`longpole import FILE...`: sends logs to a server, each becomes a run; --follow keeps sending."""

import argparse
import os
import shutil
import stat
import sys
import tempfile
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path

from longpole.options import OptionParser
from longpole_server.cli.client import (
    DEFAULT_SERVER,
    ServerClient,
    parse_address,
    quote_segment,
    read_token,
)
from longpole_server.cli.follow import FollowCommand, FollowOptions, stop_on_signals
from longpole_server.cli.import_run import is_exported_run, send_run
from longpole_server.errors import BadRequestError, ConfigError, ServerError, UnreadableLogError
from longpole_server.importers import LogSource, check_run_id, make_run_id, pack

_DONE, _FAILED, _REFUSED = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Send every file. Exit status: 0 done, 1 failed, 2 a file or an argument makes no sense."""
    options = _parse(arguments, os.environ)
    files = [Path(file) for file in options.files]
    if options.follow:
        return _try_follow(options.server, files, options.run)
    # Several files are one run when it is named, else a run each.
    groups = [files] if options.run else [[file] for file in files]
    statuses = [_try_send(options.server, group, options.run) for group in groups]
    return max(statuses)


def _parse(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    parser = OptionParser(
        prog="longpole import",
        description="Send training logs to a server, each becomes a run.",
        epilog="Every option --a-b is also LONGPOLE_A_B. Token: LONGPOLE_TOKEN, or the file that "
        "LONGPOLE_TOKEN_FILE names.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a trainer's or an engine's log, a tracker's file or folder, an exported run",
    )
    parser.add_argument(
        "--server",
        type=parse_address,
        default=DEFAULT_SERVER,
        metavar="URL",
        help=f"where the server is (default {DEFAULT_SERVER})",
    )
    parser.add_argument(
        "--run",
        metavar="ID",
        help="run id (default: import/ and the file's stem); several files become this one run",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="go on with what is added to the file, until stopped: the run is alive meanwhile",
    )
    return parser.parse(arguments, environ)


def _try_send(server: str, files: Sequence[Path], run_id: str | None) -> int:
    try:
        print(_send(ServerClient(server, read_token()), server, files, run_id), flush=True)
    except (BadRequestError, ConfigError, UnreadableLogError) as error:
        return _complain(error, _REFUSED)
    except ServerError as error:
        return _complain(error, _FAILED)
    except OSError as error:
        named = error.filename or files[0]
        return _complain(UnreadableLogError(f"{named}: {error.strerror or error}."), _REFUSED)
    return _DONE


def _try_follow(server: str, files: Sequence[Path], run_id: str | None) -> int:
    try:
        if len(files) > 1:
            raise ConfigError("--follow takes one file.")
        run_id = run_id or make_run_id(files[0].name)
        check_run_id(run_id)
        options = FollowOptions(files[0], run_id, files[0].name)
        command = FollowCommand(ServerClient(server, read_token()), options)
        stop_on_signals(command)
        print(f"{files[0]}: run {run_id}, {_page(server, run_id)}", flush=True)
        command.run()
    except (BadRequestError, ConfigError, UnreadableLogError) as error:
        return _complain(error, _REFUSED)
    except ServerError as error:
        return _complain(error, _FAILED)
    except OSError as error:
        named = error.filename or files[0]
        return _complain(UnreadableLogError(f"{named}: {error.strerror or error}."), _REFUSED)
    return _DONE


def _send(client: ServerClient, server: str, files: Sequence[Path], run_id: str | None) -> str:
    if len(files) == 1 and is_exported_run(files[0]):
        return send_run(client, server, files[0], run_id)
    sources = [_find_source(file) for file in files]
    query = {"name": sources[0].name, "modified_ns": str(sources[0].modified_ns)}
    if run_id:
        query["run"] = run_id
    path = f"/import?{urllib.parse.urlencode(query)}"
    if len(files) == 1 and files[0].is_file():
        with files[0].open("rb") as body:
            answer = client.post(path, body, os.fstat(body.fileno()).st_size)
    else:
        with tempfile.TemporaryFile() as body:
            if len(sources) == 1:
                with sources[0].open() as stream:
                    shutil.copyfileobj(stream, body)
            else:
                pack(sources, body)
            size = body.tell()
            body.seek(0)
            answer = client.post(path, body, size)
    run = str(answer["run_id"])
    named = ", ".join(str(file) for file in files)
    return f"{named}: {answer['num_steps']} steps in run {run}, {_page(server, run)}"


def _page(server: str, run_id: str) -> str:
    return f"{server.rstrip('/')}/run?id={quote_segment(run_id)}"


def _find_source(file: Path) -> LogSource:
    source = LogSource.of_file(file)
    status = file.stat()
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise UnreadableLogError(f"{file} is empty.")
    return source


def _complain(error: ServerError, status: int) -> int:
    hint = f" ({error.hint})" if error.hint else ""
    print(f"longpole import: {error.message}{hint}", file=sys.stderr)
    return status
