"""Whatever valid request comes in, the real store takes its records: nothing blocks the queue."""

import itertools
from pathlib import Path

from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings

from longpole_server.ingest.normalize import Normalizer
from longpole_server.model.records import Records
from support import otlp_builders as otlp
from support.otlp_strategies import requests
from support.store_opening import opened_store


def test_the_store_takes_what_any_request_becomes(tmp_path: Path) -> None:
    numbers = itertools.count()

    with opened_store(tmp_path / "store") as opened:

        @settings(
            deadline=None,
            max_examples=15,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        @given(requests("traces"), requests("metrics"), requests("logs"))
        def check(traces: Message, metrics: Message, logs: Message) -> None:
            normalizer, records = Normalizer(), Records()
            normalizer.normalize("traces", traces.SerializeToString(), otlp.at(5), records)
            normalizer.normalize("metrics", metrics.SerializeToString(), otlp.at(5), records)
            normalizer.normalize("logs", logs.SerializeToString(), otlp.at(5), records)

            opened.writer.write(records, f"random/{next(numbers)}")

        check()

        assert next(numbers) > 0
