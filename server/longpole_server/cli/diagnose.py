"""`longpole diagnose FILE|RUN`: what a log, or a run on a server, is waiting for."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from longpole.options import OptionParser
from longpole_server.cli.client import ServerClient, quote_segment, read_token
from longpole_server.cli.report import render_report
from longpole_server.diagnosis import diagnose, diagnosis_document
from longpole_server.errors import ConfigError, NotFoundError, ServerError, UnreadableLogError
from longpole_server.importers import LogSource, import_facts
from longpole_server.model.diagnosis import SCHEMA

EXIT_DONE, EXIT_FAILED, EXIT_REFUSED = 0, 1, 2
# As a shell reports a program that Ctrl-C ended.
EXIT_INTERRUPTED = 130
_STANDARD_INPUT = "-"


def main(arguments: Sequence[str]) -> int:
    """Diagnose a log file, or a run of a server, and print the result.

    Returns:
        0 done, 1 failed while working, 2 the file or run cannot be diagnosed.
    """
    options = _parse(arguments)
    try:
        document = (
            _diagnose_run(options.server, options.target)
            if options.server
            else _diagnose_file(options.target)
        )
    except (UnreadableLogError, NotFoundError, ConfigError) as error:
        return _refuse(error, EXIT_REFUSED)
    except ServerError as error:
        return _refuse(error, EXIT_FAILED)
    except OSError as error:
        return _refuse(ServerError(f"{options.target}: {error.strerror or error}."), EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return _print(document, as_json=options.json)


def _print(document: dict[str, Any], as_json: bool) -> int:
    if as_json:
        text = json.dumps(document, indent=2, allow_nan=False)
    else:
        text = render_report(document, sys.stdout.encoding or "ascii")
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        _silence_output()
    except OSError as error:
        _silence_output()
        return _refuse(ServerError(f"the result cannot be written: {error.strerror}."), EXIT_FAILED)
    return EXIT_DONE


def _silence_output() -> None:
    """Keep the interpreter from complaining when it flushes what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = OptionParser(
        prog="longpole diagnose", description="Say what a training log is waiting for, with proof."
    )
    parser.add_argument(
        "target",
        metavar="FILE|RUN",
        help="a log file, or - for standard input; with --server, a run id",
    )
    parser.add_argument("--json", action="store_true", help="print longpole.diagnosis/1")
    parser.add_argument("--server", metavar="URL", help="diagnose a run on this server")
    return parser.parse_args(arguments)


def _diagnose_file(target: str) -> dict[str, Any]:
    source = _find_source(target)
    imported = import_facts(source, run_id=f"import/{Path(source.name).stem}")
    result = diagnose(imported.run, imported.steps)
    return diagnosis_document(replace(result, data_quality=(*imported.notes, *result.data_quality)))


def _find_source(target: str) -> LogSource:
    if target == _STANDARD_INPUT:
        return LogSource.of_standard_input()
    try:
        return LogSource.of_file(Path(target))
    except UnreadableLogError as error:
        if os.path.lexists(target):
            raise
        hint = "A run on a server needs --server URL."
        raise UnreadableLogError(error.message, hint) from error


def _diagnose_run(server: str, run_id: str) -> dict[str, Any]:
    client = ServerClient(server, read_token())
    document = client.get(f"/runs/{quote_segment(run_id)}/diagnosis")
    if document.get("schema") != SCHEMA:
        raise ServerError(f"{server} answered something else than {SCHEMA}.")
    return document


def _refuse(error: ServerError, status: int) -> int:
    # What a server says is no sentence.
    aside = error.hint if error.message.endswith(".") else f"({error.hint})"
    hint = f" {aside}" if error.hint else ""
    print(f"longpole diagnose: {error.message}{hint}", file=sys.stderr)
    return status
