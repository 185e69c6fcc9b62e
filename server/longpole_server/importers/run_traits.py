"""What the names of a log tell about the run: framework, mode, number of GPUs."""

from collections.abc import Mapping

from longpole_server.analysis.scalar_ledger import read_step_seconds
from longpole_server.analysis.timers import find_scheme
from longpole_server.importers.verl_run import ModeWatch, agree_on_gpu_count, derive_gpu_count

_VERL = "verl"
# Schemes with the framework's name in words of their own.
_SYSTEM_OF_SCHEME = {"verl (first versions)": _VERL}
# Lags that only an asynchronous trainer's samples have. AReaL's versions differ by one in how they
# count.
_LAG_OF_ASYNCHRONOUS: Mapping[str, float] = {
    "version_stats/sample_staleness_theta_avg": 1.0,
    "ppo_actor/version_stats/sample_staleness_theta_avg": 1.0,
    "ppo_actor/update/version_stats/sample_staleness_theta_avg": 1.0,
    "scheduler/off_policy_ratio": 0.0,
}
_ASYNCHRONOUS = "separate_async"
# Timers that only the synchronous trainer of a framework has.
_SYNCHRONOUS: Mapping[str, tuple[str, ...]] = {
    "nemo_rl": ("timing/train/generation",),
    "skyrl": ("timing/generate",),
}
_MAX_DERIVED = 10_000


class RunTraits:
    """Learns about a run from what its steps log.

    Args:
        system: The framework where the format tells it.

    Attributes:
        system: The framework, None when nothing tells.
        format_mode: The mode that the format tells, None when it does not.
    """

    def __init__(self, system: str | None = None) -> None:
        self.system = system
        self.format_mode: str | None = None
        self._names: dict[str, None] = {}
        self._mode_watch = ModeWatch()
        self._lags = False
        self._derived: list[float] = []

    def add(self, scalars: Mapping[str, float]) -> None:
        """Look at one step's scalars."""
        if self.system is None and (scheme := find_scheme(scalars)) is not None:
            self.system = _SYSTEM_OF_SCHEME.get(scheme.name, scheme.name)
        self._names.update(dict.fromkeys(scalars))
        self._mode_watch.add(scalars)
        self._lags = self._lags or any(
            scalars.get(name, 0.0) > lag for name, lag in _LAG_OF_ASYNCHRONOUS.items()
        )
        count = derive_gpu_count(scalars)
        if count is not None and len(self._derived) < _MAX_DERIVED:
            self._derived.append(count)

    @property
    def mode(self) -> str | None:
        """The mode, None when several fit."""
        if self.system in (None, _VERL):
            return self._mode_watch.mode
        if (mode := self._mode_watch.asynchronous_mode) is not None:
            return mode
        if self._lags:
            return _ASYNCHRONOUS
        if self.format_mode is not None:
            return self.format_mode
        known = _SYNCHRONOUS.get(self.system, ())
        return "sync" if any(name in self._names for name in known) else None

    @property
    def mode_is_ambiguous(self) -> bool:
        """Whether it is one of two asynchronous modes, nobody knows which."""
        return self._mode_watch.is_ambiguous

    @property
    def gpu_count(self) -> int | None:
        """The whole number of GPUs that most steps agree on."""
        return agree_on_gpu_count(self._derived)[0]

    @property
    def num_contradicting(self) -> int:
        """How many steps contradict that number."""
        return agree_on_gpu_count(self._derived)[1]

    @property
    def num_derived(self) -> int:
        """Of how many steps a number of GPUs can be told."""
        return len(self._derived)


def is_timed(scalars: Mapping[str, float]) -> bool:
    """Return whether a scalar holds the seconds of the whole step."""
    return read_step_seconds(scalars) is not None
