"""The page about testing: every example on it, run as it stands."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard_common.types import Json

PAGE = (Path(__file__).parents[1] / "docs/testing.md").read_text()
NAMES: Json = {"__name__": "page"}
for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
    exec(compile(block, "testing.md", "exec", dont_inherit=True), NAMES)
TESTS = {name: value for name, value in NAMES.items() if name.startswith("test_")}


@pytest.mark.parametrize("example", TESTS.values(), ids=TESTS)
def test_an_example_passes(example: Callable[[], None]) -> None:
    example()


def test_there_are_examples() -> None:
    assert len(TESTS) >= 3
