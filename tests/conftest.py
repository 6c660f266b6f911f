"""Fixtures of integration tests: a connection that nobody closed is charged to the file whose test opened it."""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Collect garbage after each file and its fixtures: what they leave open warns here, not in another file's test."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
