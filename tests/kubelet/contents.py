"""Counts what objects of this project hold, wherever it lies: in attributes, containers, closures, waiting coroutines.

For tests of what a server keeps: a container that a developer adds is counted without being named anywhere.
"""

import gc
import sys
from asyncio import AbstractEventLoop
from collections import Counter, deque
from collections.abc import Iterable
from types import CodeType, ModuleType

PACKAGE = "steelyard"
"""Name with which the names of our packages begin."""
_CONTAINERS = (dict, list, set, frozenset, deque, tuple)
_NOT_ENTERED = (type, ModuleType, CodeType, AbstractEventLoop, str, bytes, int, float)


def contents(roots: Iterable[object], without: object = None) -> Counter[str]:
    """Number of entries of the containers that can be reached from the roots and from the package's modules.

    Each is counted once, under the way on which it was found: the attribute of a class, or the coroutine that has it.
    What only `without` refers to does not count.
    """
    modules = {name: module for name, module in sys.modules.items() if name.split(".")[0].startswith(PACKAGE)}
    # A function refers to the variables of its module, which are entered once, as a module's.
    seen = {id(without), *(id(vars(module)) for module in sys.modules.values())}
    waiting = [(type(root).__name__, root) for root in roots]
    for name, module in modules.items():
        waiting += [(f"{name}.{variable}", value) for variable, value in vars(module).items()]
    counts: Counter[str] = Counter()
    while waiting:
        path, obj = waiting.pop()
        if id(obj) in seen or isinstance(obj, _NOT_ENTERED):
            continue
        seen.add(id(obj))
        if isinstance(obj, _CONTAINERS):
            counts[path] += len(obj)
        waiting += _inside(path, obj)
    return counts


def _inside(path: str, obj: object) -> list[tuple[str, object]]:
    """Return what an object refers to, and the names of the ways there."""
    inner = gc.get_referents(obj)
    if isinstance(obj, _CONTAINERS):
        # One level alone is distinguished: containers in containers, however deep, are one place.
        return [(path if path.endswith("[]") else f"{path}[]", item) for item in inner]
    name = getattr(obj, "__qualname__", type(obj).__qualname__)
    attributes = (
        getattr(obj, "__dict__", {}) if type(obj).__module__.split(".")[0].startswith(PACKAGE) else {}
    )
    named = [(f"{name}.{attribute}", value) for attribute, value in attributes.items()]
    return [*((f"{name}", item) for item in inner if item is not attributes), *named]
