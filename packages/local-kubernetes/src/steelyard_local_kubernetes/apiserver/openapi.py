"""The OpenAPI documents by group and version, from which kubectl validates and explains."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace

import orjson

from steelyard_common.types import Json, mapping
from steelyard_local_kubernetes.apiserver.health import PLAIN
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.messages import JSON, Request, Response
from steelyard_local_kubernetes.apiserver.openapi2 import swagger
from steelyard_local_kubernetes.apiserver.openapi2_protobuf import ANSWERED, MEDIA, encode_document
from steelyard_local_kubernetes.apiserver.published import META, closure, read_schemas, schema_name
from steelyard_local_kubernetes.apiserver.registry import Registry

_OPTIONS = {
    "dryRun": "string",
    "fieldManager": "string",
    "fieldValidation": "string",
}
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"


class OpenApi:
    """Documents are made when asked for, and kept until the served kinds change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents: dict[str, bytes] = {}
        self._generation = -1

    def response(self, document: str) -> Response:
        self._refresh()
        if not document:
            return self._index()
        if document not in self._names():
            return Response(b"", 404, content_type="")
        if document not in self._documents:
            self._documents[document] = orjson.dumps(self._document(document, read_schemas()))
        return Response(self._documents[document])

    def swagger(self, request: Request) -> Response:
        """The document of version 2, as JSON or in the form that clients in Go ask for."""
        self._refresh()
        form = ANSWERED if MEDIA in request.headers.get("accept", "") else JSON
        if form not in self._documents:
            published = read_schemas()
            content = swagger(self._document(name, published) for name in self._names())
            self._documents[form] = encode_document(content) if form == ANSWERED else orjson.dumps(content)
        return Response(self._documents[form], content_type=form)

    def _refresh(self) -> None:
        # A definition came, changed or went: any document may hold its kinds.
        if self._generation != self._registry.generation:
            self._documents.clear()
            self._generation = self._registry.generation

    def _names(self) -> list[str]:
        return list(dict.fromkeys(kind.group_version for kind in self._registry.kinds()))

    def _index(self) -> Response:
        """Return the index of documents. Clients cache a document by its hash, which is of the kinds in it,
        so the index needs no documents.
        """
        paths = {}
        for name in self._names():
            served = [[kind.plural, kind.schema, bool(kind.scaling)] for kind in self._kinds(name)]
            # The schema too: a definition that only changes a field gets another
            # hash, or kubectl would check by the old one.
            mark = hashlib.sha256(orjson.dumps(served)).hexdigest().upper()
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={mark}"}
        # Of this type on a real server, too.
        return Response(orjson.dumps({"paths": paths}), content_type=PLAIN)

    def _kinds(self, document: str) -> list[ResourceType]:
        return [kind for kind in self._registry.kinds() if kind.group_version == document]

    def _document(self, document: str, published: Json) -> Json:
        kinds = self._kinds(document)
        roots = [f"{META}{name}" for name in ("ObjectMeta", "ListMeta", "DeleteOptions", "Status")]
        own: Json = {}
        paths: Json = {}
        for kind in kinds:
            if kind.custom:
                own |= _custom_schemas(kind)
            else:
                roots += [_schema_name(kind), schema_name(kind.group, kind.version, kind.list_name)]
            if kind.scaling:
                roots.append(schema_name("autoscaling", "v1", "Scale"))
            paths |= _paths(kind)
        schemas = closure(published, roots) | own
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.34.4"},
            "paths": paths,
            "components": {"schemas": dict(sorted(schemas.items()))},
        }


def _schema_name(kind: ResourceType) -> str:
    if kind.custom:
        return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
    return schema_name(kind.group, kind.version, kind.kind)


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _gvk(kind: ResourceType) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _custom_schemas(kind: ResourceType) -> Json:
    """The kind's schema as its definition has it, with the metadata that every object has."""
    name = _schema_name(kind)
    meta = {
        "allOf": [_reference(f"{META}ObjectMeta")],
        "default": {},
        "description": "Standard object metadata.",
    }
    schema = {**kind.schema, "x-kubernetes-group-version-kind": [_gvk(kind)]}
    text = {"type": "string"}
    schema["properties"] = {
        "apiVersion": text,
        "kind": text,
        **mapping(schema, "properties"),
        "metadata": meta,
    }
    listed = {
        "type": "object",
        "description": f"{kind.list_name} is a list of {kind.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "items": {"type": "array", "items": _reference(name)},
            "metadata": _reference(f"{META}ListMeta"),
        },
        "x-kubernetes-group-version-kind": [{**_gvk(kind), "kind": kind.list_name}],
    }
    return {name: schema, f"{name}List": listed}


# ---- paths


def _paths(kind: ResourceType) -> Json:
    root = f"/{kind.group_version}"
    below = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
    one, many = f"{below}/{kind.plural}/{{name}}", f"{below}/{kind.plural}"
    paths = {many: _collection(kind), one: _object(kind)}
    if kind.has_status:
        paths[f"{one}/status"] = {verb: _object(kind)[verb] for verb in ("get", "put", "patch", "parameters")}
    if kind.scaling:
        # What is read and written there is a Scale, whatever the kind is.
        scaled = replace(kind, group="autoscaling", version="v1", kind="Scale", custom=False)
        paths[f"{one}/scale"] = {
            verb: _object(scaled)[verb] for verb in ("get", "put", "patch", "parameters")
        }
    if kind.namespaced:
        paths[f"{root}/{kind.plural}"] = {"get": _operation(kind, "list", _list_name(kind))}
    return paths


def _list_name(kind: ResourceType) -> str:
    if kind.custom:
        return f"{_schema_name(kind)}List"
    return schema_name(kind.group, kind.version, kind.list_name)


def _collection(kind: ResourceType) -> Json:
    return {
        "get": _operation(kind, "list", _list_name(kind)),
        "post": _operation(kind, "post", _schema_name(kind), body=("application/json",)),
        "delete": _operation(kind, "deletecollection", f"{META}Status"),
        "parameters": _in_path("namespace") if kind.namespaced else [],
    }


def _object(kind: ResourceType) -> Json:
    names = ["name", "namespace"] if kind.namespaced else ["name"]
    return {
        "get": _operation(kind, "get", _schema_name(kind)),
        "put": _operation(kind, "put", _schema_name(kind), body=("application/json",)),
        "patch": _operation(
            kind, "patch", _schema_name(kind), body=_PATCHES if kind.custom else (*_PATCHES, _STRATEGIC)
        ),
        "delete": _operation(kind, "delete", f"{META}Status"),
        "parameters": _in_path(*names),
    }


def _in_path(*names: str) -> list[Json]:
    return [
        {"name": parameter, "in": "path", "required": True, "schema": {"type": "string"}}
        for parameter in names
    ]


def _operation(kind: ResourceType, action: str, answer: str, body: Iterable[str] = ()) -> Json:
    words = [*re.split(r"\W", kind.group_version), kind.kind]
    operation: Json = {
        "operationId": action + "".join(word.capitalize() for word in words),
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": _reference(answer)}}}
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
    if media := tuple(body):
        sent = {"type": "object"} if action == "patch" else _reference(answer)
        operation["requestBody"] = {
            "required": True,
            "content": {media_type: {"schema": sent} for media_type in media},
        }
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": kind_}} for name, kind_ in _OPTIONS.items()
        ]
    if action == "patch":
        operation["parameters"].append({"name": "force", "in": "query", "schema": {"type": "boolean"}})
    return operation
