"""Lists in files of manifests and entities: what `kubectl get -o yaml` writes, and `kubectl apply -f` takes.

`documents.py` and `manifests.py` read their files through this.
"""

from collections.abc import Iterator
from typing import Any

from steelyard_common.errors import UsageError

DEEPEST = 10
"""Maximum depth of lists within lists. Real files have one or two levels."""


def list_items(document: object, where: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The document itself; or where it is a list (`kind: List`, `kind: ModelList`) its items, each with its place.

    Raises UsageError, which says where, for a list with other items.
    """
    if not _is_list(document):
        yield where, document
        return
    assert isinstance(document, dict)
    items = document.get("items")
    if not isinstance(items, list):
        raise UsageError(f"{where}: items: should be a list, as the kind is {document['kind']}")
    if depth == DEEPEST:
        raise UsageError(f"{where}: more than {DEEPEST} lists lie in each other")
    for number, item in enumerate(items, 1):
        yield from list_items(item, f"{where}, item {number}", depth + 1)


def _is_list(document: object) -> bool:
    """Recognises a list as kubectl does: by the end of its kind, and by its items."""
    if not isinstance(document, dict):
        return False
    kind = document.get("kind")
    return kind == "List" or (isinstance(kind, str) and kind.endswith("List") and "items" in document)
