from longpole_server.ingest.normalize.attempts import Attempt
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.ingest.normalize.sender import read_sender
from longpole_server.ingest.normalize.spans import SpanKind, read_span
from longpole_server.ingest.normalize.stages import StagePlacer
from longpole_server.model.records import Records
from support import otlp_builders as otlp


def test_the_oldest_waiting_stages_give_up_when_too_many_wait() -> None:
    text = FreeText()
    placer = StagePlacer(max_held=3)
    attempt = Attempt("run", 1, otlp.at(0), step=9)
    sender = read_sender(otlp.process(), text)
    records = Records()

    for index in range(5):
        span = otlp.span("rl.sample", index, index + 1, parent=b"p" * 8)
        fact = read_span(span, sender, otlp.SCOPE, text)
        placer.add(SpanKind.STAGE, fact, attempt, sender, records)
    fact = read_span(otlp.span("generate", 9, 10, parent=b"p" * 8), sender, otlp.SCOPE, text)
    placer.add(SpanKind.CANDIDATE, fact, attempt, sender, records)

    assert (placer.num_held, placer.num_given_up) == (3, 3)
    assert [(span.start_ns, span.step) for span in records.stage_spans] == [
        (otlp.at(index), 9) for index in range(3)
    ]
