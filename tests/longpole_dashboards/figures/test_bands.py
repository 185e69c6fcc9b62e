from longpole_dashboards.figures.bands import stage_bands
from support.dashboard_steps import S, make_open_stage, make_step


def test_scalars_have_seconds_but_no_place_in_time() -> None:
    assert list(stage_bands([make_step(1, spans=False)], None, 0)) == []


def test_spans_and_the_open_stage_have_bands() -> None:
    step = make_step(1)
    open_stage = make_open_stage(2, "gen", step.start_ns + 100 * S)
    bands = list(stage_bands([step], open_stage, step.start_ns + 130 * S))
    assert [(band.stage, band.step, band.is_open) for band in bands] == [
        ("gen", 1, False),
        ("update_actor", 1, False),
        ("gen", 2, True),
    ]
    assert bands[-1].end_ns - bands[-1].start_ns == 30 * S


def test_between_stages_there_is_no_band() -> None:
    assert list(stage_bands([], make_open_stage(2, "step", 0), S)) == []
