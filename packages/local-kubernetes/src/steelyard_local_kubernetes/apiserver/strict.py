"""Faults of bodies in their order, as strict decoding names them: fields that stand there twice, unknown fields."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import orjson

from steelyard_local_kubernetes.apiserver.schema import Node

_FREE = Node()
_MOST = 100  # faults that a real server names
_LONGEST = 4096  # characters of a path


class _Fields(list[tuple[str, Any]]):
    """An object as it was sent, with what it has twice."""


def has_key_twice(body: bytes, value: Any) -> bool:
    """Return whether a key may be lost in the value of a body; never a wrong no.

    A lost key takes its quotes with it, so counting them saves the search. An escape could make up for it.
    """
    return b"\\u" in body or body.count(b'"') != orjson.dumps(value).count(b'"')


def strict_faults(node: Node, body: bytes, *, free: bool) -> list[str]:
    """Faults of a body of JSON; of a `free` one, which Go reads without a structure, fields that it has twice alone."""
    sent = json.loads(body, object_pairs_hook=_Fields)
    # An object that stands there twice has its faults twice. A body of 3 MiB has hundreds of thousands: only the first
    # are looked for.
    return list(dict.fromkeys(islice(_faults(_FREE if free else node, sent, ""), 10 * _MOST)))[:_MOST]


def _faults(node: Node, value: Any, path: str) -> Iterator[str]:
    # Go decodes such a part for itself, and asks nothing of it.
    if node.part is not None:
        return
    if isinstance(value, _Fields):
        yield from _field_faults(node, value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(node.items or _FREE, item, f"{path}[{index}]")


def _field_faults(node: Node, fields: _Fields, path: str) -> Iterator[str]:
    seen: dict[str, int] = {}
    for name, member in fields:
        count = seen[name] = seen.get(name, 0) + 1
        # A key can be megabytes long, and hold very many others.
        where = (f"{path}.{name}" if path else name)[:_LONGEST]
        below = (node.properties or {}).get(name) or node.values or (_FREE if node.preserve else None)
        if below is None:
            if count == 1:
                yield f"unknown field {json.dumps(where, ensure_ascii=False)}"
            continue
        if count == 2:
            yield f"duplicate field {json.dumps(where, ensure_ascii=False)}"
        yield from _faults(below, member, where)
