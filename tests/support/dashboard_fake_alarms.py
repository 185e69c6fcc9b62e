"""What fires in the pretend cluster: alerts with their events, inputs, silences and channels."""

from typing import Any

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.events import make_link
from longpole_server.alerts.lifecycle import fold_event
from longpole_server.alerts.rule import Rule
from longpole_server.alerts.user_rules import make_rule
from longpole_server.model.alert import (
    Acknowledgement,
    Alert,
    AlertEvent,
    AlertEvidence,
    AlertPhase,
    ChannelStatus,
    EventKind,
    RuleInput,
    Silence,
)
from longpole_server.model.diagnosis import Entity
from support.dashboard_fake_alerts import FakeAlerts
from support.dashboard_fake_cluster import SILENT_NODE
from support.dashboard_fake_runs import ASYNC_RUN, HANGING_RUN, LIVE_RUN
from support.dashboard_workload import S

_NAMES = {
    LIVE_RUN: "grpo-qwen3-8b-math",
    HANGING_RUN: "ppo-llama-70b-code",
    ASYNC_RUN: "dapo-qwen3-32b-agents",
}
# Figures that users watch, each drawn by another panel.
USER_FIGURES = (
    "reward_mean", "tokens_total", "step_duration_s", "stage_s/gen", "mfu_actor", "engines/running",
)  # fmt: skip
_RULES = {rule.rule_id: rule for rule in BUILT_IN_RULES}
# What each was told as: rule, run, entity, seconds ago, state, value, threshold, baseline, unit.
_ALERTS: tuple[tuple[Any, ...], ...] = (
    (
        "run.hang",
        HANGING_RUN,
        ("run", HANGING_RUN),
        560,
        "firing",
        577.0,
        12.6,
        4.2,
        "s",
        "update weights of step 9 is open for 9 min 37 s; the longest so far took 4.2 s.",
        9,
    ),
    (
        "gpu.throttled",
        LIVE_RUN,
        ("gpu", "node-a1/3"),
        1500,
        "firing",
        0.7,
        0.2,
        None,
        "ratio",
        "GPU 3 on node-a1 was slowed down for 70 % of the last minute: hardware thermal.",
        17,
    ),
    (
        "node.silent",
        None,
        ("host", SILENT_NODE),
        360,
        "firing",
        420.0,
        60.0,
        None,
        "s",
        f"Nothing came from node {SILENT_NODE} for 7 min.",
        None,
    ),
    (
        "kv.pressure",
        LIVE_RUN,
        ("run", LIVE_RUN),
        95,
        "pending",
        0.12,
        0.1,
        0.03,
        "ratio",
        "12 % of the samples were preempted: the cache is too small for the load.",
        29,
    ),
    (
        "entropy.collapse",
        ASYNC_RUN,
        ("run", ASYNC_RUN),
        5200,
        "resolved",
        0.21,
        0.25,
        0.62,
        "nats",
        "Entropy fell to 0.21 nats, from 0.62 at the start.",
        31,
    ),
)


def fill_alerts(into: FakeAlerts, now_ns: int) -> None:
    """Put everything in."""
    for number, row in enumerate(_ALERTS):
        events = _make_events(number, row, now_ns)
        into.events.extend(events)
        into.alerts.append(_make_alert(events[-1], row, now_ns))
    into.events.sort(key=lambda event: -event.decided_ns)
    into.alerts.sort(key=lambda alert: -alert.started_ns)
    into.silences.append(
        Silence(
            "silence-0",
            "mfu.low",
            ASYNC_RUN,
            None,
            "mira",
            "profiling until the evening",
            now_ns - 3600 * S,
            now_ns + 9000 * S,
        )
    )
    into.channels += [
        ChannelStatus("slack", "slack_webhook", 0, 41, 0, now_ns - 340 * S, None, None),
        ChannelStatus(
            "oncall",
            "pagerduty",
            2,
            7,
            1,
            now_ns - 86_000 * S,
            "the service answered 503 Service Unavailable",
            now_ns - 35 * S,
        ),
    ]
    _fill_inputs(into, now_ns)


def fill_each_rule(into: FakeAlerts, now_ns: int) -> None:
    """Put in one alert of every built-in rule and of a user's rule on a figure of each panel."""
    for figure in USER_FIGURES:
        document = {"metric": figure, "comparison": "above", "threshold": 1}
        saved = into.save_rule(document, f"user.{figure.replace('/', '-')}")
        rule = make_rule(saved)
        seen = AlertEvidence(figure, 2.0, rule.detector.unit)
        into.alerts.append(_make_alert_of(rule, now_ns, (seen,)))
    for rule in BUILT_IN_RULES:
        broken = (AlertEvidence("grad_norm", 0.2, "1"),) if rule.rule_id == "loss.nan" else ()
        into.alerts.append(_make_alert_of(rule, now_ns, broken))


