"""A store that an earlier release has written: opened, migrated, and answering as before."""

import json
import tarfile
from pathlib import Path
from typing import Any, cast

import pytest

from longpole_server.store.retention import DEFAULT_RETENTION
from support.server_process import StartServer

pytestmark = pytest.mark.integration

DATA = Path(__file__).parents[1] / "data" / "upgrade"
# The rows are older than any server would keep them.
KEEP_ALL = {"LONGPOLE_RETENTION": ",".join(f"{table}=forever" for table in DEFAULT_RETENTION)}


def differences(before: Any, now: Any, path: str = "") -> list[str]:
    """List what was answered before and is answered otherwise now; more may be answered."""
    if isinstance(before, dict) and isinstance(now, dict):
        document = cast("dict[str, Any]", now)
        return [
            each
            for key, value in cast("dict[str, Any]", before).items()
            for each in differences(value, document.get(key, "nothing"), f"{path}.{key}")
        ]
    if isinstance(before, list) and isinstance(now, list):
        ones, others = cast("list[Any]", before), cast("list[Any]", now)
        found = [
            each
            for number, (one, other) in enumerate(zip(ones, others, strict=False))
            for each in differences(one, other, f"{path}[{number}]")
        ]
        if len(ones) != len(others):
            found.append(f"{path}: {len(ones)} before, {len(others)} now")
        return found
    return [] if before == now else [f"{path}: {before!r} before, {now!r} now"]


def test_a_store_of_an_earlier_release_answers_as_it_did(start_server: StartServer, tmp_path: Path):
    with tarfile.open(DATA / "store.tar.xz") as kept:
        kept.extractall(tmp_path / "data", filter="data")
    answers: dict[str, Any] = json.loads((DATA / "answers.json").read_text())
    rows, rule = answers.pop("/storage"), answers.pop("/rules")

    server = start_server(tmp_path, "--no-agent", environment=KEEP_ALL)

    for path, before in answers.items():
        assert differences(before, server.get(path), path) == []
    found = {table["table"]: table["rows"] for table in server.get("/storage")["tables"]}
    # Rows that replace each other become fewer whenever the database merges them.
    assert [table for table, num in rows.items() if bool(found[table]) != bool(num)] == []
    assert any(differences(rule, each) == [] for each in server.get("/rules")["rules"])
    assert server.interrupt() == 0
    # Once more: what is migrated stays as it is.
    server = start_server(tmp_path, "--no-agent", environment=KEEP_ALL)
    (path, before), *_ = answers.items()
    assert differences(before, server.get(path), path) == []
    assert server.interrupt() == 0
