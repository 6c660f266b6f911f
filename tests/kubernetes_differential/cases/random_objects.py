"""Objects made from the OpenAPI schema by fixed seeds: valid ones, the same with one field wrong, and variations in
which a few fields are left out or added.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.schema import Node
from tests.kubernetes_api.strange import BASES, kind_of
from tests.kubernetes_differential.case import Case, post
from tests.kubernetes_differential.samples import DRY

MOST = 72  # wrong objects of a kind
IN_ONE = 12
CUSTOM = "CustomResourceDefinition"
Path = tuple[str | int, ...]
INTEGERS: list[Any] = [-1, 0, 2**31, 2**63, 1.5, "1", True]
TEXTS: list[Any] = ["", "A_b", "a b", "../x", "x" * 300, "-1", "101%", 5, False, "$(A)", "ü"]
WRONG: dict[str, list[Any]] = {
    "integer": INTEGERS,
    "number": INTEGERS,
    "string": TEXTS,
    "boolean": ["true", 1],
    "int-or-string": [-1, 2**31, "", "x", "101%", 1.5, True],
    "quantity": ["x", "-1", "1e99", "", True, "0.5", "1Zi"],
    "time": ["x", "2020-01-01", "2020-13-01T00:00:00Z", 5],
    "array": [{}, "x", [None], [{}], ["a", "a"]],
    "object": [[], "x", {"a b": "c"}, {"": ""}],
}
SEEDS = 30  # variations of a kind; `python -m tests.kubernetes_differential --random` makes others
PLAUSIBLE: dict[str, list[Any]] = {
    "integer": [0, 1, 30],
    "boolean": [True, False],
    "int-or-string": [1, "50%"],
    "quantity": ["1", "500m"],
}
MEMBERS = ("spec", "data", "rules", "roleRef", "endpoints", "ports", "message", "reason", "details", "code")


def paths(node: Node, value: Any, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Fields that the object has, and fields that its schema knows beside them."""
    if path:
        yield path, node
    if isinstance(value, dict):
        for name, below in sorted((node.properties or {}).items()):
            if not path and name in ("metadata", "status", "apiVersion", "kind"):
                continue
            if name in value:
                yield from paths(below, value[name], (*path, name))
            else:
                yield (*path, name), below
        if node.values is not None and not node.properties:
            for name in sorted(value):
                yield from paths(node.values, value[name], (*path, name))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from paths(node.items, item, (*path, index))


def changed(obj: Json, path: Path, value: Any) -> Json:
    new: Any = copy.deepcopy(obj)
    below = new
    for part in path[:-1]:
        below = below[part]
    below[path[-1]] = value
    result: Json = new
    return result


def wrong_objects(base: str) -> list[Json]:
    """The base with one field wrong, for a choice of fields that does not depend on the other fields."""
    rows: list[tuple[float, Json]] = []
    for path, node in paths(kind_of(base).node(), BASES[base]):
        draw = random.Random(f"{base} {path}")
        value = draw.choice(WRONG.get(node.type, WRONG["object"]))
        rows.append((draw.random(), changed(BASES[base], path, value)))
    rows.sort(key=lambda row: row[0])
    return [row for _, row in rows[:MOST]]


def varied_object(base: str, seed: int) -> Json:
    """Return the base with one to three fields left out, or added with a value that its type allows."""
    draw = random.Random(f"{base} varied {seed}")
    obj = copy.deepcopy(BASES[base])
    for _ in range(draw.randint(1, 3)):
        places = [
            (path, node) for path, node in paths(kind_of(base).node(), obj) if _may_vary(obj, path, node)
        ]
        if not places:
            break
        path, node = draw.choice(places)
        above, last = _at(obj, path[:-1]), path[-1]
        if _has(above, last):
            del above[last]
        else:
            above[last] = draw.choice(PLAUSIBLE[node.type])
    return obj


def _may_vary(obj: Json, path: Path, node: Node) -> bool:
    # The object itself is to stay: without its `spec` there is nothing to compare.
    return len(path) > 1 if _has(_at(obj, path[:-1]), path[-1]) else node.type in PLAUSIBLE


def _has(above: Any, part: str | int) -> bool:
    return isinstance(above, list) or part in above


def _at(obj: Any, path: Path) -> Any:
    for part in path:
        obj = obj[part]
    return obj


def varied_case(base: str, first: int, count: int, name: str = "") -> Case:
    objects = [varied_object(base, seed) for seed in range(first, first + count)]
    steps = [post(collection(base), whole(base, obj)) for obj in objects]
    return Case(f"random: {base}, varied{name}", *steps)


def collection(base: str) -> str:
    served = kind_of(base)
    return f"/{served.group_version}{'/namespaces/{{ns}}' if served.namespaced else ''}/{served.plural}?{DRY}"


def whole(base: str, obj: Json) -> Json:
    name = "stranges.strange.example.com" if base == CUSTOM else "strange"
    text: Any = obj | {"metadata": {"name": name}}
    if base == "Event":
        text["involvedObject"] = (
            {**text["involvedObject"], "namespace": "{{ns}}"}
            if isinstance(text.get("involvedObject"), dict)
            else text.get("involvedObject")
        )
    return dict(text)


def cases_of(base: str) -> Iterator[Case]:
    path = collection(base)
    yield Case(f"random: {base}, valid", post(path, whole(base, BASES[base])))
    yield varied_case(base, 0, SEEDS)
    objects = wrong_objects(base)
    for start in range(0, len(objects), IN_ONE):
        steps = [post(path, whole(base, obj), compare=MEMBERS) for obj in objects[start : start + IN_ONE]]
        yield Case(f"random: {base}, wrong {start // IN_ONE + 1}", *steps)


CASES = [case for base in sorted(BASES) for case in cases_of(base)]
