"""What rollout engines report over time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class EngineLanes:
    """Gauges and counters of rollout engines, binned; NaN where nothing was reported.

    Every array is float32 with the shape (replicas, bins).

    Attributes:
        replicas: One per row.
        start_ns, bin_ns: Bin `i` covers `start_ns + i * bin_ns` up to the next.
        kv_usage_ratio: Largest share of the KV cache in use, 0..1.
        running, waiting: Mean number of requests.
        preemptions: Requests that were preempted in the bin.
    """

    replicas: tuple[str, ...]
    start_ns: int
    bin_ns: int
    kv_usage_ratio: NDArray[np.float32]
    running: NDArray[np.float32]
    waiting: NDArray[np.float32]
    preemptions: NDArray[np.float32]
