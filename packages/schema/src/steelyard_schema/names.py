"""Names that several parts compute from an entity: where its files lie, what its resource and namespace are called.

The orchestrator makes resources of these names; the API finds replicas and files by them. What steps and uploads keep
for us is stored among an entity's own files, below names that begin with a dot.
"""

import hashlib
import re

OWN_RECORDS, OWN_LOGS = ".steelyard/", ".dyff/"
MANIFEST = f"{OWN_RECORDS}manifest.json"
"""List of an output's files with their digests; it is written last."""
CROISSANT = f"{OWN_RECORDS}croissant.json"
"""Facts that were taken of a Croissant file about a dataset."""
SOURCE_CROISSANT = f"{OWN_RECORDS}source-croissant.json"
"""Croissant file that a dataset's data source held, as it came."""
PROGRESS = f"{OWN_RECORDS}progress.json"
"""Progress of a step."""
LOG_PIECES = f"{OWN_LOGS}logs/"
"""Folder of the pieces of a log: `<pod uid>/<n>`."""
WHOLE_LOG = f"{OWN_LOGS}logs.txt"
"""The whole log in one file, once the workflow has ended."""

TRACE = "steelyard/traceparent"
"""Annotation of a workflow's resources: the span that they belong to, as W3C writes it."""


_RESOURCES = {"Measurement": "Analysis", "SafetyCase": "Analysis"}
"""Kinds of entities whose custom resource has a kind of another name."""


def place(kind: str, id: str) -> str:
    """Return the folder of an entity's files, below the setting `storage`."""
    return f"{kind.lower()}s/{id}"


def resource_kind(kind: str) -> str:
    """Return the kind of the custom resource that an entity of a kind has."""
    return _RESOURCES.get(kind, kind)


def resource_name(kind: str, id: str) -> str:
    """Return the name of the custom resource of an entity, from the entity's kind and id."""
    return f"{kind}-{id}".lower()


def slug(text: str, limit: int) -> str:
    """Return the text as lower-case letters, digits and single hyphens, at most `limit` characters; it may be empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:limit].strip("-")


def account_namespace(account: str) -> str:
    """Return `acct-<slug>-<hash>`: the hash keeps accounts apart whose slugs are equal."""
    digest = hashlib.sha256(account.encode()).hexdigest()[:8]
    return "-".join(part for part in ("acct", slug(account, 40), digest) if part)
