from pathlib import Path

import pytest

from longpole_agent.identity import load_origin, write_atomically


def test_the_agent_keeps_its_id_and_every_start_has_its_own(tmp_path: Path) -> None:
    first, second = load_origin(tmp_path), load_origin(tmp_path)
    agent, boot = first.split("/")
    assert second.startswith(f"{agent}/")
    assert second != first
    assert len(agent) == 16
    assert len(boot) == 12


def test_another_directory_is_another_agent(tmp_path: Path) -> None:
    origins: list[str] = []
    for name in ("a", "b"):
        directory = tmp_path / name
        directory.mkdir()
        origins.append(load_origin(directory).split("/")[0])
    assert origins[0] != origins[1]


def test_an_empty_id_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "agent_id").write_text("\n")
    assert load_origin(tmp_path).split("/")[0] == (tmp_path / "agent_id").read_text().strip()


@pytest.mark.parametrize("content", [b"\0" * 17, b"\xff\xfe", b"half", b"../../etc/passwd"])
def test_a_damaged_id_is_made_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent_id").write_bytes(content)
    agent, _ = load_origin(tmp_path).split("/")
    assert len(agent) == 16
    assert agent.isalnum()
    assert load_origin(tmp_path).startswith(f"{agent}/")


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    path.write_text("old")
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert [child.name for child in tmp_path.iterdir()] == ["ports.json"]
