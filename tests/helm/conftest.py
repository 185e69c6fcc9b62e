from collections.abc import Iterator

import pytest

from support.helm_child import HelmChild


@pytest.fixture(scope="session")
def helm() -> Iterator[HelmChild]:
    child = HelmChild()
    yield child
    child.close()
