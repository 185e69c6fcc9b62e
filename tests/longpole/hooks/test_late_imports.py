import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from longpole.hooks.late_imports import LateImports


@pytest.fixture
def watcher() -> Iterator[LateImports]:
    watcher = LateImports("the test")
    yield watcher
    if watcher in sys.meta_path:
        sys.meta_path.remove(watcher)


@pytest.fixture
def package(tmp_path: Path) -> Iterator[str]:
    name = "late_package"
    directory = tmp_path / name
    directory.mkdir()
    (directory / "__init__.py").write_text("from .inner import value\n")
    (directory / "inner.py").write_text("value = 1\n")
    sys.path.insert(0, str(tmp_path))
    yield name
    sys.path.remove(str(tmp_path))
    for module in [each for each in sys.modules if each.startswith(name)]:
        del sys.modules[module]


def set_value(module: ModuleType) -> None:
    module.__dict__["value"] = 2


def test_a_module_is_changed_before_others_copy_from_it(watcher: LateImports, package: str) -> None:
    watcher.watch(f"{package}.inner", set_value)
    watcher.install()
    module = importlib.import_module(package)
    assert module.value == 2
    assert module.__spec__ is not None
    assert module.__spec__.name == package


def test_what_was_imported_is_changed_now(watcher: LateImports, package: str) -> None:
    inner = importlib.import_module(f"{package}.inner")
    watcher.watch(f"{package}.inner", set_value)
    assert inner.value == 2


def test_a_failing_action_is_one_line_and_the_import_goes_on(
    watcher: LateImports, package: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(module: ModuleType) -> None:
        raise LookupError(f"no timer in {module.__name__}")

    watcher.watch(f"{package}.inner", fail)
    watcher.install()
    with caplog.at_level(logging.WARNING):
        assert importlib.import_module(package).value == 1
    (record,) = caplog.records
    assert "the test does not know this late_package.inner" in record.message


def test_what_does_not_exist_fails_as_ever(watcher: LateImports) -> None:
    watcher.watch("late_package_that_is_not", set_value)
    watcher.install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("late_package_that_is_not")
