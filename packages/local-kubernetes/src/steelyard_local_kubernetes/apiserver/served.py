"""Names, verbs, subresources and table columns of the built-in kinds, as Kubernetes 1.34 serves them
(`served.json.gz`, which `tests/kubernetes_api/generate_builtin.py` writes).
"""

import gzip
from functools import cache
from pathlib import Path

import orjson

from steelyard_common.types import Json

_FILE = Path(__file__).with_name("served.json.gz")


@cache
def documents() -> dict[str, dict[str, Json]]:
    """Resources by their names, subresources among them, by the path of their group and version."""
    content = orjson.loads(gzip.decompress(_FILE.read_bytes()))
    return {
        path: {resource["name"]: resource for resource in resources} for path, resources in content.items()
    }


def list_resources(group: str, version: str) -> dict[str, Json]:
    path = f"apis/{group}/{version}" if group else f"api/{version}"
    return documents().get(path, {})


def list_subresources(group: str, version: str, plural: str) -> list[str]:
    names = [name.partition("/") for name in list_resources(group, version)]
    return [below for name, _, below in names if name == plural and below]
