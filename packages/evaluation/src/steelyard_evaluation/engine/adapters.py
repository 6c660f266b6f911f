"""Schema adapters: small transformations of JSON objects, chained into the pipelines of a service's interface.

Semantics of the published schema's adapters. `create_pipeline` compiles a list of specifications once; the engine
then runs every row, and every answer, through it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.json_path import BadJsonPath, parse_json_path
from steelyard_evaluation.engine.shape import RESPONSE_INDEX, short
from steelyard_evaluation.engine.transform import Template

Item = dict[str, Any]
Adapter = Callable[[Iterable[Item]], Iterator[Item]]


class AdapterSpec(Protocol):
    """`SchemaAdapter` of the schema, or anything shaped like it."""

    @property
    def kind(self) -> str: ...
    @property
    def configuration(self) -> Mapping[str, Any] | None: ...


class AdapterNotImplemented(NotImplementedError):
    """The adapter is part of the contract, but not of this version."""


def create_pipeline(specs: Sequence[AdapterSpec] | None) -> Adapter:
    """One adapter that applies `specs` from left to right; ValueError says which one is wrong and how."""
    return _chain([_create(spec.kind, spec.configuration) for spec in specs or ()])


def _chain(adapters: Sequence[Adapter]) -> Adapter:
    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for adapter in adapters:
            stream = adapter(stream)
        return iter(stream)

    return apply


def _create(kind: str, configuration: Mapping[str, Any] | None) -> Adapter:
    if kind == "FileUpload":
        raise AdapterNotImplemented("the adapter FileUpload is not implemented: requests are JSON")
    build = _ADAPTERS.get(kind)
    if build is None:
        raise ValueError(f"there is no adapter {kind!r}; there are {', '.join(sorted(_ADAPTERS))}")
    try:
        return build(configuration or {})
    except BadJsonPath as error:
        raise ValueError(f"configuration of the adapter {kind}: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"configuration of the adapter {kind}: {type(error).__name__} {error}") from error


def _drop(configuration: Mapping[str, Any]) -> Adapter:
    dropped = frozenset(_names(configuration, "fields"))

    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for item in stream:
            yield {key: value for key, value in item.items() if key not in dropped}

    return apply


def _select(configuration: Mapping[str, Any]) -> Adapter:
    fields = _names(configuration, "fields")

    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for item in stream:
            yield {field: _field(item, field) for field in fields}

    return apply


def _rename(configuration: Mapping[str, Any]) -> Adapter:
    names = dict(configuration)

    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for item in stream:
            renamed = dict(item)
            for old, new in names.items():
                value = _field(renamed, old)
                del renamed[old]
                renamed[new] = value
            yield renamed

    return apply


def _explode_collections(configuration: Mapping[str, Any]) -> Adapter:
    names = _names(configuration, "collections")
    indexes = {
        name: None if path is None else parse_json_path(path)
        for name, path in configuration.get("index", {}).items()
    }
    if not names:
        raise ValueError("configuration of the adapter ExplodeCollections: collections is empty")

    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for item in stream:
            columns: dict[str, Sequence[JsonValue]] = {name: _collection(item, name) for name in names}
            lengths = {name: len(column) for name, column in columns.items()}
            if len(set(lengths.values())) != 1:
                raise ValueError(f"ExplodeCollections: the collections differ in length: {lengths}")
            for name, path in indexes.items():
                matches = None if path is None else [match.value for match in path.find(item)]
                columns[name] = range(lengths[names[0]]) if matches is None else matches
            rest = {key: value for key, value in item.items() if key not in lengths}
            for values in zip(*columns.values(), strict=False):
                yield rest | dict(zip(columns, values, strict=True))

    return apply


def _flatten_hierarchy(configuration: Mapping[str, Any]) -> Adapter:
    fields = list(configuration.get("fields") or ())
    depth = configuration.get("depth")
    add_prefix = bool(configuration.get("addPrefix", True))
    if depth is not None and depth < 0:
        raise ValueError("configuration of the adapter FlattenHierarchy: depth must not be negative")

    def flatten(value: JsonValue, path: tuple[str, ...], flat: Item) -> Item:
        if isinstance(value, dict) and (depth is None or len(path) <= depth):
            for key, child in value.items():
                flatten(child, (*path, key), flat)
        else:
            flat[".".join(path) if add_prefix else path[-1]] = value
        return flat

    def flatten_item(item: Item) -> Item:
        if not fields:
            return flatten(item, (), {})
        flat = dict(item)
        for field in fields:
            value = _field(flat, field)
            del flat[field]
            flat |= flatten({field: value}, (), {})
        return flat

    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for item in stream:
            try:
                yield flatten_item(item)
            except RecursionError:
                raise ValueError("FlattenHierarchy: the item is nested too deeply") from None

    return apply


def _map(configuration: Mapping[str, Any]) -> Adapter:
    names = _names(configuration, "collections")
    inner = configuration["adapter"]
    adapter = _create(inner["kind"], inner.get("configuration"))

    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for item in stream:
            yield item | {name: list(adapter(_collection(item, name))) for name in names}

    return apply


def _pipeline(configuration: Mapping[str, Any]) -> Adapter:
    return _chain([_create(spec["kind"], spec.get("configuration")) for spec in configuration["adapters"]])


def _transform_json(configuration: Mapping[str, Any]) -> Adapter:
    template = Template(dict(configuration))

    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for item in stream:
            yield template(item)

    return apply


def _openai_answers(configuration: Mapping[str, Any]) -> Adapter:
    """Answers of an OpenAI-compatible server as the columns that `steelyard eval run` keeps."""
    # Evaluations of other services need nothing of it.
    from steelyard_evaluation.engine.openai import reader

    api = configuration["api"]
    if api not in ("chat", "completions"):
        raise ValueError(
            f"configuration of the adapter OpenAIAnswers: api should be chat or completions, not {short(api)}"
        )
    read = reader(api)

    def apply(stream: Iterable[Item]) -> Iterator[Item]:
        for item in stream:
            for response in read(orjson.dumps(item)):
                yield {name: value for name, value in response.items() if name != RESPONSE_INDEX}

    return apply


_ADAPTERS: dict[str, Callable[[Mapping[str, Any]], Adapter]] = {
    "Drop": _drop,
    "ExplodeCollections": _explode_collections,
    "FlattenHierarchy": _flatten_hierarchy,
    "Map": _map,
    "OpenAIAnswers": _openai_answers,
    "Pipeline": _pipeline,
    "Rename": _rename,
    "Select": _select,
    "TransformJSON": _transform_json,
}


def _names(configuration: Mapping[str, Any], key: str) -> list[str]:
    names = configuration[key]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{key} must be a list of strings, not {short(names)}")
    return names


def _field(item: Item, name: str) -> JsonValue:
    try:
        return item[name]
    except KeyError:
        raise ValueError(f"there is no field {name!r}; there are {', '.join(map(repr, item))}") from None


def _collection(item: Item, name: str) -> list[JsonValue]:
    value = _field(item, name)
    if not isinstance(value, list):
        raise ValueError(f"the field {name!r} must be a list, not {short(value)}")
    return value