def _make_alert_of(rule: Rule, now_ns: int, evidence: tuple[AlertEvidence, ...]) -> Alert:
    run_id = ASYNC_RUN if rule.rule_id.startswith("staleness.") else LIVE_RUN
    entity = {"run": run_id, "gpu": "node-a1/3", "host": "node-a1", "replica": "engine-0"}
    is_server = rule.entity_kind == "server"
    event = AlertEvent(
        event_id=f"event-{rule.rule_id}",
        alert_id=f"alert-{rule.rule_id}",
        kind="firing",
        ts_ns=now_ns - 60 * S,
        decided_ns=now_ns - 60 * S,
        rule=rule.rule_id,
        severity=rule.severity,
        run_id="" if is_server else run_id,
        run_name="",
        project="",
        entity_kind=rule.entity_kind,
        entity_id=entity.get(rule.entity_kind, "this server"),
        started_ns=now_ns - 300 * S,
        started_step=26 if rule.trigger == "step" else None,
        fired_ns=now_ns - 300 * S,
        step=28 if rule.trigger == "step" else None,
        count=3,
        value=2.0,
        threshold=1.0,
        baseline=None,
        unit=rule.detector.unit,
        summary=f"{rule.title}.",
        cause=rule.cause,
        first_look=rule.first_look,
        evidence=evidence,
        notify=True,
    )
    alert = fold_event(None, event)
    assert alert is not None
    return alert


def _make_events(number: int, row: tuple[Any, ...], now_ns: int) -> list[AlertEvent]:
    rule_id, run_id, entity, ago_s, state, value, threshold, baseline, unit, summary, step = row
    rule = _RULES[rule_id]
    kinds: tuple[tuple[EventKind, int], ...] = (("pending", 0), ("firing", 60), ("resolved", 1200))
    count = {"pending": 1, "firing": 2, "resolved": 3}[state]
    started_ns = now_ns - ago_s * S
    return [
        AlertEvent(
            event_id=f"event-{number}-{kind}",
            alert_id=f"alert-{number}",
            kind=kind,
            ts_ns=started_ns + after_s * S,
            decided_ns=started_ns + (after_s + 1) * S,
            rule=rule_id,
            severity=rule.severity,
            run_id=run_id or "",
            run_name=_NAMES.get(run_id, ""),
            project=(run_id or "").partition("/")[0],
            entity_kind=entity[0],
            entity_id=entity[1],
            started_ns=started_ns,
            started_step=step,
            fired_ns=None if kind == "pending" else started_ns + 60 * S,
            step=step,
            count=1 if kind == "pending" else 12,
            value=value,
            threshold=threshold,
            baseline=baseline,
            unit=unit,
            summary=summary,
            cause=rule.cause,
            first_look=rule.first_look,
            evidence=(AlertEvidence("value", value, unit),),
            notify=kind != "pending",
        )
        for kind, after_s in kinds[:count]
    ]


def _make_alert(newest: AlertEvent, row: tuple[Any, ...], now_ns: int) -> Alert:
    state: AlertPhase = row[4]
    return Alert(
        alert_id=newest.alert_id,
        rule=newest.rule,
        severity=newest.severity,
        state=state,
        run_id=newest.run_id or None,
        run_name=newest.run_name or None,
        project=newest.project or None,
        entity=Entity(newest.entity_kind, newest.entity_id),
        started_ns=newest.started_ns,
        fired_ns=newest.fired_ns,
        last_seen_ns=newest.ts_ns if state == "resolved" else now_ns - 5 * S,
        resolved_ns=newest.ts_ns if state == "resolved" else None,
        first_step=newest.started_step,
        last_step=newest.step,
        count=newest.count,
        value=newest.value,
        threshold=newest.threshold,
        baseline=newest.baseline,
        unit=newest.unit,
        summary=newest.summary,
        cause=newest.cause,
        first_look=newest.first_look,
        link=make_link(newest, _RULES[newest.rule].panel),
        evidence=newest.evidence,
        acknowledged=Acknowledgement("jun", now_ns - 900 * S, "replacing the fan tonight")
        if newest.rule == "gpu.throttled"
        else None,
        silence_id=None,
        notified_ns=newest.fired_ns,
        updated_ns=newest.decided_ns,
    )


def _fill_inputs(into: FakeAlerts, now_ns: int) -> None:
    for row in _ALERTS:
        if row[4] != "resolved":
            seen = RuleInput(
                run_id=row[1],
                entity=Entity(*row[2]),
                state=row[4],
                step=row[10],
                ts_ns=now_ns - 4 * S,
                value=row[5],
                threshold=row[6],
                baseline=row[7],
                unit=row[8],
                quiet_because=None,
            )
            into.inputs.setdefault(row[0], []).append(seen)
    for rule_id, value, threshold, unit in (
        ("entropy.collapse", 0.44, 0.25, "nats"),
        ("kl.high", 0.0051, 0.1, "nats"),
        ("clip.high", 0.12, 0.3, "ratio"),
        ("reward.jump", 0.01, 0.2, "1"),
    ):
        into.inputs.setdefault(rule_id, []).append(
            RuleInput(
                LIVE_RUN,
                Entity("run", LIVE_RUN),
                "quiet",
                30,
                now_ns - 80 * S,
                value,
                threshold,
                None,
                unit,
                f"{value:g} is within {threshold:g}",
            )
        )
    into.inputs.setdefault("mfu.low", []).append(
        RuleInput(
            ASYNC_RUN,
            Entity("run", ASYNC_RUN),
            "not_judgeable",
            40,
            now_ns - 90 * S,
            None,
            0.2,
            None,
            "ratio",
            "not judgeable: the run reports no MFU",
        )
    )
