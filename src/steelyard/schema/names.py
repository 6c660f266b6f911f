"""Names that several parts compute from an entity: where its files lie, what its resource and namespace are called.

The orchestrator makes resources of these names; the API finds replicas and files by them. What steps and uploads keep
for us lies beside an entity's own files, below names that begin with a dot.
"""

import hashlib
import re

OWN_RECORDS, OWN_LOGS = ".steelyard/", ".dyff/"
MANIFEST = f"{OWN_RECORDS}manifest.json"
"""Which files count, with their digests; written last."""
PROGRESS = f"{OWN_RECORDS}progress.json"
"""How far the step is."""
LOG_PIECES = f"{OWN_LOGS}logs/"
"""Below it, `<pod uid>/<n>`: what each Pod has written."""
WHOLE_LOG = f"{OWN_LOGS}logs.txt"
"""All of it, once the workflow has ended."""


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
