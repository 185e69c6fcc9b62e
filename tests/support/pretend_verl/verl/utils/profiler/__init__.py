from verl.utils.profiler.performance import marked_timer, simple_timer
from verl.utils.profiler.profile import DistProfiler

__all__ = ["DistProfiler", "marked_timer", "simple_timer"]
