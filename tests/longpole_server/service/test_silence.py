import pytest

from longpole.conventions.attributes import IMPORT_SERVICE
from longpole_server.model.records import ProcessSeen, StageSpan, StageStart
from longpole_server.service.silence import explain_silence
from support.server_runs import RunScript

RUN = RunScript("run")
SPANS = RUN.stages(2, 10.0).stage_spans
END_NS = max(span.end_ns for span in SPANS)
TRAINER = RUN.process(0.0)
FOLLOWED = ProcessSeen("run", 1, "", 0, "controller", 0, service=IMPORT_SERVICE)
ENGINE = ProcessSeen("run", 1, "node", 7, "rollout", 0, service="vllm")
HEARTBEAT = RUN.announce(3, "step", 20.0, 30.0).stage_starts


@pytest.mark.parametrize(
    ("seen_ns", "processes", "starts", "spans", "reason"),
    [
        (END_NS, [TRAINER], [], SPANS, "once they are over"),
        (END_NS, [TRAINER], HEARTBEAT, SPANS, None),
        # A page or an engine that was read meanwhile would go on if its process did.
        (END_NS + 30 * 10**9, [TRAINER], [], SPANS, None),
        (END_NS, [TRAINER], [], [], None),
        (END_NS, [FOLLOWED], HEARTBEAT, [], "a log is followed"),
        (END_NS, [FOLLOWED, ENGINE], [], [], "a log is followed"),
        (END_NS, [], [], [], None),
    ],
)
def test_what_silence_tells(
    seen_ns: int,
    processes: list[ProcessSeen],
    starts: list[StageStart],
    spans: list[StageSpan],
    reason: str | None,
) -> None:
    told = explain_silence(seen_ns, None, processes, starts, spans)
    assert told is None if reason is None else told is not None and reason in told
