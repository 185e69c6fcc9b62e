"""A lived run as OTLP requests, sent as real senders do: late, twice, out of order, half named."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole_server.ingest.signals import Signal
from support.elsewhere_scalars import TIMERS, canonical_timers, figures, tells_all
from support.elsewhere_world import Sample, StepLived, Sync, World

NS = 1_000_000_000
Attributes = Mapping[str, object]

STAGE_SPANS = {
    "gen": "rl.sample",
    "reward": "rl.reward",
    "update_actor": "rl.train",
    "update_weights": "rl.sync",
}
# Other spellings a trainer may give its stages.
SPELLINGS = {
    "gen": ("gen", "generation", "rollout"),
    "old_log_prob": ("old_log_prob", "log_probs", "recompute_logp"),
    "ref": ("ref", "ref_log_prob"),
    "reward": ("reward", "reward_calculation"),
    "adv": ("adv", "compute_advantage"),
    "update_actor": ("update_actor", "policy_training", "actor_update"),
    "update_critic": ("update_critic", "critic_train"),
    "update_weights": ("update_weights", "sync_weights", "weight_sync"),
    "testing": ("testing", "validation"),
    "save_checkpoint": ("save_checkpoint", "checkpointing"),
    "trainer_wait": ("trainer_wait", "wait_for_batch"),
}
# Metric, unit, key of the levels.
GPU_METRICS = (
    ("hw.gpu.utilization", "1", "utilization"),
    ("hw.gpu.sm_active", "1", "sm"),
    ("hw.gpu.tensor_active", "1", "tensor"),
    ("hw.gpu.dram_active", "1", "dram"),
    ("hw.power", "W", "power"),
    ("hw.gpu.clock.sm", "Hz", "clock"),
    ("hw.gpu.clocks_event_reasons", "1", "reasons"),
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and when it arrives: seconds after the run's begin."""

    signal: Signal
    body: bytes
    at_s: float


