"""Fixtures of integration tests: a connection that nobody closed is charged to the file whose test opened it."""

import gc

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Collect garbage after each file, so that a resource left open warns here, and not in another file's test."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
