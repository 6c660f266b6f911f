"""Custom resource definitions as they are installed, read from a generated file.

The same as `crd.custom_resource_definitions` makes, without the models of all kinds, which take a third of a second.
"""

import json
from functools import cache
from importlib.resources import files

from steelyard_common.types import Json

FILE = "definitions.jsonl"


def load_definitions() -> list[Json]:
    """Return all definitions, in the order in which `crd.custom_resource_definitions` makes them."""
    lines = files("steelyard_schema").joinpath(FILE).read_bytes().splitlines()
    return [json.loads(line) for line in lines]


def find_spec_schema(obj: Json) -> Json:
    """Return the structural schema of an object's spec; for a kind that is not ours an empty one, which knows all.

    Callers leave it as it is.
    """
    return _spec_schemas().get((str(obj.get("apiVersion")), str(obj.get("kind"))), {})


@cache
def _spec_schemas() -> dict[tuple[str, str], Json]:
    # Together: a folder has many objects, and to read all definitions takes longer than to check any of them.
    return {
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"]): version["schema"]["openAPIV3Schema"][
            "properties"
        ]["spec"]
        for spec in (definition["spec"] for definition in load_definitions())
        for version in spec["versions"]
    }
