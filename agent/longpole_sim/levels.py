"""What a GPU shows in each stage: levels as NVML and GPM would report them on an H100.

`utilization_ratio` only says that some kernel ran: it is near 1 in a busy update, in a sparse
decode and in a hung collective alike. SM, tensor and DRAM activity and power tell them apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

from longpole.conventions.stages import (
    OLD_LOG_PROB,
    REF,
    SAVE_CHECKPOINT,
    UPDATE_ACTOR,
    UPDATE_CRITIC,
    UPDATE_WEIGHTS,
    VALUES,
)

_GIB = 1 << 30
_BASE_CLOCK_HZ = 1.98e9
_THROTTLED_CLOCK_HZ = 1.08e9
# Clock-event reasons of NVML: nothing runs; the power cap holds; too hot.
REASON_IDLE, REASON_POWER_CAP, REASON_THERMAL = 0x1, 0x4, 0x40
_POWER_CAP_WATTS = 640.0
# Load per GPU from which decoding keeps the engine's kernels full.
_FULL_LOAD_PER_GPU = 48.0


@dataclass(frozen=True, slots=True)
class GpuLevels:
    """Levels of one GPU. Fields are named like the columns of a GPU sample."""

    utilization_ratio: float = 0.0
    sm_active_ratio: float = 0.0
    tensor_active_ratio: float = 0.0
    dram_active_ratio: float = 0.0
    power_watts: float = 118.0
    memory_used_bytes: float = 4.0 * _GIB
    sm_clock_hz: float = _BASE_CLOCK_HZ
    clocks_event_reasons: int = REASON_IDLE
    nvlink_rx_bytes_per_s: float = 0.0
    nvlink_tx_bytes_per_s: float = 0.0
    pcie_rx_bytes_per_s: float = 2e7
    pcie_tx_bytes_per_s: float = 2e7

    def blended(self, other: "GpuLevels", weight: float) -> "GpuLevels":
        """Return the mean of both, `other` counting `weight` (0..1).

        Clock-event reasons are bits, not amounts: both show.
        """
        values = {
            field.name: (1 - weight) * getattr(self, field.name)
            + weight * getattr(other, field.name)
            for field in fields(self)
        }
        values["clocks_event_reasons"] = self.clocks_event_reasons | other.clocks_event_reasons
        return GpuLevels(**values)


# Nothing of the run is loaded.
EMPTY = GpuLevels(memory_used_bytes=0.6 * _GIB, power_watts=72.0, sm_clock_hz=0.345e9)
_TRAINING_MEMORY: Mapping[str, float] = MappingProxyType(
    {
        OLD_LOG_PROB: 38.0,
        REF: 40.0,
        VALUES: 38.0,
        UPDATE_CRITIC: 58.0,
        UPDATE_ACTOR: 62.0,
        UPDATE_WEIGHTS: 44.0,
        SAVE_CHECKPOINT: 36.0,
    }
)
_WAITING_MEMORY_GIB = 30.0
_ROLLOUT_MEMORY_GIB = 69.0


def waiting(stage: str) -> GpuLevels:
    """Return the levels of a GPU that a stage leaves alone, weights still in memory."""
    gib = _TRAINING_MEMORY.get(stage, _WAITING_MEMORY_GIB)
    return GpuLevels(memory_used_bytes=gib * _GIB)


def decoding(load: float, throttled: bool = False) -> GpuLevels:
    """Return the levels of a GPU of a replica with `load` running sequences per GPU."""
    if load <= 0:
        return GpuLevels(power_watts=126.0, memory_used_bytes=_ROLLOUT_MEMORY_GIB * _GIB)
    full = min(1.0, load / _FULL_LOAD_PER_GPU)
    clock = _THROTTLED_CLOCK_HZ if throttled else _BASE_CLOCK_HZ
    pace = clock / _BASE_CLOCK_HZ
    return GpuLevels(
        utilization_ratio=1.0,
        sm_active_ratio=0.36 + 0.36 * full,
        tensor_active_ratio=0.02 + 0.14 * full,
        dram_active_ratio=(0.74 - 0.14 * full) * pace,
        power_watts=118.0 + (150.0 + 190.0 * full) * pace,
        memory_used_bytes=(_ROLLOUT_MEMORY_GIB + 2.0 * full) * _GIB,
        sm_clock_hz=clock,
        clocks_event_reasons=REASON_THERMAL if throttled else 0,
        nvlink_rx_bytes_per_s=1.5e9 + 9e9 * full,
        nvlink_tx_bytes_per_s=1.5e9 + 9e9 * full,
    )


def computing(stage: str, mfu: float) -> GpuLevels:
    """Return the levels of a training stage whose kernels reach `mfu` while they run."""
    power = min(690.0, 250.0 + 950.0 * mfu)
    capped = power > _POWER_CAP_WATTS
    return GpuLevels(
        utilization_ratio=1.0,
        sm_active_ratio=min(0.95, 0.40 + 1.15 * mfu),
        tensor_active_ratio=min(0.90, 1.35 * mfu),
        dram_active_ratio=min(0.60, 0.22 + 0.35 * mfu),
        power_watts=power,
        memory_used_bytes=_TRAINING_MEMORY[stage] * _GIB,
        sm_clock_hz=1.72e9 if capped else _BASE_CLOCK_HZ,
        clocks_event_reasons=REASON_POWER_CAP if capped else 0,
        nvlink_rx_bytes_per_s=60e9,
        nvlink_tx_bytes_per_s=60e9,
    )


def bubble(busy: GpuLevels) -> GpuLevels:
    """Return the levels between two mini-batches: optimiser, gathers, launches."""
    return replace(
        busy,
        utilization_ratio=0.72,
        sm_active_ratio=0.16,
        tensor_active_ratio=0.0,
        dram_active_ratio=0.30,
        power_watts=235.0,
        sm_clock_hz=_BASE_CLOCK_HZ,
        clocks_event_reasons=0,
    )


def transferring(method: str) -> GpuLevels:
    """Return the levels while weights move: copy kernels run, hardly any power is drawn."""
    levels = replace(waiting(UPDATE_WEIGHTS), clocks_event_reasons=0)
    if method == "nccl":
        return replace(
            levels,
            utilization_ratio=0.95,
            sm_active_ratio=0.12,
            dram_active_ratio=0.15,
            power_watts=172.0,
            nvlink_rx_bytes_per_s=130e9,
            nvlink_tx_bytes_per_s=130e9,
        )
    return replace(
        levels,
        utilization_ratio=0.08,
        sm_active_ratio=0.01,
        dram_active_ratio=0.02,
        power_watts=128.0,
        pcie_rx_bytes_per_s=5e9,
        pcie_tx_bytes_per_s=1e9,
    )


def saving() -> GpuLevels:
    """Return the levels while a checkpoint is written: memory is copied to the host."""
    return replace(
        waiting(SAVE_CHECKPOINT),
        utilization_ratio=0.10,
        sm_active_ratio=0.01,
        dram_active_ratio=0.03,
        power_watts=130.0,
        clocks_event_reasons=0,
        pcie_tx_bytes_per_s=9e9,
    )


def hanging(stage: str) -> GpuLevels:
    """Return the levels of a collective that never completes: its kernel spins."""
    return replace(
        waiting(stage),
        utilization_ratio=1.0,
        sm_active_ratio=0.06,
        dram_active_ratio=0.004,
        power_watts=134.0,
        clocks_event_reasons=0,
    )


def throttled(levels: GpuLevels, clock_ratio: float) -> GpuLevels:
    """Return levels as a GPU shows them whose clock is held down because it is too hot."""
    if not levels.utilization_ratio:
        return levels
    return replace(
        levels,
        sm_clock_hz=_BASE_CLOCK_HZ * clock_ratio,
        power_watts=118.0 + (levels.power_watts - 118.0) * clock_ratio,
        clocks_event_reasons=REASON_THERMAL,
    )


FORWARD_STAGES = frozenset({OLD_LOG_PROB, REF, VALUES})
UPDATE_STAGES = frozenset({UPDATE_ACTOR, UPDATE_CRITIC})
