"""The identity of the platform of a state folder: made once, and read by whatever writes into the folder.

`identity.json` has a random id. The folder's files name it (`steelyard_common.platform_identity`). The log, the view,
the accounts, the storage and the backup name the log that they belong to (`services/identity.py`).
"""

import contextlib
import json
import logging
import re
import secrets
import sqlite3
from pathlib import Path
from urllib.parse import quote

from steelyard.local.state import StateDir
from steelyard_common.durable import write_atomically
from steelyard_common.errors import Refused, UsageError
from steelyard_common.lock import hold_lock
from steelyard_common.platform_identity import PlatformIdentity, digest, foreign_database

_ID = re.compile(r"[0-9a-f]{32}")
_log = logging.getLogger(__name__)


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
            f"{foreign_database(state.database, str(database), known.id, begin_anew(state))}. If the database is "
            f"right, and {state.identity} is not this folder's, delete that one"
        )
    return known


def _make(state: StateDir, database: str | None) -> PlatformIdentity:
    if state.identity.exists():
        _log.warning("%s: was damaged; it is created again", state.identity)
    made = PlatformIdentity(database or secrets.token_hex(16), _earlier_secrets(state))
    content = {"platform": made.id, "earlierSecrets": dict(made.earlier)}
    write_atomically(state.identity, json.dumps(content) + "\n")
    return made


def begin_anew(state: StateDir) -> str:
    """Return the command that keeps the database of Kubernetes aside, and lets an empty one begin."""
    return f"steelyard up --new-kubernetes --state-dir {state.path}"


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
            digests[path.name] = digest(path.read_text().strip())
    return digests
