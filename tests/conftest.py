import signal

import pytest
from hypothesis import HealthCheck, settings

# No test depends on timing: a busy machine makes any example slow. The suite tries the same
# examples each time, so that red means a change, and few; `make search` draws many new ones, and
# what it finds becomes an @example of its test.
settings.register_profile(
    "longpole",
    deadline=None,
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("longpole")

# Started in the background of a shell, pytest ignores Ctrl-C, and so would the programs it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let people kill more often than the suite does."""
    parser.addoption("--rounds", type=int, default=6, help="kills in tests/faults (default 6)")
    parser.addoption("--whole-server", action="store_true", help="tests/faults kill all of it")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: they may hold times and ids, and all workers need one name."""
    return argname if isinstance(val, bytes) and val else None
