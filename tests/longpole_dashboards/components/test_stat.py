from longpole_dashboards.components.stat import Stat, stat
from support.dashboard_components import find_all, words


def test_a_stat_says_its_number_and_what_stands_behind_it() -> None:
    shown = stat(Stat("Silent nodes", "1", "node-e1", tone="bad"))
    assert words(shown).split() == ["Silent", "nodes", "1", "node-e1"]
    assert find_all(shown, "lp-tone-bad")
    assert not find_all(stat(Stat("GPUs", "8")), "lp-tone-bad")
