"""`fieldPath` of a rule: which field below the rule's own a failure is about."""

import re

from steelyard_common.types import Json, mapping

_PART = re.compile(r"""\.([A-Za-z_][\w-]*)|\[['"]([^'"]+)['"]\]""")


def split_path(path: str) -> list[str]:
    """Field names; empty for a path that may not be written."""
    steps, end = [], 0
    while match := _PART.match(path, end):
        steps.append(match[1] or match[2])
        end = match.end()
    return steps if end == len(path) else []


def leads_somewhere(schema: Json, path: str) -> bool:
    """Return whether the schema has such a field."""
    parts = split_path(path)
    for part in parts:
        extra = schema.get("additionalProperties")
        below = extra if isinstance(extra, dict) else mapping(schema, "properties").get(part)
        if below is None:
            return False
        schema = below
    return bool(parts)


def join_path(path: str, below: str, schema: Json) -> str:
    """The whole path of a field, as causes name it."""
    for part in split_path(below):
        extra = schema.get("additionalProperties")
        keyed = isinstance(extra, dict)
        # A key of a map is written in brackets, since it may hold dots itself.
        path = f"{path}[{part}]" if keyed else f"{path}.{part}".removeprefix(".")
        schema = extra if isinstance(extra, dict) else mapping(schema, "properties", part)
    return path
