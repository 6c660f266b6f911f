"""`import steelyard` takes no time, and its names are loaded when they are used."""

import subprocess
import sys

import pytest

import steelyard
import steelyard_evaluation
from steelyard.client import AsyncClient, Client
from steelyard_common import __version__

PROGRAM = """
import sys
before = set(sys.modules)
import steelyard
loaded = set(sys.modules) - before
print(*sorted(name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names))
print(len(loaded))
from steelyard import Client
print("httpx" in sys.modules, "numpy" in sys.modules)
"""


def test_the_import_loads_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["steelyard", "1", "True False"]


def test_each_name_is_that_of_its_home() -> None:
    assert (steelyard.Client, steelyard.AsyncClient) == (Client, AsyncClient)
    assert steelyard.evaluate is steelyard_evaluation.evaluate
    assert steelyard.compare is steelyard_evaluation.compare
    assert steelyard.__version__ == __version__
    assert {name: hasattr(steelyard, name) for name in steelyard.__all__} == dict.fromkeys(
        steelyard.__all__, True
    )
    with pytest.raises(AttributeError, match="module 'steelyard' has no attribute 'Clients'"):
        steelyard.Clients  # type: ignore[attr-defined] # noqa: B018
