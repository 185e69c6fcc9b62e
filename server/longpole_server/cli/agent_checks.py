"""The agent of this machine, and those of others as the server hears them."""

import http.client
import json
import socket
from collections.abc import Iterator, Sequence
from typing import Any, cast

from longpole_server.cli.checks import Check, Server, describe_span

_SILENT_AFTER_S = 30
_MAX_SKEW_S = 2.0
_LIVE_STATES = frozenset({"live", "stalled"})
_MAX_NAMES = 5
_TIMEOUT_S = 2.0
_HOST = "127.0.0.1"


def examine_port(port: int) -> Iterator[Check]:
    """Look who listens on a port of OTLP on this machine; an agent tells how it is."""
    subject = f"port {port}"
    with socket.socket() as probe:
        probe.settimeout(1.0)
        is_open = probe.connect_ex((_HOST, port)) == 0
    if not is_open:
        yield Check(
            "note",
            subject,
            "nobody listens on this machine",
            "trainers here need an agent or a server",
        )
        return
    yield Check("ok", subject, "somebody listens: trainers on this machine reach it")
    health = _ask_agent(port)
    if health is not None:
        yield from judge_health(health)


def judge_health(health: dict[str, Any]) -> Iterator[Check]:
    """Say what an agent says of itself at `GET /health`."""
    spool: dict[str, Any] = health.get("spool") or {}
    waiting = f"{spool.get('records', 0)} requests wait in its spool"
    text = f"{health.get('host')} sends to {health.get('server')}, {waiting}"
    trouble = health.get("trouble")
    if trouble:
        yield Check(
            "bad",
            "agent",
            f"{text}: {trouble}",
            "an agent that does not deliver: LongpoleAgentNotDelivering in the runbook;"
            " GPUs that do not answer: LongpoleAgentGpusLost",
        )
    else:
        yield Check("ok", "agent", text)
    sources = cast("Sequence[dict[str, Any]]", health.get("sources") or ())
    for source in sources:
        if source.get("error"):
            yield Check(
                "bad",
                "source",
                f"{source.get('name')}: {source['error']}",
                "the agent's log says more; LongpoleAgentSourceFailing in the runbook",
            )
    if spool.get("dropped"):
        yield Check(
            "note",
            "agent",
            f"it dropped {spool['dropped']} requests since it started",
            "the server was away for longer than its spool holds: --spool-bytes",
        )


def _ask_agent(port: int) -> dict[str, Any] | None:
    """Return what the agent at a port says of itself, None where none answers."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        document: object = json.loads(answer.read(1 << 20)) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        # gRPC, TLS, or a server, which answers elsewhere.
        return None
    finally:
        connection.close()
    if not isinstance(document, dict) or "spool" not in document:
        return None
    return cast("dict[str, Any]", document)


def examine_agents(server: Server, now_ns: int, delay_s: float = 0.0) -> Iterator[Check]:
    """Look at the nodes that the server has heard of in the last day.

    Args:
        server: Asked.
        now_ns: UTC nanoseconds.
        delay_s: How old may be what the server shows: silence that is no longer is its own.
    """
    nodes: list[dict[str, Any]] = server.get("/nodes")["nodes"]
    if not nodes:
        yield Check(
            "note",
            "agents",
            "no node was heard of in the last day",
            "run `longpole agent --server URL` on every GPU node",
        )
        return
    live = {run["run_id"] for run in server.get("/runs")["runs"] if run["state"] in _LIVE_STATES}
    ages_s = {str(node["host"]): (now_ns - node["seen_ns"]) / 1e9 for node in nodes}
    unknown = [host for host, age_s in ages_s.items() if 0 <= age_s - _SILENT_AFTER_S <= delay_s]
    if unknown:
        yield _describe_unknown(unknown, delay_s)
        nodes = [node for node in nodes if node["host"] not in unknown]
        ages_s = {host: age_s for host, age_s in ages_s.items() if host not in unknown}
    at_rest = [
        str(node["host"])
        for node in nodes
        if ages_s[node["host"]] > _SILENT_AFTER_S and not live.intersection(node["runs"])
    ]
    checks = [_judge(host, age_s) for host, age_s in ages_s.items() if host not in at_rest]
    yield from _gather([check for check in checks if check.verdict == "ok"], ages_s, nodes)
    yield from (check for check in checks if check.verdict != "ok")
    if at_rest:
        yield _describe_at_rest(at_rest, min(ages_s[host] for host in at_rest))
    yield from _find_without_gpus(nodes)


def _gather(
    well: Sequence[Check], ages_s: dict[str, float], nodes: Sequence[dict[str, Any]]
) -> Iterator[Check]:
    """Yield nodes that are well: of many, one line for all."""
    if len(well) <= _MAX_NAMES:
        yield from well
        return
    oldest_s = max(age_s for age_s in ages_s.values() if age_s <= _SILENT_AFTER_S)
    num_gpus = sum(node.get("num_gpus", 0) for node in nodes)
    yield Check(
        "ok",
        "agents",
        f"{len(well)} nodes were heard in the last {max(1.0, oldest_s):.0f} s; {num_gpus} GPUs",
    )


def _find_without_gpus(nodes: Sequence[dict[str, Any]]) -> Iterator[Check]:
    """Name nodes whose agents see no GPU, where others see some."""
    counts = {str(node["host"]): node.get("num_gpus") for node in nodes}
    without = [host for host, count in counts.items() if count == 0]
    if without and any(counts.values()):
        yield Check(
            "note",
            "gpus",
            f"{_name(without)}: no GPU is reported from there",
            "nothing to do where there are none; else `longpole doctor` there, or GET /health of"
            " its agent",
        )


def _describe_at_rest(hosts: Sequence[str], age_s: float) -> Check:
    """Name nodes that are silent and not missed, such as those of a demo that ended."""
    return Check(
        "note",
        "at rest",
        f"{_name(hosts)}: nothing for {describe_span(age_s)}, and no live run is there",
        "nothing to do, unless an agent should be running there",
    )


def _describe_unknown(hosts: Sequence[str], delay_s: float) -> Check:
    """Name nodes of which nothing newer can be known here."""
    return Check(
        "note",
        "agents",
        f"{_name(hosts)}: whether they are silent is not known, since what this server shows may be"
        f" {describe_span(delay_s)} old",
        "mend what is said of the server first; agents keep what they cannot deliver",
    )


def _name(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:_MAX_NAMES]) + (" ..." if len(hosts) > _MAX_NAMES else "")


def _judge(host: str, age_s: float) -> Check:
    if age_s < -_MAX_SKEW_S:
        return Check(
            "bad",
            "clock",
            f"{host} is {-age_s:.0f} s ahead of this machine",
            "synchronise both clocks: chrony or systemd-timesyncd",
        )
    if age_s > _SILENT_AFTER_S:
        return Check(
            "bad",
            "agent",
            f"{host} was last heard {describe_span(age_s)} ago by its clock, amid a live run",
            f"look at the agent on {host}, at its way to the server, and at its clock",
        )
    return Check("ok", "agent", f"{host} was heard {max(0.0, age_s):.0f} s ago")
