"""The vocabulary page names every name that the programs speak."""

from pathlib import Path

import pytest

from longpole.conventions import attributes, gpus, metrics, stages

PAGE = (Path(__file__).parents[2] / "docs" / "vocabulary.md").read_text("utf-8")
# Names for receivers and agents, not for those who send.
INTERNAL = {"LEGACY_PROJECT", "LEGACY_EXPERIMENT", "HEADER_BATCH_ID"}


@pytest.mark.parametrize(
    "name",
    [
        value
        for key, value in vars(attributes).items()
        if key.isupper() and isinstance(value, str) and key not in INTERNAL
    ],
)
def test_every_attribute_span_and_event_is_explained(name: str) -> None:
    assert name in PAGE


def test_every_stage_metric_and_gpu_metric_is_listed() -> None:
    missing = [kind.name for kind in stages.STAGE_KINDS if f"`{kind.name}`" not in PAGE]
    missing += [kind.name for kind in metrics.METRIC_KINDS if f"`{kind.name}`" not in PAGE]
    missing += [
        kind.metric
        for kind in (*gpus.GPU_METRICS, *gpus.GPU_TRAITS, *gpus.GPU_FAULTS)
        if f"`{kind.metric}`" not in PAGE
    ]
    missing += [
        value
        for key, value in vars(gpus).items()
        if key.startswith(("HOST_", "RAY_", "FABRIC_", "PROCESS_")) and f"`{value}`" not in PAGE
    ]
    missing += [phase for phase in stages.SYNC_PHASES if f"`{phase}`" not in PAGE]
    assert missing == []
