import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.ranks import read_rank

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
MPIRUN = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"}


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, None),
        (TORCHRUN, 3),
        ({**TORCHRUN, "RANK": "0"}, 0),
        ({"RANK": "3", "WORLD_SIZE": "8"}, 3),
        (MPIRUN, 5),
        ({**MPIRUN, **TORCHRUN}, 3),
    ],
)
def test_launchers_number_their_processes(environ: dict[str, str], rank: int | None) -> None:
    assert read_rank(environ) == rank


@pytest.mark.parametrize(
    "environ",
    [
        {"RANK": "3"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "1", "WORLD_SIZE": "1"},
        {"RANK": "8", "WORLD_SIZE": "8"},
        {"RANK": "-1", "WORLD_SIZE": "8"},
        {"RANK": "three", "WORLD_SIZE": "8"},
        {"RANK": "3", "WORLD_SIZE": ""},
        {"RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"},
        {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8"},
    ],
)
def test_what_proves_no_rank_is_none(environ: dict[str, str]) -> None:
    assert read_rank(environ) is None


def test_one_process_of_an_inner_launcher_is_on_its_own() -> None:
    assert read_rank({**MPIRUN, "RANK": "0", "WORLD_SIZE": "1"}) is None


def test_ray_worker_has_the_rank_of_its_trainer_and_not_of_its_node() -> None:
    worker = {"RAY_RAYLET_PID": "77"}
    assert read_rank({**worker, "RANK": "1", "WORLD_SIZE": "2"}) is None
    assert read_rank({**worker, **MPIRUN}) is None
    assert read_rank({**worker, **TORCHRUN}) == 3


@given(rank=st.text(max_size=4), size=st.text(max_size=4))
def test_no_text_is_too_odd(rank: str, size: str) -> None:
    found = read_rank({"RANK": rank, "WORLD_SIZE": size})
    assert found is None or 0 <= found < int(size)
