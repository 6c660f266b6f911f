"""Lost or damaged files of a state folder: what can be derived is made again, with a message.

What cannot be derived is refused with one line, which names the file and how to go on; nothing is made in its place
before a person has said so. `docs/files.md` has the list. The engines' files are `engines.py`'s matter.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from steelyard import bounded_toml
from steelyard.errors import Refused, SteelyardError
from steelyard.local.platform_identity import PlatformIdentity
from steelyard.local.state import StateDir
from steelyard.sqlite.presence import Presence

POLL_SECONDS = 1.0
_SUFFIXES = ("", "-wal", "-shm")


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
    """Let an empty database of Kubernetes begin; what was there is kept next to it."""
    from steelyard.local.apiserver.database import SqliteDatabase

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


async def watch(databases: Iterable[Path], stop: asyncio.Event, pause: float = POLL_SECONDS) -> None:
    """Watch the databases until `stop`. Raises SteelyardError once one that is in use was taken away,
    replaced or cut off.
    """
    known = [Presence(path) for path in databases]
    while not stop.is_set():
        for presence in known:
            if (fault := presence.fault()) is not None:
                raise SteelyardError(f"{fault}: the process ends, so that nothing is written to what is gone")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
