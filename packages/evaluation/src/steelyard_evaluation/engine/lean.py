"""Settings that keep a process small and steady that only makes calls: no pandas, and rare garbage
collection.

`shape` calls the first when it is imported, the engine the second around an attempt.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec

import pyarrow as pa

_SELDOM = (20_000, 20, 100)
_usual: list[tuple[int, int, int]] = []


def spare_pandas() -> None:
    """Keep pyarrow from importing pandas only to see whether it is there: 130 ms and 40 MB, at its first array.

    It asks once. Where a table is turned into a data frame later on, it imports pandas then.
    """
    if "pandas" in sys.modules:
        return
    # pyarrow tries `import pandas` at its first conversion and remembers whether there is one; only the
    # import costs.
    sys.meta_path.insert(0, absent := _Absent())
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(absent)


class _Absent:
    """Finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not looked for now", name=name)
        return None


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Exempt the existing objects, and search for cycles seldom: each search delays all calls in flight.

    Answers make no cycles. What one attempt leaves is collected after it.
    """
    _usual.append(gc.get_threshold())
    # A collection of the oldest generation would walk every object that the imported libraries have made.
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*_usual.pop())
        if not _usual:
            gc.unfreeze()
