"""`longpole.diagnosis/1` as plain data, ready for JSON."""

from longpole_server.model.diagnosis import Diagnosis


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, object]:
    """Return the document. Not reported is None; no key is ever left out."""
    raise NotImplementedError
