"""`longpole diagnose A --against B`: what changed from one log to another, or between two runs."""

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from longpole_server.analysis.compared_runs import compare_config, describe_config, name_window
from longpole_server.analysis.window import summarise_window
from longpole_server.api.comparison import comparison_document
from longpole_server.cli.client import ServerClient, quote_segment, read_token
from longpole_server.diagnosis import compare_windows
from longpole_server.errors import ServerError
from longpole_server.importers import ImportedFacts
from longpole_server.model.comparison import COMPARISON_SCHEMA, ComparedWindow, Comparison
from longpole_server.model.step import Step


def compare_logs(
    after: ImportedFacts, before: ImportedFacts, limits: Mapping[str, float]
) -> dict[str, Any]:
    """Return what changed from the log `before` to the log `after`, over all of their steps.

    Raises:
        ConfigError: A limit's name is unknown.
    """
    first, first_judged = _describe(before)
    second, second_judged = _describe(after)
    name = name_window(first, second)
    changed = compare_windows(after.run, first_judged, second_judged, name, limits)
    comparison = Comparison(
        before=first,
        after=second,
        decomposition=changed.decomposition,
        distributions=(),
        config=compare_config(describe_config(before.run), describe_config(after.run)),
        findings=changed.findings,
        remarks=changed.remarks,
    )
    return comparison_document(comparison)


def compare_stored_runs(server: str, run_id: str, other_run_id: str) -> dict[str, Any]:
    """Return what a server says of two of its runs.

    Raises:
        ServerError: It does not answer, or answers something else.
        NotFoundError: It has no such run.
    """
    client = ServerClient(server, read_token())
    query = urllib.parse.urlencode({"with": other_run_id})
    document = client.get(f"/runs/{quote_segment(run_id)}/compare?{query}")
    if document.get("schema") != COMPARISON_SCHEMA:
        raise ServerError(f"{server} answered something else than {COMPARISON_SCHEMA}.")
    return document


def _describe(imported: ImportedFacts) -> tuple[ComparedWindow, Sequence[Step]]:
    window = summarise_window([facts.step for facts in imported.steps])
    numbers: list[int] = window.judged.numbers.tolist()
    attempts: list[int] = window.judged.attempts.tolist()
    described = ComparedWindow(
        run_id=imported.run.run_id,
        run_name=imported.run.name,
        first_step=min(numbers, default=None),
        last_step=max(numbers, default=None),
        num_judged=len(window.judged),
        excluded=window.excluded,
        attempts=tuple(sorted(set(attempts))),
    )
    return described, window.judged
