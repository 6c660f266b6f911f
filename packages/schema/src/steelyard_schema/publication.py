"""Publication of entities: the label that says who sees one, the kinds that it counts for, and their pages.

The API reads and checks it, the client and the command line set it.
"""

from collections.abc import Mapping
from typing import Any, Literal

ACCESS_LABEL = "dyff.io/access"
"""The one label of the platform's own that clients may set."""
Access = Literal["public", "internal", "private"]
ACCESS_VALUES: Mapping[str, str | None] = {"public": "public", "internal": "internal", "private": None}
"""Values of the label for each access; None takes the label away."""

PUBLISHED = frozenset(
    {
        "Audit",
        "Challenge",
        "Dataset",
        "Evaluation",
        "Family",
        "Hazard",
        "InferenceService",
        "Measurement",
        "Method",
        "Model",
        "Module",
        "OCIArtifact",
        "Pipeline",
        "Report",
        "SafetyCase",
        "UseCase",
    }
)
"""Kinds whose public entities every account may get. Teams and submissions follow the rules of their challenge."""
PAGES: Mapping[str, str] = {"Audit": "index.html", "Report": "report.html", "SafetyCase": "index.html"}
"""The file of a public entity that every account may download, by kind."""


def access_label(access: str) -> dict[str, str | None]:
    """Return the edit of labels that sets the access. Raises ValueError for any other word."""
    if access not in ACCESS_VALUES:
        also = "; dyff-client calls internal preview" if access == "preview" else ""
        raise ValueError(f"access: {access!r} should be public, internal or private{also}")
    return {ACCESS_LABEL: ACCESS_VALUES[access]}


def is_public(entity: Mapping[str, Any]) -> bool:
    """Return whether the label of an entity, as JSON, makes it public; a deleted entity is not."""
    labels = entity.get("labels")
    return (
        entity.get("status") != "Deleted"
        and isinstance(labels, Mapping)
        and labels.get(ACCESS_LABEL) == ACCESS_VALUES["public"]
    )
