"""`longpole diagnose FILE|RUN [--against FILE|RUN]`: what a log or a run is waiting for."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from longpole.options import OptionParser
from longpole.output import leave_output
from longpole_server.analysis.architectures_known import MODEL_NAMES, find_model_config
from longpole_server.analysis.peaks import DEVICE_NAMES, find_peak
from longpole_server.cli.against import compare_logs, compare_stored_runs
from longpole_server.cli.client import ServerClient, quote_segment, read_token
from longpole_server.cli.comparison_report import render_comparison
from longpole_server.cli.report import render_report
from longpole_server.diagnosis import diagnose_run, diagnosis_document
from longpole_server.errors import ConfigError, NotFoundError, ServerError, UnreadableLogError
from longpole_server.importers import ImportedFacts, LogSource, import_facts
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
        document = _answer(options)
    except (UnreadableLogError, NotFoundError, ConfigError) as error:
        return _refuse(error, EXIT_REFUSED)
    except ServerError as error:
        return _refuse(error, EXIT_FAILED)
    except OSError as error:
        return _refuse(
            ServerError(f"{options.targets[0]}: {error.strerror or error}."), EXIT_FAILED
        )
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return _print(document, as_json=options.json)


def _answer(options: argparse.Namespace) -> dict[str, Any]:
    limits = _read_thresholds(options.threshold)
    if options.server:
        run_id = _only(options.targets)
        if options.against:
            return compare_stored_runs(options.server, run_id, _only(options.against))
        return _diagnose_run(options.server, run_id)
    if options.against:
        targets = [*options.targets, *options.against]
        if targets.count(_STANDARD_INPUT) > 1:
            raise ConfigError("Standard input can be read once: it is one log of one run.")
        return compare_logs(
            _import(options.targets, options), _import(options.against, options), limits
        )
    return _diagnose_files(_import(options.targets, options), limits)


def _print(document: dict[str, Any], as_json: bool) -> int:
    encoding = sys.stdout.encoding or "ascii"
    if as_json:
        text = json.dumps(document, indent=2, allow_nan=False)
    elif document.get("schema") == SCHEMA:
        text = render_report(document, encoding)
    else:
        text = render_comparison(document, encoding)
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        leave_output()
    except OSError as error:
        leave_output()
        return _refuse(ServerError(f"the result cannot be written: {error.strerror}."), EXIT_FAILED)
    return EXIT_DONE


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = OptionParser(
        prog="longpole diagnose", description="Say what a training log is waiting for, with proof."
    )
    parser.add_argument(
        "targets",
        nargs="+",
        metavar="FILE|RUN",
        help="a log file or a tracker's folder, or - for standard input; several are logs of one "
        "run, such as the trainer's and an engine's; with --server, a run id",
    )
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="FILE|RUN",
        help="compare with another run: its log, several times for several logs of it; with "
        "--server, its id. Says what made the one faster than the other, in parts that multiply "
        "to the whole, and which stages take longer for as much work",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print longpole.diagnosis/1, or with --against longpole.comparison/1",
    )
    parser.add_argument("--server", metavar="URL", help="diagnose a run on this server")
    parser.add_argument(
        "--model-config",
        metavar="FILE|NAME",
        help="the model's Hugging Face config.json, or the name of a well-known model: with --gpu, "
        "the MFU is computed where the log tells tokens and lengths",
    )
    parser.add_argument(
        "--gpu", metavar="NAME", help="the GPUs' name as the driver reports it, or short: H100"
    )
    parser.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a limit in place of its default, as docs/verdicts.md lists them; may be repeated",
    )
    return parser.parse_args(arguments)


def _diagnose_files(imported: ImportedFacts, limits: Mapping[str, float]) -> dict[str, Any]:
    result = diagnose_run(imported.run, imported.steps, limits)
    return diagnosis_document(replace(result, data_quality=(*imported.notes, *result.data_quality)))


def _import(targets: Sequence[str], options: argparse.Namespace) -> ImportedFacts:
    """Read the logs of one run."""
    model, gpu = options.model_config, options.gpu
    model_config = None if model is None else _read_model_config(model)
    if gpu is not None and find_peak(gpu) is None:
        raise ConfigError(
            f"the peak rate of {gpu!r} is not known.", f"Known: {', '.join(DEVICE_NAMES)}."
        )
    if len(targets) > 1 and _STANDARD_INPUT in targets:
        raise ConfigError("Standard input can be read once: name files where there are several.")
    sources = [_find_source(target) for target in targets]
    return import_facts(
        sources,
        run_id=f"import/{Path(sources[0].name).stem}",
        model_config=model_config,
        gpu_model=gpu,
    )


def _read_thresholds(words: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            found[name] = float(text)
        except ValueError:
            raise ConfigError(f"--threshold {word!r} is not like dominance.share=0.5.") from None
    return found


def _read_model_config(model: str) -> Mapping[str, object]:
    """Read a configuration file, else look the model up by its name."""
    path = Path(model)
    if path.is_dir():
        path /= "config.json"
    if not path.is_file():
        known = find_model_config(model)
        if known is None:
            hint = f"Give its config.json, or one of: {', '.join(MODEL_NAMES)}."
            raise ConfigError(f"{model!r} is neither a file nor a well-known model.", hint)
        return known
    try:
        config: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{model}: not a readable JSON file ({error}).") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{model}: not a model configuration: it holds no object.")
    return cast("Mapping[str, object]", config)


def _only(targets: Sequence[str]) -> str:
    if len(targets) > 1:
        raise ConfigError("--server takes one run id, and one to compare it --against.")
    return targets[0]


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
