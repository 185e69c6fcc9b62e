import pytest

from longpole.declaration import Declaration


@pytest.mark.parametrize("rank", [None, 0])
@pytest.mark.parametrize("role", [None, ""])
def test_who_is_alone_or_first_leads_the_loop(rank: int | None, role: str | None) -> None:
    declaration = Declaration(role=role).of_rank(rank)
    assert (declaration.role, declaration.follows_rank_0) == ("controller", False)
    assert declaration.is_controller


def test_other_ranks_follow() -> None:
    declaration = Declaration(run_id="r").of_rank(3)
    assert declaration == Declaration(run_id="r", role="trainer", follows_rank_0=True)
    assert not declaration.is_controller


@pytest.mark.parametrize("role", ["controller", "Controller", "trainer", "hybrid"])
@pytest.mark.parametrize("rank", [None, 0, 3])
def test_named_role_wins_over_any_rank(role: str, rank: int | None) -> None:
    declaration = Declaration(role=role)
    assert declaration.of_rank(rank) == declaration
    assert declaration.is_controller == (role.lower() == "controller")


def test_forked_child_of_a_controller_is_no_second_controller() -> None:
    for role in ("controller", "Controller"):
        assert Declaration(role=role).of_child().role is None
    assert not Declaration(role="controller").of_child().is_controller
    assert Declaration(role="reward").of_child().role == "reward"


def test_forked_child_of_a_rank_that_follows_does_so_too() -> None:
    declaration = Declaration().of_rank(1)
    assert declaration.of_child() == declaration
