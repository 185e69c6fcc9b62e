from pathlib import Path

from longpole_server.diagnosis.findings import FINDINGS
from longpole_server.diagnosis.reference import write_reference
from longpole_server.diagnosis.thresholds import THRESHOLDS
from support.diagnosis_schema import VERDICTS

PAGE = Path(__file__).parents[3] / "docs" / "verdicts.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == write_reference(), (
        "run `python -m longpole_server.diagnosis.reference > docs/verdicts.md`"
    )


def test_it_is_complete():
    page = write_reference()
    assert all(f"### `{code}`\n" in page for code in VERDICTS)
    assert all(f"### `{kind.code}`\n" in page for kind in FINDINGS)
    names = {threshold.name for threshold in THRESHOLDS}
    for kind in FINDINGS:
        assert set(kind.thresholds) <= names
        assert kind.title
        assert kind.proof
        assert kind.reads
