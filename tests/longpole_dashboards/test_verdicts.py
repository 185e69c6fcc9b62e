from longpole_dashboards.theme import FAMILY_COLOURS
from longpole_dashboards.verdicts import VERDICT_KINDS, verdict_badge, verdict_title


def test_every_code_stands_once_and_has_a_family() -> None:
    codes = [kind.code for kind in VERDICT_KINDS]
    assert len(set(codes)) == len(codes)
    assert {code.split(".")[0] for code in codes} == set(FAMILY_COLOURS)


def test_titles_and_badges() -> None:
    assert verdict_title("rollout.long_tail") == "The rollout waits for a few long samples"
    assert verdict_title(None) == "No verdict yet"
    assert verdict_title("something.new") == "something.new"
    assert verdict_badge("rollout.long_tail") == "long tail"
    assert verdict_badge("update.inefficient") == "update inefficient"
    assert verdict_badge("reward") == "reward"
    assert verdict_badge(None) == ""
