"""YAML bodies as the JSON that Kubernetes makes of them: no dates, no tags, and no more nodes than bytes."""

import json
import re
from contextlib import suppress
from typing import Any

import orjson
import yaml

from steelyard_common import bounded_yaml
from steelyard_common.bounded_yaml import Limits, check
from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.content import MAX_DEPTH

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

LIMITS = Limits(nodes=30_000, depth=MAX_DEPTH)
"""Fewer nodes than a body of JSON may have, which clients send: to read YAML takes fifty times as long."""


class BadYaml(ValueError):
    """A body that is not a YAML object."""


class _Loader(_Base):  # type: ignore[misc]
    """Dates stay texts: JSON does not know them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def _bool(loader: Any, node: Any) -> bool:
    return str(loader.construct_scalar(node)).lower() in ("y", "yes", "true", "on")


# Kubernetes' library takes the single letters of YAML 1.1 for truth values too: `name: y` is none of a name there.
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))
_Loader.add_constructor("tag:yaml.org,2002:bool", _bool)


def yaml_object(body: bytes, twice: list[str] | None = None) -> Json:
    """Return the object of a body, and add to `twice` the keys that an object in it has twice, with their lines.

    Raises BadYaml.
    """
    try:
        value = orjson.loads(body)  # JSON is YAML, and what nearly all clients send
    except orjson.JSONDecodeError:
        value = _load(body, twice)
    else:
        if twice is not None and not _is_plain_json(body):
            with suppress(BadYaml):
                _load(body, twice)
    if value is None:
        return {}
    if not isinstance(value, dict):
        kind = "array" if isinstance(value, list) else "string" if isinstance(value, str) else "number"
        text = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise BadYaml(f"error unmarshaling JSON: while decoding JSON: {text}")
    return value


def _load(body: bytes, twice: list[str] | None) -> Any:
    try:
        check(body, _Loader, LIMITS)
        return _as_json(_construct(body, twice))
    except bounded_yaml.BadYaml as error:
        raise BadYaml(f"error converting YAML to JSON: yaml: {error}") from error
    except yaml.MarkedYAMLError as error:
        raise BadYaml(f"error converting YAML to JSON: yaml: {_line_text(error)}{error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadYaml(f"error converting YAML to JSON: yaml: {error}") from error


def _construct(body: bytes, twice: list[str] | None) -> Any:
    loader = _Loader(body)
    try:
        node = loader.get_single_node()
        if twice is not None:
            _visit(node, twice)  # before merge keys are followed: what they bring is in no object twice
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(name): _as_json(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise BadYaml(f"error converting YAML to JSON: yaml: a {type(value).__name__} has no form in JSON")


def _key(name: Any) -> str:
    if isinstance(name, bool):
        return str(name).lower()
    return name if isinstance(name, str) else json.dumps(name)


def _is_plain_json(body: bytes) -> bool:
    """Return whether this is JSON without a key twice: reading it as YAML takes a hundred times as long."""
    twice = False

    def once(pairs: list[tuple[str, Any]]) -> None:
        nonlocal twice
        twice = twice or len({key for key, _ in pairs}) < len(pairs)

    try:
        json.loads(body, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return False
    return not twice


def _visit(node: Any, duplicates: list[str]) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    duplicates.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
                seen.add(key.value)
            _visit(value, duplicates)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _visit(item, duplicates)


def _line_text(error: yaml.MarkedYAMLError) -> str:
    """The line, as Go counts it."""
    mark = error.problem_mark or error.context_mark
    line = (mark.line if mark else 0) + isinstance(error, yaml.scanner.ScannerError)
    return f"line {line}: " if line else ""
