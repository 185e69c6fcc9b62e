import os
import subprocess
from pathlib import Path, PosixPath

from longpole_server.data_dir import make_data_dir
from longpole_server.store.changeable import check_beside, check_changeable, check_openable
from support.other_user import UID, as_other_user, give, needs_root

ASK = """
import sys
from pathlib import Path
from longpole_server.data_dir import make_data_dir
from longpole_server.errors import StoreError
from longpole_server.store.changeable import check_changeable, check_openable
data = Path(sys.argv[1])
try:
    make_data_dir(data)
    check_openable(data / "store")
    check_changeable(data / "store")
except StoreError as error:
    print(error.message, error.hint, sep="\\n")
"""


def make_data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "store" / "chdb" / "store" / "abc" / "part").mkdir(parents=True)
    (data / "store" / "store.lock").touch(0o600)
    (data / "journal").mkdir()
    (data / "journal" / "lock").touch(0o600)
    (data / "session.key").touch(0o600)
    return data


def ask(data: Path) -> list[str]:
    done = subprocess.run(
        as_other_user("-c", ASK, str(data)), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_what_this_user_may_change_is_no_trouble(tmp_path: Path):
    data = make_data(tmp_path)
    make_data_dir(data)
    check_openable(data / "store")
    check_changeable(data / "store")


@needs_root
def test_whatever_is_roots_is_named_with_its_mend(tmp_path: Path):
    data = make_data(tmp_path)
    give(data)
    assert ask(data) == []
    mend = f"stop what runs on it, then as root: chown -R --reference={data}/store {data}/"

    for name in ("store/chdb/store/abc/part", "store/store.lock", "journal", "journal/lock"):
        os.chown(data / name, 0, 0)
        said, how = ask(data)
        assert said == f"uid {UID} may not change {data / name}, which belongs to root (uid 0)"
        assert how == mend
        os.chown(data / name, UID, UID)


@needs_root
def test_the_mend_can_be_typed_where_the_path_has_spaces(tmp_path: Path):
    spaced = tmp_path / "of us"
    spaced.mkdir()
    data = make_data(spaced)
    give(data)
    os.chown(data / "journal", 0, 0)
    said, how = ask(data)
    assert str(data / "journal") in said
    assert how.endswith(f"as root: chown -R --reference='{data}/store' '{data}/'")


class _Vanishing(PosixPath):
    """Was there when it was looked for, and is gone."""

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return True


def test_what_a_running_server_removes_meanwhile_is_no_trouble(tmp_path: Path):
    """It ended in a traceback."""
    check_beside(_Vanishing(tmp_path / "store"), ["journal"], ["access.json"])


@needs_root
def test_a_volume_of_roots_with_a_group_that_may_write_is_no_trouble(tmp_path: Path):
    data = make_data(tmp_path)
    give(data)
    os.chown(data, 0, UID)
    data.chmod(0o2775)
    os.chown(data / "store" / "chdb", 0, UID)
    (data / "store" / "chdb").chmod(0o2770)
    assert ask(data) == []


@needs_root
def test_a_store_that_is_all_roots_goes_to_who_asks_or_is_for_its_owner_to_open(tmp_path: Path):
    data = make_data(tmp_path)
    data.chmod(0o777)
    give(data / "journal")
    os.chown(data / "session.key", UID, UID)
    said, how = ask(data)
    assert str(data / "store") in said
    assert f"chown -R {UID}:{UID} {data}/; or run this as the owner" in how