class Sending:
    """Turns a lived run into requests.

    Args:
        world: The run.
        steps: Its life.
        origin_ns: When it began.
    """

    def __init__(self, world: World, steps: Sequence[StepLived], origin_ns: int) -> None:
        self._world = world
        self._steps = steps
        self._origin_ns = origin_ns
        chance = world.chance
        self._chance = chance
        self.run_id = f"elsewhere/{world.label}/{world.seed}"
        self._trainer_host = (
            f"{world.label}-{world.seed}-{'trainer' if world.separate else 'node'}-0"
        )
        self._skew_s = chance.choice([0.0, 0.003, -0.02, 0.004 * world.step_s])
        self._names_stages = chance.choice(["standard", "attribute", "spelling"])
        self._tells_iteration = chance.random() < 0.8
        self._tells_pid = chance.random() < 0.8
        self._tells_status = chance.random() < 0.8
        self._tells_parts = chance.random() < 0.8
        spellings = ["vllm:", "vllm:", "vllm_", "ray_vllm_", "vllm/", "sglang:"]
        self._engine = world.engine or chance.choice(spellings)
        self._scrape_s = max(1.0, min(chance.choice([5.0, 15.0, 30.0]), world.step_s / 16))
        self._nests = chance.random() < 0.5
        self._tracks = world.tracks()

    def requests(self) -> list[Request]:
        """Return all requests in order of arrival."""
        found = [*self._starts()]
        for step in self._steps:
            found += self._traces(step)
            found += self._samples(step)
            found += self._scalars(step)
        if "engines" in self._world.sends:
            found += self._engines()
        if "gpus" in self._world.sends:
            found += self._gpus()
        return sorted(found, key=lambda request: request.at_s)

    # --- who -------------------------------------------------------------------------------------

    def _resource(self, role: str, **more: object) -> Resource:
        world = self._world
        values: dict[str, object] = {
            "service.name": "trainer",
            "rl.run.id": self.run_id,
            "rl.role": role,
            "host.name": self._trainer_host,
        }
        if self._tells_pid:
            values["process.pid"] = 4242
        if role == "controller":
            values |= _present(
                {
                    "rl.system": world.system,
                    "rl.mode": world.mode,
                    "rl.gpu.count": world.gpus,
                    "rl.staleness.bound": world.bound,
                    "rl.model.name": world.model_name,
                    "rl.model.config": (
                        None if world.model_config is None else json.dumps(world.model_config)
                    ),
                }
            )
        return Resource(attributes=_pairs({**values, **more}))

    def _starts(self) -> Iterator[Request]:
        config = {f"rl.config.{name}": value for name, value in self._world.config.items()}
        if self._world.cap:
            config["rl.config.data.max_response_length"] = str(self._world.cap)
        request = ExportLogsServiceRequest()
        logs = request.resource_logs.add(resource=self._resource("controller"))
        logs.scope_logs.add().log_records.add(
            time_unix_nano=self._at(0.0), event_name="rl.run.start", attributes=_pairs(config)
        )
        yield Request("logs", request.SerializeToString(), 0.0)
        for host, role in dict.fromkeys((track.host, track.role) for track in self._tracks):
            if "gpus" not in self._world.sends:
                continue
            ids = [t.uuid for t in self._tracks if (t.host, t.role) == (host, role)]
            sender = self._resource(role, **{"host.name": host, "rl.gpu.ids": ids})
            beat = ExportLogsServiceRequest()
            beat.resource_logs.add(resource=sender).scope_logs.add().log_records.add(
                time_unix_nano=self._at(0.0),
                event_name="rl.stage.start",
                attributes=_pairs(
                    {
                        "rl.loop.iteration": self._steps[0].number,
                        "rl.stage": "gen",
                        "rl.start_ns": self._at(0.0),
                    }
                ),
            )
            yield Request("logs", beat.SerializeToString(), 0.001)

    # --- spans -----------------------------------------------------------------------------------

    def _traces(self, step: StepLived) -> list[Request]:
        if "spans" not in self._world.sends:
            return []
        chance, trace = self._chance, self._id(16)
        loop_id = self._id(8)
        number = {"rl.loop.iteration": step.number}
        tokens = {} if not step.tokens else {"rl.tokens.total": step.tokens}
        loop = self._span("rl.loop", step.start_s, step.end_s, {**number, **tokens}, trace, loop_id)
        spans: list[Span] = []
        for stage, windows in step.stages.items():
            for start, end in windows:
                spans += self._stage(stage, start, end, step, trace, loop_id)
        for stage, (start, end) in step.outside.items():
            named = {**number, "rl.stage": self._spell(stage)}
            spans.append(self._span(self._spell(stage), start, end, named, self._id(16)))
        chance.shuffle(spans)
        twice = [span for span in spans if chance.random() < 0.1]
        batches = [(spans[: len(spans) // 2], 0.0), ([*spans[len(spans) // 2 :], loop], 0.3)]
        if twice:
            batches.append((twice, chance.uniform(0.5, 1.5) * self._world.step_s))
        return [
            Request("traces", self._pack("controller", batch), step.following_s + late_s)
            for batch, late_s in batches
            if batch
        ]

    def _stage(
        self, stage: str, start: float, end: float, step: StepLived, trace: bytes, loop_id: bytes
    ) -> list[Span]:
        values: dict[str, object] = {}
        if self._tells_iteration:
            values["rl.loop.iteration"] = step.number
        name = STAGE_SPANS.get(stage, "")
        if self._names_stages != "standard" or not name:
            spelled = stage if self._names_stages == "attribute" else self._spell(stage)
            name = name if name and self._names_stages == "attribute" else f"trainer.{spelled}"
            values["rl.stage"] = spelled
        own = self._id(8)
        if stage == "update_weights" and step.sync is not None:
            values |= _present(
                {"rl.sync.method": step.sync.method, "rl.sync.bytes": step.sync.num_bytes}
            )
        spans = [self._span(name, start, end, values, trace, own, loop_id)]
        if stage == "update_weights" and step.sync is not None:
            spans += self._phases(step.sync, step, trace, own)
        if stage in {"gen", "update_actor"} and self._nests:
            inner = {"rl.stage": "gen" if stage == "gen" else "update_actor"}
            middle = (start + end) / 2
            spans.append(self._span("inner", start, middle, {**values, **inner}, trace, parent=own))
        return spans

    def _phases(self, sync: Sync, step: StepLived, trace: bytes, parent: bytes) -> list[Span]:
        values = {"rl.loop.iteration": step.number}
        return [
            self._span(f"rl.sync.{name}", start, end, values, trace, parent=parent)
            for name, start, end in sync.phases
        ]

    def _samples(self, step: StepLived) -> list[Request]:
        if "samples" not in self._world.sends or not step.samples:
            return []
        by_replica: dict[int, list[Span]] = {}
        for sample in step.samples:
            by_replica.setdefault(sample.replica, []).extend(self._sample(sample, step))
        found: list[Request] = []
        for replica, spans in by_replica.items():
            more = {"service.instance.id": f"replica-{replica}", "process.pid": 5000 + replica}
            body = self._pack("rollout", spans, **more)
            late_s = self._chance.choice([0.0, 0.1, 0.6 * self._world.step_s])
            found.append(Request("traces", body, step.end_s + late_s))
        return found

    def _sample(self, sample: Sample, step: StepLived) -> list[Span]:
        trace, own = self._id(16), self._id(8)
        values = _present(
            {
                "rl.loop.iteration": step.number,
                "rl.phase": sample.phase,
                "rl.trajectory.id": sample.name,
                "rl.group.id": sample.group,
                "rl.trajectory.turns": sample.turns,
                "rl.trajectory.preemptions": (
                    sample.preemptions if sample.preemptions is not None else -1
                ),
                "rl.trajectory.status": sample.status if self._tells_status else None,
                "rl.policy.version.start": sample.version,
                "rl.policy.version.end": sample.version_end,
                "rl.reward.value": sample.reward,
                "gen_ai.usage.input_tokens": sample.prompt,
                "gen_ai.usage.output_tokens": sample.output,
            }
        )
        skew_s = self._skew_s
        start, end = sample.start_s + skew_s, sample.end_s + skew_s
        spans = [self._span("rl.trajectory", start, end, values, trace, own)]
        simple = all(part.kind == "generate" for part in sample.parts)
        if simple and not self._tells_parts:
            return spans
        for part in sample.parts:
            named = {"gen_ai.tool.name": part.name.split()[-1]} if part.kind == "tool" else {}
            spans.append(
                self._span(
                    part.name, part.start_s + skew_s, part.end_s + skew_s, named, trace, parent=own
                )
            )
        return spans

    # --- metrics ---------------------------------------------------------------------------------

    def _scalars(self, step: StepLived) -> list[Request]:
        if "scalars" not in self._world.sends:
            return []
        values = {**figures(self._world, step), **step.scalars, **self._lag(step)}
        if "spans" not in self._world.sends or "timers" in self._world.sends:
            system = self._world.system or ""
            values |= (TIMERS[system] if tells_all(system, step) else canonical_timers)(step)
        number = {"rl.loop.iteration": step.number}
        request = ExportMetricsServiceRequest()
        scope = request.resource_metrics.add(resource=self._resource("controller")).scope_metrics
        metrics = scope.add().metrics
        for name, value in values.items():
            points = metrics.add(name=name).gauge.data_points
            points.add(
                time_unix_nano=self._at(step.end_s), as_double=value, attributes=_pairs(number)
            )
        return [Request("metrics", request.SerializeToString(), step.end_s + 0.2)]

    def _lag(self, step: StepLived) -> dict[str, float]:
        if self._world.staleness is None:
            return {}
        mean, largest = self._world.staleness(step.number - self._world.first_number)
        return {"staleness_mean": mean, "staleness_max": largest}

    def _engines(self) -> Iterator[Request]:
        totals: dict[tuple[int, str], float] = {}
        for index, step in enumerate(self._steps):
            for replica in range(self._world.replicas):
                own = [sample for sample in step.samples if sample.replica == replica]
                yield from self._engine_of(replica, own, step, index, totals)

    def _engine_of(
        self,
        replica: int,
        samples: Sequence[Sample],
        step: StepLived,
        index: int,
        totals: dict[tuple[int, str], float],
    ) -> Iterator[Request]:
        world = self._world
        request = ExportMetricsServiceRequest()
        more = {"service.instance.id": f"replica-{replica}", "process.pid": 5000 + replica}
        scope = request.resource_metrics.add(resource=self._resource("rollout", **more))
        metrics = scope.scope_metrics.add().metrics
        count = max(3, min(60, round(step.duration_s / self._scrape_s)))
        ticks = [step.start_s + step.duration_s * (i + 0.5) / count for i in range(count)]
        series: dict[str, list[tuple[float, float]]] = {}
        peak = max(1, len(samples))
        floor = world.kv_floor(index)
        before = step.start_s
        for tick in ticks:
            running = [s for s in samples if s.start_s <= tick < s.end_s and _decodes(s, tick)]
            held = [s for s in samples if s.start_s <= tick < s.end_s]
            kv = floor + (world.kv_peak - floor) * len(held) / peak
            self._gauge(series, "running", tick, len(running))
            self._gauge(series, "waiting", tick, 0)
            self._gauge(series, "kv", tick, min(1.0, kv) if held else floor)
            for name, value in self._count(samples, before, tick).items():
                key = (replica, name)
                totals[key] = totals.get(key, 0.0) + value
                series.setdefault(name, []).append((tick, totals[key]))
            before = tick
        names = _SGLANG if self._engine == "sglang:" else _VLLM
        for name, points in series.items():
            spelled = names.get(name)
            if spelled is None:
                continue
            metric = metrics.add(name=self._engine + spelled)
            if name in {"running", "waiting", "kv"}:
                target = metric.gauge.data_points
            else:
                metric.sum.is_monotonic = True
                metric.sum.aggregation_temporality = _CUMULATIVE
                target = metric.sum.data_points
            labels = _pairs({"model_name": "policy", **_LABELS.get((self._engine, name), {})})
            for at_s, value in points:
                target.add(time_unix_nano=self._at(at_s), as_double=value, attributes=labels)
        yield Request("metrics", request.SerializeToString(), step.end_s)

    def _gauge(
        self, series: dict[str, list[tuple[float, float]]], name: str, at_s: float, value: float
    ) -> None:
        series.setdefault(name, []).append((at_s, value))

    def _count(self, samples: Sequence[Sample], since: float, until: float) -> dict[str, float]:
        world = self._world
        generated = prompts = prefill_s = decode_s = 0.0
        preempted = recomputed = 0.0
        for sample in samples:
            if since <= sample.start_s < until:
                prompts += sample.prompt
            if since <= sample.end_s < until and sample.preemptions:
                preempted += sample.preemptions
                recomputed += sample.output / 2
            for part in sample.parts:
                shared = min(part.end_s, until) - max(part.start_s, since)
                if part.kind == "generate" and shared > 0:
                    spent = sample.spent_s("generate")
                    generated += sample.output * shared / spent
                    prefill_s += shared * world.prefill_ratio
                    decode_s += shared * (1 - world.prefill_ratio)
        return {
            "generated": generated,
            "prompt": prompts,
            "preempted": preempted,
            "recomputed": recomputed,
            "hits": prompts * world.prefix_hits,
            "queries": prompts,
            "prefill_s": prefill_s,
            "decode_s": decode_s,
        }

    def _gpus(self) -> Iterator[Request]:
        interval_s = max(1.0, min(20.0, self._world.step_s / 24))
        hosts = list(dict.fromkeys(track.host for track in self._tracks))
        for step in self._steps:
            for host in hosts:
                own = [track for track in self._tracks if track.host == host]
                request = ExportMetricsServiceRequest()
                sender = Resource(
                    attributes=_pairs({"service.name": "node-agent", "host.name": host})
                )
                metrics = request.resource_metrics.add(resource=sender).scope_metrics.add().metrics
                targets = {
                    key: metrics.add(name=name, unit=unit).gauge.data_points
                    for name, unit, key in GPU_METRICS
                }
                at_s = math.ceil(step.start_s / interval_s) * interval_s
                while at_s < step.following_s:
                    for track in own:
                        levels = track.levels(step, at_s)
                        if levels is None:
                            continue
                        labels = _pairs(
                            {
                                "hw.id": track.uuid,
                                "gpu.index": track.index,
                                "hw.model": self._world.gpu_model,
                                "hw.type": "gpu",
                            }
                        )
                        for key, points in targets.items():
                            points.add(
                                time_unix_nano=self._at(at_s),
                                as_double=levels[key],
                                attributes=labels,
                            )
                    at_s += interval_s
                yield Request("metrics", request.SerializeToString(), step.end_s)

    # --- parts -----------------------------------------------------------------------------------

    def _spell(self, stage: str) -> str:
        return self._chance.choice(SPELLINGS.get(stage, (stage,)))

    def _id(self, size: int) -> bytes:
        return self._chance.randbytes(size)

    def _at(self, seconds: float) -> int:
        return self._origin_ns + round(seconds * NS)

    def _pack(self, role: str, spans: Sequence[Span], **more: object) -> bytes:
        request = ExportTraceServiceRequest()
        of_resource = request.resource_spans.add(resource=self._resource(role, **more))
        of_resource.scope_spans.add(spans=spans)
        return request.SerializeToString()

    def _span(
        self,
        name: str,
        start_s: float,
        end_s: float,
        values: Attributes,
        trace: bytes,
        own: bytes = b"",
        parent: bytes = b"",
    ) -> Span:
        return Span(
            trace_id=trace,
            span_id=own or self._id(8),
            parent_span_id=parent,
            name=name,
            start_time_unix_nano=self._at(start_s),
            end_time_unix_nano=self._at(end_s),
            attributes=_pairs(values),
        )


_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_VLLM = {
    "running": "num_requests_running",
    "waiting": "num_requests_waiting",
    "kv": "kv_cache_usage_perc",
    "generated": "generation_tokens_total",
    "prompt": "prompt_tokens_total",
    "preempted": "num_preemptions_total",
    "recomputed": "prompt_tokens_recomputed_total",
    "hits": "prefix_cache_hits_total",
    "queries": "prefix_cache_queries_total",
    "prefill_s": "request_prefill_time_seconds_sum",
    "decode_s": "request_decode_time_seconds_sum",
}
_SGLANG = {
    "running": "num_running_reqs",
    "waiting": "num_queue_reqs",
    "kv": "token_usage",
    "generated": "realtime_tokens_total",
    "prompt": "prompt_tokens_total",
    "hits": "cached_tokens_total",
    "preempted": "num_retracted_requests_total",
    "recomputed": "num_retracted_output_tokens_total",
}
_LABELS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("sglang:", "generated"): {"mode": "decode"},
}


def _decodes(sample: Sample, at_s: float) -> bool:
    return any(
        part.kind == "generate" and part.start_s <= at_s < part.end_s for part in sample.parts
    )


def _present(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _pairs(values: Mapping[str, object]) -> list[KeyValue]:
    return [KeyValue(key=name, value=_value(value)) for name, value in values.items()]


def _value(value: object) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list():
            values = cast("list[object]", value)
            return AnyValue(array_value=ArrayValue(values=[_value(each) for each in values]))
        case _:
            return AnyValue(string_value=str(value))
