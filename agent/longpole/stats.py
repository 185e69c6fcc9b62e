"""What the SDK did with what it was given."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts since `init`, by kind: `spans`, `trajectories`, `points`, `events`.

    Attributes:
        sent: Records a receiver accepted.
        dropped: Records lost: the buffer was full, the receiver refused them, or it was not
            there when the process ended.
        skipped: Records that could not be sent at all: values that are no finite number,
            trajectories without usable times, values logged on ranks that follow rank 0.
        waiting: Records in the buffers now.
        misused: Wrong uses and troubles by kind, such as `before_init` or `nested_step`.
    """

    sent: Mapping[str, int] = field(default_factory=dict[str, int])
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    waiting: Mapping[str, int] = field(default_factory=dict[str, int])
    misused: Mapping[str, int] = field(default_factory=dict[str, int])
