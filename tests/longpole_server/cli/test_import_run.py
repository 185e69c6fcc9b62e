from pathlib import Path
from typing import Any, cast

import pytest

from longpole_server.cli.import_run import is_exported_run, send_run
from longpole_server.errors import UnreadableLogError

NOBODY = cast("Any", None)


def test_an_export_that_was_killed_is_told_as_that_and_not_as_a_directory_without_logs(
    tmp_path: Path,
):
    partial = tmp_path / "run.partial"
    partial.mkdir()
    assert not is_exported_run(partial)
    (partial / "00000-steps.parquet").write_bytes(b"PAR1")
    assert is_exported_run(partial)
    with pytest.raises(UnreadableLogError, match="an export that was interrupted") as raised:
        send_run(NOBODY, "http://server", partial, None)
    assert raised.value.hint == "run longpole export again"
