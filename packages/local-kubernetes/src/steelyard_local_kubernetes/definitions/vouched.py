"""Schemas of definitions that need no check, since whoever installs them has tests that look for faults.

They hold whole Pods, and to check them takes longer than all else at a start.
"""

from collections.abc import Iterable
from hashlib import sha256

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.definitions.embedded import list_definitions

_vouched: set[bytes] = set()
"""Digests of schemas. They say nothing of a server, so that several in one process may share them."""


def vouch_for(definitions: Iterable[Json]) -> None:
    """Leave out the checks of these definitions' schemas from now on."""
    for definition in (*definitions, *list_definitions()):
        for version in definition["spec"]["versions"]:
            _vouched.add(_digest(version["schema"]["openAPIV3Schema"]))


def is_vouched(schema: Json) -> bool:
    """Return whether somebody vouches for a schema; for the embedded ones this package does."""
    if not _vouched:
        vouch_for(())
    return _digest(schema) in _vouched


def _digest(schema: Json) -> bytes:
    return sha256(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)).digest()
