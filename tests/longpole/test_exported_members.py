import subprocess
import sys
import types

import longpole


def test_all_is_what_is_there() -> None:
    public = {
        name
        for name, value in vars(longpole).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public | {"__version__"} == set(longpole.__all__)
    assert longpole.__all__ == sorted(longpole.__all__)


def test_import_starts_nothing_and_loads_nothing_heavy() -> None:
    program = """
import sys, threading
hook = sys.excepthook
import longpole
heavy = [name for name in sys.modules if name.split(".")[0] in {"opentelemetry", "google", "ssl"}]
print(heavy, threading.active_count(), sys.excepthook is hook)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[] 1 True"
