"""Marks by which the files of a folder name the platform that they belong to, and secrets that do so.

A file that was copied from another platform's folder would bring its rights along: its objects, keys and processes.
The database of Kubernetes, keys, certificates, images and records have the platform's id, each in the form that its
readers allow: a line of comment, a field, or a part of a secret that is computed from the id. A file without a mark is
of a version before marks, or a user's own: it is taken over, and gets the mark.
"""

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_common import bounded_toml
from steelyard_common.durable import write_atomically

SECRET_LENGTH, RANDOM_LENGTH = 43, 32
"""Characters of a secret, and of its random part, which has 192 bits; the rest says whose secret it is."""
_MARK = re.compile(r"^# steelyard platform ([0-9a-f]{32})$", re.MULTILINE)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlatformIdentity:
    """The id of a platform, and digests of secrets that it had before secrets named it."""

    id: str
    earlier: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 by file name."""

    def add_mark(self, text: str) -> str:
        """Return a text of lines, in which those that begin with # are comments, with the platform's mark."""
        return f"{text.rstrip()}\n# steelyard platform {self.id}\n"

    def is_foreign(self, text: str) -> bool:
        """Return whether a text has the mark of another platform."""
        mark = _MARK.search(text)
        return mark is not None and mark[1] != self.id

    def take_over(self, path: Path) -> None:
        """Write the mark into a text file that names no platform; one that cannot be written stays as it is."""
        try:
            text = bounded_toml.read(path)
            if _MARK.search(text) is None:
                # The file that a link leads to: the link stays.
                write_atomically(path.resolve(), self.add_mark(text))
                _log.info("%s: named no platform; it is this one's from now on", path)
        except (bounded_toml.BadToml, OSError) as error:
            _log.warning("%s: cannot be given the platform's mark: %s", path, error)

    def new_secret(self) -> str:
        """Make a secret that other platforms know not to be theirs."""
        random = secrets.token_urlsafe(RANDOM_LENGTH)[:RANDOM_LENGTH]
        return random + self._tag(random)

    def is_own_secret(self, name: str, secret: str) -> bool:
        """Return whether a secret was made for this platform, and whole."""
        if self.earlier.get(name) == digest(secret):
            return True
        random, tag = secret[:RANDOM_LENGTH], secret[RANDOM_LENGTH:]
        return len(secret) == SECRET_LENGTH and hmac.compare_digest(tag.encode(), self._tag(random).encode())

    def _tag(self, random: str) -> str:
        digest = hmac.new(self.id.encode(), random.encode(), hashlib.sha256).hexdigest()
        return digest[: SECRET_LENGTH - RANDOM_LENGTH]


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret, by which it is recognised."""
    return hashlib.sha256(secret.encode()).hexdigest()


def foreign_database(path: Path, other: str, own: str, command: str) -> str:
    """Say that a database of Kubernetes is another platform's, and what to do; `command` lets an empty one begin."""
    return (
        f"{path}: belongs to another platform ({other[:8]}; this folder's is {own[:8]}). Nothing was changed. Put this "
        f"platform's file back; or keep it aside and let an empty one begin{f': {command}' if command else ''}"
    )
