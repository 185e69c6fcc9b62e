"""What a trainer says about itself and its run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the trainer says about itself at `init`; the fields are that call's arguments."""

    run_id: str | None = None
    project: str | None = None
    name: str | None = None
    system: str | None = None
    system_version: str | None = None
    algorithm: str | None = None
    mode: str | None = None
    role: str | None = CONTROLLER
    attempt: int | None = None
    gpu_count: int | None = None
    gpu_ids: Sequence[str] | None = None
    model_name: str | None = None
    model_config: object = None
    staleness_bound: float | None = None
    staleness_basis: str | None = None
    instance: str | None = None
    host: str | None = None

    def of_child(self) -> "Declaration":
        """Return what a forked child says: the same run, but it is no second controller."""
        return replace(self, role=None) if self.role == CONTROLLER else self
