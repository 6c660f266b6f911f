"""Less search for garbage: hundreds of cases make short-lived objects beside a large tree of modules that stays."""

from collections.abc import Iterator

import pytest

from steelyard_evaluation.engine.lean import seldom_collecting


@pytest.fixture(scope="package", autouse=True)
def lean() -> Iterator[None]:
    with seldom_collecting():
        yield
