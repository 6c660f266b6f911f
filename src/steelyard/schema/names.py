"""Names that several parts compute from an entity: where its files lie, what its resource and namespace are called.

The orchestrator makes resources of these names; the API finds replicas and files by them.
"""

import hashlib
import re


def place(kind: str, id: str) -> str:
    """Where an entity's files lie, below the setting `storage`."""
    return f"{kind.lower()}s/{id}"


def resource_name(kind: str, id: str) -> str:
    """What its custom resource is called."""
    return f"{kind}-{id}".lower()


def slug(text: str, limit: int) -> str:
    """Lower-case letters, digits and single hyphens, at most `limit` of them; it may be empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:limit].strip("-")


def namespace_of(account: str) -> str:
    """`acct-<slug>-<hash>`: the hash keeps accounts apart whose slugs are the same."""
    digest = hashlib.sha256(account.encode()).hexdigest()[:8]
    return "-".join(part for part in ("acct", slug(account, 40), digest) if part)
