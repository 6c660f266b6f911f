"""Objects made from the OpenAPI schema by a fixed seed: valid ones, and the same with one field wrong."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from steelyard.local.apiserver.schema import Node
from steelyard.types import Json
from tests.kubernetes_api.strange import BASES, KINDS
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


def wrong_objects(kind: str) -> list[Json]:
    """The base with one field wrong, for a choice of fields that does not depend on the other fields."""
    rows: list[tuple[float, Json]] = []
    for path, node in paths(KINDS[kind].node(), BASES[kind]):
        draw = random.Random(f"{kind} {path}")
        value = draw.choice(WRONG.get(node.type, WRONG["object"]))
        rows.append((draw.random(), changed(BASES[kind], path, value)))
    rows.sort(key=lambda row: row[0])
    return [row for _, row in rows[:MOST]]


def collection(kind: str) -> str:
    served = KINDS[kind]
    return f"/{served.group_version}{'/namespaces/{{ns}}' if served.namespaced else ''}/{served.plural}?{DRY}"


def whole(kind: str, obj: Json) -> Json:
    name = "stranges.strange.example.com" if kind == CUSTOM else "strange"
    text: Any = obj | {"metadata": {"name": name}}
    if kind == "Event":
        text["involvedObject"] = (
            {**text["involvedObject"], "namespace": "{{ns}}"}
            if isinstance(text.get("involvedObject"), dict)
            else text.get("involvedObject")
        )
    return dict(text)


def cases_of(kind: str) -> Iterator[Case]:
    path = collection(kind)
    yield Case(f"random: {kind}, valid", post(path, whole(kind, BASES[kind])))
    objects = wrong_objects(kind)
    for start in range(0, len(objects), IN_ONE):
        steps = [post(path, whole(kind, obj), compare=MEMBERS) for obj in objects[start : start + IN_ONE]]
        yield Case(f"random: {kind}, wrong {start // IN_ONE + 1}", *steps)


CASES = [case for kind in sorted(BASES) for case in cases_of(kind)]
