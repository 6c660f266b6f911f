"""Fixtures of integration tests: a connection that was not closed is charged to the file whose test opened it, and
machines end with the process that runs the tests.
"""

import gc
from collections.abc import Generator, Iterator

import pytest

from tests.leftovers import machines_end_with_this_process


@pytest.fixture(scope="session", autouse=True)
def _guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with machines_end_with_this_process(tmp_path_factory.getbasetemp()):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Collect garbage after each file and its fixtures: what they leave open warns here, not in another file's test."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
