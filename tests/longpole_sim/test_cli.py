import socket
from pathlib import Path

import pytest

from longpole_sim.cli import main, parse_settings
from longpole_sim.scenarios import SCENARIOS


def test_defaults_are_two_nodes_of_eight_gpus_without_end() -> None:
    settings = parse_settings(["--server", "http://host:1234/"], {})
    assert settings.server == "http://host:1234"
    assert settings.run.cluster.nodes == 2
    assert settings.run.cluster.gpus_per_node == 8
    assert settings.run.scenario.name == "long_tail"
    assert settings.last_step is None
    assert settings.run_id.startswith("demo-long_tail-")


def test_two_demos_get_different_runs_and_gpus() -> None:
    first, second = parse_settings([], {}), parse_settings([], {})
    assert first.run_id != second.run_id
    assert first.run.cluster.node_gpu_uuids(0) != second.run.cluster.node_gpu_uuids(0)


def test_the_address_of_a_run_is_quoted() -> None:
    settings = parse_settings(["--server", "http://host:1", "--run-id", "team/a b"], {})
    assert settings.url == "http://host:1/run?id=team%2Fa%20b"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--server", "host:1234"], "'host:1234' is not an address"),
        (["--nodes", "0"], "'0' is not a whole number from 1 to 64"),
        (["--gpus", "many"], "'many' is not a whole number from 1 to 16"),
        (["--steps", "-3"], "'-3' is not a whole number"),
        (["--speed", "0"], "'0' is not a number from 0.1 to 100"),
        (["--speed", "nan"], "'nan' is not a number"),
        (["--scenario", "chaos"], "invalid choice: 'chaos'"),
        (["--unheard-of"], "unrecognized arguments"),
    ],
)
def test_bad_arguments_are_one_line_and_status_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert complaint in said.err
    assert said.err.startswith("longpole demo: ")
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def test_help_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in SCENARIOS)


def test_an_unreachable_server_is_one_line_and_status_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as taken:
        # Bound, not listening: nothing answers there, and nobody else can.
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert main(["--server", address]) == 1
    said = capsys.readouterr()
    assert f"no server answers at {address}" in said.err
    assert len(said.err.splitlines()) == 1


def test_every_option_may_stand_in_the_environment(tmp_path: Path) -> None:
    settings = parse_settings(
        ["--nodes", "3"],
        {
            "LONGPOLE_SERVER": "http://host:1/",
            "LONGPOLE_NODES": "never read: the option wins",
            "LONGPOLE_GPUS": "4",
            "LONGPOLE_STEPS": "7",
            "LONGPOLE_SPEED": "2.5",
            "LONGPOLE_SCENARIO": "balanced",
            "LONGPOLE_RUN_ID": "team/run",
            "LONGPOLE_PROJECT": "team",
            "LONGPOLE_SEED": "",
            "LONGPOLE_TOKEN_FILE": str(tmp_path / "token"),
            "LONGPOLE_ONCE_READY_FILE": str(tmp_path / "ready"),
        },
    )
    assert settings.server == "http://host:1"
    assert (settings.run.cluster.nodes, settings.run.cluster.gpus_per_node) == (3, 4)
    assert (settings.last_step, settings.run.speed) == (7, 2.5)
    assert settings.run.scenario.name == "balanced"
    assert (settings.run_id, settings.project) == ("team/run", "team")
    assert (settings.token_file, settings.ready_file) == (tmp_path / "token", tmp_path / "ready")


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("LONGPOLE_NODES", "0", "LONGPOLE_NODES: '0' is not a whole number from 1 to 64"),
        ("LONGPOLE_SERVER", "host:1", "LONGPOLE_SERVER: 'host:1' is not an address"),
        ("LONGPOLE_SCENARIO", "chaos", "LONGPOLE_SCENARIO: invalid choice: 'chaos'"),
        ("LONGPOLE_SEED", "many", "LONGPOLE_SEED: invalid int value: 'many'"),
    ],
)
def test_a_bad_variable_is_named(
    variable: str, text: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse_settings([], {variable: text})
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"longpole demo: {complaint}")
    assert line.endswith("; see longpole demo --help")
