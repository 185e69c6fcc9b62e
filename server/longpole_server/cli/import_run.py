"""`longpole import DIR`: puts a run that `longpole export` wrote into a server."""

import json
import urllib.parse
from pathlib import Path
from typing import Any, cast

from longpole_server.cli.client import ServerClient, quote_segment
from longpole_server.cli.export import MANIFEST, PARTIAL
from longpole_server.errors import UnreadableLogError

_FORMAT = "longpole.run/1"


def is_exported_run(path: Path) -> bool:
    """Tell whether a path is a directory that `longpole export` wrote, be it only begun."""
    is_begun = path.suffix == PARTIAL and path.is_dir() and any(path.glob("*.parquet"))
    return is_begun or (path / MANIFEST).is_file()


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
        f"{directory}: {rows:,} rows in run {run_id}, {num_new:,} of them new there, "
        f"{server.rstrip('/')}/run?id={quote_segment(run_id)}"
    )


def _read_manifest(directory: Path) -> dict[str, Any]:
    try:
        document: object = json.loads((directory / MANIFEST).read_text())
    except FileNotFoundError as error:
        raise UnreadableLogError(
            f"{directory} is an export that was interrupted.", hint="run longpole export again"
        ) from error
    except ValueError as error:
        raise UnreadableLogError(f"{directory / MANIFEST} is no JSON: {error}.") from error
    manifest = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if manifest.get("format") != _FORMAT or not _is_complete(manifest):
        raise UnreadableLogError(f"{directory} is no export of the form {_FORMAT}.")
    names = [str(piece["file"]) for piece in manifest["slices"]]
    foreign = [name for name in names if Path(name).name != name]
    if foreign:
        # Whoever made the export does not choose what of this machine is sent.
        raise UnreadableLogError(f"{directory} names {foreign[0][:100]!r}, which is no file in it.")
    missing = [name for name in names if not (directory / name).is_file()]
    if missing:
        raise UnreadableLogError(f"{directory} lacks {len(missing)} files, {missing[0]} first.")
    return manifest


def _is_complete(manifest: dict[str, Any]) -> bool:
    slices = manifest.get("slices")
    if not isinstance(slices, list) or not isinstance(manifest.get("run_id"), str):
        return False
    return all(_is_piece(piece) for piece in cast("list[object]", slices))


def _is_piece(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    piece = cast("dict[str, Any]", value)
    return (
        isinstance(piece.get("file"), str)
        and isinstance(piece.get("table"), str)
        and isinstance(piece.get("rows"), int)
    )
