"""Check of the labels that a client may set: some belong to the platform. Entities and accounts share it."""

import re

from steelyard.api.http.errors import Invalid
from steelyard_schema.publication import ACCESS_LABEL, ACCESS_VALUES
from steelyard_schema.requests import LabelsEditRequest

_RESERVED = re.compile(r"(([^/]+\.)?dyff\.io|steelyard)/")
_CONCERNS = ("usecases.dyff.io/", "hazards.dyff.io/")
"""Beginnings of labels that attach a concern to an entity."""


def check_reserved(request: LabelsEditRequest) -> None:
    """Raise Invalid for a label that only the platform may set."""
    for key, value in request.labels.items():
        if not _RESERVED.match(key) or key.startswith(_CONCERNS):
            continue
        if key != ACCESS_LABEL or value not in ACCESS_VALUES.values():
            raise Invalid(
                f"labels: {key} is the platform's own; of these, {ACCESS_LABEL} may be public, internal or null",
                field="labels",
            )
