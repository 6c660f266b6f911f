"""Fields that a server of another version does not know: an API server drops them without a word."""

import warnings
from collections.abc import Iterator
from typing import Any

from steelyard_common.types import Json


class UnknownFieldWarning(UserWarning):
    """The cluster's definition of a kind is older than this client: it has dropped fields, which have no effect."""


def warn_of_dropped(sent: Json, kept: Json) -> None:
    """Warn of each field of the specification that was sent and that the answer does not have."""
    fields = list(list_dropped(sent.get("spec"), kept.get("spec"), "spec"))
    if fields:
        name = kept.get("metadata", {}).get("name", "")
        message = f"{sent.get('kind')} {name}: the cluster does not know {', '.join(fields)}: it has no effect there"
        warnings.warn(UnknownFieldWarning(message), stacklevel=3)


def list_dropped(sent: Any, kept: Any, path: str) -> Iterator[str]:
    """Yield the paths of fields that are missing; a value that was changed, such as an amount, is not missing."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for name, value in sent.items():
            where = f"{path}.{name}"
            if name in kept:
                yield from list_dropped(value, kept[name], where)
            elif value not in (None, "", [], {}):  # an empty value may be left out of what is stored
                yield where
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for number, (old, new) in enumerate(zip(sent, kept, strict=True)):
            yield from list_dropped(old, new, f"{path}[{number}]")
