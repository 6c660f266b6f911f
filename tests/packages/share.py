"""A plugin of pytest: of all collected tests, those below a few folders are run.

It runs in the environment of one package, beside its tests, and imports nothing of ours.
"""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", default="", help="folders of the tests that are run, separated by commas")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the share; the others are counted as deselected."""
    folders = [Path(folder) for folder in config.getoption("--share").split(",")]
    kept = [item for item in items if any(item.path.is_relative_to(folder) for folder in folders)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
