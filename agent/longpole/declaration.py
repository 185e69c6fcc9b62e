"""What a trainer says about itself and its run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

CONTROLLER, TRAINER = "controller", "trainer"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the trainer says about itself at `init`; the fields are that call's arguments.

    Attributes:
        follows_rank_0: Whether another rank of the same program leads the loop and logs for all.
    """

    run_id: str | None = None
    project: str | None = None
    name: str | None = None
    system: str | None = None
    system_version: str | None = None
    algorithm: str | None = None
    mode: str | None = None
    role: str | None = None
    attempt: int | None = None
    gpu_count: int | None = None
    gpu_ids: Sequence[str] | None = None
    model_name: str | None = None
    model_config: object = None
    staleness_bound: float | None = None
    staleness_basis: str | None = None
    instance: str | None = None
    host: str | None = None
    follows_rank_0: bool = False

    @property
    def is_controller(self) -> bool:
        """Whether this process leads the loop, and so begins and ends the run."""
        return self.role is not None and str(self.role).lower() == CONTROLLER

    def of_rank(self, rank: int | None) -> "Declaration":
        """Return what a process of this rank says: where no role was named, ranks share one loop.

        Args:
            rank: Which of several processes it is, None for one on its own.
        """
        if self.role is not None and self.role != "":
            return self
        if rank:
            return replace(self, role=TRAINER, follows_rank_0=True)
        return replace(self, role=CONTROLLER)

    def of_child(self) -> "Declaration":
        """Return what a forked child says: the same run, but it is no second controller."""
        return replace(self, role=None) if self.is_controller else self
