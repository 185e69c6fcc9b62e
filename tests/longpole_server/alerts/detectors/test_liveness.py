from longpole_server.alerts.detectors.liveness import Hanging, Stalled, TrainerGone
from longpole_server.model.run import OpenStage
from support.alert_histories import at, history_at, history_of, make_gpu, make_point, make_run


def test_stalled_names_the_open_stage():
    opened = OpenStage(4, "gen", at(0), at(200), usual_s=6.0)
    judgement = Stalled().judge(history_at(200, make_run(open_stage=opened)))
    assert judgement.firing
    assert judgement.words["stage"] == ("it has been in gen of step 4 for 3 min 20 s, usually 6 s")
    assert not Stalled().judge(history_at(100, make_run())).firing


def test_a_run_that_is_over_is_not_stalled():
    for state in ("finished", "crashed", "lost", "imported"):
        judgement = Stalled().judge(history_at(9_999, make_run(state=state)))
        assert (judgement.firing, judgement.cleared) == (False, True)
        assert judgement.quiet_because == f"the run is {state}: that is not stalled"


def test_a_hang_is_spinning_without_progress():
    spinning = {"utilization_ratio": 1.0, "tensor_active_ratio": 0.0, "power_watts": 140.0}
    busy = {"utilization_ratio": 1.0, "tensor_active_ratio": 0.4, "power_watts": 600.0}
    hung = [make_gpu(0, **spinning), make_gpu(1, **spinning), make_gpu(2, **busy)]
    run = make_run(state="stalled")
    judgement = Hanging().judge(history_at(200, run, gpus=hung))
    assert judgement.firing
    assert judgement.words["watts"] == "140 W"
    assert not Hanging().judge(history_at(20, make_run(), gpus=hung)).firing
    assert not Hanging().judge(history_at(200, run, gpus=hung[2:])).firing
    blind = [make_gpu(0, utilization_ratio=1.0)]
    assert not Hanging().judge(history_at(200, run, gpus=blind)).is_judged


def test_a_lost_trainer_says_what_is_at_risk():
    run = make_run(state="lost", last_seen_ns=at(40), checkpoint_step=3)
    history = history_of([make_point(7)], run)
    judgement = TrainerGone().judge(history)
    assert judgement.firing
    assert judgement.words["risk"] == "4 steps since the checkpoint at step 3 are at risk"
    assert not TrainerGone().judge(history_of([make_point(7)])).firing
