from dataclasses import replace

import pytest

from longpole_server.diagnosis import diagnose_step
from longpole_server.diagnosis.object_store import measure_object_stores
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.facts import ObjectStoreFacts, RunFacts
from support.steps import facts

RUN = RunFacts("run", "run", system="verl", gpu_count=16)
BETWEEN = {"gen": 10.0, "old_log_prob": 5.0, "update_actor": 10.0}
GB = 1e9


def judge(*stores: ObjectStoreFacts) -> Diagnosis:
    step = replace(facts(BETWEEN, {"timing_s/step": 60.0}, run=RUN), object_stores=stores)
    return diagnose_step(RUN, step)


def test_what_ray_spills_is_evidence_for_time_between_the_stages() -> None:
    diagnosis = judge(
        ObjectStoreFacts("a", 3 * GB, 1 * GB, 0.0, 1.0), ObjectStoreFacts("b", 2 * GB, None)
    )
    assert diagnosis.verdict == "overhead.unattributed"
    (row,) = (each for each in diagnosis.evidence if each.source == "ray_object_store")
    assert (row.value, row.unit, row.effect) == (6 * GB, "bytes", "supports")
    assert "Ray moves 6.0 GB a step through disks" in diagnosis.summary


@pytest.mark.parametrize(
    "stores", [[], [ObjectStoreFacts("a", 0.0, 0.0)], [ObjectStoreFacts("a", None, None)]]
)
def test_what_is_not_spilled_is_no_evidence(stores: list[ObjectStoreFacts]) -> None:
    diagnosis = judge(*stores)
    assert diagnosis.verdict == "overhead.unattributed"
    assert not any(row.source == "ray_object_store" for row in diagnosis.evidence)
    assert "disks" not in diagnosis.summary


def test_a_step_is_the_mean_of_those_that_report() -> None:
    use = measure_object_stores(
        [
            (),
            [ObjectStoreFacts("a", 4 * GB, None), ObjectStoreFacts("b", None, 1 * GB)],
            [ObjectStoreFacts("a", 2 * GB, None, 5.0)],
        ]
    )
    assert use is not None
    assert (use.spilled_bytes, use.restored_bytes) == (3 * GB, 1 * GB)
    assert use.moved_bytes == 4 * GB
    assert use.fallback_bytes == 5.0
    assert measure_object_stores([(), ()]) is None
