import pytest

from longpole_dashboards.pages.alerts_actions import SCOPES, make_silence
from longpole_server.alerts.silences import read_silence

NOW_NS = 1_760_000_000 * 10**9
GPU = {"rule": "gpu.throttled", "run": "math/run", "entity": "node-a1/3"}
RUN = {"rule": "run.hang", "run": "math/run", "entity": "math/run"}
NODE = {"rule": "node.silent", "run": "", "entity": "node-e1"}


@pytest.mark.parametrize(
    ("ask", "scope", "expected"),
    [
        (GPU, "here", ("gpu.throttled", "math/run", "node-a1/3")),
        (GPU, "run", ("gpu.throttled", "math/run", None)),
        (GPU, "rule", ("gpu.throttled", None, None)),
        (GPU, "entity", (None, "math/run", "node-a1/3")),
        (RUN, "here", ("run.hang", "math/run", None)),
        (RUN, "entity", (None, "math/run", None)),
        (NODE, "here", ("node.silent", None, "node-e1")),
        (NODE, "entity", (None, None, "node-e1")),
    ],
)
def test_silences_are_as_wide_as_was_asked_for(
    ask: dict[str, str], scope: str, expected: tuple[str | None, str | None, str | None]
) -> None:
    document = make_silence(ask, scope, 3600, "kim", "")
    made = read_silence(document, "s", NOW_NS)
    assert (made.rule, made.run_id, made.entity) == expected
    assert (made.author, made.comment) == ("kim", "")
    assert made.ends_ns == NOW_NS + 3600 * 10**9


def test_every_scope_has_words() -> None:
    assert len({words for _, words in SCOPES}) == len(SCOPES) == 4
