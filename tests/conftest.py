import signal

import pytest
from hypothesis import settings

# No test depends on timing: a busy machine makes any example slow.
settings.register_profile("longpole", deadline=None)
settings.load_profile("longpole")

# Started in the background of a shell, pytest ignores Ctrl-C, and so would the programs it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let people kill more often than the suite does."""
    parser.addoption("--rounds", type=int, default=6, help="kills in tests/faults (default 6)")
    parser.addoption("--whole-server", action="store_true", help="tests/faults kill all of it")
