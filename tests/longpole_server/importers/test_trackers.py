"""Trackers' files: what is damaged or cut is counted, and nothing false is read."""

import contextlib
import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import LogSource, LogSummary, import_facts, pack, read_steps, unpack
from longpole_server.importers.crc32c import crc32c, masked_crc32c
from longpole_server.importers.protobuf_wire import MalformedError, read_fields
from longpole_server.importers.sources import LogSource as Source

LOGS = Path(__file__).parents[2] / "data" / "logs"
BINARIES = {
    "wandb": (LOGS / "wandb_verl.wandb").read_bytes(),
    "tensorboard": next((LOGS / "tensorboard").iterdir()).read_bytes(),
}


def read(body: bytes) -> tuple[dict[int, dict[str, float]], LogSummary]:
    summary = LogSummary()
    steps = read_steps(LogSource.of_bytes("file", body, 10**18), summary)
    return {step.step: dict(step.scalars) for step in steps}, summary


@pytest.mark.parametrize("kind", BINARIES)
@given(data=st.data())
def test_a_file_that_ends_in_the_middle_is_read_up_to_there(kind: str, data: st.DataObject) -> None:
    body = BINARIES[kind]
    whole, _ = read(body)
    cut = data.draw(st.integers(600, len(body)))
    found, summary = read(body[:cut])
    assert summary.num_unreadable == 0
    for step, scalars in found.items():
        assert scalars.items() <= whole[step].items()


@pytest.mark.parametrize("kind", BINARIES)
@given(seed=st.integers(0, 2**32))
def test_damaged_records_are_counted_and_not_read(kind: str, seed: int) -> None:
    body = bytearray(BINARIES[kind])
    whole, _ = read(bytes(body))
    at = random.Random(seed).randrange(200, len(body))
    body[at] ^= 0x40
    found, summary = read(bytes(body))
    assert summary.num_unreadable or summary.torn_last_line or found == whole
    for step, scalars in found.items():
        assert scalars.items() <= whole[step].items()


def test_event_files_of_a_training_started_again_are_one(tmp_path: Path) -> None:
    body = BINARIES["tensorboard"]
    (tmp_path / "events.out.tfevents.1.host").write_bytes(body)
    (tmp_path / "events.out.tfevents.2.host").write_bytes(body)
    facts = import_facts(LogSource.of_file(tmp_path), "x")
    assert [fact.step.step for fact in facts.steps] == [1, 2, 3, 4, 5]


def test_a_tensor_that_holds_one_number_is_a_scalar() -> None:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    tensor = b"\x08\x01" + field(4, struct.pack("<f", 2.5))
    value = field(1, b"timing_s/step") + field(8, tensor)
    event = b"\x09" + struct.pack("<d", 1.7e9) + b"\x10\x07" + field(5, field(1, value))
    length = struct.pack("<Q", len(event))
    frame = length + struct.pack("<I", masked_crc32c(length))
    body = frame + event + struct.pack("<I", masked_crc32c(event))
    assert read(body)[0] == {7: {"timing_s/step": 2.5}}


def make_swanlab_record(name: str, step: int, seconds: int, value: float) -> bytes:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    scalar = field(1, name.encode()) + bytes([2 << 3, step, 3 << 3, 1])
    scalar += field(4, bytes([1 << 3, seconds]))
    # Protobuf leaves 0 out.
    scalar += field(5, b"\x09" + struct.pack("<d", value) if value else b"")
    record = b"\x08\x07" + field(13, scalar)
    checksum = zlib.crc32(record, zlib.crc32(b"\x01"))
    return struct.pack("<IHB", checksum, len(record), 1) + record


def test_swanlabs_run_file_is_read_without_what_it_measures_of_the_machine() -> None:
    records = (
        ("critic/score/mean", 1, 100, 0.0),
        ("timing_s/step", 1, 100, 67.0),
        ("__swanlab__.cpu.pct", 9, 100, 5.0),
        ("timing_s/step", 2, 101, 68.0),
        ("actor/loss", 2, 101, float("nan")),
    )
    body = struct.pack("<4sHB", b":SWL", 0xE1D6, 2)
    body += b"".join(make_swanlab_record(*record) for record in records)
    found, summary = read(body)
    assert found == {
        1: {"critic/score/mean": 0.0, "timing_s/step": 67.0},
        2: {"timing_s/step": 68.0},
    }
    assert (summary.format, summary.not_finite) == ("swanlab_run", {"actor/loss": 1})
    assert read(body[:-20])[1].torn_last_line
    damaged = body.replace(struct.pack("<d", 67.0), struct.pack("<d", 66.0))
    assert read(damaged)[1].num_unreadable == 1


def test_checksums_are_castagnolis() -> None:
    # RFC 3720, B.4.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"123456789") == 0xE3069283


@given(body=st.binary(max_size=80))
def test_any_bytes_are_a_message_or_malformed(body: bytes) -> None:
    with contextlib.suppress(MalformedError):
        list(read_fields(body))


def test_charts_of_several_runs_are_read_for_the_first() -> None:
    text = '"Step","a - timing_s/step","b - timing_s/step"\n1,10.0,20.0\n'
    source = LogSource.of_bytes("chart.csv", text.encode(), 0)
    facts = import_facts(source, "x")
    assert facts.steps[0].step.duration_s == 10.0
    assert "table.runs" in [note.code for note in facts.notes]


@pytest.mark.parametrize("axis", ["training/global_step", "train/global_step", "training_step"])
def test_a_chart_over_the_trainers_own_count_is_read(axis: str) -> None:
    steps, _ = read(f'"{axis}","a - b - timing_s/step"\n7,10.0\n'.encode())
    assert list(steps) == [7]
    assert steps[7]["timing_s/step"] == 10.0


def test_a_chart_over_time_says_what_to_export_instead() -> None:
    text = b'"Relative Time (Process)","a - timing_s/step"\n7,10.0\n'
    with pytest.raises(UnreadableLogError) as refused:
        read(text)
    assert "Relative Time (Process)" in refused.value.message
    assert refused.value.hint is not None
    assert "Step" in refused.value.hint


def test_values_that_are_not_finite_are_counted() -> None:
    text = "_step,timing_s/step,actor/loss\n1,10.0,nan\n2,11.0,inf\n"
    _, summary = read(text.encode())
    assert summary.not_finite == {"actor/loss": 2}


def test_a_folder_of_mlflow_and_its_stream_say_the_same() -> None:
    source = LogSource.of_file(LOGS / "mlflow_run")
    with source.open() as stream:
        sent = LogSource.of_bytes("mlflow_run", stream.read(), source.modified_ns)
    assert list(read_steps(sent, LogSummary())) == list(read_steps(source, LogSummary()))


def test_an_archive_holds_what_went_into_it(tmp_path: Path) -> None:
    names = ["openrlhf_console.log", "mlflow_run", "wandb_verl.wandb"]
    sources = [LogSource.of_file(LOGS / name) for name in names]
    archive = tmp_path / "logs.tar"
    with archive.open("wb") as stream:
        pack(sources, stream)
    members = unpack(Source.of_file(archive))
    assert [member.name for member in members] == names
    for member, source in zip(members, sources, strict=True):
        with member.open() as found, source.open() as expected:
            assert found.read() == expected.read()


def test_what_is_no_archive_is_itself() -> None:
    source = LogSource.of_bytes("x", b"step:1 - timing_s/step:1\n", 0)
    assert unpack(source) == (source,)
