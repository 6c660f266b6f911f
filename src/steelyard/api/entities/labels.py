"""Check of the labels that a client may set: some belong to the platform. Entities and accounts share it."""

import re

from steelyard.api.http.errors import Invalid
from steelyard.schema.requests import LabelsEditRequest

_RESERVED = re.compile(r"(([^/]+\.)?dyff\.io|steelyard)/")
_CONCERNS = ("usecases.dyff.io/", "hazards.dyff.io/")
"""Beginnings of labels that attach a concern to an entity."""
ACCESS = {"public", "internal", None}
"""Values of `dyff.io/access`, the one reserved label that clients may set: who sees the entity outside."""


def check_reserved(request: LabelsEditRequest) -> None:
    """Raise Invalid for a label that only the platform may set."""
    for key, value in request.labels.items():
        if not _RESERVED.match(key) or key.startswith(_CONCERNS):
            continue
        if key != "dyff.io/access" or value not in ACCESS:
            raise Invalid(
                f"labels: {key} is the platform's own; of these, dyff.io/access may be public, internal or null",
                field="labels",
            )
