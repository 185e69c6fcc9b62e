"""Recording without a line of code: `LONGPOLE_AUTOLOG=1` in the environment of a training.

Python reads `longpole_autolog.pth` of its site-packages when it starts; with the variable set that
calls `install` in every process. A process that logs nothing sends nothing, and opens no session.
"""

import os

VARIABLE = "LONGPOLE_AUTOLOG"
_OFF = frozenset({"", "0", "off", "false", "no", "none"})


def install() -> None:
    """Watch what frameworks and loggers are told, and let the first of it open the session."""
    if os.environ.get(VARIABLE, "").strip().lower() in _OFF:
        return
    from longpole.hooks import frameworks, scalars, taking

    taking.open_by_itself()
    frameworks.watch_frameworks()
    scalars.watch_loggers()
