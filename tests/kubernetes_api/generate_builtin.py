"""Writes what a real API server publishes of its built-in kinds into the embedded one's data files.

Schemas go into `builtin.json.gz`; names, verbs, subresources and the columns of tables into `served.json.gz`.
`python -m tests.kubernetes_api.generate_builtin`, by hand, when the version of Kubernetes changes, asks the server
that KUBECONFIG_REAL names, or starts one.
"""

import asyncio
import gzip
import re
from pathlib import Path

import orjson

from steelyard.types import Json, sequence
from tests.kubernetes_api.api import TABLE, Api
from tests.kubernetes_differential.__main__ import real_server

FOLDER = Path("src/steelyard/local/apiserver")
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
    write("builtin.json.gz", closure(schemas, wanted))
    write("served.json.gz", served)


def _is_of(schema: Json, versions: set[str]) -> bool:
    """Return whether this is a kind of one of these versions, and not only a part of one."""
    kinds = sequence(schema, "x-kubernetes-group-version-kind")
    return any(f"{kind['group']}/{kind['version']}".lstrip("/") in versions for kind in kinds)


async def _with_columns(api: Api, document: str, resource: Json) -> Json:
    if "list" not in resource["verbs"]:
        return resource
    table = (await api.get(f"/{document}/{resource['name']}?limit=1", TABLE)).ok(200).json
    return resource | {"columns": table["columnDefinitions"]}


def write(name: str, content: Json) -> None:
    raw = orjson.dumps(content)
    (FOLDER / name).write_bytes(gzip.compress(raw, 9, mtime=0))
    print(f"{name}: {len(raw)} bytes of JSON, {(FOLDER / name).stat().st_size} compressed")


async def main() -> None:
    with real_server() as (kubeconfig, _):
        api = Api(kubeconfig)
        await publish(api)
        await api.close()


if __name__ == "__main__":
    asyncio.run(main())
