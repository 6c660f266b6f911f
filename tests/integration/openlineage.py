"""A receiver of OpenLineage's events, and the check that it makes of each.

The client's package has no JSON schema, but classes that OpenLineage generates from it: the schema is made from these
again, more strictly than the original, so that a misspelt field of ours does not count as an additional one.
"""

import importlib
import pkgutil
import threading
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import attr
import jsonschema_rs
import orjson
from openlineage.client import generated
from openlineage.client.generated import base

from steelyard_common.types import Json
from tests.integration.http_server import QuietHandler, http_server

_FORMATS = {"runId": "uuid", "eventTime": "date-time", "producer": "uri", "schemaURL": "uri"}
_FORMATS |= {"_producer": "uri", "_schemaURL": "uri"}
_ALWAYS = {"producer", "schemaURL", "_producer", "_schemaURL"}
"""Fields that OpenLineage requires, though the classes fill them in themselves."""


def check(event: Json) -> None:
    """Raises jsonschema_rs.ValidationError for other documents than RunEvents, and for one with a facet that is not as
    it says."""
    jsonschema_rs.validator_for(_schema(base.RunEvent), validate_formats=True).validate(event)
    facets = [*event["run"]["facets"].values(), *event["job"]["facets"].values()]
    for files in (*event["inputs"], *event["outputs"]):
        facets += files["facets"].values()
    for facet in facets:
        kind = _FACETS[facet["_schemaURL"]]
        jsonschema_rs.validator_for(_schema(kind), validate_formats=True).validate(facet)


def _schema(kind: type) -> Json:
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in attr.fields(kind)}
    return {
        "type": "object",
        "properties": {name: _of(hints[name], name) for name in fields},
        "required": [
            name for name, field in fields.items() if name in _ALWAYS or field.default is attr.NOTHING
        ],
        "additionalProperties": False,
    }


def _of(hint: Any, name: str) -> Json:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        # A field that may be left out is not sent as null: OpenLineage's schema knows no null.
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _of(inner, name)
    if origin is list:
        # A schema's fields may have fields of their own, without an end.
        return {
            "type": "array",
            "items": {} if name == "fields" and _nested(arguments[0]) else _of(arguments[0], ""),
        }
    if origin is dict:
        return {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if isinstance(hint, type) and attr.has(hint):
        return _schema(hint)
    simple: Json = {"type": {str: "string", int: "integer", bool: "boolean", float: "number"}[hint]}
    return {**simple, **({"format": _FORMATS[name]} if name in _FORMATS else {})}


def _nested(hint: Any) -> bool:
    return "fields" in {field.name for field in attr.fields(hint)}


def _all_facets() -> dict[str, type]:
    modules = [
        importlib.import_module(f"{generated.__name__}.{module.name}")
        for module in pkgutil.iter_modules(generated.__path__)
    ]
    kinds = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and attr.has(kind)
    }
    return {kind._get_schema(): kind for kind in kinds if issubclass(kind, base.BaseFacet)}


_FACETS = _all_facets()


class Receiver:
    """Events in the order in which they came, each checked; `answers` are the statuses of the next requests."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        self.faults: list[str] = []
        self.answers: list[int] = []
        self.authorizations: list[str | None] = []
        self.url = ""
        self.changed = threading.Condition()

    def take(self, body: bytes) -> None:
        event: Json = orjson.loads(body)
        try:
            check(event)
        except (jsonschema_rs.ValidationError, KeyError) as error:
            self.faults.append(f"{error}: {body.decode()}")
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def of(self, job: str) -> list[Json]:
        return [event for event in self.events if event["job"]["name"].endswith(job)]

    def until(self, job: str, types: list[str], seconds: float = 60) -> list[Json]:
        """Wait until a job's events have these types."""
        with self.changed:
            complete = self.changed.wait_for(
                lambda: [event["eventType"] for event in self.of(job)] == types, seconds
            )
        assert complete, (job, self.of(job))
        return self.of(job)


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port of loopback."""
    kept = Receiver()

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 (the name that http.server calls)
            assert self.path == "/api/v1/lineage"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.authorizations.append(self.headers["Authorization"])
            status = kept.answers.pop(0) if kept.answers else 201
            if status == 201:
                kept.take(body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with http_server(Handler) as kept.url:
        yield kept
