"""Writes what a real API server publishes of its built-in kinds into the embedded one's data files.

Schemas go into `builtin.json.gz`; names, verbs, subresources and the columns of tables into `served.json.gz`; the
schema of a Pod's template, as a definition holds it, into `pod_template.json.gz`.
`python -m tests.kubernetes_api.generate_builtin`, by hand, when the version of Kubernetes changes, asks the server
that KUBECONFIG_REAL names, or starts one.
"""

import asyncio
import gzip
import re
from pathlib import Path

import orjson

from steelyard_common.types import Json, sequence
from steelyard_schema import unknown_fields
from tests.kubernetes_api.api import TABLE, Api

FOLDER = Path("packages/local-kubernetes/src/steelyard_local_kubernetes/apiserver")
TEMPLATE = Path("packages/schema/src/steelyard_schema") / unknown_fields.FILE
REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')


def closure(schemas: Json, names: set[str]) -> Json:
    """The named schemas and all that they refer to."""
    documents: Json = {}
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name not in documents:
            documents[name] = schemas[name]
            waiting += REFERENCE.findall(orjson.dumps(schemas[name]).decode())
    return dict(sorted(documents.items()))


async def publish(api: Api) -> None:
    groups = (await api.get("/apis")).ok(200).json["groups"]
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    schemas: Json = {}
    served: Json = {}
    for document in ("api/v1", *(f"apis/{version}" for version in versions)):
        schemas |= (await api.get(f"/openapi/v3/{document}")).ok(200).json["components"]["schemas"]
        resources = (await api.get(f"/{document}")).ok(200).json["resources"]
        served[document] = [await _with_columns(api, document, resource) for resource in resources]
    wanted = {name for name, schema in schemas.items() if _is_of(schema, {"v1", *versions})}
    write(FOLDER / "builtin.json.gz", closure(schemas, wanted))
    write(FOLDER / "served.json.gz", served)
    write(TEMPLATE, template_schema(schemas))


def template_schema(schemas: Json) -> Json:
    """Return the structural schema of a PodTemplateSpec, without descriptions and defaults.

    A template has no ephemeral containers, whose fields would be a fifth of it: the API refuses them in each Pod.
    """
    template = _inlined(schemas["io.k8s.api.core.v1.PodTemplateSpec"], schemas)
    template["properties"]["spec"]["properties"]["ephemeralContainers"]["items"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return template


def _inlined(node: Json, schemas: Json) -> Json:
    for reference in ({"$ref": node["$ref"]} if "$ref" in node else None, *sequence(node, "allOf")):
        if reference:
            return _inlined(schemas[reference["$ref"].rpartition("/")[2]], schemas)
    if "oneOf" in node or node.get("format") == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    inlined: Json = {key: node[key] for key in ("type", "format", "required") if key in node}
    if "properties" in node:
        fields = node["properties"].items()
        inlined["properties"] = {name: _inlined(field, schemas) for name, field in fields}
    for word in ("items", "additionalProperties"):
        if word in node:
            inlined[word] = _inlined(node[word], schemas)
    return inlined


def _is_of(schema: Json, versions: set[str]) -> bool:
    """Return whether this is a kind of one of these versions, and not only a part of one."""
    kinds = sequence(schema, "x-kubernetes-group-version-kind")
    return any(f"{kind['group']}/{kind['version']}".lstrip("/") in versions for kind in kinds)


async def _with_columns(api: Api, document: str, resource: Json) -> Json:
    if "list" not in resource["verbs"]:
        return resource
    table = (await api.get(f"/{document}/{resource['name']}?limit=1", TABLE)).ok(200).json
    return resource | {"columns": table["columnDefinitions"]}


def write(path: Path, content: Json) -> None:
    raw = orjson.dumps(content)
    path.write_bytes(gzip.compress(raw, 9, mtime=0))
    print(f"{path.name}: {len(raw)} bytes of JSON, {path.stat().st_size} compressed")


async def main() -> None:
    from tests.kubernetes_differential.__main__ import real_server  # which makes thousands of cases first

    with real_server() as (kubeconfig, _):
        api = Api(kubeconfig)
        await publish(api)
        await api.close()


if __name__ == "__main__":
    asyncio.run(main())
