"""Where the platform is, and with which token: arguments, environment, or what runs on this machine."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.client.errors import NotConfigured


@dataclass(frozen=True)
class Connection:
    """An address, which ends in /v0, and a token."""

    endpoint: str
    token: str


def find(
    endpoint: str | None = None, token: str | None = None, environment: Mapping[str, str] = os.environ
) -> Connection:
    """The first that is set of: the arguments, `STEELYARD_API_…`, `DYFF_API_…`, the ready file of `./.steelyard`, that
    of the user's state folder. A token of a ready file goes to that file's address alone. Raises NotConfigured.
    """
    places = _ready_files(environment)
    found = endpoint or environment.get("STEELYARD_API_ENDPOINT") or environment.get("DYFF_API_ENDPOINT")
    secret = token or environment.get("STEELYARD_API_TOKEN") or environment.get("DYFF_API_TOKEN")
    for place in places if not (found and secret) else ():
        api, own = _read(place)
        if api is not None and found in (None, api):
            found, secret = found or api, secret or own
            break
    if found and secret:
        return Connection(found.rstrip("/"), secret)
    what, name = ("token", "STEELYARD_API_TOKEN") if found else ("address", "STEELYARD_API_ENDPOINT")
    looked = ", ".join(map(str, places))
    raise NotConfigured(
        f"there is no {what} of a platform: give it as an argument, set {name}, or start one with: steelyard up "
        f"(looked at {looked})"
    )


def _ready_files(environment: Mapping[str, str]) -> tuple[Path, Path]:
    base = environment.get("XDG_STATE_HOME") or ""
    home = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return Path(".steelyard/ready.json"), home / "steelyard" / "ready.json"


def _read(path: Path) -> tuple[str | None, str | None]:
    try:
        content = json.loads(path.read_text())
        return content["api"], content["token"]
    except (OSError, ValueError, KeyError):
        return None, None
