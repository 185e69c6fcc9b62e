"""As whom commands act on data that is not their caller's."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PosixPath

import pytest

from longpole_server.cli.acting import act_as_owner_of_data
from longpole_server.errors import ConfigError
from support.other_user import UID, needs_root


class _Unseen(PosixPath):
    """What lies where nobody may look."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(self))


@contextmanager
def as_nobody() -> Generator[None]:
    os.seteuid(UID)
    try:
        yield
    finally:
        os.seteuid(0)


@needs_root
def test_who_is_not_root_acts_as_itself_where_it_may_not_look(tmp_path: Path):
    """The command ended in a traceback, where the store itself says what is wrong."""
    (tmp_path / "data").mkdir()
    tmp_path.chmod(0o700)
    with as_nobody():
        assert act_as_owner_of_data("migrate", tmp_path / "data") is None


@needs_root
def test_a_root_that_may_not_look_is_told_so(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"cannot look at .*data.*: Permission denied"):
        act_as_owner_of_data("migrate", _Unseen(tmp_path / "data"))


def test_data_that_is_not_there_yet_belongs_to_nobody(tmp_path: Path):
    (tmp_path / "file").touch()
    assert act_as_owner_of_data("migrate", tmp_path / "none") is None
    assert act_as_owner_of_data("migrate", tmp_path / "file" / "none") is None
