"""The identity of the platform of a state folder, and the marks by which its files name it.

A file that was copied from another platform's folder would bring its rights along: its objects, keys and processes.
`identity.json` has a random id, made once. The database of Kubernetes, keys, certificates, images and records have it
as well, each in the form that its readers allow: a line of comment, a field, or a part of a secret that is computed
from the id. A file without a mark is of a version before marks, or a user's own: it is taken over, and gets the mark.
The log, the view, the accounts, the storage and the backup name the log that they belong to (`services/identity.py`).
"""

import contextlib
import hashlib
import hmac
import json
import logging
import re
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from steelyard import bounded_toml
from steelyard.errors import Refused, UsageError
from steelyard.local.lock import hold_lock
from steelyard.local.state import StateDir, write_atomically

SECRET_LENGTH, RANDOM_LENGTH = 43, 32
"""Characters of a secret, and of its random part, which has 192 bits; the rest says whose secret it is."""
_ID = re.compile(r"[0-9a-f]{32}")
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
        if self.earlier.get(name) == _digest(secret):
            return True
        random, tag = secret[:RANDOM_LENGTH], secret[RANDOM_LENGTH:]
        return len(secret) == SECRET_LENGTH and hmac.compare_digest(tag.encode(), self._tag(random).encode())

    def _tag(self, random: str) -> str:
        digest = hmac.new(self.id.encode(), random.encode(), hashlib.sha256).hexdigest()
        return digest[: SECRET_LENGTH - RANDOM_LENGTH]


def load_identity(state: StateDir, *, new_kubernetes: bool = False) -> PlatformIdentity:
    """Return the identity of a folder; made, or read again from the database of Kubernetes, where its file is lost.

    Raises Refused where the database is another platform's, so that no file is replaced because of a wrong one; not
    with `new_kubernetes`, which puts the database aside.
    """
    known, database = _read(state.identity), database_platform(state.database)
    if known is None:
        # Parts that start at the same time on a folder of their own must not each make one.
        with hold_lock(state.lock("identity")):
            return _read(state.identity) or _make(state, database)
    if database not in (None, known.id) and not new_kubernetes:
        raise Refused(
            f"{foreign_database(state.database, str(database), known.id)}. If the database is right, and "
            f"{state.identity} is not this folder's, delete that one"
        )
    return known


def _make(state: StateDir, database: str | None) -> PlatformIdentity:
    if state.identity.exists():
        _log.warning("%s: was damaged; it is created again", state.identity)
    made = PlatformIdentity(database or secrets.token_hex(16), _earlier_secrets(state))
    content = {"platform": made.id, "earlierSecrets": dict(made.earlier)}
    write_atomically(state.identity, json.dumps(content) + "\n")
    return made


def foreign_database(path: Path, other: str, own: str) -> str:
    """Say that a database of Kubernetes is another platform's, and what to do."""
    return (
        f"{path}: belongs to another platform ({other[:8]}; this folder's is {own[:8]}). Nothing was changed. Put this "
        "platform's file back; or keep it aside and let an empty one begin: steelyard up --new-kubernetes "
        f"--state-dir {path.parent}"
    )


def database_platform(path: Path) -> str | None:
    """Return the platform that a database of Kubernetes names; None where it names none, or cannot be read now."""
    if not path.is_file():
        return None
    # Immutable: it takes no lock and writes nothing, whoever has the file; the name is as old as the file.
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(address, uri=True)) as file:
        row = file.execute("SELECT id FROM platform").fetchone()
        return str(row[0]) if row else None
    return None


def _read(path: Path) -> PlatformIdentity | None:
    try:
        content = json.loads(path.read_text())
        earlier = {str(name): str(digest) for name, digest in content.get("earlierSecrets", {}).items()}
        return PlatformIdentity(content["platform"], earlier) if _ID.fullmatch(content["platform"]) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _earlier_secrets(state: StateDir) -> dict[str, str]:
    """Digests of the secrets of a folder from before secrets named their platform: they stay good."""
    digests = {}
    for path in (state.token, state.signing_secret):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            digests[path.name] = _digest(path.read_text().strip())
    return digests


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
