"""`longpole import DIR`: puts a run that `longpole export` wrote into a server."""

import json
import urllib.parse
from pathlib import Path
from typing import Any, cast

from longpole_server.cli.client import ServerClient, quote_segment
from longpole_server.cli.export import MANIFEST
from longpole_server.errors import UnreadableLogError

_FORMAT = "longpole.run/1"


def is_exported_run(path: Path) -> bool:
    """Tell whether a path is a directory that `longpole export` wrote."""
    return (path / MANIFEST).is_file()


def send_run(client: ServerClient, server: str, directory: Path, run_id: str | None) -> str:
    """Send every file of an exported run and return a line about it.

    Args:
        client: Of the server.
        server: Its address, for people.
        directory: That the export wrote.
        run_id: The run that it becomes; its own id when None.

    Raises:
        UnreadableLogError: The directory is no whole export.
        ServerError: The server failed or refused; sending again completes it.
    """
    manifest = _read_manifest(directory)
    run_id = run_id or str(manifest["run_id"])
    rows = num_new = 0
    for piece in manifest["slices"]:
        file = directory / str(piece["file"])
        query = urllib.parse.urlencode({"run": run_id, "table": piece["table"]})
        with file.open("rb") as body:
            answer = client.post(f"/import/rows?{query}", body, file.stat().st_size)
        rows += int(piece["rows"])
        num_new += int(answer["new_rows"])
    return (
        f"{directory}: {rows:,} rows in run {run_id}, {num_new:,} sent anew, "
        f"{server.rstrip('/')}/run?id={quote_segment(run_id)}"
    )


def _read_manifest(directory: Path) -> dict[str, Any]:
    try:
        document: object = json.loads((directory / MANIFEST).read_text())
    except ValueError as error:
        raise UnreadableLogError(f"{directory / MANIFEST} is no JSON: {error}.") from error
    manifest = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if manifest.get("format") != _FORMAT:
        raise UnreadableLogError(f"{directory} is no export of the form {_FORMAT}.")
    missing = [
        piece["file"] for piece in manifest["slices"] if not (directory / piece["file"]).is_file()
    ]
    if missing:
        raise UnreadableLogError(f"{directory} lacks {len(missing)} files, {missing[0]} first.")
    return manifest
