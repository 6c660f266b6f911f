"""Sets of fields as `managedFields` writes them (FieldsV1): a tree whose keys name fields, items and values.

An element is `f:name` for a field, `k:{"name":"a"}` for an item of a list map and `v:"a"` for a value of a set.
"""

import json
from collections.abc import Iterator
from typing import Any

from steelyard_common.types import Json

Path = tuple[str, ...]


class FieldSet:
    """Members are fields in the set; children have members of their own below them, and may be members, too."""

    __slots__ = ("children", "members")

    def __init__(
        self, members: set[str] | None = None, children: "dict[str, FieldSet] | None" = None
    ) -> None:
        self.members = members if members is not None else set()
        self.children = children if children is not None else {}

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSet):
            return NotImplemented
        return self.members == other.members and self.children == other.children

    def __hash__(self) -> int:
        raise TypeError("a field set changes")

    def __or__(self, other: "FieldSet") -> "FieldSet":
        children = dict(self.children)
        for element, below in other.children.items():
            children[element] = children[element] | below if element in children else below
        return FieldSet(self.members | other.members, children)

    def __and__(self, other: "FieldSet") -> "FieldSet":
        children = {}
        for element, below in self.children.items():
            if element in other.children and (shared := below & other.children[element]):
                children[element] = shared
        return FieldSet(self.members & other.members, children)

    def __sub__(self, other: "FieldSet") -> "FieldSet":
        """Remove the other's members; fields below a member stay."""
        return self._without(other, recursive=False)

    def without_below(self, other: "FieldSet") -> "FieldSet":
        """Remove the other's members and all that is below them."""
        return self._without(other, recursive=True)

    def _without(self, other: "FieldSet", *, recursive: bool) -> "FieldSet":
        children = {}
        for element, below in self.children.items():
            if recursive and element in other.members:
                continue
            rest = (
                below._without(other.children[element], recursive=recursive)
                if element in other.children
                else below
            )
            if rest:
                children[element] = rest
        return FieldSet(self.members - other.members, children)

    def paths(self) -> Iterator[Path]:
        """Every member, in the order in which a real server lists them."""
        for element in sorted(self.members, key=_order):
            yield (element,)
        for element in sorted(self.children, key=_order):
            for path in self.children[element].paths():
                yield (element, *path)


def field_set(*paths: Path) -> FieldSet:
    result = FieldSet()
    for path in paths:
        within = result
        for element in path[:-1]:
            within = within.children.setdefault(element, FieldSet())
        within.members.add(path[-1])
    return result


def contains(fields: FieldSet, path: Path) -> bool:
    for element in path[:-1]:
        if element not in fields.children:
            return False
        fields = fields.children[element]
    return path[-1] in fields.members


# ---- elements


def field_element(name: str) -> str:
    return f"f:{name}"


def key_element(keys: Json) -> str:
    return f"k:{_text(keys)}"


def value_element(value: object) -> str:
    return f"v:{_text(value)}"


def _text(value: object) -> str:
    """JSON as Go writes it: one spelling per value, so that elements compare as texts."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def path_text(path: Path) -> str:
    """A path as conflicts name it: `.spec.containers[name="a"].image`."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    value = json.loads(rest)
    if kind == "k":
        return "[" + ",".join(f"{name}={_json_text(value[name])}" for name in sorted(value)) + "]"
    return f"[={_json_text(value)}]"


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _order(element: str) -> tuple[Any, ...]:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return (0, rest)
    value = json.loads(rest)
    if kind == "k":
        return (1, *(part for name in sorted(value) for part in (name, *_rank(value[name]))))
    return (2, *_rank(value))


def _rank(value: object) -> tuple[int, Any]:
    """Numbers before texts before truth values: values of one rank can be compared."""
    match value:
        case bool():
            return 2, value
        case int() | float():
            return 0, value
        case _:
            return 1, str(value)


# ---- the form in objects


def to_fields(fields: FieldSet) -> Json:
    """FieldsV1."""
    content: Json = {}
    for element in sorted(fields.members | fields.children.keys(), key=_order):
        below = fields.children.get(element)
        inner = to_fields(below) if below is not None else {}
        content[element] = {".": {}, **inner} if inner and element in fields.members else inner
    return content


def from_fields(content: Json) -> FieldSet:
    """Read FieldsV1; elements of kinds that are not known are dropped. ValueError where it is malformed."""
    fields, _ = _read(content)
    return fields


def _read(content: object) -> tuple[FieldSet, bool]:
    if not isinstance(content, dict):
        raise ValueError("fieldsV1 is no tree of fields")
    fields, member = FieldSet(), "." in content
    for text, below in content.items():
        element = _element(text) if text != "." else ""
        if not element:
            continue
        inner, inner_member = _read(below)
        if inner_member:
            fields.members.add(element)
        if inner:
            fields.children[element] = inner
    return fields, member or not fields


def _element(text: str) -> str:
    kind, colon, rest = text.partition(":")
    if not colon:
        raise ValueError(f"missing colon: {text}")
    match kind:
        case "f":
            return text
        case "k":
            keys = json.loads(rest)
            if not isinstance(keys, dict):
                raise ValueError(f"no keys: {text}")
            return key_element(keys)
        case "v":
            return value_element(json.loads(rest))
    return ""
