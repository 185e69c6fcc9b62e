"""verl's plugin: loaded by `import verl` in every process, through the entry point `verl.plugins`.

It adds what verl's scalars cannot give: windows of stages, one trajectory a sample, the model's
configuration, and the role of each process. `LONGPOLE_VERL=off` leaves verl alone.
"""

import os

from longpole.hooks.late_imports import LateImports

VARIABLE = "LONGPOLE_VERL"
_OFF = frozenset({"0", "off", "false", "no", "none"})


def install() -> None:
    """Watch for the modules of verl that are recorded. Called once, at import."""
    if os.environ.get(VARIABLE, "").strip().lower() in _OFF:
        return
    from longpole.hooks import verl_agent_loop, verl_trainer, verl_workers

    watcher = LateImports("the verl plugin")
    for hook in (verl_trainer, verl_agent_loop, verl_workers):
        for name, action in hook.WATCHED.items():
            watcher.watch(name, action)
    watcher.install()


install()
