"""Lost or damaged files of a state folder: what can be derived is made again, with a message.

What cannot be derived is refused with one line, which names the file and how to go on; nothing is made in its place
before a person has said so. `docs/files.md` has the list. The engines' files are `engines.py`'s matter.
"""

import contextlib
import logging
import secrets
from collections.abc import Callable
from pathlib import Path

from steelyard.local.platform_identity import load_identity
from steelyard.local.state import StateDir, make_folder
from steelyard_common import bounded_toml
from steelyard_common.durable import write_atomically
from steelyard_common.errors import Refused
from steelyard_common.platform_identity import PlatformIdentity

_SUFFIXES = ("", "-wal", "-shm")
LEAST_SECRET = 32
"""Characters of a secret; one that we make has 43."""
_log = logging.getLogger(__name__)


def check_kubernetes(state: StateDir) -> None:
    """Raises Refused where the database of Kubernetes is gone, and something shows that there was one."""
    if state.database.exists() and state.database.stat().st_size:
        return
    # Only a folder on which Kubernetes has run before has a kubeconfig or the folders of Pods.
    witness = next(state.pods.iterdir(), None) if state.pods.is_dir() else None
    if state.kubeconfig.exists():
        witness = state.kubeconfig
    if witness is not None:
        condition = "is empty" if state.database.exists() else "is not there"
        raise Refused(
            f"{state.database}: {condition}, though {witness} is: resources that were made with kubectl would be lost, "
            "and Pods that run would end. Nothing was changed. Put the file back; or let an empty one begin, in which "
            f"what the platform has admitted is made again: steelyard up --new-kubernetes --state-dir {state.path}"
        )


def new_kubernetes(state: StateDir, say: Callable[[str], None]) -> None:
    """Let an empty database of Kubernetes begin; the old one is kept next to it."""
    from steelyard_local_kubernetes.apiserver.database import SqliteDatabase

    aside = state.database.with_name(f"{state.database.name}.aside-{secrets.token_hex(4)}")
    for suffix in _SUFFIXES:
        old = Path(f"{state.database}{suffix}")
        with contextlib.suppress(FileNotFoundError):
            old.rename(f"{aside}{suffix}")
            say(f"{old} is kept as {aside}{suffix}")
    SqliteDatabase(state.database).close()


def check_images(path: Path, identity: PlatformIdentity | None = None) -> None:
    """Raises Refused where the file that users write their images into cannot be read, or is another platform's."""
    try:
        text = bounded_toml.read(path)
        bounded_toml.load(text)
    except FileNotFoundError:
        return
    except (bounded_toml.BadToml, OSError) as error:
        raise Refused(
            f"{path}: is not valid TOML ({error}); mend it, or delete it: "
            "a new one, without images of yours, is then made"
        ) from error
    if identity is not None and identity.is_foreign(text):
        raise Refused(
            f"{path}: belongs to another platform, and names its programs. Put this platform's file back; or delete "
            "it; or take it over: delete its line '# steelyard platform ...'"
        )


def prepare(state: StateDir, *, new_kubernetes: bool = False) -> None:
    """Make the folder and its parts; only its owner may read it, since it holds a token.

    Raises Refused where its database of Kubernetes is another platform's, unless a new one is to begin.
    """
    make_folder(state, state.pki, state.pods, state.storage, state.logs)
    identity = load_identity(state, new_kubernetes=new_kubernetes)
    for secret in (state.token, state.signing_secret):
        _make_secret(secret, identity)


def _make_secret(path: Path, identity: PlatformIdentity) -> None:
    """Make files that are missing, damaged or another platform's: its holders would be let in."""
    try:
        text: str | None = path.read_text().strip()
    except FileNotFoundError:
        text = None
    except UnicodeDecodeError:
        text = ""
    if text is None or len(text) < LEAST_SECRET or not identity.is_own_secret(path.name, text):
        if text is not None:
            _log.warning(
                "%s: was damaged, or is another platform's; it is created again, and what was signed with it is no "
                "longer valid",
                path,
            )
        write_atomically(path, identity.new_secret())
