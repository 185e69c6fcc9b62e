import pytest

from longpole_server.analysis.data_parallel import measure_rank_balance


def test_the_fullest_rank_against_the_mean():
    balance = measure_rank_balance(
        {
            "global_seqlen/mean": 1000.0,
            "global_seqlen/balanced_max": 1250.0,
            "global_seqlen/max": 2000.0,
        }
    )
    assert balance is not None
    assert balance.ratio == 1.25
    assert balance.unbalanced_ratio == 2
    assert balance.waiting_ratio == pytest.approx(0.2)


@pytest.mark.parametrize(
    "scalars",
    [
        {},
        {"global_seqlen/mean": 1000.0},
        {"global_seqlen/mean": 0.0, "global_seqlen/balanced_max": 1.0},
        {"global_seqlen/mean": float("nan"), "global_seqlen/balanced_max": 1.0},
    ],
)
def test_not_reported(scalars: dict[str, float]):
    assert measure_rank_balance(scalars) is None
