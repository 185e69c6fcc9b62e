"""Root's commands on the data of a server that runs as somebody else, and what they once left."""

import os
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.other_user import UID, as_other_user, give, list_foreign, needs_root

pytestmark = [pytest.mark.integration, needs_root]

STORE = Path(__file__).parents[1] / "data" / "upgrade" / "store.tar.xz"
COMMAND = ("-m", "longpole.cli")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Data of an earlier release's server, that of another user on a volume of root's."""
    directory = tmp_path / "data"
    with tarfile.open(STORE) as kept:
        kept.extractall(directory, filter="data")
    give(directory / "store")
    os.chown(directory, 0, UID)
    return directory


def run(words: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=cwd, env=os.environ | {"HOME": str(cwd)}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip


def test_root_backs_up_migrates_and_adds_a_token_without_leaving_files_of_its_own(
    data_dir: Path, tmp_path: Path
):
    place = ("--data-dir", str(data_dir))
    copy, back = tmp_path / "copy", tmp_path / "closed" / "back"
    back.mkdir(parents=True)
    back.parent.chmod(0o700)
    os.chown(back, UID, UID)

    for words in (
        ("backup", str(copy), *place),
        ("migrate", *place),
        ("access", *place, "create-token", "agents"),
        ("restore", str(copy), "--data-dir", str(back)),
    ):
        done = run([sys.executable, *COMMAND, *words], tmp_path)
        assert done.returncode == 0, done.stderr
        assert list_foreign(data_dir) == []

    assert (data_dir / "access.json").is_file()
    assert list_foreign(back) == []
    # Whoever made the backup has it: with hashes of passwords in it.
    assert list_foreign(copy, uid=0) == []
    assert copy.stat().st_uid == 0


def test_a_root_that_may_not_become_the_owner_is_told_how_to(data_dir: Path, tmp_path: Path):
    words = (*COMMAND, "backup", str(tmp_path / "copy"), "--data-dir", str(data_dir))

    done = run(["setpriv", "--bounding-set=-setuid", sys.executable, *words], tmp_path)

    assert done.returncode == 2
    assert f"setpriv --reuid={UID} --regid={UID} --clear-groups longpole backup" in done.stderr
    assert list_foreign(data_dir) == []
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("name", ["journal", "journal/1.segment", "audit.jsonl", "access.json"])
def test_a_link_of_the_servers_leads_root_nowhere(data_dir: Path, tmp_path: Path, name: str):
    """What only root may read came into a backup, and root wrote to where the server wanted."""
    secret = tmp_path / "secret"
    secret.write_text("of root alone")
    link = data_dir / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(secret)
    give(data_dir / "store")

    for words in (("backup", str(tmp_path / "copy")), ("migrate",)):
        done = run([sys.executable, *COMMAND, *words, "--data-dir", str(data_dir)], tmp_path)
        assert done.returncode in {1, 2}
        assert f"{link} is a link" in done.stderr

    assert secret.read_text() == "of root alone"
    assert not (tmp_path / "copy").exists()


def test_a_lock_that_is_a_link_is_not_followed_and_empties_nothing(data_dir: Path, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("of root alone")
    (data_dir / ".access.json.lock").symlink_to(secret)

    words = ("access", "--data-dir", str(data_dir), "create-token", "agents")
    done = run([sys.executable, *COMMAND, *words], tmp_path)

    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert secret.read_text() == "of root alone"


def test_the_owner_sees_nothing_of_a_backup_that_root_makes(data_dir: Path, tmp_path: Path):
    """While it was made it belonged to the server's user, who could put links into it."""
    copy, partial = tmp_path / "copy", tmp_path / "copy.partial"
    command = [sys.executable, *COMMAND, "backup", str(copy), "--data-dir", str(data_dir)]
    found: set[tuple[int, int]] = set()
    with subprocess.Popen(command, cwd=tmp_path) as backing_up:
        while backing_up.poll() is None:
            with suppress(FileNotFoundError):
                if (partial / "database").exists():
                    state = partial.lstat()
                    found.add((state.st_uid, state.st_mode & 0o777))
            time.sleep(0.01)
    assert backing_up.returncode == 0
    assert found <= {(0, 0o700)}
    assert list_foreign(copy, uid=0) == []


def test_a_store_with_parts_of_roots_is_refused_with_the_mend_and_no_migration_hangs(
    data_dir: Path, tmp_path: Path
):
    # Those of a table that a migration makes anew: to remove them the engine tries for ever.
    table = next(data_dir.glob("store/chdb/store/*/*/otel_traces.sql")).read_text()
    uuid = table.partition("UUID '")[2].partition("'")[0]
    parts = sorted(data_dir.glob(f"store/chdb/store/*/{uuid}/2*"))
    for part in parts:
        give(part, uid=0)
    words = as_other_user(*COMMAND, "migrate", "--data-dir", str(data_dir))

    refused = run(words, tmp_path)

    assert refused.returncode == 1
    assert str(parts[0].parent) in refused.stderr
    assert "root (uid 0)" in refused.stderr
    mend = refused.stderr.rpartition("as root: ")[2].strip().removesuffix(")")
    assert mend == f"chown -R --reference={data_dir}/store {data_dir}/"
    subprocess.run(mend.split(), check=True)
    done = run(words, tmp_path)
    assert done.returncode == 0, done.stderr
