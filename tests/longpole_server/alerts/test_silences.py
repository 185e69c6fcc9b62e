import pytest

from longpole_server.alerts.events import Fingerprint
from longpole_server.alerts.silences import find_silence, list_in_force
from longpole_server.model.alert import Silence
from support.alert_histories import at

ALERT = Fingerprint("gpu.lost", "team/run", "gpu", "GPU-1")


@pytest.mark.parametrize(
    ("rule", "run_id", "entity", "matches"),
    [
        ("gpu.lost", None, None, True),
        ("gpu", None, None, True),
        ("gp", None, None, False),
        ("gpu.idle", None, None, False),
        (None, "team/run", None, True),
        (None, "team", None, False),
        (None, None, "GPU-1", True),
        ("gpu", "team/run", "GPU-2", False),
    ],
)
def test_what_a_silence_matches(
    rule: str | None, run_id: str | None, entity: str | None, matches: bool
):
    silence = Silence("s", rule, run_id, entity, "ada", "", at(0), at(100))
    assert find_silence([silence], ALERT) == ("s" if matches else "")


def test_a_silence_is_in_force_until_its_end_whatever_the_clock_did():
    silence = Silence("s", "gpu", None, None, "ada", "", at(50), at(100))
    assert list_in_force([silence], at(99)) == (silence,)
    assert list_in_force([silence], at(100)) == ()
    assert list_in_force([silence], at(10)) == (silence,), "the clock went back since"
