"""Data quality: what a reader must know about the numbers behind a diagnosis."""

from longpole.conventions import stages
from longpole_server.analysis.mfu import explain_unknown_mfu
from longpole_server.analysis.step_table import StepTable
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import no_closed_step
from longpole_server.model.step import Note


def collect_notes(
    view: View,
    steps: StepTable,
    asked: tuple[int | None, int | None] = (None, None),
) -> tuple[Note, ...]:
    """Return one note for each kind of trouble, over the steps it concerns.

    Args:
        view: The judged steps.
        steps: All steps of the range.
        asked: The range as it was asked for.
    """
    merged: dict[tuple[str, str | None], Note] = {}
    counts: dict[tuple[str, str | None], int] = {}
    for number, noted in steps.with_notes:
        for note in noted:
            key = (note.code, note.metric)
            counts[key] = counts.get(key, 0) + 1
            merged[key] = _merge(merged.get(key), note, number)
    notes = [_counted(note, counts[key]) for key, note in merged.items()]
    if not steps.has_duration.any():
        notes.append(Note("no_closed_step", "warning", no_closed_step(*asked)))
    elif not view.window.judged:
        summary = "Steps report no stage: what their time is spent on is not known."
        notes.append(Note("no_stage", "warning", summary))
    notes += _about_run(view)
    return tuple(notes)


def _merge(before: Note | None, note: Note, step: int) -> Note:
    first = step if before is None or before.first_step is None else before.first_step
    return Note(
        note.code,
        note.severity,
        note.summary if before is None else before.summary,
        note.metric,
        min(first, step),
        max(step, before.last_step or step) if before is not None else step,
    )


def _counted(note: Note, count: int) -> Note:
    if count == 1:
        return note
    summary = f"{note.summary} ({count} steps)"
    return Note(note.code, note.severity, summary, note.metric, note.first_step, note.last_step)


def _about_run(view: View) -> list[Note]:
    notes: list[Note] = []
    judged = view.window.judged
    if not judged:
        return notes
    first, last = judged[0].step, judged[-1].step
    if view.run.mode is None and view.mode is not None:
        summary = f"The run does not say its mode; what it logs says {view.mode}."
        notes.append(Note("mode.inferred", "info", summary, None, first, last))
    noted = {note.code for _, notes_of_step in judged.with_notes for note in notes_of_step}
    updates = stages.UPDATE_ACTOR in view.window.stage_s
    known = (view.mfu_actor, view.mfu_actor_stage, view.mfu_step)
    if (
        updates
        and all(value is None for value in known)
        and not noted
        & {
            "mfu.unknown",
            "mfu.impossible",
        }
    ):
        why = explain_unknown_mfu(view.run, judged)
        summary = f"No MFU is reported, and none can be computed: {why}."
        notes.append(Note("mfu.unknown", "info", summary, "mfu_actor", first, last))
    return notes
